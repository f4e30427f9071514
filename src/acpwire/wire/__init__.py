"""Bytes to typed messages and back: no state, no I/O, msgspec alone. This is what a vendored copy consists of.

    values      what generated types are made of
    lenient     the second look at what did not decode strictly
    frames      lines, JSON-RPC messages, methods
    errors      DecodeError, EncodeError
    v2          generated from the pinned draft

Imports go down this list never, up it only: `v2` from all, `frames` from `lenient`, `lenient` from `values`.
"""

from .errors import DecodeError, EncodeError
from .frames import (
    ErrorObject,
    ErrorResponse,
    Malformed,
    Message,
    Method,
    Notification,
    Request,
    Response,
    encode,
)
from .values import OpenObject, UnknownVariant

__all__ = [
    "DecodeError",
    "EncodeError",
    "ErrorObject",
    "ErrorResponse",
    "Malformed",
    "Message",
    "Method",
    "Notification",
    "OpenObject",
    "Request",
    "Response",
    "UnknownVariant",
    "encode",
]
