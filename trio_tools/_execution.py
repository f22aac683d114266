"""The objects behind the views: what each stage of a call holds in its hands."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import attrs
import trio

from ._content import Content, Context, TextContent, as_content
from ._json import FrozenJson
from ._recording import Entry
from ._request import ExecutionToken, ToolCall
from ._results import ToolResult
from ._scope import Cancellation, LiveScope, ScopeView
from ._tasks import runs_within
from ._views import Progress
from ._watcher import Watcher

__all__ = ["DispatchView", "ExecutionView", "Facts", "RunView"]

_WATCHER = "trio_tools: watches the scopes of a body"


@attrs.define(eq=False)
class Facts:
    """What all views of one call tell."""

    request: ToolCall
    state: Cancellation
    arguments: FrozenJson = None  # the snapshot
    nested: int = 0  # calls that its body has made
    entry: Entry | None = None  # in a journal
    _token: ExecutionToken | None = None  # what follows is made when it is asked for, as most calls need none of it
    _scope: LiveScope | None = None
    _execution: ExecutionView | None = None

    @property
    def call_id(self) -> str:
        """The id."""
        return self.request.id

    @property
    def root_call_id(self) -> str:
        """The id of the call that the model made, which this one is, or serves."""
        return self.request.id if self.request.root_id is None else self.request.root_id

    @property
    def token(self) -> ExecutionToken:
        """The identity of the call."""
        if self._token is None:
            self._token = ExecutionToken(self.request.id)
        return self._token

    @property
    def scope(self) -> LiveScope:
        """The scope of the call, as its stages see it."""
        if self._scope is None:
            self._scope = LiveScope(self.state)
        return self._scope

    @property
    def execution(self) -> ExecutionView:
        """The read-only view of the call."""
        if self._execution is None:
            self._execution = ExecutionView(self)
        return self._execution

    @property
    def idempotency_key(self) -> str:
        """Equal over all attempts."""
        return self.token.key if self.entry is None else self.entry.idempotency_key

    def release(self) -> None:
        """The call is over: keep no view, which would keep us."""
        self._execution = None


class ExecutionView:
    """A ``ToolExecution``: properties without setters, so that writing fails at run time too."""

    __slots__ = ("_facts",)

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    @property
    def call_id(self) -> str:
        return self._facts.call_id

    @property
    def root_call_id(self) -> str:
        return self._facts.root_call_id

    @property
    def name(self) -> str:
        return self._facts.request.name

    @property
    def arguments(self) -> FrozenJson:
        return self._facts.arguments

    @property
    def agent(self) -> str | None:
        return self._facts.request.agent

    @property
    def parent(self) -> ExecutionToken | None:
        return self._facts.request.parent

    @property
    def token(self) -> ExecutionToken:
        return self._facts.token

    @property
    def scope(self) -> ScopeView:
        return self._facts.scope

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of call {self.call_id!r} to {self.name!r}>"


class DispatchView(ExecutionView):
    """A ``ToolDispatch``, one for each wrapper."""

    __slots__ = ("_assigned",)

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._assigned: trio.CancelScope | None = None

    @property
    def scope(self) -> ScopeView:
        return self._facts.scope if self._assigned is None else self._assigned

    @scope.setter
    def scope(self, scope: trio.CancelScope) -> None:
        if not isinstance(scope, trio.CancelScope):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
            raise TypeError(
                f"dispatch.scope takes a trio.CancelScope, not {type(scope).__name__}; "
                "it cannot be removed, and after call_next it is the call's own again"
            )
        if scope.is_relative is None:
            raise ValueError("dispatch.scope takes a scope that nobody has entered: make a new one for each call_next")
        self._assigned = scope

    def take(self) -> trio.CancelScope | None:
        """What was assigned for the ``call_next`` that starts now; the scope is the call's own again from here on."""
        assigned, self._assigned = self._assigned, None
        return assigned


class RunView(ExecutionView):
    """A ``ToolRun``, one for each attempt of the body, and what the body has put out through it."""

    __slots__ = (
        "_call_tool",
        "_nursery",
        "_over",
        "_progress",
        "_watcher",
        "concluded",
        "contexts",
        "partial",
        "task",
    )

    def __init__(
        self,
        facts: Facts,
        nursery: trio.Nursery,
        call_tool: Callable[[str, object, str], Awaitable[ToolResult]],
        progress: Callable[[Progress], None],
    ) -> None:
        self._facts = facts
        self._nursery = nursery
        self.task: trio.lowlevel.Task = nursery.parent_task
        self._call_tool = call_tool
        self._progress = progress
        self._watcher: Watcher | None = None  # beside the body
        self._over = False
        self.contexts: list[Context] = []
        self.partial: list[Content] = []
        self.concluded: bool = False

    @property
    def idempotency_key(self) -> str:
        return self._facts.idempotency_key

    @property
    def nursery(self) -> trio.Nursery:
        if self._watcher is None and not self._over and trio.lowlevel.in_trio_task():
            self.watch()  # the body can cancel itself now
        return self._nursery

    def watch(self) -> None:
        """Have whatever else than the caller ends the body noted from now on, also under a shield of the body's."""
        self._watcher = Watcher(self._facts.state.note_within)
        self._nursery.start_soon(self._watcher.run, name=_WATCHER)

    def unwatch(self) -> None:
        """The body is over."""
        if self._watcher is not None:
            self._watcher.end()

    def owned_tasks(self) -> list[trio.lowlevel.Task]:
        """Tasks that the body started and that are still there."""
        return [task for task in self._nursery.child_tasks if task.name != _WATCHER]

    def close(self) -> None:
        """The body is over; what it puts out from now on is dropped."""
        self._over = True

    def defer_context(self, context: Context) -> None:
        if not isinstance(context, Context):  # pyright: ignore[reportUnnecessaryIsInstance] - tools are not all typed
            raise TypeError(f"defer_context takes a Context, not {type(context).__name__}")
        if not self._over:
            self.contexts.append(context)

    def conclude_turn(self) -> None:
        self.concluded = True

    def emit(self, content: Content | str) -> None:
        blocks = as_content((TextContent(content),) if isinstance(content, str) else (content,))
        if not self._over and not self._facts.state.called():
            self.partial.extend(blocks)

    def report_progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        if not math.isfinite(progress) or not (total is None or math.isfinite(total)):
            raise ValueError("report_progress takes finite numbers")
        if self._over:
            return
        told = Progress(progress, total, message)
        if trio.lowlevel.in_trio_run():
            self._progress(told)
        else:
            trio.from_thread.run_sync(self._progress, told)

    async def call_tool(self, name: str, arguments: object, *, id: str | None = None) -> ToolResult:
        if self._over or not runs_within(self._nursery):
            raise RuntimeError("call_tool must be awaited by the body, before it ends, or by a task in run.nursery")
        facts = self._facts
        facts.nested += 1  # over all attempts: an id is given once
        return await self._call_tool(name, arguments, id or f"{facts.call_id}:{facts.nested}")
