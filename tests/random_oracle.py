"""What must become of a call through a random pipeline: the outcome table, worked out on paper.

An interpreter of :class:`~random_plans.Pipeline` that knows nothing of Trio or of the library. It walks along a time
line; a scope is a time at which it fires. Waiting raises :class:`Cut` where a cancellation ends it.
"""

from __future__ import annotations

import contextlib
import math

import attrs
from random_plans import (
    AssignScope,
    AssignShield,
    EnterScope,
    EnterShield,
    Fail,
    Pause,
    Pipeline,
    Retry,
    ShortCircuit,
    Wait,
    WrapperPlan,
)

__all__ = ["Expected", "expected"]


@attrs.frozen
class Fires:
    """A scope: when it is cancelled, and the source that a cause names for it."""

    at: float
    source: str


@attrs.frozen
class Outcome:
    """How a result ends, whose cancellation ended it, and whether it replaced a result of the body."""

    ending: str
    source: str | None = None
    superseded: bool = False

    @property
    def failed(self) -> bool:
        return self.ending != "success"


@attrs.frozen
class Expected:
    """What is compared. ``body`` is ``None`` where it is open: a body that fails while a cancellation unwinds it."""

    outcome: Outcome
    body: str | None
    entered: int
    seconds: float


class Cut(Exception):
    """A cancellation on its way out."""


class Raised(Exception):
    """An error of a stage on its way out."""

    def __init__(self, code: str) -> None:
        self.code = code


def expected(plan: Pipeline) -> Expected:
    return _Oracle(plan).call()


