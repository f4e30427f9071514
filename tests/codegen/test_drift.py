"""What changed between two schemas: each class of change by examples, real pairs, and every edit of the pinned one.

Owns: `acpwire_codegen.drift` with `differences`, `shapes`, `wording` and `changes`. The examples are one file each in
`drift/`: a pair of small schemas after a change that the protocol's drafts have seen, and what must be told of it.
"""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import pytest

from acpwire_codegen import drift, load
from acpwire_codegen.changes import CLASSES, SEVERITIES, Report
from acpwire_codegen.dialect import Node, Schema, UnknownIdiomError, walk
from acpwire_codegen.drift import compare
from acpwire_codegen.normalise import normalise

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((Path(__file__).parent / "drift").glob("*.json"))
SCHEMAS = ROOT / "tests" / "corpus" / "schemas"
OVERRIDES = load.read_tables(ROOT / "schema").overrides


def _schema(defs: Node, root: Node | None = None) -> load.Source:
    return load.as_source("made up", json.dumps({**(root or {}), "$defs": defs}).encode(), "made up")


def _example(path: Path) -> tuple[Node, load.Source, load.Source]:
    example: Node = json.loads(path.read_text("utf-8"))
    sources = [_schema(example[side], example.get(f"{side} root")) for side in ("old", "new")]
    return example, sources[0], sources[1]


def _told(report: Report) -> list[tuple[str, str, str, str]]:
    return sorted((change.cls, change.name, change.receiver, change.sender) for change in report.changes)


# --- the examples -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_change_that_drafts_have_seen_is_told_as_what_it_is_and_nothing_else(path: Path) -> None:
    example, old, new = _example(path)
    wanted = sorted((one["class"], one["name"], one["receiver"], one["sender"]) for one in example["changes"])
    assert _told(compare(old, new, {})) == wanted


