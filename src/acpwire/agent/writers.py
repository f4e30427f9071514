"""Writers: what an agent says piece by piece, each entity with the updates that the protocol asks of it.

Owns: which update a piece becomes, and refusing what is out of order, by the requirement's name. Does not know:
sessions, or how updates leave. All of them are for the event loop's thread.
"""

from __future__ import annotations

import base64
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from threading import get_ident
from types import TracebackType
from typing import Any, ClassVar, Final, Self, TypeAlias, TypedDict, Unpack, get_args

import msgspec

from acpwire import v2
from acpwire.errors import ConnectionClosed, EncodeError, UsageError
from acpwire.scope import Scope
from acpwire.texts import SHORT
from acpwire.trace import trace_context

from .outgoing import Chunks, Outgoing, new_id

__all__ = [
    "Block",
    "CompactionWriter",
    "Entity",
    "Item",
    "MessageWriter",
    "SessionMessageWriter",
    "TerminalMembers",
    "TerminalPatch",
    "TerminalWriter",
    "ToolCallMembers",
    "ToolCallPatch",
    "ToolCallWriter",
    "blocks_of",
    "classes_of",
    "items_of",
    "mistyped",
    "shown",
]

Block: TypeAlias = "str | v2.ContentBlock"
"""A block of content; a plain string is text."""
Item: TypeAlias = "Block | v2.ToolCallContent | TerminalWriter"
"""What a tool call shows: a block of content, a diff, or a terminal, for which its writer stands."""
_FINAL: Final = frozenset({"completed", "failed", "cancelled"})
_NOTHING: Final[Any] = object()


def classes_of(union: Any) -> tuple[type[Any], ...]:
    """The classes of an open union of the draft."""
    return (*get_args(get_args(union)[0]), v2.UnknownVariant)


_BLOCKS: Final = classes_of(v2.ContentBlock)
_ITEMS: Final = classes_of(v2.ToolCallContent)


def mistyped(argument: str, expected: str, value: object) -> EncodeError:
    """What is raised for an argument of another type."""
    return EncodeError(f"{argument}: expected {expected}, not {type(value).__name__}")


def blocks_of(content: Sequence[Block], argument: str = "content") -> list[v2.ContentBlock]:
    """Content as blocks. Raises `EncodeError` for what is none."""
    return [_block_of(block, argument, "str or a content block") for block in content]


def _block_of(block: Any, argument: str, expected: str) -> v2.ContentBlock:
    if isinstance(block, str):
        return v2.TextContent(text=block)
    if not isinstance(block, _BLOCKS):
        raise mistyped(argument, expected, block)
    found: v2.ContentBlock = block
    return found


# Members that are given by name; which there are, and of which type, a test compares with the draft's classes.


class ToolCallMembers(TypedDict, total=False):
    """What a tool call may have beyond what `AgentSession.tool_call` names."""

    content: Sequence[Item] | msgspec.UnsetType | None
    locations: Sequence[v2.ToolCallLocation] | msgspec.UnsetType | None
    raw_input: Any
    raw_output: Any
    capabilities: v2.ToolCallCapabilities | msgspec.UnsetType | None
    meta: Mapping[str, Any] | msgspec.UnsetType | None


class ToolCallPatch(ToolCallMembers, total=False):
    """What an update of a tool call may change."""

    name: str | msgspec.UnsetType | None
    title: str | msgspec.UnsetType | None
    kind: v2.ToolKind | msgspec.UnsetType | None
    status: v2.ToolCallStatus | msgspec.UnsetType | None


class TerminalMembers(TypedDict, total=False):
    """What a terminal may have beyond what `AgentSession.terminal` names."""

    output: v2.TerminalOutput | msgspec.UnsetType | None
    exit_status: v2.TerminalExitStatus | msgspec.UnsetType | None
    size: v2.TerminalSize | msgspec.UnsetType | None
    capabilities: v2.TerminalCapabilities | msgspec.UnsetType | None
    meta: Mapping[str, Any] | msgspec.UnsetType | None


class TerminalPatch(TerminalMembers, total=False):
    """What an update of a terminal may change."""

    command: str | msgspec.UnsetType | None
    cwd: v2.AbsolutePath | msgspec.UnsetType | None


