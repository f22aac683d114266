"""A batch that others stop, or of which they cancel a call: before, during and after, wherever the call is."""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from batches import asked, by_key, codes, run, sources, wait, waits

from trio_tools import (
    BatchControl,
    BeforeDecision,
    CancelCause,
    ToolCall,
    ToolExecution,
    ToolRegistry,
    ToolResult,
    ToolRun,
    run_batch,
)

BEFORE = "ABORTED_BEFORE_DISPATCH"
THREE = asked("a", "b", "c")


async def gate(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
    """A policy that lets everything pass: calls with one have a task before they may work."""
    return await call_next()


def registry_of(concurrency: Any = "parallel", *, gated: bool = False, execute: Any = wait) -> ToolRegistry:
    registry = ToolRegistry([waits(concurrency=concurrency, execute=execute)])
    if gated:
        registry.before(gate)
    return registry


def led(
    registry: ToolRegistry, act: Callable[[BatchControl], object], *, at: float = 0.5, **options: Any
) -> tuple[list[str | None], list[str | None], float]:
    """Three calls; at that time somebody does something with the control. Codes, sources, and how long it took."""

    async def main() -> tuple[list[str | None], list[str | None], float]:
        control = BatchControl()

        async def other() -> None:
            await trio.sleep(at)
            act(control)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            outcome = await run_batch(registry, THREE, scope=trio.CancelScope(), control=control, **options)
            assert not outcome.cancelled
            took = trio.current_time()
        assert registry.outstanding() == ()
        return codes(outcome.results), sources(outcome.results), took

    return run(main)


# ---- stop ------------------------------------------------------------------------------------------------------------


def test_a_stop_lets_what_has_started_go_on_and_starts_nothing_more() -> None:
    """The rest is aborted before dispatch, by the operator; the caller is not cancelled."""
    got = led(registry_of(), lambda control: control.stop("enough"), max_parallel=2)
    assert got == ([None, None, BEFORE], [None, None, "operator"], 1)


@pytest.mark.parametrize("gated", [False, True])
def test_a_stop_lets_calls_go_on_that_queue_for_their_key(gated: bool) -> None:
    """They have started."""
    assert led(registry_of(by_key, gated=gated), lambda control: control.stop()) == ([None] * 3, [None] * 3, 3)


def test_a_stop_before_the_batch_begins_holds_and_one_after_its_end_does_nothing() -> None:
    """No stage is passed; the first reason is kept."""
    published: list[ToolResult] = []
    registry = registry_of()
    registry.observe(lambda execution, result: published.append(result))

    async def main() -> None:
        control, late = BatchControl(), BatchControl()
        control.stop("first")
        control.stop("second")
        outcome = await run_batch(registry, THREE, scope=trio.CancelScope(), control=control)
        assert codes(outcome.results) == [BEFORE] * 3
        stopped = CancelCause(source="operator", reason="first")
        assert [result.cause for result in outcome.results if result.is_error is True] == [stopped] * 3
        assert published == []
        outcome = await run_batch(registry, THREE, scope=trio.CancelScope(), control=late)
        late.stop()
        assert codes(outcome.results) == [None] * 3
        assert not late.cancel("a")

    run(main)


def test_a_cancellation_after_a_stop_ends_what_still_runs() -> None:
    """What had not started stays the operator's."""

    async def main() -> None:
        control = BatchControl()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(later, control)
            scope = trio.move_on_after(0.7)
            outcome = await run_batch(registry_of(), THREE, scope=scope, control=control, max_parallel=2)
        assert codes(outcome.results) == ["ABORTED", "ABORTED", BEFORE]
        assert sources(outcome.results) == ["caller", "caller", "operator"]
        assert outcome.cancelled

    async def later(control: BatchControl) -> None:
        await trio.sleep(0.5)
        control.stop()

    run(main)


@pytest.mark.parametrize("when", ["start", "commit"])
def test_a_callback_may_stop_its_batch(when: str) -> None:
    """Nothing starts behind it; what has started goes on."""
    control = BatchControl()

    def start(index: int, call: ToolCall) -> None:
        if (when, index) == ("start", 0):
            control.stop()

    def commit(index: int, call: ToolCall, result: ToolResult) -> None:
        if (when, index) == ("commit", 0):
            control.stop()

    async def main() -> list[str | None]:
        options: dict[str, Any] = {"control": control, "on_start": start, "on_commit": commit}
        registry = registry_of("parallel" if when == "start" else "exclusive")
        return codes((await run_batch(registry, THREE, scope=trio.CancelScope(), **options)).results)

    assert run(main) == [None, BEFORE, BEFORE]


# ---- one call --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("concurrency", "gated", "expected", "took"),
    [
        ("parallel", False, [None, "ABORTED", None], 1),
        ("exclusive", False, [None, BEFORE, None], 2),
        (by_key, False, [None, BEFORE, None], 2),
        (by_key, True, [None, BEFORE, None], 2),
    ],
    ids=["at work", "unstarted", "queued", "queued behind gates"],
)
@pytest.mark.parametrize("at", [0, 0.5])
def test_one_call_is_cancelled_wherever_it_is_and_the_others_go_on(
    concurrency: Any, gated: bool, expected: list[str | None], took: float, at: float
) -> None:
    """Its result names the operator; a second time changes nothing."""
    answers: list[bool] = []

    def act(control: BatchControl) -> None:
        answers.extend(control.cancel("b", "not that") for _ in range(2))
        answers.append(control.cancel("nobody"))

    got = led(registry_of(concurrency, gated=gated), act, at=at or 0.001)
    assert got == (expected, [None, "operator", None], took)
    assert answers == [True, True, False]


