"""One connection, served: initialization, sessions, and every request that a client can send.

Owns: which request does what, the rules before and at initialization, setting sessions up, ending everything, the
process that `run_agent` makes of an agent. Does not know: what an agent does with a prompt.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn, TypeVar

from acpwire import v2
from acpwire.connection import Connection, Tap
from acpwire.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    ConnectionClosed,
    RequestError,
    SessionNotFound,
    UsageError,
    VersionMismatch,
)
from acpwire.limits import Limits
from acpwire.peer import Handler, Peer
from acpwire.scope import Scope
from acpwire.transports import Transport, stdio
from acpwire.transports.own import unusable
from acpwire.wire.frames import Malformed, Method, Methods, Request

from .base import TRANSPORTS, Agent, UserPrompt, check_agent, extensions_of, overrides
from .live import Live
from .outgoing import new_id, sendable
from .session import AgentSession, ConnectedClient
from .work import Work
from .writers import TerminalWriter, ToolCallWriter

__all__ = ["run_agent", "serve"]

VERSION: Final = 2
_CLOSED: Final = "the session was closed"
_SET_UP: Final = ("cwd", "additional_directories", "mcp_servers", "system_prompt")
_log = logging.getLogger(__name__)
R = TypeVar("R")


async def serve(
    agent: Agent, transport: Transport, *, limits: Limits | None = None, tap: Tap | None = None
) -> ConnectionClosed:
    """Serve one connection with an agent, until it ends, and return why it did.

    At the end all work is cancelled and has `Limits.grace` seconds to clean up (S-PR-06). `tap` sees every line.
    Raises `UsageError` for an agent that is half of something. Cancelling it closes the connection.
    """
    check_agent(agent)
    server = _Server(agent, transport, limits or Limits(), tap)
    try:
        async with server.peer:
            return await server.peer.wait_closed()
    finally:
        await server.shut()


def run_agent(agent: Agent, *, limits: Limits | None = None) -> None:
    """Serve an agent on this process's stdin and stdout, until its input ends (TR-07).

    Stray prints go to stderr. SIGTERM, SIGINT and SIGHUP end it in order: work is cancelled, cleans up, and the process
    exits with 128 and the signal's number.

    Returns, so that the process exits with 0, when the client ends its input or goes away, in the middle of an answer
    too (S-PR-06): which of its pipes a client lets go of first is chance, and no fault of anybody. Where stdin or
    stdout does not work (it is closed, or cannot be read or written; a disk is full), and where a limit ended the
    connection, the process says so in one line on stderr and exits with 1 (S-PR-05); to a caller, that is `SystemExit`.
    Raises `UsageError` for an agent that is half of something, and if stdin and stdout are taken already.
    """
    check_agent(agent)
    wrong = unusable()
    if wrong:
        _give_up(wrong)
    transport = stdio() if limits is None else stdio(limits=limits)
    received: list[int] = []

    async def run() -> str:  # what kept it from serving to the end
        serving = asyncio.current_task()
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            received.append(number)
            if serving is not None and len(received) == 1:
                serving.cancel()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        try:
            cause = await serve(agent, transport, limits=limits)
        except asyncio.CancelledError:
            if not received:
                raise
            return ""
        if transport.failure:
            return f"{transport.failure}; start this program with a stdin and a stdout that work"
        return "" if cause.message == transport.closed_error().message else cause.message  # a limit

    wrong = asyncio.run(run())
    if received:
        sys.exit(128 + received[0])
    if wrong:
        _give_up(wrong)


def _give_up(reason: str) -> NoReturn:
    """Exit with 1, and a line on stderr; where that was closed, another file may have got its number."""
    sys.exit(1 if sys.stderr is None else f"acpwire: {reason}")  # pyright: ignore[reportUnnecessaryComparison]  # it is None where fd 2 was closed


class _Server:
    """One connection: its sessions and what its client can ask for."""

    def __init__(self, agent: Agent, transport: Transport, limits: Limits, tap: Tap | None) -> None:
        self._agent = agent
        self._limits = limits
        self._sessions: dict[str, Live] = {}
        self._faces: dict[str, AgentSession] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._is_initialized = False
        self._has_begun = False  # something but `initialize` was asked for
        own = dict(extensions_of(agent))
        methods: Methods = {**v2.METHODS, **{(method.name, method.side, method.kind): method for method in own}}
        connection = Connection(
            "agent", v2.decode_from_client, methods, limits=limits, tap=tap, mend=_mended_initialize
        )
        handlers: dict[Method[Any, Any], Handler] = {v2.INITIALIZE: self._initialize}
        handlers |= {method: self._guarded(method, handler) for method, handler in (self._table() | own).items()}
        self.peer = Peer(transport, connection, handlers)
        self._client = ConnectedClient(self.peer)

    async def shut(self) -> None:
        """End every session's work."""
        shutting = [
            live.shut("the connection was closed", self._limits.grace)
            for live in self._sessions.values()
            if live.parent is None
        ]
        await asyncio.gather(*shutting)
        await asyncio.gather(*self._endings, return_exceptions=True)

    # --- which request does what ----------------------------------------------------------------------------------

    def _table(self) -> dict[Method[Any, Any], Handler]:
        agent = self._agent
        table: dict[Method[Any, Any], Handler] = {
            v2.SESSION_NEW: self._new,
            v2.SESSION_RESUME: self._resume,
            v2.SESSION_LIST: self._list,
            v2.SESSION_CLOSE: self._close,
            v2.SESSION_PROMPT: self._prompt,
            v2.SESSION_CANCEL: self._cancel,
            v2.TOOL_CALL_CANCEL: self._cancel_tool_call,
            v2.TERMINAL_CANCEL: self._cancel_terminal,
        }
        optional: dict[str, tuple[Method[Any, Any], Handler]] = {
            "delete_session": (v2.SESSION_DELETE, self._delete),
            "fork_session": (v2.SESSION_FORK, self._fork),
            "archive_session": (v2.SESSION_ARCHIVE, self._archive),
            "unarchive_session": (v2.SESSION_UNARCHIVE, lambda params: agent.unarchive_session(params.session_id)),
            "session_status": (v2.SESSION_STATUS, lambda params: agent.session_status(params.session_id)),
            "set_title": (v2.SESSION_SET_TITLE, self._set_title),
            "set_config_option": (v2.SESSION_SET_CONFIG_OPTION, self._set_config_option),
            "login": (v2.AUTH_LOGIN, self._login),
            "logout": (v2.AUTH_LOGOUT, lambda _: agent.logout()),
            "auth_status": (v2.AUTH_STATUS, lambda _: agent.auth_status()),
            "list_providers": (v2.PROVIDERS_LIST, lambda _: agent.list_providers()),
            "set_provider": (v2.PROVIDERS_SET, agent.set_provider),
            "disable_provider": (v2.PROVIDERS_DISABLE, lambda params: agent.disable_provider(params.provider_id)),
            "mcp_notification": (v2.MCP_MESSAGE_AGENT, agent.mcp_notification),
        }
        table |= {method: handler for name, (method, handler) in optional.items() if overrides(agent, name)}
        return table

    def _guarded(self, method: Method[Any, Any], handler: Handler) -> Handler:
        """Before initialization requests are refused and notifications ignored (IN-06)."""

        def guarded(params: Any) -> Any:
            if not self._is_initialized:
                if method.kind == "notification":
                    return None
                raise RequestError(INVALID_REQUEST, "The connection is not initialized yet")
            self._has_begun = True
            return handler(params)

        return guarded

    def _initialize(self, request: v2.InitializeRequest) -> v2.InitializeResponse:
        """The highest version that both speak; may come again until anything else is asked for (IN-03, IN-05)."""
        if self._has_begun:
            raise RequestError(INVALID_REQUEST, "The connection is in use already")
        if request.protocol_version < VERSION:
            raise VersionMismatch(request.protocol_version, [VERSION])
        self._is_initialized = True
        self._client.info = request.info
        self._client.capabilities = request.capabilities
        methods = [
            method
            for method in self._agent.auth_methods
            if not isinstance(method, v2.AuthMethodTerminal) or self._client.supports("auth.terminal")  # AU-04
        ]
        return v2.InitializeResponse(
            protocol_version=VERSION,
            info=self._agent.info,
            capabilities=self._agent.capabilities(),
            auth_methods=methods,
        )

    # --- sessions -------------------------------------------------------------------------------------------------

    def _found(self, session_id: str) -> Live:
        """A session that is there for requests: set up, and not being closed."""
        live = self._sessions.get(session_id)
        if live is None or not live.is_set_up or live.outgoing.closing:
            raise SessionNotFound(session_id)  # SS-28
        return live

    def _face(self, live: Live) -> AgentSession:
        """What the agent sees of a session. Raises -32602 for a child: its parent runs it (SA-06)."""
        if live.parent is not None:
            raise RequestError(INVALID_PARAMS, "A child session is run by its parent - at `$.params.sessionId`")
        return self._faces[live.id]

    def _made(self, session_id: str, request: Any) -> AgentSession:
        """A session that is set up as a request says; checked before (SS-03..SS-06, EX-11)."""
        live = Live(session_id, request.cwd, self.peer, self._sessions, self._limits.grace)
        agent = self._agent
        session = AgentSession(
            live,
            self._client,
            sent=agent.sent if overrides(agent, "sent") else None,
            retain=agent.retain,
            has_options=overrides(agent, "set_config_option"),
        )
        self._faces[session_id] = session
        self._set_up(session, request)
        return session

    def _set_up(self, session: AgentSession, request: Any) -> None:
        for name in _SET_UP:
            setattr(session, name, getattr(request, name))

    def _check_setup(self, request: Any) -> None:
        """Raise -32602 for what the agent did not say it takes, and for paths that are not absolute."""
        accepts = self._agent.accepts
        for violation in v2.validate(request):
            raise RequestError(INVALID_PARAMS, f"{violation.message} - at `$.params{violation.path[1:]}`")
        if request.additional_directories and "additional_directories" not in accepts:
            raise RequestError(INVALID_PARAMS, "This agent takes no additionalDirectories")
        if request.system_prompt is not None and "system_prompt" not in accepts:
            raise RequestError(INVALID_PARAMS, "This agent takes no systemPrompt")
        if request.system_prompt is not None:
            self._check_system_prompt(request.system_prompt)
        names: list[str] = []
        for index, server in enumerate(request.mcp_servers):
            if server.tag not in TRANSPORTS or f"mcp.{server.tag}" not in accepts:
                raise RequestError(INVALID_PARAMS, f"No such transport here - at `$.params.mcpServers[{index}].type`")
            names.append(server.name)
        if len(names) != len(set(names)):
            raise RequestError(INVALID_PARAMS, "A name is used twice - at `$.params.mcpServers`")

    def _check_system_prompt(self, prompt: v2.SystemPrompt) -> None:
        """Text alone, and some of it, in a mode that is served (UN-05)."""
        if not prompt.content or not all(isinstance(block, v2.TextContent) for block in prompt.content):
            raise RequestError(INVALID_PARAMS, "Text is needed, and nothing else - at `$.params.systemPrompt.content`")
        if prompt.mode != "append" and f"system_prompt.{prompt.mode}" not in self._agent.accepts:
            raise RequestError(INVALID_PARAMS, "No such mode here - at `$.params.systemPrompt.mode`")

    async def _new(self, request: v2.NewSessionRequest) -> v2.NewSessionResponse:
        self._check_setup(request)
        session = self._made(new_id("sess"), request)
        await self._setting_up(session, self._agent.new_session(session))
        return v2.NewSessionResponse(
            session_id=session.id,
            config_options=list(session.config_options),
            available_commands=list(session.available_commands),
        )

    async def _resume(self, request: v2.ResumeSessionRequest) -> v2.ResumeSessionResponse:
        """The history, if asked for, the current state, then the answer (SS-11..SS-16, ST-09)."""
        self._check_setup(request)
        if request.replay_from is not None and not isinstance(request.replay_from, v2.ReplayFromStart):
            raise RequestError(INVALID_PARAMS, "No such place to replay from - at `$.params.replayFrom`")  # SS-13
        live = self._sessions.get(request.session_id)
        while live is not None and live.outgoing.closing:
            await live.shut(_CLOSED, self._limits.grace)
            live = self._sessions.get(request.session_id)
        if live is None and not overrides(self._agent, "resume_session"):
            raise SessionNotFound(request.session_id)
        if live is not None and not live.is_set_up:
            raise RequestError(INVALID_REQUEST, "The session is being taken up already")
        session = self._made(request.session_id, request) if live is None else self._face(live)
        before = {name: getattr(session, name) for name in _SET_UP}
        self._set_up(session, request)
        try:
            await self._setting_up(session, self._agent.resume_session(session, request.replay_from))
        except BaseException:
            vars(session).update(before)  # what is refused changes nothing (SS-18)
            raise
        self._found(session.id).works.report(again=True)
        return v2.ResumeSessionResponse(
            config_options=list(session.config_options), available_commands=list(session.available_commands)
        )

    async def _fork(self, request: v2.ForkSessionRequest) -> v2.ForkSessionResponse:
        self._check_setup(request)
        session = self._made(new_id("sess"), request)
        await self._setting_up(session, self._agent.fork_session(session, request.session_id))
        return v2.ForkSessionResponse(
            session_id=session.id,
            config_options=list(session.config_options),
            available_commands=list(session.available_commands),
        )

    async def _setting_up(self, session: AgentSession, setting_up: Awaitable[None]) -> None:
        """A session whose set-up fails, or that is closed meanwhile, was never there."""
        live = self._sessions[session.id]
        try:
            await setting_up
        except BaseException as error:
            if live.outgoing.closing and isinstance(error, UsageError):
                raise SessionNotFound(session.id) from error
            if not live.is_set_up:
                self._faces.pop(session.id, None)
                await live.shut("it could not be set up", self._limits.grace)
            raise
        if live.outgoing.closing:
            raise SessionNotFound(session.id)
        live.is_set_up = True

    async def _list(self, request: v2.ListSessionsRequest) -> v2.ListSessionsResponse:
        agent = self._agent
        archive = overrides(agent, "archive_session")
        if request.archived is not None and (not archive or request.archived not in _ARCHIVED):
            raise RequestError(INVALID_PARAMS, "No such filter - at `$.params.archived`")  # UN-02
        if overrides(agent, "list_sessions"):
            return await agent.list_sessions(cwd=request.cwd, cursor=request.cursor, archived=request.archived)
        if request.cursor is not None:
            raise RequestError(INVALID_PARAMS, "No such page - at `$.params.cursor`")  # SS-22: there is one page
        found = [
            v2.SessionInfo(
                session_id=session.id,
                cwd=session.cwd,
                additional_directories=list(session.additional_directories),
                title=session.title,
                updated_at=session.updated_at,
                archived=False if archive else None,
            )
            for session in self._faces.values()
            if self._sessions[session.id].is_set_up and request.cwd in {None, session.cwd}
        ]
        return v2.ListSessionsResponse(sessions=found)

    def _close(self, request: v2.CloseSessionRequest) -> Awaitable[None] | None:
        """All that runs ends and is told before the answer; nothing is told after it (CA-12, X14).

        What is received from here on finds the session closed. It goes on where the request is cancelled.
        """
        live = self._sessions.get(request.session_id)
        if live is None:
            return None
        session = None if live.outgoing.closing else self._face(live)
        self._faces.pop(live.id, None)
        ending = asyncio.get_running_loop().create_task(self._end(live.shut(_CLOSED, self._limits.grace), session))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        return asyncio.shield(ending)

    async def _end(self, shutting: Awaitable[None], session: AgentSession | None) -> None:
        """Wait for the end of a session, and tell the agent; None: that is being done already."""
        await shutting
        if session is not None:
            await self._agent.close_session(session)

    async def _closed(self, session_id: str) -> None:
        """Close a session first, if it is there."""
        closing = self._close(v2.CloseSessionRequest(session_id=session_id))
        if closing is not None:
            await closing

    async def _delete(self, request: v2.DeleteSessionRequest) -> None:
        await self._closed(request.session_id)
        await self._agent.delete_session(request.session_id)

    async def _archive(self, request: v2.ArchiveSessionRequest) -> None:
        await self._closed(request.session_id)  # UN-02
        await self._agent.archive_session(request.session_id)

    async def _set_title(self, request: v2.SetSessionTitleRequest) -> v2.SetSessionTitleResponse:
        title = await self._agent.set_title(request.session_id, request.title)
        session = self._faces.get(request.session_id)
        if session is not None:
            session.title = title
        return v2.SetSessionTitleResponse(title=title)

    async def _set_config_option(self, request: v2.SetSessionConfigOptionRequest) -> v2.SetSessionConfigOptionResponse:
        if isinstance(request, v2.UnknownVariant):
            raise RequestError(INVALID_PARAMS, "No such type of value - at `$.params.type`")  # EX-11
        session = self._face(self._found(request.session_id))
        _check_option(session.config_options, request)
        response = v2.SetSessionConfigOptionResponse(
            config_options=list(await self._agent.set_config_option(session, request))
        )
        sendable(response)
        session.config_options = response.config_options
        return response

    async def _login(self, request: v2.LoginAuthRequest) -> None:
        """Only by a method that was told and is carried out here (AU-03)."""
        known = [method.method_id for method in self._agent.auth_methods if isinstance(method, v2.AuthMethodAgent)]
        if request.method_id not in known:
            raise RequestError(INVALID_PARAMS, "No such way to sign in - at `$.params.methodId`")
        await self._agent.login(request.method_id)

    # --- prompts --------------------------------------------------------------------------------------------------

    def _prompt(self, request: v2.PromptRequest) -> Awaitable[v2.PromptResponse]:
        """Held from here on, in the order received."""
        live = self._found(request.session_id)
        return self._take_in(live, self._face(live), live.hold(), request)

    async def _take_in(
        self, live: Live, session: AgentSession, held: Scope, request: v2.PromptRequest
    ) -> v2.PromptResponse:
        """Hold a prompt, then insert it: told and answered in one step, and its work begins (PL-09..PL-13)."""
        prompt, agent = UserPrompt(request), self._agent

        def insert() -> v2.PromptResponse:
            prompt.message_id = live.insert(prompt.content, request.meta)
            work = Work(live.works, f"prompt() of session {live.id!r}, message {prompt.message_id!r},")

            async def do() -> str | None:
                try:
                    return await agent.prompt(session, prompt)
                finally:
                    work.usage = prompt.usage

            live.works.run(work, do())
            return v2.PromptResponse(message_id=prompt.message_id)

        return await live.admit(held, lambda: agent.admit(session, prompt), insert)

    def _cancel(self, notification: v2.CancelSessionNotification) -> None:
        """What was received before it ends; what comes later is not touched (PL-28, PL-29)."""
        live = self._sessions.get(notification.session_id)
        if live is not None and live.may_be_cancelled:
            live.cancel()

    def _cancel_tool_call(self, request: v2.CancelToolCallRequest) -> None:
        """Answered when it is accepted; its final status says that it has happened (TC-19)."""
        self._found(request.session_id).cancel_entity(ToolCallWriter.kind, request.tool_call_id)

    def _cancel_terminal(self, request: v2.CancelTerminalRequest) -> None:
        """Answered when it is accepted; its exit says that it has happened (TM-11)."""
        self._found(request.session_id).cancel_entity(TerminalWriter.kind, request.terminal_id)


