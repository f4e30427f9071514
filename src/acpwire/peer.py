"""The pump: reads a transport, hands what came to handlers in the wire's order, and writes what is sent.

Owns: the order of delivery, the tasks of requests, who waits for which answer, back-pressure both ways, fairness to the
loop, turning exceptions into wire errors, and the end of all that. Does not know: agents, clients, sessions, or how
bytes travel.

Everything runs in the loop's read callback, without a task a notification: a block is cut into lines, and each line is
delivered before the next is looked at. A handler that has to wait gets a task, and the lines after it wait for it too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from contextvars import ContextVar, copy_context
from inspect import isawaitable
from itertools import islice
from operator import length_hint
from time import perf_counter
from types import TracebackType
from typing import Any, NoReturn, Self, TypeAlias, TypeVar

from acpwire.connection import Answered, CancelRequested, Connection, Counters, Event, Ignored
from acpwire.errors import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    ConnectionClosed,
    EncodeError,
    RequestError,
    UsageError,
)
from acpwire.failures import ENDS, log_failure
from acpwire.trace import carried, carrying, trace_context
from acpwire.transports import Channel, Transport, channel_of
from acpwire.unread import Unread
from acpwire.wire.frames import Method, Notification, Request, RequestId

__all__ = ["Handler", "Observer", "Peer", "after_answer"]

Handler: TypeAlias = Callable[[Any], Any]
"""Gets the params. Of a request, returns the result; of a notification, nothing. It may be a coroutine function."""
Observer: TypeAlias = Callable[[Ignored], object]
"""Gets what was ignored: malformed lines, unknown methods, answers that nobody waits for, a peer's complaints."""

P = TypeVar("P")
R = TypeVar("R")

TURN = 0.001
"""How many seconds of the loop's time one turn of delivering may take."""
LINES = 32
"""After how many lines the clock is looked at, while that many take less than a turn."""
_LAST_WORDS = 1.0
"""For how many seconds a peer that reads nothing any more may still be heard."""
FLUSH = 60 * 1024
"""How many bytes are gathered before they are written without waiting for the loop's next turn: with the line that is
too much, they still fit into a pipe, which holds 64 KiB."""

_log = logging.getLogger(__name__)


