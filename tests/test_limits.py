"""Every limit: its default, as the design says it, and which values it takes.

What happens where one is exceeded is for the tests of whoever keeps it.
"""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, asdict, fields
from typing import Any

import pytest

from acpwire import v2
from acpwire.connection import Connection
from acpwire.errors import UsageError
from acpwire.limits import Limits

DEFAULTS: dict[str, Any] = {
    "line": 67_108_864,
    "requests": 64,
    "unsent": 262_144,
    "unread_answers": 16_777_216,
    "stream": 67_108_864,
    "unknown_sessions": 64,
    "unknown_updates": 16_777_216,
    "stderr_tail": 65_536,
    "parse_errors": 10,
    "grace": 10.0,
    "first_answer": None,
}
TIMES = {"grace", "first_answer"}
NOT_ZERO = {"line", "requests", "stream"}
"""With these at zero nothing would ever pass."""

each_limit = pytest.mark.parametrize("name", list(DEFAULTS))


def limited(name: str, value: Any) -> Limits:
    """One limit of this value."""
    return Limits(**{name: value})


def refused(name: str, value: Any) -> str:
    """Why a limit may not have a value: all but the name of the limit and the value, which are said."""
    with pytest.raises(UsageError) as caught:
        limited(name, value)
    text = str(caught.value)
    assert text.startswith(f"Limits.{name} must be ")
    assert text.endswith(f", not {value!r}")
    return text.removeprefix(f"Limits.{name} must be ").removesuffix(f", not {value!r}")


def test_every_limit_has_its_default() -> None:
    """S-SZ-01: a line of at least 64 MiB; ten answers with id null a second; no limit for the first answer."""
    found = asdict(Limits())
    assert found == DEFAULTS
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in DEFAULTS.items()
    }


def test_a_connection_that_is_told_no_limits_has_the_defaults() -> None:
    assert Connection("agent", v2.decode_from_client, v2.METHODS).limits == Limits(**DEFAULTS)


def test_limits_are_given_by_name_and_stay_as_they_are() -> None:
    limits = Limits(requests=3, grace=1)
    assert asdict(limits) == {**DEFAULTS, "requests": 3, "grace": 1}
    with pytest.raises(FrozenInstanceError):
        limits.requests = 4  # type: ignore[misc]  # what is tried
    with pytest.raises(TypeError):
        Limits(64)  # type: ignore[call-arg]  # what is tried
    with pytest.raises(TypeError, match="lines"):
        limited("lines", 1)


@each_limit
def test_a_limit_takes_its_least_value_and_no_lower_one(name: str) -> None:
    least = 1 if name in NOT_ZERO else 0
    assert getattr(limited(name, least), name) == least
    for value in (least - 1, -1, -(2**70)):
        assert refused(name, value).endswith(f" of at least {least}")
    assert getattr(limited(name, 2**62), name) == 2**62


@each_limit
@pytest.mark.parametrize("value", ["1", b"1", [1], {}, 1j, True, False, object(), (1,)])
def test_a_limit_takes_nothing_that_is_no_number(name: str, value: Any) -> None:
    """True and False are none, whatever Python says."""
    refused(name, value)


@each_limit
def test_sizes_and_counts_are_whole_numbers_and_times_may_be_any(name: str) -> None:
    for value in (1.5, 64.0):
        if name in TIMES:
            assert getattr(limited(name, value), name) == value
        else:
            assert refused(name, value).startswith("a whole number ")


@each_limit
def test_no_limit_is_nan_and_only_a_time_is_without_end(name: str) -> None:
    refused(name, math.nan)
    refused(name, -math.inf)
    if name in TIMES:
        assert getattr(limited(name, math.inf), name) == math.inf
    else:
        refused(name, math.inf)


@each_limit
def test_none_is_no_limit_for_the_first_answer_alone(name: str) -> None:
    if name == "first_answer":
        assert limited(name, None) == Limits()
        assert refused(name, "1") == "None or a number of at least 0"
    else:
        refused(name, None)


def test_what_is_wrong_is_said_of_the_limit_that_is() -> None:
    assert refused("grace", "1") == "a number of at least 0"
    with pytest.raises(UsageError, match=r"Limits\.unsent must be a whole number of at least 0, not None"):
        Limits(requests=1, unsent=None, stderr_tail=0)  # type: ignore[arg-type]  # what is tried


def test_these_tests_know_every_limit() -> None:
    assert [field.name for field in fields(Limits)] == list(DEFAULTS)
