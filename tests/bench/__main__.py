"""Runs the benches and prints them: `python -m tests.bench [NAME ...] [--json]`.

Owns: which there are and what is shown. Exits with 1 when a promised ratio is exceeded.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from . import Row, decoding, encoding, ends, folding, footprint, pumping

BENCHES: dict[str, Callable[[], list[Row]]] = {
    bench.__name__: bench
    for module in (decoding, encoding, folding, footprint, pumping, ends)
    for bench in module.BENCHES
}


def main() -> int:
    """Run, print, and tell by the exit code whether every promise is kept."""
    parser = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; all, if none is given")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(BENCHES)
    if unknown:
        parser.error(f"no bench is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    broken: list[str] = []
    found: dict[str, list[Row]] = {}
    for name in arguments.names or BENCHES:
        rows = found[name] = BENCHES[name]()
        broken += [f"{name}: {row.name}: {row.ratio:.3f} > {row.limit:.3f}" for row in rows if not row.fits]
        if not arguments.json:
            print(f"\n{name}: {(BENCHES[name].__doc__ or '').splitlines()[0]}", flush=True)
            for row in rows:
                promise = "" if row.limit is None else f"   at most {row.limit:.3f}: {'kept' if row.fits else 'BROKEN'}"
                print(f"  {row.name:<36}{row.cost:>14,.0f}   x {row.ratio:6.3f}{promise}")
    if arguments.json:
        print(json.dumps({name: [asdict(row) for row in rows] for name, rows in found.items()}))
    for line in broken:
        print(line, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
