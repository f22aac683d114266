"""The plan of a batch: which call may start now, which may enter its body, whose result is next.

Theory of operation. Calls *start* in call order, one at a time: each passes its gates (policies, a person, guards)
alone. A call that starts takes one of ``max_parallel`` slots; an exclusive one starts when all before it are committed,
and nothing starts beside it. Behind the gates a call needs its key, if it has one, and a permit, if calls of its name
are limited. One that must wait for these gives its slot back and queues. It gets a slot again, before calls that have
not started, as soon as it has its key and its name a permit; among several the earliest. Slot, key and permit are given
back together when the work is answered: by the wrappers, or by whatever kept the call from them. Results are committed
in call order, so a call that is answered early waits for those before it; it holds nothing then.

Nobody waits in a circle: keys are taken in call order, by calls that have passed their gates; who has a key waits for a
permit and a slot only, and who has these waits for nobody.

Pure and synchronous: nothing here runs, awaits or knows a call, all are numbers in call order. Every step costs about
the same, however many calls there are: a queued call that is cut is not searched for, it is passed over later.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from ._tool import Keyed

__all__ = ["Mode", "Planner"]

Mode: TypeAlias = Literal["exclusive", "parallel"] | Keyed

_Stage: TypeAlias = Literal["gates", "key", "slot", "body", "answered"]
"""Where a started call is: in its gates, queued for its key, queued for slot and permit, at work, or done with it."""


@attrs.define
class _Started:
    key: Keyed | None
    limited: str | None  # the name, if calls of that name are limited
    stage: _Stage = "gates"


class Planner:
    """The plan of one batch.

    Attributes:
        next: The first call that has not started.
        committed: How many calls are committed: the number of the one whose turn is next.
        stopped: No further call may start;
        halted: and none that queues may go to work.

    Args:
        size: How many calls there are.
        max_parallel: How many may be between their start and their answer, those that queue not counted.
        limits: For some names, how many calls of that name may be at work at once.
    """

    __slots__ = (
        "_alone", "_finished", "_free", "_in_gates", "_keys", "_permits", "_queues", "_started",
        "committed", "halted", "next", "size", "stopped",
    )  # fmt: skip

    def __init__(self, size: int, max_parallel: int, limits: Mapping[str, int]) -> None:
        self.size = size
        self.next: int = 0
        self.committed: int = 0
        self.stopped: bool = False
        self.halted: bool = False
        self._free = max_parallel  # slots
        self._permits = dict(limits)  # left
        self._alone = False  # an exclusive call is at work
        self._in_gates = False  # a call is in its gates
        self._started: dict[int, _Started] = {}  # and not finished
        self._keys: dict[Keyed, deque[int]] = {}  # who has it, and who queues for it
        self._queues: dict[str | None, list[int]] = {None: [], **{name: [] for name in limits}}  # heaps: for a slot
        self._finished = bytearray(size)

    @property
    def drained(self) -> bool:
        """Whether nothing that started is left, and nothing more will start."""
        return not self._started and (self.stopped or self.next == self.size)

    def may_start(self) -> bool:
        """Whether the next call may start, if it is not an exclusive one."""
        open_ = not (self.stopped or self._alone or self._in_gates)
        return open_ and self._free > 0 and self.next < self.size

    def start(self, mode: Mode, name: str) -> bool:
        """Start the next call, if one of its mode may now. It takes a slot, and is in its gates."""
        alone = mode == "exclusive"
        if alone and self.committed < self.next:
            return False
        self._started[self.next] = _Started(
            mode if isinstance(mode, Keyed) else None, name if name in self._permits else None
        )
        self._alone, self._in_gates = alone, True
        self._free -= 1
        self.next += 1
        return True

    def skip(self) -> None:
        """The next call is not to be executed: it is finished."""
        self._finished[self.next] = True
        self.next += 1

    def passed(self, index: int) -> bool:
        """A call has passed its gates. Whether it may go to work at once; else it queues, and will be granted."""
        one = self._started[index]
        self._in_gates = False
        if one.key is not None:
            holders = self._keys.setdefault(one.key, deque())
            holders.append(index)
            if holders[0] != index:
                one.stage = "key"
                self._free += 1
                return False
        if one.limited is not None and not self._permits[one.limited]:
            self._free += 1
            self._queue(index, one)
            return False
        self._work(one)
        return True

    def granted(self) -> int | None:
        """The earliest queued call that may go to work now: it does, and has a slot again. ``None``: there is none."""
        if self.halted or not self._free:
            return None
        heads: list[tuple[int, str | None]] = []
        for name, queue in self._queues.items():
            while queue and not self._is_at(queue[0], "slot"):
                heapq.heappop(queue)
            if queue and (name is None or self._permits[name]):
                heads.append((queue[0], name))
        if not heads:
            return None
        index, name = min(heads, key=lambda head: head[0])
        heapq.heappop(self._queues[name])
        self._free -= 1
        self._work(self._started[index])
        return index

    def answered(self, index: int) -> None:
        """The work of a call is answered, or it was kept from working: it gives back what it has."""
        one = self._started[index]
        stage, one.stage = one.stage, "answered"
        if stage == "gates":
            self._in_gates = False
        if stage in ("gates", "body"):
            self._free += 1
        if stage == "body" and one.limited is not None:
            self._permits[one.limited] += 1
        if one.key is not None and stage in ("slot", "body"):
            self._hand_on(one.key)

    def finish(self, index: int) -> None:
        """A call has its result."""
        self.answered(index)
        del self._started[index]
        self._finished[index] = True

    def commit(self) -> int | None:
        """The next call in call order if it has its result: it is committed. ``None`` if it has none yet."""
        index = self.committed
        if index == self.next or not self._finished[index]:
            return None
        self.committed += 1
        if self.committed == self.next:
            self._alone = False
        return index

    def _work(self, one: _Started) -> None:
        one.stage = "body"
        if one.limited is not None:
            self._permits[one.limited] -= 1

    def _queue(self, index: int, one: _Started) -> None:
        one.stage = "slot"
        heapq.heappush(self._queues[one.limited], index)

    def _hand_on(self, key: Keyed) -> None:
        holders = self._keys[key]
        holders.popleft()
        while holders and not self._is_at(holders[0], "key"):
            holders.popleft()
        if holders:
            self._queue(holders[0], self._started[holders[0]])
        else:
            del self._keys[key]

    def _is_at(self, index: int, stage: _Stage) -> bool:
        one = self._started.get(index)
        return one is not None and one.stage == stage
