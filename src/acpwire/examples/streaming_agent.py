"""An agent around a model that streams: it thinks, uses tools if the user allows it, answers, and can be cancelled.

    python -m acpwire.examples.streaming_agent

Asked to "Run COMMAND", it runs a process in a terminal that the user sees; else it reads a file.

Owns: what an agent of one's own looks like; put a real model where `ask_model` is. Does not know: clients.
"""

import asyncio
import shlex
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import AsyncIterator
from pathlib import Path

import acpwire
from acpwire import v2


async def ask_model(question: str, notes: list[str]) -> AsyncIterator[tuple[str, str]]:
    """Stands for a model: what it says comes in pieces, each a kind and a text."""
    verb, _, command = question.strip().partition(" ")
    if not notes and verb == "Run" and command:
        yield "run", command
        return
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
            wanted: tuple[str, str] | None = None
            thought, answer = session.thought(), session.agent_message()  # nothing is sent before the first write
            async for kind, text in ask_model(prompt.text, notes):
                match kind:
                    case "thought":
                        await thought.write(text)
                    case "answer":
                        await answer.write(text)
                    case _:
                        wanted = kind, text
            if wanted is None:
                return None  # "end_turn"
            tool = {"read": self.read, "run": self.run}[wanted[0]]
            notes.append(await tool(session, wanted[1]))
        return "max_turn_requests"

    async def read(self, session: acpwire.AgentSession, name: str) -> str:
        """A tool. Leaving the block says how it ended: completed, failed by an exception, or cancelled."""
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

    async def run(self, session: acpwire.AgentSession, command: str) -> str:
        """Another tool: a process, whose output is shown as it comes; cancelling kills it."""
        output = bytearray()
        async with session.tool_call(f"Run {command}", kind="execute") as call:
            if not await session.request_permission(f"Run {command}?", subject=call):
                await call.fail("The user does not want it to be run.")
                return "nothing"
            try:
                process = await asyncio.create_subprocess_exec(
                    *shlex.split(command), cwd=session.cwd, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
                )
            except (OSError, ValueError) as error:  # no such program, no closing quotation mark
                await call.fail(str(error))
                return "nothing"
            async with session.terminal(command=command, can_cancel=True) as terminal:
                try:
                    await call.write(terminal)
                    while process.stdout and (block := await process.stdout.read(65536)):
                        output += block
                        await terminal.write(block)
                    await terminal.exit(await process.wait())
                finally:
                    if process.returncode is None:
                        process.kill()
                        await process.wait()
        return output.decode(errors="replace")


if __name__ == "__main__":
    acpwire.run_agent(Assistant())
