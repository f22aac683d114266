"""Telling operators of calls that were cancelled and still run."""

from __future__ import annotations

import logging
import math

import trio

from ._outstanding import OutstandingCall
from ._registry import ToolRegistry

__all__ = ["report_stalled_calls"]

_log = logging.getLogger("trio_tools")


async def report_stalled_calls(
    registry: ToolRegistry, after: float = 5.0, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Warn of calls that were cancelled and still run, in the log ``trio_tools``, with where they are stuck.

    Start it in a nursery of the program's; it runs until it is cancelled, and changes nothing. A call that ignores its
    cancellation is waited for, so somebody should hear of it: ``after`` seconds after the cancellation, and again when
    twice as long has passed, four times, and so on.

    A checkpoint, again and again.

    Args:
        registry: Whose calls, and those of its children.
        after: Seconds on Trio's clock, > 0, between the cancellation of a call and the first warning.
        task_status: For ``nursery.start``.

    Raises:
        ValueError: If ``after`` is no positive number.
        TypeError: If ``registry`` is none.
    """
    if not isinstance(registry, ToolRegistry):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise TypeError(f"registry takes a ToolRegistry, not {registry!r}")
    if isinstance(after, bool) or not isinstance(after, int | float) or not 0 < after < math.inf:  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise ValueError(f"after must be a positive number of seconds, not {after!r}")
    patience: dict[object, float] = {}  # by the token of a call: how long it may go on before the next warning
    task_status.started()
    while True:
        now = trio.current_time()
        calls = [(call, at) for call in registry.outstanding() if (at := call.cancelled_at) is not None]
        patience = {call.execution.token: patience.get(call.execution.token, after) for call, _ in calls}
        due = now + after  # what is cancelled meanwhile is not due before
        for call, cancelled_at in calls:
            token, since = call.execution.token, max(cancelled_at, call.started_at)
            if now - since >= patience[token]:
                _warn(call, now - since)
                while patience[token] <= now - since:
                    patience[token] *= 2
            due = min(due, since + patience[token])
        await trio.sleep_until(due)


def _warn(call: OutstandingCall, since: float) -> None:
    stuck = "\n".join(f"  {frame}" for frame in call.frames()) or "  (no frames)"
    _log.warning(
        "call %r to %s was cancelled %.4g seconds ago and still runs, in stage %s:\n%s",
        call.execution.call_id,
        call.execution.name,
        since,
        call.stage,
        stuck,
    )
