"""The code blocks of the README, run as they are printed, each in a process of its own.

Owns: the names that a block expects to exist around it. They are made of what the README's programs import, and of that
alone, so that no block lives on what a test has imported.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from textwrap import indent

import pytest

import acpwire
from acpwire import cli, testing, v2
from acpwire_codegen.__main__ import main as codegen

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = [line[2:].partition("#")[0].strip() for line in README.splitlines() if line.startswith("$ ")]
LINE = v2.encode(
    v2.Notification(
        method="session/update",
        params=v2.UpdateSessionNotification(
            session_id="s1", update=v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text="Hi"))
        ),
    )
)
(AGENT,) = [block for block in BLOCKS if "run_agent(" in block]
(CLIENT,) = [block for block in BLOCKS if "asyncio.run(" in block]
INSIDE = [block for block in BLOCKS if re.search(r"^(async|await)\b", block, re.MULTILINE)]
"""What stands inside a coroutine function, or is one."""
PLAIN = [block for block in BLOCKS if block not in {AGENT, CLIENT, *INSIDE}]
IMPORTS = "import asyncio\n\nimport acpwire\nfrom acpwire import v2\n\n"
"""What the programs of the README begin with; its other blocks go on from there."""


def run(*parts: str, cwd: Path, path: Path | None = None) -> str:
    """Run a program in a new process, which must end well and complain of nothing; returns what it printed."""
    environment = os.environ if path is None else os.environ | {"PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "".join(parts)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


def coroutine(block: str) -> str:
    """What stands inside a coroutine function, in one that is called `run`."""
    return f"async def run():\n{indent(block, '    ')}\n"


def test_the_shortest_agent_and_the_shortest_client_run_as_printed(tmp_path: Path) -> None:
    """Each in a process of its own, the agent under the name that the client calls it by."""
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    program = tmp_path / "my-agent"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path / "agent.py"}" "$@"\n', "utf-8")
    program.chmod(0o755)
    said = "you said: Explain this repository"
    assert run(CLIENT, cwd=tmp_path, path=tmp_path) == f"{said}{said}\n"


ASKS = """
async def run_tests():
    return "all passed"

class Tool(acpwire.Agent):
    info = v2.Implementation(name="tool", version="1")
    prompt = prompt

class Agrees(acpwire.Client):
    async def request_permission(self, session, request):
        return request.options[0]

async def statuses(client):
    left, right = acpwire.pair()
    serving = asyncio.create_task(acpwire.serve(Tool(), left))
    async with acpwire.connect(right, client) as connection:
        session = await connection.new_session(cwd="/")
        print([update.status async for update in await session.prompt("go") if update.tag == "tool_call_update"])
    await serving

asyncio.run(statuses(Agrees()))
asyncio.run(statuses(acpwire.Client()))
"""


def test_a_tool_that_asks_runs_as_printed_and_does_as_its_comment_says(tmp_path: Path) -> None:
    (tool,) = [block for block in INSIDE if "tool_call(" in block]
    told = run(IMPORTS, tool, ASKS, cwd=tmp_path).splitlines()
    assert told == ["['pending', 'in_progress', 'completed']", "['pending', 'failed']"]


TOGETHER = [block for block in INSIDE if "testing.connect(" in block]


@pytest.mark.parametrize("block", TOGETHER, ids=["an agent", "a scripted agent"])
def test_an_agent_and_a_client_in_one_process_run_as_printed(block: str, tmp_path: Path) -> None:
    """After nothing but the program that the agent comes from."""
    defined = AGENT.replace("acpwire.run_agent(Echo())", "")
    assert defined != AGENT
    run(defined, coroutine(block), "import asyncio\nasyncio.run(run())", cwd=tmp_path)


def test_steps_of_a_scripted_agent_are_messages_and_one_message_comes_in_pieces_as_is_said(tmp_path: Path) -> None:
    (written,) = re.findall(r"`(ScriptedAgent\(\[lambda .*\))`", README)
    (block,) = [block for block in TOGETHER if "ScriptedAgent(" in block]
    given = re.sub(r"ScriptedAgent\(.*\](?=\))", written[:-1], block).partition("    assert")[0]
    asked = '    print((await session.ask("x")).text, len(session.transcript.messages))\n'
    assert run(IMPORTS, coroutine(given + asked), "asyncio.run(run())", cwd=tmp_path) == "ab 2\n"


RELAYS = """
async def main():
    global client, agent
    (outside, client), (agent, inside) = acpwire.pair(), acpwire.pair()
    proxy = asyncio.create_task(run())
    await inside.write(line + b"\\n")
    assert await outside.read() == line + b"\\n"
    await inside.close()
    await proxy
    await outside.close()

