"""What updates can consist of, and what of that a story leaves out.

Counted are the classes that a `SessionUpdate` can hold, down to the last, and their members: each has to be given once,
and one whose null means something else than its absence once as null. `_meta` counts where it is an update's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast, get_args, get_origin, get_type_hints

import msgspec

from acpwire import v2
from acpwire.wire.values import WireStruct


def left_out(updates: Iterable[v2.SessionUpdate]) -> Iterator[str]:
    """The classes and members that none of these updates has."""
    given = {one for update in updates for one in _given(update)}
    known = _reachable()
    for cls in known:
        if not any(one.startswith(f"{cls.__name__}.") for one in given):
            yield cls.__name__
            continue
        for member, hint in known[cls].items():
            if member == "meta" and cls.__struct_config__.tag_field != "sessionUpdate":
                continue
            if f"{cls.__name__}.{member}" not in given:
                yield f"{cls.__name__}.{member}"
            if {type(None), msgspec.UnsetType} <= set(get_args(hint)) and f"{cls.__name__}.{member} null" not in given:
                yield f"{cls.__name__}.{member} null"


def _given(value: Any) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for one in cast("Iterable[Any]", value):
            yield from _given(one)
    elif isinstance(value, WireStruct):
        for member in value.__struct_fields__:
            held = getattr(value, member)
            if held is not msgspec.UNSET:
                yield f"{type(value).__name__}.{member}" + (" null" if held is None else "")
            yield from _given(held)


def _reachable() -> dict[type[WireStruct], dict[str, Any]]:
    found: dict[type[WireStruct], dict[str, Any]] = {}

    def walk(hint: Any) -> None:
        if get_origin(hint) is not None:
            for one in get_args(hint):
                walk(one)
        elif isinstance(hint, type) and issubclass(hint, WireStruct) and hint not in found:
            found[hint] = get_type_hints(hint)
            found[hint] = {member: found[hint][member] for member in hint.__struct_fields__}
            for one in found[hint].values():
                walk(one)

    walk(v2.SessionUpdate)
    return {cls: members for cls, members in found.items() if not cls.__name__.startswith("_")}
