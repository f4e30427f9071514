"""A model that is played: the streamed APIs of two vendors on one port of the loopback, answering by a script.

Owns: what is asked, what is answered, and its form on the wire. Does not know: agents, or what they make of it.

A word in brackets in the newest message of the user says what is to come, such as `[shell]`; see `Model.answer`. The
same port is a proxy that refuses: where an agent that is told to use it would reach out to, `Model.strays` says.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeAlias

__all__ = ["MARK", "NAME", "STORY", "TITLE", "Json", "Model"]

NAME = "mock-model"
STORY = ("A ", "“quick” ", "brown ", "fox 🦊 ", "jumps over ", "naïve 東京 ", "dogs.")
"""What is said, piece by piece."""
MARK = "made by the tool"
"""What tools write; the model says again what a tool answers."""
TITLE = "A title"
"""What is said to side requests."""
PATIENCE = 60.0
"""For how many seconds an answer is held that nobody takes back."""
BEAT = 0.1

Json: TypeAlias = "dict[str, Any] | list[Any] | str | float | None"
Event = tuple[str, Any]
"""The name of a server-sent event, and its data."""


@dataclass(frozen=True)
class Asked:
    """A request for an answer, whichever API it came by."""

    word: str
    """What is to come; empty where the user said nothing of it, or has the answer already."""
    result: str | None
    """What a tool has answered since; None if none was asked."""
    tools: frozenset[str]
    """Which tools may be asked; none, where it is no conversation but a side request."""
    form: Any
    """The JSON schema of the answer; None where it is text."""


@dataclass(frozen=True)
class Answer:
    """What the model says: some text, in pieces, and then perhaps a tool that it asks."""

    pieces: tuple[str, ...] = ()
    tool: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    holds: bool = False
    """Whether it never ends by itself."""


class Model:
    """Plays the model while it is entered."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """What was requested, a line for each."""
        self.unknown: list[str] = []
        """What was requested and is not served here."""
        self.strays: list[str] = []
        """Where an agent would have reached out to, had it been let."""
        self.taken_back = threading.Event()
        """Set when an answer that was held has nobody left who waits for it."""
        self.target = "made.txt"
        """The file that tools write."""
        self._ended = threading.Event()
        self._numbers = count(1)
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(BEAT,), name="model")

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def number(self) -> int:
        """A number that nothing had before."""
        return next(self._numbers)

    def answer(self, asked: Asked) -> Answer:
        """The script."""
        if not asked.tools:  # titles, and the like: whatever has the form that is wanted
            return Answer((json.dumps(_filled(asked.form)),)) if asked.form is not None else Answer((TITLE,))
        if asked.result is not None:
            return Answer(("The tool said: ", asked.result))
        match asked.word:
            case "shell" | "write":
                calls = self._calls(asked.word)
                tool = next(name for name in calls if name in asked.tools)
                return Answer(STORY[:2], tool, calls[tool])
            case "hold":
                return Answer(STORY[:3], holds=True)
            case _:
                return Answer(STORY)

    def _calls(self, word: str) -> Mapping[str, Mapping[str, Any]]:
        """What a tool is asked with, by the names that agents have for it."""
        if word == "shell":
            command = f"echo '{MARK}' | tee {self.target}"
            return {
                "Bash": {"command": command, "description": "Write a file"},
                "exec_command": {
                    "cmd": command,
                    "sandbox_permissions": "require_escalated",
                    "justification": "It is to write a file.",
                },
            }
        patch = f"*** Begin Patch\n*** Add File: {self.target}\n+{MARK}\n*** End Patch"
        return {
            "Write": {"file_path": self.target, "content": f"{MARK}\n"},
            "exec_command": {"cmd": f"apply_patch <<'END'\n{patch}\nEND\n"},
        }

    def held(self) -> Iterator[None]:
        """Yields now and then for as long as an answer is held."""
        end = time.monotonic() + PATIENCE
        while not self._ended.wait(BEAT) and time.monotonic() < end:
            yield None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that end are none."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


# --- what both APIs have in common ------------------------------------------------------------------------------------


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name is the base's
            pass

        def do_HEAD(self) -> None:
            self._send(b"")

        def do_CONNECT(self) -> None:
            model.strays.append(self.path)
            self._refuse(403)

        def do_GET(self) -> None:
            path = self._path()
            if path is None:
                return
            if path.endswith("/models"):
                self._json({"data": [], "models": [], "has_more": False})
            else:
                self._unknown(path)

        def do_POST(self) -> None:
            path = self._path()
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if path is None:
                return
            request: Any = json.loads(body) if body else {}
            try:
                if path.endswith("/messages/count_tokens"):
                    self._json({"input_tokens": 10})
                elif path.endswith("/messages"):
                    self._answer(_asked(_messages(request), request), request, messages)
                elif path.endswith("/responses"):
                    self._answer(_asked(_inputs(request), request), request, responses)
                else:
                    self._unknown(path)
            except (AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
                model.unknown.append(f"{self.command} {path}: {error!r} in {body[:500]!r}")
                self._refuse(400)

        def _path(self) -> str | None:
            """What is asked for here; None where that is elsewhere, and refused."""
            if not self.path.startswith("/"):
                model.strays.append(self.path)
                self._refuse(403)
                return None
            path = self.path.partition("?")[0]
            model.asked.append(f"{self.command} {path}")
            return path

        def _unknown(self, path: str) -> None:
            model.unknown.append(f"{self.command} {path}")
            self._refuse(404)

        def _refuse(self, status: int) -> None:
            self.close_connection = True
            self._json({"type": "error", "error": {"type": "not_found_error", "message": "not here"}}, status)

        def _json(self, value: Any, status: int = 200) -> None:
            self._send(json.dumps(value).encode(), status)

        def _send(self, body: bytes, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _answer(self, asked: Asked, request: Any, api: Any) -> None:
            answer = model.answer(asked)
            events: Iterator[Event] = api(model, request, answer)
            try:
                if not request.get("stream"):
                    self._json(list(events)[-1][1]["response"] if api is responses else _whole(events))
                    return
                self.close_connection = True
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                for name, data in events:
                    line = f"event: {name}\ndata: {json.dumps(data)}\n\n" if name else ": still here\n\n"
                    self.wfile.write(line.encode())
                    self.wfile.flush()
            except OSError:  # nobody waits for it any more
                if answer.holds:
                    model.taken_back.set()

    return Handler


def _asked(parts: Iterable[tuple[str, str]], request: Any) -> Asked:
    """What parts of a conversation, each with who said it, come to."""
    word, result = "", None
    for who, text in parts:
        if who == "tool":
            result = text
        elif found := re.findall(r"\[(\w+)\]", text):
            word, result = found[-1], None
    tools: list[dict[str, Any]] = request.get("tools") or []
    about: Any = request.get("output_config") or request.get("text")
    form: Any = about and about.get("format")
    return Asked(word, result, frozenset(str(tool.get("name")) for tool in tools), form and form.get("schema"))


def _filled(form: Any) -> Any:
    """A value that has the form of a JSON schema, as far as titles and the like need it."""
    match form.get("type"):
        case "object":
            return {name: _filled(of) for name, of in form.get("properties", {}).items()}
        case "array":
            return []
        case "boolean":
            return False
        case "number" | "integer":
            return 0
        case _:
            return form.get("enum", [TITLE])[0]


def _text(content: Json) -> str:
    """The text of some content, however it is nested."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_text(part) for part in content)
    if isinstance(content, dict):
        return _text(content.get("text", content.get("content", content.get("output", ""))))
    return ""


