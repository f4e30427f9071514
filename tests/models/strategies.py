"""Values of everything the pinned draft defines, for hypothesis, in two ways that know nothing of each other.

`instances` follows the generator's model and builds generated classes. `documents` follows the edited schema alone and
builds plain JSON that is valid by it; `reencoded` says what decoding and encoding such a document must leave of it.
Beside them: `mutations` of a document, and `samples`, a fixed draw from a strategy.
Does not know: decoders, or what they do with any of it.
"""

from __future__ import annotations

import ast
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeGuard

import hypothesis
from hypothesis import strategies as st

from acpwire import v2
from acpwire_codegen import decide, load
from acpwire_codegen.ledger import Ledger
from acpwire_codegen.model import Alias, Member, Model, Struct

Node = dict[str, Any]
Strategy = st.SearchStrategy[Any]

INT64 = (-(2**63), 2**63 - 1)
RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": INT64,
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
LARGEST = 1.7976931348623157e308


@functools.cache
def model() -> Model:
    """The generator's model of the pinned schema."""
    directory = load.schema_directory()
    return decide.build(load.read_pinned(directory), load.read_tables(directory))


@functools.cache
def schema() -> Node:
    """The pinned schema with the edits of overrides.toml."""
    directory = load.schema_directory()
    return Ledger(load.read_pinned(directory), load.read_tables(directory)).edited()


def is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: Any) -> TypeGuard[list[Any]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


def definition(name: str) -> Node:
    """One definition of the schema."""
    node: Node = schema()["$defs"][name]
    return node


def target(node: Node) -> str:
    """The definition that a `$ref` names."""
    return str(node["$ref"]).removeprefix("#/$defs/")


@functools.cache
def public() -> Mapping[str, Struct | Alias]:
    """Name -> class or alias of the model, less the guards and fallbacks that are private to the package."""
    entries: list[Struct | Alias] = [*model().structs, *model().aliases]
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name) if entry.name[0] != "_"}


def type_of(name: str) -> Any:
    """The generated type of that name."""
    return getattr(v2, name)


@functools.cache
def node_of(name: str) -> Node:
    """What the schema says about a generated type; of a variant all but its tag, which stands beside the members."""
    entry = public()[name]
    if isinstance(entry, Alias):
        if name in schema()["$defs"]:
            return _ref(name)
        return _ref(_flat(entry).place) if entry.marked else {"type": "string"}  # StopReason, the tag of a flat union
    if not entry.union:
        return _ref(entry.place)
    union = definition(entry.union)
    branch = next(it for it in union["anyOf"] if it["properties"].get(entry.tag_field, {}).get("const") == entry.tag)
    return {**_untagged(union, entry.tag_field, drop=("anyOf",)), "allOf": [_untagged(branch, entry.tag_field)]}


def _ref(name: str) -> Node:
    return {"$ref": f"#/$defs/{name}"}


def _untagged(node: Node, tag: str, drop: tuple[str, ...] = ()) -> Node:
    kept = {key: value for key, value in node.items() if key not in drop}
    kept["properties"] = {wire: child for wire, child in node.get("properties", {}).items() if wire != tag}
    kept["required"] = [wire for wire in node.get("required", []) if wire != tag]
    return kept


def _flat(alias: Alias) -> Struct:
    """The class of a flat union, of which an alias is the name."""
    return next(struct for struct in model().structs if struct.name == target(alias.hint))


def tag_in(name: str) -> dict[str, str]:
    """The tag that a class adds to its members, if it is a variant."""
    entry = public()[name]
    return {entry.tag_field: entry.tag} if isinstance(entry, Struct) and entry.tag else {}


# --- scalars and any JSON --------------------------------------------------------------------------------------------

TEXTS = ("", "a", "two words", '"\\/', "\x00\x1f\x7f", "\u2028\u2029", "e\u0301", "日本語", "\U0001f600", "\U0010ffff")
UNKNOWN = ("_custom", "_vendor.example/kind", "from_the_future", "", "\u2028\U0001f600")
"""Values of tags and enums that no version knows: custom ones begin with `_` (EX-01), others are future ones."""
EXTRA = ("_vendor", "zzFuture", "\U0001f600")
"""Members that no definition has."""


