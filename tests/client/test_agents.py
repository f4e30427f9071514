"""Connections to agents: the handshake, how they end, what may be sent to whom, signing in, recording."""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import acpwire
from acpwire import v2
from acpwire.client import AgentConnection, Client
from acpwire.errors import (
    AuthRequired,
    ConnectionClosed,
    DecodeError,
    RequestError,
    UsageError,
    VersionMismatch,
)
from acpwire.limits import Limits
from acpwire.testing import ScriptedAgent
from acpwire.testing import connect as connected_to
from acpwire.transports import pair
from acpwire.wire import Method
from tests.client.script import (
    IDLE,
    RUNNING,
    Script,
    answer,
    chunk,
    connected,
    failure,
    initialized,
    new_session,
    prompted,
    session_of,
    settled,
    while_,
)
from tests.transports.loops import PROGRAMS, cancelled_at, descriptors, on_each_loop, until, walk
from tests.transports.test_process import gone

GRACE = Limits(grace=5)
FRAIL = (sys.executable, str(PROGRAMS / "frail_agent.py"))
ECHO = (sys.executable, str(PROGRAMS / "echo_agent.py"))


class Closed(Client):
    """Keeps why connections were closed."""

    def __init__(self) -> None:
        self.causes: list[ConnectionClosed] = []

    def closed(self, cause: ConnectionClosed) -> None:
        self.causes.append(cause)


# --- the handshake ----------------------------------------------------------------------------------------------------


async def shake(*lines: Any, client: Client | None = None, ends: bool = False) -> tuple[Any, BaseException | None]:
    """What a client sends first, and what comes of these lines as the answer; with `ends`, of the end after them."""
    left, right = pair()
    async with Script(left) as script:

        async def enter() -> None:
            async with acpwire.connect(right, client, limits=GRACE):
                pass

        entering = asyncio.ensure_future(enter())
        request = await script.asked("initialize")
        found: list[Any] = [line(request) if callable(line) else line for line in lines]
        await script.send(*found)
        if ends:
            await script.__aexit__(None, None, None)
        await asyncio.wait([entering])
        return request, entering.exception()


Reply = Callable[[Any], Any]


def accepts(result: Any) -> Reply:
    """The line that answers the request with this."""
    return lambda request: answer(request, result)


def refuses(code: int, message: str = "no", **data: Any) -> Reply:
    """The line that refuses the request."""
    return lambda request: failure(request, code, message, **data)


@on_each_loop
async def test_a_client_says_who_it_is_and_what_it_can_and_learns_it_of_the_agent() -> None:
    """IN-01, IN-02, IN-08, IN-13, EL-01, AU-04: of a client that overrides nothing, no capability."""
    request, error = await shake(accepts(initialized()))
    assert error is None
    assert request["params"].pop("capabilities", {}) == {}
    assert request["params"] == {"protocolVersion": 2, "info": {"name": "acpwire", "version": Client.info.version}}

    class Able(Client):
        info = v2.Implementation(name="able", version="2", title="Able")
        elicits = ("form", "url")
        has_terminal = True
        meta = {"acme": 1}  # noqa: RUF012  # as a user writes it

        async def create_elicitation(self, session: Any, request: Any) -> None:
            """Decline."""

    request, error = await shake(accepts(initialized()), client=Able())
    assert error is None
    assert request["params"] == {
        "protocolVersion": 2,
        "info": {"name": "able", "version": "2", "title": "Able"},
        "capabilities": {
            "auth": {"terminal": {}},
            "elicitation": {"form": {}, "url": {}},
            "_meta": {"acme": 1},
        },
    }


@on_each_loop
async def test_what_an_agent_says_is_known_on_entry() -> None:
    """IN-02, IN-08, IN-12, AU-07: a malformed capability counts as absent."""
    methods = [
        {"type": "agent", "methodId": "web", "name": "Web"},
        {"type": "_new", "methodId": "odd", "name": "Odd", "how": 1},
    ]
    capabilities: Any = {"session": {"prompt": {"image": {}, "audio": True}, "fork": None}}
    async with connected(capabilities=capabilities, auth_methods=methods) as (_, agent):
        assert agent.info == v2.Implementation(name="script", version="1")
        assert agent.supports("session")
        assert agent.supports("session.prompt.image")
        assert not agent.supports("session.prompt.audio")
        assert not agent.supports("session.fork")
        assert not agent.supports("session.title")
        assert [method.tag for method in agent.auth_methods] == ["agent", "_new"]
        assert agent.closed is None
        assert agent.stderr_tail == b""
        assert agent.stats.lines == 1


@pytest.mark.parametrize("version", [1, 0, 3])
@on_each_loop
async def test_an_agent_of_another_version_is_refused_naming_both(version: int) -> None:
    """IN-04, X2; whatever else is in its answer."""
    v1 = {"protocolVersion": version, "agentInfo": {"name": "old", "version": "1"}, "agentCapabilities": {}}
    for result in (v1, {**initialized(), "protocolVersion": version}):
        _, error = await shake(accepts(result))
        assert isinstance(error, VersionMismatch)
        assert (error.requested, error.supported) == (2, [version])
        assert '"requested":2' in str(error)
        assert f'"supported":[{version}]' in str(error)


