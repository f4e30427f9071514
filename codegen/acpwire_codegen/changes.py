"""What a change between two schemas is: its class, whom it breaks, and what to do about it.

Owns: the classes and severities, the change as data, and the sentence that each class ends in.
Does not know: how changes are found, or how they are printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

SEVERITIES = ("breaking", "behavioural", "soft", "additive", "none")
"""From the worst: it fails; it passes and means something else, or loses a part; it passes as something unknown; there
is more than before."""

CLASSES = {
    "M": "method",
    "RN": "renamed on the wire",
    "F-": "member removed",
    "F+r": "required member added",
    "RQ+": "now required",
    "RQ-": "no longer required",
    "T": "type changed",
    "N": "null allowed or not",
    "VT": "told apart differently",
    "V-": "variant removed",
    "E-": "value removed",
    "OP": "opened or closed",
    "TS": "meaning of omitted and null",
    "D": "default changed",
    "L": "leniency changed",
    "B": "bounds changed",
    "V+": "variant added",
    "E+": "value added",
    "F+o": "optional member added",
    "ST": "promoted or demoted",
    "DR": "definition renamed",
    "DS": "description changed",
}
"""Class -> what it is called, in the order in which a reader wants them."""


@dataclass(frozen=True)
class Subject:
    """What a change is about in the old schema, for those who look for uses of it."""

    place: str = ""
    """A definition."""
    member: str = ""
    """A member of it, by its JSON name; of an added one, its name in the new schema."""
    value: str | int | None = None
    """A tag or a constant."""
    gone: tuple[str, ...] = ()
    """Definitions that only this was for."""
    members: tuple[tuple[str, str], ...] = ()
    """(definition, JSON name) of members that only this was for, in an object that stays."""
    method: tuple[str, str, str] | None = None
    """(name, side, kind)"""


@dataclass(frozen=True)
class Change:
    """One difference between two schemas, reported once however many messages it is in."""

    kind: str
    """`structure` or `prose`."""
    cls: str
    definition: str
    path: str
    """Who sends it, the method, and the way from its params or result; then in how many other messages it is."""
    old: str
    new: str
    receiver: str = "none"
    """How bad it is where a receiver of the old schema meets a sender of the new one."""
    sender: str = "none"
    """How bad it is where a sender of the old schema meets a receiver of the new one."""
    note: str = ""
    """One sentence on what to do."""
    roles: frozenset[str] = frozenset()
    """Who sends what it is in: `agent`, `client`, or both."""
    methods: tuple[str, ...] = ()
    also: str = ""
    """What is to be said about this change alone."""
    review: bool = False
    """Whether words changed that bind: a person must read them."""
    subject: Subject = field(default_factory=Subject)

    @property
    def name(self) -> str:
        """The definition with the member, tag or value that it is about."""
        if self.cls in ("ST", "DS"):
            return self.path
        subject = self.subject
        tag = f"({subject.value})" if subject.value is not None and self.cls in ("V+", "V-", "VT", "RN") else ""
        return f"{self.definition}.{subject.member}" if subject.member else f"{self.definition}{tag}"

    @property
    def advice(self) -> str:
        """All that is said on what to do."""
        return f"{self.note} {self.also}".strip()

    @property
    def worst(self) -> str:
        """The worse of both severities."""
        return min(self.receiver, self.sender, key=SEVERITIES.index)

    def for_role(self, role: str) -> str:
        """How bad it is for those who wrote an agent, or a client, for the old schema."""
        felt = [self.sender if role in self.roles else "none", self.receiver if self.roles - {role} else "none"]
        return min(felt, key=SEVERITIES.index)


@dataclass(frozen=True)
class Report:
    """All changes from one schema to another, the worst first."""

    old: str
    new: str
    changes: tuple[Change, ...]

    @property
    def structure(self) -> list[Change]:
        """What a program meets, whether the structure says so or only the words do."""
        return [change for change in self.changes if change.cls != "DS"]

    @property
    def review(self) -> list[Change]:
        """Changed words that bind."""
        return [change for change in self.changes if change.cls == "DS" and change.review]

    @property
    def wording(self) -> list[Change]:
        """Changed words that bind nobody."""
        return [change for change in self.changes if change.cls == "DS" and not change.review]

    def summary(self) -> dict[str, object]:
        """How many changes of each severity and class there are, and how bad they are for whom."""
        worst = Counter(change.worst for change in self.structure)
        return {
            "total": len(self.changes),
            **{severity: worst[severity] for severity in SEVERITIES},
            "prose": sum(change.kind == "prose" for change in self.changes),
            "review": len(self.review),
            "receiver": _counted([change.receiver for change in self.structure]),
            "sender": _counted([change.sender for change in self.structure]),
            **{role: _counted([change.for_role(role) for change in self.structure]) for role in ("agent", "client")},
            "classes": {cls: n for cls in CLASSES if (n := sum(change.cls == cls for change in self.changes))},
        }

    def fails_on(self, level: str) -> bool:
        """Whether there is a change of prose, or one that is at least as bad as `level`."""
        if level == "prose":
            return any(change.kind == "prose" for change in self.changes)
        return any(SEVERITIES.index(change.worst) <= SEVERITIES.index(level) for change in self.changes)


def _counted(severities: Sequence[str]) -> dict[str, int]:
    return {severity: n for severity in SEVERITIES if (n := severities.count(severity))}


def ordered(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The worst first, then by class, definition and path; equal changes once."""
    ranks = {cls: rank for rank, cls in enumerate(CLASSES)}
    return tuple(
        sorted(
            dict.fromkeys(changes),
            key=lambda change: (
                change.cls == "DS",
                not change.review,
                SEVERITIES.index(change.worst),
                ranks[change.cls],
                change.definition,
                change.path,
                change.old,
                change.new,
            ),
        )
    )


