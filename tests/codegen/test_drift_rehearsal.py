"""A change of pin, rehearsed: in a copy of the repository another draft is pinned and the package generated from it.

Owns: that what recorded traffic loses by it stands in the entry that `pin` wrote, and that the rest decodes as before.
The copy runs in processes of its own, so that both packages go by the same name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "corpus"
DECODE = """
import json, sys
from pathlib import Path
import msgspec
from acpwire import v2

def unknowns(value):
    if isinstance(value, v2.UnknownVariant):
        yield value.tag
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from unknowns(getattr(value, name))
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from unknowns(one)
    elif isinstance(value, dict):
        yield from unknowns(list(value.values()))

for path in sorted(Path(sys.argv[1]).glob("*/*.ndjson")):
    decode = v2.decode_from_agent if path.stem.startswith("agent") else v2.decode_from_client
    for number, line in enumerate(path.read_bytes().splitlines()):
        message = decode(line)
        found = {"of": f"{path.parent.name}/{path.stem}:{number}", "kind": type(message).__name__}
        found["unknown"] = sorted(set(unknowns(getattr(message, "params", None))))
        params = getattr(message, "params", None)
        found["typed"] = isinstance(params, msgspec.Struct)
        found["fields"] = sorted(unread(params, json.loads(line).get("params"))) if found["typed"] else []
        found["method"] = getattr(message, "method", None)
        print(json.dumps(found))
""".replace(
    "\nfor path in",
    '''
def unread(value, raw, path=""):
    """The members of a line that its class has not."""
    if isinstance(value, msgspec.Struct) and isinstance(raw, dict):
        fields = {field.encode_name: field.name for field in msgspec.structs.fields(value)}
        tag = value.__struct_config__.tag_field
        for name, inner in raw.items():
            if name in fields:
                yield from unread(getattr(value, fields[name]), inner)
            elif name != tag:
                yield f"{type(value).__name__}.{name}"
    elif isinstance(value, (list, tuple)) and isinstance(raw, list):
        for one, two in zip(value, raw):
            yield from unread(one, two)

for path in''',
    1,
)


RENAMED = {
    "2.2.0": "",
    "2.0.0": '"RequestPermissionOutcome/cancelled" = { reason = "its payload is a definition of its own since then" }',
}
"""Version -> what a maintainer adds to overrides.toml before it can be pinned."""


@pytest.fixture(scope="module", params=RENAMED)
def copy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository with another draft pinned, as a maintainer does it."""
    version = str(request.param)
    root = tmp_path_factory.mktemp(f"rehearsal-{version}")
    for name in ("codegen", "schema", "src"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    overrides = root / "schema" / "overrides.toml"
    overrides.write_text(f"{overrides.read_text('utf-8')}\n[renames]\n{RENAMED[version]}\n", "utf-8")
    schema = CORPUS / "schemas" / f"{version}-v2.unstable.json"
    _run(root, "-m", "acpwire_codegen", "pin", "--file", str(schema), "--source", version)
    package = str(root / "src" / "acpwire" / "wire" / "v2")
    pinned = str(root / "schema" / "v2.draft.json")  # as a schema of its own: the tables are not kept up in a rehearsal
    _run(
        root,
        *("-m", "acpwire_codegen", "generate"),
        *("--schema", pinned, "--out", package, "--package", "acpwire.wire.v2"),
    )
    return root


def _run(root: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(root / "codegen"), str(root / "src")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=root, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def _decoded(root: Path) -> dict[str, dict[str, object]]:
    lines = map(json.loads, _run(root, "-c", DECODE, str(CORPUS)).splitlines())
    return {str(line["of"]): line for line in lines}


def test_what_recorded_traffic_loses_is_in_the_entry_and_the_rest_decodes_as_before(copy: Path) -> None:
    log = (copy / "schema" / "CHANGES.md").read_text("utf-8")
    entry = log.split("\n## ")[1]
    assert re.match(r"2\.4\.0 -> 2\.\d\.0\n", entry)
    before, after = _decoded(ROOT), _decoded(copy)
    assert len(before) > 100
    lost = {of: after[of] for of in before if before[of] != after[of]}
    assert lost
    for of, now in lost.items():
        was = before[of]
        if was["typed"] and not now["typed"]:
            assert f"`{was['method']} (" in entry, of
        tags = [tag for tag in _strings(now["unknown"]) if tag not in _strings(was["unknown"])]
        members = [name for name in _strings(now["fields"]) if name not in _strings(was["fields"])]
        for tag in tags:
            assert f"({tag})`" in entry, of
        for member in members:
            owner, _, name = member.partition(".")
            assert f".{name}`" in entry or f"`{owner}`" in entry, of
        assert tags or members or was["typed"] != now["typed"] or was["kind"] != now["kind"], of
        if was["kind"] != now["kind"]:
            assert f"`{was['method']} (" in entry or "Breaking" in entry, of


def test_what_is_pinned_in_the_copy_is_generated_in_it(copy: Path) -> None:
    script = "from acpwire import v2; print(len(v2.METHODS), v2.__file__)"
    count, file = _run(copy, "-c", script).split()
    assert Path(file).is_relative_to(copy)
    assert int(count) < int(_run(ROOT, "-c", script).split()[0])


def _strings(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # from JSON
