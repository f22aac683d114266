"""Tools that break no rule, though they come near one."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import Any

import outcome
import trio
import trio.lowlevel

from trio_tools import FunctionTool, ToolRun, tool

SOUND: list[FunctionTool[..., Any]] = []


def sound(function: Callable[..., Any]) -> Any:
    SOUND.append(tool(function))
    return SOUND[-1]


@sound
async def raises_again() -> None:
    """A bare handler that cleans up, within a shield."""
    try:
        await trio.sleep(1)
    except BaseException:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.1)
        raise
    finally:
        await trio.lowlevel.cancel_shielded_checkpoint()


@sound
async def lets_cancellations_out() -> str:
    """A handler that takes one kind of exception only."""
    try:
        await trio.sleep(1)
    except BaseException as error:
        if isinstance(error, Exception):
            return "failed"
        raise
    return "done"


@sound
async def raises_again_in_a_block() -> str:
    """Behind the handler comes the end of a block."""
    async with trio.Lock():
        try:
            await trio.sleep(1)
        except BaseException:
            raise
    return "done"


@sound
async def raises_it_later_in_a_group() -> None:
    """Likewise, with others."""
    errors: list[BaseException] = []
    try:
        await trio.sleep(1)
    except BaseException as error:
        errors.append(error)
    await trio.lowlevel.cancel_shielded_checkpoint()
    if errors:
        raise BaseExceptionGroup("several", errors)


@sound
async def handles_its_own_cancellations() -> None:
    """In shielded scopes, of which one has a deadline, and in one that is cancelled at once."""
    try:
        await trio.sleep(1)
    finally:
        with trio.move_on_after(1, shield=True):
            try:
                await trio.sleep(5)
            except trio.Cancelled:
                await trio.lowlevel.cancel_shielded_checkpoint()
        with trio.CancelScope(shield=True) as scope:
            scope.cancel()
            try:
                await trio.sleep(5)
            except trio.Cancelled:
                await trio.lowlevel.cancel_shielded_checkpoint()


@sound
async def raises_it_later() -> None:
    """What was put by is raised when all is tidied up."""
    errors: list[BaseException] = []
    for _ in range(3):
        try:
            await trio.sleep(1)
        except BaseException as error:
            errors.append(error)
            break
    await trio.lowlevel.cancel_shielded_checkpoint()
    if errors:
        raise errors[0]


@sound
async def collects_outcomes() -> str:
    """What its children ended with is raised in the end."""
    outcomes: list[outcome.Outcome[None]] = []

    async def child() -> None:
        outcomes.append(await outcome.acapture(trio.sleep, 1))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(child)
    for one in outcomes:
        one.unwrap()
    return "done"


@sound
async def passes_over_what_it_does_not_catch() -> str:
    """Handlers of errors, and a block behind them."""
    result = "done"
    for _ in range(2):
        try:
            await trio.sleep(1)
        except ValueError:
            result = "failed"
        except (OSError, KeyError):
            continue
        finally:
            result += "!"
    with suppress(ValueError):
        await trio.sleep(1)
    return result


@sound
async def has_a_deadline_of_its_own() -> str:
    """Its own scope catches its own cancellation, also while it cleans up."""
    with trio.move_on_after(0.5):
        await trio.sleep(1)
    try:
        with trio.fail_after(0.5):
            await trio.sleep(1)
    except trio.TooSlowError:
        pass
    try:
        await trio.sleep(1)
    finally:
        with trio.move_on_after(0.1, shield=True):
            await trio.sleep(1)
    return "done"


@sound
async def reads_a_file() -> int:
    """Closed whatever happens."""
    async with await trio.open_file(__file__) as file:
        return len(await file.read())


@sound
async def enters_one_after_the_other() -> int:
    """A stack of contexts."""
    async with AsyncExitStack() as stack:
        file = await stack.enter_async_context(await trio.open_file(__file__))
        nursery = await stack.enter_async_context(trio.open_nursery())
        nursery.start_soon(trio.sleep, 0)
        return len(await file.read())


@asynccontextmanager
async def _connection() -> AsyncGenerator[trio.SocketStream]:
    one, other = trio.socket.socketpair()
    try:
        yield trio.SocketStream(one)
    finally:
        with trio.CancelScope(shield=True):
            await trio.lowlevel.checkpoint()
        one.close()
        other.close()


@sound
async def closes_after_a_wait() -> None:
    """What it awaits while it cleans up does not fail."""
    async with _connection() as connection:
        await connection.send_all(b"hello")
        await trio.lowlevel.checkpoint()


@sound
async def talks_to_itself() -> bytes:
    """Sockets of its own."""
    one, other = trio.socket.socketpair()
    with one, other:
        await one.send(b"hello")
        return await other.recv(5)


@sound
async def runs_a_process() -> int:
    """Trio ends it, and waits for it."""
    return (await trio.run_process([sys.executable, "-c", "pass"], check=False)).returncode


@sound
async def works_in_a_thread() -> int:
    """The thread is Trio's, and goes back to its cache."""
    return await trio.to_thread.run_sync(os.getpid)


@sound
def is_a_thread() -> int:
    """Likewise, the whole of it."""
    return os.getpid()


@sound
async def owns_its_tasks(run: ToolRun) -> list[int]:
    """Tasks in its nursery, and in one of its own, that talk through a channel."""
    send, receive = trio.open_memory_channel[int](0)

    async def produce() -> None:
        async with send:
            for number in range(3):
                await send.send(number)

    run.nursery.start_soon(trio.sleep, 1)
    async with receive, trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        return [number async for number in receive]


@sound
async def takes_from_a_generator() -> int:
    """A generator that is closed, whatever happens."""

    async def numbers() -> AsyncGenerator[int]:
        try:
            for number in range(3):
                await trio.sleep(1)
                yield number
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.1)

    total = 0
    async with aclosing(numbers()) as stream:
        async for number in stream:
            total += number
    return total


@sound
async def replaces_a_file() -> None:
    """The old content or the new one, and nothing beside it."""
    path = trio.Path(__file__).with_suffix(".tmp")
    try:
        await path.write_text("new")
    finally:
        with trio.CancelScope(shield=True):
            await path.unlink(missing_ok=True)


@sound
async def fails() -> None:
    """An error is a result like any other."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 1)
        await trio.sleep(0.5)
        raise OSError("disk full")


@sound
async def locks() -> None:
    """Whoever waits for a lock, and who has it."""
    lock = trio.Lock()

    async def other() -> None:
        async with lock:
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        await nursery.start(_held, lock)
        nursery.start_soon(other)
        await other()


async def _held(lock: trio.Lock, task_status: trio.TaskStatus[None]) -> None:
    async with lock:
        task_status.started()
        await trio.sleep(1)
