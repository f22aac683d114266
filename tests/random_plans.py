"""Random pipelines: what their stages do and for how long, how they are made, and where cancellations come from.

Stages take whole seconds, deadlines and cancellations come at odd fractions, so that no two things happen at the same
instant and the outcome does not depend on the order in which Trio runs its tasks.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs
from hypothesis import strategies as st

__all__ = [
    "AfterPlan", "AssignScope", "AssignShield", "BeforePlan", "BodyPlan", "EnterScope", "EnterShield", "Fail", "Pause",
    "PersonPlan", "Pipeline", "Retry", "Segment", "ShortCircuit", "Wait", "WrapperPlan", "pipelines",
]  # fmt: skip


@attrs.frozen
class Wait:
    """Seconds of waiting, which a cancellation ends unless they are shielded."""

    seconds: int
    shielded: bool = False


@attrs.frozen
class BeforePlan:
    """A before policy."""

    wait: Wait
    then: Literal["allow", "deny", "ask", "raise"]


@attrs.frozen
class PersonPlan:
    """An approver."""

    wait: Wait
    then: Literal["allowed-once", "rejected", "unavailable"]


@attrs.frozen
class Pause:
    """A wrapper that waits before and after."""

    before: Wait
    after: Wait


@attrs.frozen
class AssignScope:
    """A wrapper that assigns a scope with a deadline; ``None``: without one."""

    deadline: float | None


@attrs.frozen
class AssignShield:
    """A wrapper that assigns a shield."""


@attrs.frozen
class EnterScope:
    """A wrapper with a deadline around its ``call_next``, which it maps to a failure, or not."""

    deadline: float
    maps: bool


@attrs.frozen
class EnterShield:
    """A wrapper with a shield around its ``call_next``."""


@attrs.frozen
class Retry:
    """A wrapper that tries again after a failure."""

    times: int
    pause: Wait


@attrs.frozen
class Fail:
    """A wrapper that raises when it has its answer."""

    wait: Wait


@attrs.frozen
class ShortCircuit:
    """A wrapper that answers itself."""

    wait: Wait
    fails: bool


WrapperPlan: TypeAlias = Pause | AssignScope | AssignShield | EnterScope | EnterShield | Retry | Fail | ShortCircuit


@attrs.frozen
class Segment:
    """A part of a body: it waits, or makes a nested call that does."""

    wait: Wait
    nests: bool = False


@attrs.frozen
class BodyPlan:
    """A body: its parts, how it ends, what it does when a cancellation ends it, how long work runs that it owns."""

    segments: tuple[Segment, ...]
    then: Literal["return", "raise"]
    unwinding: Literal["obeys", "raises", "takes its time"]
    owned: int | None


@attrs.frozen
class AfterPlan:
    """An after policy."""

    seconds: int
    then: Literal["accept", "block", "raise"]


@attrs.frozen
class Pipeline:
    """A registry with a tool, and when a call to it is cancelled, by whom."""

    before: BeforePlan | None
    person: PersonPlan | None
    wrappers: tuple[WrapperPlan, ...]
    body: BodyPlan
    timeout: float | None
    after: AfterPlan | None
    cancel_at: float | None
    how: Literal["entered", "unentered", "around", "deadline", "operator"]


waits = st.builds(Wait, st.integers(0, 4), st.booleans())
obedient = st.builds(Wait, st.integers(0, 4))


def after_seconds(most: int, fraction: float) -> st.SearchStrategy[float]:
    return st.integers(0, most).map(lambda seconds: seconds + fraction)


befores = st.builds(BeforePlan, waits, st.sampled_from(["allow", "allow", "allow", "ask", "ask", "deny", "raise"]))
people = st.builds(PersonPlan, waits, st.sampled_from(["allowed-once", "allowed-once", "rejected", "unavailable"]))
pauses = st.builds(Pause, waits, waits)
harmless = st.one_of(
    pauses,
    st.just(AssignScope(None)),
    st.builds(Retry, st.integers(1, 3), waits),
    st.builds(Fail, waits),
    st.builds(ShortCircuit, waits, st.booleans()),
)
with_deadlines = st.one_of(
    harmless,
    st.builds(AssignScope, after_seconds(6, 1 / 13)),
    st.builds(EnterScope, after_seconds(6, 1 / 11), st.booleans()),
)
bodies = st.builds(
    BodyPlan,
    st.lists(st.builds(Segment, waits, st.booleans()), max_size=3).map(tuple),
    st.sampled_from(["return", "return", "raise"]),
    st.sampled_from(["obeys", "raises", "takes its time"]),
    st.none() | st.integers(0, 5),
)


@st.composite
def wrapped(draw: st.DrawFn) -> tuple[tuple[WrapperPlan, ...], float | None]:
    """Wrappers, outermost first, and a timeout of the tool.

    Left out is what the design leaves open: whose deadline counts if a shield hides a wrapper's own scope from what
    lies further in, and whether a shield hides the caller from the waiting of wrappers further in.
    """
    timeout = draw(st.none() | after_seconds(6, 1 / 7))
    kind = draw(st.sampled_from(["deadlines", "deadlines", "assigned shield", "entered shield"]))
    if kind == "deadlines":
        return tuple(draw(st.lists(with_deadlines, max_size=3))), timeout
    inner = tuple(draw(st.lists(harmless, max_size=2)))
    return ((AssignShield(), *inner) if kind == "assigned shield" else (*inner, EnterShield())), timeout


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    """Pipelines with zero to three wrappers."""
    wrappers, timeout = draw(wrapped())
    # Nobody sees when a scope fires that a wrapper entered around one that is deaf to it.
    unseen = any(isinstance(one, EnterScope) for one in wrappers[:-1])
    return Pipeline(
        before=draw(st.none() | befores),
        person=draw(st.none() | people),
        wrappers=wrappers,
        body=draw(bodies),
        timeout=timeout,
        after=draw(st.none() | st.builds(AfterPlan, st.integers(0, 3), st.sampled_from(["accept", "block", "raise"]))),
        cancel_at=None if unseen else draw(st.none() | after_seconds(14, 1 / 3)),
        how=draw(st.sampled_from(["entered", "unentered", "around", "deadline", "operator"])),
    )
