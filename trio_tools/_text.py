"""Text that can be written as UTF-8, and so shown to a model."""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["check_text", "is_well_formed", "well_formed"]


def check_text(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """A validator of attrs: the value is a ``str``.

    Raises:
        TypeError: If it is not.
    """
    if not isinstance(value, str):
        raise TypeError(f"{attribute.name} must be a str, not {type(value).__name__}")


def is_well_formed(text: str) -> bool:
    """Whether ``text`` has no lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def well_formed(text: str) -> str:
    """``text`` with each lone surrogate replaced by ``?``; undecodable file names in error messages have them."""
    return text if is_well_formed(text) else text.encode(errors="replace").decode()
