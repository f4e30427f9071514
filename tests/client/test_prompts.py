"""Prompts: which updates are a prompt's own, and which idle ends it, in every order of what arrives."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import acpwire
from acpwire import v2
from acpwire.client import Client, ClientSession, Prompt, Turn
from acpwire.client.prompts import End, Sent
from acpwire.errors import ConnectionClosed, RequestError, StreamOverflow, UsageError
from acpwire.limits import Limits
from acpwire.streams import HIGH
from acpwire.testing import ScriptedAgent
from acpwire.testing import connect as connected_to
from tests.client.script import (
    IDLE,
    RUNNING,
    Script,
    answer,
    chunk,
    failure,
    prompted,
    session_of,
    settled,
    texts,
    told,
    user,
    while_,
)
from tests.transports.loops import cancelled_at, on_each_loop, until, walk

# --- the law ----------------------------------------------------------------------------------------------------------

STATES: dict[str, dict[str, Any]] = {
    "running": RUNNING,
    "requires_action": {"sessionUpdate": "state_update", "state": "requires_action"},
    "unknown": {"sessionUpdate": "state_update", "state": "unknown"},
    "unlisted": {"sessionUpdate": "state_update", "state": "_dreaming"},
    "idle": IDLE,
    "failed": {**IDLE, "stopReason": "error"},
    "bare": {"sessionUpdate": "state_update", "state": "idle"},
}
IDLES = {"idle": "end_turn", "failed": "error", "bare": None}
"""Of those, the idle ones, and why they say that work stopped."""
PROMPTS = 3
Event = tuple[str, int]
"""What happens: a state, an update of another kind, or of a prompt: it is sent, its message is seen, it is accepted."""


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    """Up to three prompts: each is sent, then its message is told and it is accepted, in any order, or neither."""
    lines: list[list[Event]] = []
    for number in range(draw(st.integers(1, PROMPTS))):
        after = draw(st.permutations([("seen", number), ("accepted", number)]))
        lines.append([("sent", number), *after[: draw(st.integers(0, 2))]])
    states = st.sampled_from(["running", "idle", "idle", "running", "chunk", "chunk", *STATES])
    lines.append([(state, 0) for state in draw(st.lists(states, max_size=12))])
    mixed: list[Event] = []
    while any(lines):
        line = draw(st.sampled_from([line for line in lines if line]))
        mixed.append(line.pop(0))
    return mixed


def expected(happened: list[Event]) -> tuple[dict[int, int], int | None]:
    """Where each prompt's work ends, and where `updates()` does that was opened at first: numbers of events.

    An idle after something else than idle or unknown is an end, of all whose message was seen or who were accepted
    before. Any other is one if it says why work stopped, and that is not what was said last, or the agent has spoken
    since a user's message came after the last end; but only of those whose message was seen before. A prompt's end is
    the first one, known once it is accepted.
    """
    ends: list[tuple[int, bool]] = []
    busy = asked = spoken = False
    last: str | None = None
    for index, (what, _) in enumerate(happened):
        if what in {"running", "requires_action", "unlisted"}:
            busy = True
        elif what == "seen":
            asked = True
        elif what == "chunk":
            spoken = asked
        elif what in IDLES:
            reason = IDLES[what]
            if busy or (reason is not None and (spoken or reason != last)):
                ends.append((index, busy))
                asked = spoken = False
            if busy or reason is not None:
                last = reason
            busy = False
    found: dict[int, int] = {}
    known: dict[int, int] = {}  # when each end is known
    for number in range(PROMPTS):
        if ("accepted", number) in happened:
            accepted = happened.index(("accepted", number))
            seen = happened.index(("seen", number)) if ("seen", number) in happened else len(happened)
            after = [end for end, changes in ends if end > (min(seen, accepted) if changes else seen)]
            if after:
                found[number] = after[0]
                known[number] = max(after[0], accepted)
    closing: int | None = None
    for now in sorted(set(known.values())):
        left = [
            number
            for number in range(PROMPTS)
            if ("accepted", number) in happened[: now + 1] and known.get(number, len(happened)) > now
        ]
        if not left:
            closing = max(found[number] for number, when in known.items() if when == now)
            break
    return found, closing


def line_of(what: str, index: int, number: int) -> dict[str, Any]:
    """The line for an event; its number can be told from it."""
    if what == "chunk":
        return told(chunk(str(index)))
    if what == "seen":
        return told({**user(f"u{number}"), "_meta": {"at": index}})
    return told({**STATES[what], "_meta": {"at": index}})


def number_of(update: Any) -> int:
    """The number of the event that an update tells."""
    if isinstance(update, v2.AgentMessageChunk):
        assert isinstance(update.content, v2.TextContent)
        return int(update.content.text)
    meta = update.data["_meta"] if isinstance(update, v2.UnknownVariant) else update.meta
    at: int = meta["at"]
    return at


async def left_in(stream: Any) -> list[int]:
    """What waits in a stream and comes up to its end, if that has come."""
    found: list[int] = []
    while len(stream) or stream.is_done:
        try:
            found.append(number_of(await anext(stream)))
        except (StopAsyncIteration, ConnectionClosed):
            break
    return found


async def run_law(happened: list[Event]) -> None:
    """Let it happen, and compare."""
    ends, closing = expected(happened)
    requests: dict[int, Any] = {}
    tasks: dict[int, asyncio.Task[Prompt]] = {}
    async with session_of() as (script, session):
        updates = session.updates()
        for index, (what, number) in enumerate(happened):
            if what == "sent":
                tasks[number] = asyncio.create_task(session.prompt("hi"))
                requests[number] = await script.asked("session/prompt")
            elif what == "accepted":
                await script.send(answer(requests[number], {"messageId": f"u{number}"}))
            else:
                await script.send(line_of(what, index, number))
        await settled(script)
        told_at = [i for i, (what, _) in enumerate(happened) if what not in {"sent", "accepted"}]
        for number, task in tasks.items():
            if ("accepted", number) not in happened:
                assert not task.done()
                task.cancel()
                await asyncio.wait([task])
                continue
            prompt = await task
            assert prompt.message_id == f"u{number}"
            assert prompt.is_done == (number in ends)
            begun = happened.index(("sent", number))
            end = ends.get(number, len(happened))
            assert await left_in(prompt.stream) == [i for i in told_at if begun < i <= end]
        assert updates.is_done == (closing is not None)
        end = len(happened) if closing is None else closing
        assert await left_in(updates) == [i for i in told_at if i <= end]


RUN = ("running", 0)
END = ("idle", 0)
FAIL = ("failed", 0)
SAID: list[Event] = [("sent", 0), ("seen", 0), ("chunk", 0)]


@settings(max_examples=300, deadline=None)
@given(events())
@example([RUN, ("sent", 0), ("seen", 0), END, ("accepted", 0)])
@example([("sent", 0), RUN, END, ("seen", 0), ("accepted", 0), RUN, END])
@example([("sent", 0), ("accepted", 0), END, END, RUN, END])
@example([("sent", 0), ("sent", 1), ("seen", 0), RUN, END, ("seen", 1), RUN, END, ("accepted", 1), ("accepted", 0)])
@example([("sent", 0), ("accepted", 0), ("seen", 0), FAIL])
@example([("sent", 0), ("seen", 0), FAIL, ("accepted", 0), ("sent", 1), ("seen", 1), ("accepted", 1), FAIL, RUN, END])
@example([*SAID, ("accepted", 0), END, *((what, 1) for what, _ in SAID), END, ("accepted", 1)])
@example([("sent", 0), ("accepted", 0), FAIL, ("seen", 0), FAIL, END])
@example([RUN, END, *SAID[:2], ("accepted", 0), END, ("bare", 0), RUN, ("unknown", 0), FAIL, ("chunk", 0), END])
def test_a_prompts_work_ends_with_the_first_idle_after_its_insertion_that_repeats_none(happened: list[Event]) -> None:
    """PL-01, PL-17, PL-18, PL-25, ST-07, ST-08, ST-13, ST-14: states, echo and acceptance in every order."""
    asyncio.run(run_law(happened))


@given(events(), st.randoms(use_true_random=False))
def test_snapshots_that_repeat_the_state_end_nothing(happened: list[Event], random: Any) -> None:
    """ST-08: in the law, however often each state is told."""
    places: list[int] = []
    repeated: list[Event] = []
    for event in happened:
        places.append(len(repeated))
        repeated += [event] * (random.randint(1, 3) if event[0] in STATES else 1)
    ends, closing = expected(happened)
    again = {number: places[end] for number, end in ends.items()}, None if closing is None else places[closing]
    assert expected(repeated) == again


# --- one prompt -------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_prompt_is_iterated_up_to_its_idle_with_that_and_says_how_it_ended() -> None:
    """PL-01, PL-14, PL-25, US-06."""
    async with session_of() as (script, session):
        prompt = await prompted(script, session)
        assert (prompt.message_id, prompt.is_done, prompt.stop_reason) == ("u1", False, None)
        usage = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}
        await script.told(RUNNING, chunk("a"), chunk("b"), {**IDLE, "usage": usage}, chunk("after"))
        assert texts([update async for update in prompt]) == ["user_message", "running", "a", "b", "idle"]
        assert (prompt.is_done, prompt.stop_reason, prompt.error) == (True, "end_turn", None)
        assert prompt.usage is not None
        assert prompt.usage.total_tokens == 7
        assert await prompt.wait() == "end_turn"


@on_each_loop
async def test_a_prompt_is_iterated_in_batches_that_are_never_empty() -> None:
    async with session_of() as (script, session):
        prompt = await prompted(script, session)
        await script.told(RUNNING, *(chunk(str(number)) for number in range(10)), IDLE)
        batches = [batch async for batch in prompt.batches()]
        assert all(batches)
        assert len([update for batch in batches for update in batch]) == 13


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, None),
        ({"stopReason": None}, None),
        ({"stopReason": 5}, None),
        ({"stopReason": "_tired"}, "_tired"),
        ({"stopReason": "refusal"}, "refusal"),
        ({"stopReason": "cancelled"}, "cancelled"),
    ],
)
@on_each_loop
async def test_why_it_ended_is_kept_as_it_was_said(members: dict[str, Any], reason: str | None) -> None:
    """SR-09, SR-10, X3, X4."""
    async with session_of() as (script, session):
        prompt = await prompted(script, session)
        await script.told(RUNNING, {"sessionUpdate": "state_update", "state": "idle", **members})
        assert await prompt.wait() == reason


@on_each_loop
async def test_work_that_failed_says_its_error() -> None:
    """SR-07."""
    async with session_of() as (script, session):
        prompt = await prompted(script, session)
        error = {"code": -32603, "message": "the model is gone"}
        await script.told(RUNNING, {**IDLE, "stopReason": "error", "error": error})
        assert await prompt.wait() == "error"
        assert prompt.error is not None
        assert prompt.error.message == "the model is gone"


@on_each_loop
async def test_a_refused_prompt_raises_and_leaves_nothing_waiting() -> None:
    """PL-11, PL-12; what was sent meanwhile is not mistaken for an answer."""
    async with session_of() as (script, session):

        async def refused() -> None:
            with pytest.raises(RequestError, match="too long"):
                await while_(script.refused("session/prompt", 7, message="too long"), session.prompt("hi"))

        await refused()
        await settled(script)
        gc.collect()
        assert not [one for one in gc.get_objects() if isinstance(one, Sent)]
        updates = session.updates()
        await script.told(RUNNING, IDLE)
        await settled(script)
        assert not updates.is_done, "no prompt was accepted"
        prompt = await prompted(script, session, "u2")
        await script.told(RUNNING, IDLE)
        await prompt.wait()
        assert updates.is_done


@on_each_loop
async def test_a_prompt_that_is_cancelled_while_it_is_held_is_taken_back() -> None:
    """RC-01, RC-08, PL-26: its late answer is nobody's, and no second request is sent."""
    async with session_of() as (script, session):

        async def take_back() -> None:
            task = asyncio.create_task(session.prompt("hi"))
            request = await script.asked("session/prompt")
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            withdrawn = await script.asked("$/cancel_request")
            assert withdrawn["params"] == {"requestId": request["id"]}
            await script.send(told(user("u1")), answer(request, {"messageId": "u1"}))
            await script.told(RUNNING, IDLE)
            await settled(script)

        await take_back()
        assert session.state == v2.StateUpdate(state="idle", stop_reason="end_turn")


