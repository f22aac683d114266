"""What a registry is given: records the calls of one conversation, and knows those of before."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import attrs

from trio_tools._effects import Reconciled, RecordedCall
from trio_tools._json import freeze
from trio_tools._lifecycle import aborted
from trio_tools._pipeline import discard, interruptible
from trio_tools._presentation import admitted
from trio_tools._recording import Asked, Opening
from trio_tools._results import (
    DUPLICATE_CALL,
    JOURNAL_FAILED,
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    CancelCause,
    ToolFailure,
    ToolResult,
    ToolSuccess,
)
from trio_tools._text import is_well_formed
from trio_tools._tool import ToolDefinition
from trio_tools._unwinding import as_one, unwind
from trio_tools.journal._entry import CallRecords, Home
from trio_tools.journal._failures import ConflictError, JournalFailedError
from trio_tools.journal._recovery import History

__all__ = ["Conversation"]

_log = logging.getLogger("trio_tools.journal")
_REPEATABLE = ("read-only", "idempotent")


class Conversation:
    """One conversation: within it each call id is given once. Give it to a registry: ``ToolRegistry(journal=...)``.

    Attributes:
        id: Its id.
    """

    def __init__(self, id: str, home: Home) -> None:
        self.id = id
        self._home = home

    def __repr__(self) -> str:
        return f"<Conversation {self.id!r}>"

    async def begin(self, calls: Sequence[Asked], /) -> list[Opening]:
        """Record that these calls are to be made, in one commit; or find what was recorded of them before.

        A checkpoint. Raises nothing but what interrupts it, or interrupts a tool's ``reconcile``; then no call of these
        stays open.
        """
        prepared = [self._prepared(asked) for asked in calls]
        entries = [one for one in prepared if isinstance(one, CallRecords)]
        openings = iter(await self._begun(entries) if entries else ())
        return [next(openings) if isinstance(one, CallRecords) else one for one in prepared]

    def _prepared(self, asked: Asked) -> CallRecords | Opening:
        try:
            if not is_well_formed(asked.request.id):
                raise ValueError("its id is no text")
            return CallRecords(self._home, self.id, asked)
        except Exception as error:  # of redact, or of arguments that are no JSON text
            return _refused(error)

    async def _begun(self, entries: Sequence[CallRecords]) -> list[Opening]:
        def written() -> None:
            for entry in entries:
                entry.is_open = True

        try:
            try:
                await self._home.writer.insert([row for entry in entries for row in entry.beginning], written)
            except ConflictError:
                return [await self._begun_alone(entry) for entry in entries]
        except BaseException as error:  # an interrupt, or a journal that has failed
            cause = CancelCause(source="interrupt", reason=type(error).__name__)
            for entry in entries:
                if entry.is_open:
                    await entry.given_up(cause)
            if not isinstance(error, Exception):
                raise
            return [_refused(error)] * len(entries)
        return [Opening(entry) for entry in entries]

    async def _begun_alone(self, entry: CallRecords) -> Opening:
        with suppress(ConflictError):
            await entry.begin()
            return Opening(entry)
        try:
            return await self._known(entry)
        except ConflictError:  # somebody else has been quicker to make it once more
            return _duplicate(f"the call {entry.call_id!r} of this conversation is being made already")

    async def _known(self, entry: CallRecords) -> Opening:
        """There is such a call."""
        history = await entry.history()
        asked = history.asked.data
        if asked["digest"] != entry.digest():
            return _duplicate(f"the call {entry.call_id!r} of this conversation has another name or other arguments")
        result = history.result
        if history.closed is None or result is None:
            return _duplicate(f"the call {entry.call_id!r} of this conversation is being made already")
        written = history.closed.data
        if written["by"] != "recovery":
            return Opening(given=result)
        if not written["judged"]:
            await entry.resume(history, {"by": "recovery", "result": written["result"]})
            return _unjudged(entry, result)
        return await self._recovered(entry, history, cast(ToolFailure, result))

    async def _recovered(self, entry: CallRecords, history: History, result: ToolFailure) -> Opening:
        """The crash left it without a result: may it be made again?"""
        tool, code = entry.asked.tool, result.error.code
        again = code == TOOL_ABORTED_BEFORE_DISPATCH
        if code == TOOL_ABORTED and tool is not None:
            again = history.effects in _REPEATABLE and tool.effects in _REPEATABLE
            if not again and tool.reconcile is not None:
                found = await self._reconciled(entry, tool)
                if isinstance(found, ToolSuccess | ToolFailure):
                    return await self._found(entry, tool, history, found) or Opening(given=result)
                if found == "did-not-happen":
                    await entry.resume(history)
                    return Opening(entry)
        if again:
            await entry.resume(history)
            return Opening(entry, left=result if code == TOOL_ABORTED else None)
        return Opening(given=result)

    async def _found(
        self, entry: CallRecords, tool: ToolDefinition, history: History, found: ToolResult
    ) -> Opening | None:
        """What a ``reconcile`` has found out, as the outcome of the body; ``None`` if that cannot be recorded."""
        if isinstance(found, ToolSuccess):
            found = admitted(found, tool.output, tool.name, body="finished")
        outcome = attrs.evolve(found, body="finished")
        try:
            data = entry.told(outcome, by="reconcile")
        except Exception:
            _log.exception("what reconcile of %r has found of call %r cannot be recorded", tool.name, entry.call_id)
            return None
        await entry.resume(history, data)
        return _unjudged(entry, outcome)

    async def _reconciled(self, entry: CallRecords, tool: ToolDefinition) -> Reconciled:
        reconcile = tool.reconcile
        if reconcile is None:  # pragma: no cover - it was asked
            return "unknown"
        call = RecordedCall(
            conversation=self.id,
            call_id=entry.call_id,
            name=tool.name,
            arguments=freeze(entry.asked.request.arguments),
            idempotency_key=entry.idempotency_key,
        )
        try:
            answer: object = await interruptible(reconcile, call)
            return _must_be_an_answer(answer)
        except BaseException as error:  # a cancellation ends it, and leaves the call as it was
            unwound = unwind(error)
        if unwound.interrupts:
            raise as_one(unwound.interrupts)
        for each in unwound.errors:
            _log.error("reconcile of %r failed for call %r", tool.name, entry.call_id, exc_info=each)
        return "unknown"


def _must_be_an_answer(answer: object) -> Reconciled:
    if isinstance(answer, ToolSuccess | ToolFailure) or answer in ("did-not-happen", "unknown"):
        return answer
    discard(answer)
    raise TypeError(f"reconcile must return a ToolResult, 'did-not-happen' or 'unknown', not {answer!r}")


def _unjudged(entry: CallRecords, outcome: ToolResult) -> Opening:
    left = aborted("finished", CancelCause(source="crash"), replaced=outcome)
    return Opening(entry, given=outcome, given_by="work", left=left)


def _duplicate(message: str) -> Opening:
    return Opening(given=ToolFailure.from_message(message, code=DUPLICATE_CALL), given_by="refusal")


def _refused(error: Exception) -> Opening:
    message = str(error) if isinstance(error, JournalFailedError) else f"it cannot be recorded: {error!r}"
    return Opening(given=ToolFailure.from_message(message, code=JOURNAL_FAILED), given_by="refusal")
