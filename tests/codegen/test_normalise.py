"""One idiom of ACP schemas a file, under `shapes/`, and what belongs to the passes and the dialect as a whole.

A shape file is a JSON object; to add a shape, write one (nothing else needs a change):

    idiom      one sentence: how the schema says it, and what becomes of it
    ids        the requirements it rests on
    schema     the smallest schema that shows it; a `description` that says "equivalent" marks a plain nullable member
    overrides  what overrides.toml would say, where the idiom needs it
    accepts    values that decode:  {"as": TYPE, "json": VALUE, "gives": EXPECTED, "encodes": VALUE}
    rejects    values that do not:  {"as": TYPE, "json": VALUE, "at": PATH, "says": PART OF THE MESSAGE}
    names      every class and alias there is, private ones included; left out where the names are not the point
    methods    every method there is:  "name side kind": [PARAMS, RESULT]
    codes      every constant that an open set of integers gives
    printed    {"has": [...], "lacks": [...]}: what types.py must and must not contain
    tables     what unions.py must contain, whatever its layout
    reports    parts of the notes that the build makes, each of which must be there
    stops      instead of all that:  {"at": POINTER, "found": PART, "expected": PART} of the error that ends the build

`json` is passed on byte for byte, as it is written. In `gives`, `{"class": NAME, ATTRIBUTE: EXPECTED, ...}` is a value
of that class of which every attribute that is not mentioned has its default; `{"class": "UNSET"}` is UNSET, and
`{"class": "UnknownVariant", "tag": TAG}` must hold the bytes that came. `encodes` is what the value is written as, or
"same" for the JSON that came. Any case may say `why`.

Four laws hold for every case, unsaid: what was decoded survives encoding and decoding; unknown variants are written
byte for byte; the second look alone gives what both looks together give; a refusal never repeats a value.
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acpwire.wire import DecodeError
from acpwire_codegen import load, normalise
from acpwire_codegen.__main__ import main
from acpwire_codegen.decide import build
from acpwire_codegen.dialect import Node, Schema, UnknownIdiomError
from acpwire_codegen.model import Model
from acpwire_codegen.render import render
from tests.codegen.support import (
    Package,
    canonical,
    differences,
    importable,
    make_package,
    source_of,
    strings,
    unknowns,
)

SHAPES = Path(__file__).parent / "shapes"
PUBLISHED = sorted((Path(__file__).parents[1] / "corpus" / "schemas").glob("*.json"))
NO_JSON = msgspec.Raw()


class Accept(msgspec.Struct, forbid_unknown_fields=True, rename={"type_name": "as"}):
    """A value that decodes."""

    type_name: str
    json: msgspec.Raw
    gives: Any = msgspec.UNSET
    encodes: msgspec.Raw = NO_JSON
    why: str = ""


class Reject(msgspec.Struct, forbid_unknown_fields=True, rename={"type_name": "as"}):
    """A value that does not decode."""

    type_name: str
    json: msgspec.Raw
    at: str
    says: str = ""
    why: str = ""


class Printed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the printed types must and must not contain."""

    has: list[str] = []
    lacks: list[str] = []


class Stop(msgspec.Struct, forbid_unknown_fields=True):
    """The error that ends the build."""

    at: str
    found: str
    expected: str


class Shape(msgspec.Struct, forbid_unknown_fields=True):
    """One shape file."""

    idiom: str
    ids: list[str]
    schema: dict[str, Any]
    overrides: dict[str, Any] = {}
    accepts: list[Accept] = []
    rejects: list[Reject] = []
    names: list[str] = []
    methods: dict[str, tuple[str, str]] = {}
    codes: dict[str, int] = {}
    printed: Printed = Printed()
    tables: list[str] = []
    reports: list[str] = []
    stops: Stop | None = None

    def source(self) -> load.Source:
        """The schema, as the generator takes it."""
        return source_of(self.schema)

    def hand_kept(self) -> load.Tables:
        """The tables beside it."""
        return load.Tables(docs={}, overrides=self.overrides, pinned={})


def _read(path: Path) -> Shape:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Shape)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path.name}: {error}") from error


