"""Functions as tools: the schema of their parameters, arguments as typed values, results as JSON."""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import functools
import json
import pathlib
import pickle
import sys
import typing
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    Optional,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    cast,
)

import annotated_types
import attrs
import jsonschema
import jsonschema_rs
import msgspec
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from trio_tools._annotations import Reader
from trio_tools._classes import start_record
from trio_tools._json import FrozenJson, freeze
from trio_tools._namespaces import Namespace
from trio_tools._shapes import Problems
from trio_tools._signature import ArgumentsError, ReturnError, Signature, inspect_function

T = TypeVar("T")
U = TypeVar("U")


class Run(Protocol):
    """Stands for the run."""

    call_id: str


NO_RUN: Any = None


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Mixed(enum.Enum):
    TEXT = "a"
    NUMBER = 1
    NOTHING = None


class Flags(enum.IntFlag):
    READ = 1
    WRITE = 2


@attrs.frozen
class Place:
    city: str
    zip: int = attrs.field(default=0, validator=attrs.validators.ge(0))


@dataclasses.dataclass
class Box:
    """A box to put things in.

    Attributes:
        width: How wide it is.
    """

    width: int
    label: str | None = None


class Entry(TypedDict):
    key: str
    weight: typing_extensions.NotRequired[float]


class Loose(TypedDict, total=False):
    key: typing_extensions.Required[Annotated[str, "the key"]]
    other: typing_extensions.ReadOnly[int]


class Point(NamedTuple):
    """A point.

    Attributes:
        x: How far to the right.
    """

    x: float
    y: float = 0.0


Names = typing_extensions.TypeAliasType("Names", "list[str]")
OLD: Any = getattr(collections, "namedtuple")("Old", "a b")  # noqa: B009 - to a type checker it has no types


class Struct(msgspec.Struct, rename="camel"):
    first_name: str
    nick_name: str = ""
    extra: int | msgspec.UnsetType = msgspec.UNSET


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    name: str = "Rex"


@attrs.frozen
class Node:
    value: int
    children: list[Node] = attrs.field(factory=list["Node"])


@attrs.define
class Pair(Generic[T, U]):
    left: T
    right: list[U]


@attrs.define
class IntPair(Pair[int, T]):
    pass


class Generic2(TypedDict, Generic[T]):
    item: T


class OfText(Generic2[str]):
    more: int


@attrs.define
class Cleaned:
    text: str = attrs.field(converter=str.strip)
    _secret: int = 0
    length: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.length = len(self.text)


@dataclasses.dataclass
class Computed:
    base: int
    double: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.double = self.base * 2


class Undecorated(Place):
    """A subclass that attrs did not make: its own constructor counts."""

    def __init__(self, city: str) -> None:
        super().__init__(city.upper(), 7)


class Number(msgspec.Struct, tag=True):
    value: int


class Sum(msgspec.Struct, tag=True):
    left: Number | Sum | Product
    right: Number | Sum | Product


class Product(msgspec.Struct, tag=True):
    left: Number | Sum | Product
    right: Number | Sum | Product


@dataclasses.dataclass
class Leaf:
    value: int


@dataclasses.dataclass
class Plus:
    op: Literal["+"]
    left: Leaf | Plus | Times


@dataclasses.dataclass
class Times:
    op: Literal["*"]
    left: Leaf | Plus | Times


@dataclasses.dataclass
class One:
    left: Leaf | One | Other


@dataclasses.dataclass
class Other:
    left: Leaf | One | Other


class WithX(TypedDict):
    left: int | WithX | WithY


class WithY(TypedDict):
    left: int | WithX | WithY


Nest = typing_extensions.TypeAliasType("Nest", "list[Nest] | dict[str, Nest]")


class Picky(tuple[int, ...]):
    """A class that has no JSON form."""

    __slots__ = ()


def of(annotation: object, default: object = ..., /) -> Signature:
    """The signature of a function with one parameter ``x`` of that type, which it also returns."""
    if default is ...:

        def probe(x: object) -> object:
            return x
    else:

        def probe(x: object = default) -> object:
            return x

    probe.__annotations__.update({"x": annotation, "return": annotation})
    return inspect_function(probe, run_type=Run)


def properties(signature: Signature, which: str = "parameters", *, key: str = "properties") -> Any:
    return getattr(signature, which)[key]


def received(annotation: object, sent: object) -> Any:
    return of(annotation).bind(freeze({"x": sent}))["x"]


def refused(annotation: object, sent: object) -> list[str]:
    with pytest.raises(ArgumentsError) as caught:
        received(annotation, sent)
    assert str(caught.value) == "; ".join(caught.value.violations)
    return caught.value.violations


def shown(annotation: object, default: object = ..., /) -> Any:
    """The schema of a parameter with that annotation."""
    return json.loads(json.dumps(of(annotation, default).parameters))["properties"]["x"]


def not_a_tool(function: Callable[..., object], **options: Any) -> str:
    with pytest.raises(TypeError) as caught:
        inspect_function(function, run_type=Run, **options)
    return str(caught.value)


