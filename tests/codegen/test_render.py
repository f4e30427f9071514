"""Printing a model: the proof that what was printed is the model, names, headers, docs, and equal bytes.

Owns: `acpwire_codegen.render`. The proof is tried by tampering with what datamodel-code-generator gives.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tokenize import detect_encoding
from types import ModuleType
from typing import Any

import jinja2
import pytest
from datamodel_code_generator import generate

import acpwire.wire.v2
from acpwire.wire import DecodeError
from acpwire_codegen import load, render, types_module
from acpwire_codegen.decide import build
from acpwire_codegen.dialect import UnknownIdiomError
from acpwire_codegen.model import Model
from acpwire_codegen.naming import RESERVED, snake
from acpwire_codegen.tables import RenderError

from .support import importable, make_package, source_of

ROOT = Path(__file__).parents[2]
GENERATED = Path(next(iter(acpwire.wire.v2.__path__)))
FILES = {path.name: path.read_text("utf-8") for path in sorted(GENERATED.glob("*.py"))}
TABLES = load.read_tables(ROOT / "schema")
Node = dict[str, Any]

TEXT: Node = {"type": "string"}
PROPERTIES: Node = {
    "text": TEXT,
    "title": {"type": ["string", "null"]},
    "lines": {"type": "array", "items": TEXT},
    "level": {"$ref": "#/$defs/Level"},
    "sure": {"type": "boolean", "default": False},
}


def _branch(value: str, target: str) -> Node:
    tag = {"type": {"type": "string", "const": value}}
    return {"type": "object", "properties": tag, "required": ["type"], "allOf": [{"$ref": f"#/$defs/{target}"}]}


DEFS: dict[str, Node] = {
    "Note": {"type": "object", "properties": PROPERTIES, "required": ["text"]},
    "Blot": {"type": "object", "properties": {}},
    "Mark": {"anyOf": [_branch("note", "Note"), _branch("blot", "Blot")]},
    "Level": {"anyOf": [TEXT | {"const": "low"}, TEXT | {"const": "high"}, TEXT | {"title": "other"}]},
    "GoRequest": {"type": "object", "properties": {}, "x-method": "go", "x-side": "agent"},
    "GoResponse": {"type": "object", "properties": {}, "x-method": "go", "x-side": "agent"},
}
OVERRIDES: Node = {"plain": {"Note": ["title"]}}


def _built(defs: Mapping[str, Node] = DEFS, docs: dict[str, dict[str, str]] | None = None) -> Model:
    document: Node = json.loads(json.dumps({"$defs": defs}))
    source = load.Source(document, {}, "made up", "0" * 64, pinned=False)
    return build(source, load.Tables(docs or {}, OVERRIDES, {}))


@cache
def _printed() -> dict[str, str]:
    return render.render(_built(), "made_up")


@contextmanager
def _loaded(files: Mapping[str, str]) -> Generator[ModuleType]:
    """types.py of a package, as a module while it is looked at."""
    module = ModuleType("made_up_types")
    sys.modules[module.__name__] = module
    try:
        exec(files["types.py"], module.__dict__)  # noqa: S102  # what was just generated from our own schema
        yield module
    finally:
        del sys.modules[module.__name__]


# --- the proof --------------------------------------------------------------------------------------------------------


def test_the_package_that_is_tampered_with_below_is_whole() -> None:
    assert list(_printed()) == sorted(["types.py", "unions.py", "methods.py", "roles.py", "__init__.py"])
    with _loaded(_printed()) as module:
        note = module.Note(text="a")
        assert (note.title, note.lines, note.sure, note.tag) == (None, [], False, "note")
        assert module.GoRequest.__struct_config__.tag is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("class Note(", "class Note1(", "Note"),
        ("class Blot(", "class _Blot(", "Blot"),
        ("    text: str\n", "", "Note has"),
        ("    text: str\n", "    text: str\n    more: str\n", "Note has"),
        ("    text: str\n", "    texts: str\n", "Note has"),
        ("    text: str\n", "    text: str = ''\n", "Note has"),
        ("    lines: Sequence[str] = []\n", "    lines: Sequence[str]\n", "Note has"),
        ("    title: str | None = None\n", "    title: str | None = 'none'\n", "Note has"),
        ("    lines: Sequence[str] = []\n", "    lines: Sequence[str] = ('a',)\n", "Note has"),
        ("    sure: bool = False\n", "    sure: bool = True\n", "Note has"),
        (" | UnsetType = UNSET\n", " | UnsetType | None = None\n", "Note has"),
        ('tag="note"', 'tag="notes"', "Note is tagged"),
        ('tag_field="type", tag="blot"', 'tag_field="kind", tag="blot"', "Blot is tagged"),
        (', tag_field="type", tag="blot"', "", "Blot is tagged"),
        ('= "note"\n', '= "notes"\n', "its `tag` is wrong"),
        ("class GoRequest(WireStruct, frozen=True, kw_only=True):", "class GoRequest(Struct):", "GoRequest"),
        ("class GoRequest(WireStruct, frozen=True", "class GoRequest(WireStruct, frozen=False", "GoRequest"),
        ("class GoRequest(", "Level1 = str\n\n\nclass GoRequest(", "Level1 was printed"),
        ("    Mark = Annotated[", "    Mark1 = Annotated[", "Mark"),
    ],
    ids=lambda value: re.sub(r"\W+", "-", value)[:24],
)
def test_a_module_that_is_not_the_model_is_refused(
    monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: str
) -> None:
    """Its names, and each class's members, defaults and tag."""

    def tampered(*arguments: Any, **options: Any) -> str:
        text = str(generate(*arguments, **options)).replace("import UNSET,", "import UNSET, Struct,")
        assert text.count(old) >= 1
        return text.replace(old, new, 1)

    monkeypatch.setattr(types_module, "generate", tampered)
    with pytest.raises(RenderError, match=said):
        render.render(_built(), "made_up")


