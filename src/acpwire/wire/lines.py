"""Cuts a byte stream into lines, and scans a line for where it belongs without decoding it.

Owns: `LineBuffer`, `OversizedLine`, `route`. Does not know: types, methods, or what a line means.
"""

from __future__ import annotations

import codecs
import io
import json
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from . import surrogates

DEFAULT_LIMIT = 64 * 1024 * 1024
_WHITE = b" \t\r\n"
_KEPT = 1024
"""How much of an oversized line is kept, to tell what it was."""
_MANY = 1024
"""After how many pieces of a line they become one."""


class OversizedLine(bytes):
    """The beginning of a line that was longer than allowed; the rest was dropped. Decodes to a `Malformed`."""

    size: int
    """Bytes of the whole line, without its line feed."""
    limit: int

    @classmethod
    def of(cls, start: bytes, size: int, limit: int) -> OversizedLine:
        """The mark for a line of `size` bytes that begins with `start`; what is kept is never a message."""
        kept = start[:_KEPT].rstrip(_WHITE)[:-1]
        line = cls(b"" if _is_json(kept) else kept)
        line.size, line.limit = size, limit
        return line

    def members(self) -> dict[str, Any]:
        """What can be told of the members of the message: of the last that is begun, only that it is there (None)."""
        found: dict[str, Any] = {}
        try:
            text = codecs.getincrementaldecoder("utf-8")().decode(self).removeprefix("\ufeff").lstrip()
        except UnicodeDecodeError:
            return found
        at, before = 0, "{"
        while text[at : at + 1] == before:
            try:
                name, at = _value(text, at + 1)
                if type(name) is not str or text[at : at + 1] != ":":
                    break
                found[name] = None
                value, at = _value(text, at + 1)
            except (ValueError, RecursionError):
                break
            if at < len(text):  # else it may go on
                found[name] = value
            before = ","
        return found


def _value(text: str, at: int) -> tuple[Any, int]:
    """The JSON that begins there, and where what follows it begins. Raises `ValueError`."""
    value, end = _scan_json(text, at + len(text[at:]) - len(text[at:].lstrip()))
    return value, end + len(text[end:]) - len(text[end:].lstrip())


_scan_json = json.JSONDecoder().raw_decode


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


class LineBuffer:
    """Cuts blocks of bytes into lines, wherever the blocks themselves were cut (TR-05, S-SP-01).

    Only LF ends a line. Lines come with their line feed, which JSON ignores and forwarding needs; blank ones are left
    out. A line of more than `limit` bytes comes as an `OversizedLine` in its place, and is not kept while it is read.
    """

    __slots__ = ("_limit", "_long", "_parts", "_size")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        if limit < 1:
            raise ValueError(f"the limit of a line must be positive, not {limit}")
        self._limit = limit
        self._parts: list[bytes] = []
        self._long = bytearray()  # what goes before these, once they were many: an object a piece would be much
        self._size = 0  # of the line that has not ended, dropped bytes included

    def feed(self, block: bytes) -> list[bytes]:
        """Take the next block and return the lines that end in it, in order."""
        lines = [*io.BytesIO(block)]
        tail = lines.pop() if lines and lines[-1][-1] != 10 else b""
        first = self._joined(lines[0]) if lines and self._size else None
        if tail:
            self._hold(tail)
        if len(block) > self._limit:
            lines = [self._checked(line, len(line) - 1) for line in lines]
        if first is not None:
            lines[0] = first
        if lines and min(lines)[:1] <= b" ":  # only what begins with white space can be blank
            lines = [line for line in lines if line.strip(_WHITE) or type(line) is OversizedLine]
        return lines

    def flush(self) -> list[bytes]:
        """The last line, where the stream ended without a line feed (S-SP-02); none otherwise."""
        line = self._joined(b"") if self._size else b""
        return [line] if line.strip(_WHITE) or type(line) is OversizedLine else []

    def _hold(self, piece: bytes) -> None:
        """Keep a piece of a line that goes on; of one that is too long already, only the beginning."""
        self._size += len(piece)
        self._parts.append(piece)
        if len(self._parts) == _MANY:
            self._long += b"".join(self._parts)
            self._parts.clear()
        if self._size > self._limit:
            self._parts = [b"".join([self._long[:_KEPT], *(part[:_KEPT] for part in self._parts[:_KEPT])])[:_KEPT]]
            self._long.clear()

    def _joined(self, piece: bytes) -> bytes:
        """The whole of the line that `piece` ends."""
        line = b"".join([self._long, *self._parts, piece])
        size = self._size + len(piece) - piece.endswith(b"\n")
        self._parts, self._size = [], 0
        self._long.clear()
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
    id: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | str | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: _Params = msgspec.field(default_factory=lambda: _NO_PARAMS)
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_MALFORMED = Route("malformed")
_NO_JSON = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_BOM = b"\xef\xbb\xbf"
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
    except _NO_JSON:
        return _hidden(line)
    request_id, params, update = found.id, found.params, found.params.update
    if found.method is msgspec.UNSET:
        return _MALFORMED if request_id is msgspec.UNSET else _response(request_id, found.result, found.error)
    if request_id is msgspec.UNSET:
        return Route("notification", None, found.method, params.session_id, update.tag)
    return Route("request", request_id, found.method, params.session_id, update.tag)


def _response(request_id: int | str | None, result: msgspec.Raw, error: msgspec.Raw) -> Route:
    has_error, has_result = bool(bytes(error)), bool(bytes(result))
    if has_error and not has_result:
        return Route("error", request_id)
    return Route("response", request_id) if has_result and not has_error and request_id is not None else _MALFORMED


def _hidden(line: bytes) -> Route:
    """What is no JSON for msgspec, but may be behind a byte order mark, or because of lone surrogates."""
    if line.startswith(_BOM):
        return _MALFORMED if line.startswith(_BOM * 2) else route(line[len(_BOM) :])
    hidden = surrogates.hide(line)
    if hidden is None:
        return _MALFORMED
    found: Route = hidden.restore(route(hidden.text))
    return found


def _carefully(line: bytes) -> Route:
    """The same one member at a time, where one is not of its type."""
    try:
        members: dict[str, msgspec.Raw] = _members(line)
        request_id = _or_none(int | str, members.get("id"))
        if isinstance(request_id, int) and not -(2**63) <= request_id < 2**63:
            request_id = None
        if "method" not in members:
            if request_id is None and ("error" not in members or bytes(members.get("id", b"")) != b"null"):
                return _MALFORMED
            return _response(request_id, members.get("result", msgspec.Raw()), members.get("error", msgspec.Raw()))
        method = _or_none(str, members["method"])
        if method is None or ("id" in members and request_id is None):
            return _MALFORMED
        params: dict[str, msgspec.Raw] = _or_none(dict[str, msgspec.Raw], members.get("params")) or {}
        update: dict[str, msgspec.Raw] = _or_none(dict[str, msgspec.Raw], params.get("update")) or {}
        session_id, tag = _or_none(str, params.get("sessionId")), _or_none(str, update.get("sessionUpdate"))
    except msgspec.ValidationError:
        return _MALFORMED
    except _NO_JSON:
        return _hidden(line)
    return Route("request" if "id" in members else "notification", request_id, method, session_id, tag)


def _or_none(tp: Any, raw: msgspec.Raw | None) -> Any:
    try:
        return None if raw is None else msgspec.json.decode(raw, type=tp)
    except msgspec.ValidationError:
        return None
