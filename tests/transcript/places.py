"""Updates of every variant with a `_meta` in one place of theirs, for every place that the types have.

Owns: walking the types. Does not know: the fold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec.inspect

from acpwire import v2
from acpwire.wire.v2.unions import CHOICES

MARK = "here it is"
_UNION: Any = msgspec.inspect.type_info(v2.SessionUpdate)
_SUBJECT: Any = msgspec.inspect.type_info(v2.ToolCallFields)
VARIANTS: dict[str, Any] = {variant.cls.__name__: variant for variant in [*_UNION.types, _SUBJECT]}
FURTHER: dict[tuple[str, str], Any] = {
    ("EmbeddedResource", "resource"): msgspec.inspect.type_info(CHOICES["EmbeddedResourceResource"][1]),
    ("SessionConfigSelect", "options"): msgspec.inspect.type_info(CHOICES["SessionConfigSelectOptions"][1]),
}
"""Alternatives that the run-time type of a member leaves to the second look."""


def minimal(kind: Any) -> Any:
    """The least JSON of a type; any string is base64 as well."""
    match kind:
        case msgspec.inspect.StructType():
            tag = {kind.tag_field: kind.tag} if kind.tag_field else {}
            return tag | {field.encode_name: minimal(field.type) for field in kind.fields if field.required}
        case msgspec.inspect.UnionType():
            return minimal(kind.types[0])
        case msgspec.inspect.ListType() | msgspec.inspect.CollectionType():
            return [minimal(kind.item_type)] if kind.min_length else []
        case msgspec.inspect.LiteralType():
            return kind.values[0]
        case msgspec.inspect.StrType():
            return "eHh4"
        case msgspec.inspect.BoolType():
            return True
        case _:
            return 1


def places(kind: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every place for a `_meta` in a type, and the least JSON that has it there and nowhere else."""
    match kind:
        case msgspec.inspect.StructType() if kind.cls.__name__[0] != "_":
            for field in kind.fields:
                if field.encode_name == "_meta":
                    yield f"{path}._meta", minimal(kind) | {"_meta": {"mark": MARK}}
                else:
                    further = FURTHER.get((kind.cls.__name__, field.name))
                    for each in (field.type, further) if further else (field.type,):
                        for where, value in places(each, f"{path}.{field.encode_name}"):
                            yield where, minimal(kind) | {field.encode_name: value}
        case msgspec.inspect.UnionType():
            for each in kind.types:
                yield from places(each, path)
        case msgspec.inspect.ListType() | msgspec.inspect.CollectionType():
            for where, value in places(kind.item_type, f"{path}[]"):
                yield where, [value]
        case _:
            pass


def marked(name: str) -> Iterator[tuple[str, Any]]:
    """Every place for a `_meta` in an update, and an update that has it there; states in each of their values."""
    for path, document in places(VARIANTS[name]):
        states = ("running", "idle", "requires_action", "unknown") if name == "StateUpdate" else ("",)
        for state in states:
            wanted = document | ({"state": state} if state else {})
            yield path, v2.decode(VARIANTS[name].cls, json.dumps(wanted).encode())
