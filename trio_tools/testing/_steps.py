"""Counting the steps of a scenario, and disturbing it behind one of them."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Iterator
from types import FrameType

import trio

from trio_tools._tasks import is_inside
from trio_tools.testing._report import Breach
from trio_tools.testing._scenario import Scenario
from trio_tools.testing._source import is_in_a_call, location
from trio_tools.testing._swallowing import SwallowWatch
from trio_tools.testing._tracing import Injector, LineWatch, Stopper

__all__ = ["REASON", "InjectedError", "Steps", "StoppedError", "TimedSteps"]

_HOOKS = [name for name in dir(trio.abc.Instrument) if not name.startswith("_")]

REASON = "cancelled by a sweep"
"""What a cancellation of the mode ``"cancel"`` carries."""


class InjectedError(Exception):
    """What an awaited call raises in the mode ``"raise"``."""


class StoppedError(BaseException):
    """Ends code that goes on and on; it is not caught by ``except Exception``."""


class Steps(trio.abc.Instrument):
    """Counts the steps of the running task and of all below it, disturbs them, and ends what goes on for ever."""

    def __init__(
        self, scenario: Scenario, at: int, scope: trio.CancelScope, watch: SwallowWatch | LineWatch | None
    ) -> None:
        self.scenario = scenario
        self.injector: Injector = Injector(scenario.files, at, self._is_to_fail, self._injected)
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
        self._depth = len(self._home.child_nurseries)  # opened before: what runs in them is not ours
        self._disturbed_when = math.inf
        self._spawned: set[trio.lowlevel.Task] = set()  # by our tasks, wherever, and still there
        self._of_calls: set[trio.lowlevel.Task] = set()  # those that bodies and stages have started

    def __dir__(self) -> list[str]:
        """What Trio is to find: it tries all names each time that an instrument is added, and each run adds one."""
        return _HOOKS

    @property
    def length(self) -> int:
        """How many points there were until now."""
        return self.injector.seen if self.scenario.mode == "raise" else self.steps

    def stop(self) -> None:
        """The scenario is over."""
        trio.lowlevel.remove_instrument(self)
        if self.disturbed:
            self.drained = self.scenario.clock() - self._disturbed_when

    def left(self) -> Iterator[trio.lowlevel.Task]:
        """What our tasks have started, wherever, and what has not ended; without what runs in a nursery of these."""
        for task in self._spawned:
            around = task.parent_nursery
            if around is None or around.parent_task not in self._spawned:
                yield task

    def is_ours(self, task: trio.lowlevel.Task) -> bool:
        return is_inside(task, self._home, self._depth)

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        try:
            spawner = trio.lowlevel.current_task()
        except RuntimeError:  # the run loop
            return
        if spawner in self._spawned or self.is_ours(spawner):
            self._spawned.add(task)
            if spawner in self._of_calls or is_in_a_call(inspect.currentframe()):
                self._of_calls.add(task)

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self._spawned.discard(task)
        self._of_calls.discard(task)

    def _is_disturbed(self, task: trio.lowlevel.Task) -> bool:
        return task in self._spawned or self.is_ours(task)

    def _is_to_fail(self, frame: FrameType) -> bool:
        task = trio.lowlevel.current_task()
        return self.is_ours(task) and (task in self._of_calls or is_in_a_call(frame))

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is not self._home and not self.is_ours(task):
            return
        self.steps += 1
        if self.steps == self._at:
            self._disturb()
        elif self.disturbed:
            self.steps_after += 1
            if isinstance(self._watch, SwallowWatch) and self._watch.is_idle:
                self._watch.begin(self._tasks(), self._is_disturbed)
            if self.steps_after > self.scenario.max_steps:
                self._end()

    def _end(self) -> None:
        if self.endless is None:
            text = f"still runs {self.scenario.max_steps} steps after it was disturbed"
            self.endless = Breach("too-many-steps", text, self._where())
        sys.settrace(Stopper(self.scenario.files, StoppedError))

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
            self._scope.cancel(REASON)
        else:
            self._scope.deadline = trio.current_time()
        if isinstance(self._watch, SwallowWatch):  # the other one is set already
            self._watch.begin(self._tasks(), self._is_disturbed)

    def _where(self) -> str | None:
        return next(iter(self._waiting()), None)

    def _waiting(self) -> Iterator[str]:
        """The innermost line of the author's in each task that waits in one."""
        for task in self._tasks():
            mine = [
                location(frame, line)
                for frame, line in task.iter_await_frames()
                if frame.f_code.co_filename in self.scenario.files
            ]
            yield from mine[-1:]

    def _tasks(self) -> Iterator[trio.lowlevel.Task]:
        """That of the scenario, and those below it."""
        todo = [self._home]
        while todo:
            task = todo.pop()
            yield task
            for nursery in task.child_nurseries[self._depth if task is self._home else 0 :]:
                todo.extend(nursery.child_tasks)


class TimedSteps(Steps):
    """Measures each step, too."""

    def __init__(
        self, scenario: Scenario, at: int, scope: trio.CancelScope, watch: SwallowWatch | LineWatch | None
    ) -> None:
        super().__init__(scenario, at, scope, watch)
        self._began = scenario.clock()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = self.scenario.clock()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.is_ours(task):
            self.longest = max(self.longest, self.scenario.clock() - self._began)
        super().after_task_step(task)
