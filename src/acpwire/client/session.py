"""One session, as a client sees it.

Owns: what a client can do in a session, who gets its updates, answering what is asked when its work is cancelled.
Does not know: how sessions come to be, or which requests other than its own there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

import msgspec

from acpwire import v2
from acpwire.errors import INVALID_PARAMS, NOT_FOUND, ConnectionClosed, RequestError, UsageError
from acpwire.streams import Feed, Stream
from acpwire.transcript import Snapshot, Terminal, ToolCall, Transcript
from acpwire.wire.frames import ErrorObject, Method

from .prompts import WORDS, End, Prompt, Turn, Turns, answer_of

if TYPE_CHECKING:
    from .agents import AgentConnection

__all__ = ["Block", "ClientSession", "about_session", "not_found_is_fine"]

R = TypeVar("R")

Block = str | v2.ContentBlock
"""A block of content; a plain string is text."""
_BLOCKS: Final = (
    v2.TextContent,
    v2.ImageContent,
    v2.AudioContent,
    v2.ResourceLink,
    v2.EmbeddedResource,
    v2.UnknownVariant,
)
NEEDS: Final = {
    "image": "session.prompt.image",
    "audio": "session.prompt.audio",
    "resource": "session.prompt.embeddedContext",
}
"""The capability without which a block may not be in a prompt (PL-04)."""

_NOTICED: Final = frozenset(
    {
        v2.StateUpdate,
        v2.UserMessage,
        v2.UserMessageChunk,
        v2.UnknownVariant,
        v2.SubagentUpdate,
        v2.AvailableCommandsUpdate,
        v2.ConfigOptionUpdate,
    }
)
"""The classes of updates that say something of the session itself; all others go by without a look."""
_LISTENING: Final = _NOTICED | WORDS
"""The same, where it matters that the agent speaks."""
_TOLD: Final = (v2.UserMessage, v2.UserMessageChunk, v2.AgentMessage, v2.AgentMessageChunk)
"""What a `Turn`'s text is made of."""


