"""What is in captures of any size: how often, how big, how long, and what was malformed. Memory stays as it is.

    python -m acpwire.examples.analyser session.ndjson.gz more.ndjson

Owns: what is counted. Does not know: how a capture is stored or compressed.
"""

import sys
from collections import Counter
from heapq import nlargest

import acpwire
from acpwire import v2


class Analysis:
    """What is kept of captures: counters by names of the protocol, and a few numbers."""

    def __init__(self) -> None:
        self.updates: Counter[str] = Counter()
        self.stops: Counter[str] = Counter()
        self.text = 0
        self.malformed = 0
        self.biggest: list[tuple[int, str]] = []  # lines: size, and where they are

    def add(self, path: str) -> None:
        """Read a capture, a record at a time."""
        for record in acpwire.read_capture(path):
            self.biggest = nlargest(3, [*self.biggest, (len(record.line), f"{path}:{record.number}")])
            match record.message:
                case v2.Notification(params=v2.UpdateSessionNotification(update=update)):
                    self.updates[update.tag] += 1
                    self.look_at(update)
                case v2.Malformed(path=where, message=message):
                    self.malformed += 1
                    print(f"{path}:{record.number}: {message} - at {where}", file=sys.stderr)
                case _:
                    pass  # requests; and responses, whose typed result is `record.result`

    def look_at(self, update: v2.SessionUpdate) -> None:
        """Look into an update."""
        match update:
            case v2.AgentMessageChunk(content=v2.TextContent(text=text)):
                self.text += len(text)
            case v2.StateUpdate(state="idle", stop_reason=str(reason)):
                self.stops[reason] += 1
            case _:
                pass

    def show(self) -> None:
        """Print it."""
        for name, number in self.updates.most_common(20):
            print(f"{number:12,}  {name}")
        print(f"{self.text:12,}  characters of the agent's messages")
        print(f"{self.malformed:12,}  malformed lines")
        for reason, number in self.stops.most_common():
            print(f"{number:12,}  turns that ended with {reason}")
        for size, place in self.biggest:
            print(f"{size:12,}  bytes in {place}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    analysis = Analysis()
    for name in sys.argv[1:]:
        analysis.add(name)
    analysis.show()
