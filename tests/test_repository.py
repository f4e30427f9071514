"""What holds for the repository as a whole: which way imports go, what is public, and what no file may contain.

Owns: rules that no single module can see. Modules are read, not run, except where a rule is about running.
"""

from __future__ import annotations

import ast
import graphlib
import importlib
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import acpwire
import acpwire.v2
import acpwire.wire
import acpwire.wire.v2
import acpwire_codegen

ROOT = Path(__file__).parents[1]
TREES = {"acpwire": ROOT / "src" / "acpwire", "acpwire_codegen": ROOT / "codegen" / "acpwire_codegen"}


def _module(path: Path, top: Path) -> str:
    """The name under which a file of a source tree is imported."""
    parts = path.relative_to(top.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _modules() -> dict[str, Path]:
    """Every module of src and codegen."""
    return {_module(path, top): path for top in TREES.values() for path in sorted(top.rglob("*.py"))}


@cache
def _imports(name: str) -> frozenset[str]:
    """The modules that a module imports anywhere in its text, for type checkers too; names of modules are resolved."""
    path = _modules()[name]
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            inner = {f"{base}.{alias.name}" for alias in node.names} & set(_modules())
            found |= inner if inner and node.module is None else inner | {base}
    return frozenset(found)


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def test_every_module_is_found_and_every_import_is_resolved() -> None:
    """The rules below are about nothing if this fails."""
    assert {"acpwire.wire.frames", "acpwire.wire.v2.types", "acpwire_codegen.render"} < set(_modules())
    assert "acpwire.wire.errors" in _imports("acpwire.wire.frames")
    assert "acpwire_codegen.load" in _imports("acpwire_codegen.__main__")
    assert "acpwire.wire.v2.types" in _imports("acpwire.wire.v2.unions")
    for name in _modules():
        for imported in _imports(name):
            if any(_within(imported, top) for top in TREES):
                assert imported in _modules(), f"{name} imports {imported}"


# --- which way imports go ---------------------------------------------------------------------------------------------


def test_the_wire_imports_nothing_of_acpwire_but_the_wire() -> None:
    for name in _modules():
        if _within(name, "acpwire.wire"):
            outside = {one for one in _imports(name) if _within(one, "acpwire") and not _within(one, "acpwire.wire")}
            assert not outside, name


def test_the_wire_imports_nothing_but_msgspec_and_the_standard_library() -> None:
    for name in _modules():
        if _within(name, "acpwire.wire"):
            tops = {one.partition(".")[0] for one in _imports(name)} - set(sys.stdlib_module_names)
            assert tops - {"typing_extensions"} <= {"acpwire", "msgspec"}, name  # the one is for type checkers


def test_no_module_of_the_wire_but_its_generated_package_imports_it() -> None:
    for name in _modules():
        if _within(name, "acpwire.wire") and not _within(name, "acpwire.wire.v2"):
            assert not {one for one in _imports(name) if _within(one, "acpwire.wire.v2")}, name


@pytest.mark.parametrize(
    "package", ["acpwire", "acpwire.wire", "acpwire.transcript", "acpwire.transports", "acpwire.agent"]
)
def test_modules_import_only_those_above_them_in_the_list_of_their_package(package: str) -> None:
    order = re.findall(r"^    (\w+) {2,}\S", importlib.import_module(package).__doc__ or "", re.MULTILINE)
    depth = package.count(".") + 1

    def part(name: str) -> str:
        """Which member of the package a module is, or is within."""
        return name.split(".")[depth]

    inside = [name for name in _modules() if name.startswith(f"{package}.") and part(name) != "__main__"]
    assert set(order) == {part(name) for name in inside}
    for name in inside:
        others = {part(one) for one in _imports(name) if one.startswith(f"{package}.")} - {part(name)}
        assert others <= set(order[: order.index(part(name))]), name


@pytest.mark.parametrize("module", ["acpwire.connection", "acpwire.transcript", "acpwire.capture", "acpwire.trace"])
def test_what_does_no_io_loads_no_asyncio(module: str) -> None:
    script = f"import sys, {module}; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"


def test_every_public_name_loads() -> None:
    assert {name: getattr(acpwire, name).__name__ for name in acpwire.__all__} == {
        name: name for name in acpwire.__all__
    }


def test_what_is_generated_comes_last_in_the_wire() -> None:
    """So `values` < `lenient` < `frames`, and `v2` comes last."""
    order = re.findall(r"^    (\w+) {2,}\S", acpwire.wire.__doc__ or "", re.MULTILINE)
    assert order.index("values") < order.index("lenient") < order.index("frames") < order.index("v2") == len(order) - 1


def test_the_library_does_not_know_its_generator_and_that_only_what_types_are_made_of() -> None:
    for name in _modules():
        other = "acpwire" if _within(name, "acpwire_codegen") else "acpwire_codegen"
        assert {one for one in _imports(name) if _within(one, other)} <= {"acpwire.wire.values"}, name


def test_the_generator_is_a_straight_line_in_the_order_that_it_says() -> None:
    """Its docstring names each module once, in stages; none imports from a later stage, and there are no cycles."""
    modules = {name.rpartition(".")[2] for name in _modules() if name.startswith("acpwire_codegen.")}
    stages = [re.findall(r"`(\w+)`", stage) for stage in (acpwire_codegen.__doc__ or "").split("->")]
    place = {name: index for index, stage in enumerate(stages) for name in stage if name in modules}
    assert len(stages) == 4
    assert set(place) == modules - {"__main__"}
    place["__main__"] = len(stages)
    graph: dict[str, set[str]] = {}
    for name in modules:
        needs = {
            one.rpartition(".")[2] for one in _imports(f"acpwire_codegen.{name}") if _within(one, "acpwire_codegen")
        }
        graph[name] = needs - {"acpwire_codegen"}
        assert {need for need in graph[name] if place[need] > place[name]} == set(), name
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(modules)


def test_importing_the_draft_loads_msgspec_and_nothing_else() -> None:
    """No asyncio, and of third parties msgspec alone; what that takes along is its own affair."""
    script = (
        "import sys, msgspec, msgspec.json, msgspec.structs\n"
        "before = set(sys.modules)\n"
        "import acpwire.v2\n"
        "print(*sorted(set(sys.modules) - before))\n"
        "print('asyncio' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    loaded, asyncio = done.stdout.splitlines()
    assert "acpwire.wire.v2.types" in loaded.split()
    strangers = {name.partition(".")[0] for name in loaded.split()} - set(sys.stdlib_module_names)
    assert strangers - {"msgspec"} == {"acpwire"}
    assert asyncio == "False"


# --- what is public ---------------------------------------------------------------------------------------------------


def _public(module: ModuleType) -> set[str]:
    """The names that a module has for others: neither private nor modules."""
    return {name for name, value in vars(module).items() if name[0] != "_" and not isinstance(value, ModuleType)}


@pytest.mark.parametrize("module", [acpwire.wire, acpwire.v2], ids=lambda module: module.__name__)
def test_all_is_what_a_module_has_for_others(module: ModuleType) -> None:
    assert len(set(module.__all__)) == len(module.__all__)
    assert set(module.__all__) == _public(module)


def test_the_public_draft_is_the_generated_one() -> None:
    assert acpwire.v2.__all__ == acpwire.wire.v2.__all__
    for name in acpwire.v2.__all__:
        assert getattr(acpwire.v2, name) is getattr(acpwire.wire.v2, name)


@pytest.mark.parametrize("name", sorted(_modules()))
def test_every_module_says_what_it_is(name: str) -> None:
    docstring = ast.get_docstring(ast.parse(_modules()[name].read_text("utf-8")))
    assert docstring
    assert _says_something(docstring)


# --- what no file may contain -----------------------------------------------------------------------------------------


@cache
def _files() -> list[Path]:
    """The files of the repository, new ones included; data of the corpus is as it came."""
    if (ROOT / ".git").exists():
        listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, capture_output=True, text=True, check=True, timeout=60).stdout.split("\0")
        paths = [ROOT / name for name in names if name]
    else:  # an unpacked source distribution
        paths = [path for path in ROOT.rglob("*") if "__pycache__" not in path.parts and ".nox" not in path.parts]
    corpus = ROOT / "tests" / "corpus"
    return sorted(path for path in paths if path.is_file() and corpus not in path.parents)


def _python() -> list[Path]:
    trees = [ROOT / name for name in ("src", "codegen", "tests")]
    return [path for path in _files() if path.suffix == ".py" and any(tree in path.parents for tree in trees)]


def test_the_files_of_the_repository_are_found() -> None:
    assert {ROOT / "pyproject.toml", ROOT / "schema" / "docs.toml", Path(__file__).resolve()} < set(_files())
    assert len(_python()) > 30


FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.])/(?:work|tmp|root)/"),
    "a package registry": re.compile(
        r"\b(?:registry\.[\w.-]+|[\w.-]*(?:pypi|pythonhosted|npmjs|yarnpkg|artifactory)[\w.-]*)\.(?:org|com|io|net)\b"
    ),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what: str) -> None:
    pattern = FORBIDDEN[what]
    assert pattern.search({"a path of one machine": "in " + "/tm" + "p/x", "a package registry": "pyp" + "i.org"}[what])
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in _files()
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found


