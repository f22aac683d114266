"""What this process holds: tasks, threads, descriptors, child processes. Two looks, compared, show what was left.

Descriptors and processes are read from ``/proc``, on Linux; elsewhere these two are not seen. Processes are our
children and theirs, and those whose parent has ended, as long as they have kept the environment that they were given.
"""

from __future__ import annotations

import os
import re
import signal
import stat
import threading
import time
from collections.abc import Generator, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import attrs
import trio

from trio_tools.process._census import MARK, census, is_available, last_pid, started_after
from trio_tools.process._tree import marked, new_mark

__all__ = ["Held", "Marked", "Snapshot", "described", "end_process", "ended", "family", "held"]

_DESCRIPTORS = "/proc/self/fd"
_TASKS = "/proc/{}/task"
_IDLE = re.compile(r"Trio thread \d+$")  # of Trio's cache, as it names those that have nothing to do
_ENDING = 0.05  # seconds that a thread which has nothing left to do may need to be gone
# Of the standard library's multiprocessing: they serve the program as long as it lives, whoever has needed them first.
_HELPERS = re.compile(rb"from multiprocessing\.(resource_tracker|forkserver) import")


@attrs.frozen
class Held:
    """One thing that is held.

    Attributes:
        kind: What it is.
        key: What tells it from all others.
        text: For people.
    """

    kind: Literal["task", "thread", "file", "socket", "process"]
    key: Hashable
    text: str = attrs.field(eq=False)

    def is_meant(self, text: str) -> bool:
        """Whether a breach's text, or that of a warning of Python's, is about this thing."""
        match self.key:
            case int(pid):
                return bool(re.search(rf"process {pid}\b", text))
            case (int(number), int(), int()):
                path = self.text.partition(" (")[0]
                by_number = re.search(rf"\b(fd|name)={number}\b", text)
                is_listed = "scandir" in text and os.path.isdir(path)
                return bool(by_number) or is_listed or self.text in text or f"'{path}'" in text
            case _:
                return self.text in text


@attrs.frozen
class Marked:
    """Processes by a mark in the environment that they have inherited, whosoever children they are now."""

    _mark: str = attrs.field(factory=new_mark, init=False)
    _since: int = attrs.field(factory=last_pid, init=False)

    @contextmanager
    def marking(self) -> Generator[Marked]:
        """Have what this process starts within the block carry the mark, on top of those that it carries itself."""
        before = os.environ.get(MARK)
        os.environ.update(marked({}, self._mark))
        try:
            yield self
        finally:
            os.environ.pop(MARK)
            if before is not None:
                os.environ[MARK] = before

    def held(self) -> Iterator[Held]:
        """Those that there are."""
        pids = started_after(self._since) if is_available() else []
        for pid in census(pids).with_mark(self._mark) if pids else ():
            yield from _process(pid)


def family(pid: int) -> tuple[int, ...]:
    """The processes by which one can be told to belong to another: its parent, its group and its session."""
    found = census([pid])
    return tuple(number for one in (*found.there, *found.zombies) for number in (one.parent, one.group, one.session))


@attrs.frozen(eq=False)
class Snapshot:
    """What was held at one time.

    Attributes:
        things: By their keys.
    """

    things: Mapping[Hashable, Held]
    _last_pid: int

    def since(self, before: Snapshot) -> list[Held]:
        """What was not held then."""
        return [self.things[key] for key in self.things.keys() - before.things.keys()]

    def processes(self, last: int) -> list[Held] | None:
        """The processes, if none has been started since, ``last`` being the pid that was given last."""
        if last == 0 or last != self._last_pid:
            return None
        return [one for one in self.things.values() if one.kind == "process"]


def held(before: Snapshot | None = None, marks: Marked | None = None) -> Snapshot:
    """Everything that is held now. Synchronous; to be called in a Trio task.

    Args:
        before: What need not be described again.
        marks: Also the processes that carry this mark.
    """
    last = last_pid()
    processes = None if before is None else before.processes(last)
    if processes is None:
        processes = [*_processes(os.getpid()), *(() if marks is None else marks.held())]
    known: Mapping[Hashable, Held] = {} if before is None else before.things
    return Snapshot(
        {one.key: one for one in (*_tasks(known), *_threads(known), *_descriptors(known), *processes)}, last
    )


def end_process(pid: int) -> None:
    """Kill a process that was left behind, so that a sweep does not fill the machine."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _tasks(known: Mapping[Hashable, Held]) -> Iterator[Held]:
    root = trio.lowlevel.current_root_task()
    todo = [] if root is None else [root]
    while todo:
        task = todo.pop()
        yield known.get(task) or Held("task", task, f"task {task.name}")
        for nursery in task.child_nurseries:
            todo.extend(nursery.child_tasks)


def _threads(known: Mapping[Hashable, Held]) -> Iterator[Held]:
    for thread in threading.enumerate():
        if _IDLE.match(thread.name):
            continue
        yield known.get(thread) or Held("thread", thread, f"thread {thread.name}")


def ended(left: Held, patience: float) -> bool:
    """Whether a thread that seemed to be left was about to end, or to let go of a descriptor. Blocks while it waits.

    Args:
        left: What seemed to be left.
        patience: Seconds for a descriptor: a thread of Trio's holds what it has worked with for a moment after it has
            told so, and on a busy machine that moment may be long.
    """
    match left.key:
        case threading.Thread() as thread:
            thread.join(_ENDING)
            return not thread.is_alive()
        case (int(number), int(), int()):
            until = time.monotonic() + patience
            while (is_open := _is_open(number, left.key)) and time.monotonic() < until:
                time.sleep(patience / 64)
            return not is_open
        case _:
            return False


def _descriptors(known: Mapping[Hashable, Held]) -> Iterator[Held]:
    try:
        names = os.listdir(_DESCRIPTORS)
    except OSError:
        return
    for name in names:
        try:
            status = os.fstat(int(name))
            key = _key(int(name), status)
            yield known.get(key) or Held("socket" if stat.S_ISSOCK(status.st_mode) else "file", key, _target(name))
        except OSError:  # that of the listing itself
            continue


def _key(number: int, status: os.stat_result) -> tuple[int, int, int]:
    return number, status.st_dev, status.st_ino


def _is_open(number: int, key: Hashable) -> bool:
    try:
        return _key(number, os.fstat(number)) == key
    except OSError:
        return False


def _target(descriptor: str) -> str:
    return f"{os.readlink(f'{_DESCRIPTORS}/{descriptor}')} (descriptor {descriptor})"


def _processes(parent: int) -> Iterator[Held]:
    for child in _children(parent):
        for one in _process(child):
            yield one
            yield from _processes(child)


def _process(pid: int) -> Iterator[Held]:
    """That one, unless it is a helper of the standard library's."""
    if not _HELPERS.search(_command(pid)):
        yield Held("process", pid, described(pid))


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for thread in os.listdir(_TASKS.format(pid)):
            with suppress(OSError), open(f"{_TASKS.format(pid)}/{thread}/children", "rb") as children:
                yield from map(int, children.read().split())


def described(pid: int) -> str:
    command = _command(pid).decode(errors="replace").strip()
    return f"process {pid} ({command or _state(pid)})"


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return b""


def _state(pid: int) -> str:
    """Of a process without a command line: it has ended, or has not yet become the program that it is to be."""
    try:
        _, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return "gone"
    return "ended, and not waited for" if rest.split()[0] == "Z" else "just started"
