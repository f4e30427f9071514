"""A child process, spoken to over its stdin and stdout, in a process group of its own.

Owns: starting it, its stderr, its exit, and that nothing of it is left. Does not know: what it is told, or tells.

A process id is free to be given to another process once its exit was collected, and a group's number with it. So the
exit is learned without collecting it, the group is signalled while its dead leader still holds the number, and only
then the leader is collected.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import threading
import warnings
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from acpwire.errors import ConnectionClosed, UsageError
from acpwire.limits import Limits

from .channel import Received
from .descriptors import DescriptorChannel, PolledReader, Writer, widen

__all__ = ["ProcessTransport", "spawn_process"]

_log = logging.getLogger(__name__)
_LIMITS: Final = Limits()

# The grace of a close, shared out: until the second a child may end by itself, until the third on SIGTERM.
_BY_ITSELF: Final = 0.5
_ON_SIGTERM: Final = 0.9
_COLLECT: Final = 1.0
"""Seconds for the kernel to end what got SIGKILL."""
_SETTLE: Final = 1.0
"""Seconds that the end of stdout waits for the exit and the end of stderr, which belong in the error."""
_STOLEN: Final = 255
"""The exit code where somebody else collected it, as in asyncio."""

_uncollected: Final[set[subprocess.Popen[bytes]]] = set()
"""Keeps them from being finalised, in garbage, before the transports that collect them."""


async def spawn_process(
    *argv: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    unset: Iterable[str] = (),
    cwd: str | os.PathLike[str] | None = None,
    limits: Limits = _LIMITS,
    on_stderr: Callable[[bytes], object] | None = None,
) -> ProcessTransport:
    """Start a program, without a shell, and speak to it over its stdin and stdout (TR-03).

    It inherits the environment with `env` added and the names in `unset` removed. What it writes to stderr is always
    read (TR-04): the end of it, `limits.stderr_tail` bytes, is kept for errors, and each block is given to `on_stderr`.

    Raises `OSError` as the system says it: `FileNotFoundError` with the name of the program or of `cwd`,
    `PermissionError`. Nothing in here waits, so there is nothing to cancel.
    """
    if not argv:
        raise UsageError("spawn_process needs the name of a program")
    environment = {**os.environ, **(env or {})}
    for name in unset:
        environment.pop(name, None)
    theirs: list[int] = []
    ours: list[int] = []
    try:
        for ends in (theirs, ours), (ours, theirs), (ours, theirs):
            for fd, kept in zip(os.pipe(), ends, strict=True):
                kept.append(fd)
        widen(ours[1])
        for fd in ours:
            os.set_blocking(fd, False)
        popen = subprocess.Popen(  # noqa: ASYNC220  # asyncio does no other; it returns when the program runs
            argv, stdin=theirs[0], stdout=theirs[1], stderr=theirs[2], env=environment, cwd=cwd, process_group=0
        )
    except BaseException as error:
        for fd in ours:
            os.close(fd)
        if isinstance(error, FileNotFoundError):
            raise _with_hint(error, argv) from None
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    return ProcessTransport(popen, (ours[0], ours[1], ours[2]), Path(argv[0]).name, limits, on_stderr)


def _with_hint(error: FileNotFoundError, argv: Sequence[str | os.PathLike[str]]) -> FileNotFoundError:
    """An error that says how arguments are given, where a whole command line was taken for a program's name."""
    name = os.fspath(argv[0])
    if error.filename != name or len(name.split()) < 2:
        return error
    apart = ", ".join(repr(part) for part in name.split())
    hint = f"{error.strerror}; arguments are given one by one, as in ({apart})"
    return FileNotFoundError(error.errno, hint, name)


