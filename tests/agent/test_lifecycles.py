"""Random lifecycles of sessions, four on each connection, and what holds of every one of them.

A plan is what a client does, with turns of the loop between; what a prompt says is what the agent does with it. In the
end the client answers what is asked, cancels and closes, so that everything has to end.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from acpwire import v2
from acpwire.agent import Agent, AgentSession, UserPrompt, serve
from acpwire.errors import ConnectionClosed, RequestError, UsageError
from acpwire.limits import Limits
from acpwire.transcript import Transcript
from acpwire.transports import Transport, pair

SESSIONS = 4
EXAMPLES = 2_500
"""Of four sessions each: ten thousand lifecycles."""
FINAL = {"completed", "failed", "cancelled"}
REASONS = {"end_turn", "max_tokens", "_acme", "error", "cancelled"}

# --- what the agent does ----------------------------------------------------------------------------------------------

DEEDS = (
    *("say", "think", "plan", "notice", "turn", "wait", "ask", "shrug"),
    *("fail", "refuse", "swallow", "wrap", "group", "child", "beside", "again"),
)
ENDS = ("", "max_tokens", "_acme", "invented")


class Random(Agent):
    """Does what prompts say, word by word; words in brackets of its tools are done inside those."""

    info = v2.Implementation(name="random", version="1")
    retain = True

    def __init__(self) -> None:
        self.sessions: dict[str, AgentSession] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    async def new_session(self, session: AgentSession) -> None:
        self.sessions[session.id] = session

    async def prompt(self, session: AgentSession, prompt: UserPrompt) -> str | None:
        frame, deeds, end = json.loads(prompt.text)
        async with asyncio.TaskGroup() as group:
            group.create_task(self.within(session, frame, deeds))
        return end or None

    async def within(self, session: AgentSession, frame: str, deeds: list[str]) -> None:
        """Do something inside a tool call, a compaction, a terminal, or nothing."""
        if frame == "tool":
            async with session.tool_call("x", can_cancel=True) as call:
                await self.do(session, deeds)
                await call.write("done")
        elif frame == "terminal":
            async with session.terminal() as terminal:
                await terminal.write("$ ")
                await self.do(session, deeds)
        elif frame == "compaction":
            async with session.compaction() as compaction:
                await self.do(session, deeds)
                await compaction.write("kept")
        else:
            await self.do(session, deeds)

    async def do(self, session: AgentSession, deeds: list[str]) -> None:
        """Do one thing after the other."""
        async with session.agent_message() as message:
            for deed in deeds:
                if deed == "say":
                    await message.write("a", "b")
                elif deed == "swallow":
                    try:
                        await asyncio.sleep(0)
                    except asyncio.CancelledError:
                        return
                else:
                    await self.one(session, deed)

    async def one(self, session: AgentSession, deed: str) -> None:
        """Do one thing."""
        match deed:
            case "think":
                async with session.thought() as thought:
                    await thought.write("hm")
            case "plan":
                await session.plan("one", "two")
            case "notice":
                await session.notice("x")
            case "turn":
                await asyncio.sleep(0)
            case "wait":
                await asyncio.Event().wait()
            case "ask":
                if await session.request_permission("x"):
                    await session.notice("allowed")
            case "shrug":
                await session.request_permission("x", blocks=False)
            case "fail":
                raise ValueError
            case "refuse":
                raise RequestError(-32000, "sign in")
            case "wrap":
                await wrapped(asyncio.Event().wait())
            case "group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(self.within(session, "tool", ["turn", "ask"]))
                    group.create_task(self.within(session, "tool", ["turn", "fail"]))
            case "child":
                child = await session.subagent("x", can_cancel=True)
                self.sessions[child.id] = child
                async with child.foreground():
                    await self.within(child, "tool", ["say", "ask"])
            case "beside":
                self.start(self.beside(session))
            case _:
                self.start(self.again(session))

    async def beside(self, session: AgentSession) -> None:
        """Go on in the background."""
        async with session.terminal() as terminal, session.background(terminal):
            await asyncio.Event().wait()

    async def again(self, session: AgentSession) -> None:
        """Work without being asked."""
        async with session.foreground():
            await self.within(session, "tool", ["turn", "say", "turn"])

    def start(self, doing: Any) -> None:
        """Do it in a task of its own; a session that is closed meanwhile ends it."""

        async def run() -> None:
            with suppress(UsageError, ConnectionClosed, asyncio.CancelledError):
                await doing

        task = asyncio.get_running_loop().create_task(run())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


async def wrapped(what: Any) -> None:
    """Wait, and make an exception of one's own of a cancellation."""
    try:
        await what
    except asyncio.CancelledError as error:
        raise ConnectionResetError from error


# --- what the client does ---------------------------------------------------------------------------------------------

