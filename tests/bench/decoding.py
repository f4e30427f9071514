"""Decoding: a chunk line, recorded traffic, and importing the generated package.

Owns: what is measured for the generated code. Does not know: how the numbers are shown.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson

from acpwire import v2
from acpwire.wire import Malformed

from . import Row, side_by_side

CORPUS = Path(__file__).parents[1] / "corpus"


def chunk_line() -> bytes:
    """An `agent_message_chunk` line of 226 bytes, the usual size of a streamed token."""
    update = v2.AgentMessageChunk(message_id="msg_0123456789abcdef", content=v2.TextContent(text="x"))
    params = v2.UpdateSessionNotification(session_id="01a22a93-ad12-7aa1-87f4-8aa7f038093c", update=update)
    short = len(_line(params))
    content = v2.TextContent(
        text="lorem ipsum dolor sit amet consectetur"[: 226 - short + 1].ljust(226 - short + 1, ".")
    )
    line = _line(msgspec.structs.replace(params, update=msgspec.structs.replace(update, content=content)))
    if len(line) != 226:
        raise AssertionError(len(line))
    return line


def _line(params: v2.UpdateSessionNotification) -> bytes:
    return v2.encode(v2.Notification(method="session/update", params=params))


def recorded_lines() -> list[bytes]:
    """What a real agent sent, as recorded."""
    return (CORPUS / "codex-acp" / "agent_to_client.ndjson").read_bytes().splitlines()


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
        {"bare decode of the params": 0.80},
    )


def recorded() -> list[Row]:
    """All lines of the recording, relative to orjson's dicts."""
    lines = recorded_lines()
    bad = [message for line in lines if isinstance(message := v2.decode_from_agent(line), Malformed)]
    if bad:
        raise AssertionError(bad)

    def each(decode: Callable[[bytes], Any]) -> Callable[[], None]:
        def run() -> None:
            for line in lines:
                decode(line)

        return run

    return side_by_side(
        {
            "orjson.loads": each(orjson.loads),
            "v2.decode_from_agent": each(v2.decode_from_agent),
            "json.loads": each(json.loads),
        },
        "orjson.loads",
        {"v2.decode_from_agent": 0.95},
        operations=len(lines),
    )


def importing() -> list[Row]:
    """Importing in fresh processes, relative to the official SDK; what msgspec itself takes is left out of ours."""
    official, ours = list[float](), list[float]()
    for turn in range(10):
        both = _import_seconds("import acp"), _import_seconds("from acpwire import v2", "import msgspec, typing, re")
        if turn:  # the first turn may still have to write the bytecode
            official.append(both[0])
            ours.append(both[1])
    reference = statistics.median(official)
    return [
        Row("import acp (official SDK 0.12.1)", reference * 1e9, 1.0),
        Row("acpwire.v2 beyond msgspec", statistics.median(ours) * 1e9, statistics.median(ours) / reference, 0.15),
    ]


def _import_seconds(statement: str, before: str = "pass") -> float:
    script = f"{before}\nimport time\nt = time.perf_counter()\n{statement}\nprint(time.perf_counter() - t)"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


BENCHES: Sequence[Callable[[], list[Row]]] = (chunk, recorded, importing)


def tables(wanted: Sequence[str]) -> Iterator[tuple[str, str, list[Row]]]:
    """(name, title, rows) of the benches that are asked for, or of all."""
    for bench in BENCHES:
        if not wanted or bench.__name__ in wanted:
            yield bench.__name__, (bench.__doc__ or "").splitlines()[0], bench()
