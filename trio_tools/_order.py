"""What is asked of a batch, checked before anything of it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from ._control import BatchControl
from ._reach import deadline_in_reach, is_unentered
from ._registry import ToolRegistry
from ._request import ToolCall
from ._scope import ScopeView

__all__ = ["Order", "positive"]


def positive(name: str, number: object) -> int:
    """``number``, if it is a positive integer.

    Raises:
        ValueError: If it is not.
    """
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError(f"{name} must be a positive integer, not {number!r}")
    return number


def _check_number(_: object, attribute: attrs.Attribute[Any], number: object) -> None:
    positive(attribute.name, number)


def _as_calls(given: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    calls = tuple(given)
    for index, call in enumerate(calls):
        if not isinstance(call, ToolCall):  # pyright: ignore[reportUnnecessaryIsInstance] - before anything runs
            raise TypeError(f"a batch is made of ToolCall objects; number {index} is {call!r}")
    return calls


def _as_limits(given: Mapping[str, int] | None) -> dict[str, int]:
    if given is not None and not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise TypeError(f"limits must map names of tools to numbers, as in limits={{'search': 2}}, not {given!r}")
    return {name: positive(f"limits[{name!r}]", bound) for name, bound in (given or {}).items()}


def _check_control(_: object, __: attrs.Attribute[Any], control: object) -> None:
    if control is not None and not isinstance(control, BatchControl):
        raise TypeError(f"control takes a BatchControl, not {control!r}")


def _check_scope(_: object, __: attrs.Attribute[Any], scope: ScopeView) -> None:
    if not is_unentered(scope):  # else the batch enters it
        deadline_in_reach(scope)


@attrs.frozen(eq=False)
class Order:
    """The calls of one message, and how they are to be made: the arguments of ``run_batch``, where they are told.

    Raises:
        ValueError: If a bound is no positive integer.
        TypeError: If a call is no :class:`ToolCall`, or something else is of another type than it must be.
        RuntimeError: If an entered scope does not reach the running task.
    """

    registry: ToolRegistry
    calls: Sequence[ToolCall] = attrs.field(converter=_as_calls)
    scope: ScopeView = attrs.field(validator=_check_scope)
    max_parallel: int = attrs.field(validator=_check_number)
    limits: Mapping[str, int] = attrs.field(converter=_as_limits)
    fail_fast: bool
    control: BatchControl | None = attrs.field(validator=_check_control)
