"""Errors that are raised to be answered."""

from __future__ import annotations

from typing import Any

import pytest

from acpwire.errors import RequestError


@pytest.mark.parametrize("code", [-(2**31), -32000, 0, 2**31 - 1])
def test_an_error_of_any_code_can_be_answered(code: int) -> None:
    """ER-04."""
    assert RequestError.of(RequestError(code, "no").object()).code == code


@pytest.mark.parametrize(
    ("code", "message", "what"),
    [
        ("-32000", "no", "code must be of type int, not str"),
        (True, "no", "code must be of type int, not bool"),
        (-32000, ValueError("no"), "message must be of type str, not ValueError"),
        (-32000, None, "message must be of type str, not NoneType"),
        (2**31, "no", r"takes more than 32 bits \(ER-04\)"),
        (-(2**31) - 1, "no", r"takes more than 32 bits \(ER-04\)"),
    ],
)
def test_an_error_that_no_peer_reads_is_refused_where_it_is_made(code: Any, message: Any, what: str) -> None:
    """ER-04, ER-05: and so what is raised in a handler is always an answer."""
    with pytest.raises((TypeError, ValueError), match=what):
        RequestError(code, message)
