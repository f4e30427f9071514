"""Lines that broke ACP software: each decodes to what is right, and so does everything of its kind.

The expectations come from the words of each case and from requirements A26 and A27. What a runtime must do with the
result (answer, drop, fail a pending request) is not tested here, only that the decoder tells it what to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from acpwire import v2, wire
from acpwire.wire import (
    ErrorResponse,
    LineBuffer,
    Malformed,
    Notification,
    Request,
    Response,
    UnknownVariant,
    surrogates,
)
from tests import fuzz

PARSE, INVALID, PARAMS = -32700, -32600, -32602
LINES = fuzz.hostile()
INT64 = (-(2**63), 2**63 - 1)


class Bad(NamedTuple):
    """What a `Malformed` must say; `code` None means that nothing is answered, and `named` what its message names."""

    code: int | None
    path: str = "$"
    id: int | str | None = None
    method: str | None = None
    named: str = ""


def from_client(line: str | bytes) -> Any:
    """A line as an agent reads it."""
    return v2.decode_from_client(line.encode() if isinstance(line, str) else line)


def from_agent(line: str | bytes) -> Any:
    """A line as a client reads it."""
    return v2.decode_from_agent(line.encode() if isinstance(line, str) else line)


def case(name: str) -> Any:
    """The line of a case as the side reads it that it is sent to."""
    to, line = LINES[name]
    return from_client(line) if to == "agent" else from_agent(line)


def assert_bad(message: Any, expected: Bad, line: str | bytes) -> None:
    """The message is malformed, in every respect as expected; ids have their JSON type."""
    assert isinstance(message, Malformed)
    assert message.line == (line.encode() if isinstance(line, str) else line)
    found = Bad(message.code, message.path, message.id, message.method, expected.named)
    assert found == expected
    assert type(message.id) is type(expected.id)
    assert expected.named in message.message
    assert message.message


def each(*values: Any) -> tuple[Any, ...]:
    """Values of mixed types, to go through."""
    return values


def message_line(**members: Any) -> str:
    """A line of these members, after `jsonrpc`."""
    return json.dumps({"jsonrpc": "2.0", **members})


def update_line(update: Any) -> str:
    """A `session/update` of this update."""
    return message_line(method="session/update", params={"sessionId": "s1", "update": update})


def updated(line: str | bytes) -> Any:
    """The update of a notification that was delivered."""
    match from_agent(line):
        case Notification(method="session/update", params=v2.UpdateSessionNotification(session_id="s1", update=update)):
            return update
        case message:
            raise AssertionError(message)


# --- every case ------------------------------------------------------------------------------------------------------

MALFORMED: dict[str, Bad] = {
    "W-EN-01": Bad(INVALID),
    "W-EN-02": Bad(INVALID),
    "W-EN-03": Bad(INVALID),
    "W-EN-05": Bad(INVALID),
    "W-EN-07": Bad(PARSE),
    "W-EN-08": Bad(PARSE),
    "W-EN-11": Bad(INVALID, "$.jsonrpc", 1, "session/list"),
    "W-EN-12": Bad(INVALID, "$.method", 1),
    "W-EN-14": Bad(INVALID, "$.id", None, "session/list"),
    "W-EN-15": Bad(INVALID, "$.id", None, "session/list"),
    "W-EN-16": Bad(INVALID, "$.id", None, "session/list"),
    "W-EN-18": Bad(INVALID, "$.id", None, "session/list"),
    "W-EN-25": Bad(PARAMS, "$.params", 1, "session/list"),
    "W-EN-28": Bad(PARAMS, "$.params.cwd", 1, "session/new"),
    "W-EN-29": Bad(PARSE),
    "W-EN-30": Bad(PARSE),
    "W-EN-32": Bad(PARSE),
    "W-RS-01": Bad(None, "$.error", 1),
    "W-RS-02": Bad(None, "$", 1),
    "W-RS-04": Bad(None, "$.error.code", 1),
    "W-RS-05": Bad(None, "$.error", 1, named="message"),
    "W-RS-07": Bad(None, "$.id"),
    "W-RS-09": Bad(None, "$.id"),
    "W-UP-07": Bad(None, "$.params.update", None, "session/update", "messageId"),
    "W-UP-09": Bad(None, "$.params.update.sessionUpdate", None, "session/update"),
    "W-UP-10": Bad(None, "$.params.update", None, "session/update"),
    "W-UP-11": Bad(None, "$.params.update.used", None, "session/update"),
    "W-UP-22": Bad(None, "$.params.update.title", None, "session/update"),
    "W-UP-26": Bad(None, "$.params.update.availableCommands", None, "session/update"),
}
"""The empty line (W-EN-30) is one that a line buffer leaves out; handed to a decoder all the same, it is no JSON."""

RAW = msgspec.Raw
DELIVERED: dict[str, Any] = {
    "W-EN-09": Request(id=1, method="session/list", params=v2.ListSessionsRequest()),
    "W-EN-19": Request(id=2**63 - 1, method="session/list", params=v2.ListSessionsRequest()),
    "W-EN-21": Request(id="1", method="session/list", params=v2.ListSessionsRequest()),
    "W-EN-23": Request(id=1, method="no/such", params=RAW(b"{}")),
    "W-EN-24": Notification(method="no/such", params=RAW(b"{}")),
    "W-EN-26": Request(id=1, method="session/list", params=v2.ListSessionsRequest()),
    "W-EN-33": Request(id=7, method="session/cancel", params=RAW(b'{"sessionId":"s1"}')),
    "W-EN-34": Notification(method="session/list", params=RAW(b"{}")),
    "W-RS-06": Response(id="1", result=RAW(b"{}")),
    "W-RS-10": ErrorResponse(id=None, error=wire.ErrorObject(code=-32700, message="Parse error")),
    "W-RS-11": Response(id=1, result=RAW(b'{"sessionId":5}')),
    "W-RS-12": ErrorResponse(
        id=1,
        error=wire.ErrorObject(code=-32603, message="Internal error", data={"details": "401 from the model service"}),
    ),
    "W-ME-01": Request(
        id=1,
        method="session/close",
        params=v2.CloseSessionRequest(session_id="s1", meta={"session_id": "EVIL", "sessionId": "EVIL"}),
    ),
    "W-CN-01": Notification(method="$/cancel_request", params=v2.CancelRequestNotification(request_id=999)),
    "W-CN-02": Request(id=5, method="$/whatever", params=RAW(b"{}")),
}
HI = v2.TextContent(text="hi")
UPDATES: dict[str, Any] = {
    "W-UP-01": UnknownVariant(
        "_vendor/progress",
        b'{"sessionUpdate":"_vendor/progress","percent":3,"deep":{"k":[1,null,1.0,12345678901234567890123]}}',
    ),
    "W-UP-02": UnknownVariant(
        "prompt_suggestions_update", b'{"sessionUpdate":"prompt_suggestions_update","suggestions":[]}'
    ),
    "W-UP-03": v2.AgentMessageChunk(
        message_id="m1", content=UnknownVariant("_vendor/widget", b'{"type":"_vendor/widget","html":"<b>"}')
    ),
    "W-UP-04": v2.AgentMessage(
        message_id="m1", content=[HI, UnknownVariant("hologram", b'{"type":"hologram","x":1}'), HI]
    ),
    "W-UP-05": v2.AgentMessage(message_id="m1"),
    "W-UP-06": v2.AgentMessage(message_id="m1", content=None),
    "W-UP-13": v2.StateUpdate(state="idle"),
    "W-UP-14": v2.StateUpdate(state="idle", stop_reason="_vendor_limit"),
    "W-UP-15": v2.StateUpdate(state="idle", stop_reason="error", error=v2.Error(code=-32603, message="model failed")),
    "W-UP-17": UnknownVariant("state_update", b'{"sessionUpdate":"state_update","state":"thinking_hard"}'),
    "W-UP-18": v2.StateUpdate(state="unknown"),
    "W-UP-19": v2.ToolCallUpdate(tool_call_id="c1", status="_vendor_parked", kind="teleport", raw_input=None),
    "W-UP-20": v2.ToolCallUpdate(
        tool_call_id="c1", locations=[v2.ToolCallLocation(path="/a"), v2.ToolCallLocation(path="/b", line=3)]
    ),
    "W-UP-21": v2.TerminalUpdate(terminal_id="t1"),
    "W-UP-24": v2.PlanUpdate(
        plan=UnknownVariant("_vendor/graph", b'{"type":"_vendor/graph","planId":"p1","nodes":[]}')
    ),
    "W-UP-27": v2.AvailableCommandsUpdate(
        available_commands=[
            v2.Command(name="a", description="b"),
            UnknownVariant("_m", b'{"type":"_m","name":"n","description":"d","z":1}'),
        ]
    ),
    "W-UP-28": v2.SessionMessageChunk(message_id="r1", sender_session_id="p", recipient_session_id="c", content=HI),
    "W-UP-29": v2.SubagentUpdate(
        session_id="c1", state=v2.StateSnapshot(state="idle", stop_reason="end_turn"), title=None
    ),
    "W-UP-30": v2.TerminalOutputChunk(terminal_id="t1", data="4pyT"),
    "W-UP-31": v2.TerminalOutputChunk(terminal_id="t1", data="not base64!"),
    "W-TX-01": v2.AgentMessageChunk(message_id="m1", content=v2.TextContent(text="hi \ud83d")),
    "W-TX-02": v2.AgentMessageChunk(message_id="m1", content=v2.TextContent(text="\ude00 there")),
    "W-TX-04": v2.AgentMessageChunk(message_id="m1", content=v2.TextContent(text="a\u2028b\u2029c\u0085d\u000be\ff")),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_the_case_is_malformed_and_says_how(name: str) -> None:
    """Code, path, id and method of each case whose line is no message."""
    assert_bad(case(name), MALFORMED[name], LINES[name][1])


@pytest.mark.parametrize("name", DELIVERED)
def test_the_case_is_a_message(name: str) -> None:
    """Whole, with the JSON type of its id."""
    message = case(name)
    assert message == DELIVERED[name]
    assert type(getattr(message, "id", None)) is type(getattr(DELIVERED[name], "id", None))


@pytest.mark.parametrize("name", UPDATES)
def test_the_update_is_delivered(name: str) -> None:
    """Whole; the bytes of what is unknown are those that came, there and back."""
    update = updated(LINES[name][1])
    assert update == UPDATES[name]
    assert wire.encode(from_agent(LINES[name][1])).startswith(b'{"jsonrpc":"2.0","method":"session/update"')
    if isinstance(update, UnknownVariant):
        assert v2.encode(update) == update.raw
        assert update.raw in LINES[name][1]


def test_every_hostile_line_is_tested() -> None:
    """The file's cases are those of the three tables."""
    assert {*MALFORMED, *DELIVERED, *UPDATES} == set(LINES)
    assert len(MALFORMED) + len(DELIVERED) + len(UPDATES) == len(LINES)


