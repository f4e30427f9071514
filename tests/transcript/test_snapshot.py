"""Snapshots: what was, for ever, for a pointer an entity and what changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acpwire import v2
from acpwire.transcript import Transcript
from tests.transcript.streams import streams
from tests.transcript.test_fold import fold

A = v2.TextContent(text="A")


@settings(deadline=None)
@given(streams(), st.integers(0, 12))
def test_a_snapshot_does_not_change_and_one_taken_before_makes_no_difference(updates: list[Any], at: int) -> None:
    transcript = fold(updates[:at])
    early = transcript.snapshot()
    for update in updates[at:]:
        transcript.apply(update)
    assert early == fold(updates[:at]).snapshot()
    assert transcript.snapshot() == fold(updates).snapshot()
    assert repr(transcript.snapshot()) == repr(fold(updates).snapshot())


def test_what_did_not_change_is_shared_with_the_last_snapshot() -> None:
    transcript = fold(v2.AgentMessageChunk(message_id=str(number), content=A) for number in range(5))
    first = transcript.snapshot()
    transcript.apply(v2.AgentMessageChunk(message_id="3", content=A))
    second = transcript.snapshot()
    shared = [one is other for one, other in zip(first.timeline, second.timeline, strict=True)]
    assert shared == [True, True, True, False, True]


def test_the_entities_of_a_snapshot_are_not_those_of_the_transcript() -> None:
    transcript = fold([v2.ToolCallUpdate(tool_call_id="t", title="old")])
    before = transcript.snapshot()
    transcript.apply(v2.ToolCallUpdate(tool_call_id="t", title="new"))
    (call,) = before.timeline
    assert call == Transcript.load([b'{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"old"}']).timeline[0]
    assert call != transcript.timeline[0]
    assert call != before


def test_a_snapshot_refuses_to_be_changed() -> None:
    transcript = fold([v2.AgentMessageChunk(message_id="m", content=A), v2.SessionInfoUpdate(title="T")])
    snapshot = transcript.snapshot()
    (message,) = snapshot.timeline
    with pytest.raises(AttributeError, match="a snapshot does not change"):
        message.id = "n"
    with pytest.raises(TypeError, match="does not change"):
        message.content.append(A)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # it is a message
    with pytest.raises(AttributeError):
        snapshot.usage = None  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]  # what is tested
    transcript.apply(v2.AgentMessageChunk(message_id="m", content=A))
    assert transcript.text == "AA"
