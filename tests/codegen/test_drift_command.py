"""The command `drift`, its four forms, its exit codes, and the entry that `pin` writes.

Owns: `acpwire-codegen drift`, `acpwire_codegen.report`, and the change log beside the pinned schema. What is found is
tested by `test_drift`, uses in code by `test_impact`.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from acpwire_codegen import load, pin, report
from acpwire_codegen.__main__ import main
from acpwire_codegen.changes import SEVERITIES, Report
from acpwire_codegen.drift import compare

ROOT = Path(__file__).parents[2]
OLD = str(ROOT / "tests" / "corpus" / "schemas" / "1.6.1-v2.unstable.json")
SENTENCE = "Seventeen lanterns MUST be lit before the ferry leaves the northern quay"


def _schema(**members: Any) -> dict[str, Any]:
    tell = {"type": "object", "properties": members, "x-method": "tell", "x-side": "client"}
    return {"title": "Made up", "$defs": {"TellNotification": tell}}


def _write(path: Path, document: dict[str, Any]) -> str:
    path.write_text(json.dumps(document), "utf-8")
    return str(path)


@pytest.fixture
def plain(tmp_path: Path) -> str:
    """A schema of one message with one optional member."""
    return _write(tmp_path / "plain.json", _schema(text={"type": "string"}))


def _made(*, old: dict[str, Any], new: dict[str, Any]) -> Report:
    sources = [load.as_source("made up", json.dumps(one).encode(), name) for name, one in (("1", old), ("2", new))]
    return compare(sources[0], sources[1], {})


# --- what it is given, and how it ends --------------------------------------------------------------------------------


def test_a_file_meets_the_pinned_schema(capsys: pytest.CaptureFixture[str]) -> None:
    begun = time.perf_counter()
    assert main(["drift", OLD, "pinned"]) == 0
    assert time.perf_counter() - begun < 10
    said = capsys.readouterr().out
    version = load.read_pinned(ROOT / "schema").version
    head = rf"ACP schema 1\.6\.1-v2\.unstable\.json \(sha256:\w+\) -> {re.escape(version)}\n\n\d+ changes: \d+ breaking"
    assert re.match(head, said)
    assert max(map(len, said.splitlines())) <= 120


def test_the_pinned_schema_against_itself_is_no_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drift", "pinned", "pinned", "--fail-on", "prose"]) == 0
    assert "Nothing changed." in capsys.readouterr().out


def test_a_version_comes_from_npm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.dumps(_schema(text={"type": "string"})).encode()
    asked: list[str] = []

    def fetch(spec: str) -> tuple[str, bytes, dict[str, str]]:
        asked.append(spec)
        return spec.rpartition("@")[2], data, {"file": "made-up.json"}

    monkeypatch.setattr(pin, "fetch_npm", fetch)
    assert main(["drift", "npm:@made-up/acp@1.0.0", "npm:@made-up/acp@1.0.1"]) == 0
    assert asked == ["npm:@made-up/acp@1.0.0", "npm:@made-up/acp@1.0.1"]
    assert capsys.readouterr().out == "ACP schema 1.0.0 -> 1.0.1\n\nNothing changed.\n"


ADDED = {"text": {"type": "string"}, "more": {"type": "boolean"}}
CLOSED = {"text": {"type": "integer"}}
WORDS = {"text": {"type": "string", "description": SENTENCE}}
PATCH = {"text": {"type": ["string", "null"]}}


@pytest.mark.parametrize(
    ("members", "level", "code"),
    [
        (ADDED, "breaking", 0),
        (ADDED, "behavioural", 0),
        (ADDED, "additive", 1),
        (ADDED, "prose", 0),
        (CLOSED, "breaking", 1),
        (CLOSED, "behavioural", 1),
        (CLOSED, "additive", 1),
        (WORDS, "additive", 0),
        (WORDS, "prose", 1),
        (PATCH, "breaking", 1),
    ],
)
def test_fail_on_ends_with_one_where_there_is_such_a_change(
    plain: str, tmp_path: Path, members: dict[str, Any], level: str, code: int
) -> None:
    old = plain
    if members is WORDS:
        old = _write(tmp_path / "old.json", _schema(text={"type": "string", "description": "Old words."}))
    new = _write(tmp_path / "new.json", _schema(**members))
    assert main(["drift", old, new]) == 0
    assert main(["drift", old, new, "--fail-on", level]) == code


def test_what_flags_absorb_is_behavioural(tmp_path: Path) -> None:
    lenient = {"x-deserialize-default-on-error": True}
    old = _write(tmp_path / "old.json", _schema(text={"type": ["string", "null"], **lenient}))
    new = _write(tmp_path / "new.json", _schema(text={"type": ["integer", "null"], **lenient}))
    assert main(["drift", old, new, "--fail-on", "breaking"]) == 0
    assert main(["drift", old, new, "--fail-on", "behavioural"]) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read"),
        ("{", "is no JSON"),
        ("{}", "is no ACP schema"),
        ('{"$defs": {"A": {"type": "object", "if": {}, "allOf": [{}, {}]}}}', "/$defs/A (definition A)"),
    ],
)
def test_trouble_ends_with_two_and_says_where(
    plain: str, tmp_path: Path, text: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_text(text, "utf-8")
    for operands in ([plain, str(path)], [str(path), plain]):
        assert main(["drift", *operands]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert said in err


def test_an_unknown_form_is_a_wrong_use(plain: str) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["drift", plain, plain, "--format", "xml"])
    assert raised.value.code == 2


# --- the four forms ---------------------------------------------------------------------------------------------------


def test_json_has_every_change_with_both_severities_and_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drift", OLD, "pinned", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == ["old", "new", "summary", "changes"]
    for change in told["changes"]:
        assert list(change) == ["kind", "class", "definition", "path", "old", "new", "receiver", "sender", "note"]
    worst = [min(c["receiver"], c["sender"], key=SEVERITIES.index) for c in told["changes"] if c["class"] != "DS"]
    assert {severity: told["summary"][severity] for severity in SEVERITIES} == {
        severity: worst.count(severity) for severity in SEVERITIES
    }
    assert told["summary"]["total"] == len(told["changes"])


def test_a_shared_change_is_one_however_many_messages_it_is_in() -> None:
    found = compare(load.read_schema(Path(OLD)), load.read_pinned(ROOT / "schema"), {})
    (size,) = [change for change in found.changes if change.name == "ResourceLink.size"]
    assert size.path.startswith("both ways: ")
    assert size.path.endswith("resource_link).size (in 3 messages)")
    assert size.roles == {"agent", "client"}


def test_severities_are_for_the_party_that_a_role_is() -> None:
    bound = {"x-method": "ask", "x-side": "agent"}
    request: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}, **bound}
    needing: dict[str, Any] = {**request, "required": ["a"]}
    old, new = ({"$defs": {"AskRequest": one, "AskResponse": bound}} for one in (request, needing))
    (change,) = _made(old=old, new=new).changes
    assert (change.receiver, change.sender) == ("none", "breaking")
    assert change.for_role("client") == "breaking"  # it sends the params of a method of the agent
    assert change.for_role("agent") == "none"


def test_text_puts_together_what_is_alike_and_says_once_what_to_do() -> None:
    old = _schema(a={"type": "string"}, b={"type": "string"}, c={"type": "string"})
    new = _schema(a={"type": "boolean"}, b={"type": "boolean"}, c={"type": "boolean"})
    said = report.as_text(_made(old=old, new=new))
    assert said.count("Read and write") == 1
    assert (
        "TellNotification.a, TellNotification.b, TellNotification.c: string -> boolean [agent -> client: tell]" in said
    )


class _Page(HTMLParser):
    """What a page loads, and its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.rows: list[dict[str, str | None]] = []
        self.fields: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.loads += [str(value) for name, value in attrs if name in ("src", "href", "action", "data")]
        if tag == "tr" and "data-worst" in given:
            self.rows.append(given)
        if tag in ("input", "select"):
            self.fields.append(given.get("name"))


