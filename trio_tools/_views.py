"""What each stage of a call gets to see, what it may answer, and how it is called.

The views are Protocols. Policies, guards, observers and the body see a call read-only; a wrapper may replace the scope
of what it wraps, and nothing else. A type checker enforces it, and so do the objects themselves at run time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol, TypeAlias

import attrs
import trio

from ._content import Content, Context, as_content, as_contexts
from ._json import FrozenJson
from ._request import ExecutionToken
from ._results import ToolResult
from ._scope import ScopeView
from ._text import check_text

__all__ = [
    "UNSET",
    "Accept",
    "AfterDecision",
    "AfterPolicy",
    "Allow",
    "AroundWrapper",
    "Ask",
    "BeforeDecision",
    "BeforePolicy",
    "Block",
    "Deny",
    "Guard",
    "Progress",
    "ProgressObserver",
    "ResultObserver",
    "ToolDispatch",
    "ToolExecution",
    "ToolRun",
]


class ToolExecution(Protocol):
    """One call as policies, guards and observers see it: read-only."""

    @property
    def call_id(self) -> str:
        """The model's id of the call."""
        ...

    @property
    def root_call_id(self) -> str:
        """The id of the outermost call: of this one, or of the one that it is nested in."""
        ...

    @property
    def name(self) -> str:
        """The name of the tool."""
        ...

    @property
    def arguments(self) -> FrozenJson:
        """The arguments, frozen before the first policy saw them; ``None`` if they could not be read."""
        ...

    @property
    def agent(self) -> str | None:
        """The label that the request carried."""
        ...

    @property
    def parent(self) -> ExecutionToken | None:
        """The token of the execution that made this nested call."""
        ...

    @property
    def token(self) -> ExecutionToken:
        """The identity of this execution; the same object in every stage."""
        ...

    @property
    def scope(self) -> ScopeView:
        """Whether the call is cancelled. May be polled under a shield and in a worker thread."""
        ...


class ToolDispatch(ToolExecution, Protocol):
    """One call as a wrapper sees it: the scope can be replaced for what lies further in, and not removed."""

    @property
    def scope(self) -> ScopeView:
        """The scope that the wrapper assigned, until its ``call_next`` starts; else the call's own."""
        ...

    @scope.setter
    def scope(self, scope: trio.CancelScope) -> None:
        """Have the next ``call_next`` enter ``scope``, which nobody may have entered, around everything further in.

        A relative deadline starts there. The caller's cancellation arrives all the same.

        Raises:
            TypeError: If it is no ``trio.CancelScope``.
            ValueError: If it was entered already.
        """
        ...


class ToolRun(ToolExecution, Protocol):
    """One call as the tool's body sees it."""

    @property
    def nursery(self) -> trio.Nursery:
        """For work that this call owns. It is awaited, or cancelled and awaited, before the call ends."""
        ...

    @property
    def idempotency_key(self) -> str:
        """For services that do a thing once for each key: equal over the attempts of this call, whoever retries.

        With a journal, over restarts of the program too.
        """
        ...

    def defer_context(self, context: Context) -> None:
        """Add a message to the next model request."""
        ...

    def conclude_turn(self) -> None:
        """Ask for the turn to end with this call, if it succeeds."""
        ...

    def emit(self, content: Content | str) -> None:
        """Put out partial output: kept if the body is interrupted. After that, nothing is added."""
        ...

    def report_progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Tell the progress observers how far the work is. Never waits. Works in a worker thread too.

        Raises:
            ValueError: If a number is not finite.
        """
        ...

    async def call_tool(self, name: str, arguments: object, *, id: str | None = None) -> ToolResult:
        """Make a nested call through the same registry. A checkpoint unless the call cannot start.

        Must be awaited by the body or by work in :attr:`nursery`. A failure is a result and no exception; when this
        call is cancelled the nested one is cancelled with it, and drained first.

        Args:
            name: The tool asked for.
            arguments: Parsed JSON.
            id: Of the nested call; ``"<call_id>:1"``, ``":2"`` and so on by default.

        Raises:
            RuntimeError: If the body is over, or the caller is none of its tasks.
        """
        ...


@attrs.frozen
class Progress:
    """How far a body is: ``progress`` of ``total``, in whatever unit the tool counts; ``message`` for a person."""

    progress: float
    total: float | None = None
    message: str = ""


@attrs.frozen
class Allow:
    """The call may run, as far as this policy is concerned."""


@attrs.frozen
class Deny:
    """The call may not run; the model is told the reason."""

    reason: str = attrs.field(validator=check_text)


@attrs.frozen
class Ask:
    """A person is to decide; the reason is shown to them."""

    reason: str | None = attrs.field(default=None, validator=attrs.validators.optional(check_text))


BeforeDecision: TypeAlias = Allow | Deny | Ask


class _Unset:
    """The type of :data:`UNSET`."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()
