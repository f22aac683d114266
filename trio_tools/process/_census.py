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

__all__ = ["MARK", "Census", "One", "census", "is_available", "is_running", "last_pid", "reap", "started_after"]

MARK = "TRIO_TOOLS_COMMANDS"
"""The environment variable that a command, and all that it starts, is known by: a list of marks, by ``:``."""

_PROC = "/proc"
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of Linux, see the flags in proc(5)
# While a process becomes another program it has no environment: look again, after these seconds, before it is believed
# to have none; and longer if it has no arguments either, as a program that has begun always has.
_EXEC = 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064
_ENOUGH = 2


class One(NamedTuple):
    """A process; ``began``, when the machine had run for so many ticks, tells it from others that have had its pid."""

    pid: int
    parent: int
    group: int
    session: int
    began: int


@functools.cache
def is_available() -> bool:
    """Whether processes can be counted here."""
    return os.path.exists(f"{_PROC}/self/stat")


@attrs.define(eq=False)
class Census:
    """Processes, as they were while they were counted.

    Attributes:
        there: All that were looked at, but for zombies, which wait only for their parents to notice.
        zombies: Those of which we are the parent.
    """

    there: list[One]
    zombies: list[One]
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
    found = [one for pid in (_pids() if pids is None else pids) if (one := _look_at(pid)) is not None]
    zombies = [one for one, is_there in found if not is_there and one.parent == os.getpid()]
    return Census([one for one, is_there in found if is_there], zombies, last)


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


def is_running(one: One) -> bool:
    """Whether it is still there, and more than a zombie."""
    found = _look_at(one.pid)
    return found is not None and found[1] and found[0].began == one.began


def reap(one: One) -> None:
    """If it is a zombie that has become our child, as its own parent has ended, let it go.

    That is so where this program is the first one of a container, or a subreaper, see prctl(2).
    """
    found = _look_at(one.pid)
    if found is not None and found[0].began == one.began and found[0].parent == os.getpid() and not found[1]:
        with suppress(ChildProcessError):
            os.waitpid(one.pid, os.WNOHANG)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()]


def _look_at(pid: int) -> tuple[One, bool] | None:
    """A process, and whether it is more than a zombie; ``None`` if there is none."""
    try:
        with open(f"{_PROC}/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None  # it is gone
    state, parent, group, session, flags, threads, began = *fields[:4], fields[6], int(fields[17]), int(fields[19])
    if state == b"X" or int(flags) & _KERNEL_THREAD:
        return None
    # One whose main thread has ended looks like a zombie, but for its other threads.
    is_there = state != b"Z" or threads > 1
    return One(pid, int(parent), int(group), int(session), began), is_there


def _marks_of(pid: int) -> list[str]:
    try:
        variables = _environment(pid)
        for look, pause in enumerate(() if variables else _EXEC):
            time.sleep(pause)
            variables = _environment(pid)
            if variables or (look >= _ENOUGH and _read(pid, "cmdline")):
                break
    except PermissionError:
        return []  # those of others are not for us to read
    for variable in variables.split(b"\0"):
        if variable.startswith(f"{MARK}=".encode()):
            return variable.decode(errors="replace").partition("=")[2].split(":")
    return []


def _environment(pid: int) -> bytes:
    """That of a process, or of its first thread that has one: the main thread may have ended before the others."""
    variables = _read(pid, "environ")
    threads: list[str] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        threads = [] if variables else os.listdir(f"{_PROC}/{pid}/task")
    return next(filter(None, (_read(int(one), "environ") for one in threads if int(one) != pid)), variables)


def _read(pid: int, name: str) -> bytes:
    """What is written there; nothing if the process is gone.

    Raises:
        PermissionError: If it is another user's.
    """
    try:
        with open(f"{_PROC}/{pid}/{name}", "rb") as file:
            return file.read()
    except PermissionError:
        raise
    except OSError:
        return b""
