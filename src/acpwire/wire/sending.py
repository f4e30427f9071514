"""What binds a sender beyond the types: absolute paths, unique names, prefixes of custom values, and the like.

Owns: the kinds of rule, and walking a value by the generated table of rules. Does not know: which types have which.
Receivers are lenient on purpose, so nothing here is ever asked about what came in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast, get_args

import msgspec

from . import surrogates
from .errors import DecodeError
from .lenient import Decoding, Tables
from .values import CHECKS, UnknownVariant, WireStruct, json_name


class Violation(msgspec.Struct, frozen=True):
    """One thing that a peer may refuse: where (a JSON path), what, and the requirement that says so."""

    path: str
    message: str
    requirement: str


class Rule(NamedTuple):
    """One rule for one attribute of a class; `argument` is what its kind needs to know."""

    attr: str
    kind: str
    argument: Any
    requirement: str


class Validator:
    """Checks values of one generated package against its rules."""

    def __init__(self, rules: Mapping[type[WireStruct], Sequence[Rule]], tables: Tables) -> None:
        self._rules = rules
        self._unions = tables.unions
        self._unforgiving = Decoding(tables._replace(flags={}))

    def validate(self, value: Any) -> list[Violation]:
        """What is wrong with a value that is about to be sent; empty where nothing is. Raises nothing.

        Types and bounds come first, as Python lets anything pass when a value is built: where those of the schema are
        broken, the first such place is the whole answer.
        """
        return list(self._parts(value, "$"))

    def _parts(self, value: Any, path: str) -> Iterator[Violation]:
        """What is wrong with a value, or with what a message or a list consists of."""
        if isinstance(value, msgspec.Struct) and not isinstance(value, WireStruct):
            for attr in value.__struct_fields__:
                yield from self._parts(getattr(value, attr), f"{path}.{attr}")
        elif isinstance(value, list | tuple):
            for index, item in enumerate(cast("Iterable[Any]", value)):
                yield from self._parts(item, f"{path}[{index}]")
        elif value is not msgspec.UNSET:
            yield from list(self._schema(value, path)) or self._walk(value, path)

    def _schema(self, value: Any, path: str) -> Iterator[Violation]:
        try:
            CHECKS[type(value)](value)
            raw = surrogates.encode(value)
            if isinstance(value, WireStruct):
                self._unforgiving.decode(type(value), raw)
        except DecodeError as fault:
            yield Violation(path + fault.path.removeprefix("$"), fault.message, "schema")
        except (ValueError, TypeError, RecursionError) as error:
            yield Violation(path, str(error), "schema")

    def _walk(self, value: Any, path: str, holder: tuple[type[WireStruct], str] | None = None) -> Iterator[Violation]:
        """What is wrong with a value and all in it; `holder` is the class and the attribute that it stands in."""
        if isinstance(value, UnknownVariant):
            if not value.tag.startswith("_"):
                yield Violation(path, _no_tag(value.tag, () if holder is None else self._tags(*holder)), "EX-01")
        elif isinstance(value, WireStruct):
            for base in type(value).__mro__:
                for rule in self._rules.get(base, ()):
                    held = getattr(value, rule.attr)
                    if held is not None and held is not msgspec.UNSET:
                        yield from self._apply(rule, value, held, f"{path}.{json_name(value, rule.attr)}")
            for attr, name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
                yield from self._walk(getattr(value, attr), f"{path}.{name}", (type(value), attr))
        elif isinstance(value, list | tuple):
            for index, item in enumerate(cast("Iterable[Any]", value)):
                yield from self._walk(item, f"{path}[{index}]", holder)

    def _tags(self, owner: type[WireStruct], attr: str) -> Sequence[str]:
        """The tags that are known of the union in an attribute; none where it holds no union with a name."""
        (held,) = (field.type for field in msgspec.structs.fields(owner) if field.name == attr)
        for name in _names(held):
            if name in self._unions:
                return [*self._unions[name].variants]
        return ()

    def _apply(self, rule: Rule, owner: WireStruct, held: Any, path: str) -> Iterator[Violation]:
        for at, message in KINDS[rule.kind](held, rule.argument, owner):
            yield Violation(path + at, message, rule.requirement)


def _names(annotation: Any) -> Iterator[str]:
    """The names of the aliases in an annotation."""
    for held in getattr(annotation, "__metadata__", ()):
        if isinstance(held, str):
            yield held
    for part in get_args(annotation):
        yield from _names(part)


def _no_tag(tag: str, known: Sequence[str]) -> str:
    if not known or tag in known:
        return f"{tag!r} is reserved for the protocol: custom tags begin with '_'"
    return f"{tag!r} is none of {', '.join(known)}, and custom tags begin with '_'"


# --- the kinds of rule: (value, argument, owner) -> (where below the member, what is wrong) ---------------------------

Found = Iterator[tuple[str, str]]
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\[^\\/]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def _each(held: Any) -> Iterable[tuple[str, Any]]:
    """A value, or each item of a list, with its place."""
    if isinstance(held, list | tuple):
        return ((f"[{index}]", item) for index, item in enumerate(cast("Iterable[Any]", held)))
    return (("", held),)


def _absolute(held: Any, _: Any, __: WireStruct) -> Found:
    for at, item in _each(held):
        if not _ABSOLUTE.match(item):
            yield at, f"{item!r} is no absolute path"


def _uri(held: Any, schemes: Sequence[str], _: WireStruct) -> Found:
    """An absolute one, of one of the schemes, if any are given."""
    for at, item in _each(held):
        found = _SCHEME.match(item)
        if found is None:
            yield at, f"{item!r} is no absolute URI"
        elif schemes and found[0][:-1].lower() not in schemes:
            yield at, f"{item!r} is no URI of {' or '.join(f'`{scheme}:`' for scheme in schemes)}"


def _open(held: Any, known: Sequence[str], _: WireStruct) -> Found:
    for at, item in _each(held):
        if item not in known and not str(item).startswith("_"):
            yield at, f"{item!r} is none of {', '.join(known)}, and custom values begin with '_'"


def _at_most(held: Any, limit: int, _: WireStruct) -> Found:
    if held > limit:
        yield "", f"{held} is more than {limit}"


def _word(held: Any, _: Any, __: WireStruct) -> Found:
    if held.startswith("/") or any(map(str.isspace, held)) or not held:
        yield "", f"{held!r} is no name: not empty, without whitespace, without a leading `/`"


def _unique(held: Any, attr: str, _: WireStruct) -> Found:
    seen: set[Any] = set()
    for at, item in _named(held, attr):
        if item in seen:
            yield at, f"{item!r} is used twice"
        seen.add(item)


def _among(held: Any, argument: str, owner: WireStruct) -> Found:
    attr, _, name = argument.partition(".")
    if held not in [item for _, item in _named(getattr(owner, attr), name)]:
        yield "", f"{held!r} is none of the values of `{json_name(owner, attr)}`"


def _only_with(held: Any, argument: str, owner: WireStruct) -> Found:
    attr, _, wanted = argument.partition("=")
    if len(held) and getattr(owner, attr) != wanted:
        yield "", f"may only be given when `{json_name(owner, attr)}` is {wanted!r}"


def _named(held: Any, attr: str) -> Iterator[tuple[str, Any]]:
    """The attribute of each item, groups of items looked into."""
    for at, item in _each(held):
        if hasattr(item, attr):
            yield f"{at}.{json_name(item, attr)}", getattr(item, attr)
        elif isinstance(item, WireStruct):
            for field in item.__struct_fields__:
                if isinstance(getattr(item, field), list | tuple):
                    for below, value in _named(getattr(item, field), attr):
                        yield f"{at}.{json_name(item, field)}{below}", value


KINDS: Mapping[str, Callable[[Any, Any, WireStruct], Found]] = {
    "absolute": _absolute,
    "among": _among,
    "at_most": _at_most,
    "only_with": _only_with,
    "open": _open,
    "unique": _unique,
    "uri": _uri,
    "word": _word,
}
"""Kind of rule -> its check."""
