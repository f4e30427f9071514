"""Decides a model: for every definition its classes or alias, members, defaults, docs, and the tables beside them.

Owns: the way from the dialect and the hand-kept tables to the model. Does not know: how published schemas are written,
or how a model is printed.
"""

from __future__ import annotations

import re
from typing import Any, cast

from .dialect import Node, UnknownIdiomError, resolved, takes
from .facts import Branch, Facts
from .ledger import Ledger
from .load import Source, Tables
from .model import Alias, Member, Method, Model, SendingRule, Struct, Union
from .naming import Names, check_attributes, constant, is_taken, number_name, pascal, snake
from .normalise import normalise

BOUNDS = {"minimum": "ge", "maximum": "le", "minLength": "min_length"}
PYTHON = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


def build(source: Source, tables: Tables) -> Model:
    """Decide the model of one schema. Raises `UnknownIdiomError`, and `ModelError` if the tables do not fit it."""
    ledger = Ledger(source, tables)
    schema = normalise(ledger.edited())
    names = Names(schema, ledger)
    facts = Facts(source, schema, names)
    model = Model(source.version, source.sha256)
    types = _Types(model, schema.defs, ledger, names, facts)
    for place, node in schema.defs.items():
        types.add(place, node)
    _add_methods(model, schema.methods, ledger, names, facts)
    model.unstable = sorted({*facts.unstable(), *(method.name for method in model.methods if not method.stable)})
    model.names |= names.places()
    model.warnings = ledger.close(model.names, {place for place in schema.dropped if "/" not in place})
    return model


