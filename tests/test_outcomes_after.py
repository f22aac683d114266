"""Rows of the table in section 5 of the design about after policies: what they decide, raise and answer, on every
kind of outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
import trio
from calls import DEADLINES, By, Line, NextAfter, whose
from fakes import answering, late, raising, shown, source, trivial, waiting
from outcomes import (
    ADDED,
    ENTIRE,
    NOTE,
    OUTCOMES,
    Outcome,
    by_anybody,
    every_failure,
    every_outcome,
    nothing_leaks,
)

from trio_tools import (
    Accept,
    AfterDecision,
    Block,
    Deny,
    Output,
    TextContent,
    ToolDefinition,
    ToolError,
    ToolExecution,
    ToolFailure,
    ToolResult,
    ToolSuccess,
)

# ---- Accept ----------------------------------------------------------------------------------------------------------


@every_outcome
def test_an_after_policy_sees_the_outcome_and_leaves_it_as_it_is_if_it_accepts(outcome: Outcome) -> None:
    """Section 2: which outcomes pass after; section 5: "after policy waits": its decision."""
    seen: list[ToolResult] = []

    async def after(execution: ToolExecution, result: ToolResult, call_next: NextAfter) -> AfterDecision:
        seen.append(result)
        await trio.sleep(3)
        return Accept(contexts=(ADDED,))

    ended = outcome.line(after=after).call(cancel_at=outcome.cancel_at)
    (before,) = seen
    assert ended.result == attrs.evolve(before, contexts=(*before.contexts, ADDED))
    assert (ended.code, ended.result.body, source(ended.result)) == (outcome.code, outcome.state, outcome.cause)


@every_outcome
def test_new_content_replaces_what_the_model_sees_and_drops_what_stood_beside_it(outcome: Outcome) -> None:
    """Section 5: an ``Accept`` that replaces content drops ``superseded`` and ``partial``; the rest stays."""
    after = answering(Accept(content=(TextContent("***"),), contexts=(ADDED,)))
    ended = outcome.line(after=after).call(cancel_at=outcome.cancel_at)
    result = ended.result
    assert shown(result) == ["***"]
    assert (ended.code, result.body, source(result)) == (outcome.code, outcome.state, outcome.cause)
    assert result.contexts[-1] == ADDED
    if isinstance(result, ToolFailure):
        nothing_leaks(result)
    else:
        assert result.value == "secret"


def test_a_new_value_is_rendered_again() -> None:
    """Section 7: ``Accept(value=…)`` is validated and rendered again; contexts are kept."""
    ended = OUTCOMES["success"].line(after=answering(Accept(value={"n": 1}, contexts=(ADDED,)))).call()
    assert (ended.success.value, shown(ended.success)) == ({"n": 1}, ['{"n":1}'])
    assert (ended.success.contexts, ended.success.body) == ((NOTE, ADDED), "finished")


def test_none_is_a_value() -> None:
    """Section 3: ``value=…`` that is not given is not ``None``."""
    ended = OUTCOMES["success"].line(after=answering(Accept(value=None))).call()
    assert (ended.success.value, shown(ended.success)) == (None, ["null"])


@pytest.mark.parametrize("value", [{1, 2}, "text", float("inf")])
def test_a_new_value_that_breaks_the_contract_is_an_invalid_output(value: object) -> None:
    """Section 7: it is checked like any other value."""
    definition = ToolDefinition(
        name="t", parameters={"type": "object"}, execute=answering([]), output=Output(schema={"type": "array"})
    )
    ended = Line(after=answering(Accept(value=value)), definition=definition).call()
    assert (ended.code, ended.failure.body) == ("INVALID_TOOL_OUTPUT", "finished")


@every_failure
def test_replacing_the_value_of_a_failure_is_an_error(outcome: Outcome) -> None:
    """Section 7. The failure is the policy's; P9: nothing of the result is shown."""
    ended = outcome.line(after=answering(Accept(value="x"))).call(cancel_at=outcome.cancel_at)
    assert ended.failure.error.code is None
    assert ended.failure.error.name in ("TypeError", "ValueError")
    assert ended.failure.body == outcome.state
    nothing_leaks(ended.failure)


