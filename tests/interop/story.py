"""What the agents of others have to tell, as JSON: each follows it through its own SDK and writes down what it did.

`STORY` is what an agent reads: the answer to `initialize`, the capabilities of those that can `more`, and the `answers`
to what they are asked for it; the updates `early`, before a session is answered for, and the members of that answer,
`setup`; for when history is told again, which updates are `live` alone, and what to send before those that would double
what they add to; by the text of a prompt what is done then, a list of steps. A step is its name and its arguments:

    insert                  say the user's message: what came, under an id of the agent's own
    answer                  answer the prompt with that id; work goes on
    refuse ERROR            answer it with an error
    hold                    once it is cancelled, or its session is, answer it so
    update UPDATE [OF]      send an update of the session, or of another one
    count N UPDATE          send so many, their texts numbered
    endless UPDATE          send them until the session is cancelled
    wait                    wait until the session is cancelled, or a part of it
    ask REQUEST [OF]        ask for permission, of the session or of another one, and write down the answer
    withdraw REQUEST        ask, and take it back once the client has sent the notification `_story/told`
    elicit REQUEST          ask for input, and write down the answer
    inquire REQUEST         the same for the prompt that is not answered yet
    complete ID             say that what happened at a URL is over
    notify METHOD PARAMS    send a notification
    request METHOD PARAMS   send a request of one's own, and write down the answer

Names that begin with an underscore are custom ones, the others that no schema lists are of times to come (EX-02).
"""

from __future__ import annotations

from typing import Any

JSON = dict[str, Any]
Step = list[Any]

MANY = 100_000
CHILD = "child"
LONE = "\ud800"
"""Half of a character: JSON can say it, UTF-8 cannot."""


def text(what: str, /, **more: Any) -> JSON:
    """A block of text."""
    return {"type": "text", "text": what, **more}


def update(kind: str, /, **members: Any) -> Step:
    """A step that sends an update."""
    return ["update", {"sessionUpdate": kind, **members}]


def work(*steps: Step, reason: str = "end_turn", **idle: Any) -> list[Step]:
    """The steps of an accepted prompt, from running to idle."""
    return [
        ["insert"],
        update("state_update", state="running"),
        ["answer"],
        *steps,
        update("state_update", state="idle", stopReason=reason, **idle),
    ]


def options(*more: JSON) -> list[JSON]:
    """Yes and no, and what else there is."""
    return [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once", "_meta": {"why": None}},
        *more,
    ]


