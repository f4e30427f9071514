"""Forms that an agent has a user fill in: what they begin with, and whether what was filled in fits (EL-08).

Owns: the restricted schema of forms. Does not know: who asks, or how a form is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from acpwire import v2

__all__ = ["defaults", "problems"]


def problems(schema: v2.ElicitationSchema, content: Mapping[str, Any]) -> list[str]:
    """What is wrong with the values of a form; values are not repeated, as they may be private."""
    missing = [f"{name!r} is missing" for name in schema.required or () if name not in content]
    misfits = [
        f"{name!r} does not fit"
        for name, wanted in schema.properties.items()
        if name in content and not _fits(wanted, content[name])
    ]
    return missing + misfits


def defaults(schema: v2.ElicitationSchema) -> dict[str, Any]:
    """The values that a form begins with: the defaults of its properties, where they have any."""
    found = {name: getattr(wanted, "default", None) for name, wanted in schema.properties.items()}
    return {name: value for name, value in found.items() if value is not None}


def _fits(wanted: v2.ElicitationPropertySchema, value: Any) -> bool:
    """Whether a value is one that this property may have; of a custom type, any (EL-17).

    Patterns are the client's to check: they are of another language's regular expressions.
    """
    match wanted:
        case v2.StringPropertySchema():
            listed = [*(wanted.enum or ()), *(option.const for option in wanted.one_of or ())]
            return (
                isinstance(value, str)
                and _within(len(value), wanted.min_length, wanted.max_length)
                and (not listed or value in listed)
            )
        case v2.BooleanPropertySchema():
            return isinstance(value, bool)
        case v2.IntegerPropertySchema():
            return type(value) is int and _within(value, wanted.minimum, wanted.maximum)
        case v2.NumberPropertySchema():
            return type(value) in {int, float} and _within(value, wanted.minimum, wanted.maximum)
        case v2.MultiSelectPropertySchema():
            if not isinstance(value, list):
                return False
            chosen = cast("list[object]", value)
            fits = all(isinstance(one, str) for one in chosen)
            match wanted.items:
                case v2.StringMultiSelectItems(enum=offered):
                    fits = all(one in offered for one in chosen)
                case v2.TitledMultiSelectItems(any_of=options):
                    fits = all(any(one == option.const for option in options) for one in chosen)
                case _:
                    pass
            return fits and _within(len(chosen), wanted.min_items, wanted.max_items)
        case _:
            return True


def _within(number: float, least: float | None, most: float | None) -> bool:
    return (least is None or number >= least) and (most is None or number <= most)
