"""The generated package: every type there and back, held against the schema; methods, examples, recordings, names.

Instances come from the generator's model and are checked by `jsonschema`; plain JSON comes from the schema and is
checked by what decoding and encoding must leave of it. The table of methods is requirement B1, written out.
"""

from __future__ import annotations

import copy
import functools
import importlib
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acpwire import v2, wire
from acpwire.wire import v2 as generated
from acpwire.wire.v2 import unions
from acpwire_codegen import load
from acpwire_codegen.model import Struct
from tests.models import strategies
from tests.models.strategies import compact, is_array, is_object, public, type_of

Draft202012Validator: Any = importlib.import_module("jsonschema").Draft202012Validator  # its types are not installed
CORPUS = Path(__file__).parents[1] / "corpus"
NAMES = sorted(public())
CLASSES = [name for name, entry in public().items() if isinstance(entry, Struct)]
BRIEFLY = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""There are hundreds of types; a shared machine may be slow at any one of them."""

every_type = pytest.mark.parametrize("name", NAMES)


def walk(value: Any) -> Iterator[Any]:
    """A value and everything inside it."""
    yield value
    inner: list[Any] = []
    if isinstance(value, msgspec.Struct):
        inner = [getattr(value, attr) for attr in value.__struct_fields__]
    elif is_object(value):
        inner = list(value.values())
    elif is_array(value):
        inner = value
    for child in inner:
        yield from walk(child)


def exact(document: Any) -> str:
    """JSON as text, in which 1, 1.0 and true differ and the order of members does not matter."""
    return json.dumps(document, sort_keys=True)


# --- against the schema ----------------------------------------------------------------------------------------------


def refused_by_schema(node: Mapping[str, Any], document: Any) -> list[str]:
    """Why a node of the schema refuses a document; formats are annotations (H38)."""
    validator = _validator(json.dumps(node))
    return [error.message for error in validator.iter_errors(document)]


@functools.cache
def _validator(node: str) -> Any:
    return Draft202012Validator({**json.loads(node), "$defs": strategies.schema()["$defs"]})


def test_every_definition_and_every_public_name_of_the_model_is_among_the_types_tested() -> None:
    """The ids of the tests below: classes and aliases, less guards and fallbacks, which are private."""
    model = strategies.model()
    assert set(NAMES) == {*(s.name for s in model.structs if s.name[0] != "_"), *(a.name for a in model.aliases)}
    hidden = {struct.name for struct in model.structs if struct.name.startswith("_")}
    assert {name.removeprefix("_") for name in hidden} == (
        {f"{union.name}Guard" for union in model.unions if len(union.variants) == 1}
        | {union.fallback.removeprefix("_") for union in model.unions if union.fallback}
    )
    without_class = set(load.read_tables(load.schema_directory()).overrides["no_class"])
    reached = {*NAMES, *(s.place for s in model.structs)}
    assert set(strategies.schema()["$defs"]) - without_class <= reached


@every_type
@BRIEFLY
@given(data=st.data())
def test_an_instance_is_valid_on_the_wire_and_comes_back_equal(name: str, data: st.DataObject) -> None:
    """H3, H6, H7, H22 to H26: encode, check against the schema, decode, encode again."""
    value = data.draw(strategies.instances(name))
    raw = v2.encode(value)
    document = json.loads(raw)
    assert refused_by_schema(strategies.node_of(name), document) == []
    entry = public()[name]
    if isinstance(entry, Struct) and entry.union:
        assert refused_by_schema({"$ref": f"#/$defs/{entry.union}"}, document) == []
        inside_its_union = v2.decode(type_of(entry.union), raw)
        assert inside_its_union.__class__ is value.__class__
        assert inside_its_union == value
    back = v2.decode(type_of(name), raw)
    assert back.__class__ is value.__class__
    assert back == value
    assert v2.encode(back) == raw


@every_type
@settings(BRIEFLY, max_examples=3)
@given(data=st.data())
def test_a_decoded_value_is_a_value(name: str, data: st.DataObject) -> None:
    """Copies are equal and of the same class; hashing works unless a member is a list or a dict; repr is short."""
    value = v2.decode(type_of(name), v2.encode(data.draw(strategies.instances(name))))
    for other in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):  # noqa: S301  # our own
        assert other.__class__ is value.__class__
        assert other == value
        assert (other != value) is False
        assert v2.encode(other) == v2.encode(value)
    if any(isinstance(inner, list | dict) for inner in walk(value)):
        with pytest.raises(TypeError, match="unhashable"):
            hash(value)
    else:
        assert hash(copy.deepcopy(value)) == hash(value)
    if isinstance(value, msgspec.Struct):
        assert repr(value) == short_repr(value)


def short_repr(value: msgspec.Struct) -> str:
    """Class and members, less those that are None, UNSET or empty by default."""
    shown: list[str] = []
    for field in msgspec.structs.fields(value):
        member = getattr(value, field.name)
        empty = field.default_factory in (list, dict) and member in ([], {})
        if member is not field.default and not empty:
            shown.append(f"{field.name}={member!r}")
    return f"{value.__class__.__name__}({', '.join(shown)})"


@every_type
@BRIEFLY
@given(data=st.data())
def test_valid_json_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    """EX-03, EX-09, H4, H6, H7, H15, H17, H19, H20, H27: `strategies.reencoded` says what may differ."""
    document = data.draw(strategies.documents(name))
    raw = data.draw(st.sampled_from(strategies.LAYOUTS))(document)
    assert refused_by_schema(strategies.node_of(name), document) == [], "the strategy is wrong"
    value = v2.decode(type_of(name), raw)
    again = v2.encode(value)
    kept = strategies.reencoded(name, document)
    if not isinstance(value, v2.UnknownVariant) and is_object(kept):
        kept = {**kept, **strategies.tag_in(name)}
    assert exact(json.loads(again)) == exact(kept)
    assert b"\n" not in again
    for unknown in walk(value):
        if isinstance(unknown, v2.UnknownVariant):
            assert unknown.raw in raw
            assert unknown.raw.replace(b"\n", b" ") in again


# --- the schema and the strict decoder -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A document, with what a validator and the strict decoder say against it."""

    name: str
    document: Any
    by_schema: list[str]
    by_decoder: str

    def objects(self) -> list[dict[str, Any]]:
        """Every object in the document."""
        return [value for _, value in strategies.places(self.document) if isinstance(value, dict)]

    def decoded(self) -> list[Any]:
        """What the second look makes of it, and everything inside."""
        try:
            return list(walk(v2.decode(type_of(self.name), compact(self.document))))
        except v2.DecodeError:
            return []


