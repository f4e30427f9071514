"""Tells what changed from one schema to another, on the wire: each change once, with whom it breaks.

Owns: which definitions meet (by the messages that they are in, from every method down), in how many messages each
change is, whether the flags on the way to it absorb what fails, and what came and went as a whole.
Does not know: how two definitions are compared, what words say, or how a report is printed.
"""

from __future__ import annotations

import dataclasses
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .changes import Change, Report, Subject, note_for, ordered
from .dialect import Node, Schema, alternatives, refs, walk
from .differences import Comparison, Difference, Meeting
from .load import Source
from .normalise import normalise
from .shapes import Defs, form, said, tags
from .wording import Words, rewordings, translated

Key = tuple[str, str, str]
"""(method, side, kind)"""
Pair = tuple[str, str]

_SENDERS = {"agent": {"client"}, "client": {"agent"}}
_ARROWS = {frozenset({"agent"}): "agent -> client", frozenset({"client"}): "client -> agent"}


def compare(
    old: Source,
    new: Source,
    overrides: Mapping[str, Any],
    names: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
) -> Report:
    """All changes from one schema to another. Raises `UnknownIdiomError` where one of them cannot be read.

    `overrides` are the hand-kept tables; `names` is place -> generated name in both, so that renamed classes are told
    by the names that code has; without them a definition goes by its own.
    """
    return _Drift(old, new, overrides, names).report()


@dataclass
class _Met:
    """Two definitions that met, and where."""

    path: str
    roles: set[str] = field(default_factory=set[str])
    messages: set[str] = field(default_factory=set[str])
    exposed: tuple[bool, bool] = (False, False)
    """Whether there is a way to it without a flag that absorbs what fails, in the old schema and in the new one."""
    found: list[Difference] = field(default_factory=list[Difference])
    inner: list[Meeting] = field(default_factory=list[Meeting])


