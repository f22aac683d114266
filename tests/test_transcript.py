"""Histories loaded from elsewhere, in the three forms that are known."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_tools import PairingFault, check_pairing, close_open_calls

FORMS = ["chat", "responses", "blocks"]
TEXT = "Error: no result of this tool call was recorded; it may or may not have run"


def calls(form: str, *ids: str) -> list[dict[str, Any]]:
    """A message of the model's that makes these calls."""
    if form == "chat":
        made = [{"id": one, "type": "function", "function": {"name": "work", "arguments": "{}"}} for one in ids]
        return [{"role": "assistant", "content": None, "tool_calls": made}]
    if form == "responses":
        return [{"type": "function_call", "call_id": one, "name": "work", "arguments": "{}"} for one in ids]
    blocks: list[dict[str, Any]] = [{"type": "tool_use", "id": one, "name": "work", "input": {}} for one in ids]
    return [{"role": "assistant", "content": [{"type": "text", "text": "I call."}, *blocks]}]


def results(form: str, *ids: str, text: str = "done") -> list[dict[str, Any]]:
    if form == "chat":
        return [{"role": "tool", "tool_call_id": one, "content": text} for one in ids]
    if form == "responses":
        return [{"type": "function_call_output", "call_id": one, "output": text} for one in ids]
    error = {"is_error": True} if text == TEXT else {}
    blocks = [{"type": "tool_result", "tool_use_id": one, "content": text, **error} for one in ids]
    return [{"role": "user", "content": blocks}]


USER = {"role": "user", "content": "go on"}


@pytest.mark.parametrize("form", FORMS)
def test_a_paired_history_has_no_fault_and_is_left_as_it_is(form: str) -> None:
    history = [USER, *calls(form, "a", "b"), *results(form, "a", "b"), USER, *calls(form, "a"), *results(form, "a")]
    assert check_pairing(history) == []
    assert close_open_calls(history) == history


@pytest.mark.parametrize("form", FORMS)
def test_every_kind_of_fault_is_named_with_its_id_and_its_message(form: str) -> None:
    history = [*results(form, "early"), *calls(form, "a"), *calls(form, "a"), *results(form, "a"), *results(form, "a")]
    history += calls(form, "open")
    assert check_pairing(history) == [
        PairingFault("result-without-call", "early", 0),
        PairingFault("duplicate-call", "a", 2),
        PairingFault("duplicate-result", "a", 4),
        PairingFault("call-without-result", "open", 5),
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("behind", [[], [USER], [{"role": "assistant", "content": "stopped"}]])
def test_an_open_call_gets_a_result_where_a_provider_wants_it(form: str, behind: list[Any]) -> None:
    """Directly behind its message, and behind the results that are there."""
    closed = close_open_calls([USER, *calls(form, "a"), *behind])
    assert check_pairing(closed) == []
    added = results(form, "a", text=TEXT)
    if form == "blocks" and behind == [USER]:
        added = [{"role": "user", "content": [*added[0]["content"], {"type": "text", "text": "go on"}]}]
        behind = []
    assert closed == [USER, *calls(form, "a"), *added, *behind]


@pytest.mark.parametrize("form", ["chat", "responses"])
def test_the_results_that_are_there_stay_together_with_the_new_one(form: str) -> None:
    closed = close_open_calls([*calls(form, "a", "b"), *results(form, "a"), USER])
    assert closed == [*calls(form, "a", "b"), *results(form, "a"), *results(form, "b", text=TEXT), USER]


def test_the_results_that_are_there_share_their_message_with_the_new_one() -> None:
    closed = close_open_calls([*calls("blocks", "a", "b"), *results("blocks", "a"), USER])
    first, shared, last = closed
    assert (first, last) == (calls("blocks", "a", "b")[0], USER)
    assert [block["tool_use_id"] for block in shared["content"]] == ["b", "a"]


def test_calls_of_two_messages_each_get_theirs() -> None:
    closed = close_open_calls([*calls("chat", "a"), *calls("chat", "b"), USER])
    assert closed == [
        *calls("chat", "a"), *results("chat", "a", text=TEXT), *calls("chat", "b"), *results("chat", "b", text=TEXT),
        USER,
    ]  # fmt: skip


def test_messages_of_other_kinds_are_passed_over() -> None:
    history: list[Any] = [{"role": "system", "content": "be kind"}, {"type": "reasoning", "summary": []}, {}]
    assert check_pairing(history) == []
    assert close_open_calls(history) == history


def test_a_user_message_without_content_takes_results_too() -> None:
    closed = close_open_calls([*calls("blocks", "a"), {"role": "user"}])
    assert closed[1] == {"role": "user", "content": results("blocks", "a", text=TEXT)[0]["content"]}


def test_an_object_of_an_sdk_is_refused_with_what_to_do() -> None:
    history: Any = [object()]
    with pytest.raises(TypeError, match="model_dump"):
        check_pairing(history)


@given(st.sampled_from(FORMS), st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), max_size=8), st.booleans())
def test_whatever_the_history_no_call_is_left_open_and_nothing_given_is_changed(
    form: str, steps: list[tuple[bool, str]], talk: bool
) -> None:
    history: list[dict[str, Any]] = []
    for is_call, one in steps:
        history += calls(form, one) if is_call else results(form, one)
        history += [USER] if talk else []
    before = copy.deepcopy(history)
    closed = close_open_calls(history)
    assert history == before
    assert not [fault for fault in check_pairing(closed) if fault.kind == "call-without-result"]


def test_a_custom_tool_gets_an_output_of_its_own_kind() -> None:
    call = {"type": "custom_tool_call", "call_id": "a", "name": "work", "input": ""}
    closed = close_open_calls([call, USER])
    assert closed == [call, {"type": "custom_tool_call_output", "call_id": "a", "output": TEXT}, USER]
    assert check_pairing(closed) == []


@pytest.mark.parametrize("key", ["content", "tool_calls"])
def test_an_object_of_an_sdk_inside_a_message_is_refused_too(key: str) -> None:
    with pytest.raises(TypeError, match=r"has a object in it.*model_dump"):
        close_open_calls([{"role": "assistant", key: [object()]}])


def test_calls_of_two_forms_each_get_results_of_theirs() -> None:
    history = [*calls("responses", "a"), *calls("blocks", "b"), USER]
    (added,) = results("blocks", "b", text=TEXT)
    assert close_open_calls(history) == [
        *calls("responses", "a"), *results("responses", "a", text=TEXT), *calls("blocks", "b"),
        {"role": "user", "content": [*added["content"], {"type": "text", "text": "go on"}]},
    ]  # fmt: skip


def test_an_id_that_is_used_again_and_again_is_closed_each_time() -> None:
    history = [message for _ in range(2_000) for message in [*calls("chat", "call_0"), USER]]
    closed = close_open_calls(history)
    assert len(closed) == 6_000
    assert check_pairing(closed) == []
