"""Typed messages of the Agent Client Protocol v2 draft, generated from its schema, and fast decoders for them.

    acpwire.v2           every type, method and decoder of the pinned draft
    acpwire.wire         lines and JSON-RPC messages, for any generated package

Importing `acpwire.v2` loads msgspec and nothing else beside the standard library.
"""