class _Drift:
    def __init__(
        self, old: Source, new: Source, overrides: Mapping[str, Any], names: tuple[Mapping[str, str], Mapping[str, str]]
    ) -> None:
        self.sources = old, new
        self.names = names
        self.old, self.new = normalise(old.document), normalise(new.document)
        self.words = Words(old, self.old, overrides), Words(new, self.new, overrides)
        self.comparison = Comparison(self.old.defs, self.new.defs)
        self.kept = {
            tuple(edit["path"].removeprefix("/$defs/").split("/properties/")) for edit in overrides.get("edit", [])
        }
        self.met: dict[Pair, _Met] = {}
        self.changes: list[Change] = []

    def report(self) -> Report:
        """Run the comparison."""
        self._methods()
        self._batches()
        self._moves()
        self._leftovers()
        self._spread()
        for (old, _), met in self.met.items():
            self.changes += [self._told(found, met, old) for found in met.found]
        self._renames()
        self._merge()
        self._gone()
        if self.words[0].has_prose and self.words[1].has_prose:
            self._meanings()
            self._stability()
            self._wordings()
        return Report(self.sources[0].version, self.sources[1].version, ordered(self.changes))

    # -- which definitions meet --

    def _methods(self) -> None:
        old, new = _methods(self.old), _methods(self.new)
        gone = [key for key in old if key not in new]
        come = [key for key in new if key not in old]
        pairs = [(one, two) for one in gone for two in come if self._is_renamed(one, two, old[one], new[two])]
        renamed = {one: two for one, two in pairs if sum(one in pair or two in pair for pair in pairs) == 1}
        for key, other in {**{key: key for key in old if key in new}, **renamed}.items():
            if key != other:
                self._method(key, _said(key), _said(other), "breaking", "breaking")
            for part in old[key].keys() & new[other].keys():
                self._meet(old[key][part], new[other][part], other, part)
        for key in gone:
            if key not in renamed:
                felt = "soft" if key[2] == "request" else "behavioural"
                self._method(key, _said(key), "", felt, "breaking", old[key])
        for key in come:
            if key not in renamed.values():
                self._method(key, "", _said(key), "additive", "none")

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

    def _method(
        self, key: Key, old: str, new: str, receiver: str, sender: str, places: Mapping[str, str] | None = None
    ) -> None:
        roles = frozenset(_senders(key[1], "params"))
        subject = Subject(gone=tuple((places or {}).values()), method=key)
        path = f"{_arrow(roles)}: {key[0]}"
        self._add(
            Change("structure", "M", key[0], path, old, new, receiver, sender, "", roles, (key[0],), subject=subject)
        )

    def _add(self, change: Change) -> None:
        self.changes.append(dataclasses.replace(change, note=change.note or note_for(change)))

    def _batches(self) -> None:
        """Messages that the root lists as arrays of others: who may send them stands in their titles."""
        old, new = _arrays(self.old), _arrays(self.new)
        for title in sorted(old ^ new):
            roles = {role for role in ("agent", "client") if title.lower().startswith(role)} or {"agent", "client"}
            key = (title, "", "array of messages")
            words = (_said(key), "") if title in old else ("", _said(key))
            felt = ("none", "breaking") if title in old else ("breaking", "none")
            subject = Subject(method=key)
            note = f"Send {'single messages only' if title in old else 'them only to peers that take them'}."
            path = f"{_arrow(roles)}: {title}"
            self._add(Change("structure", "M", title, path, *words, *felt, note, frozenset(roles), subject=subject))

    def _meet(self, old: str, new: str, key: Key, part: str) -> None:
        roles = _senders(key[1], part)
        self._walk((old, new), f"{key[0]} {part}", roles, f"{_arrow(roles)}: {key[0]} {part}")

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
                continue
            met = self.met[pair] = _Met(path)
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
        parts = _envelope_parts(self.sources[0], self.old), _envelope_parts(self.sources[1], self.new)
        reached = _reached(self.old, [*self.old.methods, *parts[0]]), _reached(self.new, [*self.new.methods, *parts[1]])
        for name in sorted(self.old.defs.keys() & self.new.defs.keys()):
            where = name in reached[0], name in reached[1]
            if any(name in pair for pair in self.met) or name.endswith("/other") or where[0] != where[1]:
                continue
            if name in parts[0] & parts[1] or not any(where):
                self._walk((name, name), name, {"agent", "client"}, "both ways: every message")
            elif self.comparison.are_alike(name, name):
                self._walk((name, name), name, {"agent", "client"}, "both ways: other messages")
            else:
                told = said({"$ref": name}, self.old.defs), said({"$ref": name}, self.new.defs)
                note = "Look at each use of the name: it now stands for something else, in other messages."
                self._add(Change("structure", "DR", name, name, *told, note=note, subject=Subject(name, gone=(name,))))

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

    # -- from differences to changes --

    def _told(self, found: Difference, met: _Met, place: str) -> Change:
        receiver, sender = (
            "behavioural" if severity == "breaking" and (absorbed or not exposed) else severity
            for severity, absorbed, exposed in zip(found.felt, found.absorbed, met.exposed, strict=True)
        )
        change = Change(
            "structure",
            found.cls,
            found.definition,
            f"{_arrow(met.roles)}: {met.path}{found.step}",
            found.said[0],
            found.said[1],
            receiver,
            sender,
            roles=frozenset(met.roles),
            methods=tuple(sorted(met.messages)),
            subject=found.subject,
        )
        if found.definition != place and tags(self.old.defs[place]):
            names = ", ".join([f"In code it is in {self._name(0, place) or place}", *self._likewise(found)])
            change = dataclasses.replace(change, also=f"{names}.")
        if found.cls == "F-" and (found.definition, found.subject.member) in self.kept:
            return dataclasses.replace(
                change, note="Nothing must change: overrides.toml keeps it in the generated types."
            )
        return dataclasses.replace(change, note=note_for(change, found.felt != (receiver, sender)))

    def _likewise(self, found: Difference) -> list[str]:
        """Other definitions that a member came into, or went from, and that code has as one class."""
        name = found.subject.member
        one, two = (source.document["$defs"] for source in self.sources)
        others = [
            place
            for place in one.keys() & two.keys() - {found.definition}
            if (name in one[place].get("properties", {})) != (name in two[place].get("properties", {}))
        ]
        return [f"where {', '.join(sorted(others))} have it too"] if others and found.cls.startswith("F") else []

    def _renames(self) -> None:
        """What lives on under another name in code: definitions, and classes of variants."""
        told: set[str] = set()
        for (old, new), met in self.met.items():
            places = [(old, new)]
            places += [(f"{old}/{tag}", f"{new}/{tag}") for tag in self.old.defs[old].get("variants", {})]
            for one, two in places:
                before, after = self._name(0, one), self._name(1, two)
                if not after or before in (after, *told) or before in self._all_names(1):
                    continue
                told.add(before)
                self._add(
                    Change(
                        "structure",
                        "DR",
                        one,
                        f"{_arrow(met.roles)}: {met.path}",
                        before,
                        after,
                        roles=frozenset(met.roles),
                        methods=tuple(sorted(met.messages)),
                        subject=Subject(one),
                    )
                )

    def _name(self, side: int, place: str) -> str:
        """What code calls a place; empty where it has no name."""
        schema = (self.old, self.new)[side]
        return self.names[side].get(place, place if not self.names[side] and place in schema.defs else "")

    def _all_names(self, side: int) -> set[str]:
        return set(self.names[side].values()) or set((self.old, self.new)[side].defs)

    def _merge(self) -> None:
        """The same change found in several definitions, as of a member that all variants share, is one change."""
        groups: dict[tuple[object, ...], list[Change]] = {}
        for change in self.changes:
            last = change.subject.member or change.subject.value or change.subject.method or change.path
            groups.setdefault((change.cls, change.definition, last, change.old, change.new), []).append(change)
        self.changes = [_merged(group) for group in groups.values()]

    def _gone(self) -> None:
        """Which definitions went with a method, a variant or a member; each is told once."""
        left = self.old.defs.keys() - self.new.defs.keys() - {old for old, _ in self.met}
        left = {name for name in left if not name.endswith("/other")}
        order = ("M", "V-", "F-", "T", "VT")
        for cls in order:
            for index, change in enumerate(self.changes):
                if change.cls != cls or (cls == "M" and change.new):
                    continue
                gone = tuple(sorted(_reached(self.old, self._targets(change), left)))
                left -= set(gone)
                also = f"With it go {_listed(gone)}." if gone else change.also
                subject = dataclasses.replace(change.subject, gone=gone)
                self.changes[index] = dataclasses.replace(change, also=also, subject=subject)
        for name in sorted(left):
            if self._name(0, name) not in self._all_names(1):
                text = said({"$ref": name}, self.old.defs)
                note = "Write the type itself where the name was used: there is no such definition any more."
                subject = Subject(name, gone=(name,))
                self._add(Change("structure", "DR", name, name, text, "", note=note, subject=subject))

    def _targets(self, change: Change) -> list[str]:
        """The definitions that a change took away from where it is."""
        subject = change.subject
        node = self.old.defs.get(subject.place, {})
        if subject.gone:
            return list(subject.gone)
        if isinstance(subject.value, str) and subject.value in node.get("variants", {}):
            return [node["variants"][subject.value]]
        if subject.member:
            return [
                target
                for definition in self.old.defs.values()
                for child in definition.get("properties", {}).values()
                if child.get("at") == f"/$defs/{subject.place}/properties/{subject.member}"
                for target in refs(child)
            ]
        return [subject.place] if subject.place and subject.value is None else []

    # -- what only words say --

    def _new_names(self) -> dict[str, str]:
        return {old: new for old, new in self.met if old not in self.new.defs}

    def _meanings(self) -> None:
        """Members for which leaving out and null came to mean, or ceased to mean, two things (C3)."""
        renamed = self._new_names()
        seen: set[str] = set()
        for (old, new), met in self.met.items():
            one, two = self.old.defs[old], self.new.defs[new]
            for name, child in one.get("properties", {}).items():
                other = two.get("properties", {}).get(name, {})
                definition = str(child.get("at", f"/$defs/{old}/").split("/")[2])
                place = f"{definition}.{name}"
                if not other or name in two["required"] or not other.get("nullable") or place in seen:
                    continue
                seen.add(place)
                after = self.words[1].absence(str(other.get("at", f"/$defs/{new}/").split("/")[2]), name)
                before = self.words[0].absence(definition, name)
                before = "required" if name in one["required"] else before
                if before != after and (before, after) != ("required", "same as null"):
                    self._add(
                        Change(
                            "prose",
                            "TS",
                            renamed.get(definition, definition),
                            f"{_arrow(met.roles)}: {met.path}.{name}",
                            f"left out: {before}" if before != "required" else before,
                            f"left out: {after}",
                            "behavioural",
                            "behavioural",
                            roles=frozenset(met.roles),
                            methods=tuple(sorted(met.messages)),
                            subject=Subject(definition, name),
                        )
                    )

    def _stability(self) -> None:
        renamed = self._new_names()
        for place in self.words[0].pointers:
            other = translated(place, renamed)
            if other in self.words[1].pointers:
                was, now = self.words[0].is_unstable(place), self.words[1].is_unstable(other)
                if was != now:
                    words = ("stable", "draft only")
                    definition = re.split(r"[.(=\[{]", other)[0]
                    self._add(Change("prose", "ST", definition, other, words[was], words[now]))

    def _wordings(self) -> None:
        told = {f"{change.subject.place}.{change.subject.member}" for change in self.changes if change.cls == "TS"}
        for found in rewordings(*self.words, self._new_names()):
            places = [place for place in found.places if place not in told]
            if not places:
                continue
            more = f" (and {len(places) - 1} more with the same words)" if len(places) > 1 else ""
            words = ", ".join(found.touched)
            note = f"Read it: {words} in what changed." if found.binds else "Nothing in it binds."
            self._add(
                Change(
                    "prose",
                    "DS",
                    re.split(r"[.(=\[{]", places[0])[0],
                    places[0] + more,
                    ", ".join(found.old),
                    ", ".join(found.new),
                    note=note,
                    review=found.binds,
                )
            )


