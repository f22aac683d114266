"""The cancellation of one piece of work: who may cancel it, who did first, and how everybody inside is told.

The caller's cancellation is ambient: it reaches the work as ``Cancelled``, through Trio's own nesting of scopes. What
Trio does not tell is *when* it came, and with which reason, to somebody inside a shield; and a shield between the
caller and the work keeps it out. So a :class:`Watcher` is parked outside of everything that could hide the caller. Its
abort function runs synchronously inside whatever cancels; it notes the fact, and the scopes that were opened further
in with :meth:`Cancellation.piercing` are cancelled too, which pierces every shield between.

This module knows nothing of tools. Everything in it uses Trio's public interface only.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, Protocol

import attrs
import trio

from ._tasks import is_inside, runs_within
from ._watcher import Watcher

__all__ = ["CancelSource", "Cancellation", "Firing", "LiveScope", "ScopeView", "expired"]

CancelSource = Literal["caller", "deadline", "wrapper", "sibling", "operator", "tool", "interrupt", "crash"]
"""Whose scope ended a call: ``"caller"`` (also when its deadline ran out, or anything around it), ``"deadline"`` (the
tool's own timeout), ``"wrapper"``, ``"sibling"`` (another call of the batch failed), ``"operator"`` (cancelled through
:meth:`OutstandingCall.cancel`), ``"tool"`` (the body cancelled its own nursery), ``"interrupt"``, ``"crash"`` (the
program ended before the call had its result, as a journal found)."""


class ScopeView(Protocol):
    """A cancel scope as somebody sees it who may look but not touch. ``trio.CancelScope`` satisfies it."""

    @property
    def cancel_called(self) -> bool:
        """Whether the scope was cancelled."""
        ...


class Firing(NamedTuple):
    """A cancellation as it was noticed: whose, why, when (``trio.current_time()``, seconds)."""

    source: CancelSource
    reason: str | None = None
    at: float = math.inf
    call_id: str | None = None


def expired() -> bool:
    """Whether the running task is cancelled here; a deadline that has passed counts though Trio has not acted yet."""
    deadline = trio.current_effective_deadline()
    return deadline != math.inf and deadline <= trio.current_time()


@attrs.define(eq=False)
class Cancellation:
    """Whether one call is cancelled, by whom first, and which scopes of the library pass it on.

    Two kinds of cause are kept apart. ``first`` concerns the whole call: its caller, an operator, a failing sibling, an
    interrupt; once set it stays. The other kind concerns one attempt of the body: its timeout, a wrapper's scope, the
    nursery of the body itself. If both happened, the earlier one is the cause, and at the same instant the first kind.
    """

    given: ScopeView  # the caller's scope, as it was given
    deadline: float  # in force where the call was made; -inf: cancelled
    watcher: Watcher | None = None  # in the caller's context, while the stages run
    first: Firing | None = None
    sighted: float | None = None  # the deadline in force, if it was looked for in this very step already
    # The task that makes the call, and how many nurseries it has open around it; while the edge is there.
    inside: tuple[trio.lowlevel.Task, int] | None = None
    # Of this attempt:
    local: Firing | None = None  # its cause, if that was there before `first`
    within: Firing | None = None  # what a watcher beside the body has noted: something, perhaps the caller
    applied: tuple[trio.CancelScope, ...] = ()  # assigned by wrappers and entered by us, outermost first
    timeout: float = math.inf  # when the tool's own deadline passes
    own: trio.Nursery | None = None  # of the body
    limit: float = math.inf  # the deadline in force when it was last looked for
    visitors: tuple[trio.lowlevel.Task, ...] = ()  # other tasks in which stages of this call run

    _piercing: tuple[trio.CancelScope, ...] = ()  # cancelled with the call
    # Trio's own scopes reach the call, so their cancellation is in force where it is looked for; others are asked.
    asked: ScopeView | None = attrs.field(init=False)
    _clock: trio.abc.Clock = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.asked = None if isinstance(self.given, trio.CancelScope) else self.given
        self._clock = trio.lowlevel.current_clock()

    def now(self) -> float:
        """The time in seconds on Trio's clock; works in worker threads too."""
        return self._clock.current_time()

    def called(self) -> bool:
        """Whether the call is cancelled for any reason. May be asked in a worker thread, and in any task."""
        if self.first is not None or self.local is not None or self.within is not None:
            return True
        if self.timeout != math.inf and self.timeout <= self.now():
            return True
        if not trio.lowlevel.in_trio_run():
            return False  # a scope can be asked only in Trio; while a thread runs, all of them are watched
        return any(scope.cancel_called for scope in self.applied) or (not self.watched() and self.given.cancel_called)

    def since(self) -> float | None:
        """When the call was cancelled, in seconds on Trio's clock; ``None`` if it was not."""
        known = [firing.at for firing in (self.first, self.local, self.within) if firing is not None]
        if self.timeout <= self.now():
            known.append(self.timeout)
        return min(known, default=None)

    def watched(self) -> bool:
        """Whether a cancellation by the caller would be noted by now; not in the step in which the call started."""
        return self.watcher is not None and self.watcher.watching

    def stopped(self) -> bool:
        """Whether nothing more may be started: noted, or in force at this point of the running task."""
        if self.first is not None or self.local is not None:
            return True
        deadline, self.sighted = self.sighted, None
        if deadline is None or self.asked is not None:
            return self.in_force()
        self.limit = deadline
        return deadline != math.inf and deadline <= self.now()

    def in_force(self) -> bool:
        """Whether a cancellation is in force at this point of the running task, noted or not.

        A deadline that has passed counts, though Trio may not have acted on it yet.
        """
        deadline = trio.current_effective_deadline()
        if deadline != -math.inf:
            self.limit = deadline
        if deadline != math.inf and deadline <= trio.current_time():
            return True
        return self.asked is not None and self.asked.cancel_called

    def note(self, firing: Firing) -> None:
        """Record that the whole call is cancelled, and pass it on to everything further in. The first cause stays."""
        if self.first is not None:
            return
        if self.local is None and self.may_have_fired():
            self.local = self.fired_within(firing.at)
        self.first = firing
        for scope in self._piercing:
            scope.cancel(firing.reason)

    def note_caller(self, offered: trio.Cancelled) -> None:
        """What a watcher in the caller's context notes."""
        at = self.now()
        if offered.source == "deadline" and isinstance(self.given, trio.CancelScope):
            at = min(at, self.given.deadline)  # it may have passed while the run loop was busy
        self.note(Firing("caller", offered.reason, at))

    def note_within(self, offered: trio.Cancelled) -> None:
        """What a watcher beside the body notes. If it is the caller, the other watcher says so at the same instant."""
        itself = self.own is not None and self.own.cancel_scope.cancel_called
        self.within = Firing("tool" if itself else "wrapper", offered.reason, self.now())

    def pierce(self, scope: trio.CancelScope) -> trio.CancelScope:
        """From now on pass the call's cancellation on to ``scope``, which is given back."""
        self._piercing = (*self._piercing, scope)
        if self.first is not None:
            scope.cancel(self.first.reason)
        return scope

    def left(self, scope: trio.CancelScope) -> None:
        """``scope``, once given to :meth:`pierce`, has been left."""
        self._piercing = tuple(one for one in self._piercing if one is not scope)

    def is_undisturbed(self) -> bool:
        """Whether nothing is known that could have ended this attempt."""
        return self.first is None and self.local is None and self.within is None and self.timeout == math.inf

    def may_have_fired(self) -> bool:
        """Whether :meth:`fired_within` is worth asking."""
        return min(self.timeout, self.limit) != math.inf or self.within is not None or bool(self.applied)

    def fired_within(self, before: float = math.inf) -> Firing | None:
        """What ended this attempt, strictly before that time, of the scopes further in than the caller's.

        Runs inside whatever cancels: a scope whose deadline may just be passing is not asked, as that would cancel it.
        """
        now, noted = self.now(), self.within
        fired: list[Firing] = []
        if self.timeout <= now:
            fired.append(Firing("deadline", None, self.timeout))
        for scope in self.applied:
            if scope.deadline <= now:
                fired.append(Firing("wrapper", None, scope.deadline))
            elif scope.cancel_called:
                fired.append(noted or Firing("wrapper", None, -math.inf))  # unseen, so it was cancelled before the body
        if self.own is None and self.limit <= now and self.limit not in self._other_deadlines():
            fired.append(
                Firing("wrapper", None, self.limit)
            )  # nobody watches beside this body, but we know its deadline
        if noted is not None:
            fired.append(noted)
        return min((one for one in fired if one.at < before), key=lambda one: one.at, default=None)

    def _other_deadlines(self) -> tuple[float, ...]:
        given = self.given.deadline if isinstance(self.given, trio.CancelScope) else math.inf
        return self.timeout, self.deadline, given

    def end_attempt(self) -> None:
        """Forget what concerned this attempt only."""
        self.local = self.within = self.own = None
        self.timeout = self.limit = math.inf


class LiveScope:
    """The scope of a call as its stages see it: whether the call is cancelled, for whatever reason.

    It may be polled under a shield and in a worker thread. It has nothing to cancel with.
    """

    __slots__ = ("_state",)

    def __init__(self, state: Cancellation) -> None:
        self._state = state

    def encloses(self) -> bool:
        """Whether the running task is one of this call's, so that cancelling the call would reach what it awaits."""
        state = self._state
        task = trio.lowlevel.current_task()
        if state.inside is not None and is_inside(task, *state.inside):
            return True
        return task in state.visitors or (state.own is not None and runs_within(state.own))

    @property
    def cancel_called(self) -> bool:
        """Whether the call was cancelled by its caller, anything around it, a wrapper in force, or an operator."""
        return self._state.called()

    def __repr__(self) -> str:
        return f"<scope of a call{', cancelled' if self._state.called() else ''}>"
