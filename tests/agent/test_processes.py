"""An agent as a process of its own, in situations that are not as they should be."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from acpwire.transports import ProcessTransport, spawn_process
from tests.agent.script import INITIALIZE, TEXT, Script, dumps, session_of
from tests.transports.loops import LOOPS, PROGRAMS, SECONDS, nothing_left, on_each_loop

AGENT = str(PROGRAMS / "echo_agent.py")
START = dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}) + "\n"
NEW = dumps({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/"}}) + "\n"
SERVING = {
    "an agent": [AGENT],
    "the demo": ["acpwire", "demo-agent"],
    "streaming_agent": ["acpwire.examples.streaming_agent"],
    "resuming_agent": ["acpwire.examples.resuming_agent", "store"],
    "recording_proxy": ["acpwire.examples.recording_proxy", "record.ndjson", sys.executable, AGENT],
}
"""Every program that speaks over its own stdin and stdout."""
WAYS = [*(("asyncio", program) for program in SERVING), ("uvloop", "an agent"), ("uvloop", "recording_proxy")]
each_program = pytest.mark.parametrize(("loop", "program"), WAYS, ids=map("-".join, WAYS))
each_loop = pytest.mark.parametrize("loop", LOOPS)


def command(loop: str, *program: str) -> list[str]:
    """How a program is run on a loop."""
    return [sys.executable, "-W", "error", str(PROGRAMS / "on_loop.py"), loop, *program]


def script(path: Path, *lines: str) -> str:
    """A program that serves an agent, in whose class these lines are, and whose last line begins to serve it."""
    *inside, last = lines
    made = [
        "import sys, acpwire",
        "class Made(acpwire.Agent):",
        "    info = acpwire.v2.Implementation(name='made', version='1')",
    ]
    made += [f"    {line}" for line in ("async def prompt(self, session, prompt): pass", *inside)]
    path.write_text("\n".join([*made, last, ""]), "utf-8")
    return str(path)


@asynccontextmanager
async def running() -> AsyncGenerator[tuple[Script, str, ProcessTransport], None]:
    """An agent's process that is initialized, and a session of it; afterwards it has ended well."""
    transport = await spawn_process(sys.executable, AGENT)
    script = Script(transport)
    try:
        await script.call("initialize", **INITIALIZE)
        yield script, await session_of(script), transport
    finally:
        await transport.close()
    assert transport.exit_code == 0


@on_each_loop
async def test_a_secret_in_an_exception_is_in_the_log_alone() -> None:
    """S-EX-01, S-CA-03, PL-13: the client is told that it failed, and the process goes on."""
    async with running() as (script, session, transport):
        request = await script.prompt(session, "fail")
        idle = await script.idle(session)
        assert idle["error"] == {"code": -32603, "message": "Internal error"}
        assert "messageId" in await script.answered(request)
        await script.prompt(session, "on")
        assert (await script.idle(session))["stopReason"] == "end_turn"
        assert "hunter2" not in dumps(script.seen)
        assert "Traceback" not in dumps(script.seen)
    assert b"hunter2" in transport.stderr_tail
    assert b"Traceback" in transport.stderr_tail


@on_each_loop
async def test_cancels_before_during_and_after_and_for_others() -> None:
    """S-CA-01, CA-05, PL-28, PL-29."""
    async with running() as (script, session, _):
        other = await session_of(script)
        await script.tell("session/cancel", sessionId=session)
        await script.answered(await script.prompt(session, "wait"))
        await script.answered(await script.prompt(other, "wait"))
        await script.until(lambda one: "waiting" in dumps(one) and other in dumps(one))
        held = await script.prompt(session, "held")
        await script.tell("session/cancel", sessionId="nobody")
        for _ in range(2):
            await script.tell("session/cancel", sessionId=session)
        assert (await script.answered(held))["code"] == -32800
        if "idle" not in script.tags(session):
            await script.idle(session)
        await script.tell("session/cancel", sessionId=session)
        await script.expect_nothing()
        assert script.tags(session).count("idle") == 1
        assert "idle" not in script.tags(other)


