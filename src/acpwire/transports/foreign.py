"""A `Channel` over any `Transport` that is none of ours.

Owns: the two tasks that turn three methods into callbacks. Does not know: what the transport is.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

from acpwire.errors import ConnectionClosed
from acpwire.limits import Limits

from .channel import Channel, Received, Transport

__all__ = ["channel_of"]

_log = logging.getLogger(__name__)
_LIMITS: Final = Limits()


def channel_of(transport: Transport, *, limits: Limits = _LIMITS) -> Channel:
    """The callback form of a transport: itself where it has one, else an adapter with a task for each direction.

    The adapter has the transport to itself from now on, and closes it.
    """
    return transport if isinstance(transport, Channel) else _Adapter(transport, limits.grace)


class _Adapter(Channel):
    def __init__(self, transport: Transport, grace: float) -> None:
        super().__init__()
        self._transport = transport
        self._grace = grace
        self._received: Received = lambda _: None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._reader: asyncio.Task[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._raised: ConnectionClosed | None = None
        self._kept: list[bytes] = []
        self._unsent = 0  # what is being written included
        self._some = asyncio.Event()

    def pause(self) -> None:
        """Receive nothing until `resume`; within `received`, too. Pausing twice is pausing once."""
        self._flowing.clear()

    def resume(self) -> None:
        """Go on receiving."""
        self._flowing.set()

    @property
    def unsent(self) -> int:
        """How many bytes are kept, or being written."""
        return self._unsent

    def closed_error(self) -> ConnectionClosed:
        """Why nothing comes or goes any more; the transport's own error if it raised one."""
        return super().closed_error() if self._raised is None else self._raised.again()

    def _begin(self, received: Received) -> None:
        self._received = received
        self._reader = self._loop.create_task(self._read())

    def _send(self, data: bytes) -> None:
        if not data:
            return
        self._kept.append(bytes(data))
        self._unsent += len(data)
        self._some.set()
        if self._writer is None:
            self._writer = self._loop.create_task(self._write())

    async def _read(self) -> None:
        try:
            while block := await self._transport.read():
                await self._flowing.wait()
                self._received(block)
        except Exception as error:  # noqa: BLE001  # whatever a stranger's method raises is the end of reading
            self._note(error)
            self._end_input(error)
        else:
            self._end_input(None)

    async def _write(self) -> None:
        try:
            while await self._some.wait():
                data, self._kept = b"".join(self._kept), []
                self._some.clear()
                await self._transport.write(data)
                self._unsent -= len(data)
                if not self._unsent:
                    self._drain()
        except Exception as error:  # noqa: BLE001  # whatever a stranger's method raises is the end of writing
            self._note(error)
            self._unsent = 0
            self._break(error.message if isinstance(error, ConnectionClosed) else self._failed(self._writes, error))
            self._drain()

    def _ignore(self) -> None:
        self._received = lambda _: None
        self.resume()

    def _note(self, error: Exception) -> None:
        if isinstance(error, ConnectionClosed) and self._raised is None:
            self._raised = error

    async def _finish(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                await self._flush()
        tasks = self._cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._grace)
        try:
            async with asyncio.timeout(self._grace):
                await self._transport.close()
        except Exception as error:  # noqa: BLE001  # closed it is, and nobody could do more
            _log.warning("closing a %s raised %s", type(self._transport).__name__, type(error).__name__)
            _log.debug("what it raised", exc_info=error)

    def _release(self) -> None:
        self._cancel()
        self._kept.clear()
        self._unsent = 0

    def _cancel(self) -> list[asyncio.Task[None]]:
        tasks = [task for task in (self._reader, self._writer) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        return tasks
