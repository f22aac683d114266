"""P1 to P6 for random pipelines, interleavings and cancellations, against an oracle that knows no Trio."""

from __future__ import annotations

import contextlib

import attrs
import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from random_oracle import Expected, Outcome, expected
from random_plans import (
    AfterPlan,
    AssignScope,
    AssignShield,
    BodyPlan,
    EnterScope,
    EnterShield,
    Fail,
    Pause,
    Pipeline,
    Retry,
    Segment,
    ShortCircuit,
    Wait,
    WrapperPlan,
    pipelines,
)
from sweep import ending
from sweep_parts import NextJudge, NextPolicy, NextWrapper

from trio_tools import (
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    Accept,
    AfterDecision,
    Allow,
    ApprovalOutcome,
    ApprovalRequest,
    AroundWrapper,
    Ask,
    BeforeDecision,
    Block,
    Deny,
    FrozenJson,
    TextContent,
    ToolCall,
    ToolDefinition,
    ToolDispatch,
    ToolError,
    ToolExecution,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    ToolRun,
    ToolSuccess,
)


async def spend(wait: Wait) -> None:
    with trio.CancelScope(shield=wait.shielded):
        await trio.sleep(wait.seconds)


class Made:
    """A pipeline, made of real stages, with what they have noted."""

    def __init__(self, plan: Pipeline) -> None:
        self.plan = plan
        self.entered = self.left = self.owned = 0
        self.published: list[tuple[str, ToolResult]] = []
        parameters = {"type": "object"}
        self.registry = ToolRegistry(
            [
                ToolDefinition(name="work", parameters=parameters, execute=self.work, timeout=plan.timeout),
                ToolDefinition(name="nested", parameters=parameters, execute=self.nested),
            ],
            approver=None if plan.person is None else self,
        )
        if plan.before is not None:
            self.registry.before(self.before)
        for wrapper in plan.wrappers:
            self.registry.around(around(wrapper))
        if plan.after is not None:
            self.registry.after(self.after)
        self.registry.observe(lambda execution, result: self.published.append((execution.call_id, result)))

    async def before(self, execution: ToolExecution, call_next: NextPolicy) -> BeforeDecision:
        plan = self.plan.before
        if plan is None or execution.name == "nested":
            return await call_next()
        await spend(plan.wait)
        match plan.then:
            case "allow":
                return Allow()
            case "deny":
                return Deny("no")
            case "ask":
                return Ask()
            case "raise":
                raise ToolError("before", code="BEFORE")

    async def request(self, ask: ApprovalRequest, /) -> ApprovalOutcome:
        assert self.plan.person is not None
        await spend(self.plan.person.wait)
        return self.plan.person.then

    async def work(self, arguments: FrozenJson, run: ToolRun) -> str:
        plan = self.plan.body
        self.entered += 1
        try:
            if plan.owned is not None:
                run.nursery.start_soon(self.own, plan.owned)
            for segment in plan.segments:
                if segment.nests:
                    await run.call_tool("nested", {"seconds": segment.wait.seconds})
                else:
                    await spend(segment.wait)
        except trio.Cancelled:
            if plan.unwinding == "raises":
                raise ToolError("half written", code="HALF")
            if plan.unwinding == "takes its time":
                await spend(Wait(3, shielded=True))
            raise
        finally:
            self.left += 1
        if plan.then == "raise":
            raise ToolError("no such row", code="NO_ROW")
        return "done"

    async def own(self, seconds: int) -> None:
        self.owned += 1
        try:
            await trio.sleep(seconds)
        finally:
            self.owned -= 1

    async def nested(self, arguments: FrozenJson, run: ToolRun) -> str:
        match arguments:
            case {"seconds": int(seconds)}:
                await trio.sleep(seconds)
                return "nested"
            case _:
                raise ValueError("no seconds")

    async def after(self, execution: ToolExecution, result: ToolResult, call_next: NextJudge) -> AfterDecision:
        plan = self.plan.after
        if plan is None or execution.name == "nested":
            return await call_next()
        await trio.sleep(plan.seconds)
        if plan.then == "raise":
            raise ToolError("after", code="BLOCKED")
        return Accept() if plan.then == "accept" else Block("secret")


