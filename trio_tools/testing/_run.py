"""One run of a scenario: disturb it at one point, and look at what came of it."""

from __future__ import annotations

import math
import sys
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeAlias, cast

import attrs
import trio

from trio_tools._batch import BatchOutcome
from trio_tools._errors import describe
from trio_tools._registry import ToolRegistry
from trio_tools._results import ToolFailure, ToolResult, ToolSuccess
from trio_tools.testing._doubles import RecordingObserver
from trio_tools.testing._report import Breach, CancelPoint, Mode, Rule
from trio_tools.testing._resources import Held, end_process, ended, held
from trio_tools.testing._tracing import (
    Injector,
    LineWatch,
    Stopper,
    SwallowWatch,
    Trace,
    location,
    one_after_the_other,
    traced,
)

__all__ = ["InjectedError", "MakeCall", "Runs", "Scenario"]

MakeCall: TypeAlias = Callable[[trio.CancelScope], Awaitable[ToolResult | BatchOutcome | Iterable[ToolResult]]]


class InjectedError(Exception):
    """What an awaited call raises in the mode ``"raise"``."""


class _StoppedError(BaseException):
    """Ends code that goes on and on; it is not caught by ``except Exception``."""


@attrs.frozen(kw_only=True, eq=False)
class Scenario:
    """What is run, and what it is held against; see :func:`cancel_everywhere` for each."""

    make_call: MakeCall
    mode: Mode
    registry: ToolRegistry | None
    observer: RecordingObserver  # of that registry
    check: Callable[[CancelPoint], None] | None
    files: frozenset[str]
    max_steps: int
    max_seconds: float
    clock: Callable[[], float]


class _Steps(trio.abc.Instrument):
    """Counts the steps of the running task and of all below it, disturbs them, and ends what goes on for ever."""

    def __init__(self, scenario: Scenario, at: int, scope: trio.CancelScope, watch: SwallowWatch | LineWatch) -> None:
        self.scenario = scenario
        self.injector: Injector = Injector(scenario.files, at, self._is_running, self._injected)
        self.steps = 0
        self.steps_after = 0  # it was disturbed
        self.longest = 0.0  # step, in seconds
        self.drained = 0.0  # how long it took from the disturbance to the end
        self.endless: Breach | None = None
        self.disturbed = False
        self._at = at if scenario.mode != "raise" else 0
        self._scope = scope
        self._watch = watch
        self._home = trio.lowlevel.current_task()
        self._disturbed_when = math.inf

    def stop(self) -> None:
        """The scenario is over."""
        trio.lowlevel.remove_instrument(self)
        if self.disturbed:
            self.drained = self.scenario.clock() - self._disturbed_when

    def is_ours(self, task: trio.lowlevel.Task | None) -> bool:
        while task is not None and task is not self._home:
            task = None if task.parent_nursery is None else task.parent_nursery.parent_task
        return task is not None

    def _is_running(self) -> bool:
        return self.is_ours(trio.lowlevel.current_task())

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is not self._home and not self.is_ours(task):
            return
        self.steps += 1
        if self.steps == self._at:
            self._disturb()
        elif self.disturbed:
            self.steps_after += 1
            if self.steps_after > self.scenario.max_steps:
                self._end()

    def _end(self) -> None:
        if self.endless is None:
            text = f"still runs {self.scenario.max_steps} steps after it was disturbed"
            self.endless = Breach("too-many-steps", text, self._where())
        sys.settrace(Stopper(self.scenario.files, _StoppedError))

    def _mark(self) -> None:
        self.disturbed, self._disturbed_when = True, self.scenario.clock()
        if isinstance(self._watch, LineWatch):
            self._watch.disturbed = True

    def _injected(self, where: str) -> InjectedError:
        self._mark()
        return InjectedError(where)

    def _disturb(self) -> None:
        self._mark()
        if self.scenario.mode == "cancel":
            self._scope.cancel("cancelled by a sweep")
        else:
            self._scope.deadline = trio.current_time()
        if isinstance(self._watch, SwallowWatch):  # the other one is set already
            self._watch.begin(len(list(self._waiting())))

    def _where(self) -> str | None:
        return next(iter(self._waiting()), None)

    def _waiting(self) -> Iterator[str]:
        """The innermost line of the author's in each task that waits in one."""
        todo = [self._home]
        while todo:
            task = todo.pop()
            mine = [
                location(frame, line)
                for frame, line in task.iter_await_frames()
                if frame.f_code.co_filename in self.scenario.files
            ]
            yield from mine[-1:]
            for nursery in task.child_nurseries:
                todo.extend(nursery.child_tasks)


class _TimedSteps(_Steps):
    """Measures each step, too."""

    def __init__(self, scenario: Scenario, at: int, scope: trio.CancelScope, watch: SwallowWatch | LineWatch) -> None:
        super().__init__(scenario, at, scope, watch)
        self._began = scenario.clock()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = self.scenario.clock()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.is_ours(task):
            self.longest = max(self.longest, self.scenario.clock() - self._began)
        super().after_task_step(task)


@attrs.define
class _Ended:
    """How the scenario ended."""

    answer: object = None
    error: BaseException | None = None
    swallowed: bool = False


