"""Copies in other packages: what is in them, what `--check` says, and that they live without acpwire.

Owns: `acpwire_codegen.vendor`, `acpwire_codegen.prune` and the command for both. The last part builds the wheel,
installs it in a fresh environment, copies from there, and runs and checks the copies in another with msgspec alone.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import acpwire
from acpwire import v2
from acpwire_codegen import load, render, vendor
from acpwire_codegen.__main__ import main
from acpwire_codegen.decide import build
from acpwire_codegen.dialect import refs
from acpwire_codegen.model import Model
from acpwire_codegen.prune import UnknownRootError, prune

from .support import EMPTY, source_of

ROOT = Path(__file__).parents[2]
WIRE = Path(next(iter(acpwire.__path__))) / "wire"
SCHEMAS = ROOT / "tests" / "corpus" / "schemas"
DOWNSTREAM = ROOT / "tests" / "downstream"
VERSION = version("acpwire")
SECONDS = 120


# --- pruning ----------------------------------------------------------------------------------------------------------


@cache
def _model() -> Model:
    """The pinned schema's."""
    return build(load.read_pinned(ROOT / "schema"), load.read_tables(ROOT / "schema"))


def _names(model: Model) -> set[str]:
    return {struct.name for struct in model.structs} | {alias.name for alias in model.aliases}


def _roots() -> list[str]:
    """Everything that can be asked for."""
    model = _model()
    updates = next(union for union in model.unions if union.name == "SessionUpdate").variants
    methods = [name for method in model.methods for name in (method.name, method.constant)]
    return [*(name for name in sorted(_names(model)) if name[0] != "_"), *dict.fromkeys(methods), *updates]


def _mentioned(model: Model) -> dict[str, set[str]]:
    """Class or alias -> those that it cannot be printed without."""
    found: dict[str, set[str]] = {}
    for struct in model.structs:
        found[struct.name] = {name for member in struct.members for name in refs(member.hint)} | {struct.base} - {""}
    for alias in model.aliases:
        found[alias.name] = {name for hint in (alias.hint, *model.choices.get(alias.name, ())) for name in refs(hint)}
        found[alias.name] |= set(re.findall(r"\b[A-Z]\w+", re.sub(r"'[^']*'", "", alias.typing)))
    for union in model.unions:
        found[union.name] |= {*union.variants.values(), *union.rest, union.fallback} - {""}
    known = {"Annotated", "Any", "Literal", "Mapping", "Sequence", "UnknownVariant"}
    return {name: {one.removeprefix("#/$defs/") for one in names} - known for name, names in found.items()}


def test_what_is_left_is_closed_and_nothing_is_in_it_that_nothing_asks_for() -> None:
    """For each name by itself: what is kept mentions only what is kept, and all of it can be reached."""
    roots = _roots()
    assert len(roots) > 300
    for root in roots:
        pruned = prune(_model(), [root])
        mentioned = _mentioned(pruned)
        assert mentioned
        assert {name for names in mentioned.values() for name in names} <= mentioned.keys(), root
        called = {name for method in pruned.methods for name in (method.params, method.result)}
        reached = {
            *called,
            root,
            *(union.name for union in pruned.unions if root in (*union.variants, *union.variants.values())),
        }
        before = -1
        while before != len(reached):
            before = len(reached)
            reached |= {name for one in reached for name in mentioned.get(one, ())}
        assert mentioned.keys() <= reached, root
        tables = (pruned.choices, pruned.states, pruned.values, pruned.meta_rules, pruned.names.values())
        assert {name for table in tables for name in table} <= mentioned.keys(), root
        assert {rule.owner for rule in pruned.rules} <= mentioned.keys(), root


def test_what_is_left_is_as_it_was() -> None:
    """Classes with their members, docs and flags, methods, and every table about them."""
    whole, pruned = _model(), prune(_model(), ["PromptRequest", "session/update", "SetSessionConfigOptionRequest"])
    kept = _names(pruned)
    assert 100 < len(kept) < len(_names(whole)) - 100
    for now, then in (
        (pruned.structs, [struct for struct in whole.structs if struct.name in kept]),
        (pruned.aliases, [alias for alias in whole.aliases if alias.name in kept]),
        (pruned.unions, [union for union in whole.unions if union.name in kept]),
        (pruned.rules, [rule for rule in whole.rules if rule.owner in kept]),
        (pruned.states, {name: tag for name, tag in whole.states.items() if name in kept}),
        (pruned.choices, {name: hints for name, hints in whole.choices.items() if name in kept}),
        (pruned.values, {name: values for name, values in whole.values.items() if name in kept}),
        (pruned.meta_rules, {name: rule for name, rule in whole.meta_rules.items() if name in kept}),
        (pruned.codes, whole.codes),
    ):
        assert now
        assert now == then
    subjects = {re.split(r"[.=]", name)[0] for name in pruned.unstable}
    assert {"PlanFile", "NewSessionRequest"} & subjects == {"PlanFile"}
    assert subjects <= kept


def test_everything_is_left_of_everything() -> None:
    pruned = prune(_model(), [name for name in _roots() if name in _names(_model())])
    assert (_names(pruned), pruned.methods) == (_names(_model()), _model().methods)


@pytest.mark.parametrize("names", [("session/prompt", "SESSION_PROMPT"), ("notice", "Notice"), ("mcp/message",) * 2])
def test_a_method_and_an_update_go_by_two_names(names: tuple[str, str]) -> None:
    one, other = (prune(_model(), [name]) for name in names)
    assert one == other
    assert {method.name for method in one.methods} == ({"session/update"} if "Notice" in names else {names[0]})


