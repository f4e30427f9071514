"""One session, as the agent that serves it sees it.

Owns: what an agent can do in a session: write, work, ask, replay. Does not know: which requests a client sends, how
prompts get in, or what ends a session; that is the runtime's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any, Final, TypedDict, TypeVar, Unpack

from msgspec import UNSET, UnsetType

from acpwire import v2
from acpwire.capabilities import supports
from acpwire.errors import ConnectionClosed, DecodeError, RequestError, UsageError
from acpwire.peer import Peer, after_answer
from acpwire.transcript import Transcript
from acpwire.wire.frames import Method

from .asking import OPTIONS, Elicited, Permission, awaited
from .live import Live
from .outgoing import new_id
from .work import Blocked, Work, current_work
from .writers import (
    CompactionWriter,
    MessageWriter,
    SessionMessageWriter,
    TerminalMembers,
    TerminalWriter,
    ToolCallMembers,
    ToolCallWriter,
    classes_of,
    mistyped,
    shown,
)

__all__ = ["AgentSession", "ConnectedClient", "SubagentMembers"]

P = TypeVar("P")
R = TypeVar("R")
_LIVE: Final = frozenset({"notice", "state_update"})
_UPDATES: Final = classes_of(v2.SessionUpdate)
_SAID: Final = frozenset(_UPDATES) - {v2.StateUpdate, v2.UnknownVariant}
"""The classes of updates that tell no state."""
_COMMANDS: Final = classes_of(v2.AvailableCommand)
_CONFIGS: Final = classes_of(v2.SessionConfigOption)


class SubagentMembers(TypedDict, total=False):
    """What a child session may have beyond what `AgentSession.subagent` names; a test compares it with the draft's."""

    description: str | UnsetType | None
    capabilities: v2.SubagentSessionCapabilities | UnsetType | None
    additional_directories: Sequence[v2.AbsolutePath] | UnsetType | None
    meta: Mapping[str, Any] | UnsetType | None


class ConnectedClient:
    """The client at the other end: what it says it is and can do.

    Attributes:
        info: who it is, a `v2.Implementation`.
        capabilities: all that it says it can do, a `v2.ClientCapabilities`; `supports` asks for one of them.
        open_elicitations: the ids of those at URLs that the user has been sent to, and is not done at.
    """

    def __init__(self, peer: Peer) -> None:
        self.info = v2.Implementation(name="unknown", version="unknown")
        self.capabilities = v2.ClientCapabilities()
        self.open_elicitations: set[str] = set()
        """The ids of those at URLs that the user has been sent to, and is not done at."""
        self._peer = peer

    def supports(self, path: str) -> bool:
        """Whether it has a capability, such as "elicitation.form" (IN-08); tools may use what it has (TC-14)."""
        return supports(self.capabilities, path)

    async def request(self, method: Method[P, R], params: P) -> R:
        """Send it any request, of one's own too. Raises as `Peer.request` does."""
        return await self._peer.request(method, params)

    async def notify(self, method: Method[P, None], params: P) -> None:
        """Send it any notification, of one's own too."""
        await self._peer.notify(method, params)


