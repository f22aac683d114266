"""The agent with a shell, as a reader runs it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from example_program import EXAMPLES, PATIENCE


@pytest.mark.skipif(sys.platform != "linux", reason="the example reads /proc")
def test_a_build_is_cancelled_half_way_and_nothing_of_it_is_left() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "shell_agent.py"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    before, _, after = done.stdout.partition("stop!")
    assert before.count("sleep 1000") >= 5  # compilers, their children, and the cache server
    assert "build-1: ABORTED, body interrupted" in after
    assert "compiling scheduler" in after.partition("behind the turn")[0]
    assert after.count("behind the turn: none") == 2
    assert "look-2: success" in after
    assert "3 results for 3 calls, 0 processes left" in after
