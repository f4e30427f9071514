"""What grows: the blocks of a message and the bytes of a terminal, appended to for ever and never copied.

Owns: sequences that share one append-only list, each seeing it up to a length; a frozen one costs a pointer and a
number. Does not know: entities, updates, or when something is replaced (then a new sequence is begun).
"""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from acpwire.wire.surrogates import joined

from .frozen import frozen

_HALF = re.compile("[\ud800-\udbff]\\Z")
"""A text that ends with the first half of a character: the next chunk begins with the other."""


class Blocks(Sequence[Any]):
    """Content blocks in the order they came; a block a chunk. Equal when they are with adjacent plain text joined.

    A text block that is nothing but text is kept as its string; `text_class` makes it a block again when asked for.
    """

    __slots__ = ("_items", "_stop", "_text_class")

    def __init__(self, text_class: Any, blocks: Iterable[Any] = ()) -> None:
        self._text_class = text_class
        self._items: list[Any] = []
        self._stop: int | None = None
        for block in blocks:
            self.append(block)

    def append(self, block: Any) -> None:
        """Add a block. A frozen sequence does not change any more."""
        if self._stop is not None:
            raise TypeError("frozen content does not change")
        if type(block) is self._text_class and block.annotations is None and block.meta is None:
            self._items.append(block.text)
        else:
            self._items.append(frozen(block))

    def __getstate__(self) -> tuple[Any, list[Any], int | None]:
        """For copies and pickles: nothing that was appended after it was frozen, and a list of its own."""
        return self._text_class, self._items[: len(self)], self._stop

    def __setstate__(self, state: tuple[Any, list[Any], int | None]) -> None:
        self._text_class, self._items, self._stop = state

    def frozen(self) -> Blocks:
        """The sequence as it is now, whatever is appended later."""
        twin = Blocks(self._text_class)
        twin._items, twin._stop = self._items, len(self)
        return twin

    def _made(self, text: str) -> Any:
        return self._text_class(text=text)

    def __len__(self) -> int:
        return len(self._items) if self._stop is None else self._stop

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        item = self._items[range(len(self))[index]]
        return self._made(item) if isinstance(item, str) else item

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return self.joined() == other.joined() if isinstance(other, Blocks) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # a sequence that grows has no hash

    def __repr__(self) -> str:
        return f"Blocks({list(self)!r})"

    @property
    def text(self) -> str:
        """The text of all text blocks, joined; halves of characters that were cut between chunks are whole again."""
        parts = [item if isinstance(item, str) else getattr(item, "text", "") for item in self._items[: len(self)]]
        return joined("".join(parts))

    def joined(self, piece: int | None = None) -> list[Any]:
        """The same content in few blocks: a run of plain text is one, or several of about `piece` characters."""
        blocks: list[Any] = []
        run: list[str] = []
        size = 0
        for item in itertools.chain(itertools.islice(self._items, len(self)), [None]):
            if isinstance(item, str):
                run.append(item)
                size += len(item)
                if piece is None or size < piece or _HALF.search(item):
                    continue
            text = joined("".join(run))
            if text:
                blocks.append(self._made(text))
            run.clear()
            size = 0
            if item is not None and not isinstance(item, str):
                blocks.append(item)
        return blocks


class Output:
    """Bytes of a terminal in the order they came (TM-06, TM-07); equal when they and `meta` are, however they came."""

    __slots__ = ("_meta", "_parts", "_size", "_stop")

    def __init__(self, data: bytes = b"", meta: Mapping[str, Any] | None = None) -> None:
        self._parts: list[bytes] = [data] if data else []
        self._size = len(data)
        self._stop: int | None = None
        self._meta = frozen(meta)

    @property
    def meta(self) -> Mapping[str, Any] | None:
        """`_meta` of the output snapshot that this began with, until another one replaces it (TM-09, MT-06)."""
        return self._meta

    def __getstate__(self) -> tuple[Any, list[bytes], int, int | None]:
        """For copies and pickles, as that of `Blocks`."""
        return self._meta, self._parts[: self._stop], self._size, self._stop

    def __setstate__(self, state: tuple[Any, list[bytes], int, int | None]) -> None:
        self._meta, self._parts, self._size, self._stop = state

    def append(self, data: bytes) -> None:
        """Add bytes. A frozen output does not change any more."""
        if self._stop is not None:
            raise TypeError("frozen output does not change")
        if data:
            self._parts.append(data)
            self._size += len(data)

    def frozen(self) -> Output:
        """The output as it is now, whatever is appended later."""
        twin = Output(meta=self._meta)
        twin._parts, twin._size = self._parts, self._size
        twin._stop = len(self._parts) if self._stop is None else self._stop
        return twin

    def __bytes__(self) -> bytes:
        return b"".join(self._parts[: self._stop])

    def __len__(self) -> int:
        return self._size

    def __bool__(self) -> bool:
        """True, even when empty: an output that is known differs from one that is not (TM-04)."""
        return True

    @property
    def text(self) -> str:
        """The bytes as UTF-8; characters cut between chunks are whole, one that is not complete yet is left out."""
        return codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Output):
            return NotImplemented
        return bytes(self) == bytes(other) and self._meta == other._meta

    __hash__ = None  # type: ignore[assignment]  # what grows has no hash

    def __repr__(self) -> str:
        return f"Output({bytes(self)!r})" if self._meta is None else f"Output({bytes(self)!r}, {self._meta!r})"
