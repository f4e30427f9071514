"""Updates that come before their session: an agent may speak of one that its answer has not announced yet.

Owns: which of them are kept, for how long and how many. Does not know: sessions, or how they are made.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from acpwire import v2
from acpwire.limits import Limits

__all__ = ["Early"]

_log = logging.getLogger(__name__)


class Early:
    """Keeps updates of sessions that are not known while one is being made, which may be theirs (SS-09, S-OR-02)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._making = 0
        self._kept: dict[str, list[tuple[v2.SessionUpdate, int]]] = {}
        self._bytes = 0
        self._has_warned = False

    @contextmanager
    def kept(self) -> Generator[None]:
        """A block in which a session is being made; what is left after the last of them belongs to none."""
        self._making += 1
        try:
            yield
        finally:
            self._making -= 1
            if not self._making:
                self._kept.clear()
                self._bytes = 0

    def keep(self, told: v2.UpdateSessionNotification, size: int) -> bool:
        """Keep an update of `size` bytes for its session. False: it is of none that is being made, or too much."""
        if not self._making:
            _log.debug("an update of an unknown session is dropped")
            return False
        limits = self._limits
        is_one_too_many = told.session_id not in self._kept and len(self._kept) >= limits.unknown_sessions
        if is_one_too_many or self._bytes + size > limits.unknown_updates:
            if not self._has_warned:
                self._has_warned = True
                _log.warning(
                    "updates of unknown sessions are dropped: Limits.unknown_sessions is %d, Limits.unknown_updates %d",
                    limits.unknown_sessions,
                    limits.unknown_updates,
                )
            return False
        self._kept.setdefault(told.session_id, []).append((told.update, size))
        self._bytes += size
        return True

    def of(self, session_id: str) -> Iterator[tuple[v2.SessionUpdate, int]]:
        """What was kept of a session that is known now, with its sizes; it is forgotten here."""
        for update, size in self._kept.pop(session_id, ()):
            self._bytes -= size
            yield update, size