class ProcessTransport(DescriptorChannel):
    """A child process; `spawn_process` makes it. What it writes after all others is read before its end is told.

    The end of input is the end of its stdout, with its exit code and stderr where these follow shortly. After its exit
    whoever still holds its stdout has the grace of the limits; then, or earlier when nobody does, what is left of its
    process group is killed.
    """

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        pipes: tuple[int, int, int],
        name: str,
        limits: Limits,
        on_stderr: Callable[[bytes], object] | None,
    ) -> None:
        stdin, stdout, stderr = pipes
        self._stdout = PolledReader(stdout)
        super().__init__(self._stdout, Writer(stdin), limits.grace)
        self._popen = popen
        _uncollected.add(popen)
        self._name = name
        self._on_stderr = on_stderr
        self._tail = bytearray()
        self._tail_size = limits.stderr_tail
        self._exit_code: int | None = None
        self._collected = False
        self._exited = asyncio.Event()
        self._stdout_over = asyncio.Event()
        self._stderr_over = asyncio.Event()
        self._stdout_error: Exception | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._pidfd = -1
        self._stderr = PolledReader(stderr)
        self._stderr.start(self._loop, self._stderr_received, lambda _: self._happened(self._stderr_over))
        self._watch()

    @property
    def pid(self) -> int:
        """The process id, which is the number of the process group too."""
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; below zero, the signal that ended the process; None while it runs."""
        return self._exit_code

    @property
    def stderr_tail(self) -> bytes:
        """The end of what was written to stderr."""
        return bytes(self._tail)

    async def wait(self) -> int:
        """The exit code, when the process has ended. Cancelling it changes nothing."""
        await self._exited.wait()
        return _STOLEN if self._exit_code is None else self._exit_code

    def closed_error(self) -> ConnectionClosed:
        """Why nothing comes or goes any more, with exit code and the end of stderr; a new error each time."""
        ended = self._exited.is_set() and self._closing is None
        reason = f"{self._name} has ended" if ended else super().closed_error().message
        return ConnectionClosed(reason, exit_code=self._exit_code, stderr_tail=self.stderr_tail)

    async def settled(self) -> None:
        """Wait, not for long, until the exit code and all of stderr are known. Cancelling it changes nothing."""
        with suppress(TimeoutError):
            async with asyncio.timeout(min(_SETTLE, self._grace)):
                await self._exited.wait()
                await self._stderr_over.wait()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name} pid={self.pid} exit_code={self._exit_code}>"

    def __del__(self) -> None:
        if not self._closed:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
            self._release()

    # --- what happens to it ---

    def _begin(self, received: Received) -> None:
        self._stdout.start(self._loop, received, self._stdout_ended)

    def _stderr_received(self, block: bytes) -> None:
        self._tail += block
        del self._tail[: max(0, len(self._tail) - self._tail_size)]
        if self._on_stderr is not None:
            try:
                self._on_stderr(block)
            except Exception as error:  # noqa: BLE001  # a log that fails must not end the connection
                _log.warning("on_stderr raised %s", type(error).__name__)
                _log.debug("what it raised", exc_info=error)

    def _stdout_ended(self, error: Exception | None) -> None:
        self._stdout_error = error
        self._timers.append(self._loop.call_later(min(_SETTLE, self._grace), self._tell_end))
        self._happened(self._stdout_over)

    def _tell_end(self) -> None:
        self._end_input(self._stdout_error)

    def _watch(self) -> None:
        """Have `_look` called when the process has ended."""
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or one without it
            look = weakref.WeakMethod(self._look)  # the thread must not keep alive what ends the process
            threading.Thread(
                target=_await_exit, args=(self.pid, self._loop, look), name="acpwire exit", daemon=True
            ).start()
        else:
            self._loop.add_reader(self._pidfd, self._look)

    def _look(self) -> None:
        """Learn of the exit, without collecting it."""
        if self._exited.is_set():
            return
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:  # somebody waits for any child there is; the number may be another's by now
            self._popen.poll()
            self._mark_collected()
            self._exit_code = _STOLEN
        else:
            if found is None:
                return
            self._exit_code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        self._unwatch()
        self._timers.append(self._loop.call_later(self._grace, self._collect))
        self._happened(self._exited)

    def _unwatch(self) -> None:
        if self._pidfd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _happened(self, event: asyncio.Event) -> None:
        """One of exit, end of stdout and end of stderr; what has waited for it follows."""
        event.set()
        if self._exited.is_set() and self._stderr_over.is_set() and self._stdout_over.is_set():
            self._collect()
            self._tell_end()

    # --- ending it ---

    async def _finish(self) -> None:
        begun = self._loop.time()
        if not self._stdout.started:
            self._begin(lambda _: None)  # it may be unable to end before it has written
        async with _until(begun + self._grace * _BY_ITSELF):
            await self._flush()
            self._writer.stop()
            await self._all_over()
        self._writer.stop()
        if not self._collected:
            _log.info("%s (process %d) does not end by itself; it is sent SIGTERM", self._name, self.pid)
            self._signal(signal.SIGTERM)
            async with _until(begun + self._grace * _ON_SIGTERM):
                await self._all_over()
        if not self._collected:
            told = "%s (process %d) did not end within Limits.grace = %s s; it is killed"
            _log.info(told, self._name, self.pid, self._grace)
            self._signal(signal.SIGKILL)
            async with _until(self._loop.time() + _COLLECT):
                await self._exited.wait()
                self._collect()
                await self._stderr_over.wait()

    async def _all_over(self) -> None:
        await self._exited.wait()
        await self._stdout_over.wait()
        await self._stderr_over.wait()

    def _signal(self, number: signal.Signals) -> None:
        """Signal the process group, as long as it surely is ours."""
        if not self._collected:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _collect(self) -> None:
        """Kill what is left of the process group and collect its leader; what is in the pipes is still read."""
        if not self._collected:
            self._signal(signal.SIGKILL)
            try:
                code = self._popen.wait(_COLLECT)
            except subprocess.TimeoutExpired:
                _log.error("process %d does not end on SIGKILL; it is left alone", self.pid)
                code = None
            self._mark_collected()
            if not self._exited.is_set():
                self._exit_code = code
                self._exited.set()
        self._stdout.finish()
        self._stderr.finish()

    def _mark_collected(self) -> None:
        self._collected = True
        _uncollected.discard(self._popen)

    def _release(self) -> None:
        for timer in self._timers:
            timer.cancel()
        super()._release()
        self._stderr.stop()
        self._unwatch()
        self._collect()


@asynccontextmanager
async def _until(when: float) -> AsyncGenerator[None]:
    """Give up what is inside at a time of the loop's clock, and go on."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(when):
            yield


def _await_exit(pid: int, loop: asyncio.AbstractEventLoop, look: weakref.WeakMethod[Callable[[], None]]) -> None:
    """The thread where the loop cannot be told of an exit."""
    with suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    told = look()
    if told is not None:
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(told)
