"""Captures: recordings of what an agent and a client sent each other, written and read line by line.

Owns: the format of recordings (`Recorder`), reading them and bare lines (`read_capture`), pairing responses with their
requests, and guessing who sent a bare line. Does not know: connections, where the lines come from while they are
recorded, or how a file is compressed.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import accumulate, chain, compress, count
from operator import itemgetter
from pathlib import Path
from time import time as now
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, get_args

import msgspec
from msgspec import UNSET

from acpwire import v2
from acpwire.compression import AnyPath, BinaryFile, Damage, blocks_of, open_to_append, read_path
from acpwire.wire.errors import DecodeError
from acpwire.wire.frames import (
    ErrorResponse,
    Kind,
    Malformed,
    Message,
    Method,
    Notification,
    Request,
    RequestId,
    Response,
    Side,
)
from acpwire.wire.lenient import fault_of
from acpwire.wire.lines import DEFAULT_LIMIT, LineBuffer, OversizedLine

__all__ = ["Record", "Recorder", "Sender", "read_capture"]

Sender: TypeAlias = Literal["agent", "client"]

LINE_LIMIT = 6 * DEFAULT_LIMIT
"""The longest line of a capture in bytes: in JSON, no byte of a recorded line takes more than six."""
WAITING_LIMIT = 10_000
"""Under how many ids requests wait for their responses; of more, the oldest are forgotten: their results stay raw."""
ID_LIMIT = 256
"""A request whose id is a longer string does not wait at all, so that what waits has a bound in bytes."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One line of a capture.

    `result` is the typed result, of a response whose request is in the capture, else `UNSET`; it also is where the
    result does not fit its type, and then `fault` says where and why.

    What is wrong with the file is a record as well, with a `Malformed` message whose `code` is None, as no peer is to
    be answered for it: a line of a recording that does not fit the format (`sender` is None), and compressed data that
    is damaged or ends early (the same, with an empty line, unless it ends inside a line). A last line that was cut off
    is `Malformed` too, and its message says so.
    """

    offset: int
    """Where the record begins: bytes from the file's beginning, or from where reading a file object began; after
    decompression."""
    number: int
    """Which line of the file it is, from 1; blank ones count."""
    time: float | None
    """Seconds since the epoch; None in bare captures."""
    sender: Sender | None
    line: bytes
    """The wire's line as it came, without its line feed."""
    message: Message
    result: Any = UNSET
    fault: DecodeError | None = None


# --- writing ---------------------------------------------------------------------------------------------------------


