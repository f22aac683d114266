"""Killed at every write and on both sides of every effect: what is true afterwards, for every point and shape."""

from __future__ import annotations

import functools
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import pytest
import trio
from crashing import Points, killed_at

from trio_tools import (
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    Accept,
    AfterDecision,
    Allow,
    BeforeDecision,
    Concurrency,
    Effects,
    ToolCall,
    ToolExecution,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    ToolSuccess,
    run_batch,
    tool,
)
from trio_tools.journal import RecoveredCall, SqliteJournal, open_journal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are forked and killed")

CALLS = 11
BatchOf = Callable[[SqliteJournal, Points, Path], Awaitable[list[ToolResult]]]


def effects(path: Path) -> list[str]:
    """What bodies have done, in order."""
    return path.read_text().split() if path.exists() else []


def registry(
    journal: SqliteJournal, points: Points, done: Path, concurrency: Concurrency, effects: Effects, *, gated: bool
) -> ToolRegistry:
    """One tool that leaves a mark in the world, which is on disk at once as far as a killed process is concerned."""

    @tool(concurrency=concurrency, effects=effects)
    async def act(number: int) -> str:
        await trio.lowlevel.checkpoint()
        points.reach()
        with done.open("a") as file:
            file.write(f"c{number}\n")
        points.reach()
        await trio.lowlevel.checkpoint()
        return f"did {number}"

    made = ToolRegistry([act], journal=journal.conversation("a"))
    if gated:

        async def allow(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
            points.reach()
            return Allow()

        async def accept(
            execution: ToolExecution, result: ToolResult, call_next: Callable[[], Awaitable[AfterDecision]]
        ) -> AfterDecision:
            points.reach()
            return Accept()

        made.before(allow)
        made.after(accept)
    return made


async def batch(
    journal: SqliteJournal,
    points: Points,
    done: Path,
    *,
    concurrency: Concurrency = "exclusive",
    effects: Effects = "mutating",
    gated: bool = False,
) -> list[ToolResult]:
    calls = [ToolCall(id=f"c{number}", name="act", arguments={"number": number}) for number in range(CALLS)]
    made = registry(journal, points, done, concurrency, effects, gated=gated)
    return list((await run_batch(made, calls, scope=trio.CancelScope(), max_parallel=4)).results)


SHAPES: dict[str, BatchOf] = {
    "one after the other": batch,
    "at once": functools.partial(batch, concurrency="parallel", gated=True),
    "with policies": functools.partial(batch, gated=True),
    "idempotent": functools.partial(batch, effects="idempotent"),
}


def judge(first: list[ToolResult], before: list[str]) -> None:
    """Hold what the next owner is told against what has happened."""
    assert len(first) == CALLS
    for number, result in enumerate(first):
        times, told = before.count(f"c{number}"), result.error.code if isinstance(result, ToolFailure) else None
        assert told in (None, TOOL_ABORTED)  # what was never entered has been made by now
        if told == TOOL_ABORTED:
            assert result.body == "interrupted"
            assert times <= 1
        else:
            assert isinstance(result, ToolSuccess)
            assert result.value == f"did {number}"


@pytest.mark.parametrize("shape", SHAPES)
def test_killed_anywhere(shape: str, tmp_path: Path) -> None:
    make, point = SHAPES[shape], 0
    while True:
        point += 1
        home = tmp_path / str(point)
        home.mkdir()
        done = home / "done"

        async def main(journal: SqliteJournal, points: Points, done: Path = done) -> None:
            await make(journal, points, done)

        if not killed_at(point, home / "j.db", main):
            break
        before = effects(done)
        then = trio.run(_afterwards, make, home / "j.db", done)
        first = then.first
        after = effects(done)
        judge(first, before)
        assert then.second == first
        for call in then.recovered:  # I3: what is told to be unentered was not
            if isinstance(call.result, ToolFailure) and call.result.error.code == TOOL_ABORTED_BEFORE_DISPATCH:
                assert call.call_id not in before
        allowed = 2 if shape == "idempotent" else 1
        for number in range(CALLS):
            assert after.count(f"c{number}") <= allowed  # no body is entered twice
            told_done = isinstance(first[number], ToolSuccess)
            assert not told_done or after.count(f"c{number}") >= 1
    assert point > 60, "that were too few points"


@attrs.frozen
class Afterwards:
    first: list[ToolResult]
    second: list[ToolResult]
    recovered: tuple[RecoveredCall, ...]


async def _afterwards(make: BatchOf, path: Path, done: Path) -> Afterwards:
    async with open_journal(path) as journal:
        recovered = journal.recovered
        first = await make(journal, Points(0), done)
        second = await make(journal, Points(0), done)
    async with open_journal(path) as journal:
        assert journal.recovered == ()  # each call has its one result
    return Afterwards(first, second, recovered)
