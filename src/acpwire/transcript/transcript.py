"""What one asks of a transcript: applying updates, its views, snapshots, and the way back to updates and lines.

Owns: `Transcript`. Does not know: what an update does (`fold`), connections, files, asyncio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

from acpwire import v2

from . import fold, history
from .entities import Compaction, Entity, Message, Plan, SessionMessage, Subagent, Terminal, ToolCall
from .snapshot import Snapshot, State, Usage
from .store import Change, Store


class Transcript:
    """What a stream of updates adds up to (table B2 of the protocol, SU-*).

    `schema` is the generated package that the updates are made of; its tables say what is a patch, what null leaves
    behind and what `meta` does, so types of an older draft fold by its rules. `cwd` and `additional_directories` are
    the session's own, which its children inherit.

    `observer` is called with each change of an update, once all of the update is folded; it may look at the transcript
    and apply more. What it raises reaches the caller of `apply`: the update counts as applied, its further changes are
    not told, the next update is folded and told as any other.

    Nothing of an update is kept that could change: its JSON is held as dicts and lists that refuse to be written to
    (`copy.deepcopy` gives plain ones). Entities belong to the transcript and go on changing; snapshots do not. Updates
    are all that a transcript is told: a session applies what answers say of options and commands as the update that
    says the same, where none has said more (SS-08, SU-12, CO-06). Not thread-safe.
    """

    def __init__(
        self,
        observer: Callable[[Change], None] | None = None,
        schema: ModuleType = v2,
        cwd: str | None = None,
        additional_directories: Iterable[str] = (),
    ) -> None:
        self.schema = schema
        self.cwd = cwd
        self.additional_directories = tuple(additional_directories)
        self._store = Store(schema, observer)
        self._handlers: dict[type, fold.Handler] = {}

    @classmethod
    def load(cls, lines: Iterable[str | bytes], schema: ModuleType = v2) -> Transcript:
        """Fold what `save` wrote: one update object a line, blank lines aside. Raises `DecodeError`."""
        transcript = cls(schema=schema)
        for line in lines:
            raw = line.encode() if isinstance(line, str) else line
            if raw.strip():
                transcript.apply(schema.decode(schema.SessionUpdate, raw))
        return transcript

    def apply(self, update: Any) -> None:
        """Fold one update: any variant of `SessionUpdate`, or the `ToolCallFields` of a permission request (PM-03).

        Raises `TypeError` for anything else, and what the observer raises.
        """
        cls = update.__class__
        handler = self._handlers.get(cls)
        if handler is None:
            handler = self._handlers[cls] = fold.handler_of(update, self.schema.PATCHES)
        store = self._store
        handler(store, update)
        if store.observer is not None:
            store.deliver()

    def take_over(self, earlier: Transcript | Snapshot) -> None:
        """Go on from what an earlier transcript of the session held, as its `updates` tell it; it stays as it is.

        Its state is only the last known, until the agent says what it is now (ST-10, ST-12). The observer is told of
        none of this.
        """
        snapshot = earlier.snapshot() if isinstance(earlier, Transcript) else earlier
        store = self._store
        observer, store.observer = store.observer, None
        try:
            for update in history.updates(snapshot, self.schema):
                self.apply(update)
            if snapshot.state.last_known is not None and snapshot.state.confirmed:
                self.apply(self.schema.StateUpdate(state="unknown"))
        finally:
            store.observer = observer

    def replaying(self) -> AbstractContextManager[None]:
        """A `with` block in which to apply a history that may be here already: of a resumed session, or `updates()`.

        Entities are found by their IDs at any time (SS-19). What this version does not know has no identity, so two
        equal ones are two, as chunks are. Inside this block they are taken for those that were here when it was
        entered, one for one; only what is beyond them is added. A state that is known already costs nothing again.
        """
        return self._store.replaying()

    def cancel_unfinished(self) -> None:
        """Mark the tool calls that have not ended as cancelled, provisionally (CA-02): `session/cancel` was sent.

        Not those that the background list which was reported last names, or whose terminals it does: they are no part
        of the active work, and keep running (CA-10, BG-03).
        """
        background = self._store.background
        for call in self.tool_calls.values():
            if not call.is_final and not call.provisional and not _is_among(background, call):
                call.provisional = True
                self._store.changed(call, "replaced")
        self._store.deliver()

    def snapshot(self) -> Snapshot:
        """The transcript as it is now, for ever; what did not change since the last snapshot is shared with it."""
        return self._store.snapshot()

    def updates(self) -> Iterator[Any]:
        """The updates that rebuild this history, materialised and in timeline order; no notices (SU-04, CP-17).

        Left out are the `_meta` of chunks and provisional marks; what the work before the last cost (`spent`) is not
        part of a history. On a transcript that has the history, apply them within `replaying`.
        """
        return history.updates(self.snapshot(), self.schema)

    def save(self) -> Iterator[bytes]:
        """The same as JSON lines, one update object a line, each with its LF; `load` reads them."""
        return map(history.line, self.updates())

    # -- views --

    @property
    def timeline(self) -> tuple[Entity, ...]:
        """All entities, in the order in which they were first seen (SU-10)."""
        return tuple(self._store.timeline)

    @property
    def messages(self) -> Mapping[tuple[str, str], Message]:
        """(sort, ID) -> message; sorts are "user", "agent" and "thought"."""
        return self._store.messages

    @property
    def session_messages(self) -> Mapping[str, SessionMessage]:
        """ID -> message between sessions."""
        return self._store.by_category["session_message"]

    @property
    def tool_calls(self) -> Mapping[str, ToolCall]:
        """ID -> tool call."""
        return self._store.by_category["tool_call"]

    @property
    def terminals(self) -> Mapping[str, Terminal]:
        """ID -> terminal."""
        return self._store.by_category["terminal"]

    @property
    def plans(self) -> Mapping[str, Plan]:
        """ID -> plan."""
        return self._store.by_category["plan"]

    @property
    def compactions(self) -> Mapping[str, Compaction]:
        """ID -> compaction."""
        return self._store.by_category["compaction"]

    @property
    def subagents(self) -> Mapping[str, Subagent]:
        """Session ID -> child."""
        return self._store.by_category["subagent"]

    @property
    def last_message(self) -> Message | None:
        """The newest message of the agent."""
        return next(reversed(self._store.by_category["agent"].values()), None)

    @property
    def text(self) -> str:
        """The agent's answer so far: its messages since the user's last one, a blank line between them."""
        parts: list[str] = []
        for entity in reversed(self._store.timeline):
            if isinstance(entity, Message) and entity.sort != "thought":
                if entity.sort == "user":
                    break
                parts.append(entity.text)
        return "\n\n".join(reversed(parts))

    @property
    def spent(self) -> Any:
        """Tokens of all work that ended so far, each counted once (US-06); None while none was reported."""
        return fold.total(self._store.spent, self._store.spent_last)

    def inherited_cwd(self, child: str) -> str | None:
        """The effective working directory of a child (SA-05)."""
        own: str | None = self.subagents[child].cwd
        return self.cwd if own is None else own

    def inherited_directories(self, child: str) -> tuple[str, ...]:
        """The effective additional directories of a child (SA-05)."""
        own = self.subagents[child].additional_directories
        return self.additional_directories if own is None else own

    # -- of the session itself --

    @property
    def state(self) -> State:
        """The session's foreground work, as last reported."""
        return self._store.state

    @property
    def commands(self) -> tuple[Any, ...] | None:
        """The slash commands; None until they are reported."""
        return self._store.commands

    @property
    def commands_meta(self) -> Mapping[str, Any] | None:
        """`_meta` of the update that reported the commands."""
        return self._store.commands_meta

    @property
    def config(self) -> tuple[Any, ...] | None:
        """The configuration options; None until they are reported."""
        return self._store.config

    @property
    def config_meta(self) -> Mapping[str, Any] | None:
        """`_meta` of the update that reported the configuration options."""
        return self._store.config_meta

    @property
    def info(self) -> Mapping[str, Any]:
        """The session's `title`, `updated_at` and `meta`."""
        return self._store.info

    @property
    def usage(self) -> Usage | None:
        """Context and cost of the session; None until they are reported."""
        return self._store.usage

    @property
    def notices(self) -> tuple[Any, ...]:
        """Notices in the order they came: events, not history (NT-05, NT-06).

        To show, to pass on live or to keep for diagnosis as one likes, or to leave (NT-08, SU-05).
        """
        return tuple(self._store.notices)


def _is_among(background: Iterable[Any], call: ToolCall) -> bool:
    """Whether a tool call goes on in the background: as itself, or as a process, which is listed as its terminal."""
    calls = {one.tool_call_id for one in background if one.tag == "tool_call"}
    terminals = {one.terminal_id for one in background if one.tag == "terminal"}
    return call.id in calls or any(one.tag == "terminal" and one.terminal_id in terminals for one in call.content)
