"""Transcripts: what a stream of session updates adds up to, shared by editors, stores, replays and analysers.

    transcript = Transcript()
    transcript.apply(update)               # an update, in the order of receipt
    transcript.text                        # the agent's answer so far
    for line in transcript.save(): ...     # the history, materialised, one update object a line

Owns: the fold, its views, and the way back to updates. Does not know: connections, asyncio, files.

    frozen       JSON that refuses to be changed
    content      what grows: blocks, output
    entities     messages, tool calls, terminals, ... with their defaults
    snapshot     a transcript at one moment
    history      a snapshot as the fewest updates that rebuild it
    store        what a transcript holds, and finding, patching, telling, freezing
    fold         what each update does
    transcript   what one asks of it

A module imports only from those above it.
"""

from __future__ import annotations

from .content import Blocks, Output
from .entities import Compaction, Entity, Message, Plan, SessionMessage, Subagent, Terminal, ToolCall, Unknown
from .snapshot import Snapshot, State, Usage
from .store import Change
from .transcript import Transcript

__all__ = [
    "Blocks",
    "Change",
    "Compaction",
    "Entity",
    "Message",
    "Output",
    "Plan",
    "SessionMessage",
    "Snapshot",
    "State",
    "Subagent",
    "Terminal",
    "ToolCall",
    "Transcript",
    "Unknown",
    "Usage",
]
