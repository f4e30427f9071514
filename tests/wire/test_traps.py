"""What a generator can get wrong: requirements C5, H1 to H40, each tried from several sides.

Expectations come from the requirement and from the pinned schema read as plain JSON, never from the decoder. An update
is looked at twice, alone and inside a line, and both looks must agree. The last test counts the traps.
"""

from __future__ import annotations

import builtins
import copy
import importlib
import json
import re
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import acpwire
from acpwire import v2, wire
from acpwire_codegen import decide, load
from acpwire_codegen.dialect import UnknownIdiomError
from tests.codegen.support import EMPTY, importable, make_package, source_of

ROOT = Path(__file__).parents[2]
STABLE = ROOT / "tests" / "corpus" / "schemas" / "2.4.0-v2.stable.json"
Node = dict[str, Any]
DEFS: Node = json.loads((ROOT / "schema" / "v2.draft.json").read_text("utf-8"))["$defs"]


def each(*values: Any) -> tuple[Any, ...]:
    """Values of which nothing is known."""
    return values


NO_OBJECT = each(None, 7, 7.5, True, "x", [], [[]])
NO_ARRAY = each(7, 7.5, True, "x", {})
NO_STRING = each(None, 7, 1.0, True, [], {}, ["text"])


# --- looking ----------------------------------------------------------------------------------------------------------


def raw_of(value: Any) -> bytes:
    """JSON as it is, or a value as JSON."""
    return value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()


def read(name: str, value: Any) -> Any:
    """Decode one value as the type of that name."""
    return v2.decode(getattr(v2, name), raw_of(value))


def refuse(name: str, value: Any, path: str | None = None) -> None:
    """A value must not decode, and must say where."""
    with pytest.raises(v2.DecodeError) as caught:
        read(name, value)
    assert path in (None, caught.value.path)


def sent(value: Any) -> Any:
    """What a value is on the wire, as plain JSON."""
    return json.loads(v2.encode(value))


def line_of(update: Any) -> bytes:
    return b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":' + raw_of(update) + b"}}"


def look(update: Any) -> Any:
    """An update, decoded alone and in a line; None where it is refused, by both and at the same place."""
    message = v2.decode_from_agent(line_of(update))
    if isinstance(message, v2.Malformed):
        assert (message.code, message.method) == (None, "session/update")
        refuse("SessionUpdate", update, "$" + message.path.removeprefix("$.params.update"))
        return None
    assert isinstance(message, v2.Notification)
    value = read("SessionUpdate", update)
    assert message.params == v2.UpdateSessionNotification(session_id="s", update=value)
    return value


def attribute(member: str) -> str:
    """The attribute of a JSON name."""
    return "meta" if member == "_meta" else re.sub(r"(?=[A-Z])", "_", member).lower()


# --- documents from the schema ----------------------------------------------------------------------------------------


def tags_of(node: Node) -> dict[str, tuple[str, Node]]:
    """The branches of a tagged union: value -> tag and branch."""
    return {
        child["const"]: (tag, branch)
        for branch in node.get("anyOf", [])
        for tag, child in branch.get("properties", {}).items()
        if "const" in child
    }


UNIONS = {
    name: (next(iter(tags_of(node).values()))[0], {value: branch for value, (_, branch) in tags_of(node).items()})
    for name, node in DEFS.items()
    if tags_of(node) and name not in ("StateUpdate", "IdleStateUpdate")  # those are flat: H1, H2
}
"""Every open tagged union that has classes of its own: its tag, and its branches by value."""
BRANCHES = [(name, value) for name, (_, values) in UNIONS.items() for value in values]
PAYLOADS = [
    (part["$ref"].rpartition("/")[2], (name, branch))
    for name, (_, values) in UNIONS.items()
    for branch in values.values()
    for part in branch.get("allOf", [])
]
BRANCH_OF = {name: place for name, place in PAYLOADS if [other for other, _ in PAYLOADS].count(name) == 1}
"""Definition -> the union and branch whose payload it is, where it is one branch's alone."""
ANY_JSON = {("ToolCallUpdate", "rawInput"), ("ToolCallUpdate", "rawOutput"), ("Error", "data")}


def minimal(node: Node) -> Any:
    """A value with what its schema requires and nothing else; arrays have one item."""
    if "const" in node:
        return node["const"]
    if "$ref" in node:
        return minimal(DEFS[node["$ref"].rpartition("/")[2]])
    branches = [branch for key in ("anyOf", "oneOf") for branch in node.get(key, []) if branch.get("type") != "null"]
    parts = [minimal(part) for part in [*node.get("allOf", []), *branches[:1]]]
    kinds = node.get("type", "object" if "properties" in node else [])
    if "object" in kinds:
        own = {
            key: minimal(child) for key, child in node.get("properties", {}).items() if key in node.get("required", [])
        }
        return {key: value for part in [own, *parts] for key, value in part.items()}
    if "array" in kinds:
        return [minimal(node["items"])]
    by_kind = {"string": "x", "integer": 1, "number": 0.5, "boolean": False}
    return parts[0] if parts else next((value for kind, value in by_kind.items() if kind in kinds), "any")


def document(name: str) -> Node:
    """A minimal value of a definition, with its tag and what its union requires of all branches."""
    return variant(*BRANCH_OF[name]) if name in BRANCH_OF else cast("Node", minimal(DEFS[name]))


def variant(union: str, branch: Node) -> Node:
    """A minimal value of one branch of a union."""
    shared = {key: DEFS[union][key] for key in ("properties", "required") if key in DEFS[union]}
    return cast("Node", minimal({"type": "object", **shared}) | minimal(branch))


def unknown(union: str, tag: Any, **members: Any) -> Node:
    """A value of a kind that nobody knows, with what it must still have (H4)."""
    return members | EXTRAS.get(union, {}) | {UNIONS[union][0]: tag}


EXTRAS: dict[str, Node] = {
    "AuthMethod": {"methodId": "m", "name": "n"},
    "AvailableCommand": {"name": "n", "description": "d"},
    "PlanUpdateContent": {"planId": "p"},
    "SetSessionConfigOptionRequest": {"value": {"any": 1}, "sessionId": "s", "configId": "c"},
    "SessionConfigOption": {"configId": "c", "name": "n"},
    "CreateElicitationRequest": {"message": "m", "sessionId": "s"},
}
CLASSES = {n: c for n in v2.__all__ if isinstance(c := getattr(v2, n), type) and c.__module__.endswith(".types")}
MEMBERS = [(name, key) for name, node in DEFS.items() if name in CLASSES for key in node.get("properties", {})]


def state(**members: Any) -> Node:
    return {"sessionUpdate": "state_update", **members}


def tool_call(**members: Any) -> Node:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "t", **members}


def terminal(**members: Any) -> Node:
    return {"sessionUpdate": "terminal_update", "terminalId": "t", **members}


def child(snapshot: Any) -> Any:
    """The state of a child session."""
    return look({"sessionUpdate": "subagent_update", "sessionId": "c", "title": "T", "state": snapshot}).state


def agent_chunk(block: Any) -> Any:
    """A block as it comes in a chunk of a message."""
    raw = b'{"sessionUpdate":"agent_message_chunk","messageId":"m","content":' + raw_of(block) + b"}"
    value = look(raw)
    return value if value is None else value.content


TEXT = {"type": "text", "text": "t"}
OPTION = {"value": "v", "name": "n"}
GROUP = {"groupId": "g", "name": "n", "options": [OPTION]}
STATES: tuple[Any, ...] = ("running", "idle", "requires_action", "unknown")
REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error", "_vendor", None)


# --- nested tags ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("reason", REASONS)
def test_three_tags_of_one_object_give_one_flat_value(name: str, reason: str | None) -> None:
    """H1, X4: `sessionUpdate`, `state` and `stopReason` all stand in one object, which comes back as it was."""
    update = state(state=name, background=[], _meta={"a": 1}) | ({"stopReason": reason} if reason else {})
    value = look(update)
    assert type(value) is v2.StateUpdate
    assert (value.state, value.stop_reason, value.tag) == (name, reason, "state_update")
    assert sent(value) == update


@settings(max_examples=30)
@given(st.permutations([*state(state="idle", stopReason="error", x={"a": []}).items()]))
def test_tags_may_stand_anywhere_in_the_object(members: list[tuple[str, Any]]) -> None:
    """H1: nothing is said about the order of members, so the tag that decides may come last."""
    assert look(dict(members)) == v2.StateUpdate(state="idle", stop_reason="error")


@pytest.mark.parametrize("name", ["_vendor", "napping", "Idle", "idle ", "", "none", "other", "state_update"])
def test_an_unknown_state_is_kept_whole_and_is_never_a_known_one(name: str) -> None:
    """H1, X4, ST-14: the update becomes an unknown variant; where a snapshot stands alone, the snapshot does."""
    raw = raw_of(state(state=name, stopReason="end_turn", later=[1.0]))
    assert look(raw) == v2.UnknownVariant("state_update", raw)
    snapshot = {"later": 1, "state": name}
    answer = read("SessionStatusResponse", {"status": "open", "state": snapshot}).state
    for value in (child(snapshot), answer, read("AnyStateSnapshot", snapshot)):
        assert isinstance(value, v2.UnknownVariant)
        assert value.raw == raw_of(snapshot)


@pytest.mark.parametrize("name", NO_STRING)
def test_a_state_that_is_no_string_is_an_error_and_absorbed_where_the_snapshot_is_flagged(name: Any) -> None:
    """H1, H3: as a tag it must be a string; `state` of a child and of a status answer absorbs the fault."""
    assert look(state(state=name)) is None
    refuse("StateUpdate", state(state=name), "$.state")
    refuse("AnyStateSnapshot", {"state": name}, "$.state")
    assert child({"state": name}) is v2.UNSET
    assert read("SessionStatusResponse", {"status": "open", "state": {"state": name}}).state is None


def test_a_state_update_without_state_is_an_error() -> None:
    """H1: the inner tag is required."""
    assert look(state()) is None
    assert look(state(stopReason="end_turn")) is None
    refuse("AnyStateSnapshot", {"stopReason": "end_turn"})


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("reason", NO_STRING)
def test_a_stop_reason_that_is_no_string_is_not_reported(name: Any, reason: Any) -> None:
    """H2, SR-10: the tag is put right before a branch is chosen, and nothing else is lost."""
    members = {"state": name, "stopReason": reason, "background": [document("BackgroundTerminal")]}
    background = [v2.BackgroundTerminal(terminal_id="x")]
    assert look(state(**members)) == v2.StateUpdate(state=name, background=background)
    assert child(members) == v2.StateSnapshot(state=name, background=background)