def test_a_name_of_several_methods_means_them_all() -> None:
    pruned = prune(_model(), ["mcp/message"])
    assert [(method.side, method.kind) for method in pruned.methods] == [
        ("agent", "notification"),
        ("client", "request"),
    ]


def test_a_method_comes_along_once_its_params_and_its_result_are_there() -> None:
    assert prune(_model(), ["PromptRequest"]).methods == []
    assert [method.name for method in prune(_model(), ["PromptRequest", "PromptResponse"]).methods] == [
        "session/prompt"
    ]
    assert [method.name for method in prune(_model(), ["CancelSessionNotification"]).methods] == ["session/cancel"]


def test_updates_bring_what_carries_them_and_the_rest_of_their_union_is_unknown() -> None:
    pruned = prune(_model(), ["agent_message_chunk", "ToolCallUpdate"])
    (union,) = (union for union in pruned.unions if union.name == "SessionUpdate")
    (alias,) = (alias for alias in pruned.aliases if alias.name == "SessionUpdate")
    assert dict(union.variants) == {"agent_message_chunk": "AgentMessageChunk", "tool_call_update": "ToolCallUpdate"}
    assert alias.typing == "AgentMessageChunk | ToolCallUpdate | UnknownVariant"
    assert [line for line in alias.doc if "Notice" in line] == []
    assert "21 of its variants" in alias.doc[-1]
    assert [method.name for method in pruned.methods] == ["session/update"]


@pytest.mark.parametrize("other", ["SessionUpdate", "session/update", "UpdateSessionNotification"])
def test_updates_do_not_narrow_what_is_asked_for_as_a_whole(other: str) -> None:
    assert prune(_model(), ["notice", other]) == prune(_model(), ["SessionUpdate"])


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("SesionUpdate", "SessionUpdate"),
        ("toolcallupdate", "ToolCallUpdate"),
        ("agent_mesage_chunk", "agent_message_chunk"),
        ("session/promt", "session/prompt"),
        ("SESION_PROMPT", "SESSION_PROMPT"),
        ("_SessionConfigOptionOther", "SessionConfigOption"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownRootError, match=f"no type, update or method '{name}'.*{nearest}"):
        prune(_model(), ["Notice", name])


def test_a_name_that_is_near_nothing_is_refused_too() -> None:
    with pytest.raises(UnknownRootError, match="names are those of the generated package"):
        prune(_model(), ["zzzzzzzzzzzz"])


# --- the command, on a schema that takes no time ----------------------------------------------------------------------

TEXT: dict[str, Any] = {"type": "string"}


def _branch(value: str, target: str) -> dict[str, Any]:
    tag = {"kind": {"type": "string", "const": value}}
    return {"type": "object", "properties": tag, "required": ["kind"], "allOf": [{"$ref": f"#/$defs/{target}"}]}


SMALL: dict[str, Any] = {
    "$defs": {
        "Said": {"type": "object", "properties": {"text": TEXT}, "required": ["text"]},
        "Done": {"type": "object", "properties": {"seconds": {"type": "number"}}},
        "Update": {
            "anyOf": [
                _branch("said", "Said"),
                _branch("done", "Done"),
                {"title": "other", "type": "object", "properties": {"kind": TEXT}, "required": ["kind"]},
            ]
        },
        "GoNotification": {
            "type": "object",
            "properties": {"update": {"$ref": "#/$defs/Update"}},
            "required": ["update"],
            "x-method": "go",
            "x-side": "client",
        },
    }
}


def test_a_closed_union_is_not_narrowed_for_then_what_it_lacks_would_be_an_error() -> None:
    """Its variants are types like any other, without the notification and without their tags as names."""
    closed = json.loads(json.dumps(SMALL))
    del closed["$defs"]["Update"]["anyOf"][2]
    model = build(source_of(closed), EMPTY)
    assert [union.open for union in model.unions] == [False]
    pruned = prune(model, ["Said"])
    assert (_names(pruned), pruned.unions, pruned.methods) == ({"Said"}, [], [])
    with pytest.raises(UnknownRootError):
        prune(model, ["said"])


class Project(NamedTuple):
    """Somebody's project, with a copy or a place for one."""

    directory: Path

    @property
    def dest(self) -> Path:
        return self.directory / "src" / "host" / "_acp"

    def vendor(self, *arguments: str) -> int:
        """Run the command for this project's copy."""
        return main(["vendor", str(self.dest), *arguments])


