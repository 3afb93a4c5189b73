"""In a world with a known answer: attacks against the best possible reconstruction."""

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, NullFormatter

from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures.axes import PLAIN
from smashbench.bench.report.figures.base import Figure, inches, write_title
from smashbench.bench.report.style import Mark
from smashbench.bench.report.text import percent


def _solved(board: Board) -> list[Row]:
    """The noisy rows whose best possible reconstruction is known."""
    rows = [row for row in board.complete if row.role == "baseline" and row.noise]
    return sorted((row for row in rows if row.optimum), key=lambda row: row.noise)


def _draw(board: Board) -> Canvas:
    """MSE of every attack over the noise, with the optimum and the lower bound, and the excess
    over the optimum."""
    rows = _solved(board)
    noise = [row.noise for row in rows]
    least = np.array([row.optimum for row in rows], float)
    first = rows[0].on_one_release
    names = [name for name in first if all(name in row.on_one_release for row in rows)]
    canvas = Canvas(figsize=inches(9, 4.2), layout="constrained")
    left, right = canvas.subplots(1, 2)
    left.plot(noise, least, color="black", linewidth=2, label="best possible")
    bound = np.array([row.bound for row in rows], float)
    left.plot(noise, bound, color="black", linestyle=":", label="lower bound")
    right.axhline(0, color="black", linewidth=2)
    right.plot(noise, 100 * (bound / least - 1), color="black", linestyle=":")
    for number, name in enumerate(names, start=1):
        error = np.array([row.attacks[name].estimates["mse"].mean for row in rows])
        style = {**Mark(number).line, "markersize": 4, "linewidth": 1}
        left.plot(noise, error, label=name, **style)
        right.plot(noise, 100 * (error / least - 1), **style)
    left.set_yscale("log")
    left.set_ylabel("MSE")
    right.set_ylabel("MSE over the best possible, %")
    right.set_yscale("symlog", linthresh=5)
    ticks = [-20, -10, -5, -2, 0, 2, 5, 10, 20, 50, 100, 500, 2000, 10000]
    right.yaxis.set_major_locator(FixedLocator(ticks))
    right.yaxis.set_major_formatter(PLAIN)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(noise))
        axes.xaxis.set_major_formatter(PLAIN)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("standard deviation of the noise")
    canvas.legend(loc="outside right upper")
    nearest = [
        min(row.attacks[name].estimates["mse"].mean for name in names) / best - 1
        for row, best in zip(rows, least, strict=True)
    ]
    span = f"{percent(min(nearest)).removesuffix(' %')} to {percent(max(nearest))}"
    title = f"{board.suite.name}: the best attack is {span} above the best possible"
    write_title(canvas, title)
    return canvas


OPTIMUM = Figure(
    name="optimum",
    caption="Attacks against the best possible reconstruction.",
    applies=lambda board: bool(_solved(board)),
    draw=_draw,
)
