"""A batch on its way: asks the planner, makes the calls, tells the callbacks.

Everything is decided in :meth:`Batch.advance`, synchronously. It runs in the context of the batch's caller, whoever
calls it, so that no call sees what another one has put into context variables. The batch's own task is parked
meanwhile; that is the watcher of all its calls, and where an interrupt of the waiting task arrives.
"""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import attrs
import trio

from ._call import Call
from ._callbacks import Told, graver, told
from ._concurrency import classified
from ._lifecycle import aborted
from ._openings import Openings
from ._order import Order
from ._pipeline import Stages
from ._planner import Planner
from ._request import ToolCall
from ._results import DUPLICATE_CALL, CancelCause, ToolFailure, ToolResult
from ._scope import expired
from ._tool import ToolDefinition
from ._watcher import Watcher

__all__ = ["Batch"]

T = TypeVar("T")


@attrs.frozen(eq=False)
class _Prepared:
    """A call that has started; from when it has a task, its ``Course``."""

    batch: Batch
    index: int
    request: ToolCall
    decided: tuple[ToolDefinition | None, Stages]

    @property
    def watcher(self) -> Watcher:
        return self.batch.watcher

    def passed(self) -> Awaitable[None]:
        return self.batch.passed(self.index)

    def turn(self, *, failed: bool) -> Awaitable[None]:
        return self.batch.turn(self.index, failed=failed)


