"""How the updates of one session leave.

Owns: sending an update, checking what binds its sender, the tee for stores, refusing what comes too late or from
another thread, ids. Does not know: which updates there are, or in which order they belong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final
from uuid import uuid4

from acpwire import v2
from acpwire.errors import EncodeError, UsageError
from acpwire.peer import Peer
from acpwire.wire.frames import Method

__all__ = ["Chunks", "Outgoing", "new_id", "sendable"]

_UPDATE: Final = v2.SESSION_UPDATE


def new_id(kind: str) -> str:
    """An id that no other entity has: short words tell a reader of the wire what it is of."""
    return f"{kind}_{uuid4().hex}"


def sendable(value: Any) -> None:
    """Raise `EncodeError` for what a peer may refuse, with the requirement that says so."""
    wrong = v2.validate(value)
    if wrong:
        raise EncodeError("; ".join(f"{one.message} - at `{one.path}` ({one.requirement})" for one in wrong))


class Outgoing:
    """The way out of one session: everything that its agent says about it goes through here, in order."""

    def __init__(self, peer: Peer, session_id: str) -> None:
        self.session_id = session_id
        self.peer = peer
        self.tee: Callable[[v2.SessionUpdate], object] | None = None
        """Gets every update after it was sent."""
        self.closed = ""
        """Why nothing may be sent any more; empty while something may."""
        self._thread = threading.get_ident()

    def check(self) -> None:
        """Raise `UsageError` where nothing can be sent from: another thread, or after the session was closed."""
        if threading.get_ident() != self._thread:
            raise UsageError(
                "a session belongs to the thread of its event loop: from a worker thread use "
                "asyncio.run_coroutine_threadsafe(..., session.loop)"
            )
        if self.closed:
            raise UsageError(f"session {self.session_id}: {self.closed}")

    def post(self, update: v2.SessionUpdate, *, told: bool = True) -> None:
        """Send an update without waiting; `told`: to those who look on, too.

        Raises `EncodeError` for what a peer may refuse, and `ConnectionClosed`.
        """
        self.check()
        sendable(update)
        self.peer.post(_UPDATE, v2.UpdateSessionNotification(session_id=self.session_id, update=update))
        if told and self.tee is not None:
            self.tee(update)

    async def send(self, update: v2.SessionUpdate, *, told: bool = True) -> None:
        """Send an update; waits while the client takes nothing. It is sent even where the waiting is cancelled."""
        self.post(update, told=told)
        await self.peer.flow()

    async def ask(self, method: Method[Any, Any], params: Any) -> Any:
        """Send a request to the client and wait for its result. Raises as `post` and `Peer.request` do."""
        self.check()
        sendable(params)
        return await self.peer.request(method, params)

    def chunks(self, template: v2.SessionUpdate, hole: str) -> Chunks:
        """A sender of updates that are equal but for one string, `hole` in the template."""
        return Chunks(self, template, hole)


class Chunks:
    """Sends updates that differ in one string alone: all around it is encoded once."""

    def __init__(self, outgoing: Outgoing, template: v2.SessionUpdate, hole: str) -> None:
        self._outgoing = outgoing
        params = v2.UpdateSessionNotification(session_id=outgoing.session_id, update=template)
        self._head, _, self._tail = _UPDATE.notification(params).partition(v2.encode(hole))

    async def send(self, text: str, update: Callable[[], v2.SessionUpdate]) -> None:
        """Send one; `update` makes the value of it, for those who look on."""
        outgoing = self._outgoing
        outgoing.check()
        await outgoing.peer.send_line(self._head + v2.encode(text) + self._tail)
        if outgoing.tee is not None:
            outgoing.tee(update())
