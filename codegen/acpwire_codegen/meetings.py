"""Lets the definitions of two schemas meet that stand in the same place on the wire.

Owns: the way from every method down through params and results, methods and objects that went under another name or
into another place, and of each pair in which messages it is and whether flags on the way absorb what fails in it.
Does not know: how two definitions are compared, what their differences mean for anybody, or prose.
"""

from __future__ import annotations

import dataclasses
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from .dialect import Node, Schema, refs, walk
from .differences import Comparison, Difference, Meeting
from .load import Source
from .shapes import Defs, form

Key = tuple[str, str, str]
"""(method, side, kind)"""
Pair = tuple[str, str]

_SENDERS = {"agent": {"client"}, "client": {"agent"}}
_ARROWS = {frozenset({"agent"}): "agent -> client", frozenset({"client"}): "client -> agent"}


@dataclass
class Met:
    """Two definitions that met, and where."""

    path: str
    roles: set[str] = field(default_factory=set[str])
    messages: set[str] = field(default_factory=set[str])
    exposed: tuple[bool, bool] = (False, False)
    """Whether there is a way to it without a flag that absorbs what fails, in the old schema and in the new one."""
    found: list[Difference] = field(default_factory=list[Difference])
    inner: list[Meeting] = field(default_factory=list[Meeting])


class Meetings:
    """All pairs of definitions of two schemas that meet, and what came and went as a whole."""

    def __init__(self, sources: tuple[Source, Source], old: Schema, new: Schema) -> None:
        self.old = old
        self.new = new
        self.met: dict[Pair, Met] = {}
        self.reused: list[str] = []
        """Names that both schemas have, for definitions with nothing in common."""
        self.gone: dict[Key, dict[str, str]] = {}
        """Method that is gone -> the definitions of its params and result."""
        self.come: list[Key] = []
        self.renamed: dict[Key, Key] = {}
        self._sources = sources
        self.comparison = Comparison(old.defs, new.defs)
        self._methods()
        self._moves()
        self._leftovers()
        self._spread()

    def _methods(self) -> None:
        old, new = methods(self.old), methods(self.new)
        gone = [key for key in old if key not in new]
        come = [key for key in new if key not in old]
        pairs = [(one, two) for one in gone for two in come if self._is_renamed(one, two, old[one], new[two])]
        self.renamed = {one: two for one, two in pairs if sum(one in pair or two in pair for pair in pairs) == 1}
        self.gone = {key: old[key] for key in gone if key not in self.renamed}
        self.come = [key for key in come if key not in self.renamed.values()]
        for key, other in {**{key: key for key in old if key in new}, **self.renamed}.items():
            for part in sorted(old[key].keys() & new[other].keys()):
                self._meet(old[key][part], new[other][part], other, part)

    def _is_renamed(self, old: Key, new: Key, before: dict[str, str], after: dict[str, str]) -> bool:
        """Whether a method changed its name or its side: the same payloads, and something in common in their names."""
        if old[0] == new[0]:
            return True
        if old[1:] != new[1:] or before.keys() != after.keys():
            return False
        if not all(self.comparison.are_alike(before[part], after[part]) for part in before):
            return False
        words = [set(re.split(r"[/_$]", name)) - {"session", "update", "set"} for name in (old[0], new[0])]
        if words[0] & words[1] or before["params"] == after["params"]:
            return True
        spaces = [name.rpartition("/")[0] for name in (old[0], new[0])]
        own = set(self.old.defs[before["params"]].get("properties", {})) - {"sessionId", "_meta"}
        equal = all(self.comparison.are_equal(before[part], after[part]) for part in before)
        return equal and (bool(own) or spaces[0] == spaces[1] != "")

    def _meet(self, old: str, new: str, key: Key, part: str) -> None:
        roles = senders(key[1], part)
        self._walk((old, new), f"{key[0]} {part}", roles, f"{arrow(roles)}: {key[0]} {part}")

    def _walk(self, start: Pair, path: str, roles: set[str], message: str) -> None:
        """Let two definitions meet in a message, and all that meet within them."""
        self._pair(start, path)
        self.met[start].roles |= roles
        self.met[start].messages.add(message)
        self.met[start].exposed = True, True

    def _pair(self, start: Pair, path: str) -> None:
        queue = deque([(start, path)])
        while queue:
            pair, path = queue.popleft()
            if pair in self.met:
                if len(path) < len(self.met[pair].path):
                    self.met[pair].path = path
                    queue += [((inner.old, inner.new), path + inner.step) for inner in self.met[pair].inner]
                continue
            met = self.met[pair] = Met(path)
            for found in self.comparison.definitions(*pair):
                if isinstance(found, Difference):
                    met.found.append(found)
                else:
                    met.inner.append(found)
                    queue.append(((found.old, found.new), path + found.step))

    def _moves(self) -> None:
        """Objects that left one object and came into another, as capabilities do, are the same ones in a new place."""
        come: dict[str, list[tuple[Difference, str]]] = {}
        for found in self._found("F+o", "F+r"):
            for target, step in _objects_in(self.new.defs, found.definition, found.subject.member):
                come.setdefault(target, []).append((found, step))
        for (old, _), met in [*self.met.items()]:
            for index, found in enumerate(met.found):
                if found.cls != "F-":
                    continue
                target = next((name for name, _ in _objects_in(self.old.defs, old, found.subject.member, depth=1)), "")
                places = come.get(target, [])
                if len(places) != 1 or (target, target) in self.met:
                    continue
                other, step = places[0]
                words = f"{found.definition}{found.step}", f"{other.definition}{step}"
                met.found[index] = dataclasses.replace(found, cls="RN", said=words, felt=("breaking", "breaking"))
                met.inner.append(Meeting(target, target, found.step))
                self._pair((target, target), met.path + found.step)
                if step == other.step:
                    self._drop(other)

    def _found(self, *classes: str) -> list[Difference]:
        return [found for met in self.met.values() for found in met.found if found.cls in classes]

    def _drop(self, found: Difference) -> None:
        for met in self.met.values():
            met.found = [one for one in met.found if one is not found]

    def _leftovers(self) -> None:
        """Definitions of one name that never met: parts of the envelopes, what no message has, and names used anew."""
        parts = _envelope_parts(self._sources[0], self.old), _envelope_parts(self._sources[1], self.new)
        found = [reached(s, [*s.methods, *part]) for s, part in zip((self.old, self.new), parts, strict=True)]
        for name in sorted(parts[0] & parts[1]):  # whatever message has them besides, they are in every one
            self._walk((name, name), name, {"agent", "client"}, "both ways: every message")
        for name in sorted(self.old.defs.keys() & self.new.defs.keys()):
            where = [name in names for names in found]
            if any(name in pair for pair in self.met) or name.endswith("/other") or where[0] != where[1]:
                continue
            if not any(where):
                self._walk((name, name), name, {"agent", "client"}, "both ways: every message")
            elif self.comparison.are_alike(name, name):
                self._walk((name, name), name, {"agent", "client"}, "both ways: other messages")
            else:
                self.reused.append(name)

    def _spread(self) -> None:
        """Tell every pair in which messages it is, and whether what fails in it is absorbed on every way."""
        queue = deque(self.met)
        while queue:
            met = self.met[queue.popleft()]
            for found in met.inner:
                inner = self.met[found.old, found.new]
                before = (len(inner.roles), len(inner.messages), inner.exposed)
                inner.roles |= met.roles
                inner.messages |= met.messages
                inner.exposed = (
                    inner.exposed[0] or (met.exposed[0] and not found.absorbed[0]),
                    inner.exposed[1] or (met.exposed[1] and not found.absorbed[1]),
                )
                if before != (len(inner.roles), len(inner.messages), inner.exposed):
                    queue.append((found.old, found.new))