DIRECTIVE = re.compile(
    r"^\s*(?:noqa|type:\s*ignore|pyright:|mypy:|ruff:|pragma|fmt:|isort:|nosec|pylint:)", re.IGNORECASE
)
SKIPPING = {"skip", "skipif", "xfail", "importorskip"}


def _says_something(text: str) -> bool:
    return len(re.findall(r"[^\W\d_]{2,}", text)) > 1


def _unexplained(text: str) -> Iterator[int]:
    """The lines that switch a check or a test off and do not say why, on them or on the line above."""
    comments: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments[token.start[0]] = token.string

    def directives(line: int) -> list[str]:
        return [part.strip() for part in comments.get(line, "").split("#") if DIRECTIVE.match(part)]

    def explained(line: int) -> bool:
        above = text.splitlines()[line - 2].strip() if line > 1 else ""
        parts = [*comments.get(line, "").split("#"), *(above.split("#") if above.startswith("#") else [])]
        if any(_says_something(part) for part in parts if not DIRECTIVE.match(part)):
            return True
        return bool(directives(line)) and directives(line) == directives(line - 1) and explained(line - 1)  # a run

    for line in comments:
        if directives(line) and not explained(line):
            yield line
    tree = ast.parse(text)
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in SKIPPING and "pytest" in ast.unparse(node):
            call = calls.get(id(node))
            given = [child.value for child in ast.walk(call) if isinstance(child, ast.Constant)] if call else []
            if not explained(node.lineno) and not any(isinstance(v, str) and _says_something(v) for v in given):
                yield node.lineno


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x = 1  # noqa: E501", [1]),
        ("x = 1  # noqa: E501  # a table reads better wide", []),
        ("# a table reads better wide\nx = 1  # noqa: E501", []),
        ("x = 1  # a table reads better wide  # noqa: E501", []),
        ("y = 2\nx = 1  # type: ignore[misc]  # pyright: ignore[reportUnknown]", [2]),
        ("import a  # noqa: F401  # for its effect\nimport b  # noqa: F401\nimport c  # noqa: E402", [3]),
        ("x = '# noqa'", []),
        ("import pytest\n@pytest.mark.skip\ndef test(): ...", [2]),
        ("import pytest\n@pytest.mark.skip(reason='')\ndef test(): ...", [2]),
        ("import pytest\n@pytest.mark.xfail(reason='not so yet, see H5')\ndef test(): ...", []),
        ("import pytest\n\ndef test():\n    pytest.skip('needs a terminal')", []),
    ],
)
def test_the_search_for_reasons_finds_what_has_none(text: str, lines: list[int]) -> None:
    assert list(_unexplained(text)) == lines


def test_whatever_is_switched_off_has_its_reason_beside_it() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}" for path in _python() for line in _unexplained(path.read_text("utf-8"))]
    assert not found
