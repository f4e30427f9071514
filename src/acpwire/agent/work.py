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
from acpwire.errors import INTERNAL_ERROR, ConnectionClosed, RequestError, UsageError
from acpwire.scope import Scope

__all__ = ["Blocked", "Work", "Works", "current_work"]

_log = logging.getLogger(__name__)
REASONS: Final = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled")
"""Why work may say that it has ended; "error" is told of what raises, which says what it was."""

current_work: ContextVar[Work | None] = ContextVar("acpwire.current_work", default=None)
"""The foreground work that the current code is part of; None for background work."""


class Work:
    """One piece of foreground work; an async context manager around what it does (ST-01, ST-18).

        async with session.foreground() as work:
            ...
            work.stop_reason = "end_turn"

    Entered, the session is running; when no such work is left it is idle, and told why. A `session/cancel` cancels what
    runs inside; that ends at the context, and what comes after goes on. Other exceptions go on; the client is told that
    it failed, and for a `RequestError` why. It is entered once: raises `UsageError` for a second time.

    Attributes:
        stop_reason: to be set: why it ended, when it ends by itself (SR-*); "end_turn" until then.
        usage: to be set: the tokens that it took, a `v2.Usage` (US-06).
        is_cancelled: whether the client cancelled it.
        was_interrupted: afterwards, whether it ended by a cancellation.
        ended: an `asyncio.Event`, set when its end was told.
    """

    def __init__(self, works: Works, name: str = "") -> None:
        self.stop_reason: str = "end_turn"
        """Why it ended, when it ends by itself (SR-*); custom reasons begin with `_` (SR-08)."""
        self.usage: v2.Usage | None = None
        """The tokens that it took (US-06)."""
        self.blocked = 0
        self.ended = asyncio.Event()
        self.works = works
        self.name = name or f"foreground work of session {works.session_id!r}"
        """What it is called in the log."""
        self.alarm: asyncio.TimerHandle | None = None
        """Says in the log that it does not end, some time after it was cancelled."""
        self._scope = Scope()
        self._has_begun = False

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
        if self._has_begun:
            raise UsageError("ST-01: work is entered once; make another one with session.foreground()")
        self.works.begin(self)
        self._has_begun = True
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

    `send` sends a state update. What it raises when the connection is gone ends nothing here. Work that has not ended
    `grace` seconds after it was cancelled is named in the log.
    """

    def __init__(self, send: Callable[[v2.StateUpdate], None], session_id: str, grace: float) -> None:
        self.session_id = session_id
        self.state = v2.StateUpdate(state="idle")
        """What the client was told last; that it is idle, if nothing (ST-07)."""
        self.is_cancelled = False
        """Whether the newest foreground work was cancelled; safe to read from any thread."""
        self._send = send
        self._grace = grace
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
        """Have foreground work done in a task of its own; the session counts as busy from here on.

        What `doing` returns is the stop reason; None leaves that as it is.
        """
        self.begin(work)

        async def do() -> None:
            async with work:
                returned = await doing
                if returned is not None:
                    work.stop_reason = returned

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
        if work.alarm is not None:
            work.alarm.cancel()
        try:
            outcome = _outcome(work, error)  # what is wrong with it is logged in any case
            if self._foreground:
                self.report()
            else:
                self._tell(outcome)
        finally:
            if not self._foreground:
                self._idle.set()
            work.ended.set()

    def cancel(self) -> list[Work]:
        """Cancel all foreground work, and return it; it ends later (CA-04)."""
        cancelled = list(self._foreground)
        for work in cancelled:
            work.cancel()
            self.is_cancelled = True
            if work.alarm is None:
                work.alarm = asyncio.get_running_loop().call_later(self._grace, self._late, work)
        return cancelled

    def _late(self, work: Work) -> None:
        _log.warning(
            "the %s has not ended %g s after it was cancelled: does it swallow CancelledError?", work.name, self._grace
        )

    def _done(self, work: Work, doing: Coroutine[Any, Any, Any], task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        doing.close()  # of a task that was cancelled before it began; else it has run
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        expected = work.was_interrupted or isinstance(error, asyncio.CancelledError | RequestError | ConnectionClosed)
        if error is not None and not expected:
            _log.error("the %s failed", work.name, exc_info=error)
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
    """The idle state that ends this work: its reason, and nothing of an exception's text but a `RequestError`'s.

    It can be told whatever the work has made of its parts (SR-01, SR-07): what cannot be is left out, and logged.
    """
    try:
        usage = _usage(work)
        if work.was_interrupted or isinstance(error, asyncio.CancelledError):
            return v2.StateUpdate(state="idle", stop_reason="cancelled", usage=usage)
        reason = None if error is not None else _reason(work)
        if reason is not None:
            return v2.StateUpdate(state="idle", stop_reason=reason, usage=usage)
        return v2.StateUpdate(state="idle", stop_reason="error", error=_failure(work, error), usage=usage)
    except Exception:  # noqa: BLE001  # whatever it is, the client is told that the work is over
        _log.exception("how the %s ended cannot be told", work.name)
        return v2.StateUpdate(state="idle", stop_reason="error", error=_INTERNAL)


def _reason(work: Work) -> str | None:
    """Why work has ended that ended by itself; None, and a line in the log, where that is no reason (SR-08)."""
    reason: Any = work.stop_reason
    if reason is None:
        return "end_turn"
    if isinstance(reason, str) and (reason in REASONS or reason.startswith("_")):
        return str.__str__(reason)  # of an enum, too
    if reason == "error":
        advice = "raise acpwire.RequestError(code, message) instead, which says what went wrong"
    else:
        known = ", ".join(f'"{one}"' for one in REASONS)
        advice = f"return a stop reason, or None for end_turn: {known}, or one of your own that begins with _"
    _log.error("SR-08: the %s returned %.200r; %s", work.name, reason, advice)
    return None


def _usage(work: Work) -> v2.Usage | None:
    """The tokens that work took; None, and a line in the log, where they cannot be told: they are optional (US-06)."""
    usage: Any = work.usage
    if usage is None:
        return None
    if not isinstance(usage, v2.Usage):
        wrong = f"expected v2.Usage, not {type(usage).__name__}"
    else:
        wrong = "; ".join(f"{one.message} - at `{one.path}`" for one in v2.validate(usage))
    if not wrong:
        return work.usage
    _log.error("US-06: the usage of the %s is left out: %s", work.name, wrong)
    return None


def _failure(work: Work, error: BaseException | None) -> v2.Error:
    """What a client is told of a failure: a `RequestError` that can be, or that it is an internal error."""
    if not isinstance(error, RequestError):
        return _INTERNAL
    told = v2.Error(code=error.code, message=error.message)
    wrong = v2.validate(told)
    if not wrong:
        return told
    words = "; ".join(f"{one.message} - at `{one.path}`" for one in wrong)
    _log.error("SR-07: the %s raised %.200r, which cannot be told: %s", work.name, error, words)
    return _INTERNAL


_INTERNAL: Final = v2.Error(code=INTERNAL_ERROR, message="Internal error")