# --- envelopes: W-EN -------------------------------------------------------------------------------------------------

SIDES: tuple[Callable[[str | bytes], Any], ...] = (from_client, from_agent)
both_sides = pytest.mark.parametrize("decode", SIDES, ids=["agent", "client"])
GOOD = message_line(id=1, method="session/list", params={})


@both_sides
@pytest.mark.parametrize(
    "line",
    [
        *("[]", "[ ]", f"[{GOOD}]", f"[{GOOD},{GOOD}]", "[1]", "[[]]", "[null]", f"[{message_line(id=1, result={})}]"),
        *("0", "42", "-1.5e3", "1e400", "true", "false", "null", '""', '"text"', json.dumps(GOOD), " 42 ", '"\\ud83d"'),
        *(
            "{}",
            '{"a":1}',
            '{"jsonrpc":"2.0"}',
            message_line(id=1),
            message_line(params={}),
            message_line(id=1, params=[]),
        ),
        *('{"id":1}', '{"result_":1}', message_line(id=None), message_line(id=[])),
    ],
)
def test_json_that_is_no_message_is_an_invalid_request_under_no_id(line: str, decode: Callable[[str], Any]) -> None:
    """TR-06, TR-09, W-EN-01..05: batches (X1), scalars, objects of no kind."""
    assert_bad(decode(line), Bad(INVALID), line)


