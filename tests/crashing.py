"""Programs that are killed: forked, so that there can be many, and ended by a real SIGKILL."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from trio_tools.journal import SqliteJournal, open_journal
from trio_tools.journal._writer import Writer


class Points:
    """The places at which a program can be killed, counted from 1; at number ``fatal`` it is."""

    def __init__(self, fatal: int) -> None:
        self.passed = 0
        self._fatal = fatal

    def reach(self) -> None:
        """A place."""
        self.passed += 1
        if self.passed == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)


def killed_at(point: int, path: Path, main: Callable[[SqliteJournal, Points], Any]) -> bool:
    """Run ``main`` in a process of its own, with a journal; whether it was killed before it ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _run(point, path, main)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "the program has failed by itself"
    return False


def _run(point: int, path: Path, main: Callable[[SqliteJournal, Points], Any]) -> None:
    points = Points(point)
    written = Writer._written  # pyright: ignore[reportPrivateUsage] - each commit has two sides

    def both_sides(writer: Writer, requests: Any) -> bool:
        points.reach()
        answer = written(writer, requests)
        points.reach()
        return answer

    setattr(Writer, "_written", both_sides)  # noqa: B010 - this process ends with it

    async def run() -> None:
        async with open_journal(path) as journal:
            await main(journal, points)

    trio.run(run)
