"""An agent that says what it was told, prints, waits, asks, or fails."""

import asyncio
import sys

import acpwire
from acpwire import v2
from acpwire.agent import AgentSession, UserPrompt


class Echo(acpwire.Agent):
    """Does what the prompt says."""

    info = v2.Implementation(name="echo", version="1.0")

    async def prompt(self, session: AgentSession, prompt: UserPrompt) -> None:
        if prompt.text == "print":
            print("printed")
        if prompt.text == "wait":
            await session.notice("waiting")
            try:
                await asyncio.Event().wait()
            finally:
                print("cleaned up", file=sys.stderr)
        if prompt.text == "fail":
            raise ValueError("hunter2")
        if prompt.text == "ask":
            await session.notice("allowed" if await session.request_permission("Sure?") else "refused")
        async with session.agent_message() as message:
            await message.write("you said: " + prompt.text)


acpwire.run_agent(Echo())
