"""freeze, thaw and the frozen dict: what is JSON, what is not, and what can be done with it."""

from __future__ import annotations

import collections
import copy
import enum
import json
import math
import pickle
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_tools._json import FrozenDict, FrozenJson, NotJsonError, freeze, thaw

SAMPLE: dict[str, Any] = {"items": [{"name": "a", "tags": ["x", "y"]}, {}, []], "n": 1, "f": 1.5, "t": True, "z": None}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)


def frozen_object(value: object) -> FrozenDict:
    frozen = freeze(value)
    assert isinstance(frozen, FrozenDict)
    return frozen


def refusal(value: object) -> str:
    with pytest.raises(NotJsonError) as caught:
        freeze(value)
    assert str(caught.value).startswith(caught.value.path[:100])
    str(caught.value).encode()
    return str(caught.value)


def nested(depth: int, wrap: Callable[[Any], object], core: object = 1) -> Any:
    for _ in range(depth):
        core = wrap(core)
    return core


def as_list(core: object) -> list[object]:
    return [core]


def as_tuple(core: object) -> tuple[object, ...]:
    return (core,)


def as_dict(core: object) -> dict[str, object]:
    return {"k": core}


def as_named_tuple(core: object) -> Point:
    return Point(core, 0)


def as_proxy(core: object) -> Mapping[str, object]:
    return types.MappingProxyType({"k": core})


# ---- round trips


@given(json_values)
def test_thaw_undoes_freeze(value: object) -> None:
    thawed = thaw(freeze(value))
    assert thawed == value
    assert json.dumps(thawed) == json.dumps(value), "types, signs and order are kept too"


@given(json_values)
def test_a_frozen_value_survives_json_text(value: object) -> None:
    assert json.loads(json.dumps(freeze(value))) == value


@given(json_values)
def test_a_frozen_value_survives_pickle_and_msgspec_and_keeps_its_hash(value: object) -> None:
    frozen = freeze(value)
    again = pickle.loads(pickle.dumps(frozen))
    assert again == frozen
    assert type(again) is type(frozen)
    assert hash(again) == hash(frozen)
    assert msgspec.json.encode(frozen) == msgspec.json.encode(value)


def test_numbers_keep_value_sign_and_type() -> None:
    big = 10**5000
    frozen = cast("tuple[Any, ...]", freeze([-0.0, 1.0, 1, True, big, 5e-324, 1.7976931348623157e308]))
    assert [type(number) for number in frozen] == [float, float, int, bool, int, float, float]
    assert math.copysign(1, frozen[0]) == -1
    assert frozen[4] == big


def test_text_beyond_ascii_is_accepted_in_values_and_keys() -> None:
    value = {"größe": "\U0001f600", "\u2028": ["\x00", "é"]}
    assert thaw(freeze(value)) == value


# ---- the frozen form


def test_objects_become_frozen_dicts_and_arrays_tuples() -> None:
    frozen = frozen_object(SAMPLE)
    assert isinstance(frozen, dict)
    assert isinstance(frozen, Mapping)
    items = cast("tuple[Any, ...]", frozen["items"])
    assert type(items) is tuple
    assert [type(item) for item in items] == [FrozenDict, FrozenDict, tuple]


def test_a_frozen_dict_equals_a_plain_dict_of_equal_values() -> None:
    assert freeze({"a": [1]}) == {"a": (1,)}
    plain: object = {"a": (1,)}
    assert plain == freeze({"a": [1]})
    assert freeze({"a": [1]}) != {"a": (2,)}


def test_validators_and_patterns_take_a_frozen_value() -> None:
    validator = jsonschema_rs.Draft202012Validator(
        {"type": "object", "properties": {"to": {"type": "array", "items": {"type": "integer"}}}}
    )
    assert validator.is_valid(freeze({"to": [3, 4]}))
    assert not validator.is_valid(freeze({"to": [3, "4"]}))
    match freeze({"op": "move", "to": [3, 4]}):
        case {"op": "move", "to": [x, y]}:
            assert (x, y) == (3, 4)
        case other:
            pytest.fail(f"no match for {other!r}")


