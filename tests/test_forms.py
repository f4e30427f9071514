"""Forms: what they begin with, and whether what was filled in fits (EL-08)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from acpwire import v2
from acpwire.forms import defaults, problems

SCHEMA = v2.decode(
    v2.ElicitationSchema,
    json.dumps(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 2, "maxLength": 4, "default": "Ann"},
                "kind": {"type": "string", "enum": ["a", "b"], "default": "b"},
                "titled": {"type": "string", "oneOf": [{"const": "x", "title": "X"}]},
                "count": {"type": "integer", "minimum": 1, "maximum": 3, "default": 2},
                "share": {"type": "number", "minimum": 0, "maximum": 1},
                "yes": {"type": "boolean", "default": False},
                "many": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "string", "enum": ["a", "b"]},
                    "default": ["a"],
                },
                "own": {"type": "_acme"},
            },
            "required": ["name"],
        }
    ).encode(),
)


def test_a_form_begins_with_the_defaults_of_its_properties_and_they_fit() -> None:
    begun = defaults(SCHEMA)
    assert begun == {"name": "Ann", "kind": "b", "count": 2, "yes": False, "many": ["a"]}
    assert problems(SCHEMA, begun) == []


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({}, ["'name' is missing"]),
        ({"name": "A"}, ["'name' does not fit"]),
        ({"name": "Annabel"}, ["'name' does not fit"]),
        ({"name": 5}, ["'name' does not fit"]),
        ({"kind": "c"}, ["'name' is missing", "'kind' does not fit"]),
        ({"titled": "y"}, ["'name' is missing", "'titled' does not fit"]),
        ({"name": "Ann", "titled": "x", "share": 0.5, "count": 3, "yes": True, "many": ["b"], "own": [1]}, []),
        ({"name": "Ann", "count": True}, ["'count' does not fit"]),
        ({"name": "Ann", "count": 1.5}, ["'count' does not fit"]),
        ({"name": "Ann", "count": 4}, ["'count' does not fit"]),
        ({"name": "Ann", "share": -0.1}, ["'share' does not fit"]),
        ({"name": "Ann", "yes": "true"}, ["'yes' does not fit"]),
        ({"name": "Ann", "many": []}, ["'many' does not fit"]),
        ({"name": "Ann", "many": ["c"]}, ["'many' does not fit"]),
        ({"name": "Ann", "many": "a"}, ["'many' does not fit"]),
        ({"name": "Ann", "unknown": 1}, []),
    ],
)
def test_what_does_not_fit_is_named_without_its_value(values: dict[str, Any], wrong: list[str]) -> None:
    assert problems(SCHEMA, values) == wrong
