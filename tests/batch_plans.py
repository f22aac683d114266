"""Random batches: what their calls do, what policies wait for, and who ends them when.

Work takes whole seconds, whoever interferes does so at an odd fraction; what the tasks of one instant do to each other
depends on the order in which Trio runs them, which is drawn too.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs
from hypothesis import strategies as st

__all__ = ["Act", "BatchPlan", "CallPlan", "batch_plans"]

Mode: TypeAlias = Literal["exclusive", "parallel", "a", "b", "raises"]


@attrs.frozen
class CallPlan:
    """A call: its id, its tool, how it may overlap, what the gates say, how long the body takes and how it ends."""

    id: str
    name: Literal["work", "other", "absent"]
    mode: Mode
    malformed: bool
    denied: bool
    seconds: int
    fails: bool
    unwinds: int  # for how many seconds it does not obey a cancellation

    @property
    def exclusive(self) -> bool:
        return self.runnable and self.mode in ("exclusive", "raises")

    @property
    def key(self) -> str | None:
        return self.mode if self.runnable and self.mode in ("a", "b") else None

    @property
    def runnable(self) -> bool:
        return self.name != "absent" and not self.malformed


@attrs.frozen
class Act:
    """What somebody does at that time: cancel the scope, stop the batch, cancel the call with that id."""

    at: float
    what: Literal["cancel", "stop", "cancel call"]
    id: str


@attrs.frozen
class BatchPlan:
    """A batch. ``before`` and ``after``: for how long the policies wait; ``None``: there are none."""

    calls: tuple[CallPlan, ...]
    max_parallel: int
    limits: dict[str, int]
    fail_fast: bool
    before: int | None
    after: int | None
    acts: tuple[Act, ...]
    entered: bool


def rarely(chance: int) -> st.SearchStrategy[bool]:
    return st.integers(1, chance).map(lambda number: number == chance)


modes: st.SearchStrategy[Mode] = st.sampled_from(["parallel", "parallel", "a", "a", "b", "exclusive", "raises"])
names: st.SearchStrategy[Literal["work", "other", "absent"]] = st.sampled_from(
    ["work", "work", "work", "other", "absent"]
)


unwinding = st.sampled_from([0, 0, 2])


@st.composite
def call_plans(draw: st.DrawFn) -> tuple[CallPlan, ...]:
    size = draw(st.integers(0, 8))
    return tuple(
        CallPlan(
            f"c{draw(st.integers(0, index)) if draw(rarely(12)) else index}", draw(names), draw(modes),
            draw(rarely(10)), draw(rarely(8)), draw(st.integers(0, 4)), draw(rarely(6)), draw(unwinding),
        )
        for index in range(size)
    )  # fmt: skip


acts = st.builds(
    Act,
    st.integers(0, 12).map(lambda seconds: seconds + 1 / 7),
    st.sampled_from(["cancel", "stop", "cancel call", "cancel call"]),
    st.integers(0, 7).map(lambda number: f"c{number}"),
)
batch_plans = st.builds(
    BatchPlan,
    call_plans(),
    st.integers(1, 4),
    st.dictionaries(st.sampled_from(["work", "other"]), st.integers(1, 2)),
    rarely(3),
    st.none() | st.integers(0, 2),
    st.none() | st.integers(0, 2),
    st.lists(acts, max_size=3).map(tuple),
    st.booleans(),
)
