"""Batches at their edges: bounds, context variables, callbacks that do what they should not, batches in batches."""

from __future__ import annotations

import contextlib
import contextvars
from typing import Any

import pytest
import trio
from batches import asked, by_key, codes, run, sources, waits

from trio_tools import BatchOutcome, FrozenJson, Keyed, ToolCall, ToolRegistry, ToolResult, ToolRun, run_batch
from trio_tools._batch import drive, prepared
from trio_tools._call import Call
from trio_tools._callbacks import Told
from trio_tools._order import Order

BEFORE = "ABORTED_BEFORE_DISPATCH"
THREE = asked("a", "b", "c")


def batch(registry: ToolRegistry, calls: list[ToolCall], **options: Any) -> BatchOutcome:
    async def main() -> BatchOutcome:
        scope = options.pop("scope", None) or trio.CancelScope()
        return await run_batch(registry, calls, scope=scope, **options)

    return run(main)


# ---- bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [0, -1, 1.5, True, "2", None])
def test_a_limit_that_is_none_is_refused_by_its_name(bound: Any) -> None:
    """Bad input gets a clear error, before anything runs."""
    with pytest.raises(ValueError, match=r"limits\['work'\] must be a positive integer"):
        batch(ToolRegistry([waits()]), THREE, limits={"other": 1, "work": bound})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"limits": 5}, r"limits must map names of tools to numbers, as in limits=\{'search': 2\}, not 5"),
        ({"control": 5}, "control takes a BatchControl, not 5"),
        ({"on_start": 5}, "on_start must be a function, not 5"),
        ({"on_commit": "print"}, "on_commit must be a function, not 'print'"),
    ],
)
def test_options_of_another_type_are_refused_before_anything_runs(options: dict[str, Any], told: str) -> None:
    """Bad input gets a clear error that says what to write instead."""
    started: list[str] = []

    async def body(arguments: Any, one: ToolRun) -> None:
        started.append(one.call_id)  # pragma: no cover

    with pytest.raises(TypeError, match=told):
        batch(ToolRegistry([waits(execute=body)]), THREE, **options)
    assert started == []


def test_a_limit_holds_for_its_name_only_and_keeps_nobody_else_from_starting() -> None:
    """Section 8: one that must wait gives its slot back."""
    spans: dict[str, float] = {}

    async def body(arguments: Any, one: ToolRun) -> None:
        await trio.sleep(1)
        spans[one.call_id] = trio.current_time()

    registry = ToolRegistry([waits(execute=body), waits("other", execute=body)])
    calls = [*asked("a", "b", "c"), *asked("x", "y", name="other")]
    assert codes(batch(registry, calls, limits={"work": 1}, max_parallel=2).results) == [None] * 5
    assert spans == {"a": 1, "x": 1, "b": 2, "y": 2, "c": 3}


def test_calls_that_cannot_run_pass_through_a_limit_too_and_stay_what_they_are() -> None:
    """Section 8: they count as parallel. Section 5: they are told as such also if the batch is cancelled meanwhile."""
    calls = [ToolCall(id=one, name="work", arguments={"seconds": {1, 2}}) for one in "bc"]
    outcome = batch(
        ToolRegistry([waits()]), [*asked("a", seconds=5), *calls, *asked("d")],
        limits={"work": 1}, scope=trio.move_on_after(1),
    )  # fmt: skip
    assert codes(outcome.results) == ["ABORTED", "INVALID_ARGS", "INVALID_ARGS", BEFORE]


# ---- context variables -----------------------------------------------------------------------------------------------

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


