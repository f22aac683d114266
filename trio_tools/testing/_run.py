"""The runs of a scenario: what came of each."""

from __future__ import annotations

import gc
import math
import warnings
from collections import Counter
from collections.abc import Awaitable, Iterable
from typing import cast

import attrs
import trio

from trio_tools._batch import BatchOutcome
from trio_tools._errors import describe, leaves
from trio_tools._results import ToolFailure, ToolResult, ToolSuccess
from trio_tools.testing._report import Breach, CancelPoint, Rule
from trio_tools.testing._resources import Held, Marked, end_process, ended, held
from trio_tools.testing._scenario import Scenario, nothing, set_up
from trio_tools.testing._source import innermost, line_of, location
from trio_tools.testing._steps import REASON, Steps, StoppedError, TimedSteps
from trio_tools.testing._swallowing import Swallowed, SwallowWatch
from trio_tools.testing._tracing import Injector, LineWatch, Trace, one_after_the_other, traced

__all__ = ["Run", "Runs"]


@attrs.define
class _Ended:
    """How the scenario ended."""

    answer: object = None
    error: BaseException | None = None
    swallowed: bool = False
    not_async: str | None = None


@attrs.frozen
class Run:
    """One run.

    Attributes:
        point: What came of it.
        reached: Whether it came to the point at which it was to be disturbed.
        length: How many points it had.
    """

    point: CancelPoint
    reached: bool
    length: int


_PATIENCE = 0.5  # seconds for a descriptor; half as many each time that they were waited in vain
_STEPS_FOR_OTHERS = 256  # enough for one that does a thing or two before it closes; twice as many, in all


class Runs:
    """The runs of one scenario, one after the other."""

    def __init__(self, scenario: Scenario, marks: Marked) -> None:
        self._scenario = scenario
        self.marks = marks
        self._held = held(marks=marks)
        self._told: set[Held] = set()  # processes
        self._patience = _PATIENCE

    async def once(self, at: int, lines: LineWatch | None = None, *, traceless: bool = False) -> Run:
        """Run the scenario, disturbed at point number ``at`` (0: not at all).

        A checkpoint. ``lines`` follows a run that is made only to find out where something happened; one without a
        trace is as fast as the code is, and does not find what was swallowed.
        """
        scenario, scope = self._scenario, trio.CancelScope()
        scenario.observer.observed.clear()
        swallowed = SwallowWatch(scenario.files, REASON if scenario.mode == "cancel" else None, _ended.__code__)
        count = Steps if scenario.max_seconds == math.inf else TimedSteps
        async with set_up(scenario):
            if scenario.setup is not nothing:
                self._held = held(self._held, self.marks)  # with what it has opened itself
            steps = count(scenario, at, scope, lines or (None if traceless else swallowed))
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always", ResourceWarning)
                with traced(_trace(scenario, steps.injector, lines)):
                    trio.lowlevel.add_instrument(steps)
                    ended_as = await _ended(scenario, scope, steps)
                kept = swallowed.found()
                new = await self._new()
                if lines is not None:
                    gc.collect()  # else it may be the next run that is told of what this one has left
        self._told |= {one for one in new if one.kind == "process"}
        results = _results(ended_as.answer)
        breaches = [
            *_of_results(scenario, results, ended_as),
            *_of_steps(scenario, steps, kept, ended_as),
            *(Breach("task-left", f"task {task.name} is left") for task in steps.left()),
            *self._of_resources(new),
            *_of_warnings(warned, scenario, self._told),
        ]
        point = CancelPoint(at, results, steps.steps_after, tuple(breaches))
        if scenario.check is not None and lines is None and not traceless and (steps.disturbed or at == 0):
            try:
                answer: object = scenario.check(point)
                if answer is not None:
                    raise TypeError(f"check must raise AssertionError, and return nothing; it returned {answer!r}")
            except AssertionError as error:
                breaches.append(Breach("check-failed", str(error), _raised_in(error)))
                point = attrs.evolve(point, breaches=tuple(breaches))
        return Run(point, steps.disturbed, steps.length)

    async def _new(self) -> set[Held]:
        """What is held and was not. Others, such as a server in this program, get some steps to close theirs."""
        before, steps = self._held, 1
        self._held = held(before, self.marks)
        while steps <= _STEPS_FOR_OTHERS and any(one.kind in ("file", "socket") for one in self._held.since(before)):
            for _ in range(steps):
                await trio.lowlevel.cancel_shielded_checkpoint()
            self._held, steps = held(before, self.marks), 2 * steps
        return {one for one in self._held.since(before) if one.kind != "task"}

    def _of_resources(self, new: set[Held]) -> Iterable[Breach]:
        for left in sorted(new, key=lambda one: (one.kind, one.text)):
            if ended(left, self._patience):
                continue
            yield Breach(_RULES[left.kind], f"{left.text} is left")
            if left.kind in ("file", "socket"):
                self._patience /= 2
            elif isinstance(left.key, int):
                end_process(left.key)