@on_each_loop
async def test_an_agent_that_refuses_the_version_itself_is_understood() -> None:
    """IN-03, ER-05."""
    _, error = await shake(refuses(-32022, requested=2, supported=[1]))
    assert isinstance(error, VersionMismatch)
    assert error.supported == [1]


@on_each_loop
async def test_a_version_2_answer_with_the_body_of_version_1_is_told_as_that() -> None:
    v1 = {"protocolVersion": 2, "agentInfo": {"name": "old", "version": "1"}, "agentCapabilities": {}}
    _, error = await shake(accepts(v1))
    assert isinstance(error, DecodeError)
    assert "version 1" in str(error)
    assert "version 2" in str(error)


@pytest.mark.parametrize(
    ("result", "path"),
    [
        ({"protocolVersion": "2"}, "$.result.protocolVersion"),
        ({"protocolVersion": 2}, "$.result"),
        ({"protocolVersion": 2, "info": {"name": "x"}}, "$.result.info"),
        ("hello", "$.result"),
    ],
)
@on_each_loop
async def test_an_answer_that_is_none_says_where_it_does_not_fit(result: Any, path: str) -> None:
    """IN-04."""
    _, error = await shake(accepts(result))
    assert isinstance(error, DecodeError)
    assert error.path.startswith(path)
    assert "initialize" in str(error)


@on_each_loop
async def test_an_agent_may_refuse_to_be_initialized() -> None:
    _, error = await shake(refuses(-32000, "who are you?"))
    assert isinstance(error, AuthRequired)
    assert "who are you?" in str(error)


@on_each_loop
async def test_a_program_that_sends_back_what_it_is_sent_is_asked_whether_it_is_an_agent() -> None:
    """As `cat` does: our own refusal of our own request comes back as its answer."""
    left, right = pair()
    async with Script(left) as script:

        async def echo() -> None:
            for _ in range(2):
                await script.send((await script.receive()).rstrip())

        async def enter() -> None:
            async with acpwire.connect(right, limits=GRACE):
                raise AssertionError

        with pytest.raises(RequestError, match="is it an ACP agent") as raised:
            await while_(echo(), enter())
        assert raised.value.code == -32601


@on_each_loop
async def test_cat_is_no_agent() -> None:
    async def enter() -> None:
        async with acpwire.spawn_agent("cat", limits=GRACE):
            raise AssertionError

    with pytest.raises(RequestError, match="is it an ACP agent"):
        await enter()


@on_each_loop
async def test_an_end_without_an_answer_is_a_closed_connection_with_the_first_line_of_what_is_no_agent() -> None:
    """IN-04: the first, not the last."""
    _, error = await shake(ends=True)
    assert isinstance(error, ConnectionClosed)
    assert "first line" not in str(error)
    _, error = await shake("Usage: x\x1b[0m", "more", ends=True)
    assert isinstance(error, ConnectionClosed)
    assert "'Usage: x\\x1b[0m'" in str(error)
    _, error = await shake("x" * 100_000, ends=True)
    assert isinstance(error, ConnectionClosed)
    assert len(str(error)) < 500


@on_each_loop
async def test_noise_before_the_answer_is_no_obstacle() -> None:
    """SU-14."""
    _, error = await shake("Welcome!", accepts(initialized()))
    assert error is None


@on_each_loop
async def test_initialization_can_be_repeated_and_a_failed_repeat_changes_nothing() -> None:
    """IN-05."""
    async with connected() as (script, agent):
        again = initialized({"session": {}}, info={"name": "again", "version": "2"})
        await while_(script.answered("initialize", again), agent.initialize())
        assert agent.info.name == "again"
        with pytest.raises(RequestError):
            await while_(script.refused("initialize", -32600), agent.initialize())
        assert agent.info.name == "again"


@on_each_loop
async def test_initialization_is_not_repeated_after_the_first_other_request() -> None:
    """IN-05: not even while that has no answer, or after it was refused."""
    async with connected() as (script, agent):
        asking = asyncio.create_task(agent.new_session(cwd="/"))
        request = await script.asked("session/new")
        with pytest.raises(UsageError, match="IN-05"):
            await agent.initialize()
        await script.send(failure(request, -32000))
        with pytest.raises(AuthRequired):
            await asking
        with pytest.raises(UsageError, match="IN-05"):
            await agent.initialize()
        await script.expect_nothing()


@on_each_loop
async def test_waiting_for_the_first_answer_has_a_limit_if_one_is_set() -> None:
    left, right = pair()
    async with Script(left) as script:
        await script.send("Loading...")
        with pytest.raises(ConnectionClosed, match=r"Limits\.first_answer = 0\.05 s; .*'Loading\.\.\.'"):
            async with acpwire.connect(right, limits=Limits(first_answer=0.05, grace=5)):
                raise AssertionError


