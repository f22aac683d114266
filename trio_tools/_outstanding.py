"""Calls that have not been answered yet: what an operator can see of them, and do."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import trio

from . import _dispatch
from ._call import Call
from ._views import ToolExecution

__all__ = ["OutstandingCall"]


class OutstandingCall:
    """A call that has not been answered yet. All of it is synchronous; it may be asked from any task."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    @property
    def execution(self) -> ToolExecution:
        """The read-only view of the call."""
        return self._call.execution

    @property
    def stage(self) -> str:
        """Where the call is: ``"before"``, ``"approval"``, ``"guards"``, ``"queued"`` (in a batch, for its key,
        its limit or a slot), ``"around"``, ``"thread"`` (for a worker thread, as the limiter is full), ``"body"``,
        ``"after"`` …
        """
        return self._call.stage

    @property
    def started_at(self) -> float:
        """When the call started, as ``trio.current_time()`` told (seconds)."""
        return self._call.started_at

    @property
    def cancelled_at(self) -> float | None:
        """When the call was cancelled, likewise; ``None`` if it was not. It may go on for as long as its body does."""
        return self._call.state.since()

    def cancel(self, reason: str | None = None) -> None:
        """Cancel just this call: its result has the cause ``"operator"``. The caller goes on.

        Args:
            reason: For the operator and the journal; not shown to the model.

        Raises:
            RuntimeError: If called in another thread than Trio's; nothing is cancelled then.
        """
        if not trio.lowlevel.in_trio_run():
            raise RuntimeError("a call is cancelled in Trio's thread; from another, go by trio.from_thread.run_sync")
        self._call.cancel("operator", reason)

    def frames(self) -> list[str]:
        """Where the call is stuck: ``"file:line in function"``, innermost last.

        First the stages and the body, from the outermost of them; then the body in its worker thread, or each task in
        the body's nursery.
        """
        call = self._call
        shown = list(_frames_of(call, call.task))
        dispatcher = call.dispatcher
        if dispatcher is not None and dispatcher.task is not None and dispatcher.task is not call.task:
            shown += _all_frames(dispatcher.task)  # a wrapper runs the body in a task of its own
        if dispatcher is not None and dispatcher.thread is not None:
            shown += _thread_frames(dispatcher.thread)
        if dispatcher is not None and dispatcher.run is not None:
            for task in dispatcher.run.owned_tasks():
                shown += _all_frames(task)
        return shown

    def __repr__(self) -> str:
        state = "" if self.cancelled_at is None else ", cancelled"
        return f"<OutstandingCall {self.execution.call_id!r} to {self.execution.name!r}, in {self.stage}{state}>"


def _frames_of(call: Call, task: trio.lowlevel.Task) -> Iterator[str]:
    inside = False
    for frame, line in task.iter_await_frames():
        if inside:
            yield f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_qualname}"
        inside = inside or frame.f_locals.get("self") is call


def _thread_frames(thread: int) -> list[str]:
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - documented, and the only way
    shown: list[str] = []
    while frame is not None and frame.f_code.co_filename != _dispatch.__file__:  # which has called the body
        shown.append(f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}")
        frame = frame.f_back
    return shown[::-1]


def _all_frames(task: trio.lowlevel.Task) -> Iterator[str]:
    for frame, line in task.iter_await_frames():
        yield f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_qualname}"
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _all_frames(child)
