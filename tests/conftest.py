"""What holds in every process that runs tests: it can be interrupted, and so can what it starts.

A shell that starts something in the background has it ignore SIGINT, and all its children too; some tests press Ctrl-C.
"""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