def judged(name: str, document: Any) -> Case:
    """A document before both judges."""
    said = ""
    try:
        unions.DECODING.strict(type_of(name)).decode(compact(document))
    except msgspec.ValidationError as error:
        said = str(error)
    return Case(name, document, refused_by_schema(strategies.node_of(name), document), said)


def unknown_tag(case: Case) -> bool:
    """H3: the strict decoder knows the listed variants alone; the second look keeps the others."""
    return any(isinstance(value, v2.UnknownVariant) for value in case.decoded())


def whole_float(case: Case) -> bool:
    """H32: 1.0 is an integer by JSON Schema and none for us."""
    floats = [value for _, value in strategies.places(case.document) if isinstance(value, float)]
    return any(map(float.is_integer, floats)) and "Expected `int" in case.by_decoder and "`float`" in case.by_decoder


def beyond_the_format(case: Case) -> bool:
    """H38: int32 and int64 are annotations by JSON Schema and bounds for us."""
    numbers = [value for _, value in strategies.places(case.document) if value.__class__ is int]
    return any(abs(value) >= 2**31 - 1 for value in numbers) and "Expected `int` " in case.by_decoder


def second_alternative(case: Case) -> bool:
    """H15, H19, H20: of alternatives without a tag the strict decoder knows the first."""
    rest = (v2.BlobResourceContents, v2.SessionConfigSelectGroup, v2.TitledMultiSelectItems)
    return any(isinstance(value, rest) for value in case.decoded())


def member_of_another_state(case: Case) -> bool:
    """X4: states share one flat object, in which members of the others are known and flagged as well."""
    idle = {"usage", "stopReason", "error"}
    others = {"running": idle, "requires_action": idle, "unknown": idle, "idle": {"error"}}
    return any(it.get("state") == state and known & set(it) for it in case.objects() for state, known in others.items())


def two_scopes(case: Case) -> bool:
    """H21, EL-04: a scope is there when its key is, be it null; and `toolCallId` is known in both."""
    return any("requestId" in it and {"sessionId", "toolCallId"} & set(it) for it in case.objects())


def two_outcomes(case: Case) -> bool:
    """H22: beside a valid `result` a bad `error` does not matter, and the other way round."""
    return any({"result", "error"} <= set(it) for it in case.objects())


