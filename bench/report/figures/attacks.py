"""Every attack by itself."""

from collections import Counter

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from smashbench.bench.report.board import Board
from smashbench.bench.report.figures.base import Figure, small_multiples, write_title
from smashbench.bench.report.style import Mark, marks
from smashbench.bench.report.view import panels

WIDTHS = (3, 4, 2)
"""Numbers of columns to choose from: that which leaves the fewest places empty."""


def _draw(board: Board) -> Canvas:
    """Accuracy against the MSE of every attack, a panel each on the same scale, a curve per
    defense; the place that is left is the legend's."""
    attacks = list(dict.fromkeys(name for row in board.complete for name in row.attacks))
    places = len(attacks) + 1
    columns = min(min(WIDTHS, key=lambda n: -places % n), places)
    canvas, grid = small_multiples(places, columns, (2.9, 2.3), (1.5, 3), 1, share=True)
    for axes in grid[len(attacks) :]:
        axes.set_axis_off()
    for axes in grid[max(0, len(attacks) - columns) : len(attacks)]:
        axes.tick_params(labelbottom=True)
    styles, names = _styles(board)
    for attack, axes in zip(attacks, grid, strict=False):
        for name, rows in board.by_defense.items():
            means = [
                (row.accuracy.mean, row.attacks[attack].estimates["mse"].mean)
                for row in rows
                if attack in row.attacks
            ]
            style = styles[name].line | {"markersize": 4, "linewidth": 1}
            axes.plot(*np.reshape(means, (-1, 2)).T, **style)
        axes.set_title(attack, loc="left", fontsize="medium")
        axes.set_ylim(bottom=0)
    canvas.supxlabel("test accuracy", fontsize="medium")
    canvas.supylabel("MSE (higher is more private)", x=0.004, fontsize="medium")
    handles = [
        Line2D([], [], label=name, **mark.line | {"markersize": 4}) for name, mark in names.items()
    ]
    grid[len(attacks)].legend(handles=handles, loc="center left")
    write_title(canvas, _message(board))
    return canvas


def _styles(board: Board) -> tuple[dict[str, Mark], dict[str, Mark]]:
    """Of every defense, and what the legend names: defenses, or groups where there are many."""
    shown, styles = board.by_defense, marks(board)
    if len(panels(board)) == 1:
        return styles, {name: styles[name] for name in shown}
    groups = dict.fromkeys(rows[0].group for rows in shown.values() if rows[0].role == "defense")
    of_group = {group: Mark(number) for number, group in enumerate(groups, start=2)}
    found = {
        name: of_group[rows[0].group] if rows[0].role == "defense" else styles[name]
        for name, rows in shown.items()
    }
    common = {name: mark for name, mark in found.items() if shown[name][0].role != "defense"}
    return found, common | of_group


def _message(board: Board) -> str:
    worst = Counter(row.worst_attack() for row in board.complete)
    name, times = worst.most_common(1)[0]
    rows = len(board.complete)
    share = "every row" if times == rows else f"{times} of {rows} rows"
    return f"{board.suite.name}: {name} is the strongest attack on {share}"


ATTACKS = Figure(
    name="attacks",
    caption="Every attack by itself: what it leaves of each defense, on one scale.",
    applies=lambda board: True,
    draw=_draw,
    style={"font.size": 8},
)
