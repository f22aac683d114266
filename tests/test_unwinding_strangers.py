"""Section 5 of the design: strangers on the ``__context__`` chain of a ``Cancelled`` are no outcome of the body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NoReturn

import pytest
import trio
from calls import BYS, By, Line, NextAround, NextBefore, run, whose
from fakes import deaf, source

from trio_tools import (
    Allow,
    BeforeDecision,
    FrozenJson,
    ToolDefinition,
    ToolDispatch,
    ToolError,
    ToolFailure,
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


async def sleeps() -> object:
    await trio.sleep(10)
    return "done"


# ---- strangers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("by", BYS)
def test_what_the_canceller_was_handling_is_no_outcome(by: By, bare: bool) -> None:
    """Section 5: a stranger. Trio builds the ``Cancelled`` inside ``cancel()``."""
    line = Line(body=body_of(sleeps), bare=bare)

    async def cancel() -> None:
        await trio.sleep(1)
        try:
            raise ValueError("the canceller's")
        except ValueError:
            line.cancel()

    ended = line.call(by=by, beside=cancel)
    assert (ended.code, source(ended.failure), ended.failure.body) == ("ABORTED", whose(by), "interrupted")


def test_what_owned_work_was_handling_when_it_stopped_the_body_is_no_outcome() -> None:
    """Section 5: one task's error shows up in another's chain."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        async def child() -> None:
            await deaf(1)
            try:
                raise ValueError("the child's")
            except ValueError:
                run.nursery.cancel_scope.cancel()

        run.nursery.start_soon(child)
        return await sleeps()

    ended = Line(body=body).call()
    assert (ended.code, source(ended.failure), ended.failure.body) == ("ABORTED", "tool", "interrupted")


@pytest.mark.parametrize("bare", [False, True])
def test_what_the_caller_was_handling_is_no_outcome(bare: bool) -> None:
    """Section 5: a call made inside an ``except`` block."""
    line = Line(body=body_of(sleeps), bare=bare)

    async def main() -> None:
        try:
            raise ValueError("the caller's")
        except ValueError:
            await line.execute(cancel_at=1)

    run(main)
    assert (line.ended.code, line.ended.failure.body) == ("ABORTED", "interrupted")


@pytest.mark.parametrize("scope", ["assigned", "callers"])
def test_what_a_wrapper_was_handling_is_no_outcome(scope: str) -> None:
    """Section 5: ``call_next`` inside an ``except`` block, as a retry may be written."""

    async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
        if scope == "assigned":
            dispatch.scope = trio.CancelScope(relative_deadline=1)
        try:
            raise ValueError("the wrapper's")
        except ValueError:
            return await call_next()

    ended = Line(around=around, body=body_of(sleeps)).call(cancel_at=1 if scope == "callers" else None)
    assert (ended.code, ended.failure.body) == ("ABORTED", "interrupted")


def test_what_an_outer_body_was_handling_is_no_outcome_of_a_nested_call() -> None:
    """Section 5: the caller of a nested call is a body. (Its own outcome is the known limit, and not asked here.)"""
    inner: list[ToolResult] = []

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        try:
            raise ValueError("the outer body's")
        except ValueError:
            inner.append(await run.call_tool("inner", {}))
        return "done"

    async def sleeping(arguments: FrozenJson, run: ToolRun) -> object:
        return await sleeps()

    line = Line(body=body)
    line.registry.register(ToolDefinition(name="inner", parameters={}, execute=sleeping))
    line.registry.around(only_inner_is_cut)
    assert line.call().success.value == "done"
    (result,) = inner
    assert isinstance(result, ToolFailure)
    assert (result.error.code, result.body) == ("ABORTED", "interrupted")


async def only_inner_is_cut(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
    if dispatch.name == "inner":
        dispatch.scope = trio.CancelScope(relative_deadline=1)
    return await call_next()


async def on_a_lock() -> object:
    lock = trio.Lock()
    async with trio.open_nursery() as nursery:

        async def holder() -> None:
            async with lock:
                await deaf(3)

        nursery.start_soon(holder)
        await deaf(0.5)
        async with lock:
            return "done"
    return "never"


async def on_a_semaphore() -> object:
    async with trio.Semaphore(0):
        return "done"


async def on_a_limiter() -> object:
    limiter = trio.CapacityLimiter(1)
    limiter.acquire_on_behalf_of_nowait("somebody")
    async with limiter:
        return "done"


async def on_a_full_channel() -> object:
    send, receive = trio.open_memory_channel[int](0)
    async with send, receive:
        await send.send(1)
    return "done"


async def on_an_empty_channel() -> object:
    send, receive = trio.open_memory_channel[int](0)
    with send, receive:
        return await receive.receive()


async def on_a_condition() -> object:
    condition = trio.Condition()
    async with condition:
        await condition.wait()
    return "done"


async def on_an_event() -> object:
    await trio.Event().wait()
    return "done"


async def on_a_strict_lock() -> object:
    lock = trio.StrictFIFOLock()
    await lock.acquire()

    async def second() -> None:
        await lock.acquire()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(second)
    return "done"


@pytest.mark.parametrize(
    "work",
    [
        on_a_lock,
        on_a_semaphore,
        on_a_limiter,
        on_a_full_channel,
        on_an_empty_channel,
        on_a_condition,
        on_an_event,
        on_a_strict_lock,
    ],
)
@pytest.mark.parametrize("bare", [False, True])
def test_waiting_for_something_of_trios_masks_nothing(work: Work, bare: bool) -> None:
    """Section 5: never ``WouldBlock``, which every lock that was waited for has on its chain."""
    ended = Line(body=body_of(work), bare=bare).call(cancel_at=1)
    assert (ended.code, ended.failure.body) == ("ABORTED", "interrupted")


def test_a_lock_that_is_waited_for_while_an_error_leaves_does_not_hide_it() -> None:
    """Section 5: ``WouldBlock`` is passed over, and what lies behind it is looked for."""

    async def work() -> object:
        try:
            await deaf(2)
            lost()
        finally:
            async with trio.Semaphore(0):
                pass

    ended = Line(body=body_of(work)).call(cancel_at=1)
    assert (ended.code, ended.failure.body) == ("DISK", "interrupted")


def test_an_error_that_leaves_with_its_own_context_is_reported_without_it() -> None:
    """Section 5: nothing is looked for where the body's own exception came out."""

    async def work() -> object:
        try:
            await trio.sleep(10)
        except trio.Cancelled:
            raise ValueError("the last") from KeyError("the first")
        return "done"

    ended = Line(body=body_of(work)).call(cancel_at=1)
    assert ended.failure.error.message == "the last"


def test_what_a_policy_masked_is_not_taken_for_an_error_of_the_body() -> None:
    """Section 5: it is the body's own exception that clean-up may have replaced. A policy was just interrupted."""

    async def before(execution: object, call_next: NextBefore) -> BeforeDecision:
        try:
            raise ValueError("handled")
        except ValueError:
            await trio.sleep(10)
        return Allow()

    ended = Line(before=before).call(cancel_at=1)
    assert ended.code == "ABORTED_BEFORE_DISPATCH"