class _Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A line of a recording, of either kind."""

    format: Literal["acpwire-capture"] | None = None
    version: int | None = None
    time: float | None = None
    sender: Sender | None = None
    line: str | None = None
    base64: bytes | None = None


_VERSION = 1
_encode = msgspec.json.Encoder().encode


class Recorder:
    r"""Writes a recording.

        with Recorder("session.ndjson.gz") as recorder:
            recorder.record("agent", line)

    Every line is handed to the operating system before `record` returns, so a crash of this process loses at most the
    line that it was about to write. An existing file is continued, also one that a crash left without its end. Use it
    from one thread at a time. Raises `OSError` where the file cannot be written, and `ImportError` for `.zst` without a
    package for it.

    A recording is JSON lines in UTF-8, each an object. One names the format, then each is a line as it was on the wire:

        {"format":"acpwire-capture","version":1}
        {"time":1700000000.25,"sender":"client","line":"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",...}"}
        {"time":1700000000.5,"sender":"agent","base64":"/w=="}

    - `time`, a number, is in seconds since the epoch; it may be missing.
    - `sender` is "agent" or "client".
    - `line` is the wire's line without its line feed. Where that is no UTF-8, it stands in `base64` instead (RFC 4648,
      padded); exactly one of the two is there.
    - Members come in any order; others are to be ignored, and so are blank lines.
    - The line that names the format may come again anywhere, as recordings can be joined with `cat`, and a recorder
      that continues a file writes a blank line and then that one. Ids of requests begin anew there.
    - A file that ends in `.gz` or `.zst` is compressed; whoever continues it adds a member of gzip or a frame of zstd.
    - After a crash, a line, member or frame may break off where the next recorder began.
    """

    def __init__(self, path: AnyPath) -> None:
        is_begun = Path(path).exists() and Path(path).stat().st_size > 0
        self._file = open_to_append(path)
        header = _encode(_Entry(format="acpwire-capture", version=_VERSION))
        self._write(b"\n" + header if is_begun else header)

    def record(self, sender: Sender, line: bytes | bytearray | memoryview, time: float | None = None) -> None:
        """Write a line as it is on the wire, with or without its line feed; `time` is now unless given.

        A blank line is left out, as everywhere (TR-05). Raises `OSError` where it cannot be written, `ValueError` after
        `close` and for a time that is no number.
        """
        if sender not in _OTHER:
            raise ValueError('a sender is "agent" or "client"')
        when = now() if time is None else float(time)
        if not math.isfinite(when):
            raise ValueError(f"a time is a number of seconds, not {when}")
        raw = bytes(line).removesuffix(b"\n")
        if not raw.strip(_WHITE):
            return
        try:
            entry = _Entry(time=when, sender=sender, line=raw.decode())
        except UnicodeDecodeError:
            entry = _Entry(time=when, sender=sender, base64=raw)
        self._write(_encode(entry))

    def close(self) -> None:
        """Finish the file. Closing it again does nothing."""
        self._file.close()

    def _write(self, line: bytes) -> None:
        self._file.write(line + b"\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


# --- reading ---------------------------------------------------------------------------------------------------------


def read_capture(path_or_file: AnyPath | BinaryFile, sender: Sender | None = None) -> Generator[Record, None, None]:
    """Read a capture, one `Record` a line, in constant memory.

    Takes a path, decompressed by its ending (`.gz`; `.zst` where Python has zstd or one of the packages
    `backports.zstd` and `zstandard` is installed), or a binary file object, which is read as it is, from where it
    stands, and stays open. A capture is a recording (`Recorder` has the format) if a line of one comes before the first
    JSON-RPC message. Else it is bare: the wire's own lines (NDJSON), of one side or of both in the order in which they
    were sent. Only LF ends a line; blank lines are left out.

    Who sent a bare line is said by `sender`, or guessed by the first of these that tells:

    1. a request or notification whose method only one side handles was sent by the other side;
    2. a response was sent by the side that was asked under its id, and `$/cancel_request` by the side that asked;
       where both did, the later request counts, and a request whose result type a result does not fit does not count;
    3. anything else was sent by whoever sent the line before; at the beginning, the agent.

    Say who sent them where a file holds the responses of only one side: rule 2 can take them for answers to that side's
    own requests.

    A path that cannot be opened raises `OSError` at once, `.zst` without a package for it `ImportError`, and while
    reading whatever a file raises is passed on; nothing in a capture raises. Lines of more than `LINE_LIMIT` bytes are
    `Malformed`, and requests wait for their responses up to a bound (`WAITING_LIMIT`, `ID_LIMIT`). A file that was
    opened here is closed at the end, or with `.close()`.
    """
    if isinstance(path_or_file, str | os.PathLike):
        return records_of(read_path(path_or_file), sender)
    return records_of(blocks_of(path_or_file), sender)


def records_of(blocks: Iterable[bytes | Damage], sender: Sender | None) -> Generator[Record, None, None]:
    """The same, of a capture that comes in blocks, decompressed."""
    if sender not in (None, *_OTHER):
        raise ValueError('a sender is "agent", "client" or None')
    return _Reader(sender).records(blocks)


_DECODE: dict[Sender, Callable[[bytes], Message]] = {"agent": v2.decode_from_agent, "client": v2.decode_from_client}
_NO_JSON = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_END = Damage("The file ends")
_WHITE = b" \t\r\n"
_decode_entry = msgspec.json.Decoder(_Entry).decode


def _read_entry(line: bytes) -> _Entry:
    return _decode_entry(line.removeprefix(b"\xef\xbb\xbf"))  # one byte order mark passes, as it does in a message


class _Reader:
    """Makes records of lines, and keeps what it has to know of those before."""

    def __init__(self, sender: Sender | None) -> None:
        self._sender: Sender | None = sender
        self._usual: Sender = sender or "agent"
        self._is_recording: bool | None = None  # None: no line so far was a message or of a recording
        self._requests = _Requests()
        self._lines = _Lines()

    def records(self, blocks: Iterable[bytes | Damage]) -> Generator[Record, None, None]:
        """The records, once."""
        before = usual = self._usual
        record: Record | None
        decode, update = _DECODE[usual], v2.SESSION_UPDATE.name
        is_given, is_bare = self._sender is not None, False
        for block in chain(blocks, [_END]):
            if isinstance(block, Damage):
                yield from self._cut(block, before)
                continue
            for offset, number, line in self._lines.feed(block):
                if is_bare:
                    message = decode(line)
                    if type(message) is Notification and (is_given or message.method == update):  # nearly every line
                        before = usual
                        yield Record(offset, number, None, usual, line, message)
                        continue
                    record = self._of_message(offset, number, line, message, before)
                else:
                    record = self._of_line(offset, number, line, before)
                    is_bare = self._is_recording is False
                if record is not None:
                    before = record.sender or before
                    yield record

    def _cut(self, damage: Damage, before: Sender) -> Iterator[Record]:
        """The line that has no end, if there is one, and the damage, unless that is why the line is no JSON."""
        for offset, number, line in self._lines.flush():
            record = self._of_line(offset, number, line, before)
            if record is not None and isinstance(record.message, Malformed) and _is_cut_off(line):
                message = msgspec.structs.replace(record.message, message=f"{damage.reason} inside this line")
                yield msgspec.structs.replace(record, message=message)
                return
            if record is not None:
                yield record
        if damage is not _END:
            yield _foreign(self._lines.offset, self._lines.number, b"", damage.reason)

    def _of_line(self, offset: int, number: int, line: bytes, before: Sender) -> Record | None:
        """The record of any line; None for one that names the format."""
        if self._is_recording is None:
            if not isinstance(_DECODE[self._usual](line), Malformed):
                self._is_recording = False
            elif _is_of_recording(line):
                self._is_recording = True
        if self._is_recording:
            return self._of_entry(offset, number, line)
        return self._of_message(offset, number, line, _DECODE[self._usual](line), before)

    def _of_message(self, offset: int, number: int, line: bytes, message: Message, before: Sender) -> Record:
        """The record of a bare line, of its message as the usual sender's, and of who sent the line before."""
        sender = self._sender or self._requests.guess(message) or before
        if sender != self._usual:
            message = _DECODE[sender](line)
        return Record(offset, number, None, sender, line, message, *self._requests.heard(sender, message))

    def _of_entry(self, offset: int, number: int, line: bytes) -> Record | None:
        """The record that a line of a recording stands for; None for one that names the format."""
        try:
            entry = _read_entry(line)
        except _NO_JSON as error:
            fault = fault_of(error)
            return _foreign(offset, number, line, f"No record: {fault.message}", fault.path)
        if entry.format is not None:
            if entry.version != _VERSION:
                return _foreign(offset, number, line, f"Expected version {_VERSION} of the format", "$.version")
            self._requests = _Requests()
            return None
        raw = entry.base64 if entry.line is None else entry.line.encode()
        if entry.sender is None or raw is None or None not in (entry.line, entry.base64):
            return _foreign(offset, number, line, "No record: Expected `sender`, and either `line` or `base64`")
        message = _DECODE[entry.sender](raw)
        answer = self._requests.heard(entry.sender, message)
        return Record(offset, number, entry.time, entry.sender, raw, message, *answer)


