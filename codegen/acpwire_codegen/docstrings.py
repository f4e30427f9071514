"""Docstrings as they are printed: wrapped, escaped, indented.

Owns: their form. Does not know: what they say.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 110


def docstring(lines: Sequence[str], indent: int = 4) -> list[str]:
    """The lines of a docstring, wrapped; none where there is nothing to say."""
    said = [escaped(line) for line in lines if line]
    if not said:
        return []
    width = WIDTH - indent
    if len(said) == 1 and len(said[0]) <= width - 6:
        return [f'"""{said[0]}"""']
    head, *rest = said
    out = textwrap.wrap('"""' + head, width)
    for line in rest:
        hanging = "  " if line.startswith("- ") else ""
        out += ([] if hanging else [""]) + textwrap.wrap(line, width, subsequent_indent=hanging)
    return [*out, '"""']


def escaped(line: str) -> str:
    """A line as it must be written inside a docstring."""
    line = line.replace("\\", "\\\\").replace('"' * 3, '\\"' * 3)
    return line[:-1] + '\\"' if line.endswith('"') else line


def indented(lines: list[str], indent: int) -> str:
    """Lines for a place that is indented already; empty ones stay empty."""
    return "\n".join(" " * indent + line if line else "" for line in lines).lstrip()
