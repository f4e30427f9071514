"""The fold: each update does to its entity what the page and table B2 say."""

from __future__ import annotations

import base64
import json
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import acpwire
from acpwire import v2
from acpwire.transcript import Change, Entity, Subagent, Terminal, ToolCall, Transcript, Usage
from acpwire.transcript.fold import HANDLERS
from acpwire.wire import DecodeError
from acpwire.wire.values import WireStruct
from tests import fuzz
from tests.models import transcript as model
from tests.transcript.judged import entity, whole
from tests.transcript.streams import KINDS, interleavings, streams

CORPUS = Path(__file__).parents[1] / "corpus"
GOLDEN = Path(__file__).with_name("golden")
"""Reviewed by eye; written anew with `json.dump(whole(fold_recording(name)), file, indent=1)`."""
A, B, C, D = (v2.TextContent(text=letter) for letter in "ABCD")


def fold(updates: Iterable[Any], **options: Any) -> Transcript:
    """A transcript of these updates."""
    transcript = Transcript(**options)
    for update in updates:
        transcript.apply(update)
    return transcript


def texts(blocks: Iterable[Any]) -> list[str]:
    """The texts of text blocks."""
    return [block.text for block in blocks]


def call(status: Any = v2.UNSET, **members: Any) -> v2.ToolCallUpdate:
    """An update of the tool call `t`."""
    return v2.ToolCallUpdate(tool_call_id="t", status=status, **members)


# --- judged by the model ----------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(streams())
def test_a_stream_adds_up_to_what_the_independent_model_says(updates: list[Any]) -> None:
    assert whole(fold(updates)) == model.fold(json.loads(v2.encode(update)) for update in updates)


def test_every_variant_of_the_pinned_schema_is_folded_and_every_patch_has_a_member() -> None:  # SU-01
    patched = {cls: names for cls, names in v2.PATCHES.items() if cls.__struct_config__.tag_field == "sessionUpdate"}
    variants = {cls.tag: cls for cls in vars(v2).values() if _is_update(cls)}
    assert set(HANDLERS) == set(variants)
    for cls, names in patched.items():
        minimal = v2.decode(cls, _minimal(cls))
        transcript = fold([minimal])
        holders = [transcript.timeline[0]] if transcript.timeline else [transcript.usage]
        if cls is v2.SessionInfoUpdate:
            assert set(names) | {"meta"} == set(transcript.info)
            continue
        for name in names:
            assert hasattr(holders[0], name)


def _is_update(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, WireStruct) and cls.__struct_config__.tag_field == "sessionUpdate"


def _minimal(cls: Any) -> bytes:
    ids = ("messageId", "toolCallId", "terminalId", "compactionId", "sessionId")
    document = {"sessionUpdate": cls.tag, **dict.fromkeys(ids, "x"), "used": 1, "size": 2, "status": "in_progress"}
    return json.dumps({**document, "content": {"type": "text", "text": ""}}).encode()


# --- messages ---------------------------------------------------------------------------------------------------------


def test_chunks_and_whole_messages_mix_as_the_page_shows() -> None:  # MS-02, MS-03, MS-05, MS-06
    transcript = fold(
        [
            v2.AgentMessage(message_id="m", content=[A]),
            v2.AgentMessageChunk(message_id="m", content=B),
        ]
    )
    assert texts(transcript.messages["agent", "m"].content) == ["A", "B"]
    transcript.apply(v2.AgentMessage(message_id="m", content=[C]))
    transcript.apply(v2.AgentMessageChunk(message_id="m", content=D))
    assert texts(transcript.messages["agent", "m"].content) == ["C", "D"]
    assert transcript.text == "CD"


@pytest.mark.parametrize("cleared", [None, []])
def test_null_and_an_empty_list_clear_a_message_and_an_omitted_content_keeps_it(cleared: Any) -> None:  # MS-03, MS-08
    transcript = fold([v2.UserMessage(message_id="m", content=[A])])
    transcript.apply(v2.UserMessage(message_id="m", meta={"k": 1}))
    message = transcript.messages["user", "m"]
    assert texts(message.content) == ["A"]
    assert message.meta == {"k": 1}
    transcript.apply(v2.UserMessage(message_id="m", content=cleared))
    assert not message.content


