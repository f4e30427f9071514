"""File descriptors of any kind, read and written without ever blocking the loop.

Owns: readers, the writer, and which of them a descriptor needs. Does not know: whose descriptors these are, or what
ends with them.

A descriptor that was inherited shares its open file, and with it O_NONBLOCK, with other processes and often with
stderr. That flag is never set on one; where a loop sets it (uvloop does, in `add_reader`) it is taken back at once.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import select
import selectors
import socket
import stat
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from .channel import Channel, Ended, Received

__all__ = [
    "DescriptorChannel",
    "PolledReader",
    "Reader",
    "ThreadReader",
    "Writer",
    "own_reader",
    "own_writer",
    "widen",
]

_BLOCK: Final = 64 * 1024
_PIPE: Final = 256 * 1024
"""How much a pipe is asked to hold. With what it holds by default its two ends wait for each other at each block."""


def own_reader(fd: int) -> Reader:
    """A reader of a duplicate of `fd`, which may be of any kind; `fd` itself stays as it is."""
    kind = PolledReader if can_poll(fd) else ThreadReader
    return kind(duplicate(fd))


def own_writer(fd: int) -> Writer:
    """A writer to a duplicate of `fd`, which may be of any kind; `fd` itself stays as it is."""
    widen(fd)
    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        sock = socket.socket(fileno=duplicate(fd))
        return Writer(sock.fileno(), lambda data: sock.send(data, socket.MSG_DONTWAIT), sock.close)
    if stat.S_ISFIFO(mode) or os.isatty(fd):
        with suppress(OSError):  # no /proc; a pipe of another user; a pipe that nobody reads any more
            return Writer(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
    own = duplicate(fd)
    return Writer(own, partial(_write_if_ready if stat.S_ISFIFO(mode) else _write_all, own))


def duplicate(fd: int) -> int:
    """A new descriptor of the same open file, close-on-exec and none of the first three."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


def can_poll(fd: int) -> bool:
    """Whether a loop tells when `fd` can be read.

    Of files and of devices like /dev/null it does not: epoll refuses them, others never report their end.
    """
    mode = os.fstat(fd).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)):
        return False
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(fd, selectors.EVENT_READ)
        except OSError:
            return False
    return True


def errors_of_the_gone(fd: int) -> frozenset[int]:
    """The errors that say no more than that the other end is gone: of pipes, of sockets, of a terminal that hung up."""
    is_terminal = stat.S_ISCHR(os.fstat(fd).st_mode)  # which isatty() denies by then
    return frozenset({errno.EPIPE, errno.ECONNRESET, *([errno.EIO] if is_terminal else [])})


def widen(fd: int) -> None:
    """Have a pipe hold more, where the system lets it: for those through which updates stream.

    What a user's pipes may hold in all is limited: enough for 256 such pipes, as a rule.
    """
    if sys.platform == "linux" and stat.S_ISFIFO(os.fstat(fd).st_mode):
        with suppress(OSError):
            if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) < _PIPE:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE)


# --- reading ----------------------------------------------------------------------------------------------------------


class Reader(ABC):
    """Reads a descriptor that it owns, from `start` to `stop`."""

    def __init__(self, fd: int) -> None:
        self.started = False
        self._fd = fd
        self._gone = errors_of_the_gone(fd)
        self._paused = False
        self._over = False
        self._received: Received = _throw_away
        self._ended: Ended = _throw_away

    def start(self, loop: asyncio.AbstractEventLoop, received: Received, ended: Ended) -> None:
        """Begin; unless `pause` was called before."""
        self.started = True
        self._loop = loop
        self._received, self._ended = received, ended
        self._start()

    def pause(self) -> None:
        """Receive nothing until `resume`."""
        if not self._paused:
            self._paused = True
            self._flow()

    def resume(self) -> None:
        """Go on."""
        if self._paused:
            self._paused = False
            self._flow()

    def throw_away(self) -> None:
        """Go on, but for nobody: so that the writer is not held up."""
        self._received = _throw_away
        self.resume()

    @abstractmethod
    def stop(self) -> None:
        """Receive nothing any more and close the descriptor; may be called twice."""

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _flow(self) -> None:
        """`_paused` has changed."""

    def _end(self, error: OSError | None) -> None:
        self._over = True
        self._flow()
        self._ended(None if error is None or error.errno in self._gone else error)


