"""The second look: decodes a value whose strict decode failed, by the flags that the schema gives its members.

Owns: the propagation rule (requirements C1: a fault is absorbed by the nearest flagged member or skipping array that
encloses it), open unions, and alternatives without a tag; all of it driven by generated tables, with no code for any
one type.
Does not know: JSON-RPC, lines, or which types there are.

A plan is built for a type on first need, from its annotations and the tables, and works on one level of JSON at a
time: each member is decoded strictly, and only what fails is looked into.
"""

# What is imported of typing_extensions is for type checkers, which have its stub; nobody need install it:
# pyright: reportMissingModuleSource=false

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from . import surrogates
from .errors import DecodeError
from .values import Buffer, UnknownVariant, WireStruct, decode_hook

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")
Plan = Callable[[Buffer], Any]

ERROR = 1
"""`x-deserialize-default-on-error`: a member that does not decode is as good as left out."""
NULL = 2
"""`x-deserialize-default-on-null`: null is an empty array, or an empty map."""
SKIP = 4
"""`x-deserialize-skip-invalid-items`: items that do not decode are left out."""
ALTERNATIVE = 8
"""One of several members of which one must fit; the others may not."""


class TaggedUnion(NamedTuple):
    """How the variants of a union are told apart."""

    tag: str
    variants: Mapping[str, type[WireStruct]]
    open: bool
    other: type[WireStruct] | None = None
    """What a value with an unknown tag must still have."""
    rest: Sequence[type[WireStruct]] = ()
    """Alternatives without a tag, tried in order."""


class Tables(NamedTuple):
    """Everything that annotations cannot say about a generated package; names are those of its aliases."""

    unions: Mapping[str, TaggedUnion]
    choices: Mapping[str, Sequence[Any]]
    """Alternatives without any tag: the first that decodes is taken."""
    states: Mapping[type[WireStruct], str]
    """Classes whose closed `Literal` member stands for an open union: an unknown value makes the whole unknown."""
    flags: Mapping[type[WireStruct], Mapping[str, int]]
    """Class -> JSON name of a member -> its flags; what a base class says holds for its subclasses."""


class TagFirst(NamedTuple):
    """A class that holds a union, read by the union's tag first."""

    unread: type[msgspec.Struct]
    """The same with the union as it came, to be decoded strictly."""
    path: str
    """Where in the class its tag is."""
    read: Callable[[Any], Any]
    """Makes the class of `unread`. Raises what a plan does."""


