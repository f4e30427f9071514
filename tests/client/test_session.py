"""Sessions: set up, resumed, listed and ended; their updates, streams, state and options; cancelling; children."""

from __future__ import annotations

import asyncio
import gc
import inspect
import re
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import acpwire
from acpwire import v2
from acpwire.client import AgentConnection, Client, ClientSession, Prompt, Turn
from acpwire.errors import ConnectionClosed, DecodeError, RequestError, SessionNotFound, StreamOverflow, UsageError
from acpwire.limits import Limits
from acpwire.streams import HIGH, Feed, Stream
from acpwire.transcript import Change
from tests.client.script import (
    IDLE,
    RUNNING,
    Script,
    answer,
    chunk,
    connected,
    failure,
    new_session,
    prompted,
    session_of,
    settled,
    texts,
    told,
    user,
    while_,
)
from tests.transports.loops import cancelled_at, on_each_loop, until, walk

OPTION: dict[str, Any] = {"configId": "fast", "name": "Fast", "type": "boolean", "currentValue": False}
COMMAND: dict[str, Any] = {"type": "command", "name": "plan", "description": "Plan"}


def count_of(kind: type) -> int:
    """How many objects of a class there are."""
    return sum(type(one) is kind for one in gc.get_objects())


def option(value: bool) -> dict[str, Any]:
    """A config option with this value."""
    return {**OPTION, "currentValue": value}


def values(session: ClientSession) -> list[Any]:
    """The values of a session's config options."""
    return [one.current_value for one in session.config_options if isinstance(one, v2.SessionConfigBoolean)]


# --- set-up -----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_set_up_answer_says_only_what_no_update_has_said() -> None:
    """SS-08, SU-12: an empty list is said, too; and later updates replace."""
    async with connected() as (script, agent):
        nothing: Any = {"sessionUpdate": "config_option_update", "configOptions": []}
        commands = {"sessionUpdate": "available_commands_update", "availableCommands": [COMMAND]}

        async def play(*early: Any, late: tuple[Any, ...] = ()) -> None:
            request = await script.asked("session/new")
            session_id = f"s{request['id']}"
            result = {"sessionId": session_id, "configOptions": [OPTION], "availableCommands": []}
            lines = [told(one, session_id) for one in early], [told(one, session_id) for one in late]
            await script.send(*lines[0], answer(request, result), *lines[1])

        session = await while_(play(), agent.new_session(cwd="/"))
        assert values(session) == [False]
        session = await while_(play(nothing, commands), agent.new_session(cwd="/"))
        assert values(session) == []
        assert [one.tag for one in session.available_commands] == ["command"]
        session = await while_(play(late=(nothing, commands)), agent.new_session(cwd="/"))
        await settled(script)
        assert values(session) == []
        assert len(session.available_commands) == 1


@on_each_loop
async def test_an_agent_that_gives_an_id_away_twice_is_refused_and_the_first_session_stays() -> None:
    """SS-01."""
    async with session_of() as (script, session):
        with pytest.raises(DecodeError, match="SS-01"):
            await new_session(script, session.agent)
        assert session.agent.sessions == {"s": session}
        prompt = await prompted(script, session)
        await script.told(RUNNING, IDLE)
        assert await prompt.wait() == "end_turn"


@on_each_loop
async def test_making_sessions_may_be_cancelled_at_every_wait() -> None:
    """RC-01: then there is none, whatever the agent answers."""
    calls: list[Callable[[AgentConnection], Any]] = [
        lambda agent: agent.new_session(cwd="/"),
        lambda agent: agent.fork_session("x", cwd="/"),
        lambda agent: agent.resume_session("r", cwd="/", replay=True),
        lambda agent: agent.delete_session("x"),
        lambda agent: agent.archive_session("x"),
        lambda agent: agent.unarchive_session("x"),
        lambda agent: agent.session_status("x"),
        lambda agent: agent.auth_status(),
        lambda agent: agent.list_providers(),
        lambda agent: agent.disable_provider("x"),
        lambda agent: agent.initialize(),
        lambda agent: agent.login("web"),
        lambda agent: agent.logout(),
        lambda agent: wait(anext(agent.list_sessions(), None)),
        lambda agent: agent.request(v2.SESSION_STATUS, v2.SessionStatusRequest(session_id="x")),
    ]
    methods = [{"type": "agent", "methodId": "web", "name": "Web"}]

    async def answers(script: Script) -> None:
        number = 0
        while True:
            message = await script.receive_json()
            if "id" in message:
                number += 1
                result: Any = {
                    "sessionId": f"n{number}",
                    "status": "saved",
                    "state": "unknown",
                    "providers": [],
                    "sessions": [],
                }
                if message["method"] == "initialize":
                    result = {"protocolVersion": 2, "info": {"name": "x", "version": "1"}}
                await script.send(told(chunk("x"), f"n{number}"), answer(message, result))

    for call in calls:
        async with connected(auth_methods=methods) as (script, agent):
            running = asyncio.create_task(answers(script))

            async def attempt(number: int, call: Any = call, agent: AgentConnection = agent) -> bool:
                was_cancelled = await cancelled_at(number, call(agent))
                assert was_cancelled is (not agent.sessions) or call is not calls[0]
                if was_cancelled:
                    assert not agent.sessions
                return was_cancelled

            await walk(attempt)
            running.cancel()
            await asyncio.wait([running])


# --- resuming ---------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_session_is_resumed_in_its_own_directory_and_replayed_if_that_is_asked_for() -> None:
    """SS-10, SS-12, SS-18, ST-09, ST-10, X11."""
    async with connected() as (script, agent):
        with pytest.raises(UsageError, match="cwd"):
            await agent.resume_session("s")
        info = v2.SessionInfo(session_id="s", cwd="/own")

        async def play() -> None:
            request = await script.asked("session/resume")
            assert request["params"] == {"sessionId": "s", "cwd": "/own", "replayFrom": {"type": "start"}}
            await script.told(user("u0"), chunk("old"), RUNNING)
            await script.send(answer(request, {"configOptions": [OPTION]}))

        session = await while_(play(), agent.resume_session(info, replay=True))
        assert (session.cwd, session.additional_directories, values(session)) == ("/own", (), [False])
        assert session.is_busy, "a resume response by itself does not imply idle"
        assert session.transcript.text == "old"

        async def quietly() -> None:
            request = await script.asked("session/resume")
            assert request["params"] == {"sessionId": "t", "cwd": "/t"}
            await script.send(answer(request, {}))

        other = await while_(quietly(), agent.resume_session("t", cwd="/t"))
        assert other.state == v2.StateUpdate(state="unknown"), "nobody has said that it is idle"

    async with connected() as (script, agent):
        again = await while_(quietly(), agent.resume_session(other))
        assert again is not other, "that one is of a connection that is gone"


@on_each_loop
async def test_a_session_is_resumed_with_its_own_roots_unless_others_are_given() -> None:
    """SS-04, SS-18, SS-23: omission means none, so what is not sent would be lost; nothing is merged."""
    info = v2.SessionInfo(session_id="s", cwd="/own", additional_directories=["/a", "/b"])

    async def resumed(what: Any, on: tuple[Script, AgentConnection], **setup: Any) -> Any:
        script, agent = on
        resume = asyncio.create_task(agent.resume_session(what, **setup))
        request = await script.answered("session/resume", {})
        session = await resume
        sent = request["params"].get("additionalDirectories", [])
        assert session.additional_directories == tuple(sent)
        return session, sent

    async with connected() as on:
        session, sent = await resumed(info, on)
        assert sent == ["/a", "/b"]
        assert (await resumed("s", on))[1] == ["/a", "/b"], "it is known by its id"
        assert (await resumed(info, on, additional_directories=["/c"]))[1] == ["/c"]
        assert (await resumed(session, on))[1] == ["/c"]
        assert (await resumed(info, on, additional_directories=()))[1] == []
        assert (await resumed(session, on, additional_directories=["/d"]))[1] == ["/d"]
    async with connected() as on:
        assert (await resumed(session, on))[1] == ["/d"], "it is of an earlier connection"
        assert (await resumed("t", on, cwd="/"))[1] == []
    async with connected(capabilities={"session": {}}) as on:
        assert (await resumed(session, on))[1] == [], "IN-14: this agent takes none"


