"""What an agent asks: permissions and forms; no answer says more than the user did."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from acpwire import v2
from acpwire.client import Client, ClientSession
from acpwire.errors import ConnectionClosed, RequestError
from acpwire.limits import Limits
from tests.client.script import (
    ALLOWED,
    CANCELLED,
    OPTIONS,
    REJECTED,
    RUNNING,
    Script,
    connected,
    new_session,
    prompted,
    session_of,
    settled,
    told,
    while_,
)
from tests.transports.loops import on_each_loop

Decide = Callable[[Any], Any]
TOOL = {"type": "tool_call", "toolCall": {"toolCallId": "t", "title": "rm", "status": "pending"}}


class Decides(Client):
    """Answers by a function, and counts the questions."""

    def __init__(self, decide: Callable[[v2.RequestPermissionRequest], Any]) -> None:
        self.decide = decide
        self.asked = 0

    async def request_permission(self, session: ClientSession, request: v2.RequestPermissionRequest) -> Any:
        self.asked += 1
        return self.decide(request)


class Waits(Client):
    """Waits for ever, and does with its cancellation what it was told to."""

    def __init__(self, after: Callable[[], Any] | None = None, timeout: float | None = None) -> None:
        self.after = after
        self.asking = asyncio.Event()
        self.was_cancelled = 0
        self.permission_timeout = timeout

    async def wait(self) -> Any:
        self.asking.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled += 1
            if self.after is None:
                raise
            return self.after()

    async def request_permission(self, session: ClientSession, request: v2.RequestPermissionRequest) -> Any:
        return await self.wait()

    async def create_elicitation(self, session: ClientSession | None, request: v2.CreateElicitationRequest) -> Any:
        return await self.wait()


def fails() -> Any:
    raise ValueError("a secret")


# --- permission -------------------------------------------------------------------------------------------------------


DECISIONS: list[tuple[Decide, Any]] = [
    (lambda _: "yes", ALLOWED),
    (lambda request: request.options[0], ALLOWED),
    (lambda _: "no", REJECTED),
    (lambda _: None, CANCELLED),
    (lambda _: "not offered", REJECTED),
    (lambda _: v2.PermissionOption(option_id="other", name="Yes", kind="allow_once"), REJECTED),
    (lambda _: True, REJECTED),
    (lambda _: {"outcome": "selected", "optionId": "yes"}, REJECTED),
    (lambda _: fails(), REJECTED),
]


@pytest.mark.parametrize(
    ("decide", "outcome"),
    DECISIONS,
)
@on_each_loop
async def test_only_what_was_offered_and_chosen_is_allowed(decide: Any, outcome: Any) -> None:
    """PM-07, PM-09: what was not offered, and a handler that fails, is a no."""
    async with session_of(Decides(decide)) as (script, _):
        await script.permission(1)
        assert await script.answer_to(1) == outcome


@pytest.mark.parametrize(
    ("kinds", "outcome"),
    [
        (["allow_once", "reject_always", "reject_once"], "2"),
        (["allow_always", "reject_always"], "1"),
        (["allow_once", "_other"], None),
        (["allow_once"], None),
    ],
)
@on_each_loop
async def test_a_client_that_decides_nothing_rejects_as_mildly_as_it_can(kinds: list[str], outcome: str | None) -> None:
    """PM-06, PM-10: an unknown kind is no rejection."""
    options = [{"optionId": str(number), "name": kind, "kind": kind} for number, kind in enumerate(kinds)]
    selected = {"outcome": {"outcome": "selected", "optionId": outcome}}
    async with session_of() as (script, _):
        await script.permission(1, options=options)
        assert await script.answer_to(1) == (CANCELLED if outcome is None else selected)


@on_each_loop
async def test_a_question_of_an_unknown_session_gets_the_cautious_answer_and_nobody_is_asked() -> None:
    client = Decides(lambda _: "yes")
    async with connected(client) as (script, _):
        await script.permission(1, session="unknown")
        assert await script.answer_to(1) == REJECTED
    assert client.asked == 0


@on_each_loop
async def test_what_a_question_is_about_is_in_the_transcript_before_anybody_is_asked() -> None:
    """PM-02, PM-03, PM-05, PM-12: created if new, in the wire's order; the question's own title changes nothing."""
    seen: list[Any] = []

    class Looks(Client):
        async def request_permission(self, session: ClientSession, request: v2.RequestPermissionRequest) -> Any:
            seen.append({name: call.title for name, call in session.transcript.tool_calls.items()})
            return "yes"

    async with session_of(Looks()) as (script, session):
        later = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": "rm -rf"}
        await script.permission(1, subject=TOOL, title="May I remove it?")
        await script.told(later)
        assert await script.answer_to(1) == ALLOWED
        await settled(script)
        assert session.transcript.tool_calls["t"].title == "rm -rf"
        await script.permission(2, subject={"type": "_new", "x": 1})
        assert await script.answer_to(2) == ALLOWED
        await script.permission(3, subject={"type": "tool_call", "toolCall": {}})
        assert (await script.answer_to(3))["code"] == -32602
    assert [set(one) for one in seen] == [{"t"}, {"t"}]


@pytest.mark.parametrize("after", [None, lambda: "yes", fails])
@on_each_loop
async def test_a_question_that_nobody_answers_in_time_is_rejected_and_never_allowed(after: Any) -> None:
    """Whatever the handler does with its cancellation."""
    client = Waits(after, timeout=0.01)
    async with session_of(client) as (script, _):
        await script.permission(1)
        assert await script.answer_to(1) == REJECTED
    assert client.was_cancelled == 1


@on_each_loop
async def test_a_handler_that_times_out_of_itself_is_a_no() -> None:
    def times_out(_: Any) -> Any:
        raise TimeoutError

    async with session_of(Decides(times_out)) as (script, _):
        await script.permission(1)
        assert await script.answer_to(1) == REJECTED


@pytest.mark.parametrize("after", [None, lambda: "yes", fails])
@pytest.mark.parametrize("trigger", ["session", "request"])
@on_each_loop
async def test_cancelling_answers_what_is_pending_as_cancelled_exactly_once(after: Any, trigger: str) -> None:
    """CA-03, X8, S-CA-02: by `session/cancel` here, and by `$/cancel_request` there; whatever the handler does."""
    client = Waits(after)
    async with session_of(client) as (script, session):
        await script.permission(1)
        await client.asking.wait()
        if trigger == "session":
            await session.cancel()
            await script.asked("session/cancel")
        else:
            await script.cancel(1)
        assert await script.answer_to(1) == CANCELLED
        await script.cancel(1)
        await script.expect_nothing()
    assert client.was_cancelled == 1


class Cleans(Client):
    """Takes its time to clean up, and says how that went."""

    def __init__(self) -> None:
        self.asking, self.may_end = asyncio.Event(), asyncio.Event()
        self.events: list[str] = []

    async def request_permission(self, session: ClientSession, request: v2.RequestPermissionRequest) -> str:
        self.asking.set()
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await self.may_end.wait()
                for _ in range(50):
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                self.events.append("interrupted")
                raise
            self.events.append("cleaned up")
        return "yes"

    def closed(self, cause: ConnectionClosed) -> None:
        self.events.append("closed")


@on_each_loop
async def test_the_answer_waits_for_no_clean_up_and_both_triggers_interrupt_none() -> None:
    """CA-03, X8: agents are expected to send `$/cancel_request` besides."""
    client = Cleans()
    async with session_of(client) as (script, session):
        await script.permission(1)
        await client.asking.wait()
        await session.cancel()
        await script.asked("session/cancel")
        assert await script.answer_to(1) == CANCELLED
        await script.cancel(1)
        await script.expect_nothing()
        assert client.events == []
        client.may_end.set()
    assert client.events == ["cleaned up", "closed"]


@on_each_loop
async def test_a_handler_that_takes_no_cancellation_is_answered_for_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CA-03, PM-07: also where its time is over; what it raises afterwards is no error."""

    class Stubborn(Cleans):
        permission_timeout: float | None = 0.01

        async def request_permission(self, session: ClientSession, request: v2.RequestPermissionRequest) -> str:
            for _ in range(3):
                with suppress(asyncio.CancelledError):
                    await self.may_end.wait()
            raise ValueError("at last")

    client = Stubborn()
    with caplog.at_level(logging.WARNING):
        async with session_of(client) as (script, session):
            await script.permission(1)
            assert await script.answer_to(1) == REJECTED
            client.permission_timeout = None
            await script.permission(2)
            await script.expect_nothing()
            await session.cancel()
            messages = [await script.receive_json() for _ in range(2)]
            assert [one["result"] for one in messages if one.get("id") == 2] == [CANCELLED]
            client.may_end.set()
    assert not caplog.records


