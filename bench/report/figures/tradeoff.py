"""Accuracy against privacy: a curve per defense over its strengths."""

from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from smashbench.bench.experiment.metrics import ACCURACY, Metric
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures.base import Figure, inches, write_title
from smashbench.bench.report.figures.texts import Text, write
from smashbench.bench.report.published import published_points
from smashbench.bench.report.style import SOFT, Mark, marks
from smashbench.bench.report.text import number
from smashbench.bench.report.verdict import headline
from smashbench.bench.report.view import EXPLAINED, FLOORS, Panel, View, names, panels, view

COLUMNS = 3
"""Panels beside each other, where every group has its own."""
GHOST = "#d8d8d8"
CLOSE = 0.03
"""Share of the axis within which the texts of two lines would overlap."""


def tradeoff(metric: Metric) -> Figure[Board]:
    """Accuracy against the worst case of ``metric``: a curve per defense, 95 % intervals, floors
    as lines."""
    return Figure(
        name=f"tradeoff_{metric.name}",
        caption=f"Accuracy against worst-case {metric.axis}.",
        applies=lambda board: metric.name in board.metrics,
        draw=partial(_draw, metric),
        embedded=False,
    )


def _draw(metric: Metric, board: Board) -> Canvas:
    each, shown, styles = panels(board), view(board, metric), marks(board)
    columns = min(COLUMNS, len(each))
    lines = -(-len(each) // columns)
    size = (7.5, 5.2) if len(each) == 1 else (0.6 + 4.0 * columns, 0.8 + 3.5 * lines)
    canvas = Canvas(figsize=inches(*size), layout="constrained")
    grid = canvas.subplots(lines, columns, squeeze=False, sharey=True).flatten()
    for axes in grid[len(each) :]:
        axes.set_axis_off()
    texts = [
        _panel(axes, panel, board, metric, shown.within(panel), styles)
        for axes, panel in zip(grid, each, strict=False)
    ]
    notes = ["hollow: flagged"] if shown.doubted else []
    notes += ["grey: defenses of other panels"] if len(each) > 1 else []
    label = f"{ACCURACY.label} ({', '.join(notes)})" if notes else ACCURACY.label
    canvas.supxlabel(label, fontsize="medium")
    canvas.supylabel(f"worst-case {metric.axis}", fontsize="medium")
    said = metric.name in ("fvu", "mse")  # who beats noise is tested in FVU
    told = headline(board) if said else f"{board.suite.name}: {metric.axis} against accuracy"
    if published_points(board.suite, metric.name):
        told += "; grey rings: as published"
    write_title(canvas, told)
    for axes, own in zip(grid, texts, strict=False):
        write(axes, own)
    return canvas


def _panel(
    axes: Axes,
    panel: Panel,
    board: Board,
    metric: Metric,
    shown: View,
    styles: dict[str, Mark],
) -> list[Text]:
    """Draws a panel; returns the texts that its marks are to have."""
    texts = []
    rows, marked = board.by_defense, shown.marked
    for name in rows:
        line = shown.line(rows[name])
        if name in panel.defenses:
            own = [row for row in rows[name] if row in marked]
            _intervals(axes, own, metric, styles[name])
            texts += _curve(axes, line, own, metric, styles[name], shown.doubted)
        else:
            axes.plot(*_points(line, metric).T, color=GHOST, linewidth=0.8, zorder=1)
    for row, value in published_points(board.suite, metric.name):  # hollow rings, named
        axes.plot(row.accuracy, value, "o", color=SOFT, markerfacecolor="none", markersize=7)
        texts.append(Text(row.accuracy, value, row.name, SOFT, first=False))
    axes.set(xlim=_padded(shown.x), ylim=_padded(shown.y))
    if metric.better == "lower":  # more private is higher, whichever way the metric counts
        axes.invert_yaxis()
    elif metric.bounds[0] == 0 and shown.y[0] < 0.3 * shown.y[1]:
        axes.set_ylim(bottom=0)
    _floors(axes, shown, metric, FLOORS if panel.title else EXPLAINED)
    _beyond(axes, [row for row in shown.beyond if row.defense in panel.defenses], styles)
    corner: Any = {"ha": "right", "va": "top", "transform": axes.transAxes, "color": SOFT}
    axes.text(0.995, 0.995, "better \N{NORTH EAST ARROW}", fontsize="small", **corner)
    axes.set_title(panel.title, loc="left", fontsize="medium")
    return texts


def _padded(ends: tuple[float, float]) -> tuple[float, float]:
    low, high = ends
    margin = 0.04 * (high - low or 1.0)
    return low - margin, high + margin


def _points(rows: list[Row], metric: Metric) -> np.ndarray:
    """(rows, 2): accuracy and worst case."""
    pairs = [(row.accuracy.mean, row.worst(metric.name).mean) for row in rows]
    return np.reshape(pairs, (-1, 2))


def _intervals(axes: Axes, rows: list[Row], metric: Metric, mark: Mark) -> None:
    colour = (*mpl.colors.to_rgb(mark.ink.figure), 0.5)
    x = np.reshape([row.accuracy for row in rows], (-1, 3)).T
    y = np.reshape([row.worst(metric.name) for row in rows], (-1, 3)).T
    style: Any = {"colors": colour, "linewidth": 0.9}
    axes.hlines(y[0], x[1], x[2], **style)
    axes.vlines(x[0], y[1], y[2], **style)


def _curve(
    axes: Axes,
    line: list[Row],
    rows: list[Row],
    metric: Metric,
    mark: Mark,
    doubted: list[Row],
) -> list[Text]:
    """Draws a defense: a line, and a mark at each of the rows; returns the texts at the marks."""
    axes.plot(*_points(line, metric).T, **mark.line | {"marker": ""})
    style = mark.line | {"markersize": 9 if len(line) == 1 else 6, "linestyle": ""}
    axes.plot(*_points(rows, metric).T, **style)
    doubtful = [row for row in rows if row in doubted]
    hollow = {"markerfacecolor": "white", "zorder": 3}
    axes.plot(*_points(doubtful, metric).T, **style | hollow)
    ink = mark.ink.figure
    return [
        Text(row.accuracy.mean, row.worst(metric.name).mean, text, ink, most_private)
        for row, text, most_private in names(rows, metric)
    ]


def _floors(axes: Axes, shown: View, metric: Metric, called: dict[str, str]) -> None:
    """Lines, of which close ones share a text at the first, and those beyond the axis as a text
    with an arrow."""
    named: dict[float, list[str]] = {}
    for name, value in shown.floors.items():
        axes.axhline(value, color=SOFT, linewidth=0.8, linestyle=(0, (6, 3)))
        near = (at for at in named if abs(value - at) < CLOSE * (shown.y[1] - shown.y[0]))
        named.setdefault(next(near, value), []).append(called.get(name, name))
    for value, words in named.items():
        where: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
        style: Any = {"xytext": (0, 2), "fontsize": "x-small", "color": SOFT}
        axes.annotate(", ".join(words), (0.005, value), **style, **where)
    if notes := shown.notes(metric):
        text = "\N{UPWARDS ARROW} " + ", ".join(notes)
        where = {"ha": "left", "va": "top", "transform": axes.transAxes}
        axes.text(0.44, 0.995, text, fontsize="x-small", color=SOFT, **where)


def _beyond(axes: Axes, rows: list[Row], styles: dict[str, Mark]) -> None:
    """Arrows at the left edge for rows that are less accurate than it."""
    for n, row in enumerate(rows):
        what = f"{row.label}{' collapsed' * row.collapsed}"
        accuracy = number(row.accuracy.mean, 2)
        axes.text(
            0.01,
            0.02 + 0.05 * n,
            f"\N{LEFTWARDS ARROW} {what}: accuracy {accuracy}",
            transform=axes.transAxes,
            color=styles[row.defense].ink.figure,
            fontsize="small",
        )
