"""The hand-kept tables: nothing in them may be stale, unused or missing, and our docs must say something.

Owns: `acpwire_codegen.ledger`, and what lies in `schema/docs.toml` and `schema/overrides.toml`. What the entries lead
to in the generated package is tried in test_decide.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acpwire_codegen import load
from acpwire_codegen.decide import build
from acpwire_codegen.ledger import Ledger, ModelError, prose_guard

SCHEMA = Path(__file__).parents[2] / "schema"
PINNED = load.read_pinned(SCHEMA)
OTHER = replace(PINNED, pinned=False)
"""The same schema as anybody's, which the tables fit as well."""
TABLES = load.read_tables(SCHEMA)
Change = Callable[[load.Tables], object]


def _changed(change: Change) -> load.Tables:
    tables = copy.deepcopy(TABLES)
    change(tables)
    return tables


def _overrides(table: str, key: str, value: Any) -> Change:
    """Add an entry to overrides.toml."""
    return lambda tables: tables.overrides.setdefault(table, {}).update({key: value})


def _docs(table: str, key: str) -> Change:
    """Add a line to docs.toml."""
    return lambda tables: tables.docs[table].update({key: "Says something."})


def _without(*path: str) -> Change:
    """Leave out an entry: file, table, key, and for lists the value."""
    file, table, key, *value = path

    def change(tables: load.Tables) -> None:
        entries = getattr(tables, file)[table]
        if value:
            entries[key].remove(value[0])
        else:
            del entries[key]

    return change


def _edit(**keys: Any) -> Change:
    """Change the first edit, or add one where it has a path of its own."""

    def change(tables: load.Tables) -> None:
        edits = tables.overrides["edit"]
        if "path" in keys:
            edits.append({"value": {"type": "string"}, "reason": "tried", **keys})
        else:
            edits[0].update(keys)

    return change


CASES: dict[str, tuple[Change, str]] = {
    # unused
    "edit-nowhere": (_edit(path="/$defs/Nowhere/properties/x"), "/$defs/Nowhere/properties/x"),
    "edit-below-nothing": (
        _edit(path="/$defs/Cost/properties/amount/items/x"),
        "/$defs/Cost/properties/amount/items/x",
    ),
    "name": (_overrides("names", "Nowhere", {"expected": "Nowhere", "name": "X"}), "names.Nowhere"),
    "rename": (_overrides("renames", "Nowhere", "tried"), "renames.Nowhere"),
    "three-state": (_overrides("three_state", "Nowhere.x", {"prose": ""}), "three_state.Nowhere.x"),
    "three-state-required": (_overrides("three_state", "Cost.amount", {"prose": ""}), "three_state.Cost.amount"),
    "meta": (_overrides("meta", "Nowhere", {"rule": "patch", "prose": ""}), "meta.Nowhere"),
    "meta-of-none": (_overrides("meta", "SessionId", {"rule": "patch", "prose": ""}), "meta.SessionId"),
    "plain": (_overrides("plain", "Nowhere", ["x"]), "plain.Nowhere lists x"),
    "plain-required": (_overrides("plain", "Cost", ["amount"]), "plain.Cost lists amount"),
    "gate": (_overrides("gates", "no/where agent", "x"), "gates.no/where agent"),
    "gate-other-side": (_overrides("gates", "session/prompt client", "x"), "gates.session/prompt client"),
    "rule": (_overrides("rules", "Cost.nowhere", {"kind": "word", "requirement": "x"}), "rules.Cost.nowhere"),
    "type": (_overrides("types", "Nowhere", {"kind": "absolute", "requirement": "x"}), "types.Nowhere"),
    "table": (_overrides("three_sate", "UsageUpdate.cost", {"prose": ""}), "three_sate"),
    "doc-definition": (_docs("definitions", "Nowhere"), "definitions.Nowhere"),
    "doc-variant": (_docs("variants", "ContentBlock/nowhere"), "variants.ContentBlock/nowhere"),
    "doc-field": (_docs("fields", "Cost.nowhere"), "fields.Cost.nowhere"),
    "no-class-has-one": (_overrides("no_class", "Cost", "tried"), "Cost is listed in no_class but has a class"),
    "no-class-nowhere": (_overrides("no_class", "Nowhere", "tried"), "Nowhere is listed in no_class"),
    # stale
    "edit-of-something-else": (
        _edit(path="/$defs/Cost/properties/amount/type", expected="integer", value="string"),
        "/$defs/Cost/properties/amount/type is stale",
    ),
    "edit-of-what-is-there": (_edit(path="/$defs/Cost/properties/amount"), "/$defs/Cost/properties/amount is stale"),
    "name-stale": (
        lambda tables: tables.overrides["names"]["DiffChange/add"].update(expected="Another"),
        "names.DiffChange/add is stale: it expects Another, the name is AddDiffChange",
    ),
    # missing
    "no-doc-definition": (_without("docs", "definitions", "Cost"), "definitions.Cost"),
    "no-doc-variant": (_without("docs", "variants", "ContentBlock/text"), "variants.ContentBlock/text"),
    "no-class-missing": (_without("overrides", "no_class", "IdleStateUpdate"), "IdleStateUpdate has no class"),
    "in-neither-list": (
        _without("overrides", "plain", "ProviderInfo", "current"),
        "ProviderInfo.current is nullable and in neither list",
    ),
    "patch-in-neither-list": (
        _without("overrides", "three_state", "UsageUpdate.cost"),
        "UsageUpdate.cost is nullable and in neither list",
    ),
}


