"""What :func:`run_command` is given, checked before anything is started."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import cast

_TOO_LARGE = 1e15  # seconds, bytes: beyond that arithmetic with a clock is no longer exact

__all__ = ["checked_command", "must_be_numbers", "must_be_text"]


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


def must_be_text(*, env: Mapping[str, str] | None, input: object) -> None:
    """Refuse an environment, and an input, of anything else.

    Raises:
        TypeError: It says what is expected.
    """
    if input is not None and not isinstance(input, str | bytes | bytearray | memoryview):
        raise TypeError(f"input takes text or bytes, not {type(input).__name__}")
    if env is None:
        return
    if not isinstance(env, Mapping) or any(not isinstance(one, str) for pair in env.items() for one in pair):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
        raise TypeError(f"env takes a mapping of str to str, not {env!r}")


def _plain(word: object) -> object:
    return os.fspath(cast("os.PathLike[str]", word)) if isinstance(word, os.PathLike) else word


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _TOO_LARGE
