"""The demo: its agent says all that can be said, its client finds all of it, and the command ends as it promises.

The command is run as a process, on a pipe and on a terminal, with rich and without.
"""

from __future__ import annotations

import base64
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import acpwire
from acpwire import cli, demo, testing, v2
from acpwire.demo_agent import DemoAgent
from tests.transports.loops import on_each_loop

COMMAND = (sys.executable, "-W", "error", "-m", "acpwire")
KEYS = ["agent", "updates", "transcript", "burst", "cancel", "problems", "seconds"]
NO_RICH = (
    "import sys; sys.modules['rich'] = None; from acpwire.cli import main; sys.exit(main(['demo', *sys.argv[1:]]))"
)
SECONDS = 20
"""How long the demo may take."""


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=SECONDS
    )


class Watching(acpwire.Client):
    """Notes what it is told, and allows what it is asked for, or not."""

    def __init__(self, *, allows: bool = True) -> None:
        self.allows = allows
        self.seen: list[tuple[str, v2.SessionUpdate]] = []

    def update(self, session: acpwire.ClientSession, update: v2.SessionUpdate) -> None:
        self.seen.append((session.id, update))

    async def request_permission(
        self, session: acpwire.ClientSession, request: v2.RequestPermissionRequest
    ) -> v2.PermissionOption:
        return request.options[0 if self.allows else 1]


def transcript_of(session: acpwire.ClientSession) -> acpwire.Transcript:
    return session.transcript


# --- the agent --------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_the_story_has_every_update_that_an_agent_can_say() -> None:
    client = Watching()
    async with testing.connect(DemoAgent(), client) as agent:
        session = await agent.new_session(cwd="/")
        turn = await session.ask("hi")
    variants: Any = get_args(v2.SessionUpdate)[0]
    every = {kind.tag for kind in get_args(variants) if hasattr(kind, "tag")}
    said = {update.tag for _, update in client.seen}
    assert every - said == {"user_message_chunk"}  # which tells of an insertion in pieces, and the runtime tells whole
    assert said - every == {"_demo_weather"}
    assert (turn.text, turn.stop_reason) == ("Here it is: \n\nThe bridge holds.", "end_turn")
    assert turn.usage == v2.Usage(total_tokens=420, input_tokens=300, output_tokens=120)


@on_each_loop
async def test_the_story_leaves_a_transcript_in_which_all_has_ended() -> None:
    async with testing.connect(DemoAgent(), Watching()) as agent:
        session = await agent.new_session(cwd="/")
        await session.ask("hi")
        transcript = transcript_of(session)
        assert {call.title: call.status for call in transcript.tool_calls.values()} == {
            "Look at the bridge": "completed",
            "Mend the bridge": "completed",
            "Cross the bridge": "completed",
        }
        (terminal,) = transcript.terminals.values()
        assert (terminal.text, terminal.exit_status.exit_code) == (
            "\x1b[1mcrossing\x1b[0m the bridge … it holds\r\n",
            0,
        )
        (plan,) = transcript.plans.values()
        assert [entry.status for entry in plan.content.entries] == ["completed"] * 3
        (compaction,) = transcript.compactions.values()
        assert (compaction.status, [block.text for block in compaction.summary]) == (
            "completed",
            ["Retained: the bridge has ", "two planks."],
        )
        ((child_id, child),) = session.children.items()
        assert transcript.subagents[child_id].state.state == "idle"
        assert transcript_of(child).text == "Not without a boat."
        assert [(one.sender_session_id, one.text) for one in transcript.session_messages.values()] == [
            (session.id, "Is there another way?"),
            (child_id, "Not without a boat."),
        ]


@on_each_loop
async def test_without_permission_nothing_is_mended() -> None:
    async with testing.connect(DemoAgent(), Watching(allows=False)) as agent:
        session = await agent.new_session(cwd="/")
        assert (await session.ask("hi")).text.endswith("The bridge is as it was.")
        statuses = {call.title: call.status for call in transcript_of(session).tool_calls.values()}
        assert statuses["Mend the bridge"] == "failed"


