"""What the parts that carry out one call share."""

from __future__ import annotations

import attrs
import trio

from ._execution import Facts
from ._pipeline import Stages
from ._tool import ToolDefinition

__all__ = ["Brief"]


@attrs.define(eq=False)
class Brief(Facts):
    """One call to a tool that exists: the tool and the stages of the moment it started, its state, its arguments."""

    tool: ToolDefinition = attrs.field(kw_only=True)
    stages: Stages = attrs.field(kw_only=True)
    task: trio.lowlevel.Task = attrs.field(kw_only=True)  # that made the call
    bound: dict[str, object] | None = attrs.field(default=None, kw_only=True)  # typed values of the arguments