@every_outcome
def test_replacing_content_and_value_at_once_is_an_error(outcome: Outcome) -> None:
    """Rows "after policy … raises": ``Accept`` refuses it, in the policy that writes it."""

    async def after(execution: ToolExecution, result: ToolResult, call_next: NextAfter) -> AfterDecision:
        return Accept(content=(), value=1)

    ended = outcome.line(after=after).call(cancel_at=outcome.cancel_at)
    assert (ended.failure.error.code, ended.failure.error.name) == (None, "ValueError")
    assert ended.failure.body == outcome.state
    nothing_leaks(ended.failure)


def test_no_content_at_all_is_a_replacement() -> None:
    """Section 3: ``content=None`` is the default; an empty one is not."""
    ended = OUTCOMES["timeout, done late"].line(after=answering(Accept(content=()))).call()
    assert ended.failure.content == ()
    nothing_leaks(ended.failure)


# ---- Block -----------------------------------------------------------------------------------------------------------


@every_outcome
@pytest.mark.parametrize("feedback", ["not for you", (TextContent("not for you"),)])
def test_a_blocked_result_is_a_failure_that_shows_the_feedback_only(outcome: Outcome, feedback: Any) -> None:
    """Row "after policy blocks": that failure, on a success, a failure, an abort, a timeout. P2: the body stays."""
    ended = outcome.line(after=late(Block(feedback, contexts=(ADDED,)), seconds=2)).call(cancel_at=outcome.cancel_at)
    failure = ended.failure
    assert failure.error.message == "not for you"
    assert len(failure.content) == 1
    assert shown(failure)[0].endswith("not for you")
    assert (failure.body, failure.contexts, source(failure)) == (outcome.state, (ADDED,), outcome.cause)
    assert failure.error.code not in ("ABORTED", "ABORTED_BEFORE_DISPATCH", "DISK", "TOOL_TIMEOUT")
    assert ended.passed[-1] == "finalize"
    nothing_leaks(failure)


@pytest.mark.parametrize("feedback", ["", (), " "])
def test_a_block_without_a_word_still_tells_the_model_that_it_was_blocked(feedback: Any) -> None:
    """P9. A model must be able to tell an empty answer from one that it may not see."""
    ended = OUTCOMES["success"].line(after=answering(Block(feedback))).call()
    assert ended.failure.error.message.strip()
    nothing_leaks(ended.failure)


def test_feedback_that_is_no_utf8_blocks_all_the_same() -> None:
    """P9: fails closed."""
    ended = OUTCOMES["success"].line(after=answering(Block("no \udcff"))).call()
    nothing_leaks(ended.failure)
    str(ended.failure.content).encode()


# ---- raising, and no decision ----------------------------------------------------------------------------------------


@every_outcome
def test_an_after_policy_that_raises_is_that_failure_and_nothing_leaks(outcome: Outcome) -> None:
    """Row "after policy … raises"; P6: also in the place of the tool's own failure; P9."""
    ended = outcome.line(after=late(ToolError("scanner down", code="SCAN"), seconds=2)).call(
        cancel_at=outcome.cancel_at
    )
    assert (ended.code, ended.failure.error.name, shown(ended.failure)) == (
        "SCAN",
        "ToolError",
        ["Error: scanner down"],
    )
    assert (ended.failure.body, ended.failure.contexts) == (outcome.state, ())
    nothing_leaks(ended.failure)


@pytest.mark.parametrize(
    "make",
    [lambda: None, lambda: True, lambda: Accept, lambda: "accept", lambda: trivial(), lambda: Deny("x")],
)
@pytest.mark.parametrize("name", ["success", "failure", "too late"])
def test_an_after_policy_that_gives_no_decision_fails_the_call(name: str, make: Callable[[], object]) -> None:
    """P9."""
    outcome = OUTCOMES[name]
    ended = outcome.line(after=answering(make())).call(cancel_at=outcome.cancel_at)
    assert (ended.failure.error.name, ended.failure.body) == ("TypeError", outcome.state)
    nothing_leaks(ended.failure)


