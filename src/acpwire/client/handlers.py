"""`Client`, to derive from: what an agent tells and asks, with cautious answers to what nobody overrides.

Owns: the callbacks, their defaults, and what they say about capabilities. Does not know: connections, or how an answer
travels.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from acpwire import v2
from acpwire.errors import METHOD_NOT_FOUND, ConnectionClosed, RequestError
from acpwire.overriding import check_derived, check_info, check_overrides, check_words, overridden

if TYPE_CHECKING:
    from acpwire.transcript import Change

    from .session import ClientSession

__all__ = ["Chosen", "Client", "Filled", "check_client", "name_of", "overrides", "rejection"]

Chosen: TypeAlias = "v2.PermissionOption | str | None"
"""The answer to a question of permission: an option that was offered, or its id; None: cancelled."""
Filled: TypeAlias = "Mapping[str, Any] | v2.CreateElicitationResponse | None"
"""The answer to an elicitation: the values of the form, which accepts it; an action; None declines."""
MODES: Final = frozenset({"form", "url"})


class Client:
    """What happens on the client's side. All of it may be left as it is; derive, and override what you need.

    `request_permission`, `create_elicitation` and `mcp_message` answer requests: coroutine functions, each run in a
    task of its own. `update`, `elicitation_complete`, `child_session` and `auth_status` may be plain functions or
    coroutine functions; those delay what follows on the connection, so they must not wait for anything of that: start a
    task for it. `closed` and `capabilities` are plain functions, as nobody awaits them. What a callback raises is
    logged; a request is then answered with the cautious default.

    What cannot be called so, or has a `yield` in it, is refused with a `UsageError` when somebody connects, and so are
    an `info` or `elicits` that say nothing. What a decorator has made of a callback is its own affair.

    Attributes:
        info: who the client is, a `v2.Implementation` (IN-02).
        elicits: which modes of elicitation are served, where `create_elicitation` is overridden (EL-01).
        has_terminal: whether a terminal is at hand in which a user can sign in (AU-04).
        permission_timeout: after how many seconds a question without an answer is rejected; None waits for ever.
        elicitation_timeout: after how many seconds an elicitation without one is cancelled; None waits for ever.
        meta: capabilities of one's own (IN-13).
    """

    info = v2.Implementation(name="acpwire", version="0.1.0")
    """Who the client is (IN-02)."""
    elicits: Sequence[str] = ("form",)
    """Which modes of elicitation `create_elicitation` serves, where it is overridden: "form", "url" (EL-01)."""
    has_terminal = False
    """Whether a terminal is at hand in which a user can sign in (AU-04)."""
    permission_timeout: float | None = None
    """After how many seconds a question that has no answer is rejected; None waits for ever."""
    elicitation_timeout: float | None = None
    """After how many seconds an elicitation that has no answer is cancelled; None waits for ever."""
    meta: Mapping[str, Any] | None = None
    """Capabilities of one's own: the `_meta` of the capabilities (IN-13)."""

    def update(self, session: ClientSession, update: v2.SessionUpdate) -> Awaitable[None] | None:
        """Every update of every session, in the wire's order, after the session's transcript has it."""

    def changed(self, session: ClientSession, change: Change) -> Awaitable[None] | None:
        """Every change of a session's transcript, where one is kept, once it is made; before `update`, if by one.

        What no update tells is among them: a tool call that a permission is about (PM-03), marks of calls as cancelled
        (CA-02), options and commands of answers (CO-06).
        """

    async def request_permission(self, session: ClientSession, request: v2.RequestPermissionRequest) -> Chosen:
        """The agent asks whether it may do something (PM-*). As it stands, it may not. A coroutine function.

        Cancelled when the session's work is, the agent no longer asks, or its time is over; that is answered at once
        then (CA-03, X8), and nothing that this still does or returns changes it.
        """
        return rejection(request.options)

    async def create_elicitation(self, session: ClientSession | None, request: v2.CreateElicitationRequest) -> Filled:
        """The agent asks for input (EL-*); `session` is None where it belongs to a request. As it stands: cancelled.

        A coroutine function. `acpwire.forms.defaults` says what a form begins with; values that do not fit it count as
        cancelled (EL-08).
        """
        return v2.ElicitationCancelAction()

    def elicitation_complete(self, elicitation_id: str) -> Awaitable[None] | None:
        """What happened at the URL of an elicitation is over (EL-11)."""

    async def mcp_message(self, request: v2.MessageMcpRequest) -> v2.MessageMcpResponse:
        """A message to an MCP server that this client serves over ACP (UN-06). A coroutine function."""
        raise RequestError(METHOD_NOT_FOUND, "Method not found", {"method": "mcp/message"})

    def child_session(self, session: ClientSession) -> Awaitable[None] | None:
        """An agent has announced a child session; its updates come like any other's (SA-02, SA-03)."""

    def auth_status(self, status: v2.AuthStatusUpdateNotification) -> Awaitable[None] | None:
        """Somebody signed in or out (AU-09)."""

    def closed(self, cause: ConnectionClosed) -> None:
        """The connection is closed. A plain function: nobody is left to wait for a coroutine."""

    def capabilities(self) -> v2.ClientCapabilities:
        """What the agent is told, from what is overridden (IN-08, EL-01). A plain function."""
        elicits = overrides(self, "create_elicitation")
        return v2.ClientCapabilities(
            auth=v2.ClientAuthCapabilities(terminal=v2.TerminalAuthCapabilities()) if self.has_terminal else None,
            elicitation=v2.ElicitationCapabilities(
                form=v2.ElicitationFormCapabilities() if "form" in self.elicits else None,
                url=v2.ElicitationUrlCapabilities() if "url" in self.elicits else None,
            )
            if elicits
            else None,
            meta=self.meta,
        )


def overrides(client: Client, name: str) -> bool:
    """Whether a client has a callback of its own."""
    return overridden(Client, client, name)


def check_client(client: object) -> None:
    """Raise `UsageError` for what is no client, or one whose callbacks cannot be called as those of `Client` are."""
    check_derived(Client, client)
    check_info(client)
    check_words(client, "elicits", MODES)
    check_overrides(Client, client)


def name_of(client: Client, name: str) -> str:
    """What a callback is called in the log: its name, with its client's class."""
    return f"{type(client).__name__}.{name}"


def rejection(options: Sequence[v2.PermissionOption]) -> v2.PermissionOption | None:
    """The option that refuses most mildly, if there is one; None cancels."""
    for kind in ("reject_once", "reject_always"):
        for option in options:
            if option.kind == kind:
                return option
    return None
