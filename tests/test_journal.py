"""The journal through a registry: what is recorded when, what comes back, and what is true after the owner is gone."""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from trio_tools import (
    DUPLICATE_CALL,
    INVALID_OUTPUT,
    JOURNAL_FAILED,
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    Accept,
    AfterDecision,
    AfterPolicy,
    Allow,
    Ask,
    BatchControl,
    BeforeDecision,
    CancelCause,
    Context,
    Effects,
    ImageContent,
    Reconciled,
    RecordedCall,
    ResourceLink,
    TextContent,
    ToolCall,
    ToolDispatch,
    ToolExecution,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    ToolRun,
    ToolSuccess,
    run_batch,
    tool,
)
from trio_tools._recording import Asked, Opening, Recorder
from trio_tools.journal import (
    JournalFailedError,
    RecoveredCall,
    SqliteJournal,
    _conversation,
    _journal,
    _writer,
    open_journal,
)
from trio_tools.journal._codec import decoded, encoded
from trio_tools.journal._database import all_events, reading
from trio_tools.journal._failures import ConflictError
from trio_tools.journal._format import Event
from trio_tools.journal._recovery import histories
from trio_tools.journal._timeline import lanes
from trio_tools.journal._writer import Writer
from trio_tools.testing import GatedTool, RecordingObserver, ScriptedApprover

Main = Callable[[SqliteJournal], Awaitable[Any]]
entered: list[str] = []


@pytest.fixture(autouse=True)
def nobody_has_entered() -> None:
    entered.clear()


@tool
async def pay(amount: int) -> str:
    entered.append("pay")
    return f"paid {amount}"


@tool(effects="read-only")
async def look(amount: int) -> str:
    entered.append("look")
    return f"seen {amount}"


@tool(effects="idempotent")
async def put(run: ToolRun, amount: int) -> str:
    entered.append("put")
    key = run.idempotency_key
    return key if key == run.idempotency_key else "another one"


def writer_of(journal: SqliteJournal) -> Writer:
    return journal._home.writer  # pyright: ignore[reportPrivateUsage] - to come in between


def call(name: str = "pay", id: str = "c1", amount: int = 3) -> ToolCall:
    return ToolCall(id=id, name=name, arguments={"amount": amount})


def opened(path: Path, main: Main, **options: Any) -> Any:
    """Run ``main`` with the journal open."""

    async def run() -> Any:
        async with open_journal(path / "j.db", **options) as journal:
            return await main(journal)

    return trio.run(run)


def executed(path: Path, *calls: ToolCall, registry: Callable[..., ToolRegistry] | None = None) -> list[ToolResult]:
    """The results of these calls, one after the other, in the conversation ``a``."""

    async def main(journal: SqliteJournal) -> list[ToolResult]:
        made = (registry or ToolRegistry)([pay, look, put], journal=journal.conversation("a"))
        return [await made.execute(one, scope=trio.CancelScope()) for one in calls]

    return opened(path, main)


def recorded(path: Path) -> list[Event]:
    with reading(path / "j.db") as connection:
        return all_events(connection)


def kinds(path: Path) -> list[tuple[str, str]]:
    return [(event.call, event.kind) for event in recorded(path)]


def crashed(path: Path, name: str, *kinds: str) -> None:
    """As if the owner had been killed when it had recorded so much of the call ``c1``."""

    async def main(journal: SqliteJournal) -> None:
        registry = ToolRegistry([pay, look, put], journal=journal.conversation("a"))
        (opening,) = await registry.begun([call(name)], course=True)
        assert opening.entry is not None
        if "dispatched" in kinds:
            await opening.entry.dispatched({"pay": pay, "look": look, "put": put}[name])
        if "ended" in kinds:
            await opening.entry.ended(ToolSuccess(value="paid", content="paid", body="finished"))

    opened(path, main)


def code(result: ToolResult) -> str | None:
    return result.error.code if isinstance(result, ToolFailure) else None


# ---- what is recorded ------------------------------------------------------------------------------------------------


