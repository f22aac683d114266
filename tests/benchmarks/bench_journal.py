"""What a durable call costs, as a ratio to a bare INSERT and commit of one record on the same file in the same run."""

from __future__ import annotations

import itertools
import math
import sqlite3
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
from measuring import Measure, medians, run

from trio_tools import ToolCall, ToolRegistry, tool
from trio_tools._execution import Facts
from trio_tools._scope import Cancellation
from trio_tools.journal import SqliteJournal, open_journal
from trio_tools.journal._format import INSERT, row

OPERATIONS = 20  # in one round
AT_ONCE = 1_000
ROUNDS = 15

_ids = itertools.count()


@tool
async def work() -> None:
    """Do nothing."""


def calls(registry: ToolRegistry) -> Callable[[], Awaitable[int]]:
    async def one_after_the_other() -> int:
        for _ in range(OPERATIONS):
            await registry.execute(ToolCall(id=f"c{next(_ids)}", name="work"), scope=trio.CancelScope())
        return OPERATIONS

    return one_after_the_other


def crowd(registry: ToolRegistry) -> Callable[[], Awaitable[int]]:
    async def at_once() -> int:
        async with trio.open_nursery() as nursery:

            async def one() -> None:
                await registry.execute(ToolCall(id=f"c{next(_ids)}", name="work"), scope=nursery.cancel_scope)

            for _ in range(AT_ONCE):
                nursery.start_soon(one)
        return AT_ONCE

    return at_once


def floor(journal: SqliteJournal) -> Callable[[], Awaitable[int]]:
    """One record and one commit, by the thread that owns the file, which does nothing else."""

    def insert(connection: sqlite3.Connection) -> int:
        for _ in range(OPERATIONS):
            record = row("floor", f"f{next(_ids)}", "call", 0, 0, {"effects": "mutating"})
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(INSERT, record)
            connection.execute("COMMIT")
        return OPERATIONS

    async def bare() -> int:
        return await journal._home.writer.ask(insert)  # pyright: ignore[reportPrivateUsage] - the same connection

    return bare


def hooks(registry: ToolRegistry) -> Callable[[], Awaitable[int]]:
    """What a call without a journal does because there are some: it asks five times whether it has one."""
    facts, stages = Facts(ToolCall(id="c", name="work"), Cancellation(trio.CancelScope(), math.inf)), registry.stages()

    async def asked() -> int:
        for _ in range(OPERATIONS):
            assert stages.journal is None
            assert facts.entry is None
            assert facts.entry is None
            assert facts.entry is None
            assert facts.entry is None
        return OPERATIONS

    return asked


async def everything() -> list[Measure]:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as home:
        async with open_journal(Path(home) / "bench.journal") as journal:
            registry = ToolRegistry([work], journal=journal.conversation("bench"))
            bare = ToolRegistry([work])
            subjects = {"floor": floor(journal), "alone": calls(registry), "at once": crowd(registry)}
            subjects |= {"bare": calls(bare), "hooks": hooks(bare)}
            await medians(2, subjects)
            seconds = await medians(ROUNDS, subjects)
    return [
        Measure("a durable call, alone", seconds["alone"] / seconds["floor"], 2.5),
        Measure("each of 1,000 durable calls at once", seconds["at once"] / seconds["floor"], 0.15),
        Measure("without a journal: 1, and what its hooks add", 1 + seconds["hooks"] / seconds["bare"], 1.02),
    ]


if __name__ == "__main__":
    sys.exit(run(everything, __doc__ or ""))
