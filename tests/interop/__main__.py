"""Others' clients drive our agent, our client drives others' agents; both sides must have the same to tell.

Where to find the others is in the environment, as nox sets it: ACPWIRE_INTEROP_NPM, the directory into which npm
installed the TypeScript SDK; ACPWIRE_INTEROP_NODE, a node of version 20 or newer; ACPWIRE_INTEROP_RC, a Python that has
the official SDK. The exit code says whether all is well; arguments choose peers, by parts of their names.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from . import agents, clients
from .comparing import HERE

SDK = Path("node_modules") / "@agentclientprotocol" / "sdk"


def main(*chosen: str) -> int:
    """Every peer, in both directions."""
    node = os.environ.get("ACPWIRE_INTEROP_NODE", "node")
    sdk = str(Path(os.environ["ACPWIRE_INTEROP_NPM"]) / SDK)
    python = os.environ["ACPWIRE_INTEROP_RC"]
    problems: list[str] = []
    for side, check in (("client", clients.check), ("agent", agents.check), ("older", agents.check_older)):
        peers = {
            f"typescript {side}": [node, str(HERE / f"{side}_typescript.mjs"), sdk],
            f"official {side}": [python, str(HERE / f"{side}_official.py")],
        }
        for name, command in peers.items():
            if all(word in name for word in chosen):
                problems += check(name, command)
    for problem in problems:
        print(problem.encode("utf-8", "backslashreplace").decode())
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
