"""A tour: what a signature tells a model, what a model's arguments become, and what it sees of a result.

Run it and read along; nothing here needs a model or a network.
"""

import json
from datetime import date
from enum import Enum
from typing import Annotated, Literal

import attrs
import trio
from msgspec import Meta

from trio_tools import (
    FrozenJson,
    ImageContent,
    Output,
    TextContent,
    ToolCall,
    ToolDefinition,
    ToolError,
    ToolRegistry,
    ToolRun,
    limit_content,
    tool,
)


class Room(Enum):
    """Where one sleeps."""

    SINGLE = "single"
    DOUBLE = "double"


@attrs.frozen
class Guest:
    """Somebody who stays.

    Attributes:
        name: As in the passport.
        age: In years.
    """

    name: str
    age: Annotated[int, Meta(ge=0, le=130)] | None = None


@attrs.frozen
class Booking:
    """What was booked."""

    number: int
    arrival: date
    guests: list[Guest]
    price: float


@tool
async def book(
    arrival: date,
    guests: Annotated[list[Guest], Meta(min_length=1, max_length=4)],
    nights: Annotated[int, Meta(ge=1, description="at least one")] = 1,
    room: Room = Room.SINGLE,
    board: Literal["none", "half", "full"] | None = None,
) -> Booking:
    """Book a room.

    Args:
        arrival: The first night.
        guests: All of them, children too.
        nights: How long. (The annotation says it too, and wins.)
        room: Which kind.
        board: Which meals are included.
    """
    if arrival.month == 12 and nights > 7:
        raise ToolError("in December we take guests for a week at most", code="TOO_LONG")
    return Booking(number=4711, arrival=arrival, guests=guests, price=80.0 * nights)  # values, not JSON


@tool
async def floor_plan(storey: int) -> list[str | ImageContent]:
    """Show a plan of the house."""
    smallest_gif = bytes.fromhex("47494638396101000100800000000000ffffff2c00000000010001000002024401003b")
    return [f"storey {storey}, 1:500", ImageContent(smallest_gif, "image/gif")]


@tool(finalize_content=limit_content(160))
def guest_book() -> str:
    """Read the guest book."""  # not async: it runs in a thread
    return "\n".join(f"{year}: We had a lovely time." for year in range(1900, 2025))


def as_line(arguments: FrozenJson, value: FrozenJson) -> str:
    match value:
        case {"celsius": float(degrees), "sky": str(sky)}:
            return f"{degrees:.0f} °C, {sky}"
        case _:
            raise ValueError("no weather")


async def weather(arguments: FrozenJson, run: ToolRun) -> object:
    return {"celsius": 21.5, "sky": "clear"}


RAW = ToolDefinition(  # with schemas that somebody else wrote, as an MCP server does
    name="weather",
    description="What it is like outside.",
    parameters={"type": "object", "properties": {"place": {"type": "string", "minLength": 1}}, "required": ["place"]},
    execute=weather,
    output=Output(schema={"type": "object", "required": ["celsius", "sky"]}, render=as_line),
    concurrency="parallel",
)

CALLS = {
    "A good call.": ("book", '{"arrival": "2026-07-01", "guests": [{"name": "Ada", "age": 36}], "room": "double"}'),
    "Everything that is wrong is told at once, and nobody was asked.": (
        "book",
        '{"arrival": "soon", "guests": [{"nmae": "Ada"}], "nights": "2", "room": "suite"}',
    ),
    "Nothing is guessed.": ("book", '{"arrival": "2026-07-01", "arrival": "2026-07-02", "guests": []}'),
    "A failure of the tool's own, with a code for programs.": (
        "book",
        '{"arrival": "2026-12-20", "nights": 9, "guests": [{"name": "Ada"}]}',
    ),
    "Text and a picture.": ("floor_plan", '{"storey": 2}'),
    "What is long is cut for the model; the value is whole.": ("guest_book", ""),
    "A schema of somebody else's, and a rendering.": ("weather", '{"place": "London"}'),
    "The same checks.": ("weather", '{"place": ""}'),
}


async def main() -> None:
    registry = ToolRegistry([book, floor_plan, guest_book, RAW])
    print("What a model is told of book:\n")
    print(json.dumps({"description": book.description, "parameters": book.parameters}, indent=2))
    with trio.CancelScope() as scope:
        for number, (title, (name, arguments)) in enumerate(CALLS.items(), 1):
            call = ToolCall.from_json(id=f"call_{number}", name=name, arguments=arguments)
            result = await registry.execute(call, scope=scope)
            print(f"\n{title}\n  {name}({arguments})")
            for block in result.content:
                text = block.text if isinstance(block, TextContent) else f"[{type(block).__name__}]"
                print("  " + text.replace("\n", "\n  "))
            if result.is_error is True:
                print(f"  (code {result.error.code}, body {result.body})")
            else:
                print(f"  (value: {json.dumps(result.value)[:100]})")


trio.run(main)
