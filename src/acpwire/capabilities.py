"""What a peer says it can do.

Owns: looking a capability up by its path. Does not know: who needs which.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["supports"]

_HUMP = re.compile(r"(?<!^)(?=[A-Z])")


def supports(capabilities: Any, path: str) -> bool:
    """Whether capabilities have an object under a path such as "session.prompt.image" (IN-08).

    Members may be named as on the wire or as in Python. What is omitted, null or no object is not supported; an empty
    object is.
    """
    held = capabilities
    for member in path.split("."):
        held = getattr(held, _HUMP.sub("_", member).lower(), None)
        if held is None:
            return False
    return bool(path)
