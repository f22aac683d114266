"""A power cut at each moment of a program that makes calls: what its journal says afterwards is true.

``kill -9`` cannot see a sync that is missing, because the system has what was written. So the program below runs under
``strace``, and the disk is made again for each moment, see :mod:`power_loss`: with nothing of what was not synced, with
all of it, and with some of it, by lot. Each of these is opened as the next owner would, and has its calls made again.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from acting import Act, call_of, registry, text_of
from power_loss import Happened, Image, Step, cuts, traced, why_not

from trio_tools import (
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    ToolRegistry,
    run_batch,
)
from trio_tools.journal import JournalError, _database, _in_use, _lock, open_journal

pytestmark = pytest.mark.skipif((reason := why_not() or "") != "", reason=reason)

NAMES = ("a1", "a2", "a3", "b1", "b2", "c1", "c2", "c3", "d1", "d2", "d3")  # the letter is the conversation
SEED = 17
LOTS = 2  # disks by lot for each moment


# ---- the program -----------------------------------------------------------------------------------------------------


def program(disk: str, effects: str, told: str, mutant: str) -> None:
    """Three owners, one after the other: the second ends like a crash, in the body of ``d2``."""
    outside = [os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in (effects, told)]
    change(mutant)

    def act(name: str) -> None:
        os.write(outside[0], f"{name}\n".encode())
        if name == "d2":
            os._exit(0)

    def tell(text: str) -> None:
        os.write(outside[1], f"{text}\n".encode())

    for owner in (first_owner, second_owner, third_owner):
        child = os.fork()
        if child == 0:
            trio.run(owner, Path(disk) / "j.db", act, tell)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


async def first_owner(path: Path, act: Act, tell: Callable[[str], None]) -> None:
    async def make(made: ToolRegistry, name: str) -> None:
        tell(f"{name} {text_of(await made.execute(call_of(name), scope=trio.CancelScope()))}")

    async with open_journal(path) as journal:
        tell("opened")
        async with trio.open_nursery() as nursery:
            for name in NAMES[:3]:
                nursery.start_soon(make, registry(journal, "a", act), name)
        for name in NAMES[3:5]:
            await make(registry(journal, "b", act), name)


async def second_owner(path: Path, act: Act, tell: Callable[[str], None]) -> None:
    async with open_journal(path) as journal:
        for letter in "cd":
            calls = [call_of(name) for name in NAMES if name.startswith(letter)]
            batch = await run_batch(registry(journal, letter, act), calls, scope=trio.CancelScope(), max_parallel=2)
            for call, result in zip(calls, batch.results, strict=True):
                tell(f"{call.id} {text_of(result)}")


async def third_owner(path: Path, act: Act, tell: Callable[[str], None]) -> None:
    async with open_journal(path) as journal:
        for call in journal.recovered:
            if text_of(call.result) != TOOL_ABORTED_BEFORE_DISPATCH:  # that one is made when it is asked for again
                tell(f"{call.call_id} {text_of(call.result)}")
        result = await registry(journal, "d", act).execute(call_of("d3"), scope=trio.CancelScope())
        tell(f"d3 {text_of(result)}")


def change(mutant: str) -> None:
    """Have the write-ahead log written back often, so that this is among the moments; and make a mistake, if named."""
    configure = _database._configure  # pyright: ignore[reportPrivateUsage]

    def configured(connection: sqlite3.Connection, path: Path) -> None:
        configure(connection, path)
        connection.execute("PRAGMA wal_autocheckpoint = 20")
        if mutant.startswith("synchronous"):
            connection.execute(f"PRAGMA {mutant}")

    setattr(_database, "_configure", configured)  # noqa: B010 - this process ends with it
    if mutant == "note before commit":
        setattr(_in_use, "_Connection", NotesFirst)  # noqa: B010 - likewise


class NotesFirst(_in_use._Connection):  # pyright: ignore[reportPrivateUsage] - to come in between
    """Says that records are on the disk, and only then has them written there."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            for last in super().execute("SELECT max(seq) FROM event WHERE seq > 0"):
                for lock in list(_lock._held):  # pyright: ignore[reportPrivateUsage]
                    lock.note(last[0] or 0)
        return super().execute(sql, *parameters)


# ---- the judge -------------------------------------------------------------------------------------------------------


@attrs.frozen
class Found:
    """What the next owner finds: the error, or what it is told of each call, and which bodies it had entered anew."""

    error: JournalError | None = None
    recovered: Sequence[tuple[str, str]] = ()
    results: Mapping[str, str] = {}
    entered: Sequence[str] = ()
    left: int = 0

    def wrong(self, happened: Happened) -> Iterator[str]:
        """What cannot be true of it, with what had happened by then."""
        if self.error is not None:
            yield f"does not open: {self.error}"
            return
        told = dict(line.split(maxsplit=1) for line in happened.told if line != "opened")
        recovered = dict(self.recovered)
        if len(recovered) < len(self.recovered) or self.left:
            yield "a call is recovered twice"
        for name in happened.effects:
            if recovered.get(name) == TOOL_ABORTED_BEFORE_DISPATCH:
                yield f"{name} was entered, and counts as never entered"
            if name in self.entered:
                yield f"{name} was entered, and is again"
        for name, text in told.items():
            if self.results[name] != text:
                yield f"{name} was answered with {text!r}, and is with {self.results[name]!r}"
            if name in recovered and recovered[name] != text:
                yield f"{name} was answered with {text!r}, and is recovered as {recovered[name]!r}"
        for name, text in self.results.items():
            if text not in (TOOL_ABORTED, f"did {name}"):
                yield f"{name} is answered with {text!r}"
            elif text == f"did {name}" and name not in (*happened.effects, *self.entered):
                yield f"{name} is said to be done, and is not"