@on_each_loop
async def test_an_answer_without_a_message_id_is_none() -> None:
    """PL-14."""
    async with session_of() as (script, session):
        for result in ({}, {"messageId": None}, {"messageId": 5}):
            with pytest.raises(acpwire.DecodeError):
                await while_(script.answered("session/prompt", result), session.prompt("hi"))


async def waits(prompt: Prompt) -> None:
    await prompt.wait()


async def reads(prompt: Prompt) -> None:
    await anext(prompt.stream)


async def reads_batches(prompt: Prompt) -> None:
    await anext(prompt.batches())


@pytest.mark.parametrize("how", [waits, reads, reads_batches])
@on_each_loop
async def test_a_connection_that_is_lost_in_mid_prompt_fails_whoever_waits(how: Callable[[Prompt], Any]) -> None:
    """ER-09; each gets an error of its own, twice, too."""
    async with session_of() as (script, session):
        prompt = await prompted(script, session)
        assert texts([await anext(prompt.stream)]) == ["user_message"]
        other = session.stream()
        until_idle = session.updates()
        waiting = asyncio.ensure_future(how(prompt))
        await script.__aexit__(None, None, None)
        with pytest.raises(ConnectionClosed) as first:
            await waiting
        with pytest.raises(ConnectionClosed) as second:
            await prompt.wait()
        assert first.value is not second.value
        for stream in (other, until_idle, session.stream(), session.updates()):
            with pytest.raises(ConnectionClosed):
                await anext(stream)
        with pytest.raises(ConnectionClosed):
            await session.prompt("again")


