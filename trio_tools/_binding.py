"""A function as a tool: arguments become values of the parameters' types, results become JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast, final

import msgspec

from ._atoms import Block, Scalar
from ._containers import Array, Row, Union
from ._json import FrozenJson
from ._records import Field, fields_schema
from ._schema import Schema
from ._shapes import Definitions, JsonSchema, Problems, Shape, core, reachable
from ._violations import listed

__all__ = ["ArgumentsError", "ReturnError", "Signature", "is_native"]


class ArgumentsError(ValueError):
    """Arguments that do not fit a function.

    Attributes:
        violations: Everything that is wrong with them, each with its path.
    """

    def __init__(self, violations: list[str]) -> None:
        super().__init__("; ".join(violations))
        self.violations = violations

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.violations,)


class ReturnError(ArgumentsError):
    """A value that the return annotation of a function does not admit; otherwise like :class:`ArgumentsError`."""


_convert = msgspec.convert
_as_dict = msgspec.structs.asdict
_count = cast("Callable[[FrozenJson], int]", len)  # of what the schema has found to be an object


@final
class Signature:
    """What a function takes and returns, as JSON.

    Made by :func:`trio_tools._signature.inspect_function`.

    Attributes:
        name: The name of the function.
        description: Its docstring up to the sections.
        parameters: JSON Schema of the arguments object.
        run_parameter: The parameter that receives the run, if there is one.
        is_async: Whether calling the function gives a coroutine.
        returns_schema: JSON Schema of the result; ``{}`` if anything goes.
        returns_text: Whether the result is a ``str``.
        returns_blocks: Whether the result may hold content blocks, wherever;
        returns_content: and whether it is nothing but content: a block, or a list of blocks, and ``str`` beside them.
    """

    def __init__(
        self,
        *,
        name: str,
        description: str,
        fields: tuple[Field, ...],
        native: Mapping[str, object],
        run_parameter: str | None,
        is_async: bool,
        returns: Shape,
    ) -> None:
        self.name: Final = name
        self.description: Final = description
        self.run_parameter: Final = run_parameter
        self.is_async: Final = is_async
        parameters, results = Definitions(), Definitions(of_results=True)
        self.parameters: Final[JsonSchema] = parameters.complete(fields_schema(fields, parameters))
        self.returns_schema: Final[JsonSchema] = results.complete(returns.schema(results))
        self.returns_text: Final = isinstance(returns, Scalar) and returns.kind is str
        self.returns_blocks: Final = any(isinstance(shape, Block) for shape in reachable(returns))
        self.returns_content: Final = self.returns_blocks and _is_content(returns)
        self.schema: Final = Schema(self.parameters)
        self._returns = returns
        self._is_json = returns.kind if isinstance(returns, Scalar) else None  # the type whose values are JSON already
        self._fields = fields
        self._is_valid = self.schema.is_valid
        # A struct is converted three times as fast as a dict; what was not given keeps the mark.
        self._native = msgspec.defstruct("Arguments", [(key, kind, msgspec.UNSET) for key, kind in native.items()])
        self._others = tuple(field for field in fields if field.key not in native)

    def bind(self, arguments: FrozenJson) -> dict[str, object]:
        """The values of the parameters, by name; those that were not given are left to the defaults of the function.

        Not a checkpoint.

        Args:
            arguments: The frozen arguments.

        Raises:
            ArgumentsError: If they do not fit; it lists every violation.
        """
        if not self._is_valid(arguments):
            refusals = self._decode(arguments, self._fields)[1].refusals
            raise ArgumentsError(listed([*self.schema.explain(arguments), *refusals]))
        try:
            values = _as_dict(_convert(arguments, self._native))
        except Exception:  # it names the first fault only, and takes no 5.0 for an int
            return self._decode_all(arguments, self._fields)
        if _count(arguments) < len(self._fields):
            values = {name: value for name, value in values.items() if value is not msgspec.UNSET}
        return {**values, **self._decode_all(arguments, self._others)} if self._others else values

    def to_json(self, value: object) -> object:
        """A returned value as JSON data, by the return annotation; as it is, if there is none. Not a checkpoint.

        Raises:
            ReturnError: If the annotation does not admit the value; it lists every violation.
        """
        if type(value) is self._is_json:
            return value
        problems = Problems()
        encoded = self._returns.encode(value, None, problems)
        if len(problems):
            raise ReturnError(listed(problems.all()))
        return encoded

    def check_json(self, value: FrozenJson) -> None:
        """Hold JSON that fits :attr:`returns_schema` against what the return annotation says beyond it.

        No constructor is called. Not a checkpoint.

        Raises:
            ReturnError: If the annotation does not admit the value; it lists every violation.
        """
        problems = Problems(of_results=True)
        self._returns.decode(value, None, problems)
        if len(problems):
            raise ReturnError(listed(problems.all()))

    def _decode_all(self, arguments: FrozenJson, fields: tuple[Field, ...]) -> dict[str, object]:
        values, problems = self._decode(arguments, fields)
        if len(problems):
            raise ArgumentsError(listed(problems.all()))
        return values

    @staticmethod
    def _decode(arguments: FrozenJson, fields: tuple[Field, ...]) -> tuple[dict[str, object], Problems]:
        problems = Problems()
        given: Mapping[str, FrozenJson] = arguments if isinstance(arguments, Mapping) else {}
        values: dict[str, object] = {
            field.key: field.shape.decode(given[field.key], (None, field.key), problems)
            for field in fields
            if field.key in given
        }
        return values, problems


def _is_content(shape: Shape, *, in_list: bool = False) -> bool:
    match core(shape):
        case Block():
            return True
        case Scalar(kind=kind):
            return kind in (str, type(None))
        case Union(branches=branches):
            return all(_is_content(branch, in_list=in_list) for branch in branches)
        case Array() | Row() as array:
            return not in_list and all(_is_content(part, in_list=True) for part in array.parts())
        case _:
            return False


def is_native(annotation: object, shape: Shape) -> bool:
    """Whether msgspec alone makes the right value of an argument that fits the schema.

    Args:
        annotation: The annotation, of which no part is a string.
        shape: Its shape.
    """
    if not all(part.is_native() for part in reachable(shape)):
        return False
    try:
        msgspec.json.Decoder(cast("type[Any]", annotation))
    except Exception:  # a union that it does not support, a name that it cannot resolve
        return False
    return True
