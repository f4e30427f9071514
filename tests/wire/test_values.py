"""What generated types are made of: the Struct base, values that keep what they do not understand, and the checks.

Owns: `acpwire.wire.values`. Whole messages and the second look are tried in test_frames and test_lenient.
"""

from __future__ import annotations

import base64
import copy
import dataclasses
import gc
import json
import math
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acpwire import v2
from acpwire.wire import DecodeError, EncodeError, OpenObject, UnknownVariant
from acpwire.wire.values import (
    WireStruct,
    decode_base64,
    decode_hook,
    encode_hook,
    exactly_one,
    first_of,
    required_with,
    wire_name,
)

RAW = b'{"type":"hologram", "depth": [1, 1.0, "x"]}'
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('aé\N{SNOWMAN}\n"\\', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)


class Point(WireStruct, frozen=True, kw_only=True):
    """A class as they are generated."""

    point_id: str
    size_x: int | None = None
    from_: Any = msgspec.UNSET
    meta: dict[str, Any] | None = None


class Pair(OpenObject):
    """An object with two known members."""

    class Fields(WireStruct, frozen=True, kw_only=True):
        """The members that are known."""

        code: int
        data: Any = msgspec.UNSET

    fields: ClassVar[type[WireStruct]] = Fields


def _pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301  # what was pickled just now


def _memory(raw: bytes) -> memoryview:
    return memoryview(bytearray(raw))


COPIES = [copy.copy, copy.deepcopy, _pickled]


def _decode(raw: bytes | str, tp: Any) -> Any:
    return msgspec.json.decode(raw, type=tp, dec_hook=decode_hook)


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=encode_hook)


# --- the base ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attr", "name"),
    [
        ("session_id", "sessionId"),
        ("meta", "_meta"),
        ("x", "x"),
        ("from_", "from"),
        ("oauth2_token", "oauth2Token"),
        ("a_b_c", "aBC"),
    ],
)
def test_attributes_have_the_json_names_of_the_protocol(attr: str, name: str) -> None:
    assert wire_name(attr) == name


def test_a_struct_is_written_under_its_json_names_without_what_has_its_default() -> None:
    assert _encode(Point(point_id="p")) == b'{"pointId":"p"}'
    full = Point(point_id="p", size_x=0, from_=None, meta={})
    assert _encode(full) == b'{"pointId":"p","sizeX":0,"from":null,"_meta":{}}'
    assert _decode(_encode(full), Point) == full


def test_a_struct_is_built_by_keyword_immutable_and_equal_by_value() -> None:
    unchecked: Any = Point
    with pytest.raises(TypeError, match="positional"):
        unchecked("p")
    point = unchecked(point_id="p")
    with pytest.raises(AttributeError, match="immutable"):
        point.size_x = 3
    assert point == Point(point_id="p", size_x=None)
    assert hash(point) == hash(Point(point_id="p"))
    assert point != Point(point_id="p", size_x=1)


def test_a_struct_shows_only_what_differs_from_its_defaults() -> None:
    assert repr(Point(point_id="p")) == "Point(point_id='p')"
    assert repr(Point(point_id="p", from_=None)) == "Point(point_id='p', from_=None)"


def test_a_struct_is_not_tracked_by_the_garbage_collector_and_can_be_copied() -> None:
    point = Point(point_id="p", meta={"a": [1]})
    assert not gc.is_tracked(point)
    assert _pickled(point) == copy.deepcopy(point) == copy.copy(point) == point


BLANK = b" \t\r\n"


# --- unknown variants -------------------------------------------------------------------------------------------------


def test_an_unknown_variant_keeps_tag_and_bytes_and_parses_on_first_use() -> None:
    value = UnknownVariant("hologram", RAW)
    assert (value.tag, value.raw) == ("hologram", RAW)
    assert value.data == json.loads(RAW)
    assert value.data is value.data


def test_what_stands_around_a_value_is_not_part_of_an_unknown_variant() -> None:
    assert v2.decode(v2.SessionUpdate, b' {"sessionUpdate":"x"}\r\n') == UnknownVariant("x", b'{"sessionUpdate":"x"}')


def test_broken_bytes_are_no_trouble_until_they_are_looked_into() -> None:
    value = UnknownVariant("odd", b"{")
    assert value.raw == b"{"
    with pytest.raises(ValueError, match=r"."):
        _ = value.data


@given(JSON)
def test_the_data_of_an_unknown_variant_is_what_its_bytes_say(value: Any) -> None:
    raw = json.dumps(value, ensure_ascii=False).encode()
    assert json.dumps(UnknownVariant("x", raw).data) == json.dumps(value)