@on_each_loop
async def test_what_came_before_the_connection_was_lost_is_still_read() -> None:
    async with session_of() as (script, session):
        prompt = await prompted(script, session)
        await script.told(RUNNING, chunk("last words"))
        await script.__aexit__(None, None, None)
        await until(lambda: session.agent.closed is not None and prompt.is_done)
        seen: list[str] = []

        async def read() -> None:
            async for update in prompt:
                seen.extend(texts([update]))

        with pytest.raises(ConnectionClosed):
            await read()
        assert seen == ["user_message", "running", "last words"]


@on_each_loop
async def test_a_session_that_is_closed_while_a_prompt_is_held_fails_the_prompt_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CA-13: its answer may come after that of `session/close`, as success too (PL-28)."""
    async with session_of() as (script, session):
        held = asyncio.create_task(session.prompt("hi"))
        request = await script.asked("session/prompt")
        await script.told(user("u1"), RUNNING, IDLE)
        await while_(script.answered("session/close", {}), session.close())
        await script.send(answer(request, {"messageId": "u1"}))
        prompt = await held
        assert prompt.message_id == "u1"
        with pytest.raises(ConnectionClosed, match="the session was closed"):
            [update async for update in prompt]
        with pytest.raises(ConnectionClosed, match="the session was closed"):
            await prompt.wait()
        with pytest.raises(UsageError, match="was closed"):
            await session.prompt("again")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


# --- several ----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_prompt_that_joins_running_work_ends_with_it_and_one_that_is_held_does_not() -> None:
    """PL-27, steering: both ends are seen where they are."""
    async with session_of() as (script, session):
        first = await prompted(script, session, "u1")
        await script.told(RUNNING)
        joined = await prompted(script, session, "u2")
        held = asyncio.create_task(session.prompt("later"))
        request = await script.asked("session/prompt")
        await script.told(chunk("of both"), IDLE)
        assert await first.wait() == await joined.wait() == "end_turn"
        assert not held.done()
        await script.send(told(user("u3")), answer(request, {"messageId": "u3"}))
        await script.told(RUNNING, chunk("of the third"), {**IDLE, "stopReason": "max_tokens"})
        assert await (await held).wait() == "max_tokens"


@on_each_loop
async def test_work_that_the_agent_begins_itself_ends_no_prompt_that_comes_later() -> None:
    """ST-18: what an agent does before the prompt's insertion is not the prompt's."""
    async with session_of() as (script, session):
        await script.told(RUNNING, chunk("by itself"))
        held = asyncio.create_task(session.prompt("hi"))
        request = await script.asked("session/prompt")
        await script.told(IDLE)
        await script.send(told(user("u1")), answer(request, {"messageId": "u1"}))
        prompt = await held
        await script.told(IDLE, IDLE)
        await settled(script)
        assert not prompt.is_done, "repeated snapshots end nothing (ST-08)"
        await script.told(RUNNING, IDLE)
        await prompt.wait()


ERROR: dict[str, Any] = {"code": -32603, "message": "no key"}


@pytest.mark.parametrize("order", ["answer first", "echo first", "answer last"])
@on_each_loop
async def test_work_that_fails_before_it_runs_has_ended(order: str) -> None:
    """PL-13, PL-17, SR-07: by idle alone, whatever came first; nothing waits for a `running` that never was."""
    failed = told({**IDLE, "stopReason": "error", "error": ERROR})
    async with session_of() as (script, session):

        async def play() -> None:
            request = await script.asked("session/prompt")
            accepted, echo = answer(request, {"messageId": "u1"}), told(user("u1"))
            lines = {
                "answer first": [accepted, echo, failed],
                "echo first": [echo, accepted, failed],
                "answer last": [echo, failed, accepted],
            }
            await script.send(*lines[order], told(chunk("after")))

        updates = session.updates()
        turn = await while_(play(), session.ask("hi"))
        assert (turn.text, turn.stop_reason) == ("", "error")
        assert turn.error is not None
        assert turn.error.message == "no key"
        assert texts([one async for one in updates]) == ["user_message", "idle"]


@on_each_loop
async def test_an_agent_that_never_says_that_it_runs_ends_every_prompt_by_what_it_says() -> None:
    """PL-17, ST-02, SR-02: as local commands may; the same idle again is no repetition where it has spoken."""
    async with session_of() as (script, session):
        for number in range(3):
            mine = f"u{number}"
            prompt = await prompted(script, session, mine)
            await script.told(chunk("done", f"a{number}"), IDLE, IDLE)
            assert await prompt.wait() == "end_turn"
        thinking = await prompted(script, session, "u3")
        await script.told({**chunk("hm"), "sessionUpdate": "agent_thought_chunk"}, IDLE)
        assert await thinking.wait() == "end_turn"


@pytest.mark.parametrize(
    "repeated",
    [
        IDLE,
        {**IDLE, "background": [{"type": "tool_call", "toolCallId": "t"}]},
        {**IDLE, "usage": {"totalTokens": 7}},
        {**IDLE, "_meta": {"x": 1}},
        {"sessionUpdate": "state_update", "state": "idle", "background": []},
    ],
)
@on_each_loop
async def test_a_snapshot_that_repeats_the_idle_of_the_prompt_before_ends_nothing(repeated: dict[str, Any]) -> None:
    """ST-08, ST-16: whatever else it brings, and whatever goes on in the background."""
    tool = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress"}
    async with session_of() as (script, session):
        first = await prompted(script, session)
        await script.told(RUNNING, chunk("a"), IDLE)
        await first.wait()
        second = await prompted(script, session, "u2")
        await script.told(repeated, tool, repeated)
        await settled(script)
        assert not second.is_done
        await script.told(RUNNING, chunk("b", "a2"), {**IDLE, "stopReason": "refusal"})
        assert await second.wait() == "refusal"


@pytest.mark.parametrize(
    "another",
    [
        {**IDLE, "stopReason": "error"},
        {**IDLE, "stopReason": "cancelled"},
        {**IDLE, "usage": {"inputTokens": 9, "outputTokens": 9, "totalTokens": 18}},
    ],
)
@on_each_loop
async def test_an_idle_that_tells_another_outcome_ends_a_prompt_that_never_ran(another: dict[str, Any]) -> None:
    """PL-13, US-06: it cannot be of the work before."""
    async with session_of() as (script, session):
        first = await prompted(script, session)
        await script.told(RUNNING, {**IDLE, "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}})
        await first.wait()
        second = await prompted(script, session, "u2")
        await script.told(another)
        assert await second.wait() == another["stopReason"]


@on_each_loop
async def test_an_idle_that_no_work_was_seen_before_ends_no_prompt_whose_message_was_not() -> None:
    """ST-08, PL-15: nor one that says no reason; it may be of anything."""
    async with session_of() as (script, session):
        accepted = script.answered("session/prompt", {"messageId": "u1"})
        prompt = await while_(accepted, session.prompt("hi"))
        await script.told({"sessionUpdate": "state_update", "state": "idle"}, IDLE)
        await settled(script)
        assert not prompt.is_done
        await script.told(user("u1"), {"sessionUpdate": "state_update", "state": "idle"})
        await settled(script)
        assert not prompt.is_done
        await script.told(RUNNING, IDLE)
        assert await prompt.wait() == "end_turn"


REPLAYED: list[Any] = [user("u0"), chunk("old", "a0"), {**IDLE, "stopReason": "refusal"}, user("u1"), chunk("b", "a1")]


@pytest.mark.parametrize("state", [{**IDLE, "stopReason": "error"}, IDLE])
@on_each_loop
async def test_a_replay_ends_a_prompt_that_never_ran_only_by_the_state_that_it_ends_with(state: Any) -> None:
    """SS-16, ST-08, ST-09: what is told again is history, states and words; the last state is news, or is none."""
    async with session_of() as (script, session):
        first = await prompted(script, session, "u0")
        await script.told(RUNNING, IDLE)
        await first.wait()
        second = await prompted(script, session, "u1")
        updates = session.updates()
        resuming = asyncio.create_task(session.agent.resume_session(session, replay=True))
        request = await script.asked("session/resume")
        await script.told(*REPLAYED, state)
        await settled(script)
        assert not second.is_done
        await script.send(answer(request, {}))
        await resuming
        if state is IDLE:
            await settled(script)
            assert not second.is_done
            await script.told(RUNNING, {**IDLE, "stopReason": "error"})
        else:
            await script.told(chunk("of later"))
        assert await second.wait() == "error"
        assert texts([one async for one in updates])[-1] == "idle"


@on_each_loop
async def test_a_replay_that_ends_in_running_work_takes_back_the_idle_before_it() -> None:
    """SS-16."""
    async with session_of() as (script, session):
        prompt = await prompted(script, session)
        resuming = asyncio.create_task(session.agent.resume_session(session, replay=True))
        request = await script.asked("session/resume")
        await script.told(*REPLAYED, RUNNING)
        await script.send(answer(request, {}))
        await resuming
        await settled(script)
        assert not prompt.is_done
        await script.told(IDLE)
        assert await prompt.wait() == "end_turn"


@on_each_loop
async def test_what_goes_on_in_the_background_neither_begins_nor_ends_work() -> None:
    """ST-16, SU-06, TC-13."""
    async with session_of() as (script, session):
        prompt = await prompted(script, session)
        await script.told(RUNNING, IDLE)
        await prompt.wait()
        stream = session.stream()
        tool = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress"}
        await script.told(chunk("late"), tool)
        await settled(script)
        assert not session.is_busy
        assert len(stream) == 2


@on_each_loop
async def test_an_agent_that_uses_a_message_id_twice_confuses_no_later_prompt() -> None:
    """PL-19, the other way: the second's work ends after the second was sent."""
    async with session_of() as (script, session):
        first = await prompted(script, session, "u1")
        await script.told(RUNNING, IDLE)
        await first.wait()
        second = await prompted(script, session, "u1")
        assert not second.is_done
        await script.told(RUNNING, {**IDLE, "stopReason": "refusal"})
        assert await second.wait() == "refusal"


