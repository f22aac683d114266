"""What an operator sees of calls that are on their way, and can do about them."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from trio_tools import (
    BeforeDecision,
    OutstandingCall,
    ToolCall,
    ToolDispatch,
    ToolExecution,
    ToolRegistry,
    ToolResult,
    ToolRun,
    tool,
)


@tool
async def waits(run: ToolRun) -> str:
    run.nursery.start_soon(owned)
    await deep_inside()
    return "done"


async def deep_inside() -> None:
    await trio.sleep(10)


async def owned() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(helper)


async def helper() -> None:
    await trio.sleep(10)


def look_during(registry: ToolRegistry, look: Callable[[OutstandingCall], None], name: str = "waits") -> ToolResult:
    """Make a call, and look at it when everything waits."""
    results: list[ToolResult] = []

    async def make() -> None:
        results.append(await registry.execute(ToolCall(id="c1", name=name), scope=trio.CancelScope()))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(make)
            await trio.testing.wait_all_tasks_blocked()
            (one,) = registry.outstanding()
            look(one)
        assert registry.outstanding() == ()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return results[0]


def functions(one: OutstandingCall) -> list[str]:
    return [frame.rpartition(" in ")[2].rpartition(".")[2] for frame in one.frames()]


def test_the_frames_lead_from_the_stages_into_the_body_and_its_owned_tasks() -> None:
    """Section 4, waiting: where it is stuck; innermost last."""

    def look(one: OutstandingCall) -> None:
        shown = functions(one)
        assert shown.index("waits") < shown.index("deep_inside") < shown.index("owned") < shown.index("helper")
        assert "make" not in shown
        assert not any("watcher" in frame.lower() for frame in one.frames())
        assert repr(one) == "<OutstandingCall 'c1' to 'waits', in body>"

    look_during(ToolRegistry([waits]), look)


def test_the_frames_of_a_body_that_a_wrapper_runs_in_a_task_of_its_own_are_shown() -> None:
    """Section 4, waiting: the frames of its task."""

    async def around(dispatch: ToolDispatch, call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        results: list[ToolResult] = []

        async def attempt() -> None:
            results.append(await call_next())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempt)
        return results[0]

    registry = ToolRegistry([waits])
    registry.around(around)

    def look(one: OutstandingCall) -> None:
        shown = functions(one)
        assert shown.index("around") < shown.index("attempt") < shown.index("deep_inside")

    look_during(registry, look)


def test_the_stage_is_told_and_a_cancelled_call_is_listed_as_such_until_it_ends() -> None:
    """Section 3, OutstandingCall."""

    async def before(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
        with trio.CancelScope(shield=True):
            await trio.sleep(3)
        return await call_next()

    registry = ToolRegistry([waits])
    registry.before(before)

    def look(one: OutstandingCall) -> None:
        assert (one.stage, one.started_at, one.cancelled_at) == ("before", trio.current_time(), None)
        one.cancel("enough")
        assert one.cancelled_at == trio.current_time()
        assert repr(one) == "<OutstandingCall 'c1' to 'waits', in before, cancelled>"
        assert repr(one.execution.scope) == "<scope of a call, cancelled>"

    result = look_during(registry, look)
    assert result.is_error is True
    assert result.cause is not None
    assert (result.error.code, result.cause.source, result.cause.reason) == (
        "ABORTED_BEFORE_DISPATCH",
        "operator",
        "enough",
    )


def test_a_call_can_be_cancelled_by_its_id_and_an_unknown_id_is_told() -> None:
    """The issue of a registry: outstanding, with cancel by id."""
    registry = ToolRegistry([waits])
    answers: list[bool] = []
    results = [
        look_during(registry, lambda _one, call_id=call_id: answers.append(registry.cancel_call(call_id, "stop")))
        for call_id in ("c1", "c2")
    ]
    assert answers == [True, False]
    assert [result.is_error for result in results] == [True, False]


def test_a_cancellation_from_a_thread_that_is_not_trios_is_refused_and_half_of_it_does_not_take_effect() -> None:
    """Bad input loses nothing: the call would have been told of as cancelled, and have run on."""
    registry = ToolRegistry([waits])
    refused: list[str] = []

    def elsewhere() -> None:
        with pytest.raises(RuntimeError) as caught:
            registry.cancel_call("c1")
        refused.append(str(caught.value))

    def look(one: OutstandingCall) -> None:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert one.cancelled_at is None

    assert look_during(registry, look).is_error is False
    assert "go by trio.from_thread.run_sync" in refused[0]


@pytest.mark.parametrize("through", ["child", "parent"])
def test_a_parent_lists_the_calls_of_its_children_and_a_child_not_those_of_its_parent(through: str) -> None:
    """Whoever runs the root registry sees everything."""
    parent = ToolRegistry([waits])
    child = ToolRegistry(parent=parent)
    registry = child if through == "child" else parent
    counts: list[tuple[int, int]] = []
    look_during(registry, lambda _one: counts.append((len(parent.outstanding()), len(child.outstanding()))))
    assert counts == [(1, 1 if through == "child" else 0)]


def test_a_handle_may_be_used_after_its_call_has_ended() -> None:
    """A list of outstanding calls is out of date as soon as somebody waits."""
    kept: list[OutstandingCall] = []
    assert look_during(ToolRegistry([waits]), kept.append).is_error is False

    async def main() -> None:
        kept[0].cancel("too late")
        assert kept[0].frames() == []

    trio.run(main)


def test_a_call_whose_timeout_has_passed_is_listed_as_cancelled_since_then() -> None:
    """Section 4, waiting: how long it has been cancelled."""

    @tool(timeout=2)
    async def deaf() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(5)

    seen: list[float | None] = []

    async def look(registry: ToolRegistry) -> None:
        for _ in range(2):
            await trio.sleep(1.5)
            seen.append(registry.outstanding()[0].cancelled_at)

    async def main() -> None:
        registry = ToolRegistry([deaf])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look, registry)
            await registry.execute(ToolCall(id="c1", name="deaf"), scope=trio.CancelScope())

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert seen == [None, 2.0]


def test_a_body_in_a_thread_is_shown_with_its_frames_and_one_that_waits_for_a_thread_as_such() -> None:
    """What does not return is waited for, so an operator must see where it is; and that the limiter is full."""
    entered, released = threading.Event(), threading.Event()

    @tool(concurrency="parallel")
    def computes() -> None:
        helps()

    def helps() -> None:
        entered.set()
        released.wait()

    shown: list[tuple[str, str, list[str]]] = []

    async def main() -> None:
        registry = ToolRegistry([computes], thread_limiter=trio.CapacityLimiter(1))
        with trio.CancelScope() as scope:

            async def call(id: str) -> None:
                await registry.execute(ToolCall(id=id, name="computes"), scope=scope)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, "c1")
                await trio.to_thread.run_sync(entered.wait)
                nursery.start_soon(call, "c2")
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
                with trio.CancelScope(shield=True):
                    await trio.testing.wait_all_tasks_blocked()
                shown.extend((one.execution.call_id, one.stage, functions(one)) for one in registry.outstanding())
                released.set()

    trio.run(main)
    ((call_id, stage, names),) = shown  # the other one has not started, and never will
    assert (call_id, stage) == ("c1", "body")
    assert names.index("computes") < names.index("helps") < names.index("wait")


def test_a_call_that_waits_for_a_thread_says_so() -> None:
    limiter = trio.CapacityLimiter(1)

    @tool
    def computes() -> str:
        return "done"

    async def main() -> None:
        registry = ToolRegistry([computes], thread_limiter=limiter)
        stages: list[str] = []
        async with trio.open_nursery() as nursery, limiter:

            async def call() -> None:
                result = await registry.execute(ToolCall(id="c1", name="computes"), scope=nursery.cancel_scope)
                assert result.is_error is False

            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            stages += [one.stage for one in registry.outstanding()]
        assert stages == ["thread"]

    trio.run(main)
