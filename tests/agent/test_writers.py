"""What an agent writes, as the client receives it: each writer's updates, their order, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import gc
import subprocess
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from acpwire import trace, v2
from acpwire.agent import AgentSession, UserPrompt, diff_of
from acpwire.agent.session import SubagentMembers
from acpwire.agent.writers import TerminalMembers, TerminalPatch, ToolCallMembers, ToolCallPatch
from acpwire.errors import EncodeError, UsageError
from acpwire.peer import Peer
from acpwire.transcript import Transcript
from tests.agent.script import agent_of, doing, dumps, said, serving, session_of
from tests.transports.loops import on_each_loop, until


def text(value: str) -> Any:
    """A block of text, as it is on the wire."""
    return {"type": "text", "text": value}


IMAGE = v2.ImageContent(data="aGk=", mime_type="image/png")

# --- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("writer", "chunk", "whole"),
    [
        ("agent_message", "agent_message_chunk", "agent_message"),
        ("thought", "agent_thought_chunk", "agent_thought"),
    ],
)
@on_each_loop
async def test_a_message_is_written_in_chunks_replaced_and_patched_under_one_id(
    writer: str, chunk: str, whole: str
) -> None:
    """MS-01, MS-02, MS-03, MS-05, MS-06, MS-08, MS-09, MT-03."""

    async def prompt(session: AgentSession) -> None:
        async with getattr(session, writer)() as message:
            await message.write("A", IMAGE)
            await message.replace("C", meta={"k": 1})
            await message.write("D")
            await message.patch_meta({"k": None})
            await message.replace()

    updates = await said(prompt)
    assert len({update.pop("messageId") for update in updates}) == 1
    assert updates == [
        {"sessionUpdate": chunk, "content": text("A")},
        {"sessionUpdate": chunk, "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}},
        {"sessionUpdate": whole, "content": [text("C")], "_meta": {"k": 1}},
        {"sessionUpdate": chunk, "content": text("D")},
        {"sessionUpdate": whole, "_meta": {"k": None}},
        {"sessionUpdate": whole, "content": []},
    ]


@on_each_loop
async def test_nothing_is_sent_before_the_first_write() -> None:
    async def prompt(session: AgentSession) -> None:
        async with session.agent_message(), session.thought(), session.session_message(recipient=session.id):
            pass

    assert await said(prompt) == []


@on_each_loop
async def test_messages_interleave_and_keep_the_ids_that_they_are_given() -> None:
    """SU-08, SU-09, PL-24."""

    async def prompt(session: AgentSession) -> None:
        async with session.agent_message("one") as one, session.thought("one") as thought:
            await one.write("a")
            await thought.write("b")
            await one.write("c")

    assert [(update["sessionUpdate"], update["messageId"]) for update in await said(prompt)] == [
        ("agent_message_chunk", "one"),
        ("agent_thought_chunk", "one"),
        ("agent_message_chunk", "one"),
    ]


@pytest.mark.parametrize("name", ["\x00acpwire", '"', "\\", "\ud83d", "\u2028", "é" * 5000])
@on_each_loop
async def test_any_text_arrives_under_any_id(name: str) -> None:
    """TR-01: what is encoded once for all chunks is not mistaken for what differs."""

    async def prompt(session: AgentSession) -> None:
        async with session.agent_message("\x00acpwire") as message:
            await message.write(name, "\x00acpwire")

    updates = await said(prompt)
    assert [update["content"]["text"] for update in updates] == [name.replace("\ud83d", "\ufffd"), "\x00acpwire"]
    assert {update["messageId"] for update in updates} == {"\x00acpwire"}


@on_each_loop
async def test_chunks_carry_on_the_trace_of_the_work_as_everything_else_does() -> None:
    """MT-05."""
    lines: list[Any] = []

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        trace.trace_context.set({"traceparent": "00-1-2-01"})
        async with session.agent_message() as message:
            await message.write("a")
        await session.notice("b")

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await script.prompt(session)
        await script.idle(session)
        lines = [one["params"] for one in script.seen if one.get("method") == "session/update"]
    said_now = [one for one in lines if one["update"]["sessionUpdate"] in {"agent_message_chunk", "notice"}]
    assert [one["_meta"] for one in said_now] == [{"traceparent": "00-1-2-01"}] * 2


# --- tool calls -------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_tool_call_is_announced_started_by_its_first_write_and_completed() -> None:
    """TC-01, TC-03, TC-04, TC-06, TC-07, TC-09, TC-12, TC-15."""

    async def prompt(session: AgentSession) -> None:
        async with session.tool_call("Read", kind="read", name="read_file", raw_input={"path": None}) as call:
            await call.write("1", v2.Content(content=IMAGE))
            await call.update(status="paused")
            await call.start()
            await call.start()
            await call.update(raw_output=None, title="Read it")

    updates = await said(prompt)
    assert len({update.pop("toolCallId") for update in updates}) == 1
    assert {update.pop("sessionUpdate") for update in updates} == {"tool_call_update", "tool_call_content_chunk"}
    assert updates == [
        {"title": "Read", "kind": "read", "status": "pending", "name": "read_file", "rawInput": {"path": None}},
        {"status": "in_progress"},
        {"content": {"type": "content", "content": text("1")}},
        {"content": {"type": "content", "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}}},
        {"status": "paused"},
        {"status": "in_progress"},
        {"rawOutput": None, "title": "Read it"},
        {"status": "completed"},
    ]


async def swallowed(what: Any) -> None:
    """Wait, and make an exception of one's own of a cancellation, as libraries do."""
    try:
        await what
    except asyncio.CancelledError as error:
        raise ConnectionResetError("aborted") from error


