"""Finding out whether a cancellation was swallowed, and where.

Two questions are asked. Did a handler keep a ``Cancelled`` that arrived in it, so that it never went on? And did
anything that this package calls, a body or a stage, end otherwise than by the cancellation that was delivered in it?
The first one knows the line; the second one needs no source, and finds what a library, a block or a ``finally`` kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from itertools import dropwhile
from types import CodeType, FrameType
from typing import Any

import attrs
import trio

from trio_tools._errors import leaves
from trio_tools._pipeline import lifted
from trio_tools.testing._source import (
    calls_the_author,
    is_library,
    is_of_package,
    location,
    operation,
    source_of,
    waits,
)
from trio_tools.testing._tracing import Trace

__all__ = ["Swallowed", "SwallowWatch"]

# Code is looked up by its file first: its hash is made anew each time.
_DELIVERS = trio.lowlevel.wait_task_rescheduled.__code__
_FOLLOWED = frozenset({lifted.__code__.co_filename, _DELIVERS.co_filename})
_RUN_LOOP = trio.run.__code__.co_filename


@attrs.frozen
class Swallowed:
    """A ``Cancelled`` that did not go on.

    Attributes:
        text: What became of it.
        where: ``"file:line in function"``.
    """

    text: str
    where: str | None


@attrs.define
class _Arrived:
    """A cancellation that has arrived in a frame."""

    error: BaseException
    came: int  # in this line
    line: int  # and may end in this one
    handler: range | None = None  # that has taken it
    replaced: bool = False  # by another exception, which may have been handled since


@attrs.define
class _Delivered:
    """A cancellation that was delivered in something that this package, or Trio as a task, has called."""

    error: BaseException
    where: str | None
    left: BaseException | None = None  # what came out of it last
    kept: str | None = None  # where it seems to have ended


class SwallowWatch:
    """Follows an author's code from the disturbance on.

    Args:
        files: Whose code is the author's, whatever :func:`is_library` says.
        reason: The reason that our cancellation carries; ``None`` if it carries none, as one by a deadline does. Then
            of the second question only this is asked: was another exception raised in the place of ``Cancelled``? The
            code may have deadlines of its own.
        awaiting: What awaits the scenario.
    """

    def __init__(self, files: frozenset[str], reason: str | None, awaiting: CodeType) -> None:
        self._files = files
        self._reason = reason
        self._awaiting = awaiting
        self._scenario: FrameType | None = None  # its outermost frame, if it is an author's and is followed
        self._is_ours: Callable[[trio.lowlevel.Task], bool] = lambda _: False
        self._found: list[tuple[BaseException | None, Swallowed]] = []
        self._arrived: dict[FrameType, _Arrived] = {}
        self._delivered: dict[FrameType, _Delivered] = {}
        self._called: set[FrameType] = set()  # the calls of bodies and stages, and the tasks, that have not ended
        self._before: Any = None

    def begin(self, tasks: Iterable[trio.lowlevel.Task], is_ours: Callable[[trio.lowlevel.Task], bool]) -> None:
        """A scope was cancelled: follow what was called in these tasks until it has ended. Tracing is slow.

        The scenario is followed if it waits for something else than one of its calls. When all has ended that was
        followed, and the scenario has not, it may wait now: begin again.

        Args:
            tasks: First the one that runs the scenario, which is not over when that is.
            is_ours: Whether a task is one of these, or was started by one.
        """
        self._is_ours = is_ours
        home, *others = tasks
        _, *scenario = dropwhile(lambda frame: frame.f_code is not self._awaiting, _frames(home))
        self._called = {frame for frame in scenario if calls_the_author(frame)}
        if not any(is_of_package(frame.f_code.co_filename) for frame in scenario):
            self._scenario = next((frame for frame in scenario if self._is_authors(frame.f_code)), None)
            if self._scenario is not None:
                self._called.add(self._scenario)
        self._called |= {frame for task in others for frame in _frames(task) if self._is_called(frame)}
        self._before = sys.gettrace()
        if self._called:
            sys.settrace(self._make_trace())

    @property
    def is_idle(self) -> bool:
        """Whether all has ended that was followed."""
        return not self._called

    def found(self) -> list[Swallowed]:
        """What was swallowed. Lets go of all frames and exceptions, which keep alive what is in them."""
        found = list(dict.fromkeys(one for _, one in self._found))
        self._found.clear()
        self._arrived.clear()
        self._delivered.clear()
        self._called.clear()
        self._scenario = None
        return found

    def _make_trace(self) -> Trace:
        """The global trace function. It is called for each call of anything, so it is as short as it can be."""
        followed: dict[str, Trace | None] = {}  # by file; of those of _FOLLOWED, by function
        calling = self._calling

        def trace(frame: FrameType, event: str, argument: Any) -> Trace | None:
            code = frame.f_code
            name = code.co_filename
            if name in followed:
                return followed[name]
            if name not in _FOLLOWED:
                followed[name] = self._local if self._is_authors(code) else None
                return followed[name]
            if calls_the_author(frame):
                self._called.add(frame)
                return calling
            return self._waiting if code is _DELIVERS else None

        return trace

    def _is_authors(self, code: CodeType) -> bool:
        return code.co_filename in self._files or not is_library(code.co_filename)

    def _is_meant(self, error: BaseException) -> bool:
        return any(type(leaf) is trio.Cancelled and self._is_ours_by_name(leaf) for leaf in leaves(error))

    def _is_ours_by_name(self, cancelled: trio.Cancelled) -> bool:
        return cancelled.source == "deadline" if self._reason is None else cancelled.reason == self._reason

    # ---- did what was called end by the cancellation? ----

    def _waiting(self, frame: FrameType, event: str, argument: Any) -> Trace:
        """In Trio's function in which everything waits."""
        if event == "exception" and self._is_meant(argument[1]) and self._is_ours(trio.lowlevel.current_task()):
            self._note_delivery(frame.f_back, argument[1])
        return self._waiting

    def _note_delivery(self, frame: FrameType | None, error: BaseException) -> None:
        where: str | None = None
        while frame is not None and frame is not self._scenario:  # what arrives there may become a result
            around = frame.f_back
            if where is None and self._is_authors(frame.f_code):
                where = location(frame)
            if self._is_called(frame):
                self._delivered.setdefault(frame, _Delivered(error, where))
                return
            frame = around

    def _is_called(self, frame: FrameType) -> bool:
        """Whether it is the frame behind which we have called the author's code; or Trio has, as a task."""
        return calls_the_author(frame) or (_is_root(frame) and self._is_authors(frame.f_code))

    def _calling(self, frame: FrameType, event: str, argument: Any) -> Trace:
        """In the function of this package that calls a body, or a stage."""
        self._at_boundary(frame, event, argument)
        return self._calling

    def _at_boundary(self, frame: FrameType, event: str, argument: Any) -> None:
        delivered = self._delivered.get(frame)
        if event == "exception" and delivered is not None:
            delivered.left = argument[1]
        elif event == "return" and not waits(frame):
            if delivered is not None:
                self._judge(self._delivered.pop(frame), operation(frame))
            self._called.discard(frame)
            if not self._called:
                sys.settrace(self._before)

    def _judge(self, delivered: _Delivered, ended: str) -> None:
        if not self._found:  # else the handler is known
            if ended.startswith("RETURN_"):
                where = delivered.kept or delivered.where
                if self._reason is not None:  # else it may have been a deadline of the code's own
                    self._did_not_come_out(delivered.error, where)
            elif delivered.left is not None:
                self._replaced(delivered.left)

    def _replaced(self, error: BaseException) -> None:
        """Look for an exception that the author raised in the place of ``Cancelled``."""
        for leaf in leaves(error):
            where = self._raised_on_purpose(leaf)
            by_name = leaf.__cause__ is not None and self._is_meant(leaf.__cause__)
            if type(leaf) is not trio.Cancelled and (where[1] or by_name):
                self._keep(None, f"Cancelled was caught, and {type(leaf).__name__} raised in its place", where[0])

    def _raised_on_purpose(self, error: BaseException) -> tuple[str | None, bool]:
        """A line in a handler that takes ``Cancelled``, or the author's innermost; and whether that raises by name."""
        traceback, where, handling, raises = error.__traceback__, None, None, False
        while traceback is not None:
            frame, line = traceback.tb_frame, traceback.tb_lineno
            if self._is_authors(frame.f_code):
                source = source_of(frame.f_code.co_filename)
                where, raises = location(frame, line), line in source.raising
                handling = where if source.handles_at(frame, line) else handling
            traceback = traceback.tb_next
        return handling or where, raises and handling is not None

    # ---- did a handler keep it? ----

    def _local(self, frame: FrameType, event: str, argument: Any) -> Trace:
        """In the author's code."""
        if event == "exception":
            self._at_exception(frame, argument[1])
        elif event == "line" and (arrived := self._arrived.get(frame)) is not None:
            self._at_line(frame, arrived)
        elif event == "return" and not waits(frame):
            arrived = self._arrived.pop(frame, None)
            if arrived is not None and operation(frame).startswith("RETURN_"):
                self._at_return(frame, arrived)
        if frame in self._called:
            self._at_boundary(frame, event, argument)
        return self._local

    def _at_exception(self, frame: FrameType, error: BaseException) -> None:
        if self._is_meant(error):
            if self._is_ours(trio.lowlevel.current_task()):
                self._arrived[frame] = _Arrived(error, frame.f_lineno, frame.f_lineno)
                self._note_delivery(frame, error)
                self._found = [one for one in self._found if not _have_common(one[0], error)]  # it was only put by
        elif (arrived := self._arrived.get(frame)) is not None:
            arrived.replaced = True

    def _at_line(self, frame: FrameType, arrived: _Arrived) -> None:
        source, line = source_of(frame.f_code.co_filename), frame.f_lineno
        taken_by_block = line in source.blocks and operation(frame) == "PUSH_EXC_INFO"
        is_handled = _is_handled(arrived.error)
        if arrived.handler is not None and line not in arrived.handler:
            if not is_handled and not taken_by_block:
                self._keep_in_handler(frame, arrived.error, arrived.handler)
                del self._arrived[frame]
                return
            arrived.handler = None  # by a bare ``raise``, of which no trace function is told
        if arrived.handler is None:
            if taken_by_block:
                arrived.handler = source.suppressor_at(frame)
            elif is_handled:
                arrived.handler = source.handler_at(frame, arrived.came)
            if line in source.ending or taken_by_block:
                arrived.line = line  # here it may end

    def _at_return(self, frame: FrameType, arrived: _Arrived) -> None:
        if arrived.handler is not None:
            self._keep_in_handler(frame, arrived.error, arrived.handler)
            return
        line = frame.f_lineno if frame.f_lineno in source_of(frame.f_code.co_filename).ending else arrived.line
        around: FrameType | None = frame
        while around is not None:
            if (delivered := self._delivered.get(around)) is not None:
                delivered.kept = location(frame, line)
                return
            if around is self._scenario and self._reason is not None:
                self._did_not_come_out(arrived.error, location(frame, line))
            around = around.f_back

    def _keep_in_handler(self, frame: FrameType, error: BaseException, handler: range) -> None:
        is_own = self._reason is None and handler.start in source_of(frame.f_code.co_filename).shielded
        if not is_own:  # a deadline of ours does not come through a shield
            self._keep(error, "Cancelled was caught here and not raised again", location(frame, handler.start))

    def _did_not_come_out(self, error: BaseException, where: str | None) -> None:
        here = "" if where is None else " here"
        self._keep(error, f"Cancelled was delivered{here}, and did not come out", where)

    def _keep(self, error: BaseException | None, text: str, where: str | None) -> None:
        self._found.append((error, Swallowed(text, where)))


def _frames(task: trio.lowlevel.Task) -> Iterable[FrameType]:
    return (frame for frame, _ in task.iter_await_frames())


def _is_root(frame: FrameType) -> bool:
    """Whether it is the outermost frame of a task."""
    around = frame.f_back
    return around is None or around.f_code.co_filename == _RUN_LOOP


def _is_handled(error: BaseException) -> bool:
    """Whether it, or a part of it, is what is being handled now."""
    return _have_common(sys.exc_info()[1], error)


def _have_common(one: BaseException | None, other: BaseException) -> bool:
    """Whether two exceptions, or groups, are the same in part."""
    return one is not None and not {*map(id, leaves(one))}.isdisjoint(map(id, leaves(other)))