@on_each_loop
async def test_resuming_again_patches_what_is_known_and_doubles_nothing() -> None:
    """SS-19, SU-03: nor what this version does not know; the same object is taken up, with new directories."""
    async with session_of() as (script, session):
        unknown = {"sessionUpdate": "_acme/thing", "x": 1}
        await script.told(user("u0"), {**chunk("a"), "messageId": "m"}, unknown)
        await settled(script)
        changed = {"sessionUpdate": "config_option_update", "configOptions": [option(True)]}
        await script.told(changed)

        async def play() -> None:
            request = await script.asked("session/resume")
            whole = {
                "sessionUpdate": "agent_message",
                "messageId": "m",
                "content": [{"type": "text", "text": "ab"}],
            }
            await script.told(user("u0"), whole, unknown, IDLE)
            await script.send(answer(request, {"configOptions": [option(False)]}))
            await script.told(unknown)

        resume = session.agent.resume_session("s", replay=True, additional_directories=["/more"])
        again = await while_(play(), resume)
        await settled(script)
        assert again is session
        assert session.transcript.text == "ab"
        kinds = [entity.category for entity in session.transcript.timeline]
        assert kinds == ["user", "agent", "unknown", "unknown"], "the second came after the replay"
        assert session.additional_directories == ("/more",)
        assert values(session) == [False], "what was reported before the request counts less than the answer"


@pytest.mark.parametrize("as_snapshot", [False, True])
@on_each_loop
async def test_a_history_outlives_its_connection_and_a_replay_patches_it(as_snapshot: bool) -> None:
    """SS-19, ST-10: what a crash left is taken over, and nothing of it is doubled or lost."""
    unknown = {"sessionUpdate": "_acme/thing", "x": 1}
    call = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "in_progress"}
    options = {"sessionUpdate": "config_option_update", "configOptions": [OPTION]}
    async with session_of() as (script, session):
        await script.told(user("u0"), chunk("a", "m"), call, unknown, options, RUNNING)
        await settled(script)
        await session.cancel()
        await script.__aexit__(None, None, None)
    left = session.transcript.snapshot()
    history: Any = left if as_snapshot else session.transcript

    async with connected() as (script, agent):
        resuming = asyncio.create_task(agent.resume_session(session, replay=True, history=history))
        request = await script.asked("session/resume")
        again = agent.sessions["s"]
        assert again.transcript.timeline == left.timeline
        assert again.transcript.tool_calls["t"].display_status == "in_progress", "marks are not part of it"
        assert values(again) == [False]
        assert (again.transcript.state.value, again.is_busy) == ("unknown", False)
        whole = {"sessionUpdate": "agent_message", "messageId": "m", "content": [{"type": "text", "text": "ab"}]}
        ended = {**call, "status": "cancelled"}
        await script.told(user("u0"), whole, ended, unknown, user("u1"), IDLE)
        await script.send(answer(request, {"configOptions": [option(True)]}))
        assert await resuming is again
        kinds = [entity.category for entity in again.transcript.timeline]
        assert kinds == ["user", "agent", "tool_call", "unknown", "user"]
        assert again.transcript.messages["agent", "m"].text == "ab"
        assert again.transcript.tool_calls["t"].display_status == "cancelled"
        assert again.transcript.state.value == "idle"
        assert values(again) == [True]
        assert session.transcript.snapshot() == left
        with pytest.raises(UsageError, match="is open here"):
            await agent.resume_session(again, history=history)
    async with connected(transcript=False) as (script, agent):
        with pytest.raises(UsageError, match="none are kept"):
            await agent.resume_session(session, history=history)
        await script.expect_nothing()
        assert not agent.sessions


