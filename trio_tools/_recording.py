"""What a call needs of a journal: who records it, and what was recorded of it before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import attrs

from ._request import ToolCall
from ._results import ToolResult
from ._tool import ToolDefinition

__all__ = ["Asked", "Entry", "Opening", "Recorder"]


class Entry(Protocol):
    """The records of one call. Each method is a checkpoint that no cancellation ends, if it waits for the disk."""

    @property
    def idempotency_key(self) -> str:
        """Equal over attempts and restarts, another one for each call."""
        ...

    async def approved(self) -> None:
        """A person has allowed the call.

        Raises:
            ToolError: With the code ``JOURNAL_FAILED``.
        """
        ...

    async def dispatched(self, tool: ToolDefinition, /) -> None:
        """The body of ``tool`` is about to be entered; it may be another tool than was asked for, of the same name.

        Raises:
            ToolError: With the code ``JOURNAL_FAILED``: it must not be entered.
        """
        ...

    async def ended(self, result: ToolResult) -> None:
        """The work is answered, and nobody has judged that yet. Raises nothing; a failure is logged."""
        ...

    async def closed(self, result: ToolResult) -> None:
        """The call has its result. Raises nothing; a failure is logged."""
        ...

    async def withdrawn(self) -> None:
        """This run has not come to the work: what one of before has left stands. Raises nothing, likewise."""
        ...


class Asked(NamedTuple):
    """A call that is to be made.

    Attributes:
        request: The call.
        tool: What it would run; ``None`` if there is none.
        at_once: Whether nothing stands between it and its body, so that one record says both.
    """

    request: ToolCall
    tool: ToolDefinition | None
    at_once: bool


@attrs.frozen
class Opening:
    """How a call begins.

    Attributes:
        entry: Where it is recorded; ``None``: nowhere.
        given: The result that it has already; ``None``: it is to be made.
        given_by: Whence that is. ``"replay"``: it is final, and was told before; ``"work"``: of the work, and nobody
            has judged it yet; ``"refusal"``: the call must not be made.
        left: What a run of before has left, if its body was entered: it is true of the call as long as this run does
            not come to the work.
    """

    entry: Entry | None = None
    given: ToolResult | None = None
    given_by: Literal["replay", "work", "refusal"] = "replay"
    left: ToolResult | None = None

    @property
    def unmade(self) -> ToolResult | None:
        """The result of the call if it is not made now; ``None``: that it was never entered."""
        return self.left if self.left is not None else self.given


class Recorder(Protocol):
    """A conversation in a journal, as :class:`ToolRegistry` takes it."""

    async def begin(self, calls: Sequence[Asked], /) -> Sequence[Opening]:
        """Record that these calls are to be made, in one commit; or find what was recorded of them.

        A checkpoint. Raises nothing but what cancels: a failure is told by the openings.
        """
        ...
