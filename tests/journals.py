"""What the tests of the journal share: three tools, and a journal of which one conversation is used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio

from trio_tools import (
    ToolCall,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    ToolRun,
    ToolSuccess,
    tool,
)
from trio_tools.journal import (
    SqliteJournal,
    open_journal,
)
from trio_tools.journal._database import all_events, reading
from trio_tools.journal._format import Event
from trio_tools.journal._writer import Writer

Main = Callable[[SqliteJournal], Awaitable[Any]]
entered: list[str] = []


@tool
async def pay(amount: int) -> str:
    entered.append("pay")
    return f"paid {amount}"


@tool(effects="read-only")
async def look(amount: int) -> str:
    entered.append("look")
    return f"seen {amount}"


@tool(effects="idempotent")
async def put(run: ToolRun, amount: int) -> str:
    entered.append("put")
    key = run.idempotency_key
    return key if key == run.idempotency_key else "another one"


def writer_of(journal: SqliteJournal) -> Writer:
    return journal._home.writer  # pyright: ignore[reportPrivateUsage] - to come in between


def call(name: str = "pay", id: str = "c1", amount: int = 3) -> ToolCall:
    return ToolCall(id=id, name=name, arguments={"amount": amount})


def opened(path: Path, main: Main, **options: Any) -> Any:
    """Run ``main`` with the journal open."""

    async def run() -> Any:
        async with open_journal(path / "j.db", **options) as journal:
            return await main(journal)

    return trio.run(run)


def executed(path: Path, *calls: ToolCall, registry: Callable[..., ToolRegistry] | None = None) -> list[ToolResult]:
    """The results of these calls, one after the other, in the conversation ``a``."""

    async def main(journal: SqliteJournal) -> list[ToolResult]:
        made = (registry or ToolRegistry)([pay, look, put], journal=journal.conversation("a"))
        return [await made.execute(one, scope=trio.CancelScope()) for one in calls]

    return opened(path, main)


def recorded(path: Path) -> list[Event]:
    with reading(path / "j.db") as connection:
        return all_events(connection)


def kinds(path: Path) -> list[tuple[str, str]]:
    return [(event.call, event.kind) for event in recorded(path)]


def crashed(path: Path, name: str, *kinds: str) -> None:
    """As if the owner had been killed when it had recorded so much of the call ``c1``."""

    async def main(journal: SqliteJournal) -> None:
        registry = ToolRegistry([pay, look, put], journal=journal.conversation("a"))
        (opening,) = await registry.begun([call(name)], course=True)
        assert opening.entry is not None
        if "dispatched" in kinds:
            await opening.entry.dispatched({"pay": pay, "look": look, "put": put}[name])
        if "ended" in kinds:
            await opening.entry.ended(ToolSuccess(value="paid", content="paid", body="finished"))

    opened(path, main)


def code(result: ToolResult) -> str | None:
    return result.error.code if isinstance(result, ToolFailure) else None
