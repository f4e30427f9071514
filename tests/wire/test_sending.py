"""What binds a sender beyond the types: each kind of rule, where it is told, and that nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from acpwire import v2
from acpwire.wire.sending import KINDS
from acpwire.wire.v2.unions import VALUES
from tests.models.strategies import instances, samples

TEXT = v2.TextContent(text="hi")
GOOD = v2.Icon(src="https://x.org/i.png")


def told(value: Any) -> list[tuple[str, str]]:
    """(path, requirement) of all that is wrong."""
    return [(violation.path, violation.requirement) for violation in v2.validate(value)]


def select(current: str = "a", *values: str) -> v2.SessionConfigSelect:
    """A choice among `values`, `a` and `b` without any."""
    options = [v2.SessionConfigSelectOption(value=value, name=value) for value in values or ("a", "b")]
    return v2.SessionConfigSelect(config_id="c", name="C", current_value=current, options=options)


VIOLATIONS: list[tuple[str, Any, list[tuple[str, str]]]] = [
    ("absolute", v2.TerminalUpdate(terminal_id="t", cwd="here"), [("$.cwd", "DF-03")]),
    ("absolute", v2.ToolCallLocation(path="a/b"), [("$.path", "DF-03")]),
    ("absolute", v2.ToolCallLocation(path=""), [("$.path", "DF-03")]),
    ("among", select("z"), [("$.currentValue", "CO-02")]),
    ("at_most", v2.UsageUpdate(used=2**64, size=1), [("$.used", "US-02")]),
    ("only_with", v2.CompactionUpdate(compaction_id="c", status="failed", summary=[TEXT]), [("$.summary", "CP-14")]),
    ("only_with", v2.CompactionUpdate(compaction_id="c", status="completed", error="no"), [("$.error", "CP-14")]),
    ("open", v2.ToolCallUpdate(tool_call_id="t", kind="paint"), [("$.kind", "EX-01")]),
    ("open", v2.StateUpdate(state="idle", stop_reason="tired"), [("$.stopReason", "EX-01")]),
    ("unique", select("a", "a", "b", "a"), [("$.options[2].value", "CO-02")]),
    ("uri", v2.PlanFile(plan_id="p", uri="plan.md"), [("$.uri", "PN-06")]),
    ("uri", v2.Icon(src="javascript:1"), [("$.src", "CT-04")]),
    ("uri", v2.Icon(src="http://x.org/i.png"), [("$.src", "CT-04")]),
    ("uri", v2.Icon(src="file:///i.png"), [("$.src", "CT-04")]),
    ("uri", v2.Icon(src="data"), [("$.src", "CT-04")]),
    ("uri", v2.Icon(src=""), [("$.src", "CT-04")]),
    ("uri", v2.ResourceLink(name="r", uri="x:y", icons=[GOOD, v2.Icon(src="i.png")]), [("$.icons[1].src", "CT-04")]),
    ("word", v2.Command(name="/go", description="x"), [("$.name", "CM-02")]),
    ("word", v2.Command(name="go on", description="x"), [("$.name", "CM-02")]),
]


@pytest.mark.parametrize(("kind", "value", "expected"), VIOLATIONS)
def test_what_a_peer_may_refuse_is_told_with_its_place_and_requirement(
    kind: str, value: Any, expected: list[tuple[str, str]]
) -> None:
    assert kind in KINDS
    assert told(value) == expected


def test_an_icon_is_refused_with_the_schemes_that_a_client_may_fetch() -> None:
    """CT-04."""
    (violation,) = v2.validate(v2.Icon(src="javascript:1"))
    assert violation.message == "'javascript:1' is no URI of `https:` or `data:`"


def test_every_kind_of_rule_is_tested() -> None:
    assert {kind for kind, _, _ in VIOLATIONS} == set(KINDS)


@pytest.mark.parametrize(
    "value",
    [
        v2.TerminalUpdate(terminal_id="t", cwd="/here"),
        v2.TerminalUpdate(terminal_id="t", cwd="C:\\here"),
        v2.TerminalUpdate(terminal_id="t", cwd="\\\\host\\share"),
        v2.TerminalUpdate(terminal_id="t", cwd=None),
        select("b"),
        v2.UsageUpdate(used=2**64 - 1, size=1),
        v2.CompactionUpdate(compaction_id="c", status="completed", summary=[TEXT]),
        v2.CompactionUpdate(compaction_id="c", status="in_progress", summary=[]),
        v2.ToolCallUpdate(tool_call_id="t", kind="_paint", status="completed"),
        v2.PlanFile(plan_id="p", uri="file:///plan.md"),
        GOOD,
        v2.Icon(src="DATA:image/png;base64,aGk="),
        v2.Command(name="go-on", description="x"),
        v2.UnknownVariant("_mine", b"{}"),
        None,
        5,
        "text",
    ],
)
def test_what_no_peer_refuses_is_not_told(value: Any) -> None:
    assert told(value) == []


def test_bounds_of_the_schema_come_first_and_alone() -> None:
    """A value that is built is not checked by Python."""
    value: Any = v2.TerminalUpdate(terminal_id=5, cwd="here")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # what is tested
    (violation,) = v2.validate(value)
    assert (violation.path, violation.requirement) == ("$.terminalId", "schema")
    assert v2.validate(v2.PromptRequest(session_id="s", prompt=[]))[0].path == "$.prompt"  # PL-05


def test_custom_tags_begin_with_an_underscore() -> None:  # EX-01
    message = v2.AgentMessageChunk(message_id="m", content=v2.UnknownVariant("hologram", b'{"type":"hologram"}'))
    assert told(message) == [("$.content", "EX-01")]


LOG = v2.UnknownVariant("log", b'{"type":"log"}')
ODD = b'{"sessionUpdate":"state_update","state":"odd"}'
CHUNK = v2.AgentMessageChunk(message_id="m", content=v2.UnknownVariant("hologram", b'{"type":"hologram"}'))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            v2.ToolCallUpdate(tool_call_id="t", kind="exec"),
            f"'exec' is none of {', '.join(VALUES['ToolKind'])}, and custom values begin with '_'",
        ),
        (
            v2.StateUpdate(state="idle", stop_reason="done"),
            f"'done' is none of {', '.join(VALUES['StopReason'])}, and custom values begin with '_'",
        ),
        (
            v2.Notice(severity="fatal", title="t"),
            "'fatal' is none of info, warning, error, and custom values begin with '_'",
        ),
        (CHUNK, "'hologram' is none of text, image, audio, resource_link, resource, and custom tags begin with '_'"),
        (
            v2.ToolCallUpdate(tool_call_id="t", content=[v2.Content(content=TEXT), LOG]),
            "'log' is none of content, diff, terminal, and custom tags begin with '_'",
        ),
        (LOG, "'log' is reserved for the protocol: custom tags begin with '_'"),
        (
            v2.UpdateSessionNotification(session_id="s", update=v2.UnknownVariant("state_update", ODD)),
            "'state_update' is reserved for the protocol: custom tags begin with '_'",
        ),
    ],
)
def test_a_value_or_tag_that_is_not_known_is_told_with_those_that_are(value: Any, message: str) -> None:  # EX-01
    assert [(violation.message, violation.requirement) for violation in v2.validate(value)] == [(message, "EX-01")]


WRAPPED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda params: v2.Request(id=1, method="session/prompt", params=params), "$.params"),
    (lambda params: v2.Notification(method="_x", params=params), "$.params"),
    (lambda params: v2.Response(id=1, result=params), "$.result"),
    (lambda params: [None, params], "$[1]"),
    (lambda params: (params,), "$[0]"),
]


@pytest.mark.parametrize(("wrap", "path"), WRAPPED)
def test_messages_and_lists_are_looked_into(wrap: Any, path: str) -> None:
    assert told(wrap(v2.PromptRequest(session_id="s", prompt=[]))) == [(f"{path}.prompt", "schema")]
    assert told(wrap(v2.ToolCallLocation(path="a"))) == [(f"{path}.path", "DF-03")]
    assert told(wrap(v2.PromptRequest(session_id="s", prompt=[TEXT]))) == []


def test_what_json_cannot_say_is_told_and_not_raised() -> None:
    assert told(v2.ToolCallUpdate(tool_call_id="t", raw_input=float("nan"))) == [("$", "schema")]
    assert told(v2.ToolCallUpdate(tool_call_id="t", raw_input=object())) == [("$", "schema")]


@pytest.mark.parametrize("name", ["SessionUpdate", "PromptRequest", "NewSessionResponse", "RequestPermissionRequest"])
def test_no_value_of_the_schema_is_said_to_break_its_bounds(name: str) -> None:
    for value in samples(instances(name), 100):
        assert all(violation.requirement != "schema" for violation in v2.validate(value))
