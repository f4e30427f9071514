"""Messages: one line each, there and back; what is JSON and what is not; and bytes that should break the decoder.

Owns: the laws of `decode_from_agent`, `decode_from_client`, `acpwire.wire.encode` and `v2.encode` that hold for any
message, the table of JSON constructs, and the limits of numbers and nesting.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, cast

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from acpwire import v2, wire
from acpwire.wire import (
    EncodeError,
    ErrorObject,
    ErrorResponse,
    LineBuffer,
    Malformed,
    Notification,
    Request,
    Response,
    UnknownVariant,
    route,
)
from tests import fuzz

X = TypeVar("X")
PARSE = -32700
NAN, INFINITY = float("nan"), float("inf")
DECODERS = pytest.mark.parametrize("decode", fuzz.DECODERS, ids=["from agent", "from client"])
MESSAGE_CLASSES = (Request, Notification, Response, ErrorResponse)


def line_with(members: str) -> bytes:
    """A line of these members, after `jsonrpc`."""
    return f'{{"jsonrpc":"2.0",{members}}}'.encode()


def update_line(update: str, meta: str = "null") -> bytes:
    """A `session/update` of this update."""
    return line_with(f'"method":"session/update","params":{{"sessionId":"s1","update":{update},"_meta":{meta}}}')


def update_in(line: bytes) -> Any:
    """The update of a line that was delivered."""
    match v2.decode_from_agent(line):
        case Notification(params=v2.UpdateSessionNotification(update=update)):
            return update
        case message:
            raise AssertionError(message)


# --- there and back --------------------------------------------------------------------------------------------------

CHUNK = v2.AgentMessageChunk(message_id="m1", content=v2.TextContent(text="hi"))
MESSAGES: list[tuple[Any, bytes]] = [
    (
        Notification(method="session/update", params=v2.UpdateSessionNotification(session_id="s1", update=CHUNK)),
        (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'
            b'{"sessionUpdate":"agent_message_chunk","messageId":"m1","content":{"type":"text","text":"hi"}}}}\n'
        ),
    ),
    (
        Request(id=1, method="session/close", params=v2.CloseSessionRequest(session_id="s1")),
        b'{"jsonrpc":"2.0","id":1,"method":"session/close","params":{"sessionId":"s1"}}\n',
    ),
    (
        Request(id="1", method="session/list", params=v2.ListSessionsRequest()),
        b'{"jsonrpc":"2.0","id":"1","method":"session/list","params":{}}\n',
    ),
    (
        Request(id=2, method="_x/y", params=msgspec.Raw(b'[1, {"a":1.0}]')),
        b'{"jsonrpc":"2.0","id":2,"method":"_x/y","params":[1, {"a":1.0}]}\n',
    ),
    (
        Notification(method="_x/y", params=msgspec.Raw(b"null")),
        b'{"jsonrpc":"2.0","method":"_x/y","params":null}\n',
    ),
    (Response(id=-(2**63), result=msgspec.Raw(b"{}")), b'{"jsonrpc":"2.0","id":-9223372036854775808,"result":{}}\n'),
    (Response(id="", result=msgspec.Raw(b"null")), b'{"jsonrpc":"2.0","id":"","result":null}\n'),
    (
        ErrorResponse(id=2**63 - 1, error=ErrorObject(code=-32603, message="m")),
        b'{"jsonrpc":"2.0","id":9223372036854775807,"error":{"code":-32603,"message":"m"}}\n',
    ),
    (
        ErrorResponse(id=None, error=ErrorObject(code=-32700, message="m", data=None)),
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m","data":null}}\n',
    ),
]


@pytest.mark.parametrize(("message", "line"), MESSAGES, ids=[type(message).__name__ for message, _ in MESSAGES])
def test_a_message_is_one_line_and_comes_back_equal(message: Any, line: bytes) -> None:
    """ER-01, ER-02: every class, `jsonrpc` first, with its line feed and without."""
    assert wire.encode(message) == line
    decode = v2.decode_from_agent if message == MESSAGES[0][0] else v2.decode_from_client
    for raw in (line, line[:-1], line[:-1] + b"\r\n", b" " + line):
        again = decode(raw)
        assert again == message
        assert type(getattr(again, "id", None)) is type(getattr(message, "id", None))


def test_a_typed_result_is_sent_as_it_is() -> None:
    """A response is written with a value of its method, and read as JSON that the method decodes."""
    result = v2.PromptResponse(message_id="m1")
    line = wire.encode(Response(id=1, result=result))
    assert line == b'{"jsonrpc":"2.0","id":1,"result":{"messageId":"m1"}}\n'
    message = v2.decode_from_agent(line)
    assert isinstance(message, Response)
    assert v2.SESSION_PROMPT.decode_result(message.result) == result


@DECODERS
def test_every_line_of_the_corpus_comes_back_equal(decode: Callable[[bytes], Any]) -> None:
    """EX-09: decode, encode, decode; one line feed, at the end, whatever came."""
    for line in fuzz.corpus():
        message = decode(line)
        if isinstance(message, Malformed):
            continue
        written = wire.encode(message)
        assert written.endswith(b"\n")
        assert written.count(b"\n") == 1
        assert wire.encode(decode(written)) == written
        if b"\\ud" not in line:  # lone halves do not go back
            assert decode(written) == message


@pytest.mark.parametrize("separator", ["\n", "\r", "\r\n", "\u2028", "\u2029", "\x85", "\x0b", "\x0c"])
def test_line_breaks_inside_strings_are_escaped_or_are_none(separator: str) -> None:
    """TR-01: in texts, ids, methods, names and error messages; each comes back as it was."""
    text = f"a{separator}b"
    messages: list[Any] = [
        Request(id=text, method=text, params={text: [text]}),
        Response(id=text, result=v2.PromptResponse(message_id=text)),
        ErrorResponse(id=text, error=ErrorObject(code=1, message=text, data={text: text})),
        Notification(method="session/update", params=v2.UpdateSessionNotification(session_id=text, update=CHUNK)),
    ]
    for message in messages:
        line = wire.encode(message)
        assert line.count(b"\n") == 1
        assert b"\r" not in line
        assert LineBuffer().feed(line) == [line]
        again = cast("Any", v2.decode_from_agent(line))
        assert getattr(again, "id", None) == getattr(message, "id", None)
        if isinstance(message, Request):
            assert again.method == text
            assert json.loads(bytes(again.params)) == {text: [text]}


def test_json_that_is_passed_on_is_one_line_even_if_it_came_on_many() -> None:
    """TR-01: unknown variants and raw params and results that somebody printed nicely; line breaks become spaces."""
    pretty = b'{\r\n  "type": "_x",\n  "a": "b\\nc"\n}'
    unknown = UnknownVariant("_x", pretty)
    chunk = v2.UserMessageChunk(message_id="m", content=unknown)
    messages: list[Any] = [
        Notification(method="session/update", params=v2.UpdateSessionNotification(session_id="s", update=unknown)),
        Notification(method="session/update", params=v2.UpdateSessionNotification(session_id="s", update=chunk)),
        Request(id=1, method="_x", params=msgspec.Raw(pretty)),
        Response(id=1, result=msgspec.Raw(pretty)),
        Response(id=1, result={"x": [msgspec.Raw(pretty)]}),
        ErrorResponse(id=1, error=ErrorObject(code=1, message="m", data=msgspec.Raw(pretty))),
    ]
    for message in messages:
        line = wire.encode(message)
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        assert {"type": "_x", "a": "b\nc"} in list(objects_in(json.loads(line)))
    for value in (unknown, chunk):
        assert b"\n" not in v2.encode(value)
        assert b"\r" not in v2.encode(value)


def objects_in(document: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a JSON value."""
    if isinstance(document, dict):
        members = cast("dict[str, Any]", document)
        yield members
        for child in members.values():
            yield from objects_in(child)
    elif isinstance(document, list):
        for child in cast("Sequence[Any]", document):
            yield from objects_in(child)


