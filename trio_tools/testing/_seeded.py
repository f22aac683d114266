"""The same order of tasks again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

__all__ = ["run_seeded"]

T = TypeVar("T")


def run_seeded(function: Callable[[], Awaitable[T]], *, seed: int, clock: trio.abc.Clock | None = None) -> T:
    """``trio.run`` with the order of tasks, which Trio picks at random, picked by ``seed``: equal seeds, equal steps.

    Needs `Hypothesis <https://hypothesis.readthedocs.io>`_: Trio leaves its dice to it, and to nobody else. The dice of
    the module ``random`` are seeded, too, and put back.

    Args:
        function: Async, without arguments.
        seed: Any integer.
        clock: As for ``trio.run``.

    Raises:
        TypeError: If an argument is not what it should be.
        ImportError: If Hypothesis is not installed.
    """
    if not callable(function):
        raise TypeError(f"function must be an async function without arguments, not {function!r}")
    if isinstance(seed, bool) or not isinstance(seed, int):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise TypeError(f"seed must be an integer, not {seed!r}")
    if clock is not None and not isinstance(clock, trio.abc.Clock):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise TypeError(f"clock takes a clock of Trio's, such as trio.testing.MockClock(), not {clock!r}")
    import hypothesis
    from hypothesis import strategies

    answers: list[T] = []
    errors: list[BaseException] = []  # kept from Hypothesis, which would run a failure again
    rolls = 0

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=2,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.nested_given],
    )
    @hypothesis.given(strategies.random_module())
    def run(_: object) -> None:
        nonlocal rolls
        rolls += 1
        if rolls == 2:  # the first example is the simplest one, whatever the seed
            try:
                answers.append(trio.run(function, clock=clock))
            except BaseException as error:
                errors.append(error)

    run()
    if errors:
        raise errors[0]
    return answers[0]