class MessageWriter:
    """A message of the agent or a thought, written block by block (MS-01, MS-02).

        async with session.agent_message() as message:
            await message.write("Hel", "lo")

    Nothing is sent before the first write. Entering and leaving cost nothing: a writer may be used without.

    Attributes:
        message_id: the id of the message.
    """

    def __init__(self, outgoing: Outgoing, message_id: str | None, *, is_thought: bool) -> None:
        self.message_id = message_id or new_id("thought" if is_thought else "msg")
        self._outgoing = outgoing
        self._chunk = v2.AgentThoughtChunk if is_thought else v2.AgentMessageChunk
        self._whole = v2.AgentThought if is_thought else v2.AgentMessage
        self._chunks: Chunks | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def write(self, block: Block = _NOTHING, /, *more: Block) -> Coroutine[Any, Any, None]:
        """Append blocks; awaiting it waits while the client takes nothing.

        The call itself puts them in their place among all that is sent, even where the waiting is cancelled; from
        another thread, whoever awaits it does. Raises `UsageError` after the session was closed, `ConnectionClosed`,
        and `EncodeError`.
        """
        outgoing, chunks = self._outgoing, self._chunks
        if chunks is not None and get_ident() == outgoing.plain and not trace_context.get():
            texts = chunks.texts
            if texts and not more and type(block) is str and len(block) <= SHORT:  # what is written most
                texts.append(block)
                return outgoing.peer.sent if len(texts) < chunks.most else outgoing.flow()
        return self._write(more if block is _NOTHING else (block, *more))

    def _write(self, content: Sequence[Block]) -> Coroutine[Any, Any, None]:
        outgoing = self._outgoing
        if get_ident() != outgoing.plain or trace_context.get():
            return outgoing.send_all([self._piece(block) for block in content])
        chunks = self._chunks or self._begin()
        texts = chunks.texts
        is_full = False
        for block in content:
            if type(block) is not str:
                is_full = outgoing.post(self._piece(block)) or is_full
            else:
                chunks.post(block)
        return outgoing.flow() if is_full or len(texts) >= chunks.most else outgoing.peer.sent

    async def replace(self, *content: Block, meta: Any = msgspec.UNSET) -> None:
        """Put other content in the place of all that was written; without any, there is none (MS-03)."""
        await self._outgoing.send(self._whole(message_id=self.message_id, content=blocks_of(content), meta=meta))

    async def patch_meta(self, meta: dict[str, Any] | None) -> None:
        """Patch the message's `_meta`: a key that is None goes; None for all of it clears it (MT-03)."""
        await self._outgoing.send(self._whole(message_id=self.message_id, meta=meta))

    def _begin(self) -> Chunks:
        self._chunks = Chunks(self._outgoing, self._chunk, self.message_id)
        return self._chunks

    def _piece(self, block: Block) -> v2.SessionUpdate:
        (content,) = blocks_of([block])
        return self._chunk(message_id=self.message_id, content=content)


class SessionMessageWriter:
    """A message from or to another session, as this one sees it (SM-01); used as a `MessageWriter` is.

    Attributes:
        message_id: the id of the message in this session.
    """

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
        """Append blocks. Raises as `MessageWriter.write` does.

        Participants that were not told yet go ahead in an update of their own: not all clients read them of a chunk.
        """
        if content and self._participants:
            self._outgoing.post(v2.SessionMessage(message_id=self.message_id, **self._told()))
        for block in blocks_of(content):
            await self._outgoing.send(v2.SessionMessageChunk(message_id=self.message_id, content=block))

    async def replace(self, *content: Block, meta: Any = msgspec.UNSET) -> None:
        """Put other content in the place of all that was written (SM-05)."""
        await self._outgoing.send(
            v2.SessionMessage(message_id=self.message_id, content=blocks_of(content), meta=meta, **self._told())
        )

    async def participants(self, **known: str) -> None:
        """Add what has become known: `sender_session_id`, `recipient_session_id`, `sender_message_id`, ..."""
        self._participants.update(known)
        await self._outgoing.send(v2.SessionMessage(message_id=self.message_id, **self._told()))

    def _told(self) -> dict[str, Any]:
        """The participants that are known, each said once."""
        told, self._participants = self._participants, {}
        return told


