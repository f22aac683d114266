"""What a registry is given: records the calls of one conversation, and knows those of before."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import uuid
from collections.abc import Callable, Sequence
from typing import Any, cast

import attrs

from trio_tools._effects import Reconciled, RecordedCall
from trio_tools._json import NotJsonError, freeze, thaw
from trio_tools._pipeline import discard, interruptible
from trio_tools._presentation import admitted
from trio_tools._recording import Asked, Opening
from trio_tools._request import Malformed, ToolCall
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
from trio_tools.journal._codec import decoded, encoded
from trio_tools.journal._failures import ConflictError, JournalFailedError
from trio_tools.journal._format import SELECT_CALL, Event, Row, canonical, events, row
from trio_tools.journal._recovery import History, histories
from trio_tools.journal._writer import Writer

__all__ = ["Conversation", "Home"]

_log = logging.getLogger("trio_tools.journal")
_REPEATABLE = ("read-only", "idempotent")


@attrs.frozen(eq=False)
class Home:
    """What conversations share."""

    writer: Writer
    journal_id: str
    epoch: int
    redact: Callable[[str, Any], Any] | None


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

        A checkpoint. Raises nothing but what cancels, or interrupts, a tool's ``reconcile``.
        """
        sound = [asked for asked in calls if is_well_formed(asked.request.id)]
        if len(sound) < len(calls):
            begun = iter(await self.begin(sound) if sound else ())
            refused = _refused(ValueError("its id is no text"))
            return [next(begun) if is_well_formed(asked.request.id) else refused for asked in calls]
        entries = [_Entry(self._home, self.id, asked) for asked in calls]
        try:
            try:
                await self._home.writer.insert([row for entry in entries for row in entry.beginning()])
            except ConflictError:
                return await self._begun_one_by_one(entries)
        except Exception as error:
            return [_refused(error)] * len(entries)
        return [Opening(entry) for entry in entries]

    async def _begun_one_by_one(self, entries: Sequence[_Entry]) -> list[Opening]:
        openings: list[Opening] = []
        try:
            for entry in entries:
                openings.append(await self._begun(entry))  # noqa: PERF401 - what has begun must be known
        except BaseException as error:  # an interrupt, or a journal that has failed
            for entry in [opening.entry for opening in openings if isinstance(opening.entry, _Entry)]:
                await entry.given_up(error)
            raise
        return openings

    async def _begun(self, entry: _Entry) -> Opening:
        try:
            await self._home.writer.insert(entry.beginning())
        except ConflictError:
            pass
        else:
            return Opening(entry)
        try:
            return await self._known(entry)
        except ConflictError:  # somebody else has been quicker to make it once more
            return _duplicate(f"the call {entry.call_id!r} of this conversation is being made already")

    async def _known(self, entry: _Entry) -> Opening:
        """There is such a call."""
        history = await self._home.writer.ask(lambda connection: _history(connection, self.id, entry.call_id))
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
            await entry.resume(history, history.closed)
            return Opening(entry, given=result, given_by="work")
        return await self._recovered(entry, history, cast(ToolFailure, result))

    async def _recovered(self, entry: _Entry, history: History, result: ToolFailure) -> Opening:
        """The crash left it without a result: may it be made again?"""
        tool, code = entry.asked.tool, result.error.code
        again = code == TOOL_ABORTED_BEFORE_DISPATCH
        if code == TOOL_ABORTED and tool is not None:
            again = history.effects in _REPEATABLE and tool.effects in _REPEATABLE
            if not again and tool.reconcile is not None:
                found = await self._reconciled(entry, tool)
                if isinstance(found, ToolSuccess | ToolFailure):
                    await entry.resume(history)
                    if isinstance(found, ToolSuccess):
                        found = admitted(found, tool.output, tool.name, body="finished")
                    outcome = attrs.evolve(found, body="finished")
                    await entry.record("ended", {"by": "reconcile"}, outcome)
                    return Opening(entry, given=outcome, given_by="work")
                again = found == "did-not-happen"
        if again:
            await entry.resume(history)
            return Opening(entry)
        return Opening(given=result)

    async def _reconciled(self, entry: _Entry, tool: ToolDefinition) -> Reconciled:
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


