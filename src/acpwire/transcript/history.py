"""A history, written out again: the fewest updates that rebuild a snapshot, materialised and in timeline order.

Owns: what each kind of entity is sent as. Does not know: the fold, files, or who asks. Nothing is a notice (SU-04).
A content of several blocks goes out as a primer with `content: []` and a chunk for each block, so that no line is
longer than its longest block; runs of plain text are cut at `PIECE`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from acpwire.wire.surrogates import encode_escaped
from acpwire.wire.values import checked

from .content import Blocks
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
from .snapshot import Snapshot

PIECE = 1 << 20
"""Characters of text, or bytes of output, in one update at most."""


def updates(snapshot: Snapshot, schema: ModuleType) -> Iterator[Any]:
    """The updates that rebuild `snapshot` in an empty transcript, and change nothing in one that replays them."""
    states = [each for each in (snapshot.state.last_known, snapshot.state.lost) if each is not None]
    unlisted = [each for each in snapshot.timeline if isinstance(each, Unknown) and each.update.tag == "state_update"]
    losing = unlisted[-1] if unlisted and snapshot.state.lost == schema.StateUpdate(state="unknown") else None
    for entity in snapshot.timeline:
        if entity is losing:  # takes away by itself what was known, in a schema without `unknown` as well
            yield from states[:-1]
        yield from _WRITERS[type(entity)](entity, schema)
    if snapshot.commands is not None:
        yield schema.AvailableCommandsUpdate(
            available_commands=list(snapshot.commands), **_given({"meta": snapshot.commands_meta})
        )
    if snapshot.config is not None:
        yield schema.ConfigOptionUpdate(config_options=list(snapshot.config), **_given({"meta": snapshot.config_meta}))
    info = _given(snapshot.info)
    if info:
        yield schema.SessionInfoUpdate(**info)
    if snapshot.usage is not None:
        used, size, cost, meta = snapshot.usage
        yield schema.UsageUpdate(used=used, size=size, cost=cost, **_given({"meta": meta}))
    if losing is None:
        yield from states


def line(update: Any) -> bytes:
    """An update as one line of JSON, its LF included; a lone surrogate stays one. Raises `EncodeError` on NaN."""
    return checked(update, encode_escaped) + b"\n"


def _given(members: Mapping[str, Any]) -> dict[str, Any]:
    """What has a value; the rest stays unset, which is what a first-seen entity makes of it."""
    return {name: value for name, value in members.items() if value is not None}


def _members(entity: Entity, *names: str) -> dict[str, Any]:
    return _given({name: getattr(entity, name) for name in (*names, "meta")})


def _with_content(
    update: Any, chunk: Callable[..., Any], key: str, members: dict[str, Any], content: Blocks
) -> Iterator[Any]:
    blocks = content.joined(PIECE)
    whole = len(blocks) < 2
    yield update(content=blocks if whole else [], **members)
    for block in [] if whole else blocks:
        yield chunk(**{key: members[key]}, content=block)


def _message(message: Message, schema: ModuleType) -> Iterator[Any]:
    update, chunk = {
        "user": (schema.UserMessage, schema.UserMessageChunk),
        "agent": (schema.AgentMessage, schema.AgentMessageChunk),
        "thought": (schema.AgentThought, schema.AgentThoughtChunk),
    }[message.category]
    yield from _with_content(
        update, chunk, "message_id", {"message_id": message.id, **_members(message)}, message.content
    )


def _session_message(message: SessionMessage, schema: ModuleType) -> Iterator[Any]:
    links = ("sender_session_id", "recipient_session_id", "sender_message_id", "recipient_message_id")
    members = {"message_id": message.id, **_members(message, *links)}
    yield from _with_content(schema.SessionMessage, schema.SessionMessageChunk, "message_id", members, message.content)


def _tool_call(call: ToolCall, schema: ModuleType) -> Iterator[Any]:
    names = ("name", "title", "kind", "status", "locations", "raw_input", "raw_output", "capabilities")
    members = {"tool_call_id": call.id, **_members(call, *names)}
    yield from _with_content(schema.ToolCallUpdate, schema.ToolCallContentChunk, "tool_call_id", members, call.content)


def _terminal(terminal: Terminal, schema: ModuleType) -> Iterator[Any]:
    members = _members(terminal, "command", "cwd", "exit_status", "size", "capabilities")
    data = b""
    if terminal.output is not None:
        data = bytes(terminal.output)
        its_own = _given({"meta": terminal.output.meta})
        members["output"] = schema.TerminalOutput(data=_base64(data[:PIECE]), **its_own)
    yield schema.TerminalUpdate(terminal_id=terminal.id, **members)
    for start in range(PIECE, len(data), PIECE):
        yield schema.TerminalOutputChunk(terminal_id=terminal.id, data=_base64(data[start : start + PIECE]))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _plan(plan: Plan, schema: ModuleType) -> Iterator[Any]:
    yield schema.PlanUpdate(plan=plan.content, **_members(plan))


def _compaction(compaction: Compaction, schema: ModuleType) -> Iterator[Any]:
    """A summary goes with `completed` alone (CP-14, CP-17): in any other state it goes out as it was streamed."""
    members = {"compaction_id": compaction.id, **_members(compaction, "error")}
    blocks = compaction.summary.joined()
    if not blocks or compaction.status == "completed":
        yield schema.CompactionUpdate(status=compaction.status, summary=blocks, **members)
        return
    meta = {name: members.pop(name) for name in ("meta",) if name in members}
    yield schema.CompactionUpdate(compaction_id=compaction.id, status="in_progress", summary=[], **meta)
    for block in compaction.summary.joined(PIECE):
        yield schema.CompactionSummaryChunk(compaction_id=compaction.id, content=block)
    if len(members) > 1 or compaction.status != "in_progress":
        yield schema.CompactionUpdate(status=compaction.status, **members)


def _subagent(child: Subagent, schema: ModuleType) -> Iterator[Any]:
    names = ("title", "description", "capabilities", "state", "cwd", "additional_directories")
    yield schema.SubagentUpdate(session_id=child.id, **_members(child, *names))


def _unknown(unknown: Unknown, schema: ModuleType) -> Iterator[Any]:  # noqa: ARG001  # the signature of all writers
    yield unknown.update


_WRITERS: dict[type[Entity], Callable[[Any, ModuleType], Iterator[Any]]] = {
    Message: _message,
    SessionMessage: _session_message,
    ToolCall: _tool_call,
    Terminal: _terminal,
    Plan: _plan,
    Compaction: _compaction,
    Subagent: _subagent,
    Unknown: _unknown,
}
