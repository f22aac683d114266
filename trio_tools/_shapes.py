"""Python types as JSON: the schema of each, from JSON to a value of it, and from a value of it to JSON.

A :class:`Shape` stands for one annotation. msgspec converts by itself whatever it can, in one step for a whole set of
arguments; shapes do what it cannot: name *every* violation and its path, unions of several classes, classes that must
go through their own constructor, and the way back that refuses a value of another type. Where msgspec knows a type, a
shape leaves the schema and the conversion of that type to it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, TypeAlias, cast

import attrs

from ._json_text import MAX_DEPTH
from ._json_words import describe_by_class, json_path
from ._violations import Step, Violation, unknown_key

__all__ = [
    "Definitions",
    "JsonSchema",
    "Location",
    "Noted",
    "Problems",
    "Shape",
    "annotated_description",
    "core",
    "reachable",
    "with_items",
]

JsonSchema: TypeAlias = dict[str, object]

Location: TypeAlias = "tuple[Location, Step] | None"
"""Where in a value, innermost step outermost; ``None`` is the value itself. Made for every part, read for few."""


class Problems:
    """What was found wrong so far.

    Attributes:
        mismatches: What a check against the schema finds too.
        refusals: What only the conversion finds: texts that are no datetime, validators that raise.
        attempts: What came of the unions of which several types had to be tried: each is tried once at each place,
            however many attempts there are at what is around it.
        containers: The ids of the containers of a result around the place of now.
        of_results: Whether the JSON is of a result: it is checked, also where no constructor takes it, and not built.
    """

    __slots__ = ("attempts", "containers", "mismatches", "of_results", "refusals")

    def __init__(self, around: Problems | None = None, *, of_results: bool = False) -> None:
        self.mismatches: list[Violation] = []
        self.refusals: list[Violation] = []
        self.attempts: dict[object, Any] = {} if around is None else around.attempts
        self.of_results = of_results if around is None else around.of_results
        self.containers: set[int] = set() if around is None else around.containers

    def __len__(self) -> int:
        return len(self.mismatches) + len(self.refusals)

    def mismatch(self, where: Location, text: str) -> None:
        self.mismatches.append(Violation(_path(where), text))

    def unknown_key(self, where: Location, key: str, known: Collection[str]) -> None:
        self.mismatches.append(unknown_key(_path(where), key, known))

    def refuse(self, where: Location, text: str) -> None:
        self.refusals.append(Violation(_path(where), text))

    def enter(self, container: object, where: Location) -> bool:
        """Whether one may look into a container of a result: it is not inside itself, nor too deep. Then leave it."""
        reason = ""
        if id(container) in self.containers:
            reason = "it contains itself"
        elif len(self.containers) == MAX_DEPTH:
            reason = f"at most {MAX_DEPTH} may be inside one another"
        else:
            self.containers.add(id(container))
            return True
        self.mismatch(where, f"{describe_by_class(container)} is not JSON ({reason})")
        return False

    def leave(self, container: object) -> None:
        self.containers.remove(id(container))

    def extend(self, other: Problems) -> None:
        self.mismatches.extend(other.mismatches)
        self.refusals.extend(other.refusals)

    def all(self) -> list[Violation]:
        return [*self.mismatches, *self.refusals]


def _path(where: Location) -> str:
    steps: list[Step] = []
    while where is not None:
        where, step = where
        steps.append(step)
    return json_path(reversed(steps))


class Definitions:
    """The ``$defs`` of a schema in the making: only types that occur inside themselves get one.

    Attributes:
        of_results: Whether the schema is of what a function returns, not of what it takes.
        schemas: The definitions by name.
    """

    def __init__(self, *, of_results: bool = False) -> None:
        self.of_results = of_results
        self.schemas: dict[str, JsonSchema] = {}
        self._names: dict[Hashable, str] = {}
        self._open: set[Hashable] = set()

    def inline(self, what: Hashable, name: str, build: Callable[[], JsonSchema]) -> JsonSchema:
        """The schema of ``what``, a type that may contain itself: in place, or a reference if it does."""
        if what in self._open and what not in self._names:
            plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)  # it stands in a URI
            taken = set(self._names.values())
            tries = [plain, *(f"{plain}_{number}" for number in range(2, len(taken) + 2))]
            self._names[what] = next(each for each in tries if each not in taken)
        if what not in self._names:
            self._open.add(what)
            schema = build()
            self._open.discard(what)
            if what not in self._names:
                return schema
            self.schemas[self._names[what]] = schema
        return {"$ref": f"#/$defs/{self._names[what]}"}

    def complete(self, schema: JsonSchema) -> JsonSchema:
        """A whole schema, with the definitions that it refers to."""
        return {**schema, "$defs": self.schemas} if self.schemas else schema


class Shape(ABC):
    """One Python type as JSON."""

    def is_native(self) -> bool:
        """Whether msgspec alone reads this type by the same rules, apart from its parts."""
        return True

    def parts(self) -> Iterable[Shape]:
        """The shapes that this one is made of."""
        return ()

    def resembles(self, value: object, *, in_python: bool) -> bool:
        """Whether a value may be of this type by its surface: its kind, its keys, a tag among them.

        Args:
            value: Frozen JSON, or what a function returned.
            in_python: Whether it is the latter.
        """
        return True

    @abstractmethod
    def schema(self, definitions: Definitions) -> JsonSchema:
        """The JSON Schema; a new one each time."""

    @abstractmethod
    def decode(self, value: object, where: Location, problems: Problems) -> Any:
        """A value of the type, of frozen JSON that may not fit. If ``problems`` has grown, the answer is void."""

    @abstractmethod
    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        """JSON data, of a value that may not be of the type. If ``problems`` has grown, the answer is void."""


def reachable(shape: Shape) -> set[Shape]:
    """The shape and everything that it is made of."""
    found: set[Shape] = set()
    todo = [shape]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo.extend(one.parts())
    return found


@attrs.frozen(eq=False)
class Noted(Shape):
    """A shape with more to say in its schema: a description, examples."""

    inner: Shape
    notes: Mapping[str, object]

    def parts(self) -> Iterable[Shape]:
        return (self.inner,)

    def resembles(self, value: object, *, in_python: bool) -> bool:
        return self.inner.resembles(value, in_python=in_python)

    def schema(self, definitions: Definitions) -> JsonSchema:
        return {**self.inner.schema(definitions), **self.notes}

    def decode(self, value: object, where: Location, problems: Problems) -> Any:
        return self.inner.decode(value, where, problems)

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        return self.inner.encode(value, where, problems)


def core(shape: Shape) -> Shape:
    """The shape without what is said about it."""
    while isinstance(shape, Noted):
        shape = shape.inner
    return shape


def with_items(schema: JsonSchema) -> JsonSchema:
    """The schema of an array with ``items``, also where the elements are placed or may be anything.

    Providers refuse an array without, and some do not know ``prefixItems``.
    """
    forms: list[JsonSchema] = []
    for placed in cast("list[JsonSchema]", schema.get("prefixItems", [])):
        form = {key: value for key, value in placed.items() if key != "description"}
        if form not in forms:
            forms.append(form)
    if not forms or {} in forms:
        return {**schema, "items": {}}
    return {**schema, "items": {"anyOf": forms} if len(forms) > 1 else forms[0]}


def annotated_description(shape: Shape) -> str:
    """What the ``Annotated`` of a type says about it; empty if there is none."""
    said: Mapping[str, object] = getattr(shape, "notes", None) or getattr(shape, "base", {})
    return str(said.get("description", ""))
