"""`acpwire` itself: what loads when, and what a program finds that imports nothing else.

Programs run in processes of their own: in this one, others have imported modules that are attributes by that.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import acpwire

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"(?<![\w./@-])acpwire\.([A-Za-z]\w*)")
AFRESH = """
import importlib, sys

def afresh():
    for name in [name for name in sys.modules if name.partition(".")[0] == "acpwire"]:
        del sys.modules[name]
    return importlib.import_module("acpwire")

"""


def printed(program: str) -> str:
    """What a program prints in a process of its own, which must complain of nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout


def modules() -> set[str]:
    """What `dir` tells of besides the names that are for everybody, and is public."""
    names = printed("import acpwire; print(*(set(dir(acpwire)) - set(acpwire.__all__)))").split()
    return {name for name in names if name[0] != "_"} - {"Any", "TYPE_CHECKING", "annotations", "import_module"}


def test_importing_it_loads_no_module_of_its_own() -> None:
    script = "import sys, acpwire; print(*(name for name in sys.modules if name.startswith('acpwire.')))"
    assert printed(script) == "\n"
    assert printed(script.replace("; ", "; dir(acpwire); hasattr(acpwire, 'nothing'); ", 1)) == "\n"


def test_a_module_that_dir_tells_of_loads_on_first_use_whatever_has_loaded() -> None:
    assert {"forms", "testing", "transcript", "v2"} < modules()
    script = f"{AFRESH}for name in {sorted(modules())}:\n    print(getattr(afresh(), name).__name__)\n"
    assert printed(script).split() == [f"acpwire.{name}" for name in sorted(modules())]


def docstrings() -> Iterator[str]:
    """Those of all modules that are not generated, and of all in them."""
    for path in (ROOT / "src" / "acpwire").rglob("*.py"):
        if "wire" not in path.relative_to(ROOT / "src" / "acpwire").parts:
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    yield ast.get_docstring(node) or ""


def test_what_the_readme_and_docstrings_name_is_there_for_who_imported_the_facade_alone() -> None:
    """Modules that are run with `-m` are not meant."""
    texts = [(ROOT / "README.md").read_text("utf-8"), *docstrings()]
    named = {name for text in texts for name in NAMED.findall(text.replace("-m acpwire", ""))}
    assert {"connect", "examples", "forms", "testing", "v2"} < named
    script = f"{AFRESH}print([name for name in {sorted(named)} if not hasattr(afresh(), name)])"
    assert printed(script) == "[]\n"


def test_a_name_that_is_not_there_is_an_attribute_error_that_says_so() -> None:
    script = "import acpwire\ntry:\n    acpwire.tesing\nexcept AttributeError as error:\n    print(error)\n"
    assert printed(script) == "module 'acpwire' has no attribute 'tesing'\n"


def test_dir_tells_of_every_name_and_module() -> None:
    assert set(acpwire.__all__) | modules() <= set(dir(acpwire))
    assert dir(acpwire) == sorted(set(dir(acpwire)))
