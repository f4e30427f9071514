"""How the updates of one session leave.

Owns: sending an update, checking what binds its sender, the tee for stores, refusing what comes too late or from
another thread, holding updates back while a history is replayed, ids. Does not know: which updates there are, or in
which order they belong.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from acpwire import v2
from acpwire.errors import ConnectionClosed, EncodeError, UsageError
from acpwire.peer import Peer
from acpwire.trace import trace_context
from acpwire.wire.frames import Method

__all__ = ["Chunks", "Outgoing", "new_id", "sendable"]

_UPDATE: Final = v2.SESSION_UPDATE
_log = logging.getLogger(__name__)


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
        self.closing = ""
        """Why nothing new may begin; empty while something may."""
        self.closed = ""
        """Why nothing may be sent any more; empty while something may."""
        self.replaying = asyncio.Lock()
        """Held by a replay."""
        self.held: list[v2.SessionUpdate] | None = None
        """What was said during a replay, to be sent after it; None while there is no replay."""
        self._goes_on = asyncio.Event()
        self._thread = threading.get_ident()

    def check(self, *, begins: bool = False) -> None:
        """Raise `UsageError` where nothing can be sent from: another thread, or after the session was closed.

        `begins`: once it is being closed, too.
        """
        if threading.get_ident() != self._thread:
            raise UsageError(
                "a session belongs to the thread of its event loop: from a worker thread use "
                "asyncio.run_coroutine_threadsafe(..., session.loop)"
            )
        if self.closed or (begins and self.closing):
            raise UsageError(f"session {self.session_id}: {self.closed or self.closing}")

    def post(self, update: v2.SessionUpdate, *, is_own: bool = True) -> None:
        """Send an update without waiting; `is_own`: not what a client said, which goes back as it came.

        Raises `EncodeError` for what a peer may refuse, and `ConnectionClosed`.
        """
        self.check()
        if is_own:
            sendable(update)
        if self.held is None:
            self._put(update)
        else:
            self.held.append(update)

    async def send(self, update: v2.SessionUpdate) -> None:
        """Send an update; waits while the client takes nothing. It is sent even where the waiting is cancelled."""
        self.post(update)
        await self.flow()

    async def flow(self) -> None:
        """Wait where a sender should, after `post`: during a replay, and while the client takes nothing."""
        while self.held is not None:
            await self._goes_on.wait()
        await self.peer.flow()

    async def ask(self, method: Method[Any, Any], params: Any) -> Any:
        """Send a request to the client and wait for its result. Raises as `post` and `Peer.request` do."""
        self.check()
        sendable(params)
        await self.flow()
        return await self.peer.request(method, params)

    async def replay(self, updates: Iterable[v2.SessionUpdate], replayed: Callable[[v2.SessionUpdate], object]) -> None:
        """Send a history as it is, and what else is said meanwhile after it: it belongs to what follows."""
        async with self.replaying:
            self.held = []
            self._goes_on.clear()
            try:
                for update in updates:
                    self.check(begins=True)
                    self.peer.post(_UPDATE, v2.UpdateSessionNotification(session_id=self.session_id, update=update))
                    replayed(update)
                    await self.peer.flow()
            finally:
                held, self.held = self.held, None
                self._goes_on.set()
                with suppress(ConnectionClosed):  # those who said it are told when they say more
                    for update in held:
                        self._put(update)

    def chunks(self, template: v2.SessionUpdate, hole: str) -> Chunks:
        """A sender of updates that are equal but for one string, `hole` in the template."""
        return Chunks(self, template, hole)

    def told(self, update: v2.SessionUpdate) -> None:
        """Tell those who look on; what they raise is their affair."""
        if self.tee is not None:
            try:
                self.tee(update)
            except Exception:  # noqa: BLE001  # it is logged, and whoever sends has nothing to do with it
                _log.exception("what looks on at the updates of a session failed")

    def _put(self, update: v2.SessionUpdate) -> None:
        self.peer.post(_UPDATE, v2.UpdateSessionNotification(session_id=self.session_id, update=update))
        self.told(update)


class Chunks:
    """Sends updates that differ in one string alone: all around it is encoded once."""

    def __init__(self, outgoing: Outgoing, template: v2.SessionUpdate, hole: str) -> None:
        self._outgoing = outgoing
        params = v2.UpdateSessionNotification(session_id=outgoing.session_id, update=template)
        self._head, _, self._tail = _UPDATE.notification(params).rpartition(v2.encode(hole))

    async def send(self, text: str, update: Callable[[], v2.SessionUpdate]) -> None:
        """Send one; `update` makes the value of it, for those who look on."""
        outgoing = self._outgoing
        if outgoing.tee is None and outgoing.held is None and not trace_context.get():
            outgoing.check()
            await outgoing.peer.send_line(self._head + v2.encode(text) + self._tail)
        else:
            outgoing.post(update(), is_own=False)
            await outgoing.flow()
