"""Where code uses what changed between two schemas: what is found, how sure it is, and what is left alone.

Owns: `acpwire_codegen.impact` and `drift --impact`. Schemas and code are made up, and none of the code is ever run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acpwire_codegen import impact, load, report
from acpwire_codegen.__main__ import main
from acpwire_codegen.decide import build
from acpwire_codegen.drift import compare

STRING = {"type": "string"}


def _object(required: tuple[str, ...] = (), **members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": list(required)}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _union(**variants: str) -> dict[str, Any]:
    tags = [{"properties": {"kind": {**STRING, "const": tag}}, "required": ["kind"]} for tag in variants]
    branches = [{**tag, "allOf": [_ref(name)]} for tag, name in zip(tags, variants.values(), strict=True)]
    other = {"title": "other", "properties": {"kind": STRING}, "required": ["kind"], "additionalProperties": True}
    return {"anyOf": [*branches, {**other, "not": {"anyOf": tags}}]}


def _set(*values: str) -> dict[str, Any]:
    return {"anyOf": [*({**STRING, "const": value} for value in values), {**STRING, "title": "other"}]}


OLD: dict[str, Any] = {
    "ReportNotification": {
        **_object(("event",), event=_ref("Event"), account=_ref("Account")),
        "x-method": "report",
        "x-side": "client",
    },
    "StopRequest": {**_object(reason=STRING), "x-method": "work/stop", "x-side": "agent"},
    "StopResponse": {**_object(), "x-method": "work/stop", "x-side": "agent"},
    "Event": _union(started="Started", halted="Halted"),
    "Started": _object(("runId",), runId=STRING, note=STRING, state=_ref("State")),
    "Halted": _object(("runId",), runId=STRING, cause=_ref("Cause")),
    "Cause": _object(("why",), why=STRING),
    "State": _set("warm", "cold"),
    "Account": _object(("owner",), owner=STRING, colour=STRING),
}
NEW: dict[str, Any] = {
    "ReportNotification": OLD["ReportNotification"],
    "Event": _union(started="Started"),
    "Started": _object(("runId", "place"), runId=STRING, place=STRING, note={"type": "integer"}, state=_ref("State")),
    "State": _set("warm"),
    "Account": _object(("ownerName",), ownerName=STRING),
}


def _source(defs: dict[str, Any], version: str) -> load.Source:
    return load.as_source("made up", json.dumps({"$defs": defs}).encode(), version)


@pytest.fixture(scope="module")
def uses() -> impact.Uses:
    """What the changes from OLD to NEW are called in code."""
    old, new = _source(OLD, "1"), _source(NEW, "2")
    tables = load.Tables(docs={}, overrides={}, pinned={})
    models = build(old, tables), build(new, tables)
    found = compare(old, new, {}, (models[0].names, models[1].names))
    told = sorted((change.cls, change.name) for change in found.changes)
    assert told == [
        ("E-", "State"),
        ("F+r", "Started.place"),
        ("F-", "Account.colour"),
        ("M", "work/stop"),
        ("RN", "Account.owner"),
        ("T", "Started.note"),
        ("V-", "Event(halted)"),
    ]
    return impact.Uses(found, old, models[0])


def _search(uses: impact.Uses, path: Path, code: str) -> list[tuple[int, str, str, str]]:
    file = path / "code.py"
    file.write_text(code, "utf-8")
    return [(use.line, use.certainty, use.change.cls, use.change.name) for use in impact.search(file, uses)]


HEAD = "from acpwire import v2\n"
CERTAIN = [
    ("print(v2.Halted)", "V-", "Event(halted)"),
    ("def f(x: v2.Halted): ...", "V-", "Event(halted)"),
    ("x: list['v2.Halted'] | None", "V-", "Event(halted)"),
    ("v2.Cause(why='')", "V-", "Event(halted)"),
    ("v2.WORK_STOP", "M", "work/stop"),
    ("v2.StopRequest()", "M", "work/stop"),
    ("v2.Started(run_id='', place='', note='')", "T", "Started.note"),
    ("v2.Started(run_id='')", "F+r", "Started.place"),
    ("v2.Started(run_id='', place='', state='cold')", "E-", "State"),
    ("def f(x: v2.Account): return x.colour", "F-", "Account.colour"),
    ("def f(x: v2.Account | None): return x.colour", "F-", "Account.colour"),
    ("def f(x: 'v2.Account'): return x.colour", "F-", "Account.colour"),
    ("def f(x: v2.Account): return lambda: x.colour", "F-", "Account.colour"),
    ("x = v2.Account(owner_name='')\nx.colour", "F-", "Account.colour"),
    ("if isinstance(x, v2.Account): x.colour", "F-", "Account.colour"),
    ("match x:\n    case v2.Account(): x.colour", "F-", "Account.colour"),
    ("match x:\n    case v2.Account() as y: y.colour", "F-", "Account.colour"),
    ("match x:\n    case v2.Account(colour=c): print(c)", "F-", "Account.colour"),
    ("match x:\n    case v2.Account() if x.colour: print()", "F-", "Account.colour"),
    ("def f(x: v2.ReportNotification): x.account.colour", "F-", "Account.colour"),
    ("async def f(x: v2.Account): await g(x.owner)", "RN", "Account.owner"),
    ("class A:\n    def f(self, x: v2.Account): return x.owner", "RN", "Account.owner"),
    ("def f(x: v2.Started): return x.state == 'cold'", "E-", "State"),
    ("def f(x: v2.Started): return x.state in ('warm', 'cold')", "E-", "State"),
    ("match x:\n    case v2.Started(state='cold'): print()", "E-", "State"),
]


@pytest.mark.parametrize(("code", "cls", "name"), CERTAIN, ids=lambda one: one[:50])
def test_a_use_that_can_be_nothing_else_is_certain(
    uses: impact.Uses, tmp_path: Path, code: str, cls: str, name: str
) -> None:
    found = _search(uses, tmp_path, HEAD + code)
    assert {(certainty, one, what) for _, certainty, one, what in found} == {("certain", cls, name)}
    assert {line for line, *_ in found} <= {2, 3}


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("from acpwire import v2", "v2.Halted"),
        ("from acpwire import v2 as acp", "acp.Halted"),
        ("import acpwire.v2", "acpwire.v2.Halted"),
        ("import acpwire.v2 as w", "w.Halted"),
        ("from acpwire.wire import v2", "v2.Halted"),
        ("from .protocol import v2", "v2.Halted"),
    ],
)
def test_the_package_is_found_under_every_name(uses: impact.Uses, tmp_path: Path, head: str, name: str) -> None:
    assert _search(uses, tmp_path, f"{head}\nprint({name})") == [(2, "certain", "V-", "Event(halted)")]


@pytest.mark.parametrize("module", ["acpwire.v2", "acpwire.wire.v2.types", "mine.protocol.v2"])
def test_an_import_of_a_type_that_is_gone_is_a_use(uses: impact.Uses, tmp_path: Path, module: str) -> None:
    code = f"from {module} import Account, Halted as H\n\nprint(H)\n"
    assert _search(uses, tmp_path, code) == [
        (1, "certain", "V-", "Event(halted)"),
        (3, "certain", "V-", "Event(halted)"),
    ]


LESS_SURE = [
    ("x.colour", "likely", "F-", "Account.colour"),
    ("x.state == 'cold'", "likely", "E-", "State"),
    ("make(state='cold')", "likely", "E-", "State"),
    ("print('cold')", "possible", "E-", "State"),
    ("{'kind': 'halted'}", "possible", "V-", "Event(halted)"),
    ("print('work/stop')", "likely", "M", "work/stop"),
]


@pytest.mark.parametrize(("code", "certainty", "cls", "name"), LESS_SURE, ids=lambda one: one[:50])
def test_how_sure_a_use_is_that_can_be_something_else(
    uses: impact.Uses, tmp_path: Path, code: str, certainty: str, cls: str, name: str
) -> None:
    assert _search(uses, tmp_path, HEAD + code) == [(2, certainty, cls, name)]


@pytest.mark.parametrize(
    "code",
    [
        "v2.Started(run_id='', place='')",
        "v2.Started(**given)",
        "def f(x: v2.Started): return x.run_id",
        "x.run_id",  # other classes have it still
        "def f(x: v2.Started): return x.state == 'warm'",
        '"""cold"""',
        "def f():\n    'halted'",
        "print('colder')",
        "v2.Account",
        "x = v2.Account(owner_name='')\nx = other()\nx.note",
        "for x in y: x.note",
    ],
)
def test_what_did_not_change_is_no_use(uses: impact.Uses, tmp_path: Path, code: str) -> None:
    assert _search(uses, tmp_path, HEAD + code) == []


@pytest.mark.parametrize("head", ["", "from other import v3\n", "import v20\n", "from mine.v2x import Halted\n"])
def test_a_file_that_imports_no_such_package_has_no_uses(uses: impact.Uses, tmp_path: Path, head: str) -> None:
    assert _search(uses, tmp_path, f"{head}print('cold', x.colour, 'work/stop')") == []


def test_a_name_that_can_be_two_things_is_not_certain(uses: impact.Uses, tmp_path: Path) -> None:
    code = "def f(x: v2.Account):\n    x = v2.Started(run_id='', place='')\n    return x.colour, x.note"
    assert _search(uses, tmp_path, HEAD + code) == [(4, "likely", "F-", "Account.colour")]


def test_a_tree_is_read_without_what_is_hidden_installed_or_generated(uses: impact.Uses, tmp_path: Path) -> None:
    for name in ("a.py", "deep/b.py", ".venv/c.py", "venv/lib/d.py", "__pycache__/e.py", "x/site-packages/f.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + "v2.Halted\n", "utf-8")
    (tmp_path / "g.py").write_text("# Generated by acpwire-codegen 1\n" + HEAD + "v2.Halted\n", "utf-8")
    (tmp_path / "h.txt").write_text(HEAD + "v2.Halted\n", "utf-8")
    found = [Path(use.file).relative_to(tmp_path).as_posix() for use in impact.search(tmp_path, uses)]
    assert found == ["a.py", "deep/b.py"]


def test_code_is_not_run(uses: impact.Uses, tmp_path: Path) -> None:
    target = tmp_path / "ran"
    code = f"{HEAD}open({str(target)!r}, 'w')\nv2.Halted"
    assert len(_search(uses, tmp_path, code)) == 1
    assert not target.exists()


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def operands(tmp_path: Path) -> list[str]:
    """The two schemas as files."""
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, defs in zip(paths, (OLD, NEW), strict=True):
        path.write_text(json.dumps({"$defs": defs}), "utf-8")
    return [str(path) for path in paths]


def test_each_use_is_a_line_with_file_line_certainty_and_what_to_do(
    operands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "code.py"
    file.write_text(f"{HEAD}print(v2.Halted, 'cold')\n", "utf-8")
    assert main(["drift", *operands, "--impact", str(file)]) == 0
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == (
        f"{file}:2: certain: `v2.Halted`: V- Event(halted) (Halted); "
        "Stop sending halted, and drop its case. With it go Cause, Halted."
    )
    assert second.startswith(f"{file}:2: possible: 'cold': E- State")
    assert last == "1 certain, 1 possible"


def test_json_has_the_uses_beside_the_changes(
    operands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "code.py"
    file.write_text(f"{HEAD}v2.Halted\n", "utf-8")
    assert main(["drift", *operands, "--impact", str(file), "--format", "json", "--fail-on", "breaking"]) == 1
    told = json.loads(capsys.readouterr().out)
    (use,) = told["impact"]
    assert (use["file"], use["line"], use["certainty"]) == (str(file), 2, "certain")
    assert told["changes"][use["change"]]["class"] == "V-"


def test_code_that_uses_nothing_of_it_is_told_so(
    operands: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["drift", *operands, "--impact", str(tmp_path / "empty")]) == 0
    assert capsys.readouterr().out == "No use of what changed.\n"


@pytest.mark.parametrize(
    ("name", "code", "form", "said"),
    [
        ("none.py", None, "text", "cannot read"),
        ("bad.py", "def (", "text", "bad.py:1 is no Python"),
        ("fine.py", "x = 1", "html", "--impact prints text or json, not html"),
    ],
)
def test_trouble_with_the_code_ends_with_two_and_says_where(
    operands: list[str],
    tmp_path: Path,
    name: str,
    code: str | None,
    form: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if code is not None:
        (tmp_path / name).write_text(code, "utf-8")
    assert main(["drift", *operands, "--impact", str(tmp_path / name), "--format", form]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_every_certainty_is_counted() -> None:
    assert report.uses_as_text([]) == "No use of what changed.\n"
    assert set(impact.CERTAINTIES) == {"certain", "likely", "possible"}
