"""acpwire-codegen: from an ACP schema to msgspec types, tagged-union decoders, methods and roles.

The way of a schema, each file once: `load` (and `pin`, which takes a new one over) -> `normalise` into the `dialect` ->
`decide` (with `naming`, `facts` and the `ledger` of hand-kept tables) into the `model`, which `prune` can cut down ->
`render` (with `types_module`, `tables` and `docstrings`), and `vendor`, which puts a copy into another package. Beside
it stands what tells two schemas apart: `drift` (with `meetings` of definitions, their `differences`, `shapes` and
`wording`) finds `changes`, `impact` where code uses what changed, and `report` prints both. Nothing here is imported by
`acpwire`, and nothing here imports it.
"""
