"""What a sweep found, for programs and as a table."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from itertools import groupby
from typing import Literal, TypeAlias, get_args

import attrs

from trio_tools._columns import columns
from trio_tools._results import ToolResult

__all__ = ["MODES", "Breach", "CancelPoint", "CancelReport", "Mode", "Rule"]

Mode: TypeAlias = Literal["cancel", "deadline", "raise"]
"""What happens at the k-th point: the caller is cancelled, its deadline passes (both after the k-th step of the
scheduler), or the k-th call that a body or a stage awaits raises :class:`InjectedError`. Those that clean up do not."""

MODES: tuple[Mode, ...] = get_args(Mode)

Rule: TypeAlias = Literal[
    "no-result",
    "two-results",
    "task-left",
    "thread-left",
    "file-left",
    "socket-left",
    "process-left",
    "swallowed",
    "no-checkpoint",
    "too-many-steps",
    "too-long",
    "state-left",
    "check-failed",
]
"""What is broken; ``"file-left"`` stands for whatever has a descriptor and is no socket, and for
temporary directories that are left to the collector."""


@attrs.frozen
class Breach:
    """One rule that was broken.

    Attributes:
        rule: Which.
        text: How.
        where: ``"file:line in function"``, where that could be found out.
    """

    rule: Rule
    text: str
    where: str | None = None

    def __str__(self) -> str:
        return f"{self.where or '(line unknown)'}: {self.rule}: {self.text}"


@attrs.frozen
class CancelPoint:
    """One run.

    Attributes:
        at: The step, or the awaited call, at which it was disturbed; 0: it was not.
        results: What the calls gave back.
        steps_after: Steps of the scheduler from there to the end; 0 if it was not disturbed.
        breaches: What was wrong.
    """

    at: int
    results: tuple[ToolResult, ...]
    steps_after: int
    breaches: tuple[Breach, ...]

    @property
    def outcome(self) -> str:
        """The code of each result, or how else it ended."""
        return ", ".join(map(_outcome, self.results)) or "no result"

    @property
    def body(self) -> str:
        """How far each body was."""
        return ", ".join(result.body for result in self.results) or "?"


@attrs.frozen
class CancelReport:
    """All runs of one sweep; ``print`` it.

    Attributes:
        mode: What disturbed them.
        points: The undisturbed run, then one for each point.
        remarks: What is to be known of it, and is no fault of the code.
    """

    mode: Mode
    points: tuple[CancelPoint, ...]
    remarks: tuple[str, ...] = ()

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """Everything that was wrong: each place and rule once; where no place is known, each text, but for names."""
        found: dict[tuple[str, str], Breach] = {}
        told = [breach for point in self.points for breach in point.breaches]
        placed = {(breach.rule, _nameless(breach.text)) for breach in told if breach.where is not None}
        for breach in told:
            text = _nameless(breach.text)
            if breach.where is not None or (breach.rule, text) not in placed:
                found.setdefault((breach.rule, breach.where or text), breach)
        return tuple(found.values())

    @property
    def table(self) -> str:
        """A row for each point; like ones that follow one another are one row."""
        unit = "await" if self.mode == "raise" else "step"
        rows = [(unit, "outcome", "body", "steps left", "")]
        for (outcome, body, rules), group in groupby(self.points, key=_alike):
            points = list(group)
            left = [point.steps_after for point in points]
            rows.append((_span([point.at for point in points]), outcome, body, _span(sorted({*left})), rules))
        return "\n".join([f"{self.mode} at each of {len(self.points) - 1} points", *columns(rows)])

    def __str__(self) -> str:
        return "\n".join([*(f"  {breach}" for breach in self.breaches), self.table, *self.remarks])


def _nameless(text: str) -> str:
    """The text without numbers and names that are made up in each run."""
    return re.sub(rf"{tempfile.gettempprefix()}[a-z0-9_]{{8}}|\d+", "", text)


def _outcome(result: ToolResult) -> str:
    return (result.error.code or result.error.name or "failure") if result.is_error is True else "success"


def _alike(point: CancelPoint) -> tuple[str, str, str]:
    first = "undisturbed: " if point.at == 0 else ""
    rules = ", ".join(sorted({breach.rule for breach in point.breaches}))
    return first + point.outcome, point.body, rules and f"BROKEN: {rules}"


def _span(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"
