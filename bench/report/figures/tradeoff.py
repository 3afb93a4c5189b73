"""Accuracy against privacy: a curve per defense over its strengths."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from smashbench.bench.experiment.metrics import ACCURACY, Metric
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures.base import Figure
from smashbench.bench.report.published import points
from smashbench.bench.report.statistics import Estimate
from smashbench.bench.report.style import COLUMN, SOFT, Mark, marks

LABELLED = 200
"""Most points that have their strength beside them."""
FLOORS = {
    "mean_image": "mean image",
    "class_mean": "class mean",
    "thumbnail_2x2": "2x2 thumbnail",
    "thumbnail_4x4": "4x4 thumbnail",
}
"""Predictors that need no attack, in words."""


def tradeoff(metric: Metric) -> Figure:
    """Accuracy against the worst case of ``metric``: a curve per defense, 95 % intervals, floors
    as lines."""
    return Figure(
        name=f"tradeoff_{metric.name}",
        caption=f"Accuracy against worst-case {metric.axis}.",
        applies=lambda board: metric.name in board.metrics(),
        draw=partial(_draw, metric),
        embedded=False,
    )


def _draw(metric: Metric, board: Board) -> Canvas:
    styles = marks(board)
    handles = _symbols(board, metric, styles)
    columns = max(1, -(-len(handles) // COLUMN))
    canvas = Canvas(figsize=(6.5 + 1.5 * columns, 5), layout="constrained")
    axes = canvas.subplots()
    _intervals(axes, board, metric, styles)
    for name, mark in styles.items():
        rows = [row for row in board.complete if row.defense == name]
        _curve(axes, mark, rows, metric, len(board.complete) <= LABELLED)
    _floor_lines(axes, board, metric)
    for row, value in points(board.suite, metric.name):  # published ones: hollow rings, named
        axes.plot(row.accuracy, value, "o", color=SOFT, markerfacecolor="none", markersize=7)
        beside: Any = {"xytext": (6, -3), "textcoords": "offset points"}
        axes.annotate(row.name, (row.accuracy, value), fontsize=6, color="#555555", **beside)
    axes.set_xlabel(ACCURACY.label)
    axes.set_ylabel(f"worst-case {metric.axis}")
    x, y = shown_values(board, metric)
    axes.set(xlim=_padded(x), ylim=_padded(y))
    private_upwards(axes, metric)
    title = f"{board.suite.name}: the better defense lies up and to the right"
    axes.set_title(title, loc="left", fontsize=10)
    canvas.legend(
        handles=handles,
        loc="outside right upper",
        title="defense, strength",
        alignment="left",
        ncols=columns,
    )
    return canvas


def shown_values(board: Board, metric: Metric) -> tuple[list[float], list[float]]:
    """What the two axes must reach: points, floors, and intervals as far as they are no wider than
    a sixth of what the points span; a row whose seeds differ wildly would otherwise leave no room
    for the others."""
    rows = [row for row in board.complete if row.accuracy]
    published = points(board.suite, metric.name)
    x = _shown(
        [row.accuracy for row in rows if row.accuracy], [row.accuracy for row, _ in published]
    )
    more = [*floors_of(board, metric).values(), *(value for _, value in published)]
    return x, _shown([row.worst(metric.name) for row in rows], more)


def _shown(estimates: Sequence[Estimate], others: Sequence[float]) -> list[float]:
    means = [estimate.mean for estimate in estimates] + list(others)
    least, most = min(means), max(means)
    room = (most - least or abs(most) or 1.0) / 6
    ends = [end for estimate in estimates for end in estimate[1:]]
    return [max(min([least, *ends]), least - room), min(max([most, *ends]), most + room)]


def _padded(ends: Sequence[float]) -> tuple[float, float]:
    low, high = ends
    margin = 0.04 * (high - low or 1.0)
    return low - margin, high + margin


def _intervals(axes: Axes, board: Board, metric: Metric, styles: dict[str, Mark]) -> None:
    """Bars for the intervals of all points: two artists, for there may be a thousand points."""
    rows = [row for row in board.complete if row.accuracy]
    x = np.reshape([row.accuracy for row in rows if row.accuracy], (-1, 3)).T
    y = np.reshape([row.worst(metric.name) for row in rows], (-1, 3)).T
    colours = [(*mpl.colors.to_rgb(styles[row.defense].ink.figure), 0.45) for row in rows]
    style: Any = {"colors": colours, "linewidth": 0.7}
    axes.hlines(y[0], x[1], x[2], **style)
    axes.vlines(x[0], y[1], y[2], **style)


def _curve(axes: Axes, mark: Mark, rows: list[Row], metric: Metric, labelled: bool) -> None:
    rows = [row for row in rows if row.accuracy]
    x = np.array([row.accuracy.mean for row in rows if row.accuracy])
    y = np.array([row.worst(metric.name).mean for row in rows])
    style = mark.line | {"markersize": 9 if len(rows) == 1 else 6}
    axes.plot(x, y, **style)
    doubtful = [bool(row.doubts) for row in rows]
    if any(doubtful):
        hollow = {**style, "linestyle": "", "markerfacecolor": "white", "zorder": 3}
        axes.plot(x[doubtful], y[doubtful], **hollow)
    for row, accuracy, worst in zip(rows, x, y, strict=True):
        if labelled and row.strength is not None:
            axes.annotate(
                f"{row.strength:g}",
                (accuracy, worst),
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=7,
                color=mark.ink.figure,
            )


def _symbols(board: Board, metric: Metric, styles: dict[str, Mark]) -> list[Line2D]:
    """The legend: every defense, and what hollow marks and grey rings are."""
    shown = board.by_defense()
    handles = [
        Line2D([], [], label=name, **mark.line) for name, mark in styles.items() if name in shown
    ]
    ring: Any = {"linestyle": "", "marker": "o", "markerfacecolor": "white"}
    if any(row.doubts for row in board.complete):
        handles.append(Line2D([], [], color="black", label="hollow: flagged", **ring))
    if found := points(board.suite, metric.name):
        source = found[0][0].source.replace(", ", ",\n", 2)
        handles.append(Line2D([], [], color=SOFT, label=source, **ring))
    return handles


def private_upwards(axes: Axes, metric: Metric) -> None:
    """More private is higher, whichever way the metric counts."""
    if metric.better == "lower":
        axes.invert_yaxis()
    elif metric.bounds[0] == 0:
        axes.set_ylim(bottom=0)


def floors_of(board: Board, metric: Metric) -> dict[str, float]:
    """What needs no attack, by predictor; not for a derived metric whose mean does not follow from
    the mean of the other."""
    if not board.floors or not (metric.score or metric.linear):
        return {}
    least = board.floors["mean_image"]
    return {
        name: float(metric.values({metric.judge: np.array(values[metric.judge])}, least))
        for name, values in board.floors.items()
        if metric.judge in values
    }


def _floor_lines(axes: Axes, board: Board, metric: Metric) -> None:
    for name, value in floors_of(board, metric).items():
        axes.axhline(value, color=SOFT, linewidth=0.8, linestyle=(0, (6, 3)))
        axes.annotate(
            FLOORS.get(name, name),
            (0.005, value),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            fontsize=7,
            color="#555555",
        )
