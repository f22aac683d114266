"""Interrupts, in every stage up to the body: row "KeyboardInterrupt and the like in the body" of the table in section 5
of the design, P1, P7, and section 4, "Interrupts"."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
from calls import By, Line, NextAround, NextBefore
from fakes import Halt, answering, deaf, late, raising, source, success
from outcomes import (
    FAILS,
    NOTE,
    OWN,
    bare_or_not,
)

from trio_tools import (
    Ask,
    BeforeDecision,
    FrozenJson,
    TextContent,
    ToolDispatch,
    ToolError,
    ToolExecution,
    ToolFailure,
    ToolResult,
    ToolRun,
    ToolSuccess,
)

INTERRUPTS = [KeyboardInterrupt, SystemExit, Halt, GeneratorExit]


# ---- in a gate -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", INTERRUPTS)
@pytest.mark.parametrize("stage", ["before", "approval", "guard"])
@pytest.mark.parametrize("late_", [False, True])
def test_an_interrupt_in_a_gate_leaves_as_itself_after_the_abort_is_published(
    stage: str, kind: type[BaseException], late_: bool
) -> None:
    """P1, P7; section 4, "Interrupts": the after stage is skipped."""
    interrupt = kind("stop")

    def guard(execution: ToolExecution) -> str | None:
        raise interrupt

    raise_it = late(interrupt) if late_ else raising(interrupt)
    line = Line(before=answering(Ask()), approver=answering("allowed-once"))
    if stage == "before":
        line.before = raise_it
    elif stage == "approval":
        line.approver = raise_it
    else:
        line.guard = guard
    ended = line.call(cancel_at=1 if late_ and stage != "guard" else None)
    assert ended.raised is interrupt
    assert ended.code == "ABORTED_BEFORE_DISPATCH"
    assert "after" not in ended.passed
    assert ended.passed[-1] == "finalize"
    assert source(ended.failure) == ("caller" if late_ and stage != "guard" else "interrupt")


# ---- in a wrapper ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, Halt])
@pytest.mark.parametrize("inner", [answering("done"), FAILS, None])
def test_an_interrupt_in_a_wrapper_leaves_as_itself_and_what_the_body_did_is_told(
    inner: Any, kind: type[BaseException]
) -> None:
    """P7; section 4, "Interrupts": a success already there becomes ABORTED with ``superseded``, a failure stays."""
    interrupt = kind("stop")

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        if inner is not None:
            await call_next()
        raise interrupt

    ended = Line(around=around, body=inner or answering("never")).call()
    assert ended.raised is interrupt
    assert "after" not in ended.passed
    if inner is FAILS:
        assert (ended.code, ended.failure.body) == ("FLAKY", "finished")
    elif inner is None:
        assert (ended.code, source(ended.failure)) == ("ABORTED_BEFORE_DISPATCH", "interrupt")
    else:
        assert (ended.code, source(ended.failure)) == ("ABORTED", "interrupt")
        assert isinstance(ended.replaced, ToolSuccess)


@pytest.mark.parametrize("swallowed", [False, True])
def test_the_interrupt_of_an_inner_wrapper_passes_the_outer_one(swallowed: bool) -> None:
    """P7: an outer wrapper may handle it like any exception; else it leaves as itself."""

    async def outer(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        try:
            return await call_next()
        except Halt:
            if swallowed:
                return OWN
            raise

    ended = Line(around=(outer, raising(Halt()))).call()
    if swallowed:
        assert (ended.code, ended.raised) == ("QUOTA", None)
    else:
        assert isinstance(ended.raised, Halt)
        assert ended.code == "ABORTED_BEFORE_DISPATCH"


def test_a_before_policy_can_still_not_hide_behind_a_wrapper() -> None:
    """Section 2: policies stand before wrappers; a denial runs none."""

    async def before(execution: ToolExecution, call_next: NextBefore) -> BeforeDecision:
        raise ToolError("no", code="NO")

    ended = Line(before=before, around=answering(success("cached"))).call()
    assert ended.code == "NO"
    assert "around" not in ended.passed


# ---- in the body -----------------------------------------------------------------------------------------------------


@bare_or_not
@pytest.mark.parametrize("kind", INTERRUPTS)
@pytest.mark.parametrize("by", [None, "entered", "operator"])
def test_an_interrupt_in_the_body_leaves_as_itself_after_the_abort_is_published(
    by: By | None, kind: type[BaseException], bare: bool
) -> None:
    """Row "KeyboardInterrupt and the like in the body"; P7; the after stage is skipped."""
    interrupt = kind("stop")

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.emit("half")
        run.defer_context(NOTE)
        await deaf(2)
        raise interrupt

    ended = Line(body=body, bare=bare).call(cancel_at=by and 1, by=by or "entered")
    assert ended.raised is interrupt
    assert (ended.code, ended.failure.body) == ("ABORTED", "interrupted")
    assert ended.failure.content == (TextContent("Error: tool call aborted"), TextContent("half"))
    assert ended.failure.contexts == (NOTE,)
    assert ended.passed == ["body", "finalize"] if bare else ["before", "guard", "around", "body", "finalize"]


@bare_or_not
@pytest.mark.parametrize("kind", [KeyboardInterrupt, Halt])
def test_an_interrupt_in_owned_work_leaves_as_itself_and_not_in_a_group(kind: type[BaseException], bare: bool) -> None:
    """P7: it leaves as itself."""
    interrupt = kind("stop")

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.nursery.start_soon(raising(interrupt))
        await trio.sleep(10)
        return "done"

    ended = Line(body=body, bare=bare).call()
    assert ended.raised is interrupt
    assert (ended.code, source(ended.failure), ended.failure.body) == ("ABORTED", "interrupt", "interrupted")


@bare_or_not
def test_an_interrupt_beside_an_error_leaves_as_itself_and_the_error_is_not_lost(bare: bool) -> None:
    """P6, P7: the error is the tool's own failure; it stands, or at least beside the abort."""
    interrupt = KeyboardInterrupt("stop")

    async def failing() -> None:
        try:
            await trio.sleep(10)
        finally:
            raise ToolError("half written", code="HALF")

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.nursery.start_soon(failing)
        await trio.sleep(1)
        raise interrupt

    ended = Line(body=body, bare=bare).call()
    assert ended.raised is interrupt
    told = [ended.failure, ended.failure.superseded]
    assert "HALF" in [one.error.code for one in told if isinstance(one, ToolFailure)]


def test_several_interrupts_at_once_leave_in_one_group() -> None:
    """P7: none is lost, and none is wrapped in more than one group."""
    one, two = KeyboardInterrupt("one"), Halt("two")

    async def second() -> None:
        try:
            await trio.sleep(10)
        finally:
            raise two

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.nursery.start_soon(second)
        await trio.sleep(1)
        raise one

    ended = Line(body=body).call()
    assert type(ended.raised) is BaseExceptionGroup
    assert set(cast(Any, ended).raised.exceptions) == {one, two}
    assert ended.code == "ABORTED"


def test_a_wrapper_sees_the_interrupt_of_the_body_and_may_clean_up() -> None:
    """P7: it passes the wrappers as an exception."""
    seen: list[BaseException] = []

    async def around(dispatch: object, call_next: Any) -> Any:
        try:
            return await call_next()
        except BaseException as error:
            seen.append(error)
            raise

    interrupt = KeyboardInterrupt("stop")
    ended = Line(around=around, body=raising(interrupt)).call()
    assert seen == [interrupt]
    assert ended.raised is interrupt
