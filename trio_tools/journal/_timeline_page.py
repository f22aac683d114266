"""The timeline of a conversation as a page for a browser: one file that needs nothing else.

What comes from the journal is JSON text in an element that is no script to a browser, with all that could end it
escaped; the one script, which a hash in the page allows and no other, makes text of it, never markup. Stretches in
which nothing happens are compressed, so that days between a crash and the restart leave room for milliseconds.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, pairwise

import attrs

from trio_tools.journal._format import Event, canonical
from trio_tools.journal._timeline import Lane, Mark, Span, Timeline, as_text, shown, timeline
from trio_tools.journal._timeline_template import BEFORE, BEHIND, BODY, NOTHING

__all__ = ["Piece", "page", "pieces"]

_IDLE, _WAITS = 1.0, 2.0  # times the activity, all together: what is longer is compressed
_BREAK, _BREAKS = 0.06, 0.4  # of the width: one break, all of them
_OUTCOMES = {
    "success": "succeeded",
    "failure": "failed",
    "cancel": "cancelled",
    "crash": "left by a crash",
    "open": "not ended",
}


@attrs.frozen
class Piece:
    """A stretch of time, and where it is drawn.

    Attributes:
        start: Seconds since 1970.
        end: The same.
        left: From 0 to 1, the whole width.
        right: The same.
        gap: It is compressed, and drawn as a break.
    """

    start: float
    end: float
    left: float
    right: float
    gap: bool


def page(conversation: str, events: Iterable[Event]) -> str:
    """The page, HTML.

    Args:
        conversation: Its id.
        events: Its records, in order. None at all give a page that says so.
    """
    read = timeline(events)
    axis = pieces(read)
    starts = [piece.start for piece in axis]

    def place(at: float) -> float:
        piece = axis[max(bisect.bisect_right(starts, at) - 1, 0)]
        part = (at - piece.start) / (piece.end - piece.start) if piece.end > piece.start else 0.0
        return round(piece.left + part * (piece.right - piece.left), 7)

    counted = Counter(_OUTCOMES[lane.outcome] for lane in read.lanes)
    data = {
        "conversation": shown(conversation),
        "start": read.start,
        "counted": [[word, counted[word]] for word in _OUTCOMES.values() if counted[word]],
        "setBack": read.set_back,
        "pieces": [[one.start - read.start, one.end - read.start, one.left, one.right, one.gap] for one in axis],
        "restarts": [
            {"x": place(one.at), "t": one.at - read.start, "epoch": one.epoch, "crashed": one.crashed}
            for one in read.restarts
        ],
        "lanes": [_lane(lane, read.start, place) for lane in read.lanes],
    }
    text = canonical(data)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f"{BEFORE}{'' if read.lanes else NOTHING}{BODY}{text}{BEHIND}"


def pieces(read: Timeline) -> list[Piece]:
    """The axis. The longest stretches in which nothing happens, or is only waited, are gaps: so many of them that the
    others together last not much longer than all that happens.

    Adjacent pieces share a side; the first begins at 0, the last ends at 1.
    """
    found = list(_intervals(read))
    lengths = {
        name: [end - start for start, end, kind in found if kind == name] for name in ("busy", "waiting", "idle")
    }
    busy = sum(lengths["busy"])
    waits = _longest(lengths["waiting"], _WAITS * busy) if busy else math.inf
    active = busy + sum(each for each in lengths["waiting"] if each <= waits)
    limits = {"busy": math.inf, "waiting": waits, "idle": _longest(lengths["idle"], _IDLE * active)}
    cut: list[tuple[float, float, bool]] = []
    for start, end, kind in found:
        gap = end - start > limits[kind]
        if cut and not gap and not cut[-1][2]:
            cut[-1] = (cut[-1][0], end, False)
        else:
            cut.append((start, end, gap))
    return _drawn(cut or [(read.start, read.start, False)])


def _longest(lengths: list[float], budget: float) -> float:
    """Of the shortest that fit into the budget together, the longest."""
    ordered = sorted(lengths)
    fitting = bisect.bisect_right(list(accumulate(ordered)), budget)
    return ordered[fitting - 1] if fitting else 0.0


def _intervals(read: Timeline) -> Iterator[tuple[float, float, str]]:
    """From each moment to the next, and what goes on between."""
    changes: defaultdict[float, list[int]] = defaultdict(lambda: [0, 0])
    for lane in read.lanes:
        for span in lane.spans:
            changes[span.start][span.stage == "waiting"] += 1
            changes[span.end][span.stage == "waiting"] -= 1
        for mark in lane.marks:
            changes[mark.at]  # a moment, even if no span is left of it
    for restart in read.restarts:
        changes[restart.at]
    busy = waiting = 0
    for start, end in pairwise(sorted(changes)):
        busy, waiting = busy + changes[start][0], waiting + changes[start][1]
        yield start, end, "busy" if busy else "waiting" if waiting else "idle"


def _drawn(cut: list[tuple[float, float, bool]]) -> list[Piece]:
    gaps = sum(gap for _, _, gap in cut)
    length = sum(end - start for start, end, gap in cut if not gap)
    each = 1 / max(gaps, 1) if not length else min(_BREAK, _BREAKS / max(gaps, 1))
    found: list[Piece] = []
    left = 0.0
    for start, end, gap in cut:
        width = each if gap or not length else (1 - gaps * each) * (end - start) / length
        found.append(Piece(start, end, left, left + width, gap))
        left += width
    return found


def _lane(lane: Lane, zero: float, place: Callable[[float], float]) -> dict[str, object]:
    items = sorted((*lane.marks, *lane.spans), key=lambda one: one.at if isinstance(one, Mark) else one.start)
    return {
        "id": shown(lane.call),
        "tool": shown(lane.tool),
        "arguments": as_text(lane.arguments),
        "root": None if lane.root == lane.call else shown(lane.root),
        "agent": lane.agent and shown(lane.agent),
        "items": [_item(one, zero, place) for one in items],
    }


def _item(one: Span | Mark, zero: float, place: Callable[[float], float]) -> dict[str, object]:
    common = {"run": one.run, "attempt": one.attempt}
    if isinstance(one, Mark):
        words = {"code": one.code, "message": one.message, "cause": one.cause, "body": one.body}
        told = {name: shown(value) for name, value in words.items() if value is not None}
        return {"kind": one.kind, "x": place(one.at), "t": one.at - zero, **common, **told}
    times = {"x": place(one.start), "to": place(one.end), "t": one.start - zero, "d": one.end - one.start}
    return {"kind": one.stage, **times, "end": "cut" if one.cut else "open" if one.open else "", **common}
