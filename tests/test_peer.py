"""The pump: order, answers, cancellation, back-pressure and the end, in memory and over real pipes and processes."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

import pytest
from msgspec import Raw
from msgspec.structs import replace

from acpwire import v2
from acpwire.connection import Connection, Ignored, Role, Tap
from acpwire.errors import ConnectionClosed, DecodeError, EncodeError, RequestError, StreamOverflow, UsageError
from acpwire.limits import Limits
from acpwire.peer import TURN, Handler, Peer, after_answer
from acpwire.streams import HIGH, Feed, Stream
from acpwire.testing import ScriptedPeer, pair
from acpwire.trace import trace_context
from acpwire.transports import Transport, spawn_process
from acpwire.transports import pair as pair_of_transports
from acpwire.wire import Method
from tests import fuzz
from tests.transports.loops import PROGRAMS, cancelled_at, on_each_loop

HOSTILE = fuzz.hostile()
LIST = v2.ListSessionsRequest()
NO_SESSIONS = v2.ListSessionsResponse(sessions=[])
NEW = v2.NewSessionRequest(cwd="/")
Handlers = Mapping[Method[Any, Any], Handler]


def client_of(
    transport: Transport, handlers: Handlers | None = None, limits: Limits | None = None, **other: Any
) -> Peer:
    """A client's peer over a transport."""
    tap: Tap | None = other.pop("tap", None)
    connection = Connection("client", v2.decode_from_agent, v2.METHODS, limits=limits, tap=tap)
    return Peer(transport, connection, handlers, **other)


def agent_of(
    transport: Transport, handlers: Handlers | None = None, limits: Limits | None = None, **other: Any
) -> Peer:
    """An agent's peer over a transport."""
    return Peer(transport, Connection("agent", v2.decode_from_client, v2.METHODS, limits=limits), handlers, **other)


def chunk(number: int) -> v2.UpdateSessionNotification:
    """An update that says which it is."""
    update = v2.AgentMessageChunk(message_id=str(number), content=v2.TextContent(text="text"))
    return v2.UpdateSessionNotification(session_id="s", update=update)


def alike(number: int) -> v2.UpdateSessionNotification:
    """One that says so in its text, and differs from others in nothing else."""
    update = v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text=str(number)))
    return v2.UpdateSessionNotification(session_id="s", update=update)


def number_of(params: v2.UpdateSessionNotification) -> int:
    """Which update it is."""
    assert isinstance(params.update, v2.AgentMessageChunk)
    return int(params.update.message_id)


def update_line(number: int) -> dict[str, Any]:
    """The line of that update, for a script."""
    return {"jsonrpc": "2.0", "method": "session/update", "params": json.loads(v2.encode(chunk(number)))}


def answer_line(request_id: int | str, result: Any) -> dict[str, Any]:
    """A line that answers a request, for a script."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something holds; the test's own time bounds it."""
    while not condition():  # noqa: ASYNC110  # what is waited for has no event
        await asyncio.sleep(0)


# --- order ------------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_an_update_before_an_answer_is_delivered_before_the_waiter_wakes() -> None:
    """S-OR-01, S-OR-02, in one write; `arrived` has the answer's place."""
    left, right = pair_of_transports()
    seen: list[Any] = []
    async with (
        ScriptedPeer(right) as script,
        client_of(left, {v2.SESSION_UPDATE: lambda p: seen.append(number_of(p))}) as peer,
    ):

        async def ask() -> None:
            await peer.request(v2.SESSION_NEW, NEW, arrived=lambda result: seen.append(result.session_id))
            seen.append("awake")

        task = asyncio.create_task(ask())
        await script.receive()
        await script.send(update_line(1), answer_line(0, {"sessionId": "s"}), update_line(2))
        await task
        assert seen[:3] == [1, "s", 2]
        assert seen.index("awake") > seen.index(1)


@on_each_loop
async def test_updates_to_a_handler_that_awaits_at_random_keep_the_wires_order() -> None:
    """S-OR-03."""
    seen: list[int] = []
    chance = random.Random(7)  # noqa: S311  # no secret

    async def handler(params: v2.UpdateSessionNotification) -> None:
        for _ in range(chance.choice([0, 0, 0, 1, 3])):
            await asyncio.sleep(0)
        seen.append(number_of(params))

    async with pair(client={v2.SESSION_UPDATE: handler}, agent={v2.SESSION_LIST: lambda _: NO_SESSIONS}) as (
        agent,
        client,
    ):
        for number in range(10_000):
            await agent.notify(v2.SESSION_UPDATE, chunk(number))
        await until(lambda: len(seen) == 10_000)
        assert seen == list(range(10_000))
        await client.request(v2.SESSION_LIST, LIST)


@on_each_loop
async def test_a_request_and_updates_are_handled_in_the_wires_order() -> None:
    """A plain handler's answer is written before anything that follows is looked at."""
    seen: list[str] = []

    def answer(_: object) -> v2.ListSessionsResponse:
        seen.append("asked")
        return NO_SESSIONS

    left, right = pair_of_transports()
    handlers: Handlers = {v2.SESSION_LIST: answer, v2.SESSION_CANCEL: lambda p: seen.append(p.session_id)}
    async with ScriptedPeer(right) as script, agent_of(left, handlers):
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "one"}}
        asks = {"jsonrpc": "2.0", "id": 1, "method": "session/list"}
        await script.send(cancel, asks, cancel)
        await script.expect(answer_line(1, {"sessions": []}))
        assert seen == ["one", "asked", "one"]


