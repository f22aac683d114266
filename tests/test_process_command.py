"""Every way in which a command can survive its end, with real processes; nothing of it is left, whatever happens."""

from __future__ import annotations

import gc
import os
import resource
import shlex
import signal
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio

from trio_tools import ToolError
from trio_tools._errors import leaves
from trio_tools.process import STILL_RUNNING, CommandResult, _census, _output, _tree, run_command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is left is looked for in /proc")


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def left() -> list[str]:
    """What runs of our commands, in words."""
    mine = f"{os.getpid()}-".encode()
    found: list[str] = []
    for one in _census.census().there:
        try:
            environ = Path(f"/proc/{one.pid}/environ").read_bytes()
            if _census.MARK.encode() in environ and mine in environ and one.pid != os.getpid():
                found.append(Path(f"/proc/{one.pid}/cmdline").read_bytes().decode())
        except OSError:
            continue
    return found


@pytest.fixture(autouse=True)
def nothing_is_left() -> Generator[None]:
    before = len(os.listdir("/proc/self/fd"))
    yield
    assert left() == []
    assert len(os.listdir("/proc/self/fd")) <= before


class Waits:
    """An observer that nobody can call without waiting for it."""

    async def __call__(self, text: str, stream: str) -> None:
        """Nothing."""


class Told(list[tuple[str, str]]):
    """Keeps what ``on_output`` is told."""

    def __call__(self, text: str, stream: str) -> None:
        self.append((text, stream))


def ran(command: Any, **options: Any) -> CommandResult:
    async def main() -> CommandResult:
        return await run_command(command, **options)

    return trio.run(main)


def cancelled(command: Any, begun: str = "begun", **options: Any) -> list[str]:
    """Run it, and cancel it when it has written ``begun``; what it wrote."""
    told: list[str] = []

    async def main() -> None:
        with trio.CancelScope() as scope:

            def on_output(text: str, stream: str) -> None:
                told.append(text)
                if begun in "".join(told):
                    scope.cancel()

            await run_command(command, on_output=on_output, **options)
        assert scope.cancelled_caught

    trio.run(main)
    return told


# ---- what it tells ---------------------------------------------------------------------------------------------------


def test_status_output_and_both_streams() -> None:
    result = ran("echo out; echo err >&2; exit 3")
    assert (result.status, result.signal, result.ok) == (3, None, False)
    assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert sorted(result.output.split()) == ["err", "out"]
    assert (result.omitted, result.timed_out, result.survivors) == (0, False, ())
    assert result.duration > 0
    assert ran(["true"]).ok


def test_one_pipe_for_both_streams_keeps_their_order() -> None:
    result = ran("for n in 1 2 3; do echo $n; echo -$n >&2; done", merge_stderr=True)
    assert result.output == "1\n-1\n2\n-2\n3\n-3\n"
    assert result.stderr == ""


def test_a_list_needs_no_shell_and_paths_may_stand_in_it() -> None:
    result = ran([Path("/bin/echo"), "$HOME; *"])
    assert result.output == "$HOME; *\n"
    assert result.command == ("/bin/echo", "$HOME; *")


def test_a_signal_that_ends_it_is_told() -> None:
    result = ran("kill -s USR1 $$")
    assert (result.status, result.signal) == (None, signal.SIGUSR1)


def test_input_directory_and_environment(tmp_path: Path) -> None:
    assert ran(["cat"], input="grüß").output == "grüß"
    assert ran(["cat"], input=b"bytes").output == "bytes"
    assert ran(["cat"], input=memoryview(b"b.y.t.e.s")[::2]).output == "bytes"
    assert ran(["cat"]).output == ""
    assert ran(["pwd"], cwd=tmp_path).output == f"{tmp_path.resolve()}\n"
    assert ran(["/bin/sh", "-c", "echo $ONE-$HOME"], env={"ONE": "1"}).output == "1-\n"


def test_commands_within_commands_carry_the_marks_of_both() -> None:
    inner = "import os; print(os.environ['TRIO_TOOLS_COMMANDS'])"
    result = ran(python(inner), env={"TRIO_TOOLS_COMMANDS": "outer-1"})
    assert result.output.startswith(f"outer-1:{os.getpid()}-")


# ---- ways of surviving -----------------------------------------------------------------------------------------------

