"""Cuts a byte stream into lines, and scans a line for where it belongs without decoding it.

Owns: `LineBuffer`, `OversizedLine`, `route`. Does not know: types, methods, or what a line means.
"""

from __future__ import annotations

import io
from typing import Any, Literal, TypeAlias

import msgspec

from . import surrogates

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


RouteKind: TypeAlias = Literal["request", "notification", "response", "error", "malformed"]


class Route(msgspec.Struct, frozen=True, gc=False):
    """Where a line belongs, as far as a scan tells; None for what is not there or not of its type."""

    kind: RouteKind
    id: int | str | None = None
    method: str | None = None
    session_id: str | None = None
    tag: str | None = None
    """The variant of a `session/update`."""


class _Update(msgspec.Struct, gc=False):
    tag: str | None = msgspec.field(name="sessionUpdate", default=None)


_NO_UPDATE = _Update()


class _Params(msgspec.Struct, gc=False):
    session_id: str | None = msgspec.field(name="sessionId", default=None)
    update: _Update = msgspec.field(default_factory=lambda: _NO_UPDATE)


_NO_PARAMS = _Params()


class _Scan(msgspec.Struct, gc=False):
    id: int | str | msgspec.UnsetType = msgspec.UNSET
    method: str | None = None
    params: _Params = msgspec.field(default_factory=lambda: _NO_PARAMS)
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_MALFORMED = Route("malformed")
_scan = msgspec.json.Decoder(_Scan).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def route(line: bytes) -> Route:
    """Scan a line for where it belongs; nothing is decoded and nothing is checked beyond what is returned.

    A line that no peer could answer or match (no object, no id where one must be) is "malformed".
    """
    try:
        found = _scan(line)
    except msgspec.ValidationError:
        return _carefully(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        hidden = surrogates.hide(line)
        found_hidden: Route = _MALFORMED if hidden is None else hidden.restore(route(hidden.text))
        return found_hidden
    request_id, params, update = found.id, found.params, found.params.update
    if found.method is None:
        return _response(None if request_id is msgspec.UNSET else request_id, found.result, found.error)
    if request_id is msgspec.UNSET:
        return Route("notification", None, found.method, params.session_id, update.tag)
    return Route("request", request_id, found.method, params.session_id, update.tag)


def _response(request_id: int | str | None, result: msgspec.Raw, error: msgspec.Raw) -> Route:
    if bytes(error):
        return Route("error", request_id)
    return Route("response", request_id) if bytes(result) and request_id is not None else _MALFORMED


def _carefully(line: bytes) -> Route:
    """The same one member at a time, where one is not of its type."""
    members = _object(line)
    request_id = _or_none(int | str, members.get("id"))
    if "method" not in members:
        return _response(request_id, members.get("result", msgspec.Raw()), members.get("error", msgspec.Raw()))
    method = _or_none(str, members["method"])
    if method is None or ("id" in members and request_id is None):
        return _MALFORMED
    params = _object(members.get("params"))
    tag = _or_none(str, _object(params.get("update")).get("sessionUpdate"))
    kind: RouteKind = "request" if "id" in members else "notification"
    return Route(kind, request_id, method, _or_none(str, params.get("sessionId")), tag)


def _object(raw: bytes | msgspec.Raw | None) -> dict[str, msgspec.Raw]:
    try:
        return {} if raw is None else _members(raw)
    except msgspec.ValidationError:
        return {}


def _or_none(tp: Any, raw: msgspec.Raw | None) -> Any:
    try:
        return None if raw is None else msgspec.json.decode(raw, type=tp)
    except msgspec.ValidationError:
        return None
