"""A tool: its name, its contract, and the code that does the work."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Generic, Literal, ParamSpec, TypeAlias, TypeVar, cast, get_args, overload

import attrs
import trio

from ._content import Content, render_content
from ._effects import Effects, Reconciled, RecordedCall
from ._json import FrozenJson, freeze
from ._output import Output, check_function, render_json, render_plainly
from ._results import ToolResult
from ._schema import Schema
from ._signature import Signature, inspect_function
from ._text import check_text
from ._views import ToolExecution, ToolRun

__all__ = ["Concurrency", "FunctionBody", "FunctionTool", "Keyed", "ToolDefinition", "tool"]

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9_./:-]{1,128}")
"""What the large providers and the Model Context Protocol let a tool be called, taken together."""


@attrs.frozen
class Keyed:
    """Calls with equal keys run one after the other, in call order; different keys overlap."""

    key: Hashable


Concurrency: TypeAlias = (
    Literal["exclusive", "parallel"] | Callable[[FrozenJson], Literal["exclusive", "parallel"] | Keyed]
)


def _check_name(_: object, __: object, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"a tool cannot be called {name!r}: write 1 to 128 letters, digits, or any of _ - . / : without spaces"
        )


def _check_timeout(_: object, __: object, timeout: object) -> None:
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise ValueError(f"timeout must be a positive number of seconds, or None for no limit, not {timeout!r}")


def _check_concurrency(_: object, __: object, concurrency: object) -> None:
    if concurrency not in ("exclusive", "parallel") and not callable(concurrency):
        raise ValueError(f"concurrency must be 'exclusive', 'parallel' or a function of the arguments: {concurrency!r}")


def _check_effects(_: object, __: object, effects: object) -> None:
    if effects not in get_args(Effects):
        raise ValueError(f"effects must be one of {', '.join(map(repr, get_args(Effects)))}, not {effects!r}")


def _check_parameters(_: object, __: object, schema: Mapping[str, object]) -> None:
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, tuple) and "object" in kind):
        raise ValueError(
            f'parameters must be the schema of an object, {{"type": "object", ...}}: a model gives its arguments by '
            f"name, and of type {kind!r} they could never be"
        )


def _frozen_schema(schema: Mapping[str, object]) -> Mapping[str, object]:
    frozen = freeze(schema)
    if not isinstance(frozen, Mapping):
        raise TypeError(f"a schema must be a mapping, not {type(schema).__name__}")
    return frozen


@attrs.frozen(kw_only=True)
class ToolDefinition:
    """A tool as a registry takes it.

    Attributes:
        name: What a model calls it.
        description: What the model is told about it.
        parameters: JSON Schema of the arguments object; kept frozen.
        execute: The body: ``(arguments, run)`` to what it returns. Entered once for each attempt.
        output: What the body returns, and how it is shown.
        timeout: Seconds, > 0, for one attempt; every registry enforces it. Never shown to the model.
        concurrency: Whether calls of one batch may overlap: ``"exclusive"`` (no), ``"parallel"``, or a function of the
            frozen arguments that answers one of these or ``Keyed(key)``.
        finalize_content: Synchronous; the last word on what the model sees of any outcome: content, or ``None`` to
            keep it. Can change nothing else; one that raises fails closed.
        effects: What a journal may do after a crash in the body: see ``Effects``. Say what is true.
        reconcile: Finds out, after a crash in the body, what became of the call: see ``Reconciled``. May wait.

    Raises:
        ValueError: If the name, the timeout, the concurrency, the effects or the schema is none.
    """

    name: str = attrs.field(validator=_check_name)
    description: str = attrs.field(default="", validator=check_text)
    parameters: Mapping[str, object] = attrs.field(converter=_frozen_schema, validator=_check_parameters)
    execute: Callable[[FrozenJson, ToolRun], Awaitable[object]] = attrs.field(validator=attrs.validators.is_callable())
    output: Output = attrs.field(factory=Output, validator=attrs.validators.instance_of(Output))
    timeout: float | None = attrs.field(default=None, validator=_check_timeout)
    concurrency: Concurrency = attrs.field(default="exclusive", validator=_check_concurrency)
    finalize_content: Callable[[ToolExecution, ToolResult], Iterable[Content] | None] | None = attrs.field(
        default=None, validator=attrs.validators.optional(check_function("execution", "result"))
    )
    effects: Effects = attrs.field(default="mutating", validator=_check_effects)
    reconcile: Callable[[RecordedCall], Awaitable[Reconciled]] | None = attrs.field(
        default=None, validator=attrs.validators.optional(check_function("call", awaited=True))
    )
    _schema: Schema = attrs.field(
        init=False, repr=False, eq=False, default=attrs.Factory(lambda self: Schema(self.parameters), takes_self=True)
    )

    @property
    def takes_run(self) -> bool:
        """Whether the body gets a run, and so a nursery of its own; a function may do without."""
        return not isinstance(self.execute, FunctionBody) or self.execute.takes_run

    def admits(self, arguments: FrozenJson) -> bool:
        """Whether frozen arguments fit the schema."""
        return self._schema.is_valid(arguments)

    def violations(self, arguments: FrozenJson) -> list[str]:
        """How frozen arguments break the schema: every violation with its path; empty if they fit."""
        return [] if self._schema.is_valid(arguments) else self._schema.violations(arguments)


class FunctionBody:
    """The body of a tool that was made from a function. The registry calls it in two steps, :meth:`bind` and run.

    A function that is not ``async`` runs in a worker thread.
    """

    __slots__ = ("function", "in_thread", "signature", "takes_run")

    def __init__(self, function: Callable[..., object], signature: Signature) -> None:
        self.function = function
        self.signature = signature
        self.in_thread = not signature.is_async
        self.takes_run = signature.run_parameter is not None

    def bind(self, arguments: FrozenJson) -> dict[str, object]:
        """The typed values of the parameters.

        Raises:
            ArgumentsError: If the arguments do not fit; lists every violation.
        """
        return self.signature.bind(arguments)

    @trio.lowlevel.enable_ki_protection
    def start_async(self, bound: dict[str, object], run: ToolRun | None) -> Awaitable[object]:
        """:meth:`start` of a function that is ``async``."""
        return cast(Awaitable[object], self.start(bound, run))

    @trio.lowlevel.enable_ki_protection  # an interrupt between making a coroutine and awaiting it would lose it
    def start(self, bound: dict[str, object], run: ToolRun | None) -> object:
        """Call the function: gives its coroutine, or for one that runs in a thread, what it returns."""
        wanted = self.signature.run_parameter
        answer = self.function(**bound) if wanted is None else self.function(**bound, **{wanted: run})
        if self.in_thread and inspect.iscoroutine(answer):
            answer.close()
            raise TypeError(f"{self.signature.name} is not async but returned a coroutine: make it an async def")
        return answer

    async def __call__(self, arguments: FrozenJson, run: ToolRun) -> object:
        """Both steps in one, as ``ToolDefinition.execute`` promises. A checkpoint if the function is one."""
        bound = self.bind(arguments)
        if self.in_thread:
            return await trio.to_thread.run_sync(self.start, bound, run)
        return await self.start_async(bound, run)


@attrs.frozen(kw_only=True)
class FunctionTool(ToolDefinition, Generic[P, R]):
    """A :class:`ToolDefinition` that was made from a function, and can still be called like it."""

    function: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function, as a test of it would: no registry, no stages, no thread."""
        return self.function(*args, **kwargs)