def texts(shortest: int = 0) -> Strategy:
    """Strings, odd ones more often than chance would have them."""
    fixed = [text for text in TEXTS if len(text) >= shortest]
    return st.sampled_from(fixed) | st.text(min_size=shortest, max_size=4)


def integers(least: int, most: int) -> Strategy:
    """Integers within bounds, the edges more often than chance would have them."""
    edges = [n for n in (least, most, least + 1, most - 1, 0, 1, -1, 2**53 + 1) if least <= n <= most]
    return st.sampled_from(edges) | st.integers(least, most)


def numbers(least: float | None = None, most: float | None = None) -> Strategy:
    """Finite floats within bounds."""
    low, high = -LARGEST if least is None else float(least), LARGEST if most is None else float(most)
    edges = [x for x in (low, high, 0.0, -0.0, 1.0, 0.1, 1e-7, 1e22, 5e-324) if low <= x <= high]
    return st.sampled_from(edges) | st.floats(low, high)


def _json() -> Strategy:
    plain = st.none() | st.booleans() | integers(*INT64) | numbers() | texts()
    inner = plain | st.lists(plain, max_size=2) | st.dictionaries(texts(), plain, max_size=2)
    return plain | st.lists(inner, max_size=2) | st.dictionaries(texts(), inner, max_size=2)


JSON = _json()
OBJECTS: Strategy = st.dictionaries(texts(), JSON, max_size=2)


# --- instances, from the model ---------------------------------------------------------------------------------------


@functools.cache
def instances(name: str) -> Strategy:
    """Valid values of a generated class or alias."""
    entry = _entries()[name]
    if isinstance(entry, Alias):
        return _values(entry)
    return _objects(entry)


@functools.cache
def _entries() -> Mapping[str, Struct | Alias]:
    entries: list[Struct | Alias] = [*model().structs, *model().aliases]
    return {entry.name: entry for entry in entries}


def _values(alias: Alias) -> Strategy:
    """Values of an alias: variants known and unknown, alternatives, constants and what an open set adds to them."""
    union = next((union for union in model().unions if union.name == alias.name), None)
    if union is not None:
        known = [instances(name) for name in (*union.variants.values(), *union.rest)]
        return st.one_of(*known, *([unknown_variants(alias.name)] if union.open else []))
    if alias.name in model().choices:
        return st.one_of(*map(_hinted, model().choices[alias.name]))
    if alias.marked:  # a flat union: its class, or an unknown value of its tag
        return instances(_flat(alias).name) | unknown_variants(_flat(alias).place)
    if alias.typing.startswith("Literal["):
        known = ast.literal_eval(alias.typing[len("Literal") : alias.typing.rindex("]") + 1])
        return st.sampled_from(known) | (st.sampled_from(UNKNOWN) if known[0].__class__ is str else _hinted(alias.hint))
    return _hinted(alias.hint)


def _objects(struct: Struct) -> Strategy:
    """Instances of a class, built by keyword."""
    members = {member.attr: member for member in model().members_of[struct.name]}
    forms = [set(members)]
    if struct.exclusive:
        forms = [set(members) - set(struct.exclusive[1]) | {attr} for attr in struct.exclusive[1]]
    built: list[Strategy] = []
    for attrs in forms:
        if "request_id" in attrs and struct.exclusive:
            attrs.discard("tool_call_id")  # it belongs to the session scope (H21)
        alone = attrs & set(struct.exclusive[1] if struct.exclusive else ())
        needed = {a: _attribute(members[a], given=True) for a in attrs if members[a].required or a in alone}
        optional = {a: _attribute(members[a]) for a in attrs if a not in needed}
        built.append(st.fixed_dictionaries(needed, optional=optional))
    kwargs = st.one_of(built)
    if struct.keeps_unknown:
        others = st.dictionaries(st.sampled_from(("others", "_x")), JSON, max_size=1)
        kwargs = st.builds(_joined, others, kwargs)
    return kwargs.map(functools.partial(_build, type_of(struct.name) if struct.name[0] != "_" else None))


