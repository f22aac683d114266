"""Which processes there are, and which of them belong to a command. Linux only: it is read from ``/proc``.

What is read is described in proc(5): ``stat`` (state, parent, group, session) and ``environ``.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import attrs

__all__ = ["MARK", "Census", "One", "census", "is_available", "is_running", "last_pid", "started_after"]

MARK = "TRIO_TOOLS_COMMANDS"
"""The environment variable that a command, and all that it starts, is known by: a list of marks, by ``:``."""

_PROC = "/proc"
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of Linux, see the flags in proc(5)
# While a process becomes another program it has no environment: look again, after these seconds, before it is believed
# to have none; and longer if it has no arguments either, as a program that has begun always has.
_EXEC = 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064
_ENOUGH = 2


class One(NamedTuple):
    """A process that is more than a zombie."""

    pid: int
    parent: int
    group: int
    session: int


@functools.cache
def is_available() -> bool:
    """Whether processes can be counted here."""
    return os.path.exists(f"{_PROC}/self/stat")


@attrs.define(eq=False)
class Census:
    """Processes, as they were while they were counted.

    Attributes:
        there: All that were looked at, but for zombies, which wait only for their parents to notice.
    """

    there: list[One]
    _last_pid: int  # when the count began
    _marked: dict[str, set[int]] | None = None  # by mark; made when it is asked for

    def belonging(self, leader: int, mark: str) -> set[int]:
        """The pids of those that ``leader``, which may have ended, or one that it started, has started."""
        others = [one for one in self.there if one.pid != os.getpid()]
        members = {one.pid for one in others if leader in (one.pid, one.parent, one.group, one.session)}
        members |= self.with_mark(mark)
        while new := {one.pid for one in others if one.parent in members} - members:
            members |= new
        return members

    def is_exact(self) -> bool:
        """Whether no process has been started since the count began, so that nobody can have slipped through it.

        (Who is listed may start another one, and end, before it is looked at.) To be asked when all else has been.
        """
        return self._last_pid != 0 and last_pid() == self._last_pid

    def with_mark(self, mark: str) -> set[int]:
        """The pids of those that carry ``mark``."""
        if self._marked is None:
            self._marked = {}
            for one in self.there:
                for each in _marks_of(one.pid) if one.pid != os.getpid() else ():
                    self._marked.setdefault(each, set()).add(one.pid)
        return self._marked.get(mark, set())


def census(pids: Iterable[int] | None = None) -> Census:
    """All processes, or those of ``pids``."""
    last = last_pid()
    found = (_look_at(pid) for pid in (_pids() if pids is None else pids))
    return Census([one for one in found if one is not None], last)


def started_after(leader: int) -> list[int]:
    """Those that may have been started after ``leader``, lately: pids grow, until they begin anew."""
    last = last_pid()
    if last == leader:
        return []  # nothing has been started since, no thread either
    return [pid for pid in _pids() if pid > leader or last < leader]


def last_pid() -> int:
    """The pid that was given last; 0 if that cannot be read."""
    try:
        with open(f"{_PROC}/loadavg", "rb") as file:
            return int(file.read().split()[4])
    except (OSError, ValueError, IndexError):
        return 0


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is more than a zombie."""
    return _look_at(pid) is not None


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]


def _look_at(pid: int) -> One | None:
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None  # it is gone
    state, parent, group, session, flags, threads = *fields[:4], fields[6], int(fields[17])
    # One whose main thread has ended looks like a zombie, but for its other threads.
    if (state == b"Z" and threads < 2) or state == b"X" or int(flags) & _KERNEL_THREAD:
        return None
    return One(pid, int(parent), int(group), int(session))


def _marks_of(pid: int) -> list[str]:
    variables = _environment(pid)
    for look, pause in enumerate(() if variables else _EXEC):
        time.sleep(pause)
        variables = _environment(pid)
        if variables or (look >= _ENOUGH and _read(pid, "cmdline")):
            break
    for variable in variables.split(b"\0"):
        if variable.startswith(f"{MARK}=".encode()):
            return variable.decode(errors="replace").partition("=")[2].split(":")
    return []


def _environment(pid: int) -> bytes:
    """That of a process, or of its first thread that has one: the main thread may have ended before the others."""
    variables = _read(pid, "environ")
    with suppress(OSError):
        threads = [] if variables else os.listdir(f"{_PROC}/{pid}/task")
        variables = next(filter(None, (_read(int(one), "environ") for one in threads if int(one) != pid)), variables)
    return variables


def _read(pid: int, name: str) -> bytes:
    with suppress(OSError), open(f"{_PROC}/{pid}/{name}", "rb") as file:  # those of others are not for us to read
        return file.read()
    return b""
