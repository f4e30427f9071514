"""Rewrites a published schema into the dialect, one idiom at a time.

Owns: the ordered passes, one for each idiom of ACP schemas. Every pass asserts what it finds, and none knows a version
or a definition by name.
Does not know: Python names, docs, overrides, or what is generated.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from .dialect import (
    SCALARS,
    Node,
    Schema,
    UnknownIdiomError,
    alternatives,
    check,
    check_cycles,
    check_shape,
    everywhere,
    is_constant,
    resolved,
    walk,
)

FLAGS = {
    "x-deserialize-default-on-error": "error",
    "x-deserialize-default-on-null": "null",
    "x-deserialize-skip-invalid-items": "skip",
}
RANGES: dict[str, tuple[int, int | None]] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, None),  # msgspec takes no bound beyond int64; senders are checked by `validate` (US-02)
}


def normalise(document: Node) -> Schema:
    """Run every pass over a copy of the document; raise `UnknownIdiomError` on anything that is left over."""
    check_shape(document)
    document = copy.deepcopy(document)
    schema = Schema(root=document, defs=document.get("$defs", {}))
    for pointer, node in everywhere(schema):
        for name, child in node.get("properties", {}).items():
            child["at"] = f"{pointer}/properties/{name}"  # where upstream says it, wherever the member ends up
    for step in PASSES:
        step(schema)
    if not schema.defs:
        raise UnknownIdiomError("/$defs", "no definitions", "what is to be generated")
    for name, definition in schema.defs.items():
        check(f"/$defs/{name}", definition)
    return schema


# --- passes, in order ------------------------------------------------------------------------------------------------


def bind_methods(schema: Schema) -> None:
    """`x-method` and `x-side` on a definition bind it to a method; aliases carry their own (H28, H29)."""
    for name, definition in schema.defs.items():
        method, side = definition.pop("x-method", None), definition.pop("x-side", None)
        if method is None and side is None:
            continue
        if not isinstance(method, str) or side not in ("agent", "client", "protocol", "proxy", "both"):
            raise UnknownIdiomError(f"/$defs/{name}", f"x-method {method!r}, x-side {side!r}", "a method and a side")
        schema.methods[name] = (method, side)


def drop_envelopes(schema: Schema) -> None:
    """The JSON-RPC envelopes that the root lists are hand-written in the runtime, once for all methods."""
    listed = {node["$ref"] for _, node in walk(schema.root) if "$ref" in node}
    for pointer in sorted(listed):
        name = pointer.removeprefix("#/$defs/")
        shapes = [schema.defs[name], *alternatives(schema.defs[name])] if name in schema.defs else []
        members = {member for shape in shapes for member in shape.get("properties", {})}
        if name not in schema.methods and ({"method", "params"} <= members or {"id", "result", "error"} <= members):
            del schema.defs[name]
            schema.dropped[name] = "a JSON-RPC envelope"
        elif name not in schema.defs:
            raise UnknownIdiomError(f"/$defs/{name}", "a root that lists it", "a definition of this schema")


def unwrap_refs(schema: Schema) -> None:
    """`allOf: [{$ref}]` is a reference with room for siblings; references become bare names."""
    for pointer, node in everywhere(schema):
        if "allOf" in node:
            only = node.pop("allOf")
            if len(only) != 1 or set(only[0]) != {"$ref"} or "$ref" in node:
                raise UnknownIdiomError(pointer, f"allOf of {len(only)}", "allOf with one $ref alone")
            node["$ref"] = only[0]["$ref"]
        if "$ref" in node:
            node["$ref"] = node["$ref"].removeprefix("#/$defs/")
            if node["$ref"] not in schema.defs:
                raise UnknownIdiomError(pointer, f"a reference to {node['$ref']}", "a definition of this schema")
    check_cycles(schema)


def fold_nulls(schema: Schema) -> None:
    """`type: [x, "null"]` and a `null` branch say that null is a value: `nullable`."""
    for pointer, node in everywhere(schema):
        if isinstance(node.get("type"), list):
            types = [name for name in node["type"] if name != "null"]
            if len(types) != 1:
                raise UnknownIdiomError(pointer, f"type {node['type']}", "one type, or one and null")
            node["type"], node["nullable"] = types[0], True
        for key in ("anyOf", "oneOf"):
            branches = node.get(key, [])
            kept = [branch for branch in branches if branch.get("type") != "null"]
            if len(kept) < len(branches):
                node["nullable"] = True
                node[key] = kept
                if len(kept) == 1 and "properties" not in node:
                    del node[key]
                    node.update(kept[0])


def read_flags(schema: Schema) -> None:
    """`x-deserialize-*` on a member become its flags; any other `x-` keyword is unknown."""
    for pointer, node in everywhere(schema):
        found = [key for key in node if key.startswith("x-") and key != "x-docs-ignore"]
        node.pop("x-docs-ignore", None)
        for key in found:
            if key not in FLAGS or node[key] is not True:
                raise UnknownIdiomError(pointer, f"{key}: {node[key]!r}", f"one of {', '.join(sorted(FLAGS))}: true")
        if found:
            if "/properties/" not in pointer:
                raise UnknownIdiomError(pointer, ", ".join(found), "decoding flags on a member of an object only")
            node["flags"] = sorted(FLAGS[key] for key in found)
            for key in found:
                del node[key]


def read_enums(schema: Schema) -> None:
    """Constants listed as branches or in `enum`; a last plain branch of the same type opens the set (H5, H36, H40)."""
    for pointer, node in everywhere(schema):
        branches = alternatives(node)
        listed = any("const" in branch or "enum" in branch for branch in branches) or "enum" in node
        if not listed or "open" in node:
            continue
        kind = node.get("type") or next((branch.get("type") for branch in branches), None)
        values: list[Any] = [value for value in node.get("enum", []) if value is not None or "nullable" not in node]
        titles: dict[str, str] = {}
        is_open = False
        for branch in branches:
            known = {"type", "title", "format", "const", "enum", "open", "titles"}
            if branch.get("type") != kind or is_open or set(branch) - known or branch.get("open"):
                raise UnknownIdiomError(pointer, f"a branch {branch}", f"constants of type {kind}, an open branch last")
            if "const" in branch or "enum" in branch:
                for value in branch.get("enum", [branch.get("const")]):
                    values.append(value)
                    titles[str(value)] = branch.get("title", "")
            else:
                is_open = True
        if kind not in ("string", "integer"):
            raise UnknownIdiomError(pointer, f"constants of type {kind}", "strings or integers")
        if not values or not all(is_constant(value, kind) for value in values):
            raise UnknownIdiomError(pointer, f"constants {values}", f"one or more, each of type {kind}")
        fmt, *others = {branch["format"] for branch in branches if "format" in branch} or {None}
        if others:
            raise UnknownIdiomError(pointer, "constants of several formats", "one format for all")
        for key in ("anyOf", "oneOf"):
            node.pop(key, None)
        node.update(type=kind, enum=values, open=is_open, titles=titles)
        if fmt:
            node["format"] = fmt


def bound_integers(schema: Schema) -> None:
    """An integer format is a range; a bound written beside it may only narrow it (H16, H32)."""
    for pointer, node in everywhere(schema):
        if node.get("type") != "integer":
            continue
        fmt: str | None = node.pop("format", None)
        if fmt is not None and fmt not in RANGES:
            raise UnknownIdiomError(pointer, f"integer format {fmt!r}", f"one of {', '.join(RANGES)}")
        low, high = RANGES.get(fmt or "", (None, None))
        node["bits"] = fmt or ""
        lows = [value for value in (node.pop("minimum", None), low) if value is not None]
        highs = [value for value in (node.pop("maximum", None), high) if value is not None]
        if lows:
            node["minimum"] = max(lows)
        if highs:
            node["maximum"] = min(highs)


def tag_unions(schema: Schema) -> None:
    """Branches told apart by one constant member are a tagged union, open where a branch takes any other tag (H3)."""
    for name in list(schema.defs):
        node = schema.defs[name]
        tag = _tag_of(node)
        if tag is not None:
            schema.defs[name] = _tagged(schema, name, node, tag)


def _tag_of(node: Node) -> str | None:
    """The member that tells the branches of a union apart, if it is a tagged one."""
    constant: list[set[str]] = [
        {member for member, child in branch.get("properties", {}).items() if "const" in child}
        for branch in alternatives(node)
    ]
    common = set[str]().union(*constant) if constant else set[str]()
    if len(common) == 1:
        return common.pop()
    for branch in alternatives(node):
        if branch.get("title") == "other" and branch.get("additionalProperties") is True:
            plain = [m for m in branch.get("required", []) if _bare(branch["properties"][m]) == {"type": "string"}]
            return plain[0] if plain else None
    return None


def _tagged(schema: Schema, name: str, node: Node, tag: str) -> Node:
    pointer = f"/$defs/{name}"
    shared = {key: child for key, child in node.get("properties", {}).items() if key != tag}
    required = [key for key in node.get("required", []) if key != tag]
    union: Node = {"tag": tag, "variants": {}, "open": False, "fallback": None, "rest": []}
    union["optional"] = node.get("properties", {}).get(tag)
    discriminator = node.get("discriminator", {}).get("propertyName", tag)
    extra = set(node) - {"title", "type", "properties", "required", "anyOf", "oneOf", "discriminator"}
    if extra or len({"anyOf", "oneOf"} & set(node)) != 1:
        raise UnknownIdiomError(pointer, f"a union with {sorted(node)}", "branches, and members of all of them")
    if discriminator != tag:
        raise UnknownIdiomError(
            pointer, f"discriminator {discriminator!r}", f"the member {tag!r} that the branches fix"
        )
    for index, branch in enumerate(alternatives(node)):
        here = f"{pointer}/{'anyOf' if 'anyOf' in node else 'oneOf'}/{index}"
        own = {key: child for key, child in branch.get("properties", {}).items() if key != tag}
        wants = [key for key in branch.get("required", []) if key != tag]
        marker = branch.get("properties", {}).get(tag)
        title = branch.get("title", "")
        if marker is None:  # no tag: an alternative of its own (H20; v1 has default branches)
            union["rest"].append(_payload(schema, f"{name}/{title}", branch, own, wants, shared, required, here))
        elif "const" in marker:
            value = marker["const"]
            if not isinstance(value, str):
                raise UnknownIdiomError(here, f"tag {value!r}", "a string as a tag")
            if value in union["variants"] or tag not in branch.get("required", []):
                raise UnknownIdiomError(here, f"tag {value!r} twice or optional", "every tag once, and required")
            union["variants"][value] = _payload(schema, f"{name}/{value}", branch, own, wants, shared, required, here)
        elif marker.get("type") == "null":
            if union["optional"] is None or own:
                raise UnknownIdiomError(here, "a branch without its tag", f"{tag!r} listed as a nullable member")
            union["optional"]["nullable"] = True
        else:
            union["open"] = True
            _check_other(here, branch, tag)
            if own or shared or alternatives(branch):
                union["fallback"] = f"{name}/other"
                schema.defs[union["fallback"]] = {
                    "properties": {tag: {"type": "string"}, **own, **shared},
                    "required": [tag, *wants, *required],
                    **{key: branch[key] for key in ("anyOf", "oneOf") if key in branch},
                }
    for other in (branch.get("not") for branch in alternatives(node)):
        listed = [b["properties"][tag].get("const") for b in alternatives(other or {})]
        if other is not None and Counter(map(repr, listed)) != Counter(map(repr, union["variants"])):
            raise UnknownIdiomError(
                pointer, f"a `not` list of {listed}", f"exactly the known tags {list(union['variants'])}"
            )
    if union["optional"] is None:
        del union["optional"]
    union["shared"] = shared
    return union


def _bare(node: Node) -> Node:
    """A member without the note of where it stands, to compare it with another."""
    return {key: value for key, value in node.items() if key != "at"}


def _check_other(pointer: str, branch: Node, tag: str) -> None:
    known = {"title", "type", "properties", "required", "not", "additionalProperties", "unevaluatedProperties"}
    extra = set(branch) - known - {"anyOf", "oneOf"}
    if _bare(branch["properties"][tag]) != {"type": "string"} or tag not in branch.get("required", []) or extra:
        raise UnknownIdiomError(pointer, f"a fallback with {sorted(extra)}", f"any other string as {tag!r}")


def _payload(  # the parts of one branch, which its caller has already told apart
    schema: Schema,
    key: str,
    branch: Node,
    own: dict[str, Node],
    wants: list[str],
    shared: dict[str, Node],
    required: list[str],
    pointer: str,
) -> str:
    """The definition that holds a branch's members; a new one where the members stand in the branch itself (H25)."""
    target = branch.get("$ref")
    extra = set(branch) - {"title", "type", "properties", "required", "$ref"}
    if extra or (own and target):
        raise UnknownIdiomError(
            pointer, f"a branch with {sorted(extra) or 'members beside a $ref'}", "a $ref, or members"
        )
    if target is None:
        if key in schema.defs or key.endswith("/other"):  # "other" is what stands for every unknown tag
            raise UnknownIdiomError(
                pointer, f"a second or reserved {key!r}", "a name for each branch, or members in a definition"
            )
        schema.defs[key] = {"properties": {**own, **shared}, "required": [*wants, *required]}
        return key
    if shared:
        _share(schema, target, shared, required, pointer)
    return str(target)


