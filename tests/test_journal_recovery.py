"""What a journal does about the calls of an owner that is gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from journals import call, code, crashed, entered, executed, kinds, look, opened, pay, put, recorded

from trio_tools import (
    DUPLICATE_CALL,
    INVALID_OUTPUT,
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    Accept,
    AfterDecision,
    AfterPolicy,
    BatchControl,
    BeforeDecision,
    CancelCause,
    Deny,
    Reconciled,
    RecordedCall,
    ToolCall,
    ToolDispatch,
    ToolError,
    ToolExecution,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    ToolSuccess,
    run_batch,
    tool,
)
from trio_tools.journal import (
    SqliteJournal,
)
from trio_tools.journal._entry import CallRecords
from trio_tools.journal._failures import ConflictError
from trio_tools.testing import RecordingObserver


@pytest.fixture(autouse=True)
def nobody_has_entered() -> None:
    entered.clear()


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


def test_two_that_make_a_recovered_call_again_at_once_do_not_keep_others_from_theirs(tmp_path: Path) -> None:
    crashed(tmp_path, "pay", "call")

    async def main(journal: SqliteJournal) -> list[ToolResult]:
        async def lost(self: Any, history: Any) -> None:
            raise ConflictError("there is such a record already")

        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(CallRecords, "resume", lost)  # the loser
            batch = [call(id="new"), call(id="c1")]
            return [*(await run_batch(registry, batch, scope=trio.CancelScope())).results]

    new, again = opened(tmp_path, main)
    assert isinstance(new, ToolSuccess)
    assert isinstance(again, ToolFailure)
    assert again.error.code == DUPLICATE_CALL


# ---- a run that does not come to the work ----------------------------------------------------------------------------


async def made(registry: ToolRegistry, how: str, request: ToolCall) -> ToolResult:
    """Of a call that is made again, and does not come to its work."""
    scope = trio.CancelScope()
    match how:
        case "cancelled":
            scope.cancel()
            return await registry.execute(request, scope=scope)
        case "batch cancelled":
            scope.cancel()
            return (await run_batch(registry, [request], scope=scope)).results[0]
        case "batch stopped":
            control = BatchControl()

            def stop(index: int, started: ToolCall) -> None:
                control.stop()

            calls = [call(id="new"), request]
            return (await run_batch(registry, calls, scope=scope, control=control, on_start=stop)).results[1]
        case "denied":

            async def deny(execution: ToolExecution, call_next: object) -> BeforeDecision:
                return Deny("not again")

            with registry.before(deny):
                return await registry.execute(request, scope=scope)
        case _:
            raise AssertionError(how)


EARLY = ["cancelled", "batch cancelled", "batch stopped", "denied"]


@pytest.mark.parametrize("how", EARLY)
def test_a_call_that_was_entered_is_never_said_not_to_have_been(tmp_path: Path, how: str) -> None:
    """Made again, as its tool allows, and ended early; and then made again indeed."""
    crashed(tmp_path, "put", "call", "dispatched")

    async def main(journal: SqliteJournal) -> tuple[ToolResult, ToolResult]:
        registry = ToolRegistry([pay, put], journal=journal.conversation("a"))
        early = await made(registry, how, call("put"))
        assert "put" not in entered
        return early, await registry.execute(call("put"), scope=trio.CancelScope())

    early, late = opened(tmp_path, main)
    assert isinstance(early, ToolFailure)
    assert (early.error.code, early.body, early.cause) == (TOOL_ABORTED, "interrupted", CancelCause(source="crash"))
    assert isinstance(late, ToolSuccess)


def test_a_call_that_is_cancelled_in_a_wrapper_has_been_entered_before(tmp_path: Path) -> None:
    crashed(tmp_path, "put", "call", "dispatched")
    scope = trio.CancelScope()

    async def waits(dispatch: ToolDispatch, call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        scope.cancel()
        return await call_next()

    async def main(journal: SqliteJournal) -> ToolResult:
        registry = ToolRegistry([put], journal=journal.conversation("a"))
        registry.around(waits)
        return await registry.execute(call("put"), scope=scope)

    result = opened(tmp_path, main)
    assert (code(result), result.body, entered) == (TOOL_ABORTED, "interrupted", [])


@pytest.mark.parametrize("how", [*EARLY[:3], "tool gone", "other parameters"])
def test_an_outcome_that_nobody_has_judged_outlasts_a_run_that_does_not_come_to_it(tmp_path: Path, how: str) -> None:
    crashed(tmp_path, "pay", "call", "dispatched", "ended")

    @tool(name="pay")
    async def other(amount: int, currency: str) -> str:
        raise AssertionError

    async def main(journal: SqliteJournal) -> tuple[ToolResult, ToolResult]:
        conversation = journal.conversation("a")
        now = ToolRegistry([pay], journal=conversation)
        then = {"tool gone": [], "other parameters": [other]}.get(how)
        if then is None:
            early = await made(now, how, call())
        else:
            early = await ToolRegistry(then, journal=conversation).execute(call(), scope=trio.CancelScope())
        return early, await now.execute(call(), scope=trio.CancelScope())

    early, late = opened(tmp_path, main)
    assert isinstance(early, ToolFailure)
    assert (early.error.code, early.body, early.superseded) == (TOOL_ABORTED, "finished", late)
    assert (late.value, late.body) == ("paid", "finished")
    assert executed(tmp_path, call()) == [late]


def test_an_outcome_whose_judgement_is_cancelled_is_kept_beside_the_abort(tmp_path: Path) -> None:
    crashed(tmp_path, "pay", "call", "dispatched", "ended")
    scope = trio.CancelScope()

    async def judge(execution: ToolExecution, result: ToolResult, call_next: object) -> AfterDecision:
        scope.cancel()
        return Accept()

    async def main(journal: SqliteJournal) -> ToolResult:
        registry = ToolRegistry([pay], journal=journal.conversation("a"))
        registry.after(judge)
        return await registry.execute(call(), scope=scope)

    result = opened(tmp_path, main)
    assert isinstance(result, ToolFailure)
    assert (result.error.code, result.body) == (TOOL_ABORTED, "finished")
    assert isinstance(result.superseded, ToolSuccess)


@pytest.mark.parametrize("ended", ["fail fast", "stopped", "cancelled"])
def test_a_batch_that_ends_early_gives_back_what_is_recorded(tmp_path: Path, ended: str) -> None:
    @tool
    async def fails() -> None:
        raise ToolError("no")

    async def main(journal: SqliteJournal) -> None:
        registry = ToolRegistry([fails, pay], journal=journal.conversation("a"))
        calls, control = [ToolCall(id="c0", name="fails"), call(), call(id="c2")], BatchControl()
        first = (await run_batch(registry, calls, scope=trio.CancelScope())).results
        scope = trio.CancelScope()
        if ended == "cancelled":
            scope.cancel()

        def started(index: int, request: ToolCall) -> None:
            if ended == "stopped":
                control.stop()

        again = await run_batch(
            registry, calls, scope=scope, control=control, on_start=started, fail_fast=True, max_parallel=1
        )
        assert again.results == first

    opened(tmp_path, main)
    assert entered == ["pay", "pay"]


def test_what_a_reconcile_has_found_and_cannot_be_recorded_leaves_the_call_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[RecordedCall] = []

    async def found(recorded: RecordedCall) -> Reconciled:
        asked.append(recorded)
        return ToolSuccess(value="paid", content="secret")

    @tool(name="pay", reconcile=found)
    async def payment(amount: int) -> str:
        raise AssertionError

    def refuses(kind: str, data: Any) -> Any:
        if "secret" in str(data):
            raise RuntimeError("not today")
        return data

    crashed(tmp_path, "pay", "call", "dispatched")

    async def main(journal: SqliteJournal) -> tuple[ToolResult, ...]:
        registry = ToolRegistry([payment, look], journal=journal.conversation("a"))
        return (await run_batch(registry, [call("look", id="c2"), call()], scope=trio.CancelScope())).results

    other, result = opened(tmp_path, main, redact=refuses)
    assert isinstance(other, ToolSuccess)
    assert code(result) == TOOL_ABORTED
    assert "what reconcile of 'pay' has found of call 'c1' cannot be recorded" in caplog.text
    again = opened(tmp_path, main)[1]
    assert isinstance(again, ToolSuccess)
    assert len(asked) == 2