@pytest.mark.parametrize("reason", ["", "_vendor", "none", "other", "End_Turn", "overloaded"])
def test_an_unknown_stop_reason_is_kept(reason: str) -> None:
    """H2, SR-09: any other string is a reason too."""
    value = look(state(state="idle", stopReason=reason))
    assert value == v2.StateUpdate(state="idle", stop_reason=reason)
    assert sent(value)["stopReason"] == reason


@pytest.mark.parametrize(
    "error", [*NO_OBJECT, {}, {"code": "x", "message": "m"}, {"code": 1}, {"code": 2**31, "message": "m"}]
)
def test_a_bad_error_does_not_take_the_stop_reason_away(error: Any) -> None:
    """H2: `error` of the reason `error` is flagged, so the work has failed, without details."""
    members = {"state": "idle", "stopReason": "error", "error": error}
    assert look(state(**members)) == v2.StateUpdate(state="idle", stop_reason="error")
    assert child(members) == v2.StateSnapshot(state="idle", stop_reason="error")


def test_of_two_equal_members_the_last_counts_at_every_level() -> None:
    """H1, H2: also where the first would have been decoded by the strict look, or is the tag."""
    head = b'{"sessionUpdate":"state_update","state":"idle",'
    assert look(head + b'"stopReason":"refusal","stopReason":7}') == v2.StateUpdate(state="idle")
    assert look(head + b'"stopReason":7,"stopReason":"x"}') == v2.StateUpdate(state="idle", stop_reason="x")
    assert look(head + b'"state":"running"}') == v2.StateUpdate(state="running")
    assert look(head + b'"state":"_vendor"}').tag == "state_update"
    assert look(head + b'"sessionUpdate":"_vendor"}').tag == "_vendor"
    assert look(head.replace(b"{", b'{"sessionUpdate":"_vendor",') + b'"x":1}') == v2.StateUpdate(state="idle")


# --- open unions ------------------------------------------------------------------------------------------------------


def test_the_unions_tried_here_are_all_there_are() -> None:
    """H3: 21 open unions, of which two are flat."""
    assert len(UNIONS) == 19
    assert set(UNIONS) <= set(v2.__all__)
    assert set(EXTRAS) <= set(UNIONS)


@pytest.mark.parametrize(("name", "value"), BRANCHES)
def test_a_known_tag_with_a_bad_payload_is_an_error_and_no_unknown_variant(name: str, value: str) -> None:
    """H3, SU-13: never "try each, then fall back"."""
    tag, values = UNIONS[name]
    whole = variant(name, values[value])
    assert type(read(name, whole)) is not v2.UnknownVariant
    for member in whole.keys() - {tag}:
        refuse(name, {key: child for key, child in whole.items() if key != member}, "$")
        refuse(name, whole | {member: None})
        refuse(name, EXTRAS.get(name, {}) | whole | {member: 7.5})


@pytest.mark.parametrize("name", UNIONS)
@pytest.mark.parametrize("bad", NO_STRING)
def test_a_tag_that_is_no_string_is_an_error(name: str, bad: Any) -> None:
    """H3, H20: it is there, so the alternative without a tag is not meant either."""
    refuse(name, unknown(name, bad, anyOf=[{"const": "c", "title": "t"}]), f"$.{UNIONS[name][0]}")


@pytest.mark.parametrize("name", sorted(set(UNIONS) - {"MultiSelectItems"}))
def test_a_missing_tag_is_an_error_even_where_one_variant_is_known(name: str) -> None:
    """H3: `Command`, `TextCommandInput` and `ReplayFromStart` are alone in their unions; that makes no guess right."""
    refuse(name, EXTRAS.get(name, {}) | {"hint": "h"}, "$")
    refuse(name, {}, "$")


@pytest.mark.parametrize("name", UNIONS)
@pytest.mark.parametrize("change", [str.upper, "{} ".format, "_{}".format, "".format, "\0".format])
def test_any_other_string_is_an_unknown_variant(name: str, change: Any) -> None:
    """H3, H4, CT-01: tags are compared as they are; what comes is kept byte for byte."""
    for value in UNIONS[name][1]:
        raw = raw_of(unknown(name, change(value), z=[1.0], a=None))
        assert read(name, raw) == v2.UnknownVariant(change(value), raw)
        assert v2.encode(read(name, raw)) == raw


@pytest.mark.parametrize("name", UNIONS)
@pytest.mark.parametrize("value", [*NO_OBJECT, [{}]])
def test_a_union_is_an_object(name: str, value: Any) -> None:
    """H3."""
    refuse(name, value, "$")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DiffDelete", {"operation": "add", "path": "/a"}),
        ("DiffMove", {"operation": "copy", "path": "/a", "oldPath": "/b"}),
        ("UserMessageChunk", {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": TEXT}),
        ("TextContent", {"type": "image", "text": "t"}),
        ("TextContent", {"type": 7, "text": "t"}),
        ("TextContent", {"type": "image", "text": "t", "annotations": 7}),
        ("ElicitationDeclineAction", {"action": "accept"}),
        ("ToolCallUpdate", {"sessionUpdate": "terminal_update", "toolCallId": "t"}),
        ("StateUpdate", {"sessionUpdate": "notice", "state": "idle"}),
    ],
)
def test_a_variant_refuses_the_tag_of_another(name: str, value: Any) -> None:
    """H3, H23: a deletion is not to be made of an addition, by whichever look."""
    refuse(name, value)


