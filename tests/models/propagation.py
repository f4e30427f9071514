"""Independent statement of requirement C1, lenient decoding, against which the real decoder is compared."""

from typing import Any

Node = dict[str, Any]
ON_ERROR, GONE = "x-deserialize-default-on-error", object()
KIND = {bool: "boolean", int: "integer number", float: "number", str: "string", list: "array", dict: "object"}
RANGES = {f"int{n}": {"minimum": -(2 ** (n - 1)), "maximum": 2 ** (n - 1) - 1} for n in (32, 64)}
RANGES.update({f"uint{n}": {"minimum": 0, "maximum": 2**n - 1} for n in (16, 32, 64)})


class InvalidError(Exception):
    """A fault that no enclosing flag absorbs; its text is the JSON path of the fault."""


def decode_definition(schema: Node, name: str, value: Any) -> Any:
    return decode(schema, schema["$defs"][name], value)


def decode(schema: Node, node: Node, value: Any, path: str = "$") -> Any:
    kept: list[Any] = [_own(schema, node, value, path)] if "type" in node else []
    refs = [schema["$defs"][node["$ref"].split("/")[-1]]] if "$ref" in node else []
    kept += [decode(schema, part, value, path) for part in refs + node.get("allOf", [])]
    kept += [_union(schema, node, node[key], value, path) for key in ("anyOf", "oneOf") if key in node]
    if kept and KIND.get(value.__class__) == "object":  # all parts share one flat object
        return {name: member for part in kept for name, member in part.items()}
    return kept[-1] if kept else value


def _absorb(schema: Node, node: Node, value: Any, path: str) -> Any:
    try:
        return decode(schema, node, value, path)
    except InvalidError:
        if not node.get(ON_ERROR) and not (node.get("x-deserialize-default-on-null") and value is None):
            raise
        return [] if node.get("type") == "array" else node.get("default", GONE)


def _union(schema: Node, node: Node, cases: list[Node], value: Any, path: str) -> Any:
    kind = KIND.get(value.__class__, "null")
    cases = [it for it in cases if kind == "null" or it.get("type") != "null"]
    tags = [name for it in cases for name, prop in it.get("properties", {}).items() if "const" in prop]
    if kind == "object" and tags:  # the tag alone decides; `other` is the last branch that requires it
        tag, flags = tags[0], node.get("properties", {}).get(tags[0], {})
        has = tag in value and (isinstance(value[tag], str) or ON_ERROR not in flags)
        value = {name: member for name, member in value.items() if has or name != tag}
        cases = [it for it in cases if (tag in it.get("required", [])) == has] or cases
        cases = [it for it in cases if has and it["properties"][tag].get("const") == value[tag]] or cases[-1:]
    elif kind == "object" and "oneOf" in node:  # scopes: exactly one by presence of its required key
        names = [it["allOf"][0]["$ref"].split("/")[-1] for it in cases if "allOf" in it]
        present = [set(schema["$defs"][name]["required"]) <= value.keys() for name in names]
        cases = [cases[present.index(True)]] if present.count(True) == 1 else []
    for it in cases:
        if (kept := _absorb(schema, {"allOf": [it], ON_ERROR: len(cases) > 1}, value, path)) is not GONE:
            return kept
    raise InvalidError(path)


def _own(schema: Node, node: Node, value: Any, path: str) -> Any:
    kind, limits = KIND.get(value.__class__, "null"), RANGES.get(node.get("format", ""), {}) | node
    size = len(value) if kind in ("string", "array") else value if "number" in kind else 0
    least = limits.get("minimum", limits.get("minItems", limits.get("minLength", size)))
    valid = any(name in node["type"] for name in kind.split())
    valid &= kind == "null" or least <= size <= limits.get("maximum", size)
    if not valid or value not in node.get("enum", [node.get("const", value)]):
        raise InvalidError(path)
    if kind == "array":
        item = {"allOf": [node.get("items", {})], ON_ERROR: node.get("x-deserialize-skip-invalid-items")}
        return [x for i, v in enumerate(value) if (x := _absorb(schema, item, v, f"{path}[{i}]")) is not GONE]
    if kind != "object":
        return value
    others = node.get("additionalProperties", node.get("unevaluatedProperties", False))
    properties: Node = {name: {} if others is True else others for name in value if others is not False}
    members: Node = {}
    for name, prop in (properties | node.get("properties", {})).items():
        if name not in value and name in node.get("required", []):
            raise InvalidError(f"{path}.{name}")
        default = prop.get("default", GONE)
        members[name] = _absorb(schema, prop, value[name], f"{path}.{name}") if name in value else default
    return {name: member for name, member in members.items() if member is not GONE}
