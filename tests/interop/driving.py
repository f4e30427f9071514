"""A client of this library that goes through the whole life of an agent, and keeps what it sees.

Owns: what is asked and in which order, how the client answers, and what is kept of it. Does not know: what is right.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import acpwire
from acpwire import v2
from acpwire.client import ClientSession, Prompt
from acpwire.transcript import Snapshot
from acpwire.wire.frames import Method

from .comparing import SECONDS, decoded
from .story import BLOCKS, CHILD, FILLED, LONE

ECHO: Method[Any, Any] = Method("_story/echo", "agent", "request", Any, Any, v2.INITIALIZE.decoding)
ECHO_BACK: Method[Any, Any] = Method("_story/echo", "client", "request", Any, Any, v2.INITIALIZE.decoding)
TOLD: Method[Any, None] = Method("_story/told", "agent", "notification", Any, None, v2.INITIALIZE.decoding)
WAITED_FOR = 100
"""After how many updates an endless work is cancelled."""
SERVERS: list[v2.McpServer] = [
    v2.McpServerStdio(name="files", command="/bin/files", args=["-v"], env=[v2.EnvVariable(name="A", value="ä")]),
    v2.McpServerHttp(name="web", url="https://example.org/mcp"),
]


class Watching(acpwire.Client):
    """Keeps what it is told, and answers by title and message."""

    info = v2.Implementation(name="interop", version="1.0")
    elicits = ("form", "url")

    def __init__(self) -> None:
        self.updates: dict[str, list[v2.SessionUpdate]] = defaultdict(list)
        self.children: list[str] = []
        self.asked: list[v2.RequestPermissionRequest] = []
        self.elicited: list[v2.CreateElicitationRequest] = []
        self.completed: list[str] = []
        self.taken_back: list[str] = []
        self.statuses: list[v2.AuthStatusUpdateNotification] = []
        self.echoed: list[Any] = []
        self.waits = asyncio.Event()

    def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
        self.updates[session.id].append(update)

    def child_session(self, session: ClientSession) -> None:
        self.children.append(session.id)

    async def request_permission(self, session: ClientSession, request: v2.RequestPermissionRequest) -> Any:
        self.asked.append(request)
        if request.title in {"Go on?", "Never mind"}:
            try:
                if request.title == "Go on?":
                    self.waits.set()
                else:
                    await session.agent.notify(TOLD, {"seen": request.title})
                await asyncio.Event().wait()
            finally:
                self.taken_back.append(request.title)
        return {"Edit it?": "later", "Run it?": "no", "May it?": "no", "Really?": request.options[0]}.get(request.title)

    async def create_elicitation(self, session: ClientSession | None, request: v2.CreateElicitationRequest) -> Any:
        self.elicited.append(request)
        if isinstance(request, v2.ElicitationUrlMode):
            return v2.ElicitationAcceptAction()
        return None if getattr(request, "message", "") == "Decline" else FILLED

    def elicitation_complete(self, elicitation_id: str) -> None:
        self.completed.append(elicitation_id)

    def auth_status(self, status: v2.AuthStatusUpdateNotification) -> None:
        self.statuses.append(status)

    async def echo(self, params: Any) -> Any:
        self.echoed.append(params)
        return params


@dataclass
class Driven:
    """What a client saw."""

    agent: acpwire.AgentConnection
    client: Watching
    ids: list[str] = field(default_factory=list[str])
    """Of user messages."""
    ends: list[tuple[str | None, int | None]] = field(default_factory=list[tuple[str | None, int | None]])
    """Why works ended, and the codes of their errors."""
    came: list[Any] = field(default_factory=list[Any])
    """What other requests came to."""
    kept: dict[str, Snapshot] = field(default_factory=dict[str, Snapshot])
    """What transcripts held, by what they are of."""
    setup: Any = None
    """The commands and options of the first session when it was made."""
    commands: Sequence[v2.AvailableCommand] = ()
    """Those of the session that was resumed after it was closed."""
    more: list[Any] = field(default_factory=list[Any])
    """What came of what only the draft has."""
    listed: list[list[str]] = field(default_factory=list[list[str]])
    unequal: list[str] = field(default_factory=list[str])
    """Prompts whose own updates were not all that came meanwhile."""

    async def through(self, session: ClientSession, prompt: Prompt) -> None:
        """Read a prompt's updates to their end."""
        self.ids.append(prompt.message_id)
        seen = [update async for update in prompt]
        await self.ended(prompt)
        if seen != self.client.updates[session.id][-len(seen) :]:
            self.unequal.append(prompt.message_id)

    async def ended(self, prompt: Prompt) -> None:
        """Wait for a prompt's end."""
        reason = await prompt.wait()
        self.ends.append((reason, None if prompt.error is None else prompt.error.code))

    async def tried(self, doing: Any) -> None:
        """What a request came to, or its error."""
        try:
            self.came.append(await doing)
        except acpwire.RequestError as error:
            self.came.append((error.code, None if error.data is v2.UNSET else error.data))

    async def list(self) -> None:
        """List all sessions."""
        self.listed.append([one.session_id async for one in self.agent.list_sessions()])


