"""A client of this library drives the agents of others, and both sides must have the same to tell.

An agent follows `story` and writes down what its handlers got, every update that it gave its SDK, and what its requests
came to. Compared with that are each update as it came, what the session's transcript has made of them, live and
replayed, and what was asked and answered in both directions. What an agent of others does wrong stands in `FAULTS`,
with the requirement that says so; one that it does no more is a failure, too.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import fields

import acpwire
from acpwire import v2
from acpwire.client import ClientSession, Prompt
from acpwire.transcript import Message, Snapshot
from acpwire.wire.frames import Method

from .comparing import SECONDS, Fault, Report, Said, came_to, differences, faults_of, folded, typed, updates_of
from .story import BLOCKS, CHILD, COMMANDS, FILLED, JSON, LONE, MANY, SELECT, STORY, text, told
from .variants import left_out

OFFICIAL = "official agent"
FAULTS = (
    Fault(
        OFFICIAL,
        "CT-05",
        "a `lastModified` that is no date of its own format becomes null, both ways",
        re.compile(r"last_?[mM]odified: None, not 'yesterday'"),
    ),
    Fault(
        OFFICIAL,
        "TC-17",
        "the capabilities of tool calls are dropped",
        re.compile(r"tool_call(?:_update| \w+)\.capabilities: (?:None|nothing), not"),
    ),
    Fault(
        OFFICIAL,
        "TM-11",
        "the capabilities of terminals are dropped",
        re.compile(r"terminal_update\.capabilities: nothing, not"),
    ),
    Fault(OFFICIAL, "TM-10", "the size of terminals is dropped", re.compile(r"terminal_update\.size: nothing, not")),
    Fault(
        OFFICIAL,
        "TM-08",
        "an exit code below zero becomes null",
        re.compile(r"exit_?[sS]tatus\.exit_?[cC]ode: None, not -9"),
    ),
    Fault(
        OFFICIAL,
        "MT-01",
        "the `_meta` of a diff's patch is dropped",
        re.compile(r"patch\._?meta: (?:None|nothing), not"),
    ),
    Fault(
        OFFICIAL,
        "CM-02",
        "its commands have no `type`, so that they are dropped by who reads them, and so are those of other types",
        re.compile(r"update\.availableCommands\.|(?:live|again|afresh)\.commands\.|^commands: 0, not 3$"),
    ),
    Fault(OFFICIAL, "SS-08", "the commands in the answers to setup requests are dropped", re.compile(r"^set up\.0")),
    Fault(
        OFFICIAL,
        "US-04",
        "a cost in other units than ISO 4217 has becomes null",
        re.compile(r"usage.*: None, not .*'credits'"),
    ),
    Fault(
        OFFICIAL,
        "BG-01",
        "what goes on in the background is dropped from states",
        re.compile(r"state_update\.background: nothing, not \["),
    ),
    Fault(
        OFFICIAL,
        "SR-07",
        "the error of work that failed is dropped from the idle state that tells of it",
        re.compile(r"state_update\.error: nothing, not|ends\.6\.1: None, not -32000"),
    ),
    Fault(
        OFFICIAL,
        "TC-15",
        "raw input and output whose members' names have lone surrogates are refused",
        re.compile(r'refused: .*"rawOutput": \{"\\ud800"'),
    ),
)
ECHO: Method[Any, Any] = Method("_story/echo", "agent", "request", Any, Any, v2.INITIALIZE.decoding)
ECHO_BACK: Method[Any, Any] = Method("_story/echo", "client", "request", Any, Any, v2.INITIALIZE.decoding)
TOLD: Method[Any, None] = Method("_story/told", "agent", "notification", Any, None, v2.INITIALIZE.decoding)
WAITED_FOR = 100
"""After how many updates an endless work is cancelled."""
SERVERS: list[v2.McpServer] = [
    v2.McpServerStdio(name="files", command="/bin/files", args=["-v"], env=[v2.EnvVariable(name="A", value="ä")]),
    v2.McpServerHttp(name="web", url="https://example.org/mcp"),
]


RESUME = "session/resume"


def prompts(session: str, *words: str) -> list[Any]:
    """Prompts of a few words each, as they arrive."""
    return [{"sessionId": session, "prompt": [text(one)]} for one in words]


REQUESTS: dict[str, list[Any]] = {
    "initialize": [
        {
            "protocolVersion": 2,
            "info": {"name": "interop", "version": "1.0"},
            "capabilities": {"elicitation": {"form": {}, "url": {}}},
        }
    ],
    "auth/login": [{"methodId": "key"}],
    "auth/logout": [{}],
    "session/new": [
        {
            "cwd": "/project",
            "additionalDirectories": ["/more"],
            "mcpServers": [
                {
                    "type": "stdio",
                    "name": "files",
                    "command": "/bin/files",
                    "args": ["-v"],
                    "env": [{"name": "A", "value": "ä"}],
                },
                {"type": "http", "name": "web", "url": "https://example.org/mcp"},
            ],
            "_meta": {"story": {"b": None}},
        },
        {"cwd": "/other"},
    ],
    "session/prompt": [
        *prompts("s1", "everything", "halves", "answer first", "ask", "elicit", "extend", "fail"),
        {"sessionId": "s1", "prompt": [text("half \ufffd"), *BLOCKS]},
        *prompts("s1", "refuse", "ask and wait", "held", "endless", "held"),
        *prompts("s2", "many"),
        *prompts("s1", "gone", "other"),
    ],
    "session/cancel": [{"sessionId": "s1"}] * 2,
    "session/set_config_option": [{"sessionId": "s1", "configId": "model", "type": "id", "value": "large"}],
    "session/list": [{}, {"cursor": ""}] * 3,
    RESUME: [
        {"sessionId": "s1", "cwd": "/project", "replayFrom": {"type": "start"}},
        {"sessionId": "s1", "cwd": "/project", "replayFrom": {"type": "start"}},
        {"sessionId": "s2", "cwd": "/other"},
    ],
    "session/close": [{"sessionId": "s1"}],
    "session/delete": [{"sessionId": "s2"}],
    "_story/echo": [{"text": f"half {LONE}", "n": 1}, {}],
    "_story/told": [{"a": None}],
}
"""What an agent is asked, method by method."""
CANCELLED = {"outcome": "cancelled"}
PERMISSIONS = [
    {"outcome": "selected", "optionId": "later"},
    {"outcome": "selected", "optionId": "no"},
    CANCELLED,
    {"outcome": "selected", "optionId": "yes"},
    CANCELLED,
]
ELICITATIONS = [{"action": "accept", "content": FILLED}, {"action": "decline"}, {"action": "accept"}]
ENDS = [
    ("max_tokens", None),
    ("end_turn", None),
    ("_enough", None),
    *[("end_turn", None)] * 3,
    ("error", -32000),
    ("end_turn", None),
    *[("cancelled", None)] * 2,
    *[("end_turn", None)] * 2,
]


class Watching(acpwire.Client):
    """Keeps what it is told, and answers by title and message."""

    info = v2.Implementation(name="interop", version="1.0")
    elicits = ("form", "url")

    def __init__(self) -> None:
        self.updates: dict[str, list[v2.SessionUpdate]] = defaultdict(list)
        self.children: list[str] = []
        self.asked: list[v2.RequestPermissionRequest] = []
        self.elicited: list[v2.CreateElicitationRequest] = []
        self.completed: list[str] = []
        self.taken_back: list[str] = []
        self.echoed: list[Any] = []
        self.waits = asyncio.Event()

    def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
        self.updates[session.id].append(update)

    def child_session(self, session: ClientSession) -> None:
        self.children.append(session.id)

    async def request_permission(self, session: ClientSession, request: v2.RequestPermissionRequest) -> Any:
        self.asked.append(request)
        if request.title in {"Go on?", "Never mind"}:
            if request.title == "Go on?":
                self.waits.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.taken_back.append(request.title)
        return {"Edit it?": "later", "Run it?": "no", "Really?": request.options[0]}.get(request.title)

    async def create_elicitation(self, session: ClientSession | None, request: v2.CreateElicitationRequest) -> Any:
        self.elicited.append(request)
        if isinstance(request, v2.ElicitationUrlMode):
            return v2.ElicitationAcceptAction()
        return None if getattr(request, "message", "") == "Decline" else FILLED

    def elicitation_complete(self, elicitation_id: str) -> None:
        self.completed.append(elicitation_id)

    async def echo(self, params: Any) -> Any:
        self.echoed.append(params)
        return params


@dataclass
class Driven:
    """What a client saw."""

    agent: acpwire.AgentConnection
    client: Watching
    ids: list[str] = field(default_factory=list[str])
    """Of user messages."""
    ends: list[tuple[str | None, int | None]] = field(default_factory=list[tuple[str | None, int | None]])
    """Why works ended, and the codes of their errors."""
    came: list[Any] = field(default_factory=list[Any])
    """What other requests came to."""
    kept: dict[str, Snapshot] = field(default_factory=dict[str, Snapshot])
    """What transcripts held, by what they are of."""
    setup: Any = None
    """The commands and options of the first session when it was made."""
    commands: Sequence[v2.AvailableCommand] = ()
    """Those of the session that was resumed after it was closed."""
    listed: list[list[str]] = field(default_factory=list[list[str]])
    unequal: list[str] = field(default_factory=list[str])
    """Prompts whose own updates were not all that came meanwhile."""

    async def through(self, session: ClientSession, prompt: Prompt) -> None:
        """Read a prompt's updates to their end."""
        self.ids.append(prompt.message_id)
        seen = [update async for update in prompt]
        await self.ended(prompt)
        if seen != self.client.updates[session.id][-len(seen) :]:
            self.unequal.append(prompt.message_id)

    async def ended(self, prompt: Prompt) -> None:
        """Wait for a prompt's end."""
        reason = await prompt.wait()
        self.ends.append((reason, None if prompt.error is None else prompt.error.code))

    async def tried(self, doing: Any) -> None:
        """What a request came to, or its error."""
        try:
            self.came.append(await doing)
        except acpwire.RequestError as error:
            self.came.append((error.code, None if error.data is v2.UNSET else error.data))

    async def list(self) -> None:
        """List all sessions."""
        self.listed.append([one.session_id async for one in self.agent.list_sessions()])


