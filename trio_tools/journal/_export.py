"""A journal as text: JSON lines, for other programs, and for what is left of a damaged file.

The first line tells the format, ``{"format": "trio_tools.journal", "version": 1}``; each further line is one record
with the columns of :mod:`trio_tools.journal._format` but its checksum. ``data`` of a ``call``: ``name``, ``arguments``,
``digest``, ``effects``, ``root``, ``agent``; of ``dispatched``: ``effects``, if they are those of another tool, which
has taken the name meanwhile; of ``ended``: ``result`` and ``by`` (``live``, ``reconcile``, ``recovery``: it was
recorded in a run before); of ``result``: ``result``, ``by`` (``live``, ``recovery``) and ``judged``; of ``resumed``:
``effects``; of ``approval``: nothing. ``arguments`` that were none are ``{"malformed": why}``.

A ``result`` is an object: ``is_error``, and the fields of a :class:`ToolSuccess` (``value``, ``content``, ``meta``,
``contexts``, ``concludes_turn``, ``body``) or of a :class:`ToolFailure` (``error``, ``content``, ``meta``,
``contexts``, ``body``, ``cause``, ``partial``, ``superseded``). Content blocks have the form that they have in the
Model Context Protocol.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trio_tools.journal._database import damage, reading, real
from trio_tools.journal._failures import JournalDamagedError, JournalError
from trio_tools.journal._format import SELECT, SELECT_BETWEEN, VERSION, canonical, events
from trio_tools.journal._lock import high_water_of

__all__ = ["export"]


def _readable(connection: sqlite3.Connection, path: Path, wrong: list[str]) -> Iterator[tuple[Any, ...]]:
    """The records that can be read, in order: what stands on pages that are damaged is passed over."""
    try:
        ((last,),) = connection.execute("SELECT max(seq) FROM event").fetchall()
    except sqlite3.DatabaseError:
        last = high_water_of(real(path))
    todo = [(1, last or 0)]
    while todo:
        first, last = todo.pop()
        try:
            for row in connection.execute(SELECT_BETWEEN, (first, last)):
                yield row
                first = row[0] + 1
        except sqlite3.DatabaseError as error:
            if str(error) not in wrong:
                wrong.append(str(error))
            if first < last:
                middle = (first + last) // 2
                todo += [(middle + 1, last), (first, middle)]


def export(path: str | os.PathLike[str], conversation: str | None = None, *, salvage: bool = False) -> Iterator[str]:
    """The lines, without their ends. Reads at any time, whoever owns the journal; blocks.

    Args:
        path: The file.
        conversation: Only this one.
        salvage: Give what is sound of a damaged file, and last a line ``{"damage": [...]}`` that says what is wrong. A
            call in it without a result counts as ``ABORTED``: its mark may be among what is lost.

    Raises:
        JournalError: If there is no journal, or of another format; or, behind the first line, no such conversation in
            it, unless ``salvage`` is given.
        JournalDamagedError: If it is not whole, unless ``salvage`` is given.
    """
    yield canonical({"format": "trio_tools.journal", "version": VERSION})
    wrong: list[str] = []
    found = conversation is None
    try:
        with reading(Path(path), salvage=salvage) as connection:
            for row in _readable(connection, Path(path), wrong) if salvage else connection.execute(SELECT):
                try:
                    (event,) = events([row])
                except JournalDamagedError as error:
                    if not salvage:
                        raise
                    wrong.append(str(error))
                    continue
                if conversation in (None, event.conversation):
                    found = True
                    yield canonical(event._asdict())
            wrong += filter(None, [damage(connection, Path(path))])
    except JournalDamagedError as error:  # what is behind it cannot be read
        if not salvage:
            raise
        wrong.append(str(error))
    if not (found or salvage):
        raise JournalError(f"{path} has no conversation {conversation!r}: see those that it has with list")
    if salvage:
        yield canonical({"damage": wrong})
