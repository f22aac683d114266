"""What the README shows is what runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def output_of(program: str) -> str:
    done = subprocess.run([sys.executable, ROOT / "examples" / program], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize(("number", "program"), [(0, "first_call.py"), (1, "stages.py")])
def test_a_program_in_the_readme_is_a_file_that_runs(number: int, program: str) -> None:
    """Every snippet is a file; it is shown as it is."""
    assert blocks("python")[number] == (ROOT / "examples" / program).read_text()
    assert output_of(program)


def test_the_first_program_prints_what_the_readme_says() -> None:
    """A newcomer compares."""
    assert output_of("first_call.py") == blocks("text")[0]


def test_the_tour_of_typed_tools_shows_what_it_says() -> None:
    """Schema, arguments, refusals, content."""
    shown = output_of("typed_tools.py")
    assert '"additionalProperties": false' in shown
    assert 'unknown key "nmae" (did you mean "name"?)' in shown
    assert 'the key "arrival" is there twice' in shown
    assert "[ImageContent]" in shown
    assert "characters left out" in shown
    assert "22 °C, clear" in shown


def test_every_file_that_the_readme_links_to_exists() -> None:
    """Promises link to the tests that show them."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
