"""A JSON-RPC peer without I/O: blocks of bytes in, typed events and lines out.

Owns: ids of both directions, which requests wait for an answer and which are still to be answered, what a peer is told
when it sends nonsense, cancellation, closing, counters. Does not know: asyncio, transports, handlers, or a protocol:
the table of methods and the decoder of lines are arguments.

    for line in connection.split(block):
        match connection.receive(connection.read(line)):
            case Notification() as heard: ...        # nothing is owed
            case Request() as asked: ...             # owes one `answer` or `fail`
            case CancelRequested(id=id): ...         # stop that work; its answer is still owed
            case Answered() as answered: ...         # the end of a request of ours
            case Ignored() as ignored: ...           # for an observer; whatever was due has been done
    transport.write(connection.take())

Neither `read` nor `receive` raises, whatever the line.
"""

from __future__ import annotations

import io
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal, TypeAlias, TypeVar, cast

import msgspec

from acpwire.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ConnectionClosed,
    DecodeError,
    RequestError,
    UsageError,
)
from acpwire.failures import ENDS
from acpwire.limits import Limits
from acpwire.texts import HOLE, USUAL_TEXTS, Texts, UsualText
from acpwire.wire.frames import (
    ErrorObject,
    ErrorResponse,
    Kind,
    Malformed,
    Message,
    Method,
    Methods,
    Notification,
    Request,
    RequestId,
    Response,
    Side,
    encode,
)
from acpwire.wire.lines import LineBuffer, OversizedLine

__all__ = [
    "Answered",
    "CancelRequested",
    "Connection",
    "Counters",
    "Event",
    "Ignored",
    "Role",
    "Tap",
]

Role: TypeAlias = Literal["agent", "client"]
Tap: TypeAlias = Callable[[Role, bytes], object]
"""Gets every line of both directions as it is on the wire, its line feed included, and who sent it."""

P = TypeVar("P")
_OTHER: dict[Role, Role] = {"agent": "client", "client": "agent"}
_log = logging.getLogger(__name__)


class Answered(msgspec.Struct, frozen=True, gc=False):
    """A request of ours has come to its end: with `result`, or with `error` and no result."""

    id: RequestId
    method: Method[Any, Any]
    result: Any = None
    error: RequestError | DecodeError | ConnectionClosed | None = None


class CancelRequested(msgspec.Struct, frozen=True, gc=False):
    """The peer no longer wants the answer to this request of its own; one is still owed (RC-04)."""

    id: RequestId


class Ignored(msgspec.Struct, frozen=True, gc=False):
    """A line on which nothing is to be done any more; `reason` says why, without values of the line."""

    message: Message
    reason: str


Event: TypeAlias = Notification[Any] | Request[Any] | CancelRequested | Answered | Ignored


@dataclass(slots=True)
class Counters:
    """What has passed through a connection."""

    lines: int = 0
    """Lines received; blank ones do not count."""
    bytes: int = 0
    """Bytes received."""
    malformed: int = 0
    """Lines received that were no message, or one that does not fit its method."""
    unknown: int = 0
    """Requests and notifications received whose method is none of this side's."""
    answers: int = 0
    """Answers sent, errors included."""
    drops: int = 0
    """Lines received that nobody got and nobody was told of: notifications that are unknown or malformed, answers that
    nobody waits for, and lines beyond the limit of parse errors."""


ALIKE = 3
"""After so many notifications that differ in one text alone, the texts of those that follow are gathered."""


