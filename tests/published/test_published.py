"""The played model says what the script says in both APIs; what is found in traffic; no agent is needed for that."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import acpwire
from acpwire import v2

from .agents import AGENTS
from .checks import count_updates, tail, wrong
from .history import differences
from .model import MARK, STORY, TITLE, Model

SECONDS = 10
SHELL = "Use it: [shell]"


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as played:
        yield played


def asked(model: Model, path: str, request: Any) -> list[Any]:
    """What an API answers: the data of its events, or the one object."""
    host, port = model.url.removeprefix("http://").split(":")
    connection = HTTPConnection(host, int(port), timeout=SECONDS)
    try:
        connection.request("POST", path, json.dumps(request), {"content-type": "application/json"})
        body = connection.getresponse().read().decode()
    finally:
        connection.close()
    if not request.get("stream"):
        return [json.loads(body)]
    return [json.loads(line.removeprefix("data: ")) for line in body.splitlines() if line.startswith("data: ")]


def test_messages(model: Model) -> None:
    """A story, a tool that is asked, and what it answered, by the Messages API."""
    tools = [{"name": "Bash"}, {"name": "Write"}]
    said: list[Any] = [{"role": "user", "content": "Say it: [story]"}]
    events = asked(model, "/v1/messages", {"stream": True, "tools": tools, "messages": said})
    assert "".join(one["delta"].get("text", "") for one in events if "delta" in one) == "".join(STORY)
    assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
    said.append({"role": "user", "content": [{"type": "text", "text": SHELL}]})
    events = asked(model, "/v1/messages", {"stream": True, "tools": tools, "messages": said})
    parts = [one["delta"]["partial_json"] for one in events if "partial_json" in one.get("delta", {})]
    assert MARK in json.loads("".join(parts))["command"]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    said.append({"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "so"}]}]})
    (whole,) = asked(model, "/v1/messages", {"tools": tools, "messages": said})
    assert whole["content"][0]["text"] == "The tool said: so"


def test_responses(model: Model) -> None:
    """The same by the Responses API."""
    tools = [{"type": "function", "name": "exec_command"}]
    said: list[Any] = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": SHELL}]}]
    events = asked(model, "/v1/responses", {"stream": True, "tools": tools, "input": said})
    (call,) = [one["item"] for one in events if one.get("item", {}).get("type") == "function_call"]
    assert MARK in json.loads(call["arguments"])["cmd"]
    assert events[-1]["response"]["output"][-1] == call
    said.append({"type": "function_call_output", "call_id": call["call_id"], "output": "so"})
    (response,) = asked(model, "/v1/responses", {"tools": tools, "input": said})
    assert response["output"][0]["content"][0]["text"] == "The tool said: so"


def test_side_requests(model: Model) -> None:
    """What has no tools gets a title, in the form that it wants, whatever the user said."""
    form = {"type": "object", "properties": {"title": {"type": "string"}, "more": {"type": "array"}}}
    wanted = {"format": {"type": "json_schema", "schema": form}}
    (response,) = asked(model, "/v1/responses", {"input": SHELL, "text": wanted})
    assert json.loads(response["output"][0]["content"][0]["text"]) == {"title": TITLE, "more": []}
    (message,) = asked(model, "/v1/messages", {"messages": [{"role": "user", "content": SHELL}]})
    assert message["content"][0]["text"] == TITLE


def test_held_answer_is_taken_back(model: Model) -> None:
    """An answer that is held ends when nobody waits for it, and that is known."""
    host, port = model.url.removeprefix("http://").split(":")
    body = json.dumps({"stream": True, "tools": [{"name": "x"}], "messages": [{"role": "user", "content": "[hold]"}]})
    with socket.create_connection((host, int(port)), timeout=SECONDS) as client:
        client.sendall(f"POST /v1/messages HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        received = b""
        while STORY[2].encode() not in received:
            received += client.recv(65536)
        assert not model.taken_back.is_set()
    assert model.taken_back.wait(SECONDS)


@pytest.mark.parametrize("line", ["CONNECT example.org:443", "GET http://example.org/"])
def test_no_way_out(model: Model, line: str) -> None:
    """The port refuses to be a proxy, and remembers where to."""
    host, port = model.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as client:
        client.sendall(f"{line} HTTP/1.1\r\n\r\n".encode())
        assert b" 403 " in client.recv(65536)
    assert model.strays == [line.split()[1]]


def test_what_is_not_served_is_known(model: Model) -> None:
    """Neither paths nor requests that are not understood go by unnoticed."""
    asked(model, "/v1/nothing", {})
    asked(model, "/v1/messages", {"messages": 5})
    assert [one.split(":")[0] for one in model.unknown] == ["POST /v1/nothing", "POST /v1/messages"]


def test_traffic_is_read(tmp_path: Path) -> None:
    """Lines that are none, members that are nobody's, what was not offered, no answer, and speech while idle."""
    capture = tmp_path / "capture"
    chunk = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "x"}}
    params = {"sessionId": "s", "update": {**chunk, "extra": 1}}
    with acpwire.Recorder(capture) as recorder:
        recorder.record("client", b'{"jsonrpc":"2.0","id":0,"method":"session/delete","params":{"sessionId":"s"}}')
        recorder.record("agent", b"Welcome!")
        recorder.record("agent", json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}).encode())
    found = [problem.partition(": ")[2] for problem in wrong(capture)]
    assert len(found) == 5
    assert found[0].startswith("no message")
    assert found[1:] == [
        "agent_message_chunk: a member that the protocol does not have - at `$.update.extra`",
        "the client sends session/delete without session.delete",
        "a request was never answered: session/delete",
        "the agent speaks in a state of idle",
    ]
    assert count_updates(capture) == 1
    assert tail(capture, 2)[0] == "agent: Welcome!"


def test_histories_are_compared() -> None:
    """What a replay tells otherwise, what it leaves out, and what nobody knew of; what is equal is not said."""
    ended = {"toolCallId": "t", "title": "Edit", "kind": "edit", "status": "completed", "rawOutput": "done"}
    told, replayed = acpwire.Transcript(), acpwire.Transcript()
    for transcript, call in ((told, ended), (replayed, {**ended, "title": "Edited", "rawOutput": None})):
        transcript.apply(_update("user_message", messageId="u", content=[{"type": "text", "text": "hi"}]))
        transcript.apply(_update("tool_call_update", **call))
    told.apply(_update("agent_message", messageId="a", content=[]))
    replayed.apply(_update("user_message", messageId="v", content=[{"type": "text", "text": "[note]"}]))
    others, lost = differences(told.snapshot(), replayed.snapshot())
    assert others == [
        "replayed edit completed, title: 'Edited', not 'Edit'",
        "replayed and never told live, message of user: '[note]'",
    ]
    assert lost == ["edit completed, raw_output", "message of agent"]


def _update(tag: str, **members: Any) -> v2.SessionUpdate:
    return v2.decode(v2.SessionUpdate, json.dumps({"sessionUpdate": tag, **members}).encode())


def test_environments_are_closed(tmp_path: Path) -> None:
    """An agent's whole configuration is in its home, and every way out is the model's port."""
    for agent in AGENTS:
        home = tmp_path / agent.name
        home.mkdir()
        environment = agent.environment(home, "http://127.0.0.1:1")
        assert environment["HTTPS_PROXY"] == environment["http_proxy"] == "http://127.0.0.1:1"
        assert {environment[name] for name in ("HOME", "TMPDIR")} == {str(home)}
