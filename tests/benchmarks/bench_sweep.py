"""What it costs to sweep a tool of 200 steps, as a ratio to the floor: one run of it through a registry."""

from __future__ import annotations

import sys

import trio
from measuring import Measure, medians, run

from trio_tools import ToolCall, ToolRegistry, ToolResult, tool
from trio_tools.testing import cancel_everywhere

STEPS = 200
ROUNDS = 25
RUNS = 200  # of the floor in each round: as long as a sweep takes, as noise has it that what is short seems shorter


@tool
async def work() -> None:
    """Take many steps."""
    for _ in range(STEPS):
        await trio.lowlevel.checkpoint()


async def everything() -> list[Measure]:
    registry, call = ToolRegistry([work]), ToolCall(id="c1", name="work")

    async def make_call(scope: trio.CancelScope) -> ToolResult:
        return await registry.execute(call, scope=scope)

    async def floor() -> int:
        with trio.CancelScope() as scope:
            for _ in range(RUNS):
                await make_call(scope)
        return RUNS

    async def sweep() -> int:
        report = await cancel_everywhere(make_call, registry=registry, code=[work])
        assert not report.breaches
        assert len(report.points) > STEPS
        return 1

    await medians(1, {"floor": floor, "sweep": sweep})  # warms caches
    seconds = await medians(ROUNDS, {"floor": floor, "sweep": sweep})
    return [Measure(f"a sweep of {STEPS} steps, to one run", seconds["sweep"] / seconds["floor"], 250)]


if __name__ == "__main__":
    sys.exit(run(everything, __doc__ or ""))