def _share(schema: Schema, target: str, shared: dict[str, Node], required: list[str], pointer: str) -> None:
    """Members that stand beside the branches belong to each of them (H34)."""
    body = schema.defs[target]
    if "properties" not in body:
        raise UnknownIdiomError(pointer, f"members beside a union of {target}", "branches that are objects")
    for key, child in shared.items():
        if _bare(body["properties"].get(key, child)) != _bare(child):
            raise UnknownIdiomError(pointer, f"two meanings of {key!r}", f"one, in the union and in {target}")
        body["properties"][key] = copy.deepcopy(child)
    body["required"] = list(dict.fromkeys([*body.get("required", []), *required]))


def merge_alternatives(schema: Schema) -> None:
    """Objects whose alternatives are told apart by which member is there become one object (H21, H22)."""
    for name, node in list(schema.defs.items()):
        branches = alternatives(node)
        inline = [branch for branch in branches if "properties" in branch]
        if not branches or not ("properties" in node or len(inline) == len(branches)):
            continue
        if any("$ref" in branch for branch in inline):
            raise UnknownIdiomError(f"/$defs/{name}", "a branch with members beside a $ref", "a $ref, or members")
        parts = [schema.defs[branch["$ref"]] if "$ref" in branch else branch for branch in branches]
        if any("properties" not in part for part in parts):
            raise UnknownIdiomError(f"/$defs/{name}", "alternatives that are no objects", "alternatives with members")
        if set(node) - {"title", "type", "properties", "required", "anyOf", "oneOf"}:
            raise UnknownIdiomError(f"/$defs/{name}", f"alternatives with {sorted(node)}", "members, and alternatives")
        wants = [set(part.get("required", [])) for part in parts]
        deciding = [sorted(w - set[str]().union(*wants[:i], *wants[i + 1 :])) for i, w in enumerate(wants)]
        if any(len(members) != 1 for members in deciding):
            raise UnknownIdiomError(f"/$defs/{name}", f"alternatives told apart by {deciding}", "one member each")
        members = {**node.get("properties", {})}
        for part in parts:
            for key, child in part["properties"].items():
                if _bare(members.get(key, child)) != _bare(child):
                    raise UnknownIdiomError(f"/$defs/{name}", f"two meanings of {key!r}", "one in all alternatives")
                members[key] = copy.deepcopy(child)
        for (key,) in deciding:
            members[key]["presence"] = True
        schema.defs[name] = {
            "properties": members,
            "required": [*node.get("required", []), *sorted(set[str].intersection(*wants))],
            "exclusive": {
                "one": "oneOf" in node,
                "of": {
                    key: [
                        name for name in part["properties"] if _only_there(name, part, [node, *parts]) and name != key
                    ]
                    for (key,), part in zip(deciding, parts, strict=True)
                },
            },
        }
        taken = [branch["$ref"] for branch in branches if "$ref" in branch]
        if taken:
            schema.drop_unused(taken, "merged: its members stand in each type that takes it")


