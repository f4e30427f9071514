"""The ends: what an Agent and a Client cost beyond the pump, beside other SDKs; and what goes through a relay.

Owns: what is measured of agents, clients and their sessions. Does not know: how programs are started and compared.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path

import acpwire
from acpwire import v2
from acpwire.connection import Role
from acpwire.streams import Stream
from acpwire.transports.descriptors import DescriptorChannel, own_reader, own_writer
from acpwire.wire import Request, encode

from . import Row
from .programs import (
    INITIALIZE,
    compared,
    flood_of,
    flooding,
    official,
    ours,
    piped,
    sinking,
    typescript,
    without_collector,
)
from .traffic import SESSION, chunk_line

NEW = encode(Request(id=1, method="session/new", params=v2.NewSessionRequest(cwd="/"))).decode().strip()
PROMPT = (
    encode(
        Request(
            id=2,
            method="session/prompt",
            params=v2.PromptRequest(session_id="SESSION", prompt=[v2.TextContent(text="Go")]),
        )
    )
    .decode()
    .strip()
)

UPDATE = b'{"jsonrpc":"2.0","method":"session/update",'


# --- an agent's end --------------------------------------------------------------------------------------------------


def writing() -> list[Row]:
    """Chunks that an agent writes into a message, and those that it sends anew, relative to other SDKs' agents.

    Each runs in a process of its own, warmed up, with the same program at the other end, which throws all away.
    """
    line = chunk_line().decode()
    names = "MessageWriter.write", "AgentSession.send"

    def asking(_: int) -> list[str]:
        return sinking(NEW, PROMPT)

    def sink(_: int) -> list[str]:
        return sinking()

    others = [
        typescript("agent", 30_000, 60_000, sink, line, limits=dict(zip(names, (1 / 22, 1 / 12), strict=True))),
        official("agent", 1, 1_000, 10_000, sink, line, limits=dict.fromkeys(names, 1 / 30)),
        official("agent", 2, 1_000, 10_000, sink, line, limits=dict.fromkeys(names, 1 / 30)),
    ]
    own = [
        ours("write", names[0], 100_000, 700_000, asking, line),
        ours("send", names[1], 50_000, 400_000, asking, line),
    ]
    return compared(own, others)


def idle() -> list[Row]:
    """An agent that has one session and nothing to do, relative to a process that has decoded a line.

    Bytes in memory, and nanoseconds from the start of the process to the first byte that it says, which an agent does
    as soon as it can: it has been asked before it runs.
    """
    decoding = f"import acpwire, asyncio\nfrom acpwire import v2\nv2.decode_from_agent({chunk_line()!r})\n"
    waiting = "print(flush=True)\nimport sys\nsys.stdin.read()\n"
    processes = {
        "acpwire, asyncio, a line decoded": (decoding + waiting, b""),
        "an idle agent": (IDLE_AGENT, INITIALIZE + NEW.encode() + b"\n"),
    }
    sizes: dict[str, list[float]] = {name: [] for name in processes}
    times: dict[str, list[float]] = {name: [] for name in processes}
    for turn in range(16):
        for name, (script, asked) in processes.items():
            size, seconds = _started(script, asked)
            if turn:  # the first turn may still have to write the bytecode
                sizes[name].append(size)
                times[name].append(seconds * 1e9)
    rows: list[Row] = []
    for what, samples in (("bytes", sizes), ("start", times)):
        costs = {name: statistics.median(values) for name, values in samples.items()}
        reference = next(iter(costs.values()))
        limits: Mapping[str, float] = {"an idle agent": 1.3}
        rows += [Row(f"{name} ({what})", cost, cost / reference, limits.get(name)) for name, cost in costs.items()]
    return rows


IDLE_AGENT = """
import acpwire
from acpwire import v2

class Idle(acpwire.Agent):
    info = v2.Implementation(name="idle", version="1")

    async def prompt(self, session, prompt):
        pass

