"""The resuming agent, but it crashes in its first prompt ever, and announces a child in each later one.

Its arguments are the directory of its store, and what it says before it crashes, if anything.
"""

import os
import sys
from pathlib import Path

import acpwire
from acpwire import v2
from acpwire.examples.resuming_agent import Remembering


class Fragile(Remembering):
    """Has crashed where its store says so."""

    def sent(self, session: acpwire.AgentSession, update: v2.SessionUpdate) -> None:
        if session.parent is None:
            super().sent(session, update)

    async def prompt(self, session: acpwire.AgentSession, prompt: acpwire.UserPrompt) -> None:
        crashed = self.store / "crashed"
        if not crashed.exists():
            crashed.touch()
            if sys.argv[2:]:
                await session.agent_message().write(sys.argv[2])
            print("out of luck", file=sys.stderr, flush=True)
            os._exit(3)
        child = await session.subagent("looks it up")
        async with child.foreground():
            await child.agent_message().write("found")
        await super().prompt(session, prompt)


acpwire.run_agent(Fragile(Path(sys.argv[1])))
