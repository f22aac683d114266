"""Which result a call ends with: the phases of a call, and the outcome table. Pure: nothing here runs anything.

Theory of operation. A call passes phases, in the order of :data:`Phase`. At some point something *settles* it: an
:data:`Event`. The event says two things, and :data:`TABLE` holds both: what becomes of the candidate, the result that
is there at that moment, if the call was not cancelled and if it was; and whether the after policies still see it.

Two principles make the table short. The specific beats the generic: an abort replaces a success, or fills in where
there is no candidate; it never replaces a failure. And an abort tells the truth about the body: its code follows from
one bit, whether the body was ever entered.

Special cases, confessed: a person's rejection counts after a cancellation, the other ways of getting no approval do
not, because nobody decided. An interrupt aborts like a cancellation, but skips the after policies.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

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


Phase: TypeAlias = Literal[
    "materialize", "before", "approval", "guards", "queued", "around", "thread", "body", "after", "finish"
]
"""Where a call is; what ``OutstandingCall.stage`` shows."""

Event: TypeAlias = Literal[
    "unusable",  # unknown tool, or arguments that cannot be materialized or are against the schema
    "cancelled-on-entry",  # cancelled on entry
    "denied",  # a policy denied, a person rejected, a guard gave a reason, or there is no approver
    "unanswered",  # the approval was cancelled by the user, or nobody could be asked
    "gate-raised",  # a before policy, the approver or a guard raised, or answered with no decision
    "gate-cut",  # a cancellation ended a before policy or the approval, or came before the wrappers
    "succeeded",  # the wrappers answered with a success
    "failed",  # the wrappers answered with a failure: of the tool, of its output, a timeout, an abort, or their own
    "cut",  # a cancellation ended the wrappers
    "wrapper-raised",  # a wrapper raised, or answered with no result
    "decided",  # the after policies have decided
    "interrupted",  # KeyboardInterrupt and the like
]
"""What settles a call."""

Verdict: TypeAlias = Literal[
    "keep",  # it stays
    "abort",  # an abort replaces it, unless it is a failure
    "override",  # an abort replaces it, whatever it is
]
"""What becomes of the candidate."""


@attrs.frozen
class Row:
    """One row of the table: the verdict without and with a cancellation, and whether the after policies are passed."""

    plain: Verdict
    cancelled: Verdict
    passes_after: bool


TABLE: dict[Event, Row] = {
    "unusable": Row("keep", "keep", passes_after=False),
    "cancelled-on-entry": Row("abort", "abort", passes_after=False),
    "denied": Row("keep", "keep", passes_after=True),
    "unanswered": Row("keep", "override", passes_after=True),
    "gate-raised": Row("keep", "keep", passes_after=False),
    "gate-cut": Row("abort", "abort", passes_after=True),
    "succeeded": Row("keep", "abort", passes_after=True),
    "failed": Row("keep", "keep", passes_after=True),
    "cut": Row("abort", "abort", passes_after=True),
    "wrapper-raised": Row("keep", "keep", passes_after=False),
    "decided": Row("keep", "abort", passes_after=False),
    "interrupted": Row("abort", "abort", passes_after=False),
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
    if verdict == "keep" or (verdict == "abort" and isinstance(candidate, ToolFailure)):
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
