"""Two ends in one process, without a descriptor.

Owns: handing blocks over, in order, without copying. Does not know: any limit but how much is handed over at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from .channel import Channel, Received

__all__ = ["pair"]

_TURN: Final = 64 * 1024
"""How many bytes are handed over before the loop turns."""


def pair() -> tuple[Channel, Channel]:
    """Two transports, each the other end of the other; both belong into one event loop.

    Blocks come as they were sent, of whatever length. What one end sends counts as its `unsent` until the other has
    taken it, so `write` waits for a reader. When one is closed, the other still reads what was sent before, then its
    end; what it sends itself raises `ConnectionClosed`.
    """
    there, back = _Flow(), _Flow()
    return _End(back, there), _End(there, back)


class _Flow:
    """One direction: the blocks that were sent and not received."""

    def __init__(self) -> None:
        self.blocks: deque[bytes] = deque()
        self.size = 0
        self.ended = False  # nothing is sent any more
        self.changed: Callable[[], None]  # tells the receiving end
        self.emptied: Callable[[], None]  # tells the sending end
        self.refused: Callable[[], None]

    def put(self, block: bytes) -> None:
        self.blocks.append(block)
        self.size += len(block)
        self.changed()

    def take(self) -> bytes:
        block = self.blocks.popleft()
        self.size -= len(block)
        return block

    def end(self) -> None:
        self.ended = True
        self.changed()

    def refuse(self) -> None:
        self.blocks.clear()
        self.size = 0
        self.refused()


class _End(Channel):
    def __init__(self, incoming: _Flow, outgoing: _Flow) -> None:
        super().__init__()
        self._incoming, self._outgoing = incoming, outgoing
        incoming.changed = self._schedule
        outgoing.emptied = self._drain
        outgoing.refused = self._refused
        self._received: Received | None = None
        self._paused = False
        self._scheduled = False

    def pause(self) -> None:
        """Receive nothing until `resume`; within `received`, too. Pausing twice is pausing once."""
        self._paused = True

    def resume(self) -> None:
        """Go on receiving."""
        self._paused = False
        self._schedule()

    @property
    def unsent(self) -> int:
        """How many bytes the other end has not taken yet."""
        return self._outgoing.size

    def _begin(self, received: Received) -> None:
        self._received = received
        self._schedule()

    def _send(self, data: bytes) -> None:
        if data:
            self._outgoing.put(bytes(data))  # of bytes, no copy

    def _end_output(self) -> bool:
        self._outgoing.end()
        return True

    def _ignore(self) -> None:
        self._received = None

    async def _finish(self) -> None:
        """Nothing: what was sent stays there for the other end."""

    def _release(self) -> None:
        self._incoming.refuse()
        self._outgoing.end()

    def _refused(self) -> None:
        self._break("the other end closed the connection")
        self._drain()

    def _schedule(self) -> None:
        ready = self._received is not None and not self._paused and not self._over
        if ready and not self._scheduled and (self._incoming.blocks or self._incoming.ended):
            self._scheduled = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._scheduled = False
        flow, size = self._incoming, 0
        try:
            while self._received is not None and flow.blocks and size < _TURN and not self._paused:
                block = flow.take()
                size += len(block)
                self._received(block)
        finally:
            if size and not flow.size:
                flow.emptied()
            if flow.ended and not flow.blocks:
                self._end_input(None)
            else:
                self._schedule()
