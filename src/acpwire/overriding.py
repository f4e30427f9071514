"""What users derive from a class of this package: what they override, and whether it can be called as it will be.

Owns: the checks at start-up that an agent and a client have in common, and their advice. Does not know: what is
overridden.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

from acpwire import v2
from acpwire.errors import UsageError

if sys.version_info >= (3, 14):
    import annotationlib

__all__ = ["check_derived", "check_info", "check_overrides", "check_words", "overridden"]


def overridden(base: type, one: object, name: str) -> bool:
    """Whether an object has an attribute that is not the one of a class that it derives from."""
    return getattr(type(one), name, None) is not getattr(base, name, None)


def check_derived(base: type, one: object) -> None:
    """Raise `UsageError` for what is no object of a class that derives from this one."""
    if isinstance(one, type):
        raise UsageError(f"{one.__name__} is a class: give an object of it, {one.__name__}()")
    if not isinstance(one, base):
        derives = f"an object of a class that derives from acpwire.{base.__name__}"
        raise UsageError(f"expected {derives}, not {type(one).__name__}")


def check_info(one: object) -> None:
    """Raise `UsageError` for whoever does not say who it is (IN-02)."""
    owner, info = type(one).__name__, getattr(one, "info", None)
    how = 'write info = v2.Implementation(name="...", version="...")'
    if info is None:
        raise UsageError(f"IN-02: {owner} has no `info`: say who it is; {how}")
    if not isinstance(info, v2.Implementation):
        raise UsageError(f"IN-02: {owner}.info is a {type(info).__name__}; {how}")
    for violation in v2.validate(info):
        raise UsageError(f"IN-02: {owner}.info: {violation.message} - at `{violation.path}`")


def check_words(one: object, name: str, known: frozenset[str]) -> None:
    """Raise `UsageError` where an attribute that lists words has one that the protocol does not know."""
    owner, words = type(one).__name__, getattr(one, name)
    if isinstance(words, str):
        raise UsageError(f'{owner}.{name} is a str: write a tuple, ("{words}",)')
    unknown = [word for word in words if word not in known and not word.startswith("_")]
    if unknown:
        raise UsageError(f"{owner}.{name} has {', '.join(unknown)}, which the protocol does not know")


def check_overrides(base: type, one: object) -> None:
    """Raise `UsageError` for a method that cannot be called, or awaited, as the one of `base` that it overrides.

    What a decorator or the like has made of it is its own affair.
    """
    for name, given in vars(base).items():
        if inspect.isfunction(given) and overridden(base, one, name):
            _check_override(f"{type(one).__name__}.{name}", given, inspect.getattr_static(type(one), name))


def _check_override(name: str, given: Callable[..., Any], own: Any) -> None:
    _, _, plain = name.rpartition(".")
    is_async = inspect.iscoroutinefunction(given)
    write = f"write `{'async def' if is_async else 'def'} {plain}(...)`"
    if inspect.isasyncgenfunction(own) or inspect.isgeneratorfunction(own):
        says = ", and say things by `session.agent_message()`" if plain == "prompt" else ""
        raise UsageError(f"{name} has a `yield` in it: {write} without{says}")
    if not inspect.isfunction(own) or own.__name__ != plain or hasattr(own, "__wrapped__"):
        return
    if is_async and not inspect.iscoroutinefunction(own) and not _may_be_awaited(own):
        raise UsageError(f"{name} is no coroutine function: {write}")
    if not is_async and inspect.iscoroutinefunction(own) and not _may_be_awaited(given):
        raise UsageError(f"{name} is a coroutine function, and nobody awaits it: {write}")
    wanted = _signature(given).parameters
    named = [one for one, parameter in wanted.items() if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    try:
        _signature(own).bind(*[None] * (len(wanted) - len(named)), **dict.fromkeys(named))
    except TypeError as error:
        raise UsageError(f"{name}: {error}: write `{plain}({', '.join(wanted)})`") from None


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """A function's signature. Names in its annotations that are not there at run time are no fault."""
    if sys.version_info >= (3, 14):  # before, they are one when the function is defined, unless they are texts
        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(function)


def _may_be_awaited(function: Callable[..., Any]) -> bool:
    """Whether a function that is no coroutine function says that what it returns is, or may be, to be waited for."""
    annotation = _signature(function).return_annotation
    returned = str(getattr(annotation, "__forward_arg__", annotation))
    return any(word in returned for word in ("Awaitable", "Coroutine", "Future", "Task"))
