"""What a transcript holds, and the mechanics that every update needs: finding, patching, telling, freezing.

Owns: the entities and their places, the session's own values, the copies that snapshots share, `Change`. Does not know:
what any update means (`fold`), or what is asked of a transcript (`transcript`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar, cast

from acpwire import v2
from acpwire.wire.surrogates import encode_escaped

from .content import Blocks
from .entities import Entity, Message
from .frozen import FrozenDict, frozen
from .snapshot import Snapshot, State, Usage

E = TypeVar("E", bound=Entity)
CATEGORIES = (
    *("user", "agent", "thought", "session_message", "tool_call", "terminal", "plan", "compaction", "subagent"),
    "unknown",
)


class Change(NamedTuple):
    """What one `apply` changed, for those who show it.

    `category` is that of the entity, or "state", "commands", "config", "info", "usage", "notice" (with no `id`).
    "created": it is new, with all that it holds. "appended": its content grew by what lies from `start` to its end.
    "replaced": anything may have changed.
    """

    category: str
    id: str
    what: Literal["created", "appended", "replaced", "removed"]
    start: int = 0


class Store:
    """The state of one transcript; `fold` changes it, `Transcript` shows it."""

    def __init__(self, schema: ModuleType, observer: Callable[[Change], None] | None) -> None:
        self.schema = schema
        self.observer = observer
        self.timeline: list[Entity] = []
        self.by_category: dict[str, dict[str, Any]] = {category: {} for category in CATEGORIES}
        self.messages: dict[tuple[str, str], Message] = {}
        self.unknown = 0
        """How many updates came that are not known."""
        self.state = State()
        self.background: Sequence[Any] = ()
        """What runs beside the foreground, as the last state said that said anything of it (BG-01)."""
        self.commands: tuple[Any, ...] | None = None
        self.commands_meta: Mapping[str, Any] | None = None
        self.config: tuple[Any, ...] | None = None
        self.config_meta: Mapping[str, Any] | None = None
        self.info: Mapping[str, Any] = FrozenDict(title=None, updated_at=None, meta=None)
        self.usage: Usage | None = None
        self.notices: list[Any] = []
        self.spent: Any = None
        """Tokens of the work that ended, but for the newest."""
        self.spent_last: Any = None
        """Tokens of the work that ended last, as its newest snapshot says."""
        self.expected: Counter[bytes] | None = None
        """During a replay: updates not known that were here when it began, less those that it brought again."""
        self._changes: list[Change] = []
        self._frozen: list[Entity] = []
        self._places: dict[int, int] | None = None
        self._touched: list[Entity] = []

    def snapshot(self) -> Snapshot:
        """Everything as it is now; what did not change since the last snapshot is shared with it."""
        for entity in self._touched:
            if entity.touched:
                entity.touched = False
                place = self._place(entity)
                if place is not None:
                    self._frozen[place] = entity.frozen()
        self._touched.clear()
        return Snapshot(
            tuple(self._frozen),
            self.state,
            self.commands,
            self.commands_meta,
            self.config,
            self.config_meta,
            self.info,
            self.usage,
        )

    def remove(self, category: str, entity_id: str) -> None:
        """Take an entity from the timeline, if it is there."""
        entity = self.by_category[category].pop(entity_id, None)
        if entity is not None:
            place = self._place(entity)
            if place is not None:
                del self.timeline[place], self._frozen[place]
            self._places = None
            self.tell(category, entity_id, "removed")

    def _place(self, entity: Entity) -> int | None:
        if self._places is None:
            self._places = {id(each): index for index, each in enumerate(self.timeline)}
        return self._places.get(id(entity))

    def find(self, kind: str, entity_id: str, make: Callable[[], E]) -> E:
        """The entity of that ID, made at the end of the timeline where it is seen first."""
        found = self.by_category[kind].get(entity_id)
        if found is None:
            found = self.by_category[kind][entity_id] = make()
            if isinstance(found, Message):
                self.messages[kind, entity_id] = found
            if self._places is not None:
                self._places[id(found)] = len(self.timeline)
            self.timeline.append(found)
            self._frozen.append(found)
            self._touched.append(found)
            self.tell(kind, entity_id, "created")
        return cast("E", found)

    def changed(self, entity: Entity, what: Literal["appended", "replaced"], start: int = 0) -> None:
        """Note that an entity differs from the last snapshot, and that this is to be told."""
        if not entity.touched:
            entity.touched = True
            self._touched.append(entity)
        if self.observer is not None:
            created = Change(entity.category, entity.id, "created")
            if self._changes[-1:] != [created]:  # which says it all
                self._changes.append(Change(entity.category, entity.id, what, start))

    def tell(self, kind: str, entity_id: str, what: Literal["created", "appended", "replaced", "removed"]) -> None:
        """Note what is to be told, if there is an observer."""
        if self.observer is not None:
            self._changes.append(Change(kind, entity_id, what))

    def deliver(self) -> None:
        """Tell the observer what was noted. It may raise, or apply more: nothing is half done any longer."""
        if self.observer is not None:
            changes, self._changes = self._changes, []
            for change in changes:
                self.observer(change)

    def blocks(self, blocks: Iterable[Any] = ()) -> Blocks:
        """Content that begins with these blocks."""
        return Blocks(self.schema.TextContent, blocks)

    @contextmanager
    def replaying(self) -> Generator[None]:
        """While what is not known may be brought again."""
        before = self.expected
        self.expected = Counter(encode_escaped(entity.update) for entity in self.by_category["unknown"].values())
        try:
            yield
        finally:
            self.expected = before

    def is_replayed(self, update: Any) -> bool:
        """Whether a replay brings again what is held; of several that are equal, each stands for one."""
        if self.expected is None:
            return False
        key = encode_escaped(update)
        known = self.expected[key] > 0
        self.expected[key] -= known
        return known

    def patched(self, update: Any) -> Iterator[tuple[str, Any]]:
        """Attribute and new value of everything that a patch sets: null leaves the table's reset behind."""
        for attr, reset in self.schema.PATCHES.get(type(update), {}).items():
            value = getattr(update, attr)
            if value is not v2.UNSET:
                yield attr, reset if value is None else value

    def meta(self, update: Any, old: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """`meta` after a patch, by the rule of the type (MT-03); what chunks carry is theirs alone (MT-04)."""
        new, rule = update.meta, self.schema.META_RULES.get(type(update))
        if new is v2.UNSET or rule == "chunk":
            return old
        if new is None or rule != "patch":
            return cast("Mapping[str, Any] | None", frozen(new))
        merged = {key: value for key, value in {**(old or {}), **new}.items() if value is not None}
        return frozen(merged) or None