class Watches(Client):
    """Keeps the changes of transcripts, and which updates were told."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def changed(self, session: ClientSession, change: Change) -> Any:
        assert session.transcript is not None
        self.seen.append((session.id, *change[:3]))

    def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
        self.seen.append(texts([update])[0])


@on_each_loop
async def test_changes_of_a_transcript_are_told_also_those_that_no_update_tells() -> None:
    """PM-03, CA-02, CO-06, SA-03: in order, of children too."""
    watches = Watches()
    seen = watches.seen
    async with session_of(watches) as (script, session):
        await script.told(chunk("a"), chunk("b"))
        await script.told({"sessionUpdate": "subagent_update", "sessionId": "child"})
        await script.told(chunk("c"), session="child")
        await settled(script)
        assert seen == [
            ("s", "agent", "a1", "created"),
            "a",
            ("s", "agent", "a1", "appended"),
            "b",
            ("s", "subagent", "child", "created"),
            "subagent_update",
            ("child", "agent", "a1", "created"),
            "c",
        ]
        seen.clear()
        await script.permission(1, subject={"type": "tool_call", "toolCall": {"toolCallId": "t", "title": "rm"}})
        await script.answer_to(1)
        assert seen == [("s", "tool_call", "t", "created")]
        seen.clear()
        await session.cancel()
        await script.asked("session/cancel")
        assert seen == [("s", "tool_call", "t", "replaced")]
        seen.clear()
        changed = script.answered("session/set_config_option", {"configOptions": [OPTION]})
        await while_(changed, session.set_config_option("fast", True))
        assert seen == [("s", "config", "", "replaced")]
    async with session_of(Watches(), transcript=False) as (script, session):
        await script.told(chunk("a"))
        await settled(script)


@on_each_loop
async def test_a_watcher_of_changes_that_fails_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Watches):
        def changed(self, session: ClientSession, change: Change) -> None:
            raise RuntimeError("my own fault")

    fails = Fails()
    async with session_of(fails) as (script, session):
        calls = [{"sessionUpdate": "tool_call_update", "toolCallId": name} for name in "tu"]
        await script.told(*calls, chunk("a"))
        await settled(script)
        await session.cancel()
        await script.asked("session/cancel")
        assert [call.display_status for call in session.transcript.tool_calls.values()] == ["cancelled"] * 2
        assert (await while_(asked_and_ended(script), session.ask("hi"))).text == "x"
        assert session.transcript.text == "x"
        assert fails.seen[:3] == ["tool_call_update", "tool_call_update", "a"]
    assert "changed, a callback of the client, failed" in caplog.text
    assert caplog.text.count("Traceback") == 1


async def asked_and_ended(script: Script) -> None:
    """Accept a prompt, and answer it with an x."""
    request = await script.asked("session/prompt")
    await script.send(told(user("u1")), answer(request, {"messageId": "u1"}))
    await script.told(RUNNING, chunk("x", "a2"), IDLE)


@on_each_loop
async def test_a_watcher_of_changes_that_waits_delays_what_follows() -> None:
    class Slow(Watches):
        async def changed(self, session: ClientSession, change: Change) -> None:
            await asyncio.sleep(0)
            self.seen.append(change.what)

    slow = Slow()
    async with session_of(slow) as (script, _):
        await script.told(chunk("a"), chunk("b"))
        await settled(script)
        await until(lambda: len(slow.seen) == 4)
        assert slow.seen == ["created", "a", "appended", "b"]


@on_each_loop
async def test_a_resume_that_fails_leaves_no_session_and_a_known_one_as_it_was() -> None:
    async with session_of() as (script, session):
        agent = session.agent
        with pytest.raises(SessionNotFound):
            await while_(script.refused("session/resume", -32002, sessionId="x"), agent.resume_session("x", cwd="/"))
        assert list(agent.sessions) == ["s"]
        with pytest.raises(RequestError):
            await while_(script.refused("session/resume", -32602), agent.resume_session("s", cwd="/other"))
        assert agent.sessions == {"s": session}
        assert session.cwd == "/work"


def requests(session: ClientSession) -> list[Any]:
    """One of each kind that needs a session which is set up; none of them is awaited yet."""
    return [
        session.prompt("early"),
        session.ask("early"),
        session.set_config_option("fast", True),
        session.cancel_tool_call("t"),
        session.cancel_terminal("t"),
    ]


@pytest.mark.parametrize("outcome", ["success", "failure", "cancelled"])
@on_each_loop
async def test_a_session_is_of_no_use_until_it_is_resumed_nor_where_that_fails(outcome: str) -> None:
    """PL-03: its updates are told during the replay, and there it may be found; nothing goes out."""
    seen: list[str] = []

    class Sees(Client):
        def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
            seen.append(session.id)

    async with connected(Sees()) as (script, agent):
        resuming = asyncio.create_task(agent.resume_session("r", cwd="/", replay=True))
        request = await script.asked("session/resume")
        await script.told(user("u0"), chunk("old"), session="r")
        await settled(script)
        session = agent.sessions["r"]
        assert seen == ["r", "r"]
        for asking in requests(session):
            with pytest.raises(UsageError, match="PL-03"):
                await asking
        await script.expect_nothing()
        if outcome == "success":
            await script.told(IDLE, session="r")
            await script.send(answer(request, {}))
            assert await resuming is session
            await prompted(script, session)
            return
        if outcome == "failure":
            await script.send(failure(request, -32602))
            with pytest.raises(RequestError):
                await resuming
        else:
            resuming.cancel()
            await asyncio.wait([resuming])
            await script.asked("$/cancel_request")
        for asking in requests(session):
            with pytest.raises(UsageError, match="resume it first"):
                await asking
        await session.cancel()
        await session.close()
        await script.expect_nothing()


@on_each_loop
async def test_a_session_that_is_open_is_of_use_while_it_is_resumed_again() -> None:
    """PL-03 is of the first prompt; a resume that fails leaves it as it was."""
    async with session_of() as (script, session):
        resuming = asyncio.create_task(session.agent.resume_session(session))
        request = await script.asked("session/resume")
        prompt = await prompted(script, session)
        await script.send(failure(request, -32603))
        with pytest.raises(RequestError):
            await resuming
        await script.told(RUNNING, IDLE)
        assert await prompt.wait() == "end_turn"


@on_each_loop
async def test_a_session_that_was_closed_asks_for_nothing_any_more() -> None:
    """CA-01, CA-12, SS-25: cancelling and closing it is nothing to do; its id may be another's by now."""
    async with session_of() as (script, session):
        await while_(script.answered("session/close", {}), session.close())
        await while_(script.answered("session/resume", {}), session.agent.resume_session(session))
        for asking in requests(session):
            with pytest.raises(UsageError, match="resume it first"):
                await asking
        await session.cancel()
        await session.close()
        await script.expect_nothing()
        assert list(session.agent.sessions) == ["s"]


@on_each_loop
async def test_a_session_is_not_resumed_twice_at_once() -> None:
    async with connected() as (script, agent):
        one = asyncio.create_task(agent.resume_session("s", cwd="/"))
        request = await script.asked("session/resume")
        with pytest.raises(UsageError, match="already"):
            await agent.resume_session("s", cwd="/")
        await script.send(answer(request, {}))
        session = await one
        await while_(script.answered("session/resume", {}), agent.resume_session("s"))
        assert agent.sessions == {"s": session}


# --- listing and ending -----------------------------------------------------------------------------------------------


@on_each_loop
async def test_all_pages_of_sessions_are_iterated_as_they_come() -> None:
    """SS-20, SS-21, SS-23: an empty cursor is one; null ends."""
    async with connected() as (script, agent):
        pages: list[tuple[Any, Any]] = [(None, ""), ("", "2"), ("2", None)]

        async def play() -> None:
            for number, (cursor, following) in enumerate(pages):
                request = await script.asked("session/list")
                wanted = {"cwd": "/a", "archived": "only"}
                assert request["params"] == (wanted if cursor is None else {**wanted, "cursor": cursor})
                info = {"sessionId": f"s{number}", "cwd": "/a"}
                sessions = [] if number == 1 else [info]
                await script.send(answer(request, {"sessions": sessions, "nextCursor": following}))

        async def read() -> list[str]:
            return [one.session_id async for one in agent.list_sessions(cwd="/a", archived="only")]

        assert await while_(play(), read()) == ["s0", "s2"]
        assert not agent.sessions

        first = anext(agent.list_sessions())
        page = script.answered("session/list", {"sessions": [{"sessionId": "s", "cwd": "/"}], "nextCursor": "more"})
        assert (await while_(page, wait(first))).session_id == "s"
        await script.expect_nothing()


async def wait(awaitable: Any) -> Any:
    """What comes of it."""
    return await awaitable


@pytest.mark.parametrize("outcome", ["success", "not found"])
@pytest.mark.parametrize("how", ["close", "delete"])
@on_each_loop
async def test_closing_and_deleting_what_is_not_there_is_fine(how: str, outcome: str) -> None:
    """SS-25, SS-26, SS-27, X14: the session is over, its streams end."""
    async with session_of() as (script, session):
        agent = session.agent
        stream, updates = session.stream(), session.updates()
        ends = session.close() if how == "close" else agent.delete_session(session)
        method = f"session/{how}"
        does = script.answered(method, {}) if outcome == "success" else script.refused(method, -32002, sessionId="s")
        await while_(does, ends)
        assert not agent.sessions
        assert [one async for one in stream] == [one async for one in updates] == []
        assert [one async for one in session.stream()] == []


@on_each_loop
async def test_a_close_that_is_refused_leaves_the_session() -> None:
    async with session_of() as (script, session):
        with pytest.raises(RequestError):
            await while_(script.refused("session/close", -32603), session.close())
        await script.told(chunk("still here"))
        await settled(script)
        assert session.agent.sessions == {"s": session}
        assert session.transcript.text == "still here"


@on_each_loop
async def test_archiving_closes_and_unarchiving_does_not_resume() -> None:
    """UN-02."""
    async with session_of() as (script, session):
        agent = session.agent
        await while_(script.answered("session/archive", {}), agent.archive_session("s"))
        assert not agent.sessions
        await while_(script.answered("session/unarchive", {}), agent.unarchive_session("s"))
        assert not agent.sessions
        with pytest.raises(RequestError):
            await while_(script.refused("session/archive", -32002), agent.archive_session("s"))


@on_each_loop
async def test_a_fork_is_a_session_of_its_own() -> None:
    """UN-01."""
    async with session_of() as (script, session):
        fork = session.agent.fork_session(session, cwd="/fork", additional_directories=["/a"])
        made = script.answered("session/fork", {"sessionId": "f", "configOptions": [OPTION]})
        request, forked = await asyncio.gather(made, fork)
        assert request["params"] == {"sessionId": "s", "cwd": "/fork", "additionalDirectories": ["/a"]}
        assert (forked.id, forked.cwd, forked.parent, values(forked)) == ("f", "/fork", None, [False])
        await script.told(chunk("x"), session="f")
        await settled(script)
        assert forked.transcript.text == "x"


