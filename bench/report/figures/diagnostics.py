"""What the regularisers say and do during training."""

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures.axes import logarithmic
from smashbench.bench.report.figures.base import Figure, readable
from smashbench.bench.report.figures.variances import HIGH, LOW, MIDDLE
from smashbench.bench.report.style import marks

COLUMNS = 3


def _panels(board: Board) -> list[str]:
    """The declared diagnostics that are not always 0, and have no figure of their own."""
    return [
        name
        for name in board.diagnostics()
        if not name.endswith((LOW, MIDDLE, HIGH))
        and any(row.measured(name) and np.nan_to_num(row.history[name]).any() for row in board.rows)
    ]


def _draw(board: Board) -> Canvas:
    """Every diagnostic over the epochs, a line per row, stronger defenses darker."""
    rows = [row for row in board.rows if row.history]
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.defense, []).append(row)
    styles, declared, panels = marks(board), board.diagnostics(), _panels(board)
    lines = -(-len(panels) // COLUMNS)
    canvas = Canvas(figsize=(9.5, 2.3 * lines), layout="constrained")
    grid = canvas.subplots(lines, COLUMNS, squeeze=False).flatten()
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    for name, axes in zip(panels, grid, strict=False):
        for defense, group in groups.items():
            for number, row in enumerate(group, start=1):
                if not row.measured(name):
                    continue
                weight = number / len(group)
                axes.plot(
                    np.arange(1, len(row.history[name]) + 1),
                    row.history[name],
                    label=defense if weight == 1 else None,
                    alpha=0.25 + 0.75 * weight,
                    lw=1.2,
                    **styles[defense].line | {"marker": ""},
                )
        axes.set_title(declared[name].label, loc="left", fontsize=8)
        if declared[name].logarithmic:
            logarithmic(axes, "y")
        else:
            axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    for axes in grid[max(0, len(panels) - COLUMNS) : len(panels)]:
        axes.set_xlabel("epoch")
    found = {
        text: line
        for axes in grid
        for line, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    canvas.legend(found.values(), found.keys(), loc="outside right upper")
    return canvas


DIAGNOSTICS = Figure(
    name="diagnostics",
    caption="What the regularisers say and do during training.",
    applies=lambda board: readable(board) and bool(_panels(board)),
    draw=_draw,
    style={"font.size": 8},
)
