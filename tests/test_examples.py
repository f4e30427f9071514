"""The six programs of `acpwire.examples`, each run as a user would: as a process, over pipes, with another process."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import acpwire
from acpwire import examples, testing, v2
from acpwire.capture import Recorder
from acpwire.client import spawn_agent
from acpwire.examples import editor
from tests.transports.loops import PROGRAMS, on_each_loop
from tests.transports.test_process import gone

EXAMPLE = (sys.executable, "-W", "error", "-m")


def example(name: str, *arguments: str | Path) -> list[str]:
    """How an example is run."""
    return [*EXAMPLE, f"acpwire.examples.{name}", *map(str, arguments)]


def run(name: str, *arguments: str | Path, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run an example to its end."""
    return subprocess.run(
        example(name, *arguments), cwd=cwd, input=stdin, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_list_of_examples_is_complete() -> None:
    listed = re.findall(r"^    (\w+) {2,}\S", examples.__doc__ or "", re.MULTILINE)
    there = {path.stem for path in Path(examples.__file__).parent.glob("*.py")} - {"__init__"}
    assert set(listed) == there
    assert len(listed) == 6


@pytest.mark.parametrize("name", ["resuming_agent", "client_script", "editor", "recording_proxy", "analyser"])
def test_without_arguments_an_example_says_how_it_is_run(tmp_path: Path, name: str) -> None:
    done = run(name, cwd=tmp_path)
    assert f"    python -m acpwire.examples.{name} " in done.stderr
    assert (done.stdout, done.returncode) == ("", 1)


class Allowing(acpwire.Client):
    """Allows what it is asked for, or waits with the answer."""

    def __init__(self, *, waits: bool = False) -> None:
        self.waits = waits
        self.asked = asyncio.Event()

    async def request_permission(
        self, session: acpwire.ClientSession, request: v2.RequestPermissionRequest
    ) -> v2.PermissionOption:
        self.asked.set()
        if self.waits:
            await asyncio.Event().wait()
        return request.options[0]


# --- agents -----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_the_streaming_agent_thinks_reads_what_it_may_and_answers(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("one two three")
    async with spawn_agent(*example("streaming_agent"), client=Allowing()) as agent:
        session = await agent.new_session(cwd=tmp_path)
        turn = await session.ask("What is this?")
        assert turn.text == "You asked: What is this?\nI know 3 words about that."
        assert turn.stop_reason == "end_turn"
        transcript = session.transcript
        (call,) = transcript.tool_calls.values()
        assert (call.title, call.status) == ("Read README.md", "completed")
        assert [item.content.text for item in call.content] == ["one two three"]
        assert [message.text for (sort, _), message in transcript.messages.items() if sort == "thought"] == [
            "The user asks about README.md. I should read it."
        ]


@pytest.mark.parametrize("is_there", [True, False], ids=["not allowed", "not there"])
@on_each_loop
async def test_the_streaming_agent_goes_on_without_what_it_may_not_or_cannot_read(
    tmp_path: Path, *, is_there: bool
) -> None:
    if is_there:
        (tmp_path / "README.md").write_text("one two three")
    client = None if is_there else Allowing()
    async with spawn_agent(*example("streaming_agent"), client=client) as agent:
        session = await agent.new_session(cwd=tmp_path)
        assert "I know 1 words" in (await session.ask("Hm?")).text
        assert [call.status for call in session.transcript.tool_calls.values()] == ["failed"]


@on_each_loop
async def test_the_streaming_agent_is_cancelled_while_it_waits_for_permission(tmp_path: Path) -> None:
    client = Allowing(waits=True)
    async with spawn_agent(*example("streaming_agent"), client=client) as agent:
        session = await agent.new_session(cwd=tmp_path)
        prompt = await session.prompt("Hm?")
        await client.asked.wait()
        await session.cancel()
        assert await prompt.wait() == "cancelled"
        assert [call.status for call in session.transcript.tool_calls.values()] == ["cancelled"]


def python(script: str) -> str:
    """A prompt that has a script run."""
    return f"Run {shlex.join([sys.executable, '-c', script])}"


@pytest.mark.parametrize(
    ("asked", "words", "status", "output", "code"),
    [
        (python("print('one two', flush=True); raise SystemExit('three')"), 3, "completed", "one two\nthree\n", 1),
        ("Run no-such-program", 1, "failed", "", None),
        ("Run 'no end", 1, "failed", "", None),
    ],
)
@on_each_loop
async def test_the_streaming_agent_runs_a_process_and_shows_what_it_prints(
    tmp_path: Path, asked: str, words: int, status: str, output: str, code: int | None
) -> None:
    async with spawn_agent(*example("streaming_agent"), client=Allowing()) as agent:
        session = await agent.new_session(cwd=tmp_path)
        assert f"I know {words} words" in (await session.ask(asked)).text
        (call,) = session.transcript.tool_calls.values()
        assert (call.kind, call.status) == ("execute", status)
        terminals = [*session.transcript.terminals.values()]
        assert [terminal.text for terminal in terminals] == ([output] if output else [])
        assert [terminal.exit_status.exit_code for terminal in terminals] == ([code] if output else [])
        assert [item.terminal_id for item in call.content if isinstance(item, v2.Terminal)] == [
            *session.transcript.terminals
        ]


@pytest.mark.parametrize("alone", [True, False], ids=["the terminal", "the turn"])
@on_each_loop
async def test_the_streaming_agent_kills_the_process_that_is_cancelled(tmp_path: Path, *, alone: bool) -> None:
    async with spawn_agent(*example("streaming_agent"), client=Allowing()) as agent:
        session = await agent.new_session(cwd=tmp_path)
        prompt = await session.prompt(python("import os, time; print(os.getpid(), flush=True); time.sleep(60)"))
        pid = 0
        async for update in prompt:
            if isinstance(update, v2.TerminalOutputChunk):
                (terminal,) = session.transcript.terminals.values()
                pid = int(terminal.text)
                await (session.cancel_terminal(next(iter(session.transcript.terminals))) if alone else session.cancel())
        assert prompt.stop_reason == ("end_turn" if alone else "cancelled")
        await gone(pid)
        (call,) = session.transcript.tool_calls.values()
        assert call.status == ("completed" if alone else "cancelled")


@on_each_loop
async def test_the_resuming_agent_knows_its_sessions_in_its_next_life(tmp_path: Path) -> None:
    argv = example("resuming_agent", tmp_path / "store")
    async with spawn_agent(*argv) as agent:
        first = await agent.new_session(cwd=tmp_path)
        other = await agent.new_session(cwd="/")
        assert (await first.ask("one")).text == "'one' was number 1; the first was 'one'"
        await first.close()
        assert (await other.ask("uno")).text == "'uno' was number 1; the first was 'uno'"
    async with spawn_agent(*argv) as agent:
        assert {info.session_id async for info in agent.list_sessions()} == {first.id, other.id}
        infos = [info async for info in agent.list_sessions(cwd=tmp_path)]
        again = await agent.resume_session(infos[0], replay=True)
        assert again.transcript.timeline == first.transcript.timeline
        assert (await again.ask("two")).text == "'two' was number 2; the first was 'one'"
        quiet = await agent.resume_session(other.id, cwd="/")
        assert not quiet.transcript.messages
        assert (await quiet.ask("dos")).text == "'dos' was number 2; the first was 'uno'"
        await agent.delete_session(other.id)
        await agent.delete_session(other.id)
        assert [info.session_id async for info in agent.list_sessions()] == [first.id]
        for unknown in (other.id, "../" + first.id, "*", ""):
            with pytest.raises(acpwire.SessionNotFound):
                await agent.resume_session(unknown, cwd="/")


# --- clients ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "words"), [("1\n", 3), ("2\n", 1), ("x\n", 1), ("", 1)])
def test_the_client_script_prints_the_answer_and_asks(tmp_path: Path, answer: str, words: int) -> None:
    (tmp_path / "README.md").write_text("one two three")
    done = run("client_script", "Why?", *example("streaming_agent"), cwd=tmp_path, stdin=answer)
    assert done.stdout == f"You asked: Why?\nI know {words} words about that.\n"
    told = ["[Read README.md]", f"{tmp_path}: Read README.md?", "  1  Allow", "  2  Reject", "[assistant: end_turn]"]
    assert sorted(filter(None, done.stderr.splitlines())) == sorted(told)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["no-such-program"], "FileNotFoundError"),
        ([sys.executable, "-c", "print('hello')"], "ConnectionClosed: .*hello"),
        (
            [sys.executable, str(PROGRAMS / "crash.py"), "at-once"],
            r"ConnectionClosed: .*\(exit code 3\).*\nout of luck",
        ),
    ],
)
def test_the_client_script_says_what_is_wrong_with_an_agent(tmp_path: Path, argv: list[str], said: str) -> None:
    done = run("client_script", "Why?", *argv, cwd=tmp_path)
    assert re.match(said, done.stderr)
    assert (done.stdout, done.returncode) == ("", 1)