def note_for(change: Change, absorbed: bool = False) -> str:
    """One sentence on what to do about a change."""
    subject = change.subject
    name = str(subject.member if subject.value is None else subject.value) or change.definition
    words = {"old": change.old or "nothing", "new": change.new or "nothing", "name": name}
    sentence = _SENTENCES[change.cls, _case(change)].format(**words)
    if absorbed:
        return f"{sentence[:-1]}; flags absorb it meanwhile: such a member counts as left out, an item is dropped."
    return sentence


def _case(change: Change) -> str:
    """Which sentence of its class fits a change, where there is more than one."""
    if change.cls == "M":
        what = "moved" if change.old and change.new else "gone" if change.old else "new"
        return f"{what} notification" if "notification" in change.old + change.new and what != "moved" else what
    if change.cls in ("V+", "E+") and change.receiver == "breaking":
        return "refused"
    received, sent = change.receiver != "none", change.sender != "none"
    case = "both" if received and sent else "receiver" if received else "sender" if sent else "neither"
    return case if (change.cls, case) in _SENTENCES else ""


_SENTENCES = {
    ("M", "gone"): "Remove the handler and every call, which is answered with -32601 now.",
    ("M", "gone notification"): "Remove the handler and stop sending it: nobody listens any more.",
    ("M", "new"): "Serve it if you can, behind its capability; meanwhile -32601 is the answer.",
    ("M", "new notification"): "Handle it where it helps; meanwhile it is passed over.",
    ("M", "moved"): "Serve and call it as {new}.",
    ("RN", ""): "Read and write it under its new name.",
    ("F-", ""): "Stop reading {name}, which no longer comes, and stop sending it.",
    ("F+r", ""): "Send {name} whenever you send this: without it the message is refused.",
    ("F+o", ""): "Nothing must change; read {name} where it helps.",
    ("RQ+", ""): "Send {name} always: without it the message is refused.",
    ("RQ-", ""): "Expect messages without {name}.",
    ("T", "both"): "Read and write {new} instead of {old}.",
    ("T", "receiver"): "Expect {new} where only {old} came.",
    ("T", "sender"): "Send {new} only.",
    ("T", "neither"): "Nothing on the wire: the same type goes by another name.",
    ("N", "receiver"): "Expect null.",
    ("N", "sender"): "Send no null: leave it out, or send a value.",
    ("N", ""): "Nothing must change.",
    ("TS", ""): "Read the words and decide what you mean: leaving {name} out is not what it was.",
    ("V+", ""): "Add a case for {name} if it matters to you; as an unknown variant it passes.",
    ("V+", "refused"): "Take {name} before you meet it: until then the message is refused.",
    ("V-", ""): "Stop sending {name}, and drop its case.",
    ("VT", ""): "Write the tag as it is now, and expect it so.",
    ("E+", ""): "Add a case for {name} if it matters to you; as an unknown value it passes.",
    ("E+", "refused"): "Take {name} before you meet it: until then the message is refused.",
    ("E-", ""): "Stop sending {name}, and drop its case.",
    ("OP", "receiver"): "Expect what is not listed.",
    ("OP", "sender"): "Send only what is listed.",
    ("OP", ""): "Nothing must change.",
    ("D", "both"): "Send {name} where you rely on its default.",
    ("D", ""): "Nothing must change: leaving it out means the same, or is not allowed.",
    ("L", "sender"): "Send only what is valid: less is forgiven than before.",
    ("L", ""): "Nothing must change: more is forgiven than before.",
    ("B", "both"): "Send only {new}, and expect all of that.",
    ("B", "receiver"): "Expect {new}.",
    ("B", ""): "Send only {new}.",
    ("ST", ""): "Nothing must change; it is {new} now.",
    ("DR", ""): "Use the new name in code; the wire is the same.",
    ("DS", ""): "Read what changed.",
}
"""(class, case) -> the sentence."""