class AgentSession:
    """One session. Made by the runtime; `app` is the agent's to use.

    Everything here belongs to the event loop's thread. Whatever sends raises `UsageError` after the session was closed
    and `ConnectionClosed` after the connection was; it waits only while the client takes nothing. From a worker thread:

        asyncio.run_coroutine_threadsafe(session.notice("half done"), session.loop).result()

    Attributes:
        id: the id of the session.
        cwd: its working directory, absolute.
        additional_directories: others that it may work in.
        mcp_servers: the MCP servers that it is to use, of the transports in `Agent.accepts`.
        system_prompt: what the client wants the model to be told, where `Agent.accepts` has it; or None.
        app: whatever the agent keeps about the session; None until it is set.
        client: the client, a `ConnectedClient`.
        state: the `v2.StateUpdate` that was told last.
        cancelled: whether the current foreground work was cancelled.
        available_commands, config_options: what was told last.
        title, updated_at: likewise.
        transcript: all that was said, where `Agent.retain` is set; else None.
        parent, children: the sessions above and below it, these by their id.
        loop: the event loop that it belongs to.
    """

    def __init__(
        self,
        live: Live,
        client: ConnectedClient,
        *,
        sent: Callable[[AgentSession, v2.SessionUpdate], object] | None = None,
        retain: bool = False,
        has_options: bool = False,
        parent: AgentSession | None = None,
    ) -> None:
        self.id = live.id
        self.cwd = live.cwd
        self.client = client
        self.parent = parent
        self.children: dict[str, AgentSession] = {}
        self.additional_directories: Sequence[str] = ()
        self.mcp_servers: Sequence[v2.McpServer] = ()
        self.system_prompt: v2.SystemPrompt | None = None
        self.available_commands: Sequence[v2.AvailableCommand] = ()
        """The commands that were told last; the answer to a setup request tells them, too (SS-08)."""
        self.config_options: Sequence[v2.SessionConfigOption] = ()
        """The config options that were told last, likewise."""
        self.title: str | None = None
        self.updated_at: str | None = None
        self.app: Any = None
        """Whatever the agent keeps about the session."""
        self.loop = asyncio.get_running_loop()
        self.transcript: Transcript | None = Transcript(cwd=live.cwd) if retain else None
        """All that was said, where the agent has it retained."""
        self._live = live
        self._outgoing = live.outgoing
        self._sent = sent
        self._has_options = has_options
        if retain or sent is not None:
            live.outgoing.watch(self._watch)

    def __repr__(self) -> str:
        return f"<AgentSession {self.id} {self.state.state}>"

    # --- writing --------------------------------------------------------------------------------------------------

    def send(self, update: v2.SessionUpdate) -> Coroutine[Any, Any, None]:
        """Send any update. Raises `EncodeError` for what a client may refuse, and names the requirement.

        States are told by the runtime, and refused with `UsageError`; but "unknown", which is for work that really
        cannot be observed any more, not for work that is silent (ST-11).
        """
        if update.__class__ not in _SAID:
            _check_update(update)
        return self._outgoing.send(update)

    def agent_message(self, message_id: str | None = None) -> MessageWriter:
        """A message to the user, to write block by block."""
        return MessageWriter(self._outgoing, message_id, is_thought=False)

    def thought(self, message_id: str | None = None) -> MessageWriter:
        """A thought of the model, to write block by block."""
        return MessageWriter(self._outgoing, message_id, is_thought=True)

    def tool_call(
        self,
        title: str,
        *,
        kind: v2.ToolKind = "other",
        name: str | None = None,
        tool_call_id: str | None = None,
        status: v2.ToolCallStatus = "pending",
        can_cancel: bool = False,
        **fields: Unpack[ToolCallMembers],
    ) -> ToolCallWriter:
        """A tool call; `async with` announces it and says how it ended.

        Announce what the model asks for as soon as it does (MS-10), before permission is asked and it runs (TC-05).
        With `can_cancel` the client may cancel what runs inside. `fields` are any others of a tool call: `raw_input`,
        `locations`, ... (TC-03, TC-04).
        """
        tool_call_id = tool_call_id or new_id("call")
        if can_cancel:
            fields["capabilities"] = v2.ToolCallCapabilities(cancel=v2.ToolCallCancelCapabilities())
        said = v2.ToolCallFields(
            tool_call_id=tool_call_id, title=title, kind=kind, status=status, name=name or UNSET, **shown(fields)
        )
        return ToolCallWriter(self._outgoing, said, self._live.running)

    def terminal(
        self,
        *,
        command: str | None = None,
        cwd: str | None = None,
        terminal_id: str | None = None,
        can_cancel: bool = False,
        **fields: Unpack[TerminalMembers],
    ) -> TerminalWriter:
        """A terminal; `async with` announces it and says that it exited (TM-05). `cwd` is the session's unless given.

        With `can_cancel` the client may cancel what runs inside.
        """
        terminal_id = terminal_id or new_id("term")
        if can_cancel:
            fields["capabilities"] = v2.TerminalCapabilities(cancel=v2.TerminalCancelCapabilities())
        said = v2.TerminalUpdate(terminal_id=terminal_id, command=command or UNSET, cwd=cwd or self.cwd, **fields)
        return TerminalWriter(self._outgoing, said, self._live.running)

    def compaction(self, compaction_id: str | None = None) -> CompactionWriter:
        """A compaction of the context; `async with` announces it and says how it ended."""
        return CompactionWriter(self._outgoing, compaction_id, self._live.running)

    def session_message(
        self, *, sender: str | None = None, recipient: str | None = None, message_id: str | None = None, **ids: str
    ) -> SessionMessageWriter:
        """A message from or to another session, as it is observed here, apart from what is said to the user (SM-01).

        Either side tells its own when it observes it (SM-10); neither says that the other has dealt with it (SM-12).
        `ids` are `sender_message_id` and `recipient_message_id`, where known. Raises `UsageError` for a session that
        is neither this one, above it, nor a child that was announced (SM-13).
        """
        for who in (sender, recipient):
            if who is not None and not self._live.knows(who):
                raise UsageError(f"SM-13: announce {who} with session.subagent() before a message names it")
        named = {"sender_session_id": sender, "recipient_session_id": recipient}
        known = {name: who for name, who in named.items() if who is not None}
        return SessionMessageWriter(self._outgoing, message_id, known | ids)

    async def plan(self, *entries: str | v2.PlanEntry, plan_id: str = "plan") -> None:
        """Tell a plan, all of it each time (PN-03); a string is an entry that is pending."""
        items = [_entry(entry) for entry in entries]
        await self.send(v2.PlanUpdate(plan=v2.PlanItems(plan_id=plan_id, entries=items)))

    async def remove_plan(self, plan_id: str = "plan") -> None:
        """Take a plan back (PN-05)."""
        await self.send(v2.PlanRemoved(plan_id=plan_id))

    async def notice(self, title: str, description: str | None = None, *, severity: v2.NoticeSeverity = "info") -> None:
        """Tell the user something that nothing may depend on: "info", "warning" or "error" (NT-01).

        It may never be seen, so it is no place for a question, a result, or the reason why something ended (NT-07).
        """
        await self.send(v2.Notice(severity=severity, title=title, description=description))

    async def usage(self, *, used: int, size: int, cost: v2.Cost | UnsetType | None = UNSET) -> None:
        """Tell how much of the context is used, and what it all cost: None clears that (US-01, US-05).

        The currency is best an ISO 4217 code; other units, such as credits, are taken too (US-04).
        """
        given: Any = cost
        if given is not None and not isinstance(given, v2.Cost | UnsetType):
            raise mistyped("cost", "v2.Cost", given)
        await self.send(v2.UsageUpdate(used=used, size=size, cost=cost))

    async def info(
        self,
        *,
        title: str | UnsetType | None = UNSET,
        updated_at: str | UnsetType | None = UNSET,
        meta: Mapping[str, Any] | UnsetType | None = UNSET,
    ) -> None:
        """Patch what a list of sessions shows (SS-24)."""
        self._outgoing.post(v2.SessionInfoUpdate(title=title, updated_at=updated_at, meta=meta))
        if not isinstance(title, UnsetType):
            self.title = title
        if not isinstance(updated_at, UnsetType):
            self.updated_at = updated_at
        await self._outgoing.flow()

    async def commands(self, *commands: v2.AvailableCommand) -> None:
        """Tell all commands that the user may call, each a `v2.Command` (CM-01).

        await session.commands(v2.Command(name="test", description="Run the tests"))
        """
        _check_each("commands", "v2.Command", commands, _COMMANDS)
        self._outgoing.post(v2.AvailableCommandsUpdate(available_commands=list(commands)))
        self.available_commands = commands
        await self._outgoing.flow()

    async def config(self, *options: v2.SessionConfigOption) -> None:
        """Tell all config options and their values, each a `v2.SessionConfigSelect` or `-Boolean` (CO-06).

        Raises `UsageError` where the agent does not override `set_config_option` (CO-03).
        """
        if options and not self._has_options:
            raise UsageError("CO-03: override `set_config_option` to have options")
        _check_each("options", "v2.SessionConfigSelect or v2.SessionConfigBoolean", options, _CONFIGS)
        self._outgoing.post(v2.ConfigOptionUpdate(config_options=list(options)))
        self.config_options = options
        await self._outgoing.flow()

    async def subagent(
        self,
        title: str,
        *,
        session_id: str | None = None,
        can_cancel: bool = False,
        cwd: str | None = None,
        **fields: Unpack[SubagentMembers],
    ) -> AgentSession:
        """A child session: it is announced, and from then on speaks for itself; its state is mirrored (SA-01, ST-17).

        It has the session's directories unless it is given its own (SA-05). With `can_cancel` the client may cancel its
        work (SA-06). It is closed with this session.
        """
        self._outgoing.check(begins=True)
        child_id = session_id or new_id("sess")
        if self._live.is_taken(child_id):
            raise UsageError(f"SA-01: there is a session {child_id!r} on this connection already")
        if can_cancel:
            fields["capabilities"] = v2.SubagentSessionCapabilities(cancel=v2.SessionCancelCapabilities())
        self._outgoing.post(v2.SubagentUpdate(session_id=child_id, title=title, cwd=cwd or UNSET, **fields))
        live = self._live.child(child_id, cwd or self.cwd)
        live.may_be_cancelled = can_cancel
        retain = self.transcript is not None
        child = self.children[child_id] = AgentSession(live, self.client, sent=self._sent, retain=retain, parent=self)
        own = fields.get("additional_directories")
        child.additional_directories = self.additional_directories if own is None or own is UNSET else own
        await self._outgoing.flow()
        return child

    # --- working --------------------------------------------------------------------------------------------------

    @property
    def state(self) -> v2.StateUpdate:
        """What the client was told last."""
        return self._live.works.state

    @property
    def cancelled(self) -> bool:
        """Whether the current foreground work was cancelled; for blocking code in a thread, which has to look.

            def crunch(): ...; if session.cancelled: return
            await asyncio.to_thread(crunch)

        Safe from any thread. Code that knows of which work it is part, as in `asyncio.to_thread`, is told of that work,
        other code of the session's newest.
        """
        works, work = self._live.works, current_work.get()
        return work.is_cancelled if work is not None and work.works is works else works.is_cancelled

    async def wait_idle(self) -> None:
        """Wait until no foreground work is left. Safe to cancel.

        Raises `UsageError` in foreground work of this session, which would wait for itself.
        """
        works, work = self._live.works, current_work.get()
        if work is not None and work.works is works and not work.ended.is_set():
            raise UsageError("foreground work waits for itself here: leave it first, or use a task in background()")
        await works.wait_idle()

    def foreground(self) -> Work:
        """Foreground work that no prompt asked for (ST-18); an async context manager.

        Raises `UsageError` from another thread and once the session is being closed.
        """
        self._outgoing.check(begins=True)
        return Work(self._live.works)

    @asynccontextmanager
    async def background(self, shown_by: ToolCallWriter | TerminalWriter | AgentSession) -> AsyncGenerator[None, None]:
        """Work that goes on beside the foreground, and survives its cancellation (BG-*, CA-10).

        To be entered in a task of its own. Its tool call, terminal or child session was announced before, and its end
        is told before the context is left (BG-03).
        """
        self._outgoing.check(begins=True)
        if not isinstance(shown_by, AgentSession):
            _check_entity("shown_by", "a writer of a tool call or a terminal, or a child session", shown_by)
        works, background, task = self._live.works, self._live.background, asyncio.current_task()
        item: v2.BackgroundWork
        if isinstance(shown_by, ToolCallWriter):
            item = v2.BackgroundToolCall(tool_call_id=shown_by.tool_call_id)
        elif isinstance(shown_by, TerminalWriter):
            item = v2.BackgroundTerminal(terminal_id=shown_by.terminal_id)
        else:
            item = v2.BackgroundSubagent(session_id=shown_by.id)
        token = current_work.set(None)
        works.add_background(item)
        if task is not None:
            background.append(task)
        try:
            yield
        finally:
            if task is not None:
                background.remove(task)
            current_work.reset(token)
            with suppress(ConnectionClosed, UsageError):  # there is nobody to be told, and the work is over
                works.remove_background(item)

    def requires_action(self) -> Blocked:
        """While it is entered, the current foreground work waits for the user (ST-04); an async context manager."""
        self._outgoing.check()
        return Blocked(self._live.works, current_work.get())

    # --- asking ---------------------------------------------------------------------------------------------------

    @awaited
    async def request_permission(
        self,
        title: str,
        *,
        subject: v2.RequestPermissionSubject | ToolCallWriter | None = None,
        options: Sequence[v2.PermissionOption] = OPTIONS,
        description: str | None = None,
        blocks: bool = True,
    ) -> Permission:
        """Ask the user. What is returned is true only where the answer allows it (PM-07..PM-11).

        An answer that is an error is a refusal. While it waits, the session requires action if all of its foreground
        work waits; `blocks=False` says that other work goes on beside it (ST-06). Cancelled with the work that asks
        (CA-11). Nothing is asked before it is awaited. Raises `ConnectionClosed`, `EncodeError`, and `UsageError`, for
        a subject that was not announced (TC-01) or is final (TC-09) as well.
        """
        _check_each("options", "v2.PermissionOption", options, (v2.PermissionOption,))
        if isinstance(subject, ToolCallWriter):
            subject.check()
            subject = v2.ToolCallPermissionSubject(tool_call=v2.ToolCallFields(tool_call_id=subject.tool_call_id))
        params = v2.RequestPermissionRequest(
            session_id=self.id, title=title, description=description, subject=subject, options=list(options)
        )
        try:
            async with Blocked(self._live.works, current_work.get() if blocks else None):
                response = await self._outgoing.ask(v2.SESSION_REQUEST_PERMISSION, params)
        except (RequestError, DecodeError):
            response = None
        return Permission.of(response, options)

    @awaited
    async def elicit(
        self,
        message: str,
        schema: v2.ElicitationSchema | None = None,
        *,
        url: str | None = None,
        elicitation_id: str | None = None,
        tool_call: ToolCallWriter | None = None,
        blocks: bool = True,
    ) -> Elicited:
        """Ask the user for input: by a form with this schema, or at a URL (EL-01).

        Never ask for secrets in a form, and put none into a URL (EL-09, EL-12). The answer to a URL says that the user
        agreed to open it; `elicited` tells the client when they are done there. `blocks` is as in `request_permission`.
        Raises `UsageError` where the client does not offer that (EL-02), so ask `session.client.supports` before, and
        for an id that is open already (EL-10). An answer that is an error counts as cancelled (EL-07), and a form whose
        values do not fit the schema is not accepted (EL-08). Cancelled with the work that asks (EL-15).
        """
        mode = "form" if url is None else "url"
        if not self.client.supports(f"elicitation.{mode}"):
            raise UsageError(f"EL-02: the client does not offer elicitation.{mode}")
        if tool_call is not None:
            _check_entity("tool_call", "a writer of a tool call", tool_call)
        tool_call_id = None if tool_call is None else tool_call.tool_call_id
        wanted = None
        params: v2.CreateElicitationRequest
        opened = self.client.open_elicitations
        if url is None:
            wanted = schema or v2.ElicitationSchema(type="object", properties={})
            params = v2.ElicitationFormMode(
                message=message, requested_schema=wanted, session_id=self.id, tool_call_id=tool_call_id
            )
        else:
            elicitation_id = elicitation_id or new_id("elicit")
            if elicitation_id in opened:
                raise UsageError(f"EL-10: the elicitation {elicitation_id} is open already")
            opened.add(elicitation_id)
            params = v2.ElicitationUrlMode(
                message=message,
                url=url,
                elicitation_id=elicitation_id,
                session_id=self.id,
                tool_call_id=tool_call_id,
            )
        answer = None
        try:
            async with Blocked(self._live.works, current_work.get() if blocks else None):
                answer = await self._outgoing.ask(v2.ELICITATION_CREATE, params)
        except (RequestError, DecodeError):
            pass
        finally:
            answered = Elicited.of(answer, wanted)
            if not answered and elicitation_id is not None:
                opened.discard(elicitation_id)
        return answered

    async def elicited(self, elicitation_id: str) -> None:
        """Tell the client that the user is done at the URL of an elicitation that they agreed to (EL-11).

        Does nothing for one that is not open, or was told already. Raises `ConnectionClosed`.
        """
        if elicitation_id in self.client.open_elicitations:
            self.client.open_elicitations.discard(elicitation_id)
            done = v2.CompleteElicitationNotification(elicitation_id=elicitation_id)
            await self.client.notify(v2.ELICITATION_COMPLETE, done)

    # --- history --------------------------------------------------------------------------------------------------

    async def replay(self, history: Transcript | Iterable[v2.SessionUpdate]) -> None:
        """Send what rebuilds a history: ids and order as they were, compactions whole (SS-12..SS-15).

        No notices, which are no history, and no states: the current one is told at the end of resuming (SS-16).

        What is said meanwhile, by work that goes on, is sent after it. Nothing of it is checked: it goes out as it was
        stored, what is unknown here included (EX-03). Waits while the client takes nothing; cancelled, it stops there.
        `Agent.sent` does not see it, as it was sent before; a transcript that is retained takes it in.
        """
        updates = list(history.updates()) if isinstance(history, Transcript) else history
        kept = None if history is self.transcript else self.transcript
        with nullcontext() if kept is None else kept.replaying():
            await self._outgoing.replay(
                (update for update in updates if update.tag not in _LIVE),  # not as an unknown variant either (SU-04)
                (lambda _: None) if kept is None else kept.apply,
            )

    def after_response(self, callback: Callable[[], object]) -> None:
        """Have something called right after the request that is being handled is answered with its result.

        For `new_session`, `resume_session` and the like: what a client is told only when it knows the session. Raises
        `UsageError` where no request is being handled, as in `prompt`, whose request was answered before it began.
        """
        if current_work.get() is not None:
            raise UsageError("a prompt is answered before its work begins: what is to follow can be done right away")
        after_answer(callback)

    def _watch(self, update: v2.SessionUpdate) -> None:
        if self.transcript is not None:
            self.transcript.apply(update)
        if self._sent is not None:
            self._sent(self, update)


