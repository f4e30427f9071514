"""Lenient decoding against the independent model of requirement C1, on every one-place fault of valid documents.

Documents come from the schema, always the same ones, a few for each type, and some by hand for what chance does not
bring. The model says what is accepted and what is left; both sides are compared after `strategies.reencoded`. Where
they may differ is `RULES`. What is refused must say where, and must not show the value.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acpwire import v2
from tests.models import propagation, strategies
from tests.models.strategies import Mutation, Path, compact, is_array, is_object, public, type_of

NAMES = sorted(public())
every_type = pytest.mark.parametrize("name", NAMES)

USAGE = {"totalTokens": 1, "inputTokens": 1, "outputTokens": 0}
ERROR = {"code": -32002, "message": "m", "data": {"sessionId": "s", "more": [1]}}
URL = {"mode": "url", "message": "m", "elicitationId": "e", "url": "u"}
IDLE: dict[str, Any] = {"state": "idle", "stopReason": "error", "error": ERROR, "usage": USAGE, "background": []}
BY_HAND: list[tuple[str, Any]] = [
    ("Error", ERROR),
    ("AnyStateSnapshot", IDLE),
    ("AnyStateSnapshot", {**IDLE, "stopReason": "from_the_future"}),
    ("SessionUpdate", {"sessionUpdate": "state_update", **IDLE, "state": "running"}),
    ("CreateElicitationRequest", {**URL, "requestId": 1, "toolCallId": "t"}),
    ("CreateElicitationRequest", {**URL, "sessionId": "s", "toolCallId": "t"}),
    ("MessageMcpResponse", {"result": {"a": 1}, "error": {"code": 1, "message": "m", "more": 1}}),
    ("EmbeddedResourceResource", {"text": "t", "blob": "AA==", "uri": "u", "mimeType": "m"}),
]
"""Documents that the strategy does not make: members of another branch, and data that looks like what it is not."""


# --- both sides ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refused:
    """A document was not accepted."""

    path: str
    message: str = ""


@dataclass(frozen=True)
class Case:
    """What both sides make of a document with a fault: the JSON that is left, or a refusal."""

    name: str
    mutation: Mutation
    model: Any
    ours: Any

    def differences(self) -> list[Difference]:
        """Where they do not agree."""
        if isinstance(self.model, Refused) or isinstance(self.ours, Refused):
            same = isinstance(self.model, Refused) and isinstance(self.ours, Refused)
            return [] if same else [Difference((), self.model, self.ours, self.mutation.document)]
        return list(differing(self.model, self.ours))


@dataclass(frozen=True)
class Difference:
    """One place in which two JSON values differ; an absent member is `ABSENT`."""

    path: Path
    model: Any
    ours: Any
    parent: Any


ABSENT = "(absent)"


def differing(model: Any, ours: Any, path: Path = (), parent: Any = None) -> Iterator[Difference]:
    """The outermost places in which two JSON values differ."""
    if is_object(model) and is_object(ours):
        for name in sorted(model.keys() | ours.keys()):
            yield from differing(model.get(name, ABSENT), ours.get(name, ABSENT), (*path, name), ours)
    elif is_array(model) and is_array(ours) and len(model) == len(ours):
        for index, (one, other) in enumerate(zip(model, ours, strict=True)):
            yield from differing(one, other, (*path, index), parent)
    elif repr(model) != repr(ours):
        yield Difference(path, model, ours, parent)


def by_model(name: str, document: Any) -> Any:
    """What requirement C1 leaves of a document."""
    try:
        left = propagation.decode(strategies.schema(), strategies.node_of(name), document)
    except propagation.InvalidError as fault:
        return Refused(str(fault))
    kept = strategies.reencoded(name, left)
    return {**kept, **strategies.tag_in(name)} if is_object(kept) and not has_unknown_state(name, document) else kept


def has_unknown_state(name: str, document: Any) -> bool:
    """Whether a class of states keeps a document as it is, because its state is not known."""
    if name != "StateUpdate":
        return False
    return document.get("state") not in ("running", "idle", "requires_action", "unknown")


def by_us(name: str, document: Any) -> Any:
    """What decoding and encoding leaves of a document. Anything but a `DecodeError` is a fault of its own."""
    try:
        value = v2.decode(type_of(name), compact(document))
    except v2.DecodeError as error:
        return Refused(error.path, str(error))
    return json.loads(v2.encode(value))


@functools.cache
def cases(name: str) -> list[Case]:
    """Every one-place fault of some documents of a type."""
    valid = strategies.samples(strategies.documents(name), 4) + [document for it, document in BY_HAND if it == name]
    valid_again = [Mutation("none", (), document) for document in valid]
    faults = [*valid_again, *(fault for document in valid for fault in strategies.mutations(document))]
    return [Case(name, it, by_model(name, it.document), _guarded(name, it.document)) for it in faults]


def _guarded(name: str, document: Any) -> Any:
    """Ours, with a crash as a value, so that one does not hide what else there is."""
    try:
        return by_us(name, document)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is not explained by any rule
        return f"{type(error).__name__}: {error}"


STEP = re.compile(r"\.(?P<name>\w+)|\[(?P<index>\d+|\.\.\.)\]")
"""A step of an error's path; `[...]` is any member of a map."""


