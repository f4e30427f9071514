"""Child processes as transports: how they start, speak, crash and end, and that nothing is left of them."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from acpwire.errors import ConnectionClosed, UsageError
from acpwire.limits import Limits
from acpwire.transports import ProcessTransport, channel_of, spawn_process

from .loops import LOOPS, PROGRAMS, cancelled_at, descriptors, has_children, nothing_left, on_each_loop, until, walk
from .test_channels import MANY, Reader, Stranger, pattern, written_for_ever

SHORT = Limits(grace=0.6)


async def spawn(
    program: str, *args: str, limits: Limits | None = None, on_stderr: Callable[[bytes], None] | None = None
) -> ProcessTransport:
    """One of our programs."""
    path = PROGRAMS / f"{program}.py"
    return await spawn_process(sys.executable, path, *args, limits=limits or Limits(), on_stderr=on_stderr)


def python(script: str) -> tuple[str, str, str]:
    return sys.executable, "-c", script


async def all_of(transport: ProcessTransport) -> bytes:
    found = bytearray()
    while block := await transport.read():
        found += block
    return bytes(found)


async def line_of(transport: ProcessTransport) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        block = await transport.read()
        assert block, transport.closed_error()
        line += block
    return line


def runs(pid: int) -> bool:
    """Whether a process is there, and not dead and waiting to be collected by whoever inherited it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


async def gone(*pids: int) -> None:
    """Wait for processes to be gone: what was killed is dying for a moment."""
    await until(lambda: not any(map(runs, pids)))


# --- starting and speaking --------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_child_answers_and_ends_with_its_stdin() -> None:
    """TR-03."""
    child = await spawn("echo", "7")
    await child.write(b"hello\n")
    assert await line_of(child) == b"hello\n"
    assert child.exit_code is None
    assert runs(child.pid)
    assert os.getpgid(child.pid) == child.pid
    await child.close()
    assert child.exit_code == 7
    assert await child.wait() == 7
    assert child.stderr_tail == b"done\n"
    assert await child.read() == b""


@on_each_loop
async def test_megabytes_pass_both_ways() -> None:
    child = await spawn("echo")
    writing = asyncio.ensure_future(child.write(pattern(MANY)))
    found = bytearray()
    while len(found) < MANY:
        found += await child.read()
    await writing
    assert found == pattern(MANY)
    await child.close()
    assert child.exit_code == 0


@on_each_loop
async def test_environment_and_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED", "1")
    monkeypatch.setenv("REMOVED", "1")
    script = (
        "import os; print(os.environ.get('INHERITED'), os.environ.get('ADDED'), 'REMOVED' in os.environ, os.getcwd())"
    )
    child = await spawn_process(*python(script), env={"ADDED": "2"}, unset=["REMOVED", "UNKNOWN"], cwd=tmp_path)
    assert await all_of(child) == f"1 2 False {tmp_path}\n".encode()
    await child.close()


@on_each_loop
async def test_a_child_has_its_three_descriptors_and_no_other() -> None:
    reads, writes = os.pipe()
    os.set_inheritable(writes, True)
    other = await spawn("echo")
    child = await spawn_process(*python("import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"))
    assert await all_of(child) == b"[0, 1, 2]\n"
    await child.close()
    await other.close()
    os.close(reads)
    os.close(writes)


@on_each_loop
async def test_what_cannot_be_started_says_so(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        await spawn_process("no-such-program")
    with pytest.raises(FileNotFoundError, match=r"one by one, as in \('my-agent', '--acp'\)"):
        await spawn_process("my-agent --acp")
    with pytest.raises(PermissionError, match="plain"):
        await spawn_process(tmp_path / "plain")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        await spawn_process(sys.executable, cwd=tmp_path / "nowhere")
    with pytest.raises(UsageError, match="name of a program"):
        await spawn_process()


# --- stderr -----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_stderr_is_drained_and_its_end_kept() -> None:
    """S-PR-02, TR-04."""
    blocks: list[bytes] = []
    child = await spawn("noisy", limits=Limits(stderr_tail=4096), on_stderr=blocks.append)
    assert await line_of(child) == b"ready\n"
    await child.close()
    assert child.exit_code == 0
    everything = b"".join(blocks)
    assert len(everything) == 10 * 1024 * 1024
    assert child.stderr_tail == everything[-4096:]
    assert child.closed_error().stderr_tail == everything[-4096:]


@on_each_loop
async def test_no_tail_at_all() -> None:
    child = await spawn("crash", "at-once", limits=Limits(stderr_tail=0))
    assert await child.wait() == 3
    await child.close()
    assert child.stderr_tail == b""


@on_each_loop
async def test_a_callback_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: bytes) -> None:
        raise ValueError("secret")

    child = await spawn("echo", on_stderr=fail)
    await child.close()
    assert child.stderr_tail == b"done\n"
    assert [record.getMessage() for record in caplog.records] == ["on_stderr raised ValueError"]


