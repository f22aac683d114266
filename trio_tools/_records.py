"""Classes with named fields as JSON objects: attrs, dataclasses, msgspec structs, ``TypedDict``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, cast

import attrs
import msgspec

from ._atoms import Choice
from ._containers import construct
from ._json import NotJsonError, freeze, thaw
from ._shapes import Definitions, JsonSchema, Location, Problems, Shape, core
from ._violations import show

__all__ = ["Field", "Record", "fields_schema"]


@attrs.frozen
class Field:
    """One field of a class, or one parameter of a function.

    Attributes:
        key: What it is called in JSON.
        shape: Its type.
        required: Whether it has no default.
        attribute: What it is called on a value.
        keyword: What the constructor calls it; ``None`` if it does not take it, so that only results have it.
        default: What the constructor takes if it is not given; ``msgspec.NODEFAULT`` if that cannot be shown.
        description: What is said about it.
    """

    key: str
    shape: Shape
    required: bool = True
    attribute: str = attrs.field(default=attrs.Factory(lambda self: self.key, takes_self=True))
    keyword: str | None = attrs.field(default=attrs.Factory(lambda self: self.key, takes_self=True))
    default: object = msgspec.NODEFAULT
    description: str = ""

    def schema(self, definitions: Definitions) -> JsonSchema:
        """The schema of its property."""
        schema = self.shape.schema(definitions)
        if self.description:
            schema["description"] = self.description
        if self.default is not msgspec.NODEFAULT:
            problems = Problems()
            written = self.shape.encode(self.default, None, problems)
            try:
                shown = thaw(freeze(written))
            except NotJsonError:
                return schema
            if not len(problems):
                schema["default"] = shown
        return schema


def fields_schema(fields: Iterable[Field], definitions: Definitions) -> JsonSchema:
    """The schema of an object with these properties and no others."""
    shown = [field for field in fields if field.keyword is not None or definitions.of_results]
    schema: JsonSchema = {"type": "object", "properties": {each.key: each.schema(definitions) for each in shown}}
    if required := [field.key for field in shown if field.required]:
        schema["required"] = required
    return {**schema, "additionalProperties": False}


@attrs.define(eq=False)
class Record(Shape):
    """A class with named fields.

    Attributes:
        cls: The class; a value must be an instance of it. ``dict`` for a ``TypedDict``.
        name: The name of the class.
        fields: Its fields; set once they have been read, because they may contain the class.
        build: Makes a value of its fields.
        native: Whether msgspec makes the same value.
        description: What its docstring says.
        tag: Key and value by which msgspec tells structs apart.
    """

    cls: type
    name: str
    build: Callable[..., object]
    native: bool
    description: str = ""
    tag: tuple[str, str | int] | None = None
    fields: tuple[Field, ...] = attrs.field(init=False)

    def is_native(self) -> bool:
        return self.native

    def parts(self) -> Iterable[Shape]:
        return [field.shape for field in self.fields]

    def resembles(self, value: object, *, in_python: bool) -> bool:
        if in_python and self.cls is not dict:
            return isinstance(value, self.cls)
        if not isinstance(value, Mapping):
            return False
        given = cast("Mapping[object, object]", value)
        attempt = Problems()
        self._check_keys(given, self._taken(in_python=in_python), None, attempt)
        return not len(attempt) and all(
            field.shape.resembles(given[field.key], in_python=in_python)
            for field in self.fields
            if field.key in given and _is_tag(field.shape)
        )

    def schema(self, definitions: Definitions) -> JsonSchema:
        return definitions.inline(self, self.name, lambda: self._own_schema(definitions))

    def _own_schema(self, definitions: Definitions) -> JsonSchema:
        schema = fields_schema(self.fields, definitions)
        if self.tag is not None:
            key, value = self.tag
            schema["properties"] = {key: {"enum": [value]}, **cast("JsonSchema", schema["properties"])}
            schema["required"] = [key, *cast("list[str]", schema.get("required", []))]
        return {**schema, "description": self.description} if self.description else schema

    def decode(self, value: object, where: Location, problems: Problems) -> Any:
        if not isinstance(value, Mapping):
            return problems.mismatch(where, f'{show(value)} is not of type "object"')
        given = cast("Mapping[object, object]", value)
        before = len(problems)
        taken = self._taken(in_python=problems.of_results)
        self._check_keys(given, taken, where, problems)
        values: dict[str, object] = {}
        for field in taken:
            if field.key in given:
                values[str(field.keyword)] = field.shape.decode(given[field.key], (where, field.key), problems)
        if len(problems) > before or problems.of_results:
            return None
        return construct(lambda: self.build(**values), where, problems)

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        if not isinstance(value, self.cls):
            return problems.mismatch(where, f"expected {self.name}, got {show(value)}")
        if not problems.enter(value, where):
            return None
        encoded = self._encode(value, where, problems)
        problems.leave(value)
        return encoded

    def _encode(self, value: object, where: Location, problems: Problems) -> dict[str, object]:
        if self.cls is dict:
            given = cast("Mapping[object, object]", value)
            self._check_keys(given, self.fields, where, problems)
            items = [(field, given[field.key]) for field in self.fields if field.key in given]
        else:
            items = [(field, getattr(value, field.attribute, msgspec.UNSET)) for field in self.fields]
        encoded: dict[str, object] = {} if self.tag is None else dict([self.tag])
        for field, item in items:
            if item is not msgspec.UNSET:
                encoded[field.key] = field.shape.encode(item, (where, field.key), problems)
            elif field.required:
                problems.mismatch(where, f"{show(field.key)} is required")
        return encoded

    def _taken(self, *, in_python: bool) -> Collection[Field]:
        """The fields that a value can have: those that only results have are not taken from JSON."""
        return self.fields if in_python else [field for field in self.fields if field.keyword is not None]

    def _check_keys(
        self, given: Mapping[object, object], fields: Collection[Field], where: Location, problems: Problems
    ) -> None:
        known = {field.key for field in fields}
        for field in fields:
            if field.required and field.key not in given:
                problems.mismatch(where, f"{show(field.key)} is required")
        for key in given:
            if key not in known and (self.tag is None or key != self.tag[0]):
                problems.unknown_key(where, str(key), known)
        if self.tag is not None and given.get(self.tag[0]) != self.tag[1]:
            problems.mismatch((where, self.tag[0]), f"{show(self.tag[1])} is required")


def _is_tag(shape: Shape) -> bool:
    """Whether there is a single value that fits."""
    choice = core(shape)
    return isinstance(choice, Choice) and len(choice.options) == 1
