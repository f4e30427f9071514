"""What the hand-kept tables say about one schema, and what of them was used.

Owns: reading overrides.toml and docs.toml with a note of every use, so that nothing stale or missing goes unseen.
Does not know: what the entries lead to.
"""

from __future__ import annotations

import hashlib
from typing import Any

from .dialect import Node
from .load import Source, Tables

TABLES = ("edit", "names", "renames", "three_state", "meta", "plain", "no_class", "gates", "types", "rules")
META_RULES = ("patch", "chunk")


class ModelError(Exception):
    """The tables beside the pinned schema do not fit it; one line for each trouble."""

    def __init__(self, troubles: list[str]) -> None:
        self.troubles = troubles
        super().__init__("\n".join(troubles))


class Ledger:
    """The tables, as one build uses them."""

    def __init__(self, source: Source, tables: Tables) -> None:
        self._source = source
        self._docs = tables.docs
        self._overrides = tables.overrides
        self._previous: dict[str, str] = tables.pinned.get("names", {})
        self._used: set[tuple[str, str]] = set()
        self.troubles: list[str] = []

    def trouble(self, text: str) -> None:
        """Note what does not fit: an error for the pinned schema, a warning for any other."""
        self.troubles.append(text)

    def entry(self, table: str, key: str) -> Any:
        """An entry of overrides.toml, or None."""
        found = self._overrides.get(table, {}).get(key)
        if found is not None:
            self._used.add((table, key))
        return found

    def doc(self, table: str, key: str, needed: bool = True) -> str:
        """A line of docs.toml; empty where there is none."""
        line = self._docs.get(table, {}).get(key, "")
        if line:
            self._used.add((f"docs.{table}", key))
        elif needed:
            self.trouble(f"docs.toml has no line for {table}.{key}")
        return line

    def edited(self) -> Node:
        """The document after the edits of overrides.toml, each of which asserts what it replaces."""
        document: Node = {**self._source.document, "$defs": {**self._source.document["$defs"]}}
        for edit in self._overrides.get("edit", []):
            *parents, last = edit["path"].removeprefix("/").split("/")
            node: Node | None = document
            for step in parents:
                if node is not None and isinstance(node.get(step), dict):
                    node[step] = {**node[step]}  # the source's own document stays as it is
                    node = node[step]
                else:
                    node = None
            if node is not None and node.get(last) == edit["value"] and not self._source.pinned:
                continue  # another schema may say it by itself
            if node is None or node.get(last) != edit.get("expected"):
                self.trouble(f"overrides.toml: the edit of {edit['path']} is stale: expected {edit.get('expected')!r}")
            else:
                node[last] = edit["value"]
        return document

    def patch(self, member: str, pointer: str) -> Any:
        """The `three_state` entry of a member "Definition.name", if it is one."""
        return self._resting_on_prose("three_state", member, member.partition(".")[0], pointer)

    def meta_rule(self, definition: str, pointer: str) -> str:
        """What `_meta` means in a definition: "patch" (by key), "replace" (as a whole), "chunk", or "" for plain.

        Schemas of before the key patch (X6) say in prose that an object replaces what was there.
        """
        entry = self._resting_on_prose("meta", definition, definition, pointer)
        if entry is None:
            return ""
        if entry.get("rule") not in META_RULES:
            self.trouble(f"overrides.toml: meta.{definition}: rule {entry.get('rule')!r} is none of {META_RULES}")
        words = [self._source.prose[at] for at in (f"/$defs/{definition}", pointer) if at in self._source.prose]
        if entry.get("rule") == "patch" and words and not any("top-level key" in prose.markers for prose in words):
            return "replace"
        return str(entry.get("rule", ""))

    def _resting_on_prose(self, table: str, key: str, definition: str, pointer: str) -> Any:
        """An entry that holds as long as upstream's words about it do."""
        entry = self.entry(table, key)
        if entry is not None and self._source.pinned:
            words = prose_guard(self._source, f"/$defs/{definition}", pointer)
            if entry.get("prose") != words:
                self.trouble(
                    f"overrides.toml: {table}.{key}: upstream's words about it changed (now {words}): read them, then "
                    "confirm or change the entry"
                )
        return entry

    def is_plain(self, definition: str, wire: str, pointer: str) -> bool:
        """Whether omitted and null mean the same for a nullable member; a trouble where nothing says so."""
        member = f"{definition}.{wire}"
        if wire in self._overrides.get("plain", {}).get(definition, []):
            self._used.add(("plain", member))
            return True
        prose = self._source.prose.get(pointer)
        if not self._source.pinned and prose and "equivalent" in prose.markers:
            return True
        self.trouble(
            f"{member} is nullable and in neither list of overrides.toml: does omitting it mean the same as null (list "
            "it under [plain]) or not ([three_state])? Taken as three-state"
        )
        return False

    def close(self, names: dict[str, str], dropped: set[str]) -> list[str]:
        """Check that nothing in the tables is stale or unused, and return all troubles.

        `names` is place -> name as it is now, `dropped` the definitions of which nothing is left. Raises `ModelError`
        on any trouble with the pinned schema.
        """
        for table in sorted(set(self._overrides) - set(TABLES)):
            self.trouble(f"overrides.toml: there is no table [{table}]; there are {', '.join(TABLES)}")
        for table in ("names", "three_state", "meta", "gates", "types", "rules"):
            for key in self._overrides.get(table, {}):
                if (table, key) not in self._used:
                    self.trouble(f"overrides.toml: {table}.{key} fits nothing in this schema")
        for definition, members in self._overrides.get("plain", {}).items():
            for wire in members:
                if ("plain", f"{definition}.{wire}") not in self._used:
                    self.trouble(f"overrides.toml: plain.{definition} lists {wire}, which is no nullable member")
        listed = set(self._overrides.get("no_class", {}))
        for definition in sorted(dropped - listed):
            self.trouble(f"overrides.toml: {definition} has no class, and no_class does not say why")
        for definition in sorted(listed - dropped):
            self.trouble(f"overrides.toml: {definition} is listed in no_class but has a class, or does not exist")
        for table, lines in self._docs.items():
            for key in lines:
                if (f"docs.{table}", key) not in self._used:
                    self.trouble(f"docs.toml: {table}.{key} documents nothing")
        self.compare(names)
        if self.troubles and self._source.pinned:
            raise ModelError(self.troubles)
        return self.troubles

    def compare(self, names: dict[str, str]) -> None:
        """A name that depends on use counts must not change silently under those who import it."""
        renames: dict[str, Any] = self._overrides.get("renames", {})
        changed = {place for place, old in self._previous.items() if names.get(place, old) != old}
        for place in sorted(changed - set(renames)):
            given = self._overrides.get("names", {}).get(place, {}).get("name")
            if given != names[place]:
                self.trouble(
                    f"{place} was called {self._previous[place]} by the previous pin and would be {names[place]} now: "
                    "list it under [renames], or keep the name under [names], in overrides.toml"
                )
        for place in sorted(set(renames) - set(names)):
            self.trouble(f"overrides.toml: renames.{place} fits nothing in this schema")


def prose_guard(source: Source, definition: str, pointer: str) -> str:
    """A short hash of upstream's words about a member and its definition."""
    words = [source.prose[place].sha256 if place in source.prose else "" for place in (definition, pointer)]
    return hashlib.sha256(":".join(words).encode()).hexdigest()[:16]