def test_the_client_script_says_what_went_wrong_with_a_prompt_and_what_the_agent_logged(tmp_path: Path) -> None:
    done = run("client_script", "fail", sys.executable, PROGRAMS / "echo_agent.py", cwd=tmp_path)
    first, second, *log = done.stderr.splitlines()
    assert (first, second) == ("[echo: error]", "[-32603: Internal error]")
    assert "Traceback (most recent call last):" in log
    assert log[-1] == "ValueError: hunter2"
    assert done.returncode == 1


def test_the_editor_says_what_went_wrong_in_a_tab(tmp_path: Path) -> None:
    done = run("editor", sys.executable, PROGRAMS / "echo_agent.py", cwd=tmp_path, stdin="fail\nhi\n")
    assert [line.partition(": ")[2] for line in done.stdout.splitlines()[-2:]] == [
        "fail -> [-32603: Internal error]",
        "hi -> you said: hi",
    ]


UNCERTAIN = "[uncertain: the agent was gone before the end; not sent again]"


def test_the_editor_survives_a_crash_and_sends_no_prompt_twice(tmp_path: Path) -> None:
    """PL-26: what was sent to the agent that crashed is uncertain, and the rest is answered by the next one."""
    agent: list[str | Path] = [sys.executable, PROGRAMS / "fragile.py", tmp_path / "store"]
    done = run("editor", *agent, cwd=tmp_path, stdin="one\ntwo\nthree\n")
    assert (done.stderr, done.returncode) == ("", 1)
    *told, one, two, three = done.stdout.splitlines()
    for line, text in ((one, "one"), (two, "two"), (three, "three")):
        answers = rf"'{text}' was number 1; the first was '{text}'|{re.escape(UNCERTAIN)}"
        assert re.fullmatch(rf"sess_\w+: {text} -> ({answers})", line)
    assert any(line.endswith(UNCERTAIN) for line in (one, two, three))
    assert "the agent is gone: python has ended" in " ".join(told).replace(Path(sys.executable).name, "python")
    answered = sum(not line.endswith(UNCERTAIN) for line in (one, two, three))
    assert sum(" is a child of " in line for line in told) == answered
    for kept in (tmp_path / "store").glob("*/updates.ndjson"):
        assert kept.read_text().count('"user_message"') <= 1


