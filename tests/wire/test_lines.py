"""Cutting a stream into lines, and telling where a line belongs without decoding it.

Laws of `LineBuffer` against the plainest model of it (split the whole stream at LF), its limits, and `route` against
the decoders on every line of the corpus.
"""

from __future__ import annotations

import itertools
import time
import tracemalloc
from collections.abc import Iterable
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acpwire import v2
from acpwire.wire import (
    ErrorResponse,
    LineBuffer,
    Malformed,
    Notification,
    OversizedLine,
    Request,
    Response,
    Route,
    route,
)
from tests import fuzz

LF = b"\n"
BLANK = b" \t\r"
MIB = 1024 * 1024
SEPARATORS = "\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e\x85"
"""What other line splitters take for the end of a line; all but the controls may stand raw in JSON strings."""


def chunk(text: str = "hi") -> bytes:
    """The line of an agent's message chunk, without its line feed."""
    return (
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":'
        f'"agent_message_chunk","messageId":"m1","content":{{"type":"text","text":"{text}"}}}}}}}}'
    ).encode()


def chunk_of(size: int) -> bytes:
    """A chunk line of exactly that many bytes."""
    return chunk("x" * (size - len(chunk(""))))


def text_of(line: bytes) -> str:
    """The text of a chunk, decoded."""
    match v2.decode_from_agent(line):
        case Notification(
            params=v2.UpdateSessionNotification(update=v2.AgentMessageChunk(content=v2.TextContent(text=text)))
        ):
            return text
        case message:
            raise AssertionError(message)


def cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    """The stream in blocks, cut at these places."""
    edges = [0, *sorted(min(place, len(stream)) for place in places), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(edges)]


def read(blocks: Iterable[bytes], limit: int = 64 * MIB) -> list[bytes]:
    """The lines of a stream that comes in these blocks and then ends."""
    buffer = LineBuffer(limit)
    lines = [line for block in blocks for line in buffer.feed(block)]
    return lines + buffer.flush()


def lines_of(stream: bytes) -> list[bytes]:
    """The model: split at LF, which the lines keep; blank ones are left out (TR-05)."""
    *whole, last = stream.split(LF)
    return [line for line in [*(part + LF for part in whole), last] if line.strip(BLANK + LF)]


# --- cutting ---------------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [b"", b"\r", b"\r\n", b"a", b'{"a":1}', b"\xe2\x80\xa8", b"\xc2\x85", b"\x0b", b"\x0c", b"\x00"]
)
STREAMS = st.lists(PIECES | st.binary(max_size=3) | st.just(LF), max_size=12).map(b"".join)


@given(stream=STREAMS, places=st.lists(st.integers(0, 60), max_size=6))
@example(stream=b"\r\n", places=[1])
@example(stream=b"a\n\r", places=[2])
def test_wherever_a_stream_is_cut_its_lines_are_the_same(stream: bytes, places: list[int]) -> None:
    """S-SP-01: and they are what splitting at LF gives."""
    assert read(cut(stream, places)) == lines_of(stream)


@given(stream=STREAMS)
@example(stream=b"1\r\n\r\n2\r\n")
def test_one_byte_at_a_time_gives_the_same_lines(stream: bytes) -> None:
    """S-SP-01."""
    assert read(stream[at : at + 1] for at in range(len(stream))) == lines_of(stream)


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000, 65536])
@pytest.mark.parametrize("sender", ["agent", "client"])
def test_recordings_read_in_blocks_of_any_size_give_the_same_messages(sender: str, size: int) -> None:
    """S-SP-01, S-SP-02: the recordings, the last line without its line feed."""
    stream = LF.join(fuzz.recorded(sender))
    blocks = [stream[at : at + size] for at in range(0, len(stream), size)]
    decode = v2.decode_from_agent if sender == "agent" else v2.decode_from_client
    assert [decode(line) for line in read(blocks)] == [decode(line) for line in fuzz.recorded(sender)]


