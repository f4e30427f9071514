"""The official Python SDK's client on its own stdin and stdout; says on stderr how many nanoseconds an update took.

python official.py VERSION WARM_UP UPDATES       VERSION of the protocol: 1 or 2
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import time
from typing import Any

from acp.stdio import stdio_streams


class Client:
    """Counts; what it lacks is never asked for."""

    def __init__(self, warm_up: int, updates: int) -> None:
        self.start = self.end = 0.0
        self.done = asyncio.Event()
        self._first, self._last = warm_up, warm_up + updates
        self._count = 0

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """One has come."""
        self._count += 1
        if self._count == self._first:
            self.start = time.perf_counter()
        elif self._count == self._last:
            self.end = time.perf_counter()
            self.done.set()


async def measured(version: int, warm_up: int, updates: int) -> float:
    """Seconds that so many updates took to come."""
    sdk: Any = importlib.import_module("acp.core" if version == 1 else "acp.experimental.v2.client")
    client = Client(warm_up, updates)
    reader, writer = await stdio_streams()
    connection = sdk.connect_to_agent(client, writer, reader)
    if version == 1:
        await connection.initialize(protocol_version=1)
    else:
        schema: Any = importlib.import_module("acp.experimental.v2.schema")
        await connection.initialize(protocol_version=2, info=schema.Implementation(name="bench", version="1"))
    await client.done.wait()
    return client.end - client.start


def main() -> None:
    """Measure, and say it; leave at once, as a flood may be under way."""
    version, warm_up, updates = map(int, sys.argv[1:4])
    seconds = asyncio.run(measured(version, warm_up, updates))
    print(seconds / updates * 1e9, file=sys.stderr, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
