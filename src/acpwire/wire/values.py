"""What generated types are made of: the Struct base, and the two kinds of value that keep what they do not understand.

Owns: `WireStruct`, `UnknownVariant`, `OpenObject`, and the two hooks that msgspec needs for them.
Does not know: JSON-RPC, lines, or any generated type.
"""

from __future__ import annotations

import binascii
import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import msgspec

from .errors import DecodeError, EncodeError

Buffer = bytes | bytearray | memoryview | msgspec.Raw
"""JSON as bytes, or as a view into some."""


def wire_name(attr: str) -> str:
    """The usual JSON name of an attribute: `session_id` -> `sessionId`, `meta` -> `_meta`."""
    if attr == "meta":
        return "_meta"
    head, *tail = attr.rstrip("_").split("_")
    return head + "".join(map(str.capitalize, tail))


def json_name(value: msgspec.Struct, attr: str) -> str:
    """The JSON name that a value's class gives an attribute, which a schema may have made any other than the usual."""
    return value.__struct_encode_fields__[value.__struct_fields__.index(attr)]


class WireStruct(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, repr_omit_defaults=True, rename=wire_name
):
    """The base of every generated class.

    Immutable, compared by value, built by keyword. Members that have their default are left out of the JSON and of
    `repr`. Not tracked by the garbage collector: nothing decoded can form a cycle, but one that you build yourself
    through a list or a `meta` mapping is never freed.
    """


class UnknownVariant:
    """A value of an open union whose tag this version does not know (EX-03).

    `tag` is the value that told it apart, `raw` the JSON exactly as it came, `data` the same parsed on first use.
    Encoding it gives `raw` again, byte for byte (line breaks inside become spaces). Equal when tag and bytes are.
    """

    __slots__ = ("_data", "raw", "tag")
    __match_args__ = ("tag", "raw")

    tag: str
    raw: bytes

    def __init__(self, tag: str, raw: Buffer) -> None:
        self.tag = tag
        self.raw = bytes(raw).strip(b" \t\r\n")  # what stands around a value is not part of it

    @property
    def data(self) -> Any:
        """The JSON value, as plain Python objects.

        Raises `ValueError` if `raw` is no JSON, `RecursionError` if it is nested deeper than `json` reads.
        """
        try:
            return self._data
        except AttributeError:
            self._data: Any = json.loads(self.raw)  # unlike msgspec it takes lone surrogates
            return self._data

    def __repr__(self) -> str:
        shown = self.raw if len(self.raw) <= 100 else self.raw[:97] + b"..."
        return f"UnknownVariant(tag={self.tag!r}, raw={shown!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnknownVariant):
            return NotImplemented
        return self.tag == other.tag and self.raw == other.raw

    def __hash__(self) -> int:
        return hash((self.tag, self.raw))

    def __reduce__(self) -> tuple[type[UnknownVariant], tuple[str, bytes]]:
        return UnknownVariant, (self.tag, self.raw)


class OpenObject(dict[str, Any]):
    """A JSON object with some members that are known and typed, and any others, all of them kept (H22).

    It is a dict of the JSON names; the generated subclass reads the known members as attributes. Known members are
    checked when it is decoded; `fields` names the class that they must fit.
    """

    fields: ClassVar[type[WireStruct]]

    def put(self, members: Mapping[str, Any]) -> None:
        """Take members, less those that are UNSET."""
        self.update({name: value for name, value in members.items() if value is not msgspec.UNSET})

    @classmethod
    def with_members(cls, members: Mapping[str, Any]) -> Self:
        """An object of exactly these members, unchecked."""
        made = cls.__new__(cls)
        made.update(members)
        return made


def decode_hook(kind: type, value: Any) -> Any:
    """msgspec's `dec_hook`: builds the types that are no Structs."""
    if issubclass(kind, OpenObject):
        if not isinstance(value, dict):
            raise ValueError("Expected `object`")  # noqa: TRY004  # msgspec turns it into its own error, with the path
        msgspec.convert(value, kind.fields)
        return kind.with_members(cast("dict[str, Any]", value))
    raise ValueError("Object has a member that must be absent")  # the only other such type is UnsetType


