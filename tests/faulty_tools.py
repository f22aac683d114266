"""Tools that break one rule each; the line that breaks it is marked with the name of the rule."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextlib import suppress as ignoring
from pathlib import Path
from typing import Any

import outcome
import trio
import trio.lowlevel

from trio_tools import FunctionTool, ToolError, ToolRun, tool

KEPT: list[Callable[[], object]] = []  # what a tool leaves behind is held by something: how to be rid of it
FAULTY: list[tuple[FunctionTool[..., Any], dict[str, Any]]] = []
"""Each with the options of ``assert_cancel_safe`` that it needs."""


def faulty(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    def decorate(function: Callable[..., Any]) -> Any:
        made = tool(function)
        FAULTY.append((made, options))
        return made

    return decorate


@faulty()
async def keeps_everything() -> str:
    """A bare handler around a wait."""
    try:
        await trio.sleep(1)
    except BaseException:  # breaks: swallowed
        return "failed"
    return "done"


@faulty()
async def goes_on_after_each() -> int:
    """A loop that counts what has failed."""
    failed = 0
    for _ in range(3):
        try:
            await trio.sleep(1)
        except (ValueError, trio.Cancelled):  # breaks: swallowed
            failed += 1
    return failed


@faulty(modes=["deadline"])
async def raises_what_it_names() -> str:
    """On the line of the condition."""
    try:
        await trio.sleep(1)
    except BaseException as error:  # breaks: swallowed
        if isinstance(error, KeyboardInterrupt): raise  # noqa: E701 # fmt: skip
        return "failed"
    return "done"


def _anything() -> tuple[type[BaseException], ...]:
    return (BaseException,)


@faulty(modes=["deadline"])
async def computes_what_it_takes() -> str:
    """No name tells what the handler takes."""
    try:
        await trio.sleep(1)
    except (*_anything(), OSError):  # breaks: swallowed
        return "failed"
    return "done"


@faulty(modes=["deadline"])
async def raises_in_vain() -> str:
    """Again, into a handler further out."""
    try:
        try:
            await trio.sleep(1)
        except BaseException:
            raise
    except BaseException:  # breaks: swallowed
        return "failed"
    return "done"


@faulty(modes=["deadline"])
async def suppresses_by_another_name() -> None:
    """As it was imported."""
    with ignoring(trio.Cancelled):  # breaks: swallowed
        await trio.sleep(1)


@faulty(modes=["cancel"])
async def returns_in_a_block() -> str:
    """That of a nursery, at whose end nothing arrives."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 1)
        try:
            await trio.sleep(2)
        finally:
            return "done"  # breaks: swallowed  # noqa: B012


@faulty()
async def suppresses() -> None:
    """Nobody sees it."""
    with suppress(BaseException):  # breaks: swallowed
        await trio.sleep(1)


class Swallowing:
    """A block that keeps whatever ends it."""

    async def __aenter__(self) -> None:
        """Nothing to begin with."""

    async def __aexit__(self, *_: object) -> bool:
        return True


ANYTHING = (ValueError, BaseException)


@faulty()
async def handles_another_error_while_it_handles() -> str:
    """Its clean-up may fail, and it knows."""
    try:
        await trio.sleep(1)
    except BaseException:  # breaks: swallowed
        try:
            raise OSError("not there")
        except OSError:
            pass
        return "failed"
    return "done"


@faulty()
async def returns_in_the_end() -> str:
    """Python drops what was on its way."""
    try:
        await trio.sleep(1)
    finally:
        return "done"  # noqa: B012 - breaks: swallowed


@faulty(modes=["cancel", "raise"])
async def keeps_it_in_a_block() -> str:
    """Whoever wrote the block thought of errors."""
    async with Swallowing():  # breaks: swallowed
        await trio.sleep(1)
    return "done"


