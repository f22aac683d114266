"""The messages of a conversation, and the rule that providers insist on: each call is followed by its one result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

import attrs

from trio_tools import Content, Context, TextContent, ToolDefinition, ToolResult

__all__ = ["Answer", "Assistant", "Message", "Model", "Request", "User", "text_of", "unpaired"]


@attrs.frozen
class User:
    """What the person says."""

    text: str


@attrs.frozen
class Request:
    """A call as a model writes it: the arguments are JSON text, which may be wrong."""

    id: str
    name: str
    arguments: str


@attrs.frozen
class Assistant:
    """What the model says: text, and the calls that it asks for."""

    text: str
    calls: tuple[Request, ...] = ()


@attrs.frozen
class Answer:
    """What the model is told of one of its calls."""

    call_id: str
    result: ToolResult


Message: TypeAlias = User | Assistant | Answer | Context


class Model(Protocol):
    """Whoever goes on with the conversation. Put the client of your provider behind this."""

    async def reply(self, history: Sequence[Message], tools: Sequence[ToolDefinition], /) -> Assistant:
        """The next message of the model. A checkpoint; cancelled, it leaves nothing behind."""
        ...


def text_of(content: Iterable[Content]) -> str:
    """The text in what a model is shown; each block begins on a line of its own."""
    told = ""
    for block in content:
        told += "\n" if told and not told.endswith("\n") else ""
        told += block.text if isinstance(block, TextContent) else f"[{type(block).__name__}]"
    return told


def unpaired(history: Iterable[Message]) -> list[str]:
    """How the history breaks the rule, in words; empty if behind each call message stand its results, in its order."""
    faults: list[str] = []
    due: list[str] = []  # calls that the next messages must answer
    for message in history:
        if isinstance(message, Answer):
            if due[:1] == [message.call_id]:
                del due[0]
            else:
                faults.append(f"the result of {message.call_id} answers no call at this place")
            continue
        faults += [f"{call_id} has no result" for call_id in due]
        due = [call.id for call in message.calls] if isinstance(message, Assistant) else []
    return faults + [f"{call_id} has no result" for call_id in due]