def test_html_is_one_page_that_loads_nothing_and_can_be_filtered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drift", OLD, "pinned", "--format", "html"]) == 0
    text = capsys.readouterr().out
    page = _Page()
    page.feed(text)
    assert page.loads == []
    assert not re.search(r"https?:|@import|url\(", text)
    assert set(page.fields) == {"severity", "role", "method", "text"}
    found = compare(load.read_schema(Path(OLD)), load.read_pinned(ROOT / "schema"), {})
    assert len(page.rows) >= len(found.structure) - 5
    for row in page.rows:
        assert {row["data-worst"], row["data-agent"], row["data-client"]} <= set(SEVERITIES)
    assert any("session/update" in str(row["data-methods"]).split() for row in page.rows)


def test_html_shows_what_comes_from_a_schema_as_text() -> None:
    old = _schema(**{"<script>alert(1)</script>": {"type": "string"}})
    said = report.as_html(_made(old=old, new=_schema()))
    assert "<script>alert" not in said
    assert "&lt;script&gt;alert(1)" in said


@pytest.mark.parametrize("form", report.FORMATS)
def test_no_form_repeats_a_sentence_of_a_schema(form: str) -> None:
    old = _schema(text={"type": "string", "description": SENTENCE})
    new = _schema(text={"type": "string", "description": f"{SENTENCE}. It SHOULD be done with -32602 in mind."})
    found = _made(old=old, new=new)
    assert [(change.cls, change.review) for change in found.changes] == [("DS", True)]
    said = report.FORMATS[form](found)
    assert "TellNotification.text" in said
    assert "SHOULD" in said
    assert "lanterns" not in said


@pytest.mark.parametrize("form", report.FORMATS)
def test_a_report_is_the_same_each_time(form: str) -> None:
    first, second = (
        report.FORMATS[form](compare(load.read_schema(Path(OLD)), load.read_pinned(ROOT / "schema"), {}))
        for _ in range(2)
    )
    assert first == second