def _build(cls: Any, kwargs: dict[str, Any]) -> Any:
    return cls(**kwargs)


def _joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    return {**first, **second}


def _attribute(member: Member, *, given: bool = False) -> Strategy:
    """What an attribute may hold; an optional one may be set to the mark of its absence as well."""
    value = _hinted(member.hint)
    return value if given or not member.may_be_unset else st.just(v2.UNSET) | value


def _hinted(hint: Node) -> Strategy:
    """Values of a type, by the plain schema that the model has for it."""
    if "$ref" in hint:
        return instances(target(hint))
    if "anyOf" in hint:
        return st.one_of([_hinted(part) for part in hint["anyOf"]])
    if "enum" in hint:
        return st.sampled_from(hint["enum"])
    match hint.get("type"):
        case None:
            return JSON
        case [kind, "null"]:
            return st.none() | _hinted({**hint, "type": kind})
        case "array":
            return st.lists(_hinted(hint["items"]), min_size=hint.get("minItems", 0), max_size=2)
        case "object":
            others = hint["additionalProperties"]
            return OBJECTS if others is True else st.dictionaries(texts(), _hinted(others), max_size=2)
        case "integer":
            least = hint.get("minimum", INT64[0])
            return integers(least, hint.get("maximum", INT64[1] if least < 0 else RANGES["uint64"][1]))
        case kind:
            return _scalars(str(kind), hint)


def _scalars(kind: str, node: Node) -> Strategy:
    if kind == "string":
        return texts(node.get("minLength", 0))
    if kind == "number":
        return numbers(node.get("minimum"), node.get("maximum"))
    return {"boolean": st.booleans(), "null": st.none()}[kind]


@functools.cache
def unknown_variants(name: str) -> Strategy:
    """Values of an open union with a tag that this version does not know, in some layout of their JSON."""
    tag = tag_of(definition(name))
    shapes = [shape for shape in _shapes(definition(name)) if isinstance(shape, _Object) and shape.unknown]
    assert tag, f"{name} is no tagged union"

    def made(document: dict[str, Any], layout: Callable[[Any], bytes]) -> v2.UnknownVariant:
        return v2.UnknownVariant(document[tag], layout(document))

    return st.builds(made, st.one_of([shape.strategy() for shape in shapes]), st.sampled_from(ONE_LINE))


# --- layouts of JSON -------------------------------------------------------------------------------------------------


