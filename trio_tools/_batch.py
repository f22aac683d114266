"""All calls of one model message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import attrs
import trio

from ._callbacks import Told
from ._content import Context
from ._control import BatchControl
from ._order import Order
from ._reach import is_unentered
from ._registry import ToolRegistry
from ._request import ToolCall
from ._results import ToolResult, ToolSuccess
from ._scheduler import Batch
from ._scope import ScopeView

__all__ = ["BatchOutcome", "drive", "prepared", "run_batch"]


@attrs.frozen(kw_only=True)
class BatchOutcome:
    """What became of the calls of one message.

    Attributes:
        results: One for each call, in the order of the calls.
        contexts: Those of all results, in the same order: messages for the next model request.
        concludes_turn: Whether a result asks for the turn to end.
        cancelled: Whether the caller has cancelled the batch.
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
    limits: Mapping[str, int] | None = None,
    fail_fast: bool = False,
    control: BatchControl | None = None,
    on_start: Callable[[int, ToolCall], None] | None = None,
    on_commit: Callable[[int, ToolCall, ToolResult], None] | None = None,
) -> BatchOutcome:
    """Make the calls of one model message, and give back one result for each, in the same order.

    Policies and approvals run in call order, one at a time; bodies overlap as far as the ``concurrency`` of their tools
    allows; after policies and commits are in call order again. Each call has a task of its own, which starts with the
    context variables of the caller. Nested calls of a body do not count.

    A checkpoint if a call is one. Returns also when the batch is cancelled: calls that had not started get
    ``ABORTED_BEFORE_DISPATCH`` and pass no stage; the caller's next checkpoint raises ``Cancelled`` as ever. When this
    returns or raises, nothing of any call is running any more.

    Args:
        registry: Where the tools are.
        calls: The calls. Of two with one id, the later one is not executed and gets ``DUPLICATE_CALL``.
        scope: As for :meth:`ToolRegistry.execute`.
        max_parallel: How many calls may be at work, or in their gates, at once.
        limits: Likewise, for calls of one name: ``{"search": 2}``. Further ones wait without keeping others from
            starting.
        fail_fast: The first call that fails cancels the others, with a cause that names it.
        control: With which others may stop the batch, or cancel one of its calls.
        on_start: Told the index and the call just before it starts, in the order of the calls.
        on_commit: Told the index, the call and the result, in the order of the calls, for each of them.

    Raises:
        ValueError: If ``max_parallel`` or a limit is no positive integer.
        TypeError: If something in ``calls`` is no :class:`ToolCall`. Nothing has run.
        RuntimeError: If an entered scope does not reach this ``await``, or the control has led a batch before.
        BaseException: ``KeyboardInterrupt`` and the like of a body, and what a callback raised, which cancels the
            batch too; once all calls have their results, and these are committed.
    """
    order = Order(registry, calls, scope, max_parallel, limits, fail_fast, control)
    batch = prepared(order, Told(start=on_start, commit=on_commit))
    outcome = await drive(batch, scope)
    if batch.failure is not None:
        raise batch.failure
    return outcome


def prepared(order: Order, told: Told) -> Batch:
    """A batch that has not begun, led by its control."""
    batch = Batch(order, told)
    if order.control is not None:
        order.control.lead(batch)
    return batch


@trio.lowlevel.enable_ki_protection
async def drive(batch: Batch, scope: ScopeView) -> BatchOutcome:
    """Run a batch; if nobody has entered the scope, in that. What is to be raised is in ``batch.failure``."""
    if is_unentered(scope):
        with scope:
            await batch.run()
    else:
        await batch.run()
    results = cast("list[ToolResult]", batch.results)
    return BatchOutcome(
        results=tuple(results),
        contexts=tuple(context for result in results for context in result.contexts),
        concludes_turn=any(isinstance(result, ToolSuccess) and result.concludes_turn for result in results),
        cancelled=batch.cancelled,
    )
