"""What an agent has to be before it is served: what cannot work is refused at the start, and told what to write."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

import acpwire
import acpwire.agent
from acpwire import testing, v2
from acpwire.agent import Agent, AgentSession, UserPrompt, run_agent, serve
from acpwire.errors import UsageError
from acpwire.transports import pair
from tests.agent.script import agent_of, doing, serving, session_of
from tests.transports.loops import on_each_loop

INFO = v2.Implementation(name="made", version="1")


class Echo(Agent):
    """Says nothing."""

    info = INFO

    async def prompt(self, session: AgentSession, prompt: UserPrompt) -> v2.StopReason | None:
        return None


async def served(agent: Any) -> None:
    """Serve it, or refuse to."""
    await serve(agent, pair()[0])


async def connected(agent: Any) -> None:
    """Connect to it, or refuse to."""
    async with testing.connect(agent):
        pass


@pytest.mark.parametrize("begin", [served, connected, run_agent])
@pytest.mark.parametrize(
    ("what", "said"),
    [
        (Echo, r"Echo is a class: give an object of it, Echo\(\)"),
        (v2, "expected an object of a class that derives from acpwire.Agent, not module"),
        (None, "not NoneType"),
        (Agent(), r"Agent has no `prompt`"),
    ],
)
@on_each_loop
async def test_what_is_no_agent_is_not_served(begin: Callable[[Any], Any], what: Any, said: str) -> None:
    """IN-10."""
    with pytest.raises(UsageError, match=said):
        await begin(what)


WRITE = r"write info = v2.Implementation\(name="


@pytest.mark.parametrize(
    ("info", "said"),
    [
        (None, f"IN-02: Made has no `info`: say who it is; {WRITE}"),
        ({"name": "made", "version": "1"}, f"IN-02: Made.info is a dict; {WRITE}"),
        ("made", "IN-02: Made.info is a str; "),
        (v2.Implementation, "IN-02: Made.info is a "),
        (v2.Implementation(name="made", version=1), r"IN-02: Made.info: Expected `str`, got `int` - at `\$.version`"),  # type: ignore[arg-type]  # as anybody may write it
    ],
)
def test_an_agent_that_does_not_say_who_it_is_is_told_how(info: Any, said: str) -> None:
    """IN-02."""
    with pytest.raises(UsageError, match=said):
        type("Made", (Echo,), {"info": info})().check_complete()


def test_what_is_accepted_is_no_string() -> None:
    """IN-10."""
    with pytest.raises(UsageError, match=r'Made.accepts is a str: write a tuple, \("image",\)'):
        type("Made", (Echo,), {"accepts": "image"})().check_complete()


class Yields:
    """Overrides that say things by `yield`."""

    async def prompt(self, session: Any, prompt: Any) -> AsyncIterator[str]:
        yield "hello"

    async def new_session(self, session: Any) -> AsyncIterator[str]:
        yield "hello"

    def close_session(self, session: Any) -> Iterator[str]:
        yield "hello"


class Plain:
    """Overrides that are no coroutine functions."""

    def prompt(self, session: Any, prompt: Any) -> str:
        return "end_turn"

    def new_session(self, session: Any) -> None:
        session.app = 1


class Awaited:
    """Overrides that nobody awaits."""

    async def sent(self, session: Any, update: Any) -> None:
        pass


class Short:
    """Overrides that cannot be called."""

    async def prompt(self, prompt: Any) -> None:
        pass

    async def list_sessions(self) -> Any:
        pass

    async def resume_session(self, session: Any) -> None:
        pass

    def sent(self, update: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("of", "name", "said"),
    [
        (
            Yields,
            "prompt",
            r"write `async def prompt\(...\)` without, and say things by `session.agent_message\(\)`",
        ),
        (Yields, "new_session", r"Made.new_session has a `yield` in it: write `async def new_session\(...\)` without$"),
        (Yields, "close_session", r"Made.close_session has a `yield` in it"),
        (Plain, "prompt", r"Made.prompt is no coroutine function: write `async def prompt\(...\)`"),
        (Plain, "new_session", r"Made.new_session is no coroutine function: write `async def new_session\(...\)`"),
        (Awaited, "sent", r"Made.sent is a coroutine function, and nobody awaits it: write `def sent\(...\)`"),
        (Short, "prompt", r"Made.prompt: too many positional arguments: write `prompt\(self, session, prompt\)`"),
        (Short, "resume_session", r"write `resume_session\(self, session, replay_from\)`"),
        (Short, "list_sessions", r"Made.list_sessions: got an unexpected keyword argument 'cwd'"),
        (Short, "sent", r"Made.sent: too many positional arguments: write `sent\(self, session, update\)`"),
    ],
)
def test_an_override_that_cannot_be_called_as_what_it_overrides_says_what_to_write(
    of: type, name: str, said: str
) -> None:
    """IN-10."""
    with pytest.raises(UsageError, match=said):
        type("Made", (Echo,), {name: vars(of)[name]})().check_complete()


class Delegates:
    """A plain function that says that it returns something to wait for."""

    def prompt(self, session: Any, prompt: Any) -> Awaitable[str | None]:
        return Echo().prompt(session, prompt)


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """As decorators are written."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """As decorators are written in haste."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