def _only_there(name: str, part: Node, places: list[Node]) -> bool:
    """Whether a member belongs to one alternative alone, and counts only with it."""
    return not any(name in place.get("properties", {}) for place in places if place is not part)


def flatten_unions(schema: Schema) -> None:
    """A union that is the payload of another's branch, or whose tag may be missing, is one flat object (H1, H2)."""
    payloads = {value for d in schema.defs.values() for value in d.get("variants", {}).values()}
    flat = [n for n, d in schema.defs.items() if "variants" in d and (n in payloads or "optional" in d)]

    def depth(name: str) -> int:
        inner = [v for v in schema.defs[name].get("variants", {}).values() if v in flat]
        return 1 + max(map(depth, inner), default=0)

    for name in sorted(flat, key=lambda name: (depth(name), name)):
        _flatten(schema, name)


def _flatten(schema: Schema, name: str) -> None:
    union = schema.defs[name]
    if union["rest"]:
        raise UnknownIdiomError(f"/$defs/{name}", "alternatives without a tag in a nested union", "tagged ones only")
    bodies = {value: schema.defs[target] for value, target in union["variants"].items()}
    for value, body in bodies.items():
        if "properties" not in body or "exclusive" in body:
            raise UnknownIdiomError(f"/$defs/{name}", f"branch {value!r} that is no plain object", "objects")
    merged, others = flat(name, union, bodies)
    if others:
        raise UnknownIdiomError(f"/$defs/{name}", f"two meanings of {others[0][0]!r}", "one meaning in all branches")
    targets = list(union["variants"].values())
    schema.defs[name] = merged
    if union["fallback"]:
        targets.append(union["fallback"])
    schema.drop_unused(targets, "merged: its members stand in the flat type of the union")