ALL = {path.stem: _read(path) for path in sorted(SHAPES.glob("*.json"))}
BUILT = {name: shape for name, shape in ALL.items() if shape.stops is None}
STOPPED = {name: shape.stops for name, shape in ALL.items() if shape.stops is not None}
ACCEPTED = [pytest.param(n, case, id=f"{n}-{i}") for n, s in ALL.items() for i, case in enumerate(s.accepts)]
REJECTED = [pytest.param(n, case, id=f"{n}-{i}") for n, s in ALL.items() for i, case in enumerate(s.rejects)]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Package]]:
    """The package of a shape, generated once."""

    @functools.cache
    def make(name: str) -> Package:
        return make_package(directory, f"shape_{name}", ALL[name].source(), ALL[name].hand_kept())

    with importable(tmp_path_factory.mktemp("shapes")) as directory:
        yield make


# --- the shapes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_a_shape_shows_something(name: str) -> None:
    """A file that expects nothing would pass for ever."""
    shape = ALL[name]
    assert shape.ids
    assert (shape.stops is not None) != bool(shape.accepts or shape.rejects)
    assert [case for case in shape.accepts if case.gives is msgspec.UNSET and not bytes(case.encodes)] == []


@pytest.mark.parametrize("name", STOPPED)
def test_a_shape_that_is_not_known_stops_the_build(name: str) -> None:
    with pytest.raises(UnknownIdiomError) as caught:
        build(ALL[name].source(), ALL[name].hand_kept())
    assert caught.value.pointer == STOPPED[name].at
    assert STOPPED[name].found in caught.value.found
    assert STOPPED[name].expected in caught.value.expected


@pytest.mark.parametrize("name", BUILT)
def test_a_shape_gives_the_names_methods_and_text_that_it_says(name: str, package: Callable[[str], Package]) -> None:
    shape, built = ALL[name], package(name)
    text, tables = built.files["types.py"], " ".join(built.files["unions.py"].split())
    assert built.names() == set(shape.names or built.names())
    assert [part for part in shape.printed.has if part not in text] == []
    assert [part for part in shape.printed.lacks if part in text] == []
    assert [part for part in shape.tables if part not in tables] == []
    assert [part for part in shape.reports if not any(part in note for note in built.model.warnings)] == []
    assert built.model.codes == shape.codes
    methods = {f"{m.name} {m.side} {m.kind}": (m.params, m.result) for m in built.model.methods}
    assert methods == shape.methods


@pytest.mark.parametrize(("name", "case"), ACCEPTED)
def test_an_accepted_value_gives_what_the_shape_says(
    name: str, case: Accept, package: Callable[[str], Package]
) -> None:
    raw, encodes = bytes(case.json), bytes(case.encodes)
    value = package(name).decode(case.type_name, raw)
    if case.gives is not msgspec.UNSET:
        assert list(differences(case.gives, value, raw)) == []
    if encodes:
        expected = raw if encodes == b'"same"' else encodes
        assert canonical(package(name).encode(value)) == canonical(expected)


@pytest.mark.parametrize("name", BUILT)
def test_what_was_accepted_survives_encoding(name: str, package: Callable[[str], Package]) -> None:
    """Line breaks within an unknown variant become spaces, so those are compared by what they are written as."""
    for case in ALL[name].accepts:
        value = package(name).decode(case.type_name, bytes(case.json))
        encoded = package(name).encode(value)
        again = package(name).decode(case.type_name, encoded)
        kept = list(unknowns(value))
        assert package(name).encode(again) == encoded
        assert [one for one in kept if one.raw.replace(b"\n", b" ") not in encoded] == []
        assert again == value or any(b"\n" in one.raw for one in kept)


@pytest.mark.parametrize("name", BUILT)
def test_which_look_took_a_value_does_not_show(name: str, package: Callable[[str], Package]) -> None:
    for case in ALL[name].accepts:
        both = package(name).decode(case.type_name, bytes(case.json))
        second = package(name).look(case.type_name, bytes(case.json))
        assert (type(second), second) == (type(both), both)


@pytest.mark.parametrize(("name", "case"), REJECTED)
def test_a_rejected_value_is_refused_where_the_shape_says(
    name: str, case: Reject, package: Callable[[str], Package]
) -> None:
    with pytest.raises(DecodeError) as caught:
        package(name).decode(case.type_name, bytes(case.json))
    assert caught.value.path == case.at
    assert case.says in caught.value.message
    known = json.dumps(ALL[name].schema)
    values = [value for value in strings(json.loads(bytes(case.json))) if len(value) > 3 and value not in known]
    assert [value for value in values if value in str(caught.value)] == []


