"""Stand-ins for what surrounds a call: they capture and hold, and pretend nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import get_args

import attrs
import trio

from trio_tools._approval import ApprovalOutcome, ApprovalRequest
from trio_tools._json import FrozenJson
from trio_tools._registry import ToolRegistry
from trio_tools._request import ToolCall
from trio_tools._results import ToolResult
from trio_tools._tool import ToolDefinition
from trio_tools._views import Progress, ToolExecution, ToolRun

__all__ = [
    "GatedTool",
    "Observed",
    "RecordingObserver",
    "ScriptedApprover",
    "must_be_registry",
    "must_be_tool",
    "run_tool",
]


@attrs.frozen
class Observed:
    """One result as an observer was told of it."""

    execution: ToolExecution
    result: ToolResult


@attrs.define
class RecordingObserver:
    """Keeps what it is told. ::

        observer = RecordingObserver()
        with registry.observe(observer), registry.observe_progress(observer.progress):
            ...
        assert [result.body for result in observer.results] == ["finished"]

    Attributes:
        observed: Execution and result of each call, in the order in which they were told.
        reported: What bodies reported of their progress, with the execution that did.
    """

    observed: list[Observed] = attrs.field(factory=list[Observed], init=False)
    reported: list[tuple[ToolExecution, Progress]] = attrs.field(
        factory=list[tuple[ToolExecution, Progress]], init=False
    )

    def __call__(self, execution: ToolExecution, result: ToolResult) -> None:
        """Keep a result: this is a ``ResultObserver``."""
        self.observed.append(Observed(execution, result))

    def progress(self, execution: ToolExecution, progress: Progress) -> None:
        """Keep a report: this is a ``ProgressObserver``."""
        self.reported.append((execution, progress))

    @property
    def results(self) -> list[ToolResult]:
        """The results alone."""
        return [one.result for one in self.observed]


_ANSWERS: tuple[ApprovalOutcome, ...] = get_args(ApprovalOutcome)


class ScriptedApprover:
    """Answers questions from a list, in order, and keeps them in :attr:`asked`.

    Args:
        answers: Such as ``["allowed-once", "rejected"]``.

    Raises:
        ValueError: If one of them is no answer.
        TypeError: If it is no list, nor anything of the kind.
    """

    def __init__(self, answers: Iterable[ApprovalOutcome]) -> None:
        if isinstance(answers, str | Mapping | AbstractSet) or not isinstance(answers, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - at run time too
            raise TypeError(f"answers is a list, such as ['rejected'], not {answers!r}")
        self._answers = list(answers)
        for answer in self._answers:
            if answer not in _ANSWERS:
                raise ValueError(f"an answer must be one of {', '.join(map(repr, _ANSWERS))}, not {answer!r}")
        self.asked: list[ApprovalRequest] = []

    async def request(self, ask: ApprovalRequest, /) -> ApprovalOutcome:
        """The next answer. A checkpoint; if ``Cancelled`` comes out, the answer is still there.

        Raises:
            AssertionError: If there is none left. The call is stopped then.
        """
        self.asked.append(ask)
        await trio.lowlevel.checkpoint()
        if not self._answers:
            raise AssertionError(f"question {len(self.asked)} has no answer: give ScriptedApprover one more")
        return self._answers.pop(0)


class GatedTool:
    """A tool that waits in its body until it is released, so that a test can act while it does.

    Attributes:
        tool: The tool, to be registered. It takes any arguments.
        entered: Set when a body has been entered.
        released: Set it to let the bodies go on to their end.
        arguments: Those of each body that was entered, in that order.

    Args:
        name: Its name.
        value: What it returns when it is released.
    """

    def __init__(self, name: str = "gated", value: object = None) -> None:
        self.entered: trio.Event = trio.Event()
        self.released: trio.Event = trio.Event()
        self.arguments: list[FrozenJson] = []
        self._value = value
        self.tool: ToolDefinition = ToolDefinition(
            name=name,
            description="Waits until it is released.",
            parameters={"type": "object"},
            execute=self._execute,
            concurrency="parallel",
        )

    async def _execute(self, arguments: FrozenJson, run: ToolRun) -> object:
        self.arguments.append(arguments)
        self.entered.set()
        await self.released.wait()
        return self._value


def must_be_tool(tool: object) -> None:
    """Refuse what is no tool.

    Raises:
        TypeError: It says how to make one.
    """
    if not isinstance(tool, ToolDefinition):
        raise TypeError(f"not a tool: {tool!r}; make one with @tool, or as a ToolDefinition")


def must_be_registry(registry: object) -> None:
    """Refuse what is no registry, and not ``None``.

    Raises:
        TypeError: It says what is expected.
    """
    if registry is not None and not isinstance(registry, ToolRegistry):
        raise TypeError(f"registry takes a ToolRegistry, not {registry!r}")


async def run_tool(
    tool: ToolDefinition, arguments: object = None, *, id: str = "call", registry: ToolRegistry | None = None
) -> ToolResult:
    """Call one tool as a model would, in a registry of its own: arguments are checked, the result is converted.

    A checkpoint, unless the call cannot start. Returns also when cancelled; the next checkpoint raises.

    Args:
        tool: The tool.
        arguments: Parsed JSON; by default ``{}``.
        id: The id of the call.
        registry: Whose tools the body can call, and whose stages stand around it.

    Raises:
        TypeError: If ``tool`` is none.
    """
    must_be_tool(tool)
    must_be_registry(registry)
    call = ToolCall(id=id, name=tool.name, arguments={} if arguments is None else arguments)
    return await ToolRegistry([tool], parent=registry).execute(call, scope=trio.CancelScope())