@on_each_loop
async def test_entering_may_be_cancelled_at_every_wait() -> None:
    async def attempt(number: int) -> bool:
        left, right = pair()
        closed = Closed()

        async def agent() -> None:
            async with Script(left) as script:
                with suppress(EOFError, ConnectionClosed):
                    await script.answered("initialize", initialized())
                    await script.end()

        async def enter() -> None:
            async with acpwire.connect(right, closed, limits=GRACE):
                pass

        serving = asyncio.create_task(agent())
        was_cancelled = await cancelled_at(number, enter())
        await serving
        await until(lambda: bool(closed.causes))
        assert len(closed.causes) == 1
        return was_cancelled

    await walk(attempt)


# --- programs ---------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_an_agent_is_started_spoken_to_and_gone_afterwards() -> None:
    """TR-03, S-PR-04: what it prints does not end up in the protocol."""
    seen: list[bytes] = []
    async with acpwire.spawn_agent(*ECHO, limits=GRACE, on_stderr=seen.append) as agent:
        assert agent.info.name == "echo"
        session = await agent.new_session(cwd=".")
        assert session.cwd == str(Path.cwd())
        assert (await session.ask("print")).text == "you said: print"
        await until(lambda: b"printed" in agent.stderr_tail)
    assert agent.closed is not None
    assert b"".join(seen) == agent.stderr_tail


@on_each_loop
async def test_a_program_that_is_no_agent_is_told_by_its_first_line_and_its_exit_code() -> None:
    """IN-04, S-PR-01."""
    with pytest.raises(ConnectionClosed) as caught:
        async with acpwire.spawn_agent(sys.executable, str(PROGRAMS / "not_an_agent.py"), limits=GRACE):
            raise AssertionError
    assert "'Welcome to the shell, version 3'" in str(caught.value)
    assert (caught.value.exit_code, caught.value.stderr_tail) == (4, b"no such option\n")
    banner = "echo no such option >&2; echo Welcome; exec cat > /dev/null"
    with pytest.raises(ConnectionClosed) as caught:
        async with acpwire.spawn_agent("sh", "-c", banner, limits=Limits(grace=5, first_answer=1)):
            raise AssertionError
    assert "'Welcome'" in str(caught.value)
    assert "first_answer" in str(caught.value)
    assert (caught.value.exit_code, caught.value.stderr_tail) == (None, b"no such option\n")


@pytest.mark.parametrize(("how", "code"), [("at-once", 3), ("mid-line", 3), ("signal", -9)])
@on_each_loop
async def test_a_crash_in_the_handshake_is_told_with_exit_code_and_stderr(how: str, code: int) -> None:
    """S-PR-01."""
    with pytest.raises(ConnectionClosed) as caught:
        async with acpwire.spawn_agent(sys.executable, str(PROGRAMS / "crash.py"), how, limits=GRACE):
            raise AssertionError
    assert caught.value.exit_code == code
    assert caught.value.stderr_tail == b"out of luck\n"
    assert "out of luck" in str(caught.value)


@on_each_loop
async def test_a_program_that_will_not_end_is_ended_with_all_that_it_started() -> None:
    """S-PR-03, TR-03: a wrapper and its child that ignore the end of input and SIGTERM."""
    limits = Limits(grace=0.2, first_answer=2)
    with pytest.raises(ConnectionClosed) as caught:
        async with acpwire.spawn_agent(sys.executable, str(PROGRAMS / "stubborn.py"), "stays", limits=limits):
            raise AssertionError
    found = re.search(r"'(\d+) (\d+)'", str(caught.value))
    assert found is not None
    await gone(*map(int, found.groups()))


@on_each_loop
async def test_a_program_that_is_not_there_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        async with acpwire.spawn_agent("/nowhere/agent"):
            raise AssertionError


