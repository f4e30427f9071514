"""Every limit of a connection, with its default, in one place.

Owns: the numbers and their names. Does not know: who keeps them, or what happens where one is exceeded; each error says
the name of its limit, so that whoever meets it can set it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

KIB = 1024
MIB = 1024 * KIB

__all__ = ["Limits"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one connection: sizes in bytes, times in seconds.

    Raises `ValueError` for a limit below zero, and for one of zero where nothing would ever pass.
    """

    line: int = 64 * MIB
    """The longest line; a longer one is skipped, and is malformed."""
    requests: int = 64
    """How many requests of the peer may be unanswered; more are answered with an error at once."""
    unsent: int = 256 * KIB
    """How many bytes may wait to be written; a sender waits above it until they are gone."""
    unread_answers: int = 16 * MIB
    """How many bytes of answers may wait for a peer that asks and does not read them: above it, it is not read either
    for as long as it takes any; one that takes none for seconds, and asks on whenever it is given way, is given up."""
    stream: int = 64 * MIB
    """How many bytes of lines a stream holds for whoever iterates it; above it, that stream ends with
    `StreamOverflow`."""
    unknown_sessions: int = 64
    """For how many sessions that nobody knows yet updates are kept."""
    unknown_updates: int = 16 * MIB
    """How many bytes of updates are kept for all sessions that nobody knows yet."""
    stderr_tail: int = 64 * KIB
    """How much of the end of a child's stderr is kept."""
    parse_errors: int = 10
    """How many answers with id null are sent a second; of more, the lines are counted alone."""
    grace: float = 10.0
    """How long clean-up may take: handlers that were cancelled, a child that was asked to end."""
    first_answer: float | None = None
    """How long the first answer of a peer may take; None waits for ever."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 1 if field.name in _AT_LEAST_ONE else 0
            if value is not None and value < least:
                raise ValueError(f"Limits.{field.name} must be at least {least}, not {value}")


_AT_LEAST_ONE = frozenset({"line", "requests", "stream"})
