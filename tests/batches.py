"""What the tests of batches share: a clock, small tools, and what a result tells in a word."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

import outcome
import trio
import trio.testing

from trio_tools import FrozenJson, Keyed, ToolCall, ToolDefinition, ToolFailure, ToolResult, ToolRun

__all__ = ["PATIENCE", "asked", "by_key", "codes", "ending", "run", "sources", "waits"]

T = TypeVar("T")

PATIENCE = 10_000.0
"""Virtual seconds after which a batch that hangs is a failure. Trio's own cancellation would not end one."""

OBJECT = {"type": "object"}


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run ``main`` on a virtual clock. A batch that hangs is an error, though no cancellation would end it."""

    async def guarded() -> T:
        trio.lowlevel.spawn_system_task(_watchdog, trio.lowlevel.current_task())
        return await main()

    return trio.run(guarded, clock=trio.testing.MockClock(autojump_threshold=0))


async def _watchdog(task: trio.lowlevel.Task) -> None:
    await trio.sleep(PATIENCE)
    trio.lowlevel.reschedule(task, outcome.Error(AssertionError("the batch hangs")))


def by_key(arguments: Any) -> Keyed:
    """A classifier."""
    return Keyed(arguments.get("key"))


async def wait(arguments: Any, run: ToolRun) -> str:
    """A body: waits for ``seconds`` (1)."""
    await trio.sleep(arguments.get("seconds", 1))
    return run.call_id


def waits(
    name: str = "work",
    concurrency: Any = "parallel",
    execute: Callable[[FrozenJson, ToolRun], Awaitable[object]] = wait,
) -> ToolDefinition:
    """A tool."""
    return ToolDefinition(name=name, parameters=OBJECT, execute=execute, concurrency=concurrency)


def asked(*ids: str, name: str = "work", **arguments: object) -> list[ToolCall]:
    """Calls with these ids, all alike."""
    return [ToolCall(id=one, name=name, arguments=arguments) for one in ids]


def ending(result: ToolResult) -> str | None:
    """The code of a failure, or the name of its error; ``None`` for a success."""
    return (result.error.code or result.error.name) if isinstance(result, ToolFailure) else None


def codes(results: Iterable[ToolResult]) -> list[str | None]:
    return [ending(result) for result in results]


def sources(results: Iterable[ToolResult]) -> list[str | None]:
    """Whose scope ended each call."""
    causes = [result.cause if isinstance(result, ToolFailure) else None for result in results]
    return [None if cause is None else cause.source for cause in causes]
