"""The gate behind the work: the after policies decide what of a result may be shown."""

from __future__ import annotations

from collections.abc import Awaitable

import attrs
import trio

from ._brief import Brief
from ._content import Content, Context, TextContent
from ._pipeline import Continuation, discard, interruptible
from ._presentation import produce
from ._results import ErrorInfo, ToolFailure, ToolResult, ToolSuccess
from ._unwinding import Unwound, as_one, unwind
from ._views import UNSET, Accept, AfterDecision, Block

__all__ = ["Judgement"]

_ACCEPT = Accept()
_BLOCKED = "tool result blocked by an after policy"


class Judgement:
    """The after policies of one call."""

    __slots__ = ("_brief", "_execution", "_policies", "_result")

    def __init__(self, brief: Brief, result: ToolResult) -> None:
        self._brief = brief
        self._policies = brief.stages.after
        self._execution = brief.execution
        self._result = result

    async def decided(self) -> ToolResult:
        """The result as the policies leave it. A checkpoint if a policy is one; no cancellation interrupts it.

        A gate that died at its first ``await`` on a cancelled call would fail open. A policy that raises, or gives
        something that is no decision, fails the call. Raises only interrupts.
        """
        unwound = Unwound()
        try:
            with trio.CancelScope(shield=True):
                return self._applied(await self.decide(0))
        except BaseException as error:  # taken apart below; what is no error leaves as itself
            unwound = unwind(error)
        try:
            if unwound.interrupts:
                raise as_one(unwound.interrupts)
            if unwound.errors:
                return self._failed(ToolFailure.from_exception(*unwound.errors))
            return self._failed(ToolFailure.from_message("an after policy was cancelled and has not decided"))
        finally:
            del unwound  # its tracebacks hold this frame

    async def decide(self, index: int) -> AfterDecision:
        """What policy number ``index`` and those further in decide."""
        if index == len(self._policies):
            return _ACCEPT
        call_next = _NextPolicy(self, index + 1)
        try:
            decision = await interruptible(self._policies[index], self._execution, self._result, call_next)
        finally:
            call_next.over = True
            if call_next.running:
                await call_next.drained()
        if not isinstance(decision, Accept | Block):  # pyright: ignore[reportUnnecessaryIsInstance] - P9
            discard(decision)
            raise TypeError(f"an after policy must answer Accept() or Block(feedback), not {decision!r}")
        return decision

    def _applied(self, decision: AfterDecision) -> ToolResult:
        result = self._result
        if isinstance(decision, Block):
            return self._failed(_blocked(decision))
        contexts = (*result.contexts, *decision.contexts)
        if decision.value is not UNSET:
            return self._with_value(decision.value, contexts)
        if decision.content is None:
            return attrs.evolve(result, contexts=contexts) if decision.contexts else result
        if isinstance(result, ToolSuccess):
            return attrs.evolve(result, content=decision.content, contexts=contexts)
        # What was replaced, and what was emitted before, is as sensitive as the content.
        return attrs.evolve(result, content=decision.content, contexts=contexts, superseded=None, partial=())

    def _with_value(self, value: object, contexts: tuple[Context, ...]) -> ToolResult:
        result = self._result
        if not isinstance(result, ToolSuccess):
            raise TypeError("Accept cannot replace the value of a failed result: answer Accept(content=...) or Block()")
        concludes, body = result.concludes_turn, result.body
        return produce(
            self._brief.tool.output,
            self._brief,
            value,
            converted=True,
            contexts=contexts,
            concludes_turn=concludes,
            body=body,
        )

    def _failed(self, failure: ToolFailure) -> ToolFailure:
        """``failure`` in the place of the result: the truth about the body stays."""
        cause = self._result.cause if isinstance(self._result, ToolFailure) else None
        return attrs.evolve(failure, body=self._result.body, cause=cause)


class _NextPolicy(Continuation[AfterDecision]):
    def __init__(self, judgement: Judgement, index: int) -> None:
        self._judgement = judgement
        self._index = index

    def inwards(self) -> Awaitable[AfterDecision]:
        return self._judgement.decide(self._index)


def _blocked(decision: Block) -> ToolFailure:
    if isinstance(decision.feedback, str):
        return ToolFailure.from_message(decision.feedback.strip() or _BLOCKED, contexts=decision.contexts)
    message = "\n".join(_words(block) for block in decision.feedback).strip() or _BLOCKED
    return ToolFailure(error=ErrorInfo(message=message), content=decision.feedback, contexts=decision.contexts)


def _words(block: Content) -> str:
    return block.text if isinstance(block, TextContent) else f"[{type(block).__name__}]"