# --- crashing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "code", "last"),
    [
        ("at-once", 3, b""),
        ("mid-line", 3, b'{"jsonrpc":"2.0","me'),
        ("signal", -signal.SIGKILL, b""),
    ],
)
@on_each_loop
async def test_a_crash_is_an_end_with_exit_code_and_stderr(how: str, code: int, last: bytes) -> None:
    """S-PR-01: with callbacks, in read and in write."""
    children = [await spawn("crash", how) for _ in range(3)]
    reader = Reader(children[0])
    assert await reader.end() is None
    assert reader.data == last
    errors = [children[0].closed_error()]
    with pytest.raises(ConnectionClosed, match="out of luck") as caught:
        await written_for_ever(children[1], b"x" * 100_000)
    errors.append(caught.value)
    assert await all_of(children[2]) == last
    errors.append(children[2].closed_error())
    for error in errors:
        assert (error.exit_code, error.stderr_tail) == (code, b"out of luck\n")
        assert "has ended" in str(error)
    for child in children:
        assert await child.wait() == code
        await child.close()


@on_each_loop
async def test_all_of_stderr_is_there_when_the_end_is_told() -> None:
    """S-PR-01: stdout ends first, and much is in stderr when the child exits."""
    for _ in range(10):
        size = 0

        def count(block: bytes) -> None:
            nonlocal size
            size += len(block)

        child = await spawn_process(*python("import os; os.close(1); os.write(2, b'x' * 1_000_000)"), on_stderr=count)
        told: asyncio.Future[tuple[int, int | None]] = asyncio.get_running_loop().create_future()
        child.start(lambda _: None, lambda _: told.set_result((size, child.exit_code)))  # noqa: B023  # told in this turn
        assert await told == (1_000_000, 0)
        await child.close()


@on_each_loop
async def test_a_child_that_closes_its_stdout_and_lives_is_an_end_too() -> None:
    child = await spawn_process(*python("import os, sys; os.close(1); sys.stdin.read()"), limits=SHORT)
    assert await child.read() == b""
    assert child.closed_error().exit_code is None
    assert "closed the connection" in str(child.closed_error())
    await child.close()
    assert child.exit_code is not None


@on_each_loop
async def test_a_child_that_closes_its_stdin_and_lives() -> None:
    child = await spawn_process(
        *python("import os, time; os.close(0); print(flush=True); time.sleep(100)"), limits=SHORT
    )
    await line_of(child)
    with pytest.raises(ConnectionClosed, match="reads no more"):
        child.send(b"x")
    with pytest.raises(ConnectionClosed, match="reads no more"):
        await child.write(b"x")
    await child.close()
    assert child.exit_code == -signal.SIGTERM


@on_each_loop
async def test_what_a_child_has_written_is_read_after_its_exit_however_late() -> None:
    """The grace is for others who hold the pipe: it takes nothing from a reader that is slow."""
    child = await spawn_process(*python("import os; os.write(1, b'x' * 60_000)"), limits=Limits(grace=0.01))
    reader = Reader(child)
    child.pause()
    assert await child.wait() == 0
    await gone(child.pid)
    assert not reader.ends
    await until(lambda: not has_children())
    assert not reader.ends
    child.resume()
    assert await reader.end() is None
    assert len(reader.data) == 60_000
    await child.close()


# --- ending -----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_the_whole_group_is_gone_within_the_grace(caplog: pytest.LogCaptureFixture) -> None:
    """S-PR-03: both ignore the end of their stdin and SIGTERM; the log says which limit that was."""
    caplog.set_level(logging.INFO, "acpwire")
    child = await spawn("stubborn", "stays", limits=SHORT)
    pids = list(map(int, (await line_of(child)).split()))
    begun = time.monotonic()
    await child.close()
    await gone(*pids)
    assert 0.9 * SHORT.grace <= time.monotonic() - begun < SHORT.grace + 1
    assert child.exit_code == -signal.SIGKILL
    sent, killed = [record.getMessage() for record in caplog.records]
    assert sent.endswith("does not end by itself; it is sent SIGTERM")
    assert killed.endswith("did not end within Limits.grace = 0.6 s; it is killed")