@on_each_loop
async def test_a_question_that_has_come_but_not_reached_its_handler_is_cancelled_too() -> None:
    """CA-03: it is pending from its receipt on; then nobody is asked."""
    client = Decides(lambda _: "yes")

    class Cancels(Client):
        """Cancels at an update that comes with the question, in one block."""

        def update(self, session: ClientSession, update: v2.SessionUpdate) -> None:
            if isinstance(update, v2.StateUpdate):
                tasks.append(asyncio.ensure_future(session.cancel()))

        async def request_permission(self, session: ClientSession, request: v2.RequestPermissionRequest) -> Any:
            return await client.request_permission(session, request)

    tasks: list[asyncio.Future[None]] = []
    async with session_of(Cancels()) as (script, _):
        question = {"sessionId": "s", "title": "?", "options": OPTIONS}
        line = {"jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": question}
        await script.send(told(RUNNING), line)
        messages = [await script.receive_json() for _ in range(2)]
        assert next(one["result"] for one in messages if one.get("id") == 1) == CANCELLED
        await asyncio.gather(*tasks)
    assert client.asked == 0


@on_each_loop
async def test_a_question_after_the_cancel_is_asked() -> None:
    """PL-29, CA-09: what comes later is not touched."""
    async with session_of(Decides(lambda _: "yes")) as (script, session):
        await session.cancel()
        await script.asked("session/cancel")
        await script.permission(1)
        assert await script.answer_to(1) == ALLOWED


