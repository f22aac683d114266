"""P3: nothing of a call goes on when the call is over, and nothing of it can be used any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import attrs
import pytest
import trio
import trio.testing
from sweep import ending

from trio_tools import (
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    AfterDecision,
    Allow,
    BeforeDecision,
    Context,
    FrozenJson,
    Progress,
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
    tool,
)

T = TypeVar("T")
Body: TypeAlias = Callable[[FrozenJson, ToolRun], Awaitable[object]]
NextPolicy: TypeAlias = Callable[[], Awaitable[BeforeDecision]]
NextWrapper: TypeAlias = Callable[[], Awaitable[ToolResult]]
NextJudge: TypeAlias = Callable[[], Awaitable[AfterDecision]]

LONG = 1000.0  # virtual seconds: more than anything here may take
EARLY = ToolSuccess(value="early", content=(TextContent("early"),))


class Elsewhere:
    """Runs things in tasks that no call owns, and notes what becomes of them."""

    def __init__(self, foreign: trio.Nursery) -> None:
        self._foreign = foreign
        self.running = 0
        self.answers: list[object] = []
        self.errors: list[Exception] = []

    async def start(self, work: Callable[[], Awaitable[object]]) -> None:
        """Give back when ``work`` has begun."""
        await self._foreign.start(self._run, work)

    async def _run(
        self, work: Callable[[], Awaitable[object]], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        self.running += 1
        task_status.started()
        try:
            self.answers.append(await work())
        except Exception as error:
            self.errors.append(error)
        finally:
            self.running -= 1


@attrs.frozen
class Ended:
    """What the caller has seen."""

    result: ToolResult
    seconds: float
    running: int  # elsewhere, when the call was over


async def make_call(registry: ToolRegistry, elsewhere: Elsewhere, *, cancel_at: float | None = None) -> Ended:
    with trio.CancelScope() as scope:
        start = trio.current_time()
        if cancel_at is not None:
            scope.deadline = start + cancel_at
        result = await registry.execute(ToolCall(id="c1", name="work"), scope=scope)
        return Ended(result, trio.current_time() - start, elsewhere.running)
    raise AssertionError("execute raised Cancelled")


def run(main: Callable[[Elsewhere], Awaitable[T]]) -> T:
    """Run ``main`` beside a nursery that no call owns, under a clock that jumps."""

    async def with_nursery() -> T:
        async with trio.open_nursery() as foreign:
            result = await main(Elsewhere(foreign))
            foreign.cancel_scope.cancel()
        return result

    return trio.run(with_nursery, clock=trio.testing.MockClock(autojump_threshold=0))


def registry_for(body: Body) -> ToolRegistry:
    return ToolRegistry([ToolDefinition(name="work", parameters={"type": "object"}, execute=body)])


async def forever(arguments: FrozenJson, run: ToolRun) -> None:
    await trio.sleep(LONG)


async def at_once(arguments: FrozenJson, run: ToolRun) -> str:
    return "done"


async def owns_work(arguments: FrozenJson, run: ToolRun) -> str:
    run.nursery.start_soon(trio.sleep, LONG)
    return "started"


async def passes_late(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
    await trio.sleep(LONG)
    return await call_next()


# ---- call_next left running ------------------------------------------------------------------------------------------

LEFT: dict[str, tuple[Body, bool]] = {
    "the body": (forever, False),
    "work that the body owns": (owns_work, False),
    "a wrapper further in": (at_once, True),
}


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("leaving", ["answers", "raises", "is cancelled"])
def test_what_a_wrapper_leaves_running_in_a_foreign_task_is_cancelled_and_waited_for(left: str, leaving: str) -> None:
    """P3: when execute returns, every task of the body and of the wrappers has finished. P4: and that at once."""
    body, inner_waits = LEFT[left]

    async def main(elsewhere: Elsewhere) -> Ended:
        async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
            await elsewhere.start(call_next)
            await trio.sleep(1 if leaving != "is cancelled" else LONG)
            if leaving == "raises":
                raise ToolError("lost", code="LOST")
            return EARLY

        registry = registry_for(body)
        registry.around(around)
        if inner_waits:
            registry.around(passes_late)
        return await make_call(registry, elsewhere, cancel_at=1 if leaving == "is cancelled" else None)

    ended = run(main)
    aborted = TOOL_ABORTED_BEFORE_DISPATCH if inner_waits else TOOL_ABORTED
    assert ended.running == 0
    assert ended.seconds == 1
    assert ending(ended.result) == {"answers": "success", "raises": "LOST", "is cancelled": aborted}[leaving]
    assert (ended.result.body == "not-started") == inner_waits


def test_clean_up_of_what_a_wrapper_left_behind_is_waited_for() -> None:
    """P3: work is never abandoned, also when it takes its time to end."""
    notes: list[str] = []

    async def body(arguments: FrozenJson, run: ToolRun) -> None:
        try:
            await trio.sleep(LONG)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)
            notes.append("clean")

    async def main(elsewhere: Elsewhere) -> Ended:
        async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
            await elsewhere.start(call_next)
            await trio.sleep(1)
            return EARLY

        registry = registry_for(body)
        registry.around(around)
        return await make_call(registry, elsewhere, cancel_at=3)

    ended = run(main)
    assert notes == ["clean"]
    assert ended.seconds == 6
    assert ending(ended.result) == TOOL_ABORTED  # the early success came from a wrapper, and then the caller cancelled
    assert ended.result.body == "interrupted"


def test_what_a_wrapper_raises_counts_more_than_the_abort_of_what_it_left_behind() -> None:
    """P6; section 5, "wrapper raises": that failure, also if an outer wrapper is then unwound."""

    async def main(elsewhere: Elsewhere) -> Ended:
        async def waits_afterwards(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
            try:
                return await call_next()
            except ToolError:
                await trio.sleep(LONG)
                raise

        async def raises(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
            await elsewhere.start(call_next)
            await trio.sleep(1)
            raise ToolError("lost", code="LOST")

        registry = registry_for(forever)
        registry.around(waits_afterwards)
        registry.around(raises)
        return await make_call(registry, elsewhere, cancel_at=2)

    ended = run(main)
    assert ended.seconds == 2
    assert ending(ended.result) == "LOST"


@pytest.mark.parametrize("cancel_at", [None, 2.0], ids=["nobody cancels", "the caller cancels"])
def test_a_policy_that_another_one_leaves_asking_is_cancelled_and_waited_for(cancel_at: float | None) -> None:
    """P3, P4: the before stage is interruptible."""

    async def main(elsewhere: Elsewhere) -> Ended:
        async def leaves(execution: ToolExecution, call_next: NextPolicy) -> BeforeDecision:
            await elsewhere.start(call_next)
            await trio.sleep(1)
            return Allow()

        async def asks(execution: ToolExecution, call_next: NextPolicy) -> BeforeDecision:
            await trio.sleep(LONG)
            return await call_next()

        registry = registry_for(at_once)
        registry.before(leaves)
        registry.before(asks)
        return await make_call(registry, elsewhere, cancel_at=cancel_at)

    ended = run(main)
    assert ended.running == 0
    assert ended.seconds <= 2


def test_an_after_policy_that_another_one_leaves_deciding_is_waited_for() -> None:
    """P3; the after stage is not interrupted."""

    async def main(elsewhere: Elsewhere) -> Ended:
        async def leaves(execution: ToolExecution, result: ToolResult, call_next: NextJudge) -> AfterDecision:
            await elsewhere.start(call_next)
            raise ToolError("blocked", code="BLOCKED")

        async def decides(execution: ToolExecution, result: ToolResult, call_next: NextJudge) -> AfterDecision:
            await trio.sleep(5)
            return await call_next()

        registry = registry_for(at_once)
        registry.after(leaves)
        registry.after(decides)
        return await make_call(registry, elsewhere, cancel_at=2)

    ended = run(main)
    assert ended.running == 0
    assert ended.seconds == 5
    assert ending(ended.result) == "BLOCKED"


# ---- call_next used wrongly ------------------------------------------------------------------------------------------


def stages(kept: list[Callable[[], Awaitable[object]]]) -> dict[str, Callable[[ToolRegistry], object]]:
    """For each kind of stage one that keeps its ``call_next``."""

    async def before(execution: ToolExecution, call_next: NextPolicy) -> BeforeDecision:
        kept.append(call_next)
        return await call_next()

    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        kept.append(call_next)
        return await call_next()

    async def after(execution: ToolExecution, result: ToolResult, call_next: NextJudge) -> AfterDecision:
        kept.append(call_next)
        return await call_next()

    return {
        "before": lambda registry: registry.before(before),
        "around": lambda registry: registry.around(around),
        "after": lambda registry: registry.after(after),
    }


@pytest.mark.parametrize("kind", ["before", "around", "after"])
def test_call_next_cannot_be_used_when_its_stage_has_returned(kind: str) -> None:
    """P2, P3: no body is entered, and no stage asked, behind the back of the call."""
    entered: list[str] = []
    kept: list[Callable[[], Awaitable[object]]] = []

    async def body(arguments: FrozenJson, run: ToolRun) -> None:
        entered.append(run.call_id)

    async def use(when: str) -> None:
        with pytest.raises(RuntimeError, match="call_next was used after its stage had returned"):
            await kept[0]()
        used.append(when)

    used: list[str] = []

    async def main(elsewhere: Elsewhere) -> None:
        registry = registry_for(body)

        async def outermost(execution: ToolExecution, result: ToolResult, call_next: NextJudge) -> AfterDecision:
            decision = await call_next()
            await use("during the call")
            return decision

        registry.after(outermost)
        stages(kept)[kind](registry)
        ended = await make_call(registry, elsewhere)
        assert ending(ended.result) == "success"
        await use("after the call")

    run(main)
    assert entered == ["c1"]
    assert used == ["during the call", "after the call"]


def test_call_next_cannot_be_awaited_while_it_is_running() -> None:
    """Section 3: again after it has returned (a retry), not concurrently."""
    entered: list[str] = []

    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        entered.append(run.call_id)
        await trio.sleep(1)
        return "done"

    async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
        answers: list[ToolResult] = []

        async def first() -> None:
            answers.append(await call_next())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(RuntimeError, match="call_next is still running"):
                await call_next()
            refused.append(True)
        answers.append(await call_next())
        return answers[-1]

    refused: list[bool] = []

    async def main(elsewhere: Elsewhere) -> Ended:
        registry = registry_for(body)
        registry.around(around)
        return await make_call(registry, elsewhere)

    ended = run(main)
    assert ending(ended.result) == "success"
    assert refused == [True]
    assert entered == ["c1", "c1"]
    assert ended.seconds == 2


# ---- the run, used wrongly -------------------------------------------------------------------------------------------


def nesting(body: Body) -> ToolRegistry:
    registry = registry_for(body)
    registry.register(ToolDefinition(name="nested", parameters={"type": "object"}, execute=at_once))
    return registry


def test_a_nested_call_cannot_be_made_when_the_body_has_ended() -> None:
    """P3: a nested call would outlive the one that made it."""
    runs: list[ToolRun] = []
    told: list[str] = []

    async def body(arguments: FrozenJson, run: ToolRun) -> None:
        runs.append(run)

    async def main(elsewhere: Elsewhere) -> None:
        async def after(execution: ToolExecution, result: ToolResult, call_next: NextJudge) -> AfterDecision:
            with pytest.raises(RuntimeError, match="call_tool must be awaited by the body"):
                await runs[0].call_tool("nested", {})
            return await call_next()

        registry = nesting(body)
        registry.after(after)
        registry.observe(lambda execution, result: told.append(execution.call_id))
        ended = await make_call(registry, elsewhere)
        assert ending(ended.result) == "success"
        with pytest.raises(RuntimeError, match="call_tool must be awaited by the body"):
            await runs[0].call_tool("nested", {})

    run(main)
    assert told == ["c1"]


@pytest.mark.parametrize("where", ["outside the call", "beside the body, in a wrapper's nursery"])
def test_a_nested_call_cannot_be_made_by_a_foreign_task(where: str) -> None:
    """P3: the call could not wait for it."""
    told: list[str] = []

    async def main(elsewhere: Elsewhere) -> Ended:
        nurseries: list[trio.Nursery] = []

        async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
            async with trio.open_nursery() as nursery:
                nurseries.append(nursery)
                return await call_next()
            raise AssertionError("nobody cancels this nursery")

        async def body(arguments: FrozenJson, run: ToolRun) -> str:
            async def nest() -> ToolResult:
                return await run.call_tool("nested", {})

            await (elsewhere if where == "outside the call" else Elsewhere(nurseries[0])).start(nest)
            await trio.testing.wait_all_tasks_blocked()
            return "done"

        registry = nesting(body)
        registry.around(around)
        registry.observe(lambda execution, result: told.append(execution.call_id))
        return await make_call(registry, elsewhere)

    assert ending(run(main).result) == "success"
    assert told == ["c1"]


def test_a_nested_call_in_the_nursery_of_the_body_ends_before_the_call() -> None:
    """P3: cancelled with the call, drained first."""
    order: list[tuple[str, str]] = []

    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        async def nest() -> None:
            await run.call_tool("slow", {})

        run.nursery.start_soon(nest)
        await trio.sleep(1)
        return "done"

    async def main(elsewhere: Elsewhere) -> Ended:
        registry = registry_for(body)
        registry.register(ToolDefinition(name="slow", parameters={"type": "object"}, execute=forever))
        registry.observe(lambda execution, result: order.append((execution.call_id, ending(result))))
        return await make_call(registry, elsewhere, cancel_at=3)

    ended = run(main)
    assert order == [("c1:1", TOOL_ABORTED), ("c1", TOOL_ABORTED)]
    assert ended.seconds == 3


@pytest.mark.parametrize("when", ["while the after policies decide", "after the call"])
def test_what_a_body_puts_out_when_it_has_ended_is_dropped(when: str) -> None:
    """P1, P8: the result is settled, and nobody is told of progress that belongs to no call."""
    runs: list[ToolRun] = []
    progress: list[Progress] = []

    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        runs.append(run)
        run.report_progress(1)
        run.defer_context(Context("kept", source="body"))
        return "done"

    def put_out() -> None:
        runs[0].emit("late")
        runs[0].defer_context(Context("late", source="body"))
        runs[0].report_progress(2)
        runs[0].conclude_turn()

    async def main(elsewhere: Elsewhere) -> ToolResult:
        async def after(execution: ToolExecution, result: ToolResult, call_next: NextJudge) -> AfterDecision:
            if when == "while the after policies decide":
                put_out()
            return await call_next()

        registry = registry_for(body)
        registry.after(after)
        registry.observe_progress(lambda execution, one: progress.append(one))
        result = (await make_call(registry, elsewhere)).result
        if when == "after the call":
            put_out()
        return result

    result = run(main)
    assert isinstance(result, ToolSuccess)
    assert [context.content for context in result.contexts] == [(TextContent("kept"),)]
    assert not result.concludes_turn
    assert progress == [Progress(1)]


def test_what_a_body_puts_out_when_an_attempt_has_ended_is_not_in_the_next_one() -> None:
    """Section 5, retry: the last attempt counts."""
    runs: list[ToolRun] = []

    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        runs.append(run)
        runs[0].emit(f"by the first run, in attempt {len(runs)}")
        runs[0].defer_context(Context(f"attempt {len(runs)}", source="body"))
        await trio.sleep(LONG if len(runs) == 2 else 1)
        raise ToolError("try again")

    async def main(elsewhere: Elsewhere) -> ToolResult:
        async def around(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
            await call_next()
            return await call_next()

        registry = registry_for(body)
        registry.around(around)
        return (await make_call(registry, elsewhere, cancel_at=5)).result

    result = run(main)
    assert isinstance(result, ToolFailure)
    assert ending(result) == TOOL_ABORTED
    assert result.partial == ()
    assert result.contexts == ()


def test_the_scope_of_a_call_that_is_over_is_no_scope_for_another_call() -> None:
    """Section 4: it would silently cancel nothing."""
    runs: list[ToolRun] = []

    async def body(arguments: FrozenJson, run: ToolRun) -> None:
        runs.append(run)

    async def main(elsewhere: Elsewhere) -> None:
        registry = registry_for(body)
        await make_call(registry, elsewhere)
        with pytest.raises(RuntimeError, match="has been answered"):
            await registry.execute(ToolCall(id="c2", name="work"), scope=runs[0].scope)

    run(main)
    assert len(runs) == 1


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_a_function_that_waits_for_a_thread_never_starts_when_it_is_cancelled_meanwhile() -> None:
    """Section 4, waiting."""
    entered: list[bool] = []

    @tool
    def work() -> None:
        entered.append(True)

    async def main(elsewhere: Elsewhere) -> Ended:
        limiter = trio.CapacityLimiter(1)
        limiter.acquire_on_behalf_of_nowait("somebody else")
        registry = ToolRegistry([work], thread_limiter=limiter)
        ended = await make_call(registry, elsewhere, cancel_at=2)
        assert limiter.borrowed_tokens == 1
        return ended

    ended = run(main)
    assert ending(ended.result) == TOOL_ABORTED_BEFORE_DISPATCH
    assert entered == []
    assert ended.seconds == 2