def encode_hook(value: Any) -> Any:
    """msgspec's `enc_hook`: an unknown variant goes out as it came."""
    if isinstance(value, UnknownVariant):
        if not value.raw:
            raise EncodeError("an UnknownVariant without JSON is no JSON value")
        return msgspec.Raw(value.raw.translate(ONE_LINE))
    raise EncodeError(f"{type(value).__name__} has no JSON form; build the message from the generated types")


MAY_HOLD_FLOATS: dict[type, tuple[str, ...]] = {}
"""Class -> attributes in which a float may be, at any depth. Every generated package adds its own."""
USUAL: dict[tuple[type, str], type] = {}
"""Class and attribute -> the class of what is there in most of the traffic; it is looked into where it stands."""


class _Checks(dict[type[Any], Callable[[Any], bool | None]]):
    """Type -> the function that looks into a value of it; made on first need, as this is half the cost of encoding."""

    def __missing__(self, kind: type[Any]) -> Callable[[Any], bool | None]:
        check: Callable[[Any], bool | None]
        if issubclass(kind, msgspec.Struct):
            check = self._of_attributes(kind, MAY_HOLD_FLOATS.get(kind, kind.__struct_fields__))
        elif dataclasses.is_dataclass(kind):
            check = self._of_attributes(kind, tuple(field.name for field in dataclasses.fields(kind)))
        elif issubclass(kind, float):
            check = _check_float
        elif issubclass(kind, Mapping):
            check = _check_mapping
        elif issubclass(kind, msgspec.Raw):
            check = _check_raw
        else:
            check = _check_items if issubclass(kind, list | tuple | set | frozenset) else _pass
        self[kind] = check
        return check

    def _of_attributes(self, kind: type[Any], attrs: tuple[str, ...]) -> Callable[[Any], bool | None]:
        """Straight code, as a loop over the attributes takes twice as long."""
        names: dict[str, Any] = {"checks": self, "UNSET": msgspec.UNSET}
        is_usual = any(owner is kind for owner, _ in USUAL)
        lines = [f"is_plain = {is_usual}", *self._looks(kind, attrs, "value", names), "return is_plain"]
        exec("\n    ".join(["def check(value):", *lines]), names)  # noqa: S102  # made of names of our own
        check: Callable[[Any], bool | None] = names["check"]
        return check

    def _looks(self, kind: type[Any], attrs: tuple[str, ...], value: str, names: dict[str, Any]) -> Iterator[str]:
        """Lines that look into attributes of a value; what is not there is not looked into."""
        fields = msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else ()
        absent = {field.name: field.default for field in fields}
        for attr in attrs:
            held, usual = f"{value}_{attr}", USUAL.get((kind, attr))
            conditions: dict[Any, str] = {
                msgspec.NODEFAULT: "True",
                msgspec.UNSET: f"{held} is not UNSET and {held} is not None",
            }
            condition = conditions.get(absent.get(attr), f"{held} is not None")
            yield f"{held} = {value}.{attr}"
            if usual is not None:
                names[usual.__name__] = usual
                looks = self._looks(usual, MAY_HOLD_FLOATS.get(usual, ()), held, names)
                yield f"if type({held}) is {usual.__name__}:"
                yield from (f"    {line}" for line in (*looks, "pass"))
            yield f"{'if' if usual is None else 'elif'} {condition}:"
            yield f"    checks[type({held})]({held})"
            yield "    is_plain = False"


def _check_float(value: float) -> None:
    if not math.isfinite(value):
        raise EncodeError(f"{value} has no JSON form")


def _check_raw(value: msgspec.Raw) -> None:
    if not memoryview(value).nbytes:
        raise EncodeError("an empty Raw is no JSON value")


def _check_mapping(value: Mapping[Any, object]) -> None:
    for held in value.values():
        CHECKS[type(held)](held)


