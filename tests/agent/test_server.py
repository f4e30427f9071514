"""What an agent answers to which request: initialization, sessions, prompts, cancelling, closing."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import Any

import pytest

from acpwire import v2
from acpwire.agent import Agent, AgentSession, UserPrompt, extension, serve
from acpwire.errors import RequestError, SessionNotFound, UsageError
from acpwire.limits import Limits
from acpwire.transports import pair, spawn_process
from tests.agent.script import INITIALIZE, TEXT, Script, agent_of, doing, dumps, serving, session_of
from tests.transports.loops import PROGRAMS, on_each_loop


async def echo(session: AgentSession, prompt: UserPrompt) -> None:
    """Say it back."""
    async with session.agent_message() as message:
        await message.write("you said: ", prompt.text)


async def waits(session: AgentSession, prompt: UserPrompt) -> None:
    """Work until cancelled."""
    await asyncio.Event().wait()


# --- initialization ---------------------------------------------------------------------------------------------------


@on_each_loop
async def test_before_initialization_requests_are_refused_and_notifications_ignored() -> None:
    """IN-06."""
    async with serving(agent_of(echo), initialize=None) as script:
        assert (await script.call("session/new", cwd="/"))["code"] == -32600
        await script.tell("session/cancel", sessionId="s")
        await script.expect_nothing()


@pytest.mark.parametrize("version", [0, 1])
@on_each_loop
async def test_an_older_version_is_refused_with_what_is_spoken_here(version: int) -> None:
    """IN-03, X2."""
    async with serving(agent_of(echo), initialize=None) as script:
        error = await script.call("initialize", **INITIALIZE | {"protocolVersion": version})
        assert (error["code"], error["data"]) == (-32022, {"requested": version, "supported": [2]})
        assert (await script.call("session/list"))["code"] == -32600


@pytest.mark.parametrize(
    "members",
    [
        '"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true},"terminal":true}',
        '"protocolVersion":1,"clientCapabilities":{},"clientInfo":{"name":"editor","version":"1"}',
        '"clientCapabilities":null,"protocolVersion":0',
        '"protocolVersion":1,"info":5,"capabilities":[]',
        '"protocolVersion":1,"info":{"name":"\\ud83d","version":1}',
        '"protocolVersion":1',
    ],
)
@on_each_loop
async def test_a_client_of_an_older_version_is_told_the_version_whatever_else_it_says(members: str) -> None:
    """IN-03, IN-15: its own version has other members than this one."""
    version = 0 if ":0" in members else 1
    async with serving(agent_of(echo), initialize=None) as script:
        await script.send(f'{{"jsonrpc":"2.0","id":"a","method":"initialize","params":{{{members}}}}}')
        error = {
            "code": -32022,
            "message": "Unsupported protocol version",
            "data": {"requested": version, "supported": [2]},
        }
        await script.expect({"jsonrpc": "2.0", "id": "a", "error": error})
        assert (await script.call("initialize", **INITIALIZE))["protocolVersion"] == 2


@pytest.mark.parametrize(
    "request_",
    [
        '"method":"initialize","params":{"protocolVersion":"1"}',
        '"method":"initialize","params":{"protocolVersion":true}',
        '"method":"initialize","params":{"protocolVersion":1.5}',
        '"method":"initialize","params":{"protocolVersion":-1}',
        '"method":"initialize","params":{"clientCapabilities":{}}',
        '"method":"initialize","params":[1]',
        '"method":"initialize"',
        '"method":"session/list","params":{"protocolVersion":1,"cursor":5}',
    ],
)
@on_each_loop
async def test_what_names_no_version_is_told_what_is_wrong_with_it(request_: str) -> None:
    async with serving(agent_of(echo), initialize=None) as script:
        await script.send(f'{{"jsonrpc":"2.0","id":1,{request_}}}')
        assert (await script.receive_json())["error"]["code"] == -32602


@pytest.mark.parametrize(
    "params", [{"protocolVersion": 3, "info": 5}, {"protocolVersion": 9}, {"protocolVersion": 2, **INITIALIZE}]
)
@on_each_loop
async def test_a_newer_version_gets_the_one_that_is_spoken_here_however_it_introduces_itself(params: Any) -> None:
    """IN-03, IN-07."""
    async with serving(agent_of(echo), initialize=None) as script:
        answer = await script.call("initialize", **params)
        assert answer["protocolVersion"] == 2
        assert await script.call("session/list") == {"sessions": []}


@on_each_loop
async def test_a_malformed_introduction_of_the_spoken_version_is_refused() -> None:
    async with serving(agent_of(echo), initialize=None) as script:
        assert (await script.call("initialize", protocolVersion=2, info=5))["code"] == -32602


@on_each_loop
async def test_initialization_may_be_repeated_until_something_else_is_asked_for() -> None:
    """IN-05."""
    async with serving(agent_of(echo)) as script:
        assert (await script.call("initialize", **INITIALIZE))["protocolVersion"] == 2
        assert (await script.call("initialize", protocolVersion=1, info={}))["code"] == -32022
        await session_of(script)
        assert (await script.call("initialize", **INITIALIZE))["code"] == -32600


OPTION = v2.SessionConfigSelect(
    config_id="c", name="C", current_value="v", options=[v2.SessionConfigSelectOption(value="v", name="V")]
)


TWICE = [
    v2.AuthMethodTerminal(method_id="tty", name="T", env=[v2.EnvVariable(name="A", value="1")] * 2),
]


class Everything(Agent):
    """Serves all there is."""

    info = v2.Implementation(name="everything", version="1")
    accepts = (
        "image",
        "audio",
        "resource",
        "mcp.stdio",
        "mcp.http",
        "mcp.acp",
        "additional_directories",
        "system_prompt",
        "system_prompt.override",
        "_acme/block",
    )
    auth_methods = (
        v2.AuthMethodAgent(method_id="web", name="Web"),
        v2.AuthMethodTerminal(method_id="tty", name="Terminal"),
    )

    def __init__(self) -> None:
        self.called: list[Any] = []
        self.meta = {"acme": {"level": 2}}

    async def prompt(self, session: AgentSession, prompt: UserPrompt) -> None:
        self.called.append(prompt.text)

    async def new_session(self, session: AgentSession) -> None:
        await session.config(OPTION)

    async def resume_session(self, session: AgentSession, replay_from: v2.ReplayFrom | None) -> None:
        if session.id != "stored":
            raise SessionNotFound(session.id)
        session.app = "taken up"
        if replay_from is not None:
            await session.replay([v2.AgentMessage(message_id="m1", content=[v2.TextContent(text="old")])])
            await session.replay([v2.Notice(severity="info", title="not history")])

    async def list_sessions(self, *, cwd: str | None, cursor: str | None, archived: Any) -> v2.ListSessionsResponse:
        self.called.append((cwd, cursor, archived))
        return v2.ListSessionsResponse(sessions=[v2.SessionInfo(session_id="stored", cwd="/")], next_cursor="2")

    async def close_session(self, session: AgentSession) -> None:
        self.called.append(("closed", session.id))

    async def delete_session(self, session_id: str) -> None:
        self.called.append(("deleted", session_id))

    async def fork_session(self, session: AgentSession, source_id: str) -> None:
        self.called.append(("forked", source_id, session.cwd))

    async def archive_session(self, session_id: str) -> None:
        self.called.append(("archived", session_id))

    async def unarchive_session(self, session_id: str) -> None:
        if session_id == "missing":
            raise SessionNotFound(session_id)

    async def session_status(self, session_id: str) -> v2.SessionStatusResponse:
        return v2.SessionStatusResponse(status="saved")

    async def set_title(self, session_id: str, title: str) -> str:
        if not title:
            raise RequestError(-32602, "empty")
        return title.strip()

    async def set_config_option(
        self, session: AgentSession, request: v2.SetSessionConfigOptionRequest
    ) -> list[v2.SessionConfigOption]:
        self.called.append(request)
        return [OPTION]

    async def login(self, method_id: str) -> None:
        self.called.append(("login", method_id))

    async def logout(self) -> None:
        self.called.append("logout")

    async def auth_status(self) -> v2.AuthStatusResponse:
        return v2.AuthStatusResponse(state="authenticated")

    async def list_providers(self) -> v2.ListProvidersResponse:
        return v2.ListProvidersResponse(providers=[])

    async def set_provider(self, request: v2.SetProviderRequest) -> None:
        self.called.append(("provider", request.provider_id))

    async def disable_provider(self, provider_id: str) -> None:
        self.called.append(("disabled", provider_id))

    async def mcp_notification(self, notification: v2.MessageMcpNotification) -> None:
        self.called.append(("mcp", notification.method))

    @extension("_acme/double")
    async def double(self, params: list[int]) -> list[int]:
        return [2 * number for number in params]

    @extension("_acme/heard", kind="notification")
    async def heard(self, params: dict[str, int]) -> None:
        self.called.append(params)


@on_each_loop
async def test_what_is_overridden_and_accepted_is_what_the_client_is_told() -> None:
    """IN-10, IN-08, IN-11, IN-13, AU-04, EX-08."""
    async with serving(agent_of(echo), initialize=None) as script:
        answer = await script.call("initialize", **INITIALIZE)
        assert answer["capabilities"] == {"session": {}}
        assert "authMethods" not in answer
    async with serving(Everything(), initialize=None) as script:
        answer = await script.call("initialize", **INITIALIZE)
        session = answer["capabilities"].pop("session")
        assert set(session) == {
            "prompt",
            "mcp",
            "delete",
            "additionalDirectories",
            "systemPrompt",
            "fork",
            "archive",
            "status",
            "title",
        }
        assert session["prompt"] == {"image": {}, "audio": {}, "embeddedContext": {}}
        assert session["mcp"] == {"stdio": {}, "http": {}, "acp": {}}
        assert session["systemPrompt"] == {"mode": {"override": {}}}
        assert answer["capabilities"] == {"auth": {"status": {}}, "providers": {}, "_meta": {"acme": {"level": 2}}}
        assert [method["methodId"] for method in answer["authMethods"]] == ["web"]
    capable: dict[str, Any] = INITIALIZE | {"capabilities": {"auth": {"terminal": {}}}}
    async with serving(Everything(), initialize=None) as script:
        answer = await script.call("initialize", **capable)
        assert [method["methodId"] for method in answer["authMethods"]] == ["web", "tty"]


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"list_sessions": Everything.list_sessions}, "resume_session"),
        ({"resume_session": Everything.resume_session}, "list_sessions"),
        ({"archive_session": Everything.archive_session}, "unarchive_session"),
        ({"login": Everything.login}, "logout"),
        ({"list_providers": Everything.list_providers}, "set_provider"),
        ({"auth_methods": Everything.auth_methods}, "AU-01"),
        ({"auth_methods": TWICE, "login": Everything.login, "logout": Everything.logout}, "AU-06"),
        ({"accepts": ["images"]}, "images"),
        ({"info": None}, "info"),
    ],
)
@on_each_loop
async def test_half_of_something_is_refused_before_anything_is_served(members: Any, named: str) -> None:
    """IN-10, AU-01, AU-06."""
    with pytest.raises(UsageError, match=named):
        await serve(agent_of(echo, **members), pair()[0])


def test_an_agent_without_prompt_says_what_is_missing() -> None:
    with pytest.raises(UsageError, match="prompt"):
        type("Empty", (Agent,), {"info": v2.Implementation(name="x", version="1")})().check_complete()


def test_a_name_of_ones_own_begins_with_an_underscore() -> None:
    """EX-01."""
    with pytest.raises(UsageError, match="EX-01"):
        extension("acme/double")


# --- requests of all kinds --------------------------------------------------------------------------------------------


@on_each_loop
async def test_every_request_reaches_what_serves_it() -> None:
    """EX-06, UN-01..UN-06, AU-03, CO-05, SS-20, SS-27."""
    agent = Everything()
    async with serving(agent) as script:
        session = await session_of(script, systemPrompt={"mode": "override", "content": TEXT})
        assert await script.call("session/list", cwd="/x", cursor="", archived="only") == {
            "sessions": [{"sessionId": "stored", "cwd": "/"}],
            "nextCursor": "2",
        }
        assert await script.call("session/status", sessionId="any") == {"status": "saved"}
        assert await script.call("session/set_title", sessionId=session, title=" new ") == {"title": "new"}
        assert (await script.call("session/set_title", sessionId=session, title=""))["code"] == -32602
        option = {"sessionId": session, "configId": "c", "type": "id", "value": "v"}
        assert [
            one["configId"] for one in (await script.call("session/set_config_option", **option))["configOptions"]
        ] == ["c"]
        assert (await script.call("session/set_config_option", **option | {"type": "_x"}))["code"] == -32602
        assert (await script.call("session/set_config_option", **option | {"sessionId": "no"}))["code"] == -32002
        assert await script.call("auth/login", methodId="web") == {}
        assert (await script.call("auth/login", methodId="tty"))["code"] == -32602, "the client carries that one out"
        assert await script.call("auth/logout") == {}
        assert await script.call("auth/status") == {"state": "authenticated"}
        assert await script.call("providers/list") == {"providers": []}
        assert await script.call("providers/set", providerId="p", apiType="openai", baseUrl="https://x") == {}
        assert await script.call("providers/disable", providerId="p") == {}
        await script.tell("mcp/message", serverId="s", requestId="r", method="m")
        assert await script.call("session/unarchive", sessionId="stored") == {}
        assert (await script.call("session/unarchive", sessionId="missing"))["code"] == -32002
        fork = await script.call("session/fork", sessionId=session, cwd="/fork")
        assert fork["sessionId"] not in {session, ""}
        assert await script.call("session/archive", sessionId=session) == {}
        assert await script.call("session/delete", sessionId=fork["sessionId"]) == {}
        ask = await script.ask("_acme/double")
        assert (await script.answered(ask))["code"] == -32602, "params are checked by the annotation"
        await script.send({"jsonrpc": "2.0", "id": "own", "method": "_acme/double", "params": [1, 2]})
        await script.expect({"jsonrpc": "2.0", "id": "own", "result": [2, 4]})
        await script.tell("_acme/heard", x=1)
        await script.expect_nothing()
    assert ("forked", session, "/fork") in agent.called
    assert agent.called.index(("closed", session)) < agent.called.index(("archived", session)), "closed first (UN-02)"
    assert ("deleted", fork["sessionId"]) in agent.called
    once = [("login", "web"), "logout", ("provider", "p"), ("disabled", "p"), ("mcp", "m"), {"x": 1}]
    assert [one for one in agent.called if one in once] == once


@pytest.mark.parametrize(
    "method",
    [
        "session/delete",
        "session/fork",
        "session/archive",
        "session/status",
        "session/set_title",
        "auth/login",
        "providers/list",
    ],
)
@on_each_loop
async def test_what_is_not_overridden_is_not_served(method: str) -> None:
    """IN-14, ER-04."""
    params = {"sessionId": "s", "cwd": "/", "title": "t", "methodId": "m"}
    async with serving(agent_of(echo)) as script:
        assert (await script.call(method, **params))["code"] == -32601


@on_each_loop
async def test_why_a_tool_call_or_terminal_cannot_be_cancelled_is_told() -> None:
    """TC-19, TM-11."""
    go_on = asyncio.Event()

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        async with session.tool_call("x", tool_call_id="plain"), session.terminal(terminal_id="plain"):
            await session.agent_message().write("runs")
            await go_on.wait()
        async with (
            session.tool_call("x", tool_call_id="final", can_cancel=True) as call,
            session.terminal(terminal_id="final", can_cancel=True) as terminal,
        ):
            await call.complete()
            await terminal.exit(0)
            await asyncio.Event().wait()

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)

        async def refused(name: str) -> list[str]:
            calls = [("tool_call/cancel", {"toolCallId": name}), ("terminal/cancel", {"terminalId": name})]
            errors = [await script.call(method, sessionId=session, **params) for method, params in calls]
            assert [error["code"] for error in errors] == [-32602, -32602]
            return [error["message"] for error in errors]

        await doing(script, session)
        unknown = [f"No such {kind} is running: it is unknown, or final already" for kind in ("tool call", "terminal")]
        assert await refused("none") == unknown
        assert await refused("plain") == [
            f"This {kind} cannot be cancelled: its capabilities do not say that it can be"
            for kind in ("tool call", "terminal")
        ]
        go_on.set()
        await script.until(lambda one: one.get("params", {}).get("update", {}).get("exitStatus") == {"exitCode": 0})
        assert await refused("final") == [
            f"This {kind} cannot be cancelled: it is final already" for kind in ("tool call", "terminal")
        ]
        assert await refused("plain") == unknown
        await script.tell("session/cancel", sessionId=session)
        await script.idle(session)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/prompt", {"prompt": TEXT}),
        ("session/resume", {"cwd": "/"}),
        ("tool_call/cancel", {"toolCallId": "t"}),
        ("terminal/cancel", {"terminalId": "t"}),
    ],
)
@on_each_loop
async def test_an_unknown_session_is_told_by_its_id(method: str, params: Any) -> None:
    """SS-28."""
    async with serving(agent_of(echo)) as script:
        error = await script.call(method, sessionId="nobody", **params)
        assert (error["code"], error["data"]) == (-32002, {"sessionId": "nobody"})


@pytest.mark.parametrize(
    "params",
    [
        {"cwd": "relative"},
        {"additionalDirectories": ["/x"]},
        {"systemPrompt": {"mode": "append", "content": TEXT}},
        {"mcpServers": [{"type": "stdio", "name": "a", "command": "/bin/a"}]},
        {"mcpServers": [{"type": "_other", "name": "a"}]},
    ],
)
@on_each_loop
async def test_what_the_agent_did_not_say_it_takes_is_refused_at_set_up(params: Any) -> None:
    """SS-03, SS-04, SS-06, UN-05, EX-11."""
    async with serving(agent_of(echo)) as script:
        assert (await script.call("session/new", **{"cwd": "/", **params}))["code"] == -32602
        assert await script.call("session/list") == {"sessions": []}


@pytest.mark.parametrize(
    "params",
    [
        {"mcpServers": [{"type": "stdio", "name": "a", "command": "/bin/a"}] * 2},
        {"additionalDirectories": ["x"]},
        {"systemPrompt": {"mode": "append", "content": []}},
        {"systemPrompt": {"mode": "append", "content": [{"type": "image", "data": "", "mimeType": "image/png"}]}},
        {"systemPrompt": {"mode": "_other", "content": TEXT}},
    ],
)
@on_each_loop
async def test_what_it_takes_must_be_right_at_set_up(params: Any) -> None:
    """SS-04, SS-06, UN-05."""
    async with serving(Everything()) as script:
        assert (await script.call("session/new", cwd="/", **params))["code"] == -32602


@on_each_loop
async def test_a_session_whose_set_up_fails_was_never_there() -> None:
    async def fails(_: Agent, session: AgentSession) -> None:
        raise RequestError(-32000, "sign in")

    async with serving(agent_of(echo, new_session=fails)) as script:
        assert (await script.call("session/new", cwd="/"))["code"] == -32000  # SS-02
        assert await script.call("session/list") == {"sessions": []}


@on_each_loop
async def test_sessions_are_listed_by_their_directory() -> None:
    """SS-01, SS-20, SS-22, SS-29."""
    async with serving(agent_of(echo)) as script:
        ids = [(await script.call("session/new", cwd=cwd))["sessionId"] for cwd in ("/a", "/a/b", "/a")]
        assert len(set(ids)) == 3
        listed = await script.call("session/list", cwd="/a")
        assert [one["sessionId"] for one in listed["sessions"]] == [ids[0], ids[2]]
        assert (await script.call("session/list", cursor="x"))["code"] == -32602
        assert (await script.call("session/list", archived="only"))["code"] == -32602


@on_each_loop
async def test_what_a_session_offers_is_told_with_its_answer() -> None:
    """SS-08, CM-01, CO-01, SU-06."""

    async def offers(_: Agent, session: AgentSession) -> None:
        await session.commands(v2.Command(name="go", description="Go"))
        session.after_response(lambda: asyncio.ensure_future(session.notice("after the answer")))

    async with serving(agent_of(echo, new_session=offers)) as script:
        answer = await script.call("session/new", cwd="/")
        assert [one["name"] for one in answer["availableCommands"]] == ["go"]
        assert script.tags(answer["sessionId"]) == ["available_commands_update"], "the update came before the answer"
        await script.until(lambda one: "after the answer" in dumps(one))


# --- prompts ----------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_prompt_is_told_answered_and_worked_on_and_ends_with_one_idle() -> None:
    """PL-01, PL-02, PL-09, PL-14..PL-16, PL-22, ST-01, ST-02, SR-01, SR-02, X3, X4."""
    async with serving(agent_of(echo)) as script:
        session = await session_of(script)
        request = await script.prompt(session)
        assert await script.idle(session) == {
            "sessionUpdate": "state_update",
            "state": "idle",
            "stopReason": "end_turn",
        }
        answer = await script.answered(request)
        updates = script.updates(session)
        assert script.tags(session) == ["user_message", "running", "agent_message_chunk", "agent_message_chunk", "idle"]
        assert updates[0] == {"sessionUpdate": "user_message", "messageId": answer["messageId"], "content": TEXT}
        assert len({update["messageId"] for update in updates[2:4]}) == 1
        await script.expect_nothing()


@on_each_loop
async def test_equal_prompts_get_ids_of_their_own() -> None:
    """PL-19."""
    async with serving(agent_of(echo)) as script:
        session = await session_of(script)
        ids = [(await script.answered(await script.prompt(session)))["messageId"] for _ in range(3)]
        assert len(set(ids)) == 3


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///x", "text": "x"}},
        {"type": "_acme/block", "x": 1},
        {"type": "hologram"},
    ],
)
@on_each_loop
async def test_blocks_that_are_not_taken_are_refused_before_insertion(block: Any) -> None:
    """PL-07, PL-11, PL-12, EX-11."""
    async with serving(agent_of(echo)) as script:
        session = await session_of(script)
        error = await script.call("session/prompt", sessionId=session, prompt=[*TEXT, block])
        assert error["code"] == -32602
        assert "prompt[1]" in error["message"]
        await script.expect_nothing()
        assert script.updates(session) == []
    async with serving(Everything()) as script:
        session = await session_of(script)
        answer = await script.call("session/prompt", sessionId=session, prompt=[*TEXT, block])
        assert ("messageId" in answer) == (block["type"] != "hologram")


@on_each_loop
async def test_text_and_links_are_always_taken_and_nothing_is_not() -> None:
    """PL-05, PL-06, PL-08."""
    async with serving(agent_of(echo)) as script:
        session = await session_of(script)
        link = {"type": "resource_link", "uri": "file:///x", "name": "x"}
        assert "messageId" in await script.call("session/prompt", sessionId=session, prompt=[link, *TEXT])
        assert (await script.call("session/prompt", sessionId=session, prompt=[]))["code"] == -32602


@on_each_loop
async def test_prompts_are_held_while_work_runs_and_inserted_in_the_order_received() -> None:
    """PL-10, PL-27."""
    release = asyncio.Event()

    async def slow(session: AgentSession, prompt: UserPrompt) -> None:
        await release.wait()
        await echo(session, prompt)

    async with serving(agent_of(slow)) as script:
        session = await session_of(script)
        requests = [await script.prompt(session, text) for text in ("1", "2", "3")]
        await script.answered(requests[0])
        await script.expect_nothing()
        release.set()
        for _ in requests:
            await script.idle(session)
        texts = [
            update["content"][0]["text"]
            for update in script.updates(session)
            if update["sessionUpdate"] == "user_message"
        ]
        assert texts == ["1", "2", "3"]
        assert [one for one in script.tags(session) if one in {"running", "idle"}] == ["running", "idle"] * 3


@on_each_loop
async def test_an_agent_may_admit_at_once_and_reject() -> None:
    """PL-11, PL-12, PL-27: steering; one idle for all that runs together."""
    release = asyncio.Event()

    async def admit(_: Agent, session: AgentSession, prompt: UserPrompt) -> None:
        if prompt.text == "no":
            raise RequestError(-32000, "sign in first")

    async def prompt(session: AgentSession, prompt: UserPrompt) -> None:
        await release.wait()

    async with serving(agent_of(prompt, admit=admit)) as script:
        session = await session_of(script)
        first, second = await script.prompt(session, "1"), await script.prompt(session, "2")
        await script.answered(first)
        await script.answered(second)
        assert (await script.answered(await script.prompt(session, "no")))["code"] == -32000
        release.set()
        await script.idle(session)
        await script.expect_nothing()
        assert script.tags(session) == ["user_message", "running", "user_message", "idle"]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ("max_tokens", {"stopReason": "max_tokens"}),
        ("refusal", {"stopReason": "refusal"}),
        ("_acme_bored", {"stopReason": "_acme_bored"}),
        ("invented", {"stopReason": "error", "error": {"code": -32603, "message": "Internal error"}}),
        (ValueError("hunter2"), {"stopReason": "error", "error": {"code": -32603, "message": "Internal error"}}),
        (RequestError(7, "quota"), {"stopReason": "error", "error": {"code": 7, "message": "quota"}}),
        (asyncio.CancelledError(), {"stopReason": "cancelled"}),
    ],
)
@on_each_loop
async def test_how_the_work_ends_is_the_reason_of_its_one_idle(
    ends: Any, expected: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """PL-13, SR-03..SR-08, SR-11, S-CA-03, S-EX-01: after insertion no error is ever answered."""

    async def prompt(session: AgentSession, prompt: UserPrompt) -> Any:
        if isinstance(ends, BaseException):
            raise ends
        return ends

    with caplog.at_level(logging.ERROR):
        async with serving(agent_of(prompt)) as script:
            session = await session_of(script)
            request = await script.prompt(session)
            idle = await script.idle(session)
            assert idle == {"sessionUpdate": "state_update", "state": "idle", **expected}
            assert "messageId" in await script.answered(request)
            assert "hunter2" not in dumps(script.seen)
            await script.expect_nothing()
    assert ("hunter2" in caplog.text) == isinstance(ends, ValueError)


@on_each_loop
async def test_the_usage_of_a_prompt_is_told_with_its_end() -> None:
    """US-06."""

    async def prompt(session: AgentSession, prompt: UserPrompt) -> None:
        prompt.usage = v2.Usage(total_tokens=3, input_tokens=1, output_tokens=2)

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await script.prompt(session)
        assert (await script.idle(session))["usage"] == {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}


@on_each_loop
async def test_work_that_fails_before_insertion_is_told_and_so_is_the_refusal() -> None:
    """PL-30, PL-31."""

    async def admit(_: Agent, session: AgentSession, prompt: UserPrompt) -> None:
        async with session.foreground():
            raise RequestError(-32000, "out of quota")

    async with serving(agent_of(echo, admit=admit)) as script:
        session = await session_of(script)
        assert (await script.answered(await script.prompt(session)))["code"] == -32000
        assert script.tags(session) == ["running", "idle"]
        assert script.updates(session)[-1]["error"] == {"code": -32000, "message": "out of quota"}
        await script.expect_nothing()


# --- cancelling -------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_a_cancel_ends_the_work_and_what_is_held_and_nothing_that_comes_later() -> None:
    """CA-04..CA-07, CA-09, PL-28, PL-29, SR-06, S-CA-01."""
    released = asyncio.Event()

    async def prompt(session: AgentSession, prompt: UserPrompt) -> None:
        if prompt.text == "later":
            return
        try:
            await asyncio.Event().wait()
        finally:
            await released.wait()
            await session.notice("last words")

    async with serving(agent_of(prompt)) as script:
        session, other = await session_of(script), await session_of(script)
        first = await script.prompt(session, "first")
        elsewhere = await script.prompt(other, "other")
        await script.answered(first)
        await script.answered(elsewhere)
        held = await script.prompt(session, "held")
        await script.tell("session/cancel", sessionId=session)
        await script.tell("session/cancel", sessionId=session)
        later = await script.prompt(session, "later")
        assert (await script.answered(held))["code"] == -32800
        released.set()
        assert (await script.idle(session))["stopReason"] == "cancelled"
        assert script.tags(session)[-2:] == ["notice", "idle"], "idle is last"
        assert "messageId" in await script.answered(later)
        assert (await script.idle(session))["stopReason"] == "end_turn"
        assert "idle" not in script.tags(other)
        await script.tell("session/cancel", sessionId=session)
        await script.tell("session/cancel", sessionId="nobody")
        await script.expect_nothing()


@pytest.mark.parametrize("how", ["wraps", "swallows", "returns"])
@on_each_loop
async def test_work_that_was_cancelled_is_cancelled_whatever_its_libraries_make_of_it(how: str) -> None:
    """SR-11, CA-06."""
    begun = asyncio.Event()

    async def prompt(session: AgentSession, prompt: UserPrompt) -> str | None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            if how == "wraps":
                raise ValueError("request aborted") from error
            return "end_turn" if how == "returns" else None
        return None

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await script.prompt(session)
        await script.running(session)
        await begun.wait()
        await script.tell("session/cancel", sessionId=session)
        assert (await script.idle(session)) == {
            "sessionUpdate": "state_update",
            "state": "idle",
            "stopReason": "cancelled",
        }
        await script.expect_nothing()


@on_each_loop
async def test_a_cancel_that_comes_before_the_work_begins_ends_it_all_the_same() -> None:
    async with serving(agent_of(waits)) as script:
        session = await session_of(script)
        prompt = {
            "jsonrpc": "2.0",
            "id": 99,
            "method": "session/prompt",
            "params": {"sessionId": session, "prompt": TEXT},
        }
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
        await script.send(prompt)
        await script.running(session)
        await script.send(cancel)
        assert (await script.idle(session))["stopReason"] == "cancelled"
        await script.send(prompt | {"id": 100}, cancel)
        answer = await script.answered(100)
        assert answer.get("code") == -32800 or "messageId" in answer


@on_each_loop
async def test_cancelling_the_request_of_a_held_prompt_takes_it_back() -> None:
    """RC-03, RC-04, PL-28: once it is inserted the answer stands."""
    async with serving(agent_of(waits)) as script:
        session = await session_of(script)
        first = await script.prompt(session)
        held = await script.prompt(session)
        await script.answered(first)
        await script.tell("$/cancel_request", requestId=held)
        await script.tell("$/cancel_request", requestId=first)
        assert (await script.answered(held))["code"] == -32800
        await script.expect_nothing()


@on_each_loop
async def test_closing_ends_all_work_before_its_answer_and_nothing_is_said_after() -> None:
    """CA-12, CA-13, SS-25, PL-28, X14."""
    agent_session: list[AgentSession] = []

    async def prompt(session: AgentSession, prompt: UserPrompt) -> None:
        agent_session.append(session)
        async with session.tool_call("Compile") as call:
            await call.start()
            await asyncio.Event().wait()

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await script.prompt(session)
        await script.until(lambda one: "in_progress" in dumps(one))
        held = await script.prompt(session)
        closing = await script.ask("session/close", sessionId=session)
        await script.answered(closing)
        assert (await script.answered(held))["code"] == -32800
        assert script.updates(session)[-2]["status"] == "cancelled"
        assert script.updates(session)[-1]["stopReason"] == "cancelled"
        with pytest.raises(UsageError, match="closed"):
            await agent_session[0].notice("too late")
        assert await script.call("session/close", sessionId=session) == {}
        assert (await script.call("session/prompt", sessionId=session, prompt=TEXT))["code"] == -32002
        await script.expect_nothing()


# --- resuming ---------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_resuming_replays_if_asked_then_tells_the_state_then_answers() -> None:
    """SS-10..SS-16, ST-09, ST-10, X11, NT-06, MS-13."""
    async with serving(Everything()) as script:
        assert await script.call("session/resume", sessionId="stored", cwd="/") == {}
        assert script.updates("stored") == [{"sessionUpdate": "state_update", "state": "idle"}]
        script.seen.clear()
        assert await script.call("session/resume", sessionId="stored", cwd="/", replayFrom={"type": "start"}) == {}
        assert script.tags("stored") == ["agent_message", "idle"]
        for cursor in ({"type": "middle"}, {"type": "_acme"}, 5):
            error = await script.call("session/resume", sessionId="stored", cwd="/", replayFrom=cursor)
            assert error["code"] == -32602
        error = await script.call("session/resume", sessionId="other", cwd="/")
        assert (error["code"], error["data"]) == (-32002, {"sessionId": "other"})
        assert (await script.call("session/prompt", sessionId="other", prompt=TEXT))["code"] == -32002


@on_each_loop
async def test_a_retained_session_is_replayed_with_the_ids_that_it_had() -> None:
    """PL-24, SS-12, SS-14, SS-15: while work goes on, too."""
    async with serving(agent_of(echo, retain=True)) as script:
        session = await session_of(script)
        await script.prompt(session)
        await script.idle(session)
        before = {update["messageId"] for update in script.updates(session) if "messageId" in update}
        script.seen.clear()
        assert await script.call("session/resume", sessionId=session, cwd="/work", replayFrom={"type": "start"}) == {}
        assert {update["messageId"] for update in script.updates(session) if "messageId" in update} == before
        assert script.tags(session)[-1] == "idle"
        script.seen.clear()
        await script.call("session/resume", sessionId=session, cwd="/work")
        assert script.tags(session) == ["idle"], "no history unless it is asked for (SS-11)"


@on_each_loop
async def test_without_retention_there_is_nothing_to_replay() -> None:
    """PL-23."""
    async with serving(agent_of(echo)) as script:
        session = await session_of(script)
        await script.prompt(session)
        await script.idle(session)
        script.seen.clear()
        await script.call("session/resume", sessionId=session, cwd="/work", replayFrom={"type": "start"})
        assert script.tags(session) == ["idle"]


@on_each_loop
async def test_a_store_sees_what_is_sent_and_not_what_is_replayed() -> None:
    stored: list[Any] = []

    def sent(_: Agent, session: AgentSession, update: v2.SessionUpdate) -> None:
        stored.append(update)

    async with serving(agent_of(echo, sent=sent, retain=True)) as script:
        session = await session_of(script)
        await script.prompt(session)
        await script.idle(session)
        assert [v2.encode(update) for update in stored] == [
            v2.encode(v2.decode(v2.SessionUpdate, dumps(update).encode())) for update in script.updates(session)
        ]
        count = len(stored)
        await script.call("session/resume", sessionId=session, cwd="/work", replayFrom={"type": "start"})
        assert [update.tag for update in stored[count:]] == ["state_update"]


@on_each_loop
async def test_updates_flow_while_requests_wait() -> None:
    """SU-11, SU-06."""
    release = asyncio.Event()

    async def set_title(_: Agent, session_id: str, title: str) -> str:
        await release.wait()
        return title

    async with serving(agent_of(echo, set_title=set_title)) as script:
        session = await session_of(script)
        waiting = await script.ask("session/set_title", sessionId=session, title="x")
        await script.prompt(session)
        await script.idle(session)
        assert "agent_message_chunk" in script.tags(session)
        release.set()
        assert await script.answered(waiting) == {"title": "x"}


# --- the end, and processes -------------------------------------------------------------------------------------------


@on_each_loop
async def test_when_the_client_goes_work_is_cancelled_and_cleans_up() -> None:
    """S-PR-06, ER-09."""
    cleaned: list[str] = []
    begun = asyncio.Event()

    async def prompt(session: AgentSession, prompt: UserPrompt) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(prompt.text)

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await script.prompt(session)
        await script.running(session)
        await begun.wait()
    assert cleaned == ["hi"]


@on_each_loop
async def test_work_that_does_not_end_is_left_after_the_grace() -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def stubborn(session: AgentSession, prompt: UserPrompt) -> None:
        begun.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async with serving(agent_of(stubborn), limits=Limits(grace=0.05)) as script:
        session = await session_of(script)
        await script.prompt(session)
        await script.running(session)
        await begun.wait()
    release.set()
    while len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110  # what is waited for has no event
        await asyncio.sleep(0)


class Queues:
    """A transport of one's own: two queues."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        return await self.received.get()

    async def write(self, data: bytes) -> None:
        await self.sent.put(data)

    async def close(self) -> None:
        await self.sent.put(b"")


