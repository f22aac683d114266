"""What the benchmarks share: ratios to a floor that is measured interleaved in the same run, and bounds to hold.

Machines differ and are never quiet; a ratio of medians of many short, interleaved rounds says what the code costs.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Generator, Mapping

import attrs
import trio


@attrs.frozen
class Measure:
    """One line of a benchmark: what was measured, how large it is, and how large it may be."""

    name: str
    value: float
    bound: float
    unit: str = "x"

    @property
    def missed(self) -> bool:
        """Whether the bound is missed."""
        return self.value > self.bound

    def __str__(self) -> str:
        verdict = "MISSED" if self.missed else "ok"
        return f"{self.name:62} {self.value:10.2f} {self.unit:6} bound {self.bound:8.2f} {self.unit:6} {verdict}"


@contextlib.contextmanager
def collected() -> Generator[None]:
    """Have the garbage collected before, and not within, as ``timeit`` does: it costs by what else is alive."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def medians(rounds: int, subjects: Mapping[str, Callable[[], Awaitable[int]]]) -> dict[str, float]:
    """Seconds per operation of each subject: medians over ``rounds`` in which every subject takes its turn.

    A subject does some operations and returns how many they were.
    """
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, subject in subjects.items():
            with collected():
                start = time.perf_counter()
                count = await subject()
                seconds[name].append((time.perf_counter() - start) / count)
    return {name: statistics.median(each) for name, each in seconds.items()}


def run(measure: Callable[[], Awaitable[list[Measure]]], about: str) -> int:
    """Measure, print a line for each measure; the exit status is 1 if ``--check`` is given and a bound is missed."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bound is missed")
    options = parser.parse_args()
    measures = trio.run(measure)
    for one in measures:
        print(one)  # noqa: T201 - it is a command
    return int(options.check and any(one.missed for one in measures))
