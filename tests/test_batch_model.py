"""Section 8 for random batches, interleavings and interferences: what must hold of each, read off a log of one run."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

import attrs
import trio
from batch_plans import BatchPlan, CallPlan, batch_plans
from batches import ending, run, sources, waits
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from trio_tools import (
    AfterDecision,
    Allow,
    BatchControl,
    BatchOutcome,
    BeforeDecision,
    Deny,
    Keyed,
    ToolCall,
    ToolError,
    ToolExecution,
    ToolRegistry,
    ToolResult,
    ToolRun,
    run_batch,
)

BEFORE = "ABORTED_BEFORE_DISPATCH"

Kind: TypeAlias = Literal[
    "start", "commit", "before", "before over", "body", "body over", "after", "after over", "published", "act"
]


@attrs.define
class Log:
    """What happened, in order: of each thing, what it was and the index of the call (or the kind of interference)."""

    entries: list[tuple[Kind, Any]] = attrs.field(factory=list[tuple[Kind, Any]])
    outcome: BatchOutcome | None = None
    caller_cancelled: bool = False
    left_over: int = -1

    def add(self, kind: Kind, index: Any) -> None:
        self.entries.append((kind, index))

    def of(self, *kinds: Kind) -> list[Any]:
        return [index for kind, index in self.entries if kind in kinds]

    def at(self, kind: Kind, index: Any) -> int | None:
        """Where that is in the log."""
        return self.entries.index((kind, index)) if (kind, index) in self.entries else None

    def span(self, kind: Kind, over: Kind, index: int) -> tuple[int, int] | None:
        begin, end = self.at(kind, index), self.at(over, index)
        assert (begin is None) == (end is None), "something was begun and not ended"
        return None if begin is None or end is None else (begin, end)


class Program:
    """Runs one plan."""

    def __init__(self, plan: BatchPlan) -> None:
        self.plan = plan
        self.log = Log()
        self.index: dict[str, int] = {}  # by id: of two calls, the first
        for index, call in enumerate(plan.calls):
            self.index.setdefault(call.id, index)
        self.registry = self.build()

    def plan_of(self, one: ToolExecution | ToolRun) -> tuple[int, CallPlan]:
        index = self.index[one.call_id]
        return index, self.plan.calls[index]

    def build(self) -> ToolRegistry:
        log = self.log

        def classify(arguments: Any) -> Any:
            if arguments["mode"] == "raises":
                raise LookupError
            return Keyed(arguments["mode"]) if arguments["mode"] in ("a", "b") else arguments["mode"]

        async def body(arguments: Any, one: ToolRun) -> str:
            index, call = self.plan_of(one)
            log.add("body", index)
            try:
                await trio.sleep(call.seconds)
            except trio.Cancelled:
                with trio.CancelScope(shield=True):
                    await trio.sleep(call.unwinds)
                raise
            finally:
                log.add("body over", index)
            if call.fails:
                raise ToolError("it broke", code="BROKE")
            return "done"

        async def before(execution: ToolExecution, call_next: Any) -> BeforeDecision:
            index, call = self.plan_of(execution)
            log.add("before", index)
            try:
                await trio.sleep(self.plan.before or 0)
            finally:
                log.add("before over", index)
            return Deny("no") if call.denied else Allow()

        async def after(
            execution: ToolExecution, result: ToolResult, call_next: Callable[[], Awaitable[AfterDecision]]
        ) -> AfterDecision:
            index, _ = self.plan_of(execution)
            log.add("after", index)
            await trio.sleep(self.plan.after or 0)
            log.add("after over", index)
            return await call_next()

        registry = ToolRegistry([waits("work", classify, body), waits("other", classify, body)])
        if self.plan.before is not None:
            registry.before(before)
        if self.plan.after is not None:
            registry.after(after)
        registry.observe(lambda execution, result: log.add("published", self.index[execution.call_id]))
        return registry

    async def main(self) -> None:
        plan, log, control, scope = self.plan, self.log, BatchControl(), trio.CancelScope()
        calls = [
            ToolCall.from_json(id=call.id, name=call.name, arguments="[1")
            if call.malformed
            else ToolCall(id=call.id, name=call.name, arguments={"mode": call.mode})
            for call in plan.calls
        ]

        async def act() -> None:
            for one in sorted(plan.acts, key=lambda one: one.at):
                await trio.sleep_until(one.at)
                if one.what == "cancel":
                    scope.cancel()
                elif one.what == "stop":
                    control.stop()
                elif not control.cancel(one.id):
                    continue
                log.add("act", one.what)

        def commit(index: int, call: ToolCall, result: ToolResult) -> None:
            log.add("commit", index)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(act)
            with scope if plan.entered else contextlib.nullcontext():
                tasks = trio.lowlevel.current_statistics().tasks_living
                log.outcome = await run_batch(
                    self.registry, calls, scope=scope, control=control, max_parallel=plan.max_parallel,
                    limits=plan.limits, fail_fast=plan.fail_fast, on_commit=commit,
                    on_start=lambda index, call: log.add("start", index),
                )  # fmt: skip
                # the task that interferes may be over by now
                log.left_over = max(0, trio.lowlevel.current_statistics().tasks_living - tasks)
                try:
                    await trio.lowlevel.checkpoint()
                except trio.Cancelled:
                    log.caller_cancelled = True
                    raise
            nursery.cancel_scope.cancel()


def check_order(plan: BatchPlan, log: Log) -> None:
    """Section 8: starts, gates, after policies and commits."""
    size = len(plan.calls)
    assert log.of("commit") == list(range(size))
    started = log.of("start")
    assert started == sorted(started)
    assert sorted(log.of("published")) == started  # once for each that is executed
    for one, over in (("before", "before over"), ("after", "after over")):
        begun, both = log.of(one), log.of(one, over)  # pyright: ignore[reportArgumentType] - literals
        assert begun == sorted(set(begun))
        assert both == [index for index in begun for _ in range(2)]  # one at a time
    for index in log.of("after"):  # its turn has come
        assert all(log.entries.index(("commit", one)) < log.entries.index(("after", index)) for one in range(index))
    index: int
    for index in started:  # exclusive ones are barriers
        if plan.calls[index].exclusive:
            begin, end = log.entries.index(("start", index)), log.entries.index(("commit", index))
            assert all(log.entries.index(("commit", one)) < begin for one in range(index))
            assert {one for kind, one in log.entries[begin:end] if kind in ("start", "body")} <= {index}


def check_overlap(plan: BatchPlan, log: Log) -> None:
    """Section 8: which bodies overlap."""
    at_work: set[int] = set()
    begun: dict[str, list[int]] = {"a": [], "b": []}
    index: int
    for kind, index in log.entries:
        if kind == "body":
            at_work.add(index)
            key = plan.calls[index].key
            if key is not None:
                begun[key].append(index)
                assert [plan.calls[one].key for one in at_work].count(key) == 1
            assert len(at_work) <= plan.max_parallel
            for name, limit in plan.limits.items():
                assert [plan.calls[one].name for one in at_work].count(name) <= limit
            assert len(at_work) == 1 or not any(plan.calls[one].exclusive for one in at_work)
        elif kind == "body over":
            at_work.remove(index)
    assert at_work == set()
    for indices in begun.values():
        assert indices == sorted(indices)


def check_results(program: Program) -> None:
    """Sections 5 and 8: the codes, and P2."""
    plan, log = program.plan, program.log
    assert log.outcome is not None
    results = log.outcome.results
    assert len(results) == len(plan.calls)
    interfered = bool(log.of("act")) or plan.fail_fast
    for index, (call, result) in enumerate(zip(plan.calls, results, strict=True)):
        code, began = ending(result), log.at("body", index) is not None
        if program.index[call.id] != index:
            assert (code, began, log.at("start", index)) == ("DUPLICATE_CALL", False, None)
        elif log.at("start", index) is None:
            assert (code, began, interfered) == (BEFORE, False, True)
        elif not call.runnable:
            assert code == ("UNKNOWN_TOOL" if call.name == "absent" else "INVALID_ARGS")
        elif began:
            own = "BROKE" if call.fails else None
            assert code in ([own, "ABORTED"] if interfered else [own])
        else:
            denied = ["DENIED"] if call.denied and plan.before is not None else []
            assert code in denied + ([BEFORE] if interfered else [])
        assert (result.body != "not-started") == began
    possible = {"cancel": "caller", "stop": "operator", "cancel call": "operator"}
    named: list[str | None] = [None, *(possible[one] for one in log.of("act")), *["sibling"] * plan.fail_fast]
    assert set(sources(results)) <= set(named)
    assert log.outcome.cancelled == ("cancel" in log.of("act"))


def check_ends(plan: BatchPlan, log: Log) -> None:
    """Section 8: nothing starts after a cancellation or a stop. P3, P5."""
    assert log.left_over == 0
    forbidden: dict[str, set[Kind]] = {"cancel": {"start", "before", "body"}, "stop": {"start"}}
    for what, kinds in forbidden.items():
        at = log.at("act", what)
        assert at is None or not kinds & {kind for kind, _ in log.entries[at:]}
    assert log.caller_cancelled == (plan.entered and log.outcome is not None and log.outcome.cancelled)


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plan=batch_plans, schedule=st.random_module())
def test_a_random_batch_keeps_the_rules(plan: BatchPlan, schedule: object) -> None:
    """Sections 5 and 8; P1, P2, P3 and P5."""
    program = Program(plan)
    run(program.main)
    assert program.registry.outstanding() == ()
    check_order(plan, program.log)
    check_overlap(plan, program.log)
    check_results(program)
    check_ends(plan, program.log)
    assert program.log.outcome is not None
    for code in {ending(result) for result in program.log.outcome.results}:
        event(f"a call ended with {code}")
