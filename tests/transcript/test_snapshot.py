"""Snapshots: what was, for ever, for a pointer an entity and what changed."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Iterable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acpwire import v2
from acpwire.transcript import Blocks, Entity, Message, Output, Snapshot, Terminal, Transcript
from acpwire.transcript.frozen import FrozenDict, FrozenList, FrozenVariant
from tests.transcript.places import VARIANTS, marked
from tests.transcript.streams import streams
from tests.transcript.test_fold import fold

A = v2.TextContent(text="A")
OUTPUT = v2.TerminalOutputChunk(terminal_id="t", data="b2s=")


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


def parts(value: Any) -> Iterator[Any]:
    """Everything a snapshot holds, at any depth, but for what nobody can change."""
    yield value
    if isinstance(value, dict):
        inner: Iterable[Any] = cast("dict[str, Any]", value).values()
    elif isinstance(value, list | tuple | Blocks):
        inner = cast("Iterable[Any]", value)
    elif dataclasses.is_dataclass(value):
        inner = [getattr(value, field.name) for field in dataclasses.fields(value)]
    else:
        inner = [getattr(value, name) for name in getattr(value, "__struct_fields__", ())]
    for each in inner:
        yield from parts(each)


def test_parts_looks_into_everything() -> None:
    raw = {"a": [v2.TextContent(text="x", meta={"deep": [1]})]}
    update = v2.ToolCallUpdate(tool_call_id="t", raw_input=raw, content=[v2.Content(content=A, meta={"mine": 2})])
    found = [*parts(fold([update]).snapshot())]
    assert {"deep": [1]} in found
    assert {"mine": 2} in found


def assert_that_nothing_can_be_changed(snapshot: Snapshot) -> None:
    """Every part refuses."""
    for part in parts(snapshot):
        match part:
            case dict() | list():
                assert isinstance(part, FrozenDict | FrozenList)
            case v2.UnknownVariant():
                assert isinstance(part, FrozenVariant)
            case Entity():
                assert part.is_frozen
            case Blocks():
                with pytest.raises(TypeError):
                    part.append(A)
            case Output():
                with pytest.raises(TypeError):
                    part.append(b"x")
            case _:  # a struct, a tuple, a frozen dataclass, a scalar
                with pytest.raises((AttributeError, TypeError)):
                    part.id = part


@pytest.mark.parametrize("name", VARIANTS)
def test_nothing_that_an_update_may_hold_can_be_changed_in_a_snapshot(name: str) -> None:
    for _, update in marked(name):
        assert_that_nothing_can_be_changed(fold([update]).snapshot())


@settings(deadline=None)
@given(streams())
def test_nothing_in_a_snapshot_can_be_changed(updates: list[Any]) -> None:
    assert_that_nothing_can_be_changed(fold(updates).snapshot())


@settings(deadline=None)
@given(streams(), streams())
def test_a_snapshot_is_copied_and_pickled_as_it_was(before: list[Any], after: list[Any]) -> None:
    transcript = fold(before)
    snapshot = transcript.snapshot()
    for update in after:
        transcript.apply(update)
    for twin in (copy.copy(snapshot), copy.deepcopy(snapshot), pickle.loads(pickle.dumps(snapshot))):  # noqa: S301  # our own
        assert twin == snapshot == fold(before).snapshot()
        assert repr(twin) == repr(snapshot)
        assert all(entity.is_frozen for entity in twin.timeline)


def test_a_pickle_holds_nothing_that_came_later() -> None:
    transcript = fold([v2.AgentMessageChunk(message_id="m", content=A), OUTPUT])
    snapshot = transcript.snapshot()
    size = len(pickle.dumps(snapshot))
    transcript.apply(v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text="x" * 1000)))
    transcript.apply(OUTPUT)
    assert len(pickle.dumps(snapshot)) == size


def test_a_copy_of_content_grows_alone() -> None:
    transcript = fold([v2.AgentMessageChunk(message_id="m", content=A), OUTPUT])
    message, terminal = transcript.timeline
    assert isinstance(message, Message)
    assert isinstance(terminal, Terminal)
    for content in (copy.copy(message.content), copy.deepcopy(message).content):
        content.append(A)
        assert content.text == "AA"
    for output in (copy.copy(terminal.output), copy.deepcopy(terminal).output):
        assert output is not None
        output.append(b"x")
        assert output.text == "okx"
    assert (transcript.text, transcript.terminals["t"].text) == ("A", "ok")


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
