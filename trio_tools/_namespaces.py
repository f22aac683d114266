"""What the names in an annotation mean: strings, forward references and type variables, where they are written."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar, cast

import attrs

__all__ = ["Arguments", "Namespace", "NoSchemaError", "class_annotations"]

Arguments: TypeAlias = "tuple[tuple[object, Namespace], ...]"
"""What the type variables of a generic class stand for, each with the namespace in which to read it."""


class NoSchemaError(TypeError):
    """An annotation cannot be shown to a model as JSON; the message says why and what to write instead."""


@attrs.frozen(eq=False)
class Namespace:
    """The names that an annotation may use, and what its type variables stand for.

    Attributes:
        layers: Where to look a name up, in order.
        type_variables: What a type variable stands for, and the namespace of that.
    """

    layers: tuple[Mapping[str, object], ...]
    type_variables: Mapping[object, tuple[object, Namespace]] = attrs.field(factory=dict[object, Any])

    def evaluate(self, text: object) -> object:
        """What an annotation stands for: itself, unless it is a string.

        Raises:
            NoSchemaError: If it uses a name that is not defined, or is no type expression.
        """
        if not isinstance(text, str):
            return text
        names = {name: value for layer in reversed(self.layers) for name, value in layer.items()}
        try:
            return eval(text, names)  # noqa: S307 - it is an annotation, and so code of the program already
        except NameError as error:
            raise NoSchemaError(
                f"{text!r} cannot be resolved, because {error.name!r} is not defined where it is written:"
                " define or import it at module level, outside of `if TYPE_CHECKING`"
            ) from error
        except Exception as error:
            raise NoSchemaError(f"{text!r} is no type: {error}") from error

    def in_module(self, name: str | None, bound: Iterable[tuple[object, tuple[object, Namespace]]] = ()) -> Namespace:
        """The namespace of something that was written in the module of this name, if that is known."""
        layers = self.layers if name is None else (_module_names(name), *self.layers)
        return Namespace(layers, {**self.type_variables, **dict(bound)})

    def bound(self, argument: object) -> tuple[object, Namespace]:
        """What an argument of a generic class stands for: itself, unless it is a type variable that is bound here."""
        if isinstance(argument, TypeVar) and argument in self.type_variables:
            return self.type_variables[argument]
        return argument, self


def _module_names(name: str) -> Mapping[str, object]:
    return vars(sys.modules[name]) if name in sys.modules else {}


def class_annotations(cls: Any, arguments: Arguments, outer: Namespace) -> dict[str, tuple[object, Namespace]]:
    """The annotations of a class and its bases, each with the namespace in which to read it.

    Args:
        cls: The class.
        arguments: What its type variables stand for, if it is generic.
        outer: The namespace in which the class is mentioned.
    """
    namespaces = dict(_with_bases(cls, arguments, outer))
    # The bases of a TypedDict are not in its MRO; it copies their annotations, which keep their namespace.
    copied_from = [base for base in namespaces if base not in cls.__mro__]
    found: dict[str, tuple[object, Namespace]] = {}
    for one in [*copied_from, *(base for base in reversed(cls.__mro__) if base in namespaces)]:
        for name, annotation in _own_annotations(one).items():
            if name not in found or found[name][0] is not annotation:
                found[name] = (annotation, namespaces[one])
    return found


def _own_annotations(cls: type) -> Mapping[str, object]:
    try:
        return inspect.get_annotations(cls)
    except NameError as error:  # pragma: no cover - only from Python 3.14 on they are evaluated here
        raise NoSchemaError(f"an annotation of {cls.__name__} uses {error.name!r}, which is not defined") from error


def _with_bases(cls: Any, arguments: Arguments, outer: Namespace) -> Iterator[tuple[type, Namespace]]:
    """The class and all its bases, each with its namespace."""
    variables = cast("tuple[object, ...]", getattr(cls, "__parameters__", ()))
    own: dict[str, object] = {each.__name__: each for each in (cls, *getattr(cls, "__type_params__", ()))}
    # The names of the function around come last: they matter for classes that are defined in it.
    inside = dict(cast("Mapping[str, object]", vars(cls)))
    layers = (own, _module_names(cls.__module__), inside, *outer.layers)
    namespace = Namespace(layers, dict(zip(variables, arguments, strict=False)))
    yield cls, namespace
    for base in cast("tuple[Any, ...]", inside.get("__orig_bases__", cls.__bases__)):
        origin = typing.get_origin(base) or base
        if isinstance(origin, type) and origin not in (object, dict, typing.Generic):
            yield from _with_bases(origin, tuple(map(namespace.bound, typing.get_args(base))), outer)
