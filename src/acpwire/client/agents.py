"""A connection to an agent: the handshake, its sessions, and every request that a client can send.

Owns: `connect`, `spawn_agent`, `AgentConnection`; which session an update belongs to; how sessions come to be, and what
is left when they end. Does not know: what happens inside a session, or what is answered to an agent.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import msgspec

from acpwire import v2
from acpwire.capabilities import supports
from acpwire.capture import Recorder
from acpwire.connection import Answered, Connection, Counters, Ignored, Tap
from acpwire.errors import ConnectionClosed, DecodeError, RequestError, UsageError, VersionMismatch
from acpwire.limits import Limits
from acpwire.peer import Handler, Peer
from acpwire.transcript import Change, Snapshot, Transcript
from acpwire.transports import ProcessTransport, Transport, spawn_process
from acpwire.wire.frames import Malformed, Method, Methods, Request, RequestId

from .answers import Answers
from .early import Early
from .entering import entered
from .flow import Callbacks, Gate
from .handlers import Client, check_client, name_of, overrides
from .session import ClientSession, about_session, not_found_is_fine

__all__ = ["AgentConnection", "connect", "spawn_agent"]

P = TypeVar("P")
R = TypeVar("R")
VERSION: Final = 2
_INITIALIZE: Final[Method[v2.InitializeRequest, Any]] = Method(
    "initialize", "agent", "request", v2.InitializeRequest, Any, v2.INITIALIZE.decoding
)
"""`initialize`, its result not looked into: an agent of another version answers something else (IN-04)."""
_log = logging.getLogger(__name__)


@entered
async def connect(
    transport: Transport,
    client: Client | None = None,
    *,
    record: str | os.PathLike[str] | Recorder | None = None,
    transcript: bool = True,
    limits: Limits | None = None,
    extensions: Mapping[Method[Any, Any], Handler] | None = None,
) -> AsyncGenerator[AgentConnection, None]:
    """Talk to the agent at the other end of a transport; initialized on entry, closed on exit.

    `record` takes down every line of both directions; a path is opened for it (see `Recorder`). `transcript=False`
    keeps no transcripts. `extensions` are methods of one's own that the agent may call.

    Raises `UsageError` for a client whose callbacks cannot be called, `VersionMismatch` where the agent speaks another
    version, `DecodeError` where it answers something else than its version says, `RequestError` where it refuses, and
    `ConnectionClosed` where it is gone, or no agent: the first line that it wrote is in the message then (IN-04,
    S-PR-01).
    """
    async with AsyncExitStack() as stack:
        tap: Tap | None = None
        if record is not None:
            recorder = record if isinstance(record, Recorder) else stack.enter_context(Recorder(record))
            tap = recorder.record
        limits = limits or Limits()
        agent = AgentConnection(transport, client or Client(), tap, limits, transcript, extensions or {})
        try:
            async with agent.peer:
                await agent.initialize()
                yield agent
        finally:
            await agent.close()


@entered
async def spawn_agent(
    *argv: str | os.PathLike[str],
    client: Client | None = None,
    env: Mapping[str, str] | None = None,
    unset: Iterable[str] = (),
    cwd: str | os.PathLike[str] | None = None,
    record: str | os.PathLike[str] | Recorder | None = None,
    transcript: bool = True,
    limits: Limits | None = None,
    on_stderr: Callable[[bytes], object] | None = None,
    extensions: Mapping[Method[Any, Any], Handler] | None = None,
) -> AsyncGenerator[AgentConnection, None]:
    """Start an agent and talk to it; initialized on entry, ended with all its processes on exit (TR-03).

    `argv` is the program and its arguments, one by one: there is no shell. What the agent writes to stderr, its log, is
    given to `on_stderr` in blocks of bytes; the end of it is `AgentConnection.stderr_tail`. See `acpwire.spawn_process`
    for how it is started, and `connect` for the rest and for what is raised; besides that, `OSError` where the program
    cannot be started.
    """
    limits = limits or Limits()
    if client is not None:
        check_client(client)
    process = await spawn_process(*argv, env=env, unset=unset, cwd=cwd, limits=limits, on_stderr=on_stderr)
    try:
        async with connect(
            process, client, record=record, transcript=transcript, limits=limits, extensions=extensions
        ) as agent:
            agent.launched = ([str(part) for part in argv], dict(env or {}), tuple(unset), cwd)
            yield agent
    finally:
        await process.close()


class AgentConnection:
    """An agent that was connected to. Made by `connect` and `spawn_agent`.

    Methods that ask raise `RequestError` where the agent refuses, `ConnectionClosed`, and `UsageError` for what the
    agent did not say it serves (IN-14).

    What the agent asks for a session that is not among `sessions` reaches no callback: a permission is refused, an
    elicitation cancelled, and the log says so at level INFO.

    Attributes:
        info: what the agent says it is, a `v2.Implementation` (IN-02).
        capabilities: what it can do, a `v2.AgentCapabilities`; `supports` asks by a path.
        auth_methods: the ways to sign in that it has, for `login` and `terminal_login`.
        sessions: all `ClientSession`s that are open, children included, by id; once the connection has ended, those
            that were open then, for their transcripts.
        limits: the `Limits` of the connection.
        launched: how the agent was started: arguments, environment, unset names, directory; None if it was not here.
        peer: the connection itself, a `Peer`.
        gate: what pauses reading while a stream is full.
    """

    def __init__(
        self,
        transport: Transport,
        client: Client,
        tap: Tap | None,
        limits: Limits,
        transcript: bool,  # for the functions above alone
        extensions: Mapping[Method[Any, Any], Handler],
    ) -> None:
        check_client(client)
        self.info = v2.Implementation(name="unknown", version="unknown")
        """What the agent says it is (IN-02)."""
        self.capabilities = v2.AgentCapabilities()
        self.auth_methods: Sequence[v2.AuthMethod] = ()
        self.sessions: dict[str, ClientSession] = {}
        """All sessions that are open, children included, by id."""
        self.limits = limits
        self.launched: tuple[list[str], dict[str, str], tuple[str, ...], Any] | None = None
        self._client = client
        self._transport = transport
        self._keeps = transcript
        self._first_line = b""
        self._is_echoed = False  # whether it was asked for the handshake that it was to answer
        self._is_initialized = False
        self._early = Early(limits)
        self._answers = Answers(client, self.sessions)
        self._resuming: set[str] = set()
        self._updates = client.update if overrides(client, "update") else None
        methods: Methods = {**v2.METHODS, **{(one.name, one.side, one.kind): one for one in extensions}}
        self._connection = connection = _Connection("client", v2.decode_from_agent, methods, limits=limits, tap=tap)
        connection.ended = self._ended_at_once
        handlers: dict[Method[Any, Any], Handler] = {
            v2.SESSION_UPDATE: self._update,
            v2.SESSION_REQUEST_PERMISSION: self._answers.permission,
            v2.ELICITATION_CREATE: self._answers.elicitation,
            v2.ELICITATION_COMPLETE: self._elicited,
            v2.AUTH_STATUS_UPDATE: lambda told: self._tell(client.auth_status, told),
            **extensions,
        }
        if overrides(client, "mcp_message"):
            handlers[v2.MCP_MESSAGE_CLIENT] = client.mcp_message
        self.peer = Peer(transport, connection, handlers, observer=self._observe)
        self.gate = Gate(self.peer)
        self._callbacks = Callbacks(self.peer)
        self._ended = asyncio.ensure_future(self._end())

    # --- what it is -----------------------------------------------------------------------------------------------

    @property
    def closed(self) -> ConnectionClosed | None:
        """Why the connection is closed; None while it is open."""
        return self.peer.closed

    async def wait_closed(self) -> ConnectionClosed:
        """Wait until the connection is closed and all handlers have ended, and return why. Safe to cancel."""
        return await self.peer.wait_closed()

    @property
    def stderr_tail(self) -> bytes:
        """The end of what the agent wrote to stderr; empty where it is no process of ours."""
        return self._transport.stderr_tail if isinstance(self._transport, ProcessTransport) else b""

    @property
    def stats(self) -> Counters:
        """What has passed through the connection."""
        return self.peer.counters

    def supports(self, path: str) -> bool:
        """Whether the agent has a capability, such as "session.prompt.image" (IN-08)."""
        return supports(self.capabilities, path)

    def need(self, path: str) -> None:
        """Raise `UsageError` where the agent does not have a capability (IN-14)."""
        if not self.supports(path):
            raise UsageError(f"IN-14: the agent {self.info.name!r} does not offer {path}")

    async def initialize(self) -> None:
        """The handshake; `connect` does it (IN-01..IN-05). Raises as `connect` does.

        It may be repeated as long as nothing else was asked for, and not after that, with `UsageError`; a repeat that
        fails changes nothing (IN-05).
        """
        self._check_own(v2.INITIALIZE, None)
        request = v2.InitializeRequest(
            protocol_version=VERSION, info=self._client.info, capabilities=self._client.capabilities()
        )
        try:
            answer = await self.peer.request(_INITIALIZE, request)
        except ConnectionClosed as error:
            if not self._first_line:
                raise
            text = self._first_line[:200].decode(errors="replace").strip()
            raise ConnectionClosed(
                f"{error.message}; is it an ACP agent? Its first line of output was {text!r}",
                exit_code=error.exit_code,
                stderr_tail=error.stderr_tail or self.stderr_tail,
            ) from error
        except RequestError as error:
            if not self._is_echoed:
                raise
            text = f"it sends back what it is sent; is it an ACP agent? It answered: {error.message}"
            raise RequestError(error.code, text, error.data) from error
        response = _checked(answer)
        self.info, self.capabilities = response.info, response.capabilities
        self.auth_methods = response.auth_methods
        self._is_initialized = True

    async def close(self) -> None:
        """Close the connection, and wait until all that hangs on it knows. Safe to cancel, and to call twice."""
        await self.peer.close()
        await asyncio.shield(self._ended)

    # --- sessions -------------------------------------------------------------------------------------------------

    async def new_session(
        self,
        *,
        cwd: str | os.PathLike[str],
        additional_directories: Sequence[str] = (),
        mcp_servers: Sequence[v2.McpServer] = (),
        system_prompt: v2.SystemPrompt | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ClientSession:
        """Make a session in a directory; a path that is not absolute is taken from this process's own (SS-03)."""
        request = v2.NewSessionRequest(
            cwd=_absolute(cwd),
            additional_directories=list(additional_directories),
            mcp_servers=list(mcp_servers),
            system_prompt=system_prompt,
            meta=meta,
        )
        return await self._made(v2.SESSION_NEW, request)

    async def fork_session(
        self, session: ClientSession | v2.SessionInfo | str, *, cwd: str | os.PathLike[str], **setup: Any
    ) -> ClientSession:
        """Make a session from another one's history (UN-01); `setup` as for `new_session`."""
        self.need("session.fork")
        request = v2.ForkSessionRequest(session_id=_id_of(session), cwd=_absolute(cwd), **setup)
        with about_session(request.session_id):
            return await self._made(v2.SESSION_FORK, request)

    async def resume_session(
        self,
        session: ClientSession | v2.SessionInfo | str,
        *,
        cwd: str | os.PathLike[str] | None = None,
        replay: bool = False,
        additional_directories: Sequence[str] | None = None,
        mcp_servers: Sequence[v2.McpServer] = (),
        system_prompt: v2.SystemPrompt | None = None,
        history: Transcript | Snapshot | None = None,
    ) -> ClientSession:
        """Take up a session, of an earlier connection too; by its id alone, its directory must be given (SS-18).

        Its other roots are those of the session that is given, too, or that is known by the id, as far as the agent
        takes any: what is not sent is none, as agents restore nothing (SS-04). `()` is none.

        With `replay` the agent tells its whole history first, which adds to what is known here already (SS-12, SS-19).
        That is what `history` holds, the transcript of the session in an earlier connection; else the transcript of a
        session that is not open here begins empty. It is copied, not changed; marks of calls as cancelled, notices and
        what children said are not part of it.
        """
        session_id = self._root(session)
        known = self.sessions.get(session_id)
        listed = None if isinstance(session, str) else session.cwd
        where = cwd if cwd is not None else listed or (known.cwd if known is not None else None)
        if where is None:
            raise UsageError("resume_session needs the session's cwd: give it, or the SessionInfo from list_sessions")
        roots = additional_directories
        if roots is None:
            its_own = known if isinstance(session, str) else session
            takes_any = self.supports("session.additionalDirectories")
            roots = its_own.additional_directories if its_own is not None and takes_any else ()
        request = v2.ResumeSessionRequest(
            session_id=session_id,
            cwd=_absolute(where),
            additional_directories=list(roots),
            mcp_servers=list(mcp_servers),
            replay_from=v2.ReplayFromStart() if replay else None,
            system_prompt=system_prompt,
        )
        self._check_setup(request)
        if session_id in self._resuming:
            raise UsageError(f"the session {session_id} is being resumed already")
        if history is not None and (known is not None or not self._keeps):
            reason = "is open here, and has its history" if self._keeps else "is to have a history, but none are kept"
            raise UsageError(f"the session {session_id} {reason}")
        held = known or self._registered(session_id, request, state="unknown", history=history)
        with ExitStack() as stack:

            def arrived(response: v2.ResumeSessionResponse) -> None:
                held.set_up(request, response)
                stack.close()

            self._resuming.add(session_id)
            stack.callback(self._resuming.discard, session_id)
            if replay:
                stack.enter_context(held.replaying())
            held.setting_up()
            try:
                with about_session(session_id):
                    await self.peer.request(v2.SESSION_RESUME, request, arrived=arrived)
            except BaseException:
                if known is None:
                    self.forget(held)
                raise
        return held

    async def list_sessions(
        self, *, cwd: str | os.PathLike[str] | None = None, archived: v2.SessionArchiveFilter | None = None
    ) -> AsyncIterator[v2.SessionInfo]:
        """All sessions that can be resumed, page by page as they are iterated (SS-20, SS-21)."""
        self.need("session")
        if archived is not None:
            self.need("session.archive")
        cursor: str | None = None
        while True:
            request = v2.ListSessionsRequest(
                cwd=None if cwd is None else _absolute(cwd), cursor=cursor, archived=archived
            )
            page = await self.peer.request(v2.SESSION_LIST, request)
            for info in page.sessions:
                yield info
            cursor = page.next_cursor
            if cursor is None:
                return

    async def delete_session(self, session: ClientSession | v2.SessionInfo | str) -> None:
        """Delete a session for good; one that is not there is fine (SS-26, SS-27)."""
        self.need("session.delete")
        session_id = self._root(session)
        with not_found_is_fine():
            await self.peer.request(v2.SESSION_DELETE, v2.DeleteSessionRequest(session_id=session_id))
        self._gone(session_id)

    async def archive_session(self, session: ClientSession | v2.SessionInfo | str) -> None:
        """Archive a session; it is closed by that (UN-02)."""
        self.need("session.archive")
        session_id = self._root(session)
        with about_session(session_id):
            await self.peer.request(v2.SESSION_ARCHIVE, v2.ArchiveSessionRequest(session_id=session_id))
        self._gone(session_id)

    async def unarchive_session(self, session: ClientSession | v2.SessionInfo | str) -> None:
        """Take a session out of the archive; it is not resumed by that (UN-02)."""
        self.need("session.archive")
        session_id = _id_of(session)
        with about_session(session_id):
            await self.peer.request(v2.SESSION_UNARCHIVE, v2.UnarchiveSessionRequest(session_id=session_id))

    async def session_status(self, session: ClientSession | v2.SessionInfo | str) -> v2.SessionStatusResponse:
        """What the agent knows of a session, which changes nothing (UN-03)."""
        self.need("session.status")
        session_id = _id_of(session)
        with about_session(session_id):
            return await self.peer.request(v2.SESSION_STATUS, v2.SessionStatusRequest(session_id=session_id))

    # --- the rest -------------------------------------------------------------------------------------------------

    async def login(self, method_id: str) -> None:
        """Sign in by a method that the agent carries out (AU-02, AU-03)."""
        method = self._auth_method(method_id)
        if not isinstance(method, v2.AuthMethodAgent):
            raise UsageError(
                f"AU-03: {method_id!r} is not carried out by the agent; terminal_login runs a terminal one"
            )
        await self.peer.request(v2.AUTH_LOGIN, v2.LoginAuthRequest(method_id=method_id))

    async def logout(self) -> None:
        """Sign out; expect `AuthRequired` afterwards (AU-02, AU-08)."""
        self._check_own(v2.AUTH_LOGOUT, None)
        await self.peer.request(v2.AUTH_LOGOUT, v2.LogoutAuthRequest())

    async def terminal_login(self, method_id: str) -> None:
        """Run the agent's program once more, with this process's terminal, so that the user signs in there (AU-05).

        It is started as this agent was, with the method's arguments and environment besides. Afterwards leave the
        connection and start the agent anew. Raises `ConnectionClosed` where it ends with another exit code than 0, and
        `UsageError` where this agent was not started by `spawn_agent`.
        """
        method = self._auth_method(method_id)
        if not isinstance(method, v2.AuthMethodTerminal) or self.launched is None:
            raise UsageError(f"AU-05: {method_id!r} is no terminal method of an agent that was started here")
        argv, env, unset, cwd = self.launched
        environment = {**os.environ, **env}
        for name in unset:
            environment.pop(name, None)
        environment |= {one.name: one.value for one in method.env}
        process = await asyncio.create_subprocess_exec(*argv, *method.args, env=environment, cwd=cwd)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            try:
                async with asyncio.timeout(self.limits.grace):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
            raise
        if code != 0:
            raise ConnectionClosed(f"signing in with {Path(argv[0]).name} failed", exit_code=code)

    async def auth_status(self) -> v2.AuthStatusResponse:
        """Whether somebody is signed in (AU-09)."""
        self.need("auth.status")
        return await self.peer.request(v2.AUTH_STATUS, v2.AuthStatusRequest())

    async def list_providers(self) -> Sequence[v2.ProviderInfo]:
        """The providers of models that the agent can use (UN-08)."""
        self.need("providers")
        return (await self.peer.request(v2.PROVIDERS_LIST, v2.ListProvidersRequest())).providers

    async def set_provider(self, provider: v2.SetProviderRequest) -> None:
        """Configure a provider; the whole of its configuration (UN-08)."""
        self.need("providers")
        await self.peer.request(v2.PROVIDERS_SET, provider)

    async def disable_provider(self, provider_id: str) -> None:
        """Disable a provider (UN-08)."""
        self.need("providers")
        await self.peer.request(v2.PROVIDERS_DISABLE, v2.DisableProviderRequest(provider_id=provider_id))

    async def request(self, method: Method[P, R], params: P, *, check: bool = True) -> R:
        """Send any request, of one's own too. Raises as `Peer.request` does.

        One of the protocol's raises `UsageError` where the agent did not say that it serves it, or takes what is asked
        of it (IN-05, IN-14, AU-02), and a setup of a session where its paths are not absolute or other rules are not
        kept (SS-03..SS-05), unless `check` is false.
        """
        if check:
            self._check_own(method, params)
        return await self.peer.request(method, params)

    async def notify(self, method: Method[P, None], params: P, *, check: bool = True) -> None:
        """Send any notification, of one's own too; `check` as for `request`."""
        if check:
            self._check_own(method, params)
        await self.peer.notify(method, params)

    # --- for sessions ---------------------------------------------------------------------------------------------

    def observer_of(self, session: ClientSession) -> Callable[[Change], None] | None:
        """What is called with each change of a session's transcript; None where the client does not want to know."""
        if not overrides(self._client, "changed"):
            return None
        return partial(self._callbacks.call, self._client.changed, session)

    def child(self, parent: ClientSession, update: v2.SubagentUpdate) -> None:
        """A child session is announced, or more is said of it, which only its parent can (SA-02..SA-06)."""
        child = self.sessions.get(update.session_id)
        if child is None:
            child = ClientSession(self, update.session_id, None, transcript=self._keeps, parent=parent, state="unknown")
            child.told_by_parent(update)
            self.sessions[child.id] = parent.children[child.id] = child
            self._callbacks.call(self._client.child_session, child)
            self._catch_up(child)
        elif child.parent is parent:
            child.told_by_parent(update)

    def forget(self, session: ClientSession) -> None:
        """A session is over, with its children."""
        session.end(None)
        for child in list(session.children.values()):
            self.forget(child)
        if self.sessions.get(session.id) is session:
            del self.sessions[session.id]

    # --- what comes -----------------------------------------------------------------------------------------------

    def _update(self, told: v2.UpdateSessionNotification) -> Awaitable[None] | None:
        session = self.sessions.get(told.session_id)
        if session is None:
            if not self._early.keep(told, len(self.peer.line)):
                self.peer.counters.drops += 1
            return None
        session.deliver(told.update, len(self.peer.line))
        if self._updates is None:
            return None
        if self._callbacks.is_behind:
            self._callbacks.call(self._updates, session, told.update)
            return None
        return self._updates(session, told.update)

    def _tell(self, callback: Callable[..., Any], *arguments: Any) -> Any:
        """Call a callback in the pump, which waits for it, or after those that are before it."""
        if self._callbacks.is_behind:
            return self._callbacks.call(callback, *arguments)
        return callback(*arguments)

    def _catch_up(self, session: ClientSession) -> None:
        for update, size in self._early.of(session.id):
            session.deliver(update, size)
            if self._updates is not None:
                self._callbacks.call(self._updates, session, update)

    def _elicited(self, told: v2.CompleteElicitationNotification) -> Any:
        if self._answers.closes(told.elicitation_id):
            return self._tell(self._client.elicitation_complete, told.elicitation_id)
        return None

    def _observe(self, ignored: Ignored) -> None:
        if self._is_initialized:
            return
        if isinstance(ignored.message, Malformed):
            self._first_line = self._first_line or ignored.message.line
        elif isinstance(ignored.message, Request) and ignored.message.method == v2.INITIALIZE.name:
            self._is_echoed = True

    # --- beginning and end ----------------------------------------------------------------------------------------

    async def _made(self, method: Method[Any, Any], request: Any) -> ClientSession:
        self._check_setup(request)
        made: list[ClientSession] = []

        def arrived(response: Any) -> None:
            if response.session_id not in self.sessions:
                made.append(self._registered(response.session_id, request))
                self._catch_up(made[0])
                made[0].set_up(request, response)

        with self._early.kept():
            try:
                response = await self.peer.request(method, request, arrived=arrived)
            except BaseException:
                for session in made:  # it arrived, and nobody waits for it
                    self.forget(session)
                raise
        if not made:
            raise DecodeError(f"SS-01: there is a session {response.session_id!r} already", "$.result.sessionId")
        return made[0]

    def _registered(self, session_id: str, request: Any, **beginning: Any) -> ClientSession:
        session = self.sessions[session_id] = ClientSession(
            self,
            session_id,
            request.cwd,
            additional_directories=tuple(request.additional_directories),
            transcript=self._keeps,
            **beginning,
        )
        return session

    def _root(self, session: ClientSession | v2.SessionInfo | str) -> str:
        """The id of a session that the client may change. Raises `UsageError` for a child (SA-06)."""
        session_id = _id_of(session)
        known = self.sessions.get(session_id)
        if known is not None and known.parent is not None:
            raise UsageError(f"SA-06: {session_id} is a child session, which only its parent's agent changes")
        return session_id

    def _check_own(self, method: Method[Any, Any], params: Any) -> None:
        """Only what the agent said it serves, of the protocol's methods (IN-14, AU-02); others are their users' own."""
        known = v2.METHODS.get((method.name, method.side, method.kind))
        if known is None or known.side != "agent":
            return
        if known is v2.INITIALIZE and self._connection.has_asked:
            raise UsageError("IN-05: the handshake may be repeated only before the first other request")
        if known.gate == "authMethods":
            if not self.auth_methods:
                raise UsageError(f"AU-02: the agent has no way to sign in, and {known.name} is not for it")
        elif known.gate:
            self.need(known.gate)
        if isinstance(params, v2.NewSessionRequest | v2.ResumeSessionRequest | v2.ForkSessionRequest):
            self._check_setup(params)
        elif isinstance(params, v2.ListSessionsRequest) and params.archived is not None:
            self.need("session.archive")

    def _check_setup(self, request: Any) -> None:
        """Only what the agent said it takes (IN-10, SS-04, SS-05, UN-05)."""
        self.need("session")
        if request.additional_directories:
            self.need("session.additionalDirectories")
        if request.system_prompt is not None:
            self.need("session.systemPrompt")
            if request.system_prompt.mode != "append":
                self.need(f"session.systemPrompt.mode.{request.system_prompt.mode}")
        for server in request.mcp_servers:
            self.need(f"session.mcp.{server.tag}")
        for violation in v2.validate(request):
            raise UsageError(f"{violation.requirement}: {violation.message} - at `{violation.path}`")

    def _gone(self, session_id: str) -> None:
        session = self.sessions.get(session_id)
        if session is not None:
            self.forget(session)

    def _auth_method(self, method_id: str) -> v2.AuthMethod:
        for method in self.auth_methods:
            if getattr(method, "method_id", None) == method_id:
                return method
        raise UsageError(f"AU-03: the agent has no way to sign in that is called {method_id!r}")

    def _ended_at_once(self, cause: ConnectionClosed) -> None:
        """Whoever waits in a session is told; what is left to do may take its time."""
        for session in list(self.sessions.values()):
            session.end(cause)

    async def _end(self) -> None:
        """When the connection is closed, and handlers have ended, the client is told."""
        cause = await self.peer.wait_closed()
        await self._callbacks.stop(self.limits.grace)
        await self._answers.stop(self.limits.grace)
        try:
            self._client.closed(cause)
        except Exception:  # noqa: BLE001  # whatever a user's function raises
            _log.exception("%s failed", name_of(self._client, "closed"))


