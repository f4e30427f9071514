"""What a generator can get wrong: requirements C5, H1 to H40, each tried from several sides.

Expectations come from the requirement and from the pinned schema read as plain JSON, never from the decoder. An update
is looked at twice, alone and inside a line, and both looks must agree. The last test counts the traps.
"""

from __future__ import annotations

import builtins
import copy
import itertools
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from acpwire import v2, wire
from acpwire_codegen import decide, load
from acpwire_codegen.dialect import UnknownIdiomError
from tests.codegen.support import importable, make_package, source_of

ROOT = Path(__file__).parents[2]
DEFS: dict[str, Any] = json.loads((ROOT / "schema" / "v2.draft.json").read_text("utf-8"))["$defs"]
STABLE = ROOT / "tests" / "corpus" / "schemas" / "2.4.0-v2.stable.json"
JUNK: tuple[Any, ...] = (None, 7, 7.5, True, "x", [], {}, [[]])


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
    if path is not None:
        assert caught.value.path == path


def sent(value: Any) -> Any:
    """What a value is on the wire, as plain JSON."""
    return json.loads(v2.encode(value))


def line_of(update: Any) -> bytes:
    return b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":' + raw_of(update) + b"}}"


def look(update: Any) -> Any:
    """An update, decoded alone and in a line; None where it is refused, by both and at the same place."""
    message = v2.decode_from_agent(line_of(update))
    try:
        value = read("SessionUpdate", update)
    except v2.DecodeError as fault:
        assert isinstance(message, v2.Malformed)
        assert (message.code, message.method) == (None, "session/update")
        assert message.path == "$.params.update" + fault.path[1:]
        return None
    assert isinstance(message, v2.Notification)
    assert message.params == v2.UpdateSessionNotification(session_id="s", update=value)
    return value


def state(**members: Any) -> dict[str, Any]:
    return {"sessionUpdate": "state_update", **members}


