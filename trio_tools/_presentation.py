"""From what a body returned to a result: checked, rendered, described."""

from __future__ import annotations

from ._content import Context
from ._execution import Facts
from ._output import Output, OutputError
from ._results import INVALID_OUTPUT, BodyState, ToolFailure, ToolResult, ToolSuccess

__all__ = ["admitted", "produce"]


def produce(
    output: Output,
    facts: Facts,
    value: object,
    *,
    converted: bool = False,
    contexts: tuple[Context, ...],
    concludes_turn: bool,
    body: BodyState,
) -> ToolResult:
    """The success that ``value`` stands for, or ``INVALID_TOOL_OUTPUT`` if it breaks the contract.

    ``converted`` says that it is JSON data already, and not what a body returned.
    """
    try:
        frozen, content = output.check(value, converted=converted)
        if content is None:
            content = output.show(facts.arguments, frozen)
        meta = output.present(facts.arguments, frozen) if facts.request.parent is None else None
    except OutputError as error:
        return _invalid_output(facts.request.name, error, contexts=contexts, body=body)
    return ToolSuccess(
        value=frozen, content=content, meta=meta, contexts=contexts, concludes_turn=concludes_turn, body=body
    )


def admitted(success: ToolSuccess, output: Output, name: str, *, body: BodyState) -> ToolResult:
    """A success that is not what the body returned, held against the output contract too."""
    try:
        output.admit(success.value)
    except OutputError as error:
        return _invalid_output(name, error, contexts=success.contexts, body=body)
    return success


def _invalid_output(name: str, error: OutputError, *, contexts: tuple[Context, ...], body: BodyState) -> ToolFailure:
    """The failure of a body that finished, and whose value cannot be used."""
    message = f'tool "{name}" returned invalid output: {error}'
    return ToolFailure.from_message(message, code=INVALID_OUTPUT, name="ToolOutputError", contexts=contexts, body=body)
