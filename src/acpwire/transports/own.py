"""This process's own stdin and stdout, taken for the protocol so that nothing else reads or writes there.

Owns: fds 0 and 1 and what they become. Does not know: how descriptors are read and written, which is `descriptors`.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from contextlib import suppress
from typing import Final, TextIO

from acpwire.errors import UsageError
from acpwire.limits import Limits

from .channel import Channel
from .descriptors import DescriptorChannel, own_reader, own_writer

__all__ = ["stdio", "unusable"]

_LIMITS: Final = Limits()
_taken: list[bool] = []


def stdio(*, limits: Limits = _LIMITS) -> Channel:
    """Take this process's stdin and stdout for the protocol, once and for good (TR-02, TR-03).

    The protocol gets duplicates. From then on fd 1 and `sys.stdout` are stderr, so that a stray print, a C library or a
    child writes to the log and not into the protocol; what a print has left in the buffer of `sys.stdout` goes there
    too. fd 0 is /dev/null, so that nobody else, no child either, takes bytes of the protocol. (Where stderr itself was
    made to go where stdout goes, as with `2>&1`, there is no other place: what is logged goes between the lines.)

    Pipes, sockets, terminals, files and devices will do; a file or device is read in a thread. May be called before the
    event loop runs, and better is: then a closed descriptor is noticed for sure.

    Raises `UsageError` if it was called before, and if stdin or stdout is closed, or not open for reading or writing.
    An event loop or a file that was opened meanwhile may have got its number, so what Python found when it started
    counts too. What fails later is in `Channel.failure`.
    """
    if _taken:
        raise UsageError("stdin and stdout are taken already: stdio() can be called once in a process")
    wrong = unusable()
    if wrong:
        raise UsageError(wrong)
    _taken.append(True)
    reader, writer = own_reader(0), own_writer(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2 if _is_open(2, sys.__stderr__) else nothing, 1)
    if nothing > 2:
        os.close(nothing)
    if sys.stdout is not None:
        with suppress(OSError, ValueError):  # a stderr that nobody reads; a stdout that was closed
            sys.stdout.flush()
        if sys.stderr is not None:
            sys.stdout = sys.stderr
    return _Stdio(reader, writer, limits.grace)


class _Stdio(DescriptorChannel):
    _reads = "reading stdin (fd 0)"
    _writes = "writing to stdout (fd 1)"


def unusable() -> str:
    """What is wrong with the stdin and stdout that this process was given, before they are taken; "" if nothing is."""
    for fd, name, stream, use, unfit in (
        (0, "stdin", sys.__stdin__, "reading", os.O_WRONLY),
        (1, "stdout", sys.__stdout__, "writing", os.O_RDONLY),
    ):
        if not _is_open(fd, stream):
            return f"{name} (fd {fd}) is closed, and the protocol needs it: start this program with both open"
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == unfit:
            return f"{name} (fd {fd}) is not open for {use}, and the protocol needs it: start this program with another"
    return ""


def _is_open(fd: int, stream: TextIO | None) -> bool:
    """Whether a descriptor is what this process was given, and not closed or what took its number since.

    A loop's epoll or kqueue, created while `fd` was closed, has no type.
    """
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stream is not None and stat.S_IFMT(mode) != 0
