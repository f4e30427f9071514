"""Notifications that differ in one text alone: what of them is the same is encoded once.

Owns: telling the text from the rest, the texts that wait, and the lines that become of them. Does not know: connections
or sessions, or any one type: where the usual text is, the generated package says (`USUAL`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from acpwire.wire import Method
from acpwire.wire.frames import encode_value
from acpwire.wire.values import MAY_HOLD_FLOATS, ONE_LINE, USUAL

__all__ = ["HOLE", "SHORT", "USUAL_TEXTS", "Texts", "UsualText"]

SHORT: Final = 64
"""Up to how many characters a text counts as short: of a long one, encoding it is what takes long."""
HOLE: Final = "\x00acpwire"
"""Stands for the text."""
_encode_lines: Final = msgspec.json.Encoder().encode_lines


class Texts:
    """The texts that wait to become lines, in their order; whoever has one more appends it to `texts`."""

    __slots__ = ("_between", "_head", "before", "each", "method", "texts")

    def __init__(self, method: Method[Any, None], params: Any) -> None:
        """For notifications like this one, whose text is `HOLE`."""
        head, _, tail = method.notification(params)[:-1].rpartition(encode_value(HOLE))
        self._head = head.translate(ONE_LINE)
        self._between = tail + b"\n" + self._head  # in the place of the line feed after each text; the last is cut
        self.each = len(self._between)
        """Bytes of a line, less its text."""
        self.before = 0
        """Bytes that leave before them."""
        self.method = method
        self.texts: list[str] = []

    def append_to(self, lines: bytearray) -> None:
        """Append a line for each text, and forget the texts. A lone surrogate becomes U+FFFD."""
        texts = self.texts.copy()
        if not texts:
            return
        self.texts.clear()
        try:
            encoded = _encode_lines(texts)
        except UnicodeEncodeError:
            encoded = b"".join(encode_value(text) + b"\n" for text in texts)
        lines += self._head
        lines += memoryview(encoded.replace(b"\n", self._between))[: -len(self._head)]


class UsualText(NamedTuple):
    """How the usual text of a class of params is told from the rest, where there is nothing but strings in them."""

    with_text: Callable[[Any, str], Any]
    """The params with another text."""
    others: Callable[[Any], tuple[str, ...] | None]
    """`others(params)`: all other strings; None where there is anything else, a `meta` say, or the text is long."""
    adder: Callable[..., Callable[[Method[Any, Any], Any], int]]
    """`adder(texts, *others)(method, params)`: the text now waits there, where the method and the other strings are
    these. Returns how many bytes wait, `before` included, less the texts'; 0 where it is none of them."""


class _UsualTexts(dict[type, UsualText | None]):
    """Class of params -> its usual text, None where it has none; made on first need."""

    def __missing__(self, kind: type) -> UsualText | None:
        path = _path(kind)
        self[kind] = usual = _usual_text(path) if path else None
        return usual


USUAL_TEXTS: Final = _UsualTexts()


def _path(kind: type) -> list[tuple[type, str]]:
    """From a class down to its usual text: each class, and the attribute that leads on. Empty if it has none."""
    for (owner, attr), usual in USUAL.items():
        if owner is kind:
            return [(kind, attr), *(_path(usual) or [(usual, _plain(usual)[0])])]
    return []


def _plain(kind: Any) -> list[str]:
    """The attributes of a class that can hold neither a float nor any JSON."""
    return [name for name in kind.__struct_fields__ if name not in MAY_HOLD_FLOATS.get(kind, ())]


def _usual_text(path: list[tuple[type, str]]) -> UsualText:
    """Straight code, as one or the other is asked for each notification that is sent."""
    names: dict[str, Any] = {owner.__name__: owner for owner, _ in path}
    others: list[str] = []
    taken, compared = (
        ["def others(value):"],
        ["    def add(method, value):", "        if method is not alike: return 0"],
    )
    for owner, attr in path:
        unusual = [f"type(value) is not {owner.__name__}"]
        unusual += [f"value.{name} is not None" for name in MAY_HOLD_FLOATS.get(owner, ()) if name != attr]
        plain = {name: f"other_{len(others) + index}" for index, name in enumerate(_plain(owner)) if name != attr}
        differs = [
            f"value.{name} is not {other} and (type(value.{name}) is not str or value.{name} != {other})"
            for name, other in plain.items()
        ]
        others += plain.values()
        taken += [f"    if {' or '.join(unusual)}: return None"]
        taken += [f"    {other} = value.{name}" for name, other in plain.items()]
        taken += [f"    if type({other}) is not str: return None" for other in plain.values()]
        taken += [f"    value = value.{attr}"]
        compared += [f"        if {' or '.join(unusual + differs)}: return 0", f"        value = value.{attr}"]
    is_other = f"type(value) is not str or len(value) > {SHORT}"
    taken += [f"    return None if {is_other} else ({', '.join(others)},)"]
    compared += [
        f"        if {is_other}: return 0",
        "        texts.append(value)",
        "        return len(texts) * each + gathered.before",
    ]
    made = [
        *taken,
        f"def adder(gathered, {', '.join(others)}):",
        "    alike, texts, each = gathered.method, gathered.texts, gathered.each",
        *compared,
        "    return add",
    ]
    exec("\n".join(made), names)  # noqa: S102  # made of names of our own

    def with_text(params: Any, text: str) -> Any:
        values = [params]
        for _, attr in path[:-1]:
            values.append(getattr(values[-1], attr))
        for value, (_, attr) in zip(reversed(values), reversed(path), strict=True):
            text = msgspec.structs.replace(value, **{attr: text})
        return text

    return UsualText(with_text, names["others"], names["adder"])
