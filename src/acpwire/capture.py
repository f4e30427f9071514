r"""Captures: recordings of what an agent and a client sent each other, written and read line by line.

Owns: the recording format, `Recorder`, `read_capture`, pairing responses with their requests, and guessing who sent a
bare line. Does not know: connections, or where the lines come from while they are recorded.

A recording is JSON lines in UTF-8. The first line names the format, each other one is a line as it was on the wire:

    {"format":"acpwire-capture","version":1}
    {"time":1700000000.25,"sender":"client","line":"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",...}"}
    {"time":1700000000.5,"sender":"agent","base64":"/w=="}

`time` is in seconds since the epoch and may be missing; `sender` is "agent" or "client"; `line` is the raw line without
its line feed, `base64` stands in its place where the line is no UTF-8. Other members are ignored. The line that names
the format may come again at any place, so recordings can be joined with `cat`; ids begin anew there. It may also be
missing: a file is a recording if what comes before the first message is of one.

A bare capture is the wire's own lines (NDJSON), of one side or of both in the order in which they were sent. It holds
no times. Who sent a line is said by the reader's argument, or guessed by the first of these that tells:

1. a request or notification whose method only one side handles was sent by the other side;
2. a response was sent by the side that was asked under its id, and `$/cancel_request` by the side that asked; where
   both did, the later request counts, and a request whose result type a result does not fit does not count;
3. anything else was sent by whoever sent the line before; at the beginning, the agent.

Say who sent them where a file holds the responses of only one side: rule 2 can take them for answers to that side's own
requests. Both kinds may be compressed, told by the file's ending: `.gz`, or `.zst` where Python (from 3.14) or one of
the packages `backports.zstd` and `zstandard` has zstd.
"""

from __future__ import annotations

import importlib
import io
import os
import stat
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from gzip import BadGzipFile
from itertools import accumulate, chain
from pathlib import Path
from time import time as now
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias

import msgspec
from msgspec import UNSET

