"""Bytes from and to the other end: this process's own stdio, a child process, memory, or what somebody else wrote.

    agent = await spawn_process("my-agent", "--acp")     # a client's end
    await agent.write(line)
    block = await agent.read()                           # b"" at the end
    await agent.close()                                  # no process is left

Owns: reading, writing, pausing, closing, and processes. Does not know: lines, messages, JSON.

    channel       `Transport`, three methods that anyone can write; `Channel`, what all of ours are
    descriptors   file descriptors of any kind, without ever blocking the loop
    own           this process's stdin and stdout
    process       a child in a process group of its own
    memory        two ends in one process
    foreign       a `Channel` over any other `Transport`

A module imports only from those above it. POSIX; tried on Linux. Every event loop does that has `add_reader`.
"""

from __future__ import annotations

from .channel import Channel, Transport
from .foreign import channel_of
from .memory import pair
from .own import stdio
from .process import ProcessTransport, spawn_process

__all__ = [
    "Channel",
    "ProcessTransport",
    "Transport",
    "channel_of",
    "pair",
    "spawn_process",
    "stdio",
]
