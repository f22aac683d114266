"""Rows of the table in section 5 of the design about what stands before the work: materialization, the entry check,
before policies. Each not cancelled, and cancelled by everybody who can."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from calls import BYS, DEADLINES, By, Line, NextBefore, run
from fakes import answering, late, raising, shown, trivial, waiting
from outcomes import (
    assert_aborted_before_dispatch,
    assert_told,
)

from trio_tools import (
    Allow,
    Ask,
    BeforeDecision,
    Deny,
    ToolCall,
    ToolError,
    ToolExecution,
    ToolFailure,
)

GATES_AND_FINISH = ["after", "finalize"]


# ---- materialization and the entry check -----------------------------------------------------------------------------

CANNOT_RUN: list[tuple[ToolCall, str, str, list[str]]] = [
    (ToolCall(id="c1", name="tt"), "UNKNOWN_TOOL", "ToolNotFoundError", []),
    (ToolCall(id="c1", name="t", arguments=[1]), "INVALID_ARGS", "ToolArgsError", ["finalize"]),
    (ToolCall(id="c1", name="t", arguments={"x": {1, 2}}), "INVALID_ARGS", "ToolArgsError", ["finalize"]),
    (ToolCall(id="c1", name="t", arguments={"x": float("nan")}), "INVALID_ARGS", "ToolArgsError", ["finalize"]),
    (ToolCall.from_json(id="c1", name="t", arguments='{"x": '), "INVALID_ARGS", "ToolArgsError", ["finalize"]),
]


@pytest.mark.parametrize("by", [None, "entered", "unentered", "around", "deadline", "deadline around"])
@pytest.mark.parametrize(("request_", "code", "name", "passed"), CANNOT_RUN)
def test_a_call_that_cannot_run_says_so_whether_its_caller_was_cancelled_or_not(
    request_: ToolCall, code: str, name: str, passed: list[str], by: By | None
) -> None:
    """Rows "unknown tool; arguments cannot be materialized": the same when cancelled, no stage but finish."""
    line = Line(before=answering(Ask()), approver=answering("allowed-once"))
    ended = line.call(request_, cancel_at=None if by is None else 0, by=by or "entered")
    assert (ended.failure.error.code, ended.failure.error.name) == (code, name)
    assert shown(ended.failure) == [f"Error: {ended.failure.error.message}"]
    assert (ended.failure.cause, ended.passed, ended.at) == (None, passed, 0)


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("by", ["entered", "unentered", "around", "deadline", "deadline around"])
def test_a_call_that_is_cancelled_on_entry_passes_no_stage(by: By, bare: bool) -> None:
    """Row "on entry"."""
    line = Line(bare=bare)
    ended = line.call(cancel_at=0, by=by, reason="too late")
    assert_aborted_before_dispatch(line, by, ["finalize"])
    assert ended.at == 0
    cause = ended.failure.cause
    assert cause is not None
    assert cause.reason in (None, "too late")


def test_a_caller_inside_a_shield_is_not_cancelled_on_entry() -> None:
    """Row "on entry": a cancellation that does not reach the caller is none of the call's business."""
    line = Line()

    async def main() -> None:
        with trio.CancelScope() as outer:
            outer.cancel()
            with trio.CancelScope(shield=True):
                await line.execute()

    run(main)
    assert line.ended.success.value == "done"


# ---- before policies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", BYS)
def test_a_call_that_is_cancelled_while_a_policy_waits_is_aborted_before_dispatch(by: By) -> None:
    """Row "before policy waits", cancelled: after, finish."""
    line = Line(before=waiting(Allow()))
    ended = line.call(cancel_at=1, by=by, reason="enough")
    assert_aborted_before_dispatch(line, by, ["before", *GATES_AND_FINISH])
    assert ended.at == 1
    assert ended.failure.cause is not None
    assert ended.failure.cause.reason == (None if by in DEADLINES else "enough")


def test_a_policy_that_waits_and_allows_lets_the_call_run() -> None:
    """Row "before policy waits", not cancelled."""
    ended = Line(before=waiting(Allow())).call()
    assert (ended.success.value, ended.at) == ("done", 10)
    assert ended.passed == ["before", "guard", "around", "body", *GATES_AND_FINISH]


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("decision", [Allow(), Ask("sure?")])
def test_a_policy_that_decides_too_late_starts_nothing_and_asks_nobody(decision: BeforeDecision, by: By) -> None:
    """Row "before policy waits", cancelled: also when it shields itself; P2."""
    line = Line(before=late(decision), approver=answering("allowed-once"))
    ended = line.call(cancel_at=1, by=by)
    assert_aborted_before_dispatch(line, by, ["before", *GATES_AND_FINISH])
    assert ended.at == 10