def test_the_tables_fit_the_pinned_schema() -> None:
    assert build(PINNED, TABLES).warnings == []
    assert build(OTHER, TABLES).warnings == []


@pytest.mark.parametrize(("change", "said"), CASES.values(), ids=CASES)
def test_an_entry_that_does_not_fit_stops_the_build_by_name(change: Change, said: str) -> None:
    with pytest.raises(ModelError) as caught:
        build(PINNED, _changed(change))
    assert len(caught.value.troubles) == 1
    assert said in caught.value.troubles[0]
    assert str(caught.value) == caught.value.troubles[0]


@pytest.mark.parametrize(("change", "said"), CASES.values(), ids=CASES)
def test_for_another_schema_the_same_is_a_warning_and_the_build_goes_on(change: Change, said: str) -> None:
    model = build(OTHER, _changed(change))
    assert len(model.warnings) == 1
    assert said in model.warnings[0]
    assert {struct.name for struct in model.structs} > {"Cost", "Notice", "UsageUpdate"}


def test_a_stale_edit_is_told_before_what_follows_from_it() -> None:
    with pytest.raises(ModelError) as caught:
        build(PINNED, _changed(_edit(expected={"type": "integer"})))
    assert "senderSessionId is stale: expected {'type': 'integer'}" in caught.value.troubles[0]
    assert all("SessionMessageChunk.senderSessionId" in trouble for trouble in caught.value.troubles[1:])


def test_every_trouble_is_told_at_once() -> None:
    def change(tables: load.Tables) -> None:
        for one, _ in (CASES["gate"], CASES["no-doc-definition"], CASES["name-stale"]):
            one(tables)

    with pytest.raises(ModelError) as caught:
        build(PINNED, _changed(change))
    assert len(caught.value.troubles) == 3
    assert str(caught.value).splitlines() == caught.value.troubles


@pytest.mark.parametrize("member", ["ProviderInfo.current", "UsageUpdate.cost", "ToolCallUpdate.rawInput"])
def test_for_another_schema_an_unlisted_nullable_member_is_three_state(member: str) -> None:
    definition, _, wire = member.partition(".")

    def change(tables: load.Tables) -> None:
        tables.overrides["three_state"].pop(member, None)
        if wire in tables.overrides["plain"].get(definition, []):
            tables.overrides["plain"][definition].remove(wire)

    struct = next(s for s in build(OTHER, _changed(change)).structs if s.place == definition)
    found = next(one for one in struct.members if one.wire == wire)
    assert found.may_be_unset
    assert found.default == "UNSET"
    assert not found.patch


