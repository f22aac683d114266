"""One call from start to end: the place where scope, lifecycle and pipeline meet.

Read :meth:`Call.execute` first; the other methods are in the order in which it uses them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Protocol, cast

import attrs
import trio

from ._after import Judgement
from ._around import Onion
from ._brief import Brief
from ._dispatch import Dispatcher, cause_of
from ._execution import ExecutionView, Facts
from ._finish import finalized, published
from ._gates import Gates, Settled
from ._lifecycle import TABLE, Event, Phase, settle
from ._materialize import materialize
from ._pipeline import Stages, discard
from ._recording import Opening
from ._refusals import unknown_tool
from ._request import ToolCall
from ._results import BodyState, CancelCause, ToolFailure, ToolResult
from ._scope import Cancellation, CancelSource, Firing
from ._tool import ToolDefinition
from ._unwinding import Unwound, as_one, unwind
from ._views import Progress
from ._watcher import Watcher, listen

__all__ = ["Call", "Course"]

_log = logging.getLogger("trio_tools")


class Course(Protocol):
    """Who leads the call of a batch: when it may go to work, and when it is its turn to be judged."""

    @property
    def watcher(self) -> Watcher:
        """That of the whole batch."""
        ...

    def passed(self) -> Awaitable[None]:
        """The gates are passed: wait until the call may go to work. A checkpoint unless it may at once."""
        ...

    def turn(self, *, failed: bool) -> Awaitable[None]:
        """The work is answered: wait for the after policies' turn. No cancellation ends it."""
        ...


class Home(Protocol):
    """What a call needs of the registry it was made through."""

    def suggestions(self, name: str) -> list[str]:
        """Visible names that ``name`` may have meant."""
        ...

    async def execute_nested(self, request: ToolCall, *, within: Call) -> ToolResult:
        """Make a call from the body of another one."""
        ...


