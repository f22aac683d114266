"""Exceptions of this package, and the one place where an exception becomes words for a model."""

from __future__ import annotations

from typing import cast

import attrs

from ._text import well_formed

__all__ = ["Description", "ToolError", "describe", "leaves"]

_NAMED_AT_MOST = 8  # errors of one group that are spelled out; the rest is counted


class ToolError(Exception):
    """A failure that a tool or a stage reports on purpose.

    Args:
        message: What went wrong, in words that a model can act on.
        code: A short fixed identifier for programs; it reaches ``result.error.code``.
    """

    code: str | None

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    def __reduce__(self) -> tuple[type[ToolError], tuple[str, str | None]]:
        return type(self), (self.message, self.code)


@attrs.frozen
class Description:
    """An exception in words: what it says, its code if it is a :class:`ToolError`, the name of its class."""

    message: str
    code: str | None
    name: str


def leaves(error: BaseException) -> list[BaseException]:
    """The exceptions in a group, depth first and in order; an exception that is no group is its own leaf."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    found: list[BaseException] = []
    todo: list[BaseException] = [error]
    while todo:
        one = todo.pop()
        if isinstance(one, BaseExceptionGroup):
            todo.extend(reversed(cast("BaseExceptionGroup[BaseException]", one).exceptions))
        else:
            found.append(one)
    return found


def describe(*errors: BaseException) -> Description:
    """Put one or more exceptions into words; groups count as what is in them.

    One error is reported as itself. Of several, all are named, and none lends its code. Never raises, whatever the
    exceptions do when they are printed.
    """
    each = [leaf for error in errors for leaf in leaves(error)]
    if len(each) == 1:
        return _describe_one(each[0])
    shown = "; ".join(f"{type(one).__name__}: {_message(one)}" for one in each[:_NAMED_AT_MOST])
    more = f"; and {len(each) - _NAMED_AT_MOST} more" if len(each) > _NAMED_AT_MOST else ""
    return Description(f"{len(each)} errors: {shown}{more}", None, "ExceptionGroup")


def _describe_one(error: BaseException) -> Description:
    return Description(_message(error), _code(error), well_formed(type(error).__name__))


def _code(error: BaseException) -> str | None:
    try:
        code: object = error.code if isinstance(error, ToolError) else None
    except Exception:  # a subclass that never called ours, say
        return None
    return well_formed(code) if isinstance(code, str) and code else None


def _message(error: BaseException) -> str:
    """The text of an exception; its class name if it has none, or cannot be printed."""
    try:
        # str(KeyError("x")) is the repr of the key.
        told = error.args[0] if isinstance(error, KeyError) and len(error.args) == 1 else error
        return well_formed(str(told)).strip() or type(error).__name__
    except Exception:  # a __str__ that raises must not cost the call its result
        return f"{type(error).__name__} (its message cannot be printed)"
