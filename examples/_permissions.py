"""Who may do what: a policy for commands, and two approvers that answer when it asks for a person."""

from __future__ import annotations

import json
import os
import re
import termios
from collections.abc import Awaitable, Callable

import attrs
import trio
from _screen import Screen

from trio_tools import (
    ApprovalOutcome,
    ApprovalRequest,
    Ask,
    BeforeDecision,
    BeforePolicy,
    Deny,
    ToolExecution,
)

__all__ = ["Always", "AtTerminal", "command_policy"]


def command_policy(known: str) -> BeforePolicy:
    """Commands run if they are ``known``; never, if they delete or rise to power; otherwise a person decides.

    A list of bad words keeps nobody out, as a shell knows many ways around it: what is not known is asked about.
    """

    async def policy(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
        if execution.name != "run_command":
            return await call_next()
        match execution.arguments:
            case {"command": str(command)} if command == known:
                return await call_next()
            case {"command": str(command)} if re.search(r"\b(rm|sudo|su|dd|mkfs)\b", command):
                return Deny("this command may destroy something; do without it")
            case _:
                return Ask("It is not among the commands that are known")

    return policy


@attrs.frozen
class Always:
    """An approver that has its answer beforehand."""

    outcome: ApprovalOutcome
    why: str
    screen: Screen

    async def request(self, ask: ApprovalRequest) -> ApprovalOutcome:
        """The answer, without a checkpoint."""
        self.screen.decided(ask.execution.arguments, _in_words(self.outcome), self.why)
        return self.outcome


@attrs.frozen
class AtTerminal:
    """An approver that asks the person at the terminal."""

    screen: Screen

    async def request(self, ask: ApprovalRequest) -> ApprovalOutcome:
        """Ask until there is an answer; a cancellation ends the wait."""
        outcome: ApprovalOutcome = "unavailable"
        try:
            # Opened anew, since not to block is a property that we would share with the shell behind standard input.
            terminal = os.open(os.ttyname(0), os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            pass  # there is none
        else:
            termios.tcflush(terminal, termios.TCIFLUSH)  # what was typed before the question is no answer to it
            async with trio.lowlevel.FdStream(terminal) as stream:
                outcome = await self._asked(stream, ask)
        self.screen.decided(ask.execution.arguments, _in_words(outcome), "at the terminal")
        return outcome

    async def _asked(self, terminal: trio.lowlevel.FdStream, ask: ApprovalRequest) -> ApprovalOutcome:
        # All of it, and in ASCII: whoever decides has to see what will run.
        question = f"  ? {ask.execution.name} {json.dumps(ask.execution.arguments)}\n    {ask.reason}. Run it? [y/N] "
        while True:
            await terminal.send_all(question.encode())
            self.screen.in_question = True
            answer = (await terminal.receive_some(1000)).decode(errors="replace")
            self.screen.in_question = not answer.endswith("\n")
            match answer.strip().lower():
                case "y" | "yes":
                    return "allowed-once"
                case "n" | "no":
                    return "rejected"
                case "":
                    return "cancelled" if self.screen.in_question else "rejected"  # Ctrl-D ends no line, Enter does
                case _:
                    question = "    Please answer y or n: "


def _in_words(outcome: ApprovalOutcome) -> str:
    return {
        "allowed-once": "approved",
        "rejected": "refused",
        "cancelled": "left open",
        "unavailable": "nobody can be asked",
    }[outcome]