async def drive(command: list[str], wire: Path) -> Driven:
    """Have the agent tell its story; `wire` gets the lines of both sides."""
    client = Watching()
    async with (
        asyncio.timeout(SECONDS),
        acpwire.spawn_agent(*command, client=client, record=wire, extensions={ECHO_BACK: client.echo}) as agent,
    ):
        driven = Driven(agent, client)
        await agent.login("key")
        await agent.logout()
        session = await agent.new_session(
            cwd="/project", additional_directories=["/more"], mcp_servers=SERVERS, meta={"story": {"b": None}}
        )
        driven.setup = (session.available_commands, session.config_options)
        for words in ("everything", "halves", "answer first", "ask", "elicit", "extend", "fail"):
            await driven.through(session, await session.prompt(words))
        await driven.through(
            session, await session.prompt(f"half {LONE}", *decoded(v2.ContentBlock, BLOCKS), check=False)
        )
        await driven.tried(session.prompt("refuse"))
        await driven.tried(agent.request(ECHO, msgspec.Raw(b'{"text":"half \\ud800","n":1}')))
        await agent.notify(TOLD, {"a": None})
        await driven.tried(session.set_config_option("model", "large"))
        await cancel(driven, session)
        other = await agent.new_session(cwd="/other")
        await driven.ended(await other.prompt("many"))
        await resume(driven, session)
        await agent.resume_session(other.id)
        driven.kept["many"] = other.transcript.snapshot()
        await agent.delete_session(other)
        await driven.list()
    return driven


