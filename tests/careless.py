"""Helpers of an author's, in another file than the tools."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import ParamSpec

import trio

P = ParamSpec("P")


async def rests(seconds: float) -> bool:
    """Whether it could."""
    try:
        await trio.sleep(seconds)
    except BaseException:  # breaks: swallowed
        return False
    return True


def never_fails(function: Callable[P, Awaitable[str]]) -> Callable[P, Awaitable[str]]:
    """A decorator: an error is an answer."""

    @functools.wraps(function)
    async def wrapper(*arguments: P.args, **options: P.kwargs) -> str:
        try:
            return await function(*arguments, **options)
        except BaseException as error:
            return f"failed: {error!r}"

    return wrapper
