"""A peer over its stdio, for scripts to talk to: an `agent`, a `client`, a `listener` or a `reader`.

The agent lists no sessions, makes the session `s`, and waits in `session/close` of it until it is cancelled or left; it
speaks the version that it is asked for, and in `session/fork` sends updates without end. The client allows every
permission; it sends a `session/list` and a `session/new`, and says how each ended and what its observer saw as
`_test/outcome` notifications. The listener is a client that asks nothing, and says what it is told as well. The reader
makes a session, and reads one of its updates.

Options: `uvloop`; any of the limits, as in `line=1000`.
"""

import asyncio
import sys
from dataclasses import replace
from typing import Any

import uvloop

import acpwire
from acpwire import v2
from acpwire.connection import Connection, Ignored
from acpwire.limits import Limits
from acpwire.peer import Handler, Peer
from acpwire.transports import stdio
from acpwire.wire import ErrorResponse, Method, Request

OUTCOME: Method[Any, None] = Method("_test/outcome", "agent", "notification", Any, None, v2.SESSION_LIST.decoding)


INFO = v2.Implementation(name="n", version="1")


async def wait() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        print("cleaned up", file=sys.stderr, flush=True)


def limits() -> Limits:
    """As the options say; with every parse error answered, unless they say otherwise."""
    given = dict(option.split("=") for option in sys.argv if "=" in option)
    return replace(Limits(parse_errors=1_000_000), **{name: int(value) for name, value in given.items()})


async def as_agent() -> None:
    connection = Connection("agent", v2.decode_from_client, v2.METHODS, limits=limits())

    async def fork(request: v2.ForkSessionRequest) -> None:
        update = v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text="x" * 10_000))
        while True:
            await peer.notify(
                v2.SESSION_UPDATE, v2.UpdateSessionNotification(session_id=request.session_id, update=update)
            )

    handlers: dict[Method[Any, Any], Handler] = {
        v2.INITIALIZE: lambda asked: v2.InitializeResponse(protocol_version=asked.protocol_version, info=INFO),
        v2.SESSION_FORK: fork,
        v2.SESSION_LIST: lambda _: v2.ListSessionsResponse(sessions=[]),
        v2.SESSION_NEW: lambda _: v2.NewSessionResponse(session_id="s"),
        v2.SESSION_CLOSE: lambda asked: wait() if asked.session_id == "s" else None,
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


async def as_listener() -> None:
    connection = Connection("client", v2.decode_from_agent, v2.METHODS, limits=limits())

    def observe(event: Ignored) -> None:
        if not (isinstance(event.message, Request) and event.message.method == "_x/fence"):
            peer.post(OUTCOME, {"ignored": event.reason})

    handlers: dict[Method[Any, Any], Handler] = {
        v2.SESSION_UPDATE: lambda told: peer.post(OUTCOME, {"told": told}),
        v2.SESSION_REQUEST_PERMISSION: lambda _: v2.RequestPermissionResponse(outcome=v2.CancelledPermissionOutcome()),
    }
    async with Peer(stdio(), connection, handlers, observer=observe) as peer:
        await peer.wait_closed()


async def as_reader() -> None:
    async with acpwire.connect(stdio(), transcript=False) as agent:
        session = await agent.new_session(cwd="/")
        stream = session.updates()
        agent.peer.post(OUTCOME, "reads one")
        await anext(stream)
        agent.peer.post(OUTCOME, "reads no more")
        await agent.peer.wait_closed()


ROLES = {"agent": as_agent, "client": as_client, "listener": as_listener, "reader": as_reader}
with asyncio.Runner(loop_factory=uvloop.new_event_loop if "uvloop" in sys.argv else None) as runner:
    runner.run(ROLES[sys.argv[1]]())