def test_unknown_variants_go_out_as_they_came() -> None:
    """EX-03: spaces, number forms, doubled names; only line breaks change."""
    raw = b'{ "type" : "_x","n":[1.0,1E2,-0], "a":1,"a":2, "t":"\\u0061\\/" }'
    assert v2.encode(UnknownVariant("_x", raw)) == raw
    assert raw in wire.encode(Response(id=1, result={"blocks": [UnknownVariant("_x", raw)]}))


# --- ER-10: params and results that are not there --------------------------------------------------------------------


@pytest.mark.parametrize("key", v2.METHODS, ids="-".join)
def test_absent_and_null_params_are_read_as_an_empty_object(key: tuple[str, Any, Any]) -> None:
    """ER-10: and then validated, so methods with required members refuse all three in the same words."""
    method = v2.METHODS[key]
    outcomes: list[Any] = []
    for raw in (b"{}", b"null", b"", None):
        try:
            outcomes.append(method.decode_params() if raw is None else method.decode_params(raw))
        except v2.DecodeError as error:
            outcomes.append(str(error))
    assert outcomes == outcomes[:1] * 4

    name, side, kind = key
    decode = v2.decode_from_agent if side == "client" else v2.decode_from_client
    head = f'"method":"{name}"' + (',"id":1' if kind == "request" else "")
    lines = [line_with(head + rest) for rest in (',"params":{}', ',"params":null', "", ',"params" :\tnull ')]
    messages = [cast("Any", decode(line)) for line in lines]
    if isinstance(messages[0], Malformed):
        told = [(message.code, message.id, message.method, message.path, message.message) for message in messages]
        assert told == told[:1] * 4
    else:
        assert messages == messages[:1] * 4


@pytest.mark.parametrize("method", [v2.SESSION_CLOSE, v2.SESSION_LIST, v2.SESSION_NEW, v2.AUTH_LOGIN])
def test_absent_and_null_results_are_read_as_an_empty_object(method: v2.Method[Any, Any]) -> None:
    """ER-10: the methods without a result of their own accept them."""
    outcomes: list[Any] = []
    for raw in (b"{}", b"null", b"", msgspec.Raw(b"null"), msgspec.Raw()):
        try:
            outcomes.append(method.decode_result(raw))
        except v2.DecodeError as error:
            outcomes.append(str(error))
    assert outcomes == outcomes[:1] * 5


@DECODERS
@pytest.mark.parametrize("params", ["", ',"params":null', ',"params":{}', ',"params":[]', ',"params":7'])
@pytest.mark.parametrize("head", ['"method":"_x"', '"id":1,"method":"_x"', '"id":"a","method":"session/cancel_"'])
def test_a_message_of_an_unknown_method_can_be_sent_on(head: str, params: str, decode: Callable[[bytes], Any]) -> None:
    """EX-06, EX-07: with any params or none, what is written is JSON and the same message."""
    message = decode(line_with(head + params))
    written = wire.encode(message)
    assert fuzz.is_json(written)
    again = decode(written)
    assert (type(again), getattr(again, "id", None), again.method) == (
        type(message),
        getattr(message, "id", None),
        message.method,
    )
    sent = json.loads(written).get("params", {})
    assert sent == (json.loads(params.partition(":")[2]) if params else {})


# --- what cannot be encoded ------------------------------------------------------------------------------------------


class Plain:
    """An object that has no JSON form."""


def encoded(value: Any) -> bytes:
    """A message as a line, anything else as a value."""
    encode: Callable[[Any], bytes] = wire.encode if type(value) in MESSAGE_CLASSES else v2.encode
    return encode(value)


def holders(bad: Any) -> list[Any]:
    """Messages and values that hold something at every kind of place where JSON of any kind, or a number, may stand."""
    meta = {"a": [{"b": (1, [bad])}]}
    annotated = v2.TextContent(text="t", annotations=v2.Annotations(priority=0.5, meta={"k": bad}))
    call = v2.ToolCallUpdate(tool_call_id="c", raw_input={"x": [bad]})
    update = v2.UpdateSessionNotification(session_id="s", update=v2.UserMessage(message_id="m", content=[annotated]))
    return [
        Request(id=1, method="_x", params=bad),
        Request(id=1, method="_x", params={"a": bad}),
        Request(id=1, method="_x", params=[[bad]]),
        Notification(method="_x", params=(bad,)),
        Notification(method="session/update", params=update),
        Response(id=1, result=bad),
        Response(id=1, result={"a": [bad]}),
        Response(id=1, result=v2.CloseSessionResponse(meta=meta)),
        Response(id=1, result=[v2.CloseSessionResponse(meta=meta)]),
        ErrorResponse(id=1, error=ErrorObject(code=1, message="m", data=bad)),
        ErrorResponse(id=None, error=ErrorObject(code=1, message="m", data={"a": [[bad]]})),
        Notification(method="_x", params=v2.UserMessage(message_id="m", meta=meta)),
        v2.UserMessage(message_id="m", meta=meta),
        v2.UserMessage(message_id="m", content=(v2.TextContent(text="t", meta=meta),)),
        call,
        v2.ToolCallUpdate(tool_call_id="c", raw_output=bad),
        v2.ToolCallPermissionSubject(tool_call=v2.ToolCallFields(tool_call_id="c", raw_input={"x": [bad]})),
        v2.Error(code=1, message="m", data={"x": bad}),
        v2.StateUpdate(state="idle", error=v2.Error(code=1, message="m", data=[bad])),
        v2.McpError(code=1, message="m", data=bad),
        v2.McpError(code=1, message="m", extra={"x": [bad]}),
        v2.MessageMcpResponse(result=[bad]),
        v2.MessageMcpResponse(error=v2.McpError(code=1, message="m", extra=bad)),
        v2.MessageMcpRequest(server_id="s", request_id="r", method="m", params={"a": bad}),
        [CHUNK, bad],
        {"a": {"b": bad}},
    ]


