"""This process's stdin and stdout as a transport: every kind of descriptor, and whatever else prints (S-PR-04, -05)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import socket
import subprocess
import sys
import time
import tty
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from .loops import PROGRAMS, nothing_left

LOOPS: list[list[str]] = [[], ["uvloop"]]
WAYS = [[*loop, *way] for loop in LOOPS for way in ([], ["late"], ["thread"], ["pipe-buf"])]
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way) or "plain")
TIMEOUT = 30
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
PRINTED = ["printed before", "printed after", "written to 1", "printed by a child"]


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    with nothing_left():
        yield


def command(*options: str) -> list[str]:
    return [sys.executable, str(PROGRAMS / "agent.py"), *options]


@contextlib.contextmanager
def agent(
    *options: str, stdin: int | None = subprocess.PIPE, stdout: int | None = subprocess.PIPE, stderr: int = -1
) -> Generator[subprocess.Popen[bytes]]:
    """The program, killed in the end if it has not ended."""
    with subprocess.Popen(command(*options), stdin=stdin, stdout=stdout, stderr=stderr, env=BUFFERED) as process:
        try:
            yield process
        finally:
            process.kill()


def is_blocking(fd: int) -> bool:
    """Whether it is: a loop that makes it something else, as uvloop does, has it back at once, but not before."""
    end = time.monotonic() + TIMEOUT
    while not os.get_blocking(fd) and time.monotonic() < end:
        os.sched_yield()
    return os.get_blocking(fd)


def read_line(fd: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        block = os.read(fd, 65536)
        assert block, line
        line += block
    return line


# --- prints -----------------------------------------------------------------------------------------------------------


@each_way
def test_prints_of_any_kind_are_on_stderr_and_the_protocol_is_clean(way: list[str]) -> None:
    """S-PR-04, TR-02: printed before and after, by a C library or a child, which cannot read the protocol either."""
    with agent(*way) as process:
        out, log = process.communicate(b"one\ntwo\nthree", TIMEOUT)
    assert (process.returncode, out) == (0, b"ok: one\nok: two\nok: three\n")
    assert log.decode().splitlines() == PRINTED  # at once, and in order


def test_prints_go_nowhere_when_stderr_is_closed() -> None:
    script = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command()]
    done = subprocess.run(script, input=b"one\n", stdout=subprocess.PIPE, env=BUFFERED, timeout=TIMEOUT, check=True)
    assert done.stdout == b"ok: one\n"


def test_a_second_stdio_is_refused_and_the_first_goes_on() -> None:
    script = (
        "import asyncio, acpwire.errors\n"
        "from acpwire.transports import stdio\n"
        "first = stdio()\n"
        "try:\n    stdio()\nexcept acpwire.errors.UsageError as error:\n    message = str(error).encode() + b'\\n'\n"
        "async def main():\n    await first.write(message)\n    await first.close()\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], input=b"", capture_output=True, timeout=TIMEOUT, check=True)
    assert (done.stdout, done.stderr) == (
        b"stdin and stdout are taken already: stdio() can be called once in a process\n",
        b"",
    )


# --- kinds of descriptors ---------------------------------------------------------------------------------------------


@each_way
def test_files(way: list[str], tmp_path: Path) -> None:
    """S-PR-05."""
    (tmp_path / "in").write_bytes(b"".join(b"%d\n" % number for number in range(50_000)))
    with (
        (tmp_path / "in").open("rb") as stdin,
        (tmp_path / "out").open("wb") as stdout,
        agent("quiet", *way, stdin=stdin.fileno(), stdout=stdout.fileno()) as process,
    ):
        assert process.wait(TIMEOUT) == 0
    assert (tmp_path / "out").read_bytes() == b"".join(b"ok: %d\n" % number for number in range(50_000))


@each_way
def test_dev_null(way: list[str]) -> None:
    """S-PR-05: as stdin it ends at once, as stdout it takes everything."""
    with agent(*way, stdin=subprocess.DEVNULL) as process:
        assert process.communicate(timeout=TIMEOUT)[0] == b""
    assert process.returncode == 0
    with agent(*way, stdout=subprocess.DEVNULL) as process:
        process.communicate(b"one\n", TIMEOUT)
    assert process.returncode == 0


@each_way
def test_a_pipe_that_nobody_writes_any_more(way: list[str]) -> None:
    """S-PR-05: what is in it is read, then it ends."""
    for data in (b"", b"one\n"):
        reads, writes = os.pipe()
        os.write(writes, data)
        os.close(writes)
        with agent(*way, stdin=reads) as process:
            os.close(reads)
            out, _ = process.communicate(timeout=TIMEOUT)
        assert (process.returncode, out) == (0, b"ok: one\n" if data else b"")


@each_way
def test_a_pipe_that_nobody_reads_any_more(way: list[str]) -> None:
    """S-PR-05: one clear message."""
    reads, writes = os.pipe()
    os.close(reads)
    with agent("quiet", *way, stdout=writes) as process:
        os.close(writes)
        _, log = process.communicate(b"one\n", TIMEOUT)
    assert (process.returncode, log) == (2, b"ConnectionClosed: the other end reads no more\n")


@each_way
def test_a_reader_that_leaves_in_the_middle(way: list[str]) -> None:
    """S-PR-05: while more is unsent than the pipe holds."""
    with agent("quiet", "big", *way) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert process.stdout.read(100_000) == b"b" * 100_000
        process.stdout.close()
        assert process.stderr.read() == b"ConnectionClosed: the other end reads no more\n"
        assert process.wait(TIMEOUT) == 2


@each_way
def test_more_than_a_pipe_holds(way: list[str]) -> None:
    with agent("quiet", "big", *way) as process:
        out, _ = process.communicate(b"one\ntwo\n", TIMEOUT)
    assert out == (b"b" * (4 * 1024 * 1024) + b"\n") * 2
    assert process.returncode == 0


@each_way
def test_sockets(way: list[str]) -> None:
    """S-PR-05: as some parents hand over, one for both directions."""
    ours, theirs = socket.socketpair()
    with ours, agent("big", *way, stdin=theirs.fileno(), stdout=theirs.fileno()) as process:
        theirs.close()
        ours.settimeout(TIMEOUT)
        ours.sendall(b"one\n")
        size = 0
        while size < 4 * 1024 * 1024 + 1:
            size += len(ours.recv(65536))
        ours.shutdown(socket.SHUT_WR)
        assert ours.recv(1) == b""
        assert process.wait(TIMEOUT) == 0


@each_way
def test_a_socket_whose_other_end_dies_unread(way: list[str]) -> None:
    """S-PR-05: a reset is the end of input and no failure."""
    ours, theirs = socket.socketpair()
    ours.settimeout(TIMEOUT)
    with agent("quiet", *way, stdin=theirs.fileno(), stdout=theirs.fileno()) as process:
        theirs.close()
        ours.sendall(b"one\n")
        assert ours.recv(1, socket.MSG_PEEK) == b"o"  # unread when we close: a reset
        ours.close()
        assert process.wait(TIMEOUT) == 0


@each_way
def test_a_terminal(way: list[str]) -> None:
    """S-PR-05: and the end of it, which is an error of the device."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    with agent("quiet", *way, stdin=theirs, stdout=theirs) as process:
        os.write(ours, b"one\n")
        assert read_line(ours) == b"ok: one\n"
        assert is_blocking(theirs)
        os.close(theirs)
        os.close(ours)
        assert process.wait(TIMEOUT) == 0


