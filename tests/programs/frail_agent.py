"""An agent that dies when it is told to: of itself in the middle of a line, or by a signal."""

import os
import signal
import sys

import acpwire
from acpwire import v2
from acpwire.agent import AgentSession, UserPrompt


class Frail(acpwire.Agent):
    """Says one thing, then dies as the prompt says."""

    info = v2.Implementation(name="frail", version="1")

    async def prompt(self, session: AgentSession, prompt: UserPrompt) -> None:
        async with session.agent_message() as message:
            await message.write("farewell")
        await session.usage(used=1, size=2)
        print("out of luck", file=sys.stderr, flush=True)
        if prompt.text == "signal":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(7)


acpwire.run_agent(Frail())
