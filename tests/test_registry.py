"""Registering, looking up, restricting, and what is refused at once."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio
import trio.testing

from trio_tools import (
    Accept,
    AfterDecision,
    ScopeView,
    ToolCall,
    ToolDefinition,
    ToolDispatch,
    ToolExecution,
    ToolRegistry,
    ToolResult,
    ToolRun,
    tool,
)


def named(name: str, answer: str = "done", **options: Any) -> ToolDefinition:
    async def execute(arguments: object, run: ToolRun) -> str:
        return answer

    return ToolDefinition(name=name, parameters={"type": "object"}, execute=execute, **options)


def call(registry: ToolRegistry, name: str = "work", arguments: object = None) -> ToolResult:
    async def main() -> ToolResult:
        request = ToolCall(id="c1", name=name, arguments={} if arguments is None else arguments)
        return await registry.execute(request, scope=trio.CancelScope())

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def message(result: ToolResult) -> str:
    assert result.is_error is True
    return result.error.message


def test_a_function_that_is_not_decorated_is_refused_with_what_to_write() -> None:
    """Bad input gets a clear error."""
    function: Any = lambda: None  # noqa: E731 - as a newcomer would
    with pytest.raises(TypeError, match="@tool"):
        ToolRegistry([function])


def test_a_second_tool_of_one_name_is_refused_and_a_closed_registration_frees_it() -> None:
    """Section 3: one name twice in one registry is refused."""
    registry = ToolRegistry()
    first = registry.register(named("work", "first"))
    with pytest.raises(ValueError, match="'work' is registered here already"):
        registry.register(named("work", "second"))
    assert repr(first) == "<Registration, in force>"
    first.close()
    assert repr(first) == "<Registration, closed>"
    with registry.register(named("work", "second")):
        assert [one.name for one in registry.tools()] == ["work"]
    assert registry.tools() == ()


def test_a_restriction_that_would_hide_nothing_or_takes_one_name_for_many_is_refused() -> None:
    """Bad input: an empty configuration, a string for a list of strings."""
    registry = ToolRegistry()
    with pytest.raises(ValueError, match="needs allow or deny"):
        registry.restrict()
    name: Any = "work"
    with pytest.raises(TypeError, match=r"allow=\['name'\]"):
        registry.restrict(allow=name)
    with pytest.raises(TypeError, match="collection of names"):
        registry.restrict(deny=name)


def test_a_restriction_of_an_ancestor_holds_for_a_tool_of_its_child_too() -> None:
    """Section 3: admitted by every restriction of the registry and its ancestors, whoever registered the tool."""
    parent = ToolRegistry()
    child = ToolRegistry([named("work")], parent=parent)
    with parent.restrict(deny=["work"]):
        assert child.get("work") is None
        assert message(call(child)) == 'unknown tool "work"'
    assert call(child).is_error is False


def test_an_unknown_tool_is_answered_with_visible_names_that_are_like_it() -> None:
    """Section 3: names that are not visible are not suggested either."""
    registry = ToolRegistry([named("search"), named("starch")])
    registry.restrict(deny=["starch"])
    assert message(call(registry, "serch")) == "unknown tool \"serch\"; did you mean 'search'?"


def test_an_unknown_name_is_echoed_only_as_far_as_it_may_be_read() -> None:
    """A name without end would fill the context of the model that made it up."""
    assert len(message(call(ToolRegistry(), "n" * 100_000))) < 300


def test_a_stage_that_yields_or_cannot_be_called_is_refused_when_it_is_registered() -> None:
    """A generator as a wrapper would hold scopes open across its yield."""

    async def yields(dispatch: object, call_next: object) -> AsyncIterator[None]:
        yield

    def plainly(execution: object) -> Iterator[None]:
        yield

    registry = ToolRegistry()
    for stage in (yields, plainly):
        anything: Any = stage
        with pytest.raises(TypeError, match="must not yield"):
            registry.around(anything)
    nothing: Any = "policy"
    with pytest.raises(TypeError, match="must be callable"):
        registry.before(nothing)


def test_arguments_that_are_text_are_refused_with_what_to_send() -> None:
    """A doubly encoded object is a common slip of models."""
    assert "not its JSON text" in message(call(ToolRegistry([named("work")]), arguments='{"a": 1}'))
    assert "one key for each parameter" in message(call(ToolRegistry([named("work")]), arguments=[1]))


def test_arguments_that_are_no_json_are_refused_with_their_place() -> None:
    """Section 6."""
    assert "$.a: " in message(call(ToolRegistry([named("work")]), arguments={"a": {1}}))


@pytest.mark.parametrize("answer", ["text", 1])
def test_an_observer_that_answers_something_is_told_of_in_the_log(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    """An observer is a plain function that returns None; an async one would never run."""
    registry = ToolRegistry([named("work")])

    def observer(execution: ToolExecution, result: ToolResult) -> Any:
        return answer

    async def never_runs(execution: ToolExecution, result: ToolResult) -> None:
        raise AssertionError

    never: Any = never_runs
    registry.observe(observer)
    registry.observe(never)
    with caplog.at_level(logging.ERROR, "trio_tools"):
        assert call(registry).is_error is False
    assert caplog.records[0].message.endswith(f"and return None, not {answer!r}")
    assert "coroutine" in caplog.records[1].message


def test_observers_of_progress_hear_a_worker_thread_in_trio_and_a_broken_one_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Section 3: observe_progress."""

    @tool
    def work(run: ToolRun) -> None:
        run.report_progress(1, 2, "half")

    heard: list[tuple[float, int]] = []
    registry = ToolRegistry([work])

    def broken(execution: object, progress: object) -> None:
        raise LookupError("no display")

    registry.observe_progress(broken)
    registry.observe_progress(lambda execution, progress: heard.append((progress.progress, threading.get_ident())))
    assert call(registry).is_error is False
    assert heard == [(1, threading.get_ident())]
    assert [record.exc_text is not None or record.exc_info is not None for record in caplog.records] == [True]


