"""Independent statement of what a stream of session updates adds up to, against which the real fold is compared.

Written from the requirements (A2 to A12, A14, A24, table B2; X4 to X7, X13) on plain JSON values. A number in brackets
is the requirement a line states. Where they leave a choice, this model takes:

- An entity's first sighting, by an update or a chunk alike, gives it its place. A removed plan leaves the timeline; the
  same planId sent again is a new plan at the end. Removing a plan nobody has seen does nothing.
- ["unknown", n] counts from 0 and indexes `unknown`. A `state_update` with an unrecognised `state` is an unknown update
  too (X4), and leaves the state unconfirmed (ST-14).
- A patched `_meta` with no key left is None, for no single update can tell it from never having had one. What is
  replaced as a whole has the `_meta` it came with (MT-06), a terminal's output that of its last snapshot (TM-09).
- A terminal's output is None while unknown and after null; `""` is output known to be empty.
- `senderMessageId` and `recipientMessageId` are no participants: null clears them, and chunks do not carry them.
- A compaction's status, should it be omitted or null, keeps or becomes `in_progress` (X5).
- `commands`, `config`, `usage` and `state` are None until reported. `state` is `last_known` (the update without its
  tag; None if no known state came before) and `lost`, the `unknown` since; a plain one for an unrecognised `state`.
"""

from base64 import b64decode
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

Json = dict[str, Any]

# The patch fields of each entity, with what they hold at first sight and after null (TC-03, MS-04, TM-04, CP-13, SA-04)
FIELDS: dict[str, Json] = {
    "user": {"content": []},
    "agent": {"content": []},
    "thought": {"content": []},
    "session_message": {
        **dict.fromkeys(("senderSessionId", "recipientSessionId", "senderMessageId", "recipientMessageId")),
        "content": [],
    },
    "tool_call": {
        "name": None,
        "title": None,
        "kind": "other",
        "status": "pending",
        "content": [],
        "locations": [],
        "rawInput": None,
        "rawOutput": None,
        "capabilities": None,
    },
    "terminal": dict.fromkeys(("command", "cwd", "output", "exitStatus", "size", "capabilities")),
    "compaction": {"status": "in_progress", "summary": [], "error": None},
    "subagent": dict.fromkeys(("title", "description", "capabilities", "state", "cwd", "additionalDirectories")),
    "info": {"title": None, "updatedAt": None},
}
PARTICIPANTS = ("senderSessionId", "recipientSessionId")
STATES = ("running", "idle", "requires_action")
UPSERTS = {  # tag: kind, key
    "user_message": ("user", "messageId"),
    "agent_message": ("agent", "messageId"),
    "agent_thought": ("thought", "messageId"),
    "session_message": ("session_message", "messageId"),
    "tool_call_update": ("tool_call", "toolCallId"),
    "terminal_update": ("terminal", "terminalId"),
    "compaction_update": ("compaction", "compactionId"),
    "subagent_update": ("subagent", "sessionId"),
}
CHUNKS = {  # tag: kind, key, the list its `content` goes to
    "user_message_chunk": ("user", "messageId", "content"),
    "agent_message_chunk": ("agent", "messageId", "content"),
    "agent_thought_chunk": ("thought", "messageId", "content"),
    "session_message_chunk": ("session_message", "messageId", "content"),
    "tool_call_content_chunk": ("tool_call", "toolCallId", "content"),
    "compaction_summary_chunk": ("compaction", "compactionId", "summary"),
}


def fold(updates: Iterable[Json]) -> Json:
    """State of one session after these updates, which are neither kept nor changed."""
    stores = ("messages", "session_messages", "tool_calls", "terminals", "plans", "compactions", "subagents")
    out: Json = {"timeline": [], "unknown": [], "notices": [], "info": {**FIELDS["info"], "meta": None}}
    out |= {store: {} for store in stores}
    out |= dict.fromkeys(("commands", "config", "usage", "state"))
    for update in updates:
        _apply(out, deepcopy(update))
    return out


