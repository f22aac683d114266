"""Following the lines of an author's code: where something was opened, how long it took; and making calls fail.

Everything here is a trace function of :func:`sys.settrace`. It follows only frames of the files that it is given, in
the thread that set it. While it is set, debuggers and coverage tools see nothing; it is put back as it was found.
"""

from __future__ import annotations

import inspect
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple, TypeAlias

from trio_tools.testing._report import Breach
from trio_tools.testing._resources import Held, Marked, family, held
from trio_tools.testing._source import is_of_package, location, source_of, waits

__all__ = ["Injector", "LineWatch", "Stopper", "Trace", "one_after_the_other", "traced"]

Trace: TypeAlias = Callable[[FrameType, str, Any], Any]

_LOOKS = 3_000  # at what is held, in one run, each of which takes a tenth of a millisecond or two
_MAKES_DIRECTORIES = tempfile.mkdtemp.__code__
_NAMED = 0.001  # seconds for a thread to take the name of what it does
_NOT_TO_FAIL = frozenset(
    {
        *("__aenter__", "__aexit__", "enter_async_context", "aclose", "aclose_forcefully"),  # cannot fail cleanly
        *("<listcomp>", "<setcomp>", "<dictcomp>"),  # are no calls, though Python 3.11 awaits them as such
    }
)


def one_after_the_other(first: Trace, second: Trace) -> Trace:
    """Both trace functions; that of the frame is the second one's."""

    def both(frame: FrameType, event: str, argument: Any) -> Any:
        try:
            first(frame, event, argument)
        except BaseException:
            _set_again(both)  # Python unsets a trace function that raises
            raise
        return second(frame, event, argument)

    return both


def _set_again(trace: Trace) -> None:
    """Have a trace function set at the next call of anything, or return from it."""
    before = sys.getprofile()

    def resume(frame: FrameType, event: str, argument: Any) -> None:
        sys.setprofile(before)
        sys.settrace(trace)

    sys.setprofile(resume)


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


class _Line(NamedTuple):
    """A line of the author's code."""

    where: str
    calls_something: bool  # so that it may open, or begin, something


