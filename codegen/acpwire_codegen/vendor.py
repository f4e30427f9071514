"""A copy of the wire in somebody else's package: made, compared, and replaced as a whole.

Owns: which files a copy consists of, its record `VENDORED.toml`, what it may overwrite, and where it differs from what
would be copied now. Does not know: how types are generated or pruned, or what the command line looks like.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib.util
import json
import os
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

from . import load
from .decide import build
from .model import Model
from .prune import prune
from .render import WIRE, render

RECORD = "VENDORED.toml"
PINNED = "pinned"
LICENCE = (
    "Apache-2.0, in the file LICENSE beside this one. The modules here are those of acpwire; v2 is generated from the "
    "schema of the Agent Client Protocol project, which is Apache-2.0 too. Whoever passes the copy on keeps both."
)


class VendorError(Exception):
    """A copy cannot be made or looked at; the message says why, and what to do."""


@dataclass(frozen=True)
class Record:
    """What `VENDORED.toml` says about the copy that it lies in."""

    package: str
    types: tuple[str, ...]
    """The roots that it was pruned to; none if it is whole."""
    schema: str
    """`pinned`, or a path from where the refresh command is run."""
    place: str
    """Where it is, from where the refresh command is run: from the top of the project."""
    made_by: str
    """The versions that it was made with, as a reader would compare them."""
    files: Mapping[str, str]
    """File -> hash of its text."""

    @property
    def refresh(self) -> str:
        """The command that makes the copy again."""
        command = ["acpwire-codegen", "vendor", self.place, "--package", self.package]
        command += ["--types", ",".join(self.types)] if self.types else []
        command += ["--schema", self.schema] if self.schema != PINNED else []
        return shlex.join(command)


@dataclass(frozen=True)
class Findings:
    """How a copy differs from what would be copied now."""

    diff: Sequence[str]
    edited: Sequence[str]
    """Files that are not what the record says: changed, added or lost since the copy was made."""
    stale: Sequence[str]
    """Files that would be others now."""


@dataclass(frozen=True)
class Copy:
    """A copy as it would be now, and the one that is there."""

    place: Path
    files: Mapping[str, str]
    record: Record
    notes: Sequence[str]
    """What whoever has it made should know."""
    before: Record | None

    def write(self) -> list[str]:
        """Put it in its place and return the files of the one before that had been edited.

        Raises `VendorError`, with everything as it was, if the place holds anything that is not of a copy, or cannot be
        written to. The old copy stands until the new one is whole.
        """
        held = _held(self.place)
        _refuse_foreign(self.place, held, self.before)
        try:
            _replace(self.place, self.files)
        except OSError as error:
            raise VendorError(
                f"cannot write to {self.place}: {error.strerror or error}; what was there is as it was"
            ) from error
        return _edited(held, self.before)

    def compare(self) -> Findings:
        """How the copy that is there differs from this one. Raises `VendorError` if there is none."""
        if not self.place.is_dir():
            raise VendorError(f"there is no copy in {self.place}; make it with: {self.record.refresh}")
        held = _held(self.place)
        stale: list[str] = []
        diff: list[str] = []
        for name in sorted({*held, *self.files}):
            if held.get(name) != self.files.get(name):
                stale.append(name)
                diff += _diff(name, held.get(name), self.files.get(name))
        edited = _edited(held, self.before)
        if self.before is not None:  # what the record says was copied, and is not what would be copied now
            then = {**self.before.files, RECORD: _hash(held.get(RECORD))}
            stale = [name for name in stale if then.get(name, "") != _hash(self.files.get(name))]
        return Findings(diff, edited, stale)


def prepare(
    place: Path, package: str | None, types: Sequence[str] | None, schema: Path | None, check: bool = False
) -> Copy:
    """The copy that belongs to a place. What is not given is as the record of the copy that is there says.

    But where the package is given and a copy is to be made, types and schema are what is given: none means all types,
    and the pinned schema. Raises `VendorError`, and what loading, pruning and printing raise.
    """
    place = Path(os.path.abspath(place))  # noqa: PTH100  # `resolve` would follow a link that stands for the copy
    if not check:
        _recover(place)
    before = _read(place / RECORD)
    if not check:
        _refuse_foreign(place, _held(place), before)
    if package is None:
        if before is None:
            raise VendorError(f"there is no {RECORD} in {place}: say --package NAME, under which it is imported")
        package = before.package
    elif not check:
        types, schema = types or (), schema or Path(PINNED)
    base = _base(place, package, before)
    if types is None:
        types = before.types if before else ()
    if schema is None:
        told = before.schema if before else PINNED
        schema = Path(PINNED) if told == PINNED else base / told
    else:
        told = PINNED if str(schema) == PINNED else _from(base, schema)
    source = load.read_pinned(load.schema_directory()) if told == PINNED else load.read_schema(schema)
    roots = tuple(sorted(set(types)))
    files, model = _copied(package, roots, source)
    hashes = {name: _hash(text) for name, text in files.items()}
    made_by = f"acpwire {version('acpwire')}, schema {source.version}"
    record = Record(package, roots, told, _from(base, place), made_by, hashes)
    files[RECORD] = _print(record, source)
    return Copy(place, files, record, _notes(place, package, model), before)


# --- what a copy consists of ------------------------------------------------------------------------------------------


def _copied(package: str, roots: Sequence[str], source: load.Source) -> tuple[dict[str, str], Model]:
    """File -> text of a copy but for its record, and what its generated package is printed from."""
    model = build(source, load.read_tables(load.schema_directory()))
    if roots:
        model = prune(model, roots)
    files = _texts(package)
    generated = render(model, f"{package}.v2", around={name: text for name, text in files.items() if "." in name})
    return files | {f"v2/{name}": text for name, text in generated.items()}, model


def _texts(package: str) -> dict[str, str]:
    """The files of a copy that are the same whatever the schema."""
    spec = importlib.util.find_spec("acpwire")
    if spec is None or not spec.submodule_search_locations:
        raise VendorError("the package acpwire is not installed; install acpwire[codegen]")
    wire = Path(next(iter(spec.submodule_search_locations))) / "wire"
    head = f"# Copied from acpwire {version('acpwire')} as {package}.\n# Do not edit; run `acpwire-codegen vendor`.\n"
    texts = {path.name: head + path.read_text("utf-8").replace(WIRE, package) for path in sorted(wire.glob("*.py"))}
    texts["LICENSE"] = load.read_bytes(load.licence_file()).decode()
    if "." not in package:
        texts["py.typed"] = ""  # otherwise the marker of the package around it counts (PEP 561)
    return texts


def _notes(place: Path, package: str, model: Model) -> list[str]:
    """What may be wrong with a copy although it was made."""
    notes: list[str] = []
    if place.parts[-package.count(".") - 1 :] != tuple(package.split(".")):
        notes.append(f"{place} does not look like the place of {package}, under which alone it can be imported")
    marked = [warning.partition(" is nullable")[0] for warning in model.warnings if " is nullable" in warning]
    members = [member for member in marked if member.partition(".")[0] in model.names]
    if members:
        notes.append(
            "nothing says whether omitted and null mean the same for these, which keep the two apart: "
            + ", ".join(members)
        )
    return notes


def _print(record: Record, source: load.Source) -> str:
    """The text of a record."""
    quoted = json.dumps  # a JSON string of ASCII is a TOML string
    lines = [
        "# What this directory is a copy of; written by `acpwire-codegen vendor`, which `--check` compares it with.",
        f"package = {quoted(record.package)}",
        f"types = {quoted(list(record.types))}",
        f"refresh = {quoted(record.refresh)}",
        f"licence = {quoted(LICENCE)}",
        "",
        "[versions]",
        f"acpwire = {quoted(version('acpwire'))}",
        f"acpwire-codegen = {quoted(version('acpwire'))}",
        f"datamodel-code-generator = {quoted(version('datamodel-code-generator'))}",
        f"schema = {quoted(source.version)}",
        "",
        "[schema]",
        f"file = {quoted(record.schema)}",
        f"sha256 = {quoted(source.sha256)}",
        "",
        "[files]",
        *(f"{quoted(name)} = {quoted(digest)}" for name, digest in sorted(record.files.items())),
    ]
    return "\n".join(lines) + "\n"


def _read(path: Path) -> Record | None:
    """The record of a copy, or None where there is none. Raises `VendorError` if it cannot be read."""
    if not path.exists():
        return None
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        return Record(
            str(found["package"]),
            tuple(map(str, found["types"])),
            str(found["schema"]["file"]),
            shlex.split(found["refresh"])[2],
            f"acpwire {found['versions']['acpwire']}, schema {found['versions']['schema']}",
            {str(name): str(digest) for name, digest in found["files"].items()},
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise VendorError(
            f"{path} is not as it was written ({type(error).__name__}: {error}): restore it, or move the whole "
            "directory away and copy anew"
        ) from error


def _base(place: Path, package: str, before: Record | None) -> Path:
    """The directory from which paths in the record go: the project's, whatever the command is run from."""
    parts = PurePosixPath(before.place).parts if before else ()
    if parts and place.parts[-len(parts) :] == parts:
        return place.parents[len(parts) - 1]
    for parent in place.parents:
        if (parent / "pyproject.toml").exists() or (parent / ".git").exists():
            return parent
    return place.parents[min(package.count("."), len(place.parents) - 1)]