@on_each_loop
async def test_a_command_line_in_one_string_is_told_how_arguments_are_given(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        async with acpwire.spawn_agent("python my_agent.py"):
            raise AssertionError
    assert raised.value.filename == "python my_agent.py"
    assert str(raised.value) == (
        "[Errno 2] No such file or directory; arguments are given one by one, "
        "as in ('python', 'my_agent.py'): 'python my_agent.py'"
    )


@on_each_loop
async def test_other_things_that_are_not_there_and_names_with_spaces_get_no_such_hint(tmp_path: Path) -> None:
    for argv, cwd in ((["/nowhere/agent"], None), (ECHO, "/no where"), (["agent", "my agent.py"], None)):
        with pytest.raises(FileNotFoundError) as raised:
            async with acpwire.spawn_agent(*argv, cwd=cwd):
                raise AssertionError
        assert "one by one" not in str(raised.value)
    program = tmp_path / "my agent"
    program.write_text(f'#!/bin/sh\nexec "{ECHO[0]}" "{ECHO[1]}"\n', "utf-8")
    program.chmod(0o755)
    async with acpwire.spawn_agent(program) as agent:
        assert agent.info.name == "echo"


@pytest.mark.parametrize("name", ["spawn_agent", "connect"])
@on_each_loop
async def test_what_is_awaited_or_used_instead_of_entered_says_so(name: str) -> None:
    manager: Any = acpwire.spawn_agent(*ECHO) if name == "spawn_agent" else acpwire.connect(pair()[0])
    with pytest.raises(UsageError, match=rf"async with acpwire\.{name}\("):
        await manager
    with pytest.raises(UsageError, match=rf"async with acpwire\.{name}\("):
        await manager.new_session(cwd="/")
    assert not hasattr(manager, "_private")
    if name == "spawn_agent":
        async with manager as agent:
            assert (await (await agent.new_session(cwd="/")).ask("hi")).text


@pytest.mark.parametrize(("how", "code"), [("exit", 7), ("signal", -9)])
@on_each_loop
async def test_a_crash_in_mid_prompt_fails_the_prompt_and_is_told_once(how: str, code: int) -> None:
    """S-PR-01, ER-09: exit code and stderr are in every error, and in `closed`."""
    closed = Closed()
    async with acpwire.spawn_agent(*FRAIL, client=closed, limits=GRACE) as agent:
        session = await agent.new_session(cwd="/")
        with pytest.raises(ConnectionClosed) as caught:
            await session.ask(how)
        assert (caught.value.exit_code, caught.value.stderr_tail) == (code, b"out of luck\n")
        await until(lambda: bool(closed.causes))
        assert agent.closed is not None
        assert closed.causes[0].exit_code == agent.closed.exit_code == code
        with pytest.raises(ConnectionClosed, match="out of luck"):
            await agent.new_session(cwd="/")
    assert len(closed.causes) == 1


@on_each_loop
async def test_leaving_in_mid_turn_lets_the_agent_clean_up() -> None:
    """S-PR-06."""
    closed = Closed()
    async with acpwire.spawn_agent(*ECHO, client=closed, limits=GRACE) as agent:
        session = await agent.new_session(cwd="/")
        prompt = await session.prompt("wait")
        await anext(prompt.stream)
    assert b"cleaned up" in agent.stderr_tail
    with pytest.raises(ConnectionClosed, match="closed at this end"):
        await prompt.wait()
    assert [cause.message for cause in closed.causes] == ["the connection was closed at this end"]


@on_each_loop
async def test_starting_an_agent_may_be_cancelled_at_every_wait() -> None:
    async def enter() -> None:
        async with acpwire.spawn_agent(*ECHO, limits=GRACE) as agent:
            await agent.new_session(cwd="/")

    await walk(lambda number: cancelled_at(number, enter()))


SHELL = """read line
echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2,"info":{"name":"sh","version":"1"}}}'
exec cat > /dev/null"""


@on_each_loop
async def test_a_hundred_rounds_leave_nothing() -> None:
    """No task, descriptor, child or object is left, of programs and of agents in the same process."""
    left: list[weakref.ref[Any]] = []

    async def with_a_program() -> None:
        async with acpwire.spawn_agent("sh", "-c", SHELL, limits=GRACE) as agent:
            left.extend([weakref.ref(agent), weakref.ref(agent.peer)])
            with pytest.raises(UsageError):
                await agent.new_session(cwd="/")

    async def in_process() -> None:
        async with connected_to(ScriptedAgent(["a"])) as agent:
            session = await agent.new_session(cwd="/")
            assert (await session.ask("x")).text == "a"
            left.extend([weakref.ref(agent), weakref.ref(session), weakref.ref(agent.peer)])

    for round_ in (with_a_program, in_process):
        await round_()
        before = descriptors()
        for _ in range(100):
            await round_()
        await asyncio.sleep(0)
        assert descriptors() == before
        assert asyncio.all_tasks() == {asyncio.current_task()}
        gc.collect()
        assert not [one for one in left if one() is not None]


# --- what may be sent to whom -----------------------------------------------------------------------------------------

MCP = v2.McpServerStdio(name="m", command="/bin/m")
SYSTEM = v2.SystemPrompt(mode="append", content=[v2.TextContent(text="be brief")])
OVERRIDE = v2.SystemPrompt(mode="override", content=[v2.TextContent(text="be brief")])
ASKS: dict[str, tuple[str, Callable[[AgentConnection], Awaitable[Any]]]] = {
    "fork": ("session.fork", lambda agent: agent.fork_session("s", cwd="/")),
    "delete": ("session.delete", lambda agent: agent.delete_session("s")),
    "archive": ("session.archive", lambda agent: agent.archive_session("s")),
    "unarchive": ("session.archive", lambda agent: agent.unarchive_session("s")),
    "archived": ("session.archive", lambda agent: anext(agent.list_sessions(archived="only"))),
    "status": ("session.status", lambda agent: agent.session_status("s")),
    "directories": (
        "session.additionalDirectories",
        lambda agent: agent.new_session(cwd="/", additional_directories=["/a"]),
    ),
    "mcp": ("session.mcp.stdio", lambda agent: agent.new_session(cwd="/", mcp_servers=[MCP])),
    "mcp of a resumed one": ("session.mcp.stdio", lambda agent: agent.resume_session("s", cwd="/", mcp_servers=[MCP])),
    "mcp of a fork": ("session.fork", lambda agent: agent.fork_session("s", cwd="/", mcp_servers=[MCP])),
    "system prompt": ("session.systemPrompt", lambda agent: agent.new_session(cwd="/", system_prompt=SYSTEM)),
    "auth status": ("auth.status", lambda agent: agent.auth_status()),
    "providers": ("providers", lambda agent: agent.list_providers()),
    "disable": ("providers", lambda agent: agent.disable_provider("p")),
}
PLAIN: dict[str, Callable[[AgentConnection], Awaitable[Any]]] = {
    "new": lambda agent: agent.new_session(cwd="/"),
    "resume": lambda agent: agent.resume_session("s", cwd="/"),
    "list": lambda agent: anext(agent.list_sessions()),
}


@pytest.mark.parametrize("what", ASKS)
@on_each_loop
async def test_what_the_agent_does_not_offer_is_not_sent(what: str) -> None:
    """IN-08, IN-09, IN-14, SS-04, SS-05, SS-27, UN-01..UN-05, UN-08."""
    path, ask = ASKS[what]
    async with connected(capabilities={"session": {}}) as (script, agent):
        with pytest.raises(UsageError, match=rf"IN-14: .* {path}$"):
            await ask(agent)
        await script.expect_nothing()


@pytest.mark.parametrize("what", PLAIN)
@on_each_loop
async def test_an_agent_without_sessions_is_asked_for_none(what: str) -> None:
    """IN-10."""
    async with connected(capabilities={}) as (script, agent):
        with pytest.raises(UsageError, match="IN-14"):
            await PLAIN[what](agent)
        await script.expect_nothing()


@on_each_loop
async def test_a_system_prompt_replaces_the_agents_own_only_where_that_is_offered() -> None:
    """UN-05."""
    async with connected(capabilities={"session": {"systemPrompt": {}}}) as (script, agent):
        with pytest.raises(UsageError, match=r"session\.systemPrompt\.mode\.override"):
            await agent.new_session(cwd="/", system_prompt=OVERRIDE)
        await new_session(script, agent, system_prompt=SYSTEM)


@on_each_loop
async def test_what_is_offered_is_sent() -> None:
    """SS-03, SS-04, SS-05, UN-05."""
    async with connected() as (script, agent):
        made = script.answered("session/new", {"sessionId": "s"})
        new = agent.new_session(
            cwd="/work", additional_directories=["/a"], mcp_servers=[MCP], system_prompt=OVERRIDE, meta={"acme": 1}
        )
        both = asyncio.gather(made, new)
        request, session = await both
        assert request["params"] == {
            "cwd": "/work",
            "additionalDirectories": ["/a"],
            "mcpServers": [{"type": "stdio", "name": "m", "command": "/bin/m"}],
            "systemPrompt": {"mode": "override", "content": [{"type": "text", "text": "be brief"}]},
            "_meta": {"acme": 1},
        }
        assert (session.cwd, session.additional_directories) == ("/work", ("/a",))
        assert (session.transcript.cwd, session.transcript.additional_directories) == ("/work", ("/a",))


@on_each_loop
async def test_a_path_that_is_not_absolute_is_taken_from_here_and_other_roots_are_refused() -> None:
    """SS-03, SS-04; paths of another system pass as they are."""
    async with connected() as (script, agent):
        for cwd, sent in (
            (".", str(Path.cwd())),
            (Path("x"), str(Path.cwd() / "x")),
            ("C:\\work", "C:\\work"),
            ("\\\\server\\share", "\\\\server\\share"),
        ):
            session = await new_session(script, agent, f"s{sent}", cwd=cwd)
            assert session.cwd == sent
        with pytest.raises(UsageError, match="additionalDirectories"):
            await agent.new_session(cwd="/", additional_directories=["relative"])
        await script.expect_nothing()


# --- the rest of what can be asked ------------------------------------------------------------------------------------


@on_each_loop
async def test_status_providers_and_sign_in_are_asked_for_as_the_protocol_says() -> None:
    """UN-03, UN-08, AU-09."""
    methods = [{"type": "agent", "methodId": "web", "name": "Web"}]
    async with connected(auth_methods=methods) as (script, agent):
        status = await while_(script.answered("auth/status", {"state": "authenticated"}), agent.auth_status())
        assert status.state == "authenticated"
        saved = await while_(script.answered("session/status", {"status": "saved"}), agent.session_status("x"))
        assert saved.status == "saved"
        provider = {"providerId": "p", "name": "P", "required": False, "supported": ["openai"]}
        listed = await while_(script.answered("providers/list", {"providers": [provider]}), agent.list_providers())
        assert [one.provider_id for one in listed] == ["p"]
        await while_(script.answered("providers/disable", {}), agent.disable_provider("p"))
        wanted = v2.SetProviderRequest(provider_id="p", api_type="openai", base_url="https://example.com")
        request, _ = await asyncio.gather(script.answered("providers/set", {}), agent.set_provider(wanted))
        assert request["params"] == {"providerId": "p", "apiType": "openai", "baseUrl": "https://example.com"}
        await while_(script.answered("auth/login", {}), agent.login("web"))
        await while_(script.answered("auth/logout", {}), agent.logout())
        with pytest.raises(AuthRequired):
            await while_(script.refused("session/new", -32000), agent.new_session(cwd="/"))


@on_each_loop
async def test_signing_in_is_for_methods_that_the_agent_has_and_carries_out() -> None:
    """AU-02, AU-03, AU-07."""
    async with connected() as (script, agent):
        with pytest.raises(UsageError, match="AU-03"):
            await agent.login("web")
        with pytest.raises(UsageError, match="AU-02"):
            await agent.logout()
        with pytest.raises(UsageError, match="AU-03"):
            await agent.terminal_login("web")
        await script.expect_nothing()
    methods = [
        {"type": "terminal", "methodId": "tty", "name": "T"},
        {"type": "_odd", "methodId": "odd", "name": "O"},
        {"type": "agent", "methodId": "web", "name": "W"},
    ]
    async with connected(auth_methods=methods) as (script, agent):
        for method in ("tty", "odd", "none"):
            with pytest.raises(UsageError, match="AU-03"):
                await agent.login(method)
        for method in ("web", "tty"):  # the one is carried out by the agent, the other's agent was not started here
            with pytest.raises(UsageError, match="AU-05"):
                await agent.terminal_login(method)
        await script.expect_nothing()


class Terminal(Client):
    """Has one at hand."""

    has_terminal = True


LOGIN = (sys.executable, str(PROGRAMS / "login_agent.py"))


@on_each_loop
async def test_signing_in_in_a_terminal_runs_the_agents_program_as_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AU-04, AU-05, SS-02: its arguments and environment besides; then the agent is started anew."""
    token = tmp_path / "token"
    monkeypatch.setenv("HIDDEN", "x")
    options: dict[str, Any] = {
        "env": {"TOKEN": str(token), "BASE": "base", "WHO": "nobody"},
        "unset": ["HIDDEN", "WHO"],
        "limits": GRACE,
    }
    async with acpwire.spawn_agent(*LOGIN, **options) as agent:
        assert agent.auth_methods == [], "a client without a terminal is offered no terminal methods"
    async with acpwire.spawn_agent(*LOGIN, "--base", client=Terminal(), **options) as agent:
        with pytest.raises(AuthRequired):
            await agent.new_session(cwd="/")
        with pytest.raises(ConnectionClosed, match="exit code 5"):
            await agent.terminal_login("fails")
        assert not token.exists()
        await agent.terminal_login("tty")
    async with acpwire.spawn_agent(*LOGIN, client=Terminal(), **options) as agent:
        session = await agent.new_session(cwd="/")
        assert (await session.ask("who am I?")).text == "me base None ['--base', '--sign-in']"


@on_each_loop
async def test_signing_in_in_a_terminal_may_be_cancelled(tmp_path: Path) -> None:
    """Its program is ended then."""
    token = tmp_path / "token"
    env = {"TOKEN": str(token), "BASE": "base"}
    async with acpwire.spawn_agent(*LOGIN, client=Terminal(), env=env, limits=GRACE) as agent:
        task = asyncio.create_task(agent.terminal_login("hangs"))
        await until(token.exists)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


# --- extensions and MCP -----------------------------------------------------------------------------------------------


@on_each_loop
async def test_methods_of_ones_own_go_both_ways() -> None:
    """EX-01."""
    double: Method[Any, Any] = Method(
        "_acme/double", "client", "request", list[int], list[int], v2.SESSION_NEW.decoding
    )
    heard: Method[Any, Any] = Method(
        "_acme/heard", "client", "notification", dict[str, int], None, v2.SESSION_NEW.decoding
    )
    seen: list[Any] = []

    async def doubles(numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]

    async with connected(extensions={double: doubles, heard: seen.append}) as (script, agent):
        await script.send(
            {"jsonrpc": "2.0", "method": "_acme/heard", "params": {"x": 1}},
            {"jsonrpc": "2.0", "id": "d", "method": "_acme/double", "params": [1, 2]},
        )
        assert await script.answer_to("d") == [2, 4]
        assert seen == [{"x": 1}]
        theirs: Method[Any, Any] = Method("_acme/sum", "agent", "request", list[int], int, v2.SESSION_NEW.decoding)
        assert await while_(script.answered("_acme/sum", 3), agent.request(theirs, [1, 2])) == 3
        told_to: Method[Any, None] = Method(
            "_acme/tell", "agent", "notification", dict[str, int], None, v2.SESSION_NEW.decoding
        )
        await agent.notify(told_to, {"y": 2})
        assert (await script.asked("_acme/tell"))["params"] == {"y": 2}


GATED: list[tuple[Any, Any, str]] = [
    (v2.SESSION_NEW, v2.NewSessionRequest(cwd="/"), "IN-14.* session"),
    (v2.SESSION_PROMPT, v2.PromptRequest(session_id="s", prompt=[v2.TextContent(text="x")]), "IN-14.* session"),
    (v2.SESSION_LIST, v2.ListSessionsRequest(), "IN-14.* session"),
    (v2.SESSION_DELETE, v2.DeleteSessionRequest(session_id="s"), r"IN-14.* session\.delete"),
    (v2.SESSION_FORK, v2.ForkSessionRequest(session_id="s", cwd="/"), r"IN-14.* session\.fork"),
    (v2.SESSION_STATUS, v2.SessionStatusRequest(session_id="s"), r"IN-14.* session\.status"),
    (v2.AUTH_STATUS, v2.AuthStatusRequest(), r"IN-14.* auth\.status"),
    (v2.AUTH_LOGIN, v2.LoginAuthRequest(method_id="web"), "AU-02"),
    (v2.AUTH_LOGOUT, v2.LogoutAuthRequest(), "AU-02"),
    (v2.PROVIDERS_LIST, v2.ListProvidersRequest(), "IN-14.* providers"),
    (v2.SESSION_CANCEL, v2.CancelSessionNotification(session_id="s"), "IN-14.* session"),
    (
        v2.MCP_MESSAGE_AGENT,
        v2.MessageMcpNotification(server_id="m", request_id="1", method="x"),
        r"IN-14.* session\.mcp\.acp",
    ),
]


@pytest.mark.parametrize(("method", "params", "reason"), GATED, ids=lambda one: getattr(one, "name", ""))
@on_each_loop
async def test_what_the_agent_does_not_serve_is_not_asked_for_by_the_back_door(
    method: Any, params: Any, reason: str
) -> None:
    """IN-14, AU-02: the protocol's own methods have the same gates there, unless that is wanted."""
    async with connected(capabilities={}) as (script, agent):
        sends = agent.request if method.kind == "request" else agent.notify
        with pytest.raises(UsageError, match=reason):
            await sends(method, params)
        twin: Method[Any, Any] = Method(method.name, "agent", method.kind, Any, Any, method.decoding)
        with pytest.raises(UsageError, match=reason):
            await sends(twin, params)
        await script.expect_nothing()
        sending = asyncio.create_task(sends(method, params, check=False))
        request = await script.asked(method.name)
        if method.kind == "request":
            await script.send(failure(request, -32601))
            with pytest.raises(RequestError):
                await sending
        else:
            await sending


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"cwd": "work"}, "no absolute path"),
        ({"additional_directories": ["/a"]}, r"IN-14.*additionalDirectories"),
        ({"system_prompt": v2.SystemPrompt(mode="append", content=[])}, r"IN-14.*systemPrompt"),
        ({"mcp_servers": [v2.McpServerHttp(name="m", url="http://x")]}, r"IN-14.*mcp\.http"),
    ],
)
@pytest.mark.parametrize("kind", ["new", "resume", "fork"])
@on_each_loop
async def test_a_setup_by_the_back_door_keeps_the_rules(kind: str, members: dict[str, Any], reason: str) -> None:
    """SS-03, SS-04, SS-05, IN-14."""
    setups: dict[str, tuple[Any, Any]] = {
        "new": (v2.SESSION_NEW, v2.NewSessionRequest),
        "resume": (v2.SESSION_RESUME, v2.ResumeSessionRequest),
        "fork": (v2.SESSION_FORK, v2.ForkSessionRequest),
    }
    method, of = setups[kind]
    its_id = {} if kind == "new" else {"session_id": "s"}
    async with connected(capabilities={"session": {"fork": {}}}) as (script, agent):
        with pytest.raises(UsageError, match=reason):
            await agent.request(method, of(**{"cwd": "/", **its_id, **members}))
        with pytest.raises(UsageError, match=r"session\.archive"):
            await agent.request(v2.SESSION_LIST, v2.ListSessionsRequest(archived="only"))
        await script.expect_nothing()
        setup = agent.request(method, of(cwd="/", **its_id))
        result = await while_(script.answered(method.name, {"sessionId": "s"}), setup)
        assert result.config_options == []
        with pytest.raises(UsageError, match="IN-05"):
            await agent.request(v2.INITIALIZE, v2.InitializeRequest(protocol_version=2, info=agent.info))


