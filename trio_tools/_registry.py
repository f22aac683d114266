"""The registry: tools, stages, and the calls that are on their way."""

from __future__ import annotations

import difflib
import inspect
import itertools
from collections.abc import Callable, Iterable
from typing import TypeVar

import attrs
import trio

from ._approval import Approver
from ._call import Call
from ._outstanding import OutstandingCall
from ._pipeline import Registration, Stages
from ._request import ToolCall
from ._results import ToolResult
from ._scope import LiveScope, ScopeView, look
from ._tool import ToolDefinition
from ._views import AfterPolicy, AroundWrapper, BeforePolicy, Guard, ProgressObserver, ResultObserver

__all__ = ["ToolRegistry"]

T = TypeVar("T")


@attrs.frozen
class _Restriction:
    allow: frozenset[str] | None
    deny: frozenset[str]

    def admits(self, name: str) -> bool:
        return name not in self.deny and (self.allow is None or name in self.allow)


class ToolRegistry:
    """Tools under their names, the stages that each call passes, and the calls that have not been answered yet.

    Args:
        tools: Registered at once.
        parent: A registry whose tools are visible here, unless a tool of the same name hides one, and whose stages
            stand outside those of this one.
        approver: Who asks a person when a policy answers ``Ask()``; by default the parent's.
        thread_limiter: Bounds the worker threads of functions that are not ``async``; by default the parent's, or
            Trio's own default limiter.

    Raises:
        ValueError: If two tools have one name.
    """

    def __init__(
        self,
        tools: Iterable[ToolDefinition] = (),
        *,
        parent: ToolRegistry | None = None,
        approver: Approver | None = None,
        thread_limiter: trio.CapacityLimiter | None = None,
    ) -> None:
        self._parent = parent
        self._lineage: tuple[ToolRegistry, ...] = (*(parent._lineage if parent is not None else ()), self)  # root first
        self._approver = approver
        self._thread_limiter = thread_limiter
        self._tools: dict[str, ToolDefinition] = {}
        # Under the number of their registration, which is also their order.
        self._number = itertools.count()
        self._restrictions: dict[int, _Restriction] = {}
        self._before: dict[int, BeforePolicy] = {}
        self._guards: dict[int, Guard] = {}
        self._around: dict[int, AroundWrapper] = {}
        self._after: dict[int, AfterPolicy] = {}
        self._observers: dict[int, ResultObserver] = {}
        self._progress: dict[int, ProgressObserver] = {}
        self._live: dict[Call, None] = {}  # in the order in which they started
        self._changes = 0  # how often a stage was added or taken away here
        self._assembled, self._assembled_at = Stages(), -1
        for one in tools:
            self.register(one)

    # ---- registering -------------------------------------------------------------------------------------------------

    def register(self, tool: ToolDefinition) -> Registration:
        """Make a tool callable through this registry and its children.

        Raises:
            TypeError: If it is no :class:`ToolDefinition`.
            ValueError: If this registry has a tool of that name.
        """
        if not isinstance(tool, ToolDefinition):  # pyright: ignore[reportUnnecessaryIsInstance] - a common slip
            raise TypeError(f"register takes a ToolDefinition, not {tool!r}: decorate the function with @tool")
        if tool.name in self._tools:
            raise ValueError(f"a tool named {tool.name!r} is registered here already: close its registration first")
        self._tools[tool.name] = tool
        return Registration(lambda: self._tools.pop(tool.name))

    def before(self, policy: BeforePolicy) -> Registration:
        """Add a policy that decides whether a call may run."""
        return self._add(self._before, policy)

    def guard(self, guard: Guard) -> Registration:
        """Add a synchronous check behind policies and approval; it can only deny."""
        return self._add(self._guards, guard)

    def around(self, wrapper: AroundWrapper) -> Registration:
        """Add a wrapper around the body."""
        return self._add(self._around, wrapper)

    def after(self, policy: AfterPolicy) -> Registration:
        """Add a policy that decides what of a result may be shown."""
        return self._add(self._after, policy)

    def observe(self, observer: ResultObserver) -> Registration:
        """Have each result told to ``observer``, exactly once, before ``execute`` returns it."""
        return self._add(self._observers, observer)

    def observe_progress(self, observer: ProgressObserver) -> Registration:
        """Have what bodies report told to ``observer``."""
        return self._add(self._progress, observer)

    def restrict(self, *, allow: Iterable[str] | None = None, deny: Iterable[str] | None = None) -> Registration:
        """Hide tools from calls through this registry and its children, whoever registered them.

        Several restrictions hold together; each is lifted by its own registration.

        Args:
            allow: The only names that stay visible.
            deny: Names that do not.

        Raises:
            TypeError: If one is a single ``str``.
            ValueError: If neither is given.
        """
        if isinstance(allow, str) or isinstance(deny, str):
            raise TypeError("restrict takes a collection of names: write allow=['name']")
        if allow is None and deny is None:
            raise ValueError("restrict needs allow or deny: without them it would hide nothing")
        number = next(self._number)
        self._restrictions[number] = _Restriction(None if allow is None else frozenset(allow), frozenset(deny or ()))
        return Registration(lambda: self._restrictions.pop(number))

    def _add(self, stages: dict[int, T], stage: T) -> Registration:
        if not callable(stage):
            raise TypeError(f"a stage must be callable, not {stage!r}")
        if inspect.isasyncgenfunction(stage) or inspect.isgeneratorfunction(stage):
            raise TypeError(f"{stage!r} is a generator: a stage must not yield, it awaits call_next() and returns")
        number = next(self._number)
        stages[number] = stage
        self._changes += 1

        def remove() -> None:
            del stages[number]
            self._changes += 1

        return Registration(remove)

    # ---- looking -----------------------------------------------------------------------------------------------------

    def get(self, name: str) -> ToolDefinition | None:
        """The tool that a call to ``name`` would run; ``None`` if there is none, or it is hidden."""
        for registry in self._lineage:
            for restriction in registry._restrictions.values():
                if not restriction.admits(name):
                    return None
        found: ToolDefinition | None = None
        for registry in self._lineage:  # the nearest is the last
            found = registry._tools.get(name, found)
        return found

    def tools(self) -> tuple[ToolDefinition, ...]:
        """The visible tools, sorted by name: what to show a model."""
        names = {name for registry in self._lineage for name in registry._tools}
        return tuple(tool for name in sorted(names) if (tool := self.get(name)) is not None)

    def suggestions(self, name: str) -> list[str]:
        """Visible names that ``name`` may have meant, the likeliest first."""
        return difflib.get_close_matches(name, [tool.name for tool in self.tools()], n=3)

    def outstanding(self) -> tuple[OutstandingCall, ...]:
        """The calls through this registry and its children that have not been answered yet, the oldest first."""
        return tuple(OutstandingCall(call) for call in self._live)

    def cancel_call(self, call_id: str, reason: str | None = None) -> bool:
        """Cancel the outstanding calls with this id, as :meth:`OutstandingCall.cancel` does; whether there was one."""
        found = [call for call in self._live if call.execution.call_id == call_id]
        for call in found:
            call.cancel(reason)
        return bool(found)

    # ---- calling -----------------------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def execute(self, call: ToolCall, *, scope: ScopeView) -> ToolResult:
        """Make one call and give back its one result.

        A checkpoint, unless the call cannot start. Returns the result also when the call is cancelled; the caller's
        next checkpoint then raises ``Cancelled`` as ever. When this returns or raises, nothing of the call is running
        any more, and its result has been told to the observers.

        Args:
            call: The request.
            scope: A scope of the caller's that cancels the call. Either it is entered and encloses this ``await``, or
                nobody has entered it: then it is entered for the length of the call, and the caller keeps it to cancel
                this one call from another task. The body of a tool passes ``run.scope`` on.

        Raises:
            RuntimeError: If an entered scope does not reach this ``await``: it would cancel nothing. Nothing has run.
            BaseException: ``KeyboardInterrupt`` and the like, once the call is settled and its result published.
        """
        if isinstance(scope, trio.CancelScope) and scope.is_relative is not None:
            with scope:
                return await self.execute(call, scope=scope)
        one = self._admit(call, scope, deadline_in_reach(scope), None)
        try:
            result = await one.execute()
            if one.interrupt is not None:
                raise one.interrupt
            return result
        finally:
            self._answered(one)

    @trio.lowlevel.enable_ki_protection
    async def settle(
        self, request: ToolCall, *, scope: ScopeView, within: Call | None = None
    ) -> tuple[ToolResult, BaseException | None]:
        """Make a call in a scope that reaches here: its result, and the interrupt that is to be raised after it."""
        call = self._admit(request, scope, trio.current_effective_deadline(), within)
        try:
            return await call.execute(), call.interrupt
        finally:
            self._answered(call)

    def _admit(self, request: ToolCall, scope: ScopeView, deadline: float, within: Call | None) -> Call:
        call = Call(request, self.get(request.name), self._stages(), self, scope, deadline, within)
        for registry in self._lineage:
            registry._live[call] = None
        return call

    def _answered(self, call: Call) -> None:
        for registry in self._lineage:
            del registry._live[call]
        call.close()

    async def execute_nested(self, request: ToolCall, *, within: Call) -> ToolResult:
        """Make a call from the body of another one, in its scope."""
        result, interrupt = await self.settle(request, scope=within.execution.scope, within=within)
        if interrupt is not None:
            raise interrupt
        return result

    def _stages(self) -> Stages:
        """The stages of a call that starts now."""
        changes = 0  # they only grow, so the sum is another one after every change
        for registry in self._lineage:
            changes += registry._changes
        if changes != self._assembled_at:
            self._assembled, self._assembled_at = self._assemble(), changes
        return self._assembled

    def _assemble(self) -> Stages:
        def all_of(kind: Callable[[ToolRegistry], dict[int, T]]) -> tuple[T, ...]:
            return tuple(stage for registry in self._lineage for stage in kind(registry).values())

        nearest = tuple(reversed(self._lineage))
        return Stages(
            before=all_of(lambda registry: registry._before),
            guards=all_of(lambda registry: registry._guards),
            around=all_of(lambda registry: registry._around),
            after=all_of(lambda registry: registry._after),
            observers=all_of(lambda registry: registry._observers),
            progress=all_of(lambda registry: registry._progress),
            approver=next((one._approver for one in nearest if one._approver is not None), None),
            thread_limiter=next((one._thread_limiter for one in nearest if one._thread_limiter is not None), None),
        )


def deadline_in_reach(scope: ScopeView) -> float:
    """The deadline that is in force here, where ``scope`` is given for a call.

    Raises:
        RuntimeError: If the scope would silently cancel nothing; it says what to do instead.
    """
    if not isinstance(scope, trio.CancelScope):
        if isinstance(scope, LiveScope) and scope.over:
            raise RuntimeError("this scope belongs to a call that has been answered: give a scope of your own")
        return trio.current_effective_deadline()
    deadline = look(scope)
    if deadline is None:
        raise RuntimeError(
            "the scope does not reach this call, so it could not cancel it: it was left already, was entered in "
            "another task, or is hidden by a shield. Give one that encloses the await, or one that nobody has entered"
        )
    return deadline
