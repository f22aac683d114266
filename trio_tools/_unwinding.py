"""What came out of a piece of work: its errors, its interrupts, and a cancellation that ended it.

Trio's :exc:`~trio.Cancelled` belongs to the scope that was cancelled. Work that must always be answered with a result
has to let go of it nevertheless, and may not swallow it with ``except``. :func:`unwind` therefore gives it to a scope
of its own, which is cancelled and shielded and so is the one that rightly catches it. Nothing else changes: Trio's
cancellation is level-triggered, and whoever was cancelled outside meets it at the next checkpoint.
"""

from __future__ import annotations

import math
from types import FrameType, TracebackType
from typing import NamedTuple, cast

import trio

from ._errors import leaves

__all__ = ["Unwound", "as_one", "unwind"]


_WAITED_WITH = (trio.Cancelled, trio.WouldBlock, BlockingIOError)


class Unwound(NamedTuple):
    """An exception that left a piece of work, taken apart.

    Attributes:
        errors: The ``Exception`` leaves: what went wrong. Masked errors (see :func:`unwind`) are among them.
        interrupts: Leaves that are neither an ``Exception`` nor ``Cancelled``, such as ``KeyboardInterrupt``.
        cancelled: Whether a cancellation was in it.
        reason: The text that the first ``Cancelled`` carries. It describes the innermost cancelled scope.
        masked: Whether the errors were found behind a cancellation that had replaced them.
    """

    errors: tuple[Exception, ...] = ()
    interrupts: tuple[BaseException, ...] = ()
    cancelled: bool = False
    reason: str | None = None
    masked: bool = False


def unwind(error: BaseException, *, below: FrameType | None = None) -> Unwound:
    """Take ``error`` apart and let a scope of our own catch each ``Cancelled`` in it. Synchronous, no checkpoint.

    Args:
        error: What came out of the work.
        below: The frame in which it was caught. If given, and nothing but ``Cancelled`` came out, errors that the
            cancellation masked are looked for: asynchronous clean-up in a cancelled scope replaces the exception that
            it was cleaning up after, which then is only on the ``__context__`` chain.
    """
    if type(error) is trio.Cancelled and error.__context__ is None:  # by far the commonest
        with _catching():
            raise error
        reason = error.reason
        del error  # its traceback holds this frame
        return Unwound(cancelled=True, reason=reason)
    cancelled = [leaf for leaf in leaves(error) if type(leaf) is trio.Cancelled]
    rest = _give_cancellation_to_a_scope(error) if cancelled else error
    left = leaves(rest) if rest is not None else []
    masked = _masked_by(error, below) if cancelled and below is not None and not left else []
    try:
        return Unwound(
            errors=tuple(leaf for leaf in left or masked if isinstance(leaf, Exception)),
            interrupts=tuple(leaf for leaf in left or masked if not isinstance(leaf, Exception)),
            cancelled=bool(cancelled),
            reason=cancelled[0].reason if cancelled else None,
            masked=bool(masked),
        )
    finally:
        del error, cancelled, rest, left, masked  # tracebacks hold this frame


def as_one(interrupts: tuple[BaseException, ...]) -> BaseException:
    """One exception to raise: the interrupt itself, or a group if there are several."""
    return interrupts[0] if len(interrupts) == 1 else BaseExceptionGroup("several interrupts", interrupts)


def _catching() -> trio.CancelScope:
    """A scope that catches each ``Cancelled`` passing out of it: its deadline, long ago, is what cancels it."""
    return trio.CancelScope(shield=True, deadline=-math.inf)


def _give_cancellation_to_a_scope(error: BaseException) -> BaseException | None:
    try:
        with _catching():
            raise error
    except BaseException as rest:  # by now free of Cancelled
        return rest
    finally:
        del error  # its traceback holds this frame
    return None


def _masked_by(error: BaseException, below: FrameType) -> list[BaseException]:
    """What a cancellation, or a group of nothing but cancellations, replaced."""
    found: dict[int, BaseException] = {}
    todo: list[tuple[BaseException, set[FrameType]]] = [(error, set())]
    while todo:
        one, passed = todo.pop()
        found |= {id(masked): masked for masked in _behind(one, passed, below)}
        if isinstance(one, BaseExceptionGroup):
            passed = passed | _frames(one.__traceback__, below)  # a group carries its members through these
            todo += [(inner, passed) for inner in cast("BaseExceptionGroup[BaseException]", one).exceptions]
    return list(found.values())


def _behind(cancelled: BaseException, frames: set[FrameType], below: FrameType) -> list[BaseException]:
    """The errors, or interrupts, of the nearest exception on the ``__context__`` chain that ``cancelled`` masked.

    The chain also holds strangers: what the canceller, the caller or a wrapper was handling. An error counts only if it
    was raised in a frame, inside the one that caught the cancellation, that a cancellation of the chain passed through
    too. ``trio.WouldBlock`` and ``BlockingIOError`` never count: Trio's locks and pipes wait while they handle one.
    """
    one: BaseException | None = cancelled
    seen: set[int] = set()
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        passed, each = _frames(one.__traceback__, below), leaves(one)
        if all(type(leaf) is trio.Cancelled for leaf in each):
            frames = frames | passed
        elif frames & passed:
            masked = [leaf for leaf in each if type(leaf) not in _WAITED_WITH]
            if masked:
                return masked
        one = one.__context__
    return []


def _frames(traceback: TracebackType | None, below: FrameType) -> set[FrameType]:
    frames: set[FrameType] = set()
    while traceback is not None:
        frames.add(traceback.tb_frame)
        traceback = traceback.tb_next
    frames.discard(below)
    return frames