ABOUT: dict[str, Callable[[ClientSession], Any]] = {
    "session/prompt": lambda session: session.prompt("x"),
    "session/set_title": lambda session: session.set_title("x"),
    "session/set_config_option": lambda session: session.set_config_option("x", "y"),
    "tool_call/cancel": lambda session: session.cancel_tool_call("t"),
    "session/resume": lambda session: session.agent.resume_session(session),
    "session/fork": lambda session: session.agent.fork_session(session, cwd="/"),
    "session/archive": lambda session: session.agent.archive_session(session),
    "session/unarchive": lambda session: session.agent.unarchive_session(session),
    "session/status": lambda session: session.agent.session_status(session),
}


@pytest.mark.parametrize("method", ABOUT)
@on_each_loop
async def test_a_session_that_is_not_found_is_named_though_the_agent_does_not(method: str) -> None:
    """SS-28: what an error without data can only mean; not where it says that something else was not found."""
    async with session_of(transcript=False) as (script, session):
        with pytest.raises(SessionNotFound, match="gone") as raised:
            await while_(script.refused(method, -32002, message="gone"), ABOUT[method](session))
        assert raised.value.session_id == "s"
        assert isinstance(raised.value.__cause__, RequestError)
        with pytest.raises(RequestError) as other:
            await while_(script.refused(method, -32002, uri="file:///a"), ABOUT[method](session))
        assert not isinstance(other.value, SessionNotFound)
        with pytest.raises(RequestError) as other:
            await while_(script.refused(method, -32603), ABOUT[method](session))
        assert not isinstance(other.value, SessionNotFound)


@on_each_loop
async def test_a_session_that_is_over_is_not_held() -> None:
    async with session_of() as (script, session):
        agent = session.agent
        prompt = await prompted(script, session)
        await script.told(
            RUNNING, chunk("x"), {"sessionUpdate": "subagent_update", "sessionId": "child", "title": "Child"}, IDLE
        )
        await prompt.wait()
        await while_(script.answered("session/close", {}), session.close())
        held = weakref.ref(session), weakref.ref(agent)
        del session, prompt
        await settled(script)
        gc.collect()
        assert held[0]() is None
        assert not agent.sessions


# --- title and options ------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_title_is_what_the_agent_stored() -> None:
    """UN-04."""
    async with session_of() as (script, session):
        stored = script.answered("session/set_title", {"title": "Short"})
        assert await while_(stored, session.set_title("A long one")) == "Short"
    async with connected(capabilities={"session": {}}) as (script, agent):
        session = await new_session(script, agent)
        with pytest.raises(UsageError, match=r"session\.title"):
            await session.set_title("x")
        await script.expect_nothing()


def saved(session: ClientSession) -> list[tuple[Any, Any]]:
    """Options and commands of a session, as they are in what its transcript saves; None where nothing is."""
    again = acpwire.Transcript.load(session.transcript.save())
    return [(session.config_options, again.config), (session.available_commands, again.commands)]


@on_each_loop
async def test_what_answers_say_of_options_and_commands_is_in_the_transcript() -> None:
    """CO-06, SS-08, SU-12: one truth, whoever said it last; none where nobody did."""
    async with session_of() as (script, session):
        assert saved(session) == [((), None), ((), None)]
        made = script.answered(
            "session/new", {"sessionId": "t", "configOptions": [OPTION], "availableCommands": [COMMAND]}
        )
        other = await while_(made, session.agent.new_session(cwd="/"))
        for said, kept in saved(other):
            assert len(said) == 1
            assert tuple(said) == kept
        assert other.transcript.config == tuple(other.config_options)
        changed = script.answered("session/set_config_option", {"configOptions": [option(True)]})
        await while_(changed, other.set_config_option("fast", True))
        assert values(other) == [True]
        assert saved(other)[0] == (other.config_options, tuple(other.config_options))
        await script.told({"sessionUpdate": "config_option_update", "configOptions": [option(False)]}, session="t")
        await settled(script)
        assert values(other) == [False]
        assert saved(other)[0] == (other.config_options, tuple(other.config_options))
        await while_(script.answered("session/resume", {}), session.agent.resume_session(other))
        assert saved(other) == [((), ()), ((), ())], "an answer without them says that there are none"


@on_each_loop
async def test_options_and_commands_are_known_without_a_transcript() -> None:
    """CO-06, SS-08."""
    async with connected(transcript=False) as (script, agent):
        result = {"sessionId": "s", "configOptions": [OPTION], "availableCommands": [COMMAND]}
        session = await while_(script.answered("session/new", result), agent.new_session(cwd="/"))
        assert (values(session), len(session.available_commands)) == ([False], 1)
        changed = script.answered("session/set_config_option", {"configOptions": [option(True)]})
        await while_(changed, session.set_config_option("fast", True))
        assert values(session) == [True]
        await script.told(
            {"sessionUpdate": "config_option_update", "configOptions": []},
            {"sessionUpdate": "available_commands_update", "availableCommands": []},
        )
        await settled(script)
        assert (values(session), len(session.available_commands)) == ([], 0)


@pytest.mark.parametrize(("value", "kind"), [(True, "boolean"), (False, "boolean"), ("large", "id")])
@on_each_loop
async def test_an_option_is_set_by_its_kind_and_all_options_are_as_the_answer_says(value: Any, kind: str) -> None:
    """CO-04, CO-06; a later update replaces them, although it is in the same block."""
    async with session_of() as (script, session):

        async def play() -> None:
            request = await script.asked("session/set_config_option")
            assert request["params"] == {"sessionId": "s", "configId": "fast", "type": kind, "value": value}
            later: Any = {"sessionUpdate": "config_option_update", "configOptions": []}
            await script.send(answer(request, {"configOptions": [option(True)]}), told(later))

        found = await while_(play(), session.set_config_option("fast", value))
        assert len(found) == 1
        await settled(script)
        assert values(session) == []


@pytest.mark.parametrize("value", [3, 1.0, None, b"x", ["x"]])
@on_each_loop
async def test_an_option_is_set_to_no_other_kind_of_value(value: Any) -> None:
    """CO-04: it would be no request that an agent could read."""
    async with session_of() as (script, session):
        with pytest.raises(UsageError, match=f"CO-04.*{type(value).__name__}"):
            await session.set_config_option("fast", value)
        await script.expect_nothing()


@on_each_loop
async def test_options_keep_their_order_and_what_is_not_known_of_them() -> None:
    """CO-07, CO-09, CM-03: so do commands."""
    async with session_of() as (script, session):
        odd = {"configId": "odd", "name": "Odd", "type": "_dial", "currentValue": 3}
        command = {"type": "_macro", "name": "m", "description": "M", "keys": "x"}
        await script.told(
            {"sessionUpdate": "config_option_update", "configOptions": [odd, OPTION]},
            {"sessionUpdate": "available_commands_update", "availableCommands": [command, COMMAND]},
        )
        await settled(script)
        assert [one.tag for one in session.config_options] == ["_dial", "boolean"]
        assert [one.tag for one in session.available_commands] == ["_macro", "command"]
        unknown = session.config_options[0]
        assert isinstance(unknown, v2.UnknownVariant)
        assert unknown.data == odd
        accepted = script.answered("session/prompt", {"messageId": "u1"})
        request, _ = await asyncio.gather(accepted, session.prompt("/plan all of it"))  # CM-05
        assert request["params"]["prompt"] == [{"type": "text", "text": "/plan all of it"}]