def test_there_is_an_example_for_every_change_that_is_known_and_for_every_class() -> None:
    examples = [json.loads(path.read_text("utf-8")) for path in EXAMPLES]
    assert [example["example"] for example in examples] == list(range(1, 72))
    told = {change["class"] for example in examples for change in example["changes"]}
    assert told == set(CLASSES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_something_of_both_parties_and_what_to_do(path: Path) -> None:
    _, old, new = _example(path)
    for change in compare(old, new, {}).changes:
        assert change.receiver in SEVERITIES
        assert change.sender in SEVERITIES
        assert change.kind == ("prose" if change.cls in ("TS", "ST", "DS") else "structure")
        assert change.advice.endswith(".")
        assert not {"{name}", "{old}", "{new}"} & {*change.advice.split()}
        assert change.definition
        assert change.path


# --- in how many messages, and behind which flags ---------------------------------------------------------------------

LENIENT = {"x-deserialize-default-on-error": True}


def _tell(name: str, **members: Any) -> Node:
    """A notification of the client."""
    return {
        f"{name}Notification": {"type": "object", "properties": members, "x-method": name.lower(), "x-side": "client"}
    }


def _sized(least: int, **ways: Node) -> load.Source:
    """A size with a bound, and messages that have one."""
    size = {"type": "object", "properties": {"rows": {"type": "integer", "minimum": least}}}
    return _schema(
        {"Size": size, **{place: node for name, way in ways.items() for place, node in _tell(name, size=way).items()}}
    )


REF = {"$ref": "#/$defs/Size"}


@pytest.mark.parametrize(
    ("ways", "felt", "messages"),
    [
        ({"One": REF}, "breaking", 1),
        ({"One": {**REF, **LENIENT}}, "behavioural", 1),
        ({"One": {**REF, **LENIENT}, "Two": {**REF, **LENIENT}}, "behavioural", 2),
        ({"One": {**REF, **LENIENT}, "Two": REF}, "breaking", 2),
        ({"One": {"type": "array", "items": REF, "x-deserialize-skip-invalid-items": True}}, "behavioural", 1),
        ({"One": {"type": "array", "items": REF, "x-deserialize-default-on-null": True}}, "breaking", 1),
    ],
)
def test_what_every_way_absorbs_breaks_nothing(ways: dict[str, Node], felt: str, messages: int) -> None:
    (change,) = compare(_sized(0, **ways), _sized(1, **ways), {}).changes
    assert (change.cls, change.name, change.receiver, change.sender) == ("B", "Size.rows", "none", felt)
    assert len(change.methods) == messages
    assert ("flags absorb it" in change.note) == (felt == "behavioural")


def test_flags_count_on_the_side_that_reads() -> None:
    """An old receiver has the old flags, a new one the new ones."""
    strict, lenient = {"type": ["string", "null"]}, {"type": ["integer", "null"], **LENIENT}
    told = compare(_schema(_tell("One", a=strict)), _schema(_tell("One", a=lenient)), {}).changes
    assert {(change.cls, change.receiver, change.sender) for change in told} == {
        ("T", "breaking", "behavioural"),
        ("L", "none", "none"),
    }


def test_a_path_is_the_shortest_way_from_a_message() -> None:
    """Whichever of two messages comes first, and for what is within what both have."""
    holder = {"type": "object", "properties": {"inner": REF}}
    sides = [
        _schema(
            {
                **_sized(least).document["$defs"],
                **_tell("Further", holder={"type": "array", "items": {"$ref": "#/$defs/Holder"}}),
                **_tell("Far", x={"$ref": "#/$defs/Holder"}),
                "Holder": holder,
            }
        )
        for least in (0, 1)
    ]
    (change,) = compare(sides[0], sides[1], {}).changes
    assert change.path == "agent -> client: far params.x.inner.rows (in 2 messages)"


def test_what_every_response_may_have_breaks_though_flags_absorb_it_in_a_member() -> None:
    sides: list[load.Source] = []
    for needs in (["code"], []):
        error = {"type": "object", "properties": {"code": {"type": "integer"}}, "required": needs}
        answer = {"properties": {"id": {}, "result": {}, "error": {"$ref": "#/$defs/Error"}}}
        defs = {"Error": error, "Answer": answer, **_tell("One", failed={"$ref": "#/$defs/Error", **LENIENT})}
        sides.append(_schema(defs, {"anyOf": [{"$ref": "#/$defs/Answer"}]}))
    (change,) = compare(sides[0], sides[1], {}).changes
    assert (change.cls, change.name, change.receiver, change.sender) == ("RQ-", "Error.code", "breaking", "none")
    assert change.methods == ("agent -> client: one params", "both ways: every message")


# --- rules that no draft has needed yet, or that more than one needs ----------------------------------------------

STRING: Node = {"type": "string"}


def _union(*tags: str, other: Node | None = None) -> Node:
    marks = [{"properties": {"kind": {**STRING, "const": tag}}, "required": ["kind"]} for tag in tags]
    if other is None:
        return {"anyOf": marks}
    fallback = {"title": "other", "additionalProperties": True, "not": {"anyOf": marks}, **other}
    return {"anyOf": [*marks, fallback]}


def _any_other(**members: Node) -> Node:
    return {"type": "object", "properties": {"kind": STRING, **members}, "required": ["kind", *members]}


def _either(key: str) -> Node:
    one, two = ({"properties": {name: STRING}, "required": [name]} for name in ("a", "b"))
    return {"type": "object", "properties": {}, key: [one, two]}


def _flat(needs: list[str]) -> Node:
    """A union whose tag may be missing, which is one object."""
    branch = {
        "properties": {"kind": {**STRING, "const": "x"}},
        "required": ["kind"],
        "allOf": [{"$ref": "#/$defs/Body"}],
    }
    none = {"title": "none", "type": "object", "properties": {"kind": {"type": "null"}}}
    union = {"type": "object", "properties": {"kind": {"type": ["string", "null"]}}, "anyOf": [branch, none]}
    return {"Thing": union, "Body": {"type": "object", "properties": {"a": STRING}, "required": needs}}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (_union("x", "y"), _union("x"), ("V-", "Thing(y)", "none", "breaking")),
        (_union("x"), _union("x", "y"), ("V+", "Thing(y)", "breaking", "none")),
        (_union("x", other=_any_other()), _union("x"), ("OP", "Thing", "none", "breaking")),
        (
            _union("x", other=_any_other()),
            _union("x", other=_any_other(a=STRING)),
            ("RQ+", "Thing", "none", "breaking"),
        ),
        (
            _union("x", other=_any_other(a=STRING)),
            _union("x", other=_any_other()),
            ("RQ-", "Thing", "breaking", "none"),
        ),
        (_either("anyOf"), _either("oneOf"), ("B", "Thing", "none", "breaking")),
        (_either("oneOf"), _either("anyOf"), ("B", "Thing", "breaking", "none")),
        (_flat([]), _flat(["a"]), ("RQ+", "Body.a", "none", "breaking")),
        (_flat(["a"]), _flat([]), ("RQ-", "Body.a", "breaking", "none")),
        (
            {"type": "integer", "format": "uint64", "minimum": 0},
            {"type": "integer", "format": "uint64", "minimum": 0, "maximum": 2**63 - 1},
            ("B", "Thing", "none", "breaking"),
        ),
        (
            {"type": "integer", "format": "int64", "minimum": 0},
            {"type": "integer", "format": "uint64", "minimum": 0},
            ("B", "Thing", "breaking", "none"),
        ),
        (
            {"type": "integer", "format": "int32"},
            {"type": "integer", "format": "int64", "minimum": -(2**31), "maximum": 2**31 - 1},
            None,
        ),
        (
            {"type": "integer", "minimum": 0},
            {"type": "integer", "format": "uint64", "minimum": 0},
            ("B", "Thing", "none", "breaking"),
        ),
        ({"type": "integer"}, {"type": "number"}, ("T", "Thing", "breaking", "none")),
        ({"type": "number"}, {"type": "integer"}, ("T", "Thing", "none", "breaking")),
        (STRING, {"type": "array", "items": STRING}, ("T", "Thing", "breaking", "breaking")),
        (STRING, {"anyOf": [STRING, {"type": "boolean"}]}, ("V+", "Thing", "breaking", "none")),
        ({"anyOf": [STRING, {"type": "boolean"}]}, STRING, ("V-", "Thing", "none", "breaking")),
        (
            {"type": "object", "additionalProperties": STRING},
            {"type": "object", "additionalProperties": {"type": "boolean"}},
            ("T", "Thing", "breaking", "breaking"),
        ),
        ({"enum": ["a"], "type": "string"}, STRING, ("OP", "Thing", "breaking", "none")),
        (STRING, {"enum": ["a"], "type": "string"}, ("OP", "Thing", "none", "breaking")),
        ({**STRING, "minLength": 2}, {**STRING, "minLength": 1}, ("B", "Thing", "breaking", "none")),
        ({**STRING, "minLength": 0}, STRING, None),
        ({"type": "array", "items": STRING}, {"type": "array", "items": STRING, "minItems": 0}, None),
    ],
)
def test_a_change_of_a_type_is_told_for_both_parties(
    old: Node, new: Node, told: tuple[str, str, str, str] | None
) -> None:
    sides = [
        {**_tell("One", thing={"$ref": "#/$defs/Thing"}), **(one if "Thing" in one else {"Thing": one})}
        for one in (old, new)
    ]
    assert _told(compare(_schema(sides[0]), _schema(sides[1]), {})) == ([told] if told else [])


