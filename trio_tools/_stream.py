"""A batch as a stream of events, for those who show or send on results while further calls still run."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Self, TypeAlias, cast

import attrs
import trio

from ._batch import BatchOutcome, drive, prepared
from ._callbacks import Told, graver
from ._control import BatchControl
from ._order import Order, positive
from ._registry import ToolRegistry
from ._request import ToolCall
from ._results import ToolResult
from ._scheduler import Batch
from ._scope import ScopeView

__all__ = ["BatchEvent", "BatchStream", "CallCommitted", "CallFinished", "CallStarted", "stream_batch"]


@attrs.frozen
class CallStarted:
    """A call has started; these come in call order."""

    index: int
    call: ToolCall


@attrs.frozen
class CallFinished:
    """A call that has run has its result; these come in the order in which that happens."""

    index: int
    call: ToolCall
    result: ToolResult


@attrs.frozen
class CallCommitted:
    """A call has its result, and all before it have theirs; these come in call order, one for each call."""

    index: int
    call: ToolCall
    result: ToolResult


BatchEvent: TypeAlias = CallStarted | CallFinished | CallCommitted


class BatchStream:
    """The events of a batch that runs; iterate over it once."""

    def __init__(self, buffer: int) -> None:
        self._buffer = positive("buffer", buffer)
        self._send, self._receive = trio.open_memory_channel[BatchEvent](math.inf)
        self._left = False
        self.batch: Batch  # set before anybody reads
        self._outcome: BatchOutcome | None = None

    @property
    def outcome(self) -> BatchOutcome:
        """What became of the calls.

        Raises:
            RuntimeError: While calls still run.
        """
        if self._outcome is None:
            raise RuntimeError("the batch still runs: iterate to the end, or leave the block of stream_batch, first")
        return self._outcome

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BatchEvent:
        """The next event. A checkpoint; if ``Cancelled`` comes out, no event is lost."""
        try:
            event = await self._receive.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        self.batch.advance()  # there is room again
        return event

    def told(self) -> Told:
        """What fills the stream."""

        def put(event: BatchEvent) -> None:
            if not self._left:  # else nobody reads
                self._send.send_nowait(event)

        return Told(
            start=lambda index, call: put(CallStarted(index, call)),
            finish=lambda index, call, result: put(CallFinished(index, call, result)),
            commit=lambda index, call, result: put(CallCommitted(index, call, result)),
            holds_back=self._is_full,
        )

    def _is_full(self) -> bool:
        return not self._left and self._receive.statistics().current_buffer_used >= self._buffer

    def leave(self) -> None:
        """Nobody reads any more."""
        self._left = True
        self.batch.advance()

    def end(self, outcome: BatchOutcome) -> None:
        """No event will follow."""
        self._outcome = outcome
        self._send.close()


def stream_batch(
    registry: ToolRegistry,
    calls: Sequence[ToolCall],
    *,
    scope: ScopeView,
    max_parallel: int = 10,
    limits: Mapping[str, int] | None = None,
    fail_fast: bool = False,
    control: BatchControl | None = None,
    buffer: int = 16,
) -> AbstractAsyncContextManager[BatchStream, None]:
    """Make the calls of one model message in the background of a block, and tell of them as they proceed. ::

        async with stream_batch(registry, calls, scope=scope) as events:
            async for event in events:
                match event:
                    case CallCommitted(index, call, result):
                        ...
        events.outcome.results

    When the block is left, all calls have ended: leaving waits for them. They go on if it ends early, and are cancelled
    if it raises, or is cancelled. Observers, and ``outcome``, have every result, whoever reads.

    Args:
        registry: As for :func:`run_batch`, like all that is not named here.
        calls: Likewise.
        scope: Likewise. One that nobody has entered cancels the calls, and not the block.
        max_parallel: Likewise.
        limits: Likewise.
        fail_fast: Likewise.
        control: Likewise.
        buffer: How many events may lie unread before no further call starts. Calls that have started go on, so that a
            few more may gather. Inside the block, read on or leave: the batch waits for you.

    Raises:
        ValueError: If ``max_parallel``, a limit or ``buffer`` is no positive integer.
        TypeError: If something in ``calls`` is no :class:`ToolCall`.
        RuntimeError: If an entered scope does not reach here, or the control has led a batch before. Nothing has run.
        BaseException: What the block raised; ``KeyboardInterrupt`` and the like of a body. All calls have ended then.
    """
    stream = BatchStream(buffer)
    order = partial(Order, registry, calls, scope, max_parallel, limits, fail_fast, control)
    return cast("AbstractAsyncContextManager[BatchStream, None]", _streaming(order, stream))


@asynccontextmanager
async def _streaming(ordered: Callable[[], Order], stream: BatchStream) -> AsyncGenerator[BatchStream, None]:
    order = ordered()  # here, where the scope is looked at
    batch = stream.batch = prepared(order, stream.told())
    raised: BaseException | None = None

    @trio.lowlevel.enable_ki_protection
    async def run() -> None:
        stream.end(await drive(batch, order.scope))
        ended.set()

    ended = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, name="trio_tools: a batch")
        try:
            yield stream
            stream.leave()
            await ended.wait()  # not in the nursery, which would make a group of an interrupt
        except BaseException as error:  # raised below, when the calls have ended
            raised = error
            nursery.cancel_scope.cancel("the block of stream_batch has raised")
        stream.leave()
    if (error := _to_be_raised(raised, batch.failure)) is not None:
        raise error


def _to_be_raised(raised: BaseException | None, failure: BaseException | None) -> BaseException | None:
    """Of what the block and the calls have raised."""
    if raised is None or failure is None:
        return raised or failure
    return failure if isinstance(raised, trio.Cancelled) else graver(raised, failure)