NEW = ("--package", "host._acp")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with a small schema and no copy."""
    directory = tmp_path / "project"
    (directory / "src" / "host").mkdir(parents=True)
    (directory / "pyproject.toml").touch()
    (directory / "acp.json").write_text(json.dumps(SMALL), "utf-8")
    return Project(directory)


@pytest.fixture
def copied(project: Project, capsys: pytest.CaptureFixture[str]) -> Project:
    """The same with a copy."""
    assert project.vendor(*NEW, "--schema", str(project.directory / "acp.json")) == 0
    capsys.readouterr()
    return project


def _content(directory: Path) -> dict[str, bytes | None]:
    """What a directory holds, less what Python leaves there; None for directories."""
    paths = [path for path in directory.rglob("*") if "__pycache__" not in path.parts]
    return {str(path.relative_to(directory)): None if path.is_dir() else path.read_bytes() for path in paths}


def _record(project: Project) -> dict[str, Any]:
    return tomllib.loads((project.dest / "VENDORED.toml").read_text("utf-8"))


def test_a_copy_is_the_wire_with_its_generated_package_and_its_record(copied: Project) -> None:
    hand_written = {path.name for path in WIRE.glob("*.py")}
    generated = {f"v2/{name}.py" for name in ("__init__", "methods", "roles", "types", "unions")}
    files = {name for name, data in _content(copied.dest).items() if data is not None}
    assert files == hand_written | generated | {"LICENSE", "VENDORED.toml"}
    assert (copied.dest / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    for name in hand_written:
        head, middle, rest = (copied.dest / name).read_text("utf-8").split("\n", 2)
        assert (head, middle) == (
            f"# Copied from acpwire {VERSION} as host._acp.",
            "# Do not edit; run `acpwire-codegen vendor`.",
        )
        assert rest == (WIRE / name).read_text("utf-8")
    for name in generated:
        lines = (copied.dest / name).read_text("utf-8").splitlines()
        assert " as host._acp.v2; " in lines[0]
        assert lines[3] == "# Do not edit; run `acpwire-codegen vendor`."


def test_no_copied_module_imports_acpwire(copied: Project) -> None:
    seen = 0
    for path in copied.dest.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom | ast.Import):
                names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
                assert not [name for name in names if name.partition(".")[0] == "acpwire"], path
                seen += any(name.startswith("host._acp") for name in names)
    assert seen > 5


def test_the_record_says_what_was_copied_from_what_and_how_to_do_it_again(copied: Project) -> None:
    record = _record(copied)
    small = load.read_schema(copied.directory / "acp.json")
    assert (record["package"], record["types"]) == ("host._acp", [])
    assert record["versions"] == {
        "acpwire": VERSION,
        "acpwire-codegen": VERSION,
        "datamodel-code-generator": version("datamodel-code-generator"),
        "schema": small.version,
    }
    assert record["schema"] == {"file": "acp.json", "sha256": small.sha256}
    assert record["refresh"] == "acpwire-codegen vendor src/host/_acp --package host._acp --schema acp.json"
    assert "Apache-2.0" in record["licence"]
    assert record["files"].keys() == {name for name, data in _content(copied.dest).items() if data} - {"VENDORED.toml"}


def test_the_refresh_command_run_in_the_project_gives_the_same_bytes(
    copied: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _content(copied.dest)
    shutil.rmtree(copied.dest)
    monkeypatch.chdir(copied.directory)
    assert main(shlex.split(_record_text(before))[1:]) == 0
    assert _content(copied.dest) == before
    assert copied.vendor() == 0
    assert _content(copied.dest) == before


def _record_text(content: Mapping[str, bytes | None]) -> str:
    return str(tomllib.loads((content["VENDORED.toml"] or b"").decode())["refresh"])


def test_only_what_was_asked_for_is_copied(copied: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """And a narrowed union passes everything else through, byte for byte."""
    assert copied.vendor("--types", "said") == 0
    assert capsys.readouterr().err == ""
    record = _record(copied)
    assert (record["types"], record["schema"]["file"]) == (["said"], "acp.json")
    assert record["refresh"].endswith("--types said --schema acp.json")
    script = """
        from host._acp import v2
        for update in ('{"kind":"said","text":"a"}', '{"kind":"done","seconds": "?"}', '{"kind":"said"}'):
            line = '{"jsonrpc":"2.0","method":"go","params":{"update":%s}}' % update
            message = v2.decode_from_agent(line.encode())
            match message:
                case v2.Notification(params=v2.GoNotification(update=v2.Said(text=text))):
                    print("said", text)
                case v2.Notification(params=v2.GoNotification(update=v2.UnknownVariant(tag=tag))):
                    print("unknown", tag, v2.encode(message).decode() == line)
                case v2.Malformed(path=path):
                    print("malformed", path)
        print(hasattr(v2, "Done"), sorted(v2.METHODS))
    """
    assert _python(copied.directory / "src", script).splitlines() == [
        "said a",
        "unknown done True",
        "malformed $.params.update",
        "False [('go', 'client', 'notification')]",
    ]


def test_the_order_in_which_types_are_named_means_nothing(copied: Project) -> None:
    schema = ("--schema", str(copied.directory / "acp.json"))
    assert copied.vendor(*NEW, *schema, "--types", "Said,Done") == 0
    assert copied.vendor("--check", "--types", "Done, Said,Done") == 0
    assert copied.vendor("--check", "--types", "Done") == 1


def _python(path: Path, script: str, *arguments: str, python: str = sys.executable, options: str = "-B") -> str:
    """What a script prints with a directory to import from."""
    text = f"import sys\nsys.path.insert(0, {str(path)!r})\n" + textwrap.dedent(script)
    done = _run([python, options, "-W", "error", "-c", text, *arguments])
    assert done.returncode == 0, done.stderr
    return done.stdout


def _run(command: Sequence[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MYPY"))}
    return subprocess.run(
        command,
        cwd=cwd,
        env=kept,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_what_is_not_said_is_as_the_record_says_unless_a_package_is_named(copied: Project) -> None:
    assert copied.vendor("--types", "Said") == 0
    pruned = _content(copied.dest)
    assert copied.vendor() == 0
    assert _content(copied.dest) == pruned
    assert copied.vendor("--check", *NEW) == 0
    assert copied.vendor(*NEW, "--schema", str(copied.directory / "acp.json")) == 0
    assert _record(copied)["types"] == []


def test_a_copy_of_its_own_is_marked_as_typed_and_one_within_a_package_is_not(project: Project, tmp_path: Path) -> None:
    schema = str(project.directory / "acp.json")
    assert main(["vendor", str(tmp_path / "own_acp"), "--package", "own_acp", "--schema", schema]) == 0
    assert (tmp_path / "own_acp" / "py.typed").read_bytes() == b""
    assert main(["vendor", str(tmp_path / "own_acp"), "--check"]) == 0
    assert project.vendor(*NEW, "--schema", schema) == 0
    assert not (project.dest / "py.typed").exists()


def test_a_copy_that_is_not_where_its_name_says_is_noted(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.vendor("--package", "host._other", "--schema", str(project.directory / "acp.json")) == 0
    assert "does not look like the place of host._other" in capsys.readouterr().err


def test_members_that_a_schema_leaves_open_are_named_if_they_are_copied(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    defs = json.loads(json.dumps(SMALL))
    defs["$defs"]["Done"]["properties"]["why"] = {"type": ["string", "null"]}
    (project.directory / "acp.json").write_text(json.dumps(defs), "utf-8")
    said: dict[str, bool] = {}
    for root in ("Done", "Said"):
        assert project.vendor(*NEW, "--schema", str(project.directory / "acp.json"), "--types", root) == 0
        said[root] = "Done.why" in capsys.readouterr().err
    assert said == {"Done": True, "Said": False}


# --- checking ---------------------------------------------------------------------------------------------------------


def test_a_current_copy_passes_from_anywhere_and_nothing_is_written(
    copied: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = {path: path.stat().st_mtime_ns for path in (*copied.directory.rglob("*"), copied.dest.parent)}
    for place in (tmp_path, copied.directory, copied.dest):
        monkeypatch.chdir(place)
        assert main(["vendor", os.path.relpath(copied.dest), "--check"]) == 0
        assert "is what acpwire" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in (*copied.directory.rglob("*"), copied.dest.parent)} == times


def test_a_project_may_be_moved_and_lose_what_it_is_known_by(copied: Project, tmp_path: Path) -> None:
    (copied.directory / "pyproject.toml").unlink()
    moved = Project(tmp_path / "deeper" / "checkout")
    shutil.move(copied.directory, moved.directory)
    assert moved.vendor("--check") == 0


def test_ends_of_lines_are_gits_business(copied: Project) -> None:
    for path in copied.dest.rglob("*.*"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert copied.vendor("--check") == 0


def _edit(path: Path) -> None:
    path.write_text(path.read_text("utf-8").replace("class DecodeError", "class DecodingError"), "utf-8")


def _add(path: Path) -> None:
    path.write_text("x = 1\n", "utf-8")


def _spoil(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\xff\xfe")


def _cut_the_last_end(path: Path) -> None:
    path.write_bytes(path.read_bytes().rstrip(b"\n"))


@pytest.mark.parametrize(
    ("name", "change", "diff"),
    [
        ("errors.py", _edit, "-class DecodingError(ValueError):\n+class DecodeError(ValueError):"),
        ("errors.py", Path.unlink, "+class DecodeError(ValueError):"),
        ("v2/types.py", Path.unlink, "+class Said("),
        ("LICENSE", Path.unlink, "+                                 Apache License"),
        ("extra.py", _add, "-x = 1"),
        ("empty.py", Path.touch, "only copied: empty.py"),
        ("v2/roles.py", _spoil, "-??"),
        ("lines.py", _cut_the_last_end, "line ends: lines.py"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
def test_a_copy_that_was_edited_is_found_with_its_diff(
    copied: Project, capsys: pytest.CaptureFixture[str], name: str, change: Any, diff: str
) -> None:
    change(copied.dest / name)
    before = _content(copied.dest)
    assert copied.vendor("--check") == 1
    out, err = capsys.readouterr()
    assert diff in out
    assert f"edited: {name}\n" in err
    assert "stale" not in err
    assert "run: acpwire-codegen vendor src/host/_acp --package host._acp --schema acp.json\n" in err
    assert _content(copied.dest) == before


def test_a_record_that_was_edited_is_found(copied: Project, capsys: pytest.CaptureFixture[str]) -> None:
    record = copied.dest / "VENDORED.toml"
    record.write_text(record.read_text("utf-8").replace("licence = ", 'licence = "mine" # '), "utf-8")
    assert copied.vendor("--check") == 1
    assert '-licence = "mine"' in capsys.readouterr().out


def test_a_copy_of_another_version_is_stale(
    copied: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (vendor, render):
        monkeypatch.setattr(module, "version", {"acpwire": "9.9", "datamodel-code-generator": "1.0"}.__getitem__)
    assert copied.vendor("--check") == 1
    out, err = capsys.readouterr()
    assert "+# Copied from acpwire 9.9 as host._acp." in out
    assert "edited" not in err
    assert "stale: VENDORED.toml, __init__.py, errors.py" in err
    assert f"made by acpwire {VERSION}, schema sha256:" in err
    assert "; now acpwire 9.9, schema sha256:" in err
    assert copied.vendor() == 0
    assert copied.vendor("--check") == 0


def test_a_copy_of_another_schema_is_stale(copied: Project, capsys: pytest.CaptureFixture[str]) -> None:
    defs = json.loads(json.dumps(SMALL))
    defs["$defs"]["Said"]["properties"]["to"] = TEXT
    (copied.directory / "acp.json").write_text(json.dumps(defs), "utf-8")
    assert copied.vendor("--check") == 1
    out, err = capsys.readouterr()
    assert "+    to: str | UnsetType = UNSET" in out
    assert "edited" not in err
    assert "v2/types.py" in err
    assert "errors.py" not in err
    assert copied.vendor() == 0
    assert copied.vendor("--check") == 0


# --- what may be overwritten ------------------------------------------------------------------------------------------


def _foreign(project: Project, name: str, copied: bool) -> None:
    if copied:
        assert project.vendor(*NEW, "--schema", str(project.directory / "acp.json")) == 0
    path = project.dest / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith("/"):
        path.mkdir()
    else:
        path.write_text("mine", "utf-8")


@pytest.mark.parametrize("copied", [False, True], ids=["no copy", "in a copy"])
@pytest.mark.parametrize("name", ["mine.py", "v2/mine.py", ".hidden", "deep/er/notes.txt", "empty/"])
def test_foreign_files_are_refused_and_nothing_is_lost(
    project: Project, capsys: pytest.CaptureFixture[str], name: str, copied: bool
) -> None:
    _foreign(project, name, copied)
    before = _content(project.directory)
    for _ in range(2):
        assert project.vendor(*NEW) == 2
        assert name in capsys.readouterr().err
        assert _content(project.directory) == before


def test_a_link_to_somewhere_is_foreign_too(
    copied: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied.dest / "elsewhere").symlink_to(tmp_path)
    assert copied.vendor() == 2
    assert "(elsewhere)" in capsys.readouterr().err
    assert (copied.dest / "elsewhere").is_symlink()


def test_what_comes_while_a_copy_is_made_is_not_lost(copied: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(model: Model, package: str, around: Mapping[str, str]) -> dict[str, str]:
        (copied.dest / "mine.py").write_text("mine", "utf-8")
        return render.render(model, package, around)

    monkeypatch.setattr(vendor, "render", meanwhile)
    assert copied.vendor() == 2
    assert (copied.dest / "mine.py").read_text("utf-8") == "mine"


def test_a_copy_behind_a_link_is_replaced_and_the_link_stays(copied: Project, tmp_path: Path) -> None:
    real = tmp_path / "real"
    copied.dest.rename(real)
    copied.dest.symlink_to(real)
    (real / "errors.py").write_text("", "utf-8")
    assert copied.vendor() == 0
    assert copied.dest.is_symlink()
    assert (real / "errors.py").read_text("utf-8")


def test_an_empty_directory_and_what_python_leaves_are_no_obstacle(project: Project) -> None:
    (project.dest / "__pycache__").mkdir(parents=True)
    (project.dest / "__pycache__" / "old.pyc").touch()
    assert project.vendor(*NEW, "--schema", str(project.directory / "acp.json")) == 0
    assert not (project.dest / "__pycache__").exists()


def test_files_of_a_copy_that_are_no_more_are_gone_and_edits_are_told(
    copied: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = copied.dest / "former.py"
    gone.write_text("x = 1\n", "utf-8")
    record = copied.dest / "VENDORED.toml"
    digest = sha256(b"x = 1\n").hexdigest()
    record.write_text(record.read_text("utf-8") + f'"former.py" = "{digest}"\n', "utf-8")
    _edit(copied.dest / "errors.py")
    assert copied.vendor() == 0
    assert not gone.exists()
    assert "note: errors.py had been edited" in capsys.readouterr().err
    assert copied.vendor("--check") == 0


class Stopped(BaseException):
    """As a key stroke would be."""


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Stopped()], ids=["disk full", "interrupted"])
@pytest.mark.parametrize(("what", "times"), [("write_bytes", 0), ("write_bytes", 5), ("rename", 0), ("rename", 1)])
@pytest.mark.parametrize("before", [False, True], ids=["new", "again"])
def test_whatever_stops_it_the_old_copy_stands(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    what: str,
    times: int,
    before: bool,
) -> None:
    if before:
        assert project.vendor(*NEW, "--schema", str(project.directory / "acp.json"), "--types", "said") == 0
    elif what == "rename" and times:
        return  # a new copy is renamed once
    content = _content(project.directory)
    real = getattr(Path, what)
    left = [times]

    def failing(path: Path, *arguments: Any) -> Any:
        left[0] -= 1
        if left[0] == -1:
            raise error
        return real(path, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(Path, what, failing)
        arguments = (*NEW, "--schema", str(project.directory / "acp.json"))
        if isinstance(error, OSError):
            assert project.vendor(*arguments) == 2
            assert "No space left" in capsys.readouterr().err
        else:
            with pytest.raises(Stopped):
                project.vendor(*arguments)
    assert left[0] < 0
    assert _content(project.directory) == content


def test_what_was_killed_between_the_old_copy_and_the_new_is_mended_by_the_next_run(copied: Project) -> None:
    before = _content(copied.dest)
    copied.dest.rename(copied.dest.with_name("._acp.acpwire-old"))
    copied.dest.with_name("._acp.acpwire-new").mkdir()
    (copied.dest.with_name("._acp.acpwire-new") / "half.py").touch()
    assert copied.vendor() == 0
    assert _content(copied.dest) == before
    assert [path.name for path in copied.dest.parent.iterdir()] == ["_acp"]


# --- trouble ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], r"say --package NAME"),
        (["--check"], r"say --package NAME"),
        (["--package", "not-a-name"], "'not-a-name' is no importable name"),
        (["--package", "json._acp"], "json._acp would hide"),
        ([*NEW, "--types", " , "], "--types names nothing"),
        ([*NEW, "--types", "Sayed"], r"no type, update or method 'Sayed'; the nearest are .*\bSaid\b"),
        (
            [*NEW, "--check"],
            "there is no copy in .*; make it with: acpwire-codegen vendor src/host/_acp --package host",
        ),
        ([*NEW, "--schema", "nowhere.json"], "cannot read nowhere.json"),
        ([*NEW, "--schema", "pyproject.toml"], "pyproject.toml is no JSON"),
        ([*NEW, "--schema", "unknown.json"], "is written in a way that is not known yet"),
    ],
)
def test_trouble_is_2_and_says_what_to_do(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(project.directory)
    unknown = {"$defs": {"Note": {"type": "object", "not": {"type": "string"}}}}
    (project.directory / "unknown.json").write_text(json.dumps(unknown), "utf-8")
    before = _content(project.directory)
    schema = [] if "--schema" in arguments else ["--schema", "acp.json"]
    assert project.vendor(*arguments, *schema) == 2
    assert re.search(said, capsys.readouterr().err)
    assert _content(project.directory) == before


@pytest.mark.parametrize(
    "text", ["", "package = 1", "nonsense", 'package = "a"\ntypes = []\nrefresh = ""\nschema = 1\n']
)
@pytest.mark.parametrize("option", ["--check", "--types=said"])
def test_a_record_that_cannot_be_read_is_trouble(
    copied: Project, capsys: pytest.CaptureFixture[str], text: str, option: str
) -> None:
    (copied.dest / "VENDORED.toml").write_text(text, "utf-8")
    before = _content(copied.dest)
    assert copied.vendor(option) == 2
    assert "VENDORED.toml is not as it was written" in capsys.readouterr().err
    assert _content(copied.dest) == before


def test_a_copy_without_its_record_is_compared_but_not_overwritten(
    copied: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied.dest / "VENDORED.toml").unlink()
    assert copied.vendor("--check") == 2
    schema = ("--schema", str(copied.directory / "acp.json"))
    assert copied.vendor("--check", *NEW, *schema) == 1
    assert "+++ current/VENDORED.toml" in capsys.readouterr().out
    assert copied.vendor(*NEW, *schema) == 2


def test_a_file_in_the_place_of_the_copy_is_left_alone(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    project.dest.write_text("mine", "utf-8")
    assert project.vendor(*NEW, "--schema", str(project.directory / "acp.json")) == 2
    assert "is no directory" in capsys.readouterr().err
    assert project.dest.read_text("utf-8") == "mine"


def test_without_the_extra_the_command_says_how_to_get_it() -> None:
    script = "import sys; sys.modules['jinja2'] = None; import acpwire_codegen.__main__"
    done = _run([sys.executable, "-c", script])
    assert (done.returncode, done.stderr) == (2, "acpwire-codegen needs jinja2: pip install acpwire[codegen]\n")


# --- from the wheel, into packages that live without acpwire ----------------------------------------------------------

THREE = "AgentMessageChunk,StateUpdate,ToolCallUpdate"


class Homes(NamedTuple):
    """Two fresh environments: one with acpwire and its extra, from the wheel, and one with msgspec and nothing else."""

    command: Path
    python: Path


class Projects(NamedTuple):
    """Projects with copies that the installed command made; none of them can see the repository."""

    old: Path
    """A package on three types of the schema of 1.6.1."""
    new: Path
    """The same after it has gone over to the pinned schema."""
    other: Path
    """`everything` is the whole wire, `host._acp` what SessionUpdate reaches, `host._id` one alias."""
    codes: Sequence[int]
    """What `--check` said of the package: when it was made, against the newer schema, and after it was copied anew."""
    diff: str


def _pip(*arguments: str) -> None:
    done = _run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments])
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Homes:
    """Build the wheel, and make both environments."""
    directory = tmp_path_factory.mktemp("homes")
    _pip("wheel", "-q", "--no-deps", "-w", str(directory), str(ROOT))
    (wheel,) = directory.glob("acpwire-*.whl")
    pythons = [directory / name / "bin" / "python" for name in ("maker", "user")]
    for python, needs in zip(pythons, (f"{wheel}[codegen]", "msgspec"), strict=True):
        assert _run([sys.executable, "-m", "venv", "--without-pip", str(python.parents[1])]).returncode == 0
        _pip("--python", str(python), "install", "-q", needs)
    return Homes(pythons[0].with_name("acpwire-codegen"), pythons[1])


@pytest.fixture(scope="session")
def projects(homes: Homes, tmp_path_factory: pytest.TempPathFactory) -> Projects:
    """Make the copies, as the authors of the packages would."""
    directory = tmp_path_factory.mktemp("projects")

    def command(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = _run([str(homes.command), "vendor", *arguments], cwd=project)
        assert done.returncode == 0 or "--check" in arguments, done.stderr
        return done

    old, new, other = (directory / name for name in ("old", "new", "other"))
    shutil.copytree(DOWNSTREAM, old)
    shutil.copy(SCHEMAS / "1.6.1-v2.unstable.json", old / "acp.json")
    acp = "src/chatlog/_acp"
    command(old, acp, "--package", "chatlog._acp", "--types", THREE, "--schema", "acp.json")
    checks = [command(old, acp, "--check")]
    shutil.copytree(old, new)
    checks.append(command(new, acp, "--check", "--schema", "pinned"))
    command(new, acp, "--schema", "pinned")
    checks.append(command(new, acp, "--check"))

    (other / "src" / "host").mkdir(parents=True)
    (other / "src" / "host" / "__init__.py").touch()
    (other / "pyproject.toml").touch()
    command(other, "src/everything", "--package", "everything")
    command(other, "src/host/_acp", "--package", "host._acp", "--types", "SessionUpdate")
    command(other, "src/host/_id", "--package", "host._id", "--types", "SessionId")
    return Projects(old, new, other, [check.returncode for check in checks], checks[1].stdout)


def test_a_package_on_three_types_passes_its_check_and_survives_a_newer_schema(projects: Projects) -> None:
    assert projects.codes == [0, 1, 0]
    assert "+# of ACP schema 2.4.0." in projects.diff
    record = tomllib.loads((projects.new / "src" / "chatlog" / "_acp" / "VENDORED.toml").read_text("utf-8"))
    assert record["types"] == THREE.split(",")
    assert record["refresh"] == f"acpwire-codegen vendor src/chatlog/_acp --package chatlog._acp --types {THREE}"
    assert record["schema"] == {"file": "pinned", "sha256": load.read_pinned(ROOT / "schema").sha256}


TOLD = """
    from importlib.metadata import distributions
    import chatlog
    head = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    updates = (
        b'{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"Hi"}}',
        b'{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"_video","url":"x"}}',
        b'{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"Look","content":[7]}',
        b'{"sessionUpdate":"tool_call_update","toolCallId":"t"}',
        b'{"sessionUpdate":"state_update","state":"running"}',
        b'{"sessionUpdate":"usage_update","used":1,"size":2}',
        b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hi"}}',
        b'{"sessionUpdate":"state_update","state":"_asleep"}',
        b'{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}',
    )
    print(chatlog.told([*(head + update + b"}}" for update in updates), b'{"jsonrpc":"2.0","id":1,"result":{}}']))
    print(*sorted(found.name for found in distributions()))
    own = {*sys.stdlib_module_names, "__main__", "sitecustomize"}  # the last is a distribution's part of its Python
    print(*sorted({name.partition(".")[0] for name in sys.modules} - own))
