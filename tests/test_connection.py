"""The connection without I/O: what is answered to which line, what is owed and what is pending.

Two kinds of test: single rules, named by requirement and hostile case, and a machine that runs two connections against
each other with garbage in between and looks at laws that hold whatever happens.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from acpwire import v2
from acpwire.connection import Answered, CancelRequested, Connection, Event, Ignored, Role
from acpwire.errors import (
    AuthRequired,
    ConnectionClosed,
    DecodeError,
    EncodeError,
    RequestError,
    SessionNotFound,
    UsageError,
    VersionMismatch,
)
from acpwire.limits import Limits
from acpwire.wire import Malformed, Method, Notification, Request
from acpwire.wire.frames import Methods
from tests import fuzz

HOSTILE = fuzz.hostile()
INT64_MAX = 2**63 - 1
OPTION = {"optionId": "o", "name": "Allow", "kind": "allow_once"}
CHOICES = [v2.PermissionOption(option_id="o", name="Allow", kind="allow_once")]


def agent(limits: Limits | None = None, **other: Any) -> Connection:
    """A connection in the agent's role."""
    return Connection("agent", v2.decode_from_client, v2.METHODS, limits=limits, **other)


def client(limits: Limits | None = None, **other: Any) -> Connection:
    """A connection in the client's role."""
    return Connection("client", v2.decode_from_agent, v2.METHODS, limits=limits, **other)


def line(**members: Any) -> bytes:
    """A line of these members, after `jsonrpc`."""
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def received(connection: Connection, text: bytes) -> Event:
    """What a line brings about."""
    return connection.receive(connection.read(text))


def sent(connection: Connection) -> list[Any]:
    """What goes out, as JSON values; taken."""
    return [json.loads(one) for one in connection.take().splitlines()]


def hostile(name: str) -> tuple[Connection, Event, list[Any]]:
    """A hostile case as the side meets it that it is sent to: the connection, the event, and what was sent."""
    to, text = HOSTILE[name]
    connection = agent() if to == "agent" else client()
    event = received(connection, text)
    return connection, event, sent(connection)


def error_of(answer: Any) -> tuple[Any, int]:
    """Id and code of an answer that is an error."""
    return answer["id"], answer["error"]["code"]


def still_serves(connection: Connection) -> None:
    """The next good line works."""
    name = "session/list" if connection.role == "agent" else "session/request_permission"
    params = {} if connection.role == "agent" else {"sessionId": "s", "title": "t", "options": [OPTION]}
    event = received(connection, line(id="next", method=name, params=params))
    assert isinstance(event, Request)
    connection.answer(event.id, {"sessions": []})
    assert sent(connection) == [{"jsonrpc": "2.0", "id": "next", "result": {"sessions": []}}]


# --- requests of the peer ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["W-EN-01", "W-EN-02", "W-EN-03", "W-EN-05", "W-EN-14", "W-EN-15", "W-EN-16", "W-EN-18"]
)
def test_what_is_no_message_gets_one_answer_with_id_null(name: str) -> None:
    connection, event, answers = hostile(name)
    assert isinstance(event, Ignored)
    assert [error_of(answer) for answer in answers] == [(None, -32600)]
    still_serves(connection)


@pytest.mark.parametrize("name", ["W-EN-07", "W-EN-29", "W-EN-32"])
def test_what_is_no_json_gets_one_parse_error_with_id_null(name: str) -> None:
    connection, event, answers = hostile(name)
    assert isinstance(event, Ignored)
    assert [error_of(answer) for answer in answers] == [(None, -32700)]
    still_serves(connection)


@pytest.mark.parametrize("name", ["W-EN-11", "W-EN-12"])
def test_a_request_of_the_wrong_shape_is_answered_under_its_id(name: str) -> None:
    connection, _, answers = hostile(name)
    assert [error_of(answer) for answer in answers] == [(1, -32600)]
    still_serves(connection)


def test_a_shell_title_before_a_message_is_reported_with_its_bytes() -> None:
    """W-EN-08, and no storm: a peer that answers errors with errors ends it by id null (ER-08)."""
    connection, event, answers = hostile("W-EN-08")
    assert isinstance(event, Ignored)
    assert isinstance(event.message, Malformed)
    assert event.message.line == HOSTILE["W-EN-08"][1]
    assert [error_of(answer) for answer in answers] == [(None, -32700)]
    other = agent()
    assert isinstance(received(other, json.dumps(answers[0]).encode()), Ignored)
    assert sent(other) == []
    still_serves(connection)


@pytest.mark.parametrize("name", ["W-EN-09", "W-EN-26"])
def test_a_byte_order_mark_and_absent_params_are_no_fault(name: str) -> None:
    connection, event, answers = hostile(name)
    assert isinstance(event, Request)
    assert isinstance(event.params, v2.ListSessionsRequest)
    assert answers == []
    connection.answer(event.id, v2.ListSessionsResponse(sessions=[]))
    assert sent(connection) == [{"jsonrpc": "2.0", "id": 1, "result": {"sessions": []}}]


@pytest.mark.parametrize("request_id", [0, 1, -1, "1", "", "\ud83d", INT64_MAX, -(2**63)])
def test_an_id_is_echoed_with_its_exact_type(request_id: int | str) -> None:
    """ER-02, W-EN-19, W-EN-21."""
    connection = agent()
    event = received(connection, line(id=request_id, method="session/list"))
    assert isinstance(event, Request)
    connection.answer(event.id)
    answer = json.loads(connection.take())
    assert answer["id"] == request_id
    assert type(answer["id"]) is type(request_id)