def test_the_users_message_is_found_by_its_id_alone() -> None:  # PL-17, PL-18, PL-20
    """Whether an update comes before or after the response; never by content or order."""
    transcript = fold([v2.UserMessage(message_id="u1", content=[A]), v2.UserMessage(message_id="u2", content=[A])])
    transcript.apply(v2.UserMessage(message_id="u1", content=[A]))
    assert [each.id for each in transcript.timeline] == ["u1", "u2"]


def test_lists_and_infos_of_the_session_are_replaced_or_patched() -> None:  # CO-06, CM-01, SS-24
    command = v2.Command(name="go", description="Go")
    transcript = fold([v2.AvailableCommandsUpdate(available_commands=[command])])
    assert (transcript.commands, transcript.config) == ((command,), None)
    transcript.apply(v2.AvailableCommandsUpdate(available_commands=[]))
    transcript.apply(v2.ConfigOptionUpdate(config_options=[]))
    assert (transcript.commands, transcript.config) == ((), ())
    transcript.apply(v2.SessionInfoUpdate(title="T", meta={"a": 1}))
    transcript.apply(v2.SessionInfoUpdate(meta={"b": 2}))
    assert transcript.info == {"title": "T", "updated_at": None, "meta": {"a": 1, "b": 2}}
    transcript.apply(v2.SessionInfoUpdate(title=None))
    assert transcript.info["title"] is None


def test_equal_ids_of_different_kinds_are_different_messages() -> None:  # SU-09
    transcript = fold(
        [
            v2.UserMessageChunk(message_id="m", content=A),
            v2.AgentMessageChunk(message_id="m", content=B),
            v2.AgentThoughtChunk(message_id="m", content=C),
            v2.SessionMessageChunk(message_id="m", content=D),
        ]
    )
    assert [each.category for each in transcript.timeline] == ["user", "agent", "thought", "session_message"]
    assert transcript.session_messages["m"].text == "D"


def test_first_sight_fixes_the_place() -> None:  # SU-10, CP-04
    transcript = fold(
        [
            v2.CompactionUpdate(compaction_id="c", status="in_progress"),
            v2.AgentMessageChunk(message_id="m", content=A),
            v2.CompactionSummaryChunk(compaction_id="c", content=B),
            v2.AgentMessageChunk(message_id="m", content=C),
        ]
    )
    assert [each.id for each in transcript.timeline] == ["c", "m"]


def test_the_meta_of_a_chunk_is_its_own_and_that_of_an_update_patches_by_key() -> None:  # MT-03, MT-04, MS-07
    transcript = fold(
        [
            v2.AgentMessage(message_id="m", meta={"kept": 1, "gone": 2, "whole": {"a": 1}}),
            v2.AgentMessageChunk(message_id="m", content=A, meta={"mine": 1}),
            v2.AgentMessage(message_id="m", meta={"gone": None, "whole": {"b": None}, "new": 3}),
            v2.AgentMessage(message_id="m", meta={}),
        ]
    )
    message = transcript.messages["agent", "m"]
    assert message.meta == {"kept": 1, "whole": {"b": None}, "new": 3}
    transcript.apply(v2.AgentMessage(message_id="m", meta=None))
    assert message.meta is None


def test_an_omitted_or_null_participant_leaves_the_known_one() -> None:  # X7, SM-04, SM-06
    transcript = fold(
        [
            v2.SessionMessageChunk(message_id="m", content=A, sender_session_id="s"),
            v2.SessionMessageChunk(message_id="m", content=B),
            v2.SessionMessage(message_id="m", recipient_session_id="r", sender_session_id=None),
            v2.SessionMessage(message_id="m", sender_message_id="x", recipient_message_id="y"),
            v2.SessionMessage(message_id="m", recipient_message_id=None),
        ]
    )
    message = transcript.session_messages["m"]
    assert (message.sender_session_id, message.recipient_session_id) == ("s", "r")
    assert (message.sender_message_id, message.recipient_message_id) == ("x", None)
    assert message.text == "AB"


# --- tool calls and terminals -----------------------------------------------------------------------------------------


def test_a_tool_call_begins_with_defaults_and_null_resets_to_them() -> None:  # TC-03
    transcript = fold([call()])
    found = transcript.tool_calls["t"]
    fresh = entity(found)
    assert (found.kind, found.status, found.title, list(found.content)) == ("other", "pending", None, [])
    transcript.apply(call("failed", title="T", kind="edit", raw_input={"a": [1]}, locations=[]))
    assert (found.kind, found.status, found.title, found.raw_input) == ("edit", "failed", "T", {"a": [1]})
    names = ("name", "title", "kind", "content", "locations", "raw_input", "raw_output", "capabilities")
    transcript.apply(call(None, **dict.fromkeys(names)))
    assert entity(found) == fresh


