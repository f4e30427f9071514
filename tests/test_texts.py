"""Notifications whose texts wait together leave as they would alone, in their order, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from acpwire import v2
from acpwire.connection import ALIKE as AFTER
from acpwire.connection import Connection
from acpwire.errors import ConnectionClosed, EncodeError
from acpwire.texts import HOLE, SHORT, USUAL_TEXTS, Texts

UPDATE = v2.SESSION_UPDATE
Sent = Callable[[Connection], Any]


def chunk(text: str, session: str = "s", message: str = "m", kind: Any = v2.AgentMessageChunk, **more: Any) -> Any:
    """The params of a chunk of text."""
    update = kind(message_id=message, content=v2.TextContent(text=text))
    return v2.UpdateSessionNotification(session_id=session, update=update, **more)


def follow(lines: bytearray) -> None:
    """Stands for what is made when it is due."""
    lines += b"[]\n"


def connection(**more: Any) -> Connection:
    """An agent's end."""
    return Connection("agent", v2.decode_from_client, v2.METHODS, **more)


def notified(end: Connection, params: Any) -> int:
    """Send an update as a peer does: where texts wait, by adding one if it can be; return how many bytes wait."""
    added = 0 if end.alike is None else end.alike(UPDATE, params)
    return added or end.notify(UPDATE, params)


def notified_anew(end: Connection, params: Any) -> int:
    """Send an update without a look at what waits."""
    return end.notify(UPDATE, params)


def alike(texts: list[str], session: str, message: str, kind: Any) -> list[Any]:
    """Chunks that differ in their text alone."""
    return [chunk(text, session, message, kind) for text in texts]


def image(session: str) -> Any:
    """The params of a chunk that is no text."""
    update = v2.AgentMessageChunk(message_id="a", content=v2.ImageContent(data="", mime_type="a/b"))
    return v2.UpdateSessionNotification(session_id=session, update=update)


TEXTS = st.text(max_size=3) | st.sampled_from(["", "\ud83d", "\n", "é" * SHORT, "x" * (SHORT + 1), HOLE, "{}"])
NAMES = st.sampled_from(["a", "b", HOLE, '"\n', "\ud83d"])
KINDS = st.sampled_from([v2.AgentMessageChunk, v2.AgentThoughtChunk])
ALIKE = st.builds(alike, st.lists(TEXTS, max_size=6), NAMES, NAMES, KINDS)
OTHERS = st.lists(
    st.builds(chunk, TEXTS, meta=st.sampled_from([None, {}, {"a": Raw(b"[\n]")}]))
    | st.builds(image, NAMES)
    | st.just(v2.UpdateSessionNotification(session_id="a", update=v2.StateUpdate(state="running")))
    | st.just(v2.UpdateSessionNotification(session_id="a", update=v2.UnknownVariant("_x", b'{"a":\n1}'))),
    max_size=2,
)


@pytest.mark.parametrize("notify", [notified, notified_anew])
@pytest.mark.parametrize("is_tapped", [False, True])
@given(runs=st.lists(ALIKE | OTHERS, max_size=6), data=st.data())
def test_notifications_leave_as_they_would_alone_whatever_is_between_them(
    is_tapped: bool, notify: Callable[[Connection, Any], int], runs: list[list[Any]], data: st.DataObject
) -> None:
    """TR-01, TR-14; and the size that is told is that of what leaves, but for short texts."""
    shown: list[bytes] = []

    def tap(_: str, line: bytes) -> None:
        shown.append(line)

    end = connection(tap=tap if is_tapped else None)
    left, expected = bytearray(), bytearray()
    for params in (params for run in runs for params in run):
        told = notify(end, params)
        expected += UPDATE.notification(params)
        match data.draw(st.sampled_from(["", "", "", "look", "take", "line", "later", "bad"])):
            case "look":
                assert told <= end.unsent
                assert notify is notified or end.unsent <= told + 6 * (SHORT + 1) * len(expected)
            case "take":
                left += end.take()
            case "line":
                end.send_line(b"{}\n")
                expected += b"{}\n"
            case "later":
                end.send_later(follow)
                expected += b"[]\n"
            case "bad":
                with pytest.raises(EncodeError):
                    end.notify(UPDATE, replace(params, meta={"a": float("nan")}))
            case _:
                pass
    left += end.take()
    assert left == expected
    assert not is_tapped or b"".join(shown) == expected


def test_nothing_is_added_to_what_waits_once_a_connection_is_closed() -> None:
    end = connection()
    for _ in range(AFTER + 2):
        end.notify(UPDATE, chunk("a"))
    assert end.alike is not None
    end.close(ConnectionClosed("over"))
    with pytest.raises(ConnectionClosed):
        notified(end, chunk("a"))