"""
SAID = (
    "Hi[_video][Look][usage_update?][broken at $.params.update][state_update?][end_turn][Response]\n"
    "{}msgspec\n"
    "chatlog msgspec\n"
)


def test_the_package_runs_on_either_schema_where_nothing_is_installed_but_msgspec(
    homes: Homes, projects: Projects
) -> None:
    """The old one from its sources; the new one built and installed."""
    assert _python(projects.old / "src", TOLD, python=str(homes.python), options="-I") == SAID.format("")
    _pip("--python", str(homes.python), "install", "-q", str(projects.new))
    try:
        assert _python(Path(os.devnull), TOLD, python=str(homes.python), options="-I") == SAID.format("chatlog ")
    finally:
        _pip("--python", str(homes.python), "uninstall", "-q", "-y", "chatlog")


def test_pyright_finds_nothing_in_the_packages_with_copies(homes: Homes, projects: Projects) -> None:
    """In one run, with the strict rules and with what is installed beside the packages: msgspec."""
    base = projects.old.parent
    roots = [f"{project.name}/src" for project in (projects.old, projects.new, projects.other)]
    settings = {
        "include": roots,
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "executionEnvironments": [{"root": root} for root in roots],
    }
    (base / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    done = _run([sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", str(homes.python)], cwd=base)
    found = json.loads(done.stdout)
    assert found["generalDiagnostics"] == []
    assert found["summary"]["filesAnalyzed"] > 60


@pytest.mark.parametrize("which", ["old", "new", "other"])
def test_mypy_finds_nothing_in_the_packages_with_copies(homes: Homes, projects: Projects, which: str) -> None:
    project: Path = getattr(projects, which)
    options = ("--strict", "--python-version", "3.11", "--python-executable", str(homes.python), "--cache-dir", "cache")
    done = _run([sys.executable, "-m", "mypy", *options, "src"], cwd=project)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert re.fullmatch(r"Success: no issues found in \d\d source files\n", done.stdout)


def _updates(path: Path) -> list[bytes]:
    """Lines with updates, right ones and mutated ones, written to a file."""
    lines = [
        b'{"jsonrpc":"2.0","method":"session/update","params":%s}' % json.dumps(entry["in"]).encode()
        for entry in map(json.loads, (ROOT / "tests" / "corpus" / "oracle.jsonl").read_bytes().splitlines())
        if entry["def"] == "UpdateSessionNotification"
    ]
    path.write_bytes(b"\n".join(lines))
    return lines


@pytest.mark.parametrize("package", ["everything", "host._acp"])
def test_copies_read_what_acpwire_reads_whole_or_pruned(
    homes: Homes, projects: Projects, tmp_path: Path, package: str
) -> None:
    lines = _updates(tmp_path / "lines")
    assert len(lines) > 500
    script = f"""
        from {package} import v2
        with open(sys.argv[1], "rb") as lines:
            for line in lines:
                print(repr(v2.decode_from_agent(line.rstrip(b"\\n"))))
        print("acpwire" in sys.modules)
    """
    printed = _python(projects.other / "src", script, str(tmp_path / "lines"), python=str(homes.python), options="-I")
    wanted = [repr(v2.decode_from_agent(line)) for line in lines]
    assert printed.splitlines() == [*wanted, "False"]
    assert 100 < sum(line.startswith("Malformed") for line in wanted) < len(wanted) - 100


def test_the_whole_copy_is_the_code_of_acpwire_under_another_name(projects: Projects) -> None:
    """So it is as fast; only where things are imported from differs."""

    def code(path: Path) -> str:
        text = path.read_text("utf-8").replace("everything.", "acpwire.wire.")
        tree = ast.parse(text)
        imports = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        others = [ast.unparse(node) for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
        return "\n".join([*sorted(imports), *others])

    ours = {path.relative_to(WIRE): code(path) for path in WIRE.rglob("*.py")}
    everything = projects.other / "src" / "everything"
    assert {path.relative_to(everything): code(path) for path in everything.rglob("*.py")} == ours


LOAD = """
    import binascii, copy, dataclasses, json, math, re, types, typing
    import msgspec, msgspec.json, msgspec.structs
    import importlib, time
    before = time.process_time()
    importlib.import_module(sys.argv[1])
    print(time.process_time() - before)
