"""The demo's agent: `acpwire demo-agent` serves it on stdin and stdout, for this package's demo and any other client.

Any prompt gets a story in which everything that an agent can say is said once. `/burst N` answers with N chunks, and
`/forever` with chunks until it is cancelled.

Owns: what is said. Does not know: models, files or processes; nothing that it tells of has happened.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import acpwire
from acpwire import v2

__all__ = ["DemoAgent", "main"]

COMMANDS = (
    v2.Command(name="burst", description="Answer with many chunks", input=v2.TextCommandInput(hint="how many")),
    v2.Command(name="forever", description="Answer until it is cancelled"),
)
VOICES = ("plain", "loud")
STEPS = ("Find out what is there", "Mend it", "See whether it holds")
PATCH = "--- a/bridge.txt\n+++ b/bridge.txt\n@@ -1 +1 @@\n-a plank\n+two planks\n"
OUTPUT = (b"\x1b[1mcrossing\x1b[0m ", b"the bridge \xe2", b"\x80\xa6", b" it holds\r\n")  # cut inside a character


class DemoAgent(acpwire.Agent):
    """Tells a story, and keeps its sessions as long as the connection lasts."""

    info = v2.Implementation(name="acpwire-demo", title="The demo agent of acpwire", version="1.0")

    async def new_session(self, session: acpwire.AgentSession) -> None:
        """What a session begins with. What it says here, the answer to the client says as well."""
        session.app = {"voice": "plain", "thoughts": True}
        await session.commands(*COMMANDS)
        await session.config(*options_of(session))

    async def set_config_option(
        self, session: acpwire.AgentSession, request: v2.SetSessionConfigOptionRequest
    ) -> Sequence[v2.SessionConfigOption]:
        """Whether the value is one that the option has was looked at before."""
        if not isinstance(request, v2.UnknownVariant):
            session.app[request.config_id] = request.value
        return options_of(session)

    async def prompt(self, session: acpwire.AgentSession, prompt: acpwire.UserPrompt) -> v2.StopReason | None:
        """Do what the command says, or tell the story."""
        command, _, argument = prompt.text.strip().partition(" ")
        if command == "/burst":
            await burst(session, int(argument) if argument.isdecimal() else 1000)
        elif command == "/forever":
            await forever(session)
        else:
            await tell(session, prompt)
        return None


def options_of(session: acpwire.AgentSession) -> list[v2.SessionConfigOption]:
    """The options as they are now."""
    voices = [v2.SessionConfigSelectOption(value=voice, name=voice.capitalize()) for voice in VOICES]
    return [
        v2.SessionConfigSelect(
            config_id="voice", name="Voice", current_value=session.app["voice"], options=voices, category="_demo"
        ),
        v2.SessionConfigBoolean(config_id="thoughts", name="Thoughts", current_value=session.app["thoughts"]),
    ]


async def burst(session: acpwire.AgentSession, number: int) -> None:
    """As many chunks as are wanted, as fast as they go."""
    async with session.agent_message() as message:
        for index in range(number):
            await message.write(f"word{index} ")


async def forever(session: acpwire.AgentSession) -> None:
    """Chunks without an end; cancelling raises in `write`, and the runtime tells how it ended."""
    message = session.agent_message()
    for index in itertools.count():
        await message.write(f"{index} ")


async def tell(session: acpwire.AgentSession, prompt: acpwire.UserPrompt) -> None:
    """The story: each thing that a client can be told, once."""
    await session.info(title="The bridge")
    if session.app["thoughts"]:
        async with session.thought() as thought:
            await thought.write("Somebody wants to cross. ", "Is the bridge whole?")
            await thought.patch_meta({"demo": {"mood": "curious"}})
    await session.plan("Turn back", plan_id="other")
    await session.remove_plan("other")
    await plan(session, 0)
    async with session.tool_call("Look at the bridge", kind="read", name="look") as look:
        await look.write("a plank")
        await look.complete(raw_output={"planks": 1})
    await plan(session, 1)
    mended = await mend(session)
    await plan(session, 2)
    await cross(session)
    await ask_somebody_else(session)
    async with session.compaction() as compaction:
        await compaction.write("Retained: the bridge has ", "two planks." if mended else "one plank.")
    await session.notice("The river rises", "Nothing depends on it.", severity="warning")
    await unknown(session)
    await session.usage(used=12_000, size=200_000, cost=v2.Cost(amount=0.02, currency="EUR"))
    await plan(session, 3)
    text = "The bridge holds." if mended else "The bridge is as it was."
    message = session.agent_message()
    await message.write("The bridge ...")
    await message.replace(text.upper() if session.app["voice"] == "loud" else text)
    prompt.usage = v2.Usage(total_tokens=420, input_tokens=300, output_tokens=120)


async def plan(session: acpwire.AgentSession, done: int) -> None:
    """All of the plan, each time."""
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(STEPS)
    entries = zip(STEPS, states, strict=False)
    await session.plan(*(v2.PlanEntry(content=step, priority="medium", status=state) for step, state in entries))


async def mend(session: acpwire.AgentSession) -> bool:
    """A tool call that needs permission, and may be cancelled for itself; whether it was done."""
    is_done = False
    async with session.tool_call("Mend the bridge", kind="edit", name="mend", can_cancel=True) as call:
        if await session.request_permission("Mend the bridge?", subject=call, description="It takes a plank."):
            await call.write(v2.Diff(changes=[v2.DiffModify(path="/bridge.txt")], patch=patch_of(PATCH)))
            is_done = True
        else:
            await call.fail("Nobody allowed it.")
    return is_done


def patch_of(text: str) -> v2.DiffPatch:
    """A patch as git makes them."""
    return v2.DiffPatch(format="git_patch", text=text)


async def cross(session: acpwire.AgentSession) -> None:
    """A tool call that shows a terminal."""
    async with (
        session.tool_call("Cross the bridge", kind="execute", name="cross") as call,
        session.terminal(command="cross bridge", cwd="/", can_cancel=True) as terminal,
    ):
        await call.write(terminal.content)
        for output in OUTPUT:
            await terminal.write(output)
        await terminal.exit(0)


async def ask_somebody_else(session: acpwire.AgentSession) -> None:
    """A child session, which is told something, works for itself, and answers."""
    child = await session.subagent("The ferryman", description="knows the river", can_cancel=True)
    async with session.session_message(sender=session.id, recipient=child.id) as question:
        await question.write("Is there another way?")
    async with child.foreground():
        async with child.session_message(sender=session.id, recipient=child.id) as heard:
            await heard.write("Is there another way?")
        async with child.tool_call("Look at the river", kind="search") as call:
            await call.write("deep")
        await child.agent_message().write("Not without a boat.")
    async with session.session_message(sender=child.id, recipient=session.id) as answer:
        await answer.write("Not without a boat.")
        await answer.participants(recipient_message_id="msg_of_the_bridge")


async def unknown(session: acpwire.AgentSession) -> None:
    """What no version of the protocol knows: an update, and a block of content. A client keeps both as they are."""
    weather = json.dumps({"sessionUpdate": "_demo_weather", "sky": "grey", "wind": [3, 4]}).encode()
    await session.send(v2.UnknownVariant("_demo_weather", weather))
    drawing = json.dumps({"type": "_demo_drawing", "lines": ["=", "~"]}).encode()
    await session.agent_message().write("Here it is: ", v2.UnknownVariant("_demo_drawing", drawing))


def main() -> None:
    """Serve it on this process's stdin and stdout."""
    acpwire.run_agent(DemoAgent())


if __name__ == "__main__":
    main()
