"""What one call costs, as a ratio to the floor: open a nursery, run the body as its one child.

The body does nothing, so that only the seam is measured. The caller's scope is one for all calls and has no deadline.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable

import trio
import trio.testing
from measuring import Measure, collected, medians, run

from trio_tools import ToolCall, ToolDispatch, ToolRegistry, ToolResult, ToolRun, tool

OPERATIONS = 200  # in one round
ROUNDS = 60
IN_FLIGHT = 10_000
CANCELLATIONS = 15  # of them all


async def work() -> None:
    """Do nothing."""


async def work_that_may_own_tasks(run: ToolRun) -> None:
    """Do nothing, but be given a nursery."""


async def wait() -> None:
    """Do nothing until cancelled."""
    await trio.sleep_forever()


async def pass_through(dispatch: ToolDispatch, call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
    return await call_next()


def registries() -> dict[str, ToolRegistry]:
    plain, timed, wrapped = (
        ToolRegistry([tool(work)]),
        ToolRegistry([tool(work, timeout=60)]),
        ToolRegistry([tool(work)]),
    )
    for _ in range(5):
        wrapped.around(pass_through)
    owning = ToolRegistry([tool(work_that_may_own_tasks)])
    return {
        "without wrappers": plain,
        "with a declared timeout": timed,
        "with five wrappers": wrapped,
        "of a body with a run": owning,
    }


BOUNDS = {
    "without wrappers": 2.5,
    "with a declared timeout": 3.0,
    "with five wrappers": 3.5,
    "of a body with a run": 3.5,  # which has a second nursery, its own
}


async def floor() -> int:
    for _ in range(OPERATIONS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
    return OPERATIONS


def calls_through(registry: ToolRegistry, scope: trio.CancelScope) -> Callable[[], Awaitable[int]]:
    (only,) = registry.tools()
    call = ToolCall(id="c1", name=only.name)

    async def calls() -> int:
        for _ in range(OPERATIONS):
            await registry.execute(call, scope=scope)
        return OPERATIONS

    return calls


async def time_per_call(scope: trio.CancelScope) -> list[Measure]:
    subjects = {name: calls_through(registry, scope) for name, registry in registries().items()}
    await medians(5, {"floor": floor, **subjects})  # warms caches
    seconds = await medians(ROUNDS, {"floor": floor, **subjects})
    return [Measure(f"execute {name}", seconds[name] / seconds["floor"], BOUNDS[name]) for name in subjects]


class Counter(trio.abc.Instrument):
    """Counts what the scheduler does."""

    def __init__(self) -> None:
        self.passes = self.steps = 0

    def after_io_wait(self, timeout: float) -> None:
        self.passes += 1

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1


async def scheduling_per_call(scope: trio.CancelScope) -> list[Measure]:
    measures: list[Measure] = []
    for name, registry in registries().items():
        counter = Counter()
        trio.lowlevel.add_instrument(counter)
        await calls_through(registry, scope)()
        trio.lowlevel.remove_instrument(counter)
        measures += [
            Measure(f"scheduler passes, {name}", counter.passes / OPERATIONS, 4, "passes"),
            Measure(f"task steps, {name}", counter.steps / OPERATIONS, 5, "steps"),
        ]
    return measures


async def in_flight(work: Callable[[trio.CancelScope], Awaitable[object]]) -> int:
    """Bytes for each of ``IN_FLIGHT`` waiting tasks."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    async with trio.open_nursery() as nursery:
        for _ in range(IN_FLIGHT):
            nursery.start_soon(work, nursery.cancel_scope)
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        size = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        nursery.cancel_scope.cancel()
    return size // IN_FLIGHT


async def cancelled_after(work: Callable[[trio.CancelScope], Awaitable[object]]) -> float:
    """Seconds from the cancellation of ``IN_FLIGHT`` waiting tasks to the end of the last."""
    with collected():
        async with trio.open_nursery() as nursery:
            for _ in range(IN_FLIGHT):
                nursery.start_soon(work, nursery.cancel_scope)
            await trio.testing.wait_all_tasks_blocked()
            began = time.perf_counter()
            nursery.cancel_scope.cancel()
        return time.perf_counter() - began


async def ten_thousand_in_flight() -> list[Measure]:
    registry = ToolRegistry([tool(wait)])
    call = ToolCall(id="c1", name="wait")

    async def bare(scope: trio.CancelScope) -> None:
        await wait()

    async def one_call(scope: trio.CancelScope) -> None:
        result = await registry.execute(call, scope=scope)
        assert result.is_error is True

    size = await in_flight(one_call)
    seconds: dict[str, list[float]] = {"bare": [], "calls": []}
    for _ in range(CANCELLATIONS):
        for name, work in {"bare": bare, "calls": one_call}.items():
            seconds[name].append(await cancelled_after(work))
    ratio = statistics.median(seconds["calls"]) / statistics.median(seconds["bare"])
    return [
        Measure("10,000 in flight: bytes of a call, its task included", size, 12 * 1024, "bytes"),
        Measure("10,000 in flight: cancel to the last result, to bare tasks", ratio, 4),
    ]


async def everything() -> list[Measure]:
    measures: list[Measure] = []
    with trio.CancelScope() as scope:
        measures += [*await time_per_call(scope), *await scheduling_per_call(scope)]
    return [*measures, *await ten_thousand_in_flight()]


if __name__ == "__main__":
    sys.exit(run(everything, __doc__ or ""))
