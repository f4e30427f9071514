"""The command `acpwire`: `acpwire inspect` says what is in a capture.

Owns: arguments, exit codes, counting, and what is printed. Does not know: the format of captures, or how a line is
decoded. It needs nothing but the core; where rich is installed, a terminal gets tables.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO, Self, TextIO, cast, get_args

import msgspec

from acpwire import v2
from acpwire.capture import Reader, Record
from acpwire.wire.frames import ErrorResponse, Malformed, Notification, Request, Response
from acpwire.wire.lines import OversizedLine
from acpwire.wire.values import OpenObject, UnknownVariant

MALFORMED_SHOWN = 100
NAMES_COUNTED = 1000
"""How many methods, updates or tags are counted each by its name; what comes after them is counted as `(other)`."""
NAME_LENGTH = 200
SESSIONS_COUNTED = 1_000_000
POLL = 0.2
"""Seconds between two looks at a file that may have grown."""

Wait = Callable[[float], object]

_EPILOG = """\
FILE is a recording of acpwire.Recorder, or bare lines (NDJSON), of one side or of both; .gz and .zst are decompressed.
In bare lines, who sent which is guessed unless --sender says it.

keys of --json:
  lines, bytes             lines that are not blank, and their size on the wire; a recording's own lines do not count
  kinds                    lines by kind: notification, request, response, error, malformed
  methods                  requests and notifications by method
  updates                  session/update by variant
  unknown                  values whose tag this version does not know, by tag, wherever they stand in a message
  malformed                the first 100: line (its number in FILE), code (of the JSON-RPC error to answer with, else
                           null), path, message
  malformed_count          how many there are, results that do not fit their request included
  sessions                 how many different sessions params and results are about
  biggest_line             its size in bytes
  seconds                  how long reading took

