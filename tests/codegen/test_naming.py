"""Python names: how they are made, that they lead back to the wire, and that none means two things.

Owns: `acpwire_codegen.naming`. The wire's side of the promise is `acpwire.wire.values.wire_name`, which the generated
classes use.
"""

from __future__ import annotations

import builtins
import json
import keyword
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpwire import v2
from acpwire.wire.v2.unions import UNIONS
from acpwire.wire.values import wire_name
from acpwire_codegen import load
from acpwire_codegen.decide import build
from acpwire_codegen.dialect import UnknownIdiomError
from acpwire_codegen.ledger import Ledger
from acpwire_codegen.naming import RESERVED, Names, check_attributes, constant, pascal, snake
from acpwire_codegen.normalise import normalise

ROOT = Path(__file__).parents[2]
STRUCTURES = [ROOT / "schema" / load.STRUCTURE, *sorted((ROOT / "tests" / "corpus" / "schemas").glob("*.json"))]
Node = dict[str, Any]
TABLES = load.read_tables(ROOT / "schema")
NO_TABLES = load.Tables({}, {}, {})


def _member_names(node: Any, *, named: bool = False) -> Iterator[str]:
    """The name of every member that a schema defines, by position (H14)."""
    if isinstance(node, list):
        for child in cast("Iterable[Any]", node):
            yield from _member_names(child)
    elif isinstance(node, dict):
        members = cast("Node", node)
        yield from members if named else ()
        for key, child in members.items():
            yield from _member_names(child, named=not named and key == "properties")


@cache
def _names(path: Path, tables: bool = True) -> Names:
    source = load.read_schema(path)
    ledger = Ledger(source, TABLES if tables else NO_TABLES)
    return Names(normalise(ledger.edited()), ledger)


# --- attributes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", STRUCTURES, ids=lambda path: path.stem)
def test_every_member_name_of_a_schema_comes_back_from_its_attribute(path: Path) -> None:
    found = set(_member_names(json.loads(path.read_bytes())))
    assert len(found) > 100
    assert {name: wire_name(snake(name)) for name in found} == {name: name for name in found}


@given(st.from_regex(r"[a-z][a-z0-9]*([A-Z][a-z0-9]+){0,4}", fullmatch=True))
def test_a_camel_case_name_comes_back_from_its_attribute(name: str) -> None:
    attr = snake(name)
    assert attr.isidentifier()
    assert not keyword.iskeyword(attr)
    assert attr == attr.lower()
    assert name == "meta" or wire_name(attr) == name


@given(st.from_regex(r"[a-z][a-z0-9]*([A-Z][a-z0-9]*){0,4}", fullmatch=True))
def test_making_an_attribute_of_an_attribute_changes_nothing(name: str) -> None:
    assert snake(snake(name)) == snake(name)


@pytest.mark.parametrize(
    ("name", "attr"),
    [
        ("sessionId", "session_id"),
        ("_meta", "meta"),
        ("mcpServers", "mcp_servers"),
        ("rawInput", "raw_input"),
        ("x", "x"),
        ("minLength", "min_length"),
        ("from", "from_"),
        ("class", "class_"),
        ("None", "none"),
        ("oauth2Token", "oauth2_token"),
        ("stop_reason", "stop_reason"),
        ("userID", "user_id"),
        ("mcpURL", "mcp_url"),
        ("URI", "uri"),
        ("x-y", "x_y"),
        ("_private", "private"),
        ("$ref", "ref"),
        ("Fieldx", "fieldx"),
    ],
)
def test_attributes_are_the_snake_case_of_their_json_names(name: str, attr: str) -> None:
    assert snake(name) == attr


@pytest.mark.parametrize("attr", [kw + "_" for kw in keyword.kwlist if kw.islower()])
def test_the_underscore_after_a_keyword_is_no_part_of_its_json_name(attr: str) -> None:
    assert wire_name(attr) == attr[:-1]
    assert snake(attr[:-1]) == attr


@pytest.mark.parametrize("attrs", [["a", "a"], ["str"], ["int"], ["tag"], ["never"], ["1a"], ["a b"], [""], ["field"]])
def test_attributes_that_a_class_cannot_have_are_refused(attrs: list[str]) -> None:
    with pytest.raises(UnknownIdiomError) as caught:
        check_attributes("/$defs/A", ["fine", *attrs])
    assert caught.value.definition == "A"
    assert repr(attrs[0]) in caught.value.found
    assert "'fine'" not in caught.value.found


def test_attributes_that_a_class_can_have_pass() -> None:
    check_attributes("/$defs/A", ["session_id", "meta", "type", "from_", "list", "default", "id", "content"])


@pytest.mark.parametrize("name", ["get", "put", "update", "fields", "items", "keys"])
def test_a_member_that_would_hide_what_an_object_with_extras_needs_stops_the_build(name: str) -> None:
    """H22: it is a dict, and its known members are read as attributes."""
    a = {"type": "object", "properties": {name: {"type": "string"}}, "additionalProperties": True}
    source = load.Source({"$defs": {"A": a}}, {}, "made up", "0" * 64, pinned=False)
    with pytest.raises(UnknownIdiomError, match=name):
        build(source, NO_TABLES)


# --- classes ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.from_regex(r"[a-z][a-z0-9]*", fullmatch=True), min_size=1, max_size=5))
def test_pascal_case_keeps_the_words_and_only_raises_their_first_letters(words: list[str]) -> None:
    name = pascal("_".join(words))
    assert name.lower() == "".join(words)
    assert [len(word) for word in re.findall("[A-Z][a-z0-9]*", name)] == list(map(len, words))
    assert pascal(name) == name
    assert pascal("-".join(words)) == pascal(" ".join(words)) == name


