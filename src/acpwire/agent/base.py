"""`Agent`, to derive from: what is overridden is what the agent serves, and what the client is told that it can do.

Owns: the methods with their defaults, what they and `accepts` say about capabilities, the check of a prompt's blocks,
methods of one's own. Does not know: connections.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, cast, get_type_hints

from acpwire import v2
from acpwire.errors import INVALID_PARAMS, RequestError, UsageError
from acpwire.overriding import check_derived, check_info, check_overrides, check_words, overridden
from acpwire.wire.frames import Kind, Method

from .session import AgentSession

if sys.version_info >= (3, 14):
    pass

__all__ = ["Agent", "UserPrompt", "check_agent", "extension", "extensions_of", "overrides"]

F = TypeVar("F", bound=Callable[..., Any])

ACCEPTED: Final[Mapping[str, str]] = {
    "image": "image",
    "audio": "audio",
    "resource": "embedded_context",
}
"""What `accepts` names of content -> the member of the prompt capabilities that says so."""
TRANSPORTS: Final = ("stdio", "http", "acp")
FEATURES: Final = ("additional_directories", "system_prompt", "system_prompt.override")
_ACCEPTABLE: Final = frozenset({*ACCEPTED, *FEATURES, *(f"mcp.{name}" for name in TRANSPORTS)})


class UserPrompt:
    """What the user said.

    Attributes:
        text: the text of its blocks, one after the other.
        content: its blocks, in order.
        message_id: the id of the user message; empty until it is inserted, after `Agent.admit`.
        request: all of the request, a `v2.PromptRequest`.
        usage: to be set before `Agent.prompt` returns: the tokens that answering took, a `v2.Usage`.
    """

    def __init__(self, request: v2.PromptRequest) -> None:
        self.request = request
        self.content = request.prompt
        """Its blocks, in order."""
        self.message_id = ""
        """The id of the user message; empty until it is inserted."""
        self.usage: v2.Usage | None = None
        """To be set: the tokens that answering took; told with the end of the work (US-06)."""

    @property
    def text(self) -> str:
        """The text of its blocks, one after the other."""
        return "".join(block.text for block in self.content if isinstance(block, v2.TextContent))

    def __repr__(self) -> str:
        return f"<UserPrompt {self.message_id or 'held'}, {len(self.content)} blocks>"


class Agent:
    """An agent. Derive from it, say who it is, write `prompt`, and override what else it serves.

    A method that is overridden is served, and the capability for it is told; nothing else is. An override is called for
    every connection that serves this object, and may raise `RequestError` to refuse; whatever else it raises is an
    internal error to the client, with text and traceback in the log alone.

    Attributes:
        info: who the agent is, a `v2.Implementation`.
        accepts: what it takes beyond text and links, such as `("image", "mcp.stdio")`.
        auth_methods: ways to sign in.
        retain: whether each session keeps all that was said.
        meta: capabilities of one's own.
    """

    info: v2.Implementation
    """Who the agent is (IN-02)."""
    accepts: Sequence[str] = ()
    """What it takes beyond text and links to resources: "image", "audio", "resource" (content embedded in a prompt),
    "mcp.stdio", "mcp.http", "mcp.acp" (transports of MCP servers), "additional_directories", "system_prompt",
    "system_prompt.override" (instead of the agent's own); and custom tags of content blocks, which begin with `_`."""
    auth_methods: Sequence[v2.AuthMethod] = ()
    """Ways to sign in; with any, `login` and `logout` are to be overridden (AU-01)."""
    retain = False
    """Whether each session keeps all that was said as `session.transcript`, and `session/resume` replays it."""
    meta: Mapping[str, Any] | None = None
    """Capabilities of one's own: the `_meta` of the capabilities (IN-13)."""

    # --- prompts --------------------------------------------------------------------------------------------------

    async def admit(self, session: AgentSession, prompt: UserPrompt) -> None:
        """Decide about a prompt before it is part of the conversation, one at a time, in the order received.

        Return to insert it, wait to hold it, raise `RequestError` to reject it. As it stands: blocks that the agent
        does not take are rejected (PL-07), and a prompt is held while foreground work runs (PL-27). To be inserted
        promises neither that it is stored nor that a model sees it (PL-21). A `session/cancel` or close, and a client
        that takes its request back, cancel it (PL-28); work that it does in `session.foreground()` is told (PL-30).
        """
        self.check(prompt)
        await session.wait_idle()

    async def prompt(self, session: AgentSession, prompt: UserPrompt) -> v2.StopReason | None:
        """Do what the user asked for; the prompt is inserted and answered already.

        Ask the model, write what it says, run the tools that it asks for, give it their results, until it asks for none
        (MS-11, TC-10). Return why that ended: "end_turn", which None is too, when it is done, commands of one's own
        that need no model included (SR-02); "max_tokens" at a limit of tokens (SR-03), "max_turn_requests" at one of
        requests to the model (SR-04), "refusal" (SR-05); reasons of one's own begin with `_` (SR-08). Set
        `prompt.usage`, a `v2.Usage`, before returning, to tell the tokens that this took (US-06); `session.usage` tells
        how full the context is.

        A `session/cancel` cancels it; clean up, and let the cancellation pass. Whatever else it raises ends it as
        failed: a `RequestError` is told, anything else is an internal error to the client and logged (SR-07). The
        session goes on in either case, and the next prompt finds the same context (CA-09).
        """
        raise NotImplementedError

    def check(self, prompt: UserPrompt) -> None:
        """Raise -32602 for a block that the agent does not take (PL-07, PL-08)."""
        for index, block in enumerate(prompt.content):
            if block.tag not in {"text", "resource_link", *self.accepts}:
                raise RequestError(INVALID_PARAMS, f"This agent takes no such content - at `$.params.prompt[{index}]`")

    # --- sessions -------------------------------------------------------------------------------------------------

    async def new_session(self, session: AgentSession) -> None:
        """A session is made: `session.cwd`, `.mcp_servers` and the like are set, `.app` is yours."""

    async def resume_session(self, session: AgentSession, replay_from: v2.ReplayFrom | None) -> None:
        """Take up a session, live here or not, and replay its history where that is asked for.

        `await session.replay(...)` what `replay_from` asks for (it is `v2.ReplayFromStart` or None), and no more; raise
        `SessionNotFound` for an id that is unknown. To be overridden together with `list_sessions`. As it stands, only
        sessions of this connection are found, and those that `retain` are replayed.
        """
        if replay_from is not None and session.transcript is not None:
            await session.replay(session.transcript)

    async def list_sessions(
        self, *, cwd: str | None, cursor: str | None, archived: v2.SessionArchiveFilter | None
    ) -> v2.ListSessionsResponse:
        """The sessions that can be resumed, those of a directory if `cwd` is given (SS-20)."""
        raise NotImplementedError

    async def close_session(self, session: AgentSession) -> None:
        """A session ends: its work has, and nothing can be said in it any more."""

    async def delete_session(self, session_id: str) -> None:
        """Delete a session for good; one that is not there is fine (SS-27)."""
        raise NotImplementedError

    async def fork_session(self, session: AgentSession, source_id: str) -> None:
        """A session is made from another one's history (UN-01)."""
        raise NotImplementedError

    async def archive_session(self, session_id: str) -> None:
        """Archive a session; it is closed already (UN-02). With it, override `unarchive_session`."""
        raise NotImplementedError

    async def unarchive_session(self, session_id: str) -> None:
        """Take a session out of the archive; it is not loaded (UN-02)."""
        raise NotImplementedError

    async def session_status(self, session_id: str) -> v2.SessionStatusResponse:
        """What is known of a session, without any effect on it (UN-03)."""
        raise NotImplementedError

    async def set_title(self, session_id: str, title: str) -> str:
        """Store a title, and return what was stored (UN-04)."""
        raise NotImplementedError

    async def set_config_option(
        self, session: AgentSession, request: v2.SetSessionConfigOptionRequest
    ) -> Sequence[v2.SessionConfigOption]:
        """Set an option, and return all of them; raise -32602 where that cannot be (CO-05, CO-06)."""
        raise NotImplementedError

    def sent(self, session: AgentSession, update: v2.SessionUpdate) -> None:
        """Gets every update right after it was sent, for stores; called in the loop, so it should be quick.

        Those of child sessions, too: they have a `session.parent`.
        What it raises is logged and changes nothing. Nothing has to be kept (PL-23); what is, keeps its ids (PL-24).
        """

    # --- the rest -------------------------------------------------------------------------------------------------

    async def login(self, method_id: str) -> None:
        """Sign in by one of `auth_methods`."""
        raise NotImplementedError

    async def logout(self) -> None:
        """Sign out."""
        raise NotImplementedError

    async def auth_status(self) -> v2.AuthStatusResponse:
        """Whether somebody is signed in; without effects, and never refused (AU-09)."""
        raise NotImplementedError

    async def list_providers(self) -> v2.ListProvidersResponse:
        """The providers of models. With it, override `set_provider` and `disable_provider` (UN-08)."""
        raise NotImplementedError

    async def set_provider(self, request: v2.SetProviderRequest) -> None:
        """Configure a provider; the whole of its configuration (UN-08)."""
        raise NotImplementedError

    async def disable_provider(self, provider_id: str) -> None:
        """Disable a provider that is not required (UN-08)."""
        raise NotImplementedError

    async def mcp_notification(self, notification: v2.MessageMcpNotification) -> None:
        """An MCP server that the client serves over ACP says something (UN-06)."""
        raise NotImplementedError

    # --- what it can do -------------------------------------------------------------------------------------------

    def capabilities(self) -> v2.AgentCapabilities:
        """What the client is told, from what is overridden and accepted (IN-10)."""
        has = {name: overrides(self, name) for name in vars(Agent)}
        kinds = {member for kind, member in ACCEPTED.items() if kind in self.accepts}
        transports = {name for name in TRANSPORTS if f"mcp.{name}" in self.accepts}
        session = v2.SessionCapabilities(
            prompt=v2.PromptCapabilities(
                image=v2.PromptImageCapabilities() if "image" in kinds else None,
                audio=v2.PromptAudioCapabilities() if "audio" in kinds else None,
                embedded_context=v2.PromptEmbeddedContextCapabilities() if "embedded_context" in kinds else None,
            )
            if kinds
            else None,
            mcp=v2.McpCapabilities(
                stdio=v2.McpStdioCapabilities() if "stdio" in transports else None,
                http=v2.McpHttpCapabilities() if "http" in transports else None,
                acp=v2.McpAcpCapabilities() if "acp" in transports else None,
            )
            if transports
            else None,
            additional_directories=v2.SessionAdditionalDirectoriesCapabilities()
            if "additional_directories" in self.accepts
            else None,
            system_prompt=v2.SessionSystemPromptCapabilities(
                mode=v2.SessionSystemPromptModeCapabilities(override=v2.SessionSystemPromptOverrideCapabilities())
                if "system_prompt.override" in self.accepts
                else None
            )
            if "system_prompt" in self.accepts
            else None,
            delete=v2.SessionDeleteCapabilities() if has["delete_session"] else None,
            fork=v2.SessionForkCapabilities() if has["fork_session"] else None,
            archive=v2.SessionArchiveCapabilities() if has["archive_session"] else None,
            status=v2.SessionStatusCapabilities() if has["session_status"] else None,
            title=v2.SessionTitleCapabilities() if has["set_title"] else None,
        )
        return v2.AgentCapabilities(
            session=session,
            auth=v2.AgentAuthCapabilities(status=v2.AuthStatusCapabilities()) if has["auth_status"] else None,
            providers=v2.ProvidersCapabilities() if has["list_providers"] else None,
            meta=self.meta,
        )

    def check_complete(self) -> None:
        """Raise `UsageError` where what is served is half of something (IN-10, AU-01)."""
        if not overrides(self, "prompt"):
            raise UsageError(f"{type(self).__name__} has no `prompt`: write what it does with one")
        check_info(self)
        check_overrides(Agent, self)
        for together in _TOGETHER:
            there = {name: overrides(self, name) for name in together}
            if len(set(there.values())) > 1:
                missing = ", ".join(name for name, is_there in there.items() if not is_there)
                given = ", ".join(name for name, is_there in there.items() if is_there)
                raise UsageError(f"{type(self).__name__} has {given} and no {missing}: they are served together")
        if self.auth_methods and not overrides(self, "login"):
            raise UsageError(f"AU-01: {type(self).__name__} has auth_methods: override `login` and `logout`")
        for method in self.auth_methods:
            for violation in v2.validate(method):  # AU-06
                raise UsageError(f"{type(self).__name__}.auth_methods: {violation.message} ({violation.requirement})")
        check_words(self, "accepts", _ACCEPTABLE)


_TOGETHER: Final = (
    ("resume_session", "list_sessions"),
    ("archive_session", "unarchive_session"),
    ("login", "logout"),
    ("list_providers", "set_provider", "disable_provider"),
)


def check_agent(agent: object) -> None:
    """Raise `UsageError` for what is no agent, or one that is half of something."""
    check_derived(Agent, agent)
    cast("Agent", agent).check_complete()


def overrides(agent: Agent, name: str) -> bool:
    """Whether an agent has a method of its own."""
    return overridden(Agent, agent, name)


# --- methods of one's own -----------------------------------------------------------------------------------------

_EXTENSION: Final = "_acpwire_extension"


def extension(name: str, *, kind: Kind = "request") -> Callable[[F], F]:
    """Serve a method of one's own: `_x/y`. Its params and result are typed by the annotations.

        @acpwire.extension("_acme/tally")
        async def tally(self, params: Tally) -> Total: ...

    Raises `UsageError` for a name that belongs to the protocol (EX-01).
    """
    if not name.startswith("_"):
        raise UsageError(f"EX-01: {name!r} belongs to the protocol; names of one's own begin with `_`")

    def mark(function: F) -> F:
        setattr(function, _EXTENSION, (name, kind))
        return function

    return mark


def extensions_of(agent: Agent) -> Iterator[tuple[Method[Any, Any], Callable[..., Any]]]:
    """The methods of its own that an agent serves, and what serves them."""
    for _, function in inspect.getmembers(agent, callable):
        marked = getattr(function, _EXTENSION, None)
        if marked is None:
            continue
        name, kind = cast("tuple[str, Kind]", marked)
        hints = get_type_hints(function)
        result = hints.pop("return", None)
        params = next(iter(hints.values()), Any)
        yield (
            Method(name, "agent", kind, params, result if kind == "request" else None, v2.SESSION_NEW.decoding),
            function,
        )
