"""Streams: what was delivered, waiting for one reader.

Owns: the buffer between the pump, which never waits, and a reader, which does; when reading pauses for it; what happens
when nobody reads. Does not know: what it holds, or how reading pauses (`Gate`).

The pump puts into a `Feed`, and a user reads from its `Stream`: so that a stream that was dropped is one that wants no
more, and whoever feeds it need not ask each time whether it is still there.

A stream takes part in back-pressure from the first step of its iteration on: above 1,000 waiting items it holds the
gate, below a quarter of that it lets go. The pump obeys only while no request of ours waits for its answer, else a full
stream would keep the answer from whoever awaits it before reading on. Beyond that the buffer grows up to its limit in
bytes; then that stream alone ends with `StreamOverflow`, after what it holds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from sys import maxsize
from typing import Final, Generic, Protocol, TypeVar

from acpwire.errors import StreamOverflow, UsageError
from acpwire.limits import Limits

__all__ = ["Feed", "Gate", "Stream"]

T = TypeVar("T")

HIGH: Final = 1000
"""Above how many waiting items a stream that is being read holds the gate."""
LOW: Final = HIGH // 4
"""Below how many it lets go."""
_NEVER: Final = maxsize


class Gate(Protocol):
    """What lets a stream pause the reading of its source."""

    def hold(self, holder: object) -> None:
        """Pause for this holder, until `release`."""
        ...

    def release(self, holder: object) -> None:
        """Go on, as far as this holder is concerned; nothing happens if it held nothing."""
        ...


class Feed(Generic[T]):
    """The pump's side of a stream: nothing here waits.

    Its source counts the bytes of all that it delivers, and tells with each item how many they are with it: `total`.

    Attributes:
        began: the total before the first item.
        is_done: whether nothing is added any more.
        items: what waits for the reader.
        totals: the total of each of them.
        limit: how many bytes may wait.
        ceiling: the greatest total that may be put before more is read: that of what was read last, and the limit.
        error: what is raised after the last item; None for a plain end.
        is_begun: whether somebody has begun to read.
        is_held: whether it holds the gate.
    """

    __slots__ = (
        "_gate",
        "_mark",
        "_waking",
        "began",
        "ceiling",
        "error",
        "is_begun",
        "is_done",
        "is_held",
        "items",
        "limit",
        "totals",
    )

    def __init__(self, gate: Gate, limits: Limits, began: int = 0) -> None:
        self._gate = gate
        self._mark = _NEVER  # with more items than this there is something to do
        self._waking: asyncio.Future[None] | None = None  # what the reader waits for
        self.began = began
        self.is_done = False
        self.items: deque[T] = deque()
        self.totals: deque[int] = deque()
        self.limit = limits.stream
        self.ceiling = began + limits.stream
        self.error: Exception | None = None
        self.is_begun = False
        self.is_held = False

    def put(self, item: T, total: int) -> bool:
        """Add an item, and say whether more is wanted; not once it is done.

        Called for every update: what is rare is not in here.
        """
        if total > self.ceiling:
            self._refuse()
            return False
        self.totals.append(total)
        items = self.items
        items.append(item)
        if len(items) > self._mark:
            self._attend()
        return True

    def end(self, error: Exception | None = None) -> None:
        """Add nothing any more. What waits is still read, then iteration ends, with `error` if there is one."""
        if self.is_done:
            return
        self.is_done, self.error = True, error
        self.limit = self.ceiling = -_NEVER
        self.let_go()
        self._wake()

    def end_at(self, total: int) -> None:
        """End it where it was with this total; what is beyond, and was not read, is dropped."""
        while self.totals and self.totals[-1] > total:
            self.totals.pop()
            self.items.pop()
        self.end()

    def drop(self) -> None:
        """Nobody reads, or ever will."""
        self._waking = None  # who waited is gone, and perhaps its loop
        self.close()

    def close(self) -> None:
        """Want nothing any more: what waits is dropped, too."""
        self.end()
        self.error = None
        self.items.clear()
        self.totals.clear()

    # --- for the reader -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Somebody reads from now on."""
        self.is_begun = True
        self._mark = HIGH

    def more(self) -> asyncio.Future[None]:
        """What is done as soon as an item is there, or there is an end."""
        self._mark = 0
        self._waking = asyncio.get_running_loop().create_future()
        return self._waking

    def let_go(self) -> None:
        """Hold the gate no more."""
        if self.is_held:
            self.is_held = False
            self._mark = HIGH
            self._gate.release(self)

    # --- what is rare ---------------------------------------------------------------------------------------------

    def _attend(self) -> None:
        """There is something for a reader that waits, or more than should be."""
        if self._waking is not None:
            self._wake()
        else:
            self._mark = _NEVER
            self._gate.hold(self)
            self.is_held = True
            if self.is_done:  # the stream was dropped meanwhile: what holds may collect garbage
                self.let_go()

    def _wake(self) -> None:
        """Have the reader go on, if it waits."""
        waking, self._waking = self._waking, None
        self._mark = HIGH
        if waking is not None and not waking.done():
            waking.set_result(None)

    def _refuse(self) -> None:
        """What is put is too much, or too late."""
        if not self.is_done:
            self.end(
                StreamOverflow(
                    f"more than {self.limit} bytes (Limits.stream) waited to be read, after {len(self.items)} items; "
                    "iterate the stream while requests are under way, or close it"
                )
            )