class Peer:
    """One end of a connection, running on the current loop.

        async with Peer(transport, connection, {v2.SESSION_UPDATE: show}) as peer:
            result = await peer.request(v2.SESSION_NEW, params)

    A handler that is a plain function is called where the line came in, and its result is the answer at once. What a
    coroutine function does for a request runs in a task of its own, and for a notification delays what follows it, the
    end included. What a handler of a request raises is answered as an error: a `RequestError` as it is,
    being cancelled as -32800, anything else as -32603 with its text and traceback in the log alone (S-EX-01).

    When the other end is gone, what waits for an answer gets `ConnectionClosed`, and handlers are cancelled (ER-09).
    For use from the loop's own thread only.
    """

    def __init__(
        self,
        transport: Transport,
        connection: Connection,
        handlers: Mapping[Method[Any, Any], Handler] | None = None,
        *,
        observer: Observer | None = None,
    ) -> None:
        self._channel: Channel = channel_of(transport, limits=connection.limits)
        self._connection = connection
        self._limits = connection.limits
        served = (handlers or {}).items()
        self._requests = {method.name: handler for method, handler in served if method.kind == "request"}
        self._notifications = {method.name: handler for method, handler in served if method.kind == "notification"}
        self._heard = {name: handler for name, handler in self._notifications.items() if connection.passes(name)}
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self._waiting: dict[RequestId, asyncio.Future[Any]] = {}
        self._arrivals: dict[RequestId, Callable[[Any], object]] = {}
        self._working: dict[RequestId, asyncio.Task[None]] = {}
        self._input: Iterator[bytes] = iter(())
        self._delivering: asyncio.Task[None] | None = None
        self._holders: set[int] = set()
        self._ended: ConnectionClosed | None = None  # the input has, for this reason
        self._broken: ConnectionClosed | None = None  # writing has failed
        self._is_flush_due = False
        self._is_stuffed = False  # more is unsent than should be
        self._answer_bytes = 0  # that were made when something was written last
        self._unread = Unread(self._channel, self._limits.unread_answers, self._loop, self._unread_changed)
        self._stride = 1  # after how many lines the clock is looked at
        self._has_room = asyncio.Event()
        self._is_shut = asyncio.Event()
        self._first_answer: asyncio.TimerHandle | None = None
        self._shutdown: asyncio.Task[None] | None = None
        self.sent: Coroutine[Any, Any, None] = _Sent(loop=self._loop)
        """For those that have sent something to return, where there is nothing to wait for."""
        self.line = b""
        """The line that is being delivered, as it came."""

    # --- life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def start(self) -> None:
        """Begin to read; called once."""
        self._channel.drained = self._drained
        self._channel.start(self._received, self._end_of_input)

    @property
    def counters(self) -> Counters:
        """What has passed through."""
        return self._connection.counters

    @property
    def closed(self) -> ConnectionClosed | None:
        """Why the connection is closed; None while it is open."""
        return self._connection.closed

    async def wait_closed(self) -> ConnectionClosed:
        """Wait until the connection is closed and all handlers have ended, and return why. Safe to cancel."""
        await self._is_shut.wait()
        if self._shutdown is not None:
            await asyncio.shield(self._shutdown)
        return self._why()

    async def close(self, cause: ConnectionClosed | None = None) -> None:
        """Close the connection: fail what waits, cancel handlers, send what is unsent, close the transport.

        Handlers get `Limits.grace` seconds to clean up. A second close waits for the first. Cancelling it ends the
        waiting alone: closing goes on.
        """
        self._shut(cause or ConnectionClosed("the connection was closed at this end"))
        if self._shutdown is not None:
            await asyncio.shield(self._shutdown)

    # --- sending --------------------------------------------------------------------------------------------------

    async def request(self, method: Method[P, R], params: P, *, arrived: Callable[[R], object] | None = None) -> R:
        """Send a request and wait for its result.

        `arrived` is called with the result at its place in the wire's order: after everything before it was delivered
        and before anything that follows. Raises `RequestError` where the peer answers with an error, `DecodeError`
        where its answer does not fit, `EncodeError`, `ConnectionClosed`, and `UsageError` in a handler on which
        delivery waits, as the answer could never come. Cancelling it sends `$/cancel_request` (RC-01).
        """
        if self._delivering is not None and asyncio.current_task() is self._delivering:
            raise UsageError(
                f"{method.name} was asked for in a handler of notifications, whose end the answer would wait for: "
                "start a task for it"
            )
        await self._room()
        request_id = self._connection.request(method, self._traced(params))
        future: asyncio.Future[R] = self._loop.create_future()
        self._waiting[request_id] = future
        if arrived is not None:
            self._arrivals[request_id] = arrived
        if self._limits.first_answer is not None and request_id == 0:
            self._first_answer = self._loop.call_later(self._limits.first_answer, self._too_late)
        self._send_soon(at_once=True)
        self._regulate()
        try:
            return await future
        except asyncio.CancelledError:
            if self._waiting.pop(request_id, None) is not None:
                self._arrivals.pop(request_id, None)
                self._connection.cancel(request_id, forget=True)
                self._send_soon()
                self._regulate()
            elif not future.cancelled():
                future.exception()  # it came at the same time, and is nobody's now
            raise

    def notify(self, method: Method[P, None], params: P) -> Coroutine[Any, Any, None]:
        """Send a notification; awaiting it waits only while more than `Limits.unsent` bytes are unsent (S-BP-02).

        Raises `EncodeError` and `ConnectionClosed`. It is sent by the call, even where the waiting is cancelled.
        """
        alike = self._connection.alike  # a flush is due where it is not None
        if alike is not None and not trace_context.get():
            size = alike(method, params)
            if size:
                return self.flow() if size >= FLUSH or self._is_stuffed else self.sent
        if self._broken is not None:
            return self._gone()
        return self.flow() if self.post(method, params) else self.sent

    def post(self, method: Method[P, None], params: P) -> bool:
        """Send a notification without ever waiting, and return whether a sender that can wait should, by `flow`.

        `notify` is the one that keeps memory bounded. Raises `EncodeError` and `ConnectionClosed`.
        """
        if self._broken is not None:
            raise self._broken.again()
        size = self._connection.notify(method, self._traced(params))
        if not self._is_flush_due:
            self._send_soon()
        return size >= FLUSH or self._is_stuffed

    def send_line(self, line: bytes) -> Coroutine[Any, Any, None]:
        """Send a line as it is, its LF included, as `notify` does; the caller vouches for it."""
        if self._broken is not None:
            return self._gone()
        size = self._connection.send_line(line)
        if not self._is_flush_due:
            self._send_soon()
        return self.flow() if size >= FLUSH or self._is_stuffed else self.sent

    def post_later(self, lines: Callable[[bytearray], object]) -> int:
        """Send whole lines that are asked for when they are due: when it is time to write, or something follows them.

        `lines` appends them to what it gets. Returns how many bytes there is room for before their sender should wait.
        Raises `ConnectionClosed`.
        """
        if self._broken is not None:
            raise self._broken.again()
        size = self._connection.send_later(lines)
        if not self._is_flush_due:
            self._send_soon()
        return 0 if self._is_stuffed else FLUSH - size

    async def flow(self) -> None:
        """Wait where a sender should: for a turn of the loop when a buffer is full, and while much is unsent."""
        if self._connection.unsent >= FLUSH:
            self._flush()
            await asyncio.sleep(0)
        await self._room()

    async def drain(self) -> None:
        """Write what was sent, and wait while more than `Limits.unsent` bytes are left. Safe to cancel."""
        self._flush()
        await self._room()

    def _traced(self, params: P) -> P:
        trace = trace_context.get()
        return carrying(params, trace) if trace else params

    def _send_soon(self, *, at_once: bool = False) -> None:
        """Write by the loop's next turn; `at_once`, unless something was written in this turn already."""
        if self._is_flush_due:
            return
        self._is_flush_due = True
        self._loop.call_soon(self._flush_due)
        if at_once:
            self._flush()

    def _flush_due(self) -> None:
        self._is_flush_due = False
        self._flush()

    def _flush(self) -> None:
        if not self._connection.unsent:
            return
        data = self._connection.take()
        if self._broken is None:
            try:
                self._channel.send(data)
            except ConnectionClosed as error:
                self._breaks(error)
        before, self._answer_bytes = self._answer_bytes, self._connection.answer_bytes
        self._unread.given(len(data), self._answer_bytes - before)
        unsent = self._channel.unsent
        self._is_stuffed = unsent > self._limits.unsent
        if unsent > self._limits.unread_answers:
            self._regulate()

    def _breaks(self, error: ConnectionClosed) -> None:
        """Nothing can be written any more. What the peer had said before is still read, for a moment."""
        self._broken, self._connection.alike = error, None
        self._has_room.set()
        self._await_last_words(-1)

    def _await_last_words(self, heard: int) -> None:
        """End it when nothing has come for a while, and nobody holds up what is still to be read."""
        if self.counters.bytes == heard and not self._is_held_up():
            self._shut(self._channel.closed_error())
        else:
            self._loop.call_later(min(_LAST_WORDS, self._limits.grace), self._await_last_words, self.counters.bytes)

    async def _gone(self) -> None:
        """Raise why nothing can be sent, once all is known of that: of a process, how it ended."""
        await self._is_shut.wait()
        raise self._why().again()

    def _why(self) -> ConnectionClosed:
        return self.closed or self._broken or self._channel.closed_error()

    async def _room(self) -> None:
        """Wait while too much is unsent. Raises `ConnectionClosed`."""
        while self._channel.unsent > self._limits.unsent and self._broken is None and self.closed is None:
            self._has_room.clear()
            await self._has_room.wait()
        if self._broken is not None or self.closed is not None:
            await self._gone()

    def _drained(self) -> None:
        """The channel has written everything, or never will."""
        self._is_stuffed = False
        self._has_room.set()
        self._regulate()

    def _too_late(self) -> None:
        self._give_up(f"no answer came within Limits.first_answer = {self._limits.first_answer} s")

    def _unread_changed(self) -> None:
        if self._unread.is_hopeless:
            limit = self._limits.unread_answers
            self._give_up(f"the peer asks and reads no answers: more than Limits.unread_answers = {limit} bytes wait")
        else:
            self._regulate()

    def _give_up(self, reason: str) -> None:
        """Close the connection; what is known of a process is told besides."""
        known = self._channel.closed_error()
        self._shut(ConnectionClosed(reason, exit_code=known.exit_code, stderr_tail=known.stderr_tail))

    # --- pausing --------------------------------------------------------------------------------------------------

    def hold(self, holder: object) -> None:
        """Read nothing until `release(holder)`, except while a request of ours waits for its answer."""
        self._holders.add(id(holder))
        self._regulate()

    def release(self, holder: object) -> None:
        """Go on reading, as far as this holder is concerned."""
        self._holders.discard(id(holder))
        self._regulate()

    def _regulate(self) -> None:
        """Read or do not, as things stand now."""
        if self._is_held_up() or self._unread.is_too_much():
            self._channel.pause()
        else:
            self._channel.resume()

    def _is_held_up(self) -> bool:
        """Whether what comes has to wait for a handler or a reader."""
        return self._delivering is not None or bool(self._holders and not self._connection.is_waiting)

    # --- delivering -----------------------------------------------------------------------------------------------

    def _received(self, block: bytes) -> None:
        self._take_in(self._connection.split(block))

    def _end_of_input(self, error: Exception | None) -> None:
        """The channel has no more; the last line may lack its line feed (S-SP-02)."""
        self._ended = self._channel.closed_error()
        self._ended.__cause__ = error
        self._take_in(self._connection.finish())

    def _take_in(self, lines: list[bytes]) -> None:
        if self._delivering is not None:  # the channel was paused, and had some more all the same
            self._input = iter([*self._input, *lines])
            return
        self._input = iter([*self._input, *lines]) if length_hint(self._input) else iter(lines)
        try:
            waited = self._deliver()
        except BaseException:  # the program is to end; what is left of the block comes if it goes on all the same
            self._loop.call_soon(self._take_in, list[bytes]())
            raise
        if waited is None:
            self._delivered()
            return
        self._delivering = self._loop.create_task(self._deliver_waiting(waited), context=self._context.copy())
        self._flush()
        self._regulate()

    async def _deliver_waiting(self, waited: Awaitable[Any] | None) -> None:
        """Deliver from a task, as there is something to wait for."""
        try:
            while waited is not None:
                try:
                    await waited
                except asyncio.CancelledError as error:
                    task = asyncio.current_task()
                    if task is None or task.cancelling():
                        raise
                    log_failure(self, error, "a handler of notifications", "was cancelled from inside")
                except ENDS:
                    self._loop.call_soon(self._take_in, list[bytes]())
                    raise
                except BaseException as error:
                    log_failure(self, error, "a handler of notifications")
                waited = self._deliver()
                self._flush()
        finally:
            self._delivering = None
        self._delivered()

    def _delivered(self) -> None:
        """All that was there is delivered."""
        self._flush()
        if self._ended is not None:
            self._shut(self._ended)
        self._regulate()

    def _deliver(self) -> Awaitable[Any] | None:
        """Deliver the lines that are there. Returns what has to be awaited before the next, None after the last."""
        read, handlers, source, stride = self._connection.read, self._heard, self._input, self._stride
        begun = looked = perf_counter()
        name, handler = "", None  # of the line before: most lines are of one method
        while True:
            for line in islice(source, stride):
                message = read(line)
                self.line = line
                if type(message) is Notification:
                    if message.method != name:
                        name, handler = message.method, handlers.get(message.method)
                    if handler is not None:
                        try:
                            outcome = handler(message.params)
                        except ENDS:
                            raise
                        except BaseException as error:
                            log_failure(self, error, f"the handler of {name}")
                            continue
                        if outcome is None:
                            continue
                    else:
                        outcome = self._handle(self._connection.receive(message))
                else:
                    outcome = self._handle(self._connection.receive(message))
                if outcome is not None and isawaitable(outcome):
                    return outcome
            if not length_hint(source):
                return None
            last, looked = looked, perf_counter()
            self._stride = stride = 1 if looked - last > TURN else min(stride * 2, LINES)
            if looked - begun > TURN:
                return _TURN_IS_OVER

    def _handle(self, event: Event) -> Any:
        """Whatever is no notification of the usual kind; returns what delivery has to wait for."""
        if isinstance(event, Request):
            self._serve(event)
        elif isinstance(event, Answered):
            self._answered(event)
        elif isinstance(event, CancelRequested):
            task = self._working.get(event.id)
            if task is not None:  # later, so that it has begun: a task that never did would not answer
                self._loop.call_soon(task.cancel, "the peer cancelled its request")
        elif isinstance(event, Ignored):
            self._observe(event)
        else:
            handler = self._notifications.get(event.method)
            if handler is None:
                self.counters.drops += 1
                self._observe(Ignored(event, "nobody handles this notification"))
                return None
            try:
                return handler(event.params)
            except ENDS:
                raise
            except BaseException as error:
                log_failure(self, error, f"the handler of {event.method}")
        return None

    def _observe(self, event: Ignored) -> None:
        _log.debug("ignored: %s", event.reason)
        if self._observer is not None:
            _called(self._observer, event, what="the observer of the connection")

    def _answered(self, event: Answered) -> None:
        if self._first_answer is not None:
            self._first_answer.cancel()
            self._first_answer = None
        future = self._waiting.pop(event.id, None)
        arrived = self._arrivals.pop(event.id, None)
        if future is not None and not future.done():
            if event.error is not None:
                future.set_exception(event.error)
            else:
                if arrived is not None:
                    _called(arrived, event.result, what=f"what was to happen when {event.method.name} was answered")
                future.set_result(event.result)

    # --- requests of the peer -------------------------------------------------------------------------------------

    def _serve(self, request: Request[Any]) -> None:
        handler = self._requests.get(request.method)
        if handler is None:
            error = RequestError(METHOD_NOT_FOUND, "Method not found", {"method": request.method})
            self._connection.fail(request.id, error)
            return
        trace = carried(request.params)
        context = self._context.copy()
        if trace:
            context.run(trace_context.set, trace)
        context.run(_afters.set, [])
        try:
            outcome = context.run(handler, request.params)
        except BaseException as error:
            self._failed(request, error)
            if isinstance(error, ENDS):
                raise
            return
        if not isawaitable(outcome):
            self._succeeded(request, outcome, context.get(_afters))
            return
        task = self._loop.create_task(self._work(request, outcome), context=context)
        self._working[request.id] = task

    async def _work(self, request: Request[Any], outcome: Awaitable[Any]) -> None:
        """Wait for a handler and answer, once, in the same step (PL-13)."""
        try:
            try:
                result = await outcome
            except BaseException as error:
                self._failed(request, error)
                if isinstance(error, ENDS):
                    raise
            else:
                self._succeeded(request, result, _afters.get())
        finally:
            self._working.pop(request.id, None)
            self._send_soon(at_once=True)

    def _succeeded(self, request: Request[Any], result: Any, afters: list[Callable[[], object]] | None) -> None:
        if self._connection.closed is not None:
            return
        try:
            self._connection.answer(request.id, result)
        except EncodeError as error:
            self._failed(request, error)
            return
        for callback in afters or ():
            _called(callback, what=f"what was to happen after the answer to {request.method}")

    def _failed(self, request: Request[Any], error: BaseException) -> None:
        """The one place where an exception becomes an error on the wire."""
        if isinstance(error, asyncio.CancelledError):
            error = RequestError.cancelled()
        if self._connection.closed is not None:
            if not isinstance(error, RequestError | ConnectionClosed):
                _log.error("the handler of %s failed", request.method, exc_info=error)
            return
        if not isinstance(error, RequestError):
            _log.error("the handler of %s failed", request.method, exc_info=error)
            error = RequestError(INTERNAL_ERROR, "Internal error")
        try:
            self._connection.fail(request.id, error)
        except EncodeError as fault:
            _log.error("the error of %s has data that is no JSON", request.method, exc_info=fault)
            self._connection.fail(request.id, RequestError(error.code, error.message))

    # --- the end --------------------------------------------------------------------------------------------------

    def _shut(self, cause: ConnectionClosed) -> None:
        """Fail what waits and begin to close; once."""
        if self._shutdown is not None:
            return
        self._flush()  # answers that were ready before the end go out, if anybody takes them
        deque(self._input, maxlen=0)
        for answered in self._connection.close(cause):
            self._answered(answered)
        if self._first_answer is not None:
            self._first_answer.cancel()
        self._unread.stop()
        self._shutdown = self._loop.create_task(self._close(), context=self._context.copy())
        self._has_room.set()
        self._is_shut.set()

    async def _close(self) -> None:
        running = {task for task in (*self._working.values(), self._delivering) if task is not None}
        for task in running:
            task.cancel("the connection was closed")
        if running:
            _, late = await asyncio.wait(running, timeout=self._limits.grace)
            if late:
                _log.warning("%d handlers did not end within Limits.grace = %s s", len(late), self._limits.grace)
        await self._channel.close()


