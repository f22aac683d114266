"""What a model sees: blocks of text, images, sound and links; and their form as JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

import attrs
import msgspec

from ._json import FrozenJson
from ._text import is_well_formed

__all__ = [
    "BLOCK_SCHEMAS",
    "AudioContent",
    "Content",
    "Context",
    "ImageContent",
    "ResourceLink",
    "TextContent",
    "as_content",
    "as_contexts",
    "as_returned",
    "as_shown",
    "as_written",
    "from_json",
    "may_be_text",
    "must_be_text",
    "render_content",
    "to_json",
]


def must_be_text(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """A validator of attrs: the value is a ``str`` that can be written as UTF-8.

    Raises:
        TypeError: If it is no ``str``.
        ValueError: If it has lone surrogates.
    """
    if not isinstance(value, str):
        raise TypeError(f"{attribute.name} must be a str, not {type(value).__name__}")
    if not is_well_formed(value):
        raise ValueError(f"{attribute.name} has lone surrogates: decode it with errors='replace'")


def may_be_text(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Likewise, or ``None``."""
    if value is not None:
        must_be_text(instance, attribute, value)


def _as_base64(data: str | bytes | bytearray | memoryview) -> str:
    return base64.b64encode(data).decode() if isinstance(data, bytes | bytearray | memoryview) else data


@attrs.frozen
class TextContent:
    """Text for the model."""

    text: str = attrs.field(validator=must_be_text)


@attrs.frozen
class ImageContent:
    """An image for the model.

    Attributes:
        data: Base64 text. Bytes, as an image file has them, may be given and are turned into it.
        mime_type: Such as ``"image/png"``.
    """

    data: str = attrs.field(converter=_as_base64, validator=must_be_text)
    mime_type: str = attrs.field(validator=must_be_text)


@attrs.frozen
class AudioContent:
    """Sound for the model.

    Attributes:
        data: Base64 text. Bytes, as a sound file has them, may be given and are turned into it.
        mime_type: Such as ``"audio/wav"``.
    """

    data: str = attrs.field(converter=_as_base64, validator=must_be_text)
    mime_type: str = attrs.field(validator=must_be_text)


@attrs.frozen
class ResourceLink:
    """A pointer to something that the model, or its user, may look up."""

    uri: str = attrs.field(validator=must_be_text)
    name: str = attrs.field(validator=must_be_text)
    mime_type: str | None = attrs.field(default=None, validator=may_be_text)


Content: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink


def as_content(given: Iterable[Content] | str) -> tuple[Content, ...]:
    """Content as it is stored: a tuple of blocks; a ``str`` is one block of text.

    Raises:
        TypeError: If something in it is no content block.
    """
    if isinstance(given, str):
        return (TextContent(given),)
    if given == ():
        return ()
    try:
        blocks = tuple(given)
    except TypeError:
        raise TypeError(f"content must be a str or content blocks, not {type(given).__name__}") from None
    for block in blocks:
        if type(block) not in BLOCK_SCHEMAS:
            raise TypeError(f"content must be made of content blocks such as TextContent, not {type(block).__name__}")
    return blocks


def as_shown(given: object) -> tuple[Content, ...]:
    """Like :func:`as_content`; one block will do as well, and ``str`` among blocks.

    Raises:
        TypeError: If something in it is neither.
    """
    if isinstance(given, str):
        return (TextContent(given),)
    if type(given) in BLOCK_SCHEMAS:
        return (cast(Content, given),)
    if isinstance(given, Iterable) and not isinstance(given, Mapping):
        items = cast("Iterable[object]", given)
        given = [TextContent(one) if isinstance(one, str) else one for one in items]
    return as_content(cast("Iterable[Content]", given))


@attrs.frozen
class Context:
    """A message for the next model request, beside the results.

    Attributes:
        content: Stored as a tuple of content blocks; a ``str`` becomes one block of text.
        source: Who adds it, for observers and journals.
    """

    content: tuple[Content, ...] = attrs.field(converter=as_content)
    source: str = attrs.field(kw_only=True, validator=must_be_text)


