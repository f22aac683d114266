"""Functions that a worker process can import."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path


def square(number: int) -> int:
    return number * number


def fails() -> None:
    raise LookupError("no such number")


def dies() -> None:
    os._exit(3)


def computes_for_ever(sign: str) -> None:
    """Write this process's pid, so that somebody can look whether it is gone; then compute."""
    Path(sign).write_text(str(os.getpid()))
    while True:
        time.time()


def leaves_a_thread(sign: str) -> str:
    """Write this process's pid; a thread goes on."""
    Path(sign).write_text(str(os.getpid()))
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return "done"


def runs_a_command(sign: str) -> None:
    """Write the pid of a process that outlives this one, if nobody ends it."""
    child = subprocess.Popen(["sleep", "1000"])
    Path(sign).write_text(str(child.pid))
    child.wait()


def returns_what_cannot_be_sent() -> object:
    return lambda: 1


def exits() -> None:
    sys.exit(4)
