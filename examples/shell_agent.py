"""An agent with a shell: a long build is cancelled half-way, and nothing of it is left; the process tree shows it.

Run it anywhere, it works in a directory of its own (``pip install "trio-tools[examples]"``, Linux)::

    python shell_agent.py

The model is a scripted one. It starts a build that behaves as badly as builds do: compilers as grandchildren that
ignore SIGTERM, and a cache server that has left the process group. Half-way the person presses stop: the turn is
cancelled, the call has its one result, with what the build wrote until then, and the conversation goes on. The exit
status is 0 only if every call has exactly one result, and no process is left.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio
from rich.console import Console
from rich.tree import Tree

from trio_tools import Progress, ToolCall, ToolExecution, ToolRegistry, ToolResult, run_batch
from trio_tools.process import shell_tool

BUILD = """
(setsid sh -c 'while :; do sleep 1000; done' >/dev/null 2>&1 &)  # a cache server, which is to outlive the build
for part in parser scheduler runtime; do
  sh -c "trap '' TERM; sleep 1000 & wait" &                      # a compiler that does not listen
  echo "compiling $part"
  sleep 0.3
done
wait
"""
STOP_AT = "compiling scheduler"
MODEL = (  # what the scripted model asks for, turn by turn
    [("build-1", "sh build.sh")],
    [("look-1", "ls"), ("look-2", "echo the build was stopped >> NOTES; cat NOTES")],
)

console = Console()


@attrs.define(eq=False)
class Agent:
    """One conversation with a shell in it."""

    directory: Path
    registry: ToolRegistry
    history: list[tuple[ToolCall, ToolResult]] = attrs.field(factory=list[tuple[ToolCall, ToolResult]])

    async def turn(self, requests: Sequence[tuple[str, str]]) -> None:
        """Make the calls of one message, unless the person presses stop; each has its result when this returns."""
        calls = [ToolCall(id=one, name="shell", arguments={"command": command}) for one, command in requests]
        with trio.CancelScope() as scope:
            for _, command in requests:
                console.print(f"[bold]model[/]  $ {command}")

            def on_progress(execution: ToolExecution, progress: Progress) -> None:
                console.print(f"       {progress.message.rstrip()}", style="dim")
                if STOP_AT in progress.message:
                    self.show_processes("while it runs")
                    console.print("[bold]person[/] stop!")
                    scope.cancel("the person pressed stop")

            def on_commit(index: int, call: ToolCall, result: ToolResult) -> None:
                self.history.append((call, result))
                self.show_result(call, result)

            with self.registry.observe_progress(on_progress):
                await run_batch(self.registry, calls, scope=scope, on_commit=on_commit)

    def show_result(self, call: ToolCall, result: ToolResult) -> None:
        """What the model is told."""
        outcome = result.error.code if result.is_error is True else "success"
        console.print(f"[bold]told[/]   {call.id}: {outcome}, body {result.body}")
        for block in result.content:
            for line in getattr(block, "text", "").splitlines():
                console.print(f"       {line}", markup=False)

    def show_processes(self, when: str) -> None:
        """The processes that run in the directory, as a tree."""
        tree = Tree(f"processes in the directory, {when}:")
        nodes = {0: tree}
        for pid, parent, words in processes_in(self.directory):
            nodes[pid] = nodes.get(parent, tree).add(f"{pid} {words}")
        console.print(tree if len(nodes) > 1 else f"{tree.label} none")


def processes_in(directory: Path) -> list[tuple[int, int, str]]:
    """Process, parent and command line of whatever runs in a directory, parents first; read from ``/proc``."""
    found: list[tuple[int, int, str]] = []
    for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            state, parent, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
            if state != "Z" and (entry / "cwd").resolve() == directory:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                found.append((int(entry.name), int(parent), " ".join(words.split())[:60]))
        except OSError:
            continue  # it has ended meanwhile, or is not ours
    return found


async def converse(directory: Path) -> int:
    """Have the conversation in a directory; the exit status."""
    agent = Agent(directory, ToolRegistry([shell_tool(cwd=directory, grace=0.5)]))
    for requests in MODEL:
        await agent.turn(requests)
        agent.show_processes("behind the turn")
    left = processes_in(directory)
    asked = [one for requests in MODEL for one, _ in requests]
    answered = [call.id for call, _ in agent.history]
    console.print(f"{len(answered)} results for {len(asked)} calls, {len(left)} processes left")
    return 0 if answered == asked and not left else 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        home = Path(name).resolve()
        (home / "build.sh").write_text(BUILD)
        sys.exit(trio.run(converse, home))
