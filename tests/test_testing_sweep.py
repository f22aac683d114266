"""Sweeping whole scenarios, and what a report says."""

from __future__ import annotations

import asyncio
import gc
import linecache
import math
import re
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing

from trio_tools import (
    Accept,
    AfterDecision,
    BatchOutcome,
    BeforeDecision,
    ToolCall,
    ToolDispatch,
    ToolError,
    ToolExecution,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    run_batch,
    tool,
)
from trio_tools.testing import (
    Breach,
    CancelPoint,
    CancelReport,
    InjectedError,
    assert_cancel_safe,
    cancel_everywhere,
    report_stalled_calls,
    run_seeded,
)

GENERATED: dict[str, Any] = {}
exec(compile("async def work(): ...", "<nowhere>", "exec"), GENERATED)


@tool
async def work(number: int = 0) -> int:
    """Take two waits."""
    await trio.sleep(1)
    await trio.sleep(1)
    return number


def one_call(registry: ToolRegistry, name: str = "work") -> Callable[[trio.CancelScope], Awaitable[ToolResult]]:
    async def make_call(scope: trio.CancelScope) -> ToolResult:
        return await registry.execute(ToolCall(id="c1", name=name), scope=scope)

    return make_call


async def not_decorated() -> AsyncGenerator[None]:
    yield


def is_never_content(point: CancelPoint) -> bool:
    return False


def swept(make_call: Any, **options: Any) -> CancelReport:
    clock = trio.testing.MockClock(autojump_threshold=0)
    return trio.run(partial(cancel_everywhere, make_call, **options), clock=clock)


@pytest.mark.parametrize("mode", ["cancel", "deadline"])
def test_every_step_is_a_point_and_each_has_the_outcome_that_is_true_there(mode: str) -> None:
    registry = ToolRegistry([work])
    report = swept(one_call(registry), mode=mode, registry=registry, code=[work])
    assert report.breaches == ()
    assert [point.at for point in report.points] == list(range(len(report.points)))
    assert report.points[0].outcome == "success"
    assert report.points[0].steps_after == 0
    assert {point.outcome for point in report.points[1:]} == {"ABORTED"}
    assert report.points[1].body == "interrupted"
    assert report.points[-1].body == "finished"  # cancelled behind the body, while the watcher leaves
    assert len(report.points) >= 3


def test_each_awaited_call_fails_in_its_turn() -> None:
    registry = ToolRegistry([work])
    report = swept(one_call(registry), mode="raise", registry=registry, code=[work])
    assert [point.outcome for point in report.points] == ["success", "InjectedError", "InjectedError"]
    failure = report.points[2].results[0]
    assert isinstance(failure, ToolFailure)
    assert "sleep, awaited at" in failure.error.message
    assert "test_testing_sweep.py" in failure.error.message


def test_the_registry_itself_is_not_made_to_fail() -> None:
    """Without ``code``, the lines are those of the scenario, and of what it calls in the same file."""
    registry = ToolRegistry([work])
    report = swept(one_call(registry), mode="raise")
    assert [point.outcome for point in report.points] == ["success", "InjectedError", "InjectedError"]


def test_what_a_scenario_awaits_beside_its_calls_is_not_made_to_fail() -> None:
    @tool
    async def has_helpers() -> str:
        async def helper() -> None:
            await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(helper)
        return "done"

    registry = ToolRegistry([has_helpers])

    async def rest() -> None:
        await trio.sleep(1)

    async def make_call(scope: trio.CancelScope) -> ToolResult:
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rest)
        return await one_call(registry, "has_helpers")(scope)

    report = swept(make_call, mode="raise", registry=registry)
    assert report.breaches == ()
    assert [point.outcome for point in report.points] == ["success", "InjectedError"]
    assert "helper" in str(report.points[1].results[0])


def test_a_comprehension_is_no_call() -> None:
    @tool
    async def comprehends() -> list[None]:
        return [await trio.sleep(1) for _ in range(3)]

    registry = ToolRegistry([comprehends])
    report = swept(one_call(registry, "comprehends"), mode="raise", registry=registry)
    assert [point.outcome for point in report.points] == ["success", *["InjectedError"] * 3]


