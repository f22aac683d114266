"""Calls that are recorded, disturbed at every step: each has one result, and it is the one that is in the journal."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import pytest
import trio

from trio_tools import (
    Accept,
    AfterDecision,
    Allow,
    BeforeDecision,
    ToolCall,
    ToolExecution,
    ToolRegistry,
    ToolResult,
    run_batch,
    tool,
)
from trio_tools.journal import SqliteJournal, list_conversations, open_journal
from trio_tools.testing import CancelReport, Mode, cancel_everywhere


@tool
async def work(number: int) -> int:
    await trio.lowlevel.checkpoint()
    await trio.lowlevel.checkpoint()
    return number


def made(journal: SqliteJournal, *, gated: bool) -> ToolRegistry:
    registry = ToolRegistry([work], journal=journal.conversation("a"))
    if gated:

        @registry.before
        async def allow(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
            await trio.lowlevel.checkpoint()
            return Allow()

        @registry.after
        async def accept(
            execution: ToolExecution, result: ToolResult, call_next: Callable[[], Awaitable[AfterDecision]]
        ) -> AfterDecision:
            await trio.lowlevel.checkpoint()
            return Accept()

    return registry


async def swept(path: Path, mode: Mode, calls: int, *, gated: bool) -> CancelReport:
    """A batch of so many calls, with new ids in each run; after it, each is asked for again, and replayed."""
    numbers = itertools.count()
    async with open_journal(path) as journal:
        registry = made(journal, gated=gated)
        asked: list[ToolCall] = []
        told: list[ToolResult] = []

        async def make_calls(scope: trio.CancelScope) -> tuple[ToolResult, ...]:
            asked[:] = [
                ToolCall(id=f"c{number}", name="work", arguments={"number": number})
                for number in itertools.islice(numbers, calls)
            ]
            told[:] = (await run_batch(registry, asked, scope=scope)).results
            return tuple(told)

        @asynccontextmanager
        async def replayed() -> AsyncGenerator[None]:
            yield
            again = await run_batch(registry, asked, scope=trio.CancelScope())
            assert [*again.results] == told

        return await cancel_everywhere(make_calls, mode=mode, registry=registry, setup=replayed, code=[work])


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("calls", [1, 3])
@pytest.mark.parametrize("mode", get_args(Mode))
def test_at_every_step_the_result_is_the_one_that_is_recorded(
    mode: Mode, calls: int, gated: bool, tmp_path: Path
) -> None:
    report = trio.run(lambda: swept(tmp_path / "j", mode, calls, gated=gated))
    assert not report.breaches, report
    if mode != "raise":
        assert {"success", "ABORTED"} <= {code for point in report.points for code in point.outcome.split(", ")}
        assert any("ABORTED_BEFORE_DISPATCH" in point.outcome for point in report.points)
    (summary,) = list_conversations(tmp_path / "j")
    assert summary.open == 0