UTC = datetime.UTC
SOME_ID = uuid.UUID(int=7)
BOTH_WAYS: dict[str, tuple[Any, object, object]] = {
    "None": (None, None, None),
    "bool": (bool, True, True),
    "int": (int, 3, 3),
    "huge int": (int, 10**40, 10**40),
    "float": (float, 1.5, 1.5),
    "float from an int": (float, 2, 2.0),
    "str": (str, "x", "x"),
    "Optional": (Optional[int], None, None),  # noqa: UP045 - this spelling too
    "union": (int | str, "5", "5"),
    "union of numbers, int": (float | int, 5, 5),
    "union of numbers, float": (int | float, 5.5, 5.5),
    "union of classes": (Place | Box, {"width": 1, "label": None}, Box(1)),
    "union of text and enum": (Level | str, "low", Level.LOW),
    "union with a text that is none": (datetime.date | str, "soon", "soon"),
    "union of tagged structs": (Cat | Dog, {"type": "dog", "name": "Rex"}, Dog()),
    "union of typed dicts": (Entry | Loose, {"key": "k", "other": 1}, {"key": "k", "other": 1}),
    "Literal": (Literal["a", "b"], "b", "b"),
    "Literal of many kinds": (Literal["a", 1, True] | None, True, True),
    "Literal with None": (Literal["a", None], None, None),  # noqa: PYI061 - this spelling too
    "Literal of a member": (Literal[Level.LOW], "low", Level.LOW),
    "enum": (Level, "high", Level.HIGH),
    "enum of many kinds": (Mixed, None, Mixed.NOTHING),
    "enum of flags": (Flags, 2, Flags.WRITE),
    "list": (list[int], [1, 2], [1, 2]),
    "bare list": (list, [1, [2]], [1, [2]]),
    "Sequence": (collections.abc.Sequence[int], [1], [1]),
    "dict": (dict[str, int], {"k": 1}, {"k": 1}),
    "bare dict": (dict, {"k": [1]}, {"k": [1]}),
    "Mapping": (collections.abc.Mapping[str, Place], {"k": {"city": "R", "zip": 1}}, {"k": Place("R", 1)}),
    "dict of enum": (dict[Level, int], {"low": 1}, {Level.LOW: 1}),
    "dict of UUID": (dict[uuid.UUID, int], {str(SOME_ID): 1}, {SOME_ID: 1}),
    "fixed tuple": (tuple[int, str], [1, "a"], (1, "a")),
    "empty tuple": (tuple[()], [], ()),
    "tuple": (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
    "bare tuple": (tuple, [1, "a"], (1, "a")),
    "set": (set[int], [1, 2], {1, 2}),
    "set without an order": (frozenset[int | str], ["a", 1], frozenset([1, "a"])),
    "attrs": (Place, {"city": "R", "zip": 1}, Place("R", 1)),
    "attrs with a converter": (Cleaned, {"text": "ab", "secret": 1, "length": 2}, Cleaned("ab", 1)),
    "dataclass": (Box, {"width": 1, "label": "l"}, Box(1, "l")),
    "TypedDict": (Entry, {"key": "k"}, {"key": "k"}),
    "NamedTuple": (Point, [1.5, 2.0], Point(1.5, 2.0)),
    "namedtuple": (OLD, [1, [2]], (1, [2])),
    "struct": (Struct, {"firstName": "A", "nickName": "n"}, Struct("A", "n")),
    "tagged struct": (Cat, {"type": "Cat", "lives": 9}, Cat(9)),
    "recursive": (Node, {"value": 1, "children": [{"value": 2, "children": []}]}, Node(1, [Node(2)])),
    "generic": (Pair[int, str], {"left": 1, "right": ["a"]}, Pair(1, ["a"])),
    "generic base": (IntPair[Place], {"left": 1, "right": [{"city": "R", "zip": 0}]}, IntPair(1, [Place("R")])),
    "generic without arguments": (Pair, {"left": [1], "right": ["a"]}, Pair([1], ["a"])),
    "generic TypedDict": (OfText, {"item": "a", "more": 1}, {"item": "a", "more": 1}),
    "datetime": (
        datetime.datetime,
        "2024-02-29T12:30:00Z",
        datetime.datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
    ),
    "date": (datetime.date, "2024-02-29", datetime.date(2024, 2, 29)),
    "time": (datetime.time, "12:30:00", datetime.time(12, 30)),
    "timedelta": (datetime.timedelta, "P1DT2S", datetime.timedelta(days=1, seconds=2)),
    "UUID": (uuid.UUID, str(SOME_ID), SOME_ID),
    "Decimal": (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
    "Path": (pathlib.Path, "a/b", pathlib.Path("a/b")),
    "PurePosixPath": (pathlib.PurePosixPath, "a/b", pathlib.PurePosixPath("a/b")),
    "bytes": (bytes, "aGk=", b"hi"),
    "Any": (Any, {"a": [1, None]}, {"a": [1, None]}),
    "object": (list[object], [[1], "a"], [[1], "a"]),
    "NewType": (NewType("Name", str), "n", "n"),
    "type variable": (T, [1], [1]),
    "bound type variable": (TypeVar("B", bound=Place), {"city": "R", "zip": 0}, Place("R")),
    "constrained type variable": (TypeVar("C", int, str), "a", "a"),
    "constraints": (Annotated[int, Meta(ge=1, le=3)], 3, 3),
    "union with constraints": (Annotated[int | str | None, Meta(ge=1)], "a", "a"),
    "union with one type left": (int | msgspec.UnsetType, 1, 1),
    "type alias": (Names, ["a"], ["a"]),
    "described": (Annotated[Place, "where"], {"city": "R", "zip": 1}, Place("R", 1)),
    "described, in a union": (Annotated[Place, "where"] | Annotated[Box, "or"], {"city": "R", "zip": 1}, Place("R", 1)),
    "quoted": (list["Place"], [{"city": "R", "zip": 0}], [Place("R")]),
}


@pytest.mark.parametrize(("annotation", "written", "value"), BOTH_WAYS.values(), ids=BOTH_WAYS)
def test_a_type_takes_its_json_and_gives_it_back(annotation: Any, written: Any, value: object) -> None:
    signature = of(annotation)
    sent = {key: part for key, part in written.items() if key != "length"} if annotation is Cleaned else written
    got = signature.bind(freeze({"x": sent}))["x"]
    assert got == value
    assert type(got) is type(value) or annotation is OLD
    back = json.loads(json.dumps(signature.to_json(value)))
    assert back == written
    assert jsonschema_rs.is_valid(signature.returns_schema, back)
    assert jsonschema_rs.is_valid(signature.parameters, {"x": sent})


REFUSED: dict[str, tuple[Any, object, str]] = {
    "text for int": (int, "5", '$.x: "5" is not of type "integer"'),
    "bool for int": (int, True, '$.x: true is not of type "integer"'),
    "fraction for int": (int, 1.5, '$.x: 1.5 is not of type "integer"'),
    "bool for float": (float, True, '$.x: true is not of type "number"'),
    "number for str": (str, 1, '$.x: 1 is not of type "string"'),
    "null for str": (str, None, '$.x: null is not of type "string"'),
    "number for bool": (bool, 1, '$.x: 1 is not of type "boolean"'),
    "true for 1": (Literal[1], True, "$.x: true is not one of 1"),
    "1 for true": (Literal[True], 1, "$.x: 1 is not one of true"),
    "name of a member": (Level, "HIGH", '$.x: "HIGH" is not one of "low" or "high"'),
    "no combination of flags": (Flags, 3, "$.x: 3 is not one of 1 or 2"),
    "text for a union": (int | None, "5", '$.x: expected integer or null, got "5"'),
    "element": (list[list[int]], [[1], ["2"]], '$.x[1][0]: "2" is not of type "integer"'),
    "value of a dict": (dict[str, int], {"two words": None}, '$.x["two words"]: null is not of type "integer"'),
    "key of a dict": (dict[Level, int], {"no": 1}, '$.x: key "no" is not one of "low" or "high"'),
    "short tuple": (tuple[int, str], [1], "$.x: [1] has less than 2 items"),
    "long tuple": (tuple[int, str], [1, "a", 2], '$.x: [1, "a", 2] has more than 2 items'),
    "element of a tuple": (tuple[int, str], ["a", "a"], '$.x[0]: "a" is not of type "integer"'),
    "element twice in a set": (set[int], [1, 1], "$.x: [1, 1] has non-unique elements"),
    "missing field": (Place, {"zip": 1}, '$.x: "city" is required (string)'),
    "unknown field": (Place, {"city": "R", "zap": 1}, '$.x: unknown key "zap" (did you mean "zip"?)'),
    "object in a text": (Place, '{"city": "R"}', '$.x: "{\\"city\\": \\"R\\"}" is not of type "object"'),
    "missing tag": (Cat, {"lives": 9}, '$.x: "type" is required ("Cat")'),
    "wrong tag": (Cat, {"type": "dog", "lives": 9}, '$.x.type: "dog" is not one of "Cat"'),
    "result only": (Computed, {"base": 1, "double": 2}, '$.x: unknown key "double"'),
    "number for Decimal": (decimal.Decimal, 1.5, '$.x: 1.5 is not of type "string"'),
    "constraint": (Annotated[int, Meta(ge=1)], 0, "$.x: 0 is less than the minimum of 1"),
    "constraint of a union": (Annotated[int | None, Meta(ge=1)], 0, "$.x: 0 is less than the minimum of 1"),
    "constraint of a list": (Annotated[list[int], Meta(max_length=1)], [1, 2], "$.x: [1, 2] has more than 1 item"),
    "constraint of a text": (Annotated[str, Meta(pattern="^a")], "b", '$.x: "b" does not match "^a"'),
    "no datetime": (
        datetime.datetime,
        "soon",
        '$.x: "soon" is no datetime: Invalid RFC3339 encoded datetime',
    ),
    "no base64": (bytes, "!!", '$.x: "!!" is no bytes: Invalid base64 encoded string'),
    "no UUID in a union": (uuid.UUID | int, "no", '$.x: "no" is no UUID: Invalid UUID'),
    "naive": (
        Annotated[datetime.datetime, Meta(tz=True)],
        "2024-01-01T00:00:00",
        '$.x: "2024-01-01T00:00:00" is no datetime: Expected `datetime` with a timezone component',
    ),
    "validator": (list[Place], [{"city": "R", "zip": -1}], "$.x[0]: 'zip' must be >= 0: -1"),
    "number for a path": (pathlib.Path, 1, '$.x: 1 is not of type "string"'),
    "number out of range": (float, 10**400, "Number out of range"),
    "unhashable": (set[Box], [{"width": 1}], "$.x: unhashable type: 'Box'"),
}


@pytest.mark.parametrize(("annotation", "sent", "told"), REFUSED.values(), ids=REFUSED)
def test_a_value_of_another_type_is_refused_with_its_path_and_never_coerced(
    annotation: Any, sent: object, told: str
) -> None:
    violations = refused(annotation, sent)
    assert len(violations) == 1
    assert told in violations[0]


def test_all_violations_come_at_once_whatever_finds_them() -> None:
    def probe(place: Place, when: datetime.datetime, day: datetime.date | None, size: int, box: Box) -> None: ...

    sent = {"place": {"city": "R", "zip": -1}, "when": "soon", "day": "never", "size": "5", "boxx": {}}
    with pytest.raises(ArgumentsError) as caught:
        inspect_function(probe).bind(freeze(sent))
    assert sorted(caught.value.violations) == [
        '$.day: "never" is no date: Invalid RFC3339 encoded date',
        "$.place: 'zip' must be >= 0: -1",
        '$.size: "5" is not of type "integer"',
        '$.when: "soon" is no datetime: Invalid RFC3339 encoded datetime',
        '$: "box" is required (object)',
        '$: unknown key "boxx" (did you mean "box"?)',
    ]


def test_a_parameter_may_have_any_name() -> None:
    def probe(class_: int, _private: int, *, __mangled: int, asdict: int = 0) -> None: ...

    got = inspect_function(probe).bind(freeze({"class_": 1, "_private": 2, "__mangled": 3}))
    assert got == {"class_": 1, "_private": 2, "__mangled": 3}


def test_several_texts_that_cannot_be_read_are_all_named_with_their_paths() -> None:
    assert refused(dict[str, list[uuid.UUID]], {"a": ["x", str(SOME_ID)], "b c": ["y"]}) == [
        '$.x.a[0]: "x" is no UUID: Invalid UUID',
        '$.x["b c"][0]: "y" is no UUID: Invalid UUID',
    ]


def test_after_many_violations_the_rest_is_only_counted() -> None:
    assert refused(list[uuid.UUID], ["x"] * 300)[-1] == "and 44 more"
    assert refused(list[int], ["x"] * 300)[-1] == "and 44 more"


def test_arguments_that_are_no_object_are_refused() -> None:
    for sent in ([1], None, "{}"):
        with pytest.raises(ArgumentsError, match='is not of type "object"'):
            of(int).bind(freeze(sent))


def test_an_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(ArgumentsError(["$: a", "$: b"])))
    assert (str(error), error.violations) == ("$: a; $: b", ["$: a", "$: b"])


def test_a_whole_float_is_an_integer_and_stays_equal() -> None:
    assert repr(received(int, 5.0)) == "5"
    assert repr(received(list[int | str], [5.0])) == "[5]"
    assert received(Literal[5, "a"], 5.0) == 5
    assert repr(received(int | float, 5.0)) == "5.0"
    assert refused(int, 5.5) == ['$.x: 5.5 is not of type "integer"']


def test_no_branch_of_a_union_is_reached_by_coercion() -> None:
    assert received(Literal["null"] | None, "null") == "null"
    assert received(int | uuid.UUID | str, "5") == "5"
    assert received(bool | float, 1) == 1
    assert type(received(bool | float, 1)) is not bool


def calls_made(function: Callable[[], object]) -> int:
    """How many calls it takes, of Python functions and of others."""
    count = 0

    def profile(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def nested(depth: int, outer: dict[str, object], inner: object) -> Any:
    value = inner
    for _ in range(depth):
        value = {**outer, "left": value}
    return value


RECURSIVE_UNIONS: dict[str, tuple[Any, dict[str, object], dict[str, object]]] = {
    "tagged": (
        Number | Sum | Product,
        {"type": "Product", "right": {"type": "Number", "value": 1}},
        {"type": "Number", "value": 1},
    ),
    "with a fixed key": (Leaf | Plus | Times, {"op": "*"}, {"value": 1}),
    "not to be told apart": (Leaf | One | Other, {}, {"value": 1}),
}


@pytest.mark.parametrize(("annotation", "outer", "leaf"), RECURSIVE_UNIONS.values(), ids=RECURSIVE_UNIONS)
def test_a_union_that_contains_itself_is_read_and_explained_in_proportion_to_the_depth(
    annotation: Any, outer: dict[str, object], leaf: dict[str, object]
) -> None:
    signature = of(annotation)
    counts: dict[str, list[int]] = {"good": [], "bad": [], "back": []}
    for depth in (30, 60, 120):
        good, bad = (freeze({"x": nested(depth, outer, each)}) for each in (leaf, {**leaf, "value": "x"}))
        received: list[Any] = []
        counts["good"].append(calls_made(lambda: received.append(signature.bind(good)["x"])))  # noqa: B023
        counts["back"].append(calls_made(lambda: signature.to_json(received[0])))  # noqa: B023
        assert signature.to_json(received[0]) == cast("Any", good)["x"]
        refused: list[pytest.ExceptionInfo[ArgumentsError]] = []

        def refuse() -> None:
            with pytest.raises(ArgumentsError) as caught:
                signature.bind(bad)  # noqa: B023
            refused.append(caught)  # noqa: B023

        counts["bad"].append(calls_made(refuse))
        assert len(refused[0].value.violations) == 1
        assert refused[0].value.violations[0].startswith("$.x")
    for kind, (short, twice, long) in counts.items():
        assert twice < 3 * short, kind
        assert long < 3 * twice, kind


def test_a_wrong_leaf_of_a_union_that_contains_itself_is_named() -> None:
    assert refused(Leaf | Plus | Times, nested(40, {"op": "*"}, {"value": "x"})) == [
        "$.x" + ".left" * 40 + '.value: "x" is not of type "integer"'
    ]


def test_typed_dicts_that_contain_each_other_are_written_in_proportion_to_the_depth() -> None:
    signature = of(WithX | WithY)
    good, bad = nested(100, {}, 1), nested(100, {}, "x")
    assert signature.to_json(good) == good
    with pytest.raises(ReturnError, match=r"^\$: .* fits none of the types of the union$"):
        signature.to_json(bad)
    assert calls_made(lambda: signature.to_json(good)) < 20_000


def test_what_looks_like_one_type_of_a_union_is_explained_by_it() -> None:
    assert of(Entry | list[int] | None).to_json({"key": "k"}) == {"key": "k"}
    for value, told in (
        ({"key": 1}, r"\$\.key: 1 is not of type"),
        ([1, "x"], r'\$\[1\]: "x" is not of type'),
        ({"kez": 1}, "fits none of the types"),
    ):
        with pytest.raises(ReturnError, match=told):
            of(Entry | list[int] | None).to_json(value)
    with pytest.raises(ReturnError, match=r'\$\[0\]: "x" is not of type'):
        of(set[int] | dict[str, int]).to_json({"x"})
    with pytest.raises(ReturnError, match=r'\$\[1\]: "x" is not of type'):
        of(tuple[int, int] | dict[str, int]).to_json((1, "x"))
    with pytest.raises(ReturnError, match=r'\$\.a: "x" is not of type'):
        of(tuple[int, int] | dict[str, int]).to_json({"a": "x"})
    assert of(pathlib.Path | Annotated[uuid.UUID, "u"]).to_json(pathlib.Path("a")) == "a"
    assert of(Literal["a"] | datetime.date).to_json("a") == "a"
    with pytest.raises(ReturnError, match=r'\$\[0\]: "x" fits none of the types'):
        of(Leaf | Rows[int]).to_json(["x"])
    assert of(Leaf | Nest).to_json([["x"][1:]]) == [[]]
    with pytest.raises(ReturnError, match=r"expected date, got 1"):
        of(Optional[Annotated[list[datetime.date], "days"]]).to_json([1])  # noqa: UP045 - it has no |
    assert refused(datetime.date | uuid.UUID, "soon")[0].startswith('$.x: "soon" is no date')


def test_what_a_function_receives_is_its_own_to_change() -> None:
    def probe(
        anything: Any, options: dict[str, Any], names: list[str], frozen: FrozenJson, deep: list[dict[str, list[int]]]
    ) -> None: ...

    sent = freeze(
        {"anything": {"a": [1]}, "options": {"a": [1]}, "names": ["a"], "frozen": {"a": [1]}, "deep": [{"a": [1]}]}
    )
    got: dict[str, Any] = inspect_function(probe).bind(sent)
    got["anything"]["a"].append(2)
    got["options"]["a"].append(2)
    got["names"].append("b")
    got["deep"][0]["a"].append(2)
    assert isinstance(sent, dict)
    assert sent == {
        "anything": {"a": (1,)},
        "options": {"a": (1,)},
        "names": ("a",),
        "frozen": {"a": (1,)},
        "deep": ({"a": (1,)},),
    }
    assert got["frozen"] is sent["frozen"]


def test_classes_that_do_more_than_hold_values_are_made_by_their_constructor() -> None:
    assert received(Cleaned, {"text": "  a "}) == Cleaned("a")
    assert received(Computed, {"base": 2}).double == 4
    assert received(Undecorated, {"city": "rome"}) == Undecorated("rome")
    assert received(Undecorated, {"city": "rome"}).zip == 7


@dataclasses.dataclass
class OwnInit:
    a: int

    def __init__(self, a: float) -> None:
        self.a = int(a) + 100


@dataclasses.dataclass
class OwnNew:
    a: int

    def __new__(cls, a: int) -> typing.Self:
        if a < 0:
            raise ValueError("negative")
        return super().__new__(cls)


class OwnPoint(Point):
    def __new__(cls, x: float, y: float = 0.0) -> typing.Self:
        return super().__new__(cls, x + 100, y)


@pytest.mark.parametrize("sent", [1, 1.0])
def test_a_constructor_of_ones_own_is_called_whichever_way_a_value_is_read(sent: float) -> None:
    assert received(OwnInit, {"a": sent}).a == 101
    assert refused(OwnNew, {"a": -sent}) == ["$.x: negative"]
    assert received(OwnPoint, [sent]) == OwnPoint(1.0)
    assert received(OwnPoint, [sent]).x == 101
    assert cast("Any", start_record(Box)).native


def test_what_a_constructor_raises_is_a_violation_at_its_place() -> None:
    def bang(*_: object) -> None:
        raise KeyError("no such thing")

    @attrs.define
    class Fragile:
        a: int = attrs.field(validator=bang)

    @attrs.define
    class Listed:
        a: str = attrs.field(validator=attrs.validators.in_(["x"]))

    assert refused(Fragile, {"a": 1}) == ["$.x: no such thing"]
    assert refused(Listed, {"a": "y"}) == ["$.x: 'a' must be in ['x'] (got 'y')"]


def test_defaults_are_left_to_the_function() -> None:
    sentinel = object()

    def probe(a: int, b: int = 7, *, c: Any = sentinel) -> None: ...

    signature = inspect_function(probe)
    assert signature.bind(freeze({"a": 1})) == {"a": 1}
    assert signature.bind(freeze({"a": 1, "c": 2})) == {"a": 1, "c": 2}
    assert signature.parameters["required"] == ["a"]
    assert "default" not in properties(signature)["c"]


def test_a_default_is_shown_as_json_if_it_is_a_value_of_its_type() -> None:
    assert shown(int, 3)["default"] == 3
    assert shown(Level, Level.HIGH)["default"] == "high"
    assert shown(Place, Place("R"))["default"] == {"city": "R", "zip": 0}
    assert shown(tuple[int, ...], (1, 2))["default"] == [1, 2]
    assert shown(int | None, None)["default"] is None
    assert "default" not in shown(Any, object())
    assert "default" not in shown(float, float("nan"))


def test_the_schema_names_types_descriptions_and_what_is_required_in_the_order_of_the_signature() -> None:
    async def resize(
        run: Run,
        path: Annotated[str, "the picture"],
        width: Annotated[int, Meta(ge=1, description="in pixels", examples=[640], title="Width")],
        box: Box,
        point: Point,
        unit: Literal["px", "%"] = "px",
        tags: set[str] = set(),  # noqa: B006 - never called
    ) -> None:
        """Resize a picture.

        Args:
            run: The run.
            path: Not shown, Annotated wins.
            box: Wins over the docstring of the class.
            unit: Of the width.
        """

    signature = inspect_function(resize, run_type=Run)
    assert (signature.name, signature.description) == ("resize", "Resize a picture.")
    assert (signature.run_parameter, signature.is_async) == ("run", True)
    expected: dict[str, Any] = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "the picture"},
            "width": {"type": "integer", "description": "in pixels", "examples": [640], "minimum": 1},
            "box": {
                "type": "object",
                "properties": {
                    "width": {"type": "integer", "description": "How wide it is."},
                    "label": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                },
                "required": ["width"],
                "additionalProperties": False,
                "description": "Wins over the docstring of the class.",
            },
            "point": {
                "type": "array",
                "prefixItems": [
                    {"type": "number", "description": "How far to the right."},
                    {"type": "number", "description": "y"},
                ],
                "items": {"type": "number"},
                "minItems": 1,
                "maxItems": 2,
            },
            "unit": {"type": "string", "enum": ["px", "%"], "description": "Of the width.", "default": "px"},
            "tags": {"type": "array", "uniqueItems": True, "items": {"type": "string"}, "default": []},
        },
        "required": ["path", "width", "box", "point"],
        "additionalProperties": False,
    }
    assert json.dumps(signature.parameters) == json.dumps(expected)


