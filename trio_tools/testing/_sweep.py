"""Disturbing a scenario at every point at which it can be disturbed."""

from __future__ import annotations

import gc
import itertools
import math
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, nullcontext

import attrs
import trio

from trio_tools._registry import ToolRegistry
from trio_tools._request import ToolCall
from trio_tools._results import ToolFailure
from trio_tools._tool import ToolDefinition
from trio_tools.testing._doubles import must_be_registry, must_be_tool
from trio_tools.testing._locating import located
from trio_tools.testing._report import MODES, Breach, CancelPoint, CancelReport, Mode
from trio_tools.testing._resources import Marked
from trio_tools.testing._run import Run, Runs
from trio_tools.testing._scenario import Code, MakeCall, Scenario, SetUp, as_many, files_of, nothing

__all__ = ["assert_cancel_safe", "cancel_everywhere"]


async def cancel_everywhere(
    make_call: MakeCall,
    *,
    mode: Mode = "cancel",
    registry: ToolRegistry | None = None,
    check: Callable[[CancelPoint], None] | None = None,
    setup: SetUp = nothing,
    code: Iterable[Code] | Code = (),
    max_steps: int = 1_000,
    max_seconds: float = math.inf,
    clock: Callable[[], float] = trio.current_time,
) -> CancelReport:
    """Run a scenario once, and then once for each of its points, disturbed there; report what was broken. ::

        async def one_call(scope: trio.CancelScope) -> ToolResult:
            return await registry.execute(ToolCall(id="c1", name="fetch", arguments={"url": url}), scope=scope)

        report = await cancel_everywhere(one_call, registry=registry, code=[fetch])
        assert not report.breaches, report

    Await it in any Trio program; under ``trio.testing.MockClock`` nothing waits for real. The steps of one task are the
    same in each run; where several tasks can run, Trio picks the order, and :func:`run_seeded` makes it pick the same
    ones again. One run before all others is not judged: it fills caches. Files, sockets and processes are seen on
    Linux. Lines are followed with :func:`sys.settrace`, for short: debuggers and coverage tools do not see these.

    A checkpoint, many times. If ``Cancelled`` comes out, the run of the moment has ended.

    Args:
        make_call: Makes one call, or a batch, in the scope that it is given, and returns what came of it. It is
            disturbed like its calls: what it awaits beside them belongs into ``setup``.
        mode: What happens at each point, see :data:`Mode`.
        registry: Where the calls are made: then each call must have exactly one result.
        check: Looks at each run, and raises ``AssertionError`` if it does not like it.
        setup: Makes an asynchronous context that is entered before each run and left behind it, neither of them
            disturbed: for what each run is to find anew. By default there is nothing to set up.
        code: One or several functions or tools: in their files are the lines that are told of what was opened and what
            took long, and the calls that fail in the mode ``"raise"``. By default that of ``make_call``. A cancellation
            that was swallowed is found in any code that belongs to no installed package.
        max_steps: How many steps of the scheduler may follow the disturbance. What runs on is ended by force, if it
            comes by a line of these files again. What only waits, for ever, is waited for: run tests under a timeout.
        max_seconds: How long one step may take, and how long the scenario may go on when it is disturbed; on ``clock``.
        clock: By default Trio's. ``time.perf_counter`` measures code that computes.

    Raises:
        ValueError, TypeError: If an argument is not what it should be; it says what to write instead.
        RuntimeError: If another sweep is running in this process.
    """
    scenario = Scenario(
        make_call=make_call,
        mode=mode,
        registry=registry,
        check=check,
        setup=setup,
        max_steps=max_steps,
        max_seconds=max_seconds,
        clock=clock,
    )
    scenario = attrs.evolve(scenario, files=files_of(as_many(code) or [make_call]))
    with _one_at_a_time() as marks, nullcontext() if registry is None else registry.observe(scenario.observer):
        return await _swept(scenario, marks)


_ATTEMPTS = 3  # to come to a point that the first run has come to

_sweeping = threading.Lock()


@contextmanager
def _one_at_a_time() -> Generator[Marked]:
    """Trace functions, filters of warnings, descriptors and the environment are the whole process's."""
    if not _sweeping.acquire(blocking=False):
        raise RuntimeError("another sweep is running in this process: make them one after the other")
    try:
        with Marked().marking() as marks:
            yield marks
    finally:
        _sweeping.release()


async def _swept(scenario: Scenario, marks: Marked) -> CancelReport:
    await Runs(attrs.evolve(scenario, check=None), marks).once(0)  # fills caches
    missed: list[int] = []
    with _garbage_put_by():
        runs = Runs(scenario, marks)
        first = await runs.once(0)
        points = [await located(scenario, runs, first.point)]
        for at in itertools.count(1):  # pragma: no branch - it is endless
            last = await _disturbed(runs, at, attempts=_ATTEMPTS if at <= first.length else 1)
            if last.reached:
                points.append(await located(scenario, runs, last.point))
            elif at <= first.length:
                missed.append(at)
            else:
                points.extend(_left_behind(first.point, last.point))
                break
    return CancelReport(scenario.mode, tuple(points), tuple(_remarks(missed)))


