"""Types without parts as JSON: numbers, texts, fixed values, and what is left as it is."""

from __future__ import annotations

import pathlib
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, cast

import attrs
import msgspec

from ._content import BLOCK_SCHEMAS, Content, from_json, to_json
from ._json import FrozenJson, thaw
from ._schema import Schema
from ._shapes import Definitions, JsonSchema, Location, Problems, Shape
from ._violations import show

__all__ = ["Anything", "Block", "Choice", "PathText", "Scalar", "Text"]


@attrs.frozen(eq=False)
class Anything(Shape):
    """``Any``, ``object``: handed in as plain dicts and lists or as it is frozen, handed out as it is."""

    is_frozen: bool = False

    def is_native(self) -> bool:
        return False

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {}

    def decode(self, value: Any, where: Location, problems: Problems) -> Any:
        return value if self.is_frozen else thaw(value)

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        return value


_BLOCKS = {cls: Schema(schema) for cls, schema in BLOCK_SCHEMAS.items()}


@attrs.frozen(eq=False)
class Block(Shape):
    """A content block, in the form that it has in JSON."""

    cls: type

    def is_native(self) -> bool:
        return False

    def schema(self, definitions: Definitions) -> JsonSchema:
        return dict(BLOCK_SCHEMAS[self.cls])

    def decode(self, value: Any, where: Location, problems: Problems) -> Any:
        if not _BLOCKS[self.cls].is_valid(value):
            return problems.mismatch(where, f"expected {self.cls.__name__}, got {show(value)}")
        return from_json(value)

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        if not isinstance(value, self.cls):
            return problems.mismatch(where, f"expected {self.cls.__name__}, got {show(value)}")
        return to_json(cast(Content, value))


def _exact_multiples(kind: type, base: JsonSchema) -> Schema | None:
    """What finds multiples of a number: 0.3 is one of 0.1 as it is written, though not as it is stored."""
    return Schema(base) if kind is float and "multipleOf" in base else None


@attrs.frozen(eq=False)
class Scalar(Shape):
    """``None``, ``bool``, ``int``, ``float``, ``str``, with the constraints of its annotation."""

    kind: type
    annotation: object
    base: JsonSchema
    _multiples: Schema | None = attrs.field(
        init=False, default=attrs.Factory(lambda self: _exact_multiples(self.kind, self.base), takes_self=True)
    )

    def is_native(self) -> bool:
        return self._multiples is None

    def resembles(self, value: object, *, in_python: bool) -> bool:
        return self._fits(value) or (self.kind is int and isinstance(value, float) and not in_python)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return dict(self.base)

    def decode(self, value: object, where: Location, problems: Problems) -> Any:
        if self.kind is int and isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has one kind of number: 5.0 is the integer 5
        if not self._fits(value):
            return problems.mismatch(where, f'{show(value)} is not of type "{self.base["type"]}"')
        if self._multiples is not None and not self._multiples.is_valid(cast(FrozenJson, value)):
            return problems.mismatch(where, f"{show(value)} is not a multiple of {self.base['multipleOf']}")
        try:
            return msgspec.convert(value, cast("type[Any]", self.annotation))
        except msgspec.ValidationError as error:
            expected = "" if "`" in str(error) else f' for type "{self.base["type"]}"'
            return problems.mismatch(where, f"{show(value)}: {error}{expected}")

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        if not self._fits(value):
            problems.mismatch(where, f'{show(value)} is not of type "{self.base["type"]}"')
        return value

    def _fits(self, value: object) -> bool:
        if isinstance(value, bool):
            return self.kind is bool
        return isinstance(value, self.kind) or (self.kind is float and isinstance(value, int))


@attrs.frozen(eq=False)
class Text(Shape):
    """What msgspec writes as a string: dates and times, ``UUID``, ``Decimal``, bytes as base64."""

    kind: type
    annotation: object
    base: JsonSchema

    def is_native(self) -> bool:
        return self.annotation is self.kind  # constraints may be written in words that msgspec does not know

    def resembles(self, value: object, *, in_python: bool) -> bool:
        return self._is_one(value) if in_python else isinstance(value, str)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return dict(self.base)

    def decode(self, value: object, where: Location, problems: Problems) -> Any:
        if not isinstance(value, str):
            return problems.mismatch(where, f'{show(value)} is not of type "string"')
        try:
            return msgspec.convert(value, cast("type[Any]", self.annotation))
        except msgspec.ValidationError as error:
            return problems.refuse(where, f"{show(value)} is no {self.kind.__name__}: {error}")

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        if not self._is_one(value):
            return problems.mismatch(where, f"expected {self.kind.__name__}, got {show(value)}")
        if isinstance(value, Decimal) and not value.is_finite():
            return problems.mismatch(where, f"{value} is not JSON")
        text = msgspec.to_builtins(value)
        if self.annotation is not self.kind:  # it has constraints
            self.decode(text, where, problems)
        return text

    def _is_one(self, value: object) -> bool:
        # A datetime is a date by inheritance only: written as one, it would lose its time.
        return isinstance(value, self.kind) and not (isinstance(value, datetime) and self.kind is date)


@attrs.frozen(eq=False)
class PathText(Shape):
    """A ``pathlib`` path, as its text."""

    kind: type[pathlib.PurePath]

    def is_native(self) -> bool:
        return False

    def resembles(self, value: object, *, in_python: bool) -> bool:
        return isinstance(value, self.kind if in_python else str)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {"type": "string"}

    def decode(self, value: object, where: Location, problems: Problems) -> Any:
        if not isinstance(value, str):
            return problems.mismatch(where, f'{show(value)} is not of type "string"')
        return self.kind(value)

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        if not isinstance(value, self.kind):
            return problems.mismatch(where, f"expected {self.kind.__name__}, got {show(value)}")
        return str(value)


@attrs.frozen(eq=False)
class Choice(Shape):
    """``Literal`` and enums: one of some fixed values.

    Attributes:
        options: For each value its JSON and what it is in Python, in the order in which they were written.
    """

    options: tuple[tuple[object, object], ...]
    native: bool

    def is_native(self) -> bool:
        return self.native

    def resembles(self, value: object, *, in_python: bool) -> bool:
        attempt = Problems()
        (self.encode if in_python else self.decode)(value, None, attempt)
        return not len(attempt)

    def schema(self, definitions: Definitions) -> JsonSchema:
        options = [written for written, _ in self.options]
        kinds = set(map(type, options))
        return {"type": _JSON_TYPES[kinds.pop()], "enum": options} if len(kinds) == 1 else {"enum": options}

    def decode(self, value: object, where: Location, problems: Problems) -> Any:
        for written, meant in self.options:
            if _same(written, value):
                return meant
        return self._none_of(value, where, problems)

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        for written, meant in self.options:
            if value is meant if isinstance(meant, Enum) else _same(meant, value):
                return written
        return self._none_of(value, where, problems)

    def _none_of(self, value: object, where: Location, problems: Problems) -> None:
        listed = ", ".join(show(written) for written, _ in self.options)
        problems.mismatch(where, f"{show(value)} is not one of {listed}")


_JSON_TYPES: dict[type, str] = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string"}


def _same(one: object, other: object) -> bool:
    """Whether two JSON scalars are the same one: 1 is 1.0, and not true."""
    return isinstance(one, bool) is isinstance(other, bool) and one == other
