"""parse: strict JSON text, and where it is not."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trio_tools._json import FrozenDict, FrozenJson, JsonTextError, freeze, parse, thaw

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


def refused(text: str | bytes) -> JsonTextError:
    with pytest.raises(JsonTextError) as caught:
        parse(text)
    str(caught.value).encode()
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return caught.value


# ---- accepted


@given(json_values, st.booleans(), st.sampled_from([None, 1]))
def test_what_json_writes_is_read_as_the_frozen_value(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert json.dumps(parse(text)) == json.dumps(value)
    assert parse(text.encode()) == parse(text) == freeze(value)


def test_the_result_is_frozen() -> None:
    parsed = parse('{"a": [{"b": null}]}')
    assert type(parsed) is FrozenDict
    assert parsed == freeze({"a": [{"b": None}]})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("true", True),
        ("-0.0", -0.0),
        ("-0", 0),
        ("1E+2", 100.0),
        ('"x"', "x"),
        (" \n\t[ ]\r\n ", ()),
        ('{"s": "\\ud83d\\ude00\\/\\b"}', {"s": "\U0001f600/\b"}),
        ('{"n": 900719925474099312345678901234567890}', {"n": 900719925474099312345678901234567890}),
        ('{"n": 5e-324, "m": 1e-999}', {"n": 5e-324, "m": 0.0}),
        ('{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}', {"a": {"a": 1}, "b": ({"a": 1}, {"a": 2})}),
    ],
)
def test_strict_text_of_any_root_is_accepted(text: str, value: object) -> None:
    assert parse(text) == value
    assert type(parse(text)) is type(freeze(value))


def test_every_kind_of_bytes_is_read_as_utf8() -> None:
    data = '{"ä": "€"}'.encode()
    spread = bytes(byte for pair in zip(data, b"\xff" * len(data), strict=True) for byte in pair)
    for form in (data, bytearray(data), memoryview(data), memoryview(spread)[::2]):
        assert parse(form) == {"ä": "€"}


def test_a_subclass_of_str_or_bytes_is_read_by_what_it_stores() -> None:
    class Text(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "[2]"

        def count(self, *_: Any) -> int:
            return 0

    class Data(bytes):
        def __bytes__(self) -> bytes:
            return b"[2]"

    assert parse(Text("[1]")) == parse(Data(b"[1]")) == (1,)
    assert refused(Text("[" * 100_000)).position == 128


def test_what_is_no_text_at_all_is_a_type_error() -> None:
    not_text: Any = {"a": 1}
    with pytest.raises(TypeError):
        parse(not_text)


def test_an_integer_of_five_thousand_digits_is_read_exactly_or_refused_with_its_place() -> None:
    error = refused('{"a": {"n": [0, -1' + "0" * 5000 + "]}}")
    assert error.problem == "an integer of 5001 digits is too long, at most 4300 are read, in $.a.n[1]"
    assert error.position == 16
    for tail in ("abc", ".", "e", "\u0663", "..5"):
        assert refused("[1" + "0" * 5000 + tail).position == 1
    assert parse("-" + "9" * 4300) == -(10**4300 - 1)


# ---- refused

FAULTS: dict[str, tuple[str | bytes, int, str]] = {
    "empty": ("", 0, "Expecting value, at the end of the text"),
    "empty bytes": (b"", 0, "Expecting value, at the end of the text"),
    "blank": (" \n ", 3, "Expecting value, at the end of the text"),
    "bare word": ("hello", 0, "Expecting value, at 'hello'"),
    "cut short": ('{"a": true', 10, "Expecting ',' delimiter, at the end of the text"),
    "cut in a word": ('{"a": tru', 6, "Expecting value, at 'tru'"),
    "cut in a string": ('["x', 1, "Unterminated string, at '\"x'"),
    "cut in an escape": ('["\\', 1, "Unterminated string, at '\"\\\\'"),
    "single quotes": ("{'a': 1}", 1, "Expecting property name enclosed in double quotes, at \"'a': 1}\""),
    "trailing comma": ("[1,]", 3, "Expecting value, at ']'"),
    "trailing data": ('{"a": 1} {"b": 2}', 9, "Extra data, at '{\"b\": 2}'"),
    "no-break space behind": ("{}\u00a0", 2, "Extra data, at '\\xa0'"),
    "leading zero": ("[01]", 2, "Expecting ',' delimiter, at '1]'"),
    "control character": ('["\t"]', 2, "Invalid control character, at '\\t\"]'"),
    "unknown escape": ('["\\x"]', 2, "Invalid \\escape, at '\\\\x\"]'"),
    "digits of another script": ("[\u0663]", 1, "Expecting value, at '\u0663]'"),
    "NaN": ('{"a": NaN}', 6, "NaN is not JSON, in $.a"),
    "Infinity": ('[0, {"b c": Infinity}]', 12, 'Infinity is not JSON, in $[1]["b c"]'),
    "-Infinity": ("-Infinity", 0, "-Infinity is not JSON, in $"),
    "overflow": ('{"n": [0, {"m": 2e400}]}', 16, "2e400 is too large for a float, in $.n[1].m"),
    "overflow below": ("-1e999", 0, "-1e999 is too large for a float, in $"),
    "overflow by digits": (
        "[1.5, " + "9" * 400 + ".0]",
        6,
        "9" * 40 + "…" + "9" * 38 + ".0 is too large for a float, in $[1]",
    ),
    "duplicate key": ('{"a": 1, "a": 2}', 9, 'the key "a" is there twice, first at character 1, in $'),
    "duplicate key deeper": (
        '[{}, {"a": {"b": 1, "c": [1, 2], "b": 3}}]',
        33,
        'the key "b" is there twice, first at character 12, in $[1].a',
    ),
    "duplicate key spelled otherwise": (
        '{"a": {"b": 1}, "\\u0061": 2}',
        16,
        'the key "a" is there twice, first at character 1, in $',
    ),
    "duplicate empty key": ('{"": 1, "": 2}', 8, 'the key "" is there twice, first at character 1, in $'),
    "escaped lone surrogate": ('{"a": "x\\udfffy"}', 6, '"x\\udfffy" holds half of a surrogate pair, in $.a'),
    "lone surrogate in a key": ('{"k": {"\\ud834": 1}}', 7, '"\\ud834" holds half of a surrogate pair, in $.k'),
    "lone surrogate as a character": ('["ä", "\ud800"]', 6, '"\\ud800" holds half of a surrogate pair, in $[1]'),
    "pair of characters": ('"\ud83d\ude00"', 0, '"\\ud83d\\ude00" holds half of a surrogate pair, in $'),
    "surrogate outside a string": ("\ud800", 0, "Expecting value, at '\\ud800'"),
    "byte order mark": ("\ufeff{}", 0, "the text begins with a byte order mark, which JSON text does not have"),
    "byte order mark in bytes": (
        b"\xef\xbb\xbf{}",
        0,
        "the text begins with a byte order mark, which JSON text does not have",
    ),
    "byte order mark later": ("[\ufeff]", 1, "Expecting value, at '\\ufeff]'"),
    "UTF-16": ("[1]".encode("utf-16"), 0, "the bytes are not UTF-8 (invalid start byte)"),
    "stray byte": (b'{"\xc3\xa4": "\xff"}', 7, "the bytes are not UTF-8 (invalid start byte)"),
    "cut in a character": (b"\xc3", 0, "the bytes are not UTF-8 (unexpected end of data)"),
    "overlong": (b'["\xc0\xaf"]', 2, "the bytes are not UTF-8 (invalid start byte)"),
    "surrogate in UTF-8": (b'["\xed\xa0\x80"]', 2, "the bytes are not UTF-8 (invalid continuation byte)"),
}


@pytest.mark.parametrize(("text", "position", "problem"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_named_with_its_place(text: str | bytes, position: int, problem: str) -> None:
    error = refused(text)
    assert (error.problem, error.position) == (problem, position)


def test_the_message_gives_line_and_column() -> None:
    error = refused('{\n  "a": 1,\n  "b": [true,\n    NaN]\n}')
    assert str(error) == "NaN is not JSON, in $.b[1]: line 4 column 5 (character 30)"
    assert (error.line, error.column, error.position) == (4, 5, 30)
    assert isinstance(error, ValueError)
    assert refused(b'[1,\n"\xff"]').line == 2


def test_a_refusal_can_be_pickled() -> None:
    error = refused("[NaN]")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.position) == (str(error), error.position)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ('{"a": 1, "a": NaN}', 9),
        ('[NaN, {"a": 1, "a": 2}]', 1),
        ('["\\ud800", 1e999, Infinity]', 1),
        ('{"a": {"x": 1e999}, "a": 1}', 12),
        ("[NaN, 1" + "0" * 5000 + "]", 1),
    ],
)
def test_of_two_faults_beyond_the_syntax_the_first_is_named(text: str, position: int) -> None:
    assert refused(text).position == position


def test_words_in_a_refusal_are_bounded() -> None:
    long = "x" * 100_000
    for text in (f'["{long}', f'{{"{long}": 1, "{long}": 2}}', f'{{"{long}": NaN}}', f'["{long}\\ud800"]', long):
        assert len(str(refused(text))) < 800


# ---- depth


@pytest.mark.parametrize(
    ("opening", "closing", "levels"), [("[", "]", 128), ('{"a":', "}", 128), ('[ {"a":\n', "} ]", 64)]
)
def test_text_may_nest_128_levels_and_no_more(opening: str, closing: str, levels: int) -> None:
    deepest = opening * levels + "1" + closing * levels
    assert thaw(parse(deepest)) == json.loads(deepest)
    error = refused(f"[{deepest}, 1]")
    assert error.problem == "more than 128 lists and objects inside one another"
    assert error.position == len("[" + opening * levels) - len(opening.partition("{")[2]) - 1


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("[" * 100_000, 128),
        ("[" * 100_000 + "]" * 100_000, 128),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, 640),
        ("[[]," * 100_000, 512 - 3),
        ('["[",' * 100_000, 640),
    ],
    ids=["never closed", "lists", "objects", "lists with a neighbour", "lists beside brackets in strings"],
)
def test_text_a_hundred_thousand_levels_deep_is_refused_at_the_level_that_is_too_much(text: str, position: int) -> None:
    error = refused(text)
    assert (error.problem, error.position) == ("more than 128 lists and objects inside one another", position)


@pytest.mark.parametrize(
    "value",
    [
        ["[" * 1000],
        {"{" * 1000: "]" * 1000},
        ['"' + "[" * 200 + '"', "\\", "[" * 200, '\\"' + "{" * 200],
        ["line\nbreak" + "[" * 200],
        [[True]] * 500,
    ],
    ids=["in a value", "in a key", "between escaped quotes", "after a line break", "side by side"],
)
def test_brackets_count_only_where_they_nest(value: object) -> None:
    assert thaw(parse(json.dumps(value))) == value


def test_a_string_that_does_not_end_hides_the_brackets_in_it() -> None:
    assert refused('["' + "[" * 1000).problem.startswith("Unterminated string")
    assert refused('["' + "[" * 1000 + "\\").problem.startswith("Unterminated string")


def test_brackets_that_close_what_was_not_open_do_not_make_room_for_depth() -> None:
    assert refused("]" * 1000 + "[" * 2000).position == 0
    assert refused("[1]" + "]" * 1000 + "[" * 100_000).position == 3


def test_a_fault_before_the_level_that_is_too_much_is_named_first() -> None:
    deep = "[" * 100_000
    error = refused("[tru, " + deep)
    assert error.problem.startswith("Expecting value, at 'tru, [")
    assert error.position == 1
    assert refused('{"a": 1, "b": {"c": 1, "c": 2}, "d": ' + deep).problem.startswith('the key "c" is there twice')
    assert refused("[1 " + deep).position == 3


@pytest.mark.parametrize(
    "before", ["[", "[ ", "[1,", "[1 , \n", '{"a":', '{ "a" : ', '{"a":1 , "b" :\t', '[{}, {"a": [']
)
def test_what_stands_before_the_level_that_is_too_much_is_no_fault(before: str) -> None:
    text = "[" * 127 + before + "[" * 2
    assert refused(text).problem.startswith("more than 128")


# ---- whatever comes

SEEDS = [
    '{"a": [1, -2.5e3, {"b": null}], "c": "\\ud83d\\ude00 \\"x\\" [", "d": {"e": true, "f": ""}}',
    '[NaN, 1e999, {"a": 1, "a": 2}, "\\ud800", -Infinity]',
    "[" * 127 + '{"k": 0}' + "]" * 127,
    " 12345678901234567890 ",
]
PIECES = [
    *'{}[]:,"\\ \n\t0123456789.eE+-abu\x00\ud800\ufeffé',
    "NaN",
    "Infinity",
    "\\u",
    "\\ud83d",
    "null",
    '"a":',
    "[" * 130,
    "1" * 4301,
]


@st.composite
def mutated_texts(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(text)))
        end = start + draw(st.integers(0, 3))
        text = text[:start] + draw(st.sampled_from(["", *PIECES])) + text[end:]
    return text


def attempt(text: str | bytes) -> FrozenJson | JsonTextError:
    try:
        return parse(text)
    except JsonTextError as error:
        return error


def check(text: str | bytes) -> None:
    """Either the value that the standard decoder reads, all of it JSON, or a refusal with a place in the text."""
    outcome = attempt(text)
    if isinstance(outcome, JsonTextError):
        assert 0 <= outcome.position <= len(text)
        str(outcome).encode()
    else:
        assert thaw(outcome) == json.loads(text)
        json.dumps(outcome, allow_nan=False, ensure_ascii=False).encode()


@settings(max_examples=1500)
@given(mutated_texts() | st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    check(text)


@settings(max_examples=500)
@given(st.binary() | mutated_texts().map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=2))
def test_no_bytes_raise_anything_else(data: bytes, tail: bytes) -> None:
    check(data + tail)


@settings(max_examples=500)
@given(mutated_texts())
def test_what_is_refused_is_no_json_or_breaks_a_rule_that_is_named(text: str) -> None:
    outcome = attempt(text)
    named = ("there twice", "is not JSON", "too large", "surrogate", "byte order", "128", "digits")
    if isinstance(outcome, JsonTextError) and not any(words in outcome.problem for words in named):
        with pytest.raises(json.JSONDecodeError) as standard:
            json.loads(text)
        assert standard.value.pos == outcome.position


def test_negative_zero_keeps_its_sign() -> None:
    number = parse("-0.0")
    assert isinstance(number, float)
    assert math.copysign(1, number) == -1
