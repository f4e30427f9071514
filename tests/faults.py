"""What other implementations do not keep though they should: each is news once, and again when it is mended.

Owns: telling known faults from news. Does not know: who is compared, or how.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Fault", "faults_of", "news"]


@dataclass(frozen=True)
class Fault:
    """What a peer does not keep: the requirement, what it does, and what the problems that come of it look like."""

    peer: str
    requirement: str
    what: str
    difference: re.Pattern[str]

    def shows_in(self, problem: str) -> bool:
        """Whether a problem comes of it."""
        return self.difference.search(problem) is not None


def faults_of(peer: str, faults: Iterable[Fault]) -> list[Fault]:
    """Those of one peer."""
    return [fault for fault in faults if fault.peer == peer]


def news(problems: Iterable[str], known: Iterable[Fault]) -> list[str]:
    """What is left of problems without the known faults, each once, and those faults that show no more."""
    told, known = list(dict.fromkeys(problems)), list(known)
    new = [one for one in told if not any(fault.shows_in(one) for fault in known)]
    gone = [fault for fault in known if not any(map(fault.shows_in, told))]
    return new + [f"{fault.requirement} is kept now: {fault.what}" for fault in gone]
