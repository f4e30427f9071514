"""Switches off one rule of the generator at a time and sees that a test notices.

Owns: `nox -s ablate`. A rule is a normalising pass, a flag on one class of members (requirements C2), or a kind
of entry in overrides.toml. The package is generated without it into a copy of the sources, and the tests of generator
and wire run against that copy; where not even that works, the rule is needed for sure. Exits with 1 if nothing notices.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from acpwire_codegen import load, normalise
from acpwire_codegen.__main__ import main as codegen
from acpwire_codegen.dialect import Node, Schema

ROOT = Path(__file__).parents[1]
NOTHING = "nothing:switched off"
TESTS = (
    *("tests/codegen/test_normalise.py", "tests/wire/test_lenient.py", "tests/wire/test_v2.py"),  # quickest to notice
    *("tests/codegen", "tests/wire"),
)
NO_PROOF = (
    *("-k", "not (current or committed or hand_kept)", "--ignore", "tests/codegen/test_main.py"),
    *("--ignore", "tests/codegen/test_vendor.py"),
)
"""Tests that compare with what is committed, as it is or by the command, would notice anything, and prove nothing; and
those of vendored copies build the wheel, for which it takes more than is copied here."""


Member = tuple[str, Node, bool]
"""(JSON name, its node right after the flags were read, whether it is required)"""


def _is_array(node: Node) -> bool:
    return node.get("type") in ("array", ["array", "null"])


def _is_nullable(node: Node) -> bool:
    return isinstance(node.get("type"), list) or any(branch.get("type") == "null" for branch in node.get("anyOf", []))


FLAG_CLASSES: dict[str, tuple[str, Callable[[str, Node, bool], bool]]] = {
    "meta": ("error", lambda name, node, _: name == "_meta"),
    "optional": ("error", lambda name, node, _: name != "_meta" and _is_nullable(node) and not _is_array(node)),
    "null-array": ("null", lambda name, node, required: True),
    "nullable-array": (
        "error",
        lambda name, node, _: _is_array(node) and _is_nullable(node) and "skip" in node["flags"],
    ),
    "nullable-array-items": ("skip", lambda name, node, _: _is_nullable(node)),
    "unskipped-array": ("error", lambda name, node, _: _is_array(node) and "skip" not in node["flags"]),
    "optional-array": ("error", lambda name, node, needed: _is_array(node) and not needed and not _is_nullable(node)),
    "optional-array-items": ("skip", lambda name, node, needed: not needed and not _is_nullable(node)),
    "required-array-items": ("skip", lambda name, node, needed: needed and "error" not in node["flags"]),
    "required-array": ("error", lambda name, node, needed: needed),
    "untyped": ("error", lambda name, node, _: not set(node) - {"flags", "at"}),
    "defaulted": ("error", lambda name, node, _: "default" in node),
}
"""Class of members in requirements C2 -> the flag that it loses, and which members are in it."""


def rules() -> list[str]:
    """Everything that can be switched off, as KIND:NAME."""
    overrides = load.read_tables(load.schema_directory()).overrides
    return [
        *(f"pass:{step.__name__}" for step in normalise.PASSES),
        *(f"flag:{name}" for name in FLAG_CLASSES),
        *(f"override:{kind}" for kind in overrides),
    ]


def switch_off(rule: str) -> None:
    """Take one rule out of the generator of this process."""
    kind, _, name = rule.partition(":")
    if rule == NOTHING:
        return
    if kind == "pass":
        normalise.PASSES = tuple(step for step in normalise.PASSES if step.__name__ != name)
    elif kind == "flag":
        at = [step.__name__ for step in normalise.PASSES].index("read_flags") + 1
        passes = normalise.PASSES
        normalise.PASSES = (*passes[:at], lambda schema: _drop_flag(schema, *FLAG_CLASSES[name]), *passes[at:])
    else:
        read = load.read_tables

        def without(directory: Path) -> load.Tables:
            tables = read(directory)
            kept = {kind: entries if kind != name else type(entries)() for kind, entries in tables.overrides.items()}
            return load.Tables(tables.docs, kept, tables.pinned)

        load.read_tables = without


def _drop_flag(schema: Schema, flag: str, concerned: Callable[[str, Node, bool], bool]) -> None:
    dropped = 0
    for definition in schema.defs.values():
        for shape in [definition, *definition.get("anyOf", [])]:
            for name, node in shape.get("properties", {}).items():
                if flag in node.get("flags", ()) and concerned(name, node, name in shape.get("required", [])):
                    node["flags"] = [other for other in node["flags"] if other != flag]
                    dropped += 1
    if not dropped and len(schema.defs) > 100:
        raise AssertionError(f"no member has the flag {flag!r} in this class")


def notices(rule: str) -> str:
    """What notices that a rule is missing; empty if nothing does. Raises `RuntimeError` if the trial itself failed."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory)
        for name in ("src", "codegen", "schema", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        path = os.pathsep.join([str(copy / "src"), str(copy / "codegen"), str(copy)])
        environment = {**os.environ, "PYTHONPATH": path, "ACPWIRE_ABLATED": rule}

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", *arguments]
            return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)

        generated = run("tests.ablate", "--generate", str(copy / "src" / "acpwire" / "wire" / "v2"))
        said = generated.stderr.strip().splitlines() or ["no message"]
        if generated.returncode == 1:
            return f"the generator: {said[-1]}"
        if generated.returncode:
            raise RuntimeError(f"{rule}: {said[-1]}")
        tested = run("pytest", "-x", "-p", "tests.ablate", *NO_PROOF, *TESTS)
        failed = [line for line in tested.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if tested.returncode not in (0, 1, 2) or (tested.returncode and not failed):
            raise RuntimeError(f"{rule}: pytest ended with {tested.returncode}: {tested.stdout[-300:]}")
        return failed[0] if failed else ""


def pytest_configure() -> None:
    """As a pytest plugin: the tests of the generator run without the rule as well."""
    rule = os.environ.get("ACPWIRE_ABLATED")
    if rule:
        switch_off(rule)


def main(argv: Sequence[str] | None = None) -> int:
    """Try every rule, or those that are named."""
    parser = argparse.ArgumentParser(prog="nox -s ablate --", description=__doc__)
    parser.add_argument("rules", nargs="*", help="KIND:NAME; all, if none is given")
    parser.add_argument("--generate", metavar="DIR", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.generate:
        switch_off(os.environ["ACPWIRE_ABLATED"])
        try:
            return codegen(["generate", "--out", arguments.generate, "--package", "acpwire.wire.v2"])
        except Exception as error:  # noqa: BLE001  # without its rule the generator may fail in any way
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 1
    without_ablation = notices(NOTHING)
    if without_ablation:
        print(f"with every rule in place this fails, so nothing can be told: {without_ablation}", file=sys.stderr)
        return 2
    unnoticed: list[str] = []
    for rule in arguments.rules or rules():
        by = notices(rule)
        print(f"{rule:<28} {by[:150] or 'NOTHING NOTICES'}", flush=True)
        if not by:
            unnoticed.append(rule)
    if unnoticed:
        print(f"no test notices that these are missing: {', '.join(unnoticed)}", file=sys.stderr)
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
