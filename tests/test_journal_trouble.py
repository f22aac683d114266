"""What a journal does when the disk, a hook or the program does not do its part."""

from __future__ import annotations

import json
import math
import os
import signal
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from journals import call, code, entered, executed, opened, pay, writer_of

from trio_tools import (
    JOURNAL_FAILED,
    TOOL_ABORTED,
    Accept,
    AfterDecision,
    Allow,
    BeforeDecision,
    CancelCause,
    ToolExecution,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    ToolSuccess,
    run_batch,
    tool,
)
from trio_tools.journal import (
    JournalBusyError,
    JournalFailedError,
    SqliteJournal,
    _journal,
    _writer,
    export,
    open_journal,
)
from trio_tools.journal._lock import Lock
from trio_tools.journal._writer import Writer


@pytest.fixture(autouse=True)
def nobody_has_entered() -> None:
    entered.clear()


def fill(journal: SqliteJournal) -> Awaitable[object]:
    """From now on the file must not grow: SQLite says that the disk is full."""
    return writer_of(journal).ask(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchall())


def test_a_full_disk_keeps_bodies_from_being_entered_for_good(tmp_path: Path) -> None:
    async def main(journal: SqliteJournal) -> list[ToolResult]:
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        await fill(journal)
        calls = [call(id=f"c{n}", amount=10**4000) for n in range(2)]
        results = [await registry.execute(one, scope=trio.CancelScope()) for one in calls]
        results += (await run_batch(registry, [call(id="b")], scope=trio.CancelScope())).results
        assert isinstance(journal.failure, JournalFailedError)
        with pytest.raises(JournalFailedError):
            await journal.prune("a")
        writer: Any = writer_of(journal)
        waiting = _writer._Request()  # pyright: ignore[reportPrivateUsage] - it was there before
        writer._queue.put(waiting)
        await writer.aclose()
        assert isinstance(waiting.error, JournalFailedError)
        return results

    results = opened(tmp_path, main)
    assert [code(one) for one in results] == [JOURNAL_FAILED] * 3
    assert all("the journal has failed" in one.content[0].text for one in results)
    assert entered == []
    assert isinstance(executed(tmp_path, call())[0], ToolSuccess)


@pytest.mark.parametrize("name", ["pay", "look"])
def test_a_result_that_cannot_be_recorded_is_given_back_and_told_of(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main(journal: SqliteJournal) -> ToolResult:
        @tool(name=name, effects="read-only" if name == "look" else "mutating")
        async def fills(amount: int) -> str:
            await fill(journal)
            return "x" * 100_000

        async def allow(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
            return Allow()

        registry = ToolRegistry([fills], journal=journal.conversation("a"))
        registry.before(allow)
        return await registry.execute(call(name), scope=trio.CancelScope())

    assert isinstance(opened(tmp_path, main), ToolSuccess)
    assert "is NOT recorded: asked for again, it counts as ABORTED" in caplog.text
    (again,) = executed(tmp_path, call(name))
    assert code(again) == (TOOL_ABORTED if name == "pay" else None)


def test_a_disk_that_hangs_is_given_up_on(tmp_path: Path) -> None:
    works_again = threading.Event()

    async def main(journal: SqliteJournal) -> ToolResult:
        registry, writer = ToolRegistry([pay], journal=journal.conversation("a")), writer_of(journal)
        async with trio.open_nursery() as nursery:

            async def hang() -> None:
                with pytest.raises(JournalFailedError, match=r"a write has taken more than 0\.05 seconds"):
                    await writer.ask(lambda connection: works_again.wait())

            nursery.start_soon(hang)
            await trio.testing.wait_all_tasks_blocked()
            result = await registry.execute(call(), scope=nursery.cancel_scope)
            works_again.set()
        return result

    assert code(opened(tmp_path, main, patience=0.05)) == JOURNAL_FAILED
    assert entered == []


def test_who_has_left_while_the_disk_hangs_stays_the_owner_until_it_has_ended(tmp_path: Path) -> None:
    """And what the thread notes late does not go into a file that has its descriptor's number by now."""
    works_again = threading.Event()

    async def program() -> bytes:
        async with open_journal(tmp_path / "j.db", patience=0.05) as journal:
            writer = writer_of(journal)
            carry_out = writer._carry_out  # pyright: ignore[reportPrivateUsage] - to be slow

            def slowly(requests: Any) -> None:
                works_again.wait()
                carry_out(requests)

            writer._carry_out = slowly  # pyright: ignore[reportPrivateUsage]
            registry = ToolRegistry([pay], journal=journal.conversation("a"))
            assert code(await registry.execute(call(), scope=trio.CancelScope())) == JOURNAL_FAILED
        with pytest.raises(JournalBusyError):
            async with open_journal(tmp_path / "j.db"):
                raise AssertionError
        others = [os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT) for _ in range(8)]
        works_again.set()
        for thread in [one for one in threading.enumerate() if "writes a journal" in one.name]:
            await trio.to_thread.run_sync(thread.join)
        for other in others:
            os.close(other)
        async with open_journal(tmp_path / "j.db"):
            return (tmp_path / "other").read_bytes()

    assert trio.run(program) == b""
    assert entered == []


def test_a_virtual_clock_that_jumps_is_no_disk_that_hangs(tmp_path: Path) -> None:
    async def run() -> ToolResult:
        async with open_journal(tmp_path / "j.db") as journal:
            return await ToolRegistry([pay], journal=journal.conversation("a")).execute(
                call(), scope=trio.CancelScope()
            )

    assert isinstance(trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0)), ToolSuccess)


