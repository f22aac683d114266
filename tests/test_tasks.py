"""Which task runs inside which nursery."""

from __future__ import annotations

import pytest
import trio

from trio_tools._tasks import is_inside, runs_within


@pytest.mark.trio
async def test_a_task_runs_within_a_nursery_from_where_it_was_opened_until_it_is_left() -> None:
    """Section 4: whoever is asked must be reached by a cancellation of the nursery."""
    seen: dict[str, bool] = {}

    async def look(name: str, nursery: trio.Nursery) -> None:
        seen[name] = runs_within(nursery)

    async with trio.open_nursery() as outer:
        async with trio.open_nursery() as inner:
            assert runs_within(outer)
            assert runs_within(inner)
            outer.start_soon(look, "beside", inner)
            inner.start_soon(look, "in it", inner)
            inner.start_soon(look, "further in", outer)
        assert not runs_within(inner)  # it was left
        assert runs_within(outer)
    assert seen == {"beside": False, "in it": True, "further in": True}


@pytest.mark.trio
async def test_the_task_that_is_asked_for_need_not_be_the_running_one() -> None:
    home = trio.lowlevel.current_task()
    depth = len(home.child_nurseries)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        await trio.lowlevel.checkpoint()
        (child,) = nursery.child_tasks
        assert is_inside(child, home, depth)
        assert not is_inside(child, home, depth + 1)
        assert not is_inside(home, child, 0)
        nursery.cancel_scope.cancel()
