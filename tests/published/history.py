"""What a replay tells, beside what was told live.

Owns: which members of what entities are compared, and how a difference is said. Does not know: agents, or how a replay
came to be.
"""

from __future__ import annotations

from acpwire.transcript import Entity, Message, Snapshot, ToolCall

__all__ = ["differences"]

_MEMBERS = {
    "user": ("text",),
    "agent": ("text",),
    "thought": ("text",),
    "tool_call": ("title", "kind", "status", "name", "raw_input", "raw_output", "locations", "content"),
    "terminal": ("command", "cwd", "text", "exit_status"),
}


def differences(told: Snapshot, replayed: Snapshot) -> tuple[list[str], list[str]]:
    """What is told otherwise, each with a sentence, and what is not told at all, each with a name."""
    found: dict[tuple[str, str], Entity] = {(one.category, one.id): one for one in replayed.timeline}
    others: list[str] = []
    lost: set[str] = set()
    for one in told.timeline:
        name, other = _name(one), found.pop((one.category, one.id), None)
        if other is None:
            lost.add(name)
            continue
        for member in _MEMBERS.get(one.category, ()):
            before, after = getattr(one, member), getattr(other, member)
            if before != after and not after:
                lost.add(f"{name}, {member}")
            elif before != after:
                others.append(f"replayed {name}, {member}: {after!r}, not {before!r}")
    for one in found.values():
        text = f": {one.text!r}" if isinstance(one, Message) else ""
        others.append(f"replayed and never told live, {_name(one)}{text}")
    return list(dict.fromkeys(others)), sorted(lost)


def _name(entity: Entity) -> str:
    """What an entity is called, whichever session it is of."""
    if isinstance(entity, ToolCall):
        return f"{entity.kind} {entity.status}"
    return f"message of {entity.category}" if isinstance(entity, Message) else entity.category
