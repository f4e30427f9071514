"""Another decoder's verdicts: what the TypeScript SDK made of one-field mutations, against what `v2.decode` makes.

Owns: what counts as the same value although the two print it differently, and the rules for what is left. Each rule
names the requirement by which ours is right, and says what ours must then be.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from acpwire import v2
from tests.models import strategies

ORACLE = Path(__file__).parents[1] / "corpus" / "oracle.jsonl"
Json = Any
REFUSED = object()
"""In place of a value that a decoder does not accept."""


@dataclass(frozen=True)
class Case:
    """One mutation and what the oracle says; `path` holds the keys that lead to the mutated member."""

    number: int
    definition: str
    path: tuple[str | int, ...]
    mutation: str
    given: Json
    theirs: Json


def cases() -> list[Case]:
    """All verdicts, in the order of the file."""
    found: list[Case] = []
    for number, line in enumerate(ORACLE.read_bytes().splitlines(), start=1):
        it = json.loads(line)
        keys = tuple(int(key) if key.isdecimal() else key for key in it["path"].split("/") if key)
        theirs = it["out"] if it["ok"] else REFUSED
        found.append(Case(number, it["def"], keys, it["mutation"], it["in"], theirs))
    return found


def ours(definition: str, given: Json) -> Json:
    """What decoding and encoding leaves of a value, as JSON."""
    raw = json.dumps(given).encode()
    try:
        value = v2.decode(getattr(v2, definition), raw)
    except v2.DecodeError:
        return REFUSED
    return json.loads(v2.encode(value))


# --- the same value --------------------------------------------------------------------------------------------------

PATCHED = {
    "user_message": {"content", "_meta"},
    "agent_message": {"content", "_meta"},
    "agent_thought": {"content", "_meta"},
    "tool_call_update": {
        *("name", "title", "kind", "status", "content", "locations", "rawInput", "rawOutput", "capabilities", "_meta")
    },
    "terminal_update": {"command", "cwd", "output", "exitStatus", "size", "capabilities", "_meta"},
    "session_info_update": {"title", "updatedAt", "_meta"},
    "usage_update": {"cost"},
    "compaction_update": {"summary", "error", "_meta"},
    "subagent_update": {
        *("title", "description", "capabilities", "state", "cwd", "additionalDirectories", "_meta"),
    },
    "session_message": {
        *("senderSessionId", "recipientSessionId", "senderMessageId", "recipientMessageId", "content", "_meta"),
    },
}
"""Update -> members where null is not the same as absent (C3: 34 fields, and `_meta` of the nine of MT-03)."""
EMPTY_BY_DEFAULT = {
    *("authMethods", "accounts", "configOptions", "availableCommands"),
    *("args", "env", "headers", "mcpServers", "additionalDirectories"),
}
"""Optional arrays that are never null; absent and empty are the same (C2)."""
OPAQUE = {"_meta", "rawInput", "rawOutput"}
"""Below these every JSON value is kept as it is."""


def differences(mine: Json, theirs: Json, opaque: bool = False) -> Iterator[str]:
    """Where two results differ otherwise than by the order of members and by how nothing is said."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        left, right = cast("dict[str, Json]", mine), cast("dict[str, Json]", theirs)
        for name in sorted({*left, *right}):
            if name not in left:
                if opaque or not says_nothing(right, name):
                    yield f"{name} is missing"
            elif name not in right:
                yield f"{name} is too much"
            else:
                inside = differences(left[name], right[name], opaque or name in OPAQUE)
                yield from (f"{name}.{it}" for it in inside)
    elif isinstance(mine, list) and isinstance(theirs, list):
        these, those = cast("Sequence[Json]", mine), cast("Sequence[Json]", theirs)
        if len(these) != len(those):
            yield f"has {len(these)} items and not {len(those)}"
        for index, (one, other) in enumerate(zip(these, those, strict=False)):
            yield from (f"{index}.{it}" for it in differences(one, other, opaque))
    elif mine is REFUSED or theirs is REFUSED:
        if mine is not theirs:
            yield "is accepted by one alone"
    elif json.dumps(mine) != json.dumps(theirs):
        yield "is another value"


def says_nothing(holder: dict[str, Json], name: str) -> bool:
    """Whether a member of the oracle's result means the same as leaving it out."""
    update = holder.get("sessionUpdate")
    if holder[name] == []:
        return name in EMPTY_BY_DEFAULT and update is None
    return holder[name] is None and name not in PATCHED.get(str(update), ())


def test_the_table_of_members_where_null_counts_is_that_of_the_schema() -> None:
    """C3: kept by hand there and here; the updates among its 34, and the nine `_meta`."""
    overrides = strategies.schema()["$defs"]
    tags = {
        branch["properties"]["sessionUpdate"]["const"]: strategies.target(branch["allOf"][0])
        for branch in overrides["SessionUpdate"]["anyOf"]
        if "const" in branch["properties"].get("sessionUpdate", {})
    }
    assert set(PATCHED) <= set(tags)
    for tag, members in PATCHED.items():
        assert members <= set(overrides[tags[tag]]["properties"])
    assert sum(len(members - {"_meta"}) for members in PATCHED.values()) == 34
    assert sum("_meta" in members for members in PATCHED.values()) == 9