MUTATIONS: dict[str, Callable[[Any], object]] = {
    "set an item": lambda d: d.__setitem__("n", 2),
    "delete": lambda d: d.__delitem__("n"),
    "update": lambda d: d.update({"n": 2}),
    "update by keyword": lambda d: d.update(n=2),
    "pop": lambda d: d.pop("n"),
    "pop with a default": lambda d: d.pop("absent", None),
    "popitem": lambda d: d.popitem(),
    "clear": lambda d: d.clear(),
    "setdefault on a present key": lambda d: d.setdefault("n", 5),
    "setdefault on an absent key": lambda d: d.setdefault("new", 5),
    "in-place union": lambda d: d.__ior__({"n": 2}),
}


@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_every_mutating_method_is_refused_and_names_thaw(mutate: Callable[[object], object]) -> None:
    frozen = frozen_object({"n": 1})
    with pytest.raises(TypeError, match="thaw"):
        mutate(frozen)
    assert frozen == {"n": 1}


def test_the_initializer_cannot_be_used_to_change_a_frozen_dict() -> None:
    frozen = frozen_object({"n": 1})
    with pytest.raises(TypeError):
        FrozenDict.__init__(frozen, {"n": 2})
    assert frozen == {"n": 1}


def test_a_frozen_dict_has_no_attributes_to_set() -> None:
    with pytest.raises(AttributeError):
        cast(Any, frozen_object({})).note = 1


def test_only_freeze_makes_a_frozen_dict() -> None:
    with pytest.raises(TypeError, match="freeze"):
        FrozenDict({"n": math.nan})
    with pytest.raises(TypeError, match="freeze"):
        FrozenDict.fromkeys(["n"], None)
    with pytest.raises(TypeError, match="final"):
        types.new_class("Mine", (FrozenDict,))


def test_equal_frozen_values_have_equal_hashes_whatever_their_order() -> None:
    one = frozen_object({"a": 1, "b": [{"c": None}]})
    other = frozen_object({"b": [{"c": None}], "a": 1.0})
    assert one == other
    assert hash(one) == hash(other)
    assert len({one, other, frozen_object({"a": 2, "b": []})}) == 2


def test_a_copy_of_a_frozen_dict_is_itself() -> None:
    frozen = frozen_object(SAMPLE)
    assert copy.copy(frozen) is frozen
    assert copy.deepcopy(frozen) is frozen
    assert copy.deepcopy([frozen])[0] is frozen


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_the_deepest_frozen_value_can_be_pickled(protocol: int) -> None:
    deepest = freeze(nested(64, lambda core: {"k": [core]}))
    again = pickle.loads(pickle.dumps(deepest, protocol))
    assert again == deepest
    assert type(again) is FrozenDict


def test_what_a_pickle_holds_is_checked_when_it_is_read() -> None:
    rebuild, _ = frozen_object({"n": 1}).__reduce__()
    with pytest.raises(NotJsonError):
        rebuild({"n": math.nan})


def test_union_and_copy_give_a_plain_dict_and_leave_the_frozen_one() -> None:
    frozen = frozen_object({"a": 1, "b": [2]})
    plain: dict[str, object] = {"a": 0, "c": 3}
    merged, reflected, copied = frozen | plain, plain | frozen, frozen.copy()
    assert [type(made) for made in (merged, reflected, copied)] == [dict, dict, dict]
    assert (merged, reflected, copied) == ({"a": 0, "b": (2,), "c": 3}, {"a": 1, "b": (2,), "c": 3}, frozen)


def test_a_frozen_dict_comes_back_as_itself_alone_and_as_a_part() -> None:
    frozen = frozen_object(SAMPLE)
    assert freeze(frozen) is frozen
    assert cast("tuple[Any, ...]", freeze([frozen]))[0] is frozen
    assert frozen_object({"echo": {"k": frozen}}) == {"echo": {"k": frozen}}


def test_what_happens_to_the_original_does_not_reach_the_frozen_copy() -> None:
    original: dict[str, Any] = {"list": [1, {"k": "v"}], "dict": {"a": 1}}
    frozen = freeze(original)
    original["list"][1]["k"] = "changed"
    original["list"].append(2)
    original["dict"].clear()
    assert frozen == {"list": (1, {"k": "v"}), "dict": {"a": 1}}