def flat(name: str, union: Node, bodies: Mapping[str, Node]) -> tuple[Node, list[tuple[str, Node]]]:
    """A tagged union as one object that has the members of all `bodies` (tag -> object).

    With it come the members that have another meaning in a later body, which no one object can say.
    """
    tag, optional = union["tag"], union.get("optional")
    values: Node = {"type": "string", "enum": list(bodies), "titles": {}, "open": optional is not None, "of": name}
    merged: Node = {"properties": {tag: {**(optional or {}), **values}}, "required": [] if optional else [tag]}
    merged["parts"] = parts = Node()
    others: list[tuple[str, Node]] = []
    when: dict[str, list[str]] = {}
    always = set[str].intersection(*(set(body.get("required", [])) for body in bodies.values()))
    for value, body in bodies.items():
        places = {key: child["at"] for key, child in body["properties"].items() if "at" in child}
        places[tag] = merged["properties"][tag].get("at", f"/$defs/{name}/properties/{tag}")
        parts[value] = {"members": places, "required": [*body.get("required", []), *([] if optional else [tag])]}
        parts.update({f"{value}/{inner}": part for inner, part in body.get("parts", {}).items()})
        for key, child in body["properties"].items():
            if _bare(merged["properties"].setdefault(key, child)) != _bare(child):
                others.append((key, child))
        needs = [key for key in body.get("required", []) if key not in always]
        if needs:
            when[value] = needs
    merged["required"] += [key for key in merged["properties"] if key in always and key != tag]
    if when:
        merged["when"] = {"tag": tag, "values": when}
    if optional is None and union["open"]:
        merged["state"] = tag
    return merged, others


