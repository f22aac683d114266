"""Pydantic models as parameters and results. Pydantic is imported only once a model turns up, and is no dependency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import attrs
import msgspec

from ._errors import describe
from ._json import thaw
from ._namespaces import NoSchemaError
from ._shapes import Definitions, JsonSchema, Location, Problems, Shape, with_items
from ._violations import show

__all__ = ["Model", "is_model"]

_NOISE = frozenset({"title", "$defs", "discriminator"})
_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_LISTED_SCHEMAS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_COMPARISONS = frozenset({"greater_than", "greater_than_equal", "less_than", "less_than_equal", "multiple_of"})
_IN_SCHEMA = frozenset(
    {
        *("missing", "extra_forbidden", "literal_error", "enum", "int_from_float", "none_required"),
        *("string_too_short", "string_too_long", "string_pattern_mismatch", "too_short", "too_long"),
        *("union_tag_invalid", "union_tag_not_found"),
    }
)
_SCHEMAS = frozenset({"items", "additionalProperties", "propertyNames", "contains", "not"})


def is_model(cls: type) -> bool:
    """Whether the class is a pydantic model or a pydantic dataclass."""
    return hasattr(cls, "__pydantic_validator__")


def _adapter(cls: type) -> Any:
    import pydantic  # only someone who has it can have made such a class

    return pydantic.TypeAdapter(cls)


def _reader(model: Model) -> Any:
    adapter = _adapter(model.cls)
    _check_unions(model.cls, adapter.json_schema())
    return adapter


def _check_unions(cls: type, whole: JsonSchema) -> None:
    """Refuse a union of models that contain it: pydantic tries each, and in each everything that it contains."""
    defined = cast("Mapping[str, object]", whole.get("$defs", {}))
    reached = {name: set(_references(part)) for name, part in defined.items()}
    for _ in defined:
        reached = {name: found.union(*(reached[each] for each in found)) for name, found in reached.items()}
    for name, part in defined.items():
        for forms in _unions(part):
            again = [form for form in forms if name in reached[form] or form == name]
            if len(again) > 1:
                raise NoSchemaError(
                    f"{cls.__name__} holds a union of models that contain it, {' | '.join(again)}, and reading it would"
                    " take twice as long with every level: give each model a field such as kind: Literal[...], and"
                    ' write Annotated[... | ..., Field(discriminator="kind")]'
                )


def _references(part: Any) -> Iterator[str]:
    """The names of the definitions that a part of a schema refers to."""
    if isinstance(part, dict):
        items = cast("dict[str, Any]", part)
        if isinstance(target := items.get("$ref"), str):
            yield target.rpartition("/")[2]
        part = list(items.values())
    if isinstance(part, list):
        for each in cast("list[Any]", part):
            yield from _references(each)


def _unions(part: Any) -> Iterator[list[str]]:
    """For each union in a part of a schema, the names of the definitions among its forms."""
    if isinstance(part, dict):
        items = cast("dict[str, Any]", part)
        if isinstance(forms := items.get("anyOf"), list):
            yield [name for form in cast("list[JsonSchema]", forms) if "$ref" in form for name in _references(form)]
        part = list(items.values())
    if isinstance(part, list):
        for each in cast("list[Any]", part):
            yield from _unions(each)


@attrs.frozen(eq=False)
class Model(Shape):
    """A pydantic model, read and written by pydantic: strictly, as JSON."""

    cls: type
    adapter: Any = attrs.field(init=False, default=attrs.Factory(_reader, takes_self=True))

    def is_native(self) -> bool:
        return False

    def resembles(self, value: object, *, in_python: bool) -> bool:
        return isinstance(value, self.cls) or not in_python

    def schema(self, definitions: Definitions) -> JsonSchema:
        mode = "serialization" if definitions.of_results else "validation"
        whole = cast("JsonSchema", self.adapter.json_schema(mode=mode))
        return self._clean(whole, cast("Mapping[str, JsonSchema]", whole.get("$defs", {})), definitions)

    def decode(self, value: object, where: Location, problems: Problems) -> Any:
        if problems.of_results:
            return None  # pydantic reads what it wrote itself only in part: not its computed fields
        text = msgspec.json.encode(_integers(thaw(cast("Any", value))))
        try:
            return self.adapter.validate_json(text, strict=True)
        except Exception as error:
            if not hasattr(error, "errors"):  # a validator raised something of its own
                return problems.refuse(where, describe(error).message)
            for each in cast("Any", error).errors(include_url=False, include_context=False):
                place = where
                for step in each["loc"]:
                    place = (place, step)
                (problems.mismatch if _is_in_schema(each) else problems.refuse)(place, each["msg"])
            return None

    def encode(self, value: object, where: Location, problems: Problems) -> Any:
        if not isinstance(value, self.cls):
            return problems.mismatch(where, f"expected {self.cls.__name__}, got {show(value)}")
        try:
            return self.adapter.dump_python(value, mode="json", by_alias=True, warnings="error")
        except Exception as error:
            return problems.mismatch(where, describe(error).message)

    def _clean(self, schema: JsonSchema, defined: Mapping[str, JsonSchema], definitions: Definitions) -> JsonSchema:
        """A schema as the other shapes make theirs: closed, without titles, references only where a type recurs."""

        def clean(part: Any) -> Any:
            return self._clean(cast("JsonSchema", part), defined, definitions) if isinstance(part, dict) else part

        made: JsonSchema = {}
        if isinstance(target := schema.get("$ref"), str):
            name = target.rpartition("/")[2]
            made = definitions.inline((self, name), name, lambda: self._clean(defined[name], defined, definitions))
        for key, part in cast("dict[str, Any]", schema).items():
            if key in _NAMED_SCHEMAS:
                made[key] = {name: clean(inner) for name, inner in part.items()}
            elif key in _LISTED_SCHEMAS:
                made[key] = [clean(inner) for inner in part]
            elif key in _SCHEMAS:
                made[key] = clean(part)
            elif key not in _NOISE and key != "$ref":
                made[key] = part
        if made.get("type") == "array" and "items" not in made:
            made = with_items(made)
        if "properties" in made:
            made.setdefault("additionalProperties", False)
        return made


def _is_in_schema(error: Mapping[str, Any]) -> bool:
    """Whether the schema finds this error too: it knows types and keys, and bounds of what JSON has itself."""
    kind = error["type"]
    if kind in _COMPARISONS:  # a date, or a decimal number, is text in JSON
        return isinstance(error["input"], (int, float))
    return kind in _IN_SCHEMA or kind.endswith("_type")


def _integers(value: Any) -> Any:
    """JSON with each whole number as an integer: pydantic, when strict, takes no 5.0 for an ``int``."""
    if isinstance(value, dict):
        return {key: _integers(part) for key, part in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_integers(part) for part in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value
