"""Lines and messages: cuts a byte stream into lines, reads a line as a JSON-RPC message, writes a message as a line.

Owns: the message classes, the three looks at a line, what `Malformed` says, encoding, and the description of methods.
Does not know: any generated type (they come as tables), connections, or I/O.

A line is looked at in up to three ways. `session/update`, nearly all of the traffic, is decoded in one pass. Anything
else, and any line on which that fails, is read as an envelope whose members are still JSON, then its params by the
table of methods. Only what fails there is decoded leniently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias

import msgspec

from .errors import DecodeError, EncodeError
from .lenient import Buffer, Decoding, fault_of
from .values import encode_hook

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    P = TypeVar("P", default=Any)
    R = TypeVar("R", default=Any)
else:  # the default matters to type checkers only
    from typing import TypeVar

    P = TypeVar("P")
    R = TypeVar("R")

Side: TypeAlias = Literal["agent", "client", "protocol", "proxy"]
Kind: TypeAlias = Literal["request", "notification"]
RequestId: TypeAlias = int | str

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
EMPTY = msgspec.Raw()


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


class Notification(_Message, Generic[P], frozen=True, kw_only=True, tag_field="jsonrpc", tag="2.0"):
    """A message that is never answered (ER-01). `params` is typed where the method is known, else the raw JSON."""

    method: str
    params: P
    _no_id: msgspec.UnsetType = msgspec.field(name="id", default=msgspec.UNSET)


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


class ErrorObject(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A JSON-RPC error: a code, one short sentence, and any data (ER-04, ER-05)."""

    code: int
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
    called ("" for none).
    """

    __slots__ = ("_decoding", "gate", "kind", "name", "params", "result", "side", "stable")

    def __init__(
        self, name: str, side: Side, kind: Kind, params: Any, result: Any, decoding: Decoding, stable: bool, gate: str
    ) -> None:
        self.name = name
        self.side: Side = side
        self.kind: Kind = kind
        self.params = params
        self.result = result
        self.stable = stable
        self.gate = gate
        self._decoding = decoding

    def __repr__(self) -> str:
        return f"<Method {self.name} ({self.kind}, handled by {self.side})>"

    def decode_params(self, raw: Buffer = EMPTY) -> P:
        """Decode params; absent ones and null are read as `{}` (ER-10). Raises `DecodeError`."""
        value: P = self._decoding.decode(self.params, _or_empty(raw))
        return value

    def decode_result(self, raw: Buffer = EMPTY) -> R:
        """Decode a result; an absent one and null are read as `{}` (ER-10). Raises `DecodeError`."""
        value: R = self._decoding.decode(self.result, _or_empty(raw))
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
    return b"{}" if bytes(memoryview(raw)[:5]) in (b"", b"null") else raw


# --- reading a line --------------------------------------------------------------------------------------------------

Methods: TypeAlias = Mapping[tuple[str, Side, Kind], Method[Any, Any]]


class _Envelope(msgspec.Struct, gc=False):
    """A message whose members are still JSON, so that a bad one spoils no other."""

    jsonrpc: msgspec.Raw = EMPTY
    id: msgspec.Raw = EMPTY
    method: msgspec.Raw = EMPTY
    params: msgspec.Raw = EMPTY
    result: msgspec.Raw = EMPTY
    error: msgspec.Raw = EMPTY


class _Guard(msgspec.Struct, tag_field="jsonrpc", tag="\0"):
    """Beside a lone message class, so that a missing `jsonrpc` is refused; nothing ever is one."""

    never: Literal["\0"]


_envelope = msgspec.json.Decoder(_Envelope)
_id = msgspec.json.Decoder(int | str)
_text = msgspec.json.Decoder(str)
_error = msgspec.json.Decoder(ErrorObject)
_INT64 = 2**63


def line_decoder(
    decoding: Decoding, methods: Methods, receiver: Side, fast: Method[Any, Any] | None
) -> Callable[[bytes], Message]:
    """A function that reads one line, without its LF, as the `receiver` gets it. It never raises.

    `fast` is the notification that is worth a decoder of its own.
    """
    sides: tuple[Side, ...] = (receiver, "protocol", "proxy")

    def look(line: bytes) -> Message:
        return _slow(line, methods, sides)

    if fast is None:
        look.__doc__ = line_decoder.__doc__
        return look
    generic: Any = Notification
    one_pass = decoding.strict(generic[fast.params] | _Guard).decode
    name = fast.name

    def decode(line: bytes) -> Message:
        try:
            message: Notification[Any] = one_pass(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return _slow(line, methods, sides)
        if message.method == name and (line.isascii() or _is_utf8(line)):
            return message
        return _slow(line, methods, sides)

    return decode


def _is_utf8(line: bytes) -> bool:
    """msgspec lets invalid UTF-8 pass in keys and in what it skips."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _slow(line: bytes, methods: Methods, sides: tuple[Side, ...]) -> Message:
    """Envelope, then params by table, then the second look."""
    if line.startswith(b"\xef\xbb\xbf"):
        line = line[3:]
    if not _is_utf8(line):
        return Malformed(line, PARSE_ERROR, message="Invalid UTF-8")
    try:
        envelope = _envelope.decode(line)
    except msgspec.ValidationError:
        return Malformed(line, INVALID_REQUEST, message="Expected a JSON object")
    except (msgspec.DecodeError, RecursionError) as error:
        return Malformed(line, PARSE_ERROR, message=fault_of(error).message)
    method, request_id = _read(_text, envelope.method), _read_id(envelope.id)
    if envelope.method is EMPTY:
        if envelope.result is not EMPTY or envelope.error is not EMPTY:
            return _response(line, envelope, request_id)
        return Malformed(line, INVALID_REQUEST, message="Neither request, notification nor response")
    is_request = envelope.id is not EMPTY
    if is_request and request_id is None:
        return Malformed(line, INVALID_REQUEST, None, method, "$.id", "Expected a string or an int64")
    invalid = INVALID_REQUEST if is_request else None
    if _read(_text, envelope.jsonrpc) != "2.0":
        return Malformed(line, invalid, request_id, method, "$.jsonrpc", 'Expected "2.0"')
    if method is None:
        return Malformed(line, invalid, request_id, None, "$.method", "Expected `str`")
    kind: Kind = "request" if is_request else "notification"
    known = next((methods[method, side, kind] for side in sides if (method, side, kind) in methods), None)
    params: Any = msgspec.Raw(bytes(envelope.params)) if envelope.params is not EMPTY else EMPTY
    if known is not None:
        try:
            params = known.decode_params(envelope.params)
        except DecodeError as fault:
            path = f"$.params{fault.path[1:]}"
            return Malformed(line, INVALID_PARAMS if is_request else None, request_id, method, path, fault.message)
    if request_id is not None and is_request:
        return Request(id=request_id, method=method, params=params)
    return Notification(method=method, params=params)