@both_sides
@pytest.mark.parametrize(
    "line",
    [
        *(
            "",
            " ",
            "{",
            "}",
            "[",
            "]",
            '"',
            "nul",
            "tru",
            "-",
            "01",
            "1.",
            "+1",
            ".5",
            "'a'",
            "NaN",
            "Infinity",
            "-Infinity",
        ),
        *(GOOD[:-1], GOOD[1:], GOOD + "}", GOOD + ",", GOOD + GOOD, GOOD + " " + GOOD, GOOD + "\x00", "\x00" + GOOD),
        *("[1,2", "[1]]", "[1] x", "42 x", "null null", '"a" 1', "true,", "[,]", "[1,]", "{} {}", "{},", "//" + GOOD),
        *(
            GOOD.replace("{}", bad)
            for bad in ("NaN", "[Infinity]", '{"a":-Infinity}', "{'a':1}", "{a:1}", "[1,]", '"\t"')
        ),
        *(GOOD.replace("1", bad) for bad in ("01", "1.", "NaN", "'1'", "0x1", "1e", "--1", "")),
        *(GOOD.replace('"session/list"', bad) for bad in ("undefined", '"a', '"\\x"', '"\\u12"', "session/list")),
        *(
            "\x1b]0;title\x07" + GOOD,
            "agent ready",
            "Content-Length: 2",
            "\ufeff\ufeff" + GOOD,
            "{\ufeff}",
            GOOD + "\ufeff",
        ),
        # a member that is wrong, or a whole that is, before it turns out to be no JSON
        '{"jsonrpc":"1.0","id":1,"method":"m',
        '{"jsonrpc":"2.0","id":null,"method":"m","params":{]}}',
        '{"jsonrpc":"2.0","id":1.5,"method":"m"',
        '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"}',
        '{"jsonrpc":"2.0","id":1,"error":{"code":"E","message":x}}',
        '{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":5,}}',
        '{"jsonrpc":"2.0","method":5,"params":[NaN]}',
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":7,"update":{"sessionUpdate":"_x"}}',
    ],
)
def test_what_is_no_json_is_a_parse_error_under_no_id(line: str, decode: Callable[[str], Any]) -> None:
    """TR-06, W-EN-07, -08, -29, -32: whatever it begins with, and whatever is wrong beside; no id is guessed."""
    assert_bad(decode(line), Bad(PARSE), line)


@both_sides
@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc3", b"\xe2\x80", b"\xed\xa0\xbd", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\x80"]
)
def test_invalid_utf8_is_a_parse_error_wherever_it_stands(bad: bytes, decode: Callable[[bytes], Any]) -> None:
    """S-SP-03: in strings, names, ids, methods, ignored members, raw params, unknown variants, behind other faults."""
    lines = [
        b'{"jsonrpc":"2.0","id":1,"method":"m%s"}',
        b'{"jsonrpc":"2.0","id":"%s","method":"session/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","%s":1}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"x":"%s"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"%s":1}}',
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"_meta":{"k":"%s"}}}',
        b'{"jsonrpc":"2.0","method":"_x","params":"%s"}',
        b'{"jsonrpc":"2.0","id":1,"result":{"%s":1}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"%s"}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","x":"%s"}}',
        b'{"jsonrpc":"2.0","id":null,"method":"%s"}',
        b'{"jsonrpc":"2.0","id":null,"method":"m","%s":1}',
        b'{"jsonrpc":"1.0","id":1,"method":"%s"}',
        b'["%s"]',
        b'{"%s":1}',
        b'"%s"',
        b"%s",
        b'\xef\xbb\xbf{"%s":1}',
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"_x","a":"%s"}}}',
        b'{"jsonrpc":"2.0","method":"session/update","params":{"update":{"title":"%s","sessionUpdate":"notice"}}}',
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"\\ud83d","update":{"a":"%s"}}}',
    ]
    for form in lines:
        assert not isinstance(decode(form % b"ok"), Malformed) or decode(form % b"ok").code != PARSE or form == b"%s"
        assert_bad(decode(form % bad), Bad(PARSE), form % bad)


@pytest.mark.parametrize("spaces", ["", " ", "\t \r\n"])
def test_a_leading_byte_order_mark_is_skipped(spaces: str) -> None:
    """W-EN-09: before any kind of message, and what is malformed behind it keeps its bytes."""
    for decode, names in (
        (from_client, ("W-EN-26", "W-EN-24", "W-CN-01")),
        (from_agent, ("W-RS-12", "W-UP-01", "W-TX-01")),
    ):
        for name in names:
            line = LINES[name][1].decode()
            assert decode("\ufeff" + spaces + line) == decode(line)
    for name in ("W-EN-02", "W-EN-12", "W-EN-25", "W-EN-28"):
        line = "\ufeff" + spaces + LINES[name][1].decode()
        assert_bad(from_client(line), MALFORMED[name], line)


@both_sides
@pytest.mark.parametrize("count", [2, 3, 10_000])
def test_only_one_byte_order_mark_is_skipped(count: int, decode: Callable[[str], Any]) -> None:
    """W-EN-09: JSON may not begin with one at all; ten thousand of them are no reason to fail."""
    line = "\ufeff" * count + GOOD
    assert_bad(decode(line), Bad(PARSE), line)


IDS_OF_NO_KIND: tuple[str, ...] = (
    *(
        "null",
        "true",
        "false",
        "[]",
        "[1]",
        '["a"]',
        "{}",
        '{"a":1}',
        "1.5",
        "-0.5",
        "1.0",
        "-0.0",
        "1e2",
        "1E400",
        "0e0",
    ),
    *("9223372036854775808", "-9223372036854775809", "18446744073709551616", "1" + "0" * 5000),
)


@both_sides
@pytest.mark.parametrize("bad", IDS_OF_NO_KIND, ids=[it[:30] for it in IDS_OF_NO_KIND])
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_a_request_whose_id_is_none_is_answered_under_null(bad: str, first: bool, decode: Callable[[str], Any]) -> None:
    """ER-02, H16, X9, W-EN-14..18: an id is a string or an int64, wherever it stands."""
    for rest in ('"method":"session/list"', '"method":"no/such","params":[1]', '"method":"session/list","params":7'):
        line = f'{{"id":{bad},"jsonrpc":"2.0",{rest}}}' if first else f'{{"jsonrpc":"2.0",{rest},"id":{bad}}}'
        assert_bad(decode(line), Bad(INVALID, "$.id", None, json.loads(f"{{{rest}}}")["method"]), line)


@both_sides
@pytest.mark.parametrize("bad", IDS_OF_NO_KIND, ids=[it[:30] for it in IDS_OF_NO_KIND])
@pytest.mark.parametrize("rest", ['"result":{}', '"result":null', '"error":{"code":1,"message":""}', '"error":7'])
def test_a_response_whose_id_is_none_is_never_answered(bad: str, rest: str, decode: Callable[[str], Any]) -> None:
    """ER-08, W-RS-07, W-RS-09: and matches nothing; only an error may have the id null (ER-03)."""
    for line in (f'{{"jsonrpc":"2.0","id":{bad},{rest}}}', f'{{"jsonrpc":"2.0",{rest},"id":{bad}}}'):
        if bad == "null" and rest.startswith('"error":{'):
            assert decode(line) == ErrorResponse(id=None, error=wire.ErrorObject(code=1, message=""))
        elif bad == "null" and rest.startswith('"error"'):
            assert_bad(decode(line), Bad(None, "$.error"), line)
        else:
            assert_bad(decode(line), Bad(None, "$.id"), line)


