"""What tests of agents and clients are written with does what it says, and says what is wrong when a test fails."""

from __future__ import annotations

import asyncio
import enum
import json
from typing import Any

import pytest

import acpwire
from acpwire import v2
from acpwire.agent import Agent, AgentSession, UserPrompt
from acpwire.client import Client, ClientSession
from acpwire.errors import ConnectionClosed, RequestError, UsageError
from acpwire.limits import Limits
from acpwire.testing import ScriptedAgent, ScriptedPeer, Step, connect, pair
from acpwire.transports import pair as pair_of_transports
from tests.transports.loops import cancelled_at, on_each_loop, walk

LIST = v2.ListSessionsRequest()
PLAN = v2.PlanUpdate(plan=v2.PlanItems(plan_id="p", entries=[]))
PING = {"jsonrpc": "2.0", "method": "_acme/ping"}


class Code(enum.IntEnum):
    """A number."""

    PARSE = -32700


class Word(enum.StrEnum):
    """A text."""

    TEXT = "t"


class Echo(Agent):
    """Says it back."""

    info = v2.Implementation(name="echo", version="1")

    async def prompt(self, session: AgentSession, prompt: UserPrompt) -> None:
        async with session.agent_message() as message:
            await message.write("you said: " + prompt.text)


# --- an agent and a client in one process -----------------------------------------------------------------------------


@on_each_loop
async def test_an_agent_and_a_client_talk_in_two_lines() -> None:
    async with connect(Echo()) as agent:
        session = await agent.new_session(cwd=".")
        assert agent.info.name == "echo"
        assert (await session.ask("hi")).text == "you said: hi"


@on_each_loop
async def test_the_options_of_a_connection_reach_it_and_its_limits_both_ends(tmp_path: Any) -> None:
    class Keeps(Client):
        def __init__(self) -> None:
            self.tags: list[str] = []

        def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
            self.tags.append(update.tag)

    client = Keeps()
    path = tmp_path / "capture.jsonl"
    limits = Limits(requests=1, grace=5)
    async with connect(Echo(), client, record=path, transcript=False, limits=limits) as agent:
        session = await agent.new_session(cwd="/")
        await session.ask("hi")
        assert session.kept is None
        held = [asyncio.create_task(agent.request(v2.SESSION_LIST, LIST)) for _ in range(3)]
        outcomes = await asyncio.gather(*held, return_exceptions=True)
        assert any("Limits.requests is 1" in str(outcome) for outcome in outcomes)
    assert client.tags == ["user_message", "state_update", "agent_message_chunk", "state_update"]
    assert list(acpwire.read_capture(path))


@on_each_loop
async def test_both_ends_are_ended_whatever_happens_inside() -> None:
    ended: list[str] = []

    class Works(Echo):
        async def prompt(self, session: AgentSession, prompt: UserPrompt) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(prompt.text)

    class Failed(Exception):
        """Of the test."""

    async def fails() -> None:
        async with connect(Works()) as agent:
            session = await agent.new_session(cwd="/")
            await session.prompt("hi")
            raise Failed

    with pytest.raises(Failed):
        await fails()
    assert ended == ["hi"]


@on_each_loop
async def test_an_agent_that_is_half_of_something_is_told_at_once() -> None:
    class NoPrompt(Agent):
        info = v2.Implementation(name="x", version="1")

    with pytest.raises(UsageError, match="prompt"):
        async with connect(NoPrompt()):
            raise AssertionError


@on_each_loop
async def test_connecting_may_be_cancelled_at_every_wait() -> None:
    async def enter() -> None:
        async with connect(Echo()) as agent:
            await agent.new_session(cwd="/")

    await walk(lambda number: cancelled_at(number, enter()))