def _response(line: bytes, envelope: _Envelope, request_id: RequestId | None) -> Message:
    """A response-shaped line is never answered, whatever is wrong with it (ER-08)."""

    def bad(path: str, message: str) -> Malformed:
        return Malformed(line, None, request_id, None, path, message)

    if _read(_text, envelope.jsonrpc) != "2.0":
        return bad("$.jsonrpc", 'Expected "2.0"')
    if envelope.error is EMPTY:
        if request_id is None:
            return bad("$.id", "Expected a string or an int64")
        return Response(id=request_id, result=msgspec.Raw(bytes(envelope.result)))
    if envelope.result is not EMPTY:
        return bad("$", "Both a result and an error")
    if request_id is None and bytes(envelope.id) != b"null":
        return bad("$.id", "Expected a string, an int64 or null")
    try:
        return ErrorResponse(id=request_id, error=_error.decode(envelope.error))
    except msgspec.ValidationError as error:
        fault = fault_of(error)
        return bad(f"$.error{fault.path[1:]}", fault.message)


def _read(decoder: msgspec.json.Decoder[str], raw: msgspec.Raw) -> str | None:
    try:
        return decoder.decode(raw)
    except msgspec.DecodeError:
        return None


def _read_id(raw: msgspec.Raw) -> RequestId | None:
    """A request id is a string or an int64; 1.0, true and null are none (H16)."""
    try:
        value = _id.decode(raw)
    except msgspec.DecodeError:
        return None
    return None if isinstance(value, int) and not -_INT64 <= value < _INT64 else value


# --- writing ---------------------------------------------------------------------------------------------------------

_encoder = msgspec.json.Encoder(enc_hook=encode_hook)


def encode_value(value: Any) -> bytes:
    """One JSON value, without a line feed. Raises `EncodeError`."""
    try:
        return _encoder.encode(value)
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
        raise EncodeError(str(error)) from error


def encode(message: Notification[Any] | Request[Any] | Response[Any] | ErrorResponse) -> bytes:
    """One message as one line, its LF included. Raises `EncodeError`."""
    return encode_value(message) + b"\n"
