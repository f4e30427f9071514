"""For tests: an agent and a client in one process, and either of them by a script.

    async with acpwire.testing.connect(MyAgent(), MyClient()) as agent:  # of agents and of clients
        session = await agent.new_session(cwd=".")
    ScriptedAgent(["Hello"], [RequestError(1, "no")])                    # what it does in each prompt
    async with pair(...) as (agent_peer, client_peer): ...               # of what stands below both
    async with ScriptedPeer(transport) as script: ...                    # line by line

Owns: these four. Does not know: any test runner; what was expected and did not come is an `AssertionError`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

from acpwire import client as client_end
from acpwire import transports, v2
from acpwire.agent import Agent, AgentSession, UserPrompt, serve
from acpwire.agent.base import check_agent
from acpwire.client import AgentConnection, Client
from acpwire.connection import Connection, Role
from acpwire.errors import ConnectionClosed
from acpwire.limits import Limits
from acpwire.peer import Handler, Observer, Peer
from acpwire.transports import Transport
from acpwire.wire.frames import Method
from acpwire.wire.lines import LineBuffer

__all__ = ["Line", "ScriptedAgent", "ScriptedPeer", "Step", "connect", "pair"]

Line: TypeAlias = "bytes | str | Mapping[str, Any]"
"""A line of a script: as it is on the wire, its line feed left out, or the object that it holds."""

Step: TypeAlias = "v2.SessionUpdate | str | Exception | Callable[[AgentSession], Awaitable[object]]"
"""What a scripted agent does next: send an update, say a text, fail, or call something with the session."""


@asynccontextmanager
async def connect(agent: Agent, client: Client | None = None, **options: Any) -> AsyncGenerator[AgentConnection, None]:
    """A client's connection to an agent in the same process, initialized; both are ended on exit.

    `options` are those of `acpwire.connect`; `limits` are those of both ends. Raises as that does, and `UsageError` for
    an agent that is half of something. What one end raises in its callbacks reaches the other as it would over a pipe.
    """
    check_agent(agent)
    left, right = transports.pair()
    serving = asyncio.ensure_future(serve(agent, left, limits=options.get("limits")))
    try:
        async with client_end.connect(right, client, **options) as connection:
            yield connection
    finally:
        await left.close()
        await serving


class ScriptedAgent(Agent):
    """An agent that does what a script says, a list of steps for each prompt; what comes after them ends at once.

        ScriptedAgent(["Hello"], [v2.PlanUpdate(...), RequestError(1, "no")])

    Each `str` is a message of its own, updates are sent, and errors raised. For anything else, such as a message in
    pieces, a step is a function: `lambda session: session.agent_message().write("a", "b")`.
    """

    info = v2.Implementation(name="scripted", version="1")

    def __init__(self, *turns: Iterable[Step]) -> None:
        self.prompts: list[UserPrompt] = []
        """What it was told."""
        self._turns = [list(turn) for turn in turns]

    async def prompt(self, session: AgentSession, prompt: UserPrompt) -> None:
        """Do the steps for this prompt."""
        self.prompts.append(prompt)
        for step in self._turns.pop(0) if self._turns else ():
            if isinstance(step, str):
                await session.agent_message().write(step)
            elif isinstance(step, Exception):
                raise step
            elif callable(step):
                await step(session)
            else:
                await session.send(step)


@asynccontextmanager
async def pair(
    agent: Mapping[Method[Any, Any], Handler] | None = None,
    client: Mapping[Method[Any, Any], Handler] | None = None,
    *,
    limits: Limits | None = None,
    observer: Observer | None = None,
) -> AsyncGenerator[tuple[Peer, Peer]]:
    """An agent's and a client's peer that are connected to each other, each with its handlers; closed at the end.

    `limits` and `observer` are those of both.
    """
    left, right = transports.pair()

    def peer(transport: Transport, role: Role, handlers: Mapping[Method[Any, Any], Handler] | None) -> Peer:
        decode = v2.decode_from_client if role == "agent" else v2.decode_from_agent
        return Peer(transport, Connection(role, decode, v2.METHODS, limits=limits), handlers, observer=observer)

    async with peer(left, "agent", agent) as one, peer(right, "client", client) as other:
        yield one, other


class ScriptedPeer:
    """One end of a transport, sending and expecting lines as a test says; the other end is what is tested.

        async with ScriptedPeer(transport) as script:
            await script.send({"jsonrpc": "2.0", "id": 1, "method": "session/list"})
            await script.expect({"jsonrpc": "2.0", "id": 1, "result": {"sessions": []}})

    Every wait is at most `timeout` seconds long.
    """

    def __init__(self, transport: Transport, *, timeout: float = 10.0) -> None:
        self._transport = transport
        self._timeout = timeout
        self._buffer = LineBuffer()
        self._lines: list[bytes] = []
        self._fences = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._transport.close()

    async def send(self, *lines: Line) -> None:
        """Send lines, in one write."""
        await self.send_bytes(b"".join(_bytes(line) + b"\n" for line in lines))

    async def send_bytes(self, data: bytes) -> None:
        """Send any bytes."""
        async with asyncio.timeout(self._timeout):
            await self._transport.write(data)

    async def receive(self) -> bytes:
        """The next line, without its line feed. Raises `EOFError` at the end of what the other end sends."""
        while not self._lines:
            try:
                async with asyncio.timeout(self._timeout):
                    block = await self._transport.read()
            except TimeoutError:
                raise AssertionError(f"no line came within {self._timeout} s") from None
            if not block:
                self._lines = self._buffer.flush()
                if not self._lines:
                    raise EOFError("the other end sends nothing any more")
                break
            self._lines = self._buffer.feed(block)
        return self._lines.pop(0).rstrip(b"\r\n")

    async def receive_json(self) -> Any:
        """The value that the next line holds."""
        return json.loads(await self.receive())

    async def expect(self, *lines: Line) -> None:
        """The next lines are these; one given as an object may have its members in any order.

        Values are the same where their JSON types are, too: True is not 1, nor is 1.0.
        """
        for line in lines:
            try:
                found = await self.receive()
            except (AssertionError, EOFError) as error:
                raise AssertionError(f"{error}; expected {line!r}") from None
            if found == _bytes(line):
                continue
            where = _difference_of_line(line, found) if isinstance(line, Mapping) else ""
            if where is not None:
                raise AssertionError(f"expected {line!r}, received {found!r}{where}")

    async def expect_nothing(self) -> None:
        """The other end has sent nothing that was not received here, and still answers."""
        self._fences += 1
        fence = f"fence {self._fences}"
        await self.send({"jsonrpc": "2.0", "id": fence, "method": "_acpwire/fence"})
        found = json.loads(await self.receive())
        if found.get("id") != fence:
            raise AssertionError(f"expected nothing, received {found!r}")

    async def expect_end(self) -> None:
        """The other end sends nothing any more."""
        try:
            found = await self.receive()
        except (EOFError, ConnectionClosed):
            return
        raise AssertionError(f"expected the end, received {found!r}")


def _bytes(line: Line) -> bytes:
    if isinstance(line, Mapping):
        return json.dumps(line, separators=(",", ":")).encode()
    return line.encode() if isinstance(line, str) else line


def _difference_of_line(expected: Mapping[str, Any], line: bytes) -> str | None:
    """Where a line holds another value than was expected; None where it holds that."""
    try:
        found = json.loads(line)
    except ValueError:
        return ", which is no JSON"
    return _difference(expected, found, "$")


def _difference(expected: Any, found: Any, path: str) -> str | None:
    """Where a JSON value is first another than was expected, in a few words; None where it is the same.

    In Python True, 1 and 1.0 are equal; on the wire an id of one is no id of another (ER-02).
    """
    if isinstance(expected, Mapping) and isinstance(found, dict):
        wanted, got = cast("Mapping[str, Any]", expected), cast("dict[str, Any]", found)
        for key in [*wanted, *got]:
            if key not in wanted or key not in got:
                return f": `{path}.{key}` is {'not expected' if key in got else 'missing'}"
        pairs = [(wanted[key], got[key], f"{path}.{key}") for key in wanted]
    elif isinstance(expected, list | tuple) and isinstance(found, list):
        items, others = cast("Sequence[Any]", expected), cast("Sequence[Any]", found)
        if len(items) != len(others):
            return f": `{path}` has {len(others)} items, not {len(items)}"
        pairs = [(one, others[index], f"{path}[{index}]") for index, one in enumerate(items)]
    else:
        is_same = _json_type(expected) is _json_type(found) and bool(expected == found)
        return None if is_same else f": `{path}` is {found!r}, not {expected!r}"
    return next((where for pair in pairs if (where := _difference(*pair)) is not None), None)


def _json_type(value: Any) -> type[object]:
    """What a value is in JSON; an enum's member is what its value is, and what is no scalar, an object."""
    kinds: tuple[type[object], ...] = (bool, int, float, str)
    return next((kind for kind in kinds if isinstance(value, kind)), object)
