"""What the swept pipelines are built from: a world that counts and takes notes, and stages that several of them use.

Nothing is asserted inside a stage, where it would only become a failed call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Generator
from typing import TypeAlias

import attrs
import trio

from trio_tools import (
    TOOL_ABORTED,
    TOOL_ABORTED_BEFORE_DISPATCH,
    AfterDecision,
    AfterPolicy,
    ApprovalOutcome,
    ApprovalRequest,
    AroundWrapper,
    Ask,
    BeforeDecision,
    BeforePolicy,
    FrozenJson,
    ToolDefinition,
    ToolDispatch,
    ToolExecution,
    ToolRegistry,
    ToolResult,
    ToolRun,
)

__all__ = [
    "EITHER", "NEVER_RAN", "RAN", "Body", "Builder", "NextJudge", "NextPolicy", "NextWrapper", "Person", "Shape",
    "World", "asks", "collect", "judges", "line", "obeys", "passes", "shielded", "starts_and_returns",
]  # fmt: skip

Body: TypeAlias = Callable[[FrozenJson, ToolRun], Awaitable[object]]
NextPolicy: TypeAlias = Callable[[], Awaitable[BeforeDecision]]
NextWrapper: TypeAlias = Callable[[], Awaitable[ToolResult]]
NextJudge: TypeAlias = Callable[[], Awaitable[AfterDecision]]

RAN, NEVER_RAN = frozenset({TOOL_ABORTED}), frozenset({TOOL_ABORTED_BEFORE_DISPATCH})
EITHER = RAN | NEVER_RAN


class World:
    """What a shape is built from, and the notes of one run.

    Attributes:
        foreign: A nursery outside of everything that the caller may cancel.
        is_cancelled: Whether the call has been cancelled by now; the truth, not what the library knows of it.
        threads_when_cancelled: How many worker threads were running at that moment.
    """

    def __init__(self, foreign: trio.Nursery) -> None:
        self.foreign = foreign
        self.is_cancelled: Callable[[], bool] = lambda: False
        self.threads_when_cancelled = -1
        self.published: list[tuple[str, ToolResult]] = []  # id of the call, result
        self.entered = self.left = 0  # bodies of the tool "work"
        self.late: list[str] = []  # bodies that were entered when the call was cancelled already
        self.judges = self.judged = 0  # policies of :func:`judges`; results of the call that they have seen
        self.running = 0  # everything that a shape wants to have ended before the call does

    def work(self, body: Body, *, timeout: float | None = None) -> ToolDefinition:
        """The tool that is called, with a body that is counted."""

        async def counted(arguments: FrozenJson, run: ToolRun) -> object:
            self.entered += 1
            if self.is_cancelled():
                self.late.append(run.call_id)
            try:
                return await body(arguments, run)
            finally:
                self.left += 1

        return ToolDefinition(name="work", parameters={"type": "object"}, execute=counted, timeout=timeout)

    def nested(self, seconds: float) -> ToolDefinition:
        """A tool that is called from the body of ``work``."""

        async def wait(arguments: FrozenJson, run: ToolRun) -> object:
            if self.is_cancelled():
                self.late.append(run.call_id)
            with self.counted():
                await trio.sleep(seconds)
                return "nested"

        return ToolDefinition(name="nested", parameters={"type": "object"}, execute=wait)

    @contextlib.contextmanager
    def counted(self) -> Generator[None]:
        """What runs in here must be over when the call is."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1


@attrs.define(eq=False)
class Shape:
    """A pipeline, and what may become of a call through it.

    Attributes:
        registry: Where the tool ``work`` is called.
        plain: How a call ends (see :func:`ending`) that nobody cancels.
        cut: How calls end that are cancelled at some step; each of these must occur.
        drain: For how many virtual seconds the stages go on after a cancellation, because they do not obey.
        hides: Whether a wrapper hides the caller from the body, so that a deadline that has passed, and that Trio has
            not acted on yet, cannot be seen there.
        sources: Whose scopes may end the call too, beside the one who cancels.
    """

    registry: ToolRegistry
    plain: str
    cut: frozenset[str]
    drain: float = 0
    hides: bool = False
    sources: frozenset[str] = frozenset()


Builder: TypeAlias = Callable[[World], Shape]


def collect(shapes: dict[str, Builder]) -> Callable[[Builder], Builder]:
    """A decorator for the builders of one module: they are found in ``shapes`` under their names."""

    def add(build: Builder) -> Builder:
        shapes[build.__name__] = build
        return build

    return add


async def shielded(seconds: float) -> None:
    """Work that does not obey for a while."""
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)


async def obeys(arguments: FrozenJson, run: ToolRun) -> str:
    """A body that waits, twice."""
    await trio.sleep(1)
    await trio.sleep(1)
    return "done"


async def passes(dispatch: ToolDispatch, call_next: NextWrapper) -> ToolResult:
    """A wrapper that waits before and after."""
    await trio.sleep(1)
    result = await call_next()
    await trio.sleep(1)
    return result


class Person:
    """An approver that takes its time."""

    def __init__(self, outcome: ApprovalOutcome, *, swallows: bool = False) -> None:
        self._outcome: ApprovalOutcome = outcome
        self._swallows = swallows

    async def request(self, ask: ApprovalRequest) -> ApprovalOutcome:
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            if not self._swallows:
                raise
        return self._outcome


async def asks(execution: ToolExecution, call_next: NextPolicy) -> BeforeDecision:
    await trio.sleep(1)
    return Ask()


def judges(world: World) -> AfterPolicy:
    """An after policy that waits; it must see each result that passes it once."""

    world.judges += 1

    async def after(execution: ToolExecution, result: ToolResult, call_next: NextJudge) -> AfterDecision:
        world.judged += execution.call_id == "c1"
        await trio.sleep(1)
        return await call_next()

    return after


def line(
    world: World,
    body: Body = obeys,
    *around: AroundWrapper,
    before: BeforePolicy | None = None,
    person: Person | None = None,
    after: AfterPolicy | None = None,
    timeout: float | None = None,
) -> ToolRegistry:
    """A registry with these stages."""
    registry = ToolRegistry([world.work(body, timeout=timeout), world.nested(2)], approver=person)
    for wrapper in around:
        registry.around(wrapper)
    if before is not None:
        registry.before(before)
    if after is not None:
        registry.after(after)
    return registry


def starts_and_returns(world: World) -> Body:
    """A body that returns at once and leaves obedient work in its nursery."""

    async def body(arguments: FrozenJson, run: ToolRun) -> str:
        async def work() -> None:
            with world.counted():
                await trio.sleep(2)

        run.nursery.start_soon(work)
        await trio.sleep(1)
        run.nursery.start_soon(work)
        return "started"

    return body
