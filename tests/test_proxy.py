"""Proxying: what goes through, what a tap sees and changes, the pace of both sides, and how the end of one is told.

Most is tried over a pair in memory, over pipes, and over a stranger's three methods; ends over real processes as well.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import acpwire
from acpwire import v2
from acpwire.agent import serve
from acpwire.capture import Recorder, read_capture
from acpwire.connection import Role
from acpwire.errors import UsageError
from acpwire.limits import Limits
from acpwire.proxy import RelayEnd, RelayTap, relay
from acpwire.testing import ScriptedAgent
from acpwire.transports import Channel, spawn_process
from acpwire.transports import pair as in_memory
from acpwire.transports.descriptors import DescriptorChannel, PolledReader, Writer
from acpwire.wire.lines import OversizedLine
from tests.transports.loops import PROGRAMS, cancelled_at, on_each_loop, until, walk
from tests.transports.test_channels import Kind, over_pipes, over_strangers, over_threads, pattern

LINES = [
    b'{"jsonrpc":"2.0","method":"a"}\n',
    b'{ "spaces" : 1.50, "\\u0041":"\xc3\xa4" }\r\n',
    b"no JSON, no UTF-8: \xff\xfe\n",
    b"\n",
    b' {"jsonrpc":"2.0"}\n',
]
KINDS = [in_memory, over_pipes, over_threads, over_strangers]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def looks(_: Role, line: bytes) -> None:
    assert line


each_tap = pytest.mark.parametrize("tap", [None, looks], ids=["blocks", "lines"])


class Relayed:
    """A client's and an agent's end with a relay between them."""

    def __init__(self, client: Channel, agent: Channel, task: asyncio.Task[RelayEnd]) -> None:
        self.client = client
        self.agent = agent
        self.task = task


@asynccontextmanager
async def relayed(
    kind: Kind = in_memory, tap: RelayTap | None = None, limits: Limits | None = None
) -> AsyncGenerator[Relayed]:
    client, left = kind()
    right, agent = kind()
    task = asyncio.create_task(relay(left, right, tap, limits=limits or Limits(grace=5)))
    try:
        yield Relayed(client, agent, task)
    finally:
        await client.close()
        await agent.close()
        await task


async def everything(channel: Channel) -> bytes:
    """All that comes up to the end."""
    blocks: list[bytes] = []
    while block := await channel.read():
        blocks.append(block)
    return b"".join(blocks)


def cut(data: bytes, seed: int) -> list[bytes]:
    """Data in pieces of any size."""
    chance = random.Random(seed)  # noqa: S311  # no secret
    places = sorted(chance.randrange(len(data)) for _ in range(len(data) // 9))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


# --- what goes through ------------------------------------------------------------------------------------------------


@each_tap
@each_kind
@on_each_loop
async def test_bytes_go_through_both_ways_as_they_came(kind: Kind, tap: RelayTap | None) -> None:
    data = b"".join(LINES) * 50
    async with relayed(kind, tap) as ends:
        for piece in cut(data, 1):
            await ends.client.write(piece)
            await ends.agent.write(piece)
        await ends.agent.close()
        assert await everything(ends.client) == data
        assert (await ends.task).side == "agent"


@each_kind
@on_each_loop
async def test_both_directions_are_one_conversation(kind: Kind) -> None:
    async with relayed(kind) as ends:
        for number in range(50):
            line = f"{number}\n".encode()
            await ends.client.write(line)
            assert await ends.agent.read() == line
            await ends.agent.write(line)
            assert await ends.client.read() == line


@pytest.mark.parametrize("seed", range(20))
@on_each_loop
async def test_a_tap_sees_each_line_once_wherever_the_stream_was_cut(seed: int) -> None:
    seen: list[tuple[Role, bytes]] = []
    async with relayed(tap=lambda sender, line: seen.append((sender, line))) as ends:
        for piece in cut(b"".join(LINES), seed):
            await ends.agent.write(piece)
        await ends.client.write(b"asked\n")
        assert await ends.agent.read() == b"asked\n"
        await ends.agent.close()
        assert await everything(ends.client) == b"".join(LINES)
    assert [line for sender, line in seen if sender == "agent"] == [line for line in LINES if line != b"\n"]
    assert [line for sender, line in seen if sender == "client"] == [b"asked\n"]


@pytest.mark.parametrize("seed", range(20))
@on_each_loop
async def test_a_tap_drops_replaces_and_multiplies_lines(seed: int) -> None:
    """A replacement without a line feed gets one; one of several lines is several lines."""
    said = {b"drop\n": b"", b"replace\n": b"replaced", b"twice\n": b"one\ntwo\n"}
    data = b"drop\nkeep\nreplace\n\ndrop\ntwice\ndrop\n"
    async with relayed(tap=lambda _, line: said.get(line)) as ends:
        for piece in cut(data, seed):
            await ends.agent.write(piece)
        await ends.agent.close()
        assert await everything(ends.client) == b"keep\nreplaced\n\none\ntwo\n"


def fails(_: Role, line: bytes) -> bytes | None:
    if line.startswith(b"1"):
        raise LookupError("no such thing")
    return b"2\n" if line == b"0\n" else None


def is_cancelled(_: Role, line: bytes) -> bytes:
    if line.startswith(b"1"):
        raise asyncio.CancelledError  # by a call of `result()`, say
    return b"2\n"


def wrong(_: Role, line: bytes) -> Any:
    return line.decode() if line.startswith(b"1") else b"2\n"


@pytest.mark.parametrize("tap", [fails, is_cancelled, wrong])
@on_each_loop
async def test_a_tap_that_fails_loses_no_line_and_is_asked_again(
    caplog: pytest.LogCaptureFixture, tap: RelayTap
) -> None:
    caplog.clear()
    async with relayed(tap=tap) as ends:
        await ends.agent.write(b"1\n0\n1")
        await ends.agent.write(b"1\n0\n1")
        await ends.agent.close()
        assert await everything(ends.client) == b"1\n2\n11\n2\n1"
    first, last = [record for record in caplog.records if record.name == "acpwire.proxy"]
    assert first.exc_info is not None
    assert "3 lines" in last.getMessage()
    assert first.levelno == last.levelno == logging.ERROR


@pytest.mark.parametrize(("said", "sent"), [(None, b"one\ntwo"), (b"", b""), (b"other", b"other\nother\n")])
@on_each_loop
async def test_a_last_line_without_a_line_feed_is_a_line(said: bytes | None, sent: bytes) -> None:
    seen: list[bytes] = []

    def tap(_: Role, line: bytes) -> bytes | None:
        seen.append(line)
        return said

    async with relayed(tap=tap) as ends:
        await ends.agent.write(b"one\ntw")
        await ends.agent.write(b"o")
        await ends.agent.close()
        assert await everything(ends.client) == sent
    assert seen == [b"one\n", b"two"]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(("said", "sent"), [(None, b"x" * 900 + b"\n"), (b"", b""), (b"instead", b"instead\n")])
@on_each_loop
async def test_of_a_line_that_is_too_long_the_tap_sees_the_beginning_and_decides(
    size: int, said: bytes | None, sent: bytes
) -> None:
    long, seen = b"x" * 900 + b"\n", list[bytes]()
    data = b"before\n" + long + b"after\n" + long

    def tap(_: Role, line: bytes) -> bytes | None:
        seen.append(line)
        return said if isinstance(line, OversizedLine) else None

    async with relayed(tap=tap, limits=Limits(line=50, grace=5)) as ends:
        for start in range(0, len(data), size):
            await ends.agent.write(data[start : start + size])
        await ends.agent.close()
        assert await everything(ends.client) == b"before\n" + sent + b"after\n" + sent
    assert [type(line) for line in seen] == [bytes, OversizedLine, bytes, OversizedLine]
    assert seen[1] == b"x" * (len(seen[1]))


@on_each_loop
async def test_a_line_that_its_end_makes_too_long_is_shown_as_such_and_a_blank_one_never() -> None:
    seen: list[bytes] = []
    pieces = [b"x" * 30, b"x" * 30 + b"\n", b" ", b"\n", b"y" * 30, b"y" * 20 + b"\n"]
    async with relayed(tap=lambda _, line: seen.append(line), limits=Limits(line=50, grace=5)) as ends:
        for piece in pieces:
            await ends.agent.write(piece)
        await ends.agent.close()
        assert await everything(ends.client) == b"".join(pieces)
    assert [type(line) for line in seen] == [OversizedLine, bytes]
    assert seen[1] == b"y" * 50 + b"\n"


@on_each_loop
async def test_a_line_that_is_too_long_goes_through_before_it_has_ended() -> None:
    async with relayed(tap=looks, limits=Limits(line=1000, grace=5)) as ends:
        await ends.agent.write(b"x" * 1001)
        assert len(await ends.client.read()) == 1001
        for _ in range(10):
            await ends.agent.write(b"y" * 1000)
            assert await ends.client.read() == b"y" * 1000
        await ends.agent.write(b"\nnext\n")
        assert await ends.client.read() == b"\nnext\n"


@on_each_loop
async def test_a_real_conversation_goes_through_and_a_recorder_is_a_tap(tmp_path: Path) -> None:
    path = tmp_path / "session.ndjson"
    (client, left), (right, agent) = in_memory(), in_memory()
    with Recorder(path) as recorder:
        serving = asyncio.ensure_future(serve(ScriptedAgent(["Hello"]), agent))
        relaying = asyncio.ensure_future(relay(left, right, recorder.record))
        async with acpwire.connect(client) as connection:
            session = await connection.new_session(cwd="/")
            assert (await session.ask("hi")).text == "Hello"
        await serving
        assert (await relaying).side == "client"
    records = list(read_capture(path))
    assert [record.sender for record in records][:2] == ["client", "agent"]
    assert not [record for record in records if isinstance(record.message, v2.Malformed)]
    assert "agent_message_chunk" in {
        record.message.params.update.tag
        for record in records
        if isinstance(record.message, v2.Notification) and record.message.method == "session/update"
    }


# --- pace -------------------------------------------------------------------------------------------------------------


@each_tap
@each_kind
@on_each_loop
async def test_a_side_that_does_not_read_pauses_the_other(kind: Kind, tap: RelayTap | None) -> None:
    """What is in between has a bound, and all of it comes once it is read."""
    block, sent = pattern(65535) + b"\n", 0
    limits = Limits(unsent=128 * 1024, grace=5)
    async with relayed(kind, tap, limits) as ends:

        async def send() -> None:
            nonlocal sent
            while sent < 100 * len(block):
                await ends.agent.write(block)
                sent += len(block)

        sending = asyncio.create_task(send())
        before = -1
        while sent != before:
            before = sent
            for _ in range(200):
                await asyncio.sleep(0)
        assert 0 < sent < 20 * len(block)
        got = 0
        while got < 100 * len(block):
            got += len(await ends.client.read())
        await sending


@on_each_loop
async def test_the_other_direction_goes_on_while_one_is_paused() -> None:
    async with relayed(over_pipes, limits=Limits(unsent=1, grace=5)) as ends:
        flood = asyncio.create_task(ends.agent.write(b"x" * 5_000_000))
        for number in range(50):
            line = f"{number}\n".encode()
            await ends.client.write(line)
            assert await ends.agent.read() == line
        assert not flood.done()
        got = 0
        while got < 5_000_000:
            got += len(await ends.client.read())
        await flood


# --- ends -------------------------------------------------------------------------------------------------------------

ECHO = (sys.executable, str(PROGRAMS / "echo.py"))


def python(script: str) -> tuple[str, ...]:
    """A program."""
    return sys.executable, "-c", script


@asynccontextmanager
async def relayed_to(
    *argv: str, tap: RelayTap | None = None, grace: float = 5
) -> AsyncGenerator[tuple[Channel, asyncio.Task[RelayEnd], Any]]:
    """A client's end with a relay to a program."""
    limits = Limits(grace=grace)
    client, left = over_pipes()
    process = await spawn_process(*argv, limits=limits)
    task = asyncio.create_task(relay(left, process, tap, limits=limits))
    try:
        yield client, task, process
    finally:
        await client.close()
        await task