# --- the Messages API -------------------------------------------------------------------------------------------------


def _messages(request: Any) -> Iterator[tuple[str, str]]:
    """Who said what, in a request of the Messages API."""
    for message in request["messages"]:
        content = message["content"]
        if message["role"] != "user":
            continue
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_result":
                yield "tool", _text(block)
            elif block["type"] == "text":
                yield "user", block["text"]


def messages(model: Model, request: Any, answer: Answer) -> Iterator[Event]:
    """An answer, as the Messages API streams it."""
    usage = {"input_tokens": 20, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": f"msg_{model.number()}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", NAME),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield _named("message_start", message=message)
    yield _named("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for piece in answer.pieces:
        yield _named("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
    if answer.holds:
        for _ in model.held():
            yield _named("ping")
    yield _named("content_block_stop", index=0)
    if answer.tool is not None:
        call: dict[str, Any] = {"type": "tool_use", "id": f"toolu_{model.number()}", "name": answer.tool, "input": {}}
        yield _named("content_block_start", index=1, content_block=call)
        arguments = json.dumps(answer.arguments)
        half = len(arguments) // 2
        for piece in (arguments[:half], arguments[half:]):
            yield _named("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": piece})
        yield _named("content_block_stop", index=1)
    reason = "end_turn" if answer.tool is None else "tool_use"
    yield _named("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": 30})
    yield _named("message_stop")


def _whole(events: Iterable[Event]) -> Any:
    """The message that the events of the Messages API add up to, for who does not stream."""
    message: dict[str, Any] = {}
    for name, data in events:
        if name == "message_start":
            message = data["message"]
        elif name == "content_block_start":
            message["content"].append(dict(data["content_block"]))
        elif name == "content_block_delta" and "text" in data["delta"]:
            message["content"][-1]["text"] += data["delta"]["text"]
        elif name == "message_delta":
            message |= data["delta"]
    return message


def _named(name: str, **data: Any) -> Event:
    return name, {"type": name, **data}


# --- the Responses API ------------------------------------------------------------------------------------------------


def _inputs(request: Any) -> Iterator[tuple[str, str]]:
    """Who said what, in a request of the Responses API."""
    given = request["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        if item.get("type", "message") == "message" and item.get("role") == "user":
            yield "user", _text(item["content"])
        elif str(item.get("type")).endswith("_output"):
            yield "tool", _text(item)


def responses(model: Model, request: Any, answer: Answer) -> Iterator[Event]:
    """An answer, as the Responses API streams it."""
    response: dict[str, Any] = {
        "id": f"resp_{model.number()}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": request.get("model", NAME),
        "status": "in_progress",
        "output": [],
    }
    yield _named("response.created", response=response)
    text = "".join(answer.pieces)
    said: dict[str, Any] = {"type": "message", "id": f"msg_{model.number()}", "role": "assistant", "content": []}
    yield _named("response.output_item.added", output_index=0, item=said | {"status": "in_progress"})
    for piece in answer.pieces:
        yield _named("response.output_text.delta", item_id=said["id"], output_index=0, content_index=0, delta=piece)
    if answer.holds:
        for _ in model.held():
            yield "", None
    said |= {"content": [{"type": "output_text", "text": text, "annotations": []}], "status": "completed"}
    yield _named("response.output_item.done", output_index=0, item=said)
    output = [said]
    if answer.tool is not None:
        number = model.number()
        call = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": answer.tool,
            "arguments": json.dumps(answer.arguments),
            "status": "completed",
        }
        yield _named("response.output_item.done", output_index=1, item=call)
        output.append(call)
    usage = {
        "input_tokens": 20,
        "input_tokens_details": {"cached_tokens": 5},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 50,
    }
    yield _named("response.completed", response=response | {"status": "completed", "output": output, "usage": usage})


if __name__ == "__main__":
    with Model() as played, contextlib.suppress(KeyboardInterrupt):
        print(played.url, flush=True)
        threading.Event().wait()
