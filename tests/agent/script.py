"""A scripted client that has an agent on the other end, in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from acpwire import v2
from acpwire.agent import Agent, AgentSession, UserPrompt, serve
from acpwire.limits import Limits
from acpwire.testing import ScriptedPeer
from acpwire.transports import pair

INITIALIZE: dict[str, Any] = {"protocolVersion": 2, "info": {"name": "script", "version": "1"}}
TEXT = [{"type": "text", "text": "hi"}]


class Script(ScriptedPeer):
    """Sends requests by number and tells answers from what comes between them."""

    def __init__(self, transport: Any) -> None:
        super().__init__(transport)
        self.seen: list[Any] = []
        """Everything that came and was not asked for yet, in order."""
        self._next = 0

    async def ask(self, method: str, /, **params: Any) -> int:
        """Send a request, and return its id."""
        self._next += 1
        await self.send({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        return self._next

    async def tell(self, method: str, /, **params: Any) -> None:
        """Send a notification."""
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def answer(self, request: Any, result: Any) -> None:
        """Answer a request of the agent."""
        await self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        """Receive up to the first message that is wanted, and return it; it and what came before is in `seen`."""
        while True:
            message = await self.receive_json()
            self.seen.append(message)
            if wanted(message):
                return message

    async def answered(self, request_id: int) -> Any:
        """The answer to a request: its result, or its error."""
        for message in self.seen:
            if message.get("id") == request_id and "method" not in message:
                return message.get("result", message.get("error"))
        message = await self.until(lambda one: one.get("id") == request_id and "method" not in one)
        return message.get("result", message.get("error"))

    async def call(self, method: str, /, **params: Any) -> Any:
        """Send a request and return its result, or its error."""
        return await self.answered(await self.ask(method, **params))

    async def asked(self, method: str) -> Any:
        """The next request of the agent by this method."""
        return await self.until(lambda one: one.get("method") == method and "id" in one)

    async def idle(self, session: str) -> Any:
        """Receive up to the next idle state of a session, and return that."""

        def is_idle(message: Any) -> bool:
            params = message.get("params", {})
            return bool(params.get("sessionId") == session and params.get("update", {}).get("state") == "idle")

        return (await self.until(is_idle))["params"]["update"]

    async def running(self, session: str) -> None:
        """Receive up to the next running state of a session."""
        await self.until(
            lambda one: (
                one.get("params", {}).get("sessionId") == session
                and one["params"].get("update", {}).get("state") == "running"
            )
        )

    async def prompt(self, session: str, text: str = "hi") -> int:
        """Send a prompt, and return the request's id."""
        return await self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def updates(self, session: str) -> list[Any]:
        """The updates of a session that have come, in order."""
        return [
            message["params"]["update"]
            for message in self.seen
            if message.get("method") == "session/update" and message["params"]["sessionId"] == session
        ]

    def tags(self, session: str) -> list[str]:
        """Their tags; of states, the state."""
        return [update.get("state", update["sessionUpdate"]) for update in self.updates(session)]


@asynccontextmanager
async def serving(
    agent: Agent, *, limits: Limits | None = None, initialize: Any = INITIALIZE
) -> AsyncGenerator[Script, None]:
    """An agent, and the script of its client; initialized unless `initialize` is None."""
    left, right = pair()
    task = asyncio.create_task(serve(agent, left, limits=limits or Limits(grace=5)))
    async with Script(right) as script:
        if initialize is not None:
            answer = await script.call("initialize", **initialize)
            assert answer["protocolVersion"] == 2
        yield script
    await task


async def session_of(script: Script, **params: Any) -> str:
    """Make a session, and return its id."""
    answer = await script.call("session/new", cwd="/work", **params)
    session: str = answer["sessionId"]
    return session


Prompt = Callable[[AgentSession, UserPrompt], Any]


def agent_of(prompt: Prompt, **members: Any) -> Agent:
    """An agent that does this with a prompt, and has other members besides."""

    async def does(_: Agent, session: AgentSession, user: UserPrompt) -> Any:
        return await prompt(session, user)

    kind = type("Made", (Agent,), {"info": v2.Implementation(name="made", version="1"), "prompt": does, **members})
    made: Agent = kind()
    return made


def dumps(value: Any) -> str:
    """A value as text, to look for something in it."""
    return json.dumps(value)


async def said(prompt: Callable[[AgentSession], Any], ends: str = "end_turn", **members: Any) -> list[Any]:
    """What a prompt that does this makes an agent say, without the user's message and the states."""

    async def does(session: AgentSession, _: UserPrompt) -> Any:
        return await prompt(session)

    async with serving(agent_of(does, **members)) as script:
        session = await session_of(script)
        await script.prompt(session)
        idle = await script.idle(session)
        assert idle["stopReason"] == ends, script.seen
        await script.expect_nothing()
        return [one for one in script.updates(session)[1:] if one["sessionUpdate"] != "state_update"]


async def doing(script: Script, session: str) -> Any:
    """Have the agent begin with what a prompt asks for, and return the answer."""
    return await script.answered(await script.prompt(session))