def test_for_another_schema_the_word_equivalent_makes_a_member_plain() -> None:
    """`Notice.description` is one of those of which upstream says that omitting and null are equivalent (C3)."""
    pointer = "/$defs/Notice/properties/description"
    change = _without("overrides", "plain", "Notice", "description")
    told = replace(OTHER, prose={**OTHER.prose, pointer: load.Prose("0" * 64, ("equivalent",))})
    model = build(told, _changed(change))
    member = next(m for s in model.structs if s.name == "Notice" for m in s.members if m.wire == "description")
    assert model.warnings == []
    assert member.default == "None"


def test_an_edit_that_another_schema_already_has_is_no_trouble_there() -> None:
    """1.6.1 has the two participants of a chunk that X7 adds to 2.4.0."""
    edits = TABLES.overrides["edit"]
    document = copy.deepcopy(OTHER.document)
    for edit in edits:
        _, _, definition, _, member = edit["path"].split("/")
        document["$defs"][definition]["properties"][member] = edit["value"]
    assert build(replace(OTHER, document=document), TABLES).warnings == []
    with pytest.raises(ModelError) as caught:
        build(replace(PINNED, document=document), TABLES)
    assert len(caught.value.troubles) == len(edits)


def test_edits_do_not_touch_the_source() -> None:
    before = copy.deepcopy(PINNED.document)
    edited = Ledger(PINNED, TABLES).edited()
    assert "senderSessionId" in edited["$defs"]["SessionMessageChunk"]["properties"]
    assert PINNED.document == before


# --- entries that rest on upstream's words ----------------------------------------------------------------------------


def _resting() -> list[tuple[str, str, str]]:
    """(table, key, pointer of the member) of every such entry."""
    found: list[tuple[str, str, str]] = []
    for key in TABLES.overrides["three_state"]:
        definition, _, wire = key.partition(".")
        found.append(("three_state", key, f"/$defs/{definition}/properties/{wire}"))
    found += [("meta", key, f"/$defs/{key}/properties/_meta") for key in TABLES.overrides["meta"]]
    return found


def _look_up(ledger: Ledger, table: str, key: str, pointer: str) -> None:
    _ = ledger.patch(key, pointer) if table == "three_state" else ledger.meta_rule(key, pointer)


@pytest.mark.parametrize(("table", "key", "pointer"), _resting())
def test_changed_words_under_an_entry_are_a_trouble(table: str, key: str, pointer: str) -> None:
    """The guard covers the words of the definition and those of the member, where there are any."""
    definition = "/".join(pointer.split("/")[:3])
    _look_up(fitting := Ledger(PINNED, TABLES), table, key, pointer)
    assert fitting.troubles == []
    for place in (definition, pointer):
        for words in (load.Prose("f" * 64), None):
            prose = {name: kept for name, kept in PINNED.prose.items() if name != place}
            if words is None and place not in PINNED.prose:
                continue  # X7: the edit adds the member, so upstream has no words about it
            source = replace(PINNED, prose={**prose, place: words} if words else prose)
            _look_up(ledger := Ledger(source, TABLES), table, key, pointer)
            assert len(ledger.troubles) == 1, place
            assert f"{table}.{key}" in ledger.troubles[0]
            assert prose_guard(source, definition, pointer) in ledger.troubles[0]
            _look_up(other := Ledger(replace(source, pinned=False), TABLES), table, key, pointer)
            assert other.troubles == []


def test_changed_words_stop_the_build() -> None:
    source = replace(PINNED, prose={**PINNED.prose, "/$defs/Cost": load.Prose("f" * 64)})
    assert build(source, TABLES).warnings == []
    source = replace(PINNED, prose={**PINNED.prose, "/$defs/UsageUpdate": load.Prose("f" * 64)})
    with pytest.raises(ModelError, match=r"three_state\.UsageUpdate\.cost"):
        build(source, TABLES)


