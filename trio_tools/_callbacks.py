"""The callbacks of a batch, and what they raise."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import attrs

from ._pipeline import discard
from ._request import ToolCall
from ._results import ToolResult

__all__ = ["Told", "graver", "told"]

_log = logging.getLogger("trio_tools")


def _check(_: object, attribute: attrs.Attribute[Any], callback: object) -> None:
    if callback is not None and not callable(callback):
        raise TypeError(f"on_{attribute.name} must be a function, not {callback!r}")


@attrs.frozen
class Told:
    """Who is told what of a batch; all of it is synchronous.

    Attributes:
        start: Of each call that starts, in call order.
        finish: Of each call that has run, as soon as it has its result.
        commit: Of each call and its result, in call order.
        holds_back: Whether no further call may start at this moment.
    """

    start: Callable[[int, ToolCall], None] | None = attrs.field(default=None, validator=_check)
    finish: Callable[[int, ToolCall, ToolResult], None] | None = None
    commit: Callable[[int, ToolCall, ToolResult], None] | None = attrs.field(default=None, validator=_check)
    holds_back: Callable[[], bool] | None = None


def told(callback: Callable[..., None], *arguments: object) -> BaseException | None:
    """Call a callback; what it raised, or what is wrong with its answer, comes back."""
    try:
        answer: object = callback(*arguments)
        if answer is not None:
            discard(answer)
            raise TypeError(f"{callback!r} must be a plain function and return None, not {answer!r}")
    except BaseException as error:  # raised when everything is committed
        return error
    return None


def graver(known: BaseException | None, error: BaseException) -> BaseException:
    """Which of two is to be raised: an interrupt goes before an ordinary error, else the first. The other is shown."""
    if known is None:
        return error
    if isinstance(known, Exception) and not isinstance(error, Exception):
        error.__context__ = known
        return error
    _log.error("a further error in a batch, beside %r", known, exc_info=error)
    return known
