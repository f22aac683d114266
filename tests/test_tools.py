"""Definitions, outputs and decorated functions: what is refused, and what a tool may be."""

from __future__ import annotations

import copy
import datetime
import pickle
import threading
from typing import Any

import pytest
import trio
import trio.testing

from trio_tools import (
    INVALID_OUTPUT,
    Accept,
    Context,
    ExecutionToken,
    ImageContent,
    Output,
    ResourceLink,
    TextContent,
    ToolCall,
    ToolDefinition,
    ToolError,
    ToolFailure,
    ToolRegistry,
    ToolResult,
    ToolRun,
    ToolSuccess,
    limit_content,
    tool,
)
from trio_tools._pipeline import never_started


async def nothing(arguments: object, run: ToolRun) -> None: ...


def definition(**options: Any) -> ToolDefinition:
    fields: dict[str, Any] = {"name": "work", "parameters": {"type": "object"}, "execute": nothing, **options}
    return ToolDefinition(**fields)


def call(one: ToolDefinition, arguments: object = None, **options: Any) -> ToolResult:
    async def main() -> ToolResult:
        request = ToolCall(id="c1", name=one.name, arguments={} if arguments is None else arguments)
        return await ToolRegistry([one], **options).execute(request, scope=trio.CancelScope())

    return trio.run(main)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"name": "two words"}, "without spaces"),
        ({"timeout": 0}, "positive number of seconds"),
        ({"timeout": float("inf")}, "None for no limit"),
        ({"timeout": True}, "positive number of seconds"),
        ({"concurrency": "sometimes"}, "'exclusive', 'parallel' or a function"),
        ({"parameters": {"type": "objekt"}}, "objekt"),
        ({"parameters": ["type"]}, "a schema must be a mapping"),
        ({"parameters": {"type": "array"}}, "must be the schema of an object"),
        ({"parameters": {"type": ["array", "null"]}}, "must be the schema of an object"),
        ({"execute": "work"}, "callable"),
    ],
)
def test_a_definition_that_cannot_be_used_is_refused_when_it_is_made(options: dict[str, Any], told: str) -> None:
    """Bad input gets a clear error, at once."""
    with pytest.raises((TypeError, ValueError), match=told):
        definition(**options)


def test_what_the_caller_changes_in_a_schema_later_does_not_change_the_tool() -> None:
    """A definition is a value."""
    schema: dict[str, Any] = {"type": "object"}
    one = definition(parameters=schema)
    schema["type"] = "array"
    assert one.parameters == {"type": "object"}


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (Output(render=lambda arguments, value: [1]), "render failed: content must be made of content blocks"),  # pyright: ignore[reportArgumentType] - what is tested
        (Output(presentation_meta=lambda arguments, value: {1}), "presentation_meta failed: $: "),
        (Output(schema={"type": "integer"}), "returned invalid output: $"),
        (Output(convert=lambda value: 1 / 0), "division by zero"),
    ],
)
def test_a_value_that_breaks_the_contract_is_told_with_the_tool_and_the_place(output: Output, told: str) -> None:
    """Section 7."""
    result = call(definition(output=output))
    assert result.is_error is True
    assert told in result.error.message
    assert 'tool "work"' in result.error.message


def test_presentation_meta_is_kept_for_the_user_interface() -> None:
    """Section 7."""
    result = call(definition(output=Output(presentation_meta=lambda arguments, value: {"icon": "x"})))
    assert result.meta == {"icon": "x"}


def test_an_integer_of_any_size_is_shown_exactly() -> None:
    """The default rendering does not round."""

    @tool
    async def large() -> int:
        return 10**40

    result = call(large)
    assert result.content == (TextContent("1" + "0" * 40),)


def accepted(one: ToolDefinition, value: object) -> ToolResult:
    """What comes of an after policy that puts ``value`` in the place of the value."""

    async def policy(execution: object, result: object, call_next: object) -> Accept:
        return Accept(value=value)

    async def main() -> ToolResult:
        registry = ToolRegistry([one])
        registry.after(policy)
        return await registry.execute(ToolCall(id="c1", name=one.name), scope=trio.CancelScope())

    return trio.run(main)


def test_a_value_that_a_policy_puts_in_place_is_held_against_the_return_type() -> None:
    """Section 7: it is validated again."""

    @tool
    async def today() -> datetime.date:
        return datetime.date(2020, 1, 1)

    assert accepted(today, "2021-02-03").is_error is False
    refused = accepted(today, "garbage")
    assert refused.is_error is True
    assert (refused.error.code, refused.body) == (INVALID_OUTPUT, "finished")
    assert 'tool "today" returned invalid output: $: "garbage" is no date' in refused.error.message


