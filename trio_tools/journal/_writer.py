"""The one thread that writes: everything that waits is committed together."""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar, cast

import attrs
import trio

from trio_tools.journal._failures import ConflictError, JournalFailedError
from trio_tools.journal._format import INSERT, Row

__all__ = ["Writer"]

T = TypeVar("T")

_MOST = 4_096  # requests in one commit


@attrs.define(eq=False)
class _Request:
    """Rows to be written, or something to be asked of the connection."""

    rows: Sequence[Row] = ()
    ask: Callable[[sqlite3.Connection], object] | None = None
    done: trio.Event | None = None  # of who waits; None: nobody does
    answer: object = None
    error: BaseException | None = None

    def is_done(self) -> bool:
        """Whether it was carried out, and without an error."""
        return self.done is not None and self.done.is_set() and self.error is None


class Writer:
    """Owns the connection, in a thread of its own.

    Args:
        connection: Open, in no transaction.
        note: Told of the last sequence number after each commit that is on disk.
        over: Called in the thread when it has written everything and closed the connection, however late that is.
        patience: Seconds of real time that a request may take, > 0; then the journal has failed.
    """

    def __init__(
        self, connection: sqlite3.Connection, note: Callable[[int], None], over: Callable[[], None], patience: float
    ) -> None:
        self._connection = connection
        self._note = note
        self._end = over
        self._patience = patience
        self._queue: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._token = trio.lowlevel.current_trio_token()
        self._over = trio.Event()
        self._closed = False
        self.failure: JournalFailedError | None = None
        threading.Thread(target=self._serve, name="trio_tools: writes a journal", daemon=True).start()

    async def insert(self, rows: Sequence[Row], written: Callable[[], None] | None = None) -> None:
        """Have rows written; all or none. They are on disk when this returns. A checkpoint that is shielded.

        An interrupt is raised when it is known whether they are.

        Args:
            rows: The rows.
            written: Called when they are on disk, also if an interrupt is raised then.

        Raises:
            ConflictError: If there is such a record already.
            JournalFailedError: If it failed, now or before, or took too long. Whether they are on disk is unknown.
        """
        request = _Request(rows=rows)
        try:
            await self._wait_for(request)
        finally:
            if written is not None and request.is_done():
                written()

    def insert_soon(self, rows: Sequence[Row]) -> None:
        """Have rows written with whatever is written next; nobody is told if that fails.

        Raises:
            JournalFailedError: If the journal has failed before.
        """
        self._put(_Request(rows=rows))

    async def ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Call a function with the connection, outside of a transaction. A checkpoint that is shielded.

        Raises:
            JournalFailedError: As above.
            Exception: What the function raises.
        """
        return cast(T, await self._wait_for(_Request(ask=question)))

    async def aclose(self) -> None:
        """Write what waits, and close the connection. A checkpoint that is shielded, and no longer than patience."""
        self._closed = True
        self._queue.put(None)
        await self._in_time(self._over)

    async def _wait_for(self, request: _Request) -> object:
        request.done = trio.Event()
        self._put(request)
        try:
            await self._in_time(request.done)
        finally:
            if not request.done.is_set():
                self._failed(f"a write has taken more than {self._patience:g} seconds")
        if not request.done.is_set():
            raise cast(JournalFailedError, self.failure)
        if request.error is not None:
            raise request.error
        return request.answer

    async def _in_time(self, event: trio.Event) -> None:
        """Wait for it, no longer than patience allows. A virtual clock may jump: real time counts."""
        began, interrupt = time.monotonic(), None
        while not event.is_set() and time.monotonic() - began < self._patience:
            try:
                with trio.CancelScope(shield=True, deadline=trio.current_time() + self._patience):
                    await event.wait()
            except KeyboardInterrupt as error:  # raised below, when it is known what came of it
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _put(self, request: _Request) -> None:
        if self.failure is not None:
            raise JournalFailedError(str(self.failure))
        if self._closed:
            raise JournalFailedError("the journal is closed: make calls within its block")
        self._queue.put(request)

    def _failed(self, reason: str) -> None:
        if self.failure is None:
            text = "it takes nothing more; open it again, and what was going on is told of"
            self.failure = JournalFailedError(f"the journal has failed: {reason}; {text}")

    # ---- in the thread -----------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        goes_on = True
        while goes_on:
            waiting = [self._queue.get()]
            with suppress(queue.Empty):
                while len(waiting) < _MOST:
                    waiting.append(self._queue.get_nowait())
            goes_on = None not in waiting
            requests = [one for one in waiting if one is not None]
            self._carry_out(requests)
            self._wake([one.done for one in requests if one.done is not None])
        with suppress(sqlite3.Error):
            self._connection.close()
        self._end()
        self._wake([self._over])

    def _wake(self, events: Sequence[trio.Event]) -> None:
        def wake() -> None:
            for event in events:
                event.set()

        with suppress(trio.RunFinishedError):  # nobody waits any more
            self._token.run_sync_soon(wake)

    def _carry_out(self, requests: Sequence[_Request]) -> None:
        writes = [one for one in requests if one.ask is None]
        if writes and not self._written(writes):
            for one in writes:  # one of them is in conflict: which?
                if len(writes) == 1 or not self._written([one]):
                    one.error = ConflictError("there is such a record already")
        for one in requests:
            if one.ask is not None:
                try:
                    one.answer = one.ask(self._connection)
                except sqlite3.IntegrityError as error:  # refused, and nothing has changed
                    one.error = error
                except (sqlite3.Error, OSError) as error:
                    self._failed(f"{type(error).__name__}: {error}")
                    one.error = self.failure
                except BaseException as error:  # handed to who asked
                    one.error = error

    def _written(self, requests: Sequence[_Request]) -> bool:
        """Commit all of them together; false if one is in conflict with what is there."""
        connection, rows = self._connection, [row for one in requests for row in one.rows]
        if self.failure is None:
            try:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    cursors = [connection.execute(INSERT, row) for row in rows]
                except sqlite3.IntegrityError:
                    connection.execute("ROLLBACK")
                    return False
                connection.execute("COMMIT")
                self._note(cursors[-1].lastrowid or 0)
            except Exception as error:
                # A sync that failed cannot be repeated: the system may have dropped what it could not write.
                self._failed(f"{type(error).__name__}: {error}")
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
        for one in requests:
            one.error = self.failure
        return True