def _from(base: Path, path: Path) -> str:
    """A path as it is written in a record."""
    return Path(os.path.relpath(path, base)).as_posix()


# --- the files of the copy that is there ------------------------------------------------------------------------------


def _held(place: Path) -> dict[str, str]:
    """What a directory holds, less what Python leaves there: files with their texts, empty directories."""
    if not place.exists():
        return {}
    if not place.is_dir():
        raise VendorError(f"{place} is no directory; nothing was written: give the directory of the copy")
    held: dict[str, str] = {}
    for path in place.rglob("*"):
        name = path.relative_to(place).as_posix()
        if "__pycache__" in path.parts[len(place.parts) :]:
            continue
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                held[f"{name}/"] = ""
        else:
            held[name] = _text(path) if path.is_file() else ""
    return held


def _text(path: Path) -> str:
    """A text whatever git made of the ends of its lines."""
    return load.read_bytes(path).replace(b"\r\n", b"\n").decode("utf-8", "surrogateescape")


def _diff(name: str, old: str | None, new: str | None) -> list[str]:
    """How a file differs, as lines; what has no text is named."""
    before, after = ((text or "").encode("utf-8", "replace").decode().splitlines() for text in (old, new))
    lines = list(difflib.unified_diff(before, after, f"copied/{name}", f"current/{name}", lineterm=""))
    return lines or [f"{'only copied' if new is None else 'only current' if old is None else 'line ends'}: {name}"]


