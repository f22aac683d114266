"""What the person sees of the loop. It knows nothing of how calls run: it is told, and prints."""

from __future__ import annotations

import io
import json
import os
import sys
import textwrap
from collections import Counter
from typing import cast

import trio
from _history import Assistant, Request, text_of
from rich.console import Console
from rich.text import Text

from trio_tools import (
    DENIED,
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    TOOL_TIMEOUT,
    FrozenJson,
    Progress,
    ToolExecution,
    ToolResult,
    ToolSuccess,
)

__all__ = ["Screen"]

TOLD_LINES = 3
STYLES = {
    "ok": ("✓", "green"),
    DENIED: ("⊘", "yellow"),
    TOOL_TIMEOUT: ("◷", "magenta"),
    TOOL_ABORTED: ("■", "blue"),
    TOOL_ABORTED_BEFORE_DISPATCH: ("□", "blue"),
}
OTHERWISE = ("✗", "red")


class _Page(Console):
    def on_broken_pipe(self) -> None:
        """Nobody reads on, as behind ``| head``: fall silent, and let the program come to its honest end."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Screen:
    """Prints one line for each thing that happens, cut at the width of the terminal."""

    def __init__(self) -> None:
        stdout = cast("io.TextIOWrapper[io.BufferedWriter] | None", sys.stdout)
        if stdout is not None:
            stdout.reconfigure(errors="replace")  # what the terminal's encoding lacks is shown as a question mark
        self._console = _Page(highlight=False, markup=False, emoji=False)
        self.in_question = False  # a question has been written, and its line not ended by an answer
        self._started: dict[str, float] = {}
        self._codes: Counter[str] = Counter()

    # ---- the conversation --------------------------------------------------------------------------------------------

    def opening(self, directory: str, approvals: str) -> None:
        """The head of the page."""
        self._line(("An agent loop on trio_tools", "bold"), (f" in {directory}", "dim"))
        self._line((f"approvals: {approvals}", "dim"))
        self._line(("Ctrl-C cancels the turn that is running; pressed again, it ends the program", "dim"))

    def turn(self, number: int, prompt: str) -> None:
        """A turn begins."""
        self._console.print()
        self._console.rule(Text(f"turn {number}", style="bold"), align="left", style="dim")
        self._line(("user   ", "bold cyan"), prompt)

    def model(self, message: Assistant) -> None:
        """The model has said something."""
        asks = f" [asks for {len(message.calls)}]" if message.calls else ""
        self._line(("model  ", "bold cyan"), message.text, (asks, "dim"))

    def notice(self, text: str) -> None:
        """Something that neither of them has said."""
        self._line((text, "bold yellow"))

    # ---- the calls ---------------------------------------------------------------------------------------------------

    def started(self, request: Request) -> None:
        """A call starts."""
        self._started[request.id] = trio.current_time()
        self._line("  → ", (request.name, "bold"), f" {request.arguments}")

    def wrote(self, execution: ToolExecution, progress: Progress) -> None:
        """A running command has written something: its last line."""
        lines = progress.message.splitlines()
        self._line(("    ┊ ", "dim"), (lines[-1] if lines else "", "dim"))

    def decided(self, question: FrozenJson, decision: str, by: str) -> None:
        """A call that a policy asked about is approved or not."""
        self._line("  ? ", (decision, "bold"), f" {by}: ", (json.dumps(question), "dim"))

    def result(self, request: Request, result: ToolResult) -> None:
        """A call has its result."""
        if request.id in self._started:
            took = f"{trio.current_time() - self._started.pop(request.id):.2f} s"
        else:
            self._line("  → ", (request.name, "bold"), f" {request.arguments}")
            took = "never started"
        code = _code(result)
        self._codes[code] += 1
        sign, style = STYLES.get(code, OTHERWISE)
        self._line(f"  {sign} ", (code, f"bold {style}"), (f"  {took} · body {result.body}{_cause(result)}", style))
        self._told(text_of(result.content))

    def _told(self, text: str) -> None:
        width = max(20, self._console.width - 10)
        lines = [part for line in text.splitlines() for part in textwrap.wrap(line, width) or [""]]
        for number, line in enumerate(lines[:TOLD_LINES]):
            self._line(("    told  " if number == 0 else "          ", "dim"), line)
        if len(lines) > TOLD_LINES:
            self._line((f"          and {len(lines) - TOLD_LINES} more lines", "dim"))

    # ---- the end -----------------------------------------------------------------------------------------------------

    def report(self, started: int, published: int, answered: int, faults: list[str]) -> None:
        """What has come of all the calls."""
        self._console.print()
        self._console.rule(Text("report", style="bold"), align="left", style="dim")
        for code, count in sorted(self._codes.items(), key=lambda item: (item[0] != "ok", item)):
            sign, style = STYLES.get(code, OTHERWISE)
            self._line((f"  {sign} {code:24}", style), f"{count:3}")
        if faults:
            self._line(("NOT every call has exactly one result:", "bold red"))
            for fault in faults:
                self._line((f"  {fault}", "red"))
        else:
            self._line(("every call has exactly one result", "bold green"))
        self._line((f"{started} calls started · {published} results published · {answered} in the history", "dim"))

    def _line(self, *parts: str | tuple[str, str]) -> None:
        if self.in_question:
            self._console.print()
            self.in_question = False
        shown = [_printable(part) if isinstance(part, str) else (_printable(part[0]), part[1]) for part in parts]
        self._console.print(Text.assemble(*shown), no_wrap=True, overflow="ellipsis")


def _code(result: ToolResult) -> str:
    if isinstance(result, ToolSuccess):
        return "ok"
    return result.error.code or result.error.name or "failed"


def _cause(result: ToolResult) -> str:
    cause = None if isinstance(result, ToolSuccess) else result.cause
    if cause is None:
        return ""
    return f" · cancelled by {cause.source}" + (f" ({cause.reason})" if cause.reason else "")


def _printable(text: str) -> str:
    """Text of others must not steer the terminal."""
    return "".join(sign if sign.isprintable() else "�" for sign in text.expandtabs(4))