def test_what_a_permission_request_says_of_a_tool_call_is_applied_like_an_update() -> None:  # PM-03
    transcript = fold([v2.ToolCallFields(tool_call_id="t", title="Delete?"), call("in_progress")])
    assert transcript.tool_calls["t"].title == "Delete?"
    assert transcript.tool_calls["t"].status == "in_progress"


def test_an_unknown_status_has_not_ended_and_an_unknown_kind_is_shown_as_other() -> None:  # TC-11, TC-12
    transcript = fold([call("_stuck", kind="_paint")])
    found = transcript.tool_calls["t"]
    assert (found.is_final, found.display_kind, found.kind) == (False, "other", "_paint")
    transcript.apply(call("cancelled", kind="edit"))
    assert (found.is_final, found.display_kind) == (True, "edit")
    transcript.apply(call("paused"))
    assert not found.is_final


def test_no_list_or_dict_of_an_update_is_kept() -> None:
    shared = {"deep": [1]}
    content: list[Any] = [A]
    transcript = fold([call(raw_input=shared, meta=shared), v2.AgentMessage(message_id="m", content=content)])
    shared["deep"].append(2)
    content.append(B)
    assert transcript.tool_calls["t"].raw_input == {"deep": [1]}
    assert transcript.tool_calls["t"].meta == {"deep": [1]}
    assert transcript.text == "A"


@given(st.text(), st.lists(st.integers(0, 40), max_size=6))
def test_output_cut_anywhere_is_whole_again(text: str, cuts: list[int]) -> None:  # TM-07
    data = text.encode()
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    pieces = [data[a:b] for a, b in pairwise(places)]
    transcript = fold(
        v2.TerminalOutputChunk(terminal_id="t", data=base64.b64encode(piece).decode()) for piece in [b"", *pieces]
    )
    assert transcript.terminals["t"].text == text
    assert bytes(transcript.terminals["t"].output or b"") == data


def test_a_character_that_is_not_complete_yet_is_left_out() -> None:  # TM-07
    euro = "€".encode()
    transcript = fold([v2.TerminalOutputChunk(terminal_id="t", data=base64.b64encode(b"1" + euro[:2]).decode())])
    assert transcript.terminals["t"].text == "1"
    transcript.apply(v2.TerminalOutputChunk(terminal_id="t", data=base64.b64encode(euro[2:]).decode()))
    assert transcript.terminals["t"].text == "1€"


def test_an_output_snapshot_replaces_and_null_makes_it_unknown() -> None:  # TM-04, TM-06, TM-08
    def output(text: str) -> Any:
        return v2.TerminalOutput(data=base64.b64encode(text.encode()).decode())

    transcript = fold([v2.TerminalUpdate(terminal_id="t", output=output("old")), v2.TerminalUpdate(terminal_id="t")])
    terminal = transcript.terminals["t"]
    assert terminal.text == "old"
    transcript.apply(v2.TerminalUpdate(terminal_id="t", output=output(""), exit_status=v2.TerminalExitStatus()))
    assert (terminal.text, terminal.output is None, terminal.exit_status) == ("", False, v2.TerminalExitStatus())
    transcript.apply(v2.TerminalUpdate(terminal_id="t", output=None))
    assert terminal.output is None


def test_output_that_is_no_base64_is_reported_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    transcript = fold(
        [
            v2.TerminalOutputChunk(terminal_id="t", data="b2s="),
            v2.TerminalOutputChunk(terminal_id="t", data="!"),
            v2.TerminalUpdate(terminal_id="t", output=v2.TerminalOutput(data="!"), command="ls"),
        ]
    )
    assert (transcript.terminals["t"].text, transcript.terminals["t"].command) == ("ok", "ls")
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


# --- plans, compactions, children, session ----------------------------------------------------------------------------


