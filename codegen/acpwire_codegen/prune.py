"""Cuts a model down to what some names reach: types, updates by their tag, methods.

Owns: what a name can stand for, what comes along with it, and what becomes of a union of which only some variants were
asked for. Does not know: schemas, or where the result goes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .decide import alternatives_of
from .dialect import refs
from .model import Member, Model, Union


class UnknownRootError(Exception):
    """A name is none of the schema's types, updates and methods."""


def prune(model: Model, roots: Sequence[str]) -> Model:
    """The part of a model that the roots reach. Raises `UnknownRootError`, which names the nearest there are.

    A root is the name of a type, of a method (`session/prompt`, or `SESSION_PROMPT`), or of an update: its class or its
    tag. A method brings its params and its result, a type what its members hold. An update, or the union of them all,
    brings the notification that carries it, so that lines are read. A union of which nothing but some updates was asked
    for keeps those; any other is an `UnknownVariant` to it, as unknown ones are. A method whose params and result are
    there comes along, and so do the codes of errors, which belong to no type.
    """
    asked = _resolve(model, roots)
    whole = _reached(model, asked.types | _types_of(model, asked.methods))
    for union in model.unions:
        values = asked.updates.get(union.name, set())
        if values and union.name not in whole:
            model = _narrowed(model, union, values)
        if values or union.name in asked.types:
            asked.methods.update(_carriers(model, union.name))  # their params hold the union
    kept = _reached(model, asked.types | _types_of(model, asked.methods))
    return _cut(model, kept)


@dataclass
class _Asked:
    """What the roots stand for."""

    types: set[str] = field(default_factory=set[str])
    methods: set[str] = field(default_factory=set[str])
    """Their constants."""
    updates: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Union -> the tags of the variants that were named."""


def _resolve(model: Model, roots: Sequence[str]) -> _Asked:
    types = {name for name in (*(s.name for s in model.structs), *(a.name for a in model.aliases)) if name[0] != "_"}
    methods: dict[str, set[str]] = {}
    for method in model.methods:
        for name in (method.name, method.constant):
            methods.setdefault(name, set()).add(method.constant)
    updates: dict[str, tuple[str, str]] = {}
    for union in model.unions:
        if union.open and any(_carriers(model, union.name)):
            for value, name in union.variants.items():
                updates |= {value: (union.name, value), name: (union.name, value)}
    asked = _Asked()
    for root in roots:
        if root in updates:
            union_name, value = updates[root]
            asked.updates.setdefault(union_name, set()).add(value)
        elif root in types:
            asked.types.add(root)
        elif root in methods:
            asked.methods |= methods[root]
        else:
            raise UnknownRootError(_unknown(root, {*types, *methods, *updates}))
    return asked


def _unknown(root: str, known: Iterable[str]) -> str:
    spelled: dict[str, list[str]] = {}
    for name in sorted(known):
        spelled.setdefault(name.lower(), []).append(name)
    found = difflib.get_close_matches(root.lower(), spelled, n=4, cutoff=0.5)
    nearest = [name for lower in found for name in spelled[lower]]
    hint = f"the nearest are {', '.join(nearest)}" if nearest else "names are those of the generated package"
    return f"the schema has no type, update or method {root!r}; {hint}"


def _carriers(model: Model, union: str) -> Iterator[str]:
    """The notifications to the client of which a member is a value of the union."""
    members = model.members_of
    for method in model.methods:
        if method.kind == "notification" and method.side == "client":
            held = {str(member.hint.get("$ref", "")) for member in members.get(method.params, ())}
            if f"#/$defs/{union}" in held:
                yield method.constant


def _types_of(model: Model, constants: set[str]) -> set[str]:
    """The params and results of methods."""
    found = {
        name for method in model.methods if method.constant in constants for name in (method.params, method.result)
    }
    return found - {"None"}


def _narrowed(model: Model, union: Union, values: set[str]) -> Model:
    """The model with a union that keeps some of its variants."""
    kept = replace(union, variants={value: cls for value, cls in union.variants.items() if value in values})
    gone = union.variants.keys() - values
    if not gone:
        return model
    place = next(place for place, name in model.names.items() if name == union.name)
    hint, typing, guards = alternatives_of(kept, place)
    note = f"This copy leaves {len(gone)} of its variants out; they are `UnknownVariant`s to it too."
    aliases = [
        replace(alias, hint=hint, typing=typing, doc=(*_doc_without(alias.doc, gone), note))
        if alias.name == union.name
        else alias
        for alias in model.aliases
    ]
    unions = [kept if other is union else other for other in model.unions]
    return replace(model, structs=[*model.structs, *guards], aliases=aliases, unions=unions)


def _doc_without(doc: Sequence[str], values: Iterable[str]) -> Iterator[str]:
    starts = tuple(f"- `{value}`: " for value in values)
    return (line for line in doc if not line.startswith(starts))


# --- reaching and cutting ---------------------------------------------------------------------------------------------


def _reached(model: Model, names: Iterable[str]) -> set[str]:
    """The classes and aliases that a package needs to have these."""
    needs = _needs(model)
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found and name in needs:
            found.add(name)
            left += needs[name]
    return found


def _needs(model: Model) -> Mapping[str, set[str]]:
    """Class or alias -> those that its definition names."""
    needs: dict[str, set[str]] = {}

    def held(hint: Mapping[str, object]) -> set[str]:
        return {name.removeprefix("#/$defs/") for name in refs(dict(hint))}

    def of_members(members: Iterable[Member]) -> set[str]:
        return {name for member in members for name in held(member.hint)}

    for struct in model.structs:
        needs[struct.name] = of_members(struct.members) | ({struct.base} if struct.base else set())
    for alias in model.aliases:
        hints = (alias.hint, *model.choices.get(alias.name, ()))
        needs[alias.name] = {name for hint in hints for name in held(hint)}
    for union in model.unions:
        needs[union.name] |= {*union.variants.values(), *union.rest, *([union.fallback] if union.fallback else [])}
    return needs


def _cut(model: Model, kept: set[str]) -> Model:
    """The model without the classes and aliases that are not kept, and without what is said about them."""
    methods = [method for method in model.methods if {method.params, method.result} <= kept | {"None"}]
    names = kept | {method.name for method in methods}
    return replace(
        model,
        structs=[struct for struct in model.structs if struct.name in kept],
        aliases=[alias for alias in model.aliases if alias.name in kept],
        unions=[union for union in model.unions if union.name in kept],
        choices={name: hints for name, hints in model.choices.items() if name in kept},
        states={name: tag for name, tag in model.states.items() if name in kept},
        methods=methods,
        unstable=[name for name in model.unstable if name.partition(".")[0].partition("=")[0] in names],
        values={name: values for name, values in model.values.items() if name in kept},
        rules=[rule for rule in model.rules if rule.owner in kept],
        meta_rules={name: rule for name, rule in model.meta_rules.items() if name in kept},
        names={place: name for place, name in model.names.items() if name in kept},
    )