# --- small judgements -------------------------------------------------------------------------------------------------


def _methods(schema: Schema) -> dict[Key, dict[str, str]]:
    """(method, side, kind) -> the definitions of its params and its result; a method of both sides is two."""
    found: dict[Key, dict[str, str]] = {}
    for place, (method, side) in schema.methods.items():
        kind = "notification" if place.endswith("Notification") else "request"
        part = "result" if place.endswith("Response") else "params"
        for one in ("agent", "client") if side == "both" else (side,):
            found.setdefault((method, one, kind), {})[part] = place
    return found


def _arrays(schema: Schema) -> set[str]:
    """The titles of the root's arrays."""
    return {str(node.get("title", "array")) for node in alternatives(schema.root) if node.get("type") == "array"}


def _senders(side: str, part: str) -> set[str]:
    """Who sends the params or the result of a method that a side serves."""
    senders = _SENDERS.get(side, {"agent", "client"})
    return senders if part == "params" or len(senders) > 1 else {"agent", "client"} - senders


def _arrow(roles: set[str] | frozenset[str]) -> str:
    return _ARROWS.get(frozenset(roles), "both ways")


def _said(key: Key) -> str:
    method, side, kind = key
    return f"{method} ({kind} to the {side})" if side in ("agent", "client", "proxy") else f"{method} ({kind})"


