"""Section 5 of the design: errors that asynchronous clean-up in a cancelled scope has masked win.

One error cannot be found: where nothing but *child tasks* of a nursery in the clean-up met the cancellation, Trio
raises a new group whose ``__context__`` it takes away, and the error is on nobody's chain.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import NoReturn

import pytest
import trio
from calls import DEADLINES, By, Line, NextAround, whose
from fakes import deaf, shown, source

from trio_tools import (
    FrozenJson,
    ToolDispatch,
    ToolError,
    ToolResult,
    ToolRun,
)

Work = Callable[[], Awaitable[object]]


def body_of(work: Work) -> Callable[[FrozenJson, ToolRun], Awaitable[object]]:
    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        return await work()

    return body


def lost() -> NoReturn:
    raise ToolError("disk full", code="DISK")


# ---- errors that clean-up has masked ---------------------------------------------------------------------------------


async def in_a_finally() -> object:
    try:
        await deaf(2)
        lost()
    finally:
        await trio.lowlevel.checkpoint()


async def in_an_except() -> object:
    try:
        await deaf(2)
        lost()
    except ToolError:
        await trio.lowlevel.checkpoint()
        raise
    return "done"


async def in_answer_to_the_cancellation() -> object:
    try:
        try:
            await trio.sleep(10)
        finally:
            lost()
    finally:
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def resource() -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await trio.sleep(1)


class Resource:
    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        await trio.sleep(1)


async def in_a_context_manager() -> object:
    async with Resource():
        await deaf(2)
        lost()


async def in_a_generator_context_manager() -> object:
    async with resource():
        await deaf(2)
        lost()


async def in_nested_frames() -> object:
    async def inner() -> None:
        async with Resource():
            await deaf(2)
            lost()

    async def middle() -> None:
        try:
            await inner()
        finally:
            await trio.sleep(1)

    try:
        await middle()
    finally:
        await trio.sleep(1)
    return "done"


async def in_a_frame_further_out() -> object:
    async def inner() -> None:
        await deaf(2)
        lost()

    async def clean_up() -> None:
        await trio.sleep(1)

    try:
        await inner()
    finally:
        await clean_up()
    return "done"


async def in_a_nursery_of_its_own() -> object:
    """The clean-up opens a nursery: what it raises is a group, with ``Cancelled`` in it."""

    async def clean_up() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1)
            await trio.sleep(1)

    try:
        await deaf(2)
        lost()
    finally:
        await clean_up()


async def in_an_inner_nursery() -> object:
    """The error was raised inside a nursery, whose own block the clean-up stands in."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 20)
        async with Resource():
            await deaf(2)
            lost()


async def around_an_inner_nursery() -> object:
    """A nursery has put the error into a group before it was masked."""

    async def child() -> None:
        await deaf(2)
        lost()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
    finally:
        await trio.sleep(1)
    return "done"


async def around_a_nursery_that_mixed_it_with_cancelled() -> object:
    """The group that was masked holds ``Cancelled`` beside the error."""

    async def child() -> None:
        try:
            await trio.sleep(20)
        finally:
            lost()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            await trio.sleep(20)
    finally:
        await trio.sleep(1)
    return "done"


async def by_several_clean_ups() -> object:
    """Each replaces the one before: the chain is several ``Cancelled`` long."""
    async with Resource(), Resource(), Resource():
        await deaf(2)
        lost()


async def as_its_own_cause() -> object:
    """An error that was raised from another one: the last is the body's."""
    try:
        await deaf(2)
        try:
            raise KeyError("raw")
        except KeyError as error:
            raise ToolError("disk full", code="DISK") from error
    finally:
        await trio.sleep(1)


MASKED: list[Work] = [
    in_a_finally,
    in_an_except,
    in_answer_to_the_cancellation,
    in_a_context_manager,
    in_a_generator_context_manager,
    in_nested_frames,
    in_a_frame_further_out,
    in_a_nursery_of_its_own,
    in_an_inner_nursery,
    around_an_inner_nursery,
    around_a_nursery_that_mixed_it_with_cancelled,
    by_several_clean_ups,
    as_its_own_cause,
]


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("work", MASKED)
@pytest.mark.parametrize("by", ["entered", "deadline", "operator"])
def test_an_error_that_clean_up_has_masked_wins(work: Work, by: By, bare: bool) -> None:
    """Section 5: the masked error wins; the result keeps ``body == "interrupted"`` and the cause."""
    ended = Line(body=body_of(work), bare=bare).call(cancel_at=1, by=by, reason="enough")
    error = ended.failure.error
    assert (error.code, error.name, error.message) == ("DISK", "ToolError", "disk full")
    assert shown(ended.failure) == ["Error: disk full"]
    assert (ended.failure.body, source(ended.failure)) == ("interrupted", whose(by))
    assert ended.failure.cause is not None
    assert ended.failure.cause.reason == (None if by in DEADLINES else "enough")


def test_an_error_that_the_clean_up_of_owned_work_has_masked_wins() -> None:
    """Likewise, in a task of the body's nursery."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.nursery.start_soon(in_a_finally)
        await trio.sleep(10)
        return "done"

    ended = Line(body=body).call(cancel_at=1)
    assert (ended.code, ended.failure.body) == ("DISK", "interrupted")


def test_two_masked_errors_are_both_named() -> None:
    """Section 5: several are all named."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.nursery.start_soon(in_a_finally)
        try:
            await deaf(2)
            raise ValueError("second")
        finally:
            await trio.sleep(1)

    ended = Line(body=body).call(cancel_at=1)
    assert ended.failure.error.code is None
    assert "disk full" in ended.failure.error.message
    assert "second" in ended.failure.error.message


def test_an_error_masked_by_the_cancellation_of_a_wrappers_scope_wins() -> None:
    """Section 5: whoever cancelled."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        dispatch.scope = trio.CancelScope(relative_deadline=1)
        return await call_next()

    ended = Line(around=around, body=body_of(in_a_finally)).call()
    assert (ended.code, ended.failure.body, source(ended.failure)) == ("DISK", "interrupted", "wrapper")


def test_a_body_that_handled_its_error_and_was_then_cancelled_was_not_ended_by_it() -> None:
    """Section 5: an error that is over is no outcome."""

    async def work() -> object:
        with suppress(ToolError):
            lost()
        await trio.sleep(10)
        return "done"

    ended = Line(body=body_of(work)).call(cancel_at=1)
    assert (ended.code, ended.failure.body) == ("ABORTED", "interrupted")
