"""W3C trace context: which trace the current work belongs to, as `_meta` carries it (MT-05).

Owns: the context variable, and reading and writing the three reserved keys. Does not know: what a span is; a tracing
library sets the variable, or reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import msgspec

__all__ = ["KEYS", "carried", "carrying", "trace_context"]

KEYS = ("traceparent", "tracestate", "baggage")
"""The keys of `_meta` that the protocol reserves for it."""

P = TypeVar("P")
_NONE: Mapping[str, str] = {}

trace_context: ContextVar[Mapping[str, str]] = ContextVar("acpwire.trace_context", default=_NONE)
"""The trace that the current work belongs to: any of `KEYS`, or nothing.

While a request's handler runs it is what the request carried. Requests and notifications that are sent carry it on,
unless they bring their own. A tracing library sets it to the span that it opens.
"""


def carried(params: Any) -> Mapping[str, str]:
    """What params carry of a trace, read from their `_meta`; values that are no string are none."""
    meta = getattr(params, "meta", None)
    if not isinstance(meta, dict) or not meta:
        return _NONE
    found = cast("dict[str, Any]", meta)
    return {key: value for key in KEYS if isinstance(value := found.get(key), str)}


def carrying(params: P, trace: Mapping[str, str]) -> P:
    """The params with a trace in their `_meta`; as they are, where they have one already or can hold none."""
    if not isinstance(params, msgspec.Struct) or "meta" not in params.__struct_fields__:
        return params
    meta: Any = getattr(params, "meta", None)
    own: dict[str, Any] = dict(cast("dict[str, Any]", meta)) if isinstance(meta, dict) else {}
    if not own.keys().isdisjoint(KEYS):
        return params
    kept = {key: trace[key] for key in KEYS if key in trace}
    return cast("P", msgspec.structs.replace(params, meta=own | kept)) if kept else params
