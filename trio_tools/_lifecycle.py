"""Which result a call ends with: the phases of a call, and the outcome table. Pure: nothing here runs anything.

Theory of operation. A call passes phases, in the order of :class:`Phase`. At some point something *settles* it: an
:class:`Event`. The event says two things, and :data:`TABLE` holds both: what becomes of the candidate, the result that
is there at that moment, if the call was not cancelled and if it was; and whether the after policies still see it.

Two principles make the table short. The specific beats the generic: an abort replaces a success, or fills in where
there is no candidate; it never replaces a failure. And an abort tells the truth about the body: its code follows from
one bit, whether the body was ever entered.

Special cases, confessed: a person's rejection counts after a cancellation, the other ways of getting no approval do
not, because nobody decided. An interrupt aborts like a cancellation, but skips the after policies.
"""

from __future__ import annotations

import enum

import attrs

from ._content import Content, Context, TextContent
from ._results import (
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    TOOL_TIMEOUT,
    BodyState,
    CancelCause,
    ErrorInfo,
    ToolFailure,
    ToolResult,
)

__all__ = ["TABLE", "Event", "Phase", "Row", "Verdict", "aborted", "settle", "timed_out"]


class Phase(enum.Enum):
    """Where a call is; the value is what ``OutstandingCall.stage`` shows."""

    MATERIALIZE = "materialize"
    BEFORE = "before"
    APPROVAL = "approval"
    GUARDS = "guards"
    QUEUED = "queued"
    AROUND = "around"
    THREAD = "thread"
    BODY = "body"
    AFTER = "after"
    FINISH = "finish"


class Event(enum.StrEnum):
    """What settles a call."""

    UNUSABLE = "unknown tool, or arguments that cannot be materialized or are against the schema"
    CANCELLED_ON_ENTRY = "cancelled on entry"
    DENIED = "a policy denied, a person rejected, a guard gave a reason, or there is no approver"
    UNANSWERED = "the approval was cancelled by the user, or nobody could be asked"
    GATE_RAISED = "a before policy, the approver or a guard raised, or answered with no decision"
    GATE_CUT = "a cancellation ended a before policy or the approval, or came before the wrappers"
    SUCCEEDED = "the wrappers answered with a success"
    FAILED = "the wrappers answered with a failure: of the tool, of its output, a timeout, an abort, or their own"
    CUT = "a cancellation ended the wrappers"
    WRAPPER_RAISED = "a wrapper raised, or answered with no result"
    DECIDED = "the after policies have decided"
    INTERRUPTED = "KeyboardInterrupt and the like"


class Verdict(enum.Enum):
    """What becomes of the candidate."""

    KEEP = "it stays"
    ABORT = "an abort replaces it, unless it is a failure"
    OVERRIDE = "an abort replaces it, whatever it is"


@attrs.frozen
class Row:
    """One row of the table: the verdict without and with a cancellation, and whether the after policies are passed."""

    plain: Verdict
    cancelled: Verdict
    passes_after: bool


TABLE: dict[Event, Row] = {
    Event.UNUSABLE: Row(Verdict.KEEP, Verdict.KEEP, passes_after=False),
    Event.CANCELLED_ON_ENTRY: Row(Verdict.ABORT, Verdict.ABORT, passes_after=False),
    Event.DENIED: Row(Verdict.KEEP, Verdict.KEEP, passes_after=True),
    Event.UNANSWERED: Row(Verdict.KEEP, Verdict.OVERRIDE, passes_after=True),
    Event.GATE_RAISED: Row(Verdict.KEEP, Verdict.KEEP, passes_after=False),
    Event.GATE_CUT: Row(Verdict.ABORT, Verdict.ABORT, passes_after=True),
    Event.SUCCEEDED: Row(Verdict.KEEP, Verdict.ABORT, passes_after=True),
    Event.FAILED: Row(Verdict.KEEP, Verdict.KEEP, passes_after=True),
    Event.CUT: Row(Verdict.ABORT, Verdict.ABORT, passes_after=True),
    Event.WRAPPER_RAISED: Row(Verdict.KEEP, Verdict.KEEP, passes_after=False),
    Event.DECIDED: Row(Verdict.KEEP, Verdict.ABORT, passes_after=False),
    Event.INTERRUPTED: Row(Verdict.ABORT, Verdict.ABORT, passes_after=False),
}