def compact(document: Any) -> bytes:
    """A document as encoders write it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _escaped(document: Any) -> bytes:
    return json.dumps(document, separators=(" , ", "\t:"), allow_nan=False).encode()


def _on_lines(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False).encode()


ONE_LINE = (compact, _escaped)
LAYOUTS = (compact, _escaped, _on_lines)


# --- documents, from the schema --------------------------------------------------------------------------------------


@functools.cache
def documents(name: str) -> Strategy:
    """Plain JSON that is valid by what the schema says about a generated type, less its tag."""
    return _valid(node_of(name))


@dataclass(frozen=True)
class _Object:
    """One form that an object may take."""

    members: Mapping[str, Strategy]
    required: frozenset[str]
    extra: Strategy | None
    """Values of members that are not named; a plain object may have some, which mean nothing (EX-09)."""
    unknown: bool = False
    """Whether it is a variant that the schema does not name."""

    def strategy(self) -> Strategy:
        needed = {name: self.members[name] for name in self.members if name in self.required}
        optional = {name: self.members[name] for name in self.members if name not in self.required}
        named = st.fixed_dictionaries(needed, optional=optional)
        names = [name for name in (*EXTRA, *(("content", "text") if self.unknown else ())) if name not in self.members]
        others: Strategy = st.just(dict[str, Any]())
        if self.extra is not None:
            others |= st.dictionaries(st.sampled_from(names), self.extra, min_size=1, max_size=2)
        return st.builds(_joined, others, named) | st.builds(_joined, named, others)

    def joined(self, other: _Object) -> _Object:
        """Both at once; where both name a member, the other says it more exactly."""
        return _Object(
            {**self.members, **other.members},
            self.required | other.required,
            self.extra if other.extra is None else other.extra,
            self.unknown or other.unknown,
        )


_Shape = _Object | st.SearchStrategy[Any]


def _valid(node: Node) -> Strategy:
    return st.one_of([s.strategy() if isinstance(s, _Object) else s for s in _shapes(node)])


def _shapes(node: Node) -> list[_Shape]:
    """The forms that a value may take."""
    parts: list[list[_Shape]] = []
    if "type" in node:
        kinds: list[str] = node["type"] if is_array(node["type"]) else [node["type"]]
        parts.append([_own(kind, node) for kind in kinds])
    if "$ref" in node:
        parts.append(_shapes(definition(target(node))))
    parts += [_shapes(part) for part in node.get("allOf", [])]
    for key in ("anyOf", "oneOf"):
        if key in node:
            parts.append([shape for branch in node[key] for shape in _branch(node, node[key], branch)])
    if not parts:
        return [JSON]
    joined, *rest = parts
    for part in rest:
        joined = [_both(first, second) for first, second in product(joined, part)]
    return joined


def _both(first: _Shape, second: _Shape) -> _Shape:
    assert isinstance(first, _Object)
    assert isinstance(second, _Object)
    return first.joined(second)


def _branch(union: Node, branches: list[Node], branch: Node) -> list[_Shape]:
    """The forms of one branch; the one without a constant takes any tag that its siblings do not (`not`)."""
    tag = tag_of(union)
    marker = branch.get("properties", {}).get(tag, {})
    if tag is None or marker.get("type") != "string" or "const" in marker:
        return _shapes(branch)
    known = {other["properties"][tag].get("const") for other in branches if tag in other.get("properties", {})}
    tags = st.sampled_from([value for value in UNKNOWN if value not in known])
    found: list[_Shape] = []
    for shape in _shapes(branch):
        assert isinstance(shape, _Object)
        is_open = tag not in union.get("properties", {})  # a tag that may be missing is flat at run time (X4)
        found.append(replace(shape, members={**shape.members, tag: tags}, unknown=is_open))
    return found


def _own(kind: str, node: Node) -> _Shape:
    """What a node says by itself, its references and branches apart."""
    if "const" in node:
        return st.just(node["const"])
    if kind == "array":
        return st.lists(_valid(node["items"]), min_size=node.get("minItems", 0), max_size=2)
    if kind == "integer":
        low, high = RANGES[node["format"]]
        return integers(max(low, node.get("minimum", low)), min(high, node.get("maximum", high)))
    if kind == "number":  # an integer is a number too
        low, high = node.get("minimum", -LARGEST), node.get("maximum", LARGEST)
        return numbers(low, high) | st.sampled_from([whole for whole in (0, 1, -7, 2**53 + 1) if low <= whole <= high])
    if kind != "object":
        return _scalars(kind, node)
    others = node.get("additionalProperties")
    if "properties" not in node:
        return OBJECTS if others in (True, None) else st.dictionaries(texts(), _valid(others), max_size=2)
    members = {name: _valid(child) for name, child in node["properties"].items()}
    return _Object(members, frozenset(node.get("required", [])), JSON)


def tag_of(node: Node) -> str | None:
    """The member that tells the branches of a union apart."""
    branches: list[Node] = [*node.get("anyOf", []), *node.get("oneOf", [])]
    constant = {name for it in branches for name, child in it.get("properties", {}).items() if "const" in child}
    assert len(constant) < 2
    return constant.pop() if constant else None


# --- what decoding and encoding leave of a document ------------------------------------------------------------------

PATCHES = {
    "ToolCallUpdate": "name title kind status content locations rawInput rawOutput capabilities _meta",
    "UserMessage": "content _meta",
    "AgentMessage": "content _meta",
    "AgentThought": "content _meta",
    "TerminalUpdate": "command cwd output exitStatus size capabilities _meta",
    "SessionInfoUpdate": "title updatedAt _meta",
    "UsageUpdate": "cost",
    "CompactionUpdate": "summary error _meta",
    "SubagentUpdate": "title description capabilities state cwd additionalDirectories _meta",
    "SessionMessage": "senderSessionId recipientSessionId senderMessageId recipientMessageId content _meta",
    "SessionMessageChunk": "senderSessionId recipientSessionId",
}
"""Requirements C3 and MT-03, and X7 for the last: where null is told from omitted (H6)."""
THREE_STATE = {f"{owner}.{wire}" for owner, wires in PATCHES.items() for wire in wires.split()}
FLAT = {"state", "stopReason"}
"""Tags that share one flat object with others: members of every branch count as known (X4)."""


def reencoded(name: str, document: Any) -> Any:
    """What a document reads like after decoding and encoding.

    Unknown variants and any JSON stay as they are. Else unknown members go (EX-09), null goes where it means the same
    as nothing (H7), `[]` and `{}` go where they are the default, a default of the schema comes (H27), and numbers of a
    floating type are floats. A variant has its tag.
    """
    entry = public()[name]
    owner = entry.union if isinstance(entry, Struct) else name
    return _kept(node_of(name), owner, document)


def _kept(node: Node, owner: str, value: Any) -> Any:
    if is_object(value):
        return _kept_object(node, owner, value)
    if is_array(value):
        items = _items(node, value)
        return value if items is None else [_kept(items, owner, item) for item in value]
    return float(value) if value.__class__ is int and "number" in node.get("type", ()) else value


def _items(node: Node, value: list[Any]) -> Node | None:
    """The type of an array's items; of several arrays, the one whose required members they have (H15)."""
    arrays = _arrays(node)
    for part in arrays:
        item: Node = part["items"]
        needs: list[str] = definition(target(item)).get("required", []) if "$ref" in item else []
        if len(arrays) < 2 or all(set(needs) <= set(entry) for entry in value):
            return item
    return None


