"""Seeing a cancellation arrive: a look that takes no step of the scheduler, and a parked task that is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import trio

__all__ = ["Watcher", "listen", "look"]

# Deadlines that nobody sets: in the past, or the future, of every clock, and finite.
_BEFORE_ALL_TIME, _AFTER_ALL_TIME = -1e300, 1e300
# One in which the watcher parks, one in which Trio acts on a deadline that has passed, and one for good measure.
_STEPS_TO_LISTEN = 3


def look(scope: trio.CancelScope) -> float | None:
    """The deadline that is in force here (-inf: cancelled); ``None`` if a cancellation of ``scope`` would not arrive.

    An entered scope does not reach the running task here if it was left already, was entered by a task that is no
    ancestor, or is hidden by a shield. One that does lends us its deadline: it gets another one for the length of this
    look, which takes no step of the scheduler.
    """
    own = scope.deadline
    if own == math.inf:
        scope.deadline = _AFTER_ALL_TIME
        try:
            seen = trio.current_effective_deadline()
        finally:
            scope.deadline = own
        if seen == _AFTER_ALL_TIME:
            return math.inf  # it is the only one with a deadline
        if seen == math.inf:
            return None
    in_force = trio.current_effective_deadline()
    if in_force == -math.inf:
        return in_force  # cancelled, by whatever scope: there is nothing left that could fail to arrive
    scope.deadline = _BEFORE_ALL_TIME
    try:
        seen = trio.current_effective_deadline()
    finally:
        scope.deadline = own
    return in_force if seen == _BEFORE_ALL_TIME else None


class Watcher:
    """A task that stands where the caller's cancellation arrives, and notes it inside whatever cancels.

    Start :meth:`run` in a nursery of that context and call :meth:`end` before the nursery is left.

    Args:
        notify: Told of the cancellation; called at most once, synchronously, possibly from another task or from Trio's
            run loop. It must not raise.
        stays: Whether it stays until :meth:`end`, also when it has been told.
    """

    __slots__ = ("_notify", "_over", "_stays", "_task", "_told")

    def __init__(self, notify: Callable[[trio.Cancelled], None], *, stays: bool = False) -> None:
        self._notify = notify
        self._stays = stays
        self._task: trio.lowlevel.Task | None = None  # set while parked
        self._told = self._over = False

    @property
    def watching(self) -> bool:
        """Whether a cancellation would have been noted by now; not in the step that started the watcher."""
        return self._task is not None or self._told

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Stay until told of a cancellation, or :meth:`end`. A checkpoint; no cancellation comes out of it."""
        if self._over:
            return
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def _abort(self, raise_cancel: Callable[[], None]) -> trio.lowlevel.Abort:
        self._told = True
        try:
            raise_cancel()
        except BaseException as offered:  # Cancelled, only to look at it: by FAILED it stays where it is
            self._notify(cast(trio.Cancelled, offered))
        if not self._stays:
            self.end()
        return trio.lowlevel.Abort.FAILED

    def end(self) -> None:
        """Let the watcher go. Not by a cancellation: it must not take it for the caller's."""
        task, self._task, self._over = self._task, None, True
        if task is not None:
            trio.lowlevel.reschedule(task)


async def listen(notify: Callable[[trio.Cancelled], None], heard: Callable[[], bool]) -> None:
    """Have the cancellation that is in force here told to ``notify``. Takes a few steps; no cancellation ends it."""
    watcher = Watcher(notify)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watcher.run)
        for _ in range(_STEPS_TO_LISTEN):  # pragma: no branch - it is heard by then
            await trio.lowlevel.cancel_shielded_checkpoint()
            if heard():
                break
        watcher.end()
