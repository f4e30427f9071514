"""The official Python SDK on its own stdin and stdout; says on stderr how many nanoseconds an update took.

python official.py client VERSION WARM_UP UPDATES        counts what comes; VERSION of the protocol: 1 or 2
python official.py agent VERSION WARM_UP UPDATES LINE    sends the update of that line, made anew and awaited each time
"""

from __future__ import annotations

import asyncio
import importlib
import json
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


class Agent:
    """Sends as soon as it is initialized; what it lacks is never asked for."""

    def __init__(self, schema: Any) -> None:
        self.client: Any = None
        self.begun = asyncio.Event()
        self._schema = schema

    def on_connect(self, client: Any) -> None:
        """There is somebody at the other end."""
        self.client = client

    async def initialize(self, protocol_version: int, **_: Any) -> Any:
        """Agree to everything."""
        asyncio.get_running_loop().call_soon(self.begun.set)
        info = self._schema.Implementation(name="bench", version="1")
        who = {"agent_info": info} if protocol_version == 1 else {"info": info}
        return self._schema.InitializeResponse(protocol_version=protocol_version, **who)


async def received(version: int, warm_up: int, updates: int) -> float:
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


async def sent(version: int, warm_up: int, updates: int, line: str) -> float:
    """Seconds that so many updates took to be sent."""
    sdk: Any = importlib.import_module("acp.core" if version == 1 else "acp.experimental.v2.agent")
    schema: Any = importlib.import_module("acp.schema" if version == 1 else "acp.experimental.v2.schema")
    agent = Agent(schema)
    serving = asyncio.ensure_future(sdk.run_agent(agent))
    await agent.begun.wait()
    params: dict[str, Any] = json.loads(line)["params"]
    message_id, text = params["update"]["messageId"], params["update"]["content"]["text"]
    start = 0.0
    for number in range(-warm_up, updates):
        if number == 0:
            start = time.perf_counter()
        content = schema.TextContentBlock(type="text", text=text)
        update = schema.AgentMessageChunk(session_update="agent_message_chunk", message_id=message_id, content=content)
        await agent.client.session_update(session_id=params["sessionId"], update=update)
    seconds = time.perf_counter() - start
    serving.cancel()
    return seconds


def main() -> None:
    """Measure, and say it; leave at once, as a flood may be under way."""
    side, version, warm_up, updates = sys.argv[1], *map(int, sys.argv[2:5])
    run = received(version, warm_up, updates) if side == "client" else sent(version, warm_up, updates, sys.argv[5])
    seconds = asyncio.run(run)
    print(seconds / updates * 1e9, file=sys.stderr, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
