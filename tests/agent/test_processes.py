"""An agent as a process of its own, in situations that are not as they should be."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from acpwire.transports import ProcessTransport, spawn_process
from tests.agent.script import INITIALIZE, TEXT, Script, dumps, session_of
from tests.transports.loops import PROGRAMS, on_each_loop

AGENT = str(PROGRAMS / "echo_agent.py")
START = dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}) + "\n"


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


@pytest.mark.parametrize("kind", ["file", "null", "closed"])
def test_whatever_stdin_and_stdout_are_the_process_works_or_says_what_is_wrong(kind: str, tmp_path: Path) -> None:
    """S-PR-05, TR-07."""
    requests, answers = tmp_path / "in", tmp_path / "out"
    requests.write_text(START, "utf-8")
    command: list[str] = [sys.executable, AGENT]
    if kind == "closed":
        command = ["sh", "-c", 'exec "$@" <&- >&-', "sh", *command]
    with requests.open("rb") as source, answers.open("wb") as sink:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL if kind == "null" else source,
            stdout=subprocess.DEVNULL if kind == "null" else sink,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    if kind == "file":
        assert b'"protocolVersion":2' in answers.read_bytes()
    if kind == "closed":
        assert done.returncode != 0
        assert b"stdin" in done.stderr
    else:
        assert (done.returncode, done.stderr) == (0, b"")


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
