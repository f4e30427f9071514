"""The command `acpwire`: `acpwire inspect` says what is in a capture; `demo` and `demo-agent` run the demo.

Owns: arguments, exit codes, counting, and what is printed. Does not know: the format of captures, how a line is
decoded, or what the demo does. It needs nothing but the core; where rich is installed, a terminal gets tables.
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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast, get_args

import msgspec

from acpwire import v2
from acpwire.capture import Record, records_of
from acpwire.compression import blocks_of, unpack
from acpwire.wire.errors import DecodeError
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
  lines, bytes             lines that are not blank, and their size on the wire, line feeds included; the lines that
                           name a recording's format do not count
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

    `wait` is called with seconds where `--follow` has to wait for more. Wrong arguments raise `SystemExit(2)`;
    `demo-agent` ends as `run_agent` does.
    """
    given = sys.argv[1:] if argv is None else list(argv)
    if given[:1] == ["demo"]:  # with a parser of its own
        from acpwire import demo  # noqa: PLC0415  # it loads asyncio, which nothing else here needs

        return demo.main(given[1:])
    arguments = _parser().parse_args(given)
    if arguments.command == "demo-agent":
        from acpwire import demo_agent  # noqa: PLC0415  # as above

        demo_agent.main()
        return 0
    try:
        return _inspect(arguments, wait)
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="acpwire", description="Tools for the Agent Client Protocol v2 draft.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", dest="command")
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
    commands.add_parser("demo", help="start an agent, talk to it, and say what came")
    commands.add_parser(
        "demo-agent",
        help="be that agent, on standard input and output",
        description="The agent of the demo, for any client: a prompt is answered with all that an agent can say, "
        "/burst N with N chunks, /forever until it is cancelled.",
    )
    return parser


# --- inspect ---------------------------------------------------------------------------------------------------------


def _inspect(arguments: argparse.Namespace, wait: Wait) -> int:
    tally = Tally()
    began = time.perf_counter()
    try:
        if arguments.follow:
            with suppress(KeyboardInterrupt), _sigint(signal.SIG_BLOCK):
                _read(arguments, wait, tally)
        else:
            _read(arguments, None, tally)
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
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # without this, Python would complain once more at its exit
        if not isinstance(error, BrokenPipeError):  # then who reads our output has enough
            print(f"acpwire: cannot write the summary: {error.strerror or error}", file=sys.stderr)
            return 1
    return int(arguments.strict and tally.malformed_count > 0)


def _read(arguments: argparse.Namespace, wait: Wait | None, tally: Tally) -> None:
    """Read the whole file into the tally. `wait` makes it follow: then it has no end while it may grow."""
    with _opened(arguments.file) as file:
        source = file if wait is None else _Growing(file, wait)
        blocks = with_progress(blocks_of(source), _size_of(file), sys.stderr)
        for record in records_of(unpack(blocks, arguments.file), arguments.sender):
            tally.add(record)


@contextmanager
def _opened(name: str) -> Generator[BinaryIO, None, None]:
    if name != "-":
        with _sigint(signal.SIG_UNBLOCK):  # a named pipe is open when it has a writer
            opened = Path(name).open("rb", buffering=0)  # noqa: SIM115  # closed below
        with opened as file:
            yield cast("BinaryIO", file)
    elif sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # it is None where fd 0 was closed
        raise OSError("standard input is closed")
    else:
        yield sys.stdin.buffer


@contextmanager
def _sigint(how: int) -> Generator[None, None, None]:
    """Hold SIGINT back in here, or let it through.

    A file is followed with SIGINT held back, and let through only while there is nothing to do but wait: so it loses no
    block that was read, and no line is counted by half.
    """
    before = signal.pthread_sigmask(how, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Growing:
    """A file that is read on as it grows."""

    def __init__(self, file: BinaryIO, wait: Wait) -> None:
        self._read: Callable[[int], bytes] = getattr(file, "read1", file.read)
        self.fileno = file.fileno
        self._wait = wait
        self._may_grow = _size_of(file) is not None

    def read(self, size: int) -> bytes:
        """The next block."""
        while True:
            with _sigint(signal.SIG_UNBLOCK):
                select.select([self.fileno()], [], [])
            block = self._read(size)
            if block or not self._may_grow:
                return block
            with _sigint(signal.SIG_UNBLOCK):
                self._wait(POLL)


def _size_of(file: BinaryIO) -> int | None:
    """The size of a regular file, None of anything else."""
    try:
        found = os.fstat(file.fileno())
    except OSError:  # it is none of the operating system's
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def with_progress(
    blocks: Iterable[bytes], size: int | None, stream: TextIO | None, clock: Callable[[], float] = time.monotonic
) -> Generator[bytes, None, None]:
    """The same blocks; on a terminal, from the second second on, it is said twice a second how far they are."""
    if stream is None or not stream.isatty():
        yield from blocks
        return
    start = clock()
    done, due = 0, start + 1
    try:
        for block in blocks:
            done += len(block)
            if clock() >= due:
                due = clock() + 0.5
                share = f" ({done / size:.0%})" if size and done <= size else ""
                stream.write(f"\r\x1b[Kread {_megabytes(done)}{share}")
                stream.flush()
            yield block
    finally:
        if due > start + 1:
            stream.write("\r\x1b[K")  # takes it off the screen
            stream.flush()


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
        self._bytes = 0
        self._biggest = 0
        self._kinds = dict.fromkeys(_KINDS.values(), 0)
        self._methods: Counter[str] = Counter()
        self._updates: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._malformed: list[dict[str, Any]] = []
        self._sessions: set[int] = set()  # hashes: an id may be long

    def add(self, record: Record) -> None:
        """Count one."""
        message, line = record.message, record.line
        if type(message) is Malformed:
            self._add_malformed(record.number, message.code, message)
            if record.sender is None and not line:
                return  # it says what is wrong with the file and stands for no line
        kind = _KINDS[type(message)]
        if record.fault is not None:
            self._add_malformed(record.number, None, record.fault)
            kind = "malformed"
        self._kinds[kind] += 1
        size = line.size if type(line) is OversizedLine else len(line)
        self._bytes += size + 1
        if size > self._biggest:  # noqa: PLR1730  # max() takes three times as long
            self._biggest = size
        if type(message) is Notification or type(message) is Request:
            _count(self._methods, message.method)
            self._look_into(message.params)
        elif type(message) is Response:
            self._look_into(message.result if record.result is msgspec.UNSET else record.result)

    def _add_malformed(self, number: int, code: int | None, fault: Malformed | DecodeError) -> None:
        self.malformed_count += 1
        if len(self._malformed) < MALFORMED_SHOWN:
            self._malformed.append({"line": number, "code": code, "path": fault.path, "message": fault.message})

    def _look_into(self, value: Any) -> None:
        if type(value) is v2.UpdateSessionNotification:
            _count(self._updates, value.update.tag)
        session_id = _session_of_raw(value) if type(value) is msgspec.Raw else getattr(value, "session_id", None)
        if isinstance(session_id, str) and len(self._sessions) < SESSIONS_COUNTED:
            self._sessions.add(hash(session_id))
        _count_unknown(value, self._unknown)

    def summary(self, seconds: float) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "lines": sum(self._kinds.values()),
            "bytes": self._bytes,
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