@each_way
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_what_others_share_stays_blocking(way: list[str], kind: str) -> None:
    """S-PR-05: `2>&1`, and a stdin that somebody else holds too: the flag belongs to all who share the open file."""
    if kind == "pipe":
        stdin, into = os.pipe()
        out, stdout = os.pipe()
    else:
        (stdin, into), (out, stdout) = ([one.detach() for one in socket.socketpair()] for _ in range(2))
    with agent("quiet", "big", *way, stdin=stdin, stdout=stdout, stderr=stdout) as process:
        os.write(into, b"one\n")
        found = os.read(out, 1000)
        assert is_blocking(stdin)
        assert is_blocking(stdout)  # while the rest waits to be written
        while not found.endswith(b"\n"):
            found += os.read(out, 65536)
        assert is_blocking(stdin)
        os.close(into)
        assert process.wait(TIMEOUT) == 0
    for fd in (stdin, out, stdout):
        os.close(fd)
    assert found == b"b" * (4 * 1024 * 1024) + b"\n"


@pytest.mark.parametrize("way", [way for way in WAYS if way != ["uvloop", "late"]], ids="-".join)  # libuv aborts itself
@pytest.mark.parametrize(("closed", "name"), [("0", "stdin (fd 0)"), ("1", "stdout (fd 1)")])
def test_a_closed_descriptor_is_told_by_name(way: list[str], closed: str, name: str) -> None:
    """S-PR-05: when a loop has taken its number meanwhile, too."""
    script = ["sh", "-c", f'exec "$@" {closed}>&-', "sh", *command("quiet", *way)]
    done = subprocess.run(script, stdin=subprocess.PIPE, capture_output=True, timeout=TIMEOUT, check=False)
    message = f"UsageError: {name} is closed, and the protocol needs it: start this program with both open\n"
    assert (done.returncode, done.stderr.decode(), done.stdout) == (2, message, b"")