def test_two_members_whose_types_have_other_names_are_two_things() -> None:
    shared: Node = {"SessionId": STRING, "PlanId": STRING}
    sides: list[Node] = []
    for name, kind in (("session", "SessionId"), ("outline", "PlanId")):
        tell = _tell("One", **{name: {"$ref": f"#/$defs/{kind}"}})
        tell["OneNotification"]["required"] = [name]
        sides.append({**tell, **shared})
    told = {change.cls for change in compare(_schema(sides[0]), _schema(sides[1]), {}).changes}
    assert told == {"F-", "F+r"}


def test_words_that_say_null_is_nothing_come_before_those_of_the_definition() -> None:
    def schema(words: str) -> load.Source:
        note = _tell("One", a={"type": ["string", "null"], "description": words})
        note["OneNotification"]["description"] = "What is left out is unchanged."
        return _schema(note)

    told = compare(schema("It."), schema("It. Null and omitted are equivalent."), {}).changes
    assert [(change.cls, change.old, change.new) for change in told] == [
        ("TS", "left out: kept", "left out: same as null")
    ]


# --- what else is known ----------------------------------------------------------------------------------------------


def test_a_member_that_our_tables_keep_is_nothing_to_do() -> None:
    old, new = (
        _schema(_tell("One", a={"type": "string"}, b={"type": "string"})),
        _schema(_tell("One", b={"type": "string"})),
    )
    edit = {"path": "/$defs/OneNotification/properties/a", "value": {"type": "string"}}
    (change,) = compare(old, new, {"edit": [edit]}).changes
    assert (change.cls, change.name) == ("F-", "OneNotification.a")
    assert change.advice == "Nothing must change: overrides.toml keeps it in the generated types."