def test_a_warning_of_the_generator_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings  # noqa: PLC0415  # only what is tampered with needs it

    def noisy(*arguments: Any, **options: Any) -> Any:
        warnings.warn("a member was renamed", UserWarning, stacklevel=2)
        return generate(*arguments, **options)

    monkeypatch.setattr(types_module, "generate", noisy)
    with pytest.raises(RenderError, match="UserWarning: a member was renamed"):
        render.render(_built(), "made_up")


def test_the_proof_leaves_no_module_behind() -> None:
    before = set(sys.modules)
    render.render(_built({"Note": DEFS["Blot"]}), "made_up")
    assert not {name for name in set(sys.modules) - before if "made_up" in name}


@pytest.mark.parametrize("file", ["__init__.py", "methods.py", "roles.py", "unions.py"])
@pytest.mark.parametrize("line", ["class:\n", "1 / 0\n", "from .types import Nothing\n"])
def test_no_module_is_written_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, file: str, line: str) -> None:
    print_file = jinja2.Template.render

    def tampered(template: jinja2.Template, *arguments: Any, **options: Any) -> str:
        return print_file(template, *arguments, **options) + (line if template.name == f"{file}.jinja2" else "")

    monkeypatch.setattr(jinja2.Template, "render", tampered)
    with pytest.raises(RenderError, match="cannot be imported"):
        render.render(_built(), "made_up")


def test_a_package_that_means_something_else_by_a_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    print_file = jinja2.Template.render

    def tampered(template: jinja2.Template, *arguments: Any, **options: Any) -> str:
        text = print_file(template, *arguments, **options)
        return text + "Note = Blot\nMETHODS = {}\n" if template.name == "__init__.py.jinja2" else text

    monkeypatch.setattr(jinja2.Template, "render", tampered)
    with pytest.raises(RenderError, match=r"Note is something else in the package; the methods are \[\]"):
        render.render(_built(), "made_up")


# --- what the files look like -----------------------------------------------------------------------------------------


def test_every_generated_file_starts_with_its_header() -> None:
    pinned = load.read_pinned(ROOT / "schema")
    head = (
        f"# Generated by acpwire-codegen {version('acpwire')} as acpwire.wire.v2; structure sha256\n"
        f"# {pinned.sha256}\n# of ACP schema {pinned.version}.\n"
    )
    assert set(FILES) == {"types.py", "unions.py", "methods.py", "roles.py", "__init__.py"}
    for name, text in FILES.items():
        assert text.startswith(head), name
        assert ast.get_docstring(ast.parse(text)), name
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
    for text in _printed().values():
        assert text.startswith(f"# Generated by acpwire-codegen {version('acpwire')} as made_up; ")


