"""What a tool declares about its results, and how a value becomes what the model sees."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import attrs
import msgspec

from ._content import Content, as_returned, as_shown, as_written
from ._errors import describe
from ._json import FrozenJson, NotJsonError, freeze
from ._schema import Schema

__all__ = ["Output", "OutputError", "Render", "check_function", "render_json", "render_plainly"]

Render: TypeAlias = Callable[[FrozenJson, FrozenJson], Iterable[Content | str] | Content | str]


class OutputError(Exception):
    """What a body returned breaks the output contract of its tool; the text lists every violation."""


def render_plainly(arguments: FrozenJson, value: FrozenJson) -> str:
    """The default rendering: a ``str`` as it is, any other value as its JSON text."""
    return value if isinstance(value, str) else render_json(arguments, value)


def render_json(arguments: FrozenJson, value: FrozenJson) -> str:
    """Any value as its JSON text: the rendering of a function that is annotated to return anything but ``str``."""
    return msgspec.json.encode(value).decode()


def check_function(*takes: str, awaited: bool = False) -> Callable[[object, attrs.Attribute[Any], object], None]:
    """A validator of attrs: a function that can be called with these arguments, and is not async unless ``awaited``.

    It raises ``TypeError`` if the value is none.
    """

    def check(_: object, attribute: attrs.Attribute[Any], function: object) -> None:
        name, call = attribute.name, f"({', '.join(takes)})"
        if not callable(function) or (inspect.iscoroutinefunction(function) and not awaited):
            kind = "an async function" if awaited else "a function that is not async,"
            raise TypeError(f"{name} must be {kind} of {call}, not {function!r}")
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # of some that are written in C, nobody knows
            return
        try:
            signature.bind(*takes)
        except TypeError as error:
            raise TypeError(f"{name} is called with {call}, and {function!r} cannot be: {error}") from None

    return check


def _as_schema(schema: Mapping[str, object]) -> Schema:
    return Schema(schema)


@attrs.frozen(kw_only=True)
class Output:
    """The output contract of a tool. Its functions are synchronous; one that raises is ``INVALID_TOOL_OUTPUT``.

    Attributes:
        schema: JSON Schema of the value; by default anything that is JSON.
        render: ``(arguments, value)`` to what the model sees: content blocks, ``str`` or both. By default text as it
            is, any other value as its JSON text; a body that returns content blocks has them shown as they are, and
            their JSON form is the value.
        presentation_meta: ``(arguments, value)`` to JSON for a user interface; asked only for calls without a parent.
        convert: Turns what the body returned into JSON data before it is checked; by default nothing is converted.
        check_json: Holds a value that is JSON already, such as one that a policy put in the place of another, against
            what the schema cannot say; raises if it is refused.

    Raises:
        ValueError: If the schema is no JSON Schema.
        TypeError: If one of the functions is none, is async, or takes other arguments.
    """

    schema: Mapping[str, object] = attrs.field(factory=dict[str, object])
    render: Render = attrs.field(default=render_plainly, validator=check_function("arguments", "value"))
    presentation_meta: Callable[[FrozenJson, FrozenJson], object] | None = attrs.field(
        default=None, validator=attrs.validators.optional(check_function("arguments", "value"))
    )
    convert: Callable[[object], object] | None = attrs.field(
        default=None, validator=attrs.validators.optional(check_function("value"))
    )
    check_json: Callable[[FrozenJson], None] | None = attrs.field(
        default=None, validator=attrs.validators.optional(check_function("value"))
    )
    _compiled: Schema = attrs.field(
        init=False, repr=False, eq=False, default=attrs.Factory(lambda self: _as_schema(self.schema), takes_self=True)
    )

    def check(self, value: object, *, converted: bool = False) -> tuple[FrozenJson, tuple[Content, ...] | None]:
        """``value``, converted unless it is so already, and frozen, if the contract admits it.

        Beside it the content that it is itself, if it is that and nothing else was to be rendered.

        Raises:
            OutputError: If it is not JSON, or against the schema.
        """
        content = None
        try:
            if not converted and self.convert is not None:
                value = self.convert(value)
            if self.render is render_plainly:
                content = as_returned(value)
            frozen = freeze(value if content is None else as_written(value))
        except NotJsonError as error:
            raise OutputError(str(error)) from error
        except Exception as error:  # a conversion that raises
            raise OutputError(describe(error).message) from error
        if converted:
            self.admit(frozen)
        else:
            self._hold_against_schema(frozen)
        return frozen, content

    def admit(self, value: FrozenJson) -> None:
        """Hold a value that is JSON already against the schema, and against ``check_json``.

        Raises:
            OutputError: If it is refused.
        """
        self._hold_against_schema(value)
        try:
            if self.check_json is not None:
                self.check_json(value)
        except Exception as error:
            raise OutputError(describe(error).message) from error

    def _hold_against_schema(self, value: FrozenJson) -> None:
        if not self._compiled.is_valid(value):
            raise OutputError("; ".join(self._compiled.violations(value)))

    def show(self, arguments: FrozenJson, value: FrozenJson) -> tuple[Content, ...]:
        """What the model sees of a checked value.

        Raises:
            OutputError: If ``render`` raises, or gives something that is no content.
        """
        try:
            return as_shown(self.render(arguments, value))
        except Exception as error:
            raise OutputError(f"render failed: {describe(error).message}") from error

    def present(self, arguments: FrozenJson, value: FrozenJson) -> FrozenJson:
        """What a user interface gets of a checked value; ``None`` without ``presentation_meta``.

        Raises:
            OutputError: If ``presentation_meta`` raises, or gives something that is not JSON.
        """
        try:
            return None if self.presentation_meta is None else freeze(self.presentation_meta(arguments, value))
        except Exception as error:
            raise OutputError(f"presentation_meta failed: {describe(error).message}") from error
