"""Updates that come before their session are its own, and nothing is kept for ever."""

from __future__ import annotations

import asyncio
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpwire import v2
from acpwire.client.early import Early
from acpwire.limits import Limits
from tests.client.script import (
    answer,
    chunk,
    connected,
    new_session,
    settled,
    told,
    while_,
)
from tests.transports.loops import on_each_loop


@on_each_loop
async def test_updates_before_the_answer_that_makes_a_session_are_the_sessions() -> None:
    """SS-09, SU-06, S-OR-02: in one write, in order, before those after it; of several sessions at once."""
    async with connected() as (script, agent):

        async def play() -> None:
            one = await script.asked("session/new")
            two = await script.asked("session/new")
            await script.send(
                told(chunk("a"), "1"), told(chunk("x"), "2"), told(chunk("b"), "1"), answer(two, {"sessionId": "2"})
            )
            await script.send(told(chunk("c"), "1"), answer(one, {"sessionId": "1"}), told(chunk("d"), "1"))

        both = asyncio.gather(agent.new_session(cwd="/1"), agent.new_session(cwd="/2"))
        await play()
        first, second = await both
        await settled(script)
        assert (first.id, second.id) == ("1", "2")
        assert (first.transcript.text, second.transcript.text) == ("abcd", "x")
        assert agent.sessions == {"1": first, "2": second}


@on_each_loop
async def test_updates_of_unknown_sessions_are_kept_only_while_one_is_being_made() -> None:
    """Nothing is held for ever, and no stale update reaches a session that is taken up later."""
    async with connected() as (script, agent):
        await script.told(chunk("stale"), session="s")
        await settled(script)
        assert agent.stats.drops == 1
        other = asyncio.create_task(agent.new_session(cwd="/"))
        request = await script.asked("session/new")
        await script.told(chunk("stale"), session="s")
        await script.send(answer(request, {"sessionId": "other"}))
        await other
        session = await new_session(script, agent)
        assert session.transcript.text == ""


@on_each_loop
async def test_an_update_from_before_a_session_is_taken_up_is_not_its_own() -> None:
    """SS-19: a replay tells it again."""
    async with connected() as (script, agent):
        making = asyncio.create_task(agent.new_session(cwd="/"))
        new = await script.asked("session/new")
        await script.told(chunk("told"), session="r")
        await settled(script)
        resuming = asyncio.create_task(agent.resume_session("r", cwd="/", replay=True))
        resume = await script.asked("session/resume")
        await script.told(chunk("told"), session="r")
        await script.send(answer(resume, {}), answer(new, {"sessionId": "n"}))
        session = await resuming
        await making
        assert session.transcript.text == "told"


@on_each_loop
async def test_what_is_kept_for_sessions_that_are_being_made_has_limits(caplog: pytest.LogCaptureFixture) -> None:
    """Limits.unknown_sessions, Limits.unknown_updates; what is beyond is dropped, counted, and said once."""
    limits = Limits(unknown_sessions=2, unknown_updates=1000, grace=5)
    with caplog.at_level(logging.WARNING):
        async with connected(limits=limits) as (script, agent):

            async def play() -> None:
                request = await script.asked("session/new")
                for session in ("a", "b", "c", "s"):
                    await script.told(chunk("x"), session=session)
                await script.told(chunk("y" * 1000), session="a")
                await script.send(answer(request, {"sessionId": "a"}))

            session = await while_(play(), agent.new_session(cwd="/"))
            assert session.transcript.text == "x"
            assert agent.stats.drops == 3
    assert len(caplog.records) == 1
    assert "Limits.unknown_sessions" in caplog.text


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 60), st.booleans()), max_size=40))
def test_what_is_kept_is_within_its_limits_and_comes_once_in_order(turns: list[tuple[str, int, bool]]) -> None:
    """Limits.unknown_sessions, Limits.unknown_updates: what has been taken makes room."""
    early = Early(Limits(unknown_sessions=2, unknown_updates=100))
    kept: dict[str, list[tuple[v2.SessionUpdate, int]]] = {}
    with early.kept():
        for number, (session_id, size, is_taken) in enumerate(turns):
            if is_taken:
                assert list(early.of(session_id)) == kept.pop(session_id, [])
                continue
            waiting = sum(size for updates in kept.values() for _, size in updates)
            has_room = waiting + size <= 100 and (session_id in kept or len(kept) < 2)
            update = v2.AgentMessageChunk(message_id=str(number), content=v2.TextContent(text="x"))
            assert early.keep(v2.UpdateSessionNotification(session_id=session_id, update=update), size) == has_room
            if has_room:
                kept.setdefault(session_id, []).append((update, size))
    with early.kept():
        assert not [one for session_id in "abcd" for one in early.of(session_id)], "they belong to none"
