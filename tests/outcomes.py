"""What the tests of the outcome table share: the outcomes themselves, the usual routes, the usual assertions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs
import pytest
import trio
from calls import BYS, By, Line, whose
from fakes import answering, deaf, raising, shown, source, waiting

from trio_tools import (
    Context,
    Deny,
    FrozenJson,
    ToolError,
    ToolFailure,
    ToolResult,
    ToolRun,
)

NOTE = Context("remember", source="the body")
ADDED = Context("of the policy", source="policy")
NONE = cast(Any, None)  # what a wrapper answers that falls out of a ``with`` block
GATES = ["before", "guard"]
ENTIRE = [*GATES, "around", "body", "after", "finalize"]
NO_BODY = [*GATES, "around", "after", "finalize"]
OWN = ToolFailure.from_message("quota used up", code="QUOTA", contexts=(NOTE,))  # a wrapper's
FAILS = raising(ToolError("flaky", code="FLAKY"))

bare_or_not = pytest.mark.parametrize("bare", [False, True])
by_anybody = pytest.mark.parametrize("by", BYS)
by_anybody_or_not = pytest.mark.parametrize("by", [None, *BYS])


def passed(bare: bool) -> list[str]:
    """The stages that a call passes whose body was entered."""
    return ["body", "finalize"] if bare else ENTIRE


def attempts(*bodies: Callable[..., Any]) -> Callable[[FrozenJson, ToolRun], Any]:
    """A body that is another one in each attempt."""
    left = iter(bodies)

    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        return await next(left)(arguments, run)

    return body


def assert_aborted(line: Line, cause: str, passed: list[str]) -> ToolFailure:
    """The call ended with the generic abort that the state of its body demands."""
    failure = line.ended.failure
    early = failure.body == "not-started"
    message = "tool call aborted before dispatch" if early else "tool call aborted"
    code = "ABORTED_BEFORE_DISPATCH" if early else "ABORTED"
    assert (failure.error.code, failure.error.name, failure.error.message) == (code, "AbortError", message)
    assert shown(failure)[0] == f"Error: {message}"
    assert source(failure) == cause
    assert line.ended.passed == passed
    return failure


def assert_aborted_before_dispatch(line: Line, by: By, passed: list[str]) -> None:
    """The call ended with the generic abort of a body that was never entered."""
    failure = line.ended.failure
    assert (failure.error.code, failure.error.name) == ("ABORTED_BEFORE_DISPATCH", "AbortError")
    assert failure.error.message == "tool call aborted before dispatch"
    assert shown(failure) == ["Error: tool call aborted before dispatch"]
    assert (failure.body, failure.partial, failure.superseded) == ("not-started", (), None)
    assert failure.cause is not None
    assert failure.cause.source == whose(by)
    assert line.ended.passed == passed


def assert_told(line: Line, code: str | None, name: str | None, message: str, passed: list[str]) -> None:
    """The call ended with exactly this failure, before its body."""
    failure = line.ended.failure
    assert (failure.error.code, failure.error.name, failure.error.message) == (code, name, message)
    assert shown(failure) == [f"Error: {message}"]
    assert (failure.body, failure.partial, failure.superseded) == ("not-started", (), None)
    assert line.ended.passed == passed


async def emits_and_waits(arguments: FrozenJson, run: ToolRun) -> object:
    run.defer_context(NOTE)
    run.emit("half")
    await trio.sleep(10)
    return "secret"


async def emits_and_is_deaf(arguments: FrozenJson, run: ToolRun) -> object:
    run.defer_context(NOTE)
    run.emit("half")
    await deaf(10)
    return "secret"


async def fails(arguments: FrozenJson, run: ToolRun) -> object:
    run.defer_context(NOTE)
    raise ToolError("secret disk full", code="DISK")


async def succeeds(arguments: FrozenJson, run: ToolRun) -> object:
    run.defer_context(NOTE)
    return "secret"


@attrs.frozen
class Outcome:
    """A way in which a call comes to the after policies."""

    body: Any
    code: str | None
    state: str
    cancel_at: float | None = None
    timeout: float | None = None
    cause: str | None = None
    before: Any = None

    def line(self, **stages: Any) -> Line:
        return Line(body=self.body, timeout=self.timeout, before=self.before, **stages)


OUTCOMES = {
    "success": Outcome(succeeds, None, "finished"),
    "failure": Outcome(fails, "DISK", "finished"),
    "denied": Outcome(succeeds, "DENIED", "not-started", before=answering(Deny("secret rule"))),
    "interrupted": Outcome(emits_and_waits, "ABORTED", "interrupted", cancel_at=1, cause="caller"),
    "too late": Outcome(emits_and_is_deaf, "ABORTED", "finished", cancel_at=1, cause="caller"),
    "not started": Outcome(
        succeeds, "ABORTED_BEFORE_DISPATCH", "not-started", cancel_at=1, cause="caller", before=waiting()
    ),
    "timeout": Outcome(emits_and_waits, "TOOL_TIMEOUT", "interrupted", timeout=5, cause="deadline"),
    "timeout, done late": Outcome(emits_and_is_deaf, "TOOL_TIMEOUT", "finished", timeout=5, cause="deadline"),
}
every_outcome = pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
FAILURES = {name: one for name, one in OUTCOMES.items() if one.code is not None}
every_failure = pytest.mark.parametrize("outcome", FAILURES.values(), ids=FAILURES)


def nothing_leaks(result: ToolResult) -> None:
    """Section 5: ``superseded`` and ``partial`` are as sensitive as the content."""
    assert isinstance(result, ToolFailure)
    assert (result.superseded, result.partial) == (None, ())
    assert "secret" not in str(result.content)
    assert "half" not in str(result.content)
