"""An agent on the official Python SDK's v2: follows a story, and writes down what it got and what it gave its SDK.

    python agent_official.py STORY RECORD

STORY is a file as `story.py` describes it. RECORD gets a line for everything, once the input has ended. Runs in an
environment of its own, which has the SDK and not this library.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import traceback
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

sdk: Any = importlib.import_module("acp.experimental.v2.agent")
schema: Any = importlib.import_module("acp.experimental.v2.schema")
RequestError: Any = importlib.import_module("acp.exceptions").RequestError

JSON = dict[str, Any]
record: list[str] = []


def note(what: str, value: Any) -> None:
    """Write something down."""
    record.append(json.dumps([what, plain(value)], separators=(",", ":")) + "\n")


def heard(method: str, params: JSON) -> None:
    """Write down what a handler was called with: the members of the request, by the names of the wire."""
    given = {_camel(name): value for name, value in params.items() if value is not None}
    if "story" in given:  # what is in `_meta` comes as further keywords
        given["_meta"] = {"story": given.pop("story")}
    note(method, given)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def plain(value: Any) -> Any:
    """A value of the SDK as JSON, with what was not given left out."""
    if isinstance(value, list):
        return [plain(one) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in cast("dict[str, object]", value).items()}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return value


def classes() -> dict[tuple[str, str | None], Any]:
    """The SDK's classes of updates by their tag, and by their state."""
    found: dict[tuple[str, str | None], Any] = {}
    for model in get_args(schema.UpdateSessionNotification.model_fields["update"].annotation):
        tag, state = (getattr(model.model_fields.get(name), "default", None) for name in ("session_update", "state"))
        if isinstance(tag, str):
            found[tag, state if isinstance(state, str) else None] = model
    return found


UPDATES = classes()


@dataclass
class Session:
    """A session."""

    id: str
    cwd: str
    is_open: bool = True
    told: int = 0
    history: list[JSON] = field(default_factory=list[JSON])
    works: list[Work] = field(default_factory=list["Work"])


