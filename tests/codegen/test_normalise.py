"""One idiom of ACP schemas a file, under `shapes/`, and what belongs to the passes and the dialect as a whole.

A shape file is a JSON object; to add a shape, write one (nothing else needs a change):

    idiom      one sentence: how the schema says it, and what becomes of it
    ids        the requirements it rests on
    schema     the smallest schema that shows it; a `description` that says "equivalent" marks a plain nullable member
    overrides  what overrides.toml would say, where the idiom needs it
    accepts    values that decode:  {"as": TYPE, "json": VALUE, "gives": EXPECTED, "encodes": VALUE}
    rejects    values that do not:  {"as": TYPE, "json": VALUE, "at": PATH, "says": PART OF THE MESSAGE}
    names      every class and alias there is, private ones included
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

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from acpwire_codegen import load
from acpwire_codegen.dialect import UnknownIdiomError

from acpwire.wire import DecodeError, OpenObject, UnknownVariant
from tests.codegen.support import Package, importable, make_package, source_of

SHAPES = Path(__file__).parent / "shapes"
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
    """What the printed modules must and must not contain."""

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
    methods: dict[str, tuple[str, str]] | None = None
    codes: dict[str, int] = {}
    printed: Printed = Printed()
    tables: list[str] = []
    reports: list[str] = []
    stops: Stop | None = None


def _read(path: Path) -> Shape:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Shape)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path.name}: {error}") from error


ALL = {path.stem: _read(path) for path in sorted(SHAPES.glob("*.json"))}
BUILT = {name: shape for name, shape in ALL.items() if shape.stops is None}
ACCEPTED = [pytest.param(n, case, id=f"{n}-{i}") for n, s in ALL.items() for i, case in enumerate(s.accepts)]
REJECTED = [pytest.param(n, case, id=f"{n}-{i}") for n, s in ALL.items() for i, case in enumerate(s.rejects)]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Package]]:
    """The package of a shape, generated once."""

    @functools.cache
    def make(name: str) -> Package:
        shape = ALL[name]
        tables = load.Tables(docs={}, overrides=shape.overrides, pinned={})
        return make_package(directory, f"shape_{name}", source_of(shape.schema), tables)

    with importable(tmp_path_factory.mktemp("shapes")) as directory:
        yield make


# --- the shapes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_a_shape_shows_something(name: str) -> None:
    """A file that checks nothing would pass for ever."""
    shape = ALL[name]
    assert shape.ids
    assert (shape.stops is not None) != bool(shape.accepts or shape.rejects)


@pytest.mark.parametrize("name", [name for name, shape in ALL.items() if shape.stops is not None])
def test_a_shape_that_is_not_known_stops_the_build(name: str) -> None:
    stop = ALL[name].stops
    assert stop is not None
    with pytest.raises(UnknownIdiomError) as caught:
        load_and_build(ALL[name])
    assert caught.value.pointer == stop.at
    assert stop.found in caught.value.found
    assert stop.expected in caught.value.expected


@pytest.mark.parametrize("name", BUILT)
def test_a_shape_gives_the_names_methods_and_text_that_it_says(
    name: str, package: Callable[[str], Package]
) -> None:
    shape, built = ALL[name], package(name)
    text, tables = built.files["types.py"], " ".join(built.files["unions.py"].split())
    assert built.names() == set(shape.names)
    assert [part for part in shape.printed.has if part not in text] == []
    assert [part for part in shape.printed.lacks if part in text] == []
    assert [part for part in shape.tables if part not in tables] == []
    assert [part for part in shape.reports if not any(part in note for note in built.model.warnings)] == []
    assert built.model.codes == shape.codes
    methods = {f"{m.name} {m.side} {m.kind}": (m.params, m.result) for m in built.model.methods}
    assert methods == (shape.methods or {})


@pytest.mark.parametrize(("name", "case"), ACCEPTED)
def test_an_accepted_value_gives_what_the_shape_says(
    name: str, case: Accept, package: Callable[[str], Package]
) -> None:
    raw = bytes(case.json)
    value = package(name).decode(case.type_name, raw)
    if case.gives is not msgspec.UNSET:
        assert list(differences(case.gives, value, raw)) == []
    encoded = package(name).encode(value)
    if bytes(case.encodes):
        assert canonical(encoded) == canonical(raw if bytes(case.encodes) == b'"same"' else bytes(case.encodes))
    assert case.gives is not msgspec.UNSET or bytes(case.encodes), "the case expects nothing"


@pytest.mark.parametrize(("name", "case"), ACCEPTED)
def test_an_accepted_value_survives_encoding(name: str, case: Accept, package: Callable[[str], Package]) -> None:
    value = package(name).decode(case.type_name, bytes(case.json))
    encoded = package(name).encode(value)
    again = package(name).decode(case.type_name, encoded)
    assert package(name).encode(again) == encoded
    assert again == value or any(b"\n" in one.raw for one in unknowns(value))
    assert [one for one in unknowns(value) if one.raw.replace(b"\n", b" ") not in encoded] == []


@pytest.mark.parametrize(("name", "case"), ACCEPTED)
def test_both_looks_agree(name: str, case: Accept, package: Callable[[str], Package]) -> None:
    """Which look took a value must not show: the second alone gives what `decode` gives."""
    built = package(name)
    kind = built.type(case.type_name)
    second = built.module.unions.DECODING.look(kind, bytes(case.json))
    value = built.decode(case.type_name, bytes(case.json))
    assert second == value
    assert type(second) is type(value)


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


# --- comparing ---------------------------------------------------------------------------------------------------------


def load_and_build(shape: Shape) -> Any:
    from acpwire_codegen.decide import build

    return build(source_of(shape.schema), load.Tables(docs={}, overrides=shape.overrides, pinned={}))


def canonical(raw: bytes) -> str:
    """JSON whatever its layout and order; 1, 1.0 and true differ."""
    return json.dumps(json.loads(raw), sort_keys=True)


def strings(value: Any) -> Iterator[str]:
    """Every string that stands as a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for child in cast("dict[str, Any]", value).values():
            yield from strings(child)
    elif isinstance(value, list):
        for child in cast("list[Any]", value):
            yield from strings(child)