@given(st.tuples(st.text(max_size=2), st.binary(max_size=3)), st.tuples(st.text(max_size=2), st.binary(max_size=3)))
def test_unknown_variants_are_equal_exactly_if_tag_and_bytes_are(
    first: tuple[str, bytes], second: tuple[str, bytes]
) -> None:
    one, other = UnknownVariant(*first), UnknownVariant(*second)
    is_same = (first[0], first[1].strip(BLANK)) == (second[0], second[1].strip(BLANK))
    assert (one == other) == is_same
    assert (one != other) != is_same
    assert one == UnknownVariant(*first)
    assert hash(one) == hash(UnknownVariant(*first))


def test_an_unknown_variant_equals_nothing_of_another_kind() -> None:
    value = UnknownVariant("hologram", RAW)
    assert value != RAW
    assert value != ("hologram", RAW)
    assert value.__eq__(RAW) is NotImplemented


@pytest.mark.parametrize("again", COPIES)
@pytest.mark.parametrize("looked_into", [True, False])
def test_a_copy_of_an_unknown_variant_is_equal_and_works(
    again: Callable[[UnknownVariant], UnknownVariant], looked_into: bool
) -> None:
    value = UnknownVariant("hologram", RAW)
    if looked_into:
        assert value.data
    twin = again(value)
    assert twin is not value
    assert twin == value
    assert twin.data == value.data


@pytest.mark.parametrize("buffer", [bytearray, _memory, msgspec.Raw])
def test_an_unknown_variant_owns_its_bytes(buffer: Callable[[bytes], Any]) -> None:
    """What is handed out never aliases a buffer that is used again."""
    source = buffer(RAW)
    value = UnknownVariant("hologram", source)
    if not isinstance(source, msgspec.Raw):
        source[0:1] = b"X"
    assert type(value.raw) is bytes
    assert value.raw == RAW


def test_an_unknown_variant_can_be_matched_by_position() -> None:
    match UnknownVariant("hologram", RAW):
        case UnknownVariant(tag, raw):
            assert (tag, raw) == ("hologram", RAW)


def test_a_long_unknown_variant_is_shown_short() -> None:
    assert repr(UnknownVariant("a", b"{}")) == "UnknownVariant(tag='a', raw=b'{}')"
    assert len(repr(UnknownVariant("a", b"[" + b"1," * 10_000 + b"1]"))) < 150


@given(JSON, st.sampled_from([None, 0, 1, 3]))
def test_an_unknown_variant_is_encoded_as_it_came_on_one_line(value: Any, indent: int | None) -> None:
    """Byte for byte, but line breaks between its tokens become spaces."""
    raw = json.dumps(value, ensure_ascii=False, indent=indent).replace("\n", "\r\n" if indent == 3 else "\n").encode()
    sent = v2.encode(UnknownVariant("x", raw))
    assert b"\n" not in sent
    assert b"\r" not in sent
    assert len(sent) == len(raw)
    assert json.dumps(json.loads(sent)) == json.dumps(value)
    if indent is None:
        assert sent == raw


def test_an_unknown_variant_goes_out_from_inside_a_message() -> None:
    block = UnknownVariant("hologram", b'{\n "type": "hologram",\r\n "x": 1.0}')
    sent = v2.encode(v2.PromptRequest(session_id="s", prompt=[v2.TextContent(text="a"), block]))
    assert b'{  "type": "hologram",   "x": 1.0}' in sent
    back = v2.decode(v2.PromptRequest, sent)
    assert back.prompt[1] == UnknownVariant("hologram", b'{  "type": "hologram",   "x": 1.0}')


@pytest.mark.parametrize("value", [object(), 3j, open, Exception("x")])
def test_what_is_no_wire_type_is_refused_by_name(value: Any) -> None:
    with pytest.raises(EncodeError, match=f"{type(value).__name__} has no JSON form"):
        encode_hook(value)
    with pytest.raises(EncodeError, match=type(value).__name__):
        v2.encode(v2.TextContent(text="a", meta={"x": [value]}))


# --- objects that keep what they do not know --------------------------------------------------------------------------


@given(
    st.integers(-5, 5), st.dictionaries(st.sampled_from(["a", "data", "message", "Code", "_meta"]), JSON, max_size=4)
)
def test_an_open_object_keeps_every_member_and_their_order(code: int, others: dict[str, Any]) -> None:
    """H22."""
    members = {**others, "code": code}
    pair = _decode(json.dumps(members), Pair)
    assert type(pair) is Pair
    assert list(pair.items()) == list(members.items())
    assert json.loads(_encode(pair)) == members
    assert list(json.loads(_encode(pair))) == list(members)


