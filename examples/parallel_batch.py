"""Thirty calls of one message, live: what runs, what waits, what is done. Ctrl-C shows what became of each.

    python examples/parallel_batch.py [--speed 1.0] [--picture timeline.html]

At the end there is a picture of it all: one HTML file, to be opened in any browser.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio
from _timeline import Row, page
from rich.console import Console
from rich.live import Live
from rich.table import Table

from trio_tools import (
    CallCommitted,
    CallFinished,
    CallStarted,
    FrozenJson,
    Keyed,
    ToolCall,
    ToolDispatch,
    ToolError,
    ToolRegistry,
    ToolResult,
    stream_batch,
    tool,
)

LIMITS = {"search": 2}
STYLES = {"waiting": "dim", "running": "cyan", "done": "green"}


def by_path(arguments: FrozenJson) -> Keyed:
    match arguments:
        case {"path": str(path)}:
            return Keyed(path)
        case _:
            raise TypeError("no path")


@tool(concurrency="parallel", timeout=1.5)
async def fetch(page: str, seconds: float) -> str:
    """Fetch a page; any number at once."""
    await trio.sleep(seconds)
    return f"the text of {page}"


@tool(concurrency="parallel")
async def search(words: str, seconds: float) -> list[str]:
    """Search; the service allows two at once."""
    await trio.sleep(seconds)
    if words == "flaky":
        raise ToolError("the service answered 503", code="E_SERVICE")
    return [words.upper()]


@tool(concurrency=by_path)
async def edit(path: str, seconds: float) -> str:
    """Edit a file: one edit of a file after the other, different files at once."""
    await trio.sleep(seconds)
    return f"{path} edited"


@tool
async def migrate(step: int, seconds: float) -> str:
    """Change everything: nothing else at the same time."""
    await trio.sleep(seconds)
    return f"step {step} done"


def thirty_calls() -> list[ToolCall]:
    """What a model may ask for in one message."""
    wanted: list[ToolCall] = []

    def want(name: str, **arguments: object) -> None:
        wanted.append(ToolCall(id=f"call_{len(wanted) + 1}", name=name, arguments=arguments))

    for number in range(6):
        want("fetch", page=f"/{number}", seconds=0.3 + 0.3 * number)
        want("search", words="flaky" if number == 3 else f"word {number}", seconds=0.5)
        want("edit", path=f"file{number % 2}.txt", seconds=0.4)
        want("edit", path="file0.txt", seconds=0.2)
        if number in (2, 4):
            want("migrate", step=number, seconds=0.4)
    want("fetch", page="/last", seconds=0.2)
    want("fetch", page="/very last", seconds=0.2)
    want("serch", words="typo")  # what models do, too
    want("fetch", page=7, seconds=0.1)
    return wanted


def lane_of(call: ToolCall) -> str:
    return {"search": "limited", "edit": "keyed", "migrate": "exclusive"}.get(call.name, "parallel")


class Board:
    """What is known of each call, and how it is shown."""

    def __init__(self, calls: list[ToolCall]) -> None:
        self.rows = {call.id: Row(f"{call.id} {call.name}", lane_of(call)) for call in calls}
        self.began = trio.current_time()

    def now(self) -> float:
        return trio.current_time() - self.began

    async def watch(self, dispatch: ToolDispatch, call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """A wrapper: it is reached when a call goes to work."""
        row = self.rows[dispatch.call_id]
        row.at_work = self.now()
        try:
            return await call_next()
        finally:
            row.answered = self.now()

    def note(self, event: CallStarted | CallFinished | CallCommitted) -> None:
        row = self.rows[event.call.id]
        match event:
            case CallStarted():
                row.started = self.now()
            case CallFinished(result=result) | CallCommitted(result=result):
                row.code = (result.error.code or result.error.name) if result.is_error is True else None
                if isinstance(event, CallCommitted):
                    row.committed = self.now()

    def state(self, row: Row) -> str:
        if row.answered is not None or row.committed is not None:
            return "done"
        return "waiting" if row.at_work is None else "running"

    def table(self) -> Table:
        """By lane: what waits, runs and is done."""
        table = Table(title="30 calls of one message", expand=False)
        for heading in ("lane", *STYLES):
            table.add_column(heading, style=STYLES.get(heading))
        for lane in ("parallel", "limited", "keyed", "exclusive"):
            rows = [row for row in self.rows.values() if row.lane == lane]
            cells = [
                " ".join(row.name.split()[0].removeprefix("call_") for row in rows if self.state(row) == state)
                for state in STYLES
            ]
            table.add_row(lane, *cells)
        return table

    def verdicts(self) -> Table:
        """What became of each."""
        table = Table(title="What became of each", expand=False)
        for heading in ("call", "lane", "outcome", "at work"):
            table.add_column(heading)
        for row in self.rows.values():
            worked = "" if row.at_work is None or row.answered is None else f"{row.answered - row.at_work:.2f} s"
            table.add_row(row.name, row.lane, row.outcome, worked, style="green" if row.code is None else "red")
        return table


async def batch(console: Console, picture: Path) -> bool:
    """Make the calls; whether each has exactly one result."""
    calls = thirty_calls()
    board = Board(calls)
    registry = ToolRegistry([fetch, search, edit, migrate])
    registry.around(board.watch)
    scope = trio.CancelScope()  # not entered: cancelling it ends the calls, and we go on
    async with trio.open_nursery() as nursery:
        await nursery.start(cancel_on_ctrl_c, scope)
        with Live(board.table(), console=console, auto_refresh=False) as live:
            async with stream_batch(registry, calls, scope=scope, max_parallel=8, limits=LIMITS) as events:
                async for event in events:
                    board.note(event)
                    live.update(board.table(), refresh=True)
        nursery.cancel_scope.cancel()
    console.print(board.verdicts())
    outcome = events.outcome
    title = f"{len(calls)} calls of one message, {'cancelled' if outcome.cancelled else 'done'}"
    await trio.Path(picture).write_text(page(list(board.rows.values()), title))
    console.print(f"{len(outcome.results)} calls, {len(outcome.results)} results; the picture is in {picture}")
    return len(outcome.results) == len(calls) and all(row.committed is not None for row in board.rows.values())


async def cancel_on_ctrl_c(scope: trio.CancelScope, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel("Ctrl-C")


class Faster(trio.abc.Clock):
    """Trio's own clock, so many times as fast."""

    def __init__(self, speed: float) -> None:
        self._speed = speed

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return time.perf_counter() * self._speed

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return max(0, deadline - self.current_time()) / self._speed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--speed", type=float, default=1.0, help="how many times as fast (default: 1.0)")
    parser.add_argument("--picture", type=Path, default=Path("timeline.html"), help="where to write it")
    options = parser.parse_args()
    if options.speed <= 0:
        parser.error("--speed must be more than 0, such as 2.5")
    return 0 if trio.run(batch, Console(), options.picture, clock=Faster(options.speed)) else 1


if __name__ == "__main__":
    sys.exit(main())
