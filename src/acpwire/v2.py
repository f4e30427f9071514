"""The public name of the pinned draft: every type, method and decoder of `acpwire.wire.v2`.

Owns: nothing. `from acpwire import v2` and `from acpwire.v2 import ToolCallUpdate` both work.
"""

from acpwire.wire.v2 import *
from acpwire.wire.v2 import __all__ as __all__  # noqa: PLC0414  # says that it is exported on purpose
