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
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._told = False

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
        if not self._told or task is None:
            return False
        return task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError)

    def _tell(self) -> None:
        if self._task is not None and not self._told:
            self._told = True
            self._task.cancel()
