"""Compares real versions of the draft, each with the next: `python -m tests.codegen.history` (needs npm).

Owns: which versions there are, fetching them, and what must hold for every pair. What is fetched has upstream's prose
in it, and is not kept.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from acpwire_codegen import load, pin, report
from acpwire_codegen.changes import Report
from acpwire_codegen.decide import build
from acpwire_codegen.dialect import walk
from acpwire_codegen.drift import compare

PACKAGE = "@agentclientprotocol/sdk"
VERSIONS = (
    *("1.4.0", "1.5.0", "1.5.1", "1.6.0", "1.6.1", "1.7.0", "1.8.0", "1.9.0"),
    *("2.0.0", "2.0.1", "2.0.2", "2.1.0", "2.2.0", "2.3.0", "2.4.0"),
)
"""All that have a v2 draft, as far as this list goes."""


def fetched(version: str) -> load.Source:
    """One version from npm."""
    _, data, origin = pin.fetch_npm(f"npm:{PACKAGE}@{version}")
    return load.as_source(origin["file"], data, version)


def untold(old: load.Source, new: load.Source, found: Report) -> list[str]:
    """Definitions that differ, of which the report says nothing: each must be one that is written otherwise alone.

    Envelopes are such, and unions that members moved out of or into; that is what is looked at by hand.
    """
    told = {name for change in found.changes for name in (change.definition, change.subject.place)}
    told |= {word.strip(",.") for change in found.changes for word in change.also.split()}
    one, two = old.document["$defs"], new.document["$defs"]
    changed = [name for name in one.keys() & two.keys() if _bare(one[name]) != _bare(two[name])]
    return sorted(name for name in changed if name not in told and not _is_union_or_envelope(one[name]))


def _is_union_or_envelope(node: dict[str, Any]) -> bool:
    return any(key in child for _, child in walk(node) for key in ("anyOf", "oneOf")) or {"method", "params"} <= set(
        node.get("properties", {})
    )


def _bare(node: Any) -> str:
    return json.dumps(node, sort_keys=True)


def troubles(old: load.Source, new: load.Source) -> Iterator[str]:
    """What does not hold for a pair."""
    tables = load.read_tables(load.schema_directory())
    names = build(old, tables).names, build(new, tables).names
    begun = time.perf_counter()
    found = compare(old, new, tables.overrides, names)
    texts = {name: form(found) for name, form in report.FORMATS.items()}
    took = time.perf_counter() - begun
    summary = found.summary()
    counts = ", ".join(f"{summary[key]} {key}" for key in ("breaking", "behavioural", "soft", "additive", "none"))
    print(f"{old.version:>6} -> {new.version:<6} {took:5.2f} s  {counts}, {len(found.review)} texts to review")
    if took > 10:
        yield f"took {took:.1f} s"
    if old.sha256 == new.sha256 and found.structure:
        yield "tells a change of structure where there is none"
    if old.sha256 != new.sha256 and not found.structure:
        yield "tells nothing of a structure that changed"
    yield from (f"says nothing of {name}" for name in untold(old, new, found))
    sentences = {f"{side.version}{pointer}": text for side in (old, new) for pointer, text in side.texts.items()}
    yield from load.borrowed(iter(texts.items()), sentences)
    if compare(new, dataclasses.replace(new), tables.overrides).changes:
        yield "tells changes of a schema against itself"


def main() -> int:
    """Compare each version with the next one; exit 1 where something does not hold."""
    failed = 0
    sources = map(fetched, VERSIONS)
    for old, new in itertools.pairwise(sources):
        for trouble in troubles(old, new):
            failed += 1
            print(f"{old.version} -> {new.version}: {trouble}", file=sys.stderr)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