def test_a_plan_replaces_the_one_of_its_id_whatever_its_type_and_can_be_removed() -> None:  # PN-03, PN-04, PN-05
    def plan(raw: bytes) -> Any:
        return v2.decode(v2.SessionUpdate, b'{"sessionUpdate":"plan_update","plan":' + raw + b"}")

    transcript = fold(
        [
            plan(b'{"type":"items","planId":"p","entries":[]}'),
            plan(b'{"type":"_later","planId":"p","x":1}'),
            plan(b'{"type":"items","planId":"q","entries":[]}'),
        ]
    )
    assert list(transcript.plans) == ["p", "q"]
    assert transcript.plans["p"].content.raw == b'{"type":"_later","planId":"p","x":1}'
    transcript.apply(v2.PlanRemoved(plan_id="p"))
    transcript.apply(v2.PlanRemoved(plan_id="p"))
    assert [each.id for each in transcript.timeline] == ["q"]
    transcript.apply(plan(b'{"type":"items","planId":"p","entries":[]}'))
    assert [each.id for each in transcript.snapshot().timeline] == ["q", "p"]


def test_a_compaction_keeps_streamed_text_until_a_summary_replaces_it() -> None:  # CP-12, CP-13, CP-15, X5
    transcript = fold(
        [
            v2.CompactionSummaryChunk(compaction_id="c", content=A),
            v2.CompactionSummaryChunk(compaction_id="c", content=B),
            v2.CompactionUpdate(compaction_id="c", status="completed"),
        ]
    )
    found = transcript.compactions["c"]
    assert (found.status, found.summary.text) == ("completed", "AB")
    transcript.apply(v2.CompactionUpdate(compaction_id="c", status="completed", summary=[C]))
    transcript.apply(v2.CompactionSummaryChunk(compaction_id="c", content=D))
    assert found.summary.text == "CD"
    transcript.apply(v2.CompactionUpdate(compaction_id="c", status="failed", summary=None, error="no"))
    assert (found.summary.text, found.error) == ("", "no")


def test_notices_and_compactions_change_nothing_else() -> None:  # NT-05, NT-09, NT-11, CP-19, CP-20
    running = v2.StateUpdate(state="running")
    transcript = fold([running, v2.AgentMessageChunk(message_id="m", content=A), call("in_progress")])
    before = transcript.snapshot()
    error = v2.Notice(severity="error", title="Down")
    transcript.apply(error)
    transcript.apply(error)
    transcript.apply(v2.UnknownVariant("notice", b'{"sessionUpdate":"notice"}'))
    assert transcript.snapshot() == before
    assert len(transcript.notices) == 3
    transcript.apply(v2.CompactionUpdate(compaction_id="c", status="failed", error="no"))
    after = transcript.snapshot()
    assert after.timeline[:-1] == before.timeline
    assert (after.state, after.usage) == (before.state, before.usage)


def test_a_new_session_is_idle_and_unknown_is_no_outcome() -> None:  # ST-07, ST-12, ST-13, ST-14
    transcript = Transcript()
    assert transcript.state.is_idle
    running = v2.StateUpdate(state="running")
    transcript.apply(running)
    for lost in (v2.StateUpdate(state="unknown"), v2.UnknownVariant("state_update", b'{"state":"_busy"}')):
        transcript.apply(running)
        transcript.apply(lost)
        assert (transcript.state.value, transcript.state.last_known) == ("unknown", running)
        assert not transcript.state.is_idle
        assert transcript.state.stop_reason is None
    transcript.apply(v2.StateUpdate(state="idle", stop_reason="cancelled"))
    assert (transcript.state.value, transcript.state.stop_reason) == ("idle", "cancelled")


def test_repeated_snapshots_are_neither_transitions_nor_counted_again() -> None:  # ST-08, US-06
    changes: list[Change] = []
    usage = v2.Usage(total_tokens=5, input_tokens=3, output_tokens=2, thought_tokens=1)
    idle = v2.StateUpdate(state="idle", stop_reason="end_turn", usage=usage)
    running = v2.StateUpdate(state="running")
    transcript = fold([running, running, idle, idle], observer=changes.append)
    assert len(changes) == 2
    assert transcript.spent == usage
    transcript.apply(v2.StateUpdate(state="unknown"))
    transcript.apply(idle)
    assert transcript.spent == usage
    more = v2.Usage(total_tokens=1, input_tokens=1, output_tokens=0, cached_read_tokens=7)
    for update in (running, v2.StateUpdate(state="requires_action"), v2.StateUpdate(state="idle", usage=more)):
        transcript.apply(update)
    assert transcript.spent == v2.Usage(
        total_tokens=6, input_tokens=4, output_tokens=2, thought_tokens=1, cached_read_tokens=7
    )


