"""Pipelines for the sweep: bodies that go on for a while, fail while unwinding, own tasks, nest calls, use threads."""

from __future__ import annotations

import trio
from sweep_parts import (
    EITHER,
    NEVER_RAN,
    RAN,
    Builder,
    Person,
    Shape,
    World,
    asks,
    collect,
    judges,
    line,
    obeys,
    passes,
    shielded,
    starts_and_returns,
)

from trio_tools import TOOL_ABORTED, TOOL_TIMEOUT, FrozenJson, ToolError, ToolRegistry, ToolRun, tool

SHAPES: dict[str, Builder] = {}
shape = collect(SHAPES)


@shape
def no_stages(world: World) -> Shape:
    return Shape(line(world), "success", RAN)


@shape
def body_goes_on_for_a_while(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        await shielded(2)
        await trio.sleep(1)
        await shielded(2)
        return "committed"

    return Shape(line(world, body, passes), "success", EITHER, drain=2)


@shape
def body_swallows_the_cancellation(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            return "half of it"
        return "all of it"

    return Shape(line(world, body, passes), "success", EITHER)


@shape
def body_keeps_the_cancellation_for_later(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        kept: trio.Cancelled | None = None
        try:
            await trio.sleep(1)
        except trio.Cancelled as error:
            kept = error
        await shielded(1)
        if kept is not None:
            raise kept
        return "done"

    return Shape(line(world, body, passes), "success", EITHER, drain=1)


@shape
def body_fails(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        await trio.sleep(1)
        raise ToolError("no such row", code="NO_ROW")

    return Shape(line(world, body, passes, after=judges(world)), "NO_ROW", EITHER | {"NO_ROW"}, drain=1)


@shape
def body_fails_while_unwinding(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        try:
            await trio.sleep(1)
        finally:
            raise ToolError("half written", code="HALF")

    return Shape(line(world, body, passes), "HALF", NEVER_RAN | {"HALF"})


@shape
def body_fails_and_its_clean_up_masks_it(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        try:
            await shielded(1)
            raise ToolError("half written", code="HALF")
        finally:
            await trio.sleep(1)

    return Shape(line(world, body, passes), "HALF", NEVER_RAN | {"HALF"}, drain=1)


@shape
def body_cleans_up_slowly(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        try:
            await trio.sleep(1)
        finally:
            await shielded(3)
        return "done"

    return Shape(line(world, body, passes), "success", EITHER, drain=3)


@shape
def body_owns_tasks(world: World) -> Shape:
    return Shape(line(world, starts_and_returns(world), passes), "success", EITHER)


@shape
def body_owns_a_task_that_cleans_up_slowly(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        async def work() -> None:
            with world.counted():
                try:
                    await trio.sleep(2)
                finally:
                    await shielded(5)

        run.nursery.start_soon(work)
        await trio.sleep(1)
        return "started"

    return Shape(line(world, body), "success", RAN, drain=5)


@shape
def body_owns_a_task_that_fails(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        async def work() -> None:
            with world.counted():
                await trio.sleep(1)
                raise LookupError("worker lost")

        run.nursery.start_soon(work)
        await trio.sleep(5)
        return "never told"

    return Shape(line(world, body, passes), "LookupError", EITHER | {"LookupError"})


@shape
def body_owns_a_task_that_fails_while_unwinding(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        async def work() -> None:
            with world.counted():
                try:
                    await trio.sleep(3)
                finally:
                    raise LookupError("worker lost")

        run.nursery.start_soon(work)
        await trio.sleep(1)
        return "started"

    return Shape(line(world, body), "LookupError", frozenset({"LookupError"}))


@shape
def body_cancels_its_own_nursery(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        await trio.sleep(1)
        run.nursery.cancel_scope.cancel()
        await trio.sleep(1)
        return "never told"

    return Shape(line(world, body, passes), TOOL_ABORTED, EITHER, sources=frozenset({"tool"}))


@shape
def body_nests_a_call(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        first = await run.call_tool("nested", {})
        second = await run.call_tool("nested", {})
        return "both" if not first.is_error and not second.is_error else "not both"

    return Shape(line(world, body, passes), "success", EITHER)


@shape
def body_nests_calls_in_its_nursery(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        async def nest() -> None:
            await run.call_tool("nested", {})

        run.nursery.start_soon(nest)
        run.nursery.start_soon(nest)
        await trio.sleep(1)
        return "started"

    return Shape(line(world, body), "success", RAN)


@shape
def timeout_that_does_not_fire(world: World) -> Shape:
    return Shape(line(world, obeys, passes, timeout=3), "success", EITHER)


@shape
def timeout_that_fires(world: World) -> Shape:
    registry = line(world, obeys, passes, timeout=1.5)
    return Shape(registry, TOOL_TIMEOUT, EITHER | {TOOL_TIMEOUT})


@shape
def timeout_that_fires_before_a_slow_clean_up(world: World) -> Shape:
    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        try:
            await trio.sleep(3)
        finally:
            await shielded(2)
            await shielded(2)
        return "done"

    return Shape(line(world, body, timeout=1), TOOL_TIMEOUT, RAN | {TOOL_TIMEOUT}, drain=4)


@shape
def parent_with_stages_of_its_own(world: World) -> Shape:
    parent = line(world, obeys, passes, before=asks, person=Person("allowed-once"), after=judges(world))
    child = ToolRegistry(parent=parent)
    child.around(passes)
    child.after(judges(world))
    return Shape(child, "success", EITHER, drain=2)


@shape
def thread_without_a_run(world: World) -> Shape:
    @tool
    def work() -> str:
        world.entered += 1
        if world.is_cancelled() and world.threads_when_cancelled == 0:
            world.late.append("c1")
        world.left += 1
        return "done"

    return Shape(ToolRegistry([work]), "success", EITHER)


@shape
def thread_that_comes_back(world: World) -> Shape:
    @tool
    def work(run: ToolRun) -> str:
        world.entered += 1
        try:
            for _ in range(3):
                trio.from_thread.run(trio.lowlevel.checkpoint)
            return "done"
        finally:
            world.left += 1

    registry = ToolRegistry([work])
    registry.around(passes)
    return Shape(registry, "success", EITHER)