async def cancel(driven: Driven, session: ClientSession) -> None:
    """Cancel a work that waits for permission with a prompt that is held, one that goes on, and one request."""
    held = asyncio.ensure_future(session.prompt("held"))
    waiting = await session.prompt("ask and wait")
    await driven.client.waits.wait()
    await session.cancel()
    await driven.ended(waiting)
    await driven.tried(held)
    endless = await session.prompt("endless")
    count = 0
    async for _ in endless:
        count += 1
        if count == WAITED_FOR:
            await session.cancel()
    await driven.ended(endless)
    withdrawn = asyncio.ensure_future(session.prompt("held"))
    await driven.tried(driven.agent.request(ECHO, {}))  # by then it was sent
    withdrawn.cancel()
    await asyncio.wait([withdrawn])


async def resume(driven: Driven, session: ClientSession) -> None:
    """Have a session's history told again: while it is known, and after it was closed."""
    driven.kept["child"] = session.children[CHILD].transcript.snapshot()
    driven.kept["live"] = session.transcript.snapshot()
    await driven.agent.resume_session(session.id, replay=True)
    driven.kept["again"] = session.transcript.snapshot()
    await driven.list()
    await session.close()
    request = v2.PromptRequest(session_id=session.id, prompt=[v2.TextContent(text="gone")])
    await driven.tried(driven.agent.request(v2.SESSION_PROMPT, request))
    infos = [info async for info in driven.agent.list_sessions()]
    afresh = await driven.agent.resume_session(infos[0], replay=True)
    driven.kept["afresh"] = afresh.transcript.snapshot()
    driven.commands = afresh.available_commands
    await driven.through(afresh, await afresh.prompt("other"))


