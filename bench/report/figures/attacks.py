"""Every attack by itself."""

import numpy as np
from matplotlib.figure import Figure as Canvas

from smashbench.bench.report.board import Board
from smashbench.bench.report.figures.base import Figure, readable
from smashbench.bench.report.style import marks


def _draw(board: Board) -> Canvas:
    """Accuracy against the MSE of every attack, a panel each on the same scale, a curve per
    defense."""
    attacks = list(dict.fromkeys(name for row in board.complete for name in row.attacks))
    columns = min(3, len(attacks))
    lines = -(-len(attacks) // columns)
    canvas = Canvas(figsize=(1.6 + 2.8 * columns, 0.6 + 2.3 * lines), layout="constrained")
    grid = canvas.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flatten()[len(attacks) :]:
        axes.set_axis_off()
    styles = marks(board)
    for attack, axes in zip(attacks, grid.flatten(), strict=False):
        for name, rows in board.by_defense().items():
            means = [
                (row.accuracy.mean, row.attacks[attack].estimates["mse"].mean)
                for row in rows
                if row.accuracy and attack in row.attacks
            ]
            style = styles[name].line | {"markersize": 4, "linewidth": 1}
            axes.plot(*np.reshape(means, (-1, 2)).T, label=name, **style)
        axes.set_title(attack, loc="left", fontsize=8)
        axes.set_ylim(bottom=0)
    canvas.supxlabel("test accuracy", fontsize=8)
    canvas.supylabel("MSE (higher is more private)", fontsize=8)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside right upper")
    return canvas


ATTACKS = Figure(
    name="attacks",
    caption="Every attack by itself.",
    applies=readable,
    draw=_draw,
    style={"font.size": 8},
)