def test_an_annotation_with_the_alias_can_be_read_in_a_module_that_imports_nothing_else() -> None:
    def body(value: object) -> None: ...

    body.__annotations__ = {"value": FrozenJson}
    hints = typing.get_type_hints(body, globalns={})
    assert {str, int, float, bool, type(None)} < set(typing.get_args(hints["value"]))


# ---- thaw


def test_thaw_gives_plain_dicts_and_lists_that_can_be_changed() -> None:
    frozen = freeze(SAMPLE)
    thawed = thaw(frozen)
    assert [type(thawed), type(thawed["items"]), type(thawed["items"][0])] == [dict, list, dict]
    thawed["items"][0]["tags"].append("z")
    assert frozen == freeze(SAMPLE)


def test_thaw_of_a_value_that_was_not_frozen_shares_nothing_with_it_and_checks_it() -> None:
    plain: dict[str, Any] = {"a": [1]}
    thawed = thaw(plain)
    thawed["a"].append(2)
    assert plain == {"a": [1]}
    with pytest.raises(NotJsonError):
        thaw({"a": math.inf})


# ---- subclasses


class Colour(enum.IntEnum):
    RED = 1


class Word(str):
    """Two of them that store the same text are different keys."""

    __slots__ = ()

    def __str__(self) -> str:
        return "changed"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def encode(self, encoding: str = "", errors: str = "") -> bytes:
        return b"changed"


class Count(int):
    def __int__(self) -> int:
        return 99

    __index__ = __int__


class Ratio(float):
    def __float__(self) -> float:
        return 99.0


class Row(list[object]):
    def __iter__(self) -> Iterator[object]:
        return iter(["changed"])

    def copy(self) -> list[object]:
        return ["changed"]


class Pair(typing.NamedTuple):
    x: object
    y: object


class Point(Pair):
    def __iter__(self) -> Iterator[object]:
        return iter(["changed"])


class Record(dict[str, object]):
    def items(self) -> Any:
        return [("changed", 1)]

    keys = __iter__ = items


SUBCLASSED: list[tuple[object, object]] = [
    (Word("w"), "w"),
    (Colour.RED, 1),
    (Count(7), 7),
    (Ratio(0.5), 0.5),
    (Row([1, [2]]), (1, (2,))),
    (Point(1, 2), (1, 2)),
    (Record(a=1), {"a": 1}),
    (collections.Counter("aab"), {"a": 2, "b": 1}),
]


@pytest.mark.parametrize(("value", "plain"), SUBCLASSED, ids=[type(value).__name__ for value, _ in SUBCLASSED])
def test_a_subclass_is_copied_to_its_plain_type_by_what_it_stores(value: object, plain: object) -> None:
    frozen = freeze(value)
    assert frozen == plain
    assert type(frozen) is (FrozenDict if isinstance(plain, dict) else type(plain))
    assert freeze({"in": [value]}) == {"in": (plain,)}


def test_a_key_of_a_str_subclass_becomes_a_plain_str() -> None:
    (key,) = frozen_object({Word("k"): 1})
    assert type(key) is str
    assert key == "k"


def test_an_ordered_dict_keeps_the_order_that_it_shows() -> None:
    ordered: collections.OrderedDict[str, int] = collections.OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    assert list(frozen_object(ordered)) == ["b", "a"]


def test_a_subclass_is_held_against_the_same_rules() -> None:
    assert refusal([Ratio("nan")]) == "$[0]: nan is not JSON"
    assert refusal({"s": Word("a\udc80")}).startswith("$.s: 'a\\udc80' is not JSON")
    assert refusal({"s": {Word("\udc80"): 1}}).startswith("$.s: the key '\\udc80' is not JSON")
    assert refusal([Row([0, b"x"])]) == "$[0][1]: b'x' is not JSON"
    assert refusal([Point(0, b"x")]) == "$[0][1]: b'x' is not JSON"
    assert refusal([Record(a=b"x")]) == "$[0].a: b'x' is not JSON"


