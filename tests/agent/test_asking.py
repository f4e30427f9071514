"""What comes of asking the user: no answer is mistaken for another, and nothing waits for work that is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from acpwire import v2
from acpwire.agent import AgentSession, Elicited, Permission, UserPrompt
from acpwire.errors import EncodeError, UsageError
from tests.agent.script import INITIALIZE, Script, agent_of, doing, dumps, serving, session_of
from tests.transports.loops import on_each_loop

PERMISSION, ELICITATION = "session/request_permission", "elicitation/create"
FORMS: dict[str, Any] = INITIALIZE | {"capabilities": {"elicitation": {"form": {}, "url": {}}}}


async def outcome(ask: Callable[[AgentSession], Any], answer: Callable[[Script, Any], Any], method: str) -> Any:
    """What comes of asking, when it is answered like this."""
    found: list[Any] = []

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        found.append(await ask(session))

    async with serving(agent_of(prompt), initialize=FORMS) as script:
        session = await session_of(script)
        await doing(script, session)
        await answer(script, await script.asked(method))
        assert (await script.idle(session))["stopReason"] == "end_turn"
    return found[0]


def result(value: Any) -> Callable[[Script, Any], Any]:
    """Answer with a result."""

    async def answer(script: Script, request: Any) -> None:
        await script.answer(request, value)

    return answer


def error(code: int) -> Callable[[Script, Any], Any]:
    """Answer with an error."""

    async def answer(script: Script, request: Any) -> None:
        await script.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no"}})

    return answer


def selected(option: str) -> Callable[[Script, Any], Any]:
    """Answer that an option was selected."""
    return result({"outcome": {"outcome": "selected", "optionId": option}})


OPTIONS = [
    v2.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    v2.PermissionOption(option_id="always", name="Always", kind="allow_always"),
    v2.PermissionOption(option_id="no", name="No", kind="reject_once"),
    v2.PermissionOption(option_id="never", name="Never", kind="reject_always"),
    v2.PermissionOption(option_id="own", name="Own", kind="_acme_maybe"),
]


@pytest.mark.parametrize(
    ("answer", "allowed", "option"),
    [
        (selected("yes"), True, "yes"),
        (selected("always"), True, "always"),
        (selected("no"), False, "no"),
        (selected("never"), False, "never"),
        (selected("own"), False, "own"),
        (selected("invented"), False, None),
        (selected("YES"), False, None),
        (result({"outcome": {"outcome": "cancelled"}}), False, None),
        (result({"outcome": {"outcome": "_acme", "optionId": "yes"}}), False, None),
        (result({"outcome": {"outcome": "future", "optionId": "yes"}}), False, None),
        (result({"outcome": {"outcome": "selected"}}), False, None),
        (result({"outcome": True}), False, None),
        (result({}), False, None),
        (result(None), False, None),
        (error(-32800), False, None),
        (error(-32601), False, None),
        (error(1), False, None),
    ],
)
@on_each_loop
async def test_only_an_option_that_allows_and_was_offered_is_permission(
    answer: Any, allowed: bool, option: str | None
) -> None:
    """PM-07, PM-08, PM-09, PM-10, PM-11, X8."""
    found: Permission = await outcome(
        lambda session: session.request_permission("Sure?", options=OPTIONS), answer, PERMISSION
    )
    assert (bool(found), found.allowed) == (allowed, allowed)
    assert (found.option.option_id if found.option is not None else None) == option


@on_each_loop
async def test_a_permission_says_what_it_is_about_and_blocks_while_it_waits() -> None:
    """PM-01, PM-02, TC-05, ST-04, ST-05."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        async with session.tool_call("Delete", kind="delete", tool_call_id="c") as call:
            if await session.request_permission("Delete it?", subject=call, description="All of it"):
                await call.start()

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        request = await script.asked(PERMISSION)
        assert request["params"] == {
            "sessionId": session,
            "title": "Delete it?",
            "description": "All of it",
            "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c"}},
            "options": [
                {"optionId": "allow_once", "name": "Allow", "kind": "allow_once"},
                {"optionId": "reject_once", "name": "Reject", "kind": "reject_once"},
            ],
        }
        await script.answer(request, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        await script.idle(session)
        told = [one.get("state", one.get("status")) for one in script.updates(session)[1:]]
        assert told == ["running", "pending", "requires_action", "running", "in_progress", "completed", "idle"]


@on_each_loop
async def test_of_several_questions_the_last_answer_lets_the_work_go_on_and_one_may_block_nothing() -> None:
    """ST-06."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        await session.request_permission("beside", blocks=False)
        await asyncio.gather(session.request_permission("1"), session.request_permission("2"))

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        cancelled = {"outcome": {"outcome": "cancelled"}}
        await script.answer(await script.asked(PERMISSION), cancelled)
        first, second = await script.asked(PERMISSION), await script.asked(PERMISSION)
        await script.answer(second, cancelled)
        await script.expect_nothing()
        await script.answer(first, cancelled)
        await script.idle(session)
        assert script.tags(session) == ["user_message", "running", "requires_action", "running", "idle"]


@pytest.mark.parametrize(
    ("options", "subject", "named"),
    [
        ([OPTIONS[0]] * 2, None, "PM-01"),
        ([], None, "options"),
        (OPTIONS, v2.CommandPermissionSubject(command="make", cwd="src"), "cwd"),
        ([v2.PermissionOption(option_id="x", name="x", kind="maybe")], None, "EX-01"),
    ],
)
@on_each_loop
async def test_a_question_that_a_client_may_refuse_is_not_asked(options: Any, subject: Any, named: str) -> None:
    """PM-01, PM-04, EX-01."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        with pytest.raises(EncodeError, match=named):
            await session.request_permission("x", options=options, subject=subject)

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        assert (await script.idle(session))["stopReason"] == "end_turn"


@pytest.mark.parametrize("ask", ["request_permission", "elicit"])
@on_each_loop
async def test_a_question_that_is_not_awaited_is_no_answer(ask: str) -> None:
    """PM-07, EL-07: as a condition it would always be true."""
    did: list[str] = []

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        for __ in range(2):
            with pytest.raises(UsageError, match=rf"await session.{ask}\(\.\.\.\)"):
                did.append("it") if getattr(session, ask)("Sure?") else None

    async with serving(agent_of(prompt), initialize=FORMS) as script:
        session = await session_of(script)
        await doing(script, session)
        assert (await script.idle(session))["stopReason"] == "end_turn"
        await script.expect_nothing()
        assert not [one for one in script.seen if one.get("method") in {PERMISSION, ELICITATION}]
        assert not did


@on_each_loop
async def test_a_question_is_asked_in_a_task_by_a_timeout_and_by_hand_as_any_coroutine_is() -> None:
    """PM-07, CA-11."""
    found: list[Any] = []

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        question = session.request_permission("task")
        assert asyncio.iscoroutine(question)
        task = asyncio.create_task(question)
        assert "request_permission" in repr(task)
        found.append(await asyncio.wait_for(task, 10))
        try:
            async with asyncio.timeout(0.01):
                await session.request_permission("timeout")
        except TimeoutError:
            found.append("late")
        question = session.request_permission("by hand")
        with pytest.raises(ZeroDivisionError):
            question.throw(ZeroDivisionError())
        session.request_permission("never").close()

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        await script.answer(
            await script.asked(PERMISSION), {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        )
        assert (await script.asked(PERMISSION))["params"]["title"] == "timeout"
        await script.idle(session)
        assert [bool(found[0]), found[1]] == [True, "late"]
        assert len([one for one in script.seen if one.get("method") == PERMISSION]) == 2


@on_each_loop
async def test_a_form_is_about_a_tool_call_that_was_announced_and_runs() -> None:
    """TC-01, TC-09, EL-04."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        call = session.tool_call("x")
        other: Any = "c"
        with pytest.raises(UsageError, match="TC-01"):
            await session.elicit("Who?", tool_call=call)
        async with call:
            await call.complete()
            with pytest.raises(UsageError, match="TC-09"):
                await session.elicit("Who?", tool_call=call)
        with pytest.raises(UsageError, match="tool_call: expected a writer of a tool call, not str"):
            await session.elicit("Who?", tool_call=other)

    async with serving(agent_of(prompt), initialize=FORMS) as script:
        session = await session_of(script)
        await doing(script, session)
        assert (await script.idle(session))["stopReason"] == "end_turn"


# --- cancelled work ---------------------------------------------------------------------------------------------------


@on_each_loop
async def test_every_question_of_cancelled_work_is_cancelled_and_late_answers_are_nothing() -> None:
    """CA-11, ST-19, RC-01, EL-15, S-CA-02, X8."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(session.request_permission("1"))
            group.create_task(session.request_permission("2"))
            group.create_task(session.elicit("3"))

    async with serving(agent_of(prompt), initialize=FORMS) as script:
        session = await session_of(script)
        await doing(script, session)
        requests = [await script.until(lambda one: one.get("method") in {PERMISSION, ELICITATION}) for _ in range(3)]
        await script.tell("session/cancel", sessionId=session)
        assert (await script.idle(session))["stopReason"] == "cancelled"
        taken_back = [one["params"]["requestId"] for one in script.seen if one.get("method") == "$/cancel_request"]
        assert sorted(taken_back) == sorted(request["id"] for request in requests)
        for request in requests:
            await script.answer(request, {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        await script.expect_nothing()
        await doing(script, session)
        assert len([one for one in script.seen if one.get("method") == PERMISSION]) >= 2
        await script.tell("session/cancel", sessionId=session)
        await script.idle(session)


@on_each_loop
async def test_a_question_of_a_tool_call_that_is_cancelled_is_taken_back_alone() -> None:
    """CA-11, TC-19."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        async with session.tool_call("x", tool_call_id="c", can_cancel=True) as call:
            await session.request_permission("Sure?", subject=call)
        await session.notice("after")

    async with serving(agent_of(prompt)) as script:
        session = await session_of(script)
        await doing(script, session)
        request = await script.asked(PERMISSION)
        assert await script.call("tool_call/cancel", sessionId=session, toolCallId="c") == {}
        assert (await script.idle(session))["stopReason"] == "end_turn"
        (taken_back,) = [one["params"] for one in script.seen if one.get("method") == "$/cancel_request"]
        assert taken_back == {"requestId": request["id"]}
        assert script.tags(session)[-4:] == ["running", "tool_call_update", "notice", "idle"]


# --- elicitation ------------------------------------------------------------------------------------------------------

FORM = v2.ElicitationSchema(
    type="object",
    required=["name"],
    properties={
        "name": v2.StringPropertySchema(min_length=1, max_length=3),
        "colour": v2.StringPropertySchema(enum=["red", "green"]),
        "size": v2.StringPropertySchema(one_of=[v2.EnumOption(const="s", title="S")]),
        "age": v2.IntegerPropertySchema(minimum=1),
        "share": v2.NumberPropertySchema(maximum=1),
        "sure": v2.BooleanPropertySchema(),
        "some": v2.MultiSelectPropertySchema(min_items=1, items=v2.StringMultiSelectItems(enum=["a", "b"])),
        "more": v2.MultiSelectPropertySchema(
            items=v2.TitledMultiSelectItems(any_of=[v2.EnumOption(const="c", title="C")])
        ),
        "own": v2.UnknownVariant("_acme", b'{"type":"_acme"}'),
    },
)


@pytest.mark.parametrize(
    ("answer", "accepted", "content"),
    [
        (result({"action": "accept", "content": {"name": "x", "own": [1]}}), True, {"name": "x", "own": [1]}),
        (result({"action": "decline"}), False, {}),
        (result({"action": "cancel"}), False, {}),
        (result({"action": "_acme", "content": {"name": "x"}}), False, {}),
        (result({"action": "future", "content": {"name": "x"}}), False, {}),
        (result({}), False, {}),
        (error(-32602), False, {}),
    ],
)
@on_each_loop
async def test_only_what_the_user_accepted_is_accepted(answer: Any, accepted: bool, content: Any) -> None:
    """EL-06, EL-07, EL-17."""
    found: Elicited = await outcome(lambda session: session.elicit("Who?", FORM), answer, ELICITATION)
    assert (bool(found), found.accepted, found.content) == (accepted, accepted, content)
    assert found.action in {"accept", "decline", "cancel"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({}, "'name' is missing"),
        ({"name": ""}, "name"),
        ({"name": "long"}, "name"),
        ({"name": 5}, "name"),
        ({"name": "x", "colour": "blue"}, "colour"),
        ({"name": "x", "size": "S"}, "size"),
        ({"name": "x", "age": 0}, "age"),
        ({"name": "x", "age": True}, "age"),
        ({"name": "x", "share": 1.5}, "share"),
        ({"name": "x", "sure": "yes"}, "sure"),
        ({"name": "x", "some": []}, "some"),
        ({"name": "x", "some": ["c"]}, "some"),
        ({"name": "x", "some": "a"}, "some"),
        ({"name": "x", "more": ["C"]}, "more"),
    ],
)
def test_a_form_that_was_filled_in_wrong_is_not_accepted_and_says_where(content: Any, problem: str) -> None:
    """EL-08: without repeating the value."""
    found = Elicited.of(v2.ElicitationAcceptAction(content=content), FORM)
    assert not found
    assert len(found.problems) == 1
    assert problem in found.problems[0]


def test_a_form_that_was_filled_in_right_is_accepted() -> None:
    """EL-08, EL-17."""
    content = {
        "name": "x",
        "colour": "red",
        "size": "s",
        "age": 1,
        "share": 1,
        "sure": False,
        "some": ["a"],
        "more": ["c"],
    }
    assert Elicited.of(v2.ElicitationAcceptAction(content=content), FORM)


@pytest.mark.parametrize(
    ("capabilities", "offered"),
    [
        ({}, set[str]()),
        ({"elicitation": {}}, set[str]()),
        ({"elicitation": {"form": {}}}, {"form"}),
        ({"elicitation": {"url": {}, "form": None}}, {"url"}),
        ({"elicitation": {"url": True}}, set[str]()),
    ],
)
@on_each_loop
async def test_what_the_client_does_not_offer_is_not_asked_for(capabilities: Any, offered: set[str]) -> None:
    """EL-01, EL-02, IN-08, IN-12, IN-14."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        for mode, url in (("form", None), ("url", "https://x")):
            assert session.client.supports(f"elicitation.{mode}") == (mode in offered)
            if mode not in offered:
                with pytest.raises(UsageError, match="EL-02"):
                    await session.elicit("x", url=url)

    async with serving(agent_of(prompt), initialize=INITIALIZE | {"capabilities": capabilities}) as script:
        session = await session_of(script)
        await doing(script, session)
        assert (await script.idle(session))["stopReason"] == "end_turn"


@on_each_loop
async def test_a_form_belongs_to_its_session_and_blocks_its_work() -> None:
    """EL-04, EL-14, EL-16."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        async with session.tool_call("x", tool_call_id="c") as call:
            await session.elicit("Who?", tool_call=call)

    async with serving(agent_of(prompt), initialize=FORMS) as script:
        session = await session_of(script)
        await doing(script, session)
        request = await script.asked(ELICITATION)
        assert request["params"] == {
            "mode": "form",
            "message": "Who?",
            "sessionId": session,
            "toolCallId": "c",
            "requestedSchema": {"type": "object", "properties": {}},
        }
        assert script.tags(session)[-1] == "requires_action"
        await script.answer(request, {"action": "decline"})
        await script.idle(session)


@on_each_loop
async def test_an_elicitation_at_a_url_is_completed_once_if_the_user_went_there() -> None:
    """EL-10, EL-11."""

    async def prompt(session: AgentSession, _: UserPrompt) -> None:
        assert await session.elicit("Sign in", url="https://x/1", elicitation_id="one")
        with pytest.raises(UsageError, match="EL-10"):
            await session.elicit("Sign in", url="https://x/1", elicitation_id="one")
        assert not await session.elicit("Sign in", url="https://x/2", elicitation_id="two")
        for elicitation_id in ("one", "one", "two", "three"):
            await session.elicited(elicitation_id)

    async with serving(agent_of(prompt), initialize=FORMS) as script:
        session = await session_of(script)
        await doing(script, session)
        request = await script.asked(ELICITATION)
        assert (request["params"]["url"], request["params"]["elicitationId"]) == ("https://x/1", "one")
        await script.answer(request, {"action": "accept"})
        await script.answer(await script.asked(ELICITATION), {"action": "decline"})
        assert (await script.idle(session))["stopReason"] == "end_turn"
        completed = [one["params"] for one in script.seen if "elicitation/complete" in dumps(one)]
        assert completed == [{"elicitationId": "one"}]