def test_batches_policies_and_retries_are_swept_too() -> None:
    registry = ToolRegistry([work])

    @registry.before
    async def policy(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
        await trio.sleep(0.5)
        return await call_next()

    @registry.after
    async def judge(
        execution: ToolExecution, result: ToolResult, call_next: Callable[[], Awaitable[AfterDecision]]
    ) -> AfterDecision:
        await trio.lowlevel.checkpoint()
        return Accept()

    calls = [ToolCall(id=one, name="work") for one in "abc"]

    async def make_calls(scope: trio.CancelScope) -> BatchOutcome:
        return await run_batch(registry, calls, scope=scope)

    report = swept(make_calls, registry=registry)
    assert report.breaches == ()
    assert report.points[1].outcome == ", ".join(["ABORTED_BEFORE_DISPATCH"] * 3)
    assert report.points[0].body == "finished, finished, finished"


def test_a_sequence_of_results_will_do() -> None:
    registry = ToolRegistry([work])

    async def make_calls(scope: trio.CancelScope) -> Sequence[ToolResult]:
        return [await registry.execute(ToolCall(id=one, name="work"), scope=scope) for one in "ab"]

    report = swept(make_calls, registry=registry)
    assert report.breaches == ()
    assert report.points[1].outcome == "ABORTED, ABORTED_BEFORE_DISPATCH"


def location_of(line: str, breach: Breach) -> bool:
    """Whether it is told at that line of this file."""
    assert breach.where is not None
    filename, number = breach.where.split(" in ")[0].rsplit(":", 1)
    return filename == __file__ and linecache.getline(filename, int(number)).strip() == line


def rules(report: CancelReport) -> set[str]:
    return {breach.rule for breach in report.breaches}


def test_a_scenario_without_a_result_breaks_a_rule() -> None:
    async def make_call(scope: trio.CancelScope) -> Any:
        return "nothing"

    report = swept(make_call)
    assert rules(report) == {"no-result"}
    assert "returned 'nothing', and no ToolResult" in str(report)
    assert "no result" in report.points[0].outcome
    assert report.points[0].body == "?"


def test_a_scenario_that_lets_cancelled_out_has_no_result() -> None:
    async def make_call(scope: trio.CancelScope) -> Any:
        await trio.sleep(1)
        return await one_call(ToolRegistry([work]))(scope)

    report = swept(make_call)
    (breach,) = report.breaches
    assert breach.rule == "no-result"
    assert "Cancelled came out of the scenario, and no result" in breach.text
    assert location_of("await trio.sleep(1)", breach)
    assert report.points[1].results == ()
    assert report.points[-1].outcome == "ABORTED"


@pytest.mark.parametrize("mode", ["cancel", "deadline"])
@pytest.mark.parametrize("first", [True, False])
def test_a_scenario_that_swallows_what_it_waits_in_is_told_the_line(mode: str, first: bool) -> None:
    registry = ToolRegistry([work])

    async def rest() -> None:
        try:
            await trio.sleep(1)
        except BaseException:
            return

    async def make_call(scope: trio.CancelScope) -> ToolResult:
        if first:
            await rest()
        result = await one_call(registry)(scope)
        if not first:
            await rest()
        return result

    report = swept(make_call, mode=mode, registry=registry)
    (breach,) = report.breaches
    assert breach.rule == "swallowed"
    assert location_of("except BaseException:", breach)


def test_a_scenario_whose_block_keeps_cancelled_is_told_the_line() -> None:
    async def make_call(scope: trio.CancelScope) -> ToolResult:
        result = await one_call(ToolRegistry([work]))(scope)
        try:
            await trio.sleep(1)
        finally:
            return result  # noqa: B012

    (breach,) = swept(make_call).breaches
    assert breach.rule == "swallowed"
    assert location_of("return result  # noqa: B012", breach)
    assert swept(make_call, mode="deadline").breaches == ()  # it may have been one of its own


def test_what_comes_out_beside_a_cancellation_is_told() -> None:
    async def fails() -> None:
        try:
            await trio.sleep(1)
        finally:
            raise LookupError("no such thing")

    async def make_call(scope: trio.CancelScope) -> Any:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails)
            await trio.sleep(2)

    report = swept(make_call)
    assert rules(report) == {"no-result"}
    assert "no such thing" in str(report)