def test_two_keys_that_store_the_same_text_are_refused() -> None:
    assert refusal({"o": {Word("k"): 1, Word("k"): 2}}) == "$.o: a second key 'k' is not JSON"
    assert refusal({"o": {Word("k"): 1, "k": 2}}) == "$.o: a second key 'k' is not JSON"


# ---- other mappings


class Hostile(Mapping[Any, Any]):
    """A mapping that answers with what it is given, and counts how often it is read."""

    def __init__(self, answer: Callable[[], object]) -> None:
        self.answer = answer
        self.reads = 0

    def __getitem__(self, key: object) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __len__(self) -> int:
        return 1

    def items(self) -> Any:
        self.reads += 1
        return self.answer()


def test_a_mapping_that_is_no_dict_is_accepted() -> None:
    value = {"proxy": types.MappingProxyType({"a": [1]}), "chain": collections.ChainMap({"a": 1}, {"b": 2})}
    assert freeze(value) == {"proxy": {"a": (1,)}, "chain": {"b": 2, "a": 1}}


def test_a_mapping_that_raises_is_refused_with_its_path_and_without_its_message() -> None:
    def fail() -> object:
        raise LookupError("secret")

    assert refusal({"a": [Hostile(fail)]}) == "$.a[0]: a Hostile object is not JSON (reading it raised LookupError)"
    assert refusal(Hostile(lambda: [1])) == "$: a Hostile object is not JSON (reading it raised TypeError)"
    assert refusal(Hostile(lambda: [("k", 1, 2)])) == "$: a Hostile object is not JSON (reading it raised ValueError)"


def test_an_interrupt_while_a_mapping_is_read_stays_an_interrupt() -> None:
    def interrupt() -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        freeze([Hostile(interrupt)])


def test_every_mapping_is_read_once_however_odd_the_keys_around_it() -> None:
    core = Hostile(lambda: [("k", 1)])
    value: object = core
    for _ in range(20):
        value = {"a": value, Word("b"): None}
    freeze(value)
    assert core.reads == 1


def test_containers_that_change_while_they_are_read_are_frozen_as_they_were() -> None:
    row: list[object] = []
    record: dict[str, object] = {}

    def grow() -> object:
        row.append(2)
        record[f"new {len(record)}"] = 2
        return [("k", 1)]

    record["a"] = Hostile(grow)
    assert freeze(record) == {"a": {"k": 1}}
    row[:] = [Hostile(grow)]
    assert freeze(row) == ({"k": 1},)


# ---- refusals


def test_the_refusal_names_path_and_value() -> None:
    value = {"items": [{"price": 1}, {"price": 2}, {"price": 3}, {"price": math.nan}]}
    with pytest.raises(NotJsonError) as caught:
        freeze(value)
    assert str(caught.value) == "$.items[3].price: nan is not JSON"
    assert isinstance(caught.value, ValueError)
    assert (caught.value.path, caught.value.offender, caught.value.hint) == ("$.items[3].price", "nan", "")
    assert caught.value.__context__ is None


def test_a_refusal_can_be_pickled() -> None:
    with pytest.raises(NotJsonError) as caught:
        freeze({"a": {1: 2}})
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) == "$.a: the key 1 is not JSON (a key is a str)"
    assert again.path == "$.a"


OFFENDERS: dict[str, tuple[object, str]] = {
    "infinity": (-math.inf, "-inf is not JSON"),
    "bytes": (b"x", "b'x' is not JSON"),
    "bytearray": (bytearray(b"x"), "bytearray(b'x') is not JSON"),
    "set": ({1}, "{1} is not JSON"),
    "class": (dict, "<class 'dict'> is not JSON"),
    "function": (refusal, "a function object is not JSON"),
    "object": (object(), "an object object is not JSON"),
    "complex": (1j, "1j is not JSON"),
    "range": (range(3), "range(0, 3) is not JSON"),
    "deque": (collections.deque([1]), "deque([1]) is not JSON"),
    "lone surrogate": ("a\ud800", "'a\\ud800' is not JSON (character 1 is half of a surrogate pair)"),
    "whole pair as two characters": (
        "\ud83d\ude00",
        "'\\ud83d\\ude00' is not JSON (character 0 is half of a surrogate pair)",
    ),
    "plain enum": (enum.Enum("Side", "LEFT").LEFT, "<Side.LEFT: 1> is not JSON"),
}


