"""A ``Cancelled`` that somebody kept, raised when nobody is cancelled: section 4 of the design, "The edge"."""

from __future__ import annotations

import pytest
import trio
from calls import BYS, By, Line, NextAfter, NextAround, NextBefore, whose
from fakes import deaf, source
from outcomes import (
    NONE,
    by_anybody,
)

from trio_tools import (
    Accept,
    AfterDecision,
    BeforeDecision,
    FrozenJson,
    ToolDispatch,
    ToolError,
    ToolExecution,
    ToolResult,
    ToolRun,
    ToolSuccess,
    tool,
)

# ---- strays: a Cancelled that somebody kept, raised when nobody is cancelled -----------------------------------------


async def a_stray() -> trio.Cancelled:
    """A ``Cancelled`` whose scope is over."""
    kept: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel("long ago")
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as error:
            kept.append(error)
    return kept[0]


DISK_FULL = ToolError("disk full", code="DISK")


@pytest.mark.parametrize("bare", [False, True])
def test_a_stray_that_the_body_raises_aborts_it_and_nobody_else(bare: bool) -> None:
    """Section 4, "The edge": also a stray one that a body kept and raised later. P5: the caller is not cancelled."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.emit("half")
        raise await a_stray()

    ended = Line(body=body, bare=bare).call()
    assert (ended.code, ended.failure.body, source(ended.failure)) == ("ABORTED", "interrupted", "tool")
    assert len(ended.failure.partial) == 1
    assert ended.passed[-1] == "finalize"
    assert ("after" in ended.passed) != bare


def test_a_stray_that_a_plain_function_raises_aborts_it() -> None:
    """Likewise, without a nursery of its own."""

    @tool
    async def t() -> str:
        raise await a_stray()

    ended = Line(definition=t, bare=True).call()
    assert (ended.code, ended.failure.body) == ("ABORTED", "interrupted")


def test_a_stray_that_owned_work_raises_aborts_the_call() -> None:
    """Likewise, in a task of the body's nursery."""

    async def child() -> None:
        raise await a_stray()

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.nursery.start_soon(child)
        await trio.sleep(10)
        return "done"

    ended = Line(body=body).call()
    assert ended.failure.body != "not-started"
    assert ended.failure.error.code == "ABORTED"


def test_a_stray_beside_an_error_is_the_error() -> None:
    """Section 5: a failure whose group mixes Cancelled with errors is the errors."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        raise BaseExceptionGroup("both", [await a_stray(), DISK_FULL])

    ended = Line(body=body).call()
    assert ended.code == "DISK"


def test_a_stray_that_a_before_policy_raises_stops_the_call() -> None:
    """P9: a policy that raises stops the call; section 4: it is let go at the edge, and the caller goes on."""

    async def before(execution: ToolExecution, call_next: NextBefore) -> BeforeDecision:
        raise await a_stray()

    ended = Line(before=before).call()
    assert (ended.code, ended.failure.body, ended.bodies) == ("ABORTED_BEFORE_DISPATCH", "not-started", 0)
    assert ended.passed == ["before", "after", "finalize"]  # cancelled in before: after, finish


@pytest.mark.parametrize("fails", [False, True])
def test_a_stray_that_a_wrapper_raises_after_the_body_unwinds_it(fails: bool) -> None:
    """Row "wrapper waits after the body": if Cancelled unwinds the wrapper, the body's own failure stays; a success is
    ABORTED with ``superseded``; both pass after."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        await call_next()
        raise await a_stray()

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        if fails:
            raise DISK_FULL
        return "done"

    ended = Line(around=around, body=body).call()
    assert ended.failure.body == "finished"
    assert ended.passed == ["before", "guard", "around", "body", "after", "finalize"]
    if fails:
        assert ended.code == "DISK"
    else:
        assert ended.code == "ABORTED"
        assert isinstance(ended.replaced, ToolSuccess)


def test_a_stray_that_a_wrapper_raises_before_the_body_ends_the_call_before_dispatch() -> None:
    """Section 2: cancelled in around: after, finish."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        raise await a_stray()

    ended = Line(around=around).call()
    assert (ended.code, ended.passed) == (
        "ABORTED_BEFORE_DISPATCH",
        ["before", "guard", "around", "after", "finalize"],
    )


@pytest.mark.parametrize("by", [None, *BYS])
def test_a_stray_that_an_after_policy_raises_fails_closed(by: By | None) -> None:
    """P9: a gate that dies has not decided; nothing of the result is shown."""

    async def after(execution: ToolExecution, result: ToolResult, call_next: NextAfter) -> AfterDecision:
        await deaf(2)
        raise await a_stray()

    ended = Line(after=after).call(cancel_at=by and 1, by=by or "entered")
    assert ended.result.is_error
    assert "done" not in str(ended.failure)
    assert ended.failure.body == "finished"


def test_an_after_policy_that_is_caught_in_its_own_cancelled_scope_has_not_decided() -> None:
    """P9: ``None`` out of its own ``with`` block is no decision."""

    async def after(execution: ToolExecution, result: ToolResult, call_next: NextAfter) -> AfterDecision:
        with trio.move_on_after(1):
            await trio.sleep(10)
            return Accept()
        return NONE

    ended = Line(after=after).call()
    assert ended.failure.error.name == "TypeError"


@by_anybody
def test_a_stray_does_not_take_the_place_of_the_one_who_did_cancel(by: By) -> None:
    """Section 4: ``cause`` is whose scope it was."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        stray = await a_stray()
        await deaf(2)
        raise stray

    ended = Line(body=body).call(cancel_at=1, by=by)
    assert (ended.code, source(ended.failure)) == ("ABORTED", whose(by))
