"""Pipelines for the sweep: wrappers that shield, assign scopes, retry, fail, swallow, or leave work to other tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

import trio
from sweep_parts import (
    EITHER,
    NEVER_RAN,
    RAN,
    Builder,
    NextWrapper,
    Shape,
    World,
    collect,
    judges,
    line,
    obeys,
    passes,
    shielded,
    starts_and_returns,
)

from trio_tools import (
    TOOL_ABORTED,
    FrozenJson,
    TextContent,
    ToolDispatch,
    ToolError,
    ToolFailure,
    ToolResult,
    ToolRun,
    ToolSuccess,
)

SHAPES: dict[str, Builder] = {}
shape = collect(SHAPES)

BY_WRAPPER = frozenset({"wrapper"})
UNCANCELLED = "nobody cancels this scope"


@shape
def wrapper_shields(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        with trio.CancelScope(shield=True):
            return await call_next()
        raise AssertionError(UNCANCELLED)

    return Shape(line(world, obeys, around), "success", EITHER, hides=True)


@shape
def wrapper_shields_owned_work(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        with trio.CancelScope(shield=True):
            return await call_next()
        raise AssertionError(UNCANCELLED)

    return Shape(line(world, starts_and_returns(world), around), "success", EITHER, hides=True)


@shape
def wrapper_waits_under_a_shield(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        await shielded(3)
        result = await call_next()
        await shielded(3)
        return result

    return Shape(line(world, obeys, around), "success", EITHER, drain=3)


@shape
def wrapper_assigns_a_scope(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        dispatch.scope = trio.CancelScope()
        return await call_next()

    return Shape(line(world, obeys, around), "success", RAN)


@shape
def wrapper_assigns_a_shield_around_a_waiting_one(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        dispatch.scope = trio.CancelScope(shield=True)
        return await call_next()

    return Shape(line(world, obeys, around, passes), "success", EITHER)


@shape
def wrapper_assigns_a_deadline_that_passes(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        dispatch.scope = trio.move_on_after(1.5)
        return await call_next()

    return Shape(line(world, obeys, around), TOOL_ABORTED, RAN, sources=BY_WRAPPER)


@shape
def wrapper_falls_out_of_its_own_scope(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        with trio.move_on_after(1.5):
            return await call_next()
        return cast("ToolResult", None)

    return Shape(line(world, obeys, around, after=judges(world)), TOOL_ABORTED, RAN, drain=1, sources=BY_WRAPPER)


@shape
def wrapper_maps_its_own_deadline(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        with trio.move_on_after(1.5):
            return await call_next()
        return ToolFailure.from_message("too slow", code="SLOW")

    return Shape(line(world, obeys, around), "SLOW", RAN | {"SLOW"}, sources=BY_WRAPPER)


@shape
def wrapper_fails_afterwards(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        await call_next()
        await trio.sleep(1)
        raise LookupError("lost")

    return Shape(line(world, obeys, around), "LookupError", RAN | {"LookupError"})


@shape
def wrapper_fails_while_unwinding(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        try:
            return await call_next()
        finally:
            raise LookupError("lost")

    return Shape(line(world, obeys, passes, around), "LookupError", NEVER_RAN | {"LookupError"})


@shape
def wrapper_answers_itself(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        await trio.sleep(1)
        return ToolSuccess(value="cached", content=(TextContent("cached"),))

    return Shape(line(world, obeys, around), "success", NEVER_RAN)


@shape
def wrapper_swallows_the_cancellation(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        try:
            await trio.sleep(1)
            return await call_next()
        except trio.Cancelled:
            return ToolSuccess(value="all is well", content=(TextContent("all is well"),))

    return Shape(line(world, obeys, around), "success", EITHER)


def elsewhere(world: World, call_next: NextWrapper) -> Callable[[], Awaitable[ToolResult]]:
    """Have ``call_next`` run in a task outside of the caller's scope, and give a function that waits for its answer."""
    answers: list[ToolResult] = []
    over = trio.Event()

    async def attempt(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with world.counted():
            task_status.started()
            answers.append(await call_next())
        over.set()

    async def answer() -> ToolResult:
        await world.foreign.start(attempt)
        await over.wait()
        return answers[0]

    return answer


@shape
def wrapper_uses_a_foreign_task(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        return await elsewhere(world, call_next)()

    return Shape(line(world, obeys, around), "success", EITHER, hides=True)


@shape
def wrapper_waits_for_a_foreign_task_under_a_shield(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        with trio.CancelScope(shield=True):
            return await elsewhere(world, call_next)()
        raise AssertionError(UNCANCELLED)

    return Shape(line(world, starts_and_returns(world), around), "success", EITHER, hides=True)


@shape
def wrapper_leaves_a_foreign_task_behind(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        with trio.move_on_after(1.5):
            return await elsewhere(world, call_next)()
        return ToolFailure.from_message("too slow", code="SLOW")

    return Shape(line(world, obeys, around), "SLOW", EITHER | {"SLOW"}, hides=True, sources=BY_WRAPPER)


@shape
def wrapper_leaves_a_waiting_wrapper_behind(world: World) -> Shape:
    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        with trio.move_on_after(0.5):
            return await elsewhere(world, call_next)()
        return ToolFailure.from_message("too slow", code="SLOW")

    return Shape(line(world, obeys, around, passes), "SLOW", NEVER_RAN | {"SLOW"}, sources=BY_WRAPPER)


@shape
def wrapper_retries(world: World) -> Shape:
    attempts: dict[str, int] = {}

    async def flaky(arguments: FrozenJson, run: ToolRun) -> str:
        attempts[run.call_id] = attempts.get(run.call_id, 0) + 1
        await trio.sleep(1)
        if attempts[run.call_id] < 3:
            raise ToolError("try again", code="FLAKY")
        return "at last"

    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        result = await call_next()
        while result.is_error is True and result.error.code == "FLAKY":
            await trio.sleep(2)
            result = await call_next()
        return result

    return Shape(line(world, flaky, around), "success", RAN | {"FLAKY"})
