"""Which calls may overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import attrs

from ._json import FrozenJson, NotJsonError, freeze
from ._pipeline import discard
from ._planner import Mode
from ._request import Malformed, ToolCall
from ._tool import Keyed, ToolDefinition

__all__ = ["classified"]


def classified(call: ToolCall, tool: ToolDefinition | None) -> tuple[ToolCall, Mode]:
    """How a call may overlap, and the call with the snapshot of its arguments for which that holds.

    One that cannot run counts as parallel; where a tool's own answer makes no sense, its calls are exclusive.
    """
    if tool is None or isinstance(call.arguments, Malformed) or tool.concurrency == "parallel":
        return call, "parallel"
    try:
        arguments = freeze(call.arguments)
    except NotJsonError:
        return call, "parallel"
    if not tool.admits(arguments):
        return call, "parallel"
    call = attrs.evolve(call, arguments=arguments)
    if tool.concurrency == "exclusive":
        return call, "exclusive"
    classify = cast("Callable[[FrozenJson], object]", tool.concurrency)  # whatever it has promised
    try:
        answer = classify(arguments)
        if isinstance(answer, Keyed):
            hash(answer)  # it is to be looked up, and so compared
            return call, answer if answer.key == answer.key else "exclusive"
    except Exception:
        return call, "exclusive"
    discard(answer)
    return call, "parallel" if isinstance(answer, str) and answer == "parallel" else "exclusive"
