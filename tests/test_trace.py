"""Trace context: the three reserved keys of `_meta`, read and written, and nothing else touched (MT-05)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET, Raw

from acpwire import v2
from acpwire.trace import KEYS, carried, carrying

TRACE = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "a=b",
    "baggage": "k=v",
}


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        (None, {}),
        ({}, {}),
        ({"mine": 1}, {}),
        (TRACE | {"mine": 1}, TRACE),
        ({"traceparent": "x"}, {"traceparent": "x"}),
        ({"traceparent": 5, "baggage": "k=v"}, {"baggage": "k=v"}),
    ],
)
def test_what_is_carried_is_the_strings_under_the_reserved_keys(meta: Any, expected: dict[str, str]) -> None:
    assert carried(v2.ListSessionsRequest(meta=meta)) == expected


@pytest.mark.parametrize("params", [None, {}, {"_meta": TRACE}, Raw(b"{}"), [1]])
def test_params_of_no_generated_type_carry_nothing_and_are_left_alone(params: Any) -> None:
    assert carried(params) == {}
    assert carrying(params, TRACE) is params


def test_a_trace_goes_beside_what_is_there() -> None:
    mine = v2.ListSessionsRequest(meta={"mine": 1})
    assert carrying(mine, TRACE).meta == {"mine": 1, **TRACE}
    assert mine.meta == {"mine": 1}, "the params themselves are not changed"
    assert carrying(v2.ListSessionsRequest(), {"traceparent": "x", "other": "y"}).meta == {"traceparent": "x"}
    assert carrying(v2.ListSessionsRequest(), {"other": "y"}).meta is None


def test_a_trace_goes_where_meta_has_three_states() -> None:
    update = v2.AgentMessage(message_id="m")
    assert update.meta is UNSET
    assert carrying(update, TRACE).meta == TRACE


@pytest.mark.parametrize("key", KEYS)
def test_what_params_bring_themselves_is_left_alone(key: str) -> None:
    params = v2.ListSessionsRequest(meta={key: "theirs"})
    assert carrying(params, TRACE) is params