def test_the_editor_takes_what_was_said_before_a_crash_for_no_answer(tmp_path: Path) -> None:
    """PL-26."""
    agent: list[str | Path] = [sys.executable, PROGRAMS / "fragile.py", tmp_path / "store", "about to "]
    done = run("editor", *agent, cwd=tmp_path, stdin="one\n")
    assert (done.stderr, done.returncode) == ("", 1)
    assert done.stdout.splitlines()[-1].partition(": ")[2] == f"one -> about to  {UNCERTAIN}"


@pytest.mark.parametrize(
    ("tab", "prompts", "answer"),
    [(editor.Tab("one", "gone"), 1, "Hello"), (editor.Tab("one", "gone", is_sent=True), 0, UNCERTAIN)],
    ids=["not sent", "sent"],
)
@on_each_loop
async def test_the_editor_goes_on_with_an_agent_that_remembers_nothing(
    tab: editor.Tab, prompts: int, answer: str
) -> None:
    """PL-26: a prompt that was never sent is; one that was is not, though there is no trace of it."""
    tab = dataclasses.replace(tab)
    script = testing.ScriptedAgent(["Hello"])
    async with testing.connect(script) as agent:
        await editor.work(agent, tab)
    assert (tab.answer, tab.is_settled, len(script.prompts)) == (answer, True, prompts)
    assert tab.session_id != "gone"


def test_the_editor_gives_up_on_an_agent_that_only_crashes(tmp_path: Path) -> None:
    done = run("editor", sys.executable, PROGRAMS / "crash.py", "at-once", cwd=tmp_path, stdin="one\n")
    assert done.stdout.splitlines()[-1] == "None: one -> no answer"
    assert (done.stderr, done.returncode) == ("", 1)


# --- between, and afterwards ------------------------------------------------------------------------------------------


