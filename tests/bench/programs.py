"""The programs that are measured, and those at the other ends of their pipes.

Owns: starting them, and comparing what they say of themselves. What each of them does is in `peers`. The TypeScript SDK
lives in an npm prefix that the variable ACPWIRE_BENCH_NPM names, the releases of the Python SDK that speak v2 in an
environment whose interpreter ACPWIRE_BENCH_RC names.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TypeAlias

from acpwire import v2
from acpwire.connection import Connection
from acpwire.peer import Peer
from acpwire.transports.descriptors import DescriptorChannel, own_reader, own_writer
from acpwire.wire import Request, encode

from . import Row

Handler: TypeAlias = Callable[[v2.UpdateSessionNotification], None]
PEERS = Path(__file__).parent / "peers"
INITIALIZE = encode(
    Request(
        id=0,
        method="initialize",
        params=v2.InitializeRequest(protocol_version=2, info=v2.Implementation(name="bench", version="1")),
    )
)


# --- at the other end ------------------------------------------------------------------------------------------------


def flooding(lines: Sequence[bytes], updates: int = 0) -> list[str]:
    """The agent that floods with these lines in turns, when it is asked to and, if so, after the handshake."""
    return [sys.executable, str(PEERS / "agent.py"), str(updates), *(line.decode() for line in lines)]


def sinking(*requests: str) -> list[str]:
    """The client that says `initialize`, then these requests, each when the last was answered, and reads on."""
    return [sys.executable, str(PEERS / "sink.py"), INITIALIZE.decode().strip(), *requests]


@contextmanager
def piped(argv: Sequence[str]) -> Generator[tuple[int, IO[bytes], IO[bytes]]]:
    """A program, by its process id and the pipes to it and from it; it is killed at the end."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            if process.stdin is None or process.stdout is None:
                raise ValueError("a process without pipes")
            yield process.pid, process.stdin, process.stdout
        finally:
            process.kill()


@contextmanager
def without_collector() -> Generator[None]:
    """Nothing is looked for that refers to itself."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Agent:
    """A client's peer, the agent's process at the other end of it, and the callback that counts what comes."""

    def __init__(self, pid: int, to_it: int, from_it: int, wrapped: Callable[[Handler], Handler] | None) -> None:
        self.pid, self.to_it, self.from_it = pid, to_it, from_it
        self._left = 0
        self._done = asyncio.Event()
        channel = DescriptorChannel(own_reader(from_it), own_writer(to_it), 1.0)
        connection = Connection("client", v2.decode_from_agent, v2.METHODS)
        handler = self._count if wrapped is None else wrapped(self._count)
        self.peer = Peer(channel, connection, {v2.SESSION_UPDATE: handler})

    def begin(self, updates: int) -> None:
        """Ask for so many updates."""
        os.write(self.to_it, flood_of(updates))

    async def flood(self, updates: int) -> None:
        """Ask for so many updates and wait until the last has been counted."""
        self._left = updates
        self._done.clear()
        self.begin(updates)
        await self._done.wait()

    async def cpu_time(self, updates: int) -> float:
        """Nanoseconds of this process for each of so many updates."""
        start = time.process_time()
        await self.flood(updates)
        return (time.process_time() - start) / updates * 1e9

    def _count(self, _: v2.UpdateSessionNotification) -> None:
        self._left -= 1
        if not self._left:
            self._done.set()


def flood_of(updates: int) -> bytes:
    """The line that asks the agent for so many updates."""
    line = {"jsonrpc": "2.0", "method": "_flood", "params": {"updates": updates}}
    return json.dumps(line).encode() + b"\n"


@asynccontextmanager
async def connected(argv: Sequence[str], wrapped: Callable[[Handler], Handler] | None = None) -> AsyncGenerator[Agent]:
    """An agent's process, and a peer for it."""
    with piped(argv) as (pid, to_it, from_it):
        agent = Agent(pid, to_it.fileno(), from_it.fileno(), wrapped)
        async with agent.peer:
            yield agent


# --- what measures itself --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Program:
    """A program that measures itself, with another at the other end of its pipes."""

    name: str
    argv: Sequence[str]
    warm_up: int
    updates: int
    end: Callable[[int], Sequence[str]]
    """The other end, by how many updates it is to send, if it sends any."""
    more: Sequence[str] = ()
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    """What is promised beside it: how much of its cost the one of this name may have."""
    missing: str = ""
    """What it lacks to run."""

    def cost(self) -> float:
        """Nanoseconds an update."""
        with piped(self.end(self.warm_up + self.updates)) as (_, to_it, from_it):
            argv = [*self.argv, str(self.warm_up), str(self.updates), *self.more]
            done = subprocess.run(argv, stdin=from_it, stdout=to_it, stderr=subprocess.PIPE, check=True, timeout=120)
        return float(done.stderr.split()[-1])


def ours(side: str, name: str, warm_up: int, updates: int, end: Callable[[int], Sequence[str]], *more: str) -> Program:
    """One of this package."""
    return Program(name, [sys.executable, str(PEERS / "ours.py"), side], warm_up, updates, end, more)


def typescript(
    side: str,
    warm_up: int,
    updates: int,
    end: Callable[[int], Sequence[str]],
    *more: str,
    limits: Mapping[str, float],
) -> Program:
    """The TypeScript SDK's."""
    prefix = os.environ.get("ACPWIRE_BENCH_NPM", "")
    missing = "" if prefix else "ACPWIRE_BENCH_NPM names no npm prefix that has it"
    package = Path(prefix, "node_modules", "@agentclientprotocol", "sdk")
    argv = ["node", str(PEERS / "typescript.mjs"), str(package), side]
    return Program("TypeScript SDK 2.4.0", argv, warm_up, updates, end, more, limits, missing)


def official(
    side: str,
    version: int,
    warm_up: int,
    updates: int,
    end: Callable[[int], Sequence[str]],
    *more: str,
    limits: Mapping[str, float],
) -> Program:
    """The official Python SDK's, which speaks this version of the protocol."""
    if version == 1:
        name, interpreter, missing = "Python SDK 0.12.1", sys.executable, ""
    else:
        name, interpreter = "Python SDK 1.0.0rc3", os.environ.get("ACPWIRE_BENCH_RC", "")
        missing = "" if interpreter else "ACPWIRE_BENCH_RC names no interpreter that has it"
    argv = [interpreter, str(PEERS / "official.py"), side, str(version)]
    return Program(name, argv, warm_up, updates, end, more, limits, missing)


def compared(own: Sequence[Program], others: Sequence[Program], turns: int = 5) -> list[Row]:
    """Each of the others in turns with ours; what counts is the median of what runs side by side give."""
    rows: list[Row] = []
    for other in others:
        if other.missing:
            rows.append(Row(f"{other.name}: {other.missing}", 0.0, 0.0))
            continue
        runs = [[program.cost() for program in (other, *own)] for _ in range(turns)]
        for index, program in enumerate((other, *own)):
            cost = statistics.median(run[index] for run in runs)
            ratio = statistics.median(run[index] / run[0] for run in runs)
            name = f"{program.name} beside it" if index else program.name
            rows.append(Row(name, cost, ratio, other.limits.get(program.name)))
    return rows