@pytest.mark.parametrize(("table", "key"), [("three_state", "UsageUpdate.cost"), ("meta", "UserMessage")])
def test_an_entry_without_a_guard_is_told_which_it_needs(table: str, key: str) -> None:
    """How a new entry gets its guard: it is written without, and the build says it."""
    with pytest.raises(ModelError) as caught:
        build(PINNED, _changed(lambda tables: tables.overrides[table][key].pop("prose")))
    assert len(caught.value.troubles) == 1
    assert f"{table}.{key}" in caught.value.troubles[0]
    assert str(TABLES.overrides[table][key]["prose"]) in caught.value.troubles[0]


# --- names against the previous pin -----------------------------------------------------------------------------------


def _previous(place: str, name: str) -> Change:
    return lambda tables: tables.pinned["names"].update({place: name})


@pytest.mark.parametrize("place", ["ToolCallUpdate", "SessionUpdate/tool_call_update", "ContentBlock", "SessionId"])
def test_a_name_that_differs_from_the_previous_pin_stops_the_build(place: str) -> None:
    with pytest.raises(ModelError) as caught:
        build(PINNED, _changed(_previous(place, "Before")))
    (trouble,) = caught.value.troubles
    assert trouble.startswith(f"{place} was called Before by the previous pin and would be ")
    assert "[renames]" in trouble


def test_a_rename_that_is_listed_is_accepted() -> None:
    def change(tables: load.Tables) -> None:
        _previous("ToolCallUpdate", "Before")(tables)
        _overrides("renames", "ToolCallUpdate", "tried")(tables)

    assert build(PINNED, _changed(change)).warnings == []


def test_a_place_that_is_new_or_gone_is_no_rename() -> None:
    def change(tables: load.Tables) -> None:
        _previous("Gone", "Gone")(tables)
        del tables.pinned["names"]["Cost"]

    assert build(PINNED, _changed(change)).warnings == []


# --- the tables as they lie there -------------------------------------------------------------------------------------


def test_every_override_gives_its_reason_or_the_words_it_rests_on() -> None:
    overrides = TABLES.overrides
    reasons = [entry["reason"] for entry in [*overrides["edit"], *overrides["names"].values()]]
    reasons += [*overrides["no_class"].values(), *overrides.get("renames", {}).values()]
    assert all(isinstance(reason, str) and len(reason.split()) > 2 for reason in reasons)
    resting = [*overrides["three_state"].values(), *overrides["meta"].values()]
    assert all(re.fullmatch("[0-9a-f]{16}", entry["prose"]) for entry in resting)


STOP_WORDS = {
    *(
        "a",
        "all",
        "also",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "do",
        "does",
        "each",
    ),
    *("for", "from", "has", "have", "how", "if", "in", "into", "is", "it", "its", "may", "must", "no", "not", "of"),
    *("off", "on", "one", "only", "or", "other", "so", "than", "that", "the", "their", "them", "then", "there"),
    *("these", "they", "this", "those", "to", "until", "was", "what", "when", "where", "which", "while", "who", "will"),
}


def _said(text: str) -> set[str]:
    """The words of a text in lower case, without what makes a plural."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return {word.removesuffix("s") for word in re.findall("[a-z]+", apart.lower())}


def test_every_doc_is_one_line_of_ascii_that_ends_with_a_full_stop() -> None:
    lines = dict(load.doc_lines(TABLES.docs))
    assert len(lines) > 400
    odd = {key for key, text in lines.items() if not (text.isascii() and text.endswith(".") and text.isprintable())}
    assert not odd
    assert not {key for key, text in lines.items() if text != " ".join(text.split())}


def test_every_doc_says_more_than_its_key() -> None:
    """A line whose words are all in the name documents nothing."""
    lines = dict(load.doc_lines(TABLES.docs))
    stop = {word for said in map(_said, STOP_WORDS) for word in said}
    assert not {key: text for key, text in lines.items() if not _said(text) - _said(key.partition(".")[2]) - stop}
    assert not _said("The IDs of each of the sessions.") - _said("Session.sessionId") - stop, "this is such a line"
