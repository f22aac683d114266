"""The registry: tools, stages, and the calls that are on their way."""

from __future__ import annotations

import difflib
import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, cast

import attrs
import trio

from ._approval import Approver
from ._call import Call, Course
from ._outstanding import OutstandingCall
from ._pipeline import Registration, Stages
from ._reach import deadline_in_reach, is_unentered
from ._recording import Asked, Opening, Recorder
from ._request import ToolCall
from ._results import ToolResult
from ._scope import Cancellation, ScopeView
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


@attrs.define(eq=False)
class _Layer:
    """What one registry holds. Stages and restrictions are kept under the number of their registration."""

    approver: Approver | None
    thread_limiter: trio.CapacityLimiter | None
    journal: Recorder | None
    tools: dict[str, ToolDefinition] = attrs.field(factory=dict[str, ToolDefinition])
    restrictions: dict[int, _Restriction] = attrs.field(factory=dict[int, _Restriction])
    before: dict[int, BeforePolicy] = attrs.field(factory=dict[int, BeforePolicy])
    guards: dict[int, Guard] = attrs.field(factory=dict[int, Guard])
    around: dict[int, AroundWrapper] = attrs.field(factory=dict[int, AroundWrapper])
    after: dict[int, AfterPolicy] = attrs.field(factory=dict[int, AfterPolicy])
    observers: dict[int, ResultObserver] = attrs.field(factory=dict[int, ResultObserver])
    progress: dict[int, ProgressObserver] = attrs.field(factory=dict[int, ProgressObserver])
    live: dict[Call, None] = attrs.field(factory=dict[Call, None])  # in the order in which they started
    changes: int = 0  # how often a stage was added or taken away


