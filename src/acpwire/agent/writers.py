"""Writers: what an agent says piece by piece, each entity with the updates that the protocol asks of it.

Owns: which update a piece becomes, and refusing what is out of order, by the requirement's name. Does not know:
sessions, or how updates leave. All of them are for the event loop's thread.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import msgspec

from acpwire import v2
from acpwire.errors import ConnectionClosed, UsageError
from acpwire.scope import Scope

from .outgoing import Chunks, Outgoing, new_id

__all__ = [
    "Block",
    "CompactionWriter",
    "MessageWriter",
    "SessionMessageWriter",
    "TerminalWriter",
    "ToolCallWriter",
    "blocks_of",
]

Block: TypeAlias = "str | v2.ContentBlock"
"""A block of content; a plain string is text."""
_HOLE: Final = "\x00acpwire"
_FINAL: Final = frozenset({"completed", "failed", "cancelled"})


def blocks_of(content: Sequence[Block]) -> list[v2.ContentBlock]:
    """Content as blocks."""
    return [v2.TextContent(text=block) if isinstance(block, str) else block for block in content]


class MessageWriter:
    """A message of the agent or a thought, written block by block (MS-01, MS-02).

        async with session.agent_message() as message:
            await message.write("Hel", "lo")

    Nothing is sent before the first write. Entering and leaving cost nothing: a writer may be used without.
    """

    def __init__(self, outgoing: Outgoing, message_id: str | None, *, is_thought: bool) -> None:
        self.message_id = message_id or new_id("thought" if is_thought else "msg")
        self._outgoing = outgoing
        self._chunk = v2.AgentThoughtChunk if is_thought else v2.AgentMessageChunk
        self._whole = v2.AgentThought if is_thought else v2.AgentMessage
        self._texts: Chunks | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    async def write(self, *content: Block) -> None:
        """Append blocks; waits while the client takes nothing.

        What was given before a cancellation is sent. Raises `UsageError` after the session was closed,
        `ConnectionClosed`, and `EncodeError`.
        """
        for block in content:
            if isinstance(block, str):
                texts = self._texts
                if texts is None:
                    texts = self._texts = self._outgoing.chunks(self._piece(v2.TextContent(text=_HOLE)), _HOLE)
                await texts.send(block, partial(self._piece, block))
            else:
                await self._outgoing.send(self._piece(block))

    async def replace(self, *content: Block, meta: Any = msgspec.UNSET) -> None:
        """Put other content in the place of all that was written; without any, there is none (MS-03)."""
        await self._outgoing.send(self._whole(message_id=self.message_id, content=blocks_of(content), meta=meta))

    async def patch_meta(self, meta: dict[str, Any] | None) -> None:
        """Patch the message's `_meta`: a key that is None goes; None for all of it clears it (MT-03)."""
        await self._outgoing.send(self._whole(message_id=self.message_id, meta=meta))

    def _piece(self, block: Block) -> v2.SessionUpdate:
        (content,) = blocks_of([block])
        return self._chunk(message_id=self.message_id, content=content)


class SessionMessageWriter:
    """A message from or to another session, as this one sees it (SM-01)."""

    def __init__(self, outgoing: Outgoing, message_id: str | None, participants: dict[str, str]) -> None:
        self.message_id = message_id or new_id("msg")
        self._outgoing = outgoing
        self._participants = participants  # told with the first update, and when they become known (SM-04)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    async def write(self, *content: Block) -> None:
        """Append blocks. Raises as `MessageWriter.write` does."""
        for block in blocks_of(content):
            await self._outgoing.send(
                v2.SessionMessageChunk(message_id=self.message_id, content=block, **self._told(whole=False))
            )

    async def replace(self, *content: Block, meta: Any = msgspec.UNSET) -> None:
        """Put other content in the place of all that was written (SM-05)."""
        await self._outgoing.send(
            v2.SessionMessage(
                message_id=self.message_id, content=blocks_of(content), meta=meta, **self._told(whole=True)
            )
        )

    async def participants(self, **known: str) -> None:
        """Add what has become known: `sender_session_id`, `recipient_session_id`, `sender_message_id`, ..."""
        self._participants.update(known)
        await self._outgoing.send(v2.SessionMessage(message_id=self.message_id, **self._told(whole=True)))

    def _told(self, *, whole: bool) -> dict[str, Any]:
        """The participants that an update can name, each said once; a chunk names sessions alone (X7)."""
        names = [name for name in self._participants if whole or name.endswith("session_id")]
        return {name: self._participants.pop(name) for name in names}


