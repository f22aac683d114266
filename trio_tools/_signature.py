"""From a function to its :class:`Signature`: what can be a tool, and what cannot, with what to write instead."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any, cast

import attrs
import msgspec

from ._annotations import Reader
from ._atoms import Anything
from ._binding import ArgumentsError, ReturnError, Signature, is_native
from ._docstring import Docstring, read_docstring
from ._namespaces import Namespace, NoSchemaError
from ._records import Field
from ._schema import SchemaError
from ._shapes import Problems, Shape, annotated_description

__all__ = ["ArgumentsError", "ReturnError", "Signature", "inspect_function"]


def inspect_function(
    function: Callable[..., object],
    *,
    run_type: type | None = None,
    local_names: Mapping[str, object] | None = None,
) -> Signature:
    """Read the signature and the docstring of a function.

    Args:
        function: An async or plain function, a bound method, a ``functools.partial`` or a callable object. What a
            partial binds by name is fixed, and is not shown.
        run_type: A parameter with this class as its annotation receives the run, and is not shown.
        local_names: Where to look up names in string annotations that are not global, such as the local variables of
            the function in which this one is defined.

    Raises:
        TypeError: If something in it cannot be shown to a model. It is named, with what to write instead.
    """
    code = _running_code(function)
    original = inspect.unwrap(function if hasattr(function, "__wrapped__") else code)
    name = _name(function, original)
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise TypeError(f"{name}() is a generator: return a list, and emit partial output through the run")
    namespace = _namespace(original, run_type, local_names or {})
    if hasattr(function, "cache_info") and inspect.iscoroutinefunction(original):
        raise TypeError(f"{name}() is cached, and a coroutine can be awaited once only: cache what it awaits instead")
    doc = read_docstring(original.__doc__ or (type(function).__doc__ if _is_object(function) else None))
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}() has no signature that can be read: wrap it into a function of your own") from error
    reader = Reader(run_type)
    found = _Found()
    for parameter in signature.parameters.values():
        if parameter.name not in _bound_by_partial(function):
            try:
                found.add(parameter, reader, namespace, run_type, doc)
            except NoSchemaError as error:
                raise TypeError(f"{name}() cannot be a tool: parameter {parameter.name!r}: {error}") from error
    try:
        returns = _returns(signature, Reader(run_type), namespace)
    except NoSchemaError as error:
        raise TypeError(f"{name}() cannot be a tool: what it returns: {error}") from error
    try:
        return Signature(
            name=name,
            description=doc.description,
            fields=tuple(found.fields),
            native=found.native,
            run_parameter=found.run_parameter,
            is_async=inspect.iscoroutinefunction(code),
            returns=returns,
        )
    except SchemaError as error:  # a pattern that Python knows and JSON Schema does not
        raise TypeError(f"{name}() cannot be a tool: {error}") from error


@attrs.define
class _Found:
    """What has been found in a signature so far."""

    fields: list[Field] = attrs.field(factory=list[Field])
    native: dict[str, object] = attrs.field(factory=dict[str, object])
    run_parameter: str | None = None

    def add(
        self, parameter: Parameter, reader: Reader, namespace: Namespace, run_type: type | None, doc: Docstring
    ) -> None:
        _check_kind(parameter)
        annotation = namespace.evaluate(parameter.annotation)
        if run_type is not None and getattr(annotation, "__origin__", annotation) is run_type:
            if self.run_parameter is not None:
                raise NoSchemaError(f"{self.run_parameter!r} receives the run already: leave one of them out")
            self.run_parameter = parameter.name
            return
        shape = reader.read(parameter.annotation, namespace)
        is_required = parameter.default is Parameter.empty
        default = msgspec.NODEFAULT if is_required else parameter.default
        if default is None and not _admits_none(shape):
            written = parameter.annotation
            shown = written if isinstance(written, str) else inspect.formatannotation(written)
            raise NoSchemaError(f"its default is None, which its type does not admit: write {shown} | None = None")
        said = annotated_description(shape) or doc.parameters.get(parameter.name, "")
        self.fields.append(Field(parameter.name, shape, required=is_required, default=default, description=said))
        if is_native(annotation, shape) and not parameter.name.startswith("__"):  # Python would mangle the field
            self.native[parameter.name] = annotation


def _admits_none(shape: Shape) -> bool:
    problems = Problems()
    shape.encode(None, None, problems)
    return not len(problems)


def _check_kind(parameter: Parameter) -> None:
    name = parameter.name
    if parameter.kind is Parameter.VAR_POSITIONAL:
        raise NoSchemaError(f"a model names its arguments, so that *{name} gets none: write {name}: list[...]")
    if parameter.kind is Parameter.VAR_KEYWORD:
        raise NoSchemaError(f"**{name} has no schema: write a parameter for each, or {name}: dict[str, ...]")
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        raise NoSchemaError("it is positional-only, and a model names its arguments: remove the / from the signature")
    if parameter.annotation is Parameter.empty:
        bind = " (or is this an unbound method? pass the bound one)" if name in ("self", "cls") else ""
        raise NoSchemaError(f"it has no annotation: write its type, such as {name}: str, or {name}: Any{bind}")


def _returns(signature: inspect.Signature, reader: Reader, namespace: Namespace) -> Shape:
    annotation = signature.return_annotation
    return Anything() if annotation is inspect.Signature.empty else reader.read(annotation, namespace)


def _is_object(function: object) -> bool:
    return not isinstance(function, (types.FunctionType, types.MethodType, staticmethod, functools.partial))


def _running_code(function: Any) -> Any:
    """The function that runs in the end; decorators that wrap it are left on."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[object]", function).func
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"a tool is made from a function or a callable object, not from {function!r}")
    if isinstance(function, (types.MethodType, staticmethod)):
        return cast("types.MethodType", function).__func__
    return type(function).__call__ if _is_object(function) and not inspect.isbuiltin(function) else function


def _bound_by_partial(function: Any) -> set[str]:
    names: set[str] = set()
    while isinstance(function, functools.partial):
        bound = cast("functools.partial[object]", function)
        names.update(bound.keywords)
        function = bound.func
    return names


def _name(function: Any, original: Any) -> str:
    while isinstance(function, functools.partial):
        function = cast("functools.partial[object]", function).func
    own = getattr(function, "__name__", None)
    return own if isinstance(own, str) else type(function).__name__


def _namespace(original: Any, run_type: type | None, local_names: Mapping[str, object]) -> Namespace:
    code = getattr(original, "__code__", None)
    closure: dict[str, object] = {}
    for name, cell in zip(getattr(code, "co_freevars", ()), getattr(original, "__closure__", None) or (), strict=False):
        try:
            closure[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    variables: dict[str, object] = {each.__name__: each for each in getattr(original, "__type_params__", ())}
    # The run type comes last: it is often imported for the type checker only.
    fallback: dict[str, object] = {} if run_type is None else {run_type.__name__: run_type}
    return Namespace((variables, closure, local_names, getattr(original, "__globals__", {}), fallback))
