"""The errors of acpwire, by whose fault it is.

    Error
        ConnectionClosed     nobody's in particular: the other end is gone; `exit_code` and `stderr_tail` of a process
        RequestError         the peer's answer to a request; raised in a handler, ours
            AuthRequired     -32000
            SessionNotFound  -32002, with a session's id
            VersionMismatch  -32022
        StreamOverflow       the reader's: it left a stream unread while a request waited for its answer
        UsageError           the caller's: what was asked for can never work
    ValueError
        DecodeError          a peer's: a JSON value does not fit its type; `path` says where
        EncodeError          ours: a value has no JSON form

Owns: the tree, and which class an error code has. The last two, and the codes of what the wire itself finds wrong, live
in `acpwire.wire`, which a vendored copy takes along. Does not know: when each is raised.
"""

from __future__ import annotations

from typing import Any, Final, TypeGuard, cast

import msgspec

from acpwire.wire.errors import DecodeError, EncodeError
from acpwire.wire.frames import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, ErrorObject

__all__ = [
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
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
]

INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800
AUTH_REQUIRED: Final = -32000
NOT_FOUND: Final = -32002
VERSION_MISMATCH: Final = -32022


class Error(Exception):
    """What acpwire raises, besides `ValueError`s for values."""


class ConnectionClosed(Error):
    """The connection is closed; what was waiting for an answer gets none.

    Of a process, `exit_code` is its exit code (below zero: the signal that ended it; None: it has not ended, or is no
    process) and `stderr_tail` the end of what it wrote to stderr.
    """

    def __init__(self, message: str, *, exit_code: int | None = None, stderr_tail: bytes = b"") -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.stderr_tail = stderr_tail

    def __str__(self) -> str:
        parts = [self.message]
        if self.exit_code is not None:
            ended = f"exit code {self.exit_code}" if self.exit_code >= 0 else f"ended by signal {-self.exit_code}"
            parts.append(f"({ended})")
        text = " ".join(parts)
        tail = self.stderr_tail.decode(errors="replace").strip()
        return f"{text}; the end of its stderr:\n{tail}" if tail else text

    def again(self) -> ConnectionClosed:
        """An equal error: one that is raised in several places is better not one object, as each adds its traceback."""
        return type(self)(self.message, exit_code=self.exit_code, stderr_tail=self.stderr_tail)


class RequestError(Error):
    """A request is answered with an error: `code`, a short `message`, and any JSON as `data` (UNSET: none).

    Caught where a request was sent; raised in a handler it is what the peer is answered. Raises `TypeError` for a code
    or a message of another type, and `ValueError` for a code that takes more than 32 bits (ER-04): no peer reads these.
    """

    def __init__(self, code: int, message: str, data: Any = msgspec.UNSET) -> None:
        for name, given, wanted in (("code", code, int), ("message", message, str)):
            if type(given) is not wanted:
                raise TypeError(f"RequestError: {name} must be of type {wanted.__name__}, not {type(given).__name__}")
        if not -(2**31) <= code < 2**31:
            raise ValueError(f"RequestError: the code {code} takes more than 32 bits (ER-04)")
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        text = f"{self.message} ({self.code})"
        return text if self.data is msgspec.UNSET else f"{text}: {_shown(self.data)}"

    @classmethod
    def cancelled(cls) -> RequestError:
        """The answer to a request whose work was cancelled (RC-04)."""
        return RequestError(REQUEST_CANCELLED, "Request cancelled")

    @classmethod
    def of(cls, error: ErrorObject) -> RequestError:
        """The error that a peer answered with; its class goes by its code (ER-05)."""
        special = (AuthRequired, SessionNotFound, VersionMismatch)
        kind = next((kind for kind in special if kind.fits(error)), RequestError)
        found = kind.__new__(kind)
        RequestError.__init__(found, error.code, error.message, error.data)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return RequestError.of, (self.object(),)

    @classmethod
    def fits(cls, error: ErrorObject) -> bool:
        """Whether a peer's error is of this class."""
        del error
        return True

    def object(self) -> ErrorObject:
        """What goes over the wire."""
        return ErrorObject(code=self.code, message=self.message, data=self.data)


class AuthRequired(RequestError):
    """The agent wants a sign-in first."""

    def __init__(self, message: str = "Authentication required", data: Any = msgspec.UNSET) -> None:
        super().__init__(AUTH_REQUIRED, message, data)

    @classmethod
    def fits(cls, error: ErrorObject) -> bool:
        """Whether a peer's error is of this class."""
        return error.code == AUTH_REQUIRED


class SessionNotFound(RequestError):
    """No session has this id."""

    def __init__(self, session_id: str) -> None:
        super().__init__(NOT_FOUND, "Session not found", {"sessionId": session_id})

    @property
    def session_id(self) -> str:
        """The id that was asked for."""
        found: str = self.data["sessionId"]
        return found

    @classmethod
    def fits(cls, error: ErrorObject) -> bool:
        """Whether a peer's error is of this class: other things that are not found have the same code."""
        return error.code == NOT_FOUND and isinstance(_member(error.data, "sessionId"), str)


class VersionMismatch(RequestError):
    """The agent speaks no version of the protocol that was asked for (IN-03)."""

    def __init__(self, requested: int, supported: list[int]) -> None:
        super().__init__(
            VERSION_MISMATCH, "Unsupported protocol version", {"requested": requested, "supported": list(supported)}
        )

    @property
    def requested(self) -> int | None:
        """The version that was asked for, where the peer says it."""
        found = _member(self.data, "requested")
        return found if isinstance(found, int) else None

    @property
    def supported(self) -> list[int]:
        """The versions that the peer speaks, where it says them."""
        found = _member(self.data, "supported")
        return [version for version in found if isinstance(version, int)] if _is_list(found) else []

    @classmethod
    def fits(cls, error: ErrorObject) -> bool:
        """Whether a peer's error is of this class."""
        return error.code == VERSION_MISMATCH


class StreamOverflow(Error):
    """A stream was left unread for too long and ended; nothing else is lost."""


class UsageError(Error):
    """What was asked for can never work, whatever the peer does."""


def _member(data: Any, name: str) -> Any:
    return cast("dict[str, Any]", data).get(name) if isinstance(data, dict) else None


def _is_list(data: Any) -> TypeGuard[list[Any]]:
    return isinstance(data, list)


def _shown(data: Any) -> str:
    """Data of an error as one line of JSON, not too long."""
    try:
        text = msgspec.json.encode(data).decode()
    except (TypeError, ValueError, RecursionError):
        text = repr(data)
    return text if len(text) <= 500 else f"{text[:500]}..."