class Batch:
    """The calls of one message, and where each of them is.

    Attributes:
        results: Of the calls so far; ``None`` while there is none.
        cancelled: Whether the caller has cancelled the batch.
        failure: What is to be raised once everything is committed: an interrupt, an error of a callback.
        watcher: In the caller's context, for all calls.
    """

    def __init__(self, order: Order, told: Told) -> None:
        self.results: list[ToolResult | None] = [None] * len(order.calls)
        self.cancelled: bool = False
        self.failure: BaseException | None = None
        self.watcher: Watcher = Watcher(self._offered, stays=True)
        self._planner = Planner(len(order.calls), order.max_parallel, order.limits)
        self._registry = order.registry
        self._calls = order.calls
        self._scope = order.scope
        self._fail_fast = order.fail_fast
        self._told = told
        self._context = contextvars.copy_context()
        self._first: dict[str, int] = {}  # by id: the call that has it
        self._stopped: CancelCause | None = None  # why no further call starts,
        self._halted: CancelCause | None = None  # and why those that have started are cancelled
        self._unwanted: dict[str, CancelCause] = {}  # by id: calls that were cancelled one by one
        self._queued: dict[int, _Prepared] = {}  # started, with no gates to pass, and not at work
        self._ready: deque[_Prepared] = deque()  # at work; the next task that begins takes the first of them
        self._running: dict[int, Call] = {}
        self._parked: dict[int, trio.Event] = {}  # behind their gates, and not at work
        self._turns: dict[int, trio.Event] = {}  # answered, and to be judged when all before them are committed
        self._finished: deque[int] = deque()  # not told of yet
        self._cut: list[int] = []  # cancelled while they were queued
        self._openings = Openings(order.registry, order.calls)
        self._nursery: trio.Nursery | None = None
        self._advancing = self._again = False

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Make the calls. A checkpoint if there is one; raises nothing, see :attr:`failure`."""
        await self._openings.begin()
        self._look()
        async with trio.open_nursery() as self._nursery:
            self.advance()
            await self.watcher.run()
        for index in range(self._planner.next, len(self._calls)):  # what has not started
            self._skip(index)
            self._commit_ready()
        await self._openings.close(self.results)
        self._look()

    # ---- deciding ----------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Do whatever may be done now. Anybody may call it, also from within itself."""
        self._again = True
        if self._advancing or self._nursery is None:
            return
        self._advancing = True
        try:
            while self._again:
                self._again = False
                self._context.run(self._advance)
        finally:
            self._advancing = False
        if self._planner.drained:
            self.watcher.end()

    def _advance(self) -> None:
        planner, holds_back = self._planner, self._told.holds_back
        while self._finished:
            index = self._finished.popleft()
            self._tell(self._told.finish, index, self._calls[index], self.results[index])
        self._commit_ready()
        while (index := planner.granted()) is not None:
            if (prepared := self._queued.pop(index, None)) is not None:
                self._spawn(prepared)
            elif (granted := self._parked.pop(index, None)) is not None:
                granted.set()
            # else it was cancelled, and is on its way to give back what it has just got
        while planner.may_start() and not (holds_back is not None and holds_back()):
            if not self._start_next():
                break
        while self._cut:
            if (prepared := self._queued.pop(self._cut.pop(), None)) is not None:
                self._spawn(prepared)
        if self._halted is not None and self._queued:
            self._cut_queued()

    def _commit_ready(self) -> None:
        while (index := self._planner.commit()) is not None:
            self._tell(self._told.commit, index, self._calls[index], self.results[index])
        if (turn := self._turns.pop(self._planner.committed, None)) is not None:
            turn.set()

    def _start_next(self) -> bool:
        """Start the next call, or skip it; whether either was possible."""
        index = self._planner.next
        call = self._calls[index]
        if call.id in self._first or call.id in self._unwanted:
            self._skip(index)
            self._commit_ready()
            return True
        decided = (tool, _) = (self._registry.get(call.name), self._registry.stages())
        try:
            plain = tool is None or not callable(tool.concurrency)
            request, mode = classified(call, tool) if plain else self._apart(classified, call, tool)
        except BaseException as interrupt:  # of the tool's own function
            self._interrupted(interrupt)
            return False
        if self._planner.stopped or not self._planner.start(mode, call.name):
            return False
        self._first[call.id] = index
        self._tell(self._told.start, index, call)
        prepared = _Prepared(self, index, request, decided)
        if decided[1].gated or self._planner.passed(index) or call.id in self._unwanted:
            self._spawn(prepared)
        else:
            self._queued[index] = prepared
        return True

    def _skip(self, index: int) -> None:
        """The next call is not executed."""
        if (call_id := self._calls[index].id) in self._first:
            message = f"an earlier call of this message has the id {call_id!r}: give each call an id of its own"
            self.results[index] = ToolFailure.from_message(message, code=DUPLICATE_CALL)
        else:
            self._first[call_id] = index
            cause = self._unwanted.get(call_id) or self._stopped
            self.results[index] = self._openings.unmade(index) or aborted("not-started", cause)
        self._planner.skip()

    def _spawn(self, prepared: _Prepared) -> None:
        self._ready.append(prepared)
        cast(trio.Nursery, self._nursery).start_soon(self._work, name=f"trio_tools: call {prepared.request.id}")

    # ---- one call, in a task of its own ------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def _work(self) -> None:
        # Trio begins tasks in any order; the calls begin in that of the plan, whichever task takes them.
        await self._make(self._ready.popleft())

    async def _make(self, prepared: _Prepared) -> None:
        index, request, decided = prepared.index, prepared.request, prepared.decided
        deadline, opening = trio.current_effective_deadline(), self._openings.take(index)
        call = self._registry.admit(
            request, self._scope, deadline=deadline, decided=decided, course=prepared, opening=opening
        )
        cut = self._halted or self._unwanted.get(request.id)
        if cut is not None:
            call.cancel(cut.source, cut.reason, cut.call_id)
        self._running[index] = call
        try:
            self.results[index] = result = await call.execute()
            if call.interrupt is not None:
                self._interrupted(call.interrupt)
            if result.is_error:
                self._failed(index)
        finally:
            del self._running[index]
            if self.results[index] is None:  # a fault of ours, which leaves the batch when all calls have ended
                self.results[index] = aborted(call.body, CancelCause(source="interrupt"))
            self._registry.answered(call)
            self._planner.finish(index)
            if self._told.finish is not None:
                self._finished.append(index)
            self.advance()

    async def passed(self, index: int) -> None:
        """The gates of a call are passed; wait until it may go to work."""
        if self._planner.passed(index):
            self.advance()
            return
        self._parked[index] = granted = trio.Event()
        self.advance()
        try:
            await granted.wait()
        finally:
            self._parked.pop(index, None)

    async def turn(self, index: int, *, failed: bool) -> None:
        """The work of a call is answered; wait until all before it are committed. No cancellation ends that."""
        self._planner.answered(index)
        if failed:
            self._failed(index)
        if self._planner.committed != index:
            self._turns[index] = turn = trio.Event()
            self.advance()
            with trio.CancelScope(shield=True):
                await turn.wait()
        else:
            self.advance()

    # ---- ending early ------------------------------------------------------------------------------------------------

    def stop(self, reason: str | None) -> None:
        """Start nothing more; what has started goes on to its end."""
        self._stop(CancelCause(source="operator", reason=reason))
        self.advance()

    def cancel(self, call_id: str, reason: str | None) -> bool:
        """Cancel one call; whether there is one that has no result yet."""
        index = self._first.get(call_id)
        known = any(call.id == call_id for call in self._calls) and (index is None or self.results[index] is None)
        if not known or call_id in self._unwanted:
            return known
        self._unwanted[call_id] = CancelCause(source="operator", reason=reason)
        if index in self._running:
            self._running[index].cancel("operator", reason)
        elif index in self._queued:
            self._cut.append(index)
            self.advance()
        return True

    def _stop(self, cause: CancelCause) -> None:
        self._planner.stopped = True
        self._stopped = self._stopped or cause

    def _halt(self, cause: CancelCause, *, but: int | None = None) -> None:
        """Start nothing more, and cancel what has started."""
        self._halt_for(cause)
        for index, call in tuple(self._running.items()):
            if index != but:
                call.cancel(cause.source, cause.reason, cause.call_id)
        self._again = True

    def _halt_for(self, cause: CancelCause) -> None:
        self._stop(cause)
        self._planner.halted = True
        self._halted = self._halted or cause

    def _cut_queued(self) -> None:
        """Calls that have started, and wait without a task: they get their results from the registry, as all do."""
        cut = list(self._queued.values())
        self._queued.clear()

        @trio.lowlevel.enable_ki_protection
        async def make() -> None:
            for prepared in cut:
                await self._make(prepared)

        cast(trio.Nursery, self._nursery).start_soon(make, name="trio_tools: cuts calls that wait")

    def _offered(self, offered: BaseException) -> None:
        """What arrives where the batch's own task waits.

        This runs inside whatever cancels. Trio may be going through the tasks of this nursery, and none may come to
        them meanwhile: what is to be done about it is done in the next step.
        """
        if isinstance(offered, trio.Cancelled):
            self.cancelled = True
            for call in tuple(self._running.values()):
                call.state.note_caller(offered)
            self._halt_for(CancelCause(source="caller", reason=offered.reason))
        else:
            self._interrupted(offered)
        trio.lowlevel.current_trio_token().run_sync_soon(self.advance)

    def _look(self) -> None:
        """See a cancellation of which nothing arrives: the batch's own task runs, it does not wait yet, or no more."""
        if not self.watcher.watching and not self.cancelled and (expired() or self._scope.cancel_called):
            self.cancelled = True
            self._halt_for(CancelCause(source="caller"))

    def _failed(self, index: int) -> None:
        if self._fail_fast and self._halted is None:
            self._halt(CancelCause(source="sibling", call_id=self._calls[index].id), but=index)

    def _apart(self, function: Callable[..., T], *arguments: object) -> T:
        """Call what is not ours; no call sees what it puts into context variables, and it may have cancelled us."""
        answer = self._context.copy().run(function, *arguments)
        self._look()
        return answer

    def _tell(self, callback: Callable[..., None] | None, *arguments: object) -> None:
        error = None if callback is None else self._apart(told, callback, *arguments)
        if error is not None:
            self._interrupted(error)

    def _interrupted(self, error: BaseException) -> None:
        """Something is to be raised when everything is committed."""
        self.failure = graver(self.failure, error)
        self._halt(CancelCause(source="interrupt"))