def _check_items(value: Iterable[object]) -> None:
    for held in value:
        CHECKS[type(held)](held)


def _pass(_: object) -> None:
    """Nothing in such a value can be a float, or JSON as it came."""


CHECKS = _Checks()
"""`CHECKS[type(value)](value)` looks at what msgspec writes without looking, before anything is encoded.

It refuses NaN and Infinity, which JSON has no form for and msgspec would write as null, and a `Raw` that is empty.
Returns True where the value is the usual one through and through, in which there is no place for a `Raw` with line
breaks. Raises `EncodeError`. Not a function, as calling one more would be felt in encoding.
"""


def check_deep(value: Any) -> None:
    """The same for a value that is nested deeper than calls may be, and is known not to hold itself.

    Since Python 3.12 msgspec, whose calls are C's, reads and writes such values. Raises `EncodeError`.
    """
    todo = [value]
    while todo:
        held = todo.pop()
        if isinstance(held, Mapping):
            todo.extend(cast("dict[Any, Any]", held).values())
        elif isinstance(held, list | tuple | set | frozenset):
            todo.extend(cast("Iterable[Any]", held))
        elif isinstance(held, msgspec.Struct):
            todo.extend(getattr(held, name) for name in held.__struct_fields__)
        elif dataclasses.is_dataclass(held) and not isinstance(held, type):
            todo.extend(getattr(held, field.name) for field in dataclasses.fields(held))
        else:
            CHECKS[type(held)](held)


def checked(value: Any, encode: Callable[[Any], bytes]) -> bytes:
    """What `encode` makes of a value that was looked at. Raises `EncodeError`, and what `encode` does."""
    try:
        CHECKS[type(value)](value)
    except RecursionError:
        encoded = encode(value)  # refuses what holds itself
        check_deep(value)
        return encoded
    return encode(value)


ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
"""Translates JSON to JSON on one line: outside of strings a line break is as good as a blank, and none is in them."""


def decode_base64(text: str, member: str) -> bytes:
    """The bytes of a base64 text (RFC 4648, TM-07). Raises `DecodeError` naming the member."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise DecodeError(f"Invalid base64: {error}", f"$.{member}") from None


Alternatives = Mapping[str, Sequence[str]]
"""The attribute that an alternative is known by -> its other attributes, which count only with it."""


def exactly_one(value: msgspec.Struct, alternatives: Alternatives) -> None:
    """Refuse a value unless exactly one alternative is there; null counts as there (EL-04, H21)."""
    if sum(getattr(value, attr) is not msgspec.UNSET for attr in alternatives) != 1:
        raise ValueError(f"Object must have exactly one of {_listed(value, alternatives)}")
    _keep_first(value, alternatives)


def first_of(value: msgspec.Struct, alternatives: Alternatives) -> None:
    """Refuse a value that has no alternative; of several, the first counts and the others are not there (H22)."""
    if all(getattr(value, attr) is msgspec.UNSET for attr in alternatives):
        raise ValueError(f"Object must have {_listed(value, alternatives)}")
    _keep_first(value, alternatives)


def _keep_first(value: msgspec.Struct, alternatives: Alternatives) -> None:
    first = next(attr for attr in alternatives if getattr(value, attr) is not msgspec.UNSET)
    others = {attr for key, own in alternatives.items() if key != first for attr in (key, *own)}
    for field in msgspec.structs.fields(value) if others else ():
        if field.name in others:
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            msgspec.structs.force_setattr(value, field.name, default)


def required_with(value: msgspec.Struct, tag: str, needs: dict[str, tuple[str, ...]]) -> None:
    """Refuse a flat union whose tag requires members that are missing."""
    for attr in needs.get(getattr(value, tag), ()):
        if getattr(value, attr) in (None, msgspec.UNSET):
            raise ValueError(f"Object missing required field `{json_name(value, attr)}`")


def _listed(value: msgspec.Struct, attrs: Iterable[str]) -> str:
    return " or ".join(f"`{json_name(value, attr)}`" for attr in attrs)