# --- inputs that no pass knows ---------------------------------------------------------------------------------------


def thing(required: Iterable[str] = (), **members: Any) -> dict[str, Any]:
    """A schema of one definition with these members."""
    return {"$defs": {"Thing": {"type": "object", "properties": members, "required": [*required]}}}


def branch(tag: Any, **more: Any) -> dict[str, Any]:
    """One branch of a union that `type` tells apart."""
    return {"type": "object", "properties": {"type": {"type": "string", "const": tag}}, "required": ["type"], **more}


OTHER = {"title": "other", "type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}
TEXT = {"type": "string"}
TWO = {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a", "b"]}
CODE = {"type": "integer"}
NAMELESS = {"title": "x", **TWO}
ON_ERROR, ON_NULL, SKIP = normalise.FLAGS


def const(value: str) -> dict[str, Any]:
    """One constant of a set."""
    return {"type": "string", "const": value}


UNFIT: list[tuple[dict[str, Any], Any]] = [
    ({"type": "integer"}, "abc"),
    ({"type": "integer"}, True),
    ({"type": "integer"}, 1.5),
    ({"type": "integer", "format": "uint16"}, -5),
    ({"type": "integer", "format": "uint16"}, 65536),
    ({"type": "boolean"}, "true"),
    ({"type": "string", "minLength": 1}, ""),
    ({"type": "number"}, float("nan")),
    ({"type": "number"}, float("inf")),
    ({"type": "string", "enum": ["a"]}, "b"),
    ({"anyOf": [const("a"), TEXT]}, "b"),
    ({"anyOf": [TEXT, {"type": "boolean"}]}, 5),
    ({"type": "array", "items": TEXT}, {}),
    ({"type": "object", "additionalProperties": TEXT}, []),
    ({"$ref": "#/$defs/Two"}, []),
    ({"$ref": "#/$defs/Two"}, {"a": "only"}),
    ({"$ref": "#/$defs/Two"}, {"a": "one", "b": 2}),
]
"""Types, and defaults that they do not take."""


def with_two(document: dict[str, Any]) -> dict[str, Any]:
    """The schema, and a second object that it refers to."""
    return {"$defs": {**document["$defs"], "Two": TWO}}


def union(*branches: Any, key: str = "oneOf", **more: Any) -> dict[str, Any]:
    """A schema of one union."""
    return {"$defs": {"Thing": {key: list(branches), **more}}}


def nested(inner: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A schema of a union that is the payload of another's branch."""
    outer = {"oneOf": [branch("x", allOf=[{"$ref": "#/$defs/Thing"}]), branch("y")]}
    return {"$defs": {"Thing": inner, "Outer": outer, **more}}


UNKNOWN: list[tuple[str, dict[str, Any], str, str, str]] = [
    # (pass, schema, pointer, part of what was found, part of what was expected)
    (
        "bind_methods",
        {"$defs": {"Thing": {"x-method": 5, "x-side": "agent"}}},
        "/$defs/Thing",
        "5",
        "a method and a side",
    ),
    (
        "keep_extras",
        {
            "$defs": {
                "Thing": {
                    "type": "object",
                    "properties": {"a": {**TEXT, "x-deserialize-default-on-error": True}},
                    "additionalProperties": True,
                }
            }
        },
        "/$defs/Thing/properties/a",
        "a member with the flags error",
        "a member without flags",
    ),
    ("bind_methods", {"$defs": {"Thing": {"x-method": "a"}}}, "/$defs/Thing", "None", "a method and a side"),
    ("bind_methods", {"$defs": {"Thing": {"x-method": "a", "x-side": "moon"}}}, "/$defs/Thing", "moon", "a side"),
    ("drop_envelopes", {"anyOf": [{"$ref": "#/$defs/Gone"}], **thing(a=TEXT)}, "/$defs/Gone", "", "a definition"),
    ("unwrap_refs", thing(a={"allOf": [TEXT]}), "/$defs/Thing/properties/a", "allOf of 1", "one $ref"),
    ("unwrap_refs", thing(a={"allOf": []}), "/$defs/Thing/properties/a", "allOf of 0", "one $ref"),
    (
        "unwrap_refs",
        thing(a={"allOf": [{"$ref": "#/$defs/Thing"}, {"$ref": "#/$defs/Thing"}]}),
        "/$defs/Thing/properties/a",
        "allOf of 2",
        "one $ref",
    ),
    ("unwrap_refs", thing(a={"$ref": "#/$defs/Gone"}), "/$defs/Thing/properties/a", "Gone", "a definition"),
    (
        "read_flags",
        thing(a={"x-shiny": True}),
        "/$defs/Thing/properties/a",
        "x-shiny",
        "x-deserialize-default-on-error",
    ),
    ("read_flags", thing(a={"x-deserialize-default-on-error": "yes"}), "/$defs/Thing/properties/a", "yes", "true"),
    ("read_flags", {"$defs": {"Thing": {"x-deserialize-default-on-null": True}}}, "/$defs/Thing", "on-null", "member"),
    (
        "read_flags",
        thing(a={"type": "array", "items": {"type": "string", "x-deserialize-default-on-error": True}}),
        "/$defs/Thing/properties/a/items",
        "",
        "",
    ),
    ("fold_nulls", thing(a={"type": ["string", "integer"]}), "/$defs/Thing/properties/a", "integer", "one type"),
    ("fold_nulls", thing(a={"type": ["null"]}), "/$defs/Thing/properties/a", "null", "one type"),
    (
        "tag_unions",
        union(branch("a"), branch("b"), discriminator={"propertyName": "kind"}),
        "/$defs/Thing",
        "kind",
        "type",
    ),
    ("tag_unions", union(branch("a"), branch("a")), "/$defs/Thing/oneOf/1", "twice", "every tag once"),
    ("tag_unions", union(branch("a"), branch("b", required=[])), "/$defs/Thing/oneOf/1", "optional", "required"),
    ("tag_unions", union(branch("a"), branch("b", minProperties=2)), "/$defs/Thing/oneOf/1", "minProperties", "a $ref"),
    ("tag_unions", union(branch("a"), branch("b"), minProperties=2), "/$defs/Thing", "minProperties", ""),
    ("tag_unions", union(branch("a"), {**OTHER, "maxProperties": 2}), "/$defs/Thing/oneOf/1", "maxProperties", "type"),
    (
        "tag_unions",
        union(branch("a"), {"title": "none", "type": "object", "properties": {"type": {"type": "null"}}}),
        "/$defs/Thing/oneOf/1",
        "without its tag",
        "nullable",
    ),
    (
        "tag_unions",
        union(branch("a"), {**OTHER, "not": {"anyOf": [branch("b")]}}),
        "/$defs/Thing",
        "['b']",
        "exactly the known tags",
    ),
    ("merge_alternatives", union(TWO, TWO), "/$defs/Thing", "[[], []]", "one member each"),
    (
        "merge_alternatives",
        union(
            {"type": "object", "properties": {"a": TEXT, "c": TEXT}, "required": ["a"]},
            {"type": "object", "properties": {"b": TEXT, "c": {"type": "integer"}}, "required": ["b"]},
        ),
        "/$defs/Thing",
        "'c'",
        "one in all alternatives",
    ),
    (
        "merge_alternatives",
        {
            "$defs": {
                "Thing": {
                    "oneOf": [
                        {"properties": {"type": {"type": "string", "enum": ["a"]}}, "allOf": [{"$ref": "#/$defs/A"}]},
                        {"properties": {"type": {"type": "string", "enum": ["b"]}}, "allOf": [{"$ref": "#/$defs/B"}]},
                    ]
                },
                "A": {"type": "object", "properties": {"x": TEXT}, "required": ["x"]},
                "B": {"type": "object", "properties": {"y": TEXT}, "required": ["y"]},
            }
        },
        "/$defs/Thing",
        "",
        "",
    ),
    ("merge_alternatives", union(TEXT, properties={"a": TEXT}), "/$defs/Thing", "no objects", "with members"),
    (
        "merge_alternatives",
        union(
            {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
            {"type": "object", "properties": {"b": TEXT}, "required": ["b"]},
            minProperties=2,
        ),
        "/$defs/Thing",
        "minProperties",
        "",
    ),
    (
        "flatten_unions",
        nested({"oneOf": [branch("a"), {"title": "rest", "allOf": [{"$ref": "#/$defs/Two"}]}]}, Two=TWO),
        "/$defs/Thing",
        "without a tag",
        "tagged",
    ),
    (
        "flatten_unions",
        nested(
            {
                "oneOf": [
                    {
                        **branch("a"),
                        "properties": {"kind": {"type": "string", "const": "a"}, "c": TEXT},
                        "required": ["kind"],
                    },
                    {
                        **branch("b"),
                        "properties": {"kind": {"type": "string", "const": "b"}, "c": {"type": "integer"}},
                        "required": ["kind"],
                    },
                ]
            }
        ),
        "/$defs/Thing",
        "'c'",
        "one meaning",
    ),
    ("read_enums", thing(a={"type": "boolean", "enum": [True]}), "/$defs/Thing/properties/a", "boolean", "strings or"),
    (
        "read_enums",
        thing(a={"anyOf": [{"type": "string", "const": "a"}, TEXT, TEXT]}),
        "/$defs/Thing/properties/a",
        "string",
        "open branch last",
    ),
    (
        "read_enums",
        thing(a={"anyOf": [{"type": "string", "const": "a"}, {"type": "integer", "const": 1}]}),
        "/$defs/Thing/properties/a",
        "integer",
        "constants of type string",
    ),
    (
        "bound_integers",
        thing(a={"type": "integer", "format": "int128"}),
        "/$defs/Thing/properties/a",
        "int128",
        "uint64",
    ),
    (
        "keep_extras",
        {"$defs": {"Thing": {"type": "object", "properties": {}, "additionalProperties": TEXT}}},
        "/$defs/Thing",
        "string",
        "",
    ),
    (
        "read_choices",
        thing(a={"anyOf": [TEXT, thing()["$defs"]["Thing"]]}),
        "/$defs/Thing/properties/a",
        "object",
        "scalars",
    ),
    ("read_choices", thing(a={"anyOf": [TEXT], "oneOf": [{"type": "integer"}]}), "/$defs/Thing/properties/a", "", ""),
    ("name_objects", {"$defs": {"Thing": {"type": "string", "properties": {"a": TEXT}}}}, "/$defs/Thing", "string", ""),
    ("name_objects", {"$defs": {"Thing": {"type": "object", "additionalProperties": False}}}, "/$defs/Thing", "", ""),
    (
        "name_objects",
        thing(a={"type": "object", "properties": {"b": TEXT}}),
        "/$defs/Thing/properties/a",
        "properties",
        "",
    ),
    ("dialect", thing(a={"type": "colour"}), "/$defs/Thing/properties/a", "colour", "a scalar"),
    ("dialect", thing(a={"type": "array"}), "/$defs/Thing/properties/a", "without items", "the type of its items"),
    ("dialect", thing(a={"type": "string", "maxLength": 3}), "/$defs/Thing/properties/a", "maxLength", "a type of"),
    ("dialect", thing(a={"type": "string", "enum": ["a", "a"]}), "/$defs/Thing/properties/a", "", "each constant once"),
    ("dialect", {"$defs": {"Thing": {**TWO, "required": ["c"]}}}, "/$defs/Thing", "['c']", "members that are defined"),
    ("dialect", {"$defs": {"Thing": {**TWO, "minProperties": 1}}}, "/$defs/Thing", "minProperties", "properties"),
    ("dialect", {"$defs": {"Thing": {"if": {}, "then": {}}}}, "/$defs/Thing", "if", "a type of"),
    (
        "unwrap_refs",
        {"$defs": {"Thing": {"$ref": "#/$defs/Thing"}}},
        "/$defs/Thing",
        "made of itself: Thing of Thing",
        "an object with members",
    ),
    (
        "unwrap_refs",
        {"$defs": {"Thing": {"allOf": [{"$ref": "#/$defs/Too"}]}, "Too": {"$ref": "#/$defs/Thing"}}},
        "/$defs/Thing",
        "made of itself",
        "in between",
    ),
    (
        "unwrap_refs",
        {"$defs": {"Thing": {"type": "array", "items": {"$ref": "#/$defs/Thing"}}}},
        "/$defs/Thing",
        "made of itself",
        "in between",
    ),
    (
        "unwrap_refs",
        union(TEXT, {"type": "array", "items": {"$ref": "#/$defs/Thing"}}),
        "/$defs/Thing",
        "made of itself",
        "in between",
    ),
    (
        "unwrap_refs",
        union(branch("a", allOf=[{"$ref": "#/$defs/Thing"}]), branch("b")),
        "/$defs/Thing",
        "made of itself",
        "in between",
    ),
    ("tag_unions", union(branch(True), branch(False)), "/$defs/Thing/oneOf/0", "tag True", "a string"),
    ("tag_unions", union(branch("a"), NAMELESS, NAMELESS), "/$defs/Thing/oneOf/2", "Thing/x", "a name for each branch"),
    (
        "tag_unions",
        union(branch("a"), branch("other")),
        "/$defs/Thing/oneOf/1",
        "Thing/other",
        "members in a definition",
    ),
    (
        "tag_unions",
        union(branch("a"), branch("other"), {**OTHER, "additionalProperties": True}),
        "/$defs/Thing/oneOf/1",
        "Thing/other",
        "in a definition",
    ),
    (
        "read_enums",
        thing(a={"anyOf": [{"type": "string", "const": "a"}, {"type": "string", "minLength": 3}]}),
        "/$defs/Thing/properties/a",
        "minLength",
        "open branch last",
    ),
    ("read_enums", thing(a={"enum": ["a"]}), "/$defs/Thing/properties/a", "type None", "strings or"),
    ("read_enums", thing(a={"type": "string", "enum": [1]}), "/$defs/Thing/properties/a", "[1]", "each of type string"),
    (
        "read_enums",
        thing(a={"type": "integer", "enum": [True]}),
        "/$defs/Thing/properties/a",
        "[True]",
        "each of type integer",
    ),
    ("read_enums", thing(a={"type": "string", "enum": []}), "/$defs/Thing/properties/a", "[]", "one or more"),
    (
        "read_enums",
        union({**CODE, "const": 1, "format": "int32"}, {**CODE, "format": "int64"}),
        "/$defs/Thing",
        "several formats",
        "one format",
    ),
    ("read_choices", thing(a={"anyOf": [TEXT, {"minLength": 3}]}), "/$defs/Thing/properties/a", "other", "scalars"),
    (
        "dialect",
        thing(a={"$ref": "#/$defs/Thing", "minLength": 3}),
        "/$defs/Thing/properties/a",
        "minLength",
        "narrows nothing",
    ),
    (
        "decide",
        union({**CODE, "const": 1, "title": "No"}, {**CODE, "const": 2, "title": "No"}, CODE),
        "/$defs/Thing",
        "called 'No'",
        "a title for each",
    ),
    (
        "decide",
        union({"type": "array", "items": TEXT}, {"type": "array", "items": CODE}, {"type": "null"}),
        "/$defs/Thing",
        "may be null",
        "where they are used",
    ),
    (
        "decide",
        {"$defs": {"Thing": {"type": "array", "items": union(const("a"), TEXT)["$defs"]["Thing"]}}},
        "/$defs/Thing",
        "open set",
        "as a definition",
    ),
    (
        "decide",
        {"$defs": {name: {**TWO, "x-method": "go", "x-side": "agent"} for name in ("GoRequest", "Thing")}},
        "/$defs/Thing",
        "go (agent, request)",
        "each method once",
    ),
    (
        "decide",
        thing(a={**TEXT, ON_ERROR: True}, required=["a"]),
        "/$defs/Thing/properties/a",
        "required",
        "an optional one",
    ),
    ("decide", thing(a={**TEXT, SKIP: True}), "/$defs/Thing/properties/a", "skip of type string", "an array"),
    (
        "decide",
        thing(a={"type": "object", "additionalProperties": TEXT, SKIP: True}),
        "/$defs/Thing/properties/a",
        "skip of type object",
        "an array",
    ),
    ("decide", thing(a={**TEXT, ON_NULL: True}), "/$defs/Thing/properties/a", "null of type string", "an array"),
    *(
        (
            "decide",
            with_two(thing(a={**node, "default": value})),
            "/$defs/Thing/properties/a",
            f"default {value!r}",
            "takes",
        )
        for node, value in UNFIT
    ),
]
PASS_NAMES = [step.__name__ for step in normalise.PASSES if step.__module__ == normalise.__name__]


def test_every_current_pass_has_inputs_that_it_cannot_know() -> None:
    assert set(PASS_NAMES) <= {entry[0] for entry in UNKNOWN}


@pytest.mark.parametrize(
    ("document", "pointer", "found", "expected"),
    [pytest.param(*entry[1:], id=f"{entry[0]}-{index}") for index, entry in enumerate(UNKNOWN)],
)
def test_an_unknown_idiom_is_named_and_nothing_is_written(
    document: dict[str, Any],
    pointer: str,
    found: str,
    expected: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Pointer, definition, what was found and what was expected; the package that was there stays as it was."""
    schema, out = tmp_path / "schema.json", tmp_path / "package"
    schema.write_text(json.dumps(document), "utf-8")
    out.mkdir()
    (out / "types.py").write_bytes(b"# types: generated by acpwire-codegen before")
    assert main(["generate", "--schema", str(schema), "--out", str(out)]) == 1
    said = capsys.readouterr()
    head, *rest = said.err.splitlines()
    lines = {line.split(":", 1)[0].strip(): line.split(":", 1)[1].strip() for line in rest}
    assert f" {pointer} (definition {pointer.split('/')[2]}) " in head
    assert "nothing was written" in head
    assert lines.keys() == {"found", "expected"}
    assert found in lines["found"]
    assert expected in lines["expected"]
    assert all(lines.values())
    assert said.out == ""
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        "types.py": b"# types: generated by acpwire-codegen before"
    }


def test_a_schema_of_envelopes_alone_gives_nothing_to_generate() -> None:
    envelope = {"type": "object", "properties": {"method": TEXT, "params": {}}}
    with pytest.raises(UnknownIdiomError, match="no definitions"):
        normalise.normalise({"anyOf": [{"$ref": "#/$defs/Call"}], "$defs": {"Call": envelope}})


def test_an_unknown_idiom_does_not_even_make_the_directory(tmp_path: Path) -> None:
    schema, out = tmp_path / "schema.json", tmp_path / "package"
    schema.write_text(json.dumps(thing(a={"type": "colour"})), "utf-8")
    assert main(["generate", "--schema", str(schema), "--out", str(out)]) == 1
    assert not out.exists()
    schema.write_text(json.dumps(thing(a=TEXT)), "utf-8")
    assert main(["generate", "--schema", str(schema), "--out", str(out)]) == 0
    assert (out / "types.py").exists()


# --- every pass is needed --------------------------------------------------------------------------------------------


def _sources() -> dict[str, Callable[[], load.Source]]:
    directory = load.schema_directory()
    published = {path.stem: functools.partial(load.read_schema, path) for path in PUBLISHED}
    return {"pinned": functools.partial(load.read_pinned, directory), **published}


SOURCES = _sources()


@functools.cache
def _tables() -> load.Tables:
    return load.read_tables(load.schema_directory())


@functools.cache
def _built(name: str) -> Model:
    return build(SOURCES[name](), _tables())


def _normal(document: dict[str, Any]) -> Schema | str:
    try:
        return normalise.normalise(document)
    except Exception as error:  # noqa: BLE001  # a pass that lacks another may fail in any way
        return repr(error)


@pytest.mark.parametrize("name", PASS_NAMES)
def test_every_pass_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, the pinned schema gives another model or none, and some shape another normal form or none."""
    pinned = _built("pinned")
    before = {shape: _normal(ALL[shape].source().document) for shape in BUILT}
    monkeypatch.setattr(normalise, "PASSES", tuple(step for step in normalise.PASSES if step.__name__ != name))
    try:
        without: Model | None = build(SOURCES["pinned"](), _tables())
    except Exception:  # noqa: BLE001  # what a missing pass leads to is not its promise; that it is missed is
        without = None
    assert without != pinned
    assert [shape for shape in BUILT if _normal(ALL[shape].source().document) != before[shape]] != []


# --- whole schemas ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Package]]:
    """The package of a whole schema with the tables that the repository keeps, generated once."""

    @functools.cache
    def make(name: str) -> Package:
        return make_package(directory, re.sub(r"\W", "_", f"published_{name}"), SOURCES[name](), _tables())

    with importable(tmp_path_factory.mktemp("published")) as directory:
        yield make


@pytest.mark.parametrize("name", SOURCES)
def test_a_published_schema_becomes_a_package(name: str, published: Callable[[str], Package]) -> None:
    """Normalised, built, rendered and imported; every method is there, and no class got a number for a name."""
    source, built = SOURCES[name](), published(name)
    definitions = source.document["$defs"]
    bound = {definition["x-method"] for definition in definitions.values() if "x-method" in definition}
    assert {method for method, _, _ in built.module.METHODS} == bound
    assert {one for one in built.names() if one[-1].isdigit()} <= set(definitions)
    assert source.version == built.module.SCHEMA_VERSION
    assert built.model == _built(name)


def _unordered(model: Model) -> dict[str, Any]:
    """Everything in a model, less the order in which it was added."""
    tables = {field.name: getattr(model, field.name) for field in fields(model)}
    lists = {name: cast("Iterable[Any]", held) for name, held in tables.items() if isinstance(held, list)}
    return {**tables, **{name: sorted(map(repr, held)) for name, held in lists.items()}}


@pytest.mark.parametrize("name", SOURCES)
def test_the_order_of_definitions_changes_nothing(name: str) -> None:
    """Equal names, classes, aliases and tables, from A to Z and backwards."""
    source = SOURCES[name]()
    for order in (sorted(source.document["$defs"]), list(source.document["$defs"])[::-1]):
        definitions = {key: source.document["$defs"][key] for key in order}
        model = build(replace(source, document={**source.document, "$defs": definitions}), _tables())
        assert _unordered(model) == _unordered(_built(name))


def test_the_order_of_definitions_does_not_change_the_printed_types(published: Callable[[str], Package]) -> None:
    """Byte for byte, however upstream sorts its file."""
    source = SOURCES["pinned"]()
    backwards = dict(reversed(source.document["$defs"].items()))
    model = build(replace(source, document={**source.document, "$defs": backwards}), _tables())
    assert render(model, "published_pinned")["types.py"] == published("pinned").files["types.py"]


def _reordered(shape: Shape, order: Iterable[str]) -> Model:
    definitions = {name: shape.schema["$defs"][name] for name in order}
    return build(source_of({**shape.schema, "$defs": definitions}), shape.hand_kept())


@pytest.mark.parametrize("name", BUILT)
def test_a_shape_turned_round_gives_the_same_model(name: str) -> None:
    shape = ALL[name]
    backwards = list(shape.schema["$defs"])[::-1]
    assert _unordered(_reordered(shape, backwards)) == _unordered(_reordered(shape, shape.schema["$defs"]))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_order_of_the_definitions_of_a_shape_changes_its_model(data: st.DataObject) -> None:
    shape = ALL[data.draw(st.sampled_from(sorted(BUILT)))]
    order = data.draw(st.permutations(list(shape.schema["$defs"])))
    assert _unordered(_reordered(shape, order)) == _unordered(_reordered(shape, shape.schema["$defs"]))


KEYWORDS = (
    *("$ref", "$defs", "type", "properties", "required", "items", "additionalProperties", "enum", "const", "default"),
    *("anyOf", "oneOf", "allOf", "not", "title", "description", "format", "minimum", "minItems", "minLength"),
    *("discriminator", "x-method", "x-side", "x-docs-ignore", "x-deserialize-default-on-error", "contentEncoding"),
    *("flags", "at", "nullable", "extra", "tag", "variants", "fallback", "rest", "shared", "optional", "presence"),
)
"""Of JSON Schema, of ACP's, and of the dialect."""


@given(st.dictionaries(st.sampled_from(KEYWORDS), st.sampled_from(["string", "boolean", "number"]), min_size=1))
def test_no_keyword_is_read_from_the_name_of_a_member_or_of_a_definition(members: dict[str, str]) -> None:
    """H14: walked by position. The same members give the same normal form under any other names."""
    properties = {name: {"type": kind} for name, kind in members.items()}
    schema = normalise.normalise({"$defs": {name: {"type": "object", "properties": properties} for name in members}})
    plain: Node = {"properties": {name: {"type": kind} for name, kind in members.items()}, "required": []}
    bare = {
        name: {**node, "properties": {key: {"type": child["type"]} for key, child in node["properties"].items()}}
        for name, node in schema.defs.items()
    }
    assert bare == dict.fromkeys(members, plain)
    assert schema.methods == {}
    assert schema.dropped == {}


@given(st.sampled_from(sorted(BUILT)))
@settings(max_examples=40, deadline=None)
def test_normalising_leaves_the_document_as_it_was(name: str) -> None:
    document = ALL[name].source().document
    before = copy.deepcopy(document)
    normalise.normalise(document)
    assert document == before
