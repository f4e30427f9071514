# ruff: noqa: INP001  # it stands for a program outside the repository, so it is in no package
"""What somebody who uses `acpwire.v2` would write: read by type checkers, and run in part; see tests/test_typing.py.

A line marked `error` (with its reason) is one that every checker must refuse; every other line must pass. A line marked
`reveals` holds the type that every checker must answer with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, assert_never, assert_type, reveal_type

import msgspec

import acpwire
import acpwire.transcript.snapshot
from acpwire import Agent, AgentSession, Transcript, UserPrompt, v2
from acpwire.v2 import AgentMessageChunk, ContentBlock, TextContent, ToolCallStatus, UnknownVariant
from acpwire.wire import Message

P = TypeVar("P")
R = TypeVar("R")


# --- reading updates --------------------------------------------------------------------------------------------------


def label(update: v2.SessionUpdate) -> str:
    """Nested patterns, a base class of several variants, three states of one member, and what is not known."""
    match update:
        case v2.AgentMessageChunk(content=v2.TextContent(text=text)):
            reveal_type(text)  # reveals: str
            return text
        case v2.AgentMessageChunk(content=block):
            assert_type(block, ContentBlock)
            return block.tag
        case v2.ContentChunk():
            reveal_type(update)  # reveals: UserMessageChunk | AgentThoughtChunk
            reveal_type(update.tag)  # reveals: Literal["user_message_chunk", "agent_thought_chunk"]
            return update.message_id
        case v2.ToolCallUpdate(title=v2.UNSET):
            return "title kept"
        case v2.ToolCallUpdate(title=None):
            return "title cleared"
        case v2.ToolCallUpdate(tool_call_id=call, content=None | v2.UNSET):
            reveal_type(call)  # reveals: str
            return call
        case v2.StateUpdate(state="idle", stop_reason=reason, error=v2.Error(message=message)):
            reveal_type(reason)  # reveals: str | None
            reveal_type(message)  # reveals: str
            return f"{reason}: {message}"
        case v2.StateUpdate():
            reveal_type(update.state)  # reveals: Literal["running", "idle", "requires_action", "unknown"]
            assert_type(update.background, Sequence[v2.BackgroundWork] | None)
            return update.state
        case v2.PlanUpdate(plan=v2.PlanItems(entries=[first, *_])):
            reveal_type(first)  # reveals: PlanEntry
            return first.content
        case v2.UnknownVariant(tag=tag, raw=raw):
            reveal_type(tag)  # reveals: str
            reveal_type(raw)  # reveals: bytes
            return f"{tag}: {len(raw)} bytes"
        case _:
            return update.tag


def by_class(update: v2.SessionUpdate) -> str:
    """The same without patterns."""
    assert_type(update, v2.SessionUpdate)
    reveal_type(update.tag)  # reveals: str
    if isinstance(update, v2.ContentChunk):
        reveal_type(update)  # reveals: UserMessageChunk | AgentMessageChunk | AgentThoughtChunk
        return update.message_id
    if isinstance(update, v2.AgentMessage | v2.UserMessage):
        reveal_type(update.message_id)  # reveals: str
    return update.tag


def by_tag(block: v2.ContentBlock) -> str:
    """A tag tells variants apart once the unknown one is out of the way, whose tag is any string."""
    if isinstance(block, UnknownVariant):
        return str(block.data)
    reveal_type(block.tag)  # reveals: Literal["text", "image", "audio", "resource_link", "resource"]
    if block.tag == "image":
        reveal_type(block)  # reveals: ImageContent
        return block.mime_type
    if block.tag == "vidoe":  # error: no variant has this tag
        return ""
    match block.tag:
        case "text":
            reveal_type(block)  # reveals: TextContent
            return block.text
        case "resource_link":
            return block.uri
        case "audio" | "resource":
            reveal_type(block)  # reveals: AudioContent | EmbeddedResource
            return ""


def every_block(block: ContentBlock) -> str:
    """A match over a union can be complete, and says so when a variant is added."""
    match block:
        case v2.TextContent():
            return block.text
        case v2.ImageContent() | v2.AudioContent():
            return block.mime_type
        case v2.ResourceLink(uri=uri, size=size):
            reveal_type(size)  # reveals: int | None
            return uri
        case v2.EmbeddedResource(resource=v2.TextResourceContents(text=text)):
            return text
        case v2.EmbeddedResource(resource=resource):
            reveal_type(resource)  # reveals: TextResourceContents | BlobResourceContents
            return resource.uri
        case v2.UnknownVariant():
            return block.tag
        case _:
            assert_never(block)


def forgets_the_unknown(outcome: v2.RequestPermissionOutcome) -> str:
    match outcome:
        case v2.SelectedPermissionOutcome():
            return outcome.option_id
        case v2.CancelledPermissionOutcome():
            return "cancelled"
        case _:
            assert_never(outcome)  # error: an outcome of a later version


def forgets_a_variant(plan: v2.PlanUpdateContent) -> str:
    match plan:
        case v2.PlanItems() | v2.PlanFile() | v2.UnknownVariant():
            return plan.tag
        case _:
            assert_never(plan)  # error: Markdown plans


def misspelt_patterns(block: v2.TextContent | v2.ImageContent, update: v2.StateUpdate) -> str:
    if update.state == "idel":  # error: no such state
        return ""
    if block.tag == "audio":  # error: neither of both
        return ""
    match block:
        case v2.TextContnt():  # error: no such class
            return ""
        case v2.TextContent(txt=_text):  # error: no such member
            return ""
        case v2.TextContent("hello"):  # error: members are named, not counted
            return ""
        case _:
            return ""


def alternatives(select: v2.SessionConfigSelect) -> str:
    reveal_type(select.options)  # reveals: Sequence[SessionConfigSelectOption] | Sequence[SessionConfigSelectGroup]
    for option in select.options:
        match option:
            case v2.SessionConfigSelectOption(value=value):
                return value
            case v2.SessionConfigSelectGroup(options=options):
                reveal_type(options)  # reveals: Sequence[SessionConfigSelectOption]
    return select.current_value


# --- omitted, null and a value ----------------------------------------------------------------------------------------


def three_states(update: v2.ToolCallUpdate) -> str:
    reveal_type(update.title)  # reveals: str | UnsetType | None
    if update.title is v2.UNSET:
        return "kept"
    if update.title is None:
        return "cleared"
    reveal_type(update.title)  # reveals: str
    return update.title


def three_states_by_pattern(update: v2.ToolCallUpdate) -> str:
    match update.title:
        case v2.UNSET:
            return "kept"
        case None:
            return "cleared"
        case title:
            reveal_type(title)  # reveals: str
            return title


def by_truth(update: v2.ToolCallUpdate) -> int:
    """UNSET is false, so that a value can be asked for without telling how it is missing."""
    title = update.title or "untitled"
    reveal_type(title)  # reveals: str
    if update.content:
        reveal_type(update.content)  # reveals: Sequence[Content | Diff | Terminal | UnknownVariant]
        return len(update.content)
    return len(title)


def forgets_states(update: v2.ToolCallUpdate, link: v2.ResourceLink) -> None:
    print(update.title.upper())  # error: may be UNSET or None
    for item in update.content:  # error: may be UNSET or None
        print()
        del item
    if link.title is not None:
        print(link.title.upper())
    print(link.title + "!")  # error: may be None


def plain_options(link: v2.ResourceLink, request: v2.NewSessionRequest, start: v2.InitializeRequest) -> None:
    """Where omitted and null are the same, there is no UNSET; a list that may be missing is just empty."""
    reveal_type(link.title)  # reveals: str | None
    assert_type(request.mcp_servers, Sequence[v2.McpServer])
    reveal_type(start.capabilities)  # reveals: ClientCapabilities
    reveal_type(start.capabilities.elicitation)  # reveals: ElicitationCapabilities | None
    reveal_type(link.tag)  # reveals: Literal["resource_link"]


# --- building ---------------------------------------------------------------------------------------------------------


def build(parts: Sequence[str]) -> list[object]:
    """A list of one variant goes where a sequence of any is expected, and so does a tuple."""
    texts = [v2.TextContent(text=part) for part in parts]
    reveal_type(texts)  # reveals: list[TextContent]
    mixed: list[ContentBlock] = [*texts, v2.ImageContent(data="aGk=", mime_type="image/png")]
    unknown = UnknownVariant("_video", b'{"type":"_video"}')
    prompt = v2.PromptRequest(session_id="s", prompt=texts, meta={"traceparent": "00"})
    reveal_type(prompt)  # reveals: PromptRequest
    return [
        prompt,
        v2.PromptRequest(session_id="s", prompt=mixed),
        v2.PromptRequest(session_id="s", prompt=(*texts, unknown)),
        v2.AgentMessage(message_id="m", content=texts),
        v2.AgentMessage(message_id="m", content=None, meta=v2.UNSET),
        v2.ToolCallUpdate(tool_call_id="t", content=[v2.Content(content=texts[0]), v2.Terminal(terminal_id="t")]),
        v2.NewSessionRequest(cwd="/", mcp_servers=[v2.McpServerStdio(name="n", command="/bin/n", args=["-v"])]),
        v2.SessionConfigSelect(
            config_id="model",
            name="Model",
            current_value="a",
            options=[v2.SessionConfigSelectOption(value="a", name="A")],
        ),
        v2.McpError(code=-1, message="m", retries=3),
        msgspec.structs.replace(prompt, session_id="other"),
    ]


def build_wrongly(block: TextContent, options: list[v2.SessionConfigSelectOption]) -> None:
    v2.TextContent(txt="hello")  # error: no such member
    v2.TextContent(text=1)  # error: no string
    v2.TextContent("hello")  # error: members are named, not counted
    v2.TextContent()  # error: a required member is missing
    v2.TextContent(text="hello", tag="text")  # error: the class has its tag already
    v2.TextContent(text="hello", annotations=v2.UNSET)  # error: None says the same, and is the way to say it
    v2.PromptRequest(session_id="s", prompt="hello")  # error: a string is no list of blocks
    v2.PromptRequest(session_id="s", prompt=["hello"])  # error: a string is no block
    v2.PromptRequest(session_id="s", prompt=[v2.Terminal(terminal_id="t")])  # error: content of tool calls only
    v2.AgentMessageChunk(message_id="m", content=[block])  # error: one block, not a list
    v2.NewSessionRequest(cwd="/", mcp_servers=None)  # error: senders use arrays
    v2.NewSessionRequest(cwd="/", additional_directories=[1])  # error: a number is no path
    v2.StateUpdate(state="done")  # error: the states are a closed set
    v2.ElicitationAcceptAction(content=v2.UNSET)  # error: not three-state
    v2.MessageMcpResponse(error=None)  # error: an error is there or is not, and never null
    v2.SessionConfigBoolean(config_id="c", name="n", current_value="on")  # error: no boolean
    v2.SetSessionConfigOptionIdRequest(session_id="s", config_id="c", value=True)  # error: no string
    v2.McpError(code=1)  # error: a required member is missing
    v2.Request(id=1.5, method="m", params=None)  # error: an id is no fraction
    v2.Request(method="m", params=None)  # error: a request has an id
    v2.SessionUpdate(message_id="m")  # error: a union is not built, its variants are
    block.text = "bye"  # error: frozen
    block.tag = "text"  # error: frozen
    print(block.txt)  # error: no such member
    print(block.text.uper())  # error: no such method
    group = v2.SessionConfigSelectGroup(group_id="g", name="n", options=options)
    v2.SessionConfigSelect(config_id="c", name="n", current_value="v", options=[*options, group])  # error: mixed
    options.append(group)  # error: mixed


# --- open sets of values ----------------------------------------------------------------------------------------------


def open_strings(update: v2.ToolCallUpdate, status: ToolCallStatus) -> str:
    """Known values are offered by editors, others pass."""
    vendor: v2.ToolCallStatus = "_vendor"
    known: v2.ToolCallStatus = "completed"
    reveal_type(status)  # reveals: str
    reveal_type(update.status)  # reveals: str | UnsetType | None
    v2.ToolCallUpdate(tool_call_id="t", status=vendor, kind="_mine")
    v2.ToolCallUpdate(tool_call_id="t", status=7)  # error: no string
    wrong: v2.ToolCallStatus = 7  # error: no string
    del wrong
    if update.status == "in_progress":
        return known
    return status.upper()


def open_numbers(error: v2.Error) -> int:
    reveal_type(error.code)  # reveals: int
    if error.code == v2.METHOD_NOT_FOUND:
        return 0
    return v2.Error(code=-1, message="mine").code


# --- values and methods -----------------------------------------------------------------------------------------------


def values(raw: bytes) -> None:
    reveal_type(v2.decode(v2.TextContent, raw))  # reveals: TextContent
    assert_type(v2.decode(AgentMessageChunk, raw).content, ContentBlock)
    reveal_type(v2.decode(list[v2.PlanEntry], raw))  # reveals: list[PlanEntry]
    reveal_type(v2.encode(v2.TextContent(text="hello")))  # reveals: bytes
    block: ContentBlock = v2.decode(v2.ContentBlock, raw)
    reveal_type(v2.validate(block))  # reveals: list[Violation]
    reveal_type(v2.decode(v2.ImageContent, raw).data_bytes)  # reveals: bytes
    image: v2.ImageContent = v2.decode(v2.TextContent, raw)  # error: another type
    del image
    v2.decode(v2.TextContent, 7)  # error: no bytes
    v2.decode(v2.TextContent)  # error: of what?
    v2.decod(v2.TextContent, raw)  # error: no such function


def transcripts(update: v2.SessionUpdate) -> None:
    transcript = Transcript()
    transcript.apply(update)
    reveal_type(transcript.text)  # reveals: str
    reveal_type(transcript.tool_calls["t"].status)  # reveals: str
    reveal_type(transcript.last_message)  # reveals: Message | None
    reveal_type(transcript.state.is_idle)  # reveals: bool
    reveal_type(transcript.snapshot())  # reveals: Snapshot
    transcript.text = ""  # error: a view
    del transcript.tool_calls["t"].statuss  # error: no such member


def methods(raw: bytes, result: msgspec.Raw) -> None:
    reveal_type(v2.SESSION_PROMPT)  # reveals: Method[PromptRequest, PromptResponse]
    reveal_type(v2.SESSION_PROMPT.decode_params(raw))  # reveals: PromptRequest
    reveal_type(v2.SESSION_PROMPT.decode_result(raw))  # reveals: PromptResponse
    reveal_type(v2.SESSION_PROMPT.decode_result(result).message_id)  # reveals: str
    reveal_type(v2.SESSION_UPDATE.decode_params(raw))  # reveals: UpdateSessionNotification
    reveal_type(v2.SESSION_UPDATE)  # reveals: Method[UpdateSessionNotification, None]
    create = v2.ELICITATION_CREATE
    reveal_type(create.decode_params(raw))  # reveals: ElicitationFormMode | ElicitationUrlMode | UnknownVariant
    assert_type(create.decode_result(raw), v2.CreateElicitationResponse)
    reveal_type(v2.MCP_MESSAGE_CLIENT)  # reveals: Method[MessageMcpRequest, MessageMcpResponse]
    reveal_type(v2.MCP_MESSAGE_AGENT)  # reveals: Method[MessageMcpNotification, None]
    reveal_type(v2.SESSION_PROMPT.name)  # reveals: str
    reveal_type(v2.SESSION_PROMPT.stable)  # reveals: bool
    request: v2.NewSessionRequest = v2.SESSION_PROMPT.decode_params(raw)  # error: of another method
    del request
    v2.SESSION_PROMPT.decode_params("{}")  # error: no bytes
    print(v2.SESSION_PROMT)  # error: no such method


# --- the facade -------------------------------------------------------------------------------------------------------


async def by_the_facade_alone(agent: Agent, schema: v2.ElicitationSchema) -> None:
    """Modules need no import of their own."""
    reveal_type(acpwire.forms.defaults(schema))  # reveals: dict[str, Any]
    async with acpwire.testing.connect(agent) as connection:
        reveal_type(connection)  # reveals: AgentConnection
    reveal_type(acpwire.capture.Recorder("f"))  # reveals: Recorder
    print(acpwire.tesing)  # error: no such module
    print(acpwire.transcript.snapshot.Snapshot)


async def with_its_types(
    connection: acpwire.AgentConnection, session: acpwire.ClientSession, agent: acpwire.Transport
) -> None:
    """What one annotates with has its name there, too."""

    def show(change: acpwire.Change) -> None:
        reveal_type(change.what)  # reveals: Literal["created", "appended", "replaced", "removed"]

    assert_type(acpwire.Transcript(observer=show).tool_calls, Mapping[str, acpwire.ToolCall])
    assert_type(session.transcript.terminals, Mapping[str, acpwire.Terminal])
    updates: acpwire.Stream[v2.SessionUpdate] = session.stream()
    del updates
    end: acpwire.RelayEnd = await acpwire.relay(acpwire.stdio(), agent)
    reveal_type(end.cause)  # reveals: ConnectionClosed
    reveal_type(await connection.wait_closed())  # reveals: ConnectionClosed


# --- lines ------------------------------------------------------------------------------------------------------------


def dispatch(line: bytes) -> str:
    """Everything that a line can be, without an exception."""
    message = v2.decode_from_agent(line)
    assert_type(message, v2.FromAgent)
    back: Message = message
    del back
    match message:
        case v2.Notification(params=v2.UpdateSessionNotification(session_id=session, update=update)):
            assert_type(update, v2.SessionUpdate)
            reveal_type(session)  # reveals: str
            return label(update)
        case v2.Notification(method=method):
            reveal_type(method)  # reveals: str
            return method
        case v2.Request(id=request_id, params=v2.RequestPermissionRequest() as params):
            reveal_type(request_id)  # reveals: int | str
            reveal_type(params)  # reveals: RequestPermissionRequest
            return params.title
        case v2.Request(params=v2.ElicitationFormMode(requested_schema=schema)):
            reveal_type(schema)  # reveals: ElicitationSchema
            return ",".join(schema.properties)
        case v2.Request():
            return message.method
        case v2.Response(result=result):
            return v2.SESSION_PROMPT.decode_result(result).message_id
        case v2.ErrorResponse(id=error_id, error=error):
            reveal_type(error_id)  # reveals: int | str | None
            reveal_type(error.code)  # reveals: int
            return error.message
        case v2.Malformed():
            reveal_type(message.code)  # reveals: int | None
            return f"{message.path}: {message.message}"
        case _:
            assert_never(message)


def misreads(line: bytes) -> str:
    message = v2.decode_from_client(line)
    print(message.params)  # error: not every message has params
    if isinstance(message, v2.Malformed):
        print(message.reason)  # error: no such member
    v2.decode_from_client("{}")  # error: no bytes
    match message:
        case v2.Notification() | v2.Request() | v2.Response():
            return ""
        case v2.Malformed():
            return ""
        case _:
            assert_never(message)  # error: error responses


# --- the two sides ----------------------------------------------------------------------------------------------------


class Recorder:
    """A `Caller`, as one would write it for a test."""

    def __init__(self, answers: Mapping[str, bytes]) -> None:
        self.answers = answers
        self.sent: list[str] = []

    async def request(self, method: v2.Method[P, R], params: P) -> R:
        self.sent.append(f"{method.name} {v2.encode(params).decode()}")
        return method.decode_result(self.answers[method.name])

    async def notify(self, method: v2.Method[P, None], params: P) -> None:
        self.sent.append(f"{method.name} {v2.encode(params).decode()}")


async def call(recorder: Recorder) -> str:
    agent = v2.AgentCalls(recorder)
    request = v2.PromptRequest(session_id="s", prompt=[v2.TextContent(text="hello")])
    response = await agent.session_prompt(request)
    reveal_type(response)  # reveals: PromptResponse
    reveal_type(await agent.session_cancel(v2.CancelSessionNotification(session_id="s")))  # reveals: None
    option = v2.SetSessionConfigOptionIdRequest(session_id="s", config_id="c", value="v")
    reveal_type(await agent.session_set_config_option(option))  # reveals: SetSessionConfigOptionResponse
    return response.message_id


async def call_wrongly(agent: v2.AgentCalls, client: v2.ClientCalls, request: v2.PromptRequest) -> None:
    await agent.session_prompt(v2.NewSessionRequest(cwd="/"))  # error: params of another method
    await agent.session_promt(request)  # error: no such method
    await client.session_prompt(request)  # error: a method of the other side
    await agent.session_prompt(session_id="s")  # error: params are one value
    print((await agent.session_prompt(request)).stop_reason)  # error: no such member
    v2.AgentCalls(object())  # error: no caller


class Editor:
    """A whole handler: what a client must answer, and the rest of it in one line each."""

    async def cancel_request(self, params: v2.CancelRequestNotification) -> None:
        reveal_type(params.request_id)  # reveals: int | str

    async def session_update(self, params: v2.UpdateSessionNotification) -> None:
        label(params.update)

    async def session_request_permission(self, params: v2.RequestPermissionRequest) -> v2.RequestPermissionResponse:
        for option in params.options:
            if option.kind == "allow_once":
                outcome = v2.SelectedPermissionOutcome(option_id=option.option_id)
                return v2.RequestPermissionResponse(outcome=outcome)
        return v2.RequestPermissionResponse(outcome=v2.CancelledPermissionOutcome())

    async def elicitation_create(self, params: v2.CreateElicitationRequest) -> v2.CreateElicitationResponse:
        reveal_type(params)  # reveals: ElicitationFormMode | ElicitationUrlMode | UnknownVariant
        return v2.ElicitationDeclineAction()

    async def elicitation_complete(self, params: v2.CompleteElicitationNotification) -> None:
        """Nothing is shown."""

    async def auth_status_update(self, params: v2.AuthStatusUpdateNotification) -> None:
        """Nothing is shown."""

    async def mcp_message_client(self, params: v2.MessageMcpRequest) -> v2.MessageMcpResponse:
        return v2.MessageMcpResponse(result=None)


class Viewer(v2.ClientHandler):
    """Part of a handler; the protocol is its base, so that checkers compare what is there."""

    async def session_update(self, params: v2.UpdateSessionNotification) -> None:
        reveal_type(params.session_id)  # reveals: str

    async def session_request_permission(self, params: v2.RequestPermissionRequest) -> None:  # error: no answer
        """A request needs an answer of its type."""

    async def elicitation_create(self, params: v2.PromptRequest) -> v2.CreateElicitationResponse:  # error: wrong params
        return v2.ElicitationCancelAction()


class Deaf:
    """Too little to be a handler."""

    async def session_update(self, params: v2.UpdateSessionNotification) -> None:
        """Nothing is shown."""


def serve(handler: v2.ClientHandler) -> None:
    """Stands for whatever takes a handler."""


def serve_some(anything: Any) -> None:
    serve(Editor())
    serve(anything)
    serve(Deaf())  # error: methods are missing
    Viewer()  # error: methods are missing


# --- an agent ---------------------------------------------------------------------------------------------------------


class Careless(Agent):
    """What is easily written wrong in an agent."""

    info = v2.Implementation(name="careless", version="1")

    async def prompt(self, session: AgentSession, prompt: UserPrompt) -> v2.StopReason | None:
        """A question is a coroutine, and members of entities are known by name."""
        session.request_permission("Sure?")  # error: it is to be awaited
        session.elicit("Who?")  # error: it is to be awaited
        reveal_type(await session.request_permission("Sure?"))  # reveals: Permission
        reveal_type(await session.elicit("Who?"))  # reveals: Elicited
        session.tool_call("x", location=[])  # error: no such member
        session.terminal(size=80)  # error: no number
        await session.subagent("x", state=None)  # error: told by the runtime
        async with session.terminal() as terminal, session.tool_call("x", content=["a", terminal]) as call:
            await call.write(terminal, "text", v2.TextContent(text="a block"))
            await call.write(42)  # error: no content
            await call.update(status="paused", title=None, content=[terminal])
            await call.update(statuss="paused")  # error: no such member
            await terminal.update(exit_code=0)  # error: no such member
        return None
