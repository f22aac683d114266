"""Calls leave nothing behind under a scope that lives long: no object, no task, no memory. Counted, never timed."""

from __future__ import annotations

import collections
import gc
import tracemalloc
import weakref
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import attrs
import pytest
import trio
import trio.testing
from sweep import ending

from trio_tools import (
    DENIED,
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    TOOL_TIMEOUT,
    UNKNOWN_TOOL,
    AfterDecision,
    Allow,
    BeforeDecision,
    Block,
    Deny,
    ToolCall,
    ToolDispatch,
    ToolError,
    ToolExecution,
    ToolRegistry,
    ToolResult,
    ToolRun,
    tool,
)

T = TypeVar("T")
NextPolicy: TypeAlias = Callable[[], Awaitable[BeforeDecision]]
NextWrapper: TypeAlias = Callable[[], Awaitable[ToolResult]]
NextJudge: TypeAlias = Callable[[], Awaitable[AfterDecision]]

PLAIN_CALLS = 100_000
MIXED_CALLS = 2_000  # of each other kind
TRACED_CALLS = 10_000  # with each allocation noted, which takes four times as long

# Trio keeps the entry of a deadline that was taken back until about a thousand of them have gathered.
STALE_DEADLINES = 1_200


# ---- what is called --------------------------------------------------------------------------------------------------


@tool
async def plain() -> str:
    return "done"


@tool
async def owns(run: ToolRun) -> str:
    run.nursery.start_soon(trio.sleep, 1)
    return "started"


@tool
async def nests(run: ToolRun) -> str:
    return "nested" if not (await run.call_tool("plain", {})).is_error else "not nested"


@tool
async def fails() -> str:
    raise ToolError("no such row", code="NO_ROW")


@tool
async def waits(run: ToolRun) -> None:
    run.emit("half of it")
    await trio.sleep_forever()


@tool(timeout=1)
async def is_slow() -> None:
    await trio.sleep_forever()


@tool(timeout=1)
async def is_quick() -> str:
    return "done"


@attrs.frozen
class Kind:
    """One kind of call, and how it ends."""

    name: str
    ends: str
    agent: str | None = None
    scope: Callable[[], trio.CancelScope] | None = None  # one that the call enters; None: the caller's


def cancelled_already() -> trio.CancelScope:
    scope = trio.CancelScope()
    scope.cancel()
    return scope


def cancelled_soon() -> trio.CancelScope:
    return trio.move_on_after(1)


KINDS: dict[str, Kind] = {
    "success": Kind("plain", "success"),
    "success with owned work": Kind("owns", "success"),
    "success with a nested call": Kind("nests", "success"),
    "success within its timeout": Kind("is_quick", "success"),
    "failure": Kind("fails", "NO_ROW"),
    "timeout": Kind("is_slow", TOOL_TIMEOUT),
    "unknown": Kind("nobody", UNKNOWN_TOOL),
    "denied": Kind("plain", DENIED, agent="stranger"),
    "aborted on entry by a scope of its own": Kind("plain", TOOL_ABORTED_BEFORE_DISPATCH, scope=cancelled_already),
    "aborted in the body by a scope of its own": Kind("waits", TOOL_ABORTED, scope=cancelled_soon),
}


async def before(execution: ToolExecution, call_next: NextPolicy) -> BeforeDecision:
    return Deny("no") if execution.agent == "stranger" else await call_next()


async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
    dispatch.scope = trio.CancelScope()
    return await call_next()


async def after(execution: ToolExecution, result: ToolResult, call_next: NextJudge) -> AfterDecision:
    return await call_next()


def new_registry(*, staged: bool) -> ToolRegistry:
    registry = ToolRegistry([plain, owns, nests, fails, waits, is_slow, is_quick])
    if staged:
        registry.guard(lambda execution: None)
        registry.around(around)
        registry.after(after)
        registry.observe(lambda execution, result: None)
    registry.before(before)
    return registry


async def make_calls(registry: ToolRegistry, scope: trio.CancelScope, kind: Kind, number: int) -> None:
    call = ToolCall(id="c1", name=kind.name, agent=kind.agent)
    for _ in range(number - 1):
        await registry.execute(call, scope=scope if kind.scope is None else kind.scope())
    result = await registry.execute(call, scope=scope if kind.scope is None else kind.scope())
    assert ending(result) == kind.ends
    await trio.lowlevel.checkpoint()  # calls that cannot start are none, and Trio tidies up its deadlines between steps


def run(main: Callable[[trio.CancelScope], Awaitable[T]]) -> T:
    """Run ``main`` under one scope, and a clock that jumps."""

    async def under_a_scope() -> T:
        with trio.CancelScope() as scope:
            return await main(scope)
        raise AssertionError("nobody cancels this scope")

    return trio.run(under_a_scope, clock=trio.testing.MockClock(autojump_threshold=0))


def census() -> collections.Counter[str]:
    """How many objects of each type there are that a leak would be made of: all that can refer to others."""
    return collections.Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())


def grown(since: collections.Counter[str], *, by: int) -> dict[str, int]:
    """The types that have got at least so many more objects."""
    return {name: more for name, count in census().items() if (more := count - since[name]) >= by}