@both_sides
@pytest.mark.parametrize(
    "good", [0, 1, -1, *INT64, 2**53 + 1, "", "1", "0", "null", "\x00", "a\u2028b", "\U0001f600", "x" * 9999]
)
def test_ids_come_with_their_json_type_and_go_back_as_they_came(good: int | str, decode: Callable[[str], Any]) -> None:
    """ER-02, W-EN-19, W-EN-21: in requests of known, unknown and notification methods, answers and errors."""
    lines = [
        message_line(id=good, method="session/list", params={}),
        message_line(id=good, method="no/such", params=[1]),
        *(
            message_line(id=good, method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": tag}})
            for tag in ("_x", "session_info_update")
        ),
        message_line(id=good, method="session/update", params=None),
        message_line(id=good, result=None),
        message_line(id=good, error={"code": 1, "message": ""}),
    ]
    for line in lines:
        message = decode(line)
        assert isinstance(message, Request | Response | ErrorResponse)
        assert message.id == good
        assert type(message.id) is type(good)
        assert json.loads(wire.encode(cast("Any", message)))["id"] == good


@both_sides
@pytest.mark.parametrize("bad", ["1.0", "2", "", "2.0.0", " 2.0", 2.0, 2, None, True, [], {}, ["2.0"]])
def test_another_version_of_json_rpc_is_refused(bad: Any, decode: Callable[[str], Any]) -> None:
    """ER-01, W-EN-11: under the id of a request; notifications and responses are not answered."""
    for first in (True, False):
        for members, expected in each(
            ({"id": 1, "method": "session/list"}, Bad(INVALID, "$.jsonrpc", 1, "session/list")),
            ({"id": "1", "method": "no/such"}, Bad(INVALID, "$.jsonrpc", "1", "no/such")),
            ({"method": "session/update", "params": {}}, Bad(None, "$.jsonrpc", None, "session/update")),
            ({"id": 1, "result": {}}, Bad(None, "$.jsonrpc", 1)),
            ({"id": 1, "error": {"code": 1, "message": ""}}, Bad(None, "$.jsonrpc", 1)),
            ({"id": None, "error": {"code": 1, "message": ""}}, Bad(None, "$.jsonrpc")),
        ):
            line = json.dumps({"jsonrpc": bad, **members} if first else {**members, "jsonrpc": bad})
            assert_bad(decode(line), expected, line)
            missing = json.dumps(members)
            assert_bad(decode(missing), expected, missing)


@both_sides
@pytest.mark.parametrize("bad", [5, 1.5, None, True, False, [], ["m"], {}])
def test_a_method_that_is_no_string_is_refused(bad: Any, decode: Callable[[str], Any]) -> None:
    """W-EN-12: under the id of a request, also beside a result; without an id nothing is answered."""
    for members, expected in each(
        ({"id": 1, "method": bad}, Bad(INVALID, "$.method", 1)),
        ({"id": "a", "method": bad, "params": {}}, Bad(INVALID, "$.method", "a")),
        ({"method": bad, "params": {}}, Bad(None, "$.method")),
        ({"id": 1, "method": bad, "result": {}}, Bad(INVALID, "$.method", 1)),
    ):
        line = message_line(**members)
        assert_bad(decode(line), expected, line)


@pytest.mark.parametrize("params", [[], [1], 5, "x", True, 1.5])
def test_params_of_a_known_method_must_be_an_object(params: Any) -> None:
    """ER-07, W-EN-25: -32602 under the id of a request; a notification is not answered."""
    request = message_line(id="a", method="session/list", params=params)
    assert_bad(from_client(request), Bad(PARAMS, "$.params", "a", "session/list"), request)
    notification = message_line(method="session/cancel", params=params)
    assert_bad(from_client(notification), Bad(None, "$.params", None, "session/cancel"), notification)
    update = message_line(method="session/update", params=params)
    assert_bad(from_agent(update), Bad(None, "$.params", None, "session/update"), update)


@pytest.mark.parametrize(
    ("method", "params", "path", "named"),
    each(
        ("session/new", {}, "$.params", "cwd"),
        ("session/new", {"cwd": None}, "$.params.cwd", ""),
        ("session/new", {"cwd": "/", "mcpServers": 5}, "$.params.mcpServers", ""),
        (
            "session/new",
            {"cwd": "/", "mcpServers": [{"type": "stdio", "name": "n"}]},
            "$.params.mcpServers[0]",
            "command",
        ),
        ("session/new", {"cwd": "/", "additionalDirectories": ["/a", 5]}, "$.params.additionalDirectories[1]", ""),
        ("session/prompt", {"sessionId": "s1"}, "$.params", "prompt"),
        ("session/prompt", {"sessionId": "s1", "prompt": [{"type": "text"}]}, "$.params.prompt[0]", "text"),
        ("session/prompt", {"sessionId": "s1", "prompt": [{}]}, "$.params.prompt[0]", "type"),
        ("session/prompt", {"sessionId": "s1", "prompt": {}}, "$.params.prompt", ""),
        ("initialize", {"protocolVersion": "2", "info": {"name": "n", "version": "v"}}, "$.params.protocolVersion", ""),
        (
            "initialize",
            {"protocolVersion": 65536, "info": {"name": "n", "version": "v"}},
            "$.params.protocolVersion",
            "",
        ),
        ("initialize", {"protocolVersion": 2}, "$.params", "info"),
        ("session/close", None, "$.params", "sessionId"),
    ),
)
def test_bad_params_of_a_request_are_told_by_their_path(method: str, params: Any, path: str, named: str) -> None:
    """ER-07, W-EN-28: the nearest fault that no flag absorbs, under the id."""
    line = message_line(id=7, method=method, params=params)
    assert_bad(from_client(line), Bad(PARAMS, path, 7, method, named), line)


def pairs() -> Iterator[tuple[str, str]]:
    """(method, the kind that it is not), for each side of each method that has one kind on that side."""
    for name, side, kind in v2.METHODS:
        other = "notification" if kind == "request" else "request"
        if not any((name, known, other) in v2.METHODS for known in (side, "protocol", "proxy")):
            yield name, other


@pytest.mark.parametrize(("name", "kind"), sorted(set(pairs())))
def test_a_method_of_the_other_kind_is_passed_on_undecoded(name: str, kind: str) -> None:
    """W-EN-33, W-EN-34: what it is follows from its id alone; the runtime answers -32601 or ignores it."""
    params = '{"sessionId" : 7, "x":[1.0]}'
    request = f'{{"jsonrpc":"2.0","id":7,"method":"{name}","params":{params}}}'
    notification = f'{{"jsonrpc":"2.0","method":"{name}","params":{params}}}'
    for side, decode in (("agent", from_client), ("client", from_agent)):
        if any((name, known, kind) in v2.METHODS for known in (side, "protocol", "proxy")):
            continue  # the other side has it in this kind
        if kind == "request":
            assert decode(request) == Request(id=7, method=name, params=RAW(params.encode()))
        else:
            assert decode(notification) == Notification(method=name, params=RAW(params.encode()))


@both_sides
@pytest.mark.parametrize(
    "name", ["$/whatever", "$/", "$/cancelRequest", "", "_", "_x/y", "session/Update", "session/update "]
)
@pytest.mark.parametrize("params", ["{}", "[ 1.0 ]", "null", '"x"', '{"requestId":null}'])
def test_methods_that_nobody_knows_are_passed_on_with_the_bytes_of_their_params(
    name: str, params: str, decode: Callable[[str], Any]
) -> None:
    """EX-06, EX-07, W-EN-23, W-EN-24, W-CN-02."""
    request = f'{{"jsonrpc":"2.0","id":1,"method":{json.dumps(name)},"params":{params}}}'
    assert decode(request) == Request(id=1, method=name, params=RAW(params.encode()))
    assert decode(request.replace('"id":1,', "")) == Notification(method=name, params=RAW(params.encode()))


@both_sides
@pytest.mark.parametrize("request_id", [1, "1", 0, *INT64, ""])
def test_cancelling_names_a_request_by_its_id_and_json_type(
    request_id: int | str, decode: Callable[[str], Any]
) -> None:
    """W-CN-01, ER-02: both ways; ids that none can have are malformed and not answered."""
    line = message_line(method="$/cancel_request", params={"requestId": request_id})
    params = decode(line).params
    assert params == v2.CancelRequestNotification(request_id=request_id)
    assert type(params.request_id) is type(request_id)
    for bad in each(None, True, 1.5, [], {}):
        line = message_line(method="$/cancel_request", params={"requestId": bad})
        assert_bad(decode(line), Bad(None, "$.params.requestId", None, "$/cancel_request"), line)
    line = message_line(method="$/cancel_request", params={})
    assert_bad(decode(line), Bad(None, "$.params", None, "$/cancel_request", "requestId"), line)


@both_sides
def test_what_a_message_of_another_kind_would_have_is_ignored(decode: Callable[[str], Any]) -> None:
    """EX-09: a request or notification may carry members that mean nothing to it, of whatever type."""
    for extra in each(
        {"result": 1}, {"error": "x"}, {"error": None}, {"error": {"code": 1, "message": "m"}}, {"x": [{}]}
    ):
        assert decode(message_line(id=1, method="no/such", params={}, **extra)) == Request(
            id=1, method="no/such", params=RAW(b"{}")
        )
        assert decode(message_line(method="no/such", params={}, **extra)) == Notification(
            method="no/such", params=RAW(b"{}")
        )
    assert decode(message_line(id=1, result={}, params=[1], x=1)) == Response(id=1, result=RAW(b"{}"))


def test_empty_lines_and_crlf_are_for_the_line_buffer() -> None:
    """W-EN-30: the empty line is left out; a line that ends in CRLF decodes as one that ends in LF."""
    line = LINES["W-EN-26"][1]
    lines = LineBuffer().feed(b"\n\r\n" + line + b"\r\n\n" + line + b"\n")
    assert [from_client(it) for it in lines] == [DELIVERED["W-EN-26"]] * 2


# --- responses: W-RS -------------------------------------------------------------------------------------------------


@both_sides
@pytest.mark.parametrize(
    ("error", "path", "named"),
    [
        *((bad, "$.error", "") for bad in each("boom", 5, None, True, [], [{"code": 1, "message": ""}])),
        ({}, "$.error", "code"),
        ({"message": "x"}, "$.error", "code"),
        ({"code": 1}, "$.error", "message"),
        *(({"code": bad, "message": "x"}, "$.error.code", "") for bad in each("E1", None, 1.5, True, [], {})),
        *(({"code": 1, "message": bad}, "$.error.message", "") for bad in each(5, None, True, [], {})),
    ],
)
def test_a_malformed_error_is_told_by_its_path_under_the_id(
    error: Any, path: str, named: str, decode: Callable[[str], Any]
) -> None:
    """W-RS-01, -04, -05, ER-08: the waiting request can fail; nothing is answered, with the id null as well."""
    for request_id in (1, "1", 0, None):
        line = message_line(id=request_id, error=error)
        assert_bad(decode(line), Bad(None, path, request_id, None, named), line)


@both_sides
@pytest.mark.parametrize("result", [{}, None, [], 5])
@pytest.mark.parametrize("error", [{"code": 1, "message": "x"}, None, "boom", {}])
def test_a_response_has_a_result_or_an_error_and_not_both(
    result: Any, error: Any, decode: Callable[[str], Any]
) -> None:
    """ER-01, W-RS-02: present is present, null included."""
    for line in (message_line(id=1, result=result, error=error), message_line(error=error, result=result, id=1)):
        assert_bad(decode(line), Bad(None, "$", 1), line)


@both_sides
def test_a_response_without_an_id_is_never_answered(decode: Callable[[str], Any]) -> None:
    """ER-08: it has no `method`, so it is no notification."""
    for members in each(
        {"result": {}}, {"error": {"code": 1, "message": ""}}, {"error": None}, {"result": 1, "error": 1}
    ):
        line = message_line(**members)
        assert_bad(decode(line), Bad(None, "$.id"), line)


@both_sides
@pytest.mark.parametrize("data", each(None, 0, "x", [], {}, {"details": ["401", 1.5, None]}, [[[]]], True))
@pytest.mark.parametrize("code", [-32700, -32800, 0, 1, 2**31 - 1, -(2**31)])
def test_errors_keep_code_message_and_data(code: int, data: Any, decode: Callable[[str], Any]) -> None:
    """ER-04, ER-05, W-RS-12: any JSON, null told apart from none."""
    for request_id in (1, "a", None):
        error = {"code": code, "message": "m", "data": data, "x": 1}
        message = decode(message_line(id=request_id, error=error))
        assert message == ErrorResponse(id=request_id, error=wire.ErrorObject(code=code, message="m", data=data))
        assert json.loads(wire.encode(message))["error"] == {"code": code, "message": "m", "data": data}
    without = decode(message_line(id=1, error={"code": code, "message": "m"}))
    assert without.error.data is v2.UNSET


@pytest.mark.parametrize(
    ("method", "result", "path"),
    [
        (v2.SESSION_NEW, {"sessionId": 5}, "$.sessionId"),
        (v2.SESSION_NEW, {}, "$"),
        (v2.SESSION_NEW, None, "$"),
        (v2.SESSION_NEW, [], "$"),
        (v2.SESSION_PROMPT, {"messageId": None}, "$.messageId"),
        (v2.SESSION_PROMPT, {}, "$"),
        (v2.SESSION_LIST, {"sessions": [], "nextCursor": 5}, "$.nextCursor"),
        (v2.INITIALIZE, {"protocolVersion": 2.5}, "$.protocolVersion"),
    ],
)
def test_a_result_that_does_not_fit_its_method_is_told_by_its_path(
    method: v2.Method[Any, Any], result: Any, path: str
) -> None:
    """W-RS-11, PL-14: the response itself is well formed; decoding the result for its method fails."""
    message = from_agent(message_line(id=1, result=result))
    assert type(message) is Response
    with pytest.raises(v2.DecodeError) as caught:
        method.decode_result(message.result)
    assert caught.value.path == path


# --- updates: W-UP ---------------------------------------------------------------------------------------------------

TAGS: tuple[str, ...] = (
    *("user_message", "agent_message", "agent_thought", "user_message_chunk", "agent_message_chunk"),
    *("agent_thought_chunk", "tool_call_update", "tool_call_content_chunk", "terminal_update", "terminal_output_chunk"),
    *("plan_update", "plan_removed", "available_commands_update", "config_option_update", "usage_update", "notice"),
    *("compaction_update", "compaction_summary_chunk", "state_update", "subagent_update", "session_message"),
    *("session_message_chunk",),
)
"""Those with members that must be there; all but `session_info_update`."""


@pytest.mark.parametrize("tag", TAGS)
def test_a_known_tag_with_a_bad_payload_is_never_an_unknown_variant(tag: str) -> None:
    """SU-13, H3, W-UP-07: dropped and reported, however little of it is there."""
    for payload in each({}, {"_meta": {}}, {"x": 1}):
        line = update_line({"sessionUpdate": tag, **payload})
        message = from_agent(line)
        assert isinstance(message, Malformed)
        assert (message.code, message.id, message.method) == (None, None, "session/update")
        assert message.path.startswith("$.params.update")


def test_an_update_that_needs_nothing_may_be_empty() -> None:
    """The one variant of the last test's kind that is right without members."""
    assert updated(update_line({"sessionUpdate": "session_info_update"})) == v2.SessionInfoUpdate()


@pytest.mark.parametrize("bad", [7, 1.5, None, True, [], {}, ["agent_message"]])
@pytest.mark.parametrize("where", ["sessionUpdate", "type", "plan", "state"])
def test_a_tag_that_is_no_string_is_refused_with_its_path(where: str, bad: Any) -> None:
    """H3, W-UP-09: the update's, a content block's, a plan's, a state's; first or last member."""
    forms: dict[str, tuple[list[dict[str, Any]], str]] = {
        "sessionUpdate": (
            [{"sessionUpdate": bad, "messageId": "m1"}, {"messageId": "m1", "sessionUpdate": bad}],
            "$.params.update.sessionUpdate",
        ),
        "type": (
            [
                {"sessionUpdate": "user_message_chunk", "messageId": "m", "content": {"type": bad, "text": "t"}},
                {"content": {"text": "t", "type": bad}, "messageId": "m", "sessionUpdate": "user_message_chunk"},
            ],
            "$.params.update.content.type",
        ),
        "plan": ([{"sessionUpdate": "plan_update", "plan": {"type": bad, "planId": "p"}}], "$.params.update.plan.type"),
        "state": ([{"sessionUpdate": "state_update", "state": bad}], "$.params.update.state"),
    }
    updates, path = forms[where]
    for update in updates:
        line = update_line(update)
        assert_bad(from_agent(line), Bad(None, path, None, "session/update"), line)


@pytest.mark.parametrize("bad", [None, 7, "x", True, [], [{"sessionUpdate": "_x"}]])
def test_an_update_that_is_no_object_is_refused(bad: Any) -> None:
    """W-UP-10."""
    line = update_line(bad)
    assert_bad(from_agent(line), Bad(None, "$.params.update", None, "session/update"), line)
    for line in (update_line({}), update_line({"messageId": "m"})):
        assert_bad(from_agent(line), Bad(None, "$.params.update", None, "session/update", "sessionUpdate"), line)
    line = message_line(method="session/update", params={"sessionId": "s1"})
    assert_bad(from_agent(line), Bad(None, "$.params", None, "session/update", "update"), line)


UNKNOWN_BODIES = (
    '"n":[1,1.0,1E2,-0,-0.0,12345678901234567890123,1e-7,0.1]',
    '"t":"\\u0061\\/\\ud83d\\ude00 \u2028\\u2028"',
    '  "a" :\t{ } , "b": [ ]',
    '"a":1,"a":2,"":null',
    '"_meta":{"a":null},"messageId":7,"content":"oops"',
    '"sessionUpdate":"_first"',
)


@pytest.mark.parametrize("body", UNKNOWN_BODIES)
@pytest.mark.parametrize(
    "tag", ["_x", "_vendor/progress", "future_update", "", "Agent_Message", "agent_message ", "\U0001f600"]
)
def test_unknown_updates_and_blocks_keep_every_byte(tag: str, body: str) -> None:
    """EX-03, W-UP-01..03: numbers, escapes, spaces, order and doubled names; as an update and inside known ones."""
    raw = f'{{{body},"sessionUpdate":{json.dumps(tag)}}}'
    line = f'{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s1","update":{raw}}}}}'
    assert updated(line) == UnknownVariant(tag, raw.encode())
    assert raw.encode() in wire.encode(from_agent(line))

    block = raw.replace("sessionUpdate", "type")
    for holder, content in (("agent_thought_chunk", block), ("agent_thought", f'[{block},{{"type":"text","text":5}}]')):
        update = f'{{"sessionUpdate":"{holder}","messageId":"m","content":{content}}}'
        line = f'{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s1","update":{update}}}}}'
        found = updated(line).content
        assert (found[0] if isinstance(found, list) else found) == UnknownVariant(tag, block.encode())
        assert block.encode() in wire.encode(from_agent(line))


@pytest.mark.parametrize(
    ("update", "missing"),
    [
        ({"sessionUpdate": "plan_update", "plan": {"type": "_graph"}}, "planId"),
        ({"sessionUpdate": "plan_update", "plan": {"type": "_graph", "planId": 7}}, "planId"),
    ],
)
def test_an_unknown_plan_must_have_what_every_plan_has(update: dict[str, Any], missing: str) -> None:
    """H4, W-UP-24: else it could not replace one."""
    message = from_agent(update_line(update))
    assert isinstance(message, Malformed)
    assert missing in message.path + message.message


@pytest.mark.parametrize("tag", ["user_message", "agent_message", "agent_thought"])
@pytest.mark.parametrize("bad", ["oops", 7, True, {}, {"type": "text", "text": "t"}, 1.5])
def test_malformed_content_is_left_out_and_null_clears(tag: str, bad: Any) -> None:
    """MS-03, W-UP-05, W-UP-06: not reported is not cleared, and an empty array is neither."""
    head = {"sessionUpdate": tag, "messageId": "m1"}
    assert updated(update_line({**head, "content": bad})).content is v2.UNSET
    assert updated(update_line(head)).content is v2.UNSET
    assert updated(update_line({**head, "content": None})).content is None
    assert updated(update_line({**head, "content": []})).content == []
    assert updated(update_line({**head, "content": [bad, {}, None]})).content == (
        [v2.TextContent(text="t")] if isinstance(bad, dict) and bad else []
    )


@pytest.mark.parametrize("bad", [7, None, True, [], {}, 1.5])
@pytest.mark.parametrize("state", ["idle", "running", "requires_action", "unknown"])
def test_a_stop_reason_of_another_type_is_none(state: str, bad: Any) -> None:
    """H2, X3, W-UP-13: the state still counts; unknown strings are kept (W-UP-14)."""
    update = {"sessionUpdate": "state_update", "state": state}
    assert updated(update_line({**update, "stopReason": bad})) == v2.StateUpdate(state=cast("Any", state))
    kept = updated(update_line({**update, "stopReason": "_why", "error": bad}))
    assert kept == v2.StateUpdate(state=cast("Any", state), stop_reason="_why")


@pytest.mark.parametrize("state", ["thinking_hard", "", "_paused", "Idle", "idle "])
def test_an_unknown_state_is_kept_and_is_never_idle(state: str) -> None:
    """X4, W-UP-17: the update is unknown, with its bytes; inside a subagent the snapshot alone."""
    raw = json.dumps({"sessionUpdate": "state_update", "state": state, "stopReason": "end_turn", "background": 5})
    line = f'{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s1","update":{raw}}}}}'
    assert updated(line) == UnknownVariant("state_update", raw.encode())
    snapshot = json.dumps({"state": state, "x": [1.0]})
    line = (
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'
        f'{{"sessionUpdate":"subagent_update","sessionId":"c1","state":{snapshot}}}}}}}'
    )
    assert updated(line) == v2.SubagentUpdate(session_id="c1", state=UnknownVariant(state, snapshot.encode()))


@pytest.mark.parametrize(
    ("update", "path"),
    [
        ({"sessionUpdate": "usage_update", "used": -1, "size": 1}, "used"),
        ({"sessionUpdate": "usage_update", "used": 1.5, "size": 1}, "used"),
        ({"sessionUpdate": "usage_update", "used": "1", "size": 1}, "used"),
        ({"sessionUpdate": "usage_update", "used": 1, "size": None}, "size"),
        ({"sessionUpdate": "notice", "severity": "info", "title": None}, "title"),
        ({"sessionUpdate": "notice", "severity": None, "title": "t"}, "severity"),
        ({"sessionUpdate": "available_commands_update", "availableCommands": {}}, "availableCommands"),
        ({"sessionUpdate": "config_option_update", "configOptions": None}, "configOptions"),
        ({"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": None}}, "plan.entries"),
        ({"sessionUpdate": "terminal_output_chunk", "terminalId": "t1", "data": None}, "data"),
        ({"sessionUpdate": "tool_call_update", "toolCallId": 7}, "toolCallId"),
        (
            {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": [{"type": "text", "text": "t"}]},
            "content",
        ),
        ({"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text"}}, "content"),
    ],
)
def test_a_required_member_that_does_not_fit_drops_the_update(update: dict[str, Any], path: str) -> None:
    """H11, W-UP-11, -22, -26: no flag absorbs it, so the one notification is reported with its path."""
    line = update_line(update)
    assert_bad(from_agent(line), Bad(None, f"$.params.update.{path}", None, "session/update"), line)