TEXT = {"type": "text", "text": "t"}
OPTION = {"value": "v", "name": "n"}
GROUP = {"groupId": "g", "name": "n", "options": [OPTION]}
INFO = {"name": "n", "version": "1"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


# --- nested tags ------------------------------------------------------------------------------------------------------

STATES = ("running", "idle", "requires_action", "unknown")
REASONS = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error", "_vendor")


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("reason", [*REASONS, None])
def test_three_tags_of_one_object_give_one_flat_value(name: str, reason: str | None) -> None:
    """H1, X4: `sessionUpdate`, `state` and `stopReason` all stand in one object, which comes back as it was."""
    members = {"state": name} | ({"stopReason": reason} if reason else {}) | {"background": [], "_meta": {"a": 1}}
    value = look(state(**members))
    assert type(value) is v2.StateUpdate
    assert (value.state, value.stop_reason, value.tag) == (name, reason, "state_update")
    assert sent(value) == state(**members)


@settings(max_examples=30)
@given(
    st.permutations([("sessionUpdate", "state_update"), ("state", "idle"), ("stopReason", "error"), ("x", {"a": []})])
)
def test_tags_may_stand_anywhere_in_the_object(members: list[tuple[str, Any]]) -> None:
    """H1: nothing is said about the order of members, so the tag that decides may come last."""
    assert look(dict(members)) == v2.StateUpdate(state="idle", stop_reason="error")


@pytest.mark.parametrize("name", ["_vendor", "napping", "Idle", "idle ", "", "none", "other", "state_update"])
def test_an_unknown_state_is_kept_whole_and_is_never_a_known_one(name: str) -> None:
    """H1, X4, ST-14: the update becomes an unknown variant; where a snapshot stands alone, the snapshot does."""
    raw = raw_of(state(state=name, stopReason="end_turn", later=[1.0]))
    assert look(raw) == v2.UnknownVariant("state_update", raw)
    snapshot = raw_of({"later": 1, "state": name})
    for value in (
        look({"sessionUpdate": "subagent_update", "sessionId": "c", "state": json.loads(snapshot)}).state,
        read("SessionStatusResponse", {"status": "open", "state": json.loads(snapshot)}).state,
        read("AnyStateSnapshot", snapshot),
    ):
        assert isinstance(value, v2.UnknownVariant)
        assert value.raw == snapshot


@pytest.mark.parametrize("name", [None, 7, True, [], {}, ["idle"]])
def test_a_state_that_is_no_string_is_an_error_and_absorbed_where_the_snapshot_is_flagged(name: Any) -> None:
    """H1, H3: as a tag it must be a string; `state` of a child and of a status answer absorbs the fault."""
    assert look(state(state=name)) is None
    refuse("StateUpdate", state(state=name), "$.state")
    refuse("AnyStateSnapshot", {"state": name}, "$.state")
    child = look({"sessionUpdate": "subagent_update", "sessionId": "c", "title": "T", "state": {"state": name}})
    assert child == v2.SubagentUpdate(session_id="c", title="T")
    assert read("SessionStatusResponse", {"status": "open", "state": {"state": name}}).state is None


def test_a_state_update_without_state_is_an_error() -> None:
    """H1: the inner tag is required."""
    assert look(state()) is None
    assert look(state(stopReason="end_turn")) is None
    refuse("AnyStateSnapshot", {"stopReason": "end_turn"})


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("reason", [None, 7, 1.0, True, [], {}, ["error"]])
def test_a_stop_reason_that_is_no_string_is_not_reported(name: str, reason: Any) -> None:
    """H2, SR-10: the tag is put right before a branch is chosen, and nothing else is lost."""
    expected = v2.StateUpdate(state=cast("Any", name), background=[v2.BackgroundTerminal(terminal_id="t")])
    background = [{"type": "terminal", "terminalId": "t"}]
    assert look(state(state=name, stopReason=reason, background=background)) == expected
    child = {"state": name, "background": background, "stopReason": reason}
    nested = look({"sessionUpdate": "subagent_update", "sessionId": "c", "state": child})
    assert nested.state == v2.StateSnapshot(state=cast("Any", name), background=expected.background)


@pytest.mark.parametrize("reason", ["", "_vendor", "none", "other", "End_Turn", "overloaded"])
def test_an_unknown_stop_reason_is_kept(reason: str) -> None:
    """H2, SR-09: any other string is a reason too."""
    value = look(state(state="idle", stopReason=reason))
    assert type(value) is v2.StateUpdate
    assert value.stop_reason == reason
    assert sent(value)["stopReason"] == reason


@pytest.mark.parametrize(
    "error", [None, 7, [], {}, {"code": "x", "message": "m"}, {"code": 1}, {"code": 2**31, "message": "m"}]
)
def test_a_bad_error_does_not_take_the_stop_reason_away(error: Any) -> None:
    """H2: `error` of the reason `error` is flagged, so the work has failed, without details."""
    assert look(state(state="idle", stopReason="error", error=error)) == v2.StateUpdate(
        state="idle", stop_reason="error"
    )


def test_of_two_equal_members_the_last_counts_at_every_level() -> None:
    """H1, H2: also where the first would have been decoded by the strict look, or is the tag."""
    head = b'{"sessionUpdate":"state_update","state":"idle",'
    assert look(head + b'"stopReason":"refusal","stopReason":7}') == v2.StateUpdate(state="idle")
    assert look(head + b'"stopReason":7,"stopReason":"refusal"}') == v2.StateUpdate(state="idle", stop_reason="refusal")
    assert look(head + b'"state":"running"}') == v2.StateUpdate(state="running")
    assert isinstance(look(head + b'"state":"_vendor"}'), v2.UnknownVariant)
    assert look(b'{"sessionUpdate":"_vendor","sessionUpdate":"state_update","state":"idle"}') == v2.StateUpdate(
        state="idle"
    )
    assert look(head + b'"sessionUpdate":"_vendor"}').tag == "_vendor"


# --- open unions ------------------------------------------------------------------------------------------------------


def unions() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every open tagged union of the schema that has classes of its own: name, tag, value -> branch."""
    for name, node in DEFS.items():
        branches = {
            child["const"]: (tag, branch)
            for branch in node.get("anyOf", [])
            for tag, child in branch.get("properties", {}).items()
            if "const" in child
        }
        tags = {tag for tag, _ in branches.values()}
        if tags and name not in ("StateUpdate", "IdleStateUpdate"):  # flat, see H1 and H2
            yield name, tags.pop(), {value: branch for value, (_, branch) in branches.items()}


UNIONS = {name: (tag, values) for name, tag, values in unions()}
BRANCHES = [(name, value) for name, (_, values) in UNIONS.items() for value in values]
EXTRAS: dict[str, dict[str, Any]] = {
    "AuthMethod": {"methodId": "m", "name": "n"},
    "AvailableCommand": {"name": "n", "description": "d"},
    "PlanUpdateContent": {"planId": "p"},
    "SetSessionConfigOptionRequest": {"value": {"any": 1}, "sessionId": "s", "configId": "c"},
    "SessionConfigOption": {"configId": "c", "name": "n"},
    "CreateElicitationRequest": {"message": "m", "sessionId": "s"},
}
"""What a value of an unknown kind must still have (H4)."""
STRICT_EXTRAS = [(name, member) for name, members in EXTRAS.items() for member in members]


def required_of(union: str, value: str) -> list[str]:
    """The members that a branch needs beside its tag."""
    tag, values = UNIONS[union]
    branch = values[value]
    needs = {*branch.get("required", []), *DEFS[union].get("required", [])}
    for part in branch.get("allOf", []):
        needs |= set(DEFS[part["$ref"].rpartition("/")[2]].get("required", []))
    return sorted(needs - {tag})


def test_the_unions_tried_here_are_all_there_are() -> None:
    """H3: 21 open unions, of which two are flat."""
    assert len(UNIONS) == 19
    assert set(UNIONS) <= set(v2.__all__)
    assert set(EXTRAS) <= set(UNIONS)


@pytest.mark.parametrize(("name", "value"), BRANCHES)
def test_a_known_tag_with_a_bad_payload_is_an_error_and_no_unknown_variant(name: str, value: str) -> None:
    """H3, SU-13: never "try each, then fall back"."""
    tag, _ = UNIONS[name]
    for member in required_of(name, value):
        refuse(name, {tag: value})
        refuse(name, {tag: value, member: None})
        refuse(name, {tag: value, member: [[7]]})
        refuse(name, EXTRAS.get(name, {}) | {tag: value, member: [[7]]})


@pytest.mark.parametrize("name", UNIONS)
@pytest.mark.parametrize("bad", [None, 7, 7.0, True, [], {}, ["text"]])
def test_a_tag_that_is_no_string_is_an_error(name: str, bad: Any) -> None:
    """H3, H20: it is there, so the alternative without a tag is not meant either."""
    tag, values = UNIONS[name]
    refuse(name, EXTRAS.get(name, {}) | {tag: bad}, f"$.{tag}")
    if name == "MultiSelectItems":
        refuse(name, {tag: bad, "anyOf": [{"const": "c", "title": "t"}]}, f"$.{tag}")
    assert values


@pytest.mark.parametrize("name", sorted(set(UNIONS) - {"MultiSelectItems"}))
def test_a_missing_tag_is_an_error_even_where_one_variant_is_known(name: str) -> None:
    """H3: `Command`, `TextCommandInput` and `ReplayFromStart` are alone in their unions; that makes no guess right."""
    refuse(name, EXTRAS.get(name, {}) | {"hint": "h"}, "$")
    refuse(name, {}, "$")


@pytest.mark.parametrize("name", UNIONS)
@pytest.mark.parametrize(
    "change", [str.upper, lambda tag: tag + " ", lambda tag: "_" + tag, lambda _: "", lambda _: "\0"]
)
def test_any_other_string_is_an_unknown_variant(name: str, change: Any) -> None:
    """H3, H4: tags are compared as they are; what comes is kept byte for byte."""
    tag, values = UNIONS[name]
    for value in values:
        raw = raw_of({"z": [1.0], **EXTRAS.get(name, {}), tag: change(value), "a": None})
        assert read(name, raw) == v2.UnknownVariant(change(value), raw)
        assert v2.encode(read(name, raw)) == raw


@pytest.mark.parametrize("name", UNIONS)
@pytest.mark.parametrize("value", [None, 7, "text", [], [{}], True])
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
    """H3, H4, EX-03: in arrays, maps and members, below known values, beside bad ones."""
    block = b'{ "type" : "_video","z":1e0, "a":"\\u0041" }'
    unknown = v2.UnknownVariant("_video", block)
    content = b'{"type":"content","content":' + block + b"}"
    update = b'{"sessionUpdate":"tool_call_update","toolCallId":"t","content":[' + content + b',7,{"type":"_x"}]}'
    assert look(update).content == [v2.Content(content=cast("Any", unknown)), v2.UnknownVariant("_x", b'{"type":"_x"}')]
    chunk = look(b'{"sessionUpdate":"agent_message_chunk","messageId":"m","content":' + block + b"}")
    assert chunk.content == unknown
    assert block in v2.encode(chunk)
    form = b'{"type":"object","properties":{"a":' + block + b',"b":{"type":"boolean"}}}'
    assert read("ElicitationSchema", form).properties["a"] == unknown
    request = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[' + block + b"]}}"
    prompt = v2.decode_from_client(request)
    assert isinstance(prompt, v2.Request)
    assert prompt.params.prompt == [unknown]
    assert block in wire.encode(prompt)


SPACE = st.text(" \t\n\r", max_size=2)


@st.composite
def odd_objects(draw: st.DrawFn) -> bytes:
    """An update of an unknown kind with any members in any order, oddly spaced."""
    members = [
        (json.dumps(key), json.dumps(value))
        for key, value in draw(st.dictionaries(st.text(max_size=4), JSON, max_size=4)).items()
    ]
    members = [(key, value) for key, value in members if key != '"sessionUpdate"']
    members.insert(draw(st.integers(0, len(members))), ('"sessionUpdate"', '"_vendor"'))
    inside = ",".join(
        draw(SPACE) + key + draw(SPACE) + ":" + draw(SPACE) + value + draw(SPACE) for key, value in members
    )
    return ("{" + inside + "}").encode()


@settings(max_examples=60)
@given(odd_objects())
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
    assert message.params.update == v2.UnknownVariant("_vendor", one_line)
    assert wire.encode(message) == line_of(one_line) + b"\n"


@pytest.mark.parametrize("half", [b"\\ud83d", b"\\uDE00", b"a\\ud83d b\\ud83d"])
def test_half_a_character_in_an_unknown_variant_is_kept(half: bytes) -> None:
    """H4: such an escape is legal JSON, and its bytes are to come back like any others."""
    raw = b'{"sessionUpdate":"_vendor","t":"' + half + b'"}'
    assert look(raw) == v2.UnknownVariant("_vendor", raw)
    option = b'{"type":"_vendor","configId":"c","name":"' + half + b'"}'
    result = b'{"configOptions":[' + option + b"]}"
    answer = v2.SESSION_SET_CONFIG_OPTION.decode_result(result)
    assert answer.config_options == [v2.UnknownVariant("_vendor", option)]


@pytest.mark.parametrize(("name", "member"), STRICT_EXTRAS)
def test_an_unknown_variant_must_still_have_what_every_kind_has(name: str, member: str) -> None:
    """H4, PN-02, AU-07, CM-03: a plan of an unknown type without its ID could not replace anything."""
    tag, _ = UNIONS[name]
    whole = EXTRAS[name] | {tag: "_vendor"}
    assert isinstance(read(name, whole), v2.UnknownVariant)
    refuse(name, {key: value for key, value in whole.items() if key != member}, "$")
    if member != "value":
        refuse(name, whole | {member: 7.5}, f"$.{member}")
        refuse(name, whole | {member: None}, f"$.{member}")
    else:
        assert read(name, whole | {member: None}).data["value"] is None


@pytest.mark.parametrize(
    ("name", "member"),
    [
        *[("DiffChange", "fileType"), ("DiffChange", "mimeType"), ("DiffChange", "_meta")],
        *[
            ("SessionConfigOption", "description"),
            ("SessionConfigOption", "category"),
            ("SessionConfigOption", "_meta"),
        ],
        *[("CreateElicitationRequest", "toolCallId"), ("CreateElicitationRequest", "_meta")],
        *[("SetSessionConfigOptionRequest", "_meta"), ("CreateElicitationResponse", "_meta")],
    ],
)
def test_a_bad_flagged_member_of_an_unknown_variant_is_kept_with_the_rest(name: str, member: str) -> None:
    """H4, H8: shared members are checked with their flags; the bytes stay as they came."""
    raw = raw_of(EXTRAS.get(name, {}) | {UNIONS[name][0]: "_vendor", member: 7.5})
    assert read(name, raw) == v2.UnknownVariant("_vendor", raw)


# --- open sets of strings ---------------------------------------------------------------------------------------------

OPEN_STRINGS = {
    name: [branch["const"] for branch in node["anyOf"] if "const" in branch]
    for name, node in DEFS.items()
    if "anyOf" in node and {"type": "string"} in [{k: v for k, v in b.items() if k != "title"} for b in node["anyOf"]]
    if any("const" in branch for branch in node["anyOf"])
}


def test_the_open_sets_tried_here_are_all_there_are() -> None:
    """H5: 18 of strings."""
    assert len(OPEN_STRINGS) == 18


@pytest.mark.parametrize("name", OPEN_STRINGS)
def test_an_open_set_takes_any_string_and_only_strings(name: str) -> None:
    """H5: known, custom and future values are plain strings, and come back unchanged."""
    for value in [*OPEN_STRINGS[name], "_vendor", "", "OTHER", "UNKNOWN", "Pending", "date time"]:
        decoded = read(name, json.dumps(value).encode())
        assert (type(decoded), decoded) == (str, value)
        assert sent(decoded) == value
    for bad in (None, 7, 1.0, True, [], {}):
        refuse(name, raw_of(bad))


def test_values_that_sound_like_a_fallback_are_values() -> None:
    """H5: ToolKind `other`, AuthState `unknown` and the state `unknown` are real; the fallback has a name of its own."""
    kind = look({"sessionUpdate": "tool_call_update", "toolCallId": "t", "kind": "other"}).kind
    assert (kind, read("AuthStatusResponse", {"state": "unknown"}).state) == ("other", "unknown")
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

PATCHES: dict[str, tuple[str, dict[str, Any]]] = {
    "ToolCallUpdate": (
        "tool_call_update",
        {
            **{"name": "n", "title": "t", "kind": "read", "status": "failed", "rawInput": [1], "rawOutput": False},
            **{"content": [{"type": "terminal", "terminalId": "t"}], "locations": [{"path": "/a"}], "capabilities": {}},
        },
    ),
    "UserMessage": ("user_message", {"content": [TEXT]}),
    "AgentMessage": ("agent_message", {"content": []}),
    "AgentThought": ("agent_thought", {"content": [TEXT]}),
    "TerminalUpdate": (
        "terminal_update",
        {
            **{"command": "c", "cwd": "/", "output": {"data": ""}, "exitStatus": {}, "size": {"cols": 1, "rows": 1}},
            "capabilities": {"cancel": {}},
        },
    ),
    "SessionInfoUpdate": ("session_info_update", {"title": "t", "updatedAt": "yesterday"}),
    "UsageUpdate": ("usage_update", {"cost": {"amount": 0.5, "currency": "credits"}}),
    "CompactionUpdate": ("compaction_update", {"summary": [TEXT], "error": "e"}),
    "SubagentUpdate": (
        "subagent_update",
        {
            **{"title": "t", "description": "d", "capabilities": {}, "state": {"state": "idle"}, "cwd": "/"},
            "additionalDirectories": ["/b"],
        },
    ),
    "SessionMessage": (
        "session_message",
        {
            **{"senderSessionId": "a", "recipientSessionId": "b", "senderMessageId": "c", "recipientMessageId": "d"},
            "content": [],
        },
    ),
}
"""The 34 fields of requirements C3 in which omitted, null and a value differ: class -> tag, member -> a value."""
IDS: dict[str, Any] = {
    **{"toolCallId": "t", "messageId": "m", "terminalId": "t", "sessionId": "c", "compactionId": "k"},
    **{"used": 1, "size": 2, "status": "failed"},
}
THREE_STATES = [(name, member) for name, (_, members) in PATCHES.items() for member in members]
STRICT = {("SubagentUpdate", "cwd"), ("SubagentUpdate", "additionalDirectories")}
META_PATCHES = sorted(set(PATCHES) - {"UsageUpdate"})


def bare(name: str) -> dict[str, Any]:
    """An update with what it requires and nothing else."""
    return {"sessionUpdate": PATCHES[name][0]} | {key: IDS[key] for key in DEFS[name].get("required", [])}


def attribute(member: str) -> str:
    return "meta" if member == "_meta" else re.sub(r"(?=[A-Z])", "_", member).lower()


def test_the_three_state_fields_tried_here_are_all_there_are() -> None:
    """H6, C3."""
    assert len(THREE_STATES) == 34
    assert len(META_PATCHES) == 9


@pytest.mark.parametrize(("name", "member"), [*THREE_STATES, *[(name, "_meta") for name in META_PATCHES]])
def test_omitted_null_and_a_value_stay_apart(name: str, member: str) -> None:
    """H6, MT-03: on the way in and on the way out."""
    value = PATCHES[name][1].get(member, {"a": None})
    omitted, null, given_ = (look(bare(name) | extra) for extra in ({}, {member: None}, {member: value}))
    attr = attribute(member)
    assert getattr(omitted, attr) is v2.UNSET
    assert getattr(null, attr) is None
    assert getattr(given_, attr) not in (None, v2.UNSET)
    assert len({v2.encode(update) for update in (omitted, null, given_)}) == 3
    assert sent(omitted) == bare(name)
    assert sent(null) == bare(name) | {member: None}
    assert sent(given_) == bare(name) | {member: value}
    assert type(omitted)(**{f: getattr(omitted, f) for f in omitted.__struct_fields__ if f != attr}) == omitted


@pytest.mark.parametrize(("name", "member"), THREE_STATES)
@pytest.mark.parametrize("bad", [7.5, [[]], {"a": 1}, "x", True])
def test_a_malformed_patch_keeps_and_never_clears(name: str, member: str, bad: Any) -> None:
    """H6, H8, MS-12, SA-08: malformed counts as omitted; a child's directories are strict."""
    value = look(bare(name) | {member: bad})
    if (name, member) in STRICT and not (member == "cwd" and bad == "x"):
        assert value is None
    elif member in ("rawInput", "rawOutput") or sent(value).get(member) == bad:
        assert sent(value) == bare(name) | {member: bad}  # not malformed for this member
    elif bad == [[]]:
        assert getattr(value, attribute(member)) in (v2.UNSET, [])  # an array of which every item is skipped
    else:
        assert getattr(value, attribute(member)) is not None
        known = {key: DEFS[name]["properties"].get(key) for key in sent(value)}
        assert sent(value) == bare(name) or (isinstance(bad, dict) and member in known)


def test_a_tool_call_inside_a_permission_is_a_patch_too() -> None:
    """H6, H24, PM-03."""
    call: dict[str, Any] = {"toolCallId": "t", "title": None, "status": 7}
    subject = read("RequestPermissionSubject", {"type": "tool_call", "toolCall": call})
    assert subject.tool_call == v2.ToolCallFields(tool_call_id="t", title=None)
    assert subject.tool_call.status is v2.UNSET
    assert sent(subject) == {"type": "tool_call", "toolCall": {"toolCallId": "t", "title": None}}


PLAIN: list[tuple[str, dict[str, Any], str]] = [
    (
        "PlanUpdate",
        {"sessionUpdate": "plan_update", "plan": {"type": "file", "planId": "p", "uri": "file:///p"}},
        "_meta",
    ),
    ("Notice", {"sessionUpdate": "notice", "severity": "info", "title": "t"}, "description"),
    ("StateUpdate", state(state="idle"), "background"),
    ("StateUpdate", state(state="idle"), "usage"),
    ("ProviderInfo", {"providerId": "p", "supported": [], "required": True}, "current"),
    ("SessionStatusResponse", {"status": "open"}, "state"),
    ("TerminalExitStatus", {}, "exitCode"),
    ("TerminalExitStatus", {}, "signal"),
    ("TerminalOutput", {"data": ""}, "_meta"),
    (
        "RequestPermissionRequest",
        {"sessionId": "s", "title": "t", "options": [{"optionId": "o", "name": "n", "kind": "k"}]},
        "subject",
    ),
    ("ListSessionsResponse", {"sessions": []}, "nextCursor"),
]


@pytest.mark.parametrize(("name", "document", "member"), PLAIN)
def test_where_null_is_the_same_as_omitted_it_is_read_so_and_not_sent(name: str, document: Any, member: str) -> None:
    """H6, C3: easily mistaken for patches."""
    omitted, null = read(name, document), read(name, document | {member: None})
    assert omitted == null
    assert getattr(null, attribute(member)) is None
    assert sent(null) == document


# --- arrays that may be left out --------------------------------------------------------------------------------------

SETUP = {"NewSessionRequest": {"cwd": "/"}, "ForkSessionRequest": {"sessionId": "s", "cwd": "/"}}
SETUP["ResumeSessionRequest"] = SETUP["ForkSessionRequest"]
ON_NULL: list[tuple[str, dict[str, Any], str]] = [
    *[("AuthMethodTerminal", {"type": "terminal", "methodId": "m", "name": "n"}, member) for member in ("args", "env")],
    ("SessionInfo", {"sessionId": "s", "cwd": "/"}, "additionalDirectories"),
    ("McpServerHttp", {"type": "http", "name": "n", "url": "u"}, "headers"),
    *[("McpServerStdio", {"type": "stdio", "name": "n", "command": "/c"}, member) for member in ("args", "env")],
    *[(name, base, member) for name, base in SETUP.items() for member in ("additionalDirectories", "mcpServers")],
]
ON_ERROR: list[tuple[str, dict[str, Any], str]] = [
    ("InitializeResponse", {"protocolVersion": 2, "info": INFO, "capabilities": {}}, "authMethods"),
    *[(name, {"state": "s"}, "accounts") for name in ("AuthStatusResponse", "AuthStatusUpdateNotification")],
    *[
        (name, {"sessionId": "s"}, member)
        for name in ("NewSessionResponse", "ForkSessionResponse")
        for member in ("configOptions", "availableCommands")
    ],
    *[("ResumeSessionResponse", {}, member) for member in ("configOptions", "availableCommands")],
]


@pytest.mark.parametrize(("name", "base", "member"), [*ON_NULL, *ON_ERROR])
def test_an_array_that_is_left_out_is_empty_and_null_is_never_sent(name: str, base: Any, member: str) -> None:
    """H7, SS-08: 12 and 9 fields; null is tolerated, and cannot be said."""
    assert (len(ON_NULL), len(ON_ERROR)) == (12, 9)
    for document in (base, base | {member: None}, base | {member: []}):
        value = read(name, document)
        assert getattr(value, attribute(member)) == []
        assert sent(value) == base
    annotation = next(f.type for f in msgspec.structs.fields(getattr(v2, name)) if f.encode_name == member)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(None, annotation)


@pytest.mark.parametrize(("name", "base", "member"), ON_NULL)
@pytest.mark.parametrize("bad", [7, "x", {}, True, [7.5], [None]])
def test_an_array_that_takes_null_takes_nothing_else(name: str, base: Any, member: str, bad: Any) -> None:
    """H7, C1: default-on-null alone absorbs null alone, and skips no items."""
    refuse(name, base | {member: bad}, f"$.{member}" + ("[0]" if isinstance(bad, list) else ""))


@pytest.mark.parametrize(("name", "base", "member"), ON_ERROR)
@pytest.mark.parametrize("bad", [7, "x", {}, True, [7.5], [None, [], {}]])
def test_a_flagged_array_is_empty_where_it_is_malformed(name: str, base: Any, member: str, bad: Any) -> None:
    """H7, H8: not an array, or an array of which nothing is left."""
    assert getattr(read(name, base | {member: bad}), attribute(member)) == []


# --- flags ------------------------------------------------------------------------------------------------------------

FLAGGED: list[tuple[str, str, dict[str, Any]]] = [
    ("SessionUpdate", "ToolCallUpdate", bare("ToolCallUpdate")),
    ("SessionUpdate", "TerminalUpdate", bare("TerminalUpdate")),
    ("SessionUpdate", "SubagentUpdate", bare("SubagentUpdate")),
    ("SessionUpdate", "SessionMessage", bare("SessionMessage")),
    ("SessionUpdate", "UsageUpdate", bare("UsageUpdate")),
    ("SessionUpdate", "Notice", {"sessionUpdate": "notice", "severity": "info", "title": "t"}),
    ("SessionUpdate", "IdleStateUpdate", state(state="idle")),
    ("SessionUpdate", "UnknownStateUpdate", state(state="unknown")),
    ("ContentBlock", "TextContent", TEXT),
    ("ContentBlock", "ResourceLink", {"type": "resource_link", "name": "n", "uri": "u"}),
    ("DiffChange", "DiffPathPairChange", {"operation": "move", "path": "/a", "oldPath": "/b"}),
    ("DiffChange", "DiffChange", {"operation": "add", "path": "/a"}),
    ("ElicitationPropertySchema", "StringPropertySchema", {"type": "string"}),
    ("ElicitationPropertySchema", "NumberPropertySchema", {"type": "number"}),
    ("Annotations", "Annotations", {}),
    ("Icon", "Icon", {"src": "https:"}),
    ("AgentCapabilities", "AgentCapabilities", {}),
    ("SessionCapabilities", "SessionCapabilities", {}),
    ("AuthAccount", "AuthAccount", {"label": "l"}),
    ("SessionInfo", "SessionInfo", {"sessionId": "s", "cwd": "/"}),
    ("RequestPermissionRequest", "RequestPermissionRequest", PLAIN[9][1]),
]
ON_ERROR_FLAG, SKIP_FLAG = "x-deserialize-default-on-error", "x-deserialize-skip-invalid-items"
ABSORBING = [
    (alias, base, member, "array" in child.get("type", ""))
    for alias, name, base in FLAGGED
    for member, child in DEFS[name]["properties"].items()
    if child.get(ON_ERROR_FLAG) and set(child) != {ON_ERROR_FLAG}  # without a type nothing is malformed
]


@pytest.mark.parametrize(("alias", "base", "member", "array"), ABSORBING)
def test_a_flagged_member_that_does_not_decode_is_as_good_as_left_out(
    alias: str, base: Any, member: str, array: bool
) -> None:
    """H8: one bad member is no reason to refuse the object, nor to touch the others."""
    expected = read(alias, base | {"_meta": {"a": 1}} if member != "_meta" else base)
    bad = 7.5 if array else [[]]
    kept = {} if member == "_meta" else {"_meta": {"a": 1}}
    for document in (
        base | {member: bad} | kept,
        {member: bad, **kept, **base},
        base | kept | {member: bad, "later": 1},
    ):
        assert read(alias, document) == expected
        if alias == "SessionUpdate":
            assert look(document) == expected


def test_a_fault_is_absorbed_where_the_nearest_flag_is() -> None:
    """H8, C1: neither further in, nor further out."""
    link: dict[str, Any] = {
        **{"type": "resource_link", "name": "n", "uri": "u", "size": -1, "title": 7, "mimeType": "m"},
        "annotations": {"priority": 2, "audience": ["user", 7], "lastModified": []},
        "icons": [{"src": "a", "theme": 7}, {"src": 7}, {"src": "b", "sizes": [7, "any"]}],
    }
    expected = v2.ResourceLink(
        name="n",
        uri="u",
        mime_type="m",
        annotations=v2.Annotations(audience=["user"]),
        icons=[v2.Icon(src="a"), v2.Icon(src="b", sizes=["any"])],
    )
    assert read("ContentBlock", link) == expected
    assert look(
        {"sessionUpdate": "user_message", "messageId": "m", "content": [link, TEXT, link | {"uri": 7}]}
    ) == v2.UserMessage(message_id="m", content=[expected, v2.TextContent(text="t")])
    refuse("PromptRequest", {"sessionId": "s", "prompt": [link, {"type": "text"}]}, "$.prompt[1]")
    assert look({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text"}}) is None
    diff = {
        "type": "diff",
        "changes": [{"operation": "add"}, {"operation": "add", "path": "/a", "fileType": 7}],
        "patch": {"format": "git_patch"},
    }
    chunk = look({"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": diff})
    assert chunk.content == v2.Diff(changes=[v2.DiffAdd(path="/a")])


REQUIRED_ON_ERROR: list[tuple[str, dict[str, Any], str, list[Any], Any]] = [
    ("ProviderInfo", {"providerId": "p", "required": True}, "supported", ["openai", 7, "_mine"], ["openai", "_mine"]),
    (
        "SessionConfigSelectGroup",
        {"groupId": "g", "name": "n"},
        "options",
        [OPTION, {"value": 7}],
        [v2.SessionConfigSelectOption(value="v", name="n")],
    ),
    (
        "ListSessionsResponse",
        {},
        "sessions",
        [{"sessionId": "s", "cwd": "/"}, {"sessionId": "s"}],
        [v2.SessionInfo(session_id="s", cwd="/")],
    ),
]


@pytest.mark.parametrize(("name", "base", "member", "items", "kept"), REQUIRED_ON_ERROR)
def test_a_required_array_with_flags_must_be_there_but_may_be_malformed(
    name: str, base: Any, member: str, items: list[Any], kept: Any
) -> None:
    """H9: a default of Python's would make a missing key legal, and would leave `[]` out when it is sent."""
    refuse(name, base, "$")
    for bad in (None, 7, "x", {}, True, [7], []):
        value = read(name, base | {member: bad})
        assert getattr(value, member) == []
        assert sent(value) == base | {member: []}
    assert getattr(read(name, base | {member: items}), member) == kept
    with pytest.raises(TypeError):
        getattr(v2, name)(**{attribute(key): value for key, value in base.items()})


def select(options: Any) -> dict[str, Any]:
    return {"type": "select", "configId": "c", "name": "n", "currentValue": "v", "options": options}


@pytest.mark.parametrize("options", [None, 7, [], [7], [{}]])
def test_an_empty_list_that_was_salvaged_is_not_checked_again(options: Any) -> None:
    """H10: `minItems` is what senders owe."""
    group = v2.SessionConfigSelectGroup(group_id="g", name="n", options=[])
    malformed = GROUP | {"options": options}
    assert read("SessionConfigSelectGroup", malformed) == group
    option = read("SessionConfigOption", select([malformed, GROUP]))
    assert option.options[0] == group
    assert len(option.options[1].options) == 1
    notification = look({"sessionUpdate": "config_option_update", "configOptions": [select([malformed])]})
    assert notification.config_options[0].options == [group]


SKIP_ONLY: list[tuple[str, dict[str, Any], str, Any]] = [
    ("ToolCallContent", {"type": "diff"}, "changes", {"operation": "add", "path": "/a"}),
    ("SetSessionConfigOptionResponse", {}, "configOptions", select([OPTION])),
    (
        "PlanUpdateContent",
        {"type": "items", "planId": "p"},
        "entries",
        {"content": "c", "priority": "high", "status": "pending"},
    ),
    (
        "SessionUpdate",
        {"sessionUpdate": "available_commands_update"},
        "availableCommands",
        {"type": "command", "name": "n", "description": "d"},
    ),
    ("SessionUpdate", {"sessionUpdate": "config_option_update"}, "configOptions", select([OPTION])),
]


@pytest.mark.parametrize(("name", "base", "member", "item"), SKIP_ONLY)
def test_an_array_that_only_skips_items_must_be_an_array(name: str, base: Any, member: str, item: Any) -> None:
    """H11, DF-05: null and other values are errors that must not be hidden; items that do not decode are skipped."""
    refuse(name, base, "$")
    for bad in (None, 7, "x", {}, True):
        refuse(name, base | {member: bad}, f"$.{member}")
    items = getattr(read(name, base | {member: [7, item, None, {}, [item], item]}), attribute(member))
    assert [sent(kept) for kept in items] == [item, item]
    assert getattr(read(name, base | {member: [7]}), attribute(member)) == []


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize(
    "bad", [7, None, [], {}, {"type": 7}, {"type": "terminal"}, {"type": "subagent", "sessionId": None}]
)
def test_one_bad_piece_of_background_work_voids_the_list(name: str, bad: Any) -> None:
    """H12, BG-01: a list with a gap would be a false one; "not reported" is not "nothing runs"."""
    good = {"type": "terminal", "terminalId": "t"}
    for background in ([good, bad], [bad], [bad, good]):
        assert look(state(state=name, background=background)) == v2.StateUpdate(state=cast("Any", name))
    child = look(
        {"sessionUpdate": "subagent_update", "sessionId": "c", "state": {"state": name, "background": [good, bad]}}
    )
    assert child.state == v2.StateSnapshot(state=cast("Any", name))


@pytest.mark.parametrize("name", STATES)
def test_unknown_background_work_is_work_and_an_empty_list_is_a_report(name: str) -> None:
    """H12, BG-01, BG-04."""
    unknown = {"type": "_vendor", "load": 0.5}
    terminal = {"type": "terminal", "terminalId": "t", "_meta": 7}
    value = look(state(state=name, background=[unknown, terminal]))
    assert value.background == [v2.UnknownVariant("_vendor", raw_of(unknown)), v2.BackgroundTerminal(terminal_id="t")]
    assert look(state(state=name, background=[])).background == []
    for missing in (
        look(state(state=name)),
        look(state(state=name, background=None)),
        look(state(state=name, background={})),
    ):
        assert missing.background is None


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_bounds_without_a_flag_are_errors() -> None:
    """H13, NT-03, PL-06: the title of a notice, the options of a permission, an empty prompt."""
    notice = {"sessionUpdate": "notice", "severity": "error"}
    assert look(notice | {"title": ""}) is None
    assert look(notice | {"title": " "}) == v2.Notice(severity="error", title=" ")
    refuse("RequestPermissionRequest", {"sessionId": "s", "title": "t", "options": []}, "$.options")
    refuse("PromptRequest", {"sessionId": "s", "prompt": []}, "$.prompt")
    refuse("SessionConfigOption", select([]), "$.options")
    for member in ("enum", "oneOf"):
        refuse("ElicitationPropertySchema", {"type": "string", member: []}, f"$.{member}")
    refuse("MultiSelectItems", {"type": "string", "enum": []}, "$.enum")
    refuse("MultiSelectItems", {"anyOf": []}, "$.anyOf")


@pytest.mark.parametrize("line", [0, -1, 2**32, 1.5, 1.0, True, "1", []])
def test_a_line_out_of_bounds_is_no_particular_line(line: Any) -> None:
    """H13, TC-16: `line` is flagged and its location stays."""
    location = {"path": "/a", "line": line}
    value = look(
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "locations": [location, {"path": "/b", "line": 1}]}
    )
    assert value.locations == [v2.ToolCallLocation(path="/a"), v2.ToolCallLocation(path="/b", line=1)]
    assert v2.decode(v2.ToolCallLocation, b'{"path":"/a","line":4294967295}').line == 2**32 - 1


@pytest.mark.parametrize("side", [0, -1, 65536, 1.5, True, None, "80"])
def test_a_terminal_size_out_of_bounds_is_dropped_whole(side: Any) -> None:
    """H13, TM-10: `cols` and `rows` have no flags, `size` has; null and unknown are not the same as dropped."""
    for size in ({"cols": side, "rows": 1}, {"cols": 1, "rows": side}, {"cols": 1}):
        value = look({"sessionUpdate": "terminal_update", "terminalId": "t", "cwd": "/", "size": size})
        assert value == v2.TerminalUpdate(terminal_id="t", cwd="/")
        assert value.size is v2.UNSET
    largest = look({"sessionUpdate": "terminal_update", "terminalId": "t", "size": {"cols": 65535, "rows": 1}})
    assert largest.size == v2.TerminalSize(cols=65535, rows=1)


# --- names like keywords ----------------------------------------------------------------------------------------------

KEYWORDS = (
    *("enum", "oneOf", "anyOf", "const", "default", "format", "pattern", "required", "properties", "items", "minimum"),
    *("maximum", "minLength", "maxLength", "minItems", "maxItems", "type", "title", "description", "allOf", "not"),
    *("additionalProperties", "discriminator", "unevaluatedProperties", "nullable"),
)


def test_members_named_like_schema_keywords_decode_like_any_others() -> None:
    """H14: forms describe forms, and a field of a form may be called anything."""
    form: dict[str, Any] = {
        "type": "object",
        "required": ["enum"],
        "properties": {
            "enum": {
                "type": "string",
                "enum": ["a"],
                "format": "_mine",
                "pattern": "(",
                "minLength": 0,
                "default": "a",
            },
            "const": {"type": "integer", "minimum": -1, "maximum": 2, "default": 1},
            "required": {"type": "boolean", "default": False},
            "$ref": {"type": "string", "oneOf": [{"const": "c", "title": "t"}]},
            "properties": {
                "type": "array",
                "minItems": 0,
                "maxItems": 2,
                "items": {"anyOf": [{"const": "c", "title": "t"}]},
            },
            "_meta": {"type": "_vendor", "properties": {"enum": 1}},
        },
    }
    assert sent(read("ElicitationSchema", form)) == form
    assert read("ElicitationSchema", form).properties["properties"].items.any_of[0].const == "c"


@pytest.mark.parametrize("bad", [7, None, "array", "Object", "", [], {}])
def test_the_one_closed_set_is_closed(bad: Any) -> None:
    """H14, EL-16: `type` of a form is `object` and nothing else, in every placement."""
    form = {"type": bad, "properties": {}}
    refuse("ElicitationSchema", form, "$.type")
    request = {"mode": "form", "message": "m", "sessionId": "s", "requestedSchema": form}
    refuse("CreateElicitationRequest", request, "$.requestedSchema.type")
    line = raw_of({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": request})
    message = v2.decode_from_agent(line)
    assert isinstance(message, v2.Malformed)
    assert (message.code, message.id, message.path) == (-32602, 1, "$.params.requestedSchema.type")


@pytest.mark.parametrize(
    "bad",
    [
        *[
            {"type": "string", member: bad}
            for member in ("minLength", "maxLength", "pattern", "format", "enum")
            for bad in (7.5, [])
        ],
        *[{"type": "integer", "minimum": bad} for bad in ("1", 1.0, True, 2**63)],
        *[{"type": "number", "maximum": bad} for bad in ("1", True, [])],
        *[{"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": bad} for bad in (-1, "1", 1.5)],
        {"type": "array"},
    ],
)
def test_bounds_of_form_fields_are_strict(bad: Any) -> None:
    """H14, EL-16: they carry no flag, so a fault in one fails the form, however its field is called."""
    refuse("ElicitationPropertySchema", bad)
    refuse("ElicitationSchema", {"type": "object", "properties": {"enum": bad}})


def test_a_schema_is_walked_by_position(tmp_path: Path) -> None:
    """H14: members called like keywords get attributes, flags and bounds; their names say nothing about the schema."""
    text = {"type": "string", "description": "said"}
    inner = {
        "type": "object",
        "description": "said",
        "properties": dict.fromkeys(KEYWORDS, text),
        "required": ["enum", "not"],
    }
    properties = {
        "enum": {"type": ["array", "null"], "items": text, ON_ERROR_FLAG: True, SKIP_FLAG: True},
        "const": {"anyOf": [{"$ref": "#/$defs/Inner"}, {"type": "null"}]},
        "properties": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Inner"}},
        "required": {"type": "integer", "minimum": 1, ON_ERROR_FLAG: True},
        "description": text,
    }
    outer = {"type": "object", "properties": properties, "required": ["properties"]}
    structure, _ = load.split_prose({"$defs": {"Inner": inner, "Outer": outer}})
    assert set(structure["$defs"]["Inner"]["properties"]) == set(KEYWORDS)
    assert "description" not in structure["$defs"]["Inner"]
    with importable(tmp_path) as directory:
        package = make_package(directory, "traps_keywords", source_of({"$defs": {"Inner": inner, "Outer": outer}}))
        words = {word: word for word in KEYWORDS}
        document = {
            "properties": {"properties": words},
            "const": words,
            "enum": ["a", 7],
            "required": 0,
            "description": "d",
        }
        value = package.decode("Outer", raw_of(document))
        assert json.loads(package.encode(value)) == {key: document[key] for key in document if key != "required"} | {
            "enum": ["a"]
        }
        with pytest.raises(v2.DecodeError):
            package.decode("Inner", b'{"enum":"a"}')


def test_values_inside_a_schema_are_no_schemas() -> None:
    """H14: a default is data; what its members are called says nothing."""
    default = {"description": "kept", "x-docs-ignore": True, "properties": {"description": "kept"}}
    document = {
        "$defs": {
            "A": {"type": "object", "properties": {"a": {"type": "object", "default": default, "description": "prose"}}}
        }
    }
    structure, texts = load.split_prose(document)
    assert structure["$defs"]["A"]["properties"]["a"]["default"] == default
    assert list(texts.values()) == ["prose"]


# --- alternatives without a tag ---------------------------------------------------------------------------------------


def test_options_are_all_bare_or_all_grouped() -> None:
    """H15: told apart by what the items are; a mixture is an error, and skipped where the list around it skips."""
    bare_ = read("SessionConfigOption", select([OPTION, OPTION | {"description": 7, "_meta": []}]))
    assert {type(option) for option in bare_.options} == {v2.SessionConfigSelectOption}
    grouped = read("SessionConfigOption", select([GROUP, GROUP | {"options": [OPTION, 7], "_meta": 7}]))
    assert [type(option) for option in grouped.options] == [v2.SessionConfigSelectGroup] * 2
    assert sent(grouped) == select([GROUP, GROUP])
    for mixed in ([OPTION, GROUP], [GROUP, OPTION], [GROUP, GROUP, OPTION], [OPTION, 7], [GROUP, None], [GROUP, []]):
        refuse("SessionConfigOption", select(mixed))
        options = read(
            "SetSessionConfigOptionResponse", {"configOptions": [select(mixed), select([GROUP])]}
        ).config_options
        assert [sent(option) for option in options] == [select([GROUP])]
    for bad in (
        None,
        7,
        {},
        "x",
        [],
        [7],
        [{}],
        [{"name": "n"}],
        [{"groupId": "g", "name": "n"}],
        [{"value": 7, "name": "n"}],
    ):
        refuse("SessionConfigOption", select(bad))


def test_members_of_the_other_alternative_are_just_unknown() -> None:
    """H15, EX-09: an option with a `groupId` beside its `value` is an option, a group without options is nothing."""
    option = read("SessionConfigOption", select([OPTION | {"groupId": "g"}])).options[0]
    assert option == v2.SessionConfigSelectOption(value="v", name="n")


BAD_IDS = (
    b"1.0",
    b"1e0",
    b"1E2",
    b"1.5",
    b"true",
    b"[]",
    b"{}",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"1e400",
)
GOOD_IDS = (b"1", b"0", b"-1", b'"1"', b'""', b'"true"', b'"null"', b"9223372036854775807", b"-9223372036854775808")


@pytest.mark.parametrize("raw", GOOD_IDS)
def test_an_id_comes_back_with_its_type(raw: bytes) -> None:
    """H16, ER-02: strings and int64, told apart from each other, in requests, answers, errors and cancellations."""
    value = json.loads(raw)
    request = v2.decode_from_client(b'{"jsonrpc":"2.0","id":' + raw + b',"method":"session/list"}')
    assert isinstance(request, v2.Request)
    assert (type(request.id), request.id) == (type(value), value)
    assert b'"id":' + raw in wire.encode(v2.Response(id=request.id, result=v2.ListSessionsResponse(sessions=[])))
    response = v2.decode_from_agent(b'{"jsonrpc":"2.0","id":' + raw + b',"result":{}}')
    assert isinstance(response, v2.Response)
    assert (type(response.id), response.id) == (type(value), value)
    error = v2.decode_from_agent(b'{"jsonrpc":"2.0","id":' + raw + b',"error":{"code":1,"message":"m"}}')
    assert isinstance(error, v2.ErrorResponse)
    assert (type(error.id), error.id) == (type(value), value)
    cancel = v2.CANCEL_REQUEST.decode_params(b'{"requestId":' + raw + b"}")
    assert (type(cancel.request_id), cancel.request_id) == (type(value), value)
    assert v2.encode(cancel) == b'{"requestId":' + raw + b"}"


@pytest.mark.parametrize("raw", [*BAD_IDS, b"null"])
def test_an_id_that_is_neither_string_nor_int64_is_refused(raw: bytes) -> None:
    """H16, X9: a request gets -32600 under null, an answer none at all; True is no 1, and 1.0 is none either."""
    for decode in (v2.decode_from_client, v2.decode_from_agent):
        for method in (b"session/list", b"session/update", b"_mine"):
            request = decode(b'{"jsonrpc":"2.0","id":' + raw + b',"method":"' + method + b'"}')
            assert isinstance(request, v2.Malformed)
            assert (request.code, request.id, request.path) == (-32600, None, "$.id")
        response = decode(b'{"jsonrpc":"2.0","id":' + raw + b',"result":{}}')
        assert isinstance(response, v2.Malformed)
        assert (response.code, response.id) == (None, None)
        cancel = decode(b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":' + raw + b"}}")
        assert isinstance(cancel, v2.Malformed)
        assert (cancel.code, cancel.path) == (None, "$.params.requestId")
        error = decode(b'{"jsonrpc":"2.0","id":' + raw + b',"error":{"code":-32700,"message":"m"}}')
        assert isinstance(error, v2.ErrorResponse if raw == b"null" else v2.Malformed)
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


CONTENT = (
    b'{"a":1,"b":1.0,"c":true,"d":["x"],"e":[1,1.0],"f":null,"g":{"h":{}},"i":"1","j":0.1,"k":-1,"l":9007199254740993}'
)


def test_form_answers_keep_their_types() -> None:
    """H17, EL-17: a boolean is no integer, 1 is not 1.0, and what a custom input answers passes whole."""
    value = read("CreateElicitationResponse", b'{"action":"accept","content":' + CONTENT + b"}")
    types = {key: type(answer) for key, answer in value.content.items()}
    expected: list[type] = [int, float, bool, list, list, type(None), dict, str, float, int, int]
    assert types == dict(zip("abcdefgijkl", expected, strict=True))
    assert [type(item) for item in value.content["e"]] == [int, float]
    assert v2.encode(value) == b'{"action":"accept","content":' + CONTENT + b"}"
    for name, answer in json.loads(CONTENT).items():
        alone = read("ElicitationContentValue", raw_of(answer))
        assert (name, type(alone), alone) == (name, type(answer), answer)


@pytest.mark.parametrize("code", [-32002, -32022, -32603, 0, 1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize(
    "data",
    [{"sessionId": "s"}, {"requested": 1, "supported": [1]}, {"sessionId": 7}, [1, 1.0], "s", True, 0, {}, False],
)
def test_the_data_of_an_error_is_not_given_a_type_by_its_shape(code: int, data: Any) -> None:
    """H18, ER-05: `sessionId` alone proves nothing; only the code decides, and that is the reader's to look at."""
    body = {"code": code, "message": "m", "data": data}
    message = v2.decode_from_agent(raw_of({"jsonrpc": "2.0", "id": 1, "error": body}))
    assert isinstance(message, v2.ErrorResponse)
    assert (type(message.error.data), message.error.data) == (type(data), data)
    idle = look(state(state="idle", stopReason="error", error=body))
    assert (type(idle.error.data), idle.error.data) == (type(data), data)
    assert sent(idle)["error"] == body
    assert sent(read("ErrorData", raw_of(data))) == data


TEXT_OR_BLOB: list[tuple[dict[str, Any], Any]] = [
    ({"uri": "u", "text": "t"}, v2.TextResourceContents(uri="u", text="t")),
    ({"uri": "u", "blob": "b"}, v2.BlobResourceContents(uri="u", blob="b")),
    ({"uri": "u", "text": "t", "blob": "b"}, v2.TextResourceContents(uri="u", text="t")),
    ({"blob": "b", "text": "t", "uri": "u"}, v2.TextResourceContents(uri="u", text="t")),
    ({"uri": "u", "text": "t", "blob": 7}, v2.TextResourceContents(uri="u", text="t")),
    ({"uri": "u", "text": "", "blob": "b"}, v2.TextResourceContents(uri="u", text="")),
    ({"uri": "u", "text": "t", "mimeType": 7, "_meta": 7}, v2.TextResourceContents(uri="u", text="t")),
    ({"uri": "u", "blob": "b", "mimeType": 7, "_meta": 7}, v2.BlobResourceContents(uri="u", blob="b")),
    ({"uri": "u", "blob": "b", "type": "text"}, v2.BlobResourceContents(uri="u", blob="b")),
]


@pytest.mark.parametrize(("document", "expected"), TEXT_OR_BLOB)
def test_a_resource_is_text_or_blob_by_what_it_has(document: Any, expected: Any) -> None:
    """H19: text first where both are there; flags work in either."""
    assert read("EmbeddedResourceResource", document) == expected
    block = read("ContentBlock", {"type": "resource", "resource": document, "annotations": 7})
    assert block == v2.EmbeddedResource(resource=expected)
    chunk = look(
        {
            "sessionUpdate": "agent_message_chunk",
            "messageId": "m",
            "content": {"type": "resource", "resource": document},
        }
    )
    assert chunk.content == block
    assert read("ContentBlock", v2.encode(block)) == block


@pytest.mark.parametrize(
    "bad", [{}, {"uri": "u"}, {"text": "t"}, {"blob": "b"}, {"uri": "u", "text": 7}, {"uri": "u", "blob": 7}, None, []]
)
def test_a_resource_that_is_neither_is_an_error(bad: Any) -> None:
    """H19."""
    refuse("EmbeddedResourceResource", bad, None)
    refuse("ContentBlock", {"type": "resource", "resource": bad})


def test_choices_of_a_form_are_told_apart_by_whether_they_have_a_type() -> None:
    """H20: without one they are titled; `string` is plain; any other string is unknown, `anyOf` or not."""
    titled = {"anyOf": [{"const": "c", "title": "t"}]}
    assert type(read("MultiSelectItems", titled)) is v2.TitledMultiSelectItems
    assert type(read("MultiSelectItems", titled | {"_meta": 7})) is v2.TitledMultiSelectItems
    assert type(read("MultiSelectItems", titled | {"type": "string", "enum": ["a"]})) is v2.StringMultiSelectItems
    for tag in ("_vendor", "titled", "other", "", "String"):
        unknown = read("MultiSelectItems", titled | {"type": tag})
        assert (type(unknown), unknown.tag) == (v2.UnknownVariant, tag)
    refuse("MultiSelectItems", titled | {"type": "string"}, "$")
    refuse("MultiSelectItems", {"enum": ["a"]}, "$")
    refuse("MultiSelectItems", {})
    for items in (titled, {"type": "string", "enum": ["a"]}, {"type": "_vendor", "x": [1.0]}):
        whole = {"type": "array", "items": items}
        assert sent(read("ElicitationPropertySchema", whole)) == whole


MODES: dict[str, dict[str, Any]] = {
    "form": {"requestedSchema": {"type": "object", "properties": {}}},
    "url": {"url": "https:", "elicitationId": "e"},
    "_vendor": {},
}


@pytest.mark.parametrize("mode", MODES)
def test_a_question_has_exactly_one_scope(mode: str) -> None:
    """H21, EL-04: by presence of the key, a null one included; also where the mode is unknown."""
    base = {"mode": mode, "message": "m", **MODES[mode]}
    for scope in ({"sessionId": "s"}, {"requestId": 1}, {"requestId": "1"}, {"sessionId": ""}, {"requestId": 0}):
        value = read("CreateElicitationRequest", base | scope)
        assert sent(value) == base | scope
    both = [{"sessionId": a, "requestId": b} for a, b in itertools.product(("s", None, 7), (1, "1", None, 1.0, True))]
    for scope in (
        {},
        {"toolCallId": "t"},
        {"sessionId": None},
        {"requestId": None},
        {"requestId": 1.0},
        {"requestId": True},
        *both,
    ):
        refuse("CreateElicitationRequest", base | scope)


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_call_goes_with_a_session_only(mode: str) -> None:
    """H21, EX-09: beside a `requestId` it is a member like any unknown one, and a bad one counts as omitted."""
    base = {"mode": mode, "message": "m", **MODES[mode]}
    request, session = (
        read("CreateElicitationRequest", base | scope | {"toolCallId": "t"})
        for scope in ({"requestId": 1}, {"sessionId": "s"})
    )
    bad = read("CreateElicitationRequest", base | {"sessionId": "s", "toolCallId": 7})
    if mode != "_vendor":
        assert (session.tool_call_id, bad.tool_call_id) == ("t", None)
        assert request.tool_call_id is None


def test_a_scope_cannot_be_built_wrongly_either() -> None:
    """H21."""
    build = cast("Any", v2.ElicitationUrlMode)
    for scope in ({}, {"session_id": "s", "request_id": 1}):
        with pytest.raises(ValueError, match="exactly one"):
            build(elicitation_id="e", url="u", message="m", **scope)


MCP_ERROR = {"z": [1.0], "code": 1, "message": "m", "data": None, "_meta": {"a": 1}}


def test_a_null_result_of_mcp_is_a_success() -> None:
    """H22, UN-06: presence decides, whatever the value."""
    for result in (None, False, 0, "", [], {}):
        value = read("MessageMcpResponse", {"result": result})
        assert (type(value.result), value.result, value.error) == (type(result), result, v2.UNSET)
        assert sent(value) == {"result": result}
    failure = read("MessageMcpResponse", {"error": MCP_ERROR, "_meta": 7})
    assert failure.result is v2.UNSET
    assert sent(failure) == {"error": MCP_ERROR}
    for bad in (
        {},
        {"_meta": {}},
        {"error": None},
        {"error": {}},
        {"error": []},
        {"error": {"code": 1.0, "message": "m"}},
        [],
    ):
        refuse("MessageMcpResponse", bad)


@pytest.mark.parametrize("error", [MCP_ERROR, None, {}, 7, {"code": 1}])
@pytest.mark.parametrize("result", [None, {"a": 1}])
def test_where_both_are_there_the_result_counts(error: Any, result: Any) -> None:
    """H22: then there is no error, a good one or a bad one, for anybody who asks."""
    for document in ({"result": result, "error": error}, {"error": error, "result": result}):
        value = read("MessageMcpResponse", document)
        assert value.result == result
        assert value.error is v2.UNSET


def test_an_error_of_mcp_keeps_what_it_brings() -> None:
    """H22: unknown members, null data apart from none, the order of keys."""
    error = v2.decode(v2.McpError, raw_of(MCP_ERROR))
    assert (error.code, error.message, error.data) == (1, "m", None)
    assert v2.encode(error) == raw_of(MCP_ERROR)
    without = v2.decode(v2.McpError, b'{"code":1,"message":"m"}')
    assert without.data is v2.UNSET
    assert sent(without) == {"code": 1, "message": "m"}
    for bad in (
        {"code": 1},
        {"message": "m"},
        {"code": "1", "message": "m"},
        {"code": 2**31, "message": "m"},
        {"code": 1, "message": None},
        None,
    ):
        refuse("McpError", bad)


# --- one body, several tags -------------------------------------------------------------------------------------------

SHARED_BODIES: list[tuple[str, dict[str, str], str, dict[str, Any]]] = [
    (
        "SessionUpdate",
        {
            "user_message_chunk": "UserMessageChunk",
            "agent_message_chunk": "AgentMessageChunk",
            "agent_thought_chunk": "AgentThoughtChunk",
        },
        "ContentChunk",
        {"messageId": "m", "content": TEXT},
    ),
    (
        "DiffChange",
        {"add": "DiffAdd", "delete": "DiffDelete", "modify": "DiffModify"},
        "DiffPathChange",
        {"path": "/a"},
    ),
    ("DiffChange", {"move": "DiffMove", "copy": "DiffCopy"}, "DiffPathPairChange", {"path": "/a", "oldPath": "/b"}),
]


@pytest.mark.parametrize(("union", "classes", "base", "members"), SHARED_BODIES)
def test_one_body_under_several_tags_has_a_class_for_each(
    union: str, classes: dict[str, str], base: str, members: Any
) -> None:
    """H23: and a base that matches them all and has no tag itself."""
    tag = UNIONS[union][0]
    for value, name in classes.items():
        decoded = read(union, {tag: value, **members})
        assert type(decoded) is getattr(v2, name)
        assert isinstance(decoded, getattr(v2, base))
        assert decoded.tag == value
        assert sent(decoded) == {tag: value, **members}
        built = getattr(v2, name)(**{attr: getattr(decoded, attr) for attr in decoded.__struct_fields__})
        assert v2.encode(built) == v2.encode(decoded)
    assert sent(read(base, members)) == members
    assert len({read(union, {tag: value, **members}) for value in classes if union == "DiffChange"} | {0}) == (
        len(classes) + 1 if union == "DiffChange" else 1
    )


def test_a_body_used_with_and_without_tag_neither_demands_nor_sends_it_where_it_has_none() -> None:
    """H24: tool calls inside permissions, states inside subagents and status answers."""
    call: dict[str, Any] = {"toolCallId": "t", "kind": "read"}
    subject = {"type": "tool_call", "toolCall": call}
    assert sent(read("RequestPermissionSubject", subject)) == subject
    tagged = read(
        "RequestPermissionSubject", {"type": "tool_call", "toolCall": {"sessionUpdate": "tool_call_update", **call}}
    )
    assert sent(tagged) == subject  # there the tag is an unknown member
    refuse("SessionUpdate", call, "$")
    update = look({"sessionUpdate": "tool_call_update", **call})
    assert isinstance(update, v2.ToolCallFields)
    assert sent(update)["sessionUpdate"] == "tool_call_update"
    child = {"sessionUpdate": "subagent_update", "sessionId": "c", "state": {"state": "idle", "stopReason": "refusal"}}
    assert sent(look(child)) == child
    status = {"status": "open", "state": {"state": "running"}}
    assert sent(read("SessionStatusResponse", status)) == status
    assert "sessionUpdate" not in sent(read("SessionStatusResponse", status | {"state": state(state="idle")}))["state"]


def test_a_value_is_checked_by_the_type_that_comes_with_it() -> None:
    """H25, CO-04, CO-05: three alternatives with common members, of which the last takes any value."""
    base = {"sessionId": "s", "configId": "c"}
    for kind, value, name in (
        ("id", "v", "SetSessionConfigOptionIdRequest"),
        ("boolean", False, "SetSessionConfigOptionBooleanRequest"),
    ):
        decoded = read("SetSessionConfigOptionRequest", {"type": kind, "value": value, **base})
        assert (type(decoded), decoded.value, decoded.session_id) == (getattr(v2, name), value, "s")
        assert sent(decoded) == {"type": kind, "value": value, **base}
    for kind, bad in (
        ("id", True),
        ("id", None),
        ("id", 7),
        ("boolean", "true"),
        ("boolean", 1),
        ("boolean", 0),
        ("boolean", None),
    ):
        refuse("SetSessionConfigOptionRequest", {"type": kind, "value": bad, **base}, "$.value")
    for value in JUNK:
        raw = raw_of({"type": "number", "value": value, **base})
        assert read("SetSessionConfigOptionRequest", raw) == v2.UnknownVariant("number", raw)
    for kind in ("id", "boolean", "number"):
        refuse("SetSessionConfigOptionRequest", {"type": kind, **base}, "$")
        for member in base:
            refuse("SetSessionConfigOptionRequest", {"type": kind, "value": True, **base, member: 7})
    refuse("SetSessionConfigOptionRequest", {"value": "v", **base}, "$")


@pytest.mark.parametrize("content", JUNK)
def test_content_counts_with_accept_only(content: Any) -> None:
    """H26, EL-06: decline, cancel and unknown actions take no notice of it."""
    for action, name in (("decline", "ElicitationDeclineAction"), ("cancel", "ElicitationCancelAction")):
        value = read("CreateElicitationResponse", {"action": action, "content": content, "_meta": 7})
        assert value == getattr(v2, name)()
        assert sent(value) == {"action": action}
    for action in ("_vendor", "ACCEPT", "accepted", ""):
        unknown = read("CreateElicitationResponse", {"action": action, "content": content})
        assert type(unknown) is v2.UnknownVariant
        assert not isinstance(unknown, v2.ElicitationAcceptAction)
    if content is None or isinstance(content, dict):
        assert read("CreateElicitationResponse", {"action": "accept", "content": content}).content == content
    else:
        refuse("CreateElicitationResponse", {"action": "accept", "content": content}, "$.content")
    assert read("CreateElicitationResponse", {"action": "accept"}) == v2.ElicitationAcceptAction()


@pytest.mark.parametrize(
    ("name", "empty"), [("InitializeRequest", v2.ClientCapabilities()), ("InitializeResponse", v2.AgentCapabilities())]
)
@pytest.mark.parametrize("bad", JUNK)
def test_capabilities_are_never_none(name: str, empty: Any, bad: Any) -> None:
    """H27, IN-08, IN-12: missing, null and malformed all mean that nothing is offered."""
    base = {"protocolVersion": 2, "info": INFO}
    assert read(name, base).capabilities == empty
    assert read(name, base | {"capabilities": bad}).capabilities == empty
    assert getattr(v2, name)(protocol_version=2, info=v2.Implementation(**INFO)).capabilities == empty
    member = "auth"
    nested = read(
        name, base | {"capabilities": {member: {"_meta": bad}, "elicitation": bad, "session": bad}}
    ).capabilities
    assert nested.auth is not None
    assert sent(read(name, base)) in (base, base | {"capabilities": {}})


# --- methods ----------------------------------------------------------------------------------------------------------


def bindings() -> Iterator[tuple[tuple[str, str, str], str, str]]:
    """(method, side, kind), which part, and the definition of it, from the schema alone."""
    for name, node in DEFS.items():
        if "x-method" in node:
            kind = "notification" if name.endswith("Notification") else "request"
            yield (node["x-method"], node["x-side"], kind), "result" if name.endswith("Response") else "params", name


def test_every_binding_of_a_method_is_kept() -> None:
    """H28: definitions that are aliases of others, or equal to others, have methods of their own."""
    methods: Mapping[Any, Any] = v2.METHODS
    for key, part, name in bindings():
        assert getattr(methods[key], part) is getattr(v2, name), (key, part)
    proxy = methods["proxy/initialize", "proxy", "request"]
    assert (proxy.params, proxy.result) == (v2.InitializeRequest, v2.InitializeResponse)
    assert methods["initialize", "agent", "request"] is not proxy
    twins = [
        v2.PromptImageCapabilities,
        v2.PromptAudioCapabilities,
        v2.ArchiveSessionRequest,
        v2.UnarchiveSessionRequest,
    ]
    assert len(set(twins)) == len(twins)


def test_an_alias_keeps_its_own_method_when_generated(tmp_path: Path) -> None:
    """H28: and so does a definition that is equal to another."""

    def part(method: str, side: str) -> dict[str, Any]:
        return {"type": "object", "properties": {"a": {"type": "string"}}, "x-method": method, "x-side": side}

    def alias(of: str, method: str, side: str) -> dict[str, Any]:
        return {"allOf": [{"$ref": f"#/$defs/{of}"}], "x-method": method, "x-side": side}

    defs = {
        **{f"Go{kind}": part("go", "agent") for kind in ("Request", "Response")},
        **{f"Stop{kind}": part("stop", "agent") for kind in ("Request", "Response")},
        **{f"GoProxy{kind}": alias(f"Go{kind}", "go/proxy", "proxy") for kind in ("Request", "Response")},
    }
    with importable(tmp_path) as directory:
        package = make_package(directory, "traps_aliases", source_of({"$defs": defs}))
    methods = package.module.METHODS
    assert set(methods) == {("go", "agent", "request"), ("stop", "agent", "request"), ("go/proxy", "proxy", "request")}
    assert {"GoProxyRequest", "GoProxyResponse", "StopRequest"} <= package.names()
    assert methods["go/proxy", "proxy", "request"].params is methods["go", "agent", "request"].params
    assert methods["stop", "agent", "request"].params is not methods["go", "agent", "request"].params


def test_methods_are_told_apart_by_name_side_and_kind() -> None:
    """H29: exactly those of the schema, each under its own constant."""
    expected = {key for key, _, _ in bindings()}
    assert set(v2.METHODS) == expected
    assert {("mcp/message", "client", "request"), ("mcp/message", "agent", "notification")} <= expected
    assert {("proxy/successor", "proxy", "request"), ("proxy/successor", "proxy", "notification")} <= expected
    for key, method in v2.METHODS.items():
        assert (method.name, method.side, method.kind) == key
    constants = [value for value in vars(v2).values() if isinstance(value, v2.Method)]
    assert sorted(map(id, constants)) == sorted(map(id, v2.METHODS.values()))


def test_one_method_name_means_what_side_and_kind_say() -> None:
    """H29, UN-06: towards the client a request, towards the agent a notification; the other way it is unknown."""
    params = {"serverId": "s", "requestId": "r", "method": "m", "params": None}
    notification = raw_of({"jsonrpc": "2.0", "method": "mcp/message", "params": params})
    request = raw_of({"jsonrpc": "2.0", "id": 1, "method": "mcp/message", "params": params})
    to_client, to_agent = v2.decode_from_agent(request), v2.decode_from_client(notification)
    assert isinstance(to_client, v2.Request)
    assert isinstance(to_agent, v2.Notification)
    assert type(to_client.params) is v2.MessageMcpRequest
    assert type(to_agent.params) is v2.MessageMcpNotification
    for message in (v2.decode_from_agent(notification), v2.decode_from_client(request)):
        assert isinstance(message, v2.Notification | v2.Request)
        assert type(message.params) is msgspec.Raw
        assert json.loads(bytes(message.params)) == params
    successor = {"method": "_inner", "params": [1.0], "_meta": None}
    for decode in (v2.decode_from_agent, v2.decode_from_client):
        first = decode(raw_of({"jsonrpc": "2.0", "id": "1", "method": "proxy/successor", "params": successor}))
        second = decode(raw_of({"jsonrpc": "2.0", "method": "proxy/successor", "params": successor}))
        assert isinstance(first, v2.Request)
        assert isinstance(second, v2.Notification)
        assert first.params == v2.ProxySuccessorRequest(method="_inner", params=[1.0])
        assert second.params == v2.ProxySuccessorNotification(method="_inner", params=[1.0])


# --- text that is no plain text ---------------------------------------------------------------------------------------

BASE64: list[tuple[str, dict[str, Any], str]] = [
    ("ImageContent", {"type": "image", "mimeType": "m"}, "data"),
    ("AudioContent", {"type": "audio", "mimeType": "m"}, "data"),
    ("BlobResourceContents", {"uri": "u"}, "blob"),
    ("TerminalOutput", {}, "data"),
    ("TerminalOutputChunk", {"sessionUpdate": "terminal_output_chunk", "terminalId": "t"}, "data"),
]


@pytest.mark.parametrize(("name", "base", "member"), BASE64)
@pytest.mark.parametrize("text", ["", "aGk=", "aGk", "a-_b", "aG k=\n", "====", "aGk=aGk=", "not base64 \u00e9"])
def test_base64_is_a_string_that_comes_back_as_it_was(name: str, base: Any, member: str, text: str) -> None:
    """H30: whatever its padding, alphabet and spaces; nothing is refused for them."""
    value = read(name, base | {member: text})
    assert (type(getattr(value, member)), getattr(value, member)) == (str, text)
    assert sent(value) == base | {member: text}


@pytest.mark.parametrize(("name", "base", "member"), BASE64)
def test_bytes_are_decoded_on_demand_and_one_by_one(name: str, base: Any, member: str) -> None:
    """H30, TM-07: each chunk is complete in itself; joined strings would end at the first padding."""
    chunks = [read(name, base | {member: text}) for text in ("aGk=", "IQ==", "w4M=", "qQ==", "")]
    assert [getattr(chunk, f"{member}_bytes") for chunk in chunks] == [b"hi", b"!", b"\xc3\x83", b"\xa9", b""]
    assert type(getattr(chunks[0], f"{member}_bytes")) is bytes


FORMATTED: list[tuple[str, dict[str, Any], str]] = [
    ("Annotations", {}, "lastModified"),
    ("SessionInfo", {"sessionId": "s", "cwd": "/"}, "updatedAt"),
    ("SessionInfoUpdate", {"sessionUpdate": "session_info_update"}, "updatedAt"),
    ("ResourceLink", {"type": "resource_link", "name": "n"}, "uri"),
    ("TextResourceContents", {"text": "t"}, "uri"),
    ("McpServerHttp", {"type": "http", "name": "n"}, "url"),
    ("StringPropertySchema", {"type": "string"}, "pattern"),
    ("Icon", {}, "src"),
]


@pytest.mark.parametrize(("name", "base", "member"), FORMATTED)
@pytest.mark.parametrize(
    "text", ["", "not a format", "2026-11-20", "2026-11-20T10:00:00+01:00", "2026-11-20T10:00:00.000Z", "(", "a b"]
)
def test_a_format_is_not_checked_and_its_text_not_changed(name: str, base: Any, member: str, text: str) -> None:
    """H31: times, URIs and patterns are text."""
    value = read(name, base | {member: text})
    assert type(getattr(value, attribute(member))) is str
    assert sent(value) == base | {member: text}


@pytest.mark.parametrize(
    "number", [b"0", b"9007199254740993", b"9223372036854775807", b"9223372036854775808", b"18446744073709551615"]
)
def test_large_numbers_are_exact(number: bytes) -> None:
    """H32, US-02: uint64 is more than float and more than int64."""
    update = b'{"sessionUpdate":"usage_update","used":' + number + b',"size":' + number + b"}"
    value = look(update)
    assert value == v2.UsageUpdate(used=int(number), size=int(number))
    assert v2.encode(value) == update
    link = b'{"type":"resource_link","name":"n","uri":"u","size":' + number + b"}"
    assert read("ContentBlock", link).size == int(number)


@pytest.mark.parametrize("number", [b"1.0", b"1e0", b"1E3", b"1.5", b"-1", b"true", b'"1"', b"[]", b"1e400"])
def test_a_float_is_no_integer_and_absorbed_where_a_flag_allows(number: bytes) -> None:
    """H32: integral or not; without a flag it is an error."""
    assert look(b'{"sessionUpdate":"usage_update","used":' + number + b',"size":1}') is None
    assert read("ContentBlock", b'{"type":"resource_link","name":"n","uri":"u","size":' + number + b"}").size is None
    status = look(
        b'{"sessionUpdate":"terminal_update","terminalId":"t","exitStatus":{"signal":"S","exitCode":' + number + b"}}"
    )
    assert status.exit_status == v2.TerminalExitStatus(signal="S", exit_code=-1 if number == b"-1" else None)
    refuse("InitializeRequest", b'{"info":{"name":"n","version":"1"},"protocolVersion":' + number + b"}")
    refuse("UnsupportedProtocolVersionErrorData", b'{"requested":1,"supported":[1,' + number + b"]}")


def test_int64_has_two_ends() -> None:
    """H32."""
    for number, expected in ((2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)), (2**63, None), (-(2**63) - 1, None)):
        assert read("TerminalExitStatus", {"exitCode": number}).exit_code == expected


# --- `_meta` ----------------------------------------------------------------------------------------------------------

CHUNKS: dict[str, dict[str, Any]] = {
    "ContentChunk": {"messageId": "m", "content": TEXT},
    "AgentMessageChunk": {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": TEXT},
    "ToolCallContentChunk": {
        "sessionUpdate": "tool_call_content_chunk",
        "toolCallId": "t",
        "content": {"type": "terminal", "terminalId": "t"},
    },
    "TerminalOutputChunk": {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": ""},
    "CompactionSummaryChunk": {"sessionUpdate": "compaction_summary_chunk", "compactionId": "k", "content": TEXT},
    "SessionMessageChunk": {"sessionUpdate": "session_message_chunk", "messageId": "m", "content": TEXT},
}


def rule_of(cls: type) -> str:
    """What `meta` means in a class, which its base may say."""
    return next((rule for base in cls.__mro__ if (rule := v2.META_RULES.get(cast("Any", base)))), "")


def test_meta_means_three_things_and_each_class_says_which() -> None:
    """H33, MT-03, MT-04: nine classes are patched by key, five are chunks, the others are plain."""
    for name in [*META_PATCHES, "ToolCallFields"]:
        assert rule_of(getattr(v2, name)) == "patch", name
    for name in CHUNKS:
        assert rule_of(getattr(v2, name)) == "chunk", name
    for name in (
        "PlanUpdate",
        "Notice",
        "UsageUpdate",
        "StateUpdate",
        "TextContent",
        "TerminalOutput",
        "AvailableCommandsUpdate",
    ):
        assert rule_of(getattr(v2, name)) == "", name
    assert (len(META_PATCHES), len(CHUNKS) - 1, len(v2.META_RULES)) == (9, 5, 14)


@pytest.mark.parametrize(("name", "base"), [*CHUNKS.items(), ("TextContent", TEXT), ("Implementation", INFO)])
def test_meta_is_an_attribute_and_null_is_none_of_it(name: str, base: Any) -> None:
    """H33, MT-01: the name without its underscore, on the wire with it; malformed is none."""
    whole = base | {"_meta": {"a": {"b": None}, "": [1.0], "_meta": 1}}
    value = read(name, whole)
    assert value.meta == whole["_meta"]
    assert sent(value) == whole
    for bad in (*JUNK[:6], [[]]):
        assert read(name, base | {"_meta": bad}) == read(name, base)
    assert read(name, base | {"meta": {"a": 1}}).meta is None
    assert read(name, base | {"_meta": {}}).meta == {}
    assert sent(read(name, base | {"_meta": {}})) == base | {"_meta": {}}


# --- classes ----------------------------------------------------------------------------------------------------------

CLASSES = {
    name: cls for name in v2.__all__ if isinstance(cls := getattr(v2, name), type) and issubclass(cls, msgspec.Struct)
}
OWN = {name: cls for name, cls in CLASSES.items() if cls.__module__.endswith(".types")}


def test_classes_are_built_by_keyword() -> None:
    """H34: a base's members and those of its variants mix required and optional ones, so no order can be promised."""
    assert len(OWN) > 150
    for name, cls in OWN.items():
        fields = msgspec.structs.fields(cls)
        for count in range(1, min(3, len(fields)) + 1):
            with pytest.raises(TypeError):
                cls(*["x"] * count)
        assert cls.__match_args__ == (), name
    chunk = v2.SessionMessageChunk(sender_session_id=None, content=v2.TextContent(text="t"), meta={}, message_id="m")
    assert v2.decode(v2.SessionMessageChunk, v2.encode(chunk)) == chunk


def test_shared_members_are_required_in_every_variant() -> None:
    """H34: members that stand beside the branches of a union are members of each, required or not as there."""
    for union, (tag, values) in UNIONS.items():
        for value in values if DEFS[union].get("required") else ():
            for member in DEFS[union]["required"]:
                with pytest.raises(v2.DecodeError, match=member):
                    read(
                        union,
                        {tag: value}
                        | {m: _sample(m) for m in required_of(union, value) if m != member}
                        | {"sessionId": "s"}
                        | ({} if member != "sessionId" else {"sessionId": 7}),
                    )


def _sample(member: str) -> Any:
    return {
        "requestedSchema": {"type": "object", "properties": {}},
        "options": [OPTION],
        "currentValue": "v",
        "value": "v",
    }.get(member, "x")


def test_names_of_the_protocol_hide_none_of_pythons() -> None:
    """H35: they live in a namespace of their own, and a star import of it takes nothing away."""
    assert not set(v2.__all__) & set(dir(builtins))
    assert {"Error", "Content", "Terminal", "Command", "Role", "Diff"} <= set(v2.__all__)
    assert not issubclass(cast("type", v2.Error), BaseException)
    assert issubclass(v2.DecodeError, ValueError)
    assert not {"Error", "Content", "Terminal", "Command", "Role", "Diff"} & set(vars(sys.modules["acpwire"]))
    assert len(v2.__all__) == len(set(v2.__all__))
    assert [name for name in v2.__all__ if not hasattr(v2, name)] == []


# --- titles and `not` lists -------------------------------------------------------------------------------------------

LABELS = ("other", "none", "titled", "unknown")


@pytest.mark.parametrize("label", LABELS)
def test_labels_of_branches_are_no_wire_values(label: str) -> None:
    """H36: as tags they are as unknown as any, unless the schema has them as values too."""
    for name, (tag, values) in UNIONS.items():
        assert label not in values
        raw = raw_of(EXTRAS.get(name, {}) | {"anyOf": [{"const": "c", "title": "t"}], tag: label})
        assert read(name, raw) == v2.UnknownVariant(label, raw)
    assert look(state(state="idle", stopReason=label)).stop_reason == label
    assert isinstance(look(state(state=label)), v2.StateUpdate) is (label == "unknown")


def test_titles_do_not_change_what_is_generated() -> None:
    """H36: they are read to tell branches apart where nothing else does, and go no further."""
    tables = load.read_tables(load.schema_directory())
    document = load.read_pinned(load.schema_directory()).document

    def retitled(node: Any) -> Any:
        if isinstance(node, list):
            return [retitled(item) for item in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        items = cast("dict[str, Any]", node).items()
        return {
            key: f"_{child}" if key == "title" and isinstance(child, str) else retitled(child) for key, child in items
        }

    changed = copy.deepcopy(document)
    for name in changed["$defs"]:
        if name != "ErrorCode":  # its titles become the names of constants
            changed["$defs"][name] = retitled(changed["$defs"][name])
    before, after = (decide.build(source_of(version), tables) for version in (document, changed))
    assert changed["$defs"] != document["$defs"]
    assert (after.structs, after.aliases, after.unions) == (before.structs, before.aliases, before.unions)


def union_schema(listed: list[Any], known: tuple[str, ...] = ("a", "b")) -> dict[str, Any]:
    """A union of `known` tags whose fallback excludes the `listed` ones."""

    def tagged(value: Any) -> dict[str, Any]:
        return {"type": "object", "properties": {"type": {"type": "string", "const": value}}, "required": ["type"]}

    other = {"title": "other", "type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}
    other |= {"additionalProperties": True, "not": {"anyOf": [tagged(value) for value in listed]}}
    body = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    defs = {f"Body{value.upper()}": body for value in known}
    branches = [tagged(value) | {"allOf": [{"$ref": f"#/$defs/Body{value.upper()}"}]} for value in known]
    return {"$defs": {**defs, "Union": {"anyOf": [*branches, other]}}}


@pytest.mark.parametrize("listed", [["a"], ["a", "b", "c"], [], ["a", "a"], ["a", "B"], ["a", None]])
def test_a_list_of_excluded_tags_that_is_not_the_known_tags_stops_the_build(listed: list[Any]) -> None:
    """H37: it would mean that a known tag may be unknown, or that there is a variant nobody has described."""
    tables = load.Tables(docs={}, overrides={}, pinned={})
    with pytest.raises(UnknownIdiomError, match="not"):
        decide.build(source_of(union_schema(listed)), tables)


def test_the_list_of_excluded_tags_adds_nothing(tmp_path: Path) -> None:
    """H37: its order is noise, and the variants come from the branches."""
    tables = load.Tables(docs={}, overrides={}, pinned={})
    one, other = (decide.build(source_of(union_schema(listed)), tables) for listed in (["a", "b"], ["b", "a"]))
    assert (one.structs, one.aliases, one.unions) == (other.structs, other.aliases, other.unions)
    with importable(tmp_path) as directory:
        package = make_package(directory, "traps_not", source_of(union_schema(["a", "b", "c"], ("a", "b", "c"))))
        assert package.decode("Union", b'{"type":"c","text":"t"}').tag == "c"
        assert package.decode("Union", b'{"type":"d"}').raw == b'{"type":"d"}'


# --- validators, stability, identifiers -------------------------------------------------------------------------------

TOLERATED: list[dict[str, Any]] = [
    {"sessionUpdate": "tool_call_update", "toolCallId": "t", "locations": [{"path": "/a", "line": 0}]},
    {"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": [{"type": "text"}]},
    {"sessionUpdate": "terminal_update", "terminalId": "t", "size": {"cols": 0, "rows": 1}},
    {"sessionUpdate": "agent_message", "messageId": "m", "content": 7},
    {"sessionUpdate": "state_update", "state": "idle", "background": [7]},
    {"sessionUpdate": "notice", "severity": "info", "title": "t", "_meta": 7},
    {"sessionUpdate": "available_commands_update", "availableCommands": [7]},
]


@pytest.mark.parametrize("update", TOLERATED)
def test_a_validator_is_stricter_than_the_protocol(update: dict[str, Any]) -> None:
    """H38: what it refuses is received all the same, so it is no tool for receiving."""
    validator = Draft202012Validator({"$defs": DEFS, "$ref": "#/$defs/SessionUpdate"})
    assert not validator.is_valid(update)
    value = look(update)
    assert value is not None
    assert validator.is_valid(sent(value))


def test_a_validator_is_looser_than_the_protocol() -> None:
    """H38, H32: what it takes for an integer is none here."""
    update = {"sessionUpdate": "usage_update", "used": 1.0, "size": 2}
    assert Draft202012Validator({"$defs": DEFS, "$ref": "#/$defs/SessionUpdate"}).is_valid(update)
    assert look(update) is None


def test_words_are_no_structure() -> None:
    """H39: two schemas that differ in descriptions alone are one, and a changed member is a difference."""
    document = json.loads(STABLE.read_text("utf-8"))
    structure, texts = load.split_prose(document)

    def told(node: Any, named: bool) -> Any:
        if isinstance(node, list):
            return [told(item, named=False) for item in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        items = cast("dict[str, Any]", node).items()
        inner = {key: told(child, named=not named and key in ("properties", "$defs")) for key, child in items}
        return inner if named else inner | {"description": "Other words, see https://example.org/other."}

    retold, other_texts = load.split_prose(told(document, named=False))
    assert len(texts) > 1000
    assert set(texts) <= set(other_texts)
    assert load.structure_hash(retold) == load.structure_hash(structure)
    del retold["$defs"]["SessionInfo"]["properties"]["title"]
    assert load.structure_hash(retold) != load.structure_hash(structure)


def test_what_only_the_draft_has_is_what_the_stable_schema_lacks(stable: Any) -> None:
    """H39, SU-02: definitions, members of shared definitions, and methods, compared without their descriptions."""
    old = load.split_prose(json.loads(STABLE.read_text("utf-8")))[0]["$defs"]
    assert set(old) < set(DEFS)
    added = {name for name in DEFS if name not in old}
    classes = {name for name in added if name in v2.__all__}
    members = {
        f"{'StateSnapshot' if name == 'IdleStateUpdate' else name}.{attribute(member)}"
        for name, node in old.items()
        for member in DEFS[name].get("properties", {}).keys() - node.get("properties", {}).keys()
    }
    methods = {node["x-method"] for node in DEFS.values() if "x-method" in node}
    methods -= {node["x-method"] for node in old.values() if "x-method" in node}
    assert {"StateSnapshot.usage", "SessionInfo.archived", "NewSessionRequest.system_prompt"} <= members
    inside = {entry for entry in v2.UNSTABLE if entry.partition(".")[0] in classes and "." in entry}
    assert v2.UNSTABLE - inside == classes | members | methods
    assert {name for name in v2.UNSTABLE if name in stable.names()} == set()
    assert stable.module.UNSTABLE == frozenset()
    fields = {f.encode_name for f in msgspec.structs.fields(stable.type("SessionInfo"))}
    assert fields == set(old["SessionInfo"]["properties"])


def test_a_constant_that_is_no_identifier_is_a_value_like_any_other() -> None:
    """H40: `date-time`."""
    for text in ("date-time", "date", "date_time", "DATE_TIME", "_mine"):
        value = read("ElicitationPropertySchema", {"type": "string", "format": text})
        assert value.format == text
        assert sent(value)["format"] == text
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
    "tag",
    "other",
)


def test_constants_of_any_spelling_give_a_package(tmp_path: Path) -> None:
    """H40: open and closed sets, and tags, however they are spelt."""
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
            raw = raw_of({"open": value, "closed": value})
            decoded = package.decode("Use", raw)
            assert (decoded.open, decoded.closed) == (value, value)
            assert json.loads(package.encode(decoded)) == {"open": value, "closed": value}
        assert package.decode("Use", b'{"open":"later","closed":"class"}').open == "later"
        with pytest.raises(v2.DecodeError):
            package.decode("Use", b'{"open":"later","closed":"later"}')


@pytest.mark.parametrize("title", ["Date-time", "2nd attempt", "class", "Not found!", "-"])
def test_a_named_number_gets_a_name_that_python_takes(title: str, tmp_path: Path) -> None:
    """H40: titles of codes become constants, so a title that gives no identifier needs another name or stops the build."""
    branches = [{"title": "Fine", "type": "integer", "const": 1}, {"title": title, "type": "integer", "const": 2}]
    document = {"$defs": {"Code": {"anyOf": [*branches, {"title": "Other", "type": "integer"}]}}}
    with importable(tmp_path) as directory:
        package = make_package(directory, f"traps_titles_{len(title)}", source_of(document))
    assert vars(package.module)["FINE"] == 1
    names = [name for name, value in vars(package.module).items() if value == 2 and name in package.module.__all__]
    assert len(names) == 1
    assert names[0].isidentifier()


# --- the count --------------------------------------------------------------------------------------------------------


def test_every_trap_is_tried() -> None:
    """Exactly the forty of the requirements, each named by a test's name or docstring."""
    named: dict[str, list[str]] = {}
    for name, test in list(globals().items()):
        if name.startswith("test_") and callable(test):
            for trap in set(re.findall(r"\bH\d+\b", f"{name} {test.__doc__ or ''}")):
                named.setdefault(trap, []).append(name)
    assert set(named) == {f"H{number}" for number in range(1, 41)}
