"""What is derived is checked when it is used first: an override is called as the method that it overrides."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from acpwire import v2
from acpwire.errors import UsageError
from acpwire.overriding import check_derived, check_info, check_overrides, check_words, overridden


class Base:
    """Stands for what users derive from."""

    info: Any = v2.Implementation(name="base", version="1")
    words: Any = ("one",)

    async def asked(self, what: str, *, how: str | None) -> str:
        return what

    def told(self, what: str) -> None:
        pass

    def either(self, what: str) -> Awaitable[None] | None:
        pass


def derived(**members: Any) -> Base:
    """An object of a class that has these members of its own."""
    made: Base = type("Derived", (Base,), members)()
    return made


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator like any other."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


async def asked(self: Base, what: str, *, how: str | None) -> str:
    return what


def told(self: Base, what: str) -> None:
    pass


async def either(self: Base, what: str) -> None:
    pass


def test_what_fits_is_taken() -> None:
    check_overrides(Base, derived())
    check_overrides(Base, derived(asked=asked, told=told, either=either))
    check_overrides(Base, derived(told=wrapped(told), asked=wrapped(asked), other=lambda: None))

    def asked_later(self: Base, *anything: str, **more: str) -> Awaitable[str]:
        return asked(self, anything[0], how=more["how"])

    asked_later.__name__ = "asked"
    check_overrides(Base, derived(asked=asked_later))


async def _yields(self: Base, what: str, *, how: str | None) -> AsyncIterator[str]:
    yield what


def _plain(self: Base, what: str, *, how: str | None) -> str:
    return what


async def _waits(self: Base, what: str) -> None:
    pass


async def _takes_less(self: Base, what: str) -> str:
    return what


async def _takes_more(self: Base, what: str, also: str, *, how: str | None) -> str:
    return what


async def _takes_by_place(self: Base, what: str, how: str | None, /) -> str:
    return what


MISFITS: dict[str, tuple[str, Callable[..., Any], str]] = {
    "a generator": (
        "asked",
        _yields,
        r"Derived\.asked has a `yield` in it: write `async def asked\(\.\.\.\)` without$",
    ),
    "no coroutine": ("asked", _plain, r"Derived\.asked is no coroutine function: write `async def asked\(\.\.\.\)`$"),
    "a coroutine": ("told", _waits, r"Derived\.told is a coroutine function, and nobody awaits it: write `def told"),
    "less": ("asked", _takes_less, r"Derived\.asked: .*'how'.*write `asked\(self, what, how\)`$"),
    "more": ("asked", _takes_more, r"Derived\.asked: missing a required argument: 'also': write"),
    "by place": ("asked", _takes_by_place, r"Derived\.asked: .*how.*: write"),
}


@pytest.mark.parametrize("kind", MISFITS)
def test_what_does_not_fit_is_refused_with_what_to_write(kind: str) -> None:
    name, function, message = MISFITS[kind]
    function.__name__ = name
    with pytest.raises(UsageError, match=message):
        check_overrides(Base, derived(**{name: function}))


def test_what_is_overridden_is_known() -> None:
    assert not overridden(Base, derived(), "told")
    assert overridden(Base, derived(told=told), "told")


def test_what_is_given_is_an_object_of_a_class_that_is_derived() -> None:
    check_derived(Base, derived())
    with pytest.raises(UsageError, match=r"^Base is a class: give an object of it, Base\(\)$"):
        check_derived(Base, Base)
    with pytest.raises(UsageError, match=r"^expected an object of a class that derives from acpwire\.Base, not int$"):
        check_derived(Base, 5)


NAMELESS = v2.Implementation(name=1, version="1")  # type: ignore[arg-type]  # as anybody may write it


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (None, "IN-02: Derived has no `info`: say who it is; write info = "),
        ("me", "IN-02: Derived.info is a str; write info = "),
        (NAMELESS, r"IN-02: Derived\.info: Expected `str`, got `int` - at `\$\.name`"),
    ],
)
def test_who_it_is_is_said(info: Any, message: str) -> None:
    """IN-02."""
    check_info(derived())
    with pytest.raises(UsageError, match=message):
        check_info(derived(info=info))


def test_words_are_those_that_are_known_or_ones_own() -> None:
    """EX-01."""
    check_words(derived(words=["one", "_mine"]), "words", frozenset({"one"}))
    with pytest.raises(UsageError, match=r'^Derived\.words is a str: write a tuple, \("one",\)$'):
        check_words(derived(words="one"), "words", frozenset({"one"}))
    with pytest.raises(UsageError, match=r"^Derived\.words has two, three, which the protocol does not know$"):
        check_words(derived(words=["two", "one", "three"]), "words", frozenset({"one"}))