def test_a_reason_counts_only_with_idle_and_a_state_that_is_not_listed_is_work() -> None:  # X4, ST-08, ST-14
    changes: list[Change] = []
    usage = v2.Usage(total_tokens=3, input_tokens=1, output_tokens=2)
    busy = v2.UnknownVariant("state_update", b'{"sessionUpdate":"state_update","state":"_busy"}')
    transcript = fold([v2.StateUpdate(state="running", stop_reason="end_turn")], observer=changes.append)
    assert transcript.state.stop_reason is None
    for update in (v2.StateUpdate(state="idle", usage=usage), busy, busy, v2.StateUpdate(state="idle", usage=usage)):
        transcript.apply(update)
    assert transcript.spent.total_tokens == 6
    assert [change.category for change in changes].count("state") == 4


@pytest.mark.parametrize("depth", [10, 600, 950])
def test_json_as_deep_as_a_decoder_takes_it_is_folded(depth: int) -> None:  # TC-15, SU-14
    nested = b"[" * depth + b"1" + b"]" * depth
    raw = b'{"sessionUpdate":"tool_call_update","toolCallId":"t","rawInput":%s,"_meta":{"a":%s}}' % (nested, nested)
    update: Any = v2.decode(v2.SessionUpdate, raw)
    transcript = fold([update])
    held: Any = transcript.tool_calls["t"].raw_input
    given: Any = update.raw_input
    levels = 0
    while held != 1:
        assert held is not given
        held, given = held[0], given[0]
        levels += 1
    assert levels == depth


@pytest.mark.parametrize("depth", [600, 9_000, 100_000])
@pytest.mark.parametrize(
    "update",
    [
        b'{"sessionUpdate":"tool_call_update","toolCallId":"t","rawInput":%s}',
        b'{"sessionUpdate":"plan_update","plan":{"type":"_later","planId":"p","x":%s}}',
    ],
    ids=["input", "plan"],
)
def test_what_a_decoder_takes_is_folded_and_saved_however_deep_it_is(update: bytes, depth: int) -> None:  # CP-17, PN-04
    nested = b"[" * depth + rb'"\ud83d"' + b"]" * depth
    try:
        decoded: Any = v2.decode(v2.SessionUpdate, update % nested)
    except DecodeError:
        assert depth > 600
    else:
        assert not fuzz.is_too_deep(depth)
        assert nested in b"".join(fold([decoded]).save())


def test_the_cost_stays_unless_it_is_given_or_cleared() -> None:  # US-05, X13
    cost = v2.Cost(amount=1.5, currency="USD")
    transcript = fold([v2.UsageUpdate(used=1, size=9, cost=cost), v2.UsageUpdate(used=2, size=9)])
    assert transcript.usage == Usage(2, 9, cost)
    transcript.apply(v2.UsageUpdate(used=3, size=9, cost=None))
    assert transcript.usage == Usage(3, 9, None)


def test_an_update_that_is_not_known_stays_in_its_place() -> None:  # SU-03
    raw = b'{"sessionUpdate":"_later", "x":1.50}'
    transcript = fold(
        [
            v2.AgentMessageChunk(message_id="m", content=A),
            v2.decode(v2.SessionUpdate, raw),
            v2.AgentMessageChunk(message_id="n", content=B),
        ]
    )
    assert [each.category for each in transcript.timeline] == ["agent", "unknown", "agent"]
    assert raw + b"\n" in [*transcript.save()]


@pytest.mark.parametrize(
    ("update", "chunk"),
    [
        (v2.UserMessage, v2.UserMessageChunk),
        (v2.AgentMessage, v2.AgentMessageChunk),
        (v2.AgentThought, v2.AgentThoughtChunk),
        (v2.SessionMessage, v2.SessionMessageChunk),
    ],
)
def test_messages_of_all_kinds_fold_alike(update: Any, chunk: Any) -> None:  # MS-04, MS-09, SU-07, SM-05, SM-07, SM-09
    transcript = fold([update(message_id="m")])
    (message,) = transcript.timeline
    found: Any = message
    assert list(found.content) == []
    for step, expected in (
        (chunk(message_id="m", content=A, meta={"its": "own"}), ["A"]),
        (chunk(message_id="m", content=B), ["A", "B"]),
        (update(message_id="m", meta={"k": 1}), ["A", "B"]),
        (update(message_id="m", content=[C]), ["C"]),
        (chunk(message_id="m", content=D), ["C", "D"]),
        (update(message_id="m", content=None), []),
    ):
        transcript.apply(step)
        assert texts(found.content) == expected
    assert found.meta == {"k": 1}
    assert len(transcript.timeline) == 1