@on_each_loop
async def test_a_question_that_is_open_when_the_client_cancels_is_over() -> None:
    """S-CA-02, CA-11, ST-19: whether it is answered as cancelled or too late."""
    async with running() as (script, session, _):
        await script.prompt(session, "ask")
        request = await script.asked("session/request_permission")
        await script.tell("session/cancel", sessionId=session)
        await script.answer(request, {"outcome": {"outcome": "cancelled"}})
        await script.idle(session)
        await script.expect_nothing()
        assert script.tags(session).count("idle") == 1
        assert "allowed" not in dumps(script.seen)


@on_each_loop
async def test_an_id_in_use_is_refused_and_the_first_answered_once() -> None:
    """S-CA-04, ER-02."""
    async with running() as (script, session, _):
        await script.answered(await script.prompt(session, "wait"))
        line = {
            "jsonrpc": "2.0",
            "id": "x",
            "method": "session/prompt",
            "params": {"sessionId": session, "prompt": TEXT},
        }
        await script.send(line, line)
        assert (await script.until(lambda one: one.get("id") == "x"))["error"]["code"] == -32600
        await script.tell("session/cancel", sessionId=session)
        assert (await script.until(lambda one: one.get("id") == "x"))["error"]["code"] == -32800
        await script.idle(session)
        await script.expect_nothing()


@on_each_loop
async def test_a_client_that_goes_in_mid_turn_ends_the_process_and_lets_it_clean_up() -> None:
    """S-PR-06."""
    async with running() as (script, session, transport):
        await script.answered(await script.prompt(session, "wait"))
        await script.until(lambda one: "waiting" in dumps(one))
    assert b"cleaned up" in transport.stderr_tail
    assert b"Traceback" not in transport.stderr_tail


@each_program
@pytest.mark.parametrize("kind", ["file", "null"])
def test_a_file_and_nothing_at_all_will_do_as_stdin_and_stdout(
    kind: str, loop: str, program: str, tmp_path: Path
) -> None:
    """S-PR-05, TR-07."""
    requests, answers = tmp_path / "in", tmp_path / "out"
    requests.write_text(START, "utf-8")
    with requests.open("rb") as source, answers.open("wb") as sink:
        done = subprocess.run(
            command(loop, *SERVING[program]),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL if kind == "null" else source,
            stdout=subprocess.DEVNULL if kind == "null" else sink,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
    if kind == "file":
        assert b'"protocolVersion":2' in answers.read_bytes()
    assert (done.returncode, done.stderr) == (0, b"")


FULL = "writing to stdout (fd 1) failed: [Errno 28] No space left on device"


@each_program
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("<&-", "stdin (fd 0) is closed, and the protocol needs it: start this program with both open"),
        (">&-", "stdout (fd 1) is closed, and the protocol needs it: start this program with both open"),
        ("0>made", "stdin (fd 0) is not open for reading, and the protocol needs it: start this program with another"),
        ("1<in", "stdout (fd 1) is not open for writing, and the protocol needs it: start this program with another"),
        (">/dev/full", FULL),
    ],
)
def test_a_stdin_or_stdout_that_does_not_work_is_told_in_one_line(
    how: str, said: str, loop: str, program: str, tmp_path: Path
) -> None:
    """S-PR-05."""
    (tmp_path / "in").write_text(START, "utf-8")
    argv = ["sh", "-c", f'exec "$@" <in {how}', "sh", *command(loop, *SERVING[program])]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    (line,) = done.stderr.splitlines()
    assert said in line
    assert (done.returncode, done.stdout) == (1, "")