def _output_of(signature: Signature, given: Output) -> Output:
    """What ``given`` leaves open of an output contract, filled in from the return annotation.

    Without an annotation, anything that is JSON will do.
    """
    render = given.render
    if render is render_plainly and signature.returns_content:
        render = render_content
    elif render is render_plainly and signature.returns_blocks and given.convert is None:
        raise TypeError(
            f"{signature.name}() cannot be a tool: content blocks inside other data would reach the model as JSON "
            "text: return a block, or a list of blocks and str, or say with output=Output(render=...) what to show"
        )
    elif render is render_plainly and signature.returns_schema and not signature.returns_text:
        render = render_json
    return Output(
        schema=given.schema or signature.returns_schema,
        convert=given.convert or signature.to_json,
        check_json=given.check_json or (signature.check_json if given.convert is None else None),
        render=render,
        presentation_meta=given.presentation_meta,
    )


@overload
def tool(fn: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    fn: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    concurrency: Concurrency = "exclusive",
    output: Output | None = None,
    finalize_content: Callable[[ToolExecution, ToolResult], Iterable[Content] | None] | None = None,
    effects: Effects = "mutating",
    reconcile: Callable[[RecordedCall], Awaitable[Reconciled]] | None = None,
) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    concurrency: Concurrency = "exclusive",
    output: Output | None = None,
    finalize_content: Callable[[ToolExecution, ToolResult], Iterable[Content] | None] | None = None,
    effects: Effects = "mutating",
    reconcile: Callable[[RecordedCall], Awaitable[Reconciled]] | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    fn: Callable[..., object] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    concurrency: Concurrency = "exclusive",
    output: Output | None = None,
    finalize_content: Callable[[ToolExecution, ToolResult], Iterable[Content] | None] | None = None,
    effects: Effects = "mutating",
    reconcile: Callable[[RecordedCall], Awaitable[Reconciled]] | None = None,
) -> object:
    """Make a tool of a function: its schema comes from the signature, its description from the docstring.

    Use it bare (``@tool``) or with options (``@tool(timeout=5)``). Every parameter needs an annotation; one annotated
    ``ToolRun`` receives the run and is not shown to the model. A function that is not ``async`` runs in a worker
    thread: it is waited for when the call is cancelled, and can poll ``trio.from_thread.check_cancelled()``.

    Args:
        fn: The function, a method, a ``functools.partial`` or a callable object.
        name: What the model calls the tool; by default the name of the function.
        description: What the model is told; by default the docstring up to its sections.
        timeout: Seconds, > 0, for one attempt.
        concurrency: Whether calls of one batch may overlap, see :class:`ToolDefinition`.
        output: The output contract; what it leaves open comes from the return annotation.
        finalize_content: See :class:`ToolDefinition`.
        effects: Likewise.
        reconcile: Likewise.

    Raises:
        TypeError: If a parameter can have no schema; it is named, with what to write instead.
    """
    frame = inspect.currentframe()
    around = frame.f_back if frame is not None else None
    local_names = dict(around.f_locals) if around is not None else {}  # string annotations may name what is local

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        signature = inspect_function(function, run_type=ToolRun, local_names=local_names)
        return FunctionTool(
            function=function,
            name=signature.name if name is None else name,
            description=signature.description if description is None else description,
            parameters=signature.parameters,
            execute=FunctionBody(function, signature),
            output=_output_of(signature, output or Output()),
            timeout=timeout,
            concurrency=concurrency,
            finalize_content=finalize_content,
            effects=effects,
            reconcile=reconcile,
        )

    return decorate if fn is None else decorate(fn)