@faulty(modes=["cancel", "raise"])
async def drops_an_outcome() -> str:
    """A library caught it."""
    await outcome.acapture(trio.sleep, 1)  # breaks: swallowed
    return "done"


@faulty()
async def catches_by_another_name() -> str:
    """A tuple of exceptions."""
    try:
        await trio.sleep(1)
    except ANYTHING:  # breaks: swallowed
        return "failed"
    return "done"


@faulty()
async def gathers() -> None:
    """A nursery in which nothing but its tasks waits."""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1)
    except BaseException as error:
        raise RuntimeError("gathering failed") from error  # breaks: swallowed


@faulty(modes=["cancel"])
async def gathers_and_returns() -> str:
    """Likewise, and the end of it all."""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1)
    finally:
        return "done"  # noqa: B012 - breaks: swallowed


@faulty(modes=["cancel"])
async def breaks_out_in_the_end() -> str:
    """Python drops what was on its way, here too."""
    while True:
        try:
            await trio.sleep(1)
        finally:
            break  # noqa: B012 - breaks: swallowed
    return "done"


@faulty(modes=["deadline"])
async def says_it_in_its_own_words() -> None:
    """An error like any other takes its place."""
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        raise ToolError("interrupted") from None  # breaks: swallowed


@faulty(modes=["cancel"])
async def translates() -> None:
    """Likewise, with a cause."""
    try:
        await trio.sleep(1)
    except BaseException as error:
        failure = RuntimeError("failed")
        await trio.lowlevel.cancel_shielded_checkpoint()
        raise failure from error  # breaks: swallowed


def _fail(error: BaseException) -> None:
    assert isinstance(error, ValueError), "something else"  # in whose place this goes on


@faulty(modes=["cancel", "deadline"])
async def asks_another_to_translate() -> None:
    """A function raises, of which only the handler knows."""
    try:
        await trio.sleep(1)
    except BaseException as error:
        _fail(error)  # breaks: swallowed


@faulty(modes=["raise"])
async def leaks_where_it_handles() -> None:
    """An error, and only then."""
    try:
        await trio.sleep(1)
    except Exception:
        file = open(os.devnull)  # noqa: ASYNC230, SIM115 - breaks: file-left
        KEPT.append(file.close)


@faulty(modes=["cancel"])
async def starts_two_that_look_alike() -> None:
    """Under one name."""
    over = threading.Event()
    KEPT.append(over.set)
    threading.Thread(target=over.wait, daemon=True, name="one of two").start()  # breaks: thread-left
    threading.Thread(target=over.wait, daemon=True, name="one of two").start()  # breaks: thread-left
    await trio.sleep(1)


_TIME = [0.0]


@faulty(modes=["cancel"], max_seconds=0.2, clock=lambda: _TIME[0])
async def spins() -> None:
    """Short rounds, and many; not the longest line is to blame, but the one that takes the most."""
    _TIME[0] += 0.03
    for _ in range(50):
        _TIME[0] += 0.01  # breaks: no-checkpoint
    await trio.lowlevel.checkpoint()


@faulty(modes=["cancel"])
async def has_a_careless_child(run: ToolRun) -> None:
    """A task of its own keeps it."""

    async def child() -> None:
        await outcome.acapture(trio.sleep, 1)  # breaks: swallowed

    run.nursery.start_soon(child)


@faulty(max_steps=50)
async def never_ends() -> None:
    """Tries again, whatever it was that failed."""
    while True:
        try:
            await trio.sleep(1)  # breaks: too-many-steps
        except BaseException:  # breaks: swallowed
            continue
        return


@faulty()
async def leaves_a_file() -> None:
    """Opened, and closed only if all goes well."""
    file = Path(__file__).open("rb")  # noqa: ASYNC230, SIM115 - breaks: file-left
    KEPT.append(file.close)
    await trio.sleep(1)
    file.close()