def test_one_that_is_refused_keeps_no_other_from_being_written(tmp_path: Path) -> None:
    """Conflicts are told to whom they concern; what is asked may fail too."""

    async def main(journal: SqliteJournal) -> list[ToolResult]:
        results: list[ToolResult] = []
        registry, writer = ToolRegistry([pay], journal=journal.conversation("a")), writer_of(journal)
        async with trio.open_nursery() as nursery:

            async def make(id: str) -> None:
                results.append(await registry.execute(call(id=id), scope=nursery.cancel_scope))

            await make("c1")
            for call_id in ("c1", "c2", "c3"):
                nursery.start_soon(make, call_id)
        with pytest.raises(ZeroDivisionError):
            await writer.ask(lambda connection: 1 // 0)
        with pytest.raises(sqlite3.IntegrityError, match="events are only ever added"):
            await writer.ask(lambda connection: connection.execute("UPDATE event SET data = ''"))
        return results

    assert all(isinstance(one, ToolSuccess) for one in opened(tmp_path, main))
    assert len(entered) == 3


def test_a_disk_that_fails_when_a_conversation_is_deleted_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(connection: sqlite3.Connection, conversation: str) -> int:
        raise sqlite3.OperationalError("disk I/O error")

    async def main(journal: SqliteJournal) -> ToolResult:
        monkeypatch.setattr(_journal, "_pruned", fails)
        with pytest.raises(JournalFailedError, match="disk I/O error; it takes nothing more"):
            await journal.prune("a")
        assert journal.failure is not None
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        return await registry.execute(call(), scope=trio.CancelScope())

    result = opened(tmp_path, main)
    assert isinstance(result, ToolFailure)
    assert result.error.code == JOURNAL_FAILED
    assert entered == []


def test_a_rollback_that_fails_has_failed_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn:
        def __init__(self, connection: sqlite3.Connection) -> None:
            self.execute = connection.execute
            self.close = connection.close
            self.rollbacks = 0

    async def main(journal: SqliteJournal) -> ToolResult:
        registry, writer = ToolRegistry([pay], journal=journal.conversation("a")), writer_of(journal)
        await registry.execute(call(id="c1"), scope=trio.CancelScope())
        connection: Any = Stubborn(writer._connection)  # pyright: ignore[reportPrivateUsage] - it has a double
        execute = connection.execute

        def refuses(statement: str, *arguments: Any) -> Any:
            if statement == "ROLLBACK":
                raise sqlite3.OperationalError("no rollback today")
            return execute(statement, *arguments)

        connection.execute = refuses
        monkeypatch.setattr(writer, "_connection", connection)
        result = await registry.execute(call(id="c1"), scope=trio.CancelScope())
        execute("ROLLBACK")
        return result

    result = opened(tmp_path, main)
    assert isinstance(result, ToolFailure)
    assert result.error.code == JOURNAL_FAILED
    assert "no rollback today" in result.error.message


def test_ids_that_cannot_be_written_concern_nobody_else(tmp_path: Path) -> None:
    async def main(journal: SqliteJournal) -> list[ToolResult]:
        with pytest.raises(ValueError, match="without NUL characters and lone surrogates"):
            journal.conversation("a\ud800")
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        calls = [call(id="c1"), call(id="c\udc80"), call(id="c3")]
        only = await run_batch(registry, calls[1:2], scope=trio.CancelScope())
        return [*(await run_batch(registry, calls, scope=trio.CancelScope())).results, *only.results]

    first, second, third, only = opened(tmp_path, main)
    assert isinstance(first, ToolSuccess)
    assert isinstance(third, ToolSuccess)
    for one in (second, only):
        assert isinstance(one, ToolFailure)
        assert one.error.code == JOURNAL_FAILED
        assert "its id is no text" in one.error.message
    assert len(entered) == 2


@pytest.mark.parametrize("form", [None, "***", {}, [], {"is_error": False}])
def test_what_hides_the_form_of_a_result_is_told_and_the_call_counts_as_aborted_from_now_on(
    form: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> ToolResult:
        def hides(kind: str, data: Any) -> Any:
            return data if kind == "arguments" else form

        async with open_journal(tmp_path / "j.db", redact=hides) as journal:
            registry = ToolRegistry([pay], journal=journal.conversation("a"))
            assert isinstance(await registry.execute(call(), scope=trio.CancelScope()), ToolSuccess)
            return await registry.execute(call(), scope=trio.CancelScope())

    again = trio.run(program)
    assert "redact must keep the form of a result" in caplog.text
    assert "the result of call 'c1' in conversation 'a' is NOT recorded" in caplog.text
    assert isinstance(again, ToolFailure)
    assert (again.error.code, again.body) == (TOOL_ABORTED, "interrupted")
    assert again.cause == CancelCause(source="crash", reason="its result could not be recorded: TypeError")
    assert executed(tmp_path, call()) == [again]
    assert entered == ["pay"]


def test_a_result_that_could_not_be_recorded_keeps_the_outcome_that_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And it is judged when it is asked for."""
    told: list[str] = []

    async def judge(execution: ToolExecution, result: ToolResult, call_next: object) -> AfterDecision:
        return Accept()

    async def main(journal: SqliteJournal) -> list[ToolResult]:
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        registry.after(judge)
        return [await registry.execute(call(), scope=trio.CancelScope()) for _ in range(2)]

    def fails_once(kind: str, data: Any) -> Any:
        told.append(kind)
        if told == ["arguments", "result", "result"]:  # its outcome was recorded, and now its result is to be
            raise RuntimeError("not today")
        return data

    first, second = opened(tmp_path, main, redact=fails_once)
    assert isinstance(first, ToolSuccess)
    assert second == first
    assert entered == ["pay"]
    assert "it counts as the outcome that was recorded" in caplog.text


def test_an_asynchronous_redact_is_refused(tmp_path: Path) -> None:
    async def hides(kind: str, data: Any) -> Any: ...

    async def program() -> None:
        async with open_journal(tmp_path / "j.db", redact=hides):
            pass

    with pytest.raises(TypeError, match="redact takes a function"):
        trio.run(program)


def test_a_journal_that_is_closed_says_so_at_once(tmp_path: Path) -> None:
    async def program() -> ToolResult:
        async with open_journal(tmp_path / "j.db") as journal:
            registry = ToolRegistry([pay], journal=journal.conversation("a"))
        return await registry.execute(call(), scope=trio.CancelScope())

    result = trio.run(program)
    assert isinstance(result, ToolFailure)
    assert "the journal is closed: make calls within its block" in result.error.message


def test_more_than_one_commit_can_take_is_taken_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_writer, "_MOST", 1)
    assert isinstance(executed(tmp_path, call())[0], ToolSuccess)


def test_a_program_that_has_ended_is_not_told(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "j.db", check_same_thread=False)
    made: list[Writer] = []

    async def main() -> None:
        made.append(Writer(connection, lambda seq: None, lambda: None, 1.0))

    trio.run(main)
    writer: Any = made[0]
    writer._wake([trio.Event()])
    writer._queue.put(None)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"redact": 3}, TypeError, "redact takes a function"),
        ({"patience": 0}, ValueError, "patience must be a positive number of seconds"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, options: dict[str, Any], error: type[Exception], told: str) -> None:
    async def main(journal: SqliteJournal) -> None:
        raise AssertionError

    with pytest.raises(error, match=told):
        opened(tmp_path, main, **options)


def test_opening_does_not_wait_for_who_reads(tmp_path: Path) -> None:
    """If it did, it would do so for ever."""

    async def main(journal: SqliteJournal) -> None:
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        await registry.execute(call(id=f"c{journal.epoch}"), scope=trio.CancelScope())

    opened(tmp_path, main)
    lines = export(tmp_path / "j.db")
    assert [json.loads(next(lines)).get("call") for _ in range(2)] == [None, "c1"]
    opened(tmp_path, main, patience=math.inf)
    assert len(list(lines)) == 2, "of the state that it began to read"
    opened(tmp_path, main)
    assert len(list(export(tmp_path / "j.db"))) == 10


def test_without_a_thread_nothing_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def program() -> None:
        await trio.to_thread.run_sync(int)  # trio's own thread is there before
        with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="can't start"):
            patch.setattr(threading.Thread, "start", refused)
            async with open_journal(tmp_path / "j.db"):
                raise AssertionError("it was entered")
        async with open_journal(tmp_path / "j.db") as journal:
            assert journal.epoch == 2

    trio.run(program)


def test_the_block_is_not_protected_from_interrupts(tmp_path: Path) -> None:
    async def program() -> None:
        async with open_journal(tmp_path / "j.db"):
            assert not trio.lowlevel.currently_ki_protected()
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("it goes on")

    with pytest.raises(KeyboardInterrupt):
        trio.run(program)
    Lock(tmp_path / "j.db").release()


def test_bad_conversations_and_declarations_are_refused(tmp_path: Path) -> None:
    async def main(journal: SqliteJournal) -> None:
        with pytest.raises(TypeError, match="a conversation is named by a str"):
            journal.conversation(3)  # pyright: ignore[reportArgumentType] - on purpose
        with pytest.raises(ValueError, match="a conversation needs a name"):
            journal.conversation("")
        with pytest.raises(TypeError, match=r"journal takes a conversation, journal.conversation\('name'\)"):
            ToolRegistry(journal=journal)  # pyright: ignore[reportArgumentType] - on purpose
        assert repr(journal.conversation("a")) == "<Conversation 'a'>"

    opened(tmp_path, main)
    with pytest.raises(ValueError, match="effects must be one of 'mutating', 'read-only', 'idempotent', not 'none'"):
        tool(effects="none")(pay.function)  # pyright: ignore[reportArgumentType] - on purpose


def test_a_redaction_that_fails_keeps_the_body_from_being_entered(tmp_path: Path) -> None:
    def redact(kind: str, data: Any) -> Any:
        raise LookupError(kind)

    async def main(journal: SqliteJournal) -> ToolResult:
        return await ToolRegistry([pay], journal=journal.conversation("a")).execute(call(), scope=trio.CancelScope())

    assert code(opened(tmp_path, main, redact=redact)) == JOURNAL_FAILED
    assert entered == []


def test_patience_counts_for_a_stranger_who_holds_the_lock_of_sqlite(tmp_path: Path) -> None:
    async def main(journal: SqliteJournal) -> int:
        ((found,),) = await writer_of(journal).ask(lambda one: one.execute("PRAGMA busy_timeout").fetchall())
        return found

    assert opened(tmp_path, main) == 30_000
    assert opened(tmp_path, main, patience=7.5) == 7_500
    for patience in (math.inf, 10**400):
        assert opened(tmp_path, main, patience=patience) == 1_000_000_000


def test_a_call_that_cannot_be_written_keeps_no_other_of_its_batch_from_being_made(tmp_path: Path) -> None:
    async def main(journal: SqliteJournal) -> tuple[ToolResult, ...]:
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        calls = [call(), call(id="c2", amount=10**5000)]
        return (await run_batch(registry, calls, scope=trio.CancelScope())).results

    first, second = opened(tmp_path, main)
    assert isinstance(first, ToolSuccess)
    assert code(second) == JOURNAL_FAILED
    assert entered == ["pay"]
