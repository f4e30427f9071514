"""The code blocks of the README, run as they are printed.

Owns: nothing but the names that a block expects to exist around it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

import acpwire
import acpwire.testing
from acpwire import cli, v2
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


class Target:
    """Somewhere to forward lines to."""

    def __init__(self) -> None:
        self.got: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.got.append(line)


(AGENT,) = [block for block in BLOCKS if "run_agent(" in block]
(CLIENT,) = [block for block in BLOCKS if "asyncio.run(" in block]
INSIDE = [block for block in BLOCKS if re.search(r"^(async|await)\b", block, re.MULTILINE)]
"""What stands inside a coroutine function, or is one."""
PLAIN = [block for block in BLOCKS if block not in {AGENT, CLIENT, *INSIDE}]


def test_the_shortest_agent_and_the_shortest_client_run_as_printed(tmp_path: Path) -> None:
    """Each in a process of its own, the agent under the name that the client calls it by."""
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    program = tmp_path / "my-agent"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path / "agent.py"}" "$@"\n', "utf-8")
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CLIENT],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = "you said: Explain this repository"
    assert (done.stdout, done.stderr, done.returncode) == (f"{said}{said}\n", "", 0)


def test_a_tool_that_asks_runs_as_printed_and_does_as_its_comment_says() -> None:
    (tool,) = [block for block in INSIDE if "tool_call(" in block]
    names: dict[str, Any] = {"run_tests": _run_tests}
    exec(compile(tool, "README.md", "exec"), names)  # noqa: S102  # our own text
    members = {"info": v2.Implementation(name="tool", version="1"), "prompt": names["prompt"]}
    agent: Any = type("Tool", (acpwire.Agent,), members)()

    class Agrees(acpwire.Client):
        async def request_permission(
            self, session: acpwire.ClientSession, request: v2.RequestPermissionRequest
        ) -> v2.PermissionOption:
            return request.options[0]

    async def statuses(client: acpwire.Client) -> list[str]:
        async with acpwire.testing.connect(agent, client) as connection:
            session = await connection.new_session(cwd="/")
            updates = [update async for update in await session.prompt("go")]
        return [update.status for update in updates if isinstance(update, v2.ToolCallUpdate)]  # type: ignore[misc]  # each says it

    assert asyncio.run(statuses(Agrees())) == ["pending", "in_progress", "completed"]
    assert asyncio.run(statuses(acpwire.Client())) == ["pending", "failed"]


async def _run_tests() -> str:
    return "all passed"


def test_an_agent_and_a_client_in_one_process_run_as_printed() -> None:
    (block,) = [block for block in INSIDE if "testing.connect(" in block]
    names: dict[str, Any] = {"acpwire": acpwire}
    exec(compile(AGENT.replace("acpwire.run_agent", "str"), "README.md", "exec"), names)  # noqa: S102  # our own text
    exec(compile(f"async def run():\n{indent(block, '    ')}", "README.md", "exec"), names)  # noqa: S102  # our own text
    asyncio.run(names["run"]())


def test_a_recording_proxy_runs_as_printed(tmp_path: Path) -> None:
    (block,) = [block for block in INSIDE if "relay(" in block]

    async def run() -> None:
        (outside, client), (agent, inside) = acpwire.pair(), acpwire.pair()
        names: dict[str, Any] = {"acpwire": acpwire, "client": client, "agent": agent, "recorder": recorder}
        exec(compile(f"async def run():\n{indent(block, '    ')}", "README.md", "exec"), names)  # noqa: S102  # our own text
        proxy = asyncio.create_task(names["run"]())
        await inside.write(LINE + b"\n")
        assert await outside.read() == LINE + b"\n"
        await inside.close()
        await proxy
        await outside.close()

    with acpwire.Recorder(tmp_path / "proxy.acp") as recorder:
        asyncio.run(run())
    (record,) = acpwire.read_capture(tmp_path / "proxy.acp")
    assert (record.sender, record.line) == ("agent", LINE)


@pytest.mark.parametrize("block", PLAIN, ids=[block.splitlines()[0][:40] for block in PLAIN])
def test_a_block_runs_as_printed(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    target = Target()
    names: dict[str, Any] = {"acpwire": acpwire, "v2": v2, "line": LINE, "routes": {"s1": target}}
    changes: list[Any] = []
    names |= {"buffer": acpwire.LineBuffer(), "block": LINE + b"\n", "show": changes.append}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102  # our own text
    if "target" in block:
        assert target.got == [LINE + b"\n"]
    elif "Recorder" in block:
        assert names["messages"] == [v2.decode_from_agent(LINE)]
    elif "Transcript" in block:
        assert capsys.readouterr().out.startswith("Hi idle [b'")
        assert [change.what for change in changes] == ["created"]
    else:
        assert capsys.readouterr().out == "Hi\n"


def test_every_name_of_the_table_exists() -> None:
    for name in re.findall(r"`(v2|acpwire)\.(\w+)", README):
        module = v2 if name[0] == "v2" else acpwire
        is_module = importlib.util.find_spec(f"{module.__name__}.{name[1]}") is not None if module is acpwire else False
        assert hasattr(module, name[1]) or is_module, name


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
    assert {"stderr_tail"} <= set(dir(acpwire.AgentConnection))
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
        serving = asyncio.create_task(acpwire.serve(acpwire.testing.ScriptedAgent(), left))
        async with acpwire.testing.ScriptedPeer(right) as editor:
            request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
            await editor.send(request)
            error = (await editor.receive_json())["error"]
        await serving
        assert (error["code"], error["data"]) == (-32022, {"requested": 1, "supported": [2]})
        left, right = acpwire.pair()
        async with acpwire.testing.ScriptedPeer(left) as agent:
            await agent.send({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": 1, "agentCapabilities": {}}})
            with pytest.raises(acpwire.VersionMismatch):
                async with acpwire.connect(right):
                    raise AssertionError

    asyncio.run(run())