def test_every_hostile_line_cut_at_every_place_gives_the_same_message() -> None:
    """S-SP-01: two reads, cut anywhere; the empty line is none."""
    for case, (to, line) in fuzz.hostile().items():
        decode = v2.decode_from_client if to == "agent" else v2.decode_from_agent
        stream = line + LF
        expected = [decode(line) for line in lines_of(stream)]
        for at in range(len(stream) + 1):
            assert [decode(line) for line in read([stream[:at], stream[at:]])] == expected, (case, at)


def test_crlf_ends_a_line_as_lf_does() -> None:
    """W-EN-30, TR-05: the messages are the same."""
    plain, dos = (read([chunk("a") + end + chunk("b") + end]) for end in (LF, b"\r\n"))
    assert [text_of(line) for line in dos] == [text_of(line) for line in plain] == ["a", "b"]


@pytest.mark.parametrize("blank", [b"", b"\r", b"\r\n\r", b"\n\n\n", b" ", b"\t", b" \t \r"])
def test_blank_lines_are_left_out(blank: bytes) -> None:
    """W-EN-30, TR-05: before, between and at the end of the stream, ended or not, however they were cut."""
    stream = blank + LF + b"1\n" + blank + LF + b"2\n" + blank
    assert read([stream]) == [b"1\n", b"2\n"]
    assert read(stream[at : at + 1] for at in range(len(stream))) == [b"1\n", b"2\n"]


@pytest.mark.parametrize("separator", SEPARATORS, ids=lambda it: f"U+{ord(it):04X}")
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    """W-TX-04: no other character does, raw or escaped."""
    line = chunk(f"a{separator}b").decode()
    assert read([(line + "\n" + line + "\n").encode()]) == [(line + "\n").encode()] * 2
    if separator >= " ":
        assert text_of(line.encode()) == f"a{separator}b"
    assert text_of(chunk(f"a\\u{ord(separator):04x}b\\nc")) == f"a{separator}b\nc"


def test_the_last_line_without_a_line_feed_comes_with_flush() -> None:
    """S-SP-02: once; after it the buffer is as good as new."""
    buffer = LineBuffer()
    assert buffer.flush() == []
    assert buffer.feed(b"1\n2") == [b"1\n"]
    assert buffer.flush() == [b"2"]
    assert buffer.flush() == []
    assert buffer.feed(b"3\n") == [b"3\n"]
    assert buffer.flush() == []


def test_a_line_is_delivered_with_the_block_that_ends_it() -> None:
    """Nothing waits for the next block, and nothing comes before its line feed."""
    buffer = LineBuffer()
    assert buffer.feed(b"") == []
    assert buffer.feed(b"1") == []
    assert buffer.feed(b"\n") == [b"1\n"]
    assert buffer.feed(b"2\n3\n4") == [b"2\n", b"3\n"]
    assert buffer.feed(b"5\n6\n") == [b"45\n", b"6\n"]


def test_lines_own_their_memory() -> None:
    """A reader that fills the same buffer again changes no line it was given, nor one that has not ended."""
    block = bytearray(b"1\n2\n3")
    buffer = LineBuffer()
    lines = buffer.feed(cast("bytes", block))
    block[:] = b"#" * len(block)
    assert lines + buffer.feed(b"4\n") == [b"1\n", b"2\n", b"34\n"]


# --- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 16 * MIB, 33 * MIB])
@pytest.mark.parametrize("ending", [LF, b"\r\n", b""], ids=["LF", "CRLF", "none"])
def test_long_lines_are_read_whole(size: int, ending: bytes) -> None:
    """S-SZ-01: by the default limit, in the blocks in which a pipe gives them, short lines before and after."""
    stream = chunk() + LF + chunk_of(size) + ending + (chunk("end") if ending else b"")
    lines = read(stream[at : at + 65_536] for at in range(0, len(stream), 65_536))
    texts = [text_of(line) for line in lines]
    assert texts[0] == "hi"
    assert len(texts[1]) == size - len(chunk(""))
    assert texts[2:] == (["end"] if ending else [])