class _Types:
    """Adds the classes, aliases and unions of each definition to a model."""

    def __init__(self, model: Model, defs: dict[str, Node], ledger: Ledger, names: Names, facts: Facts) -> None:
        self.model = model
        self.defs = defs
        self.ledger = ledger
        self.names = names
        self.facts = facts
        self.values_of: dict[str, list[Any]] = {}
        """Name of an open set that stands in a member -> its values."""

    def add(self, place: str, node: Node) -> None:
        """Add one definition."""
        if "variants" in node:
            self._add_union(place, node)
        elif "properties" in node:
            self._add_structs(place, node)
        else:
            self._add_alias(place, node)

    # -- unions --

    def _add_union(self, place: str, node: Node) -> None:
        name, tag = self.names.body[place], node["tag"]
        variants = {value: self.names.variant[place, value] for value in node["variants"]}
        rest = tuple(self.names.body[target] for target in node["rest"])
        fallback = self.names.body[node["fallback"]] if node["fallback"] else ""
        union = Union(name, tag, variants, node["open"], fallback, rest)
        hint, typing, guards = alternatives_of(union, place)
        self.model.unions.append(union)
        self.model.structs += guards
        lines = [f"Told apart by `{tag}`" + ("; any other tag becomes an `UnknownVariant`." if node["open"] else ".")]
        for value, cls in variants.items():
            lines.append(f"- `{value}`: `{cls}`. {self.ledger.doc('variants', f'{place}/{value}')}".rstrip())
        self.model.aliases.append(
            Alias(
                name=name,
                hint=hint,
                typing=typing,
                doc=(self.ledger.doc("definitions", place), self.facts.line(place), *lines),
                marked=True,
            )
        )

    # -- objects --

    def _add_structs(self, place: str, node: Node) -> None:
        """The class of an object, and one for each tag it goes under."""
        body = self.names.body[place]
        members = tuple(self._member(place, wire, child, node) for wire, child in node["properties"].items())
        check_attributes(f"/$defs/{place}", [member.attr for member in members], is_dict=node.get("extra", False))
        if not place.endswith("/other"):
            for wire, child in node["properties"].items():
                self._add_rules(body, place, wire, child)
        branches = self.names.branches.get(place, [])
        own = next((branch for branch in branches if self.names.variant[branch] == body), None)
        rule = self.model.meta_rules.get(body, "") or ("members" if any(m.patch for m in members) else "")
        states = [
            line for child in node["properties"].values() for line in self._value_docs(child) if not child["open"]
        ]
        exclusive = node.get("exclusive")
        when = node.get("when")
        self.model.structs.append(
            Struct(
                name=body,
                place=place,
                members=members,
                keeps_unknown=node.get("extra", False),
                exclusive=(exclusive["one"], _alternatives(exclusive["of"])) if exclusive else None,
                when=(snake(when["tag"]), {v: list(map(snake, w)) for v, w in when["values"].items()})
                if when
                else None,
                doc=(self._doc(place), self.facts.line(place, own, rule), *states),
                **self._tagging(own),
            )
        )
        others = [branch for branch in branches if branch != own]
        for branch in others:
            self.model.structs.append(
                Struct(
                    name=self.names.variant[branch],
                    place="/".join(branch),
                    base=body,
                    doc=(self._doc("/".join(branch)), self.facts.line(place, branch, rule)),
                    **self._tagging(branch),
                )
            )
        for name in (self.names.variant[branch] for branch in others if body in self.model.meta_rules):
            self.model.meta_rules[name] = self.model.meta_rules[body]
        if "state" in node:
            for name in [body, *(self.names.variant[branch] for branch in others)]:
                self.model.states[name] = node["state"]
            doc = f"A `{body}`, or an `UnknownVariant` where `{node['state']}` has a value that is not listed."
            self.model.aliases.append(
                Alias(self.names.reference(place), _ref(body), f"{body} | UnknownVariant", doc=(doc,), marked=True)
            )

    def _tagging(self, branch: Branch | None) -> dict[str, Any]:
        if branch is None:
            return {}
        union, value = branch
        return {"tag_field": self.defs[union]["tag"], "tag": value, "union": self.names.body[union]}

    def _doc(self, place: str) -> str:
        union, _, value = place.partition("/")
        if value == "other":
            return f"What an unknown `{union}` must still have: checked, never handed out."
        return self.ledger.doc("variants", place) if value else self.ledger.doc("definitions", place)

    def _value_docs(self, node: Node) -> list[str]:
        """A line for each value of an enum that was the tag of a union."""
        if "of" not in node:
            return []
        return [f"- `{value}`: {self.ledger.doc('variants', node['of'] + '/' + value)}" for value in node["enum"]]

    # -- members --

    def _add_rules(self, owner: str, place: str, wire: str, child: Node) -> None:
        """What binds senders about a member, beyond its type."""
        found: list[tuple[str, str, str]] = []
        target = child.get("items", child).get("$ref", "")
        by_type = self.ledger.entry("types", target)
        if by_type is not None:
            found.append((by_type["kind"], "None", by_type["requirement"]))
        given = self.ledger.entry("rules", _origin(place, wire, child)[0])
        if given is not None:
            argument = given.get("argument", "")
            if isinstance(argument, list):
                argument = tuple(cast("list[str]", argument))
            elif "=" not in argument:  # of "status=failed" the name is the same either way
                argument = ".".join(map(snake, argument.split(".")))
            found.append((given["kind"], repr(argument), given["requirement"]))
        pointer, held = _origin(place, wire, child)[1], cast("Node", child.get("items", child))
        enum = self.defs.get(target, held)
        if enum.get("open") and enum.get("type") == "string":
            name = self.names.body[target] if target in self.names.body else self._open_name(pointer, enum, wire)
            self.model.values[name] = tuple(enum["enum"])
            found.append(("open", f'VALUES["{name}"]', "EX-01"))
        if child.get("bits") == "uint64":
            found.append(("at_most", "2**64 - 1", "US-02"))
        self.model.rules += [SendingRule(owner, snake(wire), *rule) for rule in found]

    def _member(self, place: str, wire: str, child: Node, owner: Node) -> Member:
        origin, pointer = _origin(place, wire, child)
        required = wire in owner["required"]
        how = _REQUIRED if required else self._absence(place, wire, child, origin, pointer)
        return Member(
            wire=wire,
            attr=snake(wire),
            hint=self._hint(child, pointer, wire),
            required=required,
            flags=self._flags(child, pointer, required),
            is_base64=child.get("contentEncoding") == "base64" and required,
            doc="" if place.endswith("/other") else self.ledger.doc("fields", origin, needed=False),
            **how,
        )

    def _flags(self, child: Node, pointer: str, required: bool) -> tuple[str, ...]:
        """The decoding flags of a member, each of which must have something to fall back to."""
        flags: tuple[str, ...] = tuple(child.get("flags", ()))
        kind = resolved(child, self.defs).get("type")
        if (kind != "array" and "skip" in flags) or (kind not in ("array", "object") and "null" in flags):
            raise UnknownIdiomError(pointer, f"flags {', '.join(flags)} of type {kind}", "an array")
        if kind != "array" and "error" in flags and required:
            raise UnknownIdiomError(
                pointer, "a required member with a default on error", "an optional one, or an array"
            )
        return flags

    def _absence(self, place: str, wire: str, child: Node, origin: str, pointer: str) -> dict[str, Any]:
        """What stands for an optional member that is not there, and whether that is told apart from null."""
        if child.get("presence"):
            return _UNSET
        if "default" in child:
            return {"default": self._default(child, pointer)}
        if wire == "_meta":
            rule = self.ledger.meta_rule(place, pointer)
            if rule:
                self.model.meta_rules[self.names.body[place]] = rule
            return _UNSET if rule in ("patch", "replace") else _NONE
        patch = self.ledger.patch(origin, pointer)
        if patch is not None:
            return {**_UNSET, "patch": True, "reset": str(patch.get("reset", ""))}
        if not set(child) - {"flags", "at"}:  # any JSON, null included
            return _UNSET
        if child.get("nullable"):
            definition, _, name = origin.partition(".")
            plain = place.endswith("/other") or self.ledger.is_plain(definition, name, pointer)
            return _NONE if plain else _UNSET
        return {"array": {"default": "[]"}, "object": {"default": "{}"}}.get(child.get("type", ""), _UNSET)

    def _default(self, child: Node, pointer: str) -> str:
        """A default that the schema gives, as Python text (H27)."""
        value: Any = child["default"]
        if not takes(child, value, self.defs):
            raise UnknownIdiomError(pointer, f"default {value!r}", "a value that the type takes")
        if isinstance(value, dict) and "properties" in self.defs.get(child.get("$ref", ""), {}):
            name = self.names.reference(child["$ref"])
            members = self.defs[child["$ref"]]["properties"]
            implied = {key: member["default"] for key, member in members.items() if "default" in member}
            if implied | cast("Node", value) == implied:
                return f"field(default_factory=lambda: {name}())"
            return f"field(default_factory=lambda: convert({value!r}, {name}))"
        if isinstance(value, bool | int | float | str) or value in ([], {}):
            return repr(cast("object", value))
        raise UnknownIdiomError(pointer, f"default {value!r}", "a scalar, or an object of a type with members")

    # -- types --

    def _hint(self, node: Node, pointer: str, wire: str = "") -> Node:
        """The plain schema of a type, with Python names for definitions."""
        if node.get("nullable"):
            inner = self._hint({key: value for key, value in node.items() if key != "nullable"}, pointer, wire)
            typed_map = inner.get("type") == "object" and inner["additionalProperties"]
            # `anyOf` would give the bounds inside a name of their own; `type` loses what a map holds
            if "type" in inner and "enum" not in inner and not typed_map:
                return {**inner, "type": [inner["type"], "null"]}
            return {"anyOf": [*inner.get("anyOf", [inner]), {"type": "null"}]}
        if "choice" in node:
            raise UnknownIdiomError(pointer, "alternatives in a member", "alternatives in a definition of their own")
        if "$ref" in node:
            return _ref(self.names.reference(node["$ref"]))
        if "scalars" in node:
            if any(key in child for child in node["scalars"] for key in (*BOUNDS, "minItems")):
                raise UnknownIdiomError(pointer, "a range in a union of scalars", "such a union as a definition")
            return {"anyOf": [self._hint(child, pointer) for child in node["scalars"]]}
        if "enum" in node:
            if node["open"]:
                return self._open_enum(node, pointer, wire)
            return {"type": node["type"], "enum": node["enum"]}
        kind = node.get("type")
        held: Node = node.get("items") or node.get("additionalProperties") or {}
        if any(key in held for key in BOUNDS):
            raise UnknownIdiomError(pointer, "a range of what an array or a map holds", "a definition that has it")
        if kind == "array":
            bounds = {"minItems": node["minItems"]} if "minItems" in node else {}
            return {"type": "array", "items": self._hint(node["items"], pointer, wire), **bounds}
        if kind == "object":
            return {"type": "object", "additionalProperties": self._hint(node["additionalProperties"], pointer, wire)}
        return {key: node[key] for key in ("type", *BOUNDS) if key in node}

    def _open_enum(self, node: Node, pointer: str, wire: str) -> Node:
        """An open set of strings that stands in a member, or in what it holds, gets a name of its own (StopReason)."""
        name = self._open_name(pointer, node, wire)
        if all(alias.name != name for alias in self.model.aliases):
            doc = self.ledger.doc("definitions", name, needed=False)
            self.model.aliases.append(self._enum(name, node, pointer, doc, ""))
            self.model.names[pointer] = name
        return _ref(name)

    def _open_name(self, pointer: str, node: Node, wire: str) -> str:
        """The member's name, with its definition's before it where that alone is taken or would mean two things."""
        if not wire:
            raise UnknownIdiomError(pointer, "an open set of constants in a type", "such a set as a definition")
        sets = {
            tuple(enum["enum"])
            for definition in self.defs.values()
            for key, child in definition.get("properties", {}).items()
            for enum in (child, child.get("items", {}), child.get("additionalProperties", {}))
            if key == wire and enum.get("open")
        }
        name, others = pascal(wire), self.names.places().values()
        if len(sets) > 1 or is_taken(name) or name in others:
            name = pascal(pointer.split("/")[2]) + name
        if is_taken(name) or name in others or self.values_of.setdefault(name, node["enum"]) != node["enum"]:
            raise UnknownIdiomError(pointer, f"a set that would be called {name}", "a name that means nothing else")
        return name

    def _enum(self, name: str, node: Node, pointer: str, doc: str, facts: str) -> Alias:
        values, base = node["enum"], PYTHON[node["type"]]
        if not node["open"]:
            return Alias(name, {"type": node["type"], "enum": values}, doc=(doc, facts))
        for value in values if node["type"] == "integer" else ():
            title = node["titles"].get(str(value))
            if title and self.model.codes.setdefault(number_name(title), value) != value:
                raise UnknownIdiomError(pointer, f"two numbers called {title!r}", "a title for each")
        hint: Node = {key: node[key] for key in ("type", *BOUNDS) if key in node}
        note = "Open: unknown values pass and come back unchanged."
        typing = f"Literal[{', '.join(map(repr, values))}] | {base}"
        return Alias(name, hint, typing, doc=(doc, facts, note, *self._value_docs(node)))

    def _add_alias(self, place: str, node: Node) -> None:
        """A definition that is no class: a name for a scalar, an enum, alternatives, another definition, any JSON."""
        name, pointer = self.names.body[place], f"/$defs/{place}"
        doc, facts = self.ledger.doc("definitions", place), self.facts.line(place)
        if "nullable" in node and ("enum" in node or "choice" in node):
            raise UnknownIdiomError(pointer, "constants or alternatives that may be null", "null where they are used")
        if "enum" in node:
            self.model.aliases.append(self._enum(name, node, pointer, doc, facts))
        elif "choice" in node:
            hints = tuple(self._hint(child, pointer) for child in node["choice"])
            self.model.choices[name] = hints
            typing = " | ".join(_typing(hint) for hint in hints)
            self.model.aliases.append(Alias(name, hints[0], typing, doc=(doc, facts), marked=True))
        else:
            parts = [_without_bounds(child) for child in node.get("scalars", [])]
            hint = self._hint({**node, "scalars": parts} if parts else node, pointer)
            bounded = self._bounded(node, pointer) if parts != node.get("scalars", []) else ""
            self.model.aliases.append(Alias(name, hint, doc=(doc, facts), bounded=bounded))

    def _bounded(self, node: Node, pointer: str) -> str:
        """A union of scalars of which some have bounds, as Python text."""
        parts = [_text(self._hint(child, pointer)) for child in node["scalars"]]
        return " | ".join([*parts, *(["None"] if node.get("nullable") else [])])


