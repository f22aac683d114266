"""A stage of each kind around one tool."""

from collections.abc import Awaitable, Callable

import trio

from trio_tools import (
    AfterDecision,
    BeforeDecision,
    Block,
    Deny,
    ToolCall,
    ToolDispatch,
    ToolExecution,
    ToolRegistry,
    ToolResult,
    tool,
)


@tool
async def read_note(name: str) -> str:
    """Read a note."""
    await trio.sleep(0.2)
    return f"{name}: the password is hunter2"


async def no_secrets(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
    match execution.arguments:
        case {"name": "secret"}:
            return Deny("that note is private")
        case _:
            return await call_next()  # what the policies further in decide; behind the last one stands Allow()


async def three_attempts(dispatch: ToolDispatch, call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
    for _ in range(2):
        dispatch.scope = trio.move_on_after(0.1)  # one attempt; the registry enters it, the caller still gets through
        result = await call_next()
        if not result.is_error:
            return result
    return await call_next()


async def redact(
    execution: ToolExecution, result: ToolResult, call_next: Callable[[], Awaitable[AfterDecision]]
) -> AfterDecision:
    if result.is_error is False and "password" in str(result.value):
        return Block("the note has a password in it; ask for another one")
    return await call_next()


async def main() -> None:
    registry = ToolRegistry([read_note])
    registry.before(no_secrets)
    registry.around(three_attempts)
    registry.after(redact)
    registry.observe(lambda execution, result: print(execution.name, execution.arguments, result.body, result.content))
    with trio.CancelScope() as scope:
        for number, name in enumerate(["secret", "shopping"]):
            await registry.execute(
                ToolCall(id=f"call_{number}", name="read_note", arguments={"name": name}), scope=scope
            )


trio.run(main)
