"""From an annotation to the shape of its type."""

from __future__ import annotations

import collections.abc
import datetime
import decimal
import pathlib
import types
import typing
import uuid
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Annotated, Any, ForwardRef, Literal, Never, NewType, NoReturn, TypeVar

import msgspec

from . import _pydantic
from ._atoms import Anything, Block, Choice, PathText, Scalar, Text
from ._classes import fill_record, is_named_tuple, read_row, start_record
from ._containers import Array, Map, Recursive, Row, Union
from ._content import BLOCK_SCHEMAS
from ._json import FrozenJson
from ._metadata import Notes, notes_of
from ._namespaces import Arguments, Namespace, NoSchemaError
from ._records import Record
from ._shapes import Definitions, JsonSchema, Noted, Shape

__all__ = ["Reader"]

_SCALARS = (type(None), bool, int, float, str)
_TEXTS = (
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    uuid.UUID,
    decimal.Decimal,
    bytes,
    bytearray,
)

_LISTS: dict[object, Callable[[list[Any]], object]] = {
    list: list,
    set: set,
    frozenset: frozenset,
    tuple: tuple,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
}
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)

_DECIMAL = r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"

_FORMATS = {datetime.datetime: "date-time", datetime.time: "time"}
"""Formats that msgspec leaves out where a time zone is optional; without them a model cannot know what to write."""

_INSTEAD = (
    "write a plain type, a list, dict or tuple of such, an enum, a Literal, a dataclass, an attrs class, a TypedDict,"
    " a msgspec struct or a pydantic model"
)

_CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")
_NOTES = ("description", "examples", "extra_json_schema")


