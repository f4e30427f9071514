"""Mutated lines of the corpus against both decoders, `route` and the way back: `python -m tests.fuzz`.

Owns: the corpus as lines, the mutations, and what must hold for any bytes at all (`check`). Everything is drawn from
one seed, so a failure is told by seed and bytes, and comes again. Exit code 1 when a line breaks a law.
Does not know: what any one line means.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import random
import re
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from acpwire import v2, wire
from acpwire.wire.frames import line_decoder

T = TypeVar("T")

CORPUS = Path(__file__).parent / "corpus"
BOM = b"\xef\xbb\xbf"
BATCH = 1000
"""Executions between two looks at the clock."""
POOL = 400
"""How many mutated lines are kept to be mutated further."""


# --- the corpus ------------------------------------------------------------------------------------------------------


def recorded(sender: str) -> list[bytes]:
    """The recorded lines of one side, "agent" or "client"."""
    other = {"agent": "client", "client": "agent"}[sender]
    files = sorted(CORPUS.glob(f"*/{sender}_to_{other}.ndjson"))
    return [line for file in files for line in file.read_bytes().split(b"\n") if line]


def examples() -> list[bytes]:
    """The messages among the examples of the documentation; fragments are left out."""
    files = sorted(CORPUS.glob("*-examples/[0-9]*.json"))
    values = [json.loads(file.read_bytes()) for file in files]
    return [compact(value) for value in values if isinstance(value, dict) and "jsonrpc" in value]


def hostile() -> dict[str, tuple[str, bytes]]:
    """Case -> (the side that receives it, its line)."""
    cases = [json.loads(line) for line in (CORPUS / "hostile.jsonl").read_bytes().split(b"\n") if line]
    return {case["id"]: (case["to"], case["line"].encode()) for case in cases}


ERRORS = (
    b'{"jsonrpc":"2.0","id":3,"error":{"code":-32002,"message":"Not found","data":{"sessionId":"s1"}}}',
    b'{"jsonrpc":"2.0","id":"a","error":{"code":-32603,"message":"Internal error","data":[1,null,"x",{"a":0.5}]}}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
)
"""The recordings have hardly any."""


@functools.cache
def corpus() -> tuple[bytes, ...]:
    """Every line there is, once."""
    lines = [*recorded("agent"), *recorded("client"), *examples(), *(line for _, line in hostile().values()), *ERRORS]
    return tuple(dict.fromkeys(lines))


def compact(value: Any) -> bytes:
    """JSON without spaces, in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# --- mutations -------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[0-9.eE+-]*|true|false|null|[\[\]{},:]', re.DOTALL)
