"""Work that Python cannot simply stop: commands, and functions that compute, as processes that are gone in the end.

A command gets a session, and so a process group, of its own: Ctrl-C at a terminal does not reach it. When it has ended,
its time is over, or the caller is cancelled, all that is left of it is told to end (SIGTERM), is killed (SIGKILL) after
a grace, and waited for. What that is depends on the platform:

* On Linux its process group, every descendant in whatever session, and every daemon that has kept its environment,
  which carries a mark, ``TRIO_TOOLS_COMMANDS``. Out of reach are daemons that have left group, session and parents
  *and* whose mark cannot be read, as they drop it, or as they forbid that anybody reads it (``ssh-agent`` does, and all
  that cannot be traced; root reads it still). Processes of other users cannot be killed: those are told of.
* On macOS and other Unixes its process group. What has left that is not found. Written, and not tested.
* On Windows what ``taskkill /T`` takes for the tree. Written, and not tested.

Timeouts and graces are measured on Trio's clock. A :class:`trio.testing.MockClock` with ``autojump_threshold`` sees a
program that waits for a process as idle, and jumps: there they are over at once.
"""

from trio_tools.process._command import STILL_RUNNING, CommandResult, run_command
from trio_tools.process._shell_tool import ENVIRONMENT, NOT_STARTED, ShellValue, shell_tool
from trio_tools.process._worker import WORKER_DIED, run_in_process

__all__ = [
    "ENVIRONMENT",
    "NOT_STARTED",
    "STILL_RUNNING",
    "WORKER_DIED",
    "CommandResult",
    "ShellValue",
    "run_command",
    "run_in_process",
    "shell_tool",
]