class PolledReader(Reader):
    """Reads when the loop says so, one block each time."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._blocking = os.get_blocking(fd)
        self._polls = False
        self._last = False

    def finish(self) -> None:
        """What is there already is the last, though somebody may keep the other side open. The descriptor is ours."""
        if self._polls:
            self._loop.remove_reader(self._fd)
            self._loop.call_soon(self._ready)
        self._last = True

    def stop(self) -> None:
        """Receive nothing any more and close the descriptor; may be called twice."""
        self._over = True
        self._flow()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _start(self) -> None:
        self._flow()

    def _flow(self) -> None:
        polls = self.started and not self._paused and not self._over
        if polls != self._polls:
            self._polls = polls
            if polls and self._last:
                self._loop.call_soon(self._ready)
            elif polls:
                self._loop.add_reader(self._fd, self._ready)
                if self._blocking:
                    os.set_blocking(self._fd, True)
            elif not self._loop.is_closed():
                self._loop.remove_reader(self._fd)

    def _ready(self) -> None:
        if not self._polls:  # paused or stopped since this call was arranged
            return
        try:
            block = os.read(self._fd, _BLOCK)
        except BlockingIOError:
            if self._last:
                self._end(None)
        except OSError as error:
            self._end(error)
        else:
            if not block:
                self._end(None)
                return
            if self._last:
                self._loop.call_soon(self._ready)
            self._received(block)


class ThreadReader(Reader):
    """Reads in a thread, one block each time it is asked to; for what no loop can poll.

    The thread does not keep the process alive. It ends with `stop`, unless a driver holds it in a read that can be
    neither polled nor interrupted.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._orders = -1  # writing a byte here orders a block, closing it ends the thread
        self._asked = False
        self._kept: bytes | OSError | None = None  # what came while paused

    def stop(self) -> None:
        """Receive nothing any more and end the thread, which closes the descriptor; may be called twice."""
        self._over = True
        if self._orders >= 0:
            os.close(self._orders)
        elif self._fd >= 0:
            os.close(self._fd)
        self._orders = self._fd = -1

    def _start(self) -> None:
        orders, self._orders = os.pipe()
        loop, arrived = self._loop, self._arrived

        def hand_over(block: bytes | OSError) -> None:
            loop.call_soon_threadsafe(arrived, block)

        threading.Thread(
            target=_read_to_order, args=(self._fd, orders, hand_over), name="acpwire reader", daemon=True
        ).start()
        self._flow()

    def _flow(self) -> None:
        if self.started and not self._paused and not self._over:
            if self._kept is not None:
                self._loop.call_soon(self._give)
            elif not self._asked:
                self._asked = True
                os.write(self._orders, b"+")

    def _arrived(self, block: bytes | OSError) -> None:
        self._asked = False
        self._kept = block
        self._give()

    def _give(self) -> None:
        if self._paused or self._over or self._kept is None:
            return
        block, self._kept = self._kept, None
        if isinstance(block, OSError):
            self._end(block)
        elif not block:
            self._end(None)
        else:
            try:
                self._received(block)
            finally:
                self._flow()


