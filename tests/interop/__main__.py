"""The clients of others drive an agent of this library, and both sides must have the same to tell.

Where to find them is in the environment, as nox sets it: ACPWIRE_INTEROP_NPM, the directory into which npm installed
the TypeScript SDK; ACPWIRE_INTEROP_NODE, a node of version 20 or newer; ACPWIRE_INTEROP_RC, a Python that has the
official SDK.

A client prints, line by line, what its handlers got, as its own types have it, and what its requests came to. Folded
here, that is compared with the transcript that the agent retained: entity by entity, and again what was replayed.
What a client of others does wrong stands in `FAULTS`, with the requirement that says so; one that it does no more is a
failure, too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acpwire import v2
from acpwire.transcript import Transcript

HERE = Path(__file__).parent
SDK = Path("node_modules") / "@agentclientprotocol" / "sdk"
SECONDS = 60


@dataclass(frozen=True)
class Fault:
    """What a client does not keep, though it should: the requirement, and the difference that comes of it."""

    client: str
    requirement: str
    what: str
    difference: re.Pattern[str]


FAULTS = (
    Fault(
        "official",
        "X15",
        "its commands have no `type`, so that they are dropped by who reads what it passes on",
        re.compile(r"commands: \(Command\(name='go', .* and \(\)"),
    ),
    Fault(
        "official",
        "SA-04",
        "an update of a child that says its state raises a TypeError in the SDK's own check of tags, and is lost",
        re.compile(r"Subagent \S+: .*state=StateSnapshot.* and (?:.*state=None|None)"),
    ),
    Fault(
        "official",
        "SR-07",
        "the error of work that failed is dropped from the idle state that tells of it",
        re.compile(r"errors: \[None\], not \[-32000\]"),
    ),
    Fault(
        "official",
        "SS-08",
        "the commands in the answers to setup requests are dropped",
        re.compile(r"commands in answers: \[False, False\], not \[True, True\]"),
    ),
)


def run(command: list[str]) -> tuple[list[Any], dict[str, Transcript]]:
    """Have a client drive the agent: what it printed, and what the agent retained of each session."""
    with tempfile.TemporaryDirectory() as place:
        saved = Path(place) / "saved"
        agent = [sys.executable, str(HERE / "agent.py"), str(saved)]
        done = subprocess.run([*command, *agent], capture_output=True, check=True, timeout=SECONDS)
        retained = [json.loads(line) for line in saved.read_text("utf-8").splitlines()]
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    return printed, {session: Transcript.load(lines) for session, lines in retained}


def folded(printed: list[Any], session: str) -> Transcript:
    """What the updates of a session add up to."""
    transcript = Transcript()
    for what, value in printed:
        if what == "update" and value["sessionId"] == session:
            transcript.apply(v2.decode(v2.SessionUpdate, json.dumps(value["update"]).encode()))
    return transcript


def differences(mine: Transcript, theirs: Transcript) -> Iterator[str]:
    """Where two transcripts are not equal."""
    left, right = mine.snapshot(), theirs.snapshot()
    for part in ("state", "commands", "config", "info", "usage"):
        if getattr(left, part) != getattr(right, part):
            yield f"{part}: {getattr(left, part)!r} and {getattr(right, part)!r}"
    entities = [
        {(type(one).__name__, getattr(one, "id", None)): one for one in held.timeline} for held in (left, right)
    ]
    for kind, name in entities[0] | entities[1]:
        one, other = (held.get((kind, name)) for held in entities)
        if one != other:
            yield f"{kind} {name}: {one!r} and {other!r}"
    order = [[key for key in held if key in entities[0].keys() & entities[1].keys()] for held in entities]
    if order[0] != order[1]:
        yield f"order: {order[0]} and {order[1]}"
    if left != right and left.timeline == right.timeline:
        yield "snapshots differ"


def came_to(printed: list[Any], what: str) -> list[Any]:
    """What requests came to."""
    return [value for name, value in printed if name == what]


def check(name: str, command: list[str]) -> list[str]:
    """Drive the agent with a client; what is not as it must be."""
    start = time.monotonic()
    printed, retained = run(command)
    (session,) = retained
    problems: list[str] = []

    def expect(what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            problems.append(f"{what}: {found!r}, not {wanted!r}")

    border = next(index for index, (what, _) in enumerate(printed) if what == "replay")
    live, replayed = printed[:border], printed[border:]
    problems += [f"live: {one}" for one in differences(retained[session], folded(live, session))]
    problems += [f"replayed: {one}" for one in differences(retained[session], folded(replayed, session))]
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
    cancels_calls = [] if name == "official" else ["end_turn"]
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
    known = [fault for fault in FAULTS if fault.client == name]
    found = {problem: [fault for fault in known if fault.difference.search(problem)] for problem in problems}
    for fault in known:
        if not any(fault in faults for faults in found.values()):
            found[f"{fault.requirement} is kept now: {fault.what}"] = []
    count = sum(what == "update" for what, _ in printed)
    print(f"{name}: {count} updates, {len(known)} faults of its own, {time.monotonic() - start:.1f} s")
    return [problem for problem, faults in found.items() if not faults]


def main() -> int:
    """Every client; the exit code says whether all is well."""
    node = os.environ.get("ACPWIRE_INTEROP_NODE", "node")
    sdk = Path(os.environ["ACPWIRE_INTEROP_NPM"]) / SDK
    clients = {
        "typescript": [node, str(HERE / "typescript.mjs"), str(sdk)],
        "official": [os.environ["ACPWIRE_INTEROP_RC"], str(HERE / "official.py")],
    }
    problems = [f"{name}: {problem}" for name, command in clients.items() for problem in check(name, command)]
    for problem in problems:
        print(problem)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
