"""Every limit of a connection, with its default, in one place.

Owns: the numbers and their names. Does not know: who keeps them, or what happens where one is exceeded; each error says
the name of its limit, so that whoever meets it can set it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, Final

from acpwire.errors import UsageError

KIB = 1024
MIB = 1024 * KIB

__all__ = ["Limits"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of one connection: sizes in bytes, times in seconds.

    Sizes and counts are whole numbers, times any numbers. Raises `UsageError` that names the limit for a value of
    another type, for one below zero, and for zero where nothing would ever pass.
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
            what, types = _KINDS[str(field.type)]
            # None is no number, and True one that nobody means; NaN is not at least anything
            if not isinstance(value, types) or isinstance(value, bool) or not (value is None or value >= least):
                raise UsageError(f"Limits.{field.name} must be {what} of at least {least}, not {value!r}")


_AT_LEAST_ONE: Final = frozenset({"line", "requests", "stream"})
_KINDS: Final[dict[str, tuple[str, tuple[type[Any], ...]]]] = {
    "int": ("a whole number", (int,)),
    "float": ("a number", (int, float)),
    "float | None": ("None or a number", (int, float, NoneType)),
}
"""How a limit is annotated -> what it must be, and the types that are."""
