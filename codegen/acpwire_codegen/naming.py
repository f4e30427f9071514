"""Python names: of attributes, classes, aliases and method constants.

Owns: how a name is made and the promise that none means two things. Does not know: types, docs, or printing.
"""

from __future__ import annotations

import builtins
import keyword
import re

from .dialect import Schema, UnknownIdiomError, refs
from .ledger import Ledger

_TYPES_USES = {
    *("Annotated", "Any", "ClassVar", "Literal", "Mapping", "Sequence", "TYPE_CHECKING", "TypeAlias"),
    *("Meta", "Model", "UNSET", "UnsetType", "convert", "field"),
    *("OpenObject", "UnknownVariant", "WireStruct", "decode_base64", "exactly_one", "first_of", "required_with"),
}
"""What types.py imports, and how its printer calls the document."""

EXPORTED = (
    *("ErrorObject", "ErrorResponse", "Malformed", "Method", "Notification", "Request", "Response"),
    *("Caller", "DecodeError", "EncodeError", "UNSET", "UnknownVariant", "UnsetType", "Violation"),
    *("AgentCalls", "AgentHandler", "ClientCalls", "ClientHandler", "FromAgent", "FromClient"),
    *("METHODS", "META_RULES", "PATCHES", "SCHEMA_VERSION", "UNSTABLE"),
    *("decode", "decode_from_agent", "decode_from_client", "encode", "validate"),
)
"""What every package exports, whatever its schema."""

RESERVED = {
    *_TYPES_USES,
    *EXPORTED,
    *("Callable", "DECODING", "Final", "Raw", "encode_value", "line_decoder"),
    *("methods", "roles", "types", "unions"),
}
"""What generated modules use or are called; such a definition needs a name in overrides.toml."""


def is_taken(name: str) -> bool:
    """Whether a generated package cannot call anything by this name."""
    return not name.isidentifier() or keyword.iskeyword(name) or name in RESERVED or name in dir(builtins)


def snake(name: str) -> str:
    """`sessionId` -> `session_id`; `_meta` -> `meta`; keywords get a trailing underscore."""
    name = name.lstrip("_$")
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    attr = re.sub(r"\W", "_", words).lower()
    return attr + "_" if keyword.iskeyword(attr) else attr


def pascal(text: str) -> str:
    """`user_message_chunk` -> `UserMessageChunk`."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", text))


def _words(name: str) -> list[str]:
    return re.findall(r"[A-Z][a-z0-9]*|[a-z0-9]+", name)


def check_attributes(pointer: str, attrs: list[str], is_dict: bool = False) -> None:
    """Refuse names that a class cannot have, or that would hide a type its annotations use, or a dict's methods."""
    hidden = {"str", "int", "float", "bool"} | _TYPES_USES | {"tag", "never"}
    if is_dict:
        hidden |= {*dir(dict), "fields", "put", "with_members"}
    bad = {attr for attr in attrs if attrs.count(attr) > 1 or attr in hidden or not attr.isidentifier()}
    if bad:
        raise UnknownIdiomError(
            pointer,
            f"members whose attributes would be {sorted(bad)}",
            "attributes that a class can have, each once, and that hide nothing which it uses",
        )


class Names:
    """The name of every class and alias of one schema.

    `body` is definition -> name of its class where it stands without a tag (or of its alias); `variant` is
    (union, tag) -> name of the class. They are the same class where a definition is used as one branch alone.
    """

    def __init__(self, schema: Schema, ledger: Ledger) -> None:
        self._defs = schema.defs
        self._ledger = ledger
        self.branches: dict[str, list[tuple[str, str]]] = {}
        self.body: dict[str, str] = {}
        self.variant: dict[tuple[str, str], str] = {}
        direct: set[str] = set(schema.methods)
        for place, node in schema.defs.items():
            for value, target in node.get("variants", {}).items():
                self.branches.setdefault(target, []).append((place, value))
            direct.update(node.get("rest", []))
            for child in [node, *node.get("properties", {}).values()]:
                direct.update(refs(child))
        for place, node in schema.defs.items():
            branches = self.branches.get(place, [])
            if len(branches) > 1 or (branches and (place in direct or "state" in node)):
                self._split(place, branches)
            else:
                self.body[place] = self._given(place, _automatic(place))
                self.variant |= dict.fromkeys(branches, self.body[place])
        self._check()

    def _check(self) -> None:
        """Refuse a name that is taken, or that two places have."""
        owners: dict[str, list[str]] = {}
        for place, name in self.places().items():
            if place in self.body or name not in self.body.values():
                owners.setdefault(name, []).append(place)
        clash = {name: places for name, places in owners.items() if len(places) > 1 or is_taken(name)}
        if clash:
            told = ", ".join(f"{name!r} for {' and '.join(places)}" for name, places in sorted(clash.items()))
            raise UnknownIdiomError(
                f"/$defs/{next(iter(clash.values()))[0]}" if len(clash) == 1 else "/$defs",
                f"names that are taken: {told}",
                "others, in overrides.toml [names], under the place that each is for",
            )

    def _split(self, place: str, branches: list[tuple[str, str]]) -> None:
        """A body under several tags, or with a tag and without, is one class without, one for each (H23, H24)."""
        for union, value in branches:
            repeats = len(branches) > 1 and _words(pascal(value))[-1] != _words(place)[-1]
            automatic = pascal(value) + (pascal(union) if repeats else "")
            self.variant[union, value] = self._given(f"{union}/{value}", automatic)
        if place in {self.variant[branch] for branch in branches}:
            self.body[place] = self._given(f"{place}/body", re.sub("Update$", "", place) + "Fields")
        else:
            self.body[place] = self._given(place, place)

    def _given(self, place: str, automatic: str) -> str:
        """The automatic name, unless overrides.toml gives another for it."""
        entry = self._ledger.entry("names", place)
        if entry is None:
            return automatic
        if entry["expected"] != automatic:
            self._ledger.trouble(
                f"overrides.toml: names.{place} is stale: it expects {entry['expected']}, the name is {automatic}"
            )
        return str(entry["name"])

    def reference(self, place: str) -> str:
        """The name by which other types refer to a definition."""
        return f"Any{self.body[place]}" if "state" in self._defs[place] else self.body[place]

    def places(self) -> dict[str, str]:
        """Place in the schema -> name, for comparing two pins."""
        return {**self.body, **{f"{union}/{value}": name for (union, value), name in self.variant.items()}}


def _automatic(place: str) -> str:
    """The name of a definition, or of a branch that holds its members itself."""
    union, _, value = place.partition("/")
    if not value:
        return place
    return f"_{union}Other" if value == "other" else pascal(value) + union


def number_name(title: str) -> str:
    """`Parse error` -> `PARSE_ERROR`, the name of a number that the schema gives a title."""
    name = re.sub(r"\W+", "_", title).strip("_").upper()
    return name if name.isidentifier() else f"NUMBER_{name}"


def constant(method: str, side: str, kind: str, others: set[tuple[str, str]]) -> str:
    """`session/prompt` -> `SESSION_PROMPT`; one name on two sides or of two kinds says which (H29)."""
    name = re.sub(r"\W+", "_", method).strip("_").upper()
    name = name if name.isidentifier() else f"METHOD_{name}"
    if len(others) == 1:
        return name
    sides, kinds = {other for other, _ in others}, {how for _, how in others}
    parts = [name, side.upper() if len(sides) > 1 else "", kind.upper() if len(others) > len(sides) else ""]
    return "_".join(filter(None, parts)) if len(kinds) > 1 or len(sides) > 1 else name
