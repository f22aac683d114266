"""Strict JSON text: what the standard decoder accepts beyond JSON is refused here, with its position.

The decoder of the standard library does the reading. Around it stand the depth check, without which it would recurse as
deep as the text says, and a second, slower look at a text that was refused, which finds the place.
"""

from __future__ import annotations

import json
import math
import re
import sys
from typing import cast

import attrs

from ._json_words import json_path, quoted, shorten

__all__ = ["MAX_DEPTH", "JsonTextError", "decode", "first_fault", "read_text"]

MAX_DEPTH = 128
"""How many containers may enclose one another, the outermost and the innermost included."""

_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'  # possessive: linear in the text, also if the end is missing
_DEPTH_TOKEN = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_TOKEN = re.compile(rf"{_STRING}|[\[\]{{}}:,]|{_NUMBER}|-?[A-Za-z]+", re.DOTALL)


class JsonTextError(ValueError):
    """A text is not one strict JSON value.

    Attributes:
        problem: What is wrong, without the place.
        position: Where, in characters from the start of the text; of bytes, counted in the text that they encode.
        line: The same place, counted from 1.
        column: The same place, counted from 1.
    """

    def __init__(self, problem: str, position: int, line: int, column: int) -> None:
        super().__init__(problem, position, line, column)
        self.problem = problem
        self.position = position
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return f"{self.problem}: line {self.line} column {self.column} (character {self.position})"


def read_text(text: str | bytes | bytearray | memoryview) -> str:
    """The text that the bytes encode in UTF-8; a str is the text already.

    Raises:
        JsonTextError: The bytes are not UTF-8, or the text begins with a byte order mark.
    """
    if isinstance(text, str):
        plain = str.__str__(text)
    else:
        data = text.tobytes() if isinstance(text, memoryview) else text
        try:
            plain = str(data, "utf-8")
        except UnicodeDecodeError as error:
            readable = str(data[: error.start], "utf-8")
            raise _fault(f"the bytes are not UTF-8 ({error.reason})", readable, len(readable)) from None
    if plain.startswith("\ufeff"):
        raise _fault("the text begins with a byte order mark, which JSON text does not have", plain, 0)
    return plain


def decode(text: str) -> object:
    """Read JSON text into plain dicts and lists.

    Infinite numbers, NaN and lone surrogates pass: whoever checks the value meets them there.

    Raises:
        JsonTextError: The text is no JSON, goes on behind the value, nests too deep, has a key twice in one object or
            an integer of more digits than Python reads.
    """
    # The decoder does not get to see what is too deep; where it stops at the cut, nothing before that was wrong.
    end = _too_deep_from(text)
    try:
        return _DECODER.decode(text[:end])
    except json.JSONDecodeError as error:
        fault = _too_deep(text, error.pos) if error.pos == end else _syntax_fault(text, error)
    except ValueError:
        fault = first_fault(text)
    raise fault


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key occurs twice")  # never shown: decode looks for the place
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def _too_deep_from(text: str) -> int | None:
    """Where the first container opens that has too many around it, if there is one."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return None
    # In the part that the decoder reads before its first error, brackets pair and strings end where they seem to, so
    # this count is the depth of its recursion.
    depth = 0
    for token in _DEPTH_TOKEN.finditer(text):
        bracket = token[0]
        if bracket in ("[", "{"):
            depth += 1
        elif bracket in ("]", "}"):
            depth -= 1
        if depth > MAX_DEPTH:
            return token.start()
    return None


def _too_deep(text: str, position: int) -> JsonTextError:
    return _fault(f"more than {MAX_DEPTH} lists and objects inside one another", text, position)


def _syntax_fault(text: str, error: json.JSONDecodeError) -> JsonTextError:
    problem = error.msg.removesuffix(" at").removesuffix(" starting")
    rest = text[error.pos : error.pos + 20]
    place = repr(rest) if rest.strip(" \t\r\n") else "the end of the text"
    return _fault(f"{problem}, at {place}", text, error.pos)


def _fault(problem: str, text: str, position: int) -> JsonTextError:
    line = text.count("\n", 0, position) + 1
    return JsonTextError(problem, position, line, position - text.rfind("\n", 0, position))


@attrs.define
class _Open:
    """A container whose end has not come yet."""

    keys: dict[str, int] | None  # of an object: where each key was found; None: an array
    step: str | int  # leads to the member at hand


def first_fault(text: str) -> JsonTextError:
    """Where a text first breaks a rule that the standard decoder does not have.

    The caller knows that there is such a place, and that the syntax is right up to there.
    """
    stack: list[_Open] = []
    before = ""
    tokens = _TOKEN.finditer(text)
    while True:
        match = next(tokens)
        token = match[0]
        if token == "{":
            stack.append(_Open({}, ""))
        elif token == "[":
            stack.append(_Open(None, 0))
        elif token in ("]", "}"):
            stack.pop()
        elif token == ",":
            if stack[-1].keys is None:
                stack[-1].step = cast(int, stack[-1].step) + 1
        elif token != ":":
            steps = [opened.step for opened in stack]
            if stack and stack[-1].keys is not None and before != ":":
                steps.pop()  # a bad key belongs to its object
                problem = _string_problem(token) or _note_key(stack[-1], token, match.start())
            else:
                problem = _value_problem(token)
            if problem:
                return _fault(f"{problem}, in {shorten(json_path(steps), 500)}", text, match.start())
        before = token


def _note_key(opened: _Open, token: str, position: int) -> str | None:
    key: str = json.loads(token)
    keys = cast("dict[str, int]", opened.keys)
    opened.step = key
    if key in keys:
        return f"the key {shorten(quoted(key), 80)} is there twice, first at character {keys[key]}"
    keys[key] = position
    return None


def _string_problem(token: str) -> str | None:
    try:
        json.loads(token).encode()
    except UnicodeEncodeError:
        visible = token.encode(errors="backslashreplace").decode()
        return f"{shorten(visible, 80)} holds half of a surrogate pair"
    return None


def _value_problem(token: str) -> str | None:
    if token[0] == '"':
        return _string_problem(token)
    if token in ("true", "false", "null"):
        return None
    if token in ("NaN", "Infinity", "-Infinity"):
        return f"{token} is not JSON"
    if not token.lstrip("-").isdigit():
        return None if math.isfinite(float(token)) else f"{shorten(token, 80)} is too large for a float"
    try:
        int(token)
    except ValueError:
        digits = len(token.lstrip("-"))
        return f"an integer of {digits} digits is too long, at most {sys.get_int_max_str_digits()} are read"
    return None