class _Entity:
    """What can be cancelled for itself, from the client too, and has an end that is said once."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._scope = Scope()
        self.is_over = False
        """Whether its end was said."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the client, or the agent itself, had it cancelled."""
        return self._scope.is_cancelled

    def cancel(self) -> None:
        """Cancel what runs inside its `async with`; what comes after goes on."""
        self._scope.cancel()

    async def __aenter__(self) -> Self:
        await self._begin()
        self._scope.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        ours = self._scope.leave(error)
        if not self.is_over:
            with suppress(ConnectionClosed, UsageError):  # then there is nobody to tell, and the error itself goes on
                await self._end(error)
        return ours

    async def _begin(self) -> None:
        """Say that it is there."""
        raise NotImplementedError

    async def _end(self, error: BaseException | None) -> None:
        """Say how it ended, by how it was left."""
        raise NotImplementedError

    def _was_cancelled(self, error: BaseException | None) -> bool:
        return self.is_cancelled or isinstance(error, asyncio.CancelledError)


class ToolCallWriter(_Entity):
    """A tool call, from its announcement to its final status (TC-01, TC-06, TC-09).

        async with session.tool_call("Read main.py", kind="read") as call:
            if await call.request_permission(...):
                await call.start()
                await call.write(text)

    Left normally it is `completed`, by an exception `failed` (the exception goes on), by a cancellation `cancelled`.
    """

    def __init__(self, outgoing: Outgoing, fields: v2.ToolCallFields, *, can_cancel: bool) -> None:
        super().__init__(outgoing)
        self.tool_call_id = fields.tool_call_id
        self.status = fields.status
        self._fields = fields
        self._can_cancel = can_cancel

    @property
    def can_cancel(self) -> bool:
        """Whether the client may cancel it now (TC-18)."""
        return self._can_cancel and not self.is_over

    async def start(self) -> None:
        """It runs now: after permission was given, if it needed any. Nothing is sent where it runs already."""
        if self.status != "in_progress":
            await self.update(status="in_progress")

    async def write(self, *content: Block | v2.ToolCallContent) -> None:
        """Append content; a string is text. The first write starts it."""
        await self.start()
        for item in content:
            await self._send(v2.ToolCallContentChunk(tool_call_id=self.tool_call_id, content=_item_of(item)))

    async def update(self, **fields: Any) -> None:
        """Patch any field: what is omitted stays, None resets it, a value replaces it (TC-02)."""
        await self._send(v2.ToolCallUpdate(tool_call_id=self.tool_call_id, **fields))
        self.status = fields.get("status", self.status)
        self.is_over = self.status in _FINAL

    async def complete(self, *content: Block | v2.ToolCallContent, raw_output: Any = msgspec.UNSET) -> None:
        """It is done; content that is given replaces what was written."""
        await self._finish("completed", content, raw_output)

    async def fail(self, *content: Block | v2.ToolCallContent, raw_output: Any = msgspec.UNSET) -> None:
        """It failed; content that is given replaces what was written."""
        await self._finish("failed", content, raw_output)

    async def _finish(self, status: str, content: Sequence[Block | v2.ToolCallContent], raw_output: Any) -> None:
        fields: dict[str, Any] = {"status": status, "raw_output": raw_output}
        if content:
            fields["content"] = [_item_of(item) for item in content]
        if self._can_cancel:
            fields["capabilities"] = None  # withdrawn with the final status (TC-17)
        await self.update(**fields)

    async def _begin(self) -> None:
        await self._outgoing.send(
            v2.ToolCallUpdate(**{name: getattr(self._fields, name) for name in self._fields.__struct_fields__})
        )

    async def _end(self, error: BaseException | None) -> None:
        status = "cancelled" if self._was_cancelled(error) else "failed" if error is not None else "completed"
        await self._finish(status, (), msgspec.UNSET)

    async def _send(self, update: v2.SessionUpdate) -> None:
        if self.is_over:
            raise UsageError(f"TC-09: the tool call {self.tool_call_id} has its final status already")
        await self._outgoing.send(update)


def _item_of(item: Block | v2.ToolCallContent) -> v2.ToolCallContent:
    """Content of a tool call; blocks are wrapped."""
    if isinstance(item, v2.Content | v2.Diff | v2.Terminal | v2.UnknownVariant):
        return item
    (block,) = blocks_of([item])
    return v2.Content(content=block)