def test_content_of_a_tool_call_is_appended_and_replaced_as_a_whole() -> None:  # TC-02, TC-07, TC-15, TC-17
    one, two = (v2.Content(content=block) for block in (A, B))
    can = v2.ToolCallCapabilities(cancel=v2.ToolCallCancelCapabilities(meta={"a": 1}))
    transcript = fold([v2.ToolCallContentChunk(tool_call_id="t", content=one), call(raw_input={"a": 1})])
    found = transcript.tool_calls["t"]
    transcript.apply(v2.ToolCallContentChunk(tool_call_id="t", content=two))
    assert list(found.content) == [one, two]
    transcript.apply(call(content=[two], raw_input=5, capabilities=can))
    transcript.apply(v2.ToolCallContentChunk(tool_call_id="t", content=one))
    assert (list(found.content), found.raw_input, found.capabilities) == ([two, one], 5, can)
    transcript.apply(call(capabilities=v2.ToolCallCapabilities(), raw_input=None))
    assert (found.capabilities, found.raw_input) == (v2.ToolCallCapabilities(), None)
    transcript.apply(call(content=[]))
    assert list(found.content) == []


def test_output_that_comes_whole_each_time_costs_its_last_size() -> None:
    whole_so_far = "x" * 200_001
    tracemalloc.start()
    try:
        transcript = Transcript()
        for size in range(1000, 200_001, 1000):
            content = v2.Content(content=v2.TextContent(text=whole_so_far[:size]))
            transcript.apply(call(content=[content], raw_output={"out": whole_so_far[:size]}))
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 400_000 <= kept <= 450_000


def test_updates_while_idle_change_no_state() -> None:  # TC-13, ST-16, SU-06
    transcript = fold([v2.StateUpdate(state="idle", stop_reason="end_turn")])
    before = transcript.state
    for update in (call("in_progress"), v2.TerminalUpdate(terminal_id="t"), v2.SubagentUpdate(session_id="s")):
        transcript.apply(update)
    assert transcript.state == before


def test_a_terminal_and_what_refers_to_it_come_in_any_order() -> None:  # TM-03, TM-09
    reference = call(content=[v2.Terminal(terminal_id="x")])
    output = v2.TerminalOutput(data="b2s=", meta={"of": "output"})
    terminal = v2.TerminalUpdate(terminal_id="x", output=output, meta={"of": "terminal"})
    for updates in ([reference, terminal], [terminal, reference]):
        transcript = fold(updates)
        assert transcript.terminals["x"].text == "ok"
        assert transcript.terminals["x"].meta == {"of": "terminal"}
        assert [*transcript.tool_calls["t"].content] == [v2.Terminal(terminal_id="x")]


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "_paused"])
def test_the_first_update_of_a_compaction_may_be_its_last(status: str) -> None:  # CP-05, CP-07, CP-11
    transcript = fold([v2.CompactionUpdate(compaction_id="c", status=status, meta={"k": 1})])
    transcript.apply(v2.CompactionSummaryChunk(compaction_id="c", content=A, meta={"its": "own"}))
    found = transcript.compactions["c"]
    assert (found.status, found.summary.text, found.meta) == (status, "A", {"k": 1})


def test_a_child_outlives_its_work() -> None:  # SA-03, SA-07
    updates = [v2.SubagentUpdate(session_id="s", state=v2.StateSnapshot(state=state)) for state in ("running", "idle")]
    transcript = fold(updates)
    assert transcript.subagents["s"].state == v2.StateSnapshot(state="idle")


def test_a_session_message_changes_the_transcript_it_was_applied_to_and_no_other() -> None:  # SM-02, SM-11
    """Whomever it names: no incoming entry is made of an outgoing one."""
    here, there = Transcript(), Transcript()
    here.apply(v2.SessionMessage(message_id="m", sender_session_id="here", recipient_session_id="there", content=[A]))
    assert there.snapshot() == Transcript().snapshot()
    there.apply(v2.SessionMessageChunk(message_id="m", content=B))
    assert (here.session_messages["m"].text, there.session_messages["m"].text) == ("A", "B")
    assert (len(here.timeline), there.session_messages["m"].sender_session_id) == (1, None)


