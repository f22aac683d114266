"""Which task runs inside which nursery, in public terms."""

from __future__ import annotations

import trio

__all__ = ["is_inside", "runs_within"]


def runs_within(nursery: trio.Nursery) -> bool:
    """Whether the running task opened ``nursery``, which is still open, or runs in it or in one opened inside of it."""
    opened = nursery.parent_task.child_nurseries  # outermost first
    if nursery not in opened:
        return False
    return is_inside(trio.lowlevel.current_task(), nursery.parent_task, opened.index(nursery))


def is_inside(task: trio.lowlevel.Task, owner: trio.lowlevel.Task, depth: int) -> bool:
    """Whether ``task`` is ``owner``, or runs in a nursery that it opened inside of ``depth`` others."""
    while task is not owner:
        around = task.parent_nursery
        if around is None:
            return False
        task = around.parent_task
        if task is owner:
            return around in owner.child_nurseries[depth:]
    return True