def _told(message: str, code: str, name: str) -> tuple[ErrorInfo, TextContent]:
    return ErrorInfo(message=message, code=code, name=name), TextContent(f"Error: {message}")


_ABORTED = _told("tool call aborted", TOOL_ABORTED, "AbortError")
_BEFORE_DISPATCH = _told("tool call aborted before dispatch", TOOL_ABORTED_BEFORE_DISPATCH, "AbortError")


_ABORT_CODES = (TOOL_ABORTED, TOOL_ABORTED_BEFORE_DISPATCH)


def settle(event: Event, candidate: ToolResult | None, *, cause: CancelCause | None, body: BodyState) -> ToolResult:
    """The result of a call that ``event`` has settled.

    Args:
        event: What happened.
        candidate: The result that is there, if any.
        cause: Who cancelled the call; ``None`` if nobody did.
        body: How far the body was; the result says so, whatever the candidate said.
    """
    row = TABLE[event]
    verdict = row.plain if cause is None else row.cancelled
    if candidate is None:
        return aborted(body, cause)
    if verdict is Verdict.KEEP or (verdict is Verdict.ABORT and isinstance(candidate, ToolFailure)):
        kept = candidate if candidate.body == body else attrs.evolve(candidate, body=body)
        return _truthful(kept) if isinstance(kept, ToolFailure) and kept.error.code in _ABORT_CODES else kept
    return aborted(body, cause, replaced=candidate)


def _truthful(failure: ToolFailure) -> ToolFailure:
    """A failure with an abort code, which a stage may have taken from another call: with the code that is true here."""
    right, shown = _BEFORE_DISPATCH if failure.body == "not-started" else _ABORTED
    if failure.error.code == right.code:
        return failure
    if failure.error.message not in (_ABORTED[0].message, _BEFORE_DISPATCH[0].message):
        return attrs.evolve(failure, error=attrs.evolve(failure.error, code=right.code))
    return attrs.evolve(failure, error=right, content=(shown, *failure.content[1:]))


def aborted(
    body: BodyState,
    cause: CancelCause | None,
    *,
    replaced: ToolResult | None = None,
    contexts: tuple[Context, ...] = (),
    partial: tuple[Content, ...] = (),
) -> ToolFailure:
    """The generic abort, with the code that the state of the body demands.

    What it replaces is kept beside it if the body had finished; its contexts are kept in any case. ``contexts`` are
    those of a body that has no outcome to be replaced.
    """
    told = _BEFORE_DISPATCH if body == "not-started" else _ABORTED
    kept = replaced if body == "finished" else None
    return _cut_short(told, body, cause, kept, contexts if replaced is None else replaced.contexts, partial)


def timed_out(
    seconds: float,
    body: BodyState,
    cause: CancelCause,
    *,
    replaced: ToolResult | None = None,
    contexts: tuple[Context, ...] = (),
    partial: tuple[Content, ...] = (),
) -> ToolFailure:
    """The failure of a tool whose own deadline passed first, after ``seconds``; what the body still did is kept."""
    told = _told(f"tool call timed out after {seconds:g}s", TOOL_TIMEOUT, "ToolTimeoutError")
    return _cut_short(told, body, cause, replaced, contexts if replaced is None else replaced.contexts, partial)


def _cut_short(
    told: tuple[ErrorInfo, TextContent],
    body: BodyState,
    cause: CancelCause | None,
    replaced: ToolResult | None,
    contexts: tuple[Context, ...],
    partial: tuple[Content, ...],
) -> ToolFailure:
    error, shown = told
    superseded = replaced if replaced is None or replaced.body == body else attrs.evolve(replaced, body=body)
    return ToolFailure(
        error=error,
        content=(shown, *partial),
        contexts=contexts,
        body=body,
        cause=cause,
        partial=partial,
        superseded=superseded,
    )