def around(plan: WrapperPlan) -> AroundWrapper:
    async def wrapper(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        return await (call_next() if dispatch.name == "nested" else wrapped(plan, dispatch, call_next))

    return wrapper


async def wrapped(plan: WrapperPlan, dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
    match plan:
        case Pause():
            await spend(plan.before)
            result = await call_next()
            await spend(plan.after)
            return result
        case AssignScope():
            dispatch.scope = trio.CancelScope() if plan.deadline is None else trio.move_on_after(plan.deadline)
            return await call_next()
        case AssignShield():
            dispatch.scope = trio.CancelScope(shield=True)
            return await call_next()
        case EnterScope():
            with trio.move_on_after(plan.deadline):
                return await call_next()
            return ToolFailure.from_message("slow", code="SLOW") if plan.maps else None  # pyright: ignore[reportReturnType] - fell out of its scope
        case EnterShield():
            answers: list[ToolResult] = []
            with trio.CancelScope(shield=True):
                answers.append(await call_next())
            return answers[0]
        case Retry():
            result = await call_next()
            for _ in range(plan.times):
                if not result.is_error:
                    break
                await spend(plan.pause)
                result = await call_next()
            return result
        case Fail():
            await call_next()
            await spend(plan.wait)
            raise ToolError("lost", code="WRAPPER")
        case ShortCircuit():
            await spend(plan.wait)
            if plan.fails:
                return ToolFailure.from_message("cached", code="CACHED")
            return ToolSuccess(value="cached", content=(TextContent("cached"),))


@attrs.frozen
class Seen:
    """What came of the call."""

    result: ToolResult
    seconds: float
    left_over: int
    was_cancelled: bool  # the caller, at its next checkpoint


async def call(made: Made) -> Seen:
    plan, registry = made.plan, made.registry
    scope, outer = trio.CancelScope(), trio.CancelScope()
    results: list[ToolResult] = []
    seconds, left_over, was_cancelled = -1.0, -1, False

    async def cancel(after: float) -> None:
        await trio.sleep(after)
        if plan.how == "operator":
            for outstanding in registry.outstanding()[:1]:
                outstanding.cancel()
        elif plan.how != "deadline":
            (outer if plan.how == "around" else scope).cancel()
        await trio.sleep_forever()

    async with trio.open_nursery() as beside:
        start = trio.current_time()
        if plan.cancel_at is not None:
            beside.start_soon(cancel, plan.cancel_at)
            if plan.how == "deadline":
                scope.deadline = start + plan.cancel_at
        tasks = trio.lowlevel.current_statistics().tasks_living
        with outer, contextlib.nullcontext() if plan.how == "unentered" else scope:
            results.append(await registry.execute(ToolCall(id="c1", name="work"), scope=scope))
            left_over = trio.lowlevel.current_statistics().tasks_living - tasks
            seconds = trio.current_time() - start
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled:
                was_cancelled = True
                raise
        beside.cancel_scope.cancel()
    return Seen(results[0], seconds, left_over, was_cancelled)


def check(made: Made, seen: Seen, expect: Expected) -> None:
    plan, result = made.plan, seen.result
    cancelled = plan.cancel_at is not None and plan.cancel_at <= seen.seconds
    # P1
    assert [one for call_id, one in made.published if call_id == "c1"] == [result]
    # P2, and the outcome table
    failure = result if isinstance(result, ToolFailure) else None
    source = failure.cause.source if failure is not None and failure.cause is not None else None
    is_abort = ending(result) in (TOOL_ABORTED, TOOL_ABORTED_BEFORE_DISPATCH)
    assert (
        Outcome(
            ending(result),
            source if is_abort or ending(result) == "TOOL_TIMEOUT" else None,
            failure is not None and failure.superseded is not None,
        )
        == expect.outcome
    )
    assert result.body == expect.body or (expect.body is None and result.body != "not-started")
    assert made.entered == expect.entered
    assert (result.body == "not-started") == (made.entered == 0)
    assert not (cancelled and isinstance(result, ToolSuccess))
    # P3, P4
    assert made.entered == made.left
    assert made.owned == 0
    assert seen.left_over == 0
    assert made.registry.outstanding() == ()
    assert abs(seen.seconds - expect.seconds) < 1e-6
    # P5
    assert seen.was_cancelled == (cancelled and plan.how in ("entered", "around", "deadline"))


def run(plan: Pipeline) -> str:
    made, expect = Made(plan), expected(plan)
    check(made, trio.run(call, made, clock=trio.testing.MockClock(autojump_threshold=0)), expect)
    return expect.outcome.ending


@settings(
    max_examples=1000, derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(plan=pipelines(), schedule=st.random_module())
def test_a_random_pipeline_ends_as_the_outcome_table_says(plan: Pipeline, schedule: object) -> None:
    """P1 to P6; section 5. The order of the tasks in one pass is random too."""
    event(run(plan))


QUIET = Pipeline(
    before=None,
    person=None,
    wrappers=(),
    body=BodyPlan(segments=(), then="return", unwinding="obeys", owned=None),
    timeout=None,
    after=None,
    cancel_at=None,
    how="operator",
)
WAITS = (Segment(Wait(4)),)
FOUND = {
    "an operator cancels the pause after a failure": attrs.evolve(
        QUIET,
        wrappers=(Retry(1, Wait(2)),),
        body=BodyPlan(WAITS, "raise", "obeys", None),
        cancel_at=4 + 1 / 3,
    ),
    "an operator cancels before the after policy decides": attrs.evolve(
        QUIET, body=BodyPlan(WAITS, "return", "obeys", None), after=AfterPlan(3, "block"), cancel_at=1 / 3
    ),
    "owned work goes at once, and the body takes its time": attrs.evolve(
        QUIET, wrappers=(EnterScope(1.5, maps=False),), body=BodyPlan(WAITS, "return", "takes its time", owned=3)
    ),
    "a wrapper was first, then the timeout of a deaf body": attrs.evolve(
        QUIET,
        wrappers=(EnterScope(1.5, maps=False),),
        body=BodyPlan((Segment(Wait(4, shielded=True)),), "return", "obeys", None),
        timeout=2.5,
    ),
    "work that the body owns goes on behind a shield": attrs.evolve(
        QUIET,
        wrappers=(EnterShield(),),
        body=BodyPlan((), "return", "obeys", owned=4),
        cancel_at=1 / 3,
        how="entered",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_pipeline_that_once_ended_otherwise_ends_as_the_outcome_table_says(name: str) -> None:
    """What the search, or the sweep, has found, reduced."""
    run(FOUND[name])
