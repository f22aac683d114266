"""What a call gives back: a result that is a success or a failure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, TypeAlias

import attrs

from ._content import Content, Context, TextContent, as_content, as_contexts, may_be_text, must_be_text
from ._errors import describe
from ._json import FrozenJson, freeze
from ._scope import CancelSource
from ._text import well_formed

__all__ = [
    "DENIED",
    "DUPLICATE_CALL",
    "INVALID_ARGUMENTS",
    "INVALID_OUTPUT",
    "JOURNAL_FAILED",
    "TOOL_ABORTED",
    "TOOL_ABORTED_BEFORE_DISPATCH",
    "TOOL_TIMEOUT",
    "UNKNOWN_TOOL",
    "BodyState",
    "CancelCause",
    "ErrorInfo",
    "ToolFailure",
    "ToolResult",
    "ToolSuccess",
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
JOURNAL_FAILED = "JOURNAL_FAILED"
"""The call could not be recorded, so its body was not entered."""

BodyState: TypeAlias = Literal["not-started", "interrupted", "finished"]
"""How far the body of a tool was: ``"finished"`` if it returned or raised by itself, ``"interrupted"`` if a
cancellation or an interrupt ended it, ``"not-started"`` if it never was entered."""


@attrs.frozen(kw_only=True)
class ErrorInfo:
    """What went wrong: a message for the model, a fixed code for programs, the name of the exception's class."""

    message: str = attrs.field(validator=must_be_text)
    code: str | None = attrs.field(default=None, validator=may_be_text)
    name: str | None = attrs.field(default=None, validator=may_be_text)


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
