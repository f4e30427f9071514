"""A peer over its stdio, `agent` or `client`, for scripts to talk to.

The agent lists no sessions, makes the session `s`, and waits in `session/close` until it is cancelled or left. The
client allows every permission; it sends a `session/list` and a `session/new`, and says how each ended and what its
observer saw as `_test/outcome` notifications.
"""

import asyncio
import sys
from typing import Any

from acpwire import v2
from acpwire.connection import Connection, Ignored
from acpwire.limits import Limits
from acpwire.peer import Handler, Peer
from acpwire.transports import stdio
from acpwire.wire import ErrorResponse, Method

OUTCOME: Method[Any, None] = Method("_test/outcome", "agent", "notification", Any, None, v2.SESSION_LIST.decoding)


async def close(_: v2.CloseSessionRequest) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        print("cleaned up", file=sys.stderr, flush=True)


async def as_agent() -> None:
    connection = Connection("agent", v2.decode_from_client, v2.METHODS, limits=Limits(parse_errors=100))
    handlers: dict[Method[Any, Any], Handler] = {
        v2.SESSION_LIST: lambda _: v2.ListSessionsResponse(sessions=[]),
        v2.SESSION_NEW: lambda _: v2.NewSessionResponse(session_id="s"),
        v2.SESSION_CLOSE: close,
    }
    async with Peer(stdio(), connection, handlers) as peer:
        await peer.wait_closed()


async def as_client() -> None:
    connection = Connection("client", v2.decode_from_agent, v2.METHODS)

    def observe(event: Ignored) -> None:
        peer.post(OUTCOME, {"ignored": event.reason, "is_error": isinstance(event.message, ErrorResponse)})

    async def ask(method: Method[Any, Any], params: Any) -> None:
        try:
            outcome: Any = {"result": await peer.request(method, params)}
        except Exception as error:  # noqa: BLE001  # whatever it is, the script wants to know
            outcome = {"raised": type(error).__name__, "text": str(error)}
        peer.post(OUTCOME, {method.name: outcome})

    outcome = v2.RequestPermissionResponse(outcome=v2.SelectedPermissionOutcome(option_id="o"))
    async with Peer(stdio(), connection, {v2.SESSION_REQUEST_PERMISSION: lambda _: outcome}, observer=observe) as peer:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ask(v2.SESSION_LIST, v2.ListSessionsRequest()))
            tasks.create_task(ask(v2.SESSION_NEW, v2.NewSessionRequest(cwd="/")))
        await peer.wait_closed()


asyncio.run(as_agent() if sys.argv[1] == "agent" else as_client())