def test_a_notice_patches_no_earlier_one_and_its_severity_means_nothing() -> None:  # NT-04, NT-05, NT-10
    notices = [
        v2.Notice(severity="error", title="T", description="D", meta={"a": 1}),
        v2.Notice(severity="_fatal", title="T"),
        v2.decode(v2.Notice, b'{"severity":"info","title":"T","description":null,"_meta":null}'),
    ]
    transcript = fold(notices)
    assert [(each.severity, each.description, each.meta) for each in transcript.notices] == [
        ("error", "D", {"a": 1}),
        ("_fatal", None, None),
        ("info", None, None),
    ]
    assert transcript.snapshot() == Transcript().snapshot()


def test_plans_keep_priorities_and_statuses_that_are_not_known() -> None:  # PN-08, EX-03
    entries = [v2.PlanEntry(content="x", priority="_soon", status="_blocked")]
    transcript = fold([v2.PlanUpdate(plan=v2.PlanItems(plan_id="p", entries=entries))])
    for found in (transcript, Transcript.load(transcript.save())):
        (entry,) = found.plans["p"].content.entries
        assert (entry.priority, entry.status) == ("_soon", "_blocked")


def test_a_child_is_known_from_its_first_update_and_none_from_anything_else() -> None:  # SA-02
    transcript = fold([v2.SessionMessage(message_id="m", recipient_session_id="other")])
    assert not transcript.subagents
    transcript.apply(v2.SubagentUpdate(session_id="child"))
    transcript.apply(v2.SubagentUpdate(session_id="child", title="Named"))
    assert [(key, each.title) for key, each in transcript.subagents.items()] == [("child", "Named")]


@pytest.mark.parametrize(
    ("tag", "key"),
    [("tool_call_update", "toolCallId"), ("terminal_update", "terminalId"), ("subagent_update", "sessionId")],
)
def test_what_may_be_cancelled_says_so_until_it_does_not(tag: str, key: str) -> None:  # TC-18, TM-11, SA-06
    steps: list[tuple[dict[str, Any], bool]] = [
        ({}, False),
        ({"capabilities": {"cancel": {}}}, True),
        ({"_meta": {"k": 1}}, True),
        ({"capabilities": {}}, False),
        ({"capabilities": {"cancel": {}}}, True),
        ({"capabilities": {"cancel": None}}, False),
        ({"capabilities": {"cancel": {}}}, True),
        ({"capabilities": None}, False),
    ]
    transcript = Transcript()
    for members, expected in steps:
        document: dict[str, Any] = {"sessionUpdate": tag, key: "x", **members}
        transcript.apply(v2.decode(v2.SessionUpdate, json.dumps(document).encode()))
        (found,) = transcript.timeline
        assert isinstance(found, ToolCall | Terminal | Subagent)
        assert found.may_cancel is expected


def test_a_reason_and_background_work_that_are_not_known_are_kept() -> None:  # SR-09, BG-01, BG-04
    line = (
        b'{"sessionUpdate":"state_update","state":"idle","stopReason":"_bored","background":[{"type":"_job","n":1.0}]}'
    )
    transcript = Transcript.load([line])
    assert (transcript.state.value, transcript.state.stop_reason) == ("idle", "_bored")
    (job,) = transcript.state.last_known.background
    assert job.raw == b'{"type":"_job","n":1.0}'
    assert Transcript.load(transcript.save()).state == transcript.state


KNOWN = (
    b'{"sessionUpdate":"agent_message","messageId":"m","content":[{"type":"text","text":"known"}]}',
    b'{"sessionUpdate":"tool_call_update","toolCallId":"t","title":"known","locations":[{"path":"/k","line":7}]}',
    b'{"sessionUpdate":"terminal_update","terminalId":"t","cwd":"/known","size":{"cols":80,"rows":25}}',
    b'{"sessionUpdate":"subagent_update","sessionId":"s","title":"known","cwd":"/known"}',
)