@attrs.define(eq=False)
class Call:
    """One call.

    Attributes:
        phase: Where it is.
        started_at: When it started, ``trio.current_time()``.
        state: Whether and why it is cancelled.
        task: The task that made it, and runs all stages.
        interrupt: What is to be raised once the result is published: ``KeyboardInterrupt`` and the like.
        dispatcher: What runs its body; ``None`` until that is known to be needed.
    """

    _request: ToolCall
    _tool: ToolDefinition | None
    _stages: Stages
    _home: Home
    state: Cancellation
    _within: Call | None
    _course: Course | None
    _opening: Opening | None
    phase: Phase = "materialize"
    dispatcher: Dispatcher | None = None
    interrupt: BaseException | None = None
    _edge: trio.CancelScope | None = None  # around all stages, inside the caller's
    _event: Event = "unusable"  # what settled the call,
    _result: ToolResult | None = None  # and the candidate for its result
    _looked: bool = False  # for a cancellation, with nothing awaited since
    _left: ToolResult | None = None  # by a run of before, until this one comes to the work
    task: trio.lowlevel.Task = attrs.field(init=False)
    started_at: float = attrs.field(init=False)
    _facts: Facts = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        request, tool, state = self._request, self._tool, self.state
        self.task, self.started_at = trio.lowlevel.current_task(), state.now()
        self._facts = facts = (
            Facts(request, state)
            if tool is None
            else Brief(request, state, tool=tool, stages=self._stages, task=self.task)
        )
        if self._opening is not None:
            facts.entry, self._left = self._opening.entry, self._opening.left

    @trio.lowlevel.enable_ki_protection
    async def execute(self) -> ToolResult:
        """Pass the stages, publish the one result, and return it. Then look at :attr:`interrupt`."""
        brief, opening = self._facts, self._opening
        if opening is not None and opening.given is not None and opening.given_by != "work":
            return self._give_back(opening)
        if not isinstance(brief, Brief):
            name = self._request.name
            self._settled(Settled("unusable", unknown_tool(name, self._home.suggestions(name))))
        elif (unusable := materialize(brief)) is not None:
            self._settled(Settled("unusable", unusable))
        elif self._cancelled_on_entry():
            self._settled(Settled("cancelled-on-entry"))
        else:
            await self._pass_stages(brief)
        result = self._finish()
        if brief.entry is not None:
            await (brief.entry.closed(result) if self._left is None else brief.entry.withdrawn())
        return result

    def close(self) -> None:
        """The call is over. Let go of what refers back to it, so that nothing waits for the garbage collector."""
        self._facts.release()
        self.state.watcher = self.dispatcher = self.interrupt = None

    def cancel(self, source: CancelSource, reason: str | None = None, call_id: str | None = None) -> None:
        """Cancel this call and nothing else, in whatever stage it is; one that has not begun is cancelled on entry."""
        self.state.note(Firing(source, reason, self.state.now(), call_id))
        if self._edge is not None:
            self._edge.cancel(reason)

    async def _pass_stages(self, brief: Brief) -> None:
        """Pass them within an edge, and where a watcher sees the caller's cancellation: in a batch, the batch's own."""
        stages, state, course = brief.stages, self.state, self._course
        if not stages.gated and not stages.around:
            state.sighted = state.deadline  # nobody has done anything since
        state.inside = self.task, len(self.task.child_nurseries)
        unwound = Unwound(cancelled=True)  # an operator cancels the edge itself, which then catches it
        try:
            if course is not None:
                state.watcher = course.watcher
                with trio.CancelScope() as self._edge:
                    await self._pass_each(brief, self._edge)
                    unwound = None
            else:
                state.watcher = watcher = Watcher(state.note_caller)
                async with trio.open_nursery() as nursery:
                    self._edge = nursery.cancel_scope
                    nursery.start_soon(watcher.run, name="trio_tools: watches the caller of a call")
                    try:
                        await self._pass_each(brief, nursery.cancel_scope)
                        unwound = None
                    finally:
                        watcher.end()
            if state.first is None:
                self._looked = not state.in_force()
                if not self._looked:  # it came when the watcher had left; why?
                    await listen(state.note_caller, lambda: state.first is not None)
        except BaseException as error:  # taken apart here; an interrupt is raised when the result is published
            unwound = unwind(error)
        state.inside = None
        if unwound is not None:
            self._unwound(unwound)
            unwound = None  # its tracebacks hold this frame
            self._looked = False
            if stages.after:
                await self._judge(brief)

    def _give_back(self, opening: Opening) -> ToolResult:
        """The result of before, which was told then; or the refusal, which is told now."""
        given = cast(ToolResult, opening.given)
        if opening.given_by == "replay":
            return given
        self._settled(Settled("unusable", given))
        return self._finish()

    async def _pass_each(self, brief: Brief, edge: trio.CancelScope) -> None:
        given = None if self._opening is None else self._opening.given
        refused = await self._gated(brief) if given is None and brief.stages.gated else None
        if refused is None:
            left, self._left = self._left, None
            self._result = result = given or await self._dispatched(brief, edge, left)
            self._event = "failed" if result.is_error else "succeeded"
        else:
            self._settled(refused)
        if brief.stages.after:
            await self._judge(brief)

    async def _gated(self, brief: Brief) -> Settled | None:
        """The gates, and in a batch the way from there to the work; ``None`` if the call may go to work."""
        refused = await Gates(brief, self._enter).pass_all()
        if refused is not None or self._course is None:
            return refused
        self.phase = "queued"
        await self._course.passed()
        return Settled("gate-cut") if self.state.stopped() else None

    def _dispatched(self, brief: Brief, edge: trio.CancelScope, left: ToolResult | None) -> Awaitable[ToolResult]:
        """The wrappers and the body; what a run of before has left is as of an attempt of before."""
        self.phase = "around"
        holds_thread = self._within is not None and self._within.holds_thread
        self.dispatcher = dispatcher = Dispatcher(brief, self.state, self._call_tool, self._report, holds_thread)
        if left is not None:
            dispatcher.body, dispatcher.latest = left.body, left
        return Onion(brief, dispatcher, edge).layer(0) if brief.stages.around else dispatcher.attempt()

    def _enter(self, phase: Phase) -> None:
        self.phase = phase

    def _settled(self, settled: Settled) -> None:
        self._event, self._result = settled

    def _unwound(self, unwound: Unwound) -> None:
        """An exception left the stages: what it settles the call with."""
        given = None if self._opening is None else self._opening.given
        latest = given if self.dispatcher is None else self.dispatcher.latest
        at_gates = self.dispatcher is None and given is None
        if unwound.interrupts:
            self._interrupted(as_one(unwound.interrupts))
            self._settled(Settled("interrupted", self._result or latest))
        elif unwound.errors:
            raised = "gate-raised" if at_gates else "wrapper-raised"
            self._settled(Settled(raised, ToolFailure.from_exception(*unwound.errors)))
        else:
            self._settled(Settled("gate-cut" if at_gates else "cut", latest))

    async def _judge(self, brief: Brief) -> None:
        """Have the after policies decide, if what settled the call passes them."""
        if not TABLE[self._event].passes_after:
            return
        self.phase = "after"
        result = settle(self._event, self._result, cause=self._cause(), body=self.body)
        if brief.entry is not None and self.dispatcher is not None:
            await brief.entry.ended(result)
        if self._course is not None:
            await self._course.turn(failed=result.is_error)
        if self._course is not None or brief.entry is not None:
            result = settle(self._event, self._result, cause=self._cause(), body=self.body)
        self._settled(Settled("decided", result))
        try:
            self._result = await Judgement(brief, result).decided()
        except BaseException as error:  # an interrupt: it is raised when the result is published
            self._interrupted(error)
            self._event = "interrupted"

    def _interrupted(self, interrupt: BaseException) -> None:
        self.interrupt = self.interrupt or interrupt
        self.state.note(Firing("interrupt", None, self.state.now()))

    def _cancelled_on_entry(self) -> bool:
        state, asked = self.state, self.state.asked
        if self.state.deadline <= self.started_at or (asked is not None and asked.cancel_called):
            state.note(Firing("caller", None, self.started_at))
        return state.first is not None

    def _note_caller(self) -> Firing | None:
        """Who cancelled the call, if anybody has; the caller's cancellation is noted if nobody else has noted it."""
        state = self.state
        if state.first is None and state.in_force():
            state.note(Firing("caller", None, state.now()))
        return state.first

    def _cause(self) -> CancelCause | None:
        first = self._note_caller()
        return None if first is None else cause_of(first)

    def _finish(self) -> ToolResult:
        """The result, finalized and published. Nothing is awaited from the last decision to the observers."""
        self.phase = "finish"
        first = self.state.first if self._looked else self._note_caller()
        cause = None if first is None or self._event == "failed" else cause_of(first)  # FAILED: stays in any case
        result = self._left or settle(self._event, self._result, cause=cause, body=self.body)
        if self._tool is not None and self._tool.finalize_content is not None:
            result, interrupt = finalized(self._tool.finalize_content, self.execution, result)
            if interrupt is not None:
                self._interrupted(interrupt)
                result = settle("interrupted", result, cause=self._cause(), body=result.body)
        if self._stages.observers:
            for interrupt in published(self._stages.observers, self.execution, result):
                self._interrupted(interrupt)
        return result

    # ---- what the body asks for --------------------------------------------------------------------------------------

    @property
    def execution(self) -> ExecutionView:
        """The read-only view of the call."""
        return self._facts.execution

    @property
    def stage(self) -> str:
        """Where the call is, in a word."""
        dispatcher = self.dispatcher
        if dispatcher is None or dispatcher.task is None:
            return self.phase
        return "thread" if dispatcher.wants_thread else "body"

    @property
    def body(self) -> BodyState:
        """How far the body is, or was."""
        if self.dispatcher is not None:
            return self.dispatcher.body
        known = None if self._opening is None else self._opening.unmade
        return "not-started" if known is None else known.body

    @property
    def holds_thread(self) -> bool:
        """Whether this call, or one around it, holds a token of the thread limiter."""
        return self.dispatcher is not None and self.dispatcher.holds_thread

    async def _call_tool(self, name: str, arguments: object, id: str) -> ToolResult:
        facts = self._facts
        call = ToolCall(
            id=id,
            name=name,
            arguments=arguments,
            root_id=facts.root_call_id,
            parent=facts.token,
            agent=facts.request.agent,
        )
        return await self._home.execute_nested(call, within=self)

    def _report(self, progress: Progress) -> None:
        for observer in self._stages.progress:
            try:
                discard(observer(self.execution, progress))
            except Exception:
                _log.exception("progress observer %r failed for call %r", observer, self._request.id)