def test_a_call_that_has_its_result_is_not_cancelled_any_more() -> None:
    """The answer says so."""
    answers: list[bool] = []

    def act(control: BatchControl) -> None:
        answers.append(control.cancel("a"))

    got = led(registry_of("exclusive"), act, at=1.5)
    assert got == ([None] * 3, [None] * 3, 3)
    assert answers == [False]


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("concurrency", ["parallel", "exclusive", by_key])
@pytest.mark.parametrize("gated", [False, True])
def test_a_callback_may_cancel_a_call_at_the_moment_in_which_it_would_be_granted(
    index: int, concurrency: Any, gated: bool
) -> None:
    """Section 8; found: a call that left its queue by a cancellation was granted a slot, and the batch hung."""
    control = BatchControl()

    def commit(number: int, call: ToolCall, result: ToolResult) -> None:
        if number == index:
            control.cancel("c")

    async def main() -> list[str | None]:
        registry = registry_of(concurrency, gated=gated)
        outcome = await run_batch(registry, THREE, scope=trio.CancelScope(), control=control, on_commit=commit)
        return codes(outcome.results)

    got = run(main)
    assert got[:2] == [None, None]
    assert got[2] in ([None, "ABORTED"] if concurrency == "parallel" else [BEFORE])


@pytest.mark.parametrize("steps", range(8))
@pytest.mark.parametrize("by", ["control", "registry"])
def test_a_call_may_be_granted_while_it_leaves_its_queue_cancelled(steps: int, by: str) -> None:
    """Section 8; found: the batch hung. The slot is given back when the call is answered."""

    async def main() -> list[str | None]:
        control = BatchControl()

        async def body(arguments: Any, one: ToolRun) -> str:
            if one.call_id == "a":
                await trio.sleep(1)
                assert control.cancel("b") if by == "control" else registry.cancel_call("b")
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
            return "done"

        registry = registry_of(by_key, gated=True, execute=body)
        outcome = await run_batch(registry, THREE, scope=trio.CancelScope(), control=control, max_parallel=2)
        return codes(outcome.results)

    assert run(main) == [None, BEFORE, None]