def fail() -> None:
    """Fail."""
    raise ValueError("secret")


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("normally", "completed"),
        ("raising", "failed"),
        ("cancelling itself", "cancelled"),
        ("by a timeout", "cancelled"),
        ("by a timeout that a library wraps", "cancelled"),
        ("completing", "completed"),
        ("failing", "failed"),
    ],
)
@on_each_loop
async def test_the_status_of_a_tool_call_is_how_it_was_left_and_is_said_once(how: str, status: str) -> None:
    """TC-09, TC-12, CA-06: only the one that was cancelled ends, and what comes after goes on."""

    async def prompt(session: AgentSession) -> None:
        try:
            async with asyncio.timeout(0 if "timeout" in how else 20), session.tool_call("x") as call:
                if how == "raising":
                    fail()
                if how == "cancelling itself":
                    call.cancel()
                    await asyncio.Event().wait()
                if how == "by a timeout":
                    await asyncio.Event().wait()
                if how == "by a timeout that a library wraps":
                    await swallowed(asyncio.Event().wait())
                if how == "completing":
                    await call.complete("done", raw_output={"n": 1})
                if how == "failing":
                    await call.fail("no")
        except (ValueError, TimeoutError, ConnectionResetError):
            pass
        await session.notice("after")

    *_, last, after = await said(prompt)
    assert (last["status"], after["title"]) == (status, "after")
    assert "secret" not in dumps(last)
    if how == "completing":
        assert (last["rawOutput"], last["content"]) == ({"n": 1}, [{"type": "content", "content": text("done")}])


@on_each_loop
async def test_a_call_that_cancels_itself_and_does_not_wait_any_more_cancels_nothing_else() -> None:
    async def prompt(session: AgentSession) -> None:
        async with session.tool_call("x") as call:
            call.cancel()
        assert call.is_cancelled
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await session.notice("after")

    updates = await said(prompt)
    assert [update.get("status", update.get("title")) for update in updates] == ["pending", "cancelled", "after"]


Use = Callable[[AgentSession], Any]


async def write_before(session: AgentSession) -> None:
    await session.tool_call("x").write("early")


async def write_late(session: AgentSession) -> None:
    async with session.tool_call("x") as call:
        pass
    await call.write("late")


async def end_twice(session: AgentSession) -> None:
    async with session.tool_call("x") as call:
        await call.complete()
        await call.fail()


async def output_early(session: AgentSession) -> None:
    await session.terminal().write("early")


async def output_late(session: AgentSession) -> None:
    async with session.terminal() as terminal:
        await terminal.exit(0)
        await terminal.write("late")


async def summary_early(session: AgentSession) -> None:
    await session.compaction().write("early")


async def summary_late(session: AgentSession) -> None:
    async with session.compaction() as compaction:
        await compaction.complete("all")
        await compaction.write("late")


async def compacted_twice(session: AgentSession) -> None:
    async with session.compaction() as compaction:
        await compaction.fail("x")
        await compaction.complete()


async def to_a_stranger(session: AgentSession) -> None:
    session.session_message(recipient="stranger")


async def child_twice(session: AgentSession) -> None:
    await session.subagent("a", session_id="child")
    await session.subagent("b", session_id="child")


async def call_entered_again(session: AgentSession) -> None:
    async with session.tool_call("x", tool_call_id="c") as call:
        await call.__aenter__()


async def call_entered_after_its_end(session: AgentSession) -> None:
    async with session.tool_call("x", tool_call_id="c") as call:
        pass
    await call.__aenter__()


async def call_with_the_id_of_one_that_runs(session: AgentSession) -> None:
    async with session.tool_call("x", tool_call_id="c"), session.tool_call("y", tool_call_id="c"):
        pass


async def terminal_entered_again(session: AgentSession) -> None:
    async with session.terminal(terminal_id="t") as terminal:
        await terminal.__aenter__()


async def compaction_entered_again(session: AgentSession) -> None:
    async with session.compaction("k") as compaction:
        await compaction.__aenter__()


async def permission_before_the_call(session: AgentSession) -> None:
    await session.request_permission("x", subject=session.tool_call("x"))


async def permission_after_the_call(session: AgentSession) -> None:
    async with session.tool_call("x") as call:
        await call.complete()
        await session.request_permission("x", subject=call)


async def background_of_a_call_that_was_not_announced(session: AgentSession) -> None:
    async with session.background(session.tool_call("x")):
        pass


async def background_of_a_terminal_that_has_exited(session: AgentSession) -> None:
    async with session.terminal() as terminal:
        await terminal.exit(0)
        async with session.background(terminal):
            pass


async def background_of_nothing(session: AgentSession) -> None:
    nothing: Any = "t"
    async with session.background(nothing):
        pass


