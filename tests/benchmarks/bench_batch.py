"""What a call of a batch costs, as a ratio to the floor: a task with a nursery of its own and one child.

The bodies do nothing. Memory is that of calls that have not started, and of calls that wait for their key.
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
from measuring import Measure, medians, run

from trio_tools import Keyed, ToolCall, ToolRegistry, run_batch, tool

AT_ONCE = 1_000
SIZES = (100, 1_000, 10_000, 100_000)
ROUNDS = 15
WAITING = 10_000


async def nothing() -> None:
    """Do nothing."""


@tool(concurrency="parallel")
async def work() -> None:
    """Do nothing."""


@tool(concurrency=lambda arguments: Keyed("one"))
async def edit() -> None:
    """Do nothing, after everybody else."""


async def floor() -> int:
    async def task() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(nothing)

    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(task)
    return AT_ONCE


def calls(size: int, name: str = "work") -> list[ToolCall]:
    return [ToolCall(id=str(number), name=name) for number in range(size)]


def batch(size: int, max_parallel: int, scope: trio.CancelScope) -> Callable[[], Awaitable[int]]:
    registry, requests = ToolRegistry([work]), calls(size)

    async def one() -> int:
        await run_batch(registry, requests, scope=scope, max_parallel=max_parallel)
        return size

    return one


async def time_per_call(scope: trio.CancelScope) -> list[Measure]:
    many = batch(AT_ONCE, AT_ONCE, scope)
    await medians(2, {"floor": floor, "batch": many})  # warms caches
    seconds = await medians(ROUNDS, {"floor": floor, "batch": many})
    return [Measure("1,000 parallel calls at once, per call", seconds["batch"] / seconds["floor"], 2.2)]


async def growth(scope: trio.CancelScope) -> list[Measure]:
    """Cost per call by the size of the batch; each size makes the same number of calls in a round."""
    seconds: dict[int, list[float]] = {size: [] for size in SIZES}
    gc.collect()
    gc.freeze()
    for _ in range(5):
        for size in SIZES:
            one = batch(size, 10, scope)
            gc.collect()
            gc.disable()  # a collection costs by what is alive, not by what is measured
            began = time.perf_counter()
            for _ in range(max(1, 10_000 // size)):
                await one()
            seconds[size].append((time.perf_counter() - began) / max(size, 10_000))
            gc.enable()
    gc.unfreeze()
    per_call = {size: statistics.median(each) for size, each in seconds.items()}
    spread = max(per_call.values()) / min(per_call.values())
    return [Measure("cost per call of 100 to 100,000 calls, dearest to cheapest", spread, 1.3)]


async def waiting(name: str) -> float:
    """Bytes of a call that waits, the request itself not counted."""
    requests = calls(WAITING, name)
    release = trio.Event()

    @tool(concurrency=lambda arguments: Keyed("one"))
    async def edit() -> None:
        await release.wait()

    @tool(concurrency="exclusive")
    async def work() -> None:
        await release.wait()

    registry = ToolRegistry([edit, work])
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    async with trio.open_nursery() as nursery:

        async def all_of_them() -> None:
            await run_batch(registry, requests, scope=nursery.cancel_scope)

        nursery.start_soon(all_of_them)
        await trio.testing.wait_all_tasks_blocked()
        gc.collect()
        size = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        nursery.cancel_scope.cancel()
    return size / WAITING


async def everything() -> list[Measure]:
    measures: list[Measure] = []
    with trio.CancelScope() as scope:
        measures += [*await time_per_call(scope), *await growth(scope)]
    return [
        *measures,
        Measure("bytes of a call that has not started", await waiting("work"), 2048, "bytes"),
        Measure("bytes of a call that waits for its key", await waiting("edit"), 2048, "bytes"),
    ]


if __name__ == "__main__":
    sys.exit(run(everything, __doc__ or ""))