def test_a_tool_that_converts_itself_says_itself_what_else_to_hold_a_value_against() -> None:
    """Section 7."""

    def even(value: object) -> None:
        if value not in (0, 2):
            raise ValueError("odd")

    def as_number(value: object) -> object:
        return value.day if isinstance(value, datetime.date) else value

    @tool(output=Output(schema={"type": "integer"}, convert=as_number))
    async def day() -> datetime.date:
        return datetime.date(2020, 1, 1)

    assert accepted(day, 3).is_error is False
    checked = definition(output=Output(check_json=even))
    assert accepted(checked, 2).is_error is False
    refused = accepted(checked, 1)
    assert refused.is_error is True
    assert "odd" in refused.error.message


def test_an_output_that_only_renders_leaves_the_conversion_to_the_annotation() -> None:
    """What it leaves open comes from the return annotation."""

    @tool(output=Output(render=lambda arguments, value: "shown"))
    async def pair() -> tuple[int, int]:
        return (1, 2)

    result = call(pair)
    assert result.is_error is False
    assert (result.value, result.content) == ((1, 2), (TextContent("shown"),))


def test_a_plain_function_that_returns_a_coroutine_is_told_to_be_async() -> None:
    """A common slip: a wrapper that is not async around a function that is."""

    @tool
    def work() -> Any:
        run: Any = None
        return nothing({}, run)

    result = call(work)
    assert result.is_error is True
    assert result.error.message == "work is not async but returned a coroutine: make it an async def"


def test_the_body_of_a_function_tool_can_be_called_directly() -> None:
    """``ToolDefinition.execute`` takes arguments and run, as of any tool."""

    @tool
    async def add(a: int, b: int = 1) -> int:
        return a + b

    @tool
    def blocking(a: int) -> int:
        return a

    async def main() -> list[object]:
        run: Any = None
        return [await add.execute({"a": 1}, run), await blocking.execute({"a": 2}, run), await add(1, 2)]

    assert trio.run(main) == [2, 2, 3]


def test_a_limiter_bounds_the_threads_and_a_nested_call_does_not_wait_for_its_parents_token() -> None:
    """Section 4: under a limiter; a call that waits for a token that its parent holds would never end."""
    inside: list[int] = []

    @tool
    def inner() -> int:
        inside.append(threading.active_count())
        return 1

    @tool
    def outer(run: ToolRun) -> str:
        async def nested() -> ToolResult:
            return await run.call_tool("inner", {})

        return str(trio.from_thread.run(nested).content)

    async def main() -> ToolResult:
        registry = ToolRegistry([inner, outer], thread_limiter=trio.CapacityLimiter(1))
        return await registry.execute(ToolCall(id="c1", name="outer"), scope=trio.CancelScope())

    result = trio.run(main)
    assert result.is_error is False
    assert len(inside) == 1


def test_a_call_that_cannot_have_a_thread_before_it_is_cancelled_never_starts() -> None:
    """Section 4: a sync call cancelled while it waits for a thread never starts."""

    @tool(timeout=1)
    def work() -> None:
        raise AssertionError

    async def main() -> ToolResult:
        limiter = trio.CapacityLimiter(1)
        limiter.acquire_on_behalf_of_nowait("somebody")
        registry = ToolRegistry([work], thread_limiter=limiter)
        return await registry.execute(ToolCall(id="c1", name="work"), scope=trio.CancelScope())

    result = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert result.is_error is True
    assert (result.error.code, result.body) == ("TOOL_TIMEOUT", "not-started")


@pytest.mark.parametrize(
    "make",
    [
        lambda: TextContent(3),  # pyright: ignore[reportArgumentType] - what is tested
        lambda: TextContent("\ud800"),
        lambda: ResourceLink("uri", "name", 3),  # pyright: ignore[reportArgumentType] - what is tested
        lambda: Context(3, source="x"),  # pyright: ignore[reportArgumentType] - what is tested
        lambda: Accept(content="x", value=1),
        lambda: Accept(contexts=["x"]),  # pyright: ignore[reportArgumentType] - what is tested
        lambda: ToolSuccess(value={1}, content="x"),
        lambda: ToolCall(id=3, name="x"),  # pyright: ignore[reportArgumentType] - what is tested
    ],
)
def test_values_that_could_not_be_shown_or_kept_are_refused_when_they_are_made(make: Any) -> None:
    """Results are frozen before the first observer sees them."""
    with pytest.raises((TypeError, ValueError)):
        make()


