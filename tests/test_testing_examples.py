"""The kit over what we ship: the tools of the examples, and the example of the kit itself."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from example_program import EXAMPLES, PATIENCE

from trio_tools import ToolDefinition
from trio_tools.testing import assert_cancel_safe


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list_files", {}),
        ("read_file", {"path": "a.txt"}),
        ("search_text", {"text": "needle"}),
        ("run_command", {"command": "cat a.txt; exit 3"}),
    ],
)
def test_the_tools_of_the_agent_loop_are_cancel_safe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, arguments: dict[str, Any]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))  # pyright: ignore[reportUnknownMemberType] - annotated without a type
    workspace: Any = importlib.import_module("_workspace")
    (tmp_path / "a.txt").write_text("a needle\n")
    tools: list[ToolDefinition] = workspace.Workspace(tmp_path).tools(command_timeout=PATIENCE)
    (tool,) = (tool for tool in tools if tool.name == name)
    trio.run(assert_cancel_safe, tool, arguments)


def test_the_example_finds_three_faults_and_none_in_the_mended_tool() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "cancel_safe_tool.py"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    for rule in ("task-left", "swallowed", "process-left"):
        assert f"in faulty: {rule}" in done.stdout
    assert "watch_build: cancel-safe" in done.stdout
    assert done.stderr == ""
