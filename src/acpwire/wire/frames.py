"""Lines and messages: cuts a byte stream into lines, reads a line as a JSON-RPC message, writes a message as a line.

Owns: the message classes, the three looks at a line, what `Malformed` says, encoding, and the description of methods.
Does not know: any generated type (they come as tables), connections, or I/O.

A line is looked at in up to three ways. `session/update`, nearly all of the traffic, is decoded in one pass. Anything
else, and any line on which that fails, is read as an envelope whose members are still JSON, then its params by the
table of methods. Only what fails there is decoded leniently.
"""

# What is imported of typing_extensions is for type checkers, which have its stub; nobody need install it:
# pyright: reportMissingModuleSource=false

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NoReturn, Protocol, TypeAlias, cast

import msgspec

from . import surrogates
from .errors import DecodeError, EncodeError
from .lenient import Decoding, Tables, TagFirst, fault_of
from .lines import OversizedLine
from .values import CHECKS, MAY_HOLD_FLOATS, ONE_LINE, Buffer, WireStruct, checked, encode_hook

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    P = TypeVar("P", default=Any)
    R = TypeVar("R", default=Any)
    M = TypeVar("M", bound=str, default=str)
else:  # the default matters to type checkers only
    from typing import TypeVar

    P = TypeVar("P")
    R = TypeVar("R")
    M = TypeVar("M", bound=str)

Side: TypeAlias = Literal["agent", "client", "protocol", "proxy"]
Kind: TypeAlias = Literal["request", "notification"]
RequestId: TypeAlias = int | str

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
EMPTY = msgspec.Raw()
_Never: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=0)]
"""The type of what must not be there: nothing fits it."""


# --- messages --------------------------------------------------------------------------------------------------------


class _Message(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    omit_defaults=True,
    repr_omit_defaults=True,
    tag_field="jsonrpc",
    tag="2.0",
):
    """What every JSON-RPC message has: the member `jsonrpc`, written first."""

    def __hash__(self) -> int:
        """Of its members; JSON that is kept as it came counts by its bytes."""
        return hash(
            tuple(bytes(held) if isinstance(held, msgspec.Raw) else held for held in msgspec.structs.astuple(self))
        )


class Notification(_Message, Generic[P, M], frozen=True, kw_only=True, tag_field="jsonrpc", tag="2.0"):
    """A message that is never answered (ER-01). `params` is typed where the method is known, else the raw JSON.

    `Notification[P]` is one of any method; what decodes `Notification[P, Literal["x"]]` takes the method x alone.
    """

    if TYPE_CHECKING:
        method: str
    else:
        method: M
    params: P
    _no_id: _Never | msgspec.UnsetType = msgspec.field(name="id", default=msgspec.UNSET)

    if not TYPE_CHECKING:  # a type variable of typing has no default before Python 3.13

        def __class_getitem__(cls, args: Any) -> Any:
            given = args if cls is not Notification or type(args) is tuple else (args, str)
            return super().__class_getitem__(given)


class Request(_Message, Generic[P], frozen=True, kw_only=True, tag_field="jsonrpc", tag="2.0"):
    """A message that is answered exactly once, under its `id` (ER-02)."""

    id: RequestId
    method: str
    params: P


class Response(_Message, Generic[R], frozen=True, kw_only=True, tag_field="jsonrpc", tag="2.0"):
    """A successful answer. `result` stays raw JSON until its method decodes it (`Method.decode_result`)."""

    id: RequestId
    result: R


class ErrorResponse(_Message, frozen=True, kw_only=True, tag_field="jsonrpc", tag="2.0"):
    """A failed answer. `id` is None where the peer could not tell which request it answers (ER-03)."""

    id: RequestId | None
    error: ErrorObject


class ErrorObject(WireStruct, frozen=True, kw_only=True):
    """A JSON-RPC error: a code, one short sentence, and any data (ER-04, ER-05)."""

    code: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
    message: str
    data: Any | msgspec.UnsetType = msgspec.UNSET