async def options_nobody_sets(session: AgentSession) -> None:
    await session.config(v2.SessionConfigBoolean(config_id="c", name="C", current_value=True))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (write_before, "TC-01"),
        (write_late, "TC-09"),
        (end_twice, "TC-09"),
        (output_early, "TM-05"),
        (output_late, "TM-08"),
        (summary_early, "CP-10"),
        (summary_late, "CP-10"),
        (compacted_twice, "CP-06"),
        (to_a_stranger, "SM-13"),
        (child_twice, "SA-01"),
        (options_nobody_sets, "CO-03"),
        (call_entered_again, "TC-01: the tool call c was announced already"),
        (call_entered_after_its_end, "TC-01: the tool call c was announced already"),
        (call_with_the_id_of_one_that_runs, "TC-01: the tool call c was announced already"),
        (terminal_entered_again, "TM-05: the terminal t was announced already"),
        (compaction_entered_again, "CP-10: the compaction k was announced already"),
        (permission_before_the_call, "TC-01"),
        (permission_after_the_call, "TC-09"),
        (background_of_a_call_that_was_not_announced, "TC-01"),
        (background_of_a_terminal_that_has_exited, "TM-08"),
        (background_of_nothing, "shown_by: expected a writer .* not str"),
    ],
)
@on_each_loop
async def test_what_is_out_of_order_is_refused_by_the_name_of_the_requirement(wrong: Use, named: str) -> None:
    """TC-01, TC-02, TC-09, TM-02, TM-05, TM-08, BG-03, CP-06, CP-10, CP-14, SM-13, SA-01, CO-03, PM-03."""

    async def prompt(session: AgentSession) -> None:
        with pytest.raises(UsageError, match=named):
            await wrong(session)

    updates = await said(prompt)
    announced = [(one["sessionUpdate"], one["status"]) for one in updates if one.get("status") == "pending"]
    assert len(announced) <= 1, "what is refused is not announced again"


@on_each_loop
async def test_an_id_may_come_again_after_the_end_of_what_had_it() -> None:
    """TC-02: a tool call that was final is taken up by its id."""

    async def prompt(session: AgentSession) -> None:
        for _ in range(2):
            async with session.tool_call("x", tool_call_id="c"):
                pass

    assert [one["status"] for one in await said(prompt)] == ["pending", "completed"] * 2


def select(current: str, *values: str) -> v2.SessionConfigSelect:
    """A config option."""
    options = [v2.SessionConfigSelectOption(value=value, name=value) for value in values]
    return v2.SessionConfigSelect(config_id="c", name="C", current_value=current, options=options)


def change(path: str) -> v2.Diff:
    """A diff of one file."""
    return v2.Diff(changes=[v2.DiffAdd(path=path)])


@pytest.mark.parametrize(
    ("update", "named"),
    [
        (v2.ToolCallUpdate(tool_call_id="t", kind="invented"), "EX-01"),
        (v2.ToolCallUpdate(tool_call_id="t", locations=[v2.ToolCallLocation(path="x")]), "DF-03"),
        (v2.ToolCallUpdate(tool_call_id="t", locations=[v2.ToolCallLocation(path="/x", line=0)]), "line"),
        (v2.ToolCallUpdate(tool_call_id="t", content=[change("x")]), "DF-03"),
        (v2.TerminalUpdate(terminal_id="t", cwd="x"), "cwd"),
        (v2.PlanUpdate(plan=v2.PlanFile(plan_id="p", uri="x")), "PN-06"),
        (v2.AvailableCommandsUpdate(available_commands=[v2.Command(name="/x", description="")]), "CM-02"),
        (v2.AvailableCommandsUpdate(available_commands=[v2.Command(name="a b", description="")]), "CM-02"),
        (v2.AvailableCommandsUpdate(available_commands=[v2.Command(name="a", description="")] * 2), "CM-02"),
        (v2.ConfigOptionUpdate(config_options=[select("a", "b")]), "CO-02"),
        (v2.ConfigOptionUpdate(config_options=[select("a", "a", "a")]), "CO-02"),
        (v2.ConfigOptionUpdate(config_options=[select("a", "a")] * 2), "CO-06"),
        (v2.Notice(severity="fatal", title="x"), "EX-01"),
        (v2.Notice(severity="info", title=""), "title"),
        (v2.UsageUpdate(used=2**64, size=1), "US-02"),
        (v2.UsageUpdate(used=-1, size=1), "used"),
        (v2.UnknownVariant("invented", b'{"sessionUpdate":"invented"}'), "EX-01"),
    ],
)
@on_each_loop
async def test_what_a_client_may_refuse_is_not_sent_and_the_reason_is_named(
    update: v2.SessionUpdate, named: str
) -> None:
    """EX-01, EX-02, TC-16, TM-05, DF-03, PN-06, CM-02, CO-02, CO-06, NT-02, NT-03, US-02."""

    async def prompt(session: AgentSession) -> None:
        with pytest.raises(EncodeError, match=named):
            await session.send(update)

    assert await said(prompt) == []


