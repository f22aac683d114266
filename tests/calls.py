"""What the tests of one call share: a virtual clock, a registry whose stages take notes, a caller who may cancel.

A failing ``assert`` inside a stage would become a failed tool call. So stages only take notes, and what holds for every
call (P1, P2, P3 and P5 of the design) is checked in one place when the call has ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, TypeVar, cast

import attrs
import trio
import trio.testing

from trio_tools import (
    AfterDecision,
    AfterPolicy,
    ApprovalOutcome,
    ApprovalRequest,
    AroundWrapper,
    BeforeDecision,
    BeforePolicy,
    Content,
    FrozenJson,
    Guard,
    ResultObserver,
    ToolCall,
    ToolDefinition,
    ToolDispatch,
    ToolExecution,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    ToolRun,
    ToolSuccess,
)

T = TypeVar("T")

By = Literal["entered", "unentered", "around", "deadline", "deadline around", "operator"]
"""Who cancels: the caller's own scope (entered, or left for the call to enter), a scope around it, the deadline of one
of these, or an operator."""

BYS: tuple[By, ...] = ("entered", "unentered", "around", "deadline", "deadline around", "operator")
DEADLINES: tuple[By, ...] = ("deadline", "deadline around")
BOUND = 1_000_000.0  # virtual seconds; a call that waits forever fails the test instead

NextBefore = Callable[[], Awaitable[BeforeDecision]]
NextAround = Callable[[], Awaitable[ToolResult]]
NextAfter = Callable[[], Awaitable[AfterDecision]]
Body = Callable[[FrozenJson, ToolRun], Awaitable[object]]
Finalize = Callable[[ToolExecution, ToolResult], Iterable[Content] | None]


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run ``main`` on a clock that jumps ahead when everybody waits."""

    async def bounded() -> T:
        with trio.fail_after(BOUND):
            return await main()

    return trio.run(bounded, clock=trio.testing.MockClock(autojump_threshold=0))


def whose(by: By) -> str:
    """The ``cause.source`` that a cancellation of this kind has."""
    return "operator" if by == "operator" else "caller"


@attrs.define(eq=False)
class Ended:
    """How one call ended, as its caller and its observers saw it."""

    passed: list[str] = attrs.field(factory=list[str])  # stages, in the order in which they were reached
    published: list[ToolResult] = attrs.field(factory=list[ToolResult])
    returned: ToolResult | None = None
    raised: BaseException | None = None
    at: float = -1.0  # seconds after the call was made
    caller_cancelled: bool = False  # the caller's next checkpoint raised Cancelled
    bodies: int = 0

    @property
    def result(self) -> ToolResult:
        (result,) = self.published
        return result

    @property
    def failure(self) -> ToolFailure:
        assert isinstance(self.result, ToolFailure), self.result
        return self.result

    @property
    def success(self) -> ToolSuccess:
        assert isinstance(self.result, ToolSuccess), self.result
        return self.result

    @property
    def code(self) -> str | None:
        return self.result.error.code if isinstance(self.result, ToolFailure) else None

    @property
    def replaced(self) -> ToolResult:
        superseded = self.failure.superseded
        assert superseded is not None
        return superseded


async def _allow(execution: ToolExecution, call_next: NextBefore) -> BeforeDecision:
    return await call_next()