class Stream(Generic[T]):
    """Items in the order in which they were delivered, for one reader.

        async for item in stream: ...
        async for items in stream.batches(): ...     # what is there, as a list; never empty

    Iteration ends when the stream does, and raises `StreamOverflow` where it was left unread for too long. Cancelling a
    step loses nothing. Two readers at once are a `UsageError`.
    """

    __slots__ = ("__weakref__", "_feed", "_is_waited_for")

    def __init__(self, feed: Feed[T]) -> None:
        self._feed = feed
        self._is_waited_for = False

    def __del__(self) -> None:
        self._feed.drop()

    def __len__(self) -> int:
        """How many items wait for the reader."""
        return len(self._feed.items)

    @property
    def is_done(self) -> bool:
        """Whether nothing is added any more."""
        return self._feed.is_done

    def close(self) -> None:
        """Want nothing any more: what waits is dropped, and iteration ends."""
        self._feed.close()

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        feed = self._feed
        items = feed.items
        if not items:
            await self._more()
        elif not feed.is_begun:
            feed.begin()
        feed.ceiling = feed.totals.popleft() + feed.limit
        item = items.popleft()
        if feed.is_held and len(items) < LOW:
            feed.let_go()
        return item

    def batches(self) -> AsyncIterator[list[T]]:
        """All that waits, again and again, as lists."""
        return _Batches(self._batch)

    async def _batch(self) -> list[T]:
        feed = self._feed
        if not feed.items:
            await self._more()
        elif not feed.is_begun:
            feed.begin()
        feed.ceiling = feed.totals[-1] + feed.limit
        batch = list(feed.items)
        feed.items.clear()
        feed.totals.clear()
        feed.let_go()
        return batch

    async def _more(self) -> None:
        """Wait until something is there. Raises `StopAsyncIteration`, or the error, at the end."""
        feed = self._feed
        if self._is_waited_for:
            raise UsageError("two tasks read one stream")
        feed.begin()
        while not feed.items:
            if feed.is_done:
                if feed.error is not None:
                    raise feed.error
                raise StopAsyncIteration
            self._is_waited_for = True
            try:
                await feed.more()
            finally:
                self._is_waited_for = False


class _Batches(Generic[T]):
    """No generator, as one that is cancelled once has ended."""

    def __init__(self, batch: Callable[[], Awaitable[list[T]]]) -> None:
        self._batch = batch

    def __aiter__(self) -> AsyncIterator[list[T]]:
        return self

    def __anext__(self) -> Awaitable[list[T]]:
        return self._batch()
