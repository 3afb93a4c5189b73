"""Which class variances a threshold leaves alone."""

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures.axes import logarithmic
from smashbench.bench.report.figures.base import Figure, inches, readable, write_title
from smashbench.bench.report.style import marks
from smashbench.bench.report.verdict import listed

COLUMNS = 4
LOW, MIDDLE, HIGH = "variance_q10", "variance_q50", "variance_q90"
"""Quantiles of the variances in a batch, in units of tau."""


def _prefix(row: Row) -> str | None:
    """Of the names of the quantiles: empty, or of a stack its part's; None where there are none."""
    found = [name for name in row.diagnostics if name.endswith(MIDDLE) and row.measured(name)]
    return found[0].removesuffix(MIDDLE) if found else None


def _last_strengths(board: Board) -> dict[str, tuple[Row, str]]:
    """The last strength of every defense that has quantiles, and their prefix."""
    found = {}
    for row in board.rows:
        if row.history and (prefix := _prefix(row)) is not None:
            found[row.defense] = row, prefix
    return found


def _draw(board: Board) -> Canvas:
    """A panel per defense, at its last strength: median and 10 to 90 % of the variances against
    tau, over the epochs."""
    rows, styles = _last_strengths(board), marks(board)
    columns = min(COLUMNS, len(rows))
    lines = -(-len(rows) // columns)
    canvas = Canvas(figsize=inches(9.5, 2.3 * lines), layout="constrained")
    grid = canvas.subplots(lines, columns, squeeze=False, sharey=True).flatten()
    for axes in grid[len(rows) :]:
        axes.set_axis_off()
    for (row, prefix), axes in zip(rows.values(), grid, strict=False):
        low, middle, high = (
            np.maximum(row.history[prefix + name], 1e-6) for name in (LOW, MIDDLE, HIGH)
        )
        epochs = np.arange(1, len(middle) + 1)
        line = styles[row.defense].line | {"marker": ""}
        axes.fill_between(epochs, low, high, color=line["color"], alpha=0.25, lw=0)
        axes.plot(epochs, middle, **line)
        axes.axhline(1, color="0.4", lw=1, ls=":")
        axes.set_title(row.label, loc="left", fontsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.set_xlabel("epoch")
    logarithmic(grid[0], "y")
    for axes in grid[::columns]:
        axes.set_ylabel("variance / tau")
    above = [r.defense for r, prefix in rows.values() if r.history[prefix + MIDDLE][-1] > 1]
    title = f"median variances stay above their threshold: {listed(above) or 'of none'}"
    write_title(canvas, f"{board.suite.name}: {title}")
    return canvas


VARIANCES = Figure(
    name="variances",
    caption="What the gates see: the class variances in a batch in units of their threshold tau "
    "(dotted), median and 10 to 90 %, at the last strength of each defense.",
    applies=lambda board: readable(board) and bool(_last_strengths(board)),
    draw=_draw,
    style={"font.size": 8},
)
