"""The main job in one go: regenerate, compare with what is committed, decode recorded traffic.

Owns: `nox -s demo`. The traffic is what real agents sent, repeated until it is worth timing.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from acpwire import v2
from acpwire_codegen.__main__ import main as codegen

CORPUS = Path(__file__).parent / "corpus"
COMMITTED = Path(v2.__file__).parent / "wire" / "v2"
RECORDINGS = ("codex-acp/agent_to_client.ndjson", "ts-sdk/agent_to_client.ndjson")


def main() -> int:
    """Run the demo; exit code 1 when the committed code is stale or a recorded line is malformed."""
    parser = argparse.ArgumentParser(prog="nox -s demo --", description=__doc__)
    parser.add_argument("--lines", type=int, default=200_000, help="decode at least this many lines")
    wanted = parser.parse_args().lines
    console = Console()

    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "v2"
        if codegen(["generate", "--out", str(out), "--package", "acpwire.wire.v2"]):
            return 1
        names = sorted(path.name for path in out.iterdir())
        _, stale, missing = filecmp.cmpfiles(out, COMMITTED, names, shallow=False)
    if stale or missing:
        console.print(f"[red]committed code differs in {', '.join(stale + missing)}; run acpwire-codegen generate")
        return 1
    console.print(f"equals the committed package: {', '.join(names)}\n")

    recorded = [line for name in RECORDINGS for line in (CORPUS / name).read_bytes().splitlines()]
    lines = recorded * -(-wanted // len(recorded))
    kinds, variants = Counter[str](), Counter[str]()
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(f"decoding {len(lines):,} lines", total=len(lines))
        for start in range(0, len(lines), 10_000):
            for message in map(v2.decode_from_agent, lines[start : start + 10_000]):
                kinds[type(message).__name__] += 1
                match message:
                    case v2.Notification(params=v2.UpdateSessionNotification(update=update)):
                        variants["(unknown)" if isinstance(update, v2.UnknownVariant) else update.tag] += 1
                    case _:
                        pass
            progress.update(task, completed=start + 10_000)
    console.print(_table("messages", kinds), _table("session updates", variants))
    codex = (CORPUS / RECORDINGS[0]).read_bytes().splitlines()  # the other holds a line that orjson refuses
    console.print(_rates(codex * max(1, wanted // 4 // len(codex))))
    return 1 if kinds["Malformed"] else 0


def _table(title: str, counts: Counter[str]) -> Table:
    table = Table(title, "lines", title_justify="left")
    for name, count in counts.most_common():
        table.add_row(name, f"{count:,}")
    return table


def _rates(lines: Sequence[bytes]) -> Table:
    """Lines a second, the same lines for all, one after the other; the best of three turns each."""
    decoders: dict[str, Callable[[bytes], Any]] = {
        "acpwire, to typed messages": v2.decode_from_agent,
        "orjson.loads, to dicts": orjson.loads,
        "json.loads, to dicts": json.loads,
    }
    best = dict.fromkeys(decoders, 0.0)
    for _ in range(3):
        for name, decode in decoders.items():
            start = time.perf_counter()
            for line in lines:
                decode(line)
            best[name] = max(best[name], len(lines) / (time.perf_counter() - start))
    table = Table("decoder", "lines a second", "relative")
    for name, rate in best.items():
        table.add_row(name, f"{rate:,.0f}", f"{rate / best['json.loads, to dicts']:.1f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
