"""A journal of calls, so that a crash is the last cancellation: afterwards each call has its one true result.

Before a body is entered, a mark is on disk; before :meth:`~trio_tools.ToolRegistry.execute` returns, the result is. So
when the program is killed, or the power fails, the next owner knows of each call what would be known after a
cancellation: ``ABORTED_BEFORE_DISPATCH`` (its body was never entered), ``ABORTED`` (it may have had effects), or the
result itself.
"""

from trio_tools.journal._conversation import Conversation
from trio_tools.journal._export import export
from trio_tools.journal._failures import JournalBusyError, JournalDamagedError, JournalError, JournalFailedError
from trio_tools.journal._journal import Journal, SqliteJournal, open_journal
from trio_tools.journal._listing import ConversationSummary, list_conversations
from trio_tools.journal._recovery import RecoveredCall

__all__ = [
    "Conversation",
    "ConversationSummary",
    "Journal",
    "JournalBusyError",
    "JournalDamagedError",
    "JournalError",
    "JournalFailedError",
    "RecoveredCall",
    "SqliteJournal",
    "export",
    "list_conversations",
    "open_journal",
]