class TerminalWriter(_Entity):
    """A terminal that the agent shows: it runs at the agent, the client displays its bytes (TM-01).

        async with session.terminal(command="make", cwd="/src") as terminal:
            await terminal.write(output)
            await terminal.exit(0)

    Left without `exit`, it has exited and nothing more is known of it.
    """

    def __init__(self, outgoing: Outgoing, update: v2.TerminalUpdate, *, can_cancel: bool) -> None:
        super().__init__(outgoing)
        self.terminal_id = update.terminal_id
        self._update = update
        self._can_cancel = can_cancel

    @property
    def can_cancel(self) -> bool:
        """Whether the client may cancel it now (TM-11)."""
        return self._can_cancel and not self.is_over

    @property
    def content(self) -> v2.Terminal:
        """What shows it inside a tool call."""
        return v2.Terminal(terminal_id=self.terminal_id)

    async def write(self, output: bytes | str) -> None:
        """Append output; characters and escape sequences may be cut anywhere (TM-07)."""
        data = output.encode() if isinstance(output, str) else output
        await self._send(
            v2.TerminalOutputChunk(terminal_id=self.terminal_id, data=base64.b64encode(data).decode("ascii"))
        )

    async def update(self, **fields: Any) -> None:
        """Patch any field: what is omitted stays, None clears it, a value replaces it (TM-04)."""
        await self._send(v2.TerminalUpdate(terminal_id=self.terminal_id, **fields))

    async def exit(self, exit_code: int | None = None, *, signal: str | None = None) -> None:
        """It has exited (TM-08)."""
        fields: dict[str, Any] = {"capabilities": None} if self._can_cancel else {}
        status = v2.TerminalExitStatus(exit_code=exit_code, signal=signal)
        await self._send(v2.TerminalUpdate(terminal_id=self.terminal_id, exit_status=status, **fields))
        self.is_over = True

    async def _begin(self) -> None:
        await self._outgoing.send(self._update)

    async def _end(self, error: BaseException | None) -> None:
        del error
        await self.exit()

    async def _send(self, update: v2.SessionUpdate) -> None:
        if self.is_over:
            raise UsageError(f"TM-08: the terminal {self.terminal_id} has exited")
        await self._outgoing.send(update)


class CompactionWriter(_Entity):
    """A compaction of the context, from its start to one final status (CP-01, CP-06).

        async with session.compaction() as compaction:
            await compaction.write("Retained: the user wants ...")

    Left normally it is `completed` with what was written, by an exception `failed`, by a cancellation `cancelled`.
    """

    def __init__(self, outgoing: Outgoing, compaction_id: str | None) -> None:
        super().__init__(outgoing)
        self.compaction_id = compaction_id or new_id("cmp")
        self._has_begun = False

    async def write(self, *content: Block) -> None:
        """Append to the summary that the user may read (CP-08, CP-16)."""
        for block in blocks_of(content):
            await self._send(v2.CompactionSummaryChunk(compaction_id=self.compaction_id, content=block))

    async def complete(self, *summary: Block) -> None:
        """It is done; a summary that is given replaces what was written (CP-12)."""
        await self._finish("completed", **({"summary": blocks_of(summary)} if summary else {}))

    async def fail(self, error: str | None = None) -> None:
        """It failed, and why, in words for the user (CP-14)."""
        await self._finish("failed", **({"error": error} if error else {}))

    async def _finish(self, status: str, **fields: Any) -> None:
        await self._send(v2.CompactionUpdate(compaction_id=self.compaction_id, status=status, **fields))
        self.is_over = True

    async def _begin(self) -> None:
        await self._outgoing.send(v2.CompactionUpdate(compaction_id=self.compaction_id, status="in_progress"))
        self._has_begun = True

    async def _end(self, error: BaseException | None) -> None:
        await self._finish(
            "cancelled" if self._was_cancelled(error) else "failed" if error is not None else "completed"
        )

    async def _send(self, update: v2.SessionUpdate) -> None:
        if not self._has_begun:
            raise UsageError("CP-10: a compaction is announced before anything is written: use `async with`")
        if self.is_over:
            raise UsageError("CP-06, CP-10: the compaction has its final status already")
        await self._outgoing.send(update)
