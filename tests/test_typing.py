"""Types as users see them: pyright and mypy, both strict, read tests/typing/user.py and must say what its marks say.

Both run once, on a copy outside the repository, so that no configuration of ours reaches them. Types are compared after
`normal`: without module prefixes, without the order and repetition of alternatives, with one spelling of literals, and
with literals dropped beside the plain type that includes them (one checker prints `Literal['a'] | str`, one `str`).
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from acpwire import v2

USER = Path(__file__).parent / "typing" / "user.py"
LINES = dict(enumerate(USER.read_text("utf-8").splitlines(), start=1))
ERROR = re.compile(r"  # error: \S")
REVEALS = re.compile(r"  # reveals: (.+)$")
SECONDS = 55


class Findings(NamedTuple):
    """What one checker said, by line."""

    errors: dict[int, list[str]]
    reveals: dict[int, str]

    def add(self, line: int, severity: str, message: str) -> None:
        """Take one of its messages."""
        revealed = re.fullmatch(r'(?:Type of ".*"|Revealed type) is "(.*)"', message, re.DOTALL)
        if severity == "error":
            self.errors.setdefault(line, []).append(message)
        elif revealed:
            self.reveals[line] = revealed[1]


def _run(directory: Path, *command: str) -> str:
    """The output of a checker that found errors, as it must; 0 would be none, 2 a crash."""
    clean = {name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "PYTHONPATH")}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=directory,
        env=clean | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def _pyright(directory: Path) -> Findings:
    settings = {"include": [USER.name], "typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (directory / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    found = Findings({}, {})
    output = _run(directory, "pyright", "--outputjson", "--pythonpath", sys.executable)
    for diagnostic in json.loads(output)["generalDiagnostics"]:
        found.add(diagnostic["range"]["start"]["line"] + 1, diagnostic["severity"], diagnostic["message"])
    return found


def _mypy(directory: Path) -> Findings:
    found = Findings({}, {})
    options = ("--strict", "--python-version", "3.11", "--config-file", "", "--cache-dir", "cache", "--output", "json")
    for line in _run(directory, "mypy", *options, USER.name).splitlines():
        message = json.loads(line)
        found.add(message["line"], message["severity"], message["message"])
    return found


CHECKERS = {"pyright": _pyright, "mypy": _mypy}


@pytest.fixture(scope="module", params=CHECKERS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """What a checker says about a user's file."""
    directory = tmp_path_factory.mktemp(str(request.param))
    shutil.copy(USER, directory)
    return CHECKERS[request.param](directory)


# --- what the checkers say --------------------------------------------------------------------------------------------


def test_checkers_refuse_the_marked_lines_and_no_others(found: Findings) -> None:
    marked = {number for number, text in LINES.items() if ERROR.search(text)}
    assert marked
    missed = {number: LINES[number].strip() for number in sorted(marked - set(found.errors))}
    extra = {number: [LINES[number].strip(), *found.errors[number]] for number in sorted(set(found.errors) - marked)}
    assert (missed, extra) == ({}, {})


def test_checkers_reveal_the_types_that_are_written(found: Findings) -> None:
    written = {number: normal(mark[1]) for number, text in LINES.items() if (mark := REVEALS.search(text))}
    assert written
    assert {number: normal(text) for number, text in found.reveals.items()} == written


def test_every_line_that_reveals_a_type_has_its_mark() -> None:
    for number, text in LINES.items():
        assert ("reveal_type(" in text) == bool(REVEALS.search(text)), f"line {number}: {text.strip()}"


# --- how types are compared -------------------------------------------------------------------------------------------


def normal(text: str) -> str:
    """A type as both checkers would write it."""
    text = re.sub(r"('[^']*')|(?:\b[A-Za-z_]\w*\.)+", lambda found: found[1] or "", text.replace('"', "'"))
    alternatives: set[str] = set()
    for part in _split(text, " | "):
        name, bracket, inside = part.partition("[")
        inner = [normal(argument) for argument in _split(inside[:-1], ", ")] if bracket else []
        if name == "Literal":
            alternatives.update(f"Literal[{value}]" for value in inner)
        else:
            alternatives.add(f"{name}[{', '.join(inner)}]" if bracket else name)
    if "str" in alternatives:
        alternatives = {part for part in alternatives if not part.startswith("Literal['")}
    if "int" in alternatives:
        alternatives = {part for part in alternatives if not re.match(r"Literal\[-?\d", part)}
    return " | ".join(sorted(alternatives))