def _read_to_order(fd: int, orders: int, hand_over: Callable[[bytes | OSError], None]) -> None:
    """The thread: a block for each byte in `orders`, until that ends. Owns both descriptors."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.register(orders, select.POLLIN)
    try:
        while os.read(orders, 1):
            if any(ready == orders for ready, _ in poll.poll()):
                break
            block: bytes | OSError
            try:
                block = os.read(fd, _BLOCK)
            except OSError as error:
                block = error
            hand_over(block)
            if not isinstance(block, bytes) or not block:
                break
    except RuntimeError:
        pass  # the loop was closed: there is nobody to read for
    finally:
        os.close(orders)
        os.close(fd)


def _throw_away(_: object) -> None:
    pass


# --- writing ----------------------------------------------------------------------------------------------------------


class Writer:
    """Writes to a descriptor that it owns, at once as far as it goes; the rest when the loop says so.

    `write` writes some of what it is given and says how much, or raises `BlockingIOError`.
    """

    def __init__(
        self,
        fd: int,
        write: Callable[[bytes | bytearray | memoryview], int] | None = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.gone = errors_of_the_gone(fd)
        self._fd = fd
        self._write = write or partial(os.write, fd)
        self._close = close or partial(os.close, fd)
        self._blocking = os.get_blocking(fd)
        self._kept = bytearray()
        self._polls = False
        self._stopped = False

    def __len__(self) -> int:
        """How many bytes are kept."""
        return len(self._kept)

    def start(
        self, loop: asyncio.AbstractEventLoop, drained: Callable[[], None], broke: Callable[[OSError], None]
    ) -> None:
        """Say whom to tell; before the first `send`."""
        self._loop, self._drained, self._broke = loop, drained, broke

    def send(self, data: bytes) -> None:
        """Write what goes now, keep the rest. Raises what writing raises; what fails later is told to `broke`."""
        if self._kept:
            self._kept += data
            return
        try:
            done = self._write(data)
        except BlockingIOError:
            done = 0
        if done < len(data):
            self._kept += memoryview(data)[done:]
            self._poll(on=True)

    def stop(self) -> None:
        """Write nothing any more and close the descriptor; may be called twice."""
        if not self._stopped:
            self._stopped = True
            self._poll(on=False)
            self._kept.clear()
            self._close()

    def _poll(self, *, on: bool) -> None:
        if on != self._polls:
            self._polls = on
            if on:
                self._loop.add_writer(self._fd, self._ready)
                if self._blocking:
                    os.set_blocking(self._fd, True)
            elif not self._loop.is_closed():
                self._loop.remove_writer(self._fd)

    def _ready(self) -> None:
        try:
            with memoryview(self._kept) as kept:
                done = self._write(kept)
        except BlockingIOError:
            return
        except OSError as error:
            self._poll(on=False)
            self._kept.clear()
            self._broke(error)
            return
        del self._kept[:done]
        if not self._kept:
            self._poll(on=False)
            self._drained()


def _write_if_ready(fd: int, data: bytes | bytearray | memoryview) -> int:
    """Write to a pipe that may block: so much at a time as a pipe takes that polls as ready."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    done = 0
    with memoryview(data) as rest:
        while done < len(rest) and poll.poll(0):
            done += os.write(fd, rest[done : done + select.PIPE_BUF])
    if not done and len(data):
        raise BlockingIOError
    return done


def _write_all(fd: int, data: bytes | bytearray | memoryview) -> int:
    """Write to what takes everything at once: a file, a device."""
    done = 0
    with memoryview(data) as rest:
        while done < len(rest):
            try:
                done += os.write(fd, rest[done:])
            except BlockingIOError:  # a terminal that came without blocking
                if done:
                    break
                raise
    return done


# --- both -------------------------------------------------------------------------------------------------------------


class DescriptorChannel(Channel):
    """Reads one descriptor and writes another."""

    def __init__(self, reader: Reader, writer: Writer, grace: float) -> None:
        super().__init__()
        self._reader = reader
        self._writer = writer
        self._writer_started = False
        self._grace = grace

    def pause(self) -> None:
        """Receive nothing until `resume`; within `received`, too. Pausing twice is pausing once."""
        if self._closing is None:
            self._reader.pause()

    def resume(self) -> None:
        """Go on receiving."""
        self._reader.resume()

    @property
    def unsent(self) -> int:
        """How many bytes are kept."""
        return len(self._writer)

    def _begin(self, received: Received) -> None:
        self._reader.start(self._loop, received, self._end_input)

    def _send(self, data: bytes) -> None:
        if not self._writer_started:
            self._writer_started = True
            self._writer.start(self._loop, self._drain, self._writing_broke_later)
        try:
            self._writer.send(data)
        except OSError as error:
            self._writing_broke(error)
            raise self.closed_error() from error

    def _writing_broke(self, error: OSError) -> None:
        is_gone = error.errno in self._writer.gone
        self._break("the other end reads no more" if is_gone else self._failed(self._writes, error))

    def _writing_broke_later(self, error: OSError) -> None:
        self._writing_broke(error)
        self._drain()

    def _end_output(self) -> bool:
        self._writer.stop()
        return True

    def _ignore(self) -> None:
        self._reader.throw_away()  # the other end may be unable to read before it has written

    async def _finish(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                await self._flush()

    def _release(self) -> None:
        self._reader.stop()
        self._writer.stop()
