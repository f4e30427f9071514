"""An editor: one agent, a tab for each session, the children of each, and a new agent when the old one crashes.

What a prompt came to is uncertain where the agent was gone before it said so (PL-26). A new agent may remember some of
it, all, or nothing, and none of that says how it ended. So the tab shows what is remembered, says that it is uncertain,
and sends nothing again: that is for the user to decide. Only what was never sent is sent to the new agent.

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
    is_sent: bool = False
    turn: acpwire.Turn | None = None
    remembered: str | None = None
    """What a new agent knows of a prompt whose end nobody has heard of."""

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing more to be done for it."""
        return self.turn is not None or self.remembered is not None

    @property
    def answer(self) -> str:
        """What the agent answered, and what went wrong with it."""
        if self.turn is not None:
            failure = "" if self.turn.error is None else f"[{self.turn.error.code}: {self.turn.error.message}]"
            return f"{self.turn.text} {failure}".strip()
        if not self.is_sent:
            return "no answer"
        return f"{self.remembered or ''} [uncertain: the agent was gone before the end; not sent again]".strip()


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


async def session_of(agent: acpwire.AgentConnection, tab: Tab) -> acpwire.ClientSession:
    """A tab's session: the one that it had, where the agent remembers it, or a new one."""
    if tab.session_id is not None:
        try:
            return await agent.resume_session(tab.session_id, cwd=".", replay=True)
        except acpwire.SessionNotFound:
            pass
    session = await agent.new_session(cwd=".")
    tab.session_id = session.id
    return session


async def work(agent: acpwire.AgentConnection, tab: Tab) -> None:
    """Open a tab's session, or take it up again, and have its prompt answered, unless it was sent before."""
    session = await session_of(agent, tab)
    if tab.is_sent:
        tab.remembered = session.transcript.text
        return
    tab.is_sent = True
    tab.turn = await session.ask(tab.text)


async def edit(tabs: list[Tab], argv: list[str]) -> bool:
    """Work in all tabs at once until nothing is left to be done; returns whether all is answered."""
    for _ in range(1 + RESTARTS):
        if all(tab.is_settled for tab in tabs):
            break
        try:
            async with acpwire.spawn_agent(*argv, client=Editor()) as agent, asyncio.TaskGroup() as tasks:
                for tab in tabs:
                    if not tab.is_settled:
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