@pytest.mark.parametrize("place", range(len(holders(0))))
@pytest.mark.parametrize("bad", [NAN, INFINITY, -INFINITY], ids=["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_has_no_form_for_are_refused(place: int, bad: float) -> None:
    """Design 3: msgspec would write null; at any depth, in every member that may hold a float."""
    assert_refused(holders(bad)[place])


@pytest.mark.parametrize("place", range(len(holders(0))))
@pytest.mark.parametrize(
    "bad", [Plain(), Plain, 1j, print, ..., {(1, 2): 3}, iter(())], ids=lambda bad: type(bad).__name__
)
def test_objects_that_are_no_json_are_refused(place: int, bad: Any) -> None:
    """An `EncodeError`, never msgspec's own, and nothing written in their place."""
    assert_refused(holders(bad)[place])


@pytest.mark.parametrize("place", range(len(holders(0))))
def test_what_has_a_json_form_is_not_refused(place: int) -> None:
    """The holders themselves are right: with a number in place of what is none, each is encoded."""
    goods: tuple[Any, ...] = (0, 1.5, -0.0, 1.7976931348623157e308, None, "NaN", True, [], {})
    for good in goods:
        held = holders(good)[place]
        assert fuzz.is_json(encoded(held))


@pytest.mark.parametrize("bad", [NAN, INFINITY, -INFINITY], ids=["NaN", "Infinity", "-Infinity"])
def test_typed_numbers_are_checked_too(bad: float) -> None:
    """US-03 and the other members that the schema calls a number."""
    cost = v2.UsageUpdate(used=1, size=2, cost=v2.Cost(amount=bad, currency="USD"))
    schema = v2.NumberPropertySchema(maximum=bad)
    for value in (
        cost,
        v2.UpdateSessionNotification(session_id="s", update=cost),
        v2.TextContent(text="t", annotations=v2.Annotations(priority=bad)),
        v2.AgentMessage(message_id="m", content=[v2.TextContent(text="t", annotations=v2.Annotations(priority=bad))]),
        schema,
        v2.NumberPropertySchema(default=bad),
        v2.ElicitationSchema(type="object", properties={"a": schema}),
        v2.ElicitationAcceptAction(content={"a": bad}),
    ):
        assert_refused(value)
        assert_refused(Response(id=1, result=value))


def assert_refused(value: Any) -> None:
    """Encoding raises `EncodeError`, as a message or as a value."""
    with pytest.raises(EncodeError) as caught:
        encoded(value)
    assert str(caught.value)


@pytest.mark.parametrize("depth", [400, 3000, 100_000])
@pytest.mark.parametrize("leaf", ["x", "\ud83d", NAN], ids=["text", "half", "NaN"])
def test_our_own_values_may_be_nested_too_deep(depth: int, leaf: Any) -> None:
    """Either they are written, or an `EncodeError` says so; halves and NaN inside change nothing."""
    is_too_deep = fuzz.is_too_deep(depth)
    value: Any = leaf
    for _ in range(depth):
        value = [value]
    for message in (Request(id=1, method="_x", params=value), Response(id=1, result={"a": value})):
        if leaf is NAN or is_too_deep:
            assert_refused(message)
            continue
        try:
            written = wire.encode(message)
        except EncodeError:
            continue
        assert written.count(b"[") == depth
    if leaf is NAN or (leaf == "x" and is_too_deep):
        assert_refused(v2.UserMessage(message_id="m", meta={"a": value}))


def test_a_value_that_contains_itself_is_refused() -> None:
    """It has no JSON form either."""
    loop: list[Any] = []
    loop.append(loop)
    assert_refused(Request(id=1, method="_x", params=loop))
    assert_refused(Response(id=1, result=["\ud83d", loop]))
    shared = ["\ud83d"]
    assert encoded(Response(id=1, result=[shared, {"a": shared}]))


# --- JSON: what is one -----------------------------------------------------------------------------------------------


class Construct(NamedTuple):
    """A JSON text, whether RFC 8259 takes it, and why we differ from `json.loads` (in what we read), if we do."""

    text: bytes
    valid: bool
    reason: str = ""


TOO_BIG = (
    "a number beyond a double is no value of ours: where it is decoded the member is at fault, elsewhere it passes"
)
TOO_LONG = "json.loads has a limit of 4,300 digits for integers; what we do not decode we pass on"
YES, NO = True, False
CONSTRUCTS: dict[str, Construct] = {
    # numbers
    "zero": Construct(b"0", YES),
    "negative zero": Construct(b"-0", YES),
    "negative zero with fraction": Construct(b"-0.0", YES),
    "integer": Construct(b"-17", YES),
    "integer beyond 2**53": Construct(b"9007199254740993", YES),
    "integer of int64": Construct(b"-9223372036854775808", YES),
    "integer of uint64": Construct(b"18446744073709551615", YES),
    "integer beyond 64 bits": Construct(b"12345678901234567890123", YES),
    "integer of 5,000 digits": Construct(b"1" * 5000, YES, TOO_LONG),
    "fraction": Construct(b"0.1", YES),
    "fraction of many digits": Construct(b"0." + b"3" * 400, YES),
    "exponent": Construct(b"1e5", YES),
    "exponent with sign": Construct(b"1E+5", YES),
    "negative exponent": Construct(b"25e-1", YES),
    "exponent with leading zeros": Construct(b"1e0005", YES),
    "smallest double": Construct(b"5e-324", YES),
    "underflow": Construct(b"1e-400", YES),
    "overflow": Construct(b"1e400", YES, TOO_BIG),
    "negative overflow": Construct(b"-1e400", YES, TOO_BIG),
    "endless exponent": Construct(b"1e99999999999999999999", YES, TOO_BIG),
    "plus sign": Construct(b"+1", NO),
    "two signs": Construct(b"--1", NO),
    "sign alone": Construct(b"-", NO),
    "leading zero": Construct(b"01", NO),
    "negative leading zero": Construct(b"-01", NO),
    "no digits before the point": Construct(b".5", NO),
    "no digits after the point": Construct(b"1.", NO),
    "point before exponent": Construct(b"1.e5", NO),
    "no digits in the exponent": Construct(b"1e", NO),
    "sign alone in the exponent": Construct(b"1e+", NO),
    "fraction in the exponent": Construct(b"1e1.5", NO),
    "hexadecimal": Construct(b"0x10", NO),
    "digit separators": Construct(b"1_000", NO),
    "NaN": Construct(b"NaN", NO),
    "Infinity": Construct(b"Infinity", NO),
    "negative Infinity": Construct(b"-Infinity", NO),
    "full-width digits": Construct("\uff11".encode(), NO),
    # strings
    "empty string": Construct(b'""', YES),
    "every short escape": Construct(rb'"\"\\\/\b\f\n\r\t"', YES),
    "unicode escape": Construct(rb'"\u00e9\u00E9"', YES),
    "escaped control": Construct(rb'"\u0000\u001f"', YES),
    "escaped pair": Construct(rb'"\ud83d\ude00"', YES),
    "lone high half": Construct(rb'"\ud83d"', YES),
    "lone low half": Construct(rb'"\udE00 "', YES),
    "pair in the wrong order": Construct(rb'"\ude00\ud83d"', YES),
    "half before an escape": Construct(rb'"\ud83d\u0041\n"', YES),
    "escaped backslash before u": Construct(rb'"\\ud83d"', YES),
    "DEL": Construct(b'"\x7f"', YES),
    "C1 controls": Construct("\x80\x85\x9f".join('""').encode(), YES),
    "line separators": Construct('"\u2028\u2029"'.encode(), YES),
    "noncharacters": Construct('"\ufffe\uffff\U0010ffff"'.encode(), YES),
    "four bytes": Construct('"\U0001f600"'.encode(), YES),
    "combining characters": Construct('"e\u0301"'.encode(), YES),
    "byte order mark inside": Construct('"\ufeff"'.encode(), YES),
    "raw tab": Construct(b'"a\tb"', NO),
    "raw line feed": Construct(b'"a\nb"', NO),
    "raw NUL": Construct(b'"a\x00b"', NO),
    "raw unit separator": Construct(b'"a\x1fb"', NO),
    "unknown escape": Construct(rb'"\a"', NO),
    "octal escape": Construct(rb'"\012"', NO),
    "hexadecimal escape": Construct(rb'"\x41"', NO),
    "long unicode escape": Construct(rb'"\U00000041"', NO),
    "braced unicode escape": Construct(rb'"\u{41}"', NO),
    "short unicode escape": Construct(rb'"\u004"', NO),
    "unicode escape that is no hexadecimal": Construct(rb'"\u00g0"', NO),
    "half before a broken escape": Construct(rb'"\ud83d\u00zz"', NO),
    "escaped line feed": Construct(b'"a\\\nb"', NO),
    "single quotes": Construct(b"'a'", NO),
    "no end": Construct(b'"a', NO),
    "no end but an escaped quote": Construct(rb'"a\"', NO),
    "no quotes": Construct(b"abc", NO),
    # encodings
    "stray byte": Construct(b'"\xff"', NO),
    "continuation alone": Construct(b'"\x80"', NO),
    "sequence cut short": Construct(b'"\xe2\x82"', NO),
    "overlong NUL": Construct(b'"\xc0\x80"', NO),
    "overlong slash": Construct(b'"\xe0\x80\xaf"', NO),
    "half in UTF-8": Construct(b'"\xed\xa0\xbd"', NO),
    "pair in UTF-8": Construct(b'"\xed\xa0\xbd\xed\xb8\x80"', NO),
    "beyond Unicode": Construct(b'"\xf4\x90\x80\x80"', NO),
    "stray byte in a name": Construct(b'{"\xff":1}', NO),
    "UTF-16": Construct('"a"'.encode("utf-16-le"), NO),
    "Latin-1": Construct('"\u00e9"'.encode("latin-1"), NO),
    # whitespace
    "no whitespace": Construct(b'[1,{"a":2}]', YES),
    "all whitespace": Construct(b" \t\r\n[ \t\r\n1 ,\t2\r\n] \t\r\n", YES),
    "whitespace in an object": Construct(b'{ "a" \t: \r\n1 , "b" :2 }', YES),
    "vertical tab": Construct(b"\x0b1", NO),
    "form feed": Construct(b"[1,\x0c2]", NO),
    "no-break space": Construct("\u00a01".encode(), NO),
    "next line": Construct("[\u00851]".encode(), NO),
    "line separator outside": Construct("\u20281".encode(), NO),
    "NUL outside": Construct(b"1\x00", NO),
    "byte order mark outside": Construct("[\ufeff1]".encode(), NO),
    # structure
    "literals": Construct(b"[true,false,null]", YES),
    "empty array": Construct(b"[]", YES),
    "empty object": Construct(b"{}", YES),
    "empty name": Construct(b'{"":1}', YES),
    "equal names": Construct(b'{"a":1,"b":2,"a":3}', YES),
    "names equal after unescaping": Construct(rb'{"a":1,"\u0061":2}', YES),
    "array within object within array": Construct(b'[{"a":[{"b":[]}]}]', YES),
    "nesting of 200": Construct(b"[" * 200 + b"]" * 200, YES),
    "literal in capitals": Construct(b"True", NO),
    "literal cut short": Construct(b"nul", NO),
    "literal too long": Construct(b"nulll", NO),
    "undefined": Construct(b"undefined", NO),
    "comma after the last item": Construct(b"[1,]", NO),
    "comma before the first item": Construct(b"[,1]", NO),
    "two commas": Construct(b"[1,,2]", NO),
    "no comma": Construct(b"[1 2]", NO),
    "comma after the last member": Construct(b'{"a":1,}', NO),
    "comma alone": Construct(b"{,}", NO),
    "no comma between members": Construct(b'{"a":1 "b":2}', NO),
    "semicolon": Construct(b'{"a":1;"b":2}', NO),
    "name without a value": Construct(b'{"a"}', NO),
    "colon without a value": Construct(b'{"a":}', NO),
    "equals sign": Construct(b'{"a"=1}', NO),
    "name without quotes": Construct(b"{a:1}", NO),
    "name that is a number": Construct(b"{1:1}", NO),
    "name that is null": Construct(b"{null:1}", NO),
    "array not closed": Construct(b"[1", NO),
    "object not closed": Construct(b'{"a":1', NO),
    "array closed as object": Construct(b"[1}", NO),
    "object closed as array": Construct(b'{"a":1]', NO),
    "two values": Construct(b"1 2", NO),
    "nothing": Construct(b"", NO),
    "comment": Construct(b"/* a */1", NO),
    "comment to the end of the line": Construct(b"1//a", NO),
    "comment of a script": Construct(b"#a\n1", NO),
    "parentheses": Construct(b"(1)", NO),
}
BY_NAME = pytest.mark.parametrize("name", CONSTRUCTS)

SLOTS: dict[str, tuple[Callable[[bytes], Any], bytes]] = {
    "alone": (v2.decode_from_client, b"%s"),
    "in a batch": (v2.decode_from_client, b"[0,%s]"),
    "params": (v2.decode_from_client, b'{"jsonrpc":"2.0","method":"_x","params":%s}'),
    "ignored member of the envelope": (
        v2.decode_from_client,
        b'{"jsonrpc":"2.0","id":1,"x":%s,"method":"session/list"}',
    ),
    "ignored member of params": (
        v2.decode_from_client,
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"x":%s}}',
    ),
    "_meta": (v2.decode_from_client, b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"_meta":{"k":%s}}}'),
    "result": (v2.decode_from_client, b'{"jsonrpc":"2.0","id":1,"result":%s}'),
    "error data": (v2.decode_from_client, b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":%s}}'),
    "behind an id that is none": (v2.decode_from_client, b'{"id":null,"jsonrpc":"2.0","method":"_x","params":%s}'),
    "behind params that are none": (v2.decode_from_client, b'{"jsonrpc":"2.0","method":5,"params":[],"x":%s}'),
    "unknown update": (
        v2.decode_from_agent,
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"_x","v":%s}}}',
    ),
    "ignored member of a chunk": (
        v2.decode_from_agent,
        (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"x":%s,'
            b'"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"t"}}}}'
        ),
    ),
    "behind an unknown update": (
        v2.decode_from_agent,
        b'{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"_x"},"sessionId":"s","x":%s}}',
    ),
}


