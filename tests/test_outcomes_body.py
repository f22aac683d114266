"""Rows of the table in section 5 of the design about the body: what it returns or raises, cancelled and not, and its
own nursery."""

from __future__ import annotations

import pytest
import trio
from calls import BYS, DEADLINES, By, Line, whose
from fakes import answering, deaf, late, shown, source
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
    ImageContent,
    Output,
    TextContent,
    ToolDefinition,
    ToolError,
    ToolRun,
    ToolSuccess,
    tool,
)

# ---- returns and raises ----------------------------------------------------------------------------------------------


@bare_or_not
def test_a_body_that_returns_is_a_success(bare: bool) -> None:
    """Row "body returns", not cancelled."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.defer_context(NOTE)
        run.conclude_turn()
        run.emit("half")
        await trio.sleep(1)
        return {"n": 1}

    ended = Line(body=body, bare=bare).call()
    assert ended.success == ToolSuccess(
        value={"n": 1}, content='{"n":1}', contexts=(NOTE,), concludes_turn=True, body="finished"
    )
    assert (ended.passed, ended.at) == (passed(bare), 1)


@bare_or_not
@by_anybody
def test_a_body_that_returns_after_the_cancellation_is_aborted_and_its_success_kept(by: By, bare: bool) -> None:
    """Row "body returns", cancelled: ABORTED, ``superseded`` holds the success, contexts kept."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.defer_context(NOTE)
        run.conclude_turn()
        run.emit("half")
        await deaf(5)
        return "done"

    line = Line(body=body, bare=bare)
    ended = line.call(cancel_at=1, by=by)
    failure = assert_aborted(line, whose(by), passed(bare))
    assert (failure.body, failure.contexts, failure.partial, ended.at) == ("finished", (NOTE,), (), 5)
    assert failure.superseded == ToolSuccess(
        value="done", content="done", contexts=(NOTE,), concludes_turn=True, body="finished"
    )


@bare_or_not
@by_anybody
def test_a_body_that_is_interrupted_is_aborted_with_what_it_put_out(by: By, bare: bool) -> None:
    """Section 2: cancelled in body; section 3: partial output follows the first content block."""
    picture = ImageContent(data="AA==", mime_type="image/png")

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.defer_context(NOTE)
        run.emit("half")
        run.emit(picture)
        try:
            await trio.sleep(10)
        finally:
            run.emit("too late")
        return "done"

    line = Line(body=body, bare=bare)
    ended = line.call(cancel_at=1, by=by, reason="enough")
    failure = assert_aborted(line, whose(by), passed(bare))
    assert (failure.body, failure.superseded, failure.contexts, ended.at) == ("interrupted", None, (NOTE,), 1)
    assert failure.partial == (TextContent("half"), picture)
    assert failure.content == (TextContent("Error: tool call aborted"), *failure.partial)
    assert failure.cause is not None
    assert failure.cause.reason == (None if by in DEADLINES else "enough")


@bare_or_not
@by_anybody_or_not
def test_a_body_that_raises_is_that_failure_cancelled_or_not(by: By | None, bare: bool) -> None:
    """Row "body raises an Exception"; P6."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.defer_context(NOTE)
        await deaf(5)
        raise ToolError("disk full", code="DISK")

    ended = Line(body=body, bare=bare).call(cancel_at=by and 1, by=by or "entered")
    error = ended.failure.error
    assert (error.code, error.name, error.message) == ("DISK", "ToolError", "disk full")
    assert shown(ended.failure) == ["Error: disk full"]
    assert (ended.failure.body, ended.failure.contexts, ended.failure.superseded) == ("finished", (NOTE,), None)
    assert ended.passed == passed(bare)


@bare_or_not
@by_anybody
def test_a_body_that_raises_in_answer_to_the_cancellation_is_that_failure(by: By, bare: bool) -> None:
    """Row "body raises an Exception", cancelled."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        try:
            await trio.sleep(10)
        except trio.Cancelled:
            raise ToolError("half written", code="HALF") from None
        return "done"

    ended = Line(body=body, bare=bare).call(cancel_at=1, by=by)
    assert (ended.code, ended.passed, ended.at) == ("HALF", passed(bare), 1)
    assert ended.failure.body != "not-started"


@bare_or_not
@by_anybody
def test_a_body_that_swallows_the_cancellation_and_returns_has_finished_too_late(by: By, bare: bool) -> None:
    """P6: a success is overwritten, whatever the body made of the cancellation."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        try:
            await trio.sleep(10)
        except trio.Cancelled:
            return "rescued"
        return "done"

    line = Line(body=body, bare=bare)
    ended = line.call(cancel_at=1, by=by)
    assert assert_aborted(line, whose(by), passed(bare)).body == "finished"
    replaced = ended.replaced
    assert isinstance(replaced, ToolSuccess)
    assert replaced.value == "rescued"


@bare_or_not
@by_anybody
def test_a_body_that_is_cancelled_in_its_last_step_is_aborted_too(by: By, bare: bool) -> None:
    """Row "body returns", cancelled, when no checkpoint lies between the cancellation and the return."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        await trio.sleep(1)
        line.cancel()
        return "done"

    line = Line(body=body, bare=bare)
    line.call(by=by)
    assert assert_aborted(line, whose(by), passed(bare)).body == "finished"
    assert isinstance(line.ended.replaced, ToolSuccess)