acpwire.run_agent(Idle())
"""


def _started(script: str, asked: bytes) -> tuple[int, float]:
    """Resident bytes of a process that has said all that it says, and the seconds until it said the first of it."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    reading, writing = os.pipe()
    os.write(writing, asked)
    start = time.perf_counter()
    argv = [sys.executable, "-c", script]
    with subprocess.Popen(argv, stdin=reading, stdout=subprocess.PIPE, env=environment) as process:
        os.close(reading)
        if process.stdout is None:
            raise ValueError("a process without pipes")
        said = os.read(process.stdout.fileno(), 65536)
        seconds = time.perf_counter() - start
        while said.count(b"\n") < max(1, asked.count(b"\n")):
            said += os.read(process.stdout.fileno(), 65536)
        time.sleep(0.05)
        pages = int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1])
        os.close(writing)
    return pages * os.sysconf("SC_PAGE_SIZE"), seconds


# --- a client's end --------------------------------------------------------------------------------------------------


def reading() -> list[Row]:
    """From a pipe to `Client.update`, relative to the TypeScript SDK's client; to a session's streams, relative to it.

    The former in processes of their own, warmed up, with the same program at the other end; the latter as CPU time.
    """

    def asked(_: int) -> list[str]:
        return flooding([chunk_line()])

    def agent(updates: int) -> list[str]:
        return flooding([chunk_line()], updates)

    others = [typescript("client", 30_000, 40_000, agent, limits={"Client.update": 1 / 20})]
    rows = compared([ours("update", "Client.update", 100_000, 700_000, asked)], others)
    return rows + asyncio.run(_reading())


async def _reading() -> list[Row]:
    async with AsyncExitStack() as stack:

        async def end(client: _Counting | None = None, *, transcript: bool = False) -> _End:
            return await stack.enter_async_context(_talking(1, client, transcript=transcript))

        callback, kept = await end(_Counting()), await end(_Counting(), transcript=True)
        one, many = await end(), await end()
        return await _side_by_side(
            {
                "callback": callback.counted,
                "transcript and callback": kept.counted,
                "async for": lambda updates: one.read(updates, _read),
                "batches()": lambda updates: many.read(updates, _read_batches),
            },
            {"transcript and callback": 1 / 0.6, "async for": 1 / 0.7, "batches()": 1 / 0.85},
        )


def sharing() -> list[Row]:
    """Updates of many sessions in turns, relative to those of one, as CPU time of callbacks and of streams.

    Each stream is read by a task of its own.
    """

    async def measured(many: int = 64) -> list[Row]:
        async with AsyncExitStack() as stack:
            single, shared, streamed, streams = [
                await stack.enter_async_context(_talking(number, client))
                for client in (_Counting(), None)
                for number in (1, many)
            ]
            called = await _side_by_side(
                {"callback, 1 session": single.counted, f"callback, {many} sessions": shared.counted},
                {f"callback, {many} sessions": 1 / 0.8},
            )
            read = await _side_by_side(
                {
                    "stream, 1 session": lambda updates: streamed.read(updates, _read),
                    f"streams, {many} sessions": lambda updates: streams.read(updates, _read),
                },
                {f"streams, {many} sessions": 1 / 0.5},
            )
            return called + read

    return asyncio.run(measured())


class _Counting(acpwire.Client):
    """Counts updates where it is told how many come."""

    def __init__(self) -> None:
        self.left = 0
        self.done = asyncio.Event()

    def update(self, session: acpwire.ClientSession, update: v2.SessionUpdate) -> None:
        self.left -= 1
        if not self.left:
            self.done.set()


class _End:
    """A client's connection to an agent's process, and its sessions, in which the agent floods in turns."""

    def __init__(self, client: _Counting | None, to_it: int, sessions: Sequence[acpwire.ClientSession]) -> None:
        self._client = client or _Counting()
        self._to_it = to_it
        self._sessions = sessions

    async def counted(self, updates: int) -> None:
        """Have so many updates come, and wait until all were counted."""
        self._client.left = updates
        self._client.done.clear()
        os.write(self._to_it, flood_of(updates))
        await self._client.done.wait()

    async def read(self, updates: int, read: Callable[[Stream[v2.SessionUpdate], int], Awaitable[None]]) -> None:
        """Have so many updates come, and wait until every session's stream was read."""
        each = updates // len(self._sessions)
        async with asyncio.TaskGroup() as group:
            for session in self._sessions:
                group.create_task(_awaited(read(session.stream(), each)))
            os.write(self._to_it, flood_of(each * len(self._sessions)))


async def _awaited(reading: Awaitable[None]) -> None:
    await reading


async def _read(stream: Stream[v2.SessionUpdate], updates: int) -> None:
    async for _ in stream:
        updates -= 1
        if not updates:
            return


