"""Stands where a client expects its agent, starts that agent, and takes down every line that passes.

    python -m acpwire.examples.recording_proxy session.ndjson.gz my-agent --acp

Owns: nothing; the recording is read by `acpwire inspect` and `acpwire.read_capture`. Does not know: what is said.
"""

import asyncio
import signal
import sys

import acpwire

LIMITS = acpwire.Limits(grace=1.5)  # less than clients give us to end, so that the agent is ended by then


async def main(path: str, *argv: str) -> int | None:
    """Returns the agent's exit code."""
    agent = await acpwire.spawn_process(*argv, limits=LIMITS, on_stderr=sys.stderr.buffer.write)
    with acpwire.Recorder(path) as recorder:
        await acpwire.relay(acpwire.stdio(), agent, recorder.record, limits=LIMITS)
    return agent.exit_code


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what was begun is ended in order
    try:
        sys.exit(asyncio.run(main(*sys.argv[1:])))
    except KeyboardInterrupt:
        sys.exit(130)