@on_each_loop
async def test_prompts_of_different_sessions_do_not_meet() -> None:
    """SS-29."""
    async with session_of() as (script, session):
        made = script.answered("session/new", {"sessionId": "other"})
        other = await while_(made, session.agent.new_session(cwd="/"))
        one, two = await prompted(script, session, "u1"), await prompted(script, other, "u1")
        await script.told(RUNNING)
        await script.told(RUNNING, {**IDLE, "stopReason": "refusal"}, session="other")
        assert await two.wait() == "refusal"
        assert not one.is_done
        await script.told(IDLE)
        assert await one.wait() == "end_turn"


@on_each_loop
async def test_updates_that_are_asked_for_after_an_idle_do_not_end_by_it() -> None:
    """Although it ends a prompt that is accepted only then."""
    async with session_of() as (script, session):
        held = asyncio.create_task(session.prompt("hi"))
        request = await script.asked("session/prompt")
        before = session.updates()
        await script.told(RUNNING, user("u1"), IDLE)
        await settled(script)
        after = session.updates()
        await script.told(chunk("background"))
        await script.send(answer(request, {"messageId": "u1"}))
        assert await (await held).wait() == "end_turn"
        assert texts([one async for one in before]) == ["running", "user_message", "idle"]
        assert not after.is_done
        await prompted(script, session, "u2")
        await script.told(RUNNING, IDLE)
        assert texts([one async for one in after]) == ["background", "user_message", "running", "idle"]