# --- the words that bind ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "review"),
    [
        ("It is so.", "It is thus.", False),
        ("It is so.", "It MUST be so.", True),
        ("It SHOULD be so.", "It is so.", True),
        ("Null is nothing.", "It is unlike null.", True),
        ("It MUST be so. It is fine.", "It MUST be so. It is good.", False),
        ("It is so.", "It is so. It MAY not be.", False),
        ("It is so.", "It is so, else -32602.", True),
        ("Kept.", "Left unchanged where omitted.", True),
    ],
)
def test_with_both_texts_at_hand_the_sentences_that_changed_decide_what_is_to_be_read(
    before: str, after: str, review: bool
) -> None:
    old = _schema(text={"type": "string", "description": before})
    new = _schema(text={"type": "string", "description": after})
    (change,) = _made(old=old, new=new).changes
    assert (change.kind, change.cls, change.review) == ("prose", "DS", review)


def test_without_the_texts_marker_words_decide() -> None:
    old = load.as_source("a", json.dumps(_schema(text={"type": "string", "description": "It MUST. So."})).encode(), "1")
    new = load.as_source("b", json.dumps(_schema(text={"type": "string", "description": "It MUST. Ok."})).encode(), "2")
    kept = load.Source(old.document, old.prose, "1", old.sha256, pinned=False)
    assert [change.review for change in compare(old, new, {}).changes] == [False]
    assert [change.review for change in compare(kept, new, {}).changes] == [True]


def test_words_said_in_many_places_are_one_change() -> None:
    def schema(words: str) -> dict[str, Any]:
        return _schema(**{name: {"type": "string", "description": words} for name in "abc"})

    (change,) = _made(old=schema("Old words."), new=schema("New words, which MUST be read.")).changes
    assert change.path == "TellNotification.a (and 2 more with the same words)"


# --- the change log of the pin ----------------------------------------------------------------------------------------


def test_the_change_log_starts_with_the_way_to_the_pinned_version() -> None:
    text = (ROOT / "schema" / load.CHANGES).read_text("utf-8")
    version = load.read_pinned(ROOT / "schema").version
    heads = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert heads[:2] == [f"1.6.1 -> {version}", f"2.0.0 -> {version}"]
    for name in ("AvailableCommand", "UsageUpdate.cost", "nes/start", "AgentBatchCall", "AuthCapabilities"):
        assert f"`{name}" in text.split("\n## ")[1]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A schema directory of its own."""
    path = tmp_path / "schema"
    path.mkdir()
    (path / load.DOCS).write_text('[definitions]\nTellNotification = "Something that is told."\n', "utf-8")
    (path / load.OVERRIDES).write_text("", "utf-8")
    monkeypatch.setattr(load, "schema_directory", lambda: path)
    return path


def _pin(tmp_path: Path, version: str, **members: Any) -> int:
    return main(["pin", "--file", _write(tmp_path / "new.json", _schema(**members)), "--source", version])


def test_pin_writes_what_changed_on_top_of_the_log(directory: Path, tmp_path: Path) -> None:
    assert _pin(tmp_path, "1", text={"type": "string"}) == 0
    assert not (directory / load.CHANGES).exists()
    assert _pin(tmp_path, "2", text={"type": "string"}, more={"type": "boolean"}) == 0
    assert _pin(tmp_path, "3", text={"type": "boolean"}, more={"type": "boolean"}) == 0
    text = (directory / load.CHANGES).read_text("utf-8")
    assert text.startswith(report.NEW_LOG.splitlines()[0])
    first, second = text.split("\n## ")[1:]
    assert first.startswith("2 -> 3\n")
    assert "`TellNotification.text`: string -> boolean" in first
    assert second.startswith("1 -> 2\n")
    assert "`TellNotification.more`: optional boolean" in second


def test_pin_writes_nothing_about_a_schema_that_is_the_same(directory: Path, tmp_path: Path) -> None:
    for version in ("1", "2"):
        assert _pin(tmp_path, version, text={"type": "string"}) == 0
    assert not (directory / load.CHANGES).exists()


def test_pin_goes_on_where_the_old_pin_is_broken(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _pin(tmp_path, "1", text={"type": "string"}) == 0
    (directory / load.STRUCTURE).write_text("{}", "utf-8")
    assert _pin(tmp_path, "2", text={"type": "boolean"}) == 0
    assert f"{load.CHANGES} gets no entry" in capsys.readouterr().err
    assert load.read_pinned(directory).version == "2"


def test_a_log_that_was_edited_by_hand_keeps_its_words(directory: Path, tmp_path: Path) -> None:
    assert _pin(tmp_path, "1", text={"type": "string"}) == 0
    (directory / load.CHANGES).write_text("# Mine\n\nWords.\n\n## 0 -> 1\n\n- all\n", "utf-8")
    assert _pin(tmp_path, "2", text={"type": "boolean"}) == 0
    text = (directory / load.CHANGES).read_text("utf-8")
    assert text.startswith("# Mine\n\nWords.\n\n## 1 -> 2\n")
    assert text.endswith("\n## 0 -> 1\n\n- all\n")


def test_the_log_comes_with_the_package_of_the_generator() -> None:
    """`schema/` is copied into it as it is."""
    assert (load.schema_directory() / load.CHANGES).is_file()
    assert shutil.which("acpwire-codegen")