@each_tap
@on_each_loop
async def test_when_the_client_has_said_its_last_the_agent_still_answers_all_of_it(tap: RelayTap | None) -> None:
    """As with `cat requests | proxy`: what was asked is answered, and the exit code is the agent's own."""
    data = pattern(1_000_000) + b"\nlast"
    async with relayed_to(*ECHO, "7", "20", tap=tap) as (client, task, process):
        sending = asyncio.create_task(client.write(data))
        got = b""
        while len(got) < len(data) - 200_000:
            got += await client.read()
        await sending
        assert await client.end_output()
        got += await everything(client)
        assert got == data + b"x" * 65536 * 20
        end = await task
        assert end.side == "client"
        assert process.exit_code == 7


@each_tap
@on_each_loop
async def test_when_the_agent_ends_all_it_said_is_passed_on_and_the_cause_is_told(tap: RelayTap | None) -> None:
    script = "import os,sys; os.write(2, b'out of luck'); sys.stdout.write('x' * 1000000); sys.exit(3)"
    async with relayed_to(*python(script), tap=tap) as (client, task, _):
        assert await everything(client) == b"x" * 1_000_000
        end = await task
        assert (end.side, end.cause.exit_code, end.cause.stderr_tail) == ("agent", 3, b"out of luck")


@on_each_loop
async def test_an_agent_that_reads_no_more_may_still_speak() -> None:
    """What the client says meanwhile is thrown away, and its end changes nothing."""
    script = (
        "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); os.close(0)\n"
        "os.write(1, b'deaf'); signal.sigwait([signal.SIGUSR1]); os.write(1, b'bye'); sys.exit(4)"
    )
    async with relayed_to(*python(script)) as (client, task, process):
        assert await client.read() == b"deaf"
        for _ in range(3):
            await client.write(b"are you there?\n")
            for _ in range(50):
                await asyncio.sleep(0)
        assert await client.end_output()
        for _ in range(50):
            await asyncio.sleep(0)
        os.kill(process.pid, signal.SIGUSR1)
        assert await everything(client) == b"bye"
        assert (await task).side == "agent"
        assert process.exit_code == 4


