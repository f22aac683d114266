"""What the last owner left: each call that has no result gets the one that is true of it.

No mark: its body was never entered. A mark, and no outcome: it may have had effects. An outcome that nobody had judged
yet is kept, and judged when the call is made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from trio_tools._lifecycle import aborted
from trio_tools._results import CancelCause, ToolResult
from trio_tools.journal._codec import decoded, encoded
from trio_tools.journal._format import Event, Row, row

__all__ = ["History", "RecoveredCall", "histories", "recovery"]

_CRASH = CancelCause(source="crash")


@attrs.frozen
class RecoveredCall:
    """A call that the last owner left without a result.

    Attributes:
        conversation: Whose it is.
        call_id: Its id.
        name: The tool.
        result: What it has been given: ``ABORTED_BEFORE_DISPATCH`` (never entered, safe to make again), ``ABORTED``
            (entered; it may have had effects), or its outcome, if its body had ended.
    """

    conversation: str
    call_id: str
    name: str
    result: ToolResult


@attrs.define
class History:
    """The records of one call.

    Attributes:
        asked: The record that began it.
        run: How often it was made once more.
        attempts: How often its body was about to be entered, over all runs.
        outcome: That of the body in this run, not yet judged.
        closed: The result of this run.
        epoch: That of the run.
        effects: What the tool was declared to have, in this run.
    """

    asked: Event
    run: int = 0
    attempts: int = 0
    outcome: Event | None = None
    closed: Event | None = None
    epoch: int = 0
    effects: str = "mutating"

    def add(self, event: Event) -> None:
        """The next record."""
        match event.kind:
            case "call" | "resumed":
                self.run, self.epoch, self.effects = event.number, event.epoch, event.data["effects"]
                self.outcome = self.closed = None
            case "dispatched":
                self.attempts += 1
                self.effects = event.data.get("effects", self.effects)
            case "ended":
                self.outcome = event
            case "result":
                self.closed = event
            case _:
                pass

    @property
    def result(self) -> ToolResult | None:
        """What the call was answered with, in this run."""
        return None if self.closed is None else decoded(self.closed.data["result"])

    def conclusion(self, cause: CancelCause = _CRASH) -> dict[str, Any]:
        """The result that is true of a call that has none and is not being made, as data of its record."""
        if self.outcome is not None:
            return {"by": "recovery", "judged": False, "result": self.outcome.data["result"]}
        result = aborted("interrupted" if self.attempts else "not-started", cause)
        return {"by": "recovery", "judged": True, "result": encoded(result)}


def histories(events: Iterable[Event]) -> dict[tuple[str, str], History]:
    """The records in order, taken together by call."""
    found: dict[tuple[str, str], History] = {}
    for event in events:
        key = event.conversation, event.call
        if key not in found:
            found[key] = History(event)
        found[key].add(event)
    return found


def recovery(events: Iterable[Event], epoch: int) -> tuple[list[Row], Sequence[RecoveredCall]]:
    """The records that close what is open, and what they say. Pure."""
    rows: list[Row] = []
    recovered: list[RecoveredCall] = []
    for (conversation, call), history in histories(events).items():
        if history.closed is None:
            data = history.conclusion()
            rows.append(row(conversation, call, "result", history.run, epoch, data))
            recovered.append(RecoveredCall(conversation, call, history.asked.data["name"], decoded(data["result"])))
    return rows, recovered
