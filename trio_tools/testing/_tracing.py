"""Following the lines of an author's code: where a cancellation was swallowed, where something was opened, how long.

Everything here is a trace function of :func:`sys.settrace`. It follows only frames of the files that it is given, in
the thread that set it. While it is set, debuggers and coverage tools see nothing; it is put back as it was found.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import linecache
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import attrs
import trio

from trio_tools._errors import leaves
from trio_tools.testing._resources import Held, held

__all__ = ["Injector", "LineWatch", "Stopper", "SwallowWatch", "Trace", "location", "one_after_the_other", "traced"]

Trace: TypeAlias = Callable[[FrameType, str, Any], Any]

_PACKAGE = str(Path(__file__).parents[1])
_CATCHES_ALL = frozenset({"BaseException", "BaseExceptionGroup", "Cancelled"})
# Of a block, or of what is closed: none of them can fail cleanly.
_NOT_TO_FAIL = frozenset({"__aenter__", "__aexit__", "enter_async_context", "aclose", "aclose_forcefully"})


def one_after_the_other(first: Trace, second: Trace) -> Trace:
    """Both trace functions; that of the frame is the second one's."""

    def both(frame: FrameType, event: str, argument: Any) -> Any:
        first(frame, event, argument)
        return second(frame, event, argument)

    return both


def location(frame: FrameType, line: int | None = None) -> str:
    """``"file:line in function"``."""
    return f"{frame.f_code.co_filename}:{line or frame.f_lineno} in {frame.f_code.co_qualname}"


@contextmanager
def traced(trace: Trace | None) -> Generator[None]:
    """Have ``trace`` called in this thread; ``None``: nothing is set, but what is set in the block is taken back."""
    before = sys.gettrace()
    try:
        if trace is not None:
            sys.settrace(trace)
        yield
    finally:
        if sys.gettrace() is not before:
            sys.settrace(before)


class _InFiles:
    """Follows the frames of certain files.

    Attributes:
        trace: The global trace function. It is called for each call of anything, so it is as short as it can be.
    """

    def __init__(self, files: frozenset[str]) -> None:
        def trace(frame: FrameType, event: str, argument: Any) -> Trace | None:
            return self._local(frame, event, argument) if frame.f_code.co_filename in files else None

        self.trace: Trace = trace

    def _local(self, frame: FrameType, event: str, argument: Any) -> Trace:
        self.local(frame, event, argument)
        return self._local

    def local(self, frame: FrameType, event: str, argument: Any) -> None:
        """One event in a frame of the files."""
        raise NotImplementedError  # pragma: no cover


# ---- swallowed cancellations -----------------------------------------------------------------------------------------


@attrs.define
class _Arrived:
    """A cancellation that has arrived in a frame; and the handler that has taken it, if one has."""

    error: BaseException
    handler: range | None = None


