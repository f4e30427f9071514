"""What is done with a published agent, step by step, and what must come of it.

Owns: the steps, their limits of time, what is compared at once. Does not know: which agent it is, or what its traffic
must look like in between; that is read from the recordings afterwards.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acpwire
from acpwire import v2
from acpwire.transcript import Snapshot
from acpwire.wire.frames import Method

from .agents import KEPT, Published
from .history import differences
from .model import MARK, STORY, TITLE, Model

__all__ = ["Drive"]

SECONDS = 30.0
"""How long a step may take."""
ENDS_WITHIN = 9.0
"""In how many seconds an agent must have ended once its stdin has; the runtime sends a signal after 10."""
LIMITS = acpwire.Limits(first_answer=SECONDS, grace=20.0)
NOTHING: Method[Any, Any] = Method("_acpwire/nothing", "agent", "request", Any, Any, v2.SESSION_NEW.decoding)
"""A method that nobody has."""
CANCELLED = frozenset({"cancelled", "failed"})
"""What becomes of calls whose work was cancelled."""


class Decider(acpwire.Client):
    """Answers questions of permission as it is told."""

    def __init__(self) -> None:
        self.decides = "reject_once"
        self.asked: list[v2.RequestPermissionRequest] = []
        self.shown: list[set[str]] = []
        """For each question, the kinds of content that the call had by then."""
        self.is_asked = asyncio.Event()
        self.was_cancelled = False
        self.states: list[v2.SessionUpdate] = []

    def update(self, session: acpwire.ClientSession, update: v2.SessionUpdate) -> None:
        """Take down states."""
        if update.tag == "state_update":
            self.states.append(update)

    async def request_permission(
        self, session: acpwire.ClientSession, request: v2.RequestPermissionRequest
    ) -> v2.PermissionOption | None:
        """Choose the option of the kind that is wanted; "wait" waits until the question is taken back."""
        self.asked.append(request)
        subject = request.subject
        if isinstance(subject, v2.ToolCallPermissionSubject):
            call = session.transcript.tool_calls[subject.tool_call.tool_call_id]
            self.shown.append({item.tag for item in call.content})
        self.is_asked.set()
        if self.decides == "wait":
            try:
                await asyncio.Event().wait()
            finally:
                self.was_cancelled = True
        return next((option for option in request.options if option.kind == self.decides), None)


class Drive:
    """Drives one agent through all steps; `problems` is what was not as it must be."""

    def __init__(self, agent: Published, program: tuple[str, ...], model: Model, place: Path) -> None:
        self.published = agent
        self.problems: list[str] = []
        self.steps: list[str] = []
        """Those that were begun, in order."""
        self.stderr = b""
        """The end of what it wrote there before it was told to end."""
        self.captures = [place / "first.acp", place / "second.acp"]
        self._program = program
        self._model = model
        self._client = Decider()
        self._is_ending = False
        self._home, self._project = place / "home", place / "project"
        for directory in (self._home, self._project):
            directory.mkdir()
        self._file = self._project / "made.txt"
        model.target = str(self._file)
        self._environment = agent.environment(self._home, model.url)

    async def run(self) -> None:
        """All steps, in two processes. Raises what stops a step."""
        async with self._agent(self.captures[0], "initialize") as agent:
            self._initialized(agent)
            async with self._step("new"):
                session = await self._new(agent)
            async with self._step("prompt"):
                await self._prompt(session)
            async with self._step("tool"):
                await self._tools(session)
            async with self._step("cancel"):
                await self._cancel(session)
            async with self._step("list"):
                await self._list(agent, session)
            told = session.transcript.snapshot()
            async with self._step("resume"):
                await agent.resume_session(session.id, replay=True)
                self._same_still(told, session.transcript.snapshot())
            async with self._step("close"):
                await session.close()
                await self._closed(agent, session)
        async with self._agent(self.captures[1]) as agent:
            async with self._step("resume"):
                again = await self._resume(agent, session.id)
                self._same_history(told, again.transcript.snapshot())
                await self._prompt(again)
            async with self._step("close"):
                await again.close()
                await self._closed(agent, again)
                await agent.delete_session(again)
                self._expect("SS-27", "sessions after the only one was deleted", [], await self._listed(agent))

    # --- around the steps -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _agent(self, capture: Path, step: str | None = None) -> AsyncGenerator[acpwire.AgentConnection]:
        """The agent in a process; that it starts is the step of this name."""
        if step is not None:
            self.steps.append(step)
        started = acpwire.spawn_agent(
            *self._program,
            client=self._client,
            env=self._environment,
            unset=os.environ.keys() - KEPT - self._environment.keys(),
            cwd=self._project,
            record=capture,
            limits=LIMITS,
            on_stderr=self._wrote,
        )
        begin = 0.0
        self._is_ending = False
        async with asyncio.timeout(SECONDS):
            agent = await started.__aenter__()
        try:
            yield agent
            begin = time.monotonic()
        finally:
            self._is_ending = True
            async with asyncio.timeout(SECONDS):
                await started.__aexit__(None, None, None)
        self._expect("TR-07", "whether it ended with its stdin", True, time.monotonic() - begin < ENDS_WITHIN)

    @asynccontextmanager
    async def _step(self, name: str) -> AsyncGenerator[None]:
        if name not in self.steps:
            self.steps.append(name)
        async with asyncio.timeout(SECONDS):
            yield

    def _wrote(self, block: bytes) -> None:
        if not self._is_ending:
            self.stderr = (self.stderr + block)[-4000:]

    def _expect(self, requirement: str, what: str, wanted: object, found: object) -> None:
        if found != wanted:
            self.problems.append(f"{requirement}: {what}: {found!r}, not {wanted!r}")

    async def _refused(self, requirement: str, what: str, doing: Awaitable[object]) -> None:
        """What is done must be refused on this side."""
        try:
            await doing
        except acpwire.UsageError:
            return
        self.problems.append(f"{requirement}: {what} is not refused on this side")

    # --- the steps ------------------------------------------------------------------------------------------------

    def _initialized(self, agent: acpwire.AgentConnection) -> None:
        self._expect("IN-02", "name", self.published.package, agent.info.name)
        self._expect("IN-02", "version", self.published.version, agent.info.version)
        for path in ("session", "session.delete", "session.prompt.image"):
            self._expect("IN-08", f"whether it has {path}", True, agent.supports(path))

    async def _new(self, agent: acpwire.AgentConnection) -> acpwire.ClientSession:
        session = await agent.new_session(cwd=self._project)
        self._expect("ST-07", "whether a new session is busy", False, session.is_busy)
        gates: dict[str, Callable[[], Awaitable[object]]] = {
            "auth.status": agent.auth_status,
            "session.archive": lambda: agent.archive_session(session),
            "session.status": lambda: agent.session_status(session),
            "session.title": lambda: session.set_title(TITLE),
        }
        lacks = tuple(path for path in gates if not agent.supports(path))
        self._expect("IN-14", "capabilities that it lacks", self.published.lacks, lacks)
        for path in lacks:
            await self._refused("IN-14", path, gates[path]())
        await self._refusals(agent, session)
        sound = v2.AudioContent(data="", mime_type="audio/wav")
        await self._refused("PL-04", "a sound", session.prompt(sound))
        options = await session.set_config_option("mode", self.published.asks_in)
        selects = [option for option in options if isinstance(option, v2.SessionConfigSelect)]
        modes = [option.current_value for option in selects if option.config_id == "mode"]
        self._expect("CO-06", "modes", [self.published.asks_in], modes)
        self._expect("CO-06", "options of the session", list(options), list(session.config_options))
        return session

    async def _refusals(self, agent: acpwire.AgentConnection, session: acpwire.ClientSession) -> None:
        """What an agent must not take, and with which error it says so."""
        unknown = v2.UnknownVariant("_unknown", b'{"type":"_unknown"}')
        nobody = "00000000-0000-4000-8000-000000000000"
        cwd = str(self._project)
        resume = v2.ResumeSessionRequest(session_id=session.id, cwd=cwd, replay_from=unknown)
        answers = self._answers
        await answers("EX-06", "an unknown method", -32601, agent.request(NOTHING, {}))
        await answers("CO-05", "an unknown option", -32602, session.set_config_option("nothing", "x"))
        await answers("CO-05", "an unknown value", -32602, session.set_config_option("mode", "nothing"))
        await answers("PL-07", "an unknown block", -32602, session.prompt(unknown, check=False))
        await answers("SS-13", "an unknown cursor", -32602, agent.request(v2.SESSION_RESUME, resume))
        await answers("SS-28", "an unknown session", -32002, agent.resume_session(nobody, cwd=cwd))

    async def _answers(self, requirement: str, what: str, code: int, doing: Awaitable[Any]) -> None:
        """What is done must be answered with an error."""
        found: object = "no error"
        try:
            await doing
        except acpwire.RequestError as error:
            found = error.code
        self._expect(requirement, what, code, found)

    async def _prompt(self, session: acpwire.ClientSession) -> None:
        prompt = await session.prompt("Say it: [story]")
        pieces = [
            update.content.text
            async for update in prompt
            if isinstance(update, v2.AgentMessageChunk) and isinstance(update.content, v2.TextContent)
        ]
        self._expect("MS-05", "what was said", "".join(STORY), "".join(pieces))
        self._expect("SR-02", "reason", "end_turn", prompt.stop_reason)
        self._expect("PL-15", "text of the message", "Say it: [story]", _text(session, prompt.message_id))
        self._expect("ST-02", "whether it is busy", False, session.is_busy)

    async def _tools(self, session: acpwire.ClientSession) -> None:
        for word in ("shell", "write"):
            for decides in ("reject_once", "allow_once"):
                await self._tool(session, word, decides)

    async def _tool(self, session: acpwire.ClientSession, word: str, decides: str) -> None:
        """A prompt for which a tool is asked that needs permission."""
        which = f"{word}, {decides}"
        is_allowed = decides == "allow_once"
        self._client.decides = decides
        self._client.asked.clear()
        self._client.shown.clear()
        before = set(session.transcript.tool_calls)
        turn = await session.ask(f"Use it: [{word}]")
        self._expect("PM-01", f"questions ({which})", 1, len(self._client.asked))
        self._expect("TC-07", f"shown ({which})", [{"terminal" if word == "shell" else "diff"}], self._client.shown)
        calls = [call for name, call in session.transcript.tool_calls.items() if name not in before]
        self._expect("TC-01", f"calls ({which})", 1, len(calls))
        for request, call in zip(self._client.asked, calls, strict=False):
            about = request.subject.tool_call if isinstance(request.subject, v2.ToolCallPermissionSubject) else None
            self._expect("PM-03", f"what it asks of ({which})", call.id, about and about.tool_call_id)
            self._expect("TC-09", f"whether the call has ended ({which})", True, call.is_final)
            self._expect("TC-09", f"whether it completed ({which})", is_allowed, call.status == "completed")
            self._expect("TC-02", f"kind ({which})", {"shell": "execute", "write": "edit"}[word], call.kind)
            terminal = session.transcript.terminals.get(call.id)
            if is_allowed and word == "shell":
                self._expect("TM-06", "output", MARK, terminal and terminal.text.strip())
                self._expect("TM-08", "exit", 0, terminal and terminal.exit_status and terminal.exit_status.exit_code)
        self._expect("PM-07", f"whether the file was written ({which})", is_allowed, self._file.exists())
        if is_allowed:
            self._expect("SR-02", f"reason ({which})", "end_turn", turn.stop_reason)
            self._expect("TC-10", f"whether the model is told ({which})", True, "The tool said: " in turn.text)
            self._file.unlink(missing_ok=True)

    async def _cancel(self, session: acpwire.ClientSession) -> None:
        """In the middle of an answer, while a question waits, and while nothing is done."""
        prompt = await session.prompt("Wait: [hold]")
        async for update in prompt:
            if isinstance(update, v2.AgentMessageChunk):
                break
        held = asyncio.ensure_future(session.prompt("Say it: [story]"))
        await self._listed(session.agent)  # by then it is sent
        await session.cancel()
        self._expect("CA-05", "reason", "cancelled", await prompt.wait())
        await self._answers("PL-28", "a prompt that was held", -32800, held)
        taken_back = await asyncio.to_thread(self._model.taken_back.wait, SECONDS / 2)
        self._expect("CA-04", "whether the model is asked no more", True, taken_back)
        self._client.decides = "wait"
        self._client.is_asked.clear()
        before = set(session.transcript.tool_calls)
        prompt = await session.prompt("Use it: [shell]")
        await self._client.is_asked.wait()
        await session.cancel()
        self._expect("CA-05", "reason while a question waits", "cancelled", await prompt.wait())
        self._expect("CA-03", "whether the question was taken back", True, self._client.was_cancelled)
        calls = [call for name, call in session.transcript.tool_calls.items() if name not in before]
        left = [call.kind for call in calls if call.provisional or call.status not in CANCELLED]
        self._expect("TC-09", "calls that were left unfinished when cancelled", [], left)
        self._expect("PM-07", "whether the file was written", False, self._file.exists())
        self._client.states.clear()
        await session.cancel()
        await self._listed(session.agent)
        self._expect("CA-05", "states told though nothing was cancelled", [], self._client.states)

    async def _list(self, agent: acpwire.AgentConnection, session: acpwire.ClientSession) -> None:
        self._expect("SS-20", "sessions", [session.id], await self._listed(agent))
        self._expect("SS-20", "of the directory", [session.id], await self._listed(agent, self._project))
        self._expect("SS-20", "of another", [], await self._listed(agent, self._home))
        titles = [info.title async for info in agent.list_sessions()]
        told = session.transcript.info.get("title")
        self._expect("SS-24", "titles", [told], titles)

    async def _listed(self, agent: acpwire.AgentConnection, cwd: Path | None = None) -> list[str]:
        return [info.session_id async for info in agent.list_sessions(cwd=cwd)]

    async def _closed(self, agent: acpwire.AgentConnection, session: acpwire.ClientSession) -> None:
        """What is closed is known no more, is still listed, and may be closed again."""
        request = v2.PromptRequest(session_id=session.id, prompt=[v2.TextContent(text="Say it: [story]")])
        try:
            await agent.request(v2.SESSION_PROMPT, request)
            self.problems.append("CA-12: a session that was closed takes a prompt")
        except acpwire.RequestError as error:
            known = error.session_id if isinstance(error, acpwire.SessionNotFound) else None
            self._expect("SS-28", "the session that is not there", session.id, known)
            self._expect("SS-28", "the error", -32002, error.code)
        try:
            await agent.request(v2.SESSION_CLOSE, v2.CloseSessionRequest(session_id=session.id))
        except acpwire.RequestError as error:
            self.problems.append(f"SS-25: closing what is closed: {error}")
        self._expect("SS-20", "sessions after closing", [session.id], await self._listed(agent))

    async def _resume(self, agent: acpwire.AgentConnection, session_id: str) -> acpwire.ClientSession:
        """Without its history, and then with it."""
        silent = await agent.resume_session(session_id, cwd=self._project)
        self._expect("SS-11", "history that nobody asked for", [], [one.id for one in silent.transcript.timeline])
        self._expect("ST-09", "state", "idle", getattr(silent.state, "state", None))
        await silent.close()
        again = await agent.resume_session(session_id, cwd=self._project, replay=True)
        self._expect("SS-16", "state", "idle", getattr(again.state, "state", None))
        return again

    def _same_history(self, told: Snapshot, again: Snapshot) -> None:
        """What another process replays may be less, as not all is retained, but nothing else (SS-12, PL-23)."""
        others, lost = differences(told, again)
        self.problems += [f"SS-12: {other}" for other in others]
        self._expect("PL-23", "what it forgets", sorted(self.published.forgets), lost)

    def _same_still(self, told: Snapshot, again: Snapshot) -> None:
        """What is replayed to who knows it changes nothing (SS-19)."""
        others, lost = differences(told, again)
        self.problems += [f"SS-19: {other}" for other in others]
        self.problems += [f"SS-19: a replay takes back: {name}" for name in lost]


def _text(session: acpwire.ClientSession, message_id: str) -> str | None:
    message = session.transcript.messages.get(("user", message_id))
    return None if message is None else message.text
