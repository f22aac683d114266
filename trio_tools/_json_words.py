"""How messages about JSON name a place and a value: bounded, and fit to be read by a model."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable
from typing import Any

__all__ = ["class_name", "describe", "describe_by_class", "json_path", "quoted", "shorten"]

_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = 80
_BRIEF.maxlevel = 2


def json_path(steps: Iterable[str | int]) -> str:
    """The steps from the root as one text: ``$.items[3]["unit price"]``."""
    return "$" + "".join(_step(step) for step in steps)


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if step.isidentifier() else f"[{quoted(step)}]"


def quoted(text: str) -> str:
    """The text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)


def shorten(text: str, limit: int) -> str:
    """The text, with its middle left out if it is longer than ``limit`` characters."""
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]}…{text[-half:]}"


def describe(value: Any) -> str:
    """A bounded repr of any object at all, or its class where that fails or tells no more than an address."""
    try:
        # Bytes are cut first: an image that was returned by mistake is large.
        shown = value[:80] if type(value) in (bytes, bytearray) else value
        # Half of a surrogate pair in a repr must not spoil the message.
        text = str.__str__(_BRIEF.repr(shown)).encode(errors="backslashreplace").decode()
    except Exception:
        return describe_by_class(value)
    return describe_by_class(value) if " at 0x" in text else shorten(text, 120)


def describe_by_class(value: object) -> str:
    """The class of any object at all: ``a list object``."""
    name = class_name(value)
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name} object"


def class_name(value: object) -> str:
    """The name of the class of any object at all, whatever its metaclass makes of ``__name__``."""
    name: str = type.__dict__["__name__"].__get__(type(value))
    return shorten(name, 80)