def test_one_and_the_string_one_are_two_requests() -> None:
    """W-EN-21."""
    connection = agent()
    for request_id in (1, "1"):
        assert isinstance(received(connection, line(id=request_id, method="session/list")), Request)
    connection.answer("1", {"of": "string"})
    connection.answer(1, {"of": "number"})
    assert [answer["id"] for answer in sent(connection)] == ["1", 1]


def test_an_id_that_is_in_flight_is_refused_and_the_first_is_answered_once() -> None:
    """S-CA-04: the second gets -32600."""
    connection = agent()
    first = line(id=4, method="session/list")
    assert isinstance(received(connection, first), Request)
    assert isinstance(received(connection, first), Ignored)
    assert [error_of(answer) for answer in sent(connection)] == [(4, -32600)]
    connection.answer(4)
    assert sent(connection) == [{"jsonrpc": "2.0", "id": 4, "result": {}}]
    assert isinstance(received(connection, first), Request), "answered, so the id is free again"


def test_an_unknown_request_is_answered_and_an_unknown_notification_is_not() -> None:
    """W-EN-23, W-EN-24, W-CN-02, EX-06, EX-07, RC-07."""
    for name, request_id in (("W-EN-23", 1), ("W-CN-02", 5)):
        connection, event, answers = hostile(name)
        assert isinstance(event, Ignored)
        assert [error_of(answer) for answer in answers] == [(request_id, -32601)]
        assert connection.counters.unknown == 1
        still_serves(connection)
    connection, event, answers = hostile("W-EN-24")
    assert isinstance(event, Ignored)
    assert answers == []
    assert (connection.counters.unknown, connection.counters.drops) == (1, 1)


def test_an_unknown_name_is_said_back_only_where_it_is_short() -> None:
    connection = agent()
    received(connection, line(id=1, method="no/such"))
    received(connection, line(id=2, method="x" * 101))
    short, long = sent(connection)
    assert short["error"]["data"] == {"method": "no/such"}
    assert "data" not in long["error"]


def test_the_wrong_kind_and_the_wrong_side_are_said() -> None:
    """W-EN-33, W-EN-34."""
    _, _, answers = hostile("W-EN-33")
    assert error_of(answers[0]) == (7, -32601)
    assert "session/cancel is a notification" in answers[0]["error"]["message"]
    _, event, answers = hostile("W-EN-34")
    assert answers == []
    assert isinstance(event, Ignored)
    assert "session/list is a request" in event.reason
    connection = agent()
    received(connection, line(id=1, method="session/request_permission"))
    assert "handled by the client" in sent(connection)[0]["error"]["message"]


@pytest.mark.parametrize("name", ["W-EN-25", "W-EN-28"])
def test_bad_params_are_answered_by_path_without_their_values(name: str) -> None:
    """ER-07."""
    connection, _, answers = hostile(name)
    assert [error_of(answer) for answer in answers] == [(1, -32602)]
    assert ("params.cwd" if name == "W-EN-28" else "$.params") in answers[0]["error"]["message"]
    assert connection.counters.malformed == 1
    still_serves(connection)


def test_a_value_of_bad_params_is_in_no_answer_and_no_reason() -> None:
    connection = agent()
    event = received(connection, line(id=1, method="session/new", params={"cwd": {"secret": "hunter2"}}))
    assert isinstance(event, Ignored)
    assert "hunter2" not in event.reason
    assert b"hunter2" not in connection.take()


def test_a_bad_notification_is_dropped_without_an_answer() -> None:
    """ER-01, ER-07."""
    connection = agent()
    event = received(connection, line(method="session/cancel", params={"sessionId": 5}))
    assert isinstance(event, Ignored)
    assert sent(connection) == []
    assert (connection.counters.malformed, connection.counters.drops) == (1, 1)


def test_a_malformed_line_may_be_mended() -> None:
    def mend(malformed: Malformed) -> Request[Any] | None:
        if malformed.method != "session/new":
            return None
        return Request(id=1, method="session/new", params=v2.NewSessionRequest(cwd="/mended"))

    connection = agent(mend=mend)
    event = received(connection, line(id=1, method="session/new", params={"cwd": 5}))
    assert isinstance(event, Request)
    assert event.params == v2.NewSessionRequest(cwd="/mended")
    assert connection.owed == {1}
    assert isinstance(received(connection, line(id=2, method="session/list", params=[])), Ignored)
    assert connection.counters.malformed == 1


def test_more_requests_than_allowed_are_refused_by_the_name_of_the_limit() -> None:
    connection = agent(Limits(requests=2))
    for request_id in (1, 2, 3):
        received(connection, line(id=request_id, method="session/list"))
    answer = sent(connection)[0]
    assert error_of(answer) == (3, -32603)
    assert "Limits.requests is 2" in answer["error"]["message"]
    connection.answer(1)
    assert isinstance(received(connection, line(id=3, method="session/list")), Request)


def test_parse_errors_are_answered_so_many_times_a_second_and_then_only_counted() -> None:
    now = 100.0
    connection = agent(Limits(parse_errors=3), clock=lambda: now)
    for _ in range(5):
        received(connection, b"{")
    assert len(sent(connection)) == 3
    assert (connection.counters.malformed, connection.counters.drops) == (5, 2)
    now = 101.0
    received(connection, b"{")
    assert len(sent(connection)) == 1
    received(connection, line(id=1, method=5))
    assert len(sent(connection)) == 1, "answers under an id are owed, whatever the rate"
    beyond = agent(Limits(parse_errors=0))
    event = received(beyond, b"{")
    assert isinstance(event, Ignored)
    assert event.reason.endswith("; more than Limits.parse_errors = 0 a second")
    assert sent(beyond) == []