VALUES = tuple(
    rb"""null|true|false|0|1|-1|-0|1.0|1E2|1e400|-0.0|0.1|01|1.|NaN|Infinity|-Infinity|9223372036854775807|\
9223372036854775808|-9223372036854775809|18446744073709551616|""|"x"|"_x"|"\u0000"|"\ud83d"|"\uDE00"|"\ud83d\ude00"|\
"\\ud83d"|"\ue000"|[]|{}|[[]]|[null]|{"":null}|{"type":"_x"}|{"type":"text","text":"t"}|"session/update"|\
"session/prompt"|"state_update"|"2.0"|"1.0"|"running"|"idle" """.replace(b"\\\n", b"")
    .strip()
    .split(b"|")
)
KEYS = (b'"id"', b'"method"', b'"jsonrpc"', b'"params"', b'"result"', b'"error"', b'"_meta"', b'"sessionUpdate"')
HALVES = (rb"\ud83d", rb"\uDE00", rb"\udbff\udbff", rb"\uDfFf\uD800", rb"\\ud800", rb"\ue000", "\ue001".encode())
BITS = (
    *(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x00", b"\x1f", b"\n", b"\r\n", b" ", b"\\", b'"', b"\xe2\x80\xa8", BOM),
    *(b"{", b"}", b"[", b"]", b",", b":", b"[" * 40, b'{"":' * 40, b"//", b"-", b"."),
)


@dataclass
class Seed:
    """A line, and where its tokens, values (whole ones) and members (key and value) are."""

    line: bytes
    tokens: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    values: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    members: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    @classmethod
    def of(cls, line: bytes) -> Seed:
        """Find the parts of a line, which need not be JSON: of one that is none, whatever looks like a part."""
        seed, opened = cls(line), list[tuple[int, int | None]]()
        key: int | None = None
        for match in _TOKEN.finditer(line):
            start, end = match.span()
            seed.tokens.append((start, end))
            mark = line[start]
            if mark in b"[{":
                opened.append((start, key))
                key = None
            elif mark in b"]}" and opened:
                start, key = opened.pop()
                seed._add(start, end, key)
                key = None
            elif mark == 0x22 and line[end : end + 1] == b":":
                key = start
            elif mark not in b",:]}":
                seed._add(start, end, key)
                key = None
        return seed

    def _add(self, start: int, end: int, key: int | None) -> None:
        self.values.append((start, end))
        if key is not None:
            self.members.append((key, end))


class Mutator:
    """An endless stream of lines, the same for the same seed; three of five are JSON."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  # reproducible on purpose
        self._seeds = [Seed.of(line) for line in corpus()]
        self._fixed = len(self._seeds)
        self._by_part: tuple[Callable[[Seed], bytes], ...] = (
            self._replaced,
            self._replaced,
            self._swapped,
            self._without_member,
            self._doubled_member,
            self._new_member,
            self._with_half,
            self._with_half,
        )
        self._by_byte: tuple[Callable[[bytes], bytes], ...] = (
            self._flipped,
            self._cut_off,
            self._spliced,
            self._cut_out,
            self._repeated,
            self._with_bytes,
            self._with_other_token,
        )

    def next(self) -> bytes:
        """The next line."""
        chance, seed = self._random.random(), self._pick(self._seeds)
        line = seed.line
        if seed.members and chance < 0.8:
            line = self._pick(self._by_part)(seed)
        if chance > 0.7:
            line = self._pick(self._by_byte)(line)
        return line

    def keep(self, line: bytes) -> None:
        """Take a line among those that are mutated."""
        if len(line) < 4000:
            if len(self._seeds) < self._fixed + POOL:
                self._seeds.append(Seed.of(line))
            else:
                self._seeds[self._fixed + int(self._random.random() * POOL)] = Seed.of(line)

    def _pick(self, items: Sequence[T]) -> T:
        return items[int(self._random.random() * len(items))]

    def _place(self, line: bytes) -> int:
        return int(self._random.random() * (len(line) + 1))

    def _value(self) -> bytes:
        """A value: one of those that are known to be awkward, or one from another line."""
        other = self._pick(self._seeds)
        if self._random.random() < 0.6 or not other.values:
            return self._pick(VALUES)
        start, end = self._pick(other.values)
        return other.line[start:end]

    def _replaced(self, seed: Seed) -> bytes:
        start, end = self._pick(seed.values)
        return seed.line[:start] + self._value() + seed.line[end:]

    def _swapped(self, seed: Seed) -> bytes:
        line, spans = seed.line, sorted((self._pick(seed.values), self._pick(seed.values)))
        (first, second), (third, fourth) = spans
        if second > third:
            return line
        return line[:first] + line[third:fourth] + line[second:third] + line[first:second] + line[fourth:]

    def _without_member(self, seed: Seed) -> bytes:
        line, (start, end) = seed.line, self._pick(seed.members)
        if line[end : end + 1] == b",":
            return line[:start] + line[end + 1 :]
        return line[: start - (line[start - 1 : start] == b",")] + line[end:]

    def _doubled_member(self, seed: Seed) -> bytes:
        """The same member twice, with another value the first or the second time."""
        line, (start, end) = seed.line, self._pick(seed.members)
        member, other = line[start:end], line[start : line.index(b":", start) + 1] + self._value()
        pair = (member, other) if self._random.random() < 0.5 else (other, member)
        return line[:start] + b",".join(pair) + line[end:]

    def _new_member(self, seed: Seed) -> bytes:
        """One that belongs elsewhere."""
        line, (start, _) = seed.line, self._pick(seed.members)
        if self._random.random() < 0.5:
            return line[:start] + self._pick(KEYS) + b":" + self._value() + b"," + line[start:]
        other = self._pick(self._seeds)
        first, last = self._pick(other.members) if other.members else (0, 0)
        return line[:start] + other.line[first:last] + b"," + line[start:]

    def _with_half(self, seed: Seed) -> bytes:
        """Half a character, or what looks like one, inside a string if the token drawn is one."""
        line, (start, end) = seed.line, self._pick(seed.tokens)
        at = start + 1 + int(self._random.random() * (end - start - 1))
        return line[:at] + self._pick(HALVES) + line[at:]

    def _flipped(self, line: bytes) -> bytes:
        made = bytearray(line)
        for _ in range(1 + int(self._random.random() * 3)):
            if made:
                made[int(self._random.random() * len(made))] ^= 1 << int(self._random.random() * 8)
        return bytes(made)

    def _cut_off(self, line: bytes) -> bytes:
        at = self._place(line)
        return line[:at] if self._random.random() < 0.8 else line[at:]

    def _spliced(self, line: bytes) -> bytes:
        other = self._pick(self._seeds).line
        return line[: self._place(line)] + other[self._place(other) :]

    def _cut_out(self, line: bytes) -> bytes:
        at = self._place(line)
        return line[:at] + line[at + 1 + int(self._random.random() * 20) :]

    def _repeated(self, line: bytes) -> bytes:
        at = self._place(line)
        return line[: at + int(self._random.random() * 40)] + line[at:]

    def _with_bytes(self, line: bytes) -> bytes:
        at = self._place(line)
        return line[:at] + self._pick(BITS) + line[at:]

    def _with_other_token(self, line: bytes) -> bytes:
        seed, token = self._pick(self._seeds), self._pick(VALUES)
        start, end = self._pick(seed.tokens) if seed.tokens else (0, 0)
        return seed.line[:start] + token + seed.line[end:]


# --- laws ------------------------------------------------------------------------------------------------------------


def _refuse(constant: str) -> None:
    raise ValueError(constant)


_CHECKED = json.JSONDecoder(parse_constant=_refuse, parse_int=str, parse_float=str)
_PATH = re.compile(r"\$(?:\.\w+|\[\d+\]|\[\.\.\.\])*")
DECODERS: tuple[Callable[[bytes], wire.Message], ...] = (v2.decode_from_agent, v2.decode_from_client)


def is_json(line: bytes) -> bool | None:
    """Whether a line is one JSON value in UTF-8, a byte order mark before it allowed; None where it nests too deep."""
    try:
        _CHECKED.decode(line.removeprefix(BOM).decode())
    except RecursionError:
        return None
    except ValueError:
        return False
    return True


DEEP = (5_000, 100_000) if sys.version_info < (3, 14) else (5_000, 100_000, 400_000)
"""How deep lines may nest that should break the decoder; the last is too deep where the stack has its usual 8 MB."""


def is_too_deep(depth: int) -> bool:
    """Whether nothing takes JSON that nests so deep, not even to skip it.

    Python 3.11 has one limit for its own calls and for C's; since 3.12 the latter may go as deep as the stack has room.
    """
    if sys.version_info < (3, 12):
        return depth >= sys.getrecursionlimit()
    try:
        msgspec.json.decode(b"[" * depth + b"]" * depth, type=msgspec.Raw)
    except RecursionError:
        return True
    return False


def _finite(number: str) -> float:
    if math.isinf(float(number)):
        raise ValueError(number)
    return float(number)


_FINITE = json.JSONDecoder(parse_float=_finite)


def plain(line: bytes) -> bytes | None:
    """The same JSON spelt in the plainest way: no name twice (the last counts), only ASCII.

    None where a number is beyond a double, also one that does not count: any JSON that holds it is not decoded.
    """
    try:
        return json.dumps(_FINITE.decode(line.removeprefix(BOM).decode())).encode()
    except ValueError:
        return None


_at_leisure = line_decoder(v2.SESSION_UPDATE.decoding, v2.METHODS, "client", None)
"""`decode_from_agent` without the passes that are there for speed."""


def check(line: bytes) -> str:
    """Decode a line as both sides do, and back again; returns what it was.

    Raises `AssertionError` for a law that is broken, and lets through what should never have been raised.
    """
    valid, where, seen = is_json(line), wire.route(line), "Malformed"
    spelt = plain(line) if valid and len(line) % 4 == 0 else None  # a quarter of the lines, as it costs as much again
    for decode in DECODERS:
        message = decode(line)
        if isinstance(message, wire.Malformed):
            assert message.line == line
            assert message.code in (None, -32700, -32600, -32602)
            assert valid is None or (message.code == -32700) is not valid, "no JSON is -32700, and nothing else is"
            assert _PATH.fullmatch(message.path), f"no path: {message.path}"
        else:
            seen = type(message).__name__
            assert valid is not False, "decoded what is no JSON"
            _check_route(where, message)
            _check_way_back(line, message, decode)
        if decode is v2.decode_from_agent and b"update" in line:
            assert _meaning(_at_leisure(line)) == _meaning(message), "means something else where it is read slowly"
        if spelt is not None:
            assert _meaning(decode(spelt)) == _meaning(message), f"means something else than {spelt!r}"
    return seen


def _check_route(where: wire.Route, message: wire.Message) -> None:
    match message:
        case wire.Request():
            expected: tuple[Any, ...] = ("request", message.id, message.method)
        case wire.Notification():
            expected = ("notification", None, message.method)
        case wire.Response():
            expected = ("response", message.id, None)
        case _:
            expected = ("error", message.id, None)
    assert (where.kind, where.id, where.method) == expected, "route tells something else"
    assert type(where.id) is type(expected[1]), "route changes the type of the id"
    if isinstance(message, wire.Notification) and isinstance(message.params, v2.UpdateSessionNotification):
        assert where.session_id == message.params.session_id
        assert where.tag == message.params.update.tag


def _check_way_back(line: bytes, message: Any, decode: Callable[[bytes], Any]) -> None:
    written = wire.encode(message)
    assert written.find(b"\n") == len(written) - 1, "not exactly one line feed, at the end"
    again = decode(written)
    halves = b"\\ud" in line.lower()  # lone ones come back only in ids and in what is passed on as it came
    if halves:
        assert _meaning(again) == json.dumps(json.loads(written), sort_keys=True), "the way back is not stable"
    else:
        assert wire.encode(again) == written, "the way back is not stable"
    changed = halves or b"\n" in line or b"\r" in line  # line breaks between tokens may become spaces
    assert again == message or changed, "the way back changes the message"


def _meaning(message: Any) -> Any:
    """A message less how it was spelt."""
    if isinstance(message, wire.Malformed):
        return message.code, message.id, message.method
    return json.dumps(json.loads(wire.encode(message)), sort_keys=True)


# --- running ---------------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a run came to: how many lines were what, and the one that broke a law, if any did."""

    executions: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter[str])
    line: bytes | None = None
    error: Exception | None = None


