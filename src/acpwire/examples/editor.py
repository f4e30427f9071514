"""An editor: one agent, a tab for each session, the children of each, and a new agent when the old one crashes.

    python -m acpwire.examples.editor my-agent --acp <prompts.txt      # each line is the prompt of a tab

Owns: which tab is which session, and what is done after a crash. Does not know: how a tab is drawn.
"""

import asyncio
import sys
from dataclasses import dataclass

import acpwire
from acpwire import v2

RESTARTS = 3


@dataclass
class Tab:
    """What the user sees of a session; it stays when an agent goes."""

    text: str
    session_id: str | None = None
    turn: acpwire.Turn | None = None

    @property
    def answer(self) -> str:
        """What the agent answered, and what went wrong with it."""
        if self.turn is None:
            return "no answer"
        failure = "" if self.turn.error is None else f"[{self.turn.error.code}: {self.turn.error.message}]"
        return f"{self.turn.text} {failure}".strip()


class Editor(acpwire.Client):
    """Told of everything in all sessions; each tab could be drawn from its `session.transcript` instead."""

    info = v2.Implementation(name="editor", version="1.0")

    def child_session(self, session: acpwire.ClientSession) -> None:
        """Its updates come as any other session's do."""
        above = None if session.parent is None else session.parent.id
        print(f"{session.id} is a child of {above}")

    def update(self, session: acpwire.ClientSession, update: v2.SessionUpdate) -> None:
        """Say when a session begins to work, and when it ends."""
        if isinstance(update, v2.StateUpdate):
            print(f"{session.id} is {update.state}")

    def closed(self, cause: acpwire.ConnectionClosed) -> None:
        """Why the agent is gone; the exit code and the end of its stderr are in it."""
        print(f"the agent is gone: {cause.message}")


async def work(agent: acpwire.AgentConnection, tab: Tab) -> None:
    """Open a tab's session, or take it up again, and have its prompt answered."""
    if tab.session_id is None:
        session = await agent.new_session(cwd=".")
        tab.session_id = session.id
    else:
        session = await agent.resume_session(tab.session_id, cwd=".", replay=True)
        if session.transcript.text:  # it was answered, and we did not hear of it
            tab.turn = acpwire.Turn(session.transcript.text, "end_turn", None, None)
            return
    tab.turn = await session.ask(tab.text)


async def edit(tabs: list[Tab], argv: list[str]) -> bool:
    """Work in all tabs at once until all is answered; returns whether it is."""
    for _ in range(1 + RESTARTS):
        if all(tab.turn for tab in tabs):
            break
        try:
            async with acpwire.spawn_agent(*argv, client=Editor()) as agent, asyncio.TaskGroup() as tasks:
                for tab in tabs:
                    if tab.turn is None:
                        tasks.create_task(work(agent, tab))
        except* acpwire.ConnectionClosed:  # in as many tabs as were at work; what was answered stays
            pass
    return all(tab.turn for tab in tabs)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    opened = [Tab(line.strip()) for line in sys.stdin if line.strip()]
    is_done = asyncio.run(edit(opened, sys.argv[1:]))
    for one in opened:
        print(f"{one.session_id}: {one.text} -> {one.answer}")
    sys.exit(not is_done)
