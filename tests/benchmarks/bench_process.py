"""What a trivial command costs, as a ratio to the floor: plain ``trio.run_process`` with both streams captured."""

from __future__ import annotations

import sys

import trio
from measuring import Measure, medians, run

from trio_tools.process import run_command

COMMANDS = 5  # in one round
ROUNDS = 60


async def floor() -> int:
    for _ in range(COMMANDS):
        await trio.run_process(["true"], capture_stdout=True, capture_stderr=True)
    return COMMANDS


async def commands() -> int:
    for _ in range(COMMANDS):
        await run_command(["true"])
    return COMMANDS


async def everything() -> list[Measure]:
    await medians(5, {"floor": floor, "commands": commands})  # warms caches
    seconds = await medians(ROUNDS, {"floor": floor, "commands": commands})
    return [Measure("run_command of a trivial command", seconds["commands"] / seconds["floor"], 1.3)]


if __name__ == "__main__":
    sys.exit(run(everything, __doc__ or ""))
