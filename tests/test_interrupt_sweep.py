"""P1, P3 and P7 under Ctrl-C: a real SIGINT at every line of the package that a call executes, one run for each.

The signal is raised by a trace function at the k-th line, in the main thread, so that Trio's own handler decides what
becomes of it: raised on the spot where the protection is lifted, kept for the next checkpoint of the main task where it
is not.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FrameType
from typing import Any, cast

import attrs
import pytest
import trio
import trio.testing

import trio_tools
from trio_tools import (
    Accept,
    AfterDecision,
    Allow,
    ApprovalOutcome,
    ApprovalRequest,
    Ask,
    BeforeDecision,
    ToolCall,
    ToolDispatch,
    ToolExecution,
    ToolRegistry,
    ToolResult,
    ToolRun,
    run_batch,
    tool,
)

PACKAGE = str(Path(trio_tools.__file__).parent)


class Lines:
    """Counts the executed lines of the package, and raises SIGINT at one of them."""

    def __init__(self, strike_at: int) -> None:
        self.count, self.strike_at = 0, strike_at

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.count += 1
            if self.count == self.strike_at:
                signal.raise_signal(signal.SIGINT)
        return self.trace


@attrs.define
class Seen:
    """What one run has left behind."""

    published: list[tuple[str, ToolResult]] = attrs.field(factory=list[tuple[str, ToolResult]])
    returned: list[ToolResult] = attrs.field(factory=list[ToolResult])
    committed: list[ToolResult] = attrs.field(factory=list[ToolResult])
    made: list[str] = attrs.field(factory=list[str])  # calls that reached a stage, so that they must be published
    entered: int = 0
    left: int = 0
    tasks: int = 0  # alive after the call that were not before
    outstanding: int = 0
    interrupted: bool = False


async def call_plain(seen: Seen) -> None:
    """One call without any stage."""

    @tool
    async def work() -> str:
        seen.entered += 1
        try:
            await trio.lowlevel.checkpoint()
        finally:
            seen.left += 1
        return "done"

    await make_calls(seen, ToolRegistry([work]), ["work"])


def every_stage(seen: Seen) -> ToolRegistry:
    @tool(timeout=60)
    async def work(run: ToolRun) -> str:
        seen.entered += 1
        try:
            run.nursery.start_soon(trio.lowlevel.checkpoint)
            run.emit("so far")
            await trio.lowlevel.checkpoint()
        finally:
            seen.left += 1
        return "done"

    class Person:
        async def request(self, ask: ApprovalRequest, /) -> ApprovalOutcome:
            await trio.lowlevel.checkpoint()
            return "allowed-once"

    async def before(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
        await trio.lowlevel.checkpoint()
        decision = await call_next()
        return Ask("look") if isinstance(decision, Allow) else decision

    async def around(dispatch: ToolDispatch, call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        dispatch.scope = trio.CancelScope()
        result = await call_next()
        await trio.lowlevel.checkpoint()
        return result

    async def after(
        execution: ToolExecution, result: ToolResult, call_next: Callable[[], Awaitable[AfterDecision]]
    ) -> AfterDecision:
        await trio.lowlevel.checkpoint()
        await call_next()
        return Accept(content="shown")

    registry = ToolRegistry([work], approver=Person())
    registry.before(before)
    registry.guard(lambda execution: None)
    registry.around(around)
    registry.around(around)
    registry.after(after)
    return registry


async def call_with_every_stage(seen: Seen) -> None:
    """One call through every kind of stage, each of which waits."""
    await make_calls(seen, every_stage(seen), ["work"])


async def call_nested(seen: Seen) -> None:
    """A call whose body makes another one."""
    registry = every_stage(seen)

    @tool
    async def outer(run: ToolRun) -> str:
        seen.entered += 1
        try:
            await run.call_tool("work", {})
            return "both"
        finally:
            seen.left += 1

    registry.register(outer)
    await make_calls(seen, registry, ["outer"])


async def call_cancelled(seen: Seen) -> None:
    """A call that its caller cancels while the body waits."""

    @tool
    async def work(run: ToolRun) -> None:
        seen.entered += 1
        try:
            scope.cancel()
            await trio.sleep_forever()
        finally:
            seen.left += 1

    scope = trio.CancelScope()
    await make_calls(seen, ToolRegistry([work]), ["work"], scope)


async def call_in_a_batch(seen: Seen) -> None:
    """Two calls of one message."""
    registry = every_stage(seen)
    observe(seen, registry)
    calls = [ToolCall(id=f"c{number}", name="work") for number in range(2)]
    before = trio.lowlevel.current_statistics().tasks_living
    try:
        with trio.CancelScope() as scope:
            await run_batch(
                registry, calls, scope=scope, on_commit=lambda _n, _call, result: seen.committed.append(result)
            )
    finally:
        seen.tasks = trio.lowlevel.current_statistics().tasks_living - before
        seen.outstanding = len(registry.outstanding())


def observe(seen: Seen, registry: ToolRegistry) -> None:
    registry.observe(lambda execution, result: seen.published.append((execution.call_id, result)))
    registry.guard(lambda execution: seen.made.append(execution.call_id))


async def make_calls(
    seen: Seen, registry: ToolRegistry, names: list[str], scope: trio.CancelScope | None = None
) -> None:
    observe(seen, registry)
    before = trio.lowlevel.current_statistics().tasks_living
    try:
        for number, name in enumerate(names):
            mine = scope or trio.CancelScope()
            seen.returned.append(await registry.execute(ToolCall(id=f"c{number}", name=name), scope=mine))
    finally:
        seen.tasks = trio.lowlevel.current_statistics().tasks_living - before
        seen.outstanding = len(registry.outstanding())


def struck_at(line: int, scenario: Callable[[Seen], Awaitable[None]]) -> tuple[Seen, int]:
    """Run ``scenario`` with SIGINT at that line: what is left behind, and how many lines were reached."""
    seen, lines = Seen(), Lines(line)

    async def main() -> None:
        before = sys.gettrace()  # a coverage measurement, say
        sys.settrace(lines.trace)
        try:
            await scenario(seen)
        finally:
            sys.settrace(before)
        await trio.lowlevel.checkpoint()

    try:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    except BaseException as error:
        seen.interrupted = type(only_leaf(error)) is KeyboardInterrupt
        if not seen.interrupted:
            raise
    return seen, lines.count


def only_leaf(error: BaseException) -> BaseException:
    """What is in nested groups of one."""
    while isinstance(error, BaseExceptionGroup):
        (error,) = cast("BaseExceptionGroup[BaseException]", error).exceptions
    return error


SCENARIOS = [call_plain, call_with_every_stage, call_nested, call_cancelled, call_in_a_batch]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_ctrl_c_at_any_line_leaves_one_published_result_no_task_and_comes_out_as_itself(
    scenario: Callable[[Seen], Awaitable[None]],
) -> None:
    """P1: published once. P3: nothing left. P7: KeyboardInterrupt leaves, once, as itself, and never as a result."""
    quiet, total = struck_at(0, scenario)
    assert not quiet.interrupted
    assert quiet.published
    gc.disable()  # a collection would run finalizers, and so lines, at another place each time
    try:
        line = 0
        while (seen := reached(line + 1, scenario)) is not None:
            line += 1
            check(seen, quiet, line)
    finally:
        gc.enable()
    assert line >= total > 50, "the sweep reached fewer lines than the run without an interrupt has"


def reached(line: int, scenario: Callable[[Seen], Awaitable[None]]) -> Seen | None:
    """A run with SIGINT at that line; ``None`` if no run has as many lines.

    The scheduler runs the tasks of one pass in random order, and their orders differ by a few lines.
    """
    for _ in range(30):
        seen, count = struck_at(line, scenario)
        if count >= line:
            return seen
    return None


def check(seen: Seen, quiet: Seen, line: int) -> None:
    assert seen.interrupted, f"the interrupt at line {line} got lost"
    ids = [call_id for call_id, _ in seen.published]
    assert len(ids) == len(set(ids)), f"line {line}: published twice"
    assert seen.entered == seen.left, f"line {line}: a body was left behind"
    assert (seen.tasks, seen.outstanding) == (0, 0), f"line {line}: something is left"
    started = [call_id for call_id, result in seen.published if result.body != "not-started"]
    assert seen.entered == len(started), f"line {line}: {seen.entered} bodies ran, the results say {started}"
    assert set(seen.made) <= set(ids), f"line {line}: a call has no result"
    if seen.committed:
        assert len(seen.committed) == len(quiet.committed), f"line {line}: a result was not committed"
