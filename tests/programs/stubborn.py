"""A wrapper with a child; writes both process ids in a line.

`stays`: both ignore the end of stdin and SIGTERM. `leaves`: the wrapper exits at once, its child stays and holds the
pipes. `detached`: the wrapper exits, its child stays without a pipe. `escapes`: the child leaves the process group, and
holds the pipes until it is told to end on its own stdin.
"""

import os
import signal
import subprocess
import sys

how = sys.argv[1]
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # children inherit that
nothing = subprocess.DEVNULL if how == "detached" else None
child = subprocess.Popen(
    [sys.executable, "-c", "import signal; signal.pause()"],
    stdin=nothing,
    stdout=nothing,
    stderr=nothing,
    process_group=0 if how == "escapes" else None,
)
os.write(1, f"{os.getpid()} {child.pid}\n".encode())
if how == "stays":
    while True:
        signal.pause()
os._exit(0)  # leaves the child to itself, and says nothing of it
