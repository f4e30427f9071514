"""What the runtimes log: at INFO and above never a value that came over the wire, whatever fails, and however.

Owns: both ends with every function of the user's failing, fed with lines that have a secret in each of their values.
That failures are logged at all, and how, is for the tests of whoever logs them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import pytest

import acpwire
from acpwire import v2
from acpwire.agent import Agent, AgentSession, UserPrompt, serve
from acpwire.client import Client
from acpwire.limits import Limits
from acpwire.testing import ScriptedPeer
from acpwire.transports import pair
from tests import fuzz
from tests.transports.loops import on_each_loop

SECRET = "hunter2"  # noqa: S105  # it opens nothing
SESSION = "s1"
"""Of a session that the agent's end has, the log gives the id, quoted: of many, it says which one it is about."""
LIMITS = Limits(grace=5, parse_errors=1_000_000)


def spoiled(line: bytes) -> Iterator[bytes]:
    """A line with the secret at each place where a value may be, one place at a time, then at all of them."""
    try:
        value = json.loads(line.decode().removeprefix("\ufeff"))
    except ValueError:
        yield line + SECRET.encode()
        yield SECRET.encode() + line
        return
    yield line
    places = list(leaves(value, ()))
    for place in places:
        yield json.dumps(replaced(value, {place})).encode()
    # what says which kind of message it is stays, so that it gets as far as it can
    kinds = {"jsonrpc", "method", "id", "sessionUpdate", "type", "state", "sessionId"}
    yield json.dumps(replaced(value, {place for place in places if place[-1:] and place[-1] not in kinds})).encode()


def members_of(value: Any) -> list[tuple[Any, Any]]:
    """The members of an object, or the items of an array with their numbers; of all else, nothing."""
    if isinstance(value, dict):
        return [*cast("Mapping[Any, Any]", value).items()]
    return [*enumerate(cast("Sequence[Any]", value))] if isinstance(value, list) else []


def leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The paths of all that is in a value, the inner ones first."""
    members = members_of(value)
    for key, one in members:
        yield from leaves(one, (*path, key))
    if not members:
        yield path


def replaced(value: Any, places: set[tuple[Any, ...]], path: tuple[Any, ...] = ()) -> Any:
    """A value with the secret at some places: behind a text, instead of all else."""
    if path in places:
        return f"{value} {SECRET}" if isinstance(value, str) else SECRET
    members = [(key, replaced(one, places, (*path, key))) for key, one in members_of(value)]
    if isinstance(value, dict):
        return dict(members)
    return [one for _, one in members] if isinstance(value, list) else value


class Broken(Exception):
    """What every function of the user's raises; of the wire it says nothing."""


def fails(*_: Any, **__: Any) -> Any:
    raise Broken("it broke")


async def fails_later(*_: Any, **__: Any) -> Any:
    await asyncio.sleep(0)
    raise Broken("it broke later")


def failing(kind: type[Any], *names: str, **members: Any) -> Any:
    """An agent or a client all of whose functions fail."""
    plain = {"update", "elicitation_complete", "child_session", "auth_status", "closed", "sent"}
    functions = {name: fails if name in plain else fails_later for name in names}
    return type("Failing", (kind,), {**functions, **members})()


class Records(logging.Handler):
    """The texts of all that is logged, tracebacks included."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


@pytest.fixture
def records() -> Iterator[Records]:
    """What is logged at INFO and above, by anybody."""
    found, root = Records(), logging.getLogger()
    before = root.level
    root.addHandler(found)
    root.setLevel(logging.INFO)
    yield found
    root.setLevel(before)
    root.removeHandler(found)


async def read_all(script: ScriptedPeer, ends: str) -> None:
    """Read what comes until the answer with this id."""
    while (await script.receive_json()).get("id") != ends:
        pass


def asked(request_id: int | str, method: str, **params: Any) -> dict[str, Any]:
    """A request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


@on_each_loop
async def test_an_agent_logs_no_value_of_the_wire(records: Records) -> None:
    """S-EX-01: of lines that are hostile, and of requests whose handlers fail."""
    names = ("list_sessions", "resume_session", "close_session", "delete_session", "fork_session", "set_title", "sent")
    text = [{"type": "text", "text": SECRET}]

    async def new_session(_: Agent, session: AgentSession) -> None:
        if session.cwd == "/broken":
            raise Broken("it broke")

    async def resume_session(_: Agent, session: AgentSession, replay_from: Any) -> None:
        if session.cwd == "/broken":
            raise Broken("it broke")

    async def prompt(_: Agent, session: AgentSession, user: UserPrompt) -> str:
        if user.text.startswith("reason"):
            return "no such reason"
        await session.agent_message().write(user.text)
        raise Broken("it broke")

    info = v2.Implementation(name="n", version="1")
    own = {"info": info, "new_session": new_session, "prompt": prompt, "resume_session": resume_session}
    left, right = pair()
    serving = asyncio.create_task(serve(failing(Agent, *names, **own), left, limits=LIMITS))
    async with ScriptedPeer(right) as script:
        await script.send(asked(0, "initialize", protocolVersion=2, info={"name": SECRET, "version": SECRET}))
        await script.receive()
        for method, params in (
            ("session/new", {"cwd": "/broken", "_meta": {"x": SECRET}}),
            ("session/list", {"cursor": SECRET}),
            ("session/resume", {"sessionId": SECRET, "cwd": "/broken"}),
            ("session/resume", {"sessionId": SESSION, "cwd": f"/{SECRET}"}),
            ("session/prompt", {"sessionId": SESSION, "prompt": text}),
            ("session/prompt", {"sessionId": SESSION, "prompt": [{"type": "text", "text": f"reason {SECRET}"}]}),
            ("session/fork", {"sessionId": SECRET, "cwd": "/"}),
            ("session/delete", {"sessionId": SECRET}),
            ("session/close", {"sessionId": SESSION, "_meta": {"x": SECRET}}),
            ("session/prompt", {"sessionId": f"no {SECRET}", "prompt": text}),
        ):
            await script.send(asked("x", method, **params))
            await read_all(script, "x")
        for _, line in fuzz.hostile().values():
            await script.send(*spoiled(line))
            await script.send(asked("fence", "_x/fence"))
            await read_all(script, "fence")
        await right.close()
        await serving
    assert any("it broke" in one for one in records.texts)
    assert [one for one in records.texts if SECRET in one] == []


