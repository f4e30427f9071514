"""Stands where a client expects its agent, starts that agent, and takes down every line that passes.

    python -m acpwire.examples.recording_proxy session.ndjson.gz my-agent --acp

It ends as its agent does. What keeps it from being of use, such as a disk that is full, it says in one line.

Owns: nothing; the recording is read by `acpwire inspect` and `acpwire.read_capture`. Does not know: what is said.
"""

import asyncio
import signal
import sys

import acpwire
from acpwire.transports import Channel

LIMITS = acpwire.Limits(grace=1.5)  # less than clients give us to end, so that the agent is ended by then


async def main(client: Channel, path: str, *argv: str) -> int | str | None:
    """Returns the agent's exit code, or what failed in reading stdin or writing to stdout."""
    with acpwire.Recorder(path) as recorder:
        agent = await acpwire.spawn_process(*argv, limits=LIMITS, on_stderr=sys.stderr.buffer.write)
        await acpwire.relay(client, agent, recorder.record, limits=LIMITS)
    return client.failure or agent.exit_code


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what was begun is ended in order
    try:
        sys.exit(asyncio.run(main(acpwire.stdio(limits=LIMITS), *sys.argv[1:])))
    except KeyboardInterrupt:
        sys.exit(130)
    except (acpwire.Error, OSError) as error:  # stdin or stdout is closed, no agent, no place for the recording
        sys.exit(f"{type(error).__name__}: {error}")