prompts = st.tuples(
    st.sampled_from(["", "tool", "terminal", "compaction"]),
    st.lists(st.sampled_from(DEEDS), max_size=4),
    st.sampled_from(ENDS),
)
steps = st.one_of(
    st.tuples(st.just("prompt"), st.integers(0, SESSIONS - 1), prompts),
    st.tuples(
        st.sampled_from(["cancel", "close", "resume", "replay", "take back", "cancel call"]),
        st.integers(0, SESSIONS - 1),
        st.none(),
    ),
    st.tuples(st.sampled_from(["allow", "reject", "error", "cancelled"]), st.integers(0, 9), st.none()),
    st.tuples(st.just("turn"), st.integers(1, 8), st.none()),
)
OUTCOMES = {
    "allow": {"outcome": "selected", "optionId": "allow_once"},
    "reject": {"outcome": "selected", "optionId": "reject_once"},
    "cancelled": {"outcome": "cancelled"},
}


class Client:
    """Sends, and keeps all that comes."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.seen: list[Any] = []
        self.requests: dict[int, tuple[str, str]] = {}
        self.prompts: dict[str, list[int]] = defaultdict(list)
        self.sessions: list[str] = []
        self.open: list[Any] = []
        self.answered: set[int] = set()
        self._came = asyncio.Event()

    async def read(self) -> None:
        """Take in what comes, until nothing does any more."""
        rest = b""
        while block := await self.transport.read():
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                message = json.loads(line)
                self.seen.append(message)
                if message.get("method") == "session/request_permission":
                    self.open.append(message)
                elif message.get("method") == "$/cancel_request":
                    self.open = [one for one in self.open if one["id"] != message["params"]["requestId"]]
                elif "method" not in message:
                    self.answered.add(message["id"])
            self._came.set()

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        await self.transport.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def ask(self, method: str, session: str = "", **params: Any) -> int:
        """Send a request."""
        number = len(self.requests) + 1
        self.requests[number] = (method, session)
        await self.send(
            {"id": number, "method": method, "params": ({"sessionId": session} if session else {}) | params}
        )
        return number

    async def until_answered(self, numbers: Iterable[int]) -> None:
        """Wait for answers."""
        wanted = set(numbers)
        while not wanted <= self.answered:
            self._came.clear()
            await self._came.wait()

    async def step(self, what: str, where: int, prompt: Any) -> None:
        """Do one step of a plan."""
        session = self.sessions[where % SESSIONS]
        match what:
            case "prompt":
                block = {"type": "text", "text": json.dumps(prompt)}
                self.prompts[session].append(await self.ask("session/prompt", session, prompt=[block]))
            case "cancel":
                await self.send({"method": "session/cancel", "params": {"sessionId": session}})
            case "close":
                await self.ask("session/close", session)
            case "resume":
                await self.ask("session/resume", session, cwd="/")
            case "replay":
                await self.ask("session/resume", session, cwd="/", replayFrom={"type": "start"})
            case "take back":
                numbers = self.prompts[session]
                await self.send({"method": "$/cancel_request", "params": {"requestId": numbers[-1] if numbers else 0}})
            case "cancel call":
                calls = [one["toolCallId"] for one in updates_of(self.seen, session) if "toolCallId" in one]
                await self.ask("tool_call/cancel", session, toolCallId=calls[-1] if calls else "none")
            case "turn":
                for _ in range(where):
                    await asyncio.sleep(0)
            case _:
                if self.open:
                    await self.settle(self.open.pop(where % len(self.open)), what)

    async def settle(self, request: Any, how: str) -> None:
        """Answer a request of the agent."""
        if how == "error":
            await self.send({"id": request["id"], "error": {"code": 1, "message": "no"}})
        else:
            await self.send({"id": request["id"], "result": {"outcome": OUTCOMES[how]}})


def updates_of(seen: list[Any], session: str) -> list[Any]:
    """The updates of a session among messages."""
    return [
        one["params"]["update"]
        for one in seen
        if one.get("method") == "session/update" and one["params"]["sessionId"] == session
    ]


def user_messages(client: Client, session: str) -> list[Any]:
    """The user's messages, as they were told; replayed ones more than once."""
    return [one for one in updates_of(client.seen, session) if one["sessionUpdate"] == "user_message"]


async def live(plan: list[Any]) -> tuple[Client, Random]:
    """Live through a plan, to the end of everything."""
    left, right = pair()
    agent, client = Random(), Client(right)
    serving = asyncio.create_task(serve(agent, left, limits=Limits(grace=2)))
    reading = asyncio.create_task(client.read())
    start = await client.ask("initialize", protocolVersion=2, info={"name": "random", "version": "1"})
    made = [await client.ask("session/new", cwd="/") for _ in range(SESSIONS)]
    await client.until_answered([start, *made])
    client.sessions = [one["result"]["sessionId"] for one in client.seen if one.get("id") in made]
    for what, where, prompt in plan:
        await client.step(what, where, prompt)
    await client.until_answered(
        [await client.ask("session/close", session) for session in client.sessions] + list(client.requests)
    )
    await right.close()
    await serving
    await reading
    await asyncio.gather(*agent.tasks)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return client, agent


