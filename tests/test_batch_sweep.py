"""P1 to P6 for batches at every possible point: each is cancelled after each step that is taken for it.

With the instrument of ``sweep``. What is checked of each run is said in :func:`judge`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import attrs
import pytest
import trio
from batches import asked, by_key, run, sources, waits
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sweep import ATTEMPTS, CancelAfterStep, ending

from trio_tools import (
    Accept,
    AfterDecision,
    ApprovalOutcome,
    ApprovalRequest,
    Ask,
    BatchControl,
    BatchOutcome,
    BeforeDecision,
    ToolCall,
    ToolDispatch,
    ToolError,
    ToolExecution,
    ToolRegistry,
    ToolResult,
    ToolRun,
    run_batch,
)

How: TypeAlias = Literal["entered", "unentered", "around", "deadline", "control", "registry", "stop"]
HOWS: tuple[How, ...] = ("entered", "unentered", "around", "deadline", "control", "registry", "stop")
CALLER = ("entered", "unentered", "around", "deadline")
CODES = {"ABORTED", "ABORTED_BEFORE_DISPATCH"}


@attrs.define(eq=False)
class World:
    """The notes of one run."""

    entered: list[str] = attrs.field(factory=list[str])
    left: list[str] = attrs.field(factory=list[str])
    late: list[str] = attrs.field(factory=list[str])  # bodies that were entered when the batch was cancelled already
    published: list[str] = attrs.field(factory=list[str])
    committed: list[int] = attrs.field(factory=list[int])
    ended: bool = False  # by whoever cancels or stops the whole batch

    async def body(self, arguments: Any, one: ToolRun) -> str:
        self.entered.append(one.call_id)
        if self.ended:
            self.late.append(one.call_id)
        try:
            if one.name == "nests":
                await one.call_tool("inner", {})
            await trio.sleep(arguments.get("seconds", 1))
        finally:
            self.left.append(one.call_id)
        if arguments.get("fails"):
            raise ToolError("it broke", code="BROKE")
        return "done"


@attrs.frozen
class Shape:
    """A batch: what is called, with which stages and options."""

    calls: list[ToolCall]
    stages: Callable[[ToolRegistry], object] = lambda registry: None
    options: dict[str, Any] = attrs.field(factory=dict[str, Any])


class Person:
    async def request(self, ask: ApprovalRequest) -> ApprovalOutcome:
        await trio.sleep(1)
        return "allowed-once"


async def before(execution: ToolExecution, call_next: Any) -> BeforeDecision:
    await trio.sleep(1)
    return await call_next()


async def asks(execution: ToolExecution, call_next: Any) -> BeforeDecision:
    return Ask()


async def around(dispatch: ToolDispatch, call_next: Any) -> ToolResult:
    with trio.CancelScope(shield=True):
        await trio.sleep(1)
    result = await call_next()
    with trio.CancelScope(shield=True):
        await trio.sleep(1)
    return result


async def after(execution: ToolExecution, result: ToolResult, call_next: Any) -> AfterDecision:
    await trio.sleep(1)
    await call_next()
    return Accept()


def keys(*some: str) -> list[ToolCall]:
    return [ToolCall(id=f"c{number}", name="keyed", arguments={"key": key}) for number, key in enumerate(some)]


PARALLEL = asked("c0", "c1", "c2")
MIXED = [*asked("c0"), *asked("c1", name="alone"), *asked("c2", name="missing"), *asked("c3", seconds=2), *asked("c3")]
KEYS = keys("x", "x", "y", "x")
SHAPES = {
    "parallel": Shape(PARALLEL),
    "exclusive": Shape(asked("c0", "c1", "c2", name="alone")),
    "mixed": Shape(MIXED),
    "keyed": Shape(KEYS),
    "keyed behind gates": Shape(KEYS, lambda registry: registry.before(before)),
    "limits": Shape([*PARALLEL, *keys("x")], options={"limits": {"work": 1}, "max_parallel": 2}),
    "after policies": Shape([*asked("c0", seconds=3), *asked("c1", "c2")], lambda registry: registry.after(after)),
    "fail fast": Shape(
        [*asked("c0", seconds=3), *asked("c1", fails=True), *keys("x", "x", "x", "x")[2:], *asked("c4", seconds=2)],
        lambda registry: registry.after(after),
        {"fail_fast": True},
    ),
    "nested": Shape(asked("c0", "c1", name="nests"), options={"max_parallel": 1}),
    "shielding wrappers": Shape(PARALLEL, lambda registry: registry.around(around), {"max_parallel": 2}),
    "approvals": Shape(keys("x", "x", "y"), lambda registry: registry.before(asks)),
    "one at a time": Shape([*keys("x", "x"), *asked("c2")], options={"max_parallel": 1}),
    "every stage": Shape(
        KEYS,
        lambda registry: (registry.before(before), registry.around(around), registry.after(after)),
        {"limits": {"keyed": 1}},
    ),
}


class Program:
    """Runs a batch that is cancelled after the given step."""

    def __init__(self, shape: Shape, how: How, step: int, victim: str) -> None:
        self.shape, self.how, self.step, self.victim = shape, how, step, victim
        self.world = World()
        self.control, self.scope, self.outer = BatchControl(), trio.CancelScope(), trio.CancelScope()
        self.outcome: BatchOutcome | None = None
        self.fired = self.was_cancelled = False
        self.steps = self.left_over = -1
        body = self.world.body
        tools = [waits(execute=body), waits("alone", "exclusive", body), waits("keyed", by_key, body)]
        self.registry = ToolRegistry([*tools, waits("nests", execute=body), waits("inner")], approver=Person())
        shape.stages(self.registry)
        self.registry.observe(
            lambda execution, result: self.world.published.append(execution.call_id) if not execution.parent else None
        )

    def cancel(self) -> None:
        self.fired = True
        self.world.ended = self.how in ("entered", "unentered", "around", "deadline")
        match self.how:
            case "control":
                self.control.cancel(self.victim)
            case "registry":
                self.registry.cancel_call(self.victim)
            case "stop":
                self.control.stop()
            case "deadline":
                self.scope.deadline = trio.current_time()
            case "around":
                self.outer.cancel()
            case _:
                self.scope.cancel()

    async def main(self) -> None:
        instrument = CancelAfterStep(self.step, self.cancel, trio.lowlevel.current_task())
        with self.outer, contextlib.nullcontext() if self.how == "unentered" else self.scope:
            tasks = trio.lowlevel.current_statistics().tasks_living
            trio.lowlevel.add_instrument(instrument)
            try:
                self.outcome = await run_batch(
                    self.registry, self.shape.calls, scope=self.scope, control=self.control,
                    on_commit=lambda index, call, result: self.world.committed.append(index), **self.shape.options,
                )  # fmt: skip
            finally:
                trio.lowlevel.remove_instrument(instrument)
            self.steps = instrument.steps
            self.left_over = trio.lowlevel.current_statistics().tasks_living - tasks
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled:
                self.was_cancelled = True
                raise


def judge(one: Program, plain: list[str]) -> None:
    """What holds whenever the batch is cancelled, and by whom. ``plain``: how its calls end if nobody does."""
    world, outcome, fired = one.world, one.outcome, one.fired
    assert outcome is not None
    # P1, section 8: one result for each, in order, told once
    ids = [call.id for call in one.shape.calls]
    assert len(outcome.results) == len(ids)
    assert world.committed == list(range(len(ids)))
    assert len(world.published) == len(set(world.published))
    # P2, P6: which tells whether the body ran; what is no abort is what it would have been
    for call_id, was, result in zip(ids, plain, outcome.results, strict=True):
        end, entered = ending(result), call_id in world.entered
        assert end == was or (fired and end in CODES)
        if was != "DUPLICATE_CALL":
            assert (result.body != "not-started") == entered
            assert end not in CODES or (end == "ABORTED") == entered
            assert not entered or call_id in world.published
        if (
            fired
            and one.how in ("control", "registry")
            and call_id != one.victim
            and not one.shape.options.get("fail_fast")
        ):
            assert end == was  # nobody else is concerned
    given = {"caller" if one.how in CALLER else "operator"} if fired else set[str]()
    assert {name for name in sources(outcome.results) if name} <= given | {"sibling"}
    # P3
    assert world.late == []
    assert sorted(world.entered) == sorted(world.left)
    assert one.left_over == 0
    assert one.registry.outstanding() == ()
    # P5
    assert outcome.cancelled == (fired and one.how in CALLER)
    assert one.was_cancelled == (fired and one.how in ("entered", "around", "deadline"))


def once(shape: Shape, how: How, step: int, victim: str) -> Program:
    program = Program(shape, how, step, victim)
    run(program.main)
    return program


# As in ``test_cancel_sweep``: Hypothesis fixes the order in which Trio runs tasks, and shrinking would tell nothing.
one_schedule = settings(max_examples=1, derandomize=True, database=None, deadline=None, phases=[Phase.generate])


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", SHAPES)
@one_schedule
@given(schedule=st.random_module())
def test_a_cancellation_after_any_step_gives_each_call_one_honest_result(name: str, how: How, schedule: object) -> None:
    """P1, P2, P3, P5, P6 and section 8: see ``judge``."""
    shape = SHAPES[name]
    victims = sorted({call.id for call in shape.calls}) if how in ("control", "registry") else [""]
    quiet = once(shape, how, 0, "")
    assert quiet.outcome is not None
    plain = [ending(result) for result in quiet.outcome.results]
    judge(quiet, plain)
    assert quiet.steps > 10
    ends: set[str] = set()
    for step, victim in itertools.product(range(1, quiet.steps + 1), victims):
        fired = next((one for one in (once(shape, how, step, victim) for _ in range(ATTEMPTS)) if one.fired), None)
        assert fired is not None, f"step {step} of {quiet.steps} was not reached"
        judge(fired, plain)
        assert fired.outcome is not None
        ends |= {ending(result) for result in fired.outcome.results}
    if how in CALLER:
        assert ends >= CODES