SURVIVORS: dict[str, str] = {
    "a grandchild": "sleep 1000 & echo begun; wait",
    "one that ignores SIGTERM": "trap '' TERM; echo begun; while true; do sleep 1000; done",
    "a grandchild that ignores SIGTERM": "(trap '' TERM; sleep 1000) & echo begun; wait",
    "a session of its own": "setsid sleep 1000 & echo begun; wait",
    "a daemon": "(setsid sh -c 'sleep 1000 & sleep 1000' >/dev/null 2>&1 &); echo begun; sleep 1000",
    "a daemon that ignores SIGTERM": (
        "(setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' >/dev/null 2>&1 &); sleep 0.2; echo begun; sleep 1000"
    ),
    "one that begins anew when it is told to end": "trap 'sleep 1000 &' TERM; echo begun; sleep 1000; wait",
    "one that is stopped": "echo begun; kill -STOP $$",
}


@pytest.mark.parametrize("command", SURVIVORS.values(), ids=SURVIVORS)
def test_a_cancellation_ends_it(command: str) -> None:
    assert "".join(cancelled(command, grace=0.3)).startswith("begun")


@pytest.mark.parametrize("command", SURVIVORS.values(), ids=SURVIVORS)
def test_the_end_of_its_time_ends_it(command: str) -> None:
    result = ran(command, timeout=0.5, grace=0.3)
    assert result.timed_out
    assert not result.ok
    assert result.output.startswith("begun")
    assert result.survivors == ()


@pytest.mark.parametrize(
    "command",
    [
        "sleep 1000 & echo begun",
        "setsid sleep 1000 & echo begun",
        "(setsid sleep 1000 >/dev/null 2>&1 &); echo begun",
        "(trap '' TERM; sleep 1000) & echo begun",
    ],
)
def test_what_it_leaves_when_it_ends_by_itself_is_ended_too(command: str) -> None:
    """Also those that hold its pipes open."""
    result = ran(command, grace=0.2)
    assert (result.status, result.output) == (0, "begun\n")


def test_who_is_out_of_reach_and_holds_a_pipe_open_does_not_hold_up_the_call() -> None:
    """A daemon that has dropped its environment: it lives on, as is documented."""
    result = ran("env -i setsid sh -c 'echo $$; exec sleep 2' & sleep 0.2")
    assert result.status == 0
    assert result.duration < 1.9
    with suppress(ProcessLookupError):
        os.kill(int(result.output), signal.SIGKILL)


def test_a_descendant_that_drops_its_environment_and_ignores_sigterm_is_killed() -> None:
    code = "import os, signal, time; signal.signal(15, 1); print(os.getpid(), 'begun', flush=True); time.sleep(1000)"
    words = shlex.join(["env", "-i", "setsid", *python(code)])
    pid = "".join(cancelled(f"({words} & sleep 1000) & sleep 1000", grace=0.3)).split()[0]
    assert int(pid) not in {one.pid for one in _census.census().there}


def test_a_process_that_forks_on_and_on_into_new_sessions_is_caught() -> None:
    code = (
        "import os, time\nend = time.monotonic() + 3\n"
        "if os.fork(): os._exit(0)\n"
        "for n in range(3): os.dup2(os.open('/dev/null', os.O_RDWR), n)\n"
        "while time.monotonic() < end:\n if os.fork(): os._exit(0)\n os.setsid()"
    )
    assert ran(python(code), grace=0.5).survivors == ()


def test_a_daemon_whose_main_thread_has_ended_is_no_zombie() -> None:
    code = (
        "import ctypes, os, threading, time\nif os.fork(): time.sleep(1); os._exit(0)\nos.setsid()\n"
        "threading.Thread(target=time.sleep, args=(1000,)).start()\n"
        "print(os.getpid(), flush=True)\nctypes.CDLL(None).pthread_exit(None)"
    )
    result = ran(python(code))
    assert result.survivors == ()
    tasks = Path("/proc", result.output.strip(), "task")
    assert not tasks.exists() or len(list(tasks.iterdir())) == 1  # of a zombie one is left, until it is noticed


def test_a_program_to_which_orphans_are_given_lets_them_go() -> None:
    """As the first process of a container, or a subreaper."""
    code = (
        "import ctypes, os, subprocess, trio\nfrom trio_tools.process import run_command\n"
        "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
        "trio.run(lambda: run_command('setsid sleep 99 & (setsid sleep 99 &) ; sleep 0.1'))\n"
        "trio.run(lambda: run_command('(sleep 0.1 &) ; sleep 0.3'))\n"
        "print(open(f'/proc/self/task/{os.getpid()}/children').read())"
    )
    assert ran([sys.executable, "-c", code]).output.strip() == ""


def test_a_zombie_of_ours_is_let_go_once() -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    (one,) = [each for each in _census.census().zombies if each.pid == pid]
    _census.reap(one)
    _census.reap(one)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)


