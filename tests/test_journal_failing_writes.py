"""A disk that fails at the n-th write, for every n: each call has one result, and no journal says what is not true.

A shared object is put before the C library, so that SQLite and Python meet it alike, and counts the writes, syncs and
changes of length of the files of one directory (but ``-shm``, which is memory). The n-th fails: with ``EIO``, with
``ENOSPC``, or half written and then with ``EIO``. After it all fail, or all works again, which is the harder case: what
failed may not be on disk, though a later sync says that all is well. A process is forked for each n, makes calls, and
writes down what it was told; another one, without faults, opens what is left.

Not modelled: reads, names and directories that fail, and what a failed sync has dropped of earlier writes.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import attrs
import pytest
import trio
from acting import call_of, registry, text_of

from trio_tools import (
    JOURNAL_FAILED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    run_batch,
)
from trio_tools.journal import JournalError, SqliteJournal, open_journal

pytestmark = pytest.mark.skipif(not shutil.which("gcc") or sys.platform != "linux", reason="it needs gcc, and Linux")

FAULTS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "torn": 0}
AFTER = ("once", "lasting")
NAMES = ("a1", "a2", "b1", "c1", "c2")  # the letter is the conversation
Places = dict[tuple[str, str], list[Path]]
LIMIT = 20  # seconds of a program: longer, and it hangs
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static char place[4096];
static int fatal, fault, lasting, passed, failed;  /* fault: an errno, or 0 for half a write */

void arm(const char *directory, int number, int kind, int stays) {
    strncpy(place, directory, sizeof place - 1);
    fatal = number; fault = kind; lasting = stays; passed = failed = 0;
}

int hit(void) { return failed; }

static int fails(int file) {
    char link[64], path[4096];
    ssize_t length;
    if (!place[0]) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (strncmp(path, place, strlen(place)) || strstr(path, "-shm")) return 0;
    passed++;
    if (passed != fatal && !(lasting && passed > fatal)) return 0;
    failed++;
    return 1;
}

#define REAL(name, type) ((type)dlsym(RTLD_NEXT, #name))
#define WRITES(name, offset) \
    ssize_t name(int file, const void *data, size_t size, offset at) { \
        typedef ssize_t (*Write)(int, const void *, size_t, offset); \
        if (!fails(file)) return REAL(name, Write)(file, data, size, at); \
        if (!fault && size > 1) REAL(name, Write)(file, data, size / 2, at); \
        errno = fault ? fault : EIO; \
        return -1; \
    }
#define SYNCS(name) \
    int name(int file) { \
        if (!fails(file)) return REAL(name, int (*)(int))(file); \
        errno = fault ? fault : EIO; \
        return -1; \
    }
#define TRUNCATES(name, offset) \
    int name(int file, offset length) { \
        if (!fails(file)) return REAL(name, int (*)(int, offset))(file, length); \
        errno = fault ? fault : EIO; \
        return -1; \
    }
WRITES(pwrite, off_t)
WRITES(pwrite64, off64_t)
SYNCS(fsync)
SYNCS(fdatasync)
TRUNCATES(ftruncate, off_t)
TRUNCATES(ftruncate64, off64_t)
"""


# ---- the program -----------------------------------------------------------------------------------------------------


async def make_all(journal: SqliteJournal, act: Callable[[str], None], told: dict[str, list[str]]) -> None:
    for letter in "abc":
        made = registry(journal, letter, act)
        calls = [call_of(name) for name in NAMES if name.startswith(letter)]
        if letter == "c":
            results = list((await run_batch(made, calls, scope=trio.CancelScope())).results)
        else:
            results = [await made.execute(call, scope=trio.CancelScope()) for call in calls]
        for call, result in zip(calls, results, strict=True):
            told.setdefault(call.id, []).append(text_of(result))


@attrs.define
class Report:
    """What a program was told while the disk failed. ``error``: that of opening or of closing the journal."""

    told: dict[str, list[str]] = attrs.field(factory=dict[str, list[str]])
    entered: list[str] = attrs.field(factory=list[str])
    logged: list[str] = attrs.field(factory=list[str])
    error: str = ""
    expected: bool = True
    failure: str = ""
    hit: int = 0


