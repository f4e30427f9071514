"""Every public coroutine of peers, transports and their scripts, cancelled at each of its waits, one after the other.

Owns: the list of them, found by looking, so that a new one needs a walk. What each does when it is not cancelled is for
the tests of its own module; that no task, descriptor, thread or child is left is seen to by the runner.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from acpwire import testing, transports, v2
from acpwire.connection import Connection
from acpwire.limits import Limits
from acpwire.peer import Peer
from acpwire.testing import ScriptedAgent, ScriptedPeer
from acpwire.transports import Channel, ProcessTransport, spawn_process
from acpwire.transports import pair as in_memory
from tests.transports.loops import PROGRAMS, cancelled_at, on_each_loop, walk
from tests.transports.test_channels import Kind, Reader, over_pipes, over_strangers

LIST = v2.ListSessionsRequest()
NO_SESSIONS = v2.ListSessionsResponse(sessions=[])
BIG = b"x" * 3_000_000
Call = Callable[[], Coroutine[Any, Any, Any]]

CLASSES: tuple[type[Any], ...] = (Peer, Channel, ProcessTransport, ScriptedPeer)
NEVER_WAITS = {"Peer.__aenter__", "ScriptedPeer.__aenter__", "Channel.settled", "transports.spawn_process"}
"""These have nothing to wait for: there is no place at which they could be cancelled."""


def waits(what: Any) -> bool:
    """Whether calling something gives what is awaited."""
    what = getattr(what, "__wrapped__", what)  # of a function that a decorator made into a context
    if not callable(what) or isinstance(what, type):
        return False
    if inspect.iscoroutinefunction(what) or inspect.isasyncgenfunction(what):
        return True
    return str(inspect.signature(what).return_annotation).startswith(("Coroutine", "Awaitable"))


def coroutines() -> set[str]:
    """All that there are, by the class or module that has them first."""
    found = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in (testing, transports)
        for name in module.__all__
        if waits(getattr(module, name))
    }
    for kind in CLASSES:
        parents = [other for other in CLASSES if other is not kind and issubclass(kind, other)]
        for name in dir(kind):
            is_public = not name.startswith("_") or name in {"__aenter__", "__aexit__"}
            if is_public and waits(getattr(kind, name)) and not any(hasattr(other, name) for other in parents):
                found.add(f"{kind.__name__}.{name}")
    return found


async def walked(name: str, attempt: Callable[[int], Awaitable[bool]]) -> None:
    """Walk through all waits of something, of which there is at least one, unless it is known to have none."""
    if name in NEVER_WAITS:
        assert not await attempt(1)
    else:
        await walk(attempt)


# --- peers ------------------------------------------------------------------------------------------------------------


def cancel(size: int) -> v2.CancelSessionNotification:
    """A notification of about so many bytes."""
    return v2.CancelSessionNotification(session_id="x" * size)


PEER: dict[str, Callable[[Peer], Coroutine[Any, Any, Any]]] = {
    "request": lambda peer: peer.request(v2.SESSION_LIST, LIST),
    "notify": lambda peer: peer.notify(v2.SESSION_CANCEL, cancel(70_000)),
    "send_line": lambda peer: peer.send_line(v2.SESSION_CANCEL.notification(cancel(70_000))),
    "flow": lambda peer: peer.flow(),
    "drain": lambda peer: peer.drain(),
    "close": lambda peer: peer.close(),
    "wait_closed": lambda peer: peer.wait_closed(),
    "__aexit__": lambda peer: peer.__aexit__(None, None, None),
}


@pytest.mark.parametrize("name", list(PEER))
@on_each_loop
async def test_a_peer_goes_on_wherever_one_of_its_coroutines_was_cancelled(name: str) -> None:
    async def answer(_: object) -> v2.ListSessionsResponse:
        await asyncio.sleep(0)
        return NO_SESSIONS

    async def attempt(number: int) -> bool:
        async with testing.pair(agent={v2.SESSION_LIST: answer}, limits=Limits(unsent=1000)) as (agent, client):
            for _ in range(20):
                client.post(v2.SESSION_CANCEL, cancel(10_000))
            closing = asyncio.ensure_future(agent.close() if name == "wait_closed" else asyncio.sleep(0))
            was_cancelled = await cancelled_at(number, PEER[name](client))
            await closing
            if name in {"close", "wait_closed", "__aexit__"}:
                await client.wait_closed()
            else:
                assert await client.request(v2.SESSION_LIST, LIST) == NO_SESSIONS
                assert agent.counters.malformed == 0, "no half line was sent"
        return was_cancelled

    await walked(f"Peer.{name}", attempt)


# --- transports -------------------------------------------------------------------------------------------------------


async def all_of(channel: Channel) -> bytes:
    """What comes until the end."""
    found = bytearray()
    while block := await channel.read():
        found += block
    return bytes(found)


async def left_and_right(name: str, left: Channel, right: Channel, number: int) -> bool:
    """Cancel a method of `left`, whose other end is `right` or an echo, then see what has come of it."""
    is_process = right is left
    if name == "read":
        asyncio.get_running_loop().call_soon(right.send, b"hello\n")
        was_cancelled = await cancelled_at(number, left.read())
        if was_cancelled:
            assert await left.read() == b"hello\n", "nothing is lost"
    elif name in {"write", "end_output"}:
        reader = Reader(right)
        if name == "end_output":
            right.pause()  # until the other waits
            left.send(BIG)
            asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, right.resume)
        call: Call = left.end_output if name == "end_output" else partial(left.write, BIG)
        was_cancelled = await cancelled_at(number, call())
        if name == "write" or was_cancelled:
            await left.write(b"last")
            await reader.until(lambda: reader.data.endswith(b"last"))
            assert bytes(reader.data) in ({b"last", BIG + b"last"} if name == "write" else {BIG + b"last"})
        elif not isinstance(left, ProcessTransport) and await left.end_output():
            assert await reader.end() is None
            assert reader.data == BIG
    else:
        call = left.settled if name == "settled" else left.close
        reading = asyncio.ensure_future(asyncio.sleep(0) if is_process or name == "settled" else all_of(right))
        left.send(b"x" * 300_000)
        was_cancelled = await cancelled_at(number, call())
        await left.close()
        found: Any = await reading
        assert found in {None, b"x" * 300_000}
    await asyncio.gather(left.close(), right.close())
    return was_cancelled


@pytest.mark.parametrize("kind", [in_memory, over_pipes, over_strangers], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ["read", "write", "end_output", "close", "settled"])
@on_each_loop
async def test_a_transport_goes_on_wherever_one_of_its_coroutines_was_cancelled(name: str, kind: Kind) -> None:
    async def attempt(number: int) -> bool:
        left, right = kind()
        return await left_and_right(name, left, right, number)

    await walked(f"Channel.{name}", attempt)


async def echo() -> ProcessTransport:
    """A process that says what it is told."""
    return await spawn_process(sys.executable, PROGRAMS / "echo.py", limits=Limits(grace=5))


@pytest.mark.parametrize("name", ["read", "write", "end_output", "close"])
@on_each_loop
async def test_a_process_goes_on_wherever_a_coroutine_of_its_transport_was_cancelled(name: str) -> None:
    async def attempt(number: int) -> bool:
        child = await echo()
        return await left_and_right(name, child, child, number)

    await walked(f"ProcessTransport.{name}", attempt)


@pytest.mark.parametrize("name", ["wait", "settled"])
@on_each_loop
async def test_waiting_for_a_process_may_be_cancelled_and_its_end_is_known_all_the_same(name: str) -> None:
    async def attempt(number: int) -> bool:
        child = await spawn_process(sys.executable, PROGRAMS / "crash.py", "at-once")
        was_cancelled = await cancelled_at(number, child.wait() if name == "wait" else child.settled())
        assert await child.wait() == 3
        await child.close()
        assert child.stderr_tail == b"out of luck\n"
        return was_cancelled

    await walked(f"ProcessTransport.{name}", attempt)


@on_each_loop
async def test_starting_a_process_may_be_cancelled() -> None:
    async def start() -> None:
        child = await echo()
        try:
            await child.close()
        finally:
            await child.close()

    await walked("a process", lambda number: cancelled_at(number, start()))

    async def only_start() -> None:
        started.append(await echo())

    started: list[ProcessTransport] = []
    await walked("transports.spawn_process", lambda number: cancelled_at(number, only_start()))
    for child in started:
        await child.close()


# --- scripts ----------------------------------------------------------------------------------------------------------

A_LINE, B_LINE = b'{"a":1}\n', b'{"b":2}\n'
HEARD: dict[str, Callable[[ScriptedPeer], Coroutine[Any, Any, Any]]] = {
    "receive": lambda script: script.receive(),
    "receive_json": lambda script: script.receive_json(),
    "expect": lambda script: script.expect({"a": 1}),
}
SENT: dict[str, Callable[[ScriptedPeer], Coroutine[Any, Any, Any]]] = {
    "send": lambda script: script.send(BIG),
    "send_bytes": lambda script: script.send_bytes(BIG + b"\n"),
    "__aexit__": lambda script: script.__aexit__(None, None, None),
}


@pytest.mark.parametrize("name", list(HEARD))
@on_each_loop
async def test_a_script_that_is_cancelled_where_it_listens_loses_no_line(name: str) -> None:
    async def attempt(number: int) -> bool:
        left, right = in_memory()
        async with ScriptedPeer(left) as script:
            asyncio.get_running_loop().call_soon(right.send, A_LINE + B_LINE)
            was_cancelled = await cancelled_at(number, HEARD[name](script))
            if was_cancelled:
                await script.expect(A_LINE.rstrip())
            await script.expect(B_LINE.rstrip())
            await right.close()
        return was_cancelled

    await walked(f"ScriptedPeer.{name}", attempt)


@pytest.mark.parametrize("name", list(SENT))
@on_each_loop
async def test_a_script_that_is_cancelled_where_it_speaks_has_said_all_or_nothing(name: str) -> None:
    async def attempt(number: int) -> bool:
        left, right = over_pipes()
        script = ScriptedPeer(left)
        if name == "__aexit__":
            left.send(BIG + b"\n")
        reading = asyncio.ensure_future(all_of(right))
        was_cancelled = await cancelled_at(number, SENT[name](script))
        await script.__aexit__(None, None, None)
        assert await reading in {b"", BIG + b"\n"}
        await right.close()
        return was_cancelled

    await walked(f"ScriptedPeer.{name}", attempt)


@on_each_loop
async def test_a_script_that_is_cancelled_where_it_expects_nothing_gets_the_answer_later() -> None:
    async def attempt(number: int) -> bool:
        left, right = in_memory()
        async with ScriptedPeer(left) as script, ScriptedPeer(right) as other:

            async def answers() -> None:
                asked = await other.receive_json()
                await other.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}})

            answering = asyncio.ensure_future(answers())
            was_cancelled = await cancelled_at(number, script.expect_nothing())
            if was_cancelled:
                assert json.loads(await script.receive())["id"] == "fence 1"
            await answering
        return was_cancelled

    await walked("ScriptedPeer.expect_nothing", attempt)


@on_each_loop
async def test_a_script_that_is_cancelled_where_it_expects_the_end_finds_it_later() -> None:
    async def attempt(number: int) -> bool:
        left, right = in_memory()
        async with ScriptedPeer(left) as script:
            closing = asyncio.ensure_future(right.close())
            was_cancelled = await cancelled_at(number, script.expect_end())
            await script.expect_end()
            await closing
        return was_cancelled

    await walked("ScriptedPeer.expect_end", attempt)


@on_each_loop
async def test_entering_waits_for_nothing() -> None:
    left, right = in_memory()
    script = ScriptedPeer(left)
    await walked("ScriptedPeer.__aenter__", lambda number: cancelled_at(number, script.__aenter__()))
    connection = Connection("client", v2.decode_from_agent, v2.METHODS)
    peer = Peer(right, connection)
    await walked("Peer.__aenter__", lambda number: cancelled_at(number, peer.__aenter__()))
    await peer.close()
    await script.__aexit__(None, None, None)


# --- both ends --------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_two_peers_may_be_cancelled_from_their_beginning_to_their_end() -> None:
    async def use() -> None:
        async with testing.pair(agent={v2.SESSION_LIST: lambda _: NO_SESSIONS}) as (_, client):
            await client.request(v2.SESSION_LIST, LIST)

    await walked("testing.pair", lambda number: cancelled_at(number, use()))


@on_each_loop
async def test_an_agent_and_a_client_may_be_cancelled_from_their_beginning_to_their_end() -> None:
    async def use() -> None:
        async with testing.connect(ScriptedAgent(["hi"])) as agent:
            session = await agent.new_session(cwd="/")
            assert (await session.ask("x")).text == "hi"

    await walked("testing.connect", lambda number: cancelled_at(number, use()))


# --- the list ---------------------------------------------------------------------------------------------------------

WALKS = {
    *(f"Peer.{name}" for name in (*PEER, "__aenter__")),
    *(f"Channel.{name}" for name in ("read", "write", "end_output", "close", "settled")),
    "ProcessTransport.wait",
    *(f"ScriptedPeer.{name}" for name in (*HEARD, *SENT, "expect_nothing", "expect_end", "__aenter__")),
    "testing.pair",
    "testing.connect",
    "transports.spawn_process",
}


def test_every_coroutine_that_there_is_has_its_walk() -> None:
    assert coroutines() == WALKS
    assert NEVER_WAITS < WALKS