def refuse(constant: str) -> None:
    """`parse_constant` of `json.loads`: NaN and Infinity are no JSON."""
    raise ValueError(constant)


def loads(text: bytes) -> Any:
    """The judge: `json.loads` of UTF-8, with NaN refused. Raises `ValueError`."""
    return json.loads(text.decode(), parse_constant=refuse)


def accepted(text: bytes) -> bool:
    """Whether the judge takes a text."""
    try:
        loads(text)
    except ValueError:
        return False
    return True


@BY_NAME
def test_a_construct_is_json_wherever_it_stands_or_nowhere(name: str) -> None:
    """TR-06: -32700 for what is none, in any place, and never for what is; `json.loads` says the same."""
    text, valid, reason = CONSTRUCTS[name]
    assert accepted(text) is valid or reason == TOO_LONG
    for slot, (decode, form) in SLOTS.items():
        message = decode(form.replace(b"%s", text))
        refused = isinstance(message, Malformed) and message.code == PARSE
        assert refused is not valid, slot


@BY_NAME
def test_a_construct_means_what_json_reads(name: str) -> None:
    """Decoded values are those of `json.loads`, 1 and 1.0 told apart; raw JSON and unknown variants keep the bytes."""
    text, valid, reason = CONSTRUCTS[name]
    if not valid:
        assert not reason, "there is nothing to differ in"
        return
    at = {slot: decode(form.replace(b"%s", text)) for slot, (decode, form) in SLOTS.items()}
    raw = text.strip()
    assert bytes(at["params"].params) == raw
    assert bytes(at["result"].result) == raw
    assert update_in(SLOTS["unknown update"][1].replace(b"%s", text)).raw == b'{"sessionUpdate":"_x","v":' + text + b"}"
    assert at["ignored member of a chunk"].params.update == v2.AgentMessageChunk(
        message_id="m", content=v2.TextContent(text="t")
    )
    meta, error = at["_meta"].params.meta, at["error data"]
    if reason:
        assert meta is None, "a value that we do not decode is as good as left out"
        assert (error.code, error.id, error.path) == (None, 1, "$.error.data")
        return
    expected = json.dumps(loads(text))
    assert json.dumps(meta["k"]) == expected
    assert json.dumps(error.error.data) == expected