exit codes: 0; 1 if FILE cannot be read, or with --strict if a line is malformed; 2 for wrong arguments."""


def main(argv: Sequence[str] | None = None, *, wait: Wait = time.sleep) -> int:
    """Run the command with these arguments (the process's own by default); returns its exit code.

    `wait` is called with seconds where `--follow` has to wait for more. Wrong arguments raise `SystemExit(2)`.
    """
    arguments = _parser().parse_args(argv)
    try:
        return _inspect(arguments, wait)
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="acpwire", description="Tools for the Agent Client Protocol v2 draft.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    inspect = commands.add_parser(
        "inspect",
        help="say what is in a capture",
        description="Count what is in a capture, and say which of its lines are malformed.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inspect.add_argument("file", metavar="FILE", help="the capture; - is standard input")
    inspect.add_argument("--json", action="store_true", help="print one JSON object")
    inspect.add_argument("--strict", action="store_true", help="exit with 1 if a line is malformed")
    inspect.add_argument("--sender", choices=("agent", "client"), help="who sent the lines, where they do not say it")
    inspect.add_argument(
        "--follow", action="store_true", help="keep reading as FILE grows; Ctrl-C ends it with what was counted"
    )
    return parser


# --- inspect ---------------------------------------------------------------------------------------------------------


def _inspect(arguments: argparse.Namespace, wait: Wait) -> int:
    tally = Tally()
    began = time.perf_counter()
    try:
        with _Interrupt(arguments.follow) as interrupt:
            _read(arguments, wait, interrupt, tally)
    except (OSError, ImportError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        print(f"acpwire: cannot read {arguments.file}: {reason}", file=sys.stderr)
        return 1
    summary = tally.summary(time.perf_counter() - began)
    try:
        if arguments.json:
            print(json.dumps(summary, indent=2))
        else:
            _show(summary)
        print(end="", flush=True)
    except BrokenPipeError:  # who read our output has enough; without this, Python would complain at its exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return int(arguments.strict and tally.malformed_count > 0)


def _read(arguments: argparse.Namespace, wait: Wait, interrupt: _Interrupt, tally: Tally) -> None:
    """Read the whole file into the tally, or what there is of it until it is interrupted."""
    try:
        with _opened(arguments.file, interrupt) as file:
            source = _Source(file, interrupt, wait if arguments.follow else None, Progress(sys.stderr, file))
            reader = Reader.of_file(source, arguments.file, arguments.sender)
            try:
                for count, record in enumerate(reader.records(), 1):
                    tally.add(count + reader.skipped, record)
            finally:
                tally.wire_bytes = reader.wire_bytes
                source.progress.end()
    except KeyboardInterrupt:
        if not arguments.follow:
            raise


@contextmanager
def _opened(name: str, interrupt: _Interrupt) -> Generator[BinaryIO, None, None]:
    if name != "-":
        with interrupt.window():  # a named pipe is open when it has a writer
            opened = Path(name).open("rb", buffering=0)  # noqa: SIM115  # closed below
        with opened as file:
            yield cast("BinaryIO", file)
    elif sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # it is None where fd 0 was closed
        raise OSError("standard input is closed")
    else:
        yield sys.stdin.buffer


class _Interrupt:
    """Lets SIGINT end a wait and nothing else while a file is followed, so that no line is counted by half."""

    def __init__(self, active: bool) -> None:
        self._active = active
        self._came = False
        self._is_open = False

    def __enter__(self) -> Self:
        if self._active:
            self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        if self._active:
            signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
        if self._is_open:
            raise KeyboardInterrupt

    @contextmanager
    def window(self) -> Generator[None, None, None]:
        """In here the signal raises `KeyboardInterrupt` at once."""
        self._is_open = True
        try:
            if self._came:
                raise KeyboardInterrupt
            yield
        finally:
            self._is_open = False


class _Source:
    """The file that is read, one block after the other; its end is not reached while it may grow (`wait` is given)."""

    def __init__(self, file: BinaryIO, interrupt: _Interrupt, wait: Wait | None, progress: Progress) -> None:
        self.progress = progress
        self._read: Callable[[int], bytes] = getattr(file, "read1", file.read)
        self.fileno = file.fileno
        self._interrupt = interrupt
        self._follows = wait is not None
        self._wait = wait if _size_of(file) is not None else None  # nothing else grows
        self._done = 0

    def read(self, size: int) -> bytes:
        """The next block."""
        self.progress.show(self._done)
        while True:
            if self._follows:
                with self._interrupt.window():  # around the wait and not the read: a signal could lose what was read
                    select.select([self.fileno()], [], [])
            block = self._read(size)
            if block or self._wait is None:
                self._done += len(block)
                return block
            with self._interrupt.window():
                self._wait(POLL)


def _size_of(file: BinaryIO) -> int | None:
    """The size of a regular file, None of anything else."""
    try:
        found = os.fstat(file.fileno())
    except OSError:  # it is none of the operating system's
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


class Progress:
    """How far reading is, on a terminal, from the second second on."""

    def __init__(self, stream: TextIO | None, file: BinaryIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream if stream is not None and stream.isatty() else None
        self._size = _size_of(file)
        self._clock = clock
        self._next = clock() + 1
        self._shown = False

    def show(self, done: int) -> None:
        """Say it, at most twice a second."""
        if self._stream is None or self._clock() < self._next:
            return
        self._next = self._clock() + 0.5
        self._shown = True
        share = f" ({done / self._size:.0%})" if self._size and done <= self._size else ""
        self._stream.write(f"\r\x1b[Kread {_megabytes(done)}{share}")
        self._stream.flush()

    def end(self) -> None:
        """Take it off the screen."""
        if self._stream is not None and self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


# --- counting --------------------------------------------------------------------------------------------------------

_KINDS: dict[type, str] = {
    Notification: "notification",
    Request: "request",
    Response: "response",
    ErrorResponse: "error",
    Malformed: "malformed",
}


class Tally:
    """What was counted; of bounded size, whatever is in the capture."""

    def __init__(self) -> None:
        self.malformed_count = 0
        self.wire_bytes = 0
        self._lines = 0
        self._biggest = 0
        self._kinds = dict.fromkeys(_KINDS.values(), 0)
        self._methods: Counter[str] = Counter()
        self._updates: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._malformed: list[dict[str, Any]] = []
        self._sessions: set[int] = set()  # hashes: an id may be long
        self._session = ""  # the one before, which most lines name again

    def add(self, number: int, record: Record) -> None:
        """Count a record that stands in this line of the file."""
        message, line = record.message, record.line
        if type(message) is Malformed:
            self._add_malformed(number, message.code, message.path, message.message)
            if record.sender is None and not line:
                return  # it says what is wrong with the file and stands for no line
        kind = _KINDS[type(message)]
        if record.fault is not None:
            self._add_malformed(number, None, record.fault.path, record.fault.message)
            kind = "malformed"
        self._lines += 1
        self._kinds[kind] += 1
        size = line.size if type(line) is OversizedLine else len(line)
        if size > self._biggest:  # noqa: PLR1730  # max() takes three times as long
            self._biggest = size
        if type(message) is Notification or type(message) is Request:
            _count(self._methods, message.method)
            self._look_into(message.params)
        elif type(message) is Response:
            self._look_into(message.result if record.result is msgspec.UNSET else record.result)

    def _add_malformed(self, number: int, code: int | None, path: str, message: str) -> None:
        self.malformed_count += 1
        if len(self._malformed) < MALFORMED_SHOWN:
            self._malformed.append({"line": number, "code": code, "path": path, "message": message})

    def _look_into(self, value: Any) -> None:
        if type(value) is v2.UpdateSessionNotification:
            _count(self._updates, value.update.tag)
        session_id = _session_of_raw(value) if type(value) is msgspec.Raw else getattr(value, "session_id", None)
        if session_id != self._session and isinstance(session_id, str):
            self._session = session_id
            if len(self._sessions) < SESSIONS_COUNTED:
                self._sessions.add(hash(session_id))
        _count_unknown(value, self._unknown)

    def summary(self, seconds: float) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "lines": self._lines,
            "bytes": self.wire_bytes,
            "kinds": self._kinds,
            "methods": dict(self._methods.most_common()),
            "updates": dict(self._updates.most_common()),
            "unknown": dict(self._unknown.most_common()),
            "malformed": self._malformed,
            "malformed_count": self.malformed_count,
            "sessions": len(self._sessions),
            "biggest_line": self._biggest,
            "seconds": round(seconds, 6),
        }


class _Named(msgspec.Struct, gc=False):
    session_id: Any = msgspec.field(name="sessionId", default=None)


_read_named = msgspec.json.Decoder(_Named).decode


def _session_of_raw(value: msgspec.Raw) -> Any:
    """The session of params or a result whose type is not known."""
    try:
        return _read_named(value).session_id
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):  # no object, or none that can be read
        return None


def _count(counter: Counter[str], name: str) -> None:
    if name in counter:
        counter[name] += 1
        return
    if len(name) > NAME_LENGTH:
        name = name[:NAME_LENGTH] + "..."
    counter[name if name in counter or len(counter) < NAMES_COUNTED else "(other)"] += 1


def _count_unknown(value: Any, counter: Counter[str]) -> None:
    """Count the unknown variants at any depth of a typed value."""
    for attr in _ATTRS[type(value)]:
        held = getattr(value, attr)
        if held is not None and held is not msgspec.UNSET:
            _count_unknown(held, counter)
    if isinstance(value, UnknownVariant):
        _count(counter, value.tag)
    elif isinstance(value, (list, dict)):
        for item in cast("Iterable[Any]", value.values() if isinstance(value, dict) else value):
            _count_unknown(item, counter)


class _Attrs(dict[type, tuple[str, ...]]):
    """Type -> those of its attributes in which a typed object may be, found on first need."""

    def __missing__(self, kind: type) -> tuple[str, ...]:
        attrs: tuple[str, ...] = ()
        if issubclass(kind, msgspec.Struct):
            attrs = tuple(field.name for field in msgspec.structs.fields(kind) if _holds_objects(field.type))
        self[kind] = attrs
        return attrs


_ATTRS = _Attrs()


def _holds_objects(tp: Any) -> bool:
    if isinstance(tp, type) and issubclass(tp, (msgspec.Struct, OpenObject)):
        return True
    return any(_holds_objects(part) for part in get_args(tp))


# --- showing ---------------------------------------------------------------------------------------------------------


def _show(summary: Mapping[str, Any]) -> None:
    sections = _sections(summary)
    if sys.stdout is not None and sys.stdout.isatty():  # pyright: ignore[reportUnnecessaryComparison]  # as above
        try:
            from rich.console import Console  # noqa: PLC0415  # it may be absent, and takes longer than most captures
            from rich.table import Table  # noqa: PLC0415
            from rich.text import Text  # noqa: PLC0415
        except ImportError:
            pass
        else:
            console = Console()
            for title, rows in sections:
                table = Table(title=title or None, title_justify="left", show_header=False)
                table.add_column()
                table.add_column(justify="left" if title.startswith("malformed") else "right")
                for row in rows:
                    table.add_row(*map(Text, row))
                console.print(table)
            return
    for title, rows in sections:
        if title:
            print(f"\n{title}")
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            print(f"{'  ' if title else ''}{name:<{width}}  {value}")


def _sections(summary: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """What is printed: titles, each with rows of two cells."""
    seconds = summary["seconds"] or 1e-6
    rate = f"{summary['lines'] / seconds:,.0f} lines, {_megabytes(summary['bytes'] / seconds)} a second"
    head = [
        ("lines", f"{summary['lines']:,}"),
        ("bytes", f"{summary['bytes']:,}"),
        ("biggest line", f"{summary['biggest_line']:,} bytes"),
        ("sessions", f"{summary['sessions']:,}"),
        ("malformed", f"{summary['malformed_count']:,}"),
        ("rate", rate),
    ]
    sections = [("", head)]
    for key, title in (("kinds", "kinds"), ("methods", "methods"), ("updates", "updates"), ("unknown", "unknown tags")):
        rows = [(_printable(name), f"{count:,}") for name, count in summary[key].items() if count]
        if rows:
            sections.append((title, rows))
    shown = summary["malformed"]
    if shown:
        more = "" if len(shown) == summary["malformed_count"] else f", the first {len(shown)}"
        rows = [(f"line {one['line']:,}", _fault(one)) for one in shown]
        sections.append((f"malformed lines{more}", rows))
    return sections


def _fault(one: Mapping[str, Any]) -> str:
    code = "" if one["code"] is None else f"{one['code']} "
    return f"{code}at {_printable(one['path'])}: {_printable(one['message'])}"


def _printable(text: str) -> str:
    """A text from a capture without what a terminal could obey or not show."""
    return text if text.isascii() and text.isprintable() else ascii(text)[1:-1]


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"