def test_nobody_waits_for_what_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of other users, of which a machine has many."""

    def refuses(*arguments: object) -> object:
        raise PermissionError

    monkeypatch.setattr("builtins.open", refuses)
    monkeypatch.setattr(time, "sleep", refuses)
    counted = _census.Census([_census.One(1, 0, 1, 1, 1)], [], 1)
    assert counted.with_mark("mine") == set()


def test_what_a_pipe_still_holds_is_read_however_slow_its_reader_is(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import fcntl, os, time\nfcntl.fcntl(1, 1031, 1 << 20)\n"
        "os.write(1, b'a')\ntime.sleep(0.3)\nos.write(1, b'x' * 300_000)"
    )

    def slow(text: str, stream: str) -> None:
        time.sleep(0.6)

    result = ran(python(code), max_output=1_000_000, on_output=slow)
    assert (len(result.stdout), result.omitted, result.output_cut) == (300_001, 0, False)
    monkeypatch.setattr(_output, "_MOST", 65_536)  # as if it held more than a pipe can
    assert ran(python(code), max_output=1_000_000, on_output=slow).output_cut


def test_a_command_that_ran_long_looks_at_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pids may have come round to the beginning."""

    def nobody(leader: int) -> list[int]:
        return []

    monkeypatch.setattr(_tree, "started_after", nobody)
    monkeypatch.setattr(_tree, "_LATELY", 0.0)
    ran("setsid sleep 1000 & sleep 0.2")


def test_a_count_that_others_are_started_in_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = _census.census()
    assert _census.Census([], [], 0).is_exact() is False  # it could not be read
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(pid, 0)
    assert not counted.is_exact()

    def never(counted: _census.Census) -> bool:
        return False

    monkeypatch.setattr(_census.Census, "is_exact", never)
    assert ran("sleep 0; true").ok
    cancelled("echo begun; sleep 1000")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_ctrl_c_pressed_again_ends_it_without_a_grace() -> None:
    me = threading.get_ident()

    def presses_again() -> None:
        time.sleep(0.3)
        signal.pthread_kill(me, signal.SIGINT)

    def on_output(text: str, stream: str) -> None:
        threading.Thread(target=presses_again).start()
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        await run_command("trap '' TERM; echo begun; sleep 1000; sleep 1000", grace=60, on_output=on_output)

    with pytest.raises(BaseException) as caught:
        trio.run(main)
    assert any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves(caught.value))


def test_last_words_are_heard() -> None:
    """What is told to end may clean up, and say so, within the grace."""
    told = cancelled("trap 'echo cleaning; sleep 0.1; echo clean; exit' TERM; echo begun; sleep 1000 & wait", grace=5)
    assert "".join(told) == "begun\ncleaning\nclean\n"


def test_one_that_is_stopped_goes_on_so_that_it_can_end() -> None:
    told = cancelled("trap 'echo bye; exit' TERM; echo begun; kill -STOP $$; sleep 1000", grace=60)
    assert "".join(told) == "begun\nbye\n"


