"""The two errors of the wire: a value that cannot be decoded, and one that cannot be encoded.

Owns: both classes. Does not know: JSON-RPC error codes, or connections.
"""

from __future__ import annotations


class DecodeError(ValueError):
    """A JSON value does not fit its type.

    `path` is where, as a JSON path (`$.params.update.content[3]`); the message says what was expected there and never
    holds the value itself.
    """

    def __init__(self, message: str, path: str = "$") -> None:
        super().__init__(message, path)
        self.message = message
        self.path = path

    def __str__(self) -> str:
        return f"{self.message} - at `{self.path}`"


class EncodeError(ValueError):
    """A value has no JSON form that a peer could read: NaN, Infinity, or an object that is no wire type."""
