"""The example of an agent loop, run as what it is: a program of its own, with real processes and real signals.

No test sleeps: each waits for something that the program writes, and gives up if it does not come.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from example_program import AT_ONCE, EXAMPLES, FOREVER, PAIRED, PATIENCE, Start, programs


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the example in a directory of its own."""
    with programs(tmp_path) as starter:
        yield starter


# ---- a run to its end ------------------------------------------------------------------------------------------------


def test_a_run_shows_every_outcome_and_ends_with_status_0(start: Start, tmp_path: Path):
    """P1, and the table of outcomes: success, timeout, denial, approval, failure, unknown tool, malformed arguments."""
    program = start("--timeout", "1", "--command", FOREVER)
    assert program.end() == 0
    for shown in (
        "✓ ok",
        "◷ TOOL_TIMEOUT",
        "body interrupted · cancelled by deadline",
        "⊘ DENIED",
        '? approved by default, no terminal to ask at: {"command": "uname -sm"}',
        "✗ OUTSIDE",
        "✗ UNKNOWN_TOOL",
        "✗ INVALID_ARGS",
        PAIRED,
        "9 calls started · 9 results published · 9 in the history",
    ):
        assert shown in program.text
    assert program.left() == []
    assert [file.name for file in (tmp_path / "workspace").iterdir()] == ["notes.txt"]


def test_a_command_that_times_out_has_left_no_process_and_its_output_is_kept(start: Start):
    """P3 and section 5: what was emitted follows the first block; nothing outlives the call, in the middle of a run."""
    program = start("--timeout", "1", "--command", "echo begun; sleep 1000.25")
    program.until("TOOL_TIMEOUT")
    assert program.left("1000.25") == []
    program.until("told  Error: tool call timed out after 1s\n          begun\n")
    assert program.end() == 0


@pytest.mark.parametrize(
    "deaf",
    [
        "trap '' TERM; echo begun; while :; do sleep 1000.25; done",
        "(trap '' TERM; echo begun; while :; do sleep 1000.25; done) & wait",
    ],
    ids=["the command itself", "only a process that it has started"],
)
def test_what_ignores_term_is_killed(start: Start, deaf: str):
    """P3: the whole group, after a grace; that the first process of it has ended is not enough."""
    program = start("--timeout", "0.3", "--command", deaf, prelude="_workspace.GRACE = 0.1")
    program.until("TOOL_TIMEOUT")
    assert program.left("1000.25") == []
    assert program.end() == 0


def test_work_that_a_command_leaves_in_the_background_is_ended_with_it(start: Start):
    """P3: a success leaves nothing behind either, and does not wait for what holds its output open."""
    program = start("--timeout", "60", "--command", "sleep 1000.25 & echo begun")
    program.until("┊ begun")
    program.until("✓ ok")
    assert program.left("1000.25") == []
    assert program.end() == 0


def test_a_process_that_leaves_its_group_is_ended_too(start: Start, tmp_path: Path):
    away = tmp_path / "away"
    program = start(
        "--timeout",
        "60",
        "--command",
        f"setsid sh -c '> {away}; exec sleep 1000.25' & until [ -e {away} ]; do sleep 0.01; done",
    )
    program.until("turn 2")
    program.until("✓ ok")
    assert program.left("1000.25") == []
    assert program.end() == 0


def test_refused_beforehand_the_call_is_denied(start: Start):
    """Section 5: approver: rejected."""
    program = start("--timeout", "0.2", "--approve", "no")
    assert program.end() == 0
    assert "approvals: no, by --approve" in program.text
    assert "? refused by --approve" in program.text
    assert 'told  Error: the user rejected tool "run_command"' in program.text
    assert "┊ Linux" not in program.text


def test_without_a_terminal_nobody_can_be_asked_and_the_call_is_denied(start: Start):
    """P9: gates fail closed."""
    program = start("--timeout", "0.2", "--approve", "ask")
    assert program.end() == 0
    assert 'told  Error: tool "run_command" requires approval, but nobody can be asked' in program.text


def test_the_deadline_of_a_turn_cancels_its_calls_and_the_next_turn_goes_on(start: Start):
    """Section 5: the caller's deadline is a cancellation by the caller."""
    program = start("--timeout", "60", "--deadline", "1", "--command", FOREVER)
    program.until("■ ABORTED  ")
    program.until("cancelled by caller")
    program.until("The turn was cancelled by its deadline; the program goes on.")
    program.until("turn 3")
    assert program.end() == 0
    assert PAIRED in program.text
    assert program.left() == []


def test_a_result_that_is_published_twice_is_found_and_the_status_is_1(start: Start):
    """The exit status is honest."""
    counted_twice = "one = agent_loop.Agent.observe; agent_loop.Agent.observe = lambda *a: (one(*a), one(*a)) and None"
    program = start("--timeout", "0.2", prelude=counted_twice)
    assert program.end() == 1
    assert "NOT every call has exactly one result" in program.text
    assert "look-1 was started 1 times, published 2 times" in program.text


def test_a_result_that_is_missing_in_the_history_is_found_and_the_status_is_1(start: Start):
    """The exit status is honest."""
    forgetful = "run = agent_loop.run_batch; agent_loop.run_batch = lambda *a, on_commit, **k: run(*a, **k)"
    program = start("--timeout", "0.2", prelude=forgetful)
    assert program.end() == 1
    assert "look-1 has no result" in program.text


