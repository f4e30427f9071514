"""What callbacks do comes in the wire's order, and what waits for them is bounded."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from typing import Any

import pytest

from acpwire import v2
from acpwire.client import Client, ClientSession
from acpwire.errors import ConnectionClosed
from tests.client.script import (
    IDLE,
    RUNNING,
    answer,
    chunk,
    connected,
    prompted,
    session_of,
    settled,
    texts,
    told,
    while_,
)
from tests.transports.loops import on_each_loop, until


@on_each_loop
async def test_ten_thousand_updates_reach_a_callback_that_waits_at_random_in_the_wires_order() -> None:
    """S-OR-03, SU-07; the transcript has each before its callback."""
    chance = random.Random(11)  # noqa: S311  # no secret
    seen: list[str] = []

    class Slow(Client):
        async def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
            for _ in range(chance.choice([0, 0, 0, 1, 2])):
                await asyncio.sleep(0)
            seen.extend(texts([update]))

    async with session_of(Slow()) as (script, _):
        for number in range(0, 10_000, 100):
            await script.told(*(chunk(str(one)) for one in range(number, number + 100)))
        await settled(script)
    assert seen == [str(number) for number in range(10_000)]


@on_each_loop
async def test_early_updates_reach_a_callback_that_waits_before_all_later_ones() -> None:
    """S-OR-02, S-OR-03, SS-09: also while it still has the first of them in hand; then it may ask, too."""
    seen: list[str] = []
    titles: list[str] = []

    class Slow(Client):
        async def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
            if not seen:
                titles.append(await session.set_title("asked within the callback"))
            for _ in range(3):
                await asyncio.sleep(0)
            seen.extend(texts([update]))

    async with connected(Slow()) as (script, agent):

        async def play() -> None:
            request = await script.asked("session/new")
            await script.send(
                *(told(chunk(str(number))) for number in range(5)),
                answer(request, {"sessionId": "s"}),
                *(told(chunk(str(number))) for number in range(5, 10)),
            )
            await script.answered("session/set_title", {"title": "t"})

        session = await while_(play(), agent.new_session(cwd="/"))
        await script.told(*(chunk(str(number)) for number in range(10, 15)))
        await until(lambda: len(seen) == 15)
        await script.told(chunk("15"))
        await until(lambda: len(seen) == 16)
        assert seen == [str(number) for number in range(16)]
        assert titles == ["t"]
        assert session.transcript.text == "".join(seen)


@on_each_loop
async def test_a_callback_that_fails_is_logged_and_the_next_update_comes(caplog: pytest.LogCaptureFixture) -> None:
    """SU-14; in a callback of either sort, of early updates too."""
    seen: list[str] = []

    class Fails(Client):
        def update(self, session: ClientSession, update: v2.SessionUpdate) -> Any:
            text = texts([update])[0]
            if text.startswith("async"):
                return self.fail(text)
            if text.startswith("fail"):
                raise ValueError(text)
            seen.append(text)
            return None

        async def fail(self, text: str) -> None:
            await asyncio.sleep(0)
            if text == "async cancel":
                raise asyncio.CancelledError
            raise ValueError(text)

    bad = [chunk(text) for text in ("fail", "async", "async cancel", "good")]
    with caplog.at_level(logging.ERROR):
        async with connected(Fails()) as (script, agent):

            async def play() -> None:
                request = await script.asked("session/new")
                await script.send(*(told(one) for one in bad), answer(request, {"sessionId": "s"}))

            await while_(play(), agent.new_session(cwd="/"))
            await until(lambda: len(seen) == 1)
            await script.told(*bad, {"sessionUpdate": "agent_message_chunk", "messageId": 5})
            await settled(script)
            assert seen == ["good", "good"]
    assert [record.getMessage() for record in caplog.records] == [
        "Fails.update, a callback of the client, failed",
        "Fails.fail, a callback of the client, failed",
        "Fails.fail, a callback of the client, was cancelled from inside",
    ]


@pytest.mark.parametrize("sort", ["plain", "coroutine"])
@on_each_loop
async def test_a_callback_that_always_fails_is_named_with_its_class_and_does_not_flood_the_log(
    sort: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Plain(Client):
        def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
            raise ValueError(texts([update])[0])

    class Waiting(Client):
        async def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
            raise ValueError(texts([update])[0])

    client, role = (
        (Plain(), "the handler of session/update") if sort == "plain" else (Waiting(), "a handler of notifications")
    )
    with caplog.at_level(logging.ERROR):
        async with session_of(client) as (script, session):
            await script.told(*(chunk(str(number)) for number in range(1, 121)))
            await settled(script)
            assert session.transcript.text.endswith("119120")
    name = f"{type(client).__name__}.update, {role}, failed"
    assert [(record.getMessage(), bool(record.exc_info)) for record in caplog.records] == [
        (name, True),
        (f"{name}, for the 10th time: ValueError: 10", False),
        (f"{name}, for the 100th time: ValueError: 100", False),
    ]


@on_each_loop
async def test_a_slow_callback_of_early_updates_pauses_reading_and_is_ended_with_the_connection() -> None:
    """S-BP-01: what waits behind it does not grow without end."""
    hanging = asyncio.Event()
    ended: list[bool] = []

    class Hangs(Client):
        async def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
            hanging.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

    async with connected(Hangs()) as (script, agent):

        async def play() -> None:
            request = await script.asked("session/new")
            await script.send(told(chunk("a")), answer(request, {"sessionId": "s"}))

        session = await while_(play(), agent.new_session(cwd="/"))
        await hanging.wait()
        prompt = await prompted(script, session)  # its answer is read, as a request waits for it
        waiting = asyncio.create_task(prompt.wait())
        flood = asyncio.create_task(script.told(*[chunk("x" * 1000)] * 5000))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert sum(len(message.text) for message in session.transcript.messages.values()) < 500_000
        await agent.close()
        with suppress(ConnectionClosed):
            await flood
        with pytest.raises(ConnectionClosed):
            await waiting
    assert ended == [True]


@on_each_loop
async def test_a_callback_sees_an_update_after_the_transcript_and_a_stream_has_it_then() -> None:
    """What "delivered" means."""
    seen: list[tuple[str, int]] = []

    class Looks(Client):
        def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
            seen.append((session.transcript.text, len(streams[0])))

    streams: list[Any] = []
    async with session_of(Looks()) as (script, session):
        streams.append(session.stream())
        await script.told(chunk("a"), chunk("b"))
        await settled(script)
    assert seen == [("a", 1), ("ab", 2)]


@on_each_loop
async def test_what_nobody_knows_of_is_dropped_and_everything_else_goes_on() -> None:
    """SU-03, SU-13, SU-14, W-EN: unknown variants are delivered as they came, broken ones not at all."""
    seen: list[Any] = []

    class Keeps(Client):
        def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
            seen.append(update)

    async with session_of(Keeps()) as (script, session):
        unknown = {"sessionUpdate": "_acme/thing", "x": [1, 2]}
        await script.told(unknown, {"sessionUpdate": "agent_message_chunk"}, RUNNING, IDLE)
        await script.send({"jsonrpc": "2.0", "method": "_acme/other"}, "no json")
        await script.receive_json()  # -32700
        await settled(script)
        assert [one.tag for one in seen] == ["_acme/thing", "state_update", "state_update"]
        assert seen[0].data == unknown
        assert session.agent.stats.malformed == 2
        assert session.agent.stats.drops == 2
