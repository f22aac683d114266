"""A journal that is open for writing."""

from __future__ import annotations

import inspect
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import trio

from trio_tools._recording import Recorder
from trio_tools._text import is_well_formed
from trio_tools.journal._conversation import Conversation
from trio_tools.journal._database import all_events, connected, meta, real, refuse_strangers, told
from trio_tools.journal._entry import Home
from trio_tools.journal._failures import JournalFailedError
from trio_tools.journal._format import INSERT
from trio_tools.journal._lock import Lock
from trio_tools.journal._recovery import RecoveredCall, recovery
from trio_tools.journal._writer import Writer

__all__ = ["Journal", "SqliteJournal", "open_journal"]

_FOR_EVER = 1e9  # seconds: no program runs for as long, and every clock can add them


class Journal(Protocol):
    """Whatever keeps conversations."""

    def conversation(self, id: str, /) -> Recorder:
        """What a registry is given."""
        ...


class SqliteJournal:
    """A journal in one SQLite file; made by :func:`open_journal`.

    Attributes:
        path: The file.
        journal_id: Random, made with the file.
        epoch: How often it has been opened.
        recovered: The calls that the last owner left without a result, and what they have been given.
    """

    def __init__(self, path: Path, journal_id: str, epoch: int, recovered: Sequence[RecoveredCall], home: Home) -> None:
        self.path = path
        self.journal_id = journal_id
        self.epoch = epoch
        self.recovered: tuple[RecoveredCall, ...] = tuple(recovered)
        self._home = home

    @property
    def failure(self) -> JournalFailedError | None:
        """Why it takes nothing more; ``None`` if it does."""
        return self._home.writer.failure

    def conversation(self, id: str, /) -> Conversation:
        """What a registry is given: ``ToolRegistry(tools, journal=journal.conversation("user-17"))``.

        Raises:
            TypeError, ValueError: If the id is no text, or empty.
        """
        _must_be_a_name(id)
        return Conversation(id, self._home)

    async def prune(self, conversation: str) -> int:
        """Delete the records of a conversation; how many there were. A checkpoint that is shielded.

        Raises:
            TypeError, ValueError: If it is no name of one.
            ValueError: If a call of it is being made: nothing is deleted then.
            JournalFailedError: If the journal has failed.
        """
        _must_be_a_name(conversation)
        return await self._home.writer.ask(lambda connection: _pruned(connection, conversation))


@asynccontextmanager
@trio.lowlevel.enable_ki_protection  # not of the block: what is open is either handed over or closed
async def open_journal(
    path: str | os.PathLike[str],
    *,
    redact: Callable[[str, Any], Any] | None = None,
    patience: float = 30.0,
) -> AsyncGenerator[SqliteJournal]:
    """Open a journal for writing, or make a new one; and close what its last owner has left open. ::

        async with open_journal("agent.journal") as journal:
            registry = ToolRegistry(tools, journal=journal.conversation("user-17"))

    There is one owner at a time; one that has left stays it for as long as a disk that hangs is at work for it. Leave
    the block when the registry's calls have been answered: what they record afterwards fails. Entering and leaving are
    checkpoints; if ``Cancelled``, or an interrupt, comes out of entering, nothing is open.

    Args:
        path: The file. Beside it are made ``<path>.lock``, and while it is open ``<path>-wal`` and ``<path>-shm``. Keep
            it on a local disk. Its mode is 0600.
        redact: Called with ``"arguments"`` or ``"result"`` and the plain JSON of it before anything is written; what it
            returns is written instead, and of a result has the form of one. Replays give back what was written. If it
            raises for arguments, that call is not made; for a result, that is not recorded, which is
            told of loudly, and asked for again the call is one that was cut short.
        patience: Seconds of real time, > 0, that a write may take before the journal counts as failed. A clock of tests
            that jumps when nothing runs (``MockClock(autojump_threshold=...)``) moves on by as many at each write.

    Raises:
        JournalBusyError: If somebody has it open for writing.
        JournalDamagedError: If it is not whole.
        JournalError: If the place or the format is wrong; it says what to do.
        ValueError, TypeError: If an argument is not what it should be.
        RuntimeError: If the system has no thread left. Nothing is open then.
    """
    file = real(path)
    if redact is not None and (not callable(redact) or inspect.iscoroutinefunction(redact)):
        raise TypeError(f"redact takes a function of a kind and JSON, not {redact!r}")
    if isinstance(patience, bool) or not isinstance(patience, int | float) or not patience > 0:  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise ValueError(f"patience must be a positive number of seconds, not {patience!r}")
    patience = float(min(patience, _FOR_EVER))
    lock, connection, journal_id, epoch, recovered = await trio.to_thread.run_sync(_opened, file, patience)
    try:
        writer = Writer(connection, lock.note, lock.release, patience)
    except BaseException:  # the system has no thread left
        connection.close()
        lock.release()
        raise
    try:
        yield SqliteJournal(file, journal_id, epoch, recovered, Home(writer, journal_id, epoch, redact))
    finally:
        await writer.aclose()


def _must_be_a_name(id: object) -> None:
    if not isinstance(id, str):
        raise TypeError(f"a conversation is named by a str, not {id!r}")
    if not id or "\0" in id or not is_well_formed(id):
        raise ValueError(f"a conversation needs a name without NUL characters and lone surrogates, not {id!r}")


def _opened(path: Path, patience: float) -> tuple[Lock, sqlite3.Connection, str, int, Sequence[RecoveredCall]]:
    with ExitStack() as undo:
        try:
            refuse_strangers(path)
            lock = Lock(path)
            undo.callback(lock.release)
            connection = connected(path, patience)
            undo.callback(connection.close)
            journal_id, epoch = meta(connection, "journal_id"), int(meta(connection, "epoch")) + 1
            connection.execute("BEGIN IMMEDIATE")
            rows, recovered = recovery(all_events(connection), epoch)
            connection.executemany(INSERT, rows)
            connection.execute("UPDATE meta SET value = ? WHERE key = 'epoch'", (str(epoch),))
            connection.execute("COMMIT")
            if rows:
                ((last,),) = connection.execute("SELECT max(seq) FROM event").fetchall()
                lock.note(last)
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")  # the others wait for who reads
        except (sqlite3.Error, OSError) as error:
            raise told(path, error) from error
        undo.pop_all()
    return lock, connection, journal_id, epoch, recovered


def _pruned(connection: sqlite3.Connection, conversation: str) -> int:
    counts = "SELECT count(*) FILTER (WHERE kind IN ('call', 'resumed')), count(*) FILTER (WHERE kind = 'result')"
    ((begun, closed),) = connection.execute(f"{counts} FROM event WHERE conversation = ?", (conversation,)).fetchall()
    if begun > closed:
        raise ValueError(
            f"conversation {conversation!r} has calls that are being made: prune it when they are answered"
        )
    return connection.execute("DELETE FROM event WHERE conversation = ?", (conversation,)).rowcount
