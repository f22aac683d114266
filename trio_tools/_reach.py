"""The scope that a caller gives: is it one to be entered, and does it reach the call?"""

from __future__ import annotations

from typing import TypeGuard

import trio

from ._scope import LiveScope, ScopeView
from ._watcher import look

__all__ = ["deadline_in_reach", "is_unentered"]


def is_unentered(scope: ScopeView) -> TypeGuard[trio.CancelScope]:
    """Whether it is a scope that nobody has entered: then it is entered for the length of a call, or a batch."""
    return isinstance(scope, trio.CancelScope) and scope.is_relative is not None


def deadline_in_reach(scope: ScopeView) -> float:
    """The deadline that is in force here, where ``scope`` is given for a call.

    Raises:
        RuntimeError: If the scope would silently cancel nothing; it says what to do instead.
    """
    if not isinstance(scope, trio.CancelScope):
        if isinstance(scope, LiveScope) and not scope.encloses():
            raise RuntimeError(
                "this scope belongs to another call, which has been answered or whose stages and owned tasks do not "
                "include this one, so it could not cancel it: give a scope of your own"
            )
        if not hasattr(scope, "cancel_called"):
            raise TypeError(f"scope takes a trio.CancelScope of yours, or run.scope in a body, not {scope!r}")
        return trio.current_effective_deadline()
    deadline = look(scope)
    if deadline is None:
        raise RuntimeError(
            "the scope does not reach this call, so it could not cancel it: it was left already, was entered in "
            "another task, or is hidden by a shield. Give one that encloses the await, or one that nobody has entered"
        )
    return deadline