def test_the_docstring_of_a_class_describes_it_where_nothing_else_does() -> None:
    assert shown(Box)["description"] == "A box to put things in."
    assert "description" not in shown(Place)
    assert "description" not in shown(dataclasses.make_dataclass("Made", ["a"]))
    assert shown(Annotated[Place, "where"])["description"] == "where"
    assert shown(Loose)["properties"]["key"] == {"type": "string", "description": "the key"}
    assert shown(Loose)["required"] == ["key"]


def test_formats_say_what_text_is_expected() -> None:
    assert shown(datetime.datetime) == {"type": "string", "format": "date-time"}
    assert shown(Annotated[datetime.datetime, Meta(tz=False)]) == {"type": "string"}
    assert shown(datetime.time)["format"] == "time"
    assert shown(uuid.UUID)["format"] == "uuid"
    assert shown(bytes)["contentEncoding"] == "base64"
    pattern = shown(decimal.Decimal)["pattern"]
    for text, fits in {
        "1": True,
        "-1.50": True,
        ".5": True,
        "1e-7": True,
        "NaN": False,
        " 1": False,
        "1_0": False,
    }.items():
        assert jsonschema_rs.is_valid({"pattern": pattern}, text) is fits


def arrays(schema: Any) -> Iterator[Any]:
    if isinstance(schema, dict):
        if cast("dict[str, Any]", schema).get("type") == "array":
            yield schema
        schema = list(cast("dict[str, Any]", schema).values())
    if isinstance(schema, list):
        for part in cast("list[Any]", schema):
            yield from arrays(part)