# --- where they may differ -------------------------------------------------------------------------------------------


def beyond_uint64(it: Difference) -> bool:
    """H32, US-02: msgspec has no bound beyond int64, so the upper end of uint64 is checked on send alone."""
    if isinstance(it.model, Refused):
        refused = STEP.split(it.model.path)
        return not isinstance(it.ours, Refused) and bool(unsigned() & set(refused)) and _largest(it.ours) >= 2**64
    return bool(unsigned() & {*map(str, it.path)}) and _largest(it.ours) >= 2**64 > _largest(it.model)


def _largest(value: Any) -> int:
    return max([0, *(part for _, part in strategies.places(value) if part.__class__ is int)])


@functools.cache
def unsigned() -> frozenset[str]:
    """The names of members that are uint64."""
    return frozenset(
        str(path[-2])
        for path, value in strategies.places(strategies.schema())
        if path[-1:] == ("format",) and value == "uint64"
    )


STATE_MEMBERS = ("background", "usage", "stopReason", "error", "_meta")


def flat_state(it: Difference) -> bool:
    """X4: the members of all states stand in one object, typed and flagged whatever `state` and `stopReason` say.

    The model reads those of another state as unknown ones, and keeps those beside an unknown stop reason as they are.
    """
    return it.path != () and "state" in it.parent and it.path[-1] in STATE_MEMBERS


def error_data(it: Difference) -> bool:
    """H18: `data` is chosen by `code`, not by its shape; the model takes the first shape that fits."""
    return "data" in it.path[:-1] and it.model == ABSENT


RULES = (beyond_uint64, flat_state, error_data)


@every_type
def test_faults_are_absorbed_where_the_model_says(name: str) -> None:
    """C1, C2, H2 to H4, H8 to H13, H20 to H22, H27: what is accepted, and what is left of it."""
    for case in cases(name):
        for difference in case.differences():
            assert sum(rule(difference) for rule in RULES) == 1, (case, difference)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_difference_that_is_allowed_exists(rule: Callable[[Difference], bool]) -> None:
    """A rule that matches nothing would hide a change."""
    assert any(rule(difference) for name in NAMES for case in cases(name) for difference in case.differences())


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_many_faults_at_once_are_absorbed_where_the_model_says(data: st.DataObject) -> None:
    """C1: faults inside of what is already absorbed, and beside it."""
    name = data.draw(st.sampled_from(NAMES))
    document = data.draw(strategies.documents(name))
    for _ in range(data.draw(st.integers(1, 5))):
        faults = list(strategies.mutations(document))
        document = data.draw(st.sampled_from(faults)).document
    case = Case(name, Mutation("several", (), document), by_model(name, document), by_us(name, document))
    for difference in case.differences():
        assert any(rule(difference) for rule in RULES), (case, difference)


# --- what a refusal says ---------------------------------------------------------------------------------------------


def leads_to(path: str, place: Path) -> bool:
    """Whether an error's path is at a place or above it."""
    assert path.startswith("$")
    steps = list(STEP.finditer(path))
    assert sum(len(step.group()) for step in steps) == len(path) - 1, path
    return len(steps) <= len(place) and all(_is_step(step, at) for step, at in zip(steps, place, strict=False))


def _is_step(step: re.Match[str], at: str | int) -> bool:
    if step["name"] is not None:
        return step["name"] == at
    return step["index"] == str(at) if isinstance(at, int) else step["index"] == "..."


@every_type
def test_a_refusal_says_where(name: str) -> None:
    """Design 3: the path is that of the fault, or of something that holds it."""
    for case in cases(name):
        if isinstance(case.ours, Refused):
            inside = {"array": (0,), "object": ("zz",)}.get(case.mutation.kind, ())
            assert leads_to(case.ours.path, (*case.mutation.path, *inside)), case


@every_type
def test_a_refusal_does_not_show_the_value(name: str) -> None:
    """ER-07: values may be credentials."""
    for case in cases(name):
        if isinstance(case.ours, Refused):
            assert strategies.SECRET not in case.ours.message
            assert str(2**70) not in case.ours.message


