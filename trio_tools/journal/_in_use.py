"""Which files this process has open through SQLite: to read one of these otherwise would cost SQLite its locks.

A lock of ``fcntl`` belongs to a process and a file: it is gone as soon as the process closes any descriptor of the
file. SQLite sees to it that its own connections do not close theirs too early, and cannot know of others.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["connect", "unless_in_use"]

T = TypeVar("T")

_changing = threading.Lock()
_users: Counter[Path] = Counter()


class _Connection(sqlite3.Connection):
    """One that is counted until it is closed."""

    file: Path | None = None

    def close(self) -> None:
        """Close it."""
        super().close()
        file, self.file = self.file, None
        if file is not None:
            with _changing:
                _users[file] -= 1


def connect(file: Path, database: Path | str, **options: Any) -> sqlite3.Connection:
    """Like :func:`sqlite3.connect`; ``database`` is that file, or names it. Close it: nothing else ends its use."""
    with _changing:
        _users[file] += 1
    try:
        connection = sqlite3.connect(database, factory=_Connection, **options)
    except BaseException:
        with _changing:
            _users[file] -= 1
        raise
    connection.file = file
    return connection


def unless_in_use(file: Path, look: Callable[[Path], T]) -> T | None:
    """What ``look`` says, which opens the file and closes it; ``None`` if it is in use. Blocks."""
    with _changing:
        return None if _users[file] else look(file)


def _begin_anew() -> None:  # pragma: no cover - in the child, which has none of its parent's locks
    _users.clear()
    _changing.release()


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows does not fork
    os.register_at_fork(before=_changing.acquire, after_in_parent=_changing.release, after_in_child=_begin_anew)
