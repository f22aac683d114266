"""Ctrl-C while a batch waits: a real SIGINT that Trio delivers to the task which waits in ``run_batch``."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import pytest
import trio
import trio.testing
from batches import asked, by_key, codes, run, sources, waits
from hypothesis import given, settings
from hypothesis import strategies as st

from trio_tools import (
    AfterDecision,
    ApprovalOutcome,
    ApprovalRequest,
    Ask,
    BeforeDecision,
    ToolCall,
    ToolExecution,
    ToolRegistry,
    ToolResult,
    ToolRun,
    run_batch,
)

BEFORE = "ABORTED_BEFORE_DISPATCH"
Stages: TypeAlias = Literal["none", "gate", "approval", "after"]


class Seen:
    """What one run has left behind."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.left: list[str] = []
        self.published: list[str] = []
        self.started: list[int] = []
        self.committed: list[tuple[int, ToolResult]] = []

    async def body(self, arguments: Any, one: ToolRun) -> str:
        self.entered.append(one.call_id)
        try:
            await trio.sleep(arguments.get("seconds", 1))
            return "done"
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.25)
            self.left.append(one.call_id)

    def start(self, index: int, call: ToolCall) -> None:
        self.started.append(index)

    def commit(self, index: int, call: ToolCall, result: ToolResult) -> None:
        self.committed.append((index, result))


class Person:
    async def request(self, ask: ApprovalRequest) -> ApprovalOutcome:
        await trio.sleep(1)
        return "allowed-once"


async def gate(execution: ToolExecution, call_next: Any) -> BeforeDecision:
    return await call_next()


async def asks(execution: ToolExecution, call_next: Any) -> BeforeDecision:
    return Ask()


async def after(execution: ToolExecution, result: ToolResult, call_next: Any) -> AfterDecision:
    await trio.sleep(1)
    return await call_next()


def registry_of(seen: Seen, stages: Stages) -> ToolRegistry:
    modes: list[Any] = ["parallel", "exclusive", by_key]
    tools = [waits(name, mode, seen.body) for name, mode in zip(("work", "alone", "keyed"), modes, strict=True)]
    registry = ToolRegistry(tools, approver=Person())
    if stages == "after":
        registry.after(after)
    elif stages != "none":
        registry.before(gate if stages == "gate" else asks)
    registry.observe(lambda execution, result: seen.published.append(execution.call_id))
    return registry


@trio.lowlevel.enable_ki_protection
def strike() -> None:
    """Ctrl-C; kept for the task that waits, as this frame is protected."""
    signal.raise_signal(signal.SIGINT)


@trio.lowlevel.enable_ki_protection
async def strikes_at(seconds: float, before: Callable[[], None]) -> None:
    await trio.sleep(seconds)
    before()
    strike()


async def struck(
    registry: ToolRegistry, calls: list[ToolCall], seen: Seen, at: float | None, **options: Any
) -> list[ToolResult]:
    """Make a batch that Ctrl-C ends at that time, and look whether anything is left."""
    async with trio.open_nursery() as nursery:
        if at is not None:
            nursery.start_soon(strikes_at, at, lambda: None)
            await trio.testing.wait_all_tasks_blocked()
        tasks = trio.lowlevel.current_statistics().tasks_living - (at is not None)
        options = {"on_start": seen.start, "on_commit": seen.commit} | options
        with pytest.raises(KeyboardInterrupt):
            await run_batch(registry, calls, scope=trio.CancelScope(), **options)
        assert trio.lowlevel.current_statistics().tasks_living == tasks
    results = [result for _, result in seen.committed]
    assert [index for index, _ in seen.committed] == list(range(len(calls)))
    assert sorted(seen.entered) == sorted(seen.left)
    assert sorted(seen.published) == sorted(calls[index].id for index in seen.started)
    assert set(sources(results)) == {None, "interrupt"} or set(sources(results)) == {"interrupt"}
    for call, result in zip(calls, results, strict=True):
        assert (result.body != "not-started") == (call.id in seen.entered)
    assert registry.outstanding() == ()
    await trio.lowlevel.checkpoint()  # it came once
    return results


CALLS = {
    "parallel": asked("a", "b", seconds=9),
    "exclusive": asked("a", "b", name="alone", seconds=9),
    "keyed": asked("a", "b", "c", name="keyed", seconds=9),
    "mixed": [
        *asked("a"),
        *asked("k", "l", name="keyed", seconds=9),
        *asked("b", seconds=5),
        *asked("x", name="alone"),
    ],
}


@pytest.mark.parametrize("stages", ["none", "gate", "approval", "after"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("limits", [{}, {"work": 1, "keyed": 1}], ids=["unlimited", "limited"])
@settings(max_examples=8, deadline=None)
@given(at=st.sampled_from([0.1, 0.5, 1.1, 1.5, 2.1, 3.1]), schedule=st.random_module())
def test_ctrl_c_while_a_batch_waits_fills_and_commits_every_result_and_then_leaves(
    stages: Stages, name: str, limits: dict[str, int], at: float, schedule: object
) -> None:
    """P1, P3, P7, section 8: also for calls that queue, with a task of their own behind gates, and without one."""
    seen = Seen()

    async def main() -> None:
        results = await struck(registry_of(seen, stages), CALLS[name], seen, at, limits=limits)
        assert set(codes(results)) <= {None, "ABORTED", BEFORE}

    run(main)


@pytest.mark.parametrize("moment", ["start", "commit", "observer", "classifier"])
def test_ctrl_c_inside_what_a_batch_calls_is_kept_until_the_batch_has_settled(moment: str) -> None:
    """Section 4: callbacks and observers run protected, so nothing is torn; the waiting task is told. P7."""
    seen = Seen()

    def start(index: int, call: ToolCall) -> None:
        seen.start(index, call)
        if (moment, index) == ("start", 0):
            strike()

    def commit(index: int, call: ToolCall, result: ToolResult) -> None:
        seen.commit(index, call, result)
        if (moment, index) == ("commit", 0):
            strike()

    def classify(arguments: Any) -> Any:
        if moment == "classifier" and not seen.entered:
            strike()
        return "exclusive"

    async def main() -> list[ToolResult]:
        registry = ToolRegistry([waits("work", classify, seen.body)])
        registry.observe(lambda execution, result: seen.published.append(execution.call_id))
        registry.observe(
            lambda execution, result: strike() if (moment, len(seen.published)) == ("observer", 1) else None
        )
        return await struck(registry, asked("a", "b", "c"), seen, None, on_start=start, on_commit=commit)

    results = run(main)
    begun = moment in ("commit", "observer")
    assert codes(results) == ([None, "ABORTED" if "b" in seen.entered else BEFORE, BEFORE] if begun else [BEFORE] * 3)


def test_ctrl_c_in_a_batch_that_its_caller_has_cancelled_is_not_lost() -> None:
    """P5, P7: the results are those of the cancellation; the interrupt comes at the caller's next checkpoint."""
    seen, scope = Seen(), trio.CancelScope()

    async def body(arguments: Any, one: ToolRun) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(5)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(strikes_at, 1, scope.cancel)
            outcome = await run_batch(
                ToolRegistry([waits(execute=body)]), asked("a"), scope=scope, on_commit=seen.commit
            )
            assert codes(outcome.results) == ["ABORTED"]
            assert outcome.cancelled
            with pytest.raises(KeyboardInterrupt):
                await trio.lowlevel.checkpoint()
        assert trio.current_time() == 5

    run(main)
