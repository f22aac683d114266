"""P10, checked by pyright and never run: a mistake that is no error makes its ``pyright: ignore`` one."""

from collections.abc import Awaitable, Callable
from typing import assert_type

import trio

from trio_tools import (
    Accept,
    AfterDecision,
    Allow,
    BeforeDecision,
    FunctionTool,
    OutstandingCall,
    ToolCall,
    ToolDispatch,
    ToolExecution,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    ToolRun,
    ToolSuccess,
    tool,
)


async def a_call_needs_the_callers_scope(registry: ToolRegistry, call: ToolCall, run: ToolRun) -> None:
    await registry.execute(call)  # pyright: ignore[reportCallIssue] - there is no default
    await registry.execute(call, scope=None)  # pyright: ignore[reportArgumentType] - and no stand-in
    assert_type(await registry.execute(call, scope=run.scope), ToolSuccess | ToolFailure)


def views_are_read_only(execution: ToolExecution, run: ToolRun, outstanding: OutstandingCall) -> None:
    execution.agent = "me"  # pyright: ignore[reportAttributeAccessIssue] - a policy changes nothing
    run.nursery = None  # pyright: ignore[reportAttributeAccessIssue] - nor does a body
    outstanding.stage = "done"  # pyright: ignore[reportAttributeAccessIssue] - nor an operator
    execution.scope.cancel()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - a view has no cancel


def a_wrapper_may_replace_the_scope_and_not_remove_it(dispatch: ToolDispatch) -> None:
    dispatch.scope = trio.CancelScope()
    dispatch.scope = None  # pyright: ignore[reportAttributeAccessIssue] - it is required
    del dispatch.scope  # pyright: ignore[reportAttributeAccessIssue] - it stays


async def allows(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
    return Allow()


async def wraps(dispatch: ToolDispatch, call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
    return await call_next()


async def accepts(
    execution: ToolExecution, result: ToolResult, call_next: Callable[[], Awaitable[AfterDecision]]
) -> AfterDecision:
    return Accept()


async def watches(execution: ToolExecution, result: ToolResult) -> None: ...


def stages_have_their_places(registry: ToolRegistry) -> None:
    registry.before(allows)
    registry.around(wraps)
    registry.after(accepts)
    registry.before(wraps)  # pyright: ignore[reportArgumentType] - a wrapper is no gate
    registry.around(allows)  # pyright: ignore[reportArgumentType] - a gate is no wrapper
    registry.observe(watches)  # pyright: ignore[reportArgumentType] - an observer is not async
    registry.guard(allows)  # pyright: ignore[reportArgumentType] - nor is a guard


@tool
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def a_tool_can_still_be_called_as_its_function(registry: ToolRegistry) -> None:
    assert_type(add(1, b=2), int)
    add("1")  # pyright: ignore[reportArgumentType] - with its own types
    registry.register(add)
    registry.register(add.function)  # pyright: ignore[reportArgumentType] - a function is no tool


def options_keep_the_type(function: Callable[[int], str]) -> FunctionTool[[int], str]:
    return tool(timeout=5)(function)
