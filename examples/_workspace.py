"""Tools that work on one directory: list, read, search, and run a command. What they give back is bounded.

The first three are plain functions: the library runs them in a worker thread, and waits for it. The fourth is the ready
shell tool, which never leaves a process behind, however it ends: done, timed out or cancelled.
"""

from __future__ import annotations

import codecs
import contextlib
import itertools
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import attrs
import trio

from trio_tools import ToolDefinition, ToolError, tool
from trio_tools.process import shell_tool

__all__ = ["Workspace"]

MOST_ENTRIES = 200  # of a directory that are listed
MOST_BYTES = 16_000  # of a file, or of what a command writes, that are shown
MOST_FILES = 2_000  # that one search looks into
MOST_MATCHES = 20
GRACE = 1.0  # seconds that a command has to tidy up after it was told to end


@attrs.frozen
class Listing:
    """The entries of a directory; the name of a directory ends with a slash."""

    entries: list[str]
    more: int  # that are not listed


@attrs.frozen
class Match:
    """A line in which a text was found."""

    file: str
    line: int
    text: str


@attrs.frozen
class Matches:
    """What a search has found."""

    matches: list[Match]
    files: int  # that were looked into
    complete: bool  # false: it stopped early, there may be more


@attrs.frozen
class Workspace:
    """The directory in which the tools work; they do not reach outside of it."""

    root: Path = attrs.field(converter=lambda path: Path(path).resolve())

    def tools(self, *, command_timeout: float) -> tuple[ToolDefinition, ...]:
        """The four tools, for a registry."""
        return (
            tool(self.list_files),
            tool(self.read_file),
            tool(self.search_text, timeout=10),
            shell_tool(name="run_command", cwd=self.root, max_output=MOST_BYTES, timeout=command_timeout, grace=GRACE),
        )

    def list_files(self, path: str = ".") -> Listing:
        """List a directory.

        Args:
            path: The directory, relative to the start directory.
        """
        with _told_plainly(path), os.scandir(self._inside(path)) as entries:
            names = sorted(_readable(one.name) + "/" * one.is_dir(follow_symlinks=False) for one in entries)
        return Listing(names[:MOST_ENTRIES], max(0, len(names) - MOST_ENTRIES))

    def read_file(self, path: str) -> str:
        """Read a text file.

        Args:
            path: The file, relative to the start directory.
        """
        with _told_plainly(path):
            data, size = _head(self._inside(path), MOST_BYTES)
        if b"\0" in data:
            raise ToolError(f"{path}: is not a text file", code="BINARY_FILE")
        if size <= len(data):
            return data.decode(errors="replace")
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data)  # leaves a character that was cut
        return f"{text}\n[cut: the first {len(data)} of {size} bytes]"

    def search_text(self, text: str, path: str = ".") -> Matches:
        """Search all text files for a text, line by line. Hidden files are left out.

        Args:
            text: What to look for, as it stands in the file.
            path: Where to begin, relative to the start directory.
        """
        with _told_plainly(path):
            start = self._inside(path)
            start.stat()  # there has to be something
        found: list[Match] = []
        looked_into = 0
        for file in self._files(start):
            trio.from_thread.check_cancelled()  # in a thread, this is how a cancellation arrives
            if looked_into == MOST_FILES or len(found) > MOST_MATCHES:
                return Matches(found[:MOST_MATCHES], looked_into, complete=False)
            looked_into += 1
            found += itertools.islice(self._matches(file, text), MOST_MATCHES + 1)
        return Matches(found[:MOST_MATCHES], looked_into, complete=len(found) <= MOST_MATCHES)

    # ---- paths -------------------------------------------------------------------------------------------------------

    def _inside(self, path: str) -> Path:
        """The path, if it does not lead out of the directory, through symbolic links either."""
        resolved = (self.root / path).resolve()
        if not resolved.is_relative_to(self.root):
            raise ToolError(f"{path}: is outside of the start directory", code="OUTSIDE")
        return resolved

    def _files(self, start: Path) -> Iterator[Path]:
        """The regular files at and below ``start``, in order, without hidden ones and links that lead outside."""
        if start.is_file():
            yield start
        for folder, folders, names in os.walk(start):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                file = Path(folder, name)
                if not name.startswith(".") and file.is_file() and not file.is_symlink():
                    yield file

    def _matches(self, file: Path, text: str) -> Iterator[Match]:
        try:
            data, _ = _head(file, 1_000_000)
        except OSError:
            return  # unreadable
        if b"\0" in data or text.encode() not in data:
            return
        name = _readable(str(file.relative_to(self.root)))
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            if text in line:
                yield Match(name, number, line.strip()[:200])


def _head(file: Path, limit: int) -> tuple[bytes, int]:
    """The first bytes of a regular file, and its size."""
    if file.exists() and not file.is_file():
        raise ToolError(f"{file.name}: is not a file", code="NOT_A_FILE")  # to open a pipe would wait for its writer
    with file.open("rb") as opened:
        return opened.read(limit), os.fstat(opened.fileno()).st_size


def _readable(name: str) -> str:
    """A file name as text; one that is not UTF-8 cannot be sent to a model as it is."""
    return os.fsencode(name).decode(errors="replace")


@contextlib.contextmanager
def _told_plainly(path: str) -> Generator[None]:
    """Have what is wrong with a path told in the words in which the model gave it."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle
        raise ToolError(f"{path}: {getattr(error, 'strerror', None) or error}", code="UNREADABLE") from error