def test_the_table_of_constructs_has_each_of_them_once() -> None:
    """About a hundred, as many refused as accepted, give or take; every reason is used."""
    texts = [construct.text for construct in CONSTRUCTS.values()]
    assert len(set(texts)) == len(texts) >= 100
    verdicts = [construct.valid for construct in CONSTRUCTS.values()]
    assert min(verdicts.count(YES), verdicts.count(NO)) >= 45
    assert {construct.reason for construct in CONSTRUCTS.values()} == {"", TOO_BIG, TOO_LONG}


# --- numbers and nesting ---------------------------------------------------------------------------------------------

LONG = "1" + "0" * 5000


@pytest.mark.parametrize("number", [LONG, "-" + LONG, "1e400", "-1e400", "1E2", "1.0", "-0.0", "1.5", "0.5e1"])
def test_a_number_that_is_no_integer_is_a_fault_where_one_must_be(number: str) -> None:
    """S-SZ-04, H32: also an integral one in another form; absorbed where a flag says so."""
    message = v2.decode_from_agent(update_line(f'{{"sessionUpdate":"usage_update","used":{number},"size":1}}'))
    assert isinstance(message, Malformed)
    assert (message.code, message.path) == (None, "$.params.update.used")
    request = v2.decode_from_client(line_with(f'"id":1,"method":"initialize","params":{{"protocolVersion":{number}}}'))
    assert isinstance(request, Malformed)
    assert (request.code, request.id) == (-32602, 1)
    size = f'{{"sessionUpdate":"terminal_update","terminalId":"t","size":{{"cols":{number},"rows":1}}}}'
    assert update_in(update_line(size)) == v2.TerminalUpdate(terminal_id="t")
    error = v2.decode_from_agent(line_with(f'"id":1,"error":{{"code":{number},"message":""}}'))
    assert isinstance(error, Malformed)
    assert (error.code, error.id, error.path) == (None, 1, "$.error.code")


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("-0", 0), ("9007199254740993", 2**53 + 1), (str(2**64 - 1), 2**64 - 1)]
)
def test_integers_come_exactly(text: str, number: int) -> None:
    """S-SZ-04, H32: up to uint64, of which no bit is lost."""
    update = update_in(update_line(f'{{"sessionUpdate":"usage_update","used":{text},"size":{text}}}'))
    assert (update.used, update.size) == (number, number)
    assert type(update.used) is int


@pytest.mark.parametrize("depth", fuzz.DEEP)
@pytest.mark.parametrize(
    "form",
    [
        '"id":1,"method":"_x","params":%s',
        '"id":1,"method":"session/list","params":{"_meta":{"k":%s}}',
        '"id":1,"method":"session/list","params":{"x":%s}',
        '"id":1,"method":"session/list","x":%s',
        '"id":null,"method":"session/list","x":%s',
        '"id":1,"method":5,"x":%s',
        '"id":1,"result":%s',
        '"id":1,"error":{"code":1,"message":"","data":%s}',
        '"id":null,"error":{"code":1,"message":"","data":%s}',
        '"id":1,"error":%s',
        '"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"_x","v":%s}}',
        (
            '"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"user_message","messageId":"m",'
            '"content":[{"type":"text","text":"t","x":%s}]}}'
        ),
        (
            '"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update",'
            '"toolCallId":"c","rawInput":%s}}'
        ),
        '"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":7,"x":%s}}',
    ],
)
def test_nesting_too_deep_is_a_malformed_line(form: str, depth: int) -> None:
    """S-SZ-03: in params, in `_meta`, in what is ignored, behind other faults; ended or not; the stream goes on."""
    is_too_deep = fuzz.is_too_deep(depth)
    for deep in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth, '[{"a":' * depth):
        line = line_with(form.replace("%s", deep))
        has_to_fail = is_too_deep or deep[-1] not in "]}"
        for decode in fuzz.DECODERS:
            message = decode(line)
            assert isinstance(message, Malformed) or not has_to_fail
            if isinstance(message, Malformed):
                assert message.line == line
                assert message.message
        assert route(line).kind == "malformed" or not has_to_fail
    assert update_in(update_line('{"sessionUpdate":"session_info_update"}')) == v2.SessionInfoUpdate()


