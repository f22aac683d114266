"""Histories loaded from elsewhere: does each tool call have its one result, and what to do if not.

Providers refuse a history in which a call has no result. Three forms of messages are known, by what is in them:
OpenAI's Chat Completions (``tool_calls`` and the role ``tool``), OpenAI's Responses (``function_call`` and
``function_call_output`` items), and Anthropic's Messages (``tool_use`` and ``tool_result`` blocks). What has none of
them is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import attrs

__all__ = ["PairingFault", "check_pairing", "close_open_calls"]

Message: TypeAlias = Mapping[str, Any]

_NO_RESULT = "Error: no result of this tool call was recorded; it may or may not have run"

_Form: TypeAlias = Literal["chat", "responses", "custom", "blocks"]


@attrs.frozen
class PairingFault:
    """Something in a history that is not one call with one result.

    Attributes:
        kind: ``"call-without-result"``, ``"result-without-call"`` (none before it, that is), ``"duplicate-call"`` (of
            an id whose result is still awaited), ``"duplicate-result"``.
        call_id: The id.
        index: The number of the message, from 0.
    """

    kind: Literal["call-without-result", "result-without-call", "duplicate-call", "duplicate-result"]
    call_id: str
    index: int


@attrs.frozen
class _Part:
    """A call or a result in a message."""

    form: _Form
    is_call: bool
    call_id: str


def check_pairing(messages: Sequence[Message]) -> list[PairingFault]:
    """What is wrong with the pairing of calls and results in a history; empty if nothing is.

    Pure. An id may be used again once its call has a result, as some models do.

    Args:
        messages: As they are sent to a provider; not changed.

    Returns:
        The faults, in the order of the messages.

    Raises:
        TypeError: If a message is no mapping.
    """
    faults: list[PairingFault] = []
    awaited: dict[str, int] = {}
    answered: set[str] = set()
    for index, message in enumerate(messages):
        for part in _parts(message):
            if part.is_call and part.call_id in awaited:
                faults.append(PairingFault("duplicate-call", part.call_id, index))
            elif part.is_call:
                awaited[part.call_id] = index
            elif part.call_id in awaited:
                del awaited[part.call_id]
                answered.add(part.call_id)
            else:
                kind = "duplicate-result" if part.call_id in answered else "result-without-call"
                faults.append(PairingFault(kind, part.call_id, index))
    faults += [PairingFault("call-without-result", call_id, index) for call_id, index in awaited.items()]
    return sorted(faults, key=lambda fault: fault.index)


def close_open_calls(messages: Sequence[Message]) -> list[Message]:
    """The history, with a result for each call that has none, where a provider wants it.

    The result says that none was recorded and that the call may have run: nothing more is known. Pure; other faults
    than calls without a result stay.

    Args:
        messages: As they are sent to a provider. Neither the list nor a message is changed.

    Returns:
        A new list, of the same messages where nothing had to be added.

    Raises:
        TypeError: If a message is no mapping.
    """
    parts = [list(_parts(message)) for message in messages]
    open_calls = _open_calls(parts)
    closed: list[Message] = []
    due: list[_Part] = []  # calls of one form, whose results come as soon as those that are there have passed
    for index, message in enumerate(messages):
        here = parts[index]
        is_theirs = bool(here) and bool(due) and here[0].form == due[0].form
        if due and due[0].form == "blocks":
            message, due = _with_results(message, due, closed), []
        elif due and not (is_theirs and (due[0].form in ("responses", "custom") or not here[0].is_call)):
            closed += map(_result, due)
            due = []
        closed.append(message)
        due += open_calls.get(index, [])
    if due and due[0].form == "blocks":
        return [*closed, {"role": "user", "content": [_result(part) for part in due]}]
    return [*closed, *map(_result, due)]


def _open_calls(parts: Sequence[Sequence[_Part]]) -> dict[int, list[_Part]]:
    """By the number of their message: calls that have no result before the next call of their id."""
    open_calls: dict[int, list[_Part]] = {}
    awaited: dict[str, tuple[int, _Part]] = {}
    for index, here in enumerate(parts):
        for part in here:
            before = awaited.pop(part.call_id, None)
            if part.is_call:
                awaited[part.call_id] = (index, part)
                if before is not None:
                    open_calls.setdefault(before[0], []).append(before[1])
    for index, part in awaited.values():
        open_calls.setdefault(index, []).append(part)
    return open_calls


def _parts(message: Message) -> Iterator[_Part]:
    if not isinstance(message, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - objects of an SDK
        raise TypeError(f"a message is a mapping, not {type(message).__name__}: convert it, as by its model_dump()")
    kind = message.get("type")
    if kind in ("function_call", "function_call_output"):
        yield _Part("responses", kind == "function_call", str(message.get("call_id")))
    elif kind in ("custom_tool_call", "custom_tool_call_output"):
        yield _Part("custom", kind == "custom_tool_call", str(message.get("call_id")))
    if message.get("role") == "tool":
        yield _Part("chat", False, str(message.get("tool_call_id")))
    for call in _mappings(message.get("tool_calls")):
        yield _Part("chat", True, str(call.get("id")))
    for block in _mappings(message.get("content")):
        if block.get("type") == "tool_use":
            yield _Part("blocks", True, str(block.get("id")))
        elif block.get("type") == "tool_result":
            yield _Part("blocks", False, str(block.get("tool_use_id")))


def _mappings(value: object) -> list[Message]:
    if not isinstance(value, list | tuple):
        return []
    items = cast("Sequence[object]", value)
    for one in items:
        if not isinstance(one, Mapping | str):
            raise TypeError(f"a message has a {type(one).__name__} in it: convert it, as by its model_dump()")
    return [cast(Message, one) for one in items if isinstance(one, Mapping)]


def _result(part: _Part) -> Message:
    match part.form:
        case "chat":
            return {"role": "tool", "tool_call_id": part.call_id, "content": _NO_RESULT}
        case "responses":
            return {"type": "function_call_output", "call_id": part.call_id, "output": _NO_RESULT}
        case "custom":
            return {"type": "custom_tool_call_output", "call_id": part.call_id, "output": _NO_RESULT}
        case _:
            return {"type": "tool_result", "tool_use_id": part.call_id, "content": _NO_RESULT, "is_error": True}


def _with_results(message: Message, due: Sequence[_Part], closed: list[Message]) -> Message:
    """The message after calls in blocks: its results come first in it if it is the user's, else in one before it."""
    results = [_result(part) for part in due]
    if message.get("role") != "user":
        closed.append({"role": "user", "content": results})
        return message
    content = message.get("content")
    there = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    return {**message, "content": [*results, *there]}
