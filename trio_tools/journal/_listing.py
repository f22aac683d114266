"""A journal for people: which conversations there are, and what became of the calls of one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from trio_tools._columns import columns
from trio_tools._text import is_well_formed
from trio_tools.journal._database import reading
from trio_tools.journal._failures import JournalError
from trio_tools.journal._format import SELECT, SELECT_CONVERSATION, Event, events
from trio_tools.journal._recovery import History, RecoveredCall, histories

__all__ = ["ConversationSummary", "events_of", "list_conversations", "listing", "recovered_lines", "showing"]

_LONGEST = 60  # signs of a text in a table


@attrs.frozen
class ConversationSummary:
    """One conversation of a journal.

    Attributes:
        id: Its id.
        calls: How many calls it has;
        open: and how many of them have no result: they are being made, or a crash has left them.
        began: When its first record was written, and
        latest: its last one; seconds since 1970.
    """

    id: str
    calls: int
    open: int
    began: float
    latest: float


def list_conversations(path: str | os.PathLike[str]) -> list[ConversationSummary]:
    """The conversations of a journal, in the order in which they began. Reads at any time; blocks.

    Raises:
        JournalError: If there is no journal, or of another format.
        JournalDamagedError: If it is not whole.
    """
    found: dict[str, list[Event]] = {}
    with reading(Path(path)) as connection:
        for event in events(connection.execute(SELECT)):
            found.setdefault(event.conversation, []).append(event)
    return [_summary(name, records) for name, records in found.items()]


def events_of(path: str | os.PathLike[str], conversation: str) -> list[Event]:
    """The records of one conversation. Reads at any time; blocks.

    Raises:
        JournalError: If there is no journal, or of another format, or no such conversation in it.
        JournalDamagedError: If it is not whole.
    """
    found: list[Event] = []
    with reading(Path(path)) as connection:
        if is_well_formed(conversation):  # else it can have no such name
            found = list(events(connection.execute(SELECT_CONVERSATION, (conversation,))))
    if not found:
        raise JournalError(f"{path} has no conversation {conversation!r}: see those that it has with list")
    return found


def listing(summaries: Iterable[ConversationSummary]) -> list[str]:
    """A table of conversations."""
    rows = [("conversation", "calls", "open", "began", "latest")]
    rows += [(_safe(one.id), str(one.calls), str(one.open), _time(one.began), _time(one.latest)) for one in summaries]
    return columns(rows)


def showing(records: Sequence[Event]) -> list[str]:
    """A table of the calls of one conversation."""
    last = {(one.conversation, one.call): one.wall for one in records}
    rows = [("call", "tool", "asked", "seconds", "outcome", "told")]
    rows += [_call(history, last[key]) for key, history in histories(records).items()]
    return columns(rows)


def recovered_lines(calls: Sequence[RecoveredCall]) -> list[str]:
    """A table of what the last owner left without a result."""
    rows = [("conversation", "call", "tool", "outcome")]
    for one in calls:
        result = one.result
        code = (result.error.code or "failure") if result.is_error is True else "success, not yet judged"
        rows.append((_safe(one.conversation), _safe(one.call_id), _short(one.name), code))
    return columns(rows)


def _summary(name: str, records: Sequence[Event]) -> ConversationSummary:
    found = histories(records).values()
    walls = [one.wall for one in records]
    return ConversationSummary(name, len(found), sum(one.closed is None for one in found), walls[0], walls[-1])


def _call(history: History, last: float) -> tuple[str, ...]:
    asked = history.asked
    name = _short(asked.data["name"])
    took = f"{max(0.0, last - asked.wall):.3f}"
    return _safe(asked.call), name, _time(asked.wall), took, *_outcome(history)


def _outcome(history: History) -> tuple[str, str]:
    if history.closed is None:
        state = "its body has been entered" if history.attempts else "its body has not been entered"
        return "open", f"{state}; being made, or left by a crash: see recover"
    data: dict[str, Any] = history.closed.data
    result: dict[str, Any] = data["result"]
    notes = [] if data["by"] == "live" else ["by recovery"]
    notes += [f"{history.run} times made again"] if history.run else []
    notes += [f"{history.attempts} attempts"] if history.attempts > history.run + 1 else []
    error: dict[str, Any] = result.get("error") or {}
    code: str = "success" if not error else (error.get("code") or error.get("name") or "failure")
    return code, "; ".join([*notes, *([_short(error["message"])] if error else [])])


def _time(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%d %H:%M:%S") + "Z"


def _safe(text: str) -> str:
    """Safe for a terminal; whole, as an id is to be pasted back."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _short(text: str) -> str:
    """Safe for a terminal, and not too long."""
    safe = _safe(text)
    return safe if len(safe) <= _LONGEST else safe[: _LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"