class Entity:
    """What can be cancelled for itself, from the client too, and has an end that is said once.

    `registry` holds, while it runs, what the client may cancel, under the entity's kind and id; `ended` says what is
    wrong with speaking of it after its end.
    """

    kind: ClassVar[str]
    announced_by: ClassVar[str]
    """The requirement that has it announced first."""

    def __init__(self, outgoing: Outgoing, entity_id: str, registry: dict[tuple[str, str], Entity], ended: str) -> None:
        self._outgoing = outgoing
        self._key = (self.kind, entity_id)
        self._ended = ended
        self._registry = registry
        self._scope = Scope()
        self._has_begun = False
        self._can_cancel = False
        self.is_over = False
        """Whether its end was said."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the client, or the agent itself, had it cancelled."""
        return self._scope.is_cancelled

    @property
    def can_cancel(self) -> bool:
        """Whether the client may cancel it now (TC-18, TM-11)."""
        return self._can_cancel and not self.is_over

    def cancel(self) -> None:
        """Cancel what runs inside its `async with`; what comes after goes on."""
        self._scope.cancel()

    async def __aenter__(self) -> Self:
        """Announce it, without waiting: whatever happens from here on, its end is told.

        Raises `UsageError` for a second time, and where another one runs under its id.
        """
        running = self._registry.get(self._key)
        if self._has_begun or (running is not None and not running.is_over):
            raise UsageError(
                f"{self.announced_by}: the {self.kind} {self._key[1]} was announced already: make another one, with an "
                "id of its own"
            )
        self._outgoing.post(self._announcement())
        self._has_begun = True
        self._registry[self._key] = self
        self._scope.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        ours = self._scope.leave(error)
        self._registry.pop(self._key, None)
        if not self.is_over:
            with suppress(ConnectionClosed, UsageError):  # then there is nobody to tell, and the error itself goes on
                await self._end(error)
        return ours

    def _announcement(self) -> v2.SessionUpdate:
        """The first update of it."""
        raise NotImplementedError

    async def _end(self, error: BaseException | None) -> None:
        """Say how it ended, by how it was left."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise `UsageError` where it cannot be spoken of: before it was announced, and after its end."""
        if not self._has_begun:
            raise UsageError(f"{self.announced_by}: a {self.kind} is announced before anything else: use `async with`")
        if self.is_over:
            raise UsageError(self._ended)

    def _say(self, update: v2.SessionUpdate) -> None:
        """Send an update without waiting."""
        self.check()
        self._outgoing.post(update)


