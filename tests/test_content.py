"""Content blocks: as what a tool returns, as what it takes, and as JSON."""

from __future__ import annotations

import base64
from typing import Any, cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from trio_tools import (
    INVALID_ARGUMENTS,
    INVALID_OUTPUT,
    Accept,
    AfterDecision,
    AudioContent,
    Content,
    FrozenJson,
    ImageContent,
    Output,
    ResourceLink,
    TextContent,
    ToolCall,
    ToolDefinition,
    ToolExecution,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    ToolRun,
    ToolSuccess,
    tool,
)
from trio_tools._atoms import Block
from trio_tools._content import from_json, to_json
from trio_tools._json import freeze
from trio_tools._shapes import Problems

PNG = bytes.fromhex("89504e470d0a1a0a")  # how a PNG file begins
PICTURE = ImageContent(PNG, "image/png")
PICTURE_AS_JSON = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
EVERY_KIND: list[tuple[Content, dict[str, str]]] = [
    (TextContent("a chart"), {"type": "text", "text": "a chart"}),
    (PICTURE, PICTURE_AS_JSON),
    (AudioContent(b"RIFF", "audio/wav"), {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}),
    (ResourceLink("file:///a", "a"), {"type": "resource_link", "uri": "file:///a", "name": "a"}),
    (
        ResourceLink("file:///a", "a", "text/csv"),
        {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/csv"},
    ),
]


def call(one: ToolDefinition, arguments: object = None, *, after: Any = None) -> ToolResult:
    async def main() -> ToolResult:
        registry = ToolRegistry([one])
        if after is not None:
            registry.after(after)
        request = ToolCall(id="c1", name=one.name, arguments={} if arguments is None else arguments)
        return await registry.execute(request, scope=trio.CancelScope())

    return trio.run(main)


def success(one: ToolDefinition, arguments: object = None, *, after: Any = None) -> ToolSuccess:
    result = call(one, arguments, after=after)
    assert isinstance(result, ToolSuccess), result
    return result


@pytest.mark.parametrize("data", [PNG, bytearray(PNG), memoryview(PNG), base64.b64encode(PNG).decode()])
@pytest.mark.parametrize("kind", [ImageContent, AudioContent])
def test_the_bytes_of_a_file_become_base64_text(kind: type[ImageContent], data: Any) -> None:
    """Nobody encodes by hand, and text that is encoded already stays."""
    assert base64.b64decode(kind(data, "image/png").data) == PNG


@pytest.mark.parametrize("data", [3, None, ["a"]])
def test_data_that_is_neither_text_nor_bytes_is_refused(data: Any) -> None:
    with pytest.raises(TypeError, match="data must be a str"):
        ImageContent(data, "image/png")


@pytest.mark.parametrize(("block", "written"), EVERY_KIND)
def test_a_block_has_a_form_as_json_and_comes_back_from_it(block: Content, written: dict[str, str]) -> None:
    assert to_json(block) == written
    assert from_json(cast("Any", freeze(written))) == block


@pytest.mark.parametrize(("block", "written"), EVERY_KIND)
def test_a_tool_may_return_a_block_as_it_is(block: Content, written: dict[str, str]) -> None:
    """What the model sees is the block itself; the value is its JSON."""
    plain = tool(_returning(block), name="plain")
    assert (success(plain).content, success(plain).value) == ((block,), written)


def _returning(value: object) -> Any:
    async def body():  # not annotated
        return value

    return body


@pytest.mark.parametrize("gather", [list, tuple])
def test_a_list_of_blocks_and_text_is_content_without_any_annotation(gather: Any) -> None:
    result = success(tool(_returning(gather(["before", PICTURE, TextContent("after")])), name="plain"))
    assert result.content == (TextContent("before"), PICTURE, TextContent("after"))
    assert result.value == ("before", PICTURE_AS_JSON, {"type": "text", "text": "after"})


def test_a_raw_definition_may_return_blocks_too() -> None:
    async def execute(arguments: FrozenJson, run: ToolRun) -> object:
        return [PICTURE]

    one = ToolDefinition(name="raw", parameters={"type": "object"}, execute=execute)
    assert (success(one).content, success(one).value) == ((PICTURE,), (PICTURE_AS_JSON,))


@pytest.mark.parametrize("value", [[PICTURE, 3], {"picture": PICTURE}, [[PICTURE]]])
def test_blocks_among_other_data_are_no_content_and_no_json(value: object) -> None:
    """Nothing is guessed."""
    result = call(tool(_returning(value), name="mixed"))
    assert isinstance(result, ToolFailure)
    assert result.error.code == INVALID_OUTPUT
    assert "ImageContent" in result.error.message
    assert '"mixed"' in result.error.message


@pytest.mark.parametrize("value", [["a", "b"], [], ()])
def test_a_list_without_a_block_is_data(value: object) -> None:
    (shown,) = success(tool(_returning(value), name="data")).content
    assert isinstance(shown, TextContent)
    assert shown.text.startswith("[")


@tool
async def one_picture(found: bool) -> ImageContent | None:
    return PICTURE if found else None


@tool
async def report() -> list[str | ImageContent]:
    return ["before", PICTURE]


@tool
async def anything(blocks: list[Content]) -> Content:
    return blocks[-1]


@tool
async def pair() -> tuple[TextContent, ImageContent]:
    return TextContent("it"), PICTURE


def test_an_annotation_says_which_blocks_a_tool_returns() -> None:
    assert success(one_picture, {"found": True}).content == (PICTURE,)
    assert success(one_picture, {"found": False}).content == (TextContent("null"),)
    assert success(report).content == (TextContent("before"), PICTURE)
    assert success(report).value == ("before", PICTURE_AS_JSON)
    assert success(pair).content == (TextContent("it"), PICTURE)


def test_a_block_of_another_kind_than_annotated_is_invalid_output() -> None:
    async def wrong() -> list[TextContent]:
        return cast("list[TextContent]", [PICTURE])

    result = call(tool(wrong))
    assert isinstance(result, ToolFailure)
    assert result.error.code == INVALID_OUTPUT
    assert "$[0]: expected TextContent" in result.error.message


@pytest.mark.parametrize(("block", "written"), EVERY_KIND)
def test_a_tool_may_take_blocks(block: Content, written: dict[str, str]) -> None:
    result = success(anything, {"blocks": [PICTURE_AS_JSON, written]})
    assert (result.content, result.value) == ((block,), written)


def test_a_block_that_does_not_fit_is_refused_for_what_it_says_it_is() -> None:
    """A model that forgot a key is told that key, not four forms."""
    result = call(anything, {"blocks": [{"type": "image", "data": "aGk=", "mime": "x"}]})
    assert isinstance(result, ToolFailure)
    assert result.error.code == INVALID_ARGUMENTS
    assert result.error.message == (
        'invalid arguments: $.blocks[0]: "mimeType" is required (string); '
        '$.blocks[0]: unknown key "mime" (did you mean "mimeType"?)'
    )


@pytest.mark.parametrize("written", [3, {"type": "image"}, {"type": "video", "data": "", "mimeType": ""}, {}])
def test_what_is_no_block_is_no_value_of_its_shape(written: object) -> None:
    """Unions ask one shape after the other."""
    problems = Problems()
    Block(ImageContent).decode(freeze(written), None, problems)
    assert len(problems) == 1


def test_blocks_inside_other_data_are_refused_when_decorated_unless_somebody_renders_them() -> None:
    """Their base64 would reach the model as text."""

    async def charts() -> dict[str, ImageContent]:
        return {"one": PICTURE}

    with pytest.raises(TypeError, match=r"charts\(\) cannot be a tool: content blocks inside other data.*Output\(rend"):
        tool(charts)

    def render(arguments: FrozenJson, value: FrozenJson) -> list[Content]:
        assert isinstance(value, dict)
        return [TextContent(", ".join(value)), from_json(cast("Any", value["one"]))]

    result = success(tool(charts, output=Output(render=render)))
    assert (result.content, result.value) == ((TextContent("one"), PICTURE), {"one": PICTURE_AS_JSON})


def test_a_policy_that_replaces_the_value_has_it_rendered_as_content_again() -> None:
    """The annotation still holds: the new value is checked, and its blocks are shown as blocks."""

    def replacing(value: object) -> Any:
        async def policy(execution: ToolExecution, result: ToolResult, call_next: Any) -> AfterDecision:
            return Accept(value=value)

        return policy

    smaller = {"type": "image", "data": "", "mimeType": "image/png"}
    assert success(report, after=replacing([smaller, "cut"])).content == (
        ImageContent("", "image/png"),
        TextContent("cut"),
    )
    refused = call(report, after=replacing([{"type": "image"}]))
    assert isinstance(refused, ToolFailure)
    assert refused.error.code == INVALID_OUTPUT


texts = st.text(max_size=5)
blocks = st.one_of(
    st.builds(TextContent, texts),
    st.builds(ImageContent, st.binary(max_size=5), texts),
    st.builds(AudioContent, st.binary(max_size=5), texts),
    st.builds(ResourceLink, texts, texts, st.none() | texts),
)


@given(st.lists(blocks, min_size=1, max_size=3), st.booleans())
def test_any_blocks_arrive_as_they_were_returned_annotated_or_not(returned: list[Content], annotated: bool) -> None:
    async def typed() -> list[Content]:
        return returned

    result = success(tool(typed) if annotated else tool(_returning(returned), name="plain"))
    assert result.content == tuple(returned)
    assert result.value == tuple(to_json(one) for one in returned)


@pytest.mark.parametrize("shown", [5, {"text": "x"}, None])
def test_a_rendering_that_is_no_content_is_invalid_output(shown: Any) -> None:
    def render(arguments: FrozenJson, value: FrozenJson) -> Any:
        return shown

    result = call(tool(_returning(1), name="plain", output=Output(render=render)))
    assert isinstance(result, ToolFailure)
    assert (result.error.code, result.body) == (INVALID_OUTPUT, "finished")
    assert "render failed: content must be" in result.error.message
