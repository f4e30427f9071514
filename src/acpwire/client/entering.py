"""Context managers that say how they are meant to be used, where somebody uses them otherwise.

Owns: what is told to whoever forgets `async with`. Does not know: what is entered. To type checkers all this is
`asynccontextmanager`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from acpwire.errors import UsageError

__all__ = ["entered"]

if TYPE_CHECKING:
    entered = asynccontextmanager
else:

    def entered(function: Callable[..., Any]) -> Callable[..., _ToBeEntered]:
        """`asynccontextmanager`, whose result raises `UsageError` where it is awaited, or taken for what it yields."""
        opened = asynccontextmanager(function)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> _ToBeEntered:
            return _ToBeEntered(opened(*args, **kwargs), function.__name__)

        return call


class _ToBeEntered:
    def __init__(self, manager: AbstractAsyncContextManager[Any, bool | None], name: str) -> None:
        self._manager = manager
        self._name = name

    async def __aenter__(self) -> Any:
        return await self._manager.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._manager.__aexit__(kind, error, traceback)

    def __await__(self) -> NoReturn:
        raise self._misused()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(name) if name.startswith("_") else self._misused()

    def _misused(self) -> UsageError:
        return UsageError(f"this is entered, and not awaited: `async with acpwire.{self._name}(...) as agent:`")