def test_unknown_variants_are_kept_wherever_they_stand() -> None:
    """H3, H4, EX-03, CM-04: in arrays, maps and members, below known values, beside bad ones."""
    raw = b'{ "type" : "_video","z":1e0, "a":"\\u0041" }'
    block = v2.UnknownVariant("_video", raw)
    update = raw_of(tool_call(content=["HERE", 7, {"type": "_x"}]))
    update = update.replace(b'"HERE"', b'{"type":"content","content":' + raw + b"}")
    assert look(update).content == [v2.Content(content=cast("Any", block)), v2.UnknownVariant("_x", b'{"type":"_x"}')]
    assert agent_chunk(raw) == block
    form = b'{"type":"object","properties":{"a":' + raw + b',"b":{"type":"boolean"}}}'
    assert read("ElicitationSchema", form).properties["a"] == block
    line = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[' + raw + b"]}}"
    prompt = v2.decode_from_client(line)
    assert isinstance(prompt, v2.Request)
    assert isinstance(prompt.params, v2.PromptRequest)
    assert prompt.params.prompt == [block]
    assert wire.encode(prompt) == line + b"\n"


SPACE = st.text(" \t\n\r", max_size=2)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def odd_updates(draw: st.DrawFn) -> bytes:
    """An update of an unknown kind with any members in any order, oddly spaced."""
    members = {**draw(st.dictionaries(st.text(max_size=4), VALUES, max_size=4)), "sessionUpdate": "_vendor"}
    words = [(json.dumps(key), ":", json.dumps(value)) for key, value in draw(st.permutations([*members.items()]))]
    return ("{" + ",".join(draw(SPACE) + draw(SPACE).join(member) + draw(SPACE) for member in words) + "}").encode()


@settings(max_examples=60)
@given(odd_updates())
@example(b'{"sessionUpdate":"_vendor","n":[1,1.0,1e0,-0,12345678901234567890123,0.1e-7]}')
@example(b'{"sessionUpdate":"_vendor","a":1,"a":2,"\\u0061":3}')
@example('{"sessionUpdate":"_vendor","t":"\u00e9\U0001f600 \\u00e9\\ud83d\\ude00 \\/"}'.encode())
@example(b'{"\\u0073essionUpdate":"\\u005fvendor"}')
def test_an_unknown_variant_is_kept_byte_for_byte(raw: bytes) -> None:
    """H4: keys, their order, spelling and spaces; only line breaks must not stay in a line (TR-01)."""
    one_line = raw.replace(b"\n", b" ").replace(b"\r", b" ")
    value = read("SessionUpdate", raw)
    assert value == v2.UnknownVariant("_vendor", raw)
    assert value.data == json.loads(raw)
    assert v2.encode(value) == one_line
    message = v2.decode_from_agent(line_of(one_line))
    assert isinstance(message, v2.Notification)
    assert isinstance(message.params, v2.UpdateSessionNotification)
    assert message.params.update == v2.UnknownVariant("_vendor", one_line)
    assert wire.encode(message) == line_of(one_line) + b"\n"


@pytest.mark.parametrize("half", [b"\\ud83d", b"\\uDE00", b"a\\ud83d b\\ud83d"])
def test_half_a_character_in_an_unknown_variant_is_kept(half: bytes) -> None:
    """H4: such an escape is legal JSON, and its bytes are to come back like any others, from a result as well."""
    raw = b'{"sessionUpdate":"_vendor","t":"' + half + b'"}'
    assert look(raw) == v2.UnknownVariant("_vendor", raw)
    option = b'{"type":"_vendor","configId":"c","name":"' + half + b'"}'
    answer = v2.SESSION_SET_CONFIG_OPTION.decode_result(b'{"configOptions":[' + option + b"]}")
    assert answer.config_options == [v2.UnknownVariant("_vendor", option)]


@pytest.mark.parametrize(("name", "member"), [(name, member) for name in EXTRAS for member in EXTRAS[name]])
def test_an_unknown_variant_must_still_have_what_every_kind_has(name: str, member: str) -> None:
    """H4, PN-02, AU-07, CM-03: a plan of an unknown type without its ID could not replace anything."""
    whole = unknown(name, "_vendor")
    assert isinstance(read(name, whole), v2.UnknownVariant)
    refuse(name, {key: value for key, value in whole.items() if key != member}, "$")
    for value in (None, 7.5):
        if member == "value":  # may be any JSON
            assert read(name, whole | {member: value}).data["value"] == value
        else:
            refuse(name, whole | {member: value}, f"$.{member}")


@pytest.mark.parametrize("name", UNIONS)
def test_a_bad_flagged_member_of_an_unknown_variant_is_kept_with_the_rest(name: str) -> None:
    """H4, H8: members that all branches share are checked with their flags; the bytes stay as they came."""
    for member in ["_meta", *(m for m, node in DEFS[name].get("properties", {}).items() if ON_ERROR in node)]:
        raw = raw_of(unknown(name, "_vendor", **{member: 7.5}))
        assert read(name, raw) == v2.UnknownVariant("_vendor", raw)


# --- open sets of strings ---------------------------------------------------------------------------------------------

OPEN_SETS = {
    name: [branch["const"] for branch in node["anyOf"] if "const" in branch]
    for name, node in DEFS.items()
    if [branch.get("type") for branch in node.get("anyOf", []) if "const" not in branch] == ["string"]
}


def test_the_open_sets_tried_here_are_all_there_are() -> None:
    """H5: 18 of strings."""
    assert len(OPEN_SETS) == 18


@pytest.mark.parametrize("name", OPEN_SETS)
def test_an_open_set_takes_any_string_and_only_strings(name: str) -> None:
    """H5: known, custom and future values are plain strings, and come back unchanged."""
    for value in [*OPEN_SETS[name], "_vendor", "", "OTHER", "UNKNOWN", "Pending", "date time"]:
        decoded = read(name, json.dumps(value).encode())
        assert (type(decoded), decoded, sent(decoded)) == (str, value, value)
    for bad in NO_STRING:
        refuse(name, raw_of(bad))


def test_values_that_sound_like_a_fallback_are_values() -> None:
    """H5: the kind `other` and two `unknown`s are real values; the fallback has a name of its own."""
    assert look(tool_call(kind="other")).kind == "other"
    assert read("AuthStatusResponse", {"state": "unknown"}).state == "unknown"
    assert look(state(state="unknown")) == v2.StateUpdate(state="unknown")
    assert not {"Other", "Unknown", "OTHER", "UNKNOWN"} & set(v2.__all__)


@pytest.fixture(scope="module")
def stable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The package that the stable schema gives."""
    with importable(tmp_path_factory.mktemp("stable")) as directory:
        tables = load.read_tables(load.schema_directory())
        yield make_package(directory, "traps_stable", load.read_schema(STABLE), tables)


def test_a_value_that_only_the_draft_knows_is_unknown_to_the_stable_schema(stable: Any) -> None:
    """H5, H39: the state `unknown` falls into the fallback there, as do kinds of updates."""
    for raw in (raw_of(state(state="unknown")), b'{"sessionUpdate":"plan_removed","planId":"p"}'):
        assert stable.decode("SessionUpdate", raw).raw == raw
        assert type(look(raw)) is not v2.UnknownVariant


# --- omitted and null -------------------------------------------------------------------------------------------------

PATCHED = {
    "ToolCallUpdate": "name title kind status content locations rawInput rawOutput capabilities",
    "UserMessage": "content",
    "AgentMessage": "content",
    "AgentThought": "content",
    "TerminalUpdate": "command cwd output exitStatus size capabilities",
    "SessionInfoUpdate": "title updatedAt",
    "UsageUpdate": "cost",
    "CompactionUpdate": "summary error",
    "SubagentUpdate": "title description capabilities state cwd additionalDirectories",
    "SessionMessage": "senderSessionId recipientSessionId senderMessageId recipientMessageId content",
}
"""The fields of requirements C3 in which omitted, null and a value differ."""
PATCHES = [(name, member) for name, members in PATCHED.items() for member in members.split()]
META_PATCHES = [(name, "_meta") for name in PATCHED if name != "UsageUpdate"]
PLAIN = [
    *[("PlanUpdate", "_meta"), ("Notice", "description"), ("ProviderInfo", "current"), ("TerminalOutput", "_meta")],
    *[("SessionStatusResponse", "state"), ("TerminalExitStatus", "exitCode"), ("TerminalExitStatus", "signal")],
    *[("RequestPermissionRequest", "subject"), ("ListSessionsResponse", "nextCursor"), ("StateSnapshot", "background")],
]
"""Fields of requirements C3 that are easily mistaken for such ones."""


def base_of(name: str) -> Node:
    return {"state": "idle"} if name == "StateSnapshot" else document(name)


@pytest.mark.parametrize(("name", "member"), [*PATCHES, *META_PATCHES])
def test_omitted_null_and_a_value_stay_apart(name: str, member: str) -> None:
    """H6, MT-03: 34 fields and the `_meta` of nine classes, on the way in and on the way out."""
    assert (len(PATCHES), len(META_PATCHES)) == (34, 9)
    base = document(name)
    given_ = base | {member: {"a": None} if member == "_meta" else minimal(DEFS[name]["properties"][member])}
    values = [look(update) for update in (base, base | {member: None}, given_)]
    attributes = [getattr(value, attribute(member)) for value in values]
    assert attributes[0] is v2.UNSET
    assert attributes[1] is None
    assert attributes[2] not in (None, v2.UNSET)
    assert [sent(value) for value in values] == [base, base | {member: None}, given_]


@pytest.mark.parametrize(("name", "member"), PATCHES)
def test_a_malformed_patch_keeps_and_never_clears(name: str, member: str) -> None:
    """H6, H8, MS-12, SA-08: it counts as omitted; raw input is any JSON, and a child's directories are strict."""
    base, bad = document(name), 7.5
    value = look(base | {member: bad})
    if member in ("rawInput", "rawOutput"):
        assert sent(value) == base | {member: bad}
    elif member in ("cwd", "additionalDirectories") and name == "SubagentUpdate":
        assert value is None
    else:
        assert value == look(base)
        assert getattr(value, attribute(member)) is v2.UNSET


def test_a_tool_call_inside_a_permission_is_a_patch_too() -> None:
    """H6, H24, PM-03."""
    call: Node = {"toolCallId": "t", "title": None, "status": 7}
    subject = read("RequestPermissionSubject", {"type": "tool_call", "toolCall": call})
    assert subject.tool_call == v2.ToolCallFields(tool_call_id="t", title=None)
    assert subject.tool_call.status is v2.UNSET
    assert sent(subject) == {"type": "tool_call", "toolCall": {"toolCallId": "t", "title": None}}


@pytest.mark.parametrize(("name", "member"), PLAIN)
def test_where_null_is_the_same_as_omitted_it_is_read_so_and_not_sent(name: str, member: str) -> None:
    """H6, C3."""
    base = base_of(name)
    omitted, null = read(name, base), read(name, base | {member: None})
    assert omitted == null
    assert getattr(null, attribute(member)) is None
    assert sent(null) == base


# --- flags ------------------------------------------------------------------------------------------------------------

ON_ERROR, SKIP = "x-deserialize-default-on-error", "x-deserialize-skip-invalid-items"
ON_NULL = "x-deserialize-default-on-null"


def arrays(*flags: str, required: bool) -> list[tuple[str, str]]:
    """The arrays that are never null, by their flags."""
    return [
        (name, member)
        for name, member in MEMBERS
        if DEFS[name]["properties"][member].get("type") == "array"
        if {flag for flag in (ON_ERROR, ON_NULL, SKIP) if DEFS[name]["properties"][member].get(flag)} == set(flags)
        if (member in DEFS[name].get("required", [])) is required
    ]


NULL_ARRAYS, FLAGGED_ARRAYS = arrays(ON_NULL, required=False), arrays(ON_ERROR, SKIP, required=False)
SKIPPING_ARRAYS, REQUIRED_ARRAYS = arrays(SKIP, required=True), arrays(ON_ERROR, SKIP, required=True)


def test_the_arrays_tried_here_are_all_there_are() -> None:
    """H7, H9, H11, C2: by class of flags."""
    counts = [len(found) for found in (NULL_ARRAYS, FLAGGED_ARRAYS, SKIPPING_ARRAYS, REQUIRED_ARRAYS)]
    assert counts == [12, 9, 5, 3]


def item_of(name: str, member: str) -> Any:
    """A good item of an array."""
    return minimal(DEFS[name]["properties"][member]["items"])


@pytest.mark.parametrize(("name", "member"), [*NULL_ARRAYS, *FLAGGED_ARRAYS])
def test_an_array_that_is_left_out_is_empty_and_null_is_never_sent(name: str, member: str) -> None:
    """H7, SS-08: null is tolerated on receipt, and cannot be said."""
    base, good = document(name), [item_of(name, member)]
    for extra in each(None, []):
        assert read(name, base | {member: extra}) == read(name, base)
        value = read(name, base | {member: extra})
        assert getattr(value, attribute(member)) == []
        assert member not in sent(value)
    assert sent(read(name, base | {member: good}))[member] == good
    annotation = next(f.type for f in msgspec.structs.fields(CLASSES[name]) if f.encode_name == member)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(None, annotation)


@pytest.mark.parametrize(("name", "member"), NULL_ARRAYS)
@pytest.mark.parametrize("bad", [*NO_ARRAY, [7.5], [None]])
def test_an_array_that_takes_null_takes_nothing_else(name: str, member: str, bad: Any) -> None:
    """H7, C1: default-on-null alone absorbs null alone, and skips no items."""
    refuse(name, document(name) | {member: bad}, f"$.{member}" + ("[0]" if isinstance(bad, list) else ""))


@pytest.mark.parametrize(
    ("name", "member"),
    [key for key in MEMBERS if DEFS[key[0]]["properties"][key[1]].get(ON_ERROR) and key not in ANY_JSON],
)
def test_a_flagged_member_that_does_not_decode_is_as_good_as_left_out(name: str, member: str) -> None:
    """H8, C1: one bad member is no reason to refuse the object, nor to touch the others."""
    node, base = DEFS[name]["properties"][member], document(name)
    kept = {} if member == "_meta" else {"_meta": {"a": 1}}
    expected = read(name, base | kept | ({member: []} if member in DEFS[name].get("required", []) else {}))
    bad: Any = 7.5 if "array" in node.get("type", "") else [[]]
    for whole in (base | kept | {member: bad}, {member: bad, "later": 1} | base | kept | {member: bad}):
        assert read(name, whole) == expected
        assert "sessionUpdate" not in whole or look(whole) == expected


def test_a_fault_is_absorbed_where_the_nearest_flag_is() -> None:
    """H8, C1, DF-02: neither further in, nor further out."""
    link: Node = document("ResourceLink") | {
        "size": -1,
        "title": 7,
        "mimeType": "m",
        "annotations": {"priority": 2, "audience": ["user", 7], "lastModified": []},
        "icons": [{"src": "a", "theme": 7}, {"src": 7}, {"src": "b", "sizes": [7, "any"]}],
    }
    expected = v2.ResourceLink(
        name="x",
        uri="x",
        mime_type="m",
        annotations=v2.Annotations(audience=["user"]),
        icons=[v2.Icon(src="a"), v2.Icon(src="b", sizes=["any"])],
    )
    assert agent_chunk(link) == expected
    message = look({"sessionUpdate": "user_message", "messageId": "m", "content": [link, TEXT, link | {"uri": 7}]})
    assert message.content == [expected, v2.TextContent(text="t")]
    refuse("PromptRequest", {"sessionId": "s", "prompt": [link, {"type": "text"}]}, "$.prompt[1]")
    assert agent_chunk({"type": "text"}) is None
    changes = [{"operation": "add"}, {"operation": "add", "path": "/a", "fileType": 7}]
    content = look(tool_call(content=[{"type": "diff", "changes": changes, "patch": {"format": "git_patch"}}])).content
    assert content == [v2.Diff(changes=[v2.DiffAdd(path="/a")])]


@pytest.mark.parametrize(("name", "member"), REQUIRED_ARRAYS)
def test_a_required_array_with_flags_must_be_there_but_may_be_malformed(name: str, member: str) -> None:
    """H9: a default of Python's would make a missing key legal, and would leave `[]` out when it is sent."""
    base = {key: value for key, value in document(name).items() if key != member}
    refuse(name, base, "$")
    for bad in (None, *NO_ARRAY, [7], []):
        value = read(name, base | {member: bad})
        assert getattr(value, attribute(member)) == []
        assert sent(value) == base | {member: []}
    good = item_of(name, member)
    assert sent(read(name, base | {member: [7, good, None, good]}))[member] == [good, good]
    with pytest.raises(TypeError):
        CLASSES[name](**{attribute(key): value for key, value in base.items()})


def select(options: Any) -> Node:
    return {"type": "select", "configId": "c", "name": "n", "currentValue": "v", "options": options}


@pytest.mark.parametrize("options", [None, 7, [], [7], [{}]])
def test_an_empty_list_that_was_salvaged_is_not_checked_again(options: Any) -> None:
    """H10: `minItems` is what senders owe."""
    group, malformed = v2.SessionConfigSelectGroup(group_id="g", name="n", options=[]), GROUP | {"options": options}
    assert read("SessionConfigSelectGroup", malformed) == group
    read_options = read("SessionConfigOption", select([malformed, GROUP])).options
    assert [len(option.options) for option in read_options] == [0, 1]
    update = look({"sessionUpdate": "config_option_update", "configOptions": [select([malformed])]})
    assert update.config_options[0].options == [group]


@pytest.mark.parametrize(("name", "member"), SKIPPING_ARRAYS)
def test_an_array_that_only_skips_items_must_be_an_array(name: str, member: str) -> None:
    """H11, DF-05: null and other values are errors that must not be hidden; items that do not decode are skipped."""
    base, item = document(name), item_of(name, member)
    refuse(name, {key: value for key, value in base.items() if key != member}, "$")
    for bad in (None, *NO_ARRAY):
        refuse(name, base | {member: bad}, f"$.{member}")
        assert "sessionUpdate" not in base or look(base | {member: bad}) is None
    assert sent(read(name, base | {member: [7, item, None, {}, [item], item]}))[member] == [item, item]
    assert getattr(read(name, base | {member: [7]}), attribute(member)) == []


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize(
    "bad", [7, None, [], {}, {"type": 7}, {"type": "terminal"}, {"type": "subagent", "sessionId": None}]
)
def test_one_bad_piece_of_background_work_voids_the_list(name: Any, bad: Any) -> None:
    """H12, BG-01: a list with a gap would be a false one; "not reported" is not "nothing runs"."""
    good = {"type": "terminal", "terminalId": "t"}
    for background in ([good, bad], [bad], [bad, good]):
        assert look(state(state=name, background=background)) == v2.StateUpdate(state=name)
        assert child({"state": name, "background": background}) == v2.StateSnapshot(state=name)


@pytest.mark.parametrize("name", STATES)
def test_unknown_background_work_is_work_and_an_empty_list_is_a_report(name: str) -> None:
    """H12, BG-01, BG-04."""
    vendor, good = {"type": "_vendor", "load": 0.5}, {"type": "terminal", "terminalId": "t", "_meta": 7}
    background = look(state(state=name, background=[vendor, good])).background
    assert background == [v2.UnknownVariant("_vendor", raw_of(vendor)), v2.BackgroundTerminal(terminal_id="t")]
    assert look(state(state=name, background=[])).background == []
    assert look(state(state=name)).background is None
    for missing in each(None, 7, {}):
        assert look(state(state=name, background=missing)).background is None


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_bounds_without_a_flag_are_errors() -> None:
    """H13, NT-03, PL-06: the title of a notice, the options of a permission, an empty prompt, choices of a form."""
    assert look(document("Notice") | {"title": ""}) is None
    assert look(document("Notice") | {"title": " "}).title == " "
    for name, member in (("RequestPermissionRequest", "options"), ("PromptRequest", "prompt")):
        refuse(name, document(name) | {member: []}, f"$.{member}")
    refuse("SessionConfigOption", select([]), "$.options")
    for member in ("enum", "oneOf"):
        refuse("ElicitationPropertySchema", {"type": "string", member: []}, f"$.{member}")
    refuse("MultiSelectItems", {"type": "string", "enum": []}, "$.enum")
    refuse("MultiSelectItems", {"anyOf": []}, "$.anyOf")


@pytest.mark.parametrize("line", [0, -1, 2**32, 1.5, 1.0, True, "1", []])
def test_a_line_out_of_bounds_is_no_particular_line(line: Any) -> None:
    """H13, TC-16: `line` is flagged and its location stays."""
    locations = [{"path": "/a", "line": line}, {"path": "/b", "line": 2**32 - 1}]
    value = look(tool_call(locations=locations)).locations
    assert value == [v2.ToolCallLocation(path="/a"), v2.ToolCallLocation(path="/b", line=2**32 - 1)]


@pytest.mark.parametrize("side", [0, -1, 65536, 1.5, True, None, "80"])
def test_a_terminal_size_out_of_bounds_is_dropped_whole(side: Any) -> None:
    """H13, TM-10: `cols` and `rows` have no flags, `size` has; dropped is as omitted, not null."""
    for size in ({"cols": side, "rows": 1}, {"cols": 1, "rows": side}, {"cols": 1}):
        value = look(terminal(cwd="/", size=size))
        assert value == v2.TerminalUpdate(terminal_id="t", cwd="/")
        assert value.size is v2.UNSET
    assert look(terminal(size={"cols": 65535, "rows": 1})).size == v2.TerminalSize(cols=65535, rows=1)


# --- names like keywords ----------------------------------------------------------------------------------------------

KEYWORDS = (
    *("enum", "oneOf", "anyOf", "const", "default", "format", "pattern", "required", "properties", "items", "minimum"),
    *("maximum", "minLength", "maxLength", "minItems", "maxItems", "type", "title", "description", "allOf", "not"),
    *("additionalProperties", "discriminator", "unevaluatedProperties", "nullable"),
)


def test_members_named_like_schema_keywords_decode_like_any_others() -> None:
    """H14: forms describe forms, and a field of a form may be called anything."""
    choices = [{"const": "c", "title": "t"}]
    properties: Node = {
        "enum": {"type": "string", "enum": ["a"], "format": "_mine", "pattern": "(", "minLength": 0, "default": "a"},
        "const": {"type": "integer", "minimum": -1, "maximum": 2, "default": 1},
        "required": {"type": "boolean", "default": False},
        "$ref": {"type": "string", "oneOf": choices},
        "properties": {"type": "array", "minItems": 0, "maxItems": 2, "items": {"anyOf": choices}},
        "_meta": {"type": "_vendor", "properties": {"enum": 1}},
    }
    form = {"type": "object", "required": ["enum"], "properties": properties}
    assert sent(read("ElicitationSchema", form)) == form
    assert read("ElicitationSchema", form).properties["properties"].items.any_of[0].const == "c"


@pytest.mark.parametrize("bad", ["array", "Object", "", *NO_STRING])
def test_the_one_closed_set_is_closed(bad: Any) -> None:
    """H14, EL-16, EX-05: `type` of a form is `object` and nothing else, in every placement."""
    form: Node = {"type": bad, "properties": {}}
    refuse("ElicitationSchema", form, "$.type")
    params = {"mode": "form", "message": "m", "sessionId": "s", "requestedSchema": form}
    message = v2.decode_from_agent(
        raw_of({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params})
    )
    assert isinstance(message, v2.Malformed)
    assert (message.code, message.id, message.path) == (-32602, 1, "$.params.requestedSchema.type")


@pytest.mark.parametrize(
    ("kind", "member", "bad"),
    [
        *product(["string"], ["minLength", "maxLength", "pattern", "format", "enum", "oneOf"], each(7.5, {}, True)),
        *product(["integer"], ["minimum", "maximum"], each("1", 1.0, True, 2**63, [])),
        *product(["number"], ["minimum", "maximum"], each("1", True, [])),
        *product(["array"], ["minItems", "maxItems"], each(-1, "1", 1.5, True)),
        *product(["array"], ["items"], each(None, 7, {}, {"type": "string"})),
    ],
)
def test_bounds_of_form_fields_are_strict(kind: str, member: str, bad: Any) -> None:
    """H14, EL-16: they carry no flag, so a fault in one fails the form, however its field is called."""
    field: Node = {"type": kind, "items": {"anyOf": [{"const": "c", "title": "t"}]}}
    read("ElicitationPropertySchema", field)
    refuse("ElicitationPropertySchema", field | {member: bad})
    refuse("ElicitationSchema", {"type": "object", "properties": {"enum": field | {member: bad}}})


def test_a_schema_is_walked_by_position(tmp_path: Path) -> None:
    """H14: members called like keywords get attributes, flags and bounds; their names say nothing about the schema."""
    text = {"type": "string", "description": "said"}
    inner: Node = {"type": "object", "description": "said", "properties": dict.fromkeys(KEYWORDS, text)}
    inner["required"] = ["enum", "not"]
    properties = {
        "enum": {"type": ["array", "null"], "items": text, ON_ERROR: True, SKIP: True},
        "const": {"anyOf": [{"$ref": "#/$defs/Inner"}, {"type": "null"}]},
        "properties": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Inner"}},
        "required": {"type": "integer", "minimum": 1, ON_ERROR: True},
        "description": text,
    }
    defs = {"Inner": inner, "Outer": {"type": "object", "properties": properties, "required": ["properties"]}}
    structure, _ = load.split_prose({"$defs": defs})
    assert set(structure["$defs"]["Inner"]["properties"]) == set(KEYWORDS)
    assert "description" not in structure["$defs"]["Inner"]
    with importable(tmp_path) as directory:
        package = make_package(directory, "traps_keywords", source_of({"$defs": defs}))
        words = {word: word for word in KEYWORDS}
        whole = {"properties": {"properties": words}, "const": words, "enum": ["a"], "description": "d"}
        value = package.decode("Outer", raw_of(whole | {"enum": ["a", 7], "required": 0}))
        assert json.loads(package.encode(value)) == whole
        with pytest.raises(v2.DecodeError):
            package.decode("Inner", b'{"enum":"a"}')


def test_values_inside_a_schema_are_no_schemas() -> None:
    """H14: a default is data; what its members are called says nothing."""
    default = {"description": "kept", "x-docs-ignore": True, "properties": {"description": "kept"}}
    member = {"type": "object", "default": default, "description": "prose"}
    structure, texts = load.split_prose({"$defs": {"A": {"type": "object", "properties": {"a": member}}}})
    assert structure["$defs"]["A"]["properties"]["a"]["default"] == default
    assert list(texts.values()) == ["prose"]


# --- alternatives without a tag ---------------------------------------------------------------------------------------


def test_options_are_all_bare_or_all_grouped() -> None:
    """H15: told apart by what the items are; a mixture is an error, and skipped where the list around it skips."""
    bare = read("SessionConfigOption", select([OPTION, OPTION | {"description": 7, "groupId": "g"}])).options
    assert bare == [v2.SessionConfigSelectOption(value="v", name="n")] * 2
    grouped = read("SessionConfigOption", select([GROUP, GROUP | {"options": [OPTION, 7], "_meta": 7}]))
    assert [type(option) for option in grouped.options] == [v2.SessionConfigSelectGroup] * 2
    assert sent(grouped) == select([GROUP, GROUP])
    for mixed in each(
        [OPTION, GROUP], [GROUP, OPTION], [GROUP, GROUP, OPTION], [OPTION, 7], [GROUP, None], [GROUP, []]
    ):
        refuse("SessionConfigOption", select(mixed))
        answer = read("SetSessionConfigOptionResponse", {"configOptions": [select(mixed), select([GROUP])]})
        assert [sent(option) for option in answer.config_options] == [select([GROUP])]
    for bad in each(
        None,
        *NO_ARRAY,
        [],
        [7],
        [{}],
        [{"name": "n"}],
        [{"groupId": "g", "name": "n"}],
        [OPTION | {"value": 7}],
    ):
        refuse("SessionConfigOption", select(bad))


GOOD_IDS = (b"1", b"0", b"-1", b'"1"', b'""', b'"true"', b'"null"', b"9223372036854775807", b"-9223372036854775808")
BAD_IDS = (b"1.0", b"1e0", b"1E2", b"1.5", b"true", b"[]", b"{}", b"9223372036854775808", b"-9223372036854775809")


@pytest.mark.parametrize("raw", GOOD_IDS)
def test_an_id_comes_back_with_its_type(raw: bytes) -> None:
    """H16, ER-02: strings and int64, told apart from each other, in requests, answers, errors and cancellations."""
    rests = (b'"method":"session/list"', b'"result":{}', b'"error":{"code":1,"message":"m"}')
    for rest in rests:
        message = v2.decode_from_client(b'{"jsonrpc":"2.0","id":' + raw + b"," + rest + b"}")
        assert isinstance(message, v2.Request | v2.Response | v2.ErrorResponse)
        assert (type(message.id), message.id) == (type(json.loads(raw)), json.loads(raw))
        assert b'"id":' + raw + b"," in wire.encode(message)
    assert v2.encode(v2.CANCEL_REQUEST.decode_params(b'{"requestId":' + raw + b"}")) == b'{"requestId":' + raw + b"}"


@pytest.mark.parametrize("raw", [*BAD_IDS, b"null"])
@pytest.mark.parametrize("decode", [v2.decode_from_client, v2.decode_from_agent])
def test_an_id_that_is_neither_string_nor_int64_is_refused(raw: bytes, decode: Any) -> None:
    """H16, X9: a request gets -32600 under null, an answer none at all; True is no 1, and 1.0 is none either."""
    head = b'{"jsonrpc":"2.0","id":' + raw
    for method in (b"session/list", b"session/update", b"_mine"):
        request = decode(head + b',"method":"' + method + b'"}')
        assert isinstance(request, v2.Malformed)
        assert (request.code, request.id, request.path) == (-32600, None, "$.id")
    response = decode(head + b',"result":{}}')
    assert isinstance(response, v2.Malformed)
    assert (response.code, response.id) == (None, None)
    error = decode(head + b',"error":{"code":-32700,"message":"m"}}')
    assert type(error) is (v2.ErrorResponse if raw == b"null" else v2.Malformed)  # ER-03
    cancel = decode(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":' + raw + b"}}")
    assert isinstance(cancel, v2.Malformed)
    assert (cancel.code, cancel.path) == (None, "$.params.requestId")
    refuse("RequestId", raw)


