"""A client that is never what is measured: it says `initialize` and throws away what comes.

python sink.py LINE
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Read until the input ends."""
    os.write(1, sys.argv[1].encode() + b"\n")
    while os.read(0, 1 << 20):
        pass


if __name__ == "__main__":
    main()