def test_the_default_limit_is_at_least_64_mib() -> None:
    """S-SZ-01: reached exactly, the line is read; nothing decodes it here, to save memory."""
    block = b"x" * MIB
    buffer = LineBuffer()
    assert not any(buffer.feed(block) for _ in range(64))
    (line,) = buffer.feed(LF)
    assert not isinstance(line, OversizedLine)
    assert len(line) == 64 * MIB + 1


@pytest.mark.parametrize("limit", [1, 2, 100, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("block", [1, 3, 100, 1024, 10_000])
def test_a_line_may_be_exactly_as_long_as_the_limit(limit: int, block: int) -> None:
    """S-SZ-02: its line feed does not count; one byte more is too much, and the size told is that of the line."""
    stream = b"".join(b"x" * size + LF for size in (limit, limit + 1, limit, limit + 1000, limit))
    lines = read([stream[at : at + block] for at in range(0, len(stream), block)], limit)
    sizes = [(it.size, it.limit) if isinstance(it, OversizedLine) else len(it) - 1 for it in lines]
    assert sizes == [limit, (limit + 1, limit), limit, (limit + 1000, limit), limit]


@pytest.mark.parametrize("line", [b"x ", b"  ", b" x", b"xx", b"\r\r", b" " * 2000 + b"x", b"x" + b" " * 2000])
@pytest.mark.parametrize("limit", [1, 1000])
@pytest.mark.parametrize("block", [1, 7, 10_000])
def test_a_line_over_the_limit_may_be_mostly_white(line: bytes, limit: int, block: int) -> None:
    """S-SZ-02: the lines around it come whole, and it comes as a mark unless it was blank."""
    stream = b"1\n" + line + b"\n2\n"
    first, *between, last = read([stream[at : at + block] for at in range(0, len(stream), block)], limit)
    assert (first, last) == (b"1\n", b"2\n")
    marks = [(it.size, it.limit) for it in between if isinstance(it, OversizedLine)]
    if len(line) <= limit:
        assert between == [line + LF] * bool(line.strip(BLANK))
    elif line.strip(BLANK):
        assert marks == [(len(line), limit)]


@settings(max_examples=300)
@given(
    sizes=st.lists(st.integers(1, 4000), max_size=6),
    limit=st.integers(1, 4000),
    places=st.lists(st.integers(0, 12_000), max_size=8),
    ended=st.booleans(),
)
@example(sizes=[3100, 5], limit=2000, places=[100], ended=True)
def test_wherever_it_is_cut_the_lines_over_the_limit_are_the_same(
    sizes: list[int], limit: int, places: list[int], ended: bool
) -> None:
    """S-SZ-02: one mark for each line over the limit, with its size; all others whole."""
    bodies = [bytes([97 + index]) * size for index, size in enumerate(sizes)]
    stream = LF.join([*bodies, b""] if ended else bodies)
    lines = read(cut(stream, places), limit)
    assert lines == read([stream], limit)
    assert len(lines) == len(bodies)
    for line, body in zip(lines, bodies, strict=True):
        assert isinstance(line, OversizedLine) == (len(body) > limit)
        if isinstance(line, OversizedLine):
            assert (line.size, line.limit) == (len(body), limit)
            assert body.startswith(line.rstrip(LF))
        else:
            assert line.removesuffix(LF) == body


OVERSIZED = {
    "chunk": chunk_of(5000),
    "short chunk": chunk(),
    "JSON, then spaces": chunk() + b" " * 5000,
    "no JSON": b"x" * 5000,
    "request": b'{"jsonrpc":"2.0","id":7,"method":"session/list"}' + b" " * 2000,
    "response": b'{"jsonrpc":"2.0","id":7,"result":{}}' + b"\t" * 2000,
    "halves": chunk("\\ud83d" * 1000),
    "mark": fuzz.BOM + chunk() + b" " * 5000,
    "list": b"[]" + b" " * 5000,
    "spaces, then JSON": b" " * 5000 + chunk(),
    "JSON, then a stray character": chunk() + b" x" + b" " * 5000,
    "JSON, then stray characters further on": chunk() + b" " * 2000 + b"xx",
    "JSON twice": (chunk() + b" ") * 100,
    "number": b"7" + b" " * 5000,
}


@pytest.mark.parametrize("name", OVERSIZED)
@pytest.mark.parametrize("block", [1, 1000, 100_000])
def test_a_line_over_the_limit_is_malformed_whatever_it_begins_with(name: str, block: int) -> None:
    """S-SZ-02: one error that names limit and size; the lines around it are decoded."""
    line = OVERSIZED[name]
    limit = 150 if len(line) < 1000 else 1000
    stream = b"1\n" + line + b"\n2\n"
    first, oversized, last = read([stream[at : at + block] for at in range(0, len(stream), block)], limit)
    assert (first, last) == (b"1\n", b"2\n")
    for decode in fuzz.DECODERS:
        message = decode(oversized)
        assert isinstance(message, Malformed)
        assert (message.code, message.id) == {"request": (-32600, 7), "response": (None, 7)}.get(name, (-32700, None))
        assert str(limit) in message.message
        assert str(len(line)) in message.message
    assert route(oversized) == Route("malformed")


LONG = b'{"x":"' + b"y" * 3000 + b'"}'
TOLD: dict[bytes, tuple[int | None, Any, str | None]] = {
    b'{"jsonrpc":"2.0","id":7,"result":%s}' % LONG: (None, 7, None),
    b'{"jsonrpc":"2.0","id":"q","error":{"code":1,"message":"m","data":%s}}' % LONG: (None, "q", None),
    b' \t{ "id" : -7 , "result" : %s}' % LONG: (None, -7, None),
    b'\xef\xbb\xbf{"id":7,"result":%s}' % LONG: (None, 7, None),
    b'{"result":%s,"id":7}' % LONG: (None, None, None),
    b'{"id":7.0,"result":%s}' % LONG: (None, None, None),
    b'{"id":true,"result":%s}' % LONG: (None, None, None),
    b'{"id":null,"error":%s}' % LONG: (None, None, None),
    b'{"id":"\\ud83d","result":%s}' % LONG: (None, None, None),
    b'{"id":9223372036854775808,"result":%s}' % LONG: (None, None, None),
    b'{"id":7,"jsonrpc":"2.0","method":"session/list","params":%s}' % LONG: (-32600, 7, "session/list"),
    b'{"id":"q","method":"session/list","params":%s}' % LONG: (-32600, "q", "session/list"),
    b'{"method":"session/list","params":%s,"id":7}' % LONG: (-32700, None, "session/list"),
    b'{"method":"session/update","params":%s}' % LONG: (-32700, None, "session/update"),
    b'{"id":7,"method":%s}' % LONG: (-32600, 7, None),
    b'{"id":"\xff","method":"session/list","params":%s}' % LONG: (-32700, None, None),
    b'{"id":7%s,"result":1}' % (b"0" * 3000): (-32700, None, None),
    b'{"id":7%s,"result":1}' % (b" " * 3000): (-32700, None, None),
    b'{"a":%s,"id":7,"result":1}' % (b"[" * 3000): (-32700, None, None),
    b'{"a" 1,"id":7,"result":%s}' % LONG: (-32700, None, None),
    b'{"a":1;"id":7,"result":%s}' % LONG: (-32700, None, None),
    b'{1:1,"id":7,"result":%s}' % LONG: (-32700, None, None),
}


@pytest.mark.parametrize("line", TOLD, ids=[repr(line[:40]) for line in TOLD])
def test_of_a_line_over_the_limit_its_beginning_tells_whose_it_is(line: bytes) -> None:
    """S-SZ-02, ER-03: a request is answered under its id, an answer never; what cannot be told is not guessed."""
    (oversized,) = LineBuffer(1500).feed(line + b"\n")
    for decode in fuzz.DECODERS:
        message = decode(oversized)
        assert isinstance(message, Malformed)
        assert (message.code, message.id, message.method) == TOLD[line]


def test_a_line_in_very_small_pieces_takes_little_more_than_the_line() -> None:
    """S-SZ-01, TR-05: an object for each of them would be thirty times as much."""
    piece, buffer = b"xy", LineBuffer()
    tracemalloc.start()
    for _ in range(500_000):
        buffer.feed(bytes(memoryview(piece)))  # each an object of its own
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 1_500_000
    assert buffer.feed(b"\n") == [piece * 500_000 + b"\n"]
    assert buffer.feed(b"1\n") == [b"1\n"]


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "at the end of the stream"])
def test_memory_stays_bounded_while_a_line_over_the_limit_is_skipped(ended: bool) -> None:
    """S-SZ-02: 128 MiB of one line with a limit of 64 KiB, then one that is decoded."""
    buffer, block = LineBuffer(65_536), b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(2048):
            assert buffer.feed(block) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    if ended:
        oversized, after = buffer.feed(LF + chunk() + LF)
        assert text_of(after) == "hi"
    else:
        (oversized,) = buffer.flush()
    assert isinstance(oversized, OversizedLine)
    assert oversized.size == 2048 * 65_536