@pytest.mark.parametrize("bad", ["not base64!", "4pyT\n", "\u2713", "4p=T", "4py"])
def test_base64_stays_text_until_somebody_asks_for_the_bytes(bad: str) -> None:
    """H30, W-UP-30, W-UP-31: forwarded unchanged; asking raises an error that names the member and not the data."""
    update = updated(update_line({"sessionUpdate": "terminal_output_chunk", "terminalId": "t1", "data": bad}))
    assert update.data == bad
    assert json.loads(v2.encode(update))["data"] == bad
    with pytest.raises(v2.DecodeError, match="base64") as caught:
        _ = update.data_bytes
    assert caught.value.path == "$.data"
    assert bad not in caught.value.message
    assert UPDATES["W-UP-30"].data_bytes == b"\xe2\x9c\x93"


def test_a_fault_in_one_line_does_not_touch_the_next() -> None:
    """SU-14: whatever stands between two good lines, they decode as ever."""
    good = LINES["W-UP-14"][1]
    for name, (_, line) in LINES.items():
        first, *between, last = LineBuffer().feed(good + b"\n" + line + b"\n" + good + b"\n")
        assert len(between) == (name != "W-EN-30")
        for it in between:
            from_agent(it)
        assert from_agent(first) == from_agent(last) == from_agent(good)


