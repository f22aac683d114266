"""The outcome table against the rules of sections 2 and 5 of the design, written down here a second time, for every
event, every kind of candidate, every state of the body, cancelled and not."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from trio_tools import (
    BodyState,
    CancelCause,
    Context,
    ErrorInfo,
    TextContent,
    ToolFailure,
    ToolResult,
    ToolSuccess,
)
from trio_tools._lifecycle import TABLE, Event, Phase, aborted, settle, timed_out

NOTE = Context("remember", source="the body")
CAUSE = CancelCause(source="caller", reason="user pressed escape")
OLDER = CancelCause(source="wrapper")
BODIES: tuple[BodyState, ...] = ("not-started", "interrupted", "finished")
SUCCESS = ToolSuccess(value=1, content="one", contexts=(NOTE,), concludes_turn=True, body="finished")
FAILURE = ToolFailure(
    error=ErrorInfo(message="disk full", code="DISK", name="OSError"),
    content="Error: disk full",
    contexts=(NOTE,),
    cause=OLDER,
    partial="half",
    body="finished",
)
CANDIDATES: tuple[ToolResult | None, ...] = (None, SUCCESS, FAILURE)

# The rules. An event is in exactly one of these.
CALL_CANNOT_RUN = {"unusable"}
SOMEBODY_SAID_NO = {"denied", "failed"}
SOMETHING_BROKE = {"gate-raised", "wrapper-raised"}
NOBODY_SAID_ANYTHING = {"unanswered"}
WORK_WAS_ENDED = {"cancelled-on-entry", "gate-cut", "cut", "interrupted"}
WORK_IS_DONE = {"succeeded", "decided"}

# Section 2, "stages it still passes": of these the after policies see the result.
SEEN_BY_AFTER_POLICIES = {
    "denied",
    "unanswered",
    "gate-cut",
    "succeeded",
    "failed",
    "cut",
}


def is_replaced(event: Event, candidate: ToolResult | None, cancelled: bool) -> bool:
    """Whether the generic abort is the result (P6: the specific beats the generic, a success is generic)."""
    if candidate is None:
        return True
    if event in CALL_CANNOT_RUN | SOMEBODY_SAID_NO | SOMETHING_BROKE:
        return False
    if event in NOBODY_SAID_ANYTHING:
        return cancelled
    if candidate.is_error:
        return False
    return event in WORK_WAS_ENDED or cancelled


def test_every_event_has_its_rules() -> None:
    """The sets above are about all events, each in one of them."""
    sets = (
        CALL_CANNOT_RUN,
        SOMEBODY_SAID_NO,
        SOMETHING_BROKE,
        NOBODY_SAID_ANYTHING,
        WORK_WAS_ENDED,
        WORK_IS_DONE,
    )
    assert sorted(event for one in sets for event in one) == sorted(get_args(Event))
    assert set(TABLE) == set(get_args(Event))


@pytest.mark.parametrize("event", get_args(Event))
def test_the_after_policies_see_what_has_got_past_the_gates_without_breaking_one(event: Event) -> None:
    """Section 2: a broken gate, an unusable call and an interrupt go straight to finish."""
    assert TABLE[event].passes_after == (event in SEEN_BY_AFTER_POLICIES)


EVERYTHING = list(itertools.product(get_args(Event), CANDIDATES, (None, CAUSE), BODIES))


@pytest.mark.parametrize(("event", "candidate", "cause", "body"), EVERYTHING)
def test_every_event_settles_every_candidate_by_the_rules(
    event: Event, candidate: ToolResult | None, cause: CancelCause | None, body: BodyState
) -> None:
    """Section 5: which candidates are replaced; section 1, P2: the code of an abort follows from the body."""
    result = settle(event, candidate, cause=cause, body=body)
    assert result.body == body
    if not is_replaced(event, candidate, cause is not None):
        assert candidate is not None
        assert (result.content, result.contexts) == (candidate.content, candidate.contexts)
        assert type(result) is type(candidate)
        if isinstance(result, ToolFailure):
            assert (result.error, result.cause, result.partial) == (FAILURE.error, OLDER, FAILURE.partial)
        else:
            assert (result.value, result.concludes_turn) == (1, True)
        return
    assert isinstance(result, ToolFailure)
    early = body == "not-started"
    message = "tool call aborted before dispatch" if early else "tool call aborted"
    code = "ABORTED_BEFORE_DISPATCH" if early else "ABORTED"
    assert result.error == ErrorInfo(message=message, code=code, name="AbortError")
    assert result.content == (TextContent(f"Error: {message}"),)
    assert result.cause == cause
    assert result.partial == ()
    assert result.contexts == (() if candidate is None else (NOTE,))


@pytest.mark.parametrize("event", ["succeeded", "cut", "decided", "interrupted"])
def test_an_abort_keeps_the_success_of_a_finished_body_beside_it(event: Event) -> None:
    """Section 5: ABORTED, and ``superseded`` holds the success."""
    result = settle(event, SUCCESS, cause=CAUSE, body="finished")
    assert isinstance(result, ToolFailure)
    assert result.superseded == SUCCESS


@pytest.mark.parametrize("event", ["succeeded", "cut", "decided", "interrupted"])
def test_an_abort_before_dispatch_supersedes_nothing(event: Event) -> None:
    """Section 3: ``superseded`` is the body's own outcome, and this body has none."""
    result = settle(event, SUCCESS, cause=CAUSE, body="not-started")
    assert isinstance(result, ToolFailure)
    assert result.superseded is None


