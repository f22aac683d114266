"""JSON Schema, compiled once: is this value what was promised, and if not, in how many ways not?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import jsonschema_rs

from ._explanation import MASK, explain
from ._forms import Unions, hide_forms
from ._json import FrozenJson, NotJsonError, freeze
from ._json_text import json_path
from ._violations import Step, Violation, listed, show

__all__ = ["Schema", "SchemaError"]

_DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"
_ROOT = "urn:trio-tools:schema"  # what a schema is called where a part of it is compiled
_BACKTRACKING = 100_000  # steps of a look-around pattern; then it counts as not matched


class SchemaError(ValueError):
    """What was given as a JSON Schema is none, or is one that cannot be used safely.

    The message says where the fault is, `$` being the schema itself, and what to write instead.
    """


def _anything(_: object) -> bool:
    return True


def _any_object(value: object) -> bool:
    return isinstance(value, dict)


class Schema:
    """A JSON Schema, compiled.

    Draft 2020-12, or the draft that its ``$schema`` names (4, 6, 7, 2019-09). ``format`` asserts where the draft says
    so, which the current one does not. Nothing is ever fetched: a ``$ref`` out of the schema is refused. Patterns are
    matched in linear time; those that need look-around or back-references, with a bound on the steps.

    Attributes:
        source: The schema, frozen.
        is_valid: Whether a frozen value fits.

    Args:
        schema: The schema, a mapping or a boolean, frozen or not. It is neither kept nor changed.

    Raises:
        SchemaError: It is no JSON Schema of its draft, or refers to something outside of itself.
    """

    __slots__ = ("_detailed", "is_valid", "source")

    source: Final[FrozenJson]
    is_valid: Final[Callable[[FrozenJson], bool]]

    def __init__(self, schema: Mapping[str, object] | bool) -> None:
        try:
            self.source = freeze(schema)
        except NotJsonError as error:
            raise SchemaError(f"a JSON Schema is itself JSON, but {error}") from error
        if not isinstance(self.source, (Mapping, bool)):
            raise SchemaError(f"a JSON Schema is an object, such as {{}}, not a {type(schema).__name__}")
        self._detailed: _Detailed | None = None
        validator = _compile(self.source)
        if self.source == {} or self.source is True:
            self.is_valid = _anything
        else:
            self.is_valid = _any_object if self.source == {"type": "object"} else validator.is_valid

    def __repr__(self) -> str:
        return f"Schema({self.source!r})"

    def violations(self, value: FrozenJson) -> list[str]:
        """Every way in which ``value`` does not fit, each with its path; empty if it fits.

        After many, the rest is only counted. Not a checkpoint.
        """
        return [] if self.is_valid(value) else listed(self.explain(value))

    def explain(self, value: FrozenJson) -> list[Violation]:
        """:meth:`violations` as path and text, and without a limit."""
        if self._detailed is None:
            self._detailed = _Detailed(self.source)
        return self._detailed.explain(value)


class _Detailed:
    """A schema, compiled for values that do not fit: it can say why."""

    def __init__(self, source: FrozenJson) -> None:
        self._schema, self._unions = hide_forms(source)
        try:
            self._validator = _compile(self._schema, MASK)
        except SchemaError:  # a reference leads into a form, which stands elsewhere now
            self._schema, self._unions = source, Unions()
            self._validator = _compile(self._schema, MASK)
        self._forms: dict[tuple[Step, ...], list[jsonschema_rs.Validator]] = {}

    def explain(self, value: FrozenJson) -> list[Violation]:
        return explain(self._validator.iter_errors(value), self._schema, self._errors_of_forms)

    def _errors_of_forms(
        self, error: jsonschema_rs.ValidationError
    ) -> list[list[jsonschema_rs.ValidationError]] | None:
        union = tuple(error.schema_path)
        if union not in self._unions:
            return None
        if union not in self._forms:
            self._forms[union] = list(map(self._form, self._unions[union]))
        return [list(form.iter_errors(error.instance)) for form in self._forms[union]]

    def _form(self, place: str) -> jsonschema_rs.Validator:
        schema = cast("dict[str, FrozenJson]", self._schema)
        draft = {key: schema[key] for key in ("$schema",) if key in schema}
        registry = jsonschema_rs.Registry([(_ROOT, cast("Any", schema))])
        return _compile({**draft, "$ref": f"{_ROOT}{place}"}, MASK, registry)


def _compile(
    source: FrozenJson, mask: str | None = None, registry: jsonschema_rs.Registry | None = None
) -> jsonschema_rs.Validator:
    schema = cast("dict[str, Any] | bool", source)
    try:
        try:
            return _validator(schema, jsonschema_rs.RegexOptions(), mask, registry)
        except jsonschema_rs.ValidationError as error:
            if not _needs_backtracking(error):
                raise
        return _validator(schema, jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKING), mask, registry)
    except jsonschema_rs.ValidationError as error:
        raise SchemaError(_fault(source, error)) from error


def _validator(
    schema: dict[str, Any] | bool,
    patterns: jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions,
    mask: str | None,
    registry: jsonschema_rs.Registry | None,
) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(schema, mask=mask, offline=True, pattern_options=patterns, registry=registry)


def _is_bad_pattern(error: jsonschema_rs.ValidationError) -> bool:
    return isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Format) and error.kind.format == "regex"


def _needs_backtracking(error: jsonschema_rs.ValidationError) -> bool:
    """Whether a pattern was refused that has look-around or a back-reference, which linear matching cannot have."""
    return _is_bad_pattern(error) and re.search(r"\(\?<?[=!]|\\[1-9k]", str(error.instance)) is not None


def _fault(schema: FrozenJson, error: jsonschema_rs.ValidationError) -> str:
    """What is wrong with a schema that does not compile: where, and what to write instead."""
    if _is_bad_pattern(error):
        where = json_path(error.instance_path)
        return f"{where}: {show(error.instance)} is no regular expression of the standard, or one that grows too large"
    draft = schema.get("$schema", _DRAFT_2020_12) if isinstance(schema, Mapping) else _DRAFT_2020_12
    try:
        of_draft = jsonschema_rs.validator_for({"$ref": draft, "$schema": draft}, mask=MASK, offline=True)
    except ValueError:
        return f'$["$schema"]: {show(draft)} is not known: write "{_DRAFT_2020_12}", or leave it out'
    # The parts of a draft repeat each other.
    faults = list(dict.fromkeys(map(str, explain(of_draft.iter_errors(schema), {}))))
    if not faults:
        faults = [f"{json_path(steps)}: {problem}" for steps, problem in _bad_references(schema, error.message)]
    return "; ".join(faults) or f"{json_path(error.instance_path)}: {error.message}"


def _bad_references(schema: FrozenJson, message: str) -> Iterator[tuple[list[Step], str]]:
    """The references that lead out of a schema, and the one that leads nowhere according to ``message``."""
    for steps, target in _references(schema, []):
        if not target.startswith("#"):
            yield (
                steps,
                (
                    f"{show(target)} is outside of the schema, and nothing is fetched: put what it names into"
                    ' "$defs" and write "#/$defs/<name>"'
                ),
            )
        elif f"'{target[1:]}'" in message:
            yield steps, f'{show(target)} leads nowhere in the schema: define it in "$defs"'


def _references(schema: FrozenJson, steps: list[Step]) -> Iterator[tuple[list[Step], str]]:
    """Every ``$ref`` in a schema, with the steps that lead to it."""
    if isinstance(schema, Mapping):
        for key, part in schema.items():
            if key == "$ref" and isinstance(part, str):
                yield [*steps, key], part
            yield from _references(part, [*steps, key])
    elif isinstance(schema, tuple):
        for index, part in enumerate(schema):
            yield from _references(part, [*steps, index])