with acpwire.Recorder("proxy.acp") as recorder:
    asyncio.run(main())
"""


def test_a_recording_proxy_runs_as_printed(tmp_path: Path) -> None:
    (block,) = [block for block in INSIDE if "relay(" in block]
    run(IMPORTS, f"line = {LINE!r}\n", coroutine(block), RELAYS, cwd=tmp_path)
    (record,) = acpwire.read_capture(tmp_path / "proxy.acp")
    assert (record.sender, record.line) == ("agent", LINE)


ROUTES = """
class Target:
    def write(self, line):
        print(line)

routes = {"s1": Target()}
buffer = acpwire.LineBuffer()
block = line + b"\\n"
"""


@pytest.mark.parametrize("block", PLAIN, ids=[block.splitlines()[0][:40] for block in PLAIN])
def test_a_block_runs_as_printed(block: str, tmp_path: Path) -> None:
    before, after, printed = "", "", "Hi\n"
    if "target" in block:
        before, printed = ROUTES, repr(LINE + b"\n") + "\n"
    elif "Recorder" in block:
        after, printed = "print(messages == [v2.decode_from_agent(line)])", "True\n"
    elif "Transcript" in block:
        before = "def show(change):\n    print(change.what)\n"
        printed = "created\nHi idle [b'"
    found = run(IMPORTS, f"line = {LINE!r}\n", before, block, after, cwd=tmp_path)
    assert found.startswith(printed) if "Transcript" in block else found == printed


def test_every_name_of_the_table_exists() -> None:
    for name in re.findall(r"`(v2|acpwire)\.(\w+)", README):
        assert hasattr(v2 if name[0] == "v2" else acpwire, name[1]), name


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("acpwire")])
def test_a_command_is_one_that_exists(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With its options, as `--help` of the same command lists them."""
    program, verb, *arguments = shlex.split(command.split("|", maxsplit=1)[0])
    with pytest.raises(SystemExit) as done:
        (codegen if program == "acpwire-codegen" else cli.main)([verb, "--help"])
    assert done.value.code == 0
    usage = capsys.readouterr().out
    assert all(option in usage for option in arguments if option.startswith("--"))


def test_the_two_commands_stand_on_the_first_screen() -> None:
    first_screen = "\n".join(README.splitlines()[:24])
    assert "python -m pip install nox && python -m nox -s demo" in first_screen
    assert "python -m pip install nox && python -m nox  " in first_screen


def test_the_sentences_name_what_there_is() -> None:
    assert "on_stderr" in inspect.signature(acpwire.spawn_agent).parameters
    assert {"stderr_tail", "wait_closed"} <= set(dir(acpwire.AgentConnection))
    assert "`limits=acpwire.Limits(first_answer=10)`" in README
    assert acpwire.Limits(first_answer=10).first_answer == 10
    assert acpwire.Limits().first_answer is None
    for kind in (acpwire.UserPrompt, acpwire.Prompt, acpwire.Turn):
        assert re.search(r"^ +usage: ", inspect.getdoc(kind) or "", re.MULTILINE)
    assert {"used", "size"} <= set(inspect.signature(acpwire.AgentSession.usage).parameters)
    families = tomllib.loads((ROOT / "tests" / "requirements.toml").read_text("utf-8"))["ids"]
    named = re.findall(r"`([A-Z]{2})-(\d\d)`", README)
    assert named
    for family, number in named:
        assert any(line.startswith(number) for line in families[family])


def test_what_is_said_of_version_1_is_so() -> None:
    async def run() -> None:
        left, right = acpwire.pair()
        serving = asyncio.create_task(acpwire.serve(testing.ScriptedAgent(), left))
        async with testing.ScriptedPeer(right) as editor:
            request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
            await editor.send(request)
            error = (await editor.receive_json())["error"]
        await serving
        assert (error["code"], error["data"]) == (-32022, {"requested": 1, "supported": [2]})
        left, right = acpwire.pair()
        async with testing.ScriptedPeer(left) as agent:
            await agent.send({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
            with pytest.raises(acpwire.VersionMismatch):
                async with acpwire.connect(right):
                    raise AssertionError

    asyncio.run(run())