@on_each_loop
async def test_a_failing_handler_of_notifications_costs_nobody_else_anything(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    def handler(params: v2.UpdateSessionNotification) -> Awaitable[None] | None:
        number = number_of(params)
        if number == 0:
            raise ValueError("sync")
        return waits(number)

    async def waits(number: int) -> None:
        if number == 1:
            raise ValueError("async")
        if number == 2:
            raise asyncio.CancelledError
        seen.append(number)

    with caplog.at_level(logging.ERROR):
        async with pair(client={v2.SESSION_UPDATE: handler}) as (agent, _):
            for number in range(4):
                await agent.notify(v2.SESSION_UPDATE, chunk(number))
            await until(lambda: seen == [3])
    assert len(caplog.records) == 3


@on_each_loop
async def test_a_slow_handler_leaves_the_loop_its_turns() -> None:
    """A block of lines is interrupted when its turn is over: others run before it is all delivered."""
    turns = 0
    at: list[int] = []

    def handler(_: object) -> None:
        at.append(turns)
        end = asyncio.get_running_loop().time() + 0.0001
        while asyncio.get_running_loop().time() < end:
            pass

    async with pair(client={v2.SESSION_UPDATE: handler}) as (agent, _):
        for number in range(400):
            agent.post(v2.SESSION_UPDATE, chunk(number))
        await agent.drain()
        while len(at) < 400:
            await asyncio.sleep(0)
            turns += 1
    assert len(set(at)) >= 5, "40 ms of work in turns of about 1 ms"


@on_each_loop
async def test_a_handler_that_takes_longer_than_a_turn_has_each_turn_alone() -> None:
    """The loop is never held for longer than one of them takes."""
    turn, turns = 0, list[int]()

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def slow(_: v2.UpdateSessionNotification) -> None:
        end = time.perf_counter() + 2 * TURN
        while time.perf_counter() < end:
            pass
        turns.append(turn)

    left, right = pair_of_transports()
    counting = asyncio.create_task(count())
    async with ScriptedPeer(left) as script, client_of(right, {v2.SESSION_UPDATE: slow}):
        await script.send(*map(update_line, range(100)))
        await until(lambda: len(turns) == 100)
    counting.cancel()
    await asyncio.wait([counting])
    assert len(set(turns)) == 100


# --- answers ----------------------------------------------------------------------------------------------------------


async def raises_value_error(_: object) -> None:
    await asyncio.sleep(0)
    raise ValueError("hunter2 is the password")


def raises_at_once(_: object) -> None:
    raise ValueError("hunter2 is the password")


async def raises_request_error(_: object) -> None:
    raise RequestError(4, "no", {"why": "because"})


async def is_cancelled(_: object) -> None:
    raise asyncio.CancelledError


def is_cancelled_at_once(_: object) -> None:
    raise asyncio.CancelledError


def fails_a_test(_: object) -> None:
    pytest.fail("hunter2 is the password")  # which is no Exception


async def fails_a_test_later(_: object) -> None:
    await asyncio.sleep(0)
    pytest.fail("hunter2 is the password")


async def never_awaits(_: object) -> v2.ListSessionsResponse:
    return NO_SESSIONS


def answers_at_once(_: object) -> v2.ListSessionsResponse:
    return NO_SESSIONS


def answers_no_json(_: object) -> Any:
    return {"x": float("nan")}


async def raises_no_json(_: object) -> None:
    raise RequestError(4, "no", {"x": float("inf")})


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (raises_value_error, {"error": {"code": -32603, "message": "Internal error"}}),
        (raises_at_once, {"error": {"code": -32603, "message": "Internal error"}}),
        (raises_request_error, {"error": {"code": 4, "message": "no", "data": {"why": "because"}}}),
        (is_cancelled, {"error": {"code": -32800, "message": "Request cancelled"}}),
        (is_cancelled_at_once, {"error": {"code": -32800, "message": "Request cancelled"}}),
        (fails_a_test, {"error": {"code": -32603, "message": "Internal error"}}),
        (fails_a_test_later, {"error": {"code": -32603, "message": "Internal error"}}),
        (never_awaits, {"result": {"sessions": []}}),
        (answers_at_once, {"result": {"sessions": []}}),
        (answers_no_json, {"error": {"code": -32603, "message": "Internal error"}}),
        (raises_no_json, {"error": {"code": 4, "message": "no"}}),
    ],
)
@on_each_loop
async def test_a_handler_is_answered_exactly_once_however_it_ends(
    handler: Handler, expected: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """S-CA-03, S-EX-01, RC-06: the peer gets no text of an exception; the log has it."""
    left, right = pair_of_transports()
    with caplog.at_level(logging.ERROR):
        async with ScriptedPeer(right) as script, agent_of(left, {v2.SESSION_LIST: handler}):
            await script.send({"jsonrpc": "2.0", "id": 1, "method": "session/list"})
            await script.expect({"jsonrpc": "2.0", "id": 1, **expected})
            await script.send({"jsonrpc": "2.0", "id": 1, "method": "no/such"})
            assert (await script.receive_json())["error"]["code"] == -32601, "the id is free again"
            await script.expect_nothing()
    if "ValueError" in str(handler.__name__) or handler is raises_at_once:
        assert "hunter2" in caplog.text


@pytest.mark.parametrize("error", [asyncio.CancelledError, ValueError, pytest.fail.Exception])
@pytest.mark.parametrize("sort", ["plain", "waiting"])
@on_each_loop
async def test_whatever_a_handler_of_notifications_raises_all_that_follows_comes(
    sort: str, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """ER-01: the answer in the same block, too."""
    seen: list[int] = []

    def plain(params: v2.UpdateSessionNotification) -> None:
        seen.append(number_of(params))
        raise error("no")

    async def waiting(params: v2.UpdateSessionNotification) -> None:
        await asyncio.sleep(0)
        plain(params)

    left, right = pair_of_transports()
    handler = plain if sort == "plain" else waiting
    with caplog.at_level(logging.ERROR):
        async with ScriptedPeer(left) as script, client_of(right, {v2.SESSION_UPDATE: handler}) as client:
            asking = asyncio.create_task(client.request(v2.SESSION_NEW, NEW))
            await script.receive()
            await script.send(*map(update_line, range(1, 4)), answer_line(0, {"sessionId": "s"}))
            assert (await asking).session_id == "s"
    assert seen == [1, 2, 3]
    assert {record.name for record in caplog.records} == {"acpwire.failures"}


@pytest.mark.parametrize("sort", ["plain", "waiting"])
def test_a_program_that_goes_on_after_all_gets_the_rest(sort: str) -> None:
    """An interrupt at a prompt, say, where a loop runs again."""
    seen: list[int] = []

    def plain(params: v2.UpdateSessionNotification) -> None:
        seen.append(number_of(params))
        if len(seen) == 1:
            raise KeyboardInterrupt

    async def waiting(params: v2.UpdateSessionNotification) -> None:
        plain(params)

    left, right = pair_of_transports()
    handler = plain if sort == "plain" else waiting

    async def first() -> None:
        client_of(right, {v2.SESSION_UPDATE: handler}).start()
        left.start(lambda _: None, lambda _: None)
        left.send(b"".join(json.dumps(update_line(number)).encode() + b"\n" for number in range(1, 4)))
        await until(lambda: bool(seen))
        await asyncio.sleep(0)

    async def then() -> None:
        await until(lambda: len(seen) == 3)
        await left.close()
        await right.close()

    def swallow(*_: object) -> None:
        """The loop tells of the task that was interrupted."""

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(swallow)
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(first())
    loop.run_until_complete(then())
    loop.close()
    assert seen == [1, 2, 3]


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("sort", ["plain", "waiting", "notification"])
def test_a_handler_may_end_the_program_and_its_request_is_answered_all_the_same(
    sort: str, error: type[BaseException]
) -> None:
    lines: list[bytes] = []

    def plain(_: object) -> None:
        raise error(3)

    async def waiting(_: object) -> None:
        raise error(3)

    async def run() -> None:
        left, right = pair_of_transports()
        connection = Connection(
            "agent",
            v2.decode_from_client,
            v2.METHODS,
            tap=lambda role, line: lines.append(line) if role == "agent" else None,
        )
        handlers: Handlers = {v2.SESSION_LIST: waiting if sort == "waiting" else plain, v2.SESSION_CANCEL: plain}
        async with Peer(left, connection, handlers), ScriptedPeer(right) as script:
            if sort == "notification":
                await script.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}})
            else:
                await script.send({"jsonrpc": "2.0", "id": 1, "method": "session/list"})
            await script.receive_json()

    with pytest.raises(error):
        asyncio.run(run())
    assert [json.loads(line)["error"]["code"] for line in lines] == ([] if sort == "notification" else [-32603])