TOLD = r"""
import os, signal, subprocess, sys
who = sys.argv[1]
def told(*_):
    os.write(2, who.encode() + b" was told\n")
    os._exit(0)
signal.signal(signal.SIGTERM, told)
if who == "leader":
    child = subprocess.Popen([sys.executable, "-c", os.environ["CODE"], "child"], stdin=subprocess.DEVNULL)
else:
    os.write(1, b"ready\n")
sys.stdin.read()
if who == "leader":
    os.write(2, b"no more input\n")
while True:
    signal.pause()
"""


@on_each_loop
async def test_who_does_not_end_with_its_stdin_is_asked_to_and_so_is_its_whole_group() -> None:
    """S-PR-03: by SIGTERM, that each may clean up; nobody of them is killed, or waits for that."""
    child = await spawn_process(*python(TOLD), "leader", env={"CODE": TOLD}, limits=Limits(grace=4))
    assert await line_of(child) == b"ready\n"
    begun = time.monotonic()
    await child.close()
    assert time.monotonic() - begun < 4
    assert child.exit_code == 0
    first, *told = child.stderr_tail.splitlines()
    assert first == b"no more input"
    assert sorted(told) == [b"child was told", b"leader was told"]


@on_each_loop
async def test_a_group_whose_leader_has_left_is_gone_within_the_grace() -> None:
    """S-PR-03: its child holds the pipes and ignores SIGTERM; closed, or left to itself."""
    for close in (True, False):
        child = await spawn("stubborn", "leaves", limits=SHORT)
        pids = list(map(int, (await line_of(child)).split()))
        assert await child.wait() == 0
        assert runs(pids[1])
        begun = time.monotonic()
        if close:
            await child.close()
        else:
            assert await child.read() == b""
        await gone(*pids)
        assert time.monotonic() - begun < SHORT.grace + 1
        await child.close()


@on_each_loop
async def test_a_group_that_holds_no_pipe_is_gone_with_its_leader() -> None:
    """S-PR-03."""
    child = await spawn("stubborn", "detached")
    pids = list(map(int, (await all_of(child)).split()))
    await gone(*pids)
    assert child.exit_code == 0
    await child.close()


@on_each_loop
async def test_who_escapes_the_group_and_holds_the_pipes_holds_nobody() -> None:
    for close in (True, False):
        child = await spawn("stubborn", "escapes", limits=SHORT)
        pids = list(map(int, (await line_of(child)).split()))
        begun = time.monotonic()
        if not close:
            assert await child.read() == b""
        await child.close()
        assert time.monotonic() - begun < SHORT.grace + 1
        assert child.exit_code == 0
        assert runs(pids[1])
        os.kill(pids[1], signal.SIGKILL)
        await gone(pids[1])


@on_each_loop
async def test_a_child_that_has_much_to_say_in_the_end_can_end() -> None:
    """Closing reads on, whether anybody has read before, or paused."""
    for begin in (False, True):
        child = await spawn("echo", "5", "64")
        if begin:
            Reader(child)
            child.pause()
        await child.close()
        assert child.exit_code == 5


@on_each_loop
async def test_a_child_that_reads_nothing_is_ended() -> None:
    """S-BP-02."""
    child = await spawn_process(*python("import time; print(flush=True); time.sleep(100)"), limits=SHORT)
    await line_of(child)
    child.send(b"x" * MANY)
    await child.close()
    assert child.exit_code == -signal.SIGTERM
    assert child.unsent == 0


@on_each_loop
async def test_no_grace_at_all() -> None:
    child = await spawn("stubborn", "stays", limits=Limits(grace=0))
    await line_of(child)
    await child.close()
    assert child.exit_code == -signal.SIGKILL


@on_each_loop
async def test_closing_twice_at_the_same_time() -> None:
    child = await spawn("echo", "4")
    await asyncio.gather(child.close(), child.close(), child.wait())
    await child.close()
    assert child.exit_code == 4


@on_each_loop
async def test_a_close_that_is_cancelled_goes_on() -> None:
    async def attempt(number: int) -> bool:
        child = await spawn("echo")
        child.send(pattern(MANY))
        cancelled = await cancelled_at(number, child.close())
        await child.close()
        assert child.exit_code == 0
        return cancelled

    await walk(attempt)


@on_each_loop
async def test_a_wait_that_is_cancelled_changes_nothing() -> None:
    """`wait`, and `settled` that errors wait with."""

    async def attempt(number: int) -> bool:
        child = await spawn_process(*python("import sys; sys.exit(len(sys.stdin.readline()))"))
        asyncio.get_running_loop().call_soon(child.send, b"x\n")
        cancelled = await cancelled_at(number, child.wait())
        assert await child.wait() == 2
        await child.close()
        settled = await spawn("crash", "at-once")
        cancelled |= await cancelled_at(number, settled.settled())
        await settled.settled()
        assert settled.closed_error().exit_code == 3
        await settled.close()
        return cancelled

    await walk(attempt)


