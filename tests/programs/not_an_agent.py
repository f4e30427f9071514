"""No agent: prints a banner, complains on stderr, and exits with 4."""

import sys

print("Welcome to the shell, version 3")
print("type help", flush=True)
print("no such option", file=sys.stderr, flush=True)
sys.exit(4)