def check(name: str, command: list[str]) -> list[str]:
    """Drive an agent; what is not as it must be."""
    report = Report(name, faults_of(name, FAULTS))
    with tempfile.TemporaryDirectory() as place:
        story, written, lines = (Path(place) / name for name in ("story", "record", "wire.acp"))
        story.write_text(json.dumps(STORY), "utf-8")
        try:
            driven = asyncio.run(drive([*command, str(story), str(written)], lines))
        except (acpwire.Error, TimeoutError) as error:
            return [f"{name}: {error!r}"]
        record: list[Said] = [json.loads(line) for line in written.read_text("utf-8").splitlines()]
        wire = [json.loads(one.line) for one in acpwire.read_capture(lines) if one.sender == "agent"]
    check_agent(report, driven, record)
    check_requests(report, driven, record)
    check_updates(report, driven, record, wire)
    check_folded(report, driven, record)
    return report.close(sum(map(len, driven.client.updates.values())))


def check_agent(report: Report, driven: Driven, record: list[Said]) -> None:
    """What it is, and what it did not manage."""
    (answer,) = decoded(v2.InitializeResponse, [STORY["initialize"]])
    agent = driven.agent
    report.expect("info", agent.info, answer.info)
    report.expect("capabilities", agent.capabilities, answer.capabilities)
    report.expect("auth_methods", agent.auth_methods, answer.auth_methods)
    report.expect(
        "set up", driven.setup, (decoded(v2.AvailableCommand, COMMANDS[:1]), decoded(v2.SessionConfigOption, [SELECT]))
    )
    report.expect("stderr", agent.stderr_tail, b"")
    report.expect("left out of the story", list(left_out(map(typed, told()))), [])
    for refused in came_to(record, "refused"):
        report.problems.append(f"refused: {json.dumps(refused)}")