class Connection:
    """One end of a connection, in the role of `role`, receiving lines by `decode` and methods by `methods`.

    `tap` sees every line. `mend` may make a message of a malformed line that is worth one all the same, or return None.
    `clock` gives seconds; it is asked only for malformed lines. Not safe for use from several threads.
    """

    def __init__(
        self,
        role: Role,
        decode: Callable[[bytes], Message],
        methods: Methods,
        *,
        limits: Limits | None = None,
        tap: Tap | None = None,
        mend: Callable[[Malformed], Message | None] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.role: Role = role
        self.limits = limits or Limits()
        self.counters = Counters()
        self.answer_bytes = 0
        """Bytes of all answers so far, sent or not."""
        self.read: Callable[[bytes], Message] = decode if tap is None else self._tapped_read
        """Reads a line as a message, for `receive`."""
        self.closed: ConnectionClosed | None = None
        """Why the connection is closed; None while it is open."""
        self._decode = decode
        self._tap = tap
        self._mend = mend
        self._methods = methods
        self._clock = clock
        self._buffer = LineBuffer(self.limits.line)
        self._out = bytearray()
        self._shown: deque[tuple[Role, bytes]] = deque()  # what the tap has not seen to its end
        self._later: Callable[[bytearray], object] | None = None  # appends what follows that
        self._others: tuple[str, ...] | None = None  # the strings of the last notification, beside its text
        self._alike = 0  # so many notifications in a row had them
        self._texts: Texts | None = None  # of notifications that have them, too
        self._add: Callable[[Method[Any, Any], Any], int]  # adds the text of one more
        self.alike: Callable[[Method[Any, Any], Any], int] | None = None
        """While texts of notifications wait to be encoded: sends a notification that differs from theirs in its text
        alone, and returns how many bytes wait, at least; 0 for any other, which is not sent."""
        self._next_id = 0
        self._pending: dict[RequestId, Method[Any, Any]] = {}  # ours, without an answer yet
        self._forgotten: set[RequestId] = set()  # of those, the ones that nobody waits for any more (RC-08)
        self._owed: set[RequestId] = set()  # the peer's, without an answer yet
        self._null_answers = _Rate(self.limits.parse_errors)
        served: tuple[Side, ...] = (role, "protocol", "proxy")
        self._requests = _by_name(methods, served, "request")
        self._notifications = _by_name(methods, served, "notification")
        self._cancel = next((method for method in methods.values() if method.name == "$/cancel_request"), None)

    # --- what goes out --------------------------------------------------------------------------------------------

    @property
    def unsent(self) -> int:
        """Bytes that `take` would return."""
        if self._later is not None:
            self._settle()
        return len(self._out)

    @property
    def is_waiting(self) -> bool:
        """Whether somebody waits for an answer of the peer."""
        return len(self._pending) > len(self._forgotten)

    def take(self) -> bytes:
        """What is to be sent next, whole lines; they are forgotten here."""
        if self._later is not None:
            self._settle()
        data = bytes(self._out)
        self._out.clear()
        return data

    def request(self, method: Method[Any, Any], params: Any) -> RequestId:
        """Send a request and return its id; an `Answered` event follows, if only by `close`.

        Raises `EncodeError` where the params are no JSON, `ConnectionClosed`, and `UsageError` for what the other side
        does not answer.
        """
        if method.kind != "request" or method.side == self.role:
            what = "a notification" if method.kind != "request" else f"for the {self.role} to answer"
            raise UsageError(f"{method.name} is {what}, so no answer to it would ever come")
        line = self._line(Request(id=self._next_id, method=method.name, params=params))
        request_id = self._next_id
        self._next_id += 1
        self._pending[request_id] = method
        self.send_line(line)
        return request_id

    def notify(self, method: Method[P, None], params: P) -> int:
        """Send a notification and return how many bytes are unsent, at least.

        Raises `EncodeError` where the params are no JSON, and `ConnectionClosed`.
        """
        if self.closed is not None:
            raise self.closed.again()
        texts = self._texts
        if texts is not None:
            if self.alike is None:
                texts.before = len(self._out)
            size = self._add(method, params)
            if size:
                if self.alike is None:
                    self.alike = self._add
                    self._follow(texts.append_to)
                return size
        usual = USUAL_TEXTS[type(params)]
        if usual is not None:
            self._gather(method, params, usual)
        if self._later is not None:
            self._settle()
        out = self._out
        start = method.append_notification(params, out)
        if self._tap is not None:
            self._show(self.role, bytes(out[start:]))
        return len(out)

    def _follow(self, append: Callable[[bytearray], object]) -> None:
        """Have something follow what was sent so far, and before all that a tap sends when it is shown that."""
        later, self._later = self._later, append
        if later is not None:
            self._append(later)

    def _gather(self, method: Method[P, None], params: P, usual: UsualText) -> None:
        """Gather the texts of notifications that differ in nothing else, after three of them."""
        others = usual.others(params)
        self._texts = None
        self._alike = self._alike + 1 if others is not None and others == self._others else 1
        self._others = others
        if others is not None and self._alike == ALIKE:
            self._texts = Texts(method, usual.with_text(params, HOLE))
            self._add = usual.adder(self._texts, *others)
            self._alike = 1

    def send_line(self, line: bytes) -> int:
        """Send a line as it is, its LF included, and return how many bytes are unsent; the caller vouches for it.

        Raises `ConnectionClosed`.
        """
        if self.closed is not None:
            raise self.closed.again()
        if self._later is not None:
            self._settle()
        self._out += line
        if self._tap is not None:
            self._show(self.role, line)
        return len(self._out)

    def send_later(self, lines: Callable[[bytearray], object]) -> int:
        """Send whole lines that are made when it is time, as they leave or something follows; the caller vouches.

        `lines` appends them to what it gets, and has something to append from now on. Returns how many bytes before
        them are unsent. Raises `ConnectionClosed`.
        """
        if self.closed is not None:
            raise self.closed.again()
        self.alike = None
        self._follow(lines)
        return len(self._out)

    def cancel(self, request_id: RequestId, *, forget: bool) -> None:
        """Ask the peer to stop working on a request of ours (RC-01).

        It still answers. With `forget` nobody waits for that: it makes no event, and what it says is dropped (RC-08).
        Nothing is done for a request that has its answer.
        """
        if request_id not in self._pending or request_id in self._forgotten:
            return
        if forget:
            self._forgotten.add(request_id)
        if self._cancel is not None and self.closed is None:
            self.notify(self._cancel, {"requestId": request_id})

    def answer(self, request_id: RequestId, result: Any = None) -> None:
        """Answer a request of the peer; None is an empty result (ER-10).

        Raises `EncodeError` where the result is no JSON: the answer is still owed then. Raises `UsageError` where none
        is owed, and `ConnectionClosed`.
        """
        self._answer(request_id, Response(id=request_id, result={} if result is None else result))

    def fail(self, request_id: RequestId, error: RequestError) -> None:
        """Answer a request of the peer with an error. Raises as `answer` does."""
        self._answer(request_id, ErrorResponse(id=request_id, error=error.object()))

    @property
    def owed(self) -> frozenset[RequestId]:
        """The ids of the peer's requests that have no answer yet."""
        return frozenset(self._owed)

    def passes(self, name: str) -> bool:
        """Whether notifications of this name need nothing from `receive`: it would give them back as they are."""
        method = self._notifications.get(name)
        if method is None or method is self._cancel:
            return False
        probe = self._decode(b'{"jsonrpc":"2.0","method":' + msgspec.json.encode(name) + b',"params":0}')
        return type(probe) is not Notification  # the decoder knows the method, as it looks into its params

    # --- what comes in --------------------------------------------------------------------------------------------

    def split(self, block: bytes) -> list[bytes]:
        """Take the next block of bytes; the lines that end in it, for `receive`."""
        lines = self._buffer.feed(block)
        self.counters.bytes += len(block)
        self.counters.lines += len(lines)
        return lines

    def finish(self) -> list[bytes]:
        """The last line where the input ended without a line feed, for `receive` (S-SP-02)."""
        lines = self._buffer.flush()
        self.counters.lines += len(lines)
        return lines

    def receive(self, message: Message) -> Event:
        """Take a message. Answers by itself what needs nobody else: malformed, unknown and duplicate requests."""
        if type(message) is Notification:
            method = self._notifications.get(message.method)
            if method is None:
                return self._unknown_notification(message)
            if method is self._cancel:
                return self._cancelled(message)
            return message if type(message.params) is not msgspec.Raw else self._extension(method, message)
        if type(message) is Request:
            return self._asked(message)
        if type(message) is Response:
            return self._response(message)
        if type(message) is ErrorResponse:
            return self._error(message)
        return self._malformed(cast("Malformed", message))  # `type() is` narrows no generic class

    def close(self, cause: ConnectionClosed) -> list[Answered]:
        """End the connection: whatever waits for an answer gets `cause` (ER-09), and nothing is sent any more.

        The peer's requests are owed nothing from here on. A second close does nothing.
        """
        if self.closed is not None:
            return []
        self.closed, self.alike = cause, None
        pending = [
            Answered(request_id, method, error=cause.again())
            for request_id, method in self._pending.items()
            if request_id not in self._forgotten
        ]
        self._pending.clear()
        self._forgotten.clear()
        self._owed.clear()
        return pending

    # --- requests and notifications of the peer -------------------------------------------------------------------

    def _asked(self, message: Request[Any]) -> Event:
        if self.closed is not None:
            return self._dropped(message, "the connection is closed")
        request_id, method = message.id, self._requests.get(message.method)
        if request_id in self._owed:
            error = RequestError(INVALID_REQUEST, "A request with this id is still being answered")
            return self._refused(message, request_id, error)
        if method is None:
            self.counters.unknown += 1
            reason = self._not_served(message.method, "request")
            data = {"method": message.method} if len(message.method) <= _SHOWN else msgspec.UNSET
            return self._refused(message, request_id, RequestError(METHOD_NOT_FOUND, reason, data))
        if len(self._owed) >= self.limits.requests:
            reason = f"Too many requests at once: Limits.requests is {self.limits.requests}"
            return self._refused(message, request_id, RequestError(INTERNAL_ERROR, reason))
        if type(message.params) is msgspec.Raw:
            extension = self._extension(method, message)
            if isinstance(extension, Ignored):
                return extension
            message = extension
        self._owed.add(request_id)
        return message

    def _extension(self, method: Method[Any, Any], message: Any) -> Any:
        """A message of a method that the decoder does not know but the table does."""
        try:
            return msgspec.structs.replace(message, params=method.decode_params(message.params))
        except DecodeError as fault:
            request_id, code = (message.id, INVALID_PARAMS) if type(message) is Request else (None, None)
            path, line = f"$.params{fault.path[1:]}", encode(message)
            return self._malformed(Malformed(line, code, request_id, method.name, path, fault.message))

    def _unknown_notification(self, message: Notification[Any]) -> Ignored:
        self.counters.unknown += 1
        return self._dropped(message, self._not_served(message.method, "notification"))

    def _not_served(self, name: str, kind: Kind) -> str:
        """Why a method is none that this side serves as this kind."""
        for (known, side, other), method in self._methods.items():
            if known == name and side in {self.role, "protocol", "proxy"}:
                return f"{method.name} is a {other}, and came as a {kind}"
        for known, side, _ in self._methods:
            if known == name:
                return f"{known} is handled by the {side}, and came to the {self.role}"
        return "Method not found"

    def _cancelled(self, message: Notification[Any]) -> Event:
        """`$/cancel_request`: of a request that is not owed an answer any more, nothing is to be done (RC-05)."""
        request_id: RequestId = message.params.request_id
        if request_id in self._owed:
            return CancelRequested(request_id)
        return Ignored(message, "the request to cancel is not being answered")

    # --- answers of the peer --------------------------------------------------------------------------------------

    def _response(self, message: Response[Any]) -> Event:
        method = self._settled(message.id)
        if method is None:
            return self._dropped(message, "nobody waits for this answer")
        try:
            return Answered(message.id, method, method.decode_result(message.result))
        except DecodeError as fault:
            self.counters.malformed += 1
            return Answered(message.id, method, error=_misfit(method, f"$.result{fault.path[1:]}", fault.message))

    def _error(self, message: ErrorResponse) -> Event:
        if message.id is None:
            return Ignored(message, "the peer could not make out a line that it was sent")
        method = self._settled(message.id)
        if method is None:
            return self._dropped(message, "nobody waits for this answer")
        return Answered(message.id, method, error=RequestError.of(message.error))

    def _settled(self, request_id: RequestId) -> Method[Any, Any] | None:
        """The method of a request of ours that is answered now, if somebody waits for it."""
        method = self._pending.pop(request_id, None)
        if request_id in self._forgotten:
            self._forgotten.discard(request_id)
            return None
        return method

    # --- nonsense -------------------------------------------------------------------------------------------------

    def _malformed(self, message: Malformed) -> Event:
        """What is answered to a malformed line is in it; a malformed answer fails the request that it is to (W-RS)."""
        try:
            mended = None if self._mend is None else self._mend(message)
        except ENDS:
            raise
        except BaseException:  # noqa: BLE001  # whatever a user's function raises
            _log.exception("a malformed line could not be mended")
            mended = None
        if mended is not None:
            return self.receive(mended)
        self.counters.malformed += 1
        if type(message.line) is OversizedLine:
            message = msgspec.structs.replace(message, message=f"{message.message} (Limits.line)")
        if message.code is None:
            if message.method is None and message.id is not None:
                method = self._settled(message.id)
                if method is not None:
                    return Answered(message.id, method, error=_misfit(method, message.path, message.message))
            return self._dropped(message, f"{message.message} - at `{message.path}`")
        error = ErrorObject(code=message.code, message=f"{message.message} - at `{message.path}`")
        if self.closed is None and (message.id is not None or self._null_answers.allows(self._clock())):
            self._reply(self._line(ErrorResponse(id=message.id, error=error)))
            return Ignored(message, error.message)
        beyond = (
            "" if self.closed is not None else f"; more than Limits.parse_errors = {self.limits.parse_errors} a second"
        )
        return self._dropped(message, error.message + beyond)

    def _refused(self, message: Request[Any], request_id: RequestId, error: RequestError) -> Ignored:
        self._reply(self._line(ErrorResponse(id=request_id, error=error.object())))
        return Ignored(message, error.message)

    def _dropped(self, message: Message, reason: str) -> Ignored:
        self.counters.drops += 1
        return Ignored(message, reason)

    # --- writing --------------------------------------------------------------------------------------------------

    def _answer(self, request_id: RequestId, message: Response[Any] | ErrorResponse) -> None:
        if self.closed is not None:
            raise self.closed.again()
        if request_id not in self._owed:
            raise UsageError(f"no answer is owed to a request {request_id!r}: it has one, or it never came")
        line = self._line(message)
        self._owed.discard(request_id)
        self._reply(line)

    def _reply(self, line: bytes) -> None:
        self.counters.answers += 1
        self.answer_bytes += len(line)
        self.send_line(line)

    def _line(self, message: Request[Any] | Response[Any] | ErrorResponse) -> bytes:
        if self.closed is not None:
            raise self.closed.again()
        return encode(message)

    def _settle(self) -> None:
        """Make what was to be made later."""
        later, self._later, self.alike = self._later, None, None
        if later is not None:
            self._append(later)

    def _append(self, later: Callable[[bytearray], object]) -> None:
        start = len(self._out)
        try:
            later(self._out)
        except BaseException:
            del self._out[start:]  # half a line would spoil the next
            raise
        if self._tap is not None:
            self._show(self.role, *io.BytesIO(self._out[start:]))

    def _tapped_read(self, line: bytes) -> Message:
        self._show(_OTHER[self.role], line)
        return self._decode(line)

    def _show(self, sender: Role, *lines: bytes) -> None:
        """Show lines to the tap; one that raises is not asked again, and the connection goes on.

        What the tap itself sends is shown to it when it has seen all that goes before.
        """
        is_showing = bool(self._shown)
        self._shown.extend((sender, line) for line in lines)
        if is_showing:
            return
        try:
            while self._shown and self._tap is not None:
                self._tap(*self._shown[0])
                self._shown.popleft()
        except ENDS:
            raise
        except BaseException:  # noqa: BLE001  # whatever a user's function raises
            self._tap = None
            _log.exception("the tap of the connection raised, and sees no further lines")
        finally:
            self._shown.clear()


_SHOWN = 100
"""The longest name of an unknown method that is said back."""


class _Rate:
    """So many a second."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._last: deque[float] = deque(maxlen=limit)  # when so many were allowed last

    def allows(self, now: float) -> bool:
        """Whether one more is allowed at `now`, in seconds; if so, it is counted."""
        if len(self._last) == self._limit and (not self._last or now - self._last[0] < 1):
            return False
        self._last.append(now)
        return True


def _by_name(methods: Methods, sides: tuple[Side, ...], kind: Kind) -> dict[str, Method[Any, Any]]:
    """The methods of one kind that some sides handle; the first of the sides wins."""
    found: dict[str, Method[Any, Any]] = {}
    for side in sides:
        for (name, other, of), method in methods.items():
            if other == side and of == kind:
                found.setdefault(name, method)
    return found


def _misfit(method: Method[Any, Any], path: str, message: str) -> DecodeError:
    return DecodeError(f"the answer to {method.name} does not fit: {message}", path)
