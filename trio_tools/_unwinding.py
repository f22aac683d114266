"""What came out of a piece of work: its errors, its interrupts, and a cancellation that ended it.

Trio's :exc:`~trio.Cancelled` belongs to the scope that was cancelled. Work that must always be answered with a result
has to let go of it nevertheless, and may not swallow it with ``except``. :func:`unwind` therefore gives it to a scope
of its own, which is cancelled and shielded and so is the one that rightly catches it. Nothing else changes: Trio's
cancellation is level-triggered, and whoever was cancelled outside meets it at the next checkpoint.
"""

from __future__ import annotations

import math
from types import FrameType, TracebackType
from typing import NamedTuple

import trio

from ._errors import leaves

__all__ = ["Unwound", "as_one", "unwind"]


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
        _give_cancellation_to_a_scope(error)
        return Unwound(cancelled=True, reason=error.reason)
    cancelled = [leaf for leaf in leaves(error) if type(leaf) is trio.Cancelled]
    rest = _give_cancellation_to_a_scope(error) if cancelled else error
    left = leaves(rest) if rest is not None else []
    errors = tuple(leaf for leaf in left if isinstance(leaf, Exception))
    interrupts = tuple(leaf for leaf in left if not isinstance(leaf, Exception))
    masked: tuple[Exception, ...] = ()
    if cancelled and below is not None and not left:
        masked = tuple(found for leaf in cancelled if (found := _masked_by(leaf, below)) is not None)
    return Unwound(
        errors=errors or masked,
        interrupts=interrupts,
        cancelled=bool(cancelled),
        reason=cancelled[0].reason if cancelled else None,
        masked=bool(masked),
    )


def as_one(interrupts: tuple[BaseException, ...]) -> BaseException:
    """One exception to raise: the interrupt itself, or a group if there are several."""
    return interrupts[0] if len(interrupts) == 1 else BaseExceptionGroup("several interrupts", interrupts)


def _give_cancellation_to_a_scope(error: BaseException) -> BaseException | None:
    try:
        # The deadline is what cancels it; it is there for what passes out of it.
        with trio.CancelScope(shield=True, deadline=-math.inf):  # noqa: ASYNC100
            raise error
    except BaseException as rest:  # by now free of Cancelled
        return rest
    return None


def _masked_by(cancelled: trio.Cancelled, below: FrameType) -> Exception | None:
    """The error that ``cancelled`` replaced, if any.

    The ``__context__`` chain also holds strangers: what the canceller, the caller or a wrapper was handling. An error
    counts only if it was raised in a frame, inside the one that caught the cancellation, that a ``Cancelled`` of the
    chain passed through too. ``trio.WouldBlock`` never counts: Trio's locks wait while they handle one.
    """
    frames: set[FrameType] = set()
    one: BaseException | None = cancelled
    seen: set[int] = set()
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        passed = _frames(one.__traceback__, below)
        if type(one) is trio.Cancelled:
            frames |= passed
        elif isinstance(one, Exception) and not isinstance(one, trio.WouldBlock) and frames & passed:
            return one
        one = one.__context__
    return None


def _frames(traceback: TracebackType | None, below: FrameType) -> set[FrameType]:
    frames: set[FrameType] = set()
    while traceback is not None:
        frames.add(traceback.tb_frame)
        traceback = traceback.tb_next
    frames.discard(below)
    return frames
