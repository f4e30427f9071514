r"""Lone halves of characters (`"\ud83d"`): whatever line holds them decodes to what `json.loads` gives, byte for byte.

Texts are written here as JSON, escape by escape, since that is what is under test; `json.loads`, which takes lone
halves, says what they mean. Both decoders are tried, and values of every kind that keeps JSON or strings.
"""

from __future__ import annotations

import itertools
import json
import time
from typing import Any, cast

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acpwire import v2, wire
from acpwire.wire import ErrorResponse, Malformed, Notification, Request, Response, UnknownVariant, surrogates
from tests import fuzz

PRIVATE = "".join(map(chr, range(0xE000, 0xF900)))
ALL_HALVES = [f"\\u{code:04x}" for code in range(0xD800, 0xE000)]

# --- JSON texts ------------------------------------------------------------------------------------------------------

CASED = st.sampled_from(
    ("d83d", "D83D", "d83D", "Dbff", "DBFF", "d800", "de00", "DE00", "dE00", "dC00", "dfff", "DFFF")
)
PIECES = st.one_of(
    CASED.map("\\u{}".format),  # one half, or with the next a pair, in or out of order
    st.sampled_from(
        (
            *("a", " ", "\u00e9", "\u2028", "\U0001f600", "\ue000", "\ue001", "\uf8ff", "\ufffd"),
            *(r"\ue000", r"\uE000", r"\ue001", r"\u0041", r"\n", r"\\", r"\"", r"\/", r"\u005c", r"\ud83d\ude00"),
            *(r"\\ud83d", r"\\\ud83d", r"\\\\ude00", r"\\ue000", "ud83d", r"\u005cud83d", r"\uD83Dude00"),
        )
    ),
)
STRINGS = st.lists(PIECES, max_size=5).map(lambda pieces: f'"{"".join(pieces)}"')
VALUES = st.recursive(
    STRINGS | st.sampled_from(("null", "true", "0", "-1", "1.5", "[]", "{}")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(st.tuples(STRINGS, inner), max_size=3, unique_by=lambda member: json.loads(member[0])).map(
            lambda members: "{" + ",".join(f"{key} :{value}" for key, value in members) + "}"
        ),
    ),
    max_leaves=6,
)


def update_line(update: str, session: str = '"s1"', meta: str = "null") -> bytes:
    """A `session/update` of these JSON texts."""
    return (
        f'{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":{session},"update":{update},"_meta":{meta}}}}}'
    ).encode()


def update_in(line: bytes) -> v2.UpdateSessionNotification:
    """The params of a `session/update` line."""
    match v2.decode_from_agent(line):
        case Notification(params=v2.UpdateSessionNotification() as params):
            return params
        case message:
            raise AssertionError(message)


def same(value: Any, text: str) -> bool:
    """Whether a value is what `json.loads` reads; the same types, and of two equal names the last."""
    return json.dumps(value, sort_keys=True) == json.dumps(json.loads(text), sort_keys=True)


# --- decoding --------------------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(session=STRINGS, message_id=STRINGS, text=STRINGS, meta=VALUES, unknown=STRINGS)
@example(session='"s"', message_id='"m"', text=r'"hi \ud83d"', meta="null", unknown='"x"')
def test_typed_values_are_what_json_reads(session: str, message_id: str, text: str, meta: str, unknown: str) -> None:
    """W-TX-01, W-TX-02: strings, members of `_meta` and their names, and strings in members that are ignored."""
    update = (
        f'{{"sessionUpdate":"agent_message_chunk","messageId":{message_id},{unknown}:{unknown},'
        f'"content":{{"type":"text","text":{text},"_meta":{{"k":{meta}}}}}}}'
    )
    params = update_in(update_line(update, session, f'{{"k":{meta}}}'))
    assert isinstance(params.update, v2.AgentMessageChunk)
    content = params.update.content
    assert isinstance(content, v2.TextContent)
    assert same([params.session_id, params.update.message_id, content.text], f"[{session},{message_id},{text}]")
    assert same([params.meta, content.meta], f'[{{"k":{meta}}},{{"k":{meta}}}]')