# --- text and _meta: W-TX, W-ME --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code", [0x2028, 0x2029, 0x85, 0x0B, 0x0C, 0x1C, 0x1D, 0x1E, 0x0D, 0x0A, 0x00, 0x7F, 0xFEFF, 0xFFFF]
)
def test_no_character_of_a_text_is_lost_or_ends_the_line(code: int) -> None:
    """W-TX-04: escaped, and raw where JSON lets it stand; there and back."""
    text = f"a{chr(code)}b"
    spellings = [f"a\\u{code:04x}b", f"a\\u{code:04X}b", *([text] if code >= 0x20 else [])]
    for spelling in spellings:
        line = (
            LINES["W-TX-04"][1].decode().replace(json.loads(LINES["W-TX-04"][1])["params"]["update"]["messageId"], "m2")
        )
        start, end = line.index('"text":"') + len('"text":"'), line.rindex('"}}}}')
        line = line[:start] + spelling + line[end:]
        (only,) = LineBuffer().feed(line.encode() + b"\n")
        assert updated(only).content.text == text
        again = wire.encode(from_agent(only))
        assert again.count(b"\n") == 1
        assert updated(again).content.text == text


def test_the_chunks_of_a_cut_character_join() -> None:
    """W-TX-01, W-TX-02."""
    text = updated(LINES["W-TX-01"][1]).content.text + updated(LINES["W-TX-02"][1]).content.text
    assert surrogates.joined(text) == "hi \U0001f600 there"


