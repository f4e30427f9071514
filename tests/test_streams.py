"""Streams: what is put comes out in order, whole, bounded, whoever reads when."""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpwire.errors import StreamOverflow, UsageError
from acpwire.limits import Limits
from acpwire.streams import HIGH, LOW, Stream
from tests.transports.loops import cancelled_at, on_each_loop


class Gate:
    """Counts who holds it."""

    def __init__(self) -> None:
        self.holders: set[int] = set()

    def hold(self, holder: object) -> None:
        self.holders.add(id(holder))

    def release(self, holder: object) -> None:
        self.holders.discard(id(holder))


def stream_of(count: int = 0, *, limit: int = 10**9) -> tuple[Gate, Stream[int]]:
    """A stream that holds so many items of ten bytes."""
    gate = Gate()
    stream: Stream[int] = Stream(gate, Limits(stream=limit))
    for number in range(count):
        stream.put(number, 10)
    return gate, stream


async def all_of(source: AsyncIterator[Any]) -> list[Any]:
    """All that is left of it."""
    return [item async for item in source]


@given(st.lists(st.sampled_from(["put", "next", "batch"]), max_size=60))
def test_whatever_the_turns_every_item_comes_once_and_in_order(turns: list[str]) -> None:
    async def run() -> None:
        _, stream = stream_of()
        batches = stream.batches()
        put, got = 0, list[int]()
        for turn in turns:
            if turn == "put":
                stream.put(put, 10)
                put += 1
            elif len(stream) and turn == "next":
                got.append(await anext(stream))
            elif len(stream):
                got += await anext(batches)
        stream.end()
        assert got + await all_of(stream) == list(range(put))

    asyncio.run(run())


@on_each_loop
async def test_a_stream_holds_the_gate_only_once_it_is_read_and_until_a_quarter_is_left() -> None:
    gate, stream = stream_of(HIGH * 2)
    assert not gate.holders, "nobody has begun to read"
    await anext(stream)
    stream.put(0, 10)
    assert gate.holders
    while len(stream) > LOW:
        await anext(stream)
        assert gate.holders
    await anext(stream)
    assert not gate.holders


@on_each_loop
async def test_a_batch_takes_all_and_lets_go() -> None:
    gate, stream = stream_of(1)
    batches = stream.batches()
    assert await anext(batches) == [0]
    for number in range(HIGH + 1):
        stream.put(number, 10)
    assert gate.holders
    assert len(await anext(batches)) == HIGH + 1
    assert not gate.holders


@pytest.mark.parametrize("how", ["close", "end", "drop"])
@on_each_loop
async def test_a_stream_that_is_done_or_dropped_lets_go(how: str) -> None:
    gate, stream = stream_of(1)
    await anext(stream)
    for number in range(HIGH + 1):
        stream.put(number, 10)
    assert gate.holders
    if how == "drop":
        del stream
        gc.collect()
    else:
        getattr(stream, how)()
    assert not gate.holders


@on_each_loop
async def test_what_waits_is_read_before_the_end_and_nothing_is_added_after() -> None:
    _, stream = stream_of(3)
    stream.end()
    stream.put(99, 10)
    stream.end(ValueError("too late"))
    assert stream.is_done
    assert await all_of(stream) == [0, 1, 2]
    assert await all_of(stream) == [], "and again"


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
    _, stream = stream_of(limit=30)
    for number in range(100):
        stream.put(number, 10)
        assert await anext(stream) == number
    assert not stream.is_done


@given(
    limit=st.integers(1, 100_000),
    runs=st.lists(st.tuples(st.sampled_from(["put", "next", "batch"]), st.integers(0, 2_000), st.integers(0, 1_500))),
)
def test_no_more_waits_than_the_limit_whatever_came_before(limit: int, runs: list[tuple[str, int, int]]) -> None:
    """S-BP-01: many small items before large ones, a large one before many small ones, a peak that was read since."""

    async def run() -> None:
        stream: Stream[int] = Stream(Gate(), Limits(stream=limit))
        waiting: deque[int] = deque()
        for what, size, count in runs:
            for _ in range(count):
                if what == "put":
                    fits = sum(waiting) + size <= limit
                    assert stream.put(size, size) == fits
                    if not fits:
                        return
                    waiting.append(size)
                elif waiting and what == "next":
                    assert await anext(stream) == waiting.popleft()
                elif waiting:
                    assert await anext(stream.batches()) == [*waiting]
                    waiting.clear()

    asyncio.run(run())


@on_each_loop
async def test_a_stream_that_was_full_long_ago_holds_its_source_again_as_soon() -> None:
    gate, stream = stream_of(5 * HIGH)
    assert not gate.holders, "nobody reads it"
    await anext(stream)
    stream.put(0, 10)
    assert gate.holders
    while len(stream):
        await anext(stream)
    assert not gate.holders
    for number in range(HIGH):
        stream.put(number, 10)
    assert not gate.holders
    stream.put(0, 10)
    assert gate.holders


@on_each_loop
async def test_an_error_at_the_end_comes_after_what_waits_by_batches_too() -> None:
    _, stream = stream_of(2)
    stream.end(ValueError("broken"))
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
    _, stream = stream_of()
    assert await cancelled_at(1, stream.__anext__())
    stream.put(1, 10)
    assert await anext(stream) == 1
    reader = asyncio.create_task(stream.__anext__())
    await asyncio.sleep(0)
    stream.put(2, 10)  # the reader is woken and cancelled at once
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
    stream.put(3, 10)
    assert await anext(batches) == [3]


@on_each_loop
async def test_two_readers_at_once_are_refused() -> None:
    _, stream = stream_of()
    reader = asyncio.create_task(stream.__anext__())
    await asyncio.sleep(0)
    with pytest.raises(UsageError, match="two tasks"):
        await anext(stream)
    stream.put(1, 10)
    assert await reader == 1