"""


def test_pruned_to_session_update_a_copy_has_two_thirds_of_the_lines_at_most_and_loads_in_proportion(
    homes: Homes, projects: Projects
) -> None:
    """In CPU time of fresh processes, apart from what msgspec and the standard library take.

    Neighbours on the machine can only add to a time, so the least of each counts, and more are taken while it is not
    yet as it should be.
    """
    source, packages = projects.other / "src", ("everything", "host._acp")
    files = {package: (source / package.replace(".", "/") / "v2").glob("*.py") for package in packages}
    lines = {name: sum(path.read_text("utf-8").count("\n") for path in paths) for name, paths in files.items()}
    assert lines["host._acp"] <= 0.65 * lines["everything"]
    seconds = dict.fromkeys(packages, float("inf"))
    for runs in range(30):
        for package in packages:
            printed = _python(source, LOAD, f"{package}.v2", python=str(homes.python), options="-I")
            seconds[package] = min(seconds[package], float(printed))
        if runs > 2 and seconds["host._acp"] <= 0.8 * seconds["everything"]:
            return
    pytest.fail(f"loading takes {seconds}")


TOGETHER = """
    import math, time
    import acpwire
    from acpwire import v2 as ours
    from everything import v2 as theirs
    from everything.values import MAY_HOLD_FLOATS, UnknownVariant
    import acpwire.wire.values

    line = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":%s}}' % (
        b'{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"Hi, there"}}'
    )
    odd = line.replace(b'"text","text"', b'"_odd","text"')
    for text in (line, odd):
        one, other = ours.decode_from_agent(text), theirs.decode_from_agent(text)
        assert type(one) is not type(other)
        assert repr(one) == repr(other)
        assert ours.encode(one) == theirs.encode(other) == text
    assert type(other.params.update.content) is UnknownVariant

    floats = acpwire.wire.values.MAY_HOLD_FLOATS
    assert {kind.__module__.partition(".")[0] for kind in floats} == {"acpwire"}
    assert {kind.__module__.partition(".")[0] for kind in MAY_HOLD_FLOATS} == {"everything"}
    for package, another in ((ours, theirs), (theirs, ours)):
        cost = package.Cost(amount=math.nan, currency="EUR")
        assert not issubclass(package.EncodeError, another.EncodeError)
        try:
            package.encode(cost)
        except package.EncodeError:
            pass
        else:
            raise AssertionError("NaN was encoded")

    def seconds(read, text, times):
        before = time.process_time()
        for _ in range(times):
            read(text)
        return time.process_time() - before

    for text, times in ((line, 4000), (odd, 1000)):
        runs = [[seconds(p.decode_from_agent, text, times) for p in (theirs, ours)] for _ in range(30)]
        print(min(run[0] for run in runs) / min(run[1] for run in runs))
