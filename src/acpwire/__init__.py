"""Typed messages of the Agent Client Protocol v2 draft, generated from its schema, and fast decoders for them.

    wire          lines and JSON-RPC messages, for any generated package; what a vendored copy consists of
    v2            every type, method and decoder of the pinned draft
    errors        what is raised, by whose fault it is
    limits        every limit of a connection, with its default
    failures      what a user's functions raise, in the log
    compression   files that end in .gz and .zst
    capture       recordings: writing them, reading them
    transcript    what a stream of updates adds up to
    trace         W3C trace context in `_meta`
    texts         notifications that differ in one text alone
    connection    a JSON-RPC peer without I/O
    transports    bytes from and to the other end: stdio, a process, memory
    proxy         what passes between a client and an agent, with a tap
    streams       what was delivered, waiting for its reader
    unread        answers that a peer does not read
    peer          the pump: a connection over a transport, on an event loop
    capabilities  what a peer says it can do
    scope         cancelling what runs inside a context, and nothing around it
    forms         what a user fills in: defaults, and whether it fits
    overriding    what users derive from a class, and whether it can be called
    agent         the Agent's end: sessions, prompts, writers
    client        the Client's end: starting agents, sessions, prompts
    testing       an agent and a client in one process, and either of them by a script
    examples      six programs to begin from
    demo_agent    an agent that says everything that can be said
    demo          a client that starts it and says what came
    cli           the command `acpwire`

A module imports only from those above it. The names below load on first use, and so do the modules that users have
something in, such as `acpwire.testing`; importing `acpwire` or `acpwire.v2` loads msgspec alone beside the standard
library, and no asyncio.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Other modules are known by what is imported from them; to name a package here would hide the modules in it.
    from . import forms as forms
    from . import testing as testing
    from . import trace as trace
    from . import v2 as v2
    from .agent import (
        Agent,
        AgentSession,
        CompactionWriter,
        Elicited,
        MessageWriter,
        Permission,
        SessionMessageWriter,
        TerminalWriter,
        ToolCallWriter,
        UserPrompt,
        extension,
        run_agent,
        serve,
    )
    from .capture import Record, Recorder, read_capture
    from .client import AgentConnection, Client, ClientSession, Prompt, Turn, connect, spawn_agent
    from .errors import (
        AuthRequired,
        ConnectionClosed,
        DecodeError,
        EncodeError,
        Error,
        RequestError,
        SessionNotFound,
        StreamOverflow,
        UsageError,
        VersionMismatch,
    )
    from .limits import Limits
    from .proxy import RelayEnd, relay
    from .streams import Stream
    from .transcript import Change, Terminal, ToolCall, Transcript
    from .transports import Transport, pair, spawn_process, stdio
    from .wire import LineBuffer, encode, route  # named as a module, it would hide wire.v2 from pyright

_NAMES = {
    "agent": (
        "Agent",
        "AgentSession",
        "CompactionWriter",
        "Elicited",
        "MessageWriter",
        "Permission",
        "SessionMessageWriter",
        "TerminalWriter",
        "ToolCallWriter",
        "UserPrompt",
        "extension",
        "run_agent",
        "serve",
    ),
    "capture": ("Record", "Recorder", "read_capture"),
    "client": ("AgentConnection", "Client", "ClientSession", "Prompt", "Turn", "connect", "spawn_agent"),
    "errors": (
        "AuthRequired",
        "ConnectionClosed",
        "DecodeError",
        "EncodeError",
        "Error",
        "RequestError",
        "SessionNotFound",
        "StreamOverflow",
        "UsageError",
        "VersionMismatch",
    ),
    "limits": ("Limits",),
    "proxy": ("RelayEnd", "relay"),
    "streams": ("Stream",),
    "transcript": ("Change", "Terminal", "ToolCall", "Transcript"),
    "transports": ("Transport", "pair", "spawn_process", "stdio"),
    "wire": ("LineBuffer", "encode", "route"),
}
_MODULES = frozenset(
    {
        "agent",
        "capture",
        "client",
        "errors",
        "examples",
        "forms",
        "limits",
        "proxy",
        "testing",
        "trace",
        "transcript",
        "transports",
        "v2",
        "wire",
    }
)
"""The modules that load on first use, too."""
_HOME = {name: f"acpwire.{module}" for module, names in _NAMES.items() for name in names}

__all__ = [
    "Agent",
    "AgentConnection",
    "AgentSession",
    "AuthRequired",
    "Change",
    "Client",
    "ClientSession",
    "CompactionWriter",
    "ConnectionClosed",
    "DecodeError",
    "Elicited",
    "EncodeError",
    "Error",
    "Limits",
    "LineBuffer",
    "MessageWriter",
    "Permission",
    "Prompt",
    "Record",
    "Recorder",
    "RelayEnd",
    "RequestError",
    "SessionMessageWriter",
    "SessionNotFound",
    "Stream",
    "StreamOverflow",
    "Terminal",
    "TerminalWriter",
    "ToolCall",
    "ToolCallWriter",
    "Transcript",
    "Transport",
    "Turn",
    "UsageError",
    "UserPrompt",
    "VersionMismatch",
    "connect",
    "encode",
    "extension",
    "pair",
    "read_capture",
    "relay",
    "route",
    "run_agent",
    "serve",
    "spawn_agent",
    "spawn_process",
    "stdio",
]


if not TYPE_CHECKING:  # else any name would pass, as `Any`

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")  # which sets it here
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOME[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
