"""Functions in worker processes: what comes back, and that a cancelled one is gone."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import computing
import pytest
import trio
import trio_parallel  # pyright: ignore[reportMissingTypeStubs] - it has annotations, and no py.typed
import trio_parallel._proc as _proc  # pyright: ignore[reportMissingTypeStubs] - likewise

from trio_tools import TOOL_ABORTED, ToolCall, ToolError, ToolFailure, ToolRegistry, ToolResult, tool
from trio_tools.process import WORKER_DIED, _census, run_in_process
from trio_tools.testing import assert_cancel_safe

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is left is looked for in /proc")


@tool
async def squares(number: int) -> int:
    """In a process of its own."""
    return await run_in_process(computing.square, number)


def ran(function: Any, *arguments: Any) -> Any:
    return trio.run(run_in_process, function, *arguments)


def test_what_the_function_returns_and_raises_comes_back() -> None:
    assert ran(computing.square, 5) == 25
    assert ran(functools.partial(computing.square, 6)) == 36
    with pytest.raises(LookupError, match="no such number"):
        ran(computing.fails)


def test_a_worker_that_dies_is_an_error_that_says_so() -> None:
    with pytest.raises(ToolError, match="the worker process has ended before <function dies") as caught:
        ran(computing.dies)
    assert caught.value.code == WORKER_DIED


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda: 3, "cannot be sent to a process: define it at the top of a module"),
        (3, "takes a function and its arguments, not 3"),
    ],
)
def test_what_cannot_be_sent_is_refused(function: Callable[[], object], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        ran(function)


@pytest.mark.parametrize(
    ("arguments", "options", "told"),
    [
        ([open], {}, None),
        ([lambda: 3], {}, "cannot be sent to a process: it is argument 1, and pickle does not take it"),
        ([5], {"limiter": 5}, "limiter takes a trio.CapacityLimiter, not 5"),
    ],
)
def test_so_are_arguments(arguments: list[Any], options: dict[str, Any], told: str | None) -> None:
    async def main() -> object:
        return await run_in_process(repr, *arguments, **options)

    if told is None:
        assert trio.run(main) == repr(*arguments)
    else:
        with pytest.raises(TypeError, match=told):
            trio.run(main)


def test_a_thread_that_the_function_leaves_neither_keeps_its_result_nor_outlives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opens: Any = getattr(trio_parallel, "open_worker_context")  # noqa: B009 - it has no types
    patience: list[float] = []

    def remembers(**options: Any) -> Any:
        patience.append(options["grace_period"])
        return opens(**options)

    monkeypatch.setattr(trio_parallel, "open_worker_context", remembers)
    assert ran(computing.leaves_a_thread, str(tmp_path / "pid")) == "done"
    assert patience[0] < 1
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_commands_that_the_function_has_started_are_ended_too(tmp_path: Path) -> None:
    async def main() -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run_in_process, computing.runs_a_command, str(tmp_path / "pid"))
                while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():  # noqa: ASYNC110 - nobody tells
                    await trio.sleep(0.01)
                scope.cancel()

    trio.run(main)
    assert int((tmp_path / "pid").read_text()) not in {one.pid for one in _census.census().there}


@pytest.mark.parametrize("function", [computing.dies, computing.returns_what_cannot_be_sent, computing.exits])
def test_a_bad_end_leaves_no_descriptor(function: Callable[[], object]) -> None:
    async def main() -> None:
        await run_in_process(computing.square, 1)
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises((ToolError, AttributeError)) as caught:
            await run_in_process(function)
        del caught
        assert len(os.listdir("/proc/self/fd")) <= before

    trio.run(main)


def test_sys_exit_ends_the_worker_and_not_the_program() -> None:
    with pytest.raises(ToolError, match=r"has called sys.exit") as caught:
        ran(computing.exits)
    assert caught.value.code == WORKER_DIED


def test_a_program_without_a_file_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computing.square, "__module__", "__main__")
    monkeypatch.delattr(sys.modules["__main__"], "__file__")
    with pytest.raises(TypeError, match="put it in a file"):
        ran(computing.square, 5)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trio_parallel", None)
    with pytest.raises(ImportError, match=r"pip install 'trio-tools\[parallel\]'"):
        ran(computing.square, 5)


def test_a_function_that_computes_for_ever_is_gone_when_it_is_cancelled(tmp_path: Path) -> None:
    sign = tmp_path / "pid"

    @tool
    async def computes() -> None:
        await run_in_process(computing.computes_for_ever, str(sign))

    async def main() -> ToolResult:
        registry = ToolRegistry([computes])
        results: list[ToolResult] = []
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()

            async def call() -> None:
                results.append(await registry.execute(ToolCall(id="c1", name="computes"), scope=scope))

            nursery.start_soon(call)
            while not (sign.exists() and sign.read_text()):  # noqa: ASYNC110 - nobody tells us
                await trio.sleep(0.01)
            scope.cancel()
        return results[0]

    result = trio.run(main)
    assert isinstance(result, ToolFailure)
    assert (result.error.code, result.body) == (TOOL_ABORTED, "interrupted")
    assert not Path("/proc", sign.read_text()).exists()


def test_the_pipes_of_a_worker_that_is_dead_before_it_is_waited_for_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    kill = _proc.SpawnProcWorker.kill

    def kill_for_sure(worker: Any) -> None:
        kill(worker)
        os.waitid(os.P_PID, worker.proc.pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(_proc.SpawnProcWorker, "kill", kill_for_sure)
    trio.run(lambda: assert_cancel_safe(squares, {"number": 5}, modes="cancel"))


def test_it_is_cancel_safe_at_every_step() -> None:
    trio.run(lambda: assert_cancel_safe(squares, {"number": 5}, modes=["cancel", "deadline", "raise"]))