"""Says that a value was not given, where ``None`` would be a value."""


def _optional_content(given: Iterable[Content] | str | None) -> tuple[Content, ...] | None:
    return None if given is None else as_content(given)


def _feedback(given: Iterable[Content] | str) -> tuple[Content, ...] | str:
    return given if isinstance(given, str) else as_content(given)


@attrs.frozen
class Accept:
    """The result may be shown.

    Attributes:
        content: Replaces what the model sees.
        value: Replaces the value of a success; it is validated and rendered again.
        contexts: Added behind those that the result has.

    Raises:
        ValueError: If both content and value are given: the new value would render the content.
    """

    content: tuple[Content, ...] | None = attrs.field(default=None, kw_only=True, converter=_optional_content)
    value: Any = attrs.field(default=UNSET, kw_only=True)
    contexts: tuple[Context, ...] = attrs.field(default=(), kw_only=True, converter=as_contexts)

    def __attrs_post_init__(self) -> None:
        if self.content is not None and self.value is not UNSET:
            raise ValueError("Accept takes a new content or a new value, not both: the value renders its own content")


@attrs.frozen
class Block:
    """The result may not be shown; the model gets the feedback in its place, as a failure.

    Attributes:
        feedback: A ``str``, or content blocks.
        contexts: The only contexts of the blocked result.
    """

    feedback: tuple[Content, ...] | str = attrs.field(converter=_feedback)
    contexts: tuple[Context, ...] = attrs.field(default=(), kw_only=True, converter=as_contexts)


AfterDecision: TypeAlias = Accept | Block

BeforePolicy: TypeAlias = Callable[[ToolExecution, Callable[[], Awaitable[BeforeDecision]]], Awaitable[BeforeDecision]]
"""Decides whether a call may run. ``call_next`` asks the policies further in; behind the last stands ``Allow()``."""

Guard: TypeAlias = Callable[[ToolExecution], str | None]
"""Synchronous, after policies and approval. A reason denies; ``None`` abstains; it cannot allow."""

AroundWrapper: TypeAlias = Callable[[ToolDispatch, Callable[[], Awaitable[ToolResult]]], Awaitable[ToolResult]]
"""Stands around the body. ``call_next`` may be awaited again after it has returned, and not concurrently."""

AfterPolicy: TypeAlias = Callable[
    [ToolExecution, ToolResult, Callable[[], Awaitable[AfterDecision]]], Awaitable[AfterDecision]
]
"""Decides what of a result may be shown. Not interrupted by a cancellation: one that may take long looks at
``execution.scope.cancel_called`` and gives itself a deadline after which it blocks."""

ResultObserver: TypeAlias = Callable[[ToolExecution, ToolResult], None]
"""Is told each result exactly once. Cannot change or fail the call."""

ProgressObserver: TypeAlias = Callable[[ToolExecution, Progress], None]
"""Is told what bodies report. Cannot change or fail the call."""
