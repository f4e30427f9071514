"""Captures: what is recorded is read back byte for byte, and no file is so broken that reading raises or loses lines.

The laws are tried on random bytes, on files cut at every place, and on recordings that went on after a crash; pairing
and guessing on recorded traffic whose senders are known.
"""

from __future__ import annotations

import gc
import gzip
import hashlib
import io
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acpwire import capture, v2
from acpwire.capture import Record, Recorder, Sender, read_capture
from acpwire.compression import read_path
from acpwire.wire.errors import DecodeError
from acpwire.wire.lines import DEFAULT_LIMIT
from tests import __file__ as tests_file
from tests import fuzz

CORPUS = Path(tests_file).parent / "corpus"
HEADER = b'{"format":"acpwire-capture","version":1}\n'

UPDATE = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    b'{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"Hi"}}}}'
)


def request(request_id: str, method: str, params: str = "{}") -> bytes:
    return f'{{"jsonrpc":"2.0","id":{request_id},"method":"{method}","params":{params}}}'.encode()


def response(request_id: str, result: str) -> bytes:
    return f'{{"jsonrpc":"2.0","id":{request_id},"result":{result}}}'.encode()


def error(request_id: str) -> bytes:
    return f'{{"jsonrpc":"2.0","id":{request_id},"error":{{"code":1,"message":"no"}}}}'.encode()


def cancel(request_id: str) -> bytes:
    return f'{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{request_id}}}}}'.encode()


NEW = request("1", "session/new", '{"cwd":"/","mcpServers":[]}')
NEW_RESULT = response("1", '{"sessionId":"s"}')
PERMISSION = request(
    "1", "session/request_permission", '{"sessionId":"s","title":"?","options":[],"toolCall":{"toolCallId":"t"}}'
)


def read(data: bytes, sender: Sender | None = None) -> list[Record]:
    return list(read_capture(io.BytesIO(data), sender))


def malformed(record: Record) -> v2.Malformed:
    assert isinstance(record.message, v2.Malformed)
    return record.message


@pytest.fixture(params=(".ndjson", ".ndjson.gz", ".ndjson.zst"))
def ending(request: pytest.FixtureRequest) -> str:
    """Every kind of file."""
    return str(request.param)


# --- recordings ------------------------------------------------------------------------------------------------------

SENDERS: st.SearchStrategy[Sender] = st.sampled_from(("agent", "client"))
TEXTS = st.text(st.characters(codec="utf-8")).map(str.encode)
LINES = st.one_of(st.binary(), TEXTS, st.sampled_from([UPDATE, b'"\\ud83d"', b"\r", b"\n\n", b"\xef\xbb\xbf{}"]))


