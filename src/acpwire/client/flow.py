"""When the reading of a connection pauses, and callbacks that nothing else would wait for.

Owns: `Gate`, through which full streams pause reading unless somebody waits for an end; `Callbacks`, which keeps what a
user's callbacks do in the order in which they were called. Does not know: what streams hold, or what is called.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from inspect import isawaitable
from typing import Any

from acpwire.failures import ENDS, log_failure
from acpwire.streams import Gate as Source

__all__ = ["Callbacks", "Gate"]


class Gate:
    """What pauses the reading of a source for those who hold it, except while somebody needs what is still to come."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._holders: set[int] = set()
        self._needed = 0

    def hold(self, holder: object) -> None:
        """Pause for this holder, until `release`."""
        self._holders.add(id(holder))
        self._regulate()

    def release(self, holder: object) -> None:
        """Go on, as far as this holder is concerned."""
        self._holders.discard(id(holder))
        self._regulate()

    @contextmanager
    def kept_open(self) -> Generator[None]:
        """A block in which reading goes on whoever holds: to wait in it for an end is to wait for what is unread."""
        self._needed += 1
        self._regulate()
        try:
            yield
        finally:
            self._needed -= 1
            self._regulate()

    def _regulate(self) -> None:
        if self._holders and not self._needed:
            self._source.hold(self)
        else:
            self._source.release(self)


class Callbacks:
    """Calls what a user wrote from where nothing can be awaited, one after the other.

    A callback that has to wait is waited for in a task; those that are called meanwhile come after it, and the source
    is held until all are done, whoever waits for an end: else they might never catch up. What they raise is logged.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._due: deque[Callable[[], Any]] = deque()
        self._task: asyncio.Task[None] | None = None
        self.is_behind = False
        """Whether some are still to be called."""

    def call(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Call it now, or after those that are before it."""
        if self.is_behind:
            self._due.append(partial(callback, *arguments))
            return
        outcome = self._outcome(partial(callback, *arguments))
        if isawaitable(outcome):
            self._source.hold(self)
            self.is_behind = True
            self._task = asyncio.get_running_loop().create_task(self._catch_up(outcome))

    async def stop(self, grace: float) -> None:
        """Call nothing more, and cancel what waits; it has so many seconds to clean up."""
        self._due.clear()
        task = self._task
        if task is not None:
            await asyncio.sleep(0)  # so that it has begun: what it waits for is never left unawaited
            task.cancel("the connection was closed")
            await asyncio.wait([task], timeout=grace)

    async def _catch_up(self, outcome: Any) -> None:
        try:
            while True:
                if isawaitable(outcome):
                    await self._finished(outcome)
                if not self._due:
                    return
                outcome = self._outcome(self._due.popleft())
        finally:
            self._task = None
            self.is_behind = False
            self._source.release(self)

    def _outcome(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except ENDS:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever a user's function raises
            log_failure(self._source, error, "a callback of the client")
            return None

    async def _finished(self, outcome: Any) -> None:
        try:
            await outcome
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            log_failure(self._source, error, "a callback of the client", "was cancelled from inside")
        except ENDS:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever a user's function raises
            log_failure(self._source, error, "a callback of the client")