def _arrays(node: Node) -> list[Node]:
    return [part for part in _parts(node) if "items" in part]


def _parts(node: Node) -> Iterator[Node]:
    """A node, and everything that it is made of."""
    yield node
    if "$ref" in node:
        yield from _parts(definition(target(node)))
    for key in ("allOf", "anyOf", "oneOf"):
        for part in node.get(key, []):
            yield from _parts(part)


@dataclass
class _Known:
    """The members of an object that mean something."""

    members: dict[str, tuple[str, Node]]
    required: set[str]
    whole: bool = False
    """Whether it stays as it is."""
    others: Node | None = None
    """The type of members that are not named, where those are kept."""


def _kept_object(node: Node, owner: str, value: dict[str, Any]) -> dict[str, Any]:
    known = _Known({}, set())
    _gather(node, owner, value, known)
    if known.whole or not (known.members or known.others is not None):
        return value
    kept: dict[str, Any] = {}
    for name, (place, child) in known.members.items():
        if name not in value:
            if "default" in child:
                kept[name] = child["default"]
            continue
        left = _kept(child, place, value[name])
        optional = name not in known.required
        if left is None and optional and _has_type(child) and f"{place}.{name}" not in THREE_STATE:
            continue
        if left in ([], {}) and optional and child.get("type") in ("array", "object"):
            continue
        kept[name] = left
    if known.others is not None:
        kept |= {n: _kept(known.others, owner, x) for n, x in value.items() if n not in known.members}
    return kept


def _has_type(child: Node) -> bool:
    """Whether a member is of some type; of any JSON, null is a value like others (H22)."""
    return any(key in child for key in ("type", "$ref", "allOf", "anyOf", "oneOf"))


def _gather(node: Node, owner: str, value: dict[str, Any], known: _Known) -> None:
    if "$ref" in node:
        _gather(definition(target(node)), target(node), value, known)
    for part in node.get("allOf", []):
        _gather(part, owner, value, known)
    if "properties" in node:
        known.members |= {name: (owner, child) for name, child in node["properties"].items()}
        known.required |= set(node.get("required", []))
    others = node.get("additionalProperties")
    if others is not None and others is not False:
        known.others = {} if others is True else others
    for key in ("anyOf", "oneOf"):
        if key in node:
            _gather_branches(node, node[key], owner, value, known)


