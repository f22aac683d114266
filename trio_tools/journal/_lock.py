"""One owner at a time; and a note beside the file of how far it was, so that a loss is noticed.

SQLite takes a damaged or missing write-ahead log for the tail of a crash, and silently begins where it still reads
well. For a journal that is the unsafe direction: a mark that is gone says "never entered". So after each commit that is
on disk its last sequence number is written beside the file. That write itself is not synced: it can be behind the
file after a power cut, never ahead of it.
"""

from __future__ import annotations

import os
import struct
import weakref
import zlib
from pathlib import Path

from trio_tools.journal._failures import JournalBusyError, JournalError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None

__all__ = ["Lock", "high_water_of"]

_MARK = struct.Struct(">QI")  # sequence number, CRC-32 of it
_PID_AT = 16


class Lock:
    """Held by the owner of a journal until :meth:`release`, or until its process ends, however that comes.

    Raises:
        JournalBusyError: If somebody else holds it.
        JournalError: If the file beside the journal cannot be written.
    """

    def __init__(self, journal: Path) -> None:
        self.journal: Path = journal
        path = _beside(journal)
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(f"{path} cannot be written, which a journal needs: {error}") from error
        try:
            if fcntl is not None:  # pragma: no branch - Windows has no such lock
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._descriptor, 20, _PID_AT).decode(errors="replace").strip() or "unknown"
            os.close(self._descriptor)
            raise JournalBusyError(
                f"{journal} is open for writing already, in process {owner}: close it there, or read it with "
                "python -m trio_tools.journal"
            ) from error
        try:
            os.pwrite(self._descriptor, f"{os.getpid():<20}".encode(), _PID_AT)
        except OSError as error:
            os.close(self._descriptor)
            raise JournalError(f"{path} cannot be written, which a journal needs: {error}") from error
        self._held = True
        _held.add(self)

    def note(self, seq: int) -> None:
        """All up to ``seq`` is on disk."""
        os.pwrite(self._descriptor, _MARK.pack(seq, _crc(seq)), 0)

    def release(self) -> None:
        """Let the next owner in, once nothing more is noted: a number of a descriptor is soon another file's."""
        if self._held:
            self._held = False
            os.close(self._descriptor)


def high_water_of(journal: Path) -> int:
    """How far the journal was for certain; 0 if nothing is known."""
    try:
        with open(_beside(journal), "rb") as file:
            seq, crc = _MARK.unpack(file.read(_MARK.size))
    except (OSError, struct.error):
        return 0
    return seq if crc == _crc(seq) else 0


def _beside(journal: Path) -> Path:
    return journal.with_name(journal.name + ".lock")


def _crc(seq: int) -> int:
    return zlib.crc32(struct.pack(">Q", seq)) if seq else 1  # a file of zeros is no note


# A lock of this kind is shared with forked children, and held until the last of them has ended: they let it go.
_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _forget_in_child() -> None:  # pragma: no cover - in the child
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows does not fork
    os.register_at_fork(after_in_child=_forget_in_child)
