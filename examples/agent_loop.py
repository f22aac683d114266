"""A complete small agent: a model asks for tools that work on the directory in which it is started.

Run it anywhere, it changes nothing (``pip install "trio-tools[examples]"``)::

    python agent_loop.py
    python agent_loop.py --timeout 60 --command "make test"    # a command of yours; press Ctrl-C while it runs
    python agent_loop.py --approve no

The model is a scripted one, so there is no key and no network. What to look for, on the screen and in the code:

* Of the four calls in the message of turn 2 one times out, one is denied by a policy, one needs a person to approve it,
  one fails. Each has a result that says so, and how far its body was. (:meth:`Agent.answer`, ``_permissions.py``)
* The result of the command that timed out has what it wrote until then; no process of it is left. (``_workspace.py``)
* Ctrl-C cancels the turn and not the program: all of its calls still get their results, ``ABORTED`` if they had begun
  and ``ABORTED_BEFORE_DISPATCH`` if not, and the next turn goes on. Pressed again, it ends the program. (:class:`Stop`)
* The exit status is 0 only if every call has exactly one result: counted, not believed. (:meth:`Agent.faults`)
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import attrs
import trio
from _history import Answer, Assistant, Message, Model, User, unpaired
from _permissions import Always, AtTerminal, command_policy
from _screen import Screen
from _scripted_model import PROMPTS, ScriptedModel
from _workspace import Workspace

from trio_tools import (
    ApprovalOutcome,
    BatchOutcome,
    Context,
    ToolCall,
    ToolExecution,
    ToolRegistry,
    ToolResult,
    run_batch,
)

SLOW_COMMAND = "for n in 1 2 3 4 5 6 7 8 9; do echo step $n; sleep 0.4; done"
PAUSE = 1.0  # seconds after a turn that Ctrl-C cancelled, in which no turn is running


# ---- the loop --------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Agent:
    """One conversation: what was said, and who goes on with it."""

    model: Model
    registry: ToolRegistry
    screen: Screen
    history: list[Message] = attrs.field(factory=list[Message])
    started: Counter[str] = attrs.field(factory=Counter[str])  # how often each call was started,
    published: Counter[str] = attrs.field(factory=Counter[str])  # and its result was told to the observers

    async def turn(self, prompt: str, scope: trio.CancelScope) -> None:
        """Answer the person: ask the model and do what it asks for, until it asks for nothing more.

        Cancelled at any point, it leaves a history in which each call has its result.
        """
        self.history.append(User(prompt))
        while True:
            message = await self.model.reply(self.history, self.registry.tools())
            self.history.append(message)
            self.screen.model(message)
            if not message.calls:
                return
            outcome = await self.answer(message, scope)
            self.history.extend(outcome.contexts)
            if outcome.concludes_turn:
                return

    async def answer(self, message: Assistant, scope: trio.CancelScope) -> BatchOutcome:
        """Make the calls of one message. Their results are in the history when this returns, or raises.

        A cancellation is no exception here: the calls that it hits have results that say so. It arrives at the next
        checkpoint.
        """

        def on_start(index: int, call: ToolCall) -> None:
            self.started[call.id] += 1
            self.screen.started(message.calls[index])

        def on_commit(index: int, call: ToolCall, result: ToolResult) -> None:
            self.history.append(Answer(call.id, result))
            self.screen.result(message.calls[index], result)

        calls = [ToolCall.from_json(id=one.id, name=one.name, arguments=one.arguments) for one in message.calls]
        return await run_batch(self.registry, calls, scope=scope, on_start=on_start, on_commit=on_commit)

    def observe(self, execution: ToolExecution, result: ToolResult) -> None:
        """Count the results that are published; those of calls that tools make are not the model's."""
        if execution.parent is None:
            self.published[execution.call_id] += 1

    def faults(self) -> list[str]:
        """Where a call does not have exactly one result, in words."""
        counted = self.started | self.published
        unlike = [call_id for call_id in counted if not self.started[call_id] == self.published[call_id] == 1]
        told = [f"{one} was started {self.started[one]} times, published {self.published[one]} times" for one in unlike]
        return unpaired(self.history) + told


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Stop:
    """Signals: the first Ctrl-C of a turn cancels the turn; a further one, or one between turns, the program.

    While :func:`trio.open_signal_receiver` is open, Ctrl-C raises no ``KeyboardInterrupt``. A closed terminal and a
    ``kill`` end the program too: commands run in sessions of their own, so nobody else would end them.
    """

    screen: Screen
    program: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    number: int = 0  # of the signal that ended the program
    pressed: bool = False  # Ctrl-C, in this turn
    turn: trio.CancelScope | None = None  # while one is running

    def turn_begins(self, deadline: float) -> trio.CancelScope:
        """The scope of a new turn, which has so many seconds."""
        self.pressed, self.turn = False, trio.move_on_after(deadline)
        return self.turn

    async def listen(self, signals: AsyncIterator[int]) -> None:
        """Wait for signals until cancelled."""
        async for number in signals:
            if number == signal.SIGINT and self.turn is not None and not self.pressed:
                self.pressed = True
                self.turn.cancel("Ctrl-C")
                self.screen.notice("Ctrl-C: the turn is cancelled")
            else:
                self.number = number
                self.program.cancel(signal.Signals(number).name)
                self.screen.notice(f"{signal.Signals(number).name}: the program ends")


