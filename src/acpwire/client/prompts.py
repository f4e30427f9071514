"""Prompts: which work is a prompt's own, and where it ends.

Owns: telling the idle that ends a prompt's work from all others, in whatever order its acceptance, the echo of its
message and the states come. Does not know: connections; a session tells what arrives.

An idle state counts where it is a change: a session that was busy is no more. Repeated snapshots are none (ST-08), and
`unknown` neither ends nor begins anything (ST-13). A prompt's work ends with the first such change after its insertion,
which is where its message was first seen, or its acceptance, whichever came first (PL-17, PL-18).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from acpwire import v2
from acpwire.streams import Stream

__all__ = ["Prompt", "Turn", "Turns"]


@dataclass(frozen=True)
class Turn:
    """What came of a prompt."""

    text: str
    """What the agent answered, its text alone."""
    stop_reason: v2.StopReason | None
    usage: v2.Usage | None
    error: v2.Error | None


class Prompt:
    """A prompt that the agent has accepted: its message is part of the conversation (PL-01, PL-25).

        async for update in prompt: ...     # the session's updates from the request on, up to the idle that ends it
        await prompt.wait()                 # or only the end

    Iteration takes part in back-pressure like any stream's; `wait` drops what nobody reads. When the connection closes
    before the end, both raise `ConnectionClosed`.
    """

    def __init__(self, stream: Stream[v2.SessionUpdate]) -> None:
        self.message_id = ""
        """The id of the user message (PL-14)."""
        self.stop_reason: v2.StopReason | None = None
        """Why the work ended; None before that, and where the agent does not say (SR-10)."""
        self.usage: v2.Usage | None = None
        self.error: v2.Error | None = None
        self.stream = stream
        self._ended = asyncio.Event()
        self._failure: Exception | None = None

    @property
    def is_done(self) -> bool:
        """Whether its work has ended."""
        return self._ended.is_set()

    def __aiter__(self) -> AsyncIterator[v2.SessionUpdate]:
        return self.stream

    def batches(self) -> AsyncIterator[list[v2.SessionUpdate]]:
        """The same, all that waits at a time."""
        return self.stream.batches()

    async def wait(self) -> v2.StopReason | None:
        """Wait for the end of its work, and return why it ended. Safe to cancel. Raises `ConnectionClosed`."""
        if not self.is_done:
            self.stream.close()
            await self._ended.wait()
        if self._failure is not None:
            raise self._failure
        return self.stop_reason

    def finish(self, state: v2.StateUpdate, put_so_far: int) -> None:
        """For the session: its work has ended with this state, when so many updates had come."""
        self.stop_reason, self.usage, self.error = state.stop_reason, state.usage, state.error
        self.stream.end_at(put_so_far)
        self._ended.set()

    def fail(self, error: Exception | None) -> None:
        """For the session: its end will never be known."""
        if not self.is_done:
            self._failure = error
            self.stream.end(error)
            self._ended.set()


@dataclass
class _Waiting:
    """A prompt that is not finished: when it was inserted, if it was, and the ends that came since it was sent."""

    prompt: Prompt
    inserted: int | None
    ends: list[tuple[int, v2.StateUpdate, int]]


class Turns:
    """The prompts of one session that are not finished."""

    def __init__(self) -> None:
        self.is_busy = False
        """Whether the session works, as far as is known (ST-07, ST-14)."""
        self._now = 0  # counts what is seen
        self._waiting: list[_Waiting] = []
        self._seen: dict[str, int] = {}  # user messages, while anybody might ask

    def begin(self, prompt: Prompt) -> None:
        """A prompt is being sent."""
        self._waiting.append(_Waiting(prompt, None, []))

    def accepted(self, prompt: Prompt, message_id: str) -> bool:
        """A prompt was accepted. Returns whether the work of the newest has ended by this, or had."""
        prompt.message_id = message_id
        self._now += 1
        waiting = next(one for one in self._waiting if one.prompt is prompt)
        waiting.inserted = self._seen.get(message_id, self._now)
        for when, state, put_so_far in waiting.ends:
            if when > waiting.inserted:
                return self._finish([(waiting, state, put_so_far)])
        return False

    def refused(self, prompt: Prompt) -> None:
        """A prompt was refused, or is waited for no more."""
        self._waiting = [one for one in self._waiting if one.prompt is not prompt]

    def see(self, update: Any) -> bool:
        """Take a state or a user message. Returns whether the work of the newest accepted prompt has ended by it."""
        self._now += 1
        if isinstance(update, v2.UserMessage | v2.UserMessageChunk):
            if self._waiting:
                self._seen.setdefault(update.message_id, self._now)
            return False
        if not isinstance(update, v2.StateUpdate):
            self.is_busy = True  # a state that is not known is never idle (ST-14)
            return False
        if update.state != "idle":
            self.is_busy = self.is_busy or update.state != "unknown"
            return False
        if not self.is_busy:
            return False
        self.is_busy = False
        for one in self._waiting:
            if one.inserted is None:
                one.ends.append((self._now, update, one.prompt.stream.put_so_far))
        ended = [one for one in self._waiting if one.inserted is not None]
        return self._finish([(one, update, one.prompt.stream.put_so_far) for one in ended])

    def fail(self, error: Exception | None) -> None:
        """Nothing more will be known."""
        for one in self._waiting:
            one.prompt.fail(error)
        self._waiting.clear()

    def _finish(self, ended: list[tuple[_Waiting, v2.StateUpdate, int]]) -> bool:
        for one, state, put_so_far in ended:
            one.prompt.finish(state, put_so_far)
            self._waiting.remove(one)
        if not self._waiting:
            self._seen.clear()
        return bool(ended) and not any(one.inserted is not None for one in self._waiting)


TRACKED: Final = frozenset({v2.StateUpdate, v2.UserMessage, v2.UserMessageChunk})
"""The classes of updates that `Turns.see` wants; besides these, unknown ones that are tagged `state_update`."""