def check_requests(report: Report, driven: Driven, record: list[Said]) -> None:
    """What was asked and answered, in both directions."""
    client = driven.client
    for method, params in REQUESTS.items():
        report.expect(method, came_to(record, method), params)
    report.expect("asked", client.asked, decoded(v2.RequestPermissionRequest, came_to(record, "asks")))
    report.expect("permission", [one["outcome"] for one in came_to(record, "permission")], PERMISSIONS)
    withdrawn = [one["outcome"] for one in came_to(record, "withdrawn")]  # none where nobody waits any more
    report.expect("withdrawn", withdrawn, [CANCELLED] * len(withdrawn))
    report.expect("taken back", client.taken_back, ["Never mind", "Go on?"])
    report.expect("elicited", client.elicited, decoded(v2.CreateElicitationRequest, came_to(record, "elicits")))
    report.expect("elicitation", came_to(record, "elicitation"), ELICITATIONS)
    report.expect("completed", client.completed, ["e1"])
    report.expect("echoed", client.echoed, [{"text": LONE, "deep": [None, 1.5]}])
    echoed = {"text": "\ufffd", "deep": [None, 1.5]}  # our own strings have no halves
    unknown = {"code": -32601, "data": {"method": "_story/unknown"}}
    report.expect("request", came_to(record, "request"), [echoed, unknown])
    report.expect("inserted", driven.ids, [f"u{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 14)])
    report.expect("held", came_to(record, "held"), ["u11", "u13"])
    report.expect("ends", driven.ends, ENDS)
    large = decoded(v2.SessionConfigOption, [{**SELECT, "currentValue": "large"}])
    gone = (-32002, {"sessionId": "s1"})
    refused = (-32602, {"why": [1, None]})
    came = [refused, {"text": f"half {LONE}", "n": 1}, large, (-32800, None), {}, gone]
    report.expect("came", driven.came, came)
    report.expect("listed", driven.listed, [["s1", "s2"], ["s1"]])


def check_updates(report: Report, driven: Driven, record: list[Said], wire: list[JSON]) -> None:
    """Each update went over the wire as it was told, in its place, and came as it went."""
    updates = driven.client.updates
    report.expect("unequal", driven.unequal, [])
    report.expect("sessions", sorted(updates), ["child", "s1", "s2"])
    report.expect("children", driven.client.children, [CHILD, CHILD])
    notified = [one["params"] for one in wire if one.get("method") == "session/update"]
    for session, came in updates.items():
        told = [value["update"] for value in came_to(record, "update") if value["sessionId"] == session]
        sent = [value["update"] for value in notified if value["sessionId"] == session]
        report.expect(f"number sent of {session}", len(sent), len(told))
        report.expect(f"number that came of {session}", len(came), len(sent))
        for number, (left, right) in enumerate(zip(sent, told, strict=False)):
            report.problems += differences(left, right, f"sent {number} {right['sessionUpdate']}")
        for number, (update, right) in enumerate(zip(came, sent, strict=False)):
            report.problems += misread(update, right, f"came {number} {right['sessionUpdate']}")


def misread(update: v2.SessionUpdate, sent: JSON, path: str) -> Iterator[str]:
    """Where an update holds something else than was sent; null may count as absence where that is the same."""
    held = msgspec.to_builtins(update, enc_hook=lambda unknown: unknown.data)  # unlike its encoding, with lone halves
    if held == sent:
        return
    members = () if isinstance(update, v2.UnknownVariant) else fields(update)
    patched = {f"{path}.{member.encode_name}" for member in members if member.default is v2.UNSET}
    for one in differences(held, sent, path):
        where, _, rest = one.partition(": ")
        if rest != "nothing, not None" or where in patched:
            yield one


def check_folded(report: Report, driven: Driven, record: list[Said]) -> None:
    """What the client's transcripts hold is what the agent has said, live and told again."""
    first, second = [
        place for place, (what, value) in enumerate(record) if what == RESUME and value["sessionId"] == "s1"
    ]
    before, again, afresh = record[:first], record[first:second], record[second:]
    state = [one for one in updates_of(again, "s1") if isinstance(one, v2.StateUpdate)]
    live = list(told_by(before, "s1"))
    report.expect("live", driven.kept["live"], folded(live))
    report.expect("again", driven.kept["again"], folded([*live, *state]))
    end = next(place for place, (what, _) in enumerate(afresh) if what == "session/prompt")
    report.expect("afresh", driven.kept["afresh"], folded(told_by(afresh[:end], "s1")))
    history = [one for one in live if one.tag != "state_update"]
    report.expect("afresh and live", driven.kept["afresh"], folded([*history, *state]))
    report.expect("child", driven.kept["child"], folded(updates_of(record, CHILD)))
    report.expect("many", driven.kept["many"], folded(updates_of(record, "s2")))
    texts = [one.text for one in driven.kept["many"].timeline if isinstance(one, Message) and one.id == "many"]
    report.expect("many.text", texts, ["".join(f"{number} " for number in range(MANY))])
    cut = [one.text for one in driven.kept["live"].timeline if isinstance(one, Message) and one.id == "cut"]
    report.expect("cut.text", cut, [f"one 🙂 whole and {LONE} half"])
    report.expect("commands", len(driven.commands), len(COMMANDS))  # the answer was older (SU-12)


def told_by(record: Iterable[Said], session: str) -> Iterator[v2.SessionUpdate]:
    """The updates of a session, those in questions of permission among them (PM-03)."""
    for what, value in record:
        if what == "asks" and value["sessionId"] == session:
            subject: JSON = value.get("subject") or {}
            if "toolCall" in subject:
                yield typed({"sessionUpdate": "tool_call_update", **subject["toolCall"]})
        else:
            yield from updates_of([[what, value]], session)


def decoded(kind: Any, raw: Iterable[Any]) -> list[Any]:
    """Values of a type from their JSON."""
    return [v2.decode(kind, json.dumps(one, separators=(",", ":")).encode()) for one in raw]
