"""What every transport does: blocks in order, pausing, `read` and `write`, one end, closing; and what it costs nobody.

Each law is tried for a pair in memory, pipes, sockets, a thread that reads, and a stranger's three methods.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

import pytest

from acpwire.errors import ConnectionClosed, UsageError
from acpwire.limits import Limits
from acpwire.transports import Channel, Transport, channel_of, pair
from acpwire.transports.channel import Received
from acpwire.transports.descriptors import DescriptorChannel, PolledReader, ThreadReader, Writer

from .loops import LOOPS, cancelled_at, nothing_left, on_each_loop, until, walk

Ends = tuple[Channel, Channel]
MANY = 3 * 1024 * 1024  # more than any pipe or socket holds


class Stranger:
    """Somebody's own transport: three methods over another one."""

    def __init__(self, inner: Channel) -> None:
        self.inner = inner
        self.closed = 0

    async def read(self) -> bytes:
        return await self.inner.read()

    async def write(self, data: bytes, /) -> None:
        await self.inner.write(data)

    async def close(self) -> None:
        self.closed += 1
        await self.inner.close()


def over_pipes() -> Ends:
    (a, b), (c, d) = os.pipe(), os.pipe()
    for fd in (a, b, c, d):
        os.set_blocking(fd, False)
    return DescriptorChannel(PolledReader(a), Writer(d), 5), DescriptorChannel(PolledReader(c), Writer(b), 5)


def over_threads() -> Ends:
    (a, b), (c, d) = os.pipe(), os.pipe()
    for fd in (b, d):
        os.set_blocking(fd, False)
    return DescriptorChannel(ThreadReader(a), Writer(d), 5), DescriptorChannel(ThreadReader(c), Writer(b), 5)


def over_sockets() -> Ends:
    ends: list[DescriptorChannel] = []
    for one in socket.socketpair():
        one.setblocking(False)
        ends.append(DescriptorChannel(PolledReader(os.dup(one.fileno())), Writer(one.detach()), 5))
    return ends[0], ends[1]


def over_strangers() -> Ends:
    left, right = over_pipes()
    return channel_of(Stranger(left)), channel_of(Stranger(right))


KINDS = [pair, over_pipes, over_threads, over_sockets, over_strangers]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
Kind = Callable[[], Ends]


class Reader:
    """Starts a channel and notes what comes."""

    def __init__(self, channel: Channel, received: Received | None = None) -> None:
        self.channel = channel
        self.data = bytearray()
        self.ends: list[Exception | None] = []
        self.also = received
        self._changed = asyncio.Event()
        channel.start(self._received, self._ended)

    def _received(self, block: bytes) -> None:
        assert type(block) is bytes
        assert block
        assert not self.ends
        self.data += block
        self._changed.set()
        if self.also is not None:
            self.also(block)

    def _ended(self, error: Exception | None) -> None:
        self.ends.append(error)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def has(self, size: int) -> None:
        await self.until(lambda: len(self.data) >= size)

    async def end(self) -> Exception | None:
        await self.until(lambda: bool(self.ends))
        return self.ends[0]


async def closed(*channels: Transport) -> None:
    for channel in channels:
        await channel.close()


