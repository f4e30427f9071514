"""The published agents: how each is started so that it knows nothing but the played model, and its faults.

Owns: packages, versions, environments, configuration, `FAULTS`. Does not know: what is done with an agent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import Fault

from .model import NAME

__all__ = ["AGENTS", "FAULTS", "KEPT", "Published"]

KEPT = frozenset({"LANG", "PATH", "SYSTEMROOT"})
"""What an agent gets of this process's environment; nothing of the user's is in it."""


@dataclass(frozen=True)
class Published:
    """An agent on the registry of npm."""

    name: str
    version: str
    asks_in: str
    """The value of its option `mode` in which it asks before it writes."""
    lacks: tuple[str, ...]
    """Capabilities that it does not have: there the gate of this library's client is what is tried."""
    forgets: tuple[str, ...]
    """What it does not retain of a session, which it need not (PL-23): no replay has it."""
    prepare: Callable[[Path, str], dict[str, str]]
    """Writes the configuration into a home, for a model at a URL; what the environment says of it."""

    @property
    def package(self) -> str:
        """Its name on the registry."""
        return f"@agentclientprotocol/{self.name}"

    def program(self, npm: Path) -> Path:
        """What node is to run, of what npm has installed in a directory. Raises `LookupError` for another version."""
        place = npm.resolve() / "node_modules" / self.package
        manifest: dict[str, Any] = json.loads((place / "package.json").read_text("utf-8"))
        if manifest["version"] != self.version:
            raise LookupError(f"{self.package} is {manifest['version']}, not {self.version}")
        return place / str(manifest["bin"][self.name])

    def environment(self, home: Path, url: str) -> dict[str, str]:
        """What is in its environment besides `KEPT`. The model's port is a proxy, too, that refuses and remembers."""
        proxies = {name: url for one in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY") for name in (one, one.lower())}
        local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        own = dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP", "XDG_RUNTIME_DIR"), str(home))
        return {**own, **proxies, **local, **self.prepare(home, url)}


def _codex(home: Path, url: str) -> dict[str, str]:
    place = home / ".codex"
    place.mkdir()
    config = f"""
model = "{NAME}"
model_provider = "played"
check_for_update_on_startup = false
[model_providers.played]
name = "played"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "PLAYED_KEY"
[analytics]
enabled = false
[feedback]
enabled = false
[features]
apps = false
plugins = false
"""
    (place / "config.toml").write_text(config, "utf-8")
    return {"CODEX_HOME": str(place), "MODEL_PROVIDER": "played", "PLAYED_KEY": "dummy", "NO_BROWSER": "1"}


def _claude(home: Path, url: str) -> dict[str, str]:
    switched_off = (
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_TELEMETRY",
    )
    return {
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "dummy",
        "NO_BROWSER": "1",
        **dict.fromkeys(switched_off, "1"),
    }


AGENTS = (
    Published(
        name="codex-acp",
        version="2.6.0",
        asks_in="read-only",
        lacks=("auth.status", "session.archive", "session.status"),
        forgets=("edit completed, locations", "edit pending", "execute failed", "message of agent", "terminal"),
        prepare=_codex,
    ),
    Published(
        name="claude-agent-acp",
        version="0.101.0",
        asks_in="default",
        lacks=("auth.status", "session.archive", "session.status", "session.title"),
        forgets=("edit completed, content",),
        prepare=_claude,
    ),
)


FAULTS = (
    Fault(
        "codex-acp",
        "EX-01",
        "an option has a category of its own whose name does not begin with `_`",
        re.compile(r"EX-01: \w+: 'collaboration_mode' is none of"),
    ),
    Fault(
        "codex-acp",
        "SS-28",
        "resuming a session that there is not is answered as an internal error",
        re.compile(r"SS-28: an unknown session: -32603, not -32002"),
    ),
    Fault(
        "codex-acp",
        "TC-06",
        "a call that was allowed, and went back to pending to ask, is not in progress again before it completes",
        re.compile(r"TC-06: a call of kind (execute|edit) was never in progress"),
    ),
    Fault(
        "codex-acp",
        "TC-09",
        "an edit that was refused gets no final status: it is pending for ever",
        re.compile(r"TC-09: whether the call has ended \(write, reject_once\): False"),
    ),
    Fault(
        "codex-acp",
        "SS-19",
        "the title that a call got with its question is another one when it is replayed",
        re.compile(r"SS-(12|19): replayed edit completed, title: 'Editing files', not 'Edit files'"),
    ),
    Fault(
        "claude-agent-acp",
        "PL-22",
        "its own note that work was interrupted is replayed as a message of the user, which nobody was told live",
        re.compile(r"replayed and never told live, message of user: '\[Request interrupted by user( for tool use)?\]'"),
    ),
    Fault(
        "claude-agent-acp",
        "SS-19",
        "a call that was cancelled has failed when it is replayed",
        re.compile(r"SS-(12|19): replayed execute cancelled, status: 'failed', not 'cancelled'"),
    ),
    Fault(
        "claude-agent-acp",
        "SS-19",
        "a replay empties the content of edits: who knew the diff knows it no more",
        re.compile(r"SS-19: a replay takes back: edit completed, content"),
    ),
    Fault(
        "claude-agent-acp",
        "TC-06",
        "a call that was allowed goes from pending to completed, and is never in progress",
        re.compile(r"TC-06: a call of kind (execute|edit) was never in progress"),
    ),
    Fault(
        "claude-agent-acp",
        "TM-05",
        "a terminal is told of before its command",
        re.compile(r"TM-05: the first report of a terminal has no command"),
    ),
)