class More:
    """Parameters of one's own that need no argument, and others' names."""

    async def prompt(self, /, conversation: Any, said: Any, *, loud: bool = False, **more: Any) -> None:
        pass


class Static:
    """An override that needs no agent."""

    @staticmethod
    async def prompt(session: Any, prompt: Any) -> None:
        pass


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated when a function is defined")
@pytest.mark.parametrize("returns", ["async def prompt", "def prompt"], ids=["coroutine", "awaitable"])
def test_annotations_of_an_override_need_not_be_there_at_run_time(returns: str) -> None:
    """As names that are imported for type checkers are not."""
    names: dict[str, Any] = {"Awaitable": Awaitable}
    text = f"{returns}(self, session: Session, prompt: Prompt) -> Awaitable[Reason]: ..."
    exec(compile(text, "made", "exec", dont_inherit=True), names)  # noqa: S102  # this file's annotations are texts
    type("Made", (Echo,), {"prompt": names["prompt"]})().check_complete()


WORKING: list[Any] = [
    Delegates.prompt,
    logged(Echo.prompt),
    bare(Echo.prompt),
    More.prompt,
    vars(Static)["prompt"],
    functools.partialmethod(Echo.prompt),
]


@pytest.mark.parametrize("prompt", WORKING)
@on_each_loop
async def test_whatever_returns_something_to_wait_for_is_an_override(prompt: Any) -> None:
    """IN-10: nothing is refused that works."""
    async with serving(type("Made", (Echo,), {"prompt": prompt})()) as script:
        session = await session_of(script)
        await doing(script, session)
        assert (await script.idle(session))["stopReason"] == "end_turn"


@on_each_loop
async def test_the_tokens_of_a_turn_are_set_on_its_prompt() -> None:
    """US-06."""

    async def prompt(_: AgentSession, user: UserPrompt) -> None:
        user.usage = v2.Usage(total_tokens=3, input_tokens=1, output_tokens=2)

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        assert (await script.idle(session))["usage"] == {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}


PUBLIC = [
    "Agent",
    "AgentSession",
    "CompactionWriter",
    "Elicited",
    "MessageWriter",
    "Permission",
    "SessionMessageWriter",
    "TerminalWriter",
    "ToolCallWriter",
    "UserPrompt",
]


@pytest.mark.parametrize("name", PUBLIC)
def test_the_docstring_of_a_public_class_names_its_attributes(name: str) -> None:
    """As nothing else shows them before there is an object."""
    kind = getattr(acpwire, name)
    assert kind is getattr(acpwire.agent, name)
    assert "\nAttributes:\n" in inspect.cleandoc(kind.__doc__ or "")  # indented before Python 3.13