@on_each_loop
async def test_an_agent_is_served_on_any_transport() -> None:
    """TR-08."""
    queues = Queues()
    serving_it = asyncio.create_task(serve(agent_of(echo), queues))
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    await queues.received.put(dumps(request).encode() + b"\n")
    assert b'"protocolVersion":2' in await queues.sent.get()
    await queues.received.put(b"")
    await serving_it


AGENT = str(PROGRAMS / "echo_agent.py")


@on_each_loop
async def test_an_agent_process_ends_with_its_input_and_its_prints_go_to_stderr() -> None:
    """TR-02, TR-07, S-PR-04, S-PR-06."""
    transport = await spawn_process(sys.executable, AGENT)
    script = Script(transport)
    await script.call("initialize", **INITIALIZE)
    session = await session_of(script)
    await script.prompt(session, "print")
    assert (await script.idle(session))["stopReason"] == "end_turn"
    await script.prompt(session, "wait")
    await script.running(session)
    await transport.close()
    assert transport.exit_code == 0
    assert b"printed" in transport.stderr_tail
    assert b"cleaned up" in transport.stderr_tail
    assert b"Traceback" not in transport.stderr_tail


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@on_each_loop
async def test_a_signal_ends_an_agent_process_in_order(number: signal.Signals) -> None:
    transport = await spawn_process(sys.executable, AGENT)
    script = Script(transport)
    await script.call("initialize", **INITIALIZE)
    session = await session_of(script)
    await script.prompt(session, "wait")
    await script.running(session)
    await script.until(lambda one: "waiting" in dumps(one))

    os.kill(transport.pid, number)
    assert await transport.wait() == 128 + number
    await transport.close()
    assert b"cleaned up" in transport.stderr_tail
    assert b"Traceback" not in transport.stderr_tail