class ToolRegistry:
    """Tools under their names, the stages that each call passes, and the calls that have not been answered yet.

    Args:
        tools: Registered at once.
        parent: A registry whose tools are visible here, unless a tool of the same name hides one, and whose stages
            stand outside those of this one.
        approver: Who asks a person when a policy answers ``Ask()``; by default the parent's.
        thread_limiter: Bounds the worker threads of functions that are not ``async``; by default the parent's, or
            Trio's own default limiter.
        journal: A conversation of a journal, see :func:`trio_tools.journal.open_journal`, in which each call is
            recorded before its body is entered and before its result is given back; by default the parent's, or none.
            A call that is recorded already is given back the result of then.

    Raises:
        TypeError: If parent or journal is none.
        ValueError: If two tools have one name.
    """

    def __init__(
        self,
        tools: Iterable[ToolDefinition] = (),
        *,
        parent: ToolRegistry | None = None,
        approver: Approver | None = None,
        thread_limiter: trio.CapacityLimiter | None = None,
        journal: Recorder | None = None,
    ) -> None:
        if parent is not None and not isinstance(parent, ToolRegistry):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
            raise TypeError(f"parent takes a ToolRegistry, not {parent!r}")
        if journal is not None and not callable(getattr(journal, "begin", None)):
            raise TypeError(f"journal takes a conversation, journal.conversation('name'), not {journal!r}")
        self._number = itertools.count()
        self._mine = _Layer(approver, thread_limiter, journal)
        above = () if parent is None else parent._layers  # noqa: SLF001 - of this class
        self._layers: tuple[_Layer, ...] = (*above, self._mine)  # the root's first
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
        if tool.name in self._mine.tools:
            raise ValueError(f"a tool named {tool.name!r} is registered here already: close its registration first")
        self._mine.tools[tool.name] = tool

        def remove() -> None:
            del self._mine.tools[tool.name]

        return Registration(remove)

    def before(self, policy: BeforePolicy) -> Registration:
        """Add a policy that decides whether a call may run."""
        return self._add(self._mine.before, policy)

    def guard(self, guard: Guard) -> Registration:
        """Add a synchronous check behind policies and approval; it can only deny."""
        return self._add(self._mine.guards, guard)

    def around(self, wrapper: AroundWrapper) -> Registration:
        """Add a wrapper around the body."""
        return self._add(self._mine.around, wrapper)

    def after(self, policy: AfterPolicy) -> Registration:
        """Add a policy that decides what of a result may be shown."""
        return self._add(self._mine.after, policy)

    def observe(self, observer: ResultObserver) -> Registration:
        """Have each result told to ``observer``, exactly once, before ``execute`` returns it."""
        return self._add(self._mine.observers, observer)

    def observe_progress(self, observer: ProgressObserver) -> Registration:
        """Have what bodies report told to ``observer``."""
        return self._add(self._mine.progress, observer)

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
        self._mine.restrictions[number] = _Restriction(
            None if allow is None else frozenset(allow), frozenset(deny or ())
        )

        def lift() -> None:
            del self._mine.restrictions[number]

        return Registration(lift)

    def _add(self, stages: dict[int, T], stage: T) -> Registration:
        if not callable(stage) or isinstance(stage, type):
            raise TypeError(f"a stage must be callable, and an instance of its class, not {stage!r}")
        if inspect.isasyncgenfunction(stage) or inspect.isgeneratorfunction(stage):
            raise TypeError(f"{stage!r} is a generator: a stage must not yield, it awaits call_next() and returns")
        number = next(self._number)
        stages[number] = stage
        self._mine.changes += 1

        def remove() -> None:
            del stages[number]
            self._mine.changes += 1

        return Registration(remove)

    # ---- looking -----------------------------------------------------------------------------------------------------

    def get(self, name: str) -> ToolDefinition | None:
        """The tool that a call to ``name`` would run; ``None`` if there is none, or it is hidden."""
        for layer in self._layers:
            for restriction in layer.restrictions.values():
                if not restriction.admits(name):
                    return None
        found: ToolDefinition | None = None
        for layer in self._layers:  # the nearest is the last
            found = layer.tools[name] if name in layer.tools else found  # noqa: SIM401 - the type checker follows it
        return found

    def tools(self) -> tuple[ToolDefinition, ...]:
        """The visible tools, sorted by name: what to show a model."""
        names = {name for layer in self._layers for name in layer.tools}
        return tuple(tool for name in sorted(names) if (tool := self.get(name)) is not None)

    def suggestions(self, name: str) -> list[str]:
        """Visible names that ``name`` may have meant, the likeliest first."""
        return difflib.get_close_matches(name, [tool.name for tool in self.tools()], n=3)

    def outstanding(self) -> tuple[OutstandingCall, ...]:
        """The calls through this registry and its children that have not been answered yet, the oldest first."""
        return tuple(OutstandingCall(call) for call in self._mine.live)

    def cancel_call(self, call_id: str, reason: str | None = None) -> bool:
        """Cancel the outstanding calls with this id, as :meth:`OutstandingCall.cancel` does; whether there was one."""
        found = [call for call in self.outstanding() if call.execution.call_id == call_id]
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
        if is_unentered(scope):
            with scope:
                return await self.execute(call, scope=scope)
        deadline, opening, stages = deadline_in_reach(scope), None, self.stages()
        if stages.journal is not None:
            (opening,) = await self.begun([call], course=False)
            deadline, stages = trio.current_effective_deadline(), self.stages()
        decided = self.get(call.name), stages
        one = self.admit(call, scope, deadline=deadline, decided=decided, opening=opening)
        try:
            result = await one.execute()
            if one.interrupt is not None:
                raise one.interrupt
            return result
        finally:
            self.answered(one)

    @trio.lowlevel.enable_ki_protection
    async def execute_nested(self, request: ToolCall, *, within: Call) -> ToolResult:
        """Make a call from the body of another one, in its scope."""
        opening = None
        if self.stages().journal is not None:
            (opening,) = await self.begun([request], course=False)
        deadline = trio.current_effective_deadline()
        call = self.admit(request, within.execution.scope, deadline=deadline, within=within, opening=opening)
        try:
            result = await call.execute()
            if call.interrupt is not None:
                raise call.interrupt
            return result
        finally:
            self.answered(call)

    def admit(
        self,
        request: ToolCall,
        scope: ScopeView,
        *,
        deadline: float,
        within: Call | None = None,
        decided: tuple[ToolDefinition | None, Stages] | None = None,
        course: Course | None = None,
        opening: Opening | None = None,
    ) -> Call:
        """A call that starts now, in the running task; :meth:`answered` must follow.

        Args:
            request: The call as the model made it.
            scope: The caller's; it reaches the running task.
            deadline: The one in force here.
            within: The call whose body makes this one.
            decided: Tool and stages, if these were those of an earlier moment.
            course: Who leads it, if it is one of a batch.
            opening: How it begins, if there is a journal; see :meth:`begun`.
        """
        tool, stages = decided or (self.get(request.name), self.stages())
        call = Call(request, tool, stages, self, Cancellation(scope, deadline), within, course, opening)
        for layer in self._layers:
            layer.live[call] = None
        return call

    async def begun(self, calls: Sequence[ToolCall], *, course: bool) -> Sequence[Opening]:
        """Have the journal, which there is, record that these calls begin, or find what became of them before.

        A checkpoint. ``course``: somebody stands between them and their bodies.
        """
        stages = self.stages()
        at_once = not (course or stages.gated or stages.around)
        journal = cast(Recorder, stages.journal)
        return await journal.begin([Asked(call, self.get(call.name), at_once) for call in calls])

    def answered(self, call: Call) -> None:
        """The call has its result."""
        for layer in self._layers:
            del layer.live[call]
        call.close()

    def stages(self) -> Stages:
        """The stages of a call that starts now."""
        changes = 0  # they only grow, so the sum is another one after every change
        for layer in self._layers:
            changes += layer.changes
        if changes != self._assembled_at:
            self._assembled, self._assembled_at = self._assemble(), changes
        return self._assembled

    def _assemble(self) -> Stages:
        def all_of(kind: Callable[[_Layer], dict[int, T]]) -> tuple[T, ...]:
            return tuple(stage for layer in self._layers for stage in kind(layer).values())

        nearest = tuple(reversed(self._layers))
        return Stages(
            before=all_of(lambda layer: layer.before),
            guards=all_of(lambda layer: layer.guards),
            around=all_of(lambda layer: layer.around),
            after=all_of(lambda layer: layer.after),
            observers=all_of(lambda layer: layer.observers),
            progress=all_of(lambda layer: layer.progress),
            approver=next((one.approver for one in nearest if one.approver is not None), None),
            thread_limiter=next((one.thread_limiter for one in nearest if one.thread_limiter is not None), None),
            journal=next((one.journal for one in nearest if one.journal is not None), None),
        )
