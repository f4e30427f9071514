"""What docstrings state mechanically: wire name, direction, method, stability, patch rule and page.

Owns: `acpwire_codegen.facts`. What counts as draft only is compared with the stable schema of the same version, which
the generator does not know.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from acpwire import v2
from acpwire.wire.v2.unions import META_RULES, PATCHES, UNIONS
from acpwire_codegen import load
from acpwire_codegen.decide import build
from acpwire_codegen.facts import Facts
from acpwire_codegen.ledger import Ledger
from acpwire_codegen.model import Model
from acpwire_codegen.naming import Names
from acpwire_codegen.normalise import normalise

ROOT = Path(__file__).parents[2]
TABLES = load.read_tables(ROOT / "schema")
DRAFT = load.read_pinned(ROOT / "schema")
STABLE = load.read_schema(ROOT / "tests" / "corpus" / "schemas" / "2.4.0-v2.stable.json")
Node = dict[str, Any]


@cache
def _model(source: str) -> Model:
    return build({"draft": DRAFT, "stable": STABLE}[source], TABLES)


def _facts(source: load.Source, tables: load.Tables = TABLES) -> Facts:
    ledger = Ledger(source, tables)
    schema = normalise(ledger.edited())
    return Facts(source, schema, Names(schema, ledger))


# --- stability --------------------------------------------------------------------------------------------------------


def _names(model: Model) -> set[str]:
    return {name for name in model.names.values() if not name.startswith("_")}


def test_the_schemas_that_are_compared_are_of_one_version() -> None:
    assert DRAFT.version == "2.4.0"
    assert set(STABLE.document["$defs"]) < set(DRAFT.document["$defs"])


def test_a_class_is_draft_only_exactly_if_the_stable_schema_lacks_it() -> None:
    new = _names(_model("draft")) - _names(_model("stable"))
    assert len(new) > 50
    assert {name for name in v2.UNSTABLE if "." not in name and "/" not in name} == new


def test_a_method_is_draft_only_exactly_if_the_stable_schema_lacks_it() -> None:
    def methods(source: load.Source) -> set[tuple[str, str]]:
        return {(n["x-method"], n["x-side"]) for n in source.document["$defs"].values() if "x-method" in n}

    new = methods(DRAFT) - methods(STABLE)
    assert {(method.name, method.side) for method in _model("draft").methods if not method.stable} == new
    assert {name for name in v2.UNSTABLE if "/" in name} == {name for name, _ in new}


def test_a_member_of_a_stable_class_is_draft_only_exactly_if_the_stable_schema_lacks_it() -> None:
    def members(model: Model) -> set[str]:
        return {f"{s.name}.{m.attr}" for s in model.structs for m in s.members if s.name[0] != "_"}

    stable = _names(_model("stable"))
    new = {name for name in members(_model("draft")) - members(_model("stable")) if name.split(".")[0] in stable}
    assert "StateSnapshot.usage" in new
    found = {name for name in v2.UNSTABLE if "." in name and name.split(".")[0] in stable}
    assert {name for name in found if "=" not in name} == new
    assert {name for name in found if "=" in name} == {"StateSnapshot.state=unknown"}


def test_every_class_says_whether_it_is_stable_and_says_it_once() -> None:
    for struct in _model("draft").structs:
        if struct.name[0] == "_":
            continue
        said = " ".join(getattr(v2, struct.name).__doc__.split())
        assert said.count("Draft only.") == (struct.name in v2.UNSTABLE), struct.name
        assert said.count(" Stable.") == (struct.name not in v2.UNSTABLE), struct.name


def test_a_schema_without_prose_claims_nothing_about_stability() -> None:
    assert not STABLE.prose
    assert _model("stable").unstable == []
    texts = [line for struct in _model("stable").structs for line in struct.doc]
    texts += [line for alias in _model("stable").aliases for line in alias.doc]
    assert any("Result of `session/prompt`" in text for text in texts)
    assert not any("Draft only." in text or "Stable." in text for text in texts)


def test_one_branch_can_be_draft_only_where_its_body_is_stable() -> None:
    branch = {"type": "object", "required": ["type"], "allOf": [{"$ref": "#/$defs/Body"}]}
    branches = [branch | {"properties": {"type": {"type": "string", "const": value}}} for value in ("old", "new")]
    document: Node = {"$defs": {"Body": {"type": "object", "properties": {}}, "U": {"anyOf": branches}}}
    prose = {"/$defs/Body": load.Prose("0" * 64), "/$defs/U/anyOf/1": load.Prose("0" * 64, ("UNSTABLE",))}
    source = load.Source(document, prose, "made up", "0" * 64, pinned=False)
    facts = _facts(source, load.Tables({}, {}, {}))
    assert set(facts.unstable()) == {"NewU"}
    assert facts.line("Body", ("U", "new")).endswith("Draft only.")
    assert facts.line("Body", ("U", "old")).endswith("Stable.")
    assert facts.line("Body") == "Stable."


def test_a_constant_can_be_draft_only_where_its_set_is_stable() -> None:
    values = [{"type": "string", "const": value} for value in ("old", "new")]
    thing = {"type": "object", "properties": {"aMode": {"oneOf": values}, "kind": {"$ref": "#/$defs/Kind"}}}
    document: Node = {"$defs": {"Kind": {"anyOf": [*values, {"type": "string"}]}, "Thing": thing}}
    places = ("/$defs/Kind/anyOf/1", "/$defs/Thing/properties/aMode/oneOf/0")
    prose = {place: load.Prose("0" * 64, ("UNSTABLE",)) for place in places}
    source = load.Source(document, prose, "made up", "0" * 64, pinned=False)
    assert set(_facts(source, load.Tables({}, {}, {})).unstable()) == {"Kind=new", "Thing.a_mode=old"}


# --- wire name, direction, method -------------------------------------------------------------------------------------


def test_every_variant_says_how_it_is_told_apart_on_the_wire() -> None:
    for name, union in UNIONS.items():
        for tag, cls in union.variants.items():
            assert f"Wire: `{union.tag}: {tag}` of `{name}`." in " ".join((cls.__doc__ or "").split()), cls


WAYS = {
    ("agent", "Request"): "Params of `{}`, client to agent.",
    ("agent", "Notification"): "Params of `{}`, client to agent.",
    ("agent", "Response"): "Result of `{}`, agent to client.",
    ("client", "Request"): "Params of `{}`, agent to client.",
    ("client", "Notification"): "Params of `{}`, agent to client.",
    ("client", "Response"): "Result of `{}`, client to agent.",
    ("proxy", "Request"): "Params of `{}`, to the proxy.",
    ("proxy", "Notification"): "Params of `{}`, to the proxy.",
    ("proxy", "Response"): "Result of `{}`, from the proxy.",
    ("protocol", "Notification"): "Params of `{}`, both ways.",
}


def test_every_bound_definition_says_its_method_and_which_way_it_goes() -> None:
    """`x-side` is the side that handles the message (C1); its result goes back."""
    facts, seen = _facts(DRAFT), set[tuple[str, str]]()
    for place, node in DRAFT.document["$defs"].items():
        if "x-method" not in node:
            assert " of `" not in facts.line(place)
            continue
        kind = next(kind for kind in ("Request", "Notification", "Response") if place.endswith(kind))
        seen.add((node["x-side"], kind))
        assert facts.line(place).startswith(WAYS[node["x-side"], kind].format(node["x-method"])), place
    assert seen == set(WAYS)


def test_the_page_of_upstream_is_pointed_to_where_its_words_did() -> None:
    facts = _facts(DRAFT)
    pages = {pointer: kept.page for pointer, kept in DRAFT.prose.items() if kept.page}
    assert len(pages) > 50
    for place in _places():
        line = facts.line(place)
        page = pages.get(f"/$defs/{place}")
        assert line.endswith(f"Page: {page}.") == (page is not None), place
        assert line.count("Page: ") == (page is not None)


def _places() -> list[str]:
    """The definitions of the pinned schema of which something is left."""
    gone = TABLES.overrides["no_class"]
    return [place for place in DRAFT.document["$defs"] if place not in gone]


# --- what an update does to what is there -----------------------------------------------------------------------------


@pytest.mark.parametrize("tag", UNIONS["SessionUpdate"].variants)
def test_every_update_says_what_it_does_to_what_was_reported_before(tag: str) -> None:
    """Exactly one of: it patches, it appends, some members patch, it replaces (SU, MT-03, MT-04)."""
    cls = UNIONS["SessionUpdate"].variants[tag]
    rule = next((META_RULES[base] for base in cls.__mro__ if base in META_RULES), "")
    patches = any(base in PATCHES for base in cls.__mro__)
    wanted = {
        "chunk": "Appends; `meta` belongs to this chunk alone.",
        "patch": "Patches: unset keeps, None clears, a value replaces; `meta` patches by key.",
    }.get(
        rule,
        "Replaces, but what is UNSET stays and what is None is cleared."
        if patches
        else "Replaces what was reported before, or reports an event.",
    )
    said = " ".join((cls.__doc__ or "").split())
    assert [word for word in ("Appends;", "Patches:", "Replaces") if word in said] == [wanted.split()[0].rstrip(",")]
    assert wanted in said


def test_types_that_are_no_updates_say_nothing_of_the_kind() -> None:
    updates = {base for cls in UNIONS["SessionUpdate"].variants.values() for base in cls.__mro__}
    quiet = [getattr(v2, s.name) for s in _model("draft").structs if s.name[0] != "_"]
    quiet = [cls for cls in quiet if cls not in updates and cls not in META_RULES and cls not in PATCHES]
    assert len(quiet) > 150
    loud = ("Patches: unset", "Appends; `meta`", "Replaces what was reported", "Replaces, but what is UNSET")
    assert not [cls for cls in quiet if any(words in " ".join((cls.__doc__ or "").split()) for words in loud)]