def test_a_zombie_is_waited_for_by_its_parent_and_not_by_us() -> None:
    code = "import os,time; os.fork() or os._exit(0); print('begun', flush=True); time.sleep(1000)"
    assert "".join(cancelled(python(code))).startswith("begun")


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_cannot_be_killed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process of another user cannot: the system says no."""
    kill = os.killpg

    def refused(group: int, number: int) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(_tree, "_GIVE_UP", 0.1)
    monkeypatch.setattr(os, "killpg", refused)
    result = ran("echo begun; sleep 1000", timeout=0.2, grace=0.1)
    assert len(result.survivors) == 2
    assert (result.status, result.signal) == (None, None)
    for pid in result.survivors:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(ToolError, match="could not be killed; it may still run: ") as caught:
        cancelled("echo begun; exec sleep 1000", grace=0.1)
    assert caught.value.code == STILL_RUNNING
    (pid,) = map(int, str(caught.value).rpartition(": ")[2].split(", "))
    monkeypatch.setattr(os, "killpg", kill)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    del caught
    gc.collect()  # Trio's descriptor of a process that nobody has waited for


# ---- pipes -----------------------------------------------------------------------------------------------------------


def test_input_that_nobody_reads() -> None:
    assert ran(["true"], input=b"x" * 10_000_000).ok
    assert ran("exec <&-; sleep 0.3; echo done", input=b"x" * 10_000_000).output == "done\n"
    cancelled("echo begun; sleep 1000", input=b"x" * 10_000_000)


def test_a_gigabyte_of_output_is_read_within_bounds() -> None:
    tracemalloc.start()
    try:
        result = ran("head -c 1073741824 /dev/zero; echo; echo the end", max_output=10_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.status == 0
    assert result.output.endswith("\nthe end\n")
    assert result.omitted == 1_073_741_824 + len("\nthe end\n") - 10_000
    assert f"[... {result.omitted} bytes omitted ...]" in result.output
    assert peak < 2_000_000


def test_both_streams_flood_at_once() -> None:
    command = "head -c 3000000 /dev/zero & head -c 3000000 /dev/zero >&2 & wait"
    result = ran(command, max_output=1000)
    gap = "\n[... 2999000 bytes omitted ...]\n"
    assert (len(result.stdout), len(result.stderr)) == (1000 + len(gap), 1000 + len(gap))
    assert result.omitted == 6_000_000 - 1000


def test_a_stream_that_is_closed_early() -> None:
    assert ran("exec >&-; echo on >&2; exec 2>&-; sleep 0.1; exit 4").status == 4


def test_output_that_is_no_text() -> None:
    assert ran(r"printf 'a\377\303'").output == "a\ufffd\ufffd"
    halves = Told()
    ran(r"printf '\303'; sleep 0.1; printf '\274'", on_output=halves)
    assert halves == [("ü", "stdout")]
    cut = ran("printf 'äöüäöü'", max_output=6)
    assert "[... 6 bytes omitted ...]" in cut.output
    assert set(cut.output) <= set("äöü\ufffd[... 6 bytes omitted ...]\n")


def test_what_is_told_comes_with_its_stream_and_an_error_in_it_ends_the_command() -> None:
    told = Told()
    ran("echo out; sleep 0.1; echo err >&2", on_output=told)
    assert told == [("out\n", "stdout"), ("err\n", "stderr")]

    def fails(text: str, stream: str) -> None:
        raise LookupError("no place for it")

    with pytest.raises(LookupError, match="no place for it"):
        ran("echo begun; sleep 1000", on_output=fails)


# ---- what cannot be started ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "options", "error"),
    [
        (["/no/such/program"], {}, FileNotFoundError),
        (["no-such-program"], {}, FileNotFoundError),
        ([__file__], {}, PermissionError),
        (["/"], {}, PermissionError),
        (["true"], {"cwd": "/no/such/directory"}, FileNotFoundError),
        (["true"], {"cwd": __file__}, NotADirectoryError),
    ],
)
def test_what_cannot_be_started(command: list[str], options: dict[str, Any], error: type[OSError]) -> None:
    with pytest.raises(error):
        ran(command, **options)


def test_a_directory_that_goes_away(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    assert ran(["/bin/sh", "-c", f"rmdir {shlex.quote(str(gone))}; echo done"], cwd=gone).output == "done\n"
    with pytest.raises(FileNotFoundError):
        ran(["true"], cwd=gone)


@pytest.mark.parametrize(
    ("command", "options", "error", "told"),
    [
        ([], {}, TypeError, r"command takes a list of str, with the program first, not \[\]"),
        (["ls", 3], {}, TypeError, "command takes a list of str"),
        (3, {}, TypeError, "command takes a list of arguments, or a text for the shell, not 3"),
        (b"ls", {}, TypeError, "or a text for the shell, not b'ls'"),
        (" ", {}, ValueError, "command must name a program"),
        ("ls\0", {}, ValueError, "NUL"),
        ("ls", {"timeout": 0}, ValueError, "timeout must be a positive number of seconds, or None, not 0"),
        ("ls", {"timeout": 10**400}, ValueError, "timeout must be a positive number of seconds"),
        ("ls", {"grace": 10**400}, ValueError, "grace must be a number of seconds"),
        ("ls", {"timeout": "5"}, ValueError, "timeout must be"),
        ("ls", {"grace": -1}, ValueError, "grace must be a number of seconds, 0 or more, not -1"),
        ("ls", {"max_output": 1.5}, ValueError, "max_output must be a positive number of bytes, not 1.5"),
        ("ls", {"max_output": 0}, ValueError, "max_output must be"),
        ("ls", {"input": 5}, TypeError, "input takes text or bytes, not int"),
        ("ls", {"env": {"A": 1}}, TypeError, "env takes a mapping of str to str"),
        ("ls", {"env": "A=1"}, TypeError, "env takes a mapping of str to str"),
        ("ls", {"env": {"A=": "1"}}, ValueError, "a variable needs a name without '='"),
        ("ls", {"env": {"": "1"}}, ValueError, "a variable needs a name without '='"),
        ("ls", {"env": {"A": "1\0"}}, ValueError, "no NUL character"),
        ("ls", {"input": "\ud800"}, ValueError, "input has a character that UTF-8 cannot express, give bytes instead"),
        ("ls", {"cwd": 5}, TypeError, "cwd takes the path of a directory, not 5"),
        ("ls", {"cwd": "a\0"}, ValueError, "cwd must name a directory"),
        ("ls", {"merge_stderr": "no"}, TypeError, "merge_stderr takes True or False, not 'no'"),
        ("ls", {"on_output": trio.sleep}, TypeError, "on_output takes a function of .text, stream. that is not async"),
        ("ls", {"cwd": "/\ud800"}, ValueError, "cwd has a character that no file name can have here"),
        ("ls", {"env": {"A": "\ud800"}}, ValueError, "env has a character"),
        (["ls", "\ud800"], {}, ValueError, "command has a character"),
        ("echo x", {"on_output": Waits()}, TypeError, "on_output takes a function that is not async"),
        ("ls", {"on_output": "print"}, TypeError, "on_output takes a function"),
    ],
)
def test_bad_input_is_refused(command: Any, options: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        ran(command, **options)


# ---- cancelled at any time -------------------------------------------------------------------------------------------


def test_five_hundred_at_once_are_gone_at_once() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8_000)), hard))
    begun: list[int] = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:

            def on_output(text: str, stream: str) -> None:
                begun.append(1)
                if len(begun) == 500:
                    nursery.cancel_scope.cancel()

            async def one() -> None:
                await run_command("echo begun; sleep 1000 & setsid sleep 1000 & wait", on_output=on_output, grace=5)

            for _ in range(500):
                nursery.start_soon(one)

    try:
        trio.run(main)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(begun) == 500


@pytest.mark.parametrize("command", ["echo begun; exec sleep 1000", "setsid sleep 1000 & wait"])
def test_a_cancellation_before_it_has_begun(command: str) -> None:
    async def main() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await run_command(command)
        assert scope.cancelled_caught

    trio.run(main)


def without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tree, "is_available", lambda: False)


def wrapped_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_census, "last_pid", lambda: 0)


@pytest.mark.parametrize("elsewhere", [without_proc, wrapped_around])
def test_the_group_is_ended_where_processes_cannot_be_counted_and_when_pids_begin_anew(
    elsewhere: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere(monkeypatch)
    assert ran("exit 3").status == 3
    assert cancelled("echo begun; exec sleep 1000") == ["begun\n"]
    assert ran("echo begun; trap '' TERM; while true; do sleep 0.01; done", timeout=0.2, grace=0.1).timed_out


def test_a_group_of_another_user_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells so by refusing a signal to it."""

    def refused(group: int, number: int) -> None:
        raise PermissionError(1, "not permitted")

    async def main() -> None:
        process = await trio.lowlevel.open_process(["true"])
        await process.wait()
        tree = _tree.Tree(process, "no-mark")
        assert tree.is_over()
        monkeypatch.setattr(os, "killpg", refused)
        monkeypatch.setattr(_tree, "is_available", lambda: False)
        assert not tree.is_over()

    trio.run(main)


