"""What a call gives back: content blocks, contexts, and a result that is a success or a failure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from ._errors import describe
from ._json import FrozenJson, freeze
from ._scope import CancelSource
from ._text import is_well_formed, well_formed

__all__ = [
    "DENIED",
    "DUPLICATE_CALL",
    "INVALID_ARGUMENTS",
    "INVALID_OUTPUT",
    "TOOL_ABORTED",
    "TOOL_ABORTED_BEFORE_DISPATCH",
    "TOOL_TIMEOUT",
    "UNKNOWN_TOOL",
    "AudioContent",
    "BodyState",
    "CancelCause",
    "Content",
    "Context",
    "ErrorInfo",
    "ImageContent",
    "ResourceLink",
    "TextContent",
    "ToolFailure",
    "ToolResult",
    "ToolSuccess",
    "as_content",
    "as_contexts",
]

TOOL_ABORTED = "ABORTED"
"""The call was cancelled after its body had been entered: it may have had effects."""
TOOL_ABORTED_BEFORE_DISPATCH = "ABORTED_BEFORE_DISPATCH"
"""The call was cancelled and its body was never entered: it had no effects."""
TOOL_TIMEOUT = "TOOL_TIMEOUT"
"""The tool's declared timeout passed first; ``body`` tells how far the work was."""
UNKNOWN_TOOL = "UNKNOWN_TOOL"
"""No visible tool has that name."""
INVALID_ARGUMENTS = "INVALID_ARGS"
"""The arguments are not JSON, or against the tool's schema; nobody was asked and nothing ran."""
INVALID_OUTPUT = "INVALID_TOOL_OUTPUT"
"""The body finished, so its effects happened, but what it returned breaks its output contract."""
DENIED = "DENIED"
"""A policy, a guard or a person refused the call."""
DUPLICATE_CALL = "DUPLICATE_CALL"
"""An earlier call of the same batch has this id; the call was not executed."""

BodyState: TypeAlias = Literal["not-started", "interrupted", "finished"]
"""How far the body of a tool was: ``"finished"`` if it returned or raised by itself, ``"interrupted"`` if a
cancellation or an interrupt ended it, ``"not-started"`` if it never was entered."""


