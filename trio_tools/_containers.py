"""Lists, tuples, sets, dicts and unions as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

import attrs

from ._atoms import Scalar
from ._errors import describe
from ._shapes import Definitions, JsonSchema, Location, Problems, Shape, core, with_items
from ._violations import show

__all__ = ["Array", "Map", "Recursive", "Row", "Union", "construct"]


def construct(build: Callable[[], object], where: Location, problems: Problems) -> Any:
    """Call a constructor; what it raises is a refusal of the value."""
    try:
        return build()
    except Exception as error:
        # Validators of attrs put their message first and objects behind it.
        told = error.args[0] if len(error.args) > 1 else None
        return problems.refuse(where, told if isinstance(told, str) else describe(error).message)


def _elements(value: object, where: Location, problems: Problems) -> Sequence[object] | None:
    """The elements of an array; frozen ones are tuples, so that lists and tuples are one kind here."""
    if isinstance(value, (list, tuple)):
        return cast("Sequence[object]", value)
    return problems.mismatch(where, f'{show(value)} is not of type "array"')


@attrs.frozen(eq=False)
class Array(Shape):
    """A list, set, frozenset or tuple of any length; abstract ones become a list or set."""

    item: Shape
    build: Callable[[list[Any]], object]
    base: JsonSchema

    def parts(self) -> Iterable[Shape]:
        return (self.item,)

    def resembles(self, value: object, *, in_python: bool) -> bool:
        return isinstance(value, AbstractSet if in_python and self._is_set() else (list, tuple))

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {**self.base, "items": self.item.schema(definitions)}

    def decode(self, value: object, where: Location, problems: Problems) -> Any:
        before = len(problems)
        elements = _elements(value, where, problems) or ()
        items = [self.item.decode(each, (where, index), problems) for index, each in enumerate(elements)]
        if len(problems) > before or problems.of_results:
            return None
        return construct(lambda: self.build(items), where, problems)

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        elements = self._members(value, where, problems)
        if elements is None or not problems.enter(value, where):
            return None
        encoded = [self.item.encode(each, (where, index), problems) for index, each in enumerate(elements)]
        problems.leave(value)
        return _ordered(encoded) if self._is_set() else encoded

    def _members(self, value: object, where: Location, problems: Problems) -> Iterable[object] | None:
        if not self._is_set():
            return _elements(value, where, problems)
        if isinstance(value, AbstractSet):
            return cast("AbstractSet[object]", value)
        return problems.mismatch(where, f"expected a set, got {show(value)}")

    def _is_set(self) -> bool:
        return "uniqueItems" in self.base


def _ordered(items: list[Any]) -> list[Any]:
    """The members of a set in an order that does not change from one process to the next."""
    try:
        return sorted(items)
    except TypeError:  # there is none among them
        return sorted(items, key=repr)


@attrs.frozen(eq=False)
class Row(Shape):
    """A tuple of fixed length, or a class that is written like one: an array with a place for each element.

    Attributes:
        names: What the places are called, if they are.
        required: How many elements there must be; the rest has defaults.
        build: Makes the value of its elements.
        native: Whether msgspec makes the same value.
    """

    items: tuple[Shape, ...]
    names: tuple[str, ...]
    required: int
    build: Callable[[list[Any]], object]
    native: bool = True

    def is_native(self) -> bool:
        return self.native

    def parts(self) -> Iterable[Shape]:
        return self.items

    def resembles(self, value: object, *, in_python: bool) -> bool:
        return isinstance(value, (list, tuple))

    def schema(self, definitions: Definitions) -> JsonSchema:
        items = [item.schema(definitions) for item in self.items]
        for item, name in zip(items, self.names, strict=False):
            item.setdefault("description", name)
        placed: JsonSchema = {"prefixItems": items} if items else {}
        return {**with_items({"type": "array", **placed}), "minItems": self.required, "maxItems": len(self.items)}

    def decode(self, value: object, where: Location, problems: Problems) -> Any:
        before = len(problems)
        places = enumerate(zip(self._row(value, where, problems), self.items, strict=False))
        items = [shape.decode(each, (where, index), problems) for index, (each, shape) in places]
        if len(problems) > before or problems.of_results:
            return None
        return construct(lambda: self.build(items), where, problems)

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        places = enumerate(zip(self._row(value, where, problems), self.items, strict=False))
        if not problems.enter(value, where):
            return None
        encoded = [shape.encode(each, (where, index), problems) for index, (each, shape) in places]
        problems.leave(value)
        return encoded

    def _row(self, value: object, where: Location, problems: Problems) -> Sequence[object]:
        elements = _elements(value, where, problems)
        if elements is not None and not self.required <= len(elements) <= len(self.items):
            problems.mismatch(where, f"expected {len(self.items)} elements, got {len(elements)}")
        return elements or ()


@attrs.frozen(eq=False)
class Map(Shape):
    """A dict whose keys are written as strings."""

    key: Shape
    value: Shape
    base: JsonSchema

    def parts(self) -> Iterable[Shape]:
        return (self.key, self.value)

    def resembles(self, value: object, *, in_python: bool) -> bool:
        return isinstance(value, Mapping)

    def schema(self, definitions: Definitions) -> JsonSchema:
        schema = dict(self.base)
        names = self.key.schema(definitions)
        if names != {"type": "string"}:
            schema["propertyNames"] = names
        if values := self.value.schema(definitions):
            schema["additionalProperties"] = values
        return schema

    def decode(self, value: object, where: Location, problems: Problems) -> Any:
        return dict(self._items(value, where, problems, self.key.decode, self.value.decode))

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        if not problems.enter(value, where):
            return None
        encoded = dict(self._items(value, where, problems, self.key.encode, self.value.encode))
        problems.leave(value)
        return encoded

    @staticmethod
    def _items(
        value: object,
        where: Location,
        problems: Problems,
        of_key: Callable[[object, Location, Problems], Any],
        of_value: Callable[[object, Location, Problems], Any],
    ) -> Iterable[tuple[Any, Any]]:
        if not isinstance(value, Mapping):
            return problems.mismatch(where, f'{show(value)} is not of type "object"') or ()
        return [
            (of_key(key, where, problems), of_value(item, (where, str(key)), problems))
            for key, item in cast("Mapping[object, object]", value).items()
        ]


@attrs.frozen(eq=False)
class Union(Shape):
    """One of several types: the first, in the order of the annotation, that takes the value."""

    branches: tuple[Shape, ...]

    def is_native(self) -> bool:
        # msgspec 0.23 corrupts memory when it is shown a union of a fixed tuple and a type with constraints.
        return not any(isinstance(core(branch), Row) for branch in self.branches)

    def parts(self) -> Iterable[Shape]:
        return self.branches

    def resembles(self, value: object, *, in_python: bool) -> bool:
        return any(branch.resembles(value, in_python=in_python) for branch in self.branches)

    def schema(self, definitions: Definitions) -> JsonSchema:
        forms: list[JsonSchema] = []
        for branch in self.branches:
            form = branch.schema(definitions)
            if not form:
                return {}  # one takes anything
            if form not in forms:
                forms.append(form)
        return {"anyOf": forms} if len(forms) > 1 else forms[0]

    def decode(self, value: object, where: Location, problems: Problems) -> Any:
        # A number goes to the branch of its own kind, if there is one: 5.0 stays a float in `int | float`.
        alike = [branch for branch in self.branches if branch.resembles(value, in_python=False)]
        alike.sort(key=lambda branch: _is_other_number(branch, value))
        return self._first(alike, "decode", value, where, problems)

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        # A base class takes an instance of its subclass too, and would leave out what the subclass adds.
        for branch in self.branches:
            cls = getattr(core(branch), "cls", None)
            if cls is type(value) and cls is not dict:  # typed dicts are all of that class
                return branch.encode(value, where, problems)
        alike = [branch for branch in self.branches if branch.resembles(value, in_python=True)]
        return self._first(alike, "encode", value, where, problems)

    def _first(self, alike: Sequence[Shape], step: str, value: object, where: Location, problems: Problems) -> Any:
        """What the first of some branches makes of the value that takes it."""
        if len(alike) == 1:
            return getattr(alike[0], step)(value, where, problems)
        key = (self, where, id(value))  # the value is kept with it, so that the number stays its own
        if key not in problems.attempts:
            answer, found = None, Problems()
            for branch in alike:
                attempt = Problems(problems)
                converted = getattr(branch, step)(value, where, attempt)
                if not len(attempt):
                    answer, found = converted, attempt
                    break
                if not attempt.mismatches and not len(found):
                    found = attempt  # of the right form, and yet no value of that type: the one that was meant
            else:
                if not len(found):
                    found.mismatch(where, f"{show(value)} fits none of the types of the union")
            problems.attempts[key] = (answer, found, value)
        answer, found, _ = problems.attempts[key]
        problems.extend(found)
        return answer


def _is_other_number(branch: Shape, value: object) -> bool:
    scalar = core(branch)
    return isinstance(scalar, Scalar) and scalar.kind in (int, float) and scalar.kind is not type(value)


@attrs.define(eq=False)
class Recursive(Shape):
    """A type alias that may contain itself.

    Attributes:
        inner: What it stands for; set once that has been read.
    """

    name: str
    inner: Shape = attrs.field(init=False)

    def is_native(self) -> bool:
        return False

    def parts(self) -> Iterable[Shape]:
        return (self.inner,)

    def resembles(self, value: object, *, in_python: bool) -> bool:
        return self.inner.resembles(value, in_python=in_python)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return definitions.inline(self, self.name, lambda: self.inner.schema(definitions))

    def decode(self, value: object, where: Location, problems: Problems) -> Any:
        return self.inner.decode(value, where, problems)

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        return self.inner.encode(value, where, problems)