def _called(callback: Callable[..., object], *arguments: Any, what: str) -> None:
    """Call what is to be told of something, and does not change it whatever it raises."""
    try:
        callback(*arguments)
    except ENDS:
        raise
    except BaseException:
        _log.exception("%s failed", what)


_afters: ContextVar[list[Callable[[], object]] | None] = ContextVar("acpwire.afters", default=None)


def after_answer(callback: Callable[[], object]) -> None:
    """Have something called right after the request that is being handled is answered with its result.

    It is not called where the request fails. Raises `UsageError` where no request is being handled.
    """
    afters = _afters.get()
    if afters is None:
        raise UsageError("no request is being handled here, so there is no answer to wait for")
    afters.append(callback)


class _Sent(asyncio.Future[None], Coroutine[Any, Any, None]):
    """What was sent without having to wait: awaiting it takes a third of the time that a coroutine function takes.

    It is a coroutine to whoever asks for one, such as `create_task`, and no future. It may be awaited more than once.
    """

    _asyncio_future_blocking = None  # type: ignore[assignment]  # what tells asyncio that it is no future

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.set_result(None)

    def send(self, _: object) -> NoReturn:
        """Nothing is left to do."""
        raise StopIteration

    def throw(self, error: Any, *_: object) -> NoReturn:
        """Nothing handles it."""
        raise error

    def close(self) -> None:
        """Nothing has to be cleaned up."""


class _Turn:
    """Awaiting it gives the loop's other work a turn."""

    def __await__(self) -> Generator[None, None, None]:
        yield


_TURN_IS_OVER = _Turn()
