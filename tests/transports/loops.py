"""Runs a test in each kind of event loop, bounded, and looks whether anything is left of it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import inspect
import itertools
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop

T = TypeVar("T")

PROGRAMS = Path(__file__).parents[1] / "programs"
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
uvloop.new_event_loop().close()  # the first one opens descriptors that stay
SECONDS = 30
"""How long a test may take before it has failed."""


def on_each_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a test of a coroutine function; afterwards no task, descriptor, thread or child of it may be left."""

    @functools.wraps(test)
    def run(*args: Any, loop: str, **kwargs: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(SECONDS):
                await test(*args, **kwargs)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        with nothing_left(), asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(bounded())

    signature = inspect.signature(test)
    added = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    vars(run)["__signature__"] = signature.replace(parameters=[*signature.parameters.values(), added])
    marked: Callable[..., None] = pytest.mark.parametrize("loop", list(LOOPS))(run)
    return marked


class nothing_left:  # noqa: N801  # used like a function
    """Fails when descriptors, threads or children are more than before."""

    def __enter__(self) -> None:
        gc.freeze()  # what is there already is not looked through for each test: there may be much of it
        self._before = descriptors(), set(threading.enumerate())

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            gc.collect()
        gc.unfreeze()
        if kind is not None:
            return
        for thread in set(threading.enumerate()) - self._before[1]:
            thread.join(SECONDS)
        assert (descriptors(), set(threading.enumerate())) == self._before
        assert not has_children()


def descriptors() -> dict[str, str]:
    """The open descriptors of this process, and what they are."""
    found: dict[str, str] = {}
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists the directory
            found[fd.name] = str(fd.readlink())
    return found


def has_children() -> bool:
    """Whether this process has a child, dead ones included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


class _CancelledAt(Awaitable[T]):
    """Awaits something and cancels its own task when that is suspended for the nth time."""

    def __init__(self, what: Coroutine[Any, Any, T], number: int) -> None:
        self._what = what
        self._number = number

    def __await__(self) -> Generator[Any, Any, T]:
        inner = self._what.__await__()
        sent: Any = None
        failure: BaseException | None = None
        for step in itertools.count(1):
            try:
                waits_for = inner.send(sent) if failure is None else inner.throw(failure)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]  # what the coroutine returns
            if step == self._number:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            sent = failure = None
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001  # passed on to where it was waited
                failure = error
        raise AssertionError


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is so."""
    while not condition():  # noqa: ASYNC110  # what is waited for tells nobody
        await asyncio.sleep(0)


async def walk(attempt: Callable[[int], Awaitable[bool]]) -> None:
    """Have something cancelled when it waits for the first time, the second, ... until it was not."""
    number = 1
    while await attempt(number):
        number += 1
    assert number > 1


async def cancelled_at(number: int, what: Coroutine[Any, Any, Any]) -> bool:
    """Run a coroutine in a task and cancel it when it waits for the nth time; False if it never did."""

    async def run() -> None:
        await _CancelledAt(what, number)

    task = asyncio.ensure_future(run())
    await asyncio.wait([task])
    if task.cancelled():
        return True
    task.result()
    return False
