"""The clients of others drive an agent of this library, and both sides must have the same to tell.

A client prints what its handlers got, as its own types have it, and what its requests came to. Folded here, that is
compared with the transcript that the agent retained: entity by entity, and again what was replayed. What a client of
others does wrong stands in `FAULTS`, with the requirement that says so; one that it does no more is a failure, too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from acpwire.transcript import Snapshot, Transcript
from tests.faults import Fault, faults_of

from .comparing import HERE, SECONDS, Report, Said, came_to, folded, updates_of

FAULTS = (
    Fault(
        "official client",
        "X15",
        "its commands have no `type`, so that they are dropped by who reads what it passes on",
        re.compile(r"commands\.0: nothing, not Command"),
    ),
    Fault(
        "official client",
        "SA-04",
        "an update of a child that says its state raises a TypeError in the SDK's own check of tags, and is lost",
        re.compile(r"subagent \S+(?:\.state: None, not StateSnapshot|: nothing, not Subagent)"),
    ),
    Fault(
        "official client",
        "SR-07",
        "the error of work that failed is dropped from the idle state that tells of it",
        re.compile(r"errors\.0: None, not -32000"),
    ),
    Fault(
        "official client",
        "SS-08",
        "the commands in the answers to setup requests are dropped",
        re.compile(r"commands in answers\.\d: False, not True"),
    ),
)


def run(command: list[str]) -> tuple[list[Said], dict[str, Snapshot]]:
    """Have a client drive the agent: what it printed, and what the agent retained of each session."""
    with tempfile.TemporaryDirectory() as place:
        saved = Path(place) / "saved"
        agent = [sys.executable, str(HERE / "agent_ours.py"), str(saved)]
        done = subprocess.run([*command, *agent], capture_output=True, check=True, timeout=SECONDS)
        retained = [json.loads(line) for line in saved.read_text("utf-8").splitlines()]
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    return printed, {session: Transcript.load(lines).snapshot() for session, lines in retained}


def check(name: str, command: list[str]) -> list[str]:
    """Drive the agent with a client; what is not as it must be."""
    report = Report(name, faults_of(name, FAULTS))
    expect = report.expect
    printed, retained = run(command)
    (session,) = retained
    border = next(index for index, (what, _) in enumerate(printed) if what == "replay")
    live, replayed = printed[:border], printed[border:]
    expect("live", folded(updates_of(live, session)), retained[session])
    expect("replayed", folded(updates_of(replayed, session)), retained[session])
    (initialized,) = came_to(printed, "initialize")
    expect("version", initialized["protocolVersion"], 2)
    expect("prompts answered", ["messageId" in one for one in came_to(printed, "prompt")], [True] * 3)
    reasons = [
        value["update"].get("stopReason")
        for what, value in live
        if what == "update" and value["sessionId"] == session and value["update"].get("state") == "idle"
    ]
    failures: list[Any] = [
        value["update"].get("error", {}).get("code")
        for what, value in live
        if what == "update" and value["update"].get("stopReason") == "error"
    ]
    expect("errors", failures, [-32000])
    answers = came_to(printed, "new") + came_to(printed, "resume")
    expect("commands in answers", ["availableCommands" in one for one in answers], [True, True])
    cancels_calls = [] if name == "official client" else ["end_turn"]
    expect("reasons", reasons, ["max_tokens", "end_turn", "error", *cancels_calls, "cancelled"])
    expect("permissions", [one["title"] for one in came_to(printed, "permission")], ["Edit it?", "Go on?"])
    expect("taken back", came_to(printed, "taken back"), ["Go on?"])
    expect("held", came_to(printed, "held")[0].get("code"), -32800)
    first, last = came_to(printed, "list")
    expect("listed", [one["sessionId"] for one in first["sessions"]], [session])
    expect("listed after close", last["sessions"], [])
    expect("closed", came_to(printed, "close"), [{}])
    expect("gone", came_to(printed, "gone")[0]["code"], -32002)
    expect("exit", came_to(printed, "exit"), [0])
    return report.close(len(came_to(printed, "update")))