@on_each_loop
async def test_what_an_agent_said_last_waits_for_a_client_longer_than_the_grace() -> None:
    loop = asyncio.get_running_loop()
    async with relayed(limits=Limits(grace=0.01)) as ends:
        await ends.agent.write(b"x" * 1000)
        await ends.agent.close()
        begun = loop.time()
        await until(lambda: loop.time() > begun + 0.1)
        assert not ends.task.done()
        assert await everything(ends.client) == b"x" * 1000


@on_each_loop
async def test_a_client_that_reads_no_more_is_gone_though_it_goes_on_speaking() -> None:
    (their_in, our_out), (our_in, their_out) = os.pipe(), os.pipe()
    for fd in (their_in, their_out):
        os.set_blocking(fd, False)
    process = await spawn_process(*ECHO, "6")
    task = asyncio.create_task(relay(DescriptorChannel(PolledReader(their_in), Writer(their_out), 5), process))
    os.close(our_in)
    os.write(our_out, b"hi")
    assert (await task).side == "client"
    assert process.exit_code == 6
    os.close(our_out)


@each_kind
@on_each_loop
async def test_when_the_client_is_gone_the_agent_is_told(kind: Kind) -> None:
    async with relayed(kind, limits=Limits(grace=0.05)) as ends:
        await ends.client.write(b"first\n")
        await ends.client.close()
        assert await everything(ends.agent) == b"first\n"
        assert (await ends.task).side == "client"


