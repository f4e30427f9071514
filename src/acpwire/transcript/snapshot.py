"""A transcript at one moment, for ever: what stores keep and what user interfaces compare.

Owns: `Snapshot`, and the parts of a session that are no entities. Does not know: updates, or how they fold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .entities import Entity


class Usage(NamedTuple):
    """Tokens in the context window, its size, and what the session has cost so far (US-02, US-05)."""

    used: int
    size: int
    cost: Any = None
    meta: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class State:
    """The session's foreground work: what was last known of it, and whether that still holds (ST-12)."""

    last_known: Any = None
    """The last `state_update` that told a state which this version knows; None before the first: idle (ST-07)."""
    lost: Any = None
    """The `unknown` that came since; for a value that is not listed, which stands on the timeline, a plain one."""

    @property
    def confirmed(self) -> bool:
        """Whether what was last known still holds; if not, it is no longer to be presented as what is (ST-12)."""
        return self.lost is None

    @property
    def value(self) -> str:
        """`running`, `idle`, `requires_action`; `unknown` while nothing is confirmed (ST-12, ST-14)."""
        if not self.confirmed:
            return "unknown"
        return "idle" if self.last_known is None else str(self.last_known.state)

    @property
    def is_idle(self) -> bool:
        """Whether a prompt may be sent: certain, or False."""
        return self.value == "idle"

    @property
    def stop_reason(self) -> str | None:
        """Why work ended; it counts only with `idle` (X4)."""
        return self.last_known.stop_reason if self.last_known is not None and self.is_idle else None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A transcript as it was.

    Equality leaves out notices, provisional marks and the `_meta` of chunks, and joins adjacent plain text.
    """

    timeline: tuple[Entity, ...]
    state: State
    commands: tuple[Any, ...] | None
    commands_meta: Mapping[str, Any] | None
    config: tuple[Any, ...] | None
    config_meta: Mapping[str, Any] | None
    info: Mapping[str, Any]
    usage: Usage | None

    __hash__ = None  # type: ignore[assignment]  # it holds entities and mappings, which have none