def _must_be_text(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{attribute.name} must be a str, not {type(value).__name__}")
    if not is_well_formed(value):
        raise ValueError(f"{attribute.name} has lone surrogates: decode it with errors='replace'")


def _may_be_text(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None:
        _must_be_text(instance, attribute, value)


@attrs.frozen
class TextContent:
    """Text for the model."""

    text: str = attrs.field(validator=_must_be_text)


@attrs.frozen
class ImageContent:
    """An image for the model: ``data`` is base64 text, ``mime_type`` such as ``"image/png"``."""

    data: str = attrs.field(validator=_must_be_text)
    mime_type: str = attrs.field(validator=_must_be_text)


@attrs.frozen
class AudioContent:
    """Sound for the model: ``data`` is base64 text, ``mime_type`` such as ``"audio/wav"``."""

    data: str = attrs.field(validator=_must_be_text)
    mime_type: str = attrs.field(validator=_must_be_text)


@attrs.frozen
class ResourceLink:
    """A pointer to something that the model, or its user, may look up."""

    uri: str = attrs.field(validator=_must_be_text)
    name: str = attrs.field(validator=_must_be_text)
    mime_type: str | None = attrs.field(default=None, validator=_may_be_text)


Content: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink
_BLOCKS = frozenset((TextContent, ImageContent, AudioContent, ResourceLink))


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
        if type(block) not in _BLOCKS:
            raise TypeError(f"content must be made of content blocks such as TextContent, not {type(block).__name__}")
    return blocks


@attrs.frozen
class Context:
    """A message for the next model request, beside the results.

    Attributes:
        content: Stored as a tuple of content blocks; a ``str`` becomes one block of text.
        source: Who adds it, for observers and journals.
    """

    content: tuple[Content, ...] = attrs.field(converter=as_content)
    source: str = attrs.field(kw_only=True, validator=_must_be_text)


def as_contexts(given: Iterable[Context]) -> tuple[Context, ...]:
    if given == ():
        return ()
    contexts = tuple(given)
    for one in contexts:
        if not isinstance(one, Context):  # pyright: ignore[reportUnnecessaryIsInstance] - stages are not all typed
            raise TypeError(f"contexts must be Context objects, not {type(one).__name__}")
    return contexts


@attrs.frozen(kw_only=True)
class ErrorInfo:
    """What went wrong: a message for the model, a fixed code for programs, the name of the exception's class."""

    message: str = attrs.field(validator=_must_be_text)
    code: str | None = attrs.field(default=None, validator=_may_be_text)
    name: str | None = attrs.field(default=None, validator=_may_be_text)


@attrs.frozen(kw_only=True)
class CancelCause:
    """Who cancelled a call, and why.

    Attributes:
        source: Whose scope it was, see ``CancelSource``.
        reason: Trio's own reason text where one was given. For operators and journals: it is never shown to the model.
        call_id: The call whose failure cancelled this one, if the source is ``"sibling"``.
    """

    source: CancelSource
    reason: str | None = None
    call_id: str | None = None


@attrs.frozen(kw_only=True)
class ToolSuccess:
    """The work was done.

    Attributes:
        value: What the tool returned, frozen (see :func:`freeze`).
        content: What the model sees.
        meta: For a user interface; never shown to the model.
        contexts: Messages for the next model request.
        concludes_turn: The tool asks for the turn to end here.
        body: How far the tool's body was; the registry sets it, whatever a wrapper wrote.
    """

    value: FrozenJson = attrs.field(converter=freeze)
    content: tuple[Content, ...] = attrs.field(converter=as_content)
    meta: FrozenJson = attrs.field(default=None, converter=freeze)
    contexts: tuple[Context, ...] = attrs.field(default=(), converter=as_contexts)
    concludes_turn: bool = False
    body: BodyState = "not-started"
    is_error: ClassVar[Literal[False]] = False


@attrs.frozen(kw_only=True)
class ToolFailure:
    """The work was not done, was refused, or was cut short; ``error.code`` and ``body`` say which.

    Attributes:
        error: What went wrong.
        content: What the model sees; the first block is ``"Error: <message>"`` unless a stage replaced it.
        meta: For a user interface; never shown to the model.
        contexts: Messages for the next model request.
        body: How far the tool's body was; the registry sets it, whatever a wrapper wrote.
        cause: Who cancelled and why, if a cancellation ended the work.
        partial: What the body emitted before it was interrupted.
        superseded: The outcome that an abort or a timeout replaced. As sensitive as the content.
    """

    error: ErrorInfo
    content: tuple[Content, ...] = attrs.field(converter=as_content)
    meta: FrozenJson = attrs.field(default=None, converter=freeze)
    contexts: tuple[Context, ...] = attrs.field(default=(), converter=as_contexts)
    body: BodyState = "not-started"
    cause: CancelCause | None = None
    partial: tuple[Content, ...] = attrs.field(default=(), converter=as_content)
    superseded: ToolResult | None = None
    is_error: ClassVar[Literal[True]] = True

    @classmethod
    def from_message(
        cls,
        message: str,
        *,
        code: str | None = None,
        name: str | None = None,
        contexts: Iterable[Context] = (),
        body: BodyState = "not-started",
        cause: CancelCause | None = None,
        partial: tuple[Content, ...] = (),
    ) -> ToolFailure:
        """A complete failure that shows the model ``Error: <message>``; lone surrogates in it become ``?``."""
        message = well_formed(message)
        return cls(
            error=ErrorInfo(message=message, code=code, name=name),
            content=(TextContent(f"Error: {message}"),),
            contexts=contexts,
            body=body,
            cause=cause,
            partial=partial,
        )

    @classmethod
    def from_exception(cls, *errors: BaseException, contexts: Iterable[Context] = ()) -> ToolFailure:
        """The failure that one or more exceptions stand for: message, class name, and the code of a ``ToolError``."""
        told = describe(*errors)
        return cls.from_message(told.message, code=told.code, name=told.name, contexts=contexts)


ToolResult: TypeAlias = ToolSuccess | ToolFailure
