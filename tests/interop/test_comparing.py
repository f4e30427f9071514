"""What the interop session rests on, without a peer: nothing is left out, differences are told, faults are counted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from acpwire import v2
from tests.faults import Fault

from .agents import misread
from .comparing import Report, differences, folded, typed
from .story import told
from .variants import left_out

CHUNK: dict[str, Any] = {
    "sessionUpdate": "agent_message_chunk",
    "messageId": "m",
    "content": {"type": "text", "text": "a"},
}
CALL: dict[str, Any] = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": None, "rawInput": {"a": None}}


def test_the_story_has_every_variant_of_an_update_and_every_member() -> None:
    updates = [typed(one) for one in told()]
    assert not list(left_out(updates))
    tags = {tag for one in updates if (tag := getattr(one, "tag", "")) and not isinstance(one, v2.UnknownVariant)}
    assert len(tags) == 23


@pytest.mark.parametrize("tag", sorted({one["sessionUpdate"] for one in told() if "_" in one["sessionUpdate"][1:]}))
def test_a_variant_that_is_missing_is_told(tag: str) -> None:
    assert list(left_out(typed(one) for one in told() if one["sessionUpdate"] != tag)) or tag == "replay_complete"


def test_a_difference_is_told_where_it_is() -> None:
    one, other = ({"a": [1, {"b": value}], "c": 3} for value in (1, 2))
    assert list(differences(one, other, "x")) == ["x.a.1.b: 1, not 2"]
    assert list(differences(one, {"c": 3}, "x")) == [f"x.a: {one['a']!r}, not nothing"]
    assert list(differences(None, [], "x")) == ["x: None, not []"]


def test_a_difference_of_transcripts_is_told_where_it_is() -> None:
    mine = folded([typed(CHUNK), typed(CALL)])
    theirs = folded([typed(CALL), typed({**CHUNK, "content": {"type": "text", "text": "b"}})])
    assert list(differences(mine, theirs, "x")) == [
        "x.agent m.content.0.text: 'a', not 'b'",
        "x: order.0: 'agent m', not 'tool_call t'",
        "x: order.1: 'tool_call t', not 'agent m'",
    ]
    assert next(differences(mine, folded([typed(CHUNK)]), "x")).endswith(", not nothing")


def test_null_counts_as_absence_only_where_it_is() -> None:
    assert not list(misread(typed(CALL), CALL, "x"))
    assert not list(misread(typed(CHUNK), {**CHUNK, "_meta": None}, "x"))
    assert list(misread(typed({**CALL, "title": "a"}), CALL, "x")) == ["x.title: 'a', not None"]
    without = {name: value for name, value in CALL.items() if name != "title"}
    assert list(misread(typed(without), CALL, "x")) == ["x.title: nothing, not None"]


def test_a_fault_that_does_not_show_is_a_failure() -> None:
    report = Report("peer", [Fault("peer", "a rule", "it is late", re.compile("^late:"))])
    assert report.close(0) == ["peer: a rule is kept now: it is late"]
    report.expect("late", 1, 2)
    assert report.close(0) == []
    report.expect("early", 1, 2)
    assert report.close(0) == ["peer: early: 1, not 2"]
