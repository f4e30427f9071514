"""Pins an upstream schema: takes it from npm or a file, keeps its structure, writes all its files or none.

Owns: the command `pin`. Does not know: what is generated from the pinned schema.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import load
from .load import SchemaError, Source

NPM_FILE = "schema/v2/schema.unstable.json"
NPM_SPEC = re.compile(r"npm:(?P<package>(?:@\w[\w.-]*/)?\w[\w.-]*)@(?P<version>\w[\w.+-]*)")


def fetch_npm(spec: str) -> tuple[str, bytes, dict[str, str]]:
    """`npm:PACKAGE@VERSION` -> the version, the bytes of its draft schema, and where they came from."""
    match = NPM_SPEC.fullmatch(spec)
    if match is None:
        raise SchemaError(f"{spec!r} is no source: expected npm:PACKAGE@VERSION, or --file PATH --source TEXT")
    npm = shutil.which("npm")
    if npm is None:
        raise SchemaError(f"{spec} needs the command `npm`, which is not on PATH; use --file with a downloaded schema")
    with tempfile.TemporaryDirectory() as directory:
        package = f"{match['package']}@{match['version']}"
        command = [npm, "pack", package, "--json", "--pack-destination", directory]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip() and " code " not in line]
            reason = lines[0] if lines else f"exit code {done.returncode}"
            missing = any(word in done.stderr for word in ("E404", "ETARGET", "notarget"))
            raise SchemaError(f"npm {'has no' if missing else 'could not fetch'} {package}: {reason}")
        report = _report(done.stdout)
        archive = Path(directory) / Path(report["filename"]).name
        try:
            with tarfile.open(archive) as tar:
                member = tar.extractfile(f"package/{NPM_FILE}")
                data = member.read() if member else b""
        except KeyError as error:
            raise SchemaError(f"{package} has no {NPM_FILE}: it is no version with a v2 draft") from error
        except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
            raise SchemaError(f"{package} arrived broken ({str(error).splitlines()[0]}); try again") from error
    version = str(report["version"])
    return version, data, {"package": match["package"], "version": version, "file": NPM_FILE}


def _report(output: str) -> dict[str, Any]:
    """npm prints a list of one, or since version 11 sometimes an object of one."""
    try:
        found: list[dict[str, Any]] | dict[str, dict[str, Any]] = json.loads(output)
        (report,) = found if isinstance(found, list) else found.values()
        return {"filename": str(report["filename"]), "version": str(report["version"])}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SchemaError("npm did not say what it packed; is it a version of npm with `pack --json`?") from error


def write(
    directory: Path,
    data: bytes,
    origin: dict[str, str],
    expected_sha256: str | None,
    names: Callable[[Source], dict[str, str]],
    log: Callable[[Source, dict[str, str]], str | None],
) -> None:
    """Write the files of a pin, each whole; nothing is written where anything is wrong.

    `names` is called with the new schema and gives the class names that it leads to; `log` with both, and gives the
    change log as it is from then on, or None where it stays as it is.
    """
    digest = hashlib.sha256(data).hexdigest()
    if expected_sha256 is not None and digest != expected_sha256:
        raise SchemaError(f"the schema has sha256 {digest}, expected {expected_sha256}; nothing was written")
    document, texts = load.split_prose(load.parse(origin["file"], data))
    structure = load.serialise(document)
    kept = {pointer: load.prose_of(text) for pointer, text in texts.items()}
    source = Source(document, kept, origin["version"], load.structure_hash(document), pinned=False)
    head = {**origin, "upstream_sha256": digest, "sha256": hashlib.sha256(structure).hexdigest()}
    pinned = "# The schema that everything is generated from; written by `acpwire-codegen pin`.\n"
    pinned += "".join(f"{key} = {json.dumps(value)}\n" for key, value in head.items())
    pinned += "\n# Place in the schema -> Python name; one that changes must be listed in overrides.toml.\n[names]\n"
    named = names(source)
    pinned += "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in sorted(named.items()))
    prose = (
        "# What is kept of upstream's prose: pointer -> hash, marker words, page. Written by `acpwire-codegen pin`.\n"
    )
    prose += "".join(f"{json.dumps(pointer)} = {_prose(kept[pointer])}\n" for pointer in sorted(kept))
    files = {load.STRUCTURE: structure.decode(), load.PROSE: prose, load.PINNED: pinned}
    changes = log(source, named)
    if changes is not None:
        files[load.CHANGES] = changes
    replace_files(directory, files)


def _prose(kept: load.Prose) -> str:
    parts = [f'sha256 = "{kept.sha256}"']
    if kept.markers:
        parts.append(f"markers = {json.dumps(list(kept.markers))}")
    if kept.page:
        parts.append(f"page = {json.dumps(kept.page)}")
    return "{ " + ", ".join(parts) + " }"


def replace_files(directory: Path, files: Mapping[str, str]) -> None:
    """Write all files or none: each beside its place first, then all into place, and back again on any error."""
    staged = {directory / name: directory / f".{name}.new" for name in files}
    before: dict[Path, bytes | None] = {}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for new, text in zip(staged.values(), files.values(), strict=True):
            new.write_bytes(text.encode())
        for place, new in staged.items():
            old = place.read_bytes() if place.exists() else None
            new.replace(place)
            before[place] = old
    except OSError as error:
        for place, old in before.items():
            if old is None:
                place.unlink()
            else:
                place.write_bytes(old)
        for new in staged.values():
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
        reason = error.strerror or error
        raise SchemaError(f"cannot write into {directory}: {reason}; everything is as it was") from error