def _foreign(offset: int, number: int, line: bytes, message: str, path: str = "$") -> Record:
    """What is wrong with the file."""
    return Record(offset, number, None, None, line, Malformed(line, None, path=path, message=message))


def _is_of_recording(line: bytes) -> bool:
    try:
        entry = _read_entry(line)
    except _NO_JSON:
        return False
    return entry.format is not None or entry.sender is not None


def _is_cut_off(line: bytes) -> bool:
    """Whether a line that has no end may be no JSON for want of it."""
    try:
        json.loads(line.decode(errors="replace"))  # unlike msgspec, it takes a lone surrogate for JSON
    except (ValueError, RecursionError):
        return not isinstance(line, OversizedLine)
    return False


_without_end: Callable[[bytes], bytes] = itemgetter(slice(-1))


class _Lines:
    """Cuts blocks into lines that know where they stand: offset, number, and the line without its line feed."""

    def __init__(self) -> None:
        self._buffer = LineBuffer(LINE_LIMIT)
        self._fed = 0  # bytes so far
        self.offset = 0
        """Where the line begins that has not ended."""
        self.number = 1

    def feed(self, block: bytes) -> Iterable[tuple[int, int, bytes]]:
        """The lines that end in a block."""
        lines = self._buffer.feed(block)
        start, begun, number = self._fed, self.offset, self.number
        self._fed += len(block)
        size = block.rfind(b"\n") + 1
        if not size:
            return ()
        self.offset = start + size
        offsets = list(accumulate(map(len, lines), initial=begun))
        if offsets[-1] == self.offset:
            self.number += len(lines)
            return zip(offsets, count(number), map(_without_end, lines))
        # some lines are blank, or the first is over the limit
        pieces = io.BytesIO(block[:size]).readlines()
        self.number += len(pieces)
        kept = [piece.strip(_WHITE) != b"" for piece in pieces]
        kept[0] = len(lines) > sum(kept[1:])  # it may have begun in an earlier block
        starts = chain([begun], accumulate(map(len, pieces[1:]), initial=start + len(pieces[0])))
        bare = (line if isinstance(line, OversizedLine) else _without_end(line) for line in lines)
        return zip(compress(starts, kept), compress(count(number), kept), bare, strict=True)

    def flush(self) -> Iterable[tuple[int, int, bytes]]:
        """The line that has no end, if there is one. What is fed next begins another."""
        begun, self.offset = self.offset, self._fed
        return [(begun, self.number, line) for line in self._buffer.flush()]


