"""The Client to derive from: what is not overridden says nothing that the user did not; what is can be called."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import acpwire
from acpwire import testing, v2
from acpwire.client import Client
from acpwire.client.handlers import check_client
from acpwire.errors import ConnectionClosed, RequestError, UsageError
from tests.client.script import connected, settled
from tests.transports.loops import PROGRAMS, on_each_loop


def test_what_is_not_overridden_is_cautious_when_it_is_called_too() -> None:

    async def run() -> None:
        client = Client()
        with pytest.raises(RequestError, match="Method not found"):
            await client.mcp_message(v2.MessageMcpRequest(server_id="m", request_id="1", method="x"))
        form = v2.ElicitationFormMode(
            message="?", requested_schema=v2.ElicitationSchema(type="object", properties={}), request_id=1
        )
        assert await client.create_elicitation(None, form) == v2.ElicitationCancelAction()
        assert client.capabilities() == v2.ClientCapabilities()

    asyncio.run(run())


@on_each_loop
async def test_whoever_waits_for_the_end_of_a_connection_hears_what_the_client_is_told() -> None:
    causes: list[ConnectionClosed] = []

    class Closed(Client):
        def closed(self, cause: ConnectionClosed) -> None:
            causes.append(cause)

    async with connected(Closed()) as (script, agent):
        impatient, patient = (asyncio.ensure_future(agent.wait_closed()) for _ in range(2))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(impatient, 0)
        await settled(script)
        assert not patient.done()
        assert agent.closed is None
        await agent.close()
        cause = await asyncio.wait_for(patient, 10)
        assert cause.message == (await asyncio.wait_for(agent.wait_closed(), 10)).message
    assert [told.message for told in causes] == [cause.message]


# --- what is refused when somebody connects ---------------------------------------------------------------------------


class Plain:
    """Overrides that are no coroutine functions."""

    def request_permission(self, session: Any, request: Any) -> Any:
        return request.options[0]

    def create_elicitation(self, session: Any, request: Any) -> Any:
        return {}

    def mcp_message(self, request: Any) -> Any:
        return v2.MessageMcpResponse()


class Awaited:
    """Overrides that nobody awaits."""

    async def closed(self, cause: Any) -> None:
        pass

    async def capabilities(self) -> Any:
        pass


class Yields:
    """Overrides that say things by `yield`."""

    async def request_permission(self, session: Any, request: Any) -> AsyncIterator[Any]:
        yield request.options[0]

    async def update(self, session: Any, update: Any) -> AsyncIterator[Any]:
        yield update

    def child_session(self, session: Any) -> Iterator[Any]:
        yield session


class Uncallable:
    """Overrides that cannot be called."""

    async def request_permission(self, request: Any) -> Any:
        pass

    def update(self, update: Any) -> None:
        pass

    def closed(self) -> None:
        pass

    def auth_status(self, status: Any, more: Any) -> None:
        pass


WRONG = [
    (Plain, "request_permission", r"is no coroutine function: write `async def request_permission\(...\)`$"),
    (Plain, "create_elicitation", r"is no coroutine function: write `async def create_elicitation\(...\)`$"),
    (Plain, "mcp_message", r"is no coroutine function: write `async def mcp_message\(...\)`$"),
    (Awaited, "closed", r"is a coroutine function, and nobody awaits it: write `def closed\(...\)`$"),
    (Awaited, "capabilities", r"is a coroutine function, and nobody awaits it: write `def capabilities\(...\)`$"),
    (Yields, "request_permission", r"has a `yield` in it: write `async def request_permission\(...\)` without$"),
    (Yields, "update", r"has a `yield` in it: write `def update\(...\)` without$"),
    (Yields, "child_session", r"has a `yield` in it: write `def child_session\(...\)` without$"),
    (
        Uncallable,
        "request_permission",
        r": too many positional arguments: write `request_permission\(self, session, req",
    ),
    (Uncallable, "update", r": too many positional arguments: write `update\(self, session, update\)`$"),
    (Uncallable, "closed", r": too many positional arguments: write `closed\(self, cause\)`$"),
    (Uncallable, "auth_status", r": missing a required argument: 'more': write `auth_status\(self, status\)`$"),
]


@pytest.mark.parametrize(("of", "name", "said"), WRONG)
def test_a_callback_that_could_not_be_called_or_awaited_is_refused_with_what_to_write(
    of: type[Any], name: str, said: str
) -> None:
    made = type("Made", (Client,), {name: vars(of)[name]})()
    with pytest.raises(UsageError, match=rf"^Made\.{name}\b ?{said}"):
        check_client(made)


class Told(Client):
    """What may be either is a coroutine function here, and functions that say what they return are as good as those."""

    async def update(self, session: Any, update: Any) -> None:
        pass

    async def elicitation_complete(self, elicitation_id: str) -> None:
        pass

    async def child_session(self, session: Any) -> None:
        pass

    async def auth_status(self, status: Any) -> None:
        pass

    def request_permission(self, session: Any, request: Any) -> Any:
        return asyncio.sleep(0, request.options[0])

    request_permission.__annotations__["return"] = "Awaitable[v2.PermissionOption]"

    def closed(self, cause: ConnectionClosed, *more: Any) -> None:
        pass


def of_its_own(function: Callable[..., Any]) -> Any:
    """A callback as a decorator may leave it."""

    @functools.wraps(function)
    def wrapper(*arguments: Any) -> Any:
        return function(*arguments)

    return wrapper


def test_what_can_be_called_is_not_refused() -> None:
    check_client(Client())
    check_client(Told())
    decorated = {"request_permission": of_its_own(Plain.request_permission), "update": functools.partial(print)}
    check_client(type("Made", (Client,), decorated)())


def test_every_callback_is_looked_at() -> None:
    names = {name for name, function in vars(Client).items() if inspect.isfunction(function)}
    for name in names:
        with pytest.raises(UsageError, match=rf"^Made\.{name}: "):
            check_client(type("Made", (Client,), {name: _nothing(name)})())


def _nothing(name: str) -> Any:
    """A coroutine function, or not, as that of `Client` is, that takes nothing, not even itself."""

    async def awaited() -> None:
        pass

    def plain() -> None:
        pass

    made = awaited if inspect.iscoroutinefunction(vars(Client)[name]) else plain
    made.__name__ = name
    return made


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"info": None}, "IN-02: Made has no `info`: say who it is; write info = v2.Implementation"),
        ({"info": "me"}, "IN-02: Made.info is a str"),
        ({"info": v2.Implementation(name="me", version=1)}, r"IN-02: Made.info: .* - at `\$.version`"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # what is tested
        ({"elicits": "form"}, r'Made.elicits is a str: write a tuple, \("form",\)'),
        ({"elicits": ("form", "link")}, "Made.elicits has link, which the protocol does not know"),
    ],
)
def test_who_a_client_is_and_what_it_serves_is_looked_at_too(members: dict[str, Any], said: str) -> None:
    """IN-02, EL-01."""
    with pytest.raises(UsageError, match=said):
        check_client(type("Made", (Client,), members)())


@pytest.mark.parametrize(
    ("client", "said"),
    [
        (Client, r"Client is a class: give an object of it, Client\(\)"),
        ("me", "expected an object of a class that derives from acpwire.Client, not str"),
        (type("Made", (Client,), {"closed": Awaited.closed})(), "Made.closed is a coroutine function"),
    ],
)
@on_each_loop
async def test_whoever_connects_is_told_and_nothing_is_left_behind(client: Any, said: str) -> None:
    left, right = acpwire.pair()
    with pytest.raises(UsageError, match=said):
        await _entered(acpwire.connect(left, client))
    await left.write(b"still ours\n")
    assert await right.read() == b"still ours\n"
    for transport in (left, right):
        await transport.close()
    with pytest.raises(UsageError, match=said):
        await _entered(testing.connect(testing.ScriptedAgent(), client))
    with pytest.raises(UsageError, match=said):
        await _entered(acpwire.spawn_agent(sys.executable, str(PROGRAMS / "echo_agent.py"), client=client))


async def _entered(connecting: Any) -> None:
    async with asyncio.timeout(20), connecting:
        raise AssertionError
