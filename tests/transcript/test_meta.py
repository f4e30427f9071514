"""`_meta`: wherever the types have it, it is kept, by the rule of its place, through snapshots, updates and lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acpwire import v2
from acpwire.transcript import Transcript
from acpwire.wire.v2.unions import CHOICES
from tests.transcript.places import FURTHER, MARK, VARIANTS, marked, minimal
from tests.transcript.test_fold import fold

A = v2.TextContent(text="A")
EVENTS = {"Notice", "PlanRemoved"}
"""Kept as it came, but no history; and what leaves nothing that could have a `_meta`."""


def is_kept_by_history(name: str, path: str) -> bool:
    """What a chunk or an event says of itself is no part of the history; what it carries is, in a chunk."""
    rule = v2.META_RULES.get(VARIANTS[name].cls)
    return name not in EVENTS and not (rule == "chunk" and path == "._meta")


def test_all_variants_are_looked_at_and_places_are_found_at_any_depth() -> None:
    assert len(VARIANTS) == 24
    assert len(FURTHER) == len(CHOICES)
    deep = {path for path, _ in marked("ToolCallContentChunk")}
    assert {"._meta", ".content._meta", ".content.content.annotations._meta", ".content.changes[]._meta"} <= deep


@pytest.mark.parametrize("name", VARIANTS)
def test_meta_is_found_again_wherever_it_was(name: str) -> None:  # MT-01, MT-04, MT-06, TM-09, PN-07
    for path, update in marked(name):
        assert v2.encode(update).decode().count(MARK) == 1, path
        transcript = fold([update])
        lines = b"".join(transcript.save()).decode()
        loaded = Transcript.load(lines.splitlines())
        found = [MARK in text for text in (repr(transcript.snapshot()), lines, repr(loaded.snapshot()))]
        assert found == [is_kept_by_history(name, path)] * 3, path
        assert (MARK in repr(transcript.notices)) == (name == "Notice"), path


def meta_of(transcript: Transcript) -> Any:
    """The `meta` of the only thing that a transcript was told of."""
    if transcript.timeline:
        return transcript.timeline[0].meta  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # every known entity has one
    latest = transcript.state.lost or transcript.state.last_known or transcript.usage
    return latest.meta if latest else transcript.commands_meta or transcript.config_meta or transcript.info["meta"]


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - EVENTS))
def test_a_later_meta_patches_or_replaces_by_the_rule_of_its_type(name: str) -> None:  # MT-01, MT-03, MT-04, PN-07
    cls = VARIANTS[name].cls
    rule = v2.META_RULES.get(cls, "plain")
    transcript = Transcript()
    for meta, patched, replaced in (
        ({"a": 1, "b": {"c": 1}}, {"a": 1, "b": {"c": 1}}, {"a": 1, "b": {"c": 1}}),
        ({"b": {"d": None}, "a": None}, {"b": {"d": None}}, {"b": {"d": None}, "a": None}),
        ({"e": 2}, {"b": {"d": None}, "e": 2}, {"e": 2}),
        ("omitted", {"b": {"d": None}, "e": 2}, None),
        ({"f": 3}, {"b": {"d": None}, "e": 2, "f": 3}, {"f": 3}),
        (None, None, None),
    ):
        document = minimal(VARIANTS[name]) | ({} if meta == "omitted" else {"_meta": meta})
        transcript.apply(v2.decode(cls, json.dumps(document).encode()))
        assert meta_of(transcript) == {"patch": patched, "plain": replaced, "chunk": None}[rule]


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - EVENTS))
def test_a_malformed_meta_is_none_at_all(name: str) -> None:  # MT-01
    cls = VARIANTS[name].cls
    transcript = fold([v2.decode(cls, json.dumps(minimal(VARIANTS[name]) | {"_meta": [1]}).encode())])
    assert meta_of(transcript) is None


def test_the_meta_of_a_part_goes_with_the_part() -> None:  # MT-06, TM-09
    def terminal(number: int | None) -> Any:
        meta = None if number is None else {"number": number, f"only {number}": True}
        output, status = v2.TerminalOutput(data="b2s=", meta=meta), v2.TerminalExitStatus(meta=meta)
        return v2.TerminalUpdate(terminal_id="t", output=output, exit_status=status)

    transcript = fold([terminal(1), terminal(2), v2.TerminalOutputChunk(terminal_id="t", data="b2s=", meta={"x": 1})])
    found = transcript.terminals["t"]
    assert found.output is not None
    assert (found.output.meta, found.exit_status.meta, found.meta) == (*[{"number": 2, "only 2": True}] * 2, None)
    assert found.text == "okok"
    transcript.apply(terminal(None))
    assert (found.output.meta, found.exit_status.meta) == (None, None)


def test_a_key_of_meta_that_is_named_like_a_member_means_nothing() -> None:  # MT-02
    meta: dict[str, Any] = {
        "status": "failed",
        "content": [],
        "title": "no",
        "sessionUpdate": "notice",
        "toolCallId": "u",
    }
    update = v2.ToolCallUpdate(tool_call_id="t", status="completed", title="yes", content=[v2.Content(content=A)])
    with_meta, without = fold([update]), fold([update])
    with_meta.apply(v2.ToolCallUpdate(tool_call_id="t", meta=meta))
    assert with_meta.tool_calls["t"].meta == meta
    with_meta.apply(v2.ToolCallUpdate(tool_call_id="t", meta=None))
    assert with_meta.snapshot() == without.snapshot()


def test_a_member_that_its_type_does_not_have_is_not_kept() -> None:  # MT-02
    line = b'{"sessionUpdate":"session_info_update","title":"T","mine":"at the root"}'
    assert b"".join(Transcript.load([line]).save()) == b'{"sessionUpdate":"session_info_update","title":"T"}\n'


def test_trace_context_comes_back_as_it_was_and_none_is_made_up() -> None:  # MT-05
    context = {"traceparent": "00-1-2-01", "tracestate": "a=b", "baggage": "c=d"}
    transcript = fold(
        [
            v2.AgentMessage(
                message_id="m", content=[A, v2.ImageContent(data="aGk=", mime_type="image/png")], meta=context
            )
        ]
    )
    first, *others = transcript.updates()
    assert first.meta == context
    assert [update.meta for update in others] == [None, None]
    without = fold([v2.AgentMessageChunk(message_id="m", content=A, meta=context)])
    assert b"trace" not in b"".join(without.save())