@pytest.mark.parametrize(("body", "partial"), list(itertools.product(BODIES, ((), (TextContent("half"),)))))
def test_an_abort_without_a_candidate_shows_what_was_put_out_behind_its_text(
    body: BodyState, partial: tuple[TextContent, ...]
) -> None:
    """Section 3: partial output follows the first content block of an aborted result."""
    result = aborted(body, CAUSE, contexts=(NOTE,), partial=partial)
    assert result.content[1:] == result.partial == partial
    assert result.contexts == (NOTE,)
    assert (result.body, result.cause, result.superseded) == (body, CAUSE, None)


@pytest.mark.parametrize(
    ("seconds", "told"), [(5, "5s"), (5.0, "5s"), (0.25, "0.25s"), (1e-3, "0.001s"), (1e6, "1e+06s"), (90.5, "90.5s")]
)
@pytest.mark.parametrize("body", BODIES)
def test_a_timeout_says_after_how_many_seconds_and_how_far_the_body_was(
    seconds: float, told: str, body: BodyState
) -> None:
    """Section 3: seconds as %g; the name and the code are fixed."""
    result = timed_out(seconds, body, CancelCause(source="deadline"), partial=(TextContent("half"),))
    message = f"tool call timed out after {told}"
    assert result.error == ErrorInfo(message=message, code="TOOL_TIMEOUT", name="ToolTimeoutError")
    assert result.content == (TextContent(f"Error: {message}"), TextContent("half"))
    assert (result.body, result.cause) == (body, CancelCause(source="deadline"))


@pytest.mark.parametrize("replaced", [SUCCESS, FAILURE])
def test_a_timeout_keeps_the_outcome_of_a_finished_body_beside_it(replaced: ToolResult) -> None:
    """Section 5: whatever the body still returned or raised is in ``superseded``."""
    result = timed_out(5, "finished", CancelCause(source="deadline"), replaced=replaced)
    assert result.superseded == replaced
    assert result.contexts == (NOTE,)


def test_the_phases_are_told_apart_by_the_words_an_operator_sees() -> None:
    """Section 3, ``OutstandingCall.stage``."""
    assert list(get_args(Phase)) == [
        "materialize",
        "before",
        "approval",
        "guards",
        "queued",
        "around",
        "thread",
        "body",
        "after",
        "finish",
    ]