def test_an_unfinished_line_costs_no_more_the_longer_it_gets() -> None:
    """Joining at each block would copy 16 GiB here; joined once, it takes well under a second."""
    buffer, block = LineBuffer(), b"x" * 1024
    started = time.monotonic()
    for _ in range(16 * 1024):
        buffer.feed(block)
    (line,) = buffer.feed(LF)
    assert time.monotonic() - started < 5
    assert len(line) == 16 * MIB + 1


@pytest.mark.parametrize("limit", [0, -1, -(2**63)])
def test_a_limit_that_lets_nothing_through_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        LineBuffer(limit)


# --- route -----------------------------------------------------------------------------------------------------------


def expected_route(message: Any) -> Route:
    """Where a decoded message belongs."""
    match message:
        case Request():
            return Route("request", message.id, message.method)
        case Notification(params=v2.UpdateSessionNotification(session_id=session, update=update)):
            return Route("notification", None, message.method, session, update.tag)
        case Notification():
            return Route("notification", None, message.method)
        case Response():
            return Route("response", message.id)
        case ErrorResponse():
            return Route("error", message.id)
        case _:
            raise AssertionError(message)


def same_place(found: Route, message: Any) -> bool:
    """Whether a scan says the same as the decoder; ids keep their type, and params need not be typed."""
    expected = expected_route(message)
    told = (found.kind, type(found.id), found.id, found.method)
    if told != (expected.kind, type(expected.id), expected.id, expected.method):
        return False
    session = getattr(getattr(message, "params", None), "session_id", None)
    if isinstance(session, str) and found.session_id != session:
        return False
    return expected.tag is None or found.tag == expected.tag


