"""One attempt of a body: enter the scopes, look, mark, call; then say what came of it."""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Awaitable, Callable
from typing import cast

import attrs
import trio

from ._brief import Brief
from ._errors import leaves
from ._execution import RunView
from ._lifecycle import aborted, settle, timed_out
from ._pipeline import lifted, never_started
from ._presentation import produce
from ._results import BodyState, CancelCause, ToolFailure, ToolResult, ToolSuccess
from ._scope import Cancellation, Firing
from ._tool import FunctionBody
from ._unwinding import Unwound, as_one, unwind
from ._views import Progress

__all__ = ["Dispatcher", "cause_of"]

_NO_VALUE = object()
_UNWOUND_NOTHING = Unwound()


def cause_of(firing: Firing) -> CancelCause:
    """What a result tells of a cancellation."""
    return CancelCause(source=firing.source, reason=firing.reason, call_id=firing.call_id)


@attrs.define(eq=False)
class Dispatcher:
    """Runs the body of one call, as often as the wrappers ask for it.

    Attributes:
        body: How far the body is, or was in the last attempt that started.
        latest: The outcome that stands if nothing later replaces it: that of the last attempt, or what a wrapper
            further in has answered or raised since.
        value: The value of the last success of a body, as the output contract has admitted it.
        thread: The identity of the worker thread that runs the body, while one does; see :func:`threading.get_ident`.
        wants_thread: Whether the attempt waits for a worker thread, as the limiter is full.
    """

    _brief: Brief
    _state: Cancellation
    _call_tool: Callable[[str, object, str], Awaitable[ToolResult]]
    _progress: Callable[[Progress], None]
    holds_thread: bool  # this call, or one around it, holds a token of the thread limiter
    body: BodyState = "not-started"
    cut: bool = False  # the last attempt ended by a cancellation, as a generic abort
    latest: ToolResult | None = None
    task: trio.lowlevel.Task | None = None  # that runs the body, and
    run: RunView | None = None  # what the body was given, while an attempt is being made
    value: object = _NO_VALUE
    thread: int | None = None
    wants_thread: bool = False
    _timeout: trio.CancelScope | None = None  # of the attempt that is being made

    def attempt(self) -> Awaitable[ToolResult]:
        """Run the body once. Always a checkpoint.

        Returns the outcome, also the abort: the caller of the wrapper's ``call_next`` decides whether the cancelled
        scope lies outside, and lets Trio raise there. Raises only interrupts.
        """
        timeout = self._brief.tool.timeout
        return self._attempt() if timeout is None else self._timed_attempt(timeout)

    async def _timed_attempt(self, timeout: float) -> ToolResult:
        self._state.timeout = deadline = self._state.now() + timeout
        with trio.CancelScope(deadline=deadline) as self._timeout:
            return await self._attempt()
        raise AssertionError("unreachable: an attempt raises no Cancelled")  # pragma: no cover - for the type checker

    async def _attempt(self) -> ToolResult:
        state, before = self._state, self.body
        unwound, value, run, pierced = _UNWOUND_NOTHING, _NO_VALUE, None, None
        wrapped = bool(self._brief.stages.around)  # if not, nothing between the caller and the body can hide the caller
        self.body = "not-started"
        self.task = trio.lowlevel.current_task()
        try:
            if self._brief.tool.takes_run or state.applied:
                async with trio.open_nursery() as nursery:
                    state.own = nursery
                    if wrapped:
                        pierced = state.pierce(nursery.cancel_scope)
                    self.run = run = RunView(self._brief, nursery, self._call_tool, self._progress)
                    if wrapped:
                        run.watch()
                    try:
                        value = await self._run_body(run)
                    finally:
                        run.unwatch()
            elif wrapped:
                with trio.CancelScope() as scope:
                    pierced = state.pierce(scope)
                    value = await self._run_body(None)
            else:
                value = await self._run_body(None)
        except BaseException as error:  # taken apart below; what is no error leaves as itself
            unwound = unwind(error, below=inspect.currentframe())
        if pierced is None and run is None and value is not _NO_VALUE and state.is_undisturbed():
            self.task = None
            return self._success(None, value)  # as most attempts end
        if unwound.cancelled and run is None and state.first is None:
            await (
                trio.lowlevel.cancel_shielded_checkpoint()
            )  # at the same instant the caller wins, whichever task ran first
        if pierced is not None:
            state.left(pierced)
        if run is not None:
            run.close()
        self.task = self.run = None
        started = self.body != "not-started"
        if not started:
            self.body = before
        try:
            return self._outcome(run, value, unwound, started)
        finally:
            state.end_attempt()
            del unwound  # its tracebacks hold this frame

    async def _run_body(self, run: RunView | None) -> object:
        """Look, mark, call; then mark how it ended. Nothing is awaited between the look and the body's first step."""
        if self._brief.entry is not None:
            await self._brief.entry.dispatched(self._brief.tool)
            self._state.sighted = None  # that was before
        if self._state.stopped():
            return _NO_VALUE
        body: Awaitable[object] | None = None
        try:
            body = self._called(run)
            value = await lifted(body)
        except BaseException as error:
            if body is not None and never_started(body):
                # An interrupt was quicker than the body's first step; tests/test_interrupt_sweep.py comes here.
                self.body = "not-started"  # pragma: no cover - a trace function cannot be measured with another one
            self._raised(error)
            raise
        self._returned(run)
        return value

    def _called(self, run: RunView | None) -> Awaitable[object]:
        """The body, called and marked as entered."""
        execute, bound = self._brief.tool.execute, self._brief.bound
        if isinstance(execute, FunctionBody):
            if execute.in_thread:
                return self._enter_thread(execute, run)
            self.body = "interrupted"  # until it has ended by itself
            return execute.start_async(cast("dict[str, object]", bound), run)
        self.body = "interrupted"
        return execute(self._brief.arguments, cast(RunView, run))

    @trio.lowlevel.enable_ki_protection
    async def _enter_thread(self, body: FunctionBody, run: RunView | None) -> object:
        """Run the body in a worker thread. Cancelled while it waits for one, it never starts."""
        bound = cast("dict[str, object]", self._brief.bound)

        def work() -> object:
            trio.from_thread.check_cancelled()
            if self._state.called():  # also where a shield keeps it from us, or Trio was not as quick
                return _NO_VALUE  # pragma: no cover - which of the two looks sees it is a race
            self.body = "interrupted"  # until it has ended by itself
            self.thread = threading.get_ident()
            try:
                return body.start(bound, run)
            finally:
                self.thread = None

        @trio.lowlevel.enable_ki_protection
        async def in_thread() -> object:
            if self._state.stopped():
                return _NO_VALUE
            # The token is held already. Starting a thread takes a step of the scheduler, so the thread looks again.
            return await trio.to_thread.run_sync(work, limiter=trio.CapacityLimiter(math.inf))

        if self.holds_thread:  # waiting for a token that a call around this one holds might never end
            return await in_thread()
        limiter = self._brief.stages.thread_limiter or trio.to_thread.current_default_thread_limiter()
        self.wants_thread = True
        try:
            await limiter.acquire_on_behalf_of(self)
        finally:
            self.wants_thread = False
        self.holds_thread = True
        try:
            return await in_thread()
        finally:
            self.holds_thread = False
            limiter.release_on_behalf_of(self)

    def _returned(self, run: RunView | None) -> None:
        within = self._state.within
        if within is not None and within.source == "tool":
            self._state.within = None  # a body that has a value may have cancelled its nursery
        if self.body == "not-started":
            return
        self.body = "finished"
        # Work that the body owns counts against the timeout too.
        if run is None or not run.owned_tasks():
            self._disarm()

    def _raised(self, error: BaseException) -> None:
        if self.body == "not-started" or type(error) is trio.Cancelled:
            return
        if not all(isinstance(leaf, Exception) for leaf in leaves(error)):
            return
        self.body = "finished"
        self._disarm()

    def _disarm(self) -> None:
        """The body ended: if it was in time, what is left to do must not turn its outcome into a timeout."""
        if self._timeout is not None and self._state.now() < self._state.timeout:
            self._state.timeout = math.inf
            if self.run is not None or self._brief.stages.around:  # else nobody waits, or looks, in that scope any more
                self._timeout.deadline = math.inf

    def _outcome(self, run: RunView | None, value: object, unwound: Unwound, started: bool) -> ToolResult:
        candidate = self._candidate(run, value, unwound)
        firing = self._firing(candidate, unwound)
        if firing is None and isinstance(candidate, ToolSuccess) and not unwound.interrupts:
            return candidate
        contexts = () if run is None else tuple(run.contexts)
        partial = tuple(run.partial) if run is not None and self.body == "interrupted" else ()
        if unwound.interrupts:
            cause = CancelCause(source="interrupt")
            abort = aborted(self.body, cause, replaced=candidate, contexts=contexts, partial=partial)
            self.latest = candidate if isinstance(candidate, ToolFailure) else abort
            raise as_one(unwound.interrupts)
        cause = None if firing is None else cause_of(firing)
        if firing is not None and firing.source == "deadline":
            seconds = cast(float, self._brief.tool.timeout)
            result = timed_out(
                seconds, self.body, cause_of(firing), replaced=candidate, contexts=contexts, partial=partial
            )
        elif isinstance(candidate, ToolFailure):
            result = attrs.evolve(candidate, cause=cause, partial=partial) if unwound.cancelled else candidate
        elif started or self.latest is None:
            cause = cause or CancelCause(source="tool")  # a Cancelled of no scope in force: the body kept it
            result = aborted(self.body, cause, replaced=candidate, contexts=contexts, partial=partial)
        else:  # a further attempt that never started: the one before counts
            result = settle("cut", self.latest, cause=cause, body=self.body)
        self.cut = candidate is None and (unwound.cancelled or not started)
        self.latest = result
        return result

    def _candidate(self, run: RunView | None, value: object, unwound: Unwound) -> ToolResult | None:
        """What the body itself brought about; ``None`` if a cancellation kept it from bringing about anything."""
        contexts = () if run is None else tuple(run.contexts)
        if unwound.errors:
            return attrs.evolve(ToolFailure.from_exception(*unwound.errors, contexts=contexts), body=self.body)
        return None if value is _NO_VALUE else self._success(run, value)

    def _success(self, run: RunView | None, value: object) -> ToolResult:
        """What a value stands for: a success, if the output contract admits it."""
        result = produce(
            self._brief.tool.output,
            self._brief,
            value,
            contexts=() if run is None else tuple(run.contexts),
            concludes_turn=run is not None and run.concluded,
            body=self.body,
        )
        self.cut, self.latest = False, result
        self.value = result.value if isinstance(result, ToolSuccess) else _NO_VALUE
        return result

    def _firing(self, candidate: ToolResult | None, unwound: Unwound) -> Firing | None:
        """The cancellation that came first, if there was any by now."""
        state = self._state
        known = state.local or state.first or (state.fired_within() if state.may_have_fired() else None)
        if known is not None:
            return known
        if candidate is not None and (not self._brief.stages.around or not state.watched()):
            return None  # the end of the call looks again; or not a step has passed since the body began
        if not state.in_force():
            return None
        if not self._brief.stages.around or state.given.cancel_called:
            return Firing("caller", unwound.reason, state.now())
        return Firing("wrapper", unwound.reason, state.now())