@pytest.mark.parametrize(
    ("line", "same_as"),
    [
        (b'"agent_message","messageId":"m","content":5', b'"agent_message","messageId":"m"'),  # MS-12
        (
            b'"agent_message","messageId":"m","content":[5,{"type":"text","text":"x"}]',  # MS-12
            b'"agent_message","messageId":"m","content":[{"type":"text","text":"x"}]',
        ),
        (
            b'"tool_call_update","toolCallId":"t","locations":[{"path":"/a","line":0}]',  # TC-16
            b'"tool_call_update","toolCallId":"t","locations":[{"path":"/a"}]',
        ),
        (b'"tool_call_update","toolCallId":"t","title":5', b'"tool_call_update","toolCallId":"t"'),
        (
            b'"terminal_update","terminalId":"t","size":{"cols":0,"rows":1}',
            b'"terminal_update","terminalId":"t"',
        ),  # TM-10
        (b'"subagent_update","sessionId":"s","title":5', b'"subagent_update","sessionId":"s"'),  # SA-08
        (b'"state_update","state":"idle","stopReason":5', b'"state_update","state":"idle"'),  # SR-10
    ],
)
def test_a_malformed_part_is_one_that_was_omitted_and_clears_nothing(line: bytes, same_as: bytes) -> None:
    found, expected = (
        Transcript.load([*KNOWN, b'{"sessionUpdate":' + update + b"}"]).snapshot() for update in (line, same_as)
    )
    assert found == expected


@pytest.mark.parametrize(
    "line",
    [
        b'"subagent_update","sessionId":"s","cwd":5',  # SA-08
        b'"subagent_update","sessionId":"s","additionalDirectories":[5]',  # SA-08
        b'"notice","severity":"info","title":""',  # NT-03
        b'"usage_update","used":-1,"size":1',  # US-02
        b'"agent_message","messageId":5',  # SU-13
    ],
)
def test_an_update_that_is_malformed_as_a_whole_is_an_error_and_no_unknown_one(line: bytes) -> None:
    with pytest.raises(DecodeError):
        Transcript.load([*KNOWN, b'{"sessionUpdate":' + line + b"}"])


# --- laws -------------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=300)
@given(interleavings())
def test_any_interleaving_of_two_entities_is_each_of_them_alone(streams_of_two: tuple[list[Any], ...]) -> None:  # SU-08
    one, other, mixed = map(fold, streams_of_two)
    both = sorted([*one.timeline, *other.timeline], key=_name)
    assert sorted(mixed.timeline, key=_name) == both
    untouched = Transcript()
    for part in ("state", "commands", "commands_meta", "config", "config_meta", "info", "usage", "spent", "notices"):
        alone = [getattr(transcript, part) for transcript in (one, other)]
        expected = [value for value in alone if value != getattr(untouched, part)] or [getattr(untouched, part)]
        assert [getattr(mixed, part)] == expected


def _name(entity: Entity) -> tuple[str, str]:
    return entity.category, entity.id


def test_updates_of_every_variant_are_interleaved() -> None:
    assert sorted(getattr(v2, name).tag for names in KINDS.values() for name in names) == sorted(HANDLERS)


@given(st.text(), st.lists(st.integers(0, 30), max_size=6))
def test_any_split_of_a_text_into_chunks_is_the_whole(text: str, cuts: list[int]) -> None:
    places = sorted({0, *(cut for cut in cuts if cut < len(text)), len(text)})
    pieces = [text[a:b] for a, b in pairwise(places)] or [""]
    chunked = fold(v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text=piece)) for piece in pieces)
    whole_one = fold([v2.AgentMessage(message_id="m", content=[v2.TextContent(text=text)])])
    assert chunked.snapshot() == whole_one.snapshot()
    assert chunked.text == text


# --- recorded traffic -------------------------------------------------------------------------------------------------


def fold_recording(name: str) -> Transcript:
    """The transcript of a recording."""
    transcript = Transcript()
    for record in acpwire.read_capture(CORPUS / name / "agent_to_client.ndjson", sender="agent"):
        if isinstance(record.message, v2.Notification) and record.message.method == "session/update":
            transcript.apply(record.message.params.update)
    return transcript


@pytest.mark.parametrize("name", ["codex-acp", "ts-sdk"])
def test_a_recording_folds_to_what_was_reviewed(name: str, caplog: pytest.LogCaptureFixture) -> None:
    transcript = fold_recording(name)
    assert not caplog.records
    assert whole(transcript) == json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