@given(st.lists(st.floats(0, 0.7), max_size=40), st.integers(0, 4))
def test_in_no_second_are_more_parse_errors_answered_than_may_be(pauses: list[float], most: int) -> None:
    """Wherever that second begins."""
    now = 100.0
    connection = agent(Limits(parse_errors=most), clock=lambda: now)
    answered: list[float] = []
    for pause in pauses:
        now += pause
        received(connection, b"{")
        answered += [now] * len(sent(connection))
    assert all(sum(at <= other < at + 1 for other in answered) <= most for at in answered)
    assert len(answered) >= min(most, len(pauses))


@pytest.mark.parametrize("method", [v2.SESSION_CANCEL, v2.SESSION_UPDATE, v2.SESSION_REQUEST_PERMISSION])
def test_what_would_never_be_answered_is_not_asked(method: Any) -> None:
    connection = client()
    with pytest.raises(UsageError, match=f"{method.name} is (a notification|for the client)"):
        connection.request(method, {})
    assert connection.take() == b""


def test_an_answer_is_sent_once_and_only_to_what_was_asked() -> None:
    """ER-01, RC-04: exactly one answer."""
    connection = agent()
    received(connection, line(id=1, method="session/list"))
    connection.answer(1)
    for again in (1, 2, "1"):
        with pytest.raises(UsageError, match=repr(again)):
            connection.answer(again)
        with pytest.raises(UsageError):
            connection.fail(again, RequestError.cancelled())
    assert len(sent(connection)) == 1
    assert connection.counters.answers == 1


def test_an_answer_that_is_no_json_is_still_owed() -> None:
    connection = agent()
    received(connection, line(id=1, method="session/list"))
    with pytest.raises(EncodeError):
        connection.answer(1, {"x": float("nan")})
    assert connection.owed == {1}
    assert connection.unsent == 0
    connection.fail(1, RequestError(-32603, "Internal error"))
    assert [error_of(answer) for answer in sent(connection)] == [(1, -32603)]


def test_what_is_sent_keeps_its_order() -> None:
    """TR-14: what was said before an answer is written before it."""
    connection = agent()
    received(connection, line(id=1, method="session/list"))
    update = v2.UpdateSessionNotification(session_id="s", update=v2.StateUpdate(state="running"))
    connection.notify(v2.SESSION_UPDATE, update)
    connection.answer(1)
    connection.notify(v2.SESSION_UPDATE, update)
    assert ["result" in message for message in sent(connection)] == [False, True, False]


def test_what_is_made_later_is_made_once_in_its_place() -> None:
    """TR-14: when the bytes are taken, or asked for, or anything follows; a tap sees each of its lines."""
    seen: list[bytes] = []

    def tap(_: str, shown: bytes) -> None:
        seen.append(shown)

    connection = agent(tap=tap)
    update = v2.UpdateSessionNotification(session_id="s", update=v2.StateUpdate(state="running"))
    made: list[int] = []

    def later(number: int) -> None:
        def lines(out: bytearray) -> None:
            made.append(number)
            out += b'{"later":%d}\n{"more":%d}\n' % (number, number)

        connection.send_later(lines)

    def half(out: bytearray) -> None:
        out += b'{"half'
        raise MemoryError

    connection.send_later(half)
    with pytest.raises(MemoryError):
        _ = connection.unsent
    later(1)
    assert made == []
    later(2)
    assert made == [1]
    connection.notify(v2.SESSION_UPDATE, update)
    later(3)
    connection.send_line(b'{"line":3}\n')
    later(4)
    connection.request(v2.SESSION_REQUEST_PERMISSION, {})
    later(5)
    assert connection.unsent == sum(map(len, seen))
    later(6)
    assert [next(iter(message.values())) for message in sent(connection)] == [
        *(1, 1, 2, 2, "2.0", 3, 3, 3, 4, 4, "2.0", 5, 5, 6, 6)
    ]
    assert (made, len(seen)) == ([1, 2, 3, 4, 5, 6], 15)
    connection.close(ConnectionClosed("over"))
    with pytest.raises(ConnectionClosed):
        later(7)


EXTENSION: Method[Any, Any] = Method("_x/tally", "agent", "request", dict[str, int], int, v2.SESSION_LIST.decoding)
TALLIED: Method[Any, None] = Method("_x/tallied", "agent", "notification", list[int], None, v2.SESSION_LIST.decoding)


def test_methods_of_ones_own_are_typed_and_checked_like_the_protocols() -> None:
    """EX-06."""
    methods: Methods = {
        **v2.METHODS,
        ("_x/tally", "agent", "request"): EXTENSION,
        ("_x/tallied", "agent", "notification"): TALLIED,
    }
    connection = Connection("agent", v2.decode_from_client, methods)
    event = received(connection, line(id=1, method="_x/tally", params={"a": 1}))
    assert isinstance(event, Request)
    assert event.params == {"a": 1}
    heard = received(connection, line(method="_x/tallied", params=[1]))
    assert isinstance(heard, Notification)
    assert heard.params == [1]
    received(connection, line(id=2, method="_x/tally", params={"a": "secret"}))
    answer = sent(connection)[0]
    assert error_of(answer) == (2, -32602)
    assert "$.params" in answer["error"]["message"]
    assert "secret" not in answer["error"]["message"]
    assert isinstance(received(connection, line(method="_x/tallied", params=[""])), Ignored)
    assert sent(connection) == []


