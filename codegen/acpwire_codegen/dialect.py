"""The small dialect between a published schema and the model: what it may say, and how to walk it.

Owns: the grammar of the dialect, the check that a schema keeps to it, walking, and the error for what does not fit.
Does not know: how published schemas are rewritten into it, or what is made of it.

A *type* is one of

    {"$ref": NAME}                                   another definition
    {"type": "string" | "integer" | "number" | "boolean", "minimum", "maximum", "minLength", "format"}
    {"type": "array", "items": TYPE, "minItems"}     {"type": "object", "additionalProperties": TYPE}
    {"scalars": [TYPE, ...]}                         {"choice": [TYPE, ...]}, of which the first that fits is taken
    {"type", "enum": [...], "open", "titles"}        constants; "of" names the union whose tag they were
    {}                                               any JSON

with "nullable": true where null is allowed. A *definition* is a type, or an object, or a tagged union:

    {"properties": {NAME: TYPE + "flags", "default", "presence", "at"}, "required": [...],
     "extra": unknown members are kept,              "exclusive": members that decide between alternatives,
     "when": members that a value of the tag needs,  "state": the tag of the union that was flattened into it,
     "parts": value of the tag -> where its own members stand, and which it needs}
    {"tag", "variants": {VALUE: NAME}, "open", "fallback": NAME | None, "rest": [NAME, ...], "shared": {...}}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from math import isfinite
from typing import Any, cast

Node = dict[str, Any]
SCALARS = ("string", "integer", "number", "boolean")


class UnknownIdiomError(Exception):
    """The schema says something in a way that no pass knows; nothing is generated from a guess."""

    def __init__(self, pointer: str, found: str, expected: str) -> None:
        self.pointer, self.found, self.expected = pointer, found, expected
        self.definition = pointer.split("/")[2] if pointer.count("/") > 1 else ""
        super().__init__(f"{pointer}: found {found}; expected {expected}")


@dataclass
class Schema:
    """One schema on its way through the passes."""

    root: Node
    defs: dict[str, Node]
    methods: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Definition -> (method, side), from `x-method` and `x-side`."""
    dropped: dict[str, str] = field(default_factory=dict[str, str])
    """Definition -> why nothing is left of it: an envelope, or merged into what it belongs to."""

    def drop_unused(self, names: Iterable[str], why: str) -> None:
        """Forget definitions whose members went elsewhere, unless something still refers to them."""
        used = Counter(target for definition in self.defs.values() for target in _mentioned(definition))
        for name in names:
            if name in self.defs and not used[name]:
                used.subtract(_mentioned(self.defs.pop(name)))
                self.dropped[name] = why


def _mentioned(definition: Node) -> list[str]:
    """All that a definition, or anything in it, refers to."""
    found = [*definition.get("variants", {}).values(), *definition.get("rest", ())]
    found += [definition["fallback"]] if definition.get("fallback") else []
    return found + [node["$ref"] for _, node in walk(definition) if "$ref" in node]


def check_shape(node: Any, pointer: str = "") -> None:
    """Raise `UnknownIdiomError` where something stands in the place of a schema that is none, or nests too deep."""

    def wrong(place: str, found: object, expected: str) -> UnknownIdiomError:
        return UnknownIdiomError(place, f"{type(found).__name__} {found!r:.40}", expected)

    if not isinstance(node, dict):
        raise wrong(pointer, node, "a schema, which is an object")
    if pointer.count("/") > 200:
        raise UnknownIdiomError(pointer[:80], "over 100 levels of schemas in each other", "what a reader can follow")
    schema = cast("Node", node)
    for key, kind in (("$ref", str), ("properties", dict), ("$defs", dict), ("required", list), ("enum", list)):
        if not isinstance(schema.get(key, kind()), kind):
            raise wrong(f"{pointer}/{key}", schema[key], f"a {kind.__name__}")
    for key in ("properties", "$defs"):
        for name, child in schema.get(key, {}).items():
            check_shape(child, f"{pointer}/{key}/{name}")
    for key in ("items", "additionalProperties", "not"):
        if key in schema and not isinstance(schema[key], bool):
            check_shape(schema[key], f"{pointer}/{key}")
    for key in ("anyOf", "oneOf", "allOf"):
        if not isinstance(schema.get(key, []), list):
            raise wrong(f"{pointer}/{key}", schema[key], "a list")
        for index, child in enumerate(schema.get(key, [])):
            check_shape(child, f"{pointer}/{key}/{index}")


def walk(node: Node, pointer: str = "") -> Iterator[tuple[str, Node]]:
    """Every schema in a schema, inner ones first; by position, since members may be named like keywords (H14)."""
    for name, child in node.get("properties", {}).items():
        yield from walk(child, f"{pointer}/properties/{name}")
    for key in ("items", "additionalProperties", "not"):
        if isinstance(node.get(key), dict):
            yield from walk(node[key], f"{pointer}/{key}")
    for key in ("anyOf", "oneOf", "allOf", "scalars", "choice"):
        for index, child in enumerate(node.get(key, [])):
            yield from walk(child, f"{pointer}/{key}/{index}")
    yield pointer, node


def everywhere(schema: Schema) -> Iterator[tuple[str, Node]]:
    """Every schema of every definition, with its pointer."""
    for name, definition in schema.defs.items():
        yield from walk(definition, f"/$defs/{name}")