class ClientSession:
    """One session of an agent. Made by the connection's methods, and by the agent, for its children.

    Everything here belongs to the event loop's thread. Methods that ask raise `RequestError` where the agent refuses
    (`SessionNotFound` where it does not know the session any more), `ConnectionClosed`, and `UsageError` for what the
    agent did not say it serves (IN-14).

    Attributes:
        id: its id, for `resume_session` in a later connection.
        agent: the `AgentConnection` that it belongs to.
        parent: the session of which it is a child; None if of none.
        children: its child sessions, by id.
        state: what the agent said last of its work, a `v2.StateUpdate`; "unknown" before it has, where it was resumed,
            and once the connection has ended. `is_busy` is the gist.
        can_cancel: whether its work may be cancelled; false of some children (SA-06).
        kept: the transcript, or None; `transcript` raises instead.
    """

    def __init__(
        self,
        agent: AgentConnection,
        session_id: str,
        cwd: str | None,
        *,
        additional_directories: Sequence[str] | None = None,
        transcript: bool = True,
        history: Transcript | Snapshot | None = None,
        parent: ClientSession | None = None,
        state: Literal["idle", "unknown"] = "idle",
    ) -> None:
        self.id = session_id
        self.agent = agent
        self.parent = parent
        self.children: dict[str, ClientSession] = {}
        self.state: v2.StateUpdate | v2.UnknownVariant = v2.StateUpdate(state=state)
        """What the agent said last of its work: of a new session idle, if nothing; of others unknown (ST-07, ST-10)."""
        self.can_cancel = parent is None
        """Whether its work may be cancelled: of a child, only while its parent's agent says so (SA-06)."""
        self._cwd = cwd
        self._directories = additional_directories
        self.kept: Transcript | None = None
        """The transcript, where the connection keeps them; None otherwise."""
        if transcript:
            self.kept = Transcript(agent.observer_of(self), v2, self.cwd, self.additional_directories)
            if history is not None:
                self.kept.take_over(history)
        self._commands: Sequence[v2.AvailableCommand] = ()  # of a session without a transcript, which has them else
        self._options: Sequence[v2.SessionConfigOption] = ()
        self._turns = Turns()
        self._noticed: frozenset[type] = _NOTICED
        self._feeds: list[Feed[v2.SessionUpdate]] = []
        self._until_idle: list[Feed[v2.SessionUpdate]] = []  # of those
        self._put: Callable[[v2.SessionUpdate, int], bool] | None = None  # into all of them, if there are any
        self._total = 0  # how many bytes they have got
        self._reported: set[type] = set()  # what updates have said since the session was set up last
        self._questions: set[asyncio.Future[None]] = set()  # that wait for their answers
        self._stopping: set[str] = set()  # tool calls and terminals that were asked to
        self._is_closed = False
        self._is_set_up = state == "idle" or parent is not None  # else it is being resumed (PL-03)

    def __repr__(self) -> str:
        if self._is_closed:
            what = "closed"
        elif isinstance(self.state, v2.StateUpdate) and self.state.state == "unknown":
            what = "unknown"
        else:
            what = "busy" if self.is_busy else "idle"
        return f"<ClientSession {self.id} {what}>"

    @property
    def transcript(self) -> Transcript:
        """What all updates add up to. Raises `UsageError` where the connection keeps no transcripts."""
        if self.kept is None:
            raise UsageError("this connection keeps no transcripts: it was made with transcript=False")
        return self.kept

    @property
    def available_commands(self) -> Sequence[v2.AvailableCommand]:
        """The commands that a prompt may begin with, as the agent said last, in an update or an answer (CM-01).

        The same are `transcript.commands`, where there is one.
        """
        return self._commands if self.kept is None else self.kept.commands or ()

    @property
    def config_options(self) -> Sequence[v2.SessionConfigOption]:
        """What `set_config_option` sets, with the values, as the agent said last, in an update or an answer (CO-06).

        The same are `transcript.config`, where there is one.
        """
        return self._options if self.kept is None else self.kept.config or ()

    @property
    def is_busy(self) -> bool:
        """Whether the agent works in it; true also of a state that this version does not know (ST-14).

        While the state is "unknown" it is what was last known, and not confirmed (ST-12): after a crash, too.
        """
        return self._turns.is_busy

    @property
    def cwd(self) -> str:
        """Its directory; of a child that has none of its own, its parent's (SA-05)."""
        return self._cwd or ("" if self.parent is None else self.parent.cwd)

    @property
    def additional_directories(self) -> Sequence[str]:
        """Its other roots; of a child that has none of its own, its parent's (SA-05)."""
        if self._directories is not None:
            return self._directories
        return () if self.parent is None else self.parent.additional_directories

    # --- prompts --------------------------------------------------------------------------------------------------

    async def prompt(self, *content: Block | Sequence[Block], check: bool = True) -> Prompt:
        """Send a prompt; returns once the agent has accepted it, which is long before it is done (PL-01, PL-25).

        `content` is text and blocks, one by one or in lists. Those that the agent does not take are refused here with
        `UsageError`, unless `check` is false (PL-04, PL-05). It may be sent while the agent is busy, which then inserts
        it or holds it (PL-27). Never sent twice (PL-26). Cancelled, the request is taken back, if the agent can
        (RC-01).
        """
        self._own("session/prompt")
        self._usable()
        blocks = _blocks(content)
        if not blocks:
            raise UsageError("PL-05: a prompt needs at least one block")
        if check:
            for block in blocks:
                self._check(block)
        feed = self._opened()
        prompt = Prompt(Stream(feed), self.agent.gate)
        sent = self._turns.begin(prompt, feed)

        def accepted(response: v2.PromptResponse) -> None:
            prompt.message_id = response.message_id
            self._work_ended(self._turns.accepted(sent, response.message_id))

        try:
            request = v2.PromptRequest(session_id=self.id, prompt=blocks)
            await self._request(v2.SESSION_PROMPT, request, accepted)
        except BaseException:
            self._turns.withdrawn(sent)
            feed.close()
            raise
        return prompt

    async def ask(self, *content: Block | Sequence[Block]) -> Turn:
        """Send a prompt, wait for its end, and return what came of it. Cancelled, it leaves the work to the agent."""
        prompt = await self.prompt(*content)
        story = Transcript()
        with self.agent.gate.kept_open():
            async for batch in prompt.batches():
                for update in batch:
                    if isinstance(update, _TOLD):
                        story.apply(update)
        await prompt.wait()
        return Turn(answer_of(story, prompt.message_id), prompt.stop_reason, prompt.usage, prompt.error)

    async def cancel(self) -> None:
        """Have the agent stop: its work, and the prompts that it holds (CA-01), at any time.

        Of a session that was closed nothing is left to stop (CA-12): nothing is sent.

        Unfinished tool calls are marked at once, provisionally; what the agent still says of them counts (CA-02,
        CA-08). Questions that wait for an answer are answered as cancelled (CA-03).
        """
        if not self.can_cancel:
            raise UsageError(f"SA-06: the agent does not let the work of child {self.id} be cancelled")
        if self._is_closed and self.agent.closed is None:
            return
        if self.kept is not None:
            self.kept.cancel_unfinished()
        self._cancel_questions()
        await self.agent.peer.notify(v2.SESSION_CANCEL, v2.CancelSessionNotification(session_id=self.id))

    # --- updates --------------------------------------------------------------------------------------------------

    def updates(self) -> Stream[v2.SessionUpdate]:
        """The updates from this call on, up to the idle that ends the work of the newest accepted prompt.

        Whose reading was begun and is not gone on with holds up the connection, as with `stream`.
        """
        feed = self._opened()
        if not feed.is_done:
            self._until_idle.append(feed)
        return Stream(feed)

    def stream(self) -> Stream[v2.SessionUpdate]:
        """The updates from this call on, as long as the session is open.

        Once its reading was begun, nothing more is read of the whole connection while 1,000 updates wait in it. So
        whoever stops reading, as by `break`, closes or drops it.
        """
        return Stream(self._opened())

    def batches(self) -> AsyncIterator[list[v2.SessionUpdate]]:
        """The same, all that waits at a time."""
        return self.stream().batches()

    # --- other requests -------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End the session; one that is over, or that the agent does not know any more, is fine (SS-25, SS-26)."""
        self._own("session/close")
        if self._is_closed and self.agent.closed is None:
            return
        with not_found_is_fine():
            await self._request(v2.SESSION_CLOSE, v2.CloseSessionRequest(session_id=self.id))
        self.end(None)
        self.agent.forget(self)

    async def set_config_option(self, config_id: str, value: str | bool) -> Sequence[v2.SessionConfigOption]:
        """Set an option, and return all of them as they are now (CO-04, CO-06).

        Values are strings, ids, or booleans; of anything else `UsageError` is raised.
        """
        self._own("session/set_config_option")
        self._usable()
        request: v2.SetSessionConfigOptionRequest
        kind: type = type(value)
        if not issubclass(kind, str | bool):
            raise UsageError(f"CO-04: an option is set to a str, an id, or to a bool, not to {kind.__name__}")
        if isinstance(value, bool):
            request = v2.SetSessionConfigOptionBooleanRequest(session_id=self.id, config_id=config_id, value=value)
        else:
            request = v2.SetSessionConfigOptionIdRequest(session_id=self.id, config_id=config_id, value=value)

        def arrived(response: v2.SetSessionConfigOptionResponse) -> None:
            self._learn(v2.ConfigOptionUpdate(config_options=response.config_options))

        response = await self._request(v2.SESSION_SET_CONFIG_OPTION, request, arrived)
        return response.config_options

    async def set_title(self, title: str) -> str:
        """Name the session, open or not, and return the name that was stored (UN-04)."""
        self._own("session/set_title")
        self.agent.need("session.title")
        request = v2.SetSessionTitleRequest(session_id=self.id, title=title)
        return (await self._request(v2.SESSION_SET_TITLE, request)).title

    async def cancel_tool_call(self, tool_call_id: str) -> None:
        """Have one tool call stopped; its final status says that it has (TC-18, TC-19).

        That it becomes final at the same time is a normal race: nothing is done for one that is final, or was asked to
        stop before, and an agent that refuses it as its final status has come is no error either. Raises `UsageError`
        where the agent has not told of it, or does not say that it can be cancelled. Without a transcript all this is
        for the caller to know, and a call that is final is the agent's `RequestError`, -32602.
        """
        call = None if self.kept is None else self.kept.tool_calls.get(tool_call_id)
        request = v2.CancelToolCallRequest(session_id=self.id, tool_call_id=tool_call_id)
        await self._stop(v2.TOOL_CALL_CANCEL, request, call, "TC-18", f"the tool call {tool_call_id!r}")

    async def cancel_terminal(self, terminal_id: str) -> None:
        """Have what runs in a terminal stopped; its exit says that it has (TM-11).

        One that exits at the same time is as with `cancel_tool_call`, and raises as that does.
        """
        terminal = None if self.kept is None else self.kept.terminals.get(terminal_id)
        request = v2.CancelTerminalRequest(session_id=self.id, terminal_id=terminal_id)
        await self._stop(v2.TERMINAL_CANCEL, request, terminal, "TM-11", f"the terminal {terminal_id!r}")

    # --- for the connection ---------------------------------------------------------------------------------------

    def deliver(self, update: v2.SessionUpdate, size: int) -> None:
        """Take an update of `size` bytes: into the transcript, what is known of the session, and every open stream."""
        if self.kept is not None:
            self.kept.apply(update)
        is_tracked = update.__class__ in self._noticed and self._notice(update)
        put = self._put
        if put is not None:
            self._total = total = self._total + size
            if not put(update, total):
                self._sweep()
        if is_tracked:
            self._work_ended(self._turns.see(update, self._total))
            self._noticed = _LISTENING if self._turns.listens else _NOTICED

    def _notice(self, update: v2.SessionUpdate) -> bool:
        """What an update says of the session itself. Returns whether prompts may end by it."""
        match update:
            case v2.StateUpdate():
                self.state = update
                return True
            case v2.UserMessage() | v2.UserMessageChunk():
                return True
            case v2.AgentMessage() | v2.AgentMessageChunk() | v2.AgentThought() | v2.AgentThoughtChunk():
                return True
            case v2.UnknownVariant(tag="state_update"):
                self.state = update
                return True
            case v2.SubagentUpdate():
                self.agent.child(self, update)
            case v2.AvailableCommandsUpdate():
                self._commands = update.available_commands
                self._reported.add(v2.AvailableCommandsUpdate)
            case v2.ConfigOptionUpdate():
                self._options = update.config_options
                self._reported.add(v2.ConfigOptionUpdate)
            case _:
                pass
        return False

    def question(self) -> asyncio.Future[None]:
        """The agent asks something: it is pending until `answered`, and what is returned is done when it is cancelled.

        That is when the session's work is (CA-03, X8), from this call on.
        """
        cancelled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._questions.add(cancelled)
        return cancelled

    def answered(self, question: asyncio.Future[None]) -> None:
        """A question is pending no more."""
        self._questions.discard(question)

    def told_by_parent(self, update: v2.SubagentUpdate) -> None:
        """Take what the parent is told of this child; null takes back what was told before (SA-04..SA-06)."""
        if update.capabilities is not msgspec.UNSET:
            self.can_cancel = update.capabilities is not None and update.capabilities.cancel is not None
        if update.cwd is not msgspec.UNSET:
            self._cwd = update.cwd
        if update.additional_directories is not msgspec.UNSET:
            self._directories = update.additional_directories
        if self.kept is not None:
            self.kept.cwd = self.cwd
            self.kept.additional_directories = tuple(self.additional_directories)
        if update.state is not msgspec.UNSET:
            told = update.state
            if told is None:
                self.state = v2.StateUpdate(state="unknown")
            elif isinstance(told, v2.UnknownVariant):
                self.state = told
            else:
                self.state = v2.StateUpdate(**{name: getattr(told, name) for name in told.__struct_fields__})
            self._work_ended(self._turns.see(self.state, self._total))

    def setting_up(self) -> None:
        """It is being set up again: what was reported before counts less than what the answer will say."""
        self._reported.clear()

    def set_up(self, request: Any, response: Any) -> None:
        """It is as it was asked for, and what the response says, where no update has said it already (SS-08, SU-12).

        A response without options or commands says that there are none; that is no news where none are known.
        """
        self._is_set_up = True
        self._cwd, self._directories = request.cwd, tuple(request.additional_directories)
        options, commands = response.config_options, response.available_commands
        if v2.ConfigOptionUpdate not in self._reported and (options or self.config_options):
            self._learn(v2.ConfigOptionUpdate(config_options=options))
        if v2.AvailableCommandsUpdate not in self._reported and (commands or self.available_commands):
            self._learn(v2.AvailableCommandsUpdate(available_commands=commands))

    def _learn(self, update: v2.ConfigOptionUpdate | v2.AvailableCommandsUpdate) -> None:
        """What an answer says is true as if it had come as an update; nobody else is told of it as one."""
        if isinstance(update, v2.ConfigOptionUpdate):
            self._options = update.config_options
        else:
            self._commands = update.available_commands
        if self.kept is not None:
            self.kept.apply(update)

    @contextmanager
    def replaying(self) -> Generator[None]:
        """What comes in here may be known already."""
        self._turns.replay()
        try:
            with nullcontext() if self.kept is None else self.kept.replaying():
                yield
        finally:
            self._work_ended(self._turns.replayed())

    def end(self, error: ConnectionClosed | None) -> None:
        """Nothing comes any more; None: as the session was closed."""
        self._is_closed = True
        self._turns.fail(error or ConnectionClosed("the session was closed"))
        if error is not None:  # nobody sees what the agent does, if it does anything
            self.state = v2.StateUpdate(state="unknown")
        for feed in self._feeds:
            feed.end(None if error is None else error.again())
        self._sweep()
        if error is None:  # else all handlers are cancelled
            self._cancel_questions()
        for child in self.children.values():
            child.end(error)

    def _cancel_questions(self) -> None:
        for question in self._questions:
            if not question.done():
                question.set_result(None)

    def _opened(self) -> Feed[v2.SessionUpdate]:
        """What a new stream is fed from."""
        feed: Feed[v2.SessionUpdate] = Feed(self.agent.gate, self.agent.limits, self._total)
        if self._is_closed:
            feed.end(None if self.agent.closed is None else self.agent.closed.again())
        else:
            self._feeds.append(feed)
            self._sweep()
        return feed

    def _sweep(self) -> None:
        """Forget the streams that want no more, or were dropped."""
        self._feeds = [feed for feed in self._feeds if not feed.is_done]
        self._until_idle = [feed for feed in self._until_idle if not feed.is_done]
        if len(self._feeds) == 1:
            self._put = self._feeds[0].put
        else:
            self._put = self._put_to_all if self._feeds else None

    def _put_to_all(self, update: v2.SessionUpdate, total: int) -> bool:
        """As `Feed.put`: whether all want more."""
        wanted = [feed.put(update, total) for feed in self._feeds]
        return all(wanted)

    def _work_ended(self, end: End | None) -> None:
        """The work of the newest accepted prompt has ended, unless it is None."""
        if end is not None:
            self._until_idle = [feed for feed in self._until_idle if not end.cut(feed)]

    async def _stop(
        self, method: Method[Any, Any], request: Any, entity: ToolCall | Terminal | None, requirement: str, name: str
    ) -> None:
        """Have a tool call or a terminal cancelled, unless that is needless."""
        self._usable()
        if entity is None:
            if self.kept is not None:
                raise UsageError(f"{requirement}: the agent has not told of {name} in this session")
            await self._request(method, request)
            return
        if _has_ended(entity) or name in self._stopping:
            return
        if not entity.may_cancel:
            raise UsageError(f"{requirement}: the agent does not let {name} be cancelled")
        self._stopping.add(name)
        try:
            await self._request(method, request)
        except BaseException as error:
            self._stopping.discard(name)
            if isinstance(error, RequestError) and error.code == INVALID_PARAMS and _has_ended(entity):
                return
            raise

    async def _request(self, method: Method[Any, R], request: Any, arrived: Callable[[R], object] | None = None) -> R:
        """Ask the agent for something of this session."""
        with about_session(self.id):
            return await self.agent.peer.request(method, request, arrived=arrived)

    def _check(self, block: v2.ContentBlock) -> None:
        """Raise `UsageError` for a block that the agent did not say it takes (PL-04)."""
        if block.tag in {"text", "resource_link"}:
            return
        need = NEEDS.get(block.tag)
        if need is None:
            raise UsageError(
                f"PL-04: no agent says that it takes {block.tag!r} blocks; check=False sends it all the same"
            )
        self.agent.need(need)

    def _usable(self) -> None:
        """Raise `UsageError` where the agent does not have the session now; a connection that is closed says so."""
        if self.agent.closed is None:
            if self._is_closed:
                raise UsageError(f"the session {self.id} was closed, or never came to be; resume it first")
            if not self._is_set_up:
                raise UsageError(f"PL-03: the session {self.id} is being resumed; wait for resume_session")

    def _own(self, method: str) -> None:
        if self.parent is not None:
            raise UsageError(f"SA-06: {method} is not for child sessions: the agent works in them for their parents")


