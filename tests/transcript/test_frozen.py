"""JSON that refuses to be changed, and is what it was in all else."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpwire import v2
from acpwire.transcript.frozen import FrozenDict, FrozenList, FrozenVariant, frozen

SCALARS: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | st.text(max_size=3)
)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


def containers(value: Any) -> Iterator[Any]:
    """The dicts and lists in a JSON value."""
    if isinstance(value, dict | list):
        yield value
        held = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("Iterable[Any]", value)
        for each in held:
            yield from containers(each)


def is_frozen(value: Any) -> bool:
    """Whether nothing in a JSON value can be changed."""
    return all(type(each) in (FrozenDict, FrozenList) for each in containers(value))


def is_plain(value: Any) -> bool:
    """Whether a JSON value is made of ordinary dicts and lists."""
    return all(type(each) in (dict, list) for each in containers(value))


@given(JSON)
def test_a_frozen_value_is_equal_and_encoded_alike(value: Any) -> None:
    before = copy.deepcopy(value)
    kept = frozen(value)
    assert is_frozen(kept)
    assert kept == value == before
    assert msgspec.json.encode(kept) == msgspec.json.encode(value)
    assert json.dumps(kept) == json.dumps(value)
    assert is_plain(value)


@given(JSON)
def test_copies_are_plain_and_pickles_stay_frozen(value: Any) -> None:
    kept = frozen(value)
    assert copy.copy(kept) == copy.deepcopy(kept) == pickle.loads(pickle.dumps(kept)) == value  # noqa: S301  # our own
    assert is_plain(copy.deepcopy(kept))
    assert type(copy.copy(kept)) is type(value)
    assert is_frozen(pickle.loads(pickle.dumps(kept)))  # noqa: S301  # our own


@given(JSON)
def test_what_is_frozen_already_is_shared(value: Any) -> None:
    kept = frozen(value)
    assert frozen(kept) is kept
    content = frozen(v2.TextContent(text="A", meta={"value": kept}))
    assert content.meta is not None
    assert content.meta["value"] is kept
    assert frozen([content])[0] is content


CHANGES: dict[str, Callable[[Any], object]] = {
    "dict[]=": lambda value: value.__setitem__("a", 2),
    "dict|=": lambda value: value.__ior__({"a": 2}),
    "del dict[]": lambda value: value.__delitem__("a"),
    "dict.clear": lambda value: value.clear(),
    "dict.pop": lambda value: value.pop("a"),
    "dict.popitem": lambda value: value.popitem(),
    "dict.setdefault": lambda value: value.setdefault("c", 2),
    "dict.update": lambda value: value.update(a=2),
    "list[]=": lambda value: value["b"].__setitem__(0, 3),
    "list[:]=": lambda value: value["b"].__setitem__(slice(None), []),
    "del list[]": lambda value: value["b"].__delitem__(0),
    "list+=": lambda value: value["b"].__iadd__([3]),
    "list*=": lambda value: value["b"].__imul__(2),
    "list.append": lambda value: value["b"].append(3),
    "list.clear": lambda value: value["b"].clear(),
    "list.extend": lambda value: value["b"].extend([3]),
    "list.insert": lambda value: value["b"].insert(0, 3),
    "list.pop": lambda value: value["b"].pop(),
    "list.remove": lambda value: value["b"].remove(1),
    "list.reverse": lambda value: value["b"].reverse(),
    "list.sort": lambda value: value["b"].sort(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_way_to_change_is_refused(name: str) -> None:
    value = {"a": 1, "b": [2, 1]}
    kept = frozen(value)
    with pytest.raises(TypeError, match="does not change"):
        CHANGES[name](kept)
    assert kept == value
    CHANGES[name](copy.deepcopy(kept))


def test_every_method_that_changes_a_dict_or_list_is_among_those() -> None:
    refused = {name for cls in (FrozenDict, FrozenList) for name, value in vars(cls).items() if value is _refusal()}
    reads = {"copy", "count", "fromkeys", "get", "index", "items", "keys", "values"}
    changing = {name for cls in (dict, list) for name in vars(cls) if name[0] != "_"} - reads
    assert refused == changing | {"__setitem__", "__delitem__", "__ior__", "__iadd__", "__imul__"}


def _refusal() -> Any:
    return vars(FrozenDict)["clear"]


def test_structs_hold_what_is_frozen_and_stay_equal() -> None:
    diff = v2.Diff(changes=[v2.DiffAdd(path="/a", meta={"k": [1]}), v2.UnknownVariant("_later", b'{"x":[1]}')])
    kept = frozen(diff)
    assert kept == diff
    assert v2.encode(kept) == v2.encode(diff)
    first, second = kept.changes
    assert is_frozen(kept.changes)
    assert isinstance(first, v2.DiffAdd)
    assert is_frozen(first.meta)
    assert isinstance(second, FrozenVariant)


def test_an_unknown_variant_refuses_to_be_changed_and_so_does_its_data() -> None:
    variant = v2.UnknownVariant("_later", b'{"x":[1]}')
    kept = frozen(variant)
    assert (kept, hash(kept), repr(kept)) == (variant, hash(variant), repr(variant))
    for name in ("tag", "raw", "data"):
        with pytest.raises((TypeError, AttributeError)):
            setattr(kept, name, b"{}")
    assert is_frozen(kept.data)
    assert kept.data == {"x": [1]}
    for twin in (copy.copy(kept), copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):  # noqa: S301  # our own
        assert isinstance(twin, FrozenVariant)
        assert twin == variant
    assert v2.encode(kept) == variant.raw
