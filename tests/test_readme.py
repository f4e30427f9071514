"""The code blocks of the README, run as they are printed.

Owns: nothing but the names that a block expects to exist around it.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import acpwire
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


@pytest.mark.parametrize("block", BLOCKS, ids=[block.splitlines()[0][:40] for block in BLOCKS])
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
        assert hasattr(module, name[1]) or name[1] in ("v2", "wire"), name


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
