"""Published agents, driven by this library's client; exit code 1 with what is wrong, where anything is.

Where to find them is in the environment, as nox sets it: ACPWIRE_PUBLISHED_NPM, the directory into which npm installed
them; ACPWIRE_PUBLISHED_NODE, a node of version 22 or newer. Arguments are the names of agents; without any it is all.

What an agent does wrong stands in `FAULTS`, with the requirement that says so; one that it does no more is a failure,
too. Nothing that is started here knows a way out of this machine, and nothing is left of it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.faults import faults_of, news

from .agents import AGENTS, FAULTS, Published
from .checks import count_updates, tail, wrong
from .drive import Drive
from .model import Model


def check(agent: Published) -> list[str]:
    """Drive an agent; what is not as it must be."""
    start = time.monotonic()
    node = Path(os.environ.get("ACPWIRE_PUBLISHED_NODE", "node"))
    try:
        program = agent.program(Path(os.environ["ACPWIRE_PUBLISHED_NPM"]))
    except (LookupError, OSError) as error:
        return [f"it is not there: {error}"]
    with Model() as model, tempfile.TemporaryDirectory() as place:
        drive = Drive(agent, (str(node), str(program)), model, Path(place).resolve())
        try:
            asyncio.run(drive.run())
        except Exception as error:  # noqa: BLE001  # whatever stops a step is told, with all that is known of it
            return _stopped(drive, model, error)
        problems = drive.problems + [problem for capture in drive.captures for problem in wrong(capture)]
        problems += [f"it asks the model for what is not served: {one}" for one in dict.fromkeys(model.unknown)]
        problems += [f"it reaches out to {one}" for one in dict.fromkeys(model.strays)]
        updates = sum(count_updates(capture) for capture in drive.captures)
    known = faults_of(agent.name, FAULTS)
    told = f"{len(drive.steps)} steps, {updates} updates, {len(known)} faults of its own"
    print(f"{agent.name} {agent.version}: {told}, {time.monotonic() - start:.0f} s", flush=True)
    return news(problems, known)


def _stopped(drive: Drive, model: Model, error: Exception) -> list[str]:
    """All that is known of a step that was stopped."""
    step = drive.steps[-1] if drive.steps else "start"
    what = str(error) or f"nothing came of it in time ({type(error).__name__})"
    where = traceback.extract_tb(error.__traceback__)
    ours = [
        f"{Path(one.filename).name}:{one.lineno}" for one in where if Path(one.filename).parent == Path(__file__).parent
    ]
    lines = [f"step {step!r} was stopped at {', '.join(ours)}: {type(error).__name__}: {what}", *drive.problems]
    lines += [f"  stderr: {line}" for line in drive.stderr.decode(errors="replace").splitlines()[-15:]]
    lines += [f"  traffic: {line}" for capture in drive.captures for line in tail(capture)]
    lines += [f"  model: {line}" for line in [*model.asked[-5:], *model.unknown, *model.strays]]
    return lines


def main(names: list[str]) -> int:
    """Every agent, or those of these names; the exit code says whether all is well."""
    chosen = [agent for agent in AGENTS if not names or agent.name in names]
    if len(chosen) < len(names):
        print(f"the agents are {', '.join(agent.name for agent in AGENTS)}")
        return 2
    problems = [f"{agent.name}: {problem}" for agent in chosen for problem in check(agent)]
    for problem in problems:
        print(problem)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