@on_each_loop
async def test_a_prompt_whose_sender_is_cancelled_in_the_moment_of_its_acceptance_still_counts() -> None:
    class Cancels(Client):
        """At the first update after the answer, in the same block."""

        def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
            sending.cancel()

    async with session_of(Cancels()) as (script, session):
        sending = asyncio.create_task(session.prompt("hi"))
        request = await script.asked("session/prompt")
        updates = session.updates()
        await script.send(answer(request, {"messageId": "u1"}), told(RUNNING))
        await asyncio.wait([sending])
        assert sending.cancelled()
        await script.told(IDLE)
        assert texts([one async for one in updates]) == ["running", "idle"]


@on_each_loop
async def test_a_prompt_that_is_held_for_long_remembers_no_more_than_may_be_its_own() -> None:
    async with session_of() as (script, session):
        held = asyncio.create_task(session.prompt("hi"))
        request = await script.asked("session/prompt")
        await script.told(user("another"))
        for _ in range(100):
            await script.told(RUNNING, IDLE)
        await settled(script)
        assert len([one for one in gc.get_objects() if isinstance(one, End)]) <= 2
        await script.send(answer(request, {"messageId": "u1"}))
        prompt = await held
        assert not prompt.is_done


# --- ask --------------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_asking_returns_what_the_agent_answered_after_the_users_message() -> None:
    """Not what it said before, to others; and not its thoughts."""
    async with session_of() as (script, session):

        async def play() -> None:
            request = await script.asked("session/prompt")
            await script.told(RUNNING, chunk("of before"), IDLE)
            thought = {**chunk("hm"), "sessionUpdate": "agent_thought_chunk"}
            await script.send(told(user("u1")), answer(request, {"messageId": "u1"}))
            await script.told(RUNNING, thought, chunk("Hel", "a2"), chunk("lo", "a2"))
            await script.told(user("u2", "and?"), chunk("more", "a3"), {**IDLE, "usage": {"totalTokens": 1}})

        turn = await while_(play(), session.ask("hi"))
        assert turn == Turn("Hello\n\nmore", "end_turn", turn.usage, None)


