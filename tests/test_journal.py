"""The journal through a registry: what is recorded when, what comes back, and what is true after the owner is gone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from journals import call, code, crashed, entered, executed, kinds, opened, pay, put, recorded, writer_of

from trio_tools import (
    DUPLICATE_CALL,
    JOURNAL_FAILED,
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
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
    SqliteJournal,
    list_conversations,
)
from trio_tools.journal._codec import decoded, encoded
from trio_tools.journal._recovery import histories
from trio_tools.journal._timeline import lanes
from trio_tools.testing import GatedTool, RecordingObserver, ScriptedApprover


@pytest.fixture(autouse=True)
def nobody_has_entered() -> None:
    entered.clear()


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

        async def cancels(rows: Any, written: Any = None) -> None:
            if rows[0][2] == "dispatched":
                scope.cancel()
            await insert(rows, written)

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

        async def fails(rows: Any, written: Any = None) -> None:
            nonlocal count
            count += 1
            if count == 3 or (count == 4 and not may_be_closed):
                raise ValueError("what cannot be written")
            await insert(rows, written)

        writer.insert = fails
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        calls = [call(id=f"c{n}") for n in (1, 2, 3)]
        first = await run_batch(registry, calls, scope=trio.CancelScope())
        return [*first.results, await registry.execute(call(id="c1"), scope=trio.CancelScope())]

    *refused, again = opened(tmp_path, main)
    assert [code(one) for one in refused] == [JOURNAL_FAILED] * 3
    assert code(again) == (None if may_be_closed else DUPLICATE_CALL)
    assert ("call 'c1' of conversation 'a' stays open" in caplog.text) is not may_be_closed


@pytest.mark.parametrize("recorded_before", [False, True])
@pytest.mark.parametrize("batch", [False, True])
def test_an_interrupt_while_the_first_records_are_written_leaves_no_call_open(
    tmp_path: Path, batch: bool, recorded_before: bool
) -> None:
    """Ctrl-C comes while the disk is at work: it is raised when it is known what has been written."""
    if recorded_before:
        crashed(tmp_path, "put", "call", "dispatched")

    async def main(journal: SqliteJournal) -> ToolResult:
        registry = ToolRegistry([put], journal=journal.conversation("a"))
        writer = writer_of(journal)
        carry_out, go_on = writer._carry_out, threading.Event()  # pyright: ignore[reportPrivateUsage] - to come in between
        token = trio.lowlevel.current_trio_token()

        def interrupted(requests: Any) -> None:
            writer._carry_out = carry_out  # pyright: ignore[reportPrivateUsage]
            token.run_sync_soon(signal.raise_signal, signal.SIGINT)
            token.run_sync_soon(go_on.set)
            go_on.wait()
            carry_out(requests)

        writer._carry_out = interrupted  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(KeyboardInterrupt):
            if batch:
                await run_batch(registry, [call("put"), call("put", id="c2")], scope=trio.CancelScope())
            else:
                await registry.execute(call("put"), scope=trio.CancelScope())
        assert entered == []
        closed = [one for one in recorded(tmp_path) if one.kind == "result"][-1].data["result"]
        assert closed["body"] == ("interrupted" if recorded_before else "not-started")
        return await registry.execute(call("put"), scope=trio.CancelScope())

    assert isinstance(opened(tmp_path, main), ToolSuccess)
    assert list_conversations(tmp_path / "j.db")[0].open == 0


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