def test_a_renamed_class_is_told_by_the_names_that_code_has() -> None:
    shape = {"type": "object", "properties": {"a": {"type": "string"}}}
    old = _schema({**_tell("One", x={"$ref": "#/$defs/Thing"}), "Thing": shape})
    new = _schema({**_tell("One", x={"$ref": "#/$defs/Matter"}), "Matter": shape})
    (change,) = compare(old, new, {}).changes
    assert (change.cls, change.old, change.new) == ("DR", "Thing", "Matter")
    places = {"OneNotification": "OneNotification"}
    (change,) = compare(old, new, {}, ({**places, "Thing": "OldThing"}, {**places, "Matter": "NewThing"})).changes
    assert (change.cls, change.old, change.new) == ("DR", "OldThing", "NewThing")
    assert compare(old, new, {}, ({**places, "Thing": "Same"}, {**places, "Matter": "Same"})).changes == ()


def test_weak_words_make_a_patch_only_of_a_member_that_is_listed_as_one() -> None:
    def schema(words: str) -> load.Source:
        note: Node = _tell("One", a={"type": ["string", "null"]})
        note["OneNotification"]["description"] = words
        return _schema(note)

    sides = schema("About it."), schema("About it, by patch.")
    listed: Node = {"three_state": {"OneNotification.a": {}}}
    assert [change.cls for change in compare(*sides, {}).changes] == ["DS"]
    assert [change.cls for change in compare(*sides, listed).changes] == ["TS", "DS"]


# --- what is no change ------------------------------------------------------------------------------------------------


def _structures() -> list[Path]:
    return [ROOT / "schema" / load.STRUCTURE, *sorted(SCHEMAS.glob("*.json"))]


def _shuffled(value: Any, seed: random.Random) -> Any:
    """The same JSON with the members of every object in another order."""
    if isinstance(value, dict):
        members = [(key, _shuffled(child, seed)) for key, child in cast("Node", value).items()]
        seed.shuffle(members)
        return dict(members)
    if isinstance(value, list):
        return [_shuffled(child, seed) for child in cast("Iterable[Any]", value)]
    return value


@pytest.mark.parametrize("path", _structures(), ids=lambda path: path.stem)
def test_nothing_is_told_of_a_schema_written_in_another_order_and_layout(path: Path) -> None:
    document = json.loads(path.read_text("utf-8"))
    other = _shuffled(document, random.Random(1))  # noqa: S311  # any order will do
    assert list(other["$defs"]) != list(document["$defs"])
    sources = [
        load.as_source("a", json.dumps(one, indent=i).encode(), "a") for i, one in ((3, document), (None, other))
    ]
    assert compare(sources[0], sources[1], OVERRIDES).changes == ()


def test_nothing_is_told_of_the_pinned_schema_against_itself_with_all_its_words() -> None:
    pinned = load.read_pinned(ROOT / "schema")
    assert pinned.prose
    assert compare(pinned, pinned, OVERRIDES).changes == ()


# --- real neighbours --------------------------------------------------------------------------------------------------