def read_choices(schema: Schema) -> None:
    """What is left of `anyOf` and `oneOf`: scalars, any JSON, or alternatives that are tried in order (H15, H17-19)."""
    for pointer, node in everywhere(schema):
        branches = [{k: v for k, v in branch.items() if k != "title"} for branch in alternatives(node)]
        if not branches:
            continue
        if "anyOf" in node and "oneOf" in node:
            raise UnknownIdiomError(pointer, "anyOf and oneOf", "one of them")
        for key in ("anyOf", "oneOf"):
            node.pop(key, None)
        shapes = [shape for branch in branches for shape in _shapes(branch, schema.defs)]
        if "any" in shapes:
            continue  # a union with any JSON in it selects nothing
        for branch in branches:
            if branch.pop("nullable", False):
                node["nullable"] = True
        if len(branches) == 1:
            node.update(branches[0])
        elif _told_by_kind(shapes):
            node["scalars"] = [one for branch in branches for one in branch.get("scalars", [branch])]
        elif set(shapes) in ({"array"}, {"object"}):
            node["choice"] = branches
        else:
            raise UnknownIdiomError(pointer, f"alternatives of {shapes}", "scalars, arrays or objects, or any JSON")


def _shapes(node: Node, defs: dict[str, Node]) -> list[str]:
    """The kinds of JSON that a branch takes, whether or not what it refers to has been read."""
    node = resolved(node, defs)
    if "properties" in node or "variants" in node:
        return ["object"]
    branches = alternatives(node) or node.get("scalars") or node.get("choice")
    if not branches:
        return [node.get("type", "other" if set(node) - {"title", "nullable"} else "any")]
    shapes = [shape for branch in branches for shape in _shapes(branch, defs)]
    if "any" in shapes:
        return ["any"]
    return shapes if len(branches) == 1 or _told_by_kind(shapes) else ["other"]


