"""What an attacker must have: leakage by its pairs, and by the releases of an image."""

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures.axes import counted
from smashbench.bench.report.figures.base import Figure, inches, write_title
from smashbench.bench.report.knowledge import ByKnowledge, by_pairs, by_releases
from smashbench.bench.report.losses import DROPS, within
from smashbench.bench.report.style import SOFT, marks

LEGEND = 1.9
"""Inches of its width, on a screen."""


def _rows(board: Board) -> list[Row]:
    """The undefended row, and of every defense the one that protects most while it costs little;
    all rows where nothing undefended is there."""
    return list(within(board, max(DROPS)).values()) or board.complete


Axis = tuple[str, Callable[[Row], list[ByKnowledge]], Callable[[ByKnowledge], int]]
"""What was varied, in words; the points of a row; how much of it a point has."""
AXES: tuple[Axis, ...] = (
    ("pairs of the attacker", by_pairs, lambda each: each.pairs),
    ("releases of an image", by_releases, lambda each: each.releases),
)


def _varied(board: Board) -> list[Axis]:
    """What was varied for one of the rows that are shown."""
    return [each for each in AXES if any(len(each[1](row)) > 1 for row in _rows(board))]


def _draw(board: Board) -> Canvas:
    """FVU of the strongest attack over the number of pairs and over that of releases, a line per
    defense, with intervals."""
    rows, axes_shown = _rows(board), _varied(board)
    width = 3.4 * len(axes_shown) + LEGEND
    canvas = Canvas(figsize=inches(width, 3.2), layout="constrained")
    styles = marks(board)
    grid = canvas.subplots(1, len(axes_shown), squeeze=False, sharey=True)[0]
    for axes, (label, found, size) in zip(grid, axes_shown, strict=True):
        for row in rows:
            points = found(row)
            at = [size(each) for each in points]
            ink = styles[row.defense].ink.figure
            ends = [each.fvu.low for each in points], [each.fvu.high for each in points]
            axes.fill_between(at, *ends, alpha=0.15, color=ink, linewidth=0)
            style = styles[row.defense].line | {"markersize": 4, "linewidth": 1.2}
            axes.plot(at, [each.fvu.mean for each in points], **style)
        _finish(axes, label, sorted({size(each) for row in rows for each in found(row)}))
    grid[0].set_ylabel(METRICS["fvu"].axis)
    handles = [Line2D([], [], label=row.label, **styles[row.defense].line) for row in rows]
    canvas.legend(handles=handles, loc="outside right upper")
    write_title(canvas, _message(board, rows[0]))
    return canvas


def _finish(axes: Axes, label: str, sizes: list[int]) -> None:
    counted(axes, sizes, label)
    axes.set_ylim(0, 1.05)
    axes.axhline(1.0, color=SOFT, linestyle="--", linewidth=0.8)


def _message(board: Board, row: Row) -> str:
    """How many pairs are shown to be enough for half of what all of them rebuild."""
    points = by_pairs(row)
    if len(points) < 2:
        return f"{board.suite.name}: what more releases of an image give away"
    most = max(0.0, 1 - points[-1].fvu.mean)
    enough = next((each for each in points if 1 - each.fvu.high >= most / 2), points[-1])
    return (
        f"{board.suite.name}, {row.title}: {enough.pairs:,} of {points[-1].pairs:,} pairs rebuild "
        f"{max(0.0, 1 - enough.fvu.mean):.0%} of the variance, all of them {most:.0%}"
    )


KNOWLEDGE = Figure(
    name="knowledge",
    caption="What an attacker must have: FVU of the strongest attack over the number of its pairs, "
    "and over that of the releases it sees of an image. Dashed: the mean image.",
    applies=lambda board: bool(_varied(board)),
    draw=_draw,
)