def found_on(image: Image, room: Path) -> Found:
    """Open it, and make all calls again."""
    room.mkdir()
    for name, content in image.items():
        (room / name).write_bytes(content)
    try:
        return trio.run(_found, room / "j.db")
    finally:
        shutil.rmtree(room)


async def _found(path: Path) -> Found:
    entered, results = list[str](), dict[str, str]()
    try:
        async with open_journal(path) as journal:
            recovered = [(call.call_id, text_of(call.result)) for call in journal.recovered]
            registries = {letter: registry(journal, letter, entered.append) for letter in "abcd"}
            for name in NAMES:
                result = await registries[name[0]].execute(call_of(name), scope=trio.CancelScope())
                results[name] = text_of(result)
        async with open_journal(path) as journal:
            left = len(journal.recovered)
    except JournalError as error:
        return Found(error)
    return Found(None, recovered, results, entered, left)


@attrs.define
class Judged:
    """Over all moments: how many disks there were, how many different ones, and what was wrong with which."""

    disks: int = 0
    different: int = 0
    making: list[str] = attrs.field(factory=list[str])  # before the file was made
    wrong: list[str] = attrs.field(factory=list[str])


def judged(steps: Sequence[Step], room: Path, kinds: Collection[str] = (), lots: int = LOTS) -> Judged:
    """Cut the power after each step, or after those of these kinds only."""
    chosen, known, answer = random.Random(SEED), dict[tuple[tuple[str, bytes], ...], Found](), Judged()
    for number, disk, happened in cuts(steps):
        if kinds and steps[number - 1].kind not in kinds:
            continue
        for way, image in disk.images(chosen, lots):
            key = tuple(image.items())
            if key not in known:
                known[key] = found_on(image, room / str(len(known)))
            wrong = answer.wrong if "opened" in happened.told else answer.making
            wrong += [f"step {number}, {way}: {each}" for each in known[key].wrong(happened)]
            answer.disks += 1
    answer.different = len(known)
    return answer


# ---- the tests -------------------------------------------------------------------------------------------------------


def run_program(home: Path, mutant: str = "none") -> list[Step]:
    (home / "disk").mkdir(parents=True)
    (home / "room").mkdir()
    command = "import sys, test_journal_power_loss as test; test.program(*sys.argv[1:])"
    places = [home / "disk", home / "effects", home / "told"]
    words = [sys.executable, "-c", command, *map(str, places), mutant]
    return traced(words, *places, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))


@pytest.fixture(scope="module")
def home() -> Generator[Path]:
    """In memory, if there is such a place: what is on that disk for certain is not what this is about."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def sound(home: Path) -> tuple[list[Step], Judged]:
    steps = run_program(home / "sound")
    return steps, judged(steps, home / "sound" / "room")


def test_a_power_cut_at_each_moment(sound: tuple[list[Step], Judged]) -> None:
    steps, answer = sound
    assert answer.wrong == []
    kinds = [step.kind for step in steps]
    assert kinds.count("effect") == 11
    assert kinds.count("told") == 11
    assert kinds.count("sync") > 40
    assert answer.different > 300, "those were too few disks"


def test_the_trace_has_all_that_was_written(sound: tuple[list[Step], Judged], home: Path) -> None:
    """What the model has on its disk in the end is what is there."""
    steps, _ = sound
    (*_, (_, disk, _)) = cuts(steps)
    (_, (_, everything)) = disk.images(random.Random(SEED), lots=0)
    assert everything == {file.name: file.read_bytes() for file in (home / "sound" / "disk").iterdir()}


def test_a_power_cut_while_the_file_is_made(sound: tuple[list[Step], Judged]) -> None:
    _, answer = sound
    assert answer.making == []


@pytest.mark.parametrize(
    ("mutant", "kinds", "words"),
    [
        ("synchronous = NORMAL", ("effect", "told"), "counts as never entered"),
        ("synchronous = OFF", ("effect", "told"), "does not open"),
        ("note before commit", ("write",), "are lost"),
    ],
)
def test_a_program_that_does_not_wait_for_the_disk_is_found_out(
    mutant: str, kinds: Sequence[str], words: str, home: Path
) -> None:
    steps = run_program(home / mutant, mutant)
    wrong = judged(steps, home / mutant / "room", kinds, lots=kinds.count("effect")).wrong
    assert any(words in each for each in wrong)


@pytest.mark.parametrize("name", ["j.db", "j.db-wal", "the directory"])
def test_each_kind_of_sync_is_needed(name: str, sound: tuple[list[Step], Judged], home: Path) -> None:
    """The same trace, as if the syncs of one file had not been asked for."""
    steps, _ = sound
    kind = "sync directory" if name == "the directory" else "sync"
    left = [step for step in steps if step.kind != kind or (kind == "sync" and step.name != name)]
    assert len(left) < len(steps)
    room = home / f"without syncs of {name}"
    room.mkdir()
    assert judged(left, room, ("effect", "told"), lots=0).wrong