@pytest.mark.parametrize("way", WAYS, ids="-".join)
@pytest.mark.parametrize(
    ("how", "said"), [("0>it", "stdin (fd 0) is not open for r"), ("1<it", "stdout (fd 1) is not open for w")]
)
def test_a_descriptor_of_the_wrong_kind_is_told_by_name(way: list[str], how: str, said: str, tmp_path: Path) -> None:
    """S-PR-05: a pipe too, the other end of which could be opened from here, but is not meant."""
    for make in (Path.touch, os.mkfifo):
        script = ["sh", "-c", f'exec 9<>it; exec "$@" {how} 9<&-', "sh", *command("quiet", *way)]
        make(tmp_path / "it")
        done = subprocess.run(script, input=b"one\n", cwd=tmp_path, capture_output=True, timeout=TIMEOUT, check=False)
        assert done.stderr.startswith(f"UsageError: {said}".encode())
        assert (done.returncode, done.stdout) == (2, b"")
        (tmp_path / "it").unlink()


@each_way
def test_a_full_device_is_told_by_name(way: list[str]) -> None:
    """S-PR-05."""
    with Path("/dev/full").open("wb") as full, agent("quiet", *way, stdout=full.fileno()) as process:
        _, log = process.communicate(b"one\n", TIMEOUT)
    said = b"ConnectionClosed: writing to stdout (fd 1) failed: [Errno 28] No space left on device\n"
    assert (process.returncode, log) == (2, said)


@each_way
def test_a_terminal_that_hung_up_is_the_other_end_that_is_gone(way: list[str]) -> None:
    """S-PR-05: what writing to it says is an error of the device, as what reading says."""
    ours, theirs = pty.openpty()
    os.close(ours)
    with agent("quiet", *way, stdout=theirs) as process:
        os.close(theirs)
        _, log = process.communicate(b"one\n", TIMEOUT)
    assert (process.returncode, log) == (2, b"ConnectionClosed: the other end reads no more\n")


def test_a_descriptor_that_was_closed_after_the_start() -> None:
    """Nothing but its kind says so: the loop's own."""
    script = (
        "import asyncio, os, sys\n"
        "from acpwire.transports import stdio\n"
        "async def main():\n    stdio()\n"
        "os.close(0)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=TIMEOUT, check=False)
    assert b"UsageError: stdin (fd 0) is closed" in done.stderr


def test_stdout_holds_more_than_a_block_so_that_its_ends_need_not_take_turns() -> None:
    with agent() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        read_line(process.stdout.fileno())
        to_it, from_it = [fcntl.fcntl(pipe.fileno(), fcntl.F_GETPIPE_SZ) for pipe in (process.stdin, process.stdout)]
    assert (to_it, from_it) == (64 * 1024, 256 * 1024), "a user's pipes may hold only so much in all"
