"""The errors of acpwire, by whose fault it is.

    ValueError
        DecodeError      a peer's: a JSON value does not fit its type; `path` says where
        EncodeError      ours: a value has no JSON form

Owns: nothing yet; those two live in `acpwire.wire`, which a vendored copy takes along.
"""

from acpwire.wire.errors import DecodeError, EncodeError

__all__ = ["DecodeError", "EncodeError"]
