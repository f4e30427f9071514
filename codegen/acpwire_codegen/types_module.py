"""Prints types.py: datamodel-code-generator turns the model's plain schema into hints, templates add the rest.

Owns: what is handed to it and how classes and aliases look. Does not know: the tables beside the types.
"""

from __future__ import annotations

import json
import re
import textwrap
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

from datamodel_code_generator import InputFileType, LiteralType, PythonVersion, generate
from datamodel_code_generator.enums import DataModelType
from datamodel_code_generator.format import Formatter

from acpwire.wire.values import wire_name

from .docstrings import WIDTH, docstring, escaped, indented
from .model import Alias, Member, Model, Struct
from .tables import RenderError, quoted

TEMPLATES = Path(__file__).parent / "templates"

_IMPORTS = {
    "Annotated[": "typing.Annotated",
    "Any": "typing.Any",
    "ClassVar[": "typing.ClassVar",
    "Literal[": "typing.Literal",
    "Meta(": "msgspec.Meta",
    "OpenObject": "{wire}.values.OpenObject",
    "Sequence[": "collections.abc.Sequence",
    "TYPE_CHECKING": "typing.TYPE_CHECKING",
    "UNSET": "msgspec.UNSET",
    "UnknownVariant": "{wire}.values.UnknownVariant",
    "UnsetType": "msgspec.UnsetType",
    "decode_base64(": "{wire}.values.decode_base64",
    "convert(": "msgspec.convert",
    "exactly_one(": "{wire}.values.exactly_one",
    "first_of(": "{wire}.values.first_of",
    "field(": "msgspec.field",
    "required_with(": "{wire}.values.required_with",
}
"""What the templates print on their own, and where it comes from."""


def print_types(model: Model, header: str, wire: str) -> str:
    """types.py, printed by datamodel-code-generator from a plain schema and two templates.

    `wire` is the package of the hand-written modules.
    """
    definitions: dict[str, Any] = {}
    extra: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for alias in sorted(model.aliases, key=lambda alias: alias.name):
        definitions[alias.name] = alias.hint
        extra[alias.name]["acp"] = _alias_data(alias)
    for struct in sorted(model.structs, key=lambda struct: struct.name):
        definitions[struct.name] = _plain(struct)
        extra[struct.name] = {"acp": _struct_data(struct), "base_class_kwargs": _options(struct)}
    printed = json.dumps([extra, "TYPE_CHECKING" if any(alias.typing for alias in model.aliases) else ""])
    if any(struct.tag for struct in model.structs):
        printed += "ClassVar[Literal["
    if any(member.is_base64 for struct in model.structs for member in struct.members):
        printed += "decode_base64("
    if any(struct.keeps_unknown for struct in model.structs):
        printed += "OpenObject ClassVar["
    if any(alias.typing and alias.marked for alias in model.aliases):
        printed += "Annotated["
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            text = generate(
                {"$defs": definitions},
                input_file_type=InputFileType.JsonSchema,
                output_model_type=DataModelType.MsgspecStruct,
                target_python_version=PythonVersion.PY_311,
                base_class=f"{wire}.values.WireStruct",
                custom_template_dir=TEMPLATES / "types",
                extra_template_data=extra,
                enum_field_as_literal=LiteralType.All,
                use_annotated=True,
                use_union_operator=True,
                use_generic_container_types=True,
                use_type_alias=True,
                skip_root_model=True,
                allow_leading_underscore_class_name=True,
                custom_class_name_generator=str,
                disable_timestamp=True,
                keep_model_order=True,
                additional_imports=[place.format(wire=wire) for word, place in _IMPORTS.items() if word in printed],
                custom_file_header=header + ("" if model.structs else _NO_CLASS) + _TYPES_HEAD.rstrip(),
                builtin_format_line_length=WIDTH,
                formatters=[Formatter.BUILTIN],
            )
    except Exception as error:
        raise RenderError(f"types.py cannot be printed: {type(error).__name__}: {error}") from error
    return str(text).rstrip() + "\n"


