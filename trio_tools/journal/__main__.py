"""``python -m trio_tools.journal export FILE``: looking at a journal."""

from __future__ import annotations

import argparse
import sys

from trio_tools.journal._export import export
from trio_tools.journal._failures import JournalError

__all__ = ["main"]


def main(words: list[str] | None = None) -> int:
    """The command; its exit status is 1 if the journal cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m trio_tools.journal", description="Look at a journal.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("export", help="write its records as JSON lines")
    command.add_argument("file")
    command.add_argument("--conversation", help="only this one")
    command.add_argument("--salvage", action="store_true", help="what is sound of a damaged file")
    options = parser.parse_args(words)
    try:
        for line in export(options.file, options.conversation, salvage=options.salvage):
            sys.stdout.write(line + "\n")
    except JournalError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":  # pragma: no cover - tests call main
    sys.exit(main())