@pytest.mark.parametrize("method", v2.METHODS.values(), ids=repr)
def test_a_line_with_a_fault_in_its_params_is_answered_where_they_are_refused(method: v2.Method[Any, Any]) -> None:
    """ER-07, design 3: the id is known, the path leads into the params, and no value shows."""
    name = next(name for name in NAMES if type_of(name) is method.params)
    decode = v2.decode_from_agent if method.side == "client" else v2.decode_from_client
    refused = 0
    for case in cases(name):
        head: dict[str, Any] = {"jsonrpc": "2.0", "method": method.name, "params": case.mutation.document}
        line = compact({**head, "id": "id-1"} if method.kind == "request" else head)
        message = decode(line)
        if case.mutation.document is None:  # null params are an empty object (ER-10)
            continue
        if not isinstance(case.ours, Refused):
            assert isinstance(message, v2.Request | v2.Notification)
            assert json.loads(v2.encode(message.params)) == case.ours
            continue
        refused += 1
        assert isinstance(message, v2.Malformed)
        assert (message.code, message.id) == ((-32602, "id-1") if method.kind == "request" else (None, None))
        assert message.method == method.name
        assert message.path == "$.params" + case.ours.path[1:]
        assert strategies.SECRET not in message.message + message.path
    assert refused > 5


# --- single cases ----------------------------------------------------------------------------------------------------


def left_of(tp: Any, document: Mapping[str, Any]) -> Any:
    """What decoding and encoding leaves."""
    return json.loads(v2.encode(v2.decode(tp, compact(document))))


@pytest.mark.parametrize("bad", [None, 7, True, [], {}])
def test_a_state_that_is_no_string_refuses_the_update(bad: Any) -> None:
    """H3: a tag that is no string is an error, whatever else is well; a line with it is no message, and no crash."""
    update = {"sessionUpdate": "state_update", "state": bad}
    with pytest.raises(v2.DecodeError) as caught:
        v2.decode(v2.SessionUpdate, compact(update))
    assert caught.value.path == "$.state"
    params = {"sessionId": "s", "update": update}
    message = v2.decode_from_agent(compact({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    assert isinstance(message, v2.Malformed)
    assert message.path == "$.params.update.state"


def test_a_fault_goes_to_the_nearest_flag() -> None:
    """C1's three examples."""
    terminal = {"terminalId": "t", "size": {"cols": 0, "rows": 1}}
    assert v2.decode(v2.TerminalUpdate, compact(terminal)) == v2.TerminalUpdate(terminal_id="t")
    with pytest.raises(v2.DecodeError):
        v2.decode(v2.Notice, compact({"severity": "info", "title": ""}))
    bad = {"type": "text", "text": 7}
    good = {"type": "text", "text": "t"}
    with pytest.raises(v2.DecodeError):
        v2.decode(v2.PromptRequest, compact({"sessionId": "s", "prompt": [good, bad]}))
    message = v2.decode(v2.UserMessage, compact({"messageId": "m", "content": [bad, good, bad]}))
    assert message.content == [v2.TextContent(text="t")]


def test_one_bad_item_of_background_work_makes_the_list_unknown() -> None:
    """H12: no skip flag there, but an unknown kind of work is fine."""
    unknown = {"type": "_daemon", "x": 1}
    state = {"state": "idle", "background": [unknown]}
    assert left_of(v2.AnyStateSnapshot, state) == state
    assert left_of(v2.AnyStateSnapshot, {**state, "background": [unknown, {"type": "terminal"}]}) == {"state": "idle"}


def test_what_is_left_of_a_list_may_be_shorter_than_its_least_length() -> None:
    """H10: no second check after skipping."""
    group = {"groupId": "g", "name": "n", "options": [{"value": 7, "name": "n"}]}
    value = v2.decode(v2.SessionConfigSelectGroup, compact(group))
    assert value.options == []


def test_a_required_list_that_is_missing_is_not_made_up() -> None:
    """H9, H11."""
    with pytest.raises(v2.DecodeError, match="`sessions`"):
        v2.decode(v2.ListSessionsResponse, b"{}")
    assert v2.decode(v2.ListSessionsResponse, b'{"sessions":7}').sessions == []
    for bad in (b"null", b"7", b"{}"):
        with pytest.raises(v2.DecodeError):
            v2.decode(v2.PlanItems, b'{"planId":"p","entries":' + bad + b"}")


def test_null_is_an_empty_list_only_where_the_schema_says_so() -> None:
    """C1, `x-deserialize-default-on-null`: anything else that is malformed stays an error."""
    assert v2.decode(v2.NewSessionRequest, b'{"cwd":"/","mcpServers":null}').mcp_servers == []
    for bad in (b"7", b'[{"type":7}]'):
        with pytest.raises(v2.DecodeError):
            v2.decode(v2.NewSessionRequest, b'{"cwd":"/","mcpServers":' + bad + b"}")


def test_a_bad_group_is_not_reported_as_the_fault_of_a_good_one() -> None:
    """H15: the choice is by the shape of the items; the path may be that of the fault, or lead to it."""
    option = {"value": "v", "name": "n"}
    good = {"groupId": "g", "name": "n", "options": [option]}
    with pytest.raises(v2.DecodeError) as caught:
        v2.decode(v2.SessionConfigSelectOptions, compact([good, {**good, "name": 7}]))
    assert leads_to(caught.value.path, (1, "name"))