@on_each_loop
async def test_a_known_method_without_a_handler_is_not_found() -> None:
    observed: list[Ignored] = []
    async with pair(observer=observed.append) as (agent, client):
        with pytest.raises(RequestError) as error:
            await client.request(v2.SESSION_LIST, LIST)
        assert error.value.code == -32601
        await client.notify(v2.SESSION_CANCEL, v2.CancelSessionNotification(session_id="s"))
        await until(lambda: bool(observed))
        assert "handles" in observed[0].reason
        assert agent.counters.answers == 1


@on_each_loop
async def test_the_answer_of_a_request_is_typed_and_a_bad_one_raises() -> None:
    left, right = pair_of_transports()
    async with ScriptedPeer(right) as script, client_of(left) as peer:
        for answer, expected in (
            ({"result": {"sessionId": "s"}}, None),
            ({"result": {"sessionId": 5}}, DecodeError),
            ({"error": {"code": 5, "message": "m"}}, RequestError),
            ({"error": "m"}, DecodeError),
        ):
            task = asyncio.create_task(peer.request(v2.SESSION_NEW, NEW))
            asked = await script.receive_json()
            await script.send({"jsonrpc": "2.0", "id": asked["id"], **answer})
            if expected is None:
                assert await task == v2.NewSessionResponse(session_id="s")
            else:
                with pytest.raises(expected):
                    await task


@on_each_loop
async def test_params_that_are_no_json_raise_where_they_are_sent() -> None:
    async with pair() as (agent, client):
        bad = v2.NewSessionRequest(cwd="/", meta={"x": float("nan")})
        with pytest.raises(EncodeError):
            await client.request(v2.SESSION_NEW, bad)
        with pytest.raises(EncodeError):
            await agent.notify(
                v2.SESSION_UPDATE,
                v2.UpdateSessionNotification(session_id="s", update=v2.PlanUpdate(plan=cast("Any", object()))),
            )
        with pytest.raises(RequestError):
            await client.request(v2.SESSION_LIST, LIST)


@on_each_loop
async def test_a_request_in_a_handler_of_notifications_is_refused_at_once_and_works_in_a_task_of_its_own() -> None:
    results: list[Any] = []

    async def handler(_: object) -> None:
        try:
            await client.request(v2.SESSION_LIST, LIST)
        except UsageError as error:
            results.append(str(error))
        results.append(asyncio.create_task(client.request(v2.SESSION_LIST, LIST)))

    async with pair(agent={v2.SESSION_LIST: lambda _: NO_SESSIONS}, client={v2.SESSION_UPDATE: handler}) as (
        agent,
        client,
    ):
        await agent.notify(v2.SESSION_UPDATE, chunk(1))
        await until(lambda: len(results) == 2)
        assert "session/list" in results[0]
        assert await results[1] == NO_SESSIONS


@pytest.mark.parametrize("fails", [False, True])
@on_each_loop
async def test_what_is_to_happen_after_an_answer_happens_right_after_it_and_not_after_an_error(fails: bool) -> None:
    left, right = pair_of_transports()

    def more() -> None:
        agent.post(v2.SESSION_UPDATE, chunk(1))
        raise ValueError("logged")

    def at_once(_: object) -> v2.ListSessionsResponse:
        after_answer(more)
        if fails:
            raise RequestError(1, "no")
        return NO_SESSIONS

    async def later(params: object) -> v2.ListSessionsResponse:
        await asyncio.sleep(0)
        return at_once(params)

    with pytest.raises(UsageError):
        after_answer(more)
    async with (
        ScriptedPeer(right) as script,
        agent_of(left, {v2.SESSION_LIST: at_once, v2.SESSION_NEW: later}) as agent,
    ):
        for method, params in (("session/list", {}), ("session/new", {"cwd": "/"})):
            await script.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            assert ("error" in await script.receive_json()) == fails
            if not fails:
                await script.expect(update_line(1))
            await script.expect_nothing()


@on_each_loop
async def test_a_line_that_is_sent_as_it_is_keeps_its_place() -> None:
    left, right = pair_of_transports()
    async with ScriptedPeer(right) as script, agent_of(left) as agent:
        await agent.notify(v2.SESSION_UPDATE, chunk(1))
        await agent.send_line(b'{"jsonrpc":"2.0","method":"_x"}\n')
        await agent.notify(v2.SESSION_UPDATE, chunk(2))
        await script.expect(update_line(1), {"jsonrpc": "2.0", "method": "_x"}, update_line(2))
        for _ in range(20):
            await agent.send_line(b'"' + b"x" * 10_000 + b'"\n')
        await agent.close()
        with pytest.raises(ConnectionClosed):
            await agent.send_line(b"{}\n")


# --- cancellation -----------------------------------------------------------------------------------------------------


@on_each_loop
async def test_cancelling_who_waits_cancels_the_request_and_its_late_answer_is_dropped() -> None:
    """RC-01, RC-08."""
    left, right = pair_of_transports()
    async with ScriptedPeer(right) as script, client_of(left) as peer:
        task = asyncio.create_task(peer.request(v2.SESSION_NEW, NEW))
        await script.receive()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await script.expect({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 0}})
        await script.send(answer_line(0, {"sessionId": "late"}))
        await script.expect_nothing()
        assert peer.counters.drops == 1


@on_each_loop
async def test_an_error_that_comes_as_its_waiter_is_cancelled_is_nobodys() -> None:
    left, right = pair_of_transports()
    async with ScriptedPeer(right) as script, client_of(left, {v2.SESSION_UPDATE: lambda _: task.cancel()}) as peer:
        task = asyncio.create_task(peer.request(v2.SESSION_NEW, NEW))
        await script.receive()
        await script.send({"jsonrpc": "2.0", "id": 0, "error": {"code": 5, "message": "m"}}, update_line(1))
        with pytest.raises(asyncio.CancelledError):
            await task
        await script.expect_nothing()


