"""What the traffic of a published agent must look like, read from recordings.

Owns: rules that hold for any agent, whatever it was asked to do. Does not know: which agent it is, or the steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import acpwire
from acpwire import v2
from acpwire.capabilities import supports

from .model import Json

__all__ = ["count_updates", "tail", "wrong"]

_EMPTY: tuple[Any, ...] = (None, [], {})
_INDEX = re.compile(r"\[\d+\]")
_METHODS = {(name, side) for name, side, _ in v2.METHODS}
_HISTORY = frozenset(
    {"user_message", "user_message_chunk", "agent_message", "agent_message_chunk", "agent_thought", "tool_call_update"}
)


def wrong(capture: Path) -> Iterator[str]:
    """What is not as it must be in a recording, each with its requirement; the same is not said twice."""
    said: set[str] = set()
    for rule in (_form, _gates, _answers, _states, _calls, _prompts, _resumes):
        for problem in rule(list(acpwire.read_capture(capture))):
            if problem not in said:
                said.add(problem)
                yield problem


def count_updates(capture: Path) -> int:
    """How many updates are in a recording."""
    return sum(_update(record) is not None for record in acpwire.read_capture(capture))


def tail(capture: Path, lines: int = 12) -> list[str]:
    """The last lines of a recording, each cut off."""
    if not capture.exists():
        return []
    records = list(acpwire.read_capture(capture))[-lines:]
    return [f"{record.sender}: {record.line[:400].decode(errors='replace')}" for record in records]


def _update(record: acpwire.Record) -> v2.SessionUpdate | None:
    match record.message:
        case v2.Notification(params=v2.UpdateSessionNotification(update=update)):
            return update
        case _:
            return None


def _form(records: list[acpwire.Record]) -> Iterator[str]:
    """Every line is a message, with nothing in it that is not known or refused."""
    for record in records:
        if record.sender != "agent":
            continue
        message = record.message
        if isinstance(message, v2.Malformed):
            yield f"TR-02: no message: {message.message}: {record.line[:200]!r}"
            continue
        if record.fault is not None:
            yield f"ER-10: a result that does not fit: {record.fault}"
        method = getattr(message, "method", "")
        if method and not method.startswith(("_", "$/")) and (method, "client") not in _METHODS:
            yield f"EX-01: the method {method!r} is nobody's"
        value: Any = record.result if isinstance(message, v2.Response) else getattr(message, "params", None)
        if not isinstance(value, msgspec.Struct):
            continue
        name = _name(record)
        for violation in v2.validate(value):
            yield f"{violation.requirement}: {name}: {violation.message} - at `{_INDEX.sub('[]', violation.path)}`"
        raw = json.loads(record.line)
        given = raw["result"] if isinstance(message, v2.Response) else raw.get("params")
        for path in _more(given, json.loads(v2.encode(value)), "$"):
            yield f"MT-02: {name}: a member that the protocol does not have - at `{path}`"


def _name(record: acpwire.Record) -> str:
    update = _update(record)
    if update is not None:
        return str(update.tag)
    return getattr(record.message, "method", type(record.result).__name__)


def _more(given: Json, known: Json, path: str) -> Iterator[str]:
    """Where a JSON value has members that the other has not, and that say something."""
    if isinstance(given, dict) and isinstance(known, dict):
        for name, value in given.items():
            if name != "_meta" and name in known:
                yield from _more(value, known[name], f"{path}.{name}")
            elif name != "_meta" and value not in _EMPTY:
                yield f"{path}.{name}"
    elif isinstance(given, list) and isinstance(known, list):
        for one, other in zip(given, known, strict=False):
            yield from _more(one, other, f"{path}[]")


def _gates(records: list[acpwire.Record]) -> Iterator[str]:
    """Neither side uses what the other did not say that it has; this library's does not, either."""
    has: dict[str, Any] = {}
    for record in records:
        message = record.message
        if isinstance(record.result, v2.InitializeResponse):
            has["client"] = record.result.capabilities
        match message:
            case v2.Request(params=v2.InitializeRequest(capabilities=capabilities)):
                has["agent"] = capabilities
            case v2.Request(method=name) | v2.Notification(method=name):
                side: Any = "client" if record.sender == "agent" else "agent"
                method = v2.METHODS.get((name, side, "request" if isinstance(message, v2.Request) else "notification"))
                if method is not None and method.gate and not supports(has.get(record.sender or ""), method.gate):
                    yield f"IN-14: the {record.sender} sends {name} without {method.gate}"
            case _:
                pass


def _answers(records: list[acpwire.Record]) -> Iterator[str]:
    """Each request of the client is answered once, and no other; no id of the agent's is used twice at a time."""
    asked: dict[Any, str] = {}
    own: set[Any] = set()
    for record in records:
        match record.sender, record.message:
            case "client", v2.Request(id=name, method=method):
                asked[name] = method
            case "agent", v2.Response(id=name) | v2.ErrorResponse(id=name):
                if asked.pop(name, None) is None:
                    yield "RC-04: an answer to what was not asked, or answered before"
            case "agent", v2.Request(id=name):
                if name in own:
                    yield "ER-02: an id is used again while its request waits"
                own.add(name)
            case "client", v2.Response(id=name) | v2.ErrorResponse(id=name):
                own.discard(name)
            case _:
                pass
    for method in asked.values():
        yield f"RC-04: a request was never answered: {method}"