@given(st.lists(st.tuples(SENDERS, LINES, st.floats(0, 1e12))))
@settings(max_examples=60, deadline=None)
def check_round_trip(suffix: str, entries: list[tuple[Sender, bytes, float]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"it{suffix}"
        with Recorder(path) as recorder:
            for sender, line, time in entries:
                recorder.record(sender, line, time)
        records = list(read_capture(path))
    entries = [entry for entry in entries if entry[1].strip(b" \t\r\n")]  # blank lines are left out
    assert [(one.sender, one.line, one.time) for one in records] == [
        (sender, line.removesuffix(b"\n"), time) for sender, line, time in entries
    ]
    decode = {"agent": v2.decode_from_agent, "client": v2.decode_from_client}
    assert [one.message for one in records] == [decode[sender](line.removesuffix(b"\n")) for sender, line, _ in entries]


def test_any_bytes_are_read_back_as_they_were_recorded(ending: str) -> None:
    check_round_trip(ending)


def test_a_recording_looks_as_documented(tmp_path: Path) -> None:
    path = tmp_path / "it.ndjson"
    with Recorder(path) as recorder:
        recorder.record("client", b'{"a":"\xc3\xa9"}\n', 1700000000.25)
        recorder.record("agent", memoryview(b"\xff"), 2)
    assert path.read_bytes() == (
        HEADER
        + b'{"time":1700000000.25,"sender":"client","line":"{\\"a\\":\\"\xc3\xa9\\"}"}\n'
        + b'{"time":2.0,"sender":"agent","base64":"/w=="}\n'
    )
    assert '{"format":"acpwire-capture","version":1}' in (Recorder.__doc__ or "")
    assert '{"time":1700000000.5,"sender":"agent","base64":"/w=="}' in (Recorder.__doc__ or "")


def test_the_time_is_now_unless_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "now", lambda: 17.5)
    with Recorder(tmp_path / "it") as recorder:
        recorder.record("agent", UPDATE)
    assert [one.time for one in read_capture(tmp_path / "it")] == [17.5]


@pytest.mark.parametrize("time", [float("nan"), float("inf"), -float("inf")])
def test_a_time_that_is_no_number_is_refused(time: float, tmp_path: Path) -> None:
    with Recorder(tmp_path / "it") as recorder, pytest.raises(ValueError, match="a number of seconds"):
        recorder.record("agent", UPDATE, time)


def test_blank_lines_are_not_recorded(tmp_path: Path) -> None:  # TR-05
    with Recorder(tmp_path / "it") as recorder:
        for line in (b"", b"\n", b" \t\r\n", UPDATE):
            recorder.record("agent", line)
    assert [one.line for one in read_capture(tmp_path / "it")] == [UPDATE]


def test_a_recording_may_begin_with_a_byte_order_mark() -> None:
    (record,) = read(b"\xef\xbb\xbf" + HEADER + b'{"sender":"agent","line":"{}"}\n')
    assert (record.sender, record.line) == ("agent", b"{}")


def test_offsets_and_numbers_point_at_the_lines_of_the_recording(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{ending}"
    with Recorder(path) as recorder:
        for number in range(500):
            recorder.record("agent", b"%d" % number * (number % 7 + 1))
    whole = b"".join(block for block in read_path(path) if isinstance(block, bytes))
    for record in read_capture(path):
        assert whole[: record.offset].endswith(b"\n")
        assert whole[: record.offset].count(b"\n") == record.number - 1
        assert whole[record.offset :].startswith(b'{"time":')
    assert len({record.offset for record in read_capture(path)}) == 500


def test_a_recorder_refuses_other_senders_and_lines_after_its_end(ending: str, tmp_path: Path) -> None:
    with Recorder(tmp_path / f"it{ending}") as recorder:
        with pytest.raises(ValueError, match="sender"):
            recorder.record("proxy", b"{}")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # that is the point
        recorder.record("agent", UPDATE)
    recorder.close()
    with pytest.raises(ValueError, match="closed"):
        recorder.record("agent", UPDATE)
    assert [one.line for one in read_capture(tmp_path / f"it{ending}")] == [UPDATE]


def test_a_recorder_that_cannot_write_raises_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Recorder(tmp_path / "no" / "it.ndjson")


def test_without_zstd_the_error_names_what_to_install_and_no_file_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    path = tmp_path / "it.zst"
    with pytest.raises(ImportError, match=r"backports\.zstd or zstandard"):
        Recorder(path)
    assert not path.exists()
    path.write_bytes(b"")
    with pytest.raises(ImportError, match=r"backports\.zstd or zstandard"):
        read_capture(path)


def test_members_that_a_later_version_may_add_are_ignored() -> None:
    (record,) = read(HEADER + b'{"time":1,"session":[1],"sender":"agent","line":"{}"}\n')
    assert (record.time, record.sender, record.line) == (1.0, "agent", b"{}")


def test_the_time_may_be_missing() -> None:
    (record,) = read(HEADER + b'{"sender":"agent","line":"{}"}\n')
    assert record.time is None


@pytest.mark.parametrize(
    ("line", "path", "expected"),
    [
        (b'{"sender":"secret","line":"{}"}', "$.sender", "enum"),
        (b'{"line":"{}"}', "$", "sender"),
        (b'{"sender":"agent"}', "$", "line"),
        (b'{"sender":"agent","line":"secret","base64":"AA=="}', "$", "either"),
        (b'{"sender":"agent","base64":"secret!"}', "$.base64", "base64"),
        (b'["secret"]', "$", "object"),
        (b"secret", "$", "record"),
        (b'{"x":' * fuzz.DEEP[-1], "$", "deep"),
        (b'{"format":"acpwire-capture","version":2}', "$.version", "version 1"),
    ],
)
def test_a_line_that_is_no_record_is_reported_and_the_next_is_read(line: bytes, path: str, expected: str) -> None:
    entry = b'{"time":1,"sender":"agent","line":"{}"}\n'
    before, wrong, after = read(HEADER + entry + line + b"\n" + entry)
    assert before.line == after.line == b"{}"
    assert (wrong.sender, wrong.time, wrong.line) == (None, None, line)
    fault = malformed(wrong)
    assert (fault.line, fault.code, fault.path) == (line, None, path)
    assert expected in fault.message
    assert "secret" not in fault.message


def test_a_recording_may_begin_anywhere() -> None:
    entry = b'{"time":1,"sender":"client","line":"{}"}\n'
    for begin in (b"", b"\n", b'er":"client","line":"{}"}\n', HEADER[9:], HEADER[:9] + b"\xff" + HEADER[9:]):
        *_, last = records = read(begin + entry)
        assert (last.sender, last.line, last.offset) == ("client", b"{}", len(begin))
        assert len(records) == 1 + (begin not in (b"", b"\n"))


def test_a_peer_that_sends_what_looks_like_a_recording_does_not_change_how_the_rest_is_read() -> None:
    records = read(UPDATE + b"\n" + HEADER + b'{"time":1,"sender":"client","line":"{}"}\n' + UPDATE)
    assert [one.line for one in (records[0], records[3])] == [UPDATE, UPDATE]
    assert [malformed(one).code for one in records[1:3]] == [-32600, -32600]


def test_a_recording_of_nothing_has_no_records_even_without_its_line_feed() -> None:
    assert read(HEADER) == read(HEADER[:-1]) == []


def test_a_newer_format_is_reported_and_still_read() -> None:
    first, second = read(HEADER.replace(b"1", b"2") + b'{"sender":"agent","line":"{}"}\n')
    assert "version 1" in malformed(first).message
    assert second.line == b"{}"


def test_the_argument_does_not_overrule_what_a_recording_says() -> None:
    (record,) = read(HEADER + b'{"sender":"agent","line":"{}"}\n', "client")
    assert record.sender == "agent"


# --- crashes ---------------------------------------------------------------------------------------------------------


def lines_of_the_recording(path: Path, suffix: str, count: int = 12) -> list[bytes]:
    """Write a recording of lines that compress badly; the file is as after a crash, its end missing."""
    lines = [b"%d %s" % (size, hashlib.shake_256(b"%d" % size).hexdigest(size * 3).encode()) for size in range(count)]
    keeper = path.with_name(f"whole{suffix}")
    recorder = Recorder(keeper)
    for line in lines:
        recorder.record("agent", line, 1.0)
    path.write_bytes(keeper.read_bytes())
    recorder.close()
    return lines


def sizes_after_each_line(folder: Path, suffix: str, lines: Sequence[bytes]) -> list[int]:
    """How big the file was when each line had been recorded."""
    path = folder / f"sizes{suffix}"
    sizes: list[int] = []
    with Recorder(path) as recorder:
        for line in lines:
            recorder.record("agent", line, 1.0)
            sizes.append(path.stat().st_size)
    return sizes


def test_whatever_was_recorded_is_in_a_file_that_a_crash_left(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{ending}"
    lines = lines_of_the_recording(path, ending)
    records = list(read_capture(path))
    assert [one.line for one in records[: len(lines)]] == lines
    # a compressed file without its end says so; a plain one has none
    assert [malformed(one).line for one in records[len(lines) :]] == ([] if ending == ".ndjson" else [b""])


def test_a_file_cut_anywhere_keeps_every_line_before_and_reports_the_cut(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{ending}"
    lines = lines_of_the_recording(path, ending)
    sizes = sizes_after_each_line(tmp_path, ending, lines)
    whole = path.read_bytes()
    assert sizes[-1] == len(whole)
    for cut in range(sizes[0] - 1, len(whole)):
        path.write_bytes(whole[:cut])
        records = list(read_capture(path))
        good = [one for one in records if one.sender is not None]
        kept = sum(size <= cut for size in sizes)
        assert [one.line for one in good] == lines[: len(good)]
        assert kept <= len(good) <= kept + 1  # the line's last byte may be its line feed, or the compression's own
        faults = records[len(good) :]
        if ending != ".ndjson":
            assert [malformed(one).code for one in faults] == [None]
        elif cut not in sizes and cut + 1 not in sizes:
            assert [malformed(one).message for one in faults] == ["The file ends inside this line"]
            (fault,) = faults
            assert fault.line == whole[fault.offset : cut]
        else:
            assert not faults


def test_a_recorder_goes_on_after_a_crash_wherever_it_came(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{ending}"
    lines = lines_of_the_recording(path, ending)
    sizes = sizes_after_each_line(tmp_path, ending, lines)
    whole = path.read_bytes()
    for cut in range(sizes[3], sizes[6]):
        path.write_bytes(whole[:cut])
        with Recorder(path) as recorder:
            recorder.record("client", b"after", 2.0)
        records = list(read_capture(path))
        got = [one.line for one in records if one.sender is not None]
        kept = [line for line, size in zip(lines, sizes, strict=True) if size <= cut]
        assert got[: len(kept)] == kept
        assert got[-1] == b"after"
        assert len(got) - len(kept) in (1, 2)


def test_a_recorder_continues_a_file_that_was_closed(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{ending}"
    for line in (b"one", b"two"):
        with Recorder(path) as recorder:
            recorder.record("agent", line)
    # a blank line stands before what was added
    assert [(one.number, one.line) for one in read_capture(path)] == [(2, b"one"), (5, b"two")]


def test_a_killed_process_loses_nothing_that_it_recorded(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{ending}"
    program = f"""
        import os, signal
        from acpwire.capture import Recorder
        recorder = Recorder({str(path)!r})
        for number in range(100):
            recorder.record("agent", b"%d" % number)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert [one.line for one in read_capture(path) if one.sender] == [b"%d" % number for number in range(100)]


@given(st.data())
@settings(max_examples=80, deadline=None)
def check_damage(suffix: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"it{suffix}"
        lines = lines_of_the_recording(path, suffix, 6)
        sizes = sizes_after_each_line(Path(folder), suffix, lines)
        spoiled = bytearray(path.read_bytes())
        place = data.draw(st.integers(0, len(spoiled) - 1))
        spoiled[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
        path.write_bytes(spoiled)
        records = list(read_capture(path))
    whole = sum(size <= place for size in sizes) if suffix == ".ndjson" else 0
    assert [one.line for one in records[:whole]] == lines[:whole]


def test_no_damage_makes_reading_raise(ending: str) -> None:
    check_damage(ending)


@pytest.mark.parametrize("ending", [".ndjson.gz", ".ndjson.zst"])
def test_what_follows_a_damaged_member_is_read(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{ending}"
    with Recorder(path) as recorder:
        recorder.record("agent", b"lost")
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    with Recorder(path) as recorder:
        recorder.record("agent", b"found")
    fault, found = read_capture(path)
    assert (fault.offset, fault.number, fault.line, fault.sender) == (0, 1, b"", None)
    assert "damaged" in malformed(fault).message
    assert (found.sender, found.line, found.number) == ("agent", b"found", 3)


def test_a_gz_that_is_no_gzip_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "it.gz"
    path.write_bytes(UPDATE + b"\n")
    (fault,) = read_capture(path)
    assert (fault.offset, fault.line, fault.sender) == (0, b"", None)
    assert "gzip" in malformed(fault).message


def test_damage_is_said_once_of_the_line_that_it_cuts_or_else_in_a_record_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "it.gz"
    for line in (UPDATE[:9], UPDATE):
        path.write_bytes(gzip.compress(UPDATE + b"\n" + line)[:-8])
        whole, cut, *more = read_capture(path)
        assert (whole.line, cut.line, cut.offset, cut.number) == (UPDATE, line, len(UPDATE) + 1, 2)
        assert [malformed(one).message for one in more] == (["The gzip data ends early"] if line == UPDATE else [])
        if line != UPDATE:
            assert malformed(cut).message == "The gzip data ends early inside this line"


# --- bare lines ------------------------------------------------------------------------------------------------------


class InPieces:
    """A file that gives as much as it likes at a time."""

    def __init__(self, data: bytes, sizes: Sequence[int]) -> None:
        self._file = io.BytesIO(data)
        self._sizes = itertools.cycle(sizes)

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, next(self._sizes)))


BARE = st.lists(
    st.one_of(
        st.sampled_from(
            [UPDATE, NEW, NEW_RESULT, b"", b"\r", b" \t ", b"\x0b", b"{", UPDATE + b"\r", b'{"jsonrpc":"3",']
        ),
        st.binary(max_size=9),
    )
).map(b"\n".join)


@given(BARE, st.lists(st.integers(1, 40), min_size=1), st.sampled_from(["agent", "client", None]))
@settings(max_examples=150)
def test_bare_lines_come_with_their_offsets_and_numbers_however_the_blocks_fall(
    data: bytes, sizes: list[int], sender: Sender | None
) -> None:
    starts = [0, *(place + 1 for place, byte in enumerate(data) if byte == 10)]
    numbers = range(1, len(starts) + 1)
    stops = [*(start - 1 for start in starts[1:]), len(data)]
    expected = [
        (start, number, data[start:stop])
        for start, number, stop in zip(starts, numbers, stops, strict=True)
        if data[start:stop].strip(b" \t\r")
    ]
    records = list(read_capture(InPieces(data, sizes), sender))
    assert [(one.offset, one.number, one.line) for one in records] == expected
    assert records == read(data, sender)
    assert {one.time for one in records} <= {None}


@pytest.mark.parametrize("sender", ["agent", "client"])
def test_recorded_traffic_reads_as_the_decoder_reads_it(sender: Sender) -> None:
    path = CORPUS / "codex-acp" / f"{sender}_to_{'client' if sender == 'agent' else 'agent'}.ndjson"
    decode = v2.decode_from_agent if sender == "agent" else v2.decode_from_client
    lines = path.read_bytes().splitlines()
    for given_or_not in (sender, None):
        records = list(read_capture(path, given_or_not))
        assert [one.line for one in records] == lines
        assert [one.message for one in records] == list(map(decode, lines))
        assert {one.sender for one in records} == {sender}


def test_a_last_line_without_its_line_feed_is_a_line() -> None:
    first, second = read(UPDATE + b"\n" + UPDATE)
    assert first.message == second.message
    assert second.offset == len(UPDATE) + 1


@pytest.mark.parametrize("sender", ["agent", None])
def test_a_bare_capture_cut_anywhere_reports_its_last_line(sender: Sender | None) -> None:
    for cut in range(1, len(UPDATE)):
        first, second = read(UPDATE + b"\n" + UPDATE[:cut], sender)
        assert first.message == v2.decode_from_agent(UPDATE)
        fault = malformed(second)
        assert (second.line, fault.line, fault.code) == (UPDATE[:cut], UPDATE[:cut], -32700)
        assert fault.message == "The file ends inside this line"


def test_a_cut_is_reported_whoever_is_guessed_to_have_sent_the_line() -> None:
    _, cut = read(NEW + b"\n" + NEW[:-1])
    assert (cut.sender, malformed(cut).code) == ("client", -32700)
    assert malformed(cut).message == "The file ends inside this line"


@pytest.mark.parametrize("line", [b'"\\ud83d"', b"[]", b'{"jsonrpc":"3"}', NEW.replace(b"1", b"[]")])
def test_a_last_line_that_is_whole_but_wrong_is_not_taken_for_cut_off(line: bytes) -> None:
    assert malformed(read(line)[0]) == v2.decode_from_agent(line)


def test_an_empty_file_has_no_records(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"it{ending}"
    path.write_bytes(b"")
    assert list(read_capture(path)) == []


def test_a_line_over_the_limit_is_one_report_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "LINE_LIMIT", 200_000)
    long = b'{"a":"' + b"x" * 300_000 + b'"}'
    for data in (UPDATE + b"\n" + long + b"\n" + UPDATE + b"\n", UPDATE + b"\n" + long):
        records = read(data)
        fault = malformed(records[1])
        assert "300008 bytes" in fault.message
        assert "200000" in fault.message
        assert long.startswith(records[1].line)
        assert [one.offset for one in records] == [0, len(UPDATE) + 1, len(UPDATE) + len(long) + 2][: len(records)]
        assert {one.line for one in (*records[:1], *records[2:])} == {UPDATE}


def test_a_line_over_the_limit_that_begins_with_white_space_is_reported_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capture, "LINE_LIMIT", 200_000)
    before, long, after = read(UPDATE + b"\n" + b" " * 300_000 + b"{}\n" + UPDATE + b"\n")
    assert "300002 bytes" in malformed(long).message
    assert (before.line, after.line, after.offset) == (UPDATE, UPDATE, len(UPDATE) + 300_004)


def test_a_recorded_line_may_be_longer_than_the_line_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(capture, "LINE_LIMIT", capture.LINE_LIMIT // DEFAULT_LIMIT * 100_000)
    line = b"\x01" * 99_990  # six bytes each in JSON
    with Recorder(tmp_path / "it") as recorder:
        recorder.record("agent", line)
    assert [one.line for one in read_capture(tmp_path / "it")] == [line]


# --- who answers whom ------------------------------------------------------------------------------------------------


def recorded(*entries: tuple[Sender, bytes]) -> list[Record]:
    with tempfile.TemporaryDirectory() as folder:
        with Recorder(Path(folder) / "it") as recorder:
            for sender, line in entries:
                recorder.record(sender, line)
        return list(read_capture(Path(folder) / "it"))


def test_the_result_of_a_response_is_typed_by_its_request() -> None:
    asked, answered = recorded(("client", NEW), ("agent", NEW_RESULT))
    assert asked.result is v2.UNSET
    assert answered.result == v2.NewSessionResponse(session_id="s")
    assert answered.fault is None
    assert isinstance(answered.message, v2.Response)


def test_ids_of_both_sides_and_of_both_types_are_kept_apart() -> None:
    text = NEW.replace(b'"id":1', b'"id":"1"')
    chosen = response("1", '{"outcome":{"outcome":"selected","optionId":"o"}}')
    records = recorded(
        ("client", text),
        ("agent", PERMISSION),
        ("client", request("1", "session/list")),
        ("client", chosen),
        ("agent", response("1", '{"sessions":[]}')),
        ("agent", response('"1"', '{"sessionId":"s"}')),
    )
    assert [type(one.result) for one in records[3:]] == [
        v2.RequestPermissionResponse,
        v2.ListSessionsResponse,
        v2.NewSessionResponse,
    ]


@pytest.mark.parametrize(
    "entries",
    [
        [("agent", NEW_RESULT)],
        [("client", NEW), ("client", NEW_RESULT)],
        [("client", NEW), ("agent", error("1")), ("agent", NEW_RESULT)],
        [("client", NEW), ("client", request("1", "_x")), ("agent", NEW_RESULT)],
        [("client", NEW), ("agent", response("2", '{"sessionId":"s"}'))],
        [("client", NEW), ("agent", error("null"))],
    ],
    ids=["no request", "own request", "answered before", "id used again", "another id", "id null"],
)
def test_a_response_without_its_request_stays_raw(entries: list[tuple[Sender, bytes]]) -> None:
    assert [one.result for one in recorded(*entries)] == [v2.UNSET] * len(entries)


def test_a_result_that_does_not_fit_stays_raw_and_says_why() -> None:
    _, answered = recorded(("client", NEW), ("agent", response("1", '{"sessionId":17}')))
    assert answered.result is v2.UNSET
    assert isinstance(answered.message, v2.Response)
    assert isinstance(answered.fault, DecodeError)
    assert answered.fault.path == "$.result.sessionId"
    assert "17" not in str(answered.fault)
    assert answered.fault.__traceback__ is None


def test_a_request_with_bad_params_is_answered_like_any_other() -> None:
    bad = request("1", "session/new", '{"cwd":17}')
    asked, answered = recorded(("client", bad), ("agent", NEW_RESULT))
    assert malformed(asked).id == 1
    assert answered.result == v2.NewSessionResponse(session_id="s")


def test_ids_begin_anew_where_a_recording_was_continued(tmp_path: Path) -> None:
    for sender, line in (("client", NEW), ("agent", NEW_RESULT)):
        with Recorder(tmp_path / "it") as recorder:
            recorder.record(sender, line)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a tuple's str
    assert [one.result for one in read_capture(tmp_path / "it")] == [v2.UNSET, v2.UNSET]


def test_waiting_requests_are_bounded_and_the_newest_are_kept() -> None:
    many = capture.WAITING_LIMIT + 1
    asked = b"".join(request(str(number), "session/list") + b"\n" for number in range(many))
    answers = [response(str(number), '{"sessions":[]}') + b"\n" for number in (0, 1, many - 1)]
    *_, forgotten, oldest, newest = read(asked + b"".join(answers))
    assert forgotten.result is v2.UNSET
    assert oldest.result == newest.result == v2.ListSessionsResponse(sessions=[])


def test_a_request_with_a_long_id_does_not_wait() -> None:
    for size, expected in ((capture.ID_LIMIT, v2.ListSessionsResponse(sessions=[])), (capture.ID_LIMIT + 1, v2.UNSET)):
        name = f'"{"x" * size}"'
        *_, answered = read(request(name, "session/list") + b"\n" + response(name, '{"sessions":[]}') + b"\n")
        assert answered.result == expected


# --- who sent it -----------------------------------------------------------------------------------------------------


def conversation(folder: str) -> list[tuple[Sender, bytes]]:
    """Both directions of recorded traffic in one order that is possible: no response before its request.

    The agent says all that it can, then the client says one line.
    """
    left: dict[Sender, list[bytes]] = {
        "client": (CORPUS / folder / "client_to_agent.ndjson").read_bytes().splitlines(),
        "agent": (CORPUS / folder / "agent_to_client.ndjson").read_bytes().splitlines(),
    }
    asked: dict[Sender, set[Any]] = {"client": set(), "agent": set()}
    order: list[tuple[Sender, bytes]] = []

    def say(side: Sender, other: Sender) -> bool:
        if not left[side]:
            return False
        message = v2.decode_from_agent(left[side][0])
        if isinstance(message, v2.Request):
            asked[side].add(message.id)
        elif isinstance(message, v2.Response):
            if message.id not in asked[other]:
                return False
            asked[other].remove(message.id)
        order.append((side, left[side].pop(0)))
        return True

    while any(left.values()):
        while say("agent", "client"):
            pass
        assert say("client", "agent") or not any(left.values())
    return order


def test_the_senders_of_mixed_traffic_are_guessed_right() -> None:
    order = conversation("codex-acp")
    assert len(order) == 324
    records = read(b"".join(line + b"\n" for _, line in order))
    assert [(one.sender, one.line) for one in records] == order
    answered = [one for one in records if isinstance(one.message, v2.Response)]
    assert len(answered) == 18
    assert all(one.result is not v2.UNSET for one in answered)
    assert [one.fault for one in records] == [None] * len(records)


def test_guessing_and_recording_read_the_same_traffic_alike() -> None:
    order = conversation("codex-acp")
    guessed = read(b"".join(line + b"\n" for _, line in order))
    known = recorded(*order)
    assert [(one.sender, one.message, one.result) for one in guessed] == [
        (one.sender, one.message, one.result) for one in known
    ]


CASES: dict[str, tuple[list[bytes], list[Sender]]] = {
    "a method of one side": ([NEW, UPDATE, PERMISSION], ["client", "agent", "agent"]),
    "bad params": ([request("1", "session/new", "[]"), UPDATE.replace(b'"s"', b"1")], ["client", "agent"]),
    "unknown, after the client": ([NEW, request("2", "_x"), b"{"], ["client", "client", "client"]),
    "unknown, at the beginning": ([request("2", "_x"), b"{", error("null")], ["agent", "agent", "agent"]),
    "a method of both sides": (
        [NEW, PERMISSION, request("2", "session/list"), cancel("1"), cancel("2"), UPDATE, cancel("3")],
        ["client", "agent", "client", "agent", "client", "agent", "agent"],
    ),
    "a response": ([NEW, UPDATE, NEW_RESULT, PERMISSION, error("1")], ["client", "agent", "agent", "agent", "client"]),
    "the later request": (
        [PERMISSION, request("1", "_x"), NEW, error("1"), error("1")],
        ["agent", "agent", "client", "agent", "client"],
    ),
    "the request that fits": ([NEW, PERMISSION, NEW_RESULT], ["client", "agent", "agent"]),
    "no request that fits": ([NEW, response("1", "{}")], ["client", "client"]),
}


@pytest.mark.parametrize(("lines", "senders"), CASES.values(), ids=CASES)
def test_a_sender_is_guessed_by_the_documented_rule(lines: list[bytes], senders: list[Sender]) -> None:
    assert [one.sender for one in read(b"\n".join(lines))] == senders


def test_the_message_of_a_guessed_line_is_read_from_its_sender() -> None:
    bad = request("1", "session/new", '{"cwd":17}')
    (record,) = read(bad)
    assert record.message == v2.decode_from_client(bad)
    assert malformed(record).path == "$.params.cwd"


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_path_that_cannot_be_read_raises_at_once(tmp_path: Path) -> None:
    for path in (tmp_path / "none", str(tmp_path / "none.gz"), tmp_path):
        with pytest.raises(OSError, match=str(tmp_path)):
            read_capture(path)


def test_arguments_of_a_wrong_kind_raise() -> None:
    with pytest.raises(ValueError, match="sender"):
        read_capture(io.BytesIO(), "proxy")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the point
    with pytest.raises(TypeError, match="bytes"):
        list(read_capture(io.StringIO("{}")))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the point


def test_a_file_is_closed_when_its_reader_is_dropped_or_closed(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes((UPDATE + b"\n") * 3)
    begun = read_capture(path)
    assert next(begun).line == UPDATE
    begun.close()
    read_capture(path)
    gc.collect()  # a file left open would warn, and warnings are errors
    assert list(begun) == []


def test_a_file_object_stays_open_and_is_read_from_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"skipped\n" + UPDATE + b"\n")
    with path.open("rb") as file:
        file.readline()
        assert [(one.offset, one.line) for one in read_capture(file)] == [(0, UPDATE)]
        assert not file.closed


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_line_is_there_before_the_pipe_has_ended(buffering: int) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering) as file, os.fdopen(writing, "wb", 0) as other:
        other.write(UPDATE + b"\n")
        records = read_capture(file)
        assert next(records).line == UPDATE
        other.write(NEW + b"\n" + UPDATE[:9])
        assert next(records).line == NEW
        other.close()
        assert malformed(next(records)).line == UPDATE[:9]
        assert list(records) == []


def endless(line: bytes, size: int) -> Iterator[bytes]:
    block = line * (65536 // len(line) + 1)
    for _ in range(size // len(block)):
        yield block


class Generated:
    """A file that is made while it is read."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks

    def read(self, _size: int) -> bytes:
        return next(self._blocks, b"")


@pytest.mark.parametrize(
    ("line", "size"),
    [(UPDATE + b"\n", 8_000_000), (b"\n" * 200 + UPDATE, 3_000_000), (b"x", 8_000_000)],
    ids=["updates", "blank lines", "one line"],
)
def test_memory_does_not_grow_with_the_file(line: bytes, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "LINE_LIMIT", 200_000)
    read(UPDATE + b"\n")
    tracemalloc.start()
    try:
        for _ in read_capture(Generated(endless(line, size))):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000


def test_reading_captures_needs_no_asyncio() -> None:
    program = "import sys, acpwire.capture; sys.exit('asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
