"""What a session is busy with, and what its client is told of that.

Owns: foreground work, whether all of it waits for the user, the background snapshot, and from these the state: when it
is sent, with which reason, once. Does not know: prompts, or what the work does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from types import TracebackType
from typing import Any, Final, Self

from acpwire import v2
from acpwire.errors import INTERNAL_ERROR, ConnectionClosed, RequestError
from acpwire.scope import Scope

__all__ = ["Blocked", "Work", "Works", "current_work"]

_log = logging.getLogger(__name__)
REASONS: Final = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error"})

current_work: ContextVar[Work | None] = ContextVar("acpwire.current_work", default=None)
"""The foreground work that the current code is part of; None for background work."""


class Work:
    """One piece of foreground work; an async context manager around what it does (ST-01, ST-18).

        async with session.foreground() as work:
            ...
            work.stop_reason = "end_turn"

    Entered, the session is running; when no such work is left it is idle, and told why. A `session/cancel` cancels what
    runs inside; that ends at the context, and what comes after goes on. Other exceptions go on; the client is told that
    it failed, and for a `RequestError` why.
    """

    def __init__(self, works: Works) -> None:
        self.stop_reason: str = "end_turn"
        """Why it ended, when it ends by itself (SR-*); custom reasons begin with `_` (SR-08)."""
        self.usage: v2.Usage | None = None
        """The tokens that it took (US-06)."""
        self.blocked = 0
        self.ended = asyncio.Event()
        self.works = works
        self._scope = Scope()

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled by the client."""
        return self._scope.is_cancelled

    @property
    def was_interrupted(self) -> bool:
        """Whether it ended by a cancellation, from the client or not, whatever a library made of that (SR-11)."""
        return self._scope.was_interrupted

    def cancel(self) -> None:
        """Cancel what runs inside, or will."""
        self._scope.cancel()

    async def __aenter__(self) -> Self:
        self.works.begin(self)
        self._token = current_work.set(self)
        self._scope.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        ours = self._scope.leave(error)
        current_work.reset(self._token)
        self.works.end(self, error)
        return ours


class Works:
    """All that a session does, and its state.

    `send` sends a state update. What it raises when the connection is gone ends nothing here.
    """

    def __init__(self, send: Callable[[v2.StateUpdate], None]) -> None:
        self.state = v2.StateUpdate(state="idle")
        """What the client was told last; that it is idle, if nothing (ST-07)."""
        self.is_cancelled = False
        """Whether the newest foreground work was cancelled; safe to read from any thread."""
        self._send = send
        self._foreground: list[Work] = []
        self._background: list[v2.BackgroundWork] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    # --- foreground -----------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether no foreground work is left."""
        return not self._foreground

    async def wait_idle(self) -> None:
        """Wait until no foreground work is left. Safe to cancel."""
        while self._foreground:
            await self._idle.wait()

    def run(self, work: Work, doing: Coroutine[Any, Any, str | None]) -> None:
        """Have foreground work done in a task of its own; the session counts as busy from here on."""
        self.begin(work)

        async def do() -> None:
            async with work:
                work.stop_reason = await doing or work.stop_reason

        task = asyncio.get_running_loop().create_task(do(), context=copy_context())
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._done(work, doing, done))

    def begin(self, work: Work) -> None:
        """Count foreground work; once."""
        if work not in self._foreground:
            self._foreground.append(work)
            self._idle.clear()
            self.is_cancelled = False
            self.report()

    def end(self, work: Work, error: BaseException | None) -> None:
        """Foreground work has ended, with an exception or without; tell it when it was the last (ST-02)."""
        if work not in self._foreground:
            return
        self._foreground.remove(work)
        if self._foreground:
            self.report()
        else:
            self._tell(_outcome(work, error))
            self._idle.set()
        work.ended.set()

    def cancel(self) -> list[Work]:
        """Cancel all foreground work, and return it; it ends later (CA-04)."""
        cancelled = list(self._foreground)
        for work in cancelled:
            work.cancel()
            self.is_cancelled = True
        return cancelled

    def _done(self, work: Work, doing: Coroutine[Any, Any, Any], task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        doing.close()  # of a task that was cancelled before it began; else it has run
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        expected = work.was_interrupted or isinstance(error, asyncio.CancelledError | RequestError | ConnectionClosed)
        if error is not None and not expected:
            _log.error("the foreground work of a session failed", exc_info=error)
        self.end(work, error)

    # --- what the client sees ---------------------------------------------------------------------------------------

    def report(self, *, again: bool = False) -> None:
        """Tell the state of work that goes on, where it has changed; `again`: in any case (ST-09)."""
        if not self._foreground:
            state = self.state if self.state.state == "idle" else v2.StateUpdate(state="idle")
        elif all(work.blocked for work in self._foreground):
            state = v2.StateUpdate(state="requires_action")
        else:
            state = v2.StateUpdate(state="running")
        if again or state.state != self.state.state:
            self._tell(state)

    def _tell(self, state: v2.StateUpdate) -> None:
        self.state = v2.StateUpdate(
            state=state.state,
            stop_reason=state.stop_reason,
            usage=state.usage,
            error=state.error,
            background=None if self._background is None else list(self._background),
        )
        self._send(self.state)

    # --- background -------------------------------------------------------------------------------------------------

    def add_background(self, item: v2.BackgroundWork) -> None:
        """List an item in every state from here on (BG-01, BG-02); it was announced before (BG-03)."""
        self._background = [*(self._background or []), item]
        self.report(again=True)

    def remove_background(self, item: v2.BackgroundWork) -> None:
        """Take an item off the list; its end was told before (BG-03)."""
        if self._background is not None and item in self._background:
            self._background = [held for held in self._background if held is not item]
            self.report(again=True)


class Blocked:
    """While it is entered, its work waits for the user (ST-04, ST-05). Outside foreground work it does nothing."""

    def __init__(self, works: Works, work: Work | None) -> None:
        self._works = works
        self._work = work

    async def __aenter__(self) -> Self:
        self._count(1)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._count(-1)

    def _count(self, change: int) -> None:
        if self._work is not None:
            self._work.blocked += change
            self._works.report()


def _outcome(work: Work, error: BaseException | None) -> v2.StateUpdate:
    """The idle state that ends this work: its reason, and nothing of an exception's text but a `RequestError`'s."""
    if work.was_interrupted or isinstance(error, asyncio.CancelledError):
        return v2.StateUpdate(state="idle", stop_reason="cancelled", usage=work.usage)
    reason = work.stop_reason
    if error is None and (reason in REASONS or reason.startswith("_")):
        return v2.StateUpdate(state="idle", stop_reason=reason, usage=work.usage)
    if error is None:
        _log.error("SR-08: %r is no stop reason; custom ones begin with `_`", reason)
    failure = error if isinstance(error, RequestError) else RequestError(INTERNAL_ERROR, "Internal error")
    told = v2.Error(code=failure.code, message=failure.message)
    return v2.StateUpdate(state="idle", stop_reason="error", error=told, usage=work.usage)