NEIGHBOURS = {
    ("1.6.1", "1.8.0"): {
        "L": [
            *("AuthMethodTerminal.args", "AuthMethodTerminal.env", "DidChangeDocumentNotification.contentChanges"),
            *("ForkSessionRequest.additionalDirectories", "ForkSessionRequest.mcpServers"),
            *("NewSessionRequest.additionalDirectories", "NewSessionRequest.mcpServers"),
            *("ResumeSessionRequest.additionalDirectories", "ResumeSessionRequest.mcpServers"),
            "ResumeSessionRequest.replayFrom",
        ],
        "V+": ["IdleStateUpdate.stopReason"],
        "F+o": ["ErrorStopReason.error"],
        "DR": ["StopReason"],
    },
    ("2.1.0", "2.2.0"): {
        "M": ["AgentBatchCall", "AgentBatchResponse", "ClientBatchCall", "ClientBatchResponse"],
        "RQ+": ["ElicitationSchema.properties", "ElicitationSchema.type"],
        "D": ["ElicitationSchema.properties", "ElicitationSchema.type"],
        "T": ["Error.data"],
        "L": ["SessionInfo.additionalDirectories"],
        "B": [
            *("Annotations.lastModified", "Cost.currency", "PromptRequest.prompt"),
            *("SessionConfigSelectGroup.options", "SessionConfigSelectOptions"),
        ],
        "V+": ["ElicitationContentValue"],
        "F+o": ["SubagentUpdate.additionalDirectories", "SubagentUpdate.cwd"],
    },
    ("2.2.0", "pinned"): {
        "M": [
            *("proxy/initialize", "proxy/successor", "proxy/successor", "session/archive", "session/set_title"),
            *("session/status", "session/unarchive", "terminal/cancel", "tool_call/cancel"),
            *("auth/status", "auth/status_update"),
        ],
        "E+": ["ToolCallStatus"],
        "F+o": [
            *("AgentAuthCapabilities.status", "ListSessionsRequest.archived", "RunningStateUpdate.background"),
            *("SessionCapabilities.archive", "SessionCapabilities.status", "SessionCapabilities.title"),
            *("SessionInfo.archived", "TerminalUpdate.capabilities", "ToolCallUpdate.capabilities"),
        ],
    },
}


def _version(name: str) -> load.Source:
    if name == "pinned":
        return load.read_pinned(ROOT / "schema")
    return load.read_schema(SCHEMAS / f"{name}-v2.unstable.json", name)


@pytest.mark.parametrize("pair", NEIGHBOURS, ids="-".join)
def test_of_neighbouring_versions_exactly_what_changed_is_told(pair: tuple[str, str]) -> None:
    """Each list was checked against both files by hand."""
    report = compare(_version(pair[0]), _version(pair[1]), OVERRIDES)
    told: dict[str, list[str]] = {}
    for change in report.structure:
        told.setdefault(change.cls, []).append(change.name)
    assert {cls: sorted(names) for cls, names in told.items()} == {
        cls: sorted(names) for cls, names in NEIGHBOURS[pair].items()
    }


def test_any_pair_takes_seconds() -> None:
    old, new = _version("1.6.1"), _version("pinned")
    begun = time.perf_counter()
    compare(old, new, OVERRIDES)
    assert time.perf_counter() - begun < 10


# --- every edit of the pinned schema ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Edit:
    """One edit of one definition, and what must be told of it and of its undoing: a class each, and one name."""

    cls: str
    undone: str
    name: str
    place: str
    make: Callable[[Node], object]
    """Changes the definition."""
    touches: frozenset[str]
    """What no other edit may touch that is made together with it."""


@cache
def _pinned() -> load.Source:
    return load.Source(load.read_pinned(ROOT / "schema").document, {}, "a", "a", pinned=False)


@cache
def _normal() -> Schema:
    return normalise(_pinned().document)


def _is_merged(place: str) -> bool:
    """Whether the members of a definition stand in others, together with those of its siblings."""
    return _normal().dropped.get(place, "").startswith("merged")


def _definitions() -> dict[str, Node]:
    """Those that are compared."""
    defs: dict[str, Node] = _pinned().document["$defs"]
    return {place: node for place, node in defs.items() if place in _normal().defs or _is_merged(place)}


