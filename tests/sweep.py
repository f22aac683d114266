"""Cancelling a call after every step that the scheduler takes for it: the instrument, one run, what holds of each run.

A *step* is what a task does between two of its schedule points. A call can be cancelled only between two steps, by
other tasks or by Trio itself, or inside one, by its own stages; so cancelling after the k-th step, for each k, visits
every point at which somebody else can cancel it. Steps are counted in the caller's task and in all tasks below it.

The pipelines are built by the functions in ``sweep_gates``, ``sweep_wrappers`` and ``sweep_bodies``.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Literal, TypeAlias

import attrs
import trio
import trio.testing
from sweep_parts import Builder, Shape, World

from trio_tools import (
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    ToolCall,
    ToolFailure,
    ToolResult,
)

__all__ = ["HOWS", "REASON", "CancelAfterStep", "How", "Run", "ending", "run_once", "sweep"]

How: TypeAlias = Literal["entered", "unentered", "around", "deadline", "operator"]
HOWS: tuple[How, ...] = ("entered", "unentered", "around", "deadline", "operator")
"""Who cancels: the caller's entered scope; one that the call enters; a scope outside the caller's; the deadline of the
caller's scope, which has passed but is not delivered yet; an operator, through ``outstanding()``."""

REASON = "swept"
SCHEDULES = 3  # how often each step is cancelled; the tasks that run in one pass do so in an order of its own each time
ATTEMPTS = 60  # at that: the order may cost a run a step


class CancelAfterStep(trio.abc.Instrument):
    """Calls ``cancel`` when the ``step``-th step of ``root`` and the tasks below it is over.

    With a step of 0 it only counts. Independent of what other tasks, such as those of the test, do meanwhile.
    """

    def __init__(self, step: int, cancel: Callable[[], object], root: trio.lowlevel.Task) -> None:
        self.steps = 0
        self.fired_at: float | None = None
        self._step = step
        self._cancel = cancel
        self._root = root

    @property
    def fired(self) -> bool:
        """Whether it has cancelled."""
        return self.fired_at is not None

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Part of Trio's interface."""
        if not self._concerns(task):
            return
        self.steps += 1
        if self.steps == self._step:
            self.fired_at = trio.current_time()
            self._cancel()

    def _concerns(self, task: trio.lowlevel.Task) -> bool:
        while task is not self._root:
            if task.parent_nursery is None:
                return False
            task = task.parent_nursery.parent_task
        return True


@attrs.frozen
class Run:
    """What one run has shown."""

    steps: int
    fired: bool
    ending: str
    reason: str | None
    cut: frozenset[str]


def ending(result: ToolResult) -> str:
    """How a call ended, in a word: ``"success"``, the code of its failure, or the name of its error."""
    return (result.error.code or str(result.error.name)) if isinstance(result, ToolFailure) else "success"


class _Caller:
    """Makes one call and cancels it after the given step."""

    def __init__(self, world: World, shape: Shape, how: How, step: int) -> None:
        self._world = world
        self._shape = shape
        self._how = how
        self._scope, self._outer = trio.CancelScope(), trio.CancelScope()
        self._root = trio.lowlevel.current_task()
        self.instrument = CancelAfterStep(step, self._cancel, self._root)
        self.result: ToolResult | None = None
        self.published_at_return = self.left_over = self.outstanding = -1
        self.ended_at = -1.0
        self.was_cancelled = False  # at the next checkpoint after the call

    def _cancel(self) -> None:
        self._world.threads_when_cancelled = trio.testing.active_thread_count()
        if self._how == "operator":
            self._shape.registry.outstanding()[0].cancel(REASON)
        elif self._how == "deadline":
            self._scope.deadline = trio.current_time()
        else:
            (self._outer if self._how == "around" else self._scope).cancel(REASON)

    async def call(self) -> None:
        world, registry = self._world, self._shape.registry
        world.is_cancelled = lambda: self.instrument.fired
        with self._outer, contextlib.nullcontext() if self._how == "unentered" else self._scope:
            tasks = trio.lowlevel.current_statistics().tasks_living
            trio.lowlevel.add_instrument(self.instrument)
            try:
                self.result = await registry.execute(ToolCall(id="c1", name="work"), scope=self._scope)
            finally:
                trio.lowlevel.remove_instrument(self.instrument)
            self.published_at_return = len([1 for call_id, _ in world.published if call_id == "c1"])
            self.left_over = trio.lowlevel.current_statistics().tasks_living - tasks
            self.outstanding = len(registry.outstanding())
            self.ended_at = trio.current_time()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled:
                self.was_cancelled = True
                raise


