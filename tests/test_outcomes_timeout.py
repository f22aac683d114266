"""Row "the tool's own timeout fired first" of the table in section 5 of the design."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from calls import By, Line, whose
from fakes import deaf, late, shown, source, waiting
from outcomes import (
    NOTE,
    assert_aborted,
    bare_or_not,
    by_anybody,
    by_anybody_or_not,
    passed,
)

from trio_tools import (
    FrozenJson,
    Output,
    TextContent,
    ToolDefinition,
    ToolError,
    ToolFailure,
    ToolRun,
    ToolSuccess,
    tool,
)

# ---- the tool's own timeout ------------------------------------------------------------------------------------------


def assert_timed_out(line: Line, bare: bool) -> ToolFailure:
    failure = line.ended.failure
    assert (failure.error.code, failure.error.name) == ("TOOL_TIMEOUT", "ToolTimeoutError")
    assert failure.error.message == "tool call timed out after 5s"
    assert shown(failure)[0] == "Error: tool call timed out after 5s"
    assert source(failure) == "deadline"
    assert line.ended.passed == passed(bare)
    return failure


@bare_or_not
@by_anybody_or_not
def test_a_timeout_interrupts_the_body(by: By | None, bare: bool) -> None:
    """Row "the tool's own timeout fired first", cancelled later: TOOL_TIMEOUT. P6."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.defer_context(NOTE)
        run.emit("half")
        try:
            await trio.sleep(10)
        finally:
            run.emit("too late")
            await deaf(2)
        return "done"

    line = Line(body=body, timeout=5, bare=bare)
    ended = line.call(cancel_at=by and 6, by=by or "entered")
    failure = assert_timed_out(line, bare)
    assert (failure.body, failure.superseded, failure.contexts, ended.at) == ("interrupted", None, (NOTE,), 7)
    assert failure.content[1:] == failure.partial == (TextContent("half"),)


@bare_or_not
@by_anybody_or_not
@pytest.mark.parametrize("fails", [False, True])
def test_what_the_body_brings_about_after_its_timeout_is_kept_beside_it(fails: bool, by: By | None, bare: bool) -> None:
    """Row "the tool's own timeout fired first": whatever the body still returned or raised is in ``superseded``."""
    late_body = late(ToolError("disk full", code="DISK") if fails else "done", seconds=7)
    line = Line(body=late_body, timeout=5, bare=bare)
    ended = line.call(cancel_at=by and 6, by=by or "entered")
    assert (assert_timed_out(line, bare).body, ended.at) == ("finished", 7)
    replaced = ended.replaced
    if fails:
        assert isinstance(replaced, ToolFailure)
        assert (replaced.error.code, replaced.body) == ("DISK", "finished")
    else:
        assert isinstance(replaced, ToolSuccess)
        assert replaced.value == "done"


@bare_or_not
def test_what_the_body_raises_beside_the_cancellation_of_its_timeout_is_kept_beside_it(bare: bool) -> None:
    """Row "the tool's own timeout fired first": also an error that leaves in one group with ``Cancelled``."""

    async def failing() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ToolError("half written", code="HALF")

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(failing)
            await trio.sleep_forever()
        return "done"

    line = Line(body=body, timeout=5, bare=bare)
    line.call()
    assert_timed_out(line, bare)
    replaced = line.ended.replaced
    assert isinstance(replaced, ToolFailure)
    assert replaced.error.code == "HALF"


@bare_or_not
def test_what_the_clean_up_of_a_timed_out_body_has_masked_is_kept_beside_it(bare: bool) -> None:
    """Likewise for an error that asynchronous clean-up replaced by ``Cancelled``."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        try:
            await trio.sleep(3)
            raise ToolError("disk full", code="DISK")
        finally:
            await trio.sleep(10)

    line = Line(body=body, timeout=5, bare=bare)
    line.call()
    assert_timed_out(line, bare)
    replaced = line.ended.replaced
    assert isinstance(replaced, ToolFailure)
    assert replaced.error.code == "DISK"


@bare_or_not
@pytest.mark.parametrize("seconds", [0, 4])
def test_a_body_that_is_done_in_time_is_not_touched_by_its_timeout(seconds: float, bare: bool) -> None:
    """Row "the tool's own timeout fired first": it did not."""
    ended = Line(body=late("done", seconds=seconds), timeout=5, bare=bare).call()
    assert (ended.success.value, ended.at) == ("done", seconds)


def test_a_wrapper_that_takes_its_time_after_the_body_does_not_run_into_the_tools_timeout() -> None:
    """Section 3: the timeout stands innermost, so that it covers one attempt."""

    async def around(dispatch: object, call_next: Any) -> Any:
        await trio.sleep(10)
        result = await call_next()
        await trio.sleep(10)
        return result

    ended = Line(around=around, body=late("done", seconds=4), timeout=5).call()
    assert (ended.success.value, ended.at) == ("done", 24)


@bare_or_not
@pytest.mark.parametrize("takes_run", [False, True])
def test_a_renderer_that_takes_its_time_does_not_run_into_the_timeout_of_a_body_that_was_in_time(
    takes_run: bool, bare: bool
) -> None:
    """Row "the tool's own timeout fired first": the body was first, and what is left to do is not the body."""

    def render(arguments: FrozenJson, value: FrozenJson) -> str:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(10)
        return "rendered"

    @tool(timeout=5, output=Output(render=render))
    async def t() -> str:
        await trio.sleep(4)
        return "done"

    with_run = ToolDefinition(
        name="t", parameters={}, execute=late("done", seconds=4), timeout=5, output=Output(render=render)
    )
    ended = Line(definition=with_run if takes_run else t, bare=bare).call()
    assert (shown(ended.success), ended.at) == (["rendered"], 14)


@bare_or_not
def test_owned_work_counts_against_the_timeout(bare: bool) -> None:
    """The body returned in time, but what it owns did not end in time."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.nursery.start_soon(trio.sleep, 10)
        return "done"

    line = Line(body=body, timeout=5, bare=bare)
    ended = line.call()
    assert (assert_timed_out(line, bare).body, ended.at) == ("finished", 5)
    assert isinstance(ended.replaced, ToolSuccess)


@bare_or_not
@by_anybody
def test_a_caller_who_was_first_stays_the_cause_though_the_timeout_passes_meanwhile(by: By, bare: bool) -> None:
    """Section 4: if the caller was first, it is the abort."""
    line = Line(body=late("done", seconds=7), timeout=5, bare=bare)
    line.call(cancel_at=3, by=by)
    assert assert_aborted(line, whose(by), passed(bare)).body == "finished"


def test_the_timeout_of_a_body_that_waits_for_a_wrapper_is_the_last_attempts_own() -> None:
    """Row "retry" with a timeout: the first attempt times out, the second is in time."""
    bodies = iter([waiting("never"), late("done", seconds=4)])

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        return await next(bodies)()

    async def around(dispatch: object, call_next: Any) -> Any:
        first = await call_next()
        assert first.error.code == "TOOL_TIMEOUT"
        return await call_next()

    ended = Line(around=around, body=body, timeout=5).call()
    assert (ended.success.value, ended.at) == ("done", 9)
