"""Proxying: what a client and an agent say to each other goes through as it came, and a tap may look on, or change it.

    agent = await acpwire.spawn_process("my-agent", "--acp")
    with acpwire.Recorder("session.ndjson.gz") as recorder:
        await acpwire.relay(acpwire.stdio(), agent, recorder.record)

Owns: passing on in both directions, the pace of both, how the end of one side becomes the end of the other, and lines
for the tap. Does not know: what a line means; without a tap, not even where one ends.
"""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from acpwire.connection import Role
from acpwire.errors import ConnectionClosed
from acpwire.failures import ENDS
from acpwire.limits import Limits
from acpwire.transports import Channel, Transport, channel_of
from acpwire.wire.lines import OversizedLine

__all__ = ["RelayEnd", "RelayTap", "relay"]

RelayTap: TypeAlias = Callable[[Role, bytes], "bytes | None"]
"""Gets who sent a line, and the line with its line feed; says what is to be sent: None the line as it is, b"" nothing,
other bytes these in its place."""

_WHITE: Final = b" \t\r\n"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RelayEnd:
    """Why a relay is over."""

    side: Role
    """Which side ended first."""
    cause: ConnectionClosed
    """What is known of that end: of a process, its exit code and the end of its stderr."""


async def relay(
    left: Transport, right: Transport, tap: RelayTap | None = None, *, limits: Limits | None = None
) -> RelayEnd:
    """Pass on what comes from either side until one ends; `left` leads to the client, `right` to the agent.

    Bytes go through as they came; nothing is encoded anew. Without a tap, whole blocks do. A side that does not read
    pauses the other one, with no more than about `Limits.unsent` bytes in between.

    `tap(sender, line)` sees every line but blank ones, in the order of its side, before it is passed on; `sender` is
    "client" or "agent". It returns None to let the line pass, b"" to drop it, or other bytes to send in its place,
    which get a line feed if they have none. It is called within the event loop, so it should be quick. A line for which
    it raises, or returns anything else, passes unchanged, and the first such failure is logged. Of a line longer than
    `Limits.line` it gets the beginning, an `OversizedLine`, as soon as it is too long, and says then what becomes of
    all of it; nothing more of such a line is kept. A last line without line feed is a line.

    When the client's input ends, the agent is told so after all that was said, and has `Limits.grace` seconds to say
    the rest and end; none over somebody else's transport, by which that cannot be told. When the agent ends, all that
    it said is passed on, however long the client takes, and it is over. Then both are closed. Cancelling closes both,
    too; cancelled once more, it does not wait for that. Returns which side ended first, and why.
    """
    limits = limits or Limits()
    client, agent = channel_of(left, limits=limits), channel_of(right, limits=limits)
    ends: asyncio.Queue[_Way] = asyncio.Queue()
    asking = _Way("client", client, agent, tap, limits, ends)
    answering = _Way("agent", agent, client, tap, limits, ends)
    try:
        asking.start()
        answering.start()
        first = await ends.get()
        gone = first.target if first.is_refused else first.source  # the side that ended
        await gone.settled()
        end = RelayEnd("client" if gone is client else "agent", gone.closed_error())
        if first is asking:
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.grace):
                    if await agent.end_output():
                        await answering.over.wait()
        else:
            await client.end_output()
        return end
    finally:
        for way in (asking, answering):
            way.report()
        await asyncio.shield(asyncio.gather(client.close(), agent.close()))


