"""What a session is busy with, and the states that its client is told: foreground, blocked, background, cancelled."""

from __future__ import annotations

import asyncio
import enum
import logging
import threading
from typing import Any

import pytest

from acpwire import v2
from acpwire.agent import Agent, AgentSession, UserPrompt
from acpwire.errors import AuthRequired, RequestError, UsageError
from acpwire.limits import Limits
from acpwire.trace import trace_context
from tests.agent.script import agent_of, doing, dumps, serving, session_of
from tests.transports.loops import on_each_loop, until


async def nothing(session: AgentSession, prompt: UserPrompt) -> None:
    """Do nothing."""


def states(updates: list[Any]) -> list[str]:
    """The states among updates, in order."""
    return [update["state"] for update in updates if update["sessionUpdate"] == "state_update"]


class Kept:
    """Keeps the sessions that are made."""

    def __init__(self) -> None:
        self.sessions: list[AgentSession] = []

    def agent(self, prompt: Any = nothing, **members: Any) -> Agent:
        """An agent whose sessions are kept here."""

        async def new_session(_: Agent, session: AgentSession) -> None:
            self.sessions.append(session)

        return agent_of(prompt, new_session=new_session, **members)


# --- foreground -------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_an_agent_works_without_a_prompt_and_ends_with_its_reason() -> None:
    """ST-03, ST-07, ST-18, SR-01, SR-04, US-06."""
    kept = Kept()
    async with serving(kept.agent()) as script:
        session = await session_of(script)
        (own,) = kept.sessions
        assert own.state.state == "idle"
        async with own.foreground() as work:
            await own.notice("by itself")
            work.stop_reason = "max_turn_requests"
            work.usage = v2.Usage(total_tokens=3, input_tokens=1, output_tokens=2)
        await script.idle(session)
        assert script.tags(session) == ["running", "notice", "idle"]
        assert script.updates(session)[-1]["stopReason"] == "max_turn_requests"
        assert script.updates(session)[-1]["usage"]["totalTokens"] == 3
        await script.expect_nothing()


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ValueError("secret"), {"stopReason": "error", "error": {"code": -32603, "message": "Internal error"}}),
        (RequestError(-32000, "sign in"), {"stopReason": "error", "error": {"code": -32000, "message": "sign in"}}),
    ],
)
@on_each_loop
async def test_what_work_raises_goes_on_and_the_client_is_told_that_it_failed(raised: Exception, expected: Any) -> None:
    """SR-07, S-EX-01."""
    kept = Kept()
    async with serving(kept.agent()) as script:
        session = await session_of(script)
        with pytest.raises(type(raised)):
            async with kept.sessions[0].foreground():
                raise raised
        assert await script.idle(session) == {"sessionUpdate": "state_update", "state": "idle", **expected}


@on_each_loop
async def test_work_that_overlaps_ends_with_one_idle() -> None:
    """ST-02, ST-08: a state is told where it changes."""
    kept = Kept()
    async with serving(kept.agent()) as script:
        session = await session_of(script)
        (own,) = kept.sessions
        async with own.foreground():
            async with own.foreground():
                pass
            await own.notice("still")
        await script.idle(session)
        assert script.tags(session) == ["running", "notice", "idle"]


@on_each_loop
async def test_a_cancel_ends_nested_work_at_its_outermost_context() -> None:
    """CA-04, CA-05."""
    kept = Kept()
    passed: list[str] = []

    async def work(own: AgentSession) -> None:
        async with own.foreground():
            async with own.foreground():
                await asyncio.Event().wait()
            passed.append("between")
        passed.append("after")

    async with serving(kept.agent()) as script:
        session = await session_of(script)
        task = asyncio.create_task(work(kept.sessions[0]))
        await script.running(session)
        await script.tell("session/cancel", sessionId=session)
        await script.idle(session)
        await task
        assert passed == ["after"]
        assert task.cancelling() == 0
        await script.expect_nothing()


