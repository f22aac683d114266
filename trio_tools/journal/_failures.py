"""What can go wrong with a journal, as exceptions that say what to do."""

from __future__ import annotations

from trio_tools._errors import ToolError
from trio_tools._results import JOURNAL_FAILED

__all__ = ["ConflictError", "JournalBusyError", "JournalDamagedError", "JournalError", "JournalFailedError"]


class JournalError(Exception):
    """A journal cannot be opened or read: its place, its format. Nothing was changed."""


class JournalBusyError(JournalError):
    """Another owner has the journal open for writing. Reading is possible at any time."""


class JournalDamagedError(JournalError):
    """The file, or its write-ahead log, is not what was written. ``export --salvage`` reads what is sound."""


class JournalFailedError(ToolError):
    """A write failed, or took too long. Whether it is on disk is unknown, so the journal takes nothing more."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=JOURNAL_FAILED)


class ConflictError(Exception):
    """There is such a record already; nothing was written."""
