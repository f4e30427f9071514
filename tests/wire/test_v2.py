"""The generated package: every type there and back, held against the schema; methods, examples, recordings, names.

Instances come from the generator's model and are checked by `jsonschema`; plain JSON comes from the schema and is
checked by what decoding and encoding must leave of it. The table of methods is requirement B1, written out.
"""

from __future__ import annotations

import copy
import functools
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from acpwire import v2, wire
from acpwire.wire.lenient import Decoding
from acpwire.wire.v2 import unions
from acpwire_codegen.model import Alias, Struct
from tests.models import strategies
from tests.models.strategies import compact, public, type_of

CORPUS = Path(__file__).parents[1] / "corpus"
NAMES = sorted(public())
CLASSES = [name for name, entry in public().items() if isinstance(entry, Struct)]
BRIEFLY = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""There are hundreds of types; a shared machine may be slow at any one of them."""

every_type = pytest.mark.parametrize("name", NAMES)


def decoding() -> Decoding:
    """The decoding of the package, for its strict half."""
    return unions.DECODING


def walk(value: Any) -> Iterator[Any]:
    """A value and everything inside it."""
    yield value
    inner: Sequence[Any] = ()
    if isinstance(value, msgspec.Struct):
        inner = [getattr(value, attr) for attr in value.__struct_fields__]
    elif isinstance(value, dict):
        inner = list(cast("dict[str, Any]", value).values())
    elif isinstance(value, list):
        inner = cast("list[Any]", value)
    for child in inner:
        yield from walk(child)


def exact(document: Any) -> str:
    """JSON as text, in which 1, 1.0 and true differ and the order of members does not matter."""
    return json.dumps(document, sort_keys=True)


# --- against the schema ----------------------------------------------------------------------------------------------


def refused_by_schema(node: Mapping[str, Any], document: Any) -> list[str]:
    """Why a node of the schema refuses a document; formats are annotations (H38)."""
    validator = _validator(json.dumps(node))
    return [error.message for error in validator.iter_errors(document)]


@functools.cache
def _validator(node: str) -> Draft202012Validator:
    return Draft202012Validator({**json.loads(node), "$defs": strategies.schema()["$defs"]})


def test_every_definition_and_every_public_name_of_the_model_is_among_the_types_tested() -> None:
    """The ids of the tests below: classes and aliases, less guards and fallbacks, which are private."""
    model = strategies.model()
    assert set(NAMES) == {s.name for s in [*model.structs, *model.aliases] if not s.name.startswith("_")}
    hidden = {s.name for s in model.structs if s.name.startswith("_")}
    assert {name.removeprefix("_") for name in hidden} == (
        {f"{union.name}Guard" for union in model.unions if len(union.variants) == 1}
        | {union.fallback.removeprefix("_") for union in model.unions if union.fallback}
    )
    without_class = set(model_overrides()["no_class"])
    reached = {*NAMES, *(s.place for s in model.structs)}
    assert set(strategies.schema()["$defs"]) - without_class <= reached


def model_overrides() -> dict[str, Any]:
    """The tables of overrides.toml."""
    from acpwire_codegen import load  # noqa: PLC0415  # the only use

    return load.read_tables(load.schema_directory()).overrides


@every_type
@BRIEFLY
@given(data=st.data())
def test_an_instance_is_valid_on_the_wire_and_comes_back_equal(name: str, data: st.DataObject) -> None:
    """H3, H6, H7, H22 to H26: encode, check against the schema, decode, encode again."""
    value = data.draw(strategies.instances(name))
    raw = v2.encode(value)
    document = json.loads(raw)
    assert refused_by_schema(strategies.node_of(name), document) == []
    entry = public()[name]
    if isinstance(entry, Struct) and entry.union:
        assert refused_by_schema({"$ref": f"#/$defs/{entry.union}"}, document) == []
        inside_its_union = v2.decode(type_of(entry.union), raw)
        assert inside_its_union.__class__ is value.__class__
        assert inside_its_union == value
    back = v2.decode(type_of(name), raw)
    assert back.__class__ is value.__class__
    assert back == value
    assert v2.encode(back) == raw


@every_type
@BRIEFLY
@given(data=st.data())
def test_a_decoded_value_is_a_value(name: str, data: st.DataObject) -> None:
    """Copies are equal and of the same class; hashing works unless a member is a list or a dict; repr is short."""
    value = v2.decode(type_of(name), v2.encode(data.draw(strategies.instances(name))))
    for other in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):  # noqa: S301  # our own
        assert other.__class__ is value.__class__
        assert other == value
        assert not other != value
        assert v2.encode(other) == v2.encode(value)
    if any(isinstance(inner, list | dict) for inner in walk(value)):
        with pytest.raises(TypeError, match="unhashable"):
            hash(value)
    else:
        assert hash(copy.deepcopy(value)) == hash(value)
    if isinstance(value, msgspec.Struct):
        assert repr(value) == short_repr(value)


def short_repr(value: msgspec.Struct) -> str:
    """Class and members, less those that are None, UNSET or empty by default."""
    shown: list[str] = []
    for field in msgspec.structs.fields(value):
        member = getattr(value, field.name)
        empty = field.default_factory in (list, dict) and member in ([], {})
        if member is not field.default and not empty:
            shown.append(f"{field.name}={member!r}")
    return f"{value.__class__.__name__}({', '.join(shown)})"


@every_type
@BRIEFLY
@given(data=st.data())
def test_valid_json_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    """EX-03, EX-09, H4, H6, H7, H15, H17, H19, H20, H27: `strategies.reencoded` says what may differ."""
    document = data.draw(strategies.documents(name))
    raw = data.draw(st.sampled_from(strategies.LAYOUTS))(document)
    assert refused_by_schema(strategies.node_of(name), document) == [], "the strategy is wrong"
    value = v2.decode(type_of(name), raw)
    again = v2.encode(value)
    kept = strategies.reencoded(name, document)
    if not isinstance(value, v2.UnknownVariant) and isinstance(kept, dict):
        kept |= strategies.tag_in(name)
    assert exact(json.loads(again)) == exact(kept)
    assert b"\n" not in again
    for unknown in walk(value):
        if isinstance(unknown, v2.UnknownVariant):
            assert unknown.raw in raw
            assert unknown.raw.replace(b"\n", b" ") in again