def _split(text: str, separator: str) -> list[str]:
    """Split outside of brackets."""
    parts, depth = [""], 0
    for piece in re.split(f"({re.escape(separator)}|[\\[\\]])", text):
        depth += (piece == "[") - (piece == "]")
        if piece == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("package.types.TextContent | None", "None | TextContent", True),
        ("typing.Sequence[a.B | a.C]", "Sequence[C | B]", True),
        ("Sequence[B | C]", "Sequence[B] | Sequence[C]", False),
        ("Literal['a', 'b']", "Literal['b'] | Literal['a']", True),
        ('Literal["a"]', "Literal['a']", True),
        ("Literal['a'] | str | None", "str | None", True),
        ("Literal[1, 2] | int", "int", True),
        ("Literal['a'] | int", "int", False),
        ("Literal[msgspec.UnsetType.UNSET]", "Literal[UnsetType.UNSET]", True),
        ("Literal['a.b']", "Literal['b']", False),
        ("int | str | int", "str | int", True),
        ("Method[P, None]", "Method[None, P]", False),
        ("Any", "object", False),
    ],
)
def test_types_are_compared_by_what_they_mean(one: str, other: str, equal: bool) -> None:
    assert (normal(one) == normal(other)) is equal


# --- the same code at run time ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def user() -> Any:
    """The user's file, imported: what checkers accept must also run."""
    specification = importlib.util.spec_from_file_location("acpwire_user", USER)
    assert specification is not None
    assert specification.loader is not None
    module: ModuleType = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("update", "label"),
    [
        (b'{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"hi"}}', "hi"),
        (b'{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"_video"}}', "_video"),
        (b'{"sessionUpdate":"user_message_chunk","messageId":"m","content":{"type":"text","text":"hi"}}', "m"),
        (b'{"sessionUpdate":"tool_call_update","toolCallId":"t"}', "title kept"),
        (b'{"sessionUpdate":"tool_call_update","toolCallId":"t","title":null}', "title cleared"),
        (b'{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"T","content":null}', "t"),
        (b'{"sessionUpdate":"state_update","state":"idle"}', "idle"),
        (
            b'{"sessionUpdate":"state_update","state":"idle","stopReason":"error","error":{"code":1,"message":"no"}}',
            "error: no",
        ),
        (b'{"sessionUpdate":"state_update","state":"_asleep"}', "state_update: 50 bytes"),
        (b'{"sessionUpdate":"usage_update","used":1,"size":2}', "usage_update"),
    ],
)
def test_patterns_bind_at_run_time_what_checkers_say(user: Any, update: bytes, label: str) -> None:
    line = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":' + update + b"}}"
    assert user.dispatch(line) == label
    assert user.label(v2.decode(v2.SessionUpdate, update)) == label


def test_unset_is_matched_and_compared_like_none(user: Any) -> None:
    for title, said, length in ((v2.UNSET, "kept", 8), (None, "cleared", 8), ("T", "T", 1)):
        update = v2.ToolCallUpdate(tool_call_id="t", title=title)
        assert (user.three_states(update), user.three_states_by_pattern(update)) == (said, said)
        assert user.by_truth(update) == length


def test_what_checkers_let_be_built_can_be_sent(user: Any) -> None:
    for value in user.build(["a", "b"]):
        assert json.loads(v2.encode(value))


def test_a_call_surface_stands_on_what_checkers_take_for_a_caller(user: Any) -> None:
    caller = user.Recorder(
        {"session/prompt": b'{"messageId":"m"}', "session/set_config_option": b'{"configOptions":[]}'}
    )
    assert asyncio.run(user.call(caller)) == "m"
    sent = [(name, json.loads(params)) for name, _, params in (call.partition(" ") for call in caller.sent)]
    assert sent == [
        ("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "hello"}]}),
        ("session/cancel", {"sessionId": "s"}),
        ("session/set_config_option", {"type": "id", "value": "v", "sessionId": "s", "configId": "c"}),
    ]