class Decoding:
    """Decodes values of one generated package: strictly, and where that fails leniently."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._strict: dict[Any, msgspec.json.Decoder[Any]] = {}
        self._plans: dict[Any, Plan] = {}

    def decode(self, tp: TypeForm[T], raw: Buffer) -> T:
        """Decode one JSON value as `tp`, a generated class or alias. Raises `DecodeError` with the path.

        UTF-8 is checked unless `raw` is a `msgspec.Raw`, which is a view into a line that was.
        """
        if not isinstance(raw, msgspec.Raw):
            _check_utf8(raw)
        try:
            value: T = self.strict(tp).decode(raw)
        except msgspec.ValidationError:
            return self.look(tp, raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            value = self._without_halves(tp, raw, error)
        return value

    def look(self, tp: TypeForm[T], raw: Buffer) -> T:
        """Take the second look alone, at a value whose strict decode is known to fail. Raises `DecodeError`."""
        try:
            value: T = self._plan(tp)(raw)
        except DecodeError as fault:
            raise DecodeError(fault.message, f"${fault.path}") from None
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            value = self._without_halves(tp, raw, error)
        return value

    def _without_halves(self, tp: TypeForm[T], raw: Buffer, error: Exception) -> T:
        """Decode what is no JSON for msgspec, if that is only because of lone surrogates."""
        hidden = surrogates.hide(bytes(raw))
        if hidden is None:
            raise fault_of(error) from None
        try:
            value: T = hidden.restore(self.decode(tp, hidden.text))
        except RecursionError as deep:
            raise fault_of(deep) from None
        return value

    def tag_first(self, cls: type[WireStruct]) -> TagFirst | None:
        """How to read a class by the tag of the union in it before anything else of that; None if it holds none."""
        fields = msgspec.structs.fields(cls)
        found = ((field, self._union_of(_without_unset(field.type))) for field in fields)
        held, union = next(((field, union) for field, union in found if union is not None), (None, None))
        if held is None or union is None:
            return None
        again: Any = msgspec.field  # its overloads know no field that may have either default
        members: list[Any] = [
            (
                one.name,
                msgspec.Raw if one is held else one.type,
                again(name=one.encode_name, default=one.default, default_factory=one.default_factory),
            )
            for one in fields
        ]
        choose, attr = self._union(union), held.name

        def read(unread: msgspec.Struct) -> Any:
            values = msgspec.structs.asdict(unread)
            values[attr] = choose(values[attr])
            return cls(**values)

        unread = msgspec.defstruct(f"Unread{cls.__name__}", members, kw_only=True, gc=False)
        return TagFirst(unread, f"{held.encode_name}.{union.tag}", read)

    def strict(self, tp: Any) -> msgspec.json.Decoder[Any]:
        """The decoder that takes no second look."""
        decoder = self._strict.get(tp)
        if decoder is None:
            decoder = self._strict[tp] = msgspec.json.Decoder(tp, dec_hook=decode_hook)
        return decoder

    # -- plans --

    def _look(self, tp: Any) -> Plan:
        """Strictly first, then by plan; a tagged union is chosen by its tag at once."""
        plan = self._plan(tp)
        if self._union_of(tp) is not None:
            return plan
        strict = self.strict(tp).decode

        def look(raw: Buffer) -> Any:
            try:
                return strict(raw)
            except msgspec.ValidationError:
                return plan(raw)

        return look

    def _union_of(self, tp: Any) -> TaggedUnion | None:
        marks = [mark for mark in getattr(tp, "__metadata__", ()) if isinstance(mark, str)]
        return next((self._tables.unions[mark] for mark in marks if mark in self._tables.unions), None)

    def _plan(self, tp: Any) -> Plan:
        plan = self._plans.get(tp)
        if plan is None:
            plan = self._plans[tp] = self._build(tp, 0)
        return plan

    def _build(self, tp: Any, flags: int) -> Plan:
        """The plan of a type; `flags` are those of the member it stands in (only `SKIP` matters inside)."""
        union = self._union_of(tp)
        if union is not None:
            return self._union(union)
        for mark in getattr(tp, "__metadata__", ()):
            if isinstance(mark, str) and mark in self._tables.choices:
                return self._choice([self._look(option) for option in self._tables.choices[mark]])
        inner = typing.get_args(tp)[0] if hasattr(tp, "__metadata__") else tp
        if isinstance(inner, type) and issubclass(inner, WireStruct):
            return self._state(inner) if inner in self._tables.states else self._object(inner)
        origin, args = typing.get_origin(inner), typing.get_args(inner)
        if origin in (typing.Union, types.UnionType):
            options = [option for option in args if option not in (types.NoneType, msgspec.UnsetType)]
            if len(options) == 1:
                return self._build(options[0], flags)
        elif isinstance(origin, type) and issubclass(origin, Sequence):
            return self._array(tp, args[0], bool(flags & SKIP))
        elif isinstance(origin, type) and issubclass(origin, Mapping):
            return self._map(args[1])
        return self._leaf(tp)

    def _leaf(self, tp: Any) -> Plan:
        strict = self.strict(tp).decode

        def leaf(raw: Buffer) -> Any:
            try:
                return strict(raw)
            except msgspec.ValidationError as error:
                fault = fault_of(error)
                raise _fault(fault.message, fault.path[1:]) from None

        return leaf

    def _object(self, cls: type[WireStruct]) -> Plan:
        members = {field.encode_name: self._member(cls, field) for field in msgspec.structs.fields(cls)}
        tag_field, tag = cls.__struct_config__.tag_field, cls.__struct_config__.tag
        required = [(name, attr) for name, (attr, _, needed) in members.items() if needed]

        def build(raw: Buffer) -> Any:
            values: dict[str, Any] = {}
            held: DecodeError | None = None
            for name, child in _members(raw).items():
                member = members.get(name)
                if member is None:
                    if name == tag_field and _text_or_none(child) != tag:
                        raise _fault("Invalid value", f".{name}")
                    continue
                try:
                    value = member[1](child)
                except DecodeError as fault:
                    held = _fault(fault.message, f".{name}{fault.path}")
                    if not self._flags(cls, name) & ALTERNATIVE:
                        raise held from None
                else:
                    if value is not msgspec.UNSET:
                        values[member[0]] = value
            for name, attr in required:
                if attr not in values:
                    raise _fault(f"Object missing required field `{name}`")
            try:
                return cls(**values)
            except ValueError as error:
                raise held or _fault(str(error)) from None

        return build

    def _member(self, cls: type[WireStruct], field: msgspec.structs.FieldInfo) -> tuple[str, Plan, bool]:
        """(attribute, how to read it, whether it must be there); a plan gives UNSET for what is left out."""
        flags = self._flags(cls, field.encode_name)
        tp = _without_unset(field.type)
        plan: Plan | None = self._plan(tp) if self._union_of(tp) is not None else None
        strict = plan or self.strict(tp).decode
        origin = typing.get_origin(tp)
        empty: Any = dict if isinstance(origin, type) and issubclass(origin, Mapping) else list

        def look(raw: Buffer) -> Any:
            nonlocal plan
            try:
                return strict(raw)
            except (msgspec.ValidationError, DecodeError):
                if flags & NULL and bytes(raw) == b"null":
                    return empty()
            try:
                if plan is None:
                    plan = self._build(tp, flags)
                return plan(raw)
            except DecodeError:
                if flags & ERROR:
                    return empty() if field.required else msgspec.UNSET
                raise

        return field.name, look, field.required

    def _flags(self, cls: type, name: str) -> int:
        for base in cls.__mro__:
            found = self._tables.flags.get(base, {}).get(name)
            if found is not None:
                return found
        return 0

    def _state(self, cls: type[WireStruct]) -> Plan:
        name = self._tables.states[cls]
        known = next(typing.get_args(f.type) for f in msgspec.structs.fields(cls) if f.encode_name == name)
        build = self._object(cls)

        def state(raw: Buffer) -> Any:
            value = _text_or_none(_members(raw).get(name))
            if value is None or value in known:
                return build(raw)
            return UnknownVariant(getattr(cls, "tag", value), raw)

        return state

    def _union(self, union: TaggedUnion) -> Plan:
        variants = {value: self._look(cls) for value, cls in union.variants.items()}
        other = self._build(union.other, 0) if union.other else None
        rest = self._choice([self._look(cls) for cls in union.rest]) if union.rest else None
        peeked: Any = msgspec.defstruct("Peeked", [("tag", str, msgspec.field(name=union.tag, default=""))], gc=False)
        peek = msgspec.json.Decoder(peeked).decode

        def choose(raw: Buffer) -> Any:
            try:
                tag: str = peek(raw).tag
            except msgspec.ValidationError:
                last = _text_or_none(_members(raw).get(union.tag))  # of equal names the last counts
                if last is None:
                    if rest is not None and not union.open:
                        return rest(raw)
                    raise _fault("Expected `str`", f".{union.tag}") from None
                tag = last
            variant = variants.get(tag)
            if variant is not None:
                return variant(raw)
            missing = not tag and union.tag not in _members(raw)
            if rest is not None and (missing or not union.open):
                return rest(raw)
            if missing:
                raise _fault(f"Object missing required field `{union.tag}`")
            if not union.open:
                raise _fault("Invalid value", f".{union.tag}")
            if other is not None:
                other(raw)
            return UnknownVariant(tag, raw)

        return choose

    def _choice(self, options: Sequence[Plan]) -> Plan:
        def choose(raw: Buffer) -> Any:
            faults: list[DecodeError] = []
            for option in options:
                try:
                    return option(raw)
                except DecodeError as fault:
                    faults.append(fault)
            raise max(faults, key=_how_far)

        return choose

    def _array(self, tp: Any, item: Any, skip: bool) -> Plan:
        look: Plan | None = None
        least = next((m.min_length for m in getattr(tp, "__metadata__", ()) if isinstance(m, msgspec.Meta)), None) or 0

        def build(raw: Buffer) -> Any:
            nonlocal look
            look = look or self._look(item)
            try:
                parts = _ITEMS.decode(raw)
            except msgspec.ValidationError:
                raise _fault("Expected `array`") from None
            if len(parts) < least:
                raise _fault(f"Expected `array` of length >= {least}")
            values: list[Any] = []
            for index, part in enumerate(parts):
                try:
                    values.append(look(part))
                except DecodeError as fault:
                    if not skip:
                        raise _fault(fault.message, f"[{index}]{fault.path}") from None
            return values

        return build

    def _map(self, item: Any) -> Plan:
        look: Plan | None = None

        def build(raw: Buffer) -> Any:
            nonlocal look
            look = look or self._look(item)
            values: dict[str, Any] = {}
            for key, part in _members(raw).items():
                try:
                    values[key] = look(part)
                except DecodeError as fault:
                    raise _fault(fault.message, f"[...]{fault.path}") from None
            return values

        return build


_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_INVALID = re.compile(r"(Invalid (?:enum )?value) .*?(?: - at `(\$[^'`]*)`)?", re.DOTALL)
_ELSE = re.compile(r"(.*?)(?: - at `(\$.*)`)?", re.DOTALL)


def _fault(message: str, path: str = "") -> DecodeError:
    """A fault on its way up: its path starts where the plan that raised it does."""
    return DecodeError(message, path)


def _members(raw: Buffer) -> dict[str, msgspec.Raw]:
    """The members of an object, each still JSON; of equal names the last counts."""
    try:
        return _MEMBERS.decode(raw)
    except msgspec.ValidationError:
        raise _fault("Expected `object`") from None


def _text_or_none(raw: msgspec.Raw | None) -> str | None:
    try:
        return None if raw is None else _TEXT.decode(raw)
    except msgspec.ValidationError:
        return None


def _check_utf8(raw: bytes | bytearray | memoryview) -> None:
    """msgspec lets invalid UTF-8 pass in what it skips and in what it keeps as it came."""
    data = bytes(raw)
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            raise DecodeError("Invalid UTF-8") from None


def _how_far(fault: DecodeError) -> tuple[list[int], int]:
    """How far into the value an alternative got before it failed."""
    return [int(index) for index in re.findall(r"\[(\d+)\]", fault.path)], len(re.findall(r"[.\[]", fault.path))


def _without_unset(tp: Any) -> Any:
    """A member's type without the mark that it may be absent."""
    if typing.get_origin(tp) in (typing.Union, types.UnionType):
        options = tuple(option for option in typing.get_args(tp) if option is not msgspec.UnsetType)
        return typing.Union[options]  # noqa: UP007  # made of a tuple, which `|` cannot
    return tp


def fault_of(error: Exception) -> DecodeError:
    """msgspec's error as ours: message and path apart, and no value in the message, whatever the value looks like."""
    if isinstance(error, RecursionError):
        return DecodeError("Nested too deep")
    match = _INVALID.fullmatch(str(error)) or _ELSE.fullmatch(str(error))
    return DecodeError(match[1], match[2] or "$") if match else DecodeError("Invalid value")