def test_an_outer_after_policy_sees_the_exception_of_an_inner_one_and_may_block() -> None:
    """Section 2: an onion."""

    async def outer(execution: ToolExecution, result: ToolResult, call_next: NextAfter) -> AfterDecision:
        try:
            return await call_next()
        except ToolError:
            return Block("the scanner is down")

    ended = OUTCOMES["success"].line(after=(outer, raising(ToolError("x", code="SCAN")))).call()
    assert (ended.code, ended.failure.error.message) == (None, "the scanner is down")


# ---- cancelled meanwhile ---------------------------------------------------------------------------------------------


@by_anybody
@pytest.mark.parametrize("interruptible", [False, True])
def test_an_after_policy_is_not_interrupted_and_the_success_that_it_accepts_is_aborted(
    by: By, interruptible: bool
) -> None:
    """Row "after policy waits (uninterrupted)", cancelled: success → ABORTED once it has decided."""
    decide = (waiting if interruptible else late)(Accept(contexts=(ADDED,)))
    line = OUTCOMES["success"].line(after=decide)
    ended = line.call(cancel_at=1, by=by, reason="enough")
    failure = ended.failure
    assert (failure.error.code, source(failure), failure.body, ended.at) == ("ABORTED", whose(by), "finished", 10)
    assert (failure.contexts, ended.passed) == ((NOTE, ADDED), ENTIRE)
    assert isinstance(failure.superseded, ToolSuccess)
    assert failure.cause is not None
    assert failure.cause.reason == (None if by in DEADLINES else "enough")


@by_anybody
def test_a_failure_stays_when_the_cancellation_meets_an_after_policy(by: By) -> None:
    """Row "after policy waits (uninterrupted)", cancelled: failure stays."""
    ended = OUTCOMES["failure"].line(after=waiting(Accept())).call(cancel_at=1, by=by)
    assert (ended.code, ended.failure.body, ended.at, ended.passed) == ("DISK", "finished", 10, ENTIRE)
    assert ended.failure.cause is None


@by_anybody
@pytest.mark.parametrize("decision", [Block("not for you"), ToolError("not for you")])
def test_a_block_or_an_error_stays_when_the_cancellation_meets_the_after_policy(by: By, decision: object) -> None:
    """Row "after policy blocks / raises": the same when cancelled."""
    ended = OUTCOMES["success"].line(after=late(decision)).call(cancel_at=1, by=by)
    assert (ended.code, ended.failure.error.message) == (None, "not for you")
    nothing_leaks(ended.failure)


@by_anybody
def test_a_redacted_success_that_is_aborted_does_not_bring_back_what_was_redacted(by: By) -> None:
    """Section 5: what an ``Accept`` replaced is dropped, also from the success that the abort keeps beside it."""
    line = OUTCOMES["success"].line(after=late(Accept(value="***"), seconds=2))
    ended = line.call(cancel_at=1, by=by)
    assert ended.code == "ABORTED"
    assert "secret" not in str(ended.failure)


@by_anybody
def test_a_policy_sees_whether_the_call_is_cancelled(by: By) -> None:
    """Section 4: a policy that may take long looks at ``execution.scope.cancel_called``."""
    seen: list[bool] = []

    async def after(execution: ToolExecution, result: ToolResult, call_next: NextAfter) -> AfterDecision:
        seen.append(execution.scope.cancel_called)
        await trio.sleep(10)
        seen.append(execution.scope.cancel_called)
        return Accept()

    OUTCOMES["success"].line(after=after).call(cancel_at=1, by=by)
    assert seen == [False, True]


def test_a_policy_that_gives_itself_a_deadline_blocks_after_it() -> None:
    """Section 4: its own scopes work as ever under the shield."""

    async def after(execution: ToolExecution, result: ToolResult, call_next: NextAfter) -> AfterDecision:
        with trio.move_on_after(2):
            await trio.sleep(10)
            return Accept()
        return Block("not scanned in time")

    ended = OUTCOMES["success"].line(after=after).call(cancel_at=1)
    assert (ended.failure.error.message, ended.at) == ("not scanned in time", 2)
