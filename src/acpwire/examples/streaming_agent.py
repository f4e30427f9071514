"""An agent around a model that streams: it thinks, reads a file if the user allows it, answers, and can be cancelled.

    python -m acpwire.examples.streaming_agent

Owns: what an agent of one's own looks like; put a real model where `ask_model` is. Does not know: clients.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import acpwire
from acpwire import v2


async def ask_model(question: str, notes: list[str]) -> AsyncIterator[tuple[str, str]]:
    """Stands for a model: what it says comes in pieces, each a kind and a text."""
    if not notes:
        for word in ("The", " user", " asks", " about", " README.md.", " I", " should", " read", " it."):
            await asyncio.sleep(0)  # a real model would be waited for here
            yield "thought", word
        yield "read", "README.md"
        return
    answer = f"You asked: {question}\nI know {len(notes[0].split())} words about that."
    for start in range(0, len(answer), 5):
        await asyncio.sleep(0)
        yield "answer", answer[start : start + 5]


class Assistant(acpwire.Agent):
    """Only `prompt` has to be written. Cancelling raises `asyncio.CancelledError` in it, as in any other coroutine."""

    info = v2.Implementation(name="assistant", version="1.0")

    async def prompt(self, session: acpwire.AgentSession, prompt: acpwire.UserPrompt) -> v2.StopReason | None:
        """Ask the model until it wants no tool any more."""
        notes: list[str] = []
        for _ in range(5):
            wanted = None
            thought, answer = session.thought(), session.agent_message()  # nothing is sent before the first write
            async for kind, text in ask_model(prompt.text, notes):
                match kind:
                    case "thought":
                        await thought.write(text)
                    case "answer":
                        await answer.write(text)
                    case _:
                        wanted = text
            if wanted is None:
                return None  # "end_turn"
            notes.append(await self.read(session, wanted))
        return "max_turn_requests"

    async def read(self, session: acpwire.AgentSession, name: str) -> str:
        """The tool. Leaving the block says how it ended: completed, failed by an exception, or cancelled."""
        path, text = Path(session.cwd, name), "nothing"
        locations = [v2.ToolCallLocation(path=str(path))]
        async with session.tool_call(f"Read {name}", kind="read", locations=locations, can_cancel=True) as call:
            if await session.request_permission(f"Read {name}?", subject=call):
                try:
                    text = await asyncio.to_thread(path.read_text, "utf-8", "replace")
                    await call.write(text)
                except OSError as error:
                    await call.fail(str(error))
            else:
                await call.fail("The user does not want it to be read.")
        return text  # also where the client cancelled this call alone: that ends at the block


if __name__ == "__main__":
    acpwire.run_agent(Assistant())
