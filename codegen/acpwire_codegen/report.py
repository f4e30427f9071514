"""Prints what changed between two schemas: as text, JSON, Markdown, or one page of HTML.

Owns: the four forms, and what belongs together on a page so that it can be read in two minutes.
Does not know: how changes are found, or what a change means.
"""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jinja2

from .changes import CLASSES, SEVERITIES, Change, Report, Subject, note_for
from .impact import CERTAINTIES, Use

WIDTH = 118
TEMPLATES = Path(__file__).parent / "templates"

HEADINGS = {
    "breaking": "Breaking: messages are refused, or are not understood",
    "behavioural": "Behavioural: messages pass and mean something else, or lose a part",
    "soft": "Soft: messages pass, with something in them that an old peer does not know or miss",
    "additive": "Additive: there is more than before",
    "none": "In code and words only: the wire is the same, or more is forgiven",
}


@dataclass(frozen=True)
class _Group:
    """Changes of one class, equally bad, about which the same is to be done."""

    title: str
    felt: str
    note: str
    lines: tuple[tuple[str, str], ...]
    """(what changed, in which names): one name, or many that changed in the same way."""


def as_json(report: Report) -> str:
    """The report as a JSON object with `old`, `new`, `summary` and `changes`."""
    changes = [
        {
            "kind": change.kind,
            "class": change.cls,
            "definition": change.definition,
            "path": change.path,
            "old": change.old,
            "new": change.new,
            "receiver": change.receiver,
            "sender": change.sender,
            "note": change.advice,
        }
        for change in report.changes
    ]
    document = {"old": report.old, "new": report.new, "summary": report.summary(), "changes": changes}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def as_text(report: Report) -> str:
    """The report for a terminal."""
    out = [f"ACP schema {report.old} -> {report.new}", "", *_summary(report)]
    for severity, groups in _sections(report):
        out += ["", HEADINGS[severity].upper() if severity == "breaking" else HEADINGS[severity], ""]
        for group in groups:
            out += _wrapped(f"{group.title}; {group.felt}. {group.note}", "  ")
            for what, names in group.lines:
                out += _wrapped(f"{names}: {what}" if what else names, "    ", "        ")
    review = [*_review(report)]
    if review:
        out += ["", f"To review: {len(report.review)} texts changed in words that bind", ""]
        for words, places in review:
            out += _wrapped(f"{words}: {_some(places, 12)}", "  ", "      ")
    if report.wording:
        out += ["", f"Other texts that changed: {len(report.wording)} (--format json lists them)"]
    return "\n".join(out) + "\n"


def as_markdown(report: Report) -> str:
    """The report as a section of a Markdown document."""
    out = [f"## {report.old} -> {report.new}", "", *(f"- {line}" for line in _summary(report) if line)]
    for severity, groups in _sections(report):
        out += ["", f"### {HEADINGS[severity]}"]
        for group in groups:
            out += ["", f"**{group.title}**, {group.felt}. {group.note}", ""]
            out += [f"- {_code(names)}{f': {_escaped(what)}' if what else ''}" for what, names in group.lines]
    review = [*_review(report)]
    if review:
        out += ["", f"### To review: {len(report.review)} texts changed in words that bind", ""]
        out += [f"- {words}: {_code(', '.join(places))}" for words, places in review]
    if report.wording:
        places = [change.path for change in report.wording]
        out += ["", f"### Other texts that changed: {len(report.wording)}", "", f"- {_code(', '.join(places))}"]
    return "\n".join(out) + "\n"


def as_html(report: Report) -> str:
    """The report as a page that needs nothing but itself."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    methods = sorted({_method(message) for change in report.changes for message in change.methods})
    given: dict[str, Any] = {
        "report": report,
        "summary": report.summary(),
        "severities": SEVERITIES,
        "headings": HEADINGS,
        "classes": CLASSES,
        "methods": methods,
        "methods_of": _methods,
    }
    return environment.get_template("drift.html.jinja2").render(given)


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": as_text,
    "json": as_json,
    "markdown": as_markdown,
    "html": as_html,
}


def uses_as_text(uses: Sequence[Use]) -> str:
    """Where code uses what changed, a line each, as tools print them; the surest finds of a line first."""
    out: list[str] = []
    for use in uses:
        change = use.change
        words = f" ({_change(change.old, change.new)})" if change.cls != "M" else ""
        out.append(
            f"{use.file}:{use.line}: {use.certainty}: {use.what}: {change.cls} {change.name}{words}; {change.advice}"
        )
    counts = Counter(use.certainty for use in uses)
    out.append(", ".join(f"{counts[one]} {one}" for one in CERTAINTIES if counts[one]) or "No use of what changed.")
    return "\n".join(out) + "\n"


def uses_as_json(report: Report, uses: Sequence[Use]) -> str:
    """The report as JSON, with `impact`: the uses in code, each with the number of its change in `changes`."""
    numbers = {change: number for number, change in enumerate(report.changes)}
    found = [
        {
            "file": use.file,
            "line": use.line,
            "what": use.what,
            "certainty": use.certainty,
            "change": numbers[use.change],
        }
        for use in uses
    ]
    return json.dumps({**json.loads(as_json(report)), "impact": found}, indent=1, ensure_ascii=False) + "\n"


def prepended(report: Report, document: str) -> str:
    """A change log with one more report, before those that it has."""
    head, found, rest = document.partition("\n## ")
    return f"{head.rstrip()}\n\n{as_markdown(report)}" + (f"\n## {rest}" if found else "")


NEW_LOG = """# Changes of the pinned schema

