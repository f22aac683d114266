"""Which task runs inside which nursery, in public terms."""

from __future__ import annotations

import trio

__all__ = ["runs_inside", "runs_within"]


def runs_within(nursery: trio.Nursery) -> bool:
    """Whether the running task opened ``nursery``, which is still open, or runs in it or in one opened inside of it."""
    opened = nursery.parent_task.child_nurseries  # outermost first
    return nursery in opened and runs_inside(nursery.parent_task, opened.index(nursery))


def runs_inside(owner: trio.lowlevel.Task, depth: int) -> bool:
    """Whether the running task is ``owner``, or runs in a nursery that it opened inside of ``depth`` others."""
    task = trio.lowlevel.current_task()
    while task is not owner:
        around = task.parent_nursery
        if around is None:
            return False
        task = around.parent_task
        if task is owner:
            return owner.child_nurseries.index(around) >= depth
    return True
