"""An agent that is never what is measured: it blocks, and what it floods with was made before.

    python agent.py UPDATES LINE [LINE ...]

Answers `initialize` and then sends so many updates, the lines in turns; answers `session/new` with the sessions of
the lines, one after the other, and `session/list`; sends as many more as `_flood` says, without end for -1 and until
another `_flood` says 0. Needs nothing that is not in Python.
"""

from __future__ import annotations

import json
import os
import select
import sys
from typing import Any

PIECE = 4096
"""How much of an endless flood is written before requests are looked for."""
BLOCK = 1 << 20


def main() -> None:
    """Serve until the input ends."""
    lines = [line.encode() + b"\n" for line in sys.argv[2:]]
    block = b"".join(lines * (1 + BLOCK // sum(map(len, lines))))
    piece = b"".join(lines * (1 + PIECE // sum(map(len, lines))))
    number = block.count(b"\n")
    sessions = iter(dict.fromkeys(json.loads(line)["params"]["sessionId"] for line in lines))
    flooding = False
    rest = b""
    while True:
        while flooding and not select.select([0], [], [], 0)[0]:
            write(piece)
        received = os.read(0, 65536)
        if not received:
            return
        *whole, rest = (rest + received).split(b"\n")
        for line in whole:
            message: dict[str, Any] = json.loads(line)
            updates = 0
            if message["method"] == "initialize":
                version = message["params"]["protocolVersion"]
                info = {"name": "agent", "version": "1"}
                can: dict[str, Any] = {"session": {}}
                answer(
                    message["id"],
                    {"protocolVersion": version, "info": info, "capabilities": can, "agentInfo": info},
                )
                updates = int(sys.argv[1])
            elif message["method"] == "_flood":
                updates = message["params"]["updates"]
                flooding = updates < 0
            elif message["method"] == "session/new":
                answer(message["id"], {"sessionId": next(sessions)})
            elif "id" in message:
                answer(message["id"], {"sessions": []})
            while updates > 0:
                sent = min(updates, number)
                write(block if sent == number else b"".join(block.splitlines(keepends=True)[:sent]))
                updates -= sent


def answer(request_id: int | str, result: dict[str, Any]) -> None:
    """Send a result."""
    write(json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode() + b"\n")


def write(data: bytes) -> None:
    """Write all."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main()
