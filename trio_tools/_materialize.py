"""The first step of a call: its own snapshot of the arguments, checked."""

from __future__ import annotations

from ._brief import Brief
from ._json import NotJsonError, freeze
from ._refusals import invalid_arguments, no_object
from ._request import Malformed
from ._results import ToolFailure
from ._signature import ArgumentsError
from ._tool import FunctionBody

__all__ = ["materialize"]


def materialize(brief: Brief) -> ToolFailure | None:
    """Take the snapshot of the arguments and check it; the failure, if they are unusable. Not a checkpoint."""
    arguments, tool = brief.request.arguments, brief.tool
    if isinstance(arguments, Malformed):
        return invalid_arguments([arguments.reason])
    try:
        brief.arguments = frozen = freeze(arguments)
        if not isinstance(frozen, dict):
            return invalid_arguments([no_object(frozen)])
        if isinstance(tool.execute, FunctionBody):  # it has the same schema, and names what breaks a type too
            brief.bound = tool.execute.bind(frozen)
            return None
        violations = tool.violations(frozen)
        return invalid_arguments(violations) if violations else None
    except NotJsonError as error:
        return invalid_arguments([str(error)])
    except ArgumentsError as error:
        return invalid_arguments(error.violations)