@pytest.mark.parametrize(("offender", "words"), OFFENDERS.values(), ids=OFFENDERS)
def test_anything_else_is_refused_with_its_path(offender: object, words: str) -> None:
    assert refusal(offender) == f"$: {words}"
    assert refusal({"a": [0, {"b": offender}]}) == f"$.a[1].b: {words}"
    assert refusal(as_named_tuple(offender)) == f"$[0]: {words}"
    assert refusal(as_proxy(offender)) == f"$.k: {words}"


@pytest.mark.parametrize("key", [1, None, True, 1.5, ("a",), b"a", "\udc80"], ids=repr)
def test_a_key_that_is_no_well_formed_string_is_refused_by_the_path_of_its_mapping(key: object) -> None:
    assert refusal({"outer": {"fine": 1, key: 1}}).startswith(f"$.outer: the key {key!r} is not JSON (")


def test_keys_that_are_no_identifiers_are_quoted_in_the_path() -> None:
    value = {"größe in m": {'"': {"": {"größe": {"0": math.nan}}}}}
    assert refusal(value) == '$["größe in m"]["\\""][""].größe["0"]: nan is not JSON'


def test_of_two_offenders_the_first_in_document_order_is_named() -> None:
    assert refusal([0, math.nan, math.inf]).startswith("$[1]:")
    assert refusal({"a": {"x": b""}, "b": math.nan}).startswith("$.a.x:")
    assert refusal({"a": math.nan, 1: 2}).startswith("$.a:")
    assert refusal({1: 2, "a": math.nan}).startswith("$: the key 1")
    assert refusal([nested(200, as_list), math.nan]).startswith("$[0][0][0]")
    assert refusal([math.nan, nested(200, as_list)]).startswith("$[0]:")


class Printed:
    def __init__(self, text: Any) -> None:
        self.text = text

    def __repr__(self) -> str:
        if isinstance(self.text, Exception):
            raise self.text
        return self.text


def test_an_object_that_cannot_be_printed_is_named_by_its_class() -> None:
    assert refusal({"a": [Printed(RuntimeError("no"))]}) == "$.a[0]: a Printed object is not JSON"
    assert refusal([Printed(7)]) == "$[0]: a Printed object is not JSON"
    assert refusal([{Printed(RuntimeError("no"))}]) == "$[0]: a set object is not JSON"
    assert refusal({10**5000: 1}) == "$: the key an int object is not JSON (a key is a str)"


def test_a_repr_that_could_not_be_written_as_utf8_is_escaped() -> None:
    assert refusal([Printed("<\ud800>")]) == "$[0]: <\\ud800> is not JSON"
    assert refusal([Printed(Word("<fine>"))]) == "$[0]: <fine> is not JSON"


def test_of_a_large_offender_only_a_few_members_are_printed() -> None:
    printed: list[object] = []

    class Member:
        def __repr__(self) -> str:
            printed.append(self)
            return "<member>"

    refusal([{Member() for _ in range(1000)}])
    refusal([collections.deque([nested(4, lambda core: (core,) * 10, Member())])])
    assert 0 < len(printed) < 20


@pytest.mark.parametrize(
    "offender",
    [
        Printed("x" * 10**6),
        b"x" * 10**6,
        "x" * 10**6 + "\ud800",
        set(range(10**5)),
        {("x" * 1000, str(i) * 1000, "y" * 1000) for i in range(9)},
    ],
    ids=["repr", "bytes", "text", "set", "nested"],
)
def test_a_long_offender_is_shortened(offender: object) -> None:
    assert len(refusal([offender])) < 250


def test_a_long_path_is_shortened_in_the_message_only() -> None:
    key = "k" * 10_000
    with pytest.raises(NotJsonError) as caught:
        freeze({key: [math.nan]})
    assert caught.value.path == f"$.{key}[0]"
    assert len(str(caught.value)) < 600
    assert str(caught.value).endswith("kkk[0]: nan is not JSON")


