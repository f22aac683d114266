"""A command and all that it has started: telling it to end, and waiting until it is gone."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import attrs
import trio

from trio_tools.process._census import MARK, Census, One, census, is_available, is_running, reap, started_after

__all__ = ["Tree", "end_marked", "marked", "new_mark", "own_group"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1  # seconds between two looks at what is to end
_GIVE_UP = 5.0  # seconds after KILL: what is there then waits for the kernel, or belongs to another user

_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # which Windows has not

# Nobody is believed to be there only when a count that is exact has found nobody, or so many of others have.
_COUNTS = 10
_LATELY = 5.0  # seconds in which pids, of which there are 32,768 at least, do not come round again

T = TypeVar("T")

_numbers = itertools.count(1)


def new_mark() -> str:
    """What tells the processes of one command from all others; to be put into its environment by :func:`marked`."""
    return f"{os.getpid()}-{next(_numbers)}-{os.urandom(4).hex()}"


def marked(environment: Mapping[str, str], mark: str) -> dict[str, str]:
    """An environment with that mark beside those of the commands that this process is part of itself."""
    around = environment.get(MARK) or os.environ.get(MARK)
    return {**environment, MARK: f"{around}:{mark}" if around else mark}


def own_group() -> dict[str, Any]:
    """Options of :class:`subprocess.Popen` for a process that is to have a group, and a session, of its own."""
    if sys.platform == "win32":  # pragma: no cover - not tested
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


class Tree:
    """The processes of one command, which was started with :func:`own_group` and :func:`marked`.

    On Linux these are its process group; all that it started and that is still a descendant, in whatever session; and
    what has left that line too (a daemon), as long as it kept the environment that it was given. Elsewhere it is the
    group, and on Windows what ``taskkill /T`` takes for the tree.
    """

    def __init__(self, process: trio.Process, mark: str) -> None:
        self._leader = process
        self._mark = mark
        self._began = time.monotonic()
        self._strays: dict[int, One] = {}  # members that have left the group
        self._seen: set[One] = set()  # all but the leader

    def is_over(self) -> bool:
        """Whether the command has ended and has left nobody behind. A quick look, not a checkpoint."""
        pid = self._leader.pid
        if self._leader.returncode is None or (self._group_exists() and (not is_available() or self._is_led(census()))):
            return False
        is_young = time.monotonic() - self._began < _LATELY
        for _ in range(_COUNTS if is_available() else 0):
            pids = started_after(pid) if is_young else None
            if pids == []:
                break
            counted = census(pids)
            if counted.belonging(pid, self._mark):
                return False
            self._reap(counted)
            if counted.is_exact():
                break
        return True

    async def end(self, grace: float) -> tuple[int, ...]:
        """Tell all of it to end, after ``grace`` seconds kill it, and wait until it is gone.

        A checkpoint; call it within a shield.

        Returns:
            The pids of those that are still there; none, if all is well.
        """
        for number, patience in ((signal.SIGTERM, grace), (_KILL, _GIVE_UP)):
            with trio.move_on_after(patience):
                await self._tell_until_gone(number)
                await self._leader.wait()
                for one in self._seen:
                    reap(one)
                return ()
        left = census().belonging(self._leader.pid, self._mark) if is_available() else set[int]()
        return tuple(sorted(left | ({self._leader.pid} if self._leader.poll() is None or not left else left)))

    async def _tell_until_gone(self, number: int) -> None:
        while await self._find():  # what has been started since is told too
            self._tell(number)
            pause = _FIRST_PAUSE
            while await self._is_there():
                await trio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _find(self) -> bool:
        """Look for all members; whether there are any."""
        if sys.platform == "win32":  # pragma: no cover - not tested
            return self._leader.poll() is None
        if not is_available():
            return self._leader.poll() is None or self._group_exists()
        return await _found(self._has_members)

    def _has_members(self, counted: Census) -> bool:
        members = counted.belonging(self._leader.pid, self._mark)
        here = {one for one in counted.there if one.pid in members and one.pid != self._leader.pid}
        self._seen |= here
        known = {pid: one for pid, one in self._strays.items() if is_running(one)}  # it may have lost its parent
        self._strays = known | {one.pid: one for one in here if one.group != self._leader.pid}
        self._reap(counted)
        return bool(members or known)

    def _tell(self, number: int) -> None:
        pid = self._leader.pid
        if sys.platform == "win32":  # pragma: no cover - not tested
            force = ["/F"] if number == _KILL else []
            words = ["taskkill", "/PID", str(pid), "/T", *force]
            subprocess.run(words, capture_output=True, check=False)  # noqa: S603 - nothing of it is from outside
            return
        for one in (number, signal.SIGCONT):  # what is stopped cannot end by itself
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, one)
            for stray in self._strays:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(stray, one)

    async def _is_there(self) -> bool:
        """Whether somebody whom we know of is still there."""
        if self._leader.poll() is None or any(map(is_running, self._strays.values())):
            return True
        return self._group_exists() and (not is_available() or self._is_led(await _common_census()))

    def _group_exists(self) -> bool:
        """Whether there is anybody in the group; a zombie, which waits only for its parent to notice, counts too."""
        if sys.platform == "win32":  # pragma: no cover - not tested
            return False
        try:
            os.killpg(self._leader.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True  # there is one, of another user
        return True

    def _reap(self, counted: Census) -> None:
        pid = self._leader.pid
        for one in counted.zombies:  # pragma: no cover - shown with a program of its own, to which orphans are given
            if one.pid != pid and pid in (one.group, one.session):
                reap(one)

    def _is_led(self, counted: Census) -> bool:
        return any(one.group == self._leader.pid for one in counted.there)


@attrs.define(eq=False)
class _Coming:
    """A census that somebody is about to take."""

    taken: trio.Event = attrs.field(factory=trio.Event)
    counted: Census | None = None


_coming: trio.lowlevel.RunVar[_Coming | None] = trio.lowlevel.RunVar("trio_tools: the next census", None)


async def _common_census() -> Census:
    """All processes, counted once for all who ask in the same step of the scheduler. A checkpoint that is shielded."""
    coming = _coming.get()
    if coming is None:
        coming = _Coming()
        _coming.set(coming)
        await trio.lowlevel.cancel_shielded_checkpoint()
        _coming.set(None)
        coming.counted = census()
        coming.taken.set()
    else:
        with trio.CancelScope(shield=True):
            await coming.taken.wait()
    return coming.counted or census()


async def _found(look: Callable[[Census], T]) -> T:
    """What ``look`` finds: nothing only if that is to be believed. A checkpoint that is shielded."""
    for _ in range(_COUNTS - 1):
        counted = await _common_census()
        if (found := look(counted)) or counted.is_exact():
            return found
    return look(await _common_census())


async def end_marked(mark: str, grace: float) -> None:
    """End all that carry ``mark``, as :meth:`Tree.end` does, for where there is no leader. A checkpoint; Linux only."""
    for number, patience in ((signal.SIGTERM, grace), (_KILL, _GIVE_UP)):  # pragma: no branch - KILL ends all of ours
        with trio.move_on_after(patience):
            pause = _FIRST_PAUSE
            while members := await _found(lambda counted: counted.with_mark(mark)) if is_available() else set[int]():
                for pid in members:
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
                await trio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            return
