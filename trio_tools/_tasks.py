"""Which task runs inside which nursery, in public terms."""

from __future__ import annotations

import trio

__all__ = ["runs_within"]


def runs_within(nursery: trio.Nursery) -> bool:
    """Whether the running task opened ``nursery``, which is still open, or runs in it or in one opened inside of it."""
    task, owner = trio.lowlevel.current_task(), nursery.parent_task
    opened = owner.child_nurseries  # outermost first
    if nursery not in opened:
        return False
    while task is not owner:
        around = task.parent_nursery
        if around is None:
            return False
        task = around.parent_task
        if task is owner:
            return opened.index(around) >= opened.index(nursery)
    return True