def test_the_id_of_an_error_may_be_null_but_not_missing() -> None:
    """H16, ER-03."""
    error = v2.decode_from_client(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}')
    assert isinstance(error, v2.ErrorResponse)
    assert error.id is None
    assert json.loads(wire.encode(error))["id"] is None
    missing = v2.decode_from_client(b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}')
    assert isinstance(missing, v2.Malformed)
    assert missing.code is None


def test_form_answers_keep_their_types() -> None:
    """H17, EL-17: a boolean is no integer, 1 is not 1.0, and what a custom input answers passes whole."""
    content = (
        b'{"a":1,"b":1.0,"c":true,"d":["x"],"e":[1,1.0],"f":null,"g":{"h":{}},"i":"1","k":-1,"l":9007199254740993}'
    )
    value = read("CreateElicitationResponse", b'{"action":"accept","content":' + content + b"}")
    types: list[type] = [int, float, bool, list, list, type(None), dict, str, int, int]
    assert [type(answer) for answer in value.content.values()] == types
    assert [type(item) for item in value.content["e"]] == [int, float]
    assert v2.encode(value) == b'{"action":"accept","content":' + content + b"}"
    for answer in json.loads(content).values():
        alone = read("ElicitationContentValue", raw_of(answer))
        assert (type(alone), alone) == (type(answer), answer)


