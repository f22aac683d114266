"""Which calls may overlap: what a tool says, and what is made of an answer that makes no sense."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from batches import asked, waits

from trio_tools import Keyed, ToolCall
from trio_tools._concurrency import classified

SECONDS = {"type": "object", "properties": {"seconds": {"type": "number"}}}
MALFORMED = ToolCall.from_json(id="a", name="work", arguments="{").arguments
(CALL,) = asked("a", seconds=1)


@pytest.mark.parametrize("mode", ["exclusive", "parallel", Keyed("k")])
def test_a_classifier_gets_the_snapshot_that_the_call_will_run_with(mode: Any) -> None:
    """P8: what was classified is what runs."""
    shown: list[object] = []

    def classify(arguments: object) -> object:
        shown.append(arguments)
        return mode

    call, found = classified(CALL, waits(concurrency=classify))
    assert found == mode
    assert shown == [{"seconds": 1}]
    assert shown[0] is call.arguments
    assert CALL.arguments is not call.arguments


UNHASHABLE: Any = []


@pytest.mark.parametrize("answer", [True, None, "often", 3, Keyed(UNHASHABLE)])
def test_an_answer_that_makes_no_sense_means_exclusive(answer: Any) -> None:
    """Section 8; a key that has no hash is none."""

    def classify(_: object) -> object:
        return answer

    assert classified(CALL, waits(concurrency=classify))[1] == "exclusive"


def test_a_classifier_that_is_async_means_exclusive_and_warns_of_nothing() -> None:
    async def classify(arguments: object) -> object: ...

    assert classified(CALL, waits(concurrency=classify))[1] == "exclusive"


@pytest.mark.parametrize("arguments", [{"seconds": "soon"}, {"seconds": {1}}, MALFORMED])
def test_a_call_that_cannot_run_counts_as_parallel_and_no_classifier_sees_it(arguments: Any) -> None:
    """Section 8, malformed calls: a classifier may rely on the schema."""

    def classify(_: object) -> object:
        raise AssertionError("asked")  # pragma: no cover

    for concurrency in (classify, "exclusive"):
        tool = attrs.evolve(waits(concurrency=concurrency), parameters=SECONDS)
        assert classified(ToolCall(id="a", name="work", arguments=arguments), tool)[1] == "parallel"


def test_an_unknown_tool_counts_as_parallel() -> None:
    assert classified(CALL, None) == (CALL, "parallel")


def test_a_key_that_cannot_be_compared_means_exclusive() -> None:
    class Key:
        def __eq__(self, other: object) -> bool:
            raise LookupError("incomparable")

        def __hash__(self) -> int:
            return 1

    def classify(_: object) -> object:
        return Keyed(Key())

    assert classified(CALL, waits(concurrency=classify))[1] == "exclusive"
