r"""Lone surrogate escapes: JSON lets `"\ud83d"` pass, msgspec does not, and streaming JavaScript peers send them.

Owns: hiding the halves so that a text decodes, putting them back afterwards, and replacing those in our own strings
before they are encoded. Does not know: which types there are, or what a line means.

A half is hidden by an escape of the same length for a character that the text does not hold, one for each spelling of
a half, so everything else keeps its place and its bytes.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from .values import OpenObject, UnknownVariant, encode_hook

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_ANY_ESCAPE = re.compile(rb"\\u([0-9a-fA-F]{4})")
_HALF = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_STANDINS = (*range(0xE000, 0xF900), *range(0x100, 0xD800), *range(0xF900, 0x10000))
"""Characters to hide halves with: private ones first, then whatever else the text does not use."""


class Hidden:
    """A JSON text without lone halves, and the way back."""

    def __init__(self, text: bytes, spellings: dict[bytes, int]) -> None:
        self.text = text
        self._back = {b"%04x" % code: spelling for spelling, code in spellings.items()}
        table = {code: chr(int(spelling[2:].decode(), base=16)) for spelling, code in spellings.items()}
        self._characters = str.maketrans(table)

    def restore(self, value: Any) -> Any:
        """Put the halves back into a value that was decoded from `text` and that nobody else holds yet."""
        return _Rebuilding(lambda text: text.translate(self._characters), self.restore_bytes).of(value)

    def restore_bytes(self, text: bytes) -> bytes:
        """Put the halves back into JSON."""
        return _ANY_ESCAPE.sub(lambda escape: self._back.get(escape[1], escape[0]), text)


def hide(text: bytes) -> Hidden | None:
    """Hide the lone halves of a JSON text; None where it has none."""
    halves = {b"\\" + match[1] for match in _ESCAPE.finditer(text) if match[1]}
    if not halves:
        return None
    used = {int(code, base=16) for code in _ANY_ESCAPE.findall(text)} | set(map(ord, text.decode(errors="replace")))
    spellings = dict(zip(sorted(halves), (code for code in _STANDINS if code not in used), strict=False))
    if len(spellings) < len(halves):
        return None

    def hidden(match: re.Match[bytes]) -> bytes:
        return b"\\u%04x" % spellings[b"\\" + match[1]] if match[1] else match[0]

    return Hidden(_ESCAPE.sub(hidden, text), spellings)


def joined(text: str) -> str:
    """Halves that have become neighbours, as when two chunks are joined, become the character they are."""
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)


_encoder = msgspec.json.Encoder(enc_hook=encode_hook)


def encode(value: Any) -> bytes:
    """JSON of a value; a lone half in a string becomes U+FFFD. Raises what msgspec raises, for anything else."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(replace(value))


def encode_escaped(value: Any) -> bytes:
    """JSON of a value; a lone half stays what it is, as an escape, for what is read again by ourselves."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        pass
    halves: set[str] = set()

    def noted(text: str) -> str:
        halves.update(_HALF.findall(joined(text)))
        return _HALF.sub("\ufffd", joined(text))

    used = set(_encoder.encode(_Rebuilding(noted, lambda raw: raw).of(value)).decode())
    free = (chr(code) for code in _STANDINS if chr(code) not in used)
    standins = dict(zip(sorted(halves), free, strict=False))
    table = str.maketrans(standins)
    text = _encoder.encode(_Rebuilding(lambda text: joined(text).translate(table), lambda raw: raw).of(value)).decode()
    for half, standin in standins.items():
        text = text.replace(standin, f"\\u{ord(half):04x}")
    return text.encode()


def replace(value: Any) -> Any:
    """A copy of a value in which every lone half is U+FFFD, as UTF-8 has no form for one."""
    return _Rebuilding(lambda text: _HALF.sub("\ufffd", joined(text)), lambda raw: raw).of(value)


_Unfilled: TypeAlias = tuple[dict[Any, Any] | list[Any] | None, Iterable[Any]]
"""An empty dict or list and what is to be in it; None: all of that is filled."""


class _Rebuilding:
    """Makes a value anew with all its strings, and the JSON that it holds, replaced."""

    def __init__(self, text: Callable[[str], str], raw: Callable[[bytes], bytes]) -> None:
        self._text = text
        self._raw = raw

    def of(self, value: Any) -> Any:
        """The value made anew. Raises `RecursionError` for one that holds itself.

        JSON may be nested as deep as msgspec lets it, which since Python 3.12 is deeper than Python's own calls may be,
        so it is walked without recursion; structs and dataclasses are nested no deeper than their types are.
        """
        made: list[Any] = []
        todo: list[_Unfilled] = [(made, (value,))]
        holders: set[int] = set()  # of what is being filled
        while todo:
            into, held = todo.pop()
            if into is None:
                holders.remove(id(held))
                continue
            if id(held) in holders:
                raise RecursionError("the value holds itself")
            holders.add(id(held))
            todo.append((None, held))
            if isinstance(into, dict):
                for key, item in cast("Mapping[Any, Any]", held).items():
                    into[self._text(key) if isinstance(key, str) else key] = self._twin(item, todo)
            else:
                into.extend([self._twin(item, todo) for item in held])
        return made[0]

    def _twin(self, value: Any, todo: list[_Unfilled]) -> Any:
        """What stands for a value; a dict or list is empty, and is noted to be filled."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, msgspec.Struct):
            made = copy.copy(value)
            for name in value.__struct_fields__:
                msgspec.structs.force_setattr(made, name, self.of(getattr(value, name)))
            return made
        if isinstance(value, Mapping):
            members: dict[Any, Any] = value.with_members({}) if isinstance(value, OpenObject) else {}
            todo.append((members, cast("dict[Any, Any]", value)))
            return members
        if isinstance(value, list | tuple | set | frozenset):
            todo.append(([], cast("Iterable[Any]", value)))
            return todo[-1][0]
        if isinstance(value, UnknownVariant):
            return UnknownVariant(self._text(value.tag), self._raw(value.raw))
        if isinstance(value, msgspec.Raw):
            return msgspec.Raw(self._raw(bytes(value)))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: self.of(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return value
