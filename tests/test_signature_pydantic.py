"""Pydantic models as parameters and results of tools."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest

from trio_tools._json import freeze
from trio_tools._signature import ArgumentsError, ReturnError, inspect_function

pydantic = pytest.importorskip("pydantic")


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Street(pydantic.BaseModel):
    name: str
    title: str = ""


class Person(pydantic.BaseModel):
    """A person."""

    name: Annotated[str, pydantic.Field(min_length=1, description="in full")]
    age: int = 0
    height: float = 1.5
    born: datetime.date | None = None
    level: Level = Level.LOW
    home: Street | None = None
    friends: list[Person] = pydantic.Field(default_factory=list)
    extra: dict[str, Any] = pydantic.Field(default_factory=dict)

    @pydantic.field_validator("age")
    @classmethod
    def _check(cls, age: int) -> int:
        if age > 150:
            raise ValueError("too old")
        return age


class Cat(pydantic.BaseModel):
    kind: Annotated[str, pydantic.Field(pattern="^cat$")]


class Strange(pydantic.BaseModel):
    a: int

    @pydantic.field_validator("a")
    @classmethod
    def _check(cls, a: int) -> int:
        raise RuntimeError("out of order")


class Term(pydantic.BaseModel):
    of: Term | Factor | int


class Factor(pydantic.BaseModel):
    of: Term | Factor | int


class B(pydantic.BaseModel):
    kind: Literal["b"]
    of: list[Annotated[B | C, pydantic.Field(discriminator="kind")]]


class C(pydantic.BaseModel):
    kind: Literal["c"]
    model_config = pydantic.ConfigDict(extra="forbid")


class Formula(pydantic.BaseModel):
    of: Annotated[B | C, pydantic.Field(discriminator="kind")]


@pydantic.dataclasses.dataclass
class Checked:
    a: Annotated[int, pydantic.Field(ge=1)]


def probe(x: Person) -> Person:
    return x


SIGNATURE = inspect_function(probe)


def refused(sent: object, function: Any = probe) -> list[str]:
    with pytest.raises(ArgumentsError) as caught:
        inspect_function(function).bind(freeze({"x": sent}))
    return caught.value.violations


def test_a_model_is_received_and_returned() -> None:
    sent = {
        "name": "Ada",
        "age": 36.0,
        "height": 2,
        "born": "1815-12-10",
        "level": "high",
        "home": {"name": "s"},
        "friends": [{"name": "B"}],
        "extra": {"a": [1]},
    }
    got: Any = SIGNATURE.bind(freeze({"x": sent}))["x"]
    assert isinstance(got, Person)
    assert (got.age, got.born, got.level, got.extra) == (36, datetime.date(1815, 12, 10), Level.HIGH, {"a": [1]})
    assert isinstance(got.friends[0], Person)
    back = json.loads(json.dumps(SIGNATURE.to_json(got)))
    assert back["born"] == "1815-12-10"
    assert back["home"] == {"name": "s", "title": ""}
    assert jsonschema_rs.is_valid(SIGNATURE.returns_schema, back)


def test_its_schema_is_closed_has_no_titles_and_definitions_only_where_it_recurs() -> None:
    schema: Any = SIGNATURE.parameters
    person = schema["$defs"]["Person"]
    assert schema["properties"]["x"] == {"$ref": "#/$defs/Person"}
    assert list(schema["$defs"]) == ["Person"]
    assert person["additionalProperties"] is False
    assert "title" not in person
    assert person["description"] == "A person."
    assert person["properties"]["name"] == {"type": "string", "minLength": 1, "description": "in full"}
    assert person["properties"]["friends"]["items"] == {"$ref": "#/$defs/Person"}
    street = person["properties"]["home"]["anyOf"][0]
    assert list(street["properties"]) == ["name", "title"]
    assert street["additionalProperties"] is False


def test_every_array_says_what_its_items_are() -> None:
    class Arrays(pydantic.BaseModel):
        a: list[Any]
        b: tuple[int, str]
        c: set[int]

    def arrays(x: Arrays) -> None: ...

    schema: Any = inspect_function(arrays, local_names=locals()).parameters["properties"]
    items = {key: each["items"] for key, each in schema["x"]["properties"].items()}
    assert items == {"a": {}, "b": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "c": {"type": "integer"}}


def test_nothing_is_coerced_and_every_violation_is_named() -> None:
    sent: dict[str, Any] = {"name": "", "age": "36", "height": "x", "nam": 1, "born": "soon", "friends": [{}]}
    assert sorted(refused(sent)) == [
        '$.x.age: "36" is not of type "integer"',
        "$.x.born: Input should be a valid date in the format YYYY-MM-DD, input is too short",
        '$.x.friends[0]: "name" is required (string)',
        '$.x.height: "x" is not of type "number"',
        '$.x.name: "" is shorter than 1 character',
        '$.x: unknown key "nam" (did you mean "name"?)',
    ]


def test_what_the_schema_does_not_know_is_named_beside_what_it_does() -> None:
    types: dict[str, Any] = {
        "when": pydantic.PastDate,
        "at": pydantic.AwareDatetime,
        "address": pydantic.IPvAnyAddress,
        "price": Annotated[decimal.Decimal, pydantic.Field(max_digits=2)],
        "after": Annotated[datetime.date, pydantic.Field(gt=datetime.date(2020, 1, 1))],
        "kind": Literal["a"],
        "name": Annotated[str, pydantic.Field(min_length=2)],
        "count": Annotated[int, pydantic.Field(ge=1)],
        "n": int,
    }

    def facts(x: object) -> None: ...

    facts.__annotations__["x"] = pydantic.create_model("Facts", **{key: (kind, ...) for key, kind in types.items()})
    sent = {
        "when": "2999-01-01",
        "at": "2020-01-01T00:00:00",
        "address": "x",
        "price": "1.234",
        "after": "2019-01-01",
        "kind": "b",
        "name": "",
        "count": 0,
        "n": "x",
        "more": 1,
    }
    with pytest.raises(ArgumentsError) as caught:
        inspect_function(facts).bind(freeze({"x": sent}))
    places = [each.partition(":")[0] for each in caught.value.violations]
    assert sorted(places) == sorted(["$.x", *(f"$.x.{key}" for key in sent if key != "more")])


def test_json_in_the_place_of_a_result_is_held_against_its_schema_only() -> None:
    SIGNATURE.check_json(freeze({"name": "Ada", "born": "1815-12-10"}))


def test_what_a_field_says_of_a_parameter_is_kept_or_refused() -> None:
    def probe(x: object) -> None: ...

    def said(annotation: object) -> Any:
        probe.__annotations__["x"] = annotation
        return inspect_function(probe).parameters["properties"]

    field = pydantic.Field(ge=1, description="how many", examples=[3])
    told = {"type": "integer", "description": "how many", "examples": [3], "minimum": 1}
    assert said(Annotated[int, field])["x"] == told
    strict = pydantic.Field(strict=True, min_length=2, pattern="^a")
    assert said(Annotated[str, strict])["x"] == {"type": "string", "pattern": "^a", "minLength": 2}
    for metadata, why in (
        (pydantic.Field(alias="y"), "Field(alias=...) has no meaning here"),
        (pydantic.Field(default=3), "Field(default=...) has no meaning here"),
        (pydantic.Field(max_digits=3), "cannot be enforced here"),
        (pydantic.AfterValidator(abs), "cannot be enforced here"),
    ):
        with pytest.raises(TypeError) as caught:
            said(Annotated[int, metadata])
        assert why in str(caught.value)


def test_what_a_validator_raises_is_a_violation_at_its_place() -> None:
    assert refused({"name": "a", "friends": [{"name": "b", "age": 200}]}) == [
        "$.x.friends[0].age: Value error, too old"
    ]

    def strange(x: Strange) -> None: ...

    assert refused({"a": 1}, strange) == ["$.x: out of order"]


def test_a_model_stands_in_unions_and_in_pydantic_dataclasses() -> None:
    def union(x: list[Cat | Street | None]) -> None: ...

    def checked(x: Checked) -> Checked: ...

    sent = freeze({"x": [{"kind": "cat"}, {"name": "s"}, None]})
    assert inspect_function(union).bind(sent) == {"x": [Cat(kind="cat"), Street(name="s"), None]}
    assert inspect_function(checked).bind(freeze({"x": {"a": 1}})) == {"x": Checked(1)}
    assert inspect_function(checked).to_json(Checked(1)) == {"a": 1}
    assert refused({"a": 0}, checked) == ["$.x.a: 0 is less than the minimum of 1"]


def test_a_union_of_models_that_contain_it_needs_a_discriminator() -> None:
    def plain(x: Term) -> None: ...

    def told_apart(x: Formula) -> Formula: ...

    with pytest.raises(TypeError, match=r"Term holds a union .* Term \| Factor, .*discriminator="):
        inspect_function(plain)
    sent: dict[str, Any] = {"kind": "c"}
    for _ in range(50):
        sent = {"kind": "b", "of": [sent]}
    signature = inspect_function(told_apart)
    got = signature.bind(freeze({"x": {"of": sent}}))["x"]
    assert signature.to_json(got) == {"of": sent}
    assert len(refused({"of": {"kind": "b", "of": [{"kind": "b", "of": [{"kind": "c", "no": 1}]}]}}, told_apart)) == 1


def test_a_result_of_another_class_or_with_wrong_values_is_refused() -> None:
    with pytest.raises(ReturnError, match=r"\$: expected Person, got"):
        SIGNATURE.to_json({"name": "Ada"})
    with pytest.raises(ReturnError, match="int"):
        SIGNATURE.to_json(Person.model_construct(name="Ada", age="old"))
