"""Rows of the table in section 5 of the design about calls that are cancelled in a wrapper or in the body, by the
caller or by a wrapper's scope; section 4, "Fusing". P2, P4."""

from __future__ import annotations

import pytest
import trio
from calls import BYS, DEADLINES, By, Line, NextAround, whose
from fakes import deaf, late, shown, source, waiting
from outcomes import (
    ENTIRE,
    NO_BODY,
    NONE,
    NOTE,
    assert_aborted,
)

from trio_tools import (
    FrozenJson,
    TextContent,
    ToolDispatch,
    ToolFailure,
    ToolResult,
    ToolRun,
    ToolSuccess,
)

# ---- cancelled before or in the body ---------------------------------------------------------------------------------


@pytest.mark.parametrize("by", BYS)
def test_a_call_that_is_cancelled_while_a_wrapper_waits_before_the_body_ends_before_dispatch(by: By) -> None:
    """Section 2: cancelled in around: after, finish. P2."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        await trio.sleep(10)
        return await call_next()

    line = Line(around=around)
    ended = line.call(cancel_at=1, by=by)
    assert_aborted(line, whose(by), NO_BODY)
    assert (ended.failure.body, ended.at) == ("not-started", 1)


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("shield", [False, True])
def test_a_body_does_not_start_when_its_call_was_cancelled_before(by: By, shield: bool) -> None:
    """Row "scope already cancelled when the body would start", also when a wrapper hides the caller (P4)."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        with trio.CancelScope(shield=shield):
            await deaf(2)
            return await call_next()
        return NONE

    line = Line(around=around)
    ended = line.call(cancel_at=1, by=by)
    assert_aborted(line, whose(by), NO_BODY)
    assert ended.failure.body == "not-started"


@pytest.mark.parametrize("by", BYS)
def test_a_call_that_is_cancelled_in_the_very_step_in_which_the_wrapper_starts_the_body_does_not_start_it(
    by: By,
) -> None:
    """Row "scope already cancelled when the body would start"; the watcher is not parked in the first tick."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        line.cancel()
        with trio.CancelScope(shield=True):
            return await call_next()
        return NONE

    for _ in range(20):  # in both orders in which Trio may run the tasks of one pass
        line = Line(around=around, bare=True)
        ended = line.call(by=by)
        assert (ended.code, ended.bodies) == ("ABORTED_BEFORE_DISPATCH", 0)
        assert source(ended.failure) == whose(by)


@pytest.mark.parametrize("how", ["assigned", "with"])
@pytest.mark.parametrize("cut_by", ["deadline", "cancel"])
def test_a_wrappers_scope_that_is_cancelled_before_the_body_keeps_it_from_starting(how: str, cut_by: str) -> None:
    """Row "a wrapper's scope is cancelled before … the body, and no wrapper maps it"."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        scope = trio.CancelScope()
        if cut_by == "deadline":
            scope.deadline = trio.current_time()
        else:
            scope.cancel()
        if how == "assigned":
            dispatch.scope = scope
            return await call_next()
        with scope:
            return await call_next()
        return NONE

    line = Line(around=around)
    ended = line.call()
    assert_aborted(line, "wrapper", NO_BODY)
    assert (ended.failure.body, ended.caller_cancelled) == ("not-started", False)


@pytest.mark.parametrize("how", ["assigned", "with"])
@pytest.mark.parametrize("by", [None, *BYS])
def test_a_wrappers_scope_that_is_cancelled_in_the_body_aborts_it(how: str, by: By | None) -> None:
    """Row "a wrapper's scope is cancelled … in the body, and no wrapper maps it"; cancelled later: the same."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        if how == "assigned":
            dispatch.scope = trio.CancelScope(relative_deadline=1)
            result = await call_next()
            await deaf(5)
            return result
        with trio.move_on_after(1):
            return await call_next()
        await deaf(5)
        return NONE

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.emit("half")
        run.defer_context(NOTE)
        await trio.sleep(10)
        return "done"

    line = Line(around=around, body=body)
    ended = line.call(cancel_at=by and 3, by=by or "entered")
    assert_aborted(line, "wrapper", ENTIRE)
    assert ended.at == 6
    assert (ended.failure.body, ended.failure.partial) == ("interrupted", (TextContent("half"),))
    assert shown(ended.failure) == ["Error: tool call aborted", "half"]
    assert ended.failure.contexts == (NOTE,)


@pytest.mark.parametrize("how", ["assigned", "with"])
def test_a_wrapper_maps_what_its_own_scope_has_ended(how: str) -> None:
    """Section 4, "Fusing": ``call_next`` returns the abort of an assigned scope, and raises for a ``with``."""
    got: list[ToolResult | None] = []

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        result: ToolResult | None = None
        if how == "assigned":
            dispatch.scope = trio.CancelScope(relative_deadline=1)
            result = await call_next()
        else:
            with trio.move_on_after(1):
                result = await call_next()
        got.append(result)
        return ToolFailure.from_message("too slow", code="SLOW")

    ended = Line(around=around, body=waiting()).call()
    assert (ended.code, ended.failure.body, ended.passed) == ("SLOW", "interrupted", ENTIRE)
    (result,) = got
    if how == "with":
        assert result is None
    else:
        assert isinstance(result, ToolFailure)
        assert (result.error.code, source(result)) == ("ABORTED", "wrapper")


@pytest.mark.parametrize("by", BYS)
def test_call_next_raises_when_the_cancelled_scope_is_the_callers(by: By) -> None:
    """Section 4, "Fusing": the caller's scope lies outside, so Trio raises there."""
    seen: list[object] = []

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        dispatch.scope = trio.CancelScope()
        try:
            result = await call_next()
        except trio.Cancelled as error:
            seen.append(error)
            raise
        seen.append(result)
        return result

    line = Line(around=around, body=waiting())
    line.call(cancel_at=1, by=by)
    assert_aborted(line, whose(by), ENTIRE)
    assert isinstance(seen[0], trio.Cancelled)


@pytest.mark.parametrize("by", BYS)
def test_call_next_returns_what_the_body_brought_about_before_it_is_unwound(by: By) -> None:
    """P6: a body that listens to nobody is over, and the wrapper sees its success before it meets the Cancelled."""
    seen: list[str | None] = []

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        result = await call_next()
        seen.append(result.error.code if isinstance(result, ToolFailure) else "success")
        return result

    line = Line(around=around, body=late("done"))
    ended = line.call(cancel_at=1, by=by)
    assert_aborted(line, whose(by), ENTIRE)
    assert seen == ["ABORTED"]
    assert isinstance(ended.replaced, ToolSuccess)


@pytest.mark.parametrize("shield", [False, True])
@pytest.mark.parametrize("by", BYS)
def test_a_wrapper_cannot_cut_the_caller_off(by: By, shield: bool) -> None:
    """P4: not by a shield of its own, and not by an assigned scope that is one."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        if shield:
            with trio.CancelScope(shield=True):
                return await call_next()
            return NONE
        dispatch.scope = trio.CancelScope(shield=True)
        return await call_next()

    line = Line(around=around, body=waiting())
    ended = line.call(cancel_at=1, by=by, reason="enough")
    assert_aborted(line, whose(by), ENTIRE)
    assert ended.at == 1
    assert ended.failure.cause is not None
    assert ended.failure.cause.reason == (None if by in DEADLINES else "enough")