def _told_by_kind(shapes: list[str]) -> bool:
    """Whether alternatives are scalars, and one array at most."""
    return shapes != ["array"] and shapes.count("array") < 2 and set(shapes) <= {*SCALARS, "array"}


def keep_extras(schema: Schema) -> None:
    """`additionalProperties: true` on a definition keeps what it does not name; on a member it is a map (H22)."""
    for pointer, node in everywhere(schema):
        extra = node.get("additionalProperties")
        if "properties" in node:
            if node.pop("additionalProperties", False) is True:
                node["extra"] = True
                for name, child in node["properties"].items():
                    if child.get("flags"):
                        found = f"a member with the flags {', '.join(child['flags'])}, beside others that are kept"
                        raise UnknownIdiomError(f"{pointer}/properties/{name}", found, "a member without flags")
            elif extra:
                raise UnknownIdiomError(pointer, f"members, and others of {extra}", "any others, or none")
        elif extra is False:
            raise UnknownIdiomError(pointer, "an object that may have no members", "a map, or members")
        elif extra is True:
            node["additionalProperties"] = {}


def name_objects(schema: Schema) -> None:
    """`type: object` is said once: objects have `properties`, maps have `additionalProperties` (H8 of v1: neither)."""
    for pointer, node in everywhere(schema):
        if "properties" in node:
            kind = node.pop("type", "object")
            if kind != "object":
                raise UnknownIdiomError(pointer, f"members of type {kind}", "members of an object")
            node.setdefault("required", [])
        elif node.get("type") == "object" and "additionalProperties" not in node:
            node.pop("type")
            node.update(properties={}, required=[])


PASSES: tuple[Callable[[Schema], None], ...] = (
    bind_methods,
    drop_envelopes,
    unwrap_refs,
    read_flags,
    fold_nulls,
    tag_unions,
    merge_alternatives,
    flatten_unions,
    read_enums,
    bound_integers,
    keep_extras,
    read_choices,
    name_objects,
)
