"""What an agent asks of the user, answered by the client's handlers.

Owns: what is asked at all; waiting for a handler no longer than it may take; what is answered where it fails, is late,
or says what was not offered; which URLs are open. No answer says more than the user did. Does not know: connections, or
where sessions come from.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, cast

from acpwire import v2
from acpwire.errors import INVALID_PARAMS, RequestError
from acpwire.forms import problems

from .handlers import Chosen, Client, Filled, name_of, rejection
from .session import ClientSession

__all__ = ["Answers"]

_CANCELLED: Final = v2.RequestPermissionResponse(outcome=v2.CancelledPermissionOutcome())
_log = logging.getLogger(__name__)


class Answers:
    """Answers the questions of an agent: whatever a handler that was cancelled goes on to do, nobody waits for it."""

    def __init__(self, client: Client, sessions: Mapping[str, ClientSession]) -> None:
        self._client = client
        self._sessions = sessions
        self._handlers: set[asyncio.Task[Any]] = set()
        self._open_urls: set[str] = set()  # elicitations of the user at URLs (EL-11)

    def permission(self, request: v2.RequestPermissionRequest) -> Any:
        """What it is about is folded in before anybody is asked (PM-03).

        For a session that is not known nobody is asked: the answer is no.
        """
        session = self._sessions.get(request.session_id)
        if session is None:
            _log.info("session/request_permission came for a session that is not known; the answer is no")
            return _outcome(rejection(request.options), request.options)
        subject = request.subject
        if session.kept is not None and isinstance(subject, v2.ToolCallPermissionSubject):
            session.kept.apply(subject.tool_call)
        return self._permitted(session, session.question(), request)

    def elicitation(self, request: v2.CreateElicitationRequest) -> Any:
        """Only in a mode that was offered (EL-03, EL-05).

        For a session that is not known nobody is asked: it counts as cancelled. That a request is pending of which an
        agent asks is for the agent to see to (EL-04): it may cross the answer to that, and the user is asked.
        """
        offered = self._client.capabilities().elicitation
        if isinstance(request, v2.UnknownVariant) or offered is None or getattr(offered, request.tag) is None:
            raise RequestError(INVALID_PARAMS, "This client offers no such mode - at `$.params.mode`")
        session = None
        if isinstance(request.session_id, str):
            session = self._sessions.get(request.session_id)
            if session is None:
                _log.info("elicitation/create came for a session that is not known; it counts as cancelled")
                return v2.ElicitationCancelAction()
        return self._filled(session, asyncio.Future() if session is None else session.question(), request)

    def closes(self, elicitation_id: str) -> bool:
        """An elicitation is complete; whether that is news: what is not open, or was completed before, is none."""
        is_open = elicitation_id in self._open_urls
        self._open_urls.discard(elicitation_id)
        return is_open

    async def stop(self, grace: float) -> None:
        """Wait for handlers that still clean up, for so many seconds."""
        if self._handlers:
            await asyncio.wait(self._handlers, timeout=grace)

    async def _permitted(
        self, session: ClientSession, question: asyncio.Future[None], request: v2.RequestPermissionRequest
    ) -> v2.RequestPermissionResponse:
        client, chosen = self._client, rejection(request.options)
        handler, name = partial(client.request_permission, session, request), name_of(client, "request_permission")
        try:
            return _outcome(await self._asked(handler, question, client.permission_timeout), request.options)
        except asyncio.CancelledError:
            return _CANCELLED
        except TimeoutError:
            _log.info("%s took too long; the answer is no", name)
        except Exception:
            _log.exception("%s failed; the answer is no", name)
        finally:
            session.answered(question)
        return _outcome(chosen, request.options)

    async def _filled(
        self, session: ClientSession | None, question: asyncio.Future[None], request: v2.CreateElicitationRequest
    ) -> v2.CreateElicitationResponse:
        client, filled = self._client, cast("v2.CreateElicitationResponse", v2.ElicitationCancelAction())
        url = request.elicitation_id if isinstance(request, v2.ElicitationUrlMode) else None
        if url is not None:
            self._open_urls.add(url)
        handler, name = partial(client.create_elicitation, session, request), name_of(client, "create_elicitation")
        try:
            filled = _checked_form(request, _action(await self._asked(handler, question, client.elicitation_timeout)))
        except asyncio.CancelledError:
            pass
        except TimeoutError:
            _log.info("%s took too long; it counts as cancelled", name)
        except RequestError:
            raise
        except Exception:
            _log.exception("%s failed; it counts as cancelled", name)
        finally:
            if session is not None:
                session.answered(question)
            if url is not None and not isinstance(filled, v2.ElicitationAcceptAction):
                self._open_urls.discard(url)
        return filled

    async def _asked(
        self, handler: Callable[[], Awaitable[Any]], cancelled: asyncio.Future[None], seconds: float | None
    ) -> Any:
        """What the handler answers; raises what it raises.

        Raises `TimeoutError` after so many seconds, and `CancelledError` as soon as `cancelled` is done, or this task
        is cancelled; then the handler is, too, once, and may clean up at its leisure.
        """
        if cancelled.done():
            raise asyncio.CancelledError

        async def run() -> Any:
            return await handler()

        task = asyncio.get_running_loop().create_task(run())
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        try:
            await asyncio.wait({task, cancelled}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if cancelled.done():
                raise asyncio.CancelledError
            if not task.done():
                raise TimeoutError
            return task.result()
        finally:
            task.cancel()
            task.add_done_callback(_looked_at)


def _looked_at(task: asyncio.Task[Any]) -> None:
    """An exception that nobody waits for any more is no news."""
    if not task.cancelled() and task.exception() is not None:
        _log.debug("a handler of the client has ended", exc_info=task.exception())


def _action(filled: Filled) -> v2.CreateElicitationResponse:
    """The answer to an elicitation."""
    if filled is None:
        return v2.ElicitationDeclineAction()
    return v2.ElicitationAcceptAction(content=dict(filled)) if isinstance(filled, Mapping) else filled


def _outcome(chosen: Chosen, options: Sequence[v2.PermissionOption]) -> v2.RequestPermissionResponse:
    """The answer that selects an option; what was not offered is no choice (PM-09)."""
    if chosen is None:
        return _CANCELLED
    option_id = chosen.option_id if isinstance(chosen, v2.PermissionOption) else chosen
    if not any(option.option_id == option_id for option in options):
        _log.error("request_permission of the client chose %r, which was not offered; the answer is no", option_id)
        return _outcome(rejection(options), options)
    return v2.RequestPermissionResponse(outcome=v2.SelectedPermissionOutcome(option_id=option_id))


def _checked_form(
    request: v2.CreateElicitationRequest, filled: v2.CreateElicitationResponse
) -> v2.CreateElicitationResponse:
    """An accepted form, if its values fit; else it counts as cancelled (EL-08)."""
    if isinstance(request, v2.ElicitationFormMode) and isinstance(filled, v2.ElicitationAcceptAction):
        wrong = problems(request.requested_schema, filled.content or {})
        if wrong:
            _log.error("create_elicitation of the client: %s; it counts as cancelled", ", ".join(wrong))
            return v2.ElicitationCancelAction()
    return filled