@on_each_loop
async def test_work_whose_task_is_cancelled_from_outside_is_cancelled_and_so_is_the_task() -> None:
    """SR-06, CA-06: also where a library makes another exception of it."""
    kept = Kept()

    async def work(own: AgentSession, *, wraps: bool) -> None:
        async with own.foreground():
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError as error:
                if wraps:
                    raise ConnectionResetError from error
                raise

    async with serving(kept.agent()) as script:
        session = await session_of(script)
        for wraps in (False, True):
            task = asyncio.create_task(work(kept.sessions[0], wraps=wraps))
            await script.running(session)
            task.cancel()
            assert (await script.idle(session))["stopReason"] == "cancelled"
            with pytest.raises(ConnectionResetError if wraps else asyncio.CancelledError):
                await task


@pytest.mark.parametrize("cleanup", ["clean", "failing"])
@on_each_loop
async def test_a_task_group_in_a_prompt_is_cancelled_with_it(cleanup: str) -> None:
    """CA-04, SR-11: failures of the aborted are no failure of the work."""
    ended: list[str] = []

    async def part(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)
            if cleanup == "failing":
                raise ConnectionResetError(name)

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        async with asyncio.TaskGroup() as group, session.tool_call("x"):
            group.create_task(part("a"))
            group.create_task(part("b"))
            await part("c")

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        await script.until(lambda one: "pending" in dumps(one))
        await script.tell("session/cancel", sessionId=session)
        await script.tell("session/cancel", sessionId=session)
        assert (await script.idle(session))["stopReason"] == "cancelled"
        assert sorted(ended) == ["a", "b", "c"]
        assert [one["status"] for one in script.updates(session) if "status" in one] == ["pending", "cancelled"]
        await script.expect_nothing()


@on_each_loop
async def test_blocking_code_in_a_thread_sees_that_its_work_was_cancelled() -> None:
    """CA-04: of which work the code is part, not whichever is the newest."""
    seen = threading.Event()

    async def prompt(session: AgentSession, user: UserPrompt) -> None:
        def crunch() -> None:
            while not session.cancelled:
                started.set()
            seen.set()

        started = threading.Event()
        if user.text == "crunch":
            await asyncio.shield(asyncio.to_thread(crunch))

    async def admit(_: Agent, session: AgentSession, user: UserPrompt) -> None:
        """Let prompts in while others are worked on."""

    async with serving(agent_of(prompt, admit=admit)) as script:
        session = await session_of(script)
        await doing(script, session)
        await script.answered(await script.prompt(session, "crunch"))
        await script.tell("session/cancel", sessionId=session)
        await script.answered(await script.prompt(session, "newer"))
        await script.idle(session)
        await until(seen.is_set)


# --- how it ends ------------------------------------------------------------------------------------------------------

INTERNAL = {"stopReason": "error", "error": {"code": -32603, "message": "Internal error"}}


class Unfinished(RequestError):
    """An error that was never given its code."""

    def __init__(self) -> None:  # without the base's
        pass


