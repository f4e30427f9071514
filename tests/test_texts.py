"""Notifications whose texts wait together leave as they would alone, in their order, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from acpwire import v2
from acpwire.connection import ALIKE as AFTER
from acpwire.connection import Connection
from acpwire.errors import EncodeError
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


@pytest.mark.parametrize("is_tapped", [False, True])
@given(runs=st.lists(ALIKE | OTHERS, max_size=6), data=st.data())
def test_notifications_leave_as_they_would_alone_whatever_is_between_them(
    is_tapped: bool, runs: list[list[Any]], data: st.DataObject
) -> None:
    """TR-01, TR-14; and the size that is told is that of what leaves, but for short texts."""
    shown: list[bytes] = []

    def tap(_: str, line: bytes) -> None:
        shown.append(line)

    end = connection(tap=tap if is_tapped else None)
    left, expected = bytearray(), bytearray()
    for params in (params for run in runs for params in run):
        told = end.notify(UPDATE, params)
        expected += UPDATE.notification(params)
        match data.draw(st.sampled_from(["", "", "", "look", "take", "line", "later", "bad"])):
            case "look":
                assert told <= end.unsent <= told + 6 * (SHORT + 1) * len(expected)
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
        end.notify(UPDATE, chunk("a", "s", "m"))
    names: list[Any] = [Name("s"), 1, True, 1.0, [], Raw(b'"s"')]
    for name in names:
        params = chunk("b", session=name)
        try:
            alone = UPDATE.notification(params)
        except EncodeError:
            with pytest.raises(EncodeError):
                end.notify(UPDATE, params)
        else:
            end.take()
            end.notify(UPDATE, params)
            assert end.take() == alone


def test_what_a_tap_sends_while_texts_wait_is_sent_too() -> None:
    """TR-14: it may be gathered like all else, and comes after what the tap was shown."""
    seen: list[bytes] = []

    def tap(_: str, line: bytes) -> None:
        seen.append(line)
        if b'"log"' not in line and len(seen) < 100:
            end.notify(UPDATE, chunk(str(len(seen)), message="log"))
            if len(seen) % 3 == 0:
                end.send_later(follow)

    end, left = connection(tap=tap), bytearray()
    for number in range(30):
        for message in ("m", "m", "n"):
            end.notify(UPDATE, chunk(f"{number}", message=message))
        if number % 5 == 0:
            end.send_later(follow)
        if number % 7 == 0:
            left += end.take()
    while end.unsent:
        left += end.take()
    assert left == b"".join(seen)
    assert left.count(b'"log"') >= 30


def test_params_with_anything_but_strings_have_no_usual_text() -> None:
    usual = USUAL_TEXTS[v2.UpdateSessionNotification]
    assert usual is not None
    assert usual.others(chunk("a", "s", "m")) == ("s", "m")
    assert usual.with_others("s", "m")(chunk("a", "s", "m")) == "a"
    assert usual.with_others("s", "n")(chunk("a", "s", "m")) is None
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
        assert usual.with_others("s", "m")(other) is None
    assert USUAL_TEXTS[v2.CancelSessionNotification] is None


def test_what_breaks_a_line_in_the_place_of_a_string_does_not_where_texts_wait() -> None:
    """Type checkers refuse it, and a line is a line all the same."""
    bad: Any = Raw(b'"m"\n')
    texts = Texts(UPDATE, chunk(HOLE, message=bad))
    texts.texts += ["a", "b"]
    lines = bytearray()
    texts.append_to(lines)
    assert [json.loads(line)["params"]["update"]["content"]["text"] for line in lines.splitlines()] == ["a", "b"]
