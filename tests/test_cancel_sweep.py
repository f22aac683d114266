"""P1 to P6 at every possible cancel point: each pipeline is cancelled after each step that is taken for it."""

from __future__ import annotations

import pytest
import sweep_bodies
import sweep_gates
import sweep_wrappers
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sweep import HOWS, REASON, How, sweep

SHAPES = {**sweep_gates.SHAPES, **sweep_wrappers.SHAPES, **sweep_bodies.SHAPES}

# Hypothesis decides in which order Trio runs the tasks of one pass, and so makes a failure repeatable. Each run of a
# sweep sees another order; shrinking would tell nothing.
one_schedule_for_all_runs = settings(
    max_examples=1, derandomize=True, database=None, deadline=None, phases=[Phase.generate]
)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", SHAPES)
@one_schedule_for_all_runs
@given(schedule=st.random_module())
def test_a_cancellation_after_any_step_gives_one_honest_result(name: str, how: How, schedule: object) -> None:
    """P1 to P6, see ``sweep``; the calls end in exactly the ways that the outcome table has for the pipeline."""
    sweep(SHAPES[name], how)


@pytest.mark.parametrize("how", [how for how in HOWS if how != "deadline"])
@one_schedule_for_all_runs
@given(schedule=st.random_module())
def test_the_reason_of_a_cancellation_is_told_after_whichever_step_it_comes(how: How, schedule: object) -> None:
    """Section 4, who cancelled first: the cause has Trio's own reason text where one was given."""
    told = [run.reason for run in sweep(SHAPES["every_stage_waits"], how)]
    assert told == [REASON] * len(told)
