"""The command `acpwire`: what `inspect` counts, how it ends, and what it never prints.

Most runs are real processes on real files; following a file is driven by an injected wait, so that nothing sleeps.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import io
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acpwire import cli, v2
from acpwire.capture import Record, Recorder
from tests import __file__ as tests_file

CORPUS = Path(tests_file).parent / "corpus"
CODEX = CORPUS / "codex-acp" / "agent_to_client.ndjson"
KEYS = [
    "lines",
    "bytes",
    "kinds",
    "methods",
    "updates",
    "unknown",
    "malformed",
    "malformed_count",
    "sessions",
    "biggest_line",
    "seconds",
]
UPDATE = (
    b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
    b'{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"Hi"}}}}\n'
)
BAD = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"notice"}}}\n'
NEW = b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}\n'


def update(tag: str, session: str = "s") -> bytes:
    params = {"sessionId": session, "update": {"sessionUpdate": tag}}
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode() + b"\n"


def run(*arguments: str | Path, stdin: bytes = b"") -> tuple[int, str, str]:
    """Run the command as a process: exit code, output, errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "acpwire", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def counted(*arguments: str | Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `--json` prints, run in this process."""
    cli.main(["inspect", "--json", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert not err
    summary: dict[str, Any] = json.loads(out)
    return summary


# --- counting --------------------------------------------------------------------------------------------------------


def test_recorded_traffic_has_304_lines_and_none_malformed() -> None:
    code, out, err = run("inspect", "--strict", CODEX)
    assert (code, err) == (0, "")
    assert re.search(r"^lines +304$", out, re.MULTILINE)
    assert re.search(r"^malformed +0$", out, re.MULTILINE)
    assert re.search(r"^ +session/update +284$", out, re.MULTILINE)


def test_json_has_exactly_the_promised_keys() -> None:
    code, out, err = run("inspect", "--json", CODEX)
    assert (code, err) == (0, "")
    summary = json.loads(out)
    assert list(summary) == KEYS
    lines = CODEX.read_bytes().splitlines()
    assert summary["lines"] == len(lines) == sum(summary["kinds"].values())
    assert summary["bytes"] == CODEX.stat().st_size
    assert summary["biggest_line"] == max(map(len, lines))
    assert summary["kinds"] == {"notification": 286, "request": 4, "response": 14, "error": 0, "malformed": 0}
    assert sum(summary["updates"].values()) == summary["methods"]["session/update"] == 284
    assert (summary["malformed"], summary["malformed_count"], summary["unknown"]) == ([], 0, {})
    about = [{**message.get("params", {}), **message.get("result", {})} for message in map(json.loads, lines)]
    assert summary["sessions"] == len({one["sessionId"] for one in about if "sessionId" in one}) > 1
    assert summary["seconds"] > 0


def test_the_help_explains_every_key_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["inspect", "--help"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    listed = out[out.index("keys of --json") : out.index("exit codes")]
    for key in KEYS:
        assert re.search(rf"^  (?:lines, )?{key}\b", listed, re.MULTILINE), key


def test_unknown_tags_are_counted_wherever_they_stand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block = {"type": "_hologram", "x": 1}
    deep = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "t",
        "content": [{"type": "content", "content": block}, {"type": "_chart"}],
    }
    form = {
        "sessionId": "s",
        "mode": "form",
        "message": "?",
        "requestedSchema": {"type": "object", "properties": {"colour": {"type": "_colour"}}},
    }
    lines = [
        {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": deep}},
        {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "_x"}}},
        {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": form},
        {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {"sessionId": "s", "prompt": [block]}},
    ]
    path = tmp_path / "it"
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    summary = counted(path, capsys=capsys)
    assert summary["malformed"] == []
    assert summary["unknown"] == {"_hologram": 2, "_chart": 1, "_x": 1, "_colour": 1}
    assert summary["updates"] == {"tool_call_update": 1, "_x": 1}


def test_every_unknown_variant_of_the_corpus_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """Against a walk over every attribute of every message, which knows nothing of the shortcuts."""

    def walk(value: Any) -> list[str]:
        if isinstance(value, v2.UnknownVariant):
            return [value.tag]
        names: Any = getattr(value, "__struct_fields__", ())
        parts: list[Any] = [getattr(value, name) for name in names]
        parts += value if isinstance(value, list) else []
        parts += value.values() if isinstance(value, dict) else []
        return [tag for part in parts for tag in walk(part)]

    for path in sorted(CORPUS.glob("*/*.ndjson")):
        decode = v2.decode_from_agent if path.name.startswith("agent") else v2.decode_from_client
        expected = [tag for line in path.read_bytes().splitlines() for tag in walk(decode(line))]
        summary = counted(path, capsys=capsys)
        assert sum(summary["unknown"].values()) == len(expected)
        assert set(summary["unknown"]) == set(expected)
    assert json.loads(run("inspect", "--json", CORPUS / "ts-sdk" / "agent_to_client.ndjson")[1])["unknown"] != {}


def test_sessions_are_counted_in_params_and_in_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "it"
    result = b'{"jsonrpc":"2.0","id":1,"result":{"sessionId":"new"}}\n'
    path.write_bytes(update("_x", "a") + update("_x", "b") + update("_x", "a") + NEW + result)
    assert counted(path, capsys=capsys)["sessions"] == 3
    own = b'{"jsonrpc":"2.0","method":"_own","params":{"sessionId":"c"}}\n'
    none = b'{"jsonrpc":"2.0","method":"_own","params":["c"]}\n'
    for data, sessions in ((result, 1), (result.replace(b'"new"', b"7"), 0), (own, 1), (none, 0)):
        path.write_bytes(data)
        assert counted(path, capsys=capsys)["sessions"] == sessions


def test_a_recording_is_counted_by_its_wire_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "it.ndjson.gz"
    lines = CODEX.read_bytes().splitlines()
    with Recorder(path) as recorder:
        for line in lines:
            recorder.record("agent", line)
    recorded, bare = counted(path, capsys=capsys), counted(CODEX, "--sender", "agent", capsys=capsys)
    assert {**recorded, "seconds": 0} == {**bare, "seconds": 0}


def test_names_and_sessions_cannot_fill_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "SESSIONS_COUNTED", 500)
    path = tmp_path / "it"
    path.write_bytes(b"".join(update(f"_{number}", str(number)) for number in range(1500)) + update("_" * 5000))
    summary = counted(path, capsys=capsys)
    assert len(summary["updates"]) == len(summary["unknown"]) == cli.NAMES_COUNTED + 1
    assert summary["updates"]["(other)"] == 1501 - cli.NAMES_COUNTED
    assert summary["sessions"] == 500
    path.write_bytes(update("_" * 5000))
    ((name, _),) = counted(path, capsys=capsys)["updates"].items()
    assert len(name) < 300


# --- malformed lines -------------------------------------------------------------------------------------------------


def test_a_malformed_line_is_named_by_number_code_path_and_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it"
    path.write_bytes(UPDATE + b"\n" + BAD + b"{\n" + NEW.replace(b'"/"', b"17"))
    summary = counted(path, capsys=capsys)
    assert [(one["line"], one["code"], one["path"]) for one in summary["malformed"]] == [
        (3, None, v2.decode_from_agent(BAD).path),  # type: ignore[union-attr]  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType]  # it is malformed
        (4, -32700, "$"),
        (5, -32602, "$.params.cwd"),
    ]
    assert all(set(one) == {"line", "code", "path", "message"} for one in summary["malformed"])
    assert summary["malformed_count"] == summary["kinds"]["malformed"] == 3
    assert summary["lines"] == 4


def test_a_result_that_does_not_fit_its_request_is_malformed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it"
    with Recorder(path) as recorder:
        recorder.record("client", NEW)
        recorder.record("agent", b'{"jsonrpc":"2.0","id":1,"result":{"sessionId":17}}')
    summary = counted(path, capsys=capsys)
    (fault,) = summary["malformed"]
    assert (fault["line"], fault["code"], fault["path"]) == (3, None, "$.result.sessionId")
    assert summary["kinds"]["malformed"] == summary["malformed_count"] == 1
    assert sum(summary["kinds"].values()) == summary["lines"] == 2


PIECES = {
    b"": False,
    b"\r": False,
    b" \t": False,
    UPDATE[:-1]: False,
    NEW[:-1]: False,
    b"{": True,
    b"[]": True,
    BAD[:-1]: True,
}


@given(st.lists(st.sampled_from(sorted(PIECES)), max_size=40), st.booleans())
@settings(max_examples=60, deadline=None)
def test_numbers_are_those_of_the_lines_in_the_file(lines: list[bytes], compressed: bool) -> None:
    data = b"".join(line + b"\n" for line in lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("it.gz" if compressed else "it")
        path.write_bytes(gzip.compress(data) if compressed else data)
        out = io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            assert cli.main(["inspect", "--json", str(path)]) == 0
    summary = json.loads(out.getvalue())
    assert [one["line"] for one in summary["malformed"]] == [
        number for number, line in enumerate(lines, 1) if PIECES[line]
    ]
    assert summary["lines"] == sum(line.strip() != b"" for line in lines)
    assert summary["bytes"] == sum(len(line) + 1 for line in lines if line.strip())


def test_numbers_in_a_recording_count_the_lines_that_name_the_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "it"
    for line in (UPDATE, b"{", UPDATE, b"["):
        with Recorder(path) as recorder:
            recorder.record("agent", line)
    # the second recorder and those after it put a blank line before that one
    assert [one["line"] for one in counted(path, capsys=capsys)["malformed"]] == [5, 11]


def test_the_first_hundred_malformed_lines_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(b"{\n" * 250)
    summary = json.loads(run("inspect", "--json", path)[1])
    assert [one["line"] for one in summary["malformed"]] == list(range(1, 101))
    assert summary["malformed_count"] == 250
    assert "the first 100" in run("inspect", path)[1]


def test_malformed_lines_fail_the_command_only_when_it_is_strict(tmp_path: Path) -> None:
    path = tmp_path / "it"
    path.write_bytes(BAD)
    for arguments in ([], ["--json"]):
        assert run("inspect", *arguments, path)[0] == 0
        assert run("inspect", "--strict", *arguments, path)[0] == 1
    path.write_bytes(UPDATE)
    assert run("inspect", "--strict", path)[0] == 0


def test_a_cut_off_file_is_malformed_and_no_line_of_it_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "it.gz"
    packed = gzip.compress(UPDATE * 3)
    for size, lines in ((len(packed) - 8, 3), (len(packed) - 9, 3)):
        path.write_bytes(packed[:size])
        code, out, err = run("inspect", "--json", "--strict", path)
        summary = json.loads(out)
        assert (code, err, summary["lines"], summary["malformed_count"]) == (1, "", lines, 1)
        assert "ends early" in summary["malformed"][0]["message"]


def test_no_value_of_a_line_is_in_what_is_said_of_it(tmp_path: Path) -> None:
    secret = "swordfish"  # noqa: S105  # a word that stands nowhere else
    path = tmp_path / "it"
    path.write_text(
        f'{{"jsonrpc":"{secret}"}}\n{{"jsonrpc":"2.0","id":["{secret}"],"method":"x"}}\n"{secret}"\n{secret}\n'
        f'{{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{{"sessionId":["{secret}"],"prompt":[]}}}}\n'
        f'{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{secret}","update":"{secret}"}}}}\n',
    )
    for arguments in ([], ["--json"]):
        code, out, err = run("inspect", "--strict", *arguments, path)
        assert code == 1
        assert secret not in out + err


def test_what_a_terminal_would_obey_is_not_printed(tmp_path: Path) -> None:
    path = tmp_path / "it"
    names = ["\x1b[2J_clear", "_line\nbreak", "_\u202eright", "_\ud83d"]
    lines = [json.dumps({"jsonrpc": "2.0", "method": name, "params": {}}) for name in names]
    path.write_text("".join(line + "\n" for line in lines))
    code, out, err = run("inspect", path)
    assert (code, err) == (0, "")
    assert out.isascii()
    assert "\x1b" not in out
    assert r"\x1b[2J_clear" in out
    assert r"_line\nbreak" in out
    assert r"_\ud83d" in out
    assert set(json.loads(run("inspect", "--json", path)[1])["methods"]) == set(names)


# --- arguments and files ---------------------------------------------------------------------------------------------


def test_standard_input_is_read_for_a_dash() -> None:
    code, out, err = run("inspect", "-", "--json", stdin=UPDATE * 2 + NEW)
    assert (code, err) == (0, "")
    summary = json.loads(out)
    assert summary["methods"] == {"session/update": 2, "session/new": 1}
    assert summary["bytes"] == len(UPDATE * 2 + NEW)


def test_the_sender_decides_how_a_line_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "it"
    path.write_bytes(NEW.replace(b'"/"', b"17"))
    assert counted(path, capsys=capsys)["malformed_count"] == 1
    assert counted(path, "--sender", "client", capsys=capsys)["malformed_count"] == 1
    assert counted(path, "--sender", "agent", capsys=capsys)["malformed_count"] == 0


@pytest.mark.parametrize(
    "arguments",
    [[], ["inspect"], ["inspect", "a", "b"], ["inspect", "a", "--sender", "proxy"], ["inspect", "a", "--no"], ["look"]],
    ids=" ".join,
)
def test_wrong_arguments_exit_with_2_and_the_usage(arguments: list[str]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("usage: acpwire")


def test_what_cannot_be_read_is_said_in_one_sentence(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path / "none.gz", tmp_path):
        code, out, err = run("inspect", path)
        assert (code, out) == (1, "")
        assert re.fullmatch(rf"acpwire: cannot read {re.escape(str(path))}: [A-Z][a-z ]+\n", err)


def test_a_zst_without_a_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    path = tmp_path / "it.zst"
    path.write_bytes(b"")
    assert cli.main(["inspect", str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"acpwire: cannot read \S+: no zstd here: install .*backports\.zstd or zstandard\n", err)


def test_a_failure_while_reading_is_said_as_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, _buffer: Any) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Failing())))
    assert cli.main(["inspect", "-"]) == 1
    assert capsys.readouterr() == ("", "acpwire: cannot read -: Input/output error\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_closed_standard_streams_are_survived(closed: str) -> None:
    program = f'exec "$0" -m acpwire inspect - {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", program, sys.executable], input=UPDATE, capture_output=True, check=False, timeout=60
    )
    if closed == "<&-":
        assert (done.returncode, done.stderr) == (1, b"acpwire: cannot read -: standard input is closed\n")
    else:
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_has_enough_is_no_error() -> None:
    for arguments in (["--json"], []):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as out:
            done = subprocess.run(
                [sys.executable, "-m", "acpwire", "inspect", *arguments, str(CODEX)],
                stdout=out,
                stderr=subprocess.PIPE,
                check=False,
                timeout=60,
            )
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_disk_that_is_full_is_one_sentence(tmp_path: Path) -> None:
    script = (
        "import resource, sys; from acpwire.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))\n"
        "sys.exit(main(['inspect', sys.argv[1]]))"
    )
    with (tmp_path / "out").open("wb") as out:
        command = [sys.executable, "-c", script, str(CODEX)]
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == b"acpwire: cannot write the summary: File too large\n"


# --- terminals -------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """What looks like one."""

    def isatty(self) -> bool:
        return True


def shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, path: Path) -> str:
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        assert cli.main(["inspect", str(path)]) == 0
    return terminal.getvalue()


def test_rich_only_beautifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich", reason="how it looks with rich can only be seen where rich is installed")
    path = tmp_path / "it"
    path.write_bytes(UPDATE + update("[bold]_x[/bold]") + BAD)
    monkeypatch.setenv("COLUMNS", "200")
    pretty = shown_on_a_terminal(monkeypatch, path)
    for name in ("rich", "rich.console", "rich.table", "rich.text"):
        monkeypatch.setitem(sys.modules, name, None)
    plain = shown_on_a_terminal(monkeypatch, path)
    assert pretty != plain
    assert "─" in pretty
    assert plain.isascii()
    for text in (pretty, plain):
        bare = re.sub(r"\x1b\[[\d;]*m", "", text)
        for word in ("agent_message_chunk", "[bold]_x[/bold]", "unknown tags", "line 3", "$.params.update"):
            assert word in bare


def test_without_a_terminal_rich_is_not_loaded() -> None:
    program = (
        "import sys; from acpwire.cli import main; "
        f"code = main(['inspect', {str(CODEX)!r}]); sys.exit(code or 'rich' in sys.modules or 'asyncio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def progress_of(stream: io.StringIO, seconds: float) -> str:
    """What is written when every block of a file takes so many seconds."""
    ticks = iter(range(10_000))
    blocks = [b"\n" * 100] * 10
    assert list(cli.with_progress(blocks, 1000, stream, clock=lambda: next(ticks) * seconds)) == blocks
    return stream.getvalue()


def test_progress_is_shown_on_a_terminal_when_reading_takes_long() -> None:
    long = progress_of(Terminal(), 0.6)
    assert "MB (50%)" in long
    assert long.endswith("\r\x1b[K")
    assert progress_of(Terminal(), 0.001) == ""
    assert progress_of(io.StringIO(), 0.6) == ""


# --- following -------------------------------------------------------------------------------------------------------


def follow(
    path: Path, capsys: pytest.CaptureFixture[str], *steps: Callable[[], object], options: tuple[str, ...] = ()
) -> tuple[int, dict[str, Any]]:
    """Follow a file; each time that there is no more to read, the next step happens, and then Ctrl-C."""
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) <= len(steps):
            steps[len(waits) - 1]()
        else:
            signal.raise_signal(signal.SIGINT)

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    code = cli.main(["inspect", "--json", "--follow", *options, str(path)], wait=wait)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    assert len(waits) == len(steps) + 1
    assert all(0 < seconds <= 1 for seconds in waits)
    out, err = capsys.readouterr()
    assert not err
    return code, json.loads(out)


def append(path: Path, data: bytes) -> Callable[[], object]:
    def step() -> None:
        with path.open("ab") as file:
            file.write(data)

    return step


def test_a_growing_file_is_followed_until_it_is_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "it"
    path.write_bytes(UPDATE)
    nothing = append(path, b"")
    half = append(path, UPDATE[:50])
    rest = append(path, UPDATE[50:] + BAD + NEW[:9])
    code, summary = follow(path, capsys, nothing, half, rest)
    assert code == 0
    # the line that has not ended is neither counted nor malformed
    assert (summary["lines"], summary["malformed_count"], summary["bytes"]) == (3, 1, len(UPDATE * 2 + BAD))
    assert follow(path, capsys, options=("--strict",))[0] == 1


def test_a_recording_is_followed_while_it_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("it", "it.gz"):
        path = tmp_path / name
        with Recorder(path) as recorder:

            def record(recorder: Recorder = recorder) -> None:
                recorder.record("agent", UPDATE)

            code, summary = follow(path, capsys, record, record)
        assert (code, summary["lines"], summary["malformed_count"]) == (0, 2, 0)


def test_an_interrupt_while_lines_are_counted_loses_none_of_those_that_were_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "it"
    path.write_bytes(UPDATE * 50)
    add = cli.Tally.add

    def interrupted(tally: cli.Tally, record: Record) -> None:
        if record.number == 20:
            signal.raise_signal(signal.SIGINT)
        add(tally, record)

    monkeypatch.setattr(cli.Tally, "add", interrupted)
    assert cli.main(["inspect", "--json", "--follow", str(path)], wait=lambda _: pytest.fail("it must not wait")) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["lines"] == summary["methods"]["session/update"] == 50


def test_an_interrupt_without_follow_ends_with_130_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(cli.Tally, "add", interrupted)
    assert cli.main(["inspect", str(CODEX)]) == 130
    assert capsys.readouterr() == ("", "")


def test_what_cannot_grow_is_not_followed_beyond_its_end() -> None:
    code, out, err = run("inspect", "-", "--follow", "--json", stdin=UPDATE)
    assert (code, err, json.loads(out)["lines"]) == (0, "", 1)


def test_a_named_pipe_is_followed_until_a_signal_comes(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with (
        subprocess.Popen(
            [sys.executable, "-m", "acpwire", "inspect", "--json", "--follow", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
        path.open("wb", buffering=0) as pipe,  # returns when the other side has opened it
    ):
        pipe.write(UPDATE * 3)
        until = time.monotonic() + 60
        while unread(pipe.fileno()) and time.monotonic() < until:
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert json.loads(out)["lines"] == 3


def unread(fd: int) -> int:
    """How many bytes of a pipe nobody has read yet."""
    (size,) = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))
    return int(size)
