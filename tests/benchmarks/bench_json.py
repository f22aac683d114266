"""What the JSON edges cost, as ratios to ``json.loads`` of the same text, and to a call with next to no arguments."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

import msgspec
import trio
from measuring import Measure, medians, run

from trio_tools import ToolCall, ToolRegistry, freeze, tool
from trio_tools._signature import inspect_function

OPERATIONS = 500  # in one round
ROUNDS = 60

TREE: dict[str, object] = {
    "title": "a plan of the week",
    "owner": {"name": "Ada", "age": 36, "active": True, "tags": ["maths", "engines"]},
    "days": [
        {"day": number, "hours": 7.5, "done": number < 3, "notes": ["one thing", "another"], "next": None}
        for number in range(5)
    ],
}  # of 50 nodes


async def twenty_fields(
    title: str,
    owner: str,
    city: str,
    country: str,
    street: str,
    count: int,
    width: Annotated[int, msgspec.Meta(ge=1, le=10_000)],
    height: Annotated[int, msgspec.Meta(ge=1, le=10_000)],
    ratio: float,
    weight: float,
    active: bool,
    hidden: bool,
    kind: Literal["plain", "fancy", "huge"],
    colour: Literal["red", "green", "blue"],
    tags: list[str],
    sizes: list[int],
    parent: str | None,
    note: str | None,
    depth: int = 3,
    unit: str = "mm",
) -> int:
    """Take twenty arguments of the usual kinds."""
    return count


async def two_integers(left: int, right: int) -> int:
    """Take two arguments."""
    return left


FIELDS: dict[str, object] = {
    "title": "a box",
    "owner": "Ada Lovelace",
    "city": "London",
    "country": "England",
    "street": "12 St James's Square",
    "count": 12,
    "width": 300,
    "height": 200,
    "ratio": 1.5,
    "weight": 12.25,
    "active": True,
    "hidden": False,
    "kind": "fancy",
    "colour": "green",
    "tags": ["fragile", "heavy", "urgent"],
    "sizes": [1, 2, 3],
    "parent": None,
    "note": "leave it at the door",
    "depth": 4,
    "unit": "mm",
}


def repeated(work: Callable[[], object]) -> Callable[[], Awaitable[int]]:
    async def many() -> int:
        for _ in range(OPERATIONS):
            work()
        return OPERATIONS

    return many


async def edges() -> list[Measure]:
    tree, fields = json.dumps(TREE), json.dumps(FIELDS)
    signature, frozen = inspect_function(twenty_fields), freeze(FIELDS)
    seconds = await medians(
        ROUNDS,
        {
            "loads of the tree": repeated(lambda: json.loads(tree)),
            "freeze": repeated(lambda: freeze(TREE)),
            "loads of the fields": repeated(lambda: json.loads(fields)),
            "bind": repeated(lambda: signature.bind(frozen)),
        },
    )
    return [
        Measure("freeze of 50 nodes, to json.loads", seconds["freeze"] / seconds["loads of the tree"], 2.5),
        Measure(
            "checking and converting 20 fields, to json.loads", seconds["bind"] / seconds["loads of the fields"], 0.6
        ),
    ]


async def calls() -> list[Measure]:
    registry = ToolRegistry([tool(twenty_fields), tool(two_integers)])

    def calling(call: ToolCall, scope: trio.CancelScope) -> Callable[[], Awaitable[int]]:
        async def many() -> int:
            for _ in range(OPERATIONS):
                await registry.execute(call, scope=scope)
            return OPERATIONS

        return many

    many = ToolCall(id="c1", name="twenty_fields", arguments=FIELDS)
    few = ToolCall(id="c2", name="two_integers", arguments={"left": 1, "right": 2})
    seconds: dict[str, float] = {}
    with trio.CancelScope() as scope:
        seconds |= await medians(ROUNDS, {"many": calling(many, scope), "few": calling(few, scope)})
    return [Measure("a call with 20 fields, to one with two integers", seconds["many"] / seconds["few"], 1.3)]


async def everything() -> list[Measure]:
    return [*await edges(), *await calls()]


if __name__ == "__main__":
    sys.exit(run(everything, __doc__ or ""))
