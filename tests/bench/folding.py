"""Folding updates into a transcript.

Owns: what is measured of `acpwire.transcript`.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import Any

from acpwire import v2
from acpwire.transcript import Transcript

from . import Row, side_by_side
from .traffic import chunk_line, recorded_lines


def apply() -> list[Row]:
    """Folding a chunk, relative to decoding its line."""
    line = chunk_line()
    update = _update(v2.decode_from_agent(line))
    transcript = Transcript()
    contenders = {"decode_from_agent": lambda: v2.decode_from_agent(line), "apply": lambda: transcript.apply(update)}
    return side_by_side(contenders, "decode_from_agent", {"apply": 0.8})


def linear() -> list[Row]:
    """Appending ten million chunks to one message, relative to ten thousand; nanoseconds a chunk."""
    update = _update(v2.decode_from_agent(chunk_line()))
    few = sorted(_cost_of(update, 10_000) for _ in range(51))[25]
    many = _cost_of(update, 10_000_000)
    return [Row("10,000", few, 1.0), Row("10,000,000", many, many / few, 1.5)]


def kept_text() -> list[Row]:
    """Bytes that a chunk of the codex recording adds to its message, relative to 1.5 times its UTF-8 and 64 more."""
    lines = [line for line in recorded_lines() if b'_message_chunk"' in line or b'_thought_chunk"' in line]
    chunks = [_update(v2.decode_from_agent(line)) for line in lines]
    allowed = 1.5 * sum(len(chunk.content.text.encode()) for chunk in chunks) / len(chunks) + 64
    first = list(
        {chunk.message_id: line for chunk, line in zip(reversed(chunks), reversed(lines), strict=True)}.values()
    )
    added = (_bytes_of(lines) - _bytes_of(first)) / (len(lines) - len(first))
    return [Row("1.5 x text + 64 (bytes)", allowed, 1.0), Row("a folded chunk (bytes)", added, added / allowed, 1.0)]


def _bytes_of(lines: list[bytes]) -> int:
    gc.collect()
    tracemalloc.start()
    transcript = Transcript()
    for line in lines:
        transcript.apply(_update(v2.decode_from_agent(line)))
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size


def _update(message: Any) -> Any:
    return message.params.update


def _cost_of(update: Any, count: int) -> float:
    transcript = Transcript()
    apply = transcript.apply
    start = time.perf_counter()
    for _ in range(count):
        apply(update)
    return (time.perf_counter() - start) / count * 1e9


BENCHES = (apply, linear, kept_text)