@pytest.mark.parametrize("raw", ['{"code": "x"}', '{"code": 1.5}', "{}", '{"data": 1}', '{"code": null, "x": 1}'])
def test_an_open_object_with_a_broken_known_member_is_refused(raw: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="code"):
        _decode(raw, Pair)


@pytest.mark.parametrize("raw", ["[1]", "3", '"x"', "null", "true"])
def test_what_is_no_object_is_refused_as_such(raw: str) -> None:
    with pytest.raises(DecodeError, match="Expected `object`"):
        v2.decode(v2.McpError, raw.encode())


@pytest.mark.parametrize("again", COPIES)
def test_a_copy_of_an_open_object_is_one_too(again: Callable[[OpenObject], OpenObject]) -> None:
    pair = _decode(b'{"z": [1], "code": 1}', Pair)
    twin = again(pair)
    assert type(twin) is Pair
    assert twin is not pair
    assert list(twin.items()) == [("z", [1]), ("code", 1)]


def test_a_generated_open_object_has_its_known_members_as_attributes() -> None:
    """`McpError.data` tells null from absent."""
    made = v2.McpError(code=-1, message="no", retryAfter=3)
    assert (made.code, made.message, made.data, made["retryAfter"]) == (-1, "no", v2.UNSET, 3)
    assert v2.encode(made) == b'{"code":-1,"message":"no","retryAfter":3}'
    assert v2.McpError(code=-1, message="no", data=None).data is None
    read = v2.decode(v2.McpError, b'{"x":{"y":1.0},"message":"no","data":null,"code":-1}')
    assert (read.code, read.data) == (-1, None)
    assert v2.encode(read) == b'{"x":{"y":1.0},"message":"no","data":null,"code":-1}'
    assert _pickled(read) == read


def test_put_leaves_out_what_is_unset_and_with_members_takes_all() -> None:
    pair = Pair()
    pair.put({"code": 1, "data": msgspec.UNSET})
    assert pair == {"code": 1}
    assert Pair.with_members({"code": "unchecked"}) == {"code": "unchecked"}
    assert type(Pair.with_members({})) is Pair


def test_a_member_that_must_be_absent_is_refused() -> None:
    class Notice(WireStruct, frozen=True, kw_only=True):
        id: msgspec.UnsetType = msgspec.UNSET

    assert _decode(b"{}", Notice) == Notice()
    with pytest.raises(msgspec.ValidationError, match="must be absent"):
        _decode(b'{"id": 1}', Notice)


# --- which members belong together ------------------------------------------------------------------------------------


class Scope(WireStruct, frozen=True, kw_only=True):
    """Members of which one decides, and one that belongs to the first alone."""

    tag: str = "a"
    session_id: Any = msgspec.UNSET
    request_id: Any = msgspec.UNSET
    tool_call_id: str | None = None


class Listing(Scope, frozen=True, kw_only=True):
    """The same with an array, whose default is made anew each time."""

    lines: list[str] = []  # noqa: RUF012  # msgspec makes it anew for each object


ALTERNATIVES = {"session_id": ("tool_call_id",), "request_id": ()}
ABSENT_NULL_VALUE = st.sampled_from([msgspec.UNSET, None, 0, "x"])


@given(ABSENT_NULL_VALUE, ABSENT_NULL_VALUE)
def test_exactly_one_counts_members_that_are_there_null_included(session: Any, request: Any) -> None:
    """EL-04, H21."""
    value = Scope(session_id=session, request_id=request)
    if (session is msgspec.UNSET) != (request is msgspec.UNSET):
        exactly_one(value, ALTERNATIVES)
        assert value == Scope(session_id=session, request_id=request)
    else:
        with pytest.raises(ValueError, match="exactly one of `sessionId` or `requestId`"):
            exactly_one(value, ALTERNATIVES)


@given(ABSENT_NULL_VALUE, ABSENT_NULL_VALUE)
def test_first_of_takes_the_first_that_is_there_null_included(session: Any, request: Any) -> None:
    """H22: `result: null` is a result, and of both it is the one that counts."""
    value = Scope(session_id=session, request_id=request)
    if session is msgspec.UNSET and request is msgspec.UNSET:
        with pytest.raises(ValueError, match="must have `sessionId` or `requestId`"):
            first_of(value, ALTERNATIVES)
    else:
        first_of(value, ALTERNATIVES)
        kept = Scope(session_id=session) if session is not msgspec.UNSET else Scope(request_id=request)
        assert value == kept


