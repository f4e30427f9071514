"""Memory, and what it takes to start.

Owns: what is measured of fresh processes and of values that are kept.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

from acp.schema import SessionNotification

from acpwire import v2

from . import Row
from .traffic import chunk_line


def importing() -> list[Row]:
    """Importing in fresh processes, relative to the official SDK; what msgspec itself takes is left out of ours."""
    statements = {
        "import acp (official SDK 0.12.1)": ("import acp", "pass"),
        "acpwire.v2 beyond msgspec": ("from acpwire import v2", "import msgspec, typing, re"),
    }
    return _in_turns(statements, {"acpwire.v2 beyond msgspec": 0.15})


def first_line() -> list[Row]:
    """Importing acpwire and decoding the first line in a fresh process, relative to `import msgspec, asyncio`."""
    line = chunk_line()
    statements = {
        "import msgspec, asyncio": ("import msgspec, asyncio", "pass"),
        "import acpwire, decode a line": (f"from acpwire import v2; v2.decode_from_agent({line!r})", "pass"),
        "import acp (official SDK 0.12.1)": ("import acp", "pass"),
    }
    return _in_turns(statements, {"import acpwire, decode a line": 2.2})


def kept() -> list[Row]:
    """Bytes that one kept update takes, relative to the official SDK's model of the same line; not nanoseconds."""
    line = chunk_line()
    official = _bytes_kept(lambda: SessionNotification.model_validate(json.loads(line)["params"]))
    ours = _bytes_kept(lambda: v2.decode_from_agent(line))
    return [Row("official SDK 0.12.1 (bytes)", official, 1.0), Row("acpwire (bytes)", ours, ours / official, 1 / 3)]


def flat() -> list[Row]:
    """Memory after a million updates that are not kept, relative to after ten thousand (bytes, on top of 1 MB)."""
    line = chunk_line()
    tracemalloc.start()
    sizes: list[int] = []
    for count in (10_000, 990_000):
        for _ in range(count):
            v2.decode_from_agent(line)
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    after = [size + 1e6 for size in sizes]
    return [Row("10,000", after[0], 1.0), Row("1,000,000", after[1], after[1] / after[0], 1.01)]


def _bytes_kept(make: Callable[[], Any], count: int = 20_000) -> float:
    make()
    gc.collect()
    tracemalloc.start()
    values = [make() for _ in range(count)]
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (size - 8 * len(values)) / count


def _in_turns(statements: dict[str, tuple[str, str]], limits: dict[str, float]) -> list[Row]:
    samples: dict[str, list[float]] = {name: [] for name in statements}
    for turn in range(12):
        for name, (statement, before) in statements.items():
            seconds = _seconds(statement, before)
            if turn:  # the first turn may still have to write the bytecode
                samples[name].append(seconds)
    costs = {name: statistics.median(values) * 1e9 for name, values in samples.items()}
    reference = costs[next(iter(statements))]
    return [Row(name, cost, cost / reference, limits.get(name)) for name, cost in costs.items()]


def _seconds(statement: str, before: str) -> float:
    script = f"{before}\nimport time\nt = time.perf_counter()\n{statement}\nprint(time.perf_counter() - t)"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


BENCHES = (importing, first_line, kept, flat)