@pytest.mark.parametrize("decode", fuzz.DECODERS, ids=["from agent", "from client"])
def test_a_scan_agrees_with_the_decoder_on_every_line(decode: Any) -> None:
    """Kind, id, method, session and variant; a malformed line keeps its id and method, or is malformed here as well."""
    for line in fuzz.corpus():
        message, found = decode(line), route(line)
        if not isinstance(message, Malformed):
            assert same_place(found, message), line
        elif message.code == -32700:
            assert found == Route("malformed"), line
        elif found.kind != "malformed":
            assert (found.id, found.method) == (message.id, message.method), line


def test_recorded_lines_are_routed_with_their_line_feed_and_without() -> None:
    for line in [*fuzz.recorded("agent"), *fuzz.recorded("client")]:
        assert route(line + b"\r\n") == route(line + LF) == route(line)
        assert route(line).kind != "malformed"


BEGIN = '{"jsonrpc":"2.0",'
UPDATE = BEGIN + '"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"_x"}}}'
A_NOTIFICATION = Route("notification", None, "session/update", "s1", "_x")
X = Route("notification", None, "x")
X_OF_S1 = Route("notification", None, "x", "s1")
X_OF_S1_WITH_X = Route("notification", None, "x", "s1", "_x")
MALFORMED = Route("malformed")