@on_each_loop
async def test_what_an_agent_says_of_a_session_moves_it_nowhere() -> None:
    """SS-24: its title is in the transcript, its directory is what it was made with."""
    async with session_of() as (script, session):
        await script.told({"sessionUpdate": "session_info_update", "title": "T", "cwd": "/elsewhere"})
        await settled(script)
        assert session.cwd == "/work"
        assert session.transcript.info["title"] == "T"


# --- streams ----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_stream_never_ends_and_updates_end_with_the_newest_prompts_work() -> None:
    """From the call on; each reader has all."""
    async with session_of() as (script, session):
        await script.told(chunk("before"))
        await settled(script)
        stream, updates, batches = session.stream(), session.updates(), session.batches()
        await script.told(RUNNING, chunk("of the agent"), IDLE)
        await settled(script)
        assert not updates.is_done, "no prompt's work has ended"
        await prompted(script, session)
        await script.told(RUNNING, chunk("x"), IDLE, chunk("after"))
        await settled(script)
        seen = texts([update async for update in updates])
        assert seen == ["running", "of the agent", "idle", "user_message", "running", "x", "idle"]
        assert not stream.is_done
        assert texts([await anext(stream) for _ in range(8)]) == [*seen, "after"]
        assert texts(await anext(batches)) == [*seen, "after"]
        later = session.updates()
        await script.told(RUNNING, IDLE)
        await settled(script)
        assert not later.is_done


@given(
    st.lists(
        st.tuples(st.sampled_from(["open", "told", "told", "read", "batch", "close", "drop"]), st.integers(0, 4)),
        max_size=60,
    )
)
def test_each_stream_has_what_came_while_it_was_open(turns: list[tuple[str, int]]) -> None:
    """However many there are at a time, and whatever becomes of the others."""

    async def run() -> None:
        async with connected() as (script, agent):
            session = await new_session(script, agent)
            streams: list[tuple[Stream[Any], list[int]]] = []
            told = 0
            for turn, which in turns:
                if turn == "open":
                    streams.append((session.stream(), []))
                elif turn == "told":
                    told += 1
                    session.deliver(
                        v2.AgentMessageChunk(message_id=str(told), content=v2.TextContent(text="x")), 100 + told
                    )
                    for _, due in streams:
                        due.append(told)
                elif which < len(streams):
                    stream, due = streams[which]
                    if turn in {"close", "drop"}:
                        del streams[which]
                        if turn == "close":
                            stream.close()
                        del stream
                    elif due:
                        read = [await anext(stream)] if turn == "read" else await anext(stream.batches())
                        assert [int(update.message_id) for update in read] == due[: len(read)]
                        del due[: len(read)]
            for stream, due in streams:
                assert len(stream) == len(due)
                assert not due or [int(update.message_id) for update in await anext(stream.batches())] == due

    asyncio.run(run())


@on_each_loop
async def test_streams_that_are_dropped_or_closed_hold_nothing() -> None:
    """Without an open stream nothing is queued."""
    async with session_of(limits=Limits(stream=10_000, grace=5)) as (script, session):
        feeds = count_of(Feed)
        for opens in (session.stream, session.updates):
            stream = opens()
            held = weakref.ref(stream)
            await script.told(chunk("x"))
            await settled(script)
            del stream
            gc.collect()
            assert held() is None
            await script.told(chunk("x"))
            await settled(script)
            assert count_of(Feed) == feeds, "the session has forgotten it"
        batches = session.batches()
        closed = session.stream()
        closed.close()
        await script.told(chunk("y"))
        await settled(script)
        assert len(closed) == 0
        assert texts(await anext(batches)) == ["y"]
        del batches
        gc.collect()
        await script.told(*(chunk("z" * 100) for _ in range(200)))
        await settled(script)


@on_each_loop
async def test_a_stream_that_is_read_pauses_and_one_that_is_not_overflows_alone() -> None:
    """S-BP-01: nothing is lost for whoever reads, and the transcript is whole."""
    async with session_of(limits=Limits(stream=200_000, grace=5)) as (script, session):
        idle, read = session.stream(), session.stream()
        count = 10 * HIGH

        async def send() -> None:
            for number in range(0, count, 100):
                await script.told(*(chunk(str(one)) for one in range(number, number + 100)))

        sending = asyncio.create_task(send())
        seen: list[str] = []
        for _ in range(count):
            seen += texts([await anext(read)])
            assert len(read) < 3 * HIGH
        assert seen == [str(number) for number in range(count)]
        await sending
        with pytest.raises(StreamOverflow):
            [one async for one in idle]
        read.close()
        assert session.transcript.text == "".join(seen)


@on_each_loop
async def test_a_full_stream_of_one_session_does_not_stop_requests_of_another() -> None:
    """S-BP-01, SS-29."""
    async with session_of() as (script, session):
        stream = session.stream()
        await script.told(chunk("first"))
        await anext(stream)
        await script.told(*(chunk("x") for _ in range(2 * HIGH)))
        made = asyncio.create_task(session.agent.new_session(cwd="/"))
        request = await script.asked("session/new")
        await script.send(*(told(chunk("y")) for _ in range(HIGH)), answer(request, {"sessionId": "other"}))
        assert (await made).id == "other"
        assert len(stream) == 3 * HIGH
        stream.close()


@on_each_loop
async def test_without_transcripts_everything_else_is_the_same() -> None:
    """`transcript=False`: prompts, asking, streams, children, cancelling."""
    async with session_of(transcript=False) as (script, session):
        with pytest.raises(UsageError, match="transcript=False"):
            _ = session.transcript

        async def play() -> None:
            request = await script.asked("session/prompt")
            await script.send(told(user("u1")), answer(request, {"messageId": "u1"}))
            child = {"sessionUpdate": "subagent_update", "sessionId": "child"}
            await script.told(RUNNING, child, chunk("x"), IDLE)

        assert (await while_(play(), session.ask("hi"))).text == "x"
        assert session.children["child"].kept is None
        await session.cancel()
        await script.asked("session/cancel")
        await while_(script.answered("tool_call/cancel", {}), session.cancel_tool_call("t"))
        await while_(script.answered("terminal/cancel", {}), session.cancel_terminal("t"))
        await script.permission(1, subject={"type": "tool_call", "toolCall": {"toolCallId": "t"}})
        await script.answer_to(1)


# --- what may be in a prompt ------------------------------------------------------------------------------------------

BLOCKS: dict[str, Any] = {
    "image": v2.ImageContent(data="aGk=", mime_type="image/png"),
    "audio": v2.AudioContent(data="aGk=", mime_type="audio/wav"),
    "embeddedContext": v2.EmbeddedResource(resource=v2.TextResourceContents(uri="file:///a", text="hi")),
}


@pytest.mark.parametrize("capability", BLOCKS)
@on_each_loop
async def test_a_block_that_the_agent_does_not_take_is_not_sent_unless_that_is_wanted(capability: str) -> None:
    """PL-04: text and links always are."""
    block = BLOCKS[capability]
    async with connected(capabilities={"session": {"prompt": {}}}) as (script, agent):
        session = await new_session(script, agent)
        with pytest.raises(UsageError, match=rf"session\.prompt\.{capability}"):
            await session.prompt("look:", block)
        await script.expect_nothing()
        link = v2.ResourceLink(name="a", uri="file:///a")
        accepted = script.answered("session/prompt", {"messageId": "u1"})
        request, _ = await asyncio.gather(accepted, session.prompt("look:", link, block, check=False))
        assert [one["type"] for one in request["params"]["prompt"]] == ["text", "resource_link", block.tag]
    async with session_of() as (script, session):
        await while_(script.answered("session/prompt", {"messageId": "u1"}), session.prompt(block))