Wrong: Any = None
"""Values that type checkers would refuse are made of it."""
MISTYPED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda session: session.agent_message().write(42), "content: expected str or a content block, not int"),
    (lambda session: session.agent_message().write(None), "content: expected str or a content block, not NoneType"),
    (lambda session: session.agent_message().write(b"x"), "content: expected str or a content block, not bytes"),
    (lambda session: session.agent_message().write(change("/x")), "content: expected str or a content block, not Diff"),
    (lambda session: session.thought().replace(["x"]), "content: expected str or a content block, not list"),
    (lambda session: session.session_message().write(1.5), "content: expected str or a content block, not float"),
    (lambda session: session.session_message().replace({}), "content: expected str or a content block, not dict"),
    (lambda session: session.plan("a", 42), "entries: expected str or v2.PlanEntry, not int"),
    (lambda session: session.plan({"content": "a"}), "entries: expected str or v2.PlanEntry, not dict"),
    (lambda session: session.usage(used=1, size=2, cost=0.5), "cost: expected v2.Cost, not float"),
    (lambda session: session.commands("test"), "commands: expected v2.Command, not str"),
    (lambda session: session.send(42), "update: expected an update of v2.SessionUpdate, not int"),
    (lambda session: session.send({"sessionUpdate": "x"}), "update: expected .*, not dict"),
    (lambda session: session.send(v2.Cost(amount=1, currency="EUR")), "update: expected .*, not Cost"),
    (
        lambda session: session.request_permission("x", options=["yes"]),
        "options: expected v2.PermissionOption, not str",
    ),
    (lambda session: session.notice(42), r"Expected `str`, got `int` - at `\$.title`"),
    (lambda session: session.tool_call(42).__aenter__(), r"Expected `str`, got `int` - at `\$.title`"),
]
IN_ITS_ENTITY: list[tuple[Callable[[Any, Any, Any], Any], str]] = [
    (lambda call, _, __: call.write(42), "content: expected str, a content block, a diff or a terminal, not int"),
    (lambda call, _, __: call.complete("a", None), "content: expected .*, not NoneType"),
    (lambda call, _, __: call.fail(OSError("x")), "content: expected .*, not OSError"),
    (lambda call, _, __: call.update(content=["a", 42]), "content: expected .*, not int"),
    (lambda call, _, __: call.update(content="abc"), "content"),
    (lambda _, terminal, __: terminal.write(42), "output: expected bytes or str, not int"),
    (lambda _, terminal, __: terminal.write(None), "output: expected bytes or str, not NoneType"),
    (lambda _, __, compaction: compaction.write(42), "content: expected str or a content block, not int"),
    (lambda _, __, compaction: compaction.complete(42), "summary: expected str or a content block, not int"),
]


@pytest.mark.parametrize(("use", "named"), MISTYPED, ids=[str(number) for number in range(len(MISTYPED))])
@on_each_loop
async def test_an_argument_of_another_type_is_refused_by_its_name(use: Any, named: str) -> None:
    """EX-02: and nothing of it is sent."""

    async def prompt(session: AgentSession) -> None:
        with pytest.raises(EncodeError, match=named):
            await use(session)

    assert await said(prompt) == []


@pytest.mark.parametrize(("use", "named"), IN_ITS_ENTITY, ids=[str(number) for number in range(len(IN_ITS_ENTITY))])
@on_each_loop
async def test_what_a_writer_is_given_of_another_type_is_refused_and_it_goes_on(use: Any, named: str) -> None:
    """TC-09, TM-08, CP-06: what is refused is no end, and does not start anything."""

    async def prompt(session: AgentSession) -> None:
        async with session.tool_call("x") as call, session.terminal() as terminal, session.compaction() as compaction:
            with pytest.raises(EncodeError, match=named):
                await use(call, terminal, compaction)
            await terminal.exit(0)

    updates = await said(prompt)
    assert [one.get("status", "") for one in updates] == ["pending", "", "in_progress", "", "completed", "completed"]


@on_each_loop
async def test_the_writer_of_a_terminal_stands_for_it_wherever_a_tool_call_shows_one() -> None:
    """TM-03, TC-07, TC-09."""

    async def prompt(session: AgentSession) -> None:
        terminal = session.terminal(terminal_id="t")
        async with session.tool_call("a", content=["text", terminal]) as call, terminal:
            await call.write(terminal)
            await call.update(content=[terminal])
            await call.complete("done", terminal)

    item = {"type": "terminal", "terminalId": "t"}
    updates = [one for one in await said(prompt) if one["sessionUpdate"] != "terminal_update"]
    assert [one["content"] for one in updates if "content" in one] == [
        [{"type": "content", "content": text("text")}, item],
        item,
        [item],
        [{"type": "content", "content": text("done")}, item],
    ]


@pytest.mark.parametrize(
    ("update", "advice"),
    [
        (v2.StateUpdate(state="idle", stop_reason="end_turn"), r"return a stop reason from prompt\(\)"),
        (v2.StateUpdate(state="running"), r"session.foreground\(\)"),
        (v2.StateUpdate(state="requires_action"), r"session.requires_action\(\)"),
        (v2.StateUpdate(state=Wrong), "ST-11"),
        (v2.UnknownVariant("state_update", b'{"sessionUpdate":"state_update","state":"_acme"}'), "ST-15"),
    ],
)
@on_each_loop
async def test_states_are_told_by_the_runtime_alone(update: v2.SessionUpdate, advice: str) -> None:
    """ST-01, ST-02, ST-04, ST-15: by the call, awaited or not."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        send: Any = session.send
        with pytest.raises(UsageError, match=advice):
            send(update)

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await script.prompt(session)
        assert (await script.idle(session))["stopReason"] == "end_turn"
        await script.expect_nothing()
        assert script.tags(session) == ["user_message", "running", "idle"]


@on_each_loop
async def test_that_nothing_is_known_of_the_work_may_be_told() -> None:
    """ST-11, ST-13."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        await session.send(v2.StateUpdate(state="unknown"))

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await script.prompt(session)
        await script.idle(session)
        assert script.tags(session) == ["user_message", "running", "unknown", "idle"]


