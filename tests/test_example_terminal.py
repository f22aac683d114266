"""The example of an agent loop at a terminal: questions, Ctrl-C as the terminal sends it, and how a page looks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from example_program import AT_ONCE, FOREVER, PAIRED, Start, programs


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the example in a directory of its own."""
    with programs(tmp_path) as starter:
        yield starter


@pytest.mark.parametrize(
    ("typed", "decision", "outcome", "told"),
    [
        ("y\n", "approved", "✓ ok", "Linux"),
        ("n\n", "refused", "⊘ DENIED", "the user rejected"),
        ("\n", "refused", "⊘ DENIED", "the user rejected"),
        ("\x04", "left open", "⊘ DENIED", "was cancelled"),
    ],
    ids=["y", "n", "Enter", "Ctrl-D"],
)
def test_the_person_at_the_terminal_decides(start: Start, typed: str, decision: str, outcome: str, told: str):
    """Section 5: what the approver answers is what the call gets."""
    program = start("--timeout", "0.2", terminal=True)
    program.until('? run_command {"command": "uname -sm"}')
    program.until("Run it? [y/N] ")
    program.write(typed)
    program.until(f"? {decision} at the terminal")
    program.until(outcome)
    program.until(told)
    assert program.end() == 0
    assert PAIRED in program.text


def test_an_answer_that_is_neither_yes_nor_no_decides_nothing(start: Start):
    """P9: gates fail closed; the person is asked again."""
    program = start("--timeout", "0.2", terminal=True)
    program.until("Run it? [y/N] ")
    program.write("perhaps\n")
    program.until("Please answer y or n: ")
    program.write("no\n")
    program.until("? refused at the terminal")
    assert program.end() == 0


def test_a_command_does_not_read_what_the_person_types(start: Start):
    """It has no standard input, and so does not wait for it either."""
    program = start("--timeout", "60", "--command", "cat; echo read to the end", "--approve", "yes", terminal=True)
    program.until("┊ read to the end")
    assert program.end() == 0


def test_ctrl_c_at_the_question_cancels_the_turn_without_a_decision(start: Start):
    """Section 5: approver waits, cancelled: ABORTED_BEFORE_DISPATCH. The terminal itself makes the signal."""
    program = start("--timeout", "0.2", terminal=True, prelude=AT_ONCE)
    program.until("Run it? [y/N] ")
    program.write("\x03")
    program.until("\nCtrl-C: the turn is cancelled")
    program.until("□ ABORTED_BEFORE_DISPATCH")
    program.until("turn 3")
    assert program.end() == 0
    assert "at the terminal:" not in program.text
    assert PAIRED in program.text


def test_what_was_typed_before_the_question_is_no_answer_to_it(start: Start):
    """P8: a person approves what they have seen."""
    program = start("--timeout", "1", "--command", FOREVER, terminal=True)
    program.until("┊ begun")
    program.write("y\n")
    program.until("Run it? [y/N] ")
    program.write("n\n")
    program.until("? refused at the terminal")
    assert program.end() == 0


def test_ctrl_c_at_the_terminal_does_not_reach_the_command_itself(start: Start):
    """It is the turn that is cancelled, and the turn ends the command: with TERM, which this one notes."""
    noting = "trap 'echo by INT; exit' INT; trap 'exit' TERM; echo begun; while :; do sleep 0.05; done"
    program = start("--timeout", "60", "--command", noting, "--approve", "yes", terminal=True, prelude=AT_ONCE)
    program.until("┊ begun")
    program.write("\x03")
    program.until("■ ABORTED  ")
    assert program.end() == 0
    assert "┊ by INT" not in program.text
    assert program.left() == []


@pytest.mark.parametrize(
    ("environ", "coloured"), [({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False)]
)
def test_colours_are_for_terminals_and_can_be_refused(start: Start, environ: dict[str, str], coloured: bool):
    program = start("--timeout", "0.2", "--approve", "yes", terminal=True, **environ)
    assert program.end() == 0
    assert bool(re.search(r"\x1b\[(\d+;)*3\d", program.raw)) == coloured


def test_a_narrow_page_that_is_no_terminal_has_no_escapes_and_no_broken_lines(start: Start):
    program = start("--timeout", "0.2", COLUMNS="80")
    assert program.end() == 0
    assert "\x1b" not in program.raw
    assert max(len(line) for line in program.raw.splitlines()) <= 80


def test_what_a_command_writes_does_not_steer_the_terminal(start: Start):
    """Text of others is shown, not obeyed."""
    program = start("--timeout", "60", "--command", "printf 'one\\033[2Jtwo\\n'")
    assert program.end() == 0
    assert "┊ one�[2Jtwo" in program.raw
    assert "\x1b" not in program.raw