def _edited(edits: Iterable[_Edit]) -> load.Source:
    """The pinned schema with some edits."""
    defs: dict[str, Node] = {**_pinned().document["$defs"]}
    for edit in edits:
        defs[edit.place] = copy.deepcopy(defs[edit.place])
        edit.make(defs[edit.place])
    return load.Source({**_pinned().document, "$defs": defs}, {}, "b", "b", pinned=False)


def _is_readable(edit: _Edit) -> bool:
    """Whether the generator knows what an edited schema says: alternatives must be told apart, siblings must agree."""
    if not _is_merged(edit.place):
        return True
    try:
        normalise(_edited([edit]).document)
    except UnknownIdiomError:
        return False
    return True


def _wrongly_told(edits: Sequence[_Edit]) -> list[str]:
    """What is told of edits made together and undone together, where it is not each of them and nothing else."""
    edited = _edited(edits)
    wrong: list[str] = []
    for undone, sides in ((False, (_pinned(), edited)), (True, (edited, _pinned()))):
        told = sorted((change.cls, change.name) for change in compare(*sides, {}).changes)
        wanted = sorted((edit.undone if undone else edit.cls, edit.name) for edit in edits)
        if told != wanted:
            wrong.append(f"{wanted}{' (undone)' if undone else ''}: {told}")
    return wrong