What changed with each pin, newest first; written by `acpwire-codegen pin`. A *receiver* of the old schema meets a
sender of the new one, a *sender* of the old schema a receiver of the new one. Of texts that changed there are places
and marker words here, and none of their sentences.
"""


# --- what belongs together --------------------------------------------------------------------------------------------


def _summary(report: Report) -> list[str]:
    if not report.changes:
        return ["Nothing changed."]
    worst = Counter(change.worst for change in report.structure)
    words = [f"{worst[severity]} {severity}" for severity in SEVERITIES[:-1] if worst[severity]]
    words += [f"{worst['none']} in code or words only"] if worst["none"] else []
    out = [f"{len(report.structure)} changes: {', '.join(words)}." if words else "No change of structure."]
    for role in ("agent", "client"):
        felt = Counter(change.for_role(role) for change in report.structure)
        parts = [f"{felt[severity]} {severity}" for severity in SEVERITIES[:-1] if felt[severity]]
        if parts:
            out.append(f"For {role}s of the old schema: {', '.join(parts)}.")
    if report.review or report.wording:
        out.append(f"{len(report.review) + len(report.wording)} texts changed, {len(report.review)} of them to review.")
    if words:
        out.append("Receiver: an old receiver meets a new sender. Sender: an old sender meets a new receiver.")
    return out


def _sections(report: Report) -> Iterator[tuple[str, list[_Group]]]:
    """Severity -> its groups."""
    for severity in SEVERITIES:
        groups: dict[tuple[str, ...], list[Change]] = {}
        for change in report.structure:
            if change.worst == severity:
                key = (change.cls, change.receiver, change.sender, _general(change))
                groups.setdefault(key, []).append(change)
        if groups:
            yield severity, [_group(changes) for changes in groups.values()]


def _general(change: Change) -> str:
    """The note without the name of what changed, so that many can share it."""
    specific = note_for(replace(change, note=""), absorbed="flags absorb" in change.note)
    if change.note != specific:
        return change.note
    bare = replace(change, definition="it", subject=replace(Subject(), method=change.subject.method))
    if change.cls in ("T", "B"):
        bare = replace(bare, old="what it said", new="what it says now")
    return note_for(bare, absorbed="flags absorb" in change.note)


def _group(changes: Sequence[Change]) -> _Group:
    first = changes[0]
    alike: dict[tuple[str, str, str], list[Change]] = {}
    for change in changes:
        alike.setdefault((change.old, change.new, change.also), []).append(change)
    lines: list[tuple[str, str]] = []
    for (old, new, also), same in alike.items():
        if first.cls == "M":
            lines.append((also, f"{old} -> {new}" if old and new else old or new))
            continue
        where = _where(same)
        lines.append((" ".join(filter(None, [_change(old, new), where, also])), ", ".join(one.name for one in same)))
    felt = f"receiver {first.receiver}, sender {first.sender}"
    return _Group(f"{first.cls} {CLASSES[first.cls]}", felt, _general(first), tuple(lines))


def _change(old: str, new: str) -> str:
    return f"{old} -> {new}" if old and new else old or new


def _where(changes: Sequence[Change]) -> str:
    """Who sends them, in which methods."""
    arrows = {change.path.partition(": ")[0] for change in changes if change.roles}
    methods = sorted({_method(message) for change in changes for message in change.methods})
    if len(arrows) != 1 or not methods:
        return ""
    shown = ", ".join(methods) if len(methods) < 4 else f"{len(methods)} methods"
    return f"[{arrows.pop()}: {shown}]"


def _methods(change: Change) -> list[str]:
    return sorted({_method(message) for message in change.methods})


def _method(message: str) -> str:
    """`agent -> client: session/update params` -> `session/update`."""
    words = message.rpartition(": ")[2]
    return words.removesuffix(" params").removesuffix(" result")


def _review(report: Report) -> Iterator[tuple[str, list[str]]]:
    """Marker words that came, went, or stand in what changed -> the places."""
    groups: dict[str, list[str]] = {}
    for change in report.review:
        before, after = (text.split(", ") if text else [] for text in (change.old, change.new))
        came = [word for word in after if word not in before]
        went = [word for word in before if word not in after]
        parts = [f"{what} {', '.join(words)}" for what, words in (("now with", came), ("now without", went)) if words]
        touched = change.note.removeprefix("Read it: ").removesuffix(" in what changed.")
        groups.setdefault("; ".join(parts) or f"still with {touched}", []).append(change.path)
    yield from sorted(groups.items(), key=lambda item: (*_urgency(item[0]), -len(item[1]), item[0]))


def _urgency(words: str) -> tuple[bool, bool]:
    """What came and went first, and of that what is more than that null is the same as nothing."""
    return words.startswith("still"), not any(word in words for word in ("MUST", "SHOULD", "-32", "unchanged", "key"))


def _some(names: Sequence[str], limit: int) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def _wrapped(text: str, first: str, later: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=later if later is not None else first,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _code(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split(", "))


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_").replace("[]", "\\[]")