@pytest.mark.parametrize("depth", [*range(100, 1100, 50), 5000, 9900, 20_000])
def test_nesting_near_the_limit_decodes_or_is_malformed(depth: int) -> None:
    """S-SZ-03: wherever the limit is, the fast way, the envelope, the second look and halves keep to it."""
    deep = "[" * depth + "]" * depth
    lines = [
        update_line('{"sessionUpdate":"user_message","messageId":"m"}', f'{{"k":{deep}}}'),
        update_line(f'{{"sessionUpdate":"_x","k":{deep}}}'),
        update_line(f'{{"sessionUpdate":"user_message","messageId":"m","content":7,"_meta":{{"k":{deep}}}}}'),
        update_line('{"sessionUpdate":"user_message","messageId":"\\ud83d"}', f'{{"k":{deep}}}'),
        line_with(f'"id":null,"method":"_x","params":{deep}'),
        line_with(f'"id":1,"error":{{"code":1,"message":"","data":{deep}}}'),
    ]
    for line in lines:
        for decode in fuzz.DECODERS:
            message = decode(line)
            if not isinstance(message, Malformed):
                try:
                    assert cast("Any", decode(wire.encode(message))) is not None
                except EncodeError:
                    assert depth > 300


@pytest.mark.parametrize("depth", [500, 5000, 9000])
def test_what_decodes_is_written_again(depth: int) -> None:
    """S-SZ-03: what looks for NaN goes as deep as what reads; as a message, by its method, and alone."""
    deep = "[" * depth + "1" + "]" * depth
    line = update_line(f'{{"sessionUpdate":"tool_call_update","toolCallId":"c","rawInput":{deep}}}')
    message = v2.decode_from_agent(line)
    if fuzz.is_too_deep(depth):
        assert isinstance(message, Malformed)
        return
    assert isinstance(message, Notification)
    assert isinstance(message.params, v2.UpdateSessionNotification)
    for written in (wire.encode(message), v2.SESSION_UPDATE.notification(message.params)):
        assert deep.encode() in written
        assert v2.decode_from_agent(written) == message
    assert deep.encode() in v2.encode(message.params)


# --- equal names: the last counts ------------------------------------------------------------------------------------

TWICE: list[str] = [
    '"id":1,"id":2,"method":"session/list"',
    '"id":true,"id":2,"method":"session/list"',
    '"id":2,"id":null,"method":"session/list"',
    '"method":"session/prompt","id":1,"method":"session/list"',
    '"id":1,"method":5,"method":"session/list"',
    '"id":1,"method":"session/list","method":5',
    '"jsonrpc":"1.0","id":1,"method":"session/list"',
    '"jsonrpc":"1.0","id":1,"method":"session/list","jsonrpc":"2.0"',
    '"id":1,"method":"session/list","params":5,"params":{"cwd":"/a"}',
    '"id":1,"method":"session/list","params":{"cwd":"/a"},"params":5',
    '"id":1,"method":"session/list","params":{"cwd":5,"cwd":"/a"}',
    '"id":1,"method":"session/list","params":{"cwd":"/a","cwd":5}',
    '"id":1,"method":"session/list","params":{"_meta":{"a":1},"_meta":5}',
    '"id":1,"method":"session/list","params":{"_meta":5,"_meta":{"a":1,"a":2}}',
    '"id":1,"result":1,"result":2',
    '"id":1,"error":"x","error":{"code":1,"message":""}',
    '"id":1,"error":{"code":1,"message":""},"error":"x"',
    '"id":1,"error":{"code":"x","code":1,"message":5,"message":""}',
    '"id":null,"error":{"code":"x","code":1,"message":5,"message":""}',
    '"id":1,"error":{"code":1,"code":"x","message":""}',
    *(
        f'"method":"session/update","params":{{"sessionId":5,"sessionId":"s1","update":{update}}}'
        for update in (
            (
                '{"sessionUpdate":"user_message_chunk","sessionUpdate":"agent_message_chunk","messageId":"m",'
                '"content":{"type":"text","text":"t"}}'
            ),
            '{"sessionUpdate":"_x","messageId":"m","sessionUpdate":"user_message"}',
            '{"sessionUpdate":7,"messageId":"m","sessionUpdate":"user_message"}',
            '{"sessionUpdate":null,"sessionUpdate":"_x","v":1.0}',
            '{"sessionUpdate":"user_message","messageId":"m","sessionUpdate":"_x"}',
            '{"sessionUpdate":"user_message","messageId":"m","sessionUpdate":7}',
            '{"sessionUpdate":"user_message","messageId":5,"messageId":"m","content":[],"content":7}',
            '{"sessionUpdate":"user_message","messageId":"m","content":7,"content":[]}',
            '{"sessionUpdate":"user_message","messageId":"m","messageId":5}',
            '{"sessionUpdate":"user_message","messageId":"m","content":null,"content":7}',
            '{"sessionUpdate":"user_message_chunk","messageId":"m","content":{"type":"image","text":"t","type":"text"}}',
            '{"sessionUpdate":"user_message_chunk","messageId":"m","content":{"type":7,"text":"t","type":"text"}}',
            '{"sessionUpdate":"user_message_chunk","messageId":"m","content":{"type":"text","text":"t","type":"_x"}}',
            '{"sessionUpdate":"user_message_chunk","messageId":"m","content":{"type":"text","text":7,"text":"t"}}',
            '{"sessionUpdate":"state_update","state":"idle","state":"running"}',
            '{"sessionUpdate":"state_update","state":"weird","state":"running"}',
            '{"sessionUpdate":"state_update","state":7,"state":"running"}',
            '{"sessionUpdate":"state_update","state":"running","state":"weird"}',
            '{"sessionUpdate":"state_update","state":"idle","stopReason":7,"stopReason":"end_turn"}',
            '{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn","stopReason":7}',
            '{"sessionUpdate":"plan_update","plan":{"type":"_g","planId":5,"planId":"p"}}',
            '{"sessionUpdate":"plan_update","plan":5,"plan":{"type":"items","planId":"p","entries":[]}}',
            '{"sessionUpdate":"usage_update","used":-1,"used":1,"size":1,"size":2}',
        )
    ),
    (
        '"id":1,"method":"session/set_config_option","params":{"type":"id","type":"boolean","value":"x","value":true,'
        '"sessionId":"s","configId":"c"}'
    ),
    (
        '"id":1,"method":"elicitation/create","params":{"mode":"url","mode":"form","sessionId":"s","message":"m",'
        '"requestedSchema":{"type":"x","type":"object","properties":{}}}'
    ),
]


def meaning(message: Any) -> Any:
    """A message less how its JSON was spelt."""
    if isinstance(message, Malformed):
        return message.code, message.id, message.method
    return json.dumps(json.loads(wire.encode(message)), sort_keys=True)


@DECODERS
@pytest.mark.parametrize("members", TWICE)
def test_of_equal_names_the_last_counts(members: str, decode: Callable[[bytes], Any]) -> None:
    """Design 3: also for tags, ids and `jsonrpc`, as `json.loads` has it, whatever the first one was."""
    line = line_with(members)
    once = json.dumps(json.loads(line)).encode()
    assert meaning(decode(line)) == meaning(decode(once))
    hidden = line[:-1] + rb',"x":"\ud83d"}'
    assert meaning(decode(hidden)) == meaning(decode(once)), "the same in a line with a lone half"


