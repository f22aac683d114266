"""How a JSON value breaks a schema, in words that a model can act on.

A validator reports errors as data; :func:`explain` turns them into one line each: where, what is there, what was
expected. Everything shown of a value is bounded, so that a model that sent a book does not get it back.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

import attrs
from jsonschema_rs import ValidationError, ValidationErrorKind

from ._json_text import json_path, shorten

__all__ = ["MASK", "Step", "Violation", "explain", "listed", "near", "show"]

Step: TypeAlias = str | int

MASK = "\x00"
"""What a validator writes into its messages in place of the value; frozen text of a message never holds it."""

_LISTED_AT_MOST = 256  # violations
_SHOWN_AT_MOST = 80  # characters of a value
_FORMS_AT_MOST = 20  # alternatives that are spelled out


@attrs.frozen
class Violation:
    """One way in which a value breaks its schema or type."""

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def listed(violations: Sequence[Violation]) -> list[str]:
    """The violations as lines; after many, the rest is only counted."""
    more = len(violations) - _LISTED_AT_MOST
    lines = list(map(str, violations[:_LISTED_AT_MOST]))
    return [*lines, f"and {more} more"] if more > 0 else lines


def show(value: object) -> str:
    """``value`` as JSON text of bounded length; what is no plain JSON is shown as the name of its class."""
    if isinstance(value, str):
        return shorten(json.dumps(shorten(value, 2 * _SHOWN_AT_MOST), ensure_ascii=False), _SHOWN_AT_MOST)
    try:
        return _beginning(value)
    except (TypeError, ValueError, RecursionError):  # not JSON; an int of thousands of digits; endless
        return f"a value of type {type(value).__name__}"


def _beginning(value: object) -> str:
    text = ""
    for part in json.JSONEncoder(ensure_ascii=False).iterencode(value):
        text += part
        if len(text) > _SHOWN_AT_MOST:
            return f"{text[:_SHOWN_AT_MOST]}…"
    return text


def near(word: str, known: Iterable[str]) -> str:
    """A suggestion to append to ``word``; empty if none of ``known`` is near."""
    close = difflib.get_close_matches(word, known, n=3)
    return f" (did you mean {_either(map(show, close))}?)" if close else ""


def explain(errors: Iterable[ValidationError], root: object) -> Iterator[Violation]:
    """The errors of a validator in words.

    Args:
        errors: The errors, of a validator that was made with :data:`MASK`.
        root: The whole schema; suggestions and expected types are looked up in it.
    """
    for error in _relevant(errors):
        yield from _explain(error, root)


def _relevant(errors: Iterable[ValidationError]) -> list[ValidationError]:
    """The errors without those that others imply: what is none of the fixed values need not be of their type either."""
    found = list(errors)
    fixed = {
        (*error.instance_path, None, *error.schema_path[:-1])
        for error in found
        if isinstance(error.kind, (ValidationErrorKind.Enum, ValidationErrorKind.Constant))
    }
    return [
        error
        for error in found
        if not isinstance(error.kind, ValidationErrorKind.Type)
        or (*error.instance_path, None, *error.schema_path[:-1]) not in fixed
    ]


def _explain(error: ValidationError, root: object) -> Iterator[Violation]:
    """One error in words: several violations if it stands for several."""
    path = json_path(error.instance_path)
    match error.kind:
        case ValidationErrorKind.Required(property=key):
            yield Violation(path, f"{show(key)} is required{_hint(_parent(error, root), key)}")
        case (
            ValidationErrorKind.AdditionalProperties(unexpected=keys)
            | ValidationErrorKind.UnevaluatedProperties(unexpected=keys)
        ):
            known = _mapping(_mapping(_parent(error, root)).get("properties"))
            for key in keys:
                yield Violation(path, f"unknown key {show(key)}{near(key, known)}")
        case ValidationErrorKind.AnyOf(context=forms) | ValidationErrorKind.OneOfNotValid(context=forms):
            yield from _no_form_fits(error, list(map(_relevant, forms)), root)
        case ValidationErrorKind.Enum():
            yield Violation(path, f"{show(error.instance)} is not one of {_wanted(error)}")
        case ValidationErrorKind.FalseSchema():
            yield Violation(path, f"{show(error.instance)} is not allowed here")
        case ValidationErrorKind.PropertyNames(error=inner):
            for violation in _explain(inner, root):
                yield Violation(path, f"key {violation.text}")
        case _:
            yield Violation(path, shorten(error.message.replace(MASK, show(error.instance)), 600))


def _no_form_fits(
    error: ValidationError, forms: Sequence[Sequence[ValidationError]], root: object
) -> Iterator[Violation]:
    """Of a union: what is wrong with the one form that was meant, if there is just one; else what the forms are."""
    path = json_path(error.instance_path)
    meant = [form for form in forms if not any(_is_other_kind(inner, error) for inner in form)]
    meant = [form for form in meant if not any(_is_other_tag(inner, error) for inner in form)] or meant
    if len(meant) == 1:
        yield from explain(meant[0], root)
    elif meant:
        told = (" and ".join(_relative(each, path) for each in explain(form, root)) for form in meant)
        listed = "; ".join(f"({number}) {shorten(text, 200)}" for number, text in enumerate(_bounded(told), 1))
        yield Violation(path, f"{show(error.instance)} fits none of {len(meant)} allowed forms: {listed}")
    else:
        expected = dict.fromkeys(_wanted(inner) for form in forms for inner in form if _is_other_kind(inner, error))
        yield Violation(path, f"expected {_either(_bounded(expected))}, got {show(error.instance)}")


def _is_other_kind(inner: ValidationError, outer: ValidationError) -> bool:
    """Whether the value is something else altogether, not an attempt at this form that went wrong inside."""
    return inner.instance_path == outer.instance_path and bool(_wanted(inner))


def _is_other_tag(inner: ValidationError, outer: ValidationError) -> bool:
    """Whether the value says itself that it is another form: in a key for which this one has a single value."""
    match inner.kind:
        case ValidationErrorKind.Enum(options=[_]) | ValidationErrorKind.Constant():
            return len(inner.instance_path) == len(outer.instance_path) + 1
        case _:
            return False


def _wanted(error: ValidationError) -> str:
    """What would have been right, in a few words; empty if that is not a matter of a type or of fixed values."""
    match error.kind:
        case ValidationErrorKind.Type(types=kinds):
            return _either(kinds)
        case ValidationErrorKind.Enum(options=options):
            return _either(_bounded(map(show, options)))
        case ValidationErrorKind.Constant(expected_value=value):
            return show(value)
        case ValidationErrorKind.FalseSchema():
            return "nothing"
        case _:
            return ""


def _relative(violation: Violation, path: str) -> str:
    """The violation as part of a line that begins with ``path``."""
    return violation.text if violation.path == path else str(violation)


def _bounded(items: Iterable[str]) -> list[str]:
    listed = list(items)
    more = len(listed) - _FORMS_AT_MOST
    return [*listed[:_FORMS_AT_MOST], f"{more} more"] if more > 0 else listed


def _either(items: Iterable[str]) -> str:
    """``a, b or c``."""
    *first, last = items
    return f"{', '.join(first)} or {last}" if first else last


def _hint(schema: object, key: str) -> str:
    """What a missing key should hold, for the end of a sentence; empty if its schema does not say so at once."""
    known = _mapping(_mapping(_mapping(schema).get("properties")).get(key))
    if options := _sequence(known.get("enum")):
        return f" ({_either(_bounded(map(show, options)))})"
    kind = known.get("type")
    kinds = [kind] if isinstance(kind, str) else _sequence(kind)
    return f" ({_either(map(str, kinds))})" if kinds else ""


def _parent(error: ValidationError, root: object) -> object:
    """The schema that the failing keyword stands in."""
    return _lookup(root, error.schema_path[:-1])


def _lookup(root: object, steps: Iterable[Step]) -> object:
    """The part of a schema at ``steps``; ``None`` if it is elsewhere: in a meta-schema, behind an ``$id``."""
    part: Any = root
    try:
        for step in steps:
            part = part[step]
    except (LookupError, TypeError):
        return None
    return part


def _mapping(part: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", part) if isinstance(part, Mapping) else {}


def _sequence(part: object) -> Sequence[object]:
    return cast("Sequence[object]", part) if isinstance(part, (list, tuple)) else ()
