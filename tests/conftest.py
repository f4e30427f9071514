"""What holds in every process that runs tests: it can be interrupted, and what it draws is the same each time.

A shell that starts something in the background has it ignore SIGINT, and all its children too; some tests press Ctrl-C.
What hypothesis draws is told by the test alone, so that no run fails by chance; where HYPOTHESIS_PROFILE is `explore`
every run draws anew, and five times as much.
"""

from __future__ import annotations

import os
import signal
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "same")
TIMES = 5


def is_no_module(path: str) -> bool:
    """Whether constants are drawn from a module."""
    return False


slow = [HealthCheck.too_slow]  # a shared machine may be, and then it is no fault; nor does any test have a deadline
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=slow)
settings.register_profile(
    "explore", derandomize=False, deadline=None, suppress_health_check=slow, max_examples=TIMES * 100, print_blob=True
)
settings.load_profile(PROFILE)
if PROFILE == "same":
    # It would draw from the constants of all modules that are loaded by then, and which are hangs on what ran before.
    pytest.MonkeyPatch().setattr(providers, "is_local_module_file", is_no_module)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Draw more where a test says itself how much it draws."""
    if PROFILE != "explore":
        return
    owners = {id(owner[0]): owner for item in items if (owner := _owner(item)) is not None}
    for owner, name in owners.values():
        own = cast("settings", getattr(owner, name))
        if own.max_examples != TIMES * 100:
            setattr(owner, name, settings(own, max_examples=own.max_examples * TIMES))


def _owner(item: pytest.Item) -> tuple[Any, str] | None:
    """What has the settings of a test, and as which attribute; hypothesis has no public way to them."""
    function: Any = getattr(item, "obj", None)
    function = getattr(function, "__func__", function)
    if hasattr(function, "_hypothesis_internal_use_settings"):
        return function, "_hypothesis_internal_use_settings"
    case: Any = getattr(item, "cls", None)
    return (case, "settings") if isinstance(getattr(case, "settings", None), settings) else None
