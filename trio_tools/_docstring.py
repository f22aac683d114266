"""What a docstring says to a model: the text before its sections, and a line for each parameter."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import attrs
import docstring_parser

__all__ = ["Docstring", "read_docstring"]


@attrs.frozen
class Docstring:
    """A docstring, taken apart.

    Attributes:
        description: The text before the sections.
        parameters: Name of a parameter, or attribute, to what is said about it.
    """

    description: str = ""
    parameters: Mapping[str, str] = attrs.field(factory=dict[str, str])


def read_docstring(text: str | None) -> Docstring:
    """Take a docstring apart: Google, NumPy, Sphinx and Epydoc style, told apart by what is found.

    One that has no sections in any of them is all description.
    """
    if not text:
        return Docstring()
    try:
        parsed = docstring_parser.parse(text)
    except Exception:  # prose can trip the parser, and is then all description
        return Docstring(inspect.cleandoc(text).strip())
    # A line such as ":warning: hot" passes for a Sphinx field of a kind that nobody knows; it is prose.
    if all(type(field) is docstring_parser.DocstringMeta for field in parsed.meta):
        return Docstring(inspect.cleandoc(text).strip())
    parameters = {
        name.strip().lstrip("*"): field.description.strip()
        for field in parsed.params
        if field.description
        for name in field.arg_name.split(",")
    }
    return Docstring((parsed.description or "").strip(), parameters)
