"""What each view tells, and what it refuses at run time (P10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from trio_tools import (
    ToolCall,
    ToolDispatch,
    ToolExecution,
    ToolRegistry,
    ToolResult,
    ToolRun,
    tool,
)


@tool
async def work(run: ToolRun) -> str:
    return f"{run.root_call_id} {run.agent}"


def call(registry: ToolRegistry, **fields: Any) -> ToolResult:
    async def main() -> ToolResult:
        given: dict[str, Any] = {"id": "c1", "name": "work", **fields}
        return await registry.execute(ToolCall(**given), scope=trio.CancelScope())

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_every_view_of_a_call_tells_the_same_token_root_and_parent() -> None:
    """Section 3, ToolExecution."""
    seen: list[ToolExecution] = []

    async def around(dispatch: ToolDispatch, call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        seen.append(dispatch)
        return await call_next()

    registry = ToolRegistry([work])
    registry.around(around)
    registry.observe(lambda execution, result: seen.append(execution))
    assert call(registry, root_id="r0", agent="me").is_error is False
    assert {(one.root_call_id, one.agent, one.parent) for one in seen} == {("r0", "me", None)}
    assert len({id(one.token) for one in seen}) == 1
    assert seen[0].token is seen[0].token


@pytest.mark.parametrize(
    ("scope", "kind", "told"),
    [(None, TypeError, "cannot be removed"), ("entered", ValueError, "make a new one for each call_next")],
)
def test_a_scope_that_cannot_be_entered_is_refused_when_a_wrapper_assigns_it(
    scope: Any, kind: type[Exception], told: str
) -> None:
    """P10; bad input gets a clear error that says what to write instead."""
    refused: list[str] = []

    async def around(dispatch: ToolDispatch, call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        with trio.CancelScope() as entered:
            with pytest.raises(kind) as caught:
                dispatch.scope = entered if scope == "entered" else scope
            refused.append(str(caught.value))
            return await call_next()
        raise AssertionError

    registry = ToolRegistry([work])
    registry.around(around)
    assert call(registry).is_error is False
    assert told in refused[0]


def test_a_nested_call_from_a_task_that_the_body_does_not_own_is_refused() -> None:
    """P3: it could outlive the call. Also from a system task, which nobody owns."""
    refused: list[str] = []

    async def attempt(run: ToolRun) -> None:
        with pytest.raises(RuntimeError) as caught:
            await run.call_tool("work", {})
        refused.append(str(caught.value))

    async def main() -> None:
        async with trio.open_nursery() as outside:

            @tool
            async def outer(run: ToolRun) -> None:
                outside.start_soon(attempt, run)
                trio.lowlevel.spawn_system_task(attempt, run)
                await trio.testing.wait_all_tasks_blocked()

            registry = ToolRegistry([work, outer])
            result = await registry.execute(ToolCall(id="c1", name="outer"), scope=trio.CancelScope())
            assert result.is_error is False

    trio.run(main)
    assert refused == ["call_tool must be awaited by the body, before it ends, or by a task in run.nursery"] * 2


def test_an_interrupt_in_a_nested_call_leaves_as_itself_and_both_calls_are_published() -> None:
    """P1, P7."""
    published: list[tuple[str, bool]] = []

    @tool
    async def stops() -> None:
        raise KeyboardInterrupt

    @tool
    async def outer(run: ToolRun) -> None:
        await run.call_tool("stops", {})

    registry = ToolRegistry([stops, outer])
    registry.observe(lambda execution, result: published.append((execution.call_id, result.is_error)))
    with pytest.raises(KeyboardInterrupt):
        call(registry, name="outer")
    assert published == [("c1:1", True), ("c1", True)]


def test_a_stage_that_was_taken_back_is_passed_no_more_and_taking_it_back_twice_is_harmless() -> None:
    """Section 3, Registration."""
    registry = ToolRegistry([work])
    guard = registry.guard(lambda execution: "closed on Sundays")
    assert call(registry).is_error is True
    guard.close()
    guard.close()
    assert call(registry).is_error is False


def test_an_observer_may_cancel_a_call_that_is_over_and_nothing_happens() -> None:
    """An outstanding call may be cancelled in whatever stage it is."""
    registry = ToolRegistry([work])

    def cancels(execution: ToolExecution, result: ToolResult) -> None:
        for one in registry.outstanding():
            one.cancel()

    registry.observe(cancels)
    result = call(registry, name="nobody")
    assert result.is_error is True
    assert result.error.code == "UNKNOWN_TOOL"


def test_text_arguments_that_are_empty_mean_none_and_those_that_do_not_fit_are_all_told() -> None:
    """Sections 3 and 6."""

    @tool
    async def add(a: int = 1, b: int = 1) -> str:
        return f"{a} + {b} = ü"

    async def main(text: str) -> ToolResult:
        request = ToolCall.from_json(id="c1", name="add", arguments=text)
        return await ToolRegistry([add]).execute(request, scope=trio.CancelScope())

    good, bad = trio.run(main, ""), trio.run(main, '{"a": "1", "b": null}')
    assert good.is_error is False
    assert good.value == "1 + 1 = ü"
    assert bad.is_error is True
    assert "$.a" in bad.error.message
    assert "$.b" in bad.error.message
