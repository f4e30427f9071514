"""A generated package from a schema in a few milliseconds, and what tests say about the values that it decodes.

Owns: turning a schema into a `Package` under a directory of the test's choice, with the tables that the test gives, and
the comparison of a decoded value with a description of it in JSON. Does not know: which schemas there are, or what is
expected of them.
"""

from __future__ import annotations

import copy
import importlib
import json
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import msgspec

from acpwire.wire import UnknownVariant
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
        return getattr(self.module.types, name)

    def decode(self, name: str, raw: bytes) -> Any:
        """Decode one value as the class or alias of that name."""
        return self.module.decode(self.type(name), raw)

    def look(self, name: str, raw: bytes) -> Any:
        """Decode one value without the strict decoder."""
        return self.module.unions.DECODING.look(self.type(name), raw)

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
def importable(directory: Path) -> Generator[Path]:
    """Make the packages in a directory importable, and forget them afterwards."""
    sys.path.insert(0, str(directory))
    try:
        yield directory
    finally:
        sys.path.remove(str(directory))
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(str(directory)):
                del sys.modules[name]


# --- values ----------------------------------------------------------------------------------------------------------


def canonical(raw: bytes) -> str:
    """JSON whatever its layout and the order of its members; 1, 1.0 and true differ."""
    return json.dumps(json.loads(raw), sort_keys=True)


def strings(value: Any) -> Iterator[str]:
    """Every string that stands as a value in parsed JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings(list(cast("dict[str, Any]", value).values()))
    elif isinstance(value, list):
        for child in cast("Iterable[Any]", value):
            yield from strings(child)


def unknowns(value: Any) -> Iterator[UnknownVariant]:
    """Every unknown variant in a decoded value."""
    if isinstance(value, UnknownVariant):
        yield value
    elif isinstance(value, msgspec.Struct):
        yield from unknowns([getattr(value, attr) for attr in value.__struct_fields__])
    elif isinstance(value, dict):
        yield from unknowns(list(cast("dict[str, Any]", value).values()))
    elif isinstance(value, list):
        for child in cast("Iterable[Any]", value):
            yield from unknowns(child)


def differences(expected: Any, value: Any, raw: bytes, path: str = "$") -> Iterator[str]:
    """Where a decoded value is not what the description in JSON says, in words.

    `{"class": NAME, ATTRIBUTE: EXPECTED, ...}` is a value of that class of which every attribute that is not mentioned
    has its default; `{"class": "UNSET"}` is UNSET, and `{"class": "UnknownVariant", "tag": TAG}` must hold bytes that
    are in `raw`. Anything else is itself, and of the same type.
    """
    if isinstance(expected, dict):
        wanted = dict(cast("dict[str, Any]", expected))
        name = wanted.pop("class", None)
        if name is not None:
            yield from _class_differences(name, wanted, value, raw, path)
        elif not isinstance(value, Mapping) or wanted.keys() != cast("Mapping[str, Any]", value).keys():
            yield f"{path}: {value!r} has not the keys {list(wanted)}"
        else:
            for key, child in wanted.items():
                yield from differences(child, value[key], raw, f"{path}[{key}]")
    elif isinstance(expected, list):
        items = cast("Sequence[Any]", expected)
        if not isinstance(value, list) or len(items) != len(cast("Sequence[Any]", value)):
            yield f"{path}: {value!r} is no list of {len(items)}"
        else:
            for index, child in enumerate(items):
                yield from differences(child, value[index], raw, f"{path}[{index}]")
    elif type(expected) is not type(value) or expected != value:
        yield f"{path}: {value!r} is not {expected!r}"


def _class_differences(name: str, wanted: dict[str, Any], value: Any, raw: bytes, path: str) -> Iterator[str]:
    if name == "UNSET":
        if value is not msgspec.UNSET:
            yield f"{path}: {value!r} is not UNSET"
    elif type(value).__name__ != name:
        yield f"{path}: {value!r} is no {name}"
    elif isinstance(value, UnknownVariant):
        if value.tag != wanted["tag"] or value.raw not in raw:
            yield f"{path}: {value!r} is not the value that came, with tag {wanted['tag']}"
    else:
        for attr, child in wanted.items():
            yield from differences(child, getattr(value, attr), raw, f"{path}.{attr}")
        if isinstance(value, msgspec.Struct):
            yield from _defaults(wanted, value, path)


def _defaults(wanted: dict[str, Any], value: msgspec.Struct, path: str) -> Iterator[str]:
    for field in msgspec.structs.fields(value):
        if field.name in wanted:
            continue
        if field.required:
            yield f"{path}.{field.name} is required, and it is not said what it is"
            continue
        default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        if getattr(value, field.name) != default:
            yield f"{path}.{field.name}: {getattr(value, field.name)!r} is not its default, {default!r}"