def pattern(size: int) -> bytes:
    """Bytes that show where one is lost, doubled or out of order."""
    return b"".join(b"%015d\n" % number for number in range(size // 16))


# --- callbacks --------------------------------------------------------------------------------------------------------


@each_kind
@on_each_loop
async def test_blocks_come_whole_and_in_order_and_then_the_end_once(kind: Kind) -> None:
    left, right = kind()
    reader = Reader(right)
    data = pattern(MANY)
    for start in range(0, MANY, 100_000):
        left.send(data[start : start + 100_000])
    left.send(b"")
    await left.close()
    assert await reader.end() is None
    assert reader.data == data
    await right.close()
    assert reader.ends == [None]
    assert "the other end closed" in str(right.closed_error())
    assert left.failure == right.failure == ""


@each_kind
@on_each_loop
async def test_a_turn_of_the_loop_is_between_sending_and_receiving(kind: Kind) -> None:
    left, right = kind()
    reader = Reader(right)
    left.send(b"hello")
    assert not reader.data
    await reader.has(5)
    await closed(left, right)


@each_kind
@on_each_loop
async def test_nothing_comes_while_paused_and_all_of_it_later(kind: Kind) -> None:
    left, right = kind()
    reader = Reader(right, lambda _: right.pause())
    data = pattern(MANY)
    for start in range(0, MANY, 16_000):
        left.send(data[start : start + 16_000])
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    left.drained = lambda: None if done.done() else done.set_result(None)
    blocks = 0
    while len(reader.data) < MANY:
        blocks += 1
        before = len(reader.data)
        right.pause()
        right.resume()
        right.resume()
        await reader.has(before + 1)
        if blocks < 4:
            size = len(reader.data)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(reader.data) == size
    await done
    assert left.unsent == 0
    assert reader.data == data
    right.resume()
    await left.close()
    await reader.end()
    await right.close()


@each_kind
@on_each_loop
async def test_pausing_holds_what_comes_next(kind: Kind) -> None:
    """From outside, with a read on its way, and before it begins."""
    left, right = kind()
    right.pause()
    reader = Reader(right)
    left.send(b"hello")
    for _ in range(50):
        await asyncio.sleep(0)
    assert not reader.data
    right.resume()
    await reader.has(5)
    right.pause()
    left.send(b"again")
    for _ in range(50):
        await asyncio.sleep(0)
    assert reader.data == b"hello"
    right.resume()
    await reader.has(10)
    await closed(left, right)


@on_each_loop
async def test_a_pair_lets_the_loop_turn() -> None:
    left, right = pair()
    reader = Reader(right)
    for _ in range(100):
        left.send(b"x" * 10_000)
    sizes: list[int] = []
    while left.unsent:
        await asyncio.sleep(0)
        sizes.append(len(reader.data))
    assert len(sizes) >= 14
    assert sizes[1] <= 2 * 70_000
    await closed(left, right)


@each_kind
@on_each_loop
async def test_unsent_counts_what_nobody_takes_and_drained_says_when_it_is_gone(kind: Kind) -> None:
    """S-BP-02."""
    left, right = kind()
    calls: list[int] = []
    left.drained = lambda: calls.append(left.unsent)
    data = pattern(MANY)
    left.send(data)
    left.send(b"more")
    assert MANY // 2 < left.unsent <= MANY + 4
    for _ in range(20):
        await asyncio.sleep(0)
    assert not calls
    reader = Reader(right)
    await reader.has(MANY + 4)
    await until(lambda: not left.unsent)
    assert set(calls) == {0}
    assert reader.data == data + b"more"
    await closed(left, right)


async def sent_until_it_fails(channel: Channel) -> None:
    while True:
        channel.send(b"y")
        await asyncio.sleep(0)


@each_kind
@on_each_loop
async def test_sending_to_who_is_gone_raises_and_wakes_who_waited(kind: Kind) -> None:
    left, right = kind()
    waiting = asyncio.ensure_future(left.write(b"x" * MANY))
    await asyncio.sleep(0)
    await right.close()
    with pytest.raises(ConnectionClosed):
        await waiting
    with pytest.raises(ConnectionClosed):
        await sent_until_it_fails(left)
    with pytest.raises(ConnectionClosed, match=r"reads no more|closed"):
        await left.write(b"y")
    assert left.unsent == 0
    await left.close()
    with pytest.raises(ConnectionClosed):
        left.send(b"z")
    assert left.failure == "", "the other end may go"


@each_kind
@on_each_loop
async def test_what_is_unsent_is_sent_before_closing(kind: Kind) -> None:
    left, right = kind()
    left.send(pattern(MANY))
    closing = asyncio.ensure_future(left.close())
    await asyncio.sleep(0)
    with pytest.raises(ConnectionClosed, match="closed here"):
        left.send(b"too late")
    reader = Reader(right)
    await reader.end()
    assert reader.data == pattern(MANY)
    await closing
    await closed(left, right, left)


@on_each_loop
async def test_closing_waits_no_longer_than_the_grace() -> None:
    (a, b), (c, d) = os.pipe(), os.pipe()
    os.set_blocking(d, False)
    channel = DescriptorChannel(PolledReader(a), Writer(d), 0.05)
    channel.send(b"x" * MANY)
    waiting = asyncio.ensure_future(channel.write(b"y"))
    await channel.close()
    with pytest.raises(ConnectionClosed):
        await waiting
    os.close(b)
    os.close(c)


@each_kind
@on_each_loop
async def test_nothing_is_received_after_close_and_the_end_comes_with_it(kind: Kind) -> None:
    left, right = kind()
    reader = Reader(right)
    left.send(b"hello")
    await right.close()
    assert reader.ends == [None]
    assert not reader.data
    late: list[Exception | None] = []
    other = kind()
    await other[0].close()
    other[0].start(lambda _: None, late.append)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert late == [None]
    await closed(left, *other)


@each_kind
@on_each_loop
async def test_reading_has_one_beginning(kind: Kind) -> None:
    left, right = kind()
    Reader(right)
    with pytest.raises(UsageError, match="already"):
        await right.read()
    with pytest.raises(UsageError, match="already"):
        right.start(lambda _: None, lambda _: None)
    first = asyncio.ensure_future(left.read())
    await asyncio.sleep(0)
    with pytest.raises(UsageError, match="already"):
        left.start(lambda _: None, lambda _: None)
    with pytest.raises(UsageError, match="another task"):
        await left.read()
    await right.close()
    assert await first == b""
    await left.close()


# --- read and write ---------------------------------------------------------------------------------------------------


@each_kind
@on_each_loop
async def test_read_and_write(kind: Kind) -> None:
    left, right = kind()
    data = pattern(MANY)

    async def write() -> None:
        for start in range(0, MANY, 300_000):
            await left.write(data[start : start + 300_000])
        await left.close()

    writing = asyncio.ensure_future(write())
    found = bytearray()
    while block := await right.read():
        found += block
    assert found == data
    await writing
    assert await right.read() == b""
    assert await right.read() == b""
    await right.close()
    assert await right.read() == b""
    assert await left.read() == b""


@each_kind
@on_each_loop
async def test_nothing_is_read_that_nobody_asks_for(kind: Kind) -> None:
    """S-BP-02: between two reads the other end is held up."""
    left, right = kind()
    for start in range(0, MANY, 50_000):
        left.send(b"x" * min(50_000, MANY - start))
    found = len(await right.read())
    for _ in range(200):
        await asyncio.sleep(0)
    assert left.unsent > MANY // 2
    while found < MANY:
        found += len(await right.read())
    await closed(left, right)


@each_kind
@on_each_loop
async def test_closing_ends_a_read_that_waits(kind: Kind) -> None:
    left, right = kind()
    reading = asyncio.ensure_future(left.read())
    await asyncio.sleep(0)
    await left.close()
    assert await reading == b""
    await right.close()


async def written_for_ever(channel: Transport, line: bytes) -> None:
    while True:
        await channel.write(line)


@each_kind
@on_each_loop
async def test_write_waits_for_a_reader_and_cancelled_it_has_sent_all_or_nothing(kind: Kind) -> None:
    """S-BP-02: memory stays bounded however often a sender is cancelled and tries again."""
    left, right = kind()
    line = b"x" * 300_000 + b"\n"
    for _ in range(50):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(written_for_ever(left, line), 0.002)
    assert left.unsent < 2_000_000
    closing = asyncio.ensure_future(left.close())
    found = bytearray()
    while block := await right.read():
        found += block
    await closing
    assert len(found) > 0
    assert found == line * (len(found) // len(line))
    await right.close()


@each_kind
@on_each_loop
async def test_writers_are_served_in_turn(kind: Kind) -> None:
    left, right = kind()
    lines = [b"%d" % number * 400_000 + b"\n" for number in range(8)]
    writing = [asyncio.ensure_future(left.write(line)) for line in lines]
    found = bytearray()
    while len(found) < sum(map(len, lines)):
        found += await right.read()
    assert found == b"".join(lines)
    await asyncio.gather(*writing)
    await closed(left, right)


# --- the end of output ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pair, over_pipes, over_threads], ids=lambda kind: kind.__name__)
@on_each_loop
async def test_after_the_end_of_output_the_other_end_reads_all_and_may_still_speak(kind: Kind) -> None:
    left, right = kind()
    here = Reader(left)
    left.send(pattern(MANY))
    ending = asyncio.ensure_future(left.end_output())
    there = Reader(right)
    assert await ending
    assert await there.end() is None
    assert bytes(there.data) == pattern(MANY)
    with pytest.raises(ConnectionClosed, match="output was ended here"):
        left.send(b"more")
    assert await left.end_output()
    await right.write(b"bye")
    await here.has(3)
    assert not here.ends
    await closed(left, right)


@on_each_loop
async def test_where_output_cannot_be_ended_alone_nothing_changes() -> None:
    left, right = over_strangers()
    reader = Reader(right)
    assert not await left.end_output()
    await left.write(b"more")
    await reader.has(4)
    await closed(left, right)
    assert await left.end_output()  # it is ended with the rest


# --- cancelled at every await -----------------------------------------------------------------------------------------


@each_kind
@on_each_loop
async def test_a_read_that_is_cancelled_loses_nothing(kind: Kind) -> None:
    async def attempt(number: int) -> bool:
        left, right = kind()
        loop = asyncio.get_running_loop()
        loop.call_soon(left.send, b"first")
        cancelled = await cancelled_at(number, right.read())
        left.send(b"second")
        await left.close()
        found = b""
        while block := await right.read():
            found += block
        await right.close()
        assert found == (b"firstsecond" if cancelled else b"second")
        return cancelled

    await walk(attempt)


@each_kind
@on_each_loop
async def test_a_write_that_is_cancelled_sends_all_or_nothing(kind: Kind) -> None:
    line = b"x" * MANY + b"\n"

    async def attempt(number: int) -> bool:
        left, right = kind()
        reader = Reader(right)
        before = asyncio.ensure_future(left.write(line))  # so that there is a turn to wait for
        await asyncio.sleep(0)
        cancelled = await cancelled_at(number, left.write(b"<second>\n"))
        await before
        await left.write(b"last\n")
        await left.close()
        await reader.end()
        assert bytes(reader.data) in {line + b"last\n", line + b"<second>\nlast\n"}
        await right.close()
        return cancelled

    await walk(attempt)


@each_kind
@on_each_loop
async def test_a_close_that_is_cancelled_goes_on(kind: Kind) -> None:
    async def attempt(number: int) -> bool:
        left, right = kind()
        reader = Reader(right)
        left.send(pattern(MANY))
        cancelled = await cancelled_at(number, left.close())
        await left.close()
        await reader.end()
        assert reader.data == pattern(MANY)
        await right.close()
        return cancelled

    await walk(attempt)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", KINDS[:-1], ids=lambda kind: kind.__name__)  # a stranger is closed by awaiting alone
def test_a_loop_that_ends_in_mid_close_lets_go_of_everything(kind: Kind, loop: str) -> None:
    tasks: list[asyncio.Future[None]] = []
    closed_then: list[bool] = []

    async def scenario() -> None:
        left, right = kind()
        left.send(b"x" * MANY)
        tasks.extend(asyncio.ensure_future(end.close()) for end in (left, right))
        tasks.append(asyncio.ensure_future(closes_in_the_end(left)))
        await asyncio.sleep(0)

    async def closes_in_the_end(channel: Channel) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await channel.close()
            closed_then.append(True)

    with nothing_left(), asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(scenario())
    assert closed_then


@on_each_loop
async def test_a_channel_of_a_loop_that_is_closed_can_be_closed() -> None:
    old = asyncio.new_event_loop()
    left, right = over_pipes()

    async def scenario() -> None:
        Reader(left)
        left.send(b"x" * MANY)
        right.send(b"x" * MANY)

    await asyncio.to_thread(old.run_until_complete, scenario())
    await asyncio.to_thread(old.close)
    await closed(left, right)
    await closed(left, right)


# --- strangers --------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_ours_are_channels_and_all_are_transports() -> None:
    left, right = pair()
    stranger: Transport = Stranger(left)
    assert channel_of(right) is right
    assert channel_of(stranger) is not stranger
    assert isinstance(left, Transport)
    assert isinstance(stranger, Transport)
    await closed(left, right)


class Failing:
    """A transport whose methods raise."""

    def __init__(self, *, close: bool = False) -> None:
        self._close = close

    async def read(self) -> bytes:
        raise OSError("no carrier")

    async def write(self, data: bytes, /) -> None:
        raise OSError("no carrier")

    async def close(self) -> None:
        if self._close:
            raise OSError("no carrier")


@on_each_loop
async def test_what_a_strangers_methods_raise_ends_reading_and_writing(caplog: pytest.LogCaptureFixture) -> None:
    channel = channel_of(Failing(close=True))
    reader = Reader(channel)
    error = await reader.end()
    assert str(error) == "no carrier"
    with pytest.raises(ConnectionClosed, match="no carrier"):
        await channel.write(b"x" * MANY)
    await channel.close()
    assert "closing a Failing raised OSError" in caplog.text
    assert channel.failure == "reading failed: no carrier", "the first of both"
    second = channel_of(Failing())
    with pytest.raises(ConnectionClosed, match="reading failed: no carrier"):
        await second.read()
    await second.close()


class Hanging:
    """A transport whose methods never return."""

    async def read(self) -> bytes:
        return await self.hang()

    async def write(self, data: bytes, /) -> None:
        await self.hang()

    async def close(self) -> None:
        await self.hang()

    async def hang(self) -> bytes:
        await asyncio.Event().wait()
        return b""


@on_each_loop
async def test_a_stranger_is_closed_when_nobody_reads_or_writes_it_any_more() -> None:
    notes: list[str] = []

    class Careful(Hanging):
        async def hang(self) -> bytes:
            try:
                return await super().hang()
            finally:
                await asyncio.sleep(0)
                notes.append("left")

        async def close(self) -> None:
            notes.append("closed")

    channel = channel_of(Careful(), limits=Limits(grace=0.05))
    Reader(channel)
    channel.send(b"hello")
    await channel.close()
    assert notes == ["left", "left", "closed"]


@on_each_loop
async def test_a_stranger_that_hangs_holds_nobody_for_longer_than_the_grace() -> None:
    channel = channel_of(Hanging(), limits=Limits(grace=0.05))
    reader = Reader(channel)
    channel.send(b"hello")
    await channel.close()
    assert reader.ends == [None]