def test_variants_of_a_session_update_are_their_tag_in_pascal_case() -> None:
    """Design 2, "Names"."""
    variants = UNIONS["SessionUpdate"].variants
    assert len(variants) > 20
    assert {tag: cls.__name__ for tag, cls in variants.items()} == {tag: pascal(tag) for tag in variants}


@pytest.mark.parametrize("path", STRUCTURES, ids=lambda path: path.stem)
@pytest.mark.parametrize("tables", [True, False], ids=["tables", "no-tables"])
def test_no_name_means_two_things(path: Path, tables: bool) -> None:
    names = _names(path, tables)
    owners = Counter([*names.body.values(), *(set(names.variant.values()) - set(names.body.values()))])
    assert max(owners.values()) == 1
    assert not set(owners) & (RESERVED | set(dir(builtins)))
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in owners)


@pytest.mark.parametrize("path", STRUCTURES, ids=lambda path: path.stem)
def test_without_a_given_name_definitions_keep_the_schemas_own(path: Path) -> None:
    """Only a body that stands both with a tag and without may give its name to the variant (H24)."""
    names = _names(path, tables=False)
    for place, name in names.body.items():
        if "/" not in place and name != place:
            assert place in names.variant.values()
            assert len(names.branches[place]) >= 1
    assert all(name.startswith("_") == place.endswith("/other") for place, name in names.body.items())


@pytest.mark.parametrize("path", STRUCTURES, ids=lambda path: path.stem)
def test_no_name_is_numbered(path: Path) -> None:
    names = _names(path)
    assert not [name for name in names.places().values() if name[-1].isdigit()]


def test_a_body_with_and_without_a_tag_splits_its_name_as_the_design_says() -> None:
    assert issubclass(v2.ToolCallUpdate, v2.ToolCallFields)
    assert issubclass(v2.StateUpdate, v2.StateSnapshot)
    assert issubclass(v2.AgentMessageChunk, v2.ContentChunk)
    names = _names(STRUCTURES[0])
    assert names.body["ToolCallUpdate"] == "ToolCallFields"
    assert names.variant["SessionUpdate", "tool_call_update"] == "ToolCallUpdate"
    assert names.reference("StateUpdate") == "AnyStateSnapshot"
    assert names.reference("ToolCallUpdate") == "ToolCallFields"


@pytest.mark.parametrize("name", [*sorted(RESERVED), "str", "list", "None", "type", "ValueError", "class"])
def test_a_definition_named_like_what_a_package_uses_is_refused(name: str) -> None:
    source = load.Source({"$defs": {name: {"type": "string"}}}, {}, "made up", "0" * 64, pinned=False)
    with pytest.raises(UnknownIdiomError, match=rf"taken: '{name}' for {name};.*overrides\.toml \[names\]") as caught:
        build(source, NO_TABLES)
    assert caught.value.definition == name


def test_a_given_name_makes_room_for_such_a_definition() -> None:
    given_name = {"names": {"list": {"expected": "list", "name": "Lines", "reason": "made up"}}}
    source = load.Source({"$defs": {"list": {"type": "string"}}}, {}, "made up", "0" * 64, pinned=False)
    model = build(source, load.Tables({}, given_name, {}))
    assert model.names == {"list": "Lines"}
    assert [alias.name for alias in model.aliases] == ["Lines"]


def test_a_given_name_that_is_taken_is_refused() -> None:
    given_name = {"names": {"A": {"expected": "A", "name": "B", "reason": "made up"}}}
    source = load.Source({"$defs": {"A": {"type": "string"}, "B": {"type": "string"}}}, {}, "", "", pinned=False)
    with pytest.raises(UnknownIdiomError, match=r"taken: 'B' for A and B"):
        build(source, load.Tables({}, given_name, {}))


@pytest.mark.parametrize("wire", ["model", "literal", "any", "mapping", "warning", "method", "b"])
def test_an_open_set_whose_members_name_is_taken_is_called_after_its_definition_too(wire: str) -> None:
    values = [{"const": "low", "type": "string"}, {"const": "high", "type": "string"}, {"type": "string", "title": "x"}]
    a = {"type": "object", "properties": {wire: {"anyOf": values}}}
    document: Node = {"$defs": {"A": a, "B": {"type": "string"}}}
    model = build(load.Source(document, {}, "", "", pinned=False), NO_TABLES)
    assert [alias.name for alias in model.aliases] == [f"A{pascal(wire)}", "B"]


# --- methods ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "others", "name"),
    [
        ("session/prompt", {("agent", "request")}, "SESSION_PROMPT"),
        ("$/cancel_request", {("protocol", "notification")}, "CANCEL_REQUEST"),
        ("mcp/message", {("agent", "request"), ("client", "request")}, "MCP_MESSAGE_AGENT"),
        ("proxy/successor", {("agent", "request"), ("agent", "notification")}, "PROXY_SUCCESSOR_REQUEST"),
        ("import", {("agent", "request")}, "IMPORT"),
        ("2fa/login", {("agent", "request")}, "METHOD_2FA_LOGIN"),
    ],
)
def test_one_name_on_two_sides_or_of_two_kinds_says_which(method: str, others: set[tuple[str, str]], name: str) -> None:
    """H29."""
    assert constant(method, next(iter(sorted(others)))[0], "request", others) == name


@pytest.mark.parametrize("path", STRUCTURES, ids=lambda path: path.stem)
def test_every_method_has_a_constant_of_its_own(path: Path) -> None:
    model = build(load.read_schema(path), TABLES)
    constants = [method.constant for method in model.methods]
    assert len(set(constants)) == len(constants) > 10
    assert all(name.isidentifier() and name == name.upper() for name in constants)
