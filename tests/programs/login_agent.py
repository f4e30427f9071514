"""An agent that wants a sign-in: in a terminal, where `--sign-in` leaves a file as the environment says."""

import os
import sys
import time
from pathlib import Path

import acpwire
from acpwire import v2
from acpwire.agent import AgentSession, UserPrompt
from acpwire.errors import AuthRequired

TOKEN = Path(os.environ["TOKEN"])


def stored() -> str:
    """What signing in has left."""
    return TOKEN.read_text("utf-8") if TOKEN.exists() else ""


class Careful(acpwire.Agent):
    """Makes sessions only for who is signed in."""

    info = v2.Implementation(name="careful", version="1")
    auth_methods = (
        v2.AuthMethodTerminal(
            method_id="tty", name="Terminal", args=["--sign-in"], env=[v2.EnvVariable(name="WHO", value="me")]
        ),
        v2.AuthMethodTerminal(method_id="fails", name="Fails", args=["--fail"]),
        v2.AuthMethodTerminal(method_id="hangs", name="Hangs", args=["--hang"]),
    )

    async def new_session(self, session: AgentSession) -> None:
        session.app = stored()
        if not session.app:
            raise AuthRequired

    async def prompt(self, session: AgentSession, prompt: UserPrompt) -> None:
        await session.agent_message().write(session.app)

    async def login(self, method_id: str) -> None:
        raise NotImplementedError

    async def logout(self) -> None:
        raise NotImplementedError


if "--sign-in" in sys.argv:
    TOKEN.write_text(f"{os.environ['WHO']} {os.environ['BASE']} {os.environ.get('HIDDEN')} {sys.argv[1:]}", "utf-8")
elif "--fail" in sys.argv:
    sys.exit(5)
elif "--hang" in sys.argv:
    TOKEN.write_text("hangs", "utf-8")
    time.sleep(60)
else:
    acpwire.run_agent(Careful())
