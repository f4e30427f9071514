"""What an agent said and did, as text, from the lines that it sent."""

from __future__ import annotations

from collections.abc import Iterable

from ._acp import v2


def told(lines: Iterable[bytes]) -> str:
    """The agent's words; its tool calls and what this package has no type for in brackets."""
    return "".join(map(_told, lines))


def _told(line: bytes) -> str:
    match v2.decode_from_agent(line):
        case v2.Notification(params=v2.UpdateSessionNotification(update=update)):
            return _update(update)
        case v2.Malformed(path=path):
            return f"[broken at {path}]"
        case message:
            return f"[{type(message).__name__}]"


def _update(update: v2.SessionUpdate) -> str:
    match update:
        case v2.AgentMessageChunk(content=v2.TextContent(text=text)):
            return text
        case v2.AgentMessageChunk(content=content):
            return f"[{content.tag}]"
        case v2.ToolCallUpdate(title=str(title)):
            return f"[{title}]"
        case v2.StateUpdate(state="idle", stop_reason=reason):
            return f"[{reason or 'done'}]"
        case v2.ToolCallUpdate() | v2.StateUpdate():
            return ""
        case v2.UnknownVariant(tag=tag):
            return f"[{tag}?]"