def test_what_a_body_may_not_report_or_defer_is_its_own_failure() -> None:
    """Bad input of a tool gets a clear error."""

    @tool
    async def reports(run: ToolRun) -> None:
        run.report_progress(float("nan"))

    @tool
    async def defers(run: ToolRun) -> None:
        context: Any = "no context"
        run.defer_context(context)

    registry = ToolRegistry([reports, defers])
    assert message(call(registry, "reports")) == "report_progress takes finite numbers"
    assert message(call(registry, "defers")) == "defer_context takes a Context, not str"


class Foreign:
    """A scope view that is none of Trio's."""

    def __init__(self, *, cancelled: bool) -> None:
        self._cancelled = cancelled

    @property
    def cancel_called(self) -> bool:
        return self._cancelled


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_scope_view_of_another_kind_is_asked(cancelled: bool) -> None:
    """Section 3: anything that satisfies ScopeView may be given; nobody can enter it, so it is asked."""

    async def main() -> ToolResult:
        scope: ScopeView = Foreign(cancelled=cancelled)
        return await ToolRegistry([named("work")]).execute(ToolCall(id="c1", name="work"), scope=scope)

    result = trio.run(main)
    assert (result.body == "not-started") == cancelled


@pytest.mark.parametrize("how", ["left", "foreign", "hidden", "hidden with a deadline"])
def test_an_entered_scope_that_could_not_cancel_the_call_is_refused_before_anything_runs(how: str) -> None:
    """Section 4: it would silently cancel nothing."""
    published: list[ToolResult] = []
    registry = ToolRegistry([named("work")])
    registry.observe(lambda execution, result: published.append(result))

    async def attempt(scope: trio.CancelScope) -> None:
        with pytest.raises(RuntimeError, match="does not reach this call"):
            await registry.execute(ToolCall(id="c1", name="work"), scope=scope)

    async def main() -> None:
        if how == "left":
            with trio.CancelScope() as scope:
                await trio.lowlevel.checkpoint()
            await attempt(scope)
            return
        deadline = trio.current_time() + 60 if "deadline" in how else float("inf")
        async with trio.open_nursery() as nursery:
            with trio.CancelScope(deadline=deadline) as scope:
                if how == "foreign":
                    nursery.start_soon(attempt, scope)
                    await trio.testing.wait_all_tasks_blocked()
                else:
                    with trio.CancelScope(shield=True):
                        await attempt(scope)

    trio.run(main)
    assert published == []


