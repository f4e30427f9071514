"""The official Python SDK's v2 client, driving an agent; prints what its handlers got and what its requests came to.

    python official.py COMMAND ARGUMENTS...

Runs in an environment of its own, which has the SDK and not this library.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Callable
from typing import Any, cast

sdk: Any = importlib.import_module("acp.experimental.v2.client")
schema: Any = importlib.import_module("acp.experimental.v2.schema")
RequestError: Any = importlib.import_module("acp.exceptions").RequestError


def say(what: str, value: Any) -> None:
    """Print a line."""
    print(json.dumps([what, plain(value)]), flush=True)


def plain(value: Any) -> Any:
    """A value of the SDK as JSON, with what was not given left out."""
    if isinstance(value, list):
        return [plain(one) for one in cast("list[object]", value)]
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return value


class Client:
    """Writes down what it gets, and decides as it is told."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.decides = "allow_once"

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        params = {"sessionId": session_id, "update": plain(update)}
        say("update", params)
        self.heard.put_nowait(params)

    update_session = session_update

    async def request_permission(self, session_id: str, title: str, options: Any, **more: Any) -> Any:
        say("permission", {"title": title, "options": plain(list(options))})
        self.heard.put_nowait({"permission": title})
        if self.decides == "wait":
            try:
                await asyncio.Event().wait()
            finally:
                say("taken back", title)
        return {"outcome": {"outcome": "selected", "optionId": self.decides}}

    async def until(self, is_it: Callable[[dict[str, Any]], bool]) -> None:
        """Wait for something to come."""
        while not is_it(await self.heard.get()):
            pass

    async def idle(self, session_id: str) -> None:
        """Wait until a session is idle."""
        await self.until(lambda one: one.get("sessionId") == session_id and one["update"].get("state") == "idle")


async def tried(doing: Any) -> Any:
    """What a request came to, or its error."""
    try:
        return plain(await doing)
    except RequestError as error:
        return {"code": error.code, "message": str(error)}


async def main(command: str, *arguments: str) -> None:
    """Drive the agent."""
    process = await asyncio.create_subprocess_exec(
        command, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**24
    )
    client = Client()
    agent = sdk.connect_to_agent(client, process.stdin, process.stdout)
    info = schema.Implementation(name="official", version="1")
    say("initialize", await agent.initialize(protocol_version=2, info=info))
    made = plain(await agent.new_session(cwd="/project"))
    say("new", made)
    session = made["sessionId"]

    def prompt(text: str) -> Any:
        return tried(agent.prompt(session_id=session, prompt=[{"type": "text", "text": text}]))

    for text in ("say everything", "hello", "fail"):
        say("prompt", await prompt(text))
        await client.idle(session)
    client.decides = "wait"
    await prompt("ask and wait")
    held = asyncio.ensure_future(prompt("never inserted"))
    await client.until(lambda one: "permission" in one)
    await agent.cancel_session(session_id=session)
    await client.idle(session)
    say("held", await held)
    setting = agent.set_config_option(session_id=session, config_id="model", type="id", value="large")
    say("option", await tried(setting))
    say("replay", None)
    replay = {"type": "start"}
    say("resume", await tried(agent.resume_session(session_id=session, cwd="/project", replay_from=replay)))
    say("list", await tried(agent.list_sessions(cwd="/project")))
    say("close", await tried(agent.close_session(session_id=session)))
    say("list", await tried(agent.list_sessions()))
    say("gone", await prompt("x"))
    await agent.close()
    if process.stdin is not None:
        process.stdin.close()
    say("exit", await process.wait())


asyncio.run(main(*sys.argv[1:]))