@pytest.mark.parametrize("code", [-32002, -32022, -32603, 0, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("data", [{"sessionId": "s"}, {"requested": 1, "supported": [1]}, [1, 1.0], "s", True, 0, {}])
def test_the_data_of_an_error_is_not_given_a_type_by_its_shape(code: int, data: Any) -> None:
    """H18, ER-05: `sessionId` alone proves nothing; only the code decides, and that is the reader's to look at."""
    body = {"code": code, "message": "m", "data": data}
    message = v2.decode_from_agent(raw_of({"jsonrpc": "2.0", "id": 1, "error": body}))
    assert isinstance(message, v2.ErrorResponse)
    idle = look(state(state="idle", stopReason="error", error=body))
    for kept in (message.error.data, idle.error.data, read("ErrorData", raw_of(data))):
        assert (type(kept), kept) == (type(data), data)
    assert sent(idle)["error"] == body


T, B = v2.TextResourceContents(uri="u", text="t"), v2.BlobResourceContents(uri="u", blob="b")


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"text": "t"}, T),
        ({"blob": "b"}, B),
        ({"text": "t", "blob": "b"}, T),
        ({"blob": "b", "text": "t"}, T),
        ({"text": "t", "blob": 7}, T),
        ({"text": "t", "mimeType": 7, "_meta": 7}, T),
        ({"blob": "b", "mimeType": 7, "_meta": 7}, B),
        ({"blob": "b", "type": "text"}, B),
    ],
)
def test_a_resource_is_text_or_blob_by_what_it_has(members: Any, expected: Any) -> None:
    """H19: text first where both are there; flags work in either."""
    for resource in ({"uri": "u", **members}, {**members, "uri": "u"}):
        assert read("EmbeddedResourceResource", resource) == expected
        block = agent_chunk({"type": "resource", "resource": resource, "annotations": 7})
        assert block == v2.EmbeddedResource(resource=expected)
        assert read("ContentBlock", v2.encode(block)) == block


@pytest.mark.parametrize(
    "bad", [*NO_OBJECT, {}, {"uri": "u"}, {"text": "t"}, {"uri": "u", "text": 7}, {"uri": "u", "blob": 7}]
)
def test_a_resource_that_is_neither_is_an_error(bad: Any) -> None:
    """H19."""
    refuse("EmbeddedResourceResource", bad)
    refuse("ContentBlock", {"type": "resource", "resource": bad})


def test_choices_of_a_form_are_told_apart_by_whether_they_have_a_type() -> None:
    """H20: without one they are titled; `string` is plain; any other string is unknown, `anyOf` or not."""
    titled = {"anyOf": [{"const": "c", "title": "t"}]}
    assert type(read("MultiSelectItems", titled | {"_meta": 7})) is v2.TitledMultiSelectItems
    assert type(read("MultiSelectItems", titled | {"type": "string", "enum": ["a"]})) is v2.StringMultiSelectItems
    for tag in ("_vendor", "titled", "other", "", "String"):
        assert read("MultiSelectItems", titled | {"type": tag}).tag == tag
    for bad in (titled | {"type": "string"}, {"enum": ["a"]}, {}):
        refuse("MultiSelectItems", bad, "$")
    for items in (titled, {"type": "string", "enum": ["a"]}, {"type": "_vendor", "x": [1.0]}):
        field = {"type": "array", "items": items}
        assert sent(read("ElicitationPropertySchema", field)) == field