@on_each_loop
async def test_options_change_how_the_story_is_told() -> None:
    async with testing.connect(DemoAgent(), Watching()) as agent:
        session = await agent.new_session(cwd="/")
        await session.set_config_option("voice", "loud")
        await session.set_config_option("thoughts", value=False)
        assert (await session.ask("hi")).text.endswith("THE BRIDGE HOLDS.")
        assert not [sort for sort, _ in transcript_of(session).messages if sort == "thought"]
        with pytest.raises(acpwire.RequestError):
            await session.set_config_option("voice", "quiet")


@pytest.mark.parametrize(("text", "number"), [("/burst 3", 3), ("/burst", 1000), ("/burst many", 1000)])
@on_each_loop
async def test_a_burst_has_as_many_chunks_as_were_wanted(text: str, number: int) -> None:
    async with testing.connect(DemoAgent()) as agent:
        session = await agent.new_session(cwd="/")
        words = (await session.ask(text)).text.split()
        assert words == [f"word{index}" for index in range(number)]


@on_each_loop
async def test_the_command_serves_that_agent() -> None:
    async with acpwire.spawn_agent(*COMMAND, "demo-agent") as agent:
        assert agent.info.name == "acpwire-demo"
        session = await agent.new_session(cwd="/")
        prompt = await session.prompt("/forever")
        async for update in prompt:
            if isinstance(update, v2.AgentMessageChunk):
                await session.cancel()
                break
        assert await prompt.wait() == "cancelled"


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_whole_demo_tells_its_story_in_time_and_without_colour() -> None:
    done = run("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    for said in (
        "permission   Mend the bridge? -> Allow",
        "terminal     $ cross bridge",
        "terminal     | crossing the bridge … it holds\n  terminal     exit code 0",
        "unknown      _demo_weather",
        "burst: 200,000 chunks, ",
        "stop reason cancelled",
        "what the transcript holds",
    ):
        assert said in done.stdout
    assert re.search(r"^  updates a second +[\d,]+$", done.stdout, re.MULTILINE)
    assert re.search(r"^  terminal_output +crossing the bridge … it holds$", done.stdout, re.MULTILINE)


def output(data: bytes, terminal: str = "t") -> v2.TerminalOutputChunk:
    """Some bytes of a terminal's."""
    return v2.TerminalOutputChunk(terminal_id=terminal, data=base64.b64encode(data).decode())


def test_what_a_terminal_prints_is_shown_by_lines_wherever_its_chunks_end() -> None:
    """TM-06, TM-07: and as text that harms no output."""
    printed = demo._Printed()  # pyright: ignore[reportPrivateUsage]  # nothing else shows more than one line
    exited = v2.TerminalUpdate(terminal_id="t", exit_status=v2.TerminalExitStatus(exit_code=0))
    told: list[v2.SessionUpdate] = [
        output(b"\x1b[1"),
        output(b"mone\x1b[0m \xe2"),
        output(b"of another", "u"),
        output(b"\x80\xa6\r\n\x1b]0;title\x07two\x07\n\n"),
        output(b"thr"),
        output(b"ee \xff"),
        exited,
        exited,
        output(b"x" * 1000 + b"\n"),
    ]
    shown = [[*printed.lines(update)] for update in told]
    assert shown == [[], [], [], ["one …", "two"], [], [], ["three \ufffd"], [], [f"{'x' * (demo.SHOWN - 4)} ..."]]


def test_json_is_one_object_with_the_promised_keys() -> None:
    done = run("demo", "--json", "--chunks", "1234")
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    assert list(summary) == KEYS
    assert summary["problems"] == []
    assert summary["burst"]["chunks"] == 1234
    assert summary["burst"]["rate"] > 0
    assert summary["cancel"]["stop_reason"] == "cancelled"
    assert summary["cancel"]["updates"] >= demo.BEFORE_CANCEL
    assert summary["transcript"]["tool_calls"] == {"completed": 3}
    assert summary["transcript"]["terminals"] == 1
    assert summary["transcript"]["terminal_output"] == ["crossing the bridge … it holds"]
    assert summary["transcript"]["unknown"] == {"_demo_weather": 1}
    assert summary["updates"]["agent_message_chunk"] > 1234
    assert 0 < summary["seconds"] < SECONDS