@settings(max_examples=300)
@given(tag=st.lists(PIECES, max_size=4).map("".join), key=STRINGS, value=VALUES)
@example(tag=r"\ud83d", key='"a"', value=r'"\ud83d\uD83D"')
@example(tag="x", key=r'"\ue000"', value=r'"\\\ud83d \ue000 \uE000"')
def test_unknown_variants_keep_their_bytes(tag: str, key: str, value: str) -> None:
    """EX-03, W-UP-01: tag, bytes and data, for the update itself and for a block inside a known one."""
    update = f'{{ "v":{value}, {key} : {value},"sessionUpdate":"_{tag}"}}'
    found = update_in(update_line(update)).update
    assert isinstance(found, UnknownVariant)
    assert found.raw == update.encode()
    assert same([found.tag, found.data], f'["_{tag}",{update}]')
    assert v2.encode(found) == found.raw

    block = f'{{{key}: {value},"type":"_{tag}"}}'
    chunk = f'{{"sessionUpdate":"user_message","messageId":"m","content":[{{"type":"text","text":"\\udfff"}},{block}]}}'
    message = update_in(update_line(chunk)).update
    assert isinstance(message, v2.UserMessage)
    assert message.content == [v2.TextContent(text="\udfff"), UnknownVariant(json.loads(f'"_{tag}"'), block.encode())]


@given(number=STRINGS, method=STRINGS, value=VALUES)
def test_envelopes_are_what_json_reads_and_raw_members_keep_their_bytes(number: str, method: str, value: str) -> None:
    """ER-02: ids and method names; params of unknown methods, results and error data."""
    for decode in (v2.decode_from_agent, v2.decode_from_client):
        request = decode(f'{{"jsonrpc":"2.0","id":{number},"method":{method},"params":{value}}}'.encode())
        assert isinstance(request, Request)
        assert same([request.id, request.method], f"[{number},{method}]")
        assert isinstance(request.params, msgspec.Raw)
        assert bytes(request.params) == value.encode()

        notification = decode(f'{{"jsonrpc":"2.0","method":{method},"params":{value}}}'.encode())
        assert isinstance(notification, Notification)
        assert same(notification.method, method)

        response = decode(f'{{"jsonrpc":"2.0","id":{number},"result":{value}}}'.encode())
        assert isinstance(response, Response)
        assert same(response.id, number)
        assert bytes(response.result) == value.encode()

        for known in (number, "null"):
            error = decode(
                f'{{"jsonrpc":"2.0","id":{known},"error":{{"code":1,"message":{method},"data":{value}}}}}'.encode()
            )
            assert isinstance(error, ErrorResponse)
            assert same([error.id, error.error.message, error.error.data], f"[{known},{method},{value}]")


BAD_LINES = (
    '{{"jsonrpc":"2.0","id":null,"method":{0},"params":{1}}}',
    '{{"jsonrpc":"2.0","id":1.5,"method":"m","params":{1},"x":{0}}}',
    '{{"jsonrpc":{0},"id":1,"method":"m","params":{1}}}',
    '{{"id":{0},"method":"m","params":{1}}}',
    '{{"jsonrpc":"2.0","id":{0},"method":5,"x":{1}}}',
    '{{"jsonrpc":"2.0","id":{0},"method":"session/new","params":{{"cwd":5,"x":{1}}}}}',
    '{{"jsonrpc":"2.0","id":7,"method":"session/new","params":{{"y":{0},"x":{1}}}}}',
    '{{"jsonrpc":"2.0","id":{0},"result":{1},"error":{{"code":1,"message":""}}}}',
    '{{"jsonrpc":"2.0","id":{0},"error":{1}}}',
    '{{"jsonrpc":"2.0","id":null,"error":{{"code":{0},"message":{1}}}}}',
    '{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":{0},"update":{1}}}}}',
    "[{0},{1}]",
    '{{"x":{0},"y":{1}}}',
)


@pytest.mark.parametrize("form", BAD_LINES)
@settings(max_examples=30)
@given(string=STRINGS.filter(lambda it: "\\u" in it), value=VALUES)
@example(string=r'"\ud83d"', value="null")
@example(string=r'"\ud83d"', value=r'"\udE00"')
def test_malformed_lines_are_kept_as_they_came(form: str, string: str, value: str) -> None:
    """W-EN-*, W-RS-*: the line byte for byte, the id and method as JSON reads them, and JSON is never a parse error."""
    line = form.format(string, value).encode()
    document = json.loads(line)
    members = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    has_id = bool(members.keys() & {"method", "result", "error"}) and isinstance(members.get("id"), int | str)
    method = members.get("method")
    for decode in (v2.decode_from_agent, v2.decode_from_client):
        message = decode(line)
        if not isinstance(message, Malformed):
            continue  # e.g. the update is an object after all
        assert message.line == line
        assert message.code != -32700
        assert message.id == (members["id"] if has_id else None)
        assert message.method == (method if isinstance(method, str) else None)