class ToolCallWriter(Entity):
    """A tool call, from its announcement to its final status (TC-01, TC-06, TC-09).

        async with session.tool_call("Read main.py", kind="read") as call:
            if await session.request_permission("Read main.py?", subject=call):
                await call.start()
                await call.write(text)

    Left normally it is `completed`, by an exception `failed` (the exception goes on), by a cancellation `cancelled`,
    one that a library has wrapped in an exception of its own included. Its methods raise `UsageError` outside
    `async with` and after its final status, `EncodeError` for what a client may refuse, and `ConnectionClosed`; what
    they were given is sent even where their waiting is cancelled. It is entered once.

    `start()` is for a tool that runs for a while before it has anything to show: writing starts it anyway. `fail()`
    without content keeps what was written; content that is given takes its place. Where the client cancels this call
    alone, that ends at the `async with`, and what comes after goes on: give what is used there a value before it.

        found = "nothing"
        async with session.tool_call("Search", kind="search", can_cancel=True) as call:
            found = await search()
            await call.write(found)
        return found

    Attributes:
        tool_call_id: the id of the tool call.
        status: the status that was told last.
        is_over: whether that is a final one.
        is_cancelled: whether the client, or the agent itself, had it cancelled.
        can_cancel: whether the client may cancel it now.
    """

    kind = "tool call"
    announced_by = "TC-01"

    def __init__(self, outgoing: Outgoing, fields: v2.ToolCallFields, registry: dict[tuple[str, str], Entity]) -> None:
        ended = f"TC-09: the tool call {fields.tool_call_id} has its final status already"
        super().__init__(outgoing, fields.tool_call_id, registry, ended)
        self.tool_call_id = fields.tool_call_id
        self.status: str = fields.status or "pending"
        self._fields = fields
        self._can_cancel = _has_cancel(fields.capabilities)

    async def start(self) -> None:
        """It runs now: after permission was given, if it needed any. Nothing is sent where it runs already."""
        if self.status != "in_progress":
            await self.update(status="in_progress")

    async def write(self, *content: Item) -> None:
        """Append content: a string is text, a writer of a terminal shows that. The first starts it (TC-06, TC-07)."""
        items = items_of(content)
        await self.start()
        for item in items:
            self._say(v2.ToolCallContentChunk(tool_call_id=self.tool_call_id, content=item))
            await self._outgoing.flow()

    async def update(self, **fields: Unpack[ToolCallPatch]) -> None:
        """Patch any field: what is omitted stays, None resets it, a value replaces it (TC-02)."""
        given = fields.get("status", self.status)
        status = "pending" if given is None else self.status if isinstance(given, msgspec.UnsetType) else given
        if status in _FINAL and self._can_cancel:
            fields.setdefault("capabilities", None)  # withdrawn with the final status (TC-17)
        self._say(v2.ToolCallUpdate(tool_call_id=self.tool_call_id, **shown(fields)))
        self.status = status
        self.is_over = status in _FINAL
        if "capabilities" in fields:
            self._can_cancel = _has_cancel(fields["capabilities"])
        await self._outgoing.flow()

    async def complete(self, *content: Item, raw_output: Any = msgspec.UNSET) -> None:
        """It is done; content that is given replaces what was written, without any that stays (TC-09)."""
        await self._finish("completed", content, raw_output)

    async def fail(self, *content: Item, raw_output: Any = msgspec.UNSET) -> None:
        """It failed; content that is given replaces what was written, without any that stays (TC-09)."""
        await self._finish("failed", content, raw_output)

    async def _finish(self, status: str, content: Sequence[Item], raw_output: Any) -> None:
        fields = ToolCallPatch(status=status, raw_output=raw_output)
        if content:
            fields["content"] = content
        await self.update(**fields)

    def _announcement(self) -> v2.SessionUpdate:
        return v2.ToolCallUpdate(**{name: getattr(self._fields, name) for name in self._fields.__struct_fields__})

    async def _end(self, error: BaseException | None) -> None:
        await self.update(status=_how(self._scope, error))


def _has_cancel(capabilities: Any) -> bool:
    """Whether capabilities of an entity let the client cancel it."""
    return bool(capabilities) and capabilities.cancel is not None


def _how(scope: Scope, error: BaseException | None) -> str:
    """The final status of what was left like this."""
    return "cancelled" if scope.was_interrupted else "failed" if error is not None else "completed"


def items_of(content: Sequence[Item]) -> list[v2.ToolCallContent]:
    """Content of a tool call; blocks are wrapped. Raises `EncodeError` for what is none."""
    return [_item_of(item) for item in content]


def _item_of(item: Any) -> v2.ToolCallContent:
    if isinstance(item, TerminalWriter):
        return item.content
    if isinstance(item, _ITEMS):
        found: v2.ToolCallContent = item
        return found
    return v2.Content(content=_block_of(item, "content", "str, a content block, a diff or a terminal"))


def shown(fields: ToolCallMembers) -> dict[str, Any]:
    """The fields of a tool call as its class takes them."""
    content = fields.get("content")
    if isinstance(content, list | tuple):
        return {**fields, "content": items_of(content)}
    return {**fields}