def with_members(members: str) -> str:
    """A line of these members, after `jsonrpc`."""
    return f"{BEGIN}{members}}}"


def with_params(params: str) -> str:
    """A notification of the method `x`."""
    return with_members(f'"method":"x","params":{params}')


ROUTES: list[tuple[str, Route]] = [
    # the four kinds
    (UPDATE, A_NOTIFICATION),
    (
        with_members('"id":1,"method":"session/prompt","params":{"sessionId":"s1"}'),
        Route("request", 1, "session/prompt", "s1"),
    ),
    (with_members('"id":1,"method":"session/list"'), Route("request", 1, "session/list")),
    (with_members('"id":1,"result":{}'), Route("response", 1)),
    (with_members('"id":1,"result":null'), Route("response", 1)),
    (with_members('"id":1,"result":[1]'), Route("response", 1)),
    (with_members('"id":1,"error":{"code":1,"message":""}'), Route("error", 1)),
    (with_members('"id":null,"error":{"code":1,"message":""}'), Route("error")),
    # order and spelling
    (
        '{"params":{"update":{"a":1,"sessionUpdate":"_x"},"sessionId":"s1"},"method":"x","jsonrpc":"2.0"}',
        X_OF_S1_WITH_X,
    ),
    (UPDATE.replace("session/update", "session\\/up\\u0064ate"), A_NOTIFICATION),
    (UPDATE.replace("sessionId", "session\\u0049d").replace("sessionUpdate", "sessionUpdat\\u0065"), A_NOTIFICATION),
    (" \t" + UPDATE + " \r\n", A_NOTIFICATION),
    # ids: int64 or string, with their type (ER-02)
    (with_members('"id":"1","method":"x"'), Route("request", "1", "x")),
    (with_members('"id":"","method":"x"'), Route("request", "", "x")),
    (with_members('"id":9223372036854775807,"method":"x"'), Route("request", 2**63 - 1, "x")),
    (with_members('"id":-9223372036854775808,"method":"x"'), Route("request", -(2**63), "x")),
    (with_members('"id":9223372036854775808,"method":"x"'), MALFORMED),
    (with_members('"id":-9223372036854775809,"result":{}'), MALFORMED),
    (with_members(f'"id":1{"0" * 5000},"method":"x"'), MALFORMED),
    *(
        (with_members(f'"id":{bad},{rest}'), MALFORMED)
        for bad in ("null", "true", "false", "1.0", "1.5", "1e3", "1e400", "[1]", "{}")
        for rest in ('"method":"x"', '"result":{}')
    ),
    # no message at all
    ("", MALFORMED),
    ("{}", MALFORMED),
    ("[]", MALFORMED),
    ("42", MALFORMED),
    ("null", MALFORMED),
    ('"text"', MALFORMED),
    (f"[{UPDATE}]", MALFORMED),
    (UPDATE + UPDATE, MALFORMED),
    (UPDATE[:-1], MALFORMED),
    (with_members('"id":1'), MALFORMED),
    (with_members('"id":1,"params":{}'), MALFORMED),
    (with_members('"result":{}'), MALFORMED),
    # members of another type, before and after what matters
    (with_members('"method":5'), MALFORMED),
    (with_members('"id":1,"method":null'), MALFORMED),
    (with_members('"id":1,"method":null,"result":{}'), MALFORMED),
    (with_members('"id":1,"method":[],"result":{}'), MALFORMED),
    (with_params("null"), X),
    (with_params("[]"), X),
    (with_params('"sessionId"'), X),
    (with_params('{"sessionId":5,"update":{"sessionUpdate":"_x"}}'), Route("notification", None, "x", None, "_x")),
    (with_params('{"sessionId":null,"update":{"sessionUpdate":null}}'), X),
    (with_params('{"sessionId":"s1","update":5}'), X_OF_S1),
    (with_params('{"sessionId":"s1","update":[]}'), X_OF_S1),
    (with_params('{"sessionId":"s1","update":{"sessionUpdate":[]}}'), X_OF_S1),
    (with_params('{"update":{"sessionUpdate":5},"sessionId":"s1"}'), X_OF_S1),
    (with_members('"params":[],"method":"x","id":1'), Route("request", 1, "x")),
    # the last of equal names counts
    (with_members('"id":1,"id":2,"method":"x","method":"y"'), Route("request", 2, "y")),
    (with_members('"id":true,"id":2,"method":5,"method":"y"'), Route("request", 2, "y")),
    (with_members('"id":2,"id":true,"method":"y"'), MALFORMED),
    (with_members('"method":"y","method":5'), MALFORMED),
    (
        with_params('{"sessionId":1,"sessionId":"s1","update":{"sessionUpdate":1,"sessionUpdate":"_x"}}'),
        X_OF_S1_WITH_X,
    ),
    (with_params('{"sessionId":"s1","sessionId":1}'), X),
    (with_members('"method":"x","params":5,"params":{"sessionId":"s1"}'), X_OF_S1),
    (with_params('{"sessionId":"s1","update":{"sessionUpdate":"_x"},"update":{}}'), X_OF_S1),
    # lone surrogates
    (
        with_members(
            '"id":"\\ud83d","method":"\\uDE00","params":{"sessionId":"a\\udfff","update":{"sessionUpdate":"\\uD800"}}'
        ),
        Route("request", "\ud83d", "\ude00", "a\udfff", "\ud800"),
    ),
    (with_members('"id":5.5,"method":"\\ud83d"'), MALFORMED),
    (
        with_members('"x":"\\ud83d","method":"x","params":{"sessionId":7,"update":{"sessionUpdate":"_x"}}'),
        Route("notification", None, "x", None, "_x"),
    ),
    # one byte order mark is skipped (W-EN-09)
    ("\ufeff" + UPDATE, A_NOTIFICATION),
    # an error without the id that it must have, which is not the same as null
    *((with_members(f'"id":{bad},"error":{{}}'), MALFORMED) for bad in ("1.5", "true", "{}", "[]", str(2**63))),
    (with_members('"error":{}'), MALFORMED),
    ("\ufeff" * 2 + UPDATE, MALFORMED),
    ("\ufeff" * 10_000 + UPDATE, MALFORMED),
]


