"""Streams: what is put comes out in order, whole, bounded, whoever reads when."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpwire.errors import StreamOverflow, UsageError
from acpwire.limits import Limits
from acpwire.streams import HIGH, LOW, Feed, Stream
from tests.transports.loops import cancelled_at, on_each_loop


class Gate:
    """Counts who holds it; nobody does twice."""

    def __init__(self) -> None:
        self.holders: set[int] = set()

    def hold(self, holder: object) -> None:
        assert id(holder) not in self.holders
        self.holders.add(id(holder))

    def release(self, holder: object) -> None:
        self.holders.discard(id(holder))


class Source:
    """What a stream gets its items from; it has delivered something before."""

    def __init__(self, limit: int, gate: Gate | None = None) -> None:
        self.gate = gate or Gate()
        self.total = 7
        self.feed: Feed[int] = Feed(self.gate, Limits(stream=limit), self.total)

    def put(self, item: int, size: int = 10) -> bool:
        """Deliver an item of so many bytes."""
        self.total += size
        return self.feed.put(item, self.total)


def stream_of(count: int = 0, *, limit: int = 10**9) -> tuple[Source, Stream[int]]:
    """A stream that holds so many items of ten bytes."""
    source = Source(limit)
    for number in range(count):
        source.put(number)
    return source, Stream(source.feed)


async def all_of(source: AsyncIterator[Any]) -> list[Any]:
    """All that is left of it."""
    return [item async for item in source]


@given(st.lists(st.sampled_from(["put", "next", "batch"]), max_size=60))
def test_whatever_the_turns_every_item_comes_once_and_in_order(turns: list[str]) -> None:
    async def run() -> None:
        source, stream = stream_of()
        batches = stream.batches()
        put, got = 0, list[int]()
        for turn in turns:
            if turn == "put":
                source.put(put)
                put += 1
            elif len(stream) and turn == "next":
                got.append(await anext(stream))
            elif len(stream):
                got += await anext(batches)
        source.feed.end()
        assert got + await all_of(stream) == list(range(put))

    asyncio.run(run())


@on_each_loop
async def test_a_stream_holds_the_gate_only_once_it_is_read_and_until_a_quarter_is_left() -> None:
    source, stream = stream_of(HIGH * 2)
    assert not source.gate.holders, "nobody has begun to read"
    await anext(stream)
    source.put(0)
    assert source.gate.holders
    while len(stream) > LOW:
        await anext(stream)
        assert source.gate.holders
    await anext(stream)
    assert not source.gate.holders


@on_each_loop
async def test_a_batch_takes_all_and_lets_go() -> None:
    source, stream = stream_of(1)
    batches = stream.batches()
    assert await anext(batches) == [0]
    for number in range(HIGH + 1):
        source.put(number)
    assert source.gate.holders
    assert len(await anext(batches)) == HIGH + 1
    assert not source.gate.holders


@pytest.mark.parametrize("how", ["close", "end", "drop"])
@on_each_loop
async def test_a_stream_that_is_done_or_dropped_lets_go(how: str) -> None:
    source, stream = stream_of(1)
    await anext(stream)
    for number in range(HIGH + 1):
        source.put(number)
    assert source.gate.holders
    if how == "drop":
        del stream
        gc.collect()
    elif how == "close":
        stream.close()
    else:
        source.feed.end()
    assert not source.gate.holders


@on_each_loop
async def test_a_stream_that_is_dropped_while_it_takes_the_gate_lets_go() -> None:
    """What holds a gate may collect garbage, and the stream with it."""

    class Collecting(Gate):
        def hold(self, holder: object) -> None:
            streams.clear()
            super().hold(holder)

    source = Source(10**9, Collecting())
    streams = [Stream(source.feed)]
    source.put(0)
    await anext(streams[0])
    for number in range(HIGH + 1):
        source.put(number)
    assert not streams
    assert not source.gate.holders
    assert not source.put(0)


def test_a_stream_may_be_dropped_with_its_reader_after_their_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    def swallow(*_: object) -> None:
        """The loop tells of the task that is dropped."""

    async def drop() -> None:
        asyncio.get_running_loop().set_exception_handler(swallow)
        reader = asyncio.create_task(all_of(stream_of()[1]))
        await asyncio.sleep(0)
        assert not reader.done()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(drop())
    loop.close()
    gc.collect()
    assert not unraisable


@on_each_loop
async def test_what_waits_is_read_before_the_end_and_nothing_is_added_after() -> None:
    source, stream = stream_of(3)
    source.feed.end()
    source.put(99)
    source.feed.end(ValueError("too late"))
    assert stream.is_done
    assert await anext(stream) == 0
    assert not source.put(99)
    assert await all_of(stream) == [1, 2]
    assert await all_of(stream) == [], "and again"
    assert not source.put(99)


@on_each_loop
async def test_the_limit_ends_a_stream_after_what_it_holds_and_says_its_name() -> None:
    _, stream = stream_of(5, limit=30)
    assert stream.is_done
    assert [await anext(stream) for _ in range(3)] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(StreamOverflow, match=r"30 bytes \(Limits\.stream\)"):
            await anext(stream)


@on_each_loop
async def test_the_limit_counts_what_waits_not_what_has_passed() -> None:
    source, stream = stream_of(limit=30)
    for number in range(100):
        source.put(number)
        assert await anext(stream) == number
    assert not stream.is_done


@given(
    limit=st.integers(1, 100_000),
    runs=st.lists(st.tuples(st.sampled_from(["put", "next", "batch"]), st.integers(0, 2_000), st.integers(0, 1_500))),
)
def test_no_more_waits_than_the_limit_whatever_came_before(limit: int, runs: list[tuple[str, int, int]]) -> None:
    """S-BP-01: many small items before large ones, a large one before many small ones, a peak that was read since."""

    async def run() -> None:
        source, stream = stream_of(limit=limit)
        waiting: deque[int] = deque()
        for what, size, count in runs:
            for _ in range(count):
                if what == "put":
                    fits = sum(waiting) + size <= limit
                    assert source.put(size, size) == fits
                    if not fits:
                        return
                    waiting.append(size)
                elif waiting and what == "next":
                    assert await anext(stream) == waiting.popleft()
                elif waiting:
                    assert await anext(stream.batches()) == [*waiting]
                    waiting.clear()

    asyncio.run(run())


@given(
    sizes=st.lists(st.integers(1, 1_000), max_size=30),
    read=st.integers(0, 30),
    by=st.sampled_from(["next", "batch"]),
    kept=st.integers(0, 30),
)
def test_a_stream_that_ends_where_it_was_has_what_was_not_read_up_to_there(
    sizes: list[int], read: int, by: str, kept: int
) -> None:
    async def run() -> None:
        source, stream = stream_of()
        totals = [source.total]
        for number, size in enumerate(sizes):
            source.put(number, size)
            totals.append(source.total)
        was_read = min(read, len(sizes)) if by == "next" else len(sizes)
        if by == "next":
            for _ in range(was_read):
                await anext(stream)
        elif sizes:
            await anext(stream.batches())
        end = min(kept, len(sizes))
        source.feed.end_at(totals[end])
        assert not source.put(99), "nothing is added"
        assert await all_of(stream) == list(range(was_read, end))

    asyncio.run(run())


@on_each_loop
async def test_a_stream_that_was_full_long_ago_holds_its_source_again_as_soon() -> None:
    source, stream = stream_of(5 * HIGH)
    assert not source.gate.holders, "nobody reads it"
    await anext(stream)
    source.put(0)
    assert source.gate.holders
    while len(stream):
        await anext(stream)
    assert not source.gate.holders
    for number in range(HIGH):
        source.put(number)
    assert not source.gate.holders
    source.put(0)
    assert source.gate.holders


@on_each_loop
async def test_an_error_at_the_end_comes_after_what_waits_by_batches_too() -> None:
    source, stream = stream_of(2)
    source.feed.end(ValueError("broken"))
    batches = stream.batches()
    assert await anext(batches) == [0, 1]
    with pytest.raises(ValueError, match="broken"):
        await anext(batches)


@on_each_loop
async def test_closing_drops_what_waits_and_wakes_the_reader() -> None:
    _, stream = stream_of()
    reader = asyncio.create_task(all_of(stream))
    await asyncio.sleep(0)
    stream.close()
    assert await reader == []
    _, stream = stream_of(3)
    stream.close()
    assert await all_of(stream) == []
    assert len(stream) == 0


@on_each_loop
async def test_a_cancelled_step_loses_nothing() -> None:
    source, stream = stream_of()
    assert await cancelled_at(1, stream.__anext__())
    source.put(1)
    assert await anext(stream) == 1
    reader = asyncio.create_task(stream.__anext__())
    await asyncio.sleep(0)
    source.put(2)  # the reader is woken and cancelled at once
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert await anext(stream) == 2
    batches = stream.batches()
    waiting = asyncio.ensure_future(batches.__anext__())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    source.put(3)
    assert await anext(batches) == [3]


@on_each_loop
async def test_two_readers_at_once_are_refused() -> None:
    source, stream = stream_of()
    reader = asyncio.create_task(stream.__anext__())
    await asyncio.sleep(0)
    with pytest.raises(UsageError, match="two tasks"):
        await anext(stream)
    source.put(1)
    assert await reader == 1
