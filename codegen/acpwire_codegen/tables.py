"""What the templates of unions, methods, roles and the package itself print, taken from the model as text.

Owns: the tables beside the types, and the names that a package exports. Does not know: types.py.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from .docstrings import docstring, escaped, indented
from .model import Method, Model, SendingRule
from .naming import EXPORTED, is_taken


class RenderError(Exception):
    """What was or would be printed is not the model; nothing is written."""


def context(model: Model) -> dict[str, Any]:
    """Everything that the templates read."""
    hints = [hint for choice in model.choices.values() for hint in choice]
    kinds = ("request", "notification")
    flags = _flags(model)
    used = {name for members in flags.values() for value in members.values() for name in value.split(" | ")}
    return {
        "model": model,
        "public": _public(model),
        "exported": sorted([*_public(model), *EXPORTED, *(m.constant for m in model.methods), *model.codes]),
        "version": escaped(model.version),
        "flags": flags,
        "flag_names": "".join(f"{name}, " for name in sorted(used)),
        "patches": _patches(model),
        "floats": _floats(model),
        "usual": _usual(model),
        "rules": _rules(model),
        "received": {side: {kind: _received(model, side, kind) for kind in kinds} for side in ("agent", "client")},
        "choices_need_annotations": any(hint.get("type") == "array" for hint in hints),
        "fast": any(method.constant == "SESSION_UPDATE" for method in model.methods),
    }


def check_names(model: Model) -> None:
    """Raise `RenderError` unless every name that the package gives is free, and means one thing."""
    places = {name: place for place, name in model.names.items()}
    meanings: dict[str, list[str]] = {}
    for name in [*(struct.name for struct in model.structs), *(alias.name for alias in model.aliases)]:
        meanings.setdefault(name, []).append(places.get(name, "what a union needs"))
    for method in model.methods:
        meanings.setdefault(method.constant, []).append(f"the method {method.name}")
    for name, value in model.codes.items():
        meanings.setdefault(name, []).append(f"the code {value}")
    wrong = {name: what for name, what in meanings.items() if len(what) > 1 or is_taken(name)}
    if wrong:
        lines = [f"{name} is taken and would be the name of {' and of '.join(what)}" for name, what in wrong.items()]
        raise RenderError("\n".join([*lines, "a definition can be given another in overrides.toml [names]"]))


def quoted(text: str) -> str:
    """A string as Python text in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def _public(model: Model) -> list[str]:
    return sorted(
        name for name in [*(s.name for s in model.structs), *(a.name for a in model.aliases)] if name[0] != "_"
    )


_FLAG_NAMES = {"error": "ERROR", "null": "NULL", "skip": "SKIP"}


def _flags(model: Model) -> dict[str, dict[str, str]]:
    """Class -> JSON name -> the flags of the members that have any, as Python text."""
    table: dict[str, dict[str, str]] = {}
    for struct in model.structs:
        if struct.keeps_unknown:
            continue
        for member in struct.members:
            names = [_FLAG_NAMES[flag] for flag in member.flags]
            if struct.exclusive and not struct.exclusive[0] and member.attr in struct.exclusive[1]:
                names.append("ALTERNATIVE")
            if names:
                table.setdefault(struct.name, {})[member.wire] = " | ".join(names)
    return table


def _patches(model: Model) -> dict[str, dict[str, str]]:
    """Class -> attribute of a patch -> what null leaves behind, as Python text."""
    table: dict[str, dict[str, str]] = {}
    for struct in model.structs:
        for member in struct.members:
            if member.patch:
                reset = "()" if member.reset == "[]" else repr(member.reset or None)
                table.setdefault(struct.name, {})[member.attr] = reset
        if struct.base in table:
            table[struct.name] = table[struct.base]
    return table


def _floats(model: Model) -> dict[str, list[str]]:
    """Class -> the attributes in which a float may be, at any depth: numbers, any JSON, and what holds them."""
    members = model.members_of
    aliases = {alias.name: [alias.hint, *model.choices.get(alias.name, ())] for alias in model.aliases}
    holders: set[str] = {struct.name for struct in model.structs if struct.keeps_unknown}

    def may_hold(hint: Mapping[str, Any]) -> bool:
        if "$ref" in hint:
            name = str(hint["$ref"]).removeprefix("#/$defs/")
            return name in holders or any(map(may_hold, aliases.get(name, ())))
        if not hint or "number" in hint.get("type", ""):
            return True
        inner = [hint.get("items"), hint.get("additionalProperties"), *hint.get("anyOf", ())]
        return any(may_hold(child) for child in inner if child is not None)

    before = -1
    while len(holders) != before:
        before = len(holders)
        holders |= {name for name, own in members.items() if any(may_hold(member.hint) for member in own)}
    table = {name: [member.attr for member in own if may_hold(member.hint)] for name, own in members.items()}
    open_objects = {struct.name for struct in model.structs if struct.keeps_unknown}
    return {name: attrs for name, attrs in table.items() if attrs and name not in open_objects}


def _usual(model: Model) -> list[tuple[str, str, str]]:
    """Class, attribute, and the class of what is there in most of the traffic: chunks of text."""
    path = [("UpdateSessionNotification", "update"), ("AgentMessageChunk", "content"), ("TextContent", "")]
    has_all = {name for name, _ in path} <= {struct.name for struct in model.structs}
    return [(owner, attr, usual) for (owner, attr), (usual, _) in pairwise(path)] if has_all else []


def _received(model: Model, side: str, kind: str) -> str:
    """The type of every request or notification that a side can get."""
    names = [m.params for m in model.methods if m.side in (side, "protocol", "proxy") and m.kind == kind]
    params = " | ".join(dict.fromkeys([*names, "Raw"]))
    return f"{kind.capitalize()}[{params}]"


def _rules(model: Model) -> dict[str, list[SendingRule]]:
    table: dict[str, list[SendingRule]] = {}
    for rule in model.rules:
        table.setdefault(rule.owner, []).append(rule)
    return table


def runtime(hint: Mapping[str, Any]) -> str:
    """The run-time type of one alternative, as text in unions.py."""
    if "$ref" in hint:
        return "t." + str(hint["$ref"]).removeprefix("#/$defs/")
    inner = f"Sequence[{runtime(hint['items'])}]"
    return f"Annotated[{inner}, Meta(min_length={hint['minItems']})]" if "minItems" in hint else inner


def call_name(method: Method) -> str:
    """What a method is called as a Python method; `t` would hide the types from the annotations."""
    name = method.constant.lower()
    return name + "_" if keyword.iskeyword(name) or name == "t" else name


def method_doc(method: Method, indent: int = 0) -> str:
    """One method's docstring: what it is for, which way it goes, and what it needs."""
    to = {"agent": "client to agent", "client": "agent to client", "proxy": "to the proxy"}.get(
        method.side, "both ways"
    )
    facts = f"`{method.name}`, a {method.kind}, {to}; {'stable' if method.stable else 'draft only'}."
    if method.gate:
        facts += f" Needs `{method.gate}`."
    return indented(docstring((method.doc, facts), indent), indent)