# --- requests of ours -------------------------------------------------------------------------------------------------


def asked(connection: Connection, method: Method[Any, Any] = v2.SESSION_NEW) -> int | str:
    """Send a request, forget what went out."""
    params: Any = v2.NewSessionRequest(cwd="/") if method is v2.SESSION_NEW else v2.ListSessionsRequest()
    request_id = connection.request(method, params)
    connection.take()
    return request_id


def pending_under_one() -> Connection:
    """A client of which the request 1 is in flight, a `session/new`."""
    connection = client()
    asked(connection, v2.SESSION_LIST)
    assert asked(connection) == 1
    return connection


def test_a_request_is_one_line_with_an_id_of_its_own() -> None:
    connection = client()
    ids = [connection.request(v2.SESSION_NEW, v2.NewSessionRequest(cwd="/")) for _ in range(3)]
    assert len(set(ids)) == 3
    assert [message["id"] for message in sent(connection)] == ids
    assert connection.is_waiting


def test_a_request_that_is_no_json_leaves_nothing_behind() -> None:
    connection = client()
    with pytest.raises(EncodeError):
        connection.request(v2.SESSION_NEW, v2.NewSessionRequest(cwd="/", meta={"x": float("inf")}))
    assert connection.unsent == 0
    assert not connection.is_waiting
    assert connection.close(ConnectionClosed("done")) == []


def test_a_result_is_typed_by_its_method() -> None:
    connection = client()
    request_id = asked(connection)
    event = received(connection, line(id=request_id, result={"sessionId": "s"}))
    assert event == Answered(request_id, v2.SESSION_NEW, v2.NewSessionResponse(session_id="s"))
    assert not connection.is_waiting


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("W-RS-01", "$.error"),
        ("W-RS-02", "both"),
        ("W-RS-04", "$.error.code"),
        ("W-RS-05", "message"),
        ("W-RS-11", "$.result.sessionId"),
    ],
)
def test_a_malformed_answer_fails_its_request_and_nothing_else(name: str, named: str) -> None:
    connection = pending_under_one()
    event = received(connection, HOSTILE[name][1])
    assert isinstance(event, Answered)
    assert (event.id, event.method, event.result) == (1, v2.SESSION_NEW, None)
    assert isinstance(event.error, DecodeError)
    assert "session/new" in str(event.error)
    assert named in str(event.error).replace("Both", "both")
    assert sent(connection) == [], "an answer is never answered (ER-08)"
    assert connection.is_waiting, "request 0 still waits"
    assert isinstance(received(connection, line(id=0, result={"sessions": []})), Answered)


@pytest.mark.parametrize("name", ["W-RS-06", "W-RS-07", "W-RS-09"])
def test_an_answer_under_another_id_matches_nothing(name: str) -> None:
    connection = pending_under_one()
    event = received(connection, HOSTILE[name][1])
    assert isinstance(event, Ignored)
    assert sent(connection) == []
    assert connection.counters.drops == 1
    assert len(connection.close(ConnectionClosed("done"))) == 2


@pytest.mark.parametrize("text", ["0.0", "false", '"0"', "-0.0", "0e0", "null", "[0]", "18446744073709551616", "00"])
def test_only_the_very_id_matches(text: str) -> None:
    connection = client()
    asked(connection)
    event = received(connection, f'{{"jsonrpc":"2.0","id":{text},"result":{{"sessionId":"s"}}}}'.encode())
    assert isinstance(event, Ignored)
    assert connection.is_waiting


def test_a_second_answer_is_dropped() -> None:
    connection = client()
    answer = line(id=asked(connection), result={"sessionId": "s"})
    assert isinstance(received(connection, answer), Answered)
    assert isinstance(received(connection, answer), Ignored)
    assert connection.counters.drops == 1


def test_an_error_without_an_id_reaches_the_observer_and_fails_nothing() -> None:
    """W-RS-10, ER-03."""
    connection = pending_under_one()
    event = received(connection, HOSTILE["W-RS-10"][1])
    assert isinstance(event, Ignored)
    assert sent(connection) == []
    assert len(connection.close(ConnectionClosed("done"))) == 2


def test_an_error_says_message_code_and_data() -> None:
    """W-RS-12."""
    connection = pending_under_one()
    event = received(connection, HOSTILE["W-RS-12"][1])
    assert isinstance(event, Answered)
    text = str(event.error)
    assert all(part in text for part in ("Internal error", "-32603", "401 from the model service"))


@pytest.mark.parametrize(
    ("error", "kind", "attributes"),
    [
        ({"code": -32000, "message": "sign in"}, AuthRequired, {}),
        ({"code": -32002, "message": "gone", "data": {"sessionId": "s"}}, SessionNotFound, {"session_id": "s"}),
        ({"code": -32002, "message": "no file", "data": {"uri": "file:///x"}}, RequestError, {}),
        ({"code": -32002, "message": "no file", "data": {"sessionId": 5}}, RequestError, {}),
        (
            {"code": -32022, "message": "v", "data": {"requested": 3, "supported": [1, "x", 2]}},
            VersionMismatch,
            {"requested": 3, "supported": [1, 2]},
        ),
        ({"code": -32022, "message": "v", "data": [None]}, VersionMismatch, {"requested": None, "supported": []}),
        ({"code": 17, "message": "m", "data": None}, RequestError, {"data": None}),
        ({"code": 17, "message": "m"}, RequestError, {"data": msgspec.UNSET}),
    ],
)
def test_the_class_of_an_error_goes_by_its_code(error: Any, kind: type[Any], attributes: Mapping[str, Any]) -> None:
    """ER-04, ER-05."""
    connection = client()
    event = received(connection, line(id=asked(connection), error=error))
    assert isinstance(event, Answered)
    assert type(event.error) is kind
    assert isinstance(event.error, RequestError)
    assert (event.error.code, event.error.message) == (error["code"], error["message"])
    assert {name: getattr(event.error, name) for name in attributes} == attributes