def run(
    seed: int, executions: int, seconds: float | None = None, progress: Callable[[Outcome], None] | None = None
) -> Outcome:
    """Check that many lines, or as many as the time allows; stops at the first that breaks a law."""
    mutator, outcome, started = Mutator(seed), Outcome(), time.monotonic()
    following, kinds = mutator.next, outcome.kinds
    while outcome.executions < executions and outcome.error is None:
        for _ in range(min(BATCH, executions - outcome.executions)):
            line = following()
            outcome.executions += 1
            try:
                kind = check(line)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is what we look for
                outcome.line, outcome.error = line, error
                break
            kinds[kind] += 1
            if kind != "Malformed" and outcome.executions % 16 == 0:
                mutator.keep(line)
        outcome.seconds = time.monotonic() - started
        if progress is not None:
            progress(outcome)
        if seconds is not None and outcome.seconds >= seconds:
            break
    return outcome


def shorter(line: bytes, tries: int = 1000) -> bytes:
    """A shorter line that breaks a law in the same way, or the line itself."""
    wanted, size = _how(line), len(line) // 2
    while size and tries > 0:
        for candidate in _with_gap(line, size):
            tries -= 1
            if _how(candidate) == wanted:
                line = candidate
                break
            if tries <= 0:
                break
        else:
            size //= 2
    return line


