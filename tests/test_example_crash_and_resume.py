"""The example of a crash, as a reader runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from example_program import EXAMPLES, PATIENCE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", EXAMPLES / "crash_and_resume.py", *words]
    environ = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environ)


def test_it_shows_what_was_replayed_what_is_safe_and_what_must_be_looked_at(tmp_path: Path) -> None:
    done = run("--journal", str(tmp_path / "j"))
    assert done.returncode == 0, done.stdout + done.stderr
    left, _, then = done.stdout.partition("asked for again")
    rows = {line.split()[1]: line for line in left.splitlines() if "call_" in line}
    assert set(rows) == {"call_3", "call_4", "call_5", "call_6"}
    assert "LOOK AT IT" in rows["call_3"]
    assert "safe to repeat: idempotent" in rows["call_4"]
    assert "safe to repeat: never entered" in rows["call_5"]
    rows = {line.split()[1]: line for line in then.splitlines() if "call_" in line}
    assert [number for number in range(1, 7) if "replayed" in rows[f"call_{number}"]] == [1, 2]
    assert [number for number in range(1, 7) if " made again" in rows[f"call_{number}"]] == [3, 4, 5, 6]
    assert "not made again" in rows["call_3"]
    assert (tmp_path / "j.ledger").read_text().count("euros charged") == 1


def test_a_file_that_exists_is_refused(tmp_path: Path) -> None:
    (tmp_path / "j").touch()
    done = run("--journal", str(tmp_path / "j"))
    assert done.returncode == 2
    assert "exists: name a new file" in done.stderr