@DECODERS
@pytest.mark.parametrize("members", TWICE)
def test_of_equal_names_the_last_counts_beside_a_fault_that_is_absorbed(
    members: str, decode: Callable[[bytes], Any]
) -> None:
    """The fast way and the second look must agree."""
    assert_absorbed(line_with(members), decode)


@DECODERS
def test_a_malformed_optional_member_changes_nothing_else(decode: Callable[[bytes], Any]) -> None:
    """C1, MT-01: a line of the corpus, and the same with a fault that is absorbed, are the same message."""
    assert sum(assert_absorbed(line, decode) for line in fuzz.corpus()) > 20


def assert_absorbed(line: bytes, decode: Callable[[bytes], Any]) -> int:
    """A malformed `_meta` first in the params or the update changes nothing; returns at how many places it was tried.

    Left alone is what is not decoded, what has the member already, and what keeps its own bytes.
    """
    message = decode(line)
    params = getattr(message, "params", None)
    kept = isinstance(params, msgspec.Raw) or isinstance(getattr(params, "update", None), UnknownVariant)
    if kept or b'"_meta"' in line:
        return 0
    places = [at + 10 for at in (line.find(b'"params":{'), line.find(b'"update":{')) if at >= 0]
    for at in places:
        comma = b"" if line[at : at + 1] == b"}" else b","
        assert meaning(decode(line[:at] + b'"_meta":7' + comma + line[at:])) == meaning(message)
    return len(places)


# --- memory ----------------------------------------------------------------------------------------------------------

VALUES: list[tuple[Any, bytes]] = [
    (v2.SessionUpdate, b'{"sessionUpdate":"_x","v":[1,{"a":"b"}]}'),
    (v2.SessionUpdate, b'{"sessionUpdate":"state_update","state":"weird","v":1}'),
    (
        v2.SessionUpdate,
        b'{"sessionUpdate":"user_message","messageId":"m","content":[{"type":"_x","v":1},{"type":"text","text":"t"},7]}',
    ),
    (
        v2.SessionUpdate,
        b'{"sessionUpdate":"tool_call_update","toolCallId":"c","rawInput":{"a":["b",1.5]},"_meta":{"k":"v"}}',
    ),
    (
        v2.SessionUpdate,
        rb'{"sessionUpdate":"user_message","messageId":"m\ud83d","content":[{"type":"_\ude00","v":"\ud83d"}]}',
    ),
    (v2.McpError, b'{"code":1,"message":"m","data":{"a":["b"]},"more":["c"]}'),
    (v2.MessageMcpResponse, b'{"result":{"a":["b"]}}'),
    (
        v2.NewSessionResponse,
        b'{"sessionId":"s1","configOptions":7,"availableCommands":[{"type":"_x","name":"n","description":"d"}]}',
    ),
]


def writable_view(raw: bytes) -> memoryview:
    """A view into a buffer that is used again."""
    return memoryview(bytearray(raw))


@pytest.mark.parametrize(("tp", "raw"), VALUES)
@pytest.mark.parametrize("view", [bytearray, writable_view, msgspec.Raw])
def test_decoded_values_own_their_memory(tp: Any, raw: bytes, view: Callable[[bytes], Any]) -> None:
    """Design 3: filling the buffer anew, or dropping it, changes no value, typed, unknown or free."""
    expected = v2.decode(tp, raw)
    buffer = view(raw)
    value = v2.decode(tp, buffer)
    if not isinstance(buffer, msgspec.Raw):
        buffer[:] = b"#" * len(raw)
    del buffer
    gc.collect()
    assert value == expected
    assert v2.encode(value) == v2.encode(expected)


def test_what_stays_json_in_a_message_outlives_the_line() -> None:
    """Raw params and results, and the line of what is malformed, when nobody else holds the line."""
    kept: list[Any] = []
    for number in range(100):
        line = bytearray(line_with(f'"id":{number},"result":{{"messageId":"m{number}"}}'))
        kept.append(v2.decode_from_agent(bytes(line)))
        line = bytearray(line_with(f'"id":{number},"method":"_x","params":["p{number}"]'))
        kept.append(v2.decode_from_client(bytes(line)))
        line[:] = b"#" * len(line)
    gc.collect()
    for number in range(100):
        response, request = kept[2 * number : 2 * number + 2]
        assert v2.SESSION_PROMPT.decode_result(response.result).message_id == f"m{number}"
        assert json.loads(bytes(request.params)) == [f"p{number}"]


# --- any bytes -------------------------------------------------------------------------------------------------------

LINES = fuzz.corpus()
TOKENS = [*fuzz.VALUES, *fuzz.KEYS, *fuzz.HALVES, *fuzz.BITS]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A line of the corpus with a few pieces replaced by tokens, bytes, or pieces of another line."""
    line = draw(st.sampled_from(LINES))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(line)))
        end = draw(st.integers(start, min(len(line), start + 40)))
        other = draw(st.sampled_from(LINES))
        at = draw(st.integers(0, len(other)))
        new = draw(st.sampled_from(TOKENS) | st.binary(max_size=4) | st.just(other[at : at + 40]))
        line = line[:start] + new + line[end:]
    return line


@settings(max_examples=1000)
@given(line=st.binary() | st.text().map(str.encode) | damaged())
@example(line=b"")
@example(line=b"{} {}")
@example(line=b'{"jsonrpc":"2.0","id":null,"method":"x')
@example(line=b'{"id":null,"x":"\xff"}')
@example(line=b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"\\ud83d"}}')
def test_no_bytes_raise(line: bytes) -> None:
    """The decoders, the scan and the line buffer take anything; and what holds for every line holds for this one."""
    fuzz.check(line)
    for whole in LineBuffer().feed(line + b"\n"):
        fuzz.check(whole)


@settings(max_examples=200)
@given(
    raw=st.binary() | damaged(), tp=st.sampled_from([v2.SessionUpdate, v2.ContentBlock, v2.PromptRequest, v2.McpError])
)
@example(raw=b'{"sessionUpdate":"_x","v":"\xff"}', tp=v2.SessionUpdate)
@example(raw=b'{"code":1,"message":"","\xff":1}', tp=v2.McpError)
def test_single_values_raise_decode_errors_and_nothing_else(raw: bytes, tp: Any) -> None:
    """`v2.decode` of anything: a value of valid UTF-8 JSON that can be encoded, or a `DecodeError` with a path."""
    try:
        value = v2.decode(tp, raw)
    except v2.DecodeError as error:
        fault = error
    else:
        assert accepted(raw)
        assert fuzz.is_json(v2.encode(value))
        return
    assert fault.path.startswith("$")


def test_lines_mutated_at_random_break_no_law() -> None:
    """A short run of the fuzzer, always the same; the long one is a session of its own."""
    outcome = fuzz.run(seed=3, executions=40_000)
    assert outcome.error is None, (outcome.line, outcome.error)
    assert outcome.executions == 40_000
    assert (
        min(outcome.kinds[kind] for kind in ("Malformed", "Notification", "Request", "Response", "ErrorResponse")) > 50
    )


def test_the_fuzzer_says_how_to_see_a_failure_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seed and bytes, and exit code 1; the same seed gives the same lines; no progress where nobody watches."""

    def breaks_on_halves(line: bytes) -> Any:
        if b"\\ud83d" in line:
            raise TypeError("no halves")
        return v2.decode_from_agent(line)

    assert fuzz.main(["--executions", "300", "--seed", "5"]) == 0
    monkeypatch.setattr(fuzz, "DECODERS", (breaks_on_halves,))
    outputs: list[str] = []
    for _ in range(2):
        assert fuzz.main(["--executions", "3000", "--seed", "7"]) == 1
        out, err = capsys.readouterr()
        assert err == ""
        outputs.append(out[out.index("TypeError") :])
    assert outputs[0] == outputs[1]
    assert "seed 7" in outputs[0]
    assert r"shorter: b'\\ud83d'" in outputs[0]