def alternatives_of(union: Union, place: str) -> tuple[Node, str, list[Struct]]:
    """What a union is at run time, what type checkers see, and the guard that it needs, if any.

    `place` is its definition. A guard is a class that nothing ever is, as a lone tagged class would accept a missing
    tag.
    """
    tagged = list(union.variants.values())
    seen = [*tagged, *union.rest, *(["UnknownVariant"] if union.open else [])]
    guards: list[Struct] = []
    if len(tagged) < 2:
        name = f"_{union.name}Guard"
        guards = [Struct(name, f"{place}/guard", (_NEVER,), tag_field=union.tag_field, tag="\0", union=union.name)]
    hint = {"anyOf": [_ref(cls) for cls in (*tagged, *(guard.name for guard in guards))]}
    return hint, " | ".join(dict.fromkeys(seen)), guards


def _add_methods(model: Model, bound: dict[str, tuple[str, str]], ledger: Ledger, names: Names, facts: Facts) -> None:
    """The methods, each (name, side, kind) once, with the definitions of its params and result."""
    table: dict[tuple[str, str, str], dict[str, str]] = {}
    for place, (method, side) in bound.items():
        kind = "notification" if place.endswith("Notification") else "request"
        for one in ("agent", "client") if side == "both" else (side,):
            part = "result" if place.endswith("Response") else "params"
            other = table.setdefault((method, one, kind), {}).setdefault(part, place)
            if other != place:
                raise UnknownIdiomError(
                    f"/$defs/{max(place, other)}",
                    f"{method} ({one}, {kind}) as {min(place, other)} has it",
                    f"{part} of each method once",
                )
    for (method, side, kind), places in sorted(table.items()):
        if "params" not in places or (kind == "request") != ("result" in places):
            raise UnknownIdiomError(
                "/$defs", f"{method} ({side}, {kind}) with {places}", "params, and a result of a request"
            )
        same = {(other, how) for name, other, how in table if name == method}
        model.methods.append(
            Method(
                name=method,
                side=side,
                kind=kind,
                params=names.body[places["params"]],
                result=names.body[places["result"]] if kind == "request" else "None",
                constant=constant(method, side, kind, same),
                stable=not facts.is_unstable(places["params"]),
                gate=ledger.entry("gates", f"{method} {side}") or "",
                doc=ledger.doc("definitions", places["params"], needed=False),
            )
        )


