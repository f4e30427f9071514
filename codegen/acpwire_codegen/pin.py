"""Pins an upstream schema: takes it from npm or a file, keeps its structure, writes three files or none.

Owns: the command `pin`. Does not know: what is generated from the pinned schema.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import load
from .load import SchemaError, Source

NPM_FILE = "schema/v2/schema.unstable.json"
_NPM_SPEC = re.compile(r"npm:(?P<package>(?:@[\w.-]+/)?[\w.-]+)@(?P<version>[\w.+-]+)")


def fetch_npm(spec: str) -> tuple[str, bytes, dict[str, str]]:
    """`npm:PACKAGE@VERSION` -> the version, the bytes of its draft schema, and where they came from."""
    match = _NPM_SPEC.fullmatch(spec)
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
            reason = next((line for line in done.stderr.splitlines() if "notarget" in line or "E404" in line), "")
            raise SchemaError(f"npm has no {package}" + (f": {reason.strip()}" if reason else ""))
        (report,) = _reports(done.stdout)
        archive = Path(directory) / Path(report["filename"]).name
        try:
            with tarfile.open(archive) as tar:
                member = tar.extractfile(f"package/{NPM_FILE}")
                data = member.read() if member else b""
        except (KeyError, tarfile.TarError, OSError) as error:
            raise SchemaError(f"{package} has no {NPM_FILE}: it is no version with a v2 draft") from error
    version = str(report["version"])
    return version, data, {"package": match["package"], "version": version, "file": NPM_FILE}


def _reports(output: str) -> list[dict[str, Any]]:
    """npm prints a list, or since version 11 sometimes an object of packages."""
    found: list[dict[str, Any]] | dict[str, dict[str, Any]] = json.loads(output)
    return found if isinstance(found, list) else list(found.values())


def write(
    directory: Path,
    data: bytes,
    origin: dict[str, str],
    expected_sha256: str | None,
    names: Callable[[Source], dict[str, str]],
) -> None:
    """Write the three files of a pin, each whole; nothing is written where anything is wrong.

    `names` is called with the new schema and gives the class names that it leads to.
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
    pinned += "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in sorted(names(source).items()))
    prose = (
        "# What is kept of upstream's prose: pointer -> hash, marker words, page. Written by `acpwire-codegen pin`.\n"
    )
    prose += "".join(f"{json.dumps(pointer)} = {_prose(kept[pointer])}\n" for pointer in sorted(kept))
    replace_files(
        directory,
        {
            load.STRUCTURE: structure.decode(),
            load.PROSE: prose,
            load.PINNED: pinned,
        },
    )


def _prose(kept: load.Prose) -> str:
    parts = [f'sha256 = "{kept.sha256}"']
    if kept.markers:
        parts.append(f"markers = {json.dumps(list(kept.markers))}")
    if kept.page:
        parts.append(f"page = {json.dumps(kept.page)}")
    return "{ " + ", ".join(parts) + " }"


def replace_files(directory: Path, files: dict[str, str]) -> None:
    """Write every file beside its place first, then move all into place: an error before that changes nothing."""
    directory.mkdir(parents=True, exist_ok=True)
    staged = [(directory / f".{name}.new", directory / name) for name in files]
    try:
        for (new, _), text in zip(staged, files.values(), strict=True):
            new.write_bytes(text.encode())
    except OSError as error:
        for new, _ in staged:
            new.unlink(missing_ok=True)
        raise SchemaError(f"cannot write into {directory}: {error.strerror or error}; nothing was changed") from error
    for new, place in staged:
        new.replace(place)