# --- what cannot be sent ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [v2.decode_from_agent(b"[1]"), {"a": 1}, None, v2.TextContent(text="a"), b"{}", UnknownVariant("x", b"{}")]
)
def test_what_is_no_message_is_not_encoded_as_one(value: Any) -> None:
    with pytest.raises(EncodeError, match="is no message that can be sent"):
        wire.encode(value)


@pytest.mark.parametrize(
    "message",
    [
        v2.Response(id=1, result=msgspec.Raw()),
        v2.Request(id=1, method="x", params=msgspec.Raw()),
        v2.Notification(method="x", params=msgspec.Raw()),
        v2.ErrorResponse(id=1, error=v2.ErrorObject(code=1, message="", data=msgspec.Raw())),
    ],
)
def test_an_empty_raw_is_refused(message: Any) -> None:
    with pytest.raises(EncodeError, match="an empty Raw is no JSON value"):
        wire.encode(message)


def _with_raw() -> Iterator[Any]:
    """Updates with JSON that goes out as it came, in the places that there are, and where a string belongs."""
    raw: Any = msgspec.Raw(b'"a"\r\n')
    text = v2.TextContent(text="t")
    update = v2.AgentMessageChunk(message_id="m", content=text)
    yield v2.UpdateSessionNotification(session_id="s", update=v2.SessionInfoUpdate(title=raw))
    yield v2.UpdateSessionNotification(session_id="s", update=update, meta={"a": [raw]})
    yield v2.UpdateSessionNotification(session_id="s", update=structs.replace(update, meta={"a": raw}))
    marked = structs.replace(text, annotations=v2.Annotations(meta={"a": raw}))
    yield v2.UpdateSessionNotification(session_id="s", update=structs.replace(update, content=marked))
    yield v2.UpdateSessionNotification(session_id="s", update=UnknownVariant("_x", b'{"sessionUpdate":\n"_x"}'))


WITH_RAW = [*_with_raw()]


@pytest.mark.parametrize(
    "params",
    [
        msgspec.Raw(b'{"a":\n1,\r\n"b":2}'),
        {"a": msgspec.Raw(b"[\n]")},
        {"text": "a\nb"},
        {"half": "\ud83d"},
        {"half": "\ud83d", "raw": msgspec.Raw(b"[\n1\r]")},
        {},
        [1],
        *WITH_RAW,
    ],
)
def test_the_line_of_a_notification_is_that_of_its_message(params: Any) -> None:
    """One line, whatever the params hold."""
    line = v2.SESSION_CANCEL.notification(params)
    assert line == wire.encode(Notification(method="session/cancel", params=params))
    assert line.count(b"\n") == 1


NOTHING: list[Any] = [msgspec.Raw(), [msgspec.Raw()], UnknownVariant("_x", b""), {"a": UnknownVariant("_x", b" \n")}]


@pytest.mark.parametrize("params", [*NOTHING, {"a": NAN}, {"a": object()}])
def test_the_line_of_a_notification_is_refused_where_its_message_is(params: Any) -> None:
    with pytest.raises(EncodeError):
        v2.SESSION_CANCEL.notification(params)
    with pytest.raises(EncodeError):
        wire.encode(Notification(method="session/cancel", params=params))


def test_a_response_without_a_result_is_refused() -> None:
    """ER-01: one of `result` and `error` must be there."""
    with pytest.raises(EncodeError, match="a response needs a result"):
        wire.encode(v2.Response(id=1, result=v2.UNSET))


@pytest.mark.parametrize("code", [-(2**31), 2**31 - 1, -(2**31) - 1, 2**31, 10**30])
def test_the_code_of_an_error_is_an_int32(code: int) -> None:
    """ER-04: in an answer as in a state."""
    message = v2.decode_from_agent(b'{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"m"}}' % code)
    if -(2**31) <= code < 2**31:
        assert message == v2.ErrorResponse(id=1, error=v2.ErrorObject(code=code, message="m"))
    else:
        assert isinstance(message, v2.Malformed)
        assert (message.id, message.path) == (1, "$.error.code")


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"_x","params":{"a":[1]}}',
        b'{"jsonrpc":"2.0","method":"_x","params":[]}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}',
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"_x"}}}',
    ],
)
def test_equal_messages_have_equal_hashes_where_no_member_is_a_list_or_dict(line: bytes) -> None:
    assert hash(v2.decode_from_agent(line)) == hash(v2.decode_from_agent(line))
    assert {v2.decode_from_agent(line)} == {v2.decode_from_agent(line)}


def test_a_message_that_holds_a_dict_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(v2.Request[Any](id=1, method="_x", params={}))


class Traced(Notification[X], frozen=True, kw_only=True, tag_field="jsonrpc", tag="2.0"):
    """A notification of somebody else's, who needs one more member."""

    trace: str = ""


def test_a_notification_may_be_typed_by_its_params_alone_or_by_its_method_too() -> None:
    line = line_with('"method":"_a/b","params":{"x":1}')
    by_params = msgspec.json.decode(line, type=Notification[dict[str, int]])
    assert by_params == Notification(method="_a/b", params={"x": 1})
    by_method = msgspec.json.decode(line, type=Notification[dict[str, int], Literal["_a/b"]])
    assert by_method == by_params
    assert type(by_method) is Notification
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(line, type=Notification[dict[str, int], Literal["_a/c"]])
    bare: type[Notification[Any]] = Notification
    assert msgspec.json.decode(line, type=bare) == by_params
    with pytest.raises(msgspec.ValidationError, match=r"\$.method"):
        msgspec.json.decode(line.replace(b'"_a/b"', b"5"), type=bare)
    assert msgspec.json.decode(line, type=Traced[dict[str, int]]) == Traced(method="_a/b", params={"x": 1})