class Runs:
    """The runs of one scenario, one after the other."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._held = held()

    async def once(self, at: int, lines: LineWatch | None = None) -> tuple[CancelPoint, bool]:
        """Run the scenario, disturbed at point number ``at`` (0: not at all); whether it came that far.

        A checkpoint. ``lines`` follows a run that is made only to find out where something happened.
        """
        scenario, scope = self._scenario, trio.CancelScope()
        scenario.observer.observed.clear()
        swallowed = SwallowWatch(scenario.files)
        count = _Steps if scenario.max_seconds == math.inf else _TimedSteps
        steps = count(scenario, at, scope, lines or swallowed)
        with warnings.catch_warnings(record=True) as warned, traced(_trace(scenario, steps.injector, lines)):
            warnings.simplefilter("always", ResourceWarning)
            trio.lowlevel.add_instrument(steps)
            ended_as = await _ended(scenario, scope, steps)
        swallowed.clear()
        before, self._held = self._held, held()
        results = _results(ended_as.answer)
        breaches = [
            *_of_results(scenario, results, ended_as),
            *_of_steps(scenario, steps, swallowed, ended_as),
            *_of_resources(self._held - before),
            *_of_warnings(warned, scenario),
        ]
        point = CancelPoint(at, results, steps.steps_after, tuple(breaches))
        if scenario.check is not None and lines is None and (steps.disturbed or at == 0):
            try:
                scenario.check(point)
            except AssertionError as error:
                breaches.append(Breach("check-failed", str(error), _raised_in(error, scenario)))
                point = attrs.evolve(point, breaches=tuple(breaches))
        return point, steps.disturbed


def _trace(scenario: Scenario, injector: Injector, lines: LineWatch | None) -> Trace | None:
    if scenario.mode != "raise":
        return None if lines is None else lines.trace
    return injector if lines is None else one_after_the_other(injector, lines.trace)


async def _ended(scenario: Scenario, scope: trio.CancelScope, steps: _Steps) -> _Ended:
    ended_as = _Ended()
    try:
        with scope:
            try:
                ended_as.answer = await scenario.make_call(scope)
            except (Exception, SystemExit, _StoppedError) as error:  # KeyboardInterrupt is that of whoever waits for us
                ended_as.error = error
            finally:
                steps.stop()
            if scope.cancel_called:
                await trio.lowlevel.checkpoint()
                ended_as.swallowed = True
    except RuntimeError as error:  # Trio's: a scope inside has been entered, and not left
        ended_as.error = error
    return ended_as


def _results(answer: object) -> tuple[ToolResult, ...]:
    if isinstance(answer, BatchOutcome):
        return answer.results
    many = cast("Iterable[object]", answer if isinstance(answer, list | tuple) else (answer,))
    return tuple(one for one in many if isinstance(one, ToolSuccess | ToolFailure))


def _of_results(scenario: Scenario, results: tuple[ToolResult, ...], ended_as: _Ended) -> Iterable[Breach]:
    error = ended_as.error
    if error is not None and not isinstance(error, _StoppedError):
        told = f"instead of a result, {type(error).__name__} came out: {describe(error).message}"
        yield Breach("no-result", told, _raised_in(error, scenario))
    elif not results and error is None:
        yield Breach("no-result", f"the scenario returned {ended_as.answer!r}, and no ToolResult")
    told_of = [one.execution for one in scenario.observer.observed]
    for execution, number in Counter(told_of).items():
        if number > 1:
            yield Breach("two-results", f"call {execution.call_id!r} has {number} results")
    for call in scenario.registry.outstanding() if scenario.registry is not None else ():
        yield Breach("no-result", f"{call!r} has none yet", call.frames()[-1] if call.frames() else None)


def _of_steps(scenario: Scenario, steps: _Steps, swallowed: SwallowWatch, ended_as: _Ended) -> Iterable[Breach]:
    if steps.endless is not None:
        yield steps.endless
        return  # it was ended by force
    for where in dict.fromkeys(swallowed.found):
        yield Breach("swallowed", "Cancelled was caught here and not raised again", where)
    if ended_as.swallowed and not swallowed.found:
        yield Breach("swallowed", "the caller's next checkpoint does not raise Cancelled")
    if steps.longest > scenario.max_seconds:
        yield Breach("no-checkpoint", f"{steps.longest:.4g} seconds in one step, without a checkpoint")
    elif steps.drained > scenario.max_seconds:
        yield Breach("too-long", f"{steps.drained:.4g} seconds from the disturbance to the end")


_RULES: dict[str, Rule] = {
    "task": "task-left",
    "thread": "thread-left",
    "file": "file-left",
    "socket": "socket-left",
    "process": "process-left",
}


def _of_resources(new: set[Held]) -> Iterable[Breach]:
    for left in sorted(new, key=lambda one: (one.kind, one.text)):
        if not ended(left):
            yield Breach(_RULES[left.kind], f"{left.text} is left")
            if isinstance(left.key, int):
                end_process(left.key)


def _of_warnings(warned: list[warnings.WarningMessage], scenario: Scenario) -> Iterable[Breach]:
    for one in warned:
        if not issubclass(one.category, ResourceWarning):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
            continue
        text = str(one.message)
        rule: Rule = "socket-left" if "socket" in text else "process-left" if "process" in text else "file-left"
        known = f"{one.filename}:{one.lineno}" if one.filename in scenario.files else None
        yield Breach(rule, f"left to the garbage collector: {text}", known)


def _raised_in(error: BaseException, scenario: Scenario) -> str | None:
    """The innermost line of the author's that an exception passed."""
    traceback, found = error.__traceback__, None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename in scenario.files:
            found = location(traceback.tb_frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found
