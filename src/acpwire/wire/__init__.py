"""Bytes to typed messages and back: no state, no I/O, msgspec alone. This is what a vendored copy consists of.

    errors      DecodeError, EncodeError
    values      what generated types are made of
    surrogates  lone halves of characters, which JSON lets pass and msgspec does not
    lenient     the second look at what did not decode strictly
    lines       cutting a stream into lines, scanning a line
    sending     what binds a sender beyond the types
    frames      JSON-RPC messages, methods, reading and writing a line
    v2          generated from the pinned draft

A module imports only from those above it.
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
from .lines import LineBuffer, OversizedLine, Route, route
from .sending import Violation
from .values import OpenObject, UnknownVariant

__all__ = [
    "DecodeError",
    "EncodeError",
    "ErrorObject",
    "ErrorResponse",
    "LineBuffer",
    "Malformed",
    "Message",
    "Method",
    "Notification",
    "OpenObject",
    "OversizedLine",
    "Request",
    "Response",
    "Route",
    "UnknownVariant",
    "Violation",
    "encode",
    "route",
]
