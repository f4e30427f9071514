"""Streams of updates for hypothesis: everything the pinned draft allows, about few entities, so that they meet."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from acpwire import v2
from tests.models.strategies import compact, documents, is_object

IDS = ("messageId", "toolCallId", "terminalId", "compactionId", "sessionId", "planId")
UNKNOWN: st.SearchStrategy[Any] = st.integers(0, 9).map(lambda number: {"sessionUpdate": "_later", "value": number})
LATER_STATE: st.SearchStrategy[Any] = st.just({"sessionUpdate": "state_update", "state": "_pondering"})


KINDS: Mapping[str, tuple[str, ...]] = {
    "user": ("UserMessage", "UserMessageChunk"),
    "agent": ("AgentMessage", "AgentMessageChunk"),
    "thought": ("AgentThought", "AgentThoughtChunk"),
    "session_message": ("SessionMessage", "SessionMessageChunk"),
    "tool_call": ("ToolCallUpdate", "ToolCallContentChunk"),
    "terminal": ("TerminalUpdate", "TerminalOutputChunk"),
    "plan": ("PlanUpdate", "PlanRemoved"),
    "compaction": ("CompactionUpdate", "CompactionSummaryChunk"),
    "subagent": ("SubagentUpdate",),
    "commands": ("AvailableCommandsUpdate",),
    "config": ("ConfigOptionUpdate",),
    "info": ("SessionInfoUpdate",),
    "usage": ("UsageUpdate",),
    "state": ("StateUpdate",),
    "notice": ("Notice",),
}
"""What updates are about -> the variants that are; the last six have no ID, there is one of each."""
ENTITIES = [(kind, key) for kind in list(KINDS)[:9] for key in "ab"] + [(kind, "") for kind in list(KINDS)[9:]]


def _update(draw: st.DrawFn, document: Any, keys: str) -> Any:
    """The update of a document, with one of these IDs and output that is base64."""
    for place in (document, document.get("plan")):
        for name in IDS:
            if place and name in place:
                place[name] = draw(st.sampled_from(keys))
    for place in (document, document.get("output")):
        if is_object(place) and "data" in place and document["sessionUpdate"].startswith("terminal"):
            place["data"] = base64.b64encode(draw(st.binary(max_size=9))).decode()
    return v2.decode(v2.SessionUpdate, compact(document))


@st.composite
def updates(draw: st.DrawFn, *, unknown: bool = True) -> Any:
    """One update, with an ID of two."""
    known = documents("SessionUpdate")
    return _update(draw, draw(st.one_of(known, known, UNKNOWN, LATER_STATE) if unknown else known), "ab")


def streams(*, unknown: bool = True) -> st.SearchStrategy[list[Any]]:
    """Several updates in their order."""
    return st.lists(updates(unknown=unknown), max_size=12)


@st.composite
def updates_of(draw: st.DrawFn, kind: str, key: str) -> Any:
    """One update of this entity."""
    name = draw(st.sampled_from(KINDS[kind]))
    return _update(draw, {"sessionUpdate": getattr(v2, name).tag, **draw(documents(name))}, key)


@st.composite
def interleavings(draw: st.DrawFn) -> tuple[list[Any], list[Any], list[Any]]:
    """The updates of one entity, those of another of any kind, and both as they may come, each in its order."""
    first, second = draw(st.lists(st.sampled_from(ENTITIES), min_size=2, max_size=2, unique=True))
    one, other = (draw(st.lists(updates_of(*entity), min_size=1, max_size=6)) for entity in (first, second))
    turns = draw(st.permutations([one] * len(one) + [other] * len(other)))
    rest = {id(one): iter(one), id(other): iter(other)}
    return one, other, [next(rest[id(turn)]) for turn in turns]
