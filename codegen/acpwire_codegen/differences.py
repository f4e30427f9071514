"""Compares two definitions, each in the dialect: what differs by itself, and which other definitions meet in them.

Owns: finding differences of one pair of definitions, and their classes and severities as far as the pair alone shows.
Does not know: which messages a definition is in, methods, prose, or how a change is reported.

Names are no difference here: a definition meets whatever stands in its place on the wire, so that inlined, extracted
and renamed types are compared by what they are. What the dialect has made equal never shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import cast

from .changes import Subject
from .dialect import Node, resolved
from .normalise import flat
from .shapes import (
    LIMITS,
    Defs,
    are_within,
    default,
    end,
    form,
    implied,
    is_nullable,
    keys,
    kinds,
    likeness,
    limit,
    member,
    origin,
    overlap,
    said,
    said_alternatives,
    said_bounds,
    said_flags,
)

Two = tuple[str, str]
"""Of the old and of the new schema; of the old receiver and of the old sender."""
Flags = tuple[set[str], set[str]]

_NONE: Two = ("none", "none")
_BOTH: Two = ("breaking", "breaking")
_RECEIVER: Two = ("breaking", "none")
_SENDER: Two = ("none", "breaking")
_NO_FLAGS: Flags = (set(), set())
_NEEDED = {True: "required", False: "optional"}
_OPEN = {True: "open", False: "closed"}


@dataclass(frozen=True)
class Difference:
    """One difference between two definitions."""

    cls: str
    definition: str
    step: str
    """From the definition to where it is, as in a wire path: `.member`, `(tag)`, `[]`."""
    said: Two
    """What it was and what it is, in words."""
    felt: Two
    """How bad it is for the old receiver and for the old sender, where no flag absorbs it."""
    subject: Subject = field(default_factory=Subject)
    absorbed: tuple[bool, bool] = (False, False)
    """Whether flags of the member itself absorb what fails, in the old schema and in the new one. They do so for a bad
    value; a member that is missing fails the object around it."""


@dataclass(frozen=True)
class Meeting:
    """Two definitions that stand in the same place."""

    old: str
    new: str
    step: str
    absorbed: tuple[bool, bool] = (False, False)


Found = Difference | Meeting


@dataclass(frozen=True)
class _At:
    """Where two types stand: of which definition and member, behind which flags."""

    definition: str
    step: str
    subject: Subject
    absorbed: tuple[bool, bool] = (False, False)

    def inside(self, step: str, flags: Flags) -> _At:
        """One step further in; items that do not decode are skipped where the flags say so."""
        skip = [step == "[]" and "skip" in flags[side] for side in (0, 1)]
        absorbed = (self.absorbed[0] or skip[0], self.absorbed[1] or skip[1])
        return _At(self.definition, self.step + step, self.subject, absorbed)

    def differs(self, cls: str, words: Two, felt: Two, value: str | int | None = None) -> Difference:
        subject = Subject(self.subject.place, self.subject.member, self.subject.value if value is None else value)
        return Difference(cls, self.definition, self.step, words, felt, subject, self.absorbed)

    def meet(self, old: str, new: str) -> Meeting:
        return Meeting(old, new, self.step, self.absorbed)


class Comparison:
    """Compares definitions of an old and a new schema."""

    def __init__(self, old: Defs, new: Defs) -> None:
        self.old = old
        self.new = new
        self._equal: dict[Two, bool] = {}

    def definitions(self, old: str, new: str) -> Iterator[Found]:
        """All differences of two definitions, and the pairs that meet in them."""
        if form(self.old[old]) != form(self.new[new]):  # a definition may be no more than a name for another one
            old, new = end({"$ref": old}, self.old), end({"$ref": new}, self.new)
        one, two = self.old[old], self.new[new]
        forms = form(one), form(two)
        if forms == ("object", "object"):
            yield from self._objects(old, one, two)
        elif forms == ("union", "union"):
            yield from self._unions(old, one, two)
        elif forms == ("type", "type"):
            yield from self._types(one, two, _At(old, "", Subject(old)))
        elif "type" not in forms:
            yield from self._retagged(old, new)
        else:
            yield self._other_kinds({"$ref": old}, {"$ref": new}, _At(old, "", Subject(old)))

    def are_alike(self, old: str, new: str) -> bool:
        """Whether two definitions may be one that changed, rather than two that have nothing to do with each other."""
        one, two = self.old[old], self.new[new]
        if form(one) != form(two):
            return False
        if form(one) == "type":
            return kinds(one, self.old) == kinds(two, self.new)
        return overlap(keys(one), keys(two)) >= 0.5

    def are_equal(self, old: str, new: str) -> bool:
        """Whether two definitions are the same on the wire, at any depth."""
        if (old, new) not in self._equal:
            self._equal[old, new] = True  # while it is found out: a definition in itself changes nothing
            self._equal[old, new] = all(
                self.are_equal(found.old, found.new)
                if isinstance(found, Meeting)
                else found.cls in ("T", "D") and found.felt == _NONE
                for found in self.definitions(old, new)
            )
        return self._equal[old, new]

    def _said(self, old: Node, new: Node) -> Two:
        return said(old, self.old), said(new, self.new)

    # -- objects --

    def _objects(self, place: str, old: Node, new: Node) -> Iterator[Found]:
        before, after = cast("Defs", old["properties"]), cast("Defs", new["properties"])
        gone = {name: child for name, child in before.items() if name not in after and not _went(name, old, new)}
        come = {name: child for name, child in after.items() if name not in before and not _went(name, new, old)}
        renamed = self._renamed(gone, come, set(old["required"]), set(new["required"]))
        for name, child in before.items():
            if _went(name, old, new):
                continue  # with a variant, of which it is told
            other = renamed.get(name, name)
            definition = origin(place, child)
            subject = Subject(definition, name)
            if name in renamed:
                words = f"{name}: {said(child, self.old)}", f"{other}: {said(come[other], self.new)}"
                yield Difference("RN", definition, f".{name}", words, _BOTH, subject)
            elif name in gone:
                required = name in old["required"]
                words = f"{_NEEDED[required]} {said(child, self.old)}", ""
                yield Difference(
                    "F-", definition, f".{name}", words, ("breaking" if required else "soft", "soft"), subject
                )
                continue
            needs = name in old["required"], other in new["required"]
            needs = _needs_of_parts(name, old, new) or needs
            pair = member(old, name), member(new, other)
            for found in self._members(_At(definition, f".{other}", subject), pair[0], pair[1], needs):
                yield _with_members(found, old, new)
        for name in [name for name in come if name not in renamed.values()]:
            parts = [part for value, part in _parts(new).items() if value in _parts(old) and name in part["required"]]
            required = name in new["required"] or bool(parts)
            definition = _definition(parts[0]["members"][name]) if parts else origin(place, come[name])
            words = "", f"{_NEEDED[required]} {said(come[name], self.new)}"
            subject = Subject(definition if definition in self.old else place, name)
            felt = ("additive", "breaking" if required else "none")
            yield Difference("F+r" if required else "F+o", definition, f".{name}", words, felt, subject)
        yield from self._conditions(place, old, new)
        if old.get("extra", False) != new.get("extra", False):
            more = {True: "other members are kept", False: "other members are dropped"}
            kept = bool(old.get("extra"))
            felt = ("none", "soft") if kept else _NONE
            yield Difference("OP", place, "", (more[kept], more[not kept]), felt, Subject(place))

    def _conditions(self, place: str, old: Node, new: Node) -> Iterator[Difference]:
        """Which members must be there together, or with which value of the tag."""
        yield from _alternatives(place, "", old, new)
        yield from self._parts(place, old, new)

    def _parts(self, place: str, old: Node, new: Node) -> Iterator[Difference]:
        """What is another with one value of the tag, in a union that is one object, than with the others."""
        parts = _parts(old), _parts(new)
        both = old["properties"].keys() & new["properties"].keys()
        for value in parts[0].keys() & parts[1].keys():
            pair = parts[0][value], parts[1][value]
            outer = value.rpartition("/")[0]
            around = parts[0].get(outer, {"required": ()}), parts[1].get(outer, {"required": ()})
            for name in both & pair[0]["members"].keys() & pair[1]["members"].keys():
                needs = _needs(name, *pair)
                told = _needs_of_parts(name, old, new), _needs(name, *around)
                if needs[0] != needs[1] and needs not in told:
                    subject = Subject(place, name)
                    at = _At(_definition(pair[0]["members"][name]), f"({value}).{name}", subject)
                    yield _needed(at, *needs, f" with {value}")
            if any(_leaves(part).keys() >= {value} for part in parts):
                yield from self._parts_members(place, both, pair, (old, new))

    def _parts_members(
        self, place: str, both: set[str], parts: tuple[Node, Node], nodes: tuple[Node, Node]
    ) -> Iterator[Difference]:
        """Members that came or went with one value of the tag, and that others have."""
        before, after = parts[0]["members"], parts[1]["members"]
        for name in both & before.keys() - after.keys():
            required = name in parts[0]["required"]
            words = f"{_NEEDED[required]} {said(nodes[0]['properties'][name], self.old)}", ""
            definition = _definition(before[name])
            felt = ("breaking" if required else "soft", "soft")
            yield Difference("F-", definition, f".{name}", words, felt, Subject(definition, name))
        for name in both & after.keys() - before.keys():
            required = name in parts[1]["required"]
            words = "", f"{_NEEDED[required]} {said(nodes[1]['properties'][name], self.new)}"
            definition = _definition(after[name])
            subject = Subject(definition if definition in self.old else place, name)
            felt = ("additive", "breaking" if required else "none")
            yield Difference("F+r" if required else "F+o", definition, f".{name}", words, felt, subject)

    def _members(self, at: _At, old: Node, new: Node, needs: tuple[bool, bool]) -> Iterator[Found]:
        """One member in both schemas."""
        if needs[0] != needs[1]:
            yield _needed(at, *needs)
        if default(old) != default(new):
            same = any(needs) or implied(old, self.old) == implied(new, self.new)
            felt = _NONE if same else ("behavioural", "behavioural")
            yield at.differs("D", (default(old), default(new)), felt)
        flags: Flags = set(old.get("flags", ())), set(new.get("flags", ()))
        if flags[0] != flags[1]:
            words = said_flags(flags[0]), said_flags(flags[1])
            yield at.differs("L", words, _SENDER if flags[0] - flags[1] else _NONE)
        absorbed = ("error" in flags[0], "error" in flags[1])
        yield from self._types(old, new, _At(at.definition, at.step, at.subject, absorbed), flags)

    def _renamed(self, gone: Defs, come: Defs, old_required: set[str], new_required: set[str]) -> dict[str, str]:
        """Old name -> new name, where one member left and another of the same type came."""
        found: list[tuple[float, str, str]] = []
        for name, child in gone.items():
            others = [other for other, node in come.items() if self._is_same_type(child, node)]
            for other in others:
                score = likeness(name, other)
                is_only_one = len(gone) == len(come) == 1 and name in old_required and other in new_required
                types = {child.get("$ref", ""), come[other].get("$ref", "")} - {""}
                is_only_one &= len(types) < 2  # two types with names of their own are two things
                is_told_by_type = form(resolved(child, self.old)) != "type" and len(others) == 1
                if score >= 0.5 or is_only_one or is_told_by_type:
                    found.append((score, name, other))
        renamed: dict[str, str] = {}
        for _, name, other in sorted(found, key=lambda one: (-one[0], one[1], one[2])):
            if name not in renamed and other not in renamed.values():
                renamed[name] = other
        return renamed

    def _is_same_type(self, old: Node, new: Node) -> bool:
        """Whether two types are one, apart from bounds, null, and what an object has in it; any JSON is no type."""
        one, two = resolved(old, self.old), resolved(new, self.new)
        if form(one) != form(two):
            return False
        if form(one) != "type":
            ends = end(old, self.old), end(new, self.new)
            return ends[0] == ends[1] or (bool(keys(one) - {"_meta"}) and self.are_equal(*ends))
        if not kinds(one, self.old) or kinds(one, self.old) != kinds(two, self.new):
            return False
        if ("enum" in one or "enum" in two) and not set(one.get("enum", ())) & set(two.get("enum", ())):
            return False
        held = [node.get("items") or node.get("additionalProperties") for node in (one, two)]
        return not (held[0] and held[1]) or self._is_same_type(held[0], held[1])

    # -- types --

    def _types(self, old: Node, new: Node, at: _At, flags: Flags = _NO_FLAGS) -> Iterator[Found]:
        if "$ref" in old and "$ref" in new:
            yield from _nullable(bool(old.get("nullable")), bool(new.get("nullable")), at, flags)
            yield from self._references(old["$ref"], new["$ref"], at)
            return
        one, two = resolved(old, self.old), resolved(new, self.new)
        if form(one) != form(two):
            yield self._other_kinds(old, new, at)
        elif form(one) != "type":
            yield at.meet(end(old, self.old), end(new, self.new))
        else:
            found = [*self._shapes(one, two, at, flags)]
            takes_any = not kinds(one, self.old) or not kinds(two, self.new)
            if not (takes_any and found):  # that any JSON comes or goes says it of null already
                found += _nullable(is_nullable(old, self.old), is_nullable(new, self.new), at, flags)
            if not found and ("$ref" in old) != ("$ref" in new):  # a type that got a name, or lost it
                found.append(at.differs("T", self._said(old, new), _NONE))
            yield from found

    def _references(self, old: str, new: str, at: _At) -> Iterator[Found]:
        """Two names in one place: one definition that changed, or two that have nothing in common."""
        both_stay = old != new and old in self.new and new in self.old
        is_one = self.are_equal(old, new) or (self.are_alike(old, new) and not both_stay)
        forms = form(self.old[old]), form(self.new[new])
        is_one |= forms == ("object", "union") or (forms[0] == forms[1] != "type" and likeness(old, new) >= 0.5)
        if old == new or (is_one and not (both_stay and not self.are_equal(old, new))):
            yield at.meet(old, new)
            if old != new and old in self.new:
                yield at.differs("T", (old, new), _NONE)
        else:
            yield at.differs("T", self._said({"$ref": old}, {"$ref": new}), _BOTH)

    def _shapes(self, old: Node, new: Node, at: _At, flags: Flags) -> Iterator[Found]:
        """Two types that are no objects, null apart."""
        taken = kinds(old, self.old), kinds(new, self.new)
        if taken[0] != taken[1]:
            yield self._other_kinds(old, new, at)
        elif "choice" in old or "choice" in new or "scalars" in old:
            yield from self._branches(old, new, at, flags)
        else:
            yield from self._constants(old, new, at)
            yield from _bounds(old, new, at)
            for key, step in (("items", "[]"), ("additionalProperties", "{}")):
                if key in old and key in new:
                    yield from self._types(old[key], new[key], at.inside(step, flags))

    def _other_kinds(self, old: Node, new: Node, at: _At) -> Difference:
        """Other kinds of JSON than before: more of them break old receivers, fewer old senders."""
        taken = kinds(old, self.old), kinds(new, self.new)
        is_wider, is_narrower = (taken[0] != taken[1] and are_within(*pair) for pair in (taken, taken[::-1]))
        felt = ("none" if is_narrower else "breaking", "none" if is_wider else "breaking")
        is_union = "scalars" in old or "scalars" in new
        return at.differs(
            "T" if not is_union else "V+" if is_wider else "V-" if is_narrower else "T", self._said(old, new), felt
        )

    def _branches(self, old: Node, new: Node, at: _At, flags: Flags) -> Iterator[Found]:
        """Alternatives without a tag: scalars by their kind, others by their position."""
        one, two = (node.get("choice") or node.get("scalars") or [node] for node in (old, new))
        if "scalars" in old and "scalars" in new:
            by_kind = {min(kinds(child, self.new)): child for child in two}
            two = [by_kind[min(kinds(child, self.old))] for child in one]
        if len(one) == len(two):
            for child, other in zip(one, two, strict=True):
                yield from self._types(child, other, at, flags)
        else:
            more = len(one) < len(two)
            yield at.differs("V+" if more else "V-", self._said(old, new), _RECEIVER if more else _SENDER)

    def _constants(self, old: Node, new: Node, at: _At) -> Iterator[Difference]:
        """Sets of constants; a plain type is an open set that lists none."""
        is_open: tuple[bool, bool] = old.get("open", True), new.get("open", True)
        if is_open[0] != is_open[1]:
            yield at.differs("OP", (_OPEN[is_open[0]], _OPEN[is_open[1]]), _RECEIVER if is_open[1] else _SENDER)
        if "enum" in old and "enum" in new:
            sign = "V" if "of" in old or "of" in new else "E"
            for value in old["enum"]:
                if value not in new["enum"]:
                    felt = ("none", "soft" if is_open[1] else "breaking")
                    yield at.differs(f"{sign}-", (json.dumps(value), ""), felt, value)
            for value in new["enum"]:
                if value not in old["enum"]:
                    felt = ("soft" if is_open[0] else "breaking", "none")
                    yield at.differs(f"{sign}+", ("", json.dumps(value)), felt, value)
        elif ("enum" in old or "enum" in new) and all(is_open):
            yield at.differs("T", self._said(old, new), _NONE)

    # -- unions --

    def _unions(self, place: str, old: Node, new: Node) -> Iterator[Found]:
        if old["tag"] != new["tag"]:
            words = f"tag {old['tag']}", f"tag {new['tag']}"
            yield Difference("VT", place, "", words, _BOTH, Subject(place, old["tag"]))
        if old["open"] != new["open"]:
            felt = _RECEIVER if new["open"] else _SENDER
            yield Difference("OP", place, "", (_OPEN[old["open"]], _OPEN[new["open"]]), felt, Subject(place))
        one, two = _branches_of(old), _branches_of(new)
        matched = self._matched(one, two)
        for tag, target in one.items():
            subject = Subject(place, value=tag) if tag in old["variants"] else Subject(target)
            if tag not in matched:
                felt = ("none", "soft" if new["open"] else "breaking")
                yield Difference("V-", place, f"({_untagged(tag)})", (target, ""), felt, subject)
                continue
            other = matched[tag]
            at = _At(place, f"({_untagged(other)})", subject)
            words = _as_tagged(old, tag), _as_tagged(new, other)
            if (tag in old["variants"]) != (other in new["variants"]):
                named = Subject(place, value=tag if tag in old["variants"] else other)
                felt = ("breaking", "soft") if tag in old["variants"] else ("soft", "breaking")  # a tag too many passes
                yield Difference("VT", place, at.step, words, felt, named)
            elif tag != other and tag in old["variants"]:
                yield at.differs(
                    "RN", words, ("soft" if old["open"] else "breaking", "soft" if new["open"] else "breaking")
                )
            yield from self._references(target, two[other], at) if tag == other else [at.meet(target, two[other])]
        for tag in [tag for tag in two if tag not in matched.values()]:
            felt = ("soft" if old["open"] else "breaking", "none")
            yield Difference(
                "V+", place, f"({_untagged(tag)})", ("", two[tag]), felt, Subject(place, value=_untagged(tag))
            )
        if old["open"] and new["open"]:
            yield from self._fallbacks(place, old, new)

    def _matched(self, one: dict[str, str], two: dict[str, str]) -> dict[str, str]:
        """Branch of the old union -> branch of the new one: under its tag, or what lost, got or changed its tag."""
        matched = {tag: tag for tag in one if tag in two}
        gone, come = [tag for tag in one if tag not in two], [tag for tag in two if tag not in one]
        for tag in gone:
            alone = list(one.values()).count(one[tag]) == 1
            others = [
                other
                for other in come
                if other not in matched.values()
                and ("/" in tag or "/" in other or (alone and list(two.values()).count(two[other]) == 1))
                and self._is_same_branch(tag, one[tag], other, two[other])
            ]
            if len(others) == 1:
                matched[tag] = others[0]
        return matched

    def _is_same_branch(self, tag: str, old: str, other: str, new: str) -> bool:
        """Whether the payloads of two branches are one, by name, or by members where names or tags are like it too."""
        if old == new:
            return True
        is_object = form(self.old[old]) == form(self.new[new]) == "object"
        one, two = keys(self.old[old]) - {"_meta"}, keys(self.new[new]) - {"_meta"}
        is_untagged = tag.startswith("/") or other.startswith("/")
        return is_object and len(one & two) * 2 > len(one | two) and (is_untagged or likeness(tag, other) >= 0.5)

    def _fallbacks(self, place: str, old: Node, new: Node) -> Iterator[Difference]:
        """What a variant that nobody knows must still have."""
        one, two = (defs.get(node["fallback"] or "", {}) for node, defs in ((old, self.old), (new, self.new)))
        if one and two:
            yield from _alternatives(place, "(unknown)", one, two)
        before, after = (set(body.get("required", ())) - {node["tag"]} for body, node in ((one, old), (two, new)))
        bodies = [
            (self.old[target], self.new[new["variants"][tag]])
            for tag, target in old["variants"].items()
            if tag in new["variants"]
        ]
        for name in sorted(before ^ after):
            needs = name in before, name in after
            if bodies and all(_needs(name, *pair) == needs for pair in bodies):
                continue  # it is so with every variant, of which it is told
            yield _needed(_At(place, f"(unknown).{name}", Subject(place)), name in before, name in after)

    def _retagged(self, old: str, new: str) -> Iterator[Found]:
        """An object became a union, or a union an object; most often its one variant until then, or from then on."""
        one, two = self.old[old], self.new[new]
        is_union = "variants" in one
        if self._is_flattened(old, new):
            yield from self._flattened(old, new)
            return
        words = [f"told apart by {node['tag']}" if "variants" in node else "one object" for node in (one, two)]
        for tag, target in (one if is_union else two)["variants"].items():
            pair = (target, new) if is_union else (old, target)
            if self.are_alike(pair[0], pair[1]):
                needed = set((two if is_union else one)["required"])
                passes = (
                    "soft"
                    if self._all_have(needed, *((one, self.old) if is_union else (two, self.new)))
                    else "breaking"
                )
                felt = ("breaking", passes) if is_union else (passes, "breaking")  # a tag too many passes
                yield Difference("VT", old, "", (words[0], words[1]), felt, Subject(old))
                yield Meeting(pair[0], pair[1], f"({tag})")
                return
        yield Difference("VT", old, "", (words[0], words[1]), _BOTH, Subject(old))

    def _all_have(self, members: set[str], union: Node, defs: Defs) -> bool:
        """Whether every variant, one that nobody knows too, must have some members."""
        bodies = [*union["variants"].values(), *union["rest"], *([union["fallback"]] if union["open"] else [])]
        return all(members <= set(defs.get(name or "", {}).get("required", ())) for name in bodies)

    def _is_flattened(self, old: str, new: str) -> bool:
        """Whether two definitions are one union, which one schema has as the payload of another and therefore flat."""
        one, two = self.old[old], self.new[new]
        union, other, name = (one, two, new) if "variants" in one else (two, one, old)
        return "variants" in union and other.get("properties", {}).get(union["tag"], {}).get("of") == name

    def _flattened(self, old: str, new: str) -> Iterator[Found]:
        """One union, flat in one schema, which is no difference by itself: what is told is what both have, flat."""
        one, two = self.as_objects(old, new)
        yield from self._objects(old, one, two)
        is_union = "variants" in self.old[old]
        union, place, defs = (self.old[old], old, self.old) if is_union else (self.new[new], new, self.new)
        for name, child in flat(place, union, _bodies(union, defs))[1]:
            if name in one["properties"] and name in two["properties"]:
                pair = (child, member(two, name)) if is_union else (member(one, name), child)
                definition = origin(old, pair[0])
                yield from self._members(_At(definition, f".{name}", Subject(definition, name)), *pair, (False, False))
        for tag, target in union["variants"].items():
            body = resolved({"$ref": target}, defs)
            pair = (body, Node()) if is_union else (Node(), body)
            yield from _alternatives(target if is_union else old, f"({tag})", *pair)

    def as_objects(self, old: str, new: str) -> tuple[Node, Node]:
        """Two definitions as they are compared: a union that the other schema has flat is flat."""
        one, two = self.old[old], self.new[new]
        if self._is_flattened(old, new):
            if "variants" in one:
                one, _ = flat(old, one, _bodies(one, self.old))
            else:
                two, _ = flat(new, two, _bodies(two, self.new))
        return one, two


# --- differences that need no schema around them ----------------------------------------------------------------------


def _needed(at: _At, before: bool, after: bool, where: str = "") -> Difference:
    """A member became required, or optional."""
    words = _NEEDED[before] + where, _NEEDED[after] + where
    return at.differs("RQ+" if after else "RQ-", words, _SENDER if after else _RECEIVER)


def _nullable(old: bool, new: bool, at: _At, flags: Flags) -> Iterator[Difference]:
    """Null became a value, or is none any more; flags take it for a member that is left out, which it meant anyway."""
    if old != new:
        forgiven = [bool({"null", "error"} & flag) for flag in flags]
        felt = (
            ("soft" if forgiven[0] else "breaking", "none") if new else ("none", "soft" if forgiven[1] else "breaking")
        )
        words = {True: "null allowed", False: "not null"}
        yield at.differs("N", (words[old], words[new]), felt)


def _bounds(old: Node, new: Node, at: _At) -> Iterator[Difference]:
    """Ranges, lengths, and what a string must look like: tighter breaks old senders, looser old receivers."""
    tighter = looser = False
    for key, sign, _ in LIMITS:
        one, two = (found if found is None else found * sign for found in (limit(old, key), limit(new, key)))
        tighter |= two is not None and (one is None or two > one)
        looser |= one is not None and (two is None or two < one)
    if tighter or looser:
        felt = ("breaking" if looser else "none", "breaking" if tighter else "none")
        yield at.differs("B", (said_bounds(old), said_bounds(new)), felt)
    for key, bad in (("pattern", "breaking"), ("format", "soft"), ("contentEncoding", "behavioural")):
        if old.get(key) != new.get(key):
            before, after = (f"{key} {node[key]}" if key in node else f"no {key}" for node in (old, new))
            yield at.differs("B", (before, after), (bad if key in old else "none", bad if key in new else "none"))


def _needs(name: str, old: Node, new: Node) -> tuple[bool, bool]:
    """Whether both require a member."""
    return name in old.get("required", ()), name in new.get("required", ())


def _parts(node: Node) -> Node:
    """Value of the tag -> what there is with it, of a union that is one object."""
    return cast("Node", node.get("parts", {}))


def _leaves(node_parts: Node) -> Node:
    """Those without values of a further tag in them."""
    return {value: part for value, part in node_parts.items() if not any(o.startswith(f"{value}/") for o in node_parts)}


def _holders(name: str, node: Node) -> set[str]:
    """The values of the tag that have a member."""
    return {value for value, part in _leaves(_parts(node)).items() if name in part["members"]}


def _went(name: str, one: Node, two: Node) -> bool:
    """Whether a member is in variants alone that the other schema has not."""
    holders, known = _holders(name, one), _parts(two)
    kept = any(held in known or any(held.startswith(f"{leaf}/") for leaf in _leaves(known)) for held in holders)
    return bool(holders and known) and not kept and name not in two["properties"]


def _with_members(variant: Found, old: Node, new: Node) -> Found:
    """A variant of a union that is one object is told with the members that went with it."""
    if isinstance(variant, Meeting) or variant.cls != "V-":
        return variant
    found = tuple(
        sorted(
            (origin("", child), name)
            for name, child in cast("Defs", old["properties"]).items()
            if _went(name, old, new) and any(variant.subject.value in held.split("/") for held in _holders(name, old))
        )
    )
    return replace(variant, subject=replace(variant.subject, members=found))


def _definition(at: str) -> str:
    """The definition that a pointer to a member leads into."""
    return at.split("/")[2]


def _needs_of_parts(name: str, old: Node, new: Node) -> tuple[bool, bool] | None:
    """Whether a member is required, where it is so with each value of the tag, or with none, or stayed what it was."""
    pairs = [(part, _parts(new)[value]) for value, part in _parts(old).items() if value in _parts(new)]
    needs = {
        (name in one["required"], name in two["required"])
        for one, two in pairs
        if name in one["members"] and name in two["members"]
    }
    return (needs.pop() if len(needs) == 1 else (False, False)) if needs else None


def _alternatives(place: str, step: str, old: Node, new: Node) -> Iterator[Difference]:
    """Which of some members must be there."""
    words = said_alternatives(old), said_alternatives(new)
    if words[0] != words[1]:
        cls, felt = "T", _BOTH
        one, two = old.get("exclusive"), new.get("exclusive")
        if one and two and set(one["of"]) == set(two["of"]):
            cls, felt = "B", _SENDER if two["one"] else _RECEIVER
        yield Difference(cls, place, step, words, felt, Subject(place))


def _bodies(union: Node, defs: Defs) -> dict[str, Node]:
    """Tag -> object; a payload that is none has no members."""
    none: Node = {"properties": {}, "required": []}
    found = {tag: resolved({"$ref": target}, defs) for tag, target in union["variants"].items()}
    return {tag: body if "properties" in body else none for tag, body in found.items()}


def _branches_of(union: Node) -> dict[str, str]:
    """Tag -> payload; a branch without a tag goes by "/" and its payload's name."""
    return {**union["variants"], **{f"/{target}": target for target in union["rest"]}}


def _untagged(tag: str) -> str:
    return tag.rpartition("/")[2]


def _as_tagged(union: Node, tag: str) -> str:
    return f"{union['tag']}: {tag}" if tag in union["variants"] else "without a tag"