def as_contexts(given: Iterable[Context]) -> tuple[Context, ...]:
    if given == ():
        return ()
    contexts = tuple(given)
    for one in contexts:
        if not isinstance(one, Context):  # pyright: ignore[reportUnnecessaryIsInstance] - stages are not all typed
            raise TypeError(f"contexts must be Context objects, not {type(one).__name__}")
    return contexts


# ---- as JSON: the form of each block in the Model Context Protocol (revision 2025-06-18, ContentBlock) ---------------

_TEXT: dict[str, object] = {"type": "string"}
_DATA: dict[str, object] = {"type": "string", "description": "base64"}


def _form(kind: str, description: str, keys: Mapping[str, object], optional: Mapping[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {"type": {"enum": [kind]}, **keys, **optional},
        "required": ["type", *keys],
        "additionalProperties": False,
        "description": description,
    }


BLOCK_SCHEMAS: dict[type, dict[str, object]] = {
    TextContent: _form("text", "A text.", {"text": _TEXT}, {}),
    ImageContent: _form("image", "An image.", {"data": _DATA, "mimeType": _TEXT}, {}),
    AudioContent: _form("audio", "A sound.", {"data": _DATA, "mimeType": _TEXT}, {}),
    ResourceLink: _form("resource_link", "A link.", {"uri": _TEXT, "name": _TEXT}, {"mimeType": _TEXT}),
}
"""JSON Schema of each kind of block."""


def to_json(block: Content) -> dict[str, object]:
    """A block as JSON data."""
    match block:
        case TextContent(text):
            return {"type": "text", "text": text}
        case ImageContent(data, mime_type):
            return {"type": "image", "data": data, "mimeType": mime_type}
        case AudioContent(data, mime_type):
            return {"type": "audio", "data": data, "mimeType": mime_type}
        case _:
            kind = {} if block.mime_type is None else {"mimeType": block.mime_type}
            return {"type": "resource_link", "uri": block.uri, "name": block.name, **kind}


def from_json(written: Mapping[str, FrozenJson]) -> Content:
    """The block of JSON data that has the schema of one."""
    fields = cast("Mapping[str, str]", written)
    match fields["type"]:
        case "text":
            return TextContent(fields["text"])
        case "image":
            return ImageContent(fields["data"], fields["mimeType"])
        case "audio":
            return AudioContent(fields["data"], fields["mimeType"])
        case _:
            return ResourceLink(fields["uri"], fields["name"], fields.get("mimeType"))


def render_content(_: FrozenJson, value: FrozenJson) -> tuple[Content, ...]:
    """The rendering of a function that is annotated to return blocks, and ``str`` or ``None`` beside them."""
    return tuple(_block(each) for each in (value if isinstance(value, tuple) else (value,)))


def _block(value: FrozenJson) -> Content:
    if isinstance(value, Mapping):
        return from_json(value)
    return TextContent(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def as_returned(value: object) -> tuple[Content, ...] | None:
    """What a body returned as content, if it is that: a block, or a list or tuple of blocks and ``str``."""
    if type(value) in BLOCK_SCHEMAS:
        return (cast(Content, value),)
    if not isinstance(value, list | tuple):
        return None
    items = cast("list[object] | tuple[object, ...]", value)
    if not any(type(one) in BLOCK_SCHEMAS for one in items):
        return None
    if not all(type(one) in BLOCK_SCHEMAS or isinstance(one, str) for one in items):
        return None
    return tuple(TextContent(one) if isinstance(one, str) else cast(Content, one) for one in items)


def as_written(value: object) -> object:
    """The JSON data of what :func:`as_returned` has found to be content."""
    if isinstance(value, list | tuple):
        return [as_written(one) for one in cast("list[object] | tuple[object, ...]", value)]
    return value if isinstance(value, str) else to_json(cast(Content, value))
