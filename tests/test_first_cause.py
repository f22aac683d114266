"""Section 4 of the design, "Who cancelled first": the first cause wins, at the same instant the caller does. In all
orders of the caller (or an operator) and whatever else can end a body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, cast

import pytest
import trio
from calls import BYS, By, Line, NextAround, whose
from fakes import deaf, source, waiting
from outcomes import (
    NONE,
    by_anybody,
)

from trio_tools import (
    FrozenJson,
    ToolDispatch,
    ToolError,
    ToolFailure,
    ToolResult,
    ToolRun,
    ToolSuccess,
    tool,
)

Rival = Literal["timeout", "assigned", "with", "own nursery"]
AT = 5.0  # when the rival of the caller fires
TIMES = [(3.0, "caller"), (5.0, "caller"), (6.0, "rival")]  # the caller cancels then; who is the cause
OFTEN = 12  # Trio runs the tasks of one pass in a random order: enough runs to see both
in_all_orders = pytest.mark.parametrize(("cancel_at", "first"), TIMES)


def name_of(rival: Rival) -> str:
    return {"timeout": "deadline", "own nursery": "tool"}.get(rival, "wrapper")


def contest(rival: Rival, body: Callable[[FrozenJson, ToolRun], Awaitable[object]], *, how: str = "deadline") -> Line:
    """A call to ``body`` that ``rival`` ends at ``AT``; ``how``: by a deadline, or by a ``cancel()``."""

    async def cancelling(scope: trio.CancelScope) -> None:
        await trio.sleep(AT)
        scope.cancel("the rival")

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        if rival == "timeout" or rival == "own nursery":
            return await call_next()
        scope = trio.CancelScope(deadline=trio.current_time() + AT) if how == "deadline" else trio.CancelScope()
        async with trio.open_nursery() as nursery:
            if how == "cancel":
                nursery.start_soon(cancelling, scope)
            result = NONE
            if rival == "assigned":
                dispatch.scope = scope
                result = await call_next()
            else:
                with scope:
                    result = await call_next()
            nursery.cancel_scope.cancel()
        return result

    async def contested(arguments: FrozenJson, run: ToolRun) -> object:
        if rival == "own nursery":
            run.nursery.start_soon(cancelling, run.nursery.cancel_scope)
        return await body(arguments, run)

    return Line(
        body=contested,
        around=around if rival in ("assigned", "with") else None,
        timeout=AT if rival == "timeout" else None,
        bare=True,
    )


async def listens(arguments: FrozenJson, run: ToolRun) -> object:
    await trio.sleep(20)
    return "done"


async def cleans_up(arguments: FrozenJson, run: ToolRun) -> object:
    try:
        await trio.sleep(20)
    finally:
        await deaf(4)
    return "done"


async def is_deaf(arguments: FrozenJson, run: ToolRun) -> object:
    await deaf(8)
    await trio.sleep(20)
    return "done"


async def is_deaf_and_fails(arguments: FrozenJson, run: ToolRun) -> object:
    await deaf(8)
    raise ToolError("disk full", code="DISK")


async def is_deaf_and_returns(arguments: FrozenJson, run: ToolRun) -> object:
    await deaf(8)
    return "done"


# ---- every rival against everybody who can cancel a call -------------------------------------------------------------


@in_all_orders
@by_anybody
@pytest.mark.parametrize("body", [cleans_up, is_deaf])
@pytest.mark.parametrize("rival", ["timeout", "assigned", "with", "own nursery"])
@pytest.mark.parametrize("how", ["deadline", "cancel"])
def test_the_first_cause_wins_while_the_body_is_still_on_its_way_out(
    how: str, rival: Rival, body: Any, by: By, cancel_at: float, first: str
) -> None:
    """Section 4: what fires first is the cause, and at the same instant the caller is."""
    for _ in range(OFTEN if cancel_at == AT else 1):
        line = contest(rival, body, how=how)
        ended = line.call(cancel_at=cancel_at, by=by, reason="the caller")
        if first == "caller":
            assert (ended.code, source(ended.failure)) == ("ABORTED", whose(by))
        else:
            code = "TOOL_TIMEOUT" if rival == "timeout" else "ABORTED"
            assert (ended.code, source(ended.failure)) == (code, name_of(rival))
        assert (ended.failure.body, ended.failure.superseded) == ("interrupted", None)


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("rival", ["timeout", "assigned", "with", "own nursery"])
def test_at_the_same_instant_the_caller_wins_also_if_the_body_goes_at_once(rival: Rival, by: By) -> None:
    """Section 4: "at the same instant the caller wins", in whatever order Trio runs the tasks of that instant."""
    for _ in range(OFTEN):
        ended = contest(rival, listens).call(cancel_at=AT, by=by)
        assert (ended.code, source(ended.failure)) == ("ABORTED", whose(by))


@pytest.mark.parametrize("by", BYS)
def test_at_the_same_instant_the_caller_wins_over_the_timeout_of_a_plain_function(by: By) -> None:
    """Likewise, for a body that needs no nursery of its own."""

    @tool(timeout=AT)
    async def t() -> str:
        await trio.sleep(20)
        return "done"

    for _ in range(OFTEN):
        ended = Line(definition=t, bare=True).call(cancel_at=AT, by=by)
        assert (ended.code, source(ended.failure)) == ("ABORTED", whose(by))


@in_all_orders
@by_anybody
def test_what_a_body_returns_too_late_stands_beside_the_first_cause(by: By, cancel_at: float, first: str) -> None:
    """Section 5: ``superseded`` of an abort and of a timeout."""
    ended = contest("timeout", is_deaf_and_returns).call(cancel_at=cancel_at, by=by)
    assert ended.code == ("ABORTED" if first == "caller" else "TOOL_TIMEOUT")
    assert ended.failure.body == "finished"
    assert isinstance(ended.replaced, ToolSuccess)


@in_all_orders
@by_anybody
def test_what_a_body_raises_too_late_stands_in_for_an_abort_and_beside_a_timeout(
    by: By, cancel_at: float, first: str
) -> None:
    """Section 5: "body raises an Exception": that failure; "the tool's own timeout fired first": ``superseded``."""
    ended = contest("timeout", is_deaf_and_fails).call(cancel_at=cancel_at, by=by)
    if first == "caller":
        assert ended.code == "DISK"
    else:
        assert ended.code == "TOOL_TIMEOUT"
        assert isinstance(ended.replaced, ToolFailure)


@pytest.mark.parametrize("rival", ["assigned", "with"])
@pytest.mark.parametrize("by", [None, *BYS])
def test_a_success_that_comes_after_a_wrappers_scope_was_cancelled_is_aborted_by_the_wrapper(
    rival: Rival, by: By | None
) -> None:
    """Row "a wrapper's scope is cancelled … in the body", when the body listens to nobody."""
    ended = contest(rival, is_deaf_and_returns).call(cancel_at=by and 6, by=by or "entered")
    assert (ended.code, source(ended.failure), ended.failure.body) == ("ABORTED", "wrapper", "finished")
    assert isinstance(ended.replaced, ToolSuccess)


@pytest.mark.parametrize("rival", ["assigned", "with"])
def test_the_scopes_of_two_wrappers_are_told_from_the_callers_whichever_fires_first(rival: Rival) -> None:
    """Section 4: the outer wrapper's scope is a wrapper's too."""

    async def outer(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        dispatch.scope = trio.CancelScope(relative_deadline=3)
        return await call_next()

    inner = contest(rival, is_deaf)
    line = Line(around=outer, body=is_deaf, bare=True)
    assert inner.around is not None
    line.registry.around(cast(Any, inner.around))
    ended = line.call(cancel_at=6)
    assert (ended.code, source(ended.failure)) == ("ABORTED", "wrapper")


@pytest.mark.parametrize("first", ["operator", "caller"])
def test_of_an_operator_and_the_caller_the_first_is_the_cause(first: str) -> None:
    """Section 3, ``OutstandingCall.cancel``: cause "operator"; the first cause wins."""
    line = Line(body=is_deaf_and_returns)

    async def operate() -> None:
        await trio.sleep(1 if first == "operator" else 3)
        line.registry.outstanding()[0].cancel("operator's reason")

    ended = line.call(cancel_at=2, reason="caller's reason", beside=operate)
    assert source(ended.failure) == first
    assert ended.failure.cause is not None
    assert ended.failure.cause.reason == f"{first}'s reason"
    assert ended.caller_cancelled


def test_a_second_cancellation_by_the_operator_does_not_change_the_reason() -> None:
    """The first cause wins, also over itself."""
    line = Line(body=is_deaf_and_returns)

    async def operate() -> None:
        for reason in ("first", "second"):
            await trio.sleep(1)
            line.registry.cancel_call("c1", reason)

    ended = line.call(beside=operate)
    assert ended.failure.cause is not None
    assert (ended.failure.cause.source, ended.failure.cause.reason) == ("operator", "first")


# ---- what is noticed, and when ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rival", ["timeout", "assigned", "with"])
def test_a_body_under_a_shield_can_see_that_something_has_ended_it(rival: Rival) -> None:
    """Section 4: ``cancel_called`` is true as soon as the call is cancelled for any reason, also under a shield."""
    seen: list[bool] = []

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        with trio.CancelScope(shield=True):
            await trio.sleep(8)
            seen.append(run.scope.cancel_called)  # the first time that it looks
        await trio.sleep(20)
        return "done"

    contest(rival, body).call()
    assert seen == [True]


@pytest.mark.parametrize("rival", ["timeout", "assigned", "with"])
def test_what_a_body_puts_out_after_something_has_ended_it_is_not_partial_output(rival: Rival) -> None:
    """Section 3: ``partial`` is what the body emitted *before* it was interrupted."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.emit("before")
        try:
            await trio.sleep(20)
        finally:
            run.emit("while it ends")
            await deaf(1)
            run.emit("after")
        return "done"

    ended = contest(rival, body).call()
    assert [block for block in ended.failure.partial if "before" not in str(block)] == []
    assert len(ended.failure.partial) == 1


def test_the_scope_is_the_callers_again_when_the_scope_of_a_wrapper_has_ended_the_body() -> None:
    """Section 4: ``cancel_called`` is true for a wrapper's scope *while it applies*."""
    seen: list[bool] = []

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        dispatch.scope = trio.CancelScope(relative_deadline=1)
        await call_next()
        seen.append(dispatch.scope.cancel_called)
        return await call_next()

    line = Line(around=around, body=waiting("done"))
    ended = line.call()
    assert seen == [False]
    assert ended.success.value == "done"
