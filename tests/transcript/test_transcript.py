"""What one asks of a transcript: its views, its observer, types of other drafts."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from acpwire import v2
from acpwire.transcript import Blocks, Change, Compaction, Entity, Terminal, Transcript
from acpwire_codegen.__main__ import main as codegen
from tests.transcript.streams import streams
from tests.transcript.test_fold import CORPUS, call, fold

A, B, C, D = (v2.TextContent(text=letter) for letter in "ABCD")


def test_the_text_is_the_answer_since_the_users_last_message() -> None:
    transcript = fold(
        [
            v2.AgentMessageChunk(message_id="old", content=A),
            v2.UserMessage(message_id="u", content=[B]),
            v2.AgentThoughtChunk(message_id="t", content=B),
            v2.AgentMessageChunk(message_id="new", content=C),
            v2.AgentMessageChunk(message_id="newer", content=D),
        ]
    )
    assert transcript.text == "C\n\nD"
    assert transcript.last_message is transcript.messages["agent", "newer"]
    assert Transcript().last_message is None


def test_types_of_an_older_draft_fold_by_its_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # X6
    document = json.loads((CORPUS / "schemas" / "1.6.1-v2.unstable.json").read_text("utf-8"))
    document["$defs"]["CompactionUpdate"]["properties"]["_meta"]["description"] = "Null clears it."  # no word of keys
    schema = tmp_path / "older.json"
    schema.write_text(json.dumps(document), "utf-8")
    assert codegen(["generate", "--schema", str(schema), "--out", str(tmp_path / "older"), "--package", "older"]) == 0
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    older: Any = importlib.import_module("older")
    try:
        transcript = Transcript(schema=older)
        transcript.apply(older.CompactionUpdate(compaction_id="c", status="in_progress", meta={"a": 1}))
        transcript.apply(older.CompactionUpdate(compaction_id="c", status="completed", meta={"b": 2}))
        transcript.apply(older.AgentMessageChunk(message_id="m", content=older.TextContent(text="hi")))
        assert transcript.compactions["c"].meta == {"b": 2}
        assert transcript.text == "hi"
        again = Transcript.load(transcript.save(), schema=older)
        assert again.snapshot() == transcript.snapshot()
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "older"]:
            del sys.modules[name]


def test_cancelling_marks_what_has_not_ended_until_the_agent_says_otherwise() -> None:  # CA-02, CA-08, TC-20
    transcript = fold([call("in_progress"), v2.ToolCallUpdate(tool_call_id="done", status="completed")])
    before = transcript.snapshot()
    transcript.cancel_unfinished()
    calls = transcript.tool_calls
    assert (calls["t"].display_status, calls["t"].status) == ("cancelled", "in_progress")
    assert calls["done"].display_status == "completed"
    assert transcript.snapshot() == before
    transcript.apply(call(title="still here"))
    assert calls["t"].display_status == "cancelled"
    transcript.apply(call("completed"))
    assert (calls["t"].display_status, calls["t"].provisional) == ("completed", False)


@pytest.mark.parametrize(
    "value",
    [A, "text", None, v2.Response(id=1, result=None), v2.CancelToolCallRequest(session_id="s", tool_call_id="t")],
)
def test_what_is_no_update_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="is no session update"):
        Transcript().apply(value)


@pytest.mark.parametrize(
    "response",
    [
        v2.NewSessionResponse(session_id="s", config_options=[], available_commands=[]),
        v2.ResumeSessionResponse(config_options=[], available_commands=[]),
        v2.PromptResponse(message_id="m"),
    ],
)
def test_no_response_changes_what_updates_have_reported(response: Any) -> None:  # SU-12, ST-10, PL-25
    """Whoever sets up a session sees by None what no update has reported yet."""
    assert (Transcript().commands, Transcript().config) == (None, None)
    command = v2.Command(name="go", description="Go")
    reported = [v2.AvailableCommandsUpdate(available_commands=[command]), v2.ConfigOptionUpdate(config_options=[])]
    transcript = fold([*reported, v2.StateUpdate(state="running")])
    before = transcript.snapshot()
    with pytest.raises(TypeError, match="is no session update"):
        transcript.apply(response)
    assert transcript.snapshot() == before
    assert not transcript.state.is_idle


def test_an_observer_learns_what_to_draw_and_nothing_else() -> None:
    changes: list[Change] = []
    fold(
        [
            v2.AgentMessageChunk(message_id="m", content=A),
            v2.AgentMessageChunk(message_id="m", content=B),
            v2.AgentMessage(message_id="m", content=[C]),
            v2.TerminalOutputChunk(terminal_id="t", data="b2s="),
            v2.TerminalOutputChunk(terminal_id="t", data="b2s="),
            v2.Notice(severity="info", title="hi"),
            v2.AvailableCommandsUpdate(available_commands=[]),
        ],
        observer=changes.append,
    )
    assert changes == [
        ("agent", "m", "created", 0),
        ("agent", "m", "appended", 1),
        ("agent", "m", "replaced", 0),
        ("terminal", "t", "created", 0),
        ("terminal", "t", "appended", 2),
        ("notice", "", "created", 0),
        ("commands", "", "replaced", 0),
    ]


UPDATES: list[Any] = [
    v2.AgentMessageChunk(message_id="m", content=A),
    v2.AgentMessage(message_id="n", content=[A, B], meta={"k": 1}),
    call("in_progress", title="T"),
    v2.TerminalOutputChunk(terminal_id="t", data="b2s="),
    v2.PlanUpdate(plan=v2.PlanItems(plan_id="p", entries=[])),
    v2.CompactionSummaryChunk(compaction_id="c", content=A),
    v2.UnknownVariant("state_update", b'{"sessionUpdate":"state_update","state":"_busy"}'),
    v2.UsageUpdate(used=1, size=2),
    v2.Notice(severity="info", title="hi"),
]


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: update.tag)
def test_an_update_is_folded_in_full_whatever_an_observer_raises(update: Any) -> None:
    def fail(change: Change) -> None:
        raise RuntimeError(change.category)

    transcript = Transcript(observer=fail)
    expected = fold([update, update])
    for _ in range(2):
        with pytest.raises(RuntimeError):
            transcript.apply(update)
    assert transcript.snapshot() == expected.snapshot()
    assert transcript.notices == expected.notices


def test_the_next_update_is_told_as_any_other_after_an_observer_raised() -> None:
    told: list[Change] = []

    def fail_once(change: Change) -> None:
        told.append(change)
        if len(told) == 1:
            raise RuntimeError

    transcript = Transcript(observer=fail_once)
    with pytest.raises(RuntimeError):
        transcript.apply(v2.AgentMessageChunk(message_id="m", content=A))
    transcript.apply(v2.AgentMessageChunk(message_id="m", content=B))
    assert told == [("agent", "m", "created", 0), ("agent", "m", "appended", 1)]


def test_all_calls_are_marked_as_cancelled_whatever_an_observer_raises() -> None:  # CA-02
    def fail(change: Change) -> None:
        if change.what == "replaced" and transcript.tool_calls[change.id].provisional:
            raise RuntimeError

    transcript = fold([], observer=fail)
    for key in "tu":
        transcript.apply(v2.ToolCallUpdate(tool_call_id=key))
    with pytest.raises(RuntimeError):
        transcript.cancel_unfinished()
    assert {each.display_status for each in transcript.tool_calls.values()} == {"cancelled"}


def test_an_observer_meets_the_whole_update_and_may_apply_more() -> None:
    seen: list[tuple[str, str]] = []

    def look(change: Change) -> None:
        seen.append((change.what, transcript.text))
        if len(seen) == 1:
            transcript.apply(v2.AgentMessageChunk(message_id="m", content=B))

    transcript = Transcript(observer=look)
    transcript.apply(v2.AgentMessageChunk(message_id="m", content=A))
    assert seen == [("created", "A"), ("appended", "AB")]


@given(streams())
def test_a_history_is_taken_over_whole_and_told_to_no_observer(updates: list[Any]) -> None:  # SS-19, ST-12
    earlier = fold(updates)
    before = earlier.snapshot()
    told: list[Change] = []
    for history in (earlier, before):
        transcript = Transcript(observer=told.append)
        transcript.take_over(history)
        assert not told
        assert not transcript.state.confirmed or before.state.last_known is None
        assert transcript.state.last_known == before.state.last_known
        with transcript.replaying():
            for update in earlier.updates():
                transcript.apply(update)
        assert transcript.snapshot() == before == earlier.snapshot()
        told.clear()
        transcript.apply(v2.UsageUpdate(used=1, size=2))
        assert [change.category for change in told] == ["usage"]
        told.clear()


def test_a_child_inherits_what_it_does_not_set_and_null_state_is_not_idle() -> None:  # SA-04, SA-05, SA-06
    transcript = Transcript(cwd="/p", additional_directories=["/q"])
    transcript.apply(v2.SubagentUpdate(session_id="s", state=v2.StateSnapshot(state="idle"), additional_directories=[]))
    child = transcript.subagents["s"]
    assert transcript.inherited_cwd("s") == "/p"
    assert transcript.inherited_directories("s") == ()
    assert not child.may_cancel
    transcript.apply(v2.SubagentUpdate(session_id="s", state=None, additional_directories=None, cwd="/c"))
    assert child.state is None
    assert (transcript.inherited_cwd("s"), transcript.inherited_directories("s")) == ("/c", ("/q",))


@settings(deadline=None)
@given(streams())
def test_a_display_that_does_what_an_observer_is_told_shows_the_transcript(updates: list[Any]) -> None:
    """Nobody has to compare: drawn anew where created or replaced, drawn further where appended."""
    shown: dict[tuple[str, str], Any] = {}

    def draw(change: Change) -> None:
        name = (change.category, change.id)
        if change.what == "removed":
            del shown[name]
        elif change.id:
            (found,) = [each for each in transcript.timeline if (each.category, each.id) == name]
            whole = content(found)
            shown[name] = shown[name] + whole[change.start :] if change.what == "appended" else whole

    def content(entity: Entity) -> Any:
        if isinstance(entity, Terminal):
            return bytes(entity.output or b"")
        found: Any = entity.summary if isinstance(entity, Compaction) else getattr(entity, "content", None)
        return found[:] if isinstance(found, Blocks) else found

    transcript = Transcript(observer=draw)
    for update in updates:
        transcript.apply(update)
    assert shown == {(each.category, each.id): content(each) for each in transcript.timeline}