from acpwire import v2
from acpwire.wire.errors import DecodeError
from acpwire.wire.frames import (
    PARSE_ERROR,
    ErrorResponse,
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
AnyPath: TypeAlias = "str | os.PathLike[str]"

BLOCK = 65536
WAITING_LIMIT = 10_000
"""How many requests wait for their responses; of more, the oldest are forgotten, and their results stay untyped."""
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
    time: float | None
    """Seconds since the epoch; None in bare captures."""
    sender: Sender | None
    line: bytes
    """The wire's line as it came, without its line feed."""
    message: Message
    result: Any = UNSET
    fault: DecodeError | None = None


class BinaryFile(Protocol):
    """A file opened for reading bytes. `read1`, where it has one, is preferred: it does not wait for a whole block."""

    def read(self, size: int, /) -> bytes | None:
        """At most `size` bytes, none at the end."""
        ...


def read_capture(path_or_file: AnyPath | BinaryFile, sender: Sender | None = None) -> Generator[Record, None, None]:
    """Read a capture, one `Record` a line, in constant memory.

    Takes a path, or a binary file object, which is read as it is (from where it stands, not decompressed) and stays
    open. `sender` says who sent the lines of a bare capture; recordings name their senders themselves. Blank lines are
    left out.

    A path that cannot be opened raises `OSError` at once, `.zst` without a package for it `ImportError`, and reading
    may raise `OSError`; nothing in a capture raises. Requests wait for their responses up to a bound
    (`WAITING_LIMIT`, `ID_LIMIT`). A file that was opened here is closed at the end, or with `.close()`.
    """
    if isinstance(path_or_file, str | os.PathLike):
        codec = _codec_of(path_or_file)
        blocks = _blocks_of_path(path_or_file)
        next(blocks)
    else:
        codec, blocks = None, _blocks_of_file(path_or_file)
    return Reader(blocks, sender, codec).records()


# --- writing ---------------------------------------------------------------------------------------------------------


class _Header(msgspec.Struct, frozen=True):
    format: Literal["acpwire-capture"]
    version: int


class _Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    time: float | None = None
    sender: Sender
    line: str | None = None
    base64: bytes | None = None


_VERSION = 1
_encode = msgspec.json.Encoder().encode
_HEADER = _encode(_Header("acpwire-capture", _VERSION)) + b"\n"


class Recorder:
    """Writes a recording.

        with Recorder("session.ndjson.gz") as recorder:
            recorder.record("agent", line)

    Every line is handed to the operating system before `record` returns, so a crash of this process loses at most the
    line that it was about to write. An existing file is continued, also one that a crash left without its end. Use it
    from one thread at a time. Raises `OSError` where the file cannot be written, and `ImportError` for `.zst` without a
    package for it.
    """

    def __init__(self, path: AnyPath) -> None:
        codec = _codec_of(path)
        cut_off = codec is None and not _ends_with_line(path)
        self._file = Path(path).open("ab")  # noqa: SIM115  # it lives as long as the recorder
        self._packer: _Packer = _Plain() if codec is None else codec.packer()
        self._write(b"\n" + _HEADER if cut_off else _HEADER)

    def record(self, sender: Sender, line: bytes | bytearray | memoryview, time: float | None = None) -> None:
        """Write a line as it is on the wire, with or without its line feed; `time` is now unless given.

        Raises `OSError` where it cannot be written, `ValueError` after `close`.
        """
        if sender not in ("agent", "client"):
            raise ValueError('a sender is "agent" or "client"')
        raw = bytes(line).removesuffix(b"\n")
        when = now() if time is None else float(time)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            entry = _Entry(time=when, sender=sender, base64=raw)
        else:
            entry = _Entry(time=when, sender=sender, line=text)
        self._write(_encode(entry) + b"\n")

    def close(self) -> None:
        """Finish the file. Closing it again does nothing."""
        if not self._file.closed:
            with self._file:
                self._file.write(self._packer.end())

    def _write(self, data: bytes) -> None:
        if self._file.closed:
            raise ValueError("the recorder is closed")
        self._file.write(self._packer.pack(data))
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _ends_with_line(path: AnyPath) -> bool:
    """Whether a file, if there is one, ends with a line feed; what is no regular file has no end."""
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return True
    if not stat.S_ISREG(found.st_mode) or not found.st_size:
        return True
    with Path(path).open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


# --- compression -----------------------------------------------------------------------------------------------------


class _Packer(Protocol):
    """Compresses a stream so that what was given can be read back at any time."""

    def pack(self, data: bytes, /) -> bytes: ...
    def end(self) -> bytes: ...


class _Plain:
    def pack(self, data: bytes) -> bytes:
        return data

    def end(self) -> bytes:
        return b""


class _Flushing:
    """A compressor of any of the libraries, which agree on all but how to flush."""

    def __init__(
        self, compress: Callable[[bytes], bytes], flush: Callable[[], bytes], end: Callable[[], bytes]
    ) -> None:
        self._compress = compress
        self._flush = flush
        self.end = end

    def pack(self, data: bytes) -> bytes:
        return self._compress(data) + self._flush()


class _Unpacker(Protocol):
    """Decompresses one member; what follows its end is in `unused_data`."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class _Cut(NamedTuple):
    """Stands between blocks where the data breaks off: what to say of the place, and of a line that it cuts."""

    reason: str
    inside: str


class _Codec(NamedTuple):
    """A kind of compression."""

    name: str
    magic: bytes
    """How a member begins."""
    error: type[Exception]
    packer: Callable[[], _Packer]
    unpacker: Callable[[], _Unpacker]

    @property
    def damaged(self) -> _Cut:
        return _Cut(f"The {self.name} data is damaged here", f"The {self.name} data is damaged inside this line")

    @property
    def unfinished(self) -> _Cut:
        return _Cut(f"The {self.name} data ends early", f"The {self.name} data ends inside this line")


def _codec_of(path: AnyPath) -> _Codec | None:
    make = {".gz": _gzip, ".zst": _zstd}.get(Path(path).suffix.lower())
    return None if make is None else make()


def _gzip() -> _Codec:
    def packer() -> _Packer:
        machine = zlib.compressobj(wbits=31)
        return _Flushing(machine.compress, lambda: machine.flush(zlib.Z_SYNC_FLUSH), machine.flush)

    return _Codec("gzip", b"\x1f\x8b\x08", zlib.error, packer, lambda: zlib.decompressobj(wbits=31))


_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def _zstd() -> _Codec:
    makers = {"compression.zstd": _zstd_of_python, "backports.zstd": _zstd_of_python, "zstandard": _zstd_of_zstandard}
    for name, make in makers.items():
        try:
            return make(importlib.import_module(name))
        except ImportError:
            continue
    raise ImportError("no zstd here: install the package backports.zstd or zstandard")


def _zstd_of_python(zstd: Any) -> _Codec:  # Any: a module that may be absent, as below
    def packer() -> _Packer:
        machine = zstd.ZstdCompressor()
        return _Flushing(machine.compress, lambda: machine.flush(machine.FLUSH_BLOCK), machine.flush)

    return _Codec("zstd", _ZSTD_MAGIC, zstd.ZstdError, packer, zstd.ZstdDecompressor)


def _zstd_of_zstandard(zstandard: Any) -> _Codec:
    def packer() -> _Packer:
        machine = zstandard.ZstdCompressor().compressobj()
        flush_block = zstandard.COMPRESSOBJ_FLUSH_BLOCK
        return _Flushing(machine.compress, lambda: machine.flush(flush_block), machine.flush)

    def unpacker() -> _Unpacker:
        machine: _Unpacker = zstandard.ZstdDecompressor().decompressobj()
        return machine

    return _Codec("zstd", _ZSTD_MAGIC, zstandard.ZstdError, packer, unpacker)


_Block: TypeAlias = "bytes | _Cut"
_PIECE = 1024
"""How much is decompressed at a time: no more than 32 MiB can come of it, whoever made the file."""


def _unpacked(blocks: Iterable[bytes], codec: _Codec) -> Iterator[_Block]:
    """Decompress members one after the other; after damage, go on with the next member that can be found.

    A member that a crash left without its end is followed directly by the one that the next recorder wrote, so pieces
    are cut where a member may begin: then the piece that does not fit the old member is the whole start of the new one.
    """
    machine: _Unpacker | None = None
    lost = False  # after damage, until a member begins
    for data in _in_pieces(blocks, codec.magic):
        rest = data
        while rest:
            is_fresh = machine is None
            if machine is None:
                rest = rest.lstrip(b"\0")  # members of gzip may be padded
                if not rest or (lost and not rest.startswith(codec.magic)):
                    break
                machine = codec.unpacker()
            try:
                block = machine.decompress(rest)
            except codec.error:
                machine = None
                if not lost:
                    yield codec.damaged
                lost = True
                if is_fresh:
                    break
                continue  # the piece may begin a member
            lost = False
            yield block
            if not machine.eof:
                break
            rest, machine = machine.unused_data, None
    if machine is not None:
        yield codec.unfinished


def _in_pieces(blocks: Iterable[bytes], magic: bytes) -> Iterator[bytes]:
    """The same bytes in small pieces; wherever the magic stands, a piece begins."""
    held = b""
    for block in chain(blocks, [b""]):
        data = held + block
        # the last bytes may be the first of a magic
        keep = next((n for n in range(len(magic) - 1, 0, -1) if block and data.endswith(magic[:n])), 0)
        held = data[len(data) - keep :]
        start, end = 0, len(data) - keep
        while start < end:
            found = data.find(magic, start + 1, start + _PIECE + len(magic) - 1)
            stop = min(found if found > 0 else start + _PIECE, end)
            yield data[start:stop]
            start = stop


def _guarded(blocks: Iterable[bytes]) -> Iterator[_Block]:
    """The same, of a file object that may be one of gzip and find its data broken."""
    try:
        yield from blocks
    except (EOFError, zlib.error, BadGzipFile):
        yield _Cut("The compressed data is damaged or ends early", "The compressed data breaks off inside this line")


# --- reading ---------------------------------------------------------------------------------------------------------


def _blocks_of_path(path: AnyPath) -> Generator[bytes, None, None]:
    """The blocks of a file, after an empty one with which it is open."""
    with Path(path).open("rb", buffering=0) as file:
        yield b""
        yield from _blocks_of_file(file)


def _blocks_of_file(file: BinaryFile) -> Generator[bytes, None, None]:
    read: Callable[[int], Any] = getattr(file, "read1", file.read)
    while block := read(BLOCK):
        if not isinstance(block, bytes):
            raise TypeError("a capture is read from a binary file")
        yield block
    if block is None or not _waits(file):  # a buffered file that has no data yet looks like one that has ended
        raise BlockingIOError("a capture cannot be read from a file that does not wait for its data")


def _waits(file: Any) -> bool:
    try:
        return os.get_blocking(file.fileno())
    except (AttributeError, OSError):  # it is none of the operating system's
        return True


_WHITE = b" \t\r\n"
_NO_CUT = _Cut("", "")
_END = _Cut("", "The file ends inside this line")
_Run: TypeAlias = "tuple[Iterator[tuple[int, bytes]], _Cut | None]"

_DECODE: dict[Sender, Callable[[bytes], Message]] = {"agent": v2.decode_from_agent, "client": v2.decode_from_client}
_NO_JSON = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_read_entry = msgspec.json.Decoder(_Entry).decode
_read_header = msgspec.json.Decoder(_Header).decode


class Reader:
    """What `read_capture` is made of, with counts: use that, unless you need them."""

    def __init__(self, blocks: Iterable[bytes], sender: Sender | None, codec: _Codec | None) -> None:
        if sender not in (None, *_OTHER):
            raise ValueError('a sender is "agent", "client" or None')
        self._blocks = _guarded(blocks) if codec is None else _unpacked(blocks, codec)
        self._sender: Sender | None = sender
        self._peers = _Peers()
        self._line_start = 0
        self._is_recording: bool | None = None  # None: no line so far was a message or of a recording
        self.skipped = 0
        """Lines so far that gave no record: blank ones, and those that name the format."""
        self.wire_bytes = 0
        """Bytes so far of the wire's lines, their line feeds included; in bare captures it runs ahead by a block."""

    @classmethod
    def of_file(cls, file: BinaryFile, name: AnyPath, sender: Sender | None) -> Reader:
        """Read a file object as if it were the file `name`, decompressing by its ending."""
        return cls(_blocks_of_file(file), sender, _codec_of(name))

    def records(self) -> Generator[Record, None, None]:
        """The records, once."""
        sender = self._sender
        decode = _DECODE[sender or "agent"]
        peers = self._peers
        update = v2.SESSION_UPDATE.name
        for run, cut in self._runs():
            if cut is not None:
                yield from self._cut_off(run, cut)
                continue
            if self._is_recording is None:
                yield from self._until_decided(run)
            if self._is_recording:
                for offset, ended in run:
                    record = self._of_entry(offset, ended[:-1])
                    if record is not None:
                        yield record
            elif sender is not None:
                for offset, ended in run:
                    line = ended[:-1]
                    message = decode(line)
                    if type(message) is Notification:
                        yield Record(offset, None, sender, line, message)
                    else:
                        yield self._of_message(offset, line, message)
            else:
                for offset, ended in run:
                    line = ended[:-1]
                    message = decode(line)
                    if type(message) is Notification and message.method == update:
                        peers.current = "agent"
                        yield Record(offset, None, "agent", line, message)
                    else:
                        yield self._of_message(offset, line, message)

    # --- lines

    def _runs(self) -> Iterator[_Run]:
        """Lines that follow each other, each with its offset and its line feed.

        Where there is a cut, it is behind the line that has no line feed, if there is one.
        """
        lines_of = LineBuffer(DEFAULT_LIMIT)
        limit = DEFAULT_LIMIT
        position = 0
        for block in chain(self._blocks, [_END]):
            if isinstance(block, _Cut):
                yield iter([(self._line_start, line) for line in lines_of.flush()]), block
                self._line_start = position
                continue
            if self._is_recording and limit == DEFAULT_LIMIT:
                limit *= 6  # no byte of a line takes more in JSON
                begun, lines_of = lines_of.flush(), LineBuffer(limit)
                lines_of.feed(b"".join(begun))
            lines = lines_of.feed(block)
            end = position + block.rfind(b"\n") + 1
            if end > position:
                offsets = list(accumulate(map(len, lines), initial=self._line_start))
                if not self._is_recording:
                    self.wire_bytes = end
                if offsets[-1] == end:
                    yield zip(offsets, lines), None  # noqa: B905  # the last offset is the end
                else:
                    yield from self._one_by_one(lines, block[: end - position], position)
                self._line_start = end
            position += len(block)
        if not self._is_recording:
            self.wire_bytes = position

    def _one_by_one(self, lines: list[bytes], block: bytes, position: int) -> Iterator[_Run]:
        """The lines of a block that are not all of its bytes: some were blank, or the first was over the limit."""
        pieces = io.BytesIO(block).readlines()
        kept = [piece.strip(_WHITE) != b"" for piece in pieces]
        kept[0] = len(lines) > sum(kept[1:])  # it may have begun in an earlier block
        left = iter(lines)
        start = self._line_start
        for piece, is_kept in zip(pieces, kept, strict=True):
            position += len(piece)
            if is_kept:
                line = next(left)
                yield iter([(start, line)]), _NO_CUT if isinstance(line, OversizedLine) else None
            else:
                self.skipped += 1
            start = position

    # --- records

    def _until_decided(self, run: Iterator[tuple[int, bytes]]) -> Iterator[Record]:
        """The first records: up to the line that shows whether this is a recording, as its first may be damaged."""
        for offset, ended in run:
            record = self._of_line(offset, ended[:-1])
            if record is not None:
                yield record
            if self._is_recording is not None:
                return

    def _of_line(self, offset: int, line: bytes, cut: _Cut | None = None) -> Record | None:
        """The record of any line; None for one that names the format."""
        if self._is_recording:
            return self._of_entry(offset, line, cut)
        message = _DECODE[self._sender or "agent"](line)
        if not isinstance(message, Malformed):
            self._is_recording = False
        elif self._is_recording is None and _is_of_recording(line):
            self._is_recording = True
            self.wire_bytes = offset
            return self._of_entry(offset, line, cut)
        elif cut is not None and message.code == PARSE_ERROR and not isinstance(line, OversizedLine):
            message = msgspec.structs.replace(message, message=cut.inside)
        return self._of_message(offset, line, message)

    def _of_message(self, offset: int, line: bytes, message: Message) -> Record:
        """The record of a bare line, as read from the sender that was given, or from the agent."""
        sender = self._sender or self._peers.guess(message)
        if sender != (self._sender or "agent"):
            message = _DECODE[sender](line)
        return Record(offset, None, sender, line, message, *self._peers.heard(sender, message))

    def _of_entry(self, offset: int, line: bytes, cut: _Cut | None = None) -> Record | None:
        """The record that a line of a recording stands for; None for one that names the format."""
        try:
            entry = _read_entry(line)
        except _NO_JSON as error:
            return self._of_format_line(offset, line, error, cut)
        if (entry.line is None) == (entry.base64 is None):
            return _foreign(offset, line, "No record: Expected either `line` or `base64`")
        raw = entry.line.encode() if entry.line is not None else entry.base64 or b""
        self.wire_bytes += len(raw) + 1
        message = _DECODE[entry.sender](raw)
        return Record(offset, entry.time, entry.sender, raw, message, *self._peers.heard(entry.sender, message))

    def _of_format_line(self, offset: int, line: bytes, error: Exception, cut: _Cut | None) -> Record | None:
        try:
            version = _read_header(line).version
        except msgspec.ValidationError:
            fault = fault_of(error)
            return _foreign(offset, line, f"No record: {fault.message}", fault.path)
        except _NO_JSON as worse:
            return _foreign(offset, line, cut.inside if cut else f"No record: {fault_of(worse).message}")
        if version != _VERSION:
            return _foreign(offset, line, f"Expected version {_VERSION} of the format", "$.version")
        self.skipped += 1
        self._peers = _Peers()
        return None

    def _cut_off(self, run: Iterator[tuple[int, bytes]], cut: _Cut) -> Iterator[Record]:
        """The line that has no end, if there is one, and what cut it off, unless that is already said of the line."""
        said = False
        for offset, line in run:
            record = self._of_line(offset, line, cut)
            if record is not None:
                said = isinstance(record.message, Malformed) and record.message.message == cut.inside
                yield record
        if cut.reason and not said:
            yield _foreign(self._line_start, b"", cut.reason)


def _foreign(offset: int, line: bytes, message: str, path: str = "$") -> Record:
    return Record(offset, None, None, line, Malformed(line, None, path=path, message=message))


def _is_of_recording(line: bytes) -> bool:
    for read in (_read_header, _read_entry):
        with suppress(*_NO_JSON):
            read(line)
            return True
    return False


# --- who sent it, and what it answers --------------------------------------------------------------------------------

_OTHER: dict[Sender, Sender] = {"agent": "client", "client": "agent"}


def _sent_by(sender: Sender) -> dict[str, Method[Any, Any]]:
    """The requests that a side may send."""
    sides: tuple[Side, ...] = (_OTHER[sender], "protocol", "proxy")
    found: dict[str, Method[Any, Any]] = {}
    for side in sides:
        for (name, other, kind), method in v2.METHODS.items():
            if other == side and kind == "request":
                found.setdefault(name, method)
    return found


def _only_senders() -> dict[tuple[str, bool], Sender]:
    """(method, whether it is a request) -> the only side that sends it."""
    senders: dict[tuple[str, bool], set[Sender]] = {}
    for name, side, kind in v2.METHODS:
        sent: set[Sender] = {_OTHER[side]} if side in ("agent", "client") else {"agent", "client"}
        senders.setdefault((name, kind == "request"), set()).update(sent)
    return {key: sent.pop() for key, sent in senders.items() if len(sent) == 1}


_REQUESTS: dict[Sender, dict[str, Method[Any, Any]]] = {"agent": _sent_by("agent"), "client": _sent_by("client")}
_ONLY_SENDERS = _only_senders()
_Answer: TypeAlias = "tuple[Any, DecodeError | None]"
_NO_ANSWER: _Answer = (UNSET, None)
_Waiting: TypeAlias = "tuple[int, Method[Any, Any] | None]"  # the how-manieth it is, and what it asks for
_ASKING = (Request, Malformed)  # tuples, as a union is made anew wherever it is written
_ANSWERING = (Response, ErrorResponse)


class _Peers:
    """The requests that wait for their responses, and who spoke last."""

    def __init__(self) -> None:
        self.current: Sender = "agent"
        self._waiting: dict[tuple[Sender, RequestId], _Waiting] = {}
        self._asked = 0

    def heard(self, sender: Sender, message: Message) -> _Answer:
        """Take note of a message; of a response that answers a request, the typed result, or what is wrong with it."""
        if isinstance(message, _ASKING):
            if message.id is not None and message.method is not None:
                self._ask(sender, message.id, message.method)
            return _NO_ANSWER
        if not isinstance(message, _ANSWERING) or message.id is None:
            return _NO_ANSWER
        _, method = self._waiting.pop((_OTHER[sender], message.id), (0, None))
        if method is None or isinstance(message, ErrorResponse):
            return _NO_ANSWER
        try:
            return method.decode_result(message.result), None
        except DecodeError as error:  # raised again it would hold this frame: a new one holds nothing
            return UNSET, DecodeError(error.message, f"$.result{error.path[1:]}")

    def _ask(self, sender: Sender, request_id: RequestId, method: str) -> None:
        key = (sender, request_id)
        self._waiting.pop(key, None)  # so that the newest stands last
        if isinstance(request_id, str) and len(request_id) > ID_LIMIT:
            return
        self._asked += 1
        self._waiting[key] = (self._asked, _REQUESTS[sender].get(method))
        if len(self._waiting) > WAITING_LIMIT:
            del self._waiting[next(iter(self._waiting))]

    def guess(self, message: Message) -> Sender:
        """Who sent a message of a bare capture, by the rule in the module's docstring."""
        found: Sender | None = None
        if isinstance(message, Malformed):
            found = _ONLY_SENDERS.get((message.method or "", message.code is not None))
        elif isinstance(message, _ANSWERING):
            result = message.result if isinstance(message, Response) else None
            for asker, method in [] if message.id is None else self._askers(message.id):
                if result is None or method is None or _fits(method, result):
                    found = _OTHER[asker]
                    break
        elif isinstance(message.params, v2.CancelRequestNotification):
            for asker, _ in self._askers(message.params.request_id)[:1]:
                found = asker
        else:
            found = _ONLY_SENDERS.get((message.method, isinstance(message, Request)))
        if found is not None:
            self.current = found
        return self.current

    def _askers(self, request_id: RequestId) -> list[tuple[Sender, Method[Any, Any] | None]]:
        """Who waits under an id, and for what; the later request first."""
        found: list[tuple[Sender, _Waiting]] = [
            (side, self._waiting[side, request_id]) for side in _OTHER if (side, request_id) in self._waiting
        ]
        found.sort(key=lambda one: one[1][0], reverse=True)
        return [(asker, method) for asker, (_, method) in found]


def _fits(method: Method[Any, Any], result: Any) -> bool:
    try:
        method.decode_result(result)
    except DecodeError:
        return False
    return True
