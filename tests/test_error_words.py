"""Section 5 of the design: how errors and groups of errors are told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, cast

import pytest
import trio
from calls import BYS, By, Line, whose
from fakes import raising, shown, source

from trio_tools import (
    FrozenJson,
    ToolError,
    ToolRun,
    ToolSuccess,
)

Work = Callable[[], Awaitable[object]]


def body_of(work: Work) -> Callable[[FrozenJson, ToolRun], Awaitable[object]]:
    async def body(arguments: FrozenJson, run: ToolRun) -> object:
        return await work()

    return body


def lost() -> NoReturn:
    raise ToolError("disk full", code="DISK")


async def sleeps() -> object:
    await trio.sleep(10)
    return "done"


# ---- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [0, 1, 3, 200])
def test_one_error_in_groups_is_reported_as_itself(depth: int) -> None:
    """Section 5."""
    error: Exception = ToolError("disk full", code="DISK")
    for _ in range(depth):
        inner: list[Exception] = [error]
        error = ExceptionGroup("around", inner)
    ended = Line(body=raising(error)).call()
    assert (ended.code, ended.failure.error.name, ended.failure.error.message) == ("DISK", "ToolError", "disk full")


def test_several_errors_are_all_named_and_none_lends_its_code() -> None:
    """Section 5."""
    inner: list[Exception] = [ValueError("two"), OSError()]
    outer: list[Exception] = [ToolError("one", code="ONE"), ExceptionGroup("b", inner)]
    group = ExceptionGroup("a", outer)
    ended = Line(body=raising(group)).call()
    assert (ended.code, ended.failure.error.name) == (None, "ExceptionGroup")
    for told in ("ToolError: one", "ValueError: two", "OSError"):
        assert told in ended.failure.error.message
    assert shown(ended.failure) == [f"Error: {ended.failure.error.message}"]


@pytest.mark.parametrize("by", BYS)
def test_a_group_that_mixes_cancelled_with_errors_is_the_errors(by: By) -> None:
    """Section 5; the caller still meets its cancellation (P5, checked by the helper)."""

    async def child(message: str) -> None:
        try:
            await trio.sleep(10)
        finally:
            raise ValueError(message)

    async def work() -> object:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child, "one")
            nursery.start_soon(child, "two")
            nursery.start_soon(trio.sleep, 10)
            await trio.sleep(10)
        return "done"

    ended = Line(body=body_of(work)).call(cancel_at=1, by=by)
    assert "one" in ended.failure.error.message
    assert "two" in ended.failure.error.message
    assert "Cancelled" not in ended.failure.error.message
    assert (ended.failure.body, source(ended.failure)) == ("interrupted", whose(by))


# ---- words -----------------------------------------------------------------------------------------------------------


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Nameless(Exception):
    pass


class ReturnsNoText(Exception):
    __str__ = cast(Any, lambda _: 42)  # pyright: ignore[reportUnknownLambdaType] - on purpose no text


class InterruptingText(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


WORDED: list[tuple[Exception, str]] = [
    (Nameless(), "Nameless"),
    (Nameless(""), "Nameless"),
    (Nameless("   "), "Nameless"),
    (AssertionError(), "AssertionError"),
    (trio.TooSlowError(), "TooSlowError"),
    (KeyError("name"), "name"),
    (KeyError(), "KeyError"),
    (KeyError(""), "KeyError"),
    (OSError(2, "No such file", "a.txt"), "[Errno 2] No such file: 'a.txt'"),
    (ToolError("plain"), "plain"),
    (ValueError("two\nlines"), "two\nlines"),
]


@pytest.mark.parametrize(("error", "told"), WORDED)
def test_an_exception_is_told_in_its_own_words_or_by_its_class(error: Exception, told: str) -> None:
    """Section 5: an exception without a message is reported by its class name."""
    ended = Line(body=raising(error)).call()
    assert (ended.failure.error.message, ended.failure.error.name) == (told, type(error).__name__)
    assert shown(ended.failure) == [f"Error: {told}"]


@pytest.mark.parametrize("error", [Unprintable(), ReturnsNoText(), KeyError(Unprintable())])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("stage", ["before", "around", "body", "after"])
def test_an_exception_that_cannot_be_printed_costs_nobody_the_result(
    error: Exception, grouped: bool, stage: str
) -> None:
    """P1: for every failure of tool, policy, wrapper or observer."""
    raised = ExceptionGroup("both", [error, ValueError("second")]) if grouped else error
    stages: dict[str, Any] = {stage: raising(raised)}
    ended = Line(**stages).call()
    assert type(error).__name__ in ended.failure.error.message
    assert ended.failure.error.name == ("ExceptionGroup" if grouped else type(error).__name__)


@pytest.mark.parametrize("stage", ["before", "around", "body", "after"])
def test_words_that_cannot_be_written_as_utf8_are_mended(stage: str) -> None:
    """Section 6 admits no lone surrogates; messages quote file names, which may have them."""
    stages: dict[str, Any] = {stage: raising(ToolError("no file \udcff.txt", code="FILE"))}
    ended = Line(**stages).call()
    assert ended.code == "FILE"
    shown(ended.failure)[0].encode()
    assert ended.failure.error.message.startswith("no file ")


class Forgetful(ToolError):
    """Does not call ``super().__init__``, so it has no code and no message."""

    def __init__(self, path: str) -> None:
        self.path = path


class Broken(ToolError):
    def __getattribute__(self, name: str) -> Any:
        if name == "code":
            raise RuntimeError("no code")
        return super().__getattribute__(name)


@pytest.mark.parametrize("stage", ["before", "around", "body", "after"])
@pytest.mark.parametrize("error", [Forgetful("a.txt"), Broken("disk full")])
def test_a_tool_error_that_is_not_well_made_costs_nobody_the_result(error: ToolError, stage: str) -> None:
    """P1: for every failure of tool, policy, wrapper or observer."""
    stages: dict[str, Any] = {stage: raising(error)}
    ended = Line(**stages).call()
    assert (ended.code, ended.failure.error.name) == (None, type(error).__name__)


@pytest.mark.parametrize("code", ["\udcff", 42, ""])
@pytest.mark.parametrize("stage", ["before", "around", "body", "after"])
def test_a_code_that_is_none_costs_nobody_the_result(stage: str, code: Any) -> None:
    """P1: a tool may hand anything to ``ToolError``; its message is still told."""
    stages: dict[str, Any] = {stage: raising(ToolError("disk full", code=code))}
    ended = Line(**stages).call()
    assert ended.failure.error.message == "disk full"


def test_a_message_that_is_no_text_is_told_all_the_same() -> None:
    """P1: ``ToolError(42)``."""
    message: Any = 42
    ended = Line(body=raising(ToolError(message))).call()
    assert ended.failure.error.message == "42"


def test_an_interrupt_in_the_words_of_an_exception_is_an_interrupt() -> None:
    """P7: it is raised once the call has its result."""
    ended = Line(body=raising(InterruptingText())).call()
    assert isinstance(ended.raised, KeyboardInterrupt)
    assert ended.failure.body == "finished"


def test_an_error_with_itself_on_its_chain_is_reported() -> None:
    """P1: a chain of contexts may be a circle."""

    async def work() -> object:
        one, two = ValueError("one"), ValueError("two")
        one.__context__, two.__context__ = two, one
        try:
            await trio.sleep(10)
        except trio.Cancelled as error:
            error.__context__ = one
            raise
        return "done"

    ended = Line(body=body_of(work)).call(cancel_at=1)
    assert (ended.code, ended.failure.body) == ("ABORTED", "interrupted")


def test_a_success_needs_no_words() -> None:
    """The counter-example: what is tested above is not always an error."""
    ended = Line(body=body_of(sleeps)).call()
    assert isinstance(ended.result, ToolSuccess)