@contextmanager
def without_collector() -> Generator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# ---- counted ---------------------------------------------------------------------------------------------------------


def test_a_hundred_thousand_calls_under_one_scope_leave_no_object_task_or_memory_behind() -> None:
    """P3. One object for eighty calls would be seen."""

    async def main(scope: trio.CancelScope) -> None:
        registry = ToolRegistry([plain])
        kind = KINDS["success"]
        await make_calls(registry, scope, kind, 2_000)
        tasks = trio.lowlevel.current_statistics().tasks_living
        gc.collect()
        objects = census()
        await make_calls(registry, scope, kind, PLAIN_CALLS)
        gc.collect()
        assert grown(objects, by=STALE_DEADLINES) == {}
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        assert registry.outstanding() == ()

        tracemalloc.start()
        try:
            await make_calls(registry, scope, kind, 100)
            allocated, _ = tracemalloc.get_traced_memory()
            await make_calls(registry, scope, kind, TRACED_CALLS)
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] - allocated < 10 * TRACED_CALLS  # no object is that small
        finally:
            tracemalloc.stop()

    run(main)


@pytest.mark.parametrize("staged", [False, True], ids=["with one policy", "with all stages"])
def test_thousands_of_calls_of_every_kind_under_one_scope_leave_no_object_or_task_behind(staged: bool) -> None:
    """P3: also of calls that fail, are denied, time out, or are aborted."""

    async def main(scope: trio.CancelScope) -> None:
        registry = new_registry(staged=staged)
        for name, kind in KINDS.items():
            await make_calls(registry, scope, kind, 100)
            tasks = trio.lowlevel.current_statistics().tasks_living
            gc.collect()
            objects = census()
            await make_calls(registry, scope, kind, MIXED_CALLS)
            gc.collect()
            assert grown(objects, by=STALE_DEADLINES) == {}, name
            assert trio.lowlevel.current_statistics().tasks_living == tasks, name
        assert registry.outstanding() == ()

    run(main)


@pytest.mark.parametrize("staged", [False, True], ids=["with one policy", "with all stages"])
@pytest.mark.parametrize("name", KINDS)
def test_a_finished_call_is_released_without_help_from_the_garbage_collector(name: str, staged: bool) -> None:
    """Nothing of it refers back to itself: no view, no exception, no frame."""
    calls = 100

    async def main(scope: trio.CancelScope) -> dict[str, int]:
        registry = new_registry(staged=staged)
        await make_calls(registry, scope, KINDS[name], calls)
        with without_collector():
            objects = census()
            await make_calls(registry, scope, KINDS[name], calls)
            return grown(objects, by=calls // 2)

    left = run(main)
    for kept_by_the_deadlines_of_trio in ("builtins.tuple", "trio.CancelScope"):
        left.pop(kept_by_the_deadlines_of_trio, None)
    assert left == {}


# ---- what a stage has in its hands -----------------------------------------------------------------------------------


class Witness:
    """Tells whether what held it is still there."""


@pytest.mark.parametrize("staged", [False, True], ids=["without stages", "with all stages"])
@pytest.mark.parametrize("kind", ["success", "failure", "aborted", "denied", "stage fails"])
def test_neither_result_nor_registry_nor_scope_keeps_the_locals_of_bodies_and_stages(kind: str, staged: bool) -> None:
    """Frames of stages and bodies, the exceptions they raise and the nursery of the body go when the call goes."""
    witnesses: list[weakref.ref[object]] = []

    def witness() -> Witness:
        one = Witness()
        witnesses.append(weakref.ref(one))
        return one

    @tool
    async def work(run: ToolRun) -> str:
        held = witness()
        witnesses.append(weakref.ref(run.nursery))
        if kind == "failure":
            raise ValueError(type(held).__name__)
        if kind == "aborted":
            await trio.sleep_forever()
        return f"done by {type(held).__name__}"

    async def allows(execution: ToolExecution, call_next: NextPolicy) -> BeforeDecision:
        held = witness()
        return Deny(type(held).__name__) if kind == "denied" else Allow()

    async def wraps(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        held = witness()
        result = await call_next()
        if kind == "stage fails":
            raise LookupError(type(held).__name__)
        return result

    async def judges(execution: ToolExecution, result: ToolResult, call_next: NextJudge) -> AfterDecision:
        held = [witness()]
        decision = await call_next()
        return decision if held else Block("nobody held")

    async def main(scope: trio.CancelScope) -> tuple[list[ToolResult], ToolRegistry, trio.CancelScope]:
        registry = ToolRegistry([work])
        if staged:
            registry.before(allows)
            registry.around(wraps)
            registry.after(judges)
        results: list[ToolResult] = []
        with without_collector():
            for number in range(3):
                own = trio.move_on_after(1) if kind == "aborted" else scope
                results.append(await registry.execute(ToolCall(id=f"c{number}", name="work"), scope=own))
            alive.extend(one() for one in witnesses)
        return results, registry, scope

    alive: list[object] = []
    results, _, _ = run(main)
    assert len(results) == 3
    assert len(alive) >= (3 if staged or kind != "denied" else 0)
    assert [one for one in alive if one is not None] == []
