"""Cancelling what runs inside an `async with`, and nothing around it.

Owns: telling a cancellation that was asked for here from one that came from outside. Does not know: what is cancelled.
"""

from __future__ import annotations

import asyncio

__all__ = ["Scope"]


class Scope:
    """The part of a task between `enter` and `leave`, which can be cancelled for itself."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self.was_interrupted = False
        """After `leave`: whether it ended by a cancellation, from here or outside, even one wrapped in an exception."""
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._told = False
        self._due: asyncio.Handle | None = None

    def enter(self) -> None:
        """Begin, in the current task."""
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task is not None else 0
        if self.is_cancelled:
            self._tell()

    def cancel(self) -> None:
        """Cancel what runs inside, or what will, as soon as it is entered; once."""
        if not self.is_cancelled:
            self.is_cancelled = True
            self._tell()

    def leave(self, error: BaseException | None) -> bool:
        """End. True where `error` is the cancellation that was asked for here, which ends here."""
        task, self._task = self._task, None
        if self._due is not None:
            self._due.cancel()
        is_cancellation = isinstance(error, asyncio.CancelledError)
        self.was_interrupted = self.is_cancelled or is_cancellation
        if task is None:
            return False
        self.was_interrupted |= error is not None and task.cancelling() > self._cancelling
        return self._told and task.uncancel() <= self._cancelling and is_cancellation

    def _tell(self) -> None:
        if self._task is asyncio.current_task() is not None:
            # A task that cancels itself would be told when it waits next, which may be after it has left.
            self._due = asyncio.get_running_loop().call_soon(self._tell_task)
        else:
            self._tell_task()

    def _tell_task(self) -> None:
        if self._task is not None and not self._told:
            self._told = True
            self._task.cancel()