@on_each_loop
async def test_a_read_that_is_cancelled_loses_nothing_of_a_child() -> None:
    async def attempt(number: int) -> bool:
        child = await spawn("echo")
        child.send(b"hello\n")
        cancelled = await cancelled_at(number, child.read())
        if cancelled:
            assert await child.read() == b"hello\n"
        await child.close()
        return cancelled

    await walk(attempt)


@on_each_loop
async def test_a_write_that_is_cancelled_to_a_child_sends_all_or_nothing() -> None:
    async def attempt(number: int) -> bool:
        child = await spawn("echo")
        reader = Reader(child)
        cancelled = await cancelled_at(number, child.write(pattern(MANY)))
        await child.write(b"last")
        await reader.until(lambda: reader.data.endswith(b"last"))
        assert bytes(reader.data) in {b"last", pattern(MANY) + b"last"}
        await child.close()
        return cancelled

    await walk(attempt)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("closing", [False, True])
@pytest.mark.parametrize("watched", ["by the loop", "by a thread"])
def test_a_loop_that_ends_leaves_no_child(
    loop: str, closing: bool, watched: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not closed, it warns when it is collected, as asyncio's own do; in mid-close it is killed at once."""
    if watched == "by a thread":
        monkeypatch.delattr(os, "pidfd_open")

    async def scenario() -> int:
        child = await spawn("stubborn", "stays")
        await line_of(child)
        if closing:
            task = asyncio.ensure_future(child.close())
            await asyncio.sleep(0)
            del task
        return child.pid

    def run() -> int:
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            pid = runner.run(scenario())
        gc.collect()
        return pid

    with nothing_left():
        if closing:
            pid = run()
        else:
            with pytest.warns(ResourceWarning, match="unclosed <ProcessTransport"):
                pid = run()
        assert not runs(pid)


@on_each_loop
async def test_an_exit_that_somebody_else_collected() -> None:
    child = await spawn("crash", "at-once")
    os.waitpid(child.pid, 0)  # noqa: ASYNC222  # before the loop can see it
    assert await child.wait() == 255
    await child.close()


@on_each_loop
async def test_an_exit_that_somebody_else_collected_while_a_pipe_is_held() -> None:
    """The group's number may be another's by then: nobody is signalled, and nobody is waited for beyond the grace."""
    child = await spawn("stubborn", "leaves", limits=SHORT)
    os.waitpid(child.pid, 0)  # noqa: ASYNC222  # before the loop can see it
    pid = int((await line_of(child)).split()[1])
    assert await child.read() == b""
    assert child.exit_code == 255
    await child.close()
    assert runs(pid)
    os.kill(pid, signal.SIGKILL)
    await gone(pid)


@on_each_loop
async def test_a_strangers_error_is_kept_with_what_it_knows_of_a_process() -> None:
    channel = channel_of(Stranger(await spawn("crash", "at-once")))
    with pytest.raises(ConnectionClosed):
        await written_for_ever(channel, b"x" * 100_000)
    assert channel.closed_error().exit_code == 3
    await channel.close()


@on_each_loop
async def test_where_the_loop_cannot_be_told_of_an_exit_a_thread_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    for program, code in (("crash", 3), ("echo", 0), ("stubborn", -signal.SIGKILL)):
        child = await spawn(
            program, "at-once" if program == "crash" else "stays" if program == "stubborn" else "0", limits=SHORT
        )
        if program == "crash":
            assert await child.wait() == 3
        await child.close()
        assert child.exit_code == code


@on_each_loop
async def test_rounds_of_spawning_and_killing_leave_nothing() -> None:
    """Descriptors, threads and children are counted after every test; here also while it goes on."""
    threads = threading.active_count()
    counts: set[int] = set()
    for number in range(100):  # in each loop
        child = await spawn_process(
            "sh", "-c", "echo ready; cat; exec sleep 100", limits=Limits(grace=0 if number % 2 else 0.001)
        )
        await line_of(child)
        if number % 3 == 0:
            os.kill(child.pid, signal.SIGKILL)
        if number % 5 == 0:
            child.send(b"x" * 500_000)
        await child.close()
        assert child.exit_code in {-signal.SIGKILL, -signal.SIGTERM}
        counts.add(len(descriptors()))
        assert threading.active_count() == threads
    assert len(counts) == 1