class Reader:
    """Reads the annotations of one function.

    Args:
        run_type: The class that stands for the run; it has no place inside another annotation.
    """

    def __init__(self, run_type: type | None = None) -> None:
        self._run_type = run_type
        self._records: dict[object, Record] = {}
        self._open: dict[object, Recursive | None] = {}

    def read(self, annotation: object, namespace: Namespace) -> Shape:
        """The shape of an annotation.

        Raises:
            NoSchemaError: If the type has no JSON form.
        """
        return self._read(annotation, namespace, ())

    def _read(self, annotation: Any, namespace: Namespace, notes: Notes) -> Shape:
        """Peel off what is around a type: quotes, names, ``Annotated``."""
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if isinstance(annotation, ForwardRef):
            namespace = namespace.in_module(annotation.__forward_module__)
            annotation = annotation.__forward_arg__
        if isinstance(annotation, str):
            key = (annotation, id(namespace.layers[0]))
            return self._named(key, annotation, lambda: (namespace.evaluate(annotation), namespace), notes)
        if isinstance(annotation, TypeVar):
            return self._read(*_meaning(annotation, namespace), notes)
        if isinstance(annotation, NewType):
            return self._read(annotation.__supertype__, namespace, notes)
        if origin is Annotated:
            return self._read(arguments[0], namespace, (*notes_of(annotation.__metadata__), *notes))
        if type(origin or annotation).__name__ == "TypeAliasType":
            alias = origin or annotation
            inner = namespace.in_module(
                alias.__module__, zip(alias.__type_params__, map(namespace.bound, arguments), strict=False)
            )
            return self._named(annotation, alias.__name__, lambda: (inner.evaluate(alias.__value__), inner), notes)
        if str(origin).rpartition(".")[2] in ("Required", "NotRequired", "ReadOnly", "Final"):
            return self._read(arguments[0], namespace, notes)
        return self._typed(annotation, origin, arguments, namespace, notes)

    def _named(self, key: object, name: str, meaning: Callable[[], tuple[object, Namespace]], notes: Notes) -> Shape:
        """The shape of something that has a name, and may so contain itself."""
        if key in self._open:
            again = self._open[key] = self._open[key] or Recursive(name)
            return _noted(again, notes)
        self._open[key] = None
        try:
            shape = self._read(*meaning(), notes)
        finally:
            recursive = self._open.pop(key)
        if recursive is None:
            return shape
        recursive.inner = shape
        return recursive

    def _typed(
        self, annotation: Any, origin: Any, arguments: tuple[Any, ...], namespace: Namespace, notes: Notes
    ) -> Shape:
        base = origin or (type(None) if annotation is None else annotation)
        if annotation is FrozenJson:
            return _noted(Anything(is_frozen=True), notes)
        if base in (Any, object, NoReturn, Never):  # the last two return nothing that could be wrong
            return _noted(Anything(), notes)
        if base in _SCALARS:
            kept = tuple(map(_without_multiples, notes)) if base is float else notes
            return Scalar(base, _annotated(base, kept), _base(base, notes))
        if base in _TEXTS:
            return Text(base, _annotated(base, notes), _text_base(base, notes))
        if base is Literal:
            return _noted(_literal(arguments), notes)
        if base in (typing.Union, types.UnionType):
            return self._union(arguments, namespace, notes)
        if base is tuple and any(map(_is_unpacked, arguments)):
            raise NoSchemaError(
                f"{annotation!r} has a part of any length: write tuple[int, list[str]], with a list for it"
            )
        if base is tuple and hasattr(annotation, "__args__") and arguments[1:] != (...,):
            items = tuple(self.read(each, namespace) for each in arguments)
            return _noted(Row(items, (), len(items), tuple), notes)
        if base in _LISTS:
            build = _LISTS[base]
            item = self.read(arguments[0] if arguments else Any, namespace)
            return Array(item, build, _base(build, notes))
        if base in _MAPS:
            return self._map(arguments or (str, Any), namespace, notes)
        if isinstance(base, type):
            return _noted(self._class(base, arguments, namespace), notes)
        raise NoSchemaError(f"{annotation!r} has no JSON form: {_INSTEAD}")

    def _map(self, arguments: tuple[Any, ...], namespace: Namespace, notes: Notes) -> Shape:
        key, value = (self.read(each, namespace) for each in arguments)
        if key.schema(Definitions()).get("type") != "string":
            raise NoSchemaError(f"the keys of a JSON object are strings, not {arguments[0]!r}: write dict[str, ...]")
        return Map(key, value, _base(dict, notes))

    def _union(self, arguments: tuple[Any, ...], namespace: Namespace, notes: Notes) -> Shape:
        wanted = [each for each in arguments if each is not msgspec.UnsetType]
        constraints = tuple(note for note in map(_constraints_of, notes) if note is not None)
        branches: list[Shape] = []
        is_constrained = not constraints
        for each in wanted:
            try:
                branches.append(self._read(each, namespace, constraints))
                is_constrained = True
            except NoSchemaError:
                if not constraints:
                    raise
                branches.append(self.read(each, namespace))
        if not is_constrained:
            raise NoSchemaError(f"no type of the union can have the constraints {constraints!r}")
        shape = branches[0] if len(branches) == 1 else Union(tuple(branches))
        return _noted(shape, tuple(map(_without_constraints, notes)))

    def _class(self, cls: Any, arguments: tuple[Any, ...], namespace: Namespace) -> Shape:
        if cls is self._run_type:
            raise NoSchemaError(f"{cls.__name__} must be the whole annotation of a parameter, not a part of one")
        if issubclass(cls, Enum):
            return _choice([(member.value, member) for member in cls], cls.__name__)
        if cls in BLOCK_SCHEMAS:
            return Block(cls)
        if issubclass(cls, pathlib.PurePath):
            return PathText(cls)
        if _pydantic.is_model(cls):
            return _pydantic.Model(cls)
        bound = tuple(map(namespace.bound, arguments))
        key = (cls, tuple(_hashable(each) for each, _ in bound))
        if is_named_tuple(cls):
            return self._row(key, cls, bound, namespace)
        if key not in self._records:
            record = start_record(cls)
            if record is None:
                raise NoSchemaError(f"{cls.__name__} has no JSON form: {_INSTEAD}")
            self._records[key] = record
            fill_record(record, cls, bound, namespace, self.read)
        return self._records[key]

    def _row(self, key: object, cls: Any, bound: Arguments, namespace: Namespace) -> Shape:
        if key in self._open:
            raise NoSchemaError(f"{cls.__name__} is a named tuple that contains itself: write a dataclass")
        self._open[key] = None
        try:
            return read_row(cls, bound, namespace, self.read)
        finally:
            del self._open[key]


