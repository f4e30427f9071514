"""acpwire on its own stdin and stdout; says on stderr how many nanoseconds an update took.

python ours.py client WARM_UP UPDATES        counts what comes
python ours.py agent WARM_UP UPDATES LINE    sends the update of that line, made anew and awaited each time
python ours.py text WARM_UP UPDATES LINE     sends the same, of which the text alone is encoded each time
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from acpwire import transports, v2
from acpwire.connection import Connection
from acpwire.peer import Peer


async def client(warm_up: int, updates: int) -> float:
    """Seconds that so many updates took to come."""
    times: list[float] = []
    left = warm_up
    done = asyncio.Event()

    def seen(_: v2.UpdateSessionNotification) -> None:
        nonlocal left
        left -= 1
        if not left:
            times.append(time.perf_counter())
            left = updates
            if len(times) == 2:
                done.set()

    connection = Connection("client", v2.decode_from_agent, v2.METHODS)
    async with Peer(transports.stdio(), connection, {v2.SESSION_UPDATE: seen}) as peer:
        info = v2.Implementation(name="bench", version="1")
        await peer.request(v2.INITIALIZE, v2.InitializeRequest(protocol_version=2, info=info))
        await done.wait()
    return times[1] - times[0]


async def agent(side: str, warm_up: int, updates: int, line: str) -> float:
    """Seconds that so many updates took to be sent."""
    begun = asyncio.Event()

    def initialize(_: v2.InitializeRequest) -> v2.InitializeResponse:
        begun.set()
        return v2.InitializeResponse(protocol_version=2, info=v2.Implementation(name="bench", version="1"))

    connection = Connection("agent", v2.decode_from_client, v2.METHODS)
    async with Peer(transports.stdio(), connection, {v2.INITIALIZE: initialize}) as peer:
        await begun.wait()
        send = text_sender if side == "text" else sender
        await send(peer, warm_up, line)
        start = time.perf_counter()
        await send(peer, updates, line)
        await peer.drain()
        return time.perf_counter() - start


async def sender(peer: Peer, updates: int, line: str) -> None:
    """Send the update of a line so many times, each made of strings."""
    params: dict[str, Any] = json.loads(line)["params"]
    session_id: str = params["sessionId"]
    message_id: str = params["update"]["messageId"]
    text: str = params["update"]["content"]["text"]
    for _ in range(updates):
        update = v2.AgentMessageChunk(message_id=message_id, content=v2.TextContent(text=text))
        await peer.notify(v2.SESSION_UPDATE, v2.UpdateSessionNotification(session_id=session_id, update=update))


async def text_sender(peer: Peer, updates: int, line: str) -> None:
    """Send the same lines, their head and tail as they are."""
    text: str = json.loads(line)["params"]["update"]["content"]["text"]
    head, _, tail = (line.encode() + b"\n").rpartition(v2.encode(text))
    for _ in range(updates):
        await peer.send_line(head + v2.encode(text) + tail)


def main() -> None:
    """Measure, and say it."""
    side, warm_up, updates = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    run = client(warm_up, updates) if side == "client" else agent(side, warm_up, updates, sys.argv[4])
    seconds = asyncio.run(run)
    print(seconds / updates * 1e9, file=sys.stderr)


if __name__ == "__main__":
    main()