QUESTIONS: list[Node] = [
    {"mode": "form", "message": "m", "requestedSchema": {"type": "object", "properties": {}}},
    {"mode": "url", "message": "m", "url": "https:", "elicitationId": "e"},
    {"mode": "_vendor", "message": "m"},
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_has_exactly_one_scope(question: Node) -> None:
    """H21, EL-04: by presence of the key, a null one included; also where the mode is unknown."""
    for scope in ({"sessionId": "s"}, {"requestId": 1}, {"requestId": "1"}, {"sessionId": ""}, {"requestId": 0}):
        assert sent(read("CreateElicitationRequest", question | scope)) == question | scope
    none = each(
        {}, {"toolCallId": "t"}, {"sessionId": None}, {"requestId": None}, {"requestId": 1.0}, {"requestId": True}
    )
    both = [{"sessionId": a, "requestId": b} for a, b in product(("s", None, 7), (1, "1", None, 1.0, True))]
    for scope in [*none, *both]:
        refuse("CreateElicitationRequest", question | scope)


@pytest.mark.parametrize("question", QUESTIONS[:2])
def test_a_tool_call_goes_with_a_session_only(question: Node) -> None:
    """H21, EX-09: beside a `requestId` it is a member like any unknown one, and a bad one counts as omitted."""
    cases = (("t", {"sessionId": "s"}, "t"), (7, {"sessionId": "s"}, None), ("t", {"requestId": 1}, None))
    for call, scope, expected in cases:
        value = read("CreateElicitationRequest", question | scope | {"toolCallId": call})
        assert value.tool_call_id == expected


def test_a_scope_cannot_be_built_wrongly_either() -> None:
    """H21."""
    for scope in ({}, {"session_id": "s", "request_id": 1}):
        with pytest.raises(ValueError, match="exactly one"):
            CLASSES["ElicitationUrlMode"](elicitation_id="e", url="u", message="m", **scope)


MCP_ERROR = {"z": [1.0], "code": 1, "message": "m", "data": None, "_meta": {"a": 1}}


def test_a_null_result_of_mcp_is_a_success() -> None:
    """H22, UN-06: presence decides, whatever the value."""
    for result in each(None, False, 0, "", [], {}):
        value = read("MessageMcpResponse", {"result": result})
        assert (type(value.result), value.result, value.error) == (type(result), result, v2.UNSET)
        assert sent(value) == {"result": result}
    failure = read("MessageMcpResponse", {"error": MCP_ERROR, "_meta": 7})
    assert failure.result is v2.UNSET
    assert sent(failure) == {"error": MCP_ERROR}
    for bad in each(
        {},
        {"_meta": {}},
        {"error": None},
        {"error": {}},
        {"error": []},
        {"error": {"code": 1.0, "message": "m"}},
    ):
        refuse("MessageMcpResponse", bad)


@pytest.mark.parametrize("error", [MCP_ERROR, None, {}, 7, {"code": 1}])
@pytest.mark.parametrize("result", [None, {"a": 1}])
def test_where_both_are_there_the_result_counts(error: Any, result: Any) -> None:
    """H22: then there is no error, a good one or a bad one, for anybody who asks."""
    for outcome in ({"result": result, "error": error}, {"error": error, "result": result}):
        value = read("MessageMcpResponse", outcome)
        assert (value.result, value.error) == (result, v2.UNSET)


def test_an_error_of_mcp_keeps_what_it_brings() -> None:
    """H22: unknown members, null data apart from none, the order of keys."""
    error, without = read("McpError", MCP_ERROR), read("McpError", {"code": 1, "message": "m"})
    assert (error.code, error.message, error.data) == (1, "m", None)
    assert v2.encode(error) == raw_of(MCP_ERROR)
    assert without.data is v2.UNSET
    assert sent(without) == {"code": 1, "message": "m"}
    for bad in (
        *NO_OBJECT,
        {"code": 1},
        {"message": "m"},
        {"code": "1", "message": "m"},
        {"code": 2**31, "message": "m"},
    ):
        refuse("McpError", bad)


# --- one body, several tags -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("union", "base", "suffix", "members"),
    [
        ("SessionUpdate", "ContentChunk", "{}", {"messageId": "m", "content": TEXT}),
        ("DiffChange", "DiffPathChange", "Diff{}", {"path": "/a"}),
        ("DiffChange", "DiffPathPairChange", "Diff{}", {"path": "/a", "oldPath": "/b"}),
    ],
)
def test_one_body_under_several_tags_has_a_class_for_each(union: str, base: str, suffix: str, members: Any) -> None:
    """H23: and a base that matches them all and has no tag itself."""
    tag, values = UNIONS[union]
    used = [value for value, branch in values.items() if branch["allOf"] == [{"$ref": f"#/$defs/{base}"}]]
    assert len(used) > 1
    decoded = [read(union, {tag: value, **members}) for value in used]
    for value, variant in zip(used, decoded, strict=True):
        assert type(variant).__name__ == suffix.format(value.title().replace("_", ""))
        assert (isinstance(variant, CLASSES[base]), variant.tag) == (True, value)
        assert sent(variant) == {tag: value, **members}
    assert [variant == decoded[0] for variant in decoded] == [True] + [False] * (len(used) - 1)
    assert sent(read(base, members)) == members


def test_a_body_used_with_and_without_tag_neither_demands_nor_sends_it_where_it_has_none() -> None:
    """H24: tool calls inside permissions, states inside subagents and status answers."""
    subject = {"type": "tool_call", "toolCall": {"toolCallId": "t", "kind": "read"}}
    assert sent(read("RequestPermissionSubject", subject)) == subject
    tagged = {"type": "tool_call", "toolCall": tool_call(kind="read")}  # there the tag is an unknown member
    assert sent(read("RequestPermissionSubject", tagged)) == subject
    refuse("SessionUpdate", subject["toolCall"], "$")
    assert isinstance(look(tool_call()), v2.ToolCallFields)
    assert sent(look(tool_call())) == tool_call()
    snapshot = {"state": "idle", "stopReason": "refusal"}
    for given_ in (snapshot, state(**snapshot)):
        assert sent(child(given_)) == snapshot
        assert sent(read("SessionStatusResponse", {"status": "open", "state": given_}))["state"] == snapshot


def test_a_value_is_checked_by_the_type_that_comes_with_it() -> None:
    """H25, CO-04, CO-05: three alternatives with common members, of which the last takes any value."""
    name, base = "SetSessionConfigOptionRequest", {"sessionId": "s", "configId": "c"}
    for kind, value, cls in (
        ("id", "v", v2.SetSessionConfigOptionIdRequest),
        ("boolean", False, v2.SetSessionConfigOptionBooleanRequest),
    ):
        decoded = read(name, {"type": kind, "value": value, **base})
        assert (type(decoded), decoded.value, decoded.session_id, decoded.config_id) == (cls, value, "s", "c")
        assert sent(decoded) == {"type": kind, "value": value, **base}
    for kind, bad in [*product(["id"], each(True, None, 7, {})), *product(["boolean"], each("true", 1, 0, None, 1.0))]:
        refuse(name, {"type": kind, "value": bad, **base}, "$.value")
    for value in each(*NO_OBJECT, {}):
        raw = raw_of({"type": "number", "value": value, **base})
        assert read(name, raw) == v2.UnknownVariant("number", raw)
    for kind in ("id", "boolean", "number"):
        refuse(name, {"type": kind, **base}, "$")


@pytest.mark.parametrize("content", [*NO_OBJECT, {}, {"a": 1}])
def test_content_counts_with_accept_only(content: Any) -> None:
    """H26, EL-06: decline, cancel and unknown actions take no notice of it; an unknown action is no consent."""
    name = "CreateElicitationResponse"
    for action, expected in (("decline", v2.ElicitationDeclineAction()), ("cancel", v2.ElicitationCancelAction())):
        assert read(name, {"action": action, "content": content, "_meta": 7}) == expected
        assert sent(expected) == {"action": action}
    for action in ("_vendor", "ACCEPT", "accepted", ""):
        assert type(read(name, {"action": action, "content": content})) is v2.UnknownVariant
    if content is None or type(content) is dict:
        value = read(name, {"action": "accept", "content": content})
        assert (type(value), value.content) == (v2.ElicitationAcceptAction, content)
    else:
        refuse(name, {"action": "accept", "content": content}, "$.content")


@pytest.mark.parametrize("name", ["InitializeRequest", "InitializeResponse"])
@pytest.mark.parametrize("bad", [*NO_OBJECT, {}])
def test_capabilities_are_never_none(name: str, bad: Any) -> None:
    """H27, IN-08, IN-12: missing, null and malformed all mean that nothing is offered."""
    base = document(name)
    empty = v2.ClientCapabilities() if name == "InitializeRequest" else v2.AgentCapabilities()
    info = v2.Implementation(name="x", version="x")
    for value in (read(name, base), read(name, base | {"capabilities": bad})):
        assert value.capabilities == empty
        assert value == CLASSES[name](protocol_version=1, info=info)
        assert sent(value).get("capabilities", {}) == {}
    nested = {"auth": {"_meta": bad}, "elicitation": 7, "session": bad if bad != {} else None}
    capabilities = read(name, base | {"capabilities": nested}).capabilities
    assert capabilities == msgspec.structs.replace(empty, auth=capabilities.auth)
    assert capabilities.auth is not None


# --- methods ----------------------------------------------------------------------------------------------------------

BINDINGS = [
    ((node["x-method"], node["x-side"], "notification" if name.endswith("Notification") else "request"), name)
    for name, node in DEFS.items()
    if "x-method" in node
]


def test_every_binding_of_a_method_is_kept() -> None:
    """H28: definitions that are aliases of others, or equal to others, have methods of their own."""
    methods: dict[Any, Any] = dict(v2.METHODS)
    for key, name in BINDINGS:
        part = methods[key].result if name.endswith("Response") else methods[key].params
        assert part is getattr(v2, name)
    proxy = methods["proxy/initialize", "proxy", "request"]
    assert (proxy.params, proxy.result) == (v2.InitializeRequest, v2.InitializeResponse)
    assert proxy is not methods["initialize", "agent", "request"]
    assert len({v2.PromptImageCapabilities, v2.PromptAudioCapabilities, v2.ArchiveSessionRequest}) == 3