def members(of: type[msgspec.Struct], without: set[str]) -> dict[str, Any]:
    """The members of a class that are not among these, and their types."""
    hints = get_type_hints(of, include_extras=True)
    return {name: hints[name] for name in of.__struct_fields__ if name not in without}


@pytest.mark.parametrize(
    ("typed", "of", "without"),
    [
        (ToolCallMembers, v2.ToolCallFields, {"tool_call_id", "name", "title", "kind", "status"}),
        (ToolCallPatch, v2.ToolCallFields, {"tool_call_id"}),
        (TerminalMembers, v2.TerminalUpdate, {"terminal_id", "command", "cwd"}),
        (TerminalPatch, v2.TerminalUpdate, {"terminal_id"}),
        (SubagentMembers, v2.SubagentUpdate, {"session_id", "title", "cwd", "state"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_members_that_are_given_by_name_are_those_of_the_draft(typed: Any, of: Any, without: set[str]) -> None:
    """TC-02, TM-04: of which alone a tool call's content takes more, and any JSON is any."""
    hints, drafted = get_type_hints(typed, include_extras=True), members(of, without)
    assert hints.keys() == drafted.keys()
    differ = {"content", "raw_input", "raw_output"}
    assert {name: hint for name, hint in hints.items() if name not in differ} == {
        name: hint for name, hint in drafted.items() if name not in differ
    }


@on_each_loop
async def test_custom_values_are_sent() -> None:
    """EX-01, EX-03, NT-02, US-04."""

    async def prompt(session: AgentSession) -> None:
        await session.send(v2.UnknownVariant("_acme", b'{"sessionUpdate":"_acme","x":[1]}'))
        await session.notice("x", "more", severity="_acme_loud")
        await session.usage(used=1, size=2, cost=v2.Cost(amount=0.5, currency="credits"))

    assert await said(prompt) == [
        {"sessionUpdate": "_acme", "x": [1]},
        {"sessionUpdate": "notice", "severity": "_acme_loud", "title": "x", "description": "more"},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.5, "currency": "credits"}},
    ]


@on_each_loop
async def test_diffs_and_terminals_are_content_of_a_tool_call() -> None:
    """TC-08, DF-01, DF-03, TM-03."""

    async def prompt(session: AgentSession) -> None:
        async with session.tool_call("Make") as call, session.terminal(command="make") as terminal:
            await call.write(terminal.content, change("/new"))
            await terminal.write(b"ok")

    kinds = [
        update["content"]["type"]
        for update in await said(prompt)
        if "chunk" in update["sessionUpdate"] and "content" in update
    ]
    assert kinds == ["terminal", "diff"]


@pytest.mark.parametrize(
    ("old", "new", "old_path", "operation", "patch"),
    [
        (
            None,
            "a\nb",
            None,
            "add",
            [
                "diff --git /x /x",
                "new file mode 100644",
                "--- /dev/null",
                "+++ /x",
                "@@ -0,0 +1,2 @@",
                "+a",
                "+b",
                "\\ No newline at end of file",
            ],
        ),
        (
            "a\n",
            None,
            None,
            "delete",
            [
                "diff --git /x /x",
                "deleted file mode 100644",
                "--- /x",
                "+++ /dev/null",
                "@@ -1 +0,0 @@",
                "-a",
            ],
        ),
        (
            "a\n",
            "b\u2028c\n",
            None,
            "modify",
            [
                "diff --git /x /x",
                "--- /x",
                "+++ /x",
                "@@ -1 +1 @@",
                "-a",
                "+b\u2028c",
            ],
        ),
        (
            "a\n",
            "a\n",
            '/o "ü"',
            "move",
            [
                'diff --git "/o \\"\\303\\274\\"" /x',
                'rename from "/o \\"\\303\\274\\""',
                "rename to /x",
            ],
        ),
        (None, "", None, "add", ["diff --git /x /x", "new file mode 100644"]),
    ],
)
def test_a_diff_comes_with_a_patch_as_git_writes_it(
    old: str | None, new: str | None, old_path: str | None, operation: str, patch: list[str]
) -> None:
    """DF-01, DF-03, DF-04."""
    made = diff_of("/x", old, new, old_path=old_path)
    assert [change.tag for change in made.changes] == [operation]
    assert v2.validate(made) == []
    assert made.patch is not None
    assert made.patch.format == "git_patch"
    assert made.patch.text.split("\n") == [*patch, ""]


def test_git_applies_what_a_diff_shows(tmp_path: Path) -> None:
    """DF-04: where the paths lead there; git takes the leading slash off."""
    file = tmp_path / "x y.txt"
    file.write_text("a\nb\nc", "utf-8")
    made = diff_of(str(file), "a\nb\nc", "a\nB\nc\nd\n")
    assert made.patch is not None
    apply = ["git", "apply", f"-p{len(tmp_path.parts)}", "-"]
    subprocess.run(apply, input=made.patch.text, text=True, check=True, cwd=tmp_path, timeout=60)
    assert file.read_text("utf-8") == "a\nB\nc\nd\n"


def test_what_neither_was_nor_is_has_no_diff() -> None:
    with pytest.raises(ValueError, match="changed"):
        diff_of("/x", None, None)


@on_each_loop
async def test_content_of_every_kind_arrives_as_it_was_written() -> None:
    """CT-01, CT-03, CO-08."""
    blocks: list[v2.ContentBlock] = [
        IMAGE,
        v2.AudioContent(data="aGk=", mime_type="audio/wav"),
        v2.ResourceLink(uri="file:///x", name="x", size=2**64 - 1, icons=[v2.Icon(src="https://x/i")]),
        v2.EmbeddedResource(resource=v2.TextResourceContents(uri="file:///x", text="x")),
        v2.EmbeddedResource(resource=v2.BlobResourceContents(uri="file:///x", blob="aGk=")),
        v2.UnknownVariant("_acme", b'{"type":"_acme"}'),
    ]

    async def options(*_: Any) -> list[v2.SessionConfigOption]:
        return []

    async def prompt(session: AgentSession) -> None:
        async with session.agent_message() as message:
            await message.write(*blocks)
        await session.config(
            v2.SessionConfigBoolean(config_id="a", name="A", current_value=True, category="_acme_tone"),
            v2.SessionConfigBoolean(config_id="b", name="B", current_value=True),
        )

    *written, config = await said(prompt, set_config_option=options)
    assert [one["content"] for one in written] == [msgspec.json.decode(v2.encode(block)) for block in blocks]
    assert [one.get("category") for one in config["configOptions"]] == ["_acme_tone", None]


# --- what the client cancels for itself -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tool_call", "terminal"])
@on_each_loop
async def test_the_client_cancels_a_tool_call_or_a_terminal_alone(kind: str) -> None:
    """TC-17, TC-18, TC-19, TM-11: answered when accepted, confirmed by its end, and only while it can be."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        made: Any = {
            "tool_call": lambda: session.tool_call("Long", tool_call_id="x", can_cancel=True),
            "terminal": lambda: session.terminal(terminal_id="x", can_cancel=True),
        }[kind]
        async with made() as entity:
            await entity.write("...")
            await asyncio.Event().wait()
        assert entity.is_cancelled
        await session.notice("after")

    member = "toolCallId" if kind == "tool_call" else "terminalId"
    other, other_member = ("terminal", "terminalId") if kind == "tool_call" else ("tool_call", "toolCallId")
    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        await script.until(lambda one: "chunk" in dumps(one))
        first = next(one for one in script.updates(session) if member in one)
        assert first["capabilities"] == {"cancel": {}}
        refused = await script.call(f"{other}/cancel", **{"sessionId": session, other_member: "x"})
        assert refused["code"] == -32602, "ids of tool calls and terminals are independent"
        assert await script.call(f"{kind}/cancel", **{"sessionId": session, member: "x"}) == {}
        assert (await script.idle(session))["stopReason"] == "end_turn"
        end = [one for one in script.updates(session) if member in one][-1]
        assert end["capabilities"] is None
        assert end.get("status", "cancelled") == "cancelled"
        assert ("exitStatus" in end) == (kind == "terminal")
        assert script.tags(session)[-2:] == ["notice", "idle"]
        assert (await script.call(f"{kind}/cancel", **{"sessionId": session, member: "x"}))["code"] == -32602
        assert (await script.call(f"{kind}/cancel", **{"sessionId": session, member: "y"}))["code"] == -32602


@on_each_loop
async def test_what_cannot_be_cancelled_is_not_and_grants_may_change() -> None:
    """TC-17, TC-19: -32602, whatever the agent serves."""
    grant, granted = asyncio.Event(), asyncio.Event()

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        async with session.tool_call("x", tool_call_id="x") as call:
            await grant.wait()
            await call.update(capabilities=v2.ToolCallCapabilities(cancel=v2.ToolCallCancelCapabilities()))
            granted.set()
            await asyncio.Event().wait()

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        cancel = {"sessionId": session, "toolCallId": "x"}
        assert (await script.call("tool_call/cancel", **cancel))["code"] == -32602
        grant.set()
        await granted.wait()
        assert await script.call("tool_call/cancel", **cancel) == {}
        await script.idle(session)
        assert script.updates(session)[-2] == {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "x",
            "status": "cancelled",
            "capabilities": None,
        }


@on_each_loop
async def test_what_has_ended_is_kept_nowhere() -> None:
    async def use(session: AgentSession) -> weakref.ref[Any]:
        async with session.tool_call("x", can_cancel=True) as call:
            pass
        return weakref.ref(call)

    async def prompt(session: AgentSession) -> None:
        kept = await use(session)
        gc.collect()
        assert kept() is None

    await said(prompt)


@on_each_loop
async def test_an_end_that_waits_for_the_client_and_is_cancelled_is_not_said_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TC-09, CP-06: what was sent is sent, whatever happens to the waiting."""

    async def never(_: Peer) -> None:
        await asyncio.Event().wait()

    async def prompt(session: AgentSession) -> None:
        for writer in (session.tool_call("x"), session.compaction()):
            with suppress(TimeoutError):
                async with asyncio.timeout(0), writer:
                    with monkeypatch.context() as patch:
                        patch.setattr(Peer, "flow", never)  # a client that takes nothing
                        await writer.complete("all")
                    pytest.fail("it did not wait")

    statuses = [update["status"] for update in await said(prompt)]
    assert statuses == ["pending", "completed", "in_progress", "completed"]


# --- terminals, compactions, plans and the rest -----------------------------------------------------------------------


@on_each_loop
async def test_a_terminal_tells_bytes_however_they_are_cut() -> None:
    """TM-01, TM-02, TM-04..TM-08, S-TR-01."""
    whole = "größer 🙂\x1b[31m".encode()

    async def prompt(session: AgentSession) -> None:
        async with session.terminal(command="make", size=v2.TerminalSize(cols=80, rows=24)) as terminal:
            for index in range(len(whole)):
                await terminal.write(whole[index : index + 1])
            await terminal.write("text")
            await terminal.update(size=None)
            await terminal.exit(-1, signal="SIGKILL")
        async with session.terminal(cwd="/elsewhere"):
            pass

    first, *chunks, patched, exited, second, end = await said(prompt)
    terminal_id = first.pop("terminalId")
    assert first == {
        "sessionUpdate": "terminal_update",
        "command": "make",
        "cwd": "/work",
        "size": {"cols": 80, "rows": 24},
    }
    assert b"".join(base64.b64decode(chunk["data"]) for chunk in chunks) == whole + b"text"
    assert patched == {"sessionUpdate": "terminal_update", "terminalId": terminal_id, "size": None}
    assert exited["exitStatus"] == {"exitCode": -1, "signal": "SIGKILL"}
    assert second["cwd"] == "/elsewhere"
    assert second["terminalId"] != terminal_id
    assert end["exitStatus"] == {}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("normally", [{"status": "completed"}]),
        ("with a summary", [{"status": "completed", "summary": [text("all")]}]),
        ("raising", [{"status": "failed"}]),
        ("failing", [{"status": "failed", "error": "too long"}]),
        ("cancelled", [{"status": "cancelled"}]),
    ],
)
@on_each_loop
async def test_a_compaction_begins_once_and_ends_once(how: str, expected: Any) -> None:
    """CP-01, CP-02, CP-03, CP-06, CP-08, CP-09, CP-12, CP-14."""

    async def prompt(session: AgentSession) -> None:
        try:
            async with session.compaction() as compaction:
                await compaction.write("kept")
                if how == "with a summary":
                    await compaction.complete("all")
                if how == "raising":
                    fail()
                if how == "failing":
                    await compaction.fail("too long")
                if how == "cancelled":
                    compaction.cancel()
                    await asyncio.Event().wait()
        except ValueError:
            pass

    updates = await said(prompt)
    assert len({update.pop("compactionId") for update in updates}) == 1
    assert updates == [
        {"sessionUpdate": "compaction_update", "status": "in_progress"},
        {"sessionUpdate": "compaction_summary_chunk", "content": text("kept")},
        *({"sessionUpdate": "compaction_update", **one} for one in expected),
    ]