def _check_update(update: Any) -> None:
    """Raise for a state, which the runtime tells (ST-01, ST-02), and for what is no update."""
    if not isinstance(update, _UPDATES):
        raise mistyped("update", "an update of v2.SessionUpdate", update)
    if isinstance(update, v2.UnknownVariant) and update.tag == "state_update":
        raise UsageError("ST-15: states are told by the runtime, which tells the standard ones")
    if isinstance(update, v2.StateUpdate) and update.state != "unknown":
        advice = {
            "idle": "return a stop reason from prompt(), or leave session.foreground()",
            "running": "work in prompt(), or in session.foreground()",
            "requires_action": "use `async with session.requires_action()`",
        }
        how = advice.get(update.state, 'only "unknown" is yours to tell (ST-11)')
        raise UsageError(f"ST-01, ST-02: states are told by the runtime: {how}")


def _check_entity(argument: str, expected: str, entity: Any) -> None:
    """Raise `UsageError` for an entity that was not announced, or is over (TC-01, TM-05, BG-03)."""
    if not isinstance(entity, ToolCallWriter | TerminalWriter):
        raise UsageError(f"{argument}: expected {expected}, not {type(entity).__name__}")
    entity.check()


def _check_each(argument: str, expected: str, values: Sequence[Any], classes: tuple[type, ...]) -> None:
    """Raise `EncodeError` for a value that is of none of the classes."""
    for value in values:
        if not isinstance(value, classes):
            raise mistyped(argument, expected, value)


def _entry(entry: Any) -> v2.PlanEntry:
    """An entry of a plan; a string is one that is pending."""
    if isinstance(entry, str):
        return v2.PlanEntry(content=entry, priority="medium", status="pending")
    if not isinstance(entry, v2.PlanEntry):
        raise mistyped("entries", "str or v2.PlanEntry", entry)
    return entry
