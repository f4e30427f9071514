"""The Client's end: start an agent, or connect to one, and talk to it.

    async with acpwire.spawn_agent("my-agent", "--acp") as agent:
        session = await agent.new_session(cwd=".")
        async for update in await session.prompt("Explain this repository"):
            match update:
                case v2.AgentMessageChunk(content=v2.TextContent(text=text)):
                    print(text, end="")
        print(session.transcript.text)

    entering  what is told to whoever forgets `async with`
    handlers  `Client`, to derive from: what the agent may ask, with cautious answers
    flow      when reading pauses, and the order of callbacks
    prompts   `Prompt`: which updates are its own, and where its work ends
    session   `ClientSession`, one conversation
    early     updates that come before their session
    answers   what the agent asks, answered by the handlers in time
    agents    `AgentConnection`, `connect`, `spawn_agent`: the handshake, sessions, every request

A module imports only from those above it.
"""

from __future__ import annotations

from .agents import AgentConnection, connect, spawn_agent
from .handlers import Client
from .prompts import Prompt, Turn
from .session import ClientSession

__all__ = ["AgentConnection", "Client", "ClientSession", "Prompt", "Turn", "connect", "spawn_agent"]
