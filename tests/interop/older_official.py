"""An agent of version 1 of the protocol, on the official Python SDK; runs in an environment that has it."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

acp: Any = importlib.import_module("acp")


class Agent:
    """Answers; what it lacks is never asked for."""

    async def initialize(self, protocol_version: int, **_: Any) -> Any:
        return acp.InitializeResponse(protocol_version=1)


if __name__ == "__main__":
    asyncio.run(acp.run_agent(Agent()))
