"""The example of an agent loop as a process of its own, for tests to talk to."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Generator
from pathlib import Path

from trio_tools.process._census import MARK

__all__ = ["AT_ONCE", "EXAMPLES", "FOREVER", "PAIRED", "PATIENCE", "Program", "Start", "programs"]

EXAMPLES = Path(__file__).parents[1] / "examples"
PATIENCE = 60.0  # seconds for anything to appear; only a broken program needs them
PAIRED = "every call has exactly one result"
FOREVER = "echo begun; sleep 1000"  # a command
AT_ONCE = "agent_loop.PAUSE = 0"  # a prelude: no pause after a cancelled turn
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ON_A_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class Program:
    """The example on its way, with a mark in its environment that all its processes inherit, its commands too."""

    def __init__(self, directory: Path, options: tuple[str, ...], *, terminal: bool, prelude: str, **environ: str):
        self.mark = uuid.uuid4().hex
        self.raw = ""
        self._seen = 0
        script = f"import sys, agent_loop, _workspace; {prelude}; sys.exit(agent_loop.main())"
        command = [sys.executable, "-W", "error", "-c", script, *options]
        environ = {"COLUMNS": "300", "PYTHONPATH": os.pathsep.join([str(EXAMPLES), *sys.path]), **environ}
        environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", MARK: self.mark, **environ}
        self.output, child = pty.openpty() if terminal else os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", ON_A_TERMINAL, *command] if terminal else command,
            cwd=directory,
            env=environ,
            stdin=child if terminal else subprocess.DEVNULL,
            stdout=child,
            stderr=child,
        )
        os.close(child)

    @property
    def text(self) -> str:
        """What it has written, without colours."""
        return ESCAPES.sub("", self.raw)

    def until(self, text: str) -> None:
        """Read on until ``text`` has come after what was waited for last."""
        while (at := self.text.find(text, self._seen)) < 0:
            assert self._read(), f"ended without {text!r}:\n{self.text}"
        self._seen = at + len(text)

    def _read(self) -> bool:
        ready, _, _ = select.select([self.output], [], [], PATIENCE)
        assert ready, f"nothing more is written:\n{self.text}"
        try:
            data = os.read(self.output, 65536)
        except OSError:  # so ends a terminal on Linux
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)

    def write(self, text: str) -> None:
        """Type at the terminal."""
        os.write(self.output, text.encode())

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Read the rest: the exit status."""
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def left(self, words: str = "") -> list[str]:
        """Command lines of its processes, the main one excepted, that have ``words`` in them."""
        found: list[str] = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if entry.name != str(self.process.pid) and self.mark.encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
        return [line for line in found if words in line]

    def close(self) -> None:
        """Leave nothing, whatever the test has found."""
        self.process.kill()
        self.process.wait()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self.mark.encode() in (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
        os.close(self.output)


Start = Callable[..., Program]


@contextlib.contextmanager
def programs(place: Path) -> Generator[Start]:
    """Starts the example, as often as asked, in an own directory with a text file in it; ends what is left of it."""
    directory = place / "workspace"
    directory.mkdir()
    (directory / "notes.txt").write_text("first line\nTODO: the rest\n")
    started: list[Program] = []

    def start(*options: str, terminal: bool = False, prelude: str = "pass", **environ: str) -> Program:
        program = Program(directory, options, terminal=terminal, prelude=prelude, **environ)
        started.append(program)
        return program

    try:
        yield start
    finally:
        for program in started:
            program.close()