@on_each_loop
async def test_a_cancelled_request_gets_its_own_ending_or_minus_32800() -> None:
    """RC-03, RC-04: the handler may say how it ends."""

    async def gives_in(_: object) -> None:
        await asyncio.Event().wait()

    async def ends_well(_: object) -> v2.NewSessionResponse:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return v2.NewSessionResponse(session_id="after all")

    left, right = pair_of_transports()
    async with ScriptedPeer(right) as script, agent_of(left, {v2.SESSION_LIST: gives_in, v2.SESSION_NEW: ends_well}):
        await script.send(
            {"jsonrpc": "2.0", "id": 1, "method": "session/list"},
            {"jsonrpc": "2.0", "id": "1", "method": "session/new", "params": {"cwd": "/"}},
        )
        await script.expect_nothing()
        await script.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
        await script.expect({"jsonrpc": "2.0", "id": 1, "error": {"code": -32800, "message": "Request cancelled"}})
        await script.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
        await script.expect_nothing()
        await script.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "1"}})
        await script.expect(answer_line("1", {"sessionId": "after all"}))


@on_each_loop
async def test_a_request_that_is_cancelled_before_its_handler_began_is_answered_too() -> None:
    """RC-04: in one write, so that both are there before any task runs."""

    async def waits(_: object) -> None:
        await asyncio.Event().wait()

    left, right = pair_of_transports()
    async with ScriptedPeer(right) as script, agent_of(left, {v2.SESSION_LIST: waits}):
        await script.send(
            {"jsonrpc": "2.0", "id": 1, "method": "session/list"},
            {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}},
        )
        await script.expect({"jsonrpc": "2.0", "id": 1, "error": {"code": -32800, "message": "Request cancelled"}})
        await script.expect_nothing()


@on_each_loop
async def test_every_coroutine_may_be_cancelled_wherever_it_waits() -> None:
    """Whatever is cancelled at whichever of its waits, the connection goes on and nothing is left."""

    async def answer(_: object) -> v2.ListSessionsResponse:
        await asyncio.sleep(0)
        return NO_SESSIONS

    for name in ("request", "notify", "drain", "close", "wait_closed"):
        number, waited = 0, True
        while waited:
            number += 1
            assert number < 30
            async with pair(agent={v2.SESSION_LIST: answer}, limits=Limits(unsent=1000)) as (agent, client):
                for _ in range(20):
                    client.post(v2.SESSION_CANCEL, v2.CancelSessionNotification(session_id="x" * 10_000))
                big = v2.CancelSessionNotification(session_id="x" * 70_000)
                calls: dict[str, Callable[[], Any]] = {
                    "request": partial(client.request, v2.SESSION_LIST, LIST),
                    "notify": partial(client.notify, v2.SESSION_CANCEL, big),
                    "drain": client.drain,
                    "close": client.close,
                    "wait_closed": client.wait_closed,
                }
                closing = asyncio.create_task(agent.close() if name == "wait_closed" else asyncio.sleep(0))
                waited = await cancelled_at(number, calls[name]())
                await closing
                if name in {"close", "wait_closed"}:
                    await client.wait_closed()
                else:
                    assert await client.request(v2.SESSION_LIST, LIST) == NO_SESSIONS
        assert number > 1, f"{name} never waited"


@on_each_loop
async def test_what_sends_returns_a_coroutine_whatever_is_done_with_it() -> None:
    """It is sent by the call, in the order of the calls; awaiting it, in any way that asyncio knows, waits for room."""
    seen: list[int] = []

    def show(params: v2.UpdateSessionNotification) -> None:
        seen.append(number_of(params))

    async with pair(client={v2.SESSION_UPDATE: show}) as (agent, _):
        numbers = iter(range(100))

        def send() -> Any:
            return agent.notify(v2.SESSION_UPDATE, chunk(next(numbers)))

        twice = send()
        assert asyncio.iscoroutine(twice)
        assert not asyncio.isfuture(twice)
        await twice
        await twice
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(send())
        await asyncio.gather(send(), send())
        await asyncio.wait([asyncio.ensure_future(send()), asyncio.ensure_future(send())])
        await asyncio.wait_for(send(), 1)
        await asyncio.shield(send())
        cancelled = asyncio.create_task(send())
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        not_awaited = send()
        not_awaited.close()
        count = next(numbers)
        await until(lambda: len(seen) == count)
    assert seen == [*range(count)]


@on_each_loop
async def test_what_cannot_be_encoded_leaves_nothing_half_said() -> None:
    """A notification that is refused costs those around it nothing, however far it got."""
    seen: list[bytes] = []
    left, right = pair_of_transports()
    connection = Connection("agent", v2.decode_from_client, v2.METHODS, tap=lambda _, line: seen.append(line))
    async with ScriptedPeer(right) as script, Peer(left, connection) as peer:
        good = chunk(1)
        bad: list[Any] = [float("nan"), object(), Raw(b""), [Raw(b"1"), {"deep": {1j: 2}}]]
        for wrong in bad:
            await peer.notify(v2.SESSION_UPDATE, good)
            with pytest.raises(EncodeError):
                await peer.notify(v2.SESSION_UPDATE, replace(good, meta={"wrong": wrong}))
        await peer.notify(v2.SESSION_UPDATE, replace(good, meta={"a": Raw(b"[\r\n1]"), "b": "\ud83d"}))
        for _ in bad:
            await script.expect(update_line(1))
        with_meta = update_line(1)
        with_meta["params"]["_meta"] = {"a": [1], "b": "\ufffd"}
        await script.expect(with_meta)
    assert [line.count(b"\n") for line in seen] == [1] * 5


# --- back-pressure ----------------------------------------------------------------------------------------------------

EMIT = """
import os, sys
line = sys.stdin.buffer.readline()
number, then = int(sys.argv[1]), bytes.fromhex(sys.argv[2])
block = line * 1000
for _ in range(number // 1000):
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(1, rest):]
os.write(1, then)
sys.stdin.buffer.read()
"""


async def emitter(number: int, then: Any = None) -> Transport:
    """A process that sends an update so many times, and then another line."""
    last = json.dumps(then).encode() + b"\n" if then else b""
    transport = await spawn_process(sys.executable, "-c", EMIT, str(number), last.hex())
    await transport.write(json.dumps(update_line(1)).encode() + b"\n")
    return transport


@on_each_loop
async def test_a_reader_slower_than_a_million_updates_pauses_the_sender_and_loses_nothing() -> None:
    """S-BP-01: what waits is bounded all the time."""
    peer, stream = streaming(await emitter(1_000_000))
    count = most = 0
    async with peer:
        async for batch in stream.batches():
            count += len(batch)
            await asyncio.sleep(0)
            most = max(most, len(stream))
            if count == 1_000_000:
                break
    assert most <= HIGH + 1000, "what came in one block is delivered before reading pauses"
    assert most > HIGH / 4, "it did have to wait"


