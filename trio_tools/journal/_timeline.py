"""What became of the calls of one conversation, over time: a lane for each call, of spans and marks; and as a trace.

Times are seconds since 1970, as the clock was when a record was written. A clock may be set back; ``seq`` is what
counts, so a time that is earlier than that of the record before is taken for that one, and no span is negative.

A crash has no record of its own: it is known from what the next owner wrote. It is put where the last record of the
conversation in the epoch of that run is, the latest moment at which the program is known to have lived; a span that was
open then ends there, and is ``cut``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

import attrs

from trio_tools._results import TOOL_ABORTED, TOOL_ABORTED_BEFORE_DISPATCH
from trio_tools.journal._format import Event, canonical

__all__ = [
    "Lane",
    "Mark",
    "MarkKind",
    "Restart",
    "Span",
    "Stage",
    "Timeline",
    "lanes",
    "shown",
    "timeline",
    "trace_events",
]

Stage: TypeAlias = Literal["waiting", "work", "committing"]
"""``"waiting"``: from ``call`` or ``resumed`` up to ``dispatched`` (policies, approval, queue; ``approval`` begins
another one); ``"work"``: from ``dispatched`` up to the next one, ``ended`` or ``result``; ``"committing"``: from
``ended`` up to ``result`` (after-policies, waiting for its turn)."""
MarkKind: TypeAlias = Literal["approval", "resumed", "success", "failure", "cancel", "crash"]
"""``"approval"``, ``"resumed"``: such a record; ``"crash"``: a result that the next owner wrote; ``"cancel"``: another
one with the code ``ABORTED`` or ``ABORTED_BEFORE_DISPATCH``; ``"failure"``, ``"success"``: the others."""

_ABORTS = (TOOL_ABORTED, TOOL_ABORTED_BEFORE_DISPATCH)
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff]"
)


@attrs.frozen
class Span:
    """A stretch of time in which a call was in one stage.

    Attributes:
        stage: Which.
        start: Seconds since 1970.
        end: The same, not before ``start``.
        run: 0, and one more for each time the call was made once more.
        attempt: The number of the last ``dispatched``, over all runs; 0 before the first.
        cut: It was ended by a crash.
        open: There is no record that ends it; ``end`` is that of the last record of the conversation in its epoch.
    """

    stage: Stage
    start: float
    end: float
    run: int
    attempt: int
    cut: bool = False
    open: bool = False


@attrs.frozen
class Mark:
    """A moment of a call.

    Attributes:
        kind: What happened.
        at: Seconds since 1970.
        run: As of a span.
        attempt: As of a span.
        code: Of the result, if it is a failure.
        message: Of the result, if it is a failure.
        cause: Who cancelled, and why, in words.
        body: How far the body was, as the result says.
    """

    kind: MarkKind
    at: float
    run: int
    attempt: int
    code: str | None = None
    message: str | None = None
    cause: str | None = None
    body: str | None = None


@attrs.frozen
class Lane:
    """One call.

    Attributes:
        call: Its id.
        tool: The name that was asked for; empty if that record is lost.
        arguments: As they were recorded, plain JSON.
        root: The outermost call that it was made for; its own id if it is that itself.
        agent: Who asked for it.
        spans: In order; none begins before the one before has ended.
        marks: In order.
    """

    call: str
    tool: str
    arguments: Any
    root: str
    agent: str | None
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]

    @property
    def outcome(self) -> MarkKind | Literal["open"]:
        """How its last run ended; ``"open"`` if it has not."""
        return "open" if self.spans and self.spans[-1].open else self.marks[-1].kind


@attrs.frozen
class Restart:
    """The journal was opened anew, between two records of the conversation.

    Attributes:
        stopped: The last record before it, seconds since 1970.
        at: The first record behind it, likewise.
        epoch: How often the journal had been opened then.
        crashed: Whether that record closes a call that the last owner had left open.
    """

    stopped: float
    at: float
    epoch: int
    crashed: bool


@attrs.frozen
class Timeline:
    """All of a conversation.

    Attributes:
        lanes: One for each call, in the order in which they were asked for.
        restarts: In order.
        start: The first record, seconds since 1970; 0 if there is none.
        set_back: How many records have an earlier time than one before them.
    """

    lanes: list[Lane]
    restarts: list[Restart]
    start: float
    set_back: int


@attrs.define
class _Draft:
    """A lane that is being read."""

    call: str
    asked: Mapping[str, Any]
    epoch: int
    spans: list[Span] = attrs.field(factory=list[Span])
    marks: list[Mark] = attrs.field(factory=list[Mark])
    run: int = 0
    attempt: int = 0
    stage: Stage | None = None
    since: float = 0.0
    kept: bool = False  # its outcome was there when the owner was gone, and the next run judges it

    def add(self, event: Event, at: float, last: Mapping[int, float]) -> None:
        """The next record; ``last`` has the time of the last one in each epoch."""
        if event.kind == "result":
            self._result(event, at, last)
            return
        self._end(at)
        self.epoch = event.epoch
        match event.kind:
            case "approval":
                self._mark("approval", at)
                self._begin("waiting", at)
            case "dispatched":
                self.attempt = event.number
                self._begin("work", at)
            case "ended":
                self._begin("committing", at)
            case _:
                self.run = event.number
                if event.kind == "resumed":
                    self._mark("resumed", at)
                self._begin("committing" if self.kept else "waiting", at)

    def lane(self, last: Mapping[int, float]) -> Lane:
        """When there are no more records."""
        self._end(last[self.epoch], open=True)
        asked = self.asked
        return Lane(
            call=self.call,
            tool=_text(asked.get("name")) or "",
            arguments=asked.get("arguments"),
            root=_text(asked.get("root")) or self.call,
            agent=_text(asked.get("agent")),
            spans=tuple(self.spans),
            marks=tuple(self.marks),
        )

    def _result(self, event: Event, at: float, last: Mapping[int, float]) -> None:
        data, result = event.data, _mapping(event.data.get("result"))
        error, cause = _mapping(result.get("error")), _mapping(result.get("cause"))
        code, given_up = _text(error.get("code")), data.get("by") == "recovery"
        crashed = given_up and (event.epoch != self.epoch or self.stage is None)
        kind: MarkKind = "cancel" if code in _ABORTS else "failure" if result.get("is_error") else "success"
        if crashed:
            kind, at = "crash", last[self.epoch]
        self.kept = given_up and not data.get("judged")
        self._end(at, cut=crashed)
        told = [_text(cause.get("source")), _text(cause.get("reason")), _text(cause.get("call_id"))]
        self._mark(
            kind,
            at,
            code=code,
            message=_text(error.get("message")),
            cause=", ".join(filter(None, told)) or None,
            body=_text(result.get("body")),
        )

    def _begin(self, stage: Stage, at: float) -> None:
        self.stage, self.since = stage, at

    def _end(self, at: float, *, cut: bool = False, open: bool = False) -> None:
        if self.stage is not None:
            self.spans.append(Span(self.stage, self.since, at, self.run, self.attempt, cut, open))
            self.stage = None

    def _mark(self, kind: MarkKind, at: float, **told: str | None) -> None:
        self.marks.append(Mark(kind, at, self.run, self.attempt, **told))


def timeline(events: Iterable[Event]) -> Timeline:
    """All that the records of one conversation, in order, say. Calls whose first records are lost have a lane too."""
    drafts: dict[str, _Draft] = {}
    last: dict[int, float] = {}
    restarts: list[Restart] = []
    now, epoch, start, set_back = 0.0, 0, 0.0, 0
    for event in events:
        set_back += event.wall < now
        at = max(event.wall, now)
        if last and event.epoch != epoch:
            crashed = event.kind == "result" and event.data.get("by") == "recovery"
            restarts.append(Restart(now, at, event.epoch, crashed))
        start = start if last else at
        now, epoch = at, event.epoch
        if event.call not in drafts:
            asked = event.data if event.kind == "call" else {}
            drafts[event.call] = _Draft(event.call, asked, epoch)
        last.setdefault(epoch, at)
        drafts[event.call].add(event, at, last)
        last[epoch] = at
    return Timeline([draft.lane(last) for draft in drafts.values()], restarts, start, set_back)


def lanes(events: Iterable[Event]) -> list[Lane]:
    """A lane for each call of one conversation, in the order in which they were asked for.

    Args:
        events: Its records, in order.
    """
    return timeline(events).lanes


def trace_events(conversation: str, events: Iterable[Event]) -> str:
    """The same in the Trace Event Format, for Perfetto and ``chrome://tracing``: JSON text.

    The conversation is the process 1, and each call a thread of it, numbered from 1. Spans are complete events, marks
    and restarts are instants; times are microseconds since the first record.

    Args:
        conversation: Its id.
        events: Its records, in order.
    """
    read = timeline(events)

    def micro(at: float) -> int:
        return round((at - read.start) * 1e6)

    found = [_traced("M", "process_name", 0, {"name": shown(conversation)})]
    for tid, lane in enumerate(read.lanes, 1):
        told = {"call": shown(lane.call), "tool": shown(lane.tool)}
        found.append(_traced("M", "thread_name", tid, {"name": " ".join(told.values())}))
        found.append(_traced("M", "thread_sort_index", tid, {"sort_index": tid}))
        told["arguments"] = as_text(lane.arguments)
        for span in lane.spans:
            start, args = micro(span.start), {**told, **_details(span, "stage", "start", "end")}
            found.append(_traced("X", span.stage, tid, args, ts=start, dur=micro(span.end) - start))
        for mark in lane.marks:
            args = {**told, **_details(mark, "kind", "at")}
            found.append(_traced("i", mark.kind, tid, args, ts=micro(mark.at), s="t"))
    for restart in read.restarts:
        args = _details(restart, "stopped", "at")
        found.append(_traced("i", "restart", 0, args, ts=micro(restart.at), s="p"))
    return canonical({"traceEvents": found, "displayTimeUnit": "ms"})


def shown(text: str) -> str:
    r"""Text in which what cannot be seen, or turns the direction of writing, is written out, as in ``\u202e``."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def as_text(arguments: object) -> str:
    """JSON as a person reads it."""
    return shown(json.dumps(arguments, ensure_ascii=False))


def _traced(ph: str, name: str, tid: int, args: Mapping[str, object], **more: object) -> dict[str, object]:
    return {"ph": ph, "name": name, "pid": 1, "tid": tid, "args": args, **more}


def _details(told: Span | Mark | Restart, *without: str) -> dict[str, object]:
    """What an event of the trace does not say itself."""
    fields = attrs.asdict(told)
    return {
        name: shown(value) if isinstance(value, str) else value
        for name, value in fields.items()
        if name not in without and value is not None
    }


def _mapping(value: object) -> Mapping[str, Any]:
    """What was recorded may be redacted to anything."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
