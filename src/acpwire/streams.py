"""Streams: what was delivered, waiting for one reader.

Owns: the buffer between the pump, which never waits, and a reader, which does; when reading pauses for it; what happens
when nobody reads. Does not know: what it holds, or how reading pauses (`Gate`).

A stream takes part in back-pressure from the first step of its iteration on: above 1,000 waiting items it holds the
gate, below a quarter of that it lets go. The pump obeys only while no request of ours waits for its answer, else a full
stream would keep the answer from whoever awaits it before reading on. Beyond that the buffer grows up to its limit in
bytes; then that stream alone ends with `StreamOverflow`, after what it holds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from acpwire.errors import StreamOverflow, UsageError
from acpwire.limits import Limits

__all__ = ["Gate", "Stream"]

T = TypeVar("T")

HIGH = 1000
"""Above how many waiting items a stream that is being read holds the gate."""
LOW = HIGH // 4
"""Below how many it lets go."""


class Gate(Protocol):
    """What lets a stream pause the reading of its source."""

    def hold(self, holder: object) -> None:
        """Pause for this holder, until `release`."""
        ...

    def release(self, holder: object) -> None:
        """Go on, as far as this holder is concerned; nothing happens if it held nothing."""
        ...


class Stream(Generic[T]):
    """Items in the order in which they were put, for one reader.

        async for item in stream: ...
        async for items in stream.batches(): ...     # what is there, as a list; never empty

    Iteration ends when the stream does, and raises `StreamOverflow` where it was left unread for too long. Cancelling a
    step loses nothing. Two readers at once are a `UsageError`.
    """

    __slots__ = (
        "__weakref__",
        "_begun",
        "_bytes",
        "_error",
        "_gate",
        "_held",
        "_is_done",
        "_items",
        "_limit",
        "_read_so_far",
        "_sizes",
        "_waiter",
        "_waking",
    )

    def __init__(self, gate: Gate, limits: Limits) -> None:
        self._gate = gate
        self._limit = limits.stream
        self._items: deque[T] = deque()
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self._read_so_far = 0
        self._begun = False
        self._held = False
        self._is_done = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None  # what the reader waits for
        self._waking: asyncio.Future[None] | None = None  # the same, until it is to go on

    def __del__(self) -> None:
        self._let_go()

    def __len__(self) -> int:
        """How many items wait for the reader."""
        return len(self._items)

    @property
    def is_done(self) -> bool:
        """Whether nothing is added any more."""
        return self._is_done

    @property
    def put_so_far(self) -> int:
        """How many items were ever put."""
        return self._read_so_far + len(self._items)

    # --- the pump's side: nothing here waits ----------------------------------------------------------------------

    def put(self, item: T, size: int) -> bool:
        """Add an item that took `size` bytes on the wire, and say whether more is wanted; not once the stream is done.

        Called for every update: what is rare is not in here.
        """
        self._bytes = waiting = self._bytes + size
        if waiting > self._limit:
            self._refuse(size)
            return False
        self._sizes.append(size)
        items = self._items
        items.append(item)
        if self._waking is not None:
            self._wake()
        if len(items) > HIGH and self._begun and not self._held:
            self._held = True
            self._gate.hold(self)
        return True

    def end(self, error: Exception | None = None) -> None:
        """Add nothing any more. What waits is still read, then iteration ends, with `error` if there is one."""
        if self._is_done:
            return
        self._is_done, self._error, self._limit = True, error, -1
        self._let_go()
        self._wake()

    def end_at(self, put_so_far: int) -> None:
        """End it where it was when so many items had been put; what is beyond, and was not read, is dropped."""
        for _ in range(min(self.put_so_far - put_so_far, len(self._items))):
            self._items.pop()
            self._bytes -= self._sizes.pop()
        self.end()

    # --- the reader's side ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Want nothing any more: what waits is dropped, and iteration ends."""
        self.end()
        self._error = None
        self._read_so_far += len(self._items)
        self._items.clear()
        self._sizes.clear()
        self._bytes = 0

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        items = self._items
        if not items:
            await self._more()
        self._begun = True
        self._bytes -= self._sizes.popleft()
        item = items.popleft()
        self._read_so_far += 1
        if self._held and len(items) < LOW:
            self._let_go()
        return item

    def batches(self) -> AsyncIterator[list[T]]:
        """All that waits, again and again, as lists."""
        return _Batches(self._batch)

    async def _batch(self) -> list[T]:
        if not self._items:
            await self._more()
        batch = list(self._items)
        self._read_so_far += len(batch)
        self._items.clear()
        self._sizes.clear()
        self._bytes = 0
        self._begun = True
        self._let_go()
        return batch

    async def _more(self) -> None:
        """Wait until something is there. Raises `StopAsyncIteration`, or the error, at the end."""
        self._begun = True
        if self._waiter is not None:
            raise UsageError("two tasks read one stream")
        while not self._items:
            if self._is_done:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._waiter = self._waking = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = self._waking = None

    def _wake(self) -> None:
        """Have the reader go on, if it waits."""
        waking, self._waking = self._waking, None
        if waking is not None and not waking.done():
            waking.set_result(None)

    def _refuse(self, size: int) -> None:
        """What is put is too much, or too late: a stream that is done has no limit that anything would be below."""
        self._bytes -= size
        self.end(
            StreamOverflow(
                f"more than {self._limit} bytes (Limits.stream) waited to be read, after {len(self._items)} items; "
                "iterate the stream while requests are under way, or close it"
            )
        )

    def _let_go(self) -> None:
        if self._held:
            self._held = False
            self._gate.release(self)


class _Batches(Generic[T]):
    """No generator, as one that is cancelled once has ended."""

    def __init__(self, batch: Callable[[], Awaitable[list[T]]]) -> None:
        self._batch = batch

    def __aiter__(self) -> AsyncIterator[list[T]]:
        return self

    async def __anext__(self) -> list[T]:
        return await self._batch()