_NO_CLASS = """# The base of classes is imported, though there is no class:
# pyright: reportUnusedImport=false
"""

_TYPES_HEAD = '''# Guard and fallback classes are private to the package and used by unions.py alone:
# pyright: reportUnusedClass=false
"""Every type of the schema, in alphabetical order; a union stands after the last of its variants.

Attributes are the snake_case of their JSON names; `meta` is `_meta`, free for applications. `= None`: leaving the
member out and null mean the same. `= UNSET`: they do not, and the class or the member says what each means.
"""
'''


def _plain(struct: Struct) -> dict[str, Any]:
    """The schema of a class: objects, refs, arrays, enums, bounds, and whether a member may be unset."""
    own = {
        "type": "object",
        "properties": {member.attr: member.hint for member in struct.members},
        "required": [member.attr for member in struct.members if not member.may_be_unset],
    }
    return {"allOf": [{"$ref": f"#/$defs/{struct.base}"}, own]} if struct.base else own


def _options(struct: Struct) -> dict[str, str]:
    """The class options; `frozen` and `kw_only` stand on every class for type checkers."""
    options = {"frozen": "True", "kw_only": "True"}
    if struct.tag:
        options |= {"tag_field": quoted(struct.tag_field), "tag": quoted(struct.tag)}
    return options


def _struct_data(struct: Struct) -> dict[str, Any]:
    return {
        "base": struct.base or "WireStruct",
        "tag": quoted(struct.tag) if struct.tag else "",
        "doc": docstring(struct.doc),
        "members": {
            member.attr: {
                "default": member.default,
                "assigned": _assigned(member),
                "doc": _member_doc(member),
                "wire": escaped(member.wire),
                "key": quoted(member.wire),
            }
            for member in struct.members
        },
        "check": _check(struct),
        "base64": [member.attr for member in struct.members if member.is_base64],
        "keeps_unknown": struct.keeps_unknown,
    }


def _assigned(member: Member) -> str:
    """What a class assigns to an attribute: its default, and its JSON name where that is not the automatic one."""
    if wire_name(member.attr) == member.wire:
        return member.default
    name = f"name={quoted(member.wire)}"
    if member.default.startswith("field("):
        return f"{member.default[:-1]}, {name})"
    return f"field(default={member.default}, {name})" if member.default else f"field({name})"


def _alias_data(alias: Alias) -> dict[str, Any]:
    return {
        "typing": _wrapped(alias.name, alias.typing),
        "marked": alias.marked,
        "bounded": alias.bounded,
        "doc": docstring(alias.doc, indent=0),
    }


def _wrapped(name: str, typing: str) -> str:
    """A union's annotation, one member a line where it is long."""
    if len(f"    {name}: TypeAlias = {typing}") <= WIDTH:
        return typing
    members = re.split(r" \| (?![^\[]*\])", typing)
    if members[0].startswith("Literal["):
        values = textwrap.wrap(members[0][8:-1], WIDTH - 16)
        members[0] = "Literal[\n            " + "\n            ".join(values) + "\n        ]"
    return "(\n        " + "\n        | ".join(members) + "\n    )"


def _member_doc(member: Member) -> str:
    doc = member.doc or (f"None resets it to `{member.reset}`." if member.reset else "")
    return indented(docstring((doc,)), 4)


def _check(struct: Struct) -> str:
    """The body of `__post_init__`, for what msgspec cannot say."""
    if struct.exclusive:
        one, alternatives = struct.exclusive
        return f"{'exactly_one' if one else 'first_of'}(self, {dict(alternatives)!r})"
    if struct.when:
        tag, values = struct.when
        needs = {value: tuple(attrs) for value, attrs in values.items()}
        return f"required_with(self, {tag!r}, {needs!r})"
    return ""