@on_each_loop
async def test_cancelling_one_session_leaves_the_questions_of_others() -> None:
    """S-CA-01."""
    client = Waits()
    async with session_of(client) as (script, session):
        await new_session(script, session.agent, "other")
        await script.permission(1, session="other")
        await client.asking.wait()
        await session.cancel()
        await script.asked("session/cancel")
        await script.expect_nothing()
        await script.cancel(1)
        assert await script.answer_to(1) == CANCELLED


@on_each_loop
async def test_a_handler_may_cancel_the_session_itself() -> None:
    class Stops(Client):
        async def request_permission(self, session: ClientSession, request: v2.RequestPermissionRequest) -> Any:
            await session.cancel()
            return "yes"

    async with session_of(Stops()) as (script, _):
        await script.permission(1)
        messages = [await script.receive_json() for _ in range(2)]
        assert {one.get("method") for one in messages} == {"session/cancel", None}
        assert next(one["result"] for one in messages if "result" in one) == CANCELLED


@on_each_loop
async def test_closing_a_session_cancels_its_questions() -> None:
    client = Waits()
    async with session_of(client) as (script, session):
        await script.permission(1)
        await client.asking.wait()
        await while_(script.answered("session/close", {}), session.close())
        assert await script.answer_to(1) == CANCELLED


@on_each_loop
async def test_a_question_and_the_end_at_once_leave_nothing() -> None:
    """S-CA-03: the handler may not even have begun."""
    for client in (Decides(lambda _: "yes"), Waits()):
        async with session_of(client) as (script, session):
            await script.permission(1)
            await script.__aexit__(None, None, None)
            await session.agent.peer.wait_closed()


@on_each_loop
async def test_a_handler_that_is_slow_to_end_keeps_no_prompt_waiting_for_the_loss_of_the_connection() -> None:
    """ER-09: that fails at once; `closed` comes when all has ended."""
    client = Cleans()
    async with session_of(client) as (script, session):
        prompt = await prompted(script, session)
        await script.permission(1)
        await client.asking.wait()
        await script.__aexit__(None, None, None)
        with pytest.raises(ConnectionClosed):
            await prompt.wait()
        with pytest.raises(ConnectionClosed):
            await anext(session.stream())
        assert not client.events
        client.may_end.set()
    assert client.events == ["cleaned up", "closed"]