# --- an agent by a script ---------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_scripted_agent_does_what_its_script_says_prompt_by_prompt() -> None:
    """And nothing, beyond it."""

    async def asks(session: AgentSession) -> None:
        allowed = await session.request_permission("May I?")
        await session.agent_message().write(f"allowed: {bool(allowed)}")

    steps: list[Step] = ["Hello", PLAN, asks, "Bye"]
    agent = ScriptedAgent(steps, [RequestError(1, "no")], ["again"])
    async with connect(agent) as connection:
        session = await connection.new_session(cwd="/")
        prompt = await session.prompt("one")
        seen = [update async for update in prompt]
        assert PLAN in seen
        assert session.transcript.text == "Hello\n\nallowed: False\n\nBye"
        turn = await session.ask("two")
        assert (turn.text, turn.stop_reason) == ("", "error")
        assert turn.error is not None
        assert (turn.error.code, turn.error.message) == (1, "no")
        other = await connection.new_session(cwd="/")
        assert (await other.ask("three")).text == "again"
        assert (await session.ask("four")) == acpwire.Turn("", "end_turn", None, None)
    assert [one.text for one in agent.prompts] == ["one", "two", "three", "four"]


@on_each_loop
async def test_a_step_that_waits_is_cancelled_with_its_work() -> None:
    async def waits(_: AgentSession) -> None:
        await asyncio.Event().wait()

    async with connect(ScriptedAgent(["begun", waits, "never"])) as connection:
        session = await connection.new_session(cwd="/")
        prompt = await session.prompt("go")
        async for update in prompt:
            if isinstance(update, v2.AgentMessageChunk):
                await session.cancel()
        assert prompt.stop_reason == "cancelled"
        assert session.transcript.text == "begun"


# --- two peers --------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_two_peers_serve_each_other_with_the_limits_and_the_observer_they_are_given() -> None:
    ignored: list[str] = []
    answer = v2.ListSessionsResponse(sessions=[])
    async with pair(
        agent={v2.SESSION_LIST: lambda _: answer},
        limits=Limits(grace=5),
        observer=lambda event: ignored.append(event.reason),
    ) as (agent, client):
        assert await client.request(v2.SESSION_LIST, LIST) == answer
        await agent.notify(v2.ELICITATION_COMPLETE, v2.CompleteElicitationNotification(elicitation_id="e"))
        await client.request(v2.SESSION_LIST, LIST)
        assert ignored == ["nobody handles this notification"]
    assert agent.closed is not None
    assert client.closed is not None


# --- line by line -----------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_script_sends_and_receives_lines_in_any_form() -> None:
    left, right = pair_of_transports()
    async with ScriptedPeer(left) as one, ScriptedPeer(right) as other:
        await one.send(PING, json.dumps(PING), json.dumps(PING).encode())
        await other.expect({"method": "_acme/ping", "jsonrpc": "2.0"}, PING, json.dumps(PING))
        await one.send_bytes(b'{"a":')
        await one.send_bytes(b"1}\r\nlast")
        assert await other.receive_json() == {"a": 1}
        await one.__aexit__(None, None, None)
        assert await other.receive() == b"last", "the last line may lack its line feed"
        await other.expect_end()
        with pytest.raises(EOFError):
            await other.receive()


@on_each_loop
async def test_an_expectation_that_fails_says_what_was_expected_and_what_came() -> None:
    left, right = pair_of_transports()
    async with ScriptedPeer(left) as one, ScriptedPeer(right, timeout=0.01) as other:
        await one.send(PING)
        with pytest.raises(AssertionError, match=r"expected '\{\}', received b'.*_acme/ping"):
            await other.expect("{}")
        with pytest.raises(AssertionError, match=r"no line came within 0\.01 s; expected .*_acme/ping"):
            await other.expect(PING)
        with pytest.raises(AssertionError, match=r"no line came within 0\.01 s"):
            await other.receive()
        await one.send("no json")
        with pytest.raises(AssertionError, match="received b'no json'"):
            await other.expect("{}")
        await one.send(PING)
        with pytest.raises(AssertionError, match="expected the end, received"):
            await other.expect_end()
        await one.__aexit__(None, None, None)
        with pytest.raises(AssertionError, match="the other end sends nothing any more; expected"):
            await other.expect(PING)


@on_each_loop
async def test_an_object_is_compared_as_one_and_a_text_to_the_byte() -> None:
    left, right = pair_of_transports()
    async with ScriptedPeer(left) as one, ScriptedPeer(right) as other:
        await one.send('{"b": 1, "a": 2}', '{"b": 1, "a": 2}', "[1]")
        await other.expect({"a": 2, "b": 1})
        with pytest.raises(AssertionError):
            await other.expect('{"b":1,"a":2}')
        with pytest.raises(AssertionError, match=r"received b'\[1\]'"):
            await other.expect({"a": 2})