@on_each_loop
async def test_an_empty_prompt_and_a_block_that_no_agent_can_announce_are_not_sent() -> None:
    """PL-05, PL-04."""
    async with session_of() as (script, session):
        with pytest.raises(UsageError, match="PL-05"):
            await session.prompt()
        custom = v2.UnknownVariant("_acme/block", b'{"type":"_acme/block"}')
        with pytest.raises(UsageError, match="PL-04"):
            await session.prompt(custom)
        await script.expect_nothing()
        accepted = script.answered("session/prompt", {"messageId": "u1"})
        request, _ = await asyncio.gather(accepted, session.prompt(custom, check=False))
        assert request["params"]["prompt"] == [{"type": "_acme/block"}]


@pytest.mark.parametrize(
    "content",
    [
        (42,),
        (None,),
        ("hi", 4.5),
        (["hi", {"type": "text", "text": "hi"}],),
        (b"hi",),
        (v2.Notice(severity="info", title="x"),),
    ],
)
@on_each_loop
async def test_what_is_no_content_is_refused_by_its_type_and_nothing_is_sent(content: Any) -> None:
    culprit = content[-1][-1] if isinstance(content[-1], list) else content[-1]
    expected = f"a prompt is a str, a content block or a list of these, not {type(culprit).__name__}"
    async with session_of() as (script, session):
        for action in (session.prompt(*content), session.prompt(*content, check=False), session.ask(*content)):
            with pytest.raises(UsageError) as raised:
                await action
            assert str(raised.value) == expected
        await script.expect_nothing()


@on_each_loop
async def test_content_may_come_one_by_one_or_in_lists() -> None:
    link = v2.ResourceLink(uri="file:///a", name="a")
    async with session_of() as (script, session):
        accepted = script.answered("session/prompt", {"messageId": "u1"})
        request, _ = await asyncio.gather(accepted, session.prompt(["look:", link], "and", (link,)))
        assert [one["type"] for one in request["params"]["prompt"]] == ["text", "resource_link"] * 2
        with pytest.raises(UsageError, match="PL-05"):
            await session.prompt([])


# --- state ------------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_state_is_what_was_said_last_and_busy_unless_it_is_known_to_be_idle() -> None:
    """ST-07, ST-12, ST-13, ST-14."""
    async with session_of() as (script, session):
        assert (session.state, session.is_busy) == (v2.StateUpdate(state="idle"), False)
        for state, busy in (
            ("unknown", False),
            ("running", True),
            ("requires_action", True),
            ("unknown", True),
            ("idle", False),
            ("_dreaming", True),
            ("idle", False),
        ):
            await script.told({"sessionUpdate": "state_update", "state": state})
            await settled(script)
            if isinstance(session.state, v2.UnknownVariant):
                assert session.state.data["state"] == state
            else:
                assert session.state.state == state
            assert session.is_busy is busy


@on_each_loop
async def test_a_state_that_is_lost_resolves_no_question() -> None:
    """ST-13."""
    asking = asyncio.Event()

    class Waits(Client):
        async def request_permission(self, session: ClientSession, request: v2.RequestPermissionRequest) -> str:
            asking.set()
            await decided.wait()
            return "yes"

    decided = asyncio.Event()
    async with session_of(Waits()) as (script, _):
        await script.permission(1)
        await asking.wait()
        await script.told(RUNNING, {"sessionUpdate": "state_update", "state": "unknown"})
        await script.expect_nothing()
        decided.set()
        assert (await script.answer_to(1))["outcome"]["optionId"] == "yes"


# --- cancelling -------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_cancelling_marks_unfinished_tool_calls_at_once_and_what_is_said_later_counts() -> None:
    """CA-01, CA-02, CA-08, TC-20; twice is harmless, and other sessions are not touched (S-CA-01)."""
    async with session_of() as (script, session):
        other = await new_session(script, session.agent, "other")
        calls = [
            {"sessionUpdate": "tool_call_update", "toolCallId": status, "status": status}
            for status in ("pending", "in_progress", "paused", "completed", "failed", "_new")
        ]
        prompt = await prompted(script, session)
        await script.told(RUNNING, *calls)
        await script.told(calls[0], session="other")
        await settled(script)
        await session.cancel()
        shown = {name: call.display_status for name, call in session.transcript.tool_calls.items()}
        assert shown == {
            **dict.fromkeys(("pending", "in_progress", "paused", "_new"), "cancelled"),
            "completed": "completed",
            "failed": "failed",
        }
        assert other.transcript.tool_calls["pending"].display_status == "pending"
        assert (await script.asked("session/cancel"))["params"] == {"sessionId": "s"}
        await session.cancel()
        await script.asked("session/cancel")
        finished = {"sessionUpdate": "tool_call_update", "toolCallId": "pending", "status": "completed"}
        await script.told(finished, {**IDLE, "stopReason": "cancelled"})
        assert await prompt.wait() == "cancelled"
        assert session.transcript.tool_calls["pending"].display_status == "completed"
        await script.expect_nothing()


@on_each_loop
async def test_cancelling_marks_no_work_that_goes_on_in_the_background() -> None:
    """CA-02, CA-10, BG-01, BG-03: a process is listed as its terminal alone; the list that was reported last counts."""
    async with session_of() as (script, session):
        prompt = await prompted(script, session)
        shows = [{"type": "terminal", "terminalId": "p"}]
        calls: list[Any] = [
            {"sessionUpdate": "tool_call_update", "toolCallId": name, "status": "in_progress", **members}
            for name, members in {"watch": {}, "server": {"content": shows}, "read": {}, "later": {}}.items()
        ]
        listed = [{"type": "tool_call", "toolCallId": "watch"}, {"type": "terminal", "terminalId": "p"}]
        await script.told(RUNNING, *calls[:2], {**IDLE, "background": [*listed, {"type": "_else", "x": 1}]})
        await prompt.wait()
        await prompted(script, session, "u2")
        await script.told(RUNNING, *calls[2:3])
        await settled(script)
        await session.cancel()
        await script.asked("session/cancel")

        def marked() -> list[str]:
            calls = session.transcript.tool_calls.items()
            return [name for name, call in calls if call.display_status == "cancelled"]

        assert marked() == ["read"]
        await script.told({**RUNNING, "background": listed[:1]}, calls[3])
        await settled(script)
        await session.cancel()
        await script.asked("session/cancel")
        assert marked() == ["server", "read", "later"]
        await script.told({**RUNNING, "background": []})
        await settled(script)
        await session.cancel()
        assert marked() == ["watch", "server", "read", "later"]


@on_each_loop
async def test_cancelling_before_the_acceptance_has_the_held_prompt_refused() -> None:
    """PL-28, S-CA-01: or accepted, if it was inserted; a prompt that is sent later is not touched (PL-29)."""
    async with session_of() as (script, session):
        held = asyncio.create_task(session.prompt("held"))
        request = await script.asked("session/prompt")
        await session.cancel()
        await script.asked("session/cancel")
        await script.send(failure(request, -32800))
        with pytest.raises(RequestError):
            await held
        inserted = asyncio.create_task(session.prompt("inserted"))
        request = await script.asked("session/prompt")
        await session.cancel()
        await script.asked("session/cancel")
        cancelled = {**IDLE, "stopReason": "cancelled"}
        await script.send(told(RUNNING), told(user("u1")), told(cancelled), answer(request, {"messageId": "u1"}))
        prompt = await inserted
        assert await prompt.wait() == "cancelled"
        later = await prompted(script, session, "u2")
        await script.told(RUNNING, IDLE)
        assert await later.wait() == "end_turn"


