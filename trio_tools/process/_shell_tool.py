"""The ready tool: a shell for a model."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypedDict, cast

from trio_tools._errors import ToolError
from trio_tools._json import FrozenJson
from trio_tools._output import Output
from trio_tools._tool import ToolDefinition, tool
from trio_tools._views import ToolRun
from trio_tools.process._arguments import checked_directory, must_be_environment, must_be_numbers
from trio_tools.process._command import CommandResult, run_command

__all__ = ["ENVIRONMENT", "NOT_STARTED", "ShellValue", "shell_tool"]

ENVIRONMENT: tuple[str, ...] = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
)  # fmt: skip
"""What of the environment a command is given by default: none of it is a secret."""

NOT_STARTED = "NOT_STARTED"
"""The code of the failure of a command that could not be started, as its directory is gone, say."""


class ShellValue(TypedDict):
    """What a shell tool returns: ``output`` as a terminal shows it, and how the command ended."""

    exit_status: int | None
    signal: str | None
    output: str
    omitted_bytes: int
    seconds: float
    still_running: list[int]


def shell_tool(
    *,
    cwd: str | os.PathLike[str],
    name: str = "shell",
    description: str | None = None,
    pass_env: Iterable[str] = ENVIRONMENT,
    env: Mapping[str, str] | None = None,
    max_output: int = 32_768,
    timeout: float | None = 120.0,
    grace: float = 2.0,
) -> ToolDefinition:
    """A tool that runs a shell command, and leaves nothing of it behind. ::

        registry = ToolRegistry([shell_tool(cwd=project)])

    A command that fails is a success of the tool: its exit status is in the result. Output comes as partial output, and
    as progress, while it runs. It is the shell of this user, with all that this user may do: put a policy before it.

    Args:
        cwd: The directory that commands run in. They can leave it.
        name: The tool's name.
        description: What the model is told; by default what the tool does, and its bounds.
        pass_env: The names of the variables that commands get of this process's environment.
        env: Further variables.
        max_output: How many bytes of output the model sees, > 0: head and tail.
        timeout: Seconds that a command may take, > 0; then it is ended, and the result is ``TOOL_TIMEOUT``.
        grace: Seconds between SIGTERM and SIGKILL, >= 0.

    Raises:
        ValueError, TypeError: If an argument is not what it should be.
    """
    must_be_numbers(timeout=timeout, grace=grace, max_output=max_output)
    must_be_environment(env)
    return tool(
        _body(checked_directory(cwd), _names(pass_env), dict(env or {}), max_output, grace),
        name=name,
        description=description or _description(max_output, timeout),
        timeout=timeout,
        output=Output(render=_render),
    )


def _names(pass_env: object) -> tuple[str, ...]:
    names = list(cast("Iterable[object]", pass_env)) if isinstance(pass_env, Iterable) else [pass_env]
    texts = tuple(one for one in names if isinstance(one, str))
    if isinstance(pass_env, str) or len(texts) < len(names):
        raise TypeError(f"pass_env takes a list of names, such as ['PATH', 'HOME'], not {pass_env!r}")
    return texts


def _body(
    cwd: str, passed: tuple[str, ...], given: dict[str, str], max_output: int, grace: float
) -> Callable[[str, ToolRun], Awaitable[ShellValue]]:
    async def shell(command: str, run: ToolRun) -> ShellValue:
        """Run it.

        Args:
            command: For the shell.
            run: Where it puts out what it writes.
        """
        environment = {key: os.environ[key] for key in passed if key in os.environ} | given
        told = _Told(run, max_output)
        try:
            result = await run_command(
                ["/bin/sh", "-c", command] if os.name == "posix" else command,
                cwd=cwd,
                env=environment,
                grace=grace,
                max_output=max_output,
                merge_stderr=True,
                on_output=told.tell,
            )
        except (OSError, ValueError) as error:
            raise ToolError(f"the command could not be started: {error}", code=NOT_STARTED) from error
        return _value(result)

    return shell


def _description(max_output: int, timeout: float | None) -> str:
    bound = "" if timeout is None else f" It is ended after {timeout:g} seconds."
    return (
        "Run a shell command and return what it writes, and its exit status. There is no standard input. "
        f"When it has ended, whatever it has started is ended too.{bound} "
        f"Of more than {max_output} bytes of output only the head and the tail are shown."
    )


class _Told:
    """Hands output on while it comes; as partial output no more of it than a result would show."""

    def __init__(self, run: ToolRun, bound: int) -> None:
        self._run = run
        self._left = bound
        self._seen = 0

    def tell(self, text: str, _: str) -> None:
        data = text.encode()
        self._seen += len(data)
        if self._left > 0:
            self._run.emit(data[: self._left].decode(errors="ignore"))
            self._left -= len(data)
            if self._left < 0:
                self._run.emit("[further output is left out]")
        self._run.report_progress(self._seen, message=text)  # behind it: whoever hears it may cancel


def _value(result: CommandResult) -> ShellValue:
    return {
        "exit_status": result.status,
        "signal": None if result.signal is None else _signal_name(result.signal),
        "output": result.output,
        "omitted_bytes": result.omitted,
        "seconds": round(result.duration, 3),
        "still_running": list(result.survivors),
    }


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _render(_: FrozenJson, value: FrozenJson) -> str:
    told = cast(ShellValue, value)
    notes: list[str] = []
    if told["omitted_bytes"]:
        notes.append(f"[{told['omitted_bytes']} bytes of output are left out; narrow it down, with grep or tail, say]")
    if told["signal"] is not None:
        notes.append(f"[ended by {told['signal']}]")
    elif told["exit_status"]:
        notes.append(f"[exit status {told['exit_status']}]")
    if told["still_running"]:
        notes.append(f"[could not be ended, and may still run: {', '.join(map(str, told['still_running']))}]")
    return "\n".join(part for part in (told["output"].rstrip("\n"), *notes) if part) or "[no output]"