def test_an_alias_keeps_its_own_method_when_generated(tmp_path: Path) -> None:
    """H28: and so does a definition that is equal to another."""
    body: Node = {"type": "object", "properties": {"a": {"type": "string"}}}
    defs: Node = {}
    for kind in ("Request", "Response"):
        defs[f"Go{kind}"] = body | {"x-method": "go", "x-side": "agent"}
        defs[f"Stop{kind}"] = body | {"x-method": "stop", "x-side": "agent"}
        alias = {"allOf": [{"$ref": f"#/$defs/Go{kind}"}]}
        defs[f"GoProxy{kind}"] = alias | {"x-method": "go/proxy", "x-side": "proxy"}
    with importable(tmp_path) as directory:
        package = make_package(directory, "traps_aliases", source_of({"$defs": defs}))
    methods = {name: method for (name, _, _), method in package.module.METHODS.items()}
    assert set(methods) == {"go", "stop", "go/proxy"}
    assert set(defs) <= package.names()
    assert methods["go/proxy"].params is methods["go"].params
    assert methods["stop"].params is not methods["go"].params


def test_methods_are_told_apart_by_name_side_and_kind() -> None:
    """H29: exactly those of the schema, each under its own constant."""
    keys = {key for key, _ in BINDINGS}
    assert set(v2.METHODS) == keys
    assert len(keys) == 33  # `proxy/successor` is of both kinds on one side
    assert {key[1:] for key in keys if key[0] == "mcp/message"} == {("client", "request"), ("agent", "notification")}
    assert all((method.name, method.side, method.kind) == key for key, method in v2.METHODS.items())
    constants = [id(value) for value in vars(v2).values() if type(value) is v2.Method]
    assert sorted(constants) == sorted(map(id, v2.METHODS.values()))


def test_one_method_name_means_what_side_and_kind_say() -> None:
    """H29, UN-06, UN-07: towards the client a request, towards the agent a notification; else it is unknown."""

    def through(decode: Any, params: Any, **head: Any) -> Any:
        message = decode(raw_of({"jsonrpc": "2.0", **head, "params": params}))
        assert type(message) is (v2.Request if "id" in head else v2.Notification)
        return message.params

    inner = {"serverId": "s", "requestId": "r", "method": "m", "params": None}
    assert type(through(v2.decode_from_agent, inner, id=1, method="mcp/message")) is v2.MessageMcpRequest
    assert type(through(v2.decode_from_client, inner, method="mcp/message")) is v2.MessageMcpNotification
    for raw in (
        through(v2.decode_from_agent, inner, method="mcp/message"),
        through(v2.decode_from_client, inner, id=1, method="mcp/message"),
    ):
        assert json.loads(bytes(raw)) == inner
    passed = {"method": "_inner", "params": [1.0], "_meta": None}
    for decode in (v2.decode_from_agent, v2.decode_from_client):
        request = through(decode, passed, id="1", method="proxy/successor")
        notification = through(decode, passed, method="proxy/successor")
        assert request == v2.ProxySuccessorRequest(method="_inner", params=[1.0])
        assert notification == v2.ProxySuccessorNotification(method="_inner", params=[1.0])


# --- text and numbers -------------------------------------------------------------------------------------------------

BASE64 = [
    *[("ImageContent", "data"), ("AudioContent", "data"), ("BlobResourceContents", "blob")],
    *[("TerminalOutput", "data"), ("TerminalOutputChunk", "data")],
]


@pytest.mark.parametrize(("name", "member"), BASE64)
@pytest.mark.parametrize("text", ["", "aGk=", "aGk", "a-_b", "aG k=\n", "====", "aGk=aGk=", "not base64 \u00e9"])
def test_base64_is_a_string_that_comes_back_as_it_was(name: str, member: str, text: str) -> None:
    """H30: whatever its padding, alphabet and spaces; nothing is refused for them."""
    value = read(name, document(name) | {member: text})
    assert type(getattr(value, member)) is str
    assert sent(value) == document(name) | {member: text}


@pytest.mark.parametrize(("name", "member"), BASE64)
def test_bytes_are_decoded_on_demand_and_one_by_one(name: str, member: str) -> None:
    """H30, TM-07: each chunk is complete in itself; joined strings would end at the first padding."""
    texts = ("aGk=", "IQ==", "w4M=", "qQ==", "")
    chunks = [getattr(read(name, document(name) | {member: text}), f"{member}_bytes") for text in texts]
    assert chunks == [b"hi", b"!", b"\xc3\x83", b"\xa9", b""]
    for text in ("aGk=IQ==", "#", "\u00e9"):
        value = read(name, document(name) | {member: text})
        with pytest.raises(v2.DecodeError):
            getattr(value, f"{member}_bytes")


@pytest.mark.parametrize(
    ("name", "member"),
    [
        *[("Annotations", "lastModified"), ("SessionInfo", "updatedAt"), ("SessionInfoUpdate", "updatedAt")],
        *[("ResourceLink", "uri"), ("TextResourceContents", "uri"), ("McpServerHttp", "url"), ("Icon", "src")],
        ("StringPropertySchema", "pattern"),
    ],
)
@pytest.mark.parametrize(
    "text", ["", "no format", "2026-11-20", "2026-11-20T10:00:00+01:00", "2026-11-20T10:00:00.000Z", "("]
)
def test_a_format_is_not_checked_and_its_text_not_changed(name: str, member: str, text: str) -> None:
    """H31, CT-05: times, URIs and patterns are text."""
    value = read(name, document(name) | {member: text})
    assert type(getattr(value, attribute(member))) is str
    assert sent(value) == document(name) | {member: text}