@on_each_loop
async def test_mcp_over_acp_reaches_the_client_that_serves_it() -> None:
    """UN-06: null is a result, a failure an error; without a server the method is not known."""

    class Serves(Client):
        async def mcp_message(self, request: v2.MessageMcpRequest) -> v2.MessageMcpResponse:
            if request.method == "fails":
                raise ValueError("secret")
            return v2.MessageMcpResponse(result=None)

    params = {"serverId": "m", "requestId": "1", "method": "tools/list"}
    async with connected(Serves()) as (script, agent):
        await script.ask(1, "mcp/message", **params)
        assert await script.answer_to(1) == {"result": None}
        await script.ask(2, "mcp/message", **params | {"method": "fails"})
        assert await script.answer_to(2) == {"code": -32603, "message": "Internal error"}
        note = v2.MessageMcpNotification(server_id="m", request_id="1", method="notifications/x")
        await agent.notify(v2.MCP_MESSAGE_AGENT, note)
        assert (await script.asked("mcp/message"))["params"]["method"] == "notifications/x"
    async with connected() as (script, _):
        await script.ask(1, "mcp/message", **params)
        assert (await script.answer_to(1))["code"] == -32601


# --- callbacks of the connection --------------------------------------------------------------------------------------


@on_each_loop
async def test_signing_in_elsewhere_is_told() -> None:
    """AU-09."""
    seen: list[Any] = []

    class Hears(Client):
        def auth_status(self, status: v2.AuthStatusUpdateNotification) -> None:
            seen.append(status.state)

    async with connected(Hears()) as (script, _):
        line = {"jsonrpc": "2.0", "method": "auth/status_update", "params": {"state": "unauthenticated"}}
        await script.send(line)
        await settled(script)
    assert seen == ["unauthenticated"]