@pytest.mark.parametrize(("kind", "requirement"), [("tool_call", "TC-18"), ("terminal", "TM-11")])
@on_each_loop
async def test_a_tool_call_or_terminal_is_cancelled_only_while_the_agent_lets_it(kind: str, requirement: str) -> None:
    """TC-17, TC-18, TM-11: null takes it back."""
    key = "toolCallId" if kind == "tool_call" else "terminalId"

    async with session_of() as (script, session):
        cancel = session.cancel_tool_call if kind == "tool_call" else session.cancel_terminal

        async def says(**members: Any) -> None:
            await script.told({"sessionUpdate": f"{kind}_update", key: "t", **members})
            await settled(script)

        with pytest.raises(UsageError, match=requirement):
            await cancel("t")
        await says()
        with pytest.raises(UsageError, match=requirement):
            await cancel("t")
        await says(capabilities={"cancel": {}})
        with pytest.raises(RequestError):
            await while_(script.refused(f"{kind}/cancel", -32602), cancel("t"))
        await says(capabilities=None)
        with pytest.raises(UsageError, match=requirement):
            await cancel("t")
        await says(capabilities={"cancel": {}})
        request, _ = await asyncio.gather(script.answered(f"{kind}/cancel", {}), cancel("t"))
        assert request["params"] == {"sessionId": "s", key: "t"}
        await script.expect_nothing()


@pytest.mark.parametrize("kind", ["tool_call", "terminal"])
@on_each_loop
async def test_a_tool_call_or_terminal_that_ends_as_it_is_cancelled_is_no_error(kind: str) -> None:
    """TC-18, TC-19, TM-11: whichever comes first, and however often it is asked for."""
    key = "toolCallId" if kind == "tool_call" else "terminalId"
    final: dict[str, Any] = {"status": "completed"} if kind == "tool_call" else {"exitStatus": {"exitCode": 0}}

    async with session_of() as (script, session):
        cancel = session.cancel_tool_call if kind == "tool_call" else session.cancel_terminal

        async def says(name: str, **members: Any) -> None:
            await script.told({"sessionUpdate": f"{kind}_update", key: name, **members})

        for name in ("asked", "raced", "was final", "gone on"):
            await says(name, capabilities={"cancel": {}})
        await says("was final", **final)
        await settled(script)
        await cancel("was final")
        await script.expect_nothing()

        await while_(script.answered(f"{kind}/cancel", {}), cancel("asked"))
        await cancel("asked")
        await script.expect_nothing()

        async def race() -> None:
            request = await script.asked(f"{kind}/cancel")
            await says("raced", **final)
            await script.send(failure(request, -32602))

        await while_(race(), cancel("raced"))

        for code in (-32602, -32603):  # it goes on, and may be asked again
            with pytest.raises(RequestError) as raised:
                await while_(script.refused(f"{kind}/cancel", code), cancel("gone on"))
            assert raised.value.code == code
        await session.cancel()  # of the foreground work, which it may not belong to (CA-10)
        await script.asked("session/cancel")
        await while_(script.answered(f"{kind}/cancel", {}), cancel("gone on"))


# --- children ---------------------------------------------------------------------------------------------------------


def announced(session_id: str = "child", **members: Any) -> dict[str, Any]:
    """What a parent is told of a child."""
    return {"sessionUpdate": "subagent_update", "sessionId": session_id, **members}