@pytest.mark.parametrize("check", [exactly_one, first_of])
def test_members_of_the_other_alternative_are_not_there(check: Callable[[Any, Any], None]) -> None:
    """H21: `toolCallId` only with a session; elsewhere it is a member that nobody knows."""
    value = Scope(request_id="r", tool_call_id="t", tag="b")
    check(value, ALTERNATIVES)
    assert value == Scope(request_id="r", tag="b")
    assert _encode(value) == b'{"tag":"b","requestId":"r"}'
    value = Scope(session_id="s", tool_call_id="t")
    check(value, ALTERNATIVES)
    assert value == Scope(session_id="s", tool_call_id="t")


@pytest.mark.parametrize("check", [exactly_one, first_of])
@pytest.mark.parametrize("lines", [[], ["a"]])
def test_an_array_of_the_other_alternative_is_empty(check: Callable[[Any, Any], None], lines: list[str]) -> None:
    value = Listing(request_id="r", lines=lines)
    check(value, {"session_id": ("lines",), "request_id": ()})
    assert value.lines == []
    assert _encode(value) == b'{"requestId":"r"}'


@given(ABSENT_NULL_VALUE, st.sampled_from(["a", "b", "c"]))
def test_required_with_asks_only_for_what_the_tag_needs(session: Any, tag: str) -> None:
    value = Scope(tag=tag, session_id=session)
    needs: dict[str, tuple[str, ...]] = {"a": ("session_id",), "b": ()}
    if tag == "a" and (session is msgspec.UNSET or session is None):
        with pytest.raises(ValueError, match="missing required field `sessionId`"):
            required_with(value, "tag", needs)
    else:
        required_with(value, "tag", needs)


# --- numbers and bytes that JSON has no form for ----------------------------------------------------------------------

NUMBERS = st.recursive(
    st.sampled_from([None, True, 1, 1.5, -0.0, "nan", math.nan, math.inf, -math.inf]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)


def _finite(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


@given(NUMBERS)
@settings(max_examples=200)
def test_nan_and_infinity_are_refused_wherever_they_stand(value: Any) -> None:
    """msgspec would write null, which means something else."""
    for holder in (
        v2.ToolCallUpdate(tool_call_id="t", raw_input=value),
        v2.TextContent(text="a", meta={"x": value}),
        v2.McpError(code=1, message="m", data=value),
        value,
    ):
        if _finite(value):
            assert json.dumps(value) in json.dumps(json.loads(v2.encode(holder)))
        else:
            with pytest.raises(EncodeError, match="no JSON form"):
                v2.encode(holder)


def test_a_float_that_is_a_member_is_refused_too() -> None:
    for amount in (math.nan, math.inf, -math.inf):
        with pytest.raises(EncodeError, match="no JSON form"):
            v2.encode(v2.UsageUpdate(used=1, size=2, cost=v2.Cost(amount=amount, currency="EUR")))
    assert b'"amount":0.5' in v2.encode(v2.UsageUpdate(used=1, size=2, cost=v2.Cost(amount=0.5, currency="EUR")))


def _set(number: float) -> set[float]:
    return {number}


@dataclasses.dataclass
class Measure:
    """What a user may put into `_meta`, as msgspec writes it."""

    size: float


class Reading(msgspec.Struct):
    """The same, as a Struct that was not generated."""

    size: float


@pytest.mark.parametrize("holder", [_set, Measure, Reading])
def test_nan_is_refused_in_whatever_msgspec_takes_besides_json(holder: Callable[[float], Any]) -> None:
    assert b"0.5" in v2.encode(v2.TextContent(text="a", meta={"x": holder(0.5)}))
    with pytest.raises(EncodeError, match="no JSON form"):
        v2.encode(v2.TextContent(text="a", meta={"x": holder(math.nan)}))


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = [loop]
    with pytest.raises(EncodeError):
        v2.encode(v2.TextContent(text="a", meta=loop))


@given(st.binary(max_size=40))
def test_base64_of_anything_is_decoded(data: bytes) -> None:
    """H30, TM-07: a member stays text, an accessor gives the bytes."""
    text = base64.b64encode(data).decode()
    assert decode_base64(text, "data") == data


@pytest.mark.parametrize("text", ["a", "ab", "abc", "ab=c", "====", "YQ==YQ==", "YQ=", "Y Q==", "-_-_", "é", "YQ==\n"])
def test_what_is_no_base64_is_an_error_at_its_member(text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_base64(text, "blob")
    assert caught.value.path == "$.blob"
    assert caught.value.message.startswith("Invalid base64")
