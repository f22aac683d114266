"""A limit on how much of a result a model gets to see."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

from ._content import Content, TextContent
from ._results import ToolResult
from ._views import ToolExecution

__all__ = ["limit_content"]

_JOINER = "\u200d"  # between the emoji of a family
_CONTINUING = (  # beside marks (category M) what belongs to the character before it:
    range(0x1160, 0x1200),  # the second and third part of a decomposed Korean syllable
    range(0x1F3FB, 0x1F400),  # skin tones
    range(0xE0020, 0xE0080),  # tags: the flag of Scotland
)
_REGIONAL = range(0x1F1E6, 0x1F200)  # two make a flag
_LONGEST = 64  # code points that are taken for one character, at most


def limit_content(max_chars: int) -> Callable[[ToolExecution, ToolResult], tuple[Content, ...] | None]:
    """A ready ``finalize_content``: of text that is too long, the model sees the beginning and the end.

    All blocks of text of a result count together; images and the like stay as they are. What is cut out is replaced by
    a note that says how much it was. ``value`` and ``error`` keep everything. ::

        @tool(finalize_content=limit_content(20_000))
        async def read_log(name: str) -> str: ...

    Args:
        max_chars: The number of characters (code points) that may be shown, the note included; if there is not enough
            room for a note, it comes on top. No character that is made of several code points is cut in two.

    Raises:
        TypeError: If ``max_chars`` is no int.
        ValueError: If it is not at least 1.
    """
    if isinstance(max_chars, bool) or not isinstance(max_chars, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"max_chars must be a number of characters, such as 20_000, not {max_chars!r}")
    if max_chars < 1:
        raise ValueError(f"max_chars must be at least 1, not {max_chars}")

    def limited(_: ToolExecution, result: ToolResult) -> tuple[Content, ...] | None:
        size = sum(len(block.text) for block in result.content if isinstance(block, TextContent))
        return None if size <= max_chars else _shortened(result.content, size, max_chars)

    return limited


def _shortened(content: tuple[Content, ...], size: int, max_chars: int) -> tuple[Content, ...]:
    room = max_chars - len(_note(size))
    kept = room if room >= max_chars / 2 else max_chars
    start, end = (kept + 1) // 2, size - kept // 2  # what lies between is cut out
    cuts: list[tuple[int, int]] = []  # for each block: from where to where
    at = 0
    for block in content:
        text = block.text if isinstance(block, TextContent) else ""
        first = _boundary(text, min(max(start - at, 0), len(text)), -1)
        last = _boundary(text, min(max(end - at, 0), len(text)), 1)
        cuts.append((first, last))
        at += len(text)
    note = _note(sum(last - first for first, last in cuts))
    blocks: list[Content] = []
    for block, (first, last) in zip(content, cuts, strict=True):
        if first == last or not isinstance(block, TextContent):
            blocks.append(block)
        elif left := f"{block.text[:first]}{note}{block.text[last:]}":
            blocks.append(TextContent(left))
            note = ""
    return tuple(blocks)


def _note(left_out: int) -> str:
    return f"\n[... {left_out:,} characters left out ...]\n"


def _boundary(text: str, index: int, step: int) -> int:
    """``index``, or the next one in the direction of ``step`` that is not inside a character."""
    for moved in range(index, index + step * _LONGEST, step):
        if not 0 < moved < len(text) or not _is_inside(text, moved):
            return moved
    return index


def _is_inside(text: str, index: int) -> bool:
    """Whether the code points on both sides of ``index`` belong to one character (after UAX #29, in the main)."""
    before, after = text[index - 1], text[index]
    if before == "\r" and after == "\n":
        return True
    if after.isascii():
        return False
    if ord(before) in _REGIONAL and ord(after) in _REGIONAL:
        begin = index
        while begin and ord(text[begin - 1]) in _REGIONAL:
            begin -= 1
        return (index - begin) % 2 == 1
    joined = _JOINER in (before, after)
    return joined or unicodedata.category(after)[0] == "M" or any(ord(after) in each for each in _CONTINUING)
