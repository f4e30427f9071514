"""A client that is never what is measured: it says what it is given, and throws away what comes.

    python sink.py LINE [LINE ...]

Each line is a request that is sent when the last was answered, with the session of that answer where it says SESSION.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    """Read until the input ends."""
    session = rest = b""
    first, *others = [line.encode() + b"\n" for line in sys.argv[1:]]
    os.write(1, first)
    for line in others:
        answer: dict[str, Any] = {}
        while "id" not in answer:
            while b"\n" not in rest:
                rest += os.read(0, 65536)
            said, _, rest = rest.partition(b"\n")
            answer = json.loads(said)
        session = answer["result"].get("sessionId", "").encode() or session
        os.write(1, line.replace(b"SESSION", session))
    blocks = [bytearray(1 << 20)]  # used again: to ask for a new one each time takes longer than what is measured
    while os.readv(0, blocks):
        pass


if __name__ == "__main__":
    main()