@on_each_loop
async def test_plans_notices_usage_info_commands_and_config_are_told_whole() -> None:
    """PN-01..PN-03, PN-08, NT-01, NT-04, US-01, US-03, US-05, SS-24, CM-01, CO-06."""

    async def options(*_: Any) -> list[v2.SessionConfigOption]:
        return []

    async def prompt(session: AgentSession) -> None:
        await session.plan("first", v2.PlanEntry(content="second", priority="high", status="completed"))
        await session.plan(plan_id="other")
        await session.remove_plan("other")
        await session.notice("Hello", severity="warning")
        await session.usage(used=2**64 - 1, size=2**64 - 1)
        await session.usage(used=1, size=2, cost=None)
        await session.info(title="T", updated_at="2026-01-01T00:00:00Z")
        await session.info(title=None)
        await session.commands(v2.Command(name="go", description="Go"))
        await session.commands()
        await session.config(select("a", "a", "b"))
        assert (session.title, len(session.config_options), len(session.available_commands)) == (None, 1, 0)

    updates = await said(prompt, set_config_option=options)
    assert [update.pop("sessionUpdate") for update in updates] == [
        *["plan_update"] * 2,
        "plan_removed",
        "notice",
        *["usage_update"] * 2,
        *["session_info_update"] * 2,
        *["available_commands_update"] * 2,
        "config_option_update",
    ]
    assert updates[0]["plan"] == {
        "type": "items",
        "planId": "plan",
        "entries": [
            {"content": "first", "priority": "medium", "status": "pending"},
            {"content": "second", "priority": "high", "status": "completed"},
        ],
    }
    assert updates[1]["plan"] == {"type": "items", "planId": "other", "entries": []}
    assert updates[2:8] == [
        {"planId": "other"},
        {"severity": "warning", "title": "Hello"},
        {"used": 2**64 - 1, "size": 2**64 - 1},
        {"used": 1, "size": 2, "cost": None},
        {"title": "T", "updatedAt": "2026-01-01T00:00:00Z"},
        {"title": None},
    ]
    assert [len(update["availableCommands"]) for update in updates[8:10]] == [1, 0]


