"""What a process holds, and the ends of it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from multiprocessing import resource_tracker
from typing import Any

import pytest
import trio

from trio_tools.testing import _resources
from trio_tools.testing._resources import Held, Snapshot, end_process, ended, family, held

NOBODY = 2**22 + 7  # above the largest pid of Linux


def new_since(before: Snapshot) -> list[Held]:
    return sorted(held(before).since(before), key=lambda one: one.kind)


def look() -> list[Held]:
    async def main() -> list[Held]:
        return [*held().things.values()]

    return trio.run(main)


@pytest.mark.trio
async def test_what_is_opened_is_seen_and_what_is_closed_is_not() -> None:
    before = held()
    reader, writer = os.pipe()
    one, other = trio.socket.socketpair()
    kinds = [left.kind for left in new_since(before)]
    assert kinds == ["file", "file", "socket", "socket"]
    assert all("descriptor" in left.text for left in new_since(before))
    os.close(reader)
    os.close(writer)
    one.close()
    other.close()
    assert new_since(before) == []


@pytest.mark.trio
async def test_a_process_is_seen_with_its_children_until_somebody_has_waited_for_it() -> None:
    before = held()
    script = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()']); print('.', flush=True); input()"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert child.stdout is not None
    child.stdout.readline()
    left = [one for one in new_since(before) if one.kind == "process"]
    assert len(left) == 2
    assert all(one.is_meant(f"subprocess {one.key} is still running") for one in left)
    for one in left:
        assert isinstance(one.key, int)
        end_process(one.key)
    child.communicate()
    assert [one for one in new_since(before) if one.kind == "process"] == []
    end_process(NOBODY)  # nothing happens


@pytest.mark.trio
async def test_a_thread_is_seen_and_one_that_is_about_to_end_is_none() -> None:
    before, over = held(), threading.Event()
    thread = threading.Thread(target=over.wait, daemon=True)
    thread.start()
    (left,) = new_since(before)
    assert left.is_meant(f"{left.text} is left")
    assert not ended(left, 60)
    over.set()
    thread.join()
    assert ended(left, 0)
    await trio.to_thread.run_sync(int)  # by a thread of Trio's cache
    assert new_since(before) == []


def test_a_process_is_known_by_its_family() -> None:
    assert family(os.getpid()) == (os.getppid(), os.getpgid(0), os.getsid(0))
    assert family(NOBODY) == ()


@pytest.mark.trio
async def test_a_descriptor_that_a_thread_is_about_to_close_is_none() -> None:
    before = held()
    reader, writer = os.pipe()
    numbers = {int(one.text.split()[-1][:-1]): one for one in new_since(before)}
    assert not ended(numbers[reader], 0)
    thread = threading.Thread(target=os.close, args=(reader,))
    thread.start()
    assert ended(numbers[reader], 60)
    assert not ended(numbers[writer], 0)
    os.close(writer)
    thread.join()


@pytest.mark.trio
async def test_the_resource_tracker_of_multiprocessing_is_nobodys() -> None:
    before = held()
    tracker: Any = resource_tracker.ResourceTracker()
    tracker.ensure_running()
    while b"resource_tracker" not in _resources._command(tracker._pid):  # pyright: ignore[reportPrivateUsage] - the same look
        pass  # it has not become what it is to be
    assert [one.kind for one in new_since(before)] == ["file"]
    tracker._stop()  # which has no public name


def test_a_zombie_is_told_as_such_and_where_there_is_no_proc_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "gone" in _resources.described(NOBODY)
    ended = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
    assert "ended, and not waited for" in _resources.described(ended)
    os.waitpid(ended, 0)
    assert any(one.kind == "file" for one in look())
    monkeypatch.setattr(_resources, "_DESCRIPTORS", "/nowhere")
    assert not any(one.kind in ("file", "socket") for one in look())
