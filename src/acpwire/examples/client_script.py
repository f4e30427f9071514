"""One prompt to any agent: prints what it answers as it comes, asks before anything is done, and says how it ended.

    python -m acpwire.examples.client_script "Explain this" my-agent --acp

Owns: what a script does with an agent. Does not know: any agent in particular.
"""

import asyncio
import sys

import acpwire
from acpwire import v2


class Asking(acpwire.Client):
    """A client that asks on the terminal. Without this class, every question would be answered with no."""

    async def request_permission(
        self, session: acpwire.ClientSession, request: v2.RequestPermissionRequest
    ) -> v2.PermissionOption | None:
        """The option that was chosen by its number, or None."""
        print(f"\n{session.cwd}: {request.title}", file=sys.stderr)
        for number, option in enumerate(request.options, 1):
            print(f"  {number}  {option.name}", file=sys.stderr)
        answer = (await asyncio.to_thread(sys.stdin.readline)).strip()
        chosen = int(answer) if answer.isdecimal() else 0
        return request.options[chosen - 1] if 0 < chosen <= len(request.options) else None


async def main(text: str, *argv: str) -> int:
    """Returns an exit code."""
    async with acpwire.spawn_agent(*argv, client=Asking()) as agent:
        session = await agent.new_session(cwd=".")
        prompt = await session.prompt(text)
        async for update in prompt:
            match update:
                case v2.AgentMessageChunk(content=v2.TextContent(text=piece)):
                    print(piece, end="", flush=True)
                case v2.ToolCallUpdate(title=str(title)):
                    print(f"[{title}]", file=sys.stderr)
                case v2.Notice(severity=severity, title=title):
                    print(f"[{severity}: {title}]", file=sys.stderr)
                case _:
                    pass
        print()
        print(f"[{agent.info.name}: {prompt.stop_reason}]", file=sys.stderr)
    if prompt.error is None and prompt.stop_reason != "error":
        return 0
    if prompt.error is not None:
        print(f"[{prompt.error.code}: {prompt.error.message}]", file=sys.stderr)
    log = agent.stderr_tail.decode(errors="replace")  # complete, now that the agent has ended
    print(log, end="", file=sys.stderr)
    return 1


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    try:
        sys.exit(asyncio.run(main(*sys.argv[1:])))
    except (acpwire.Error, acpwire.DecodeError, OSError) as failure:  # no agent, refused, crashed, not to be started
        sys.exit(f"{type(failure).__name__}: {failure}")