def unknowns(value: Any) -> Iterator[UnknownVariant]:
    """Every unknown variant in a value."""
    if isinstance(value, UnknownVariant):
        yield value
    elif isinstance(value, msgspec.Struct):
        for attr in value.__struct_fields__:
            yield from unknowns(getattr(value, attr))
    elif isinstance(value, dict):
        yield from unknowns(list(cast("dict[str, Any]", value).values()))
    elif isinstance(value, list):
        for child in cast("list[Any]", value):
            yield from unknowns(child)


def differences(expected: Any, value: Any, raw: bytes, path: str = "$") -> Iterator[str]:
    """Where a value is not what `gives` says, in words."""
    if isinstance(expected, dict) and "class" in expected:
        wanted = dict(cast("dict[str, Any]", expected))
        name = wanted.pop("class")
        if name == "UNSET":
            if value is not msgspec.UNSET:
                yield f"{path}: {value!r} is not UNSET"
        elif type(value).__name__ != name:
            yield f"{path}: {value!r} is no {name}"
        elif isinstance(value, UnknownVariant):
            if value.tag != wanted["tag"] or value.raw not in raw:
                yield f"{path}: {value!r} is not the value that came, with tag {wanted['tag']}"
        elif isinstance(value, msgspec.Struct):
            yield from _struct_differences(wanted, value, raw, path)
        else:
            assert isinstance(value, OpenObject)
            for attr, child in wanted.items():
                yield from differences(child, getattr(value, attr), raw, f"{path}.{attr}")
    elif isinstance(expected, dict):
        members = cast("Mapping[str, Any]", expected)
        if not isinstance(value, Mapping) or members.keys() != cast("Mapping[str, Any]", value).keys():
            yield f"{path}: {value!r} has not the keys {list(members)}"
        else:
            for key, child in members.items():
                yield from differences(child, value[key], raw, f"{path}[{key}]")
    elif isinstance(expected, list):
        items = cast("list[Any]", expected)
        if not isinstance(value, list) or len(items) != len(cast("list[Any]", value)):
            yield f"{path}: {value!r} is no list of {len(items)}"
        else:
            for index, child in enumerate(items):
                yield from differences(child, value[index], raw, f"{path}[{index}]")
    elif type(expected) is not type(value) or expected != value:
        yield f"{path}: {value!r} is not {expected!r}"


def _struct_differences(wanted: dict[str, Any], value: msgspec.Struct, raw: bytes, path: str) -> Iterator[str]:
    fields = {field.name: field for field in msgspec.structs.fields(value)}
    yield from (f"{path}: {type(value).__name__} has no {attr}" for attr in sorted(wanted.keys() - fields.keys()))
    for name, field in fields.items():
        if name in wanted:
            yield from differences(wanted[name], getattr(value, name), raw, f"{path}.{name}")
        elif field.required:
            yield f"{path}.{name} is required, and the shape does not say what it is"
        else:
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            if getattr(value, name) != default:
                yield f"{path}.{name}: {getattr(value, name)!r} is not its default, {default!r}"