class SwallowWatch(_InFiles):
    """Finds the ``except`` that keeps a ``Cancelled``: it ends, has not raised, and nothing in the frame does later."""

    def __init__(self, files: frozenset[str]) -> None:
        super().__init__(files)
        self._files = files
        self._kept: list[tuple[BaseException, str]] = []
        self._arrived: dict[FrameType, _Arrived] = {}
        self._stacks = 0
        self._before: Any = None

    def begin(self, stacks: int) -> None:
        """A scope was cancelled, and in so many tasks code of the files waits: follow it until it has left them."""
        self._stacks, self._before = stacks, sys.gettrace()
        if stacks:
            sys.settrace(self.trace)

    def local(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "exception":
            self._arrived.pop(frame, None)
            error: BaseException = argument[1]
            if any(type(leaf) is trio.Cancelled for leaf in leaves(error)):
                self._arrived[frame] = _Arrived(error)
                self._kept = [one for one in self._kept if one[0] is not error]  # it was only put by
        elif event == "line" and (arrived := self._arrived.get(frame)) is not None:
            self._at_line(frame, arrived)
        elif event == "return" and (operation := _operation(frame)) != "YIELD_VALUE":
            arrived = self._arrived.pop(frame, None)
            if arrived is not None and arrived.handler is not None and operation.startswith("RETURN_"):
                self._keep(frame, arrived.error, arrived.handler)
            if frame.f_back is None or frame.f_back.f_code.co_filename not in self._files:
                self._stacks -= 1
                if self._stacks == 0:
                    sys.settrace(self._before)

    def _at_line(self, frame: FrameType, arrived: _Arrived) -> None:
        if frame.f_lineno in _lines_that_raise_again(frame.f_code.co_filename):
            del self._arrived[frame]  # of a bare ``raise`` Python tells no trace function
        elif arrived.handler is None:
            arrived.handler = _handlers(frame.f_code.co_filename).get(frame.f_lineno)
        elif frame.f_lineno not in arrived.handler:
            self._keep(frame, arrived.error, arrived.handler)
            del self._arrived[frame]

    def _keep(self, frame: FrameType, error: BaseException, handler: range) -> None:
        self._kept.append((error, location(frame, handler.start)))

    def found(self) -> list[str]:
        """Where. Lets go of all frames and exceptions, which keep alive what is in them."""
        places = list(dict.fromkeys(where for _, where in self._kept))
        self._kept.clear()
        self._arrived.clear()
        return places


def _operation(frame: FrameType) -> str:
    """The instruction that the frame is at; it tells a return from a wait, and from an exception that passes."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]]


@functools.cache
def _nodes(filename: str) -> tuple[ast.AST, ...]:
    try:
        return tuple(ast.walk(ast.parse("".join(linecache.getlines(filename)))))
    except SyntaxError:
        return ()


@functools.cache
def _lines_of_cleaning_up(filename: str) -> frozenset[int]:
    """Those of all handlers and ``finally`` blocks in a file."""
    found: set[int] = set()
    for node in _nodes(filename):
        blocks = node.finalbody if isinstance(node, ast.Try | ast.TryStar) else []
        for one in [*blocks, *([node] if isinstance(node, ast.ExceptHandler) else [])]:
            found.update(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    return frozenset(found)


@functools.cache
def _lines_that_raise_again(filename: str) -> frozenset[int]:
    return frozenset(node.lineno for node in _nodes(filename) if isinstance(node, ast.Raise) and node.exc is None)


@functools.cache
def _handlers(filename: str) -> dict[int, range]:
    """By its first line: the lines of each handler in a file that catches ``Cancelled``."""
    found: dict[int, range] = {}
    for node in _nodes(filename):
        if isinstance(node, ast.ExceptHandler) and _takes_cancelled(node.type):
            found[node.lineno] = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        elif isinstance(node, ast.With | ast.AsyncWith) and any(_suppresses(item.context_expr) for item in node.items):
            found[node.lineno] = range(node.lineno, node.lineno + 1)
    return found


def _takes_cancelled(kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(map(_takes_cancelled, kind.elts))
    return kind is None or _last_name(kind) in _CATCHES_ALL


def _suppresses(context: ast.expr) -> bool:
    return (
        isinstance(context, ast.Call)
        and _last_name(context.func) == "suppress"
        and any(_last_name(each) in _CATCHES_ALL for each in context.args)
    )


def _last_name(expression: ast.expr) -> str:
    return ast.unparse(expression).rpartition(".")[2]


# ---- what was opened where, and what took long -----------------------------------------------------------------------


class LineWatch(_InFiles):
    """Notes behind which line each thing was first held, and behind which the most time passed.

    Attributes:
        opened: The line, by the thing.
        computed: The line behind which the most time passed in one step;
        waited: and the one that waited longest since :attr:`disturbed`.

    Args:
        files: Those to follow.
        clock: Measures, in seconds.
    """

    def __init__(self, files: frozenset[str], clock: Callable[[], float]) -> None:
        super().__init__(files)
        self.opened: dict[Held, str] = {}
        self.computed: str | None = None
        self.waited: str | None = None
        self.disturbed: bool = False
        self._clock = clock
        self._known = held()
        self._last: tuple[str, float] | None = None
        self._longest = self._longest_wait = 0.0

    def local(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._last is not None:
            self._passed(*self._last, has_waited=event == "call")
        self._last = location(frame), self._clock()

    def _passed(self, where: str, since: float, *, has_waited: bool) -> None:
        took = self._clock() - since
        if has_waited and self.disturbed and took > self._longest_wait:
            self._longest_wait, self.waited = took, where
        elif not has_waited and took > self._longest:
            self._longest, self.computed = took, where
        for one in held() - self._known:
            self.opened[one] = where
            self._known.add(one)


# ---- interfering -----------------------------------------------------------------------------------------------------


class Injector:
    """Makes the k-th call that the code of some files awaits raise, before it does anything.

    Calls into this package are left alone, and so are those that clean up, in handlers, ``finally`` blocks and at the
    ends of blocks: no code survives that.

    Args:
        files: Those in which the calls are.
        number: k.
        wanted: Whether the running task is one of those to be disturbed.
        error: Makes what is raised, of a text that says where.
    """

    def __init__(
        self, files: frozenset[str], number: int, wanted: Callable[[], bool], error: Callable[[str], BaseException]
    ) -> None:
        self._files = files
        self._wanted = wanted
        self._left = number
        self._error = error

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """The global trace function: it sees each call, and each time that a coroutine goes on."""
        code, around = frame.f_code, frame.f_back
        if around is None or not code.co_flags & inspect.CO_COROUTINE:
            return
        if around.f_code.co_filename not in self._files or code.co_filename.startswith(_PACKAGE):
            return
        begins = code.co_code[frame.f_lasti + 1] & 3 == 0  # the argument of RESUME: 0 at the start, 3 after an await
        if begins and code.co_name not in _NOT_TO_FAIL and not self._cleans_up(around) and self._wanted():
            self._left -= 1
            if self._left == 0:
                raise self._error(f"{code.co_qualname}, awaited at {location(around)}")

    def _cleans_up(self, frame: FrameType | None) -> bool:
        """Whether the code of the files is, here or further out, on a line that cleans up."""
        while frame is not None:
            name = frame.f_code.co_filename
            if name in self._files and frame.f_lineno in _lines_of_cleaning_up(name):
                return True
            frame = frame.f_back
        return False


class Stopper:
    """Raises at the next line of the files. Set again at each step, that ends even what catches everything."""

    def __init__(self, files: frozenset[str], error: Callable[[], BaseException]) -> None:
        self._files = files
        self._error = error

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Trace | None:
        """The global trace function. Python unsets a trace function that raises."""
        return self._stop if frame.f_code.co_filename in self._files else None

    def _stop(self, frame: FrameType, event: str, argument: Any) -> Trace:
        if event == "line":
            raise self._error()
        return self._stop
