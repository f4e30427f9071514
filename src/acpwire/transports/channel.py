"""What a transport is, and the callback form of it that all transports of this package have.

Owns: `Transport`, and of `Channel` all that is the same for each: `read` and `write` over the callbacks, who may begin
reading, the one end of input, the waiting for unsent bytes, closing once. Does not know: where bytes come from or go.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, runtime_checkable

from acpwire.errors import ConnectionClosed, UsageError

__all__ = ["Channel", "Ended", "Received", "Transport"]

Received: TypeAlias = Callable[[bytes], None]
Ended: TypeAlias = Callable[[Exception | None], None]

_WRITE_MARK: Final = 64 * 1024
"""Above how many unsent bytes `write` waits."""


@runtime_checkable
class Transport(Protocol):
    """A way to the other end, in three methods; anything that has them will do (TR-08)."""

    async def read(self) -> bytes:
        """The next bytes, at least one, however they were cut; b"" at the end, and from then on.

        Raises `ConnectionClosed` where reading broke. Cancelling it loses no bytes.
        """
        ...

    async def write(self, data: bytes, /) -> None:
        """Send `data` after all that was given before; waits while the other end takes nothing.

        Raises `ConnectionClosed` when the other end is gone. Cancelled, it has sent all of `data` or none: what was
        begun is sent to its end.
        """
        ...

    async def close(self) -> None:
        """Give everything back. Closing twice is fine, and so is closing again after a close that was cancelled."""
        ...


class Channel(ABC):
    """A transport with callbacks: no task and no future between the descriptor and whoever reads it.

    Whoever uses it either calls `start` once, and has the callbacks, or calls `read`; not both. Sending with `send`
    never waits, sending with `write` does. All of it happens in the thread of one event loop.
    """

    drained: Callable[[], None] | None = None
    """Called whenever `unsent` has fallen to 0: all was taken, or the rest is lost as writing ended."""
    failure: str = ""
    """What reading or writing failed with, once it has; "" where the other end has only ended, or gone away. What is
    told by `closed_error` may be another reason, which came before."""
    _reads = "reading"
    _writes = "writing"

    def __init__(self) -> None:
        self._loop_: asyncio.AbstractEventLoop | None = None
        self._ended: Ended | None = None  # whom to tell of the end of input; of a channel that is read, `_wake`
        self._over = False  # no input comes any more
        self._over_error: Exception | None = None
        self._blocks: deque[bytes] | None = None  # for `read`; None: nobody has called it
        self._reading: asyncio.Future[None] | None = None
        self._write_turn = asyncio.Lock()
        self._draining: set[asyncio.Future[None]] = set()
        self._broken = False  # nothing can be written any more
        self._closing: asyncio.Task[None] | None = None
        self._closed = False
        self._reason = ""

    # --- reading ---

    def start(self, received: Received, ended: Ended) -> None:
        """Begin reading: `received(block)` for each block that comes, `ended` once, after the last block.

        A block is never empty and belongs to whoever gets it. `ended(None)` is the end of input, `ended(error)` says
        that reading broke; what else there is to know of the end is in `closed_error`. From `close` on nothing is
        received any more, and `ended` comes before it returns. Both are called by the event loop, never from within a
        method of this class. Raises `UsageError` if reading has begun already.
        """
        if self._ended is not None:
            raise UsageError("this transport is being read already: either by one start(), or with read()")
        self._ended = ended
        if self._over:
            self._loop.call_soon(ended, self._over_error)
        elif self._closing is None:
            self._begin(received)

    @abstractmethod
    def pause(self) -> None:
        """Receive nothing until `resume`; within `received`, too. Pausing twice is pausing once."""

    @abstractmethod
    def resume(self) -> None:
        """Go on receiving."""

    async def read(self) -> bytes:
        """The next bytes, at least one; b"" at the end, and from then on.

        Raises `ConnectionClosed` where reading broke, and `UsageError` after `start`, or while another task reads.
        Cancelling it loses no bytes.
        """
        if self._blocks is None:
            blocks: deque[bytes] = deque()
            self.start(self._keep, self._wake)
            self._blocks = blocks
        if self._reading is not None:
            raise UsageError("another task waits in read() of this transport")
        while not self._blocks and not self._over:
            self._reading = self._loop.create_future()
            self.resume()
            try:
                await self._reading
            finally:
                self._reading = None
        if self._blocks:
            return self._blocks.popleft()
        if self._over_error is not None:
            raise self.closed_error() from self._over_error
        return b""

    # --- writing ---

    def send(self, data: bytes) -> None:
        """Write what goes now and keep the rest, in order; never waits.

        Raises `ConnectionClosed` after the other end is gone, and after `close`.
        """
        if self._broken or self._closing is not None:
            raise self.closed_error()
        self._send(data)

    @property
    @abstractmethod
    def unsent(self) -> int:
        """How many bytes are kept."""

    async def write(self, data: bytes) -> None:
        """Send `data`; waits while much is unsent. Calls are served in turn.

        Raises `ConnectionClosed` when the other end is gone. Cancelled, it has sent all of `data` or none.
        """
        try:
            async with self._write_turn:
                await self._unsent_below(_WRITE_MARK)
                self.send(data)
                await self._unsent_below(_WRITE_MARK)
        except ConnectionClosed:
            await self.settled()
            raise self.closed_error() from None

    # --- the end ---

    async def end_output(self) -> bool:
        """Send what is unsent, then have the other end read its end of input; what it still says is received.

        Waits while the other end takes nothing. Returns False where that cannot be said without closing: by a transport
        in memory, a process and pipes it can. Nothing can be sent afterwards. Cancelled, nothing has been ended.
        """
        await self._flush()
        if self._broken or self._closing is not None:
            return True
        self._broken = self._end_output()
        return self._broken

    async def close(self) -> None:
        """Send what is unsent as long as the other end takes it, within the grace of the limits; then let go.

        Closing twice is fine, at the same time too. Cancelling ends the waiting alone: the closing goes on, and another
        call waits for it. When the loop itself ends meanwhile, everything is let go at once.
        """
        if self._loop_ is not None and self._loop_.is_closed():
            self._let_go()
            return
        if self._closing is None:
            self._because("the connection was closed here")
            self._ignore()
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    def closed_error(self) -> ConnectionClosed:
        """Why nothing comes or goes any more, as far as is known; a new error each time."""
        return ConnectionClosed(self._reason or ("output was ended here" if self._broken else "the connection is open"))

    async def settled(self) -> None:  # noqa: B027  # most know at once; a process overrides it
        """Wait, not for long, until `closed_error` knows what there is to know. Cancelling it changes nothing."""

    # --- for what is below ---

    @abstractmethod
    def _begin(self, received: Received) -> None:
        """Begin reading; in the end call `_end_input`."""

    @abstractmethod
    def _send(self, data: bytes) -> None:
        """Write or keep `data`, or `_break` and raise; later `_drain` when all is gone, or lost after a `_break`."""

    def _end_output(self) -> bool:
        """Say that nothing more is sent, all of which has gone; False: there is no way to say that alone."""
        return False

    @abstractmethod
    def _ignore(self) -> None:
        """Receive nothing any more, and let nobody wait for that: what comes is thrown away."""

    async def _finish(self) -> None:
        """The part of closing that takes time."""
        await self._flush()

    @abstractmethod
    def _release(self) -> None:
        """Give up everything at once; may be called twice, and without a loop."""

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """The loop in which this channel was used first."""
        if self._loop_ is None:
            self._loop_ = asyncio.get_running_loop()
        return self._loop_

    def _because(self, reason: str) -> None:
        """Note why the connection is over; the first reason stays."""
        self._reason = self._reason or reason

    def _end_input(self, error: Exception | None) -> None:
        """Nothing comes any more; only the first call counts."""
        if not self._over:
            self._over, self._over_error = True, error
            if error is None:
                self._because("the other end closed the connection")
            else:
                self._because(self._failed(self._reads, error))
            if self._ended is not None:
                self._ended(error)

    def _failed(self, what: str, error: Exception) -> str:
        """Note that something failed though the other end is there, and return that as a reason."""
        reason = f"{what} failed: {error}"
        self.failure = self.failure or reason
        return reason

    def _break(self, reason: str) -> None:
        """Nothing can be written any more."""
        self._because(reason)
        self._broken = True

    def _drain(self) -> None:
        """Wake who waits for `unsent` to fall."""
        for waiter in self._draining:
            if not waiter.done():
                waiter.set_result(None)
        if self.drained is not None:
            self.drained()

    async def _unsent_below(self, mark: int) -> None:
        while self.unsent > mark and not self._broken:
            waiter = self._loop.create_future()
            self._draining.add(waiter)
            try:
                await waiter
            finally:
                self._draining.discard(waiter)
        if self._broken:
            raise self.closed_error()

    async def _flush(self) -> None:
        """Wait until nothing is unsent, or can be sent."""
        try:
            await self._unsent_below(0)
        except ConnectionClosed:
            return

    async def _close(self) -> None:
        try:
            await self._finish()
        except asyncio.CancelledError:
            pass  # only the end of the loop cancels this task, and then there is no time left
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if not self._closed:
            self._closed = True
            self._release()
            self._break("the connection was closed here")
            self._drain()
            self._end_input(None)

    def _keep(self, block: bytes) -> None:
        """What `read` receives."""
        if self._blocks is not None:
            self._blocks.append(block)
        self.pause()
        self._wake()

    def _wake(self, _: Exception | None = None) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)
