"""What the build starts from: reading schemas and tables, and what is kept of upstream's prose.

Owns: `acpwire_codegen.load`, formats and refusals. The commands on top of it are tried in test_pin and test_main.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acpwire_codegen import load

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "schema"
CORPUS = sorted((ROOT / "tests" / "corpus" / "schemas").glob("*.json"))

# --- reading ----------------------------------------------------------------------------------------------------------


def test_the_schema_directory_of_a_checkout_is_beside_codegen() -> None:
    assert load.schema_directory() == SCHEMA


def test_the_schema_directory_of_an_installed_package_is_inside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "schema").mkdir()
    monkeypatch.setattr(load, "__file__", str(tmp_path / "load.py"))
    assert load.schema_directory() == tmp_path / "schema"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no JSON"),
        (b"<html>", "no JSON"),
        (b"\xff\xfe{}", "no JSON"),
        (b"[" * 100_000, "nested too deep"),
        (b"[]", "`$defs`"),
        (b"{}", "`$defs`"),
        (b'{"$defs": []}', "`$defs`"),
        (b'{"$defs": {}}', "`$defs`"),
        (b'{"definitions": {}}', "`$defs`"),
    ],
)
def test_what_is_no_schema_is_refused_by_name_and_reason(data: bytes, said: str) -> None:
    with pytest.raises(load.SchemaError) as caught:
        load.parse("draft.json", data)
    assert "draft.json" in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(load.SchemaError, match=r"nowhere\.json: No such file"):
        load.read_schema(tmp_path / "nowhere.json")
    with pytest.raises(load.SchemaError, match="directory"):
        load.read_schema(tmp_path)


def test_the_pinned_schema_is_the_one_that_its_hashes_say() -> None:
    source = load.read_pinned(SCHEMA)
    assert source.pinned
    assert source.document == json.loads((SCHEMA / load.STRUCTURE).read_bytes())
    assert source.version == load.read_tables(SCHEMA).pinned["version"]
    assert source.sha256 == load.structure_hash(source.document)
    assert not source.texts


@pytest.mark.parametrize(("old", "new"), [(b'"string"', b'"number"'), (b"\n", b" \n")])
def test_a_pinned_schema_that_was_edited_by_hand_is_refused(tmp_path: Path, old: bytes, new: bytes) -> None:
    copy = Path(shutil.copytree(SCHEMA, tmp_path / "schema"))
    structure = copy / load.STRUCTURE
    structure.write_bytes(structure.read_bytes().replace(old, new, 1))
    with pytest.raises(load.SchemaError) as caught:
        load.read_pinned(copy)
    assert load.STRUCTURE in str(caught.value)
    assert load.PINNED in str(caught.value)


@pytest.mark.parametrize("name", [load.PINNED, load.PROSE, load.STRUCTURE])
def test_a_missing_file_of_the_pin_is_named(tmp_path: Path, name: str) -> None:
    copy = Path(shutil.copytree(SCHEMA, tmp_path / "schema"))
    (copy / name).unlink()
    with pytest.raises(load.SchemaError, match=name):
        load.read_pinned(copy)


def test_the_hand_kept_tables_are_read_as_they_are_and_may_lack_a_pin(tmp_path: Path) -> None:
    (tmp_path / load.DOCS).write_text('[definitions]\nA = "One."\n', "utf-8")
    (tmp_path / load.OVERRIDES).write_text('[plain]\nA = ["b"]\n', "utf-8")
    tables = load.read_tables(tmp_path)
    assert tables == load.Tables({"definitions": {"A": "One."}}, {"plain": {"A": ["b"]}}, {})
    assert list(load.doc_lines(tables.docs)) == [("definitions.A", "One.")]


@pytest.mark.parametrize("name", [load.DOCS, load.OVERRIDES])
@pytest.mark.parametrize("data", [b"[plain\n", b"\xff"])
def test_a_table_that_is_no_toml_is_named(tmp_path: Path, name: str, data: bytes) -> None:
    for table in (load.DOCS, load.OVERRIDES):
        (tmp_path / table).write_bytes(b"")
    (tmp_path / name).write_bytes(data)
    with pytest.raises(load.SchemaError, match=f"{name} is no TOML"):
        load.read_tables(tmp_path)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_schema_without_prose_comes_back_whole(path: Path) -> None:
    source = load.read_schema(path)
    assert not source.pinned
    assert source.document == json.loads(path.read_bytes())
    assert not source.prose
    assert load.parse(path.name, load.serialise(source.document)) == source.document


def _written(tmp_path: Path, name: str, document: dict[str, Any], **layout: Any) -> load.Source:
    path = tmp_path / name
    path.write_text(json.dumps(document, **layout), "utf-8")
    return load.read_schema(path)


def test_the_hash_of_a_schema_depends_on_its_structure_alone(tmp_path: Path) -> None:
    plain = {"$defs": {"A": {"type": "object", "properties": {"x": {"type": "string"}}}}}
    told = {
        "$defs": {
            "A": {"properties": {"x": {"description": "Words.", "type": "string"}}, "type": "object"},
        },
        "description": "More words.",
    }
    other = {"$defs": {"A": {"type": "object", "properties": {"x": {"type": "integer"}}}}}
    first = _written(tmp_path, "a.json", plain)
    second = _written(tmp_path, "b.json", told, indent=4)
    assert first.sha256 == second.sha256
    assert first.version == second.version
    assert first.sha256 != _written(tmp_path, "c.json", other).sha256


def test_the_file_at_hand_keeps_its_sentences_in_memory(tmp_path: Path) -> None:
    source = _written(tmp_path, "a.json", {"$defs": {"A": {"description": "It MUST be so."}}})
    assert source.texts == {"/$defs/A": "It MUST be so."}
    assert source.prose["/$defs/A"].markers == ("MUST",)


# --- taking prose out -------------------------------------------------------------------------------------------------

Node = dict[str, Any]
KEYS = st.sampled_from(["description", "x-docs-ignore", "properties", "$defs", "items", "title", "a", "b"])


@st.composite
def told_and_bare(draw: st.DrawFn, depth: int = 3) -> tuple[Node, Node]:
    """A schema with prose, and the same written without it; keywords in any order."""
    told: Node = {}
    bare: Node = {}
    inner = ["properties", "items", "anyOf"] if depth else []
    keywords = ["type", "title", "description", "x-docs-ignore", "required", *inner]
    for keyword in draw(st.permutations(keywords))[: draw(st.integers(0, 5))]:
        if keyword == "description":
            told[keyword] = draw(st.text("abc. ", max_size=9))
        elif keyword == "x-docs-ignore":
            told[keyword] = True
        elif keyword == "properties":
            members = draw(st.dictionaries(KEYS, told_and_bare(depth - 1), max_size=3))
            told[keyword] = {name: with_prose for name, (with_prose, _) in members.items()}
            bare[keyword] = {name: without for name, (_, without) in members.items()}
        elif keyword == "items":
            told[keyword], bare[keyword] = draw(told_and_bare(depth - 1))
        elif keyword == "anyOf":
            branches = draw(st.lists(told_and_bare(depth - 1), max_size=2))
            told[keyword] = [with_prose for with_prose, _ in branches]
            bare[keyword] = [without for _, without in branches]
        else:
            told[keyword] = bare[keyword] = draw(st.lists(KEYS, max_size=2)) if keyword == "required" else "object"
    return told, bare


@st.composite
def documents(draw: st.DrawFn) -> tuple[Node, Node]:
    """A document of such schemas."""
    defs = draw(st.dictionaries(KEYS, told_and_bare(), max_size=3))
    told: Node = {"description": "Root.", "$defs": {name: with_prose for name, (with_prose, _) in defs.items()}}
    return told, {"$defs": {name: without for name, (_, without) in defs.items()}}


@given(documents())
@settings(max_examples=100)
def test_prose_is_taken_out_and_nothing_else_is_touched(pair: tuple[Node, Node]) -> None:
    """H14: members called `description` or `x-docs-ignore` are members, not prose. Order is kept too."""
    told, bare = pair
    before = json.dumps(told)
    structure, texts = load.split_prose(told)
    assert json.dumps(structure) == json.dumps(bare)
    assert json.dumps(told) == before
    assert load.split_prose(structure) == (structure, {})
    assert texts[""] == "Root."


@given(documents())
@settings(max_examples=100)
def test_each_text_is_kept_under_the_pointer_of_what_it_describes(pair: tuple[Node, Node]) -> None:
    told, _ = pair
    _, texts = load.split_prose(told)
    for pointer, text in texts.items():
        node: Any = told
        for step in pointer.split("/")[1:]:
            node = node[int(step) if step.isdecimal() else step]
        assert node["description"] == text


@pytest.mark.parametrize("keyword", ["default", "const", "enum", "examples"])
def test_a_value_in_the_schema_is_no_prose_whatever_its_members_are_called(keyword: str) -> None:
    """`pin` drops prose and nothing else; what stands under these keywords is data (H14)."""
    value: Any = {"description": "data", "x-docs-ignore": True, "kept": 1}
    node = {keyword: [value] if keyword in ("enum", "examples") else value}
    structure, texts = load.split_prose({"$defs": {"A": node}})
    assert structure == {"$defs": {"A": node}}
    assert not texts


def test_a_description_that_is_no_text_is_structure() -> None:
    document = {"$defs": {"A": {"properties": {"description": {"type": "string"}}, "description": {"odd": 1}}}}
    assert load.split_prose(document) == (document, {})


def test_the_pinned_structure_holds_no_prose_and_is_written_as_pin_writes_it() -> None:
    data = (SCHEMA / load.STRUCTURE).read_bytes()
    structure, texts = load.split_prose(load.parse(load.STRUCTURE, data))
    assert not texts
    assert load.serialise(structure) == data


# --- what is kept of it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("marker", load.MARKERS)
def test_every_marker_word_is_kept(marker: str) -> None:
    assert marker in load.prose_of(f"Peers ({marker}) agree.").markers
    assert marker not in load.prose_of(f"x{marker}y {marker}ish").markers


@pytest.mark.parametrize(
    ("text", "markers"),
    [
        ("It must, should and may.", ()),
        ("Null and NULL, Omitted.", ("null", "omitted")),
        ("Fails with -32602, or -32000 and -32602.", ("-32000", "-32602")),
        ("Not -3260 nor -326020.", ()),
        ("A value patches by key; unchanged values stay.", ("unchanged",)),
    ],
)
def test_marker_words_are_words(text: str, markers: tuple[str, ...]) -> None:
    assert load.prose_of(text).markers == markers


@pytest.mark.parametrize(
    ("link", "page"),
    [
        ("https://example.org/protocol/extensibility", "extensibility"),
        ("https://example.org/protocol/draft/tool-calls#content", "tool-calls#content"),
        ("https://example.org/protocol/v2/draft/prompt-lifecycle", "prompt-lifecycle"),
        ("https://example.org/protocol/v2/plans", "plans"),
        ("https://example.org/other/plans", ""),
    ],
)
def test_the_page_is_kept_wherever_the_site_puts_it(link: str, page: str) -> None:
    assert load.prose_of(f"See [the page]({link}) for more.").page == page


@given(st.text(max_size=40), st.text(max_size=40))
@settings(max_examples=50)
def test_other_words_have_another_hash_and_equal_words_the_same(first: str, second: str) -> None:
    assert (load.prose_of(first) == load.prose_of(second)) == (first == second)


# --- words of our own -------------------------------------------------------------------------------------------------

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]


def _borrowed(ours: str, theirs: str) -> list[str]:
    return load.borrowed(iter([("fields.X.y", ours)]), {"/$defs/X": theirs})


@given(
    st.lists(st.text("abcdefghij", min_size=1, max_size=5), min_size=8, max_size=12),
    st.sampled_from([str.upper, str.title, str.capitalize]),
    st.sampled_from([" ", ", ", ". ", "; ", ": ", " (", ") ", "` ", '" ', "! ", "\n", "  "]),
)
@settings(max_examples=60)
def test_eight_words_in_a_row_are_found_whatever_their_case_and_punctuation(
    words: list[str], case: Callable[[str], str], mark: str
) -> None:
    found = _borrowed("zz " + mark.join(map(case, words)) + " zz", " ".join(words) + ".")
    assert found
    assert all(line.startswith("fields.X.y: ") for line in found)


@pytest.mark.parametrize("mark", [" - ", " -- ", " / ", " \N{EM DASH} ", "'s "])
def test_a_sign_between_two_words_is_punctuation_too(mark: str) -> None:
    words = [*WORDS, "nine", "ten"]
    theirs = words if mark != "'s " else [part for word in words for part in (word, "s")]
    assert _borrowed(mark.join(words) + mark, " ".join(theirs))


@given(st.permutations(WORDS))
@settings(max_examples=30)
def test_seven_words_in_a_row_are_ours_to_use(words: list[str]) -> None:
    assert not _borrowed(" ".join(words[:7]), " ".join(words))
    assert not _borrowed(" ".join([*words[:7], "other", words[7]]), " ".join(words))
    assert _borrowed(" ".join(words), " ".join(words))


def test_words_are_not_joined_across_two_sentences_of_upstream() -> None:
    ours = iter([("definitions.X", " ".join(WORDS))])
    assert not load.borrowed(ours, {"/a": " ".join(WORDS[:4]), "/b": " ".join(WORDS[4:])})
