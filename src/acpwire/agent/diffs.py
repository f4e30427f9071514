"""What changed in a file, with the patch that shows it.

Owns: `diff_of`, and the form that patches have (DF-04). Does not know: tool calls, or files on disk.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

from acpwire import v2

__all__ = ["diff_of"]

_NOWHERE: Final = "/dev/null"
_ESCAPES: Final = {ord(char): f"\\{name}" for char, name in zip('\a\b\t\n\v\f\r"\\', 'abtnvfr"\\', strict=True)}


def diff_of(path: str, old: str | None, new: str | None, *, old_path: str | None = None) -> v2.Diff:
    """Content for a tool call: a file was added (`old` is None), deleted (`new` is None), modified, or moved.

        await call.write(acpwire.agent.diff_of("/src/main.py", before, after))

    With `old_path` it was moved from there, changed or not. Paths are absolute; texts are whole, and compared line by
    line, which is slow for very long ones that have little in common. Several files are several diffs. Raises
    `ValueError` where there is neither an old nor a new text.
    """
    if old is None and new is None:
        raise ValueError("a file that neither was nor is has not changed")
    change: v2.DiffChange
    lines = [f"diff --git {_quoted(old_path or path)} {_quoted(path)}\n"]
    if old is None:
        change = v2.DiffAdd(path=path)
        lines.append("new file mode 100644\n")
    elif new is None:
        change = v2.DiffDelete(path=path)
        lines.append("deleted file mode 100644\n")
    elif old_path is not None:
        change = v2.DiffMove(old_path=old_path, path=path)
        lines += [f"rename from {_quoted(old_path)}\n", f"rename to {_quoted(path)}\n"]
    else:
        change = v2.DiffModify(path=path)
    lines += difflib.unified_diff(
        list(_lines(old or "")),
        list(_lines(new or "")),
        _NOWHERE if old is None else _quoted(old_path or path),
        _NOWHERE if new is None else _quoted(path),
    )
    return v2.Diff(changes=[change], patch=v2.DiffPatch(format="git_patch", text="".join(lines)))


def _lines(text: str) -> Iterator[str]:
    """The lines of a text, each with its line feed; a last one without says so, as git does."""
    *whole, rest = text.split("\n")
    yield from (f"{line}\n" for line in whole)
    if rest:
        yield f"{rest}\n\\ No newline at end of file\n"


def _quoted(path: str) -> str:
    """A path as git writes it: as it is, or in quotes with what is not plain ASCII escaped byte by byte."""
    if path.isascii() and path.isprintable() and not set(path) & set('"\\'):
        return path
    plain = path.translate(_ESCAPES).encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}" for byte in plain) + '"'
