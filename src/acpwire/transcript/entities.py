"""What a transcript consists of: one class for each kind of entity that updates address.

Owns: their members, first-seen defaults, and the copies that snapshots hold. Does not know: updates, or how they fold.
Entities belong to their transcript: read them, keep snapshots. Equality leaves out what is provisional.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from acpwire.wire.v2.unions import VALUES

from .content import Blocks, Output

Sort = Literal["user", "agent", "thought"]
_NOT_COMPARED = ("touched", "is_frozen", "provisional")
FINAL = frozenset({"completed", "failed", "cancelled"})


@dataclass(slots=True, eq=False)
class Entity:
    """Something with a place on the timeline; `category` and `id` together name it. Those of a snapshot are frozen."""

    id: str
    category: ClassVar[str] = "entity"
    touched: bool = field(default=True, init=False, repr=False)
    """Whether it changed since the last snapshot."""
    is_frozen: bool = field(default=False, init=False, repr=False)
    """Whether it is part of a snapshot, and refuses to be changed."""

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "is_frozen", False):
            raise AttributeError(f"a snapshot does not change: cannot set {name!r}")
        object.__setattr__(self, name, value)

    def frozen(self) -> Self:
        """The entity as it is now; what grows is shared up to here."""
        twin = dataclasses.replace(self)
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Blocks | Output):
                setattr(twin, each.name, value.frozen())
        twin.is_frozen = True
        return twin

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = [each.name for each in dataclasses.fields(self) if each.name not in _NOT_COMPARED]
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]  # entities change


@dataclass(slots=True, eq=False)
class Message(Entity):
    """A message of the user or the agent, or a thought; each kind has its own space of IDs (SU-09)."""

    content: Blocks
    sort: Sort = "agent"
    meta: Mapping[str, Any] | None = None

    @property
    def category(self) -> str:  # type: ignore[override]  # the one class whose entities are of several categories
        """Its sort."""
        return self.sort

    @property
    def text(self) -> str:
        """Its text, joined."""
        return self.content.text


@dataclass(slots=True, eq=False)
class SessionMessage(Entity):
    """A message between sessions, as one of them sees it (SM-09).

    Show from whom or to whom it is where that is known, which may be later than the message (SM-08).
    """

    category: ClassVar[str] = "session_message"
    content: Blocks
    sender_session_id: str | None = None
    recipient_session_id: str | None = None
    sender_message_id: str | None = None
    recipient_message_id: str | None = None
    meta: Mapping[str, Any] | None = None

    @property
    def text(self) -> str:
        """Its text, joined."""
        return self.content.text


@dataclass(slots=True, eq=False)
class ToolCall(Entity):
    """A tool call, with the defaults of a first-seen ID (TC-03)."""

    category: ClassVar[str] = "tool_call"
    content: Blocks
    name: str | None = None
    title: str | None = None
    kind: str = "other"
    status: str = "pending"
    locations: tuple[Any, ...] = ()
    raw_input: Any = None
    raw_output: Any = None
    capabilities: Any = None
    meta: Mapping[str, Any] | None = None
    provisional: bool = False
    """We marked it as cancelled, the agent has not said so (CA-02); a status that it reports overrides (CA-08)."""

    @property
    def may_cancel(self) -> bool:
        """Whether `tool_call/cancel` may be sent for it (TC-18)."""
        return _may_cancel(self)

    @property
    def is_final(self) -> bool:
        """Whether it has ended; an unknown status has not (TC-11)."""
        return self.status in FINAL

    @property
    def display_kind(self) -> str:
        """The kind to show: `other` where this version does not know it (TC-11)."""
        return self.kind if self.kind in VALUES["ToolKind"] else "other"

    @property
    def display_status(self) -> str:
        """The status to show: cancelled as soon as the user wanted it."""
        return "cancelled" if self.provisional and not self.is_final else self.status


@dataclass(slots=True, eq=False)
class Terminal(Entity):
    """A terminal of the agent; `output` is None while nothing is known of it, `exit_status` until it exits (TM-08)."""

    category: ClassVar[str] = "terminal"
    output: Output | None = None
    command: str | None = None
    cwd: str | None = None
    exit_status: Any = None
    size: Any = None
    capabilities: Any = None
    meta: Mapping[str, Any] | None = None

    @property
    def may_cancel(self) -> bool:
        """Whether `terminal/cancel` may be sent for it (TM-11)."""
        return _may_cancel(self)

    @property
    def text(self) -> str:
        """The output as text, "" while none is known."""
        return self.output.text if self.output is not None else ""


@dataclass(slots=True, eq=False)
class Plan(Entity):
    """A plan, as it was last sent (PN-03, PN-04)."""

    category: ClassVar[str] = "plan"
    content: Any = None
    meta: Mapping[str, Any] | None = None


@dataclass(slots=True, eq=False)
class Compaction(Entity):
    """A compaction; it changes nothing else, least of all earlier history (CP-19)."""

    category: ClassVar[str] = "compaction"
    summary: Blocks
    status: str = "in_progress"
    error: str | None = None
    meta: Mapping[str, Any] | None = None


@dataclass(slots=True, eq=False)
class Subagent(Entity):
    """A child session. `cwd` and `additional_directories` are None where they are the parent's (SA-05)."""

    category: ClassVar[str] = "subagent"
    title: str | None = None
    description: str | None = None
    capabilities: Any = None
    state: Any = None
    """Its last snapshot; None while its activity is unconfirmed, which is not idle (SA-04)."""
    cwd: str | None = None
    additional_directories: tuple[str, ...] | None = None
    meta: Mapping[str, Any] | None = None

    @property
    def may_cancel(self) -> bool:
        """Whether `session/cancel` may be sent for it (SA-06)."""
        return _may_cancel(self)


def _may_cancel(entity: ToolCall | Terminal | Subagent) -> bool:
    return entity.capabilities is not None and entity.capabilities.cancel is not None


@dataclass(slots=True, eq=False)
class Unknown(Entity):
    """An update that this version does not know, in its place, exactly as it came (SU-03)."""

    category: ClassVar[str] = "unknown"
    update: Any = None
