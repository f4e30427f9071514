"""Cuts a byte stream into lines, and scans a line for where it belongs without decoding it.

Owns: `LineBuffer`, `OversizedLine`, `route`. Does not know: types, methods, or what a line means.
"""

from __future__ import annotations

import io
from typing import Any, Literal, NamedTuple

import msgspec

DEFAULT_LIMIT = 64 * 1024 * 1024
_KEPT = 1024
"""How much of an oversized line is kept, to tell what it was."""


class OversizedLine(bytes):
    """The beginning of a line that was longer than allowed; the rest was dropped. Decodes to a `Malformed`."""

    size: int
    """Bytes of the whole line, without its line feed."""
    limit: int

    @classmethod
    def of(cls, start: bytes, size: int, limit: int) -> OversizedLine:
        """The mark for a line of `size` bytes that begins with `start`."""
        line = cls(start[:_KEPT])
        line.size, line.limit = size, limit
        return line


class LineBuffer:
    """Cuts blocks of bytes into lines, wherever the blocks themselves were cut (TR-05, S-SP-01).

    Only LF ends a line. Lines come with their line feed, which JSON ignores and forwarding needs; empty ones are left
    out. A line of more than `limit` bytes comes as an `OversizedLine` in its place, and is not kept while it is read.
    """

    __slots__ = ("_limit", "_parts", "_size")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        if limit < 1:
            raise ValueError(f"the limit of a line must be positive, not {limit}")
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0  # of the line that has not ended, dropped bytes included

    def feed(self, block: bytes) -> list[bytes]:
        """Take the next block and return the lines that end in it, in order."""
        lines = io.BytesIO(block).readlines()
        tail = lines.pop() if lines and lines[-1][-1] != 10 else b""
        if len(block) > self._limit:
            lines = [self._checked(line, len(line) - 1) for line in lines]
        if lines and self._size:
            lines[0] = self._joined(lines[0])
        if tail:
            self._hold(tail)
        if b"\n" in lines or b"\r" in block:
            lines = [line for line in lines if line not in (b"\n", b"\r\n")]
        return lines

    def flush(self) -> list[bytes]:
        """The last line, where the stream ended without a line feed (S-SP-02); none otherwise."""
        return [self._joined(b"")] if self._size else []

    def _hold(self, piece: bytes) -> None:
        """Keep a piece of a line that goes on; of one that is too long already, only the beginning."""
        fits = self._size <= self._limit
        self._size += len(piece)
        if self._size <= self._limit:
            self._parts.append(piece)
        elif fits:
            self._parts = [b"".join([*self._parts, piece[:_KEPT]])[:_KEPT]]

    def _joined(self, piece: bytes) -> bytes:
        """The whole of the line that `piece` ends."""
        line = b"".join([*self._parts, piece])
        size = self._size + len(piece) - piece.endswith(b"\n")
        self._parts, self._size = [], 0
        return self._checked(line, size)

    def _checked(self, line: bytes, size: int) -> bytes:
        return OversizedLine.of(line, size, self._limit) if size > self._limit else line


class Route(NamedTuple):
    """Where a line belongs, as far as a scan tells; None for what is not there or not of its type."""

    kind: Literal["request", "notification", "response", "error", "malformed"]
    id: int | str | None = None
    method: str | None = None
    session_id: str | None = None
    tag: str | None = None
    """The variant of a `session/update`."""


class _Update(msgspec.Struct, gc=False):
    tag: str | None = msgspec.field(name="sessionUpdate", default=None)


class _Params(msgspec.Struct, gc=False):
    session_id: str | None = msgspec.field(name="sessionId", default=None)
    update: _Update | None = None


class _Scan(msgspec.Struct, gc=False):
    id: int | str | None = None
    method: str | None = None
    params: _Params | None = None
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_NOTHING = _Params()
_scan = msgspec.json.Decoder(_Scan).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def route(line: bytes) -> Route:
    """Scan a line for where it belongs; nothing is decoded and nothing is checked beyond what is returned."""
    found: _Scan | None
    try:
        found = _scan(line)
    except msgspec.ValidationError:
        found = _carefully(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return Route("malformed")
    if found is None:
        return Route("malformed")
    if found.method is None:
        if bytes(found.error):
            return Route("error", found.id)
        return Route("response" if bytes(found.result) else "malformed", found.id)
    params = found.params or _NOTHING
    tag = params.update.tag if params.update is not None else None
    return Route("notification" if found.id is None else "request", found.id, found.method, params.session_id, tag)


def _carefully(line: bytes) -> _Scan | None:
    """The same one member at a time, where one is not of its type."""
    try:
        members: dict[str, msgspec.Raw] = _members(line)
    except msgspec.ValidationError:
        return None
    params = _object(members.get("params"))
    update = _object(params.get("update"))
    return _Scan(
        id=_as(int | str, members.get("id")),
        method=_as(str, members.get("method")),
        params=_Params(_as(str, params.get("sessionId")), _Update(_as(str, update.get("sessionUpdate")))),
        result=members.get("result", msgspec.Raw()),
        error=members.get("error", msgspec.Raw()),
    )


def _object(raw: msgspec.Raw | None) -> dict[str, msgspec.Raw]:
    return _as(dict[str, msgspec.Raw], raw) or {}


def _as(tp: Any, raw: msgspec.Raw | None) -> Any:
    try:
        return msgspec.json.decode(raw, type=tp) if raw is not None else None
    except msgspec.ValidationError:
        return None