def _gather_branches(node: Node, branches: list[Node], owner: str, value: dict[str, Any], known: _Known) -> None:
    tag = tag_of(node)
    objects = [branch for branch in branches if branch.get("type") != "null"]
    if any(set(branch) == {"title"} for branch in objects):  # one of them is any JSON, so nothing is told apart
        known.whole = True
    elif tag in FLAT:
        is_open = tag not in node.get("properties", {})
        listed = {branch["properties"][tag].get("const") for branch in objects}
        known.whole |= is_open and value.get(tag) not in listed
        for branch in objects:
            if "const" in branch["properties"][tag] or not is_open:
                _gather({**branch, "additionalProperties": None}, owner, value, known)
        known.required.discard("stopReason")
        known.members[tag] = (owner, node.get("properties", {}).get(tag, {"type": "string"}))
    elif tag is not None:
        fits = [b for b in objects if b.get("properties", {}).get(tag, {}).get("const") == value.get(tag, tag)]
        rest = [branch for branch in objects if tag not in branch.get("properties", {}) and tag not in value]
        known.whole |= not (fits or rest)
        for branch in [*fits, *rest]:
            _gather(branch, owner, value, known)
    elif "EmbeddedResourceResource" in owner:  # text wins (H19)
        _gather(objects[0 if "text" in value else 1], owner, value, known)
    else:
        for branch in objects:
            _gather(branch, owner, value, known)


# --- mutations -------------------------------------------------------------------------------------------------------

Path = tuple[str | int, ...]
SECRET = "hunter2-swordfish"  # noqa: S105  # a value that must not show up in messages
BAD: Mapping[str, Any] = {
    "null": None,
    "number": 7,
    "fraction": 0.5,
    "negative": -1,
    "huge": 2**70,
    "string": SECRET,
    "empty": "",
    "object": {"zz": SECRET},
    "array": [SECRET],
    "bool": True,
}


@dataclass(frozen=True)
class Mutation:
    """A document with one fault: what was done, where, and what came of it."""

    kind: str
    path: Path
    document: Any


def mutations(document: Any) -> Iterator[Mutation]:
    """Every document that differs from this one in one place."""
    for path, value in places(document):
        if path and isinstance(path[-1], str):
            yield Mutation("remove", path, _without(document, path))
        for kind, bad in BAD.items():
            if bad.__class__ is not value.__class__ or bad != value:
                yield Mutation(kind, path, _with(document, path, bad))
        if value.__class__ is int:
            yield Mutation("float", path, _with(document, path, float(value)))
        if is_array(value):
            for index in {0, len(value)}:
                items: list[Any] = [*value[:index], {"zz": SECRET}, *value[index:]]
                yield Mutation("item", (*path, index), _with(document, path, items))


def places(document: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every place in a document, with what is there."""
    yield path, document
    if is_object(document):
        for name, child in document.items():
            yield from places(child, (*path, name))
    elif is_array(document):
        for index, child in enumerate(document):
            yield from places(child, (*path, index))


def _with(document: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    copy = document.copy()
    copy[path[0]] = _with(document[path[0]], path[1:], value)
    return copy


def _without(document: Any, path: Path) -> Any:
    parent = document
    for step in path[:-1]:
        parent = parent[step]
    return _with(document, path[:-1], {name: child for name, child in parent.items() if name != path[-1]})


CHECKS = (
    hypothesis.HealthCheck.too_slow,
    hypothesis.HealthCheck.data_too_large,
    hypothesis.HealthCheck.filter_too_much,
)


def samples(strategy: Strategy, count: int, seed: int = 0) -> list[Any]:
    """The same draw every time, for tests that compare all of something."""
    found: list[Any] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=CHECKS,  # nothing is tested here, so nothing is slow or large
    )
    @hypothesis.given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found
