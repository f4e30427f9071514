"""A session as its agent has it: threads, replays, set-up and its races, stores, what follows an answer."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from acpwire import v2
from acpwire.agent import Agent, AgentSession, UserPrompt
from acpwire.errors import RequestError, SessionNotFound, UsageError
from acpwire.transcript import Transcript
from acpwire.wire.frames import Method
from tests.agent.script import TEXT, agent_of, doing, dumps, said, serving, session_of
from tests.transports.loops import on_each_loop, until

START = {"type": "start"}


async def nothing(session: AgentSession, prompt: UserPrompt) -> None:
    """Do nothing."""


async def no_list(_: Agent, **__: Any) -> v2.ListSessionsResponse:
    """List nothing."""
    return v2.ListSessionsResponse(sessions=[])


def message(text: str, message_id: str = "m") -> v2.AgentMessage:
    """A whole message."""
    return v2.AgentMessage(message_id=message_id, content=[v2.TextContent(text=text)])


def folded(updates: list[Any]) -> Transcript:
    """What updates add up to."""
    transcript = Transcript(cwd="/work")
    for update in updates:
        transcript.apply(v2.decode(v2.SessionUpdate, msgspec.json.encode(update)))
    return transcript


# --- threads ----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_use_from_another_thread_is_refused_and_says_what_to_use() -> None:
    async def prompt(session: AgentSession) -> None:
        writer = session.agent_message()
        call = session.tool_call("x")

        def uses() -> Iterator[Any]:
            yield session.notice("x")
            yield session.send(message("x"))
            yield writer.write("x")
            yield writer.replace("x")
            yield call.__aenter__()
            yield session.request_permission("x")
            yield session.subagent("x")
            yield session.replay([message("x")])
            yield session.background(call).__aenter__()

        def elsewhere() -> None:
            for use in uses():
                with pytest.raises(UsageError, match="run_coroutine_threadsafe"):
                    asyncio.run(use)
            for plain in (session.foreground, session.requires_action):
                with pytest.raises(UsageError, match="run_coroutine_threadsafe"):
                    plain()
            for use in (session.notice("a"), session.send(v2.Notice(title="b", severity="info")), writer.write("c")):
                asyncio.run_coroutine_threadsafe(use, session.loop).result(10)

        await asyncio.to_thread(elsewhere)

    a, b, c = await said(prompt)
    assert (a["title"], b["title"], c["content"]["text"]) == ("a", "b", "c")


# --- what follows an answer -------------------------------------------------------------------------------------------


@on_each_loop
async def test_what_is_to_follow_an_answer_does_and_not_where_there_is_none() -> None:
    """SS-08, SU-06."""

    async def new_session(_: Agent, session: AgentSession) -> None:
        session.after_response(lambda: made.append(session))

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        with pytest.raises(UsageError, match="answered"):
            session.after_response(lambda: None)

    made: list[AgentSession] = []
    async with serving(agent_of(prompt, new_session=new_session)) as script:
        session = await session_of(script)
        await doing(script, session)
        assert (await script.idle(session))["stopReason"] == "end_turn"
        assert [one.id for one in made] == [session]
        with pytest.raises(UsageError):
            made[0].after_response(lambda: None)


# --- stores -----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_store_that_fails_or_looks_at_a_child_spoils_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """ST-02: the work ends all the same."""
    stored: list[tuple[str, str]] = []

    def sent(_: Agent, session: AgentSession, update: v2.SessionUpdate) -> None:
        stored.append((session.id, update.tag))
        raise OSError("disk full")

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        child = await session.subagent("x", session_id="child")
        async with child.agent_message() as said:
            await said.write("a", "b")

    with caplog.at_level(logging.CRITICAL, logger="acpwire"):
        async with serving(agent_of(prompt, sent=sent)) as script:
            session = await session_of(script)
            await doing(script, session)
            assert (await script.idle(session))["stopReason"] == "end_turn"
            await doing(script, session)
            await script.idle(session)
    assert stored[:6] == [
        (session, "user_message"),
        (session, "state_update"),
        (session, "subagent_update"),
        ("child", "agent_message_chunk"),
        ("child", "agent_message_chunk"),
        (session, "state_update"),
    ]


@on_each_loop
async def test_what_a_client_says_is_echoed_as_it_came_future_values_included() -> None:
    """PL-15, EX-03, EX-04."""
    block = {"type": "text", "text": "hi", "annotations": {"audience": ["robot"]}, "_meta": {"x": 1}}
    async with serving(agent_of(nothing)) as script:
        session = await session_of(script)
        assert "messageId" in await script.call("session/prompt", sessionId=session, prompt=[block], _meta={"k": 1})
        await script.idle(session)
        assert script.updates(session)[0]["content"] == [block]
        assert script.updates(session)[0]["_meta"] == {"k": 1}


# --- replay -----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_what_is_said_during_a_replay_follows_it_and_adds_up() -> None:
    """SS-12, SS-16, SU-07, MS-13: live work goes on beside a replay, and nothing of it gets in between."""
    go, gone = asyncio.Event(), asyncio.Event()
    seen: list[Any] = []

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        async with session.agent_message("m") as live:
            await live.write("a", v2.ImageContent(data="aGk=", mime_type="image/png"), "b")
            await go.wait()
            writing = asyncio.create_task(live.write("c", "d"))
            await session.notice("meanwhile")
            await writing
            await session.request_permission("Sure?")
        seen.append(session.transcript)
        gone.set()

    async def resume_session(_: Agent, session: AgentSession, replay_from: Any) -> None:
        assert session.transcript is not None

        def history() -> Iterator[v2.SessionUpdate]:
            yield from updates
            go.set()

        updates = list(session.transcript.updates())
        await session.replay(history())

    async with serving(agent_of(prompt, retain=True, resume_session=resume_session, list_sessions=no_list)) as script:
        session = await session_of(script)
        await doing(script, session)
        await script.until(lambda one: '"b"' in dumps(one))
        before = len(script.updates(session))
        resuming = await script.ask("session/resume", sessionId=session, cwd="/work", replayFrom=START)
        await script.answer(await script.asked("session/request_permission"), {"outcome": {"outcome": "cancelled"}})
        await script.answered(resuming)
        await script.idle(session)
        assert await gone.wait()
        found = folded(script.updates(session))
        blocks = found.messages["agent", "m"].content
        assert folded(script.updates(session)[before:]).messages["agent", "m"].content == blocks
        assert seen[0].messages["agent", "m"].content == blocks


@on_each_loop
async def test_a_session_that_is_closed_while_it_is_replayed_ends_at_once_and_in_order() -> None:
    """CA-12."""
    begun = asyncio.Event()

    async def resume_session(_: Agent, session: AgentSession, replay_from: Any) -> None:
        def endless() -> Iterator[v2.SessionUpdate]:
            while True:
                begun.set()
                yield message("x" * 10_000)

        await session.replay(endless())

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        await asyncio.Event().wait()

    agent = agent_of(prompt, resume_session=resume_session, list_sessions=no_list)
    async with serving(agent) as script:
        session = await session_of(script)
        await doing(script, session)
        resuming = await script.ask("session/resume", sessionId=session, cwd="/work", replayFrom=START)
        await begun.wait()
        closing = await script.ask("session/close", sessionId=session)
        assert await script.answered(closing) == {}
        assert script.tags(session)[-1] == "idle"
        assert (await script.answered(resuming))["code"] == -32002
        await script.expect_nothing()


@on_each_loop
async def test_a_history_goes_out_as_it_was_stored_without_notices() -> None:
    """EX-03, NT-06, SU-04, SS-14, SS-15, CP-07, CP-17, CP-18, PL-24."""
    history: list[v2.SessionUpdate] = [
        v2.UserMessage(message_id="u", content=[v2.TextContent(text="hi")]),
        v2.UnknownVariant("future", b'{"sessionUpdate":"future","x":{"y":null}}'),
        v2.UnknownVariant("notice", b'{"sessionUpdate":"notice","title":5}'),
        v2.Notice(severity="info", title="gone"),
        v2.CompactionUpdate(compaction_id="c", status="completed", summary=[v2.TextContent(text="kept")], error=None),
        v2.ToolCallUpdate(tool_call_id="t", status="paused", kind="invented"),
    ]

    async def resume_session(_: Agent, session: AgentSession, replay_from: Any) -> None:
        await session.replay(iter(history))

    async with serving(agent_of(nothing, resume_session=resume_session, list_sessions=no_list, retain=True)) as script:
        await script.call("session/resume", sessionId="s", cwd="/", replayFrom=START)
        assert script.updates("s") == [
            *(msgspec.json.decode(v2.encode(one)) for one in history if one.tag != "notice"),
            {"sessionUpdate": "state_update", "state": "idle"},
        ]
        script.seen.clear()
        await script.call("session/resume", sessionId="s", cwd="/", replayFrom=START)
        assert len(script.updates("s")) == 5, "a retained transcript took it in, once"


@on_each_loop
async def test_resuming_tells_the_state_that_work_has_left_it_in() -> None:
    """ST-09, ST-08, SS-16: with its reason, and what runs in the background."""
    release = asyncio.Event()

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        await release.wait()

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        script.seen.clear()
        await script.call("session/resume", sessionId=session, cwd="/work")
        assert script.tags(session) == ["running"]
        release.set()
        idle = await script.idle(session)
        script.seen.clear()
        await script.call("session/resume", sessionId=session, cwd="/work")
        assert script.updates(session) == [idle]


@on_each_loop
async def test_work_that_would_wait_for_itself_is_refused() -> None:
    async def prompt(session: AgentSession) -> None:
        with pytest.raises(UsageError, match="itself"):
            await session.wait_idle()

    assert await said(prompt) == []


@on_each_loop
async def test_sessions_that_were_closed_are_kept_nowhere() -> None:
    """SS-29."""
    made: list[weakref.ref[AgentSession]] = []

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        made.append(weakref.ref(session))
        async with session.tool_call("x", can_cancel=True) as call:
            await call.write("x")
        child = await session.subagent("x")
        made.append(weakref.ref(child))

    async with serving(agent_of(prompt)) as script:
        for _ in range(5):
            session = await session_of(script)
            await doing(script, session)
            await script.idle(session)
            await script.call("session/close", sessionId=session)
        await script.expect_nothing()
        gc.collect()
        assert [one() for one in made] == [None] * 10


# --- setting up, and its races ----------------------------------------------------------------------------------------


class Slow(Agent):
    """Sets sessions up when it is told to."""

    info = v2.Implementation(name="slow", version="1")

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.fails = False
        self.sessions: list[AgentSession] = []
        self.closed: list[str] = []

    async def prompt(self, session: AgentSession, prompt: UserPrompt) -> None:
        pass

    async def new_session(self, session: AgentSession) -> None:
        self.sessions.append(session)
        await self.go.wait()
        if self.fails:
            raise RequestError(-32000, "sign in")

    async def resume_session(self, session: AgentSession, replay_from: Any) -> None:
        await self.new_session(session)

    async def list_sessions(self, **_: Any) -> v2.ListSessionsResponse:
        return v2.ListSessionsResponse(sessions=[])

    async def close_session(self, session: AgentSession) -> None:
        self.closed.append(session.id)


@on_each_loop
async def test_a_session_is_there_once_it_is_set_up() -> None:
    """PL-03, SS-10, SS-28."""
    agent = Slow()
    async with serving(agent) as script:
        first = await script.ask("session/resume", sessionId="s", cwd="/")
        second = await script.ask("session/resume", sessionId="s", cwd="/")
        assert (await script.answered(second))["code"] == -32600
        assert (await script.call("session/prompt", sessionId="s", prompt=TEXT))["code"] == -32002
        agent.go.set()
        assert await script.answered(first) == {}
        assert "messageId" in await script.call("session/prompt", sessionId="s", prompt=TEXT)
        assert len(agent.sessions) == 1


@pytest.mark.parametrize("how", ["closed", "cancelled", "failed"])
@on_each_loop
async def test_a_session_whose_set_up_comes_to_nothing_is_gone_and_may_be_taken_up_again(how: str) -> None:
    """CA-12, RC-03, SS-02."""
    agent = Slow()
    async with serving(agent) as script:
        setting_up = await script.ask("session/resume", sessionId="s", cwd="/")
        await until(lambda: bool(agent.sessions))
        if how == "closed":
            assert await script.call("session/close", sessionId="s") == {}
        elif how == "cancelled":
            await script.tell("$/cancel_request", requestId=setting_up)
        else:
            agent.fails = True
        if how != "cancelled":
            agent.go.set()
        codes = {"closed": -32002, "cancelled": -32800, "failed": -32000}
        assert (await script.answered(setting_up))["code"] == codes[how]
        with pytest.raises(UsageError):
            await agent.sessions[0].notice("late")
        agent.fails = False
        agent.go.set()
        assert await script.call("session/resume", sessionId="s", cwd="/") == {}
        assert "messageId" in await script.call("session/prompt", sessionId="s", prompt=TEXT)
        await script.idle("s")


@on_each_loop
async def test_resuming_waits_for_a_close_that_is_under_way() -> None:
    """CA-12, SS-10: and begins anew."""
    release = asyncio.Event()
    found: list[AgentSession] = []

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await release.wait()

    async def resume_session(_: Agent, session: AgentSession, replay_from: Any) -> None:
        found.append(session)

    async with serving(agent_of(prompt, resume_session=resume_session, list_sessions=no_list)) as script:
        session = await session_of(script)
        await doing(script, session)
        await script.ask("session/close", sessionId=session)
        resuming = await script.ask("session/resume", sessionId=session, cwd="/new")
        await script.expect_nothing() if not script.seen else None
        release.set()
        assert await script.answered(resuming) == {}
        assert found[0].cwd == "/new"
        assert script.tags(session)[-2:] == ["idle", "idle"]
        assert "messageId" in await script.call("session/prompt", sessionId=session, prompt=TEXT)
        await script.tell("session/cancel", sessionId=session)
        await script.idle(session)


@on_each_loop
async def test_a_session_that_is_not_found_by_its_agent_is_told_by_its_id() -> None:
    """SS-28."""

    async def resume_session(_: Agent, session: AgentSession, replay_from: Any) -> None:
        raise SessionNotFound(session.id)

    async with serving(agent_of(nothing, resume_session=resume_session, list_sessions=no_list)) as script:
        for _ in range(2):
            error = await script.call("session/resume", sessionId="s", cwd="/")
            assert (error["code"], error["data"]) == (-32002, {"sessionId": "s"})


@on_each_loop
async def test_resuming_that_is_refused_changes_nothing() -> None:
    """SS-18."""
    found: list[AgentSession] = []

    async def resume_session(_: Agent, session: AgentSession, replay_from: Any) -> None:
        found.append(session)
        if session.cwd != "/work":
            raise RequestError(-32602, "not from there")

    async with serving(agent_of(nothing, resume_session=resume_session, list_sessions=no_list)) as script:
        session = await session_of(script)
        assert (await script.call("session/resume", sessionId=session, cwd="/other"))["code"] == -32602
        assert found[0].cwd == "/work"
        assert await script.call("session/resume", sessionId=session, cwd="/work") == {}
        assert "messageId" in await script.call("session/prompt", sessionId=session, prompt=TEXT)
        await script.idle(session)


# --- config options ---------------------------------------------------------------------------------------------------

OPTIONS: list[v2.SessionConfigOption] = [
    v2.SessionConfigSelect(
        config_id="model",
        name="Model",
        current_value="a",
        options=[
            v2.SessionConfigSelectGroup(
                group_id="g", name="G", options=[v2.SessionConfigSelectOption(value="a", name="A")]
            ),
            v2.SessionConfigSelectGroup(
                group_id="h", name="H", options=[v2.SessionConfigSelectOption(value="b", name="B")]
            ),
        ],
    ),
    v2.SessionConfigBoolean(config_id="fast", name="Fast", current_value=True),
    v2.UnknownVariant("_acme", b'{"type":"_acme","configId":"own","name":"Own"}'),
]


@pytest.mark.parametrize(
    ("config_id", "kind", "value", "is_right"),
    [
        ("model", "id", "b", True),
        ("model", "id", "c", False),
        ("model", "boolean", True, False),
        ("fast", "boolean", False, True),
        ("fast", "id", "true", False),
        ("other", "id", "a", False),
        ("own", "id", "anything", True),
        ("model", "_acme", 5, False),
    ],
)
@on_each_loop
async def test_an_option_takes_the_values_that_it_was_told_with(
    config_id: str, kind: str, value: Any, is_right: bool
) -> None:
    """CO-01, CO-03, CO-04, CO-05, CO-06, CO-09."""
    asked: list[Any] = []

    async def new_session(_: Agent, session: AgentSession) -> None:
        await session.config(*OPTIONS)

    async def set_config_option(_: Agent, session: AgentSession, request: Any) -> list[v2.SessionConfigOption]:
        asked.append(request)
        return OPTIONS

    async with serving(agent_of(nothing, new_session=new_session, set_config_option=set_config_option)) as script:
        answer = await script.call("session/new", cwd="/")
        assert [one["configId"] for one in answer["configOptions"]] == ["model", "fast", "own"]
        request = {"sessionId": answer["sessionId"], "configId": config_id, "type": kind, "value": value}
        response = await script.call("session/set_config_option", **request)
        assert response.get("code") == (None if is_right else -32602)
        assert bool(asked) == is_right
        if is_right:
            assert response["configOptions"] == answer["configOptions"]


@on_each_loop
async def test_options_that_a_client_may_refuse_change_nothing() -> None:
    """CO-02, CO-05."""

    async def new_session(_: Agent, session: AgentSession) -> None:
        made.append(session)
        await session.config(*OPTIONS)

    async def set_config_option(_: Agent, session: AgentSession, request: Any) -> list[v2.SessionConfigOption]:
        return [OPTIONS[1], OPTIONS[1]]

    made: list[AgentSession] = []
    agent = agent_of(nothing, new_session=new_session, set_config_option=set_config_option)
    async with serving(agent) as script:
        session = await session_of(script)
        request = {"sessionId": session, "configId": "fast", "type": "boolean", "value": False}
        assert (await script.call("session/set_config_option", **request))["code"] == -32603
        assert list(made[0].config_options) == OPTIONS


# --- anything else ----------------------------------------------------------------------------------------------------


@on_each_loop
async def test_an_agent_may_use_methods_of_its_own_and_what_the_client_can_do() -> None:
    """TC-14, EX-06, EX-07."""
    double = Method("_acme/double", "client", "request", list[int], list[int], v2.SESSION_NEW.decoding)
    heard = Method("_acme/heard", "client", "notification", dict[str, int], None, v2.SESSION_NEW.decoding)
    found: list[Any] = []

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        await session.client.notify(heard, {"x": 1})
        found.append(await session.client.request(double, [1]))

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        request = await script.asked("_acme/double")
        assert request["params"] == [1]
        assert [one["params"] for one in script.seen if one.get("method") == "_acme/heard"] == [{"x": 1}]
        await script.answer(request, [2])
        await script.idle(session)
        assert found == [[2]]


@on_each_loop
async def test_a_handler_that_never_awaits_answers_once_and_work_that_does_not_is_cancelled_in_name_alone() -> None:
    """S-CA-03: it blocks the loop; the cancel is read when it is over, and touches nothing."""

    async def prompt(session: AgentSession, user: UserPrompt) -> None:
        for _ in range(10_000):
            async with session.tool_call("x"):
                pass

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        request = await script.prompt(session)
        await script.answered(request)
        await script.tell("session/cancel", sessionId=session)
        await script.idle(session)
        answers = [one for one in script.seen if one.get("id") == request]
        assert len(answers) == 1
        idles = [one for one in script.tags(session) if one == "idle"]
        assert len(idles) == 1
        await script.expect_nothing()


@on_each_loop
async def test_the_same_request_id_twice_is_answered_once_each() -> None:
    """ER-02, S-CA-04."""
    release = asyncio.Event()

    async def new_session(_: Agent, session: AgentSession) -> None:
        await release.wait()

    async with serving(agent_of(nothing, new_session=new_session)) as script:
        line = {"jsonrpc": "2.0", "id": "twice", "method": "session/new", "params": {"cwd": "/"}}
        await script.send(line, line)
        first = await script.until(lambda one: one.get("id") == "twice")
        assert first["error"]["code"] == -32600
        release.set()
        second = await script.until(lambda one: one.get("id") == "twice")
        assert "sessionId" in second["result"]
        await script.expect_nothing()
