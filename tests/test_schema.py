"""Compiled JSON Schemas: what is refused when built, and how a value that does not fit is put into words."""

from __future__ import annotations

import json
import sys
import types
from typing import Any, cast

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_tools._explanation import MASK, explain
from trio_tools._json import freeze
from trio_tools._schema import Schema, SchemaError
from trio_tools._violations import show

PERSON: dict[str, object] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "role": {"enum": ["admin", "guest"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "home": {"$ref": "#/$defs/home"},
        "id": {"type": ["string", "integer"]},
    },
    "required": ["name", "age", "role", "id"],
    "additionalProperties": False,
    "$defs": {
        "home": {
            "type": "object",
            "properties": {"street": {"type": "string"}},
            "required": ["street"],
            "additionalProperties": False,
        }
    },
}
ADA = {"name": "Ada", "age": 36, "role": "admin", "id": 1}


def violations(schema: dict[str, Any] | bool, value: object) -> list[str]:
    return Schema(schema).violations(freeze(value))


def test_a_value_that_fits_has_no_violations() -> None:
    schema = Schema(PERSON)
    value = freeze({**ADA, "tags": ["x"], "home": {"street": "s"}})
    assert schema.is_valid(value)
    assert schema.violations(value) == []


def test_every_violation_is_listed_with_its_path_and_what_was_expected() -> None:
    value = {"age": "36", "role": "root", "tags": ["ok", 3, None], "home": {"stret": 1}, "id": 1, "nam": ""}
    assert sorted(violations(PERSON, value)) == [
        '$.age: "36" is not of type "integer"',
        '$.home: "street" is required (string)',
        '$.home: unknown key "stret" (did you mean "street"?)',
        '$.role: "root" is not one of "admin" or "guest"',
        '$.tags[1]: 3 is not of type "string"',
        '$.tags[2]: null is not of type "string"',
        '$: "name" is required (string)',
        '$: unknown key "nam" (did you mean "name"?)',
    ]


def test_a_missing_key_is_named_with_what_it_should_hold_where_that_is_short() -> None:
    assert violations(PERSON, {}) == [
        '$: "name" is required (string)',
        '$: "age" is required (integer)',
        '$: "role" is required ("admin" or "guest")',
        '$: "id" is required (string or integer)',
    ]
    assert violations({"required": ["a"]}, {}) == ['$: "a" is required']


def test_an_unknown_key_that_is_near_none_is_named_without_a_suggestion() -> None:
    assert violations(PERSON, {**ADA, "zzz": 1}) == ['$: unknown key "zzz"']
    assert violations({"unevaluatedProperties": False, "properties": {"ab": {}}}, {"abc": 1}) == [
        '$: unknown key "abc" (did you mean "ab"?)'
    ]


def test_an_unknown_key_may_have_several_near_ones() -> None:
    schema: dict[str, Any] = {"properties": {"shoes": {}, "shoot": {}}, "additionalProperties": False}
    assert violations(schema, {"shoe": 1}) == ['$: unknown key "shoe" (did you mean "shoes" or "shoot"?)']


def test_a_name_in_other_case_is_near_however_many_there_are() -> None:
    schema: dict[str, Any] = {"properties": {"file_path": {}, "y": {}}, "additionalProperties": False}
    assert violations(schema, {"FILE_PATH": 1, "Y": 2, "File_Pth": 3}) == [
        '$: unknown key "FILE_PATH" (did you mean "file_path"?)',
        '$: unknown key "Y" (did you mean "y"?)',
        '$: unknown key "File_Pth" (did you mean "file_path"?)',
    ]
    many: dict[str, Any] = {
        "properties": {f"name_of_{number}_x": {} for number in range(2_000)},
        "additionalProperties": False,
    }
    told = violations(many, {f"name_of_{number}_xx": 1 for number in range(200)} | {"NAME_OF_7_X": 1, "z" * 500: 1})
    assert told[0] == '$: unknown key "name_of_0_xx" (did you mean "name_of_0_x", "name_of_90_x" or "name_of_80_x"?)'
    assert '$: unknown key "name_of_100_xx"' in told
    assert '$: unknown key "NAME_OF_7_X" (did you mean "name_of_7_x"?)' in told


def test_what_is_compared_to_find_near_names_is_bounded() -> None:
    compared = 0

    def profile(frame: types.FrameType, event: str, _: object) -> None:
        nonlocal compared
        compared += event == "call" and frame.f_code.co_name == "real_quick_ratio"

    properties: dict[str, Any] = {f"name_{number}": {} for number in range(2_000)}
    schema = Schema({"properties": properties, "additionalProperties": False})
    value = freeze({f"name_{number}x": 1 for number in range(50_000)})
    sys.setprofile(profile)
    try:
        told = schema.violations(value)
    finally:
        sys.setprofile(None)
    assert len(told) == 257
    assert "(did you mean" in told[0]
    assert 100 <= compared <= 5_000


