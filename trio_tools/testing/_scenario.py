"""What is swept."""

from __future__ import annotations

import functools
import inspect
import linecache
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import attrs
import trio

from trio_tools._batch import BatchOutcome
from trio_tools._registry import ToolRegistry
from trio_tools._results import ToolResult
from trio_tools._tool import FunctionBody, ToolDefinition
from trio_tools.testing._doubles import RecordingObserver
from trio_tools.testing._report import MODES, CancelPoint, Mode

__all__ = ["MakeCall", "Scenario", "file_of"]

MakeCall: TypeAlias = Callable[[trio.CancelScope], Awaitable[ToolResult | BatchOutcome | Iterable[ToolResult]]]


def _check_mode(_: object, __: attrs.Attribute[Any], mode: str) -> None:
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, not {mode!r}")


def _check_bound(_: object, attribute: attrs.Attribute[Any], bound: float) -> None:
    if isinstance(bound, bool) or not isinstance(bound, int | float) or not bound > 0:  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise ValueError(f"{attribute.name} must be a positive number, not {bound!r}")


@attrs.frozen(kw_only=True, eq=False)
class Scenario:
    """What is run, and what it is held against; see :func:`cancel_everywhere` for each."""

    make_call: MakeCall
    mode: Mode = attrs.field(validator=_check_mode)
    registry: ToolRegistry | None
    observer: RecordingObserver = attrs.field(factory=RecordingObserver)  # of that registry
    check: Callable[[CancelPoint], None] | None
    files: frozenset[str]
    max_steps: int = attrs.field(validator=_check_bound)
    max_seconds: float = attrs.field(validator=_check_bound)
    clock: Callable[[], float]


def file_of(code: object) -> str:
    """The file of a function's, or tool's, lines."""
    if isinstance(code, ToolDefinition):
        code = code.execute
    if isinstance(code, FunctionBody):
        code = code.function
    while isinstance(code, functools.partial):
        code = code.func
    code = inspect.unwrap(code) if callable(code) else code
    if not (inspect.isroutine(code) or inspect.isclass(code)):
        code = type(code).__call__
    found = getattr(inspect.unwrap(code), "__code__", None)
    if found is None:
        raise TypeError(f"code takes functions that are written in Python, and tools, not {code!r}")
    if not linecache.getlines(found.co_filename):
        raise ValueError(
            f"the source of {code!r} cannot be read, and without it nobody sees what is swallowed: put it into a file"
        )
    return found.co_filename
