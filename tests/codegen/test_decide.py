"""What the model decides: classes, defaults, what may be unset, flags, patches, methods.

Owns: `acpwire_codegen.decide`, on made-up schemas, as laws over every schema of the corpus, and for the pinned one
against the lists of the requirements (C2, C3, design 2), which are written out here and not taken from any table.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from acpwire.wire.lenient import ALTERNATIVE, ERROR, NULL, SKIP
from acpwire.wire.v2 import types
from acpwire.wire.v2.unions import FLAGS, META_RULES, PATCHES, UNIONS
from acpwire.wire.values import WireStruct
from acpwire_codegen import load
from acpwire_codegen.decide import build
from acpwire_codegen.dialect import UnknownIdiomError
from acpwire_codegen.model import Member, Model, Struct

ROOT = Path(__file__).parents[2]
PINNED = ROOT / "schema"
CORPUS = sorted((ROOT / "tests" / "corpus" / "schemas").glob("*.json"))
Node = dict[str, Any]
T = TypeVar("T")


@cache
def _model(path: Path | None = None) -> Model:
    """The model of a schema of the corpus, or of the pinned one."""
    return build(load.read_schema(path) if path else load.read_pinned(PINNED), load.read_tables(PINNED))


def _small(overrides: Node | None = None, /, **defs: Node) -> Model:
    """The model of a made-up schema without docs."""
    source = load.Source({"$defs": defs}, {}, "made up", "0" * 64, pinned=False)
    return build(source, load.Tables({}, overrides or {}, {}))


def _struct(model: Model, name: str) -> Struct:
    return next(struct for struct in model.structs if struct.name == name)


def _member(wire: str, node: Node, overrides: Node | None = None, /, **keys: Any) -> Member:
    """How one member of a made-up object `A` is decided."""
    model = _small(overrides, A={"type": "object", "properties": {wire: node}, **keys})
    return next(member for member in _struct(model, "A").members if member.wire == wire)


# --- C3: members for which omitted, null and a value are three things -------------------------------------------------

PATCH_FIELDS = {
    "ToolCallFields": "name title kind status content locations rawInput rawOutput capabilities",
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
X7 = {"SessionMessageChunk": "senderSessionId recipientSessionId"}
RESETS_TO_EMPTY = {
    *("ToolCallFields.content", "ToolCallFields.locations", "UserMessage.content", "AgentMessage.content"),
    *("AgentThought.content", "CompactionUpdate.summary", "SessionMessage.content"),
}
"""C3: null arrays mean empty. Not `SubagentUpdate.additionalDirectories`, where unset inherits (SA-05)."""


def _own(table: Mapping[type[WireStruct], T]) -> dict[type[WireStruct], T]:
    """A table without the variants, which repeat what their body says."""
    return {cls: value for cls, value in table.items() if not any(base in table for base in cls.__mro__[1:])}


def test_a_variant_has_the_rules_of_its_body() -> None:
    """Readers look up the class of an update, whatever it inherits from."""
    assert PATCHES[types.ToolCallUpdate] == PATCHES[types.ToolCallFields]
    assert META_RULES[types.ToolCallUpdate] == META_RULES[types.ToolCallFields] == "patch"
    assert META_RULES[types.AgentMessageChunk] == META_RULES[types.ContentChunk] == "chunk"


def _wire(cls: type[WireStruct], attr: str) -> str:
    return next(field.encode_name for field in msgspec.structs.fields(cls) if field.name == attr)


def test_exactly_the_34_patch_fields_and_the_two_of_x7_are_patches() -> None:
    wanted = {(name, wire) for name, wires in (PATCH_FIELDS | X7).items() for wire in wires.split()}
    assert len(wanted) == 34 + 2
    assert {(cls.__name__, _wire(cls, attr)) for cls, attrs in _own(PATCHES).items() for attr in attrs} == wanted


def test_null_resets_a_kind_to_other_a_status_to_pending_an_array_to_none_and_the_rest_to_nothing() -> None:
    resets = {f"{cls.__name__}.{_wire(cls, a)}": to for cls, attrs in _own(PATCHES).items() for a, to in attrs.items()}
    assert {key for key, to in resets.items() if to == ()} == RESETS_TO_EMPTY
    named = {key: to for key, to in resets.items() if to not in ((), None)}
    assert named == {"ToolCallFields.kind": "other", "ToolCallFields.status": "pending"}


def test_nine_types_patch_their_meta_by_key_and_five_keep_it_to_a_chunk() -> None:
    """MT-03 and MT-04."""
    patch = {
        *("ToolCallFields", "UserMessage", "AgentMessage", "AgentThought", "TerminalUpdate", "SessionInfoUpdate"),
        *("CompactionUpdate", "SubagentUpdate", "SessionMessage"),
    }
    chunk = {
        *("ContentChunk", "ToolCallContentChunk", "TerminalOutputChunk", "CompactionSummaryChunk"),
        "SessionMessageChunk",
    }
    rules = {cls.__name__: rule for cls, rule in _own(META_RULES).items()}
    assert {name for name, rule in rules.items() if rule == "patch"} == patch
    assert {name for name, rule in rules.items() if rule == "chunk"} == chunk
    assert (len(patch), len(chunk), len(rules)) == (9, 5, 14)


def test_beside_patches_only_presence_and_mcp_error_data_tell_omitted_from_null() -> None:
    """Design 2, "Fields": nothing else may be UNSET."""
    wanted = {(name, wire) for name, wires in (PATCH_FIELDS | X7).items() for wire in wires.split()}
    wanted |= {(cls.__name__, "_meta") for cls, rule in _own(META_RULES).items() if rule == "patch"}
    wanted |= {("McpError", "data"), ("MessageMcpResponse", "result"), ("MessageMcpResponse", "error")}
    wanted |= {("ProxySuccessorRequest", "params"), ("ProxySuccessorNotification", "params")}
    scopes = ("ElicitationFormMode", "ElicitationUrlMode", "_CreateElicitationRequestOther")
    wanted |= {(name, wire) for name in scopes for wire in ("sessionId", "requestId")}
    assert {(s.name, m.wire) for s in _model().structs for m in s.members if m.may_be_unset} == wanted


def test_unset_excludes_null_where_null_is_no_value() -> None:
    """The scope of an elicitation is there or not; `error` of a response too (design 2)."""
    assert None not in _types(types.ElicitationFormMode, "session_id")
    assert None not in _types(types.ElicitationUrlMode, "request_id")
    assert None not in _types(types.MessageMcpResponse, "error")
    assert None in _types(types.ToolCallFields, "title")
    assert None in _types(types.UserMessage, "meta")


def _types(cls: type[WireStruct], attr: str) -> list[Any]:
    """What an attribute takes: None where it takes null."""
    found: Any = next(field.type for field in msgspec.structs.fields(cls) if field.name == attr)
    return [None if option is type(None) else option for option in found.__args__]


# --- C2: the flag classes of the draft, whose lists are complete ------------------------------------------------------

C2 = {
    "null, optional array": """
        AuthMethodTerminal.args AuthMethodTerminal.env SessionInfo.additionalDirectories
        NewSessionRequest.additionalDirectories NewSessionRequest.mcpServers McpServerHttp.headers McpServerStdio.args
        McpServerStdio.env ForkSessionRequest.additionalDirectories ForkSessionRequest.mcpServers
        ResumeSessionRequest.additionalDirectories ResumeSessionRequest.mcpServers""",
    "error + skip, optional nullable array": """
        ToolCallUpdate.content ToolCallUpdate.locations Annotations.audience Icon.sizes ResourceLink.icons
        MultiSelectPropertySchema.default UserMessage.content AgentMessage.content AgentThought.content
        CompactionUpdate.summary SessionMessage.content""",
    "error + skip, optional array": """
        InitializeResponse.authMethods AuthStatusResponse.accounts AuthStatusUpdateNotification.accounts
        NewSessionResponse.configOptions NewSessionResponse.availableCommands ForkSessionResponse.configOptions
        ForkSessionResponse.availableCommands ResumeSessionResponse.configOptions
        ResumeSessionResponse.availableCommands""",
    "skip, required": """
        Diff.changes SetSessionConfigOptionResponse.configOptions PlanItems.entries
        AvailableCommandsUpdate.availableCommands ConfigOptionUpdate.configOptions""",
    "error + skip, required": "ProviderInfo.supported SessionConfigSelectGroup.options ListSessionsResponse.sessions",
    "error, optional, any JSON": "ToolCallUpdate.rawInput ToolCallUpdate.rawOutput",
    "error, default": "InitializeRequest.capabilities InitializeResponse.capabilities",
    "strict, nullable": """
        AgentRequest.params AgentNotification.params ClientRequest.params ClientNotification.params ProxyRequest.params
        ProxyNotification.params RequestPermissionRequest.subject ElicitationSchema.required
        StringPropertySchema.minLength StringPropertySchema.maxLength StringPropertySchema.pattern
        StringPropertySchema.format StringPropertySchema.enum StringPropertySchema.oneOf NumberPropertySchema.minimum
        NumberPropertySchema.maximum IntegerPropertySchema.minimum IntegerPropertySchema.maximum
        MultiSelectPropertySchema.minItems MultiSelectPropertySchema.maxItems MessageMcpRequest.params
        MessageMcpNotification.params ProviderInfo.current ListSessionsResponse.nextCursor ListSessionsRequest.cwd
        ListSessionsRequest.cursor ListSessionsRequest.archived ResumeSessionRequest.replayFrom
        NewSessionRequest.systemPrompt ForkSessionRequest.systemPrompt ResumeSessionRequest.systemPrompt
        SubagentUpdate.cwd SubagentUpdate.additionalDirectories ElicitationAcceptAction.content""",
    "strict, optional": """
        SetProviderRequest.headers McpError.data ProxySuccessorRequest.params ProxySuccessorNotification.params""",
}
MASKS = {
    "x-deserialize-default-on-error": ERROR,
    "x-deserialize-default-on-null": NULL,
    "x-deserialize-skip-invalid-items": SKIP,
}
FLAT = ("StateUpdate", "IdleStateUpdate", "RunningStateUpdate", "RequiresActionStateUpdate", "UnknownStateUpdate")
FORMS = ["ElicitationFormMode", "ElicitationUrlMode", "_CreateElicitationRequestOther"]
HOMES = {
    **{place: ["StateSnapshot", "StateUpdate"] for place in (*FLAT, "ErrorStopReason")},
    "ElicitationSessionScope": FORMS,
    "ElicitationRequestScope": FORMS,
    "ToolCallUpdate": ["ToolCallFields", "ToolCallUpdate"],
}
"""Definitions whose members stand in classes of other names (H1, H21, H24)."""


def _properties(node: Node) -> Iterator[tuple[str, Node, bool]]:
    """(name, schema, required) of every member of a definition, its inline branches included (H14)."""
    for name, child in node.get("properties", {}).items():
        if "const" not in child and child.get("type") != "null":  # those tell branches apart
            yield name, child, name in node.get("required", [])
    for key in ("anyOf", "oneOf"):
        for branch in node.get(key, []):
            if branch.get("title") != "other":
                yield from _properties(branch)


def _nullable(node: Node) -> bool:
    kind = node.get("type")
    return isinstance(kind, list) or any(branch.get("type") == "null" for branch in node.get("anyOf", []))


def _class_of(name: str, node: Node, required: bool) -> str:
    """The class of C2 that a member is in, by nothing but its own schema."""
    flags = {flag.split("-on-")[-1].removeprefix("x-deserialize-") for flag in MASKS if node.get(flag)}
    array = "array" in (node.get("type"), *(node["type"] if isinstance(node.get("type"), list) else ()))
    said = " + ".join({"error": "error", "null": "null", "skip-invalid-items": "skip"}[flag] for flag in sorted(flags))
    if name == "_meta":
        return f"{said}, _meta"
    if required:
        return f"{said}, required" if said else "strict, required"
    if "default" in node:
        return f"{said}, default"
    if not said:
        return "strict, nullable" if _nullable(node) else "strict, optional"
    if not {"type", "anyOf", "allOf", "$ref"} & set(node):
        return f"{said}, optional, any JSON"
    if said == "error" and _nullable(node):
        return "error, optional nullable"
    return f"{said}, optional{' nullable' if _nullable(node) else ''}{' array' if array else ''}"


@cache
def _flagged() -> list[tuple[str, str, Node, bool]]:
    document: Node = json.loads((PINNED / load.STRUCTURE).read_bytes())
    found = [(place, *one) for place, node in document["$defs"].items() for one in _properties(node)]
    return [(place, name, node, required) for place, name, node, required in found]


def test_the_flag_classes_of_the_draft_have_the_members_that_c2_lists() -> None:
    found: dict[str, list[str]] = {}
    for place, name, node, required in _flagged():
        found.setdefault(_class_of(name, node, required), []).append(f"{place}.{name}")
    counts = {said: len(members) for said, members in found.items()}
    lists = {said: sorted(members.split()) for said, members in C2.items()}
    assert {said: sorted(found[said]) for said in C2} == lists
    assert counts.pop("error, _meta") == 177
    assert counts.pop("error, optional nullable") == 122
    assert counts.pop("strict, required") > 100
    assert counts == {said: len(members) for said, members in lists.items()}
    totals = Counter(flag for _, _, node, _ in _flagged() for flag in MASKS if node.get(flag))
    assert list(map(totals.get, MASKS)) == [326, 12, 28]


def _homes(place: str) -> list[type[WireStruct]]:
    """The classes in which the members of a definition stand."""
    union = UNIONS.get(place)
    if union is not None and place not in HOMES:
        other = [union.other] if union.other else []
        return [*union.variants.values(), *union.rest, *other]
    return [getattr(types, name) for name in HOMES.get(place, [place])]


def _flag(cls: type, name: str) -> int:
    return next((FLAGS[base][name] for base in cls.__mro__ if name in FLAGS.get(base, {})), 0)


def test_every_class_has_the_flags_of_its_members_and_no_others() -> None:
    dropped = {place for place in load.read_tables(PINNED).overrides["no_class"] if place not in HOMES}
    wanted: dict[tuple[str, str], int] = {}
    for place, name, node, _ in _flagged():
        for cls in [] if place in dropped else _homes(place):
            mask = sum(value for flag, value in MASKS.items() if node.get(flag))
            assert wanted.setdefault((cls.__name__, name), mask) == mask, (place, name)
    for wire in X7["SessionMessageChunk"].split():
        wanted["SessionMessageChunk", wire] = ERROR
    own = {(cls.__name__, name) for cls, flags in FLAGS.items() for name in flags}
    classes = {name: getattr(types, name) for name, _ in wanted if issubclass(getattr(types, name), WireStruct)}
    assert len(classes) > 150
    found = {key: _flag(classes[key[0]], key[1]) & ~ALTERNATIVE for key in wanted if key[0] in classes}
    assert found == {key: mask for key, mask in wanted.items() if key[0] in classes}
    assert own <= {(base.__name__, name) for cls, name in found for base in classes[cls].__mro__}


def test_only_members_that_exclude_each_other_are_alternatives() -> None:
    """H22: a broken `error` is no fault beside a good `result`."""
    found = {(cls.__name__, name) for cls, flags in FLAGS.items() for name, mask in flags.items() if mask & ALTERNATIVE}
    assert found == {("MessageMcpResponse", "result"), ("MessageMcpResponse", "error")}


# --- laws over every schema -------------------------------------------------------------------------------------------

EVERY = [pytest.param(path, id=path.stem if path else "pinned") for path in (None, *CORPUS)]


@pytest.mark.parametrize("path", EVERY)
def test_a_required_member_has_no_default_and_any_other_has_one(path: Path | None) -> None:
    """A default would let a required member be left out on encode (H9)."""
    for struct in _model(path).structs:
        for member in struct.members:
            assert member.required == (not member.default), (struct.name, member.wire)
            assert member.may_be_unset == (member.default == "UNSET")
            if member.patch:
                assert member.may_be_unset


@pytest.mark.parametrize("path", EVERY)
def test_none_stands_only_where_null_is_allowed(path: Path | None) -> None:
    for struct in _model(path).structs:
        for member in struct.members:
            if member.default == "None":
                options = member.hint.get("anyOf", [member.hint])
                assert any("null" in option.get("type", []) for option in options) or not member.hint


@pytest.mark.parametrize("path", EVERY)
def test_every_union_has_two_classes_to_choose_from_or_a_guard(path: Path | None) -> None:
    """A lone tagged class would accept a missing tag (H3)."""
    model = _model(path)
    structs = {struct.name: struct for struct in model.structs}
    guards = {struct.union for struct in model.structs if struct.place.endswith("/guard")}
    assert model.unions
    for union in model.unions:
        assert (union.name in guards) == (len(union.variants) < 2)
        for value, name in union.variants.items():
            assert (structs[name].tag_field, structs[name].tag) == (union.tag_field, value)
            assert structs[name].union == union.name


@pytest.mark.parametrize("path", EVERY)
def test_every_method_is_bound_once_with_what_it_takes_and_gives(path: Path | None) -> None:
    """H28, H29: aliases carry their own method, one name can be several methods."""
    document: Node = json.loads((path or PINNED / load.STRUCTURE).read_bytes())
    wanted: dict[tuple[str, str, str], list[str]] = {}
    for place, node in document["$defs"].items():
        for side in {"both": ["agent", "client"]}.get(node.get("x-side"), [node.get("x-side")]):
            if "x-method" in node:
                kind = "notification" if place.endswith("Notification") else "request"
                wanted.setdefault((node["x-method"], side, kind), []).append(place)
    model = _model(path)
    methods = {(method.name, method.side, method.kind): method for method in model.methods}
    assert len(methods) == len(model.methods) == len({method.constant for method in model.methods})
    assert set(methods) == set(wanted)
    for key, places in wanted.items():
        given = {methods[key].params, methods[key].result} - {"None"}
        assert given == {model.names[place] for place in places}
        assert (methods[key].result == "None") == (key[2] == "notification")


@pytest.mark.parametrize("path", EVERY)
def test_deciding_twice_gives_equal_models(path: Path | None) -> None:
    again = build(load.read_schema(path) if path else load.read_pinned(PINNED), load.read_tables(PINNED))
    assert again == _model(path)


# --- absence, member by member ----------------------------------------------------------------------------------------

TEXT: Node = {"type": "string"}
LIST: Node = {"type": "array", "items": TEXT}
ON_NULL = {"x-deserialize-default-on-null": True}


ABSENT: list[tuple[Node, str]] = [
    (LIST, "[]"),
    (LIST | ON_NULL, "[]"),
    ({"type": "object", "additionalProperties": TEXT}, "{}"),
    (TEXT, "UNSET"),
    ({}, "UNSET"),
    ({"type": "boolean", "default": False}, "False"),
    ({"type": "string", "default": "object"}, "'object'"),
    ({"type": "integer", "default": 3}, "3"),
    (LIST | {"default": []}, "[]"),
]


@pytest.mark.parametrize(("node", "default"), ABSENT)
def test_what_stands_for_an_optional_member_that_is_not_nullable(node: Node, default: str) -> None:
    assert _member("x", node).default == default
    required = _member("x", node, required=["x"])
    assert (required.required, required.default) == (True, "")


@pytest.mark.parametrize("node", [{"type": ["string", "null"]}, {"type": ["array", "null"], "items": TEXT}])
def test_a_nullable_member_is_none_unset_or_a_patch_as_the_tables_say(node: Node) -> None:
    assert _member("x", node, {"plain": {"A": ["x"]}}).default == "None"
    unlisted = _member("x", node)
    assert (unlisted.default, unlisted.patch) == ("UNSET", False)
    patch = _member("x", node, {"three_state": {"A.x": {"reset": "[]"}}})
    assert (patch.default, patch.patch, patch.reset) == ("UNSET", True, "[]")
    assert _member("x", node, {"three_state": {"A.x": {}}}).reset == ""


@pytest.mark.parametrize(("rule", "default"), [("patch", "UNSET"), ("chunk", "None"), ("", "None")])
def test_meta_is_plain_unless_its_rule_is_patch(rule: str, default: str) -> None:
    node = {"type": ["object", "null"], "additionalProperties": True}
    assert _member("_meta", node, {"meta": {"A": {"rule": rule}}} if rule else {}).default == default
    assert _member("_meta", node).attr == "meta"


def test_a_default_object_is_a_fresh_one_of_its_class() -> None:
    """H27: `default: {}` with a class is that class with its own defaults."""
    caps: Node = {"type": "object", "properties": {"on": {"type": "boolean", "default": False}}}

    def default(value: Node) -> str:
        owner: Node = {"type": "object", "properties": {"caps": {"$ref": "#/$defs/Caps", "default": value}}}
        (member,) = _struct(_small(Caps=caps, A=owner), "A").members
        return member.default

    assert default({}) == default({"on": False}) == "field(default_factory=lambda: Caps())"
    assert default({"on": True}) == "field(default_factory=lambda: convert({'on': True}, Caps))"


def test_a_default_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(UnknownIdiomError, match="default"):
        _member("x", LIST | {"default": ["a"]})


@pytest.mark.parametrize("name", ["str", "int", "float", "bool", "tag", "never", "field", "convert"])
def test_a_member_that_would_hide_a_name_of_the_annotations_is_refused(name: str) -> None:
    with pytest.raises(UnknownIdiomError, match=f"/\\$defs/A.*{name}"):
        _small(A={"type": "object", "properties": {name: TEXT}})


def test_two_members_with_one_attribute_are_refused() -> None:
    with pytest.raises(UnknownIdiomError, match="session_id"):
        _small(A={"type": "object", "properties": {"sessionId": TEXT, "session_id": TEXT}})


# --- unions and methods -----------------------------------------------------------------------------------------------


def _branch(value: str, target: str) -> Node:
    tag = {"type": {"type": "string", "const": value}}
    return {"type": "object", "properties": tag, "required": ["type"], "allOf": [{"$ref": f"#/$defs/{target}"}]}


BODY: Node = {"type": "object", "properties": {"text": TEXT}, "required": ["text"]}


def test_one_body_under_several_tags_is_a_base_with_a_class_for_each() -> None:
    """H23: `case v2.ContentChunk()` matches them all."""
    model = _small(Chunk=BODY, Update={"anyOf": [_branch("user_chunk", "Chunk"), _branch("agent_chunk", "Chunk")]})
    base = _struct(model, "Chunk")
    assert (base.tag, base.base) == ("", "")
    for name, tag in (("UserChunk", "user_chunk"), ("AgentChunk", "agent_chunk")):
        variant = _struct(model, name)
        assert (variant.tag_field, variant.tag, variant.base, variant.members) == ("type", tag, "Chunk", ())
        assert [member.wire for member in model.members_of[name]] == ["text"]


def test_a_body_used_with_a_tag_and_without_is_two_classes() -> None:
    """H24: the untagged use must neither emit nor demand the tag."""
    user = {"type": "object", "properties": {"call": {"$ref": "#/$defs/CallUpdate"}}}
    model = _small(CallUpdate=BODY, User=user, Update={"anyOf": [_branch("call_update", "CallUpdate")]})
    assert _struct(model, "CallFields").tag == ""
    assert _struct(model, "CallUpdate").base == "CallFields"
    assert _struct(model, "User").members[0].hint == {"$ref": "#/$defs/CallFields"}


def test_an_open_union_shows_unknown_variants_to_type_checkers_only() -> None:
    other = {
        "title": "other",
        "type": "object",
        "properties": {"type": TEXT},
        "required": ["type"],
        "additionalProperties": True,
        "not": {"anyOf": [{"properties": {"type": {"const": value}}, "required": ["type"]} for value in ("a", "b")]},
    }
    branches = [_branch("a", "A"), _branch("b", "B")]
    closed = _small(A=BODY, B=BODY, U={"anyOf": branches})
    opened = _small(A=BODY, B=BODY, U={"anyOf": [*branches, other]})
    for model, typing in ((closed, "A | B"), (opened, "A | B | UnknownVariant")):
        (alias,) = [alias for alias in model.aliases if alias.name == "U"]
        assert alias.hint == {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}
        assert alias.typing == typing
        assert alias.marked
        assert model.unions[0].open == ("Unknown" in typing)


@pytest.mark.parametrize("open_", [True, False])
def test_an_open_set_of_strings_takes_any_string(open_: bool) -> None:
    """H5: unknown values pass and come back unchanged; a closed set stays closed."""
    consts: list[Node] = [{"type": "string", "const": value} for value in ("low", "high")]
    rest: list[Node] = [{"type": "string", "title": "other"}]
    (alias,) = _small(Level={"anyOf": consts + rest * open_}).aliases
    assert alias.hint == (TEXT if open_ else TEXT | {"enum": ["low", "high"]})
    assert alias.typing == ("Literal['low', 'high'] | str" if open_ else "")


def test_constants_of_integers_become_codes_by_their_titles() -> None:
    consts: list[Node] = [{"type": "integer", "const": -32700, "title": "Parse error", "format": "int32"}]
    model = _small(Code={"anyOf": [*consts, {"type": "integer", "format": "int32", "title": "other"}]})
    assert model.codes == {"PARSE_ERROR": -32700}


def _bound(method: str, side: str = "agent") -> Node:
    return {"type": "object", "properties": {}, "x-method": method, "x-side": side}


def test_a_gate_is_taken_for_its_side_alone() -> None:
    defs = {"GoRequest": _bound("go"), "GoResponse": _bound("go")}
    (method,) = _small({"gates": {"go agent": "go.fast"}}, **defs).methods
    assert (method.gate, method.params, method.result) == ("go.fast", "GoRequest", "GoResponse")
    assert _small({"gates": {"go client": "go.fast"}}, **defs).methods[0].gate == ""


@pytest.mark.parametrize("names", [["GoRequest"], ["GoResponse"], ["GoNotification", "OtherResponse"]])
def test_a_request_without_a_result_or_a_result_without_a_request_is_refused(names: list[str]) -> None:
    with pytest.raises(UnknownIdiomError, match="go"):
        _small(**{name: _bound("go") for name in names})


def test_a_method_for_both_sides_is_two() -> None:
    methods = _small(GoRequest=_bound("go", "both"), GoResponse=_bound("go", "both")).methods
    assert [(method.side, method.constant) for method in methods] == [("agent", "GO_AGENT"), ("client", "GO_CLIENT")]


# --- what `_meta` does is what upstream says it does ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("markers", "rule"), [(("null",), "replace"), (("null", "top-level key"), "patch"), (None, "patch")]
)
def test_meta_is_patched_by_key_only_where_the_words_say_so(markers: tuple[str, ...] | None, rule: str) -> None:
    """X6: before 2.0.0 an object replaced the whole; a schema without its words is taken as the pinned one."""
    meta: Node = {"type": ["object", "null"], "additionalProperties": True}
    document: Node = {"$defs": {"Note": {"type": "object", "properties": {"_meta": meta}}}}
    prose = {} if markers is None else {"/$defs/Note/properties/_meta": load.Prose("0" * 64, markers)}
    source = load.Source(document, prose, "made up", "0" * 64, pinned=False)
    model = build(source, load.Tables({}, {"meta": {"Note": {"rule": "patch", "prose": "0" * 16}}}, {}))
    assert model.meta_rules == {"Note": rule}
    (member,) = model.structs[0].members
    assert member.may_be_unset