def alternatives(node: Node) -> list[Node]:
    """The branches of `anyOf` or `oneOf`."""
    return node.get("anyOf") or node.get("oneOf") or []


def refs(node: Node) -> Iterator[str]:
    """The definitions that a type refers to, not looking into members."""
    if "$ref" in node:
        yield node["$ref"]
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from refs(node[key])
    for key in ("anyOf", "oneOf", "scalars", "choice"):
        for child in node.get(key, []):
            yield from refs(child)


def resolved(node: Node, defs: dict[str, Node]) -> Node:
    """What a type refers to in the end; `check_cycles` promises that there is an end."""
    while "$ref" in node:
        node = defs[node["$ref"]]
    return node


def check_cycles(schema: Schema) -> None:
    """Raise `UnknownIdiomError` where a type is made of itself with no object between, which no alias can say."""
    try:
        TopologicalSorter({name: list(refs(node)) for name, node in schema.defs.items()}).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        raise UnknownIdiomError(
            f"/$defs/{min(cycle)}", f"a type made of itself: {' of '.join(cycle)}", "an object with members in between"
        ) from None


def is_constant(value: Any, kind: str | None) -> bool:
    """Whether a JSON value is of a scalar type; a whole number written as 1.0 is no integer, for it is none here."""
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return type(value) is {"string": str, "integer": int, "boolean": bool}.get(kind or "")


def takes(node: Node, value: Any, defs: dict[str, Node]) -> bool:
    """Whether a type lists a JSON value, or takes it where it lists none; a union of objects takes any object."""
    if value is None and (node.get("nullable") or resolved(node, defs).get("nullable")):
        return True
    node = resolved(node, defs)
    kind = node.get("type")
    inner: list[Node] = [*node.get("scalars", []), *node.get("choice", [])]
    if inner:
        return any(takes(child, value, defs) for child in inner)
    if kind == "array":
        items = cast("list[Any]", value)
        return isinstance(value, list) and all(takes(node["items"], child, defs) for child in items)
    if kind == "object" or "properties" in node or "variants" in node:
        if not isinstance(value, dict):
            return False
        members: Node = node.get("properties", {})
        held: Node = node.get("additionalProperties", {})
        given = cast("Node", value)
        return set(node.get("required", [])) <= given.keys() and all(
            takes(members.get(key, held), child, defs) for key, child in given.items()
        )
    return kind is None or (
        is_constant(value, kind)
        and value in node.get("enum", [value])
        and ("minimum" not in node or value >= node["minimum"])
        and ("maximum" not in node or value <= node["maximum"])
        and ("minLength" not in node or len(cast("str", value)) >= node["minLength"])
    )


# --- the grammar, checked ---------------------------------------------------------------------------------------------

_ANNOTATIONS = {"contentEncoding", "pattern", "format"}  # of strings: never checked on receipt (H30, H31)
_BOUNDS = {"minimum", "maximum", "minLength", "minItems", "bits"}
_ENUM = {"enum", "open", "titles", "of"}
_SHAPE = {"$ref", "type", "items", "additionalProperties", "scalars", "choice", "nullable", "title"}
_TYPE = _SHAPE | _ANNOTATIONS | _BOUNDS | _ENUM
_MEMBER = _TYPE | {"flags", "default", "presence", "at"}
_OBJECT = {"properties", "required", "extra", "exclusive", "when", "state", "parts", "title"}
_UNION = {"tag", "variants", "open", "fallback", "rest", "shared"}


def check(pointer: str, node: Node) -> None:
    """Raise `UnknownIdiomError` where a definition does not keep to the dialect."""
    if "variants" in node:
        known = _UNION
    elif "properties" in node:
        known = _OBJECT
        for name, child in node["properties"].items():
            _check_type(f"{pointer}/properties/{name}", child, _MEMBER)
        missing = set(node["required"]) - set(node["properties"])
        if missing:
            raise UnknownIdiomError(pointer, f"required {sorted(missing)}", "members that are defined")
    else:
        _check_type(pointer, node, _TYPE)
        return
    if set(node) - known:
        raise UnknownIdiomError(pointer, f"{sorted(set(node) - known)}", f"{sorted(known)}")


def _check_type(pointer: str, node: Node, known: set[str]) -> None:
    if set(node) - known:
        raise UnknownIdiomError(pointer, f"{sorted(set(node) - known)}", f"a type of {sorted(known)}")
    kind = node.get("type")
    if kind not in (None, *SCALARS, "array", "object") or (
        "enum" in node and node["enum"] != list(dict.fromkeys(node["enum"]))
    ):
        raise UnknownIdiomError(pointer, f"type {kind!r}", "a scalar, an array, a map, or each constant once")
    if "$ref" in node and set(node) & (_BOUNDS | _ENUM | {"items", "additionalProperties", "scalars", "choice"}):
        raise UnknownIdiomError(pointer, f"a $ref with {sorted(set(node) - {'$ref'})}", "a $ref that narrows nothing")
    for key in ("items", "additionalProperties"):
        if key in node:
            _check_type(f"{pointer}/{key}", node[key], _TYPE)
    if kind == "array" and "items" not in node:
        raise UnknownIdiomError(pointer, "an array without items", "the type of its items")
    for key in ("scalars", "choice"):
        for index, child in enumerate(node.get(key, [])):
            _check_type(f"{pointer}/{key}/{index}", child, _TYPE)