@pytest.mark.parametrize("package", ["vibe_coding", "d_Decoding", "coding"])
@pytest.mark.parametrize("schema", ["made up", "of coding: latin-9", 'a\nb """quoted"""', "\\"])
def test_no_name_makes_a_file_that_python_cannot_read(package: str, schema: str) -> None:
    """PEP 263: a comment in the first two lines that says `coding:` gives the encoding."""
    source = load.Source({"$defs": {"Note": DEFS["Blot"]}}, {}, schema, "0" * 64, pinned=False)
    files = render.render(build(source, load.Tables({}, {}, {})), package)
    for text in files.values():
        assert detect_encoding(io.BytesIO(text.encode()).readline)[0] == "utf-8"
        assert package in text


def _defined(text: str) -> set[str]:
    """The top-level names that a file gives, in `if TYPE_CHECKING` too; imports are none."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign | ast.Assign) and node.col_offset in (0, 4):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name) and target.id[:1].isupper()}
    return found - {"Fields"}


def test_no_class_is_numbered_and_none_is_invented() -> None:
    """Every name in types.py is one that the model decided; datamodel-code-generator adds none of its own."""
    model = build(load.read_pinned(ROOT / "schema"), TABLES)
    decided = {struct.name for struct in model.structs} | {alias.name for alias in model.aliases}
    found = _defined(FILES["types.py"])
    assert len(found) > 200
    assert found == {name for name in decided if name[0] != "_"} | {name for name in found if name[0] == "_"}
    assert {name for name in found if name[0] == "_"} <= decided
    assert not [name for name in found if name[-1].isdigit()]
    assert not [name for name in found if re.search(r"Model|Enum\b|Item\d|Type\d|Union$", name)]


def test_equal_models_give_equal_bytes() -> None:
    assert render.render(_built(), "made_up") == _printed()
    turned = dict(reversed(list(DEFS.items())))
    assert set(render.render(_built(turned), "made_up")) == set(_printed())


def test_the_package_name_stands_in_the_headers_alone() -> None:
    other = render.render(_built(), "some.where.else")
    assert {name: text.replace("some.where.else", "made_up") for name, text in other.items()} == _printed()
    assert all(text.count("some.where.else") == 1 for text in other.values())


def test_no_date_and_no_path_is_printed() -> None:
    for name, text in FILES.items():
        assert not re.search(r"20\d\d-\d\d-\d\d|timestamp", text), name
        assert str(ROOT) not in text


@pytest.mark.parametrize(
    "doc",
    [
        "Plain words.",
        'Says "quoted" and """tripled""".',
        r"A path like C:\new\table.",
        r"Ends with a backslash \.",
        "Braces {{ like }} {% these %} {# too #}.",
        "Long " + "words and more " * 20 + "end.",
        "- looks like a list.",
        'Ends with a quote."',
    ],
)
def test_a_doc_comes_out_as_it_was_written(doc: str) -> None:
    docs = {"definitions": {"Blot": doc, "GoRequest": doc, "Level": doc}, "fields": {"Note.text": doc}}
    files = render.render(_built(docs=docs), "made_up")
    said = " ".join(doc.split())
    with _loaded(files) as module:
        assert said in " ".join(module.Blot.__doc__.split())
    strings = [node.value for node in ast.walk(ast.parse(files["types.py"])) if isinstance(node, ast.Constant)]
    found = [text for text in strings if isinstance(text, str) and said in " ".join(text.split())]
    assert len(found) == 4
    assert said in " ".join(str(ast.literal_eval(_after(files["methods.py"], "GO"))).split())


def _after(text: str, name: str) -> ast.expr:
    """The string that follows an assignment."""
    body = ast.parse(text).body
    index = next(
        i for i, node in enumerate(body) if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name
    )
    following = body[index + 1]
    assert isinstance(following, ast.Expr)
    return following.value


def test_the_docs_of_the_pinned_package_are_those_of_the_table() -> None:
    seen = 0
    for struct in build(load.read_pinned(ROOT / "schema"), TABLES).structs:
        line = TABLES.docs["variants" if "/" in struct.place else "definitions"].get(struct.place)
        if line is not None:
            seen += 1
            assert line in " ".join(getattr(acpwire.wire.v2, struct.name).__doc__.split()), struct.name
    assert seen > 150


# --- names that types.py cannot give ----------------------------------------------------------------------------------


def _imported() -> list[str]:
    tree = ast.parse(FILES["types.py"])
    return sorted({a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names})


def test_what_types_py_imports_is_reserved() -> None:
    """Else a definition of that name would be printed over what the module uses."""
    assert set(_imported()) - {"annotations"} <= RESERVED
    assert len(_imported()) > 10


def test_what_the_package_itself_binds_is_reserved_or_of_the_model() -> None:
    """Its `__init__` holds the types beside what it uses, and its modules."""
    model = build(load.read_pinned(ROOT / "schema"), TABLES)
    ours = {struct.name for struct in model.structs} | {alias.name for alias in model.aliases}
    ours |= {method.constant for method in model.methods}
    bound = {name.removesuffix(".py") for name in FILES} - {"__init__"}
    for node in ast.parse(FILES["__init__.py"]).body:
        if isinstance(node, ast.ImportFrom):
            bound |= {a.asname or a.name for a in node.names}
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            bound |= {ast.unparse(target) for target in targets}
    rest = {name for name in bound - ours - {*model.codes} if name[0] != "_"} - {"annotations"}
    assert rest <= RESERVED
    assert {"Raw", "Final", "decode", "roles", "METHODS"} <= rest


@pytest.mark.parametrize(
    "name",
    [*_imported(), "Method", "Request", "METHODS", "AgentCalls", "DecodeError", "Caller", "FromAgent", "GO", "Raw"],
)
def test_a_definition_with_a_name_that_is_taken_stops_with_a_sentence(name: str) -> None:
    defs = {"GoRequest": DEFS["GoRequest"], "GoResponse": DEFS["GoResponse"], name: DEFS["Blot"]}
    with pytest.raises((UnknownIdiomError, RenderError), match=name):
        render.render(_built(defs), "made_up")


@pytest.mark.parametrize("name", ["Fields", "Protocol", "Kind", "Any1", "Base", "Enum", "Json"])
def test_a_definition_with_any_other_name_is_printed_under_it(name: str) -> None:
    with _loaded(render.render(_built({name: DEFS["Blot"]}), "made_up")) as module:
        assert getattr(module, name)().__class__.__name__ == name


def test_a_definition_called_like_the_generators_own_root_is_printed_or_refused_in_words() -> None:
    """datamodel-code-generator calls the document itself `Model`."""
    try:
        said = render.render(_built({"Model": DEFS["Blot"]}), "made_up")["types.py"]
    except (UnknownIdiomError, RenderError) as error:
        said = str(error)
    assert "class Model(WireStruct" in said or "'Model' for Model" in said


def test_all_of_the_package_is_exported_and_nothing_twice() -> None:
    exported = acpwire.wire.v2.__all__
    assert exported == sorted(set(exported))
    assert {name for name in _defined(FILES["types.py"]) if name[0] != "_"} < set(exported)
    assert {method.constant for method in build(load.read_pinned(ROOT / "schema"), TABLES).methods} < set(exported)


# --- members and methods of any name ----------------------------------------------------------------------------------

ODD = [
    "stop_reason",
    "userID",
    "mcpURL",
    "URI",
    "x-y",
    "_private",
    "$ref",
    "Fieldx",
    "meta",
    "text_",
    "caf\N{LATIN SMALL LETTER E WITH ACUTE}Size",
    "with space",
]


@pytest.mark.parametrize("wire", ODD)
def test_a_member_goes_by_its_json_name_whatever_its_attribute_is(tmp_path: Path, wire: str) -> None:
    """Decoded strictly and leniently, encoded, defaulted, and named in errors; in every kind of class."""
    attr = snake(wire)
    lenient = {"type": ["integer", "null"], "x-deserialize-default-on-error": True}
    defs: dict[str, Node] = {
        "Must": {"type": "object", "properties": {wire: {"type": "integer"}}, "required": [wire]},
        "May": {"type": "object", "properties": {wire: lenient}},
        "Many": {"type": "object", "properties": {wire: {"type": "array", "items": {"type": "integer"}}}},
        "Has": {"type": "object", "properties": {wire: {"$ref": "#/$defs/May", "default": {wire: 3}}}},
        "Open": {"type": "object", "properties": {wire: {"type": "integer"}}, "additionalProperties": True},
        "Mark": {"anyOf": [_branch("new_may", "May"), _branch("new_must", "Must")]},
        "Other": {"anyOf": [_branch("old_must", "Must"), _branch("old_may", "May")]},
    }
    document: Node = {"$defs": defs}
    with importable(tmp_path):
        package = make_package(tmp_path, "made_up", source_of(document))
        for name, value in (("Must", 1), ("May", 1), ("Many", [1, 2]), ("Open", 1)):
            raw = json.dumps({wire: value}, ensure_ascii=False).encode()
            decoded = package.decode(name, raw)
            assert getattr(decoded, attr) == value
            assert package.look(name, raw) == decoded
            assert json.loads(package.encode(decoded)) == {wire: value}
            assert json.loads(package.encode(package.type(name)(**{attr: value}))) == {wire: value}
        assert getattr(getattr(package.decode("Has", b"{}"), attr), attr) == 3
        wrong = json.dumps({wire: "x"}).encode()
        assert package.decode("May", wrong) == package.type("May")()
        assert package.look("Many", b"{}") == package.type("Many")()
        for tagged, tag in (("Mark", "new_must"), ("Other", "old_must")):
            raw = json.dumps({"type": tag, wire: 1}).encode()
            assert json.loads(package.encode(package.decode(tagged, raw))) == {"type": tag, wire: 1}
        with pytest.raises(DecodeError) as caught:
            package.decode("Must", wrong)
        assert caught.value.path == f"$.{wire}"
        with pytest.raises(DecodeError, match=re.escape(f"required field `{wire}`")):
            package.decode("Must", b"{}")


def test_alternatives_and_base64_name_members_as_json_does(tmp_path: Path) -> None:
    one = {"type": "object", "properties": {"user_ID": TEXT}, "required": ["user_ID"]}
    two = {"type": "object", "properties": {"group_ID": TEXT}, "required": ["group_ID"]}
    data = {
        "type": "object",
        "properties": {"raw_Data": TEXT | {"contentEncoding": "base64"}},
        "required": ["raw_Data"],
    }
    document: Node = {
        "$defs": {"Who": {"type": "object", "properties": {"x": TEXT}, "oneOf": [one, two]}, "Data": data}
    }
    with importable(tmp_path):
        package = make_package(tmp_path, "made_up", source_of(document))
        with pytest.raises(DecodeError, match="`user_ID` or `group_ID`"):
            package.decode("Who", b"{}")
        with pytest.raises(DecodeError) as caught:
            package.decode("Data", b'{"raw_Data": "?"}').raw_data_bytes  # noqa: B018  # it raises
        assert caught.value.path == "$.raw_Data"


def test_two_members_with_one_attribute_stop_the_build() -> None:
    with pytest.raises(UnknownIdiomError, match=r"/\$defs/A: .*'stop_reason'"):
        _built({"A": {"type": "object", "properties": {"stop_reason": TEXT, "stopReason": TEXT}}})


def test_a_member_that_is_the_tag_too_stops_the_build_and_says_where() -> None:
    note: Node = {"type": "object", "properties": {"type": TEXT}}
    with pytest.raises(UnknownIdiomError, match=r"/\$defs/Note: found a member `type`, which is the tag of Mark"):
        render.render(_built(DEFS | {"Note": note}), "made_up")


def _method(name: str) -> dict[str, Node]:
    bound: Node = {"type": "object", "properties": {}, "x-method": name, "x-side": "agent"}
    stem = re.sub(r"\W", "", name.title())
    return {f"Do{stem}Request": bound, f"Do{stem}Response": bound}


@pytest.mark.parametrize(
    ("name", "constant", "call"),
    [
        ("import", "IMPORT", "import_"),
        ("2fa/login", "METHOD_2FA_LOGIN", "method_2fa_login"),
        ("t", "T", "t_"),
        ("go\N{GRINNING FACE}", "GO", "go"),
    ],
)
def test_a_method_of_any_name_can_be_called(tmp_path: Path, name: str, constant: str, call: str) -> None:
    with importable(tmp_path):
        package = make_package(tmp_path, "made_up", source_of({"$defs": _method(name)}))
        assert getattr(package.module, constant).name == name
        assert callable(getattr(package.module.AgentCalls, call))
        assert callable(getattr(package.module.AgentHandler, call))


@pytest.mark.parametrize(("first", "second"), [("go/to", "go_to"), ("methods", "x"), ("decoding", "x"), ("unset", "x")])
def test_a_method_whose_constant_is_taken_stops_with_its_name(first: str, second: str) -> None:
    with pytest.raises(RenderError, match=rf"is taken and would be the name of the method {first}"):
        render.render(_built(_method(first) | _method(second)), "made_up")
