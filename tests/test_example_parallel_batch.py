"""The example of thirty calls: on a terminal, with Ctrl-C, and its picture in a real browser."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
EXAMPLE = Path(__file__).parent.parent / "examples" / "parallel_batch.py"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
MEASURE = """
<script>
const svg = document.querySelector("svg").getBoundingClientRect();
const rows = [...document.querySelectorAll("g.call")].map(row => {
  const box = row.getBoundingClientRect();
  const bars = [...row.querySelectorAll("rect")].map(bar => bar.getBoundingClientRect());
  const [name, outcome] = [...row.querySelectorAll("text")].map(text => text.getBoundingClientRect());
  return {
    inside: box.left >= svg.left && box.right <= svg.right && box.top >= svg.top && box.bottom <= svg.bottom,
    clear: bars.every(bar => bar.width > 0 && bar.left >= name.right && bar.right <= outcome.left),
    outcome: row.querySelector("text:last-of-type").textContent,
  };
});
document.body.insertAdjacentHTML("beforeend", "<pre id=measured>" + JSON.stringify(rows) + "</pre>");
</script>
"""


def finished(picture: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLE), "--picture", str(picture), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_thirty_calls_have_thirty_results_and_a_picture(tmp_path: Path) -> None:
    """Each with what became of it: a failure, a limit, a typo of the model's."""
    done = finished(tmp_path / "timeline.html", "--speed", "40")
    assert (done.returncode, done.stderr) == (0, "")
    assert "30 calls, 30 results" in done.stdout
    for word in ("E_SERVICE", "UNKNOWN_TOOL", "INVALID_ARGS", "exclusive", "keyed"):
        assert word in done.stdout
    html = (tmp_path / "timeline.html").read_text()
    assert html.count('class="call"') == 30
    assert not re.search(r"(src|href)=", html), "it is self-contained"


def test_a_speed_that_is_none_is_refused(tmp_path: Path) -> None:
    done = finished(tmp_path / "timeline.html", "--speed", "0")
    assert done.returncode == 2
    assert "must be more than 0" in done.stderr


def test_ctrl_c_shows_what_became_of_each(tmp_path: Path) -> None:
    """On a terminal; the program goes on to its end, and every call has its result."""
    ours, theirs = pty.openpty()
    command = [sys.executable, str(EXAMPLE), "--speed", "0.05", "--picture", str(tmp_path / "timeline.html")]
    environ = {**os.environ, "COLUMNS": "120", "LINES": "60", "TERM": "xterm"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ) as process:
        os.close(theirs)
        shown = b""
        while shown.count(b"exclusive") < 6:  # frames: some calls are at work by now
            shown += os.read(ours, 65536)
        process.send_signal(signal.SIGINT)
        try:
            while more := os.read(ours, 65536):
                shown += more
        except OSError:  # how the end of a terminal reads
            pass
        assert process.wait(60) == 0
    os.close(ours)
    text = ESCAPES.sub("", shown.decode())
    assert "30 calls, 30 results" in text
    assert re.search(r"ABORTED\b(?!_)", text)
    assert "ABORTED_BEFORE_DISPATCH" in text
    assert "30 calls of one message, cancelled" in (tmp_path / "timeline.html").read_text()


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium; .ci/run installs it")
def test_a_browser_shows_every_call_of_the_picture(tmp_path: Path) -> None:
    """Nothing overlaps and nothing is cut off, as the browser itself measures it."""
    picture = tmp_path / "timeline.html"
    assert finished(picture, "--speed", "40").returncode == 0
    picture.write_text(picture.read_text().replace("</body>", f"{MEASURE}</body>"))
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    command = [str(BROWSER), *FLAGS, profile, "--window-size=1300,1000", "--dump-dom", picture.as_uri()]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    measured = re.search(r'<pre id="measured">(.*?)</pre>', page)
    assert measured is not None, page[-2000:]
    rows: list[dict[str, Any]] = json.loads(measured[1])
    assert len(rows) == 30
    assert all(row["inside"] and row["clear"] for row in rows), rows
    assert {"done", "E_SERVICE", "UNKNOWN_TOOL", "INVALID_ARGS"} <= {row["outcome"] for row in rows}
