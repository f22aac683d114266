"""Row "retry: several attempts" of the table in section 5 of the design."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import trio
from calls import BYS, By, Line, NextAround, whose
from fakes import answering, deaf, raising, source, success, waiting
from outcomes import (
    ENTIRE,
    FAILS,
    GATES,
    NONE,
    NOTE,
    assert_aborted,
    attempts,
)

from trio_tools import (
    FrozenJson,
    ToolDispatch,
    ToolError,
    ToolResult,
    ToolRun,
    ToolSuccess,
)

# ---- retries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bodies", "code", "state"),
    [
        ((FAILS, answering("done")), None, "finished"),
        ((answering("done"), FAILS), "FLAKY", "finished"),
        ((FAILS, raising(ToolError("second", code="SECOND"))), "SECOND", "finished"),
        ((answering("done"), answering({1})), "INVALID_TOOL_OUTPUT", "finished"),
    ],
)
def test_the_last_attempt_counts(bodies: tuple[Any, ...], code: str | None, state: str) -> None:
    """Row "retry: several attempts"."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        await call_next()
        return await call_next()

    ended = Line(around=around, body=attempts(*bodies)).call()
    assert (ended.code, ended.result.body, ended.bodies) == (code, state, 2)


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("shield", [False, True])
@pytest.mark.parametrize("first", [FAILS, answering("done")])
def test_the_attempt_before_counts_if_the_last_one_never_started(first: Any, by: By, shield: bool) -> None:
    """Row "retry", cancelled between the attempts: a failure stays, a success is ABORTED and kept beside it."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        await call_next()
        await deaf(2)
        with trio.CancelScope(shield=shield):
            return await call_next()
        return NONE

    line = Line(around=around, body=attempts(first, answering("never")))
    ended = line.call(cancel_at=1, by=by)
    assert (ended.bodies, ended.failure.body) == (1, "finished")
    if first is FAILS:
        assert (ended.code, ended.passed) == ("FLAKY", ENTIRE)
    else:
        assert_aborted(line, whose(by), ENTIRE)
        replaced = ended.replaced
        assert isinstance(replaced, ToolSuccess)
        assert replaced.value == "done"


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("first", [FAILS, answering("done")])
def test_the_attempt_before_counts_if_the_wrapper_is_unwound_between_two_attempts(first: Any, by: By) -> None:
    """Row "retry", cancelled while the wrapper waits for its next attempt."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        await call_next()
        await trio.sleep(10)
        return await call_next()

    line = Line(around=around, body=attempts(first, answering("never")))
    ended = line.call(cancel_at=1, by=by)
    assert (ended.bodies, ended.failure.body, ended.at) == (1, "finished", 1)
    assert ended.code == ("FLAKY" if first is FAILS else "ABORTED")
    assert ended.passed == ENTIRE


@pytest.mark.parametrize("by", BYS)
def test_an_attempt_that_is_interrupted_counts_though_the_one_before_had_failed(by: By) -> None:
    """Row "retry: several attempts": the last attempt counts, and it did start."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        await call_next()
        return await call_next()

    line = Line(around=around, body=attempts(FAILS, waiting("late")))
    ended = line.call(cancel_at=1, by=by)
    assert_aborted(line, whose(by), [*GATES, "around", "body", "body", "after", "finalize"])
    assert (ended.failure.body, ended.failure.superseded) == ("interrupted", None)


def test_a_retry_after_an_attempt_that_a_scope_had_ended_runs_as_if_nothing_had_been() -> None:
    """Section 3: ``call_next`` may be awaited again; each attempt has its own scope, and its own partial output."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        dispatch.scope = trio.CancelScope(relative_deadline=1)
        first = await call_next()
        assert first.is_error
        return await call_next()

    async def first(arguments: FrozenJson, run: ToolRun) -> object:
        run.emit("half")
        run.defer_context(NOTE)
        await trio.sleep(10)
        return "never"

    line = Line(around=around, body=attempts(first, waiting("done", seconds=20)))
    ended = line.call()
    assert (ended.success.value, ended.success.contexts, ended.at) == ("done", (), 21)


def test_a_retry_whose_own_scope_is_cancelled_never_starts_and_the_failure_before_stays() -> None:
    """Row "retry": "if it never started, the one before", when the wrapper's own scope kept it from starting."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        await call_next()
        scope = trio.CancelScope()
        scope.cancel()
        dispatch.scope = scope
        return await call_next()

    ended = Line(around=around, body=attempts(FAILS, answering("never"))).call()
    assert (ended.code, ended.bodies, ended.failure.body) == ("FLAKY", 1, "finished")


@pytest.mark.parametrize("by", BYS)
def test_a_wrapper_that_swallows_the_cancellation_and_retries_does_not_run_the_body_again(by: By) -> None:
    """P2, P4: nothing is started after a cancellation."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        for _ in range(3):
            with contextlib.suppress(trio.Cancelled):
                return await call_next()
        return success("made up")

    line = Line(around=around, body=waiting("never"))
    ended = line.call(cancel_at=1, by=by)
    assert (ended.code, ended.bodies, ended.failure.body) == ("ABORTED", 1, "interrupted")
    assert source(ended.failure) == whose(by)
