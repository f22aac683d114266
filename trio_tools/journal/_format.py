"""The file: one SQLite database, events that are only ever added, each with a checksum.

Version 1. A table ``meta`` (``journal_id``, ``epoch``) and a table ``event``:

=============  ========================================================================================================
seq            the only order; the clock is for people
conversation,  whose call it is
call
kind           ``call`` (asked for), ``approval`` (a person allowed it), ``dispatched`` (its body is about to be
               entered), ``ended`` (its outcome, not yet judged), ``result`` (what it was answered with), ``resumed``
               (it is made once more)
number         ``dispatched``: the number of the attempt, from 1; all others: of the run, 0 and then one more for each
               ``resumed``
epoch          how often the journal had been opened
wall           seconds since 1970
data           a JSON object, see :mod:`trio_tools.journal._export`
crc            CRC-32 of all that, so that damage does not pass for a record
=============  ========================================================================================================
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from trio_tools.journal._failures import JournalDamagedError

__all__ = [
    "APPLICATION_ID",
    "INSERT",
    "MIGRATIONS",
    "SCHEMA",
    "SELECT",
    "SELECT_BETWEEN",
    "SELECT_CALL",
    "SELECT_CONVERSATION",
    "VERSION",
    "Event",
    "Row",
    "canonical",
    "events",
    "row",
]

APPLICATION_ID = 0x54544A4C  # "TTJL"
VERSION = 1
SELECT = "SELECT seq, conversation, call, kind, number, epoch, wall, data, crc FROM event ORDER BY seq"
SELECT_CALL = """SELECT seq, conversation, call, kind, number, epoch, wall, data, crc FROM event
    WHERE conversation = ? AND call = ? ORDER BY seq"""
SELECT_CONVERSATION = """SELECT seq, conversation, call, kind, number, epoch, wall, data, crc FROM event
    WHERE conversation = ? ORDER BY seq"""
SELECT_BETWEEN = """SELECT seq, conversation, call, kind, number, epoch, wall, data, crc FROM event
    WHERE seq BETWEEN ? AND ? ORDER BY seq"""
INSERT = "INSERT INTO event (conversation, call, kind, number, epoch, wall, data, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    """CREATE TABLE event (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation TEXT NOT NULL,
        call TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('call', 'approval', 'dispatched', 'ended', 'result', 'resumed')),
        number INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        wall REAL NOT NULL,
        data TEXT NOT NULL,
        crc INTEGER NOT NULL
    ) STRICT""",
    "CREATE UNIQUE INDEX event_once ON event (conversation, call, kind, number)",
    """CREATE TRIGGER event_never_changes BEFORE UPDATE ON event
        BEGIN SELECT RAISE(ABORT, 'events are only ever added'); END""",
)

MIGRATIONS: dict[int, Sequence[str]] = {}
"""The statements that bring a file of a version to the next one; all are executed together, or none."""

Row = tuple[str, str, str, int, int, float, str, int]
"""All columns but ``seq``."""


class Event(NamedTuple):
    """One record, read and found sound."""

    seq: int
    conversation: str
    call: str
    kind: str
    number: int
    epoch: int
    wall: float
    data: dict[str, Any]


def canonical(value: object) -> str:
    """JSON in which equal values are equal text."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))


def row(conversation: str, call: str, kind: str, number: int, epoch: int, data: object) -> Row:
    """One record, to be written."""
    wall, text = time.time(), canonical(data)
    crc = _crc(conversation, call, kind, number, epoch, wall, text)
    return conversation, call, kind, number, epoch, wall, text, crc


def events(rows: Iterable[tuple[Any, ...]]) -> Iterator[Event]:
    """Records as they were read.

    Raises:
        JournalDamagedError: At the first one that is not as it was written.
    """
    for seq, *columns, crc in rows:
        if _crc(*columns) != crc:
            advice = "read what is sound with python -m trio_tools.journal export --salvage"
            raise JournalDamagedError(f"record {seq} is damaged: {advice}")
        conversation, call, kind, number, epoch, wall, text = columns
        yield Event(seq, conversation, call, kind, number, epoch, wall, json.loads(text))


def _crc(*columns: object) -> int:
    return zlib.crc32("\0".join(map(repr, columns)).encode(errors="surrogatepass"))