def test_no_texts_are_no_lines() -> None:
    lines = bytearray()
    Texts(UPDATE, chunk(HOLE)).append_to(lines)
    assert not lines


def test_texts_wait_after_some_notifications_that_differ_in_nothing_else() -> None:
    end = connection()
    line = len(UPDATE.notification(chunk("a")))
    sizes = [end.notify(UPDATE, chunk("a")) for _ in range(AFTER + 2)]
    assert sizes[:AFTER] == [line * number for number in range(1, AFTER + 1)]
    assert sizes[AFTER:] == [line * AFTER + line - 3, line * AFTER + 2 * (line - 3)]
    assert end.unsent == len(sizes) * line


def test_what_is_equal_and_no_string_is_not_taken_for_one() -> None:
    """No type checker lets it pass; it is refused or sent as it would be alone."""

    class Name(str):
        __slots__ = ()

    end = connection()
    for _ in range(AFTER + 2):
        notified(end, chunk("a", "s", "m"))
    names: list[Any] = [Name("s"), 1, True, 1.0, [], Raw(b'"s"')]
    for name in names:
        params = chunk("b", session=name)
        try:
            alone = UPDATE.notification(params)
        except EncodeError:
            with pytest.raises(EncodeError):
                notified(end, params)
        else:
            end.take()
            notified(end, chunk("a", "s", "m"))
            notified(end, params)
            assert end.take() == UPDATE.notification(chunk("a", "s", "m")) + alone


@given(
    turns=st.lists(st.tuples(st.sampled_from(["m", "m", "m", "n", "later", "line", "take"]), st.integers(1, 6))),
    answers=st.lists(st.sampled_from(["", "", "", "log", "log", "m", "later", "line", "unsent"]), max_size=40),
)
@example(turns=[("m", 4), ("later", 1), ("m", 2)], answers=["line", "", "", "", ""])
def test_what_a_tap_sends_while_texts_wait_is_sent_too(turns: list[tuple[str, int]], answers: list[str]) -> None:
    """TR-14: it may be gathered like all else, and comes after what the tap was shown."""
    seen: list[bytes] = []
    sent = 0

    def send(what: str) -> None:
        nonlocal sent
        sent += what not in {"take", "unsent", ""}
        match what:
            case "later":
                end.send_later(follow)
            case "line":
                end.send_line(b"{}\n")
            case "take":
                left.extend(end.take())
            case "unsent":
                assert end.unsent >= 0
            case "":
                pass
            case message:
                notified(end, chunk("x", message=message))

    def tap(_: str, line: bytes) -> None:
        seen.append(line)
        if answers:
            send(answers.pop())

    end, left = connection(tap=tap), bytearray()
    for what, times in turns:
        for _ in range(times):
            send(what)
    while end.unsent:
        left += end.take()
    assert left == b"".join(seen)
    assert left.count(b"\n") == sent


def test_params_with_anything_but_strings_have_no_usual_text() -> None:
    usual = USUAL_TEXTS[v2.UpdateSessionNotification]
    assert usual is not None
    assert usual.others(chunk("a", "s", "m")) == ("s", "m")
    texts = Texts(UPDATE, chunk(HOLE, "s", "m"))
    assert usual.adder(texts, "s", "m")(UPDATE, chunk("a", "s", "m")) == texts.each
    assert usual.adder(texts, "s", "m")(UPDATE, chunk("b", "s", "m")) == texts.each * 2
    assert not usual.adder(texts, "s", "n")(UPDATE, chunk("a", "s", "m"))
    assert not usual.adder(texts, "s", "m")(v2.SESSION_CANCEL, chunk("a", "s", "m"))
    assert texts.texts == ["a", "b"]
    assert usual.with_text(chunk("a"), "b") == chunk("b")
    marked = v2.TextContent(text="a", annotations=v2.Annotations(priority=1.0))
    for other in (
        chunk("a", meta={}),
        replace(chunk("a"), update=replace(chunk("a").update, meta={})),
        replace(chunk("a"), update=replace(chunk("a").update, content=marked)),
        chunk("a", kind=v2.AgentThoughtChunk),
        chunk("x" * (SHORT + 1)),
        image("s"),
    ):
        assert usual.others(other) is None
        assert not usual.adder(texts, "s", "m")(UPDATE, other)
    assert USUAL_TEXTS[v2.CancelSessionNotification] is None


def test_what_breaks_a_line_in_the_place_of_a_string_does_not_where_texts_wait() -> None:
    """Type checkers refuse it, and a line is a line all the same."""
    bad: Any = Raw(b'"m"\n')
    texts = Texts(UPDATE, chunk(HOLE, message=bad))
    texts.texts += ["a", "b"]
    lines = bytearray()
    texts.append_to(lines)
    assert [json.loads(line)["params"]["update"]["content"]["text"] for line in lines.splitlines()] == ["a", "b"]
