"""P2 for results that a stage has taken from elsewhere: an abort code tells the truth about the body of this call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from trio_tools import (
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    ToolCall,
    ToolDispatch,
    ToolError,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    tool,
)

CallNext = Callable[[], Awaitable[ToolResult]]


@tool
async def work() -> str:
    return "done"


def outcome(around: Callable[[ToolDispatch, CallNext], Awaitable[ToolResult]]) -> ToolFailure:
    async def main() -> ToolResult:
        registry = ToolRegistry([work])
        registry.around(around)
        return await registry.execute(ToolCall(id="c1", name="work"), scope=trio.CancelScope())

    result = trio.run(main)
    assert result.is_error is True
    return result


def test_the_abort_of_another_call_does_not_say_that_this_body_never_ran() -> None:
    """A fallback to another registry that was cut short before it began."""

    async def around(dispatch: ToolDispatch, call_next: CallNext) -> ToolResult:
        await call_next()
        scope = trio.CancelScope()
        scope.cancel()
        return await ToolRegistry([work]).execute(ToolCall(id="c2", name="work"), scope=scope)

    failure = outcome(around)
    assert (failure.error.code, failure.body) == (TOOL_ABORTED, "finished")
    assert failure.error.message == "tool call aborted"
    assert "before dispatch" not in str(failure.content)


@pytest.mark.parametrize("code", [TOOL_ABORTED, TOOL_ABORTED_BEFORE_DISPATCH])
def test_a_stage_that_raises_with_an_abort_code_keeps_its_words_and_gets_the_true_code(code: str) -> None:
    """Section 5: the code that the body's state demands."""

    async def around(dispatch: ToolDispatch, call_next: CallNext) -> ToolResult:
        raise ToolError("given up", code)

    failure = outcome(around)
    assert (failure.error.code, failure.error.message) == (TOOL_ABORTED_BEFORE_DISPATCH, "given up")
