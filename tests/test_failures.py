"""What functions of a user raise, in the log: under which name, and how often."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable
from functools import partial

import pytest

from acpwire.failures import log_failure


class Owner:
    """Whose failures are counted."""


class Editor:
    """What a user writes."""

    def update(self, number: int = 0) -> None:
        if number:
            self.draw(number)
        json.loads("no JSON")

    def draw(self, number: int) -> None:
        raise [ValueError, KeyError][number % 2](number)


def fails(owner: object, call: Callable[[], object], role: str = "the handler of it") -> None:
    """Have a failure logged as if this here were ours."""
    try:
        call()
    except Exception as error:  # noqa: BLE001  # what is tested
        here = error.__traceback__
        log_failure(owner, error.with_traceback(here and here.tb_next), role)


def _owners_with_failures() -> list[Owner]:
    owner = Owner()
    log_failure(owner, ValueError(), "it")
    return [owner]


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, bool]]:
    """What was logged, and whether with a traceback."""
    return [(record.getMessage(), bool(record.exc_info)) for record in caplog.records]


def test_a_failure_has_the_name_of_the_users_function_whatever_raises_in_it(caplog: pytest.LogCaptureFixture) -> None:
    editor = Editor()

    def nested() -> None:
        editor.update()

    fails(Owner(), editor.update)
    fails(Owner(), nested)
    assert lines(caplog) == [
        ("Editor.update, the handler of it, failed", True),
        ("nested, the handler of it, failed", True),
    ]


def test_a_failure_without_a_users_function_has_the_name_of_its_role(caplog: pytest.LogCaptureFixture) -> None:
    log_failure(Owner(), ValueError("never raised"), "the handler of it")
    log_failure(Owner(), ValueError("never raised"), "the handler of it", "was cancelled from inside")
    assert [message for message, _ in lines(caplog)] == [
        "the handler of it failed",
        "the handler of it was cancelled from inside",
    ]


def test_a_kind_of_failure_is_told_in_full_once_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    """A kind is the type and the places; what the exception says is not."""
    owner, editor = Owner(), Editor()
    for number in range(1, 1001):
        fails(owner, partial(editor.update, 2 * number))
    name = "Editor.update, the handler of it, failed"
    assert lines(caplog) == [
        (name, True),
        (f"{name}, for the 10th time: ValueError: 20", False),
        (f"{name}, for the 100th time: ValueError: 200", False),
        (f"{name}, for the 1000th time: ValueError: 2000", False),
    ]
    assert "in draw" in caplog.text


def test_another_type_another_place_and_another_owner_are_of_other_kinds(caplog: pytest.LogCaptureFixture) -> None:
    owner, editor = Owner(), Editor()
    for _ in range(2):
        fails(owner, editor.update)
        fails(owner, partial(editor.update, 1))
        fails(owner, partial(editor.update, 2))
    fails(Owner(), editor.update)
    assert [has_traceback for _, has_traceback in lines(caplog)] == [True] * 4


def test_no_more_kinds_than_a_hundred_are_remembered_and_none_of_an_owner_that_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    owner = Owner()
    kinds: list[type[Exception]] = [type(f"Error{number}", (Exception,), {}) for number in range(101)]
    for kind in kinds:
        log_failure(owner, kind(), "it")
    caplog.clear()
    log_failure(owner, kinds[100](), "it")
    assert lines(caplog) == []
    log_failure(owner, kinds[0](), "it")
    assert lines(caplog) == [("it failed", True)]
    caplog.clear()
    gone = [weakref.ref(one) for one in _owners_with_failures()]
    gc.collect()
    assert [one() for one in gone] == [None]
