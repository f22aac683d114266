"""JSON values as a tool call carries them: checked, copied and frozen.

:func:`freeze` and :func:`parse` are the only ways in. They make immutable containers, so that what a policy approved is
what the body receives, and refuse whatever JSON text cannot carry unchanged. :func:`thaw` is the way out. Nothing here
knows of tools or of Trio; every function is synchronous and none is a checkpoint.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ForwardRef, NoReturn, TypeAlias, final

from ._json_text import MAX_DEPTH, JsonTextError, decode, first_fault, read_text
from ._json_words import class_name, describe, describe_by_class, json_path, shorten

__all__ = ["MAX_DEPTH", "FrozenDict", "FrozenJson", "JsonTextError", "NotJsonError", "freeze", "parse", "thaw"]

if TYPE_CHECKING:
    FrozenJson: TypeAlias = "bool | int | float | str | tuple[FrozenJson, ...] | Mapping[str, FrozenJson] | None"
    """What :func:`freeze` returns. An object is a ``dict`` that cannot be changed, an array is a ``tuple``."""
else:
    # The recursive parts know their module, so that typing.get_type_hints can read an annotation in any other one.
    _ARRAY = ForwardRef("tuple[FrozenJson, ...]", module=__name__)
    _OBJECT = ForwardRef("Mapping[str, FrozenJson]", module=__name__)
    FrozenJson = bool | int | float | str | _ARRAY | _OBJECT | None

_type_of: Callable[[object], type] = type  # of an object of unknown type, type() itself is of unknown type to a checker


class NotJsonError(ValueError):
    """A value holds something that JSON text cannot carry unchanged.

    Only the first offender in document order is named: ``$.items[3].price: nan is not JSON``.

    Attributes:
        path: Where it is, ``$`` being the whole value: ``$.items[3]["unit price"]``. For a key that is not JSON it is
            the path of the mapping that has it.
        offender: What is there, in a few words.
        hint: What is wrong with it, where that is not plain to see; else empty.
    """

    def __init__(self, path: str, offender: str, hint: str = "") -> None:
        super().__init__(path, offender, hint)
        self.path = path
        self.offender = offender
        self.hint = hint

    def __str__(self) -> str:
        reason = f" ({self.hint})" if self.hint else ""
        return f"{shorten(self.path, 500)}: {self.offender} is not JSON{reason}"


@final
class FrozenDict(dict[str, FrozenJson]):
    """A JSON object that cannot be changed: what :func:`freeze` makes of a mapping.

    It is a ``dict``, so that ``json.dumps``, validators and ``match`` take it as it is. It equals a plain dict of equal
    values (an array in it is a tuple, and equals only a tuple), and equal ones have equal hashes. A copy of it, deep or
    not, is itself; a pickle of it is checked again when it is read. Two operations give a plain dict whose values are
    still frozen: ``frozen | other`` and ``frozen.copy()``. For a dict that can be changed throughout there is
    :func:`thaw`.

    Only :func:`freeze` makes one, because an instance stands for "already checked". The immutability is a contract, not
    a wall: ``dict.__setitem__(frozen, ...)`` gets round it.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("FrozenDict is final: an instance counts as checked, and a subclass might not be")

    def __init__(self, *_arguments: object, **_items: object) -> None:
        raise TypeError("a FrozenDict is made by freeze(value), not by calling the class")

    def _refuse(self: object, *_arguments: object, **_items: object) -> NoReturn:
        raise TypeError("a frozen JSON object cannot be changed; thaw() gives a copy that can")

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = clear = setdefault = _refuse

    def __hash__(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # a dict has None
        return hash(frozenset(self.items()))

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, _memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return freeze, (thaw(self),)


_CONTAINERS = frozenset({FrozenDict, tuple})  # exact types of the containers in a frozen value
_fill = dict[str, FrozenJson].update  # the method that FrozenDict refuses


def freeze(value: object) -> FrozenJson:
    """Copy a JSON value into a form that nobody can change.

    Accepted are None, bool, int, finite float, str without lone surrogates, mappings with str keys, lists and tuples,
    to a depth of 128 containers. A subclass is copied to its plain type by what it stores, whatever its methods answer:
    an ``IntEnum`` member to int, a named tuple to tuple. Nothing else is converted. A part may occur twice, but not
    inside itself.

    An object that is frozen already comes back as itself. Not a checkpoint; any thread may call it.

    Args:
        value: The value. It is not changed, and later changes to it do not reach the copy.

    Returns:
        The same value, objects as a ``dict`` that cannot be changed and arrays as tuples.

    Raises:
        NotJsonError: Something in it is not JSON. The message names the first such part and its path.
    """
    try:
        return _freeze(value, 0)
    except _RefusedError as refused:
        error = refused.located()
    raise error


def thaw(frozen: FrozenJson) -> Any:
    """Copy a frozen value into plain dicts and lists, which can be changed. Not a checkpoint.

    Args:
        frozen: What :func:`freeze` returned. A value that is not frozen yet is held against the same rules first.

    Returns:
        A dict for an object, a list for an array; other values cannot be changed and come back as they are.

    Raises:
        NotJsonError: The value was not frozen, and is not JSON.
    """
    return _thaw(freeze(frozen))


def parse(text: str | bytes | bytearray | memoryview) -> FrozenJson:
    """Read strict JSON text, as a model sends it. Not a checkpoint.

    Any JSON value may be the root. Beyond what the standard decoder refuses, these are no JSON: a key twice in one
    object, NaN and infinities, a float that overflows to one, half of a surrogate pair, a byte order mark, bytes that
    are not UTF-8, more than 128 containers inside one another, an integer of more digits than ``int`` reads. Text that
    is empty or blank is no JSON either; a caller for whom it means "no arguments" asks first.

    Args:
        text: The text, or its encoding in UTF-8.

    Returns:
        The frozen value.

    Raises:
        JsonTextError: The text is not JSON. The message says what is wrong and where. No text raises anything else.
    """
    plain = read_text(text)
    try:
        return freeze(decode(plain))
    except NotJsonError:
        error = first_fault(plain)
    raise error


def _thaw(frozen: Any) -> Any:
    kind = _type_of(frozen)
    if kind is FrozenDict:
        return {key: _thaw(item) for key, item in frozen.items()}
    if kind is tuple:
        return [_thaw(item) for item in frozen]
    return frozen


class _RefusedError(Exception):
    """An offender on its way up: each container that it leaves adds the step that led to it, innermost first."""

    def __init__(self, offender: str, hint: str = "", *, in_key: bool = False, container: object = None) -> None:
        self.offender = offender
        self.hint = hint
        self.in_key = in_key  # a bad key belongs to its mapping: no step leads to it
        self.steps: list[str | int] = []
        # The containers themselves, not only their ids: a mapping may make its parts anew each time it is read.
        # If the offender is one, it stands first; so there is one more container than steps.
        self.containers = [container]

    def leave(self, container: object, step: str | int) -> None:
        if self.in_key:
            self.in_key = False
        else:
            self.steps.append(step)
            self.containers.append(container)

    def located(self) -> NotJsonError:
        """The refusal with its path; what is too deep because it contains itself is named where it first recurs."""
        steps = self.steps[::-1]
        met: set[int] = set()
        for depth, container in enumerate(reversed(self.containers)):
            if id(container) in met:
                return NotJsonError(json_path(steps[:depth]), describe_by_class(container), "it contains itself")
            met.add(id(container))
        return NotJsonError(json_path(steps), self.offender, self.hint)


def _freeze(value: Any, depth: int) -> FrozenJson:
    """The frozen copy of ``value``, which stands inside ``depth`` containers."""
    kind = _type_of(value)
    if kind is str:
        return _freeze_str(value)
    if kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return _freeze_float(value)
    # Containers are copied before they are walked: what is read on the way, or another thread, may change them.
    if kind is dict:
        return _freeze_pairs(value, value.copy().items(), depth)
    if kind is list:
        return _freeze_items(value, value.copy(), depth)
    if kind is tuple:
        return _freeze_items(value, value, depth)
    if kind is FrozenDict:
        return value if depth == 0 or _fits(value, MAX_DEPTH - depth) else _freeze_pairs(value, value.items(), depth)
    return _freeze_unusual(value, depth)


def _freeze_str(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise _RefusedError(describe(value), f"character {error.start} is half of a surrogate pair") from None
    return value


def _freeze_float(value: float) -> float:
    if not math.isfinite(value):
        raise _RefusedError(repr(value))
    return value


def _freeze_pairs(container: object, pairs: Iterable[tuple[Any, Any]], depth: int) -> FrozenDict:
    if depth == MAX_DEPTH:
        raise _too_deep(container)
    frozen: dict[str, FrozenJson] = {}
    key = ""
    try:
        for key, item in pairs:
            if type(key) is not str or not key.isascii():
                key = _freeze_key(key)
            if key in frozen:  # two keys of a str subclass may differ and store the same text
                raise _RefusedError(f"a second key {describe(key)}", in_key=True)
            kind = _type_of(item)
            plain = (kind is str and item.isascii()) or kind is int or kind is bool or item is None
            frozen[key] = item if plain else _freeze(item, depth + 1)
    except _RefusedError as refused:
        refused.leave(container, key)
        raise
    result = dict.__new__(FrozenDict)
    _fill(result, frozen)
    return result


def _freeze_items(container: object, items: Iterable[Any], depth: int) -> tuple[FrozenJson, ...]:
    if depth == MAX_DEPTH:
        raise _too_deep(container)
    frozen: list[FrozenJson] = []
    try:
        for item in items:
            kind = _type_of(item)
            plain = (kind is str and item.isascii()) or kind is int or kind is bool or item is None
            frozen.append(item if plain else _freeze(item, depth + 1))
    except _RefusedError as refused:
        refused.leave(container, len(frozen))
        raise
    return tuple(frozen)


def _freeze_key(key: Any) -> str:
    if not issubclass(type(key), str):
        raise _RefusedError(f"the key {describe(key)}", "a key is a str", in_key=True)
    try:
        return _freeze_str(str.__str__(key))
    except _RefusedError as refused:
        raise _RefusedError(f"the key {refused.offender}", refused.hint, in_key=True) from None


def _freeze_unusual(value: Any, depth: int) -> FrozenJson:
    """Subclasses, and mappings that are no dict; everything else is refused.

    The type is asked, not isinstance: ``__class__`` may lie. The plain types' own methods read what is stored. Types
    are compared by identity throughout: a metaclass may forbid hashing, or call every type its equal.
    """
    kind = _type_of(value)
    if issubclass(kind, str):
        return _freeze_str(str.__str__(value))
    if issubclass(kind, int):
        return int.__index__(value)
    if issubclass(kind, float):
        return _freeze_float(float.__float__(value))
    if issubclass(kind, list):
        return _freeze_items(value, list[Any].copy(value), depth)
    if issubclass(kind, tuple):
        return _freeze_items(value, tuple[Any, ...].__iter__(value), depth)
    if _is_mapping(value):
        return _freeze_pairs(value, _read_pairs(value), depth)
    raise _RefusedError(describe(value))


def _is_mapping(value: object) -> bool:
    try:
        return issubclass(type(value), Mapping)
    except Exception:  # the answer is cached by the hash of the class, which its metaclass may refuse
        return False


def _read_pairs(value: Any) -> list[tuple[Any, Any]]:
    """All members of a mapping, read before the first is frozen: whatever is raised in here is the mapping's own."""
    kind = _type_of(value)
    try:
        if issubclass(kind, OrderedDict):  # its order is not that of the dict beneath
            return list(OrderedDict[Any, Any].items(value))
        if issubclass(kind, dict):
            return list(dict[Any, Any].items(value))
        return [(key, item) for key, item in value.items()]
    except Exception as error:
        raise _RefusedError(describe_by_class(value), f"reading it raised {class_name(error)}") from None


def _fits(container: Any, room: int) -> bool:
    """Whether no more than ``room`` containers enclose one another in a frozen container, itself included."""
    items = container.values() if type(container) is FrozenDict else container
    return room > 0 and all(_fits(item, room - 1) for item in items if type(item) in _CONTAINERS)


def _too_deep(container: object) -> _RefusedError:
    hint = f"at most {MAX_DEPTH} may be inside one another"
    return _RefusedError(describe_by_class(container), hint, container=container)