@pytest.mark.parametrize("concurrency", ["parallel", "exclusive", by_key])
@pytest.mark.parametrize("limit", [1, 2, 10])
def test_what_a_call_puts_into_a_context_variable_is_seen_by_no_sibling_and_not_by_the_caller(
    concurrency: Any, limit: int
) -> None:
    """Each call starts with the variables of the caller, also one that starts when another has ended."""
    seen: list[str] = []

    async def body(arguments: Any, one: ToolRun) -> None:
        seen.append(VARIABLE.get())
        VARIABLE.set(one.call_id)
        await trio.sleep(1)
        seen.append(VARIABLE.get())

    registry = ToolRegistry([waits(concurrency=concurrency, execute=body)])
    registry.observe(lambda execution, result: VARIABLE.set("observer") and None)

    async def main() -> None:
        VARIABLE.set("caller")
        await run_batch(registry, asked(*"abcd"), scope=trio.CancelScope(), max_parallel=limit)
        assert VARIABLE.get() == "caller"

    run(main)
    assert sorted(seen) == sorted([*"abcd", *["caller"] * 4])


# ---- callbacks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("where", ["start", "commit"])
@pytest.mark.parametrize("concurrency", ["parallel", "exclusive", by_key])
def test_what_a_callback_raises_ends_the_batch_and_comes_out_when_all_is_committed(
    error: BaseException, where: str, concurrency: Any
) -> None:
    """Section 8, P7: the calls on their way are cancelled with the cause "interrupt", and all are committed first."""
    committed: list[tuple[int, ToolResult]] = []
    published: list[str] = []

    def start(index: int, call: ToolCall) -> None:
        if where == "start" and index == 1:
            raise error

    def commit(index: int, call: ToolCall, result: ToolResult) -> None:
        committed.append((index, result))
        if where == "commit" and index == 0:
            raise error

    registry = ToolRegistry([waits(concurrency=concurrency)])
    registry.observe(lambda execution, result: published.append(execution.call_id))
    with pytest.raises(type(error)) as caught:
        batch(registry, asked("a", "b", "c", "d"), max_parallel=2, on_start=start, on_commit=commit)
    assert caught.value is error
    assert [index for index, _ in committed] == [0, 1, 2, 3]
    results = [result for _, result in committed]
    first = BEFORE if where == "start" and concurrency != "exclusive" else None  # its task had not begun
    assert codes(results)[0] == first
    assert codes(results)[2 if concurrency == "parallel" else 1 :].count(BEFORE) >= 2
    assert {source for source in sources(results) if source is not None} <= {"interrupt"}
    assert len(published) == len(set(published))
    assert registry.outstanding() == ()


@pytest.mark.parametrize("entered", [True, False])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_nothing_starts_behind_a_call_whose_start_cancelled_the_scope(entered: bool, index: int) -> None:
    """Section 8; found: in the batch's first step the rest was started, and told to the observers."""
    scope = trio.CancelScope()
    started: list[int] = []
    published: list[str] = []
    registry = ToolRegistry([waits()])
    registry.observe(lambda execution, result: published.append(execution.call_id))

    def start(number: int, call: ToolCall) -> None:
        started.append(number)
        if number == index:
            scope.cancel()

    async def call() -> BatchOutcome:
        return await run_batch(registry, THREE, scope=scope, on_start=start)

    async def main() -> BatchOutcome:
        with scope if entered else contextlib.nullcontext():
            return await call()

    outcome = run(main)
    assert codes(outcome.results) == [BEFORE] * 3
    assert outcome.cancelled
    assert started == list(range(index + 1))
    assert sorted(published) == list("abc"[: index + 1])