class Spiteful(type):
    """Its classes cannot be hashed, equal every other class, and will not tell their names."""

    def __eq__(cls, other: object) -> bool:
        return True

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # the point

    @property
    def __name__(cls) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]  # the point
        raise RuntimeError("no name")


class Liar:
    """Claims to be of another class."""

    def __init__(self, claimed: type) -> None:
        self.claimed = claimed

    @property
    def __class__(self) -> Any:
        return self.claimed

    @__class__.setter
    def __class__(self, value: object) -> None:
        raise AttributeError


def test_a_class_that_lies_about_itself_is_refused_all_the_same() -> None:
    spiteful = Spiteful("Odd", (), {"__repr__": None})()
    assert refusal({"a": spiteful}) == "$.a: an Odd object is not JSON"
    assert refusal({"a": {spiteful: 1}}) == "$.a: the key an Odd object is not JSON (a key is a str)"
    for claimed in (dict, list, str, int, float, Mapping, FrozenDict):
        assert refusal([Liar(claimed)]) == "$[0]: a Liar object is not JSON"
    assert refusal({Liar(str): 1}) == "$: the key a Liar object is not JSON (a key is a str)"


# ---- depth and cycles


WRAPPERS: list[Callable[[object], object]] = [as_list, as_tuple, as_dict, as_named_tuple, as_proxy]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_depth_of_128_is_accepted_and_one_more_is_refused(wrap: Callable[[object], object]) -> None:
    deepest = freeze(nested(128, wrap))
    assert freeze(thaw(deepest)) == deepest
    assert hash(deepest) == hash(freeze(thaw(deepest)))
    assert json.loads(json.dumps(deepest)) == thaw(deepest)
    assert "(at most 128 may be inside one another)" in refusal(nested(129, wrap))


def test_the_path_of_what_is_too_deep_leads_to_the_container_that_is_one_too_many() -> None:
    with pytest.raises(NotJsonError) as caught:
        freeze({"deep": nested(500, as_list)})
    assert caught.value.path == "$.deep" + "[0]" * 127


def test_a_value_a_hundred_thousand_levels_deep_is_refused() -> None:
    assert "128" in refusal(nested(100_000, as_list))


def test_frozen_parts_count_with_their_own_depth() -> None:
    for part in (freeze(nested(100, as_dict)), freeze(nested(50, lambda core: {"k": [core]}))):
        whole: Any = freeze(nested(28, as_list, part))
        assert whole == nested(28, as_tuple, part)
        for _ in range(28):
            (whole,) = whole
        assert whole is part
        with pytest.raises(NotJsonError) as caught:
            freeze(nested(29, as_list, part))
        assert caught.value.path.startswith("$" + "[0]" * 29 + ".k")


def test_a_value_that_contains_itself_is_refused_where_it_recurs() -> None:
    loop: list[object] = [1]
    loop.append({"again": loop})
    assert refusal(loop) == "$[1].again: a list object is not JSON (it contains itself)"
    assert refusal({"outer": loop}) == "$.outer[1].again: a list object is not JSON (it contains itself)"
    ring: dict[str, object] = {}
    ring["self"] = ring
    assert refusal(ring) == "$.self: a dict object is not JSON (it contains itself)"
    assert refusal([ring, math.nan]).startswith("$[0].self:")


def test_a_long_way_round_is_recognized_as_long_as_it_is_no_deeper_than_allowed() -> None:
    loop: list[object] = []
    loop.append(nested(127, as_list, loop))
    assert refusal(loop).endswith("(it contains itself)")
    assert f"${'[0]' * 128}:" in refusal(loop)


def test_a_mapping_that_makes_its_parts_anew_without_end_is_refused_as_too_deep() -> None:
    def endless() -> object:
        return [("k", Hostile(endless))]

    assert refusal(Hostile(endless)).endswith("Hostile object is not JSON (at most 128 may be inside one another)")


def test_a_part_may_occur_more_than_once() -> None:
    shared = {"k": [1]}
    assert freeze({"a": shared, "b": [shared, shared]}) == {"a": {"k": (1,)}, "b": ({"k": (1,)}, {"k": (1,)})}
