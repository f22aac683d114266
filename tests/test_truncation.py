"""A limit on what a model sees: head and tail stay, and a note says how much is missing."""

from __future__ import annotations

import re
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from trio_tools import (
    Content,
    ImageContent,
    TextContent,
    ToolCall,
    ToolError,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    ToolSuccess,
    limit_content,
    tool,
)

NOTE = re.compile(r"\n\[\.\.\. ([\d,]+) characters left out \.\.\.\]\n")


def shown(content: list[Content], max_chars: int) -> tuple[Content, ...]:
    result = ToolSuccess(value=None, content=content)
    answer = limit_content(max_chars)(None, result)  # pyright: ignore[reportArgumentType] - it looks at the result only
    return result.content if answer is None else answer


def shorten(text: str, max_chars: int) -> str:
    (block,) = shown([TextContent(text)], max_chars)
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("max_chars", [0, -1])
def test_a_limit_that_shows_nothing_is_refused(max_chars: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        limit_content(max_chars)


@pytest.mark.parametrize("max_chars", ["100", 1.5, None, True])
def test_a_limit_that_is_no_number_of_characters_is_refused(max_chars: Any) -> None:
    with pytest.raises(TypeError, match="such as 20_000"):
        limit_content(max_chars)


def test_what_fits_stays_as_it_is() -> None:
    assert shorten("x" * 100, 100) == "x" * 100


def test_head_and_tail_stay_and_the_note_counts_what_is_missing() -> None:
    text = "".join(f"{number:05}" for number in range(1000))
    cut = shorten(text, 200)
    assert len(cut) <= 200
    (missing,) = NOTE.findall(cut)
    head, _, tail = NOTE.split(cut)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + int(missing.replace(",", "")) + len(tail) == len(text)
    assert abs(len(head) - len(tail)) <= 1


def test_where_a_note_has_no_room_it_comes_on_top() -> None:
    assert shorten("abcdefghij", 4) == "ab\n[... 6 characters left out ...]\ncd".replace("cd", "ij")
    assert shorten("abcdefghij", 1) == "a\n[... 9 characters left out ...]\n"


@pytest.mark.parametrize(
    "character",
    ["e\u0301", "\r\n", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\u1112\u1161\u11ab",
     "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e007f"],
)  # fmt: skip
def test_no_character_is_cut_in_two(character: str) -> None:
    """An accent, a line end, a family, a skin tone, a Korean syllable, two flags, a coloured heart."""
    text = character * 50
    for max_chars in range(1, 40):
        cut = shorten(text, max_chars)
        head, missing, tail = NOTE.split(cut)
        assert head == character * (len(head) // len(character))
        assert tail == character * (len(tail) // len(character))
        assert len(head) + int(missing) + len(tail) == len(text)


def test_a_text_of_marks_only_is_cut_all_the_same() -> None:
    """No search for the beginning of a character is endless."""
    cut = shorten("\u0301" * 10_000, 400)
    assert 300 < len(NOTE.sub("", cut)) <= 400


def test_all_text_counts_together_and_pictures_stay() -> None:
    picture = ImageContent(b"x" * 1000, "image/png")
    given: list[Content] = [TextContent("a" * 60), picture, TextContent("b" * 60), TextContent("c" * 300), picture]
    blocks = shown(given, 100)
    assert blocks == (
        TextContent("a" * 33 + "\n[... 355 characters left out ...]\n"),
        picture,
        TextContent("c" * 32),
        picture,
    )


@given(st.lists(st.text("aé\u0301\U0001f1e9\r\n", max_size=60), max_size=4), st.integers(1, 120))
def test_whatever_the_text_head_and_tail_are_of_it_and_the_sum_is_right(texts: list[str], max_chars: int) -> None:
    blocks = shown([TextContent(text) for text in texts], max_chars)
    whole, cut = "".join(texts), "".join(block.text for block in blocks if isinstance(block, TextContent))
    if len(whole) <= max_chars:
        assert blocks == tuple(map(TextContent, texts))
        return
    head, missing, tail = NOTE.split(cut)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + int(missing) + len(tail) == len(whole)
    assert len(head) + len(tail) <= max_chars


def test_it_is_a_finalizer_and_the_value_is_whole() -> None:
    """For a success and for a failure: what the model sees is short, what programs get is all of it."""

    @tool(finalize_content=limit_content(80))
    async def long_text(fail: bool) -> str:
        if fail:
            raise ToolError("y" * 1000)
        return "x" * 1000

    def call(fail: bool) -> ToolResult:
        async def main() -> ToolResult:
            request = ToolCall(id="c1", name="long_text", arguments={"fail": fail})
            return await ToolRegistry([long_text]).execute(request, scope=trio.CancelScope())

        return trio.run(main)

    success, failure = call(False), call(True)
    assert isinstance(success, ToolSuccess)
    assert isinstance(failure, ToolFailure)
    assert (success.value, failure.error.message) == ("x" * 1000, "y" * 1000)
    for result, beginning in ((success, "x"), (failure, "Error: yyy")):
        (block,) = result.content
        assert isinstance(block, TextContent)
        assert len(block.text) <= 80
        assert block.text.startswith(beginning)
        assert NOTE.search(block.text)
