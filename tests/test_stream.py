"""A batch as a stream: events in their orders, a bounded lead, and nothing lost whatever the reader does."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
import trio
from calls import run

from trio_tools import (
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    BatchControl,
    BatchEvent,
    BatchStream,
    CallCommitted,
    CallFinished,
    CallStarted,
    ToolCall,
    ToolError,
    ToolRegistry,
    ToolResult,
    stream_batch,
    tool,
)

T = TypeVar("T")


def within(main: Callable[[trio.CancelScope], Awaitable[T]]) -> T:
    """Run ``main`` in a scope of its own."""

    async def entered() -> T:
        answers: list[T] = []
        with trio.CancelScope() as scope:
            answers.append(await main(scope))
        (answer,) = answers
        return answer

    return run(entered)


def ended(events: BatchStream) -> list[str | None]:
    return [code(result) for result in events.outcome.results]


class Work:
    """A registry with one tool, and what its observers were told."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.observed: list[tuple[str, str | None]] = []

        @tool(concurrency="parallel")
        async def work(id: str, seconds: float = 1, error: str = "") -> str:
            self.started.append(id)
            await trio.sleep(seconds)
            if error == "interrupt":
                raise KeyboardInterrupt
            if error:
                raise ToolError(error)
            return id

        self.registry = ToolRegistry([work])
        self.registry.observe(lambda execution, result: self.observed.append((execution.call_id, code(result))))


def code(result: ToolResult) -> str | None:
    return (result.error.code or "failed") if result.is_error is True else None


def call(id: str, seconds: float = 1, error: str = "") -> ToolCall:
    return ToolCall(id=id, name="work", arguments={"id": id, "seconds": seconds, "error": error})


def word(event: BatchEvent) -> str:
    return f"{type(event).__name__.removeprefix('Call').lower()} {event.call.id}"


CALLS = [call("a", 3), call("b", 1), call("c", 2)]


def test_starts_and_commits_come_in_call_order_and_finishes_as_they_happen() -> None:
    work = Work()

    async def main(scope: trio.CancelScope) -> list[str]:
        async with stream_batch(work.registry, CALLS, scope=scope) as events:
            told = [word(event) async for event in events]
        assert ended(events) == [None, None, None]
        return told

    assert within(main) == [
        "started a", "started b", "started c", "finished b", "finished c", "finished a",
        "committed a", "committed b", "committed c",
    ]  # fmt: skip


def test_events_come_as_they_happen_not_at_the_end() -> None:
    work = Work()

    async def main() -> list[tuple[float, int]]:
        seen: list[tuple[float, int]] = []
        begin = trio.current_time()
        with trio.CancelScope() as scope:
            calls = [call("a", 1), call("b", 3), call("c", 2)]
            async with stream_batch(work.registry, calls, scope=scope) as events:
                async for event in events:
                    match event:
                        case CallCommitted(index, _, result):
                            assert code(result) is None
                            seen.append((trio.current_time() - begin, index))
                        case CallStarted() | CallFinished():
                            pass
        return seen

    assert run(main) == [(1, 0), (3, 1), (3, 2)]


@pytest.mark.parametrize("buffer", [1, 4])
def test_a_slow_reader_holds_back_further_starts_and_loses_nothing(buffer: int) -> None:
    work = Work()

    async def main(scope: trio.CancelScope) -> tuple[int, list[str]]:
        calls = [call(str(number), 0) for number in range(50)]
        async with stream_batch(work.registry, calls, scope=scope, buffer=buffer, max_parallel=1) as events:
            await trio.sleep(1000)
            early = len(work.started)
            return early, [word(event) async for event in events if isinstance(event, CallCommitted)]

    early, committed = within(main)
    assert 0 < early <= buffer
    assert committed == [f"committed {number}" for number in range(50)]
    assert [one for one, _ in work.observed] == list(map(str, range(50)))


@pytest.mark.parametrize("read", [0, 1, 4])
def test_a_reader_that_stops_early_leaves_the_calls_to_their_end(read: int) -> None:
    """Also those that had not started: nobody holds them back any more."""
    work = Work()

    async def main(scope: trio.CancelScope) -> list[str | None]:
        async with stream_batch(work.registry, CALLS, scope=scope, buffer=1, max_parallel=1) as events:
            for _ in range(read):
                await anext(events)
        return ended(events)

    assert within(main) == [None] * 3
    assert sorted(work.observed) == [("a", None), ("b", None), ("c", None)]


def test_a_block_that_raises_cancels_the_calls_and_its_error_comes_out_as_itself() -> None:
    work = Work()

    async def main(scope: trio.CancelScope) -> list[str | None]:
        kept: list[BatchStream] = []
        with pytest.raises(LookupError, match="mine"):
            async with stream_batch(work.registry, CALLS, scope=scope, max_parallel=2) as events:
                kept.append(events)
                async for event in events:
                    if word(event) == "started b":
                        await trio.sleep(0.5)
                        raise LookupError("mine")
        assert not scope.cancel_called
        return ended(kept[0])

    assert within(main) == [TOOL_ABORTED, TOOL_ABORTED, TOOL_ABORTED_BEFORE_DISPATCH]
    assert sorted(work.observed) == [("a", TOOL_ABORTED), ("b", TOOL_ABORTED)]


