"""What is swept."""

from __future__ import annotations

import functools
import inspect
import linecache
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeAlias, cast

import attrs
import trio

from trio_tools._batch import BatchOutcome
from trio_tools._registry import ToolRegistry
from trio_tools._results import ToolResult
from trio_tools._tool import FunctionBody, ToolDefinition
from trio_tools.testing._doubles import RecordingObserver, must_be_registry
from trio_tools.testing._report import MODES, CancelPoint, Mode

__all__ = ["Code", "MakeCall", "Scenario", "SetUp", "as_many", "files_of", "nothing", "set_up"]

MakeCall: TypeAlias = Callable[[trio.CancelScope], Awaitable[ToolResult | BatchOutcome | Iterable[ToolResult]]]
Code: TypeAlias = Callable[..., object] | ToolDefinition
SetUp: TypeAlias = Callable[[], AbstractAsyncContextManager[object]]


def _check_mode(_: object, __: attrs.Attribute[Any], mode: str) -> None:
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, not {mode!r}")


def _check_bound(_: object, attribute: attrs.Attribute[Any], bound: float) -> None:
    if isinstance(bound, bool) or not isinstance(bound, int | float) or not bound > 0:  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise ValueError(f"{attribute.name} must be a positive number, not {bound!r}")


def _check_steps(instance: object, attribute: attrs.Attribute[Any], bound: float) -> None:
    _check_bound(instance, attribute, bound)
    if not isinstance(bound, int):
        raise ValueError(
            f"{attribute.name} must be a whole number, not {bound!r}: what runs on and on ends nowhere else"
        )


def _check_function(_: object, attribute: attrs.Attribute[Any], function: object) -> None:
    takes = {"make_call": ("scope",), "check": ("point",)}.get(attribute.name, ())
    call = f"({', '.join(takes)})"
    if isinstance(function, trio.abc.Clock):
        raise TypeError(
            f"{attribute.name} takes a function such as time.perf_counter, not {type(function).__name__}: "
            "give that to trio.run, or to the test, and its time is taken"
        )
    if not callable(function) or isinstance(function, ToolDefinition) or hasattr(function, "__aenter__"):
        raise TypeError(f"{attribute.name} must be a function of {call}, not {function!r}")
    if attribute.name != "make_call" and inspect.iscoroutinefunction(function):
        raise TypeError(f"{attribute.name} must be a function that is not async, not {function!r}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of some that are written in C, nobody knows
        return
    try:
        signature.bind(*takes)
    except TypeError as error:
        raise TypeError(f"{attribute.name} is called with {call}, and {function!r} cannot be: {error}") from None


def _check_registry(_: object, __: attrs.Attribute[Any], registry: object) -> None:
    must_be_registry(registry)


def _check_clock(instance: object, attribute: attrs.Attribute[Any], clock: Callable[[], object]) -> None:
    _check_function(instance, attribute, clock)
    time = clock()
    if isinstance(time, bool) or not isinstance(time, int | float):
        raise TypeError(f"clock must return a number of seconds, not {time!r}")


@attrs.frozen(kw_only=True, eq=False)
class Scenario:
    """What is run, and what it is held against; see :func:`cancel_everywhere` for each."""

    make_call: MakeCall = attrs.field(validator=_check_function)
    mode: Mode = attrs.field(validator=_check_mode)
    registry: ToolRegistry | None = attrs.field(validator=_check_registry)
    observer: RecordingObserver = attrs.field(factory=RecordingObserver)  # of that registry
    check: Callable[[CancelPoint], None] | None = attrs.field(validator=attrs.validators.optional(_check_function))
    setup: SetUp = attrs.field(validator=_check_function)
    files: frozenset[str] = frozenset()
    max_steps: int = attrs.field(validator=_check_steps)
    max_seconds: float = attrs.field(validator=_check_bound)
    clock: Callable[[], float] = attrs.field(validator=_check_clock)

    def __attrs_pre_init__(self) -> None:
        if not trio.lowlevel.in_trio_task():
            raise RuntimeError("a sweep is awaited in a Trio program: under trio.run, or in a test of pytest-trio")


def nothing() -> AbstractAsyncContextManager[object]:
    """A set-up that sets nothing up."""
    return nullcontext()


def set_up(scenario: Scenario) -> AbstractAsyncContextManager[object]:
    """The context of one run.

    Raises:
        TypeError: If what ``setup`` made is none.
    """
    made = scenario.setup()
    if not isinstance(made, AbstractAsyncContextManager):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise TypeError(f"setup must make an asynchronous context, as @asynccontextmanager does, and not {made!r}")
    return made


def as_many(code: Iterable[Code] | Code) -> list[Code]:
    """Several functions or tools; or one."""
    if isinstance(code, ToolDefinition | str) or callable(code) or not hasattr(code, "__iter__"):
        return [cast(Code, code)]
    return list(code)


def files_of(code: Iterable[Code]) -> frozenset[str]:
    """The files of the lines of functions or tools.

    Raises:
        TypeError: If one of them is not written in Python.
        ValueError: If the source of one cannot be read.
    """
    return frozenset(map(_file_of, code))


def _file_of(code: object) -> str:
    if isinstance(code, ToolDefinition):
        code = code.execute
    if isinstance(code, FunctionBody):
        code = code.function
    while isinstance(code, functools.partial):
        code = code.func
    code = inspect.unwrap(code) if callable(code) else code
    if callable(code) and not (inspect.isroutine(code) or inspect.isclass(code)):
        code = type(code).__call__
    found = getattr(inspect.unwrap(code), "__code__", None) if callable(code) else None
    if found is None:
        raise TypeError(f"code takes functions that are written in Python, and tools, not {code!r}")
    if not linecache.getlines(found.co_filename):
        raise ValueError(
            f"the source of {code!r} cannot be read, and without it nobody sees what is swallowed: put it into a file"
        )
    return found.co_filename