def program(home: str, fault: str, lasting: str) -> None:
    """For each number fork a process, until one meets no fault any more, or hangs, or dies."""
    shim = ctypes.CDLL(None)
    number, hit = 0, True
    while hit:
        number += 1
        place = Path(home) / str(number)
        place.mkdir()
        child = os.fork()
        if child == 0:
            signal.alarm(LIMIT)
            shim.arm(str(place / "disk").encode(), number, FAULTS[fault], lasting == "lasting")
            report = faulty(place)
            report.hit = shim.hit()
            (place / "report").write_text(json.dumps(attrs.asdict(report)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        hit = status == 0 and json.loads((place / "report").read_text())["hit"] > 0


def faulty(place: Path) -> Report:
    report = Report()

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            report.logged.append(record.getMessage())

    logging.getLogger("trio_tools").addHandler(Kept())
    logging.getLogger("trio_tools").propagate = False

    async def run() -> None:
        async with open_journal(place / "disk" / "j.db") as journal:
            try:
                await make_all(journal, report.entered.append, report.told)
            finally:
                report.failure = str(journal.failure or "")

    (place / "disk").mkdir()
    try:
        trio.run(run)
    except Exception as error:
        report.error, report.expected = repr(error), isinstance(error, JournalError)
    return report


# ---- the judge -------------------------------------------------------------------------------------------------------


@attrs.define
class Afterwards:
    error: str = ""
    recovered: list[tuple[str, str]] = attrs.field(factory=list[tuple[str, str]])
    results: dict[str, list[str]] = attrs.field(factory=dict[str, list[str]])
    entered: list[str] = attrs.field(factory=list[str])


@functools.cache
def afterwards(place: Path) -> Afterwards:
    """What the next owner is told, on a disk that works."""
    found = Afterwards()

    async def run() -> None:
        async with open_journal(place / "disk" / "j.db") as journal:
            found.recovered = [(call.call_id, text_of(call.result)) for call in journal.recovered]
            await make_all(journal, found.entered.append, found.results)

    try:
        trio.run(run)
    except JournalError as error:
        found.error = str(error)
    return found


def wrong(report: Report, found: Afterwards) -> Generator[str]:
    """What must not be, of what the program was told and of what its heir is."""
    if not report.error or report.told:
        for name in NAMES:
            told = report.told.get(name, [])
            if len(told) != 1:
                yield f"{name} has {len(told)} results"
            elif (told[0] == f"did {name}") != (report.entered.count(name) == 1):
                yield f"{name} was entered {report.entered.count(name)} times, and is told to be {told[0]}"
            elif told[0] not in (f"did {name}", JOURNAL_FAILED):
                yield f"{name} is told to be {told[0]}"
        if JOURNAL_FAILED in [each for told in report.told.values() for each in told] and not report.failure:
            yield "the journal has not failed, and calls were refused for it"
    if found.error:
        if not report.error:
            yield f"it was opened, and does not open any more: {found.error}"
        return
    for name in report.entered:
        recovered = dict(found.recovered).get(name)
        if recovered == TOOL_ABORTED_BEFORE_DISPATCH:
            yield f"{name} was entered, and counts as never entered"
        if name in found.entered:
            yield f"{name} was entered, and is again"
        loud = any("is NOT recorded" in line and repr(name) in line for line in report.logged)
        if found.results[name] != [f"did {name}"] and not loud:
            yield f"{name} is lost in silence: {found.results[name]}"
    for name, results in found.results.items():
        done = name in report.entered or name in found.entered
        if len(results) != 1 or (results[0] == f"did {name}" and not done):
            yield f"{name} is answered with {results}"
    if len(dict(found.recovered)) < len(found.recovered):
        yield "a call is recovered twice"


# ---- the tests -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def places() -> Generator[Places]:
    """What the programs left, by fault, in order; in memory, if there is such a place, where syncs cost nothing."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        home = Path(name)
        (home / "shim.c").write_text(SHIM)
        words = [
            "gcc",
            "-shared",
            "-fPIC",
            "-Wall",
            "-Werror",
            "-o",
            str(home / "shim.so"),
            str(home / "shim.c"),
            "-ldl",
        ]
        subprocess.run(words, check=True)
        changed = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LD_PRELOAD": str(home / "shim.so")}
        command = "import sys, test_journal_failing_writes as test; test.program(*sys.argv[1:])"
        found = {(fault, lasting): home / f"{fault} {lasting}" for fault in FAULTS for lasting in AFTER}
        running: list[subprocess.Popen[bytes]] = []
        for which, place in found.items():
            place.mkdir()
            words = [sys.executable, "-c", command, str(place), *which]
            running.append(subprocess.Popen(words, env={**os.environ, **changed}))
        assert [each.wait(300) for each in running] == [0] * len(running)
        yield {which: sorted(place.iterdir(), key=lambda one: int(one.name)) for which, place in found.items()}


def report_of(place: Path) -> Report:
    assert (place / "report").exists(), f"{place.name}: it hung, or died"
    return Report(**json.loads((place / "report").read_text()))


@pytest.mark.parametrize("lasting", AFTER)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_disk_fails_at_each_write(fault: str, lasting: str, places: Places) -> None:
    told, reports = list[str](), list[Report]()
    for place in places[fault, lasting]:
        reports.append(report_of(place))
        told += [f"{place.name}: {each}" for each in wrong(reports[-1], afterwards(place))]
    assert told == []
    assert [bool(report.hit) for report in reports] == [True] * (len(reports) - 1) + [False]
    assert len([report for report in reports if report.failure]) > 80, "those were too few writes"


def test_a_disk_that_fails_in_opening_is_told_as_a_journal_error(places: Places) -> None:
    reports = [report_of(place) for some in places.values() for place in some]
    assert [report.error for report in reports if not report.expected] == []


def test_what_could_not_be_made_is_made_by_the_next_owner(places: Places) -> None:
    made = [place for some in places.values() for place in some if report_of(place).error]
    assert [found.error for found in map(afterwards, made) if found.error] == []
