"""Is my tool cancel-safe? One with three classic faults, what the kit says about it, and the tool mended.

In a test of your own it is one line: ``await assert_cancel_safe(watch_build, {"seconds": 0.01})``.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import trio

from trio_tools import ToolDefinition, ToolRun, tool
from trio_tools.testing import assert_cancel_safe

BUILD = ["sleep", "1000"]  # what takes long


async def beat(run: ToolRun) -> None:
    """Say that the build still runs, now and then."""
    while True:
        run.report_progress(0, message="still building")
        await trio.sleep(0.002)


@tool(name="watch_build")
async def faulty(seconds: float, run: ToolRun) -> str:
    """Start a build, and watch it for a while."""
    build = subprocess.Popen(BUILD)  # noqa: ASYNC220 - 1: if anything goes wrong, nobody ends it
    trio.lowlevel.spawn_system_task(beat, run)  # 2: a task that nobody owns, and nobody ends
    try:
        await trio.sleep(seconds)
    except BaseException:  # 3: this is also how a cancellation comes, and it must get out
        return "lost sight of it"
    build.kill()
    build.wait()
    return "watched it"


@tool(name="watch_build")
async def mended(seconds: float, run: ToolRun) -> str:
    """Start a build, and watch it for a while."""
    async with trio.open_nursery() as nursery:  # whatever happens, what it owns has ended when the block is left
        nursery.start_soon(beat, run)
        nursery.start_soon(partial(trio.run_process, BUILD))  # ended, and waited for, when it is cancelled
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()
    return "watched it"


async def is_safe(watch_build: ToolDefinition) -> bool:
    """Disturb the tool at every point, and say what came of it."""
    try:
        await assert_cancel_safe(watch_build, {"seconds": 0.01})
    except AssertionError as report:
        print(f"{report}\n")
        return False
    print(f"{watch_build.name}: cancel-safe, at every step, at every deadline, and whatever it awaits may raise")
    return True


def main() -> int:
    """0 if the faults were found, and are gone."""
    print("--- with three faults\n")
    found = not trio.run(is_safe, faulty)
    print("--- mended\n")
    return 0 if trio.run(is_safe, mended) and found else 1


if __name__ == "__main__":
    sys.exit(main())