@pytest.mark.parametrize("by", ["body", "deadline", "commit"])
@pytest.mark.parametrize("limits", [None, {"work": 1}])
def test_a_cancellation_reaches_calls_that_queue_without_a_task(by: str, limits: dict[str, int] | None) -> None:
    """Section 8; found: their tasks were started while Trio was going through those of the nursery, and Trio broke."""
    for _ in range(20):  # tasks are in a set: in which order Trio goes through them differs
        scope = trio.move_on_after(4.5 if by == "deadline" else 100)

        async def body(arguments: Any, one: ToolRun) -> None:
            await trio.sleep(1)
            if (by, one.call_id) == ("body", "c"):
                scope.cancel()  # noqa: B023 - called in this turn
            await trio.sleep(1)

        def commit(index: int, call: ToolCall, result: ToolResult) -> None:
            if (by, index) == ("commit", 1):
                scope.cancel()  # noqa: B023

        registry = ToolRegistry([waits(concurrency=by_key, execute=body), waits("free")])
        calls = [*asked(*"abcdef"), *asked("x", "y", name="free", seconds=20)]
        outcome = batch(registry, calls, scope=scope, limits=limits, max_parallel=4, on_commit=commit)
        cut = {"body": "ABORTED", "deadline": "ABORTED", "commit": BEFORE}
        assert codes(outcome.results)[1:] == [None, cut[by], *[BEFORE] * 3, "ABORTED", "ABORTED"]
        assert outcome.cancelled


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_commit_may_cancel_the_scope(index: int) -> None:
    """Section 8: what is committed stays, and nothing starts behind it."""
    scope = trio.CancelScope()
    registry = ToolRegistry([waits(concurrency="exclusive")])

    def commit(number: int, call: ToolCall, result: ToolResult) -> None:
        if number == index:
            scope.cancel()

    outcome = batch(registry, THREE, scope=scope, on_commit=commit)
    assert codes(outcome.results) == [None] * (index + 1) + [BEFORE] * (2 - index)
    assert outcome.cancelled


@pytest.mark.parametrize("which", ["on_start", "on_commit"])
def test_an_async_callback_is_refused_once_everything_is_committed(which: str) -> None:
    """It would never run; its coroutine is closed."""

    async def callback(*_: object) -> None: ...

    with pytest.raises(TypeError, match="must be a plain function"):
        batch(ToolRegistry([waits()]), THREE, **{which: callback})


def test_a_finish_is_told_as_it_comes_and_a_batch_is_held_back_for_as_long_as_somebody_says_so() -> None:
    """What ``stream_batch`` is made of: finishes in their own order, and starts only when the consumer is ready."""
    finished: list[int] = []
    held: list[bool] = []

    def holds_back() -> bool:
        held.append(len(finished) == 1)  # no call starts behind the first that has finished, until another one has
        return held[-1]

    def finish(index: int, call: ToolCall, result: ToolResult) -> None:
        finished.append(index)

    told = Told(finish=finish, holds_back=holds_back)
    seconds = [3, 1, 2, 1]
    calls = tuple(asked(str(number), seconds=one)[0] for number, one in enumerate(seconds))

    async def main() -> float:
        with trio.CancelScope() as scope:
            order = Order(ToolRegistry([waits()]), calls, scope, 3, None, fail_fast=False, control=None)
            await drive(prepared(order, told), scope)
        return trio.current_time()

    assert run(main) == 3
    assert sorted(finished[2:]) == [0, 3]
    assert finished[:2] == [1, 2]
    assert True in held