def _envelope_parts(source: Source, schema: Schema) -> set[str]:
    """What the JSON-RPC envelopes hold beside the params and results of methods, such as errors and ids."""
    envelopes = [name for name, why in schema.dropped.items() if why == "a JSON-RPC envelope"]
    held = {node["$ref"] for name in envelopes for _, node in walk(source.document["$defs"][name]) if "$ref" in node}
    return {name.removeprefix("#/$defs/") for name in held} & schema.defs.keys() - schema.methods.keys()


def _reached(schema: Schema, roots: Iterable[str], within: Collection[str] | None = None) -> set[str]:
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


def _merged(group: list[Change]) -> Change:
    first = min(group, key=lambda change: (len(change.path), change.path))
    if first.cls == "M":
        return first
    messages = sorted({message for change in group for message in change.methods})
    roles = frozenset(role for change in group for role in change.roles)
    worst = min((change.receiver for change in group), key=_rank), min((change.sender for change in group), key=_rank)
    path = f"{_arrow(roles)}: {first.path.partition(': ')[2]}"
    more = f" (in {len(messages)} messages)" if len(messages) > 1 else ""
    return dataclasses.replace(
        first, path=path + more, receiver=worst[0], sender=worst[1], roles=roles, methods=tuple(messages)
    )


def _rank(severity: str) -> int:
    return ("breaking", "behavioural", "soft", "additive", "none").index(severity)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names if len(names) < 5 else [*names[:3], f"and {len(names) - 3} more definitions"])