def _is_unpacked(argument: object) -> bool:
    return getattr(argument, "__unpacked__", False) or str(typing.get_origin(argument)).endswith("Unpack")


def _meaning(variable: TypeVar, namespace: Namespace) -> tuple[object, Namespace]:
    """What a type variable stands for: what it is bound to here, else the most that it can be."""
    if variable in namespace.type_variables:
        return namespace.type_variables[variable]
    if variable.__constraints__:
        return typing.Union[variable.__constraints__], namespace  # noqa: UP007 - of a tuple
    return (Any if variable.__bound__ is None else variable.__bound__), namespace


def _annotated(kind: object, notes: Notes) -> object:
    return Annotated[(kind, *notes)] if notes else kind


def _base(kind: object, notes: Notes) -> JsonSchema:
    """The schema of a type without parts, with its notes and constraints; msgspec checks that they go together."""
    try:
        schema = msgspec.json.schema(_annotated(kind, notes))
    except TypeError as error:
        raise NoSchemaError(str(error).partition(" - type")[0]) from error
    schema.pop("title", None)
    return {"type": schema.pop("type"), **schema} if "type" in schema else schema


def _text_base(kind: type, notes: Notes) -> JsonSchema:
    schema = _base(kind, notes)
    if kind is decimal.Decimal:  # providers refuse formats that they do not know
        del schema["format"]
        return {**schema, "pattern": _DECIMAL}
    if kind in _FORMATS and not any(note.tz is False for note in notes):
        return {**schema, "format": _FORMATS[kind]}
    return schema


def _noted(shape: Shape, notes: Notes) -> Shape:
    said = _base(Any, notes)
    return Noted(shape, said) if said else shape


def _constraints_of(note: msgspec.Meta) -> msgspec.Meta | None:
    found = {name: getattr(note, name) for name in _CONSTRAINTS if getattr(note, name) is not None}
    return msgspec.Meta(**found) if found else None


def _without_constraints(note: msgspec.Meta) -> msgspec.Meta:
    return msgspec.Meta(**{name: getattr(note, name) for name in _NOTES})


def _without_multiples(note: msgspec.Meta) -> msgspec.Meta:
    names = [name for name in (*_CONSTRAINTS, *_NOTES) if name != "multiple_of"]
    return msgspec.Meta(**{name: getattr(note, name) for name in names})


def _literal(values: Sequence[object]) -> Choice:
    return _choice([(each.value if isinstance(each, Enum) else each, each) for each in values], "Literal")


def _choice(options: Sequence[tuple[object, object]], name: str) -> Choice:
    kinds = {type(written) for written, _ in options}
    if not kinds or not kinds.issubset(_SCALARS):
        raise NoSchemaError(f"the values of {name} must be str, int, float, bool or None to be JSON")
    # msgspec takes 1 for Literal[True], and wants the values of an enum to be of one kind.
    is_enum = all(isinstance(meant, Enum) for _, meant in options)
    is_native = kinds in ({str}, {int}) if is_enum else kinds.issubset({str, int, type(None)})
    return Choice(tuple(options), is_native)


def _hashable(annotation: object) -> object:
    """The annotation as a key; metadata of ``Annotated`` need not have a hash."""
    try:
        hash(annotation)
    except TypeError:
        return id(annotation)
    return annotation
