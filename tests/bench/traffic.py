"""The lines that are measured: a usual chunk, its variations, and what a real agent sent.

Owns: making them, each from the types. Does not know: what is done with them.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from acpwire import v2
from acpwire.wire import Notification, encode

CORPUS = Path(__file__).parents[1] / "corpus"
SESSION = "01a22a93-ad12-7aa1-87f4-8aa7f038093c"


def update_line(update: v2.SessionUpdate) -> bytes:
    """A `session/update` line, its LF included."""
    params = v2.UpdateSessionNotification(session_id=SESSION, update=update)
    return encode(Notification(method="session/update", params=params))


def chunk_update() -> v2.AgentMessageChunk:
    """The update of the chunk line."""
    update = v2.AgentMessageChunk(message_id="msg_0123456789abcdef", content=v2.TextContent(text=""))
    text = "lorem ipsum dolor sit amet consectetur"[: 226 - len(update_line(update)) + 1]
    return msgspec.structs.replace(update, content=v2.TextContent(text=text))


def chunk_line() -> bytes:
    """An `agent_message_chunk` of 226 bytes without its LF, the usual size of a streamed token."""
    line = update_line(chunk_update()).rstrip(b"\n")
    if len(line) != 226:
        raise AssertionError(len(line))
    return line


def unknown_line() -> bytes:
    """The same size, with a tag that no version knows."""
    return chunk_line().replace(b"agent_message_chunk", b"_vendor_message_chk")


def ten_block_line(unknown: bool = False) -> bytes:
    """A whole message of ten text blocks; `unknown`: the first is of a type that no version knows."""
    blocks = [v2.TextContent(text="lorem ipsum dolor sit amet") for _ in range(10)]
    line = update_line(v2.AgentMessage(message_id="msg_0123456789abcdef", content=blocks))
    return line.replace(b'"type":"text"', b'"type":"_abc"', 1) if unknown else line


def recorded_lines() -> list[bytes]:
    """What a real agent sent, as recorded."""
    return (CORPUS / "codex-acp" / "agent_to_client.ndjson").read_bytes().splitlines()
