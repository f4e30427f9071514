"""Compressed files: what was flushed can be read back, however the file was cut, damaged or continued after a crash.

The laws are tried for every ending and, where several libraries serve one, with each of them alone.
"""

from __future__ import annotations

import gc
import gzip
import hashlib
import importlib
import io
import itertools
import os
import sys
import tempfile
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acpwire import compression
from acpwire.compression import Damage, blocks_of, open_to_append, read_path, unpack

ZSTD = ("compression.zstd", "backports.zstd", "zstandard")
PACKED = (".gz", *(f"{name} .zst" for name in ZSTD))
MAGIC = {".gz": b"\x1f\x8b\x08", ".zst": b"\x28\xb5\x2f\xfd"}


def only_zstd(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    """Leave one of the libraries, or none."""
    for other in ZSTD:
        if other != name:
            monkeypatch.setitem(sys.modules, other, None)


def with_library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The ending of a file, with no zstd library but the one that the parameter names."""
    library, _, ending = str(request.param).rpartition(" ")
    if library:
        # before Python 3.14 its backport, which is the same code, stands in for the standard library
        real = "backports.zstd" if library == "compression.zstd" and sys.version_info < (3, 14) else library
        module = pytest.importorskip(real, reason=f"reading and writing zstd by {library} needs the package {real}")
        monkeypatch.setitem(sys.modules, library, module)
        only_zstd(monkeypatch, library)
    return ending


@pytest.fixture(params=("", *PACKED))
def ending(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every kind of file."""
    return with_library(request, monkeypatch)


@pytest.fixture(params=PACKED)
def packed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every kind of compressed file."""
    return with_library(request, monkeypatch)


def append(path: Path, pieces: Iterable[bytes], *, crash: bool = False) -> list[int]:
    """Write pieces, each flushed; how big the file was after each. A crash leaves it without its end."""
    sizes: list[int] = []
    file = open_to_append(path)
    for piece in pieces:
        file.write(piece)
        file.flush()
        sizes.append(path.stat().st_size)
    left = path.read_bytes()
    file.close()
    if crash:
        path.write_bytes(left)
    return sizes


def read(path: Path) -> tuple[bytes, list[str]]:
    """All that is in a file, and what is said of its damage."""
    found = list(read_path(path))
    said = [one.reason for one in found if isinstance(one, Damage)]
    return b"".join(one for one in found if isinstance(one, bytes)), said


def noise(size: int) -> bytes:
    """Bytes that do not compress, the same each time."""
    return hashlib.shake_256(b"%d" % size).digest(size)


# --- writing and reading ---------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.binary(), max_size=4), max_size=3))
@settings(max_examples=60, deadline=None)
def check_round_trip(ending: str, members: list[list[bytes]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"it{ending}"
        path.write_bytes(b"")
        for pieces in members:
            append(path, pieces)
        assert read(path) == (b"".join(itertools.chain(*members)), [])


def test_what_is_appended_is_read_back(ending: str) -> None:
    check_round_trip(ending)


def test_other_programs_read_what_is_written(packed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"it{packed}"
    append(path, [b"one", noise(3000)])
    if packed == ".gz":
        assert gzip.decompress(path.read_bytes()) == b"one" + noise(3000)
        return
    monkeypatch.undo()  # the other libraries are back
    for name in ("backports.zstd", "zstandard"):
        module = pytest.importorskip(name, reason="one library reads what another one wrote")
        with module.open(path, "rb") as file:
            assert file.read() == b"one" + noise(3000)


def test_the_case_of_an_ending_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "it.GZ"
    path.write_bytes(gzip.compress(b"one") + gzip.compress(b"two"))
    assert read(path) == (b"onetwo", [])


def test_any_other_file_is_as_it_is(tmp_path: Path) -> None:
    for name in ("it", "it.gz.txt", "gz", ".gz"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(b"one"))
        assert read(path) == (gzip.compress(b"one"), [])


def test_nothing_may_be_written_after_the_end(ending: str, tmp_path: Path) -> None:
    file = open_to_append(tmp_path / f"it{ending}")
    file.close()
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.write(b"late")


def test_without_zstd_the_error_names_what_to_install_and_no_file_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_zstd(monkeypatch, None)
    path = tmp_path / "it.zst"
    for attempt in (open_to_append, read_path):
        with pytest.raises(ImportError, match=r"backports\.zstd or zstandard"):
            attempt(path)
    assert not path.exists()


# --- crashes and damage ----------------------------------------------------------------------------------------------

PIECES = [b"%d %s" % (size, noise(size * 3).hex().encode()) for size in range(12)]


def test_whatever_was_flushed_is_in_a_file_that_a_crash_left(packed: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{packed}"
    append(path, PIECES, crash=True)
    data, (said,) = read(path)
    assert data == b"".join(PIECES)
    assert said.endswith("data ends early")


def test_a_file_cut_anywhere_keeps_every_piece_before_and_says_that_it_ends_early(packed: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{packed}"
    sizes = append(path, PIECES, crash=True)
    whole = path.read_bytes()
    assert sizes[-1] == len(whole)
    for cut in range(1, len(whole)):
        path.write_bytes(whole[:cut])
        data, said = read(path)
        kept = sum(size <= cut for size in sizes)
        assert b"".join(PIECES[: kept + 1]).startswith(data)
        assert data.startswith(b"".join(PIECES[:kept]))
        assert [one.endswith("data ends early") for one in said] == [True]


def test_what_is_appended_after_a_crash_is_read_wherever_it_came(packed: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{packed}"
    sizes = append(path, PIECES, crash=True)
    whole = path.read_bytes()
    for cut in range(sizes[3], sizes[6]):
        path.write_bytes(whole[:cut])
        append(path, [noise(100), b"after"])
        data, said = read(path)
        assert data.startswith(b"".join(piece for piece, size in zip(PIECES, sizes, strict=True) if size <= cut))
        assert data.endswith(noise(100) + b"after")
        # a frame has no checksum: where the next one's header is as long as what is missing, it fills the gap
        assert len(said) == 1 or (packed == ".zst" and not said)


def test_what_is_appended_after_a_crash_within_much_data_is_read(packed: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{packed}"
    append(path, [b"before", noise(100_000)], crash=True)
    whole = path.read_bytes()
    for cut in range(100, len(whole), len(whole) // 9):
        for after in ([b"after"], [noise(300)] * 900):
            path.write_bytes(whole[:cut])
            append(path, after)
            data, said = read(path)
            assert data.startswith(b"before")
            assert data.endswith(b"".join(after))
            assert len(said) == 1


def test_what_follows_damage_is_read(packed: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{packed}"
    append(path, [noise(5000)])  # as it is in a frame, which has no checksum, so that damage within it is not seen
    broken = bytearray(path.read_bytes())
    for place in (0, 2, 40, 2000, len(broken) - 3):
        path.write_bytes(broken[:place] + b"\xff\xfe\xfd" + broken[place + 3 :])
        append(path, [b"found"])
        data, said = read(path)
        assert data.endswith(b"found")
        assert [one.endswith("data is damaged") for one in said] == [True] or (packed == ".zst" and not said)


def test_a_file_that_is_not_what_its_ending_says_is_damaged(packed: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{packed}"
    path.write_bytes(b"plain text " * 1000)
    data, (said,) = read(path)
    assert data == b""
    assert said == f"The {'gzip' if packed == '.gz' else 'zstd'} data is damaged"


@given(st.integers(0, 2000), st.integers(0, 9), st.binary(max_size=9))
@settings(max_examples=80, deadline=None)
def check_damage(ending: str, place: int, length: int, put: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"it{ending}"
        append(path, PIECES)
        spoiled = bytearray(path.read_bytes())
        spoiled[place : place + length] = put
        path.write_bytes(spoiled)
        read(path)


def test_no_damage_makes_reading_raise(packed: str) -> None:
    check_damage(packed)


def test_no_bytes_make_reading_raise(packed: str) -> None:
    @given(st.lists(st.one_of(st.binary(max_size=40), st.just(MAGIC[packed]))).map(b"".join))
    @example(MAGIC[packed][:2])
    @settings(max_examples=100)
    def check(data: bytes) -> None:
        found = list(unpack([data], f"it{packed}"))
        assert bool(data) == any(isinstance(one, Damage) for one in found)

    check()


# --- blocks ----------------------------------------------------------------------------------------------------------


def in_blocks(data: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    file = io.BytesIO(data)
    for size in itertools.cycle(sizes):
        block = file.read(size)
        if not block:
            return
        yield block


def test_it_does_not_matter_where_blocks_are_cut(packed: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{packed}"
    append(path, PIECES)
    append(path, PIECES, crash=True)
    append(path, PIECES)
    data = path.read_bytes()
    for sizes in ([1], [2], [3, 1], [7], [1023, 2], [len(data)]):
        found = list(unpack(in_blocks(data, sizes), path))
        assert b"".join(one for one in found if isinstance(one, bytes)) == b"".join(PIECES) * 3
        assert len([one for one in found if isinstance(one, Damage)]) == 1


def test_what_was_flushed_comes_before_more_is_read(packed: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{packed}"
    file = open_to_append(path)
    done = 0

    def growing() -> Iterator[bytes]:
        nonlocal done
        for piece in PIECES:
            file.write(piece)
            file.flush()
            data = path.read_bytes()[done:]
            done += len(data)
            yield data

    found = unpack(growing(), path)
    got = b""
    for last in itertools.accumulate(PIECES):
        while got != last:
            block = next(found)
            assert isinstance(block, bytes)
            got += block
    file.close()


def test_a_small_file_that_unpacks_to_a_big_one_comes_in_pieces(packed: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{packed}"
    file = open_to_append(path)
    for _ in range(192):
        file.write(b"x" * 2**20)
    file.close()
    tracemalloc.start()
    try:
        total = sum(len(block) for block in read_path(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == 192 * 2**20
    assert peak < 128 * 2**20


def test_a_path_that_cannot_be_read_raises_at_once(ending: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_path(tmp_path / f"none{ending}")


def test_a_file_is_closed_when_its_blocks_are_dropped(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{ending}"
    append(path, [noise(200_000)])
    begun = read_path(path)
    assert next(begun)
    del begun
    read_path(path)
    gc.collect()  # a file left open would warn, and warnings are errors


def test_a_file_object_stays_open_and_is_read_from_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"skipped\nrest")
    with path.open("rb") as file:
        file.readline()
        assert b"".join(blocks_of(file)) == b"rest"
        assert not file.closed


def test_a_block_is_there_before_it_is_full() -> None:
    for buffering in (0, -1):
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb", buffering) as file, os.fdopen(writing, "wb", 0) as other:
            blocks = blocks_of(file)
            for piece in (b"one", b"two"):
                other.write(piece)
                assert next(blocks) == piece
            other.close()
            assert list(blocks) == []


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_pipe_that_does_not_wait_is_refused_instead_of_read_by_half(buffering: int) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb", buffering) as file, os.fdopen(writing, "wb", 0) as other:
        other.write(b"one")
        blocks = blocks_of(file)
        assert next(blocks) == b"one"
        with pytest.raises(BlockingIOError):
            next(blocks)


def test_any_object_with_read_is_a_file() -> None:
    class Minimal:
        def __init__(self) -> None:
            self.asked: list[int] = []

        def read(self, size: int) -> bytes:
            self.asked.append(size)
            return b"" if len(self.asked) > 2 else b"x"

    file = Minimal()
    assert list(blocks_of(file)) == [b"x", b"x"]
    assert file.asked == [compression.BLOCK] * 3


def test_libraries_for_zstd_are_tried_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "it.zst"
    append(path, [b"one"])
    first = "backports.zstd" if sys.version_info < (3, 14) else "compression.zstd"  # there is one or the other
    for name in (first, "zstandard"):
        importlib.import_module(name)
        assert read(path) == (b"one", [])
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError):
        read_path(path)