def _hash(text: str | None) -> str:
    return "" if text is None else hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _edited(held: Mapping[str, str], before: Record | None) -> list[str]:
    """The files that are not what the record says."""
    if before is None:
        return []
    names = {*before.files, *held} - {RECORD}
    return sorted(name for name in names if before.files.get(name, "") != _hash(held.get(name)))


def _refuse_foreign(place: Path, held: Mapping[str, str], before: Record | None) -> None:
    """Raise `VendorError` if a directory holds anything that is not of a copy."""
    foreign = sorted(held.keys() - {RECORD, *before.files} if before else held)
    if foreign:
        raise VendorError(
            f"{place} holds files that are of no copy ({', '.join(foreign[:5])}); nothing was written: move them away, "
            "or copy to another directory"
        )


def _beside(place: Path) -> Iterator[Path]:
    return (place.with_name(f".{place.name}.acpwire-{which}") for which in ("new", "old"))


def _recover(place: Path) -> None:
    """Put the old copy back where a run was killed between taking it away and putting the new one in its place."""
    place = place.resolve()
    _, old = _beside(place)
    if old.is_dir() and not place.exists():
        try:
            old.rename(place)
        except OSError as error:
            raise VendorError(f"cannot move {old} back to {place}: {error.strerror or error}; do it by hand") from error


def _replace(place: Path, files: Mapping[str, str]) -> None:
    """Write all files beside the place, then change the directories over; whatever happens, one of them is there."""
    place = place.resolve()
    new, old = _beside(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    for left in (new, old):  # of a run that was killed
        if left.is_dir():
            shutil.rmtree(left)
    try:
        for name, text in files.items():
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        if place.exists():
            place.rename(old)
        new.rename(place)
    except BaseException:
        if not place.exists() and old.exists():
            old.rename(place)
        with contextlib.suppress(OSError):
            shutil.rmtree(new)
        raise
    shutil.rmtree(old, ignore_errors=True)
