"""Measurements, each side by side with something else in one run; only the ratios mean anything.

Owns: how is measured. Contenders take turns, many short rounds each, so that whatever else the machine does hits all
of them; what counts is the median of the rounds. `python -m tests.bench [NAME ...] [--json]` runs them.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measured ratio and the bound that is promised for it."""

    name: str
    cost: float
    """Nanoseconds an operation, median, unless the row's name says otherwise."""
    ratio: float
    """Cost relative to the reference of its table."""
    limit: float | None = None
    """The ratio that must not be exceeded, where one is promised."""

    @property
    def fits(self) -> bool:
        """Whether the promise is kept."""
        return self.limit is None or self.ratio <= self.limit


def side_by_side(
    contenders: Mapping[str, Callable[[], object]],
    reference: str,
    limits: Mapping[str, float] | None = None,
    operations: int = 1,
    rounds: int = 41,
    seconds: float = 0.02,
) -> list[Row]:
    """Time contenders in turns and relate their medians to the reference's.

    Each call does `operations` operations; a round repeats the call for about `seconds`.
    """
    repeats: dict[str, int] = {}
    for name, call in contenders.items():
        call()
        start = time.perf_counter()
        call()
        repeats[name] = max(1, int(seconds / max(time.perf_counter() - start, 1e-9)))
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, call in contenders.items():
                turns = range(repeats[name])
                start = time.perf_counter()
                for _ in turns:
                    call()
                samples[name].append((time.perf_counter() - start) / repeats[name] / operations * 1e9)
    finally:
        gc.enable()
    costs = {name: statistics.median(values) for name, values in samples.items()}
    bounds = limits or {}
    return [Row(name, cost, cost / costs[reference], bounds.get(name)) for name, cost in costs.items()]
