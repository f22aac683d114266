"""Looking at a journal: the command, and how an older file becomes one of today."""

from __future__ import annotations

import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, redirect_stdout
from pathlib import Path

import pytest
import trio
from crashing import Points, killed_at

from trio_tools import ToolCall, ToolError, ToolRegistry, run_batch, tool
from trio_tools.journal import JournalError, SqliteJournal, _database, list_conversations, open_journal
from trio_tools.journal.__main__ import main

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are forked and killed")


@tool
async def note(text: str) -> str:
    if text == "bad":
        raise ToolError("so \x1b[31mbad\n" + "x" * 100, code="E_BAD")
    return text


def calls(*texts: str) -> list[ToolCall]:
    return [ToolCall(id=f"c{number}", name="note", arguments={"text": text}) for number, text in enumerate(texts)]


def crashed(path: Path) -> None:
    """Killed when two of four calls were done, and one was at work."""

    async def program(journal: SqliteJournal, points: Points) -> None:
        @tool(name="note")
        async def deadly(text: str) -> str:
            if text == "three":
                os.kill(os.getpid(), signal.SIGKILL)
            return await note.function(text)

        registry = ToolRegistry([deadly], journal=journal.conversation("a"))
        await run_batch(registry, calls("one", "bad", "three", "four"), scope=trio.CancelScope())

    assert killed_at(0, path, program)


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    status = main(list(words))
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