# --- what holds -------------------------------------------------------------------------------------------------------


def check_answers(client: Client) -> None:
    """Every request is answered once, and after the answer to a close nothing is said of its session."""
    answers = Counter(one["id"] for one in client.seen if "method" not in one)
    assert answers == Counter(dict.fromkeys(client.requests, 1))
    closed: set[str] = set()
    for message in client.seen:
        if "method" in message:
            assert message.get("params", {}).get("sessionId") not in closed
        elif client.requests[message["id"]][0] == "session/close":
            closed.add(client.requests[message["id"]][1])


def check_prompts(client: Client, session: str) -> None:
    """A prompt was inserted and told once, in the order received, or it was refused and never there."""
    answers = {one["id"]: one for one in client.seen if "method" not in one}
    answered = [answers[number] for number in client.prompts[session]]
    inserted = [one["result"]["messageId"] for one in answered if "result" in one]
    assert {one["error"]["code"] for one in answered if "error" in one} <= {-32800, -32002}
    echoed = list(
        dict.fromkeys(
            one["messageId"] for one in updates_of(client.seen, session) if one["sessionUpdate"] == "user_message"
        )
    )
    assert echoed == inserted
    assert len(set(inserted)) == len(inserted)


def check_states(client: Client, session: str) -> None:
    """Every stretch of work ends with one idle that has a reason; other states are the last one told again."""
    states = [one for one in updates_of(client.seen, session) if one["sessionUpdate"] == "state_update"]
    ended, held = 0, {"state": "idle"}
    for state in states:
        told = {name: value for name, value in state.items() if name not in {"sessionUpdate", "background"}}
        if told["state"] == "idle" and held["state"] != "idle":
            ended += 1
            assert told["stopReason"] in REASONS
            assert ("error" in told) == (told["stopReason"] == "error")
        elif told["state"] == "idle":
            assert told == held, "told again"
        held = told
    assert held["state"] == "idle"
    alone = "again" not in json.dumps(user_messages(client, session))
    if alone and session in client.sessions:
        inserted = {
            one["messageId"] for one in updates_of(client.seen, session) if one["sessionUpdate"] == "user_message"
        }
        assert ended == len(inserted)


def check_entities(client: Client, session: str) -> None:
    """What has begun ends once, and nothing is said of it afterwards, but where it is replayed."""
    replays = sum(1 for method, of in client.requests.values() if method == "session/resume" and of == session)
    for member in ("toolCallId", "compactionId", "terminalId"):
        entities: dict[str, list[Any]] = defaultdict(list)
        for update in updates_of(client.seen, session):
            if member in update:
                entities[update[member]].append(update)
        for said in entities.values():
            ends = [
                index
                for index, one in enumerate(said)
                if one.get("status") in FINAL or one.get("exitStatus") is not None
            ]
            assert ends
            if not replays:
                assert ends == [len(said) - 1]


def check_transcript(client: Client, agent: Random, session: str) -> None:
    """What the client makes of it all is what the agent has retained."""
    folded = Transcript(cwd="/")
    for update in updates_of(client.seen, session):
        folded.apply(v2.decode(v2.SessionUpdate, json.dumps(update).encode()))
    retained = agent.sessions[session].transcript
    assert retained is not None
    assert folded.snapshot() == retained.snapshot()


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking what hangs takes minutes, and plans are short
    suppress_health_check=[HealthCheck.too_slow],  # a shared machine may be
)
@given(st.lists(steps, max_size=24))
def test_every_lifecycle_keeps_the_order_of_the_protocol(plan: list[Any]) -> None:
    """PL-09..PL-13, PL-19, PL-27..PL-29, ST-01, ST-02, ST-08, SR-01, CA-05, CA-07, CA-12, CP-06, TC-09, SS-29.

    S-CA-01, S-CA-03.
    """

    async def bounded() -> tuple[Client, Random]:
        async with asyncio.timeout(5):
            return await live(plan)

    with asyncio.Runner() as runner:
        client, agent = runner.run(bounded())
    check_answers(client)
    assert set(agent.sessions) >= set(client.sessions)
    for session in itertools.chain(client.sessions, agent.sessions.keys() - set(client.sessions)):
        check_prompts(client, session)
        check_states(client, session)
        check_entities(client, session)
        check_transcript(client, agent, session)
