"""Rows of words as lines in columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["columns"]


def columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """One line for each row; all rows have the same number of cells, and there is one at least."""
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
