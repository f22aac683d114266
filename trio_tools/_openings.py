"""The calls of a batch in a journal: all of them recorded before one of them starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ._recording import Opening
from ._registry import ToolRegistry
from ._request import ToolCall
from ._results import ToolResult

__all__ = ["Openings"]


class Openings:
    """How the calls of one batch begin; empty without a journal."""

    def __init__(self, registry: ToolRegistry, calls: Sequence[ToolCall]) -> None:
        self._registry = registry
        self._calls = calls
        self._left: dict[int, Opening] = {}  # by index, of calls that have not been made

    async def begin(self) -> None:
        """Record them, in one commit. A checkpoint if there is a journal; no cancellation ends it."""
        if self._registry.stages().journal is None or not self._calls:
            return
        first: dict[str, int] = {}
        for index, call in enumerate(self._calls):
            first.setdefault(call.id, index)
        openings = await self._registry.begun([self._calls[index] for index in first.values()], course=True)
        self._left = dict(zip(first.values(), openings, strict=True))

    def take(self, index: int) -> Opening | None:
        """That of a call that is made now."""
        return self._left.pop(index, None)

    def unmade(self, index: int) -> ToolResult | None:
        """What is true of a call that is not made; ``None``: that it was never entered."""
        opening = self._left.get(index)
        return None if opening is None else opening.unmade

    async def close(self, results: Sequence[ToolResult | None]) -> None:
        """Record the results of those that were not made."""
        for index, opening in self._left.items():
            if opening.entry is None:
                continue
            if opening.left is not None:
                await opening.entry.withdrawn()
            else:
                await opening.entry.closed(cast(ToolResult, results[index]))
