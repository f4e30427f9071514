"""The command `acpwire-codegen`: generate and check, exit codes, and that nothing is lost where anything is wrong.

Owns: `acpwire_codegen.__main__`, in process and, once each way, as a real command. `pin` is tried in test_pin.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import acpwire
from acpwire_codegen import __main__ as command
from acpwire_codegen import load
from acpwire_codegen.__main__ import main

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "corpus"
SCHEMAS = CORPUS / "schemas"
EXAMPLES = CORPUS / "spec-examples"
PACKAGE = Path(next(iter(acpwire.__path__))) / "wire" / "v2"
FILES = ["__init__.py", "methods.py", "roles.py", "types.py", "unions.py"]
SMALL: dict[str, Any] = {"$defs": {"Note": {"type": "object", "properties": {"text": {"type": "string"}}}}}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A schema file that takes no time."""
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL), "utf-8")
    return path


def _content(directory: Path) -> dict[str, bytes]:
    """What a directory holds, less what Python leaves there."""
    files = [path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def _run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **environment}
    )


def _alone(tmp_path: Path, package: Path, script: str, *arguments: str) -> str:
    """Run a script where nothing can be imported but acpwire, msgspec and one generated package."""
    only = tmp_path / "only"
    only.mkdir()
    for source in (Path(next(iter(acpwire.__path__))), Path(next(iter(msgspec.__path__)))):
        (only / source.name).symlink_to(source)
    text = f"import sys\nsys.path[:0] = [{str(only)!r}, {str(package.parent)!r}]\n" + textwrap.dedent(script)
    done = _run(sys.executable, "-I", "-S", "-B", "-W", "error", "-c", text, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- generate ---------------------------------------------------------------------------------------------------------

DECODE_EXAMPLES = """
    import json, pathlib
    import old_acp
    from old_acp import METHODS

    directory = pathlib.Path(sys.argv[1])
    for entry in json.loads((directory / "manifest.json").read_bytes()):
        sent = json.loads((directory / entry["file"]).read_bytes())
        line = json.dumps(sent).encode()
        to_agent = entry["kind"] == "request" or entry["method"] == "session/cancel"
        read = old_acp.decode_from_client if to_agent else old_acp.decode_from_agent
        message = read(line)
        if entry["kind"] == "response":
            method = METHODS[entry["method"], "agent", "request"]
            value, raw = method.decode_result(message.result), sent["result"]
        else:
            value, raw = message.params, sent["params"]
        update = getattr(value, "update", None)
        print(entry["file"], type(message).__name__, type(value).__name__, type(update).__name__)
        assert json.loads(old_acp.encode(value)) == raw, entry["file"]
"""


def test_the_schema_of_the_pages_time_gives_a_package_that_decodes_the_pages_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name is the directory's; only acpwire and msgspec are needed to use it."""
    out = tmp_path / "old_acp"
    assert main(["generate", "--schema", str(SCHEMAS / "1.6.1-v2.unstable.json"), "--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith("old_acp: ")
    assert sorted(_content(out)) == FILES
    assert all(b" as old_acp;" in text.splitlines()[0] for text in _content(out).values())
    entries = json.loads((EXAMPLES / "manifest.json").read_bytes())
    assert len(entries) == 20
    lines = _alone(tmp_path, out, DECODE_EXAMPLES, str(EXAMPLES)).splitlines()
    kinds = {"notification": "Notification", "request": "Request", "response": "Response"}
    for entry, line in zip(entries, lines, strict=True):
        name, kind, value, update = line.split()
        wanted = entry["sessionUpdate"]
        assert (name, kind, value) == (entry["file"], kinds[entry["kind"]], entry["def"])
        assert update == ("NoneType" if wanted is None else "".join(map(str.capitalize, wanted.split("_"))))


@pytest.mark.parametrize("name", ["2.4.0-v1.stable", "2.4.0-v1.unstable"])
def test_schemas_of_version_1_give_packages_that_import(tmp_path: Path, name: str) -> None:
    out = tmp_path / "acp_v1"
    assert main(["generate", "--schema", str(SCHEMAS / f"{name}.json"), "--out", str(out)]) == 0
    script = """
        import acp_v1
        raw = b'{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}}'
        update = acp_v1.decode(acp_v1.SessionNotification, raw).update
        print(len(acp_v1.METHODS), type(update).__name__, update.content.text)
    """
    methods, update, text = _alone(tmp_path, out, script).split()
    assert int(methods) > 10
    assert (update, text) == ("AgentMessageChunk", "a")


def test_troubles_with_another_schema_are_notes_and_the_package_is_written(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["generate", "--schema", str(small), "--out", str(tmp_path / "small")]
    assert main(arguments) == 0
    (counted,) = capsys.readouterr().err.splitlines()
    assert "entries of our tables" in counted
    assert main([*arguments, "--verbose"]) == 0
    notes = capsys.readouterr().err.splitlines()
    assert len(notes) == int(counted.split()[2])
    assert any("docs.toml has no line for definitions.Note" in line for line in notes)
    assert all(line.startswith("acpwire-codegen: note: ") for line in notes)
    assert sorted(_content(tmp_path / "small")) == FILES


def test_the_pinned_schema_can_be_generated_elsewhere_under_another_name(tmp_path: Path) -> None:
    """The committed package differs from it by its name in the headers alone."""
    out = tmp_path / "elsewhere"
    assert main(["generate", "--out", str(out), "--package", "vendored.acp"]) == 0
    committed = {name: text for name, text in _content(PACKAGE).items() if name.endswith(".py")}
    renamed = {
        name: text.replace(b" as vendored.acp;", b" as acpwire.wire.v2;") for name, text in _content(out).items()
    }
    assert renamed == committed


def test_what_an_older_run_left_is_removed_and_what_python_left_stays(small: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    assert main(["generate", "--schema", str(small), "--out", str(out)]) == 0
    shutil.copy(out / "types.py", out / "stale.py")
    cache = out / "__pycache__" / "types.cpython-311.pyc"
    cache.parent.mkdir()
    cache.write_bytes(b"x")
    (out / "types.py").write_bytes((out / "types.py").read_bytes() + b"# changed by hand\n")
    assert main(["generate", "--schema", str(small), "--out", str(out)]) == 0
    assert sorted(_content(out)) == FILES
    assert b"changed by hand" not in (out / "types.py").read_bytes()
    assert cache.exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [("notes.txt", "mine"), ("types.py", "mine = 1\n"), ("other.py", "mine = 1\n"), (".hidden", ""), ("py.typed", "")],
)
def test_files_that_were_not_generated_are_refused_and_kept(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    out = tmp_path / "small"
    assert main(["generate", "--schema", str(small), "--out", str(out)]) == 0
    shutil.copy(out / "types.py", out / "stale.py")
    (out / name).write_text(text, "utf-8")
    before = _content(out)
    capsys.readouterr()
    assert main(["generate", "--schema", str(small), "--out", str(out)]) == 2
    assert name in capsys.readouterr().err
    assert _content(out) == before


def test_a_directory_full_of_something_else_is_not_touched(small: Path, tmp_path: Path) -> None:
    before = _content(ROOT / "schema")
    assert main(["generate", "--schema", str(small), "--out", str(ROOT / "schema")]) == 2
    assert _content(ROOT / "schema") == before


def _one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """What was said after the notes."""
    lines = [line for line in capsys.readouterr().err.splitlines() if ": note: " not in line]
    assert len(lines) == 1
    assert lines[0].startswith("acpwire-codegen: ")
    return lines[0]


@pytest.mark.parametrize("where", ["file", "below-a-file", "file-is-a-directory"])
def test_a_place_that_cannot_be_written_is_refused_in_words(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    out = {"file": small, "below-a-file": small / "package", "file-is-a-directory": tmp_path / "package"}[where]
    (tmp_path / "package" / "types.py").mkdir(parents=True)
    before = _content(tmp_path)
    assert main(["generate", "--schema", str(small), "--out", str(out), "--package", "package"]) in (1, 2)
    assert str(out) in _one_sentence(capsys)
    assert _content(tmp_path) == before


def test_a_schema_that_cannot_be_used_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = tmp_path / "odd.json"
    odd.write_text('{"$defs": {"Odd": {"type": ["string", "integer"]}}}', "utf-8")
    out = tmp_path / "out"
    for schema in (odd, tmp_path / "nowhere.json"):
        assert main(["generate", "--schema", str(schema), "--out", str(out)]) == 1
        assert capsys.readouterr().err.startswith("acpwire-codegen: ")
        assert not out.exists()


def test_an_unknown_idiom_is_told_with_its_place_what_was_found_and_what_was_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / "odd.json"
    odd.write_text('{"$defs": {"Odd": {"type": "object", "properties": {"x": {"x-new": 1}}}}}', "utf-8")
    assert main(["generate", "--schema", str(odd), "--out", str(tmp_path / "out")]) == 1
    place, found, expected = capsys.readouterr().err.splitlines()
    assert "/$defs/Odd/properties/x (definition Odd)" in place
    assert "x-new" in found
    assert "x-deserialize-default-on-error" in expected


# --- wrong use --------------------------------------------------------------------------------------------------------


def test_a_schema_file_needs_a_directory_of_its_own(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _content(PACKAGE)
    assert main(["generate", "--schema", str(small)]) == 2
    assert "--out" in _one_sentence(capsys)
    assert _content(PACKAGE) == before


def test_the_pinned_package_keeps_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    before = _content(PACKAGE)
    assert main(["generate", "--package", "foo"]) == 2
    assert "--out" in _one_sentence(capsys)
    assert _content(PACKAGE) == before


@pytest.mark.parametrize("name", ["old-acp", "1acp", "a b", "class", "import"])
@pytest.mark.parametrize("given", ["directory", "option"])
def test_a_name_that_cannot_be_imported_is_refused(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, given: str
) -> None:
    out = tmp_path / (name if given == "directory" else "fine")
    options = [] if given == "directory" else ["--package", f"fine.{name}"]
    assert main(["generate", "--schema", str(small), "--out", str(out), *options]) == 2
    assert "--package" in _one_sentence(capsys)
    assert not out.exists()


def test_the_directory_gives_the_name_however_it_is_written(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fine"
    out.mkdir()
    monkeypatch.chdir(out)
    assert main(["generate", "--schema", str(small), "--out", "."]) == 0
    assert capsys.readouterr().out.startswith("fine: ")


@pytest.mark.parametrize(
    "arguments", [[], ["frobnicate"], ["generate", "--frob"], ["check", "x"], ["generate", "--out"], ["pin", "a", "b"]]
)
def test_what_the_command_does_not_know_is_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: acpwire-codegen" in capsys.readouterr().err


# --- check ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the committed package, in place of it."""
    copy = Path(shutil.copytree(PACKAGE, tmp_path / "v2", ignore=shutil.ignore_patterns("__pycache__")))
    monkeypatch.setattr(command, "_package_directory", lambda: copy)
    return copy


def test_the_committed_package_is_what_the_pinned_schema_gives(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("acpwire.wire.v2 is what schema 2.4.0 gives\n", "")


def test_check_shows_what_is_stale_and_generate_repairs_it(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that differs, one that is missing, and one that is too many; a unified diff and the way out."""
    roles = package / "roles.py"
    roles.write_text(roles.read_text("utf-8").replace("class AgentCalls", "class AgentKalls", 1), "utf-8")
    (package / "methods.py").unlink()
    shutil.copy(package / "unions.py", package / "extra.py")
    before = _content(package)

    assert main(["check"]) == 1
    out, err = capsys.readouterr()
    assert _content(package) == before
    assert err.endswith("3 files of acpwire.wire.v2 are stale; run: acpwire-codegen generate\n")
    lines = out.splitlines()
    heads = [line.split("/")[1] for line in lines if line.startswith(("--- committed/", "+++ generated/"))]
    assert heads == ["extra.py"] * 2 + ["methods.py"] * 2 + ["roles.py"] * 2
    assert "-class AgentKalls:" in lines
    assert "+class AgentCalls:" in lines

    assert main(["generate"]) == 0
    assert main(["check"]) == 0
    assert _content(package) == {name: text for name, text in _content(PACKAGE).items() if name.endswith(".py")}


def test_a_package_that_is_not_there_is_stale_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_package_directory", lambda: tmp_path / "nowhere")
    assert main(["check"]) == 1
    assert "5 files" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


def test_a_reader_that_has_enough_ends_check_quietly(package: Path) -> None:
    (package / "types.py").write_text("", "utf-8")
    script = f"""
import sys
from pathlib import Path
from acpwire_codegen import __main__ as command
command._package_directory = lambda: Path({str(package)!r})
sys.exit(command.main(["check"]))
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().startswith(b"--- committed/")
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == 1


def test_a_file_that_is_no_text_is_stale_too(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (package / "types.py").write_bytes(b"\xff\xfe")
    assert main(["check"]) == 1
    assert "types.py" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["check"], ["generate"]])
def test_tables_that_do_not_fit_the_pinned_schema_stop_the_command(
    package: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    """One line for each trouble, exit code 1, nothing written."""
    schema = Path(shutil.copytree(ROOT / "schema", tmp_path / "schema"))
    monkeypatch.setattr(load, "schema_directory", lambda: schema)
    overrides = schema / load.OVERRIDES
    text = overrides.read_text("utf-8").replace("[gates]\n", '[gates]\n"no/where agent" = "x"\n')
    overrides.write_text(text.replace('Notice = ["description"]\n', ""), "utf-8")
    before = _content(package)
    assert main(arguments) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert any("gates.no/where agent" in line for line in said)
    assert any("Notice.description" in line for line in said)
    assert _content(package) == before


# --- as a real command ------------------------------------------------------------------------------------------------


def test_generation_does_not_depend_on_the_hash_seed_and_takes_no_more_than_15_seconds(tmp_path: Path) -> None:
    written: list[Mapping[str, bytes]] = []
    for seed in ("0", "4242"):
        out = tmp_path / seed / "acp"
        began = time.monotonic()
        done = _run(
            *(sys.executable, "-m", "acpwire_codegen", "generate", "--out", str(out), "--package", "acpwire.wire.v2"),
            PYTHONHASHSEED=seed,
        )
        assert time.monotonic() - began < 15
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        written.append(_content(out))
    assert written[0] == written[1] == {n: text for n, text in _content(PACKAGE).items() if n.endswith(".py")}


def test_the_installed_command_reports_by_its_exit_code(tmp_path: Path) -> None:
    script = shutil.which("acpwire-codegen", path=sysconfig.get_path("scripts"))
    assert script is not None
    help_ = _run(script, "--help")
    assert help_.returncode == 0
    assert all(name in help_.stdout for name in ("pin", "generate", "check"))
    refused = _run(script, "generate", "--schema", str(tmp_path / "nowhere.json"), "--out", str(tmp_path / "out"))
    assert refused.returncode == 1
    assert refused.stderr.startswith("acpwire-codegen: cannot read ")
    assert _run(script, "generate", "--schema", "x.json").returncode == 2
