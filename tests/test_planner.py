"""The plan of a batch against a naive model of section 8: whichever order things happen in, and whatever is asked.

The model keeps what it was told and looks through all calls for each answer; it shares no line with the planner.
"""

from __future__ import annotations

from random import Random
from typing import Literal

import attrs
from hypothesis import event, given, settings
from hypothesis import strategies as st

from trio_tools import Keyed
from trio_tools._planner import Mode, Planner

Where = Literal["gates", "queued", "work", "answered", "finished", "skipped"]


@attrs.frozen
class Batch:
    """Some calls: the mode and the name of each, and the bounds."""

    calls: tuple[tuple[Mode, str], ...]
    max_parallel: int
    limits: dict[str, int]
    ends: Literal["never", "stop", "halt"]


modes = st.one_of(
    st.just("parallel"),
    st.just("parallel"),
    st.just("exclusive"),
    st.sampled_from("ab").map(Keyed),
    st.builds(Keyed, st.just("a")),
)
batches = st.builds(
    Batch,
    st.lists(st.tuples(modes, st.sampled_from("xyz")), max_size=12).map(tuple),
    st.integers(1, 4),
    st.dictionaries(st.sampled_from("xy"), st.integers(1, 2)),
    st.sampled_from(["never", "never", "stop", "halt"]),
)


class Model:
    """What is to be answered."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.where: list[Where] = []  # of the calls so far
        self.committed = 0
        self.stopped = self.halted = False

    def at(self, *places: Where) -> list[int]:
        return [index for index, where in enumerate(self.where) if where in places]

    def mode(self, index: int) -> Mode:
        return self.batch.calls[index][0]

    def name(self, index: int) -> str:
        return self.batch.calls[index][1]

    @property
    def slot_free(self) -> bool:
        return len(self.at("gates", "work")) < self.batch.max_parallel

    def may_start(self) -> bool:
        alone = any(self.mode(index) == "exclusive" for index in self.uncommitted)
        left = len(self.where) < len(self.batch.calls) and not self.stopped
        return left and self.slot_free and not self.at("gates") and not alone

    @property
    def uncommitted(self) -> list[int]:
        return [index for index, where in enumerate(self.where) if index >= self.committed and where != "skipped"]

    def starts(self) -> bool:
        """Whether the next call starts if it may and is asked to."""
        return self.mode(len(self.where)) != "exclusive" or self.committed == len(self.where)

    def may_work(self, index: int) -> bool:
        """Whether a call behind its gates has its key and a permit."""
        mine, name = self.mode(index), self.name(index)
        rivals = [one for one in self.at("queued", "work") if one < index] if isinstance(mine, Keyed) else []
        at_work = [one for one in self.at("work") if self.name(one) == name]
        return mine not in map(self.mode, rivals) and len(at_work) < self.batch.limits.get(name, 99)

    def granted(self) -> int | None:
        if self.halted or not self.slot_free:
            return None
        return next((index for index in self.at("queued") if self.may_work(index)), None)

    def commit(self) -> int | None:
        index = self.committed
        return index if index in self.at("finished", "skipped") else None

    @property
    def drained(self) -> bool:
        return not self.at("gates", "queued", "work", "answered") and (
            self.stopped or len(self.where) == len(self.batch.calls)
        )


class Play:
    """Lets things happen, at random, and compares; what it sees of the planner is all that moves the model on."""

    def __init__(self, batch: Batch, random: Random) -> None:
        self.planner = Planner(len(batch.calls), batch.max_parallel, batch.limits)
        self.model = Model(batch)
        self.batch = batch
        self.random = random
        self.worked: list[int] = []  # in the order in which they went to work

    # ---- what is asked -----------------------------------------------------------------------------------------------

    def ask_start(self) -> bool:
        may = self.planner.may_start()
        assert may == self.model.may_start()
        if not may:
            return False
        index = self.planner.next
        assert index == len(self.model.where)
        expected = self.model.starts()
        assert self.planner.start(*self.batch.calls[index]) == expected
        if expected:
            self.model.where.append("gates")
        return expected

    def ask_granted(self) -> bool:
        expected = self.model.granted()
        assert self.planner.granted() == expected
        if expected is not None:
            self.goes_to_work(expected)
        return expected is not None

    def ask_commit(self) -> bool:
        expected = self.model.commit()
        assert self.planner.commit() == expected
        if expected is not None:
            self.model.committed += 1
        assert self.planner.committed == self.model.committed
        return expected is not None

    def goes_to_work(self, index: int) -> None:
        self.model.where[index] = "work"
        self.worked.append(index)

    def pump(self) -> bool:
        """Ask until there is nothing more to be had, in any order; whether there was something."""
        asks = [self.ask_start, self.ask_granted, self.ask_commit]
        some = False
        while any(ask() for ask in self.random.sample(asks, 3)):
            some = True
        return some

    # ---- what happens ------------------------------------------------------------------------------------------------

    def skip(self) -> None:
        if self.planner.may_start():
            self.planner.skip()
            self.model.where.append("skipped")

    def pass_gates(self) -> None:
        for index in self.model.at("gates"):
            at_once = self.model.may_work(index)
            assert self.planner.passed(index) == at_once
            self.model.where[index] = "queued"
            if at_once:
                self.goes_to_work(index)

    def answer(self) -> None:
        """Also of a call that was denied, or cut while it queued."""
        if open_ := self.model.at("gates", "queued", "work"):
            index = self.random.choice(open_)
            self.planner.answered(index)
            self.model.where[index] = "answered"

    def finish(self) -> None:
        if open_ := self.model.at("work", "answered") or self.model.at("gates", "queued"):
            index = self.random.choice(open_)
            self.planner.finish(index)
            self.model.where[index] = "finished"

    def end(self) -> None:
        if self.batch.ends != "never":
            self.planner.stopped = self.model.stopped = True
            self.planner.halted = self.model.halted = self.batch.ends == "halt"

    def check(self) -> None:
        """What must hold at every moment, said without the model's rules."""
        model, batch = self.model, self.batch
        assert self.planner.drained == model.drained
        assert len(model.at("gates", "work")) <= batch.max_parallel
        assert len(model.at("gates")) <= 1
        at_work = model.at("work")
        for name, limit in batch.limits.items():
            assert sum(model.name(index) == name for index in at_work) <= limit
        keys = [model.mode(index) for index in at_work if isinstance(model.mode(index), Keyed)]
        assert len(keys) == len(set(keys))
        if any(model.mode(index) == "exclusive" for index in model.uncommitted):
            assert len(model.uncommitted) == 1


