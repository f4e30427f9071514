"""Serves its stdio: answers each line with `ok: ` before it, and prints, in every way there is.

Options: `uvloop`; `thread`: read in a thread whatever stdin is; `pipe-buf`: as if there were no /proc; `late`: take
stdio when the loop runs; `quiet`: print nothing; `big`: answer the first line with 4 MiB.
"""

import asyncio
import os
import subprocess
import sys

import uvloop

import acpwire.errors
from acpwire.transports import Channel, descriptors, stdio

BIG = b"b" * (4 * 1024 * 1024) + b"\n"


def print_everywhere() -> None:
    print("printed after")
    os.write(1, b"written to 1\n")
    subprocess.run(["/bin/sh", "-c", "cat; echo printed by a child"], check=True)


async def serve(transport: Channel | None) -> None:
    if transport is None:
        transport = stdio()
    if "quiet" not in sys.argv:
        print_everywhere()
    rest = b""
    while block := await transport.read():
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            await transport.write(BIG if "big" in sys.argv else b"ok: " + line + b"\n")
    if rest:
        await transport.write(b"ok: " + rest + b"\n")
    await transport.close()


if "thread" in sys.argv:
    descriptors.can_poll = lambda fd: fd < 0
if "pipe-buf" in sys.argv:
    plain_open = os.open

    def no_proc(path: str, *args: int, **kwargs: int) -> int:
        if path.startswith("/proc/"):
            raise FileNotFoundError(path)
        return plain_open(path, *args, **kwargs)

    os.open = no_proc  # type: ignore[assignment]  # takes less than open does
try:
    if "quiet" not in sys.argv:
        print("printed before")
    given = None if "late" in sys.argv else stdio()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if "uvloop" in sys.argv else None) as runner:
        runner.run(serve(given))
except acpwire.errors.Error as error:
    if sys.stderr is not None:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    sys.exit(2)
