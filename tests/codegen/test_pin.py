"""The command `pin`: from npm or a file to three files, or to one clear sentence and nothing written.

Owns: `acpwire_codegen.pin` and `acpwire-codegen pin`. Every schema here is made up, every directory temporary, and npm
is a script that answers as npm does.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sys
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acpwire_codegen import load, pin
from acpwire_codegen.__main__ import main

ROOT = Path(__file__).parents[2]
SENTENCE = "Forty violet umbrellas drift slowly over the sleeping harbour while quokkas nibble"
UPSTREAM: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Made up",
    "description": f"{SENTENCE} at dawn.",
    "$defs": {
        "Zebra": {
            "type": "object",
            "description": f"{SENTENCE} at noon. It MUST be so; see https://example.org/protocol/draft/zebras#stripes",
            "properties": {
                "description": {"description": f"{SENTENCE} at tea.", "type": ["string", "null"]},
                "x-docs-ignore": {"type": "boolean", "default": False, "x-docs-ignore": True},
                "stripes": {
                    "type": "array",
                    "items": {"type": "integer", "description": f"{SENTENCE} at dusk, or null with -32602."},
                },
            },
            "required": ["stripes"],
        },
        "Apple": {"type": "string", "description": f"{SENTENCE} at night."},
    },
}
STRUCTURE: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Made up",
    "$defs": {
        "Zebra": {
            "type": "object",
            "properties": {
                "description": {"type": ["string", "null"]},
                "x-docs-ignore": {"type": "boolean", "default": False},
                "stripes": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["stripes"],
        },
        "Apple": {"type": "string"},
    },
}
DATA = json.dumps(UPSTREAM).encode()
DOCS = '[definitions]\nZebra = "An animal in bars."\nApple = "A fruit, by its variety."\n'
OVERRIDES = '[plain]\nZebra = ["description"]\n'


@pytest.fixture
def schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A schema directory of its own, with tables that fit the made-up schema."""
    directory = tmp_path / "schema"
    directory.mkdir()
    (directory / load.DOCS).write_text(DOCS, "utf-8")
    (directory / load.OVERRIDES).write_text(OVERRIDES, "utf-8")
    monkeypatch.setattr(load, "schema_directory", lambda: directory)
    return directory


@pytest.fixture
def pinned(schema: Path, tmp_path: Path) -> Path:
    """The same directory, after a first pin."""
    assert main(["pin", "--file", str(_file(tmp_path)), "--source", "made up 1"]) == 0
    return schema


def _file(directory: Path, data: bytes = DATA, name: str = "upstream.json") -> Path:
    path = directory / name
    path.write_bytes(data)
    return path


def _content(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def _refused(schema: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], *said: str, code: int = 1) -> str:
    """The one sentence with which a pin was refused, after which everything is as it was."""
    capsys.readouterr()
    before = _content(schema)
    assert main(["pin", *arguments]) == code
    out, err = capsys.readouterr()
    assert _content(schema) == before
    assert not out
    assert err.startswith("acpwire-codegen: ")
    assert err.count("\n") == 1
    for words in said:
        assert words in err
    return err


# --- what is written --------------------------------------------------------------------------------------------------


def test_the_structure_is_upstreams_less_its_prose_byte_for_byte(pinned: Path) -> None:
    """Members called like keywords stay (H14), and so does every order."""
    data = (pinned / load.STRUCTURE).read_bytes()
    assert json.dumps(json.loads(data)) == json.dumps(STRUCTURE)
    assert data == load.serialise(STRUCTURE)


def test_no_sentence_of_upstream_is_anywhere_in_the_directory(pinned: Path) -> None:
    assert SENTENCE.encode() in DATA
    for name, data in _content(pinned).items():
        for words in ("umbrellas", "quokkas", "harbour"):
            assert words.encode() not in data, name


