"""Reads what the build starts from: a schema, its prose, and the hand-kept tables beside the pinned one.

Owns: the file formats under `schema/`, where that directory is, and taking prose out of a schema: the repository keeps
its structure and, of the prose, only hashes, marker words and the page it points to.
Does not know: what the schema means, or how anything is generated from it.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

PINNED = "PINNED.toml"
STRUCTURE = "v2.draft.json"
PROSE = "prose.toml"
DOCS = "docs.toml"
OVERRIDES = "overrides.toml"
CHANGES = "CHANGES.md"

MARKERS = (
    *("MUST NOT", "MUST", "SHOULD NOT", "SHOULD", "MAY", "UNSTABLE"),
    *("null", "omitted", "unchanged", "equivalent", "patch", "top-level key"),
)
_ERROR_CODE = re.compile(r"-32\d{3}\b")
_PAGE = re.compile(r"/protocol/(?:v\d+/)?(?:draft/)?([a-z0-9-]+(?:#[a-z0-9-]+)?)")


class SchemaError(Exception):
    """A schema or a table beside it cannot be used; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Prose:
    """What is kept of one description: enough to see that it changed, not what it says."""

    sha256: str
    markers: tuple[str, ...] = ()
    page: str = ""


@dataclass(frozen=True)
class Source:
    """One schema: its structure, what is known of its prose, and where it came from."""

    document: dict[str, Any]
    prose: Mapping[str, Prose]
    version: str
    sha256: str
    pinned: bool
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Pointer -> upstream's sentence, where the file at hand still has it. Never written anywhere."""


@dataclass(frozen=True)
class Tables:
    """The hand-kept tables of the repository."""

    docs: dict[str, dict[str, str]]
    overrides: dict[str, Any]
    pinned: dict[str, Any]


def schema_directory() -> Path:
    """Where `schema/` is: inside an installed package, or beside `codegen/` in a checkout."""
    installed = Path(__file__).parent / "schema"
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "schema"


def licence_file() -> Path:
    """Where the text of the licence is: inside an installed package, or at the top of a checkout."""
    installed = Path(__file__).parent / "LICENSE"
    return installed if installed.is_file() else Path(__file__).resolve().parents[2] / "LICENSE"


def read_schema(path: Path, version: str | None = None) -> Source:
    """Read a schema file as upstream publishes it, prose included or not."""
    return as_source(path.name, read_bytes(path), version)


def as_source(name: str, data: bytes, version: str | None = None) -> Source:
    """The bytes of a schema as upstream publishes it; without a version it goes by its hash."""
    document, texts = split_prose(parse(name, data))
    digest = structure_hash(document)
    prose = {pointer: prose_of(text) for pointer, text in texts.items()}
    return Source(document, prose, version or f"sha256:{digest[:12]}", digest, pinned=False, texts=texts)


def read_pinned(directory: Path) -> Source:
    """Read the pinned schema and check it against the hashes in PINNED.toml."""
    pinned = _toml(directory / PINNED)
    data = read_bytes(directory / STRUCTURE)
    document = parse(STRUCTURE, data)
    if hashlib.sha256(data).hexdigest() != pinned.get("sha256"):
        raise SchemaError(
            f"{STRUCTURE} is not what {PINNED} says (sha256 differs): restore it, or run `acpwire-codegen pin` again"
        )
    prose = {
        pointer: Prose(entry["sha256"], tuple(entry.get("markers", ())), entry.get("page", ""))
        for pointer, entry in _toml(directory / PROSE).items()
    }
    return Source(document, prose, pinned["version"], structure_hash(document), pinned=True)


def read_tables(directory: Path) -> Tables:
    """Read docs.toml, overrides.toml and PINNED.toml."""
    pinned = directory / PINNED
    return Tables(
        docs=_toml(directory / DOCS),
        overrides=_toml(directory / OVERRIDES),
        pinned=_toml(pinned) if pinned.exists() else {},
    )


def parse(name: str, data: bytes) -> dict[str, Any]:
    """A JSON Schema document with `$defs`, or a `SchemaError` that says what is wrong with it."""
    try:
        document: Any = json.loads(data)
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise SchemaError(f"{name} holds half a character, which no file can: {error.object[error.start]!a}") from error
    except RecursionError as error:
        raise SchemaError(f"{name} is nested too deep to be a schema") from error
    except ValueError as error:
        raise SchemaError(f"{name} is no JSON: {error}") from error
    schema = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    if not isinstance(schema.get("$defs"), dict) or not schema["$defs"]:
        raise SchemaError(f"{name} is no ACP schema: a JSON object with definitions in `$defs` is expected")
    return schema


def serialise(document: Mapping[str, Any]) -> bytes:
    """The bytes of a structure file."""
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def structure_hash(document: Mapping[str, Any]) -> str:
    """The hash that names a schema, whatever its prose, its layout and the order of its keys."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def prose_of(text: str) -> Prose:
    """What is kept of a description."""
    found = [
        marker for marker in MARKERS if re.search(rf"\b{marker}\b", text, 0 if marker.isupper() else re.IGNORECASE)
    ]
    page = _PAGE.search(text)
    return Prose(
        hashlib.sha256(text.encode()).hexdigest(),
        (*found, *sorted(set(_ERROR_CODE.findall(text)))),
        page.group(1) if page else "",
    )


def split_prose(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Take `description` and `x-docs-ignore` out, nothing else; return the structure and pointer -> description."""
    texts: dict[str, str] = {}

    def strip(value: Any, pointer: str, named: bool) -> Any:
        """`named`: the keys are names of members or definitions, not keywords (H14)."""
        if isinstance(value, list):
            items = enumerate(cast("Iterable[Any]", value))
            return [strip(item, f"{pointer}/{index}", False) for index, item in items]
        if not isinstance(value, dict):
            return value
        kept: dict[str, Any] = {}
        for key, child in cast("dict[str, Any]", value).items():
            if not named and key == "description" and isinstance(child, str):
                texts[pointer] = child
            elif not named and key in ("const", "default", "enum", "examples"):
                kept[key] = child  # values, whatever their members are called
            elif named or key != "x-docs-ignore":
                kept[key] = strip(child, f"{pointer}/{key}", not named and key in ("properties", "$defs"))
        return kept

    return strip(document, "", False), texts


def borrowed(ours: Iterator[tuple[str, str]], theirs: Mapping[str, str], run: int = 8) -> list[str]:
    """Where `run` words in a row of our docs equal upstream's; our docs are our own words."""
    upstream = {gram for text in theirs.values() for gram in _runs(text, run)}
    return [f"{key}: {' '.join(gram)}" for key, text in ours for gram in _runs(text, run) if gram in upstream]


def _runs(text: str, run: int) -> Iterator[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9_$]+(?:[/-]+[a-z0-9_$]+)*", text.lower())
    return (tuple(words[index : index + run]) for index in range(len(words) - run + 1))


def doc_lines(docs: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Every line of docs.toml with its place."""
    return ((f"{table}.{key}", text) for table, lines in docs.items() for key, text in lines.items())


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, or a `SchemaError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SchemaError(f"cannot read {path}: {error.strerror or error}") from error


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SchemaError(f"{path.name} is no TOML: {error}") from error