META_NAMES = (
    "sessionId",
    "session_id",
    "update",
    "method",
    "id",
    "jsonrpc",
    "sessionUpdate",
    "_meta",
    "__class__",
    "meta",
)


@pytest.mark.parametrize("name", META_NAMES)
def test_meta_is_data_and_never_a_member(name: str) -> None:
    """MT-02, W-ME-01: whatever its keys are called, at every level, before or after the members."""
    meta = {name: "EVIL", "deep": {name: ["EVIL"]}}
    for params in ({"sessionId": "s1", "_meta": meta}, {"_meta": meta, "sessionId": "s1"}):
        line = message_line(id=1, method="session/close", params=params)
        assert from_client(line).params == v2.CloseSessionRequest(session_id="s1", meta=meta)
        assert wire.route(line.encode()).session_id == "s1"
    update = {"_meta": meta, "sessionUpdate": "user_message", "messageId": "m"}
    line = message_line(method="session/update", params={"_meta": meta, "update": update, "sessionId": "s1"})
    assert from_agent(line).params == v2.UpdateSessionNotification(
        session_id="s1", update=v2.UserMessage(message_id="m", meta=meta), meta=meta
    )


@pytest.mark.parametrize("bad", [7, "x", True, [], [{}], 1.5])
def test_malformed_meta_is_none(bad: Any) -> None:
    """MT-01: everywhere; the message still counts."""
    line = message_line(id=1, method="session/close", params={"sessionId": "s1", "_meta": bad})
    assert from_client(line).params == v2.CloseSessionRequest(session_id="s1")
    update = {"sessionUpdate": "user_message", "messageId": "m", "_meta": bad}
    line = message_line(method="session/update", params={"sessionId": "s1", "update": update, "_meta": bad})
    assert from_agent(line).params == v2.UpdateSessionNotification(
        session_id="s1", update=v2.UserMessage(message_id="m")
    )


