"""A peer in a process of its own, over its stdio, byte by byte: what goes in is cut anywhere, what comes out is exact.

Beside `test_peer`, which says what the pump does: this is about bytes on real pipes, on both event loops, and about the
memory of a process that is flooded, or whose other end reads nothing.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import random
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import acpwire
from acpwire import v2
from acpwire.connection import Connection
from acpwire.peer import Peer
from acpwire.transports import Transport, spawn_process
from tests import fuzz
from tests.transports.loops import PROGRAMS, nothing_left, on_each_loop, until

HOSTILE = fuzz.hostile()
SECONDS = 30
"""How long anything may take before it has failed."""
MIB = 1024 * 1024

each_loop = pytest.mark.parametrize("loop", [[], ["uvloop"]], ids=["asyncio", "uvloop"])


class Program:
    """A running program of ours, and the pipes to it, without a loop at this end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self.stdin = process.stdin.fileno()
        self.stdout = process.stdout.fileno()
        self._rest = b""
        self._fences = 0

    def say(self, data: bytes) -> None:
        """Write all of it."""
        while data:
            data = data[os.write(self.stdin, data) :]

    def say_alone(self, data: bytes) -> None:
        """Write, and wait until it was read: what is said next comes in another read."""
        self.say(data)
        end = time.monotonic() + SECONDS
        while struct.unpack("i", fcntl.ioctl(self.stdin, termios.FIONREAD, bytes(4)))[0]:
            assert time.monotonic() < end, "nobody reads"
            os.sched_yield()

    def line(self) -> bytes:
        """The next line, without its line feed."""
        while b"\n" not in self._rest:
            assert select.select([self.stdout], [], [], SECONDS)[0], "no line came"
            block = os.read(self.stdout, 1024 * 1024)
            assert block, self._rest
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def after(self, *parts: bytes) -> list[bytes]:
        """What it says to these bytes, each part in a read of its own; they end in a whole line, or in the middle."""
        self._fences += 1
        fence = b"fence %d" % self._fences
        for part in parts[:-1]:
            self.say_alone(part)
        self.say(parts[-1] + b'\n{"jsonrpc":"2.0","id":"%s","method":"_x/fence","params":{}}\n' % fence)
        lines = [self.line()]
        while fence not in lines[-1]:
            lines.append(self.line())
        return lines[:-1]

    def says(self, line: bytes, *answers: bytes) -> None:
        """To this line it says exactly that."""
        assert self.after(line) == list(answers)

    def flood(self, line: bytes, most: int) -> int:
        """Write a line again and again until `most` bytes are written, or nobody reads any more; how many bytes are."""
        os.set_blocking(self.stdin, False)
        block, sent = line * (1 + 65_536 // len(line)), 0
        rest = block
        while sent < most and select.select([], [self.stdin], [], 0.5)[1]:
            written = os.write(self.stdin, rest)
            sent += written
            rest = rest[written:] or block
        return sent

    def memory(self) -> int:
        """The most bytes of memory that it has had at a time."""
        status = Path(f"/proc/{self.pid}/status").read_text("ascii")
        return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


@contextmanager
def program(*options: str) -> Generator[Program]:
    """The peer with these options, killed in the end if it has not ended."""
    argv = [sys.executable, str(PROGRAMS / "peer.py"), *options]
    with nothing_left(), subprocess.Popen(argv, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL) as process:
        try:
            yield Program(process)
        finally:
            process.kill()


def listing(request_id: bytes) -> bytes:
    """A `session/list`, as long as no test is about its params."""
    return b'{"jsonrpc":"2.0","id":%s,"method":"session/list","params":{}}' % request_id


def listed(request_id: bytes) -> bytes:
    """Its answer."""
    return b'{"jsonrpc":"2.0","id":%s,"result":{"sessions":[]}}' % request_id


def failed(request_id: bytes, code: int, message: str) -> bytes:
    """An error's line."""
    error = json.dumps({"code": code, "message": message}, separators=(",", ":")).encode()
    return b'{"jsonrpc":"2.0","id":%s,"error":%s}' % (request_id, error)


# --- ids --------------------------------------------------------------------------------------------------------------


@each_loop
def test_good_lines_of_the_hostile_cases_are_answered_to_the_byte(loop: list[str]) -> None:
    """W-EN-09, W-EN-19, W-EN-21, W-EN-26: each by itself, and all in one write."""
    ids = {"W-EN-09": b"1", "W-EN-19": b"9223372036854775807", "W-EN-21": b'"1"', "W-EN-26": b"1"}
    with program("agent", *loop) as agent:
        for name, request_id in ids.items():
            agent.says(HOSTILE[name][1], listed(request_id))
        agent.says(b"\n".join(HOSTILE[name][1] for name in ids), *map(listed, ids.values()))


IDS: dict[bytes, bytes | None] = {
    **{one: one for one in (b"0", b"1", b"-1", b"-9223372036854775808", b'""', b'"1"', b'"1.0"', b'"null"', b'" 1"')},
    **{one: one for one in (rb'"\ud83d"', '"ä\u2028"'.encode(), rb'"\"\\\n"')},
    b"-0": b"0",
    rb'"\u0031\/"': b'"1/"',
    **dict.fromkeys((b"1.0", b"1e0", b"1.5", b"9223372036854775808", b"true", b"null", b"[1]", b"{}")),
}
"""An id as it is sent, and as it comes back; None where it is none."""


@each_loop
def test_an_id_comes_back_as_it_went_and_what_is_no_id_under_null(loop: list[str]) -> None:
    """ER-02, ER-03, W-EN-14..18: 1, 1.0 and "1" are three things, of which the second is no id."""
    with program("agent", *loop) as agent:
        for given, echoed in IDS.items():
            no_id = failed(b"null", -32600, "Expected a string or an int64 - at `$.id`")
            agent.says(listing(given), no_id if echoed is None else listed(echoed))


# --- sizes ------------------------------------------------------------------------------------------------------------


@each_loop
def test_a_line_over_the_limit_is_told_skipped_and_kept_nowhere(loop: list[str]) -> None:
    """S-SZ-02: at the limit it is read; above, one answer has both numbers; the next line is read."""
    limit = 100_000
    frame = b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"_meta":{"x":"%s"}}}'
    bare = len(frame) - 2
    with program("agent", f"line={limit}", *loop) as agent:
        agent.says(frame % (b"y" * (limit - bare)), listed(b"1"))
        before = agent.memory()
        for size in (limit + 1, 64 * MIB):
            told = f"{size} bytes, over the limit of {limit} bytes a line (Limits.line) - at `$`"
            around = (listing(b"2"), frame % (b"y" * (size - bare)), listing(b"3"))
            agent.says(b"\n".join(around), listed(b"2"), failed(b"1", -32600, told), listed(b"3"))
        assert agent.memory() < before + 8 * MIB


