"""Texts that are encoded together still leave one by one, in their order, and as they would alone."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from acpwire import v2
from acpwire.agent import AgentSession, UserPrompt
from acpwire.agent.outgoing import Outgoing
from acpwire.connection import Connection
from acpwire.errors import EncodeError, UsageError
from acpwire.peer import FLUSH, Peer
from acpwire.testing import ScriptedPeer
from acpwire.trace import trace_context
from acpwire.transports import pair
from tests.agent.script import agent_of, said, serving, session_of
from tests.transports.loops import on_each_loop


def chunk(text: str, message_id: str = "m", **more: Any) -> v2.AgentMessageChunk:
    return v2.AgentMessageChunk(message_id=message_id, content=v2.TextContent(text=text), **more)


def told(updates: list[Any]) -> list[tuple[str, str]]:
    """Which text each update has, and of which message."""
    return [(update["messageId"], update["content"]["text"]) for update in updates]


@on_each_loop
async def test_texts_of_several_messages_and_all_else_keep_their_order() -> None:
    """MS-06, TR-14: whatever is sent comes after the texts before it, written or sent."""

    async def prompt(session: AgentSession) -> None:
        async with session.agent_message("w") as message, session.thought("w") as thought:
            for number in range(3):
                await message.write(f"{number}a", f"{number}b")
                await thought.write(f"{number}c")
                await session.send(chunk(f"{number}d", "w"))
                await session.send(chunk(f"{number}e"))
                await session.notice(f"{number}f")
                await session.send(chunk(f"{number}g"))

    updates = await said(prompt)
    texts = [update.get("title") or update["content"]["text"] for update in updates]
    assert texts == [f"{number}{letter}" for number in range(3) for letter in "abcdefg"]
    tags = {text: update["sessionUpdate"] for text, update in zip(texts, updates, strict=True)}
    assert [tags[f"0{letter}"] for letter in "abcdefg"] == [
        "agent_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "agent_message_chunk",
        "agent_message_chunk",
        "notice",
        "agent_message_chunk",
    ]


@on_each_loop
async def test_lone_surrogates_line_feeds_and_many_texts_at_once() -> None:
    """TR-01: a text that has no UTF-8 form costs those beside it nothing."""
    texts = ["a\n", "\ud83d", "\u2028\r", "é" * 40_000, *map(str, range(3000))]

    async def prompt(session: AgentSession) -> None:
        for text in texts:
            await session.send(chunk(text))

    assert told(await said(prompt)) == [("m", text.replace("\ud83d", "\ufffd")) for text in texts]


@on_each_loop
@pytest.mark.parametrize("length", [0, 1, 63, 65, 1_000, 30_000, 1_000_000])
async def test_who_writes_waits_whenever_a_buffer_is_full(length: int) -> None:
    """S-BP-02: texts are not added up one by one, and yet each buffer is as large as it should be, or a text larger."""
    text = "x" * length
    line = len(v2.SESSION_UPDATE.notification(v2.UpdateSessionNotification(session_id="s" * 40, update=chunk(text))))
    buffers: list[int] = []

    async def prompt(session: AgentSession) -> None:
        async with session.agent_message("m") as message:
            written = 0
            while len(buffers) < 3:
                waits = message.write(text)
                written += 1
                if inspect.iscoroutine(waits):
                    buffers.append(written * line)
                    written = 0
                await waits

    await said(prompt)
    assert all(0.5 * FLUSH < size < 1.5 * FLUSH + line for size in buffers)


@on_each_loop
async def test_chunks_with_more_than_text_are_told_whole() -> None:
    """MT-03."""

    async def prompt(session: AgentSession) -> None:
        await session.send(chunk("a", meta={"k": 1}))
        await session.send(
            v2.AgentMessageChunk(
                message_id="m",
                content=v2.TextContent(text="b", annotations=v2.Annotations(priority=1.0), meta={"j": 2}),
            )
        )

    first, second = await said(prompt)
    assert first["_meta"] == {"k": 1}
    assert (second["content"]["_meta"], second["content"]["annotations"]) == ({"j": 2}, {"priority": 1.0})


@on_each_loop
async def test_what_is_no_string_is_refused_at_once() -> None:
    """A text is encoded later, but what is wrong with it is said where it is given."""

    class Text(str):
        __slots__ = ()

    wrong: Any = 1

    async def prompt(session: AgentSession) -> None:
        async with session.agent_message("m") as message:
            await message.write("a")
            with pytest.raises(EncodeError):
                await message.write(Text("b"))
            with pytest.raises(EncodeError):
                await session.send(chunk(wrong))
            with pytest.raises(EncodeError):
                await session.send(chunk("c", wrong))

    assert told(await said(prompt)) == [("m", "a")]


IMAGE = v2.ImageContent(data="A" * 2_000, mime_type="image/png")
FLOODS: dict[str, Callable[[AgentSession], Iterator[Any]]] = {
    "one message": lambda session: writes(session.agent_message("m")),
    "two messages in turn": lambda session: in_turn(
        writes(session.agent_message("m")), writes(session.thought("t"), "x" * 2_000)
    ),
    "a message and updates in turn": lambda session: in_turn(
        writes(session.agent_message("m")), sends(session, v2.Notice(title="x", severity="info"))
    ),
    "chunks of two messages in turn": lambda session: in_turn(sends(session, part("m")), sends(session, part("n"))),
    "blocks of which the last is short": lambda session: writes(session.agent_message("m"), IMAGE, "y"),
    "notices": lambda session: sends(session, v2.Notice(title="x" * 300, severity="info")),
}


def part(message_id: str) -> v2.AgentMessageChunk:
    return v2.AgentMessageChunk(message_id=message_id, content=v2.TextContent(text="text"))


def writes(writer: Any, *content: Any) -> Iterator[Any]:
    while True:
        yield writer.write(*(content or ("text",)))


def sends(session: AgentSession, update: v2.SessionUpdate) -> Iterator[Any]:
    while True:
        yield session.send(update)


def in_turn(*floods: Iterator[Any]) -> Iterator[Any]:
    for flood in itertools.cycle(floods):
        yield next(flood)


@on_each_loop
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("gives_turns", [False, True])
@pytest.mark.parametrize("flood", FLOODS)
async def test_whatever_an_agent_floods_with_it_waits_and_a_cancel_ends_it(
    flood: str, gives_turns: bool, retain: bool
) -> None:
    """S-BP-02, CA-04: of a client that reads nothing, and whether or not the agent gives the loop turns itself."""
    sent: list[int] = []

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        for number, sending in enumerate(FLOODS[flood](session)):
            await sending
            sent.append(number)
            assert number < 30_000, "it should have waited by then"
            if gives_turns:
                await asyncio.sleep(0)

    async with serving(agent_of(prompt, retain=retain)) as script:
        session = await session_of(script)
        await script.prompt(session)
        before = -1
        while len(sent) != before or not sent:  # until nothing is sent any more
            before = len(sent)
            for _ in range(100):
                await asyncio.sleep(0)
        await script.tell("session/cancel", sessionId=session)
        assert (await script.idle(session))["stopReason"] == "cancelled"


def watch(*_: object) -> None:
    """Stands for `Agent.sent`."""


LOOKING: dict[str, dict[str, Any]] = {
    "nobody": {},
    "retained": {"retain": True},
    "watched": {"sent": watch},
    "traced": {},
}


@on_each_loop
@pytest.mark.parametrize("looks_on", LOOKING)
async def test_a_write_is_in_its_place_once_it_was_called_whatever_becomes_of_it(looks_on: str) -> None:
    """MS-06: what looks on at a session, or traces it, does not change what it says."""

    async def prompt(session: AgentSession) -> None:
        if looks_on == "traced":
            trace_context.set({"traceparent": "00-1-2-01"})
        message = session.agent_message("m")
        later = asyncio.create_task(message.write("1"))
        await message.write("2", "3")
        cancelled = asyncio.create_task(message.write("4"))
        cancelled.cancel()
        await message.write()
        dropped = message.write("5")
        await session.send(chunk("6"))
        dropped.close()
        await asyncio.gather(later, cancelled, return_exceptions=True)

    updates = await said(prompt, **LOOKING[looks_on])
    assert [update["content"]["text"] for update in updates] == [*"123456"]


@on_each_loop
async def test_a_write_after_the_end_is_refused_by_the_call() -> None:
    kept: list[Any] = []

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        kept.append(session.agent_message("m"))

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await script.prompt(session)
        await script.idle(session)
        await script.call("session/close", sessionId=session)
        with pytest.raises(UsageError, match="closed"):
            kept[0].write("late")


@on_each_loop
async def test_what_was_held_back_by_a_replay_is_not_sent_after_the_end() -> None:
    """CA-12: nothing is said after a session was closed, not even what was said before in vain."""
    left, right = pair()
    seen: list[bytes] = []
    connection = Connection("agent", v2.decode_from_client, v2.METHODS, tap=lambda _, line: seen.append(line))
    async with ScriptedPeer(right), Peer(left, connection) as peer:
        outgoing = Outgoing(peer, "s")

        def history() -> Iterator[v2.SessionUpdate]:
            yield chunk("old")
            assert outgoing.post(chunk("held")), "who can wait should"
            outgoing.close("the session was closed")
            yield chunk("never")

        with pytest.raises(UsageError, match="closed"):
            await outgoing.replay(history(), lambda _: None)
        await peer.drain()
    assert [b"old" in line for line in seen] == [True]


@on_each_loop
async def test_texts_that_cannot_be_encoded_cost_those_after_them_nothing() -> None:
    """What fails in there is not the texts, as they are text, but that there is no memory, or no stack, left."""
    left, right = pair()
    connection = Connection("agent", v2.decode_from_client, v2.METHODS)
    async with ScriptedPeer(right) as script, Peer(left, connection) as peer:
        outgoing = Outgoing(peer, "s")
        assert not outgoing.post(chunk("lost"))
        out = connection._out  # pyright: ignore[reportPrivateUsage]  # so that it fails in the middle
        with memoryview(out), pytest.raises(BufferError):
            _ = connection.unsent
        assert not outgoing.post(chunk("next"))
        message = await script.receive_json()
        assert message["params"]["update"]["content"]["text"] == "next"


@on_each_loop
async def test_what_a_tap_writes_while_texts_wait_is_sent_too() -> None:
    """TR-14."""
    left, right = pair()
    seen: list[bytes] = []

    def tap(_: str, line: bytes) -> None:
        if b"session/update" not in line:
            return
        seen.append(line)
        if b"log" not in line:
            outgoing.post(chunk("log", "l"))
            outgoing.post(chunk("log", "l"))

    connection = Connection("agent", v2.decode_from_client, v2.METHODS, tap=tap)
    async with ScriptedPeer(right) as script, Peer(left, connection) as peer:
        outgoing = Outgoing(peer, "s")
        for number in range(50):
            outgoing.post(chunk(str(number), "m"))
            outgoing.post(chunk(str(number), "n"))
        for _ in range(300):
            await script.receive_json()
        await script.expect_nothing()
    assert len(seen) == 300
