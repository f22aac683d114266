"""A model that needs no network and no key: it follows a script, and looks only at the history, as any model does."""

from __future__ import annotations

import json
from collections.abc import Sequence

import attrs
import trio
from _history import Answer, Assistant, Message, Request, User

from trio_tools import ToolDefinition, ToolSuccess

__all__ = ["PROMPTS", "ScriptedModel"]

PROMPTS = (
    "What is in this directory?",
    "Check it, clean up, and tell me about the machine.",
    "Now show me one of the files.",
)
"""What the person says, one for each turn."""


@attrs.frozen
class ScriptedModel:
    """Asks for tools as models do, mistakes included. ``command`` is the long one that it runs in the second turn."""

    command: str

    async def reply(self, history: Sequence[Message], tools: Sequence[ToolDefinition], /) -> Assistant:
        """The next message of the script. A checkpoint: here a real model waits for its provider."""
        await trio.lowlevel.checkpoint()
        turn = sum(isinstance(message, User) for message in history)
        script = (self._look_around, self._work, self._read)[turn - 1]
        this_turn = history[max(at for at, message in enumerate(history) if isinstance(message, User)) :]
        said = sum(isinstance(message, Assistant) for message in this_turn)
        messages = script(history)
        return messages[said] if said < len(messages) else Assistant(_summary(this_turn))

    def _look_around(self, _: Sequence[Message]) -> list[Assistant]:
        calls = (
            Request("look-1", "list_files", ""),
            Request("look-2", "search_text", '{"text": "TODO"}'),
        )
        return [Assistant("I look around first.", calls)]

    def _work(self, _: Sequence[Message]) -> list[Assistant]:
        calls = (
            Request("work-1", "run_command", json.dumps({"command": self.command})),
            Request("work-2", "run_command", '{"command": "rm -f agent_loop.tmp"}'),
            Request("work-3", "run_command", '{"command": "uname -sm"}'),
            Request("work-4", "read_file", '{"path": "../../etc/passwd"}'),
        )
        return [Assistant("Four calls in one message.", calls)]

    def _read(self, history: Sequence[Message]) -> list[Assistant]:
        file = _listed_file(history)
        mistaken = (
            Request("read-1", "reed_file", json.dumps({"path": file})),
            Request("read-2", "search_text", '{"text": "TODO", '),
        )
        mended = (Request("read-3", "read_file", json.dumps({"path": file})),)
        return [
            Assistant("I read the first one.", mistaken),
            Assistant("I got both wrong. What I was told helps me mend it.", mended),
        ]


def _listed_file(history: Sequence[Message]) -> str:
    """The first plain file that a listing in the history names."""
    for message in history:
        match message:
            case Answer(result=ToolSuccess(value={"entries": tuple(entries)})):
                return next((str(name) for name in entries if not str(name).endswith("/")), "README.md")
            case _:
                pass
    return "README.md"


def _summary(turn: Sequence[Message]) -> str:
    results = [message.result for message in turn if isinstance(message, Answer)]
    succeeded = sum(isinstance(result, ToolSuccess) for result in results)
    return f"Done: of {len(results)} calls {succeeded} succeeded."
