"""Printing a model: the proof that what was printed is the model, names, headers, docs, and equal bytes.

Owns: `acpwire_codegen.render`. The proof is tried by tampering with what datamodel-code-generator gives.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from datamodel_code_generator import generate

import acpwire.wire.v2
from acpwire_codegen import load, render, types_module
from acpwire_codegen.decide import build
from acpwire_codegen.dialect import UnknownIdiomError
from acpwire_codegen.model import Model
from acpwire_codegen.naming import RESERVED
from acpwire_codegen.tables import RenderError

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
    with pytest.raises(UserWarning, match="renamed"):
        render.render(_built(), "made_up")


def test_the_proof_leaves_no_module_behind() -> None:
    before = set(sys.modules)
    render.render(_built({"Note": DEFS["Blot"]}), "made_up")
    assert not {name for name in set(sys.modules) - before if "made_up" in name}


# --- what the files look like -----------------------------------------------------------------------------------------


def test_every_generated_file_starts_with_its_header() -> None:
    pinned = load.read_pinned(ROOT / "schema")
    head = (
        f"# acpwire.wire.v2: generated by acpwire-codegen {version('acpwire')} from ACP schema {pinned.version}\n"
        f"# (structure sha256 {pinned.sha256}).\n"
    )
    assert set(FILES) == {"types.py", "unions.py", "methods.py", "roles.py", "__init__.py"}
    for name, text in FILES.items():
        assert text.startswith(head), name
        assert ast.get_docstring(ast.parse(text)), name
        assert text.endswith("\n")
        assert not text.endswith("\n\n")
    for text in _printed().values():
        assert text.startswith(
            f"# made_up: generated by acpwire-codegen {version('acpwire')} from ACP schema made up\n"
        )


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


@pytest.mark.parametrize(
    "name", [*_imported(), "Method", "Request", "METHODS", "AgentCalls", "DecodeError", "Caller", "FromAgent", "GO"]
)
def test_a_definition_with_a_name_that_is_taken_stops_with_a_sentence(name: str) -> None:
    defs = {"GoRequest": DEFS["GoRequest"], "GoResponse": DEFS["GoResponse"], name: DEFS["Blot"]}
    with pytest.raises((UnknownIdiomError, RenderError), match=name):
        render.render(_built(defs), "made_up")


@pytest.mark.parametrize("name", ["Fields", "Final", "Protocol", "Kind", "Any1", "Base", "Enum", "Json"])
def test_a_definition_with_any_other_name_is_printed_under_it(name: str) -> None:
    with _loaded(render.render(_built({name: DEFS["Blot"]}), "made_up")) as module:
        assert getattr(module, name)().__class__.__name__ == name


def test_a_definition_called_like_the_generators_own_root_is_printed_or_refused_in_words() -> None:
    """datamodel-code-generator calls the document itself `Model`."""
    try:
        said = render.render(_built({"Model": DEFS["Blot"]}), "made_up")["types.py"]
    except (UnknownIdiomError, RenderError) as error:
        said = str(error)
    assert "class Model(WireStruct" in said or "['Model']" in said


def test_all_of_the_package_is_exported_and_nothing_twice() -> None:
    exported = acpwire.wire.v2.__all__
    assert exported == sorted(set(exported))
    assert {name for name in _defined(FILES["types.py"]) if name[0] != "_"} < set(exported)
    assert {method.constant for method in build(load.read_pinned(ROOT / "schema"), TABLES).methods} < set(exported)
