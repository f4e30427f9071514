"""The fold: applies one update after the other to a transcript, by the rules of the page and the generated tables.

Owns: `Transcript`, what each update does, and what observers are told. Does not know: connections, files, asyncio, or
how a history is written out again (`history`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, cast

from acpwire import v2
from acpwire.wire import DecodeError
from acpwire.wire.values import WireStruct

from . import history
from .content import Blocks, Output, owned
from .entities import (
    Compaction,
    Entity,
    Message,
    Plan,
    SessionMessage,
    Subagent,
    Terminal,
    ToolCall,
    Unknown,
)
from .snapshot import Snapshot, State, Usage

E = TypeVar("E", bound=Entity)
log = logging.getLogger(__name__)


_SORTS: dict[str, Literal["user", "agent", "thought"]] = {
    "user_message": "user",
    "user_message_chunk": "user",
    "agent_message": "agent",
    "agent_message_chunk": "agent",
    "agent_thought": "thought",
    "agent_thought_chunk": "thought",
}
"""Tag of a message's update -> whose message it is."""
_CATEGORIES = (
    *("user", "agent", "thought", "session_message", "tool_call", "terminal", "plan", "compaction", "subagent"),
    "unknown",
)


class Change(NamedTuple):
    """What one `apply` changed, for those who show it.

    `category` is that of the entity, or "state", "commands", "config", "info", "usage", "notice" (with no `id`).
    "appended": the content grew by what lies from `start` to its end; where it says "replaced", anything may have
    changed.
    """

    category: str
    id: str
    what: Literal["created", "appended", "replaced", "removed"]
    start: int = 0