async def _through(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
    return await call_next()


async def _accept(execution: ToolExecution, result: ToolResult, call_next: NextAfter) -> AfterDecision:
    return await call_next()


async def _done(arguments: FrozenJson, run: ToolRun) -> object:
    return "done"


def _abstain(execution: ToolExecution) -> None:
    return None


def _keep(execution: ToolExecution, result: ToolResult) -> None:
    return None


@attrs.define(eq=False, kw_only=True)
class Line:
    """A registry with one stage of each kind, or with those only that are given if ``bare``; then :meth:`call` it."""

    before: BeforePolicy | None = None
    approver: Callable[[ApprovalRequest], Awaitable[ApprovalOutcome]] | None = None
    guard: Guard | None = None
    around: AroundWrapper | Sequence[AroundWrapper] | None = None
    body: Body = _done
    after: AfterPolicy | Sequence[AfterPolicy] | None = None
    finalize: Finalize | None = None
    observer: ResultObserver = _keep  # called before the one that takes notes
    timeout: float | None = None
    definition: ToolDefinition | None = None  # instead of the one that is made of the body
    bare: bool = False
    registry: ToolRegistry = attrs.field(init=False)
    ended: Ended = attrs.field(init=False, factory=Ended)
    cancel: Callable[[], None] = attrs.field(init=False)  # while the call is made: does it at once, from any stage

    def __attrs_post_init__(self) -> None:
        passed, line = self.ended.passed, self

        async def body(arguments: FrozenJson, run: ToolRun) -> object:
            passed.append("body")
            line.ended.bodies += 1
            return await line.body(arguments, run)

        def finalize(execution: ToolExecution, result: ToolResult) -> Iterable[Content] | None:
            passed.append("finalize")
            return (line.finalize or _keep)(execution, result)

        class Person:
            async def request(self, ask: ApprovalRequest, /) -> ApprovalOutcome:
                passed.append("approval")
                assert line.approver is not None
                return await line.approver(ask)

        definition = self.definition or ToolDefinition(
            name="t", parameters={"type": "object"}, execute=body, timeout=self.timeout, finalize_content=finalize
        )
        self.registry = ToolRegistry([definition], approver=Person() if self.approver else None)
        self._add_stages()

    def _add_stages(self) -> None:
        passed, line = self.ended.passed, self

        async def before(execution: ToolExecution, call_next: NextBefore) -> BeforeDecision:
            passed.append("before")
            return await (line.before or _allow)(execution, call_next)

        def guard(execution: ToolExecution) -> str | None:
            passed.append("guard")
            return (line.guard or _abstain)(execution)

        def noting_around(wrapper: AroundWrapper) -> AroundWrapper:
            async def around(dispatch: ToolDispatch, call_next: NextAround) -> ToolResult:
                passed.append("around")
                return await wrapper(dispatch, call_next)

            return around

        def noting_after(policy: AfterPolicy) -> AfterPolicy:
            async def after(execution: ToolExecution, result: ToolResult, call_next: NextAfter) -> AfterDecision:
                passed.append("after")
                return await policy(execution, result, call_next)

            return after

        def observer(execution: ToolExecution, result: ToolResult) -> None:
            if execution.parent is None:
                passed.append("observer")
                line.ended.published.append(result)

        registry = self.registry
        if self.before is not None or not self.bare:
            registry.before(before)
        if self.guard is not None or not self.bare:
            registry.guard(guard)
        for wrapper in _each(self.around, () if self.bare else (_through,)):
            registry.around(noting_around(wrapper))
        for policy in _each(self.after, () if self.bare else (_accept,)):
            registry.after(noting_after(policy))
        registry.observe(self.observer)
        registry.observe(observer)

    def call(
        self,
        request: ToolCall | None = None,
        *,
        cancel_at: float | None = None,
        by: By = "entered",
        reason: str | None = None,
        beside: Callable[[], Awaitable[None]] | None = None,
    ) -> Ended:
        """Make the one call, in a program of its own.

        Args:
            request: By default a call ``"c1"`` to ``"t"`` without arguments.
            cancel_at: When to cancel it, in virtual seconds; 0: before it is made.
            by: Who cancels.
            reason: That is given to Trio.
            beside: Runs beside the call.
        """

        async def main() -> None:
            await self.execute(request, cancel_at=cancel_at, by=by, reason=reason, beside=beside)

        run(main)
        return self.ended

    async def execute(
        self,
        request: ToolCall | None = None,
        *,
        cancel_at: float | None = None,
        by: By = "entered",
        reason: str | None = None,
        beside: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Like :meth:`call`, inside a program that runs already."""
        ended, scope, outer = self.ended, trio.CancelScope(), trio.CancelScope()
        target = outer if "around" in by else scope

        def cancel() -> None:
            if by == "operator":
                self.registry.cancel_call("c1", reason)
            elif by in DEADLINES:
                target.deadline = trio.current_time()
            else:
                target.cancel(reason)

        self.cancel = cancel

        async def others() -> None:
            if cancel_at and by not in DEADLINES:
                await trio.sleep(cancel_at)
                cancel()
            await trio.sleep_forever()

        async def neighbour() -> None:
            if beside is not None:
                await beside()
            await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            nursery.start_soon(neighbour)
            if cancel_at is not None and by in DEADLINES:
                target.deadline = trio.current_time() + cancel_at
            if cancel_at == 0:
                cancel()
            with outer:
                if by == "unentered":
                    await self._made(request, scope)
                else:
                    with scope:
                        await self._made(request, scope)
            arrives = outer.cancel_called or (by != "unentered" and scope.cancel_called)
            nursery.cancel_scope.cancel()
        assert ended.caller_cancelled == arrives  # P5
        self._check()

    async def _made(self, request: ToolCall | None, scope: trio.CancelScope) -> None:
        ended, started = self.ended, trio.current_time()
        tasks = trio.lowlevel.current_statistics().tasks_living
        try:
            ended.returned = await self.registry.execute(request or ToolCall(id="c1", name="t"), scope=scope)
        except BaseException as error:
            ended.raised = error
            if isinstance(error, trio.Cancelled):
                raise
        ended.passed.append("returned")
        ended.at = trio.current_time() - started
        assert trio.lowlevel.current_statistics().tasks_living == tasks  # P3
        assert not self.registry.outstanding()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled:
            ended.caller_cancelled = True
            raise

    def _check(self) -> None:
        """What holds for every call, and leave only the stages in ``passed``."""
        ended = self.ended
        assert not isinstance(ended.raised, trio.Cancelled)
        assert len(ended.published) == 1  # P1
        assert ended.passed[-2:] == ["observer", "returned"]  # before it returns or raises
        del ended.passed[-2:]
        result = ended.result
        assert (ended.returned is None) == (ended.raised is not None)
        assert ended.returned is None or ended.returned == result
        if self.definition is None:
            assert (result.body == "not-started") == (ended.bodies == 0)  # P2
        if ended.code == "ABORTED":
            assert result.body != "not-started"
        if ended.code == "ABORTED_BEFORE_DISPATCH":
            assert result.body == "not-started"


def _each(given: T | Sequence[T] | None, default: Sequence[T]) -> Sequence[T]:
    if given is None:
        return default
    return cast("Sequence[T]", given) if isinstance(given, tuple | list) else (cast("T", given),)
