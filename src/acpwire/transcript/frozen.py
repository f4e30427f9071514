"""Values that stay as they are: what a transcript keeps of updates, and shares with its snapshots and their readers.

Owns: taking a value in; the dict, list and unknown variant that refuse to be changed. Does not know: entities, updates.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar, cast

import msgspec

from acpwire.wire.values import UnknownVariant

T = TypeVar("T")


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    raise TypeError(f"{type(self).__name__} does not change; a copy of it does")


class FrozenDict(dict[str, Any]):
    """A JSON object that refuses to be changed; a dict in all else. A copy is a plain dict, a deep one all through."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]  # refusing is the point

    def __copy__(self) -> dict[str, Any]:
        return {**self}

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return copy.deepcopy({**self}, memo)

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return FrozenDict, ({**self},)


class FrozenList(list[Any]):
    """A JSON array that refuses to be changed; a list in all else. A copy is a plain list, a deep one all through."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse  # pyright: ignore[reportAssignmentType]  # refusing is the point
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse  # pyright: ignore[reportAssignmentType]  # refusing is the point

    def __copy__(self) -> list[Any]:
        return [*self]

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return copy.deepcopy([*self], memo)

    def __reduce__(self) -> tuple[type[FrozenList], tuple[list[Any]]]:
        return FrozenList, ([*self],)


class FrozenVariant(UnknownVariant):
    """An unknown variant that refuses to be changed, and so does its `data`; otherwise an `UnknownVariant`."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(self, name):  # each is set once
            _refuse(self)
        super().__setattr__(name, value)

    @property
    def data(self) -> Any:
        """The JSON value. Raises what that of an `UnknownVariant` does."""
        return frozen(super().data)

    def __reduce__(self) -> tuple[type[FrozenVariant], tuple[str, bytes]]:
        return FrozenVariant, (self.tag, self.raw)


_AS_THEY_ARE = frozenset({str, int, float, bool, type(None), FrozenDict, FrozenList, FrozenVariant})


def frozen(value: T) -> T:
    """The same value, equal and encoded alike, sharing nothing that changes; what is frozen already is not copied.

    JSON may be nested as deep as a decoder lets it, so it is walked without recursion; structs are nested no deeper
    than their types are.
    """
    if type(value) in _AS_THEY_ARE:
        return value
    root = FrozenList([value])
    todo: list[FrozenDict | FrozenList] = [root]
    while todo:
        holder = todo.pop()
        if isinstance(holder, FrozenDict):
            for name, held in holder.items():
                super(FrozenDict, holder).__setitem__(name, _twin(held, todo))
        else:
            for index, held in enumerate(holder):
                super(FrozenList, holder).__setitem__(index, _twin(held, todo))
    return cast("T", root[0])


def _twin(held: Any, todo: list[FrozenDict | FrozenList]) -> Any:
    """What stands for a value; a new dict or list still holds what the old one does, and is noted to be seen to."""
    if type(held) in _AS_THEY_ARE:
        return held
    if isinstance(held, dict):
        todo.append(FrozenDict(cast("dict[str, Any]", held)))
        return todo[-1]
    if isinstance(held, list | tuple):
        todo.append(FrozenList(cast("Iterable[Any]", held)))
        return todo[-1]
    if isinstance(held, UnknownVariant):
        return FrozenVariant(held.tag, held.raw)
    return _struct(held) if isinstance(held, msgspec.Struct) else held


def _struct(struct: msgspec.Struct) -> msgspec.Struct:
    members = [(name, getattr(struct, name)) for name in struct.__struct_fields__]
    changed = {name: twin for name, held in members if (twin := frozen(held)) is not held}
    return msgspec.structs.replace(struct, **changed) if changed else struct