@faulty(modes=["cancel"])
async def leaves_a_temporary_file() -> None:
    """Of which Python tells the descriptor only."""
    number, name = tempfile.mkstemp()  # breaks: file-left
    file = os.fdopen(number, "w")
    os.unlink(name)
    await trio.sleep(1)
    file.close()


@faulty(modes=["cancel"])
async def leaves_a_listing() -> None:
    """Half-way through."""
    listing = os.scandir("/")  # breaks: file-left
    next(listing)
    await trio.sleep(1)
    listing.close()


@faulty(modes=["cancel"])
async def leaves_a_directory() -> None:
    """On the disk."""
    directory = tempfile.TemporaryDirectory()  # breaks: file-left
    await trio.sleep(1)
    directory.cleanup()


@faulty()
async def leaves_a_file_to_the_collector() -> None:
    """Likewise, and nobody holds it."""
    file = Path(__file__).open("rb")  # noqa: ASYNC230, SIM115 - breaks: file-left
    await trio.sleep(1)
    file.close()


@faulty()
async def leaves_a_socket() -> None:
    """Likewise."""
    one, other = socket.socketpair()  # breaks: socket-left
    KEPT.extend((one.close, other.close))
    await trio.sleep(1)
    one.close()
    other.close()


@faulty()
async def leaves_a_daemon() -> None:
    """Its parent ends at once, and nobody has it as a child."""
    subprocess.run("setsid sleep 1000 < /dev/null > /dev/null 2>&1 &", shell=True, check=True)  # noqa: ASYNC221 - breaks: process-left
    await trio.sleep(1)


@faulty()
async def leaves_an_abandoned_thread() -> None:
    """Trio is told not to wait for it."""
    await trio.to_thread.run_sync(time.sleep, 0.2, abandon_on_cancel=True)  # breaks: thread-left


@faulty()
async def leaves_a_process() -> None:
    """Started, and killed only if all goes well."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)  # noqa: ASYNC220 - breaks: process-left
    KEPT.extend((child.communicate, child.kill))
    await trio.sleep(1)
    child.kill()
    child.wait()
    child.stdin.close() if child.stdin else None


@faulty()
async def leaves_a_thread() -> None:
    """Likewise."""
    over = threading.Event()
    KEPT.append(over.set)
    thread = threading.Thread(target=over.wait, daemon=True)
    thread.start()  # breaks: thread-left
    await trio.sleep(1)
    over.set()
    thread.join()


@faulty()
async def leaves_a_task() -> None:
    """Started in no nursery of its own."""
    trio.lowlevel.spawn_system_task(trio.sleep_forever)  # breaks: task-left
    await trio.sleep(1)


@faulty(max_seconds=0.05, clock=time.perf_counter, modes=["cancel"])
async def computes() -> int:
    """No checkpoint for a while."""
    await trio.lowlevel.checkpoint()
    return sum(range(6_000_000))  # breaks: no-checkpoint


@faulty(max_seconds=5)
async def cleans_up_for_long() -> None:
    """Within a shield, longer than anybody waits."""
    try:
        await trio.sleep(1)
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(10)  # breaks: too-long


@faulty()
async def ends_the_program() -> None:
    """No tool may."""
    try:
        await trio.sleep(1)
    except BaseException:
        raise SystemExit(1)  # breaks: no-result


@faulty(modes=["raise"])
async def forgets_when_a_call_fails() -> None:
    """Right when it is cancelled, wrong when what it awaits raises."""
    file = Path(__file__).open("rb")  # noqa: ASYNC230, SIM115 - breaks: file-left
    KEPT.append(file.close)
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        file.close()
        raise
    file.close()


@faulty()
async def owns_nothing(run: ToolRun) -> None:
    """Its own nursery is right, the thread is not."""
    over = threading.Event()
    KEPT.append(over.set)
    run.nursery.start_soon(trio.sleep, 1)
    threading.Thread(target=over.wait, daemon=True).start()  # breaks: thread-left
    await trio.sleep(2)
    over.set()