@each_loop
def test_nesting_without_end_is_one_parse_error(loop: list[str]) -> None:
    """S-SZ-03."""
    with program("agent", *loop) as agent:
        for depth in (5_000, 100_000):
            deep = b"[" * depth + b"]" * depth
            objects = b'{"x":' * depth + b"1" + b"}" * depth
            for params in (b'{"_meta":{"x":%s}}', b'{"ignored":%s}', b"%s", b'{"cursor":%s}'):
                for value in (deep, objects, deep[:depth]):
                    line = b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":%s}' % (params % value)
                    agent.says(
                        line + b"\n" + listing(b"2"),
                        failed(b"null", -32700, "Nested too deep - at `$`"),
                        listed(b"2"),
                    )


NUMBERS: dict[bytes, bytes | str] = {
    b"1": b"1",
    b"-0": b"0",
    b"65535": b"65535",
    b"65536": "Expected `int` <= 65535",
    b"1E2": "Expected `int`, got `float`",
    b"-0.0": "Expected `int`, got `float`",
    b"1e400": "Number out of range",
    b"1" * 5_000: "Integer value out of range",
    b"-" + b"1" * 5_000: "Integer value out of range",
}
"""A protocol version as it is sent, and as it comes back, or what is wrong with it."""


@pytest.mark.parametrize("number", list(NUMBERS), ids=lambda number: number[:8].decode())
@each_loop
def test_a_number_of_any_form_gets_a_clear_answer(loop: list[str], number: bytes) -> None:
    """S-SZ-04: for an integer, and where nobody looks at it."""
    outcome = NUMBERS[number]
    params = b'{"protocolVersion":%s,"info":{"name":"n","version":"1"}}' % number
    if isinstance(outcome, str):
        answer = failed(b"1", -32602, f"{outcome} - at `$.params.protocolVersion`")
    else:
        result = b'{"protocolVersion":%s,"info":{"name":"n","version":"1"},"capabilities":{}}' % outcome
        answer = b'{"jsonrpc":"2.0","id":1,"result":%s}' % result
    with program("agent", *loop) as agent:
        agent.says(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":%s}' % params, answer)
        agent.says(listing(b"2").replace(b"{}", b'{"ignored":%s}' % number), listed(b"2"))


# --- cuts -------------------------------------------------------------------------------------------------------------


@each_loop
@pytest.mark.parametrize("to", ["agent", "client"])
def test_every_cut_of_every_hostile_line_into_two_reads_changes_nothing(to: str, loop: list[str]) -> None:
    """S-SP-01: before the line feed and after it, too, with a carriage return before it."""
    with program("agent" if to == "agent" else "listener", *loop) as peer:
        for name, (side, line) in HOSTILE.items():
            if side != to:
                continue
            whole = line + b"\r\n"
            expected = peer.after(whole)
            for cut in range(1, len(whole)):
                assert peer.after(whole[:cut], whole[cut:]) == expected, (name, cut)


@each_loop
def test_a_byte_a_read_changes_nothing(loop: list[str]) -> None:
    """S-SP-01."""
    with program("agent", *loop) as peer:
        for name in ("W-EN-09", "W-EN-21", "W-EN-23", "W-EN-28", "W-EN-32", "W-CN-02"):
            line = HOSTILE[name][1]
            assert peer.after(*(bytes([byte]) for byte in line)) == peer.after(line)


@pytest.mark.parametrize("size", [1, 2, 65_535, 65_536, 65_537])
@each_loop
def test_the_last_line_without_its_line_feed_is_answered(loop: list[str], size: int) -> None:
    """S-SP-02: and then the process ends with 0; of half a line, too."""
    argv = [sys.executable, str(PROGRAMS / "peer.py"), "agent", *loop]
    padded = listing(b"1").replace(b"{}", b'{"_meta":{"x":"%s"}}' % (b"y" * size))
    truncated = failed(b"null", -32700, "Input data was truncated - at `$`")
    for data, answers in (
        (padded, [listed(b"1")]),
        (listing(b"0") + b"\n" + padded, [listed(b"0"), listed(b"1")]),
        (padded + b"\n" + padded[:-1], [listed(b"1"), truncated]),
        (padded + b"\r", [listed(b"1")]),
    ):
        done = subprocess.run(argv, input=data, stdout=subprocess.PIPE, timeout=SECONDS, check=True)
        assert done.stdout == b"".join(answer + b"\n" for answer in answers)


# --- order ------------------------------------------------------------------------------------------------------------


def chunk(text: str) -> v2.UpdateSessionNotification:
    """An update of the session `s` with a text."""
    update = v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text=text))
    return v2.UpdateSessionNotification(session_id="s", update=update)