def test_every_array_says_what_its_items_are() -> None:
    """Providers refuse one that does not."""
    everything = [of(annotation) for annotation, _, _ in BOTH_WAYS.values()]
    found = [each for signature in everything for each in arrays([signature.parameters, signature.returns_schema])]
    assert len(found) > 20
    assert [each for each in found if "items" not in each] == []
    assert shown(list) == shown(list[Any]) == {"type": "array", "items": {}}
    assert shown(tuple[int, str])["items"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert shown(tuple[int, Annotated[int, "n"]])["items"] == {"type": "integer"}
    assert shown(tuple[int, Any])["items"] == {}
    assert shown(tuple[()]) == {"type": "array", "items": {}, "minItems": 0, "maxItems": 0}


def test_a_multiple_of_a_fraction_is_one_as_it_is_written() -> None:
    tenths = Annotated[float, Meta(multiple_of=0.1, ge=0, description="in kg")]
    assert shown(tenths) == {"type": "number", "description": "in kg", "minimum": 0, "multipleOf": 0.1}
    for value in (0.3, 0.7, 1, 1.1):
        assert received(tenths, value) == value
        assert received(list[tenths] | str, [value]) == [value]
        assert of(tenths).to_json(value) == value
    assert refused(tenths, 0.25) == ["$.x: 0.25 is not a multiple of 0.1"]
    problems = Problems()
    cast("Any", Reader()).read(tenths, Namespace(())).decode(0.25, None, problems)
    assert [each.text for each in problems.mismatches] == ["0.25 is not a multiple of 0.1"]
    assert received(Annotated[int, Meta(multiple_of=3)], 9) == 9


def test_a_number_that_is_out_of_range_is_told_with_the_type() -> None:
    assert refused(float, 10**400)[0].endswith('Number out of range for type "number"')


def test_what_annotated_types_say_of_a_type_is_kept() -> None:
    assert shown(Annotated[int, annotated_types.Ge(1), annotated_types.Lt(5)]) == {
        "type": "integer",
        "minimum": 1,
        "exclusiveMaximum": 5,
    }
    assert shown(Annotated[int, annotated_types.Interval(gt=1, le=3), annotated_types.MultipleOf(2)]) == {
        "type": "integer",
        "exclusiveMinimum": 1,
        "maximum": 3,
        "multipleOf": 2,
    }
    sized = shown(Annotated[list[str], annotated_types.Len(1, 4), annotated_types.Unit("m")])
    assert (sized["minItems"], sized["maxItems"]) == (1, 4)
    few = Annotated[bytes, annotated_types.MaxLen(2)]
    assert received(few, "YWI=") == b"ab"
    assert "length <= 2" in refused(few, "YWJj")[0]


@pytest.mark.parametrize(
    "metadata",
    [annotated_types.Predicate(str.islower), annotated_types.Timezone(None), annotated_types.Gt("a")],
)
def test_metadata_that_cannot_be_enforced_is_refused(metadata: Any) -> None:
    def probe(x: object) -> None: ...

    probe.__annotations__["x"] = Annotated[str, metadata]
    if metadata == annotated_types.Timezone(None):
        inspect_function(probe)  # nothing is asked
    else:
        assert "cannot be enforced here" in not_a_tool(probe)
        assert "write msgspec.Meta(...)" in not_a_tool(probe)


def test_a_cached_function_is_described_by_what_it_caches() -> None:
    @functools.cache
    def look_up(key: str) -> str:
        """Look a word up.

        Args:
            key: The word.
        """
        return key.upper()

    @functools.lru_cache
    async def fetch(key: str) -> str:
        return key

    signature = inspect_function(look_up)
    assert (signature.name, signature.description) == ("look_up", "Look a word up.")
    assert properties(signature)["key"]["description"] == "The word."
    assert not signature.is_async
    assert "cache what it awaits" in not_a_tool(fetch)


def test_a_default_of_none_must_be_a_value_of_the_type() -> None:
    def probe(x: int = None) -> None: ...  # pyright: ignore[reportArgumentType]  # noqa: RUF013 - what is refused

    def quoted(x: Any = None, y: Box = None) -> None: ...  # pyright: ignore[reportArgumentType]

    assert "parameter 'x': its default is None, which its type does not admit: write int | None = None" in not_a_tool(
        probe
    )
    assert "write Box | None = None" in not_a_tool(quoted)
    quoted.__annotations__["y"] = Box
    assert "Box | None = None" in not_a_tool(quoted)


def test_a_tuple_with_a_part_of_any_length_is_refused() -> None:
    for annotation in (tuple[int, *tuple[str, ...]], tuple[int, typing.Unpack[tuple[str, ...]]]):  # noqa: UP044 - both spellings

        def probe(x: object) -> None: ...

        probe.__annotations__["x"] = annotation
        assert "has a part of any length: write tuple[int, list[str]]" in not_a_tool(probe)


def test_only_types_that_occur_inside_themselves_become_definitions() -> None:
    def probe(a: Node, b: Node, c: Place, d: Place) -> None: ...

    schema: Any = inspect_function(probe).parameters
    assert schema["properties"]["a"] == schema["properties"]["b"] == {"$ref": "#/$defs/Node"}
    assert schema["properties"]["c"] == schema["properties"]["d"] != {}
    assert list(schema["$defs"]) == ["Node"]
    assert schema["$defs"]["Node"]["properties"]["children"] == {"type": "array", "items": {"$ref": "#/$defs/Node"}}


def test_two_recursive_classes_of_one_name_get_two_definitions() -> None:
    def make() -> type:
        @attrs.define
        class Twin:
            again: Twin | None = None

        return Twin

    one, other = make(), make()

    def probe(a: Any, b: Any) -> None: ...

    probe.__annotations__.update(a=one, b=other)
    signature = inspect_function(probe)
    assert list(properties(signature, key="$defs")) == ["Twin", "Twin_2"]
    got: Any = signature.bind(freeze({"a": {"again": {}}, "b": {"again": {"again": None}}}))
    assert (type(got["a"].again), type(got["b"].again)) == (one, other)


if typing.TYPE_CHECKING:
    Tree: TypeAlias = Any
    Rows: Any = None
else:
    Tree = dict[str, "Tree"] | list["Tree"] | str
    Rows = typing_extensions.TypeAliasType("Rows", "list[Rows[T]] | T", type_params=(T,))


def test_an_alias_may_contain_itself() -> None:
    def probe(tree: Tree) -> Tree: ...

    signature = inspect_function(probe)
    schema: Any = signature.parameters
    reference = {"$ref": "#/$defs/Tree"}
    assert schema["properties"]["tree"] == reference
    assert schema["$defs"]["Tree"]["anyOf"][0] == {"type": "object", "additionalProperties": reference}
    tree = {"a": ["b", {"c": "d"}]}
    assert signature.bind(freeze({"tree": tree})) == {"tree": tree}
    assert signature.to_json(tree) == tree
    assert received(Annotated[Rows[int], "numbers"], [[1], 2]) == [[1], 2]
    assert shown(Rows[int]) == {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Rows"}}, {"type": "integer"}]}
    with pytest.raises(ArgumentsError):
        signature.bind(freeze({"tree": {"a": 1}}))


def test_a_local_class_is_found_in_the_closure_or_in_the_names_that_are_given() -> None:
    @attrs.define
    class Local:
        next: Local | None = None

    def closed(x: Local) -> Local:
        return Local()

    def open_one(x: Local) -> Local: ...

    assert inspect_function(closed).bind(freeze({"x": {"next": {}}})) == {"x": Local(Local())}
    assert "'Local' is not defined" in not_a_tool(open_one)
    assert "parameter 'x'" in not_a_tool(open_one)
    assert inspect_function(open_one, local_names=locals()).bind(freeze({"x": {}})) == {"x": Local()}


def test_a_name_that_is_not_bound_yet_is_no_accident() -> None:
    def probe(x: Later) -> None:
        Later()

    assert "'Later' is not defined" in not_a_tool(probe)

    class Later:
        pass


def test_the_run_is_found_under_its_name_even_if_it_was_imported_for_the_type_checker_only() -> None:
    def probe(a: int, run: Any) -> None: ...

    probe.__annotations__["run"] = "Hidden"

    hidden = type("Hidden", (), {})
    assert inspect_function(probe, run_type=hidden).run_parameter == "run"


def test_a_run_may_be_annotated_further_and_have_a_default() -> None:
    def probe(run: Annotated[Run, "mine"] = NO_RUN, *, a: int) -> None: ...

    signature = inspect_function(probe, run_type=Run)
    assert (signature.run_parameter, list(signature.bind(freeze({"a": 1})))) == ("run", ["a"])
    assert inspect_function(lambda: None, run_type=Run).run_parameter is None


class Greeter:
    """Greets."""

    def __init__(self, greeting: str) -> None:
        self.greeting = greeting

    async def __call__(self, name: str) -> str:
        return f"{self.greeting} {name}"

    def method(self, name: str) -> str:
        """Greet by method.

        :param name: whom
        """
        return name

    @classmethod
    def of_class(cls, name: str) -> str:
        return name

    @staticmethod
    def of_none(name: str) -> str:
        return name

    with_partial: ClassVar[int] = 1


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


KINDS: dict[str, tuple[Callable[..., Any], str, str, bool]] = {
    "method": (Greeter("hi").method, "method", "Greet by method.", False),
    "class method": (Greeter.of_class, "of_class", "", False),
    "static method": (Greeter.of_none, "of_none", "", False),
    "static method object": (vars(Greeter)["of_none"], "of_none", "", False),
    "callable object": (Greeter("hi"), "Greeter", "Greets.", True),
    "partial of a method": (functools.partial(Greeter("hi").method), "method", "Greet by method.", False),
    "partial of an object": (functools.partial(Greeter("hi")), "Greeter", "", True),
    "decorated": (wrapped(Greeter("hi").method), "method", "Greet by method.", True),
    "partial of a decorated": (functools.partial(wrapped(Greeter.of_none)), "of_none", "", True),
}


@pytest.mark.parametrize(("function", "name", "description", "is_async"), KINDS.values(), ids=KINDS)
def test_everything_that_can_be_called_can_be_a_tool(
    function: Callable[..., Any], name: str, description: str, is_async: bool
) -> None:
    signature = inspect_function(function)
    assert (signature.name, signature.description, signature.is_async) == (name, description, is_async)
    assert list(properties(signature)) == ["name"]
    assert signature.returns_text
    assert signature.bind(freeze({"name": "Ada"})) == {"name": "Ada"}


def test_what_a_partial_has_bound_is_fixed_and_not_shown() -> None:
    def ask(first: int, question: str, token: str, *, limit: int = 3) -> str:
        return f"{first}{question}{token}{limit}"

    bound = functools.partial(functools.partial(ask, 1, token="secret"), limit=4)
    signature = inspect_function(bound)
    assert "secret" not in json.dumps(signature.parameters)
    assert list(properties(signature)) == ["question"]
    got: Any = signature.bind(freeze({"question": "?"}))
    assert bound(**got) == "1?secret4"
    with pytest.raises(ArgumentsError):
        signature.bind(freeze({"question": "?", "token": "mine"}))


def annotated(annotation: str) -> Callable[..., None]:
    """A function with a parameter ``a`` of that annotation."""

    def probe(a: Any) -> None: ...

    probe.__annotations__["a"] = annotation
    return probe


def stars(a: int, *rest: int) -> None: ...
def keywords(a: int, **options: int) -> None: ...
def positional(a: int, /) -> None: ...
def two_runs(a: Run, b: Run) -> None: ...
def no_form(a: Callable[[], None]) -> None: ...
def no_class(a: list[Picky]) -> None: ...
def optional_run(run: Run | None) -> None: ...
def a_class(a: type[int]) -> None: ...
def bad_key(a: dict[int, str]) -> None: ...
def bad_literal(a: Literal[b"x"]) -> None: ...
def bad_field(a: Holder) -> None: ...
def bad_constraint(a: Annotated[int, Meta(pattern="x")]) -> None: ...
def bad_constraint_of_union(a: Annotated[bool | None, Meta(ge=1)]) -> None: ...
def bad_union(a: int | Picky) -> None: ...
def bad_pattern(a: Annotated[str, Meta(pattern=r"(?P<x>a)(?(x)b|c)")]) -> None: ...
def later(a: int) -> Awaitable[int]: ...
def array_like(a: ArrayLike) -> None: ...
def init_var(a: WithInitVar) -> None: ...
def recursive_tuple(a: Chain) -> None: ...
def empty_enum(a: Nothing) -> None: ...
def generator(a: int) -> Iterator[int]:
    yield a


async def async_generator(a: int) -> AsyncIterator[int]:
    yield a


@attrs.define
class Holder:
    inner: dict[str, Picky]


class ArrayLike(msgspec.Struct, array_like=True):
    a: int


@dataclasses.dataclass
class WithInitVar:
    a: dataclasses.InitVar[int]


class Chain(NamedTuple):
    next: Chain | None


class Nothing(enum.Enum):
    pass


class Unreadable:
    __signature__ = "none"

    def __call__(self) -> None: ...


untyped: Any = eval("lambda mystery: None")
BAD_FUNCTIONS: dict[str, tuple[Any, list[str]]] = {
    "*args": (stars, ["stars()", "'rest'", "rest: list[...]"]),
    "**kwargs": (keywords, ["'options'", "options: dict[str, ...]"]),
    "positional-only": (positional, ["'a'", "remove the /"]),
    "unannotated": (untyped, ["'mystery'", "mystery: str"]),
    "unannotated default": (lambda mystery=3: None, ["'mystery'", "mystery: str"]),
    "unbound method": (Greeter.method, ["'self'", "pass the bound one"]),
    "two runs": (two_runs, ["'b'", "'a' receives the run already"]),
    "no form": (no_form, ["'a'", "Callable", "has no JSON form", "write a plain type"]),
    "class of classes": (a_class, ["'a'", "type has no JSON form"]),
    "no type at all": (annotated("3"), ["'a'", "3 has no JSON form"]),
    "no class": (no_class, ["'a'", "Picky has no JSON form"]),
    "optional run": (optional_run, ["'run'", "Run must be the whole annotation"]),
    "keys": (bad_key, ["'a'", "dict[str, ...]"]),
    "literal": (bad_literal, ["'a'", "Literal", "must be str"]),
    "field": (bad_field, ["'a'", "field 'inner' of Holder", "Picky"]),
    "undefined": (annotated("Nowhere"), ["'a'", "'Nowhere' is not defined", "TYPE_CHECKING"]),
    "syntax": (annotated("1 +"), ["'a'", "is no type"]),
    "constraint": (bad_constraint, ["'a'", "`pattern`"]),
    "constraint of a union": (bad_constraint_of_union, ["'a'", "constraint"]),
    "union": (bad_union, ["'a'", "Picky"]),
    "pattern": (bad_pattern, ["bad_pattern()", "$.properties.a.pattern"]),
    "awaitable": (later, ["what it returns", "Awaitable"]),
    "array-like": (array_like, ["ArrayLike", "NamedTuple"]),
    "InitVar": (init_var, ["'a'", "InitVar"]),
    "recursive named tuple": (recursive_tuple, ["Chain", "write a dataclass"]),
    "enum without members": (empty_enum, ["Nothing"]),
    "generator": (generator, ["generator()", "return a list"]),
    "async generator": (async_generator, ["async_generator()", "return a list"]),
    "class": (Place, ["Place", "from a function"]),
    "not callable": (3, ["3"]),
    "builtin": (len, ["len()", "'obj'", "remove the /"]),
    "no signature": (Unreadable(), ["Unreadable()", "function of your own"]),
}


@pytest.mark.parametrize(("function", "told"), BAD_FUNCTIONS.values(), ids=BAD_FUNCTIONS)
def test_what_a_model_cannot_call_is_refused_with_what_to_write_instead(function: Any, told: list[str]) -> None:
    message = not_a_tool(function)
    assert [part for part in told if part not in message] == []


GOOGLE = """Look a word up.

Takes a while.

Args:
    word: The word,
        in lower case.
    other: Not there.

Returns:
    The entry.
"""
NUMPY = """Look a word up.

Takes a while.

Parameters
----------
word, twin : str
    The word,
    in lower case.

Returns
-------
str
    The entry.
"""
SPHINX = """Look a word up.

Takes a while.

:param word: The word,
    in lower case.
:returns: The entry.
"""


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["Google", "NumPy", "Sphinx"])
def test_docstrings_of_every_style_describe_function_and_parameters(docstring: str) -> None:
    def look_up(word: str) -> None: ...

    look_up.__doc__ = docstring
    signature = inspect_function(look_up)
    assert signature.description == "Look a word up.\n\nTakes a while."
    assert signature.parameters["properties"] == {
        "word": {"type": "string", "description": "The word,\nin lower case."}
    }


@pytest.mark.parametrize(
    ("docstring", "description"),
    [
        (None, ""),
        ("", ""),
        ("  One line.  ", "One line."),
        ("Cook.\n\n    :warning: hot\n", "Cook.\n\n:warning: hot"),
        ("Two\n    lines:\n\n    * a\n", "Two\nlines:\n\n* a"),
        (":    :param    *a", ":    :param    *a"),
        ("Args:\n    x\n", "Args:\nx"),
    ],
)
def test_a_docstring_without_sections_is_all_description(docstring: str | None, description: str) -> None:
    def probe() -> None: ...

    probe.__doc__ = docstring
    assert inspect_function(probe).description == description


@given(st.lists(st.sampled_from([*"ax:@-* \n", "Args:", ":param x:", "@param x:", "----", "Returns"]), max_size=12))
def test_no_docstring_is_an_accident(parts: list[str]) -> None:
    def probe(x: int) -> None: ...

    probe.__doc__ = "".join(parts)
    assert isinstance(inspect_function(probe).description, str)


def test_documentation_objects_describe_too() -> None:
    assert shown(Annotated[int, typing_extensions.Doc("a number")]) == {"type": "integer", "description": "a number"}
    assert shown(Annotated[int, "first", object(), "last"])["description"] == "last"
    assert shown(Annotated[int | None, Meta(ge=1, description="few")]) == {
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
        "description": "few",
    }


def test_metadata_need_not_be_hashable() -> None:
    assert received(Pair[Annotated[int, ["unhashable"]], str], {"left": 1, "right": []}) == Pair(1, [])


def test_a_union_that_takes_anything_has_an_open_schema_and_equal_forms_are_one() -> None:
    assert shown(int | Any) == {}
    assert shown(str | pathlib.Path) == {"type": "string"}
    assert received(pathlib.Path | str, "a") == pathlib.Path("a")
    assert shown(Rude) == {"type": "object", "properties": {}, "additionalProperties": False}


class Rude(TypedDict):
    pass


NOT_RETURNED: dict[str, tuple[Any, object, str]] = {
    "text for int": (int, "3", '$: "3" is not of type "integer"'),
    "bool for int": (int, True, '$: true is not of type "integer"'),
    "int for str": (str, 3, '$: 3 is not of type "string"'),
    "datetime for str": (str, datetime.datetime.now(UTC), "$: a value of type datetime is not"),
    "element": (list[int], [1, "x"], '$[1]: "x" is not of type "integer"'),
    "no list": (list[int], {1}, '$: a value of type set is not of type "array"'),
    "no set": (set[int], [1], "$: expected a set, got [1]"),
    "element of a set": (set[int], {"a"}, '$[0]: "a" is not of type "integer"'),
    "short tuple": (tuple[int, str], (1,), "$: expected 2 elements, got 1"),
    "element of a tuple": (tuple[int, str], (1, 2), '$[1]: 2 is not of type "string"'),
    "value of a dict": (dict[str, int], {"two words": "x"}, '$["two words"]: "x" is not of type "integer"'),
    "key of a dict": (dict[str, int], {1: 1}, '$: 1 is not of type "string"'),
    "no dict": (dict[str, int], [1], '$: [1] is not of type "object"'),
    "value of an enum": (Level, "low", '$: "low" is not one of "low", "high"'),
    "no literal": (Literal["a"], "b", '$: "b" is not one of "a"'),
    "dict for a class": (Place, {"city": "R"}, '$: expected Place, got {"city": "R"}'),
    "field": (Place, Place(cast("Any", 3)), '$.city: 3 is not of type "string"'),
    "key missing": (Entry, {"weight": 1.0}, '$: "key" is required'),
    "key unknown": (Entry, {"key": "k", "wait": 1.0}, '$: unknown key "wait"'),
    "union": (Place | Box | None, 3, "$: 3 fits none of the types of the union"),
    "field in a union": (Place | Box, Box(cast("Any", "w")), '$.width: "w" is not of type "integer"'),
    "date and time for a date": (datetime.date, datetime.datetime.now(UTC), "$: expected date, got"),
    "text for a UUID": (uuid.UUID, str(SOME_ID), "$: expected UUID, got"),
    "text for a path": (pathlib.Path, "a", '$: expected Path, got "a"'),
    "no number": (decimal.Decimal, decimal.Decimal("NaN"), "$: NaN is not JSON"),
    "something for None": (None, 1, '$: 1 is not of type "null"'),
    "attribute missing": (Cleaned, Cleaned.__new__(Cleaned), '$: "text" is required'),
}


@pytest.mark.parametrize(("annotation", "value", "told"), NOT_RETURNED.values(), ids=NOT_RETURNED)
def test_a_returned_value_of_another_type_is_refused_with_its_path(annotation: Any, value: object, told: str) -> None:
    with pytest.raises(ReturnError) as caught:
        of(annotation).to_json(value)
    assert isinstance(caught.value, ValueError)
    assert caught.value.violations[0].startswith(told)


def test_constraints_that_the_schema_cannot_hold_bind_results_too() -> None:
    aware = of(Annotated[datetime.datetime, Meta(tz=True)])
    short = of(Annotated[bytes, Meta(max_length=4)])
    assert aware.to_json(datetime.datetime(2020, 1, 1, tzinfo=UTC)) == "2020-01-01T00:00:00Z"
    assert short.to_json(b"1234") == "MTIzNA=="
    with pytest.raises(ReturnError, match="timezone"):
        aware.to_json(datetime.datetime(2020, 1, 1))
    with pytest.raises(ReturnError, match="length <= 4"):
        short.to_json(b"12345")


class Everything(TypedDict):
    day: datetime.date
    rows: list[tuple[Computed, Place]]
    some: dict[str, set[Level]]
    one: Cat | Dog | None


def test_json_in_the_place_of_a_result_is_held_against_the_type_and_no_constructor_is_called() -> None:
    good: dict[str, Any] = {
        "day": "2020-01-01",
        "rows": [[{"base": 1, "double": 5}, {"city": "x", "zip": -1}]],
        "some": {"a": ["low"]},
        "one": {"type": "dog", "name": "Rex"},
    }
    signature = of(Everything)
    signature.check_json(freeze(good))
    for change, told in (
        ({"day": "garbage"}, r'^\$\.day: "garbage" is no date'),
        ({"rows": [[{"base": 1}, {"city": "x"}]]}, r'^\$\.rows\[0\]\[0\]: "double" is required$'),
        ({"some": {"a": ["mid"]}}, r"^\$\.some\.a\[0\]: "),
    ):
        with pytest.raises(ReturnError, match=told):
            signature.check_json(freeze(good | change))


@dataclasses.dataclass
class Link:
    next: Link | None = None
    more: list[Link] = dataclasses.field(default_factory=list["Link"])
    named: dict[str, Link] = dataclasses.field(default_factory=dict[str, "Link"])
    row: tuple[Link] | None = None


def test_a_result_that_contains_itself_or_is_too_deep_is_refused_with_the_path() -> None:
    shared = Link()
    signature = of(Link)
    assert signature.to_json(Link(shared, [shared, shared]))
    for path in ("next", "more[0]", "named.a", "row[0]"):
        loop = Link()
        loop.more, loop.named, loop.row = [Link()], {"a": Link()}, (Link(),)
        match path:
            case "next":
                loop.next = loop
            case "more[0]":
                loop.more = [loop]
            case "named.a":
                loop.named = {"a": loop}
            case _:
                loop.row = (loop,)
        with pytest.raises(ReturnError) as caught:
            signature.to_json(loop)
        assert caught.value.violations == [f"$.{path}: a Link object is not JSON (it contains itself)"]
    own: list[Any] = []
    own.append(own)
    deep: list[Any] = []
    table: dict[str, Any] = {}
    table["a"] = table
    for _ in range(127):
        deep = [deep]
    nest = of(Nest)
    assert freeze(nest.to_json(deep)) == freeze(deep)
    for value, told in (
        (own, "$[0]: a list object is not JSON (it contains itself)"),
        (table, "$.a: a dict object is not JSON (it contains itself)"),
        ([deep], "$" + "[0]" * 128 + ": a list object is not JSON (at most 128 may be inside one another)"),
    ):
        with pytest.raises(ReturnError) as caught:
            nest.to_json(value)
        assert caught.value.violations == [told]


def test_everything_wrong_with_a_result_is_named() -> None:
    with pytest.raises(ReturnError) as caught:
        of(list[Box | int]).to_json([1, "x", Box(cast("Any", None), cast("Any", 3))])
    assert caught.value.violations == [
        '$[1]: "x" fits none of the types of the union',
        '$[2].width: null is not of type "integer"',
        "$[2].label: 3 fits none of the types of the union",
    ]


def test_without_an_annotation_a_result_is_passed_on_as_it_is() -> None:
    def bare(): ...

    def never() -> typing.NoReturn:
        raise SystemExit

    for signature in (inspect_function(bare), inspect_function(never), of(Any), of(object)):
        value = object()
        assert signature.to_json(value) is value
        assert signature.returns_schema == {}
        assert not signature.returns_text


def test_only_text_is_text() -> None:
    texts = {"str": str, "annotated": Annotated[str, "a"], "new": NewType("Name", str)}
    others = {"union": str | None, "enum": Level, "path": pathlib.Path, "any": Any}
    assert all(of(annotation).returns_text for annotation in texts.values())
    assert not any(of(annotation).returns_text for annotation in others.values())


def test_a_subclass_is_returned_as_what_was_promised_and_a_union_prefers_the_exact_class() -> None:
    @attrs.frozen
    class Hotel(Place):
        stars: int = 5

    assert of(Place).to_json(Hotel("R")) == {"city": "R", "zip": 0}
    assert of(Place | Hotel).to_json(Hotel("R")) == {"city": "R", "zip": 0, "stars": 5}
    assert of(Place | None).to_json(Hotel("R")) == {"city": "R", "zip": 0}


def test_fields_that_the_constructor_does_not_take_are_part_of_results_only() -> None:
    signature = of(Computed)
    assert signature.to_json(Computed(2)) == {"base": 2, "double": 4}
    assert list(properties(signature, "returns_schema")) == ["base", "double"]
    assert list(shown(Computed)["properties"]) == ["base"]


def test_a_recursive_result_has_its_definitions() -> None:
    signature = of(Node)
    assert signature.returns_schema["$ref"] == "#/$defs/Node"
    assert list(properties(signature, "returns_schema", key="$defs")) == ["Node"]


# ---- random types and values of them -------------------------------------------------------------------------

Typed: TypeAlias = "tuple[Any, st.SearchStrategy[Any]]"
_WORDS = st.text("ab é\u2028\U0001f600\0", max_size=5)
_SIMPLE: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (None, st.none()),
    (bool, st.booleans()),
    (int, st.integers()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (str, _WORDS),
    (Level, st.sampled_from(Level)),
    (Mixed, st.sampled_from(Mixed)),
    (Literal["a", 2, True], st.sampled_from(["a", 2, True])),
    (Annotated[int, Meta(ge=2, lt=9)], st.integers(2, 8)),
    (Annotated[str, Meta(min_length=1, max_length=2)], _WORDS.filter(lambda word: 1 <= len(word) <= 2)),
]
_TEXTS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (datetime.datetime, st.datetimes(timezones=st.just(UTC))),
    (datetime.date, st.dates()),
    (datetime.time, st.times()),
    (datetime.timedelta, st.timedeltas(min_value=datetime.timedelta(-9), max_value=datetime.timedelta(9))),
    (uuid.UUID, st.uuids()),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (bytes, st.binary(max_size=5)),
]
_MEMBERS: list[Typed] = [
    (int, st.integers()),
    (str, _WORDS),
    (Level, st.sampled_from(Level)),
    (uuid.UUID, st.uuids()),
]
_KEYS = st.text("ab c", max_size=3)