class _Connection(Connection):
    """Tells that it is closed in the moment that it is, and knows whether more than the handshake was asked for."""

    ended: Callable[[ConnectionClosed], None]
    has_asked = False

    def request(self, method: Method[Any, Any], params: Any) -> RequestId:
        """Send a request, as any is sent."""
        request_id = super().request(method, params)
        self.has_asked = self.has_asked or method.name != v2.INITIALIZE.name
        return request_id

    def close(self, cause: ConnectionClosed) -> list[Answered]:
        """End the connection, as any is ended."""
        was_open = self.closed is None
        pending = super().close(cause)
        if was_open:
            self.ended(cause)
        return pending


def _checked(answer: Any) -> v2.InitializeResponse:
    """The answer to `initialize`, if it is one of this version (IN-04)."""
    members: dict[str, Any] = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    version = members.get("protocolVersion")
    if isinstance(version, int) and version != VERSION:
        raise VersionMismatch(VERSION, [version])
    if "info" not in members and not members.keys().isdisjoint({"agentInfo", "agentCapabilities"}):
        raise DecodeError("the agent says that it speaks version 2 and answers as version 1 does", "$.result")
    try:
        return v2.decode(v2.InitializeResponse, msgspec.json.encode(answer))
    except DecodeError as error:
        raise DecodeError(
            f"the answer to initialize does not fit: {error.message}", f"$.result{error.path[1:]}"
        ) from None


def _absolute(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    windows = len(text) > 2 and text[1] == ":" and text[2] in "\\/"
    return text if windows or text.startswith(("/", "\\\\")) else str(Path(text).absolute())


def _id_of(session: ClientSession | v2.SessionInfo | str) -> str:
    if isinstance(session, str):
        return session
    return session.session_id if isinstance(session, v2.SessionInfo) else session.id