def test_of_the_prose_hash_markers_and_page_are_kept(pinned: Path) -> None:
    kept = tomllib.loads((pinned / load.PROSE).read_text("utf-8"))
    zebra = UPSTREAM["$defs"]["Zebra"]
    assert set(kept) == {
        "",
        "/$defs/Zebra",
        "/$defs/Zebra/properties/description",
        "/$defs/Zebra/properties/stripes/items",
        "/$defs/Apple",
    }
    assert kept["/$defs/Zebra"] == {
        "sha256": hashlib.sha256(zebra["description"].encode()).hexdigest(),
        "markers": ["MUST"],
        "page": "zebras#stripes",
    }
    assert kept["/$defs/Zebra/properties/stripes/items"]["markers"] == ["null", "-32602"]
    assert list(kept) == sorted(kept)


def test_the_pin_says_where_it_came_from_and_what_it_is(pinned: Path) -> None:
    said = tomllib.loads((pinned / load.PINNED).read_text("utf-8"))
    structure = (pinned / load.STRUCTURE).read_bytes()
    assert said == {
        "package": "made up 1",
        "version": "made up 1",
        "file": "upstream.json",
        "upstream_sha256": hashlib.sha256(DATA).hexdigest(),
        "sha256": hashlib.sha256(structure).hexdigest(),
        "names": {"Apple": "Apple", "Zebra": "Zebra"},
    }


def test_what_was_pinned_is_read_back_as_it_was(pinned: Path, tmp_path: Path) -> None:
    back = load.read_pinned(pinned)
    fresh = load.read_schema(_file(tmp_path))
    assert (back.document, back.prose, back.sha256) == (fresh.document, fresh.prose, fresh.sha256)
    assert back.pinned


def test_pinning_twice_gives_the_same_bytes(pinned: Path, tmp_path: Path) -> None:
    before = _content(pinned)
    assert main(["pin", "--file", str(_file(tmp_path)), "--source", "made up 1"]) == 0
    assert _content(pinned) == before


def test_layout_of_the_upstream_file_changes_nothing_but_its_own_hash(pinned: Path, tmp_path: Path) -> None:
    before = _content(pinned)
    wide = json.dumps(UPSTREAM, indent=8).encode()
    assert main(["pin", "--file", str(_file(tmp_path, wide)), "--source", "made up 1"]) == 0
    after = _content(pinned)
    assert after[load.STRUCTURE] == before[load.STRUCTURE]
    assert after[load.PROSE] == before[load.PROSE]
    old, new = hashlib.sha256(DATA).hexdigest(), hashlib.sha256(wide).hexdigest()
    assert after[load.PINNED] == before[load.PINNED].replace(old.encode(), new.encode())


