"""The wrappers around the body, and the scopes between them."""

from __future__ import annotations

import math
from collections.abc import Awaitable

import trio

from ._brief import Brief
from ._dispatch import Dispatcher, cause_of
from ._errors import leaves
from ._execution import DispatchView
from ._lifecycle import settle
from ._pipeline import Continuation, discard, interruptible
from ._presentation import admitted
from ._results import CancelCause, ToolFailure, ToolResult, ToolSuccess
from ._watcher import look

__all__ = ["Onion"]


class Onion:
    """The wrappers of one call, the first outermost, with the dispatcher in the middle.

    A shield that a wrapper sets does not keep the caller's cancellation from the body, whose nursery is cancelled
    directly. It does keep it from the waiting of a wrapper further in, as any shield does; no body starts after that.
    """

    __slots__ = ("_edge", "_wrappers", "brief", "dispatcher", "size", "state")

    def __init__(self, brief: Brief, dispatcher: Dispatcher, edge: trio.CancelScope) -> None:
        self.brief = brief
        self.state = brief.state
        self.dispatcher = dispatcher
        self.size = len(brief.stages.around)
        self._wrappers = brief.stages.around
        self._edge = edge  # a scope outside all wrappers

    def layer(self, index: int) -> Awaitable[ToolResult]:
        """What wrapper number ``index`` answers, or the body behind the last one. Errors of wrappers are raised."""
        return self._dispatch() if index == self.size else self._wrapper(index)

    async def _wrapper(self, index: int) -> ToolResult:
        call_next = _CallNext(self, index + 1)
        try:
            try:
                answer = await interruptible(self._wrappers[index], call_next.view, call_next)
            finally:
                call_next.over = True
                if call_next.running:
                    await call_next.drained()
            latest = self.dispatcher.latest
            if latest is None or answer is not latest:  # else it was passed on as it came
                self.dispatcher.latest = answer = self._checked(answer, call_next)
        except BaseException as error:
            self._note_errors(error)
            raise
        return answer

    def _note_errors(self, error: BaseException) -> None:
        errors = [leaf for leaf in leaves(error) if isinstance(leaf, Exception)]
        if errors:
            self.dispatcher.latest = ToolFailure.from_exception(*errors)

    def _checked(self, answer: object, call_next: Continuation[ToolResult]) -> ToolResult:
        if isinstance(answer, ToolFailure):
            return answer
        if isinstance(answer, ToolSuccess):
            return answer if answer.value is self.dispatcher.value else self._admitted(answer)
        if answer is None and call_next.cut:
            return self.abort()  # it fell out of its own cancelled scope, and has not mapped that
        discard(answer)
        raise TypeError(f"a wrapper must return a ToolResult, such as that of call_next, not {answer!r}")

    def _admitted(self, success: ToolSuccess) -> ToolResult:
        """A success that a wrapper made itself."""
        return admitted(success, self.brief.tool.output, self.brief.request.name, body=success.body)

    async def _dispatch(self) -> ToolResult:
        state = self.state
        if not state.watched():  # in the first step of the call, nobody would tell us of a cancellation
            state.sighted = self._deadline_in_sight()
            while state.sighted is None and not state.watched():
                await trio.lowlevel.cancel_shielded_checkpoint()
        result = await self.dispatcher.attempt()
        if self.dispatcher.cut:
            # If the cancelled scope lies outside call_next, Trio raises here; else the abort is the answer.
            await trio.lowlevel.checkpoint_if_cancelled()
        return result

    def _deadline_in_sight(self) -> float | None:
        """The deadline that is in force; ``None`` if a shield of a wrapper hides the caller at this moment."""
        deadline = self.state.deadline
        if deadline != math.inf and deadline == trio.current_effective_deadline():
            return deadline  # it is the caller's own
        return look(self._edge)

    async def in_scope(self, assigned: trio.CancelScope, index: int) -> ToolResult:
        """The layer number ``index`` in a scope that a wrapper assigned."""
        applied = self.state.applied
        with assigned:
            self.state.applied = (*applied, assigned)
            try:
                return await self._pierced(index) if assigned.shield else await self.layer(index)
            finally:
                self.state.applied = applied
        return self.abort()

    async def _pierced(self, index: int) -> ToolResult:
        """Likewise, with the caller's cancellation passed on: the assigned scope is a shield."""
        with trio.CancelScope() as scope:
            self.state.pierce(scope)
            try:
                return await self.layer(index)
            finally:
                self.state.left(scope)
        return self.abort()

    def abort(self) -> ToolResult:
        """The answer where a cancellation has ended what lies further in and nobody has answered."""
        dispatcher, state = self.dispatcher, self.state
        firing = state.local or state.first
        cause = CancelCause(source="wrapper") if firing is None else cause_of(firing)
        return settle("cut", dispatcher.latest, cause=cause, body=dispatcher.body)


class _CallNext(Continuation[ToolResult]):
    """``call_next`` of the wrapper that stands outside of ``index``."""

    def __init__(self, onion: Onion, index: int) -> None:
        self._onion = onion
        self._index = index
        self.home = onion.brief.task
        self.view = DispatchView(onion.brief)

    def inwards(self) -> Awaitable[ToolResult]:
        onion, assigned = self._onion, self.view.take()
        return onion.layer(self._index) if assigned is None else onion.in_scope(assigned, self._index)

    def cut_short(self) -> ToolResult:
        return self._onion.abort()

    def opened(self, scope: trio.CancelScope) -> None:
        self._onion.state.pierce(scope)
        self._onion.state.visitors += (trio.lowlevel.current_task(),)

    def closed(self, scope: trio.CancelScope) -> None:
        self._onion.state.left(scope)
        self._onion.state.visitors = tuple(
            one for one in self._onion.state.visitors if one is not trio.lowlevel.current_task()
        )