class _Way:
    """One direction: from a source to a target; it is put into `ends` when the one or the other ended."""

    def __init__(
        self,
        sender: Role,
        source: Channel,
        target: Channel,
        tap: RelayTap | None,
        limits: Limits,
        ends: asyncio.Queue[_Way],
    ) -> None:
        self.source = source
        self.target = target
        self.is_refused = False
        """Whether the target takes nothing any more; then what comes is thrown away, and holds nobody up."""
        self.over = asyncio.Event()
        self._mark = limits.unsent
        self._ends = ends
        self._lines = None if tap is None else _Lines(sender, tap, limits.line)

    def start(self) -> None:
        self.target.drained = self._drained
        self.source.start(self._send if self._lines is None else self._tapped, self._ended)

    def report(self) -> None:
        """Say how often the tap failed."""
        if self._lines is not None and self._lines.failures > 1:
            _log.error("the tap of a relay failed for %d lines", self._lines.failures)

    def _tapped(self, block: bytes) -> None:
        if self._lines is not None:
            self._send(self._lines.feed(block))

    def _send(self, block: bytes) -> None:
        if self.is_refused or not block:
            return
        try:
            self.target.send(block)
        except ConnectionClosed:
            self._refused()
        else:
            if self.target.unsent > self._mark:
                self.source.pause()

    def _drained(self) -> None:
        """All was taken, or is lost; then the next send says so."""
        self.source.resume()

    def _refused(self) -> None:
        self.is_refused = True
        self._end()

    def _ended(self, _: Exception | None) -> None:
        if self._lines is not None:
            self._send(self._lines.flush())
        self._end()

    def _end(self) -> None:
        self.over.set()
        self._ends.put_nowait(self)


class _Lines:
    """Shows lines to a tap, and makes of its answers what is sent."""

    def __init__(self, sender: Role, tap: RelayTap, limit: int) -> None:
        self.failures = 0
        self._sender: Role = sender
        self._tap = tap
        self._limit = limit
        self._parts: list[bytes] = []  # of a line that has not ended
        self._size = 0
        self._passes: bool | None = None  # whether the rest of a line that is too long does; None: there is none

    def feed(self, block: bytes) -> bytes:
        """Take the next block; returns what is to be sent now."""
        sender, tap = self._sender, self._tap
        lines = io.BytesIO(block).readlines()
        tail = lines.pop() if lines[-1][-1] != 10 else b""
        begun = b""
        if lines and (self._parts or self._passes is not None):
            begun = self._finished(lines.pop(0))
        is_long = len(block) > self._limit
        for index, line in enumerate(lines):
            if line[0] <= 32 and not line.strip(_WHITE):
                continue
            if is_long and len(line) - 1 > self._limit:
                lines[index] = self._asked(self._shortened(line), line)
                continue
            try:
                said = tap(sender, line)
                if said is not None:
                    lines[index] = _ended(said)
            except ENDS:
                raise
            except BaseException:  # noqa: BLE001  # whatever a user's function raises
                self._failed()
        if begun:
            lines.insert(0, begun)
        if tail:
            lines.append(self._held(tail))
        return b"".join(lines)

    def flush(self) -> bytes:
        """What is to be sent of a last line that has no line feed."""
        return self._finished(b"") if self._parts else b""

    def _held(self, piece: bytes) -> bytes:
        """Keep a piece of a line that goes on, until it is too long; returns what is sent of it now."""
        if self._passes is not None:
            return piece if self._passes else b""
        self._parts.append(piece)
        self._size += len(piece)
        if self._size <= self._limit:
            return b""
        start = self._taken()
        said = self._asked(self._shortened(start), start)
        self._passes = said is start
        return said

    def _finished(self, piece: bytes) -> bytes:
        """What is sent of the line that ends with this piece."""
        if self._passes is not None:
            passes, self._passes = self._passes, None
            return piece if passes else b""
        self._parts.append(piece)
        line = self._taken()
        if not line.strip(_WHITE):
            return line
        return self._asked(self._shortened(line) if len(line.removesuffix(b"\n")) > self._limit else line, line)

    def _taken(self) -> bytes:
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        return line

    def _shortened(self, line: bytes) -> bytes:
        return OversizedLine.of(line, len(line.removesuffix(b"\n")), self._limit)

    def _asked(self, shown: bytes, line: bytes) -> bytes:
        """What the tap wants to have sent for a line of which it is shown this much."""
        try:
            said = self._tap(self._sender, shown)
            return line if said is None else _ended(said)
        except ENDS:
            raise
        except BaseException:  # noqa: BLE001  # whatever a user's function raises
            self._failed()
            return line

    def _failed(self) -> None:
        self.failures += 1
        if self.failures == 1:
            _log.exception("the tap of a relay failed; lines for which it does pass as they came")


def _ended(said: bytes) -> bytes:
    """What a tap said, as whole lines."""
    if not isinstance(said, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody else checks what it returns
        raise TypeError(f"a tap returns bytes or None, not {type(said).__name__}")
    return said if not said or said[-1] == 10 else said + b"\n"
