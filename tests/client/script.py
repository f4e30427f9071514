"""A scripted agent that has a client on the other end, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import acpwire
from acpwire import v2
from acpwire.client import AgentConnection, Client, ClientSession, Prompt
from acpwire.errors import ConnectionClosed
from acpwire.limits import Limits
from acpwire.testing import ScriptedPeer
from acpwire.transports import pair

T = TypeVar("T")

ALL: dict[str, Any] = {
    "session": {
        "prompt": {"image": {}, "audio": {}, "embeddedContext": {}},
        "mcp": {"stdio": {}, "http": {}, "acp": {}},
        "delete": {},
        "additionalDirectories": {},
        "systemPrompt": {"mode": {"override": {}}},
        "fork": {},
        "archive": {},
        "status": {},
        "title": {},
    },
    "auth": {"status": {}},
    "providers": {},
}
"""The capabilities of an agent that serves everything."""
IDLE: dict[str, Any] = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
RUNNING: dict[str, Any] = {"sessionUpdate": "state_update", "state": "running"}
OPTIONS: list[dict[str, Any]] = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "never", "name": "Never", "kind": "reject_always"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
REJECTED: dict[str, Any] = {"outcome": {"outcome": "selected", "optionId": "no"}}
ALLOWED: dict[str, Any] = {"outcome": {"outcome": "selected", "optionId": "yes"}}
CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}


def chunk(text: str, message_id: str = "a1") -> dict[str, Any]:
    """A piece of an agent's message."""
    return {
        "sessionUpdate": "agent_message_chunk",
        "messageId": message_id,
        "content": {"type": "text", "text": text},
    }


def user(message_id: str, text: str = "hi") -> dict[str, Any]:
    """The echo of a prompt."""
    return {"sessionUpdate": "user_message", "messageId": message_id, "content": [{"type": "text", "text": text}]}


def told(update: Any, session: str = "s") -> dict[str, Any]:
    """The line that tells an update."""
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


def answer(request: Any, result: Any) -> dict[str, Any]:
    """The line that answers a request."""
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def failure(request: Any, code: int, message: str = "no", **data: Any) -> dict[str, Any]:
    """The line that refuses a request."""
    return {
        "jsonrpc": "2.0",
        "id": request["id"],
        "error": {"code": code, "message": message, **({"data": data} if data else {})},
    }


class Script(ScriptedPeer):
    """Answers what a client asks for, as a test says."""

    async def told(self, *updates: Any, session: str = "s") -> None:
        """Send updates of a session, in one write."""
        await self.send(*(told(update, session) for update in updates))

    async def asked(self, method: str) -> Any:
        """The next line, which is a request or notification by this method."""
        message = await self.receive_json()
        assert message.get("method") == method, message
        return message

    async def answered(self, method: str, result: Any) -> Any:
        """Receive a request by this method, answer it, and return it."""
        request = await self.asked(method)
        await self.send(answer(request, result))
        return request

    async def refused(self, method: str, code: int, **data: Any) -> Any:
        """Receive a request by this method, and answer it with an error."""
        request = await self.asked(method)
        await self.send(failure(request, code, **data))
        return request

    async def ask(self, number: int | str, method: str, /, **params: Any) -> None:
        """Send a request."""
        await self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    async def answer_to(self, number: int | str) -> Any:
        """The answer to it: its result, or its error. It is the next line."""
        message = await self.receive_json()
        assert message.get("id") == number, message
        assert "method" not in message, message
        return message.get("result", message.get("error"))

    async def permission(self, number: int | str, session: str = "s", **params: Any) -> None:
        """Ask for permission."""
        await self.ask(
            number,
            "session/request_permission",
            **{"sessionId": session, "title": "May I?", "options": OPTIONS, **params},
        )

    async def end(self) -> None:
        """Receive up to the end of what the client sends."""
        with suppress(EOFError, ConnectionClosed):
            while True:
                await self.receive()

    async def cancel(self, number: int | str) -> None:
        """Ask for the answer to a request of its own no more."""
        await self.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": number}})


async def while_(script: Coroutine[Any, Any, Any], action: Coroutine[Any, Any, T]) -> T:
    """The outcome of what a client does while the script goes on; a script that fails is what is raised."""
    task = asyncio.ensure_future(action)
    try:
        await script
    except BaseException:
        task.cancel()
        await asyncio.wait([task])
        raise
    return await task


def initialized(capabilities: Any = ALL, **members: Any) -> dict[str, Any]:
    """The result of `initialize`."""
    return {
        "protocolVersion": 2,
        "info": {"name": "script", "version": "1"},
        "capabilities": capabilities,
        **members,
    }


@asynccontextmanager
async def connected(
    client: Client | None = None,
    *,
    capabilities: Any = ALL,
    auth_methods: Any = (),
    limits: Limits | None = None,
    **options: Any,
) -> AsyncGenerator[tuple[Script, AgentConnection], None]:
    """A script of an agent, and a client's connection to it; initialized."""
    left, right = pair()
    async with Script(left) as script:
        members = {"authMethods": list(auth_methods)} if auth_methods else {}
        shaking = asyncio.ensure_future(script.answered("initialize", initialized(capabilities, **members)))
        async with acpwire.connect(right, client, limits=limits or Limits(grace=5), **options) as agent:
            await shaking
            yield script, agent


async def new_session(
    script: Script, agent: AgentConnection, session_id: str = "s", cwd: Any = "/work", **setup: Any
) -> ClientSession:
    """Make a session."""
    made = script.answered("session/new", {"sessionId": session_id})
    return await while_(made, agent.new_session(cwd=cwd, **setup))


@asynccontextmanager
async def session_of(
    client: Client | None = None, **options: Any
) -> AsyncGenerator[tuple[Script, ClientSession], None]:
    """A script of an agent, and a session of a client with it."""
    async with connected(client, **options) as (script, agent):
        yield script, await new_session(script, agent)


async def prompted(script: Script, session: ClientSession, message_id: str = "u1", text: str = "hi") -> Prompt:
    """Send a prompt that is accepted: the echo, then the answer; its work has not begun."""

    async def accept() -> None:
        request = await script.asked("session/prompt")
        await script.send(told(user(message_id, text), session.id), answer(request, {"messageId": message_id}))

    return await while_(accept(), session.prompt(text))


async def settled(script: Script) -> None:
    """Wait until all that was sent is delivered."""
    await script.expect_nothing()


def texts(updates: Any) -> list[str]:
    """The texts of those updates that are pieces of an agent's message; of states, the state."""
    found: list[str] = []
    for update in updates:
        match update:
            case v2.AgentMessageChunk(content=v2.TextContent(text=text)):
                found.append(text)
            case v2.StateUpdate(state=state):
                found.append(state)
            case _:
                found.append(update.tag)
    return found