def _states(records: list[acpwire.Record]) -> Iterator[str]:
    """What is said of the foreground work fits what is done."""
    state, reports, waiting = "idle", False, 0
    replaying: set[Any] = set()
    for record in records:
        match record.sender, record.message:
            case "client", v2.Request(id=name, method="session/resume"):
                replaying.add(name)
            case "agent", v2.Response(id=name) | v2.ErrorResponse(id=name):
                replaying.discard(name)
            case "agent", v2.Request(method="session/request_permission"):
                waiting += 1
                if state != "requires_action":
                    yield f"ST-04: permission is asked for in the state {state}"
            case "client", v2.Response(result=result) if b'"outcome"' in bytes(result):
                waiting -= 1
            case _:
                pass
        update = _update(record)
        match update:
            case v2.StateUpdate():
                if update.state == "idle" and state in {"running", "requires_action"} and update.stop_reason is None:
                    yield "SR-01: work ends without a reason"
                if update.background is not None:
                    reports = True
                elif reports:
                    yield "BG-02: a state without the background that others had"
                state = update.state
            case v2.AgentMessageChunk() | v2.AgentMessage() | v2.AgentThoughtChunk() | v2.AgentThought():
                if state == "idle" and not replaying:
                    yield "ST-01: the agent speaks in a state of idle"
                if state == "requires_action" and not waiting:
                    yield "ST-05: work goes on in a state of requires_action"
            case _:
                pass


def _calls(records: list[acpwire.Record]) -> Iterator[str]:
    """Calls and terminals are told of from their beginning on, and calls as they go."""
    kinds: dict[str, str] = {}
    statuses: dict[str, list[str]] = {}
    asking: dict[Any, str] = {}
    allowed: set[str] = set()
    terminals: set[str] = set()
    for record in records:
        update: Any = _update(record)
        match record.message:
            case v2.Request(id=name, params=v2.RequestPermissionRequest(subject=v2.ToolCallPermissionSubject() as it)):
                update = it.tool_call
                asking[name] = update.tool_call_id
            case v2.Response(id=name, result=result) if record.sender == "client" and name in asking:
                call = asking.pop(name)
                statuses[call].clear()
                if b"allow" in bytes(result):
                    allowed.add(call)
            case _:
                pass
        match update:
            case v2.ToolCallUpdate(tool_call_id=call) | v2.ToolCallFields(tool_call_id=call):
                if call not in statuses and not isinstance(update.title, str):
                    yield "TC-04: the first report of a call has no title"
                if isinstance(update.kind, str):
                    kinds[call] = update.kind
                told = statuses.setdefault(call, [])
                if update.status == "completed" and call in allowed and "in_progress" not in told:
                    yield f"TC-06: a call of kind {kinds.get(call)} was never in progress after it was allowed"
                told.append(str(update.status))
            case v2.TerminalUpdate(terminal_id=terminal):
                if terminal not in terminals and not isinstance(update.command, str):
                    yield "TM-05: the first report of a terminal has no command"
                terminals.add(terminal)
            case _:
                pass


def _prompts(records: list[acpwire.Record]) -> Iterator[str]:
    """Each prompt that was accepted has an id of its own, and is reported once with its text."""
    prompts: dict[Any, str] = {}
    accepted: dict[str, str] = {}
    reported: dict[str, str] = {}
    for record in records:
        match record.message:
            case v2.Request(id=name, params=v2.PromptRequest(prompt=prompt)):
                prompts[name] = "".join(getattr(block, "text", "") for block in prompt)
            case v2.Response(id=name) if record.sender == "agent" and isinstance(record.result, v2.PromptResponse):
                if record.result.message_id in accepted:
                    yield "PL-19: two prompts have one id"
                accepted[record.result.message_id] = prompts[name]
            case _:
                pass
        match _update(record):
            case v2.UserMessage(message_id=name, content=list(content)):
                reported[name] = "".join(getattr(block, "text", "") for block in content)
            case v2.UserMessageChunk(message_id=name, content=block):
                reported[name] = reported.get(name, "") + getattr(block, "text", "")
            case _:
                pass
    for name, text in accepted.items():
        if reported.get(name) != text:
            yield f"PL-15: a prompt {text!r} was reported as {reported.get(name)!r}"


def _resumes(records: list[acpwire.Record]) -> Iterator[str]:
    """The state is told before a resume is answered, and after the history."""
    open_requests: dict[Any, list[str]] = {}
    for record in records:
        match record.message:
            case v2.Request(id=name, method="session/resume"):
                open_requests[name] = []
            case v2.Response(id=name) if record.sender == "agent" and name in open_requests:
                tags = open_requests.pop(name)
                if "state_update" not in tags:
                    yield "ST-09: a resume is answered before the state is told"
                history = [index for index, tag in enumerate(tags) if tag in _HISTORY]
                if history and "state_update" in tags and tags.index("state_update") < history[-1]:
                    yield "SS-16: the state is told before the end of the history"
            case _:
                update = _update(record)
                for tags in open_requests.values():
                    if update is not None:
                        tags.append(str(update.tag))