def streaming(transport: Transport, limits: Limits | None = None) -> tuple[Peer, Stream[Any]]:
    """A client's peer whose updates go into a stream."""
    total = 0

    def update(params: Any) -> None:
        nonlocal total
        total += len(peer.line)
        feed.put(params, total)

    peer = client_of(transport, {v2.SESSION_UPDATE: update}, limits)
    feed: Feed[Any] = Feed(peer, limits or Limits())
    return peer, Stream(feed)


@on_each_loop
async def test_an_answer_behind_a_hundred_thousand_updates_arrives_though_nobody_reads_them() -> None:
    """No deadlock: who waits for an answer before reading on gets it, and then reads all that came before."""
    peer, stream = streaming(await emitter(100_000, answer_line(0, {"sessionId": "s"})))
    async with peer:
        assert number_of(await anext(stream)) == 1, "begun, so that it takes part in back-pressure"
        result = await peer.request(v2.SESSION_NEW, NEW)
        assert result.session_id == "s"
        assert len(stream) > HIGH
        count = 1
        while count < 100_000:
            await anext(stream)
            count += 1
        assert len(stream) == 0


@on_each_loop
async def test_a_stream_that_nobody_reads_ends_alone_at_its_limit() -> None:
    """A flood with nobody reading: memory is bounded by the limit of the stream; the rest of the connection lives."""
    peer, stream = streaming(
        await emitter(100_000, answer_line(0, {"sessionId": "s"})), limits := Limits(stream=1_000_000)
    )
    other: Stream[Any] = Stream(Feed(peer, Limits()))
    async with peer:
        await peer.request(v2.SESSION_NEW, NEW)
        assert stream.is_done
        size = len(json.dumps(update_line(1))) + 1
        assert len(stream) == limits.stream // size
        with pytest.raises(StreamOverflow, match=r"Limits\.stream"):
            async for _ in stream:
                pass
        assert not other.is_done
        assert peer.closed is None


@on_each_loop
async def test_without_a_stream_that_was_begun_reading_never_pauses() -> None:
    peer, stream = streaming(await emitter(100_000, {"jsonrpc": "2.0", "id": 9, "method": "_end"}))
    async with peer:
        await until(lambda: peer.counters.unknown == 1)
        assert len(stream) == 100_000


@on_each_loop
async def test_a_stream_that_was_dropped_holds_nothing_up() -> None:
    peer, stream = streaming(await emitter(100_000, {"jsonrpc": "2.0", "id": 9, "method": "_end"}))
    async with peer:
        await anext(stream)
        await until(lambda: len(stream) > HIGH)
        stream.close()
        await until(lambda: peer.counters.unknown == 1)


@pytest.mark.parametrize("params", [chunk, alike])
@on_each_loop
async def test_a_peer_that_stops_reading_makes_senders_wait_and_cancelling_them_works(
    params: Callable[[int], v2.UpdateSessionNotification],
) -> None:
    """S-BP-02; what was sent arrives whole as soon as it reads again."""
    left, right = pair_of_transports()
    limits = Limits(unsent=100_000)
    async with agent_of(left, limits=limits) as agent:
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                sent += 1
                await agent.notify(v2.SESSION_UPDATE, params(sent))

        task = asyncio.create_task(flood())
        before = -1
        while before != sent:  # until it has stopped
            before = sent
            for _ in range(100):
                await asyncio.sleep(0)
        assert left.unsent < 300_000
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with ScriptedPeer(right) as script:
            for number in range(1, sent + 1):
                assert await script.receive() + b"\n" == v2.SESSION_UPDATE.notification(params(number))
            await agent.notify(v2.SESSION_UPDATE, chunk(0))
            assert (await script.receive_json())["params"]["update"]["messageId"] == "0"


@on_each_loop
async def test_all_senders_wait_while_much_is_unsent_those_of_one_turn_too() -> None:
    """S-BP-02: whatever the first of them does."""
    left, _ = pair_of_transports()
    async with agent_of(left, limits=Limits(unsent=10_000)) as agent:
        while left.unsent <= 10_000:
            agent.post(v2.SESSION_UPDATE, alike(1))
            await asyncio.sleep(0)
        sends = [asyncio.create_task(agent.notify(v2.SESSION_UPDATE, alike(number))) for number in range(6)]
        for _ in range(50):
            await asyncio.sleep(0)
        assert not any(send.done() for send in sends)
        for send in sends:
            send.cancel()
        await asyncio.wait(sends)


@on_each_loop
async def test_a_peer_that_asks_and_reads_no_answers_is_not_read_any_more() -> None:
    left, right = pair_of_transports()
    limits = Limits(unread_answers=50_000)
    async with agent_of(left, limits=limits) as agent, ScriptedPeer(right) as script:
        asked = 0
        ask = b'{"jsonrpc":"2.0","id":"x","method":"no/such"}\n' * 100
        while right.unsent < 200_000:
            right.send(ask)
            asked += 100
            await asyncio.sleep(0)
        assert left.unsent < 200_000
        assert agent.counters.lines < asked
        for _ in range(asked):
            assert (await script.receive_json())["error"]["code"] == -32601
        await script.expect_nothing()


