"""The records of one call: how each is made, and written."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import uuid
from collections.abc import Callable, Sequence
from typing import Any, cast

import attrs

from trio_tools._json import NotJsonError, thaw
from trio_tools._recording import Asked
from trio_tools._request import Malformed, ToolCall
from trio_tools._results import TOOL_ABORTED, TOOL_ABORTED_BEFORE_DISPATCH, CancelCause, ToolResult
from trio_tools._tool import ToolDefinition
from trio_tools.journal._codec import decoded, encoded
from trio_tools.journal._failures import JournalFailedError
from trio_tools.journal._format import SELECT_CALL, Row, canonical, events, row
from trio_tools.journal._recovery import History, histories
from trio_tools.journal._writer import Writer

__all__ = ["CallRecords", "Home"]

_log = logging.getLogger("trio_tools.journal")
_TOLD = {"ended": "outcome", "result": "result"}


@attrs.frozen(eq=False)
class Home:
    """What conversations share."""

    writer: Writer
    journal_id: str
    epoch: int
    redact: Callable[[str, Any], Any] | None


class CallRecords:
    """The records of one call.

    Attributes:
        asked: The call.
        beginning: Its first records.
        is_open: Whether it is recorded that it is being made.

    Raises:
        Exception: What ``redact`` raises, or ``ValueError`` if the arguments cannot be written.
    """

    def __init__(self, home: Home, conversation: str, asked: Asked) -> None:
        self._home = home
        self._conversation = conversation
        self._key = conversation, asked.request.id
        self.asked = asked
        self.call_id: str = asked.request.id
        self._run = 0
        self._attempts = 0
        self._has_outcome = False  # recorded
        self._announced = asked.at_once  # whether the first attempt is recorded by now
        self.effects: str = "mutating" if asked.tool is None else asked.tool.effects
        self.beginning: Sequence[Row] = self._beginning()
        self.is_open = False

    @property
    def idempotency_key(self) -> str:
        name = f"{self._conversation}\0{self.call_id}"
        return str(uuid.uuid5(uuid.UUID(self._home.journal_id), name))

    def digest(self) -> str:
        """Of name and arguments; keyed, so that nobody guesses redacted ones from it."""
        told = canonical([self.asked.request.name, _plain(self.asked.request)]).encode()
        return hashlib.blake2b(told, key=self._home.journal_id.encode(), digest_size=16).hexdigest()

    def _beginning(self) -> list[Row]:
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

    async def begin(self) -> None:
        """Record that it is to be made."""
        await self._home.writer.insert(self.beginning, self._opened)

    def _opened(self) -> None:
        self.is_open = True

    async def history(self) -> History:
        """What was recorded of it; something was."""
        return await self._home.writer.ask(lambda connection: _history(connection, *self._key))

    async def resume(self, history: History, outcome: dict[str, Any] | None = None) -> None:
        """It is made once more; or answered, with an outcome that is known, as data of its record."""
        self._run, self._attempts, self._announced = history.run + 1, history.attempts, False
        self._has_outcome = outcome is not None
        rows = [self._row("resumed", self._run, {"effects": self.effects})]
        if outcome is not None:
            rows.append(self._row("ended", self._run, outcome))
        await self._home.writer.insert(rows, self._opened)

    async def given_up(self, cause: CancelCause) -> None:
        """It is not being made, and has no result: close it as recovery would. Raises nothing; a failure is logged."""
        try:
            history = await self.history()
            history.attempts -= self._announced  # a mark that was written with the first record, and no body entered
            data = history.conclusion(cause)
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
        await self._tell("ended", result, by="live")

    async def closed(self, result: ToolResult) -> None:
        error = await self._tell("result", result, by="live", judged=True)
        if error is not None and not isinstance(error, JournalFailedError):  # a redact that has raised, as a rule
            reason = f"its result could not be recorded: {type(error).__name__}"
            await self.given_up(CancelCause(source="crash", reason=reason))

    async def withdrawn(self) -> None:
        await self.given_up(CancelCause(source="crash"))

    def told(self, result: ToolResult, **data: Any) -> dict[str, Any]:
        """A result as data of a record, redacted.

        Raises:
            Exception: What ``redact`` raises.
            TypeError: If it has not kept the form of a result.
        """
        told = self._redacted("result", encoded(result))
        _must_be_a_result(told)
        return {**data, "result": told}

    async def _tell(self, kind: str, result: ToolResult, **data: Any) -> Exception | None:
        """Record an outcome; one that cannot be is told of loudly, and the error comes back."""
        try:
            await self._home.writer.insert([self._row(kind, self._run, self.told(result, **data))])
            self._has_outcome = True
        except Exception as error:
            _log.exception(
                "the %s of call %r in conversation %r is NOT recorded: asked for again, it counts as %s",
                _TOLD[kind],
                self.call_id,
                self._conversation,
                self._counts_as(),
            )
            return error
        return None

    def _counts_as(self) -> str:
        if self._has_outcome:
            return "the outcome that was recorded, to be judged again"
        return TOOL_ABORTED if self._attempts else TOOL_ABORTED_BEFORE_DISPATCH

    def _redacted(self, kind: str, data: Any) -> Any:
        return data if self._home.redact is None else self._home.redact(kind, data)

    def _row(self, kind: str, number: int, data: object) -> Row:
        return row(self._conversation, self.call_id, kind, number, self._home.epoch, data)


def _must_be_a_result(data: Any) -> None:
    try:
        decoded(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TypeError(f"redact must keep the form of a result, and change texts in it only: {error!r}") from error


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
