"""Decoding and scanning: relative to orjson, to the official SDKs, and to acpwire's own strict pass.

Owns: what is measured of reading. The official SDK validates with pydantic; its releases that speak v2 live in an
environment of their own, whose interpreter the variable ACPWIRE_BENCH_RC names.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import orjson
from acp.schema import SessionNotification

from acpwire import v2
from acpwire.wire import LineBuffer, Malformed, route

from . import Row, side_by_side
from .traffic import chunk_line, recorded_lines, ten_block_line, unknown_line


def chunk() -> list[Row]:
    """One chunk line, relative to orjson's dict."""

    class Bare(msgspec.Struct, gc=False):
        params: v2.UpdateSessionNotification

    line = chunk_line()
    bare = msgspec.json.Decoder(Bare).decode
    return side_by_side(
        {
            "orjson.loads": lambda: orjson.loads(line),
            "bare decode of the params": lambda: bare(line),
            "v2.decode_from_agent": lambda: v2.decode_from_agent(line),
            "json.loads": lambda: json.loads(line),
        },
        "orjson.loads",
        {"bare decode of the params": 0.80, "v2.decode_from_agent": 0.90},
    )


def blocks() -> list[Row]:
    """64 KiB of chunk lines, cut and decoded, relative to orjson given the lines."""
    line = chunk_line() + b"\n"
    lines = [line] * (65536 // len(line))
    block = b"".join(lines)
    feed, decode = LineBuffer().feed, v2.decode_from_agent

    def ours() -> None:
        for one in feed(block):
            decode(one)

    return side_by_side(
        {"orjson.loads": _each(orjson.loads, lines), "LineBuffer and decode_from_agent": ours},
        "orjson.loads",
        {"LineBuffer and decode_from_agent": 0.85},
        operations=len(lines),
    )


def recorded() -> list[Row]:
    """All lines of a real agent's recording, relative to orjson's dicts."""
    lines = recorded_lines()
    bad = [message for line in lines if isinstance(message := v2.decode_from_agent(line), Malformed)]
    if bad:
        raise AssertionError(bad)
    decoders: dict[str, Callable[[bytes], Any]] = {
        "orjson.loads": orjson.loads,
        "v2.decode_from_agent": v2.decode_from_agent,
        "json.loads": json.loads,
    }
    return side_by_side(
        {name: _each(decode, lines) for name, decode in decoders.items()},
        "orjson.loads",
        {"v2.decode_from_agent": 0.95},
        operations=len(lines),
    )


def official() -> list[Row]:
    """One chunk line to typed values, relative to the official SDK 0.12.1 (v1, same line)."""
    line = chunk_line()
    rows = side_by_side(
        {
            "official SDK 0.12.1": lambda: SessionNotification.model_validate(json.loads(line)["params"]),
            "v2.decode_from_agent": lambda: v2.decode_from_agent(line),
        },
        "official SDK 0.12.1",
        {"v2.decode_from_agent": 0.10},
    )
    newer = os.environ.get("ACPWIRE_BENCH_RC")
    if newer is None:
        return [*rows, Row("official SDK 1.0.0rc3: ACPWIRE_BENCH_RC names no interpreter that has it", 0.0, 0.0)]
    script = (
        "import json, sys, time; from acp.experimental.v2.schema import UpdateSessionNotification as N\n"
        "line = sys.stdin.buffer.read(); best = 1e9\n"
        "for _ in range(15):\n"
        "    start = time.perf_counter()\n"
        "    for _ in range(300): N.model_validate(json.loads(line)['params'])\n"
        "    best = min(best, (time.perf_counter() - start) / 300)\n"
        "print(best * 1e9)"
    )
    done = subprocess.run([newer, "-c", script], input=line, capture_output=True, check=True)
    return [*rows, Row("official SDK 1.0.0rc3 (its best)", float(done.stdout), float(done.stdout) / rows[0].cost)]


def unknown() -> list[Row]:
    """An update with an unknown tag, relative to a known one of the same size."""
    known, other = chunk_line(), unknown_line()
    return side_by_side(
        {"known": lambda: v2.decode_from_agent(known), "unknown": lambda: v2.decode_from_agent(other)},
        "known",
        {"unknown": 8.0},
    )


def ten_blocks() -> list[Row]:
    """A message of ten blocks of which one is unknown, relative to ten known ones."""
    known, other = ten_block_line(), ten_block_line(unknown=True)
    return side_by_side(
        {"all known": lambda: v2.decode_from_agent(known), "one unknown": lambda: v2.decode_from_agent(other)},
        "all known",
        {"one unknown": 12.0},
    )


def routing() -> list[Row]:
    """Scanning a chunk line for where it belongs, relative to skipping over it."""

    class Nothing(msgspec.Struct):
        pass

    line = chunk_line()
    scan = msgspec.json.Decoder(Nothing).decode
    return side_by_side({"bare scan": lambda: scan(line), "route": lambda: route(line)}, "bare scan", {"route": 2.2})


def _each(decode: Callable[[bytes], Any], lines: Sequence[bytes]) -> Callable[[], None]:
    def run() -> None:
        for line in lines:
            decode(line)

    return run


BENCHES = (chunk, blocks, recorded, official, unknown, ten_blocks, routing)
