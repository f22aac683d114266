"""A program that is killed in the middle of a batch, and what the next one knows of each call.

    python examples/crash_and_resume.py [--journal crash.journal]

It starts itself once more, as the program that is to die: that one makes a batch of six calls, and is killed (SIGKILL)
while two of them are at work. Then this one opens the journal, shows what is known, and makes the same batch again.
The exit status is 0 only if no call that was done has been made again, and none that may have had effects either.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import trio
from rich.console import Console
from rich.table import Table

from trio_tools import (
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    ToolCall,
    ToolDefinition,
    ToolRegistry,
    ToolResult,
    ToolRun,
    run_batch,
    tool,
)
from trio_tools.journal import RecoveredCall, open_journal

CALLS = [
    ToolCall(id="call_1", name="send_invoice", arguments={"number": 17}),
    ToolCall(id="call_2", name="send_invoice", arguments={"number": 18}),
    ToolCall(id="call_3", name="charge_card", arguments={"euros": 240}),  # at work when the program is killed,
    ToolCall(id="call_4", name="put_on_shelf", arguments={"book": "Trio"}),  # and so is this one
    ToolCall(id="call_5", name="send_invoice", arguments={"number": 19}),
    ToolCall(id="call_6", name="send_invoice", arguments={"number": 20}),
]


def tools(ledger: Path, *, deadly: bool) -> list[ToolDefinition]:
    """What has effects: each writes a line to a ledger, which stands for the world.

    Args:
        ledger: Where.
        deadly: Whether the program is killed when two calls have had theirs, and before they can tell.
    """
    at_work = trio.Event()

    def happens(what: str) -> None:
        with ledger.open("a") as file:
            file.write(f"{what}\n")

    @tool
    async def send_invoice(number: int) -> str:
        """Send it by mail."""
        happens(f"invoice {number} sent")
        return f"invoice {number} is on its way"

    @tool(concurrency="parallel")
    async def charge_card(euros: int) -> str:
        """Charge the customer's card; nobody can be asked afterwards whether that was done."""
        happens(f"{euros} euros charged")
        at_work.set()
        if deadly:
            await trio.sleep_forever()
        return "charged"

    @tool(concurrency="parallel", effects="idempotent")
    async def put_on_shelf(book: str, run: ToolRun) -> str:
        """Tell a service that knows by the key what it has been told before."""
        if deadly:
            await at_work.wait()
        happens(f"{book} put on the shelf with the key {run.idempotency_key}")
        if deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return "it is there"

    return [send_invoice, charge_card, put_on_shelf]


async def make_batch(journal_path: Path, ledger: Path) -> None:
    """The program that dies."""
    async with open_journal(journal_path) as journal:
        registry = ToolRegistry(tools(ledger, deadly=True), journal=journal.conversation("order-17"))
        await run_batch(registry, CALLS, scope=trio.CancelScope())


async def resume(journal_path: Path, ledger: Path, console: Console) -> Sequence[ToolResult]:
    """The next program: it shows what was left, and asks for the same calls again."""
    async with open_journal(journal_path) as journal:
        left = Table(title="What the killed program has left without a result", expand=False)
        for heading in ("call", "tool", "what is known", "so it is"):
            left.add_column(heading)
        for call in journal.recovered:
            left.add_row(call.call_id, call.name, *advice(call))
        console.print(left)
        before = await trio.Path(ledger).read_text()
        registry = ToolRegistry(tools(ledger, deadly=False), journal=journal.conversation("order-17"))
        outcome = await run_batch(registry, CALLS, scope=trio.CancelScope())
        made = (await trio.Path(ledger).read_text()).removeprefix(before).splitlines()
        then = Table(title="The same batch, asked for again", expand=False)
        for heading in ("call", "result", "how"):
            then.add_column(heading)
        recovered = {call.call_id: call.result for call in journal.recovered}
        for call, result in zip(CALLS, outcome.results, strict=True):
            then.add_row(call.id, *verdict(result, was_left=call.id in recovered))
        console.print(then)
        console.print("Done by this program:", *(f"  {line}" for line in made), sep="\n")
        return outcome.results


def advice(call: RecoveredCall) -> tuple[str, str]:
    if call.result.is_error is not True:
        return "success", "[green]done"
    code = str(call.result.error.code)
    if code == TOOL_ABORTED_BEFORE_DISPATCH:
        return code, "[cyan]safe to repeat: never entered"
    if call.name == "put_on_shelf":
        return code, "[cyan]safe to repeat: idempotent"
    return code, "[bold red]LOOK AT IT: it may have had effects"


def verdict(result: ToolResult, *, was_left: bool) -> tuple[str, str]:
    if result.is_error is True:
        return str(result.error.code), "[bold red]not made again: look whether it has happened"
    return str(result.value), "[cyan]made again" if was_left else "[green]replayed: the result of then"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--journal", type=Path, help="a file that does not exist yet (default: a temporary one)")
    parser.add_argument("--die", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.journal is None:
        with tempfile.TemporaryDirectory() as directory:
            return run(Path(directory) / "crash.journal")
    if options.die:
        trio.run(make_batch, options.journal, ledger_of(options.journal))
        return 1  # it should be dead
    if options.journal.exists():
        parser.error(f"{options.journal} exists: name a new file")
    return run(options.journal)


def ledger_of(journal: Path) -> Path:
    return journal.with_name(journal.name + ".ledger")


def run(journal: Path) -> int:
    console, ledger = Console(), ledger_of(journal)
    died = subprocess.run([sys.executable, __file__, "--journal", str(journal), "--die"], check=False)
    console.print(f"The first program has ended by signal {-died.returncode}. What it had done in the world:")
    console.print(*(f"  {line}" for line in ledger.read_text().splitlines()), sep="\n")
    results = trio.run(resume, journal, ledger, console)
    told = Counter(result.error.code if result.is_error is True else "success" for result in results)
    done = Counter(line.partition(" with the key")[0] for line in ledger.read_text().splitlines())
    twice = [what for what, times in done.items() if times > 1]
    console.print(
        f"Twice: {', '.join(twice) or 'nothing'}; the service knows the key, and does nothing the second time."
    )
    sound = twice == ["Trio put on the shelf"] and told == {"success": len(CALLS) - 1, TOOL_ABORTED: 1}
    return 0 if sound and died.returncode == -signal.SIGKILL else 1


if __name__ == "__main__":
    sys.exit(main())