@on_each_loop
async def test_a_closed_callback_that_fails_is_logged_and_all_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Client):
        def closed(self, cause: ConnectionClosed) -> None:
            raise ValueError("at the end")

    async with session_of(Fails()) as (script, session):
        prompt = await prompted(script, session)
    with pytest.raises(ConnectionClosed):
        await prompt.wait()
    assert ".closed failed" in caplog.text


@on_each_loop
async def test_closing_twice_and_at_any_time_is_closing_once() -> None:
    closed = Closed()
    async with connected(closed) as (_, agent):
        await agent.close()
        await agent.close()
        with pytest.raises(ConnectionClosed):
            await agent.new_session(cwd="/")
    assert len(closed.causes) == 1


# --- recording --------------------------------------------------------------------------------------------------------


@on_each_loop
async def test_all_lines_of_both_directions_are_recorded_and_can_be_read_back(tmp_path: Path) -> None:
    """From the first to the last, as they were; a recorder that is given stays open, a path's is closed."""
    path = tmp_path / "capture.jsonl"

    async def talk(record: Any) -> None:
        async with connected(record=record) as (script, agent):
            session = await new_session(script, agent)
            prompt = await prompted(script, session)
            await script.told(RUNNING, chunk("\u00e4"), IDLE)
            await prompt.wait()

    await talk(path)
    records = list(acpwire.read_capture(path))
    assert [(one.sender, getattr(one.message, "method", None)) for one in records] == [
        ("client", "initialize"),
        ("agent", None),
        ("client", "session/new"),
        ("agent", None),
        ("client", "session/prompt"),
        ("agent", "session/update"),
        ("agent", None),
        ("agent", "session/update"),
        ("agent", "session/update"),
        ("agent", "session/update"),
    ]
    assert records[3].result == v2.NewSessionResponse(session_id="s")
    assert records[6].result == v2.PromptResponse(message_id="u1")
    with acpwire.Recorder(tmp_path / "two.jsonl") as recorder:
        await talk(recorder)
        await talk(recorder)
    assert len(list(acpwire.read_capture(tmp_path / "two.jsonl"))) == 2 * len(records)


@on_each_loop
async def test_a_recording_that_cannot_be_opened_is_an_error_before_anything_is_sent(tmp_path: Path) -> None:
    left, right = pair()
    with pytest.raises(OSError, match="nowhere"):
        async with acpwire.connect(right, record=tmp_path / "nowhere" / "x"):
            raise AssertionError
    await left.close()
    await right.close()
    with pytest.raises(OSError, match="nowhere"):
        async with acpwire.spawn_agent(*ECHO, record=tmp_path / "nowhere" / "x", limits=GRACE):
            raise AssertionError


@on_each_loop
async def test_an_agents_sessions_can_be_used_from_many_tasks() -> None:
    """SS-29."""
    turns = [[f"answer {number}"] for number in range(50)]
    async with connected_to(ScriptedAgent(*turns)) as agent:

        async def one() -> str:
            session = await agent.new_session(cwd="/")
            return (await session.ask("x")).text

        found = await asyncio.gather(*(one() for _ in range(50)))
        assert sorted(found) == sorted(f"answer {number}" for number in range(50))
        assert len(agent.sessions) == 50
