"""The journal's file: where it may be, who may have it, and that damage and losses are noticed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from crashing import Points, killed_at

from trio_tools import ToolCall, ToolRegistry, tool
from trio_tools.journal import (
    JournalBusyError,
    JournalDamagedError,
    JournalError,
    SqliteJournal,
    _database,
    _journal,
    export,
    list_conversations,
    open_journal,
)
from trio_tools.journal.__main__ import main
from trio_tools.journal._database import all_events, damage, reading
from trio_tools.journal._in_use import connect, unless_in_use
from trio_tools.journal._lock import Lock, high_water_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are forked and killed")
DAMAGES = 400


@tool
async def note(text: str) -> str:
    return text


async def make_calls(journal: SqliteJournal, number: int, first: int = 0) -> None:
    registry = ToolRegistry([note], journal=journal.conversation("a"))
    for each in range(first, first + number):
        call = ToolCall(id=f"c{each}", name="note", arguments={"text": "x" * 50})
        await registry.execute(call, scope=trio.CancelScope())


def closed(path: Path, number: int = 3) -> None:
    """A journal with some calls, closed in order."""

    async def program() -> None:
        async with open_journal(path) as journal:
            await make_calls(journal, number)

    trio.run(program)


def abandoned(path: Path) -> None:
    """A journal whose owner was killed, so that its write-ahead log is full of what matters."""

    async def program(journal: SqliteJournal, points: Points) -> None:
        await make_calls(journal, 1000, first=100)

    assert killed_at(41, path, program)
    assert path.with_name(path.name + "-wal").stat().st_size > 10_000


def opens(path: Path) -> None:
    async def program() -> None:
        async with open_journal(path):
            pass

    trio.run(program)


def copied(source: Path, target: Path) -> Path:
    target.mkdir()
    for file in source.parent.iterdir():
        shutil.copy(file, target / file.name)
    return target / source.name


# ---- where it may be -------------------------------------------------------------------------------------------------


def test_places_where_there_can_be_none(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be written, which a journal needs"):
        opens(tmp_path / "nowhere" / "j.db")
    for name in ("x" * 300, "x/" * 3000):
        with pytest.raises(JournalError, match="File name too long"):
            opens(tmp_path / name)
        with pytest.raises(JournalError, match="File name too long"):
            list_conversations(tmp_path / name)
    (tmp_path / "folder").mkdir()
    with pytest.raises(JournalError, match="is a directory: name a file in it"):
        opens(tmp_path / "folder")
    (tmp_path / "text").write_text("hello, this is a text and no data base " * 5)
    with pytest.raises(JournalDamagedError, match="is no SQLite file"):
        opens(tmp_path / "text")
    with pytest.raises(JournalError, match="there is no journal"), reading(tmp_path / "none"):
        pass


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write anywhere")
def test_a_read_only_directory_is_no_place_for_a_new_one_and_can_be_read(tmp_path: Path) -> None:
    closed(tmp_path / "j.db")
    program = (
        "import sys, trio\nfrom pathlib import Path\nfrom trio_tools.journal import *\n"
        "from trio_tools.journal._database import all_events, reading\npath = Path(sys.argv[1])\n"
        "with reading(path / 'j.db') as connection: print(len(all_events(connection)))\n"
        "async def main():\n    async with open_journal(path / 'new.db'): pass\n"
        "try: trio.run(main)\nexcept JournalError as error: print(error)"
    )
    for file in tmp_path.iterdir():
        file.chmod(0o444)
    tmp_path.chmod(0o555)
    words = [sys.executable, "-c", program, str(tmp_path)]
    if os.geteuid() == 0:
        for parent in tmp_path.parents[:-2]:
            parent.chmod(0o755)
        words = ["setpriv", "--reuid=65534", "--clear-groups", *words]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    tmp_path.chmod(0o755)
    assert done.stdout.startswith("9\n"), done.stderr
    assert "cannot be written, which a journal needs" in done.stdout


def test_files_of_others_and_of_later_versions_are_refused(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(JournalError, match="is an SQLite file of another program"):
        opens(tmp_path / "other.db")
    closed(tmp_path / "j.db")
    connection = sqlite3.connect(tmp_path / "j.db")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    before = (tmp_path / "j.db").read_bytes()
    with pytest.raises(JournalError, match="has version 2 of the format, and this is written for 1"):
        opens(tmp_path / "j.db")
    assert (tmp_path / "j.db").read_bytes() == before


def test_there_is_one_owner_and_whoever_likes_may_read(tmp_path: Path) -> None:
    children: list[int] = []

    async def program() -> None:
        async with open_journal(tmp_path / "j.db") as journal:
            await make_calls(journal, 2)
            with pytest.raises(JournalBusyError, match=f"open for writing already, in process {os.getpid()}"):
                async with open_journal(tmp_path / "j.db"):
                    pass
            with reading(tmp_path / "j.db") as connection:
                assert len(all_events(connection)) == 6
            child = os.fork()
            if child == 0:  # it must not keep the lock
                os.kill(os.getpid(), signal.SIGSTOP)
            children.append(child)

    trio.run(program)
    os.waitpid(children[0], os.WUNTRACED)
    opens(tmp_path / "j.db")
    os.kill(children[0], signal.SIGKILL)
    os.waitpid(children[0], 0)


def test_a_lock_dies_with_its_owner_and_is_released_once(tmp_path: Path) -> None:
    abandoned(tmp_path / "j.db")
    opens(tmp_path / "j.db")
    lock = Lock(tmp_path / "j.db")
    lock.release()
    lock.release()


def test_what_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed(tmp_path / "j.db")
    (tmp_path / "j.db.lock").unlink()
    with reading(tmp_path / "j.db") as connection:
        assert len(all_events(connection)) == 9

    def refuses(*arguments: object) -> object:
        raise PermissionError("not yours")

    monkeypatch.setattr(Path, "open", refuses)
    with pytest.raises(JournalError, match="cannot be read: not yours"):
        opens(tmp_path / "j.db")


def test_a_link_is_the_file_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to("j.db")
    opens(tmp_path / "link")
    assert sorted(name.name for name in tmp_path.iterdir()) == ["j.db", "j.db.lock", "link"]
    (tmp_path / "elsewhere").mkdir()

    async def program() -> None:
        monkeypatch.chdir(tmp_path)
        async with open_journal("j.db") as journal:
            monkeypatch.chdir(tmp_path / "elsewhere")
            await make_calls(journal, 1)
            assert journal.path == tmp_path / "j.db"
            with pytest.raises(JournalBusyError):
                await trio.to_thread.run_sync(opens, tmp_path / "link")

    trio.run(program)
    shutil.copy(tmp_path / "j.db", tmp_path / "old")
    closed(tmp_path / "link", 2)
    os.replace(tmp_path / "old", tmp_path / "j.db")
    with pytest.raises(JournalDamagedError, match="are lost"), reading(tmp_path / "link"):
        pass


@pytest.mark.parametrize("content", [None, b"import trio\n"])
def test_beside_what_is_no_journal_nothing_is_left(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(JournalError):
        opens(path)
    assert [name.name for name in tmp_path.iterdir()] == ["other"]


def test_what_is_no_regular_file_or_has_other_names_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(JournalError, match="is no regular file: name another one"):
        opens(tmp_path / "fifo")
    assert (tmp_path / "fifo").is_fifo()
    closed(tmp_path / "j.db", 1)
    os.link(tmp_path / "j.db", tmp_path / "other.db")
    for name in ("j.db", "other.db"):
        with pytest.raises(JournalError, match="has other names, by which others might write to it"):
            opens(tmp_path / name)


def test_who_reads_its_own_journal_keeps_its_locks(tmp_path: Path) -> None:
    """Found: to close any descriptor of a file drops the locks of SQLite on it, and a stranger deletes the log."""
    path = tmp_path / "j.db"
    stranger = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT count(*) FROM event'); c.close()"
    )

    async def program(journal: SqliteJournal, points: Points) -> None:
        await make_calls(journal, 1)
        assert len(list_conversations(path)) == 1
        with pytest.raises(JournalBusyError):
            await trio.to_thread.run_sync(opens, path)
        subprocess.run([sys.executable, "-c", stranger, path], check=True)  # noqa: ASYNC221
        await make_calls(journal, 1, first=1)
        os.kill(os.getpid(), signal.SIGKILL)

    assert killed_at(0, path, program)
    opens(path)
    assert list_conversations(path)[0].calls == 2


def test_a_text_that_is_damaged_is_passed_over_by_a_salvage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    closed(tmp_path / "j.db", 3)
    data = (tmp_path / "j.db").read_bytes()
    at = data.index(b'"text":"xxx') + 10
    (tmp_path / "j.db").write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    with pytest.raises(JournalDamagedError, match="is damaged"):
        opens(tmp_path / "j.db")
    assert main(["export", str(tmp_path / "j.db"), "--salvage"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) == 1 + 8 + 1
    assert "is damaged" in lines[-1]["damage"][0]


def test_a_lock_that_cannot_be_written_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*arguments: object) -> int:
        raise OSError(28, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", refuses)
        with pytest.raises(JournalError, match=r"cannot be written, which a journal needs: .*no space left"):
            opens(tmp_path / "j.db")
    opens(tmp_path / "j.db")


def test_a_disk_that_fails_while_a_journal_is_opened_is_told_and_its_lock_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed(tmp_path / "j.db")

    def fails(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(_journal, "recovery", fails)
        with pytest.raises(JournalError, match=r"j\.db: disk I/O error"):
            opens(tmp_path / "j.db")
    opens(tmp_path / "j.db")


def test_a_file_that_could_not_be_made_is_made_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE half (a)")
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(_database, "_create", refuses)
        with pytest.raises(JournalError, match=r"j\.db: disk I/O error"):
            opens(tmp_path / "j.db")
    assert not (tmp_path / "j.db").exists()
    assert [name.name for name in tmp_path.iterdir() if "new" in name.name]
    opens(tmp_path / "j.db")
    assert sorted(name.name for name in tmp_path.iterdir()) == ["j.db", "j.db.lock"]


def test_the_clock_may_jump_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed(tmp_path / "j.db", 1)
    monkeypatch.setattr("time.time", lambda: 0.0)

    async def program() -> None:
        async with open_journal(tmp_path / "j.db") as journal:
            await make_calls(journal, 2)

    trio.run(program)
    with reading(tmp_path / "j.db") as connection:
        assert [event.call for event in all_events(connection)] == ["c0"] * 3 + ["c1"] * 3


# ---- losses and damage -----------------------------------------------------------------------------------------------


def test_damages_to_the_write_ahead_log_are_all_noticed(tmp_path: Path) -> None:
    source = tmp_path / "source" / "j.db"
    source.parent.mkdir()
    abandoned(source)
    chosen = random.Random(17)
    for number in range(DAMAGES):
        path = copied(source, tmp_path / str(number))
        log = path.with_name("j.db-wal")
        data = bytearray(log.read_bytes())
        match number % 4:
            case 0:
                del data[chosen.randrange(len(data)) :]
            case 1:
                data.clear()
            case _:
                data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
        log.write_bytes(data)
        with pytest.raises(JournalDamagedError, match="are lost"):
            opens(path)
        shutil.rmtree(path.parent)


def test_clean_power_cuts_are_no_damage(tmp_path: Path) -> None:
    """The note beside the file is not synced: it may be older than the file, or not be there at all."""
    source = tmp_path / "source" / "j.db"
    source.parent.mkdir()
    abandoned(source)
    lock, high = source.with_name("j.db.lock"), high_water_of(source)
    notes = [b"", bytes(12), None]
    for seq in range(1, high):
        beside = Lock(tmp_path / "scratch")
        beside.note(seq)
        beside.release()
        notes.append((tmp_path / "scratch.lock").read_bytes()[:12])
    chosen = random.Random(17)
    for number in range(DAMAGES):
        path = copied(source, tmp_path / str(number))
        note = chosen.choice(notes)
        path.with_name(lock.name).unlink()
        if note is not None:
            path.with_name(lock.name).write_bytes(note)
        opens(path)
        shutil.rmtree(path.parent)


def test_a_file_that_is_gone_or_an_old_copy_is_noticed(tmp_path: Path) -> None:
    closed(tmp_path / "j.db", 1)
    shutil.copy(tmp_path / "j.db", tmp_path / "old")

    async def program() -> None:
        async with open_journal(tmp_path / "j.db") as journal:
            await make_calls(journal, 2)

    trio.run(program)
    shutil.copy(tmp_path / "old", tmp_path / "j.db")
    with pytest.raises(JournalDamagedError, match=r"records 4 to 6 are lost.* delete j.db.lock to go on without them"):
        opens(tmp_path / "j.db")
    shutil.copytree(tmp_path, tmp_path / "copy")
    (tmp_path / "copy" / "j.db.lock").unlink()
    opens(tmp_path / "copy" / "j.db")
    (tmp_path / "j.db").unlink()
    with pytest.raises(JournalDamagedError, match="is gone, and held 6 records"):
        opens(tmp_path / "j.db")
    (tmp_path / "j.db.lock").unlink()
    opens(tmp_path / "j.db")


def test_truncated_and_overwritten_pages_are_noticed_and_nothing_is_changed(tmp_path: Path) -> None:
    source = tmp_path / "source" / "j.db"
    source.parent.mkdir()
    closed(source, 200)
    whole = source.read_bytes()
    chosen, noticed = random.Random(17), 0
    for number in range(40):
        path = copied(source, tmp_path / str(number))
        data = bytearray(whole)
        if number % 2:
            del data[chosen.randrange(200, len(data)) :]
        else:
            at = chosen.randrange(4096, len(data) - 2048)
            data[at : at + 2048] = chosen.randbytes(2048)
        path.write_bytes(data)
        try:
            with reading(path) as connection:
                assert len(all_events(connection)) == 600  # it hit what is not in use
        except JournalError:
            with pytest.raises(JournalError):
                opens(path)
            noticed += 1
            assert path.read_bytes() == data
        shutil.rmtree(path.parent)
    assert noticed > 35


def test_a_record_that_was_changed_is_noticed(tmp_path: Path) -> None:
    closed(tmp_path / "j.db")
    data = (tmp_path / "j.db").read_bytes()
    (tmp_path / "j.db").write_bytes(data.replace(b"xxxxx", b"xyxxx", 1))
    with pytest.raises(JournalDamagedError, match="is damaged: read what is sound"):
        opens(tmp_path / "j.db")
    with reading(tmp_path / "j.db", salvage=True) as connection:
        assert damage(connection, tmp_path / "j.db") is None


def exported(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[dict[str, Any]], str]:
    status = main(["export", *words])
    out, err = capsys.readouterr()
    return status, [json.loads(line) for line in out.splitlines()], err


def test_a_journal_is_exported_and_what_is_sound_of_a_damaged_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "j.db"
    closed(file)
    status, (head, first, *others), _ = exported(capsys, str(file))
    assert (status, head) == (0, {"format": "trio_tools.journal", "version": 1})
    assert (first["conversation"], first["call"], first["kind"], first["seq"]) == ("a", "c0", "call", 1)
    assert len(others) == 8
    assert len(exported(capsys, str(file), "--conversation", "b")[1]) == 1
    file.write_bytes(file.read_bytes().replace(b"xxxxx", b"xyxxx", 1))
    status, _, told = exported(capsys, str(file))
    assert status == 1
    assert "is damaged: read what is sound with python -m trio_tools.journal export --salvage" in told
    status, lines, _ = exported(capsys, str(file), "--salvage")
    assert (status, len(lines)) == (0, 10)
    assert "is damaged" in lines[-1]["damage"][0]
    file.write_bytes(file.read_bytes()[:8192])
    status, lines, _ = exported(capsys, str(file), "--salvage")
    assert (status, len(lines[-1]["damage"])) == (0, 1)


def test_a_file_system_that_cannot_do_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect

    def in_memory(path: Any, **options: Any) -> sqlite3.Connection:
        return connect(":memory:", **options)

    monkeypatch.setattr(sqlite3, "connect", in_memory)
    with pytest.raises(JournalError, match="SQLite does not keep to journal_mode = wal here, but has memory"):
        opens(tmp_path / "j.db")


def test_an_empty_file_becomes_a_journal(tmp_path: Path) -> None:
    (tmp_path / "j.db").touch()
    closed(tmp_path / "j.db", 1)
    assert list_conversations(tmp_path / "j.db")[0].calls == 1


def test_salvage_gives_what_stands_on_sound_pages_wherever_a_damaged_one_is(tmp_path: Path) -> None:
    source = tmp_path / "source" / "j.db"
    source.parent.mkdir()
    closed(source, 200)
    whole, pages, lost = source.read_bytes(), source.stat().st_size // 4096, list[int]()
    for page in range(1, pages):
        path = copied(source, tmp_path / str(page))
        path.write_bytes(whole[: page * 4096] + b"\xff" * 4096 + whole[(page + 1) * 4096 :])
        *lines, last = list(export(path, salvage=True))
        read = [json.loads(line)["seq"] for line in lines[1:]]
        assert read == sorted(set(read))
        assert json.loads(last)["damage"]
        lost.append(600 - len(read))
        shutil.rmtree(path.parent)
    assert sorted(lost)[-2] <= 22, "the records of that page"
    assert lost.count(600) == 1, "the root of the table, without which none is found"


def test_a_file_is_in_use_until_the_last_connection_to_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connect(path, f"{path.as_uri()}?mode=ro", uri=True)
    assert unless_in_use(path, Path.exists) is False
    first, second = connect(path, path), connect(path, path)
    first.close()
    first.close()
    assert unless_in_use(path, Path.exists) is None
    second.close()
    assert unless_in_use(path, Path.exists) is True


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of locks")
def test_reading_costs_the_owner_no_lock_of_sqlite(tmp_path: Path) -> None:
    """Whatever in this process has looked at the file while it was opened."""
    path = tmp_path / "j.db"
    closed(path)

    def locks() -> list[str]:
        inode = f":{path.stat().st_ino} "
        return [line for line in Path("/proc/locks").read_text().splitlines() if inode in line and "POSIX" in line]

    async def program() -> None:
        with reading(path):
            async with open_journal(path):
                list_conversations(path)
                assert locks()

    trio.run(program)
    assert not locks()
