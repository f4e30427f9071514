"""What functions of a user raise where nobody waits for them: named in the log, once in full, and counted after that.

Owns: what is a failure, who is named, which failures are of one kind, when a count is due. Does not know: what was
called, or why.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from traceback import walk_tb
from types import FrameType
from typing import Final
from weakref import WeakKeyDictionary

__all__ = ["ENDS", "log_failure"]

ENDS: Final = KeyboardInterrupt, SystemExit
"""What a user's function may raise to end the program; whatever else it raises is its failure alone."""
_log = logging.getLogger(__name__)
_KINDS: Final = 100
"""Of how many kinds an owner remembers that they were told; those that are longest ago are forgotten first."""
_told: Final[WeakKeyDictionary[object, dict[Hashable, int]]] = WeakKeyDictionary()
"""Owner -> kind of failure -> how often it was seen."""


def log_failure(owner: object, error: BaseException, role: str, how: str = "failed") -> None:
    """Log what a user's function raised, under its own name, such as `Editor.update`; `role` says what it was for.

    Failures are of one kind where their type and places are the same: of these the first comes with its traceback, and
    the tenth, hundredth and so on with their number. They are counted for each owner, such as a connection.
    """
    frames = [*walk_tb(error.__traceback__)]
    theirs = [(frame, line) for frame, line in frames if not _is_ours(frame)]
    places = [(frame.f_code, line) for frame, line in (*theirs[:1], *frames[-1:])]
    kinds = _told.setdefault(owner, {})
    kind = (type(error), how, *places)
    count = kinds[kind] = kinds.pop(kind, 0) + 1
    if len(kinds) > _KINDS:
        del kinds[next(iter(kinds))]
    name = f"{_name(theirs[0][0])}, {role}," if theirs else role
    if count == 1:
        _log.error("%s %s", name, how, exc_info=error)
    elif str(count).strip("0") == "1":
        _log.error("%s %s, for the %dth time: %s: %s", name, how, count, type(error).__name__, error)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "acpwire"


def _name(frame: FrameType) -> str:
    """A function's name with its class, without what it was defined in."""
    return frame.f_code.co_qualname.rpartition("<locals>.")[2]
