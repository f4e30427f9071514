"""Files that may be compressed, told by their ending: `.gz`, `.zst`, and any other, which is as it is.

Owns: which endings there are and which libraries serve them, reading in blocks, appending, and what it means that
compressed data is damaged or ends early. Does not know: lines, captures, or what the bytes say.

A compressed file is members one after the other. Whoever appends adds one, also behind one that a crash left without
its end; after damage, reading goes on with the next member that can be found.
"""

from __future__ import annotations

import gzip
import importlib
import os
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

AnyPath: TypeAlias = "str | os.PathLike[str]"

BLOCK = 65536
PIECE = 1024
"""How much is decompressed at a time: no more than 32 MiB can come of it, whoever made the file."""
KEPT = 1024
"""How many pieces are kept, more than a block of compressed data usually has."""


class Damage(NamedTuple):
    """Stands between blocks, where data is missing, and says why."""

    reason: str


class BinaryFile(Protocol):
    """A file opened for reading bytes. `read1`, where it has one, is preferred: it does not wait for a whole block."""

    def read(self, size: int, /) -> bytes | None:
        """At most `size` bytes, none at the end."""
        ...


class Appended(Protocol):
    """A file opened for appending. After `flush`, what was written can be read back, whatever happens."""

    def write(self, data: bytes, /) -> object:
        """Compress and keep."""
        ...

    def flush(self) -> object:
        """Hand to the operating system all that was written."""
        ...

    def close(self) -> object:
        """Finish the member and close the file, once."""
        ...


# --- the endings -----------------------------------------------------------------------------------------------------


class _Member(Protocol):
    """Decompresses one member; what follows its end is in `unused_data`."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class _Codec(NamedTuple):
    """A kind of compression."""

    name: str
    magic: bytes
    """How a member begins."""
    error: type[Exception]
    open: Callable[[AnyPath, Any], Appended]
    member: Callable[[], _Member]


def _codec_of(path: AnyPath) -> _Codec | None:
    match Path(path).suffix.lower():
        case ".gz":
            return _Codec("gzip", b"\x1f\x8b\x08", zlib.error, gzip.open, partial(zlib.decompressobj, wbits=31))
        case ".zst":
            zstd = _zstd()
            member = zstd.ZstdDecompressor if zstd.__name__ != "zstandard" else _member_of_zstandard
            return _Codec("zstd", b"\x28\xb5\x2f\xfd", zstd.ZstdError, zstd.open, member)
        case _:
            return None


def _zstd() -> Any:
    """The library for zstd: one of three, whichever is there."""
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError("no zstd here: install the package backports.zstd or zstandard")


def _member_of_zstandard() -> _Member:
    member: _Member = importlib.import_module("zstandard").ZstdDecompressor().decompressobj()
    return member


# --- appending -------------------------------------------------------------------------------------------------------


def open_to_append(path: AnyPath) -> Appended:
    """Open a file, made if there is none, and begin a member where its ending says that it is compressed.

    Raises `OSError`, and `ImportError` where there is no library for the ending, before a file is made.
    """
    codec = _codec_of(path)
    return Path(path).open("ab") if codec is None else codec.open(path, "ab")


# --- reading ---------------------------------------------------------------------------------------------------------


def read_path(path: AnyPath) -> Iterator[bytes | Damage]:
    """The blocks of a file, decompressed. It is opened at once, and closed at the end or when this is dropped.

    Raises `OSError`, and `ImportError` where there is no library for the ending.
    """
    blocks = _blocks_of_path(path)
    unpacked = unpack(blocks, path)
    next(blocks)
    return unpacked


def _blocks_of_path(path: AnyPath) -> Generator[bytes, None, None]:
    """The blocks, after an empty one with which the file is open."""
    with Path(path).open("rb", buffering=0) as file:
        yield b""
        yield from blocks_of(file)


def blocks_of(file: BinaryFile) -> Generator[bytes, None, None]:
    """The blocks of a file object, as they are. Raises what the object raises.

    A file that does not wait for its data cannot be told from one that has ended: `BlockingIOError`.
    """
    read: Callable[[int], bytes | None] = getattr(file, "read1", file.read)
    while block := read(BLOCK):
        yield block
    if block is None or not _waits(file):
        raise BlockingIOError("cannot read from a file that does not wait for its data")


def _waits(file: Any) -> bool:
    try:
        return os.get_blocking(file.fileno())
    except (AttributeError, OSError):  # it is none of the operating system's
        return True


def unpack(blocks: Iterable[bytes], path: AnyPath) -> Iterator[bytes | Damage]:
    """Decompress blocks as the ending of a path says. Raises `ImportError` where there is no library for it."""
    codec = _codec_of(path)
    return iter(blocks) if codec is None else _unpacked(_pieces(blocks, codec.magic), codec)


def _unpacked(pieces: Iterator[bytes], codec: _Codec) -> Iterator[bytes | Damage]:
    """The members one after the other.

    What stands behind a member without its end is taken for the rest of it at first, until that does not fit: so the
    pieces since another member may have begun are kept, to be taken again.
    """
    left = deque[bytes]()

    def take() -> bytes:
        return left.popleft() if left else next(pieces, b"")

    piece = take()
    while piece:
        member = codec.member()
        again = deque[bytes](maxlen=KEPT)
        try:
            yield member.decompress(piece)
            while not member.eof and (piece := take()):
                if piece.startswith(codec.magic):
                    again.clear()
                again.append(piece)
                yield member.decompress(piece)
            if member.eof:
                piece = member.unused_data or take()
                continue
            yield Damage(f"The {codec.name} data ends early")
        except codec.error:
            yield Damage(f"The {codec.name} data is damaged")
        left.extendleft(reversed(again))
        while (piece := take()) and not piece.startswith(codec.magic):
            pass


def _pieces(blocks: Iterable[bytes], magic: bytes) -> Iterator[bytes]:
    """The same bytes in small pieces; wherever the magic stands, a piece begins."""
    held = b""
    for block in blocks:
        data = held + block
        whole = len(data) - max(size for size in range(len(magic)) if data.endswith(magic[:size]))
        held = data[whole:]  # it may be the first bytes of a magic
        before, *behind = data[:whole].split(magic)
        for part in (before, *(magic + rest for rest in behind)):
            yield from (part[start : start + PIECE] for start in range(0, len(part), PIECE))
    if held:
        yield held
