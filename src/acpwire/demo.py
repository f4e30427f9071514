"""The demo: a client, an agent in a process of its own, and three prompts. `acpwire demo`, or `python -m acpwire.demo`.

    story   one prompt in which everything that an agent can say is said
    burst   one prompt that is answered with very many chunks; how many a second are read, typed and folded
    cancel  one prompt that would be answered for ever, cancelled in the middle

Owns: arguments, exit codes, what is printed, and whether all came as it should. Does not know: what the agent does.
It needs nothing but the core; where rich is installed, a terminal gets tables.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import acpwire
from acpwire import v2
from acpwire.transcript import Unknown

__all__ = ["main"]

CHUNKS = 200_000
BEFORE_CANCEL = 20_000
"""How many chunks of the endless answer are read before it is cancelled."""
SHOWN_EVERY = 0.1
"""Seconds between two looks at the rate."""
SHOWN = 80
"""How many characters of what a terminal printed are shown, of a line or in all."""
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
"""What moves the cursor, colours, or names windows."""
_EPILOG = """\
keys of --json:
  agent        name and version of the agent
  updates      updates of all three prompts, by variant
  transcript   what the session's transcript holds at the end: entities by kind, tool calls by status, what each
               terminal printed (as plain text, shortened), unknown updates by tag, characters of the agent's text,
               child sessions
  burst        chunks, seconds, and updates a second
  cancel       stop_reason, updates that were read, milliseconds from the cancel to the end
  problems     what was not as it should be
  seconds      how long all of it took

