"""Prompts: which work is a prompt's own, and where it ends.

Owns: telling the idle that ends a prompt's work from all others, in whatever order its acceptance, the echo of its
message and the states come. Does not know: connections; a session tells what arrives.

An idle state counts where it is a change: a session that was busy is no more. Repeated snapshots are none (ST-08), and
`unknown` neither ends nor begins anything (ST-13). A prompt's work ends with the first such change after its insertion,
which is where its message was first seen, or its acceptance, whichever came first (PL-17, PL-18).

Work may end before the agent has said that it runs, as where it fails at once (PL-13). So an idle of a session that was
not busy counts, too, for prompts whose message was seen, where it says why it stopped and repeats nothing: its outcome
is another than that of the idle before, or the agent has spoken since a user's message. What remains is an agent that
ends two prompts in a row alike, without a word and without ever running: that is a repeated snapshot to everybody.
During a replay words prove nothing, and only the last such idle counts, once the replay is over.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

from acpwire import v2
from acpwire.errors import ConnectionClosed
from acpwire.streams import Feed, Stream
from acpwire.transcript import Message, Transcript

from .flow import Gate

__all__ = ["WORDS", "End", "Prompt", "Sent", "Turn", "Turns", "answer_of"]

WORDS: Final = frozenset({v2.AgentMessage, v2.AgentMessageChunk, v2.AgentThought, v2.AgentThoughtChunk})
"""The classes of updates by which an agent speaks; tool calls go on in the background, too (TC-13)."""


@dataclass(frozen=True)
class Turn:
    """What came of a prompt.

    Attributes:
        text: what the agent answered, its text alone.
        stop_reason: why the work ended, such as "end_turn", "cancelled" or "error"; None where the agent does not say.
        usage: the tokens that it took, a `v2.Usage`; None where the agent does not say.
        error: what went wrong, a `v2.Error` with code and message; None if nothing.
    """

    text: str
    """What the agent answered, its text alone."""
    stop_reason: v2.StopReason | None
    usage: v2.Usage | None
    error: v2.Error | None


class Prompt:
    """A prompt that the agent has accepted: its message is part of the conversation (PL-01, PL-25).

        async for update in prompt: ...     # the session's updates from the request to the idle that ends it, with that
        await prompt.wait()                 # or only the end
        prompt.close()                      # or no more of it

    Iteration takes part in back-pressure like any stream's: who has begun it and leaves it, as by `break`, and holds
    the prompt, has nothing more read of the whole connection, other sessions and `update` included, once 1,000 updates
    wait. `close` it then; `wait` does, too. A prompt that is dropped holds nothing. Its work goes on in any case. When
    the connection closes before the end, iteration and `wait` raise `ConnectionClosed`.

    Attributes:
        message_id: the id of the user message (PL-14).
        stop_reason: why the work ended, such as "end_turn", "cancelled" or "error"; None before that, and where the
            agent does not say (SR-10).
        usage: the tokens that this work took, a `v2.Usage`; None as before.
        error: what went wrong, a `v2.Error` with code and message; None as before, and if nothing did.
        stream: what is iterated, a `Stream` of updates.
    """

    def __init__(self, stream: Stream[v2.SessionUpdate], gate: Gate) -> None:
        self.message_id = ""
        """The id of the user message (PL-14)."""
        self.stop_reason: v2.StopReason | None = None
        """Why the work ended; None before that, and where the agent does not say (SR-10)."""
        self.usage: v2.Usage | None = None
        self.error: v2.Error | None = None
        self.stream = stream
        self._gate = gate
        self._ended = asyncio.Event()
        self._failure: ConnectionClosed | None = None

    @property
    def is_done(self) -> bool:
        """Whether its work has ended."""
        return self._ended.is_set()

    def __aiter__(self) -> AsyncIterator[v2.SessionUpdate]:
        return self.stream

    def batches(self) -> AsyncIterator[list[v2.SessionUpdate]]:
        """The same, all that waits at a time."""
        return self.stream.batches()

    def close(self) -> None:
        """Want no more updates: those that wait are dropped, and iteration ends.

        Its work goes on, and can still be waited for; `ClientSession.cancel` has it stopped.
        """
        self.stream.close()

    async def wait(self) -> v2.StopReason | None:
        """Wait for the end of its work, and return why it ended.

        Meanwhile no full stream pauses reading, as the end is still to be read. Safe to cancel. Raises
        `ConnectionClosed`.
        """
        if not self.is_done:
            self.close()
            with self._gate.kept_open():
                await self._ended.wait()
        if self._failure is not None:
            raise self._failure.again()
        return self.stop_reason

    def finish(self, state: v2.StateUpdate) -> None:
        """For the session: its work has ended with this state."""
        self.stop_reason, self.usage, self.error = state.stop_reason, state.usage, state.error
        self._ended.set()

    def fail(self, error: ConnectionClosed) -> None:
        """For the session: its end will never be known."""
        self._failure = error
        self._ended.set()


@dataclass(frozen=True)
class End:
    """Where work ended: the state that says so, the `when` of `Turns`, and the total that streams had got by then."""

    state: v2.StateUpdate
    when: int
    total: int

    def cut(self, feed: Feed[Any]) -> bool:
        """End a stream right after this; False if it began later."""
        if feed.is_done:
            return True
        if feed.began >= self.total:
            return False
        feed.end_at(self.total)
        return True


@dataclass(eq=False)
class Sent:
    """A prompt that is not finished. Whoever wants to know holds it, or its stream; this here does not."""

    prompt: weakref.ref[Prompt]
    feed: Feed[v2.SessionUpdate]
    inserted: int | None = None
    """When it was inserted; None until it is accepted."""
    message_id: str | None = None
    """The id of its message; None until it is accepted."""
    is_told: bool = False
    """Whether its message was seen, and it is accepted."""
    ends: list[End] = field(default_factory=list[End])
    """Which ends came between its sending and its acceptance, and may be its own."""


class Turns:
    """The prompts of one session that are not finished."""

    def __init__(self) -> None:
        self.is_busy = False
        """Whether the session works, as far as is known (ST-07, ST-14)."""
        self._now = 0  # counts what is seen
        self._sent: list[Sent] = []
        self._seen: dict[str, int] = {}  # user messages, while a prompt that is not accepted may be one of them
        self._has_new = False  # of these since the last end
        self._is_asked = False  # whether the user has spoken since the last end, outside of replays
        self._has_words = False  # whether the agent has, after that
        self._last: v2.StateUpdate | None = None  # the idle that said last how work ended
        self._replays = False
        self._current: End | None = None  # during a replay: an idle of a session that was not busy, if it is the state

    @property
    def listens(self) -> bool:
        """Whether it matters that the agent speaks: not while it runs, nor more than once."""
        return self._is_asked and not (self._has_words or self._replays or self.is_busy)

    def begin(self, prompt: Prompt, feed: Feed[v2.SessionUpdate]) -> Sent:
        """A prompt is being sent, whose stream is fed there."""
        sent = Sent(weakref.ref(prompt), feed)
        self._sent.append(sent)
        return sent

    def accepted(self, sent: Sent, message_id: str) -> End | None:
        """A prompt was accepted. Returns the end of its work, if that was before, and no other work is left."""
        self._now += 1
        sent.message_id, sent.is_told = message_id, message_id in self._seen
        inserted = sent.inserted = self._seen.get(message_id, self._now)
        end = next((end for end in sent.ends if end.when > inserted), None)
        self._forget()
        return None if end is None else self._finish([sent], end)

    def withdrawn(self, sent: Sent) -> None:
        """A prompt was refused, or is waited for no more."""
        if sent.inserted is None:
            self._sent = [one for one in self._sent if one is not sent]
            self._forget()

    def see(self, update: Any, total: int) -> End | None:
        """Take a state, a user message, or what the agent says while this `listens`; streams have got that `total`.

        Returns the end of the work of the newest accepted prompt, if this is it.
        """
        self._now += 1
        if isinstance(update, v2.UserMessage | v2.UserMessageChunk):
            self._user_said(update.message_id)
        elif type(update) in WORDS:
            self._has_words = True
        elif isinstance(update, v2.StateUpdate):
            self._current = None
            if update.state == "idle":
                return self._idle(End(update, self._now, total))
            self.is_busy = self.is_busy or update.state != "unknown"
        else:
            self._current = None
            self.is_busy = True  # a state that is not known is never idle (ST-14)
        return None

    def replay(self) -> None:
        """What is seen from here on may be history."""
        self._replays = True

    def replayed(self) -> End | None:
        """That is over. Returns what `see` does, for the state that the replay ended with."""
        self._replays = False
        current, self._current = self._current, None
        return None if current is None else self._idle(current)

    def _user_said(self, message_id: str) -> None:
        self._is_asked = self._is_asked or not self._replays
        if message_id not in self._seen and any(one.inserted is None for one in self._sent):
            self._seen[message_id] = self._now
            self._has_new = True
        for one in self._sent:
            one.is_told = one.is_told or one.message_id == message_id

    def _idle(self, end: End) -> End | None:
        """The session is idle; whether that is an end, and whose."""
        was_busy, self.is_busy = self.is_busy, False
        if not was_busy and self._replays:
            self._current = end
            return None
        is_end = was_busy or self._is_outcome(end.state)
        if was_busy or end.state.stop_reason is not None:
            self._last = end.state
        if not is_end:
            return None
        for one in self._sent:
            if one.inserted is None and self._has_new:
                one.ends.append(end)
        self._has_new = self._is_asked = self._has_words = False
        return self._finish([one for one in self._sent if one.inserted is not None and (was_busy or one.is_told)], end)

    def _is_outcome(self, state: v2.StateUpdate) -> bool:
        """Whether an idle of a session that was not busy says how work ended, and not again how other work did."""
        last = self._last
        if state.stop_reason is None:
            return False
        return (
            self._has_words
            or last is None
            or last.stop_reason != state.stop_reason
            or _contradict(last.error, state.error)
            or _contradict(last.usage, state.usage)
        )

    def fail(self, error: ConnectionClosed) -> None:
        """Nothing more will be known."""
        for one in self._sent:
            prompt = one.prompt()
            if prompt is not None:
                prompt.fail(error)
            one.feed.end(error.again())
        self._sent.clear()
        self._seen.clear()

    def _finish(self, ended: list[Sent], end: End) -> End | None:
        for one in ended:
            prompt = one.prompt()
            if prompt is not None:
                prompt.finish(end.state)
            end.cut(one.feed)
            self._sent.remove(one)
        return end if ended and all(one.inserted is None for one in self._sent) else None

    def _forget(self) -> None:
        """What was seen, where no prompt is left that may be in it."""
        if all(one.inserted is not None for one in self._sent):
            self._seen.clear()


def _contradict(one: object | None, other: object | None) -> bool:
    """Whether two reports differ; what is not reported, or only once, contradicts nothing (ST-08)."""
    return one is not None and other is not None and one != other


def answer_of(story: Transcript, message_id: str) -> str:
    """The text of the agent's messages after the user's of this id; of all, where that was not told."""
    parts: list[str] = []
    for entity in story.timeline:
        if isinstance(entity, Message):
            if entity.sort == "user" and entity.id == message_id:
                parts.clear()
            elif entity.sort == "agent":
                parts.append(entity.text)
    return "\n\n".join(parts)
