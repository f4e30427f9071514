"""How the updates of one session leave.

Owns: sending an update, checking what binds its sender, the tee for stores, refusing what comes too late or from
another thread, holding updates back while a history is replayed, ids. Does not know: which updates there are, or in
which order they belong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import get_ident
from typing import Any, Final, TypeAlias
from uuid import uuid4

import msgspec

from acpwire import v2
from acpwire.errors import ConnectionClosed, EncodeError, UsageError
from acpwire.peer import FLUSH, Peer
from acpwire.trace import trace_context
from acpwire.wire.frames import Method

__all__ = ["Chunk", "Chunks", "Outgoing", "new_id", "sendable"]

Chunk: TypeAlias = v2.AgentMessageChunk | v2.AgentThoughtChunk
_UPDATE: Final = v2.SESSION_UPDATE
_HOLE: Final = "\x00acpwire"
_encoder = msgspec.json.Encoder()
_log = logging.getLogger(__name__)


def new_id(kind: str) -> str:
    """An id that no other entity has: short words tell a reader of the wire what it is of."""
    return f"{kind}_{uuid4().hex}"


def sendable(value: Any) -> None:
    """Raise `EncodeError` for what a peer may refuse, with the requirement that says so."""
    wrong = v2.validate(value)
    if wrong:
        raise EncodeError("; ".join(f"{one.message} - at `{one.path}` ({one.requirement})" for one in wrong))


def _plain_text(update: Any) -> str | None:
    """The text of what is sent most, a chunk of nothing but text, in which nothing can be wrong; None of all else."""
    if update.__class__ is not v2.AgentMessageChunk and update.__class__ is not v2.AgentThoughtChunk:
        return None
    content: Any = update.content
    is_plain = (
        content.__class__ is v2.TextContent
        and content.text.__class__ is str
        and update.message_id.__class__ is str
        and update.meta is None
        and content.meta is None
        and content.annotations is None
    )
    return content.text if is_plain else None


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
        self._chunks: Chunks | None = None  # of the message whose text was sent last
        self.thread = get_ident()
        """The thread that it belongs to."""

    def check(self, *, begins: bool = False) -> None:
        """Raise `UsageError` where nothing can be sent from: another thread, or after the session was closed.

        `begins`: once it is being closed, too.
        """
        if get_ident() != self.thread:
            raise UsageError(
                "a session belongs to the thread of its event loop: from a worker thread use "
                "asyncio.run_coroutine_threadsafe(..., session.loop)"
            )
        if self.closed or (begins and self.closing):
            raise UsageError(f"session {self.session_id}: {self.closed or self.closing}")

    def post(self, update: v2.SessionUpdate, *, is_own: bool = True) -> bool:
        """Send an update without waiting; `is_own`: not what a client said, which goes back as it came.

        Returns whether a sender that can wait should, by `flow`. Raises `EncodeError` for what a peer may refuse, and
        `ConnectionClosed`.
        """
        text = _plain_text(update) if is_own else None
        if text is not None and self.tee is None and self.held is None:
            is_full = self._chunks_like(update).post(text)
            if is_full is not None:
                return is_full
        self.check()
        if is_own and text is None:
            sendable(update)
        if self.held is None:
            return self._put(update) >= FLUSH
        self.held.append(update)
        return True

    async def send(self, update: v2.SessionUpdate) -> None:
        """Send an update; waits while the client takes nothing. It is sent even where the waiting is cancelled."""
        if self.post(update):
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

    def told(self, update: v2.SessionUpdate) -> None:
        """Tell those who look on; what they raise is their affair."""
        if self.tee is not None:
            try:
                self.tee(update)
            except Exception:  # noqa: BLE001  # it is logged, and whoever sends has nothing to do with it
                _log.exception("what looks on at the updates of a session failed")

    def _put(self, update: v2.SessionUpdate) -> int:
        size = self.peer.post(_UPDATE, v2.UpdateSessionNotification(session_id=self.session_id, update=update))
        if self.tee is not None:
            self.told(update)
        return size

    def _chunks_like(self, chunk: Any) -> Chunks:
        chunks = self._chunks
        if chunks is None or chunks.message_id != chunk.message_id or chunks.kind is not chunk.__class__:
            chunks = self._chunks = Chunks(self, chunk.__class__, chunk.message_id)
        return chunks


class Chunks:
    """The texts of one message, of which nothing else is encoded more than once.

    They are encoded together when it is time to write, or something else is sent.
    """

    def __init__(self, outgoing: Outgoing, kind: type[Chunk], message_id: str) -> None:
        self.kind = kind
        self.message_id = message_id
        self._outgoing = outgoing
        self._texts: list[str] = []
        update = kind(message_id=message_id, content=v2.TextContent(text=_HOLE))
        line = _UPDATE.notification(v2.UpdateSessionNotification(session_id=outgoing.session_id, update=update))
        self._head, _, self._tail = line.rpartition(v2.encode(_HOLE))
        self._around = len(line)
        self._size = 0

    def post(self, text: str) -> bool | None:
        """Send one without waiting; returns and raises what `Outgoing.post` does.

        None: nothing was done. It cannot leave as bytes, as somebody looks on, it has to wait, or belongs to a trace;
        or it must not leave at all. Its update is for `Outgoing.post`, which tells these apart.
        """
        outgoing = self._outgoing
        if (
            text.__class__ is not str
            or outgoing.tee is not None
            or outgoing.held is not None
            or outgoing.closed
            or get_ident() != outgoing.thread
            or trace_context.get()
        ):
            return None
        texts = self._texts
        if not texts:
            outgoing.peer.post_later(self._lines)
        texts.append(text)
        self._size = size = self._size + len(text) + self._around
        return size >= FLUSH

    def _lines(self) -> bytes:
        texts = _encoded(self._texts)
        self._texts.clear()
        self._size = 0
        return self._head + (self._tail + self._head).join(texts) + self._tail


def _encoded(texts: list[str]) -> list[bytes]:
    """Each as JSON; a lone surrogate becomes U+FFFD."""
    try:
        return _encoder.encode_lines(texts).splitlines()
    except UnicodeEncodeError:
        return [v2.encode(text) for text in texts]
