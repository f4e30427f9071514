"""What grows: appended to for ever, shared with snapshots, never copied."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpwire import v2
from acpwire.transcript import Blocks, Output

IMAGE = v2.ImageContent(data="aGk=", mime_type="image/png")
NOTED = v2.TextContent(text="noted", annotations=v2.Annotations(priority=1))
BLOCKS = st.lists(
    st.one_of(st.text(max_size=5).map(lambda text: v2.TextContent(text=text)), st.sampled_from([IMAGE, NOTED]))
)


def blocks(*content: Any) -> Blocks:
    """Blocks of these texts and blocks."""
    return Blocks(v2.TextContent, [v2.TextContent(text=it) if isinstance(it, str) else it for it in content])


@given(BLOCKS)
def test_blocks_come_back_as_they_were_appended(content: list[Any]) -> None:
    held = blocks(*content)
    assert list(held) == content
    assert held[:] == content
    assert [held[index] for index in range(len(held))] == content
    assert len(held) == len(content)


def test_blocks_are_indexed_as_a_list_is() -> None:
    held = blocks("a", IMAGE, "b")
    assert held[-1] == v2.TextContent(text="b")
    assert held[1:] == [IMAGE, v2.TextContent(text="b")]
    for index in (3, -4):
        with pytest.raises(IndexError):
            held[index]


@given(BLOCKS, BLOCKS)
def test_frozen_blocks_stay_as_they_are(before: list[Any], after: list[Any]) -> None:
    held = blocks(*before)
    frozen = held.frozen()
    for block in after:
        held.append(block)
    assert list(frozen) == before
    assert list(frozen.frozen()) == before
    assert list(held) == before + after
    with pytest.raises(TypeError, match="does not change"):
        frozen.append(IMAGE)


@given(
    st.lists(st.one_of(st.text(max_size=3), st.just(IMAGE))), st.lists(st.one_of(st.text(max_size=3), st.just(IMAGE)))
)
def test_blocks_are_equal_when_they_are_with_adjacent_plain_text_joined(first: list[Any], second: list[Any]) -> None:
    def joined(content: list[Any]) -> list[Any]:
        found: list[Any] = []
        for item in content:
            if isinstance(item, str) and found and isinstance(found[-1], str):
                found[-1] += item
            else:
                found.append(item)
        return [item for item in found if item != ""]

    assert (blocks(*first) == blocks(*second)) == (joined(first) == joined(second))


def test_blocks_equal_no_list_and_have_no_hash() -> None:
    assert blocks("a") != [v2.TextContent(text="a")]
    with pytest.raises(TypeError):
        hash(blocks("a"))
    assert repr(blocks("a")) == "Blocks([TextContent(text='a')])"


def test_text_with_annotations_is_joined_in_text_but_not_in_blocks() -> None:
    held = blocks("a", NOTED, "b", "c", IMAGE)
    assert held.text == "anotedbc"
    assert held.joined() == [*blocks("a", NOTED, "bc", IMAGE)]


@given(st.lists(st.text(max_size=5)), st.integers(1, 6))
def test_pieces_of_joined_text_are_the_whole_and_not_much_longer_than_asked(texts: list[str], piece: int) -> None:
    pieces = [block.text for block in blocks(*texts).joined(piece)]
    assert "".join(pieces) == "".join(texts)
    assert all(len(text) < piece + 5 for text in pieces)


def test_halves_of_a_character_in_two_chunks_are_whole_again_and_no_piece_ends_between_them() -> None:
    held = blocks("a\ud83d", "\ude00b")
    assert held.text == "a😀b"
    assert [block.text for block in held.joined(1)] == ["a😀b"]


@given(st.lists(st.binary(max_size=4)), st.lists(st.binary(max_size=4)))
def test_frozen_output_stays_as_it_is(before: list[bytes], after: list[bytes]) -> None:
    held = Output()
    for data in before:
        held.append(data)
    frozen = held.frozen()
    for data in after:
        held.append(data)
    assert bytes(frozen) == b"".join(before)
    assert bytes(held) == b"".join(before + after)
    assert len(held) == len(bytes(held))
    assert (held == frozen) == (not any(after))
    with pytest.raises(TypeError, match="does not change"):
        frozen.append(b"x")


def test_output_equals_no_bytes_and_has_no_hash() -> None:
    assert Output(b"x") != b"x"
    with pytest.raises(TypeError):
        hash(Output())
    assert repr(Output(b"x")) == "Output(b'x')"


def test_output_with_another_meta_is_another() -> None:  # TM-09
    noted = Output(b"x", {"k": 1})
    assert noted == Output(b"x", {"k": 1})
    assert noted != Output(b"x")
    assert (noted.meta, repr(noted)) == ({"k": 1}, "Output(b'x', {'k': 1})")


def test_bytes_that_are_no_utf8_are_shown_as_replaced() -> None:
    assert Output(b"a\xffb").text == "a\ufffdb"