# --- cancellation -----------------------------------------------------------------------------------------------------


def test_cancelling_asks_the_peer_and_the_answer_still_comes() -> None:
    """RC-01, RC-04; RC-08: one may wait for it."""
    connection = client()
    request_id = asked(connection)
    connection.cancel(request_id, forget=False)
    assert sent(connection) == [{"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": request_id}}]
    event = received(connection, line(id=request_id, error={"code": -32800, "message": "cancelled"}))
    assert isinstance(event, Answered)
    assert isinstance(event.error, RequestError)
    assert event.error.code == -32800


def test_the_late_answer_of_a_forgotten_request_is_dropped() -> None:
    """RC-08."""
    connection = client()
    request_id = asked(connection)
    connection.cancel(request_id, forget=True)
    connection.cancel(request_id, forget=True)
    assert len(sent(connection)) == 1, "asked once"
    assert not connection.is_waiting
    assert isinstance(received(connection, line(id=request_id, result={"sessionId": "s"})), Ignored)
    assert sent(connection) == []


def test_cancelling_what_has_its_answer_sends_nothing() -> None:
    connection = client()
    request_id = asked(connection)
    received(connection, line(id=request_id, result={"sessionId": "s"}))
    connection.cancel(request_id, forget=True)
    connection.cancel(999, forget=False)
    assert sent(connection) == []


def test_a_peer_cancels_its_own_requests_alone() -> None:
    """RC-02, RC-05, W-CN-01: ids of the other direction, unknown and answered ones do nothing."""
    connection = agent()
    own = connection.request(
        v2.SESSION_REQUEST_PERMISSION, v2.RequestPermissionRequest(session_id="s", title="t", options=CHOICES)
    )
    received(connection, line(id=7, method="session/list"))
    received(connection, line(id=8, method="session/list"))
    connection.answer(8)
    connection.take()
    for request_id in (own, 8, 999, "7"):
        event = received(connection, line(method="$/cancel_request", params={"requestId": request_id}))
        assert isinstance(event, Ignored)
    assert received(connection, line(method="$/cancel_request", params={"requestId": 7})) == CancelRequested(7)
    assert sent(connection) == []
    connection.fail(7, RequestError.cancelled())
    assert [error_of(answer) for answer in sent(connection)] == [(7, -32800)]


# --- the end ----------------------------------------------------------------------------------------------------------


def test_closing_fails_what_waits_and_nothing_is_sent_any_more() -> None:
    """ER-09."""
    connection = client()
    first, second, forgotten = asked(connection), asked(connection), asked(connection)
    received(
        connection,
        line(id=5, method="session/request_permission", params={"sessionId": "s", "title": "t", "options": [OPTION]}),
    )
    connection.cancel(forgotten, forget=True)
    connection.take()
    cause = ConnectionClosed("it crashed", exit_code=3, stderr_tail=b"boom")
    events = connection.close(cause)
    assert [event.id for event in events] == [first, second]
    for event in events:
        assert isinstance(event.error, ConnectionClosed)
        assert event.error is not cause, "each adds its own traceback"
        assert all(part in str(event.error) for part in ("it crashed", "exit code 3", "boom"))
    assert connection.close(ConnectionClosed("again")) == []
    assert connection.closed is cause
    with pytest.raises(ConnectionClosed, match="it crashed"):
        asked(connection)
    with pytest.raises(ConnectionClosed):
        connection.notify(v2.SESSION_CANCEL, v2.CancelSessionNotification(session_id="s"))
    with pytest.raises(ConnectionClosed):
        connection.answer(5)
    connection.cancel(first, forget=True)
    assert isinstance(received(connection, line(id=6, method="session/list")), Ignored)
    assert isinstance(received(connection, b"{"), Ignored)
    assert sent(connection) == []


# --- bytes ------------------------------------------------------------------------------------------------------------


def test_blank_lines_and_crlf_are_no_lines() -> None:
    """W-EN-30, TR-05."""
    connection = agent()
    text = line(id=1, method="session/list")
    lines = connection.split(b"\n\r\n" + text + b"\r\n  \n")
    assert [type(received(connection, one)) for one in lines] == [Request]
    assert connection.counters.lines == 1


def test_a_line_may_come_in_any_pieces_and_without_its_end() -> None:
    """S-SP-01, S-SP-02."""
    text = line(id=1, method="session/list")
    connection = agent()
    assert [one for byte in text for one in connection.split(bytes([byte]))] == []
    (last,) = connection.finish()
    assert isinstance(received(connection, last), Request)
    assert connection.counters.bytes == len(text)