@on_each_loop
async def test_asking_raises_where_the_connection_is_lost() -> None:
    async with session_of() as (script, session):

        async def play() -> None:
            await script.answered("session/prompt", {"messageId": "u1"})
            await script.told(RUNNING, chunk("half an ans"))
            await script.__aexit__(None, None, None)

        with pytest.raises(ConnectionClosed):
            await while_(play(), session.ask("hi"))


# --- waiting, dropping, overflowing -----------------------------------------------------------------------------------


@on_each_loop
async def test_a_prompt_that_is_dropped_holds_nothing_and_still_counts() -> None:
    """Nothing is queued for it; the work of the newest prompt ends `updates()` all the same."""
    async with session_of(limits=Limits(stream=10_000, grace=5)) as (script, session):
        prompt = await prompted(script, session)
        stream = weakref.ref(prompt.stream)
        del prompt
        await settled(script)
        gc.collect()
        assert stream() is None
        updates = session.updates()
        await script.told(RUNNING, IDLE)
        await settled(script)
        assert updates.is_done


@on_each_loop
async def test_iterating_without_a_name_for_the_prompt_ends_at_its_idle() -> None:
    """As in the shortest client."""
    async with session_of() as (script, session):

        async def play() -> None:
            await script.answered("session/prompt", {"messageId": "u1"})
            await script.told(RUNNING, chunk("a"), IDLE, chunk("b"))

        seen: list[str] = []

        async def read() -> None:
            async for update in await session.prompt("hi"):
                gc.collect()
                seen.extend(texts([update]))

        await while_(play(), read())
        assert seen == ["running", "a", "idle"]


