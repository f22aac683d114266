"""A function that computes, in a process that can be killed."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar, cast

import trio

from trio_tools._errors import ToolError
from trio_tools.process._tree import end_marked, marked, new_mark

__all__ = ["WORKER_DIED", "run_in_process"]

T = TypeVar("T")

WORKER_DIED = "WORKER_DIED"
"""The code of the error that says that a worker process ended before its function did."""

_ADVICE = 'A script needs if __name__ == "__main__": around trio.run(...), as the worker imports it'
_GRACE = 0.5  # seconds for the worker to end when its function has returned; a thread that it left may keep it


async def run_in_process(
    function: Callable[..., T], *arguments: object, limiter: trio.CapacityLimiter | None = None
) -> T:
    """Call a synchronous function in a worker process of its own, which is killed on cancellation. ::

        @tool
        async def factorize(number: int) -> list[int]:
            return await run_in_process(factors, number)

    A thread cannot be stopped, and is waited for; a process can. The worker is a fresh one for each call, which costs
    some tenths of a second, and is gone when this is left, whatever way; with it a thread that the function has left.
    Processes that the function has started are ended too, on Linux. (One helper of the standard library's stays as long
    as the program, its resource tracker.) A script guards what it does with ``if __name__ == "__main__":``, as each
    worker imports it. The function cannot use :mod:`multiprocessing` itself. Needs
    `trio-parallel <https://trio-parallel.readthedocs.io>`_, which the extra ``trio-tools[parallel]`` installs.

    A checkpoint. If ``Cancelled`` comes out, the worker has been killed and is gone; it may have had effects.

    Args:
        function: One that can be imported: defined at the top of a module, not in a function, no ``lambda``. It,
            its arguments and what it returns or raises pass through :mod:`pickle`.
        arguments: For the function.
        limiter: Bounds the workers that run at once; by default that of trio-parallel, the number of processors.

    Raises:
        TypeError: If the function cannot be sent to a process.
        ToolError: With the code ``WORKER_DIED``, if the worker ended before the function did, or that by ``sys.exit``.
        ImportError: If trio-parallel is not installed.
        Exception: What the function raises; or :mod:`pickle`, of what it returns.
    """
    try:
        import trio_parallel  # pyright: ignore[reportMissingTypeStubs] - it has annotations, and no py.typed
    except ImportError as error:
        raise ImportError("run_in_process needs trio-parallel: pip install 'trio-tools[parallel]'") from error
    if not callable(function):
        raise TypeError(f"run_in_process takes a function and its arguments, not {function!r}")
    if limiter is not None and not isinstance(limiter, trio.CapacityLimiter):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise TypeError(f"limiter takes a trio.CapacityLimiter, not {limiter!r}")
    _must_be_sendable(function, arguments)
    bound = limiter or cast(trio.CapacityLimiter, trio_parallel.current_default_worker_limiter())
    returned: list[T] = []
    mark, failure = new_mark(), ""
    try:
        with _letting_go():
            async with trio_parallel.open_worker_context(init=partial(_carry, mark), grace_period=_GRACE) as workers:  # pyright: ignore[reportUnknownMemberType] - no types
                call = partial(workers.run_sync, function, *arguments)  # pyright: ignore[reportUnknownMemberType] - likewise
                returned.append(await call(kill_on_cancel=True, limiter=bound))
    except trio_parallel.BrokenWorkerError as error:
        failure = f"the worker process has ended before {function!r} has: {error}. {_ADVICE}"
    except SystemExit:
        failure = f"{function!r} has called sys.exit"
    finally:
        with trio.CancelScope(shield=True):
            await end_marked(mark, _GRACE)
    if not returned:  # else the function has left a thread, and the worker was killed with it
        _collect()  # the error is gone by now, which held the worker
        raise ToolError(failure, code=WORKER_DIED)
    return returned[0]


@contextmanager
def _letting_go() -> Generator[None]:
    """Have an exception hold nothing of the worker, whose pipes stay open as long as anything does."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, trio.Cancelled):
            error.__context__ = None  # trio-parallel waits while it handles an IndexError, which is not to be told
        traceback.clear_frames(error.__traceback__)
        _collect()
        raise


def _collect() -> None:
    """Have the objects of workers that have ended, and with them their pipes, be gone."""
    multiprocessing.active_children()  # holds those that nobody has joined, and is documented to join them
    gc.collect()  # there are cycles


def _carry(mark: str) -> bool:  # pragma: no cover - in the worker
    """Have whatever this process starts carry the mark."""
    os.environ.update(marked({}, mark))
    return True


def _must_be_sendable(function: object, arguments: tuple[object, ...]) -> None:
    if getattr(function, "__module__", None) == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
        raise TypeError(
            f"{function!r} cannot be sent to a process: no module can be imported to find it, put it in a file"
        )
    for number, one in enumerate((function, *arguments)):
        try:
            pickle.dumps(one)
        except Exception as error:
            text = f"{one!r} cannot be sent to a process"
            advice = (
                f"it is argument {number}, and pickle does not take it"
                if number
                else "define it at the top of a module"
            )
            raise TypeError(f"{text}: {advice} ({error})") from error
