"""What :func:`run_command` is given, checked before anything is started."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Mapping, Sequence
from typing import cast

_TOO_LARGE = 1e15  # seconds, bytes: beyond that arithmetic with a clock is no longer exact

__all__ = [
    "checked_command",
    "checked_directory",
    "checked_input",
    "must_be_environment",
    "must_be_numbers",
    "must_be_options",
]


def checked_command(command: object) -> str | list[str]:
    """The command as it is started.

    Raises:
        TypeError, ValueError: If it is none.
    """
    if isinstance(command, str):
        words: list[object] = [command]
    elif isinstance(command, Sequence) and not isinstance(command, bytes | bytearray):
        words = [_plain(one) for one in cast("Sequence[object]", command)]
    else:
        raise TypeError(f"command takes a list of arguments, or a text for the shell, not {command!r}")
    texts = [one for one in words if isinstance(one, str)]
    if not words or len(texts) < len(words):
        raise TypeError(f"command takes a list of str, with the program first, not {command!r}")
    if not texts[0].strip() or any("\0" in text for text in texts):
        raise ValueError(f"command must name a program, and have no NUL character: {command!r}")
    for text in texts:
        _must_be_expressible("command", text)
    return command if isinstance(command, str) else texts


def must_be_numbers(*, timeout: float | None, grace: float, max_output: int) -> None:
    """Refuse what is no time, and no size.

    Raises:
        ValueError: It says what is expected.
    """
    if timeout is not None and not (_is_number(timeout) and timeout > 0):
        raise ValueError(f"timeout must be a positive number of seconds, or None, not {timeout!r}")
    if not (_is_number(grace) and 0 <= grace < math.inf):
        raise ValueError(f"grace must be a number of seconds, 0 or more, not {grace!r}")
    if not (isinstance(max_output, int) and _is_number(max_output) and max_output > 0):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise ValueError(f"max_output must be a positive number of bytes, not {max_output!r}")


def must_be_environment(env: object) -> None:
    """Refuse an environment that no process can be given.

    Raises:
        TypeError, ValueError: It says what is expected.
    """
    if env is None:
        return
    if not isinstance(env, Mapping):
        raise TypeError(f"env takes a mapping of str to str, not {env!r}")
    for name, value in cast("Mapping[object, object]", env).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"env takes a mapping of str to str, and {name!r}: {value!r} is none of that")
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"a variable needs a name without '=', and has no NUL character: {name!r}: {value!r}")
        _must_be_expressible("env", name + value)


def checked_input(input: object) -> bytes | None:
    """What a process is to read, as bytes.

    Raises:
        TypeError, ValueError: If it is no input.
    """
    if input is None:
        return None
    if isinstance(input, str):
        try:
            return input.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"input has a character that UTF-8 cannot express, give bytes instead: {error}") from None
    if isinstance(input, bytes | bytearray | memoryview):
        return bytes(cast(bytes, input))
    raise TypeError(f"input takes text or bytes, not {type(input).__name__}")


def checked_directory(cwd: object) -> str:
    """The directory, as a path.

    Raises:
        TypeError, ValueError: If it is none.
    """
    path = os.fspath(cast("os.PathLike[str]", cwd)) if isinstance(cwd, os.PathLike) else cwd
    if not isinstance(path, str):
        raise TypeError(f"cwd takes the path of a directory, not {cwd!r}")
    if not path or "\0" in path:
        raise ValueError(f"cwd must name a directory, and have no NUL character: {cwd!r}")
    _must_be_expressible("cwd", path)
    return path


def must_be_options(*, merge_stderr: object, on_output: object) -> None:
    """Refuse what is no switch, and nothing that can be told of output.

    Raises:
        TypeError: It says what is expected.
    """
    if not isinstance(merge_stderr, bool):
        raise TypeError(f"merge_stderr takes True or False, not {merge_stderr!r}")
    if on_output is not None and (not callable(on_output) or inspect.iscoroutinefunction(on_output)):
        raise TypeError(f"on_output takes a function of (text, stream) that is not async, not {on_output!r}")


def _must_be_expressible(parameter: str, text: str) -> None:
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise ValueError(f"{parameter} has a character that no file name can have here: {error}") from None


def _plain(word: object) -> object:
    return os.fspath(cast("os.PathLike[str]", word)) if isinstance(word, os.PathLike) else word


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _TOO_LARGE
