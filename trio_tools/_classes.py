"""The fields of classes, whoever made them: attrs, dataclasses, msgspec, ``typing``."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ForwardRef, TypeAlias, cast

import attrs
import msgspec

from ._containers import Row
from ._docstring import Docstring, read_docstring
from ._namespaces import Arguments, Namespace, NoSchemaError, class_annotations
from ._records import Field, Record
from ._shapes import Shape, annotated_description

__all__ = ["Read", "fill_record", "is_named_tuple", "qualifier", "read_row", "start_record"]

Read: TypeAlias = Callable[[object, Namespace], Shape]
"""Reads an annotation."""


_FACTORY: Any = attrs.Factory  # a class, whatever its stub says


@attrs.frozen
class _Slot:
    """A field before its annotation has been read."""

    name: str
    key: str
    keyword: str | None
    required: bool
    default: object = msgspec.NODEFAULT
    annotation: object = Any


def start_record(cls: Any) -> Record | None:
    """The record of a class with named fields, still without them; ``None`` if it is no such class."""
    description = _class_doc(cls).description
    if _is_typed_dict(cls):
        return Record(dict, cls.__name__, dict, native=True, description=description)
    if issubclass(cls, msgspec.Struct):
        config = cls.__struct_config__
        if config.array_like:
            raise NoSchemaError(f"{cls.__name__} is an array_like struct: write a plain struct, or a NamedTuple")
        tag = None if config.tag_field is None else (config.tag_field, cast("str | int", config.tag))
        return Record(cls, cls.__name__, cls, native=True, description=description, tag=tag)
    if attrs.has(cls):
        return Record(cls, cls.__name__, cls, native=_is_plain_attrs(cls), description=description)
    if hasattr(cls, "__dataclass_fields__"):
        return Record(cls, cls.__name__, cls, native=_is_plain_dataclass(cls), description=description)
    return None


def fill_record(record: Record, cls: Any, arguments: Arguments, outer: Namespace, read: Read) -> None:
    """Read the fields of a class into its record.

    Args:
        record: What :func:`start_record` made of the class.
        cls: The class.
        arguments: What its type variables stand for, if it is generic.
        outer: The namespace in which it is mentioned.
        read: Reads an annotation.
    """
    annotations = class_annotations(cls, arguments, outer)
    if _is_typed_dict(cls):
        slots = _typed_dict_slots(cls, annotations)
    elif issubclass(cls, msgspec.Struct):
        slots = _struct_slots(cls)
    else:
        slots = _attrs_slots(cls) if attrs.has(cls) else _dataclass_slots(cls, annotations)
    record.fields = tuple(_fields(cls, slots, annotations, outer, read))


def is_named_tuple(cls: type) -> bool:
    """Whether the class is a ``NamedTuple`` or was made by ``collections.namedtuple``."""
    return tuple in cls.__mro__ and hasattr(cls, "_fields")


def read_row(cls: Any, arguments: Arguments, outer: Namespace, read: Read) -> Row:
    """The shape of a named tuple; its elements are described by their names, or by its docstring."""
    annotations = class_annotations(cls, arguments, outer)
    slots = [_Slot(name, name, name, name not in cls._field_defaults) for name in cls._fields]
    fields = list(_fields(cls, slots, annotations, outer, read))
    required = sum(field.required for field in fields)
    told = tuple(field.description or field.key for field in fields)
    is_plain = tuple in cls.__bases__  # a subclass may have a constructor of its own
    return Row(tuple(field.shape for field in fields), told, required, lambda items: cls(*items), is_plain)


def qualifier(annotation: object, namespace: Namespace) -> bool | None:
    """Whether a key of a ``TypedDict`` is marked as required or not; ``None`` if it is not marked."""
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return qualifier(namespace.evaluate(annotation), namespace)
    name = str(typing.get_origin(annotation)).rpartition(".")[2]
    if name in ("Required", "NotRequired"):
        return name == "Required"
    if name in ("Annotated'>", "Annotated", "ReadOnly"):
        return qualifier(typing.get_args(annotation)[0], namespace)
    return None


def _fields(
    cls: type, slots: Iterable[_Slot], annotations: dict[str, tuple[object, Namespace]], outer: Namespace, read: Read
) -> Iterator[Field]:
    said = _class_doc(cls).parameters
    for slot in slots:
        annotation, namespace = annotations.get(slot.name, (slot.annotation, outer))
        try:
            shape = read(annotation, namespace)
        except NoSchemaError as error:
            raise NoSchemaError(f"field {slot.name!r} of {cls.__name__}: {error}") from error
        yield Field(
            slot.key,
            shape,
            required=slot.required,
            attribute=slot.name,
            keyword=slot.keyword,
            default=slot.default,
            description=annotated_description(shape) or said.get(slot.name, ""),
        )


def _is_typed_dict(cls: type) -> bool:
    return dict in cls.__mro__ and hasattr(cls, "__total__")


def _typed_dict_slots(cls: Any, annotations: dict[str, tuple[object, Namespace]]) -> Iterator[_Slot]:
    for name, (annotation, namespace) in annotations.items():
        # A mark in a string annotation was not seen when the class was made.
        marked = qualifier(annotation, namespace)
        yield _Slot(name, name, name, name in cls.__required_keys__ if marked is None else marked)


def _struct_slots(cls: Any) -> Iterator[_Slot]:
    for field in msgspec.structs.fields(cls):
        yield _Slot(field.name, field.encode_name, field.name, field.required, field.default)


def _attrs_slots(cls: Any) -> Iterator[_Slot]:
    for field in attrs.fields(cls):
        required = field.default is attrs.NOTHING
        default = msgspec.NODEFAULT if required or isinstance(field.default, _FACTORY) else field.default
        keyword = field.alias if field.init else None
        annotation = Any if field.type is None else field.type
        yield _Slot(field.name, field.alias, keyword, required or not field.init, default, annotation)


def _dataclass_slots(cls: Any, annotations: dict[str, tuple[object, Namespace]]) -> Iterator[_Slot]:
    for name, (annotation, namespace) in annotations.items():
        written = namespace.evaluate(annotation)
        if isinstance(written, dataclasses.InitVar) or written is dataclasses.InitVar:
            raise NoSchemaError(f"field {name!r} of {cls.__name__} is an InitVar: make it a field")
    for field in dataclasses.fields(cls):
        default = msgspec.NODEFAULT if field.default is dataclasses.MISSING else field.default
        required = default is msgspec.NODEFAULT and field.default_factory is dataclasses.MISSING
        yield _Slot(field.name, field.name, field.name if field.init else None, required or not field.init, default)


def _is_plain_attrs(cls: Any) -> bool:
    """Whether msgspec, which sets attributes instead of calling the constructor, makes the same instance."""
    return (
        "__attrs_attrs__" in vars(cls)
        and not hasattr(cls, "__attrs_init__")
        and not hasattr(cls, "__attrs_pre_init__")
        and cls.__new__ is object.__new__
        and all(
            field.init
            and field.converter is None
            and field.alias == field.name
            and not (isinstance(field.default, _FACTORY) and field.default.takes_self)
            for field in attrs.fields(cls)
        )
    )


def _is_plain_dataclass(cls: Any) -> bool:
    return (
        "__dataclass_fields__" in vars(cls)
        and _is_generated(cls.__init__)
        and cls.__new__ is object.__new__
        and all(field.init for field in dataclasses.fields(cls))
    )


def _is_generated(init: Any) -> bool:
    """Whether the ``dataclass`` decorator wrote this constructor; its parameters say so also where it did not."""
    return "__create_fn__" in getattr(getattr(init, "__code__", None), "co_qualname", "")


def _class_doc(cls: type) -> Docstring:
    """The docstring of a class; not an inherited one, nor one that was generated."""
    text = vars(cls).get("__doc__")
    generated = not isinstance(text, str) or (text.startswith(f"{cls.__name__}(") and text.endswith(")"))
    return Docstring() if generated else read_docstring(text)