class TerminalWriter(Entity):
    """A terminal that the agent shows: it runs at the agent, the client displays its bytes (TM-01).

        async with session.terminal(command="make", cwd="/src") as terminal:
            await terminal.write(output)
            await terminal.exit(0)

    Left without `exit`, it has exited and nothing more is known of it. Its methods raise as those of `ToolCallWriter`.
    A tool call shows it by `call.write(terminal)`.

    Attributes:
        terminal_id: the id of the terminal.
        content: what shows it inside a tool call.
        is_over: whether it was told that it exited.
        is_cancelled: whether the client, or the agent itself, had it cancelled.
        can_cancel: whether the client may cancel it now.
    """

    kind = "terminal"
    announced_by = "TM-05"

    def __init__(self, outgoing: Outgoing, update: v2.TerminalUpdate, registry: dict[tuple[str, str], Entity]) -> None:
        super().__init__(outgoing, update.terminal_id, registry, f"TM-08: the terminal {update.terminal_id} has exited")
        self.terminal_id = update.terminal_id
        self._update = update
        self._can_cancel = _has_cancel(update.capabilities)

    @property
    def content(self) -> v2.Terminal:
        """What shows it inside a tool call."""
        return v2.Terminal(terminal_id=self.terminal_id)

    async def write(self, output: bytes | str) -> None:
        """Append output; characters and escape sequences may be cut anywhere (TM-07)."""
        given: Any = output
        if not isinstance(given, bytes | bytearray | memoryview | str):
            raise mistyped("output", "bytes or str", given)
        data = output.encode() if isinstance(output, str) else output
        self._say(v2.TerminalOutputChunk(terminal_id=self.terminal_id, data=base64.b64encode(data).decode("ascii")))
        await self._outgoing.flow()

    async def update(self, **fields: Unpack[TerminalPatch]) -> None:
        """Patch any field: what is omitted stays, None clears it, a value replaces it (TM-04)."""
        has_exited = bool(fields.get("exit_status"))
        if has_exited and self._can_cancel:
            fields.setdefault("capabilities", None)
        self._say(v2.TerminalUpdate(terminal_id=self.terminal_id, **fields))
        self.is_over = has_exited
        if "capabilities" in fields:
            self._can_cancel = _has_cancel(fields["capabilities"])
        await self._outgoing.flow()

    async def exit(self, exit_code: int | None = None, *, signal: str | None = None) -> None:
        """It has exited (TM-08)."""
        await self.update(exit_status=v2.TerminalExitStatus(exit_code=exit_code, signal=signal))

    def _announcement(self) -> v2.SessionUpdate:
        return self._update

    async def _end(self, error: BaseException | None) -> None:
        del error
        await self.exit()


class CompactionWriter(Entity):
    """A compaction of the context, from its start to one final status (CP-01, CP-06).

        async with session.compaction() as compaction:
            await compaction.write("Retained: the user wants ...")

    Left normally it is `completed` with what was written, by an exception `failed`, by a cancellation `cancelled`.
    It compacts what the model sees; the client discards nothing for it (CP-19), and `usage` is told apart (CP-20).

    Attributes:
        compaction_id: the id of the compaction.
        is_over: whether its end was told.
        is_cancelled: whether the agent had it cancelled.
    """

    kind = "compaction"
    announced_by = "CP-10"

    def __init__(self, outgoing: Outgoing, compaction_id: str | None, registry: dict[tuple[str, str], Entity]) -> None:
        self.compaction_id = compaction_id or new_id("cmp")
        ended = "CP-06, CP-10: the compaction has its final status already"
        super().__init__(outgoing, self.compaction_id, registry, ended)

    async def write(self, *content: Block) -> None:
        """Append to the summary: what is retained, as a user may read it, and nothing else (CP-08, CP-16)."""
        for block in blocks_of(content):
            self._say(v2.CompactionSummaryChunk(compaction_id=self.compaction_id, content=block))
            await self._outgoing.flow()

    async def complete(self, *summary: Block) -> None:
        """It is done; a summary that is given replaces what was written (CP-12)."""
        await self._finish("completed", **({"summary": blocks_of(summary, "summary")} if summary else {}))

    async def fail(self, error: str | None = None) -> None:
        """It failed, and why, in words for the user (CP-14)."""
        await self._finish("failed", **({"error": error} if error else {}))

    async def _finish(self, status: str, **fields: Any) -> None:
        self._say(v2.CompactionUpdate(compaction_id=self.compaction_id, status=status, **fields))
        self.is_over = True
        await self._outgoing.flow()

    def _announcement(self) -> v2.SessionUpdate:
        return v2.CompactionUpdate(compaction_id=self.compaction_id, status="in_progress")

    async def _end(self, error: BaseException | None) -> None:
        await self._finish(_how(self._scope, error))