def _apply(out: Json, update: Json) -> None:
    tag = update["sessionUpdate"]
    body = {name: value for name, value in update.items() if name != "sessionUpdate"}
    if tag in UPSERTS:
        kind, key = UPSERTS[tag]
        _patch(_entity(out, kind, update[key]), kind, update)
    elif tag in CHUNKS:  # its `_meta` stays the chunk's (MT-04)
        kind, key, field = CHUNKS[tag]
        entity = _entity(out, kind, update[key])
        entity[field].append(update["content"])
        if kind == "session_message":  # X7
            entity |= {name: update[name] for name in PARTICIPANTS if update.get(name) is not None}
    elif tag == "terminal_output_chunk":  # TM-07: decoded by itself, so hex digits of the parts join
        entity = _entity(out, "terminal", update["terminalId"])
        old: Json = entity["output"] or {"data": "", "_meta": None}
        entity["output"] = {**old, "data": old["data"] + b64decode(update["data"]).hex()}
    elif tag == "plan_update":  # PN-03, PN-04
        plan = update["plan"]
        if plan["planId"] not in out["plans"]:
            out["timeline"].append(["plan", plan["planId"]])
        out["plans"][plan["planId"]] = {"content": plan, "meta": update.get("_meta")}  # PN-07
    elif tag == "plan_removed":
        out["plans"].pop(update["planId"], None)
        out["timeline"] = [entry for entry in out["timeline"] if entry != ["plan", update["planId"]]]
    elif tag == "available_commands_update":
        out["commands"] = {"all": update["availableCommands"], "meta": update.get("_meta")}
    elif tag == "config_option_update":
        out["config"] = {"all": update["configOptions"], "meta": update.get("_meta")}
    elif tag == "session_info_update":
        _patch(out["info"], "info", update)
    elif tag == "usage_update":  # US-05, X13
        out["usage"] = {"cost": out["usage"] and out["usage"]["cost"], "_meta": None, **body}
    elif tag == "notice":  # NT-05, NT-09
        out["notices"].append(update)
    elif tag == "state_update" and update["state"] in STATES:  # ST-08, ST-13: a snapshot replaces all
        out["state"] = {"last_known": body, "lost": None}
    else:
        is_lost = tag == "state_update" and update["state"] == "unknown"
        if tag == "state_update":  # ST-12, ST-14
            out["state"] = {**(out["state"] or {"last_known": None}), "lost": body if is_lost else {"state": "unknown"}}
        if not is_lost:  # SU-03, in its place
            out["timeline"].append(["unknown", len(out["unknown"])])
            out["unknown"].append(update)


def _entity(out: Json, kind: str, ident: str) -> Json:
    message = kind in {"user", "agent", "thought"}  # SU-09: spaces of their own
    store: Json = out["messages" if message else f"{kind}s"]
    key = f"{kind}:{ident}" if message else ident
    if key not in store:  # SU-10
        store[key] = {**deepcopy(FIELDS[kind]), "meta": None}
        out["timeline"].append([kind, ident])
    entity: Json = store[key]
    return entity


def _patch(entity: Json, kind: str, update: Json) -> None:
    for name, reset in FIELDS[kind].items():
        if name not in update or (name in PARTICIPANTS and update[name] is None):  # X7
            continue
        value = update[name]
        if kind == "terminal" and name == "output" and value is not None:  # TM-06
            value = {"data": b64decode(value["data"]).hex(), "_meta": value.get("_meta")}
        entity[name] = deepcopy(reset) if value is None else value
    meta = update.get("_meta", {})  # MT-03, X6
    merged: Json = {} if meta is None else {**(entity["meta"] or {}), **meta}
    entity["meta"] = {k: v for k, v in merged.items() if v is not None} or None  # any null came with this update