def _attrs_class(fields: dict[str, Any]) -> Any:
    return attrs.make_class("Made", {name: attrs.field(type=each) for name, each in fields.items()}, frozen=True)


def _converting_class(fields: dict[str, Any]) -> Any:
    made: dict[str, Any] = {
        name: attrs.field(type=each, converter=lambda value: value) for name, each in fields.items()
    }
    return attrs.make_class("Converting", made, frozen=True)


def _typed_dict(fields: dict[str, Any]) -> Any:
    make: Any = TypedDict
    return make("Made", {**fields, "left_out": typing_extensions.NotRequired[int]})


_CLASSES: list[Callable[[dict[str, Any]], Any]] = [
    _attrs_class,
    _converting_class,
    _typed_dict,
    lambda fields: dataclasses.make_dataclass("Made", list(fields.items())),
    lambda fields: msgspec.defstruct("Made", list(fields.items())),
    lambda fields: NamedTuple("Made", list(fields.items())),
]


def _container(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def of_class(make: Callable[[dict[str, Any]], Any], parts: list[Typed]) -> Typed:
        names = ["first", "second", "third"][: len(parts)]
        cls = make({name: part[0] for name, part in zip(names, parts, strict=True)})
        values = st.fixed_dictionaries({name: part[1] for name, part in zip(names, parts, strict=True)})
        return cls, values.map(lambda given: cls(**given))

    parts = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        inner.map(lambda part: (list[part[0]], st.lists(part[1], max_size=3))),
        inner.map(lambda part: (tuple[part[0], ...], st.lists(part[1], max_size=3).map(tuple))),
        inner.map(lambda part: (dict[str, part[0]], st.dictionaries(_KEYS, part[1], max_size=3))),
        inner.map(lambda part: (Optional[part[0]], st.none() | part[1])),  # noqa: UP045 - of a variable
        st.sampled_from(_MEMBERS).map(lambda part: (set[part[0]], st.sets(part[1], max_size=3))),
        parts.map(
            lambda some: (tuple.__class_getitem__(tuple(part[0] for part in some)), st.tuples(*(p[1] for p in some)))
        ),
        parts.map(_union),
        st.builds(of_class, st.sampled_from(_CLASSES), parts),
    )