def test_a_key_that_is_no_name_is_quoted_in_the_path() -> None:
    schema = {"additionalProperties": {"items": {"type": "string"}}}
    assert violations(schema, {"two words": [1]}) == ['$["two words"][0]: 1 is not of type "string"']


UNIONS: dict[str, tuple[dict[str, Any], object, list[str]]] = {
    "of scalars": (
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        5,
        ["$: expected string or null, got 5"],
    ),
    "of fixed values": (
        {"anyOf": [{"enum": ["a", "b"]}, {"const": 7}, False]},
        "c",
        ['$: expected "a" or "b", 7 or nothing, got "c"'],
    ),
    "one form was meant": (
        {"oneOf": [{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["m"]}, {"type": "null"}]},
        {"n": "x"},
        ['$.n: "x" is not of type "integer"', '$: "m" is required'],
    ),
    "several forms were meant": (
        {
            "anyOf": [
                {"required": ["a"]},
                {"required": ["b", "c"]},
                {"properties": {"x": {"type": "null"}}, "required": ["d"]},
            ]
        },
        {"x": 1},
        [
            (
                '$: {"x": 1} fits none of 3 allowed forms: (1) "a" is required; (2) "b" is required and "c" is'
                ' required; (3) "d" is required and $.x: 1 is not of type "null"'
            )
        ],
    ),
    "one form has all its keys": (
        {"oneOf": [{"required": ["a"]}, {"properties": {"x": {"type": "null"}}, "required": ["x"]}]},
        {"x": 1},
        ['$.x: 1 is not of type "null"'],
    ),
    "in one of several forms": (
        {"anyOf": [{"required": ["a"], "properties": {"x": {"anyOf": [{"const": 1}]}}}, {"required": ["b"]}]},
        {"x": 2},
        [
            (
                '$: {"x": 2} fits none of 2 allowed forms: (1) "a" is required and $.x: 2 fits no allowed form;'
                ' (2) "b" is required'
            )
        ],
    ),
    "of a key": (
        {"propertyNames": {"anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]}},
        {"c": 2},
        ['$: key "c" fits none of 2 allowed forms: (1) "c" does not match "^a"; (2) "c" does not match "^b"'],
    ),
    "with keys that belong to the whole": (
        {"unevaluatedProperties": False, "anyOf": [{"properties": {"a": True}, "required": ["a"]}], "required": ["b"]},
        {"a": 1},
        ['$: "b" is required'],
    ),
    "behind a key that needs quoting in a pointer": (
        {
            "properties": {
                "a/b~c d%": {"anyOf": [{"required": ["x"]}, {"type": "null"}]},
                "anyOf": {"enum": [{"anyOf": [1]}]},
            }
        },
        {"a/b~c d%": {}},
        ['$["a/b~c d%"]: "x" is required'],
    ),
    "of an old draft": (
        {"$schema": "http://json-schema.org/draft-04/schema#", "anyOf": [{"required": ["x"]}, {"type": "null"}]},
        {},
        ['$: "x" is required'],
    ),
    "with a reference into a form": (
        {
            "anyOf": [{"properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"type": "null"}],
            "properties": {"m": {"$ref": "#/anyOf/0/properties/n"}},
        },
        {"n": 1, "m": "x"},
        ['$.m: "x" is not of type "integer"'],
    ),
    "with a reference into a form, explained as it comes": (
        {
            "anyOf": [{"properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"type": "null"}],
            "properties": {"m": {"$ref": "#/anyOf/0/properties/n"}},
        },
        {"n": "x"},
        ['$.n: "x" is not of type "integer"'],
    ),
    "of more than anyone reads": (
        {"anyOf": [{"const": number} for number in range(30)]},
        -1,
        ["$: expected " + ", ".join(map(str, range(20))) + " or 10 more, got -1"],
    ),
    "inside a form": (
        {"anyOf": [{"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, {"type": "null"}]},
        [1],
        ["$[0]: expected string or null, got 1"],
    ),
}


@pytest.mark.parametrize(("schema", "value", "expected"), UNIONS.values(), ids=UNIONS)
def test_a_union_that_nothing_fits_is_summed_up(schema: dict[str, Any], value: object, expected: list[str]) -> None:
    assert sorted(violations(schema, value)) == sorted(expected)


OTHERS: dict[str, tuple[dict[str, Any] | bool, object, str]] = {
    "false": (False, 3, "$: 3 is not allowed here"),
    "false inside": ({"properties": {"a": False}}, {"a": 1}, "$.a: 1 is not allowed here"),
    "key": ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, '$: key "b" does not match "^a"'),
    "minimum": ({"minimum": 3}, 1, "$: 1 is less than the minimum of 3"),
    "length": ({"minLength": 5}, "abc", '$: "abc" is shorter than 5 characters'),
    "unique": ({"uniqueItems": True}, [1, 1], "$: [1, 1] has non-unique elements"),
    "dependent": ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, '$: "b" is required'),
    "two of one": (
        {"oneOf": [{"type": "integer"}, {"minimum": 2}]},
        3,
        "$: 3 is valid under more than one of the schemas listed in the 'oneOf' keyword",
    ),
}


@pytest.mark.parametrize(("schema", "value", "expected"), OTHERS.values(), ids=OTHERS)
def test_every_other_keyword_is_named_in_words(schema: dict[str, Any] | bool, value: object, expected: str) -> None:
    assert violations(schema, value) == [expected]


def test_what_is_shown_of_a_value_is_bounded() -> None:
    long = {"a": "x" * 100_000, "b": ["y"] * 100_000, "c": {"key" * 10_000: 1}}
    schema = {"properties": {key: {"type": "integer"} for key in long}}
    told = violations(schema, long)
    assert len(told) == 3
    assert all(len(line) < 200 for line in told)
    assert [line.partition(":")[0] for line in told] == ["$.a", "$.b", "$.c"]


def test_after_many_violations_the_rest_is_only_counted() -> None:
    told = violations({"items": {"type": "string"}}, [1] * 1000)
    assert len(told) == 257
    assert told[0] == '$[0]: 1 is not of type "string"'
    assert told[-1] == "and 744 more"
    assert violations({"items": {"type": "string"}}, [1] * 5000)[-1] == "and 4744 more"


def test_values_that_have_no_short_json_are_shown_by_their_type() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert show(object()) == "a value of type object"
    assert show(10**5000) == "a value of type int"
    assert show(loop) == "a value of type list"


@pytest.mark.parametrize("schema", [{}, True])
def test_an_open_schema_takes_anything(schema: dict[str, object] | bool) -> None:
    for value in (None, 1, "x", freeze([1]), freeze({"a": 1})):
        assert Schema(schema).violations(value) == []


def test_an_open_object_schema_takes_objects_only() -> None:
    assert violations({"type": "object"}, {"any": [1]}) == []
    assert violations({"type": "object"}, [1]) == ['$: [1] is not of type "object"']


def test_a_schema_may_be_frozen_and_is_kept_apart_from_what_was_given() -> None:
    given_schema: dict[str, Any] = {"type": "object", "required": ["a"]}
    schema = Schema(given_schema)
    again = Schema(cast("Any", schema.source))
    given_schema["required"].append("b")
    assert schema.violations(freeze({"a": 1})) == again.violations(freeze({"a": 1})) == []
    assert repr(again) == "Schema({'type': 'object', 'required': ('a',)})"


def test_older_drafts_mean_what_they_meant() -> None:
    tuples = {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]}
    assert violations(tuples, [1]) == ['$[0]: 1 is not of type "string"']
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": True}
    assert len(violations(old, 1)) == 1
    assert violations({"prefixItems": [{"type": "string"}]}, [1]) == ['$[0]: 1 is not of type "string"']


def test_numbers_are_not_coerced_and_a_whole_float_is_an_integer() -> None:
    integer = Schema({"type": "integer"})
    assert integer.violations(5.0) == []
    assert integer.violations(True) == ['$: true is not of type "integer"']
    assert integer.violations("5") == ['$: "5" is not of type "integer"']
    assert integer.violations(10**30) == []


DEFS = 'put what it names into "$defs" and write "#/$defs/<name>"'
BAD_SCHEMAS: dict[str, tuple[Any, list[str]]] = {
    "no such type": ({"type": "strin"}, ["$.type:", '"strin"', '"string"']),
    "two faults": (
        {"properties": {"a": {"type": 3}, "two words": {"minimum": "x"}}},
        ["$.properties.a.type:", '$.properties["two words"].minimum: "x" is not of type "number"'],
    ),
    "no schema at all": ([1], ["a JSON Schema is an object, such as {}, not a list"]),
    "not JSON": ({"enum": {1}}, ["$.enum", "is not JSON"]),
    "a fault of an older draft": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "x"},
        ["$.type:"],
    ),
    "a key that an older draft misses": (
        {"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMaximum": True},
        ['$: "maximum" is required'],
    ),
    "a fault that several parts of the draft find": (
        {"properties": {"a": {"items": [1]}}},
        ['$.properties.a.items: [1] is not of types "boolean", "object"'],
    ),
    "unknown draft": (
        {"$schema": "http://x.invalid/z"},
        ['$["$schema"]', "http://x.invalid/z", "2020-12", "leave it out"],
    ),
    "draft is no text": ({"$schema": 3}, ["3", "2020-12"]),
    "leads nowhere": (
        {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/no"}], "$defs": {"a": {}}},
        ['$.allOf[1]["$ref"]: "#/$defs/no" leads nowhere in the schema: define it in "$defs"'],
    ),
    "http": (
        {"properties": {"a": {"$ref": "http://127.0.0.1:1/x.json"}}},
        ['$.properties.a["$ref"]: "http://127.0.0.1:1/x.json" is outside', DEFS],
    ),
    "file": ({"items": {"$ref": "file:///etc/hostname"}}, ['$.items["$ref"]', DEFS]),
    "relative": ({"$ref": "other.json"}, ['$["$ref"]', DEFS]),
    "malformed reference": ({"$ref": "#/%zz"}, ["$:", "%zz"]),
    "no pattern": ({"pattern": "(a"}, ['$.pattern: "(a" is no regular expression']),
    "no pattern of a key": ({"patternProperties": {"(": {}}}, ['$.patternProperties["("]', "no regular expression"]),
    "pattern that grows": ({"pattern": "a{1000}{1000}{100}"}, ["$.pattern", "too large"]),
}


@pytest.mark.parametrize(("schema", "told"), BAD_SCHEMAS.values(), ids=BAD_SCHEMAS)
def test_a_bad_schema_is_refused_when_it_is_built_with_the_place_of_the_fault(schema: Any, told: list[str]) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema(schema)
    message = str(caught.value)
    assert [part for part in told if part not in message] == []
    assert len(set(message.split("; "))) == len(message.split("; "))


def test_a_reference_to_a_published_draft_is_known_without_fetching_it() -> None:
    schema = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    assert violations(schema, {"type": "object"}) == []
    assert violations(schema, {"required": [1]}) == ['$.required[0]: 1 is not of type "string"']


def test_a_violation_behind_a_reference_to_another_resource_has_no_suggestion_and_no_accident() -> None:
    schema: dict[str, Any] = {
        "$id": "https://x.invalid/a",
        "$ref": "b",
        "$defs": {"b": {"$id": "b", "properties": {"shoes": {}}, "additionalProperties": False}},
    }
    assert violations(schema, {"shoe": 1})[0].startswith('$: unknown key "shoe"')


def test_a_violation_of_a_schema_that_is_elsewhere_has_no_hint_and_no_accident() -> None:
    schema = {"properties": {"a": {"required": ["b"], "properties": {"b": {"type": "string"}}}}}
    errors = list(jsonschema_rs.validator_for(schema, mask=MASK).iter_errors({"a": {}}))
    assert list(map(str, explain(errors, schema))) == ['$.a: "b" is required (string)']
    assert list(map(str, explain(errors, {}))) == ['$.a: "b" is required']


def test_an_error_beyond_those_that_are_listed_is_counted_and_not_explained() -> None:
    empty: dict[str, object] = {}
    told = violations({"items": {"anyOf": [{"required": ["a"]}, {"type": "null"}]}}, [empty] * 300)
    assert told[255:] == ['$[255]: "a" is required', "and 44 more"]


def test_patterns_with_look_around_are_matched_with_a_bound() -> None:
    assert violations({"pattern": "^(?!a)b"}, "b") == []
    assert violations({"pattern": "^(?!a)b"}, "ab") == ['$: "ab" does not match "^(?!a)b"']
    assert len(violations({"pattern": r"^(?=(a+)+$)(a|aa)+\1b$"}, "a" * 5000)) == 1


def test_a_pattern_that_would_backtrack_forever_is_matched_in_linear_time() -> None:
    assert len(violations({"pattern": "^(a+)+$"}, "a" * 50_000 + "b")) == 1


def test_deep_values_and_recursive_schemas_do_not_overflow() -> None:
    value: object = 1
    for _ in range(120):
        value = {"next": value}
    schema = {"properties": {"next": {"$ref": "#"}}, "type": ["object", "string"]}
    told = violations(schema, value)
    assert len(told) == 1
    assert told[0].startswith("$.next.next")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"items": inner, "type": TYPES}),
        st.fixed_dictionaries(
            {"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2)},
            optional={
                "required": st.just(["a", "b"]),
                "additionalProperties": st.booleans() | inner,
                "propertyNames": st.just({"pattern": "[ab]"}),
            },
        ),
    )


SCHEMAS = st.recursive(
    st.booleans()
    | st.fixed_dictionaries({"type": TYPES})
    | st.fixed_dictionaries({"enum": st.lists(JSON, min_size=1)}),
    larger,
    max_leaves=6,
)


@given(SCHEMAS, JSON)
def test_there_are_violations_exactly_if_an_independent_validator_refuses_the_value(schema: Any, value: Any) -> None:
    told = violations(schema, value)
    assert (told == []) is jsonschema_rs.is_valid(schema, json.loads(json.dumps(value)))
    assert all(line.startswith("$") and len(line) < 3000 for line in told)