def test_an_interrupt_in_a_scenario_is_that_of_whoever_waits() -> None:
    async def make_call(scope: trio.CancelScope) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swept(make_call)


def test_an_error_that_comes_out_is_told_with_its_line() -> None:
    async def make_call(scope: trio.CancelScope) -> Any:
        raise LookupError("no such thing")

    (breach,) = swept(make_call).breaches
    assert breach.rule == "no-result"
    assert "LookupError came out: no such thing" in breach.text
    assert "test_testing_sweep.py" in (breach.where or "")


def test_two_results_for_one_call_and_a_call_that_is_still_out() -> None:
    """No tool can bring that about; a registry that is broken can, and so can a scenario that goes behind its back."""
    registry = ToolRegistry([work])
    told: list[tuple[ToolExecution, ToolResult]] = []
    registry.observe(lambda execution, result: told.append((execution, result)))

    async def twice(scope: trio.CancelScope) -> ToolResult:
        result = await one_call(registry)(scope)
        observe, *_ = registry.stages().observers[1:]
        observe(*told[-1])
        return result

    assert "two-results" in rules(swept(twice, registry=registry))

    async def left(scope: trio.CancelScope) -> ToolResult:
        result = await one_call(registry)(scope)
        registry.admit(ToolCall(id="c2", name="work"), scope, deadline=float("inf"))
        return result

    report = swept(left, registry=registry)
    assert any("has none yet" in breach.text for breach in report.breaches)


