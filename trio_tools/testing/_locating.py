"""The lines of what was broken: the run is made once more for them, and followed line by line."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable

import attrs

from trio_tools.testing._report import Breach, CancelPoint, Rule
from trio_tools.testing._run import Runs
from trio_tools.testing._scenario import Scenario
from trio_tools.testing._tracing import LineWatch

__all__ = ["located"]

_LEFT: frozenset[Rule] = frozenset({"task-left", "thread-left", "file-left", "socket-left", "process-left"})
_SLOW: frozenset[Rule] = frozenset({"no-checkpoint", "too-long"})


async def located(scenario: Scenario, runs: Runs, point: CancelPoint) -> CancelPoint:
    """The point, with the line of each thing that needs a further run to find it. A checkpoint."""
    if any(one.rule in _SLOW for one in point.breaches):
        point = await _timed_again(runs, point)
    unknown: set[Rule] = {one.rule for one in point.breaches if one.where is None and one.rule in _LEFT | _SLOW}
    if not unknown:
        return point
    kept = [one for one in point.breaches if one.rule not in unknown]
    # What was left to the collector may have been so by the run before; and of several tasks Trio picks the order.
    before = max(point.at - 1, 0) if unknown & _LEFT else point.at
    for at in (point.at, before, point.at):  # pragma: no branch - a trace function cannot be measured
        _collect()
        marks = runs.marks if unknown & _LEFT else None
        watch = LineWatch(scenario.files, scenario.clock, marks, patient="thread-left" in unknown)
        again = (await runs.once(at, watch)).point
        slow = [_with_line(one, watch, watch.opened_at) for one in point.breaches if one.rule in unknown & _SLOW]
        left = [_with_line(one, watch, watch.opened_at) for one in again.breaches if one.rule in unknown & _LEFT]
        is_slow = any(one.rule in _SLOW for one in again.breaches)
        if unknown & _LEFT == {one.rule for one in left} and is_slow >= bool(slow):  # pragma: no branch - likewise
            return attrs.evolve(point, breaches=(*kept, *slow, *left))
    return _seen(point, watch)  # pragma: no cover - likewise


def _seen(point: CancelPoint, watch: LineWatch) -> CancelPoint:
    """The point, if its run could not be made again, with lines of another run."""
    breaches = (one if one.rule in _SLOW else _with_line(one, watch, watch.only_line) for one in point.breaches)
    return attrs.evolve(point, breaches=tuple(breaches))


async def _timed_again(runs: Runs, point: CancelPoint) -> CancelPoint:
    """The point, with the times of a run that nothing slows down. A checkpoint."""
    again = (await runs.once(point.at, traceless=True)).point
    other = [one for one in point.breaches if one.rule not in _SLOW]
    slow = [one for one in again.breaches if one.rule in _SLOW]
    return attrs.evolve(point, breaches=(*other, *slow))


def _with_line(breach: Breach, watch: LineWatch, opened: Callable[[Breach], str | None]) -> Breach:
    if breach.where is not None:
        return breach
    places = {"no-checkpoint": watch.computed, "too-long": watch.waited or watch.computed}
    return attrs.evolve(breach, where=places.get(breach.rule) or opened(breach))


def _collect() -> None:
    """Have the collector take what earlier runs have left to it; that has been told of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