def test_what_is_left_to_do_is_told_and_the_pin_stands(
    schema: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (schema / load.OVERRIDES).write_text("", "utf-8")
    assert main(["pin", "--file", str(_file(tmp_path)), "--source", "made up"]) == 0
    out, err = capsys.readouterr()
    assert "Zebra.description is nullable and in neither list" in err
    assert "acpwire-codegen generate" in out
    assert (schema / load.STRUCTURE).exists()


def test_the_right_hash_is_accepted(schema: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256(DATA).hexdigest()
    assert main(["pin", "--file", str(_file(tmp_path)), "--source", "made up", "--sha256", digest]) == 0
    assert (schema / load.PINNED).exists()


def test_the_committed_names_are_those_that_the_committed_pin_gives() -> None:
    """[names] is what a later pin is compared with; a place that is not there any more compares with nothing."""
    from acpwire_codegen.decide import build  # noqa: PLC0415  # the one test here that builds without the command

    tables = load.read_tables(ROOT / "schema")
    assert tables.pinned["names"] == build(load.read_pinned(ROOT / "schema"), tables).names


# --- what is refused: one sentence, exit code 1, nothing written ------------------------------------------------------


def test_a_wrong_hash_is_refused(pinned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = _file(tmp_path, DATA.replace(b"integer", b"number"))
    arguments = ["--file", str(changed), "--source", "made up 2", "--sha256", hashlib.sha256(DATA).hexdigest()]
    found = hashlib.sha256(changed.read_bytes()).hexdigest()
    _refused(pinned, capsys, arguments, found, hashlib.sha256(DATA).hexdigest(), "nothing was written")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no JSON"),
        (b"<!doctype html>", "no JSON"),
        (b'{"definitions": {}}', "$defs"),
        (b'["$defs"]', "$defs"),
        (b'{"$defs": {"A": 1}}', "A"),
        (b'{"$defs": {"A": {"type": "object", "properties": {"x": 1}}}}', "A"),
        (b'{"$defs": {"A": {"$ref": 1}}}', "A"),
        (b'{"$defs": {"A": {"type": "string", "title": "\\ud800"}}}', "odd.json"),
        (b'{"$defs": {"A": {"type": "string", "description": "\\ud800"}}}', "odd.json"),
        (b'{"$defs": {"A": ' + b'{"items": ' * 700 + b"{}" + b"}" * 700 + b"}}", "over 100 levels"),
    ],
    ids=[
        *("empty", "no-json", "no-defs", "no-object", "no-schema", "no-member", "no-reference"),
        *("half-a-character", "half-a-character-in-prose", "nested-too-deep"),
    ],
)
def test_a_file_that_is_no_schema_is_refused(
    pinned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, said: str
) -> None:
    arguments = ["--file", str(_file(tmp_path, data, "odd.json")), "--source", "made up 2"]
    before = _content(pinned)
    capsys.readouterr()
    assert main(["pin", *arguments]) == 1
    err = capsys.readouterr().err
    assert _content(pinned) == before
    assert err.startswith("acpwire-codegen: ")
    assert said in err


def test_a_file_that_is_not_there_is_refused(pinned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _refused(pinned, capsys, ["--file", "nowhere.json", "--source", "x"], "nowhere.json", "No such file")


def test_an_unknown_idiom_is_refused_with_its_place_and_what_was_expected(
    pinned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = {"$defs": {**UPSTREAM["$defs"], "Odd": {"type": ["string", "integer"]}}}
    before = _content(pinned)
    capsys.readouterr()
    assert main(["pin", "--file", str(_file(tmp_path, json.dumps(odd).encode())), "--source", "x"]) == 1
    first, *more = capsys.readouterr().err.splitlines()
    assert "/$defs/Odd" in first
    assert "nothing was written" in first
    assert [line.split(":")[0].strip() for line in more] == ["found", "expected"]
    assert _content(pinned) == before


@pytest.mark.parametrize("name", [load.DOCS, load.OVERRIDES])
def test_broken_tables_are_refused_by_name(
    pinned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (pinned / name).write_text("[plain\n", "utf-8")
    _refused(pinned, capsys, ["--file", str(_file(tmp_path)), "--source", "x"], name)


def test_a_schema_without_definitions_is_refused(
    pinned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _refused(
        pinned, capsys, ["--file", str(_file(tmp_path, b'{"$defs": {}}', "empty.json")), "--source", "x"], "empty.json"
    )


def test_docs_in_upstreams_words_are_refused(pinned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    eight = " ".join(SENTENCE.split()[:8])
    (pinned / load.DOCS).write_text(f'[definitions]\nZebra = "In short: {eight.upper()}."\nApple = "A."\n', "utf-8")
    before = _content(pinned)
    capsys.readouterr()
    assert main(["pin", "--file", str(_file(tmp_path)), "--source", "x"]) == 1
    err = capsys.readouterr().err
    assert "definitions.Zebra" in err
    assert eight.lower() in err
    assert _content(pinned) == before


def test_docs_that_share_seven_words_with_upstream_are_accepted(schema: Path, tmp_path: Path) -> None:
    seven = " ".join(SENTENCE.split()[:7])
    (schema / load.DOCS).write_text(f'[definitions]\nZebra = "In short: {seven}."\nApple = "A."\n', "utf-8")
    assert main(["pin", "--file", str(_file(tmp_path)), "--source", "x"]) == 0


# --- all or nothing ---------------------------------------------------------------------------------------------------

NEW = DATA.replace(b'"Apple": {"type": "string"', b'"Apple": {"type": "integer"')


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("step", ["write_bytes", "replace"])
def test_a_pin_that_fails_midway_leaves_the_old_files(  # the fixtures and the two parameters of the case
    pinned: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step: str,
    nth: int,
) -> None:
    new = _file(tmp_path, NEW)
    real: Callable[..., Any] = getattr(Path, step)
    calls = 0

    def full(self: Path, *arguments: Any) -> Any:
        nonlocal calls
        calls += self.parent == pinned
        if self.parent == pinned and calls == nth:
            raise OSError(28, "No space left on device")
        return real(self, *arguments)

    monkeypatch.setattr(Path, step, full)
    err = _refused(pinned, capsys, ["--file", str(new), "--source", "made up 2"])
    assert calls >= nth
    assert "No space left on device" in err


def test_a_pin_that_was_stopped_midway_can_be_done_again(pinned: Path, tmp_path: Path) -> None:
    (pinned / f".{load.STRUCTURE}.new").write_bytes(b"half a fi")
    assert main(["pin", "--file", str(_file(tmp_path, NEW)), "--source", "made up 2"]) == 0
    assert set(_content(pinned)) == {
        *(load.CHANGES, load.DOCS, load.OVERRIDES, load.PINNED, load.PROSE, load.STRUCTURE)
    }
    assert load.read_pinned(pinned).document["$defs"]["Apple"] == {"type": "integer"}


# --- npm --------------------------------------------------------------------------------------------------------------

NPM = """#!{python}
import json, pathlib, shutil, sys
command, package, *options = sys.argv[1:]
assert command == "pack" and "--json" in options, sys.argv
target = pathlib.Path(options[options.index("--pack-destination") + 1])
if package != "@made-up/acp@2.0.0":
    print("npm error code {code}", file=sys.stderr)
    print("npm error {reason}", file=sys.stderr)
    print(json.dumps({{"error": {{"code": "{code}"}}}}))
    sys.exit(1)
shutil.copy({archive!r}, target / "made-up-acp-2.0.0.tgz")
report = {{"name": "@made-up/acp", "version": "2.0.0", "filename": "made-up-acp-2.0.0.tgz"}}
print(json.dumps({form}))
"""


def _npm(  # the answers that differ from case to case
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    member: str = "package/" + pin.NPM_FILE,
    form: str = "[report]",
    code: str = "ETARGET",
    reason: str = "notarget No matching version found",
    cut: int | None = None,
) -> None:
    """Put an npm of our own, and nothing else, on PATH."""
    archive = tmp_path / "archive.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, data in ((member, DATA), ("package/package.json", b"{}")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    archive.write_bytes(archive.read_bytes()[:cut])
    script = tmp_path / "bin" / "npm"
    script.parent.mkdir()
    text = NPM.format(python=sys.executable, archive=str(archive), form=form, code=code, reason=reason)
    script.write_text(text, "utf-8")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent))


@pytest.mark.parametrize("form", ["[report]", '{"@made-up/acp": report}'], ids=["list", "object"])
def test_a_package_is_pinned_from_npm_in_both_forms_of_its_report(
    schema: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    _npm(tmp_path, monkeypatch, form=form)
    assert main(["pin", "npm:@made-up/acp@2.0.0", "--sha256", hashlib.sha256(DATA).hexdigest()]) == 0
    said = tomllib.loads((schema / load.PINNED).read_text("utf-8"))
    assert (said["package"], said["version"], said["file"]) == ("@made-up/acp", "2.0.0", pin.NPM_FILE)
    assert said["upstream_sha256"] == hashlib.sha256(DATA).hexdigest()
    assert (schema / load.STRUCTURE).read_bytes() == load.serialise(STRUCTURE)
    assert "@made-up/acp 2.0.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("code", "reason", "said"),
    [
        ("ETARGET", "notarget No matching version found.", "No matching version found."),
        ("E404", "404 Not Found - GET an unknown package", "404"),
    ],
    ids=["version", "package"],
)
def test_an_unknown_version_is_refused_with_npms_reason(
    pinned: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: str,
    reason: str,
    said: str,
) -> None:
    _npm(tmp_path, monkeypatch, code=code, reason=reason)
    _refused(pinned, capsys, ["npm:@made-up/acp@9.9.9"], "npm has no @made-up/acp@9.9.9", said)


def test_an_npm_that_failed_for_another_reason_is_not_said_to_lack_the_package(
    pinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _npm(tmp_path, monkeypatch, code="ENOTFOUND", reason="network request failed")
    err = _refused(pinned, capsys, ["npm:@made-up/acp@9.9.9"], "network request failed")
    assert "has no" not in err


def test_a_package_without_a_v2_draft_is_refused(
    pinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _npm(tmp_path, monkeypatch, member="package/schema/schema.json")
    _refused(pinned, capsys, ["npm:@made-up/acp@2.0.0"], pin.NPM_FILE, "no version with a v2 draft")


@pytest.mark.parametrize("cut", [0, 10, -40])
def test_a_package_that_arrived_broken_is_refused(
    pinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], cut: int
) -> None:
    _npm(tmp_path, monkeypatch, cut=cut)
    _refused(pinned, capsys, ["npm:@made-up/acp@2.0.0"], "@made-up/acp@2.0.0")


def test_a_report_that_is_no_report_is_refused(
    pinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _npm(tmp_path, monkeypatch, form="[]")
    _refused(pinned, capsys, ["npm:@made-up/acp@2.0.0"], "npm")


def test_without_npm_the_way_out_is_said(
    pinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("npm") is None
    _refused(pinned, capsys, ["npm:@made-up/acp@2.0.0"], "`npm`", "--file")


@pytest.mark.parametrize("spec", ["@made-up/acp@2.0.0", "npm:@made-up/acp", "npm:", "pypi:acp@1", "npm:a b@1", "foo@1"])
def test_a_source_of_another_form_is_refused_before_npm_is_asked(
    pinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], spec: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    _refused(pinned, capsys, [spec], spec, "npm:PACKAGE@VERSION", code=2)


def test_a_source_cannot_smuggle_an_option_into_npm(
    pinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    _refused(pinned, capsys, ["npm:--ignore-scripts@2.0.0"], "npm:PACKAGE@VERSION", code=2)


# --- wrong use: exit code 2 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["npm:@made-up/acp@2.0.0", "--file", "upstream.json", "--source", "x"],
        ["--file", "upstream.json"],
        ["--source", "x"],
    ],
    ids=["nothing", "both", "file-without-source", "source-without-file"],
)
def test_wrong_use_is_exit_code_2_and_writes_nothing(
    pinned: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    before = _content(pinned)
    capsys.readouterr()
    assert main(["pin", *arguments]) == 2
    assert capsys.readouterr().err.startswith("acpwire-codegen: ")
    assert _content(pinned) == before


# --- renames ----------------------------------------------------------------------------------------------------------

NOTE = {"type": "object", "properties": {"text": {"type": "string"}}}
BOX = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"kind": {"type": "string", "const": "note"}},
            "required": ["kind"],
            "allOf": [{"$ref": "#/$defs/Note"}],
        }
    ]
}
DESK = {"type": "object", "properties": {"note": {"$ref": "#/$defs/Note"}}}


def test_a_new_pin_that_renames_a_class_is_stopped_until_the_rename_is_listed(
    schema: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Automatic names depend on use counts: `Note` used as a member too gives its name to the variant alone."""
    package = tmp_path / "package"
    monkeypatch.setattr("acpwire_codegen.__main__._package_directory", lambda: package)
    docs = '[definitions]\nNote = "N."\nBox = "B."\n[variants]\n"Box/note" = "V."\n'
    (schema / load.DOCS).write_text(docs, "utf-8")
    (schema / load.OVERRIDES).write_text("", "utf-8")
    first = _file(tmp_path, json.dumps({"$defs": {"Note": NOTE, "Box": BOX}}).encode(), "1.json")
    second = _file(tmp_path, json.dumps({"$defs": {"Note": NOTE, "Box": BOX, "Desk": DESK}}).encode(), "2.json")
    assert main(["pin", "--file", str(first), "--source", "1"]) == 0
    assert main(["generate"]) == 0

    (schema / load.DOCS).write_text(docs.replace('Box = "B."', 'Box = "B."\nDesk = "D."'), "utf-8")
    capsys.readouterr()
    done = main(["pin", "--file", str(second), "--source", "2"]) or main(["generate"])
    assert done == 1
    err = capsys.readouterr().err
    assert "NoteFields" in err
    assert "[renames]" in err

    (schema / load.OVERRIDES).write_text('[renames]\nNote = "used by Desk too"\n', "utf-8")
    assert main(["pin", "--file", str(second), "--source", "2"]) == 0
    assert main(["generate"]) == 0
