"""What docstrings state mechanically: wire name, direction, method, stability, patch rule and page.

Owns: those sentences, and what counts as draft only. Does not know: our own docs, or how docstrings are printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .dialect import Node, Schema, alternatives, refs
from .load import Prose, Source
from .naming import Names, snake

TO = {"agent": "client to agent", "client": "agent to client", "proxy": "to the proxy", "protocol": "both ways"}
BACK = {"agent": "agent to client", "client": "client to agent", "proxy": "from the proxy", "protocol": "both ways"}
Branch = tuple[str, str]
"""(union, tag)"""


class Facts:
    """What is known of each definition beside its shape."""

    def __init__(self, source: Source, schema: Schema, names: Names) -> None:
        self._source = source
        self._schema = schema
        self._names = names
        self._carried = {
            union
            for place, (_, side) in schema.methods.items()
            if side == "client" and place.endswith("Notification")
            for child in schema.defs[place].get("properties", {}).values()
            for union in refs(child)
        }

    def line(self, place: str, branch: Branch | None = None, patches: str = "") -> str:
        """The sentences about a definition, or about its use as a branch; `patches` is its `_meta` rule, if any."""
        said = [self._wire(branch), self._method(place), self._rule(branch, patches)]
        if self._source.prose and ("/" not in place or branch):
            said.append("Draft only." if self.is_unstable(place, branch) else "Stable.")
        page = self._prose(place).page or (self._prose(branch[0]).page if branch else "")
        said.append(f"Page: {page}." if page else "")
        return " ".join(filter(None, said))

    def _wire(self, branch: Branch | None) -> str:
        if branch is None:
            return ""
        union, value = branch
        return f"Wire: `{self._schema.defs[union]['tag']}: {value}` of `{self._names.body[union]}`."

    def _method(self, place: str) -> str:
        if place not in self._schema.methods:
            return ""
        method, side = self._schema.methods[place]
        if place.endswith("Response"):
            return f"Result of `{method}`, {BACK.get(side, 'both ways')}."
        return f"Params of `{method}`, {TO.get(side, 'both ways')}."

    def _rule(self, branch: Branch | None, patches: str) -> str:
        if patches == "chunk":
            return "Appends; `meta` belongs to this chunk alone."
        if patches == "patch":
            return "Patches: unset keeps, None clears, a value replaces; `meta` patches by key."
        if patches == "replace":
            return "Patches: unset keeps, None clears, a value replaces, `meta` included."
        if patches:
            return "Replaces, but what is UNSET stays and what is None is cleared."
        if branch and branch[0] in self._carried:
            return "Replaces what was reported before, or reports an event."
        return ""

    def _prose(self, place: str) -> Prose:
        return self._source.prose.get(f"/$defs/{place}", Prose(""))

    def is_unstable(self, place: str, branch: Branch | None = None) -> bool:
        """Whether only the draft has a definition, or its use as a branch."""
        if branch is None:
            return "UNSTABLE" in self._prose(place).markers
        union, value = branch
        return self.is_unstable(place) or self._unstable_branch(union, self._schema.defs[union]["tag"], value)

    def _unstable_branch(self, union: str, tag: str, value: str) -> bool:
        node: Node = self._source.document["$defs"].get(union, {})
        for index, child in enumerate(alternatives(node)):
            if child.get("properties", {}).get(tag, {}).get("const") == value:
                return "UNSTABLE" in self._prose(f"{union}/{'anyOf' if 'anyOf' in node else 'oneOf'}/{index}").markers
        return False

    def _unstable_constants(self, place: str, node: Node) -> Iterator[Any]:
        for index, child in enumerate(alternatives(node)):
            prose = self._prose(f"{place}/{'anyOf' if 'anyOf' in node else 'oneOf'}/{index}")
            if "const" in child and "UNSTABLE" in prose.markers:
                yield child["const"]

    def unstable(self) -> Iterator[str]:
        """Classes, `Class.attribute`, and `=value` of a tag or of a set of constants, that only the draft has."""
        for place, name in self._names.body.items():
            if self.is_unstable(place):
                yield name
            node: Node = self._source.document["$defs"].get(place, {})
            yield from (f"{name}={value}" for value in self._unstable_constants(place, node))
            for wire, child in node.get("properties", {}).items():
                values = self._unstable_constants(f"{place}/properties/{wire}", child)
                yield from (f"{name}.{snake(wire)}={value}" for value in values)
        for branch, name in self._names.variant.items():
            if self.is_unstable(self._schema.defs[branch[0]]["variants"][branch[1]], branch):
                yield name
        for place, node in self._schema.defs.items():
            for wire, child in node.get("properties", {}).items():
                prose = self._source.prose.get(child.get("at", ""))
                attribute = f"{self._names.body[place]}.{snake(wire)}"
                if prose and "UNSTABLE" in prose.markers:
                    yield attribute
                if "of" in child:
                    tags = (value for value in child["enum"] if self._unstable_branch(child["of"], wire, value))
                    yield from (f"{attribute}={value}" for value in tags)
