"""acpwire on its own stdin and stdout; says on stderr how many nanoseconds an update took.

python ours.py client WARM_UP UPDATES        counts what comes to a peer
python ours.py update WARM_UP UPDATES        counts what comes to `Client.update` in a session without transcript
python ours.py agent WARM_UP UPDATES LINE    sends the update of that line, made anew and awaited each time
python ours.py text WARM_UP UPDATES LINE     sends the same, of which the text alone is encoded each time
python ours.py write WARM_UP UPDATES LINE    writes the text of that line into a message of a session
python ours.py send WARM_UP UPDATES LINE     sends the update of that line to a session, made anew and awaited each time
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import acpwire
from acpwire import transports, v2
from acpwire.connection import Connection
from acpwire.peer import Peer
from acpwire.wire.frames import Method

FLOOD: Method[Any, None] = Method("_flood", "agent", "notification", Any, None, v2.INITIALIZE.decoding)


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


async def update(warm_up: int, updates: int) -> float:
    """Seconds that so many updates took to come to a session."""
    times: list[float] = []
    left = warm_up
    done = asyncio.Event()

    class Counting(acpwire.Client):
        def update(self, session: acpwire.ClientSession, update: v2.SessionUpdate) -> None:
            nonlocal left
            left -= 1
            if not left:
                times.append(time.perf_counter())
                left = updates
                if len(times) == 2:
                    done.set()

    async with acpwire.connect(transports.stdio(), Counting(), transcript=False) as connected:
        await connected.new_session(cwd="/")
        await connected.notify(FLOOD, {"updates": warm_up + updates})
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


class Writing(acpwire.Agent):
    """Sends what it is measured with as soon as it is asked anything."""

    info = v2.Implementation(name="bench", version="1")

    def __init__(self, side: str, warm_up: int, updates: int, line: str) -> None:
        self.side, self.warm_up, self.updates = side, warm_up, updates
        self.seen: dict[str, Any] = json.loads(line)["params"]["update"]

    async def prompt(self, session: acpwire.AgentSession, prompt: acpwire.UserPrompt) -> None:
        send = self.write if self.side == "write" else self.send
        await send(session, self.warm_up)
        start = time.perf_counter()
        await send(session, self.updates)
        print((time.perf_counter() - start) / self.updates * 1e9, file=sys.stderr, flush=True)
        os._exit(0)

    async def write(self, session: acpwire.AgentSession, updates: int) -> None:
        """As a model's answer is streamed."""
        text: str = self.seen["content"]["text"]
        async with session.agent_message(self.seen["messageId"]) as message:
            for _ in range(updates):
                await message.write(text)

    async def send(self, session: acpwire.AgentSession, updates: int) -> None:
        """As anything can be sent."""
        message_id: str = self.seen["messageId"]
        text: str = self.seen["content"]["text"]
        for _ in range(updates):
            await session.send(v2.AgentMessageChunk(message_id=message_id, content=v2.TextContent(text=text)))


def main() -> None:
    """Measure, and say it."""
    side, warm_up, updates = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if side in {"write", "send"}:
        acpwire.run_agent(Writing(side, warm_up, updates, sys.argv[4]))
    elif side in {"client", "update"}:
        run = client if side == "client" else update
        print(asyncio.run(run(warm_up, updates)) / updates * 1e9, file=sys.stderr)
    else:
        print(asyncio.run(agent(side, warm_up, updates, sys.argv[4])) / updates * 1e9, file=sys.stderr)


if __name__ == "__main__":
    main()