@by_anybody
def test_a_function_without_a_run_that_is_cancelled_in_its_last_step_is_aborted_too(by: By) -> None:
    """Likewise, for a body that needs no nursery of its own."""

    @tool
    async def t() -> str:
        line.cancel()
        return "done"

    line = Line(definition=t, bare=True)
    ended = line.call(by=by)
    assert (ended.code, source(ended.failure), ended.failure.body) == ("ABORTED", whose(by), "finished")
    assert isinstance(ended.replaced, ToolSuccess)


@by_anybody
def test_a_function_without_a_run_is_interrupted_like_any_body(by: By) -> None:
    """Section 2, cancelled in body; a body that needs no nursery of its own."""

    @tool
    async def t() -> str:
        await trio.sleep(10)
        return "done"

    line = Line(definition=t, bare=True)
    ended = line.call(cancel_at=1, by=by)
    assert (ended.code, source(ended.failure), ended.failure.body) == ("ABORTED", whose(by), "interrupted")
    assert ended.at == 1


@bare_or_not
@by_anybody_or_not
@pytest.mark.parametrize("value", [{1, 2}, float("nan"), "text"])
def test_a_value_that_breaks_the_contract_is_an_invalid_output_of_a_finished_body(
    value: object, by: By | None, bare: bool
) -> None:
    """Section 7: the effects did happen. It is a failure, so the cancellation does not replace it (P6)."""
    definition = ToolDefinition(
        name="t", parameters={"type": "object"}, execute=late(value, seconds=5), output=Output(schema={"type": "array"})
    )
    ended = Line(definition=definition, bare=bare).call(cancel_at=by and 1, by=by or "entered")
    assert (ended.code, ended.failure.error.name) == ("INVALID_TOOL_OUTPUT", "ToolOutputError")
    assert ended.failure.body == "finished"
    assert shown(ended.failure) == [f"Error: {ended.failure.error.message}"]


def test_a_renderer_that_raises_is_an_invalid_output() -> None:
    """Section 7: a projector that raises."""

    def render(arguments: FrozenJson, value: FrozenJson) -> str:
        raise KeyError("name")

    definition = ToolDefinition(
        name="t", parameters={"type": "object"}, execute=answering("x"), output=Output(render=render)
    )
    ended = Line(definition=definition).call()
    assert (ended.code, ended.failure.body) == ("INVALID_TOOL_OUTPUT", "finished")


# ---- the body's own nursery ------------------------------------------------------------------------------------------


@bare_or_not
@pytest.mark.parametrize("by", [None, *BYS])
def test_a_body_that_cancels_its_own_nursery_and_has_no_value_is_aborted_by_the_tool(by: By | None, bare: bool) -> None:
    """Row "body cancels its own nursery and has no value"; cancelled later: the first cause stays."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.emit("half")
        run.nursery.cancel_scope.cancel("nothing to do")
        await deaf(2)
        await trio.sleep(10)
        return "done"

    line = Line(body=body, bare=bare)
    ended = line.call(cancel_at=by and 1, by=by or "entered")
    failure = ended.failure
    assert (failure.error.code, failure.body, failure.superseded) == ("ABORTED", "interrupted", None)
    assert source(failure) == "tool"
    assert failure.partial == (TextContent("half"),)
    assert ended.passed == passed(bare)


@bare_or_not
def test_a_body_that_cancels_its_own_nursery_and_has_a_value_is_a_success(bare: bool) -> None:
    """Row "body cancels its own nursery *and has no value*": this one has."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.nursery.start_soon(trio.sleep_forever)
        await trio.sleep(1)
        run.nursery.cancel_scope.cancel()
        return "done"

    ended = Line(body=body, bare=bare).call()
    assert (ended.success.value, ended.success.body) == ("done", "finished")


@bare_or_not
@by_anybody
def test_a_body_that_cancels_its_own_nursery_after_its_caller_did_was_ended_by_the_caller(by: By, bare: bool) -> None:
    """Row "body cancels its own nursery", cancelled first."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        await deaf(2)
        run.nursery.cancel_scope.cancel()
        await trio.sleep(10)
        return "done"

    line = Line(body=body, bare=bare)
    line.call(cancel_at=1, by=by)
    assert assert_aborted(line, whose(by), passed(bare)).body == "interrupted"


@bare_or_not
def test_failing_owned_work_is_the_failure_and_stops_the_body(bare: bool) -> None:
    """P3, P6: the error of owned work is the tool's own."""

    async def failing() -> None:
        await trio.sleep(1)
        raise ToolError("child broke", code="CHILD")

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.nursery.start_soon(failing)
        await trio.sleep(10)
        return "done"

    ended = Line(body=body, bare=bare).call()
    assert (ended.code, ended.failure.error.message, ended.at) == ("CHILD", "child broke", 1)
    assert ended.failure.body == "interrupted"


@bare_or_not
@by_anybody
def test_a_body_that_returned_and_whose_owned_work_is_cancelled_has_finished(by: By, bare: bool) -> None:
    """``body`` is "finished" when the body returned by itself; row "body returns", cancelled."""

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        run.nursery.start_soon(trio.sleep, 10)
        return "done"

    line = Line(body=body, bare=bare)
    ended = line.call(cancel_at=1, by=by)
    assert assert_aborted(line, whose(by), passed(bare)).body == "finished"
    assert isinstance(ended.replaced, ToolSuccess)
    assert ended.at == 1
