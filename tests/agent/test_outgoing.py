"""Texts that are encoded together still leave one by one, in their order, and as they would alone."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from acpwire import v2
from acpwire.agent import AgentSession
from acpwire.errors import EncodeError
from acpwire.peer import FLUSH
from tests.agent.script import said
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
