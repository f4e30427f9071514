"""A transcript in the form of the independent model, so that the two can be compared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from acpwire import v2
from acpwire.transcript import Blocks, Output, Transcript

MEMBERS = {
    "session_message": ("senderSessionId", "recipientSessionId", "senderMessageId", "recipientMessageId", "content"),
    "tool_call": (
        *("name", "title", "kind", "status", "content", "locations", "rawInput", "rawOutput", "capabilities"),
    ),
    "terminal": ("command", "cwd", "output", "exitStatus", "size", "capabilities"),
    "compaction": ("status", "summary", "error"),
    "subagent": ("title", "description", "capabilities", "state", "cwd", "additionalDirectories"),
}


def plain(value: Any) -> Any:
    """The JSON value of anything a transcript holds; output has its bytes in hexadecimal, as the model has it."""
    if isinstance(value, Output):
        return {"data": bytes(value).hex(), "_meta": plain(value.meta)}
    if isinstance(value, Blocks | tuple):
        return [plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]  # of any kind
    return json.loads(v2.encode(value))


def attribute(name: str) -> str:
    """The attribute of a JSON member."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def entity(found: Any) -> dict[str, Any]:
    """An entity as a JSON object."""
    names = MEMBERS.get(found.category, ("content",))
    return {**{name: plain(getattr(found, attribute(name))) for name in names}, "meta": plain(found.meta)}


def entities(found: Iterable[Any]) -> dict[str, Any]:
    """ID -> entity."""
    return {each.id: entity(each) for each in found}


def untagged(update: Any) -> Any:
    """An update as a JSON object, less its tag; None if there is none."""
    return None if update is None else {k: v for k, v in plain(update).items() if k != "sessionUpdate"}


def listed(items: tuple[Any, ...] | None, meta: Any) -> dict[str, Any] | None:
    """A list that updates replace; None until it was reported."""
    return None if items is None else {"all": plain(items), "meta": plain(meta)}


def whole(transcript: Transcript) -> dict[str, Any]:
    """Everything the model says of a session."""
    usage = transcript.usage
    last, lost = untagged(transcript.state.last_known), untagged(transcript.state.lost)
    unknown = [each for each in transcript.timeline if each.category == "unknown"]
    return {
        "timeline": [
            [each.category, int(each.id) if each.category == "unknown" else each.id] for each in transcript.timeline
        ],
        "unknown": [plain(each.update) for each in unknown],  # type: ignore[attr-defined]  # of that category
        "notices": [plain(notice) for notice in transcript.notices],
        "info": {
            "title": transcript.info["title"],
            "updatedAt": plain(transcript.info["updated_at"]),
            "meta": plain(transcript.info["meta"]),
        },
        "messages": {f"{kind}:{key}": entity(each) for (kind, key), each in transcript.messages.items()},
        "session_messages": entities(transcript.session_messages.values()),
        "tool_calls": entities(transcript.tool_calls.values()),
        "terminals": entities(transcript.terminals.values()),
        "plans": {
            key: {"content": plain(each.content), "meta": plain(each.meta)} for key, each in transcript.plans.items()
        },
        "compactions": entities(transcript.compactions.values()),
        "subagents": entities(transcript.subagents.values()),
        "commands": listed(transcript.commands, transcript.commands_meta),
        "config": listed(transcript.config, transcript.config_meta),
        "usage": None
        if usage is None
        else {"used": usage.used, "size": usage.size, "cost": plain(usage.cost), "_meta": plain(usage.meta)},
        "state": None if last is None and lost is None else {"last_known": last, "lost": lost},
    }