class _Oracle:
    def __init__(self, plan: Pipeline) -> None:
        self.plan = plan
        source = "operator" if plan.how == "operator" else "caller"
        self.caller = Fires(math.inf if plan.cancel_at is None else plan.cancel_at, source)
        self.now = 0.0
        self.entered = 0
        self.body: str | None = "not-started"
        self.latest: Outcome | None = None

    # ---- the stages of a call ----------------------------------------------------------------------------------------

    def call(self) -> Expected:
        try:
            outcome = self.gates() or self.layer(0, (self.caller,))
        except Cut:
            outcome = self.abort()
        except Raised as error:
            return self.expect(Outcome(error.code))
        if self.cancelled and not outcome.failed:
            outcome = self.aborted(outcome)
        if self.plan.after is not None:
            self.now += self.plan.after.seconds
            if self.plan.after.then != "accept":
                return self.expect(Outcome("BLOCKED" if self.plan.after.then == "raise" else "None"))
        return self.expect(outcome)

    def expect(self, outcome: Outcome) -> Expected:
        if self.cancelled and not outcome.failed:
            outcome = self.aborted(outcome)
        return Expected(outcome, self.body, self.entered, self.now)

    @property
    def cancelled(self) -> bool:
        return self.caller.at <= self.now

    def gates(self) -> Outcome | None:
        before, person = self.plan.before, self.plan.person
        if before is None:
            return None
        self.wait(before.wait, (self.caller,))
        if before.then == "raise":
            raise Raised("BEFORE")
        if before.then == "deny":
            return Outcome("DENIED")
        if self.cancelled:
            raise Cut
        if before.then == "allow":
            return None
        if person is None:
            return Outcome("DENIED")
        self.wait(person.wait, (self.caller,))
        if person.then == "rejected" or (person.then == "unavailable" and not self.cancelled):
            return Outcome("DENIED")
        if self.cancelled:
            raise Cut
        return None

    def wait(self, wait: Wait, visible: tuple[Fires, ...]) -> None:
        fires = min(one.at for one in visible)
        if not wait.shielded and fires < self.now + wait.seconds + 1e-9:
            self.now = max(self.now, fires)
            raise Cut
        self.now += wait.seconds

    def fired(self, scopes: tuple[Fires, ...]) -> Fires | None:
        """The scope among them that fired first, if any has by now."""
        return min((one for one in scopes if one.at <= self.now), key=lambda one: one.at, default=None)

    # ---- aborts ------------------------------------------------------------------------------------------------------

    def abort(self) -> Outcome:
        """What stands when a cancellation has ended the wrappers."""
        if self.latest is not None and self.latest.failed:
            return self.latest
        return self.aborted(self.latest)

    def aborted(self, replaced: Outcome | None) -> Outcome:
        source = self.caller.source if self.cancelled else "wrapper"
        code = "ABORTED" if self.entered else "ABORTED_BEFORE_DISPATCH"
        return Outcome(code, source, replaced is not None and self.body == "finished")

    # ---- wrappers ----------------------------------------------------------------------------------------------------

    def layer(self, index: int, visible: tuple[Fires, ...]) -> Outcome:
        wrappers = self.plan.wrappers
        if index == len(wrappers):
            return self.dispatch(visible)
        try:
            self.latest = self.wrapper(wrappers[index], index + 1, visible)
        except Raised as error:
            self.latest = Outcome(error.code)
            raise
        return self.latest

    def wrapper(self, plan: WrapperPlan, inner: int, visible: tuple[Fires, ...]) -> Outcome:
        match plan:
            case Pause():
                self.wait(plan.before, visible)
                outcome = self.layer(inner, visible)
                self.wait(plan.after, visible)
                return outcome
            case AssignScope():
                own = Fires(math.inf if plan.deadline is None else self.now + plan.deadline, "wrapper")
                return self.inside(own, inner, visible)
            case EnterScope():
                own = Fires(self.now + plan.deadline, "wrapper")
                try:
                    return self.layer(inner, (*visible, own))
                except Cut:
                    if self.fired(visible) is not None:
                        raise
                    return Outcome("SLOW") if plan.maps else self.abort()
            case AssignShield():
                try:
                    return self.layer(inner, visible)
                except Cut:
                    return self.abort()
            case EnterShield():
                return self.dispatch(visible, hidden=True)
            case Retry():
                outcome = self.layer(inner, visible)
                for _ in range(plan.times):
                    if not outcome.failed:
                        break
                    self.wait(plan.pause, visible)
                    outcome = self.layer(inner, visible)
                return outcome
            case Fail():
                self.layer(inner, visible)
                self.wait(plan.wait, visible)
                raise Raised("WRAPPER")
            case ShortCircuit():
                self.wait(plan.wait, visible)
                return Outcome("CACHED" if plan.fails else "success")

    def inside(self, own: Fires, inner: int, visible: tuple[Fires, ...]) -> Outcome:
        try:
            return self.layer(inner, (*visible, own))
        except Cut:
            if self.fired(visible) is not None:
                raise
            return self.abort()

    # ---- the body ----------------------------------------------------------------------------------------------------

    def dispatch(self, visible: tuple[Fires, ...], *, hidden: bool = False) -> Outcome:
        """One attempt; with ``hidden``, ``call_next`` does not raise, as a shield stands around it."""
        first = self.fired(visible)
        if first is None:
            outcome, cut = self.attempt(visible)
        else:
            outcome, cut = (
                self.abort() if self.latest is not None else Outcome(self.aborted(None).ending, first.source),
                True,
            )
        self.latest = outcome
        if cut and not hidden and self.fired(visible) is not None:
            raise Cut
        return outcome

    def attempt(self, visible: tuple[Fires, ...]) -> tuple[Outcome, bool]:
        """The outcome, and whether the body has none of its own."""
        timeout = math.inf if self.plan.timeout is None else self.now + self.plan.timeout
        scopes = (*visible, Fires(timeout, "deadline"))
        started = self.now
        self.entered += 1
        own: str | None
        try:
            for segment in self.plan.body.segments:
                if segment.nests:
                    self.nest(segment.wait, scopes)
                else:
                    self.wait(segment.wait, scopes)
            self.body, own = "finished", "success" if self.plan.body.then == "return" else "NO_ROW"
        except Cut:
            self.body, own = "interrupted", None
            if self.plan.body.unwinding == "raises":
                self.body, own = None, "HALF"
            if self.plan.body.unwinding == "takes its time":
                self.now += 3
        in_time = own is not None and self.now < timeout
        if own == "success" and self.plan.body.owned is not None and started + self.plan.body.owned > self.now:
            fires = min(one.at for one in scopes)
            self.now = max(self.now, min(fires, started + self.plan.body.owned))
        elif in_time:
            scopes = visible  # the body ended in time
        first = self.fired(scopes)
        if first is None:
            assert own is not None
            return Outcome(own), False
        if first.source == "deadline":
            return Outcome("TOOL_TIMEOUT", "deadline", own is not None), own is None
        if own is not None and own != "success":
            return Outcome(own), False
        return Outcome("ABORTED", first.source, own is not None), own is None

    def nest(self, wait: Wait, scopes: tuple[Fires, ...]) -> None:
        """A nested call: it returns when it is cancelled, and the body goes on."""
        with contextlib.suppress(Cut):
            self.wait(Wait(wait.seconds), scopes)
