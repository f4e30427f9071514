"""Runs the benches and prints them: `python -m tests.bench [NAME ...] [--json]`.

Owns: what is shown. Exits with 1 when a promised ratio is exceeded.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from . import decoding


def main() -> int:
    """Run, print, and tell by the exit code whether every promise is kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(b.__name__ for b in decoding.BENCHES)}")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    arguments = parser.parse_args()
    broken: list[str] = []
    found: dict[str, object] = {}
    for name, title, rows in decoding.tables(arguments.names):
        found[name] = [asdict(row) for row in rows]
        broken += [f"{name}: {row.name}: {row.ratio:.2f} > {row.limit:.2f}" for row in rows if not row.fits]
        if not arguments.json:
            print(f"\n{title}")
            for row in rows:
                promise = (
                    "" if row.limit is None else f"   promised {row.limit:.2f}: {'kept' if row.fits else 'BROKEN'}"
                )
                print(f"  {row.name:<36}{row.cost:>14,.0f} ns   x {row.ratio:5.2f}{promise}")
    if arguments.json:
        print(json.dumps(found))
    for line in broken:
        print(line, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
