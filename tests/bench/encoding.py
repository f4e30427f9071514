"""Encoding, relative to orjson given the equal dict.

Owns: what is measured of writing.
"""

from __future__ import annotations

import json

import orjson

from acpwire import v2
from acpwire.wire import Notification, encode

from . import Row, side_by_side
from .traffic import SESSION, chunk_update


def encode_update() -> list[Row]:
    """A chunk update, NaN refused and all."""
    update = chunk_update()
    equal = json.loads(v2.encode(update))
    return side_by_side(
        {"orjson.dumps": lambda: orjson.dumps(equal), "v2.encode": lambda: v2.encode(update)},
        "orjson.dumps",
        {"v2.encode": 2.5},
    )


def encode_message() -> list[Row]:
    """The whole line of a chunk update."""
    params = v2.UpdateSessionNotification(session_id=SESSION, update=chunk_update())
    message = Notification(method="session/update", params=params)
    equal = json.loads(encode(message))
    return side_by_side(
        {"orjson.dumps": lambda: orjson.dumps(equal) + b"\n", "encode": lambda: encode(message)}, "orjson.dumps"
    )


BENCHES = (encode_update, encode_message)
