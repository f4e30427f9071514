"""What comes of asking the user: an answer that cannot be mistaken for another.

Owns: `Permission`, `Elicited`, how outcomes are read, and questions that nobody waits for. Does not know: sessions, or
how a question is sent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from acpwire import v2
from acpwire.errors import UsageError
from acpwire.forms import problems

__all__ = ["OPTIONS", "Elicited", "Permission", "awaited"]

P = ParamSpec("P")
R = TypeVar("R")

OPTIONS: Final[tuple[v2.PermissionOption, ...]] = (
    v2.PermissionOption(option_id="allow_once", name="Allow", kind="allow_once"),
    v2.PermissionOption(option_id="reject_once", name="Reject", kind="reject_once"),
)
"""What the user may choose from, unless an agent offers something else."""
_ALLOWS: Final = frozenset({"allow_once", "allow_always"})


class _Question(Coroutine[Any, Any, R]):
    """A question that is asked when it is awaited, and has no answer before: as a condition it is refused.

    A coroutine is always true; `if session.request_permission(...)` would do what nobody allowed (PM-07, EL-07).
    """

    def __init__(self, asking: Coroutine[Any, Any, R], name: str) -> None:
        self._asking = asking
        self.__name__ = self.__qualname__ = name

    def __bool__(self) -> bool:
        asking = getattr(inspect.currentframe(), "f_back", None)
        if asking is not None and asking.f_globals.get("__name__") == "asyncio.base_tasks":
            return True  # since Python 3.12 the `repr` of a task, which that module makes, asks whether it has one
        self._asking.close()
        raise UsageError(f"PM-07, EL-07: nobody was asked yet: await session.{self.__name__}(...)")

    def __await__(self) -> Generator[Any, Any, R]:
        return self._asking.__await__()

    def send(self, value: Any) -> Any:
        """As of any coroutine."""
        return self._asking.send(value)

    def throw(self, *error: Any) -> Any:
        """As of any coroutine."""
        return self._asking.throw(*error)

    def close(self) -> None:
        """As of any coroutine."""
        self._asking.close()


def awaited(method: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
    """Make a question of what a coroutine function asks."""

    @wraps(method)
    def ask(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return _Question(method(*args, **kwargs), method.__name__)

    return ask


@dataclass(frozen=True)
class Permission:
    """What the user decided. True only where an option that allows was selected, and it was offered (PM-07..PM-11).

    Attributes:
        option: the `v2.PermissionOption` that was selected; None: cancelled, failed, or not understood.
        allowed: whether what was asked for may be done, which its truth says, too.
    """

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
    """What the user answered. True only where it was accepted (EL-06, EL-07).

    Attributes:
        action: "accept", "decline" or "cancel".
        content: the values of the form, by name; empty unless it was accepted.
        problems: what is wrong with them.
        accepted: whether the user agreed, and what was filled in fits, which its truth says, too.
    """

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