async def _disturbed(runs: Runs, at: int, *, attempts: int) -> Run:
    """A run that came to that point; or one that did not, if none of so many did."""
    while True:
        await trio.lowlevel.checkpoint_if_cancelled()  # from outside: the calls give back results then
        run, attempts = await runs.once(at), attempts - 1
        if run.reached or not attempts:
            return run


def _remarks(missed: list[int]) -> Iterable[str]:
    if missed:
        which = f"{len(missed)} points, from {missed[0]} to {missed[-1]}"
        yield f"not tried: {which}. The first run came there, and {_ATTEMPTS} others did not: runs differ in length"


@contextmanager
def _garbage_put_by() -> Generator[None]:
    """What was left to the garbage collector until now is not the tool's: keep it from being collected in the block."""
    if gc.get_freeze_count():  # somebody else has put something by, and it is to stay there
        gc.collect()
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _left_behind(first: CancelPoint, last: CancelPoint) -> Iterable[CancelPoint]:
    """The last run if it, as undisturbed as the first one, ended otherwise."""
    if last.outcome != first.outcome:
        text = f"run again, and not disturbed, it ends with {last.outcome} and not with {first.outcome}"
        yield attrs.evolve(last, breaches=(*last.breaches, Breach("state-left", text)))


async def assert_cancel_safe(
    tool: ToolDefinition,
    arguments: object = None,
    *,
    modes: Iterable[Mode] | Mode = MODES,
    registry: ToolRegistry | None = None,
    may_fail: bool = False,
    check: Callable[[CancelPoint], None] | None = None,
    setup: SetUp = nothing,
    code: Iterable[Code] | Code = (),
    max_steps: int = 1_000,
    max_seconds: float = math.inf,
    clock: Callable[[], float] = trio.current_time,
) -> None:
    """Prove one tool cancel-safe, with these arguments. ::

        async def test_fetch(autojump_clock: MockClock) -> None:
            await assert_cancel_safe(fetch, {"url": "http://localhost:8000"})

    A checkpoint, many times; see :func:`cancel_everywhere`. The tool is really run, once for each point.

    Args:
        tool: The tool.
        arguments: Parsed JSON; by default ``{}``.
        modes: What to do to it; one or several.
        registry: Whose tools the body can call, and whose stages stand around it.
        may_fail: Whether a failure is what these arguments lead to. By default the tool must succeed when it is not
            disturbed: of one that fails at once, little is proved.
        check: As for :func:`cancel_everywhere`, like all that follows.
        setup: Likewise.
        code: Likewise; beside the tool.
        max_steps: Likewise.
        max_seconds: Likewise.
        clock: Likewise.

    Raises:
        AssertionError: If a rule is broken: it says which, at which line of the tool, and at which points. Also if the
            tool fails when it is not disturbed.
        ValueError, TypeError: If an argument is not what it should be.
    """
    must_be_tool(tool)
    must_be_registry(registry)
    if not isinstance(may_fail, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise TypeError(f"may_fail must be True or False, not {may_fail!r}")
    home = ToolRegistry([tool], parent=registry)
    call = ToolCall(id="call", name=tool.name, arguments={} if arguments is None else arguments)
    for mode in _chosen(modes):
        report = await cancel_everywhere(
            lambda scope: home.execute(call, scope=scope),
            mode=mode,
            registry=home,
            check=check,
            setup=setup,
            code=[tool, *as_many(code)],
            max_steps=max_steps,
            max_seconds=max_seconds,
            clock=clock,
        )
        _judge(tool.name, report, may_fail=may_fail)


def _chosen(modes: Iterable[Mode] | Mode) -> tuple[Mode, ...]:
    if isinstance(modes, str):
        return (modes,)
    if not isinstance(modes, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise TypeError(f"modes must be one of {', '.join(map(repr, MODES))}, or several, not {modes!r}")
    chosen = tuple(modes)
    if not chosen:
        raise ValueError(f"modes must name at least one of {', '.join(map(repr, MODES))}: nothing would be tried")
    return chosen


def _judge(name: str, report: CancelReport, *, may_fail: bool) -> None:
    first = report.points[0].results
    if first and isinstance(first[0], ToolFailure) and not may_fail:
        raise AssertionError(
            f"{name} failed before it was disturbed, which proves nothing: {first[0].error.message} "
            "(give other arguments, or may_fail=True; or a setup= that puts right what an earlier run has left)"
        )
    if report.breaches:
        raise AssertionError(f"{name} is not cancel-safe:\n{report}")
