"""The end of a call: the tool's last word on what the model sees, and the observers. Synchronous throughout."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import attrs

from ._content import Content, as_content
from ._pipeline import discard
from ._results import ToolFailure, ToolResult
from ._views import ResultObserver, ToolExecution

__all__ = ["finalized", "published"]

_log = logging.getLogger("trio_tools")


def finalized(
    finalize: Callable[[ToolExecution, ToolResult], Iterable[Content] | None],
    execution: ToolExecution,
    result: ToolResult,
) -> tuple[ToolResult, BaseException | None]:
    """The result with the content that ``finalize_content`` gives it, and an interrupt that struck meanwhile.

    Fails closed: if it raises, or gives nonsense, a success becomes that failure, and a failure shows the new text.
    """
    try:
        content = finalize(execution, result)
        if content is None:
            return result, None
        discard(content)
        return attrs.evolve(result, content=as_content(content)), None
    except Exception as error:
        failure = attrs.evolve(ToolFailure.from_exception(error), body=result.body)
    except BaseException as interrupt:  # raised by the call when the result is published
        return result, interrupt
    if not isinstance(result, ToolFailure):
        return failure, None
    error = attrs.evolve(result.error, message=failure.error.message)
    return attrs.evolve(result, error=error, content=failure.content, superseded=None, partial=()), None


def published(observers: Sequence[ResultObserver], execution: ToolExecution, result: ToolResult) -> list[BaseException]:
    """Tell everybody of the result, once. Errors are logged; interrupts are given back, to be raised afterwards."""
    interrupts: list[BaseException] = []
    for observer in observers:
        try:
            answer: object = observer(execution, result)
            if answer is not None:
                discard(answer)
                _log.error("result observer %r must be a plain function and return None, not %r", observer, answer)
        except Exception:
            _log.exception("result observer %r failed for call %r", observer, execution.call_id)
        except BaseException as interrupt:
            interrupts.append(interrupt)
    return interrupts