async def drive(command: list[str], wire: Path) -> Driven:
    """Have the agent tell its story; `wire` gets the lines of both sides."""
    client = Watching()
    async with (
        asyncio.timeout(SECONDS),
        acpwire.spawn_agent(*command, client=client, record=wire, extensions={ECHO_BACK: client.echo}) as agent,
    ):
        driven = Driven(agent, client)
        await agent.login("key")
        await agent.logout()
        session = await agent.new_session(
            cwd="/project", additional_directories=["/more"], mcp_servers=SERVERS, meta={"story": {"b": None}}
        )
        driven.setup = (session.available_commands, session.config_options)
        for words in ("everything", "halves", "answer first", "ask", "elicit", "extend", "fail"):
            await driven.through(session, await session.prompt(words))
        await driven.through(
            session, await session.prompt(f"half {LONE}", *decoded(v2.ContentBlock, BLOCKS), check=False)
        )
        await driven.tried(session.prompt("refuse"))
        await driven.tried(agent.request(ECHO, msgspec.Raw(b'{"text":"half \\ud800","n":1}')))
        await driven.tried(session.set_config_option("model", "large"))
        await cancel(driven, session)
        other = await agent.new_session(cwd="/other")
        await driven.through(other, await other.prompt("many"))
        await resume(driven, session)
        await close(driven, other)
        await agent.delete_session(await agent.resume_session(other.id, cwd="/other"))
        await driven.list()
        if agent.supports("session.fork"):
            await more(driven)
    return driven


async def cancel(driven: Driven, session: ClientSession) -> None:
    """Cancel a work that waits for permission with a prompt that is held, one that goes on, a request, and nothing."""
    held = asyncio.ensure_future(session.prompt("held"))
    waiting = await session.prompt("ask and wait")
    await driven.client.waits.wait()
    await session.cancel()
    await driven.ended(waiting)
    await driven.tried(held)
    endless = await session.prompt("endless")
    count = 0
    async for _ in endless:
        count += 1
        if count == WAITED_FOR:
            await session.cancel()
    await driven.ended(endless)
    withdrawn = asyncio.ensure_future(session.prompt("held"))
    await driven.tried(driven.agent.request(ECHO, {}))  # by then it was sent
    withdrawn.cancel()
    await asyncio.wait([withdrawn])
    await session.cancel()  # of nothing; what comes next goes out in the same write
    await driven.through(session, await session.prompt("after"))


async def close(driven: Driven, session: ClientSession) -> None:
    """Close a session in which work goes on."""
    endless = await session.prompt("endless")
    await anext(aiter(endless))
    await session.close()
    await driven.ended(endless)
    driven.kept["many"] = session.transcript.snapshot()


async def more(driven: Driven) -> None:
    """What only the draft has."""
    agent = driven.agent
    session = await agent.fork_session("s1", cwd="/fork")
    stopped = await session.prompt("stop its parts")
    async for update in stopped:
        match update:
            case v2.TerminalUpdate(capabilities=v2.TerminalCapabilities()):
                await session.cancel_tool_call("slow")
            case v2.ToolCallUpdate(status="cancelled"):
                await session.cancel_terminal("slow")
            case _:
                pass
    await driven.ended(stopped)
    driven.kept["more"] = session.transcript.snapshot()
    driven.more += [await agent.session_status(session), await session.set_title("A branch")]
    await agent.archive_session(session)
    driven.more += [[one async for one in agent.list_sessions(archived="only")]]
    await agent.unarchive_session(session.id)
    driven.more += [await agent.auth_status(), await agent.list_providers()]
    await agent.set_provider(
        v2.SetProviderRequest(provider_id="off", api_type="openai", base_url="https://example.org/", headers={"a": "b"})
    )
    await agent.disable_provider("off")


async def resume(driven: Driven, session: ClientSession) -> None:
    """Have a session's history told again: while it is known, and after it was closed."""
    driven.kept["child"] = session.children[CHILD].transcript.snapshot()
    driven.kept["live"] = session.transcript.snapshot()
    await driven.agent.resume_session(session.id, replay=True)
    driven.kept["again"] = session.transcript.snapshot()
    await driven.list()
    await session.close()
    request = v2.PromptRequest(session_id=session.id, prompt=[v2.TextContent(text="gone")])
    await driven.tried(driven.agent.request(v2.SESSION_PROMPT, request))
    infos = [info async for info in driven.agent.list_sessions()]
    afresh = await driven.agent.resume_session(infos[0], replay=True)
    driven.kept["afresh"] = afresh.transcript.snapshot()
    driven.commands = afresh.available_commands
    await driven.through(afresh, await afresh.prompt("other"))
