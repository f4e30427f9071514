"""An agent whose sessions outlive it: each has a directory with what it is and every update that was sent.

    python -m acpwire.examples.resuming_agent DIRECTORY

Owns: a store of files, behind the six methods that sessions need of one. Does not know: models; it counts.
"""

import shutil
import sys
from pathlib import Path

import acpwire
from acpwire import v2


class Remembering(acpwire.Agent):
    """`sent` writes, `resume_session` reads; `session.app` is the history that a model would be given."""

    info = v2.Implementation(name="remembering", version="1.0")

    def __init__(self, store: Path) -> None:
        self.store = store

    def find(self, session_id: str) -> Path | None:
        """The directory of a session. An id comes from outside, so it is looked for and never joined to a path."""
        return next((path.parent for path in self.store.glob("*/info.json") if path.parent.name == session_id), None)

    async def new_session(self, session: acpwire.AgentSession) -> None:
        """Begin its directory."""
        session.app = acpwire.Transcript(cwd=session.cwd)
        path = self.store / session.id
        path.mkdir(parents=True)
        (path / "info.json").write_bytes(v2.encode(v2.SessionInfo(session_id=session.id, cwd=session.cwd)))
        (path / "updates.ndjson").touch()

    def sent(self, session: acpwire.AgentSession, update: v2.SessionUpdate) -> None:
        """Keep what was said, the user's own messages included."""
        session.app.apply(update)
        with (self.store / session.id / "updates.ndjson").open("ab") as file:
            file.write(v2.encode(update) + b"\n")

    async def list_sessions(
        self, *, cwd: str | None, cursor: str | None, archived: v2.SessionArchiveFilter | None
    ) -> v2.ListSessionsResponse:
        """All of them on one page."""
        del cursor, archived  # neither was ever given out or offered
        infos = [v2.decode(v2.SessionInfo, path.read_bytes()) for path in sorted(self.store.glob("*/info.json"))]
        return v2.ListSessionsResponse(sessions=[info for info in infos if cwd in {None, info.cwd}])

    async def resume_session(self, session: acpwire.AgentSession, replay_from: v2.ReplayFrom | None) -> None:
        """Read the history; tell it only where the client has asked for it."""
        path = self.find(session.id)
        if path is None:
            raise acpwire.SessionNotFound(session.id)
        with (path / "updates.ndjson").open("rb") as file:
            session.app = acpwire.Transcript.load(file)
        if replay_from is not None:
            await session.replay(session.app)

    async def close_session(self, session: acpwire.AgentSession) -> None:
        """Chunks by the thousand become one message each."""
        (self.store / session.id / "updates.ndjson").write_bytes(b"".join(session.app.save()))

    async def delete_session(self, session_id: str) -> None:
        """Also one that is not there."""
        path = self.find(session_id)
        if path is not None:
            shutil.rmtree(path)

    async def prompt(self, session: acpwire.AgentSession, prompt: acpwire.UserPrompt) -> None:
        """Answer from memory; the prompt is part of it already."""
        said = [message.text for (sort, _), message in session.app.messages.items() if sort == "user"]
        await session.agent_message().write(f"{prompt.text!r} was number {len(said)}; the first was {said[0]!r}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    acpwire.run_agent(Remembering(Path(sys.argv[1])))
