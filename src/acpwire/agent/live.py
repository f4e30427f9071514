"""What the runtime keeps of a session that is live on a connection.

Owns: prompts that are held, what can be cancelled, the children, and the end of a session. Does not know: requests of a
client, or what an agent can do in a session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeVar

from acpwire import v2
from acpwire.errors import INVALID_PARAMS, ConnectionClosed, RequestError, UsageError
from acpwire.peer import Peer
from acpwire.scope import Scope

from .outgoing import Outgoing, new_id
from .work import Work, Works
from .writers import Entity

__all__ = ["Live"]

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Live:
    """A session on a connection; `registry` holds all of them by id, and gets this one.

    `grace` is how many seconds what was cancelled may take to end before that is logged.
    """

    def __init__(
        self, session_id: str, cwd: str, peer: Peer, registry: dict[str, Live], grace: float, parent: Live | None = None
    ) -> None:
        self.id = session_id
        self.cwd = cwd
        self.peer = peer
        self.parent = parent
        self.outgoing = Outgoing(peer, session_id)
        self.works = Works(self._send_state, session_id, grace)
        self.running: dict[tuple[str, str], Entity] = {}
        """The tool calls, terminals and compactions that run, by kind and id."""
        self.background: list[asyncio.Task[Any]] = []
        self.may_be_cancelled = True
        """Whether the client may cancel its foreground work; of a child, only while its parent says so (SA-06)."""
        self.is_set_up = parent is not None
        """Whether the request that made it has been answered, or is about to be."""
        self._registry = registry
        self._grace = grace
        self._children: list[Live] = []
        self._held: set[Scope] = set()
        self._admission = asyncio.Lock()
        self._shutting: asyncio.Task[None] | None = None
        registry[session_id] = self

    def child(self, session_id: str, cwd: str) -> Live:
        """A child session, which was announced."""
        child = Live(session_id, cwd, self.peer, self._registry, self._grace, self)
        self._children.append(child)
        return child

    def is_taken(self, session_id: str) -> bool:
        """Whether a session on this connection has that id."""
        return session_id in self._registry

    def knows(self, session_id: str) -> bool:
        """Whether a session is this one, above it, or a child of it (SM-13)."""
        lineage = [self, *self._above(), *self._children]
        return any(live.id == session_id for live in lineage)

    def hold(self) -> Scope:
        """Count a prompt as held, from the moment that it was received: what is cancelled from then on concerns it."""
        scope = Scope()
        self._held.add(scope)
        return scope

    async def admit(self, held: Scope, admit: Callable[[], Awaitable[None]], insert: Callable[[], T]) -> T:
        """Hold a prompt until it is admitted, in receive order, then insert it in the same step (PL-09, PL-27).

        Cancelled before the insertion, it was never there (PL-28).
        """
        held.enter()
        try:
            async with self._admission:
                await admit()
                if held.is_cancelled:
                    raise RequestError.cancelled()
                return insert()
        finally:
            self._held.discard(held)

    def insert(self, content: Sequence[v2.ContentBlock], meta: Mapping[str, Any] | None) -> str:
        """Tell that a user message is part of the conversation now, and return its id (PL-15, PL-19, PL-22)."""
        message_id = new_id("msg")
        fields: dict[str, Any] = {} if meta is None else {"meta": meta}
        self.outgoing.post(v2.UserMessage(message_id=message_id, content=list(content), **fields), is_own=False)
        return message_id

    def cancel(self) -> list[Work]:
        """What `session/cancel` does: cancel foreground work and the prompts that are held (CA-04, CA-10, PL-28)."""
        for held in self._held:
            held.cancel()
        return self.works.cancel()

    def cancel_entity(self, kind: str, entity_id: str) -> None:
        """Cancel a tool call or a terminal for itself. Raises -32602 where that cannot be (TC-19, TM-11)."""
        entity = self.running.get((kind, entity_id))
        if entity is None:  # what has been left is not remembered
            raise RequestError(INVALID_PARAMS, f"No such {kind} is running: it is unknown, or final already")
        if not entity.can_cancel:
            why = "it is final already" if entity.is_over else "its capabilities do not say that it can be"
            raise RequestError(INVALID_PARAMS, f"This {kind} cannot be cancelled: {why}")
        entity.cancel()

    def shut(self, reason: str, grace: float) -> Awaitable[None]:
        """End all work of the session and its children, tell how it ended, and say nothing after that (CA-12).

        Nothing new begins from the call on. Where waiting for the end is cancelled, ending goes on; a second call waits
        for what the first has begun.
        """
        if self._shutting is None:
            self.close_to_new(reason)
            self._shutting = asyncio.get_running_loop().create_task(self._shut(reason, grace))
        return asyncio.shield(self._shutting)

    def close_to_new(self, reason: str) -> None:
        """Have nothing new begin, here and in the children."""
        self.outgoing.closing = reason
        for child in self._children:
            child.close_to_new(reason)

    async def _shut(self, reason: str, grace: float) -> None:
        background = set(self.background)
        for task in background:
            task.cancel(reason)
        ending = [work.ended.wait() for work in self.cancel()]
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await asyncio.gather(*ending, *(child.shut(reason, grace) for child in self._children))
                if background:
                    await asyncio.wait(background)
                async with self.outgoing.replaying:  # it has stopped, and what was held back is sent
                    pass
        self.fall_silent(reason)

    def fall_silent(self, reason: str) -> None:
        """Say nothing any more, here and in the children."""
        self.outgoing.close(reason)
        self._registry.pop(self.id, None)
        for child in self._children:
            child.fall_silent(reason)

    def _send_state(self, state: v2.StateUpdate) -> None:
        _post(self.outgoing, state)
        if self.parent is not None:
            snapshot = v2.StateSnapshot(**{name: getattr(state, name) for name in state.__struct_fields__})
            _post(self.parent.outgoing, v2.SubagentUpdate(session_id=self.id, state=snapshot))

    def _above(self) -> Iterator[Live]:
        held = self.parent
        while held is not None:
            yield held
            held = held.parent


def _post(outgoing: Outgoing, update: v2.SessionUpdate) -> None:
    """Send an update that has to be told, also where the work has left something in its context that cannot be."""
    with suppress(ConnectionClosed, UsageError):  # nobody is left to be told
        try:
            outgoing.post(update)
        except (ConnectionClosed, UsageError):
            raise
        except Exception:  # noqa: BLE001  # it is logged, and a client that is not told would wait for ever
            _log.exception("the trace of session %r cannot be sent; a state goes without", outgoing.session_id)
            Context().run(outgoing.post, update)
