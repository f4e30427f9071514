"""What a generated package consists of, as plain data.

Owns: the dataclasses. Does not know: schemas, how a model is decided, or how it is printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .dialect import Node


@dataclass(frozen=True)
class Member:
    """One attribute of a generated class."""

    wire: str
    attr: str
    hint: Node
    """The plain JSON Schema that datamodel-code-generator turns into the annotation."""
    required: bool
    default: str = ""
    """Python text of the default; empty where the member is required."""
    may_be_unset: bool = False
    """Whether leaving it out is told apart from null (`| UnsetType = UNSET`)."""
    flags: tuple[str, ...] = ()
    doc: str = ""
    patch: bool = False
    """Whether leaving it out keeps what the receiver has, and null clears it."""
    reset: str = ""
    """What null resets a patch to, where that is a value."""
    is_base64: bool = False
    """Whether it is bytes in base64, which stay text and have an accessor (H30)."""


@dataclass(frozen=True)
class Struct:
    """One generated class."""

    name: str
    place: str
    """The definition, or "Union/value" for a branch that is no definition of its own."""
    members: tuple[Member, ...] = ()
    base: str = ""
    tag_field: str = ""
    tag: str = ""
    union: str = ""
    keeps_unknown: bool = False
    exclusive: tuple[bool, Mapping[str, tuple[str, ...]]] | None = None
    """Alternatives that were merged: whether exactly one must be there, and the member that each is known by -> its
    other members, which count only with it."""
    when: tuple[str, Mapping[str, list[str]]] | None = None
    doc: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alias:
    """One generated name for a type that is no class."""

    name: str
    hint: Node
    typing: str = ""
    """What type checkers see, where it differs from the run-time type."""
    doc: tuple[str, ...] = ()
    marked: bool = False
    """Whether its run-time type carries its name, for the second look to find the tables by."""
    bounded: str = ""
    """Python text of a union of scalars with bounds, which the hint cannot hold without a new name."""


@dataclass(frozen=True)
class Union:
    """A tagged union: the table by which the second look chooses a class."""

    name: str
    tag_field: str
    variants: Mapping[str, str]
    open: bool
    fallback: str = ""
    rest: tuple[str, ...] = ()


@dataclass(frozen=True)
class Method:
    """One method of the protocol."""

    name: str
    side: str
    kind: str
    params: str
    result: str
    constant: str
    stable: bool
    gate: str
    doc: str = ""


@dataclass(frozen=True)
class SendingRule:
    """What binds senders about one member beyond its type."""

    owner: str
    attr: str
    kind: str
    argument: str
    """Python text."""
    requirement: str


@dataclass
class Model:
    """Everything that is generated, decided."""

    version: str
    sha256: str
    structs: list[Struct] = field(default_factory=list[Struct])
    aliases: list[Alias] = field(default_factory=list[Alias])
    unions: list[Union] = field(default_factory=list[Union])
    choices: dict[str, tuple[Node, ...]] = field(default_factory=dict[str, tuple[Node, ...]])
    states: dict[str, str] = field(default_factory=dict[str, str])
    """Class whose closed tag stands for an open union -> that member."""
    methods: list[Method] = field(default_factory=list[Method])
    codes: dict[str, int] = field(default_factory=dict[str, int])
    unstable: list[str] = field(default_factory=list[str])
    values: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Open set of strings -> the values that the schema lists."""
    rules: list[SendingRule] = field(default_factory=list[SendingRule])
    meta_rules: dict[str, str] = field(default_factory=dict[str, str])
    names: dict[str, str] = field(default_factory=dict[str, str])
    warnings: list[str] = field(default_factory=list[str])

    @property
    def members_of(self) -> dict[str, tuple[Member, ...]]:
        """Class -> all its members, inherited ones included."""
        own = {struct.name: struct for struct in self.structs}
        return {
            name: (*(own[struct.base].members if struct.base in own else ()), *struct.members)
            for name, struct in own.items()
        }
