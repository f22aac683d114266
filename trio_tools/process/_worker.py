"""A function that computes, in a process that can be killed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import TypeVar, cast

import trio

from trio_tools._errors import ToolError

__all__ = ["WORKER_DIED", "run_in_process"]

T = TypeVar("T")

WORKER_DIED = "WORKER_DIED"
"""The code of the error that says that a worker process ended before its function did."""


async def run_in_process(
    function: Callable[..., T], *arguments: object, limiter: trio.CapacityLimiter | None = None
) -> T:
    """Call a synchronous function in a worker process of its own, which is killed on cancellation. ::

        @tool
        async def factorize(number: int) -> list[int]:
            return await run_in_process(factors, number)

    A thread cannot be stopped, and is waited for; a process can. The worker is a fresh one for each call, which costs
    some tenths of a second, and is gone when this is left, whatever way. What the function itself has started as
    processes is not: use :func:`run_command` for that. (One helper of the standard library's stays as long as the
    program, its resource tracker.) Needs `trio-parallel <https://trio-parallel.readthedocs.io>`_, which the extra
    ``trio-tools[parallel]`` installs.

    A checkpoint. If ``Cancelled`` comes out, the worker has been killed and is gone; it may have had effects.

    Args:
        function: One that can be imported: defined at the top of a module, not in a function, no ``lambda``. It,
            its arguments and what it returns or raises pass through :mod:`pickle`.
        arguments: For the function.
        limiter: Bounds the workers that run at once; by default that of trio-parallel, the number of processors.

    Raises:
        TypeError: If the function cannot be sent to a process.
        ToolError: With the code ``WORKER_DIED``, if the worker ended before the function did.
        ImportError: If trio-parallel is not installed.
        Exception: What the function raises.
    """
    try:
        import trio_parallel  # pyright: ignore[reportMissingTypeStubs] - it has annotations, and no py.typed
    except ImportError as error:
        raise ImportError("run_in_process needs trio-parallel: pip install 'trio-tools[parallel]'") from error
    if not callable(function):
        raise TypeError(f"run_in_process takes a function and its arguments, not {function!r}")
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        text = f"{function!r} cannot be sent to a process: define it at the top of a module ({error})"
        raise TypeError(text) from error
    bound = limiter or cast(trio.CapacityLimiter, trio_parallel.current_default_worker_limiter())
    try:
        async with trio_parallel.open_worker_context() as workers:  # pyright: ignore[reportUnknownMemberType] - likewise
            call = partial(workers.run_sync, function, *arguments)  # pyright: ignore[reportUnknownMemberType] - likewise
            return await call(kill_on_cancel=True, limiter=bound)
    except trio_parallel.BrokenWorkerError as error:
        raise ToolError(f"the worker process has ended before {function!r} has: {error}", code=WORKER_DIED) from error
    raise AssertionError("unreachable: the context lets everything out")  # pragma: no cover - for the type checker
