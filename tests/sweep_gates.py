"""Pipelines for the sweep: policies, approvals and guards that wait, refuse, fail or do not obey."""

from __future__ import annotations

import contextlib

import trio
from sweep_parts import (
    EITHER,
    NEVER_RAN,
    RAN,
    Builder,
    NextJudge,
    NextPolicy,
    Person,
    Shape,
    World,
    asks,
    collect,
    judges,
    line,
    obeys,
    passes,
    shielded,
)

from trio_tools import (
    DENIED,
    Accept,
    AfterDecision,
    Allow,
    BeforeDecision,
    Block,
    Deny,
    TextContent,
    ToolError,
    ToolExecution,
    ToolResult,
)

SHAPES: dict[str, Builder] = {}
shape = collect(SHAPES)


@shape
def every_stage_waits(world: World) -> Shape:
    registry = line(world, obeys, passes, before=asks, person=Person("allowed-once"), after=judges(world))
    registry.guard(lambda execution: None)
    return Shape(registry, "success", EITHER, drain=1)


@shape
def policy_swallows_the_cancellation(world: World) -> Shape:
    async def before(execution: ToolExecution, call_next: NextPolicy) -> BeforeDecision:
        with contextlib.suppress(trio.Cancelled):
            await trio.sleep(1)
        return Allow()

    return Shape(line(world, before=before), "success", EITHER)


@shape
def policy_denies_in_the_end(world: World) -> Shape:
    async def before(execution: ToolExecution, call_next: NextPolicy) -> BeforeDecision:
        decision = await call_next()
        await shielded(2)
        await trio.sleep(1)
        return Deny("no") if isinstance(decision, Allow) else decision

    return Shape(line(world, before=before), DENIED, NEVER_RAN | {DENIED}, drain=2)


@shape
def policy_denies_although_cancelled(world: World) -> Shape:
    async def before(execution: ToolExecution, call_next: NextPolicy) -> BeforeDecision:
        await shielded(2)
        return Deny("no")

    return Shape(line(world, before=before, after=judges(world)), DENIED, frozenset({DENIED}), drain=3)


@shape
def policy_fails_while_unwinding(world: World) -> Shape:
    async def before(execution: ToolExecution, call_next: NextPolicy) -> BeforeDecision:
        try:
            await trio.sleep(1)
        finally:
            raise ToolError("lost", code="LOST")

    return Shape(line(world, before=before), "LOST", frozenset({"LOST"}))


@shape
def person_rejects(world: World) -> Shape:
    registry = line(world, before=asks, person=Person("rejected"))
    return Shape(registry, DENIED, NEVER_RAN | {DENIED})


@shape
def person_rejects_although_cancelled(world: World) -> Shape:
    registry = line(world, before=asks, person=Person("rejected", swallows=True))
    return Shape(registry, DENIED, NEVER_RAN | {DENIED})


@shape
def person_withdraws_when_cancelled(world: World) -> Shape:
    registry = line(world, before=asks, person=Person("cancelled", swallows=True), after=judges(world))
    return Shape(registry, DENIED, NEVER_RAN | {DENIED}, drain=1)


@shape
def person_allows_although_cancelled(world: World) -> Shape:
    registry = line(world, obeys, passes, before=asks, person=Person("allowed-once", swallows=True))
    return Shape(registry, "success", EITHER)


@shape
def guard_denies(world: World) -> Shape:
    async def before(execution: ToolExecution, call_next: NextPolicy) -> BeforeDecision:
        await trio.sleep(1)
        return Allow()

    registry = line(world, before=before, after=judges(world))
    registry.guard(lambda execution: "not here")
    return Shape(registry, DENIED, NEVER_RAN | {DENIED}, drain=1)


# ---- after -----------------------------------------------------------------------------------------------------------


@shape
def after_policy_blocks(world: World) -> Shape:
    async def after(execution: ToolExecution, result: ToolResult, call_next: NextJudge) -> AfterDecision:
        await trio.sleep(3)
        return Block("secret")

    return Shape(line(world, after=after), "None", frozenset({"None"}), drain=3)


@shape
def after_policy_replaces_the_content(world: World) -> Shape:
    async def after(execution: ToolExecution, result: ToolResult, call_next: NextJudge) -> AfterDecision:
        await trio.sleep(3)
        return Accept(content=[TextContent("redacted")]) if not result.is_error else await call_next()

    return Shape(line(world, after=after), "success", RAN, drain=3)


@shape
def after_policy_fails(world: World) -> Shape:
    async def after(execution: ToolExecution, result: ToolResult, call_next: NextJudge) -> AfterDecision:
        await trio.sleep(1)
        raise LookupError("no rules")

    return Shape(line(world, after=after), "LookupError", frozenset({"LookupError"}), drain=1)