RULES = (
    unknown_tag,
    whole_float,
    beyond_the_format,
    second_alternative,
    member_of_another_state,
    two_scopes,
    two_outcomes,
)
"""How the strict decoder may be stricter than a validator, which judges by the schema without our decisions."""

URL = {"mode": "url", "message": "m", "elicitationId": "e", "url": "u"}
OPTION = {"value": "v", "name": "n"}
CASES: list[tuple[str, Any]] = [
    ("EmbeddedResourceResource", {"blob": "AA==", "uri": "u"}),
    ("SessionConfigSelectOptions", [{"groupId": "g", "name": "n", "options": [OPTION]}]),
    ("MultiSelectItems", {"anyOf": [{"const": "c", "title": "t"}]}),
    ("AnyStateSnapshot", {"state": "running", "stopReason": 7}),
    ("SessionUpdate", {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn", "error": 7}),
    ("CreateElicitationRequest", {**URL, "requestId": 1, "sessionId": None}),
    ("CreateElicitationRequest", {**URL, "requestId": 1, "toolCallId": 7}),
    ("MessageMcpResponse", {"result": None, "error": 7}),
]
"""Documents that a single fault in an ordinary one does not lead to."""


@functools.cache
def cases() -> Mapping[str, list[Case]]:
    """Documents that both judges take, each with one fault, by type; always the same ones."""
    found: dict[str, list[Case]] = {name: [] for name in NAMES}
    for name, document in CASES:
        found[name].append(judged(name, document))
    for name in NAMES:
        for document in strategies.samples(strategies.documents(name), 4):
            if not judged(name, document).by_decoder:
                faults = list(strategies.mutations(document))
                step = max(1, len(faults) // 12)
                found[name] += [judged(name, fault.document) for fault in faults[::step]]
    return found


@every_type
def test_what_a_validator_refuses_a_strict_decode_refuses(name: str) -> None:
    """H8, H11, H13, H16, EL-16: flags are the second look's business; the strict one is as strict as the schema."""
    for case in cases()[name]:
        assert not case.by_schema or case.by_decoder, case


@every_type
def test_what_a_validator_takes_a_strict_decode_takes_but_for_one_known_reason(name: str) -> None:
    """The reasons are `RULES`, one for each case."""
    for case in cases()[name]:
        if case.by_decoder and not case.by_schema:
            assert [rule.__name__ for rule in RULES if rule(case)] != [], case
            assert len([rule for rule in RULES if rule(case)]) == 1, case


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_known_reason_is_needed(rule: Callable[[Case], bool]) -> None:
    """A rule that matches nothing would hide a change."""
    every = [case for name in NAMES for case in cases()[name] if case.by_decoder and not case.by_schema]
    assert any(rule(case) for case in every)


# --- methods ---------------------------------------------------------------------------------------------------------

B1 = """
auth/login                 | agent    | request      | LoginAuthRequest                | stable   | some authMethods
auth/logout                | agent    | request      | LogoutAuthRequest               | stable   | some authMethods
auth/status                | agent    | request      | AuthStatusRequest               | unstable | auth.status
initialize                 | agent    | request      | InitializeRequest               | stable   | none
mcp/message                | agent    | notification | MessageMcpNotification          | unstable | session.mcp.acp
providers/disable          | agent    | request      | DisableProviderRequest          | unstable | providers
providers/list             | agent    | request      | ListProvidersRequest            | unstable | providers
providers/set              | agent    | request      | SetProviderRequest              | unstable | providers
session/archive            | agent    | request      | ArchiveSessionRequest           | unstable | session.archive
session/cancel             | agent    | notification | CancelSessionNotification       | stable   | session
session/close              | agent    | request      | CloseSessionRequest             | stable   | session
session/delete             | agent    | request      | DeleteSessionRequest            | stable   | session.delete
session/fork               | agent    | request      | ForkSessionRequest              | unstable | session.fork
session/list               | agent    | request      | ListSessionsRequest             | stable   | session
session/new                | agent    | request      | NewSessionRequest               | stable   | session
session/prompt             | agent    | request      | PromptRequest                   | stable   | session
session/resume             | agent    | request      | ResumeSessionRequest            | stable   | session
session/set_config_option  | agent    | request      | SetSessionConfigOptionRequest   | stable   | options advertised
session/set_title          | agent    | request      | SetSessionTitleRequest          | unstable | session.title
session/status             | agent    | request      | SessionStatusRequest            | unstable | session.status
session/unarchive          | agent    | request      | UnarchiveSessionRequest         | unstable | session.archive
terminal/cancel            | agent    | request      | CancelTerminalRequest           | stable   | capabilities.cancel
tool_call/cancel           | agent    | request      | CancelToolCallRequest           | stable   | capabilities.cancel
auth/status_update         | client   | notification | AuthStatusUpdateNotification    | unstable | auth.status
elicitation/complete       | client   | notification | CompleteElicitationNotification | stable   | elicitation.url
elicitation/create         | client   | request      | CreateElicitationRequest        | stable   | elicitation.*
mcp/message                | client   | request      | MessageMcpRequest               | unstable | session.mcp.acp
session/request_permission | client   | request      | RequestPermissionRequest        | stable   | baseline Client
session/update             | client   | notification | UpdateSessionNotification       | stable   | baseline Client
$/cancel_request           | protocol | notification | CancelRequestNotification       | stable   | none
proxy/initialize           | proxy    | request      | InitializeProxyRequest          | unstable | proxy role
proxy/successor            | proxy    | request      | ProxySuccessorRequest           | unstable | proxy role
proxy/successor            | proxy    | notification | ProxySuccessorNotification      | unstable | proxy role
"""
"""Requirements B1, less the results: a request's is called like its params, with Response for Request."""

GATES = {
    "none": "",
    "proxy role": "",
    "baseline Client": "",
    "some authMethods": "authMethods",
    "elicitation.*": "elicitation",
    "options advertised": "session",
    "capabilities.cancel": "session",
}
"""What B1 says of a gate that is no capability -> the capability; an entity of a session comes with sessions."""


@dataclass(frozen=True)
class Row:
    """One line of B1."""

    name: str
    side: Any
    kind: Any
    params: str
    stability: str
    gate: str

    @property
    def method(self) -> v2.Method[Any, Any]:
        """The method that the package has for it."""
        return v2.METHODS[self.name, self.side, self.kind]

    @property
    def result(self) -> str:
        """The definition of its result."""
        return self.params.removesuffix("Request") + "Response"

    def decoders(self) -> list[Callable[[bytes], wire.Message]]:
        """How those read it whom it may come to."""
        sides: dict[str, list[Callable[[bytes], wire.Message]]] = {
            "agent": [v2.decode_from_client],
            "client": [v2.decode_from_agent],
        }
        return sides.get(self.side, [v2.decode_from_client, v2.decode_from_agent])


ROWS = [Row(*(cell.strip() for cell in line.split("|"))) for line in B1.strip().splitlines()]
every_method = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name} {row.side} {row.kind}")


def test_the_methods_are_those_of_the_table() -> None:
    """B1, H29: one name can be several methods."""
    assert len(ROWS) == 33
    assert set(v2.METHODS) == {(row.name, row.side, row.kind) for row in ROWS}


@every_method
def test_a_method_is_what_the_table_says(row: Row) -> None:
    """B1, H28."""
    method = row.method
    assert (method.name, method.side, method.kind) == (row.name, row.side, row.kind)
    assert method.params == type_of(row.params)
    assert method.result == (type_of(row.result) if row.kind == "request" else None)
    assert method.stable == (row.stability == "stable")
    assert method.gate == GATES.get(row.gate, row.gate)
    assert row.name in repr(method)


@every_method
@BRIEFLY
@given(data=st.data())
def test_a_message_of_a_method_comes_back_equal(row: Row, data: st.DataObject) -> None:
    """A line that was encoded from params decodes to the same message, in every direction that it may travel."""
    params = data.draw(strategies.instances(row.params))
    identifier = data.draw(strategies.instances("RequestId"))
    message: v2.Notification[Any] | v2.Request[Any] = (
        v2.Request(id=identifier, method=row.name, params=params)
        if row.kind == "request"
        else v2.Notification(method=row.name, params=params)
    )
    line = wire.encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    if row.kind == "notification":
        assert row.method.notification(params) == line, "the shorter way to the same line"
    for decode in row.decoders():
        back = decode(line.removesuffix(b"\n"))
        assert back == message
        assert back.__class__ is message.__class__
        assert isinstance(back, v2.Request | v2.Notification)
        assert back.params.__class__ is params.__class__


@every_method
@BRIEFLY
@given(data=st.data())
def test_a_result_stays_raw_until_its_method_decodes_it(row: Row, data: st.DataObject) -> None:
    """Design 4: a response does not name its method."""
    if row.kind == "notification":
        assert row.method.result is None
        return
    result = data.draw(strategies.instances(row.result))
    line = wire.encode(v2.Response(id=1, result=result))
    for decode in (v2.decode_from_agent, v2.decode_from_client):
        back = decode(line.removesuffix(b"\n"))
        assert isinstance(back, v2.Response)
        assert bytes(back.result) == v2.encode(result)
        assert row.method.decode_result(back.result) == result


@every_method
def test_absent_and_null_params_are_read_as_an_empty_object(row: Row) -> None:
    """ER-10: so only methods without required params accept them."""

    def outcome(raw: bytes) -> Any:
        try:
            return row.method.decode_params(raw)
        except v2.DecodeError as error:
            return error.message, error.path

    def without(member: str) -> wire.Message:
        head = '"id":1,' if row.kind == "request" else ""
        return row.decoders()[0](f'{{"jsonrpc":"2.0",{head}"method":"{row.name}"{member}}}'.encode())

    empty = outcome(b"{}")
    assert outcome(b"") == outcome(b"null") == empty
    for member in ("", ',"params":null', ',"params":{}'):
        message = without(member)
        if isinstance(empty, tuple):
            assert isinstance(message, v2.Malformed)
            assert message.code == (-32602 if row.kind == "request" else None)
            assert message.path.startswith("$.params")
        else:
            assert isinstance(message, v2.Request | v2.Notification)
            assert message.params == empty


@every_method
def test_a_method_is_typed_only_where_it_is_handled(row: Row) -> None:
    """H29: the same name from the other side is another method, or none."""
    other = v2.decode_from_agent if row.side == "agent" else v2.decode_from_client
    if row.side not in ("agent", "client"):
        assert len(row.decoders()) == 2
        return
    kind = '"id":1,' if row.kind == "request" else ""
    message: wire.Message = other(f'{{"jsonrpc":"2.0",{kind}"method":"{row.name}","params":{{"x":[1]}}}}'.encode())
    assert isinstance(message, v2.Request | v2.Notification)
    assert bytes(message.params) == b'{"x":[1]}'


# --- examples and recordings -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """One example of a page, with what its manifest says about it."""

    text: str
    kind: str
    method: str | None
    definition: str | None
    valid: bool | None
    why: str

    @property
    def document(self) -> Any:
        """The example as JSON."""
        return json.loads(self.text)


def examples() -> dict[str, Example]:
    """File name -> example, of the page and of the documentation."""
    found: dict[str, Example] = {}
    for directory in ("spec-examples", "docs-examples"):
        for entry in json.loads((CORPUS / directory / "manifest.json").read_text("utf-8")):
            text = (CORPUS / directory / entry["file"]).read_text("utf-8")
            found[entry["file"]] = Example(
                text, entry["kind"], entry["method"], entry["def"], entry["valid"], entry["why"]
            )
    return found


EXAMPLES = examples()
VALID = {name: example for name, example in EXAMPLES.items() if example.valid}
NOT_VALID = {name: example for name, example in EXAMPLES.items() if not example.valid}


def read_both_ways(line: bytes) -> list[wire.Message]:
    """A line as either side would read it."""
    return [v2.decode_from_agent(line), v2.decode_from_client(line)]


def typed_parts(example: Example) -> list[tuple[str, Any]]:
    """The parts of an example that a definition describes, each with its name."""
    member = {"request": "params", "notification": "params", "response": "result", "fragment": ""}[example.kind]
    document = example.document
    if example.definition == "Error":
        member = "error"
    part = document[member] if member else document
    return [(name, part) for name in (example.definition or "").split("|") if name]


@pytest.mark.parametrize("name", VALID)
def test_a_valid_example_comes_back_as_it_was(name: str) -> None:
    """Every example of the page, and of the documentation: as a message, and what it carries by its definition."""
    example = VALID[name]
    if example.kind != "fragment":
        line = example.text.replace("\n", " ").encode()
        message = next(read for read in read_both_ways(line) if not carries_raw(read, example))
        assert not isinstance(message, v2.Malformed)
        again = wire.encode(message)
        assert message in read_both_ways(again.removesuffix(b"\n"))
    for definition, part in typed_parts(example):
        value = v2.decode(type_of(definition), compact(part))
        assert v2.decode(type_of(definition), v2.encode(value)) == value
        kept = strategies.reencoded(definition, part)
        assert exact(json.loads(v2.encode(value))) == exact(kept)


def carries_raw(message: wire.Message, example: Example) -> bool:
    """Whether it was read by the side that does not handle it."""
    known = any(name == example.method for name, _, _ in v2.METHODS)
    return known and isinstance(message, v2.Request | v2.Notification) and isinstance(message.params, msgspec.Raw)


MISSING = {
    "0022_response.json": ("InitializeResponse", "info"),
    "0025_request-initialize.json": ("InitializeRequest", "info"),
    "0038_fragment.json": ("InitializeRequest", "protocolVersion"),
    "0046_response.json": ("InitializeResponse", "info"),
    "0055_response.json": ("InitializeResponse", "info"),
    "0071_response.json": ("InitializeResponse", "info"),
    "0078_fragment.json": ("RequestPermissionRequest", "sessionId"),
}
"""Examples that leave out what the schema requires: the type they show, and the member."""


def test_every_example_that_is_not_valid_has_a_test_of_its_own() -> None:
    """So that none passes unseen."""
    own = {"0043_response-zed-dev-workspace-buffers.json"} | {
        "0072_notification-session-update-available-commands-update.json"
    }
    assert set(NOT_VALID) == set(MISSING) | own


@pytest.mark.parametrize("name", MISSING)
def test_an_example_that_lacks_a_member_is_refused_for_that(name: str) -> None:
    """The manifest says which validator's complaint it was."""
    example, (definition, member) = NOT_VALID[name], MISSING[name]
    part = example.document
    part = part.get("params", part.get("result", part))
    assert refused_by_schema(strategies.node_of(definition), part)[0].startswith(f"'{member}' is a required")
    with pytest.raises(v2.DecodeError, match=f"missing required field `{member}`"):
        v2.decode(type_of(definition), compact(part))
    if example.kind == "request":
        message = v2.decode_from_client(compact(example.document))
        assert isinstance(message, v2.Malformed)
        assert (message.code, message.id, message.path) == (-32602, example.document["id"], "$.params")
        assert f"`{member}`" in message.message


def test_an_example_with_commands_of_an_older_shape_is_read_without_them() -> None:
    """X15: commands are tagged now; the list skips items that do not decode (C1)."""
    example = NOT_VALID["0072_notification-session-update-available-commands-update.json"]
    assert "'type' is a required property" in example.why
    message = v2.decode_from_agent(compact(example.document))
    assert isinstance(message, v2.Notification)
    assert isinstance(message.params, v2.UpdateSessionNotification)
    assert message.params.update == v2.AvailableCommandsUpdate(available_commands=[])
    assert len(example.document["params"]["update"]["availableCommands"]) > 0


def test_an_example_of_an_extension_answer_stays_as_it_is() -> None:
    """EX-06: what a custom method answers is any JSON."""
    example = NOT_VALID["0043_response-zed-dev-workspace-buffers.json"]
    for message in read_both_ways(compact(example.document)):
        assert isinstance(message, v2.Response)
        assert json.loads(bytes(message.result)) == example.document["result"]


def test_both_participants_of_a_session_message_chunk_survive() -> None:
    """X7: the page's first example; the schema of 2.4.0 has no such members."""
    name, example = next(iter(EXAMPLES.items()))
    assert name.startswith("0001_")
    message = v2.decode_from_agent(compact(example.document))
    assert isinstance(message, v2.Notification)
    assert isinstance(message.params, v2.UpdateSessionNotification)
    update = message.params.update
    assert isinstance(update, v2.SessionMessageChunk)
    assert (update.sender_session_id, update.recipient_session_id) == ("parent_session", "child_session")
    again = json.loads(wire.encode(message))["params"]["update"]
    assert (again["senderSessionId"], again["recipientSessionId"]) == ("parent_session", "child_session")


def lines_of(recording: str, sender: str) -> list[bytes]:
    """The lines of a recording that one side sent."""
    return [line for line in (CORPUS / recording / f"{sender}.ndjson").read_bytes().split(b"\n") if line]


HALF_AN_EMOJI = b'\\ud83d"}'
RECORDINGS = [(name, sender) for name in ("codex-acp", "ts-sdk") for sender in ("agent_to_client", "client_to_agent")]
DECODERS = {"agent_to_client": v2.decode_from_agent, "client_to_agent": v2.decode_from_client}


@pytest.mark.parametrize(("recording", "sender"), RECORDINGS)
def test_every_line_of_a_recording_is_a_message(recording: str, sender: str) -> None:
    """Real peers, both directions; what was decoded is encoded and decoded to the same message."""
    lines = [line for line in lines_of(recording, sender) if HALF_AN_EMOJI not in line]
    assert lines
    for line in lines:
        message = DECODERS[sender](line)
        assert not isinstance(message, v2.Malformed), message
        assert DECODERS[sender](wire.encode(message).removesuffix(b"\n")) == message


def test_a_recorded_line_that_ends_in_half_an_emoji_is_a_message() -> None:
    """Streaming JavaScript peers cut characters in two (design 3: lone surrogate escapes); the halves join again."""
    (line,) = [line for line in lines_of("ts-sdk", "agent_to_client") if HALF_AN_EMOJI in line]
    message = v2.decode_from_agent(line)
    assert isinstance(message, v2.Notification)
    params: Any = message.params
    assert params.update.content.text == json.loads(line)["params"]["update"]["content"]["text"]


@pytest.mark.parametrize("recording", ["codex-acp", "ts-sdk"])
def test_every_recorded_result_decodes_by_the_method_of_its_request(recording: str) -> None:
    """In both directions, by id."""
    decoded = 0
    for asking, answering in (("client_to_agent", "agent_to_client"), ("agent_to_client", "client_to_agent")):
        asked = {
            repr(sent["id"]): sent["method"]
            for sent in map(json.loads, lines_of(recording, asking))
            if "method" in sent and "id" in sent
        }
        for line in lines_of(recording, answering):
            answer = DECODERS[answering](line)
            if isinstance(answer, v2.Response):
                side: Any = "agent" if asking == "client_to_agent" else "client"
                method = v2.METHODS[asked[repr(answer.id)], side, "request"]
                result = method.decode_result(answer.result)
                name = method.result.__name__ if isinstance(method.result, type) else ""
                kept = strategies.reencoded(name, json.loads(bytes(answer.result))) if name else None
                assert kept is None or exact(json.loads(v2.encode(result))) == exact(kept)
                decoded += 1
    assert decoded > 2


# --- names -----------------------------------------------------------------------------------------------------------

MESSAGES = {"ErrorObject", "ErrorResponse", "Malformed", "Notification", "Request", "Response"}
RECEIVED = {"FromAgent", "FromClient"}
VALUES = {"DecodeError", "EncodeError", "UNSET", "UnknownVariant", "UnsetType", "Violation"}
TABLES = {"METHODS", "META_RULES", "PATCHES", "SCHEMA_VERSION", "UNSTABLE"}
ROLES = {"AgentCalls", "AgentHandler", "Caller", "ClientCalls", "ClientHandler", "Method"}
FUNCTIONS = {"decode", "decode_from_agent", "decode_from_client", "encode", "validate"}
CODES = {
    "PARSE_ERROR": -32700,
    "INVALID_REQUEST": -32600,
    "METHOD_NOT_FOUND": -32601,
    "INVALID_PARAMS": -32602,
    "INTERNAL_ERROR": -32603,
    "REQUEST_CANCELLED": -32800,
    "AUTHENTICATION_REQUIRED": -32000,
    "RESOURCE_NOT_FOUND": -32002,
    "UNSUPPORTED_PROTOCOL_VERSION": -32022,
}
"""ER-04."""


def constants() -> dict[str, v2.Method[Any, Any]]:
    """Name -> method, of the constants that the package has for methods."""
    named = {name: getattr(v2, name) for name in v2.__all__}
    return {name: value for name, value in named.items() if isinstance(value, v2.Method)}


def test_the_public_names_are_the_types_the_methods_and_the_tables() -> None:
    """Design 4 and 5: a flat facade, and nothing else in it."""
    assert len(set(v2.__all__)) == len(v2.__all__)
    documented = MESSAGES | RECEIVED | VALUES | TABLES | ROLES | FUNCTIONS | set(CODES) | set(constants()) | set(NAMES)
    assert set(v2.__all__) == documented
    assert v2.__all__ == generated.__all__
    assert all(hasattr(v2, name) for name in v2.__all__)
    assert v2.UNSET is msgspec.UNSET


def test_every_method_has_one_constant_named_after_it() -> None:
    """Design 4: `SESSION_PROMPT: Method[PromptRequest, PromptResponse]`; H29 for names that mean several."""
    assert sorted(map(id, constants().values())) == sorted(map(id, v2.METHODS.values()))
    for name, method in constants().items():
        words = method.name.strip("$/").replace("/", "_").upper()
        several = sum(other.name == method.name for other in v2.METHODS.values()) > 1
        assert name.startswith(words) if several else name == words


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_an_error_code_has_its_name(name: str, code: int) -> None:
    """ER-04."""
    assert getattr(v2, name) == code


@pytest.mark.parametrize("name", CLASSES)
def test_every_variant_has_its_tag(name: str) -> None:
    """Design 2: every variant, fallback included, has `tag`; a class that is no variant has none."""
    entry = public()[name]
    assert isinstance(entry, Struct)
    assert getattr(type_of(name), "tag", "") == entry.tag
    assert v2.UnknownVariant("_x", b"{}").tag == "_x"
    unions_with_it = [union for union in strategies.model().unions if name in union.variants.values()]
    assert bool(unions_with_it) == bool(entry.tag)
    assert all(union.variants[entry.tag] == name for union in unions_with_it)


def test_what_is_marked_unstable_is_what_the_stable_schema_lacks() -> None:
    """X12, B1, H39: definitions, members of definitions that both have, and methods."""
    stable = json.loads((CORPUS / "schemas" / "2.4.0-v2.stable.json").read_text("utf-8"))["$defs"]
    model = strategies.model()
    places = {struct.place: struct.name for struct in model.structs} | {
        alias.name: alias.name for alias in model.aliases
    }
    expected = {name for place, name in places.items() if "/" not in place and place not in stable}
    expected -= {"AnyStateSnapshot", "StopReason"}  # names for parts of definitions that both have
    for place, node in strategies.schema()["$defs"].items():
        new = set(node.get("properties", {})) - set(stable.get(place, node).get("properties", {}))
        name = "StateSnapshot" if place.endswith("StateUpdate") else places.get(place, "")
        expected |= {f"{name}.{member.attr}" for member in model.members_of.get(name, ()) if member.wire in new}
    expected |= {row.name for row in ROWS if row.stability == "unstable"}
    inside_draft_types = {entry for entry in v2.UNSTABLE if entry.partition(".")[0] in expected and "." in entry}
    assert v2.UNSTABLE - inside_draft_types == expected | {"StateSnapshot.state=unknown"}


@pytest.mark.parametrize("name", sorted(v2.UNSTABLE))
def test_everything_marked_unstable_exists(name: str) -> None:
    """A class, `Class.attribute`, `Class.attribute=value` of a tag, or the name of a method."""
    owner, _, place = name.partition(".")
    attr, _, value = place.partition("=")
    if value:
        document = json.dumps({attr: value}).encode()
        assert getattr(v2.decode(type_of(owner), document), attr) == value
    if "/" in name:
        assert name in {method for method, _, _ in v2.METHODS}
    elif attr:
        assert attr in {field.name for field in msgspec.structs.fields(type_of(owner))}
    else:
        assert name in public()


# --- what only single cases show -------------------------------------------------------------------------------------


def test_of_a_resource_with_text_and_blob_the_text_counts() -> None:
    """H19."""
    value = v2.decode(v2.EmbeddedResourceResource, b'{"blob":"AA==","text":"t","uri":"u"}')
    assert value == v2.TextResourceContents(text="t", uri="u")


def test_a_list_of_options_and_groups_is_refused() -> None:
    """H15."""
    mixed = [OPTION, {"groupId": "g", "name": "n", "options": [OPTION]}]
    with pytest.raises(v2.DecodeError):
        v2.decode(v2.SessionConfigSelectOptions, compact(mixed))


def test_a_null_result_of_an_mcp_server_is_a_success() -> None:
    """H22: presence decides; without result and error there is no answer."""
    value = v2.decode(v2.MessageMcpResponse, b'{"result":null}')
    assert value.result is None
    assert v2.encode(value) == b'{"result":null}'
    with pytest.raises(v2.DecodeError):
        v2.decode(v2.MessageMcpResponse, b"{}")


@pytest.mark.parametrize("raw", ["1", "1.0", "true", '"1"', "-0.0", "1e2", "9007199254740993", "null", "[1,1.0]"])
def test_a_value_of_a_form_is_kept_as_it_is(raw: str) -> None:
    """H17: 1, 1.0 and true are told apart."""
    text = f'{{"action":"accept","content":{{"field":{raw}}}}}'
    value = v2.decode(v2.CreateElicitationResponse, text.encode())
    assert isinstance(value, v2.ElicitationAcceptAction)
    assert value.content is not None
    assert repr(value.content["field"]) == repr(json.loads(raw))
    assert exact(json.loads(v2.encode(value))) == exact(json.loads(text))
