"""What programs do whose disk is to fail: one tool that acts on the world, in several conversations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from trio_tools import Allow, BeforeDecision, ToolCall, ToolExecution, ToolFailure, ToolRegistry, ToolResult, tool
from trio_tools.journal import SqliteJournal

__all__ = ["Act", "call_of", "registry", "text_of"]

Act = Callable[[str], Any]


def call_of(name: str) -> ToolCall:
    return ToolCall(id=name, name="act", arguments={"name": name})


def registry(journal: SqliteJournal, conversation: str, act: Act) -> ToolRegistry:
    """In conversation ``b`` a policy is asked, so that the mark has a commit of its own."""

    @tool(name="act")
    async def body(name: str) -> str:
        await trio.lowlevel.checkpoint()
        act(name)
        await trio.lowlevel.checkpoint()
        return f"did {name}"

    async def allow(execution: ToolExecution, call_next: Callable[[], Any]) -> BeforeDecision:
        return Allow()

    made = ToolRegistry([body], journal=journal.conversation(conversation))
    if conversation == "b":
        made.before(allow)
    return made


def text_of(result: ToolResult) -> str:
    return str(result.error.code) if isinstance(result, ToolFailure) else str(result.value)