def _union(parts: list[Typed]) -> Typed:
    annotation = typing.Union[tuple(part[0] for part in parts)]  # noqa: UP007 - of a tuple
    return annotation, st.one_of(*(part[1] for part in parts))


def types(*leaves: Typed) -> st.SearchStrategy[Typed]:
    return st.recursive(st.sampled_from(leaves), _container, max_leaves=5)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.sampled_from([0.5, 2.0])
    | st.sampled_from(["", "a", "low", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["first", "second", "left_out", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def mutated(value: Any, data: st.DataObject) -> Any:
    """The value with one part of it replaced, left out or added."""
    if isinstance(value, list) and value and data.draw(st.booleans()):
        parts = cast("list[Any]", value)
        at = data.draw(st.integers(0, len(parts) - 1))
        return [*parts[:at], mutated(parts[at], data), *parts[at + data.draw(st.integers(0, 1)) :]]
    if isinstance(value, dict) and value and data.draw(st.booleans()):
        items = cast("dict[str, Any]", value)
        key = data.draw(st.sampled_from(sorted(items)))
        changed = {**items, key: mutated(items[key], data)}
        return changed if data.draw(st.booleans()) else {name: part for name, part in items.items() if name != key}
    return data.draw(_JSON)


def judged(schema: Any, value: object) -> bool:
    """Whether the value fits, by a validator that the package does not use."""
    formats = jsonschema.FormatChecker(["uuid"])  # a set may have UUIDs in it
    validator: Any = jsonschema.Draft202012Validator(schema, format_checker=formats)  # its stubs are not strict
    return validator.is_valid(value)


@given(types(*_SIMPLE, *_TEXTS), st.data())
def test_the_schema_of_a_type_takes_the_json_of_its_values_and_the_json_gives_them_back(
    typed: Typed, data: st.DataObject
) -> None:
    annotation, values = typed
    signature = of(annotation)
    value = data.draw(values)
    written = json.loads(json.dumps(signature.to_json(value)))
    assert judged(signature.returns_schema, written)
    assert judged(signature.parameters, {"x": written})
    again = signature.bind(freeze({"x": written}))["x"]
    assert signature.to_json(again) == written


@given(types(*_SIMPLE), st.data())
def test_the_schema_of_a_type_takes_exactly_what_the_type_takes(typed: Typed, data: st.DataObject) -> None:
    annotation, values = typed
    signature = of(annotation)
    sent = mutated(json.loads(json.dumps(signature.to_json(data.draw(values)))), data)
    is_valid = judged(signature.parameters, {"x": sent})
    if not is_valid:
        with pytest.raises(ArgumentsError, match=r"\$"):
            signature.bind(freeze({"x": sent}))
        return
    got = signature.bind(freeze({"x": sent}))["x"]
    has_sets = "uniqueItems" in json.dumps(signature.parameters)  # their order is not kept
    assert signature.to_json(got) == sent or has_sets


@given(types(*_SIMPLE, *_TEXTS), st.data())
def test_what_msgspec_converts_in_one_step_the_shapes_convert_alike(typed: Typed, data: st.DataObject) -> None:
    annotation, values = typed
    signature = of(annotation)
    written = json.loads(json.dumps(signature.to_json(data.draw(values))))
    quick = signature.bind(freeze({"x": written}))["x"]

    # Beside an argument that fits but cannot be converted at once, nothing else is either.
    def probe(x: Any, whole: int) -> None: ...

    probe.__annotations__["x"] = annotation
    slow = inspect_function(probe).bind(freeze({"x": written, "whole": 1.0}))
    assert slow["whole"] == 1
    assert slow["x"] == quick
    assert type(slow["x"]) is type(quick)


def test_a_default_that_its_own_annotation_refuses_is_not_shown() -> None:
    """A model would send it."""
    assert shown(int, "five") == {"type": "integer"}


class Linked(msgspec.Struct):
    rest: "tuple[Linked | None, int]"  # noqa: UP037 - it names itself


def test_rows_that_are_too_deep_are_named_with_their_path() -> None:
    value: Any = (None, 0)
    for number in range(100):
        value = (Linked(value), number)
    with pytest.raises(ReturnError, match=r"^\$\[0\]\.rest.*at most 128 may be inside one another"):
        of(tuple[Linked | None, int]).to_json(value)