_ARCHIVED: Final = frozenset({"exclude", "include", "only"})


def _check_option(options: Sequence[v2.SessionConfigOption], request: v2.SetSessionConfigOptionRequest) -> None:
    """Raise -32602 for an option that was not told, and for a value that it does not have (CO-05)."""
    wanted = request.data["configId"] if isinstance(request, v2.UnknownVariant) else request.config_id
    for option in options:
        if isinstance(option, v2.UnknownVariant):
            if option.data["configId"] == wanted:
                return  # what its values are, the agent knows
        elif option.config_id == wanted:
            if isinstance(option, v2.SessionConfigBoolean):
                fits = isinstance(request, v2.SetSessionConfigOptionBooleanRequest)
            else:
                groups = (
                    one.options if isinstance(one, v2.SessionConfigSelectGroup) else [one] for one in option.options
                )
                values = {one.value for group in groups for one in group}
                fits = isinstance(request, v2.SetSessionConfigOptionIdRequest) and request.value in values
            if not fits:
                raise RequestError(INVALID_PARAMS, "No such value of this option - at `$.params.value`")
            return
    raise RequestError(INVALID_PARAMS, "No such option - at `$.params.configId`")


def _mended_initialize(line: Malformed) -> Request[Any] | None:
    """`initialize` of another version than the one here, read as far as that: the rest is its own (IN-03, IN-07)."""
    if line.method != "initialize" or line.id is None:
        return None
    with suppress(ValueError, RecursionError, LookupError, TypeError):
        version = json.loads(line.line)["params"]["protocolVersion"]
        if type(version) is int and version >= 0 and version != VERSION:
            info = v2.Implementation(name="unknown", version="unknown")
            params = v2.InitializeRequest(protocol_version=version, info=info)
            return Request(id=line.id, method="initialize", params=params)
    return None