# --- other sessions ---------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_child_is_announced_before_anything_that_names_it_and_its_state_is_mirrored() -> None:
    """SA-01, SA-03..SA-05, SA-07, ST-17, SM-13, US-06."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        child = await session.subagent(
            "Reviewer", session_id="child", description="Reads", additional_directories=["/a"]
        )
        assert child.parent is session
        assert (child.cwd, child.additional_directories) == ("/work", ["/a"])
        async with child.foreground() as work, child.agent_message() as message:
            await message.write("hm")
            work.usage = v2.Usage(total_tokens=3, input_tokens=1, output_tokens=2)

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await script.prompt(session)
        await script.idle(session)
        first = next(one for one in script.updates(session) if one["sessionUpdate"] == "subagent_update")
        assert first == {
            "sessionUpdate": "subagent_update",
            "sessionId": "child",
            "title": "Reviewer",
            "description": "Reads",
            "additionalDirectories": ["/a"],
        }
        named = [one for one in script.seen if '"child"' in dumps(one)]
        assert named[0]["params"]["update"] == first
        assert script.tags("child") == ["running", "agent_message_chunk", "idle"]
        own = [
            {k: v for k, v in one.items() if k != "sessionUpdate"}
            for one in script.updates("child")
            if one["sessionUpdate"] == "state_update"
        ]
        mirrored = [one["state"] for one in script.updates(session) if "state" in one and "sessionId" in one]
        assert mirrored == own
        assert "usage" in own[-1]


@pytest.mark.parametrize("can_cancel", [False, True])
@on_each_loop
async def test_the_client_cancels_a_child_only_where_it_may_and_runs_it_never(can_cancel: bool) -> None:
    """SA-06."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        child = await session.subagent("x", session_id="child", can_cancel=can_cancel)
        async with child.foreground():
            await child.notice("begun")
            await asyncio.Event().wait()
        await session.notice("after")

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        await script.until(lambda one: "begun" in dumps(one))
        requests: dict[str, dict[str, Any]] = {
            "session/prompt": {"prompt": [text("x")]},
            "session/close": {},
            "session/resume": {"cwd": "/"},
        }
        for method, params in requests.items():
            assert (await script.call(method, sessionId="child", **params))["code"] == -32602
        await script.tell("session/cancel", sessionId="child")
        if can_cancel:
            assert (await script.idle("child"))["stopReason"] == "cancelled"
            assert (await script.idle(session))["stopReason"] == "end_turn"
        else:
            await script.expect_nothing()
            await script.tell("session/cancel", sessionId=session)
            assert (await script.idle(session))["stopReason"] == "cancelled"
            assert script.updates("child")[-1]["stopReason"] == "cancelled"
        assert [one["sessionId"] for one in (await script.call("session/list"))["sessions"]] == [session]


