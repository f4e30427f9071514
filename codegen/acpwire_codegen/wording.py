"""What changed in the words of two schemas, without the words.

Owns: naming places in a schema so that two schemas' words can be compared, changed descriptions and which of them bind,
and what only words say: whether leaving a member out and null are two things, and whether something is draft only.
Does not know: structure, or how a change is reported. Where both schemas still have their prose, changed sentences are
looked at one by one; else marker words and hashes have to do. No sentence leaves this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from .dialect import Node, Schema
from .load import Source, prose_of

BINDING = frozenset({"MUST NOT", "MUST", "SHOULD NOT", "SHOULD", "null", "omitted", "unchanged"})
"""Marker words that a change of which must be read by a person; error codes are the others."""


@dataclass(frozen=True)
class Rewording:
    """Descriptions that changed from the same words to the same words."""

    places: tuple[str, ...]
    old: tuple[str, ...]
    new: tuple[str, ...]
    """Marker words before and now."""
    touched: tuple[str, ...]
    """Marker words that stand in what changed, as far as that can be told."""

    @property
    def binds(self) -> bool:
        """Whether what changed has words in it that bind."""
        return any(marker in BINDING or marker.startswith("-32") for marker in self.touched)


class Words:
    """The prose of one schema, by places that mean the same in another schema."""

    def __init__(self, source: Source, schema: Schema, overrides: Mapping[str, Any]) -> None:
        self._source = source
        self._overrides = overrides
        self.pointers: dict[str, str] = {}
        """Place -> pointer: `Definition.member`, `Union(tag)`, `Set=value`."""
        for name, node in source.document["$defs"].items():
            if name not in schema.dropped or not schema.dropped[name].startswith("a JSON-RPC"):
                for place, pointer in _places(node, name, f"/$defs/{name}"):
                    self.pointers.setdefault(place, pointer)

    @property
    def has_prose(self) -> bool:
        """Whether anything is known of the prose."""
        return bool(self._source.prose)

    def markers(self, place: str) -> tuple[str, ...]:
        """The marker words at a place."""
        found = self._source.prose.get(self.pointers.get(place, ""))
        return found.markers if found else ()

    def hash(self, place: str) -> str:
        """The hash of the words at a place; empty where there are none."""
        found = self._source.prose.get(self.pointers.get(place, ""))
        return found.sha256 if found else ""

    def text(self, place: str) -> str | None:
        """The words at a place, where they are at hand."""
        pointer = self.pointers.get(place, "")
        if pointer in self._source.prose and pointer not in self._source.texts:
            return None
        return self._source.texts.get(pointer, "")

    def is_unstable(self, place: str) -> bool:
        """Whether the words say that only the draft has it."""
        return "UNSTABLE" in self.markers(place)

    def absence(self, definition: str, member: str) -> str:
        """What leaving a nullable member out means: the same as null, or what was there stays.

        Words of the member come before those of its definition. Weak words count only for members of which
        overrides.toml says that they are patches, as these words mean other things elsewhere.
        """
        own = set(self.markers(f"{definition}.{member}"))
        around = set(self.markers(definition))
        table, key = ("meta", definition) if member == "_meta" else ("three_state", f"{definition}.{member}")
        listed = key in self._overrides.get(table, {})
        if listed and table == "meta" and self._overrides[table][key].get("rule") == "chunk":
            return "same as null"
        if "top-level key" in own:
            return "kept, and an object is merged by key"
        if "equivalent" in own:
            return "same as null"
        if "unchanged" in own | around or (listed and "patch" in own | around):
            return "kept"
        return "same as null"


def rewordings(old: Words, new: Words, renamed: Mapping[str, str]) -> Iterator[Rewording]:
    """Every change of words at places that both schemas have; `renamed` is definition -> its new name."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for place in old.pointers:
        other = translated(place, renamed)
        if other in new.pointers and old.hash(place) != new.hash(other):
            groups.setdefault((old.hash(place), new.hash(other)), []).append((place, other))
    for pairs in groups.values():
        place, other = pairs[0]
        before, after = old.markers(place), new.markers(other)
        touched = tuple(dict.fromkeys([*before, *after]))
        texts = old.text(place), new.text(other)
        if texts[0] is not None and texts[1] is not None:
            changed = set(_sentences(texts[0])) ^ set(_sentences(texts[1]))
            touched = tuple(dict.fromkeys(marker for text in sorted(changed) for marker in prose_of(text).markers))
        yield Rewording(tuple(place for place, _ in pairs), before, after, touched)


def translated(place: str, renamed: Mapping[str, str]) -> str:
    """A place under the new name of its definition."""
    match = re.match(r"[^.(=\[{]+", place)
    name = match.group() if match else place
    return renamed.get(name, name) + place[len(name) :]


def _sentences(text: str) -> list[str]:
    return [" ".join(part.split()) for part in re.split(r"(?<=[.!?:])\s+|\n\s*\n|\n\s*[-*]\s", text)]


def _places(node: Any, place: str, pointer: str) -> Iterator[tuple[str, str]]:
    """Every schema within a schema, by what it is rather than by its position."""
    if not isinstance(node, dict):
        return
    yield place, pointer
    schema = cast("Node", node)
    for name, child in schema.get("properties", {}).items():
        yield from _places(child, f"{place}.{name}", f"{pointer}/properties/{name}")
    for key, step in (("items", "[]"), ("additionalProperties", "{}")):
        yield from _places(schema.get(key), place + step, f"{pointer}/{key}")
    for key in ("anyOf", "oneOf"):
        for index, child in enumerate(schema.get(key, [])):
            yield from _places(child, place + _label(child, index), f"{pointer}/{key}/{index}")


def _label(branch: Node, index: int) -> str:
    if "const" in branch:
        return f"={branch['const']}"
    for child in branch.get("properties", {}).values():
        if isinstance(child, dict) and isinstance(cast("Node", child).get("const"), str):
            return f"({child['const']})"
    return f"({branch.get('title') or str(branch.get('$ref', index)).rpartition('/')[2]})"
