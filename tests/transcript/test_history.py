"""The way back: updates that rebuild a history, and its lines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acpwire import v2
from acpwire.transcript import Transcript, Unknown, history
from acpwire.wire import DecodeError, EncodeError
from tests.transcript.streams import streams
from tests.transcript.test_fold import fold, fold_recording

A, B = (v2.TextContent(text=letter) for letter in "AB")
IMAGE = v2.ImageContent(data="aGk=", mime_type="image/png")
CP_14 = "CP-14"


@settings(deadline=None)
@given(streams())
def test_folding_the_updates_or_loading_the_lines_gives_an_equal_snapshot(updates: list[Any]) -> None:
    transcript = fold(updates)
    assert fold(transcript.updates()).snapshot() == transcript.snapshot()
    assert Transcript.load(transcript.save()).snapshot() == transcript.snapshot()


@settings(deadline=None)
@given(streams(), st.integers(1, 2))
def test_replaying_onto_a_transcript_that_has_it_changes_nothing(updates: list[Any], times: int) -> None:
    """CP-18, SS-19, SU-03, ST-08, US-06."""
    transcript = fold(updates)
    before, notices, spent = transcript.snapshot(), transcript.notices, transcript.spent
    for _ in range(times):
        with transcript.replaying():
            for update in transcript.updates():
                transcript.apply(update)
    assert (transcript.snapshot(), transcript.notices, transcript.spent) == (before, notices, spent)


def test_what_is_not_known_has_no_identity_but_in_a_replay() -> None:  # SU-03, SU-04
    """Two equal ones may be two pieces of a whole, so `apply` drops none; a replay brings each once."""
    later = [v2.UnknownVariant("_piece", b'{"sessionUpdate":"_piece","text":"%s"}' % text) for text in (b"a", b"b")]
    piece, other = later
    transcript = fold([piece, piece])
    assert [each.id for each in transcript.timeline] == ["0", "1"]
    with transcript.replaying():
        for update in (piece, other, piece, piece):
            transcript.apply(update)
    found = [each.update.data["text"] for each in transcript.timeline if isinstance(each, Unknown)]
    assert found == ["a", "a", "b", "a"]
    transcript.apply(piece)
    assert len(transcript.timeline) == 5


def test_a_replay_that_breaks_off_is_over() -> None:
    piece = v2.UnknownVariant("_piece", b'{"sessionUpdate":"_piece"}')
    transcript = fold([piece])

    def break_off() -> None:
        with transcript.replaying():
            raise ConnectionError

    with pytest.raises(ConnectionError):
        break_off()
    transcript.apply(piece)
    assert len(transcript.timeline) == 2


def test_a_replay_counts_news_but_not_what_is_known() -> None:  # ST-08, US-06, X11
    usage = v2.Usage(total_tokens=5, input_tokens=3, output_tokens=2)
    running, idle = v2.StateUpdate(state="running"), v2.StateUpdate(state="idle", usage=usage)
    transcript = fold([idle, v2.UnknownVariant("state_update", b'{"sessionUpdate":"state_update","state":"_busy"}')])
    with transcript.replaying():
        transcript.apply(idle)
    assert transcript.spent == usage
    transcript.apply(running)
    with transcript.replaying():
        transcript.apply(idle)
    assert transcript.spent == v2.Usage(total_tokens=10, input_tokens=6, output_tokens=4)


@pytest.mark.parametrize("name", ["codex-acp", "ts-sdk"])
def test_a_recording_is_rebuilt(name: str) -> None:
    transcript = fold_recording(name)
    lines = [*transcript.save()]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    assert Transcript.load(lines).snapshot() == transcript.snapshot()
    assert Transcript.load(line.decode() for line in [*lines, b"\n"]).snapshot() == transcript.snapshot()


def test_a_broken_line_is_an_error_with_its_place() -> None:
    with pytest.raises(DecodeError, match="Expected"):
        Transcript.load([b'{"sessionUpdate":"agent_message_chunk","messageId":5}'])


def test_streamed_text_goes_out_whole_and_no_notice_goes_out() -> None:  # SU-04, NT-06
    updates = [v2.AgentMessageChunk(message_id="m", content=A), v2.AgentMessageChunk(message_id="m", content=B)]
    transcript = fold([*updates, v2.Notice(severity="info", title="x"), v2.UnknownVariant("notice", b"{}")])
    assert [*transcript.updates()] == [v2.AgentMessage(message_id="m", content=[v2.TextContent(text="AB")])]


def test_several_blocks_go_out_as_a_primer_and_chunks() -> None:  # MS-13
    transcript = fold([v2.AgentMessage(message_id="m", content=[A, IMAGE], meta={"k": 1})])
    assert [*transcript.updates()] == [
        v2.AgentMessage(message_id="m", content=[], meta={"k": 1}),
        v2.AgentMessageChunk(message_id="m", content=A),
        v2.AgentMessageChunk(message_id="m", content=IMAGE),
    ]


def test_long_text_and_long_output_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PIECE", 3)
    text = v2.TextContent(text="abc")
    transcript = fold([v2.AgentMessageChunk(message_id="m", content=text)] * 2)
    transcript.apply(v2.TerminalOutputChunk(terminal_id="t", data="YWJjZGVmZw=="))
    updates = [*transcript.updates()]
    assert [update.tag for update in updates] == [
        *("agent_message", "agent_message_chunk", "agent_message_chunk"),
        *("terminal_update", "terminal_output_chunk", "terminal_output_chunk"),
    ]
    assert fold(updates).snapshot() == transcript.snapshot()
    assert fold(updates).terminals["t"].text == "abcdefg"


@pytest.mark.parametrize("status", ["in_progress", "failed", "cancelled", "_paused"])
def test_a_summary_outside_completed_goes_out_as_it_was_streamed(status: str) -> None:  # CP-14, CP-17
    chunk = v2.CompactionSummaryChunk(compaction_id="c", content=A)
    transcript = fold([chunk, v2.CompactionUpdate(compaction_id="c", status=status)])
    primer, streamed, *last = transcript.updates()
    assert primer == v2.CompactionUpdate(compaction_id="c", status="in_progress", summary=[])
    assert streamed == chunk
    assert last == [v2.CompactionUpdate(compaction_id="c", status=status)] * (status != "in_progress")
    assert not [found for update in transcript.updates() for found in v2.validate(update) if found.requirement == CP_14]


def test_a_completed_summary_goes_out_in_full() -> None:  # CP-17
    transcript = fold([v2.CompactionUpdate(compaction_id="c", status="completed", summary=[A, IMAGE])])
    assert [*transcript.updates()] == [v2.CompactionUpdate(compaction_id="c", status="completed", summary=[A, IMAGE])]


def test_the_state_comes_last_and_a_lost_one_is_lost_again() -> None:  # ST-09, ST-12
    running = v2.StateUpdate(state="running")
    transcript = fold([running, v2.StateUpdate(state="unknown"), v2.AgentMessageChunk(message_id="m", content=A)])
    assert [update.tag for update in transcript.updates()] == ["agent_message", "state_update", "state_update"]
    assert fold(transcript.updates()).state == transcript.state


def test_a_state_that_is_not_listed_takes_away_what_was_known_before_it() -> None:  # ST-12, ST-14
    """Nothing else says so, as types of a stable schema have no `unknown`."""
    running, idle = v2.StateUpdate(state="running"), v2.StateUpdate(state="idle")
    busy = v2.UnknownVariant("state_update", b'{"sessionUpdate":"state_update","state":"_busy"}')
    message = v2.AgentMessage(message_id="m", content=[A])
    transcript = fold([busy, running, busy, message])
    assert [*transcript.updates()] == [busy, running, busy, message]
    transcript.apply(idle)
    assert [*transcript.updates()] == [busy, busy, message, idle]
    assert [*fold([busy]).updates()] == [busy]


def test_a_lost_state_keeps_what_came_with_it() -> None:  # ST-12, BG-01, MT-06
    lost = v2.StateUpdate(state="unknown", background=[v2.BackgroundTerminal(terminal_id="t")], meta={"why": 1})
    transcript = fold([v2.StateUpdate(state="running"), lost])
    assert (transcript.state.lost, transcript.state.value) == (lost, "unknown")
    assert [*transcript.updates()] == [v2.StateUpdate(state="running"), lost]
    transcript.apply(v2.StateUpdate(state="running"))
    assert (transcript.state.lost, transcript.state.confirmed) == (None, True)


def test_lone_surrogates_are_saved_as_what_they_are() -> None:  # SU-09
    first, second = "\ud83d", "\ud83e"
    updates = [
        v2.AgentMessageChunk(message_id=first, content=A),
        v2.AgentMessageChunk(message_id=second, content=v2.TextContent(text="half \ude00 \ue000 \uffff")),
        v2.ToolCallUpdate(tool_call_id="t", raw_input={first: 1, second: [second]}),
    ]
    transcript = fold(updates)
    again = Transcript.load(transcript.save())
    assert again.snapshot() == transcript.snapshot()
    assert [each.id for each in again.timeline] == [first, second, "t"]


def test_numbers_that_json_has_no_form_for_are_not_saved_as_others() -> None:
    transcript = fold([v2.ToolCallUpdate(tool_call_id="t", raw_input=float("nan"))])
    with pytest.raises(EncodeError):
        list(transcript.save())
