"""All calls of one model message."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import attrs
import trio

from ._content import Context
from ._lifecycle import aborted
from ._pipeline import discard
from ._registry import ToolRegistry, deadline_in_reach
from ._request import ToolCall
from ._results import DUPLICATE_CALL, CancelCause, ToolFailure, ToolResult, ToolSuccess
from ._scope import ScopeView, expired

__all__ = ["BatchOutcome", "run_batch"]

_log = logging.getLogger("trio_tools")


@attrs.frozen(kw_only=True)
class BatchOutcome:
    """What became of the calls of one message.

    Attributes:
        results: One for each call, in the order of the calls.
        contexts: Those of all results, in the same order: messages for the next model request.
        concludes_turn: Whether a result asks for the turn to end.
        cancelled: Whether the batch was cancelled.
    """

    results: tuple[ToolResult, ...]
    contexts: tuple[Context, ...]
    concludes_turn: bool
    cancelled: bool


@trio.lowlevel.enable_ki_protection
async def run_batch(
    registry: ToolRegistry,
    calls: Sequence[ToolCall],
    *,
    scope: ScopeView,
    max_parallel: int = 10,
    fail_fast: bool = False,
    on_start: Callable[[int, ToolCall], None] | None = None,
    on_commit: Callable[[int, ToolCall, ToolResult], None] | None = None,
) -> BatchOutcome:
    """Make the calls of one model message, and give back one result for each, in the same order.

    In this version the calls run one after the other, in order, so they never overlap. A checkpoint if a call is one.
    Returns also when the batch is cancelled: calls that had not started get ``ABORTED_BEFORE_DISPATCH``.

    Args:
        registry: Where the tools are.
        calls: The calls. Of two with one id, the later one is not executed.
        scope: As for :meth:`ToolRegistry.execute`.
        max_parallel: How many bodies may run at once.
        fail_fast: A failing call cancels those behind it, with a cause that names it.
        on_start: Told the index and the call just before it starts.
        on_commit: Told the index, the call and the result, in the order of the calls, for each of them.

    Raises:
        ValueError: If ``max_parallel`` is no positive integer.
        TypeError: If something in ``calls`` is no :class:`ToolCall`. Nothing has run.
        RuntimeError: If an entered scope does not reach this ``await``.
        BaseException: ``KeyboardInterrupt`` and the like of a body, and what a callback raised; once all calls have
            their results, and these are committed.
    """
    if isinstance(max_parallel, bool) or not isinstance(max_parallel, int) or max_parallel < 1:  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise ValueError(f"max_parallel must be a positive integer, not {max_parallel!r}")
    calls = tuple(calls)
    for index, call in enumerate(calls):
        if not isinstance(call, ToolCall):  # pyright: ignore[reportUnnecessaryIsInstance] - before anything runs
            raise TypeError(f"run_batch takes ToolCall objects; number {index} is {call!r}")
    run = _Run(registry, fail_fast, on_start, on_commit)
    if isinstance(scope, trio.CancelScope) and scope.is_relative is not None:
        with scope:
            return await run.all(calls, scope)
    return await run.all(calls, scope)


class _Run:
    """One batch on its way."""

    def __init__(
        self,
        registry: ToolRegistry,
        fail_fast: bool,
        on_start: Callable[[int, ToolCall], None] | None,
        on_commit: Callable[[int, ToolCall, ToolResult], None] | None,
    ) -> None:
        self._registry = registry
        self._fail_fast = fail_fast
        self._on_start = on_start
        self._on_commit = on_commit
        self._results: list[ToolResult] = []
        self._seen: set[str] = set()
        self._stopped: CancelCause | None = None  # why no further call may start
        self._cancelled = False
        self._interrupt: BaseException | None = None  # raised when everything is committed

    async def all(self, calls: Sequence[ToolCall], scope: ScopeView) -> BatchOutcome:
        deadline_in_reach(scope)
        for index, call in enumerate(calls):
            result = await self._one(index, call, scope)
            self._results.append(result)
            if self._on_commit is not None:
                self._guarded(self._on_commit, index, call, result)
        if self._interrupt is not None:
            raise self._interrupt
        self._look(scope)
        return BatchOutcome(
            results=tuple(self._results),
            contexts=tuple(context for result in self._results for context in result.contexts),
            concludes_turn=any(isinstance(result, ToolSuccess) and result.concludes_turn for result in self._results),
            cancelled=self._cancelled,
        )

    async def _one(self, index: int, call: ToolCall, scope: ScopeView) -> ToolResult:
        if call.id in self._seen:
            message = f"an earlier call of this message has the id {call.id!r}: give each call an id of its own"
            return ToolFailure.from_message(message, code=DUPLICATE_CALL)
        self._seen.add(call.id)
        self._look(scope)
        if self._stopped is None and self._on_start is not None:
            self._guarded(self._on_start, index, call)
        if self._stopped is not None:
            return aborted("not-started", self._stopped)
        result, interrupt = await self._registry.settle(call, scope=scope)
        if interrupt is not None:
            self._interrupted(interrupt)
        if result.is_error and self._fail_fast and self._stopped is None:
            self._stopped = CancelCause(source="sibling", call_id=call.id)
        return result

    def _look(self, scope: ScopeView) -> None:
        if expired() or scope.cancel_called:
            self._cancelled = True
            self._stopped = self._stopped or CancelCause(source="caller")

    def _guarded(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            answer: object = callback(*arguments)
            if answer is not None:
                discard(answer)
                raise TypeError(f"{callback!r} must be a plain function and return None, not {answer!r}")
        except BaseException as error:  # raised when everything is committed
            self._interrupted(error)

    def _interrupted(self, error: BaseException) -> None:
        # An interrupt goes before an ordinary error, whichever came first; the other one stays visible behind it.
        if self._interrupt is None:
            self._interrupt = error
        elif isinstance(self._interrupt, Exception) and not isinstance(error, Exception):
            error.__context__, self._interrupt = self._interrupt, error
        else:
            _log.error("a further error in a batch, beside %r", self._interrupt, exc_info=error)
        self._stopped = self._stopped or CancelCause(source="interrupt")
