"""A journal as text: JSON lines, for other programs, and for what is left of a damaged file.

The first line tells the format, ``{"format": "trio_tools.journal", "version": 1}``; each further line is one record
with the columns of :mod:`trio_tools.journal._format` but its checksum. ``data`` of a ``call``: ``name``, ``arguments``,
``digest``, ``effects``, ``root``, ``agent``; of ``dispatched``: ``effects``, if they are those of another tool, which
has taken the name meanwhile; of ``ended``: ``result`` and ``by`` (``live``, ``reconcile``, ``recovery``: it was
recorded in a run before); of ``result``: ``result``, ``by`` (``live``, ``recovery``) and ``judged``; of ``resumed``:
``effects``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trio_tools.journal._database import damage, reading
from trio_tools.journal._failures import JournalDamagedError, JournalError
from trio_tools.journal._format import SELECT, VERSION, canonical, events

__all__ = ["export"]


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
            for row in connection.execute(SELECT):
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
