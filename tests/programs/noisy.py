"""Writes 10 MiB to stderr before it answers anything."""

import sys

for number in range(10 * 1024):
    sys.stderr.write(f"{number:06} ".ljust(1023, ".") + "\n")
sys.stderr.flush()
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.read()
