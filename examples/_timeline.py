"""A picture of a batch: one self-contained HTML file with an SVG in it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import attrs

ROW, LEFT, WIDTH = 22, 190, 760  # pixels
COLOURS = {"parallel": "#3b7dd8", "keyed": "#8a56c2", "exclusive": "#c2562d", "limited": "#2d9c72"}


@attrs.define
class Row:
    """One call; times are seconds since the batch began, ``None`` where it did not come so far."""

    name: str
    lane: str
    started: float | None = None
    at_work: float | None = None
    answered: float | None = None
    committed: float | None = None
    code: str | None = None

    @property
    def outcome(self) -> str:
        """What became of it, in a word."""
        return "…" if self.committed is None else self.code or "done"


def page(rows: Sequence[Row], title: str) -> str:
    """The picture of what became of all calls."""
    ends = [time for row in rows for time in (row.committed, row.answered) if time is not None]
    span = max([*ends, 0.001])
    height = ROW * (len(rows) + 3)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>'
        '<body style="font: 13px sans-serif; margin: 24px; color: #222; background: #fff">'
        f"<h1 style='font-size: 18px'>{escape(title)}</h1>"
        f'<svg width="{LEFT + WIDTH + 220}" height="{height}" role="img" aria-label="{escape(title)}" font-size="12">'
        f"{_axis(span, len(rows))}{''.join(_row(row, number, span) for number, row in enumerate(rows))}"
        f"{_legend(len(rows))}</svg></body></html>\n"
    )


def _x(time: float, span: float) -> float:
    return round(LEFT + WIDTH * time / span, 1)


def _axis(span: float, rows: int) -> str:
    marks = [span * part / 5 for part in range(6)]
    lines = (
        f'<line x1="{_x(mark, span)}" y1="14" x2="{_x(mark, span)}" y2="{ROW * rows + 16}" stroke="#ddd"/>'
        f'<text x="{_x(mark, span)}" y="10" text-anchor="middle" fill="#777">{mark:.1f} s</text>'
        for mark in marks
    )
    return "".join(lines)


def _row(row: Row, number: int, span: float) -> str:
    top = 18 + ROW * number
    drawn = f'<text x="0" y="{top + 13}">{escape(row.name)}</text>'
    if row.started is not None:
        work = row.at_work if row.at_work is not None else row.committed
        drawn += _bar(row.started, work or span, span, top + 7, 4, "#bbb")
    if row.at_work is not None:
        end = row.answered if row.answered is not None else span
        drawn += _bar(row.at_work, end, span, top + 2, 14, COLOURS[row.lane])
    if row.committed is not None:
        drawn += f'<circle cx="{_x(row.committed, span)}" cy="{top + 9}" r="3" fill="#222"/>'
    colour = "#222" if row.code is None else "#b00020"
    outcome = f'<text x="{LEFT + WIDTH + 12}" y="{top + 13}" fill="{colour}">{escape(row.outcome)}</text>'
    return f'<g class="call">{drawn}{outcome}</g>'


def _bar(begin: float, end: float, span: float, top: int, height: int, colour: str) -> str:
    width = max(_x(end, span) - _x(begin, span), 1)
    return f'<rect x="{_x(begin, span)}" y="{top}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def _legend(rows: int) -> str:
    top = ROW * rows + 34
    parts = [
        f'<rect x="{LEFT + 110 * place}" y="{top}" width="12" height="12" fill="{colour}"/>'
        f'<text x="{LEFT + 110 * place + 18}" y="{top + 11}">{lane}</text>'
        for place, (lane, colour) in enumerate({**COLOURS, "waiting": "#bbb"}.items())
    ]
    dot = f'<circle cx="{LEFT + 556}" cy="{top + 6}" r="3"/><text x="{LEFT + 566}" y="{top + 11}">committed</text>'
    return "".join([*parts, dot])