@pytest.mark.trio
async def test_a_call_that_is_out_is_told_with_the_frames_that_the_warning_of_stalled_calls_has(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def stubborn() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(100)

    registry, own = ToolRegistry([stubborn]), trio.CancelScope()
    async with trio.open_nursery() as nursery:
        await nursery.start(report_stalled_calls, registry)

        async def another_is_out(scope: trio.CancelScope) -> ToolResult:
            return await one_call(ToolRegistry([work]))(scope)

        nursery.start_soon(partial(registry.execute, ToolCall(id="c1", name="stubborn"), scope=own))
        await trio.testing.wait_all_tasks_blocked()
        report = await cancel_everywhere(another_is_out, registry=registry)
        own.cancel()
        await trio.sleep(10)
        (breach,) = {breach for breach in report.breaches if "has none yet" in breach.text}
        assert breach.where is not None
        assert "stubborn" in breach.where
        assert f"  {breach.where}" in caplog.messages[0].splitlines()
        nursery.cancel_scope.cancel()


def test_a_shield_that_stays_keeps_the_cancellation_from_the_caller() -> None:
    async def make_call(scope: trio.CancelScope) -> ToolResult:
        result = await one_call(ToolRegistry([work]))(scope)
        if scope.cancel_called:
            trio.CancelScope(shield=True).__enter__()
        return result

    report = swept(make_call)
    assert rules(report) == {"swallowed", "no-result"}
    assert "the caller's next checkpoint does not raise Cancelled" in str(report)
    assert "Cancel scope stack corrupted" in str(report)


def test_a_check_is_asked_at_each_point_and_its_failure_is_told() -> None:
    def check(point: CancelPoint) -> None:
        assert point.at != 2, "not here"

    report = swept(one_call(ToolRegistry([work])), check=check)
    assert [point.at for point in report.points if point.breaches] == [2]
    (breach,) = report.breaches
    assert breach.rule == "check-failed"
    assert "not here" in breach.text


def test_what_runs_on_when_a_call_has_failed_is_ended_by_force() -> None:
    @tool
    async def beats() -> str:
        async def beat() -> None:
            while True:  # noqa: ASYNC110 - it waits for nothing
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(beat)
            try:
                await trio.sleep(5)
            except Exception:
                return "failed"  # and the heart still beats
            nursery.cancel_scope.cancel()
        return "done"

    registry = ToolRegistry([beats])
    report = swept(one_call(registry, "beats"), mode="raise", registry=registry, code=[beats], max_steps=20)
    assert rules(report) == {"too-many-steps"}
    assert "in test_what_runs_on" in str(report)


def test_a_task_that_was_left_is_not_made_to_fail() -> None:
    """Found: the next run's disturbance hit it, and with it all of Trio."""

    @tool
    async def leaves_a_task() -> None:
        async def beat() -> None:
            while True:  # noqa: ASYNC110 - it waits for nothing
                await trio.sleep(0.1)

        trio.lowlevel.spawn_system_task(beat)
        await trio.sleep(1)

    registry = ToolRegistry([leaves_a_task])
    report = swept(one_call(registry, "leaves_a_task"), mode="raise", registry=registry, code=[leaves_a_task])
    assert rules(report) == {"task-left"}


@pytest.mark.parametrize("mode", ["cancel", "deadline", "raise"])
def test_a_call_that_a_scenario_leaves_behind_is_told_as_one_task_and_at_no_line_of_a_library(mode: str) -> None:
    registry = ToolRegistry([work])

    async def make_call(scope: trio.CancelScope) -> ToolResult:
        async def another() -> None:
            await registry.execute(ToolCall(id="c2", name="work"), scope=trio.CancelScope())

        trio.lowlevel.spawn_system_task(another)
        return await one_call(registry)(scope)

    report = swept(make_call, mode=mode, registry=registry)
    (task,) = (one for one in report.breaches if one.rule == "task-left")
    assert location_of("trio.lowlevel.spawn_system_task(another)", task)
    lines = {one.where for one in report.breaches if one.rule == "no-result" and one.where is not None}
    assert {line.rpartition(" in ")[2] for line in lines} <= {"work", f"{make_call.__qualname__}.<locals>.another"}
    assert lines


def test_what_a_set_up_holds_is_not_the_tools() -> None:
    @tool
    async def rests() -> None:
        await trio.sleep(1)

    children: list[subprocess.Popen[bytes]] = []

    @asynccontextmanager
    async def held() -> AsyncGenerator[None]:
        child = subprocess.Popen(["sleep", "1000"])  # noqa: ASYNC220
        children.append(child)
        with tempfile.TemporaryFile(), socket.create_server(("localhost", 0)):
            yield
        assert child.poll() is None
        child.kill()
        child.wait()

    trio.run(partial(assert_cancel_safe, rests, setup=held), clock=trio.testing.MockClock(autojump_threshold=0))
    assert len(children) > 6


def test_nobody_is_blamed_for_the_time_that_following_takes() -> None:
    @tool
    async def computes_in_the_end() -> int:
        try:
            await trio.lowlevel.checkpoint()
        finally:
            total = 0
            for number in range(20_000):
                total += number
        return total

    def much_slower_when_traced() -> float:
        return time.perf_counter() if sys.gettrace() is None else time.perf_counter() * 1_000

    trio.run(
        partial(assert_cancel_safe, computes_in_the_end, max_seconds=5, modes="cancel", clock=much_slower_when_traced)
    )


def test_runs_that_are_shorter_now_and_then_do_not_end_the_sweep() -> None:
    made = 0

    @tool
    async def is_short_each_other_time() -> None:
        nonlocal made
        made += 1
        for _ in range(10 if made % 2 else 3):
            await trio.lowlevel.checkpoint()
        await trio.sleep(1)

    registry = ToolRegistry([is_short_each_other_time])
    make_call = one_call(registry, "is_short_each_other_time")
    made = 1  # so that the run which counts is a long one
    report = swept(make_call, registry=registry)
    assert [point.at for point in report.points] == list(range(len(report.points)))
    assert len(report.points) > 12
    assert report.remarks == ()


def test_points_to_which_no_other_run_comes_are_told_of() -> None:
    made = 0

    @tool
    async def is_long_twice() -> None:
        nonlocal made
        made += 1
        for _ in range(10 if made < 3 else 3):
            await trio.lowlevel.checkpoint()

    registry = ToolRegistry([is_long_twice])
    for mode in ("cancel", "raise"):
        made = 0
        report = swept(one_call(registry, "is_long_twice"), mode=mode, registry=registry)
        assert report.breaches == ()
        (remark,) = report.remarks
        assert re.match(r"not tried: 7 points, from \d to \d\d. The first run came there, and 3 others did not", remark)
        assert remark in str(report)


@pytest.mark.parametrize(("slow", "found"), [({2, 3}, False), ({2, 3, 5}, True)])
def test_a_line_that_computes_is_looked_for_in_a_run_in_which_it_does(slow: set[int], found: bool) -> None:
    """Found: where Trio's order of tasks decides whether it is come to, another line was told."""
    made = now = 0

    @tool
    async def computes_now_and_then() -> None:
        nonlocal made, now
        made += 1
        now += 1
        if made in slow:
            now += 10

    registry = ToolRegistry([computes_now_and_then])
    call = one_call(registry, "computes_now_and_then")
    report = swept(call, registry=registry, code=[computes_now_and_then], max_seconds=5, clock=lambda: now)
    (breach,) = report.breaches
    assert breach.rule == "no-checkpoint"
    assert location_of("now += 10", breach) if found else breach.where is None


def test_what_is_known_to_have_a_line_is_not_told_again_without_one() -> None:
    known, unknown = Breach("too-many-steps", "it goes on", "tool.py:7 in on"), Breach("too-many-steps", "it goes on")
    others = Breach("file-left", "a (descriptor 7) is left"), Breach("file-left", "b (descriptor 8) is left")
    again = Breach("file-left", "b (descriptor 9) is left")
    here = Breach("file-left", "/tmp/tmpabcd_123/c (descriptor 9) is left", "tool.py:8 in on")
    there = Breach("file-left", "/tmp/tmpe2g7oij8/c (descriptor 8) is left")
    points = [
        CancelPoint(number, (), 0, found)
        for number, found in enumerate([(unknown,), (known,), (*others, again, there, here)])
    ]
    assert CancelReport("cancel", tuple(points)).breaches == (known, *others, here)


def test_a_report_is_a_table_in_which_like_points_are_one_row() -> None:
    text = str(swept(one_call(ToolRegistry([work])), code=[work]))
    first, head, undisturbed, *rows = text.splitlines()
    assert first.startswith("cancel at each of ")
    assert head.split() == ["step", "outcome", "body", "steps", "left"]
    assert undisturbed.split() == ["0", "undisturbed:", "success", "finished", "0"]
    assert rows[0].split()[0].startswith("1-")


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"mode": "kill"}, ValueError, "mode must be one of 'cancel', 'deadline', 'raise', not 'kill'"),
        ({"max_steps": 0}, ValueError, "max_steps must be a positive number, not 0"),
        ({"max_steps": math.inf}, ValueError, "max_steps must be a whole number, not inf"),
        ({"max_seconds": "5"}, ValueError, "max_seconds must be a positive number, not '5'"),
        ({"code": [GENERATED["work"]]}, ValueError, "cannot be read, and without it nobody sees what is swallowed"),
        ({"registry": 3}, TypeError, "registry takes a ToolRegistry, not 3"),
        ({"code": 3}, TypeError, "functions that are written in Python, and tools, not 3"),
        ({"registry": ToolRegistry()}, AssertionError, "the registry that was given has seen no call"),
        ({"code": "file.py"}, TypeError, "functions that are written in Python, and tools, not 'file.py'"),
        ({"setup": not_decorated}, TypeError, "setup must make an asynchronous context, as @asynccontextmanager does"),
        ({"setup": asynccontextmanager(not_decorated)()}, TypeError, r"setup must be a function of \(\)"),
        ({"clock": lambda: "noon"}, TypeError, "clock must return a number of seconds, not 'noon'"),
        ({"clock": 3}, TypeError, r"clock must be a function of \(\), not 3"),
        ({"clock": trio.testing.MockClock()}, TypeError, r"clock takes a function such as time.perf_counter, not Mock"),
        ({"setup": 3}, TypeError, r"setup must be a function of \(\), not 3"),
        ({"check": work.function}, TypeError, "check must be a function that is not async"),
        ({"check": lambda: None}, TypeError, r"check is called with \(point\), and .* cannot be"),
        ({"check": is_never_content}, TypeError, "check must raise AssertionError, and return nothing"),
        ({"code": [len]}, TypeError, "functions that are written in Python, and tools, not <built-in function len>"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        report = swept(one_call(ToolRegistry([work])), **options)
        assert not report.breaches, str(report)


def test_other_event_loops_are_told_what_to_run_it_in() -> None:
    with pytest.raises(RuntimeError, match="a sweep is awaited in a Trio program"):
        asyncio.run(assert_cancel_safe(work))


@pytest.mark.parametrize("make_call", [None, 3, work, lambda: None])
def test_what_makes_no_call_is_refused(make_call: Any) -> None:
    with pytest.raises(TypeError, match=r"make_call (must be a function of|is called with) \(scope\)"):
        swept(make_call)


def test_a_scenario_that_is_not_async_is_told_so() -> None:
    def make_call(scope: trio.CancelScope) -> Any:
        return 3

    with pytest.raises(TypeError, match="make_call must be async, and return what came of a call; it made 3"):
        swept(make_call)


def test_a_scenario_that_is_an_async_generator_is_told_so() -> None:
    async def make_call(scope: trio.CancelScope) -> Any:
        yield 3

    with pytest.raises(TypeError, match=r"make_call must be async.*it made <async_generator"):
        swept(make_call)


def test_a_single_tool_will_do_for_code() -> None:
    assert swept(one_call(ToolRegistry([work])), code=work).breaches == ()


def test_what_a_disturbed_run_leaves_to_the_next_is_found() -> None:
    taken: list[int] = []

    @tool
    async def leaves_a_lock_taken() -> None:
        if taken:
            raise ToolError("somebody has not unlocked")
        taken.append(1)
        await trio.sleep(1)
        taken.clear()

    registry = ToolRegistry([leaves_a_lock_taken])
    report = swept(one_call(registry, "leaves_a_lock_taken"), registry=registry)
    (breach,) = report.breaches
    assert breach.rule == "state-left"
    assert "ends with ToolError and not with success" in breach.text

    @asynccontextmanager
    async def unlocked() -> AsyncGenerator[None]:
        await trio.sleep(1)  # no point: it is not disturbed
        yield
        taken.clear()

    report = swept(one_call(registry, "leaves_a_lock_taken"), registry=registry, setup=unlocked)
    assert report.breaches == ()
    assert {point.outcome for point in report.points[1:]} == {"ABORTED"}


@pytest.mark.trio
async def test_two_sweeps_at_once_are_refused(autojump_clock: trio.testing.MockClock) -> None:
    """Found: they changed the filters of warnings, and each took the other's files for its own."""
    other: list[str] = []

    async def make_call(scope: trio.CancelScope) -> ToolResult:
        if not other:
            with pytest.raises(RuntimeError, match="another sweep is running in this process") as caught:
                await cancel_everywhere(one_call(ToolRegistry([work])))
            other.append(str(caught.value))
        return await one_call(ToolRegistry([work]))(scope)

    assert (await cancel_everywhere(make_call)).breaches == ()
    assert other
    await cancel_everywhere(one_call(ToolRegistry([work])))  # and one after the other is fine


def test_a_policy_that_swallows_is_found_too() -> None:
    registry = ToolRegistry([work])

    @registry.around
    async def careless(dispatch: ToolDispatch, call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        with suppress(BaseException):
            await trio.sleep(1)
        return await call_next()

    @registry.after
    async def decide(
        execution: ToolExecution, result: ToolResult, call_next: Callable[[], Awaitable[AfterDecision]]
    ) -> AfterDecision:
        await trio.lowlevel.checkpoint()  # it is shielded, and not disturbed
        return await call_next()

    report = swept(one_call(registry), registry=registry)
    assert rules(report) == {"swallowed"}
    assert "in test_a_policy_that_swallows_is_found_too.<locals>.careless" in str(report)


def test_code_may_be_a_partial_a_callable_object_or_a_method() -> None:
    class Caller:
        async def __call__(self, scope: trio.CancelScope) -> ToolResult:
            return await one_call(ToolRegistry([work]))(scope)

        async def method(self, scope: trio.CancelScope) -> ToolResult:
            return await self(scope)

    caller = Caller()
    for make_call in (caller, caller.method, partial(Caller.__call__, caller)):
        report = swept(make_call, mode="raise")
        assert len(report.points) > 2
        assert all(InjectedError.__name__ in str(breach) for breach in report.breaches)


def test_the_same_seed_gives_the_same_steps() -> None:
    """And another one gives others, as the order of the tasks of a batch is Trio's to choose."""
    registry = ToolRegistry([work])

    @registry.before
    async def policy(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
        await trio.lowlevel.checkpoint()
        return await call_next()

    def order(seed: int) -> list[str]:
        taken: list[str] = []

        class Order(trio.abc.Instrument):
            def before_task_step(self, task: trio.lowlevel.Task) -> None:
                taken.append(task.name)

        async def main() -> str:
            trio.lowlevel.add_instrument(Order())
            calls = [ToolCall(id=str(number), name="work") for number in range(6)]

            async def make_calls(scope: trio.CancelScope) -> BatchOutcome:
                return await run_batch(registry, calls, scope=scope)

            return str(await cancel_everywhere(make_calls, registry=registry))

        return [run_seeded(main, seed=seed, clock=trio.testing.MockClock(autojump_threshold=0)), *taken]

    assert order(3) == order(3)
    assert len({tuple(order(seed)) for seed in range(4)}) > 1


def test_what_a_seeded_run_raises_comes_out() -> None:
    async def main() -> None:
        raise LookupError("as it is")

    with pytest.raises(LookupError, match="as it is"):
        run_seeded(main, seed=1)


@pytest.mark.trio
async def test_it_works_inside_a_test_of_pytest_trio(autojump_clock: trio.testing.MockClock) -> None:
    registry = ToolRegistry([work])
    report = await cancel_everywhere(one_call(registry), registry=registry, code=[work])
    assert report.breaches == ()
    assert len(report.points) > 2


@pytest.mark.trio
async def test_a_cancellation_from_outside_ends_a_sweep(autojump_clock: trio.testing.MockClock) -> None:
    registry = ToolRegistry([work])
    with trio.move_on_after(3) as scope:
        await cancel_everywhere(one_call(registry), registry=registry, code=[work])
        raise AssertionError("it must not get here")  # pragma: no cover
    assert scope.cancelled_caught
    assert registry.outstanding() == ()


@pytest.mark.trio
async def test_what_others_do_in_the_same_program_is_not_the_tools(nursery: trio.Nursery) -> None:
    """Found: a server in the test's own nursery, whose tasks and sockets end a little later than the call."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            with suppress(trio.BrokenResourceError):
                async for data in stream:
                    await stream.send_all(data)

    listeners: list[trio.SocketListener] = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
    port: int = listeners[0].socket.getsockname()[1]

    @tool
    async def fetch() -> str:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        try:
            await stream.send_all(b"hello")
            return bytes(await stream.receive_some(5)).decode()
        finally:
            await trio.aclose_forcefully(stream)

    await assert_cancel_safe(fetch)

    @tool
    async def leaves_its_connection() -> None:
        kept.append(await trio.open_tcp_stream("127.0.0.1", port))

    kept: list[trio.SocketStream] = []
    with pytest.raises(AssertionError, match=r"in test_what_others_do.*socket-left"):
        await assert_cancel_safe(leaves_its_connection, modes="cancel")
    for stream in kept:
        await stream.aclose()
    nursery.cancel_scope.cancel()


@pytest.mark.trio
@pytest.mark.parametrize("frozen", [False, True])
async def test_what_was_left_to_the_garbage_collector_before_is_not_the_tools(*, frozen: bool) -> None:
    """Nor is it lost; and what a program has put by itself stays there."""
    runs = 0

    @tool
    async def collects() -> None:
        nonlocal runs
        runs += 1
        if runs > 1:  # the first run is not judged
            gc.collect()
        await trio.lowlevel.checkpoint()

    gc.collect()
    if frozen:
        gc.freeze()
    gc.disable()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            left: list[object] = [socket.socket()]
            left.append(left)
            del left
            await assert_cancel_safe(collects, modes="cancel")
            assert (gc.get_freeze_count() > 0) == frozen
            gc.collect()
        finally:
            gc.enable()
            gc.unfreeze()
    assert [one.category for one in warned] == [ResourceWarning]