ANNOTATIONS: JSON = {
    "audience": ["user", "assistant", "_auditor"],
    "lastModified": "yesterday",  # any string (CT-05)
    "priority": 0.5,
    "_meta": {"from": "story"},
}
UNKNOWN_BLOCK: JSON = {"type": "_hologram", "shape": {"points": [1, 2.5, -3e-7, None]}, "title": f"half {LONE}"}
BLOCKS: list[JSON] = [
    text("All *kinds* of blocks 🙂", annotations=ANNOTATIONS, _meta={"n": 1}),
    {"type": "image", "data": "aGk=", "mimeType": "image/png", "uri": "file:///project/a.png", "annotations": {}},
    {"type": "audio", "data": "aGk=", "mimeType": "audio/wav", "annotations": {"priority": 1.0}},
    {
        "type": "resource_link",
        "name": "a",
        "uri": "https://example.org/a",
        "title": "A",
        "description": "What A is",
        "mimeType": "text/plain",
        "size": 2**53 - 1,
        "icons": [
            {"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["48x48", "any"], "theme": "light"},
            {"src": "data:image/png;base64,aGk=", "theme": "_sepia"},
        ],
        "annotations": {"audience": []},
    },
    {
        "type": "resource",
        "resource": {"text": "of it", "uri": "file:///project/a", "mimeType": "text/plain"},
        "annotations": {"audience": ["user"]},
    },
    {"type": "resource", "resource": {"blob": "aGk=", "uri": "file:///project/b", "mimeType": "x/y"}},
    UNKNOWN_BLOCK,
    {"type": "video", "frames": 3},
]
SELECT: JSON = {
    "type": "select",
    "configId": "model",
    "name": "Model",
    "description": "Which one",
    "category": "model",
    "currentValue": "small",
    "options": [
        {"value": "small", "name": "Small", "description": "The small one"},
        {"value": "large", "name": "Large", "_meta": {"cost": 2}},
    ],
}
GROUPED: JSON = {
    "type": "select",
    "configId": "mode",
    "name": "Mode",
    "category": "_mood",
    "currentValue": "ask",
    "options": [{"groupId": "safe", "name": "Safe", "options": [{"value": "ask", "name": "Ask"}]}],
}
SWITCH: JSON = {
    "type": "boolean",
    "configId": "fast",
    "name": "Fast",
    "description": "Or not",
    "category": "thought_level",
    "currentValue": False,
}
COMMANDS: list[JSON] = [
    {
        "type": "command",
        "name": "go",
        "description": "Go",
        "input": {"type": "text", "hint": "where", "_meta": {"a": 1}},
    },
    {"type": "command", "name": "stay", "description": "Stay", "input": {"type": "_map", "zoom": 3}},
    {"type": "_gesture", "name": "wave", "description": "Wave", "hand": "left"},
]

MESSAGES: list[Step] = [
    update("agent_thought_chunk", messageId="m", content=text("Let me see. ")),  # ids live apart by kind (SU-09)
    update("agent_thought_chunk", messageId="m", content=text("🙂"), _meta={"of": "the chunk"}),
    update("agent_message_chunk", messageId="m", content=text("A"), _meta={"of": "the chunk"}),
    update("agent_message", messageId="m", content=[text("B")], _meta={"kept": {"a": None}, "gone": 2}),
    update("agent_message_chunk", messageId="m", content=text("C")),
    update("agent_message_chunk", messageId="other", content=text("between")),  # messages interleave (SU-08)
    update("agent_message", messageId="m", _meta={"gone": None, "new": [1]}),
    *(update("agent_message_chunk", messageId="m", content=block) for block in BLOCKS),
    update("agent_message", messageId="cleared", content=[text("no")], _meta={"a": 1}),
    update("agent_message", messageId="cleared", content=None, _meta=None),
    update("agent_message", messageId="cleared", content=[text("yes"), UNKNOWN_BLOCK]),
    update("agent_thought", messageId="m", content=None, _meta=None),
    update("agent_thought", messageId="m", content=[text("Done.")], _meta={}),
    update("agent_thought", messageId="empty"),
    update("user_message", messageId="told", content=[text("from elsewhere")], _meta={"x": 1}),
    update("user_message", messageId="told", _meta={"x": None}),
    update("user_message", messageId="told", content=None, _meta=None),
    update("user_message", messageId="told", content=[text("said elsewhere")]),
    update("user_message_chunk", messageId="told", content=text(", and more"), _meta={"y": 1}),
]
CALLS: list[Step] = [
    update("tool_call_update", toolCallId="t"),  # everything by default (TC-03)
    update(
        "tool_call_update",
        toolCallId="t",
        name="edit",
        title="Edit",
        kind="edit",
        status="in_progress",
        content=[{"type": "content", "content": text("old")}],
        locations=[{"path": "/project/x", "line": 1, "_meta": {"col": 2}}, {"path": "/project/y"}],
        rawInput={"deep": [1, None, {"a": 1.5}]},
        rawOutput="so far",
        capabilities={"cancel": {"_meta": {"soon": True}}},
        _meta={"a": 1, "b": {"c": None}},
    ),
    update(
        "tool_call_update",
        toolCallId="t",
        title=None,
        kind=None,
        status=None,
        content=None,
        locations=None,
        rawInput=None,
        rawOutput=None,
        capabilities=None,
        name=None,
        _meta=None,
    ),
    update("tool_call_update", toolCallId="t", title="Edit again", kind="_sculpt", status="paused", rawInput=False),
    update("tool_call_update", toolCallId="t", content=[{"type": "content", "content": BLOCKS[1]}], locations=[]),
    update(
        "tool_call_content_chunk",
        toolCallId="t",
        content={
            "type": "diff",
            "changes": [
                {"operation": "add", "path": "/project/a", "fileType": "text", "mimeType": "text/plain"},
                {"operation": "delete", "path": "/project/b", "fileType": "binary", "mimeType": "x/y"},
                {"operation": "modify", "path": "/project/c", "fileType": "_deed", "mimeType": "x/y"},
                {"operation": "move", "oldPath": "/a", "path": "/b", "fileType": "symlink", "mimeType": "x/y"},
                {"operation": "copy", "oldPath": "/a", "path": "/b", "fileType": "directory", "mimeType": "x/y"},
                {"operation": "_fold", "path": "/project/d", "into": 3},
            ],
            "patch": {"format": "git_patch", "text": "diff --git /project/a /project/a\n", "_meta": {"lines": 1}},
        },
        _meta={"of": "the chunk"},
    ),
    update("tool_call_content_chunk", toolCallId="t", content={"type": "terminal", "terminalId": "sh"}),
    update("tool_call_content_chunk", toolCallId="t", content={"type": "_chart", "bars": [1, 2]}),
    update("tool_call_content_chunk", toolCallId="early", content={"type": "content", "content": text("first seen")}),
    update("tool_call_update", toolCallId="early", status="_pondering", kind="think"),
    update("tool_call_update", toolCallId="early", status="failed", capabilities={"cancel": None}),
    update("tool_call_update", toolCallId="t", status="completed", rawOutput={"lines": 1}),
]
TERMINALS: list[Step] = [
    update("terminal_output_chunk", terminalId="sh", data="Z3LD"),  # half of a letter (TM-07)
    update("terminal_output_chunk", terminalId="sh", data="vMOfZQ==", _meta={"of": "the chunk"}),
    update("terminal_update", terminalId="sh", command="make", cwd="/project", size={"cols": 80, "rows": 24}),
    update("terminal_update", terminalId="sh", capabilities={"cancel": {}}, _meta={"a": 1}),
    update("terminal_update", terminalId="sh", command=None, cwd=None, size=None, capabilities=None, _meta=None),
    update("terminal_update", terminalId="sh", output={"data": "bmV3", "_meta": {"cut": True}}, command="make all"),
    update("terminal_update", terminalId="sh", exitStatus={"exitCode": -9, "signal": "SIGKILL", "_meta": {"by": "us"}}),
    update("terminal_update", terminalId="void", output={"data": "bm8="}, exitStatus={}),
    update("terminal_update", terminalId="void", output=None, exitStatus=None),
]
PLANS: list[Step] = [
    update(
        "plan_update",
        plan={
            "type": "items",
            "planId": "p",
            "entries": [
                {"content": "one", "priority": "high", "status": "completed", "_meta": {"n": 1}},
                {"content": "two", "priority": "_asap", "status": "in_progress"},
                {"content": "three", "priority": "low", "status": "_blocked"},
            ],
        },
        _meta={"v": 1},
    ),
    update("plan_update", plan={"type": "items", "planId": "p", "entries": []}),
    update("plan_update", plan={"type": "file", "planId": "f", "uri": "file:///project/plan.md"}),
    update("plan_update", plan={"type": "markdown", "planId": "md", "content": "- [ ] one"}),
    update("plan_update", plan={"type": "_gantt", "planId": "md", "bars": [[1, 2]]}),  # replaces all the same (PN-04)
    update("plan_removed", planId="f", _meta={"why": "done"}),
    update("plan_removed", planId="never"),
]
SESSION: list[Step] = [
    update("available_commands_update", availableCommands=COMMANDS, _meta={"v": 1}),
    update("config_option_update", configOptions=[{**SWITCH, "type": "_dial", "max": 11}], _meta={"v": 1}),
    update("config_option_update", configOptions=[SELECT, GROUPED, SWITCH]),
    update("session_info_update", title="Everything", updatedAt="2026-01-02T03:04:05Z", _meta={"a": 1, "b": 2}),
    update("session_info_update", updatedAt=None, _meta={"b": None}),
    update("session_info_update", title=None, _meta=None),
    update("session_info_update", title="All of it", _meta={"c": 3}),
    update("usage_update", used=10, size=100, cost={"amount": 0.5, "currency": "EUR", "_meta": {"net": True}}),
    update("usage_update", used=11, size=2**53 - 1),  # the cost stays (US-05)
    update("usage_update", used=12, size=100, cost=None),
    update("usage_update", used=13, size=100, cost={"amount": 1, "currency": "credits"}, _meta={"a": 1}),
    update("notice", severity="warning", title="Careful", description="It is only a notice", _meta={"n": 1}),
    update("notice", severity="_gossip", title="They say"),
    update("notice", severity="error", title="Nothing failed", description=None),
]
COMPACTIONS: list[Step] = [
    update("compaction_update", compactionId="c", status="in_progress", _meta={"a": 1, "b": 2}),
    update("compaction_summary_chunk", compactionId="c", content=text("Kept: "), _meta={"of": "the chunk"}),
    update("compaction_summary_chunk", compactionId="c", content=text("all of it")),
    update("compaction_update", compactionId="c", status="completed", _meta={"b": None}),
    update("compaction_update", compactionId="c", status="completed", summary=[text("All of it.")]),
    update("compaction_update", compactionId="f", status="in_progress"),
    update("compaction_summary_chunk", compactionId="f", content=text("lost")),
    update("compaction_update", compactionId="f", status="failed", summary=None, error="No room", _meta=None),
    update("compaction_update", compactionId="f", status="failed", error=None),
    update("compaction_update", compactionId="x", status="_zipping"),
]
USAGE: JSON = {
    "totalTokens": 6,
    "inputTokens": 1,
    "outputTokens": 2,
    "thoughtTokens": 3,
    "cachedReadTokens": 0,
    "cachedWriteTokens": 0,
}
CHILDREN: list[Step] = [
    update(
        "subagent_update",
        sessionId=CHILD,
        title="Helper",
        description="Helps",
        cwd="/elsewhere",
        additionalDirectories=["/more"],
        capabilities={"cancel": {}, "_meta": {"a": 1}},
        state={"state": "running", "background": [{"type": "terminal", "terminalId": "sh"}]},
        _meta={"a": 1},
    ),
    update("session_message", messageId="m", recipientSessionId=CHILD, content=[text("help")], _meta={"a": 1}),
    update("session_message_chunk", messageId="m", content=text(" me"), _meta={"of": "the chunk"}),
    update("session_message", messageId="m", recipientMessageId="there", senderSessionId=None),
    [*update("session_message", messageId="there", senderSessionId="s1", content=[text("help me")]), CHILD],
    [*update("session_message", messageId="there", senderMessageId="m", recipientSessionId=None), CHILD],
    [*update("state_update", state="running", background=[]), CHILD],
    [*update("agent_message_chunk", messageId="m", content=text("helping")), CHILD],
    [*update("tool_call_update", toolCallId="t", title="Help", status="completed"), CHILD],
    ["ask", {"title": "May it?", "options": options()}, CHILD],
    [*update("state_update", state="idle", stopReason="end_turn"), CHILD],
    update(
        "session_message_chunk", messageId="back", content=text("do"), senderSessionId=CHILD, recipientSessionId="s1"
    ),
    update(
        "session_message_chunk", messageId="back", content=text("ne"), senderSessionId=None, recipientSessionId=None
    ),
    update("session_message", messageId="back", senderSessionId=CHILD, senderMessageId=None, content=None),
    update("session_message", messageId="back", recipientMessageId=None, _meta=None),
    update("subagent_update", sessionId=CHILD, title=None, description=None, state={"state": "_dreaming", "of": 3}),
    update("subagent_update", sessionId=CHILD, state=None, capabilities=None, cwd=None, additionalDirectories=None),
    update(
        "subagent_update",
        sessionId=CHILD,
        title="Helped",
        state={
            "state": "idle",
            "stopReason": "error",
            "error": {"code": -32000, "message": "Sign in", "data": [1]},
            "usage": USAGE,
        },
        additionalDirectories=[],
        _meta=None,
    ),
]
STATES: list[Step] = [
    update("state_update", state="requires_action", background=[{"type": "tool_call", "toolCallId": "t"}]),
    update("state_update", state="_pondering", depth=3),  # never idle (ST-14)
    update("state_update", state="unknown"),
    update(
        "state_update",
        state="running",
        background=[
            {"type": "terminal", "terminalId": "sh"},
            {"type": "tool_call", "toolCallId": "t"},
            {"type": "subagent", "sessionId": CHILD},
            {"type": "_daemon", "pid": 1},
        ],
        _meta={"a": 1},
    ),
]
UNKNOWN: list[Step] = [
    update("_weather", degrees=-3.5, words=["cold", None], deep={"a": {"b": "🙂"}}),
    update("replay_complete"),
    update("_weather", degrees=-3.5, words=["cold", None], deep={"a": {"b": "🙂"}}),  # two are two
]
HALVES: list[Step] = [
    update("agent_message_chunk", messageId="cut", content=text("one \ud83d")),
    update("agent_message_chunk", messageId="cut", content=text("\ude42 whole")),
    update("agent_message_chunk", messageId="cut", content=text(f" and {LONE} half")),
    update("tool_call_update", toolCallId="cut", title=f"half {LONE}"),
    update("tool_call_update", toolCallId="cut", rawInput=[f"half {LONE}"]),
    update("tool_call_update", toolCallId="cut", rawOutput={LONE: 1}),
    update("tool_call_update", toolCallId="cut", _meta={"a": LONE}),
    update("plan_update", plan={"type": "items", "planId": "cut", "entries": []}, _meta={"a": LONE}),
    update("_half", text=LONE),
]

ASK: JSON = {
    "title": "Edit it?",
    "description": "One line",
    "subject": {
        "type": "tool_call",
        "toolCall": {"toolCallId": "asked", "title": "Edit", "kind": "edit", "rawInput": {"a": None}},
    },
    "options": options({"optionId": "later", "name": "Later", "kind": "_later"}),
}
FORM: JSON = {
    "mode": "form",
    "message": "Who?",
    "requestedSchema": {
        "type": "object",
        "title": "You",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": 20},
            "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 30},
            "size": {"type": "number", "minimum": 0.5, "description": "In metres"},
            "nice": {"type": "boolean", "default": True},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 2},
        },
    },
}
FILLED: JSON = {"name": "Ada 🙂", "age": 36, "size": 1.65, "nice": True, "tags": ["b"]}
URL: JSON = {"mode": "url", "message": "Sign in", "elicitationId": "e1", "url": "https://example.org/sign-in"}


