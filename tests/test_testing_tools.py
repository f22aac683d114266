"""The kit finds what is wrong with a tool, and where; and nothing where nothing is wrong."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from functools import partial
from typing import Any

import careless
import pytest
import trio
import trio.lowlevel
import trio.testing
from faulty_tools import FAULTY, KEPT
from sound_tools import SOUND

from trio_tools import (
    FunctionTool,
    Output,
    TextContent,
    ToolDefinition,
    ToolError,
    ToolRegistry,
    ToolRun,
    limit_content,
    tool,
)
from trio_tools.testing import CancelPoint, assert_cancel_safe


@pytest.fixture(autouse=True)
def nothing_kept() -> Generator[None]:
    """What the faulty tools leave behind is cleared away: they warn of it when it goes, as they should."""
    yield
    for clear in KEPT:
        clear()
    KEPT.clear()


def sweep(tool: ToolDefinition, *, real: bool = False, **options: Any) -> None:
    clock = None if real else trio.testing.MockClock(autojump_threshold=0)
    trio.run(partial(assert_cancel_safe, tool, **options), clock=clock)


def marked(tool: FunctionTool[..., Any]) -> set[tuple[int, str]]:
    """The lines that are marked, each with the rule that it breaks."""
    lines, first = inspect.getsourcelines(tool.function)
    found = ((number, re.search(r"breaks: ([\w-]+)", line)) for number, line in enumerate(lines, first))
    return {(number, match[1]) for number, match in found if match}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("tool", "options"), FAULTY, ids=[tool.name for tool, _ in FAULTY])
def test_what_is_faulty_is_found_at_its_line(tool: FunctionTool[..., Any], options: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=f"{tool.name} is not cancel-safe") as caught:
        sweep(tool, **options)
    told = str(caught.value)
    expected = marked(tool)
    assert expected
    for line, rule in expected:
        assert re.search(rf"faulty_tools.py:{line} in {tool.name}[.\w<>]*: {rule}: ", told), told
    assert "BROKEN" in told
    assert "undisturbed: success" in told


def test_a_generator_that_nobody_closes_is_found_though_not_always_its_line() -> None:
    @tool
    async def leaves_a_generator() -> int:
        async def numbers() -> AsyncGenerator[int]:
            try:
                yield 1
                yield 2
            finally:
                await trio.sleep(1)

        async for number in numbers():
            await trio.sleep(1)
            return number
        return 0  # pragma: no cover - there is a number

    with pytest.raises(AssertionError, match=r"task-left: .*Async generator"):
        sweep(leaves_a_generator)


def test_what_is_swallowed_in_another_file_is_found_there() -> None:
    @tool
    async def rests() -> bool:
        return await careless.rests(1)

    @tool
    @careless.never_fails
    async def decorated() -> str:
        await trio.sleep(1)
        return "done"

    with pytest.raises(AssertionError, match=r"careless.py:\d+ in rests: swallowed: Cancelled was caught here"):
        sweep(rests)
    with pytest.raises(AssertionError, match=r"careless.py:\d+ in never_fails\S+wrapper: swallowed: "):
        sweep(decorated)


def test_its_own_cancellations_may_end_where_the_tool_likes() -> None:
    @tool
    async def has_scopes() -> str:
        with trio.CancelScope() as scope:
            scope.cancel("of its own")
            with suppress(BaseException):
                await trio.sleep(1)
        with trio.move_on_after(0.5, shield=True):
            await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1)
            await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        return "done"

    sweep(has_scopes, modes=["cancel"])


def test_a_body_may_call_the_tools_of_a_registry() -> None:
    @tool
    async def inner() -> str:
        await trio.sleep(1)
        return "done"

    @tool
    async def outer(run: ToolRun) -> bool:
        return (await run.call_tool("inner", {})).is_error

    registry = ToolRegistry([inner])
    sweep(outer, registry=registry)
    assert registry.outstanding() == ()
    assert registry.tools() == (inner,)


def test_a_tool_that_fails_by_itself_proves_nothing_unless_that_is_meant() -> None:
    @tool
    async def fails() -> None:
        raise ToolError("not configured")

    with pytest.raises(AssertionError, match=r"fails failed before it was disturbed.*not configured.*may_fail=True"):
        sweep(fails)
    sweep(fails, may_fail=True)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"modes": []}, ValueError, "modes must name at least one of 'cancel', 'deadline', 'raise'"),
        ({"modes": ["kill"]}, ValueError, "mode must be one of 'cancel', 'deadline', 'raise', not 'kill'"),
        ({"registry": 3}, TypeError, "registry takes a ToolRegistry, not 3"),
        ({"modes": None}, TypeError, "modes must be one of .*, or several, not None"),
        ({"modes": 3}, TypeError, "modes must be one of .*, or several, not 3"),
        ({"may_fail": "yes"}, TypeError, "may_fail must be True or False, not 'yes'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        sweep(SOUND[0], **options)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_each_thing_that_is_left_has_its_own_line() -> None:
    @tool
    async def leaves_two() -> None:
        first = open(os.devnull)  # noqa: ASYNC230, SIM115 - here
        KEPT.append(first.close)
        await trio.sleep(1)
        first.close()
        second = open(os.devnull)  # noqa: ASYNC230, SIM115 - and here
        KEPT.append(second.close)
        await trio.sleep(1)
        second.close()

    with pytest.raises(AssertionError) as caught:
        sweep(leaves_two, modes="cancel")
    told = re.findall(r"(\d+) in \S+leaves_two: file-left: /dev/null \(descriptor", str(caught.value))
    lines, first = inspect.getsourcelines(leaves_two.function)
    assert [int(line) - first for line in told] == [
        number for number, line in enumerate(lines) if line.endswith("here\n")
    ]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_happens_only_once_is_told_with_the_line_if_there_is_only_one() -> None:
    runs = 0

    @tool
    async def forgets_once() -> None:
        nonlocal runs
        runs += 1
        number = os.open(os.devnull, os.O_RDONLY)  # here
        await trio.lowlevel.checkpoint()
        if runs == 2:
            KEPT.append(partial(os.close, number))
        else:
            os.close(number)

    with pytest.raises(AssertionError) as caught:
        sweep(forgets_once, modes="raise")
    lines, first = inspect.getsourcelines(forgets_once.function)
    here = first + next(number for number, line in enumerate(lines) if line.endswith("# here\n"))
    assert re.search(rf":{here} in \S+forgets_once: file-left: /dev/null", str(caught.value)), caught.value


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_line_that_python_tells_is_kept() -> None:
    @tool
    async def leaves_two_kinds() -> None:
        file: Any = open(os.devnull)  # noqa: ASYNC230, SIM115
        number = os.open(os.devnull, os.O_RDONLY)
        KEPT.append(partial(os.close, number))
        file = None  # told here
        assert file is None

    with pytest.raises(AssertionError) as caught:
        sweep(leaves_two_kinds, modes="raise")
    lines, first = inspect.getsourcelines(leaves_two_kinds.function)
    here = first + next(number for number, line in enumerate(lines) if line.endswith("# told here\n"))
    assert re.search(rf":{here} in \S+leaves_two_kinds: file-left: left to the", str(caught.value)), caught.value
    assert re.search(r"leaves_two_kinds: file-left: /dev/null \(descriptor", str(caught.value)), caught.value


def test_what_is_no_tool_is_refused() -> None:
    nothing: Any = len
    with pytest.raises(TypeError, match="not a tool: <built-in function len>; make one with @tool"):
        sweep(nothing)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_process_that_is_left_is_told_once() -> None:
    @tool
    async def leaves_a_process() -> None:
        process = await trio.lowlevel.open_process([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        await trio.sleep(1)
        process.kill()
        await process.wait()

    with pytest.raises(AssertionError) as caught:
        sweep(leaves_a_process, real=True, modes="cancel")
    assert str(caught.value).count(": process-left: ") == 1


REAL = {
    "reads_a_file", "talks_to_itself", "runs_a_process", "works_in_a_thread", "is_a_thread", "replaces_a_file",
    "enters_one_after_the_other", "closes_after_a_wait",
}  # fmt: skip


@pytest.mark.parametrize("tool", SOUND, ids=[tool.name for tool in SOUND])
def test_what_is_sound_passes(tool: FunctionTool[..., Any]) -> None:
    sweep(tool, real=tool.name in REAL, may_fail=tool.name == "fails")


@pytest.mark.parametrize(("rule", "number"), [("faulty", 12), ("sound", 12)])
def test_there_are_enough_of_both(rule: str, number: int) -> None:
    """Twelve of each, and one faulty tool for each rule that a tool can break by itself."""
    assert len(FAULTY if rule == "faulty" else SOUND) >= number
    rules = {rule for tool, _ in FAULTY for _, rule in marked(tool)}
    assert rules == {
        "swallowed", "too-many-steps", "too-long", "no-checkpoint", "no-result",
        "file-left", "socket-left", "process-left", "thread-left", "task-left",
    }  # fmt: skip


def test_what_this_package_ships_is_cancel_safe() -> None:
    """``limit_content`` behind a tool that emits and is slow."""

    @tool(output=Output(render=lambda arguments, value: [TextContent("x" * 500)]), finalize_content=limit_content(100))
    async def talks_much() -> str:
        await trio.sleep(1)
        return "done"

    sweep(talks_much)


def test_arguments_that_do_not_fit_prove_nothing() -> None:
    @tool
    async def work(number: int) -> int:
        return number  # pragma: no cover - never reached

    with pytest.raises(AssertionError, match=r"work failed before it was disturbed.*number"):
        sweep(work, arguments={"number": "5"})


def test_a_sound_tool_with_arguments_and_a_check() -> None:
    seen: list[str] = []

    @tool
    async def work(number: int) -> int:
        await trio.sleep(1)
        return number

    def check(point: CancelPoint) -> None:
        seen.append(point.outcome)

    sweep(work, arguments={"number": 5}, modes="deadline", check=check)
    assert seen[0] == "success"
    assert set(seen[1:]) == {"ABORTED"}