@pytest.mark.parametrize("entered", [True, False])
def test_a_cancelled_reader_loses_no_result(entered: bool) -> None:
    """With a scope that nobody had entered, only the calls are cancelled and the block reads on."""
    work = Work()

    async def main() -> tuple[list[str], list[str | None]]:
        told: list[str] = []
        scope = trio.CancelScope()
        async with trio.open_nursery() as nursery:

            async def user() -> None:
                await trio.sleep(1.5)
                scope.cancel()

            nursery.start_soon(user)

            async def read() -> list[str | None]:
                async with stream_batch(work.registry, CALLS, scope=scope) as events:
                    try:
                        async for event in events:  # each is noted, the cancellation comes in between
                            told.append(word(event))  # noqa: PERF401
                    finally:
                        told.append("left")
                return ended(events)

            if entered:
                with scope:
                    await read()
                assert scope.cancelled_caught
                return told, []
            return told, await read()

    told, codes = run(main)
    assert sorted(work.observed) == [("a", TOOL_ABORTED), ("b", None), ("c", TOOL_ABORTED)]
    if entered:
        assert told[-1] == "left"
    else:
        assert [one for one in told if "committed" in one] == ["committed a", "committed b", "committed c"]
        assert told[-1] == "left"
        assert codes == [TOOL_ABORTED, None, TOOL_ABORTED]


@pytest.mark.parametrize("reader", ["reads", "leaves", "raises"])
def test_an_interrupt_of_a_body_leaves_when_everything_is_told(reader: str) -> None:
    """It goes before an error of the block."""
    work = Work()

    async def main(scope: trio.CancelScope) -> None:
        kept: list[BatchStream] = []
        with pytest.raises(KeyboardInterrupt):
            calls = [call("a", 2, "interrupt"), call("b", 9)]
            async with stream_batch(work.registry, calls, scope=scope) as events:
                kept.append(events)
                if reader == "reads":
                    told = [word(event) async for event in events]
                    assert told[-2:] == ["committed a", "committed b"]
                elif reader == "raises":
                    await trio.sleep(3)
                    raise LookupError
        assert ended(kept[0]) == [TOOL_ABORTED, TOOL_ABORTED]

    within(main)


def test_an_interrupt_of_a_body_goes_before_the_cancellation_of_the_block() -> None:
    work = Work()

    async def main() -> None:
        with pytest.raises(KeyboardInterrupt), trio.move_on_after(3) as scope:
            async with stream_batch(work.registry, [call("a", 2, "interrupt")], scope=scope):
                await trio.sleep_forever()

    run(main)


def test_a_cancelled_block_with_nothing_started_ends() -> None:
    """Held back by a reader that does not read, and nothing left that could wake it."""
    work = Work()

    async def main() -> None:
        kept: list[BatchStream] = []
        with trio.CancelScope() as scope:
            async with stream_batch(work.registry, [call("a", 0), call("b", 0)], scope=scope, buffer=1) as events:
                kept.append(events)
                await trio.sleep(10)
                assert work.started == ["a"]
                scope.cancel()
            await trio.lowlevel.checkpoint()
            raise AssertionError("the block was cancelled")  # pragma: no cover
        assert ended(kept[0]) == [None, TOOL_ABORTED_BEFORE_DISPATCH]

    run(main)


def test_a_control_stops_a_stream_too() -> None:
    work = Work()

    async def main() -> list[str | None]:
        kept: list[BatchStream] = []
        control = BatchControl()
        with trio.CancelScope() as scope:
            async with stream_batch(work.registry, CALLS, scope=scope, max_parallel=1, control=control) as events:
                kept.append(events)
                async for event in events:
                    if isinstance(event, CallFinished):
                        control.stop("enough")
        return ended(kept[0])

    assert run(main) == [None, None, TOOL_ABORTED_BEFORE_DISPATCH]  # b had started when the end of a was read


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"buffer": 0}, ValueError, "buffer must be a positive integer"),
        ({"max_parallel": True}, ValueError, "max_parallel must be a positive integer"),
        ({"limits": {"work": 0}}, ValueError, r"limits\['work'\] must be a positive integer"),
        ({"calls": ["a"]}, TypeError, "made of ToolCall objects; number 0"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(options: dict[str, Any], error: type[Exception], told: str) -> None:
    work = Work()
    calls = options.pop("calls", CALLS)

    async def main() -> None:
        with trio.CancelScope() as scope, pytest.raises(error, match=told):
            async with stream_batch(work.registry, calls, scope=scope, **options):
                raise AssertionError("entered")  # pragma: no cover

    run(main)
    assert work.started == []


def test_a_scope_that_does_not_reach_the_block_is_refused() -> None:
    work = Work()

    async def main() -> None:
        with trio.CancelScope() as scope:
            await trio.lowlevel.checkpoint()
        with pytest.raises(RuntimeError, match="does not reach"):
            async with stream_batch(work.registry, CALLS, scope=scope):
                raise AssertionError("entered")  # pragma: no cover

    run(main)


def test_the_outcome_is_there_only_when_all_calls_have_ended() -> None:
    work = Work()

    async def main(scope: trio.CancelScope) -> None:
        async with stream_batch(work.registry, CALLS, scope=scope) as events:
            with pytest.raises(RuntimeError, match="still runs"):
                _ = events.outcome
        assert not events.outcome.cancelled

    within(main)


def test_ctrl_c_while_the_block_is_left_comes_out_as_itself() -> None:
    """P7: no group, and not before what it has cancelled has ended."""

    @tool
    async def stubborn() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(5)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(strike_at, 1)
            with pytest.raises(KeyboardInterrupt):
                async with stream_batch(
                    ToolRegistry([stubborn]), [ToolCall(id="a", name="stubborn")], scope=trio.CancelScope()
                ):
                    pass
            assert trio.current_time() == 5

    run(main)


@trio.lowlevel.enable_ki_protection
async def strike_at(seconds: float) -> None:
    await trio.sleep(seconds)
    signal.raise_signal(signal.SIGINT)
