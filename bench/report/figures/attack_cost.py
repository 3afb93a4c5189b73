"""What more time buys an attack: its error against its cost."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from smashbench.bench.experiment.metrics import METRICS
from smashbench.bench.report.board import Board, Row
from smashbench.bench.report.figures.axes import PLAIN
from smashbench.bench.report.figures.base import Figure, small_multiples, write_title
from smashbench.bench.report.style import Mark
from smashbench.bench.report.text import number

PANELS = 4
"""Rows that are drawn: the first undefended and noisy ones."""
LEGEND, MANY = 1.8, 14
"""Inches of the legend's width, on a screen; entries from which on it is set in small type."""


def _baselines(board: Board) -> list[Row]:
    """The undefended and the noisy rows that something better than a floor attacked."""
    rows = [row for row in board.complete if row.role in ("control", "baseline")]
    return [row for row in rows if any(a.kind != "floor" for a in row.attacks.values())]


def _draw(board: Board) -> Canvas:
    """MSE of every attack over the seconds it took, a panel per undefended or noisy row; the line
    is the best that can be had within a time."""
    rows = _baselines(board)
    names = [name for name, attack in rows[0].attacks.items() if attack.kind != "floor"]
    rows = [row for row in rows if set(names) & set(row.attacks)][:PANELS]
    names.sort(key=lambda name: rows[0].attacks[name].seconds)
    numbers = {name: n for n, name in enumerate(names, start=1)}
    width = LEGEND + (4.2 if len(rows) < 3 else 3.2) * len(rows)
    canvas, grid = small_multiples(len(rows), len(rows), (width / len(rows), 3.9), (6.5, 0), 1)
    edge = 1 - LEGEND / width
    canvas.subplots_adjust(right=edge)
    for axes, row in zip(grid, rows, strict=True):
        _panel(axes, row, numbers)
    write_title(canvas, _message(board, rows[0]))
    handles = [
        Line2D([], [], linestyle="", markersize=9, label=f"{n} {name}", **_mark(rows[0], name))
        for name, n in numbers.items()
    ]
    corner = grid[0].get_position().y1
    small: Any = (
        {"fontsize": "small", "labelspacing": 0.25, "markerscale": 0.6} if len(names) > MANY else {}
    )
    place: Any = {"loc": "upper left", "bbox_to_anchor": (edge, corner), "alignment": "left"}
    canvas.legend(handles=handles, **place, **small)
    return canvas


def _message(board: Board, row: Row) -> str:
    """What the strongest attack reaches in which time, and the best closed form."""
    told = []
    for kind in ("trained", "closed_form"):
        if name := row.strongest(kind):
            attack = row.attacks[name]
            error = number(attack.estimates["mse"].mean, METRICS["mse"].digits)
            digits = 2 if attack.seconds < 0.1 else 1 if attack.seconds < 10 else 0
            seconds = number(attack.seconds, digits)
            told.append(f"{name} reaches {error} in {seconds} s")
    return f"{board.suite.name}, {row.title}: {', '.join(told)}"


def _mark(row: Row, name: str) -> dict[str, Any]:
    """Closed forms are orange and trained attacks blue; repeated releases are hollow."""
    mark = Mark(1 if row.attacks[name].kind == "closed_form" else 2)
    colour = mark.ink.figure
    face = colour if row.attacks[name].threat.one_release else "white"
    return {"color": colour, "marker": mark.shape.marker, "markerfacecolor": face}


def _panel(axes: Axes, row: Row, numbers: dict[str, int]) -> None:
    attacks = {name: row.attacks[name] for name in numbers if name in row.attacks}
    names = sorted(attacks, key=lambda name: attacks[name].seconds)
    mse = {name: attacks[name].estimates["mse"] for name in names}
    at = {name: max(attacks[name].seconds, 0.01) for name in names}
    single = [name for name in names if attacks[name].threat.one_release]
    best = np.minimum.accumulate([mse[name].mean for name in single])
    axes.step([at[name] for name in single], best, where="post", color="#999999", linewidth=1)
    styles = {name: _mark(row, name) for name in names}
    bars = np.array([mse[name][1:] for name in names]).T
    bars[0] = bars[0].clip(min(each.mean for each in mse.values()) / 4)  # not 0
    colours = [style["color"] for style in styles.values()]
    axes.vlines([at[name] for name in names], bars[0], bars[1], colours, linewidth=0.6)
    for name, style in styles.items():
        axes.plot(at[name], mse[name].mean, **style, markersize=9)
        colour = "white" if attacks[name].threat.one_release else style["color"]
        centred: Any = {"ha": "center", "va": "center_baseline", "fontsize": 6, "zorder": 5}
        axes.text(at[name], mse[name].mean, str(numbers[name]), color=colour, **centred)
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(PLAIN)
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("seconds to fit and reconstruct")
    axes.set_ylabel("MSE")
    axes.set_title(row.label, loc="left", fontsize=9)


ATTACK_COST = Figure(
    name="attack_cost",
    caption="What more time buys an attack.",
    applies=lambda board: bool(_baselines(board)),
    draw=_draw,
)