class Reason(enum.StrEnum):
    """Reasons as an agent may keep them."""

    FULL = "max_tokens"
    OTHER = "other"


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (42, "returned 42; return a stop reason, or None for end_turn"),
        (True, "returned True; return"),
        (False, "returned False; return"),
        (0, "returned 0; return"),
        ("", "returned ''; return"),
        ({}, "returned {}; return"),
        ({"stopReason": "end_turn"}, "returned {'stopReason': 'end_turn'}; return"),
        (("end_turn", None), "returned ('end_turn', None); return"),
        (v2.PromptResponse(message_id="m"), "returned PromptResponse(message_id='m'); return"),
        (Reason.OTHER, "; return"),
        (
            "done",
            (
                'returned \'done\'; return a stop reason, or None for end_turn: "end_turn", "max_tokens", '
                '"max_turn_requests", "refusal", "cancelled", or one of your own that begins with _'
            ),
        ),
        ("error", "returned 'error'; raise acpwire.RequestError(code, message) instead"),
    ],
)
@on_each_loop
async def test_what_is_no_stop_reason_ends_the_turn_as_failed_and_the_log_says_what_to_return(
    returned: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SR-01, SR-07, SR-08, ST-02: there is one idle, whatever is returned, and the session goes on."""
    kept = Kept()

    async def prompt(session: AgentSession, user: UserPrompt) -> Any:
        return returned if user.text == "hi" else None

    async with serving(kept.agent(prompt)) as script:
        session = await session_of(script)
        message_id = (await doing(script, session))["messageId"]
        assert await script.idle(session) == {"sessionUpdate": "state_update", "state": "idle", **INTERNAL}
        assert (
            f"prompt() of session {session!r}, message {message_id!r}, {said}" in caplog.text
            or returned is Reason.OTHER
        )
        assert said in caplog.text
        caplog.clear()
        async with kept.sessions[0].foreground() as work:
            work.stop_reason = returned
        assert await script.idle(session) == {"sessionUpdate": "state_update", "state": "idle", **INTERNAL}
        assert f"foreground work of session {session!r} returned" in caplog.text
        assert said in caplog.text
        await script.prompt(session, "again")
        assert (await script.idle(session))["stopReason"] == "end_turn"
        await script.expect_nothing()


@pytest.mark.parametrize(
    ("returned", "reason"), [(None, "end_turn"), (Reason.FULL, "max_tokens"), ("cancelled", "cancelled")]
)
@on_each_loop
async def test_none_and_members_of_an_enum_are_stop_reasons_too(returned: Any, reason: str) -> None:
    """SR-02, SR-03, SR-06."""
    kept = Kept()

    async def prompt(_: AgentSession, __: UserPrompt) -> Any:
        return returned

    async with serving(kept.agent(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        assert (await script.idle(session))["stopReason"] == reason
        async with kept.sessions[0].foreground() as work:
            work.stop_reason = returned
        assert (await script.idle(session))["stopReason"] == reason


def spoilt(code: Any, message: Any) -> RequestError:
    """An error that was changed after it was made, when it is looked at."""
    error = RequestError(0, "")
    error.code, error.message = code, message
    return error


"""The same, with what type checkers would refuse."""


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (spoilt("-32000", "x"), "Expected `int`, got `str` - at `$.code`"),
        (spoilt(-32000, ValueError("x")), "ValueError has no JSON form"),
        (spoilt(2**40, "x"), "at `$.code`"),
        (spoilt(-32000, None), "at `$.message`"),
        (spoilt(v2.Error(code=1, message="x"), None), "at `$.code`"),
        (Unfinished(), "how the"),
    ],
)
@on_each_loop
async def test_an_error_that_cannot_be_told_is_an_internal_error(
    raised: Exception, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SR-07, ST-02."""
    kept = Kept()

    async def prompt(_: AgentSession, __: UserPrompt) -> None:
        raise raised

    async with serving(kept.agent(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        assert await script.idle(session) == {"sessionUpdate": "state_update", "state": "idle", **INTERNAL}
        assert said in caplog.text
        assert f"prompt() of session {session!r}" in caplog.text
        caplog.clear()
        with pytest.raises(RequestError):
            async with kept.sessions[0].foreground():
                raise raised
        assert await script.idle(session) == {"sessionUpdate": "state_update", "state": "idle", **INTERNAL}
        assert said in caplog.text
        await script.expect_nothing()


@pytest.mark.parametrize("raised", [RequestError(1, "x", data=object()), AuthRequired("sign in", data=object())])
@on_each_loop
async def test_data_of_an_error_is_not_told_and_spoils_nothing(raised: RequestError) -> None:
    """SR-07."""

    async def prompt(_: AgentSession, __: UserPrompt) -> None:
        raise raised

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        assert (await script.idle(session))["error"] == {"code": raised.code, "message": raised.message}


def usage(tokens: Any, **more: Any) -> v2.Usage:
    """A usage, right or wrong."""
    return v2.Usage(total_tokens=tokens, input_tokens=1, output_tokens=1, **more)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (usage(None), "at `$.totalTokens`"),
        (usage(-1), "at `$.totalTokens`"),
        (usage(1.5), "at `$.totalTokens`"),
        (usage(2**64), "at `$.totalTokens`"),
        (usage(1, thought_tokens="1"), "at `$.thoughtTokens`"),
        (usage(1, meta={"x": object()}), "object has no JSON form"),
        ({"total_tokens": 1}, "expected v2.Usage, not dict"),
        (42, "expected v2.Usage, not int"),
    ],
)
@on_each_loop
async def test_a_usage_that_cannot_be_told_is_left_out_and_logged(
    wrong: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """US-06, US-02: it is optional, and what the work did is done."""
    kept = Kept()

    async def prompt(_: AgentSession, user: UserPrompt) -> None:
        user.usage = wrong
        if user.text == "fail":
            raise RequestError(7, "quota")

    async with serving(kept.agent(prompt)) as script:
        session = await session_of(script)
        idle = {"sessionUpdate": "state_update", "state": "idle"}
        await doing(script, session)
        assert await script.idle(session) == {**idle, "stopReason": "end_turn"}
        assert f"the usage of the prompt() of session {session!r}, message" in caplog.text
        assert said in caplog.text
        await script.prompt(session, "fail")
        assert await script.idle(session) == {**idle, "stopReason": "error", "error": {"code": 7, "message": "quota"}}
        async with kept.sessions[0].foreground() as work:
            work.usage = wrong
        assert await script.idle(session) == {**idle, "stopReason": "end_turn"}
        await script.expect_nothing()


@pytest.mark.parametrize("left", [{"traceparent": object()}, 5])
@on_each_loop
async def test_a_trace_that_cannot_be_sent_keeps_no_end_from_being_told(
    left: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """SR-01, ST-17, MT-05."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        child = await session.subagent("x", session_id="child")
        token = trace_context.set(left)
        async with child.foreground():
            pass
        trace_context.reset(token)
        await session.notice("goes on")
        trace_context.set(left)

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        assert (await script.idle(session))["stopReason"] == "end_turn"
        await script.expect_nothing()
        assert script.tags("child") == ["running", "idle"]
        mirrored = [one["state"] for one in script.updates(session) if isinstance(one.get("state"), dict)]
        assert [one["state"] for one in mirrored] == ["running", "idle"]
    assert f"the trace of session {session!r} cannot be sent" in caplog.text


@on_each_loop
async def test_work_is_entered_once() -> None:
    """ST-01."""
    kept = Kept()
    async with serving(kept.agent()) as script:
        session = await session_of(script)
        work = kept.sessions[0].foreground()
        async with work:
            with pytest.raises(UsageError, match="ST-01"):
                await work.__aenter__()
        with pytest.raises(UsageError, match="ST-01"):
            await work.__aenter__()
        await script.idle(session)
        await script.expect_nothing()
        assert states(script.updates(session)) == ["running", "idle"]


@on_each_loop
async def test_the_log_names_the_session_and_the_prompt_of_work_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    """SR-07."""

    async def prompt(_: AgentSession, __: UserPrompt) -> None:
        raise ValueError("secret")

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        message_id = (await doing(script, session))["messageId"]
        await script.idle(session)
        await script.expect_nothing()
    assert [record.getMessage() for record in caplog.records] == [
        f"the prompt() of session {session!r}, message {message_id!r}, failed"
    ]


@on_each_loop
async def test_work_that_does_not_end_after_it_was_cancelled_is_named_in_the_log_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CA-04."""
    release = asyncio.Event()

    async def prompt(_: AgentSession, user: UserPrompt) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if user.text == "stubborn":
                await release.wait()

    async with serving(agent_of(prompt), limits=Limits(grace=0.1)) as script:
        quick, stubborn = await session_of(script), await session_of(script)
        await script.answered(await script.prompt(quick))
        await script.answered(await script.prompt(stubborn, "stubborn"))
        with caplog.at_level(logging.WARNING):
            for session in (quick, stubborn, stubborn):
                await script.tell("session/cancel", sessionId=session)
            await script.idle(quick)
            await until(lambda: bool(caplog.records))
            release.set()
            assert (await script.idle(stubborn))["stopReason"] == "cancelled"
    (record,) = caplog.records
    assert f"session {stubborn!r}, message" in record.getMessage()
    assert "has not ended 0.1 s after it was cancelled: does it swallow CancelledError?" in record.getMessage()


# --- blocked ----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_session_requires_action_while_all_of_its_work_waits() -> None:
    """ST-04, ST-05, ST-06."""
    kept = Kept()
    async with serving(kept.agent()) as script:
        session = await session_of(script)
        (own,) = kept.sessions
        async with own.foreground():
            async with own.requires_action(), own.requires_action():
                pass
            async with own.foreground(), own.requires_action():
                await own.notice("the outer work goes on")
        async with own.requires_action():
            await own.notice("nothing waits here")
        await script.until(lambda one: "nothing waits" in dumps(one))
        assert script.tags(session) == ["running", "requires_action", "running", "notice", "idle", "notice"]


@on_each_loop
async def test_work_that_is_cancelled_while_it_waits_ends_idle() -> None:
    """ST-05, CA-05."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        async with session.requires_action():
            await asyncio.Event().wait()

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        await script.until(lambda one: "requires_action" in dumps(one))
        await script.tell("session/cancel", sessionId=session)
        assert (await script.idle(session))["stopReason"] == "cancelled"
        await doing(script, session)
        assert states(script.updates(session))[-1] != "requires_action", "what has ended blocks nothing"
        await script.tell("session/cancel", sessionId=session)
        await script.idle(session)


# --- background -------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_background_work_is_listed_in_every_state_and_survives_a_cancel() -> None:
    """BG-01, BG-02, BG-03, ST-08, ST-16, CA-10, TC-13."""
    release = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    async def long(session: AgentSession) -> None:
        async with session.terminal(terminal_id="t") as terminal, session.background(terminal):
            await release.wait()
            await terminal.write("done")
            await terminal.exit(0)

    async def prompt(session: AgentSession, user: UserPrompt) -> None:
        if user.text == "start":
            tasks.append(asyncio.create_task(long(session)))
            await asyncio.sleep(0)
        await asyncio.Event().wait()

    listed = [{"type": "terminal", "terminalId": "t"}]
    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await script.answered(await script.prompt(session, "start"))
        await script.until(lambda one: "background" in dumps(one))
        assert script.tags(session)[-2:] == ["terminal_update", "running"], "announced before it is listed"
        assert script.updates(session)[-1]["background"] == listed
        await script.tell("session/cancel", sessionId=session)
        idle = await script.idle(session)
        assert (idle["stopReason"], idle["background"]) == ("cancelled", listed)
        release.set()
        again = await script.idle(session)
        assert again == idle | {"background": []}, "a snapshot again, and no other completion"
        assert script.tags(session)[-3:] == ["terminal_output_chunk", "terminal_update", "idle"]
        await doing(script, session)
        await script.running(session) if states(script.updates(session))[-1] != "running" else None
        assert script.updates(session)[-1]["background"] == []
        await script.tell("session/cancel", sessionId=session)
        await script.idle(session)
    await asyncio.gather(*tasks)


@on_each_loop
async def test_background_work_of_all_kinds_is_listed_once_each_and_blocks_nothing() -> None:
    """BG-03, BG-05, ST-06."""
    kept = Kept()

    async def long(own: AgentSession) -> None:
        child = await own.subagent("x", session_id="child")
        async with own.tool_call("x", tool_call_id="c") as call, own.background(call), own.background(child):
            await own.request_permission("Sure?")

    async with serving(kept.agent()) as script:
        session = await session_of(script)
        async with kept.sessions[0].foreground():
            task = asyncio.create_task(long(kept.sessions[0]))
            request = await script.asked("session/request_permission")
            assert states(script.updates(session)) == ["running"] * 3, "the foreground does not wait for it"
            assert script.updates(session)[-1]["background"] == [
                {"type": "tool_call", "toolCallId": "c"},
                {"type": "subagent", "sessionId": "child"},
            ]
            await script.answer(request, {"outcome": {"outcome": "cancelled"}})
            await task
        assert (await script.idle(session))["background"] == []


# --- closing ----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_closing_ends_background_work_and_children_and_lets_nothing_begin() -> None:
    """CA-12, SA-07, SS-25, X14: and tells all of it before its answer."""
    kept, ended = Kept(), list[str]()
    tasks: list[asyncio.Task[None]] = []

    async def long(session: AgentSession, name: str) -> None:
        async with session.tool_call(name) as call, session.background(call):
            try:
                await asyncio.Event().wait()
            finally:
                with pytest.raises(UsageError, match="closed"):
                    session.foreground()
                with pytest.raises(UsageError, match="closed"):
                    await session.subagent("late")
                ended.append(name)

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        child = await session.subagent("x", session_id="child")
        tasks.append(asyncio.create_task(long(session, "own")))
        tasks.append(asyncio.create_task(long(child, "child's")))
        async with child.foreground():
            await asyncio.Event().wait()

    async with serving(kept.agent(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        await script.until(lambda one: "child's" in dumps(one))
        assert await script.call("session/close", sessionId=session) == {}
        assert sorted(ended) == ["child's", "own"]
        for one in (session, "child"):
            last = [update for update in script.updates(one) if update["sessionUpdate"] == "state_update"][-1]
            assert (last["state"], last["stopReason"], last["background"]) == ("idle", "cancelled", [])
        assert (await script.call("session/prompt", sessionId="child", prompt=[{"type": "text", "text": "x"}]))[
            "code"
        ] == -32002
        with pytest.raises(UsageError, match="closed"):
            kept.sessions[0].foreground()
        await script.expect_nothing()
    await asyncio.gather(*tasks, return_exceptions=True)


@on_each_loop
async def test_a_prompt_that_comes_while_its_session_is_being_closed_is_refused_and_no_work_is_left() -> None:
    """CA-12, PL-28: before insertion or never."""
    release = asyncio.Event()

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await release.wait()

    closed: list[str] = []

    async def close_session(_: Agent, session: AgentSession) -> None:
        closed.append(session.id)

    async with serving(agent_of(prompt, close_session=close_session)) as script:
        session = await session_of(script)
        await doing(script, session)
        held = await script.prompt(session)
        closing = [await script.ask("session/close", sessionId=session) for _ in range(2)]
        late = await script.prompt(session)
        assert (await script.answered(late))["code"] == -32002
        assert (await script.answered(held))["code"] == -32800
        assert await script.call("session/list") == {"sessions": []}
        release.set()
        for one in closing:
            assert await script.answered(one) == {}
        assert closed == [session], "the agent is told once"
        assert states(script.updates(session)) == ["running", "idle"]
        await script.expect_nothing()


@on_each_loop
async def test_closing_goes_on_where_its_request_is_cancelled() -> None:
    """CA-12, RC-04."""
    release = asyncio.Event()
    closed: list[str] = []

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await release.wait()

    async def close_session(_: Agent, session: AgentSession) -> None:
        closed.append(session.id)

    async with serving(agent_of(prompt, close_session=close_session)) as script:
        session = await session_of(script)
        await doing(script, session)
        closing = await script.ask("session/close", sessionId=session)
        await script.tell("$/cancel_request", requestId=closing)
        assert (await script.answered(closing))["code"] == -32800
        release.set()
        assert (await script.idle(session))["stopReason"] == "cancelled"
        await until(lambda: closed == [session])


@on_each_loop
async def test_many_sessions_that_do_not_end_take_one_grace_together() -> None:
    """S-PR-06."""
    release = asyncio.Event()

    async def stubborn(session: AgentSession, _: UserPrompt) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    loop = asyncio.get_running_loop()
    async with serving(agent_of(stubborn), limits=Limits(grace=0.2)) as script:
        for _ in range(20):
            await doing(script, await session_of(script))
        start = loop.time()
    assert loop.time() - start < 2
    release.set()
    await until(lambda: len(asyncio.all_tasks()) == 1)