@dataclass
class Work:
    """What a prompt is about: how to answer it, and when it is cancelled."""

    session: Session
    prompt: list[Any]
    message_id: str
    answer: asyncio.Future[Any]
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Agent:
    """Follows the story."""

    def __init__(self, story: JSON) -> None:
        self.story = story
        self.sessions: dict[str, Session] = {}
        self.running: set[asyncio.Task[None]] = set()
        self.seen = asyncio.Event()
        self.client: Any = None

    def on_connect(self, client: Any) -> None:
        self.client = client

    # --- what is told ---------------------------------------------------------------------------------------------

    async def tell(self, session_id: str, update: JSON) -> None:
        """Send an update, as an instance of the class that the SDK has for it."""
        params = {"sessionId": session_id, "update": update}
        kind = update["sessionUpdate"]
        state = update["state"] if kind == "state_update" else None
        found = UPDATES.get((kind, state)) or UPDATES.get((kind, None)) or schema.OtherSessionUpdate
        try:
            await self.client.session_update(session_id=session_id, update=found.model_validate(update))
        except (TypeError, ValueError) as error:
            note("refused", {**params, "error": str(error).splitlines()[-2:]})
        else:
            note("update", params)
            if session_id in self.sessions:
                self.sessions[session_id].history.append(update)

    async def outcome(self, what: str, asked: Awaitable[Any]) -> None:
        """What a request of the agent came to, or its error."""
        try:
            note(what, await asked)
        except RequestError as error:
            note(what, {"code": error.code, "data": error.data})

    def asked(self, session_id: str, request: JSON) -> Awaitable[Any]:
        """Ask for permission."""
        subject: JSON = request.get("subject") or {}
        if "toolCall" in subject:
            self.sessions[session_id].history.append({"sessionUpdate": "tool_call_update", **subject["toolCall"]})
        params: JSON = {**request, "sessionId": session_id}
        note("asks", params)
        typed = schema.RequestPermissionRequest.model_validate(params)
        members = {name: getattr(typed, name) for name in typed.model_fields_set if name != "field_meta"}
        asked: Awaitable[Any] = self.client.request_permission(**members, **(request.get("_meta") or {}))
        return asked

    # --- the steps ------------------------------------------------------------------------------------------------

    async def insert(self, work: Work) -> None:
        message = {"sessionUpdate": "user_message", "messageId": work.message_id, "content": plain(work.prompt)}
        await self.tell(work.session.id, message)

    async def answer(self, work: Work) -> None:
        work.answer.set_result(schema.PromptResponse(message_id=work.message_id))

    async def refuse(self, work: Work, error: JSON) -> None:
        work.answer.set_exception(RequestError(error["code"], error["message"], error["data"]))

    async def hold(self, work: Work) -> None:
        await work.cancelled.wait()
        note("held", work.message_id)
        if not work.answer.done():
            work.answer.set_exception(RequestError.request_cancelled())

    async def update(self, work: Work, update: JSON, of: str | None = None) -> None:
        await self.tell(of or work.session.id, update)

    async def count(self, work: Work, count: int, update: JSON) -> None:
        for number in range(count):
            await self.tell(work.session.id, {**update, "content": {**update["content"], "text": f"{number} "}})

    async def endless(self, work: Work, update: JSON) -> None:
        number = 0
        while not work.cancelled.is_set():
            await self.tell(work.session.id, {**update, "content": {**update["content"], "text": f"{number} "}})
            number += 1

    async def wait(self, work: Work) -> None:
        await work.cancelled.wait()
        work.cancelled.clear()

    async def ask(self, work: Work, request: JSON, of: str | None = None) -> None:
        await self.outcome("permission", self.asked(of or work.session.id, request))

    async def withdraw(self, work: Work, request: JSON) -> None:
        asking = asyncio.ensure_future(self.asked(work.session.id, request))
        await self.seen.wait()
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking

    async def elicit(self, work: Work, request: JSON) -> None:
        note("elicits", {**request, "sessionId": work.session.id})
        names = {"requestedSchema": "requested_schema", "elicitationId": "elicitation_id"}
        members = {names.get(name, name): value for name, value in request.items()}
        if "requested_schema" in members:
            members["requested_schema"] = schema.ElicitationSchema.model_validate(members["requested_schema"])
        await self.outcome("elicitation", self.client.create_elicitation(**members, session_id=work.session.id))

    async def complete(self, work: Work, elicitation_id: str) -> None:
        await self.client.complete_elicitation(elicitation_id=elicitation_id)

    async def request(self, work: Work, method: str, params: JSON) -> None:
        await self.outcome("request", self.client.send_extension_request(method, params))

    async def follow(self, work: Work, steps: list[list[Any]]) -> None:
        """Go through steps."""
        try:
            for step, *arguments in steps:
                await getattr(self, step)(work, *arguments)
        except Exception:  # noqa: BLE001  # whatever it is, the other side is to hear of it
            traceback.print_exc()
            os._exit(1)
        work.session.works.remove(work)
        work.over.set()

    async def replay(self, session: Session) -> None:
        """The history once more, each thing emptied before it is told again, for who has it already."""
        emptied: set[tuple[str, str]] = set()
        history, session.history = session.history, []
        for update in history:
            if update["sessionUpdate"] in self.story["live"]:
                continue
            if update["sessionUpdate"] in self.story["empty"]:
                member, empty = self.story["empty"][update["sessionUpdate"]]
                if (empty["sessionUpdate"], update[member]) not in emptied:
                    emptied.add((empty["sessionUpdate"], update[member]))
                    await self.tell(session.id, {**empty, member: update[member]})
            await self.tell(session.id, update)

    def open(self, session_id: str) -> Session:
        """A session that is open."""
        session = self.sessions.get(session_id)
        if session is None or not session.is_open:
            raise RequestError(-32002, "Session not found", {"sessionId": session_id})
        return session

    # --- what is asked of it --------------------------------------------------------------------------------------

    async def initialize(self, **params: Any) -> Any:
        heard("initialize", params)
        return schema.InitializeResponse.model_validate(self.story["initialize"])

    async def login(self, **params: Any) -> Any:
        heard("auth/login", params)

    async def logout(self, **params: Any) -> Any:
        heard("auth/logout", params)

    async def new_session(self, **params: Any) -> Any:
        heard("session/new", params)
        session = Session(f"s{len(self.sessions) + 1}", params["cwd"])
        self.sessions[session.id] = session
        for _, update in self.story["early"]:
            await self.tell(session.id, update)
        return schema.NewSessionResponse.model_validate({"sessionId": session.id, **self.story["setup"]})

    async def list_sessions(self, **params: Any) -> Any:
        heard("session/list", params)
        found = [{"sessionId": one.id, "cwd": one.cwd, "title": f"Session {one.id}"} for one in self.sessions.values()]
        page: JSON = {"sessions": found[1:]} if params["cursor"] == "" else {"sessions": found[:1], "nextCursor": ""}
        return schema.ListSessionsResponse.model_validate(page)

    async def resume_session(self, **params: Any) -> Any:
        heard("session/resume", params)
        session = self.sessions[params["session_id"]]
        session.is_open = True
        if params["replay_from"] is not None:
            await self.replay(session)
        await self.tell(session.id, {"sessionUpdate": "state_update", "state": "idle"})
        return schema.ResumeSessionResponse.model_validate(self.story["setup"])

    async def set_config_option(self, **params: Any) -> Any:
        heard("session/set_config_option", params)
        self.open(params["session_id"])
        changed = [{**one, "currentValue": params["value"]} for one in self.story["setup"]["configOptions"]]
        return schema.SetSessionConfigOptionResponse.model_validate({"configOptions": changed})

    async def close_session(self, **params: Any) -> Any:
        heard("session/close", params)
        session = self.open(params["session_id"])
        session.is_open = False
        for work in [*session.works]:
            work.cancelled.set()
            await work.over.wait()

    async def delete_session(self, **params: Any) -> Any:
        heard("session/delete", params)
        del self.sessions[params["session_id"]]

    async def prompt(self, **params: Any) -> Any:
        heard("session/prompt", params)
        session = self.open(params["session_id"])
        session.told += 1
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        work = Work(session, params["prompt"], f"u{session.told}", answer)
        session.works.append(work)  # at once: the next message may cancel it
        steps = self.story["prompts"].get(work.prompt[0].text, self.story["prompts"]["other"])
        task = asyncio.ensure_future(self.follow(work, steps))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            work.cancelled.set()
            answer.cancel()
            raise

    async def cancel_session(self, **params: Any) -> None:
        heard("session/cancel", params)
        for work in self.open(params["session_id"]).works:
            work.cancelled.set()

    async def handle_extension_request(self, method: str, params: Any) -> Any:
        if method != "_story/echo":
            raise RequestError.method_not_found(method)
        note(method, params)
        return params

    async def handle_extension_notification(self, method: str, params: Any) -> None:
        note(method, params)
        self.seen.set()


if __name__ == "__main__":
    asyncio.run(sdk.run_agent(Agent(json.loads(Path(sys.argv[1]).read_text("utf-8")))))
    Path(sys.argv[2]).write_text("".join(record), "utf-8")
