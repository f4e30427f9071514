"""Streams of updates for hypothesis: everything the pinned draft allows, about few entities, so that they meet."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import strategies as st

from acpwire import v2
from tests.models.strategies import compact, documents, is_object

IDS = ("messageId", "toolCallId", "terminalId", "compactionId", "sessionId", "planId")
UNKNOWN: st.SearchStrategy[Any] = st.integers(0, 9).map(lambda number: {"sessionUpdate": "_later", "value": number})
LATER_STATE: st.SearchStrategy[Any] = st.just({"sessionUpdate": "state_update", "state": "_pondering"})


@st.composite
def updates(draw: st.DrawFn, *, unknown: bool = True) -> Any:
    """One update, with an ID of two and output that is base64."""
    known = documents("SessionUpdate")
    document = draw(st.one_of(known, known, UNKNOWN, LATER_STATE) if unknown else known)
    for place in (document, document.get("plan")):
        for name in IDS:
            if place and name in place:
                place[name] = draw(st.sampled_from("ab"))
    for place in (document, document.get("output")):
        if is_object(place) and "data" in place and document["sessionUpdate"].startswith("terminal"):
            place["data"] = base64.b64encode(draw(st.binary(max_size=9))).decode()
    return v2.decode(v2.SessionUpdate, compact(document))


def streams(*, unknown: bool = True) -> st.SearchStrategy[list[Any]]:
    """Several updates in their order."""
    return st.lists(updates(unknown=unknown), max_size=12)