exit codes: 0; 1 if something was not as it should be; 2 for wrong arguments; 130 for Ctrl-C."""

Say = Callable[[str], object]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo with these arguments (the process's own by default); returns its exit code.

    Wrong arguments raise `SystemExit(2)`.
    """
    parser = argparse.ArgumentParser(
        prog="acpwire demo",
        description="Start an agent, talk to it, and say what came.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--chunks", type=_count, default=CHUNKS, help="how many chunks the burst has (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args(argv)
    say: Say = (lambda _: None) if arguments.json else _print
    try:
        summary = asyncio.run(_demo(arguments.chunks, say, is_live=not arguments.json and _is_terminal()))
        if arguments.json:
            _print(json.dumps(summary, indent=2))
        else:
            _show(summary)
    except (acpwire.Error, acpwire.DecodeError, OSError) as error:
        print(f"acpwire demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return int(bool(summary["problems"]))


def _print(text: str, end: str = "\n") -> None:
    """Print at once; into nothing, once whoever reads our output has enough."""
    try:
        print(_encodable(text), end=end, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _encodable(text: str) -> str:
    """Text without what the standard output has no characters for."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison]  # it is None where fd 1 was closed


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a number, and at least 1")
    return int(text)


class _Asked(acpwire.Client):
    """Allows what it is asked for, and says so."""

    info = v2.Implementation(name="acpwire-demo-client", version="1.0")

    def __init__(self, say: Say) -> None:
        self._say = say

    async def request_permission(
        self, session: acpwire.ClientSession, request: v2.RequestPermissionRequest
    ) -> v2.PermissionOption | None:
        """The first option that allows it once."""
        del session
        chosen = next((option for option in request.options if option.kind == "allow_once"), None)
        self._say(f"  permission   {request.title} -> {chosen.name if chosen else 'cancelled'}")
        return chosen


async def _demo(chunks: int, say: Say, *, is_live: bool) -> dict[str, Any]:
    """The three prompts; returns what `--json` prints."""
    began = time.perf_counter()
    updates: Counter[str] = Counter()
    async with acpwire.spawn_agent(sys.executable, "-m", "acpwire.demo_agent", client=_Asked(say)) as agent:
        say(f"agent {agent.info.name} {agent.info.version}, a process of its own\n")
        session = await agent.new_session(cwd=".")
        problems = await _story(session, updates, say)
        problems += _missing(session)
        burst = await _burst(session, chunks, updates, is_live=is_live)
        say(f"\nburst: {burst['chunks']:,} chunks, {burst['rate']:,.0f} updates a second\n")
        cancel = await _cancel(session, updates)
        say(f"cancel: idle after {cancel['milliseconds']:.1f} ms, stop reason {cancel['stop_reason']}\n")
        held = _held(session)
        await session.close()
    if burst["chunks"] != chunks:
        problems.append(f"{burst['chunks']} chunks came, not {chunks}")
    if cancel["stop_reason"] != "cancelled":
        problems.append(f"the cancelled prompt ended with {cancel['stop_reason']}")
    return {
        "agent": f"{agent.info.name} {agent.info.version}",
        "updates": dict(updates.most_common()),
        "transcript": held,
        "burst": burst,
        "cancel": cancel,
        "problems": problems,
        "seconds": round(time.perf_counter() - began, 3),
    }


# --- the prompts ------------------------------------------------------------------------------------------------------


async def _story(session: acpwire.ClientSession, updates: Counter[str], say: Say) -> list[str]:
    prompt = await session.prompt("May I cross the bridge?")
    printed = _Printed()
    async for update in prompt:
        updates[update.tag] += 1
        for line in printed.lines(update):
            say(f"  terminal     | {line}")
        text = _line(update)
        if text:
            say(f"  {text}")
    for child in session.children.values():
        say(f"  child        {child.id[:13]}: {child.transcript.text}")
    return [] if prompt.stop_reason == "end_turn" else [f"the story ended with {prompt.stop_reason}"]


async def _burst(
    session: acpwire.ClientSession, chunks: int, updates: Counter[str], *, is_live: bool
) -> dict[str, Any]:
    """Count what comes, and where somebody looks, show how fast."""
    began = time.perf_counter()
    due = began + SHOWN_EVERY
    prompt = await session.prompt(f"/burst {chunks}")
    seen: Counter[str] = Counter()
    async for batch in prompt.batches():
        seen.update([update.tag for update in batch])
        now = time.perf_counter()
        if is_live and now >= due:
            due = now + SHOWN_EVERY
            count = seen["agent_message_chunk"]
            rate = count / (now - began)
            _print(f"\r\x1b[K  {count:,} of {chunks:,} chunks, {rate:,.0f} a second", end="")
    seconds = time.perf_counter() - began
    if is_live:
        _print("\r\x1b[K", end="")
    updates.update(seen)
    count = seen["agent_message_chunk"]
    return {"chunks": count, "seconds": round(seconds, 3), "rate": round(count / seconds)}


async def _cancel(session: acpwire.ClientSession, updates: Counter[str]) -> dict[str, Any]:
    prompt = await session.prompt("/forever")
    count, asked = 0, 0.0
    async for batch in prompt.batches():
        updates.update([update.tag for update in batch])
        count += len(batch)
        if count >= BEFORE_CANCEL and not asked:
            asked = time.perf_counter()
            await session.cancel()
    milliseconds = round((time.perf_counter() - asked) * 1000, 1)
    return {"stop_reason": prompt.stop_reason, "updates": count, "milliseconds": milliseconds}


# --- what came --------------------------------------------------------------------------------------------------------


class _Printed:
    """What terminals print, line by line: chunks end anywhere, inside a character or an escape sequence too."""

    def __init__(self) -> None:
        self._begun: dict[str, bytes] = {}

    def lines(self, update: v2.SessionUpdate) -> Iterator[str]:
        """The lines that an update completes, and at the end of a process the one that it leaves."""
        match update:
            case v2.TerminalOutputChunk(terminal_id=terminal, data_bytes=data):
                *done, self._begun[terminal] = (self._begun.get(terminal, b"") + data).split(b"\n")
            case v2.TerminalUpdate(terminal_id=terminal, exit_status=v2.TerminalExitStatus()):
                done = [self._begun.pop(terminal, b"")]
            case _:
                done = []
        yield from filter(None, (_plain(line.decode(errors="replace")) for line in done))


def _plain(text: str) -> str:
    """What a terminal printed, as text for any output, shortened."""
    words = " ".join(_ESCAPE.sub("", text).split())
    plain = "".join(filter(str.isprintable, words))
    return plain if len(plain) <= SHOWN else f"{plain[: SHOWN - 4]} ..."


def _line(update: v2.SessionUpdate) -> str | None:
    """An update in words; None for those of which a reader has seen enough."""
    match update:
        case v2.AgentThoughtChunk(content=v2.TextContent(text=text)):
            return f"thought      {text}"
        case v2.AgentMessageChunk(content=v2.TextContent(text=text)):
            return f"message      {text}"
        case v2.AgentMessage(content=[v2.TextContent(text=text)]):
            return f"message      {text} (instead)"
        case v2.AgentMessageChunk(content=v2.UnknownVariant(tag=tag)):
            return f"message      [a block of an unknown kind: {tag}]"
        case v2.PlanUpdate(plan=v2.PlanItems(entries=entries)):
            return "plan         " + "; ".join(f"{entry.content}: {entry.status}" for entry in entries)
        case v2.ToolCallUpdate(title=str(title)):
            return f"tool         {title}"
        case v2.ToolCallUpdate(status=str(status)):
            return f"tool         {status}"
        case v2.TerminalUpdate(command=str(command)):
            return f"terminal     $ {command}"
        case v2.TerminalUpdate(exit_status=v2.TerminalExitStatus(exit_code=code)):
            return f"terminal     exit code {code}"
        case v2.SubagentUpdate(title=str(title)):
            return f"subagent     {title}"
        case v2.SessionMessageChunk(content=v2.TextContent(text=text)):
            return f"between      {text}"
        case v2.CompactionUpdate(status=status):
            return f"compaction   {status}"
        case v2.Notice(severity=severity, title=title):
            return f"notice       {severity}: {title}"
        case v2.UsageUpdate(used=used, size=size):
            return f"usage        {used:,} of {size:,} tokens"
        case v2.SessionInfoUpdate(title=str(title)):
            return f"title        {title}"
        case v2.StateUpdate(state=state):
            return f"state        {state}"
        case v2.UnknownVariant(tag=tag):
            return f"unknown      {tag}"
        case _:
            return None


def _held(session: acpwire.ClientSession) -> dict[str, Any]:
    """What the transcript holds."""
    transcript = session.transcript
    messages = Counter(sort for sort, _ in transcript.messages)
    return {
        "user_messages": messages["user"],
        "agent_messages": messages["agent"],
        "thoughts": messages["thought"],
        "tool_calls": dict(Counter(call.status for call in transcript.tool_calls.values())),
        "terminals": len(transcript.terminals),
        "terminal_output": [_plain(terminal.text) for terminal in transcript.terminals.values()],
        "plans": len(transcript.plans),
        "subagents": len(transcript.subagents),
        "session_messages": len(transcript.session_messages),
        "compactions": len(transcript.compactions),
        "notices": len(transcript.notices),
        "unknown": dict(Counter(one.update.tag for one in transcript.timeline if isinstance(one, Unknown))),
        "commands": len(transcript.commands or ()),
        "config_options": len(transcript.config or ()),
        "title": transcript.info.get("title"),
        "text": sum(len(message.text) for (sort, _), message in transcript.messages.items() if sort == "agent"),
        "children": len(session.children),
    }


def _missing(session: acpwire.ClientSession) -> list[str]:
    """What the story should have left and did not."""
    held = _held(session)
    held["child text"] = any(child.transcript and child.transcript.text for child in session.children.values())
    terminals = session.transcript.terminals.values()
    held["terminal_output"] = terminals and all(one.text.endswith("it holds\r\n") for one in terminals)
    held["usage"] = session.transcript.usage
    missing = [f"the story told no {name}" for name, value in held.items() if not value]
    return missing + [f"a tool call is {status}" for status in held["tool_calls"] if status != "completed"]


# --- showing ----------------------------------------------------------------------------------------------------------


def _show(summary: Mapping[str, Any]) -> None:
    burst = summary["burst"]
    sections = {
        "updates": summary["updates"],
        "what the transcript holds": summary["transcript"],
        "measured": {
            "chunks": burst["chunks"],
            "updates a second": burst["rate"],
            "milliseconds to cancel": summary["cancel"]["milliseconds"],
            "seconds in all": summary["seconds"],
        },
    }
    rows = {title: [(name, _cell(value)) for name, value in section.items()] for title, section in sections.items()}
    if not (_is_terminal() and _show_tables(rows)):
        for title, cells in rows.items():
            _print(title)
            width = max(len(name) for name, _ in cells)
            for name, value in cells:
                _print(f"  {name:<{width}}  {value}")
    for problem in summary["problems"]:
        _print(f"not as it should be: {problem}")


def _show_tables(sections: Mapping[str, Sequence[tuple[str, str]]]) -> bool:
    """On a terminal, where rich is there; returns whether it is."""
    try:
        from rich.console import Console  # noqa: PLC0415  # it may be absent
        from rich.table import Table  # noqa: PLC0415
    except ImportError:
        return False
    console = Console(markup=False)  # what a terminal printed may look like it
    for title, cells in sections.items():
        table = Table(title=title, title_justify="left", show_header=False)
        table.add_column()
        table.add_column(justify="right")
        for cell in cells:
            table.add_row(*map(_encodable, cell))
        console.print(table)
    return True


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(cast("list[str]", value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in cast("dict[str, int]", value).items())
    return f"{value:,}" if isinstance(value, int | float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