class LineWatch:
    """Notes behind which line each thing was first held, and behind which the most time passed.

    Attributes:
        trace: The global trace function. It is called for each call of anything, so it is as short as it can be.
        waited: The line that waited longest since :attr:`disturbed`.

    Args:
        files: Those to follow.
        clock: Measures, in seconds.
        marks: As for :func:`held`; ``None``: what is held is not looked at.
        patient: Whether to let a thread take its name, by which it is known, before the next line is looked at.
    """

    def __init__(
        self,
        files: frozenset[str],
        clock: Callable[[], float],
        marks: Marked | None = None,
        *,
        patient: bool = False,
    ) -> None:
        def trace(frame: FrameType, event: str, argument: Any) -> Trace | None:
            if frame.f_code.co_filename in files:
                return self._local(frame, event, argument)
            return self._making if frame.f_code is _MAKES_DIRECTORIES else None

        self.trace: Trace = trace
        self._computed: str | None = None
        self.waited: str | None = None
        self.disturbed: bool = False
        self._clock = clock
        self._marks = marks
        self._patient = patient
        self._known = held(marks=marks)
        self._lines: dict[tuple[str, str, int], _Line] = {}
        self._opened: dict[Held, str] = {}
        self._told: set[Held] = set()
        self._looks = 0 if marks is None else _LOOKS
        self._took: defaultdict[str, float] = defaultdict(float)  # in this step, behind each line
        self._made: dict[str, str] = {}  # directories
        self._last: _Line | None = None
        self._since = 0.0
        self._is_waiting = False
        self._longest = self._longest_wait = 0.0

    def opened_at(self, breach: Breach) -> str | None:
        """The line behind which that was first held of which a breach of this run speaks."""
        meant = [one for one in reversed(self._opened) if one.is_meant(breach.text)]
        if meant:
            one = min(meant, key=self._told.__contains__)  # of two that look alike, each is told
            self._told.add(one)
            return self._opened[one]
        return next((where for path, where in self._made.items() if path in breach.text), None)

    def only_line(self, breach: Breach) -> str | None:
        """The line behind which all things of the kind were held of which a breach of another run speaks."""
        lines = {where for one, where in self._opened.items() if breach.rule.startswith(one.kind)}
        return lines.pop() if len(lines) == 1 else None

    def _making(self, frame: FrameType, event: str, argument: Any) -> Trace:
        if event == "return" and isinstance(argument, str) and self._last is not None:
            self._made[argument] = self._last.where
        return self._making

    def _local(self, frame: FrameType, event: str, argument: Any) -> Trace:
        if event == "line" and (last := self._last) is not None and (not last.calls_something or self._looks <= 0):
            self._took[last.where] += self._clock() - self._since  # what computes has many of these: be short
            self._is_waiting = False
            self._come_to(frame)
        else:
            self._turn(frame, event)
        return self._local

    def _turn(self, frame: FrameType, event: str) -> None:
        if event == "return" and self._patient:
            time.sleep(_NAMED)
        if self._last is not None:
            self._passed(self._last, has_waited=event == "call" and self._is_waiting)
        is_waiting = event == "return" and waits(frame)
        if not (is_waiting and self._is_waiting):  # the innermost one waits, and the others for it
            self._come_to(frame)
        self._is_waiting = is_waiting

    def _come_to(self, frame: FrameType) -> None:
        code = frame.f_code
        key = code.co_filename, code.co_qualname, frame.f_lineno
        line = self._lines.get(key)
        if line is None:
            calls_something = frame.f_lineno in source_of(code.co_filename).calling
            line = self._lines[key] = _Line(location(frame), calls_something)
        self._last = line
        self._since = self._clock()

    def _passed(self, line: _Line, *, has_waited: bool) -> None:
        took = self._clock() - self._since
        if has_waited:
            self._end_step()
            if self.disturbed and took > self._longest_wait:
                self._longest_wait, self.waited = took, line.where
        else:
            self._took[line.where] += took
        if self._looks > 0 and (has_waited or line.calls_something):
            self._look(line.where)

    @property
    def computed(self) -> str | None:
        """The line behind which the most time passed in one step."""
        self._end_step()
        return self._computed

    def _end_step(self) -> None:
        if self._took:
            where = max(self._took, key=self._took.__getitem__)
            if self._took[where] > self._longest:
                self._longest, self._computed = self._took[where], where
            self._took.clear()

    def _look(self, where: str) -> None:
        self._looks -= 1
        before, self._known = self._known, held(self._known, self._marks)
        for one in sorted(self._known.since(before), key=lambda one: one.text):
            self._opened.pop(one, None)  # it was closed, and is there again
            self._opened[one] = self._line_of_family(one) or where

    def _line_of_family(self, one: Held) -> str | None:
        """Of a process that was started by one which is known: the line of that one."""
        relatives = family(one.key) if isinstance(one.key, int) else ()
        return next((where for other, where in self._opened.items() if other.key in relatives), None)


class Injector:
    """Makes the k-th call that a body or a stage awaits, in some files, raise, before it does anything.

    Calls into this package are left alone, and so are those that clean up, in handlers, ``finally`` blocks and at the
    ends of blocks: no code survives that.

    Attributes:
        seen: How many such calls there were.

    Args:
        files: Those in which the calls are.
        number: k.
        wanted: Whether a frame, of the running task, is to be disturbed.
        error: Makes what is raised, of a text that says where.
    """

    def __init__(
        self,
        files: frozenset[str],
        number: int,
        wanted: Callable[[FrameType], bool],
        error: Callable[[str], BaseException],
    ) -> None:
        self.seen = 0
        self._files = files
        self._wanted = wanted
        self._number = number
        self._error = error

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """The global trace function: it sees each call, and each time that a coroutine goes on."""
        code, around = frame.f_code, frame.f_back
        if around is None or not code.co_flags & inspect.CO_COROUTINE:
            return
        if around.f_code.co_filename not in self._files or is_of_package(code.co_filename):
            return
        begins = code.co_code[frame.f_lasti + 1] & 3 == 0  # the argument of RESUME: 0 at the start, 3 after an await
        if begins and code.co_name not in _NOT_TO_FAIL and not self._cleans_up(around) and self._wanted(around):
            self.seen += 1
            if self.seen == self._number:
                raise self._error(f"{code.co_qualname}, awaited at {location(around)}")

    def _cleans_up(self, frame: FrameType | None) -> bool:
        """Whether the code of the files is, here or further out, on a line that cleans up."""
        while frame is not None:
            name = frame.f_code.co_filename
            if name in self._files and frame.f_lineno in source_of(name).cleaning_up:
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