def text_of(told: v2.UpdateSessionNotification) -> str:
    """The text of that."""
    assert isinstance(told.update, v2.AgentMessageChunk)
    assert isinstance(told.update.content, v2.TextContent)
    return told.update.content.text


def told(text: str) -> bytes:
    """Its line."""
    return v2.SESSION_UPDATE.notification(chunk(text))


INITIALIZED = (
    b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2,"info":{"name":"n","version":"1"},'
    b'"capabilities":{"session":{}}}}\n'
)
ANSWERING = """
import fcntl, os, sys, termios
for writes in {turns!r}:
    sys.stdin.readline()
    for one in writes:
        os.write(1, one)
        while any(fcntl.ioctl(1, termios.FIONREAD, bytes(4))):
            os.sched_yield()
sys.stdin.read()
"""


def answering(*turns: tuple[bytes, ...]) -> tuple[str, str, str]:
    """A command that makes some writes for each line that it gets, and has each read alone; it waits for its end."""
    return sys.executable, "-c", ANSWERING.format(turns=turns)


def client_of(transport: Transport, update: Callable[[v2.UpdateSessionNotification], object]) -> Peer:
    """A client's peer with a handler of updates."""
    return Peer(transport, Connection("client", v2.decode_from_agent, v2.METHODS), {v2.SESSION_UPDATE: update})


PROMPT = v2.PromptRequest(session_id="s", prompt=[v2.TextContent(text="hi")])


@on_each_loop
async def test_an_update_that_is_written_with_an_answer_before_it_comes_first() -> None:
    """S-OR-01: in one write of a process, before `session/prompt` is answered; and the one behind it comes behind."""
    seen: list[str] = []
    write = told("before") + b'{"jsonrpc":"2.0","id":0,"result":{"messageId":"m"}}\n' + told("behind")
    async with client_of(await spawn_process(*answering((write,))), lambda it: seen.append(text_of(it))) as peer:
        await peer.request(v2.SESSION_PROMPT, PROMPT, arrived=lambda _: seen.append("answer"))
        assert seen[:2] == ["before", "answer"]
        await until(lambda: len(seen) == 3)
    assert seen == ["before", "answer", "behind"]


@pytest.mark.parametrize("is_cut", [False, True])
@on_each_loop
async def test_an_update_before_its_session_is_known_is_that_sessions(is_cut: bool) -> None:
    """S-OR-02, SS-09: in the read of the answer to `session/new`, or one long before it."""
    early, answer = told("early"), b'{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}\n'
    writes = (early, answer) if is_cut else (early + answer,)
    async with acpwire.spawn_agent(*answering((INITIALIZED,), writes)) as agent:
        session = await agent.new_session(cwd="/")
        await until(lambda: bool(session.transcript.text))
        assert session.transcript.text == "early"


