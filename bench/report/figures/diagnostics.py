"""What the regularisers say and do during training: small multiples."""

import math
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures.axes import logarithmic
from smashbench.bench.report.figures.base import Figure, small_multiples, write_title
from smashbench.bench.report.figures.variances import HIGH, LOW, MIDDLE
from smashbench.bench.report.style import Mark, marks
from smashbench.bench.report.text import percent
from smashbench.bench.report.view import panels

COLUMNS = 6
LEGEND = 1.8
"""Inches of the legend's width, on a screen."""
LETTERS = 30
"""Most in a line of a panel's title."""
PLAIN = {"marker": "", "linewidth": 1.2}
"""Lines without marks."""


class _Cell(NamedTuple):
    """A panel: a diagnostic of one defense, or of one group where there are many."""

    diagnostic: str
    title: str
    rows: list[Row]


def _diagnostics(board: Board) -> list[str]:
    """The declared diagnostics that are not always 0, and have no figure of their own."""
    return [
        name
        for name in board.diagnostics
        if not name.endswith((LOW, MIDDLE, HIGH))
        and any(row.measured(name) and np.nan_to_num(row.history[name]).any() for row in board.rows)
    ]


def _cells(board: Board) -> list[_Cell]:
    """Every diagnostic by defense, at all its strengths; or by group, at the last of each
    defense, where a defense of that group has it."""
    rows: dict[str, list[Row]] = {}
    for row in board.rows:
        if row.history:
            rows.setdefault(row.defense, []).append(row)
    each = panels(board) if board.complete else []
    found = []
    for name in _diagnostics(board):
        if len(each) > 1:
            parts = {
                panel.title: [rows[d][-1] for d in panel.defenses if d in rows] for panel in each
            }
            parts = {
                title: group
                for title, group in parts.items()
                if any(row.role == "defense" and row.measured(name) for row in group)
            }
        else:
            parts = rows
        for title, group in parts.items():
            if measured := [row for row in group if row.measured(name)]:
                found.append(_Cell(name, title, measured))
    return found


def _draw(board: Board) -> Canvas:
    """A panel per diagnostic and defense, on the scale of that diagnostic; stronger is darker."""
    cells, styles, declared = _cells(board), marks(board), board.diagnostics
    columns = min(COLUMNS, len(cells))
    many = any(len({row.defense for row in cell.rows}) > 1 for cell in cells)
    width = 1.9 * columns + LEGEND * many
    canvas, grid = small_multiples(len(cells), columns, (width / columns, 1.7), (4.5, 6), 3)
    spans: dict[str, list[Axes]] = {}
    if many:
        edge = 1 - LEGEND / width
        canvas.subplots_adjust(right=edge)
        place: Any = {"loc": "upper left", "bbox_to_anchor": (edge, grid[0].get_position().y1)}
        handles = _legend(cells, styles)
        legend = canvas.legend(handles=handles, alignment="left", fontsize="small", **place)
        for text, handle in zip(legend.get_texts(), handles, strict=True):
            text.set_fontweight("bold" if handle.get_linestyle() == "None" else "normal")
    for cell, axes in zip(cells, grid, strict=False):
        _panel(axes, cell, styles, many=many)
        label = fill(declared[cell.diagnostic].label, LETTERS)
        axes.set_title(f"{label}\n{cell.title}", loc="left", fontsize="small")
        axes.tick_params(labelsize="small")
        axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
        spans.setdefault(cell.diagnostic, []).append(axes)
    for name, same in spans.items():
        ends = np.array([axes.get_ylim() for axes in same])
        low, high = ends[:, 0].min(), ends[:, 1].max()
        for axes in same:
            if declared[name].logarithmic:
                values = np.concatenate([line.get_ydata() for a in same for line in a.lines])
                known = values[np.isfinite(values) & (values > 0)]
                axes.set_ylim(*((known.min() / 1.2, known.max() * 1.2) if known.size else (1, 10)))
                logarithmic(axes, "y")
            else:
                axes.set_ylim(min(0.0, low), high)
    canvas.supxlabel("epoch", fontsize="medium")
    write_title(canvas, _message(board))
    return canvas


def _panel(axes: Axes, cell: _Cell, styles: dict[str, Mark], *, many: bool) -> None:
    for number, row in enumerate(cell.rows, start=1):
        values = row.history[cell.diagnostic]
        style = styles[row.defense].line | PLAIN
        if not many:
            style |= {"alpha": 0.25 + 0.75 * number / len(cell.rows), "linestyle": "-"}
        axes.plot(np.arange(1, len(values) + 1), values, **style)


def _legend(cells: list[_Cell], styles: dict[str, Mark]) -> list[Line2D]:
    """The lines of panels of several defenses: those that all groups have, and then each group's
    below its title, since colours mean others in another."""
    groups: dict[str, dict[str, None]] = {}
    for cell in cells:
        groups.setdefault(cell.title, {}).update(dict.fromkeys(row.defense for row in cell.rows))
    shared = [name for name in styles if all(name in names for names in groups.values())]
    parts = {"": shared} | {
        title: [name for name in names if name not in shared] for title, names in groups.items()
    }
    handles = []
    for title, names in parts.items():
        if title:
            handles.append(Line2D([], [], linestyle="none", label=title))
        for name in names:
            handles.append(Line2D([], [], label=name, **styles[name].line | PLAIN))
    return handles


def _message(board: Board) -> str:
    """Whose features vary least within classes, against the undefended model."""
    name = "class_variance"
    plain = [row.last(name) for row in board.controls]
    known = [
        (value, row)
        for row in board.complete
        if row.role == "defense" and (value := row.last(name)) and math.isfinite(value)
    ]
    if not (plain and plain[0] and math.isfinite(plain[0]) and known):
        return f"{board.suite.name}: diagnostics over the epochs; stronger is darker"
    least, row = min(known, key=lambda each: each[0])
    share = percent(least / plain[0])
    return f"{board.suite.name}: {row.label} leaves {share} of the variance within classes"


DIAGNOSTICS = Figure(
    name="diagnostics",
    caption="What the regularisers say and do during training. Each panel is one diagnostic of one "
    "defense, or of one group at the last strengths; all panels of a diagnostic share their scale, "
    "and stronger is darker.",
    applies=lambda board: bool(_diagnostics(board)),
    draw=_draw,
    style={"font.size": 8},
)