class _Entry:
    """The records of one call."""

    def __init__(self, home: Home, conversation: str, asked: Asked) -> None:
        self._home = home
        self._conversation = conversation
        self._key = conversation, asked.request.id
        self.asked = asked
        self.call_id: str = asked.request.id
        self._run = 0
        self._attempts = 0
        self._announced = asked.at_once  # whether the first attempt is recorded by now
        self.effects: str = "mutating" if asked.tool is None else asked.tool.effects

    @property
    def idempotency_key(self) -> str:
        name = f"{self._conversation}\0{self.call_id}"
        return str(uuid.uuid5(uuid.UUID(self._home.journal_id), name))

    def digest(self) -> str:
        """Of name and arguments; keyed, so that nobody guesses redacted ones from it."""
        told = canonical([self.asked.request.name, _plain(self.asked.request)]).encode()
        return hashlib.blake2b(told, key=self._home.journal_id.encode(), digest_size=16).hexdigest()

    def beginning(self) -> list[Row]:
        """The first records."""
        request = self.asked.request
        arguments = _plain(request)
        data = {
            "name": request.name,
            "arguments": self._redacted("arguments", arguments),
            "digest": self.digest(),
            "effects": self.effects,
            "root": request.root_id,
            "agent": request.agent,
        }
        rows = [self._row("call", 0, data)]
        if self._announced:
            rows.append(self._row("dispatched", 1, {}))
        return rows

    async def resume(self, history: History, outcome: Event | None = None) -> None:
        """It is made once more; or answered, with an outcome that was recorded in a run before."""
        self._run, self._attempts, self._announced = history.run + 1, history.attempts, False
        rows = [self._row("resumed", self._run, {"effects": self.effects})]
        if outcome is not None:
            rows.append(self._row("ended", self._run, {"by": "recovery", "result": outcome.data["result"]}))
        await self._home.writer.insert(rows)

    async def given_up(self, error: BaseException) -> None:
        """It has begun, and will not be made now: close it as recovery would. Raises nothing; a failure is logged."""
        try:
            history = await self._home.writer.ask(lambda connection: _history(connection, *self._key))
            data = history.conclusion(CancelCause(source="interrupt", reason=type(error).__name__))
            await self._home.writer.insert([self._row("result", self._run, data)])
        except Exception:
            _log.exception("call %r of conversation %r stays open until the journal is opened again", *self._key[::-1])

    async def approved(self) -> None:
        await self._home.writer.insert([self._row("approval", self._run, {})])

    async def dispatched(self, tool: ToolDefinition, /) -> None:
        self._attempts += 1
        announced, self._announced = self._announced, False
        other = tool.effects != self.effects  # another tool has taken the name since the call began
        if announced and not other:
            return
        self._attempts += announced
        self.effects = tool.effects
        rows = [self._row("dispatched", self._attempts, {"effects": self.effects} if other else {})]
        if self.effects == "read-only":
            self._home.writer.insert_soon(rows)
        else:
            await self._home.writer.insert(rows)

    async def ended(self, result: ToolResult) -> None:
        await self._tell("ended", {"by": "live"}, result)

    async def closed(self, result: ToolResult) -> None:
        await self._tell("result", {"by": "live", "judged": True}, result)

    async def record(self, kind: str, data: dict[str, Any], result: ToolResult) -> None:
        """An outcome of this run."""
        told = {**data, "result": self._redacted("result", encoded(result))}
        _must_be_a_result(told["result"])
        await self._home.writer.insert([self._row(kind, self._run, told)])

    async def _tell(self, kind: str, data: dict[str, Any], result: ToolResult) -> None:
        try:
            await self.record(kind, data, result)
        except Exception:
            _log.exception(
                "the %s of call %r in conversation %r is NOT recorded: after a crash it counts as %s",
                kind,
                self.call_id,
                self._conversation,
                TOOL_ABORTED if self._attempts else TOOL_ABORTED_BEFORE_DISPATCH,
            )

    def _redacted(self, kind: str, data: Any) -> Any:
        return data if self._home.redact is None else self._home.redact(kind, data)

    def _row(self, kind: str, number: int, data: object) -> Row:
        return row(self._conversation, self.call_id, kind, number, self._home.epoch, data)


def _must_be_a_result(data: Any) -> None:
    try:
        decoded(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TypeError(f"redact must keep the form of a result, and change texts in it only: {error!r}") from error


def _must_be_an_answer(answer: object) -> Reconciled:
    if isinstance(answer, ToolSuccess | ToolFailure) or answer in ("did-not-happen", "unknown"):
        return answer
    discard(answer)
    raise TypeError(f"reconcile must return a ToolResult, 'did-not-happen' or 'unknown', not {answer!r}")


def _plain(request: ToolCall) -> object:
    """The arguments as JSON; of those that are none, what is wrong with them."""
    if isinstance(request.arguments, Malformed):
        return {"malformed": request.arguments.reason}
    try:
        return thaw(cast(Any, request.arguments))
    except NotJsonError as error:
        return {"malformed": str(error)}


def _history(connection: sqlite3.Connection, conversation: str, call: str) -> History:
    (history,) = histories(events(connection.execute(SELECT_CALL, (conversation, call)))).values()
    return history


def _duplicate(message: str) -> Opening:
    return Opening(given=ToolFailure.from_message(message, code=DUPLICATE_CALL), given_by="refusal")


def _refused(error: Exception) -> Opening:
    message = str(error) if isinstance(error, JournalFailedError) else f"it cannot be recorded: {error!r}"
    return Opening(given=ToolFailure.from_message(message, code=JOURNAL_FAILED), given_by="refusal")