EVENTS = (
    Play.ask_start, Play.ask_start, Play.ask_granted, Play.ask_commit, Play.pass_gates, Play.pass_gates, Play.finish,
    Play.finish, Play.answer, Play.skip, Play.pump,
)  # fmt: skip


@settings(max_examples=1500, deadline=None)
@given(batch=batches, random=st.integers(0, 10**9).map(Random))
def test_a_plan_answers_as_section_8_says_in_whatever_order_things_happen(batch: Batch, random: Random) -> None:
    """Section 8: starts, grants, commits and drained; never more at work than may be; equal keys in call order."""
    play = Play(batch, random)
    for number in range(40):
        if number == 25:
            play.end()
        random.choice(EVENTS)(play)
        play.check()
    for key in "ab":
        of_key = [index for index in play.worked if play.model.mode(index) == Keyed(key)]
        assert of_key == sorted(of_key)


@settings(max_examples=1000, deadline=None)
@given(batch=batches, random=st.integers(0, 10**9).map(Random))
def test_no_plan_comes_to_a_standstill(batch: Batch, random: Random) -> None:
    """Section 8: no lost wake-up. Whatever finishes first, all that may start does, and the plan is drained then only.

    Calls that queue are not touched, so that only a grant can move them on.
    """
    play = Play(batch, random)
    happened = 0
    while not play.planner.drained:
        if random.randrange(8) == 0:
            play.end()
            if play.planner.drained:
                break
        play.pump()
        play.check()
        choices = list(play.model.at("gates", "work", "answered"))
        if play.model.halted:
            choices += play.model.at("queued")  # they are cut
        assert choices or play.planner.drained, "nothing is at work, and nothing may start"
        for index in random.sample(choices, min(len(choices), 1)):
            happened += 1
            if play.model.where[index] == "gates":
                play.pass_gates()
            else:
                play.planner.finish(index)
                play.model.where[index] = "finished"
    play.pump()
    assert play.planner.committed == play.planner.next == len(play.model.where)
    if not play.model.stopped:
        assert play.planner.committed == len(batch.calls)
        assert sorted(play.worked) == list(range(len(batch.calls)))
    event(f"{happened // 10} tens of events")


@given(size=st.integers(0, 4), cut=st.integers(0, 4))
def test_a_plan_that_is_stopped_is_drained_when_what_had_started_is_finished(size: int, cut: int) -> None:
    """Section 8: calls that have not started never do."""
    planner = Planner(size, 1, {})
    while planner.next < min(size, cut):
        assert not planner.drained
        assert planner.start("parallel", "x")
        assert planner.passed(planner.next - 1)
        planner.finish(planner.next - 1)
    assert planner.drained == (cut >= size)
    planner.stopped = True
    assert planner.drained
    assert not planner.may_start()
    assert [planner.commit() for _ in range(planner.next)] == list(range(planner.next))
    assert planner.commit() is None
