"""The Agent's end: write `prompt`, override what else you serve, and the rest is done.

    class Echo(acpwire.Agent):
        info = v2.Implementation(name="echo", version="1.0")

        async def prompt(self, session, prompt):
            async with session.agent_message() as message:
                await message.write("you said: " + prompt.text)

    acpwire.run_agent(Echo())

    outgoing  how updates leave, and what is watched on their way
    writers   messages, tool calls, terminals, compactions: the right updates in the right order
    diffs     what changed in a file, with its patch
    asking    permissions and elicitations
    work      foreground and background work, and the state that they make
    live      what the runtime keeps of a session
    session   `AgentSession`, one conversation
    base      `Agent`, to derive from; what its methods say it can do
    server    one connection: initialization, sessions, every request

A module imports only from those above it.
"""

from __future__ import annotations

from .asking import Elicited, Permission
from .base import Agent, UserPrompt, extension
from .diffs import diff_of
from .server import run_agent, serve
from .session import AgentSession, ConnectedClient
from .writers import CompactionWriter, MessageWriter, SessionMessageWriter, TerminalWriter, ToolCallWriter

__all__ = [
    "Agent",
    "AgentSession",
    "CompactionWriter",
    "ConnectedClient",
    "Elicited",
    "MessageWriter",
    "Permission",
    "SessionMessageWriter",
    "TerminalWriter",
    "ToolCallWriter",
    "UserPrompt",
    "diff_of",
    "extension",
    "run_agent",
    "serve",
]
