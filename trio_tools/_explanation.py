"""The errors of a schema validator in words that a model can act on: where, what is there, what was expected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias, cast

from jsonschema_rs import ValidationError, ValidationErrorKind

from ._json_words import json_path, shorten
from ._violations import LISTED_AT_MOST, Step, Violation, bounded, either, show, unknown_key

__all__ = ["MASK", "Forms", "explain"]

MASK = "\x00"
"""What a validator writes into its messages in place of the value; frozen text of a message never holds it."""

Forms: TypeAlias = Callable[[ValidationError], "list[list[ValidationError]] | None"]
"""What is wrong with the value for each form of the union that failed, with places counted from that value."""

_LOOKED_AT = 4 * LISTED_AT_MOST  # errors; some are implied by others, and most values have far fewer
_COUNTED = Violation("", "")
_TOLD_OF_A_FORM = 10  # violations, where several forms are set side by side

_Place: TypeAlias = tuple[Step, ...]


def explain(errors: Iterable[ValidationError], root: object, forms: Forms | None = None) -> list[Violation]:
    """The errors of a validator in words. After more than a message lists, an error is only counted.

    Args:
        errors: The errors, of a validator that was made with :data:`MASK`.
        root: The whole schema; expected types and the names that are known are looked up in it.
        forms: Where the errors of the forms of a union come from, if they do not come with the error of the union.
    """
    explainer = _Explainer(root, forms)
    found: list[Violation] = []
    remaining = iter(errors)
    for error in _relevant(islice(remaining, _LOOKED_AT)):
        if len(found) < LISTED_AT_MOST:
            found.extend(explainer.explain(error, ()))
        else:
            found.append(_COUNTED)
    return found + [_COUNTED for _ in remaining]


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


class _Explainer:
    """Explains the errors of one value."""

    def __init__(self, root: object, forms: Forms | None) -> None:
        self._root = root
        self._forms = forms

    def explain(self, error: ValidationError, base: _Place) -> Iterator[Violation]:
        """One error in words: several violations if it stands for several.

        Args:
            error: The error.
            base: Where the value is that was validated.
        """
        path = json_path((*base, *error.instance_path))
        match error.kind:
            case ValidationErrorKind.Required(property=key):
                yield Violation(path, f"{show(key)} is required{_hint(self._parent(error), key)}")
            case (
                ValidationErrorKind.AdditionalProperties(unexpected=keys)
                | ValidationErrorKind.UnevaluatedProperties(unexpected=keys)
            ):
                known = _mapping(_mapping(self._parent(error)).get("properties"))
                for key in keys:
                    yield unknown_key(path, key, known)
            case _ if _is_union(error):
                yield from self._union(error, base)
            case ValidationErrorKind.Enum():
                yield Violation(path, f"{show(error.instance)} is not one of {_wanted(error)}")
            case ValidationErrorKind.FalseSchema():
                yield Violation(path, f"{show(error.instance)} is not allowed here")
            case ValidationErrorKind.PropertyNames(error=inner):
                for violation in self.explain(inner, base):
                    yield Violation(path, f"key {violation.text}")
            case _:
                yield Violation(path, shorten(error.message.replace(MASK, show(error.instance)), 600))

    def _union(self, error: ValidationError, base: _Place) -> Iterator[Violation]:
        """Of a union: what is wrong with the one form that was meant, if there is just one; else what the forms are."""
        place = (*base, *error.instance_path)
        path = json_path(place)
        forms: Iterable[Sequence[ValidationError]] | None = self._forms(error) if self._forms is not None else None
        if forms is None:
            forms = cast("Any", error.kind).context
        else:
            base = place
        here = len(place) - len(base)  # steps in the path of an error of a form that is an error of the value itself
        tried = list(map(_relevant, forms or ()))
        meant = [form for form in tried if not any(_is_other_kind(inner, here) for inner in form)]
        meant = [form for form in meant if not any(_is_other_tag(inner, here) for inner in form)] or meant
        meant = [form for form in meant if all(len(inner.instance_path) > here for inner in form)] or meant
        if len(meant) == 1:
            for inner in meant[0]:
                yield from self.explain(inner, base)
        elif meant:
            told = (" and ".join(self._told(form, base, path)) for form in meant)
            numbered = "; ".join(f"({number}) {shorten(text, 200)}" for number, text in enumerate(bounded(told), 1))
            yield Violation(path, f"{show(error.instance)} fits none of {len(meant)} allowed forms: {numbered}")
        else:
            expected = dict.fromkeys(_wanted(inner) for form in tried for inner in form if _is_other_kind(inner, here))
            yield Violation(path, f"expected {either(bounded(expected))}, got {show(error.instance)}")

    def _told(self, form: Sequence[ValidationError], base: _Place, path: str) -> Iterator[str]:
        """The violations of one of several forms, as parts of a line that begins with ``path``."""
        for inner in form[:_TOLD_OF_A_FORM]:
            # What is wrong in a union in there would be lost in the crowd.
            violations = [self._summary(inner, base)] if _is_union(inner) else self.explain(inner, base)
            for each in islice(violations, _TOLD_OF_A_FORM):
                yield each.text if each.path == path else f"{each.path}: {each.text}"

    def _summary(self, error: ValidationError, base: _Place) -> Violation:
        return Violation(json_path((*base, *error.instance_path)), f"{show(error.instance)} fits no allowed form")

    def _parent(self, error: ValidationError) -> object:
        """The schema that the failing keyword stands in."""
        return _lookup(self._root, error.schema_path[:-1])


def _is_union(error: ValidationError) -> bool:
    return isinstance(error.kind, (ValidationErrorKind.AnyOf, ValidationErrorKind.OneOfNotValid))


def _is_other_kind(error: ValidationError, here: int) -> bool:
    """Whether the value is something else altogether, not an attempt at this form that went wrong inside."""
    return len(error.instance_path) == here and bool(_wanted(error))


def _is_other_tag(error: ValidationError, here: int) -> bool:
    """Whether the value says itself that it is another form: in a key for which this one has a single value."""
    match error.kind:
        case ValidationErrorKind.Enum(options=[_]) | ValidationErrorKind.Constant():
            return len(error.instance_path) == here + 1
        case _:
            return False


def _wanted(error: ValidationError) -> str:
    """What would have been right, in a few words; empty if that is not a matter of a type or of fixed values."""
    match error.kind:
        case ValidationErrorKind.Type(types=kinds):
            return either(kinds)
        case ValidationErrorKind.Enum(options=options):
            return either(bounded(map(show, options)))
        case ValidationErrorKind.Constant(expected_value=value):
            return show(value)
        case ValidationErrorKind.FalseSchema():
            return "nothing"
        case _:
            return ""


def _hint(schema: object, key: str) -> str:
    """What a missing key should hold, for the end of a sentence; empty if its schema does not say so at once."""
    known = _mapping(_mapping(_mapping(schema).get("properties")).get(key))
    if options := _sequence(known.get("enum")):
        return f" ({either(bounded(map(show, options)))})"
    kind = known.get("type")
    kinds = [kind] if isinstance(kind, str) else _sequence(kind)
    return f" ({either(map(str, kinds))})" if kinds else ""


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