async def _run(build: Builder, how: How, step: int) -> Run:
    async with trio.open_nursery() as foreign:
        world = World(foreign)
        shape = build(world)
        shape.registry.observe(lambda execution, result: world.published.append((execution.call_id, result)))
        caller = _Caller(world, shape, how, step)
        await caller.call()
        seen = _judge(world, shape, how, caller)
        await _call_again(world, shape)
        foreign.cancel_scope.cancel()
    return seen


def _judge(world: World, shape: Shape, how: How, caller: _Caller) -> Run:
    """What holds whatever the stages do, and whenever the call is cancelled."""
    result, fired, at = caller.result, caller.instrument.fired, caller.instrument.fired_at
    assert result is not None
    # P1: one result, published once, before execute returned
    ids = [call_id for call_id, _ in world.published]
    assert caller.published_at_return == 1
    assert len(ids) == len(set(ids))
    assert dict(world.published)["c1"] is result
    # P2: it tells whether the body ran, and no body is entered any more once the call is cancelled
    assert (result.body == "not-started") == (world.entered == 0)
    assert world.late == [] or (how == "deadline" and shape.hides)
    end = ending(result)
    if fired:
        assert end in shape.cut, f"{end} is not among {sorted(shape.cut)}"
    else:
        assert end == shape.plain
    if isinstance(result, ToolFailure) and end in (TOOL_ABORTED, TOOL_ABORTED_BEFORE_DISPATCH):
        assert (end == TOOL_ABORTED) == (world.entered > 0)
        assert (result.superseded is not None) == (result.body == "finished")  # P6: no success is lost silently
        _judge_cause(result, shape, how, fired)
    assert world.judged == world.judges  # and what is to be seen of it was decided
    # P3: nothing outlives the call
    assert world.entered == world.left
    assert world.running == 0
    assert caller.left_over == 0
    assert caller.outstanding == 0
    # P4: the cancellation arrives, and at once
    assert at is None or caller.ended_at - at <= shape.drain
    # P5: the caller is cancelled just as it was before
    assert caller.was_cancelled == (fired and how in ("entered", "around", "deadline"))
    cause = result.cause if isinstance(result, ToolFailure) else None
    return Run(caller.instrument.steps, fired, end, None if cause is None else cause.reason, shape.cut)


def _judge_cause(result: ToolFailure, shape: Shape, how: How, fired: bool) -> None:
    assert result.cause is not None
    source = "operator" if how == "operator" else "caller"
    assert result.cause.source in ({source} if fired else set()) | shape.sources


async def _call_again(world: World, shape: Shape) -> None:
    """The registry is as good as new."""
    world.is_cancelled = lambda: False
    before = len(world.published)
    result = await shape.registry.execute(ToolCall(id="again", name="work"), scope=trio.CancelScope())
    assert ending(result) == shape.plain
    assert [call_id for call_id, _ in world.published[before:]].count("again") == 1
    assert world.entered == world.left
    assert world.running == 0
    assert shape.registry.outstanding() == ()


def run_once(build: Builder, how: How, step: int) -> Run:
    """Make one call that is cancelled after that step (0: never) and check what holds of every call."""
    return trio.run(_run, build, how, step, clock=trio.testing.MockClock(autojump_threshold=0))


def sweep(build: Builder, how: How) -> list[Run]:
    """Cancel after each step that a call takes which nobody cancels, several times.

    Fails if a step is not reached, as a sweep that ends early would prove nothing about the rest, and if one of the
    endings that the shape expects has not occurred.
    """
    plain = [run_once(build, how, 0) for _ in range(SCHEDULES)]
    steps = max(run.steps for run in plain)
    runs: list[Run] = []
    for step in range(1, steps + 1):
        tried = (run_once(build, how, step) for _ in range(ATTEMPTS))
        fired = list(itertools.islice((run for run in tried if run.fired), SCHEDULES))
        assert len(fired) == SCHEDULES, f"only {step - 1} of {steps} steps were reached"
        runs += fired
    assert {run.ending for run in runs} == plain[0].cut
    return runs