@on_each_loop
async def test_a_message_between_sessions_names_its_participants_as_they_become_known() -> None:
    """SM-01..SM-05, SM-09, SM-10, SM-13, X7."""

    async def prompt(session: AgentSession) -> None:
        child = await session.subagent("x", session_id="child")
        async with session.session_message(recipient=child.id, recipient_message_id="theirs") as out:
            await out.write("do ", "it")
            await out.participants(sender_message_id="ours")
            await out.replace("do it now")
        async with child.session_message(sender=session.id) as received:
            await received.replace("do it now")
            await received.write("!")
        assert out.message_id != received.message_id

    updates = await said(prompt)
    assert [update.pop("sessionUpdate") for update in updates[1:]] == [
        "session_message",
        "session_message_chunk",
        "session_message_chunk",
        "session_message",
        "session_message",
    ]
    assert len({update.pop("messageId") for update in updates[1:]}) == 1
    assert updates[1] == {"recipientSessionId": "child", "recipientMessageId": "theirs"}
    assert updates[2:4] == [{"content": text("do ")}, {"content": text("it")}]
    assert updates[4] == {"senderMessageId": "ours"}
    assert updates[5] == {"content": [text("do it now")]}


# --- back-pressure ----------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_client_that_stops_reading_makes_writers_wait_and_a_cancel_still_ends_them() -> None:
    """S-BP-02: memory stays bounded."""
    written: list[int] = []

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        async with session.agent_message() as message:
            for number in range(100_000):
                await message.write("x" * 1000)
                written.append(number)

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await script.prompt(session)
        before = -1
        while len(written) != before or not written:  # until nothing is written any more
            before = len(written)
            for _ in range(100):
                await asyncio.sleep(0)
        assert len(written) < 5_000
        await script.tell("session/cancel", sessionId=session)
        assert (await script.idle(session))["stopReason"] == "cancelled"


@on_each_loop
async def test_everything_that_was_said_adds_up_to_what_the_agent_retained() -> None:
    """MS-*, TC-02, CP-13, TM-04: the client's fold and the agent's own."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        async with session.agent_message() as message, session.tool_call("x") as call, session.terminal() as terminal:
            await message.write("a", "b")
            await call.write("out", terminal.content)
            await terminal.write(b"\xf0\x9f")
            await message.replace("c")
        async with session.compaction() as compaction:
            await compaction.write("kept")
        await session.plan("one")
        retained.append(session.transcript)

    retained: list[Any] = []
    async with serving(agent_of(prompt, retain=True)) as script:
        session = await session_of(script)
        await script.prompt(session)
        await script.idle(session)
        await until(lambda: bool(retained))
        folded = Transcript(cwd="/work")
        for update in script.updates(session):
            folded.apply(v2.decode(v2.SessionUpdate, msgspec.json.encode(update)))
        assert folded.snapshot() == retained[0].snapshot()