class Malformed(msgspec.Struct, frozen=True, gc=False):
    """A line that is no message one could act on; a value like any other, nothing is raised for it.

    `code` is the JSON-RPC error to answer with, None for lines that are never answered (bad notifications and
    responses); `id` is the request's where it is known, else None. `path` and `message` say what is wrong and never
    hold a value from the line; `line` is the line itself.
    """

    line: bytes
    code: int | None
    id: RequestId | None = None
    method: str | None = None
    path: str = "$"
    message: str = ""


Message: TypeAlias = Notification[Any] | Request[Any] | Response[Any] | ErrorResponse | Malformed


# --- methods ---------------------------------------------------------------------------------------------------------


class Method(Generic[P, R]):
    """One method of the protocol: what it is called, who handles it, and the types of its params and result.

    `stable` tells whether it is outside the draft, `gate` the capability that a peer must have advertised before it is
    called ("" for none), and `decoding` how values of its package are decoded: a method of one's own (`_x/y`) borrows
    it from any of the protocol's.
    """

    __slots__ = ("_head", "decoding", "gate", "kind", "name", "params", "result", "side", "stable")

    def __init__(
        self,
        name: str,
        side: Side,
        kind: Kind,
        params: Any,
        result: Any,
        decoding: Decoding,
        stable: bool = False,
        gate: str = "",
    ) -> None:
        self.name = name
        self.side: Side = side
        self.kind: Kind = kind
        self.params = params
        self.result = result
        self.stable = stable
        self.gate = gate
        self.decoding = decoding
        self._head = b'{"jsonrpc":"2.0","method":' + msgspec.json.encode(name) + b',"params":'

    def __repr__(self) -> str:
        return f"<Method {self.name} ({self.kind}, handled by {self.side})>"

    def notification(self, params: P) -> bytes:
        """The line of a notification, its LF included: what `encode` gives, without making the message first.

        Raises `EncodeError`.
        """
        line = bytearray()
        self.append_notification(params, line)
        return bytes(line)

    def append_notification(self, params: P, lines: bytearray) -> int:
        """Append the line of a notification to others and return where it begins.

        A `Raw` in the place of a string, which no type checker lets pass, must have no line breaks here. Raises
        `EncodeError`; nothing is appended then.
        """
        start = len(lines)
        lines += self._head
        try:
            is_plain = CHECKS[params.__class__](params)
            _encode_into(params, lines, -1)
            if not is_plain and (lines.find(10, start) >= 0 or lines.find(13, start) >= 0):
                lines[start:] = lines[start:].translate(ONE_LINE)  # JSON that is passed on as it came
        except BaseException as error:  # noqa: BLE001  # it is raised again, once there is no half of a line any more
            del lines[start:]
            if not isinstance(error, UnicodeEncodeError | RecursionError):
                _refuse(error)
            lines += self._head + checked(params, _encode_halves).translate(ONE_LINE)
        lines += b"}\n"
        return start

    def decode_params(self, raw: Buffer = EMPTY) -> P:
        """Decode params; absent ones and null are read as `{}` (ER-10). Raises `DecodeError`."""
        value: P = self.decoding.decode(self.params, _or_empty(raw))
        return value

    def look_at_params(self, raw: Buffer) -> P:
        """Decode params that are known not to decode strictly. Raises `DecodeError`."""
        value: P = self.decoding.look(self.params, _or_empty(raw))
        return value

    def decode_result(self, raw: Buffer = EMPTY) -> R:
        """Decode a result; an absent one, and null where it is no result, are read as `{}` (ER-10).

        Raises `DecodeError`.
        """
        value: R = self.decoding.decode(self.result, raw if self.result is Any and bytes(raw) else _or_empty(raw))
        return value


class Caller(Protocol):
    """What the generated call surfaces stand on: something that sends requests and notifications."""

    async def request(self, method: Method[P, R], params: P) -> R:
        """Send a request and wait for its result."""
        ...

    async def notify(self, method: Method[P, None], params: P) -> None:
        """Send a notification."""
        ...


def _or_empty(raw: Buffer) -> Buffer:
    return raw if memoryview(raw).nbytes > 4 or bytes(raw) not in (b"", b"null") else b"{}"


# --- reading a line --------------------------------------------------------------------------------------------------