def test_a_fault_of_our_own_in_one_call_ends_the_batch_and_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: should a call ever raise, it is answered nevertheless, and nobody waits for ever."""
    execute, committed = Call.execute, dict[str, str | None]()

    async def faulty(self: Call) -> ToolResult:
        if self.execution.call_id == "b":
            raise AssertionError("a fault of ours")
        return await execute(self)

    def commit(index: int, call: ToolCall, result: ToolResult) -> None:
        committed[call.id] = codes([result])[0]

    monkeypatch.setattr(Call, "execute", faulty)
    registry = ToolRegistry([waits()])
    with pytest.RaisesGroup(pytest.RaisesExc(AssertionError, match="a fault of ours")):
        batch(registry, THREE, on_commit=commit)
    assert committed == {"a": "ABORTED", "b": BEFORE, "c": BEFORE}  # c is cut before it has begun
    assert registry.outstanding() == ()


# ---- tools and stages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("index", [0, 1, 3])
def test_an_interrupt_in_a_classifier_leaves_when_all_is_committed(error: BaseException, index: int) -> None:
    """P7, section 8; found: the planning broke and the batch waited for ever. An Exception only means exclusive."""
    committed: list[ToolResult] = []

    def commit(number: int, call: ToolCall, result: ToolResult) -> None:
        committed.append(result)

    def classify(arguments: Any) -> Any:
        if arguments.get("raises"):
            raise error
        return Keyed(1) if arguments.get("keyed") else "parallel"

    calls = [*asked("a", seconds=1), *asked("k", keyed=True, seconds=3), *asked("l", keyed=True)]
    calls.insert(index, *asked("r", raises=True))
    registry = ToolRegistry([waits(concurrency=classify)])
    with pytest.raises(type(error)) as caught:
        batch(registry, calls, max_parallel=2, on_commit=commit)
    assert caught.value is error
    assert codes(committed)[index:] == [BEFORE] * (4 - index)
    assert len(committed) == 4
    assert registry.outstanding() == ()


def test_tools_and_stages_that_a_body_registers_are_those_of_the_calls_that_start_later() -> None:
    """Section 3: a stage list is fixed when the call starts."""
    passed: list[str] = []

    async def late(execution: Any, call_next: Any) -> Any:
        passed.append(execution.call_id)
        return await call_next()

    async def body(arguments: Any, one: ToolRun) -> None:
        if one.call_id == "a":
            registry.register(waits("new"))
            registry.before(late)
        await trio.sleep(1)

    registry = ToolRegistry([waits(execute=body)])
    calls = [*asked("a", "b"), *asked("n", name="new"), *asked("c")]
    assert codes(batch(registry, calls, max_parallel=2).results) == [None] * 4
    assert passed == ["n", "c"]


def test_a_batch_in_the_body_of_a_tool_ends_with_that_call() -> None:
    """Section 4: a nested one passes run.scope on; P3. It takes no slot of the batch around it."""
    inner: list[BatchOutcome] = []

    async def body(arguments: FrozenJson, one: ToolRun) -> list[str | None]:
        calls = asked(*(f"{one.call_id}{number}" for number in range(3)), name="inner", seconds=2)
        inner.append(await run_batch(registry, calls, scope=one.scope, max_parallel=2))
        await trio.lowlevel.checkpoint()
        return codes(inner[-1].results)

    registry = ToolRegistry([waits(execute=body), waits("inner")])
    outcome = batch(registry, asked("a", "b"), max_parallel=1)
    assert [getattr(result, "value", None) for result in outcome.results] == [(None,) * 3] * 2
    inner.clear()
    outcome = batch(registry, asked("a", "b"), scope=trio.move_on_after(3))
    assert codes(outcome.results) == ["ABORTED", "ABORTED"]
    assert [codes(one.results) for one in inner] == [[None, None, "ABORTED"]] * 2
    assert [one.cancelled for one in inner] == [True, True]
    assert registry.outstanding() == ()


@pytest.mark.parametrize("concurrency", ["parallel", "exclusive", by_key])
@pytest.mark.parametrize("cancel", [False, True])
def test_ten_thousand_calls_have_ten_thousand_results(concurrency: Any, cancel: bool) -> None:
    """Section 8; also if they are all cancelled, and whether they queue or have not started."""

    async def body(arguments: Any, one: ToolRun) -> None:
        await trio.lowlevel.checkpoint()
        if cancel and one.call_id == "5":
            scope.cancel()
            await trio.sleep_forever()

    scope = trio.CancelScope()
    calls = [ToolCall(id=str(number), name="work", arguments={"key": number % 7}) for number in range(10_000)]
    outcome = batch(ToolRegistry([waits(concurrency=concurrency, execute=body)]), calls, scope=scope)
    assert len(outcome.results) == 10_000
    ended = codes(outcome.results)
    assert (ended.count(None) < 20) if cancel else (ended == [None] * 10_000)
    assert set(ended) <= {None, "ABORTED", BEFORE}