@on_each_loop
async def test_many_questions_at_once_are_each_answered_once() -> None:
    """PM-01: beyond Limits.requests they are refused, which approves nothing (PM-11)."""
    client = Waits()
    async with session_of(client, limits=Limits(requests=8, grace=5)) as (script, session):
        for number in range(10):
            await script.permission(number)
        for number in (8, 9):
            assert "Limits.requests" in (await script.answer_to(number))["message"]
        await session.cancel()
        messages = [await script.receive_json() for _ in range(9)]
        assert sorted(one["id"] for one in messages if "id" in one) == list(range(8))
        assert all(one["result"] == CANCELLED for one in messages if "id" in one)
        await script.expect_nothing()


# --- elicitation ------------------------------------------------------------------------------------------------------

FORM: dict[str, Any] = {
    "mode": "form",
    "message": "Who?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}
URL: dict[str, Any] = {"mode": "url", "message": "Sign in", "url": "https://example.com/x", "elicitationId": "e1"}


class Elicits(Client):
    """Answers by a function."""

    def __init__(self, decide: Callable[[Any], Any], elicits: tuple[str, ...] = ("form", "url")) -> None:
        self.decide = decide
        self.elicits = elicits
        self.sessions: list[str | None] = []
        self.completed: list[str] = []

    async def create_elicitation(self, session: ClientSession | None, request: v2.CreateElicitationRequest) -> Any:
        self.sessions.append(None if session is None else session.id)
        return self.decide(request)

    def elicitation_complete(self, elicitation_id: str) -> None:
        self.completed.append(elicitation_id)


def refuses(_: Any) -> Any:
    raise RequestError(-32000, "sign in first")


FILLINGS: list[tuple[Decide, Any]] = [
    (lambda _: {"name": "me"}, {"action": "accept", "content": {"name": "me"}}),
    (lambda _: {"name": 5}, {"action": "cancel"}),  # EL-08
    (lambda _: None, {"action": "decline"}),
    (lambda _: v2.ElicitationCancelAction(), {"action": "cancel"}),
    (lambda _: v2.ElicitationAcceptAction(), {"action": "accept"}),
    (lambda _: fails(), {"action": "cancel"}),
    (refuses, {"code": -32000, "message": "sign in first"}),
]


@pytest.mark.parametrize(
    ("decide", "expected"),
    FILLINGS,
)
@on_each_loop
async def test_a_form_is_accepted_only_with_what_was_filled_in(decide: Any, expected: Any) -> None:
    """EL-06, EL-07, EL-17."""
    client = Elicits(decide)
    async with session_of(client) as (script, _):
        await script.ask(1, "elicitation/create", sessionId="s", **FORM)
        assert await script.answer_to(1) == expected
        await script.ask(2, "elicitation/create", requestId=0, **FORM)
        assert await script.answer_to(2) == expected
    assert client.sessions == ["s", None]


@pytest.mark.parametrize(
    ("elicits", "params", "code"),
    [
        ((), FORM, -32602),
        (("url",), FORM, -32602),
        (("form",), URL, -32602),
        (("form", "url"), {**FORM, "mode": "_voice"}, -32602),
    ],
)
@on_each_loop
async def test_a_mode_that_was_not_offered_is_refused(elicits: tuple[str, ...], params: Any, code: int) -> None:
    """EL-01, EL-03, EL-05."""
    client = Elicits(lambda _: {}, elicits)
    async with session_of(client) as (script, _):
        await script.ask(1, "elicitation/create", sessionId="s", **params)
        assert (await script.answer_to(1))["code"] == code
    assert not client.sessions


@on_each_loop
async def test_a_client_that_elicits_nothing_refuses_all_and_one_without_the_session_cancels() -> None:
    """EL-01, EL-03."""
    async with session_of() as (script, _):
        await script.ask(1, "elicitation/create", sessionId="s", **FORM)
        assert (await script.answer_to(1))["code"] == -32602
    client = Elicits(lambda _: {})
    async with session_of(client) as (script, _):
        await script.ask(1, "elicitation/create", sessionId="unknown", **FORM)
        assert await script.answer_to(1) == {"action": "cancel"}
    assert not client.sessions


@on_each_loop
async def test_what_is_asked_for_a_session_that_is_not_known_is_logged_without_a_value_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Else nobody would see why an agent gets no further."""
    caplog.set_level(logging.INFO, logger="acpwire.client.answers")
    client = Elicits(lambda _: {})
    async with session_of(client) as (script, _):
        await script.permission(1, session="secret-1", title="secret-2")
        assert await script.answer_to(1) == REJECTED
        await script.ask(2, "elicitation/create", sessionId="secret-1", **FORM)
        assert await script.answer_to(2) == {"action": "cancel"}
    assert [(record.levelname, record.getMessage().partition(" ")[0]) for record in caplog.records] == [
        ("INFO", "session/request_permission"),
        ("INFO", "elicitation/create"),
    ]
    assert "secret" not in caplog.text


@pytest.mark.parametrize("after", [None, dict, fails])
@pytest.mark.parametrize("trigger", ["session", "request"])
@on_each_loop
async def test_cancelling_cancels_a_form_whatever_its_handler_does(after: Any, trigger: str) -> None:
    """CA-11, EL-15."""
    client = Waits(after)
    async with session_of(client) as (script, session):
        await script.ask(1, "elicitation/create", sessionId="s", **FORM)
        await client.asking.wait()
        if trigger == "session":
            await session.cancel()
            await script.asked("session/cancel")
        else:
            await script.cancel(1)
        assert await script.answer_to(1) == {"action": "cancel"}


@pytest.mark.parametrize("after", [None, dict, fails])
@on_each_loop
async def test_a_form_that_nobody_fills_in_in_time_is_cancelled_and_never_accepted(after: Any) -> None:
    client = Waits(after)
    client.elicitation_timeout = 0.01
    async with session_of(client) as (script, _):
        await script.ask(1, "elicitation/create", sessionId="s", **FORM)
        assert await script.answer_to(1) == {"action": "cancel"}
        await script.ask(2, "elicitation/create", requestId=0, **FORM)
        await script.cancel(2)
        assert await script.answer_to(2) == {"action": "cancel"}


@on_each_loop
async def test_what_happened_at_a_url_is_told_once_and_only_if_it_was_opened() -> None:
    """EL-10, EL-11."""
    answers: list[Any] = [v2.ElicitationAcceptAction(), None]
    client = Elicits(lambda _: answers.pop(0))

    async def complete(script: Script, elicitation_id: str) -> None:
        params = {"elicitationId": elicitation_id}
        await script.send({"jsonrpc": "2.0", "method": "elicitation/complete", "params": params})
        await settled(script)

    async with session_of(client) as (script, _):
        await complete(script, "e1")
        await script.ask(1, "elicitation/create", sessionId="s", **URL)
        assert await script.answer_to(1) == {"action": "accept"}
        await script.ask(2, "elicitation/create", requestId=0, **URL | {"elicitationId": "e2"})
        assert await script.answer_to(2) == {"action": "decline"}
        for elicitation_id in ("e2", "other", "e1", "e1"):
            await complete(script, elicitation_id)
    assert client.completed == ["e1"]


@on_each_loop
async def test_a_question_that_fails_is_named_with_its_class(caplog: pytest.LogCaptureFixture) -> None:
    class Asking(Client):
        async def request_permission(self, session: ClientSession, request: v2.RequestPermissionRequest) -> Any:
            raise ValueError("no")

        async def create_elicitation(self, session: ClientSession | None, request: v2.CreateElicitationRequest) -> Any:
            raise ValueError("no")

        def closed(self, cause: ConnectionClosed) -> None:
            raise ValueError("no")

    with caplog.at_level(logging.ERROR):
        async with session_of(Asking()) as (script, _):
            await script.permission(1)
            assert await script.answer_to(1) == REJECTED
            await script.ask(2, "elicitation/create", sessionId="s", **FORM)
            assert await script.answer_to(2) == {"action": "cancel"}
    assert [record.getMessage() for record in caplog.records] == [
        "Asking.request_permission failed; the answer is no",
        "Asking.create_elicitation failed; it counts as cancelled",
        "Asking.closed failed",
    ]
