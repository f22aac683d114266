"""Opening the file: is it there, is it ours, is it whole?"""

from __future__ import annotations

import os
import sqlite3
import sys
import uuid
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from trio_tools.journal._failures import JournalDamagedError, JournalError
from trio_tools.journal._format import APPLICATION_ID, MIGRATIONS, SCHEMA, SELECT, VERSION, Event, events
from trio_tools.journal._in_use import connect, unless_in_use
from trio_tools.journal._lock import high_water_of

__all__ = ["all_events", "connected", "damage", "meta", "must_be_there", "reading", "real", "refuse_strangers", "told"]

_MAGIC = b"SQLite format 3\0"
_LONGEST = 1e6  # seconds; SQLite counts them in milliseconds of 32 bits


def connected(path: Path, patience: float) -> sqlite3.Connection:
    """A connection that writes; a new file if there is none. Call it with the lock held. Blocks.

    ``patience``: seconds that it waits for a stranger who holds SQLite's own lock.

    Raises:
        JournalError: If the place or the format is wrong.
        JournalDamagedError: If it is not whole.
        sqlite3.Error, OSError: What else goes wrong, to be :func:`told`.
    """
    if not path.exists() or path.stat().st_size == 0:
        _must_be_meant_to_be_new(path)
        _make(path)
    _version_of(path)
    connection = connect(path, path, timeout=min(patience, _LONGEST), isolation_level=None, check_same_thread=False)
    connection.text_factory = _text
    try:
        _configure(connection, path)
        _must_be_whole(connection, path)
        _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def real(path: str | os.PathLike[str]) -> Path:
    """The file that a path names, wherever the program goes; what belongs to it is beside that, not beside a link."""
    return Path(os.path.realpath(path))


def refuse_strangers(path: Path) -> None:
    """See before anything is written, also beside it, whether a path may be that of a journal. Blocks.

    Raises:
        JournalError: If it is a directory, or another program's.
        JournalDamagedError: If it is no SQLite file.
    """
    if path.exists():
        must_be_there(path)
        if path.stat().st_size:
            _version_of(path)


@contextmanager
def reading(path: Path, *, salvage: bool = False) -> Generator[sqlite3.Connection]:
    """A connection that only reads, at any time, whoever owns the journal. Blocks.

    Args:
        path: The file.
        salvage: Do not insist that it is whole.

    Raises:
        JournalError: If there is no journal, or of another format.
        JournalDamagedError: If it is not whole.
    """
    path = real(path)
    try:
        must_be_there(path)
        version = VERSION if salvage else _version_of(path)
    except OSError as error:  # a name that is too long, a directory that may not be searched
        raise told(path, error) from error
    if version < VERSION:
        raise JournalError(f"{path} has an older version of the format: open it once, as recover does")
    try:
        with closing(_read_only(path)) as connection:
            if not salvage:
                _must_be_whole(connection, path)
            yield connection
    except sqlite3.Error as error:
        raise told(path, error) from error


def all_events(connection: sqlite3.Connection) -> list[Event]:
    """The records, in order.

    Raises:
        JournalDamagedError: If one of them is not as it was written.
    """
    return list(events(connection.execute(SELECT)))


def damage(connection: sqlite3.Connection, path: Path) -> str | None:
    """What is wrong with the file as a whole; ``None`` if nothing is."""
    ((found,),) = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if found != "ok":
        return str(found)
    high, last = high_water_of(path), _last_seq(connection)
    if last < high:
        return (
            f"records {last + 1} to {high} are lost: the file, or the write-ahead log beside it, is not the newest; "
            f"put that back, or delete {path.name}.lock to go on without them: what they tell of may be run again then"
        )
    return None


def meta(connection: sqlite3.Connection, key: str) -> str:
    """A value of the file's own."""
    ((value,),) = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchall()
    return str(value)


def _read_only(path: Path) -> sqlite3.Connection:
    quoted = path.resolve().as_uri()
    connection = connect(path, f"{quoted}?mode=ro", uri=True, isolation_level=None)
    try:
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except sqlite3.OperationalError:  # pragma: no cover - shown with a process of another user
        # Where nothing can be written, SQLite cannot make its index of the write-ahead log: none is needed without one.
        connection.close()
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            raise
        connection = connect(path, f"{quoted}?immutable=1", uri=True, isolation_level=None)
    connection.text_factory = _text
    return connection