def ended(
    argv: list[str], said: str, *, stdin: int = subprocess.PIPE, stdout: int = subprocess.PIPE
) -> tuple[int, str]:
    """The exit code and stderr of a process that has to end while its stdin is open still."""
    with (
        nothing_left(),
        subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            if process.stdin is not None:
                process.stdin.write(said)
                process.stdin.flush()
            code = process.wait(SECONDS)
            assert process.stderr is not None
            return code, process.stderr.read()
        finally:
            process.kill()


ADVICE = "; start this program with a stdin and a stdout that work\n"


@each_loop
def test_where_nothing_can_be_written_the_process_ends_though_more_could_come(loop: str) -> None:
    """S-PR-05."""
    with Path("/dev/full").open("wb") as full:
        assert ended(command(loop, AGENT), START, stdout=full.fileno()) == (1, f"acpwire: {FULL}{ADVICE}")


@each_loop
def test_a_stdout_that_is_full_in_the_middle_is_told_once_and_work_cleans_up(loop: str, tmp_path: Path) -> None:
    """S-PR-05, S-PR-06: whatever the agent was about to say."""
    wordy = script(
        tmp_path / "wordy.py",
        "async def new_session(self, session):",
        "    try:",
        "        while True: await session.notice('word')",
        "    finally: print('cleaned up')",
        "acpwire.run_agent(Made())",
    )
    limited = ["sh", "-c", 'ulimit -f 64; exec "$@"', "sh", *command(loop, wordy)]
    with (tmp_path / "out").open("wb") as out:
        code, log = ended(limited, START + NEW, stdout=out.fileno())
    failure = "acpwire: writing to stdout (fd 1) failed: [Errno 27] File too large"
    assert (code, log) == (1, f"cleaned up\n{failure}{ADVICE}")
    assert b'"word"' in (tmp_path / "out").read_bytes()


@each_loop
def test_a_stdin_of_which_reading_fails_is_told(loop: str) -> None:
    """S-PR-05: a socket that leads nowhere."""
    with socket.socket() as nowhere:
        code, log = ended(command(loop, AGENT), "", stdin=nowhere.fileno())
    assert code == 1
    assert re.fullmatch(r"acpwire: reading stdin \(fd 0\) failed: \[Errno \d+\] .+" + re.escape(ADVICE), log)


@each_loop
@pytest.mark.parametrize("kind", ["pipe", "socket", "terminal"])
def test_a_client_that_went_away_is_no_failure_though_stdin_is_open(kind: str, loop: str) -> None:
    """S-PR-05, S-PR-06: which of its pipes a client lets go of first is chance."""
    if kind == "pipe":
        ours, theirs = os.pipe()
    elif kind == "socket":
        ours, theirs = (one.detach() for one in socket.socketpair())
    else:
        ours, theirs = pty.openpty()
    os.close(ours)
    found = ended(command(loop, AGENT), START, stdout=theirs)
    os.close(theirs)
    assert found == (0, "")


@each_loop
def test_a_limit_that_ended_the_connection_is_told(loop: str, tmp_path: Path) -> None:
    """S-PR-05: the client is there, and gets nothing more."""
    asking = script(
        tmp_path / "asking.py",
        "async def new_session(self, session): await session.request_permission('Sure?')",
        "acpwire.run_agent(Made(), limits=acpwire.Limits(first_answer=0.05))",
    )
    said = "acpwire: no answer came within Limits.first_answer = 0.05 s\n"
    assert ended(command(loop, asking), START + NEW) == (1, said)


def test_where_stderr_was_closed_nothing_is_said_to_what_got_its_number(tmp_path: Path) -> None:
    """S-PR-05."""
    opening = script(
        tmp_path / "opening.py",
        "kept = [open(name, 'w') for name in ('first', 'second')]",
        "acpwire.run_agent(Made()) if Made.kept[1].fileno() == 2 else sys.exit(3)",
    )
    argv = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh", *command("asyncio", opening)]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert (tmp_path / "second").read_bytes() == b""


def test_a_stdin_that_the_program_itself_has_taken_is_a_mistake_with_its_place(tmp_path: Path) -> None:
    """S-PR-05."""
    twice = script(tmp_path / "twice.py", "acpwire.stdio(); acpwire.run_agent(Made())")
    done = subprocess.run(command("asyncio", twice), capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1
    assert "twice.py" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("acpwire.errors.UsageError: stdin and stdout are taken already")


@on_each_loop
async def test_a_client_that_reads_nothing_and_goes_leaves_no_process() -> None:
    """S-PR-05, S-BP-02: a pipe that nobody reads any more."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, AGENT), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(START.encode() * 2000)
    process.stdin.close()
    await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0