@on_each_loop
async def test_waiting_drops_what_was_not_read_and_reads_on_whatever_is_full() -> None:
    """S-BP-01: a full stream that somebody has begun to read keeps no end from `wait`, nor an answer from `prompt`."""
    async with session_of() as (script, session):
        begun = session.stream()
        prompt = await prompted(script, session)
        assert texts([await anext(begun)]) == ["user_message"]
        lines = [chunk(str(number)) for number in range(3 * HIGH)]
        await script.told(RUNNING, *lines)
        sending = asyncio.create_task(script.told(*lines, IDLE))
        assert await prompt.wait() == "end_turn"
        await sending
        assert len(prompt.stream) == 0
        held = asyncio.create_task(session.prompt("again"))
        request = await script.asked("session/prompt")
        await script.send(*(told(line) for line in lines), answer(request, {"messageId": "u2"}))
        assert (await held).message_id == "u2"
        await script.told(RUNNING, IDLE)

        async def play() -> None:
            await script.answered("session/prompt", {"messageId": "u3"})
            await script.told(RUNNING, *lines)
            await script.told(*lines, IDLE)

        turn = await while_(play(), session.ask("and again"))
        assert len(turn.text) == 2 * sum(len(str(number)) for number in range(3 * HIGH))
        begun.close()


@on_each_loop
async def test_a_prompt_that_is_closed_holds_up_nothing_and_its_work_goes_on() -> None:
    """S-BP-01: left by `break`, it has nothing more read, of other sessions neither."""
    async with session_of() as (script, session):
        prompt = await prompted(script, session)
        async for _ in prompt:
            break
        lines = [chunk(str(number)) for number in range(3 * HIGH)]
        await script.told(RUNNING, *lines)
        await until(lambda: len(prompt.stream) > HIGH)
        sending = asyncio.create_task(script.told(*lines, user("theirs")))
        await asyncio.wait([sending], timeout=0.05)
        assert not sending.done(), "nothing is read any more"
        prompt.close()
        prompt.close()
        await sending
        await settled(script)
        assert ("user", "theirs") in session.transcript.messages
        assert len(prompt.stream) == 0
        assert [one async for one in prompt] == []
        assert not prompt.is_done
        await script.told(IDLE)
        assert await prompt.wait() == "end_turn"
        prompt.close()