def test_a_call_is_recorded_before_and_behind_its_body_and_given_back_ever_after(tmp_path: Path) -> None:
    (first,) = executed(tmp_path, call())
    assert isinstance(first, ToolSuccess)
    assert kinds(tmp_path) == [("c1", "call"), ("c1", "dispatched"), ("c1", "result")]
    again, other = executed(tmp_path, call(), call(amount=4))
    assert again == first
    assert code(other) == DUPLICATE_CALL
    assert entered == ["pay"]
    assert (tmp_path / "j.db").stat().st_mode & 0o777 == 0o600


def test_a_mark_stands_between_approval_and_body_and_replays_ask_nobody(tmp_path: Path) -> None:
    approver, observer = ScriptedApprover(["allowed-once"]), RecordingObserver()

    async def ask(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
        return Ask("money")

    def registry(tools: Any, journal: Any) -> ToolRegistry:
        made = ToolRegistry(tools, approver=approver, parent=ToolRegistry(journal=journal))
        made.before(ask)
        made.observe(observer)
        return made

    results = executed(tmp_path, call(), call(), registry=registry)
    assert results[0] == results[1]
    assert kinds(tmp_path) == [("c1", one) for one in ("call", "approval", "dispatched", "result")]
    assert len(observer.results) == len(approver.asked) == 1


def test_each_attempt_has_a_mark_and_the_key_is_the_same(tmp_path: Path) -> None:
    keys: list[str] = []

    @tool
    async def fails(run: ToolRun) -> None:
        keys.append(run.idempotency_key)
        raise LookupError

    async def twice(dispatch: ToolDispatch, call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        await call_next()
        return await call_next()

    async def main(journal: SqliteJournal) -> None:
        registry = ToolRegistry([fails], journal=journal.conversation("a"))
        registry.around(twice)
        with trio.CancelScope() as scope:
            await registry.execute(ToolCall(id="c1", name="fails"), scope=scope)

    opened(tmp_path, main)
    assert kinds(tmp_path) == [("c1", one) for one in ("call", "dispatched", "dispatched", "result")]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_without_a_journal_each_call_has_a_key_of_its_own() -> None:
    async def main() -> list[ToolResult]:
        registry = ToolRegistry([put])
        return [await registry.execute(call("put"), scope=trio.CancelScope()) for _ in range(2)]

    first, second = trio.run(main)
    assert isinstance(first, ToolSuccess)
    assert first != second


def test_a_cancellation_while_the_mark_is_written_leaves_the_body_unentered(tmp_path: Path) -> None:
    async def allow(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
        return Allow()

    async def main(journal: SqliteJournal) -> ToolResult:
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        registry.before(allow)
        writer, scope = writer_of(journal), trio.CancelScope()
        insert = writer.insert

        async def cancels(rows: Any) -> None:
            if rows[0][2] == "dispatched":
                scope.cancel()
            await insert(rows)

        writer.insert = cancels
        return await registry.execute(call(), scope=scope)

    result = opened(tmp_path, main)
    assert (code(result), result.body, entered) == (TOOL_ABORTED_BEFORE_DISPATCH, "not-started", [])
    assert kinds(tmp_path)[-1] == ("c1", "result")
    (again,) = executed(tmp_path, call())
    assert again == result


def test_unusable_calls_and_nested_ones_are_recorded_too(tmp_path: Path) -> None:
    @tool
    async def outer(run: ToolRun) -> str:
        result = await run.call_tool("pay", {"amount": 1})
        return str(result.is_error)

    async def main(journal: SqliteJournal) -> list[ToolResult]:
        registry = ToolRegistry([outer, pay], journal=journal.conversation("a"))
        calls = [
            ToolCall(id="n", name="nobody"),
            ToolCall.from_json(id="m", name="pay", arguments="{"),
            ToolCall(id="b", name="pay", arguments={"amount": b""}),
            ToolCall(id="o", name="outer"),
        ]
        return [await registry.execute(one, scope=trio.CancelScope()) for one in calls]

    opened(tmp_path, main)
    events = {(event.call, event.kind): event.data for event in recorded(tmp_path)}
    assert ("n", "result") in events
    assert "malformed" in events["m", "call"]["arguments"]
    assert "malformed" in events["b", "call"]["arguments"]
    assert events["o:1", "call"]["root"] == "o"
    assert events["o:1", "result"]["result"]["value"] == "paid 1"


def test_what_is_redacted_is_never_written(tmp_path: Path) -> None:
    def redact(kind: str, data: Any) -> Any:
        return {**data, "amount": "?"} if kind == "arguments" else {**data, "value": "secret", "content": []}

    async def main(journal: SqliteJournal) -> None:
        with trio.CancelScope() as scope:
            await ToolRegistry([pay], journal=journal.conversation("a")).execute(call(amount=777), scope=scope)

    opened(tmp_path, main, redact=redact)
    assert b"777" not in (tmp_path / "j.db").read_bytes()
    (again,) = executed(tmp_path, call(amount=777))
    assert isinstance(again, ToolSuccess)
    assert again.value == "secret"


def test_results_of_every_kind_come_back_as_they_were() -> None:
    content = (TextContent("a"), ImageContent(data="aa==", mime_type="image/png"), ResourceLink(uri="u", name="n"))
    context = Context("told", source="me")
    success = ToolSuccess(
        value={"a": [1, None]},
        content=content,
        meta={"m": 1},
        contexts=(context,),
        concludes_turn=True,
        body="finished",
    )
    cause = CancelCause(source="sibling", reason="r", call_id="c")
    failure = ToolFailure.from_message("no", code="X", name="Y", contexts=[context], cause=cause, partial=content)
    whole = ToolFailure(error=failure.error, content=content, superseded=success, cause=None)
    for result in (success, failure, whole):
        assert decoded(encoded(result)) == result


# ---- when the owner is gone ------------------------------------------------------------------------------------------


def test_what_was_never_marked_is_safe_to_make_again_and_is(tmp_path: Path) -> None:
    crashed(tmp_path, "pay")

    async def main(journal: SqliteJournal) -> ToolResult:
        (one,) = journal.recovered
        assert (one.call_id, one.name, code(one.result)) == ("c1", "pay", TOOL_ABORTED_BEFORE_DISPATCH)
        return await ToolRegistry([pay], journal=journal.conversation("a")).execute(call(), scope=trio.CancelScope())

    result = opened(tmp_path, main)
    assert isinstance(result, ToolSuccess)
    assert [kind for _, kind in kinds(tmp_path)] == ["call", "result", "resumed", "dispatched", "result"]
    assert executed(tmp_path, call()) == [result]
    assert entered == ["pay"]


@pytest.mark.parametrize(("name", "again"), [("pay", []), ("look", ["look"]), ("put", ["put"])])
def test_what_was_entered_is_made_again_only_if_the_tool_says_so(tmp_path: Path, name: str, again: list[str]) -> None:
    crashed(tmp_path, name, "dispatched")
    first, second = executed(tmp_path, call(name), call(name))
    assert first == second
    assert entered == again
    if not again:
        assert isinstance(first, ToolFailure)
        assert (first.error.code, first.body, first.cause) == (TOOL_ABORTED, "interrupted", CancelCause(source="crash"))
    events = [event for event in recorded(tmp_path) if event.kind == "result"]
    assert [event.data["by"] for event in events] == ["recovery"] + ["live"] * len(again)


def test_a_key_is_the_same_behind_a_crash_and_another_one_elsewhere(tmp_path: Path) -> None:
    async def main(journal: SqliteJournal) -> str:
        (opening,) = await ToolRegistry([put], journal=journal.conversation("a")).begun([call("put")], course=False)
        assert opening.entry is not None
        return opening.entry.idempotency_key

    key = opened(tmp_path, main)
    first, other = executed(tmp_path, call("put"), call("put", "c2"))
    assert isinstance(first, ToolSuccess)
    assert isinstance(other, ToolSuccess)
    assert first.value == key != other.value


@pytest.mark.parametrize(
    ("found", "expected", "bodies"),
    [
        (ToolSuccess(value="it was paid", content="it was paid", body="finished"), None, 0),
        (ToolFailure.from_message("no money", code="E_MONEY"), "E_MONEY", 0),
        ("did-not-happen", None, 1),
        ("unknown", TOOL_ABORTED, 0),
        (LookupError("the bank is closed"), TOOL_ABORTED, 0),
    ],
)
def test_a_tool_may_find_out_what_became_of_a_call(
    tmp_path: Path, found: Any, expected: str | None, bodies: int
) -> None:
    crashed(tmp_path, "pay", "dispatched")
    asked: list[RecordedCall] = []

    async def reconcile(call: RecordedCall) -> Reconciled:
        await trio.lowlevel.checkpoint()
        asked.append(call)
        if isinstance(found, Exception):
            raise found
        return found

    @tool(name="pay", reconcile=reconcile)
    async def pays(amount: int) -> str:
        entered.append("pay")
        return "paid"

    async def main(journal: SqliteJournal) -> list[ToolResult]:
        registry = ToolRegistry([pays], journal=journal.conversation("a"))
        return [await registry.execute(call(), scope=trio.CancelScope()) for _ in range(2)]

    first, second = opened(tmp_path, main)
    assert first == second
    assert code(first) == expected
    assert len(entered) == bodies
    assert (asked[0].conversation, asked[0].call_id, asked[0].arguments) == ("a", "c1", {"amount": 3})


def test_what_a_tool_finds_out_is_redacted_judged_and_told_like_any_outcome(tmp_path: Path) -> None:
    crashed(tmp_path, "pay", "dispatched")
    observer, judged = RecordingObserver(), list[ToolResult]()

    async def reconcile(call: RecordedCall) -> Reconciled:
        return ToolSuccess(value="card 4711", content="card 4711")

    async def after(
        execution: ToolExecution, result: ToolResult, call_next: Callable[[], Awaitable[AfterDecision]]
    ) -> AfterDecision:
        judged.append(result)
        return Accept()

    async def main(journal: SqliteJournal) -> ToolResult:
        registry = ToolRegistry([tool(pay.function, reconcile=reconcile)], journal=journal.conversation("a"))
        registry.after(after)
        registry.observe(observer)
        return await registry.execute(call(), scope=trio.CancelScope())

    def redact(kind: str, data: Any) -> Any:
        return data if kind == "arguments" else {**data, "value": "card", "content": []}

    result = opened(tmp_path, main, redact=redact)
    assert result.body == "finished"
    assert observer.results == judged == [result]
    assert not any(b"4711" in file.read_bytes() for file in tmp_path.iterdir())
    assert [event.data["by"] for event in recorded(tmp_path)[-2:]] == ["reconcile", "live"]


def test_a_cancelled_or_interrupted_inquiry_changes_nothing(tmp_path: Path) -> None:
    crashed(tmp_path, "pay", "dispatched")

    scopes: list[trio.CancelScope] = []

    async def waits(call: RecordedCall) -> Reconciled:
        scopes[0].cancel()
        await trio.sleep_forever()
        return "unknown"

    async def interrupts(call: RecordedCall) -> Reconciled:
        raise KeyboardInterrupt

    async def main(journal: SqliteJournal) -> ToolResult:
        conversation = journal.conversation("a")
        broken = ToolRegistry([tool(pay.function, reconcile=interrupts)], journal=conversation)
        with pytest.raises(KeyboardInterrupt):
            await broken.execute(call(), scope=trio.CancelScope())
        scopes.append(trio.CancelScope())
        registry = ToolRegistry([tool(pay.function, reconcile=waits)], journal=conversation)
        return await registry.execute(call(), scope=scopes[0])

    assert code(opened(tmp_path, main)) == TOOL_ABORTED
    assert entered == []


def test_an_outcome_that_nobody_had_judged_is_judged_when_it_is_asked_for(tmp_path: Path) -> None:
    crashed(tmp_path, "pay", "dispatched", "ended")
    judged: list[ToolResult] = []

    async def after(
        execution: ToolExecution, result: ToolResult, call_next: Callable[[], Awaitable[AfterDecision]]
    ) -> AfterDecision:
        judged.append(result)
        return Accept(value="checked")

    def registry(tools: Any, journal: Any) -> ToolRegistry:
        made = ToolRegistry(tools, journal=journal)
        policy: AfterPolicy = after
        made.after(policy)
        return made

    first, second = executed(tmp_path, call(), call(), registry=registry)
    assert first == second
    assert isinstance(first, ToolSuccess)
    assert (first.value, first.body) == ("checked", "finished")
    assert len(judged) == 1
    assert entered == []
    executed(tmp_path, call(id="c2"), registry=registry)
    assert [kind for call_id, kind in kinds(tmp_path) if call_id == "c2"] == ["call", "dispatched", "ended", "result"]


def test_an_outcome_that_nobody_has_judged_is_kept_however_often_the_owner_goes(tmp_path: Path) -> None:
    crashed(tmp_path, "pay", "dispatched", "ended")

    async def resumes(journal: SqliteJournal) -> ToolResult | None:
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        (opening,) = await registry.begun([call()], course=True)
        return opening.given

    assert opened(tmp_path, resumes) == opened(tmp_path, resumes)
    (result,) = executed(tmp_path, call())
    assert isinstance(result, ToolSuccess)
    assert result.value == "paid"
    assert entered == []


@pytest.mark.parametrize("wrong", [True, None, "happened", 3])
def test_what_is_no_answer_of_a_reconcile_is_told_and_changes_nothing(
    tmp_path: Path, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    crashed(tmp_path, "pay", "dispatched")

    async def reconcile(call: RecordedCall) -> Reconciled:
        return wrong

    async def main(journal: SqliteJournal) -> ToolResult:
        registry = ToolRegistry([tool(pay.function, reconcile=reconcile)], journal=journal.conversation("a"))
        return await registry.execute(call(), scope=trio.CancelScope())

    assert code(opened(tmp_path, main)) == TOOL_ABORTED
    assert "reconcile must return a ToolResult, 'did-not-happen' or 'unknown', not" in caplog.text


def test_an_outcome_that_is_found_out_is_held_against_the_output_contract(tmp_path: Path) -> None:
    crashed(tmp_path, "pay", "dispatched")

    async def reconcile(call: RecordedCall) -> Reconciled:
        return ToolSuccess(value=17, content="17")

    async def main(journal: SqliteJournal) -> ToolResult:
        registry = ToolRegistry([tool(pay.function, reconcile=reconcile)], journal=journal.conversation("a"))
        return await registry.execute(call(), scope=trio.CancelScope())

    result = opened(tmp_path, main)
    assert (code(result), result.body) == (INVALID_OUTPUT, "finished")


async def _of_nothing() -> Reconciled:
    return "unknown"


@pytest.mark.parametrize("wrong", ["unknown", _of_nothing])
def test_what_is_no_reconcile_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"reconcile .*\(call\)"):
        tool(pay.function, reconcile=wrong)


# ---- a tool that takes the name of another one -----------------------------------------------------------------------


class Late:
    """A conversation in which something happens while the beginning of a call is written."""

    def __init__(self, conversation: Recorder, happens: Callable[[], object]) -> None:
        self._conversation = conversation
        self._happens = happens

    async def begin(self, calls: Sequence[Asked], /) -> Sequence[Opening]:
        openings = await self._conversation.begin(calls)
        self._happens()
        return openings


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize(
    ("before", "after", "again"),
    [("read-only", "mutating", False), ("idempotent", "mutating", False), ("mutating", "read-only", True)],
)
def test_the_effects_are_those_of_the_tool_whose_body_is_entered(
    tmp_path: Path, before: Effects, after: Effects, again: bool, gated: bool
) -> None:
    async def body(amount: int) -> str:
        entered.append("body")
        await trio.lowlevel.checkpoint()
        return "done"

    async def main(journal: SqliteJournal) -> None:
        def swap() -> None:
            one.close()
            registry.register(tool(body, name="pay", effects=after))

        registry = ToolRegistry(journal=Late(journal.conversation("a"), swap))
        one = registry.register(tool(body, name="pay", effects=before))
        if gated:
            registry.guard(lambda execution: None)
        await registry.execute(call(), scope=trio.CancelScope())

    opened(tmp_path, main)
    assert entered == ["body"]
    up_to_the_mark = [event for event in recorded(tmp_path) if event.kind in ("call", "dispatched")]
    ((_, history),) = histories(up_to_the_mark).items()
    assert history.effects == after
    marked = [(event.number, event.data) for event in up_to_the_mark if event.kind == "dispatched"]
    assert marked == ([(1, {})] if not gated else []) + [(1 if gated else 2, {"effects": after})]
    assert (history.effects != "mutating") == again


# ---- batches ---------------------------------------------------------------------------------------------------------


def test_a_batch_is_recorded_before_any_of_it_starts_and_given_back_as_a_whole(tmp_path: Path) -> None:
    calls = [call(id="c1"), call(id="c2"), call(id="c1"), call("nobody", "c3")]

    async def main(journal: SqliteJournal) -> list[ToolResult]:
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        return list((await run_batch(registry, calls, scope=trio.CancelScope())).results)

    first = opened(tmp_path, main)
    assert [code(one) for one in first] == [None, None, DUPLICATE_CALL, "UNKNOWN_TOOL"]
    assert kinds(tmp_path)[:3] == [("c1", "call"), ("c2", "call"), ("c3", "call")]
    assert opened(tmp_path, main) == first
    assert len(entered) == 2
    calls.append(call(id="c4"))
    *again, new = opened(tmp_path, main)
    assert again == first
    assert isinstance(new, ToolSuccess)
    assert len(entered) == 3


def test_calls_of_a_batch_that_never_start_have_results_too(tmp_path: Path) -> None:
    async def main(journal: SqliteJournal) -> None:
        registry, control = ToolRegistry([pay], journal=journal.conversation("a")), BatchControl()
        with trio.CancelScope() as scope:
            await run_batch(
                registry,
                [call(id="c1"), call(id="c2")],
                scope=scope,
                control=control,
                on_start=lambda index, call: control.stop(),
            )

    opened(tmp_path, main)
    opened(tmp_path, main)  # what is recorded already is not recorded again
    results = {event.call: event.data for event in recorded(tmp_path) if event.kind == "result"}
    assert results["c2"]["result"]["error"]["code"] == TOOL_ABORTED_BEFORE_DISPATCH
    assert results["c2"]["by"] == "live"


def test_an_interrupt_while_a_batch_begins_leaves_no_call_open(tmp_path: Path) -> None:
    executed(tmp_path, call(id="c2"))

    async def leaves_one_entered(journal: SqliteJournal) -> None:
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        first, second = await registry.begun([call(id="c3"), call(id="c4")], course=True)
        assert first.entry is not None
        assert second.entry is not None
        await first.entry.dispatched(pay)
        await first.entry.ended(ToolSuccess(value="paid", content="paid", body="finished"))
        await second.entry.dispatched(pay)

    opened(tmp_path, leaves_one_entered)
    entered.clear()

    async def interrupts(call: RecordedCall) -> Reconciled:
        raise KeyboardInterrupt

    async def main(journal: SqliteJournal) -> list[ToolResult]:
        conversation = journal.conversation("a")
        registry = ToolRegistry([tool(pay.function, reconcile=interrupts)], journal=conversation)
        with pytest.raises(KeyboardInterrupt):
            await run_batch(registry, [call(id=f"c{n}") for n in (2, 3, 5, 4)], scope=trio.CancelScope())
        registry = ToolRegistry([pay], journal=conversation)
        calls = [call(id=f"c{n}") for n in (2, 3, 5, 4)]
        return list((await run_batch(registry, calls, scope=trio.CancelScope())).results)

    results = opened(tmp_path, main)
    assert [one.value if isinstance(one, ToolSuccess) else code(one) for one in results] == [
        "paid 3",
        "paid",
        "paid 3",
        TOOL_ABORTED,
    ]
    assert entered == ["pay"]
    given_up = next(event.data for event in recorded(tmp_path) if event.call == "c5" and event.kind == "result")
    assert given_up["result"]["cause"] == {"source": "interrupt", "reason": "KeyboardInterrupt", "call_id": None}
    assert [mark.kind for mark in lanes(recorded(tmp_path))[-1].marks] == ["cancel", "resumed", "success"]


@pytest.mark.parametrize("may_be_closed", [True, False])
def test_a_batch_that_is_refused_while_it_begins_leaves_no_call_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, may_be_closed: bool
) -> None:
    executed(tmp_path, call(id="c2"))

    async def main(journal: SqliteJournal) -> list[ToolResult]:
        writer = writer_of(journal)
        insert, count = writer.insert, 0

        async def fails(rows: Any) -> None:
            nonlocal count
            count += 1
            if count == 3 or (count == 4 and not may_be_closed):
                raise ValueError("what cannot be written")
            await insert(rows)

        writer.insert = fails
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        calls = [call(id=f"c{n}") for n in (1, 2, 3)]
        first = await run_batch(registry, calls, scope=trio.CancelScope())
        return [*first.results, await registry.execute(call(id="c1"), scope=trio.CancelScope())]

    *refused, again = opened(tmp_path, main)
    assert [code(one) for one in refused] == [JOURNAL_FAILED] * 3
    assert code(again) == (None if may_be_closed else DUPLICATE_CALL)
    assert ("call 'c1' of conversation 'a' stays open" in caplog.text) is not may_be_closed


def test_patience_counts_for_a_stranger_who_holds_the_lock_of_sqlite(tmp_path: Path) -> None:
    async def main(journal: SqliteJournal) -> int:
        ((found,),) = await writer_of(journal).ask(lambda one: one.execute("PRAGMA busy_timeout").fetchall())
        return found

    assert opened(tmp_path, main) == 30_000
    assert opened(tmp_path, main, patience=7.5) == 7_500
    assert opened(tmp_path, main, patience=math.inf) == 1_000_000_000


def test_an_id_is_not_made_twice_at_once(tmp_path: Path) -> None:
    gated = GatedTool()

    async def main(journal: SqliteJournal) -> ToolResult:
        registry = ToolRegistry([gated.tool], journal=journal.conversation("a"))
        async with trio.open_nursery() as nursery:

            async def first() -> None:
                await registry.execute(ToolCall(id="c1", name="gated"), scope=nursery.cancel_scope)

            nursery.start_soon(first)
            await gated.entered.wait()
            second = await registry.execute(ToolCall(id="c1", name="gated"), scope=nursery.cancel_scope)
            unnamed: list[tuple[Any, type[Exception]]] = [(5, TypeError), ("", ValueError), ("\ud800", ValueError)]
            for wrong, error in unnamed:
                with pytest.raises(error, match="a conversation"):
                    await journal.prune(wrong)
            with pytest.raises(ValueError, match="prune it when they are answered"):
                await journal.prune("a")
            gated.released.set()
        assert await journal.prune("a") == 3
        return second

    assert code(opened(tmp_path, main)) == DUPLICATE_CALL
    assert recorded(tmp_path) == []
    (again,) = executed(tmp_path, call())
    assert isinstance(again, ToolSuccess)


# ---- when the disk fails ---------------------------------------------------------------------------------------------


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
    assert "is NOT recorded: after a crash it counts as ABORTED" in caplog.text
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
def test_what_hides_the_form_of_a_result_is_told_and_keeps_nobody_from_opening(
    form: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> None:
        def hides(kind: str, data: Any) -> Any:
            return data if kind == "arguments" else form

        async with open_journal(tmp_path / "j.db", redact=hides) as journal:
            registry = ToolRegistry([pay], journal=journal.conversation("a"))
            assert isinstance(await registry.execute(call(), scope=trio.CancelScope()), ToolSuccess)

    trio.run(program)
    assert "redact must keep the form of a result" in caplog.text
    assert "is NOT recorded" in caplog.text

    async def then() -> tuple[RecoveredCall, ...]:
        async with open_journal(tmp_path / "j.db") as journal:
            return journal.recovered

    (left,) = trio.run(then)
    assert isinstance(left.result, ToolFailure)


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


def test_two_that_make_a_recovered_call_again_at_once_do_not_keep_others_from_theirs(tmp_path: Path) -> None:
    crashed(tmp_path, "pay", "call")

    async def main(journal: SqliteJournal) -> list[ToolResult]:
        async def lost(self: Any, history: Any) -> None:
            raise ConflictError("there is such a record already")

        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(_conversation, "_Entry", type("Entry", (_conversation._Entry,), {"resume": lost}))  # pyright: ignore[reportPrivateUsage] - the loser
            batch = [call(id="new"), call(id="c1")]
            return [*(await run_batch(registry, batch, scope=trio.CancelScope())).results]

    new, again = opened(tmp_path, main)
    assert isinstance(new, ToolSuccess)
    assert isinstance(again, ToolFailure)
    assert again.error.code == DUPLICATE_CALL


def test_more_than_one_commit_can_take_is_taken_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_writer, "_MOST", 1)
    assert isinstance(executed(tmp_path, call())[0], ToolSuccess)


def test_a_program_that_has_ended_is_not_told(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "j.db", check_same_thread=False)
    made: list[Writer] = []

    async def main() -> None:
        made.append(Writer(connection, lambda seq: None, 1.0))

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
