"""Running a command as owned work: when :func:`run_command` is left, whatever way, nothing of it is running."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Mapping, Sequence

import attrs
import trio

from trio_tools._errors import ToolError
from trio_tools.process._arguments import (
    checked_command,
    checked_directory,
    checked_input,
    must_be_environment,
    must_be_numbers,
    must_be_options,
)
from trio_tools.process._output import OnOutput, Recorder
from trio_tools.process._tree import Tree, marked, new_mark, own_group

__all__ = ["STILL_RUNNING", "CommandResult", "run_command"]

STILL_RUNNING = "STILL_RUNNING"
"""The code of the error that says that a cancelled command could not be killed."""

_LAST_WORDS = 1.0  # seconds for what is still in a pipe when nothing of the command is left


@attrs.frozen(kw_only=True)
class CommandResult:
    """What came of a command.

    Attributes:
        command: As it was given.
        status: The exit status; ``None`` if a signal ended it, or nothing could.
        signal: The number of the signal that ended it, see :class:`signal.Signals`; ``None`` if none did.
        output: Standard output and standard error, in the order in which they came: text, from UTF-8; what is none
            is U+FFFD. If it is too long, head and tail, with a line between them that says how much is missing.
        stdout: Standard output alone, likewise.
        stderr: Standard error alone, likewise.
        omitted: How many bytes of :attr:`output` are missing.
        duration: Seconds on Trio's clock, from the start until nothing of it was left.
        timed_out: Whether it was ended because its time was over.
        survivors: The pids of what could not be killed, such as a process of another user; it may still run.
        output_cut: Whether somebody out of reach still held standard output or error when all else was gone, so that
            something may be missing at the end.
    """

    command: str | tuple[str, ...]
    status: int | None
    signal: int | None
    output: str
    stdout: str
    stderr: str
    omitted: int
    duration: float
    timed_out: bool
    survivors: tuple[int, ...] = ()
    output_cut: bool = False

    @property
    def ok(self) -> bool:
        """Whether it ended by itself, with the exit status 0."""
        return self.status == 0 and not self.timed_out


@trio.lowlevel.enable_ki_protection
async def run_command(
    command: str | Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    input: str | bytes | None = None,
    timeout: float | None = None,
    grace: float = 2.0,
    max_output: int = 65_536,
    merge_stderr: bool = False,
    on_output: OnOutput | None = None,
) -> CommandResult:
    """Run a command, and whatever it starts, to its end; see the module for what is ended, and how. ::

        result = await run_command(["git", "status", "--short"], cwd=project, timeout=30)

    A checkpoint. If ``Cancelled`` comes out, the command is gone, and all that it started; it may have had effects.

    Args:
        command: A list of arguments; or one text for the shell (``/bin/sh -c``).
        cwd: The directory to run in.
        env: The whole environment; by default that of this process.
        input: For standard input, which is empty otherwise. Text is encoded as UTF-8.
        timeout: Seconds on Trio's clock, > 0, after which the command is ended; the result says so.
        grace: Seconds between SIGTERM and SIGKILL, >= 0.
        max_output: How many bytes of output to keep, > 0: head and tail, of each stream and of both together.
        merge_stderr: Have standard error written where standard output goes, so that their order is exact.
        on_output: Told of each piece of output as it comes, ``(text, "stdout" or "stderr")``; synchronous. If it
            raises, the command is ended, and the exception comes out.

    Raises:
        OSError: If it cannot be started: no such file, no permission, no such directory.
        ValueError, TypeError: If an argument is not what it should be; it says what to write instead.
        ToolError: With the code ``STILL_RUNNING``, if it was cancelled and could not be killed.
    """
    must_be_numbers(timeout=timeout, grace=grace, max_output=max_output)
    must_be_environment(env)
    must_be_options(merge_stderr=merge_stderr, on_output=on_output)
    arguments, data, mark, began = checked_command(command), checked_input(input), new_mark(), trio.current_time()
    directory = None if cwd is None else checked_directory(cwd)
    environment = marked(os.environ if env is None else env, mark)
    process = await _started(arguments, directory, environment, data is not None, merge_stderr)
    time = trio.CancelScope(deadline=math.inf if timeout is None else began + timeout)
    recorder = Recorder(max_output, on_output, time.cancel)
    attendance = _Attendance(arguments, process, Tree(process, mark), recorder, time, grace)
    await attendance.attend(data)
    return attendance.result(trio.current_time() - began)


async def _started(
    arguments: str | list[str],
    cwd: str | None,
    environment: Mapping[str, str],
    has_input: bool,
    merge_stderr: bool,
) -> trio.Process:
    return await trio.lowlevel.open_process(
        arguments,
        shell=isinstance(arguments, str),
        stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge_stderr else subprocess.PIPE,
        cwd=cwd,
        env=environment,
        **own_group(),
    )


@attrs.define
class _Attendance:
    """What there is to do while a command runs, and when it is to end.

    Attributes:
        time: Cancelled when its time is over.
        survivors: The pids of what could not be killed.
    """

    arguments: str | list[str]
    process: trio.Process
    tree: Tree
    recorder: Recorder
    time: trio.CancelScope
    grace: float
    survivors: tuple[int, ...] = ()

    async def attend(self, data: bytes | None) -> None:
        """Feed it, read what it writes, and see it to its end."""
        try:
            await self._attend(data)
        except BaseException:
            if self.survivors:
                pids = ", ".join(map(str, self.survivors))
                text = f"the command was cancelled and could not be killed; it may still run: {pids}"
                raise ToolError(text, code=STILL_RUNNING) from None
            raise
        if self.recorder.error is not None:
            raise self.recorder.error

    def result(self, duration: float) -> CommandResult:
        """What came of it, after so many seconds."""
        code, recorder = self.process.returncode, self.recorder
        return CommandResult(
            command=self.arguments if isinstance(self.arguments, str) else tuple(self.arguments),
            status=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            output=recorder.both.text(),
            stdout=recorder.stdout.text(),
            stderr=recorder.stderr.text(),
            omitted=recorder.both.omitted,
            duration=duration,
            timed_out=self.time.cancel_called,
            survivors=self.survivors,
            output_cut=recorder.cut,
        )

    async def _attend(self, data: bytes | None) -> None:
        process = self.process
        # Shielded: what is told to end may have a lot to say, and must not get stuck saying it.
        reading, feeding = [trio.CancelScope(shield=True), trio.CancelScope(shield=True)], trio.CancelScope()
        async with trio.open_nursery() as nursery:
            if process.stdout is not None:  # pragma: no branch - it is a pipe
                nursery.start_soon(self.recorder.read, process.stdout, "stdout", reading[0])
            if process.stderr is not None:
                nursery.start_soon(self.recorder.read, process.stderr, "stderr", reading[1])
            if process.stdin is not None:
                nursery.start_soon(_feed, process.stdin, data or b"", feeding)
            try:
                with self.time:
                    await process.wait()
                if not self.tree.is_over():
                    await self._end()
            except BaseException:
                await self._end()
                raise
            finally:
                feeding.cancel()
                for scope in reading:  # somebody out of reach may hold a pipe open
                    scope.deadline = trio.current_time() + _LAST_WORDS

    async def _end(self) -> None:
        with trio.CancelScope(shield=True):
            try:
                self.survivors = await self.tree.end(self.grace)
            except KeyboardInterrupt:  # pressed again: without a grace
                self.survivors = await self.tree.end(0)
                raise


async def _feed(stdin: trio.abc.SendStream, data: bytes, within: trio.CancelScope) -> None:
    """Write all of it, unless nobody reads it; then close the pipe."""
    try:
        with within:
            await stdin.send_all(data)
    except trio.BrokenResourceError:
        pass  # it reads no further, and may have good reasons
    finally:
        await trio.aclose_forcefully(stdin)
