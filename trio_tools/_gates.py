"""The gates before the work: policies, a person, guards. They fail closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ._approval import ApprovalRequest
from ._brief import Brief
from ._lifecycle import Event, Phase
from ._pipeline import Continuation, discard, interruptible, interruptible_sync
from ._results import DENIED, ToolFailure, ToolResult
from ._views import Allow, Ask, BeforeDecision, Deny

__all__ = ["Gates", "Settled"]

_ALLOW = Allow()


class Settled(NamedTuple):
    """What settled a call, and with which candidate for its result."""

    event: Event
    candidate: ToolResult | None = None


class Gates:
    """The gates of one call."""

    __slots__ = ("_brief", "_enter", "_execution", "home")

    def __init__(self, brief: Brief, enter: Callable[[Phase], None]) -> None:
        self._brief = brief
        self._execution = brief.execution
        self.home = brief.task
        self._enter = enter  # told of each phase that begins

    async def pass_all(self) -> Settled | None:
        """Ask everybody; ``None`` if the call may go on to the wrappers.

        A checkpoint only if a stage is one. If ``Cancelled`` comes out, the call is settled as cut in a gate.
        """
        stages, state = self._brief.stages, self._brief.state
        if stages.before:
            self._enter("before")
            decision = await self.decide(0)
            if isinstance(decision, Deny):
                return _denied(decision.reason)
            if state.stopped():
                return Settled("gate-cut")
            if isinstance(decision, Ask):
                self._enter("approval")
                refused = await self._ask(decision)
                if refused is not None:
                    return refused
                if state.stopped():
                    return Settled("gate-cut")
        if stages.guards:
            self._enter("guards")
            reason = self._guard()
            if reason is not None:
                return _denied(reason)
            if state.stopped():
                return Settled("gate-cut")
        return None

    async def decide(self, index: int) -> BeforeDecision:
        """What policy number ``index`` and those further in decide."""
        policies = self._brief.stages.before
        if index == len(policies):
            return _ALLOW
        call_next = _NextPolicy(self, index + 1)
        try:
            decision = await interruptible(policies[index], self._execution, call_next)
        finally:
            call_next.over = True
            if call_next.running:
                await call_next.drained()
        if not isinstance(decision, Allow | Deny | Ask):  # pyright: ignore[reportUnnecessaryIsInstance] - P9
            discard(decision)
            raise TypeError(f"a before policy must answer Allow(), Deny(reason) or Ask(), not {decision!r}")
        return decision

    async def _ask(self, ask: Ask) -> Settled | None:
        tool, approver = self._brief.tool, self._brief.stages.approver
        name = tool.name
        if approver is None:
            return _denied(f'tool "{name}" requires approval, but no approver is configured')
        question = ApprovalRequest(execution=self._execution, tool=tool, reason=ask.reason)
        outcome = await interruptible(approver.request, question)
        match outcome:
            case "allowed-once":
                if self._brief.entry is not None:
                    await self._brief.entry.approved()
                return None
            case "rejected":
                return _denied(f'the user rejected tool "{name}"')
            case "cancelled":
                return _denied(f'approval for tool "{name}" was cancelled', "unanswered")
            case "unavailable":
                return _denied(f'tool "{name}" requires approval, but nobody can be asked', "unanswered")
            case _:
                discard(outcome)
                raise TypeError(
                    f"an approver must answer 'allowed-once', 'rejected', 'cancelled' or 'unavailable', not {outcome!r}"
                )

    def _guard(self) -> str | None:
        for guard in self._brief.stages.guards:
            reason = interruptible_sync(guard, self._execution)
            if reason is None:
                continue
            if not isinstance(reason, str):  # pyright: ignore[reportUnnecessaryIsInstance] - P9
                discard(reason)
                raise TypeError(f"a guard must answer a reason (str) or None, and not be async, not {reason!r}")
            return reason
        return None


class _NextPolicy(Continuation[BeforeDecision]):
    def __init__(self, gates: Gates, index: int) -> None:
        self._gates = gates
        self._index = index
        self.home = gates.home

    def inwards(self) -> Awaitable[BeforeDecision]:
        return self._gates.decide(self._index)

    def cut_short(self) -> BeforeDecision:
        return _ALLOW  # to nobody: only a stage that has returned cuts a policy short


def _denied(reason: str, event: Event = "denied") -> Settled:
    return Settled(event, ToolFailure.from_message(reason or "denied by a policy", code=DENIED))