def test_results_errors_and_tokens_can_be_copied_and_kept() -> None:
    """A result is a value; a ToolError can cross a process boundary."""
    failure = ToolFailure.from_message("no", code="X", contexts=[Context("c", source="s")])
    success = ToolSuccess(value={"a": [1]}, content=[ImageContent("aGk=", "image/png")])
    for one in (failure, success):
        assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)
    error = pickle.loads(pickle.dumps(ToolError("no", code="X")))
    assert (str(error), error.code) == ("no", "X")
    assert repr(ExecutionToken("c1")).startswith("<ExecutionToken of 'c1'")


def test_views_show_what_they_are_of() -> None:
    """A repr shows the state."""
    shown: list[str] = []

    @tool
    async def work(run: ToolRun) -> None:
        shown.append(repr(run))

    call(work)
    assert shown == ["<RunView of call 'c1' to 'work'>"]
    assert repr(Accept()).endswith("value=UNSET, contexts=())")


def test_a_coroutine_that_never_began_is_told_from_one_that_did_and_is_closed() -> None:
    """P2: an interrupt may be quicker than the first step of a body."""

    async def body() -> None:
        await trio.lowlevel.checkpoint()

    async def main() -> None:
        begun = body()
        await begun
        assert not never_started(begun)

    fresh = body()
    assert never_started(fresh)
    assert not never_started(fresh)
    trio.run(main)


@pytest.mark.parametrize("finalize", [nothing, 3])
def test_a_finalize_content_that_cannot_work_is_refused_at_the_definition(finalize: object) -> None:
    """P10: not at the first call that has a result to show."""
    with pytest.raises(TypeError, match="finalize_content must be a function that is not async"):
        definition(finalize_content=finalize)


def one_argument(value: object) -> None: ...


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"render": 5}, "render must be a function that is not async"),
        ({"render": nothing}, "render must be a function that is not async"),
        ({"render": one_argument}, "render is called with \\(arguments, value\\)"),
        ({"presentation_meta": 3}, "presentation_meta must be"),
        ({"convert": 3}, "convert must be"),
        ({"check_json": 3}, "check_json must be"),
    ],
)
def test_functions_of_an_output_that_cannot_work_are_refused_at_the_definition(
    options: dict[str, Any], told: str
) -> None:
    """Section 7: they are synchronous, and called in one way."""
    with pytest.raises(TypeError, match=told):
        Output(**options)


def test_a_function_whose_parameters_are_not_known_is_taken_at_its_word() -> None:
    """Some that are written in C have no signature."""
    assert Output(convert=int, render=max).convert is int  # pyright: ignore[reportArgumentType]


def test_limit_content_that_was_not_called_is_refused_at_the_definition() -> None:
    """It makes a finalizer, and is none."""
    with pytest.raises(TypeError, match=r"finalize_content is called with \(execution, result\)"):
        definition(finalize_content=limit_content)


@pytest.mark.parametrize(
    ("rendered", "shown"),
    [
        (TextContent("a"), ("a",)),
        (["a", TextContent("b")], ("a", "b")),
        (("a", "b"), ("a", "b")),
        ("ab", ("ab",)),
    ],
)
def test_a_rendering_is_a_str_a_block_or_several_of_both(rendered: Any, shown: tuple[str, ...]) -> None:
    """Section 7."""
    result = call(definition(output=Output(render=lambda arguments, value: rendered)))
    assert result.content == tuple(map(TextContent, shown))


def test_parsed_arguments_do_not_go_through_from_json() -> None:
    """It reads text."""
    parsed: Any = {}
    with pytest.raises(TypeError, match=r"as JSON text, not as dict: .* ToolCall\(id=..., name=..., arguments=...\)"):
        ToolCall.from_json(id="c1", name="work", arguments=parsed)
    assert ToolCall.from_json(id="c1", name="work", arguments="").arguments == {}


@pytest.mark.parametrize("field", ["id", "name"])
def test_a_call_whose_id_or_name_is_no_text_is_refused_in_plain_words(field: str) -> None:
    """A model's SDK that gave ``None`` as an id would leave its result unpaired."""
    anything: dict[str, Any] = {"id": "c1", "name": "work", field: None}
    with pytest.raises(TypeError, match=f"^{field} must be a str, not NoneType$"):
        ToolCall(**anything)
