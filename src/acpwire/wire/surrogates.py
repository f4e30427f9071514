r"""Lone surrogate escapes: JSON lets `"\ud83d"` pass, msgspec does not, and streaming JavaScript peers send them.

Owns: hiding the halves so that a text decodes, putting them back afterwards, and replacing those in our own strings
before they are encoded. Does not know: which types there are, or what a line means.

A half is hidden by an escape of the same length for a character that the text does not hold, one for each spelling of
a half, so everything else keeps its place and its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from .values import OpenObject, UnknownVariant, encode_hook

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_HALF = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_PRIVATE = range(0xE000, 0xF900)


class Hidden:
    """A JSON text without lone halves, and the way back."""

    def __init__(self, text: bytes, spellings: dict[bytes, int]) -> None:
        self.text = text
        self._spellings = spellings
        table = {code: chr(int(spelling[2:].decode(), base=16)) for spelling, code in spellings.items()}
        self._characters = str.maketrans(table)

    def restore(self, value: Any) -> Any:
        """Put the halves back into a value that was decoded from `text` and that nobody else holds yet."""
        return _rebuilt(value, lambda text: text.translate(self._characters), self.restore_bytes)

    def restore_bytes(self, text: bytes) -> bytes:
        """Put the halves back into JSON."""
        for spelling, code in self._spellings.items():
            text = text.replace(b"\\u%04x" % code, spelling)
        return text


def hide(text: bytes) -> Hidden | None:
    """Hide the lone halves of a JSON text; None where it has none, or no character is left to hide them with."""
    halves = {b"\\" + match[1] for match in _ESCAPE.finditer(text) if match[1]}
    if not halves:
        return None
    lower = text.lower()
    free = (code for code in _PRIVATE if chr(code).encode() not in text and b"\\u%04x" % code not in lower)
    spellings = dict(zip(sorted(halves), free, strict=False))
    if len(spellings) < len(halves):
        return None

    def replaced(match: re.Match[bytes]) -> bytes:
        return b"\\u%04x" % spellings[b"\\" + match[1]] if match[1] else match[0]

    return Hidden(_ESCAPE.sub(replaced, text), spellings)


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


def replace(value: Any) -> Any:
    """A copy of a value in which every lone half is U+FFFD, as UTF-8 has no form for one."""
    return _rebuilt(value, lambda text: _HALF.sub("\ufffd", joined(text)), lambda raw: raw)


def _rebuilt(value: Any, text: Callable[[str], str], raw: Callable[[bytes], bytes]) -> Any:
    """A value with all its strings, and the JSON it holds, replaced; what has none stays the object it is."""

    def again(child: Any) -> Any:
        return _rebuilt(child, text, raw)

    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [again(item) for item in cast("Iterable[Any]", value)]
    if isinstance(value, dict):
        members = {text(key): again(item) for key, item in cast("dict[str, Any]", value).items()}
        return value.with_members(members) if isinstance(value, OpenObject) else members
    if isinstance(value, UnknownVariant):
        return UnknownVariant(text(value.tag), raw(value.raw))
    if isinstance(value, msgspec.Raw):
        return msgspec.Raw(raw(bytes(value)))
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return msgspec.structs.replace(value, **{name: again(getattr(value, name)) for name in fields})
    return value