async def _read_batches(stream: Stream[v2.SessionUpdate], updates: int) -> None:
    async for batch in stream.batches():
        for _ in batch:
            updates -= 1
        if not updates:
            return


@asynccontextmanager
async def _talking(number: int, client: _Counting | None, *, transcript: bool = False) -> AsyncGenerator[_End]:
    """A client that has so many sessions with an agent's process; without a client's callback, they are streamed."""
    ids = [f"{SESSION[:-3]}{index:03x}" for index in range(number)]
    lines = [chunk_line().replace(SESSION.encode(), session_id.encode()) for session_id in ids]
    with piped(flooding(lines)) as (_, to_it, from_it):
        channel = DescriptorChannel(own_reader(from_it.fileno()), own_writer(to_it.fileno()), 1.0)
        async with acpwire.connect(channel, client, transcript=transcript) as agent:
            sessions = [await agent.new_session(cwd="/") for _ in range(number)]
            yield _End(client, to_it.fileno(), sessions)


async def _side_by_side(
    contenders: Mapping[str, Callable[[int], Awaitable[None]]],
    limits: Mapping[str, float],
    updates: int = 19_200,
    rounds: int = 21,
    clock: Callable[[], float] = time.process_time,
) -> list[Row]:
    """What each of so many updates takes, CPU time unless by another clock, in turns, relative to the first of them."""
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for take in contenders.values():
        await take(updates)
    with without_collector():
        for _ in range(rounds):
            for name, take in contenders.items():
                start = clock()
                await take(updates)
                samples[name].append((clock() - start) / updates * 1e9)
    costs = {name: statistics.median(values) for name, values in samples.items()}
    reference = next(iter(costs.values()))
    return [Row(name, cost, cost / reference, limits.get(name)) for name, cost in costs.items()]


# --- in between ------------------------------------------------------------------------------------------------------


def relaying() -> list[Row]:
    """Through a relay whose tap looks at each line, relative to reading and writing the same blocks in a loop.

    From an agent's process to one that throws all away, by the clock, as the two copy from and to pipes, too.
    """

    async def measured() -> list[Row]:
        with _Through() as plain, _Through() as relayed:
            relaying = asyncio.create_task(relayed.relay())
            rows = await _side_by_side(
                {"read and write blocks": plain.forwarded, "relay with a tap": relayed.relayed},
                {"relay with a tap": 1 / 0.3},
                clock=time.perf_counter,
            )
            relaying.cancel()
            await asyncio.wait([relaying])
        return rows

    return asyncio.run(measured())


class _Through(ExitStack):
    """An agent's process that floods, one that throws all away, and a pipe to ask by; what is between is measured."""

    def __init__(self) -> None:
        super().__init__()
        _, to_agent, from_agent = self.enter_context(piped(flooding([chunk_line()])))
        _, to_client, _ = self.enter_context(piped(sinking()))
        self._to_agent, self._from_agent, self._to_client = to_agent.fileno(), from_agent.fileno(), to_client.fileno()
        self._asked, self._asking = os.pipe()
        self._left = 0
        self._done = asyncio.Event()

    async def relay(self) -> None:
        """Relay until it is cancelled."""
        client = DescriptorChannel(own_reader(self._asked), own_writer(self._to_client), 1.0)
        agent = DescriptorChannel(own_reader(self._from_agent), own_writer(self._to_agent), 1.0)
        await acpwire.relay(client, agent, self._look)

    async def relayed(self, updates: int) -> None:
        """Have so many updates come, and wait until the last was seen."""
        self._left = updates
        self._done.clear()
        os.write(self._asking, flood_of(updates))
        await self._done.wait()

    async def forwarded(self, updates: int) -> None:
        """Have so many updates come, and pass them on."""
        left = updates * (len(chunk_line()) + 1)
        os.write(self._to_agent, flood_of(updates))
        while left:
            block = os.read(self._from_agent, 65536)
            left -= len(block)
            view = memoryview(block)
            while view:
                view = view[os.write(self._to_client, view) :]

    def _look(self, _: Role, line: bytes) -> None:
        if line.startswith(UPDATE):
            self._left -= 1
            if not self._left:
                self._done.set()


BENCHES = (writing, idle, reading, sharing, relaying)