@settings(max_examples=200)
@given(tag=STRINGS, text=STRINGS, value=VALUES)
@example(tag='"_x"', text=r'"\ud83d"', value="null")
@example(tag='"text"', text=r'"\ud83d"', value="7")
def test_single_values_decode_as_lines_do(tag: str, text: str, value: str) -> None:
    """`v2.decode` and `Method.decode_result`, which see one value, a fault or an unknown tag before the half."""
    raw = f'{{"type":{tag},"x":{value},"text":{text}}}'
    known = json.loads(tag) in ("text", "image", "audio", "resource_link", "resource")
    expected: Any = UnknownVariant(json.loads(tag), raw.encode())
    block = v2.decode(v2.ContentBlock, raw.encode())
    assert block == (v2.TextContent(text=json.loads(text)) if known else expected)

    commands = (
        f'[{{"type":{tag},"name":{text},"description":"d","x":{value}}},'
        f'{{"type":"command","name":{text},"description":{value}}}]'
    )
    result = f'{{"sessionId":{text},"availableCommands":{commands},"_meta":{value}}}'
    response = v2.decode_from_agent(f'{{"jsonrpc":"2.0","id":1,"result":{result}}}'.encode())
    assert isinstance(response, Response)
    session = v2.SESSION_NEW.decode_result(response.result)
    assert same(session.session_id, text)
    (first, *_) = session.available_commands
    assert isinstance(first, UnknownVariant)
    assert same(first.data, commands.split(',{"type":"command"', maxsplit=1)[0][1:])


@pytest.mark.parametrize("first", [r"\ud83d", r"\uD83D", r"\uD83d"])
@pytest.mark.parametrize("last", [r"\ud83d", r"\uD83D", r"\ud83D"])
def test_the_last_of_equal_names_counts_however_they_are_spelt(first: str, last: str) -> None:
    meta = f'{{"{first}":1,"x":2,"{last}":3}}'
    params = update_in(update_line('{"sessionUpdate":"_x"}', meta=meta))
    assert params.meta == {"\ud83d": 3, "x": 2}


def test_salvaging_goes_on_behind_a_half() -> None:
    """C1: a fault that a flag absorbs is absorbed in a line with halves as in one without."""
    params = update_in(
        update_line(
            '{"sessionUpdate":"agent_message","messageId":"m","content":'
            r'[{"type":"text","text":7},{"type":"\ud83d","x":"\ude00"},{"type":"text","text":"\ude00"}]}',
            meta=r'"\ud83d"',
        )
    )
    assert params.meta is None
    assert params.update == v2.AgentMessage(
        message_id="m",
        content=[UnknownVariant("\ud83d", rb'{"type":"\ud83d","x":"\ude00"}'), v2.TextContent(text="\ude00")],
    )


# --- hiding and restoring --------------------------------------------------------------------------------------------


@settings(max_examples=300)
@given(text=VALUES)
@example(text=r'"\ud83d\uD83D\udE00\\ud83d\ue000"')
def test_hidden_texts_are_as_long_and_come_back(text: str) -> None:
    """Each byte keeps its place; what was hidden is JSON that msgspec takes, and restores to bytes and values."""
    raw = text.encode()
    hidden = surrogates.hide(raw)
    if hidden is None:
        assert same(msgspec.json.decode(raw), text)
        return
    assert len(hidden.text) == len(raw)
    assert surrogates.hide(hidden.text) is None
    assert hidden.restore_bytes(hidden.text) == raw
    assert same(hidden.restore(msgspec.json.decode(hidden.text)), text)
    assert bytes(hidden.restore(msgspec.Raw(hidden.text))) == raw