def test_a_daemons_children_are_found_by_their_parent(tmp_path: Path) -> None:
    """Also those that have dropped the mark."""
    path = shlex.quote(str(tmp_path / "pid"))
    inner = f"env -i sleep 1000 & echo $! > {path}; sleep 1000"
    cancelled(f"(setsid sh -c {shlex.quote(inner)} >/dev/null 2>&1 &); sleep 0.3; echo begun; sleep 1000")
    assert int((tmp_path / "pid").read_text()) not in {one.pid for one in _census.census().there}


def test_without_a_last_pid_all_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_census, "_PROC", "/nowhere")
    monkeypatch.setattr(_census, "_pids", lambda: [1, 2])
    assert _census.started_after(5) == [1, 2]


def test_a_process_that_becomes_another_program_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a moment it has no environment; and one that is believed to have none is not waited for."""
    answers = [b"", b"", b"TRIO_TOOLS_COMMANDS=one:two\0"]

    def read(pid: int, name: str) -> bytes:
        if name == "environ" and pid != os.getppid():
            return b""  # another thread of it
        return answers.pop(0) if name == "environ" and answers else b"sh"

    monkeypatch.setattr(_census, "_read", read)
    counted = _census.Census([_census.One(os.getppid(), 1, 1, 1, 1)], [], 1)
    assert counted.belonging(0, "two") == {os.getppid()}
    answers.extend([b""] * 9)
    assert _census.Census([_census.One(os.getppid(), 1, 1, 1, 1)], [], 1).belonging(0, "two") == set()
    assert len(answers) > 1
