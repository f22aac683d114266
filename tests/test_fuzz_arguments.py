"""200,000 argument texts through ``ToolCall.from_json`` and a registry: random ones, and good ones gone wrong.

No text raises, none reaches a policy or a body against its schema, and each is refused with words. The judge is the
standard decoder and a validator that the package does not use. The seed is printed; ``FUZZ_SEED`` repeats a run.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, cast

import attrs
import jsonschema
import msgspec
import pytest
import trio

from trio_tools import (
    INVALID_ARGUMENTS,
    BeforeDecision,
    ToolCall,
    ToolDefinition,
    ToolExecution,
    ToolFailure,
    ToolRegistry,
    tool,
)

TEXTS = 200_000


@attrs.frozen
class Line:
    item: str
    count: Annotated[int, msgspec.Meta(ge=1, le=99)]
    price: float = 0.0
    gift: bool = False


@tool
async def order(
    customer: Annotated[str, msgspec.Meta(min_length=1, max_length=20)],
    lines: list[Line],
    speed: Literal["slow", "fast"] = "slow",
    note: str | None = None,
    labels: dict[str, int] | None = None,
) -> None:
    """Take an order."""


async def nothing(arguments: object, run: object) -> None:
    """Take anything."""


RAW = ToolDefinition(
    name="raw",
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string", "pattern": "^[a-z/]+$"}, "deep": {"$ref": "#/$defs/tree"}},
        "required": ["path"],
        "$defs": {"tree": {"type": "array", "maxItems": 3, "items": {"$ref": "#/$defs/tree"}}},
    },
    execute=nothing,
)
GOOD = {
    "order": [
        json.dumps({"customer": "Ada", "lines": [{"item": "pen", "count": 2, "price": 1.5}], "speed": "fast"}),
        json.dumps({"customer": "Bob ☃", "lines": [], "note": None, "labels": {"a": 1}}, ensure_ascii=False),
        json.dumps({"customer": "C", "lines": [{"item": "x", "count": 99, "gift": True}] * 3}, indent=1),
    ],
    "raw": [json.dumps({"path": "a/b", "deep": [[], [[]]]}), json.dumps({"path": "x"})],
}
TOKENS = [
    "{", "}", "[", "]", ":", ",", '"', "\\", "\\u", "\\ud800", "\\udc00", "true", "false", "null", "NaN", "-Infinity",
    "Infinity", "1e999", "-0", "0x1", "01", "1.", ".5", "1" * 400, "\x00", "\ufeff", "\ud800", "\u2028", " ", "\n",
    "//", '"customer"', '"lines"', '"count"', '"count":', '"path":"a"', "5", "-1", "1.0", "[" * 200, "{}{}", "'a'",
]  # fmt: skip
PARTS: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    100,
    5.0,
    0.5,
    1e300,
    "",
    "5",
    "slow",
    "a" * 30,
    [],
    {},
    [[]],
    [None],
    {"a": 1},
]


def texts(name: str, chance: random.Random) -> str | bytes:
    """A text of arguments for a tool."""
    kind = chance.random()
    if kind < 0.1:
        return bytes(chance.choices(range(256), k=chance.randrange(20)))
    if kind < 0.25:
        return "".join(chance.choices(TOKENS, k=chance.randrange(12)))
    text = chance.choice(GOOD[name])
    if kind < 0.6:
        return json.dumps(replaced(json.loads(text), chance))
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
        text = mutated(text, chance)
    if kind < 0.62:
        return json.dumps(text)  # encoded twice
    return text.encode(errors="surrogatepass") if kind < 0.7 else text


def replaced(value: Any, chance: random.Random) -> Any:
    """The value with one part of it replaced, taken away or given another name."""
    if not value or not isinstance(value, dict | list) or chance.random() < 0.3:
        return chance.choice(PARTS)
    if isinstance(value, list):
        items = list(cast("list[Any]", value))
        at = chance.randrange(len(items))
        items[at] = replaced(items[at], chance)
        return items
    members = dict(cast("dict[str, Any]", value))
    key = chance.choice(sorted(members))
    match chance.randrange(4):
        case 0:
            del members[key]
        case 1:
            members[key + chance.choice("sX_")] = members.pop(key)
        case _:
            members[key] = replaced(members[key], chance)
    return members


def mutated(text: str, chance: random.Random) -> str:
    at, end = sorted((chance.randrange(len(text) + 1), chance.randrange(len(text) + 1)))
    match chance.randrange(6):
        case 0:
            return text[:at] + text[end:]
        case 1:
            return text[:at] + chance.choice(TOKENS) + text[at:]
        case 2:
            return text[:at] + chance.choice(TOKENS) + text[min(at + 1, len(text)) :]
        case 3:
            return text[:end] + text[at:]
        case 4:
            return text[:at]
        case _:
            words = text.split('"')
            chance.shuffle(words)
            return '"'.join(words)


def as_read(text: str | bytes) -> object:
    """What the standard decoder makes of a text; only asked of texts that were accepted."""
    return json.loads(text) if text else {}


def judged(definition: ToolDefinition) -> Any:
    return jsonschema.Draft202012Validator(json.loads(json.dumps(definition.parameters)))


async def fuzz(chance: random.Random, count: int) -> dict[str, int]:
    """Make the calls; how many bodies ran, and how many texts of each kind there were."""
    seen: dict[str, int] = {"policy": 0, "refused": 0, "ran": 0}
    judges = {each.name: judged(each) for each in (order, RAW)}
    registry = ToolRegistry([order, RAW])

    async def policy(execution: ToolExecution, call_next: Callable[[], Awaitable[BeforeDecision]]) -> BeforeDecision:
        seen["policy"] += 1
        return await call_next()

    registry.before(policy)
    with trio.CancelScope() as scope:
        for number in range(count):
            name = chance.choice(list(GOOD))
            text = texts(name, chance)
            before = seen["policy"]
            call = ToolCall.from_json(id=f"c{number}", name=name, arguments=text)
            result = await registry.execute(call, scope=scope)
            if isinstance(result, ToolFailure):
                assert result.error.code == INVALID_ARGUMENTS, (text, result)
                assert result.body == "not-started", (text, result)
                assert 20 < len(result.error.message) < 50_000, (text, result)
                assert seen["policy"] == before, (text, result)
                seen["refused"] += 1
            else:
                assert judges[name].is_valid(as_read(text)), (text, result)
                seen["ran"] += 1
    return seen


def test_no_text_raises_and_none_reaches_a_body_against_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("FUZZ_SEED") or secrets.randbits(32))
    with capsys.disabled():
        sys.stdout.write(f"\nFUZZ_SEED={seed}\n")
    seen = trio.run(fuzz, random.Random(seed), TEXTS)
    assert seen["ran"] + seen["refused"] == TEXTS
    assert seen["policy"] == seen["ran"]
    assert min(seen["ran"], seen["refused"]) > TEXTS / 20, "the texts are too good, or too bad, to tell anything"