def _blocks(content: Iterable[Any]) -> list[v2.ContentBlock]:
    """Text, blocks and lists of these as blocks. Raises `UsageError` for anything else."""
    blocks: list[v2.ContentBlock] = []
    for part in content:
        if isinstance(part, list | tuple):
            blocks += _blocks(cast("Iterable[Any]", part))
        elif isinstance(part, str):
            blocks.append(v2.TextContent(text=part))
        elif isinstance(part, _BLOCKS):
            blocks.append(part)
        else:
            kind = type(part).__name__
            raise UsageError(f"a prompt is a str, a content block or a list of these, not {kind}")
    return blocks


def _has_ended(entity: ToolCall | Terminal) -> bool:
    return entity.is_final if isinstance(entity, ToolCall) else entity.exit_status is not None


@contextmanager
def about_session(session_id: str) -> Generator[None]:
    """Takes -32002 for a session that is not found, where it does not say what else it is (SS-28)."""
    try:
        yield
    except RequestError as error:
        if error.code != NOT_FOUND or error.data:
            raise
        raise RequestError.of(
            ErrorObject(code=error.code, message=error.message, data={"sessionId": session_id})
        ) from error


@contextmanager
def not_found_is_fine() -> Generator[None]:
    """Takes -32002 for success: what is not there needs no closing (SS-26, X14)."""
    try:
        yield
    except RequestError as error:
        if error.code != NOT_FOUND:
            raise