class Family(Client):
    """Keeps which children came, and whose updates, in order."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def child_session(self, session: ClientSession) -> None:
        assert session.parent is not None
        self.seen.append(f"{session.parent.id} has {session.id}")

    def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
        self.seen.append(f"{session.id}: {texts([update])[0]}")


@on_each_loop
async def test_a_child_is_registered_when_it_is_announced_and_speaks_for_itself() -> None:
    """SA-02, SA-03, SA-07, SM-02: children of children, too, all in one block; once each."""
    client = Family()
    async with session_of(client) as (script, session):
        await script.send(
            told(announced(title="Child")),
            told(chunk("of the child"), "child"),
            told(announced("grandchild"), "child"),
            told(chunk("of the grandchild"), "grandchild"),
            told(announced(title="Renamed")),
            told(IDLE, "child"),
            told(chunk("again"), "child"),
        )
        await settled(script)
        assert client.seen == [
            "s has child",
            "s: subagent_update",
            "child: of the child",
            "child has grandchild",
            "child: subagent_update",
            "grandchild: of the grandchild",
            "s: subagent_update",
            "child: idle",
            "child: again",
        ]
        child = session.children["child"]
        assert child.parent is session
        assert session.agent.sessions == {"s": session, "child": child, "grandchild": child.children["grandchild"]}
        assert child.transcript.text == "of the childagain"
        assert session.transcript.subagents["child"].title == "Renamed"


@on_each_loop
async def test_a_child_has_its_parents_directories_unless_it_is_given_its_own() -> None:
    """SA-05: independently; an empty list is none, and null takes it back."""
    async with connected() as (script, agent):
        session = await new_session(script, agent, additional_directories=["/a"])

        async def says(session_id: str = "child", parent: str = "s", **members: Any) -> ClientSession:
            await script.told(announced(session_id, **members), session=parent)
            await settled(script)
            return agent.sessions[session_id]

        child = await says()
        assert (child.cwd, child.additional_directories) == ("/work", ("/a",))
        await says(cwd="/own")
        assert (child.cwd, child.additional_directories) == ("/own", ("/a",))
        assert (child.transcript.cwd, child.transcript.additional_directories) == ("/own", ("/a",))
        grandchild = await says("grandchild", "child", additionalDirectories=[])
        assert (grandchild.cwd, tuple(grandchild.additional_directories)) == ("/own", ())
        await says(cwd=None, additionalDirectories=["/b"])
        assert (child.cwd, tuple(child.additional_directories)) == ("/work", ("/b",))
        assert grandchild.cwd == "/work"
        before = session.agent.stats.malformed
        await script.told(announced(cwd=5))
        await settled(script)
        assert session.agent.stats.malformed == before + 1, "SA-08"


@on_each_loop
async def test_what_a_client_may_do_with_a_child_is_what_its_parents_agent_says() -> None:
    """SA-06: nothing, and cancelling where that is offered, while it is; only the parent says so."""
    async with session_of() as (script, session):
        agent = session.agent
        await new_session(script, agent, "stranger")
        await script.told(announced())
        await script.told(announced(capabilities={"cancel": {}}), session="stranger")
        await settled(script)
        child = session.children["child"]
        assert not agent.sessions["stranger"].children
        calls: list[Callable[[], Any]] = [
            child.cancel,
            lambda: child.prompt("hi"),
            child.close,
            lambda: child.set_title("x"),
            lambda: child.set_config_option("x", value=True),
            lambda: agent.resume_session("child"),
            lambda: agent.delete_session(child),
            lambda: agent.archive_session("child"),
        ]
        for call in calls:
            with pytest.raises(UsageError, match="SA-06"):
                await call()
        await script.expect_nothing()
        await script.told(announced(capabilities={"cancel": {}}))
        await settled(script)
        await child.cancel()
        assert (await script.asked("session/cancel"))["params"] == {"sessionId": "child"}
        await script.told(announced(state={"state": "unknown"}))
        await settled(script)
        await child.cancel()  # ST-13: lost sight of, not forbidden
        await script.asked("session/cancel")
        said: list[Any] = [{}, {"cancel": {}}, None]
        await script.told(*(announced(capabilities=one) for one in said))
        await settled(script)
        with pytest.raises(UsageError, match="SA-06"):
            await child.cancel()


@on_each_loop
async def test_a_childs_state_is_what_its_parent_or_itself_said_last() -> None:
    """SA-04, ST-17: null is unconfirmed, which is not idle; a duplicate is nothing new."""
    async with session_of() as (script, session):
        await script.told(announced())
        await settled(script)
        child = session.children["child"]

        async def after(update: Any, of: str) -> tuple[Any, bool]:
            await script.told(update, session=of)
            await settled(script)
            state = child.state
            return (state.data if isinstance(state, v2.UnknownVariant) else state.state), child.is_busy

        assert isinstance(child.state, v2.StateUpdate)
        assert child.state.state == "unknown"
        assert await after(announced(state={"state": "running"}), "s") == ("running", True)
        assert await after(RUNNING, "child") == ("running", True)
        assert await after(announced(title="x"), "s") == ("running", True)
        assert await after(announced(state=None), "s") == ("unknown", True)
        assert await after(IDLE, "child") == ("idle", False)
        odd, busy = await after(announced(state={"state": "_new"}), "s")
        assert busy
        assert odd["state"] == "_new"
        usage = {"totalTokens": 3}
        await after(announced(state={"state": "idle", "stopReason": "refusal", "usage": usage}), "s")
        assert isinstance(child.state, v2.StateUpdate)
        assert child.state.stop_reason == "refusal"
        assert not session.is_busy


@on_each_loop
async def test_a_childs_questions_are_asked_as_its_own_and_end_with_the_parent() -> None:
    """SA-02: traffic is attributed; with the parent children are over."""
    asked: list[str] = []

    class Allows(Client):
        async def request_permission(self, session: ClientSession, request: v2.RequestPermissionRequest) -> str:
            asked.append(session.id)
            return "yes"

    async with session_of(Allows()) as (script, session):
        await script.told(announced(), announced("other"))
        await script.permission(1, session="child")
        assert (await script.answer_to(1))["outcome"]["optionId"] == "yes"
        stream = session.children["child"].stream()
        await while_(script.answered("session/close", {}), session.close())
        assert not session.agent.sessions
        assert [one async for one in stream] == []
        await script.permission(2, session="child")
        assert (await script.answer_to(2))["outcome"]["optionId"] == "no"
    assert asked == ["child"]


@on_each_loop
async def test_a_session_announced_as_its_own_child_or_as_anothers_changes_nothing() -> None:
    async with session_of() as (script, session):
        await new_session(script, session.agent, "other")
        await script.told(announced("s"), announced("other", capabilities=None))
        await settled(script)
        assert not session.children
        assert session.parent is None
        assert session.agent.sessions["other"].can_cancel


@on_each_loop
async def test_a_callback_of_children_that_waits_comes_before_the_childs_updates() -> None:
    seen: list[str] = []

    class Slow(Client):
        async def child_session(self, session: ClientSession) -> None:
            await asyncio.sleep(0)
            seen.append(session.id)

        def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
            seen.append(f"{session.id} {texts([update])[0]}")

    async with session_of(Slow()) as (script, _):
        await script.send(told(announced()), told(chunk("x"), "child"))
        await until(lambda: len(seen) == 3)
        assert seen == ["child", "s subagent_update", "child x"]


@on_each_loop
async def test_a_lost_connection_ends_the_streams_of_all_sessions() -> None:
    async with session_of() as (script, session):
        other = await new_session(script, session.agent, "other")
        await script.told(announced())
        await settled(script)
        streams = [one.stream() for one in (session, other, session.children["child"])]
        await script.__aexit__(None, None, None)
        errors: list[BaseException] = []
        for stream in streams:
            with pytest.raises(ConnectionClosed) as caught:
                await anext(stream)
            errors.append(caught.value)
        assert len(set(map(id, errors))) == 3
        assert list(session.agent.sessions) == ["s", "other", "child"], "their transcripts can still be read"


@pytest.mark.parametrize("last", [RUNNING, IDLE])
@on_each_loop
async def test_what_an_agent_does_that_is_gone_is_not_known(last: Any) -> None:
    """ST-12: nor is it idle for that; what was known last can still be told."""
    async with session_of() as (script, session):
        await script.told(chunk("a"), last)
        await settled(script)
        assert repr(session) == f"<ClientSession s {'busy' if last is RUNNING else 'idle'}>"
        await script.__aexit__(None, None, None)
        await until(lambda: session.agent.closed is not None)
        assert session.state == v2.StateUpdate(state="unknown")
        assert session.is_busy is (last is RUNNING)
        assert repr(session) == "<ClientSession s closed>"
        with pytest.raises(ConnectionClosed):
            await session.cancel()


@on_each_loop
async def test_a_session_shows_as_what_it_is() -> None:
    """ST-10, ST-12, ST-14: not as idle where nobody has said so."""
    async with connected() as (script, agent):
        session = await while_(script.answered("session/resume", {}), agent.resume_session("s", cwd="/"))
        shown = [repr(session)]
        for state in ("running", "unknown", "idle", "_dreaming"):
            await script.told({"sessionUpdate": "state_update", "state": state})
            await settled(script)
            shown.append(repr(session))
        await while_(script.answered("session/close", {}), session.close())
        shown.append(repr(session))
    states = ("unknown", "busy", "unknown", "idle", "busy", "closed")
    assert shown == [f"<ClientSession s {state}>" for state in states]


@on_each_loop
async def test_what_a_session_asks_for_may_be_cancelled_at_every_wait() -> None:
    """RC-01; afterwards it answers as ever."""
    calls: list[Callable[[ClientSession], Any]] = [
        lambda session: session.set_title("x"),
        lambda session: session.set_config_option("x", "y"),
        lambda session: session.cancel_tool_call("t"),
        lambda session: session.cancel_terminal("t"),
        lambda session: session.close(),
    ]

    async def answers(script: Script) -> None:
        while True:
            message = await script.receive_json()
            if "id" in message:
                await script.send(answer(message, {"title": "t", "configOptions": []}))

    for call in calls:
        async with session_of(transcript=False) as (script, session):
            running = asyncio.create_task(answers(script))

            async def attempt(number: int, call: Any = call, session: ClientSession = session) -> bool:
                return await cancelled_at(number, call(session))

            await walk(attempt)
            assert await session.set_title("x") == "t"
            running.cancel()
            await asyncio.wait([running])


def test_the_public_names_are_those_of_the_package() -> None:
    names = ("AgentConnection", "Client", "ClientSession", "Prompt", "Turn", "connect", "spawn_agent")
    assert all(getattr(acpwire, name) is getattr(acpwire.client, name) for name in names)


@pytest.mark.parametrize("kind", [AgentConnection, Client, ClientSession, Prompt, Turn])
def test_the_docstring_of_a_class_lists_the_attributes_that_pydoc_does_not_show(kind: type) -> None:
    source = inspect.getsource(kind)
    names = re.findall(r"^        self\.([a-z]\w*)(?:: [^=]+)? = ", source, re.MULTILINE)
    names += re.findall(r"^    ([a-z]\w*)(?:: .+| = .+)$", source, re.MULTILINE)
    listed = (inspect.getdoc(kind) or "").partition("Attributes:\n")[2]
    assert set(re.findall(r"^    (\w+): ", listed, re.MULTILINE)) == set(names)
    assert names