def emptied() -> JSON:
    """By kind of update, which member has the id of what it adds to, and the update that empties that (MS-13)."""
    table: JSON = {}
    for kind in ("user_message", "agent_message", "agent_thought", "session_message"):
        table[kind] = table[f"{kind}_chunk"] = ["messageId", {"sessionUpdate": kind, "content": []}]
    call: JSON = {"sessionUpdate": "tool_call_update", "content": None}
    table["tool_call_update"] = table["tool_call_content_chunk"] = ["toolCallId", call]
    terminal: JSON = {"sessionUpdate": "terminal_update", "output": None}
    table["terminal_update"] = table["terminal_output_chunk"] = ["terminalId", terminal]
    compaction: JSON = {"sessionUpdate": "compaction_update", "status": "in_progress", "summary": []}
    table["compaction_update"] = table["compaction_summary_chunk"] = ["compactionId", compaction]
    return table


CAPABILITIES: JSON = {
    "session": {
        "prompt": {"image": {}, "audio": {}, "embeddedContext": {}},
        "mcp": {"stdio": {}, "http": {}},
        "delete": {},
        "additionalDirectories": {},
    },
    "auth": {},
    "_meta": {"story": {"echo": True}},
}
STORY: JSON = {
    "initialize": {
        "protocolVersion": 2,
        "info": {"name": "story", "version": "1.0", "title": "Story", "_meta": {"by": "us"}},
        "capabilities": CAPABILITIES,
        "authMethods": [
            {"type": "agent", "methodId": "key", "name": "Key", "description": "By key"},
            {"type": "_riddle", "methodId": "sphinx", "name": "Sphinx", "legs": [4, 2, 3]},
        ],
    },
    "more": {
        **CAPABILITIES,
        "session": {**CAPABILITIES["session"], "fork": {}, "archive": {}, "status": {}, "title": {}},
        "auth": {"status": {}},
        "providers": {},
    },
    "answers": {
        "auth/status": {"state": "authenticated", "accounts": [{"label": "Ada", "active": True}]},
        "providers/list": {
            "providers": [
                {
                    "providerId": "main",
                    "supported": ["anthropic", "_own"],
                    "required": True,
                    "current": {"apiType": "_own", "baseUrl": "https://example.org/"},
                },
                {"providerId": "off", "supported": [], "required": False, "current": None},
            ]
        },
        "providers/set": {},
        "providers/disable": {},
        "session/archive": {},
        "session/unarchive": {},
        "session/status": {"status": "open", "state": {"state": "idle", "stopReason": "end_turn", "background": []}},
        "session/set_title": {"title": "Branch"},
    },
    "early": [update("session_info_update", title="Early"), update("notice", severity="info", title="Early")],
    "live": ["notice", "state_update"],
    "empty": emptied(),
    "setup": {"configOptions": [SELECT], "availableCommands": COMMANDS[:1]},
    "prompts": {
        "everything": work(
            *MESSAGES,
            *CALLS,
            *TERMINALS,
            *PLANS,
            *SESSION,
            *COMPACTIONS,
            *CHILDREN,
            *STATES,
            *UNKNOWN,
            reason="max_tokens",
            usage=USAGE,
            background=[],
        ),
        "halves": work(*HALVES),
        "many": work(
            PLANS[2],
            ["count", MANY, {"sessionUpdate": "agent_message_chunk", "messageId": "many", "content": text("")}],
            update("plan_removed", planId="f"),
            PLANS[2],  # a new one, at the end
        ),
        "answer first": [  # the answer may be before what it answers is told (PL-17)
            ["answer"],
            ["insert"],
            update("state_update", state="running"),
            update("agent_message_chunk", messageId="late", content=text("heard")),
            update("state_update", state="idle", stopReason="_enough"),
        ],
        "ask": work(
            update("tool_call_update", toolCallId="asked", title="To be asked"),
            update("state_update", state="requires_action"),
            ["ask", ASK],
            [
                "ask",
                {
                    "title": "Run it?",
                    "subject": {"type": "command", "command": "make", "cwd": "/project", "toolCallId": "asked"},
                    "options": options(),
                },
            ],
            ["ask", {"title": "Dream?", "subject": {"type": "_dream", "of": "sheep"}, "options": options()}],
            ["ask", {"title": "Really?", "options": options(), "_meta": {"a": 1}}],
            ["withdraw", {"title": "Never mind", "options": options()}],
            update("state_update", state="running"),
            update("tool_call_update", toolCallId="asked", status="completed"),
        ),
        "elicit": work(
            ["elicit", FORM],
            ["elicit", {**FORM, "message": "Decline"}],
            ["elicit", URL],
            ["complete", "e1"],
            ["complete", "never"],
        ),
        "extend": work(
            ["request", "_story/echo", {"text": LONE, "deep": [None, 1.5]}], ["request", "_story/unknown", {}]
        ),
        "ask and wait": work(
            update("tool_call_update", toolCallId="waits", title="Wait", status="pending"),
            ["ask", {**ASK, "title": "Go on?", "subject": None}],
            ["wait"],
            update("tool_call_update", toolCallId="waits", status="cancelled"),
            reason="cancelled",
        ),
        "held": [["hold"]],
        "endless": work(
            ["endless", {"sessionUpdate": "agent_message_chunk", "messageId": "endless", "content": text("")}],
            update("agent_message_chunk", messageId="endless", content=text("the end")),
            reason="cancelled",
        ),
        "refuse": [["refuse", {"code": -32602, "message": "Not that", "data": {"why": [1, None]}}]],
        "fail": work(
            update("agent_message_chunk", messageId="fails", content=text("half an ans")),
            reason="error",
            error={"code": -32000, "message": "Sign in first", "data": {"methods": ["key"]}},
        ),
        "stop its parts": [
            ["inquire", FORM],
            *work(
                update("tool_call_update", toolCallId="slow", status="in_progress", capabilities={"cancel": {}}),
                update("terminal_update", terminalId="slow", command="sleep", capabilities={"cancel": {}}),
                ["wait"],
                update("tool_call_update", toolCallId="slow", status="cancelled", capabilities=None),
                ["wait"],
                update("terminal_update", terminalId="slow", exitStatus={"signal": "SIGTERM"}, capabilities=None),
                ["notify", "auth/status_update", {"state": "_expired", "accounts": []}],
            ),
        ],
        "other": work(),
    },
}


def told() -> list[JSON]:
    """All updates of the prompts' steps."""
    return [step[1] for steps in STORY["prompts"].values() for step in steps if step[0] == "update"]
