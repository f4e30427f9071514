"""A peer that asks and does not read what it is answered.

Owns: how many bytes of answers wait for it, when that is too much to read on, and who gives way then. Does not know:
what is asked, or how reading pauses.

Answers alone count: whoever sends anything else waits by itself. Not to read a peer is to trust that it reads before it
goes on. Two that trust so in each other would wait for ever; so who sees that nothing is taken for a while gives way,
and reads on until as much again waits. Only a peer that is given way to several times, and takes nothing, is given up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from acpwire.transports import Channel

__all__ = ["Unread"]

PATIENCE: Final = 0.5
"""For how many seconds nothing may be read before who waits gives way."""
TIMES: Final = 8
"""How often in a row that is."""


class Unread:
    """What is unread of the answers that were given to a channel; `changed` is called as it gives way or gives up."""

    def __init__(
        self, channel: Channel, limit: int, loop: asyncio.AbstractEventLoop, changed: Callable[[], object]
    ) -> None:
        self._channel = channel
        self._limit = self._ceiling = limit
        self._loop = loop
        self._changed = changed
        self._given = 0  # bytes, of whatever
        self._answers: deque[tuple[int, int]] = deque()  # what was given with them, and of that the bytes of answers
        self._bytes = 0  # of these
        self._times = 0
        self._patience: asyncio.TimerHandle | None = None
        self.is_hopeless = False
        """Whether it was given way often enough, in vain."""

    def given(self, size: int, answers: int) -> None:
        """So many bytes were given to the channel, at most `answers` of which are answers."""
        self._given += size
        if answers:
            self._answers.append((self._given, answers))
            self._bytes += answers
            self._forget()

    def is_too_much(self) -> bool:
        """Whether to read nothing for now."""
        if self._channel.unsent <= self._limit:
            self._ceiling, self._times = self._limit, 0
            return False
        self._forget()
        if self._bytes <= self._ceiling:
            return False
        if self._patience is None:
            self._patience = self._loop.call_later(PATIENCE, self._give_way, self._taken)
        return True

    def stop(self) -> None:
        """Nothing is waited for any more."""
        if self._patience is not None:
            self._patience.cancel()

    @property
    def _taken(self) -> int:
        return self._given - self._channel.unsent

    def _forget(self) -> None:
        """What has been taken is read, as far as can be told."""
        taken = self._taken
        while self._answers and self._answers[0][0] <= taken:
            self._bytes -= self._answers.popleft()[1]

    def _give_way(self, taken: int) -> None:
        """Unless something was taken meanwhile."""
        self._patience = None
        if self._taken > taken:
            self._times = 0
        elif self._times < TIMES:
            self._times += 1
            self._ceiling = self._bytes + self._limit
        else:
            self.is_hopeless = True
        self._changed()