def _text(written: bytes) -> str:
    """Text that is damaged too, as its checksum tells of that."""
    return written.decode(errors="surrogateescape")


def _configure(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA trusted_schema = OFF")
    wanted: dict[str, Any] = {"journal_mode": "wal", "synchronous": 2}  # 2: FULL
    for name, value in wanted.items():
        connection.execute(f"PRAGMA {name} = {value}")
        ((found,),) = connection.execute(f"PRAGMA {name}").fetchall()
        if found != value:
            raise JournalError(
                f"{path}: SQLite does not keep to {name} = {value} here, but has {found}: use another disk"
            )
    if sys.platform == "darwin":  # pragma: no cover - not tested
        connection.execute("PRAGMA fullfsync = ON")  # there fsync does not reach the disk


def _make(path: Path) -> None:
    """A new file: there as a whole, under its name, or not at all, whenever the power fails."""
    unfinished = path.with_name(path.name + ".new")
    for left in (unfinished, *(unfinished.with_name(unfinished.name + end) for end in ("-wal", "-shm", "-journal"))):
        left.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
            _configure(connection, unfinished)
            _create(connection)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # of an error in closing, nobody is told
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(unfinished, path)
    if os.name == "posix":  # pragma: no branch - Windows
        _sync_directory(path.parent)


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES ('journal_id', ?), ('epoch', '0')", (str(uuid.uuid4()),))
    connection.execute("COMMIT")


def _must_be_meant_to_be_new(path: Path) -> None:
    high = high_water_of(path)
    if high:
        raise JournalDamagedError(
            f"{path} is gone, and held {high} records: put it back, or delete {path.name}.lock too, to begin anew"
        )


def must_be_there(path: Path) -> None:
    """See whether a path may be that of a journal that is there.

    Raises:
        JournalError: If not.
    """
    if path.is_dir():
        raise JournalError(f"{path} is a directory: name a file in it")
    if not path.exists():
        raise JournalError(f"there is no journal {path}")
    if not path.is_file():
        raise JournalError(f"{path} is no regular file: name another one")
    if path.stat().st_nlink > 1:
        raise JournalError(f"{path} has other names, by which others might write to it: copy it, and use the copy")


def _version_of(path: Path) -> int:
    """That of its format, whoever has it open."""
    return unless_in_use(path, _must_be_ours) or VERSION  # who uses it has looked


def _must_be_ours(path: Path) -> int:
    """The version of its format. Nobody in this process may have it open."""
    must_be_there(path)
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error}") from error
    if not head.startswith(_MAGIC) or len(head) < 100:
        raise JournalDamagedError(f"{path} is no SQLite file, or its beginning is damaged")
    if (found := int.from_bytes(head[68:72], "big")) != APPLICATION_ID:
        raise JournalError(
            f"{path} is an SQLite file of another program (application id {found:#x}): name another file"
        )
    if (version := int.from_bytes(head[60:64], "big")) > VERSION:
        raise JournalError(
            f"{path} has version {version} of the format, and this is written for {VERSION}: install a newer trio-tools"
        )
    return version


def _must_be_whole(connection: sqlite3.Connection, path: Path) -> None:
    wrong = damage(connection, path)
    if wrong is not None:
        raise JournalDamagedError(
            f"{path} is damaged: {wrong}; read what is sound with python -m trio_tools.journal export --salvage"
        )


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the version of today."""
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    if version < VERSION:
        connection.execute("BEGIN IMMEDIATE")
        for old in range(version, VERSION):
            for statement in MIGRATIONS[old]:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")


def _last_seq(connection: sqlite3.Connection) -> int:
    rows = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'event'").fetchall()
    return int(rows[0][0]) if rows else 0


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def told(path: Path, error: sqlite3.Error | OSError) -> JournalError:
    """What the system or SQLite has said, of a journal."""
    kind = JournalDamagedError if type(error) is sqlite3.DatabaseError else JournalError
    return kind(f"{path}: {error}")
