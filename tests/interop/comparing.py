"""What both directions need: folding what one side wrote down, telling where two transcripts differ, one report each.

A peer's program writes lines of JSON, `[what, value]`: what it got, gave, and what its requests came to.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

import msgspec

from acpwire import v2
from acpwire.transcript import Blocks, Entity, Snapshot, State, Transcript
from tests.faults import Fault, news

HERE = Path(__file__).parent
SECONDS = 120
"""The longest that one peer may take."""

Said = list[Any]
"""A name and a value."""


@dataclass
class Report:
    """What one peer has shown so far."""

    peer: str
    faults: list[Fault]
    problems: list[str] = field(default_factory=list[str])
    start: float = field(default_factory=time.monotonic)

    def expect(self, what: str, found: Any, told: Any) -> None:
        """These are equal, or each difference is a problem."""
        self.problems += differences(found, told, what)

    def close(self, updates: int) -> list[str]:
        """Print a line; return what is a problem and no known fault, and the faults that are none any more."""
        seconds = time.monotonic() - self.start
        print(f"{self.peer}: {updates:,} updates, {len(self.faults)} faults of its own, {seconds:.1f} s")
        return [f"{self.peer}: {one}" for one in news(self.problems, self.faults)]


def typed(update: Any) -> v2.SessionUpdate:
    """An update of this library from its JSON."""
    return v2.decode(v2.SessionUpdate, json.dumps(update, separators=(",", ":")).encode())


def decoded(kind: Any, raw: Iterable[Any]) -> list[Any]:
    """Values of a type from their JSON."""
    return [v2.decode(kind, json.dumps(one, separators=(",", ":")).encode()) for one in raw]


def folded(updates: Iterable[v2.SessionUpdate]) -> Snapshot:
    """What updates add up to."""
    transcript = Transcript()
    for update in updates:
        transcript.apply(update)
    return transcript.snapshot()


def updates_of(said: Iterable[Said], session: str) -> Iterator[v2.SessionUpdate]:
    """The updates of a session."""
    for what, value in said:
        if what == "update" and value["sessionId"] == session:
            yield typed(value["update"])


def came_to(said: Iterable[Said], what: str) -> list[Any]:
    """All values of one name."""
    return [value for name, value in said if name == what]


def differences(found: Any, told: Any, path: str) -> Iterator[str]:
    """Where two values differ, each time as deep inside as can be: what was found, not what was told."""
    if found == told:
        return
    ours, theirs = _members(found), _members(told)
    if type(found) is not type(told) or ours is None or theirs is None:
        yield f"{path}: {found!r}, not {told!r}"
        return
    for name in ours | theirs:
        yield from differences(ours.get(name, _NOTHING), theirs.get(name, _NOTHING), f"{path}.{name}")
    if list(ours) != list(theirs) and isinstance(found, Snapshot):
        both = ours.keys() & theirs.keys()
        here, there = ([name for name in one if name in both] for one in (ours, theirs))
        yield from differences(here, there, f"{path}: order")


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


def _members(value: Any) -> dict[str, Any] | None:
    """What a value consists of; None where it is to be told as a whole."""
    match value:
        case Snapshot():
            entities = {f"{one.category} {one.id}": one for one in value.timeline}
            return {**entities, **_fields(value, "timeline")}
        case v2.UnknownVariant():
            return {"tag": value.tag, "data": value.data}
        case Blocks():
            return _members(value.joined())
        case dict():
            return {**cast("dict[str, Any]", value)}
        case list() | tuple():
            return {str(place): one for place, one in enumerate(cast("list[Any]", value))}
        case msgspec.Struct():
            return {name: getattr(value, name) for name in value.__struct_fields__}
        case Entity() | State():
            return _fields(value, "provisional")
        case _:
            return None


def _fields(value: Any, *but: str) -> dict[str, Any]:
    return {one.name: getattr(value, one.name) for one in fields(value) if one.repr and one.name not in but}