@pytest.mark.parametrize(("line", "expected"), ROUTES, ids=[line[:60] for line, _ in ROUTES])
def test_a_scan_tells_where_a_line_belongs(line: str, expected: Route) -> None:
    """And where the decoders take the line for a message, they say the same."""
    raw = line.encode()
    found = route(raw)
    assert found == expected
    assert type(found.id) is type(expected.id)
    for decode in fuzz.DECODERS:
        message = decode(raw)
        if not isinstance(message, Malformed):
            assert same_place(found, message)


def test_a_scan_reads_a_line_of_a_million_bytes_without_keeping_it() -> None:
    line = chunk_of(1_000_000)
    assert route(line) == Route("notification", None, "session/update", "s1", "agent_message_chunk")


@pytest.mark.parametrize("depth", [500, 5000, 100_000])
@pytest.mark.parametrize("rest", ['"id":1', '"id":null', '"id":1,"params":[]', '"id":1,"method":5'])
def test_deep_nesting_does_not_break_a_scan(rest: str, depth: int) -> None:
    """S-SZ-03: behind members that are right and members that are not."""
    line = (BEGIN + rest + ',"method":"x","deep":' + "[" * depth + "]" * depth + "}").encode()
    message, found = v2.decode_from_agent(line), route(line)
    assert found == MALFORMED if isinstance(message, Malformed) else same_place(found, message)
