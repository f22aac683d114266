"""Row "wrapper raises" of the table in section 5 of the design."""

from __future__ import annotations

import pytest
import trio
from calls import BYS, By, Line, NextAround
from fakes import answering, deaf, raising, shown, waiting
from outcomes import (
    GATES,
    OWN,
)

from trio_tools import (
    ToolDispatch,
    ToolError,
    ToolResult,
)

# ---- raising ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", [None, *BYS])
@pytest.mark.parametrize("after_the_body", [False, True])
def test_a_wrapper_that_raises_is_that_failure(after_the_body: bool, by: By | None) -> None:
    """Row "wrapper raises": finish only, cancelled and not."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        if after_the_body:
            await call_next()
        await deaf(2)
        raise ToolError("wrapper broke", code="WRAP")

    ended = Line(around=around).call(cancel_at=by and 1, by=by or "entered")
    assert (ended.code, ended.failure.error.name) == ("WRAP", "ToolError")
    assert shown(ended.failure) == ["Error: wrapper broke"]
    assert ended.failure.body == ("finished" if after_the_body else "not-started")
    assert ended.passed == [*GATES, "around", *(["body"] if after_the_body else []), "finalize"]


def test_a_wrapper_that_raises_takes_the_place_of_the_bodys_failure() -> None:
    """Row "wrapper raises": that failure, though the body has failed before."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        await call_next()
        raise ToolError("wrapper broke", code="WRAP")

    ended = Line(around=around, body=raising(ToolError("own", code="OWN"))).call()
    assert (ended.code, ended.failure.body) == ("WRAP", "finished")


def test_a_wrapper_that_raises_while_the_cancellation_unwinds_it_is_that_failure() -> None:
    """Row "wrapper raises", cancelled: when the cancellation makes it raise, or both leave in one group."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        async def failing() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ToolError("wrapper broke", code="WRAP")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(failing)
            return await call_next()

    ended = Line(around=around, body=waiting()).call(cancel_at=1)
    assert (ended.code, ended.failure.body) == ("WRAP", "interrupted")


@pytest.mark.parametrize("by", [None, *BYS])
def test_the_wrappers_around_one_that_raises_see_the_exception(by: By | None) -> None:
    """Row "wrapper raises (the wrappers around it see the exception)": and may answer in its place."""
    seen: list[BaseException] = []
    error = ToolError("inner broke", code="INNER")

    async def outer(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        try:
            return await call_next()
        except ToolError as caught:
            seen.append(caught)
        await deaf(2)
        return OWN

    ended = Line(around=(outer, raising(error))).call(cancel_at=by and 1, by=by or "entered")
    assert seen == [error]
    assert ended.code == "QUOTA"
    assert "after" in ended.passed


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("handled", [False, True])
def test_a_wrappers_failure_stays_when_an_outer_wrapper_is_then_unwound(by: By, handled: bool) -> None:
    """Row "wrapper raises", cancelled: that failure, also if an outer wrapper is then unwound."""

    async def outer(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        try:
            return await call_next()
        except ToolError:
            if not handled:
                await trio.sleep(10)  # still handling it
        await trio.sleep(10)
        return OWN

    ended = Line(around=(outer, raising(ToolError("inner broke", code="INNER")))).call(cancel_at=1, by=by)
    assert (ended.code, ended.failure.error.name, ended.at) == ("INNER", "ToolError", 1)
    assert shown(ended.failure) == ["Error: inner broke"]


def test_an_inner_wrappers_nonsense_is_raised_into_the_outer_one() -> None:
    """Row "… None or nonsense": that failure is the inner wrapper's, and the outer one sees it as an exception."""
    seen: list[str] = []

    async def outer(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        try:
            return await call_next()
        except TypeError as error:
            seen.append(str(error))
            return OWN

    ended = Line(around=(outer, answering(42))).call()
    assert len(seen) == 1
    assert "42" in seen[0]
    assert ended.code == "QUOTA"


def test_several_errors_of_a_wrapper_are_all_named() -> None:
    """Section 5: one error in a group is reported as itself; several are all named."""
    several = ExceptionGroup("both", [ValueError("first"), ToolError("second", code="SECOND")])
    ended = Line(around=raising(several)).call()
    assert (ended.code, ended.failure.error.name) == (None, "ExceptionGroup")
    assert "ValueError: first" in ended.failure.error.message
    assert "ToolError: second" in ended.failure.error.message


def test_one_error_in_a_group_of_a_wrapper_is_reported_as_itself() -> None:
    """Section 5, likewise."""
    one = ExceptionGroup("one", [ExceptionGroup("deeper", [ToolError("second", code="SECOND")])])
    ended = Line(around=raising(one)).call()
    assert (ended.code, ended.failure.error.name, ended.failure.error.message) == ("SECOND", "ToolError", "second")