Methods: TypeAlias = Mapping[tuple[str, Side, Kind], Method[Any, Any]]


_RequestId: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | str


class _Envelope(msgspec.Struct, gc=False, tag_field="jsonrpc", tag="2.0"):
    """A message of the right shape, its params and result still JSON."""

    id: _RequestId | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = EMPTY
    result: msgspec.Raw = EMPTY
    error: ErrorObject | msgspec.UnsetType = msgspec.UNSET


class _Guard(msgspec.Struct, tag_field="jsonrpc", tag="\0"):
    """Beside a lone message class, so that a missing `jsonrpc` is refused; nothing ever is one."""

    never: _Never


_read_envelope = msgspec.json.Decoder(_Envelope | _Guard).decode
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def line_decoder(
    decoding: Decoding, methods: Methods, receiver: Side, fast: Method[Any, Any] | None
) -> Callable[[bytes], Message]:
    """A function that reads one line as the `receiver` gets it, and never raises.

    `fast` is the notification that is worth a pass of its own.
    """
    reader = _Reader(methods, receiver, fast)
    slow = reader.read
    if fast is None:
        return slow

    one_pass: Callable[[bytes], Notification[Any]]
    unknown = _UnknownTag(decoding, fast)

    def first(line: bytes) -> Notification[Any]:
        """Stands in for the decoder until it is needed: building it resolves every annotation it reaches."""
        nonlocal one_pass
        one_pass = decoding.strict(_line_of(fast.params, fast.name)).decode
        message: Notification[Any] = one_pass(line)
        return message

    one_pass = first

    def decode(line: bytes) -> Message:
        try:
            if line.isascii() or _is_utf8(line):
                return one_pass(line)
        except msgspec.ValidationError as error:
            message = unknown.read(line, error)
            if message is not None:
                return message
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            pass
        return slow(line)

    return decode


def _line_of(params: type[msgspec.Struct], name: str) -> Any:
    """The type of a line that is a notification of one method."""
    generic: Any = Notification
    return generic[params, Literal[name]] | _Guard


class _UnknownTag:
    """Reads notifications of one method that most likely failed for an unknown tag: of them nothing else is read."""

    def __init__(self, decoding: Decoding, method: Method[Any, Any]) -> None:
        self._decoding, self._method = decoding, method
        self._first: TagFirst | None = None
        self._where = ""  # the end of what msgspec says of an unknown tag
        self._one_pass: Callable[[bytes], Notification[Any]] | None = None  # building it takes long

    def read(self, line: bytes, error: msgspec.ValidationError) -> Notification[Any] | None:
        """The line, if its params can be read by their tag; None otherwise."""
        if not self._where:
            self._prepare()
        if self._first is None or self._one_pass is None or not str(error).endswith(self._where):
            return None
        try:
            params = self._first.read(self._one_pass(line).params)
        except (msgspec.DecodeError, DecodeError, RecursionError, UnicodeDecodeError):
            return None
        return Notification(method=self._method.name, params=params)

    def _prepare(self) -> None:
        self._first = first = self._decoding.tag_first(self._method.params)
        self._where = f"`$.params.{first.path}`" if first else "there is none"
        if first is not None:
            self._one_pass = self._decoding.strict(_line_of(first.unread, self._method.name)).decode


