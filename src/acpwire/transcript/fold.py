"""The fold: what each update does, by the rules of the page and the generated tables.

Owns: one function for each variant of `SessionUpdate`, and choosing it. Does not know: how what it changes is kept
(`store`), or who asked for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, cast

from acpwire import v2
from acpwire.wire import DecodeError
from acpwire.wire.lenient import Decoding, Tables
from acpwire.wire.values import WireStruct

from .content import Output
from .entities import Compaction, Message, Plan, SessionMessage, Subagent, Terminal, ToolCall, Unknown
from .frozen import frozen
from .snapshot import State, Usage
from .store import Store

Handler = Callable[[Store, Any], None]
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


def handler_of(update: Any, patches: Mapping[type, Any]) -> Handler:
    """What folds updates of this class; `patches` are those of its schema. Raises `TypeError` for anything else."""
    cls: type[Any] = update.__class__
    tag_field = cls.__struct_config__.tag_field if issubclass(cls, WireStruct) else None
    if tag_field == "sessionUpdate":
        return HANDLERS.get(update.tag, _unknown_update)
    if issubclass(cls, v2.UnknownVariant):
        return _unknown_update
    if tag_field is None and cls in patches and hasattr(update, "tool_call_id"):
        return _tool_call_update
    raise TypeError(f"{cls.__name__} is no session update")


def _unknown_update(store: Store, update: Any) -> None:
    if update.tag == "notice":  # live-only, whatever it is carried by (SU-04)
        store.notices.append(frozen(update))
        store.tell("notice", "", "created")
        return
    if not store.is_replayed(update):
        place = str(store.unknown)
        store.unknown += 1
        entity = store.find("unknown", place, lambda: Unknown(place, frozen(update)))
        store.changed(entity, "replaced")
    if update.tag == "state_update":  # a value that is not listed: busy, never idle (ST-14)
        _work_goes_on(store)
        _set_state(store, State(store.state.last_known, store.schema.StateUpdate(state="unknown")))


def _message(store: Store, update: Any) -> Message:
    sort = _SORTS[update.tag]
    message_id: str = update.message_id
    return store.find(sort, message_id, lambda: Message(message_id, store.blocks(), sort))


def _message_chunk(store: Store, update: Any) -> None:
    message = store.by_category[_SORTS[update.tag]].get(update.message_id) or _message(store, update)
    message.content.append(update.content)
    if store.observer is not None or not message.touched:
        store.changed(message, "appended", len(message.content) - 1)


def _message_update(store: Store, update: Any) -> None:
    message = _message(store, update)
    for _, blocks in store.patched(update):
        message.content = store.blocks(blocks)
    message.meta = store.meta(update, message.meta)
    store.changed(message, "replaced")


def _session_message(store: Store, update: Any) -> SessionMessage:
    message_id: str = update.message_id
    message = store.find("session_message", message_id, lambda: SessionMessage(message_id, store.blocks()))
    for attr in ("sender_session_id", "recipient_session_id"):
        value = getattr(update, attr, None)  # omitted and null leave what is known (X7)
        if value is not None and value is not v2.UNSET:
            setattr(message, attr, value)
    return message


def _session_message_chunk(store: Store, update: Any) -> None:
    message = _session_message(store, update)
    message.content.append(update.content)
    store.changed(message, "appended", len(message.content) - 1)


def _session_message_update(store: Store, update: Any) -> None:
    message = _session_message(store, update)
    for attr, value in store.patched(update):
        if attr == "content":
            message.content = store.blocks(value)
        elif attr in ("sender_message_id", "recipient_message_id"):
            setattr(message, attr, value)
    message.meta = store.meta(update, message.meta)
    store.changed(message, "replaced")


def _tool_call(store: Store, tool_call_id: str) -> ToolCall:
    return store.find("tool_call", tool_call_id, lambda: ToolCall(tool_call_id, store.blocks()))


def _tool_call_chunk(store: Store, update: Any) -> None:
    call = _tool_call(store, update.tool_call_id)
    call.content.append(update.content)
    store.changed(call, "appended", len(call.content) - 1)


def _tool_call_update(store: Store, update: Any) -> None:
    call = _tool_call(store, update.tool_call_id)
    for attr, value in store.patched(update):
        if attr == "content":
            call.content = store.blocks(value)
        elif attr == "locations":
            call.locations = tuple(frozen(value))
        else:
            setattr(call, attr, frozen(value))
            call.provisional = call.provisional and attr != "status"
    call.meta = store.meta(update, call.meta)
    store.changed(call, "replaced")


def _terminal(store: Store, terminal_id: str) -> Terminal:
    return store.find("terminal", terminal_id, lambda: Terminal(terminal_id))


def _terminal_chunk(store: Store, update: Any) -> None:
    terminal = _terminal(store, update.terminal_id)
    try:
        data = update.data_bytes
    except DecodeError as fault:
        log.warning("a chunk of a terminal's output is no base64 and adds nothing: %s", fault.message)
        return
    terminal.output = terminal.output or Output()
    start = len(terminal.output)
    terminal.output.append(data)
    store.changed(terminal, "appended", start)


def _terminal_update(store: Store, update: Any) -> None:
    terminal = _terminal(store, update.terminal_id)
    for attr, value in store.patched(update):
        if attr != "output":
            setattr(terminal, attr, frozen(value))
        elif value is None:
            terminal.output = None
        else:
            try:
                terminal.output = Output(value.data_bytes, value.meta)
            except DecodeError as fault:
                log.warning("the output of a terminal is no base64: %s", fault.message)
    terminal.meta = store.meta(update, terminal.meta)
    store.changed(terminal, "replaced")


class _Named(WireStruct, frozen=True):
    """All that is read of a plan of an unknown kind, which may be nested deeper than the whole can be read."""

    plan_id: str


_UNREAD = Decoding(Tables({}, {}, {}, {}))


def _plan_update(store: Store, update: Any) -> None:
    content = update.plan
    is_unknown = isinstance(content, v2.UnknownVariant)  # replaces all the same (PN-04)
    plan_id: str = _UNREAD.decode(_Named, content.raw).plan_id if is_unknown else content.plan_id
    plan = store.find("plan", plan_id, lambda: Plan(plan_id))
    plan.content = frozen(content)
    plan.meta = store.meta(update, plan.meta)
    store.changed(plan, "replaced")


def _plan_removed(store: Store, update: Any) -> None:
    store.remove("plan", update.plan_id)


def _commands(store: Store, update: Any) -> None:
    store.commands = tuple(frozen(update.available_commands))
    store.commands_meta = store.meta(update, store.commands_meta)
    store.tell("commands", "", "replaced")


def _config(store: Store, update: Any) -> None:
    store.config = tuple(frozen(update.config_options))
    store.config_meta = store.meta(update, store.config_meta)
    store.tell("config", "", "replaced")


def _info(store: Store, update: Any) -> None:
    meta = store.meta(update, store.info["meta"])
    store.info = frozen({**store.info, **dict(store.patched(update)), "meta": meta})
    store.tell("info", "", "replaced")


def _usage(store: Store, update: Any) -> None:
    known = store.usage or Usage(0, 0)
    cost = known.cost
    for _, value in store.patched(update):
        cost = frozen(value)
    store.usage = Usage(update.used, update.size, cost, store.meta(update, known.meta))
    store.tell("usage", "", "replaced")


def _notice(store: Store, update: Any) -> None:
    store.notices.append(frozen(update))
    store.tell("notice", "", "created")


def _compaction(store: Store, compaction_id: str) -> Compaction:
    return store.find("compaction", compaction_id, lambda: Compaction(compaction_id, store.blocks()))


def _compaction_chunk(store: Store, update: Any) -> None:
    compaction = _compaction(store, update.compaction_id)
    compaction.summary.append(update.content)
    store.changed(compaction, "appended", len(compaction.summary) - 1)


def _compaction_update(store: Store, update: Any) -> None:
    compaction = _compaction(store, update.compaction_id)
    if update.status is not v2.UNSET:
        compaction.status = "in_progress" if update.status is None else update.status
    for attr, value in store.patched(update):
        if attr == "summary":
            compaction.summary = store.blocks(value)
        elif attr == "error":
            compaction.error = value
    compaction.meta = store.meta(update, compaction.meta)
    store.changed(compaction, "replaced")


def _subagent(store: Store, update: Any) -> None:
    child: str = update.session_id
    subagent = store.find("subagent", child, lambda: Subagent(child))
    for attr, value in store.patched(update):
        is_list = attr == "additional_directories" and value is not None
        setattr(subagent, attr, tuple(cast("Iterable[str]", value)) if is_list else frozen(value))
    subagent.meta = store.meta(update, subagent.meta)
    store.changed(subagent, "replaced")


def _state(store: Store, update: Any) -> None:
    background = getattr(update, "background", None)
    if background is not None:
        store.background = tuple(background)
    if update.state == "unknown":  # no outcome, and what was known stays the last known (ST-12, ST-13)
        _set_state(store, State(store.state.last_known, frozen(update)))
        return
    if update.state != "idle":
        _work_goes_on(store)
    elif update.usage is not None and not (store.expected is not None and update == store.state.last_known):
        store.spent_last = frozen(update.usage)  # the newest snapshot of one idle counts, not each (ST-08, US-06)
    _set_state(store, State(frozen(update)))


def _work_goes_on(store: Store) -> None:
    """What is reported as spent from here on is spent on other work."""
    store.spent, store.spent_last = total(store.spent, store.spent_last), None


def _set_state(store: Store, state: State) -> None:
    if state != store.state:
        store.state = state
        store.tell("state", "", "replaced")


HANDLERS: dict[str, Callable[[Store, Any], None]] = {
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


def total(*usages: Any) -> Any:
    """Usages added, member by member; what none of them reports stays unreported."""
    reported = [usage for usage in usages if usage is not None]
    if len(reported) < 2:
        return reported[0] if reported else None
    names = [name for name in reported[0].__struct_fields__ if name.endswith("_tokens")]
    found = {name: [value for usage in reported if (value := getattr(usage, name)) is not None] for name in names}
    return type(reported[0])(**{name: sum(values) for name, values in found.items() if values})