def test_what_the_standard_output_has_no_characters_for_is_replaced() -> None:
    done = subprocess.run(
        [*COMMAND, "demo", "--chunks", "1"],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"terminal     | crossing the bridge ? it holds\n" in done.stdout


def test_it_runs_as_a_module_too() -> None:
    argv = [sys.executable, "-W", "error", "-m", "acpwire.demo", "--json", "--chunks", "1"]
    done = subprocess.run(argv, capture_output=True, check=True, timeout=SECONDS)
    assert json.loads(done.stdout)["burst"]["chunks"] == 1


def on_a_terminal(*argv: str) -> str:
    """What a program writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        found = b""
        try:
            while block := os.read(ours, 65536):
                found += block
        except OSError:  # how a terminal says that nobody writes to it any more
            pass
        finally:
            os.close(ours)
        assert process.wait(SECONDS) == 0
    return found.decode()


def test_a_terminal_gets_a_live_rate_and_tables() -> None:
    found = on_a_terminal(*COMMAND, "demo")
    assert re.search(r"\r\x1b\[K  [\d,]+ of 200,000 chunks, [\d,]+ a second", found)
    assert "│ agent_message_chunk" in found
    assert re.search(r"│ terminal_output +│ +crossing the bridge … it holds │", found)


def test_without_rich_a_terminal_gets_the_same_without_tables() -> None:
    found = on_a_terminal(sys.executable, "-W", "error", "-c", NO_RICH, "--chunks", "300000")
    assert re.search(r"\r\x1b\[K  [\d,]+ of 300,000 chunks, [\d,]+ a second", found)
    assert set(re.findall(r"\x1b\[\w+", found)) == {"\x1b[K"}
    assert "\r\n  agent_message_chunk  " in found


def test_the_help_explains_every_key_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["demo", "--help"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    for key in KEYS:
        assert re.search(rf"^  {key}\b", out[out.index("keys of --json") :], re.MULTILINE), key
    assert "exit codes: 0; 1 " in out


@pytest.mark.parametrize("arguments", [("--chunks", "0"), ("--chunks", "x"), ("--chunks", "-1"), ("more",)])
def test_wrong_arguments_are_refused(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["demo", *arguments])
    assert end.value.code == 2
    assert "acpwire demo: error: " in capsys.readouterr().err


def test_an_agent_that_crashes_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    assert demo.main(["--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("acpwire demo: false has ended (exit code 1)")


def test_what_is_not_as_it_should_be_is_said_and_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "agent"
    program.write_text(
        f"#!{sys.executable}\n"
        "from acpwire import demo_agent\n"
        "class Poor(demo_agent.DemoAgent):\n"
        "    async def prompt(self, session, prompt):\n"
        "        if prompt.text == '/forever':\n"
        "            return await demo_agent.forever(session)\n"
        "        await session.agent_message().write('no story')\n"
        "        return 'refusal'\n"
        "demo_agent.acpwire.run_agent(Poor())\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert demo.main(["--chunks", "7"]) == 1
    out = capsys.readouterr().out
    for problem in (
        "the story ended with refusal",
        "the story told no plans",
        "the story told no terminal_output",
        "1 chunks came, not 7",
    ):
        assert f"not as it should be: {problem}" in out


def test_ctrl_c_ends_it_and_its_agent() -> None:
    with subprocess.Popen(
        [*COMMAND, "demo", "--chunks", "1000000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("agent acpwire-demo")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, err) == (130, "")


def test_a_reader_that_has_enough_is_no_failure() -> None:
    with subprocess.Popen(
        [*COMMAND, "demo", "--chunks", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(SECONDS) == 0


def test_it_runs_where_standard_output_is_closed() -> None:
    argv = " ".join([*COMMAND, "demo", "--chunks", "1", ">&-"])
    done = subprocess.run(["/bin/sh", "-c", argv], capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