class _Reader:
    """The second way to read a line: its envelope, then the params by the table of methods."""

    def __init__(self, methods: Methods, receiver: Side, tried: Method[Any, Any] | None) -> None:
        self._tried = tried
        self._methods: dict[tuple[str, bool], Method[Any, Any]] = {}
        sides: tuple[Side, ...] = (receiver, "protocol", "proxy")
        for side in sides:
            for (name, other, kind), method in methods.items():
                if other == side:
                    self._methods.setdefault((name, kind == "request"), method)

    def read(self, line: bytes) -> Message:
        """Read a line; whatever is wrong with it is said by a `Malformed`."""
        if type(line) is OversizedLine:
            return _oversized(line)
        try:
            try:
                envelope = cast("_Envelope", _read_envelope(line))  # the guard is never decoded
            except msgspec.ValidationError:
                return self._carefully(line)
            if not line.isascii() and not _is_utf8(line):
                return Malformed(line, PARSE_ERROR, message="Invalid UTF-8")
            if envelope.method is not msgspec.UNSET:
                return self._call(line, envelope.id, envelope.method, envelope.params)
            if envelope.id is not msgspec.UNSET:
                if envelope.error is msgspec.UNSET and envelope.result is not EMPTY:
                    return Response(id=envelope.id, result=envelope.result)
                if envelope.error is not msgspec.UNSET and envelope.result is EMPTY:
                    return ErrorResponse(id=envelope.id, error=envelope.error)
            return self._carefully(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            return self._no_json(line, error)

    def _call(
        self, line: bytes, request_id: RequestId | msgspec.UnsetType, method: str, params: msgspec.Raw
    ) -> Message:
        """A request or a notification, its params typed if its method is known."""
        is_request = request_id is not msgspec.UNSET
        known = self._methods.get((method, is_request))
        typed: Any = _NO_PARAMS if params is EMPTY else params
        if known is not None:
            try:
                typed = known.look_at_params(params) if known is self._tried else known.decode_params(params)
            except DecodeError as fault:
                code, who = (INVALID_PARAMS, request_id) if request_id is not msgspec.UNSET else (None, None)
                return Malformed(line, code, who, method, f"$.params{fault.path[1:]}", fault.message)
        if request_id is msgspec.UNSET:
            return Notification(method=method, params=typed)
        return Request(id=request_id, method=method, params=typed)

    def _no_json(self, line: bytes, error: Exception) -> Message:
        """What is no JSON for msgspec: it may be some with lone surrogates, or behind a byte order mark (W-EN-09)."""
        if line.startswith(_BOM) and not line.startswith(_BOM * 2):
            message = self.read(line[len(_BOM) :])
        elif not _is_utf8(line):
            return Malformed(line, PARSE_ERROR, message="Invalid UTF-8")
        elif hidden := surrogates.hide(line):
            try:
                message = hidden.restore(self.read(hidden.text))
            except RecursionError as deep:
                return Malformed(line, PARSE_ERROR, message=fault_of(deep).message)
        else:
            return Malformed(line, PARSE_ERROR, message=fault_of(error).message)
        return msgspec.structs.replace(message, line=line) if isinstance(message, Malformed) else message

    def _carefully(self, line: bytes) -> Message:
        """A line of which a member is not of its type: one member at a time, of equal names the last (W-EN, W-RS).

        Says under which id a bad one is answered, if at all. Raises what msgspec raises for what is no JSON.
        """
        if not _is_utf8(line):
            return Malformed(line, PARSE_ERROR, message="Invalid UTF-8")
        try:
            members: dict[str, msgspec.Raw] = _read_members(line)
        except msgspec.ValidationError:
            msgspec.json.decode(line, type=msgspec.Raw)  # it may be no JSON after all
            return Malformed(line, INVALID_REQUEST, message="Expected `object`")
        method = _or_none(str, members.get("method"))
        request_id = _or_none(_RequestId, members.get("id"))
        is_response = "method" not in members
        if is_response and "result" not in members and "error" not in members:
            return Malformed(line, INVALID_REQUEST, message="Neither request, notification nor response")
        code = None if is_response or "id" not in members else INVALID_REQUEST

        def wrong(path: str, message: str) -> Malformed:
            return Malformed(line, code, request_id, method, path, message)

        nobody = is_response and "error" in members and bytes(members.get("id", EMPTY)) == b"null"
        if request_id is None and ("id" in members or is_response) and not nobody:
            return wrong("$.id", "Expected a string or an int64")
        if _or_none(str, members.get("jsonrpc")) != "2.0":
            return wrong("$.jsonrpc", 'Expected "2.0"')
        if not is_response:
            if method is None:
                return wrong("$.method", "Expected `str`")
            asked: RequestId | msgspec.UnsetType = msgspec.UNSET if request_id is None else request_id
            return self._call(line, asked, method, members.get("params", EMPTY))
        if "error" not in members and request_id is not None:
            return Response(id=request_id, result=members["result"])
        if "result" in members:
            return wrong("$", "Both a result and an error")
        try:
            return ErrorResponse(id=request_id, error=_ERRORS.decode(ErrorObject, members["error"]))
        except DecodeError as fault:
            return wrong(f"$.error{fault.path[1:]}", fault.message)


def _oversized(line: OversizedLine) -> Malformed:
    """Whoever waits for an answer in vain is told, where the beginning of the line says who that is (S-SZ-02)."""
    message = f"{line.size} bytes, over the limit of {line.limit} bytes a line"
    members = line.members()
    request_id, method = members.get("id"), members.get("method")
    if not (type(request_id) is int and -(2**63) <= request_id < 2**63) and not _is_text(request_id):
        request_id = None
    if "method" in members:
        code = PARSE_ERROR if request_id is None else INVALID_REQUEST
        return Malformed(line, code, request_id, method if _is_text(method) else None, message=message)
    if "result" in members or "error" in members:
        return Malformed(line, None, request_id, message=message)
    return Malformed(line, PARSE_ERROR, message=message)


def _is_text(value: Any) -> bool:
    return type(value) is str and value.isprintable()  # which no lone surrogate is


_NO_PARAMS = msgspec.Raw(b"{}")
"""Absent params are read as these (ER-10)."""
_BOM = b"\xef\xbb\xbf"
_ERRORS = Decoding(Tables({}, {}, {}, {}))


def _is_utf8(line: bytes) -> bool:
    """msgspec lets invalid UTF-8 pass in keys and in what it skips."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _or_none(tp: Any, raw: msgspec.Raw | None) -> Any:
    try:
        return None if raw is None else msgspec.json.decode(raw, type=tp)
    except msgspec.ValidationError:
        return None


# --- writing ---------------------------------------------------------------------------------------------------------

_MESSAGES = frozenset({Notification, Request, Response, ErrorResponse})
_encoder = msgspec.json.Encoder(enc_hook=encode_hook)
_encode, _encode_into = _encoder.encode, _encoder.encode_into

MAY_HOLD_FLOATS.update(
    {Notification: ("params",), Request: ("params",), ErrorObject: ("data",), ErrorResponse: ("error",)}
)


def encode_value(value: Any) -> bytes:
    """One JSON value, without a line feed. A lone surrogate becomes U+FFFD. Raises `EncodeError`."""
    try:
        CHECKS[type(value)](value)
        return _encode(value)
    except (UnicodeEncodeError, RecursionError):
        return checked(value, _encode_halves)
    except (TypeError, ValueError) as error:
        _refuse(error)


def _refuse(error: BaseException) -> NoReturn:
    """Raise what encoding raised as an `EncodeError`, unless it is none of its."""
    if isinstance(error, EncodeError) or not isinstance(error, TypeError | ValueError):
        raise error
    raise EncodeError(str(error)) from error


def _encode_halves(value: Any) -> bytes:
    """JSON of a value that may have lone halves: they become U+FFFD, but an id is echoed as it came (ER-02)."""
    message = cast("Request[Any] | None", value if isinstance(value, Request | Response | ErrorResponse) else None)
    try:
        if message is None or not isinstance(message.id, str) or message.id.isascii():
            return surrogates.encode(value)
        request_id = message.id
        encoded = surrogates.encode(msgspec.structs.replace(message, id="\ue000"))
        return encoded.replace(b'"\xee\x80\x80"', json.dumps(request_id).encode(), 1)  # ids stand before what peers say
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(str(error)) from error


def encode(message: Notification[Any] | Request[Any] | Response[Any] | ErrorResponse) -> bytes:
    """One message as one line, its LF included. A lone surrogate becomes U+FFFD.

    Raises `EncodeError` for what is no message (a `Malformed` neither) and for what JSON cannot say.
    """
    if type(message) not in _MESSAGES:
        raise EncodeError(f"{type(message).__name__} is no message that can be sent")
    if type(message) is Response and message.result is msgspec.UNSET:
        raise EncodeError("a response needs a result; `{}` where its method defines none")
    line = encode_value(message)
    if 10 in line or 13 in line:  # only from JSON that is passed on as it came, between its tokens
        line = line.translate(ONE_LINE)
    return line + b"\n"
