"""Ends badly: `at-once`, in `mid-line`, or by a `signal`."""

import os
import signal
import sys

how = sys.argv[1]
print("out of luck", file=sys.stderr, flush=True)
if how == "mid-line":
    os.write(1, b'{"jsonrpc":"2.0","me')
if how == "signal":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(3)
