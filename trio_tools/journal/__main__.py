"""``python -m trio_tools.journal``: looking at a journal."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import trio

from trio_tools.journal._database import must_be_there, real
from trio_tools.journal._export import export
from trio_tools.journal._failures import JournalError
from trio_tools.journal._journal import open_journal
from trio_tools.journal._listing import events_of, list_conversations, listing, recovered_lines, showing
from trio_tools.journal._timeline import trace_events
from trio_tools.journal._timeline_page import page

__all__ = ["main"]


def main(words: list[str] | None = None) -> int:
    """The command; its exit status is 1 if the journal cannot be read, and 2 if the words are wrong."""
    options = _parser().parse_args(words)
    act: Callable[[argparse.Namespace], Iterable[str]] = options.act
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # whatever a terminal can show
    try:
        for line in act(options):
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed in the end
        return 1
    except (JournalError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trio_tools.journal", description="Look at a journal.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, act: Callable[[argparse.Namespace], Iterable[str]], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        made.set_defaults(act=act)
        made.add_argument("file", metavar="FILE", help="the journal")
        return made

    command("list", _list, "list its conversations")
    command("show", _show, "show the calls of a conversation").add_argument("conversation", metavar="CONVERSATION")
    timeline = command("timeline", _timeline, "draw a conversation: a page, or events for Perfetto")
    timeline.add_argument("conversation", metavar="CONVERSATION")
    timeline.add_argument("--out", required=True, metavar="PAGE", help="a file; a trace if it ends in .json")
    command("recover", _recover, "close what a crash has left open, and say what it was")
    exporting = command("export", _export, "write its records as JSON lines")
    exporting.add_argument("--conversation", help="only this one")
    exporting.add_argument("--salvage", action="store_true", help="what is sound of a damaged file")
    return parser


def _list(options: argparse.Namespace) -> Iterable[str]:
    return listing(list_conversations(options.file))


def _show(options: argparse.Namespace) -> Iterable[str]:
    return showing(events_of(options.file, options.conversation))


def _timeline(options: argparse.Namespace) -> Iterable[str]:
    if real(options.out) in {real(f"{options.file}{end}") for end in ("", "-wal", "-shm", ".lock")}:
        raise JournalError(f"{options.out} belongs to the journal: name another file")
    draw = trace_events if options.out.endswith(".json") else page
    Path(options.out).write_text(draw(options.conversation, events_of(options.file, options.conversation)), "utf-8")
    return [options.out]


def _recover(options: argparse.Namespace) -> Iterable[str]:
    must_be_there(Path(options.file))

    async def recover() -> list[str]:
        async with open_journal(options.file) as journal:
            return recovered_lines(journal.recovered) if journal.recovered else ["no call was left without a result"]

    return trio.run(recover)


def _export(options: argparse.Namespace) -> Iterable[str]:
    return export(options.file, options.conversation, salvage=options.salvage)


if __name__ == "__main__":  # pragma: no cover - tests call main
    sys.exit(main())