# --- small judgements -------------------------------------------------------------------------------------------------


def methods(schema: Schema) -> dict[Key, dict[str, str]]:
    """(method, side, kind) -> the definitions of its params and its result; a method of both sides is two."""
    found: dict[Key, dict[str, str]] = {}
    for place, (method, side) in schema.methods.items():
        kind = "notification" if place.endswith("Notification") else "request"
        part = "result" if place.endswith("Response") else "params"
        for one in ("agent", "client") if side == "both" else (side,):
            found.setdefault((method, one, kind), {})[part] = place
    return found


def senders(side: str, part: str) -> set[str]:
    """Who sends the params or the result of a method that a side serves."""
    senders = _SENDERS.get(side, {"agent", "client"})
    return senders if part == "params" or len(senders) > 1 else {"agent", "client"} - senders


def arrow(roles: set[str] | frozenset[str]) -> str:
    """Which way it goes, in words."""
    return _ARROWS.get(frozenset(roles), "both ways")


def _envelope_parts(source: Source, schema: Schema) -> set[str]:
    """What the JSON-RPC envelopes hold beside the params and results of methods, such as errors and ids."""
    envelopes = [name for name, why in schema.dropped.items() if why == "a JSON-RPC envelope"]
    held = {node["$ref"] for name in envelopes for _, node in walk(source.document["$defs"][name]) if "$ref" in node}
    return {name.removeprefix("#/$defs/") for name in held} & schema.defs.keys() - schema.methods.keys()


def reached(schema: Schema, roots: Iterable[str], within: Collection[str] | None = None) -> set[str]:
    """Every definition that is in what the roots hold, themselves included; looked for `within` these alone."""
    known = schema.defs.keys() if within is None else within
    seen: set[str] = set()
    left = [*roots]
    while left:
        name = left.pop()
        if name in known and name not in seen:
            seen.add(name)
            left += _held(schema.defs[name])
    return seen


def _objects_in(defs: Defs, place: str, name: str, depth: int = 3) -> Iterator[tuple[str, str]]:
    """The objects and unions that a member refers to, and those in their members in turn, with the way to each."""
    for target in refs(defs.get(place, {}).get("properties", {}).get(name, {})):
        if form(defs[target]) != "type":
            yield target, f".{name}"
            if depth > 1:
                for inner in defs[target].get("properties", {}):
                    yield from ((end, f".{name}{step}") for end, step in _objects_in(defs, target, inner, depth - 1))


def _held(node: Node) -> Iterator[str]:
    """The definitions that a definition refers to."""
    yield from refs(node)
    for child in node.get("properties", {}).values():
        yield from refs(child)
    yield from node.get("variants", {}).values()
    yield from node.get("rest", [])