class Transcript:
    """What a stream of updates adds up to (table B2 of the protocol, SU-*).

    `schema` is the generated package that the updates are made of; its tables say what is a patch, what null leaves
    behind and what `meta` does, so types of an older draft fold by its rules. `observer` is called after each `apply`
    with what changed. `cwd` and `additional_directories` are the session's own, which its children inherit.

    Nothing of an update is kept that could change: lists and dicts are copied. Nothing raises but what an observer
    raises. Not thread-safe.
    """

    def __init__(
        self,
        observer: Callable[[Change], None] | None = None,
        schema: ModuleType = v2,
        cwd: str | None = None,
        additional_directories: Iterable[str] = (),
    ) -> None:
        self.schema = schema
        self.cwd = cwd
        self.additional_directories = tuple(additional_directories)
        self._observer = observer
        self._timeline: list[Entity] = []
        self._frozen: list[Entity] = []
        self._places: dict[int, int] | None = None
        self._touched: list[Entity] = []
        self._by_kind: dict[str, dict[str, Any]] = {kind: {} for kind in _CATEGORIES}
        self._handler_of: dict[type, Callable[[Transcript, Any], None]] = {}
        self._messages: dict[tuple[str, str], Message] = {}
        self._unknown = 0
        self._spent: Any = None
        self._spending: Any = None
        self.state = State()
        """The session's foreground work, as last reported."""
        self.commands: tuple[Any, ...] | None = None
        """The slash commands; None until they are reported."""
        self.config: tuple[Any, ...] | None = None
        """The configuration options; None until they are reported."""
        self.info: Mapping[str, Any] = {"title": None, "updated_at": None, "meta": None}
        """The session's `title`, `updated_at` and `meta`."""
        self.usage: Usage | None = None
        """Context and cost of the session; None until they are reported."""
        self.notices: list[Any] = []
        """Notices in the order they came: events, not history (NT-05, NT-06)."""

    @classmethod
    def load(cls, lines: Iterable[str | bytes], schema: ModuleType = v2) -> Transcript:
        """Fold what `save` wrote: one update object a line, blank lines aside. Raises `DecodeError`."""
        transcript = cls(schema=schema)
        for line in lines:
            raw = line.encode() if isinstance(line, str) else line
            if raw.strip():
                transcript.apply(schema.decode(schema.SessionUpdate, raw))
        return transcript

    # -- views --

    @property
    def timeline(self) -> tuple[Entity, ...]:
        """All entities, in the order in which they were first seen (SU-10)."""
        return tuple(self._timeline)

    def _of(self, kind: str) -> Mapping[str, Any]:
        return self._by_kind[kind]

    @property
    def messages(self) -> Mapping[tuple[str, str], Message]:
        """(sort, ID) -> message; sorts are "user", "agent" and "thought"."""
        return self._messages

    @property
    def session_messages(self) -> Mapping[str, SessionMessage]:
        """ID -> message between sessions."""
        return self._of("session_message")

    @property
    def tool_calls(self) -> Mapping[str, ToolCall]:
        """ID -> tool call."""
        return self._of("tool_call")

    @property
    def terminals(self) -> Mapping[str, Terminal]:
        """ID -> terminal."""
        return self._of("terminal")

    @property
    def plans(self) -> Mapping[str, Plan]:
        """ID -> plan."""
        return self._of("plan")

    @property
    def compactions(self) -> Mapping[str, Compaction]:
        """ID -> compaction."""
        return self._of("compaction")

    @property
    def subagents(self) -> Mapping[str, Subagent]:
        """Session ID -> child."""
        return self._of("subagent")

    @property
    def last_message(self) -> Message | None:
        """The newest message of the agent."""
        found = [*self._of("agent").values()]
        return found[-1] if found else None

    @property
    def text(self) -> str:
        """The agent's answer so far: its messages since the user's last one, a blank line between them."""
        parts: list[str] = []
        for entity in reversed(self._timeline):
            if isinstance(entity, Message) and entity.sort != "thought":
                if entity.sort == "user":
                    break
                parts.append(entity.text)
        return "\n\n".join(reversed(parts))

    @property
    def spent(self) -> Any:
        """Tokens of all work that ended so far, each counted once (US-06); None while none was reported."""
        return _sum(self._spent, self._spending)

    def inherited_cwd(self, child: str) -> str | None:
        """The effective working directory of a child (SA-05)."""
        own: str | None = self.subagents[child].cwd
        return self.cwd if own is None else own

    def inherited_directories(self, child: str) -> tuple[str, ...]:
        """The effective additional directories of a child (SA-05)."""
        own = self.subagents[child].additional_directories
        return self.additional_directories if own is None else own

    # -- what can be done with it --

    def apply(self, update: Any) -> None:
        """Fold one update: any variant of `SessionUpdate`, or the `ToolCallFields` of a permission request (PM-03)."""
        handler = self._handler_of.get(update.__class__) or self._handler(update)
        handler(self, update)

    def _handler(self, update: Any) -> Callable[[Transcript, Any], None]:
        """What folds updates of this class, remembered for the next one. Raises `TypeError` for anything else."""
        cls: type[Any] = update.__class__
        tag_field = cls.__struct_config__.tag_field if issubclass(cls, WireStruct) else None
        if tag_field == "sessionUpdate":
            found = self._HANDLERS.get(update.tag, Transcript._unknown_update)
        elif cls is v2.UnknownVariant:
            found = Transcript._unknown_update
        elif tag_field is None and hasattr(update, "tool_call_id"):
            found = Transcript._tool_call_update
        else:
            raise TypeError(f"{cls.__name__} is no session update")
        self._handler_of[cls] = found
        return found

    def snapshot(self) -> Snapshot:
        """The transcript as it is now, for ever; what did not change since the last snapshot is shared with it."""
        for entity in self._touched:
            if entity.touched:
                entity.touched = False
                place = self._place(entity)
                if place is not None:
                    self._frozen[place] = entity.frozen()
        self._touched.clear()
        return Snapshot(
            timeline=tuple(self._frozen),
            state=self.state,
            commands=self.commands,
            config=self.config,
            info=self.info,
            usage=self.usage,
        )

    def updates(self) -> Iterator[Any]:
        """The updates that rebuild this history, materialised and in timeline order; no notices (SU-04, CP-17)."""
        return history.updates(self.snapshot(), self.schema)

    def save(self) -> Iterator[bytes]:
        """The same as JSON lines, one update object a line, each with its LF; `load` reads them."""
        return (self.schema.encode(update) + b"\n" for update in self.updates())

    def cancel_unfinished(self) -> None:
        """Mark the tool calls that have not ended as cancelled, provisionally (CA-02): `session/cancel` was sent."""
        for call in self.tool_calls.values():
            if not call.is_final and not call.provisional:
                call.provisional = True
                self._changed(call, "replaced")

    # -- the parts that all handlers share --

    def _place(self, entity: Entity) -> int | None:
        if self._places is None:
            self._places = {id(each): index for index, each in enumerate(self._timeline)}
        return self._places.get(id(entity))

    def _find(self, kind: str, entity_id: str, make: Callable[[], E]) -> E:
        """The entity of that ID, made at the end of the timeline where it is seen first."""
        found = self._by_kind[kind].get(entity_id)
        if found is None:
            found = self._by_kind[kind][entity_id] = make()
            if isinstance(found, Message):
                self._messages[kind, entity_id] = found
            if self._places is not None:
                self._places[id(found)] = len(self._timeline)
            self._timeline.append(found)
            self._frozen.append(found)
            self._touched.append(found)
            self._tell(kind, entity_id, "created")
        return cast("E", found)

    def _changed(self, entity: Entity, what: Literal["appended", "replaced"], start: int = 0) -> None:
        if not entity.touched:
            entity.touched = True
            self._touched.append(entity)
        if self._observer is not None:
            self._observer(Change(entity.category, entity.id, what, start))

    def _tell(self, kind: str, entity_id: str, what: Literal["created", "appended", "replaced", "removed"]) -> None:
        if self._observer is not None:
            self._observer(Change(kind, entity_id, what))

    def _blocks(self, blocks: Iterable[Any] = ()) -> Blocks:
        return Blocks(self.schema.TextContent, blocks)

    def _patched(self, update: Any) -> Iterator[tuple[str, Any]]:
        """Attribute and new value of everything that a patch sets: null leaves the table's reset behind."""
        for attr, reset in self.schema.PATCHES.get(type(update), {}).items():
            value = getattr(update, attr)
            if value is not v2.UNSET:
                yield attr, reset if value is None else value

    def _meta(self, update: Any, old: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """`meta` after a patch, by the rule of the type (MT-03); what chunks carry is theirs alone (MT-04)."""
        new, rule = update.meta, self.schema.META_RULES.get(type(update))
        if new is v2.UNSET or rule == "chunk":
            return old
        if new is None or rule != "patch":
            return cast("Mapping[str, Any] | None", owned(new))
        merged = {key: value for key, value in {**(old or {}), **owned(new)}.items() if value is not None}
        return merged or None

    # -- handlers, one for each update --

    def _unknown_update(self, update: Any) -> None:
        if update.tag == "notice":  # live-only, whatever it is carried by (SU-04)
            self.notices.append(update)
            self._tell("notice", "", "created")
            return
        place = str(self._unknown)
        self._unknown += 1
        entity = self._find("unknown", place, lambda: Unknown(place, owned(update)))
        self._changed(entity, "replaced")
        if update.tag == "state_update":  # a value that is not listed: busy, never idle (ST-14)
            self.state = State(self.state.last_known, confirmed=False)
            self._tell("state", "", "replaced")

    def _message(self, update: Any) -> Message:
        sort = _SORTS[update.tag]
        message_id: str = update.message_id
        return self._find(sort, message_id, lambda: Message(message_id, self._blocks(), sort))

    def _message_chunk(self, update: Any) -> None:
        message = self._by_kind[_SORTS[update.tag]].get(update.message_id) or self._message(update)
        message.content.append(update.content)
        if self._observer is not None or not message.touched:
            self._changed(message, "appended", len(message.content) - 1)

    def _message_update(self, update: Any) -> None:
        message = self._message(update)
        for _, blocks in self._patched(update):
            message.content = self._blocks(blocks)
        message.meta = self._meta(update, message.meta)
        self._changed(message, "replaced")

    def _session_message(self, update: Any) -> SessionMessage:
        message_id: str = update.message_id
        message = self._find("session_message", message_id, lambda: SessionMessage(message_id, self._blocks()))
        for attr in ("sender_session_id", "recipient_session_id"):
            value = getattr(update, attr, None)  # omitted and null leave what is known (X7)
            if value is not None and value is not v2.UNSET:
                setattr(message, attr, value)
        return message

    def _session_message_chunk(self, update: Any) -> None:
        message = self._session_message(update)
        message.content.append(update.content)
        self._changed(message, "appended", len(message.content) - 1)

    def _session_message_update(self, update: Any) -> None:
        message = self._session_message(update)
        for attr, value in self._patched(update):
            if attr == "content":
                message.content = self._blocks(value)
            elif attr in ("sender_message_id", "recipient_message_id"):
                setattr(message, attr, value)
        message.meta = self._meta(update, message.meta)
        self._changed(message, "replaced")

    def _tool_call(self, tool_call_id: str) -> ToolCall:
        return self._find("tool_call", tool_call_id, lambda: ToolCall(tool_call_id, self._blocks()))

    def _tool_call_chunk(self, update: Any) -> None:
        call = self._tool_call(update.tool_call_id)
        call.content.append(update.content)
        self._changed(call, "appended", len(call.content) - 1)

    def _tool_call_update(self, update: Any) -> None:
        call = self._tool_call(update.tool_call_id)
        for attr, value in self._patched(update):
            if attr == "content":
                call.content = self._blocks(value)
            elif attr == "locations":
                call.locations = tuple(owned(value))
            else:
                setattr(call, attr, owned(value))
                call.provisional = call.provisional and attr != "status"
        call.meta = self._meta(update, call.meta)
        self._changed(call, "replaced")

    def _terminal(self, terminal_id: str) -> Terminal:
        return self._find("terminal", terminal_id, lambda: Terminal(terminal_id))

    def _terminal_chunk(self, update: Any) -> None:
        terminal = self._terminal(update.terminal_id)
        try:
            data = update.data_bytes
        except DecodeError as fault:
            log.warning("terminal %s: a chunk is no base64 and adds nothing: %s", terminal.id, fault.message)
            return
        terminal.output = terminal.output or Output()
        start = len(terminal.output)
        terminal.output.append(data)
        self._changed(terminal, "appended", start)

    def _terminal_update(self, update: Any) -> None:
        terminal = self._terminal(update.terminal_id)
        for attr, value in self._patched(update):
            if attr != "output":
                setattr(terminal, attr, owned(value))
            elif value is None:
                terminal.output = None
            else:
                try:
                    terminal.output = Output(value.data_bytes)
                except DecodeError as fault:
                    log.warning("terminal %s: its output is no base64: %s", terminal.id, fault.message)
        terminal.meta = self._meta(update, terminal.meta)
        self._changed(terminal, "replaced")

    def _plan_update(self, update: Any) -> None:
        content = update.plan
        is_unknown = isinstance(content, v2.UnknownVariant)  # replaces all the same (PN-04)
        plan_id: str = content.data["planId"] if is_unknown else content.plan_id
        plan = self._find("plan", plan_id, lambda: Plan(plan_id))
        plan.content = owned(content)
        self._changed(plan, "replaced")

    def _plan_removed(self, update: Any) -> None:
        plan = self._by_kind["plan"].pop(update.plan_id, None)
        if plan is not None:
            place = self._place(plan)
            if place is not None:
                del self._timeline[place], self._frozen[place]
            self._places = None
            self._tell("plan", update.plan_id, "removed")

    def _commands(self, update: Any) -> None:
        self.commands = tuple(owned(update.available_commands))
        self._tell("commands", "", "replaced")

    def _config(self, update: Any) -> None:
        self.config = tuple(owned(update.config_options))
        self._tell("config", "", "replaced")

    def _info(self, update: Any) -> None:
        self.info = {**self.info, **dict(self._patched(update)), "meta": self._meta(update, self.info["meta"])}
        self._tell("info", "", "replaced")

    def _usage(self, update: Any) -> None:
        cost = self.usage.cost if self.usage is not None else None
        for _, value in self._patched(update):
            cost = owned(value)
        self.usage = Usage(update.used, update.size, cost)
        self._tell("usage", "", "replaced")

    def _notice(self, update: Any) -> None:
        self.notices.append(owned(update))
        self._tell("notice", "", "created")

    def _compaction(self, compaction_id: str) -> Compaction:
        return self._find("compaction", compaction_id, lambda: Compaction(compaction_id, self._blocks()))

    def _compaction_chunk(self, update: Any) -> None:
        compaction = self._compaction(update.compaction_id)
        compaction.summary.append(update.content)
        self._changed(compaction, "appended", len(compaction.summary) - 1)

    def _compaction_update(self, update: Any) -> None:
        compaction = self._compaction(update.compaction_id)
        if update.status is not v2.UNSET:
            compaction.status = "in_progress" if update.status is None else update.status
        for attr, value in self._patched(update):
            if attr == "summary":
                compaction.summary = self._blocks(value)
            elif attr == "error":
                compaction.error = value
        compaction.meta = self._meta(update, compaction.meta)
        self._changed(compaction, "replaced")

    def _subagent(self, update: Any) -> None:
        child: str = update.session_id
        subagent = self._find("subagent", child, lambda: Subagent(child))
        for attr, value in self._patched(update):
            is_list = attr == "additional_directories" and value is not None
            setattr(subagent, attr, tuple(cast("Iterable[str]", value)) if is_list else owned(value))
        subagent.meta = self._meta(update, subagent.meta)
        self._changed(subagent, "replaced")

    def _state(self, update: Any) -> None:
        before = self.state
        if update.state == "unknown":  # no outcome, and what was known stays the last known (ST-12, ST-13)
            self.state = State(before.last_known, confirmed=False)
        else:
            self.state = State(owned(update))
            if update.state != "idle":
                self._spent, self._spending = self.spent, None
            elif update.usage is not None:  # the newest snapshot of one idle counts, not each (ST-08, US-06)
                self._spending = update.usage
        if self.state != before:
            self._tell("state", "", "replaced")

    _HANDLERS: ClassVar[dict[str, Callable[[Transcript, Any], None]]] = {
        **dict.fromkeys([tag for tag in _SORTS if tag.endswith("chunk")], _message_chunk),
        **dict.fromkeys([tag for tag in _SORTS if not tag.endswith("chunk")], _message_update),
        "session_message": _session_message_update,
        "session_message_chunk": _session_message_chunk,
        "tool_call_update": _tool_call_update,
        "tool_call_content_chunk": _tool_call_chunk,
        "terminal_update": _terminal_update,
        "terminal_output_chunk": _terminal_chunk,
        "plan_update": _plan_update,
        "plan_removed": _plan_removed,
        "available_commands_update": _commands,
        "config_option_update": _config,
        "session_info_update": _info,
        "usage_update": _usage,
        "notice": _notice,
        "compaction_update": _compaction_update,
        "compaction_summary_chunk": _compaction_chunk,
        "subagent_update": _subagent,
        "state_update": _state,
    }
    """Tag of an update -> what it does; the tags are the protocol's and do not change with the schema."""


def _sum(*usages: Any) -> Any:
    """Usages added, member by member; what none of them reports stays unreported."""
    reported = [usage for usage in usages if usage is not None]
    if len(reported) < 2:
        return reported[0] if reported else None
    names = [name for name in reported[0].__struct_fields__ if name.endswith("_tokens")]
    found = {name: [value for usage in reported if (value := getattr(usage, name)) is not None] for name in names}
    return type(reported[0])(**{name: sum(values) for name, values in found.items() if values})