"""


def test_a_copy_and_an_installed_acpwire_get_along_and_decode_as_fast(projects: Projects) -> None:
    """Their classes, errors and tables are apart, and neither slows the other down."""
    ratios = [float(text) for text in _python(projects.other / "src", TOGETHER).split()]
    assert len(ratios) == 2
    assert max(ratios) < 1.2


def _hook() -> dict[str, str]:
    """The members of the only hook."""
    lines = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8").splitlines()
    return dict(line[2:].split(": ", 1) for line in lines if line[:1] in "- ")


def test_the_pre_commit_hook_checks_the_copy_that_its_argument_names(homes: Homes, projects: Projects) -> None:
    """What pre-commit does with it: install the repository with what is named beside it, run the entry on changes."""
    hook = _hook()
    assert (hook["language"], hook["pass_filenames"]) == ("python", "false")
    assert json.loads(hook["additional_dependencies"]) == [".[codegen]"]
    program, *arguments = shlex.split(hook["entry"])
    assert program == homes.command.name
    for project, schema, code in ((projects.new, "pinned", 0), (projects.old, "pinned", 1)):
        done = _run([str(homes.command), *arguments, "src/chatlog/_acp", "--schema", schema], cwd=project)
        assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    ("path", "runs"),
    [
        ("src/chatlog/_acp/v2/types.py", True),
        ("src/chatlog/_acp/VENDORED.toml", True),
        ("src/chatlog/_acp/LICENSE", True),
        (".pre-commit-config.yaml", True),
        ("README.md", False),
        ("docs/pre-commit-config.yaml", False),
    ],
)
def test_the_pre_commit_hook_runs_on_what_can_make_a_copy_stale(path: str, runs: bool) -> None:
    assert bool(re.search(_hook()["files"], path)) is runs