@on_each_loop
async def test_the_id_of_a_session_is_quoted_so_that_it_forges_no_line_of_the_log(records: Records) -> None:
    forged = "s\nCRITICAL:root:all is lost"

    async def taken_up(*_: Any) -> None:
        pass

    async def fails(*_: Any) -> None:
        raise Broken("it broke")

    info = v2.Implementation(name="n", version="1")
    left, right = pair()
    agent = failing(Agent, "sent", "list_sessions", info=info, resume_session=taken_up, prompt=fails)
    serving = asyncio.create_task(serve(agent, left, limits=LIMITS))
    async with ScriptedPeer(right) as script:
        await script.send(asked(0, "initialize", protocolVersion=2, info={"name": "n", "version": "1"}))
        await script.receive()
        await script.send(asked(1, "session/resume", sessionId=forged, cwd="/"))
        await script.send(asked("x", "session/prompt", sessionId=forged, prompt=[{"type": "text", "text": "x"}]))
        await read_all(script, "x")
        await script.send(asked("y", "session/close", sessionId=forged))
        await read_all(script, "y")
        await right.close()
        await serving
    told = [line for one in records.texts for line in one.splitlines() if "all is lost" in line]
    assert told
    assert all(repr(forged) in line for line in told)


@on_each_loop
async def test_a_client_logs_no_value_of_the_wire(records: Records) -> None:
    """Of lines that are hostile, and of updates and requests whose handlers fail."""
    names = (
        *("update", "request_permission", "create_elicitation", "elicitation_complete", "mcp_message"),
        *("child_session", "auth_status", "closed"),
    )
    left, right = pair()
    options = [{"optionId": SECRET, "name": SECRET, "kind": "allow_once"}]
    schema = {"type": "object", "properties": {SECRET: {"type": "string", "title": SECRET}}}
    async with ScriptedPeer(left) as script:

        async def handshake() -> None:
            session: dict[str, Any] = {"session": {}}
            results: list[dict[str, Any]] = [
                {"protocolVersion": 2, "info": {"name": SECRET, "version": "1"}, "capabilities": session},
                {"sessionId": SESSION},
            ]
            for result in results:
                request = await script.receive_json()
                await script.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

        shaking = asyncio.create_task(handshake())
        async with acpwire.connect(right, failing(Client, *names), limits=LIMITS) as agent:
            session = await agent.new_session(cwd="/")
            await shaking
            updates: list[dict[str, Any]] = [
                {
                    "sessionUpdate": "agent_message_chunk",
                    "messageId": SECRET,
                    "content": {"type": "text", "text": SECRET},
                },
                {"sessionUpdate": "tool_call_update", "toolCallId": SECRET, "title": SECRET},
                {"sessionUpdate": f"_{SECRET}", "x": SECRET},
                {"sessionUpdate": "terminal_update", "terminalId": SECRET, "output": {"data": f"!{SECRET}"}},
                {"sessionUpdate": "terminal_output_chunk", "terminalId": SECRET, "data": f"!{SECRET}"},
            ]
            for one in updates:
                for session_id in (SESSION, SECRET):
                    params = {"sessionId": session_id, "update": one}
                    await script.send({"jsonrpc": "2.0", "method": "session/update", "params": params})
            for session_id in (SESSION, SECRET):
                await script.send(
                    asked(1, "session/request_permission", sessionId=session_id, title=SECRET, options=options),
                    asked(
                        2,
                        "elicitation/create",
                        mode="form",
                        sessionId=session_id,
                        message=SECRET,
                        requestedSchema=schema,
                    ),
                )
            for _, line in fuzz.hostile().values():
                await script.send(*spoiled(line))
                await script.send(asked("fence", "_x/fence"))
                await read_all(script, "fence")
            with suppress(acpwire.ConnectionClosed):
                asking = asyncio.create_task(session.prompt("hi"))
                await script.receive()
                await left.close()
                await asking
    assert any("it broke" in one for one in records.texts)
    assert [one for one in records.texts if SECRET in one] == []