def test_the_scope_of_a_call_that_is_over_is_refused() -> None:
    """Section 4: run.scope means nothing after the call."""
    kept: list[ScopeView] = []

    @tool
    async def work(run: ToolRun) -> None:
        kept.append(run.scope)

    async def main() -> None:
        registry = ToolRegistry([work])
        request = ToolCall(id="c1", name="work")
        await registry.execute(request, scope=trio.CancelScope())
        assert repr(kept[0]) == "<scope of a call>"
        with pytest.raises(RuntimeError, match="give a scope of your own"):
            await registry.execute(request, scope=kept[0])

    trio.run(main)


def test_a_body_can_make_a_call_in_its_own_scope_through_another_registry() -> None:
    """Section 4: a nested call passes run.scope on."""
    other = ToolRegistry([named("inner", "from inside")])

    @tool
    async def work(run: ToolRun) -> str:
        result = await other.execute(ToolCall(id="i1", name="inner"), scope=run.scope)
        return str(result.content)

    assert "from inside" in str(call(ToolRegistry([work])))


def test_the_scope_of_a_running_call_is_refused_where_it_could_not_cancel() -> None:
    """Section 4: also in a task of a nursery around the call, which goes on when the call has ended."""
    refused: list[str] = []

    async def main() -> None:
        async with trio.open_nursery() as around:

            @tool
            async def work(run: ToolRun) -> None:
                async def later() -> None:
                    with pytest.raises(RuntimeError) as caught:
                        await registry.execute(ToolCall(id="c2", name="work"), scope=run.scope)
                    refused.append(str(caught.value))

                around.start_soon(later)
                await trio.testing.wait_all_tasks_blocked()

            registry = ToolRegistry([work])
            await registry.execute(ToolCall(id="c1", name="work"), scope=trio.CancelScope())

    trio.run(main)
    assert "give a scope of your own" in refused[0]


def test_the_scope_of_a_call_is_refused_where_its_nursery_is_left_though_the_call_goes_on() -> None:
    """Section 4: an after policy judges a cancelled call when nothing of it is left that a cancellation could reach."""
    kept: list[ScopeView] = []
    refused: list[str] = []
    registry = ToolRegistry([named("work")])

    @registry.around
    async def cut(dispatch: ToolDispatch, call_next: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        kept.append(dispatch.scope)
        registry.cancel_call("c1")
        return await call_next()

    @registry.after
    async def policy(
        execution: ToolExecution, result: ToolResult, call_next: Callable[[], Awaitable[AfterDecision]]
    ) -> AfterDecision:
        with pytest.raises(RuntimeError) as caught:
            await ToolRegistry([named("work")]).execute(ToolCall(id="c2", name="work"), scope=kept[0])
        refused.append(str(caught.value))
        return Accept()

    assert call(registry).is_error is True
    assert "give a scope of your own" in refused[0]


@pytest.mark.parametrize("scope", [None, 3, trio.move_on_after])
def test_something_that_is_no_scope_is_refused_with_what_to_give(scope: Any) -> None:
    """P10: at run time too, and before anything runs."""

    async def main() -> None:
        with pytest.raises(TypeError, match=r"scope takes a trio\.CancelScope of yours"):
            await ToolRegistry([named("work")]).execute(ToolCall(id="c1", name="work"), scope=scope)

    trio.run(main)


def test_a_parent_that_is_no_registry_is_refused() -> None:
    nothing: Any = 3
    with pytest.raises(TypeError, match="parent takes a ToolRegistry, not 3"):
        ToolRegistry(parent=nothing)
