"""What the protocol demands, and what shows that it is kept.

`requirements.toml` has every requirement's ID, whom it binds and what the library does about it: it sees to it by
itself (ENF), makes it easy (HLP), or leaves it to the application (EXP). The first two are proved by tests, which name
the IDs in their text, most in the docstring; `PL-09..PL-13` names all five. Of the last, those of the page that all of
this started from are told by docstrings, which name them too.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
ID = re.compile(r"(?<![-\w])([A-Z]{2})-(\d{2})(?:\.\.(?:\1-)?(\d{2}))?\b")


@cache
def table() -> dict[str, Any]:
    """What is in requirements.toml."""
    return tomllib.loads((TESTS / "requirements.toml").read_text("utf-8"))


@cache
def rows() -> dict[str, tuple[str, str]]:
    """ID -> whom it binds, and what the library does about it."""
    return {
        f"{family}-{number}": (role, marker)
        for family, members in table()["ids"].items()
        for number, role, marker in (line.split() for line in members)
    }


def named(text: str) -> set[str]:
    """The IDs that a text names."""
    return {
        f"{family}-{number:02}"
        for family, first, last in ID.findall(text)
        for number in range(int(first), int(last or first) + 1)
    }


@cache
def proved() -> dict[str, set[str]]:
    """ID -> the tests that name it."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        if path == Path(__file__):
            continue
        text = path.read_text("utf-8")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                for one in named("\n".join(lines[first - 1 : node.end_lineno])):
                    found.setdefault(one, set()).add(f"{path.relative_to(TESTS)}::{node.name}")
    return found


def test_ranges_name_all_that_is_in_them() -> None:
    assert named("PL-09..PL-11, X3, SR-01..03 and MS-*") == {"PL-09", "PL-10", "PL-11", "SR-01", "SR-02", "SR-03"}


def test_what_tests_name_is_a_requirement() -> None:
    assert {one: sorted(tests) for one, tests in proved().items() if one not in rows()} == {}


def test_all_requirements_are_there() -> None:
    assert len(rows()) == 371
    assert {role for role, _ in rows().values()} == set("ABCL")
    assert Counter(marker for _, marker in rows().values()) == {"ENF": 255, "HLP": 67, "EXP": 49}


def reasons() -> dict[str, set[str]]:
    """Why there are none -> the IDs that no test proves."""
    return {kind: set(reason["ids"]) for kind, reason in table()["reasons"].items() if reason["why"]}


def test_what_the_library_does_by_itself_or_makes_easy_is_proved_or_has_its_reason() -> None:
    due = {one for one, (_, marker) in rows().items() if marker in {"ENF", "HLP"}}
    assert sorted(due - proved().keys() - set().union(*reasons().values())) == []


def test_reasons_are_few_and_only_for_what_is_out_of_scope() -> None:
    assert {kind: len(ids) for kind, ids in reasons().items()} == {"later": 1, "decided": 3, "elsewhere": 2}


def test_what_is_left_to_the_application_is_told_by_a_docstring() -> None:
    told: dict[str, str] = table()["told"]
    assert len(told) == 23
    for one, name in told.items():
        assert rows()[one][1] == "EXP"
        assert one in named(inspect.getdoc(pkgutil.resolve_name(name)) or ""), f"{name} does not tell of {one}"