@pytest.mark.parametrize("name", ["session_id", "__class__", "__dict__", "SessionId", "sessionid", " sessionId"])
def test_unknown_members_beside_known_ones_are_ignored(name: str) -> None:
    """EX-09, EX-10: attribute names of Python are not names on the wire."""
    line = message_line(id=1, method="session/close", params={"sessionId": "s1", name: "EVIL"})
    assert from_client(line).params == v2.CloseSessionRequest(session_id="s1")
    line = message_line(id=1, method="session/close", params={name: "EVIL"})
    assert_bad(from_client(line), Bad(PARAMS, "$.params", 1, "session/close", "sessionId"), line)


# --- what messages say -----------------------------------------------------------------------------------------------

PRIVATE = "zyx-private' - at `$.zyx-private"


def with_secrets(value: Any) -> Iterator[Any]:
    """Copies of a JSON value, each with one value replaced by one that holds a secret, or with one more member."""
    yield from (PRIVATE, [PRIVATE], {PRIVATE: PRIVATE})
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        for name, child in members.items():
            for changed in with_secrets(child):
                yield {**members, name: changed}
        yield {**members, PRIVATE: PRIVATE}
    elif isinstance(value, list):
        items = list(cast("Iterable[Any]", value))
        for index, child in enumerate(items):
            for changed in with_secrets(child):
                yield [*items[:index], changed, *items[index + 1 :]]


def test_what_is_said_about_a_malformed_line_holds_no_value_of_it() -> None:
    """ER-07, W-EN-28: messages and paths name members of the protocol, never what the peer sent, keys included."""
    lines = [*fuzz.examples(), *fuzz.recorded("client"), *(line for _, line in LINES.values())]
    seen = 0
    for line in lines:
        try:
            document = json.loads(line.removeprefix(fuzz.BOM))
        except ValueError:
            continue
        for changed in with_secrets(document):
            for decode in SIDES:
                message = decode(json.dumps(changed))
                if isinstance(message, Malformed):
                    seen += 1
                    assert "zyx-private" not in message.message + message.path, changed
    assert seen > 1000


@pytest.mark.parametrize(
    ("tp", "document"),
    [
        (v2.ElicitationSchema, {"type": PRIVATE, "properties": {}}),
        (v2.ElicitationSchema, {"type": "object", "properties": {PRIVATE: PRIVATE}}),
        (v2.ElicitationSchema, {"type": "object", "properties": {PRIVATE: {"type": "string", "enum": [PRIVATE, 5]}}}),
        (
            v2.SetProviderRequest,
            {"providerId": "p", "protocol": "x", "baseUrl": "u", "headers": {"Authorization": 5, PRIVATE: 5}},
        ),
        (v2.StateSnapshot, {"state": 5, "stopReason": PRIVATE}),
        (v2.McpError, {"code": PRIVATE, "message": PRIVATE, PRIVATE: PRIVATE}),
        (v2.ContentBlock, {"type": "resource", "resource": {"uri": 5, "text": PRIVATE}}),
    ],
)
def test_what_a_decode_error_says_holds_no_value_either(tp: Any, document: Any) -> None:
    """ER-07: the same for single values."""
    with pytest.raises(v2.DecodeError) as caught:
        v2.decode(tp, json.dumps(document).encode())
    assert "zyx-private" not in str(caught.value)
    assert caught.value.path.startswith("$")
