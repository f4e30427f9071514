"""The agent that the clients of others drive: says everything that can be said, asks, waits; writes down what it said.

    python agent.py FILE

FILE gets, in the end, a line for each session that was closed: its id and the lines that its transcript is saved as.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import acpwire
from acpwire import v2
from acpwire.agent import diff_of

OPTION = v2.SessionConfigSelect(
    config_id="model",
    name="Model",
    current_value="small",
    category="model",
    options=[v2.SessionConfigSelectOption(value=value, name=value.title()) for value in ("small", "large")],
)
FORM = v2.ElicitationSchema(
    type="object", required=["name"], properties={"name": v2.StringPropertySchema(title="Name", max_length=20)}
)


saved: list[str] = []


class Everything(acpwire.Agent):
    """Does what the first word of a prompt says."""

    info = v2.Implementation(name="everything", version="1.0", title="Everything")
    accepts = ("image", "resource")
    retain = True

    async def new_session(self, session: acpwire.AgentSession) -> None:
        await session.commands(v2.Command(name="go", description="Go", input=v2.TextCommandInput(hint="where")))
        await session.config(OPTION)

    async def set_config_option(
        self, session: acpwire.AgentSession, request: v2.SetSessionConfigOptionRequest
    ) -> list[v2.SessionConfigOption]:
        return [OPTION]

    async def close_session(self, session: acpwire.AgentSession) -> None:
        assert session.transcript is not None
        lines = [line.decode() for line in session.transcript.save()]
        saved.append(json.dumps([session.id, lines]) + "\n")

    async def prompt(self, session: acpwire.AgentSession, prompt: acpwire.UserPrompt) -> str | None:
        match prompt.text:
            case "say everything":
                await everything(session)
                prompt.usage = v2.Usage(total_tokens=3, input_tokens=1, output_tokens=2)
                return "max_tokens"
            case "cancel the call":
                async with session.tool_call("Wait", tool_call_id="slow", can_cancel=True) as call:
                    await call.start()
                    await asyncio.Event().wait()
            case "ask and wait":
                async with session.tool_call("Ask", kind="execute") as call:
                    await session.request_permission("Go on?", subject=call)
            case "fail":
                raise acpwire.RequestError(-32000, "Sign in first")
            case _:
                async with session.agent_message() as message:
                    await message.write("you said: ", prompt.text)
        return None


async def everything(session: acpwire.AgentSession) -> None:
    """Use every writer."""
    async with session.thought() as thought:
        await thought.write("Let me ", "see. ", "🙂")
    async with session.agent_message() as message:
        await message.write("first")
        await message.replace("replaced", meta={"kept": 1, "gone": 2})
        await message.patch_meta({"gone": None})
        await message.write(" and more", v2.ImageContent(data="aGk=", mime_type="image/png"))
    await session.plan("one", v2.PlanEntry(content="two", priority="high", status="completed"))
    await session.notice("Careful", "It is only a notice", severity="warning")
    await session.usage(used=10, size=100, cost=v2.Cost(amount=0.5, currency="EUR"))
    await session.info(title="Everything", updated_at="2026-01-02T03:04:05Z")
    async with (
        session.tool_call("Edit", kind="edit", name="edit", raw_input={"deep": [1, None]}) as call,
        session.terminal(command="make") as terminal,
    ):
        permission = await session.request_permission("Edit it?", subject=call, description="One line")
        await call.write("allowed" if permission else "refused", terminal.content)
        await call.write(diff_of("/project/x", "a\n", "b\n"))
        await call.update(locations=[v2.ToolCallLocation(path="/project/x", line=1)])
        for byte in "grüße\n".encode():
            await terminal.write(bytes([byte]))
        await terminal.exit(0)
        await call.complete(raw_output={"lines": 1})
    async with session.tool_call("Fail", kind="fetch") as call:
        await call.fail("no such place")
    async with session.compaction() as compaction:
        await compaction.write("Kept: ", "all of it")
    if session.client.supports("elicitation.form"):
        answer = await session.elicit("Who?", FORM)
        async with session.agent_message() as message:
            await message.write(f"{answer.action}: {dict(answer.content)}")
    child = await session.subagent("Helper", description="Helps")
    async with session.session_message(recipient=child.id) as sent:
        await sent.write("help")
    async with child.foreground(), child.agent_message() as message:
        await message.write("helping")


if __name__ == "__main__":
    acpwire.run_agent(Everything())
    Path(sys.argv[1]).write_text("".join(saved), "utf-8")