@pytest.mark.parametrize("by", [None, *BYS])
def test_a_denial_stays_also_after_the_cancellation(by: By | None) -> None:
    """Row "… denies, also after the cancellation"; P6."""
    line = Line(before=late(Deny("not on a Friday")))
    line.call(cancel_at=by and 1, by=by or "entered")
    assert_told(line, "DENIED", line.ended.failure.error.name, "not on a Friday", ["before", *GATES_AND_FINISH])


@pytest.mark.parametrize("by", [None, *BYS])
def test_a_policy_that_raises_is_that_failure_also_after_the_cancellation(by: By | None) -> None:
    """Row "… raises, also after the cancellation": finish only; P9."""
    line = Line(before=late(ToolError("rules cannot be read", code="RULES")))
    line.call(cancel_at=by and 1, by=by or "entered")
    assert_told(line, "RULES", "ToolError", "rules cannot be read", ["before", "finalize"])


def test_a_policy_that_raises_in_answer_to_its_cancellation_is_that_failure() -> None:
    """Row "… raises, also after the cancellation", when the cancellation makes it raise."""

    async def before(execution: ToolExecution, call_next: NextBefore) -> BeforeDecision:
        try:
            await trio.sleep(10)
        finally:
            raise LookupError("no rule")

    line = Line(before=before)
    line.call(cancel_at=1)
    assert_told(line, None, "LookupError", "no rule", ["before", "finalize"])


def test_an_error_that_a_policy_raises_beside_a_cancellation_in_one_group_is_the_error() -> None:
    """Section 5: a failure whose group mixes Cancelled with errors is the errors."""

    async def before(execution: ToolExecution, call_next: NextBefore) -> BeforeDecision:
        async def failing() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ToolError("rules cannot be read", code="RULES")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(failing)
            await trio.sleep_forever()
        return Allow()

    line = Line(before=before)
    line.call(cancel_at=1)
    assert_told(line, "RULES", "ToolError", "rules cannot be read", ["before", "finalize"])


NO_DECISION: list[Callable[[], object]] = [
    lambda: None,
    lambda: True,
    lambda: Allow,
    lambda: "allow",
    lambda: trivial(),
    lambda: ToolFailure.from_message("x"),
]


@pytest.mark.parametrize("by", [None, "entered"])
@pytest.mark.parametrize("make", NO_DECISION)
def test_a_policy_that_gives_no_decision_stops_the_call(make: Callable[[], object], by: By | None) -> None:
    """P9: fails closed, and a coroutine that it gave by mistake is closed (warnings are errors here)."""
    line = Line(before=late(make()))
    ended = line.call(cancel_at=by and 1, by=by or "entered")
    assert ended.failure.error.name == "TypeError"
    assert ended.passed == ["before", "finalize"]


@pytest.mark.parametrize("outer_hides_it", [False, True])
def test_an_outer_policy_sees_the_exception_of_an_inner_one(outer_hides_it: bool) -> None:
    """Section 2: policies stand outermost first, each with ``call_next``."""

    async def outer(execution: ToolExecution, call_next: NextBefore) -> BeforeDecision:
        try:
            return await call_next()
        except ToolError as error:
            if outer_hides_it:
                return Deny(f"because: {error}")
            raise

    line = Line(before=outer)
    line.registry.before(raising(ToolError("inner", code="INNER")))
    ended = line.call()
    assert ended.code == ("DENIED" if outer_hides_it else "INNER")


def test_of_two_policies_the_outer_one_waits_in_vain_for_an_inner_one_that_is_cancelled() -> None:
    """Row "before policy waits": wherever in the chain it waits."""

    async def outer(execution: ToolExecution, call_next: NextBefore) -> BeforeDecision:
        return await call_next()

    line = Line(before=outer)
    line.registry.before(waiting(Allow()))
    line.call(cancel_at=1)
    assert_aborted_before_dispatch(line, "entered", ["before", *GATES_AND_FINISH])


def test_a_denial_whose_reason_is_no_utf8_is_still_a_denial() -> None:
    """P6, P9: a reason may quote a file name; what cannot be written is replaced, and the code stays."""
    ended = Line(before=answering(Deny("no access to \udcff.txt"))).call()
    assert ended.code == "DENIED"
    shown(ended.failure)[0].encode()
