"""All calls of one message, one after the other: one result for each, in order, whatever happens."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from trio_tools import BatchOutcome, Context, ToolCall, ToolError, ToolRegistry, ToolResult, ToolRun, run_batch, tool


@tool
async def work(run: ToolRun, seconds: float = 1, fail: bool = False) -> str:
    run.defer_context(Context(run.call_id, source="work"))
    await trio.sleep(seconds)
    if fail:
        raise ToolError("it broke", code="BROKE")
    run.conclude_turn()
    return run.call_id


def calls(*ids: str, **arguments: dict[str, Any]) -> list[ToolCall]:
    return [ToolCall(id=one, name="work", arguments=arguments.get(one, {})) for one in ids]


def codes(results: tuple[ToolResult, ...] | list[ToolResult]) -> list[str | None]:
    return [result.error.code if result.is_error is True else None for result in results]


def batch(requests: list[ToolCall], *, cancel_at: float | None = None, **options: Any) -> BatchOutcome:
    async def main() -> BatchOutcome:
        scope = trio.CancelScope() if cancel_at is None else trio.move_on_after(cancel_at)
        return await run_batch(ToolRegistry([work]), requests, scope=scope, **options)

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_every_call_has_its_result_in_the_order_of_the_calls() -> None:
    """Section 8; of two calls with one id the later one is not executed."""
    outcome = batch(calls("a", "b", "a", b={"fail": True}))
    assert codes(outcome.results) == [None, "BROKE", "DUPLICATE_CALL"]
    assert [str(context.content[0]) for context in outcome.contexts] == [
        "TextContent(text='a')",
        "TextContent(text='b')",
    ]
    assert (outcome.concludes_turn, outcome.cancelled) == (True, False)


def test_calls_that_had_not_started_when_the_batch_was_cancelled_are_aborted_before_dispatch() -> None:
    """Section 8: also by a scope that nobody had entered."""
    outcome = batch(calls("a", "b", "c"), cancel_at=1.5)
    assert codes(outcome.results) == [None, "ABORTED", "ABORTED_BEFORE_DISPATCH"]
    assert outcome.cancelled
    last = outcome.results[2]
    assert last.is_error is True
    assert last.cause is not None
    assert last.cause.source == "caller"


def test_a_failing_call_cancels_those_behind_it_if_that_is_asked_for() -> None:
    """Section 8, fail_fast: with a cause that names the failing call."""
    outcome = batch(calls("a", "b", "c", a={"fail": True}), fail_fast=True)
    assert codes(outcome.results) == ["BROKE", "ABORTED_BEFORE_DISPATCH", "ABORTED_BEFORE_DISPATCH"]
    second = outcome.results[1]
    assert second.is_error is True
    assert second.cause is not None
    assert (second.cause.source, second.cause.call_id) == ("sibling", "a")


def test_an_entered_scope_is_looked_at_and_the_callers_cancellation_is_not_eaten() -> None:
    """Section 4; P5."""
    later: list[str] = []

    outcomes: list[BatchOutcome] = []

    async def main() -> None:
        with trio.move_on_after(0.5) as scope:
            outcomes.append(await run_batch(ToolRegistry([work]), calls("a", "b"), scope=scope))
            later.append("returned")
            await trio.lowlevel.checkpoint()
            later.append("went on")

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert codes(outcomes[0].results) == ["ABORTED", "ABORTED_BEFORE_DISPATCH"]
    assert later == ["returned"]


@pytest.mark.parametrize("where", ["start", "commit"])
def test_what_a_callback_raises_comes_out_when_every_call_has_been_committed(where: str) -> None:
    """Nothing is lost: the rest is aborted and committed first."""
    committed: list[ToolResult] = []

    def start(index: int, call: ToolCall) -> None:
        if where == "start" and index == 1:
            raise OSError("disk full")

    def commit(index: int, call: ToolCall, result: ToolResult) -> None:
        committed.append(result)
        if where == "commit" and index == 0:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        batch(calls("a", "b", "c"), on_start=start, on_commit=commit)
    assert codes(committed) == [None, "ABORTED_BEFORE_DISPATCH", "ABORTED_BEFORE_DISPATCH"]


def test_an_interrupt_in_a_body_comes_out_when_every_call_has_been_committed() -> None:
    """P7, section 8."""

    @tool
    async def work() -> None:
        raise KeyboardInterrupt

    committed: list[ToolResult] = []

    async def main() -> None:
        await run_batch(
            ToolRegistry([work]),
            calls("a", "b"),
            scope=trio.CancelScope(),
            on_commit=lambda _index, _call, result: committed.append(result),
        )

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert codes(committed) == ["ABORTED", "ABORTED_BEFORE_DISPATCH"]


@pytest.mark.parametrize("bound", [0, -1, 1.5, True, "2"])
def test_a_bound_that_is_none_is_refused(bound: Any) -> None:
    """Bad input gets a clear error."""
    with pytest.raises(ValueError, match="max_parallel must be a positive integer"):
        batch(calls("a"), max_parallel=bound)


def test_an_interrupt_goes_before_an_ordinary_error_and_keeps_it_as_its_context() -> None:
    """P7: whichever callback raised first."""

    def commit(index: int, call: ToolCall, result: ToolResult) -> None:
        if index == 0:
            raise ValueError("first")
        raise SystemExit(7)

    with pytest.raises(SystemExit) as caught:
        batch(calls("a", "b"), on_commit=commit)
    assert isinstance(caught.value.__context__, ValueError)


def test_a_further_error_of_a_callback_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is lost."""

    def commit(index: int, call: ToolCall, result: ToolResult) -> None:
        raise ValueError(f"number {index}")

    with pytest.raises(ValueError, match="number 0"):
        batch(calls("a", "b"), on_commit=commit)
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_a_callback_that_is_async_is_refused_as_it_would_never_run() -> None:
    """A result that is not committed is lost."""

    async def commit(index: int, call: ToolCall, result: ToolResult) -> None: ...

    anything: Any = commit
    with pytest.raises(TypeError, match="must be a plain function"):
        batch(calls("a"), on_commit=anything)


def test_something_that_is_no_call_is_refused_before_anything_runs() -> None:
    """Bad input, and nothing is lost."""
    mixed: Any = [*calls("a"), "b"]
    with pytest.raises(TypeError, match="number 1 is 'b'"):
        batch(mixed)