def _with_gap(line: bytes, size: int) -> Iterator[bytes]:
    for at in range(len(line) - size, -1, -size):
        yield line[:at] + line[at + size :]


def _how(line: bytes) -> tuple[str, int] | None:
    try:
        check(line)
    except Exception as error:  # noqa: BLE001  # as above
        last = traceback.extract_tb(error.__traceback__)[-1]
        return type(error).__name__, last.lineno or 0
    return None


def _show_progress(outcome: Outcome) -> None:
    print(f"\r{outcome.executions:,} executions, {outcome.seconds:.0f} s", end="", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Run the fuzzer; exit code 1 when a line broke a law."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--executions", type=int, default=2_000_000, help="how many lines to check")
    parser.add_argument("--seed", type=int, default=0, help="where the stream of lines begins")
    parser.add_argument("--seconds", type=float, default=None, help="stop after this time")
    parser.add_argument("--processes", type=int, default=1, help="share the work, each with a seed of its own")
    wanted = parser.parse_args(argv)
    terminal = sys.stderr.isatty()
    if wanted.processes > 1:
        return _share(wanted.processes, wanted.executions, wanted.seed, wanted.seconds)

    outcome = run(wanted.seed, wanted.executions, wanted.seconds, _show_progress if terminal else None)
    if terminal:
        print(file=sys.stderr)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in outcome.kinds.most_common())
    print(f"seed {wanted.seed}: {outcome.executions:,} executions in {outcome.seconds:.0f} s: {kinds}")
    if outcome.error is None or outcome.line is None:
        return 0
    print("".join(traceback.format_exception(outcome.error)[-2:]).rstrip())
    print(f"seed {wanted.seed}, execution {outcome.executions}\n  line:    {outcome.line!r}")
    print(f"  shorter: {shorter(outcome.line)!r}")
    return 1


def _share(processes: int, executions: int, seed: int, seconds: float | None) -> int:
    """Run parts of the work side by side; the worst exit code counts."""
    command = [sys.executable, "-m", "tests.fuzz", "--executions", str(executions // processes)]
    command += [] if seconds is None else ["--seconds", str(seconds)]
    running = [subprocess.Popen([*command, "--seed", str(seed + part)]) for part in range(processes)]
    return max(one.wait() for one in running)


if __name__ == "__main__":
    sys.exit(main())