@on_each_loop
async def test_a_flood_of_notifications_leaves_the_loop_its_turns() -> None:
    """So that a cancel is seen while an agent streams as fast as it can."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with pair(client={v2.SESSION_UPDATE: lambda _: None}) as (agent, _):
        task = asyncio.create_task(count())
        for number in range(20_000):
            await agent.notify(v2.SESSION_UPDATE, chunk(number))
        task.cancel()
    assert turns > 20


@on_each_loop
@pytest.mark.parametrize("way", ["notify", "send_line"])
@pytest.mark.parametrize("gives_turns", [False, True])
async def test_who_sends_waits_for_a_peer_that_reads_nothing_however_little_it_sends_at_a_time(
    way: str, gives_turns: bool
) -> None:
    """S-BP-02."""
    left, right = pair_of_transports()
    line = v2.SESSION_UPDATE.notification(chunk(1))
    sent = 0

    async def flood(peer: Peer) -> None:
        nonlocal sent
        while True:
            await (peer.notify(v2.SESSION_UPDATE, chunk(1)) if way == "notify" else peer.send_line(line))
            sent += len(line)
            if gives_turns:
                await asyncio.sleep(0)

    limits = Limits(unsent=100_000)
    async with ScriptedPeer(right), agent_of(left, limits=limits) as peer:
        flooding = asyncio.create_task(flood(peer))
        before = -1
        while sent != before or not sent:
            before = sent
            for _ in range(100):
                await asyncio.sleep(0)
        assert sent < 1_000_000
        flooding.cancel()


# --- limits -----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_the_first_answer_may_be_limited() -> None:
    left, right = pair_of_transports()
    async with ScriptedPeer(right), client_of(left, limits=Limits(first_answer=0.01)) as peer:
        with pytest.raises(ConnectionClosed, match=r"Limits\.first_answer = 0\.01"):
            await peer.request(v2.SESSION_LIST, LIST)
        assert peer.closed is not None


@on_each_loop
async def test_the_limit_of_the_first_answer_is_over_with_the_first_answer() -> None:
    left, right = pair_of_transports()
    async with ScriptedPeer(right) as script, client_of(left, limits=Limits(first_answer=0.05)) as peer:
        first = asyncio.create_task(peer.request(v2.SESSION_LIST, LIST))
        await script.receive()
        await script.send(answer_line(0, {"sessions": []}))
        await first
        second = asyncio.create_task(peer.request(v2.SESSION_LIST, LIST))
        done, _ = await asyncio.wait([second], timeout=0.1)
        assert not done
        second.cancel()


# --- looking on -------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_trace_goes_with_a_notification_whatever_waits_to_be_sent() -> None:
    seen: list[Any] = []
    async with pair(client={v2.SESSION_UPDATE: lambda params: seen.append(params.meta)}) as (agent, _):
        for number in range(10):
            await agent.notify(v2.SESSION_UPDATE, alike(number))
        token = trace_context.set({"traceparent": "theirs"})
        await agent.notify(v2.SESSION_UPDATE, alike(10))
        trace_context.reset(token)
        await agent.notify(v2.SESSION_UPDATE, alike(11))
        await until(lambda: len(seen) == 12)
    assert seen == [None] * 10 + [{"traceparent": "theirs"}, None]


@on_each_loop
async def test_the_trace_of_a_request_is_carried_on_by_what_its_handler_sends() -> None:
    """MT-05."""
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "baggage": "k=v"}
    seen: dict[str, Any] = {}

    async def answer(params: v2.NewSessionRequest) -> v2.NewSessionResponse:
        seen["in the handler"] = dict(trace_context.get())
        await agent.notify(v2.SESSION_UPDATE, chunk(1))
        return v2.NewSessionResponse(session_id="s")

    def update(params: v2.UpdateSessionNotification) -> None:
        seen["notified"] = params.meta

    async with pair(agent={v2.SESSION_NEW: answer}, client={v2.SESSION_UPDATE: update}) as (agent, client):
        await client.request(v2.SESSION_NEW, v2.NewSessionRequest(cwd="/", meta={**trace, "mine": 1}))
        assert seen == {"in the handler": trace, "notified": trace}
        token = trace_context.set({"traceparent": "theirs"})
        await client.request(v2.SESSION_NEW, v2.NewSessionRequest(cwd="/", meta={"mine": 1}))
        assert seen["in the handler"] == {"traceparent": "theirs"}
        await client.request(v2.SESSION_NEW, v2.NewSessionRequest(cwd="/", meta=dict(trace)))
        assert seen["in the handler"] == trace, "what params bring themselves is left alone"
        trace_context.reset(token)
        await client.request(v2.SESSION_NEW, NEW)
        assert seen["in the handler"] == {}


@on_each_loop
async def test_a_tap_sees_the_lines_of_both_directions() -> None:
    seen: list[tuple[Role, Any]] = []

    def tap(sender: Role, text: bytes) -> None:
        seen.append((sender, json.loads(text)))

    left, right = pair_of_transports()
    async with ScriptedPeer(right) as script, client_of(left, tap=tap) as peer:
        task = asyncio.create_task(peer.request(v2.SESSION_LIST, LIST))
        asked = await script.receive_json()
        await script.send(answer_line(0, {"sessions": []}))
        await task
    assert seen == [("client", asked), ("agent", answer_line(0, {"sessions": []}))]


@on_each_loop
async def test_an_observer_that_raises_is_logged_and_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def observe(_: Ignored) -> None:
        raise ValueError("observer")

    left, right = pair_of_transports()
    with caplog.at_level(logging.ERROR):
        async with ScriptedPeer(right) as script, agent_of(left, {v2.SESSION_LIST: answers_at_once}, observer=observe):
            await script.send("{", {"jsonrpc": "2.0", "id": 1, "method": "session/list"})
            assert (await script.receive_json())["error"]["code"] == -32700
            await script.expect(answer_line(1, {"sessions": []}))
    assert "observer" in caplog.text


# --- the end ----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_the_last_line_may_lack_its_line_feed() -> None:
    """S-SP-02."""
    seen: list[str] = []
    left, right = pair_of_transports()
    async with agent_of(left, {v2.SESSION_CANCEL: lambda p: seen.append(p.session_id)}) as peer:
        await right.write(b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"last"}}')
        await right.close()
        await peer.wait_closed()
    assert seen == ["last"]


@on_each_loop
async def test_when_the_other_end_goes_requests_fail_and_handlers_are_cancelled() -> None:
    """ER-09: each clean-up runs, within the grace."""
    ended: list[str] = []

    async def waits(_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("request")

    left, right = pair_of_transports()
    async with agent_of(left, {v2.SESSION_LIST: waits}) as peer:
        options = [v2.PermissionOption(option_id="o", name="n", kind="allow_once")]
        params = v2.RequestPermissionRequest(session_id="s", title="t", options=options)
        task = asyncio.create_task(peer.request(v2.SESSION_REQUEST_PERMISSION, params))
        async with ScriptedPeer(right) as script:
            await script.receive()
            await script.send({"jsonrpc": "2.0", "id": 1, "method": "session/list"})
            await until(lambda: peer.counters.lines == 1)
        with pytest.raises(ConnectionClosed):
            await task
        await peer.wait_closed()
        assert ended == ["request"]
        with pytest.raises(ConnectionClosed):
            await peer.request(v2.SESSION_REQUEST_PERMISSION, params)
        with pytest.raises(ConnectionClosed):
            await peer.notify(v2.SESSION_UPDATE, chunk(1))


@on_each_loop
async def test_closing_cancels_the_handler_that_delivery_waits_for() -> None:
    ended: list[str] = []

    async def waits(_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("notification")

    left, right = pair_of_transports()
    async with agent_of(left, {v2.SESSION_CANCEL: waits}) as peer:
        await right.write(b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}\n' * 2)
        await until(lambda: peer.counters.lines == 2)
    assert ended == ["notification"], "and the second is not delivered any more"
    await right.close()


@on_each_loop
async def test_a_handler_that_does_not_end_is_left_after_the_grace(caplog: pytest.LogCaptureFixture) -> None:
    left, right = pair_of_transports()
    release = asyncio.Event()

    async def stubborn(_: object) -> None:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await release.wait()

    async with agent_of(left, {v2.SESSION_LIST: stubborn}, Limits(grace=0.05)) as peer:
        await right.write(b'{"jsonrpc":"2.0","id":1,"method":"session/list"}\n')
        await until(lambda: peer.counters.lines == 1)
        await peer.close()
    assert "Limits.grace" in caplog.text
    release.set()
    await until(lambda: len(asyncio.all_tasks()) == 1)
    await right.close()


@on_each_loop
async def test_a_handler_may_close_the_connection() -> None:
    async def from_a_request(_: object) -> None:
        await agent.close()

    async def from_a_notification(_: object) -> None:
        await agent.close()

    for method, params in (
        (v2.SESSION_LIST, LIST),
        (v2.SESSION_CANCEL, v2.CancelSessionNotification(session_id="s")),
    ):
        handlers: Handlers = {v2.SESSION_LIST: from_a_request, v2.SESSION_CANCEL: from_a_notification}
        async with pair(agent=handlers) as (agent, client):
            calls: Any = client.request if method.kind == "request" else client.notify
            task = asyncio.ensure_future(calls(method, params))
            await agent.wait_closed()
            await client.wait_closed()
            await asyncio.wait([task])
            if method.kind == "request":
                assert isinstance(task.exception(), ConnectionClosed)


@on_each_loop
async def test_closing_says_why_and_closing_again_changes_nothing() -> None:
    async with pair() as (agent, client):
        await agent.close(ConnectionClosed("enough"))
        await agent.close()
        assert str(await agent.wait_closed()) == "enough"
        assert isinstance(await client.wait_closed(), ConnectionClosed)


@on_each_loop
async def test_an_answer_that_was_ready_is_sent_before_closing() -> None:
    left, right = pair_of_transports()
    async with ScriptedPeer(right) as script:
        async with agent_of(left, {v2.SESSION_LIST: answers_at_once}) as peer:
            await script.send({"jsonrpc": "2.0", "id": 1, "method": "session/list"})
            await until(lambda: peer.counters.answers == 1)
        await script.expect(answer_line(1, {"sessions": []}))
        await script.expect_end()


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["at once", "mid-line", "signal"])
@on_each_loop
async def test_a_child_that_dies_fails_the_call_that_waits_with_its_exit_code_and_stderr(how: str) -> None:
    """S-PR-01: in the handshake, too."""
    code = {
        "at once": "import sys; sys.exit('it broke')",
        "mid-line": "import sys,os; sys.stdin.readline(); os.write(1, b'{\"jsonrpc\":'); sys.exit('it broke')",
        "signal": "import sys,os; sys.stdin.readline(); os.write(2, b'it broke'); os.kill(os.getpid(), 9)",
    }[how]
    async with client_of(await spawn_process(sys.executable, "-c", code)) as peer:
        with pytest.raises(ConnectionClosed) as error:
            await peer.request(v2.SESSION_NEW, NEW)
        assert error.value.exit_code == (-9 if how == "signal" else 1)
        assert b"it broke" in error.value.stderr_tail
        assert "it broke" in str(error.value)
        with pytest.raises(ConnectionClosed):
            await peer.notify(v2.SESSION_CANCEL, v2.CancelSessionNotification(session_id="s"))


@on_each_loop
async def test_who_sends_to_a_child_that_reads_no_more_learns_how_it_ended() -> None:
    """S-PR-01: writing fails before the child has ended; every sender is told all the same how it did."""
    code = "import os, sys; os.close(0); os.write(1, b'\\n'); sys.stderr.write('it broke'); sys.exit(7)"
    async with client_of(await spawn_process(sys.executable, "-c", code)) as peer:
        cancel = v2.CancelSessionNotification(session_id="s")
        while peer.closed is None:
            with suppress(ConnectionClosed):
                peer.post(v2.SESSION_CANCEL, cancel)
            await asyncio.sleep(0)
        for calls in (
            peer.notify(v2.SESSION_CANCEL, cancel),
            peer.request(v2.SESSION_LIST, LIST),
            peer.send_line(b"{}\n"),
            peer.drain(),
        ):
            with pytest.raises(ConnectionClosed) as error:
                await calls
            assert (error.value.exit_code, error.value.stderr_tail) == (7, b"it broke")


@on_each_loop
async def test_what_a_dead_child_had_said_is_read_to_its_end_however_slowly() -> None:
    """Writing to it fails long before a reader that holds it up has got through what it said."""
    line = json.dumps(update_line(1)).encode() + b"\n"
    code = f"import os; os.close(0); rest = {line!r} * 9000\nwhile rest: rest = rest[os.write(1, rest):]"
    peer, stream = streaming(await spawn_process(sys.executable, "-c", code), Limits(grace=0.1))
    async with peer:
        await anext(stream)
        await until(lambda: len(stream) > HIGH)
        with pytest.raises(ConnectionClosed):  # noqa: PT012  # it takes a turn of the loop to notice
            while True:
                peer.post(v2.SESSION_CANCEL, v2.CancelSessionNotification(session_id="s"))
                await asyncio.sleep(0)
        done, _ = await asyncio.wait([asyncio.ensure_future(peer.wait_closed())], timeout=0.3)
        assert not done, "longer than it would wait for last words"
        count = 1
        while count < 9000:
            await anext(stream)
            count += 1
        assert (await peer.wait_closed()).exit_code == 0


async def program(role: str) -> ScriptedPeer:
    """A process that runs a peer in this role, for a script to talk to."""
    return ScriptedPeer(await spawn_process(sys.executable, str(PROGRAMS / "peer.py"), role))


NO_OBJECT = (None, -32600, "Expected `object` - at `$`")
NO_ID = (None, -32600, "Expected a string or an int64 - at `$.id`")
ANSWERS: dict[str, tuple[Any, ...] | None] = {
    **dict.fromkeys(("W-EN-01", "W-EN-02", "W-EN-03", "W-EN-05"), NO_OBJECT),
    **dict.fromkeys(("W-EN-14", "W-EN-15", "W-EN-16", "W-EN-18"), NO_ID),
    "W-EN-07": (None, -32700, "Input data was truncated - at `$`"),
    "W-EN-29": (None, -32700, "JSON is malformed: trailing characters (byte 61) - at `$`"),
    "W-EN-32": (None, -32700, "JSON is malformed: invalid character (byte 71) - at `$`"),
    "W-EN-11": (1, -32600, 'Expected "2.0" - at `$.jsonrpc`'),
    "W-EN-12": (1, -32600, "Expected `str` - at `$.method`"),
    "W-EN-25": (1, -32602, "Expected `object` - at `$.params`"),
    "W-EN-28": (1, -32602, "Expected `str`, got `int` - at `$.params.cwd`"),
    "W-EN-23": (1, -32601, "Method not found", "no/such"),
    "W-CN-02": (5, -32601, "Method not found", "$/whatever"),
    "W-EN-33": (7, -32601, "session/cancel is a notification, and came as a request", "session/cancel"),
    **dict.fromkeys(("W-EN-24", "W-EN-30", "W-EN-34", "W-CN-01")),
}
"""Id, code, message and named method of the error that the agent answers to a hostile line; None: nothing."""


def error_line(request_id: Any, code: int, message: str, method: str | None = None) -> bytes:
    """An error as it is on the wire, byte for byte."""
    error: dict[str, Any] = {"code": code, "message": message}
    if method is not None:
        error["data"] = {"method": method}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}, separators=(",", ":")).encode()


RESULTS: dict[str, int | str] = {"W-EN-09": 1, "W-EN-19": 2**63 - 1, "W-EN-21": "1", "W-EN-26": 1}
"""The id of the only answer, where that is a result."""


def test_every_hostile_line_about_messages_answers_and_cancelling_is_tried() -> None:
    concerned = {name for name in HOSTILE if name.split("-")[1] in {"EN", "RS", "CN"}}
    assert concerned == {*ANSWERS, *RESULTS, *SEEN}


@on_each_loop
async def test_hostile_lines_get_the_right_answer_over_a_pipe_and_the_next_line_works() -> None:
    """W-EN, W-CN, to an agent that is a process."""
    async with await program("agent") as script:
        for name in [*ANSWERS, *RESULTS]:
            await script.send(HOSTILE[name][1])
            expected = ANSWERS.get(name)
            if expected is not None:
                await script.expect(error_line(*expected))
            if name in RESULTS:
                await script.expect(answer_line(RESULTS[name], {"sessions": []}))
            await script.expect_nothing()


SEEN: dict[str, tuple[str, str]] = {
    "W-RS-01": ("DecodeError", "$.error"),
    "W-RS-02": ("DecodeError", "Both"),
    "W-RS-04": ("DecodeError", "$.error.code"),
    "W-RS-05": ("DecodeError", "message"),
    "W-RS-11": ("DecodeError", "$.result.sessionId"),
    "W-RS-12": ("RequestError", "401 from the model service"),
    "W-RS-06": ("ignored", "nobody waits"),
    "W-RS-07": ("ignored", "$.id"),
    "W-RS-09": ("ignored", "$.id"),
    "W-RS-10": ("ignored", "could not make out"),
    "W-EN-08": ("ignored", "JSON"),
}
"""What the client says of a hostile line: what its `session/new`, request 1, raised and how, or what was ignored."""


@pytest.mark.parametrize("name", list(SEEN))
@on_each_loop
async def test_hostile_answers_fail_their_request_alone_over_a_pipe(name: str) -> None:
    """W-RS, W-EN-08, to a client that is a process with the requests 0 and 1 in flight."""
    kind, text = SEEN[name]
    async with await program("client") as script:
        asked = [await script.receive_json() for _ in range(2)]
        assert [(message["id"], message["method"]) for message in asked] == [(0, "session/list"), (1, "session/new")]
        await script.send(HOSTILE[name][1])
        if name == "W-EN-08":
            assert (await script.receive_json())["error"]["code"] == -32700
        said = await script.receive_json()
        if kind == "ignored":
            assert text in said["params"]["ignored"]
            assert said["params"]["is_error"] == (name == "W-RS-10")
            await script.send(answer_line(1, {"sessionId": "s"}))
            assert (await script.receive_json())["params"] == {"session/new": {"result": {"sessionId": "s"}}}
        else:
            outcome = said["params"]["session/new"]
            assert outcome["raised"] == kind
            assert text in outcome["text"]
        await script.send(answer_line(0, {"sessions": []}))
        assert (await script.receive_json())["params"] == {"session/list": {"result": {"sessions": []}}}


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 16 * 2**20, 33 * 2**20])
@on_each_loop
async def test_a_line_of_any_size_is_answered_over_a_pipe(size: int) -> None:
    """S-SZ-01."""
    line = b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"_meta":{"x":""}}}'
    async with await program("agent") as script:
        await script.send(line.replace(b'""', b'"' + b"y" * (size - len(line)) + b'"'))
        await script.expect(answer_line(1, {"sessions": []}))


@on_each_loop
async def test_nesting_and_numbers_without_end_get_an_answer_over_a_pipe() -> None:
    """S-SZ-03, S-SZ-04, S-SP-03."""
    async with await program("agent") as script:
        for depth in (5_000, 100_000):
            deep = b"[" * depth + b"]" * depth
            for params in (b'{"_meta":{"x":%s}}' % deep, b'{"ignored":%s}' % deep, deep):
                await script.send(b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":%s}' % params)
                answer = await script.receive_json()
                assert answer.get("error", {"code": -32700})["code"] in {-32700, -32602}
        for number in (b"1" * 5_000, b"1e400", b"-0", b"1E2"):
            await script.send(b'{"jsonrpc":"2.0","id":2,"method":"session/list","params":{"cursor":%s}}' % number)
            assert (await script.receive_json())["id"] in {2, None}
        await script.send(b'{"jsonrpc":"2.0","id":3,"method":"session/list","params":{"cursor":"\xff"}}')
        assert (await script.receive_json())["error"]["code"] == -32700
        await script.expect_nothing()


@on_each_loop
async def test_lines_may_be_cut_anywhere_over_a_pipe() -> None:
    """S-SP-01, one byte a write."""
    text = b'{"jsonrpc":"2.0","id":1,"method":"session/list"}\r\n\n{"jsonrpc":"2.0","id":2,"method":"session/list"}\n'
    async with await program("agent") as script:
        for byte in text:
            await script.send_bytes(bytes([byte]))
        await script.expect(answer_line(1, {"sessions": []}), answer_line(2, {"sessions": []}))


@on_each_loop
async def test_when_the_client_goes_the_agents_handlers_clean_up_and_it_exits_with_0() -> None:
    """S-PR-06, TR-07."""
    transport = await spawn_process(sys.executable, str(PROGRAMS / "peer.py"), "agent")
    script = ScriptedPeer(transport)
    await script.send({"jsonrpc": "2.0", "id": 1, "method": "session/close", "params": {"sessionId": "s"}})
    await script.expect_nothing()
    await transport.close()
    assert transport.exit_code == 0
    assert b"cleaned up" in transport.stderr_tail


@on_each_loop
async def test_two_hundred_connections_to_processes_leave_nothing() -> None:
    """No process, thread, descriptor or task is left: the runner of these tests looks."""
    answer = json.dumps(answer_line(0, {"sessions": []}))
    code = f"import os; os.read(0, 999); os.write(1, {answer.encode()!r} + bytes([10])); os.read(0, 999)"
    for number in range(200):
        async with client_of(await spawn_process(sys.executable, "-S", "-c", code)) as peer:
            if number % 2:
                assert await peer.request(v2.SESSION_LIST, LIST) == NO_SESSIONS
            else:
                task = asyncio.create_task(peer.request(v2.SESSION_NEW, NEW))
                await asyncio.sleep(0)
                await peer.close()
                with pytest.raises(ConnectionClosed):
                    await task
