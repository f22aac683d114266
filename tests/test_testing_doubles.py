"""Stand-ins that capture, and the report of stalled calls."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from trio_tools import (
    Ask,
    BeforeDecision,
    OutstandingCall,
    ToolCall,
    ToolExecution,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    ToolRun,
    ToolSuccess,
    tool,
)
from trio_tools.testing import GatedTool, RecordingObserver, ScriptedApprover, report_stalled_calls, run_tool


@tool
async def count(upto: int, run: ToolRun) -> int:
    """Count."""
    for number in range(upto):
        run.report_progress(number, upto)
    return upto


def test_a_recorder_takes_nothing_and_its_class_is_no_observer() -> None:
    with pytest.raises(TypeError):
        RecordingObserver(ToolRegistry())  # pyright: ignore[reportCallIssue] - on purpose
    with pytest.raises(TypeError, match="a stage must be callable, and an instance of its class"):
        ToolRegistry().observe(RecordingObserver)  # pyright: ignore[reportArgumentType] - on purpose


@pytest.mark.trio
async def test_run_tool_calls_a_tool_as_a_model_would() -> None:
    result = await run_tool(count, {"upto": 3})
    assert isinstance(result, ToolSuccess)
    assert result.value == 3
    refused = await run_tool(count)
    assert isinstance(refused, ToolFailure)
    assert refused.error.code == "INVALID_ARGS"


@pytest.mark.trio
async def test_an_observer_records_results_and_progress() -> None:
    observer, registry = RecordingObserver(), ToolRegistry([count])
    with registry.observe(observer), registry.observe_progress(observer.progress), trio.CancelScope() as scope:
        await registry.execute(ToolCall(id="c1", name="count", arguments={"upto": 2}), scope=scope)
        await registry.execute(ToolCall(id="c2", name="none"), scope=scope)
    assert [one.execution.call_id for one in observer.observed] == ["c1", "c2"]
    assert [result.is_error for result in observer.results] == [False, True]
    assert [(execution.call_id, told.progress) for execution, told in observer.reported] == [("c1", 0), ("c1", 1)]


@pytest.mark.trio
async def test_an_approver_answers_from_its_script_and_says_when_that_has_run_out() -> None:
    approver = ScriptedApprover(["allowed-once", "rejected"])
    registry = ToolRegistry([count], approver=approver)

    @registry.before
    async def ask(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
        return Ask(f"may I, {execution.call_id}?")

    results: list[ToolResult] = []
    with trio.CancelScope() as scope:
        results += [
            await registry.execute(ToolCall(id=one, name="count", arguments={"upto": 1}), scope=scope) for one in "abc"
        ]
    assert [result.is_error for result in results] == [False, True, True]
    stopped = results[2]
    assert isinstance(stopped, ToolFailure)
    assert "question 3 has no answer" in stopped.error.message
    assert [asked.reason for asked in approver.asked] == ["may I, a?", "may I, b?", "may I, c?"]


@pytest.mark.trio
async def test_a_gated_tool_holds_its_body_until_it_is_released() -> None:
    gated = GatedTool("hold", value={"done": True})
    registry, results = ToolRegistry([gated.tool]), list[Any]()

    async def one(scope: trio.CancelScope) -> None:
        results.append(await registry.execute(ToolCall(id="c1", name="hold", arguments={"n": 1}), scope=scope))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, nursery.cancel_scope)
        await gated.entered.wait()
        assert gated.arguments == [{"n": 1}]
        assert [call.stage for call in registry.outstanding()] == ["body"]
        gated.released.set()
    assert results[0].value == {"done": True}


@tool
async def stubborn() -> None:
    """Ignore a cancellation for a minute."""
    with trio.CancelScope(shield=True):
        await trio.sleep(60)


@pytest.mark.trio
async def test_stalled_calls_are_reported_once_and_then_at_doubling_intervals(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    registry, times = ToolRegistry([stubborn]), list[float]()
    caplog.set_level(logging.WARNING, "trio_tools")
    began = trio.current_time()
    caplog.handler.addFilter(lambda record: times.append(trio.current_time() - began) or True)
    async with trio.open_nursery() as nursery:
        await nursery.start(report_stalled_calls, registry)
        with trio.move_on_after(10) as scope:
            await registry.execute(ToolCall(id="c1", name="stubborn"), scope=scope)
        nursery.cancel_scope.cancel()
    assert times == [15, 20, 30, 50]  # 5, 10, 20 and 40 seconds behind the cancellation
    assert "call 'c1' to stubborn was cancelled 5 seconds ago and still runs, in stage body" in caplog.messages[0]
    assert "in stubborn" in caplog.messages[0]


@pytest.mark.parametrize("cancelled_at", [0.0, -math.inf])
@pytest.mark.trio
async def test_a_call_that_was_cancelled_at_the_beginning_of_time_is_reported(
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    cancelled_at: float,
) -> None:
    """Found: no time and time zero were one, and of a scope that nobody saw fire the time is not known."""
    monkeypatch.setattr(OutstandingCall, "cancelled_at", cancelled_at)
    registry = ToolRegistry([stubborn])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(report_stalled_calls, registry)
        with trio.move_on_after(1) as scope:
            await registry.execute(ToolCall(id="c1", name="stubborn"), scope=scope)
        nursery.cancel_scope.cancel()
    assert len(caplog.messages) == 4
    assert "was cancelled 5 seconds ago" in caplog.messages[0]


@pytest.mark.trio
async def test_calls_that_end_in_time_and_calls_that_are_not_cancelled_are_not_reported(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    registry = ToolRegistry([stubborn])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(report_stalled_calls, registry, 30)
        for cancelled_after in (31, 100):
            with trio.move_on_after(cancelled_after) as scope:
                await registry.execute(ToolCall(id="c1", name="stubborn"), scope=scope)
        nursery.cancel_scope.cancel()
    assert caplog.messages == []


@pytest.mark.parametrize("after", [0, -1, math.inf, math.nan, "5", None, True])
@pytest.mark.trio
async def test_a_time_that_is_none_is_refused(after: Any) -> None:
    with pytest.raises(ValueError, match="after must be a positive number of seconds"):
        await report_stalled_calls(ToolRegistry(), after)


@pytest.mark.trio
async def test_what_is_no_registry_and_what_is_no_tool_is_refused() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="registry takes a ToolRegistry, not None"):
        await report_stalled_calls(nothing)
    with pytest.raises(TypeError, match="not a tool: None; make one with @tool"):
        await run_tool(nothing)


@pytest.mark.trio
async def test_run_tool_makes_the_tools_of_a_registry_callable() -> None:
    @tool
    async def asks(run: ToolRun) -> object:
        result = await run.call_tool("count", {"upto": 2})
        return result.is_error

    result = await run_tool(asks, registry=ToolRegistry([count]))
    assert result.is_error is False
    assert result.value is False


@pytest.mark.parametrize(
    ("answers", "error"),
    [("rejected", TypeError), ({"rejected"}, TypeError), ({"rejected": 1}, TypeError), (["yes"], ValueError)],
)
def test_a_script_of_anything_else_than_answers_is_refused(answers: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"answers is a list, such as \['rejected'\]|one of 'allowed-once'.*not 'yes'"):
        ScriptedApprover(answers)