# --- rules -----------------------------------------------------------------------------------------------------------


def at(value: Json, path: tuple[str | int, ...]) -> Json:
    """The member that a path leads to; raises `LookupError`."""
    for key in path:
        value = value[key]
    return value


def with_value(value: Json, path: tuple[str | int, ...], new: Json) -> Json:
    """A copy with the member at a path replaced."""
    if not path:
        return new
    copied = value.copy()
    copied[path[0]] = with_value(value[path[0]], path[1:], new)
    return copied


def format_is_no_reason_to_refuse(case: Case, mine: Json) -> bool:
    """H31: `uri` and `date-time` are annotations. The value is kept, as one that has the format is."""
    fitting = {"uri": "https://example.org/a", "url": "https://example.org/a", "updatedAt": "2026-01-01T00:00:00Z"}
    name = str(case.path[-1]) if case.path else ""
    if case.mutation not in ("string", "empty") or name not in fitting or mine is REFUSED:
        return False
    valid = ours(case.definition, with_value(case.given, case.path, fitting[name]))
    return json.dumps(with_value(valid, case.path, at(case.given, case.path))) == json.dumps(mine)


def chunks_have_participants(case: Case, mine: Json) -> bool:
    """X7: both IDs ride on `session_message_chunk` as well; the schema of the oracle lacks them."""
    participants = ("senderSessionId", "recipientSessionId")
    given = case.given.get("update")
    if not isinstance(given, dict) or mine is REFUSED or case.theirs is REFUSED:
        return False
    update = cast("dict[str, Json]", given)
    if update.get("sessionUpdate") != "session_message_chunk":
        return False
    carried = {name: update[name] for name in participants if isinstance(update.get(name, REFUSED), str | None)}
    return not list(differences(mine, {**case.theirs, "update": {**case.theirs["update"], **carried}}))


RULES: tuple[Callable[[Case, Json], bool], ...] = (format_is_no_reason_to_refuse, chunks_have_participants)


@pytest.fixture(scope="module")
def differing() -> list[tuple[Case, Json]]:
    """The cases on which the two disagree, with our value."""
    found: list[tuple[Case, Json]] = []
    for case in cases():
        mine = ours(case.definition, case.given)
        if any(differences(mine, case.theirs)):
            found.append((case, mine))
    return found


def test_the_verdicts_cover_what_they_should() -> None:
    """All there, for every kind of mutation and both answers; nothing here passes for lack of cases."""
    every = cases()
    assert len(every) == 2716
    assert {case.theirs is REFUSED for case in every} == {True, False}
    mutations = {"none", "remove", "null", "number", "string", "bool", "array", "object", "empty", "extra-sibling"}
    assert {case.mutation for case in every} == mutations
    assert all(hasattr(v2, case.definition) for case in every)


def test_every_difference_from_the_oracle_is_one_that_a_requirement_demands(
    differing: list[tuple[Case, Json]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Acceptance and value; at most eight rules, each with matches, and no case that two of them match."""
    counts = Counter({rule.__name__: 0 for rule in RULES})
    unexplained: list[str] = []
    for case, mine in differing:
        matching = [rule.__name__ for rule in RULES if rule(case, mine)]
        assert len(matching) < 2, f"line {case.number}: {matching}"
        counts.update(matching)
        if not matching:
            theirs = "refused" if case.theirs is REFUSED else list(differences(mine, case.theirs))
            path = "/".join(map(str, case.path))
            unexplained.append(f"line {case.number}: {case.definition} {path} {case.mutation}: {theirs}")
    with capsys.disabled():
        print(f"\noracle: {len(cases()) - len(differing)} of {len(cases())} agree, {dict(counts)}")
    assert unexplained == []
    assert len(RULES) <= 8
    assert all(counts.values()), "a rule without a case has no reason to be"


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": {}}, {"a": []}),
        ({"a": 1}, {}),
        ({}, {"a": []}),
        ({"a": [1]}, {"a": [1, 1]}),
        ({"_meta": {}}, {"_meta": {"a": None}}),
        ({"sessionUpdate": "agent_message"}, {"sessionUpdate": "agent_message", "content": None}),
        ({"sessionUpdate": "agent_message", "content": None}, {"sessionUpdate": "agent_message"}),
        (
            {"sessionUpdate": "available_commands_update"},
            {"sessionUpdate": "available_commands_update", "availableCommands": []},
        ),
        (REFUSED, {}),
        ({}, REFUSED),
    ],
)
def test_the_comparison_sees_what_matters(mine: Json, theirs: Json) -> None:
    """What is made equal before comparing is no more than it should be."""
    assert list(differences(mine, theirs))
