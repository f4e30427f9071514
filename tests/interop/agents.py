"""A client of this library drives the agents of others, and both sides must have the same to tell.

An agent follows `story` and writes down what its handlers got, every update that it gave its SDK, and what its requests
came to. Compared with that are each update as it went over the wire and as it came, what the session's transcript has
made of them, live and replayed, and what was asked and answered in both directions. What an agent of others does wrong
stands in `FAULTS`, with the requirement that says so; one that it does no more is a failure, too.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import fields

import acpwire
from acpwire import v2
from acpwire.capture import Record
from acpwire.transcript import Message
from tests.faults import Fault, faults_of

from .comparing import SECONDS, Report, Said, came_to, decoded, differences, folded, typed, updates_of
from .driving import Driven, drive
from .story import BLOCKS, CHILD, COMMANDS, FILLED, JSON, LONE, MANY, SELECT, STORY, text

OFFICIAL = "official agent"
FOLDED = "^(?:live|again|afresh|afresh and live)"
FAULTS = tuple(
    Fault(peer, requirement, what, re.compile(difference))
    for peer, requirement, what, difference in (
        (
            "typescript agent",
            "PL-29",
            "handlers are tried one by one, so that a prompt overtakes a cancellation whose handler came to be later",
            r"^turns\.[23]: ",
        ),
        (
            OFFICIAL,
            "CT-05",
            "a `lastModified` that is no date of its own format becomes null, both ways",
            rf"(?:^sent|^session/prompt|{FOLDED}).*\.annotations\.last_?[mM]odified: None, not 'yesterday'$",
        ),
        (
            OFFICIAL,
            "TC-17",
            "the capabilities of tool calls are dropped",
            rf"^sent \d+ tool_call_update\.capabilities: nothing|{FOLDED}\.tool_call early\.capabilities: None",
        ),
        (
            OFFICIAL,
            "TM-11",
            "the capabilities of terminals are dropped",
            r"^sent \d+ terminal_update\.capabilities: nothing",
        ),
        (OFFICIAL, "TM-10", "the size of terminals is dropped", r"^sent \d+ terminal_update\.size: nothing"),
        (
            OFFICIAL,
            "TM-08",
            "an exit code below zero becomes null",
            rf"(?:^sent \d+ terminal_update|{FOLDED}\.terminal sh)\.exit_?[sS]tatus\.exit_?[cC]ode: None, not -9$",
        ),
        (
            OFFICIAL,
            "MT-01",
            "the `_meta` of a diff's patch is dropped",
            rf"^sent \d+ tool_call_content_chunk.*\.patch\._meta: nothing|{FOLDED}.*\.patch\.meta: None",
        ),
        (
            OFFICIAL,
            "CM-02",
            "commands have no `type`, so that whoever reads them drops them, and commands of other types are none",
            rf"^(?:sent|came) \d+ available_commands_update\.|{FOLDED}\.commands\.|^commands: 0, not 3$",
        ),
        (
            OFFICIAL,
            "SS-08",
            "the commands in the answers to setup requests are dropped",
            r"^set up\.0|^many\.commands: None",
        ),
        (
            OFFICIAL,
            "US-04",
            "a cost in another unit than an ISO 4217 currency becomes null",
            rf"(?:^sent \d+ usage_update\.cost|{FOLDED}\.usage\.2): None, not .*'credits'",
        ),
        (
            OFFICIAL,
            "BG-01",
            "what goes on in the background is dropped from states",
            r"^sent \d+ state_update\.background: nothing, not \[",
        ),
        (
            OFFICIAL,
            "SR-07",
            "the error of work that failed is dropped from the idle state that tells of it",
            r"^sent \d+ state_update\.error: nothing|^ends\.6\.1: None, not -32000$",
        ),
        (
            OFFICIAL,
            "TC-15",
            "raw input and output whose members' names have lone surrogates are refused",
            r'^refused: .*"rawOutput": \{"\\ud800"',
        ),
    )
)
RESUME = "session/resume"


def prompts(session: str, *words: str) -> list[Any]:
    """Prompts of a few words each, as they arrive."""
    return [{"sessionId": session, "prompt": [text(one)]} for one in words]


AFTER = prompts("s1", "after")[0]
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
        AFTER,
        *prompts("s2", "many"),
        *prompts("s1", "gone", "other"),
        *prompts("s2", "endless"),
    ],
    "session/cancel": [{"sessionId": "s1"}] * 3,
    "session/set_config_option": [{"sessionId": "s1", "configId": "model", "type": "id", "value": "large"}],
    "session/list": [{}, {"cursor": ""}] * 3,
    RESUME: [
        {
            "sessionId": "s1",
            "cwd": "/project",
            "additionalDirectories": ["/more"],
            "replayFrom": {"type": "start"},
        },
        {"sessionId": "s1", "cwd": "/project", "replayFrom": {"type": "start"}},
        {"sessionId": "s2", "cwd": "/other"},
    ],
    "session/close": [{"sessionId": "s1"}, {"sessionId": "s2"}],
    "session/delete": [{"sessionId": "s2"}],
    "_story/echo": [{"text": f"half {LONE}", "n": 1}, {}],
    "_story/told": [{"seen": "Never mind"}],
}
"""What an agent is asked, method by method."""
LARGE = {**SELECT, "currentValue": "large"}
CANCELLED = {"outcome": "cancelled"}
MORE: dict[str, list[Any]] = {
    "session/prompt": prompts("s3", "stop its parts"),
    "session/fork": [{"sessionId": "s1", "cwd": "/fork"}],
    "session/status": [{"sessionId": "s3"}],
    "session/set_title": [{"sessionId": "s3", "title": "A branch"}],
    "tool_call/cancel": [{"sessionId": "s3", "toolCallId": "slow"}],
    "terminal/cancel": [{"sessionId": "s3", "terminalId": "slow"}],
    "session/archive": [{"sessionId": "s3"}],
    "session/unarchive": [{"sessionId": "s3"}],
    "session/list": [{"archived": "only"}, {"archived": "only", "cursor": ""}],
    "auth/status": [{}],
    "providers/list": [{}],
    "providers/set": [
        {"providerId": "off", "apiType": "openai", "baseUrl": "https://example.org/", "headers": {"a": "b"}}
    ],
    "providers/disable": [{"providerId": "off"}],
}
"""What one is asked besides that does what only the draft has."""
PERMISSIONS = [
    {"outcome": "selected", "optionId": "no"},
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
    *[("end_turn", None)] * 3,
    ("cancelled", None),
]


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
        if not written.exists():
            return [f"{name}: TR-07: it did not end by itself when its input had ended"]
        record: list[Said] = [json.loads(line) for line in written.read_text("utf-8").splitlines()]
        wire = list(acpwire.read_capture(lines))
    check_agent(report, driven, record)
    check_requests(report, driven, record)
    check_wire(report, wire)
    check_updates(report, driven, record, wire)
    check_folded(report, driven, record)
    if driven.more:
        check_more(report, driven, record)
    return report.close(sum(map(len, driven.client.updates.values())))


def check_older(name: str, command: list[str]) -> list[str]:
    """Meet an agent that speaks version 1 alone: it is told apart, and ended (IN-04)."""
    report = Report(name, faults_of(name, FAULTS))

    async def meet() -> str:
        async with asyncio.timeout(SECONDS), acpwire.spawn_agent(*command):
            return "it was taken for one of version 2"

    try:
        came: object = asyncio.run(meet())
    except (acpwire.Error, TimeoutError, ValueError) as error:
        came = error
    told = came.data if isinstance(came, acpwire.VersionMismatch) else repr(came)
    report.expect("met", told, {"requested": 2, "supported": [1]})
    return report.close(0)


def check_agent(report: Report, driven: Driven, record: list[Said]) -> None:
    """What it is, and what it did not manage."""
    agent = driven.agent
    capabilities = STORY["more"] if driven.more else STORY["initialize"]["capabilities"]
    (answer,) = decoded(v2.InitializeResponse, [{**STORY["initialize"], "capabilities": capabilities}])
    report.expect("info", agent.info, answer.info)
    report.expect("capabilities", agent.capabilities, answer.capabilities)
    report.expect("auth_methods", agent.auth_methods, answer.auth_methods)
    report.expect(
        "set up",
        tuple(map(list, driven.setup)),
        (decoded(v2.AvailableCommand, COMMANDS[:1]), decoded(v2.SessionConfigOption, [SELECT])),
    )
    report.expect("stderr", agent.stderr_tail, b"")
    for refused in came_to(record, "refused"):
        report.problems.append(f"refused: {json.dumps(refused)}")


def check_requests(report: Report, driven: Driven, record: list[Said]) -> None:
    """What was asked and answered, in both directions."""
    client = driven.client
    more = MORE if driven.more else {}
    for method in REQUESTS | MORE:
        report.expect(method, came_to(record, method), [*REQUESTS.get(method, []), *more.get(method, [])])
    report.expect("asked", client.asked, decoded(v2.RequestPermissionRequest, came_to(record, "asks")))
    report.expect("permission", [one["outcome"] for one in came_to(record, "permission")], PERMISSIONS)
    withdrawn = [one["outcome"] for one in came_to(record, "withdrawn")]  # none where nobody waits any more
    report.expect("withdrawn", withdrawn, [CANCELLED] * len(withdrawn))
    report.expect("taken back", client.taken_back, ["Never mind", "Go on?"])
    report.expect("elicited", client.elicited, decoded(v2.CreateElicitationRequest, came_to(record, "elicits")))
    report.expect("elicitation", came_to(record, "elicitation"), ELICITATIONS + ELICITATIONS[: len(more) > 0])
    report.expect("completed", client.completed, ["e1"])
    report.expect("echoed", client.echoed, [{"text": LONE, "deep": [None, 1.5]}])
    echoed = {"text": "\ufffd", "deep": [None, 1.5]}  # our own strings have no halves
    unknown = {"code": -32601, "data": {"method": "_story/unknown"}}
    report.expect("request", came_to(record, "request"), [echoed, unknown])
    report.expect("inserted", driven.ids, [f"u{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 14, 1, 15)])
    turns = [what for what, value in record if what == "session/cancel" or value == AFTER]
    report.expect("turns", turns, ["session/cancel"] * 3 + ["session/prompt"])  # it cancels what was before it (PL-29)
    report.expect("held", came_to(record, "held"), ["u11", "u13"])
    report.expect("ends", driven.ends, ENDS + ENDS[1 : 1 + (len(more) > 0)])
    large = decoded(v2.SessionConfigOption, [{**SELECT, "currentValue": "large"}])
    gone = (-32002, {"sessionId": "s1"})
    refused = (-32602, {"why": [1, None]})
    came = [refused, {"text": f"half {LONE}", "n": 1}, large, (-32800, None), {}, gone]
    report.expect("came", driven.came, came)
    report.expect("listed", driven.listed, [["s1", "s2"], ["s1"]])


def check_more(report: Report, driven: Driven, record: list[Said]) -> None:
    """What only the draft has."""
    answers = STORY["answers"]
    (status,) = decoded(v2.SessionStatusResponse, [answers["session/status"]])
    (signed_in,) = decoded(v2.AuthStatusResponse, [answers["auth/status"]])
    (providers,) = decoded(v2.ListProvidersResponse, [answers["providers/list"]])
    listed = [one.session_id for one in driven.more.pop(2)]
    report.expect("more", driven.more, [status, "Branch", signed_in, providers.providers])
    report.expect("listed more", listed, ["s1", "s3"])
    statuses = [(one.state, list(one.accounts)) for one in driven.client.statuses]
    report.expect("statuses", statuses, [("_expired", [])])
    report.expect("snapshot of more", driven.kept["more"], folded(updates_of(record, "s3")))


def check_wire(report: Report, wire: list[Record]) -> None:
    """Every line of both sides is a message, and every result fits its request."""
    malformed = [one.line for one in wire if isinstance(one.message, v2.Malformed)]
    report.expect("malformed", malformed, [])
    report.expect("results that do not fit", [str(one.fault) for one in wire if one.fault is not None], [])


def check_updates(report: Report, driven: Driven, record: list[Said], wire: list[Record]) -> None:
    """Each update went over the wire as it was told, in its place, and came as it went."""
    updates = driven.client.updates
    report.expect("unequal", driven.unequal, [])
    report.expect("sessions", sorted(updates), ["child", "s1", "s2", *(["s3"] if driven.more else [])])
    report.expect("children", driven.client.children, [CHILD, CHILD])
    lines = [one.line for one in wire if one.sender == "agent" and b'"method":"session/update"' in one.line]
    notified = [(json.loads(line)["params"], line) for line in lines]
    for session, came in updates.items():
        told = [value["update"] for value in came_to(record, "update") if value["sessionId"] == session]
        sent = [(value["update"], line) for value, line in notified if value["sessionId"] == session]
        report.expect(f"number sent of {session}", len(sent), len(told))
        report.expect(f"number that came of {session}", len(came), len(sent))
        for number, ((left, _), right) in enumerate(zip(sent, told, strict=False)):
            report.problems += differences(left, right, f"sent {number} {right['sessionUpdate']}")
        for number, (update, (right, line)) in enumerate(zip(came, sent, strict=False)):
            path = f"came {number} {right['sessionUpdate']}"
            report.problems += misread(update, right, path)
            if isinstance(update, v2.UnknownVariant) and update.raw not in line:  # byte for byte (EX-03)
                report.problems.append(f"{path}: {update.raw!r}, not {line!r}")


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
    report.expect("live", driven.kept["live"], folded([*live, *answered(configOptions=[LARGE])]))
    report.expect("again", driven.kept["again"], folded([*live, *state]))
    end = next(place for place, (what, _) in enumerate(afresh) if what == "session/prompt")
    report.expect("afresh", driven.kept["afresh"], folded(told_by(afresh[:end], "s1")))
    history = [one for one in live if one.tag != "state_update"]
    report.expect("afresh and live", driven.kept["afresh"], folded([*history, *state]))
    report.expect("child", driven.kept["child"], folded(updates_of(record, CHILD)))
    closed = next(place for place, (what, value) in enumerate(record) if what == RESUME and value["sessionId"] == "s2")
    setup = answered(availableCommands=COMMANDS[:1], configOptions=[SELECT])
    report.expect("many", driven.kept["many"], folded([*setup, *updates_of(record[:closed], "s2")]))
    texts = [one.text for one in driven.kept["many"].timeline if isinstance(one, Message) and one.id == "many"]
    report.expect("many.text", texts, ["".join(f"{number} " for number in range(MANY))])
    cut = [one.text for one in driven.kept["live"].timeline if isinstance(one, Message) and one.id == "cut"]
    report.expect("cut.text", cut, [f"one 🙂 whole and {LONE} half"])
    report.expect("commands", len(driven.commands), len(COMMANDS))  # the answer was older (SU-12)


def answered(**members: Any) -> list[v2.SessionUpdate]:
    """What an answer says of a session, as the updates that say the same (CO-06, SS-08)."""
    tags = {"availableCommands": "available_commands_update", "configOptions": "config_option_update"}
    return [typed({"sessionUpdate": tags[name], name: value}) for name, value in members.items()]


def told_by(record: Iterable[Said], session: str) -> Iterator[v2.SessionUpdate]:
    """The updates of a session, those in questions of permission among them (PM-03)."""
    for what, value in record:
        if what == "asks" and value["sessionId"] == session:
            subject: JSON = value.get("subject") or {}
            if "toolCall" in subject:
                yield typed({"sessionUpdate": "tool_call_update", **subject["toolCall"]})
        else:
            yield from updates_of([[what, value]], session)