@on_each_loop
async def test_when_the_client_reads_no_more_an_agent_that_goes_on_is_ended() -> None:
    script = "import os\nwhile True: os.write(1, b'x' * 60000)"
    async with relayed_to(*python(script), grace=0.5) as (client, task, process):
        await client.read()
        await client.close()
        assert (await task).side == "client"
        assert process.exit_code is not None


@on_each_loop
async def test_an_agent_that_does_not_end_is_made_to_within_the_grace() -> None:
    script = "import os,signal; os.write(1, b'here\\n'); signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
    async with relayed_to(*python(script), grace=0.2) as (client, task, process):
        assert await client.read() == b"here\n"
        assert await client.end_output()
        assert (await task).side == "client"
        assert process.exit_code in {-9, -15}


@on_each_loop
async def test_a_transport_that_is_read_already_is_refused_and_both_are_closed() -> None:
    (client, left), (right, agent) = in_memory(), in_memory()
    right.start(lambda _: None, lambda _: None)
    with pytest.raises(UsageError, match="being read"):
        await relay(left, right)
    assert await client.read() == await agent.read() == b""


@pytest.mark.parametrize("kind", [in_memory, over_pipes, over_strangers], ids=lambda kind: kind.__name__)
@on_each_loop
async def test_a_cancelled_relay_closes_both_sides_wherever_it_waits(kind: Kind) -> None:
    async def attempt(number: int) -> bool:
        client, left = kind()
        right, agent = kind()
        await client.write(b"last\n")
        task = asyncio.ensure_future(cancelled_at(number, relay(left, right, limits=Limits(grace=0.05))))
        if number > 1:
            await client.close()
        was_cancelled = await task
        await client.close()
        await until(lambda: left.closed_error().message != "the connection is open")
        assert await everything(agent) in {b"", b"last\n"}
        await agent.close()
        await left.close()
        await right.close()
        return was_cancelled

    await walk(attempt)
