"""The pump: relative to the wire stage that it stands on, to a blocking loop, and to other SDKs, over real pipes.

Owns: what is measured of a connection. Does not know: how programs are started and compared.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager

from acpwire import v2
from acpwire.wire import LineBuffer, Request, Response, encode

from . import Row
from .programs import Handler, compared, connected, flooding, official, ours, sinking, typescript, without_collector
from .traffic import SESSION, chunk_line

LIST = v2.ListSessionsRequest()


# --- within this process ---------------------------------------------------------------------------------------------


def pump() -> list[Row]:
    """From a pipe to a callback that counts: CPU time an update, relative to cutting and decoding alone."""

    async def measured(updates: int = 20_000, rounds: int = 31) -> list[Row]:
        line = chunk_line()
        stream = (line + b"\n") * updates
        blocks = [stream[start : start + 65536] for start in range(0, len(stream), 65536)]
        buffer = LineBuffer()
        wire: list[float] = []
        pumped: list[float] = []
        async with connected(flooding([line])) as agent:
            await agent.flood(updates)
            with without_collector():
                for _ in range(rounds):
                    start = time.process_time()
                    for block in blocks:
                        for one in buffer.feed(block):
                            v2.decode_from_agent(one)
                    wire.append((time.process_time() - start) / updates * 1e9)
                    pumped.append(await agent.cpu_time(updates))
        bare, whole = statistics.median(wire), statistics.median(pumped)
        return [Row("LineBuffer and decode_from_agent", bare, 1.0), Row("Peer", whole, whole / bare, 1.6)]

    return asyncio.run(measured())


def sessions() -> list[Row]:
    """Many sessions, found in a dict, and long floods: CPU time an update, relative to the smallest of them."""

    async def measured() -> list[Row]:
        costs: dict[str, float] = {}
        for number in 1, 16, 256:
            ids = [f"{SESSION[:-3]}{index:03x}" for index in range(number)]
            lines = [chunk_line().replace(SESSION.encode(), session_id.encode()) for session_id in ids]

            def wrapped(count: Handler, ids: Sequence[str] = ids) -> Handler:
                handlers = dict.fromkeys(ids, count)
                return lambda params: handlers[params.session_id](params)

            async with connected(flooding(lines), wrapped) as agent:
                await agent.flood(100_000)
                with without_collector():
                    costs[f"sessions: {number}"] = statistics.median([await agent.cpu_time(100_000) for _ in range(7)])
                    for power, rounds in ((4, 41), (5, 7), (6, 3), (7, 1)) if number == 16 else ():
                        turns = [await agent.cpu_time(10**power) for _ in range(rounds)]
                        costs[f"updates: 10^{power}"] = statistics.median(turns)
        least = min(costs.values())
        return [Row(name, cost, cost / least, 1.5) for name, cost in costs.items()]

    return asyncio.run(measured())


def stall() -> list[Row]:
    """How long the loop stands still while a handler of 10 us is flooded, relative to the whole flood.

    CPU time leaves out what other processes had the processor for.
    """

    def wrapped(count: Handler) -> Handler:
        def busy(params: v2.UpdateSessionNotification) -> None:
            until = time.perf_counter() + 10e-6
            while time.perf_counter() < until:
                pass
            count(params)

        return busy

    async def measured(updates: int = 30_000, rounds: int = 5) -> list[Row]:
        clocks = {"": time.perf_counter, ", of CPU time": time.process_time}
        longest: dict[str, list[float]] = {name: [] for name in clocks}
        whole: list[float] = []
        async with connected(flooding([chunk_line()]), wrapped) as agent:
            for name in list(clocks) * rounds:
                flood = asyncio.create_task(agent.flood(updates))
                clock = clocks[name]
                begun, last, gap = time.perf_counter(), clock(), 0.0
                while not flood.done():
                    await asyncio.sleep(0)
                    now = clock()
                    gap, last = max(gap, now - last), now
                longest[name].append(gap * 1e9)
                whole.append((time.perf_counter() - begun) * 1e9)
        total = statistics.median(whole)
        gaps = {f"longest stall{name}": statistics.median(values) for name, values in longest.items()}
        return [Row(f"{updates} updates", total, 1.0), *(Row(name, gap, gap / total) for name, gap in gaps.items())]

    return asyncio.run(measured())


def round_trip() -> list[Row]:
    """A small request, relative to writing, reading and decoding it in a blocking loop.

    All ask the same process, over the same pipes, in turns: an agent that blocks and does next to nothing, so that what
    differs is the client's side alone. It writes its flood in pieces of 4 KiB and looks for requests between them, so
    an answer waits for what the pipe holds and for nothing else. `asyncio alone` is a reader, a future, and as much
    encoding and decoding as the blocking loop does: what no client on that loop can be below. The two processes are
    kept on different processors: all costs are a third where they share one, and that would be left to chance.
    """

    async def measured(requests: int = 100, rounds: int = 30) -> list[Row]:
        async with connected(flooding([chunk_line()])) as agent:
            loop = asyncio.get_running_loop()
            answers: list[asyncio.Future[bytes]] = []

            def written() -> None:
                os.write(agent.to_it, encode(Request(id=-1, method="session/list", params=LIST)))

            def decoded(line: bytes) -> None:
                message = v2.decode_from_agent(line)
                if not isinstance(message, Response):
                    raise TypeError(message)
                v2.SESSION_LIST.decode_result(message.result)

            async def blocking() -> None:
                written()
                decoded(os.read(agent.from_it, 65536))

            def received() -> None:
                answers.pop().set_result(os.read(agent.from_it, 65536))

            async def alone() -> None:
                written()
                answers.append(loop.create_future())
                decoded(await answers[0])

            async def asked() -> None:
                await agent.peer.request(v2.SESSION_LIST, LIST)

            async def times(ask: Callable[[], Awaitable[None]]) -> list[float]:
                found: list[float] = []
                for _ in range(requests):
                    start = time.perf_counter()
                    await ask()
                    found.append((time.perf_counter() - start) * 1e9)
                return found

            names = "blocking loop", "asyncio alone", "Peer.request", "under a flood"
            samples: dict[str, list[float]] = {name: [] for name in names}
            with _apart(agent.pid):
                for _ in range(rounds):
                    samples["blocking loop"] += await times(blocking)
                    agent.peer.hold(samples)
                    loop.add_reader(agent.from_it, received)
                    samples["asyncio alone"] += await times(alone)
                    loop.remove_reader(agent.from_it)
                    agent.peer.release(samples)
                    samples["Peer.request"] += await times(asked)
                    agent.begin(-1)
                    await asked()
                    samples["under a flood"] += await times(asked)
                    agent.begin(0)
                    await asked()
        limits = {"Peer.request": 1.5, "under a flood": 7.0}
        reference = statistics.median(samples["blocking loop"])
        rows: list[Row] = []
        for name, values in samples.items():
            half, most = statistics.median(values), statistics.quantiles(values, n=100)[98]
            rows.append(Row(f"{name}, p50", half, half / reference, limits.get(name)))
            rows.append(Row(f"{name}, p99", most, most / reference))
        return rows

    return asyncio.run(measured())


@contextmanager
def _apart(pid: int) -> Generator[None]:
    """Keep another process on a processor of its own, where there are two and the system lets it be said."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
    if len(usable) < 2:
        yield
        return
    os.sched_setaffinity(pid, {max(usable)})
    os.sched_setaffinity(0, usable - {max(usable)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


# --- in processes of their own ---------------------------------------------------------------------------------------


def peers() -> list[Row]:
    """Updates from a pipe to a callback that counts, relative to the clients of other SDKs.

    Each runs in a process of its own, warmed up, with the same program at the other end.
    """

    def agent(updates: int) -> list[str]:
        return flooding([chunk_line()], updates)

    others = [
        typescript("client", 30_000, 40_000, agent, limits={"Peer": 1 / 22}),
        official("client", 1, 3_000, 20_000, agent, limits={"Peer": 1 / 25}),
        official("client", 2, 1_000, 8_000, agent, limits={"Peer": 1 / 100}),
    ]
    return compared([ours("client", "Peer", 100_000, 700_000, agent)], others)


def sending() -> list[Row]:
    """Chunks that are made and sent, each awaited, relative to the TypeScript SDK's agent.

    Each runs in a process of its own, warmed up, with the same program at the other end. `Peer.send_line` gets a line
    of which all but the text was encoded before, as the agent's own senders of text do it.
    """
    line = chunk_line().decode()

    def sink(_: int) -> list[str]:
        return sinking()

    limits = {"Peer.notify": 1 / 12, "Peer.send_line": 1 / 12}
    own = [
        ours("agent", "Peer.notify", 50_000, 400_000, sink, line),
        ours("text", "Peer.send_line", 50_000, 400_000, sink, line),
    ]
    return compared(own, [typescript("agent", 30_000, 60_000, sink, line, limits=limits)])


BENCHES = (pump, peers, sending, stall, round_trip, sessions)
