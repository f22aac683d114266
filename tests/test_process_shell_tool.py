"""The shell tool: what a model sees, and that it is cancel-safe at every step."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import trio
from test_process_command import left

from trio_tools import (
    TOOL_ABORTED,
    TOOL_TIMEOUT,
    TextContent,
    ToolCall,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    freeze,
    tool,
)
from trio_tools.process import NOT_STARTED, run_command, shell_tool
from trio_tools.testing import RecordingObserver, assert_cancel_safe, run_tool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is left is looked for in /proc")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Generator[None]:
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert left() == []
    gc.collect()  # Trio's descriptor of a process that nobody has waited for
    assert len(os.listdir("/proc/self/fd")) <= before


def called(command: str, **options: Any) -> ToolResult:
    async def main() -> ToolResult:
        options.setdefault("cwd", "/")
        return await run_tool(shell_tool(**options), {"command": command})

    return trio.run(main)


def shown(result: ToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo hello", "hello"),
        ("true", "[no output]"),
        ("echo one; echo two >&2; exit 3", "one\ntwo\n[exit status 3]"),
        ("kill -9 $$", "[ended by SIGKILL]"),
        ("kill -40 $$", "[ended by signal 40]"),
        ("cat", "[no output]"),
        ("no-such-command 2>/dev/null", "[exit status 127]"),
    ],
)
def test_what_a_model_sees(command: str, told: str) -> None:
    result = called(command)
    assert result.is_error is False
    assert shown(result) == told


def test_long_output_is_cut_in_the_middle_and_the_model_is_told() -> None:
    result = called("seq 10000", max_output=100)
    assert result.is_error is False
    text = shown(result)
    assert text.startswith("1\n2\n3\n")
    assert "\n10000\n[48794 bytes of output are left out; narrow it down" in text
    assert len(text) < 300


def test_directory_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("LANG", "C")
    assert shown(called("pwd", cwd=tmp_path)) == str(tmp_path.resolve())
    assert shown(called("echo [$API_KEY] $LANG $MORE", env={"MORE": "more"})) == "[] C more"
    assert shown(called("echo [$API_KEY] $LANG", pass_env=["API_KEY", "NO_SUCH"])) == "[secret]"


def test_what_may_still_run_is_told_to_the_model() -> None:
    value = {"exit_status": None, "signal": None, "output": "", "omitted_bytes": 0, "seconds": 1, "still_running": [7]}
    assert shell_tool(cwd="/").output.render(None, freeze(value)) == "[could not be ended, and may still run: 7]"


def test_a_directory_that_is_gone_is_a_failure_that_says_so() -> None:
    result = called("ls", cwd="/no/such/directory")
    assert isinstance(result, ToolFailure)
    assert result.error.code == NOT_STARTED
    assert "could not be started: [Errno 2] No such file or directory: '/no/such/directory'" in result.error.message


def test_its_time_is_bounded_and_what_it_wrote_is_kept() -> None:
    result = called("echo begun; trap '' TERM; sleep 1000", timeout=0.5, grace=0.1)
    assert isinstance(result, ToolFailure)
    assert result.error.code == TOOL_TIMEOUT
    assert result.partial == (TextContent("begun\n"),)


def test_partial_output_is_bounded_too_and_progress_is_told() -> None:
    observer = RecordingObserver()
    registry = ToolRegistry([shell_tool(cwd="/", max_output=10)])
    registry.observe_progress(observer.progress)

    async def main() -> ToolResult:
        with trio.CancelScope() as scope:

            async def stop() -> None:
                while not any("end" in told.message for _, told in observer.reported):  # noqa: ASYNC110
                    await trio.sleep(0.01)
                scope.cancel()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(stop)
                call = ToolCall(id="c1", name="shell", arguments={"command": "seq 100; echo end; sleep 1000"})
                results.append(await registry.execute(call, scope=scope))
        return results[0]

    results: list[ToolResult] = []
    result = trio.run(main)
    assert isinstance(result, ToolFailure)
    assert result.error.code == TOOL_ABORTED
    assert result.partial == (TextContent("1\n2\n3\n4\n5\n"), TextContent("[further output is left out]"))
    assert observer.reported[-1][1].progress == 296


@pytest.mark.parametrize(
    "command",
    [
        "echo done",
        "sleep 0.02 & setsid sleep 0.02 & echo begun; wait",
        "(setsid sleep 1000 >/dev/null 2>&1 &); echo on",
        "trap '' TERM; sleep 0.05; echo on",
        "head -c 300000 /dev/zero",
    ],
)
def test_it_is_cancel_safe_at_every_step(command: str) -> None:
    shell = shell_tool(cwd="/", grace=0.1)
    trio.run(lambda: assert_cancel_safe(shell, {"command": command}))


@tool
async def feeds(path: str) -> int | None:
    """A command that may not be there, and that does not read what it is given."""
    return (await run_command([path, "0.02"], input=b"x" * 1_000_000, grace=0.1)).status


@pytest.mark.parametrize("path", ["sleep", "/nowhere"])
def test_so_is_a_command_that_reads_nothing_or_does_not_start(path: str) -> None:
    trio.run(lambda: assert_cancel_safe(feeds, {"path": path}, may_fail=path == "/nowhere"))


def test_the_model_is_told_of_the_bounds() -> None:
    tool = shell_tool(cwd="/", timeout=5, max_output=1000)
    assert "It is ended after 5 seconds" in tool.description
    assert "more than 1000 bytes" in tool.description
    assert "ended after" not in shell_tool(cwd="/", timeout=None).description
    assert shell_tool(cwd="/", description="Mine.", name="sh").description == "Mine."


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"cwd": None}, TypeError, "cwd takes the path of a directory, not None"),
        ({"pass_env": "PATH"}, TypeError, r"pass_env takes a list of names, such as \['PATH', 'HOME'\], not 'PATH'"),
        ({"pass_env": [1]}, TypeError, "pass_env takes a list of names"),
        ({"pass_env": 5}, TypeError, "pass_env takes a list of names"),
        ({"env": {"A": 1}}, TypeError, "env takes a mapping of str to str"),
        ({"timeout": 0}, ValueError, "timeout must be a positive number"),
        ({"max_output": 0}, ValueError, "max_output must be a positive number of bytes"),
        ({"grace": "2"}, ValueError, "grace must be a number of seconds"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], error: type[Exception], told: str) -> None:
    options.setdefault("cwd", "/")
    with pytest.raises(error, match=told):
        shell_tool(**options)