@on_each_loop
async def test_ten_thousand_updates_of_a_process_keep_their_order_however_long_each_takes() -> None:
    """S-OR-03."""
    seen: list[str] = []
    chance = random.Random(3)  # noqa: S311  # no secret

    async def handler(params: v2.UpdateSessionNotification) -> None:
        for _ in range(chance.choice([0, 0, 0, 0, 1, 4])):
            await asyncio.sleep(0)
        seen.append(text_of(params))

    expected = [str(number) for number in range(10_000)]
    code = (
        "import os, sys\nsys.stdin.readline()\nfor number in range(10_000):\n"
        f"    os.write(1, {told('NUMBER')!r}.replace(b'NUMBER', b'%d' % number))\n"
        """os.write(1, b'{"jsonrpc":"2.0","id":0,"result":{"messageId":"m"}}\\n')\nsys.stdin.read()"""
    )
    async with client_of(await spawn_process(sys.executable, "-c", code), handler) as peer:
        await peer.request(v2.SESSION_PROMPT, PROMPT)
        assert seen == expected


# --- floods -----------------------------------------------------------------------------------------------------------

STREAM = b'{"jsonrpc":"2.0","id":7,"method":"session/fork","params":{"sessionId":"s","cwd":"/"}}\n'
CANCEL = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}\n'


@each_loop
def test_a_process_that_streams_to_nobody_waits_in_bounded_memory_and_can_be_cancelled(loop: list[str]) -> None:
    """S-BP-02: the other end reads nothing; it goes on where it does, and what was sent is whole."""
    with program("agent", *loop) as agent:
        agent.says(listing(b"1"), listed(b"1"))
        before = agent.memory()
        agent.say(STREAM)
        for _ in range(2_000):  # turns of its loop, in each of which it could send more
            agent.say_alone(b'{"jsonrpc":"2.0","method":"_x/turn"}\n')
        assert agent.memory() < before + 16 * MIB
        agent.say_alone(CANCEL)
        lines = [agent.line()]
        while b'"id"' not in lines[-1]:
            lines.append(agent.line())
        assert lines.pop() == failed(b"7", -32800, "Request cancelled")
        assert set(lines) == {told("x" * 10_000).rstrip()}
        agent.says(listing(b"1"), listed(b"1"))
        assert agent.memory() < before + 16 * MIB


FLOODS = {
    "unknown": b'{"jsonrpc":"2.0","method":"_x/flood","params":{"x":"%s"}}\n' % (b"y" * 2_000),
    "garbage": b"{" + b"y" * 2_000 + b"\n",
    "answers": b'{"jsonrpc":"2.0","id":5,"result":{"x":"%s"}}\n' % (b"y" * 2_000),
    "no lines": b"y" * 2_000,
}


@pytest.mark.parametrize("kind", list(FLOODS))
def test_a_flood_of_what_nobody_wants_is_read_in_bounded_memory(kind: str) -> None:
    """Notifications and answers that nobody knows, garbage, and a line that does not end."""
    with program("agent", "parse_errors=10", "line=1000000") as agent:
        agent.says(listing(b"1"), listed(b"1"))
        before = agent.memory()
        assert agent.flood(FLOODS[kind], 128 * MIB) >= 128 * MIB
        assert agent.memory() < before + 16 * MIB


@each_loop
def test_a_process_that_is_asked_and_whose_answers_nobody_reads_stops_reading(loop: list[str]) -> None:
    """Limits.unread_answers, by its memory."""
    with program("agent", "unread_answers=2000000", *loop) as agent:
        agent.says(listing(b"1"), listed(b"1"))
        before = agent.memory()
        assert agent.flood(listing(b"1") + b"\n", 256 * MIB) < 32 * MIB
        assert agent.memory() < before + 16 * MIB


@each_loop
def test_a_stream_that_was_begun_and_is_not_read_on_holds_the_flood_up(loop: list[str]) -> None:
    """S-BP-01: of a client that is a process, by its memory."""
    with program("reader", *loop) as client:
        assert b'"initialize"' in client.line()
        client.say(INITIALIZED)
        assert b'"session/new"' in client.line()
        client.say(b'{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}\n')
        assert b"reads one" in client.line()
        client.say(told("first"))
        assert b"reads no more" in client.line()
        before = client.memory()
        assert client.flood(told("y" * 2_000), 512 * MIB) < 64 * MIB
        assert client.memory() < before + 64 * MIB