@pytest.mark.parametrize("number", [0, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_large_numbers_are_exact(number: int) -> None:
    """H32, US-02: uint64 is more than float and more than int64."""
    update = {"sessionUpdate": "usage_update", "used": number, "size": number}
    assert look(update) == v2.UsageUpdate(used=number, size=number)
    assert v2.encode(look(update)) == raw_of(update)
    assert agent_chunk({"type": "resource_link", "name": "n", "uri": "u", "size": number}).size == number


@pytest.mark.parametrize("number", [b"1.0", b"1e0", b"1E3", b"1.5", b"-1", b"true", b'"1"', b"[]", b"1e400"])
def test_a_float_is_no_integer_and_absorbed_where_a_flag_allows(number: bytes) -> None:
    """H32: integral or not; without a flag it is an error."""
    assert look(b'{"sessionUpdate":"usage_update","used":' + number + b',"size":1}') is None
    assert agent_chunk(b'{"type":"resource_link","name":"n","uri":"u","size":' + number + b"}").size is None
    status = raw_of(terminal(exitStatus={"signal": "S", "exitCode": "HERE"})).replace(b'"HERE"', number)
    expected = v2.TerminalExitStatus(signal="S", exit_code=-1 if number == b"-1" else None)
    assert look(status).exit_status == expected
    refuse("InitializeRequest", b'{"info":{"name":"n","version":"1"},"protocolVersion":' + number + b"}")
    refuse("UnsupportedProtocolVersionErrorData", b'{"requested":1,"supported":[1,' + number + b"]}")


def test_int64_has_two_ends() -> None:
    """H32."""
    for number, expected in ((2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)), (2**63, None), (-(2**63) - 1, None)):
        assert read("TerminalExitStatus", {"exitCode": number}).exit_code == expected


# --- `_meta` ----------------------------------------------------------------------------------------------------------

CHUNKS = (
    "ContentChunk",
    "ToolCallContentChunk",
    "TerminalOutputChunk",
    "CompactionSummaryChunk",
    "SessionMessageChunk",
)


def test_meta_means_three_things_and_each_class_says_which() -> None:
    """H33, MT-03, MT-04: nine classes are patched by key, five are chunks, the others are plain; variants too."""

    def rule(name: str) -> str:
        return v2.META_RULES.get(CLASSES[name], "")

    assert {rule(name) for name, _ in META_PATCHES} == {"patch"}
    assert {rule(name) for name in (*CHUNKS, "AgentMessageChunk", "UserMessageChunk")} == {"chunk"}
    plain = ("PlanUpdate", "Notice", "UsageUpdate", "StateUpdate", "TextContent", "TerminalOutput")
    assert {rule(name) for name in plain} == {""}
    variants = [cls for cls in v2.META_RULES if any(base in v2.META_RULES for base in cls.__mro__[1:])]
    assert len(v2.META_RULES) - len(variants) == len(META_PATCHES) + len(CHUNKS)


@pytest.mark.parametrize("name", [*CHUNKS, "TextContent", "Implementation", "PromptRequest", "Notice"])
def test_meta_is_an_attribute_and_null_is_none_of_it(name: str) -> None:
    """H33, MT-01: the name without its underscore, on the wire with it; malformed is none."""
    base = document(name)
    for meta in ({}, {"a": {"b": None}, "": [1.0], "_meta": 1, "meta": 2}):
        assert read(name, base | {"_meta": meta}).meta == meta
        assert sent(read(name, base | {"_meta": meta})) == base | {"_meta": meta}
    for bad in NO_OBJECT:
        assert read(name, base | {"_meta": bad}) == read(name, base)
    assert read(name, base | {"meta": {"a": 1}}).meta is None


# --- classes ----------------------------------------------------------------------------------------------------------


def test_classes_are_built_by_keyword() -> None:
    """H34: a base's members and those of its variants mix required and optional ones, so no order can be promised."""
    structs = [cls for cls in CLASSES.values() if issubclass(cls, msgspec.Struct)]
    assert len(structs) > 150
    for cls in structs:
        with pytest.raises(TypeError):
            cls(*["x"] * len(cls.__struct_fields__) or ["x"])
    chunk = v2.SessionMessageChunk(sender_session_id=None, content=v2.TextContent(text="t"), meta={}, message_id="m")
    assert v2.decode(v2.SessionMessageChunk, v2.encode(chunk)) == chunk


@pytest.mark.parametrize(
    "name", ["ElicitationFormMode", "ElicitationUrlMode", "SessionConfigSelect", "SessionConfigBoolean"]
)
def test_what_all_branches_share_is_required_of_each(name: str) -> None:
    """H34: members that stand beside the branches of a union are members of every class."""
    union = BRANCH_OF[name][0]
    shared = DEFS[union]["required"]
    assert shared
    for member in shared:
        refuse(union, {key: value for key, value in document(name).items() if key != member}, "$")
        assert member in [f.encode_name for f in msgspec.structs.fields(CLASSES[name]) if f.required]


def test_names_of_the_protocol_hide_none_of_pythons() -> None:
    """H35: they live in a namespace of their own, and a star import of it takes nothing away."""
    clashing = {"Error", "Content", "Terminal", "Command", "Role", "Diff"}
    assert clashing <= set(v2.__all__)
    assert not set(v2.__all__) & set(dir(builtins))
    assert not [name for name in clashing if getattr(acpwire, name, None) is getattr(v2, name)]
    assert issubclass(acpwire.Error, Exception)
    assert not issubclass(CLASSES["Error"], BaseException)
    assert issubclass(v2.DecodeError, ValueError)
    assert [name for name in v2.__all__ if not hasattr(v2, name)] == []


# --- titles and `not` lists -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["other", "none", "titled", "unknown"])
def test_labels_of_branches_are_no_wire_values(label: str) -> None:
    """H36: as tags they are as unknown as any, unless the schema has them as values too."""
    for name, (_, values) in UNIONS.items():
        assert label not in values
        assert read(name, unknown(name, label, anyOf=[{"const": "c", "title": "t"}])).tag == label
    assert look(state(state="idle", stopReason=label)).stop_reason == label
    assert isinstance(look(state(state=label)), v2.StateUpdate) is (label == "unknown")


def test_titles_do_not_change_what_is_generated() -> None:
    """H36: they are read to tell branches apart where nothing else does, and go no further."""

    def retitled(node: Any) -> Any:
        if isinstance(node, list):
            return [retitled(item) for item in cast("Iterable[Any]", node)]
        if not isinstance(node, dict):
            return node
        items = cast("Node", node).items()
        return {
            key: f"_{value}" if key == "title" and isinstance(value, str) else retitled(value) for key, value in items
        }

    tables, pinned = load.read_tables(load.schema_directory()), load.read_pinned(load.schema_directory()).document
    changed = copy.deepcopy(pinned)
    changed["$defs"] = {name: retitled(node) for name, node in pinned["$defs"].items()}
    changed["$defs"]["ErrorCode"] = pinned["$defs"]["ErrorCode"]  # its titles become the names of constants
    assert changed != pinned
    before, after = (decide.build(source_of(version), tables) for version in (pinned, changed))
    assert (after.structs, after.aliases, after.unions) == (before.structs, before.aliases, before.unions)


def union_schema(listed: list[Any], known: str = "ab") -> Node:
    """A union of `known` tags whose fallback excludes the `listed` ones."""

    def tagged(value: Any) -> Node:
        return {"type": "object", "properties": {"type": {"type": "string", "const": value}}, "required": ["type"]}

    body = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    other: Node = {"title": "other", "type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}
    other |= {"additionalProperties": True, "not": {"anyOf": [tagged(value) for value in listed]}}
    branches = [tagged(value) | {"allOf": [{"$ref": f"#/$defs/Body{value.upper()}"}]} for value in known]
    return {"$defs": {f"Body{value.upper()}": body for value in known} | {"Union": {"anyOf": [*branches, other]}}}


@pytest.mark.parametrize("listed", [["a"], ["a", "b", "c"], [], ["a", "a"], ["a", "B"], ["a", None], ["a", 7]])
def test_a_list_of_excluded_tags_that_is_not_the_known_tags_stops_the_build(listed: list[Any]) -> None:
    """H37: it would mean that a known tag may be unknown, or that there is a variant nobody has described."""
    with pytest.raises(UnknownIdiomError, match="not"):
        decide.build(source_of(union_schema(listed)), EMPTY)


def test_the_list_of_excluded_tags_adds_nothing(tmp_path: Path) -> None:
    """H37: its order is noise, and the variants come from the branches."""
    one, other = (decide.build(source_of(union_schema(listed)), EMPTY) for listed in (["a", "b"], ["b", "a"]))
    assert (one.structs, one.aliases, one.unions) == (other.structs, other.aliases, other.unions)
    with importable(tmp_path) as directory:
        package = make_package(directory, "traps_not", source_of(union_schema(["a", "b", "c"], "abc")))
        assert package.decode("Union", b'{"type":"c","text":"t"}').tag == "c"
        assert package.decode("Union", b'{"type":"d"}').raw == b'{"type":"d"}'


# --- validators, stability, identifiers -------------------------------------------------------------------------------

Validator: Any = importlib.import_module("jsonschema").Draft202012Validator  # its types are not installed
VALIDATOR = Validator({"$defs": DEFS, "$ref": "#/$defs/SessionUpdate"})


@pytest.mark.parametrize(
    "update",
    [
        tool_call(locations=[{"path": "/a", "line": 0}]),
        tool_call(content=[{"type": "content"}]),
        terminal(size={"cols": 0, "rows": 1}),
        state(state="idle", background=[7]),
        document("AgentMessage") | {"content": 7},
        document("Notice") | {"_meta": 7},
        document("AvailableCommandsUpdate") | {"availableCommands": [7]},
    ],
)
def test_a_validator_is_stricter_than_the_protocol(update: Node) -> None:
    """H38: what it refuses is received all the same, so it is no tool for receiving; what is sent then, it takes."""
    assert not VALIDATOR.is_valid(update)
    value = look(update)
    assert value is not None
    assert VALIDATOR.is_valid(sent(value))


def test_a_validator_is_looser_than_the_protocol() -> None:
    """H38, H32: what it takes for an integer is none here."""
    update = {"sessionUpdate": "usage_update", "used": 1.0, "size": 2}
    assert VALIDATOR.is_valid(update)
    assert look(update) is None


def test_words_are_no_structure() -> None:
    """H39: two schemas that differ in descriptions alone are one, and a changed member is a difference."""

    def told(node: Any, *, named: bool) -> Any:
        if isinstance(node, list):
            return [told(item, named=False) for item in cast("Iterable[Any]", node)]
        if not isinstance(node, dict):
            return node
        inner = {
            key: told(value, named=not named and key in ("properties", "$defs"))
            if named or key != "default"  # a default is data
            else value
            for key, value in cast("Node", node).items()
        }
        return inner if named else {"description": "Other words.", **inner, "x-docs-ignore": True}

    bare = json.loads(STABLE.read_text("utf-8"))
    structure, texts = load.split_prose(told(bare, named=False))
    assert len(texts) > 1000
    assert load.structure_hash(structure) == load.structure_hash(load.split_prose(bare)[0])
    del structure["$defs"]["SessionInfo"]["properties"]["title"]
    assert load.structure_hash(structure) != load.structure_hash(bare)


def test_what_only_the_draft_has_is_what_the_stable_schema_lacks(stable: Any) -> None:
    """H39, SU-02: definitions, members of shared definitions, and methods, compared without their descriptions."""
    old: Node = load.split_prose(json.loads(STABLE.read_text("utf-8")))[0]["$defs"]
    assert set(old) < set(DEFS)
    classes = {name for name in DEFS if name not in old and name in v2.__all__}
    members = {
        f"{name.replace('IdleStateUpdate', 'StateSnapshot')}.{attribute(member)}"
        for name, node in old.items()
        for member in DEFS[name].get("properties", {}).keys() - node.get("properties", {}).keys()
    }
    methods = {key[0] for key, name in BINDINGS if name not in old}
    assert {"StateSnapshot.usage", "SessionInfo.archived", "NewSessionRequest.system_prompt"} <= members
    inside = {entry for entry in v2.UNSTABLE if "." in entry and entry.partition(".")[0] in classes}
    assert v2.UNSTABLE - inside == classes | members | methods | {"StateSnapshot.state=unknown"}
    assert not stable.module.UNSTABLE
    assert not classes & stable.names()
    fields = {f.encode_name for f in msgspec.structs.fields(stable.type("SessionInfo"))}
    assert fields == set(old["SessionInfo"]["properties"])


def test_a_constant_that_is_no_identifier_is_a_value_like_any_other() -> None:
    """H40: `date-time`."""
    for text in ("date-time", "date", "date_time", "DATE_TIME", "_mine"):
        field = {"type": "string", "format": text}
        assert read("ElicitationPropertySchema", field).format == text
        assert sent(read("ElicitationPropertySchema", field)) == field
    assert [name for name in v2.__all__ if not name.isidentifier()] == []


CONSTANTS = (
    "date-time",
    "1st",
    "",
    "class",
    "None",
    "a b",
    "\u00e9",
    'quo"te',
    "back\\slash",
    "new\nline",
    "{x}",
    "other",
)


def test_constants_of_any_spelling_give_a_package(tmp_path: Path) -> None:
    """H40: open and closed sets, however their values are spelt."""
    branches = [{"type": "string", "const": value} for value in CONSTANTS]
    members = {"open": {"$ref": "#/$defs/Open"}, "closed": {"$ref": "#/$defs/Closed"}}
    defs = {
        "Open": {"anyOf": [*branches, {"title": "other", "type": "string"}]},
        "Closed": {"oneOf": branches},
        "Use": {"type": "object", "properties": members, "required": ["open", "closed"]},
    }
    with importable(tmp_path) as directory:
        package = make_package(directory, "traps_constants", source_of({"$defs": defs}))
        for value in CONSTANTS:
            decoded = package.decode("Use", raw_of({"open": value, "closed": value}))
            assert json.loads(package.encode(decoded)) == {"open": value, "closed": value}
        assert package.decode("Use", b'{"open":"later","closed":"class"}').open == "later"
        with pytest.raises(v2.DecodeError):
            package.decode("Use", b'{"open":"later","closed":"later"}')


@pytest.mark.parametrize("title", ["Date-time", "2nd attempt", "class", "Not found!"])
def test_a_named_number_gets_a_name_that_python_takes(title: str, tmp_path: Path) -> None:
    """H40: titles of codes become constants, whatever they begin with."""
    branches = [{"title": "Fine", "type": "integer", "const": 1}, {"title": title, "type": "integer", "const": 2}]
    defs = {"Code": {"anyOf": [*branches, {"title": "Other", "type": "integer"}]}}
    with importable(tmp_path) as directory:
        module = make_package(directory, f"traps_titles_{len(title)}", source_of({"$defs": defs})).module
    assert vars(module)["FINE"] == 1
    names = [name for name in module.__all__ if vars(module)[name] == 2]
    assert len(names) == 1
    assert names[0].isidentifier()


# --- the count --------------------------------------------------------------------------------------------------------


def test_every_trap_is_tried() -> None:
    """Exactly the forty of the requirements, each named in the docstring of a test."""
    tests = [value for name, value in list(globals().items()) if name.startswith("test_")]
    named = {trap for test in tests for trap in re.findall(r"\bH\d+\b", test.__doc__ or "")}
    assert named == {f"H{number}" for number in range(1, 41)}