def _trace(scenario: Scenario, injector: Injector, lines: LineWatch | None) -> Trace | None:
    if scenario.mode != "raise":
        return None if lines is None else lines.trace
    return injector if lines is None else one_after_the_other(injector, lines.trace)


async def _ended(scenario: Scenario, scope: trio.CancelScope, steps: Steps) -> _Ended:
    ended_as = _Ended()
    try:
        with scope:
            try:
                coming = scenario.make_call(scope)
                if isinstance(coming, Awaitable):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
                    ended_as.answer = await coming
                else:
                    ended_as.not_async = f"make_call must be async, and return what came of a call; it made {coming!r}"
            except BaseException as error:
                ended_as.error = error
                if _must_go_on(error):
                    raise
            finally:
                steps.stop()
            if scope.cancel_called:
                await trio.lowlevel.checkpoint()
                ended_as.swallowed = True
    except BaseException as error:  # Trio's, of a scope inside that was not left; or what came beside a cancellation
        ended_as.error = error
        if _must_go_on(error):
            raise
    if ended_as.not_async is not None:
        raise TypeError(ended_as.not_async)
    return ended_as


def _must_go_on(error: BaseException) -> bool:
    """Whether it belongs to whoever waits for us, in part: Ctrl-C, or a cancellation."""
    return any(isinstance(leaf, KeyboardInterrupt | trio.Cancelled) for leaf in leaves(error))


def _results(answer: object) -> tuple[ToolResult, ...]:
    if isinstance(answer, BatchOutcome):
        return answer.results
    many = cast("Iterable[object]", answer if isinstance(answer, list | tuple) else (answer,))
    return tuple(one for one in many if isinstance(one, ToolSuccess | ToolFailure))


def _of_results(scenario: Scenario, results: tuple[ToolResult, ...], ended_as: _Ended) -> Iterable[Breach]:
    error = ended_as.error
    if error is not None and _must_go_on(error):  # it was our cancellation, and went on
        told = "Cancelled came out of the scenario, and no result: what it awaits beside its calls belongs into setup="
        yield Breach("no-result", f"{told}, or behind a shield", _raised_in(error, scenario.files))
    elif error is not None and not isinstance(error, StoppedError):
        told = f"instead of a result, {type(error).__name__} came out: {describe(error).message}"
        yield Breach("no-result", told, _raised_in(error, scenario.files))
    elif not results and error is None:
        yield Breach("no-result", f"the scenario returned {ended_as.answer!r}, and no ToolResult")
    told_of = [one.execution for one in scenario.observer.observed]
    begun = any(one.body != "not-started" for one in results)  # of a batch that is cancelled at once, nothing begins
    if scenario.registry is not None and not told_of and begun:
        yield Breach("no-result", "the registry that was given has seen no call")
    for execution, number in Counter(told_of).items():
        if number > 1:
            yield Breach("two-results", f"call {execution.call_id!r} has {number} results")
    for call in scenario.registry.outstanding() if scenario.registry is not None else ():
        yield Breach("no-result", f"{call!r} has none yet", innermost(call.frames()))


def _of_steps(scenario: Scenario, steps: Steps, kept: list[Swallowed], ended_as: _Ended) -> Iterable[Breach]:
    for one in kept:
        yield Breach("swallowed", one.text, one.where)
    if steps.endless is not None:
        yield steps.endless
        return  # it was ended by force
    if ended_as.swallowed and not kept:
        yield Breach("swallowed", "the caller's next checkpoint does not raise Cancelled")
    if steps.longest > scenario.max_seconds:
        yield Breach("no-checkpoint", f"{steps.longest:.4g} seconds in one step, without a checkpoint")
    elif steps.drained > scenario.max_seconds:
        yield Breach("too-long", f"{steps.drained:.4g} seconds from the disturbance to the end")


_RULES: dict[str, Rule] = {
    "thread": "thread-left",
    "file": "file-left",
    "socket": "socket-left",
    "process": "process-left",
}

_WORDS: dict[str, Rule] = {
    "socket": "socket-left",
    "process": "process-left",
    "generator": "task-left",  # Trio closes it in a task of its own
}


def _of_warnings(warned: list[warnings.WarningMessage], scenario: Scenario, told: Iterable[Held]) -> Iterable[Breach]:
    for one in warned:
        if not issubclass(one.category, ResourceWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
            continue
        text = str(one.message)
        if any(held.is_meant(text) for held in told):
            continue  # it is reported as left already
        rules: list[Rule] = [rule for word, rule in _WORDS.items() if word in text]
        known = line_of(one.filename, one.lineno) if one.filename in scenario.files else None
        yield Breach(rules[0] if rules else "file-left", f"left to the garbage collector: {text}", known)


def _raised_in(error: BaseException, files: frozenset[str] | None = None) -> str | None:
    """The innermost line, of these files, that an exception passed."""
    traceback, found = error.__traceback__, None
    while traceback is not None:
        if files is None or traceback.tb_frame.f_code.co_filename in files:
            found = location(traceback.tb_frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found