def test_what_there_is_is_listed_and_shown_before_and_after_recovery(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j"
    crashed(path)
    status, lines, _ = command(capsys, "list", str(path))
    assert status == 0
    assert lines[0].split() == ["conversation", "calls", "open", "began", "latest"]
    assert lines[1].split()[:3] == ["a", "4", "2"]
    (summary,) = list_conversations(path)
    assert (summary.id, summary.calls, summary.open) == ("a", 4, 2)
    assert summary.began <= summary.latest

    status, lines, _ = command(capsys, "show", str(path), "a")
    assert status == 0
    assert [line.split()[5] for line in lines[1:]] == ["success", "E_BAD", "open", "open"]
    assert lines[1].split()[0] == "c0"
    assert "so \N{REPLACEMENT CHARACTER}[31mbad\N{REPLACEMENT CHARACTER}xxx" in lines[2]
    assert lines[2].endswith("\N{HORIZONTAL ELLIPSIS}")
    assert "its body has been entered;" in lines[3]
    assert "its body has not been entered;" in lines[4]

    status, lines, _ = command(capsys, "recover", str(path))
    assert status == 0
    assert [line.split() for line in lines[1:]] == [
        ["a", "c2", "note", "ABORTED"],
        ["a", "c3", "note", "ABORTED_BEFORE_DISPATCH"],
    ]
    assert command(capsys, "recover", str(path))[1] == ["no call was left without a result"]
    assert list_conversations(path)[0].open == 0

    async def again() -> None:
        async with open_journal(path) as journal:
            registry = ToolRegistry([note], journal=journal.conversation("a"))
            await run_batch(registry, calls("one", "bad", "three", "four"), scope=trio.CancelScope())

    trio.run(again)
    _, lines, _ = command(capsys, "show", str(path), "a")
    assert [line.split()[5] for line in lines[1:]] == ["success", "E_BAD", "ABORTED", "success"]
    assert "by recovery" in lines[3]
    assert "1 times made again" in lines[4]


def test_a_conversation_is_drawn_as_a_page_and_as_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "j"
    crashed(path)
    for name in ("page.html", "trace.json"):
        assert command(capsys, "timeline", str(path), "a", "--out", str(tmp_path / name))[0] == 0
    assert "<html" in (tmp_path / "page.html").read_text()
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    before = path.read_bytes()
    for end in ("", ".lock", "-wal"):
        status, _, told = command(capsys, "timeline", str(path), "a", "--out", f"{path}{end}")
        assert status == 1
        assert "belongs to the journal: name another file" in told
    assert path.read_bytes() == before
    status, _, told = command(capsys, "timeline", str(path), "a", "--out", str(tmp_path / "no" / "page.html"))
    assert status == 1
    assert "page.html" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["list", "{}/none"], "there is no journal"),
        (["recover", "{}/none"], "there is no journal"),
        (["list", "{}"], "is a directory"),
        (["show", "{}/j", "b"], "has no conversation 'b': see those that it has with list"),
        (["timeline", "{}/j", "b", "--out", "x"], "has no conversation 'b'"),
    ],
)
def test_what_is_not_there_is_told(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crashed(tmp_path / "j")
    status, lines, error = command(capsys, *(word.format(tmp_path) for word in words))
    assert status == 1
    assert lines == []
    assert told in error
    assert not (tmp_path / "none").exists()


def test_recovery_is_refused_while_somebody_owns_it_and_looking_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j"

    async def owner() -> None:
        async with open_journal(path) as journal:
            registry = ToolRegistry([note], journal=journal.conversation("a"))
            await registry.execute(calls("one")[0], scope=trio.CancelScope())
            assert command(capsys, "show", str(path), "a")[0] == 0
            status, _, told = await trio.to_thread.run_sync(command, capsys, "recover", str(path))
            assert status == 1
            assert "has it open" in told or "is open" in told

    trio.run(owner)


def test_an_older_file_becomes_one_of_today_and_is_read_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j"
    crashed(path)
    monkeypatch.setattr(_database, "VERSION", 3)
    monkeypatch.setattr(
        _database,
        "MIGRATIONS",
        {1: ["CREATE TABLE more (a INT) STRICT"], 2: ["INSERT INTO more VALUES (7)"]},
    )
    status, _, told = command(capsys, "list", str(path))
    assert status == 1
    assert "has an older version of the format: open it once, as recover does" in told
    assert len(command(capsys, "recover", str(path))[1]) == 3
    assert list_conversations(path)[0].calls == 4
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT a FROM more").fetchall() == [(7,)]
    monkeypatch.undo()
    with pytest.raises(JournalError, match="has version 3 of the format, and this is written for 1"):
        list_conversations(path)


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"
    crashed(path)
    with monkeypatch.context() as patched:
        patched.setattr(_database, "VERSION", 2)
        patched.setattr(
            _database, "MIGRATIONS", {1: ["CREATE TABLE more (a INT) STRICT", "INSERT INTO missing VALUES (1)"]}
        )
        with pytest.raises(JournalError, match="no such table: missing"):
            trio.run(_open, path)
    assert list_conversations(path)[0].calls == 4


async def _open(path: Path) -> None:
    async with open_journal(path):
        pass


@pytest.mark.parametrize("words", [[], ["list"], ["draw", "j"], ["timeline", "j", "a"]])
def test_wrong_words_are_told_with_the_right_ones(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert "usage: python -m trio_tools.journal" in capsys.readouterr().err


def as_process(*words: str | bytes, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "trio_tools.journal", *words]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, env=env)


def test_what_a_terminal_cannot_show_is_shown_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "j"

    async def opened() -> None:
        async with open_journal(path) as journal:
            registry = ToolRegistry([note], journal=journal.conversation("caf\u00e9"))
            await registry.execute(calls("one")[0], scope=trio.CancelScope())

    trio.run(opened)
    told = as_process("list", str(path), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (told.returncode, told.stderr) == (0, b"")
    assert rb"caf\xe9" in told.stdout
    for words in (["show"], ["export", "--conversation"]):
        told = as_process(words[0], str(path), *words[1:], b"caf\xe9")
        assert told.returncode == 1
        assert told.stderr.startswith(bytes(path))
        assert b"has no conversation 'caf\\udce9'" in told.stderr
    told = as_process("list", b"no\xe9")
    assert (told.returncode, told.stderr.count(b"\n")) == (1, 1)


def test_a_reader_who_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "j"
    crashed(path)
    receiving, sending = os.pipe()
    os.close(receiving)
    with os.fdopen(sending, "wb") as pipe:
        command = [sys.executable, "-m", "trio_tools.journal", "export", str(path)]
        told = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (told.returncode, told.stderr) == (1, b"")


def test_within_a_program_it_writes_to_whatever_is_there(tmp_path: Path) -> None:
    path = tmp_path / "j"
    crashed(path)
    with redirect_stdout(io.StringIO()) as seen:
        assert main(["list", str(path)]) == 0
    assert seen.getvalue().startswith("conversation")
    receiving, sending = os.pipe()
    os.close(receiving)
    with os.fdopen(sending, "w") as pipe, redirect_stdout(pipe):
        assert main(["list", str(path)]) == 1


def test_an_export_of_no_conversation_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "j"
    crashed(path)
    status, lines, told = command(capsys, "export", str(path), "--conversation", "b")
    assert (status, len(lines)) == (1, 1)
    assert "has no conversation 'b': see those that it has with list" in told
    for no_text in ("\udce9", "b"):
        status, _, told = command(capsys, "show", str(path), no_text)
        assert (status, "has no conversation" in told) == (1, True)
    status, lines, told = command(capsys, "export", str(path), "--conversation", "b", "--salvage")
    assert (status, json.loads(lines[-1]), told) == (0, {"damage": []}, "")
