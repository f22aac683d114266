"""What stands behind the after policies, on every kind of outcome: ``finalize_content`` and the observers; and
interrupts from the after policies on. Section 5 of the design, last paragraph; P1, P7."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import attrs
import pytest
from calls import Line
from fakes import Halt, late, raising, shown, source
from outcomes import (
    Outcome,
    every_outcome,
    nothing_leaks,
)

from trio_tools import (
    Content,
    TextContent,
    ToolError,
    ToolExecution,
    ToolFailure,
    ToolResult,
    ToolSuccess,
)

# ---- finish ----------------------------------------------------------------------------------------------------------


@every_outcome
def test_the_finalizer_changes_the_content_and_nothing_else(outcome: Outcome) -> None:
    """Section 7."""
    seen: list[ToolResult] = []

    def finalize(execution: ToolExecution, result: ToolResult) -> Iterable[Content]:
        seen.append(result)
        yield TextContent("final")

    ended = outcome.line(finalize=finalize).call(cancel_at=outcome.cancel_at)
    (before,) = seen
    assert ended.result == attrs.evolve(before, content=(TextContent("final"),))
    assert ended.code == outcome.code


async def finalize_later() -> Iterable[Content]:
    return ()


NONSENSE: dict[str, Callable[[], object]] = {
    "a number": lambda: 42,
    "text in a list": lambda: ["text"],
    "a result": lambda: ToolFailure.from_message("x"),
    "a coroutine": lambda: finalize_later(),
    "none in a list": lambda: [None],
}


@every_outcome
@pytest.mark.parametrize("how", [*NONSENSE, "raises", "raises while it yields"])
def test_a_finalizer_that_raises_or_answers_nonsense_fails_closed(outcome: Outcome, how: str) -> None:
    """Section 5: a success becomes that failure, a failure keeps its code and shows the new text; nothing leaks."""

    def finalize(execution: ToolExecution, result: ToolResult) -> Iterable[Content]:
        if how == "raises":
            raise ToolError("cannot redact", code="REDACT")
        if how == "raises while it yields":
            return (_fail() for _ in "x")
        return cast(Any, NONSENSE[how]())

    def _fail() -> Content:
        raise ToolError("cannot redact", code="REDACT")

    ended = outcome.line(finalize=finalize).call(cancel_at=outcome.cancel_at)
    failure = ended.failure
    new = "REDACT" if how.startswith("raises") else None
    assert (ended.code, failure.body) == (outcome.code or new, outcome.state)
    assert failure.content == (TextContent(f"Error: {failure.error.message}"),)
    if outcome.code is None:
        assert failure.error.name == ("ToolError" if new else "TypeError")
    if new:
        assert shown(failure) == ["Error: cannot redact"]
    assert source(failure) == outcome.cause
    nothing_leaks(failure)


@pytest.mark.parametrize("fails_first", [False, True])
def test_an_observer_that_fails_or_is_async_hurts_neither_the_call_nor_the_next_observer(
    fails_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """P1: published to all of them; it is logged."""

    async def later() -> None:
        return None

    def observer(execution: ToolExecution, result: ToolResult) -> None:
        if fails_first:
            raise ToolError("observer broke")
        return cast(Any, later())

    ended = Line(observer=observer).call()
    assert ended.success.value == "done"
    assert "observer" in caplog.text


# ---- interrupts ------------------------------------------------------------------------------------------------------


INTERRUPTS = [KeyboardInterrupt, SystemExit, Halt]


@every_outcome
@pytest.mark.parametrize("kind", INTERRUPTS)
def test_an_interrupt_in_an_after_policy_aborts_a_success_and_leaves_a_failure(
    outcome: Outcome, kind: type[BaseException]
) -> None:
    """Section 4, "Interrupts"; P7; published before it is raised."""
    interrupt = kind("stop")
    ended = outcome.line(after=late(interrupt, seconds=1)).call(cancel_at=outcome.cancel_at)
    assert ended.raised is interrupt
    assert (ended.code, ended.failure.body) == (outcome.code or "ABORTED", outcome.state)
    if outcome.code is None:
        assert source(ended.failure) == "interrupt"
        assert isinstance(ended.replaced, ToolSuccess)


@every_outcome
@pytest.mark.parametrize("kind", INTERRUPTS)
def test_an_interrupt_in_the_finalizer_is_raised_after_the_result_is_published(
    outcome: Outcome, kind: type[BaseException]
) -> None:
    """P1, P7."""
    interrupt = kind("stop")

    def finalize(execution: ToolExecution, result: ToolResult) -> None:
        raise interrupt

    ended = outcome.line(finalize=finalize).call(cancel_at=outcome.cancel_at)
    assert ended.raised is interrupt
    assert (ended.code, ended.failure.body) == (outcome.code or "ABORTED", outcome.state)


@every_outcome
@pytest.mark.parametrize("kind", INTERRUPTS)
def test_an_interrupt_in_an_observer_is_raised_after_all_observers_have_the_result(
    outcome: Outcome, kind: type[BaseException]
) -> None:
    """P1, P7: the helper's observer stands behind the one that raises; one result, the same for all."""
    interrupt = kind("stop")
    first: list[ToolResult] = []

    def observer(execution: ToolExecution, result: ToolResult) -> None:
        first.append(result)
        raise interrupt

    ended = outcome.line(observer=observer).call(cancel_at=outcome.cancel_at)
    assert ended.raised is interrupt
    assert first == ended.published
    assert (ended.code, ended.result.body) == (outcome.code, outcome.state)


def test_the_first_of_several_interrupts_is_the_one_that_is_raised() -> None:
    """P7: the body's, though the finalizer and an observer raise too."""
    first = Halt("body")

    def stage(execution: ToolExecution, result: ToolResult) -> None:
        raise KeyboardInterrupt("finish")

    ended = Line(body=raising(first), finalize=stage, observer=stage).call()
    assert ended.raised is first
    assert (ended.code, ended.failure.body) == ("ABORTED", "interrupted")
