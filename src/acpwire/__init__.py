"""Typed messages of the Agent Client Protocol v2 draft, generated from its schema, and fast decoders for them.

    acpwire.v2           every type, method and decoder of the pinned draft
    acpwire.wire         lines and JSON-RPC messages, for any generated package
    acpwire.transcript   what a stream of updates adds up to
    acpwire.capture      recordings: writing them, reading them
    acpwire.cli          the command `acpwire`

The names below load on first use; importing `acpwire` or `acpwire.v2` loads msgspec alone beside the standard library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .capture import Record, Recorder, read_capture
    from .errors import DecodeError, EncodeError
    from .transcript import Transcript
    from .wire import LineBuffer, encode, route

_HOME = {
    "DecodeError": "acpwire.errors",
    "EncodeError": "acpwire.errors",
    "LineBuffer": "acpwire.wire",
    "Record": "acpwire.capture",
    "Recorder": "acpwire.capture",
    "Transcript": "acpwire.transcript",
    "encode": "acpwire.wire",
    "read_capture": "acpwire.capture",
    "route": "acpwire.wire",
}

__all__ = [
    "DecodeError",
    "EncodeError",
    "LineBuffer",
    "Record",
    "Recorder",
    "Transcript",
    "encode",
    "read_capture",
    "route",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
