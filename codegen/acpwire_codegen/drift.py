"""Tells what changed from one schema to another, on the wire: each change once, with whom it breaks.

Owns: making changes of differences, severities after what flags absorb, what is one change though it is found in many
places, and what goes with what.
Does not know: which definitions meet, how two are compared, or how a report is printed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .changes import SEVERITIES, Change, Report, Subject, note_for, ordered
from .dialect import Schema, alternatives, refs
from .differences import Difference
from .load import Source
from .meetings import Key, Meetings, Met, arrow, reached, senders
from .normalise import normalise
from .shapes import is_nullable, said, tags
from .wording import Words, rewordings, translated


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


class _Drift:
    def __init__(
        self, old: Source, new: Source, overrides: Mapping[str, Any], names: tuple[Mapping[str, str], Mapping[str, str]]
    ) -> None:
        self.sources = old, new
        self.names = names
        self.old, self.new = normalise(old.document), normalise(new.document)
        self.words = Words(old, self.old, overrides), Words(new, self.new, overrides)
        self.kept = {
            tuple(edit["path"].removeprefix("/$defs/").split("/properties/")) for edit in overrides.get("edit", [])
        }
        self.meetings = Meetings(self.sources, self.old, self.new)
        self.met = self.meetings.met
        self.changes: list[Change] = []

    def report(self) -> Report:
        """Run the comparison."""
        self._methods()
        self._batches()
        self._reused()
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

    # -- what came and went as a whole --

    def _methods(self) -> None:
        for key, other in self.meetings.renamed.items():
            self._method(key, _said(key), _said(other), "breaking", "breaking")
        for key, places in self.meetings.gone.items():
            felt = "soft" if key[2] == "request" else "behavioural"
            self._method(key, _said(key), "", felt, "breaking", places)
        for key in self.meetings.come:
            self._method(key, "", _said(key), "additive", "none")

    def _method(
        self, key: Key, old: str, new: str, receiver: str, sender: str, places: Mapping[str, str] | None = None
    ) -> None:
        roles = frozenset(senders(key[1], "params"))
        subject = Subject(gone=tuple((places or {}).values()), method=key)
        path = f"{arrow(roles)}: {key[0]}"
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
            path = f"{arrow(roles)}: {title}"
            self._add(Change("structure", "M", title, path, *words, *felt, note, frozenset(roles), subject=subject))

    def _reused(self) -> None:
        """Names that stand for something else now."""
        for name in self.meetings.reused:
            old, new = said({"$ref": name}, self.old.defs), said({"$ref": name}, self.new.defs)
            note = "Look at each use of the name: it now stands for something else, in other messages."
            self._add(Change("structure", "DR", name, name, old, new, note=note, subject=Subject(name, gone=(name,))))

    # -- from differences to changes --

    def _told(self, found: Difference, met: Met, place: str) -> Change:
        receiver, sender = (
            "behavioural" if severity == "breaking" and (absorbed or not exposed) else severity
            for severity, absorbed, exposed in zip(found.felt, found.absorbed, met.exposed, strict=True)
        )
        change = Change(
            "structure",
            found.cls,
            found.definition,
            f"{arrow(met.roles)}: {met.path}{found.step}",
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
        if found.subject.members:
            names = ", ".join(name for _, name in found.subject.members)
            change = dataclasses.replace(change, also=f"{change.also} With it go its members {names}.".strip())
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
                        f"{arrow(met.roles)}: {met.path}",
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
                gone = tuple(sorted(reached(self.old, self._targets(change), left)))
                left -= set(gone)
                also = f"With it go {_listed(gone)}." if gone else change.also
                subject = dataclasses.replace(change.subject, gone=gone)
                self.changes[index] = dataclasses.replace(change, also=also, subject=subject)
        left -= self._flattened(left)
        for name in sorted(left):
            if self._name(0, name) not in self._all_names(1):
                text = said({"$ref": name}, self.old.defs)
                note = "Write the type itself where the name was used: there is no such definition any more."
                subject = Subject(name, gone=(name,))
                self._add(Change("structure", "DR", name, name, text, "", note=note, subject=subject))

    def _flattened(self, left: set[str]) -> set[str]:
        """Which definitions went into the flat type of their union, as it became the payload of another's variant."""
        merged = left & self.new.dropped.keys()
        told: set[str] = set()
        for index, change in enumerate(self.changes):
            for place, targets in self._merging(change) if change.cls == "V+" else ():
                gone = tuple(sorted(reached(self.old, targets, merged - told)))
                if gone:
                    also = f"In code {_listed(gone)} {'is' if len(gone) == 1 else 'are'} one with {place} from then on."
                    subject = dataclasses.replace(change.subject, gone=gone)
                    self.changes[index] = dataclasses.replace(change, also=also, subject=subject)
                    told |= set(gone)
        return told

    def _merging(self, change: Change) -> Iterator[tuple[str, list[str]]]:
        """(union, definitions that went into its flat type) for a variant that came, which is that union or of it."""
        for old, new in self.met:
            node = self.new.defs[new]
            if new == change.new:
                yield new, [*self.old.defs[old].get("variants", {}).values()]
            elif change.subject.member in node.get("properties", {}):
                parts = [part for key, part in node.get("parts", {}).items() if change.subject.value in key.split("/")]
                yield new, [at.split("/")[2] for part in parts for at in part["members"].values()]

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
            one, two = self.meetings.comparison.as_objects(old, new)
            for name, child in one.get("properties", {}).items():
                other = two.get("properties", {}).get(name, {})
                definition = str(child.get("at", f"/$defs/{old}/").split("/")[2])
                place = f"{definition}.{name}"
                may_be_null = bool(other) and is_nullable(other, self.new.defs)
                if not may_be_null or name in two["required"] or place in seen:
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
                            f"{arrow(met.roles)}: {met.path}.{name}",
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


def _arrays(schema: Schema) -> set[str]:
    """The titles of the root's arrays."""
    return {str(node.get("title", "array")) for node in alternatives(schema.root) if node.get("type") == "array"}


def _said(key: Key) -> str:
    method, side, kind = key
    return f"{method} ({kind} to the {side})" if side in ("agent", "client", "proxy") else f"{method} ({kind})"


def _merged(group: list[Change]) -> Change:
    first = min(group, key=lambda change: (len(change.path), change.path))
    if first.cls == "M":
        return first
    messages = sorted({message for change in group for message in change.methods})
    roles = frozenset(role for change in group for role in change.roles)
    worst = min((change.receiver for change in group), key=_rank), min((change.sender for change in group), key=_rank)
    path = f"{arrow(roles)}: {first.path.partition(': ')[2]}"
    more = f" (in {len(messages)} messages)" if len(messages) > 1 else ""
    return dataclasses.replace(
        first, path=path + more, receiver=worst[0], sender=worst[1], roles=roles, methods=tuple(messages)
    )


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names if len(names) < 5 else [*names[:3], f"and {len(names) - 3} more definitions"])