def test_the_recording_proxy_is_the_agent_to_a_client_and_records_it(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("one two three")
    recording = tmp_path / "session.ndjson.gz"
    proxied = example("recording_proxy", recording, *example("streaming_agent"))
    done = run("client_script", "Why?", *proxied, cwd=tmp_path, stdin="1\n")
    assert done.stdout == "You asked: Why?\nI know 3 words about that.\n"
    records = list(acpwire.read_capture(recording))
    methods = [
        (record.sender, record.message.method)
        for record in records
        if isinstance(record.message, v2.Request | v2.Notification)
    ]
    assert methods[:3] == [("client", "initialize"), ("client", "session/new"), ("client", "session/prompt")]
    assert ("agent", "session/request_permission") in methods
    assert methods[-1] == ("agent", "session/update")
    assert not [record for record in records if isinstance(record.message, v2.Malformed)]


def test_the_recording_proxy_answers_what_was_piped_into_it_and_ends_as_its_agent_does(tmp_path: Path) -> None:
    echo: list[str | Path] = [sys.executable, PROGRAMS / "echo.py", "5"]
    done = run("recording_proxy", tmp_path / "it.ndjson", *echo, cwd=tmp_path, stdin='{"a":1}\n{"b":2}')
    assert (done.stdout, done.stderr, done.returncode) == ('{"a":1}\n{"b":2}', "done\n", 5)
    lines = [record.line for record in acpwire.read_capture(tmp_path / "it.ndjson")]
    assert sorted(lines) == [b'{"a":1}', b'{"a":1}', b'{"b":2}', b'{"b":2}']


@pytest.mark.parametrize("argv", [["it.ndjson", "no-such-program"], ["no/such/directory", "cat"]])
def test_the_recording_proxy_says_in_one_line_what_it_cannot_start_or_write(tmp_path: Path, argv: list[str]) -> None:
    done = run("recording_proxy", *argv, cwd=tmp_path, stdin="{}")
    assert re.fullmatch(r"FileNotFoundError: .*no.such.*\n", done.stderr)
    assert (done.stdout, done.returncode) == ("", 1)


@pytest.mark.parametrize("is_told", [False, True], ids=["end of input", "SIGTERM"])
def test_no_agent_outlives_the_recording_proxy(tmp_path: Path, *, is_told: bool) -> None:
    """Not even one that ignores both."""
    stubborn: list[str | Path] = [sys.executable, PROGRAMS / "stubborn.py", "stays"]
    argv = example("recording_proxy", tmp_path / "it.ndjson", *stubborn)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as proxy:
        assert proxy.stdout is not None
        assert proxy.stdin is not None
        pids = [int(pid) for pid in proxy.stdout.readline().split()]
        assert len(pids) == 2
        if is_told:
            proxy.send_signal(signal.SIGTERM)
        else:
            proxy.stdin.close()
        assert proxy.wait(20) == (130 if is_told else 256 - signal.SIGKILL)
        assert proxy.stderr is not None
        assert proxy.stderr.read() == b""
    asyncio.run(asyncio.wait_for(gone(*pids), 10))


def test_the_analyser_counts_in_constant_memory(tmp_path: Path) -> None:
    chunk = v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text="x" * 200))
    idle = v2.StateUpdate(state="idle", stop_reason="end_turn")
    lines = [
        v2.SESSION_UPDATE.notification(v2.UpdateSessionNotification(session_id="s", update=update))
        for update in (chunk, idle)
    ]
    small, big = tmp_path / "small.ndjson", tmp_path / "big.ndjson.gz"
    with Recorder(small) as recorder:
        recorder.record("agent", lines[0])
        recorder.record("agent", lines[1])
        recorder.record("agent", b"no JSON")
    with Recorder(big) as recorder:
        for number in range(100_000):
            recorder.record("agent", lines[0].replace(b'"m"', b'"%d"' % number))
    done = run("analyser", small, big, cwd=tmp_path)
    assert done.returncode == 0
    assert re.search(r"^ +100,001  agent_message_chunk$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +20,000,200  characters of the agent's messages$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +1  malformed lines$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +1  turns that ended with end_turn$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +\d+  bytes in .*big", done.stdout, re.MULTILINE)
    assert f"{small}:4: " in done.stderr
    measure = (
        "import resource, sys; from acpwire.examples.analyser import Analysis\n"
        "a = Analysis(); a.add(sys.argv[1]); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "a.add(sys.argv[2]); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    grown = subprocess.run(
        [sys.executable, "-c", measure, small, big], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(grown.stdout) < 8 * 1024  # KiB, for 40 MB