def test_a_command_that_is_told_to_end_may_have_its_say_before_it_does(start: Start, tmp_path: Path):
    """Its output is read until it is gone: a pipe that was closed or full would end it in the middle of tidying up."""
    tidied = tmp_path / "tidied"
    tidy = f"trap 'head -c 200000 /dev/zero; echo done > {tidied}; exit' TERM; echo begun; while :; do sleep 0.05; done"
    program = start("--timeout", "60", "--command", tidy, prelude=f"{AT_ONCE}; _workspace.GRACE = 60")
    program.until("┊ begun")
    program.send(signal.SIGINT)
    assert program.end() == 0
    assert tidied.exists()


# ---- signals ---------------------------------------------------------------------------------------------------------


def test_ctrl_c_cancels_the_turn_and_the_program_goes_on_to_its_end(start: Start):
    """P1, P2: the calls of the cancelled turn say whether they had begun; the history stays paired."""
    program = start("--timeout", "60", "--command", FOREVER, prelude=AT_ONCE)
    program.until("┊ begun")
    assert len(program.left("sleep 1000")) >= 1
    program.send(signal.SIGINT)
    program.until("Ctrl-C: the turn is cancelled")
    program.until("■ ABORTED  ")
    assert program.left("sleep 1000") == []
    program.until("body interrupted · cancelled by caller (Ctrl-C)")
    for _ in range(3):
        program.until("□ ABORTED_BEFORE_DISPATCH  never started · body not-started · cancelled by caller")
    program.until("turn 3")
    program.until("✓ ok")
    assert program.end() == 0
    assert PAIRED in program.text
    assert "6 calls started · 6 results published · 9 in the history" in program.text
    assert program.left() == []


def test_ctrl_c_pressed_again_in_the_same_turn_ends_the_program(start: Start, tmp_path: Path):
    """The command tidies up until the test lets it, so that the turn is still draining when Ctrl-C comes again."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    tidy = f"trap 'read x < {gate}; exit 0' TERM; echo begun; while :; do sleep 0.05; done"
    program = start("--timeout", "60", "--command", tidy, prelude="_workspace.GRACE = 60")
    program.until("┊ begun")
    program.send(signal.SIGINT)
    program.until("Ctrl-C: the turn is cancelled")
    program.send(signal.SIGINT)
    program.until("SIGINT: the program ends")
    gate.write_text("go\n")
    assert program.end() == 130
    assert "turn 3" not in program.text
    assert PAIRED in program.text
    assert program.left() == []


def test_ctrl_c_between_turns_ends_the_program(start: Start):
    """After a cancelled turn there is a pause in which none is running."""
    program = start("--timeout", "60", "--command", FOREVER, prelude="agent_loop.PAUSE = 1000")
    program.until("┊ begun")
    program.send(signal.SIGINT)
    program.until("The turn was cancelled by the user; the program goes on.")
    program.send(signal.SIGINT)
    assert program.end() == 130
    assert PAIRED in program.text
    assert program.left() == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_program_that_is_told_to_end_takes_its_commands_with_it(start: Start, number: signal.Signals, status: int):
    """P3: commands run in sessions of their own, so nobody else would end them."""
    program = start("--timeout", "60", "--command", FOREVER)
    program.until("┊ begun")
    program.send(number)
    assert program.end() == status
    assert PAIRED in program.text
    assert program.left() == []


# ---- the command line, and other surroundings ------------------------------------------------------------------------


def test_help_says_what_the_options_are(start: Start):
    program = start("--help")
    assert program.end() == 0
    assert "--approve {yes,no,ask}" in program.text


@pytest.mark.parametrize(
    "options", [("--nonsense",), ("--approve", "perhaps"), ("--timeout", "0"), ("--deadline", "x")]
)
def test_an_option_that_is_none_is_refused_before_anything_runs(start: Start, options: tuple[str, ...]):
    program = start(*options)
    assert program.end() == 2
    assert "error: " in program.text
    assert "turn 1" not in program.text


def test_an_empty_directory_will_do(start: Start, tmp_path: Path):
    (tmp_path / "workspace" / "notes.txt").unlink()
    program = start("--timeout", "0.2")
    assert program.end() == 0
    assert 'told  {"entries":[],"more":0}' in program.text
    assert "✗ UNREADABLE" in program.text


def test_an_encoding_that_lacks_the_signs_costs_no_call_its_result(start: Start):
    program = start("--timeout", "0.2", PYTHONIOENCODING="ascii")
    assert program.end() == 0
    assert PAIRED in program.text


def test_a_reader_that_goes_away_is_no_error(start: Start):
    """As behind ``| head``: the run comes to its honest end, and says nothing of it."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, str(EXAMPLES / "agent_loop.py"), "--timeout", "0.2"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, env=environ, stdin=subprocess.DEVNULL, stdout=writing, stderr=subprocess.PIPE
    ) as program:
        os.close(writing)
        _, errors = program.communicate(timeout=PATIENCE)
    assert (program.returncode, errors) == (0, b"")
