"""Results as JSON, and back: what a journal keeps of an outcome is all of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trio_tools._content import Content, Context, from_json, to_json
from trio_tools._json import freeze, thaw
from trio_tools._results import CancelCause, ErrorInfo, ToolFailure, ToolResult, ToolSuccess

__all__ = ["decoded", "encoded"]


def encoded(result: ToolResult) -> dict[str, Any]:
    """A result as plain JSON."""
    common = {
        "is_error": result.is_error,
        "body": result.body,
        "content": [to_json(block) for block in result.content],
        "contexts": [
            {"source": one.source, "content": [to_json(block) for block in one.content]} for one in result.contexts
        ],
        "meta": thaw(result.meta),
    }
    if isinstance(result, ToolSuccess):
        return {**common, "value": thaw(result.value), "concludes_turn": result.concludes_turn}
    error, cause = result.error, result.cause
    return {
        **common,
        "error": {"message": error.message, "code": error.code, "name": error.name},
        "cause": None if cause is None else {"source": cause.source, "reason": cause.reason, "call_id": cause.call_id},
        "partial": [to_json(block) for block in result.partial],
        "superseded": None if result.superseded is None else encoded(result.superseded),
    }


def decoded(written: Mapping[str, Any]) -> ToolResult:
    """The result that :func:`encoded` wrote.

    Raises:
        KeyError, TypeError, ValueError: If it is none.
    """
    if not written["is_error"]:
        return ToolSuccess(
            value=freeze(written["value"]),
            content=_content(written["content"]),
            meta=written["meta"],
            contexts=_contexts(written["contexts"]),
            concludes_turn=written["concludes_turn"],
            body=written["body"],
        )
    cause, superseded = written["cause"], written["superseded"]
    return ToolFailure(
        error=ErrorInfo(**written["error"]),
        content=_content(written["content"]),
        meta=written["meta"],
        contexts=_contexts(written["contexts"]),
        body=written["body"],
        cause=None if cause is None else CancelCause(**cause),
        partial=_content(written["partial"]),
        superseded=None if superseded is None else decoded(superseded),
    )


def _content(written: Iterable[Mapping[str, Any]]) -> tuple[Content, ...]:
    return tuple(from_json(block) for block in written)


def _contexts(written: Iterable[Mapping[str, Any]]) -> tuple[Context, ...]:
    return tuple(Context(_content(one["content"]), source=one["source"]) for one in written)