async def converse(agent: Agent, stop: Stop, deadline: float) -> None:
    """Have all turns, one after the other, each with its deadline."""
    for number, prompt in enumerate(PROMPTS, 1):
        agent.screen.turn(number, prompt)
        with stop.turn_begins(deadline) as turn:
            await agent.turn(prompt, turn)
        stop.turn = None
        if not turn.cancelled_caught:
            continue
        why = "by the user" if stop.pressed else "by its deadline"
        agent.history.append(Context(f"The turn was cancelled {why}.", source="agent_loop"))
        agent.screen.notice(f"The turn was cancelled {why}; the program goes on.")
        if stop.pressed:
            await trio.sleep(PAUSE)  # for those who press twice: no turn is running now


async def run(agent: Agent, deadline: float) -> int:
    """The whole program: its exit status."""
    stop = Stop(agent.screen)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop.listen, signals)
            with stop.program:
                await converse(agent, stop, deadline)
            nursery.cancel_scope.cancel()
        faults = agent.faults()
        answered = sum(isinstance(message, Answer) for message in agent.history)
        agent.screen.report(agent.started.total(), agent.published.total(), answered, faults)
    return 1 if faults else 128 + stop.number if stop.number else 0


# ---- the command line ------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description="An agent loop with a scripted model and real tools, in the current directory.",
        epilog="Exit status: 0 if every call has exactly one result, 1 if not, 128 + signal if one ended the program.",
    )
    parser.add_argument(
        "--approve",
        choices=("yes", "no", "ask"),
        help="what to answer when a call needs an approval; default: ask at a terminal, else yes",
    )
    parser.add_argument("--command", default=SLOW_COMMAND, help="what the model runs in turn 2; default: %(default)s")
    parser.add_argument("--timeout", type=_seconds, default=1.5, metavar="S", help="of commands; default: %(default)g")
    parser.add_argument("--deadline", type=_seconds, default=120, metavar="S", help="of turns; default: %(default)g")
    return parser.parse_args(arguments)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds greater than 0")
    return seconds


def build(options: argparse.Namespace) -> Agent:
    """The agent that the options describe."""
    screen = Screen()
    workspace = Workspace(Path.cwd())
    choice: str = options.approve or ("ask" if os.isatty(0) else "yes")
    why = "by --approve" if options.approve else "by default, no terminal to ask at"
    outcome: ApprovalOutcome = "allowed-once" if choice == "yes" else "rejected"
    approver = AtTerminal(screen) if choice == "ask" else Always(outcome, why, screen)
    registry = ToolRegistry(workspace.tools(command_timeout=options.timeout), approver=approver)
    registry.before(command_policy(known=options.command))
    registry.observe_progress(screen.wrote)
    agent = Agent(ScriptedModel(options.command), registry, screen)
    registry.observe(agent.observe)
    screen.opening(str(workspace.root), choice if choice == "ask" else f"{choice}, {why}")
    return agent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program: its exit status."""
    options = parse(arguments)
    try:
        return trio.run(run, build(options), options.deadline)
    except KeyboardInterrupt:  # before Trio listened for it, or after: no call was running
        return 130


if __name__ == "__main__":
    sys.exit(main())
