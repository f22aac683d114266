"""A schema whose unions do not explain themselves.

A validator reports with the failure of a union every error of each of its forms, and with the failure of a union in
there every error of each of its forms: in a type that contains itself that is twice as much with each level. Here each
form is put behind a condition, which a validator tests and does not explain.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import quote

from ._json import FrozenJson
from ._violations import Step

__all__ = ["Unions", "hide_forms", "pointer"]

Unions: TypeAlias = dict[tuple[Step, ...], list[str]]
"""The unions of a schema: for the place of each, pointers to its forms."""

_UNIONS = ("anyOf", "oneOf")
_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_DATA = frozenset({"enum", "const", "default", "examples"})


def hide_forms(schema: FrozenJson) -> tuple[FrozenJson, Unions]:
    """The schema with its forms behind conditions, and where they are; it takes the same values."""
    draft = schema.get("$schema") if isinstance(schema, Mapping) else None
    # The oldest drafts have no "if". It is the better one: what a form says of keys still counts for the whole.
    has_if = re.search(r"draft-0[46]", str(draft)) is None
    unions: Unions = {}

    def hide(form: FrozenJson, steps: tuple[Step, ...], forms: list[str]) -> FrozenJson:
        inside = (*steps, "if") if has_if else (*steps, "not", "not")
        forms.append(pointer(inside))
        hidden = rebuilt(form, inside)
        return {"if": hidden, "else": False} if has_if else {"not": {"not": hidden}}

    def rebuilt(part: FrozenJson, steps: tuple[Step, ...], *, names: bool = False) -> FrozenJson:
        if isinstance(part, tuple):
            return tuple(rebuilt(each, (*steps, index)) for index, each in enumerate(part))
        if not isinstance(part, Mapping):
            return part
        made: dict[str, FrozenJson] = {}
        for key, value in part.items():
            place = (*steps, key)
            if not names and key in _UNIONS and isinstance(value, tuple):
                forms = unions[place] = list[str]()
                made[key] = tuple(hide(form, (*place, index), forms) for index, form in enumerate(value))
            elif key in _DATA and not names:
                made[key] = value
            else:
                made[key] = rebuilt(value, place, names=not names and key in _NAMED_SCHEMAS)
        return made

    return rebuilt(schema, ()), unions


def pointer(steps: tuple[Step, ...]) -> str:
    """The steps as a JSON pointer in a URI."""
    escaped = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "#" + "".join(f"/{quote(step, safe='~')}" for step in escaped)