EQUAL_IN_PYTHON: list[tuple[Any, str, str]] = [
    (1, "true", "`$.x` is True, not 1"),
    (True, "1", "`$.x` is 1, not True"),
    (0, "false", "`$.x` is False, not 0"),
    (1, "1.0", "`$.x` is 1.0, not 1"),
    (1.0, "1", "`$.x` is 1, not 1.0"),
    (False, "0.0", "`$.x` is 0.0, not False"),
    ([0, [1]], "[0, [true]]", "`$.x[1][0]` is True, not 1"),
    ({"y": [{"z": 2}]}, '{"y": [{"z": 2.0}]}', "`$.x.y[0].z` is 2.0, not 2"),
]
UNEQUAL: list[tuple[Any, str, str]] = [
    (1, '"1"', "`$.x` is '1', not 1"),
    (None, "0", "`$.x` is 0, not None"),
    ([1], "[1, 2]", "`$.x` has 2 items, not 1"),
    ([1, 2], "[1, 3]", "`$.x[1]` is 3, not 2"),
    ([], "{}", "`$.x` is {}, not []"),
    ({}, "[]", "`$.x` is [], not {}"),
    ({}, "null", "`$.x` is None, not {}"),
    ({"y": None}, "{}", "`$.x.y` is missing"),
    ({}, '{"y": null}', "`$.x.y` is not expected"),
]


@pytest.mark.parametrize(("expected", "found", "where"), [*EQUAL_IN_PYTHON, *UNEQUAL])
@on_each_loop
async def test_values_are_compared_as_json_and_what_differs_is_said(expected: Any, found: str, where: str) -> None:
    """ER-02: True, 1 and 1.0 are one value to Python and three on the wire, at any depth."""
    left, right = pair_of_transports()
    line = f'{{"jsonrpc": "2.0", "x": {found}, "last": 0}}'
    async with ScriptedPeer(left) as one, ScriptedPeer(right) as other:
        await one.send(line, line)
        await other.expect({"last": 0, "x": json.loads(found), "jsonrpc": "2.0"})
        with pytest.raises(AssertionError) as failed:
            await other.expect({"jsonrpc": "2.0", "x": expected, "last": 0})
        assert str(failed.value).endswith(f"received {line.encode()!r}: {where}")


@on_each_loop
async def test_what_is_expected_may_hold_what_json_writes_as_its_own_values() -> None:
    left, right = pair_of_transports()
    async with ScriptedPeer(left) as one, ScriptedPeer(right) as other:
        await one.send('{"a": [1, "t"], "b": -32700}', "no json")
        await other.expect({"b": Code.PARSE, "a": (1, Word.TEXT)})
        with pytest.raises(AssertionError, match=r"received b'no json', which is no JSON$"):
            await other.expect({})


@on_each_loop
async def test_nothing_is_expected_of_a_peer_that_answers_and_sends_nothing_else() -> None:
    left, right = pair_of_transports()
    async with ScriptedPeer(left) as script:
        serving = asyncio.create_task(acpwire.serve(Echo(), right))
        await script.expect_nothing()
        await script.send({"jsonrpc": "2.0", "id": 1, "method": "_acme/x"})
        with pytest.raises(AssertionError, match=r"expected nothing, received \{.*'id': 1"):
            await script.expect_nothing()
        await script.__aexit__(None, None, None)
        await serving


@on_each_loop
async def test_sending_to_an_end_that_takes_nothing_is_bounded_and_to_one_that_is_gone_an_error() -> None:
    left, right = pair_of_transports()
    async with ScriptedPeer(left, timeout=0.01) as script:

        async def floods() -> None:
            for _ in range(100):
                await script.send_bytes(b"x" * 100_000)

        with pytest.raises(TimeoutError):
            await floods()
        await right.close()
        with pytest.raises(ConnectionClosed):
            await script.send(PING)