@given(text=VALUES)
def test_texts_without_lone_halves_are_left_alone(text: str) -> None:
    """Pairs, escaped backslashes and private-use characters are no halves."""
    joined = json.dumps(json.loads(text), ensure_ascii=True)
    whole = json.dumps(surrogates.replace(json.loads(joined)), ensure_ascii=True)
    assert surrogates.hide(whole.encode()) is None


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "escaped"])
def test_a_line_with_every_private_use_character_in_it_decodes(raw: bool) -> None:
    """There is always some other character that the line does not hold."""
    private = PRIVATE if raw else json.dumps(PRIVATE)[1:-1]
    params = update_in(update_line(f'{{"sessionUpdate":"_x","t":"\\ud83d{private}"}}'))
    assert isinstance(params.update, UnknownVariant)
    assert params.update.data["t"] == "\ud83d" + PRIVATE


def test_a_line_with_every_half_in_every_spelling_decodes() -> None:
    """Hex digits may be of either case, one by one; each spelling comes back as it was."""
    digits = [(it, it.upper()) if it.isalpha() else (it,) for it in "0123456789abcdef"]
    spelt = [
        f"\\u{d}{second}{third}{fourth}"
        for d in "dD"
        for second in "89abcdefABCDEF"
        for spellings in digits
        for third in spellings
        for more in digits
        for fourth in more
    ]
    text = " ".join(spelt)
    update = f'{{"sessionUpdate":"_x","t":"{text}"}}'
    params = update_in(update_line(update))
    assert isinstance(params.update, UnknownVariant)
    assert params.update.raw == update.encode()
    assert params.update.data["t"] == json.loads(f'"{text}"')


def test_many_halves_take_time_in_proportion_to_the_line() -> None:
    """A peer must not be able to stop the reader: every half there is, in a line of 500 kB, is well under a second."""
    text = " ".join(ALL_HALVES) * 35
    line = update_line(f'{{"sessionUpdate":"_x","t":"{text}"}}')
    assert len(line) > 500_000
    started = time.monotonic()
    params = update_in(line)
    assert time.monotonic() - started < 2
    assert isinstance(params.update, UnknownVariant)


@pytest.mark.parametrize("depth", [100, 400, 700, *fuzz.DEEP])
@pytest.mark.parametrize("opening", ["[", '{"\\ud83d":'])
def test_halves_deep_inside_do_not_break_the_decoder(opening: str, depth: int) -> None:
    """S-SZ-03: a message that is right, or a malformed line, as it is without them; nothing is raised."""
    is_too_deep = fuzz.is_too_deep(depth)
    closing = "]" if opening == "[" else "}"
    deep = opening * depth + r'"\ud83d"' + closing * depth
    for line in (
        update_line('{"sessionUpdate":"user_message","messageId":"m"}', meta=f'{{"k":{deep}}}'),
        update_line(f'{{"sessionUpdate":"_x","k":{deep}}}'),
        f'{{"jsonrpc":"2.0","id":1,"error":{{"code":1,"message":"","data":{deep}}}}}'.encode(),
    ):
        for decode in (v2.decode_from_agent, v2.decode_from_client):
            message = decode(line)
            assert isinstance(message, Malformed) == isinstance(decode(line.replace(rb"\ud83d", b"x")), Malformed)
            if is_too_deep:
                assert isinstance(message, Malformed)
            if depth == 100:
                assert not isinstance(message, Malformed)


# --- values without halves -------------------------------------------------------------------------------------------


def test_restoring_leaves_values_alone_that_have_no_halves() -> None:
    """Equal, and of the same types; what can hold no string is the same object."""
    hidden = surrogates.hide(rb'"\ud83d"')
    assert hidden is not None
    update = v2.ToolCallUpdate(
        tool_call_id="c",
        raw_input={"a": [1, 1.0, True, None, "x"]},
        content=[v2.Content(content=v2.TextContent(text="t"))],
    )
    for value in (update, v2.McpError(code=1, message="m", x={"y": []}), UnknownVariant("_x", b'{"type":"_x"}')):
        restored = hidden.restore(value)
        assert restored == value
        assert type(restored) is type(value)
        assert v2.encode(restored) == v2.encode(value)
    for same_object in (None, True, 1, 1.5, msgspec.UNSET, "text"):
        assert hidden.restore(same_object) is same_object or hidden.restore(same_object) == same_object


# --- joining and replacing -------------------------------------------------------------------------------------------