def test_a_call_that_is_cancelled_as_it_starts_is_not_kept_in_a_queue() -> None:
    """Section 8: it has its result at once, however long the call takes whose key it wants."""
    control, seen = BatchControl(), list[tuple[str, float]]()
    registry = registry_of(by_key)
    registry.observe(lambda execution, result: seen.append((execution.call_id, trio.current_time())))

    def start(index: int, call: ToolCall) -> None:
        if index == 1:
            control.cancel("b")

    async def main() -> list[str | None]:
        outcome = await run_batch(registry, THREE, scope=trio.CancelScope(), control=control, on_start=start)
        return codes(outcome.results)

    assert run(main) == [None, BEFORE, None]
    assert seen == [("b", 0), ("a", 1), ("c", 2)]


def test_of_two_calls_with_the_cancelled_id_the_first_is_cancelled_and_the_other_stays_a_duplicate() -> None:
    """Section 8."""

    async def main() -> list[str | None]:
        control = BatchControl()
        calls = asked("a", "b", "b")

        async def other() -> None:
            assert control.cancel("b")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            outcome = await run_batch(registry_of("exclusive"), calls, scope=trio.CancelScope(), control=control)
        return codes(outcome.results)

    assert run(main) == [None, BEFORE, "DUPLICATE_CALL"]


# ---- wrong use -------------------------------------------------------------------------------------------------------


def test_a_control_leads_one_batch() -> None:
    """A second one is refused before anything of it runs."""

    async def main() -> None:
        control, started = BatchControl(), list[int]()
        await run_batch(registry_of(), [], scope=trio.CancelScope(), control=control)
        with pytest.raises(RuntimeError, match="make a new one"):
            await run_batch(
                registry_of(), THREE, scope=trio.CancelScope(), control=control,
                on_start=lambda index, call: started.append(index),
            )  # fmt: skip
        assert started == []

    run(main)


def test_a_control_is_refused_outside_of_trio() -> None:
    """In no run, and in a worker thread of one: with words that say what to do."""
    control = BatchControl()
    with pytest.raises(RuntimeError, match=r"from_thread\.run_sync"):
        control.stop()

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"from_thread\.run_sync"):
            await trio.to_thread.run_sync(control.cancel, "a")
        assert not control.cancel("a")
        outcome = await run_batch(registry_of(), THREE, scope=trio.CancelScope(), control=control)
        assert codes(outcome.results) == [None] * 3

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.01))


def test_a_stop_inside_a_classifier_holds_for_the_call_that_is_classified() -> None:
    control = BatchControl()

    def classify(arguments: Any) -> Any:
        control.stop()
        return "parallel"

    async def main() -> list[str | None]:
        calls = asked("a", "b")
        outcome = await run_batch(
            ToolRegistry([waits(concurrency=classify)]), calls, scope=trio.CancelScope(), control=control
        )
        return codes(outcome.results)

    assert run(main) == ["ABORTED_BEFORE_DISPATCH"] * 2


def test_who_cancels_a_call_that_queues_puts_nothing_into_the_context_of_others() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="the caller's")
    seen: list[str] = []
    control = BatchControl()

    async def body(arguments: Any, one: ToolRun) -> None:
        await trio.sleep(1)
        if one.call_id == "a":
            variable.set("a's")
            control.cancel("c")

    async def main() -> None:
        registry = ToolRegistry([waits(execute=body)])
        registry.observe(lambda execution, result: seen.append(variable.get()) if execution.call_id != "a" else None)
        await run_batch(registry, asked("a", "b", "c"), scope=trio.CancelScope(), limits={"work": 1}, control=control)

    run(main)
    assert seen == ["the caller's"] * 2


def test_what_a_callback_puts_into_a_context_variable_is_seen_by_no_call() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="the caller's")
    seen: list[str] = []

    async def body(arguments: Any, one: ToolRun) -> None:
        seen.append(variable.get())

    def start(index: int, call: ToolCall) -> None:
        variable.set("on_start's")

    async def main() -> None:
        await run_batch(ToolRegistry([waits(execute=body)]), asked("a", "b"), scope=trio.CancelScope(), on_start=start)

    run(main)
    assert seen == ["the caller's"] * 2
