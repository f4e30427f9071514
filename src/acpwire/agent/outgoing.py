"""How the updates of one session leave.

Owns: sending an update, checking what binds its sender, the tee for stores, refusing what comes too late or from
another thread, holding updates back while a history is replayed, ids. Does not know: which updates there are, or in
which order they belong.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from threading import get_ident
from typing import Any, Final, TypeAlias
from uuid import uuid4

from acpwire import v2
from acpwire.errors import ConnectionClosed, EncodeError, UsageError
from acpwire.peer import Peer
from acpwire.texts import HOLE, SHORT, Texts
from acpwire.trace import trace_context
from acpwire.wire.frames import Method

__all__ = ["Chunk", "Chunks", "Outgoing", "new_id", "sendable"]

Chunk: TypeAlias = v2.AgentMessageChunk | v2.AgentThoughtChunk
_UPDATE: Final = v2.SESSION_UPDATE
_TextContent: Final = v2.TextContent
_CHUNKS: Final = frozenset({v2.AgentMessageChunk, v2.AgentThoughtChunk})
_log = logging.getLogger(__name__)


def new_id(kind: str) -> str:
    """An id that no other entity has: short words tell a reader of the wire what it is of."""
    return f"{kind}_{uuid4().hex}"


def sendable(value: Any) -> None:
    """Raise `EncodeError` for what a peer may refuse, with the requirement that says so."""
    wrong = v2.validate(value)
    if wrong:
        raise EncodeError("; ".join(f"{one.message} - at `{one.path}` ({one.requirement})" for one in wrong))


def _text(content: Any) -> str | None:
    """The text of a block that is nothing but text, in which nothing can be wrong; None of all else."""
    is_plain = content.__class__ is _TextContent and content.meta is None and content.annotations is None
    return content.text if is_plain and content.text.__class__ is str else None


def _is_text(update: Any) -> bool:
    """Whether an update is a chunk of text in which nothing can be wrong."""
    is_chunk = update.__class__ in _CHUNKS and update.meta is None and update.message_id.__class__ is str
    return is_chunk and _text(update.content) is not None


class Outgoing:
    """The way out of one session: everything that its agent says about it goes through here, in order."""

    def __init__(self, peer: Peer, session_id: str) -> None:
        self.session_id = session_id
        self.peer = peer
        self.closing = ""
        """Why nothing new may begin; empty while something may."""
        self.replaying = asyncio.Lock()
        """Held by a replay."""
        self.plain = self._thread = get_ident()
        """The thread in which text may leave as bytes: 0 where somebody looks on, it has to wait, or must not leave."""
        self._closed = ""
        self._tee: Callable[[v2.SessionUpdate], object] | None = None
        self._held: list[v2.SessionUpdate] | None = None  # what was said during a replay, to be sent after it
        self._goes_on = asyncio.Event()
        self._chunks: Chunks | None = None  # of the message whose text was sent last

    def watch(self, tee: Callable[[v2.SessionUpdate], object]) -> None:
        """Have every update given to somebody after it was sent."""
        self._tee = tee
        self.plain = 0

    def close(self, reason: str) -> None:
        """Send nothing any more, for this reason."""
        self._closed = reason
        self.plain = 0

    def check(self, *, begins: bool = False) -> None:
        """Raise `UsageError` where nothing can be sent from: another thread, or after the session was closed.

        `begins`: once it is being closed, too.
        """
        if get_ident() != self._thread:
            raise UsageError(
                "a session belongs to the thread of its event loop: from a worker thread use "
                "asyncio.run_coroutine_threadsafe(..., session.loop)"
            )
        if self._closed or (begins and self.closing):
            raise UsageError(f"session {self.session_id!r}: {self._closed or self.closing}")

    def post(self, update: v2.SessionUpdate, *, is_own: bool = True) -> bool:
        """Send an update without waiting; `is_own`: not what a client said, which goes back as it came.

        Returns whether a sender that can wait should, by `flow`. Raises `EncodeError` for what a peer may refuse, and
        `ConnectionClosed`.
        """
        is_full = self._as_text(update)
        if is_full is not None:
            return is_full
        self.check()
        if is_own and not _is_text(update):
            sendable(update)
        if self._held is None:
            return self._put(update)
        self._held.append(update)
        return True

    def send(self, update: v2.SessionUpdate) -> Coroutine[Any, Any, None]:
        """Send an update; awaiting it waits while the client takes nothing.

        The call itself sends it, even where the waiting is cancelled; from another thread, whoever awaits it does.
        Raises as `post` does.
        """
        is_full = self._as_text(update)
        if is_full is None:
            return self.send_all((update,))
        return self.flow() if is_full else self.peer.sent

    def send_all(self, updates: Sequence[v2.SessionUpdate]) -> Coroutine[Any, Any, None]:
        """Send updates, as `send` does."""
        if get_ident() != self._thread:
            return self._send_there(updates)
        is_full = False
        for update in updates:
            if self.post(update):
                is_full = True
        return self.flow() if is_full else self.peer.sent

    async def _send_there(self, updates: Sequence[v2.SessionUpdate]) -> None:
        self.check()
        await self.send_all(updates)

    async def flow(self) -> None:
        """Wait where a sender should, after `post`: during a replay, and while the client takes nothing."""
        while self._held is not None:
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
            self._held, self.plain = [], 0
            self._goes_on.clear()
            try:
                for update in updates:
                    self.check(begins=True)
                    self.peer.post(_UPDATE, v2.UpdateSessionNotification(session_id=self.session_id, update=update))
                    replayed(update)
                    await self.peer.flow()
            finally:
                held, self._held = self._held, None
                self.plain = 0 if self._closed or self._tee else self._thread
                self._goes_on.set()
                with suppress(ConnectionClosed):  # those who said it are told when they say more
                    for update in held if not self._closed else ():
                        self._put(update)

    def told(self, update: v2.SessionUpdate) -> None:
        """Tell those who look on; what they raise is their affair."""
        if self._tee is not None:
            try:
                self._tee(update)
            except Exception:  # noqa: BLE001  # it is logged, and whoever sends has nothing to do with it
                _log.exception("what looks on at the updates of session %r failed", self.session_id)

    def _put(self, update: v2.SessionUpdate) -> bool:
        is_full = self.peer.post(_UPDATE, v2.UpdateSessionNotification(session_id=self.session_id, update=update))
        if self._tee is not None:
            self.told(update)
        return is_full

    def _as_text(self, update: Any) -> bool | None:
        """Send a chunk of text, which is sent most, as `Chunks.post` does. None: it is none, or cannot go as bytes."""
        if get_ident() != self.plain or trace_context.get():
            return None
        chunks = self._chunks
        if chunks is None or update.__class__ is not chunks.kind or update.message_id != chunks.message_id:
            if not _is_text(update):
                return None
            chunks = self._chunks = Chunks(self, update.__class__, update.message_id)
        text = None if update.meta is not None else _text(update.content)
        if text is None:
            return None
        texts = chunks.texts
        if not texts or len(text) > SHORT:
            return chunks.post(text)
        texts.append(text)
        return len(texts) >= chunks.most


class Chunks(Texts):
    """The texts of one message.

    A short one may be appended to others that wait as it is, and who sends should wait when there are `most` of them.
    """

    def __init__(self, outgoing: Outgoing, kind: type[Chunk], message_id: str) -> None:
        update = kind(message_id=message_id, content=v2.TextContent(text=HOLE))
        super().__init__(_UPDATE, v2.UpdateSessionNotification(session_id=outgoing.session_id, update=update))
        self.kind = kind
        self.message_id = message_id
        self.most = 0
        self._outgoing = outgoing

    def post(self, text: str) -> bool:
        """Send one without waiting; returns whether a sender should wait. Raises `ConnectionClosed`.

        To be called in `Outgoing.plain` alone, and outside of any trace.
        """
        texts = self.texts
        texts.append(text)
        if len(texts) == 1:
            try:
                self.most = self._outgoing.peer.post_later(self.append_to) // self.each + 1
            except BaseException:
                texts.clear()  # or they would seem to wait for somebody
                raise
        if len(text) > SHORT:  # to add up all sizes would take as long as the rest of this
            self.most -= len(text) // self.each
        return len(texts) >= self.most