def test_a_line_over_the_limit_is_one_error_that_names_limit_and_size() -> None:
    """S-SZ-02."""
    connection = agent(Limits(line=100))
    lines = connection.split(b'{"x":"' + b"y" * 1000 + b'"}\n' + line(id=1, method="session/list") + b"\n")
    kinds = [type(received(connection, one)) for one in lines]
    assert kinds == [Ignored, Request]
    (answer,) = sent(connection)
    assert error_of(answer) == (None, -32700)
    assert answer["error"]["message"] == "1008 bytes, over the limit of 100 bytes a line (Limits.line) - at `$`"


def test_an_answer_over_the_limit_fails_its_request_and_is_not_answered() -> None:
    """S-SZ-02, ER-03, ER-08."""
    connection = client(Limits(line=100))
    one, other = asked(connection), asked(connection)
    connection.take()
    long = line(id=one, result={"sessionId": "s" * 1000}) + b"\n" + line(id=other, result={"sessionId": "s"}) + b"\n"
    failed, answered = [received(connection, text) for text in connection.split(long)]
    assert isinstance(failed, Answered)
    assert failed.id == one
    assert "Limits.line" in str(failed.error)
    assert isinstance(answered, Answered)
    assert answered.error is None
    assert sent(connection) == []


def test_a_request_over_the_limit_is_answered_under_its_id() -> None:
    """S-SZ-02, ER-01."""
    connection = agent(Limits(line=100))
    for text in connection.split(line(id="q", method="session/list", params={"x": "y" * 1000}) + b"\n"):
        received(connection, text)
    (answer,) = sent(connection)
    assert error_of(answer) == ("q", -32600)
    assert "Limits.line" in answer["error"]["message"]
    still_serves(connection)


def test_a_tap_sees_every_line_of_both_directions_as_it_is_on_the_wire() -> None:
    seen: list[tuple[Role, bytes]] = []

    def tap(sender: Role, text: bytes) -> None:
        seen.append((sender, text))

    connection = agent(tap=tap)
    wire = b" {\n" + line(id=1, method="session/list") + b"\n"
    for one in connection.split(wire):
        received(connection, one)
    connection.answer(1)
    assert b"".join(text for sender, text in seen if sender == "client") == wire
    assert b"".join(text for sender, text in seen if sender == "agent") == connection.take()


@pytest.mark.parametrize("error", [OSError, asyncio.CancelledError, pytest.fail.Exception])
def test_a_tap_that_raises_is_not_asked_again_and_loses_nothing(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def tap(_: Role, __: bytes) -> None:
        raise error("disk full")

    connection = agent(tap=tap)
    with caplog.at_level(logging.ERROR):
        assert isinstance(received(connection, line(id=1, method="session/list")), Request)
        connection.answer(1)
    assert len(caplog.records) == 1
    assert len(sent(connection)) == 1


# --- whatever happens -------------------------------------------------------------------------------------------------


def answer_like(identity: Any, members: dict[str, Any]) -> bytes:
    """A line with an id, and little right about it."""
    return line(id=identity, **members)


GARBAGE = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([text for _, text in HOSTILE.values()]),
    st.builds(
        answer_like,
        st.sampled_from([0, 1, 2, "0", "1", None, 0.0, False]),
        st.sampled_from([{"result": 5}, {"error": "x"}, {"result": {}, "error": {}}, {"method": 5}, {}]),
    ),
)
CLIENT_CALLS: list[tuple[Method[Any, Any], Any]] = [
    (v2.SESSION_LIST, v2.ListSessionsRequest()),
    (v2.SESSION_NEW, v2.NewSessionRequest(cwd="/")),
]
AGENT_CALLS: list[tuple[Method[Any, Any], Any]] = [
    (v2.SESSION_REQUEST_PERMISSION, v2.RequestPermissionRequest(session_id="s", title="t", options=CHOICES)),
]


