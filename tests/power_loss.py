"""What is on a disk after a power cut: a program is run under ``strace``, and its disk made again for each moment.

Modelled, for the files of one directory:

* A write, or a change of length, is sure to be there once its file was synced (``fsync``, ``fdatasync``; what
  ``fdatasync`` may leave out, the times of a file, is no matter here). Before that each sector of 512 bytes has any of
  the contents that it had since, on its own, and so has the length.
* A name is sure to be there, or to be gone, once the directory was synced: syncing the file alone does not do that.
  Until then a new file may be missing, and a deleted one back. Each name has any of its states since, on its own, but
  for the two names of a renamed file: that has one of them, as journalling file systems have it.
* What a program does elsewhere has happened at the moment at which it began to write it: to the file of effects, what
  a body has done to the world; to the file of what was told, what somebody has relied on.

Not modelled: disks that lose what was synced, or write it elsewhere; sectors that are half written or cannot be read; a
sync that fails; modes, times and locks. ``-shm`` files are left out: SQLite makes them anew. Anything else that would
change a file, like a hard link or a shared mapping, is no part of the model either, and an error when it is met.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import attrs

__all__ = ["Disk", "Happened", "Image", "Step", "cuts", "traced", "why_not"]

Image = Mapping[str, bytes]
"""The files of a disk, by name."""

SECTOR = 512
_CALLS = (
    "openat,write,pwrite64,fsync,fdatasync,ftruncate,mmap,unlinkat,?rename,"  # understood below; the others are refused
    "writev,pwritev,pwritev2,fallocate,truncate,renameat,renameat2,linkat,symlinkat,copy_file_range,sendfile,"
    "?open,?creat,?unlink,?link,?symlink"
)
_HEX = r"(?:\\x[0-9a-f]{2})*"
_CALL = re.compile(rf"(?P<name>\w+)\((?P<words>.*)\)\s+= (?P<result>-?\d+)(?:<(?P<path>{_HEX})>)?")
_ON_FILE = re.compile(rf"\d+<(?P<path>{_HEX})>(?P<deleted>\(deleted\))?")
_TEXT = re.compile(rf'"({_HEX})"')


@attrs.frozen
class Step:
    """Something that a program did. ``number`` is an offset, or a length; ``data`` of a rename is the old name."""

    kind: Literal["create", "write", "truncate", "sync", "delete", "rename", "sync directory", "effect", "told"]
    name: str = ""
    number: int = 0
    data: bytes = b""


@attrs.frozen
class Happened:
    """What the world knows at one moment: lines that were written outside."""

    effects: tuple[str, ...] = ()
    told: tuple[str, ...] = ()

    def then(self, step: Step) -> Happened:
        match step.kind:
            case "effect":
                return attrs.evolve(self, effects=(*self.effects, *step.data.decode().splitlines()))
            case "told":
                return attrs.evolve(self, told=(*self.told, *step.data.decode().splitlines()))
            case _:
                return self


# ---- the trace -------------------------------------------------------------------------------------------------------


def why_not() -> str | None:
    """Why there can be no trace here."""
    try:
        tried = subprocess.run(["strace", "true"], capture_output=True, text=True, timeout=20, check=False)
    except OSError:
        return "there is no strace"
    return None if tried.returncode == 0 else f"strace cannot trace: {tried.stderr.strip()}"


def traced(command: Sequence[str], disk: Path, effects: Path, told: Path, **environment: str) -> list[Step]:
    """Run a command to its end, and tell what it and its children did to the three."""
    trace = disk.with_name(disk.name + ".trace")
    options = ["-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={_CALLS}", "-e", "signal=none", "-o", str(trace)]
    environment = {**os.environ, **environment}
    done = subprocess.run(
        ["strace", *options, *command], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(_Trace(disk, effects, told).steps(trace.read_text().splitlines()))


class _Trace:
    def __init__(self, disk: Path, effects: Path, told: Path) -> None:
        self._disk = str(disk)
        self._outside: dict[str, Literal["effect", "told"]] = {str(effects): "effect", str(told): "told"}
        self._unfinished: dict[str, str] = {}
        self._there: set[str] = set()

    def steps(self, lines: Sequence[str]) -> Iterator[Step]:
        for line in lines:
            process, text = line.split(maxsplit=1)
            if text.endswith(" <unfinished ...>"):
                begun = text.removesuffix(" <unfinished ...>")
                self._unfinished[process] = begun
                yield from self._elsewhere(begun)
                continue
            resumed = re.match(r"<\.\.\. \w+ resumed>", text)
            if resumed:  # what is on the disk changes at the end, and what was done elsewhere was told at the beginning
                text = self._unfinished.pop(process) + text[resumed.end() :]
            else:
                yield from self._elsewhere(text)
            called = _CALL.match(text)
            if called:
                yield from self._on_disk(called)

    def _elsewhere(self, text: str) -> Iterator[Step]:
        on_file = _ON_FILE.match(text.removeprefix("write("))
        if text.startswith("write(") and on_file:
            kind = self._outside.get(_path(on_file["path"]))
            if kind:
                yield Step(kind, data=_bytes(_TEXT.findall(text)[0]))

    def _on_disk(self, called: re.Match[str]) -> Iterator[Step]:
        call, words, result = called["name"], called["words"], int(called["result"])
        on_file = _ON_FILE.match(words)
        found = [called["path"] or "", *(each["path"] for each in _ON_FILE.finditer(words))]
        if call.startswith(("unlink", "rename", "link", "symlink", "truncate")):
            found += _TEXT.findall(words)
        ours = [path for path in map(_path, found) if path == self._disk or path.startswith(self._disk + "/")]
        if not ours or ours[0].endswith("-shm") or (result < 0 and "sync" not in call):
            return
        name = ours[0].removeprefix(self._disk).removeprefix("/")
        yield from self._understood(call, words, result, name, deleted=bool(on_file and on_file["deleted"]))

    def _understood(self, call: str, words: str, result: int, name: str, *, deleted: bool) -> Iterator[Step]:
        match call:
            case "openat" if "O_TRUNC" not in words:
                if "O_CREAT" in words and name not in self._there:
                    self._there.add(name)
                    yield Step("create", name)
            case "pwrite64" if not deleted:
                data = _bytes(_TEXT.findall(words)[0])
                yield Step("write", name, int(words.rpartition(", ")[2]), data[:result])
            case "ftruncate" if not deleted:
                yield Step("truncate", name, int(words.rpartition(", ")[2]))
            case "fsync" | "fdatasync" if result == 0 and not deleted:
                yield Step("sync", name) if name else Step("sync directory")
            case "unlink" | "unlinkat":
                self._there.discard(name)
                yield Step("delete", name)
            case "rename":
                old, new = (_path(found).rpartition("/")[2] for found in _TEXT.findall(words))
                self._there.discard(old)
                self._there.add(new)
                yield Step("rename", new, data=old.encode())
            case "mmap" if "MAP_SHARED" not in words or "PROT_WRITE" not in words:
                pass
            case _:
                raise NotImplementedError(f"{call}({words[:200]}) = {result} is not modelled")


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _path(text: str) -> str:
    return _bytes(text).decode()


# ---- the disk --------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class _File:
    """``sure`` are its bytes; ``since`` the steps that were not synced."""

    sure: bytes = b""
    since: list[Step] = attrs.field(factory=list[Step])

    def content(self, arrives: Callable[[], bool]) -> bytes:
        content, ended = bytearray(self.sure), set[int]()
        for step in self.since:
            if step.kind == "truncate":
                if _goes_on(-1, ended, arrives):
                    content = bytearray(content[: step.number].ljust(step.number, b"\0"))
                continue
            end = step.number + len(step.data)
            for sector in range(step.number // SECTOR, (end - 1) // SECTOR + 1):
                if _goes_on(sector, ended, arrives):
                    first, last = max(step.number, sector * SECTOR), min(end, (sector + 1) * SECTOR)
                    content.extend(bytes(max(0, last - len(content))))
                    content[first:last] = step.data[first - step.number : last - step.number]
        return bytes(content)


def _goes_on(what: int, ended: set[int], arrives: Callable[[], bool]) -> bool:
    """Whether the next change of it is on the disk too: if not, no later one is."""
    if what not in ended and not arrives():
        ended.add(what)
    return what not in ended


class Disk:
    """A directory, as it is and as it may be found."""

    def __init__(self) -> None:
        self._now: dict[str, _File] = {}
        self._sure: dict[str, _File] = {}
        self._since: list[dict[str, _File | None]] = []

    def apply(self, step: Step) -> None:
        match step.kind:
            case "create":
                self._now[step.name] = _File()
                self._since.append({step.name: self._now[step.name]})
            case "delete":
                del self._now[step.name]
                self._since.append({step.name: None})
            case "rename":
                old = step.data.decode()
                self._now[step.name] = file = self._now.pop(old)
                self._since.append({step.name: file, old: None})
            case "write" | "truncate":
                self._now[step.name].since.append(step)
            case "sync":
                file = self._now[step.name]
                file.sure, file.since = file.content(lambda: True), []
            case "sync directory":
                self._sure, self._since = dict(self._now), []
            case "effect" | "told":
                pass

    def images(self, chosen: random.Random, lots: int) -> Iterator[tuple[str, Image]]:
        """What is found after a power cut: nothing of what was not synced, all of it, and some of it by lot."""
        yield "nothing", self._image(lambda: False)
        yield "everything", self._image(lambda: True)
        for number in range(lots):
            likely = chosen.choice((0.3, 0.6, 0.9))
            yield f"by lot {number}", self._image(lambda likely=likely: chosen.random() < likely)

    def _image(self, arrives: Callable[[], bool]) -> Image:
        names: dict[str, _File | None] = dict(self._sure)
        held = set[str]()
        for change in self._since:
            if held.isdisjoint(change) and arrives():
                names.update(change)
            else:
                held.update(change)
        return {name: file.content(arrives) for name, file in sorted(names.items()) if file is not None}


def cuts(steps: Sequence[Step]) -> Iterator[tuple[int, Disk, Happened]]:
    """Each moment: how many steps were done by then, the disk (which goes on to change), what had happened."""
    disk, happened = Disk(), Happened()
    for number, step in enumerate(steps, 1):
        disk.apply(step)
        happened = happened.then(step)
        yield number, disk, happened
