"""A generated package from a schema in a few milliseconds: built, rendered, written and imported.

Owns: turning a schema (a dict, or a file) into a `Package` under a directory of the test's choice, with the tables that
the test gives. Does not know: which schemas there are, or what is expected of them.
"""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from acpwire_codegen import load
from acpwire_codegen.decide import build
from acpwire_codegen.model import Model
from acpwire_codegen.render import render

EMPTY = load.Tables(docs={}, overrides={}, pinned={})


@dataclass(frozen=True)
class Package:
    """One generated package: what was decided, what was printed, and the imported module."""

    model: Model
    files: Mapping[str, str]
    module: ModuleType

    def names(self) -> set[str]:
        """Every class and alias, private ones included."""
        return {struct.name for struct in self.model.structs} | {alias.name for alias in self.model.aliases}

    def type(self, name: str) -> Any:
        """A class or alias by its name."""
        return getattr(importlib.import_module(f"{self.module.__name__}.types"), name)

    def decode(self, name: str, raw: bytes) -> Any:
        """Decode one value as the class or alias of that name."""
        return self.module.decode(self.type(name), raw)

    def encode(self, value: Any) -> bytes:
        """Encode one value."""
        encoded: bytes = self.module.encode(value)
        return encoded


def source_of(document: Mapping[str, Any], version: str = "test") -> load.Source:
    """A schema that is no file, its `description`s read as prose like those of a file."""
    structure, texts = load.split_prose(copy.deepcopy(dict(document)))
    prose = {pointer: load.prose_of(text) for pointer, text in texts.items()}
    return load.Source(structure, prose, version, load.structure_hash(structure), pinned=False, texts=texts)


def make_package(directory: Path, name: str, source: load.Source, tables: load.Tables = EMPTY) -> Package:
    """Generate `directory/name` and import it; `directory` must be importable, see `importable`."""
    model = build(source, tables)
    files = render(model, name)
    target = directory / name
    target.mkdir()
    for file, text in files.items():
        (target / file).write_text(text, "utf-8")
    importlib.invalidate_caches()
    return Package(model, files, importlib.import_module(name))


@contextmanager
def importable(directory: Path) -> Iterator[Path]:
    """Make the packages in a directory importable, and forget them afterwards."""
    sys.path.insert(0, str(directory))
    known = set(sys.modules)
    try:
        yield directory
    finally:
        sys.path.remove(str(directory))
        for name in set(sys.modules) - known:
            if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(directory)):
                del sys.modules[name]
