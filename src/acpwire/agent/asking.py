"""What comes of asking the user: an answer that cannot be mistaken for another.

Owns: `Permission`, `Elicited`, and how outcomes are read. Does not know: sessions, or how a question is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from acpwire import v2
from acpwire.forms import problems

__all__ = ["OPTIONS", "Elicited", "Permission"]

OPTIONS: Final[tuple[v2.PermissionOption, ...]] = (
    v2.PermissionOption(option_id="allow_once", name="Allow", kind="allow_once"),
    v2.PermissionOption(option_id="reject_once", name="Reject", kind="reject_once"),
)
"""What the user may choose from, unless an agent offers something else."""
_ALLOWS: Final = frozenset({"allow_once", "allow_always"})


@dataclass(frozen=True)
class Permission:
    """What the user decided. True only where an option that allows was selected, and it was offered (PM-07..PM-11)."""

    option: v2.PermissionOption | None
    """The option that was selected, if it was offered; None: cancelled, failed, or not understood."""

    @property
    def allowed(self) -> bool:
        """Whether what was asked for may be done."""
        return self.option is not None and self.option.kind in _ALLOWS

    def __bool__(self) -> bool:
        return self.allowed

    @classmethod
    def of(cls, response: v2.RequestPermissionResponse | None, options: Sequence[v2.PermissionOption]) -> Permission:
        """Read an answer to a question with these options; None: it failed."""
        outcome = None if response is None else response.outcome
        chosen = outcome.option_id if isinstance(outcome, v2.SelectedPermissionOutcome) else None
        return cls(next((option for option in options if option.option_id == chosen), None))


@dataclass(frozen=True)
class Elicited:
    """What the user answered. True only where it was accepted (EL-06, EL-07)."""

    action: str
    """"accept", "decline" or "cancel"; an action that is not known counts as "cancel"."""
    content: Mapping[str, Any]
    """The values of the form; empty unless it was accepted."""
    problems: Sequence[str] = ()
    """What is wrong with them, by the form's schema (EL-08); with any, the answer is not accepted."""

    @property
    def accepted(self) -> bool:
        """Whether the user agreed, and what was filled in fits."""
        return self.action == "accept" and not self.problems

    def __bool__(self) -> bool:
        return self.accepted

    @classmethod
    def of(cls, response: v2.CreateElicitationResponse | None, schema: v2.ElicitationSchema | None) -> Elicited:
        """Read an answer to a form with this schema; None: it failed."""
        if isinstance(response, v2.ElicitationAcceptAction):
            content = dict(response.content or {})
            return cls("accept", content, [] if schema is None else problems(schema, content))
        return cls("decline" if isinstance(response, v2.ElicitationDeclineAction) else "cancel", {})
