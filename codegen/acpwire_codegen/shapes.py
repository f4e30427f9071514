"""What one definition or type of the dialect is, in the terms in which two of them are compared.

Owns: kinds of JSON, bounds, names of members and their likeness, and the words for a type.
Does not know: that there are two schemas, or what a difference between them means.
"""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import Any

from .dialect import Node, resolved
from .naming import snake
from .normalise import RANGES

Defs = dict[str, Node]

LIMITS = (
    ("minimum", 1, "at least"),
    ("maximum", -1, "at most"),
    ("minLength", 1, "length at least"),
    ("minItems", 1, "items at least"),
)
"""Keyword, whether more of it is tighter (1) or looser (-1), words."""


def form(node: Node) -> str:
    """`union`, `object`, or `type` for anything else."""
    return "union" if "variants" in node else "object" if "properties" in node else "type"


def keys(node: Node) -> set[str]:
    """The tags of a union, the members of an object."""
    return set(node.get("variants") or node.get("properties", {}))


def end(node: Node, defs: Defs) -> str:
    """The definition that a reference leads to in the end."""
    name = str(node["$ref"])
    while "$ref" in defs[name]:
        name = defs[name]["$ref"]
    return name


def kinds(node: Node, defs: Defs) -> set[str]:
    """The kinds of JSON that a type takes, null apart; none where it takes any."""
    node = resolved(node, defs)
    if form(node) != "type":
        return {"object"}
    inner = node.get("scalars") or node.get("choice")
    if inner:
        return set[str]().union(*(kinds(child, defs) for child in inner))
    return {node["type"]} if "type" in node else set()


def are_within(one: set[str], two: set[str]) -> bool:
    """Whether every JSON of the first kinds is of the second."""
    if not one or not two:
        return not two
    return one - {"integer"} <= two and ("integer" not in one or bool({"integer", "number"} & two))


def is_nullable(node: Node, defs: Defs) -> bool:
    """Whether null is a value; any JSON has it among others."""
    last = resolved(node, defs)
    return bool(node.get("nullable") or last.get("nullable")) or (form(last) == "type" and not kinds(last, defs))


def origin(place: str, child: Node) -> str:
    """The definition that upstream says a member in."""
    return str(child["at"].split("/")[2]) if "at" in child else place


def member(owner: Node, name: str) -> Node:
    """A member; the tag of an open union that was flattened into its object is open, though its class is not."""
    child: Node = owner["properties"][name]
    return {**child, "open": True} if owner.get("state") == name else child


def default(node: Node) -> str:
    """The default of a member as JSON."""
    return json.dumps(node["default"], sort_keys=True) if "default" in node else ""


def implied(node: Node, defs: Defs) -> Any:
    """What a receiver makes of an optional member that is not there."""
    is_array = resolved(node, defs).get("type") == "array" and not is_nullable(node, defs)
    return node.get("default", [] if is_array else None)


def limit(node: Node, key: str) -> Any:
    """A bound; none where there is none, or where it bounds nothing."""
    if key == "maximum" and node.get("bits") == "uint64":
        return node.get(key, 2**64 - 1)
    return node.get(key) if key in ("minimum", "maximum") else node.get(key) or None


def tags(node: Node) -> set[str]:
    """The tags of unions that were flattened into an object."""
    members: Defs = node.get("properties", {})
    return {value for child in members.values() if "of" in child for value in child["enum"]}


def overlap(one: set[str], two: set[str]) -> float:
    """How much of the smaller of two sets of names is in the other; `_meta`, which all have, does not count."""
    one, two = one - {"_meta"} or one, two - {"_meta"} or two
    return len(one & two) / min(len(one), len(two)) if one and two else float(one == two)


def likeness(old: str, new: str) -> float:
    """How much two names have in common, from 0 to 1; words that many names end in do not count."""
    one, two = (set(snake(name).split("_")) for name in (old, new))
    shared = (one & two) - {"id", "name", "request", "response", "notification", "capabilities"}
    if one <= two or two <= one or shared:
        return 0.5 + len(one & two) / (2 * len(one | two))
    ratio = SequenceMatcher(None, old.lower(), new.lower()).ratio()
    return ratio if ratio >= 0.8 else 0.0


# --- words ------------------------------------------------------------------------------------------------------------


def said(node: Node, defs: Defs) -> str:
    """A type in words."""
    text = _said(node, defs)
    return f"{text} or null" if node.get("nullable") else text


def _said(node: Node, defs: Defs) -> str:
    if "$ref" in node:
        last = resolved(node, defs)
        is_plain = form(last) == "type" and "enum" not in last
        return f"{node['$ref']} ({_said(last, defs)})" if is_plain else str(node["$ref"])
    if form(node) != "type":
        return "object"
    if "enum" in node:
        values = [json.dumps(value) for value in node["enum"]]
        shown = ", ".join(values[:4]) + (", ..." if len(values) > 4 else "")
        return f"{'open' if node['open'] else 'closed'} set of {shown}"
    inner = node.get("scalars") or node.get("choice")
    if inner:
        return " or ".join(said(child, defs) for child in inner)
    if node.get("type") == "array":
        return f"array of {said(node['items'], defs)}"
    if node.get("type") == "object":
        return f"map of {said(node['additionalProperties'], defs)}"
    return str(node.get("bits") or node.get("type") or "any JSON")


def said_bounds(node: Node) -> str:
    """The bounds of a type in words; what an integer's format says already is said by its name."""
    ends = RANGES.get(node.get("bits", ""), (None, None))
    known = {"minimum": ends[0], "maximum": ends[1]}
    parts = [node["bits"]] if node.get("bits") else []
    parts += [f"{word} {node[key]}" for key, _, word in LIMITS if node.get(key) not in (None, 0, known.get(key))]
    return ", ".join(parts) or "no bounds"


def said_flags(flags: set[str]) -> str:
    """What the decoding flags of a member forgive, in words."""
    words = {"error": "bad values", "null": "null", "skip": "bad items"}
    return f"forgives {', '.join(words[flag] for flag in sorted(flags)) or 'nothing'}"


def said_alternatives(node: Node) -> str:
    """Which of some members of an object must be there, in words."""
    exclusive = node.get("exclusive")
    if not exclusive:
        return "no alternatives"
    return f"{'exactly one' if exclusive['one'] else 'one'} of {', '.join(sorted(exclusive['of']))}"