@given(text=st.text(), places=st.lists(st.integers(0, 40), max_size=5))
@example(text="hi \U0001f600 there", places=[4])
def test_chunks_cut_anywhere_join_again(text: str, places: list[int]) -> None:
    """W-TX-01, W-TX-02: a JavaScript peer cuts between UTF-16 units; each chunk is a line of its own."""
    units = text.encode("utf-16-be", "surrogatepass")
    edges = [0, *sorted(min(2 * place, len(units)) for place in places), len(units)]
    received = ""
    for start, end in itertools.pairwise(edges):
        piece = json.dumps(units[start:end].decode("utf-16-be", "surrogatepass"))
        chunk = f'{{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{{"type":"text","text":{piece}}}}}'
        update = update_in(update_line(chunk)).update
        assert isinstance(update, v2.AgentMessageChunk)
        assert isinstance(update.content, v2.TextContent)
        received += update.content.text
    assert surrogates.joined(received) == text


@given(st.text(st.sampled_from("\ud83d\udbff\ude00\udfffa\ue000\U0001f600")))
def test_joining_makes_characters_of_pairs_and_nothing_else(text: str) -> None:
    """The law: as UTF-16, nothing has changed; and no pair is left."""
    joined = surrogates.joined(text)
    assert joined.encode("utf-16-be", "surrogatepass") == text.encode("utf-16-be", "surrogatepass")
    assert joined == text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


def test_our_own_halves_are_replaced_when_they_are_encoded() -> None:
    """UTF-8 has no form for them: strings, names and tags at any depth; two that are a pair become the character."""
    update = v2.AgentMessage(
        message_id="a\ud83d",
        content=(v2.TextContent(text="\ude00\ud83d"), v2.TextContent(text="\ud83d\ude00")),
        meta={"k\ud83d": [{"x": "\udfff"}, "whole"]},
    )
    document = json.loads(v2.encode(update))
    assert document["messageId"] == "a\ufffd"
    assert [block["text"] for block in document["content"]] == ["\ufffd\ufffd", "\U0001f600"]
    assert document["_meta"] == {"k\ufffd": [{"x": "\ufffd"}, "whole"]}
    for line in (
        wire.encode(Request(id="\ud83d", method="\ude00", params={"k": ["\ud83d"]})),
        wire.encode(Notification(method="x", params=update)),
        wire.encode(Response(id="\ud83d", result={"\ud83d": update})),
        wire.encode(ErrorResponse(id=None, error=wire.ErrorObject(code=1, message="\ud83d", data=["\ud83d"]))),
    ):
        assert "\ufffd" in line.decode()
        assert line.endswith(b"\n")


def test_an_id_with_a_half_is_echoed_as_it_came() -> None:
    """ER-02: it is the peer's string and not ours; with U+FFFD in it the peer would not know its own request."""
    request = v2.decode_from_client(rb'{"jsonrpc":"2.0","id":"a\uD83d","method":"session/list"}')
    assert isinstance(request, Request)
    answers: list[Any] = [
        Response(id=request.id, result=v2.ListSessionsResponse(sessions=[])),
        Response(id=request.id, result={"ours": "\ud83d"}),
        ErrorResponse(id=request.id, error=wire.ErrorObject(code=1, message="\ude00")),
    ]
    for answer in answers:
        line = wire.encode(answer)
        assert json.loads(line)["id"] == "a\ud83d"
        again = v2.decode_from_agent(line)
        assert isinstance(again, Response | ErrorResponse)
        assert again.id == request.id


def test_the_bytes_of_unknown_variants_go_out_as_they_came_beside_our_own_halves() -> None:
    """EX-03: a half of ours elsewhere in the message is no reason to rewrite what is passed through."""
    raw = rb'{"type":"_\ud83d","x":"\uD83D"}'
    update = v2.UserMessage(message_id="\ud83d", content=[UnknownVariant("_\ud83d", raw)])
    written = v2.encode(update)
    assert raw in written
    assert json.loads(written)["messageId"] == "\ufffd"


@settings(max_examples=200)
@given(
    st.recursive(
        st.text() | st.none() | st.integers(), lambda it: st.lists(it) | st.dictionaries(st.text(), it), max_leaves=5
    )
)
def test_replacing_changes_nothing_where_there_are_no_halves(value: Any) -> None:
    """Strings that UTF-8 can say stay, at any depth and as names."""
    assert surrogates.replace(value) == value
