"""Rows of the table in section 5 of the design about the approval and the guards. Each not cancelled, and cancelled by
everybody who can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import trio
from calls import BYS, By, Line
from fakes import answering, late, shown, trivial, waiting
from outcomes import (
    assert_aborted_before_dispatch,
    assert_told,
)

from trio_tools import (
    Accept,
    Allow,
    ApprovalRequest,
    Ask,
    Context,
    Deny,
    ToolCall,
    ToolDefinition,
    ToolError,
    ToolExecution,
)

GATES_AND_FINISH = ["after", "finalize"]


# ---- the approval ----------------------------------------------------------------------------------------------------

NOT_APPROVED = ["rejected", "cancelled", "unavailable"]


@pytest.mark.parametrize("by", BYS)
def test_a_call_that_is_cancelled_while_a_person_is_asked_is_aborted_before_dispatch(by: By) -> None:
    """Row "approver waits"."""
    line = Line(before=answering(Ask()), approver=waiting("allowed-once"))
    ended = line.call(cancel_at=1, by=by)
    assert_aborted_before_dispatch(line, by, ["before", "approval", *GATES_AND_FINISH])
    assert ended.at == 1


def test_a_person_who_takes_their_time_lets_the_call_run() -> None:
    """Row "approver waits", not cancelled."""
    ended = Line(before=answering(Ask()), approver=waiting("allowed-once")).call()
    assert ended.success.value == "done"
    assert ended.passed[:2] == ["before", "approval"]


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("answer", ["allowed-once", "cancelled", "unavailable"])
def test_an_answer_that_comes_too_late_is_an_abort_unless_it_is_a_rejection(answer: str, by: By) -> None:
    """Rows "approver waits" and "approver: cancelled by the user / unavailable", cancelled."""
    line = Line(before=answering(Ask()), approver=late(answer))
    ended = line.call(cancel_at=1, by=by)
    assert_aborted_before_dispatch(line, by, ["before", "approval", *GATES_AND_FINISH])
    assert ended.at == 10


@pytest.mark.parametrize("by", [None, *BYS])
def test_a_rejection_stays_a_denial_because_a_person_did_decide(by: By | None) -> None:
    """Row "approver: rejected"."""
    line = Line(before=answering(Ask()), approver=late("rejected"))
    line.call(cancel_at=by and 1, by=by or "entered")
    assert (line.ended.code, line.ended.passed) == ("DENIED", ["before", "approval", *GATES_AND_FINISH])
    assert "rejected" in line.ended.failure.error.message


def test_every_way_of_not_being_approved_has_its_own_text() -> None:
    """Row "approver: cancelled by the user / unavailable / none configured": DENIED, distinct texts."""
    told: list[str] = []
    for answer in [*NOT_APPROVED, None]:
        line = Line(before=answering(Ask()), approver=answering(answer) if answer else None)
        ended = line.call()
        assert ended.code == "DENIED"
        assert ended.passed == ["before", *(["approval"] if answer else []), *GATES_AND_FINISH]
        assert shown(ended.failure) == [f"Error: {ended.failure.error.message}"]
        told.append(ended.failure.error.message)
    assert len(set(told)) == 4


@pytest.mark.parametrize("by", [None, *BYS])
def test_an_approver_that_raises_is_that_failure_and_passes_only_finish(by: By | None) -> None:
    """Section 2: "a before policy, approver, wrapper or after policy raises": finish. P9."""
    line = Line(before=answering(Ask()), approver=late(ToolError("no terminal", code="TTY")))
    line.call(cancel_at=by and 1, by=by or "entered")
    assert_told(line, "TTY", "ToolError", "no terminal", ["before", "approval", "finalize"])


@pytest.mark.parametrize("by", [None, "entered"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: None,
        lambda: True,
        lambda: "allowed",
        lambda: "ALLOWED-ONCE",
        lambda: trivial(),
        lambda: Allow(),
        lambda: ["allowed-once"],
    ],
)
def test_an_approver_that_gives_no_outcome_stops_the_call(make: Callable[[], object], by: By | None) -> None:
    """P9."""
    line = Line(before=answering(Ask()), approver=late(make()))
    ended = line.call(cancel_at=by and 1, by=by or "entered")
    assert ended.failure.error.name == "TypeError"
    assert ended.passed == ["before", "approval", "finalize"]


def test_the_person_is_asked_about_the_arguments_that_run() -> None:
    """P8: what was approved is what runs."""
    arguments: dict[str, Any] = {"path": ["a"]}
    asked: list[object] = []
    ran: list[object] = []

    async def approver(ask: ApprovalRequest) -> Any:
        asked.append(ask.execution.arguments)
        arguments["path"].append("b")
        await trio.sleep(1)
        return "allowed-once"

    async def body(received: Any, run: object) -> object:
        ran.append(received)
        return "done"

    line = Line(before=answering(Ask("really?")), approver=approver, body=body)
    line.call(ToolCall(id="c1", name="t", arguments=arguments))
    assert asked == ran == [{"path": ("a",)}]


# ---- guards ----------------------------------------------------------------------------------------------------------


def test_a_guard_denies_with_its_reason() -> None:
    """Row "guard gives a reason"."""

    def guard(execution: ToolExecution) -> str | None:
        return "outside the project"

    line = Line(guard=guard)
    line.call()
    assert_told(
        line, "DENIED", line.ended.failure.error.name, "outside the project", ["before", "guard", *GATES_AND_FINISH]
    )


def test_an_empty_reason_is_a_reason() -> None:
    """P9: only ``None`` abstains."""
    ended = Line(guard=lambda _: "").call()
    assert (ended.code, ended.bodies) == ("DENIED", 0)


def test_a_guard_that_raises_is_that_failure() -> None:
    """Row "guard … raises"."""

    def guard(execution: ToolExecution) -> str | None:
        raise ToolError("guard broke", code="GUARD")

    line = Line(guard=guard)
    line.call()
    assert line.ended.code == "GUARD"
    assert line.ended.bodies == 0


@pytest.mark.parametrize("answer", [True, False, 0, Deny("x"), ("no",)])
def test_a_guard_that_gives_neither_a_reason_nor_none_stops_the_call(answer: object) -> None:
    """P9: fails closed, for things that look like a yes and like a no."""

    def guard(execution: ToolExecution) -> object:
        return answer

    ended = Line(guard=cast(Any, guard)).call()
    assert (ended.failure.error.name, ended.bodies) == ("TypeError", 0)


def test_a_guard_that_is_async_by_mistake_stops_the_call() -> None:
    """P9: a coroutine where a plain answer is due; it is closed."""

    async def guard(execution: ToolExecution) -> str | None:
        return None

    ended = Line(guard=cast(Any, guard)).call()
    assert (ended.failure.error.name, ended.bodies) == ("TypeError", 0)


@pytest.mark.parametrize("by", BYS)
def test_a_reason_stays_though_the_call_is_cancelled_while_the_guard_runs(by: By) -> None:
    """Row "guard gives a reason", cancelled: the same. P6."""

    def guard(execution: ToolExecution) -> str | None:
        line.cancel()
        return "outside the project"

    line = Line(guard=guard)
    line.call(by=by)
    assert (line.ended.code, line.ended.passed) == ("DENIED", ["before", "guard", *GATES_AND_FINISH])


@pytest.mark.parametrize("by", BYS)
def test_nothing_starts_after_a_guard_has_seen_the_cancellation(by: By) -> None:
    """P2: cancelled in a synchronous stage, where no checkpoint tells."""

    def guard(execution: ToolExecution) -> str | None:
        line.cancel()
        return None

    line = Line(guard=guard)
    line.call(by=by)
    assert_aborted_before_dispatch(line, by, ["before", "guard", *GATES_AND_FINISH])


# ---- what else of a stage reaches the result -------------------------------------------------------------------------


def test_the_person_is_told_the_call_the_tool_and_the_reason_of_the_policy() -> None:
    """Section 3: an approval request names the execution, the tool and the reason."""
    seen: list[ApprovalRequest] = []

    async def approver(ask: ApprovalRequest) -> Any:
        seen.append(ask)
        return "rejected"

    Line(before=answering(Ask("deletes files")), approver=approver).call()
    (ask,) = seen
    assert (ask.execution.call_id, ask.tool.name, ask.reason) == ("c1", "t", "deletes files")
    assert isinstance(ask.tool, ToolDefinition)


def test_contexts_of_an_after_policy_reach_a_denied_call() -> None:
    """Section 2: a denied call still passes after."""
    note = Context("tell the user", source="policy")
    ended = Line(before=answering(Deny("no")), after=answering(Accept(contexts=(note,)))).call()
    assert (ended.code, ended.failure.contexts) == ("DENIED", (note,))
