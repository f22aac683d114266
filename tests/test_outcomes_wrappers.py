"""Rows of the table in section 5 of the design about wrappers: what they answer themselves, and what becomes of the
body's outcome while they wait behind it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, cast

import pytest
import trio
from calls import BYS, By, Line, NextAround, whose
from fakes import answering, deaf, late, raising, shown, success, trivial, waiting
from outcomes import (
    ENTIRE,
    GATES,
    NO_BODY,
    NONE,
    NOTE,
    OWN,
    assert_aborted,
)

from trio_tools import (
    Allow,
    FrozenJson,
    Output,
    ToolDefinition,
    ToolDispatch,
    ToolError,
    ToolResult,
    ToolRun,
    ToolSuccess,
)

# ---- answers without call_next ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [None, *BYS])
def test_a_failure_that_a_wrapper_makes_itself_stays(by: By | None) -> None:
    """Row "wrapper answers without call_next: failure"."""
    line = Line(around=late(OWN))
    ended = line.call(cancel_at=by and 1, by=by or "entered")
    assert (ended.code, ended.failure.body, ended.passed) == ("QUOTA", "not-started", NO_BODY)
    assert ended.failure.contexts == (NOTE,)
    assert shown(ended.failure) == ["Error: quota used up"]


@pytest.mark.parametrize("by", BYS)
def test_a_success_that_a_wrapper_makes_too_late_is_aborted_and_its_contexts_are_kept(by: By) -> None:
    """Row "… success", cancelled."""
    line = Line(around=late(success("cached", contexts=(NOTE,))))
    ended = line.call(cancel_at=1, by=by)
    assert_aborted(line, whose(by), NO_BODY)
    assert (ended.failure.body, ended.failure.contexts, ended.failure.superseded) == ("not-started", (NOTE,), None)


def test_a_success_that_a_wrapper_makes_itself_says_that_no_body_ran() -> None:
    """Row "… success", not cancelled; section 3: the registry sets ``body`` itself, whatever a wrapper wrote."""
    ended = Line(around=late(success("cached", body="finished"))).call()
    assert (ended.success.value, ended.success.body, ended.passed) == ("cached", "not-started", NO_BODY)


def test_a_success_that_a_wrapper_makes_itself_is_held_against_the_output_contract() -> None:
    """Section 7: a value that does not match is INVALID_TOOL_OUTPUT, whoever made it."""
    definition = ToolDefinition(
        name="t", parameters={"type": "object"}, execute=answering(1), output=Output(schema={"type": "integer"})
    )
    ended = Line(around=answering(success("one")), definition=definition).call()
    assert (ended.code, ended.failure.body) == ("INVALID_TOOL_OUTPUT", "not-started")


NO_RESULT: list[Callable[[], object]] = [
    lambda: None,
    lambda: "done",
    lambda: Allow(),
    lambda: {"is_error": False},
    lambda: ToolSuccess,
    lambda: trivial(),
]


@pytest.mark.parametrize("by", [None, "entered", "operator"])
@pytest.mark.parametrize("after_the_body", [False, True])
@pytest.mark.parametrize("make", NO_RESULT)
def test_a_wrapper_that_answers_nonsense_is_that_failure_also_behind_a_body_that_was_not_cut(
    make: Callable[[], object], after_the_body: bool, by: By | None
) -> None:
    """Row "… None or nonsense (also after a call_next that was not cut)"."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        if after_the_body:
            await call_next()
        await deaf(2)
        return cast(Any, make())

    ended = Line(around=around).call(cancel_at=by and 1, by=by or "entered")
    assert ended.failure.error.name == "TypeError"
    assert ended.code is None
    assert ended.failure.body == ("finished" if after_the_body else "not-started")
    assert "after" not in ended.passed


def test_a_wrapper_that_answers_none_after_the_body_failed_is_the_wrappers_failure() -> None:
    """Row "… None or nonsense", when there is a failure that it swallowed."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        await call_next()
        return NONE

    ended = Line(around=around, body=raising(ToolError("own", code="OWN"))).call()
    assert (ended.failure.error.name, ended.failure.body) == ("TypeError", "finished")


def test_a_wrapper_that_retried_after_a_cut_and_then_answers_none_has_no_excuse() -> None:
    """Row "… None": only the last ``call_next`` counts, and that was not cut."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        with trio.move_on_after(1):
            await call_next()
        await call_next()
        return NONE

    bodies = iter([waiting(), answering("done")])

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        return await next(bodies)()

    ended = Line(around=around, body=body).call()
    assert ended.failure.error.name == "TypeError"


# ---- waiting after the body ------------------------------------------------------------------------------------------


def test_a_wrapper_that_waits_after_the_body_gives_its_result() -> None:
    """Row "wrapper waits after the body", not cancelled."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        result = await call_next()
        await trio.sleep(10)
        return result

    ended = Line(around=around).call()
    assert (ended.success.value, ended.success.body, ended.at, ended.passed) == ("done", "finished", 10, ENTIRE)


async def linger(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
    result = await call_next()
    await trio.sleep(10)
    return result


async def linger_deafly(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
    result = await call_next()
    await deaf(10)
    return result


async def linger_and_swallow(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
    result = await call_next()
    with contextlib.suppress(trio.Cancelled):  # as some code does
        await trio.sleep(10)
    return result


LINGER = [linger, linger_deafly, linger_and_swallow]


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("around", LINGER)
def test_a_success_is_aborted_when_the_cancellation_meets_a_wrapper_behind_it(around: Any, by: By) -> None:
    """Row "wrapper waits after the body", cancelled: success → ABORTED."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.defer_context(NOTE)
        return "done"

    line = Line(around=around, body=body)
    ended = line.call(cancel_at=1, by=by)
    assert_aborted(line, whose(by), ENTIRE)
    assert (ended.failure.body, ended.failure.contexts, ended.failure.partial) == ("finished", (NOTE,), ())
    replaced = ended.replaced
    assert isinstance(replaced, ToolSuccess)
    assert (replaced.value, replaced.body, shown(replaced)) == ("done", "finished", ["done"])


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("around", LINGER)
def test_the_bodys_failure_stays_when_the_cancellation_meets_a_wrapper_behind_it(around: Any, by: By) -> None:
    """Row "wrapper waits after the body", cancelled: failure stays, also if Cancelled unwinds the wrapper."""
    line = Line(around=around, body=raising(ToolError("disk full", code="DISK")))
    ended = line.call(cancel_at=1, by=by)
    assert (ended.code, ended.failure.body, ended.passed) == ("DISK", "finished", ENTIRE)
    assert shown(ended.failure) == ["Error: disk full"]


@pytest.mark.parametrize("by", BYS)
def test_an_inner_wrappers_failure_stays_when_an_outer_one_is_unwound(by: By) -> None:
    """P6: a wrapper's failure is never overwritten by the generic abort."""

    async def inner(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        await call_next()
        return OWN

    line = Line(around=(linger, inner))
    ended = line.call(cancel_at=1, by=by)
    assert (ended.code, ended.failure.body) == ("QUOTA", "finished")
    assert ended.passed == [*GATES, "around", *ENTIRE[2:]]
