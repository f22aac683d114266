"""What the metadata of ``Annotated`` says of a type, whoever defined it, in msgspec's words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, cast

import msgspec

from ._namespaces import NoSchemaError

__all__ = ["Notes", "notes_of"]

Notes: TypeAlias = tuple[msgspec.Meta, ...]

_KNOWN = frozenset({"gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern"})
_NEEDLESS = frozenset({"strict", "discriminator", "allow_inf_nan", "unit"})  # JSON is strict, and finite, without them
_OF_A_PARAMETER = ("alias", "validation_alias", "default_factory")


def notes_of(metadata: Iterable[object]) -> Notes:
    """The notes of a type: ``Meta``, plain text, PEP 727's ``Doc``, and what annotated-types and pydantic write.

    Raises:
        NoSchemaError: If pydantic or annotated-types would enforce something that is not known here.
    """
    return tuple(note for item in metadata for note in _notes(item))


def _notes(item: Any) -> Iterator[msgspec.Meta]:
    text = getattr(item, "documentation", item)
    package = type(item).__module__.partition(".")[0]
    if isinstance(item, msgspec.Meta):
        yield item
    elif isinstance(text, str):
        yield msgspec.Meta(description=text)
    elif package == "pydantic" and hasattr(item, "json_schema_extra"):
        yield from _field_notes(item)
    elif package in ("annotated_types", "pydantic"):
        if isinstance(item, Iterable):  # several in one
            yield from notes_of(cast("Iterable[object]", item))
        else:
            yield from _constraint(item)


def _field_notes(field: Any) -> Iterator[msgspec.Meta]:
    """What pydantic's ``Field`` says."""
    for name in _OF_A_PARAMETER:
        if getattr(field, name) is not None:
            raise NoSchemaError(f"Field({name}=...) has no meaning here: write the name and the default as Python does")
    if not field.is_required():
        raise NoSchemaError("Field(default=...) has no meaning here: write the default behind the annotation, as = ...")
    if field.description is not None or field.examples is not None:
        yield msgspec.Meta(description=field.description, examples=field.examples)
    yield from notes_of(field.metadata)


def _constraint(item: object) -> Iterator[msgspec.Meta]:
    names: Iterable[str] = getattr(item, "__dataclass_fields__", None) or vars(item)
    said: dict[str, Any] = {name: getattr(item, name) for name in names if name not in _NEEDLESS}
    wanted = {name: value for name, value in said.items() if value is not None}
    if not wanted:
        return
    try:
        if not wanted.keys() <= _KNOWN:
            raise TypeError("it is not known")
        yield msgspec.Meta(**wanted)
    except TypeError as error:
        raise NoSchemaError(
            f"{item!r} cannot be enforced here ({error}): write msgspec.Meta(...), or check it in the function"
        ) from error
