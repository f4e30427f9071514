"""Severities against what programs do: both schemas are generated, and each reads what the other may write.

Owns: that comparison, over all examples and over real neighbours. The values are made from the schemas, one for each
thing that a value may be: each variant, each constant, each bound, with and without each member, and null.

That a severity is *breaking* must show as a value that the other side refuses, and a value that is refused must be
told. What no value can show is listed, each with its reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from acpwire.wire import DecodeError
from acpwire_codegen import load
from acpwire_codegen.changes import Change
from acpwire_codegen.dialect import Node, Schema
from acpwire_codegen.drift import compare
from acpwire_codegen.normalise import normalise

from .support import Package, importable, make_package

EXAMPLES = sorted((Path(__file__).parent / "drift").glob("*.json"))
SCHEMAS = Path(__file__).parents[1] / "corpus" / "schemas"
OVERRIDES = load.read_tables(Path(__file__).parents[2] / "schema").overrides
NO_VALUE_SHOWS = {
    "M": "a method is no value",
    "L": "only what no schema allows is refused",
    "RN": "an optional member under its old name is passed over, and what it said is lost",
}
NO_MEETING = {
    "04_booleans_become_objects": "what is in an object that moved is never read where it was",
}


def _is_shown(change: Change) -> bool:
    """Whether a value can show that a change breaks something."""
    return (
        change.cls not in NO_VALUE_SHOWS
        and not change.old.startswith("pattern")
        and not change.new.startswith("pattern")
    )


class Values:
    """Values of the types of one schema, as JSON."""

    def __init__(self, schema: Schema) -> None:
        self._defs = schema.defs

    def of(self, node: Node, depth: int = 0) -> Iterator[Any]:
        """The first is a plain one; each of the others differs from it in one thing."""
        if node.get("nullable") and "$ref" not in node:
            yield from self.of({key: child for key, child in node.items() if key != "nullable"}, depth)
            yield None
        elif "$ref" in node:
            yield from self.of(self._defs[node["$ref"]], depth)
            if node.get("nullable"):
                yield None
        elif "variants" in node:
            yield from self._union(node, depth)
        elif "properties" in node:
            yield from self._object(node, depth)
        elif "enum" in node:
            yield from node["enum"]
            if node["open"]:
                yield "zzyzx" if node["type"] == "string" else 4242
        elif node.get("scalars") or node.get("choice"):
            for child in node.get("scalars") or node["choice"]:
                yield from self.of(child, depth)
        else:
            yield from self._plain(node, depth)

    def _plain(self, node: Node, depth: int) -> Iterator[Any]:
        kind = node.get("type")
        if kind == "string":
            yield "x" * max(1, node.get("minLength", 0))
            yield "x" * node.get("minLength", 0)
        elif kind == "integer":
            low, high = node.get("minimum", -(2**63)), node.get("maximum", 2**63 - 1)
            yield from (max(low, 1), low, high)
        elif kind in ("number", "boolean"):
            yield 1.5 if kind == "number" else True
        elif kind == "array":
            least = node.get("minItems", 0)
            items = [*self.of(node["items"], depth + 1)]
            yield items[:1] * max(1, least)
            yield items[:1] * least
            yield from ([item] * max(1, least) for item in items[1:])
        elif kind == "object":
            items = [*self.of(node["additionalProperties"], depth + 1)]
            yield {"key": items[0]}
            yield {}
            yield from ({"key": item} for item in items[1:])
        else:
            yield from ({"a": [1, None]}, "any", 7, None)

    def _union(self, node: Node, depth: int) -> Iterator[Any]:
        for value, target in node["variants"].items():
            yield from ({**body, node["tag"]: value} for body in self.of({"$ref": target}, depth + 1))
        for target in node["rest"]:
            yield from self.of({"$ref": target}, depth + 1)
        if node["open"]:
            bodies = [*self.of({"$ref": node["fallback"]}, depth + 1)] if node["fallback"] else [cast("Node", {})]
            yield from ({**body, node["tag"]: "zzyzx"} for body in bodies)

    def _object(self, node: Node, depth: int) -> Iterator[Any]:
        decides = set(cast("Node", node.get("exclusive", {"of": {}}))["of"])
        chosen = min(decides, default="")
        members = {
            name: [*self.of(child, depth + 1)]
            for name, child in cast("dict[str, Node]", node["properties"]).items()
            if depth < 12 and (name not in decides or name == chosen)
        }
        first = {name: values[0] for name, values in members.items() if values}
        yield first
        yield {name: value for name, value in first.items() if name in node["required"] or name == chosen}
        for name, values in members.items():
            yield from ({**first, name: value} for value in values[1:])
            if name not in node["required"] and name != chosen:
                yield {key: value for key, value in first.items() if key != name}


def _pairs(old: Schema, new: Schema) -> Iterator[tuple[str, str]]:
    """The definitions that stand for one thing in both: params and results of methods, or what no method has."""

    def roots(schema: Schema) -> dict[tuple[str, ...], str]:
        found: dict[tuple[str, ...], str] = {}
        for place, (method, side) in schema.methods.items():
            for one in ("agent", "client") if side == "both" else (side,):
                found[method, one, place[-8:]] = place
        return found

    one, two = roots(old), roots(new)
    yield from ((one[key], two[key]) for key in one if key in two)
    if not one:
        yield from ((name, name) for name in old.defs if name in new.defs)


def _refused(package: Package, place: str, values: Iterator[Any]) -> list[str]:
    """The values that a package refuses as those of a definition."""
    found: list[str] = []
    for value in values:
        raw = json.dumps(value).encode()
        try:
            package.module.decode(package.type(package.model.names[place]), raw)
        except DecodeError as error:
            found.append(f"{raw.decode()[:200]}: {error}")
    return found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_is_breaking_is_refused_and_what_is_refused_is_breaking(path: Path, tmp_path: Path) -> None:
    example: Node = json.loads(path.read_text("utf-8"))
    sources = [
        load.as_source("x", json.dumps({**example.get(f"{side} root", {}), "$defs": example[side]}).encode(), side)
        for side in ("old", "new")
    ]
    changes = compare(sources[0], sources[1], {}).changes
    old, new = (normalise(source.document) for source in sources)
    with importable(tmp_path) as directory:
        packages = [
            make_package(directory, f"{side}_{path.stem}", one) for side, one in zip(("o", "n"), sources, strict=True)
        ]
        received, sent = list[str](), list[str]()
        for one, two in _pairs(old, new):
            received += _refused(packages[0], one, Values(new).of(new.defs[two]))
            sent += _refused(packages[1], two, Values(old).of(old.defs[one]))
    for refused, felt in ((received, "receiver"), (sent, "sender")):
        breaking = [change for change in changes if getattr(change, felt) == "breaking"]
        if refused:
            assert breaking, f"{felt}: {refused[0]}"
        elif any(_is_shown(change) for change in breaking) and path.stem not in NO_MEETING:
            pytest.fail(f"{felt}: nothing is refused of {[change.name for change in breaking]}")


@pytest.mark.parametrize(("before", "after"), [("2.0.0", "2.1.0"), ("2.1.0", "2.2.0")])
def test_of_real_neighbours_what_is_refused_is_told(before: str, after: str, tmp_path: Path) -> None:
    """By the method that it is refused in."""
    sources = [load.read_schema(SCHEMAS / f"{version}-v2.unstable.json", version) for version in (before, after)]
    changes = compare(sources[0], sources[1], OVERRIDES).changes
    old, new = (normalise(source.document) for source in sources)
    tables = load.read_tables(Path(__file__).parents[2] / "schema")
    names = f"old_{before.replace('.', '_')}", f"new_{after.replace('.', '_')}"
    refused: dict[str, set[str]] = {"receiver": set(), "sender": set()}
    with importable(tmp_path) as directory:
        packages = [make_package(directory, name, one, tables) for name, one in zip(names, sources, strict=True)]
        for one, two in _pairs(old, new):
            method = old.methods[one][0]
            if _refused(packages[0], one, Values(new).of(new.defs[two])):
                refused["receiver"].add(method)
            if _refused(packages[1], two, Values(old).of(old.defs[one])):
                refused["sender"].add(method)
    assert any(refused.values())
    for felt, methods in refused.items():
        told = {
            message.rpartition(": ")[2].partition(" ")[0]
            for change in changes
            if getattr(change, felt) == "breaking"
            for message in change.methods
        }
        assert methods <= told


def test_the_values_are_what_their_own_schema_takes(tmp_path: Path) -> None:
    pinned = load.read_pinned(Path(__file__).parents[2] / "schema")
    schema = normalise(pinned.document)
    tables = load.read_tables(Path(__file__).parents[2] / "schema")
    with importable(tmp_path) as directory:
        source = load.Source(pinned.document, pinned.prose, "x", "x", pinned=False)
        package = make_package(directory, "pinned_itself", source, tables)
        for place in schema.methods:
            values = [*Values(schema).of(schema.defs[place])]
            assert values
            assert _refused(package, place, iter(values)) == []