# --- who sent it, and what it answers --------------------------------------------------------------------------------

_OTHER: dict[Sender, Sender] = {"agent": "client", "client": "agent"}
_SIDES: tuple[Side, ...] = get_args(Side)
_ANSWERS = (Response, ErrorResponse)  # tuples, as a union is made anew wherever it is written
_Answer: TypeAlias = "tuple[Any, DecodeError | None]"
_NO_ANSWER: _Answer = (UNSET, None)


class _Requests:
    """The requests that wait for their responses: under each id who asked, and for what; the latest stands last."""

    def __init__(self) -> None:
        self._waiting: dict[RequestId | None, dict[Sender, Method[Any, Any] | None]] = {}

    def heard(self, sender: Sender, message: Message) -> _Answer:
        """Take note of a message; of a response that answers a request, the typed result, or what is wrong with it."""
        if isinstance(message, Notification):
            return _NO_ANSWER
        if isinstance(message, _ANSWERS):
            askers = self._waiting.get(message.id, {})
            method = askers.pop(_OTHER[sender], None)
            if not askers:
                self._waiting.pop(message.id, None)
            if method is not None and isinstance(message, Response):
                return _typed(method, message.result)
        elif message.id is not None and message.method is not None:
            self._ask(sender, message.id, message.method)
        return _NO_ANSWER

    def _ask(self, sender: Sender, request_id: RequestId, method: str) -> None:
        askers = self._waiting.pop(request_id, {})  # so that the latest stands last
        askers.pop(sender, None)
        if isinstance(request_id, str) and len(request_id) > ID_LIMIT:
            return
        askers[sender] = _asked_for(sender, method)
        self._waiting[request_id] = askers
        if len(self._waiting) > WAITING_LIMIT:
            del self._waiting[next(iter(self._waiting))]

    def guess(self, message: Message) -> Sender | None:
        """Who sent a message of a bare capture, by the first two rules of `read_capture`."""
        if isinstance(message, _ANSWERS):
            for asker, method in reversed(self._waiting.get(message.id, {}).items()):
                if method is None or isinstance(message, ErrorResponse) or _typed(method, message.result)[1] is None:
                    return _OTHER[asker]
            return None
        if isinstance(message, Malformed):
            return _only_sender(message.method, "notification" if message.code is None else "request")
        if isinstance(message.params, v2.CancelRequestNotification):
            return next(reversed(self._waiting.get(message.params.request_id, {})), None)
        return _only_sender(message.method, "request" if isinstance(message, Request) else "notification")


def _typed(method: Method[Any, Any], result: msgspec.Raw) -> _Answer:
    try:
        return method.decode_result(result), None
    except DecodeError as error:  # raised again it would hold this frame: a new one holds nothing
        return UNSET, DecodeError(error.message, f"$.result{error.path[1:]}")


def _asked_for(sender: Sender, name: str) -> Method[Any, Any] | None:
    """The method that a side calls by a name."""
    receivers: tuple[Side, ...] = (_OTHER[sender], "protocol", "proxy")
    methods = (v2.METHODS.get((name, side, "request")) for side in receivers)
    return next(filter(None, methods), None)


def _only_sender(name: str | None, kind: Kind) -> Sender | None:
    """The only side that sends a method, if there is one."""
    match [side for side in _SIDES if (name, side, kind) in v2.METHODS]:
        case ["agent" | "client" as receiver]:
            return _OTHER[receiver]
        case _:
            return None
