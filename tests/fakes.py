"""Small stages and bodies for the tests of calls, and what a result tells in a word."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import trio

from trio_tools import TextContent, ToolFailure, ToolResult, ToolSuccess


class Halt(BaseException):
    """An interrupt of somebody's own."""


async def trivial() -> None:
    """What somebody forgot to await."""


async def deaf(seconds: float) -> None:
    """Work that listens to no cancellation for some time."""
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)


def success(text: str, **fields: Any) -> ToolSuccess:
    """What a wrapper makes itself."""
    return ToolSuccess(value=text, content=(TextContent(text),), **fields)


def shown(result: ToolResult) -> list[str]:
    """What the model reads."""
    return [block.text for block in result.content if isinstance(block, TextContent)]


def source(result: ToolResult) -> str | None:
    """Whose scope ended the call."""
    return result.cause.source if isinstance(result, ToolFailure) and result.cause is not None else None


def raising(error: BaseException) -> Callable[..., Awaitable[Any]]:
    """A stage or body that raises at once."""

    async def stage(*_: object) -> NoReturn:
        raise error

    return stage


def answering(answer: object) -> Callable[..., Awaitable[Any]]:
    """A stage or body that answers at once."""

    async def stage(*_: object) -> object:
        return answer

    return stage


def waiting(answer: object = None, *, seconds: float = 10) -> Callable[..., Awaitable[Any]]:
    """A stage or body that a cancellation interrupts."""

    async def stage(*_: object) -> object:
        await trio.sleep(seconds)
        return answer

    return stage


def late(answer: object, *, seconds: float = 10) -> Callable[..., Awaitable[Any]]:
    """A stage or body that no cancellation interrupts; it answers, or raises if the answer is an exception."""

    async def stage(*_: object) -> object:
        await deaf(seconds)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return stage