class TwoConnections(RuleBasedStateMachine):
    """Two connections back to back; every line that one sends arrives at the other later, in order.

    Somebody else puts lines between theirs, anywhere; what is answered to these is looked at, and goes nowhere.
    """

    owed = Bundle("owed")
    """Requests that have arrived at the side that is named, and wait for its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: dict[Role, Connection] = {"agent": agent(), "client": client()}
        self.wires: dict[Role, list[tuple[bytes, bool]]] = {"agent": [], "client": []}
        """Lines towards that side, their line feeds included, and whether they are somebody else's."""
        self.begun: dict[Role, int] = {"agent": 0, "client": 0}  # so much of the first has arrived
        self.waiting: dict[Role, set[int | str]] = {"agent": set(), "client": set()}
        self.settled: dict[Role, list[int | str]] = {"agent": [], "client": []}
        self.told: dict[Role, list[str]] = {"agent": [], "client": []}
        self.heard: dict[Role, list[str]] = {"agent": [], "client": []}
        self.due: dict[Role, set[int | str]] = {"agent": set(), "client": set()}
        """Ids of requests that have arrived at that side, and were not answered."""

    def other(self, side: Role) -> Role:
        return "client" if side == "agent" else "agent"

    def move(self, side: Role) -> None:
        """What a side has sent is on its way."""
        *lines, rest = self.ends[side].take().split(b"\n")
        assert rest == b""
        self.wires[self.other(side)] += [(one + b"\n", False) for one in lines]

    def put(self, side: Role, data: st.DataObject, text: bytes) -> None:
        """A line of somebody else is on its way to a side, before, between or after those that are."""
        wire = self.wires[side]
        place = data.draw(st.integers(1 if self.begun[side] else 0, len(wire)))
        wire.insert(place, (text + b"\n", True))

    @staticmethod
    def members_of(value: Any) -> dict[str, Any]:
        """The members of a JSON object; none where it is no object."""
        try:
            return msgspec.convert(value, dict[str, Any])
        except msgspec.ValidationError:
            return {}

    @staticmethod
    def value_of(text: bytes) -> Any:
        """What a line holds; None where that is no JSON."""

        def refuse(constant: str) -> None:
            raise ValueError(constant)

        try:
            return json.loads(text.decode().removeprefix("\ufeff"), parse_constant=refuse)
        except (ValueError, RecursionError):
            return None

    @rule(side=st.sampled_from(["agent", "client"]), data=st.data())
    def ask(self, side: Role, data: st.DataObject) -> None:
        method, params = data.draw(st.sampled_from(CLIENT_CALLS if side == "client" else AGENT_CALLS))
        try:
            request_id = self.ends[side].request(method, params)
        except ConnectionClosed:
            assert self.ends[side].closed
        else:
            assert request_id not in self.settled[side]
            self.waiting[side].add(request_id)
            self.move(side)

    @rule(side=st.sampled_from(["agent", "client"]), text=st.uuids().map(str))
    def tell(self, side: Role, text: str) -> None:
        update = v2.AgentMessageChunk(message_id=text, content=v2.TextContent(text=text))
        try:
            if side == "agent":
                self.ends[side].notify(v2.SESSION_UPDATE, v2.UpdateSessionNotification(session_id="s", update=update))
            else:
                self.ends[side].notify(v2.SESSION_CANCEL, v2.CancelSessionNotification(session_id=text))
        except ConnectionClosed:
            return
        self.told[side].append(text)
        self.move(side)

    @rule(target=owed, side=st.sampled_from(["agent", "client"]), part=st.just(1.0) | st.floats(0, 1))
    def arrive(self, side: Role, part: float) -> Any:
        """A part of what is on its way to a side arrives, cut anywhere."""
        end, wire = self.ends[side], self.wires[side]
        whole = b"".join(text for text, _ in wire)[self.begun[side] :]
        block = whole[: max(1, int(len(whole) * part))]
        whose: list[tuple[bytes, bool]] = []
        size = self.begun[side] + len(block)
        while wire and len(wire[0][0]) <= size:
            text, is_others = wire.pop(0)
            size -= len(text)
            if text.strip(b" \t\r\n"):
                whose.append((text, is_others))
        self.begun[side] = size
        arrived: list[int | str] = []
        lines = end.split(block)
        assert len(lines) == len(whose)
        for one, (text, is_others) in zip(lines, whose, strict=True):
            assert one.strip() == text.strip()
            event, answers = self.look(side, one)
            if is_others:
                self.settle(side, event)
                continue
            self.wires[self.other(side)] += [(answer + b"\n", False) for answer in answers]
            if isinstance(event, Request):
                assert not answers
                arrived.append(event.id)
                self.due[side].add(event.id)
            elif isinstance(event, Answered):
                self.waiting[side].discard(event.id)
                self.settled[side].append(event.id)
            elif isinstance(event, Notification):
                params: Any = event.params
                self.heard[self.other(side)].append(params.session_id if side == "agent" else params.update.message_id)
        return (side, arrived)

    def settle(self, side: Role, event: Event) -> None:
        """What is due after a line of somebody else: it changes nothing that is owed."""
        end = self.ends[side]
        if isinstance(event, Answered):
            self.waiting[side].discard(event.id)
            self.settled[side].append(event.id)
        elif isinstance(event, Request):
            end.answer(event.id)
            assert len(sent(end)) == 1

    def look(self, side: Role, one: bytes) -> tuple[Event, list[bytes]]:
        """Have a side receive a line; the event, and the lines that it has answered by itself."""
        end, due = self.ends[side], self.due[side]
        assert end.unsent == 0
        before = end.counters.answers
        event = received(end, one)
        answers = end.take().splitlines()
        assert len(answers) == end.counters.answers - before <= (0 if end.closed else 1)
        members = self.members_of(self.value_of(one))
        is_told = type(members.get("method")) is str and "id" not in members
        request_id = members.get("id")
        if is_told:
            assert not answers, "no notification is answered, known or unknown (ER-01)"
        elif type(members.get("method")) is str and type(request_id) in {int, str} and request_id in due:
            assert isinstance(event, Ignored), "the first with this id is still to be answered"
            if not end.closed:
                ((found, code),) = [error_of(json.loads(answer)) for answer in answers]
                assert (found, type(found)) == (request_id, type(request_id))
                assert code == (event.message.code if isinstance(event.message, Malformed) else -32600)
        to_cancel = self.members_of(members.get("params")).get("requestId")
        is_cancel = is_told and members["method"] == "$/cancel_request" and type(to_cancel) in {int, str}
        if is_cancel and to_cancel in due:
            assert isinstance(event, CancelRequested)
            assert (event.id, type(event.id)) == (to_cancel, type(to_cancel))
        else:
            assert not isinstance(event, CancelRequested), "only of what is owed (RC-05)"
        if isinstance(event, Answered):
            assert event.id in self.waiting[side], "answered once, and was waiting"
        elif isinstance(event, Request):
            assert event.id not in due
        assert end.owed == due | ({event.id} if isinstance(event, Request) else set())
        return event, answers

    @rule(found=consumes(owed), fails=st.booleans())
    def answer(self, found: tuple[Role, list[int | str]], fails: bool) -> None:
        side, ids = found
        end = self.ends[side]
        for request_id in ids:
            if end.closed is not None:
                with pytest.raises(ConnectionClosed):
                    end.answer(request_id)
            elif fails:
                end.fail(request_id, RequestError(1, "no"))
            else:
                end.answer(request_id, {"sessions": [], "sessionId": "s", "outcome": {"outcome": "cancelled"}})
            assert request_id not in end.owed
            self.due[side].discard(request_id)
        self.move(side)

    @rule(side=st.sampled_from(["agent", "client"]), data=st.data(), forget=st.booleans())
    def cancel(self, side: Role, data: st.DataObject, forget: bool) -> None:
        known = sorted(self.waiting[side], key=str)
        request_id = data.draw(st.sampled_from([*known, 10**6]))
        self.ends[side].cancel(request_id, forget=forget)
        if forget:
            self.waiting[side].discard(request_id)
        self.move(side)

    @rule(side=st.sampled_from(["agent", "client"]), data=st.data(), text=GARBAGE)
    def garbage(self, side: Role, data: st.DataObject, text: bytes) -> None:
        """Whatever somebody else says."""
        for one in text.split(b"\n"):
            self.put(side, data, one)

    @rule(
        side=st.sampled_from(["agent", "client"]),
        data=st.data(),
        name=st.sampled_from(["_x/told", "no/such", "$/other", "session/list", "session/request_permission", ""]),
        params=st.sampled_from([{}, {"params": {}}, {"params": {"sessionId": 5}}, {"params": 5}, {"result": {}}]),
    )
    def tell_nonsense(self, side: Role, data: st.DataObject, name: str, params: dict[str, Any]) -> None:
        """Somebody else sends a notification that is none of this side's, some of the wrong kind or shape, too."""
        self.put(side, data, line(method=name, **params))

    @rule(
        side=st.sampled_from(["agent", "client"]),
        data=st.data(),
        call=st.sampled_from([*CLIENT_CALLS, *AGENT_CALLS]),
    )
    def ask_again(self, side: Role, data: st.DataObject, call: tuple[Method[Any, Any], Any]) -> None:
        """Somebody else asks with an id that is in flight, or on its way, or like one that is (S-CA-04)."""
        due = sorted(self.due[side], key=str)
        known = [*due, *self.waiting[self.other(side)] - self.due[side], 10**6]
        request_id = data.draw(st.sampled_from(due or known) | st.sampled_from([*known, *map(str, known)]))
        method, params = call
        self.put(side, data, line(id=request_id, method=method.name, params=json.loads(v2.encode(params))))

    @rule(side=st.sampled_from(["agent", "client"]), data=st.data())
    def cancel_any(self, side: Role, data: st.DataObject) -> None:
        """Somebody else cancels a request that is in flight, has been, will be, or is only like one that is."""
        due = sorted(self.due[side], key=str)
        known = [*due, *self.waiting[self.other(side)] | self.waiting[side] | {*self.settled[self.other(side)]}, 10**6]
        alike: list[Any] = [*map(str, known), *map(float, known), None, True]
        request_id = data.draw(st.sampled_from(due or known) | st.sampled_from([*known, *alike]))
        self.put(side, data, line(method="$/cancel_request", params={"requestId": request_id}))

    @rule(side=st.sampled_from(["agent", "client"]))
    def leave(self, side: Role) -> None:
        """A side closes, once something has happened."""
        if len(self.settled["agent"]) + len(self.settled["client"]) > 3:
            self.close(side)

    def close(self, side: Role) -> None:
        end = self.ends[side]
        expected: set[int | str] = set() if end.closed else self.waiting[side]
        failed = [event.id for event in end.close(ConnectionClosed("closed"))]
        assert set(failed) == expected
        assert len(failed) == len(set(failed))
        self.waiting[side].clear()
        self.due[side].clear()
        self.settled[side] += failed

    @invariant()
    def nothing_is_lost_or_turned_round(self) -> None:
        for side in ("agent", "client"):
            assert self.heard[side] == self.told[side][: len(self.heard[side])]
            assert len(self.settled[side]) == len(set(self.settled[side])), "one answer a request"
            assert self.ends[side].owed == self.due[side]
            if self.ends[side].closed is None:
                assert self.ends[side].is_waiting == bool(self.waiting[side])

    def teardown(self) -> None:
        """In the end nothing is pending, on either side."""
        for side in ("agent", "client"):
            self.close(side)
            assert not self.ends[side].is_waiting
            assert not self.ends[side].owed


TestTwoConnections = TwoConnections.TestCase
TestTwoConnections.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def test_a_tap_sees_what_it_sends_itself_where_it_is_on_the_wire() -> None:
    """S-OR: whatever it answers to a line comes after all that was sent before it knew of that."""
    seen: list[bytes] = []

    def tap(role: str, line: bytes) -> None:
        seen.append(line)
        if role == "agent" and b"echo" not in line:
            connection.send_line(b'{"echo":%d}\n' % len(seen))

    connection = agent(tap=tap)
    connection.send_later(lambda out: out.extend(b'{"x":1}\n{"x":2}\n'))
    connection.send_line(b'{"x":3}\n')
    connection.request(v2.SESSION_REQUEST_PERMISSION, {})
    connection.request(v2.SESSION_REQUEST_PERMISSION, {})
    update = v2.UpdateSessionNotification(session_id="s", update=v2.StateUpdate(state="running"))
    connection.notify(v2.SESSION_UPDATE, update)
    assert connection.take().splitlines(keepends=True) == seen
    ids = [json.loads(line)["id"] for line in seen if b'"id"' in line]
    assert ids == [0, 1]
    assert len(seen) == 12