@on_each_loop
async def test_a_slow_reader_pauses_the_agent_and_loses_nothing() -> None:
    """S-BP-01, through a prompt."""
    count = 20_000
    most = 0

    async def floods(session: acpwire.AgentSession) -> None:
        async with session.agent_message() as message:
            for number in range(count):
                await message.write(f"{number} ")
                if number % 64 == 0:
                    await asyncio.sleep(0)

    async with connected_to(ScriptedAgent([floods])) as agent:
        session = await agent.new_session(cwd="/")
        prompt = await session.prompt("go")
        words: list[str] = []
        async for update in prompt:
            most = max(most, len(prompt.stream))
            if isinstance(update, v2.AgentMessageChunk) and isinstance(update.content, v2.TextContent):
                words += update.content.text.split()
        assert words == [str(number) for number in range(count)]
        assert most < 10 * HIGH
        assert session.transcript.text.split() == words


@on_each_loop
async def test_a_prompt_that_nobody_reads_overflows_alone() -> None:
    """Its work still ends, the transcript is whole, and other streams have everything."""
    async with session_of(limits=Limits(stream=50_000, grace=5)) as (script, session):
        prompt = await prompted(script, session)
        seen = 0

        async def read(stream: Any) -> None:
            nonlocal seen
            async for _ in stream:
                seen += 1

        reading = asyncio.create_task(read(session.updates()))
        for _ in range(10):
            await script.told(*(chunk("x" * 100) for _ in range(100)))
            await settled(script)
        await script.told(RUNNING, IDLE)
        await reading
        assert seen == 1002
        with pytest.raises(StreamOverflow, match=r"Limits\.stream"):
            [update async for update in prompt]
        assert prompt.stop_reason == "end_turn"
        assert len(session.transcript.text) == 100_000


@on_each_loop
async def test_waiting_and_reading_may_be_cancelled_at_every_wait() -> None:
    async with session_of() as (script, session):
        prompt = await prompted(script, session)
        assert await cancelled_at(1, prompt.wait())
        assert not prompt.is_done
        again = await prompted(script, session, "u2")

        async def read(reader: Any) -> None:
            await anext(reader)

        await read(again.stream)
        assert await cancelled_at(1, read(again.stream))
        await script.told(RUNNING, IDLE)
        assert texts([update async for update in again]) == ["running", "idle"]
        assert await prompt.wait() == "end_turn"


@on_each_loop
async def test_sending_and_asking_may_be_cancelled_at_every_wait() -> None:
    """RC-01: nothing is left waiting in the session, whenever it was."""

    async def accepts(script: Script) -> None:
        """Every prompt, whenever it comes, and end its work."""
        accepted = 0
        while True:
            message = await script.receive_json()
            if message["method"] == "session/prompt":
                accepted += 1
                mine = f"u{accepted}"
                await script.send(told(user(mine)), answer(message, {"messageId": mine}))
                await script.told(RUNNING, chunk("x"), IDLE)

    for action in (ClientSession.prompt, ClientSession.ask):
        async with session_of() as (script, session):
            running = asyncio.create_task(accepts(script))

            async def attempt(number: int, act: Any = action, on: ClientSession = session) -> bool:
                return await cancelled_at(number, act(on, "hi"))

            await walk(attempt)
            turn = await session.ask("last")
            assert turn.text == "x"
            running.cancel()
            await asyncio.wait([running])


@on_each_loop
async def test_a_late_refusal_after_cancelling_is_nobodys() -> None:
    async with session_of() as (script, session):
        task = asyncio.create_task(session.prompt("hi"))
        request = await script.asked("session/prompt")
        task.cancel()
        await asyncio.wait([task])
        await script.asked("$/cancel_request")
        await script.send(failure(request, -32800))
        await settled(script)


@on_each_loop
async def test_a_callback_that_asks_in_the_pump_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    """Else the answer would wait for the callback, and that for the answer."""
    raised: list[BaseException] = []

    class Asks(Client):
        async def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
            await asyncio.sleep(0)
            try:
                await session.prompt("from a callback")
            except UsageError as error:
                raised.append(error)

    async with session_of(Asks()) as (script, _):
        await script.told(chunk("a"))
        await settled(script)
    assert len(raised) == 1
