"""Asking a person."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import attrs

from ._tool import ToolDefinition
from ._views import ToolExecution

__all__ = ["ApprovalOutcome", "ApprovalRequest", "Approver"]

ApprovalOutcome: TypeAlias = Literal["allowed-once", "rejected", "cancelled", "unavailable"]
"""``"cancelled"``: the person withdrew from the question; ``"unavailable"``: nobody could be asked."""


@attrs.frozen(kw_only=True)
class ApprovalRequest:
    """A question to a person.

    Attributes:
        execution: The call; its arguments are those that will run.
        tool: The tool that it names.
        reason: Why the policy asks.
    """

    execution: ToolExecution
    tool: ToolDefinition
    reason: str | None


class Approver(Protocol):
    """Whoever can ask a person."""

    async def request(self, ask: ApprovalRequest, /) -> ApprovalOutcome:
        """Ask, and wait for the answer.

        A cancellation of the call ends the wait with ``trio.Cancelled`` at once: take the question off the screen and
        let it out. Whatever is answered or raised that is no outcome stops the call.
        """
        ...