def _all_wrongly_told(edits: Iterable[_Edit], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The edits that are told wrongly.

    Those that have nothing in common are made together, or it would take an hour; where that goes wrong, one by one.
    """
    document, normal = _pinned().document, _normal()

    def normalised(one: Any) -> Any:
        return normal if one is document else normalise(one)

    monkeypatch.setattr(drift, "normalise", normalised)
    batches: list[list[_Edit]] = []
    touched: list[set[str]] = []
    for edit in filter(_is_readable, edits):
        free = next((index for index, touches in enumerate(touched) if not touches & edit.touches), len(batches))
        if free == len(batches):
            batches.append([])
            touched.append(set())
        batches[free].append(edit)
        touched[free] |= edit.touches
    assert batches
    wrong: list[str] = []
    for batch in batches:
        found = _wrongly_told(batch)
        if found:
            wrong += [one for edit in batch for one in _wrongly_told([edit])] or found
    return wrong


def _within(node: Node) -> frozenset[str]:
    """All definitions that are in what a schema refers to."""
    targets = [str(child["$ref"]).removeprefix("#/$defs/") for _, child in walk(node) if "$ref" in child]
    seen: set[str] = set()
    while targets:
        place = targets.pop()
        if place not in seen:
            seen.add(place)
            inner = walk(_pinned().document["$defs"][place])
            targets += [child["$ref"].removeprefix("#/$defs/") for _, child in inner if "$ref" in child]
    return frozenset(seen)


def _ways() -> dict[str, Callable[[Node, str], str | None]]:
    """Class -> an edit of one member, which says whose name it is told by, or nothing where it cannot be made."""

    def add(required: bool) -> Callable[[Node, str], str | None]:
        def edit(owner: Node, wire: str) -> str | None:
            name = f"{wire}Zzyzx"
            owner["properties"][name] = {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}}
            if required:
                owner["required"] = [*owner.get("required", []), name]
            return name

        return edit

    def remove(owner: Node, wire: str) -> str | None:
        del owner["properties"][wire]
        owner["required"] = [name for name in owner.get("required", []) if name != wire]
        return wire

    def require(owner: Node, wire: str) -> str | None:
        child = owner["properties"][wire]
        flagged = any(key.startswith("x-") for key in child)
        if wire in owner.get("required", []) or flagged or "default" in child:
            return None
        owner["required"] = [*owner.get("required", []), wire]
        return wire

    def free(owner: Node, wire: str) -> str | None:
        if wire not in owner.get("required", []):
            return None
        owner["required"] = [name for name in owner["required"] if name != wire]
        return wire

    def strict(owner: Node, wire: str) -> str | None:
        child = owner["properties"][wire]
        return wire if child.pop("x-deserialize-default-on-error", None) else None

    def retype(owner: Node, wire: str) -> str | None:
        child = owner["properties"][wire]
        if child.get("type") != "string" or set(child) != {"type"}:
            return None
        child["type"] = "boolean"
        return wire

    def nullable(owner: Node, wire: str) -> str | None:
        child = owner["properties"][wire]
        if not isinstance(child.get("type"), str) or {"const", "enum"} & set(child):
            return None
        child["type"] = [child["type"], "null"]
        return wire

    def bound(owner: Node, wire: str) -> str | None:
        child = owner["properties"][wire]
        if "array" not in (child.get("type"), *child.get("type", ())) or "minItems" in child:
            return None
        child["minItems"] = 2
        return wire

    return {
        "F+o": add(required=False),
        "F+r": add(required=True),
        "F-": remove,
        "RQ+": require,
        "RQ-": free,
        "L": strict,
        "T": retype,
        "N": nullable,
        "B": bound,
    }


def _at(way: Callable[[Node, str], object], wire: str, owner: Node) -> None:
    way(owner, wire)


def _edits_of_members(cls: str) -> Iterator[_Edit]:
    way = _ways()[cls]
    opposites = {"F+o": "F-", "F+r": "F-", "RQ+": "RQ-", "RQ-": "RQ+"}
    for place, node in _definitions().items():
        for wire, child in node.get("properties", {}).items():
            name = way(copy.deepcopy(node), wire)
            if name is None:
                continue
            undone = opposites.get(cls, cls)
            touches = {f"{place}.{wire}"}
            if cls == "F-":
                undone = "F+r" if wire in node.get("required", []) else "F+o"
                touches = {place} | _within(child)
            if _is_merged(place):
                touches |= {"what is merged"}
            yield _Edit(cls, undone, f"{place}.{name}", place, partial(_at, way, wire), frozenset(touches))


@pytest.mark.parametrize("cls", _ways())
def test_every_edit_of_a_member_is_told_as_what_it_is_and_nothing_else(
    cls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _all_wrongly_told(_edits_of_members(cls), monkeypatch) == []


def _branches(node: Node) -> list[Node]:
    return cast("list[Node]", node.get("anyOf") or node.get("oneOf") or [])


def _constant(branch: Node) -> tuple[str, Any] | None:
    """(tag, value) that a branch of a union stands for; of a constant in a set there is no tag."""
    if "const" in branch:
        return "", branch["const"]
    marks = [(name, child["const"]) for name, child in branch.get("properties", {}).items() if "const" in child]
    return marks[0] if len(marks) == 1 else None


def _add(node: Node, first: Node) -> None:
    _branches(node).insert(0, first)
    for branch in _branches(node):
        if "not" in branch:
            branch["not"]["anyOf"].append(first)


def _remove(node: Node, constant: tuple[str, Any]) -> None:
    for branches in (_branches(node), *(_branches(branch["not"]) for branch in _branches(node) if "not" in branch)):
        branches[:] = [branch for branch in branches if _constant(branch) != constant]


def _edits_of_choices(cls: str) -> Iterator[_Edit]:
    sign = cls[0]
    for place, node in _definitions().items():
        known = {found: branch for branch in _branches(node) if (found := _constant(branch))}
        tag, value = next(iter(known), ("", None))
        if len(known) < 2 or bool(tag) != (sign == "V"):
            continue
        is_union = "variants" in _normal().defs.get(place, {})
        name = f"{place}({{}})" if is_union else f"{place}.{tag}" if tag else place
        touches = frozenset[str]({place, "what is merged"} if tag and not is_union else {place})
        if cls[1] == "+":
            new = -7 if isinstance(value, int) else "zzyzx"
            mark: Node = {"type": "object", "properties": {tag: {"type": "string", "const": new}}, "required": [tag]}
            first = mark if tag else {**known[tag, value], "const": new}
            yield _Edit(cls, f"{sign}-", name.format(new), place, partial(_add, first=first), touches)
            continue
        for found, branch in known.items():
            remove = partial(_remove, constant=found)
            yield _Edit(cls, f"{sign}+", name.format(found[1]), place, remove, touches | _within(branch))


@pytest.mark.parametrize("cls", ["E+", "E-", "V+", "V-"])
def test_every_edit_of_a_set_or_a_union_is_told_as_what_it_is_and_nothing_else(
    cls: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _all_wrongly_told(_edits_of_choices(cls), monkeypatch) == []