def _alternatives(members: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {snake(key): tuple(map(snake, own)) for key, own in members.items()}


def _origin(place: str, wire: str, child: Node) -> tuple[str, str]:
    """Where upstream says a member: as "Definition.name", by which the tables call it, and as a JSON pointer."""
    pointer = child.get("at", f"/$defs/{place}/properties/{wire}")
    origin = pointer.removeprefix("/$defs/").replace("/properties/", ".")
    return re.sub(r"/(?:anyOf|oneOf)/\d+\.", ".", origin), pointer


_REQUIRED: dict[str, Any] = {}
_NONE: dict[str, Any] = {"default": "None"}
_UNSET: dict[str, Any] = {"default": "UNSET", "may_be_unset": True}
_NEVER = Member("never", "never", {"type": "integer", "minimum": 1, "maximum": 0}, required=True)


def _ref(name: str) -> Node:
    return {"$ref": f"#/$defs/{name}"}


def _typing(hint: Node) -> str:
    """The annotation that type checkers see for an alternative."""
    if "$ref" in hint:
        return str(hint["$ref"]).removeprefix("#/$defs/")
    return f"Sequence[{_typing(hint['items'])}]"


def _without_bounds(node: Node) -> Node:
    return {key: value for key, value in node.items() if key not in (*BOUNDS, "minItems")}


def _text(hint: Node) -> str:
    """A type of a union of scalars as Python text."""
    if hint.get("type") == "null":
        return "None"
    if isinstance(hint.get("type"), list):
        return " | ".join(_text({**hint, "type": kind}) for kind in hint["type"])
    if "anyOf" in hint:
        return " | ".join(map(_text, hint["anyOf"]))
    if "enum" in hint:
        return f"Literal[{', '.join(map(repr, hint['enum']))}]"
    bounds = {**BOUNDS, "minItems": "min_length"}
    meta = ", ".join(f"{bounds[key]}={hint[key]}" for key in bounds if key in hint)
    if "$ref" in hint:
        name = str(hint["$ref"]).removeprefix("#/$defs/")
    elif hint.get("type") == "array":
        name = f"Sequence[{_text(hint['items'])}]"
    elif hint.get("type") == "object":
        name = f"Mapping[str, {_text(hint['additionalProperties'])}]"
    else:
        name = PYTHON[hint["type"]] if hint else "Any"
    return f"Annotated[{name}, Meta({meta})]" if meta else name
