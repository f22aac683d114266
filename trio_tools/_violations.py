"""How a JSON value breaks its schema or type: one line each, with the path.

Everything shown of a value is bounded, so that a model that sent a book does not get it back; and so is what is spent
on suggestions, so that one that sent a library does not hold everybody up.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

import attrs

from ._json_words import shorten

__all__ = ["LISTED_AT_MOST", "Step", "Violation", "bounded", "either", "listed", "near", "show", "unknown_key"]

Step: TypeAlias = str | int

LISTED_AT_MOST = 256
"""Violations in one message."""

_SHOWN_AT_MOST = 80  # characters of a value
_FORMS_AT_MOST = 20  # alternatives that are spelled out
_COMPARED_AT_MOST = 100  # names that one word is compared with
_COMPARED_IN_ALL = 5_000  # the same for one message: some hundredths of a second
_LONGEST_COMPARED = 100  # characters


@attrs.frozen
class Violation:
    """One way in which a value breaks its schema or type.

    Attributes:
        path: Where.
        text: What is wrong.
        word: A name that is not known, if it is that;
        known: and the names that are, one of which may have been meant.
    """

    path: str
    text: str
    word: str = ""
    known: Collection[str] = ()

    def __str__(self) -> str:
        return f"{self.path}: {self.text}{near(self.word, self.known)}"


def unknown_key(path: str, key: str, known: Collection[str]) -> Violation:
    """A key that is not among the known ones. A near one is looked for only when the violation is shown."""
    return Violation(path, f"unknown key {show(key)}", key, known)


def listed(violations: Sequence[Violation]) -> list[str]:
    """The violations as lines; after many, the rest is only counted."""
    lines: list[str] = []
    left = _COMPARED_IN_ALL
    for each in violations[:LISTED_AT_MOST]:
        left -= min(len(each.known), _COMPARED_AT_MOST)
        lines.append(str(each) if left >= 0 else f"{each.path}: {each.text}{_folded(each.word, each.known)}")
    more = len(violations) - LISTED_AT_MOST
    return [*lines, f"and {more} more"] if more > 0 else lines


def show(value: object) -> str:
    """``value`` as JSON text of bounded length; what is no plain JSON is shown as the name of its class."""
    if isinstance(value, str):
        return shorten(json.dumps(shorten(value, 2 * _SHOWN_AT_MOST), ensure_ascii=False), _SHOWN_AT_MOST)
    try:
        return _beginning(value)
    except (TypeError, ValueError, RecursionError):  # not JSON; an int of thousands of digits; endless
        return f"a value of type {type(value).__name__}"


def _beginning(value: object) -> str:
    text = ""
    for part in json.JSONEncoder(ensure_ascii=False).iterencode(value):
        text += part
        if len(text) > _SHOWN_AT_MOST:
            return f"{text[:_SHOWN_AT_MOST]}…"
    return text


def near(word: str, known: Collection[str]) -> str:
    """A suggestion to append to ``word``; empty if none of ``known`` is near. Upper and lower case are one."""
    if (same := _folded(word, known)) or len(word) > _LONGEST_COMPARED:
        return same
    folded = word.casefold()
    originals = {each.casefold(): each for each in _candidates(word, known)}
    close = difflib.get_close_matches(folded, originals, n=3)
    return _suggestion([originals[each] for each in close])


def _candidates(word: str, known: Collection[str]) -> list[str]:
    """The known names that are worth a comparison: all of a few; of many those that begin or end alike."""
    if len(known) <= _COMPARED_AT_MOST:
        return list(known)
    ends = (word[:2].casefold(), word[-2:].casefold())
    alike = [
        each
        for each in known
        if abs(len(each) - len(word)) <= 3 and (each[:2].casefold() == ends[0] or each[-2:].casefold() == ends[1])
    ]
    return alike[:_COMPARED_AT_MOST]


def _folded(word: str, known: Collection[str]) -> str:
    """A suggestion of the names that differ from ``word`` by upper and lower case only."""
    folded = word.casefold()
    return _suggestion([each for each in known if each.casefold() == folded][:3])


def _suggestion(names: Sequence[str]) -> str:
    return f" (did you mean {either(map(show, names))}?)" if names else ""


def bounded(items: Iterable[str]) -> list[str]:
    """The items, and of more than anyone reads how many more there are."""
    listed = list(items)
    more = len(listed) - _FORMS_AT_MOST
    return [*listed[:_FORMS_AT_MOST], f"{more} more"] if more > 0 else listed


def either(items: Iterable[str]) -> str:
    """``a, b or c``."""
    *first, last = items
    return f"{', '.join(first)} or {last}" if first else last
