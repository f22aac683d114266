"""What a model is told of a call that cannot run."""

from __future__ import annotations

from collections.abc import Sequence

from ._json import FrozenJson
from ._json_words import shorten
from ._results import INVALID_ARGUMENTS, UNKNOWN_TOOL, ToolFailure
from ._text import well_formed

__all__ = ["invalid_arguments", "no_object", "unknown_tool"]


def unknown_tool(name: str, meant: list[str]) -> ToolFailure:
    """No visible tool has that name; ``meant`` are visible ones that are like it."""
    hint = f"; did you mean {' or '.join(repr(one) for one in meant)}?" if meant else ""
    message = f'unknown tool "{shorten(well_formed(name), 200)}"{hint}'
    return ToolFailure.from_message(message, code=UNKNOWN_TOOL, name="ToolNotFoundError")


def invalid_arguments(violations: Sequence[str]) -> ToolFailure:
    """The arguments break the schema, or are no JSON; every violation is listed."""
    message = f"invalid arguments: {'; '.join(violations)}"
    return ToolFailure.from_message(message, code=INVALID_ARGUMENTS, name="ToolArgsError")


def no_object(arguments: FrozenJson) -> str:
    """The violation of arguments that are something else than an object."""
    if isinstance(arguments, str):
        return "$: the arguments must be an object, not text; send the object itself, not its JSON text in a string"
    return "$: the arguments must be an object, with one key for each parameter"
